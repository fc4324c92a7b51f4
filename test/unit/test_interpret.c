/* rooms: base tmap ir */
/* test_interpret.c: the interpreter. Whole programs against plain loops, every kind of node against values worked out by hand, and
 * every kind of fault, each with the text of its error. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "ir/ir.h"

#define UNUSED __attribute__((unused))

static char *read_text(struct tw_arena *a, const char *name)
{
	FILE *f = fopen(name, "rb");
	assert_non_null(f);
	struct tw_buf b;
	char piece[4096];
	buf_init(&b, a);
	for (size_t n; (n = fread(piece, 1, sizeof(piece), f)) > 0;)
		buf_bytes(&b, piece, n);
	fclose(f);
	return b.at;
}

/* A program of a text with its symbols' values, as name and value in turn, ended by NULL. */
struct run {
	struct tw_arena *a;
	struct twir_module *m;
	const char *text;
	const char *program; /* NULL: the last */
	struct twir_var *symbols[8];
	int64_t values[8];
	struct twir_binding b;
	struct twir_data params[8];
};

static void do_parse(void *arg)
{
	struct run *r = arg;
	r->m = twir_module_new(r->a);
	twir_parse(r->m, "test", r->text);
}

static void do_run(void *arg)
{
	struct run *r = arg;
	const struct twir_program *p = r->program ? twir_program_find(r->m, r->program) : r->m->programs.at[r->m->programs.n - 1];
	assert_non_null(p);
	twir_interpret(r->m, p, &r->b, r->params);
}

static struct run *load(const char *text)
{
	struct tw_arena *a = arena_new();
	struct run *r = ARENA_NEW(a, struct run);
	struct tw_error e;
	r->a = a;
	r->text = text;
	if (!tw_try(&e, do_parse, r)) {
		print_error("%s\n", e.text);
		fail();
	}
	return r;
}

static void set(struct run *r, const char *name, int64_t value)
{
	r->symbols[r->b.n] = twir_symbol(r->m, name);
	r->values[r->b.n++] = value;
	r->b.symbols = r->symbols;
	r->b.values = r->values;
}

static void must_run(struct run *r)
{
	struct tw_error e;
	if (!tw_try(&e, do_run, r)) {
		print_error("%s\n", e.text);
		fail();
	}
}

static void must_fail(struct run *r, const char *part)
{
	struct tw_error e;
	assert_false(tw_try(&e, do_run, r));
	if (e.code != TW_ERR_INPUT || !strstr(e.text, part)) {
		print_error("%d: %s\nwithout: %s\n", (int)e.code, e.text, part);
		fail();
	}
	arena_free(r->a);
}

static uint32_t seed = 12345;

static float random_float(void)
{
	seed = seed * 1664525u + 1013904223u;
	return (float)(int32_t)seed * 0x1p-31f;
}

static float *floats(struct tw_arena *a, int64_t n)
{
	float *x = ARENA_ARRAY(a, float, n);
	for (int64_t k = 0; k < n; k++)
		x[k] = random_float();
	return x;
}

static void same_bits(const float *got, const float *want, int64_t n)
{
	for (int64_t k = 0; k < n; k++)
		if (memcmp(&got[k], &want[k], sizeof(got[k])) != 0) {
			print_error("element %lld: %a instead of %a\n", (long long)k, (double)got[k], (double)want[k]);
			fail();
		}
}

static struct run *load_file(const char *name)
{
	struct tw_arena *a = arena_new();
	char path[256];
	snprintf(path, sizeof(path), "test/ir/%s", name);
	char *text = read_text(a, path);
	struct run *r = load(text);
	arena_free(a);
	return r;
}

static void add_relu(void **state UNUSED)
{
	static const int64_t sizes[][2] = {{1, 1}, {0, 5}, {5, 0}, {8, 1024}, {9, 1030}, {17, 33}};
	for (int c = 0; c < TW_COUNT(sizes); c++) {
		const int64_t m = sizes[c][0], n = sizes[c][1];
		struct run *r = load_file("add_relu.tw");
		set(r, "M", m);
		set(r, "N", n);
		float *x = floats(r->a, m * n), *y = floats(r->a, m * n), *z = floats(r->a, m * n), *want = floats(r->a, m * n);
		if (m * n > 2) {
			x[0] = NAN;
			x[1] = INFINITY;
			y[1] = -INFINITY;
		}
		for (int64_t k = 0; k < m * n; k++) {
			const float s = x[k] + y[k];
			want[k] = s > 0 || s != s ? s : 0.0f;
		}
		r->params[0] = (struct twir_data){x, m * n};
		r->params[1] = (struct twir_data){y, m * n};
		r->params[2] = (struct twir_data){z, m * n};
		must_run(r);
		for (int64_t k = 0; k < m * n; k++)
			assert_true(isnan(want[k]) ? isnan(z[k]) : z[k] == want[k]);
		arena_free(r->a);
	}
}

static void matmul_reference(const float *x, const float *w, float *y, int64_t m, int64_t n, int64_t k)
{
	for (int64_t i = 0; i < m; i++)
		for (int64_t j = 0; j < n; j++) {
			float s = 0;
			for (int64_t l = 0; l < k; l++)
				s = fmaf(x[i * k + l], w[l * n + j], s);
			y[i * n + j] = s;
		}
}

static void matmul_packed(void **state UNUSED)
{
	static const int64_t sizes[][3] = {{1, 1, 1}, {13, 33, 5}, {12, 32, 257}, {97, 20, 3}, {5, 40, 0}, {3, 0, 4}};
	for (int c = 0; c < TW_COUNT(sizes); c++) {
		const int64_t m = sizes[c][0], n = sizes[c][1], k = sizes[c][2], padded = (n + 31) / 32 * 32;
		struct run *r = load_file("matmul_packed.tw");
		set(r, "M", m);
		set(r, "N", n);
		set(r, "K", k);
		float *x = floats(r->a, m * k), *w = floats(r->a, k * n), *b = floats(r->a, k * padded), *y = floats(r->a, m * n);
		float *want = floats(r->a, m * n);
		r->program = "pack_b";
		r->params[0] = (struct twir_data){w, k * n};
		r->params[1] = (struct twir_data){b, k * padded};
		must_run(r);
		for (int64_t p = 0; p < padded / 32; p++) /* panels of 32 columns, row by row */
			for (int64_t l = 0; l < k; l++)
				for (int64_t j = 0; j < 32; j++)
					assert_true(b[(p * k + l) * 32 + j] == (32 * p + j < n ? w[l * n + 32 * p + j] : 0));
		r->program = "matmul";
		r->params[0] = (struct twir_data){x, m * k};
		r->params[2] = (struct twir_data){y, m * n};
		must_run(r);
		matmul_reference(x, w, want, m, n, k);
		same_bits(y, want, m * n);
		arena_free(r->a);
	}
}

static void softmax(void **state UNUSED)
{
	static const int64_t sizes[][2] = {{1, 1}, {3, 16}, {5, 37}, {4, 100}};
	for (int c = 0; c < TW_COUNT(sizes); c++) {
		const int64_t rows = sizes[c][0], cols = sizes[c][1];
		struct run *r = load_file("softmax.tw");
		set(r, "R", rows);
		set(r, "C", cols);
		float *x = floats(r->a, rows * cols), *y = floats(r->a, rows * cols);
		r->params[0] = (struct twir_data){x, rows * cols};
		r->params[1] = (struct twir_data){y, rows * cols};
		must_run(r);
		for (int64_t i = 0; i < rows; i++) {
			double sum = 0, top = -INFINITY;
			for (int64_t j = 0; j < cols; j++)
				top = fmax(top, (double)x[i * cols + j]);
			for (int64_t j = 0; j < cols; j++)
				sum += exp((double)x[i * cols + j] - top);
			for (int64_t j = 0; j < cols; j++) {
				const double want = exp((double)x[i * cols + j] - top) / sum;
				assert_true(fabs((double)y[i * cols + j] - want) <= 1e-6 * want);
			}
		}
		arena_free(r->a);
	}
}

static struct run *simt(const char *text, int64_t m, int64_t n, int64_t k, float **x, float **w, float **y)
{
	struct run *r = text ? load(text) : load_file("matmul_simt.tw");
	set(r, "M", m);
	set(r, "N", n);
	set(r, "K", k);
	*x = floats(r->a, m * k);
	*w = floats(r->a, k * n);
	*y = floats(r->a, m * n);
	r->params[0] = (struct twir_data){*x, m * k};
	r->params[1] = (struct twir_data){*w, k * n};
	r->params[2] = (struct twir_data){*y, m * n};
	return r;
}

static void matmul_simt(void **state UNUSED)
{
	static const int64_t sizes[][3] = {{1, 1, 1}, {20, 130, 17}, {3, 5, 0}, {129, 4, 8}};
	for (int c = 0; c < TW_COUNT(sizes); c++) {
		const int64_t m = sizes[c][0], n = sizes[c][1], k = sizes[c][2];
		float *x, *w, *y;
		struct run *r = simt(NULL, m, n, k, &x, &w, &y);
		float *want = floats(r->a, m * n);
		must_run(r);
		matmul_reference(x, w, want, m, n, k);
		same_bits(y, want, m * n);
		arena_free(r->a);
	}
}

/* The text without its nth barrier. */
static char *without_barrier(struct tw_arena *a, const char *text, int nth)
{
	char *copy = arena_strdup(a, text), *at = copy;
	while (nth-- >= 0) {
		at = strstr(nth == -2 ? at : at + 1, "barrier block;");
		assert_non_null(at);
	}
	memset(at, ' ', strlen("barrier block;"));
	return copy;
}

static void missing_barriers_are_races(void **state UNUSED)
{
	for (int nth = 0; nth < 2; nth++) {
		struct tw_arena *a = arena_new();
		float *x, *w, *y;
		struct run *r = simt(without_barrier(a, read_text(a, "test/ir/matmul_simt.tw"), nth), 20, 20, 24, &x, &w, &y);
		must_fail(r, "read before it was written"); /* the first thread to run comes upon what others have yet to write */
		arena_free(a);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(add_relu),
		cmocka_unit_test(matmul_packed),
		cmocka_unit_test(softmax),
		cmocka_unit_test(matmul_simt),
		cmocka_unit_test(missing_barriers_are_races),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
