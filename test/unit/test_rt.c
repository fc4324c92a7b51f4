/* The runtime from an image to outputs: plans made by hand, kernels from C text. */
/* rooms: base rt rt/host */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "rt/rt_int.h"
#include "rt_build.h"

static struct tw_error error;

static void good(enum tw_code code)
{
	if (code != TW_ERR_OK)
		fail_msg("%s", error.text);
}

static void fill(float *at, int64_t n, uint32_t seed)
{
	for (int64_t i = 0; i < n; i++) {
		seed = seed * 1664525u + 1013904223u;
		at[i] = (float)(int32_t)(seed >> 8) / 65536.0f - 128.0f;
	}
}

static int64_t eval(const int64_t *code, int n, bool *bad)
{
	const struct twrt_expr x = {n, code};
	const int64_t symbols[] = {7, -3};
	*bad = false;
	assert_true(twrt_expr_valid(&x, 2));
	return twrt_expr_eval(&x, symbols, bad);
}
#define EVAL(bad, ...) eval((const int64_t[]){__VA_ARGS__}, (int)(sizeof((int64_t[]){__VA_ARGS__}) / 8), bad)
#define P	       TWRT_PUSH
#define S	       TWRT_SYM

static void expressions(void **state)
{
	(void)state;
	bool bad;
	assert_int_equal(EVAL(&bad, S, 0, S, 1, TWRT_ADD), 4);
	assert_int_equal(EVAL(&bad, S, 0, S, 1, TWRT_SUB), 10);
	assert_int_equal(EVAL(&bad, S, 0, S, 1, TWRT_MUL), -21);
	assert_int_equal(EVAL(&bad, P, -7, P, 2, TWRT_FLOORDIV), -4);
	assert_int_equal(EVAL(&bad, P, -7, P, 2, TWRT_TRUNCDIV), -3);
	assert_int_equal(EVAL(&bad, P, -7, P, 2, TWRT_CEILDIV), -3);
	assert_int_equal(EVAL(&bad, P, 7, P, 2, TWRT_CEILDIV), 4);
	assert_int_equal(EVAL(&bad, P, 7, P, -2, TWRT_CEILDIV), -3);
	assert_int_equal(EVAL(&bad, P, -7, P, 2, TWRT_FLOORMOD), 1);
	assert_int_equal(EVAL(&bad, P, -7, P, 2, TWRT_TRUNCMOD), -1);
	assert_int_equal(EVAL(&bad, P, 65, P, 64, TWRT_ROUNDUP), 128);
	assert_int_equal(EVAL(&bad, P, 65, P, 64, TWRT_MIN), 64);
	assert_int_equal(EVAL(&bad, P, 65, P, 64, TWRT_MAX), 65);
	assert_int_equal(EVAL(&bad, P, 1, P, 2, TWRT_LT, P, 1, P, 2, TWRT_EQ, TWRT_OR), 1);
	assert_int_equal(EVAL(&bad, P, 1, P, 2, TWRT_LE, P, 1, P, 2, TWRT_NE, TWRT_AND, TWRT_NOT), 0);
	assert_int_equal(EVAL(&bad, P, 0, P, 5, P, 6, TWRT_SELECT), 6);
	assert_int_equal(EVAL(&bad, P, 1, P, 5, P, 6, TWRT_SELECT), 5);
	assert_int_equal(EVAL(&bad, P, 5, TWRT_NEG), -5);
	assert_false(bad);
	EVAL(&bad, P, INT64_MAX, P, 2, TWRT_MUL);
	assert_true(bad);
	EVAL(&bad, P, INT64_MAX, P, 1, TWRT_ADD);
	assert_true(bad);
	EVAL(&bad, P, INT64_MIN, TWRT_NEG);
	assert_true(bad);
	EVAL(&bad, P, INT64_MIN, P, -1, TWRT_FLOORDIV);
	assert_true(bad);
	EVAL(&bad, P, INT64_MAX, P, 64, TWRT_ROUNDUP);
	assert_true(bad);
	EVAL(&bad, P, 1, P, 0, TWRT_TRUNCDIV);
	assert_false(bad);
	int64_t deep[3 * 200];
	for (int i = 0; i < 200; i++) {
		deep[2 * i] = P;
		deep[2 * i + 1] = i;
		deep[400 + i] = TWRT_ADD;
	}
	const struct twrt_expr wrong[] = {{1, (const int64_t[]){TWRT_ADD}},
					  {2, (const int64_t[]){S, 2}},
					  {2, (const int64_t[]){S, -1}},
					  {1, (const int64_t[]){P}},
					  {4, (const int64_t[]){P, 1, P, 2}},
					  {3, (const int64_t[]){P, 1, 99}},
					  {-1, deep},
					  {599, deep},
					  {5000, deep},
					  {3, (const int64_t[]){P, 1, -1}}};
	for (int i = 0; i < TW_COUNT(wrong); i++)
		assert_false(twrt_expr_valid(&wrong[i], 2));
	char text[64];
	const char *const names[] = {"h", "w"};
	twrt_expr_text(&(struct twrt_expr){8, (const int64_t[]){P, 2, S, 0, TWRT_MUL, S, 1, TWRT_ADD}}, names, text,
		       sizeof(text));
	assert_string_equal(text, "(2 * h) + w");
	twrt_expr_text(&(struct twrt_expr){8, (const int64_t[]){P, 2, S, 0, TWRT_MUL, S, 1, TWRT_ADD}}, names, text, 6);
	assert_string_equal(text, "(2 * ");
}

static void check_example(struct twrt_context *c, int64_t n, int64_t m, const float *w, uint32_t seed, bool own)
{
	float *a = malloc(4 * (size_t)(n * m) + 4), *b = malloc(4 * (size_t)(n * m) + 4),
	      *y = malloc(4 * (size_t)(n * m) + 4), *z = malloc(4 * (size_t)(n * m) + 4);
	fill(a, n * m, seed);
	fill(b, n * m, seed + 1);
	struct tw_error e;
	assert_int_equal(twrt_set_input(c, 0, TWRT_F32, 2, (int64_t[]){n, m}, a, &e), TW_ERR_OK);
	assert_int_equal(twrt_set_input(c, 1, TWRT_F32, 2, (int64_t[]){n, m}, b, &e), TW_ERR_OK);
	assert_int_equal(twrt_set_output(c, 0, own ? NULL : y, 4 * n * m, &e), TW_ERR_OK);
	assert_int_equal(twrt_set_output(c, 1, own ? NULL : z, 4 * n * m, &e), TW_ERR_OK);
	const enum tw_code code = twrt_run(c, NULL, NULL, &e);
	if (code != TW_ERR_OK)
		fail_msg("%s", e.text);
	for (int i = 0; i < 2; i++) {
		enum twrt_type type;
		int rank;
		int64_t dims[TWRT_MAX_RANK];
		const void *data;
		assert_int_equal(twrt_output(c, i, &type, &rank, dims, &data, &e), TW_ERR_OK);
		assert_int_equal(type, TWRT_F32);
		assert_int_equal(rank, 1);
		assert_int_equal(dims[0], n * m);
		if (!own)
			assert_ptr_equal(data, i ? z : y);
		for (int64_t k = 0; k < n * m; k++)
			if (((const float *)data)[k] != (i ? a[k] : 2 * (a[k] + b[k]) + w[k % m]))
				fail_msg("output %d [%d] is %g", i, (int)k, (double)((const float *)data)[k]);
	}
	free(a);
	free(b);
	free(y);
	free(z);
}

enum { M = 37 };
static float bias[M];

static struct twrt_model *example(void)
{
	fill(bias, M, 9);
	struct twrt_plan p;
	rt_example(&p, bias, M);
	struct twrt_model *m = rt_open(&p);
	assert_non_null(m);
	return m;
}

static void runs(void **state)
{
	(void)state;
	struct twrt_model *m = example();
	assert_string_equal(twrt_model_plan(m)->meta_values[0], "4");
	for (int threads = 1; threads <= 3; threads += 2) {
		struct twrt_context *c;
		good(twrt_context_new(m, threads, &c, &error));
		for (int n = 0; n < 60; n += 7)
			check_example(c, n, M, bias, (uint32_t)n, n % 2);
		/* in place: of two temporaries, one lives */
		assert_int_equal(twrt_context_arena_bytes(c), (4 * 56 * M + 63) / 64 * 64);
		twrt_context_free(c);
	}
	twrt_model_close(m);
}

/* Counts what the runtime asks of the system; without sanitizers only, which bring their own functions. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
static _Atomic long allocations;
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_memalign(size_t, size_t);
void *malloc(size_t n)
{
	allocations++;
	return __libc_malloc(n);
}
void *calloc(size_t n, size_t size)
{
	allocations++;
	return __libc_calloc(n, size);
}
int posix_memalign(void **at, size_t align, size_t n)
{
	allocations++;
	*at = __libc_memalign(align, n);
	return *at == NULL;
}
#else
static long allocations;
#endif

static void seen_sizes_allocate_nothing(void **state)
{
	(void)state;
	struct twrt_model *m = example();
	struct twrt_context *c;
	good(twrt_context_new(m, 2, &c, &error));
	static float a[64 * M], b[64 * M];
	for (int round = 0; round < 3; round++) {
		const long before = allocations;
		for (int n = 60; n > 50; n--) {
			good(twrt_set_input(c, 0, TWRT_F32, 2, (int64_t[]){n, M}, a, &error));
			good(twrt_set_input(c, 1, TWRT_F32, 2, (int64_t[]){n, M}, b, &error));
			good(twrt_run(c, NULL, NULL, &error));
		}
		if (round > 0)
			assert_int_equal(allocations, before);
	}
	twrt_context_free(c);
	twrt_model_close(m);
}

static bool yes(void *arg)
{
	return ++*(int *)arg == 2;
}

#define WRONG(call, expected, part)                                                                                    \
	do {                                                                                                           \
		assert_int_equal(call, expected);                                                                      \
		assert_non_null(strstr(error.text, part));                                                             \
	} while (0)

static void refusals(void **state)
{
	(void)state;
	struct twrt_model *m = example();
	struct twrt_context *c;
	good(twrt_context_new(m, 1, &c, &error));
	static float data[8 * M], out[8 * M];
	const int64_t dims[] = {8, M}, other[] = {7, M}, narrow[] = {8, M - 1}, negative[] = {-1, M},
		      huge[] = {INT64_MAX / 2, M};
	WRONG(twrt_run(c, NULL, NULL, &error), TW_ERR_INPUT, "\"a\" was not given");
	WRONG(twrt_set_input(c, 2, TWRT_F32, 2, dims, data, &error), TW_ERR_USAGE, "no input 2");
	WRONG(twrt_set_input(c, 0, TWRT_I32, 2, dims, data, &error), TW_ERR_INPUT, "type i32; the model wants f32");
	WRONG(twrt_set_input(c, 0, TWRT_F32, 1, dims, data, &error), TW_ERR_INPUT, "1 dimensions; the model wants 2");
	WRONG(twrt_set_input(c, 0, TWRT_F32, 2, negative, data, &error), TW_ERR_INPUT, "dimension 0 is -1");
	WRONG(twrt_set_input(c, 0, TWRT_F32, 2, huge, data, &error), TW_ERR_INPUT, "too large");
	WRONG(twrt_set_input(c, 0, TWRT_F32, 2, dims, NULL, &error), TW_ERR_USAGE, "no data");
	WRONG(twrt_set_input(c, 0, TWRT_F32, 2, dims, (char *)data + 1, &error), TW_ERR_USAGE, "multiple");
	good(twrt_set_input(c, 0, TWRT_F32, 2, dims, data, &error));
	good(twrt_set_input(c, 1, TWRT_F32, 2, other, data, &error));
	WRONG(twrt_run(c, NULL, NULL, &error), TW_ERR_INPUT,
	      "input \"b\": dimension 0 is 7; the model wants n, which the other sizes make 8");
	enum twrt_type type;
	int rank;
	int64_t shape[TWRT_MAX_RANK];
	const void *result;
	WRONG(twrt_output(c, 0, &type, &rank, shape, &result, &error), TW_ERR_USAGE, "before a run");
	good(twrt_set_input(c, 0, TWRT_F32, 2, narrow, data, &error));
	good(twrt_set_input(c, 1, TWRT_F32, 2, narrow, data, &error));
	WRONG(twrt_run(c, NULL, NULL, &error), TW_ERR_INPUT, "does not fit the bias");
	good(twrt_set_input(c, 0, TWRT_F32, 2, dims, data, &error));
	good(twrt_set_input(c, 1, TWRT_F32, 2, dims, data, &error));
	good(twrt_infer_output(c, 0, &rank, shape, &error));
	assert_int_equal(shape[0], 8 * M);
	good(twrt_set_output(c, 0, out, 16, &error));
	WRONG(twrt_run(c, NULL, NULL, &error), TW_ERR_USAGE, "has 16 bytes; 1184 are needed");
	good(twrt_set_output(c, 0, NULL, 0, &error));
	int asked = 0;
	WRONG(twrt_run(c, yes, &asked, &error), TW_ERR_CANCELLED, "cancelled");
	assert_int_equal(asked, 2);
	/* More memory than there is: refused before anything is touched. */
	const int64_t large[] = {(int64_t)1 << 46, M};
	good(twrt_set_input(c, 0, TWRT_F32, 2, large, data, &error));
	good(twrt_set_input(c, 1, TWRT_F32, 2, large, data, &error));
	WRONG(twrt_run(c, NULL, NULL, &error), TW_ERR_MEMORY, "no memory for intermediate results");
	check_example(c, 5, M, bias, 3, true); /* and the context still works */
	twrt_context_free(c);
	twrt_model_close(m);
}

static void *thread_main(void *arg)
{
	struct twrt_context *c;
	struct tw_error e;
	if (twrt_context_new(arg, 3, &c, &e) != TW_ERR_OK)
		return arg;
	for (int i = 0; i < 40; i++)
		check_example(c, 1 + i % 50, M, bias, (uint32_t)i, i % 2);
	twrt_context_free(c);
	return NULL;
}

static void several_threads(void **state)
{
	(void)state;
	struct twrt_model *m = example();
	pthread_t ids[4];
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&ids[i], NULL, thread_main, m), 0);
	for (int i = 0; i < 4; i++) {
		void *bad;
		pthread_join(ids[i], &bad);
		assert_null(bad);
	}
	twrt_model_close(m);
}

/* w2 = 2 w and w3 = w2 + w are made once; y = a + w3 with a of M elements. */
static void set_up(void **state)
{
	(void)state;
	fill(bias, M, 9);
	struct twrt_plan p;
	rt_example(&p, bias, M);
	const struct twrt_expr bytes = rt_num(4 * M), count = rt_num(M);
	struct twrt_buffer buffers[] = {{.kind = TWRT_CONST, .data = bias, .const_bytes = 4 * M},
					{.kind = TWRT_TEMP, .bytes = bytes},
					{.kind = TWRT_FOLDED, .bytes = bytes},
					{.kind = TWRT_INPUT, .bytes = bytes},
					{.kind = TWRT_OUTPUT, .bytes = bytes}};
	struct twrt_step steps[] = {rt_step(K_TWICE, count, 2, (int[]){0, 1}, 1, NULL),
				    rt_step(K_ADD, count, 3, (int[]){1, 0, 2}, 1, NULL),
				    rt_step(K_ADD, count, 3, (int[]){3, 2, 4}, 1, NULL)};
	struct twrt_io in = {"a", TWRT_F32, 2, {rt_sym(0), rt_sym(1)}, 3}, out = {"y", TWRT_F32, 1, {count}, 4};
	p.ninputs = p.noutputs = 1;
	p.inputs = &in;
	p.outputs = &out;
	p.nchecks = 0;
	p.nbuffers = TW_COUNT(buffers);
	p.buffers = buffers;
	p.steps = steps;
	p.nsteps = 3;
	p.nsetup = 2;
	const struct twrt_code code = rt_kernels();
	void *image;
	int64_t image_bytes;
	good(twrt_bake(&p, &code, 2, NULL, NULL, &image, &image_bytes, &error));
	struct twrt_model *m;
	good(twrt_model_open(image, image_bytes, TWRT_FREE, &m, &error));
	const struct twrt_plan *baked = twrt_model_plan(m);
	assert_int_equal(baked->nsteps, 1);
	assert_int_equal(baked->nsetup, 0);
	assert_int_equal(baked->buffers[0].const_bytes, 0); /* the original is of no use any more */
	assert_int_equal(baked->buffers[2].kind, TWRT_CONST);
	assert_int_equal(baked->buffers[2].const_bytes, 4 * M);
	struct twrt_context *c;
	good(twrt_context_new(m, 1, &c, &error));
	float a[M];
	fill(a, M, 4);
	good(twrt_set_input(c, 0, TWRT_F32, 2, (int64_t[]){1, M}, a, &error));
	good(twrt_run(c, NULL, NULL, &error));
	enum twrt_type type;
	int rank;
	int64_t dims[TWRT_MAX_RANK];
	const void *data;
	good(twrt_output(c, 0, &type, &rank, dims, &data, &error));
	for (int i = 0; i < M; i++)
		assert_true(((const float *)data)[i] == a[i] + (2 * bias[i] + bias[i]));
	twrt_context_free(c);
	twrt_model_close(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(expressions),
					   cmocka_unit_test(runs),
					   cmocka_unit_test(seen_sizes_allocate_nothing),
					   cmocka_unit_test(refusals),
					   cmocka_unit_test(several_threads),
					   cmocka_unit_test(set_up)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
