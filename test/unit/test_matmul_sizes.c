/* Compiled products of awkward sizes: one column to a few, primes, columns beside a panel's width, few rows, K
 * that is long (divided among core items) or prime; by constants and by inputs. Held against sums in double
 * precision, and one thread against several, bit for bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onnx_writer.h"
#include "tilewright.h"

struct size {
	int m, n, k;
	bool constant; /* B */
};

/* The last ones have few items and a long K; of the very last, K is no multiple of any number of parts. */
static const struct size sizes[] = {
	{1, 1, 7, true},       {1, 2, 64, false},    {3, 3, 33, true},	   {13, 5, 257, false},
	{7, 7, 1, true},       {33, 8, 100, false},  {2, 11, 511, true},   {29, 13, 31, false},
	{1, 15, 129, true},    {17, 16, 65, true},   {5, 17, 769, false},  {49, 24, 96, true},
	{97, 24, 63, false},   {12, 31, 200, true},  {1, 47, 768, true},   {14, 48, 257, true},
	{8, 49, 19, true},     {31, 97, 300, false}, {128, 64, 130, true}, {200, 37, 41, false},
	{257, 101, 53, false}, {1, 10, 50000, true}, {6, 17, 24011, true}, {4, 48, 20011, false},
	{16, 20, 32768, false}};
enum { COUNT = sizeof(sizes) / sizeof(sizes[0]) };

static float *a[COUNT], *b[COUNT];

static float some(uint32_t *state) /* in [-1, 1) */
{
	*state = *state * 1664525u + 1013904223u;
	return (float)(*state >> 8) / (float)(1 << 23) - 1.0f;
}

static float *filled(int n, uint32_t *seed)
{
	float *at = malloc((size_t)n * sizeof(*at));
	assert_non_null(at);
	for (int i = 0; i < n; i++)
		at[i] = some(seed);
	return at;
}

static void good(tilewright_status s)
{
	if (s != TILEWRIGHT_OK)
		fail_msg("%s", tilewright_last_error());
}

/* y<i> = relu(a<i> b<i>) of every `stride`th size, in one model */
static tilewright_model *compile(const char *isa, int stride)
{
	struct tw_arena *arena = arena_new();
	struct tw_buf graph, file;
	tilewright_model *model = NULL;
	buf_init(&graph, arena);
	buf_init(&file, arena);
	for (int i = 0; i < COUNT; i += stride) {
		const struct size *s = &sizes[i];
		const char *sum = arena_printf(arena, "s%d", i), *by = arena_printf(arena, "b%d", i);
		const char *out = arena_printf(arena, "y%d", i);
		put_node(&graph, 1, "MatMul", "", arena_printf(arena, "a%d,%s", i, by), sum, NULL);
		put_node(&graph, 1, "Relu", "", sum, out, NULL);
		if (s->constant)
			put_initializer(&graph, by, 2, (const int64_t[]){s->k, s->n}, b[i], NULL, s->k * s->n);
		put_value(&graph, 11, arena_printf(arena, "a%d", i), 1, arena_printf(arena, "%d,%d", s->m, s->k));
		if (!s->constant)
			put_value(&graph, 11, by, 1, arena_printf(arena, "%d,%d", s->k, s->n));
		put_value(&graph, 12, out, 1, arena_printf(arena, "%d,%d", s->m, s->n));
	}
	put_model(&file, &graph, 17, NULL);
	tilewright_options *o = tilewright_create_options();
	tilewright_use_cache(o, 0);
	if (isa)
		good(tilewright_set_isa(o, isa));
	good(tilewright_compile_memory(file.at, file.n, NULL, o, &model));
	tilewright_free_options(o);
	arena_free(arena);
	return model;
}

static void compare(const struct size *s, const float *x, const float *w, const float *got)
{
	for (int i = 0; i < s->m; i++)
		for (int j = 0; j < s->n; j++) {
			double sum = 0, magnitude = 0;
			for (int k = 0; k < s->k; k++) {
				const double product = (double)x[i * s->k + k] * (double)w[k * s->n + j];
				sum += product;
				magnitude += fabs(product);
			}
			const double error = fabs((double)got[i * s->n + j] - (sum > 0 ? sum : 0));
			if (!(error <= 1e-6 * magnitude + 1e-7))
				fail_msg("%d x %d x %d: [%d, %d] is %g instead of %g", s->m, s->n, s->k, i, j,
					 (double)got[i * s->n + j], sum);
		}
}

static void run(const char *isa, int stride)
{
	tilewright_model *model = compile(isa, stride);
	float *first[COUNT] = {NULL};
	for (int threads = 1; threads <= 3; threads++) {
		tilewright_context *c = NULL;
		int input = 0, output = 0;
		good(tilewright_create_context(model, threads, &c));
		for (int i = 0; i < COUNT; i += stride) {
			const struct size *s = &sizes[i];
			good(tilewright_set_input(c, input++, TILEWRIGHT_F32, 2, (const int64_t[]){s->m, s->k}, a[i]));
			if (!s->constant)
				good(tilewright_set_input(c, input++, TILEWRIGHT_F32, 2, (const int64_t[]){s->k, s->n},
							  b[i]));
		}
		good(tilewright_run(c));
		for (int i = 0; i < COUNT; i += stride) {
			const struct size *s = &sizes[i];
			const size_t bytes = (size_t)(s->m * s->n) * sizeof(float);
			tilewright_tensor y;
			good(tilewright_get_output(c, output++, &y));
			if (threads == 1) {
				first[i] = malloc(bytes);
				assert_non_null(first[i]);
				memcpy(first[i], y.data, bytes);
				compare(s, a[i], b[i], first[i]);
			} else if (memcmp(first[i], y.data, bytes) != 0) {
				fail_msg("%d x %d x %d: other bits on %d threads", s->m, s->n, s->k, threads);
			}
		}
		tilewright_free_context(c);
	}
	for (int i = 0; i < COUNT; i++)
		free(first[i]);
	tilewright_free_model(model);
}

static void test_best(void **state)
{
	(void)state;
	run(NULL, 1);
}

static void test_generic(void **state)
{
	(void)state;
	run("generic", 3);
}

static int start(void **state)
{
	(void)state;
	uint32_t seed = 11;
	for (int i = 0; i < COUNT; i++) {
		a[i] = filled(sizes[i].m * sizes[i].k, &seed);
		b[i] = filled(sizes[i].k * sizes[i].n, &seed);
	}
	return 0;
}

static int stop(void **state)
{
	(void)state;
	for (int i = 0; i < COUNT; i++) {
		free(a[i]);
		free(b[i]);
	}
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_best), cmocka_unit_test(test_generic)};
	return cmocka_run_group_tests(tests, start, stop);
}
