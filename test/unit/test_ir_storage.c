/* rooms: base tmap ir */
/* Floats of 8 and 4 bits, packed integers. The oracle of a format is its list of values: known ones from its
 * specification, order and spacing; encoding takes the nearest, half to even. The library's funcs give the same bits as
 * the interpreter's casts, and packed tensors lie in memory as ir.h says. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "ir/ir.h"

static const struct format {
	enum twir_scalar type;
	unsigned first_negative, largest; /* patterns */
	double value, smallest;		  /* of largest, of pattern 1 */
	int nans, infinities;
} formats[] = {
	{TWIR_F8E4M3FN, 0x80, 0x7e, 448, 0x1p-9, 2, 0},	 {TWIR_F8E4M3FNUZ, 0x80, 0x7f, 240, 0x1p-10, 1, 0},
	{TWIR_F8E5M2, 0x80, 0x7b, 57344, 0x1p-16, 6, 2}, {TWIR_F8E5M2FNUZ, 0x80, 0x7f, 57344, 0x1p-17, 1, 0},
	{TWIR_F4E2M1, 0x08, 0x07, 6, 0.5, 0, 0},
};

static void values(void **state)
{
	(void)state;
	for (int i = 0; i < TW_COUNT(formats); i++) {
		const struct format *f = &formats[i];
		int nans = 0, infinities = 0;
		for (unsigned u = 0; u < 2 * f->first_negative; u++) {
			const double v = twir_float_value(f->type, u);
			nans += isnan(v) != 0;
			infinities += isinf(v) != 0;
			/* signs mirror, except for the pattern of -0 that is NaN */
			if (u > f->first_negative && !isnan(v))
				assert_true(v == -twir_float_value(f->type, u - f->first_negative));
			if (u > 0 && u <= f->largest)
				assert_true(v > twir_float_value(f->type, u - 1));
			if (isfinite(v))
				assert_int_equal(twir_float_bits(f->type, v), u);
		}
		assert_int_equal(nans, f->nans);
		assert_int_equal(infinities, f->infinities);
		assert_true(twir_float_value(f->type, f->largest) == f->value);
		assert_true(twir_float_value(f->type, 1) == f->smallest);
		assert_true(twir_float_value(f->type, 0) == 0);
	}
	for (unsigned u = 0; u < 255; u++) {
		assert_true(twir_float_value(TWIR_F8E8M0, u) == ldexp(1, (int)u - 127));
		assert_int_equal(twir_float_bits(TWIR_F8E8M0, ldexp(-1, (int)u - 127)), u);
	}
	assert_true(isnan(twir_float_value(TWIR_F8E8M0, 255)));
}

/* Nearest among all values, the even pattern when two are as near. */
static unsigned nearest(const struct format *f, double v)
{
	unsigned best = 0;
	const double a = fabs(v);
	for (unsigned u = 1; u <= f->largest; u++) {
		const double gain = fabs(twir_float_value(f->type, best) - a) - fabs(twir_float_value(f->type, u) - a);
		if (gain > 0 || (gain == 0 && u % 2 == 0))
			best = u;
	}
	const bool no_minus_zero = f->type == TWIR_F8E4M3FNUZ || f->type == TWIR_F8E5M2FNUZ;
	return signbit(v) && !(best == 0 && no_minus_zero) ? best + f->first_negative : best;
}

static uint64_t next_random(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return *seed >> 11;
}

static void rounding(void **state)
{
	(void)state;
	uint64_t seed = 3;
	for (int i = 0; i < TW_COUNT(formats); i++) {
		const struct format *f = &formats[i];
		for (unsigned u = 0; u + 1 <= f->largest; u++) {
			const double low = twir_float_value(f->type, u), high = twir_float_value(f->type, u + 1);
			const double half = (low + high) / 2;
			const double tries[] = {half, nextafter(half, low), nextafter(half, high), -half,
						low + (high - low) * (double)(next_random(&seed) % 1000) / 1000};
			for (int k = 0; k < TW_COUNT(tries); k++)
				assert_int_equal(twir_float_bits(f->type, tries[k]), nearest(f, tries[k]));
		}
		/* beyond the largest everything saturates */
		assert_int_equal(twir_float_bits(f->type, f->value * 1.2), f->largest);
		assert_int_equal(twir_float_bits(f->type, (double)INFINITY), f->largest);
		assert_int_equal(twir_float_bits(f->type, -1e300), f->largest + f->first_negative);
		assert_int_equal(twir_float_bits(f->type, 1e-300), 0);
		assert_true(f->nans == 0 || isnan(twir_float_value(f->type, twir_float_bits(f->type, (double)NAN))));
	}
	assert_int_equal(twir_float_bits(TWIR_F4E2M1, (double)NAN), 7);
	assert_int_equal(twir_float_bits(TWIR_F8E8M0, 1.0000001), 128);
	assert_int_equal(twir_float_bits(TWIR_F8E8M0, 3), 129);
	assert_int_equal(twir_float_bits(TWIR_F8E8M0, 1e300), 254);
	assert_int_equal(twir_float_bits(TWIR_F8E8M0, 0), 0);
	assert_int_equal(twir_float_bits(TWIR_F8E8M0, -(double)INFINITY), 255);
}

static void run(struct twir_module *m, const char *program, int64_t n, const struct twir_data *data)
{
	struct twir_program *p = twir_program_find(m, program);
	const struct twir_binding b = {p->nsymbols, p->symbols, &n};
	twir_verify_program(m, p, TW_ERR_MODEL);
	twir_interpret(m, p, &b, data);
}

static bool same_value(enum twir_scalar s, unsigned a, unsigned b)
{
	return a == b || (isnan(twir_float_value(s, a)) && isnan(twir_float_value(s, b)));
}

/* The funcs of math.tw against the casts, on all patterns and on a sweep of f32. */
static void library(void **state)
{
	(void)state;
	static const char *const names[] = {"f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz", "f8e8m0", "f4e2m1"};
	enum { STEP = 99991, COUNT = (int)(4294967296 / STEP) };
	struct tw_arena *a = arena_new();
	float *f = arena_alloc(a, COUNT * sizeof(float)), wide[2][256];
	uint8_t *code[2] = {arena_alloc(a, COUNT), arena_alloc(a, COUNT)}, all[256];
	for (uint32_t i = 0; i < COUNT; i++) {
		const uint32_t u = i * STEP;
		memcpy(f + i, &u, 4);
	}
	for (int i = 0; i < 256; i++)
		all[i] = (uint8_t)i;
	for (int i = 0; i < TW_COUNT(names); i++) {
		struct twir_module *m = twir_module_new(a);
		const char *n = names[i];
		const enum twir_scalar s = twir_scalar_parse(n);
		const bool packed = twir_is_packed(s);
		twir_parse(m, "storage",
			   arena_printf(a,
					"symbol N;\n"
					"program narrow(X: f32[N], out Y: u8[N], out Z: u8[N]) {\n"
					"  for i in repeat(N) { Y[i] = f32_to_%s(X[i]); Z[i] = %s; }\n}\n"
					"program widen(X: u8[N], out Y: f32[N], out Z: f32[N]) {\n"
					"  for i in repeat(N) { Y[i] = %s_to_f32(X[i]); Z[i] = %s; }\n}\n",
					n,
					packed ? "u8(bitcast_u4(f4e2m1(X[i])))"
					       : arena_printf(a, "bitcast_u8(%s(X[i]))", n),
					n,
					packed ? "f32(bitcast_f4e2m1(u4(X[i])))"
					       : arena_printf(a, "f32(bitcast_%s(X[i]))", n)));
		run(m, "narrow", COUNT, (struct twir_data[]){{f, COUNT}, {code[0], COUNT}, {code[1], COUNT}});
		for (int k = 0; k < COUNT; k++)
			if (!same_value(s, code[0][k], code[1][k]))
				fail_msg("%s of %a: func %02x, cast %02x", n, (double)f[k], code[0][k], code[1][k]);
		const int patterns = packed ? 16 : 256;
		run(m, "widen", patterns, (struct twir_data[]){{all, 256}, {wide[0], 256}, {wide[1], 256}});
		for (int k = 0; k < patterns; k++)
			if (memcmp(&wide[0][k], &wide[1][k], 4) != 0 && !(isnan(wide[0][k]) && isnan(wide[1][k])))
				fail_msg("%s %02x: func %a, cast %a", n, k, (double)wide[0][k], (double)wide[1][k]);
	}
	arena_free(a);
}

/* Two and four elements a byte, lower bits first; signs and wrapping; neighbours stay as they are. */
static void packed(void **state)
{
	(void)state;
	static const char text[] = "symbol N;\n"
				   "program four(X: i4[N], Y: u4[N], out A: i32[N], out B: u4[N], out C: i4[N]) {\n"
				   "  for i in repeat(N) { A[i] = i32(X[i]) + 100 * i32(Y[i]); B[i] = u4(i32(X[i])); "
				   "C[i] = i4(7 * i32(Y[i])); }\n"
				   "}\n"
				   "program two(X: i2[N], out A: u2[N], out B: i32[N]) {\n"
				   "  for i in repeat(N) { A[i] = u2(i32(X[i]) + 1); B[i] = i32(X[i]); }\n"
				   "}\n"
				   "program layout(X: i4[3, 3], out Y: i4[3, 3] layout column) {\n"
				   "  for i in repeat(3) { for j in repeat(3) { Y[i, j] = X[i, j]; } }\n"
				   "}\n";
	enum { N = 7 };
	struct tw_arena *a = arena_new();
	struct twir_module *m = twir_module_new(a);
	twir_parse(m, "packed", text);
	const int x[N] = {0, 1, 7, -8, -1, 3, -5};
	uint8_t xs[4] = {0}, ys[4] = {0}, b[4], c[4];
	int32_t out[9];
	for (int i = 0; i < N; i++) {
		xs[i / 2] = (uint8_t)(xs[i / 2] | (x[i] & 15) << 4 * (i % 2));
		ys[i / 2] = (uint8_t)(ys[i / 2] | (15 - i) << 4 * (i % 2));
	}
	memset(b, 0xff, sizeof(b));
	memset(c, 0xff, sizeof(c));
	run(m, "four", N, (struct twir_data[]){{xs, N}, {ys, N}, {out, N}, {b, N}, {c, N}});
	for (int i = 0; i < N; i++) {
		assert_int_equal(out[i], x[i] + 100 * (15 - i));
		assert_int_equal(b[i / 2] >> 4 * (i % 2) & 15, x[i] & 15);
		assert_int_equal(c[i / 2] >> 4 * (i % 2) & 15, 7 * (15 - i) & 15);
	}
	assert_int_equal(b[3] >> 4, 15);     /* the half byte behind the last element is not touched */
	const uint8_t two[2] = {0xe4, 0x1b}; /* 0 1 -2 -1, -1 -2 1 (0) */
	run(m, "two", N, (struct twir_data[]){{(void *)two, N}, {b, N}, {out, N}});
	const int is[N] = {0, 1, -2, -1, -1, -2, 1};
	for (int i = 0; i < N; i++) {
		assert_int_equal(out[i], is[i]);
		assert_int_equal(b[i / 4] >> 2 * (i % 4) & 3, (is[i] + 1) & 3);
	}
	const uint8_t grid[5] = {0x10, 0x32, 0x54, 0x76, 0x08};
	uint8_t turned[5] = {0};
	run(m, "layout", 0, (struct twir_data[]){{(void *)grid, 9}, {turned, 9}});
	for (int i = 0; i < 9; i++)
		assert_int_equal(turned[(i % 3 * 3 + i / 3) / 2] >> 4 * ((i % 3 * 3 + i / 3) % 2) & 15, i);
	assert_int_equal(twir_storage_bytes(TWIR_I4, 7), 4);
	assert_int_equal(twir_storage_bytes(TWIR_U2, 5), 2);
	assert_int_equal(twir_storage_bytes(TWIR_F32, INT64_MAX / 2), INT64_MAX);
	arena_free(a);
}

static void two_lanes(void *arg)
{
	struct twir_module *m = arg;
	char out[8] = {0};
	run(m, "p", 0, (struct twir_data[]){{out, 8}});
}

/* Work on packed types is split at whole bytes: two threads that share one race. */
static void shared_bytes(void **state)
{
	(void)state;
	static const char text[] = "program p(out Y: i32[4]) launch block(1), thread(4) {\n"
				   "  shared S: i4[8];\n"
				   "  for (i) in spatial(4) on thread { S[%s] = i4(1); S[%s] = i4(2); }\n"
				   "  barrier block;\n"
				   "  for (i) in spatial(4) on thread { Y[i] = i32(S[2 * i + 1]); }\n"
				   "}\n";
	for (int bad = 0; bad < 2; bad++) {
		struct tw_arena *a = arena_new();
		struct twir_module *m = twir_module_new(a);
		struct tw_error e = {0};
		twir_parse(m, "bytes",
			   bad ? arena_printf(a, text, "i", "i + 4") : arena_printf(a, text, "2 * i", "2 * i + 1"));
		const bool ok = tw_try(&e, two_lanes, m);
		if (ok == bad || (bad && !strstr(e.text, "race")))
			fail_msg("%s", ok ? "accepted" : e.text);
		arena_free(a);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(values), cmocka_unit_test(rounding),
					   cmocka_unit_test(library), cmocka_unit_test(packed),
					   cmocka_unit_test(shared_bytes)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
