/* How far long sums are from sums in double precision, over many results: a bound that one accumulator for all terms breaks. The error of n roundings one after
 * another, of random terms, is about sqrt(n / 2) times that of one, 2.5e-8 of the result: of 2048 terms 8e-7, of pieces of 160 terms less than 2.5e-7. Winograd's tiles
 * of 4 x 4 outputs cancel sums of random terms until the error is about six times as large: of 512 terms 2.2e-6, of pieces of 160 1.4e-6, of pieces of 32 8e-7. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>

#include "onnx_writer.h"
#include "tilewright.h"

struct sum {
	const char *what;
	const char *op;
	int64_t a[4],
		b[4]; /* shapes; b is constant. MatMul and ReduceSum: a is rows x terms; Conv: image and filters */
	int stride;
	double bound; /* of the root mean square of the errors, as a part of that of the results */
};

static const struct sum sums[] = {
	{"many rows", "MatMul", {128, 2048}, {2048, 64}, 1, 2.8e-7},
	{"a prime number of terms", "MatMul", {37, 1999}, {1999, 33}, 1, 2.8e-7},
	{"one row", "MatMul", {1, 2048}, {2048, 512}, 1, 1.9e-7},
	{"one column", "MatMul", {300, 2048}, {2048, 1}, 1, 5e-8},
	{"a row's sum", "ReduceSum", {300, 4000}, {0}, 1, 5e-8},
	{"strided convolution", "Conv", {1, 128, 15, 15}, {48, 128, 3, 3}, 2, 2.8e-7},
	{"convolution of one pixel", "Conv", {1, 1024, 7, 9}, {64, 1024, 1, 1}, 1, 2.8e-7},
	{"convolution by tiles", "Conv", {1, 512, 30, 30}, {64, 512, 3, 3}, 1, 1e-6},
};
enum { COUNT = sizeof(sums) / sizeof(sums[0]) };

static float some(uint64_t *state) /* in [-1, 1) */
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (float)(*state >> 40) / (float)(1 << 23) - 1.0f;
}

static int64_t elements(const int64_t *shape)
{
	int64_t n = shape[0];
	for (int d = 1; d < 4 && shape[d]; d++)
		n *= shape[d];
	return n;
}

static float *filled(int64_t n, uint64_t *seed)
{
	float *at = malloc((size_t)(n + 1) * sizeof(*at));
	assert_non_null(at);
	for (int64_t i = 0; i < n; i++)
		at[i] = some(seed);
	return at;
}

static void good(tilewright_status s)
{
	if (s != TILEWRIGHT_OK)
		fail_msg("%s", tilewright_last_error());
}

static const char *sizes(struct tw_arena *a, const int64_t *shape)
{
	return shape[2] ? arena_printf(a, "%d,%d,%d,%d", (int)shape[0], (int)shape[1], (int)shape[2], (int)shape[3])
			: arena_printf(a, "%d,%d", (int)shape[0], (int)shape[1]);
}

static tilewright_model *compile(const struct sum *s, const float *b)
{
	struct tw_arena *arena = arena_new();
	struct tw_buf graph, file, attrs;
	tilewright_model *model = NULL;
	buf_init(&graph, arena);
	buf_init(&file, arena);
	buf_init(&attrs, arena);
	if (s->a[2]) {
		struct tw_buf strides, one;
		buf_init(&strides, arena);
		put_text(&strides, 1, "strides");
		put_int(&strides, 20, 7); /* INTS */
		for (int i = 0; i < 2; i++)
			put_int(&strides, 8, s->stride);
		buf_init(&one, arena);
		put_message(&one, 5, &strides);
		attrs = one;
	} else if (!s->b[0]) {
		put_attr_int(&attrs, "keepdims", 0);
		put_initializer(&graph, "b", 1, (const int64_t[]){1}, NULL, (const int64_t[]){1}, 1);
	}
	put_node(&graph, 1, s->op, "", "a,b", "y", &attrs);
	if (s->b[0])
		put_initializer(&graph, "b", s->b[2] ? 4 : 2, s->b, b, NULL, (int)elements(s->b));
	put_value(&graph, 11, "a", 1, sizes(arena, s->a));
	put_value(&graph, 12, "y", 1, NULL);
	put_model(&file, &graph, 17, NULL);
	tilewright_options *o = tilewright_create_options();
	tilewright_use_cache(o, 0);
	good(tilewright_compile_memory(file.at, file.n, NULL, o, &model));
	tilewright_free_options(o);
	arena_free(arena);
	return model;
}

/* Result i in double precision. */
static double result(const struct sum *s, const float *a, const float *b, int64_t i)
{
	double sum = 0;
	if (!s->b[0]) {
		for (int64_t k = 0; k < s->a[1]; k++)
			sum += (double)a[i * s->a[1] + k];
	} else if (!s->a[2]) {
		const int64_t row = i / s->b[1], column = i % s->b[1];
		for (int64_t k = 0; k < s->a[1]; k++)
			sum += (double)a[row * s->a[1] + k] * (double)b[k * s->b[1] + column];
	} else {
		const int64_t size = s->b[2], h = (s->a[2] - size) / s->stride + 1,
			      w = (s->a[3] - size) / s->stride + 1;
		const int64_t filter = i / (h * w), y = i % (h * w) / w * s->stride, x = i % w * s->stride;
		for (int64_t c = 0; c < s->b[1]; c++)
			for (int64_t k = 0; k < size * size; k++)
				sum += (double)a[(c * s->a[2] + y + k / size) * s->a[3] + x + k % size] *
				       (double)b[(filter * s->b[1] + c) * size * size + k];
	}
	return sum;
}

static void errors(void **state)
{
	(void)state;
	uint64_t seed = 5;
	for (int i = 0; i < COUNT; i++) {
		const struct sum *s = &sums[i];
		float *a = filled(elements(s->a), &seed), *b = filled(elements(s->b), &seed);
		tilewright_model *model = compile(s, b);
		tilewright_context *c = NULL;
		tilewright_tensor y;
		good(tilewright_create_context(model, 1, &c));
		good(tilewright_set_input(c, 0, TILEWRIGHT_F32, s->a[2] ? 4 : 2, s->a, a));
		good(tilewright_run(c));
		good(tilewright_get_output(c, 0, &y));
		double off = 0, all = 0;
		const int64_t n = (int64_t)(y.bytes / sizeof(float));
		assert_true(n > 0);
		for (int64_t k = 0; k < n; k++) {
			const double want = result(s, a, b, k), error = (double)((const float *)y.data)[k] - want;
			off += error * error;
			all += want * want;
		}
		if (!(sqrt(off / all) <= s->bound))
			fail_msg("%s: off by %.2e, not %.2e", s->what, sqrt(off / all), s->bound);
		if (getenv("TW_VERBOSE"))
			print_message("%s: %.2e\n", s->what, sqrt(off / all));
		tilewright_free_context(c);
		tilewright_free_model(model);
		free(a);
		free(b);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(errors)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
