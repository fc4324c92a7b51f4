/* rooms: base tmap target ir pass cgen */
/* What the C text says beyond what it computes: attributes of loops; and what lowering for a CPU refuses, by name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "cgen/cgen.h"
#include "pass_support.h"

struct job {
	struct tw_arena *a;
	const char *text, *c;
	struct tw_target target;
};

static void compile(void *arg)
{
	struct job *j = arg;
	struct twir_module *m = twir_module_new(j->a);
	struct tw_buf b;
	twir_parse(m, "text", j->text);
	struct twir_program *p = m->programs.at[0];
	twir_verify_program(m, p, TW_ERR_MODEL);
	tw_lower(m, p, &j->target, NULL, NULL);
	buf_init(&b, j->a);
	cgen_kernel(&b, cgen_uses_new(j->a, tw_dialect_for(j->target.isa)), m, p, "kernel");
	j->c = b.at;
}

static int count(const char *text, const char *what)
{
	int n = 0;
	for (; (text = strstr(text, what)); text++)
		n++;
	return n;
}

static void loops(void **state)
{
	(void)state;
	struct job j = {.a = arena_new(), .target = support_target(TW_ISA_AVX2, 8)};
	struct tw_error e;
	j.text = "symbol N;\n"
		 "program p(X: f32[N, N], out Y: f32[N, N]) launch core(N) {\n"
		 "  for i in repeat(N, unroll 4) { Y[core, i] = X[i, core]; }\n"
		 "}\n";
	if (!tw_try(&e, compile, &j))
		fail_msg("%s", e.text);
	assert_int_equal(count(j.c, "#pragma GCC unroll 4\n"), 1);
	j.text = "symbol N;\n"
		 "program p(X: f32[N, N], out Y: f32[N, N]) launch core(N) {\n"
		 "  for i in repeat(N) { Y[core, i] = X[i, core]; }\n"
		 "}\n";
	assert_true(tw_try(&e, compile, &j));
	assert_int_equal(count(j.c, "#pragma"), 0);
	arena_free(j.a);
}

static void refused(void **state)
{
	(void)state;
	static const struct {
		const char *text, *why;
	} cases[] = {
		/* a byte that two core items store to */
		{"program p(X: f32[8], out Y: i4[8]) launch core(8) { Y[core] = i4(X[core]); }",
		 "elements of 'Y' (i4) share bytes"},
		{"program p(X: f32[8], out Y: u2[8]) launch core(4) {\n"
		 "  for (i) in spatial(4) * repeat(2) on core { Y[i] = u2(X[i]); }\n}",
		 "elements of 'Y' (u2) share bytes"},
		{"symbol N;\nprogram p(X: f32[4, N], out Y: f4e2m1[4, N]) launch core(4) {\n"
		 "  for j in repeat(N) { Y[core, j] = f4e2m1(X[core, j]); }\n}",
		 "elements of 'Y' (f4e2m1) share bytes"},
		{"program p(X: f32[8], out Y: i4[8]) launch core(4) {\n"
		 "  for (i) in repeat(2) * spatial(4) on core { Y[i] = i4(X[i]); }\n}",
		 "elements of 'Y' (i4) share bytes"},
		{"program p(X: f32[9], out Y: i4[9]) launch core(4) {\n"
		 "  for (i) in spatial(4) * repeat(2) on core { Y[i + 1] = i4(X[i]); }\n"
		 "  if core == 0 { Y[0] = i4(X[8]); }\n}",
		 "elements of 'Y' (i4) share bytes"},
		{"program p(X: f32[8], out Y: i4[8]) launch core(4) {\n"
		 "  for (i) in spatial(4) on core { Y[2 * i] = i4(X[i]); }\n"
		 "  for (i) in spatial(4) on core { Y[7 - 2 * i] = i4(X[i]); }\n}",
		 "elements of 'Y' (i4) share bytes"},
		{"program p(X: f32[8], out Y: f32[8]) launch block(1), thread(8) { Y[thread] = X[thread]; }",
		 "a launch on blocks, which is for a GPU"},
		/* each by one core item, but by different ones */
		{"program p(X: f32[8], out Y: i4[8]) launch core(2) {\n"
		 "  if core == 0 { Y[0] = i4(X[0]); }\n  if core == 1 { Y[1] = i4(X[1]); }\n}",
		 "elements of 'Y' (i4) share bytes"},
	};
	for (int i = 0; i < TW_COUNT(cases); i++) {
		struct job j = {.a = arena_new(), .text = cases[i].text, .target = support_target(TW_ISA_AVX2, 8)};
		struct tw_error e = {0};
		const bool ok = tw_try(&e, compile, &j);
		if (ok || e.code != TW_ERR_UNSUPPORTED || !strstr(e.text, cases[i].why))
			fail_msg("%s\n%s\nshould be: %s", cases[i].text, ok ? "it compiles" : e.text, cases[i].why);
		arena_free(j.a);
	}
}

/* Each byte has one owner: these are proved so, and compiled. */
static void whole_bytes(void **state)
{
	(void)state;
	static const char *const texts[] = {
		"program p(X: f32[8], out Y: i4[2, 8] layout strides(1, 3)) launch core(2) {\n"
		"  if core == 1 { for i in repeat(8) { Y[0, i] = i4(X[i]); Y[1, i] = i4(X[i]); } }\n}",
		"program p(X: f32[8], out Y: i4[8]) launch core(1) { for i in repeat(8) { Y[i] = i4(X[i]); } }",
		"program p(X: f32[8], out Y: u2[8]) launch core(2) {\n"
		"  for (i) in spatial(2) * repeat(4) on core { Y[i] = u2(X[i]); }\n}",
		"symbol N;\nprogram p(X: f32[4, N], out Y: i4[4, 2 * N]) launch core(4) {\n"
		"  for j in repeat(N) { Y[core, 2 * j] = i4(X[core, j]); Y[core, 2 * j + 1] = i4(-X[core, j]); }\n}",
		"symbol N;\nprogram p(X: f32[N], out Y: i4[N]) launch core(4) {\n"
		"  for (i) in repeat(ceil_div(N, 24)) * spatial(4) * repeat(6) on core within (N) { Y[i] = i4(X[i]); "
		"}\n}",
		"program p(X: f32[8], out Y: i4[8]) launch core(4) {\n"
		"  for (i) in spatial(4) on core { Y[2 * i] = i4(X[i]); }\n"
		"  for (i) in spatial(4) on core { Y[2 * i + 1] = i4(X[i]); }\n}",
		"symbol N multiple 4;\nprogram p(X: f32[N], out Y: f4e2m1[N] layout column) launch core(ceil_div(N, "
		"4)) {\n"
		"  Y[4 * core +: 4] = f4e2m1(X[4 * core +: 4]);\n}",
	};
	for (int i = 0; i < TW_COUNT(texts); i++) {
		struct job j = {.a = arena_new(), .text = texts[i], .target = support_target(TW_ISA_AVX2, 8)};
		struct tw_error e = {0};
		if (!tw_try(&e, compile, &j))
			fail_msg("%s\n%s", texts[i], e.text);
		assert_true(strstr(j.c, "bst") != NULL);
		arena_free(j.a);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(loops), cmocka_unit_test(refused),
					   cmocka_unit_test(whole_bytes)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
