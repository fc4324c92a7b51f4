/* rooms: base tmap target ir pass cgen backend/cpu */
/* The compiler driver: equal kernels are shared, objects repeat bit for bit whatever the number of jobs, need no
 * library, leave no files; every dead end (no compiler, a failing, crashing or lying one, no folder, a read-only one,
 * a full one, a cancel) is told with a hint. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "cgen_run.h"

static const char text[] =
	"symbol N;\n"
	"program scale(A: f32[N], out B: f32[N]) launch core(1) { for i in repeat(N) { B[i] = A[i] * 2.0; } }\n"
	"program twice(X: f32[N], out Y: f32[N]) launch core(1) { for k in repeat(N) { Y[k] = X[k] * 2.0; } }\n"
	"program negate(A: f32[N], out B: f32[N]) launch core(1) { for i in repeat(N) { B[i] = -A[i]; } }\n"
	"program zero(out B: f32[N]) launch core(1) { for i in repeat(N) { B[i] = 0.0; } }\n"
	"program copy(A: f32[N], out B: f32[N]) launch core(1) { for i in repeat(N) { B[i] = A[i]; } }\n";

struct fixture {
	struct tw_arena *arena;
	struct twir_module *m;
	struct tw_target target;
	struct tw_toolchain tc;
	char folder[64]; /* TMPDIR of the test */
};

static int setup(void **state)
{
	static struct fixture f;
	struct tw_error e;
	f.arena = arena_new();
	f.m = cgen_parse(f.arena, text);
	cgen_target(&f.target, TW_ISA_GENERIC);
	if (tw_toolchain_find(&f.tc, &e) != TW_ERR_OK)
		return -1;
	snprintf(f.folder, sizeof f.folder, "/tmp/tw-test-XXXXXX");
	if (!mkdtemp(f.folder))
		return -1;
	setenv("TMPDIR", f.folder, 1);
	*state = &f;
	return 0;
}

static int entries(const char *folder)
{
	DIR *d = opendir(folder);
	int n = 0;
	for (struct dirent *e; d && (e = readdir(d));)
		n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
	if (d)
		closedir(d);
	return n;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	const int left = entries(f->folder);
	rmdir(f->folder);
	unsetenv("TMPDIR");
	unsetenv("TILEWRIGHT_CC");
	arena_free(f->arena);
	return left; /* whatever happened, nothing stays behind */
}

static enum tw_code compile(struct fixture *f, int jobs, struct tw_object *o, struct tw_error *e)
{
	memset(e, 0, sizeof *e);
	return cpu_compile(f->arena, f->m, f->m->programs.n, f->m->programs.at, &f->target, &f->tc, jobs, NULL, NULL, o,
			   e);
}

static void shares_and_repeats(void **state)
{
	struct fixture *f = *state;
	struct tw_object a, b;
	struct tw_error e;
	assert_int_equal(compile(f, 1, &a, &e), TW_ERR_OK);
	assert_int_equal(compile(f, 3, &b, &e), TW_ERR_OK);
	assert_int_equal(a.nkernels, 5);
	assert_string_equal(a.names[0], a.names[1]); /* equal but for names */
	assert_string_not_equal(a.names[0], a.names[2]);
	assert_int_equal(a.object_bytes, b.object_bytes);
	assert_memory_equal(a.object, b.object, a.object_bytes);
	assert_memory_equal(a.object, "\177ELF", 4);
	assert_null(memmem(a.object, a.object_bytes, "memset", 6)); /* loops stay loops */
	assert_null(memmem(a.object, a.object_bytes, "memcpy", 6));
	assert_null(memmem(a.object, a.object_bytes, "libc.so", 7));
	assert_null(memmem(a.object, a.object_bytes, f->folder, strlen(f->folder)));
}

/* Many programs, so that files are full before the last of them comes. */
static struct twir_module *many(struct fixture *f)
{
	enum { PROGRAMS = 90, TERMS = 40 };
	struct tw_buf b;
	buf_init(&b, f->arena);
	buf_puts(&b, "symbol N;\n");
	for (int i = 0; i < PROGRAMS; i++) {
		buf_printf(&b, "program p%d(A: f32[N], out B: f32[N]) launch core(1) { for i in repeat(N) { B[i] = 0.0",
			   i);
		for (int t = 0; t < TERMS + i % 7; t++)
			buf_printf(&b, " + A[i] * %d.5", i * 100 + t);
		buf_puts(&b, "; } }\n");
	}
	return cgen_parse(f->arena, b.at);
}

/* Adds programs that live no longer than until they were added, while compilers run. */
static enum tw_code add_in_turns(struct twir_module *m, struct cpu_kernels *kernels, struct tw_error *e)
{
	enum tw_code code = TW_ERR_OK;
	for (int i = 0; i < m->programs.n && code == TW_ERR_OK; i++) {
		struct twir_frame frame;
		twir_frame_begin(m, &frame);
		struct twir_program *p = arena_copy(m->arena, m->programs.at[i], sizeof(*p));
		struct twir_subst s;
		twir_subst_init(&s, m);
		p->body = twir_subst_block(&s, p->body);
		cpu_kernels_add(kernels, m, p);
		twir_frame_end(m, &frame);
		memset(p, 0xdd, sizeof(*p));
		twir_frame_free(&frame);
		code = cpu_kernels_turn(kernels, e);
	}
	return code;
}

/* The same object as all at once, whatever compilers did meanwhile. */
static void in_turns(void **state)
{
	struct fixture *f = *state;
	struct twir_module *m = many(f);
	struct tw_object all, o;
	struct tw_error e;
	assert_int_equal(
		cpu_compile(f->arena, m, m->programs.n, m->programs.at, &f->target, &f->tc, 2, NULL, NULL, &all, &e),
		TW_ERR_OK);
	assert_true(all.files > 4);
	for (int jobs = 1; jobs <= 3; jobs += 2) {
		struct cpu_kernels *kernels = cpu_kernels_new(f->arena, &f->target);
		assert_int_equal(cpu_kernels_begin(kernels, &f->tc, jobs, &e), TW_ERR_OK);
		assert_int_equal(add_in_turns(m, kernels, &e), TW_ERR_OK);
		assert_int_equal(cpu_kernels_finish(kernels, NULL, NULL, &o, &e), TW_ERR_OK);
		cpu_kernels_drop(kernels);
		assert_int_equal(o.files, all.files);
		assert_int_equal(o.nkernels, all.nkernels);
		for (int i = 0; i < o.nkernels; i++)
			assert_string_equal(o.names[i], all.names[i]);
		assert_int_equal(o.object_bytes, all.object_bytes);
		assert_memory_equal(o.object, all.object, o.object_bytes);
		assert_int_equal(entries(f->folder), 0);
	}
}

/* A compiler that fails while programs still come is told of at the next turn; one that runs is ended by drop. */
static void early_end(void **state)
{
	struct fixture *f = *state;
	struct twir_module *m = many(f);
	struct tw_error e;
	struct tw_toolchain failing = f->tc;
	snprintf(failing.command, sizeof failing.command, "false");
	struct cpu_kernels *kernels = cpu_kernels_new(f->arena, &f->target);
	assert_int_equal(cpu_kernels_begin(kernels, &failing, 2, &e), TW_ERR_OK);
	enum tw_code code = add_in_turns(m, kernels, &e);
	for (int i = 0; i < 500 && code == TW_ERR_OK; i++) {
		usleep(10000);
		code = cpu_kernels_turn(kernels, &e);
	}
	assert_int_equal(code, TW_ERR_TOOLCHAIN);
	assert_non_null(strstr(e.text, "failed with exit code 1"));
	assert_int_equal(entries(f->folder), 1);
	cpu_kernels_drop(kernels);
	assert_int_equal(entries(f->folder), 0);
	kernels = cpu_kernels_new(f->arena, &f->target);
	assert_int_equal(cpu_kernels_begin(kernels, &f->tc, 3, &e), TW_ERR_OK);
	assert_int_equal(add_in_turns(m, kernels, &e), TW_ERR_OK);
	assert_int_equal(entries(f->folder), 1);
	cpu_kernels_drop(kernels);
	assert_int_equal(entries(f->folder), 0);
	cpu_kernels_drop(kernels);
	cpu_kernels_drop(NULL);
}

static void runs(void **state)
{
	struct fixture *f = *state;
	struct compiled c;
	float a[9], b[9];
	for (int i = 0; i < 9; i++)
		a[i] = (float)i - 4;
	cgen_compile(&c, f->arena, f->m, f->m->programs.n, f->m->programs.at, &f->target, &f->tc);
	cgen_call(&c, 1, f->m, f->m->programs.at[1], (void *[]){a, b}, (int64_t[]){9});
	for (int i = 0; i < 9; i++)
		assert_true(b[i] == a[i] * 2);
	cgen_call(&c, 2, f->m, f->m->programs.at[2], (void *[]){a, b}, (int64_t[]){9});
	for (int i = 0; i < 9; i++)
		assert_true(b[i] == -a[i]);
	cgen_close(&c);
}

static void no_kernels(void **state)
{
	struct fixture *f = *state;
	struct tw_object o;
	struct tw_error e;
	assert_int_equal(cpu_compile(f->arena, f->m, 0, NULL, &f->target, &f->tc, 2, NULL, NULL, &o, &e), TW_ERR_OK);
	assert_int_equal(o.object_bytes, 0);
}

static void expect(enum tw_code code, const struct tw_error *e, const char *part)
{
	assert_int_equal(code, TW_ERR_TOOLCHAIN);
	assert_int_equal(e->code, TW_ERR_TOOLCHAIN);
	if (!strstr(e->text, part) || !strstr(e->text, "hint:"))
		fail_msg("unexpected: %s", e->text);
}

static void no_compiler(void **state)
{
	(void)state;
	struct tw_toolchain tc;
	struct tw_error e;
	setenv("TILEWRIGHT_CC", "no-such-compiler -x", 1);
	expect(tw_toolchain_find(&tc, &e), &e, "no-such-compiler");
	setenv("TILEWRIGHT_CC", "  ", 1);
	expect(tw_toolchain_find(&tc, &e), &e, "empty");
	setenv("TILEWRIGHT_CC", "false", 1);
	expect(tw_toolchain_find(&tc, &e), &e, "does not work");
	unsetenv("TILEWRIGHT_CC");
	char *path = strdup(getenv("PATH"));
	setenv("PATH", "/nonexistent", 1);
	const enum tw_code code = tw_toolchain_find(&tc, &e);
	setenv("PATH", path, 1);
	free(path);
	expect(code, &e, "apt-get install gcc");
	assert_non_null(strstr(e.text, "clang: No such file"));
}

/* A compiler that is a script of ours, in a folder outside TMPDIR. */
static void with_script(struct fixture *f, const char *script, const char *part)
{
	char folder[] = "/tmp/tw-script-XXXXXX", path[64];
	struct tw_toolchain before = f->tc;
	struct tw_object o;
	struct tw_error e;
	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof path, "%s/cc", folder);
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	fprintf(file, "#!/bin/sh\n%s\n", script);
	fclose(file);
	chmod(path, 0755);
	snprintf(f->tc.command, sizeof f->tc.command, "%s", path);
	const enum tw_code code = compile(f, 2, &o, &e);
	f->tc = before;
	unlink(path);
	rmdir(folder);
	expect(code, &e, part);
	assert_int_equal(entries(f->folder), 0);
}

static void bad_compilers(void **state)
{
	struct fixture *f = *state;
	with_script(f, "echo 'k0.c:1: error: the sky is falling' >&2; exit 1", "the sky is falling");
	with_script(f, "kill -9 $$", "signal 9");
	with_script(f, "kill -11 $$", "signal 11");
	with_script(f, "echo 'fatal error: error writing to x.s: No space left on device'; exit 1", "the disk is full");
	with_script(f, "exit 0", "cannot read");			/* success, but no object */
	with_script(f, "yes | head -c 1000000; exit 3", "exit code 3"); /* a flood of messages */
}

static void bad_folders(void **state)
{
	struct fixture *f = *state;
	struct tw_object o;
	struct tw_error e;
	setenv("TMPDIR", "/nonexistent/folder", 1);
	enum tw_code code = compile(f, 2, &o, &e);
	expect(code, &e, "/nonexistent/folder");
	setenv("TMPDIR", "/proc", 1); /* cannot be written, not even by root */
	code = compile(f, 2, &o, &e);
	expect(code, &e, "/proc");
	char *longer = malloc(5000);
	memset(longer, 'a', 4999);
	longer[0] = '/';
	longer[4999] = 0;
	setenv("TMPDIR", longer, 1);
	code = compile(f, 2, &o, &e);
	free(longer);
	expect(code, &e, "cannot use");
	setenv("TMPDIR", f->folder, 1);
}

static bool cancel_at_once(void *arg, int done, int all)
{
	(void)done;
	(void)all;
	++*(int *)arg;
	return true;
}

static void cancel(void **state)
{
	struct fixture *f = *state;
	struct tw_object o;
	struct tw_error e;
	int calls = 0;
	const enum tw_code code = cpu_compile(f->arena, f->m, 5, f->m->programs.at, &f->target, &f->tc, 2,
					      cancel_at_once, &calls, &o, &e);
	assert_int_equal(code, TW_ERR_CANCELLED);
	assert_int_equal(calls, 1);
	assert_int_equal(entries(f->folder), 0);
}

/* What a killed compilation leaves is removed by the next one; a folder in use is not. */
static void left_overs(void **state)
{
	struct fixture *f = *state;
	struct tw_object o;
	struct tw_error e;
	char dead[128], used[128], file[160];
	snprintf(dead, sizeof dead, "%s/tilewright-cc-dead00", f->folder);
	snprintf(used, sizeof used, "%s/tilewright-cc-used00", f->folder);
	assert_int_equal(mkdir(dead, 0700) | mkdir(used, 0700), 0);
	snprintf(file, sizeof file, "%s/lock", dead);
	close(open(file, O_CREAT | O_RDWR | O_CLOEXEC, 0600));
	snprintf(file, sizeof file, "%s/lock", used);
	const int fd = open(file, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	assert_int_equal(flock(fd, LOCK_EX), 0);
	assert_int_equal(compile(f, 2, &o, &e), TW_ERR_OK);
	assert_int_equal(access(dead, F_OK), -1);
	assert_int_equal(access(file, F_OK), 0);
	unlink(file);
	rmdir(used);
	close(fd);
}

static bool count(void *arg, int done, int all)
{
	int *last = arg;
	assert_true(done >= *last && done <= all);
	*last = done;
	return false;
}

static void progress(void **state)
{
	struct fixture *f = *state;
	struct tw_object o;
	struct tw_error e;
	int last = 0;
	assert_int_equal(cpu_compile(f->arena, f->m, 5, f->m->programs.at, &f->target, &f->tc, 2, count, &last, &o, &e),
			 TW_ERR_OK);
	assert_int_equal(last, o.files);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shares_and_repeats),
		cmocka_unit_test(in_turns),
		cmocka_unit_test(early_end),
		cmocka_unit_test(runs),
		cmocka_unit_test(no_kernels),
		cmocka_unit_test(no_compiler),
		cmocka_unit_test(bad_compilers),
		cmocka_unit_test(bad_folders),
		cmocka_unit_test(cancel),
		cmocka_unit_test(left_overs),
		cmocka_unit_test(progress),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
