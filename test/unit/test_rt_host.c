/* Host operators against plain loops, and sizes that they find while a run goes on. */
/* rooms: base rt rt/host */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
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

static struct twrt_host_tensor tensor(enum twrt_type type, void *data, int rank, const int64_t *dims)
{
	struct twrt_host_tensor t = {.type = type, .rank = rank, .data = data, .present = true};
	memcpy(t.dims, dims, (size_t)rank * sizeof(*dims));
	return t;
}
#define T(type, data, ...)                                                                                             \
	tensor(type, data, (int)(sizeof((int64_t[]){__VA_ARGS__}) / 8), (const int64_t[]){__VA_ARGS__})

static enum tw_code call(const char *name, const struct twrt_host_tensor *in, int nin, struct twrt_host_tensor *out,
			 int nout, const char *attrs)
{
	const struct twrt_host *h = twrt_host_find(name);
	assert_non_null(h);
	return h->run(in, nin, out, nout, attrs, (int64_t)strlen(attrs), &error);
}

static void attributes(void **state)
{
	(void)state;
	const char text[] = "axis=-2\nmode=a b\nx=1.5e3\naxis2=7\nempty=\n";
	const int64_t n = (int64_t)strlen(text);
	char value[8];
	assert_int_equal(twrt_host_int(text, n, "axis", 9), -2);
	assert_int_equal(twrt_host_int(text, n, "axis2", 9), 7);
	assert_int_equal(twrt_host_int(text, n, "axi", 9), 9);
	assert_true(twrt_host_float(text, n, "x", 0) == 1500);
	assert_true(twrt_host_text(text, n, "mode", value, sizeof(value)));
	assert_string_equal(value, "a b");
	assert_true(twrt_host_text(text, n, "empty", value, sizeof(value)));
	assert_string_equal(value, "");
	assert_int_equal(twrt_host_int(text, 4, "axis", 9), 9); /* within the bytes given */
	assert_null(twrt_host_find("NoSuch"));
}

/* Place of element i among those of its row: how many come before it. */
static int64_t place(const float *row, int64_t n, int64_t stride, int64_t i, bool largest)
{
	int64_t before = 0;
	const float x = row[i * stride];
	for (int64_t k = 0; k < n; k++) {
		const float y = row[k * stride];
		const bool greater = isnan(y) ? !isnan(x) : !isnan(x) && y > x, equal = isnan(x) ? isnan(y) : x == y;
		const bool less = !greater && !equal;
		before += (largest ? greater : less) || (equal && k < i);
	}
	return before;
}

static void topk(void **state)
{
	(void)state;
	uint64_t seed = 1;
	for (int round = 0; round < 200; round++) {
		const int64_t a = 1 + (int64_t)(next(&seed) % 3), n = 1 + (int64_t)(next(&seed) % 9),
			      b = 1 + (int64_t)(next(&seed) % 4);
		const int64_t k = (int64_t)(next(&seed) % (uint64_t)(n + 1));
		const bool largest = next(&seed) % 2;
		float data[200], values[200];
		int64_t indices[200];
		for (int i = 0; i < a * n * b; i++)
			data[i] = next(&seed) % 20 ? (float)(next(&seed) % 5) : next(&seed) % 2 ? NAN : -INFINITY;
		const struct twrt_host_tensor in[] = {T(TWRT_F32, data, a, n, b)};
		struct twrt_host_tensor out[] = {T(TWRT_F32, values, a, k, b), T(TWRT_I64, indices, a, k, b)};
		char attrs[64];
		snprintf(attrs, sizeof(attrs), "axis=%d\nlargest=%d\n", round % 2 ? 1 : -2, largest);
		assert_int_equal(call("TopK", in, 1, out, 2, attrs), TW_ERR_OK);
		for (int64_t o = 0; o < a; o++)
			for (int64_t j = 0; j < k; j++)
				for (int64_t i = 0; i < b; i++) {
					const int64_t at = (o * k + j) * b + i, from = indices[at];
					const float *row = data + o * n * b + i;
					assert_in_range(from, 0, n - 1);
					assert_int_equal(place(row, n, b, from, largest), j);
					assert_memory_equal(&values[at], &row[from * b], 4);
				}
	}
	int64_t large[] = {INT64_MIN, 5, INT64_MAX, -1}, ints[4], where[4];
	const struct twrt_host_tensor in[] = {T(TWRT_I64, large, 4)};
	struct twrt_host_tensor out[] = {T(TWRT_I64, ints, 4), T(TWRT_I64, where, 4)};
	assert_int_equal(call("TopK", in, 1, out, 2, ""), TW_ERR_OK);
	const int64_t expected[] = {INT64_MAX, 5, -1, INT64_MIN};
	assert_memory_equal(ints, expected, sizeof(ints));
	uint64_t unsigned_data[] = {1, UINT64_MAX, 2};
	const struct twrt_host_tensor u[] = {T(TWRT_U64, unsigned_data, 3)};
	struct twrt_host_tensor first[] = {T(TWRT_U64, ints, 1), T(TWRT_I64, where, 1)};
	assert_int_equal(call("TopK", u, 1, first, 2, ""), TW_ERR_OK);
	assert_int_equal(where[0], 1);
	struct twrt_host_tensor many[] = {T(TWRT_U64, ints, 4), T(TWRT_I64, where, 4)};
	assert_int_equal(call("TopK", u, 1, many, 2, ""), TW_ERR_INPUT);
}

static void nonzero(void **state)
{
	(void)state;
	float data[] = {0, 1, -0.0f, NAN, 0, 2};
	int64_t to[12];
	const struct twrt_host_tensor in[] = {T(TWRT_F32, data, 2, 3)};
	struct twrt_host_tensor out[] = {T(TWRT_I64, to, 2, 6)};
	assert_int_equal(call("NonZero", in, 1, out, 1, ""), TW_ERR_OK);
	assert_int_equal(out[0].dims[1], 3);
	const int64_t expected[] = {0, 1, 1, 1, 0, 2};
	assert_memory_equal(to, expected, sizeof(expected));
	int64_t big[] = {(int64_t)1 << 40, 0};
	const struct twrt_host_tensor wide[] = {T(TWRT_I64, big, 2)};
	struct twrt_host_tensor one[] = {T(TWRT_I64, to, 1, 2)};
	assert_int_equal(call("NonZero", wide, 1, one, 1, ""), TW_ERR_OK);
	assert_int_equal(one[0].dims[1], 1);
	/* compress: rows 1 and 2 of 3; a short condition; flattened */
	float values[12], got[12];
	for (int i = 0; i < 12; i++)
		values[i] = (float)i;
	uint8_t rows[] = {0, 1, 1}, first[] = {1};
	const struct twrt_host_tensor by_row[] = {T(TWRT_F32, values, 2, 3, 2), T(TWRT_BOOL, rows, 3)};
	struct twrt_host_tensor some[] = {T(TWRT_F32, got, 2, 3, 2)};
	assert_int_equal(call("Compress", by_row, 2, some, 1, "axis=1\n"), TW_ERR_OK);
	assert_int_equal(some[0].dims[1], 2);
	const float expected_rows[] = {2, 3, 4, 5, 8, 9, 10, 11};
	assert_memory_equal(got, expected_rows, sizeof(expected_rows));
	const struct twrt_host_tensor flat[] = {T(TWRT_F32, values, 2, 3, 2), T(TWRT_BOOL, first, 1)};
	struct twrt_host_tensor single[] = {T(TWRT_F32, got, 12)};
	assert_int_equal(call("Compress", flat, 2, single, 1, ""), TW_ERR_OK);
	assert_int_equal(single[0].dims[0], 1);
}

static void unique(void **state)
{
	(void)state;
	uint64_t seed = 3;
	for (int round = 0; round < 200; round++) {
		const int64_t a = 1 + (int64_t)(next(&seed) % 3), n = (int64_t)(next(&seed) % 8),
			      b = 1 + (int64_t)(next(&seed) % 2);
		const bool sorted = next(&seed) % 2;
		int32_t data[64], y[64];
		int64_t first[64], inverse[64], counts[64];
		for (int i = 0; i < 64; i++)
			data[i] = (int32_t)(next(&seed) % 3) - 1;
		const struct twrt_host_tensor in[] = {T(TWRT_I32, data, a, n, b)};
		struct twrt_host_tensor out[] = {T(TWRT_I32, y, a, n, b), T(TWRT_I64, first, n),
						 T(TWRT_I64, inverse, n), T(TWRT_I64, counts, n)};
		assert_int_equal(call("Unique", in, 1, out, 4, sorted ? "axis=1\n" : "axis=-2\nsorted=0\n"), TW_ERR_OK);
		const int64_t k = out[0].dims[1];
		assert_int_equal(out[1].dims[0], k);
		assert_int_equal(out[2].dims[0], n);
		assert_int_equal(out[3].dims[0], k);
		int64_t all = 0;
#define SLICE(p, size, o, i, j) (p)[((o) * (size) + (i)) * b + (j)]
		for (int64_t i = 0; i < n; i++) { /* its representative is it */
			assert_in_range(inverse[i], 0, k - 1);
			for (int64_t o = 0; o < a; o++)
				for (int64_t j = 0; j < b; j++)
					assert_int_equal(SLICE(y, k, o, inverse[i], j), SLICE(data, n, o, i, j));
			assert_true(first[inverse[i]] <= i);
			assert_int_equal(inverse[first[inverse[i]]], inverse[i]);
		}
		for (int64_t u = 0; u < k; u++) {
			all += counts[u];
			if (u == 0)
				continue;
			int order = 0;
			for (int64_t o = 0; o < a && !order; o++)
				for (int64_t j = 0; j < b && !order; j++)
					order = (SLICE(y, k, o, u, j) > SLICE(y, k, o, u - 1, j)) -
						(SLICE(y, k, o, u, j) < SLICE(y, k, o, u - 1, j));
			assert_true(sorted ? order > 0 : first[u] > first[u - 1]);
		}
		assert_int_equal(all, n);
	}
}

static void suppression(void **state)
{
	(void)state;
	/* the example in ONNX's description of the operator */
	float boxes[] = {0, 0,	1, 1,  0, 0.1f,	 1, 1.1f,  0, -0.1f, 1, 0.9f,
			 0, 10, 1, 11, 0, 10.1f, 1, 11.1f, 0, 100,   1, 101};
	float scores[] = {0.9f, 0.75f, 0.6f, 0.95f, 0.5f, 0.3f}, overlap = 0.5f, score = 0;
	int64_t most = 3, to[36];
	struct twrt_host_tensor in[] = {T(TWRT_F32, boxes, 1, 6, 4), T(TWRT_F32, scores, 1, 1, 6),
					T(TWRT_I64, &most, 1), T(TWRT_F32, &overlap, 1), T(TWRT_F32, &score, 1)};
	struct twrt_host_tensor out[] = {T(TWRT_I64, to, 6, 3)};
	assert_int_equal(call("NonMaxSuppression", in, 5, out, 1, ""), TW_ERR_OK);
	const int64_t expected[] = {0, 0, 3, 0, 0, 0, 0, 0, 5};
	assert_int_equal(out[0].dims[0], 3);
	assert_memory_equal(to, expected, sizeof(expected));
	for (int i = 0; i < 6; i++) { /* corners in the other order, then as centres: the same boxes */
		const float x = boxes[4 * i];
		boxes[4 * i] = boxes[4 * i + 2];
		boxes[4 * i + 2] = x;
	}
	score = 0.4f;
	out[0].dims[0] = 6;
	assert_int_equal(call("NonMaxSuppression", in, 5, out, 1, ""), TW_ERR_OK);
	assert_int_equal(out[0].dims[0], 2);
	out[0].dims[0] = 6;
	assert_int_equal(call("NonMaxSuppression", in, 2, out, 1, ""), TW_ERR_OK); /* no number of boxes: none */
	assert_int_equal(out[0].dims[0], 0);
	overlap = 2;
	out[0].dims[0] = 6;
	assert_int_equal(call("NonMaxSuppression", in, 5, out, 1, ""), TW_ERR_INPUT);
}

/* y = 2 * compress(a, c), k elements, which c decides; planned for as many as c has. z = NonZero(c). */
static void decided_sizes(void **state)
{
	(void)state;
	static const char *const symbols[] = {"n", "unused", "k", "q"};
	const struct twrt_source sources[] = {{0, 0, {0}}, {0, 0, {0}}, {-1, 0, rt_sym(0)}, {-1, 0, rt_sym(0)}};
	const struct twrt_expr n4 = rt_op(TWRT_MUL, rt_sym(0), rt_num(4)), k4 = rt_op(TWRT_MUL, rt_sym(2), rt_num(4));
	struct twrt_buffer buffers[] = {{.kind = TWRT_INPUT, .bytes = n4},
					{.kind = TWRT_INPUT, .bytes = rt_sym(0)},
					{.kind = TWRT_TEMP, .bytes = k4},
					{.kind = TWRT_OUTPUT, .bytes = k4},
					{.kind = TWRT_OUTPUT, .bytes = rt_op(TWRT_MUL, rt_sym(3), rt_num(8))}};
	const struct twrt_io host_io[] = {{"a", TWRT_F32, 1, {rt_sym(0)}, 0},
					  {"c", TWRT_BOOL, 1, {rt_sym(0)}, 1},
					  {"t", TWRT_F32, 1, {rt_sym(2)}, 2}};
	const struct twrt_io nonzero_io[] = {{"c", TWRT_BOOL, 1, {rt_sym(0)}, 1},
					     {"z", TWRT_I64, 2, {rt_num(1), rt_sym(3)}, 4}};
	struct twrt_step steps[] = {{.kind = TWRT_HOST,
				     .nbuffers = 3,
				     .buffers = (int[]){0, 1, 2},
				     .nout = 1,
				     .host = "Compress",
				     .host_attrs = "axis=0\n",
				     .host_attrs_bytes = 7,
				     .host_io = host_io},
				    rt_step(K_TWICE, rt_sym(2), 2, (int[]){2, 3}, 1, NULL),
				    {.kind = TWRT_HOST,
				     .nbuffers = 2,
				     .buffers = (int[]){1, 4},
				     .nout = 1,
				     .host = "NonZero",
				     .host_io = nonzero_io}};
	const struct twrt_io inputs[] = {{"a", TWRT_F32, 1, {rt_sym(0)}, 0}, {"c", TWRT_BOOL, 1, {rt_sym(0)}, 1}};
	const struct twrt_io outputs[] = {{"y", TWRT_F32, 1, {rt_sym(2)}, 3},
					  {"z", TWRT_I64, 2, {rt_num(1), rt_sym(3)}, 4}};
	struct twrt_plan p = {.nsymbols = 4,
			      .symbols = symbols,
			      .sources = sources,
			      .ninputs = 2,
			      .inputs = inputs,
			      .noutputs = 2,
			      .outputs = outputs,
			      .nbuffers = 5,
			      .buffers = buffers,
			      .nsteps = 3,
			      .steps = steps,
			      .nkernels = K_COUNT,
			      .kernels = rt_kernel_names};
	struct twrt_model *m = rt_open(&p);
	assert_non_null(m);
	struct twrt_context *c;
	assert_int_equal(twrt_context_new(m, 2, &c, &error), TW_ERR_OK);
	uint64_t seed = 4;
	for (int round = 0; round < 60; round++) {
		float a[200], mine[200];
		uint8_t condition[200];
		const int64_t n = (int64_t)(next(&seed) % 200), dims[] = {n};
		for (int i = 0; i < n; i++) {
			a[i] = (float)i;
			condition[i] = round % 5 == 0 ? 0 : round % 5 == 1 ? 1 : next(&seed) % 3 == 0;
		}
		assert_int_equal(twrt_set_input(c, 0, TWRT_F32, 1, dims, a, &error), TW_ERR_OK);
		assert_int_equal(twrt_set_input(c, 1, TWRT_BOOL, 1, dims, condition, &error), TW_ERR_OK);
		assert_int_equal(twrt_set_output(c, 0, round % 2 ? mine : NULL, sizeof(mine), &error), TW_ERR_OK);
		if (twrt_run(c, NULL, NULL, &error) != TW_ERR_OK)
			fail_msg("%s", error.text);
		enum twrt_type type;
		int rank;
		int64_t y_dims[TWRT_MAX_RANK], z_dims[TWRT_MAX_RANK], k = 0;
		const void *y, *z;
		assert_int_equal(twrt_output(c, 0, &type, &rank, y_dims, &y, &error), TW_ERR_OK);
		assert_int_equal(twrt_output(c, 1, &type, &rank, z_dims, &z, &error), TW_ERR_OK);
		for (int i = 0; i < n; i++)
			if (condition[i]) {
				assert_true(((const float *)y)[k] == 2 * a[i]);
				assert_int_equal(((const int64_t *)z)[k], i);
				k++;
			}
		assert_int_equal(y_dims[0], k);
		assert_int_equal(z_dims[1], k);
	}
	twrt_context_free(c);
	twrt_model_close(m);
	/* a bound over what comes later, or over itself, is none */
	const struct twrt_source wrong[] = {{0, 0, {0}}, {0, 0, {0}}, {-1, 0, rt_sym(3)}, {-1, 0, rt_sym(0)}};
	p.sources = wrong;
	void *image;
	int64_t bytes;
	const struct twrt_code code = rt_kernels();
	assert_int_equal(twrt_image_write(&p, 1, &code, NULL, NULL, &image, &bytes, &error), TW_ERR_MODEL);
}

static void ranges(void **state)
{
	(void)state;
	int64_t whole[3] = {7, -4, -3}, got[8];
	float real[3] = {0.5f, 2, 0.25f}, y[8];
	struct twrt_host_tensor in[] = {tensor(TWRT_I64, &whole[0], 0, NULL), tensor(TWRT_I64, &whole[1], 0, NULL),
					tensor(TWRT_I64, &whole[2], 0, NULL)};
	struct twrt_host_tensor out = T(TWRT_I64, got, 8);
	assert_int_equal(call("Range", in, 3, &out, 1, ""), TW_ERR_OK);
	assert_int_equal(out.dims[0], 4);
	for (int i = 0; i < 4; i++)
		assert_int_equal(got[i], 7 - 3 * i);
	out.dims[0] = 3; /* too little room: the size alone, and nothing is written */
	memset(got, 0x55, sizeof(got));
	assert_int_equal(call("Range", in, 3, &out, 1, ""), TW_ERR_OK);
	assert_int_equal(out.dims[0], 4);
	assert_int_equal(got[0], 0x5555555555555555);
	whole[1] = 9; /* away from the limit */
	assert_int_equal(call("Range", in, 3, &out, 1, ""), TW_ERR_OK);
	assert_int_equal(out.dims[0], 0);
	whole[2] = 0;
	assert_int_equal(call("Range", in, 3, &out, 1, ""), TW_ERR_INPUT);
	for (int i = 0; i < 3; i++)
		in[i] = tensor(TWRT_F32, &real[i], 0, NULL);
	out = T(TWRT_F32, y, 8);
	assert_int_equal(call("Range", in, 3, &out, 1, ""), TW_ERR_OK);
	assert_int_equal(out.dims[0], 6);
	for (int i = 0; i < 6; i++)
		assert_true(y[i] == 0.5f + 0.25f * (float)i);
	real[1] = NAN;
	assert_int_equal(call("Range", in, 3, &out, 1, ""), TW_ERR_INPUT);
	out.type = TWRT_I64;
	assert_int_equal(call("Range", in, 3, &out, 1, ""), TW_ERR_INTERNAL);
}

/* y = 2 * range(0, a[0], 1) of floats, whose length is planned for 8. */
static void guessed_sizes(void **state)
{
	(void)state;
	static const char *const symbols[] = {"k", "unused"};
	static const float zero = 0, one = 1;
	const struct twrt_source sources[] = {{-1, 0, rt_num(8)}, {-1, 0, rt_num(1)}};
	const struct twrt_expr k4 = rt_op(TWRT_MUL, rt_sym(0), rt_num(4));
	struct twrt_buffer buffers[] = {{.kind = TWRT_INPUT, .bytes = rt_num(4)},
					{.kind = TWRT_CONST, .data = &zero, .const_bytes = 4, .bytes = rt_num(4)},
					{.kind = TWRT_CONST, .data = &one, .const_bytes = 4, .bytes = rt_num(4)},
					{.kind = TWRT_TEMP, .bytes = k4},
					{.kind = TWRT_OUTPUT, .bytes = k4}};
	const struct twrt_io host_io[] = {{"zero", TWRT_F32, 0, {{0}}, 1},
					  {"a", TWRT_F32, 0, {{0}}, 0},
					  {"one", TWRT_F32, 0, {{0}}, 2},
					  {"t", TWRT_F32, 1, {rt_sym(0)}, 3}};
	struct twrt_step steps[] = {{.kind = TWRT_HOST,
				     .nbuffers = 4,
				     .buffers = (int[]){1, 0, 2, 3},
				     .nout = 1,
				     .host = "Range",
				     .host_io = host_io},
				    rt_step(K_TWICE, rt_sym(0), 2, (int[]){3, 4}, 1, NULL)};
	const struct twrt_io inputs[] = {{"a", TWRT_F32, 0, {{0}}, 0}};
	const struct twrt_io outputs[] = {{"y", TWRT_F32, 1, {rt_sym(0)}, 4}};
	struct twrt_plan p = {.nsymbols = 2,
			      .symbols = symbols,
			      .sources = sources,
			      .ninputs = 1,
			      .inputs = inputs,
			      .noutputs = 1,
			      .outputs = outputs,
			      .nbuffers = 5,
			      .buffers = buffers,
			      .nsteps = 2,
			      .steps = steps,
			      .nkernels = K_COUNT,
			      .kernels = rt_kernel_names};
	struct twrt_model *m = rt_open(&p);
	assert_non_null(m);
	struct twrt_context *c;
	assert_int_equal(twrt_context_new(m, 2, &c, &error), TW_ERR_OK);
	static const int counts[] = {5, 8, 9, 3, 100000, 0, 8, 99999};
	int64_t arena = 0;
	for (int round = 0; round < TW_COUNT(counts); round++) {
		const float a = (float)counts[round];
		enum twrt_type type;
		int rank;
		int64_t dims[TWRT_MAX_RANK];
		const void *y;
		assert_int_equal(twrt_set_input(c, 0, TWRT_F32, 0, NULL, &a, &error), TW_ERR_OK);
		if (twrt_run(c, NULL, NULL, &error) != TW_ERR_OK)
			fail_msg("%s", error.text);
		assert_int_equal(twrt_output(c, 0, &type, &rank, dims, &y, &error), TW_ERR_OK);
		assert_int_equal(dims[0], counts[round]);
		for (int i = 0; i < counts[round]; i++)
			assert_true(((const float *)y)[i] == 2 * (float)i);
		if (round > 4) /* what was needed once is there */
			assert_int_equal(twrt_context_arena_bytes(c), arena);
		arena = twrt_context_arena_bytes(c);
	}
	/* more than any memory: refused, and the context goes on */
	const float much = 9e11f, few = 3;
	assert_int_equal(twrt_set_input(c, 0, TWRT_F32, 0, NULL, &much, &error), TW_ERR_OK);
	assert_int_equal(twrt_run(c, NULL, NULL, &error), TW_ERR_MEMORY);
	assert_int_equal(twrt_set_input(c, 0, TWRT_F32, 0, NULL, &few, &error), TW_ERR_OK);
	assert_int_equal(twrt_run(c, NULL, NULL, &error), TW_ERR_OK);
	twrt_context_free(c);
	twrt_model_close(m);
}

/* y = 2 * the first k elements of a, where k is the second element of an input. */
static void sizes_as_values(void **state)
{
	(void)state;
	static const char *const symbols[] = {"n", "unused", "k"};
	const struct twrt_source sources[] = {{0, 0, {0}}, {0, 0, {0}}, {1, -2, {0}}};
	const struct twrt_expr n4 = rt_op(TWRT_MUL, rt_sym(0), rt_num(4)), k4 = rt_op(TWRT_MUL, rt_sym(2), rt_num(4));
	struct twrt_buffer buffers[] = {{.kind = TWRT_INPUT, .bytes = n4},
					{.kind = TWRT_ALIAS, .bytes = k4, .of = 0, .offset = rt_num(0)},
					{.kind = TWRT_OUTPUT, .bytes = k4}};
	struct twrt_step steps[] = {rt_step(K_TWICE, rt_sym(2), 2, (int[]){1, 2}, 1, NULL)};
	const struct twrt_io inputs[] = {{"a", TWRT_F32, 1, {rt_sym(0)}, 0}, {"shape", TWRT_I64, 1, {rt_num(2)}, -1}};
	const struct twrt_io outputs[] = {{"y", TWRT_F32, 1, {rt_sym(2)}, 2}};
	const struct twrt_check checks[] = {{rt_op(TWRT_LE, rt_sym(2), rt_sym(0)), "k is too large"},
					    {rt_op(TWRT_LE, rt_num(0), rt_sym(2)), "k is negative"}};
	struct twrt_plan p = {.nsymbols = 3,
			      .symbols = symbols,
			      .sources = sources,
			      .ninputs = 2,
			      .inputs = inputs,
			      .noutputs = 1,
			      .outputs = outputs,
			      .nbuffers = 3,
			      .buffers = buffers,
			      .nsteps = 1,
			      .steps = steps,
			      .nkernels = K_COUNT,
			      .kernels = rt_kernel_names,
			      .nchecks = 2,
			      .checks = checks};
	struct twrt_model *m = rt_open(&p);
	assert_non_null(m);
	struct twrt_context *c;
	assert_int_equal(twrt_context_new(m, 1, &c, &error), TW_ERR_OK);
	float a[5] = {1, 2, 3, 4, 5};
	int64_t shape[2] = {100, 0};
	assert_int_equal(twrt_set_input(c, 0, TWRT_F32, 1, (int64_t[]){5}, a, &error), TW_ERR_OK);
	assert_int_equal(twrt_set_input(c, 1, TWRT_I64, 1, (int64_t[]){2}, shape, &error), TW_ERR_OK);
	for (int64_t k = -1; k < 7; k++) {
		shape[1] = k;
		const enum tw_code code = twrt_run(c, NULL, NULL, &error);
		if (k < 0 || k > 5) {
			assert_int_equal(code, TW_ERR_INPUT);
			assert_string_equal(error.text, k < 0 ? "k is negative" : "k is too large");
			continue;
		}
		assert_int_equal(code, TW_ERR_OK);
		enum twrt_type type;
		int rank;
		int64_t dims[TWRT_MAX_RANK];
		const void *y;
		assert_int_equal(twrt_output(c, 0, &type, &rank, dims, &y, &error), TW_ERR_OK);
		assert_int_equal(dims[0], k);
		for (int64_t i = 0; i < k; i++)
			assert_true(((const float *)y)[i] == 2 * a[i]);
	}
	twrt_context_free(c);
	twrt_model_close(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(attributes),	 cmocka_unit_test(topk),	  cmocka_unit_test(nonzero),
		cmocka_unit_test(unique),	 cmocka_unit_test(suppression),	  cmocka_unit_test(ranges),
		cmocka_unit_test(guessed_sizes), cmocka_unit_test(decided_sizes), cmocka_unit_test(sizes_as_values)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
