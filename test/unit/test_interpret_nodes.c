/* rooms: base tmap ir */
/* test_interpret_nodes.c: every kind of node in the interpreter against values worked out by hand: NaN, infinities,
 * signed zeros, the ends of integer types, conversions. */
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

/* Single nodes: a program that stores one expression over these inputs. */
static const float X[] = {0.0f, -0.0f, 1.5f, -2.5f, INFINITY, -INFINITY, NAN, 3e38f};
static const double D[] = {0.0, -0.0, 1.5, -2.5, INFINITY, NAN, 1e300, 0x1.000001p0};
static const int8_t B[] = {-128, 127, -1, 5};
static const uint8_t U[] = {255, 0, 1, 200};
static const int32_t I[] = {INT32_MIN, INT32_MAX, -1, 7, -7, 2, 0};
static const int64_t L[] = {INT64_MIN, INT64_MAX, -1, 7, -7, 2, 0, (1LL << 53) + 1};
static const uint64_t V[] = {UINT64_MAX, 0, 1, 10};
static const uint16_t H[] = {0x3c00, 0xfc00, 0x7e00, 0x0001}; /* 1, -inf, nan, 2^-24 */
static const uint16_t G[] = {0x3f80, 0xff80, 0x7fc0, 0x4049};

#define INPUTS "X: f32[8], D: f64[8], B: i8[4], U: u8[4], I: i32[7], L: i64[8], V: u64[4], H: f16[4], G: bf16[4]"

struct node {
	struct tw_arena *a;
	const char *text;
	void *out;
};

static void do_node(void *arg)
{
	struct node *j = arg;
	const void *const data[] = {X, D, B, U, I, L, V, H, G};
	const int64_t n[] = {TW_COUNT(X), TW_COUNT(D), TW_COUNT(B), TW_COUNT(U), TW_COUNT(I),
			     TW_COUNT(L), TW_COUNT(V), TW_COUNT(H), TW_COUNT(G)};
	struct twir_module *m = twir_module_new(j->a);
	struct twir_data params[10];
	for (int k = 0; k < TW_COUNT(data); k++)
		params[k] = (struct twir_data){(void *)(uintptr_t)data[k], n[k]};
	params[9] = (struct twir_data){j->out, 1};
	twir_parse(m, "test", j->text);
	twir_interpret(m, m->programs.at[0], NULL, params);
}

static void one_node(const char *type, const char *expr, void *out)
{
	struct tw_arena *a = arena_new();
	struct node j = {.a = a, .out = out};
	struct tw_error e;
	j.text = arena_printf(a, "program p(%s, out O: %s[1]) launch core(1) { O[0] = %s; }", INPUTS, type, expr);
	if (!tw_try(&e, do_node, &j)) {
		print_error("%s\n", e.text);
		fail();
	}
	arena_free(a);
}

static void nodes_f32(void **state UNUSED)
{
	static const struct {
		const char *expr;
		float want;
	} cases[] = {
		{"X[2] + X[3]", -1.0f},
		{"X[2] - X[3]", 4.0f},
		{"X[2] * X[3]", -3.75f},
		{"X[3] / X[2]", -2.5f / 1.5f},
		{"X[2] / X[0]", INFINITY},
		{"X[0] / X[0]", NAN},
		{"X[4] - X[4]", NAN},
		{"X[7] * X[2]", INFINITY},
		{"-X[0]", -0.0f},
		{"abs(X[1])", 0.0f},
		{"X[1] + X[1]", -0.0f},
		{"sqrt(X[2] + 2.5)", 2.0f},
		{"sqrt(X[3])", NAN},
		{"sqrt(X[1])", -0.0f},
		{"floor(X[3])", -3.0f},
		{"ceil(X[3])", -2.0f},
		{"round(X[3])", -2.0f},
		{"round(X[2])", 2.0f},
		{"round(-X[3])", 2.0f},
		{"trunc(X[3])", -2.0f},
		{"round(X[2] - 1.0)", 0.0f},
		{"ceil(X[2] - 2.0)", -0.0f},
		{"min(X[2], X[3])", -2.5f},
		{"max(X[2], X[3])", 1.5f},
		{"min(X[6], X[2])", NAN},
		{"min(X[2], X[6])", NAN},
		{"max(X[6], X[2])", NAN},
		{"max(X[2], X[6])", NAN},
		{"min(X[0], X[1])", 0.0f},
		{"minnum(X[6], X[2])", 1.5f},
		{"minnum(X[2], X[6])", NAN},
		{"maxnum(X[6], X[2])", 1.5f},
		{"maxnum(X[2], X[6])", NAN},
		{"maxnum(X[4], X[2])", INFINITY},
		{"fma(X[7], X[2], X[5])", -INFINITY},
		{"fma(X[7], 2.0, -X[7])", 3e38f},
		{"X[7] * 2.0 + -X[7]", INFINITY},
		{"fma(16777217.0, 1.0, X[2])", 16777218.0f},
		{"X[0] == X[1] ? 1.0 : 2.0", 1.0f},
		{"X[6] == X[6] ? 1.0 : 2.0", 2.0f},
		{"X[6] != X[6] ? 1.0 : 2.0", 1.0f},
		{"X[6] < X[2] ? 1.0 : 2.0", 2.0f},
		{"X[2] <= X[2] ? 1.0 : 2.0", 1.0f},
		{"not (X[6] < X[2]) ? 1.0 : 2.0", 1.0f},
		{"select(X[2] < X[4], X[2], X[3])", 1.5f},
		{"L[3] < 0 ? X[100] : X[2]", 1.5f}, /* the side that is not chosen is not loaded */
		{"f32(I[0])", -2147483648.0f},
		{"f32(I[1])", 2147483648.0f},
		{"f32(V[0])", 18446744073709551616.0f},
		{"f32(L[7])", 9007199254740992.0f},
		{"f32(B[0])", -128.0f},
		{"f32(U[0])", 255.0f},
		{"f32(D[6])", INFINITY},
		{"f32(D[7])", 1.0f},
		{"f32(D[7] + 0x1p-50f64)", 0x1.000002p0f},
		{"f32(X[6] < X[2])", 0.0f},
		{"f32(H[0])", 1.0f},
		{"f32(H[1])", -INFINITY},
		{"f32(H[2])", NAN},
		{"f32(H[3])", 0x1p-24f},
		{"f32(G[0])", 1.0f},
		{"f32(G[3])", 3.140625f},
		{"bitcast_f32(1069547520i32)", 1.5f},
		{"reduce(add, splat(X[2], 8))", 12.0f},
		{"extract(splat(X[3], 4), 2)", -2.5f},
		{"reduce(add, X[0 +: 4])", -1.0f},
		{"reduce(maxnum, X[2 +: 2])", 1.5f},
		{"reduce(add, f32(iota_i32(8)))", 28.0f},
		{"reduce(add, gather(X, iota_i32(2) * 1i32 + 2i32))", -1.0f},
		{"reduce(add, X[6 +: 4 where iota_i32(4) < 0i32 else 2.0])", 8.0f},
		{"reduce(add, gather(X, iota_i32(4) * 100i32 where iota_i32(4) < 0i32 else 0.25))", 1.0f},
		{"reduce(add, select(iota_i32(4) < 2i32, X[2 +: 4], splat(1.0, 4)))", 1.0f},
	};
	for (int k = 0; k < TW_COUNT(cases); k++) {
		float got = -77;
		one_node("f32", cases[k].expr, &got);
		if (isnan(cases[k].want) ? !isnan(got) : memcmp(&got, &cases[k].want, sizeof(got)) != 0) {
			print_error("%s = %a instead of %a\n", cases[k].expr, (double)got, (double)cases[k].want);
			fail();
		}
	}
}

static void nodes_f64(void **state UNUSED)
{
	static const struct {
		const char *expr;
		double want;
	} cases[] = {
		{"D[2] * D[3]", -3.75},
		{"D[6] * D[6]", INFINITY},
		{"D[0] + D[1]", 0.0},
		{"-D[0]", -0.0},
		{"max(D[5], D[2])", NAN},
		{"round(D[3])", -2.0},
		{"fma(D[7], D[7], -1.0f64)", 0x1.0000008p-23},
		{"f64(X[7])", (double)3e38f},
		{"f64(L[7])", 9007199254740992.0},
		{"f64(V[0])", 18446744073709551616.0},
		{"abs(D[3])", 2.5},
		{"sqrt(2.0f64)", 0x1.6a09e667f3bcdp+0},
		{"f64(H[3])", 0x1p-24},
		{"D[3] / D[2]", -2.5 / 1.5},
		{"bitcast_f64(4609434218613702656i64)", 1.5},
	};
	for (int k = 0; k < TW_COUNT(cases); k++) {
		double got = -77;
		one_node("f64", cases[k].expr, &got);
		if (isnan(cases[k].want) ? !isnan(got) : memcmp(&got, &cases[k].want, sizeof(got)) != 0) {
			print_error("%s = %a instead of %a\n", cases[k].expr, got, cases[k].want);
			fail();
		}
	}
}

static void nodes_int(void **state UNUSED)
{
	static const struct {
		const char *type, *expr;
		int64_t want;
	} cases[] = {
		{"i32", "I[1] + 1i32", INT32_MIN},
		{"i32", "I[0] - 1i32", INT32_MAX},
		{"i32", "I[1] * I[1]", 1},
		{"i32", "-I[0]", INT32_MIN},
		{"i32", "abs(I[0])", INT32_MIN},
		{"i32", "I[0] / I[2]", INT32_MIN},
		{"i32", "I[0] % I[2]", 0},
		{"i32", "I[3] / I[6]", 0},
		{"i32", "I[3] % I[6]", 0},
		{"i32", "I[4] / I[5]", -3},
		{"i32", "I[4] % I[5]", -1},
		{"i32", "I[3] / -I[5]", -3},
		{"i32", "I[3] % -I[5]", 1},
		{"i32", "ceil_div(I[4], I[5])", -3},
		{"i32", "ceil_div(I[3], I[5])", 4},
		{"i32", "round_up(I[3], I[5])", 8},
		{"i32", "round_up(I[3], I[6])", 0},
		{"i32", "I[3] << 33i32", 14},
		{"i32", "I[4] >> 1i32", -4},
		{"i32", "I[4] >> 32i32", -7},
		{"i32", "I[3] and I[5]", 2},
		{"i32", "I[3] or 8i32", 15},
		{"i32", "I[3] xor I[5]", 5},
		{"i32", "dot4(0x01020304i32, 0x05fb0703i32, 0i32)", 28},
		{"i32", "dot4(-1i32, 0x80808080i32, I[5])", 2 - 4 * 255 * 128},
		{"i32", "dot4(-1i32, 0x7f7f7f7fi32, I[1])", INT32_MIN + 4 * 255 * 127 - 1},
		{"i32", "not I[3]", -8},
		{"i32", "min(I[0], I[1])", INT32_MIN},
		{"i32", "max(I[0], I[1])", INT32_MAX},
		{"i64", "L[1] + 1", INT64_MIN},
		{"i64", "L[0] / L[2]", INT64_MIN},
		{"i64", "L[4] / L[5]", -3},
		{"i64", "L[4] % L[5]", -1},
		{"i64", "abs(L[0])", INT64_MIN},
		{"index", "index(L[4]) / index(L[5])", -4},
		{"index", "index(L[4]) % index(L[5])", 1},
		{"index", "index(L[3]) / -index(L[5])", -4},
		{"index", "index(L[3]) % -index(L[5])", -1},
		{"index", "index(L[3]) / index(L[6])", 0},
		{"index", "index(L[3]) % index(L[6])", 0},
		{"index", "index(L[0]) / index(L[2])", INT64_MIN},
		{"index", "ceil_div(index(L[4]), 2)", -3},
		{"index", "ceil_div(index(L[3]), -index(L[5]))", -3},
		{"index", "round_up(index(L[3]), 4)", 8},
		{"i8", "B[0] - 1i8", 127},
		{"i8", "B[1] + 1i8", -128},
		{"i8", "B[0] * B[2]", -128},
		{"i8", "B[3] << 9i8", 10},
		{"i8", "not B[3]", -6},
		{"u8", "U[0] + 1u8", 0},
		{"u8", "U[1] - 1u8", 255},
		{"u8", "U[3] / 3u8", 66},
		{"u8", "U[0] >> 1u8", 127},
		{"u8", "not U[1]", 255},
		{"u8", "-U[2]", 255},
		{"u64", "V[0] / V[3]", 1844674407370955161},
		{"u64", "V[0] % V[3]", 5},
		{"u64", "V[0] >> 63u64", 1},
		{"u64", "max(V[0], V[3])", -1},
		{"i64", "V[0] < V[3] ? 1 : 2", 2},
		{"i64", "L[2] < L[3] ? 1 : 2", 1},
		{"i64", "U[0] < U[3] ? 1 : 2", 2},
		{"i64", "B[0] <= B[2] ? 1 : 2", 1},
		{"i32", "i32(X[4])", INT32_MAX},
		{"i32", "i32(X[5])", INT32_MIN},
		{"i32", "i32(X[6])", 0},
		{"i32", "i32(X[3])", -2},
		{"i64", "i64(X[7])", INT64_MAX},
		{"i8", "i8(X[2] * 100.0)", 127},
		{"u8", "u8(X[3])", 0},
		{"u8", "u8(X[2] * 200.0)", 255},
		{"u64", "u64(X[4])", -1},
		{"u64", "u64(X[3])", 0},
		{"u32", "u32(X[7])", 0xffffffff},
		{"i8", "i8(I[1])", -1},
		{"u8", "u8(I[2])", 255},
		{"i64", "i64(U[0])", 255},
		{"i64", "i64(B[0])", -128},
		{"i1", "i1(X[2])", 1},
		{"i1", "i1(X[1])", 0},
		{"i1", "i1(X[6])", 1},
		{"i1", "i1(I[3])", 1},
		{"i1", "i1(U[1])", 0},
		{"i1", "X[2] < X[4] xor X[4] < X[2]", 1},
		{"i1", "X[2] < X[4] and X[4] < X[2]", 0},
		{"i1", "X[2] < X[4] or X[4] < X[2]", 1},
		{"i32", "bitcast_i32(X[1])", INT32_MIN},
		{"u16", "bitcast_u16(f16(X[2]))", 0x3e00},
		{"u16", "bitcast_u16(f16(X[7]))", 0x7c00},
		{"u16", "bitcast_u16(bf16(X[3]))", 0xc020},
		{"u16", "bitcast_u16(bf16(1.00390625))", 0x3f80},
		{"u16", "bitcast_u16(bf16(D[7] + 0x1p-8f64))", 0x3f81},
		{"u16", "bitcast_u16(f16(L[1]))", 0x7c00},
		{"i32", "reduce(or, I[3 +: 4])", -1},
		{"i32", "reduce(min, I[0 +: 4])", INT32_MIN},
		{"i32", "reduce(mul, iota_i32(4) + 1i32)", 24},
		{"i32", "reduce(add, i32(iota_i32(8) < 3i32))", 3},
	};
	for (int k = 0; k < TW_COUNT(cases); k++) {
		int64_t got = 0, want = 0;
		const char *t = cases[k].type;
		const int bytes = twir_scalar_bytes(twir_scalar_parse(t));
		one_node(t, cases[k].expr, &got);
		memcpy(&want, &cases[k].want, (size_t)bytes);
		if (got != want) {
			print_error("%s(%s) = %lld instead of %lld\n", t, cases[k].expr, (long long)got,
				    (long long)want);
			fail();
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nodes_f32),
		cmocka_unit_test(nodes_f64),
		cmocka_unit_test(nodes_int),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
