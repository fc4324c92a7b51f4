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
	cgen_kernel(&b, tw_dialect_for(j->target.isa), m, p, "kernel");
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
		{"program p(X: i4[8], out Y: f32[8]) launch core(8) { Y[core] = f32(X[core]); }",
		 "tensor 'X' of type i4: packed types have no code"},
		{"program p(X: f32[8], out Y: u2[8]) launch core(1) { for i in repeat(8) { Y[i] = u2(X[i]); } }",
		 "tensor 'Y' of type u2"},
		{"program p(X: f32[8], out Y: f32[8]) launch core(1) {\n  shared S: f4e2m1[8];\n"
		 "  for i in repeat(8) { S[i] = f4e2m1(X[i]); }\n  for i in repeat(8) { Y[i] = f32(S[i]); }\n}",
		 "tensor 'S' of type f4e2m1"},
		{"program p(X: f32[8], out Y: f32[8]) launch core(8) { Y[core] = f32(i4(X[core])); }",
		 "a cast of the packed type i4 has no lowered form"},
		{"program p(X: f32[8], out Y: f32[8]) launch block(1), thread(8) { Y[thread] = X[thread]; }",
		 "a launch on blocks, which is for a GPU"},
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

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(loops), cmocka_unit_test(refused)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
