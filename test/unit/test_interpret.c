/* rooms: base tmap ir */
/* test_interpret.c: the interpreter. Whole programs against plain loops, definitions, sizes, and every kind of fault,
 * each with the text of its error. */
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
	const struct twir_program *p =
		r->program ? twir_program_find(r->m, r->program) : r->m->programs.at[r->m->programs.n - 1];
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
		float *x = floats(r->a, m * n), *y = floats(r->a, m * n), *z = floats(r->a, m * n),
		      *want = floats(r->a, m * n);
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
		float *x = floats(r->a, m * k), *w = floats(r->a, k * n), *b = floats(r->a, k * padded),
		      *y = floats(r->a, m * n);
		float *want = floats(r->a, m * n);
		r->program = "pack_b";
		r->params[0] = (struct twir_data){w, k * n};
		r->params[1] = (struct twir_data){b, k * padded};
		must_run(r);
		for (int64_t p = 0; p < padded / 32; p++) /* panels of 32 columns, row by row */
			for (int64_t l = 0; l < k; l++)
				for (int64_t j = 0; j < 32; j++)
					assert_true(b[(p * k + l) * 32 + j] ==
						    (32 * p + j < n ? w[l * n + 32 * p + j] : 0));
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
		at = strstr(at + 1, "barrier block;");
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
		struct run *r =
			simt(without_barrier(a, read_text(a, "test/ir/matmul_simt.tw"), nth), 20, 20, 24, &x, &w, &y);
		/* the first thread to run comes upon what others have yet to write */
		must_fail(r, "read before it was written");
		arena_free(a);
	}
}

/* Faults */
static void fault(const char *text, const char *part)
{
	static float data[4][4096];
	struct run *r = load(text);
	set(r, "N", 20);
	for (int k = 0; k < 4; k++)
		r->params[k] = (struct twir_data){data[k], 4096};
	must_fail(r, part);
}

#define CPU "symbol N; program p(A: f32[N], out B: f32[N]) launch core(ceil_div(N, 16)), lane(16) {"
#define GPU "symbol N; program p(A: f32[N], out B: f32[N]) launch block(1), thread(64) {"

static void faults(void **state UNUSED)
{
	fault(CPU "for (i) in spatial(2) * spatial(16) on (core, lane) { B[i] = A[i]; } }",
	      "program p: line 1:141: B[i] = A[i]: in A[i]: A[20]: out of bounds");
	fault(CPU "for i in repeat(N) { B[i - 1] = 1.0; } }", "B[i - 1] = 1.0: B[-1]: out of bounds");
	fault(CPU "B[0] = 1.0; B[0] = 2.0; }", "B[0]: stored a second time");
	fault(CPU "B[0] = 1.0; }", "B[0]: stored a second time"); /* by two core items */
	fault(CPU "shared s: f32[4]; s[1] = 1.0; B[core] = s[0]; }", "s[0]: read before it was written");
	fault(CPU "for k in repeat(2) { register s: f32[1]; if k == 0 { s[0] = 1.0; } B[2 * core + k] = s[0]; } }",
	      "s[0]: read before it was written");
	fault(CPU
	      "register r: f32[16] mirrors spatial(16); for (l) in spatial(16) on lane { r[(l + 1) % 16] = 1.0; } }",
	      "r[1]: the register element belongs to another worker");
	fault(CPU "register r: f32[16] mirrors spatial(16); r[0] = 1.0; }",
	      "r[0]: a mirrored register is touched outside of its workers");
	fault(CPU "shared s: f32[1]; for (l) in spatial(16) on lane { s[0] = 1.0; } }",
	      "s[0]: race: written by two workers");
	fault(CPU "shared s: f32[16]; for (l) in spatial(16) on lane { s[l] = 1.0; if l > 0 { B[16 * core + l] = s[l - "
		  "1]; } } }",
	      "s[0]: race: written by another worker");
	fault(CPU "shared s: f32[16]; for (l) in spatial(16) on lane { s[l] = 1.0; } for (l) in spatial(16) on lane { "
		  "B[l] = s[(l + 1) % 16]; s[l] = 2.0; } }",
	      "race: read by another worker");
	fault(CPU "for (i) in spatial(17) on lane { B[i] = 1.0; } }",
	      "the mapping has 17 workers, but only 16 are launched");
	fault(CPU "B[8 +: 16] = splat(1.0, 16); }", "B[20]: out of bounds");
	fault(CPU "shared s: f32[2, 16] layout strides(1, 2); s[0, 0 +: 8] = splat(1.0, 8); }", "not consecutive");
	fault(CPU "B[iota_i32(16) / 2i32] = splat(1.0, 16); }", "B[0]: stored a second time");
	fault(CPU "B[core] = reduce(add, gather(A, iota_i32(16) * 2i32)); }", "A[20]: out of bounds");
	fault(GPU "shared s: f32[64]; for (i) in spatial(64) on thread { s[i] = A[i % 20]; } barrier block; for (i) in "
		  "spatial(64) on thread within (N) { B[i] = s[(i + 1) % 20]; s[i] = 1.0; } }",
	      "race: read by another worker");
	fault(GPU "shared s: f32[64]; for (i) in spatial(64) on thread { s[i / 2] = 1.0; } }",
	      "race: written by two workers");
	fault(GPU "if thread < 32 { barrier block; } }", "a barrier is not reached by all threads of block 0");
	fault(GPU "register r: f32[64] mirrors spatial(64); for (i) in spatial(64) on thread { r[0] = 1.0; } }",
	      "r[0]: the register element belongs to another worker");
	fault("symbol N, K; program p(A: f32[N], out B: f32[K]) launch core(1) { B[0] = A[0]; }", "K has no value");
	fault("symbol N; program p(A: f32[N * 1000], out B: f32[N]) launch core(1) { B[0] = A[0]; }",
	      "tensor A needs 20000 elements, the buffer has 4096");
	fault("symbol N; program p(A: f32[N * 4611686018427387904], out B: f32[N]) launch core(1) { B[0] = A[0]; }",
	      "does not fit 64 bits");
	fault(CPU "shared s: f32[N * 1000000000]; s[0] = 1.0; }", "too many for a local tensor");
}

/* Warps may meet at barriers of their own. */
static void warp_barriers(void **state UNUSED)
{
	struct run *r = load("program p(A: f32[64], out B: f32[64]) launch block(1), warp(2), lane(32) {"
			     " shared s: f32[2, 32];"
			     " for (w, l) in spatial(2, 32) on (warp, lane) { s[w, l] = A[32 * w + l]; }"
			     " barrier warp;"
			     " for (w, l) in spatial(2, 32) on (warp, lane) { B[32 * w + l] = s[w, 31 - l]; }"
			     " barrier warp;"
			     " for (w, l) in spatial(2, 32) on (warp, lane) { s[w, 31 - l] = 1.0; } }");
	float *x = floats(r->a, 64), *y = floats(r->a, 64);
	r->params[0] = (struct twir_data){x, 64};
	r->params[1] = (struct twir_data){y, 64};
	must_run(r);
	for (int k = 0; k < 64; k++)
		assert_true(y[k] == x[k / 32 * 32 + 31 - k % 32]);
	arena_free(r->a);
}

static void in_place(void **state UNUSED)
{
	for (int bad = 0; bad < 2; bad++) {
		struct run *r = load(bad ? "symbol N; program p(A: f32[N], out B: f32[N] alias A) launch core(1) {"
					   " for i in repeat(N) { B[i] = A[N - 1 - i]; } }"
					 : "symbol N; program p(A: f32[N], out B: f32[N] alias A) launch core(1) {"
					   " for i in repeat(N) { B[i] = A[i] + 1.0; } }");
		set(r, "N", 9);
		float *x = floats(r->a, 9);
		r->params[0] = r->params[1] = (struct twir_data){x, 9};
		if (bad) {
			must_fail(r, "read after its buffer was overwritten");
			continue;
		}
		const float first = x[0];
		must_run(r);
		assert_true(x[0] == first + 1.0f);
		arena_free(r->a);
	}
}

static void layouts(void **state UNUSED)
{
	struct run *r = load_file("in_place.tw");
	float *x = floats(r->a, 3 * 32), y[96] = {0}, z[96] = {0};
	r->program = "relayout";
	set(r, "N", 3);
	r->params[0] = (struct twir_data){x, 96};
	r->params[1] = (struct twir_data){y, 96};
	r->params[2] = (struct twir_data){z, 96};
	must_run(r);
	for (int i = 0; i < 3; i++)
		for (int j = 0; j < 32; j++) {
			const float v = x[(i * 2 + j / 16) * 16 + j % 16];
			assert_true(y[j * 3 + i] == v);
			assert_true(z[(j / 16 * 3 + i) * 16 + j % 16] == v + 1.0f);
		}
	arena_free(r->a);
}

/* Definitions */
struct definition {
	struct run *r;
	const char *name;
	struct twir_env env;
	struct twir_data out;
};

static void do_define(void *arg)
{
	struct definition *d = arg;
	for (int k = 0; k < d->r->m->computes.n; k++)
		if (strcmp(d->r->m->computes.at[k]->out->name, d->name) == 0)
			twir_interpret_compute(d->r->m, d->r->m->computes.at[k], &d->r->b, &d->env, d->out);
}

static void definitions(void **state UNUSED)
{
	struct run *r =
		load("symbol M, N, K; tensor X: f32[M, K]; tensor W: f32[K, N]; tensor I: i32[M];"
		     "define Y: f32[M, N] = (i, j) => sum(k < K, X[i, k] * W[k, j]) + 1.0;"
		     "define A: f32[M] = (i) => fold_max(k < K, X[i, k]) - sum(j < N, fold_min(k < K, W[k, j]));"
		     "define Z: i32[] = () => sum(i < M, I[i]) * 2i32;"
		     "define T: f32[K, M] layout row(1, M) * row(K, 1) = (k, i) => I[i] < 2i32 ? X[i, k] : 0.0;"
		     "define E: f32[M] = (i) => exp(X[i, 0]) + sum(k < K, tanh(X[i, k]));");
	enum { m = 5, n = 3, k = 4 };
	float *x = floats(r->a, m * k), *w = floats(r->a, k * n), y[m * n], want[m * n], a[m], t[k * m];
	int32_t in[m] = {1, 2, 3, -4, 0}, z = 0;
	set(r, "M", m);
	set(r, "N", n);
	set(r, "K", k);
	struct twir_tensor *tensors[3] = {r->m->tensors.at[0], r->m->tensors.at[1], r->m->tensors.at[2]};
	const struct twir_data data[3] = {{x, m * k}, {w, k * n}, {in, m}};
	struct definition d = {r, "Y", {3, tensors, data, NULL}, {y, m * n}};
	struct tw_error e;
	assert_true(tw_try(&e, do_define, &d));
	matmul_reference(x, w, want, m, n, k);
	for (int q = 0; q < m * n; q++)
		assert_true(y[q] == want[q] + 1.0f);
	d.name = "A";
	d.out = (struct twir_data){a, m};
	assert_true(tw_try(&e, do_define, &d));
	float least = 0;
	for (int j = 0; j < n; j++) {
		float low = INFINITY;
		for (int l = 0; l < k; l++)
			low = fminf(low, w[l * n + j]);
		least += low;
	}
	for (int i = 0; i < m; i++) {
		float top = -INFINITY;
		for (int l = 0; l < k; l++)
			top = fmaxf(top, x[i * k + l]);
		assert_true(a[i] == top - least);
	}
	d.name = "Z";
	d.out = (struct twir_data){&z, 1};
	assert_true(tw_try(&e, do_define, &d));
	assert_int_equal(z, 4);
	d.name = "T";
	d.out = (struct twir_data){t, k * m};
	assert_true(tw_try(&e, do_define, &d));
	for (int i = 0; i < m; i++)
		for (int l = 0; l < k; l++)
			assert_true(t[i * k + l] == (in[i] < 2 ? x[i * k + l] : 0.0f));
	d.name = "E";
	d.out = (struct twir_data){a, m};
	assert_true(tw_try(&e, do_define, &d));
	for (int i = 0; i < m; i++) {
		double sum = exp((double)x[i * k]);
		for (int l = 0; l < k; l++)
			sum += tanh((double)x[i * k + l]);
		assert_true(fabs((double)a[i] - sum) < 1e-5);
	}
	d.name = "Y";
	d.out = (struct twir_data){y, m * n};
	d.env.n = 1;
	assert_false(tw_try(&e, do_define, &d));
	assert_non_null(strstr(e.text, "has no data"));
	arena_free(r->a);
}

/* Sizes */
struct size_job {
	const struct twir_expr *e;
	const struct twir_binding *b;
	int64_t value;
};

static void do_size(void *arg)
{
	struct size_job *j = arg;
	j->value = twir_eval_index(j->e, j->b);
}

static void sizes(void **state UNUSED)
{
	struct tw_arena *a = arena_new();
	struct twir_module *m = twir_module_new(a);
	struct twir_var *v = twir_symbol(m, "N");
	const struct twir_expr *n = twir_var(m, v), *big = twir_mul(m, n, twir_index(m, INT64_MAX / 2));
	int64_t value = 2;
	const struct twir_binding b = {1, &v, &value};
	struct size_job j = {big, &b, 0};
	struct tw_error e;
	assert_true(tw_try(&e, do_size, &j));
	assert_int_equal(j.value, INT64_MAX / 2 * 2);
	value = 3;
	assert_false(tw_try(&e, do_size, &j));
	assert_int_equal(e.code, TW_ERR_INPUT);
	assert_non_null(strstr(e.text, "does not fit 64 bits"));
	j.e = twir_cond(m, twir_lt(m, n, twir_index(m, 4)), twir_roundup(m, n, twir_index(m, 32)),
			big); /* the other side is not looked at */
	assert_true(tw_try(&e, do_size, &j));
	assert_int_equal(j.value, 32);
	j.e = twir_var(m, twir_symbol(m, "K"));
	assert_false(tw_try(&e, do_size, &j));
	assert_non_null(strstr(e.text, "K has no value"));
	const struct twir_expr *web = n; /* shared 100 times over: a walk without a memo never ends */
	for (int k = 0; k < 100; k++)
		web = twir_max(m, twir_sub(m, web, twir_index(m, 1)), twir_min(m, web, n));
	j.e = web;
	assert_true(tw_try(&e, do_size, &j));
	assert_int_equal(j.value, 3);
	const struct twir_expr *extent[2] = {n, twir_index(m, 4)};
	const struct twir_map *map = twir_compose(m, twir_repeat(m, 2, extent, NULL), twir_spatial(m, 2, extent));
	const struct twtm_map *bound = twir_map_bind(a, map, &b);
	assert_int_equal(twtm_workers(bound), 12);
	assert_int_equal(twtm_tasks_per_worker(bound), 12);
	arena_free(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(add_relu),
		cmocka_unit_test(matmul_packed),
		cmocka_unit_test(softmax),
		cmocka_unit_test(matmul_simt),
		cmocka_unit_test(missing_barriers_are_races),
		cmocka_unit_test(faults),
		cmocka_unit_test(warp_barriers),
		cmocka_unit_test(in_place),
		cmocka_unit_test(layouts),
		cmocka_unit_test(definitions),
		cmocka_unit_test(sizes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
