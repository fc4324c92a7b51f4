/* Convolutions of a few positions over a batch of unknown length, which have one form for few images and one for many: sums of batches on both
 * sides of the change, held against sums in double precision, and one thread against two, bit for bit. */
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

struct conv {
	int in, out, positions; /* channels */
};

enum { KERNEL = 3, MOST = 40, COUNT = 5 };
static const struct conv convs[COUNT] = {{129, 96, 4}, {64, 70, 5}, {20, 33, 2}, {7, 130, 7}, {300, 48, 3}};
static const int batches[] = {1, 2, 3, 4, 6, 7, 8, 13, MOST, 0};

static float *x[COUNT], *w[COUNT];

static float *filled(int n, uint32_t *state) /* in [-1, 1) */
{
	float *at = malloc((size_t)n * sizeof(*at));
	assert_non_null(at);
	for (int i = 0; i < n; i++) {
		*state = *state * 1664525u + 1013904223u;
		at[i] = (float)(*state >> 8) / (float)(1 << 23) - 1.0f;
	}
	return at;
}

static int length(const struct conv *c)
{
	return c->positions + KERNEL - 1;
}

static void good(tilewright_status s)
{
	if (s != TILEWRIGHT_OK)
		fail_msg("%s", tilewright_last_error());
}

static tilewright_model *compile(const char *isa)
{
	struct tw_arena *arena = arena_new();
	struct tw_buf graph, file;
	tilewright_model *model = NULL;
	buf_init(&graph, arena);
	buf_init(&file, arena);
	for (int i = 0; i < COUNT; i++) {
		const struct conv *c = &convs[i];
		const char *in = arena_printf(arena, "x%d", i), *by = arena_printf(arena, "w%d", i);
		const char *sum = arena_printf(arena, "s%d", i), *out = arena_printf(arena, "y%d", i);
		put_node(&graph, 1, "Conv", "", arena_printf(arena, "%s,%s", in, by), sum, NULL);
		put_node(&graph, 1, "Relu", "", sum, out, NULL);
		put_initializer(&graph, by, 3, (const int64_t[]){c->out, c->in, KERNEL}, w[i], NULL,
				c->out * c->in * KERNEL);
		put_value(&graph, 11, in, 1, arena_printf(arena, "n,%d,%d", c->in, length(c)));
		put_value(&graph, 12, out, 1, arena_printf(arena, "n,%d,%d", c->out, c->positions));
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

static void compare(int i, int batch, const float *got)
{
	const struct conv *c = &convs[i];
	for (int n = 0; n < batch * c->out * c->positions; n++) {
		const int at = n % c->positions, o = n / c->positions % c->out, b = n / c->positions / c->out;
		double sum = 0, magnitude = 0;
		for (int k = 0; k < c->in * KERNEL; k++) {
			const float *row = x[i] + (b * c->in + k / KERNEL) * length(c);
			const double product = (double)row[at + k % KERNEL] * (double)w[i][o * c->in * KERNEL + k];
			sum += product;
			magnitude += fabs(product);
		}
		if (!(fabs((double)got[n] - (sum > 0 ? sum : 0)) <= 1e-6 * magnitude + 1e-7))
			fail_msg("convolution %d of %d: [%d, %d, %d] is %g instead of %g", i, batch, b, o, at,
				 (double)got[n], sum);
	}
}

static void run(tilewright_model *model, int batch)
{
	float *first[COUNT] = {NULL};
	for (int threads = 1; threads <= 2; threads++) {
		tilewright_context *context = NULL;
		good(tilewright_create_context(model, threads, &context));
		for (int i = 0; i < COUNT; i++) {
			const int64_t shape[] = {batch, convs[i].in, length(&convs[i])};
			good(tilewright_set_input(context, i, TILEWRIGHT_F32, 3, shape, x[i]));
		}
		good(tilewright_run(context));
		for (int i = 0; i < COUNT; i++) {
			const size_t bytes = (size_t)(batch * convs[i].out * convs[i].positions) * sizeof(float);
			tilewright_tensor y;
			good(tilewright_get_output(context, i, &y));
			if (threads == 1) {
				compare(i, batch, y.data);
				first[i] = malloc(bytes + 1);
				assert_non_null(first[i]);
				memcpy(first[i], y.data, bytes);
			} else if (memcmp(first[i], y.data, bytes) != 0) {
				fail_msg("convolution %d of %d: other bits on two threads", i, batch);
			}
		}
		tilewright_free_context(context);
	}
	for (int i = 0; i < COUNT; i++)
		free(first[i]);
}

static void run_all(const char *isa)
{
	tilewright_model *model = compile(isa);
	for (size_t i = 0; i < sizeof(batches) / sizeof(batches[0]); i++)
		run(model, batches[i]);
	tilewright_free_model(model);
}

static void test_best(void **state)
{
	(void)state;
	run_all(NULL);
}

static void test_generic(void **state)
{
	(void)state;
	run_all("generic");
}

static int start(void **state)
{
	(void)state;
	uint32_t seed = 5;
	for (int i = 0; i < COUNT; i++) {
		x[i] = filled(MOST * convs[i].in * length(&convs[i]), &seed);
		w[i] = filled(convs[i].out * convs[i].in * KERNEL, &seed);
	}
	return 0;
}

static int stop(void **state)
{
	(void)state;
	for (int i = 0; i < COUNT; i++) {
		free(x[i]);
		free(w[i]);
	}
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_best), cmocka_unit_test(test_generic)};
	return cmocka_run_group_tests(tests, start, stop);
}
