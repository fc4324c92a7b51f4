/* Flow steps of plans made by hand: loops with values carried over and slices, counts and conditions from data, skips
 * with sizes of their own, and plans that must be refused. */
/* rooms: base rt rt/host */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "rt/rt_int.h"
#include "rt_build.h"

enum { TRIPS = 5 };

static struct tw_error error;

static void good(enum tw_code code)
{
	if (code != TW_ERR_OK)
		fail_msg("%s", error.text);
}

static struct twrt_step flow(enum twrt_step_kind kind, int nbuffers, const int *buffers, int to, int symbol,
			     const struct twrt_expr *value)
{
	return (struct twrt_step){.kind = kind,
				  .kernel = -1,
				  .nbuffers = nbuffers,
				  .buffers = buffers,
				  .to = to,
				  .symbol = symbol,
				  .nsymbols = value != NULL,
				  .symbols = value};
}

static struct twrt_step copy(const int *buffers)
{
	static const int none[] = {-1};
	return (struct twrt_step){
		.kind = TWRT_COPY, .kernel = -1, .nbuffers = 2, .buffers = buffers, .nout = 1, .inplace = none};
}

/* y = x; up to min(count, TRIPS) times while go: z[i] = y + x, y = z[i]. Symbols: n, zero, i, ran. */
static struct twrt_step loop_steps[5];

static void loop_plan(struct twrt_plan *p)
{
	static const char *const symbols[] = {"n", "zero", "i", "ran"};
	static struct twrt_source sources[4];
	static struct twrt_io inputs[3], outputs[2];
	static struct twrt_buffer buffers[6];
	static struct twrt_expr trips;
	static const int init[] = {0, 3}, loop[] = {1, 2}, carry[] = {5, 3}, next[] = {-1};
	const struct twrt_expr bytes = rt_op(TWRT_MUL, rt_sym(0), rt_num(4));
	trips = rt_num(TRIPS);
	sources[0] = (struct twrt_source){.input = 0, .dim = 0};
	sources[1] = (struct twrt_source){.input = -1, .most = rt_num(0)};
	sources[2] = (struct twrt_source){.input = -1, .most = rt_num(TRIPS - 1)};
	sources[3] = (struct twrt_source){.input = -1, .most = rt_num(TRIPS)};
	inputs[0] = (struct twrt_io){"x", TWRT_F32, 1, {rt_sym(0)}, 0};
	inputs[1] = (struct twrt_io){"count", TWRT_I64, 0, {{0}}, 1};
	inputs[2] = (struct twrt_io){"go", TWRT_BOOL, 0, {{0}}, 2};
	outputs[0] = (struct twrt_io){"y", TWRT_F32, 1, {rt_sym(0)}, 3};
	outputs[1] = (struct twrt_io){"z", TWRT_F32, 2, {rt_sym(3), rt_sym(0)}, 4};
	buffers[0] = (struct twrt_buffer){.kind = TWRT_INPUT, .bytes = bytes};
	buffers[1] = (struct twrt_buffer){.kind = TWRT_INPUT, .bytes = rt_num(8)};
	buffers[2] = (struct twrt_buffer){.kind = TWRT_INPUT, .bytes = rt_num(1)};
	buffers[3] = (struct twrt_buffer){.kind = TWRT_OUTPUT, .bytes = bytes};
	buffers[4] = (struct twrt_buffer){.kind = TWRT_OUTPUT, .bytes = rt_op(TWRT_MUL, bytes, rt_sym(3))};
	buffers[5] = (struct twrt_buffer){
		.kind = TWRT_ALIAS, .bytes = bytes, .of = 4, .offset = rt_op(TWRT_MUL, bytes, rt_sym(2))};
	loop_steps[0] = copy(init);
	loop_steps[1] = flow(TWRT_LOOP, 2, loop, 3, 2, &trips);
	loop_steps[2] = rt_step(K_ADD, rt_sym(0), 3, (int[]){3, 0, 5}, 1, NULL);
	loop_steps[3] = copy(carry);
	loop_steps[4] = flow(TWRT_NEXT, 1, next, -3, 3, NULL);
	*p = (struct twrt_plan){.nsymbols = 4,
				.symbols = symbols,
				.sources = sources,
				.ninputs = 3,
				.inputs = inputs,
				.noutputs = 2,
				.outputs = outputs,
				.nbuffers = 6,
				.buffers = buffers,
				.nsteps = 5,
				.steps = loop_steps,
				.nkernels = K_COUNT,
				.kernels = rt_kernel_names};
}

static void check_loop(struct twrt_context *c, int64_t n, int64_t count, bool go)
{
	float *x = malloc((size_t)n * sizeof(*x) + 4);
	assert_non_null(x);
	for (int64_t i = 0; i < n; i++)
		x[i] = (float)(i % 17) - 3;
	good(twrt_set_input(c, 0, TWRT_F32, 1, &n, x, &error));
	good(twrt_set_input(c, 1, TWRT_I64, 0, NULL, &count, &error));
	good(twrt_set_input(c, 2, TWRT_BOOL, 0, NULL, &go, &error));
	good(twrt_run(c, NULL, NULL, &error));
	const int64_t ran = !go || count < 0 ? 0 : count < TRIPS ? count : TRIPS;
	enum twrt_type type;
	int rank;
	int64_t dims[TWRT_MAX_RANK];
	const void *y, *z;
	good(twrt_output(c, 0, &type, &rank, dims, &y, &error));
	assert_int_equal(dims[0], n);
	good(twrt_output(c, 1, &type, &rank, dims, &z, &error));
	assert_int_equal(dims[0], ran);
	assert_int_equal(dims[1], n);
	for (int64_t i = 0; i < n; i++) {
		assert_true(((const float *)y)[i] == x[i] * (float)(1 + ran));
		for (int64_t k = 0; k < ran; k++)
			assert_true(((const float *)z)[k * n + i] == x[i] * (float)(2 + k));
	}
	free(x);
}

static void loops(void **state)
{
	(void)state;
	struct twrt_plan p;
	loop_plan(&p);
	struct twrt_model *m = rt_open(&p);
	for (int threads = 1; threads <= 3; threads += 2) {
		struct twrt_context *c;
		good(twrt_context_new(m, threads, &c, &error));
		for (int64_t count = -1; count < 9; count++)
			check_loop(c, 100 + 7 * count, count, true);
		check_loop(c, 100, 3, false);
		check_loop(c, 100, 3, true); /* the sizes of the run before are forgotten */
		check_loop(c, 0, 3, true);
		twrt_context_free(c);
	}
	twrt_model_close(m);
}

/* What is made before a loop and read in it lives as long as the loop: w = 2x; y = x; y = (y + y) + w, three times, with
   a temporary in the loop that would fit where w lies. Symbols: n, zero, i. */
static void shared_values_live_through(void **state)
{
	(void)state;
	static const char *const symbols[] = {"n", "zero", "i"};
	const struct twrt_source sources[] = {{0, 0, {0}}, {-1, 0, rt_num(0)}, {-1, 0, rt_num(2)}};
	const struct twrt_expr bytes = rt_op(TWRT_MUL, rt_sym(0), rt_num(4)), trips = rt_num(3);
	const struct twrt_io inputs[] = {{"x", TWRT_F32, 1, {rt_sym(0)}, 0}},
			     outputs[] = {{"y", TWRT_F32, 1, {rt_sym(0)}, 1}};
	struct twrt_buffer buffers[5];
	for (int i = 0; i < 5; i++)
		buffers[i] = (struct twrt_buffer){.kind = i == 0   ? TWRT_INPUT
							  : i == 1 ? TWRT_OUTPUT
								   : TWRT_TEMP,
						  .bytes = bytes};
	const int init[] = {0, 1}, none[] = {-1, -1}, carry[] = {4, 1};
	const struct twrt_step steps[] = {rt_step(K_TWICE, rt_sym(0), 2, (int[]){0, 2}, 1, NULL),
					  copy(init),
					  flow(TWRT_LOOP, 2, none, 4, 2, &trips),
					  rt_step(K_TWICE, rt_sym(0), 2, (int[]){1, 3}, 1, NULL),
					  rt_step(K_ADD, rt_sym(0), 3, (int[]){3, 2, 4}, 1, (int[]){1}),
					  copy(carry),
					  flow(TWRT_NEXT, 1, none, -4, -1, NULL)};
	const struct twrt_plan p = {.nsymbols = 3,
				    .symbols = symbols,
				    .sources = sources,
				    .ninputs = 1,
				    .inputs = inputs,
				    .noutputs = 1,
				    .outputs = outputs,
				    .nbuffers = 5,
				    .buffers = buffers,
				    .nsteps = 7,
				    .steps = steps,
				    .nkernels = K_COUNT,
				    .kernels = rt_kernel_names};
	struct twrt_model *m = rt_open(&p);
	struct twrt_context *c;
	good(twrt_context_new(m, 1, &c, &error));
	float x[64];
	const int64_t n = 64;
	for (int i = 0; i < 64; i++)
		x[i] = (float)i;
	good(twrt_set_input(c, 0, TWRT_F32, 1, &n, x, &error));
	good(twrt_run(c, NULL, NULL, &error));
	enum twrt_type type;
	int rank;
	int64_t dims[TWRT_MAX_RANK];
	const void *y;
	good(twrt_output(c, 0, &type, &rank, dims, &y, &error));
	for (int i = 0; i < 64; i++) /* 1, 4, 10, 22 times x */
		assert_true(((const float *)y)[i] == 22 * x[i]);
	twrt_context_free(c);
	twrt_model_close(m);
}

/* v = x; three times: v' = v + x, and v and v' change places; y = 2 v. An odd number of changes, again and again. */
static void values_change_places(void **state)
{
	(void)state;
	static const char *const symbols[] = {"n", "zero", "i"};
	const struct twrt_source sources[] = {{0, 0, {0}}, {-1, 0, rt_num(0)}, {-1, 0, rt_num(2)}};
	const struct twrt_expr bytes = rt_op(TWRT_MUL, rt_sym(0), rt_num(4)), trips = rt_num(3);
	const struct twrt_io inputs[] = {{"x", TWRT_F32, 1, {rt_sym(0)}, 0}};
	const struct twrt_io outputs[] = {{"y", TWRT_F32, 1, {rt_sym(0)}, 1}};
	struct twrt_buffer buffers[4];
	for (int i = 0; i < 4; i++)
		buffers[i] = (struct twrt_buffer){.kind = i == 0   ? TWRT_INPUT
							  : i == 1 ? TWRT_OUTPUT
								   : TWRT_TEMP,
						  .bytes = bytes};
	const int init[] = {0, 2}, none[] = {-1, -1};
	int places[] = {-1, 2, 3};
	const struct twrt_step steps[] = {copy(init), flow(TWRT_LOOP, 2, none, 2, 2, &trips),
					  rt_step(K_ADD, rt_sym(0), 3, (int[]){2, 0, 3}, 1, (int[]){0}),
					  flow(TWRT_NEXT, 3, places, -2, -1, NULL),
					  rt_step(K_TWICE, rt_sym(0), 2, (int[]){2, 1}, 1, NULL)};
	const struct twrt_plan p = {.nsymbols = 3,
				    .symbols = symbols,
				    .sources = sources,
				    .ninputs = 1,
				    .inputs = inputs,
				    .noutputs = 1,
				    .outputs = outputs,
				    .nbuffers = 4,
				    .buffers = buffers,
				    .nsteps = 5,
				    .steps = steps,
				    .nkernels = K_COUNT,
				    .kernels = rt_kernel_names};
	struct twrt_model *m = rt_open(&p);
	struct twrt_context *c;
	good(twrt_context_new(m, 2, &c, &error));
	float x[300];
	for (int i = 0; i < 300; i++)
		x[i] = (float)i;
	for (int run = 0; run < 6; run++) {
		const int64_t n = run % 3 == 2 ? 300 : 64;
		good(twrt_set_input(c, 0, TWRT_F32, 1, &n, x, &error));
		good(twrt_run(c, NULL, NULL, &error));
		enum twrt_type type;
		int rank;
		int64_t dims[TWRT_MAX_RANK];
		const void *y;
		good(twrt_output(c, 0, &type, &rank, dims, &y, &error));
		for (int64_t i = 0; i < n; i++)
			assert_true(((const float *)y)[i] == 8 * x[i]);
	}
	twrt_context_free(c);
	twrt_model_close(m);
	places[2] = 1; /* an output stays where the caller wants it */
	assert_int_equal(twrt_plan_validate(&p, false, &error), TW_ERR_MODEL);
	places[2] = 2;
	assert_int_equal(twrt_plan_validate(&p, false, &error), TW_ERR_MODEL);
}

/* y = go ? 2x : the first half of x. Symbols: n, zero, size. */
static void skips(void **state)
{
	(void)state;
	static const char *const symbols[] = {"n", "zero", "size"};
	const struct twrt_source sources[] = {{0, 0, {0}}, {-1, 0, rt_num(0)}, {-1, 0, rt_sym(0)}};
	const struct twrt_expr bytes = rt_op(TWRT_MUL, rt_sym(0), rt_num(4));
	const struct twrt_expr half = rt_op(TWRT_FLOORDIV, rt_sym(0), rt_num(2)), all = rt_sym(0);
	const struct twrt_io inputs[] = {{"x", TWRT_F32, 1, {rt_sym(0)}, 0}, {"go", TWRT_BOOL, 0, {{0}}, 1}};
	const struct twrt_io outputs[] = {{"y", TWRT_F32, 1, {rt_sym(2)}, 2}};
	const struct twrt_buffer buffers[] = {
		{.kind = TWRT_INPUT, .bytes = bytes},
		{.kind = TWRT_INPUT, .bytes = rt_num(1)},
		{.kind = TWRT_OUTPUT, .bytes = rt_op(TWRT_MUL, rt_sym(2), rt_num(4))},
		{.kind = TWRT_ALIAS, .bytes = rt_op(TWRT_MUL, half, rt_num(4)), .of = 0, .offset = rt_num(0)}};
	const int go[] = {1}, always[] = {-1}, part[] = {3, 2};
	const struct twrt_step steps[] = {flow(TWRT_SKIP, 1, go, 4, 0, NULL),
					  flow(TWRT_SET, 0, go, 0, 2, &all),
					  rt_step(K_TWICE, rt_sym(0), 2, (int[]){0, 2}, 1, NULL),
					  flow(TWRT_SKIP, 1, always, 3, 0, NULL),
					  flow(TWRT_SET, 0, go, 0, 2, &half),
					  copy(part)};
	const struct twrt_plan p = {.nsymbols = 3,
				    .symbols = symbols,
				    .sources = sources,
				    .ninputs = 2,
				    .inputs = inputs,
				    .noutputs = 1,
				    .outputs = outputs,
				    .nbuffers = 4,
				    .buffers = buffers,
				    .nsteps = 6,
				    .steps = steps,
				    .nkernels = K_COUNT,
				    .kernels = rt_kernel_names};
	struct twrt_model *m = rt_open(&p);
	struct twrt_context *c;
	good(twrt_context_new(m, 1, &c, &error));
	float x[90];
	for (int i = 0; i < 90; i++)
		x[i] = (float)i;
	for (int k = 0; k < 6; k++) {
		const bool yes = k % 3 != 0;
		const int64_t n = 90 - 20 * (k / 2);
		good(twrt_set_input(c, 0, TWRT_F32, 1, &n, x, &error));
		good(twrt_set_input(c, 1, TWRT_BOOL, 0, NULL, &yes, &error));
		good(twrt_run(c, NULL, NULL, &error));
		enum twrt_type type;
		int rank;
		int64_t dims[TWRT_MAX_RANK];
		const void *y;
		good(twrt_output(c, 0, &type, &rank, dims, &y, &error));
		assert_int_equal(dims[0], yes ? n : n / 2);
		for (int64_t i = 0; i < dims[0]; i++)
			assert_true(((const float *)y)[i] == (yes ? 2 * x[i] : x[i]));
	}
	twrt_context_free(c);
	twrt_model_close(m);
}

static void refused_plans(void **state)
{
	(void)state;
	struct twrt_plan p;
	const struct twrt_step *s = loop_steps;
	loop_plan(&p);
	assert_int_equal(twrt_plan_validate(&p, false, &error), TW_ERR_OK);
#define BAD(i, change)                                                                                                 \
	do {                                                                                                           \
		loop_plan(&p);                                                                                         \
		loop_steps[i].change;                                                                                  \
		assert_int_equal(twrt_plan_validate(&p, false, &error), TW_ERR_MODEL);                                 \
	} while (0)
	BAD(1, to = 4);
	BAD(1, to = 2);
	BAD(1, to = -1);
	BAD(1, symbol = 0);
	BAD(1, symbol = 4);
	BAD(1, nsymbols = 0);
	BAD(1, nbuffers = 1);
	BAD(4, to = 0);
	BAD(4, to = -9);
	BAD(4, symbol = 0);
	BAD(4, kind = TWRT_SKIP);
	BAD(4, kind = TWRT_SET + 1);
	loop_plan(&p);
	p.nsetup = 5; /* the set-up runs once, and knows no flow */
	assert_int_equal(twrt_plan_validate(&p, true, &error), TW_ERR_MODEL);
	assert_int_equal(s[1].kind, TWRT_LOOP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(loops), cmocka_unit_test(shared_values_live_through),
					   cmocka_unit_test(values_change_places), cmocka_unit_test(skips),
					   cmocka_unit_test(refused_plans)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
