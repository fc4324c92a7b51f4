/* The public interface over a compiler made for the test: errors, ownership, cache, callbacks, contexts, cancelling. */
/* rooms: base target rt rt/host api */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "compile/compile.h"
#include "rt_build.h"
#include "tilewright.h"

enum { M = 37 };
static float bias[M];
static int compiled; /* how often the compiler was called */
static char seen_folder[100];
static bool fail_compile;

/* The compiler: "model" gives rt_build.h's example; anything else is malformed. */
enum tw_code tw_compile(const void *model, int64_t bytes, const char *folder, const struct tw_compile_options *o,
			void **image, int64_t *image_bytes, struct tw_error *e)
{
	compiled++;
	snprintf(seen_folder, sizeof(seen_folder), "%s", folder ? folder : "none");
	if (o->log)
		o->log(o->log_arg, TW_LOG_INFO, "compiling");
	if ((o->cancel && o->cancel(o->cancel_arg)) || (o->progress && o->progress(o->progress_arg, "kernels", 1, 2))) {
		tw_error_set(e, TW_ERR_CANCELLED, "cancelled");
		return TW_ERR_CANCELLED;
	}
	if (bytes != 5 || memcmp(model, "model", 5) != 0) {
		tw_error_set(e, TW_ERR_MODEL, "%lld strange bytes", (long long)bytes);
		return TW_ERR_MODEL;
	}
	if (fail_compile) {
		tw_error_set(e, TW_ERR_TOOLCHAIN, "no compiler");
		return TW_ERR_TOOLCHAIN;
	}
	struct twrt_plan p;
	rt_example(&p, bias, M);
	const char *const keys[] = {"nodes", "meta:author", "fixed"}, *const values[] = {"4", "somebody",
											 o->nfixed ? o->fixed_names[0]
												   : "none"};
	p.nmeta = 3;
	p.meta_keys = keys;
	p.meta_values = values;
	const struct twrt_code code = rt_kernels();
	return twrt_image_write(&p, 1, &code, NULL, NULL, image, image_bytes, e);
}

enum tw_code tw_compile_key(const void *model, int64_t bytes, const char *folder, const struct tw_compile_options *o,
			    char key[33], struct tw_error *e)
{
	(void)folder, (void)e;
	char text[200];
	snprintf(text, sizeof(text), "%.*s/%s", (int)bytes, (const char *)model, o->nfixed ? o->fixed_names[0] : "");
	tw_hash128_hex(text, strlen(text), key);
	return TW_ERR_OK;
}

enum tw_code tw_check(const void *model, int64_t bytes, const char *folder, const struct tw_compile_options *o,
		      char **table, struct tw_error *e)
{
	(void)folder, (void)o;
	if (bytes == 0) {
		tw_error_set(e, TW_ERR_MODEL, "empty");
		return TW_ERR_MODEL;
	}
	*table = strndup(model, (size_t)bytes);
	tw_error_set(e, TW_ERR_UNSUPPORTED, "not all");
	return TW_ERR_UNSUPPORTED;
}

/* Gives the first input back under the name "same". */
enum tw_code tw_interpret(const void *model, int64_t bytes, const char *folder, const struct tw_compile_options *o,
			  int ninputs, const struct tw_dense *inputs, double most, tw_take *take, void *arg,
			  struct tw_error *e)
{
	(void)model, (void)folder, (void)o;
	if (bytes != 5 || ninputs < 1 || most < 1) {
		tw_error_set(e, TW_ERR_UNSUPPORTED, "not this");
		return TW_ERR_UNSUPPORTED;
	}
	take(arg, "same", &inputs[0]);
	return TW_ERR_OK;
}

enum tw_code tw_describe_machine(char **text, struct tw_error *e)
{
	(void)e;
	*text = strdup("cpu: one of them\n");
	return TW_ERR_OK;
}

enum tw_code tw_describe_space(const char *schedule, char **text, struct tw_error *e)
{
	(void)e;
	*text = strdup(schedule);
	return TW_ERR_OK;
}

static char folder[] = "/tmp/tilewright-test-XXXXXX";
static char path[100];

static int start(void **state)
{
	(void)state;
	char cache[100];
	if (mkdtemp(folder) == NULL)
		return 1;
	snprintf(cache, sizeof(cache), "%s/cache", folder);
	snprintf(path, sizeof(path), "%s/m.onnx", folder);
	setenv("TILEWRIGHT_CACHE", cache, 1);
	for (int i = 0; i < M; i++)
		bias[i] = (float)i;
	FILE *f = fopen(path, "w");
	return f == NULL || fputs("model", f) < 0 || fclose(f);
}

static int end(void **state)
{
	(void)state;
	char command[100];
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	return system(command);
}

static void good(tilewright_status s)
{
	if (s != TILEWRIGHT_OK)
		fail_msg("%s", tilewright_last_error());
}

#define WRONG(call, status, part)                                                                                      \
	do {                                                                                                           \
		assert_int_equal(call, status);                                                                        \
		if (strstr(tilewright_last_error(), part) == NULL)                                                     \
			fail_msg("\"%s\" does not say \"%s\"", tilewright_last_error(), part);                         \
	} while (0)

static void run_once(tilewright_model *m, int n)
{
	tilewright_context *c;
	good(tilewright_create_context(m, 2, &c));
	assert_int_equal(tilewright_count_threads(c), 2);
	float a[4 * M], b[4 * M], mine[4 * M];
	for (int i = 0; i < n * M; i++) {
		a[i] = (float)i;
		b[i] = 1;
	}
	const int64_t dims[] = {n, M};
	good(tilewright_set_input(c, tilewright_find_input(m, "a"), TILEWRIGHT_F32, 2, dims, a));
	good(tilewright_set_input(c, tilewright_find_input(m, "b"), TILEWRIGHT_F32, 2, dims, b));
	tilewright_tensor t;
	good(tilewright_infer_output(c, 0, &t));
	assert_int_equal(t.bytes, sizeof(float) * (size_t)(n * M));
	assert_null(t.data);
	good(tilewright_prepare(c));
	WRONG(tilewright_get_output(c, 0, &t), TILEWRIGHT_ERROR_USAGE, "before a run");
	good(tilewright_set_output(c, 0, mine, sizeof(mine)));
	good(tilewright_set_profile(c, 1));
	good(tilewright_run(c));
	good(tilewright_get_output(c, 0, &t));
	assert_ptr_equal(t.data, mine);
	assert_int_equal(t.rank, 1);
	assert_int_equal(t.bytes, sizeof(float) * (size_t)(n * M));
	for (int i = 0; i < n * M; i++)
		assert_true(mine[i] == 2 * (a[i] + 1) + bias[i % M]);
	assert_true(tilewright_get_arena_bytes(c) >= (int64_t)t.bytes);
	double ms;
	int64_t runs;
	good(tilewright_get_step_time(c, 1, &ms, &runs));
	assert_int_equal(runs, 1);
	WRONG(tilewright_get_step_time(c, 3, &ms, &runs), TILEWRIGHT_ERROR_USAGE, "step 3");
	tilewright_free_context(c);
}

static void model_facts(void **state)
{
	(void)state;
	tilewright_model *m;
	good(tilewright_compile_file(path, NULL, &m));
	assert_int_equal(tilewright_count_inputs(m), 2);
	assert_int_equal(tilewright_count_outputs(m), 2);
	const tilewright_port *in = tilewright_get_input_port(m, 1), *out = tilewright_get_output_port(m, 0);
	assert_string_equal(in->name, "b");
	assert_int_equal(in->type, TILEWRIGHT_F32);
	assert_int_equal(in->dims[0], -1);
	assert_string_equal(in->dim_text[0], "n");
	assert_string_equal(out->dim_text[0], "n * m");
	assert_null(tilewright_get_input_port(m, 2));
	assert_null(tilewright_get_output_port(m, -1));
	assert_int_equal(tilewright_find_input(m, "x"), -1);
	assert_int_equal(tilewright_find_output(m, "z"), 1);
	assert_int_equal(tilewright_count_symbols(m), 2);
	assert_string_equal(tilewright_get_symbol(m, 1), "m");
	assert_null(tilewright_get_symbol(m, 2));
	assert_string_equal(tilewright_get_metadata(m, "author"), "somebody");
	assert_null(tilewright_get_metadata(m, "nodes"));
	assert_string_equal(tilewright_get_fact(m, "nodes"), "4");
	assert_string_equal(tilewright_get_fact(m, "kernels"), "5");
	assert_null(tilewright_get_fact(m, "colour"));
	assert_int_equal(tilewright_count_steps(m), 3);
	tilewright_step s;
	good(tilewright_get_step(m, 0, &s));
	assert_string_equal(s.kind, "kernel");
	assert_string_equal(s.program, "k_add");
	WRONG(tilewright_get_step(m, 3, &s), TILEWRIGHT_ERROR_USAGE, "step 3");
	run_once(m, 3);
	tilewright_free_model(m);
}

static void cached(void **state)
{
	(void)state;
	good(tilewright_clear_cache());
	tilewright_model *m;
	const int before = compiled;
	for (int i = 0; i < 3; i++) {
		good(tilewright_compile_file(path, NULL, &m));
		assert_string_equal(tilewright_get_fact(m, "cached"), i ? "1" : "0");
		run_once(m, 2);
		tilewright_free_model(m);
	}
	assert_int_equal(compiled, before + 1);
	tilewright_options *o = tilewright_create_options();
	good(tilewright_fix_symbol(o, "n", 3)); /* another key */
	good(tilewright_compile_file(path, o, &m));
	assert_string_equal(tilewright_get_fact(m, "cached"), "0");
	assert_string_equal(tilewright_get_fact(m, "fixed"), "n");
	tilewright_free_model(m);
	good(tilewright_use_cache(o, 0));
	good(tilewright_compile_file(path, o, &m));
	assert_string_equal(tilewright_get_fact(m, "cached"), "0");
	tilewright_free_model(m);
	tilewright_free_options(o);
	good(tilewright_compile_memory("model", 5, "/somewhere", NULL, &m)); /* the same key as the file */
	assert_string_equal(tilewright_get_fact(m, "cached"), "1");
	tilewright_free_model(m);
	char *space = tilewright_describe_space("matmul");
	assert_string_equal(space, "matmul");
	tilewright_free_text(space);
	assert_null(tilewright_describe_space(NULL));
	/* a cache that cannot be used costs time only, and a warning */
	char *text = tilewright_describe_machine();
	assert_non_null(strstr(text, "cpu: one of them\n"));
	assert_non_null(strstr(text, "cached models: 2,"));
	tilewright_free_text(text);
}

static void note(void *arg, tilewright_log_level level, const char *text)
{
	snprintf(arg, 200, "%d %.150s", level, text);
}

static void no_cache_folder(void **state)
{
	(void)state;
	char *cache = strdup(getenv("TILEWRIGHT_CACHE")), said[200] = "";
	setenv("TILEWRIGHT_CACHE", "/dev/null/x", 1);
	tilewright_options *o = tilewright_create_options();
	good(tilewright_set_log(o, note, said));
	tilewright_model *m;
	good(tilewright_compile_file(path, o, &m));
	assert_non_null(strstr(said, "1 cannot use the cache"));
	tilewright_free_model(m);
	tilewright_free_options(o);
	setenv("TILEWRIGHT_CACHE", cache, 1);
	free(cache);
}

static void bundles(void **state)
{
	(void)state;
	tilewright_model *m, *again;
	char bundle[120];
	snprintf(bundle, sizeof(bundle), "%s/m.twb", folder);
	good(tilewright_compile_file(path, NULL, &m));
	good(tilewright_save_model(m, bundle));
	WRONG(tilewright_save_model(m, "/nowhere/m.twb"), TILEWRIGHT_ERROR_IO, "/nowhere/m.twb");
	tilewright_free_model(m);
	const int before = compiled;
	good(tilewright_load_file(bundle, &again));
	run_once(again, 1);
	tilewright_free_model(again);
	good(tilewright_compile_file(bundle, NULL, &again)); /* seen to be one */
	run_once(again, 1);
	tilewright_free_model(again);
	assert_int_equal(compiled, before);
	FILE *f = fopen(bundle, "r");
	static char bytes[1 << 17];
	const size_t n = fread(bytes + 1, 1, sizeof(bytes) - 1, f);
	fclose(f);
	good(tilewright_load_memory(bytes + 1, n, &again));
	run_once(again, 4);
	tilewright_free_model(again);
	WRONG(tilewright_load_memory(bytes + 1, n - 1, &again), TILEWRIGHT_ERROR_MODEL, "damaged");
	assert_null(again);
	WRONG(tilewright_load_file(path, &again), TILEWRIGHT_ERROR_MODEL, "not a bundle");
}

static int stop_at_once(void *arg)
{
	++*(int *)arg;
	return 1;
}

static int stop_progress(void *arg, const char *stage, int done, int all)
{
	assert_string_equal(stage, "kernels");
	*(int *)arg = 10 * done + all;
	return 1;
}

static void taken(void *arg, const char *name, const tilewright_tensor *t)
{
	assert_string_equal(name, "same");
	assert_int_equal(t->type, TILEWRIGHT_I32);
	assert_int_equal(t->bytes, 24);
	++*(int *)arg;
}

static void interpreted(void **state)
{
	(void)state;
	const int32_t data[6] = {0};
	int calls = 0;
	tilewright_tensor in = {.type = TILEWRIGHT_I32, .rank = 2, .dims = {2, 3}, .data = data, .bytes = sizeof(data)};
	good(tilewright_interpret_file(path, NULL, 1, &in, 1e6, taken, &calls));
	assert_int_equal(calls, 1);
	WRONG(tilewright_interpret_file(path, NULL, 1, &in, 0, taken, &calls), TILEWRIGHT_ERROR_UNSUPPORTED,
	      "not this");
	WRONG(tilewright_interpret_file(path, NULL, 1, NULL, 1e6, taken, &calls), TILEWRIGHT_ERROR_USAGE, "NULL");
	WRONG(tilewright_interpret_file("/no/such", NULL, 1, &in, 1e6, taken, &calls), TILEWRIGHT_ERROR_IO, "/no/such");
	in.bytes--;
	WRONG(tilewright_interpret_file(path, NULL, 1, &in, 1e6, taken, &calls), TILEWRIGHT_ERROR_INPUT, "input 0");
	in = (tilewright_tensor){.type = TILEWRIGHT_I32, .rank = 2, .dims = {INT64_MAX, INT64_MAX}, .data = data};
	WRONG(tilewright_interpret_file(path, NULL, 1, &in, 1e6, taken, &calls), TILEWRIGHT_ERROR_INPUT, "input 0");
	in.rank = 9;
	WRONG(tilewright_interpret_file(path, NULL, 1, &in, 1e6, taken, &calls), TILEWRIGHT_ERROR_INPUT, "input 0");
	assert_int_equal(calls, 1);
}

static void errors(void **state)
{
	(void)state;
	tilewright_model *m = (tilewright_model *)path;
	WRONG(tilewright_compile_file("/no/such/file", NULL, &m), TILEWRIGHT_ERROR_IO, "/no/such/file");
	assert_null(m);
	WRONG(tilewright_compile_file(folder, NULL, &m), TILEWRIGHT_ERROR_IO, "not a regular file");
	WRONG(tilewright_compile_file(NULL, NULL, &m), TILEWRIGHT_ERROR_USAGE, "NULL");
	WRONG(tilewright_compile_file(path, NULL, NULL), TILEWRIGHT_ERROR_USAGE, "NULL");
	WRONG(tilewright_compile_memory("mode", 4, NULL, NULL, &m), TILEWRIGHT_ERROR_MODEL, "4 strange bytes");
	assert_string_equal(seen_folder, "none");
	WRONG(tilewright_compile_memory(NULL, 0, NULL, NULL, &m), TILEWRIGHT_ERROR_MODEL, "0 strange bytes");
	tilewright_options *o = tilewright_create_options();
	good(tilewright_use_cache(o, 0));
	fail_compile = true;
	WRONG(tilewright_compile_file(path, o, &m), TILEWRIGHT_ERROR_TOOLCHAIN, "no compiler");
	fail_compile = false;
	assert_string_equal(seen_folder, folder);
	int asked = 0;
	good(tilewright_set_cancel(o, stop_at_once, &asked));
	WRONG(tilewright_compile_file(path, o, &m), TILEWRIGHT_ERROR_CANCELLED, "cancelled");
	assert_int_equal(asked, 1);
	good(tilewright_set_cancel(o, NULL, NULL));
	good(tilewright_set_progress(o, stop_progress, &asked));
	WRONG(tilewright_compile_file(path, o, &m), TILEWRIGHT_ERROR_CANCELLED, "cancelled");
	assert_int_equal(asked, 12);
	WRONG(tilewright_set_isa(o, "z80"), TILEWRIGHT_ERROR_USAGE, "z80");
	good(tilewright_set_isa(o, "scalar"));
	good(tilewright_set_isa(o, NULL));
	WRONG(tilewright_set_jobs(o, -1), TILEWRIGHT_ERROR_USAGE, "-1");
	WRONG(tilewright_fix_symbol(o, "", 1), TILEWRIGHT_ERROR_USAGE, "name");
	WRONG(tilewright_fix_symbol(o, "n", -1), TILEWRIGHT_ERROR_USAGE, "0 or more");
	good(tilewright_set_dump(o, "/x"));
	good(tilewright_set_dump(o, NULL));
	WRONG(tilewright_use_cache(NULL, 1), TILEWRIGHT_ERROR_USAGE, "NULL");
	tilewright_free_options(o);
	char *table;
	WRONG(tilewright_check_file(path, NULL, &table), TILEWRIGHT_ERROR_UNSUPPORTED, "not all");
	assert_string_equal(table, "model");
	tilewright_free_text(table);
	WRONG(tilewright_check_file("/dev/null", NULL, &table), TILEWRIGHT_ERROR_IO, "regular");
	assert_null(table);
	tilewright_context *c;
	WRONG(tilewright_create_context(NULL, 0, &c), TILEWRIGHT_ERROR_USAGE, "NULL");
	WRONG(tilewright_run(NULL), TILEWRIGHT_ERROR_USAGE, "NULL");
	good(tilewright_compile_file(path, NULL, &m));
	WRONG(tilewright_create_context(m, -1, &c), TILEWRIGHT_ERROR_USAGE, "threads");
	good(tilewright_create_context(m, 1, &c));
	WRONG(tilewright_run(c), TILEWRIGHT_ERROR_INPUT, "\"a\" was not given");
	WRONG(tilewright_set_input(c, 0, TILEWRIGHT_F32, 9, NULL, path), TILEWRIGHT_ERROR_USAGE, "9 dimensions");
	WRONG(tilewright_set_input(c, 7, TILEWRIGHT_F32, 0, NULL, path), TILEWRIGHT_ERROR_USAGE, "no input 7");
	WRONG(tilewright_set_output(c, 2, NULL, 0), TILEWRIGHT_ERROR_USAGE, "no output 2");
	tilewright_tensor t;
	WRONG(tilewright_infer_output(c, 0, &t), TILEWRIGHT_ERROR_INPUT, "not given");
	tilewright_free_context(c);
	tilewright_free_model(m);
	tilewright_free_context(NULL);
	tilewright_free_model(NULL);
	tilewright_free_options(NULL);
	assert_string_equal(tilewright_status_text(TILEWRIGHT_ERROR_MEMORY), "out of memory");
	assert_int_equal(tilewright_status_exit(TILEWRIGHT_ERROR_USAGE), 2);
	assert_int_equal(tilewright_status_exit((tilewright_status)99), 3);
	assert_string_equal(tilewright_type_name(TILEWRIGHT_BF16), "bf16");
	assert_int_equal(tilewright_type_bytes((tilewright_type)99), 0);
}

static void *other_thread(void *arg)
{
	(void)arg;
	if (tilewright_last_error()[0] != '\0') /* its own, still empty */
		return "not empty";
	tilewright_model *m;
	tilewright_compile_file("/other", NULL, &m);
	return strstr(tilewright_last_error(), "/other") ? NULL : "not its own";
}

static void error_per_thread(void **state)
{
	(void)state;
	tilewright_model *m;
	WRONG(tilewright_compile_file("/mine", NULL, &m), TILEWRIGHT_ERROR_IO, "/mine");
	pthread_t id;
	void *bad;
	pthread_create(&id, NULL, other_thread, NULL);
	pthread_join(id, &bad);
	assert_null(bad);
	assert_non_null(strstr(tilewright_last_error(), "/mine"));
}

static void *cancel_later(void *arg)
{
	nanosleep(&(struct timespec){.tv_nsec = 3000000}, NULL);
	tilewright_cancel(arg);
	return NULL;
}

static void cancelled_from_elsewhere(void **state)
{
	(void)state;
	tilewright_model *m;
	tilewright_context *c;
	good(tilewright_compile_file(path, NULL, &m));
	good(tilewright_create_context(m, 2, &c));
	static float a[100 * M], b[100 * M];
	const int64_t dims[] = {100, M};
	good(tilewright_set_input(c, 0, TILEWRIGHT_F32, 2, dims, a));
	good(tilewright_set_input(c, 1, TILEWRIGHT_F32, 2, dims, b));
	tilewright_cancel(c); /* before: counts for the next run */
	WRONG(tilewright_run(c), TILEWRIGHT_ERROR_CANCELLED, "cancelled");
	good(tilewright_run(c));
	pthread_t id;
	pthread_create(&id, NULL, cancel_later, c);
	tilewright_status s = TILEWRIGHT_OK;
	for (int i = 0; i < 10000000 && s == TILEWRIGHT_OK; i++)
		s = tilewright_run(c);
	assert_int_equal(s, TILEWRIGHT_ERROR_CANCELLED);
	pthread_join(id, NULL);
	good(tilewright_run(c));
	tilewright_free_context(c);
	tilewright_free_model(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(model_facts),	    cmocka_unit_test(cached),
		cmocka_unit_test(no_cache_folder),  cmocka_unit_test(bundles),
		cmocka_unit_test(errors),	    cmocka_unit_test(interpreted),
		cmocka_unit_test(error_per_thread), cmocka_unit_test(cancelled_from_elsewhere)};
	return cmocka_run_group_tests(tests, start, end);
}
