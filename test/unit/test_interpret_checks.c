/* rooms: base tmap ir */
/* test_interpret_checks.c: what the interpreter finds beside wrong numbers: races on memory that outputs share with
 * inputs, misaligned wide accesses, runs that do not end; each with its place in the text. And how long it takes for
 * a matmul on emulated GPU threads. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <cmocka.h>

#include "ir/ir.h"

#define UNUSED __attribute__((unused))
#define SIDE   64

struct run {
	struct tw_arena *a;
	struct twir_module *m;
	const char *text;
	struct twir_limits limits;
	struct twir_data params[4];
};

static void do_run(void *arg)
{
	struct run *r = arg;
	r->m = twir_module_new(r->a);
	twir_parse(r->m, "test", r->text);
	twir_verify_program(r->m, r->m->programs.at[0], TW_ERR_MODEL);
	twir_interpret_within(r->m, r->m->programs.at[0], NULL, r->params, &r->limits);
}

/* code TW_ERR_OK: it must run. In texts the lines are told by \n. */
static void check(const char *text, bool in_place, int64_t steps, enum tw_code code, const char *part)
{
	static float data[4][4096];
	struct run r = {.a = arena_new(), .text = text, .limits = {steps}};
	struct tw_error e;
	for (int k = 0; k < 4; k++)
		r.params[k] = (struct twir_data){data[in_place ? 0 : k], 4096};
	const bool ok = tw_try(&e, do_run, &r);
	if (ok != (code == TW_ERR_OK) || (!ok && (e.code != code || !strstr(e.text, part)))) {
		print_error("%s\n%s\nwithout: %s\n", text, ok ? "it ran" : e.text, part);
		fail();
	}
	arena_free(r.a);
}

#define CORES "program p(A: f32[64], out B: f32[64] alias A) launch core(4), lane(16) {\n"
#define BLOCK "program p(A: f32[64], out B: f32[64] alias A) launch block(1), thread(64) {\n"

static void overwritten_inputs(void **state UNUSED)
{
	check(CORES " for (i) in spatial(4) * spatial(16) on (core, lane) {\n  B[i] = A[i] + 1.0;\n } }", true, 0,
	      TW_ERR_OK, "");
	/* core item 0 reads what core item 1 writes: in this order it would go unnoticed */
	check(CORES " for (i) in spatial(4) * spatial(16) on (core, lane) {\n  B[i] = A[min(i + 16, 63)];\n } }", true,
	      0, TW_ERR_INPUT,
	      "line 3:3: B[i] = A[min(i + 16, 63)]: B[16]: race: overwrites what another core item reads");
	check(CORES
	      " for (i) in spatial(4) * spatial(16) on (core, lane) {\n  B[i] = A[i / 16 * 16 + 15 - i % 16];\n } }",
	      true, 0, TW_ERR_INPUT, "A[7]: read after its buffer was overwritten");
	check(BLOCK " for (i) in spatial(64) on thread { B[i] = A[i]; } }", true, 0, TW_ERR_OK, "");
	check(BLOCK " for (i) in spatial(64) on thread { B[i] = A[min(i + 1, 63)]; } }", true, 0, TW_ERR_INPUT,
	      "race: overwrites what another worker reads, with no barrier between");
	/* in other buffers there is nothing to race for */
	check(BLOCK " for (i) in spatial(64) on thread { B[i] = A[63 - i]; } }", false, 0, TW_ERR_OK, "");
	check("program p(A: f32[64], out B: f32[64] alias A) launch block(1), thread(64) {\n"
	      " register r: f32[64] mirrors spatial(64);\n"
	      " for (i) in spatial(64) on thread { r[i] = A[63 - i]; }\n barrier block;\n"
	      " for (i) in spatial(64) on thread { B[i] = r[i]; }\n}",
	      true, 0, TW_ERR_OK, "");
}

static void wide_accesses(void **state UNUSED)
{
#define WIDE(AT)                                                                                                       \
	"program p(A: f32[64], out B: f32[64]) launch block(1), thread(4) {\n  for (i) in spatial(4) on thread {\n"    \
	"    B[16 * i +: 4] = A[" AT " +: 4];\n"                                                                       \
	"    for k in repeat(12) { B[16 * i + 4 + k] = 0.0; }\n  }\n}"
	check(WIDE("8 * i + 4"), false, 0, TW_ERR_OK, "");
	check(WIDE("8 * i + 2"), false, 0, TW_ERR_INPUT,
	      "line 3:5: B[16 * i] = A[8 * i + 2 +: 4]: in A[8 * i + 2 +: 4]: A[2]: misaligned");
	/* a CPU has no such rule */
	check("program p(A: f32[64], out B: f32[16]) launch core(1), lane(16) {\n  B[0 +: 16] = A[3 +: 16];\n}", false,
	      0, TW_ERR_OK, "");
}

static void steps(void **state UNUSED)
{
	check("program p(A: f32[64], out B: f32[64]) launch core(1) { for i in repeat(64) { B[i] = A[i]; } }", false,
	      66, TW_ERR_OK, "");
	check("program p(A: f32[64], out B: f32[64]) launch core(1) { for i in repeat(64) { B[i] = A[i]; } }", false,
	      32, TW_ERR_CANCELLED, "program p: more steps than allowed");
	/* each of these would take years */
	check("program p(A: f32[64], out B: f32[64]) launch core(1) { for i in repeat(1000000000000000) { } }", false,
	      100000, TW_ERR_CANCELLED, "");
	check("program p(A: f32[64], out B: f32[64]) launch core(1000000000000000) { }", false, 100000,
	      TW_ERR_CANCELLED, "");
	check("program p(A: f32[64], out B: f32[64]) launch block(1000000000000000), thread(64) { }", false, 100000,
	      TW_ERR_CANCELLED, "");
	check("program p(A: f32[64], out B: f32[64]) launch core(1) {"
	      " for (i) in repeat(1000000000000000) within (0) { B[i] = A[i]; } }",
	      false, 100000, TW_ERR_CANCELLED, "");
	check("program p(A: f32[64], out B: f32[64]) launch core(1) {"
	      " for i in repeat(1000000000000) { shared s: f32[1000000]; s[0] = 1.0; } }",
	      false, 1000000, TW_ERR_CANCELLED, "");
}

/* 16 x 16 threads, each with a 4 x 4 tile; tiles of 64 x 16 and 16 x 64 in shared memory, two barriers for each. */
static const char matmul[] =
	"program p(A: f32[64, 64], B: f32[64, 64], out C: f32[64, 64]) launch block(1), thread(256) {\n"
	"  map tile = spatial(16, 16) * repeat(4, 4);\n"
	"  shared As: f32[64, 16];\n"
	"  shared Bs: f32[16, 64];\n"
	"  register acc: f32[64, 64] mirrors tile;\n"
	"  for (i, j) in tile on thread { acc[i, j] = 0.0; }\n"
	"  for s in repeat(4) {\n"
	"    for (i, k) in repeat(4, 1) * spatial(16, 16) on thread { As[i, k] = A[i, 16 * s + k]; }\n"
	"    for (k, j) in repeat(4, 1) * spatial(4, 64) on thread { Bs[k, j] = B[16 * s + k, j]; }\n"
	"    barrier block;\n"
	"    for k in repeat(16) {\n"
	"      for (i, j) in tile on thread { acc[i, j] = fma(As[i, k], Bs[k, j], acc[i, j]); }\n"
	"    }\n"
	"    barrier block;\n"
	"  }\n"
	"  for (i, j) in tile on thread { C[i, j] = acc[i, j]; }\n"
	"}\n";

static void time_of_matmul(void **state UNUSED)
{
	static float x[SIDE * SIDE], y[SIDE * SIDE], z[SIDE * SIDE];
	for (int k = 0; k < SIDE * SIDE; k++) {
		x[k] = (float)(k * 7 % 13 - 6) * 0.25f;
		y[k] = (float)(k * 5 % 11 - 5) * 0.5f;
	}
	struct run r = {
		.a = arena_new(), .text = matmul, .params = {{x, SIDE * SIDE}, {y, SIDE * SIDE}, {z, SIDE * SIDE}}};
	struct tw_error e;
	const clock_t start = clock();
	const bool ok = tw_try(&e, do_run, &r);
	const double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
	if (!ok)
		fail_msg("%s", e.text);
	print_message("64 x 64 x 64 on 256 emulated threads: %.3f s of processor time\n", seconds);
	for (int i = 0; i < SIDE; i++)
		for (int j = 0; j < SIDE; j++) {
			float sum = 0;
			for (int k = 0; k < SIDE; k++)
				sum = fmaf(x[i * SIDE + k], y[k * SIDE + j], sum);
			assert_true(z[i * SIDE + j] == sum);
		}
	arena_free(r.a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(overwritten_inputs),
		cmocka_unit_test(wide_accesses),
		cmocka_unit_test(steps),
		cmocka_unit_test(time_of_matmul),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
