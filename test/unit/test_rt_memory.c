/* The memory planner against brute force: intervals never overlap, and random plans with in-place steps and aliases
 * compute what they say. */
/* rooms: base rt rt/host */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "rt/rt_int.h"
#include "rt_build.h"

static struct tw_error error;

static uint64_t next(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return *state >> 33;
}

static void intervals(void **state)
{
	(void)state;
	uint64_t seed = 7;
	double used = 0, bound = 0;
	for (int round = 0; round < 300; round++) {
		struct twrt_interval at[80];
		const int n = 1 + (int)(next(&seed) % 80);
		for (int i = 0; i < n; i++) {
			at[i].first = (int)(next(&seed) % 40);
			at[i].last = at[i].first + (int)(next(&seed) % 6);
			at[i].bytes = (int64_t)(next(&seed) % 10 ? next(&seed) % 5000 : 0);
		}
		int64_t arena;
		assert_int_equal(twrt_place(n, at, &arena, &error), TW_ERR_OK);
		for (int i = 0; i < n; i++) {
			assert_int_equal(at[i].offset % 64, 0);
			assert_in_range(at[i].offset + at[i].bytes, 0, arena);
			for (int k = 0; k < i; k++) {
				const bool time = at[i].first <= at[k].last && at[k].first <= at[i].last;
				const bool space = at[i].offset < at[k].offset + at[k].bytes &&
						   at[k].offset < at[i].offset + at[i].bytes;
				if (time && space && at[i].bytes && at[k].bytes)
					fail_msg("blocks %d and %d overlap", i, k);
			}
		}
		int64_t most = 0; /* what lives at once needs at least so much */
		for (int step = 0; step < 46; step++) {
			int64_t sum = 0;
			for (int i = 0; i < n; i++)
				if (at[i].first <= step && step <= at[i].last)
					sum += (at[i].bytes + 63) / 64 * 64;
			most = sum > most ? sum : most;
		}
		assert_true(arena >= most);
		used += (double)arena;
		bound += (double)most;
	}
	assert_true(used < 1.15 * bound); /* no test of quality, but of nothing being badly wrong */
	struct twrt_interval huge[] = {{0, 1, INT64_MAX - 100, 0}, {0, 1, INT64_MAX - 100, 0}};
	int64_t arena;
	assert_int_equal(twrt_place(2, huge, &arena, &error), TW_ERR_INPUT);
}

/* A random chain of steps over tensors of n x m floats, with the values that each should have kept beside it. */
enum { STEPS = 24, N = 6, M = 32, COUNT = N * M };

static void expected(int kernel, const float *a, const float *b, float *out)
{
	for (int i = 0; i < COUNT; i++)
		out[i] = kernel == K_ADD ? a[i] + b[i] : kernel == K_TWICE ? a[i] + a[i] : 0.5f * a[i] - b[i] + 1.0f;
}

static void random_plan(uint64_t seed)
{
	static float value[2 * STEPS + 4][COUNT];
	struct twrt_buffer buffers[2 * STEPS + 4];
	struct twrt_step steps[STEPS];
	struct twrt_io inputs[2], outputs[STEPS];
	static const char *const symbols[] = {"n", "m"};
	static const struct twrt_source sources[] = {{0, 0}, {0, 1}};
	const struct twrt_expr count = rt_op(TWRT_MUL, rt_sym(0), rt_sym(1)), bytes = rt_op(TWRT_MUL, count, rt_num(4));
	int nbuffers = 0, noutputs = 0;
	for (int i = 0; i < 2; i++) {
		inputs[i] = (struct twrt_io){i ? "b" : "a", TWRT_F32, 2, {rt_sym(0), rt_sym(1)}, i};
		buffers[nbuffers++] = (struct twrt_buffer){.kind = TWRT_INPUT, .bytes = bytes};
		for (int k = 0; k < COUNT; k++)
			value[i][k] = (float)(next(&seed) % 1000) / 64 - 7;
	}
	for (int s = 0; s < STEPS; s++) {
		const int kernels[] = {K_ADD, K_TWICE, K_MIX}, kernel = kernels[next(&seed) % 3];
		const int recent = nbuffers > 6 && next(&seed) % 2 ? nbuffers - 4 : 0;
		const int a = recent + (int)(next(&seed) % (uint64_t)(nbuffers - recent)),
			  b = (int)(next(&seed) % (uint64_t)nbuffers), out = nbuffers++;
		const bool unary = kernel == K_TWICE, last = s + 1 == STEPS;
		buffers[out] = (struct twrt_buffer){.kind = last || next(&seed) % 8 == 0 ? TWRT_OUTPUT : TWRT_TEMP,
						    .bytes = bytes};
		const int in_place = (int)(next(&seed) % (unary ? 2 : 3)) - 1;
		steps[s] = rt_step(kernel, count, unary ? 2 : 3, unary ? (int[]){a, out} : (int[]){a, b, out}, 1,
				   &in_place);
		expected(kernel, value[a], value[b], value[out]);
		bool output = buffers[out].kind == TWRT_OUTPUT;
		int named = out;
		if (!last && next(&seed) % 3 == 0) { /* a view, through which later steps read */
			named = nbuffers++;
			buffers[named] = (struct twrt_buffer){
				.kind = TWRT_ALIAS, .bytes = bytes, .of = out, .offset = rt_num(0)};
			memcpy(value[named], value[out], sizeof(value[out]));
			if (next(&seed) % 4 == 0)
				outputs[noutputs++] = (struct twrt_io){"view", TWRT_F32, 1, {count}, named};
		}
		if (output)
			outputs[noutputs++] = (struct twrt_io){"y", TWRT_F32, 1, {count}, out};
	}
	const struct twrt_plan p = {.nsymbols = 2,
				    .symbols = symbols,
				    .sources = sources,
				    .ninputs = 2,
				    .inputs = inputs,
				    .noutputs = noutputs,
				    .outputs = outputs,
				    .nbuffers = nbuffers,
				    .buffers = buffers,
				    .nsteps = STEPS,
				    .steps = steps,
				    .nkernels = K_COUNT,
				    .kernels = rt_kernel_names};
	struct twrt_model *m = rt_open(&p);
	assert_non_null(m);
	struct twrt_context *c;
	assert_int_equal(twrt_context_new(m, 2, &c, &error), TW_ERR_OK);
	static float mine[STEPS][COUNT];
	for (int run = 0; run < 2; run++) {
		for (int i = 0; i < 2; i++)
			assert_int_equal(twrt_set_input(c, i, TWRT_F32, 2, (int64_t[]){N, M}, value[i], &error),
					 TW_ERR_OK);
		for (int i = 0; i < noutputs; i++)
			assert_int_equal(twrt_set_output(c, i, run ? mine[i] : NULL, sizeof(mine[i]), &error),
					 TW_ERR_OK);
		if (twrt_run(c, NULL, NULL, &error) != TW_ERR_OK)
			fail_msg("%s", error.text);
		for (int i = 0; i < noutputs; i++) {
			enum twrt_type type;
			int rank;
			int64_t dims[TWRT_MAX_RANK];
			const void *data;
			assert_int_equal(twrt_output(c, i, &type, &rank, dims, &data, &error), TW_ERR_OK);
			if (memcmp(data, value[outputs[i].buffer], sizeof(value[0])) != 0)
				fail_msg("output %d (buffer %d) is wrong", i, outputs[i].buffer);
			if (run)
				assert_ptr_equal(data, mine[i]);
		}
	}
	twrt_context_free(c);
	twrt_model_close(m);
}

static void random_plans(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < 150; seed++)
		random_plan(seed * 77777);
}

/* A buffer read at two places of one step must not be taken over; nor one with a part that lives on; a part of a
   larger one is written in place. */
static void parts(void **state)
{
	(void)state;
	const struct twrt_expr count = rt_op(TWRT_MUL, rt_sym(0), rt_sym(1)), bytes = rt_op(TWRT_MUL, count, rt_num(4));
	static const char *const symbols[] = {"n", "m"};
	static const struct twrt_source sources[] = {{0, 0}, {0, 1}};
	/* y = concat(2 a, a + a's double): two halves of one buffer */
	struct twrt_buffer buffers[] = {{.kind = TWRT_INPUT, .bytes = bytes},
					{.kind = TWRT_OUTPUT, .bytes = rt_op(TWRT_MUL, bytes, rt_num(2))},
					{.kind = TWRT_ALIAS, .bytes = bytes, .of = 1, .offset = rt_num(0)},
					{.kind = TWRT_ALIAS, .bytes = bytes, .of = 1, .offset = bytes}};
	struct twrt_step steps[] = {rt_step(K_TWICE, count, 2, (int[]){0, 2}, 1, NULL),
				    rt_step(K_ADD, count, 3, (int[]){0, 2, 3}, 1, NULL)};
	struct twrt_io in = {"a", TWRT_F32, 2, {rt_sym(0), rt_sym(1)}, 0},
		       out = {"y", TWRT_F32, 1, {rt_op(TWRT_MUL, count, rt_num(2))}, 1};
	struct twrt_plan p = {.nsymbols = 2,
			      .symbols = symbols,
			      .sources = sources,
			      .ninputs = 1,
			      .inputs = &in,
			      .noutputs = 1,
			      .outputs = &out,
			      .nbuffers = 4,
			      .buffers = buffers,
			      .nsteps = 2,
			      .steps = steps,
			      .nkernels = K_COUNT,
			      .kernels = rt_kernel_names};
	struct twrt_model *m = rt_open(&p);
	struct twrt_context *c;
	assert_int_equal(twrt_context_new(m, 1, &c, &error), TW_ERR_OK);
	static float a[COUNT];
	for (int i = 0; i < COUNT; i++)
		a[i] = (float)i;
	assert_int_equal(twrt_set_input(c, 0, TWRT_F32, 2, (int64_t[]){N, M}, a, &error), TW_ERR_OK);
	assert_int_equal(twrt_run(c, NULL, NULL, &error), TW_ERR_OK);
	enum twrt_type type;
	int rank;
	int64_t dims[TWRT_MAX_RANK];
	const void *data;
	assert_int_equal(twrt_output(c, 0, &type, &rank, dims, &data, &error), TW_ERR_OK);
	for (int i = 0; i < COUNT; i++) {
		assert_true(((const float *)data)[i] == 2 * a[i]);
		assert_true(((const float *)data)[COUNT + i] == 3 * a[i]);
	}
	twrt_context_free(c);
	twrt_model_close(m);
	/* a part that sticks out is refused when the sizes are known */
	buffers[3].offset = rt_op(TWRT_ADD, bytes, rt_num(4));
	m = rt_open(&p);
	assert_int_equal(twrt_context_new(m, 1, &c, &error), TW_ERR_OK);
	assert_int_equal(twrt_set_input(c, 0, TWRT_F32, 2, (int64_t[]){N, M}, a, &error), TW_ERR_OK);
	assert_int_equal(twrt_run(c, NULL, NULL, &error), TW_ERR_MODEL);
	twrt_context_free(c);
	twrt_model_close(m);
}

/* Where taking over would spoil something: an operand read twice by one step, and two outputs that both could have one
   input. */
static void no_take_over(void **state)
{
	(void)state;
	const struct twrt_expr count = rt_op(TWRT_MUL, rt_sym(0), rt_sym(1)), bytes = rt_op(TWRT_MUL, count, rt_num(4));
	static const char *const symbols[] = {"n", "m"};
	static const struct twrt_source sources[] = {{0, 0}, {0, 1}};
	struct twrt_buffer buffers[7] = {{.kind = TWRT_INPUT, .bytes = bytes}};
	for (int i = 1; i < 6; i++)
		buffers[i] = (struct twrt_buffer){.kind = TWRT_TEMP, .bytes = bytes};
	buffers[6] = (struct twrt_buffer){.kind = TWRT_OUTPUT, .bytes = bytes};
	/* t = 2 a; u[i] = t[i] + t[i % m]; v = u + 1, w = u + 2; y = 0.5 v - w + 1 */
	struct twrt_step steps[] = {rt_step(K_TWICE, count, 2, (int[]){0, 1}, 1, NULL),
				    rt_step(K_BIAS, count, 3, (int[]){1, 1, 2}, 1, (int[]){0}),
				    rt_step(K_SPLIT, count, 3, (int[]){2, 3, 4}, 2, (int[]){0, 0}),
				    rt_step(K_MIX, count, 3, (int[]){3, 4, 6}, 1, NULL)};
	struct twrt_io in = {"a", TWRT_F32, 2, {rt_sym(0), rt_sym(1)}, 0}, out = {"y", TWRT_F32, 1, {count}, 6};
	const struct twrt_plan p = {.nsymbols = 2,
				    .symbols = symbols,
				    .sources = sources,
				    .ninputs = 1,
				    .inputs = &in,
				    .noutputs = 1,
				    .outputs = &out,
				    .nbuffers = 7,
				    .buffers = buffers,
				    .nsteps = 4,
				    .steps = steps,
				    .nkernels = K_COUNT,
				    .kernels = rt_kernel_names};
	struct twrt_model *m = rt_open(&p);
	struct twrt_context *c;
	assert_int_equal(twrt_context_new(m, 1, &c, &error), TW_ERR_OK);
	static float a[COUNT];
	for (int i = 0; i < COUNT; i++)
		a[i] = (float)(i % 50);
	assert_int_equal(twrt_set_input(c, 0, TWRT_F32, 2, (int64_t[]){N, M}, a, &error), TW_ERR_OK);
	assert_int_equal(twrt_run(c, NULL, NULL, &error), TW_ERR_OK);
	enum twrt_type type;
	int rank;
	int64_t dims[TWRT_MAX_RANK];
	const void *data;
	assert_int_equal(twrt_output(c, 0, &type, &rank, dims, &data, &error), TW_ERR_OK);
	for (int i = 0; i < COUNT; i++) {
		const float u = 2 * a[i] + 2 * a[i % M];
		assert_true(((const float *)data)[i] == 0.5f * (u + 1) - (u + 2) + 1);
	}
	twrt_context_free(c);
	twrt_model_close(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(intervals), cmocka_unit_test(random_plans),
					   cmocka_unit_test(parts), cmocka_unit_test(no_take_over)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
