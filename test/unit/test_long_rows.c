/* Sums over rows of a hundred thousand elements: means, pools, softmax, norms, over axes where a lane has a row of its own and over axes that lie in memory one after
 * another, against double precision. A rounding is off by 2.4e-8 of the result (root mean square). One accumulator of n positive terms, which grows evenly, is off by
 * sqrt(n / 3) roundings, 4.4e-6 of 100,000 terms; n / L pieces of L = 2 sqrt(n) terms by sqrt(n / L / 3), 1.7e-7, while what each piece is off by is averaged away.
 * Where lanes share a row each adds up a part of it; the sixteenth of 150,000 terms, on the narrowest machine, makes 3.3e-7. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>

#include "onnx_writer.h"
#include "tilewright.h"

enum kind { MEAN, SQUARES, SOFTMAX, NORM };

/* The input is seen as [outer, n, inner], and the n elements are a row; its shape is dims. */
struct row_case {
	const char *what, *op;
	enum kind kind;
	int rank;
	int64_t dims[4], outer, n, inner;
	const char *axes; /* the attribute that names the row's axes, or the kernel; NULL: none */
	int naxes;	  /* 0: a number, no list */
	int64_t axis[2];
	bool scaled; /* has a scale and a bias of so many elements */
	int64_t elements;
	double bound;
};

static const struct row_case cases[] = {
	{"mean, a lane a row", "ReduceMean", MEAN, 2, {100000, 24}, 1, 100000, 24, "axes", 1, {0}, false, 0, 3e-7},
	{"mean, rows side by side", "ReduceMean", MEAN, 2, {3, 150000}, 3, 150000, 1, "axes", 1, {1}, false, 0, 4e-7},
	{"squares, a lane a row",
	 "ReduceSumSquare",
	 SQUARES,
	 2,
	 {100000, 24},
	 1,
	 100000,
	 24,
	 "axes",
	 1,
	 {0},
	 false,
	 0,
	 4e-7},
	{"softmax, a lane a row", "Softmax", SOFTMAX, 2, {100000, 24}, 1, 100000, 24, "axis", 0, {0}, false, 0, 3e-7},
	{"softmax in two axes", "Softmax", SOFTMAX, 3, {2, 60000, 20}, 2, 60000, 20, "axis", 0, {1}, false, 0, 3e-7},
	{"softmax, rows side by side",
	 "Softmax",
	 SOFTMAX,
	 2,
	 {3, 150000},
	 3,
	 150000,
	 1,
	 "axis",
	 0,
	 {1},
	 false,
	 0,
	 4e-7},
	{"global pool", "GlobalAveragePool", MEAN, 4, {1, 8, 300, 500}, 8, 150000, 1, NULL, 0, {0}, false, 0, 4e-7},
	{"pool", "AveragePool", MEAN, 4, {1, 3, 400, 400}, 3, 160000, 1, "kernel_shape", 2, {400, 400}, false, 0, 4e-7},
	{"instance norm",
	 "InstanceNormalization",
	 NORM,
	 4,
	 {1, 4, 300, 500},
	 4,
	 150000,
	 1,
	 NULL,
	 0,
	 {0},
	 true,
	 4,
	 4e-7},
	{"layer norm", "LayerNormalization", NORM, 2, {2, 150000}, 2, 150000, 1, NULL, 0, {0}, true, 150000, 4e-7},
};
enum { COUNT = sizeof(cases) / sizeof(cases[0]) };

static void good(tilewright_status s)
{
	if (s != TILEWRIGHT_OK)
		fail_msg("%s", tilewright_last_error());
}

static void put_axes(struct tw_buf *attrs, struct tw_arena *a, const struct row_case *c)
{
	struct tw_buf one;
	if (!c->naxes) {
		put_attr_int(attrs, c->axes, c->axis[0]);
		return;
	}
	buf_init(&one, a);
	put_text(&one, 1, c->axes);
	put_int(&one, 20, 7); /* INTS */
	for (int i = 0; i < c->naxes; i++)
		put_int(&one, 8, c->axis[i]);
	put_message(attrs, 5, &one);
}

static tilewright_model *compile(const struct row_case *c)
{
	struct tw_arena *arena = arena_new();
	struct tw_buf graph, file, attrs, sizes;
	tilewright_model *model = NULL;
	buf_init(&graph, arena);
	buf_init(&file, arena);
	buf_init(&attrs, arena);
	buf_init(&sizes, arena);
	for (int d = 0; d < c->rank; d++)
		buf_printf(&sizes, "%s%d", d ? "," : "", (int)c->dims[d]);
	if (c->axes)
		put_axes(&attrs, arena, c);
	put_node(&graph, 1, c->op, "", c->scaled ? "x,scale,bias" : "x", "y", &attrs);
	if (c->scaled) {
		float *scale = ARENA_ARRAY(arena, float, c->elements), *bias = ARENA_ARRAY(arena, float, c->elements);
		for (int64_t i = 0; i < c->elements; i++) {
			scale[i] = 1;
			bias[i] = 0;
		}
		put_initializer(&graph, "scale", 1, &c->elements, scale, NULL, (int)c->elements);
		put_initializer(&graph, "bias", 1, &c->elements, bias, NULL, (int)c->elements);
	}
	put_value(&graph, 11, "x", 1, sizes.at);
	put_value(&graph, 12, "y", 1, NULL);
	put_model(&file, &graph, 17, NULL);
	tilewright_options *o = tilewright_create_options();
	tilewright_use_cache(o, 0);
	good(tilewright_compile_memory(file.at, file.n, NULL, o, &model));
	tilewright_free_options(o);
	arena_free(arena);
	return model;
}

/* What should become of one row: one number, or one for each element. */
static void row(const struct row_case *c, const float *x, double *y)
{
	double sum = 0, squares = 0, powers = 0;
	for (int64_t i = 0; i < c->n; i++) {
		const double v = x[i * c->inner];
		sum += v;
		squares += v * v;
		powers += exp(v);
	}
	const double mean = sum / (double)c->n, spread = sqrt(squares / (double)c->n - mean * mean + (double)1e-5f);
	if (c->kind == MEAN || c->kind == SQUARES)
		*y = c->kind == MEAN ? mean : squares;
	for (int64_t i = 0; c->kind >= SOFTMAX && i < c->n; i++) {
		const double v = x[i * c->inner];
		y[i] = c->kind == SOFTMAX ? exp(v) / powers : (v - mean) / spread;
	}
}

static double error(const struct row_case *c, const float *x, const float *y)
{
	const int64_t results = c->kind >= SOFTMAX ? c->n : 1;
	double off = 0, all = 0, *want = malloc((size_t)c->n * sizeof(*want));
	assert_non_null(want);
	for (int64_t r = 0; r < c->outer * c->inner; r++) {
		const int64_t outer = r / c->inner, inner = r % c->inner;
		row(c, x + outer * c->n * c->inner + inner, want);
		for (int64_t i = 0; i < results; i++) {
			const double found = (double)y[(outer * results + i) * c->inner + inner];
			off += (found - want[i]) * (found - want[i]);
			all += want[i] * want[i];
		}
	}
	free(want);
	return sqrt(off / all);
}

static void errors(void **state)
{
	(void)state;
	uint64_t seed = 5;
	for (int i = 0; i < COUNT; i++) {
		const struct row_case *c = &cases[i];
		const int64_t n = c->outer * c->n * c->inner;
		float *x = malloc((size_t)n * sizeof(*x));
		assert_non_null(x);
		for (int64_t k = 0; k < n; k++) { /* in [0, 1) */
			seed = seed * 6364136223846793005u + 1442695040888963407u;
			x[k] = (float)(seed >> 40) / (float)(1 << 24);
		}
		tilewright_model *model = compile(c);
		tilewright_context *context = NULL;
		tilewright_tensor y;
		good(tilewright_create_context(model, 1, &context));
		good(tilewright_set_input(context, 0, TILEWRIGHT_F32, c->rank, c->dims, x));
		good(tilewright_run(context));
		good(tilewright_get_output(context, 0, &y));
		assert_int_equal(y.bytes / sizeof(float), c->kind >= SOFTMAX ? n : c->outer * c->inner);
		const double found = error(c, x, y.data);
		if (getenv("TW_VERBOSE"))
			print_message("%s: %.2e\n", c->what, found);
		if (!(found <= c->bound))
			fail_msg("%s: off by %.2e, not %.2e", c->what, found, c->bound);
		tilewright_free_context(context);
		tilewright_free_model(model);
		free(x);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(errors)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
