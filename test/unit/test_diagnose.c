/* rooms: base tmap ir */
/* test_diagnose.c: what a person is told of a program. Sound programs of the corpus are proved so but for listed places;
 * every kind of fault is found, with its place; programs that lose a barrier, a bound or an index are no longer proved. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "ir/diagnose_int.h"

#define UNUSED __attribute__((unused))

struct job {
	struct tw_arena *a;
	const char *text, *program;
	struct twir_diagnostics d;
};

static void do_diagnose(void *arg)
{
	struct job *j = arg;
	struct twir_module *m = twir_module_new(j->a);
	twir_parse(m, "test", j->text);
	const struct twir_program *p = j->program ? twir_program_find(m, j->program) : m->programs.at[0];
	j->d = twir_diagnose_program(m, p, j->a);
}

static struct job diagnose(const char *text, const char *program)
{
	struct job j = {.a = arena_new(), .text = text, .program = program};
	struct tw_error e;
	if (!tw_try(&e, do_diagnose, &j)) {
		print_error("%s\n%s\n", text, e.text);
		fail();
	}
	return j;
}

static void show(const struct job *j)
{
	for (int i = 0; i < j->d.n; i++)
		print_error("%d:%d: %s: %s\n", j->d.at[i].line, j->d.at[i].column,
			    twir_severity_name(j->d.at[i].severity), j->d.at[i].text);
}

static char *read_text(const char *name)
{
	static char text[1 << 16];
	FILE *f = fopen(name, "rb");
	assert_non_null(f);
	const size_t n = fread(text, 1, sizeof(text) - 1, f);
	text[n] = 0;
	fclose(f);
	return text;
}

/* Lines that are not proved, ended by 0. */
struct sound {
	const char *file, *program;
	int unproved[4];
};

static void sound_programs(void **state UNUSED)
{
	static const struct sound all[] = {
		{"test/ir/add_relu.tw", "add_relu", {0}},
		{"test/ir/in_place.tw", "scale", {0}},
		{"test/ir/in_place.tw", "relayout", {0}},
		{"test/ir/matmul_packed.tw", "pack_b", {0}},
		{"test/ir/matmul_packed.tw", "matmul", {25, 0}}, /* sums come from the turn before */
		{"test/ir/matmul_simt.tw", "matmul_simt", {0}},
		{"test/ir/reductions.tw", "row_stats", {0}},
		{"test/ir/softmax.tw", "softmax", {0}},
		{"examples/programs/conv_matmul.tw", "conv", {0}},
		/* so do sums of a long K, and what is the last turn is not seen */
		{"examples/programs/matmul_cpu.tw", "matmul_bias_relu", {48, 65, 0}},
		{"examples/programs/matmul_gpu.tw", "matmul_bias_relu", {0}},
		{"examples/programs/matmul_async_gpu.tw", "matmul_bias_relu", {0}},
		{"examples/programs/row_sums_gpu.tw", "row_sums", {0}},
	};
	for (int k = 0; k < TW_COUNT(all); k++) {
		struct job j = diagnose(read_text(all[k].file), all[k].program);
		bool same = j.d.count[TWIR_ERROR] == 0 && j.d.count[TWIR_UNPROVED] == j.d.n;
		int n = 0;
		while (all[k].unproved[n])
			n++;
		same &= j.d.n == n;
		for (int i = 0; i < n && same; i++)
			same = j.d.at[i].line == all[k].unproved[i];
		if (!same) {
			print_error("%s: %s\n", all[k].file, all[k].program);
			show(&j);
			fail();
		}
		arena_free(j.a);
	}
}

/* The first diagnostic of the severity at the place has the part. */
static void expect(const char *text, enum twir_severity severity, int line, int column, const char *part)
{
	struct job j = diagnose(text, NULL);
	for (int i = 0; i < j.d.n; i++) {
		const struct twir_diagnostic *x = &j.d.at[i];
		if (x->severity == severity && x->line == line && x->column == column && strstr(x->text, part)) {
			arena_free(j.a);
			return;
		}
	}
	print_error("%s\nnot found: %d:%d: %s\n", text, line, column, part);
	show(&j);
	fail();
}

/* It is the only fault that is told. */
static void expect_alone(const char *text, int line, int column, const char *part)
{
	expect(text, TWIR_ERROR, line, column, part);
	struct job j = diagnose(text, NULL);
	if (j.d.count[TWIR_ERROR] != 1) {
		print_error("%s\nmore than one fault:\n", text);
		show(&j);
		fail();
	}
	arena_free(j.a);
}

static void proved(const char *text)
{
	struct job j = diagnose(text, NULL);
	if (j.d.n) {
		print_error("%s\n", text);
		show(&j);
		fail();
	}
	arena_free(j.a);
}

#define CPU "symbol N;\nprogram p(A: f32[N], out B: f32[N]) launch core(ceil_div(N, 16)), lane(16) {\n"
#define GPU "program p(A: f32[64], out B: f32[64]) launch block(1), thread(64) {\n"

static void structure(void **state UNUSED)
{
	expect(CPU "  B[0] = A[0];\n  A[0] = 1.0;\n}", TWIR_ERROR, 4, 3, "store to input 'A'");
	expect("program p(out B: f32[64]) launch block(1), thread(64) {\n  for (i) in spatial(65) on thread { B[i] = "
	       "0.0; } }",
	       TWIR_ERROR, 2, 3, "the mapping needs 65 workers, the launch has 64");
	expect(CPU "  barrier block;\n}", TWIR_ERROR, 3, 3, "the program is not launched on block");
}

static void bounds(void **state UNUSED)
{
	expect(CPU "  for (i) in spatial(ceil_div(N, 16)) * spatial(16) on (core, lane) {\n    B[i] = A[i];\n  }\n}",
	       TWIR_ERROR, 4, 5, "out of bounds (with N = 1)");
	/* facts of sizes make it right */
	proved("symbol N multiple 16;\nprogram p(A: f32[N], out B: f32[N]) launch core(ceil_div(N, 16)), lane(16) {\n"
	       "  for (i) in spatial(ceil_div(N, 16)) * spatial(16) on (core, lane) { B[i] = A[i]; } }");
	proved(CPU
	       "  for (i) in spatial(ceil_div(N, 16)) * spatial(16) on (core, lane) within (N) { B[i] = i + 1 < N ? "
	       "A[i + 1] : 0.0; } }");
	expect(CPU "  for (i) in spatial(ceil_div(N, 16)) * spatial(16) on (core, lane) within (N) {\n    B[i] = A[i + "
		   "1];\n"
		   "  } }",
	       TWIR_ERROR, 4, 5, "out of bounds");
	/* only a large size tells, so it is merely not proved */
	expect("symbol N in 1..100000;\nprogram p(A: f32[1000], out B: f32[N]) launch core(N) {\n"
	       "  for (i) in spatial(N) on core {\n    B[i] = A[i];\n  } }",
	       TWIR_UNPROVED, 4, 5, "bounds of A[i]: is index 0, i, within 0 .. 1000 - 1?");
	/* too large to be tried, but plain to see */
	expect("program p(A: f32[4096, 4096], out B: f32[4096, 4096]) launch core(4096), lane(16) {\n"
	       "  for (i) in spatial(4096) on core {\n    for (j) in repeat(256) * spatial(16) on lane {\n"
	       "      B[i, j] = A[i, j + 1];\n    }\n  }\n}",
	       TWIR_ERROR, 4, 7,
	       "out of bounds: index 1 of A[i, j + 1], j + 1, goes beyond 4096 - 1 in the last turns");
	proved("program p(A: f32[4096, 4097], out B: f32[4096, 4096]) launch core(4096), lane(16) {\n"
	       "  for (i) in spatial(4096) on core {\n    for (j) in repeat(256) * spatial(16) on lane {\n"
	       "      B[i, j] = A[i, j + 1];\n    }\n  }\n}");
	expect("symbol N;\nprogram p(I: i64[N], A: f32[N], out B: f32[N]) launch core(N) {\n"
	       "  for (i) in spatial(N) on core {\n    B[i] = A[index(I[i])];\n  } }",
	       TWIR_UNPROVED, 4, 5, "bounds of A[");
}

static void assignment(void **state UNUSED)
{
	expect(GPU "  shared s: f32[64];\n  for (i) in spatial(64) on thread {\n    B[i] = s[i];\n  }\n}", TWIR_ERROR,
	       4, 5, "read before it was written");
	expect("symbol N in 1..4000;\nprogram p(A: f32[N], out B: f32[N]) launch core(1) {\n  register x: f32[1];\n"
	       "  for i in repeat(N) {\n    if A[i] > 1000000.0 {\n      B[i] = x[0];\n    } else {\n      B[i] = "
	       "0.0;\n    }\n  }\n}",
	       TWIR_ERROR, 6, 7, "x[0] is read before anything is stored to x");
	expect("symbol N in 1..4000;\nprogram p(A: f32[N], out B: f32[N]) launch core(1) {\n  register x: f32[1];\n"
	       "  for i in repeat(N) {\n    if A[i] > 0.0 {\n      x[0] = A[i];\n    }\n    B[i] = A[0] > 3.0 ? x[0] : "
	       "0.0;\n  }\n}",
	       TWIR_UNPROVED, 8, 5, "is x[0] stored before it is read?");
	proved("symbol N;\nprogram p(A: f32[N], out B: f32[N]) launch core(1) {\n  register x: f32[4];\n"
	       "  for i in repeat(N) {\n    for k in repeat(4) { x[k] = A[i]; }\n    B[i] = x[3] + x[0];\n  }\n}");
	expect("symbol N;\nprogram p(A: f32[N], out B: f32[N]) launch core(1) {\n  register x: f32[4];\n"
	       "  for i in repeat(N) {\n    for k in repeat(3) { x[k] = A[i]; }\n    B[i] = x[3] + x[0];\n  }\n}",
	       TWIR_ERROR, 6, 5, "read before it was written");
}

static void barriers(void **state UNUSED)
{
	expect(GPU "  if thread < 32 {\n    barrier block;\n  }\n  for (i) in spatial(64) on thread { B[i] = A[i]; } }",
	       TWIR_ERROR, 3, 5,
	       "under a condition that differs between the threads it waits for: thread < 32 (line 2)");
	expect(GPU "  for k in repeat(thread % 3) {\n    barrier block;\n  }\n  for (i) in spatial(64) on thread { "
		   "B[i] = A[i]; } }",
	       TWIR_ERROR, 3, 5, "under a number of turns that differs");
	expect(GPU "  let t = thread * 2;\n  if t < 70 {\n    if A[0] > 0.0 {\n      barrier block;\n    }\n  }\n"
		   "  for (i) in spatial(64) on thread { B[i] = A[i]; } }",
	       TWIR_ERROR, 5, 7, "differs between the threads");
	expect(GPU
	       "  register x: f32[64] mirrors spatial(64);\n  for (i) in spatial(64) on thread { x[i] = 1.0; }\n"
	       "  if x[thread] > 0.0 {\n    barrier block;\n  }\n  for (i) in spatial(64) on thread { B[i] = A[i]; } }",
	       TWIR_ERROR, 5, 5, "differs between the threads");
	/* warps wait for their lanes only */
	proved("program p(A: f32[64], out B: f32[64]) launch block(1), warp(2), lane(32) {\n"
	       "  if warp == 0 {\n    barrier warp;\n  }\n  for (w, l) in spatial(2, 32) on (warp, lane) { B[32 * w + "
	       "l] = 0.0; }\n}");
	expect("program p(A: f32[64], out B: f32[64]) launch block(1), warp(2), lane(32) {\n"
	       "  if lane < 31 {\n    barrier warp;\n  }\n  for (w, l) in spatial(2, 32) on (warp, lane) { B[32 * w + "
	       "l] = 0.0; }\n}",
	       TWIR_ERROR, 3, 5, "barrier warp under a condition");
	proved("symbol N;\nprogram p(A: f32[64], out B: f32[64]) launch block(1), thread(64) {\n"
	       "  for k in repeat(N) {\n    barrier block;\n  }\n  for (i) in spatial(64) on thread { B[i] = A[i]; } "
	       "}");
}

static void outputs(void **state UNUSED)
{
	expect_alone(CPU "  let x = A[0];\n}", 0, 0, "output B is never stored to");
	expect_alone(GPU "  for (i) in repeat(0) * spatial(64) on thread {\n    B[i] = A[i];\n  }\n}", 3, 5,
		     "B[0] is never stored");
	expect_alone(GPU "  for (i) in spatial(32) on thread {\n    B[i] = A[i];\n  }\n}", 3, 5,
		     "B[32] is never stored");
	expect_alone(GPU "  if thread < 32 {\n    barrier block;\n  }\n  for (i) in spatial(64) on thread { B[i] = "
			 "A[i]; } }",
		     3, 5, "barrier block under a condition");
	expect_alone(
		"program p(A: f32[32], out B: f32[32]) launch block(1), warp(1), lane(32) {\n"
		"  if A[lane] < 0.0 {\n    B[lane] = shfl_xor(A[lane], 1);\n  } else {\n    B[lane] = 0.0;\n  }\n}",
		3, 5, "shfl_xor under a condition");
	expect_alone("symbol N;\nprogram p(A: f32[N], out B: f32[N]) launch core(N) {\n  B[core] = A[core / 0];\n}", 3,
		     3, "core / 0 divides by 0");
	expect_alone(
		"program p(A: f32[64], out B: f32[64]) launch core(1) {\n  let n = index(A[0]);\n  shared t: f32[n];\n"
		"}",
		3, 3, "a size must not depend on data");
	expect_alone("program p(A: f32[64], out B: f32[64]) launch core(1) {\n"
		     "  shared t: f32[8, 8] layout strides(4, 1);\n}",
		     2, 3, "two elements one place");
	proved("program p(out B: f32[64]) launch core(1) {\n  shared t: f32[8, 8] layout strides(1, 9);\n"
	       "  shared u: f32[3, 3] layout strides(2, 3);\n  for i in repeat(64) {\n    B[i] = 0.0;\n  }\n}");
	expect("symbol N, K;\nprogram p(A: f32[N], out B: f32[N]) launch core(N) {\n  for k in repeat(K) {\n    "
	       "B[core] = A[core];\n"
	       "  }\n}",
	       TWIR_ERROR, 4, 5, "stored a second time");
	expect("symbol N;\nprogram p(A: f32[N], out B: f32[N]) launch core(N) {\n  if core > 0 {\n    B[core] = "
	       "A[core];\n  }\n}",
	       TWIR_ERROR, 4, 5, "B[0] is never stored");
	expect("symbol N, M;\nprogram p(A: f32[N, M], out B: f32[N, M]) launch core(N * M) {\n"
	       "  for (i, j) in spatial(N, M) on core {\n    B[i, j / 2 * 2] = A[i, j];\n  }\n}",
	       TWIR_ERROR, 4, 5, "stored a second time");
	proved("symbol N, M;\nprogram p(A: f32[N, M], out B: f32[M, N]) launch core(N * M) {\n"
	       "  for (i, j) in spatial(N, M) on core {\n    if A[i, j] > 0.0 {\n      B[j, i] = A[i, j];\n    } else "
	       "{\n"
	       "      B[j, i] = 0.0;\n    }\n  }\n}");
	proved("program p(A: f32[64], out B: f32[4, 16]) launch block(1), thread(64) {\n  B[thread / 16, thread % 16] "
	       "= "
	       "A[thread];\n}");
	proved("symbol N, K in 1..100;\nprogram p(A: f32[N], out B: f32[N]) launch core(N) {\n  for k in repeat(K) {\n"
	       "    if k == K - 1 {\n      B[core] = A[core];\n    }\n  }\n}");
}

static void races(void **state UNUSED)
{
	expect(GPU "  shared s: f32[64];\n  for (i) in spatial(64) on thread { s[i / 2] = 1.0; }\n"
		   "  for (i) in spatial(64) on thread { B[i] = A[i]; } }",
	       TWIR_ERROR, 3, 38, "race: written by two workers");
	expect(GPU "  shared s: f32[64];\n  for (i) in spatial(64) on thread { s[i] = 1.0; }\n"
		   "  for (i) in spatial(64) on thread {\n    B[i] = s[63 - i];\n  } }",
	       TWIR_ERROR, 5, 5, "s[63");
	proved(GPU "  shared s: f32[64];\n  for (i) in spatial(64) on thread { s[i] = 1.0; }\n"
		   "  for (i) in spatial(64) on thread {\n    B[i] = s[i];\n  } }");
	proved(GPU "  shared s: f32[64];\n  for (i) in spatial(64) on thread { s[i] = 1.0; }\n  barrier block;\n"
		   "  for (i) in spatial(64) on thread {\n    B[i] = s[63 - i];\n  } }");
	/* by one thread alone */
	proved(GPU "  shared s: f32[1];\n  if thread == 0 {\n    s[0] = A[0];\n  }\n  barrier block;\n"
		   "  for (i) in spatial(64) on thread {\n    B[i] = s[0];\n  } }");
	/* from one turn of a loop to the next */
	expect("symbol N in 64..64;\nprogram p(A: f32[64, N], out B: f32[64]) launch block(1), thread(64) {\n  shared "
	       "s: f32[64];\n"
	       "  register x: f32[64] mirrors spatial(64);\n  for (i) in spatial(64) on thread { x[i] = 0.0; }\n"
	       "  for k in repeat(N) {\n    for (i) in spatial(64) on thread { s[i] = A[i, k]; }\n    barrier block;\n"
	       "    for (i) in spatial(64) on thread { x[i] = x[i] + s[63 - i]; }\n  }\n"
	       "  for (i) in spatial(64) on thread { B[i] = x[i]; } }",
	       TWIR_ERROR, 9, 40, "race");
	/* lanes of a CPU */
	expect(CPU "  shared s: f32[16];\n  for (l) in spatial(16) on lane { s[l] = 1.0; }\n"
		   "  for (l) in spatial(16) on lane {\n    s[l] = s[15 - l];\n  }\n"
		   "  for (i) in spatial(ceil_div(N, 16)) * spatial(16) on (core, lane) within (N) { B[i] = A[i]; } }",
	       TWIR_ERROR, 6, 5, "race");
}

/* Warps: shuffles, matrix instructions; asynchronous copies. */
static void gpu_instructions(void **state UNUSED)
{
#define SUM                                                                                                            \
	"program p(A: f32[64], out B: f32[2]) launch block(1), warp(2), lane(32) {\n  register x: f32[1];\n"           \
	"  x[0] = A[32 * warp + lane];\n"
	proved(SUM "  x[0] = x[0] + shfl_down(x[0], 16);\n  if lane == 0 {\n    B[warp] = x[0];\n  }\n}");
	expect(SUM "  if lane < 16 {\n    x[0] = x[0] + shfl_down(x[0], 16);\n  }\n  if lane == 0 {\n    B[warp] = "
		   "x[0];\n  "
		   "}\n}",
	       TWIR_ERROR, 5, 5,
	       "shfl_down under a condition that differs between the threads it waits for: lane < 16 (line 4)");
#define MMA(TURNS)                                                                                                     \
	"program p(A: f32[16, 8], out B: f32[32, 4]) launch block(1), warp(1), lane(32) {\n  register a: f32[4];\n"    \
	"  register b: f32[2];\n  register c: f32[4];\n  for k in repeat(" TURNS ") { a[k] = A[lane / 4 + k % 2 * 8, " \
	"lane % 4 + k / 2 * 4]; }\n  for k in repeat(2) { b[k] = 1.0; }\n  for k in repeat(4) { c[k] = 0.0; }\n"       \
	"  mma m16n8k8_tf32 c, a, b;\n  for k in repeat(4) { B[lane, k] = c[k]; }\n}"
	proved(MMA("4"));
	expect(MMA("3"), TWIR_ERROR, 8, 3, "a[3]: read before it was written");
#define COPY(WAIT)                                                                                                     \
	"program p(A: f32[64], out B: f32[64]) launch block(1), thread(64) {\n  shared s: f32[64];\n"                  \
	"  for (i) in spatial(64) on thread {\n    copy async s[i] = A[i];\n  }\n  commit;\n" WAIT                     \
	"  for (i) in spatial(64) on thread {\n    B[i] = s[63 - i];\n  }\n}"
	proved(COPY("  wait 0;\n  barrier block;\n"));
	expect(COPY("  barrier block;\n"), TWIR_ERROR, 9, 5, "read while an asynchronous copy to it is under way");
	expect(COPY("  wait 0;\n"), TWIR_ERROR, 9, 5, "s[");
	expect(COPY("  wait 1;\n  barrier block;\n"), TWIR_ERROR, 10, 5, "read while an asynchronous copy");
	expect(COPY("  barrier block;\n  wait 0;\n"), TWIR_ERROR, 10, 5, "s[");
}

/* What a sound text becomes when one part of it is another. */
static char *with(const char *text, const char *part, const char *by, int nth)
{
	const char *at = strstr(text, part);
	for (; nth > 0 && at; nth--)
		at = strstr(at + 1, part);
	assert_non_null(at);
	static char out[1 << 16];
	snprintf(out, sizeof(out), "%.*s%s%s", (int)(at - text), text, by, at + strlen(part));
	return out;
}

static void mutants(void **state UNUSED)
{
	static const struct {
		const char *part, *by;
		int nth;
	} all[] = {
		{"barrier block;", "", 0},
		{"barrier block;", "", 1},
		{"As[(s + 1) % 2, i, k] = ", "As[s % 2, i, k] = ", 0},
		{"Bs[(s + 1) % 2, k, j] = ", "Bs[(s + 2) % 2, k, j] = ", 0},
		{"within (M - i0, N - j0)", "within (M - i0 + 1, N - j0)", 0},
		{"within (M - i0, N - j0)", "within (M - i0, N - j0 - 1)", 0},
		{"C[i0 + i, j0 + j]", "C[i0 + i, j0 + j / 2]", 0},
		{"i0 + i < M and k < first", "k < first", 0},
		{"let first = K - 8 * (tiles - 1);", "let first = K - 8 * tiles;", 0},
		{"acc[i, j] = 0.0;", "", 0},
		{"shared Bs: f32[2, 8, 128];", "shared Bs: f32[2, 7, 128];", 0},
		{"map load_b = repeat(4, 1) * spatial(2, 128);", "map load_b = repeat(3, 1) * spatial(2, 128);", 0},
	};
	char text[1 << 16];
	strcpy(text, read_text("test/ir/matmul_simt.tw"));
	for (int k = 0; k < TW_COUNT(all); k++) {
		struct job j = {.a = arena_new(), .text = with(text, all[k].part, all[k].by, all[k].nth)};
		struct tw_error e;
		/* told as an error, by the parser's or verifier's own rules too */
		if (tw_try(&e, do_diagnose, &j) && j.d.count[TWIR_ERROR] == 0) {
			print_error("%s, as %s\n", all[k].part, all[k].by);
			show(&j);
			fail();
		}
		arena_free(j.a);
	}
}

/* What proofs alone say, without trial runs. */
static void do_prove(void *arg)
{
	struct job *j = arg;
	struct twir_module *m = twir_module_new(j->a);
	twir_parse(m, "test", j->text);
	struct twird d = {.m = m, .p = m->programs.at[0], .arena = j->a, .scratch = j->a, .gpu = true};
	twird_walk(&d);
	twird_assign(&d);
	twird_races(&d);
	j->d.n = d.list.n;
	j->d.at = d.list.at;
}

/* Rings of copies with something wrong: trial runs find it, and no proof is given. */
static void wrong_rings(void **state UNUSED)
{
	static const struct {
		const char *part, *by;
		int nth;
	} all[] = {
		{"wait 1;", "wait 2;", 0},
		{"wait 1;", "", 0},
		{"barrier block;", "", 0},
		{"commit;", "", 0}, /* of the first tiles */
		{"commit;", "", 1},
		{"tile_a[(s + 2) % 3, i, k] = ", "tile_a[(s + 1) % 3, i, k] = ", 0},
		{"tile_b[(s + 2) % 3, k, j] = ", "tile_b[(s + 3) % 3, k, j] = ", 0},
		{"= tile_a[s % 3, i, k]", "= tile_a[(s + 1) % 3, i, k]", 0},
		{"= tile_b[s % 3, k, j]", "= tile_b[(s + 2) % 3, k, j]", 0},
		{"for s in repeat(2, unroll)", "for s in repeat(1, unroll)", 0},
		{"within (M - i0, N - j0)", "within (M - i0, N - j0)", 0}, /* nothing: the list is looked at */
	};
	char text[1 << 16];
	strcpy(text, read_text("examples/programs/matmul_async_gpu.tw"));
	for (int k = 0; k < TW_COUNT(all); k++) {
		const bool same = strcmp(all[k].part, all[k].by) == 0;
		struct job j = {.a = arena_new(), .text = with(text, all[k].part, all[k].by, all[k].nth)};
		struct job proofs = {.a = j.a, .text = j.text};
		struct tw_error e;
		if (!tw_try(&e, do_diagnose, &j) || !tw_try(&e, do_prove, &proofs))
			fail_msg("%s", e.text);
		if ((j.d.count[TWIR_ERROR] == 0) != same || (proofs.d.n == 0) != same) {
			print_error("%s, as %s: %d errors, %d without proof\n", all[k].part, all[k].by,
				    j.d.count[TWIR_ERROR], proofs.d.n);
			show(&j);
			fail();
		}
		arena_free(j.a);
	}
}

/* Small ones: one copy, one ring. */
static void copies(void **state UNUSED)
{
	static const char text[] = "symbol T in 1..;\n"
				   "program p(X: f32[T, 32], out Y: f32[32]) launch block(1), thread(32) {\n"
				   "  shared S: f32[2, 32];\n  register r: f32[];\n  r = 0.0;\n"
				   "  copy async S[0, thread] = X[0, thread];\n  commit;\n"
				   "  for t in repeat(T) {\n"
				   "    if t + 1 < T { copy async S[(t + 1) % 2, thread] = X[t + 1, thread]; }\n"
				   "    commit;\n    wait 1;\n    barrier block;\n"
				   "    r = r + S[t % 2, 31 - thread];\n    barrier block;\n  }\n"
				   "  Y[thread] = r;\n}\n";
	static const struct {
		const char *part, *by;
		int nth;
		bool good, stale; /* stale: what was there before is read, which is no fault of its own */
	} all[] = {
		{"wait 1;", "wait 1;", 0, true},
		{"wait 1;", "wait 0;", 0, true}, /* more than is needed */
		{"wait 1;", "wait 2;", 0, false},
		{"    barrier block;\n  }", "  }", 0, false}, /* the next copy comes too early */
		{"wait 1;\n    barrier block;", "wait 1;", 0, false},
		{"    commit;\n    wait", "    wait", 0, false},
		{"S[(t + 1) % 2, thread] =", "S[t % 2, thread] =", 0, false},
		{"if t + 1 < T", "if t + 2 < T", 0, false, true},
		{"S[t % 2, 31", "S[(t + 1) % 2, 31", 0, false},
		{"{ copy async", "{ commit; copy async", 0, true},
		{"wait 1;", "if t % 2 == 0 { wait 1; }", 0, false},
	};
	for (int k = 0; k < TW_COUNT(all); k++) {
		struct job j = {.a = arena_new(), .text = with(text, all[k].part, all[k].by, all[k].nth)};
		struct job proofs = {.a = j.a, .text = j.text};
		struct tw_error e;
		if (!tw_try(&e, do_diagnose, &j) || !tw_try(&e, do_prove, &proofs))
			fail_msg("%s", e.text);
		if ((j.d.count[TWIR_ERROR] == 0) != (all[k].good || all[k].stale) || (proofs.d.n == 0) != all[k].good) {
			print_error("%s, as %s: %d errors, %d without proof\n", all[k].part, all[k].by,
				    j.d.count[TWIR_ERROR], proofs.d.n);
			for (int i = 0; i < proofs.d.n; i++)
				print_error("%d: %s\n", proofs.d.at[i].line, proofs.d.at[i].text);
			show(&j);
			fail();
		}
		arena_free(j.a);
	}
}

struct trial {
	const char *text;
	int64_t turns;
};

static void run_ring(void *arg)
{
	const struct trial *r = arg;
	struct tw_arena *a = arena_new();
	struct twir_module *m = twir_module_new(a);
	float x[16 * 4] = {0}, y[4];
	twir_parse(m, "ring", r->text);
	struct twir_program *p = m->programs.at[0];
	twir_program_symbols(m, p);
	const struct twir_binding b = {1, p->symbols, &r->turns};
	twir_interpret(m, p, &b, (struct twir_data[]){{x, TW_COUNT(x)}, {y, 4}});
	arena_free(a);
}

/* All rings of a kind: how many parts, how far ahead, how many before the loop, what is waited for, with barriers, commits
 * and the copy here or there. What is proved runs, whatever the number of turns. */
static void all_rings(void **state UNUSED)
{
	int proved_right = 0;
	for (unsigned k = 0; k < 4 * 5 * 4 * 3 * 16; k++) {
		const unsigned parts = 1 + k % 4, ahead = k / 4 % 5, before = k / 20 % 4, pending = k / 80 % 3,
			       bits = k / 240;
		const bool first = bits & 1, told = bits & 2, kept = bits & 4, committed = bits & 8;
		struct tw_arena *a = arena_new();
		const char *copy = arena_printf(a, "    copy async S[(t + %u) %% %u, thread] = X[t + %u, thread];\n%s",
						ahead, parts, ahead, committed ? "    commit;\n" : "");
		struct job j = {.a = a};
		j.text = arena_printf(
			a,
			"symbol T in 1..8;\nprogram p(X: f32[16, 4], out Y: f32[4]) launch block(1), thread(4) {\n"
			"  shared S: f32[%u, 4];\n  register r: f32[];\n  r = 0.0;\n"
			"  for t in repeat(%u) {\n    copy async S[t %% %u, thread] = X[t, thread];\n    commit;\n  }\n"
			"  for t in repeat(T) {\n%s    wait %u;\n%s    r = r + S[t %% %u, 3 - thread];\n%s%s  }\n"
			"  Y[thread] = r;\n}\n",
			parts, before, parts, first ? copy : "", pending, told ? "    barrier block;\n" : "", parts,
			kept ? "    barrier block;\n" : "", first ? "" : copy);
		struct tw_error e;
		if (!tw_try(&e, do_prove, &j))
			fail_msg("%s\n%s", j.text, e.text);
		proved_right += j.d.n == 0;
		for (int64_t turns = 1; turns <= 8 && j.d.n == 0; turns++)
			if (!tw_try(&e, run_ring, &(struct trial){j.text, turns}))
				fail_msg("proved, but with T = %lld:\n%s\n%s", (long long)turns, j.text, e.text);
		arena_free(a);
	}
	print_message("%d rings proved right\n", proved_right);
	assert_true(proved_right > 40);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sound_programs), cmocka_unit_test(structure), cmocka_unit_test(bounds),
		cmocka_unit_test(assignment),	  cmocka_unit_test(barriers),  cmocka_unit_test(outputs),
		cmocka_unit_test(races),	  cmocka_unit_test(mutants),   cmocka_unit_test(gpu_instructions),
		cmocka_unit_test(wrong_rings),	  cmocka_unit_test(copies),    cmocka_unit_test(all_rings),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
