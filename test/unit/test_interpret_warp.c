/* rooms: base tmap ir */
/* What the lanes of a warp do together, and asynchronous copies: shuffles and matrix instructions against plain loops,
 * and every misuse at its place. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "ir/ir.h"

struct job {
	struct twir_module *m;
	const struct twir_data *data;
	const char *text;
};

static void go(void *arg)
{
	struct job *j = arg;
	twir_parse(j->m, "test", j->text);
	const char *printed = twir_print_module(j->m->arena, j->m);
	struct twir_module *again = twir_module_new(j->m->arena);
	twir_parse(again, "printed", printed);
	assert_string_equal(printed, twir_print_module(j->m->arena, again));
	twir_verify_program(again, again->programs.at[0], TW_ERR_MODEL);
	twir_interpret(again, again->programs.at[0], NULL, j->data);
}

/* NULL: it ran. */
static const char *run(struct tw_arena *a, const char *text, const struct twir_data *data)
{
	struct job j = {.m = twir_module_new(a), .data = data, .text = text};
	struct tw_error e = {0};
	return tw_try(&e, go, &j) ? NULL : arena_strdup(a, e.text);
}

static void must_run(struct tw_arena *a, const char *text, const struct twir_data *data)
{
	const char *why = run(a, text, data);
	if (why)
		fail_msg("%s\n%s", why, text);
}

static void must_fail(struct tw_arena *a, const char *text, const struct twir_data *data, const char *reason)
{
	const char *why = run(a, text, data);
	if (!why || !strstr(why, reason))
		fail_msg("%s\n%s\nshould be: %s", why ? why : "it runs", text, reason);
}

static void shuffles(void **state)
{
	(void)state;
	static const char text[] =
		"program p(X: i32[64], out U: i32[64], out D: i32[64], out E: i32[64], out I: i32[64],\n"
		"    out S: i32[2]) launch block(1), warp(2), lane(32) {\n"
		"  let x = X[32 * warp + lane];\n"
		"  U[32 * warp + lane] = shfl_up(x, 3);\n"
		"  D[32 * warp + lane] = shfl_down(x, 5);\n"
		"  E[32 * warp + lane] = shfl_xor(x, 12);\n"
		"  I[32 * warp + lane] = shfl_idx(x, 2 * lane);\n"
		"  let a = x + shfl_xor(x, 16);\n"
		"  let b = a + shfl_xor(a, 8);\n"
		"  let c = b + shfl_xor(b, 4);\n"
		"  let d = c + shfl_xor(c, 2);\n"
		"  let e = d + shfl_xor(d, 1);\n"
		"  if lane == 0 { S[warp] = e; }\n"
		"}\n";
	struct tw_arena *a = arena_new();
	int32_t x[64], out[4][64], s[2], sum[2] = {0};
	for (int i = 0; i < 64; i++) {
		x[i] = i * i - 50 * i;
		sum[i / 32] += x[i];
	}
	must_run(a, text,
		 (struct twir_data[]){{x, 64}, {out[0], 64}, {out[1], 64}, {out[2], 64}, {out[3], 64}, {s, 2}});
	for (int i = 0; i < 64; i++) {
		const int w = i / 32 * 32, l = i % 32;
		assert_int_equal(out[0][i], x[w + (l < 3 ? l : l - 3)]);
		assert_int_equal(out[1][i], x[w + (l + 5 > 31 ? l : l + 5)]);
		assert_int_equal(out[2][i], x[w + (l ^ 12)]);
		assert_int_equal(out[3][i], x[w + 2 * l % 32]);
	}
	assert_memory_equal(s, sum, sizeof(s));
	must_fail(a,
		  "program p(X: f32[32], out Y: f32[32]) launch block(1), warp(1), lane(32) {\n"
		  "  if lane < 16 { Y[lane] = shfl_down(X[lane], 1); } else { Y[lane] = 0.0; }\n}\n",
		  (struct twir_data[]){{x, 32}, {out[0], 32}}, "not reached by all lanes");
	must_fail(a, "program p(X: f32[4], out Y: f32[4]) launch core(4) { Y[core] = shfl_up(X[core], 1); }",
		  (struct twir_data[]){{x, 4}, {out[0], 4}}, "launched on block");
	arena_free(a);
}

static void put(enum twir_scalar s, void *at, int i, double v)
{
	switch (s) {
	case TWIR_F32:
		((float *)at)[i] = (float)v;
		break;
	case TWIR_F64:
		((double *)at)[i] = v;
		break;
	case TWIR_I8:
		((int8_t *)at)[i] = (int8_t)v;
		break;
	case TWIR_I32:
		((int32_t *)at)[i] = (int32_t)v;
		break;
	default:
		((uint16_t *)at)[i] = (uint16_t)twir_float_bits(s, v);
	}
}

static double get(enum twir_scalar s, const void *at, int i)
{
	return s == TWIR_F32   ? (double)((const float *)at)[i]
	       : s == TWIR_F64 ? ((const double *)at)[i]
			       : (double)((const int32_t *)at)[i];
}

/* Where a lane's element lies, as the instruction set's manual has it, written once more in the program's text. */
static const char *by_hand(struct tw_arena *a, const struct twir_mma *s)
{
	const int wide = s->type == TWIR_F64 ? 1 : 32 / twir_scalar_bits(s->type);
	const char *t = twir_scalar_name(s->type), *d = twir_scalar_name(s->sum);
	const char *row_a = s->m == 8 ? "lane / 4" : arena_printf(a, "lane / 4 + e / %d %% 2 * 8", wide);
	const char *column_a = arena_printf(a, "lane %% 4 * %d + e %% %d + e / %d * %d", wide, wide,
					    s->m == 8 ? wide : 2 * wide, 4 * wide);
	return arena_printf(a,
			    "program p(A: %s[%d, %d], B: %s[%d, %d], C: %s[%d, %d], out D: %s[%d, %d]) launch "
			    "block(1), warp(1), lane(32) {\n"
			    "  register a: %s[2, %d];\n  register b: %s[%d];\n  register d: %s[3, %d];\n"
			    "  for e in repeat(%d) { a[1, e] = A[%s, %s]; }\n"
			    "  for e in repeat(%d) { b[e] = B[lane %% 4 * %d + e %% %d + e / %d * %d, lane / 4]; }\n"
			    "  for e in repeat(%d) { d[2, e] = C[lane / 4 + e / 2 * 8, lane %% 4 * 2 + e %% 2]; }\n"
			    "  mma %s d[2], a[1], b;\n"
			    "  for e in repeat(%d) { D[lane / 4 + e / 2 * 8, lane %% 4 * 2 + e %% 2] = d[2, e]; }\n"
			    "}\n",
			    t, s->m, s->k, t, s->k, s->n, d, s->m, s->n, d, s->m, s->n, t, s->elements[1], t,
			    s->elements[2], d, s->elements[0], s->elements[1], row_a, column_a, s->elements[2], wide,
			    wide, wide, 4 * wide, s->elements[0], s->name, s->elements[0]);
}

/* The same with fragments that mirror mappings. */
static const char *by_mapping(struct tw_arena *a, const struct twir_mma *s)
{
	const int wide = s->type == TWIR_F64 ? 1 : 32 / twir_scalar_bits(s->type), halves = s->m / 8;
	const char *t = twir_scalar_name(s->type), *d = twir_scalar_name(s->sum);
	return arena_printf(a,
			    "program p(A: %s[%d, %d], B: %s[%d, %d], C: %s[%d, %d], out D: %s[%d, %d]) launch "
			    "block(1), warp(1), lane(32) {\n"
			    "  map am = repeat(%d, %d, ranks = [1, 0]) * spatial(8, 4) * repeat(1, %d);\n"
			    "  map bm = repeat(%d, 1) * spatial(4, 8, ranks = [1, 0]) * repeat(%d, 1);\n"
			    "  map dm = repeat(%d, 1) * spatial(8, 4) * repeat(1, 2);\n"
			    "  register a: %s[%d, %d] mirrors am;\n"
			    "  register b: %s[%d, %d] mirrors bm;\n"
			    "  register d: %s[%d, %d] mirrors dm;\n"
			    "  for (i, k) in am on lane { a[i, k] = A[i, k]; }\n"
			    "  for (k, j) in bm on lane { b[k, j] = B[k, j]; }\n"
			    "  for (i, j) in dm on lane { d[i, j] = C[i, j]; }\n"
			    "  mma %s d, a, b;\n"
			    "  for (i, j) in dm on lane { D[i, j] = d[i, j]; }\n"
			    "}\n",
			    t, s->m, s->k, t, s->k, s->n, d, s->m, s->n, d, s->m, s->n, halves, s->k / (4 * wide), wide,
			    s->k / (4 * wide), wide, halves, t, s->m, s->k, t, s->k, s->n, d, s->m, s->n, s->name);
}

static void matrices(void **state)
{
	(void)state;
	for (int k = 0; twir_mma_at(k); k++) {
		const struct twir_mma *s = twir_mma_at(k);
		assert_ptr_equal(twir_mma_find(s->name), s);
		char x[16 * 32 * 8], y[16 * 32 * 8], c[16 * 16 * 8], out[16 * 16 * 8];
		for (int i = 0; i < s->m * s->k; i++)
			put(s->type, x, i, (double)(i * 7 % 23 - 11));
		for (int i = 0; i < s->k * s->n; i++)
			put(s->type, y, i, (double)(i * 5 % 19 - 9));
		for (int i = 0; i < s->m * s->n; i++)
			put(s->sum, c, i, (double)(100 - i));
		for (int form = 0; form < 2; form++) {
			struct tw_arena *a = arena_new();
			memset(out, 0x55, sizeof(out));
			must_run(a, form ? by_mapping(a, s) : by_hand(a, s),
				 (struct twir_data[]){
					 {x, s->m * s->k}, {y, s->k * s->n}, {c, s->m * s->n}, {out, s->m * s->n}});
			for (int i = 0; i < s->m; i++)
				for (int j = 0; j < s->n; j++) {
					double sum = 100 - (i * s->n + j);
					for (int l = 0; l < s->k; l++)
						sum += ((i * s->k + l) * 7 % 23 - 11) * ((l * s->n + j) * 5 % 19 - 9);
					if (get(s->sum, out, i * s->n + j) != sum)
						fail_msg("%s, form %d: [%d, %d] is %g, not %g", s->name, form, i, j,
							 get(s->sum, out, i * s->n + j), sum);
				}
			arena_free(a);
		}
	}
}

static void matrix_faults(void **state)
{
	(void)state;
	static const struct {
		const char *text, *why;
	} cases[] = {
		{"program p(out D: f32[1]) launch block(1), thread(32) {\n  register d: f32[4];\n  register a: "
		 "f16[8];\n"
		 "  register b: f16[4];\n  mma m16n8k16_f16 d, a, b;\n}\n",
		 "read before it was written"},
		{"program p(out D: f32[1]) launch block(1), thread(32) {\n  register d: f32[4];\n  register a: "
		 "f16[4];\n"
		 "  register b: f16[4];\n  mma m16n8k16_f16 d, a, b;\n}\n",
		 "test:5:23: operand a of m16n8k16_f16: the last dimension has not the number of elements"},
		{"program p(out D: f32[1]) launch block(1), thread(32) {\n  mma m16n8k17_f16 d, a, b;\n}\n",
		 "test:2:7: there is no matrix instruction 'm16n8k17_f16'"},
		{"program p(out D: f32[1]) launch block(1), thread(16) {\n  register d: f32[4];\n  register a: "
		 "f32[4];\n"
		 "  register b: f32[2];\n  mma m16n8k8_tf32 d, a, b;\n}\n",
		 "needs a warp of 32 lanes, not 16"},
		{"program p(out D: f32[1]) launch core(1) {\n  register d: f32[4];\n  register a: f32[4];\n"
		 "  register b: f32[2];\n  mma m16n8k8_tf32 d, a, b;\n}\n",
		 "launched on block"},
		{"program p(out D: f32[1]) launch block(1), thread(64) {\n  register d: f32[4];\n  register a: "
		 "f32[4];\n"
		 "  register b: f32[2];\n  for e in repeat(4) { d[e] = 0.0; a[e] = 1.0; }\n"
		 "  for e in repeat(2) { b[e] = 1.0; }\n  if thread < 40 { mma m16n8k8_tf32 d, a, b; }\n}\n",
		 "not reached by all lanes"},
		{"program p(out D: f32[1]) launch block(1), warp(1), lane(32) {\n  map m = repeat(2, 1) * spatial(8, "
		 "4) * "
		 "repeat(1, 2);\n"
		 "  register d: f32[16, 8] mirrors m;\n  register a: f32[4];\n  register b: f32[2];\n"
		 "  for (i) in spatial(32) on lane { mma m16n8k8_tf32 d, a, b; }\n}\n",
		 "inside a loop on lanes"},
		{"program p(out D: f32[1]) launch block(1), warp(1), lane(32) {\n  map m = repeat(2, 1) * spatial(4, "
		 "8) * "
		 "repeat(2, 1);\n"
		 "  register d: f32[16, 8] mirrors m;\n  register a: f32[4];\n  register b: f32[2];\n"
		 "  for e in repeat(4) { a[e] = 0.0; }\n  for e in repeat(2) { b[e] = 0.0; }\n"
		 "  for (i, j) in m on lane { d[i, j] = 0.0; }\n  mma m16n8k8_tf32 d, a, b;\n}\n",
		 "belongs to another worker"},
	};
	for (int i = 0; i < TW_COUNT(cases); i++) {
		struct tw_arena *a = arena_new();
		float d = 0;
		must_fail(a, cases[i].text, (struct twir_data[]){{&d, 1}}, cases[i].why);
		arena_free(a);
	}
}

/* Two buffers, three tiles: the copy of the next tile is under way while a tile is used. */
static const char pipeline[] =
	"program p(X: f32[3, 64], out Y: f32[3, 64]) launch block(1), thread(16) {\n"
	"  shared S: f32[2, 64];\n"
	"  copy async S[0, 4 * thread +: 4] = X[0, 4 * thread +: 4];\n"
	"  commit;\n"
	"  for t in repeat(3) {\n"
	"    if t + 1 < 3 {\n"
	"      copy async S[(t + 1) % 2, 4 * thread +: 4] = X[t + 1, 4 * thread +: 4] where 4 * thread < 60 else 5.0;\n"
	"    }\n"
	"    commit;\n"
	"    wait 1;\n"
	"    barrier block;\n"
	"    for (i) in repeat(4) * spatial(16) on thread { Y[t, i] = S[t % 2, 63 - i]; }\n"
	"    barrier block;\n"
	"  }\n"
	"}\n";

static const char *without(struct tw_arena *a, const char *text, const char *piece, const char *instead)
{
	const char *at = strstr(text, piece);
	assert_non_null(at);
	return arena_printf(a, "%.*s%s%s", (int)(at - text), text, instead, at + strlen(piece));
}

static void copies(void **state)
{
	(void)state;
	struct tw_arena *a = arena_new();
	float x[3 * 64], y[3 * 64];
	for (int i = 0; i < 3 * 64; i++)
		x[i] = (float)i;
	const struct twir_data data[] = {{x, 192}, {y, 192}};
	must_run(a, pipeline, data);
	for (int t = 0; t < 3; t++)
		for (int i = 0; i < 64; i++)
			assert_true(y[64 * t + i] == (t > 0 && 63 - i >= 60 ? 5 : x[64 * t + 63 - i]));
	must_fail(a, without(a, pipeline, "    wait 1;\n", ""), data, "asynchronous copy to it is under way");
	must_fail(a, without(a, pipeline, "wait 1;", "wait 2;"), data, "asynchronous copy to it is under way");
	must_fail(a, without(a, pipeline, "    commit;\n", ""), data, "asynchronous copy to it is under way");
	must_fail(a, without(a, pipeline, "    barrier block;\n", ""), data, "read before it was written");
	must_fail(a, without(a, pipeline, "63 - i]; }\n    barrier block;", "63 - i]; }"), data,
		  "race: read by another worker");
	must_fail(a, without(a, pipeline, "else 5.0;", "else X[0, 0];"), data, "constant beside its load");
	must_fail(a,
		  without(a, pipeline, "S[0, 4 * thread +: 4] = X[0, 4 * thread +: 4]",
			  "S[0, thread] = X[0, thread] + 1.0"),
		  data, "test:3:14: store to 'S'");
	must_fail(a,
		  without(a, pipeline, "4 * thread +: 4] = X[0, 4 * thread +: 4]",
			  "2 * thread +: 3] = X[0, 2 * thread +: 3]"),
		  data, "4, 8 or 16 bytes");
	must_fail(a, "program p(X: f32[4], out Y: f32[4]) launch core(1) { wait 0; }", data, "launched on block");
	arena_free(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(shuffles), cmocka_unit_test(matrices),
					   cmocka_unit_test(matrix_faults), cmocka_unit_test(copies)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
