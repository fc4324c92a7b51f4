/* rooms: base tmap ir */
/* Launch functions: text, verifier, and runs in the interpreter; what they must not do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "ir/ir.h"

/* Powers of a matrix by repeated multiplication between two buffers, each row times itself in parts. */
static const char text[] = "symbol M, N in 1..64;\n"
			   "\n"
			   "program product(A: f32[N, N], B: f32[N, N], out C: f32[N, N]) launch core(N) {\n"
			   "  for j in repeat(N) {\n"
			   "    register s: f32[];\n"
			   "    s = 0.0;\n"
			   "    for k in repeat(N) { s = s + A[core, k] * B[k, j]; }\n"
			   "    C[core, j] = s;\n"
			   "  }\n"
			   "}\n"
			   "\n"
			   "program scale(X: f32[M], out Y: f32[M]) launch core(M) {\n"
			   "  Y[core] = X[core] * 2.0;\n"
			   "}\n"
			   "\n"
			   "launch power(A: f32[N, N], out C: f32[N, N], out D: f32[2, N, N]) {\n"
			   "  let n = M + 1;\n"
			   "  buffer S: f32[N, N];\n"
			   "  buffer T: f32[N * N] layout row(N * N);\n"
			   "  call product(A, A, S);\n"
			   "  for i in repeat(n) {\n"
			   "    if i % 2 == 0 {\n"
			   "      call product(S, A, T);\n"
			   "    } else {\n"
			   "      call product(T, A, S);\n"
			   "    }\n"
			   "  }\n"
			   "  if n % 2 == 0 {\n"
			   "    call scale(S, C) with (M = N * N);\n"
			   "  } else {\n"
			   "    call scale(T, C) with (M = N * N);\n"
			   "  }\n"
			   "  for i in repeat(2) {\n"
			   "    for j in repeat(N) {\n"
			   "      call scale(A[j], D[1 - i, j]) with (M = N);\n"
			   "    }\n"
			   "  }\n"
			   "}\n";

struct job {
	struct twir_module *m;
	const char *text;
	struct twir_binding b;
	const struct twir_data *data;
	struct twir_limits limits;
};

static void go(void *arg)
{
	struct job *j = arg;
	twir_parse(j->m, "test", j->text);
	struct twir_launch *l = j->m->launches.at[0];
	twir_verify_launch(j->m, l, TW_ERR_MODEL);
	int64_t values[] = {2, 5};
	struct twir_var *symbols[2] = {NULL};
	for (int i = 0; i < l->nsymbols; i++)
		symbols[i] = l->symbols[i];
	const struct twir_binding b = {l->nsymbols, symbols, values};
	twir_interpret_launch(j->m, l, &b, j->data, &j->limits);
}

static const char *run(struct tw_arena *a, const char *source, const struct twir_data *data, int64_t steps)
{
	struct job j = {.m = twir_module_new(a), .text = source, .data = data, .limits = {steps}};
	struct tw_error e = {0};
	return tw_try(&e, go, &j) ? NULL : arena_strdup(a, e.text);
}

static void powers(void **state)
{
	(void)state;
	enum { N = 5 };
	struct tw_arena *a = arena_new();
	float x[N * N], c[N * N], d[2 * N * N], want[N * N], next[N * N];
	for (int i = 0; i < N * N; i++)
		x[i] = want[i] = (float)(i % 4) - 1;
	/* M = 2: n = 3 products after the first */
	for (int p = 0; p < 4; p++) {
		for (int i = 0; i < N; i++)
			for (int j = 0; j < N; j++) {
				next[i * N + j] = 0;
				for (int k = 0; k < N; k++)
					next[i * N + j] += want[i * N + k] * x[k * N + j];
			}
		memcpy(want, next, sizeof(want));
	}
	const struct twir_data data[] = {{x, N * N}, {c, N * N}, {d, 2 * N * N}};
	const char *why = run(a, text, data, 0);
	if (why)
		fail_msg("%s", why);
	for (int i = 0; i < N * N; i++) {
		assert_true(c[i] == 2 * want[i]);
		assert_true(d[i] == 2 * x[i] && d[N * N + i] == 2 * x[i]);
	}
	/* the text comes back */
	struct twir_module *m = twir_module_new(a), *again = twir_module_new(a);
	twir_parse(m, "power", text);
	const char *printed = twir_print_module(a, m);
	twir_parse(again, "printed", printed);
	assert_string_equal(printed, twir_print_module(a, again));
	assert_non_null(strstr(printed, "call scale(A[j], D[1 - i, j]) with (M = N);"));
	assert_non_null(strstr(twir_print_launch(a, m->launches.at[0]), "launch power(A: f32[N, N], "));
	assert_ptr_equal(twir_launch_find(m, "power"), m->launches.at[0]);
	assert_int_equal(m->launches.at[0]->nsymbols, 2);
	arena_free(a);
}

#define HEAD                                                                                                           \
	"symbol M, N in 1..64;\n"                                                                                      \
	"program f(X: f32[M], out Y: f32[M]) launch core(M) { Y[core] = X[core] + 1.0; }\n"                            \
	"launch g(A: f32[M], out B: f32[M]) {\n"

static void faults(void **state)
{
	(void)state;
	static const struct {
		const char *text, *why;
	} cases[] = {
		{HEAD "  call h(A, B);\n}\n", "test:4:8: there is no program 'h'"},
		{HEAD "  call f(A);\n}\n", "test:4:11: program 'f' has 2 parameters, not 1"},
		{HEAD "  call f(A, B, B);\n}\n", "test:4:16: program 'f' has 2 parameters"},
		{HEAD "  call f(B, A);\n}\n", "test:4:13: 'A' for parameter 'Y': an input is not written"},
		{HEAD "  buffer T: i32[M];\n  call f(A, T);\n}\n",
		 "test:5:13: 'T' for parameter 'Y': the types differ"},
		{"program f(X: f32[4], out Y: f32[4]) launch core(4) { Y[core] = X[core]; }\n"
		 "launch g(A: f32[5], out B: f32[4]) {\n  call f(A, B);\n}\n",
		 "test:3:10: 'A' for parameter 'X': the sizes differ"},
		{HEAD "  call f(A[0, 1], B);\n}\n", "test:4:10: 'A' for parameter 'X': there are more indices"},
		{HEAD "  call f(A, B) with (N = 3);\n}\n", "test:4:22: program 'f' has no symbol 'N'"},
		{HEAD "  call f(A, B) with (M = 1, M = 2);\n}\n", "test:4:29: symbol 'M' gets two values"},
		{HEAD "  B[0] = 1.0;\n}\n", "test:4:3: a launch function holds let, buffer, for, if and call"},
		{HEAD "  shared T: f32[4];\n}\n", "test:4:3: a launch function holds"},
		{HEAD "  for (i) in spatial(4) on core { }\n}\n", "test:4:3: a launch function holds"},
		{HEAD "  let x = 1.5;\n}\n", "line 4:3: x is no integer"},
		{HEAD "  let x = index(A[0]);\n}\n", "does not read data ('A')"},
		{HEAD "  let x = core;\n}\n", "'core' is known in programs only"},
		{HEAD "  call f(A, A);\n}\n", "an input is not written"},
		{HEAD "  buffer T: f32[M];\n  call f(T, T);\n}\n",
		 "'T' is handed to 'X' and to 'Y', which may not overlap"},
		{HEAD "  buffer T: f32[M];\n  call f(T, B);\n}\n",
		 "line 5:3: call f(T, B);: 'T' is read before a program has written it"},
		{HEAD "  buffer T: f32[M - 1];\n  call f(A, T);\n}\n",
		 "parameter 'Y' has size 2 in dimension 0, 'T' has 1"},
		{HEAD "  buffer T: f32[1 - M];\n  call f(A, B);\n}\n", "'T' has the size -1"},
		{HEAD "  for i in repeat(3) { call f(A[i], B[i]) with (M = 1); }\n}\n",
		 "index 2 is out of bounds of 2"},
		{HEAD "  for i in repeat(4611686018427387904) { }\n}\n", "too many steps"},
		{HEAD "  buffer T: f32[1 << 40];\n}\n", "'T' is too large"},
		{"program f(out Y: f32[4]) { buffer T: f32[4]; }\n",
		 "test:1:28: buffers and calls belong to launch functions"},
		{"program f(out Y: f32[4]) { call g(Y); }\n",
		 "test:1:28: buffers and calls belong to launch functions"},
		{HEAD "}\nlaunch g(A: f32[M]) { }\n", "test:5:8: 'g' is already declared"},
	};
	for (int i = 0; i < TW_COUNT(cases); i++) {
		struct tw_arena *a = arena_new();
		float x[2] = {1, 2}, y[2];
		const char *why = run(a, cases[i].text, (struct twir_data[]){{x, 2}, {y, 2}}, 10000);
		if (!why || !strstr(why, cases[i].why))
			fail_msg("%s\n%s\nshould be: %s", cases[i].text, why ? why : "it runs", cases[i].why);
		arena_free(a);
	}
}

/* A symbol's facts hold for what a call gives it. */
static void facts(void **state)
{
	(void)state;
	struct tw_arena *a = arena_new();
	float x[2] = {1, 2}, y[2];
	const char *why =
		run(a,
		    "symbol M in 4..8 multiple 4;\n"
		    "program f(X: f32[2], out Y: f32[2]) launch core(M) { if core < 2 { Y[core] = X[core]; } }\n"
		    "launch g(A: f32[2], out B: f32[2]) { call f(A, B) with (M = 6); }\n",
		    (struct twir_data[]){{x, 2}, {y, 2}}, 0);
	assert_non_null(why);
	assert_non_null(strstr(why, "symbol 'M' cannot be 6"));
	arena_free(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(powers), cmocka_unit_test(faults), cmocka_unit_test(facts)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
