/* rooms: base tmap ir */
/* test_simplify.c: the simplifier. Random expressions keep their values under every binding that the facts allow,
 * and simplify to themselves afterwards; each rule has examples, with symbols too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "ir/ir.h"

#define UNUSED __attribute__((unused))
#define NVARS  3

static uint64_t seed = 1;

static uint64_t next_random(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static int64_t between(int64_t lo, int64_t hi)
{
	return lo + (int64_t)(next_random() % (uint64_t)(hi - lo + 1));
}

/* An evaluator of its own, by the words of ir.h. Values beyond 2^40 are given up: index arithmetic may not overflow. */
struct values {
	struct twir_var *var[NVARS];
	int64_t at[NVARS];
	bool beyond;
};

static int64_t ceiling(int64_t a, int64_t b)
{
	int64_t q = 0;
	if (b == 0)
		return 0;
	q = a / b;
	if (a % b != 0 && (a < 0) == (b < 0))
		q++;
	return q;
}

static int64_t floored(int64_t a, int64_t b)
{
	int64_t q = 0;
	if (b == 0)
		return 0;
	q = a / b;
	if (a % b != 0 && (a < 0) != (b < 0))
		q--;
	return q;
}

static int64_t value_of(struct values *v, const struct twir_expr *e)
{
	int64_t a[3] = {0}, r = 0;
	if (v->beyond)
		return 0;
	for (int k = 0; k < e->n; k++)
		a[k] = value_of(v, e->arg[k]);
	switch (e->kind) {
	case TWIR_Const:
		r = e->u.i;
		break;
	case TWIR_Var:
		for (int k = 0; k < NVARS; k++)
			if (v->var[k] == e->u.var)
				r = v->at[k];
		break;
	case TWIR_Add:
		r = a[0] + a[1];
		break;
	case TWIR_Sub:
		r = a[0] - a[1];
		break;
	case TWIR_Mul:
		if (llabs(a[0]) > 1 << 20 || llabs(a[1]) > 1 << 20)
			v->beyond = true;
		else
			r = a[0] * a[1];
		break;
	case TWIR_Div:
		r = floored(a[0], a[1]);
		break;
	case TWIR_Mod:
		r = a[1] == 0 ? 0 : a[0] - floored(a[0], a[1]) * a[1];
		break;
	case TWIR_Ceildiv:
		r = ceiling(a[0], a[1]);
		break;
	case TWIR_Roundup:
		r = ceiling(a[0], a[1]) * a[1];
		break;
	case TWIR_Min:
		r = a[0] < a[1] ? a[0] : a[1];
		break;
	case TWIR_Max:
		r = a[0] > a[1] ? a[0] : a[1];
		break;
	case TWIR_Neg:
		r = -a[0];
		break;
	case TWIR_Abs:
		r = llabs(a[0]);
		break;
	case TWIR_Lt:
		r = a[0] < a[1];
		break;
	case TWIR_Le:
		r = a[0] <= a[1];
		break;
	case TWIR_Eq:
		r = a[0] == a[1];
		break;
	case TWIR_Ne:
		r = a[0] != a[1];
		break;
	case TWIR_And:
		r = a[0] & a[1];
		break;
	case TWIR_Or:
		r = a[0] | a[1];
		break;
	case TWIR_Not:
		r = !a[0];
		break;
	case TWIR_Cond:
	case TWIR_Select:
		r = a[0] ? a[1] : a[2];
		break;
	default:
		fail_msg("kind %s", twir_kind_name((enum twir_kind)e->kind));
	}
	if (llabs(r) > (int64_t)1 << 40)
		v->beyond = true;
	return r;
}

struct maker {
	struct twir_module *m;
	struct values v;
};

static const struct twir_expr *make_index(struct maker *k, int depth);

static const struct twir_expr *make_cond(struct maker *k, int depth)
{
	static const enum twir_kind compare[] = {TWIR_Lt, TWIR_Le, TWIR_Eq, TWIR_Ne};
	if (depth > 1 && next_random() % 4 == 0) {
		const struct twir_expr *a = make_cond(k, depth - 1);
		switch (next_random() % 3) {
		case 0:
			return twir_not(k->m, a);
		case 1:
			return twir_and(k->m, a, make_cond(k, depth - 1));
		default:
			return twir_or(k->m, a, make_cond(k, depth - 1));
		}
	}
	const struct twir_expr *a = make_index(k, depth - 1);
	return twir_binary(k->m, compare[next_random() % 4], a, make_index(k, depth - 1));
}

static const struct twir_expr *make_index(struct maker *k, int depth)
{
	static const int64_t consts[] = {0, 1, 2, 3, 4, 5, 7, 8, 12, 16, 32, 48, 96, -1, -2, -8};
	static const enum twir_kind ops[] = {TWIR_Add, TWIR_Add, TWIR_Add, TWIR_Sub, TWIR_Sub,	   TWIR_Mul,
					     TWIR_Mul, TWIR_Mul, TWIR_Div, TWIR_Div, TWIR_Div,	   TWIR_Mod,
					     TWIR_Mod, TWIR_Mod, TWIR_Min, TWIR_Max, TWIR_Ceildiv, TWIR_Roundup};
	if (depth <= 0 || next_random() % 8 == 0) {
		if (next_random() % 2)
			return twir_index(k->m, consts[next_random() % (uint64_t)TW_COUNT(consts)]);
		return twir_var(k->m, k->v.var[next_random() % NVARS]);
	}
	const uint64_t pick = next_random() % 24;
	if (pick == 0)
		return twir_unary(k->m, next_random() % 2 ? TWIR_Neg : TWIR_Abs, make_index(k, depth - 1));
	if (pick <= 2) {
		const struct twir_expr *c = make_cond(k, depth - 1), *a = make_index(k, depth - 1),
				       *b = make_index(k, depth - 1);
		return pick == 1 ? twir_cond(k->m, c, a, b) : twir_select(k->m, c, a, b);
	}
	const enum twir_kind op = ops[next_random() % (uint64_t)TW_COUNT(ops)];
	const struct twir_expr *a = make_index(k, depth - 1);
	const bool divides = op == TWIR_Div || op == TWIR_Mod || op == TWIR_Ceildiv || op == TWIR_Roundup;
	if (divides && next_random() % 2) {
		static const int64_t by[] = {2, 3, 4, 8, 12, 16, 32};
		return twir_binary(k->m, op, a, twir_index(k->m, by[next_random() % (uint64_t)TW_COUNT(by)]));
	}
	return twir_binary(k->m, op, a, make_index(k, depth - 1));
}

struct bounds {
	int64_t lo[NVARS], hi[NVARS];
};

static void pick_bounds(struct bounds *b)
{
	static const int64_t los[] = {0, 0, 0, 1, -5, -40, 3}, widths[] = {0, 1, 3, 7, 15, 31, 100};
	for (int k = 0; k < NVARS; k++) {
		b->lo[k] = los[next_random() % (uint64_t)TW_COUNT(los)];
		b->hi[k] = b->lo[k] + widths[next_random() % (uint64_t)TW_COUNT(widths)];
	}
}

static void pick_values(struct values *v, const struct bounds *b, int round)
{
	for (int k = 0; k < NVARS; k++)
		v->at[k] = round < 8 ? (round >> k & 1 ? b->hi[k] : b->lo[k]) : between(b->lo[k], b->hi[k]);
	v->beyond = false;
}

static void random_case(struct tw_arena *a, struct maker *k, bool guarded)
{
	struct twir_facts f;
	struct bounds b;
	twir_facts_init(&f, k->m);
	pick_bounds(&b);
	for (int i = 0; i < NVARS; i++)
		twir_facts_range(&f, k->v.var[i], b.lo[i], b.hi[i]);
	const struct twir_expr *guard = guarded ? make_cond(k, 3) : twir_bool(k->m, true);
	const bool boolean = next_random() % 4 == 0;
	const struct twir_expr *e = boolean ? make_cond(k, 4) : make_index(k, 4);
	const int mark = twir_facts_assume(&f, guard);
	const struct twir_expr *s = twir_simplify(&f, e);
	const struct twir_expr *again = twir_simplify(&f, s);
	const struct twir_range range = twir_range_of(&f, s);
	if (again != s) {
		print_error("not idempotent under %s\n%s\n%s\n%s\n", twir_print_expr(a, guard), twir_print_expr(a, e),
			    twir_print_expr(a, s), twir_print_expr(a, again));
		fail();
	}
	for (int round = 0; round < 24; round++) {
		pick_values(&k->v, &b, round);
		const int64_t g = value_of(&k->v, guard), want = value_of(&k->v, e);
		if (k->v.beyond || !g)
			continue;
		const int64_t got = value_of(&k->v, s);
		if (k->v.beyond)
			continue;
		const bool inside = got >= range.lo && got <= range.hi && got % range.multiple == 0;
		if (got == want && inside)
			continue;
		print_error("%lld became %lld (range %lld .. %lld by %lld) at", (long long)want, (long long)got,
			    (long long)range.lo, (long long)range.hi, (long long)range.multiple);
		for (int i = 0; i < NVARS; i++)
			print_error(" %s = %lld in %lld .. %lld", k->v.var[i]->name, (long long)k->v.at[i],
				    (long long)b.lo[i], (long long)b.hi[i]);
		print_error("\nunder %s\n%s\n%s\n", twir_print_expr(a, guard), twir_print_expr(a, e),
			    twir_print_expr(a, s));
		fail();
	}
	twir_facts_forget(&f, mark);
}

static void random_cases(int count, bool guarded)
{
	static const char *names[NVARS] = {"a", "b", "c"};
	for (int done = 0; done < count; done += 500) {
		struct tw_arena *a = arena_new();
		struct maker k = {.m = twir_module_new(a)};
		for (int i = 0; i < NVARS; i++)
			k.v.var[i] = twir_var_new(k.m, TWIR_BOUND, twir_scalar_type(TWIR_INDEX), names[i]);
		for (int n = 0; n < 500; n++)
			random_case(a, &k, guarded);
		arena_free(a);
	}
}

static void values_stay(void **state UNUSED)
{
	seed = 88172645463325252u;
	random_cases(150000, false);
}

static void values_stay_under_guards(void **state UNUSED)
{
	seed = 362436069u;
	random_cases(50000, true);
}

/* A program of a text, simplified. */
struct job {
	struct tw_arena *a;
	const char *text;
	struct twir_module *m;
};

static void do_simplify(void *arg)
{
	struct job *j = arg;
	j->m = twir_module_new(j->a);
	twir_parse(j->m, "test", j->text);
	struct twir_program *p = j->m->programs.at[0];
	twir_verify_program(j->m, p, TW_ERR_MODEL);
	twir_simplify_program(j->m, p);
	twir_verify_program(j->m, p, TW_ERR_INTERNAL);
}

static struct job simplified(struct tw_arena *a, const char *text)
{
	struct job j = {.a = a, .text = text};
	struct tw_error e;
	if (!tw_try(&e, do_simplify, &j)) {
		print_error("%s\n%s\n", e.text, text);
		fail();
	}
	return j;
}

static void find_store(void *arg, const struct twir_stmt *s)
{
	if (s->kind == TWIR_STORE)
		*(const struct twir_stmt **)arg = s;
}

struct rule {
	const char *around; /* statements around, each brace is closed */
	const char *before, *after;
};

static void check_rules(const char *launch, const struct rule *rules, int n, const char *type)
{
	int wrong = 0;
	for (int k = 0; k < n; k++) {
		struct tw_arena *a = arena_new();
		struct tw_buf b;
		buf_init(&b, a);
		buf_printf(&b,
			   "symbol M, N, K, P in 1..1000, Q multiple 32;\nprogram p(A: f32[4096], I: i32[64], out O: "
			   "%s[1]) launch %s {\n",
			   type, launch);
		buf_printf(&b, "%s O[0] = %s;", rules[k].around, rules[k].before);
		for (const char *c = rules[k].around; *c; c++)
			if (*c == '{')
				buf_puts(&b, " }");
		buf_puts(&b, "\n}\n");
		struct job j = simplified(a, b.at);
		const struct twir_stmt *s = NULL;
		twir_visit_block(j.m->programs.at[0]->body, find_store, NULL, &s);
		assert_non_null(s);
		const char *got = twir_print_expr(a, s->u.store.value);
		if (strcmp(got, rules[k].after) != 0) {
			print_error("%s\n  is  %s\n not  %s\n", b.at, got, rules[k].after);
			wrong++;
		}
		arena_free(a);
	}
	assert_int_equal(wrong, 0);
}

#define X   "for x in repeat(N) {"
#define IJ  "for i in repeat(M) { for j in repeat(N) {"
#define I16 "for x in repeat(N) { for i in repeat(16) {"

static const struct rule index_rules[] = {
	/* a quotient and its remainder */
	{X, "x / 16 * 16 + x % 16", "x"},
	{X, "M + 3 * (x % 16) - 2 + 48 * (x / 16)", "M + x * 3 - 2"},
	{X, "x / 12 * (12 * K) + x % 12 * K", "x * K"},
	{X, "x - x / 16 * 16", "x % 16"},
	{X, "x / 32 * 32 + x / 8 % 4 * 8 + x % 8", "x"},
	{X, "x / 8 % 4 * 8 + x % 8", "x % 32"},
	{X, "(x / 4) / 8", "x / 32"},
	{X, "x % 32 / 8", "x / 8 % 4"},
	{X, "x % 32 % 8", "x % 8"},
	{X, "(x * 3 + 32 * M + 7) % 32", "(x * 3 + 7) % 32"},
	{X, "(64 * x + 33) / 32", "x * 2 + 1"},
	{X, "(64 * x - 1) / 32", "x * 2 - 1"},
	{X, "(64 * x - 1) % 32", "31"},
	/* ranges */
	{I16, "(16 * x + i) / 16", "x"},
	{I16, "(16 * x + i) % 16", "i"},
	{I16, "(16 * x + i) / 32", "x / 2"},
	{I16, "(16 * x + i) % 32", "i + x % 2 * 16"},
	{I16, "(i + 32 * x) / 8", "x * 4 + i / 8"},
	{I16, "i / 16", "0"},
	{I16, "(i + 16) / 16", "1"},
	{I16, "min(i, 15) + max(i, 0) + min(i, 0)", "i * 2"},
	{I16, "i * 0 + i / 17 * x", "0"},
	/* symbols */
	{X, "x % N", "x"},
	{X, "x / N", "0"},
	{IJ, "(i * N + j) / N", "i"},
	{IJ, "(N * i + j) % N", "j"},
	{IJ, "(K * (M * N) + i * N + j) / (M * N)", "K"},
	{IJ, "(K * (M * N) + i * N + j) % (M * N) / N", "i"},
	{IJ, "(i * (N + 1) + j) / (N + 1)", "i"},
	{IJ, "(i * (N + 1) + j) % (N + 1)", "j"},
	{IJ, "min(i, M - 1) + min(j + 1, N)", "i + j + 1"},
	{"", "N / M * 0 + Q % 32 + Q % 16", "0"},
	{"", "Q / 32 * 32", "Q"},
	{"", "ceil_div(Q, 16) * 16", "Q"},
	{"", "P / P + P % P", "1"},
	{"", "N / N", "N / N"}, /* N may be 0 */
	/* ceil_div, round_up */
	{"", "ceil_div(16 * N, 16)", "N"},
	{"", "ceil_div(16 * N + 17, 16)", "N + 2"},
	{"", "round_up(N, 16)", "ceil_div(N, 16) * 16"},
	{"", "ceil_div(ceil_div(N, 4), 8)", "ceil_div(N, 32)"},
	{"", "ceil_div(4 * N + 2, 8)", "ceil_div(N + 1, 2)"},
	{X, "ceil_div(x, N)", "ceil_div(x, N)"},
	{X, "ceil_div(x + 1, N)", "1"},
	/* sums */
	{X, "3 * x + 4 * x - (x + 5) + M + 7", "x * 6 + M + 2"},
	{X, "(M + 1) * (x - 1)", "M * x + x - M - 1"},
	{X, "-x + 5 - M", "5 - x - M"},
	{X, "min(min(x, 9), 7)", "min(x, 7)"},
	{X, "max(N - x, 1)", "N - x"},
	{X, "x < N ? x : M", "x"},
	{X, "x < 4 ? min(x, 3) : max(x, 4)", "x"},
	{X, "I[x] < 4i32 ? x + 0 : x", "x"},
	{X, "index(i32(min(x, 100)))", "min(x, 100)"},
/* symbolic widths: x = oh * W + ow and back, W a sum too (convolutions without padding) */
#define XW "for x in repeat(M * (N - 2)) {"
	{"for x in repeat(M * N) {", "(x / N + K) * N + x % N - 1", "N * K + x - 1"},
	{"for x in repeat(M * N * 2) {", "x / (2 * N) * 2 * N * K + x % (2 * N) * K", "x * K"},
	{XW, "x / (N - 2) * (N - 2) + x % (N - 2)", "x"},
	{XW, "x / (N - 2) * (N - 2) * K + x % (N - 2) * K", "x * K"},
	{XW, "(x / (N - 2) + 1) * (N - 2) + x % (N - 2)", "N + x - 2"},
	{XW, "x + x / (N - 2) * 2 - N * (x / (N - 2))", "x % (N - 2)"},
	{"for x in repeat(M * (N + 1)) { for r in repeat(3) {", "(x / (N + 1) + r - 1) * (N + 1) + (x % (N + 1) + r)",
	 "N * r + x + r * 2 - N - 1"},
	{"for x in repeat(M * ((N - 3) / 2 + 1)) {",
	 "x / ((N - 3) / 2 + 1) * ((N - 3) / 2 + 1) + x % ((N - 3) / 2 + 1)", "x"},
	{"for x in repeat(K * M * (N - 2)) {",
	 "x / (M * (N - 2)) * M * (N - 2) + x / (N - 2) % M * (N - 2) + x % (N - 2)", "x"},
	{"for x in repeat(K * M * (N - 2)) {",
	 "x / (M * (N - 2)) * M * (N - 2) + x % (M * (N - 2)) / (N - 2) * (N - 2) + x % (N - 2)", "x"},
	{"for i in repeat(M) { for j in repeat(N - 2) {", "((K * M + i) * (N - 2) + j) / (M * (N - 2))", "K"},
	{"for i in repeat(M) { for j in repeat(N - 2) {", "((K * M + i) * (N - 2) + j) % (M * (N - 2)) / (N - 2)", "i"},
	{"for i in repeat(M) { for j in repeat(N - 2) {", "((K * M + i) * (N - 2) + j) % (M * (N - 2)) % (N - 2)", "j"},
	{"for t in repeat(ceil_div(M * (N - 2), 16)) { for i in repeat(16) { if 16 * t + i < M * (N - 2) {",
	 "(16 * t + i) / (N - 2) * (N - 2) + (16 * t + i) % (N - 2)", "t * 16 + i"},
	/* the width may be 0 or less: x / 0 * 0 + x % 0 is 0 */
	{X, "x / (M - 2) * (M - 2) + x % (M - 2)", "M * (x / (M - 2)) + x % (M - 2) - x / (M - 2) * 2"},
	{"let y = 32 * M; let z = y + 64; " X, "(z + x) / 32 * 32 + (x + z) % 32 - z", "x"},
};

static const struct rule bool_rules[] = {
	{X, "x < N", "true"},
	{X, "x + 1 <= N", "true"},
	{X, "0 <= x and x < N", "true"},
	{X, "x >= N or x < 0", "false"},
	{X, "x + M < N + M", "true"},
	{X, "x == N", "false"},
	{X, "2 * x == 2 * M + 1", "false"},
	{X, "x + 3 <= M + 2", "x < M"},
	{X, "4 * x < 4 * M + 3", "x <= M"},
	{X, "not (x < M)", "M <= x"},
	{X, "x < 10 and x < 5", "x < 5"},
	{X, "x < M and x < M + 1", "x < M"},
	{X, "x < 5 or x < 10", "x < 10"},
	{X, "x < M and M <= x", "false"},
	{X, "Q + 32 <= 40 and Q != 0", "false"},
	{IJ, "i * N + j < M * N", "true"},
	{IJ, "0 <= i * N + j", "true"},
	{"if N > 3 { " X, "N + x > 3", "true"},
	{"if K + 16 <= N { for i in repeat(16) {", "K + i < N", "true"},
	{"if not (M < 5) {", "M >= 5", "true"},
	{"let e = N - 1; for i in repeat(min(8, N)) {", "i <= e", "true"},
	{"for b in repeat(ceil_div(N, 32)) {", "32 * b < N", "true"},
	{"for b in repeat(ceil_div(N, 32)) { for i in repeat(min(32, N - 32 * b)) {", "32 * b + i < N", "true"},
	{"for b in repeat(N / 32) { for i in repeat(32) {", "32 * b + i < N", "true"},
	{"for i in repeat(M) { for j in repeat(N - 2) {", "i * (N - 2) + j < M * (N - 2)", "true"},
	{"for i in repeat(M) { for j in repeat(N - 2) {", "M * (N - 2) >= 1", "true"},
	{"for b in repeat(max(1, ceil_div(N, 32))) { ", "b < N", "b < N"},
};

static const struct rule launch_rules[] = {
	{"", "core / ceil_div(N, 256)", "core / ceil_div(N, 256)"},
	{"", "min(core / ceil_div(N, 256), ceil_div(M, 96) - 1)", "core / ceil_div(N, 256)"},
	{"", "core % ceil_div(N, 256) + core / ceil_div(N, 256) * ceil_div(N, 256)", "core"},
	{"", "min(256, N - core % ceil_div(N, 256) * 256 + 256)", "256"},
	{"", "max(N - core % ceil_div(N, 256) * 256, 1)", "N - core % ceil_div(N, 256) * 256"},
};

static void rules_of_sums(void **state UNUSED)
{
	check_rules("core(1)", index_rules, TW_COUNT(index_rules), "index");
}

static void rules_of_conditions(void **state UNUSED)
{
	check_rules("core(1)", bool_rules, TW_COUNT(bool_rules), "i1");
}

static void facts_of_the_launch(void **state UNUSED)
{
	check_rules("core(ceil_div(M, 96) * ceil_div(N, 256)), lane(16)", launch_rules, TW_COUNT(launch_rules),
		    "index");
}

static void floats_stay_exact(void **state UNUSED)
{
	static const struct rule rules[] = {
		{"", "A[0] * 1.0 + A[1] / 1.0", "A[0] + A[1]"},
		{"", "A[0] + 0.0", "A[0] + 0.0"},
		{"", "A[0] * 0.0", "A[0] * 0.0"},
		{"", "A[0] - A[0]", "A[0] - A[0]"},
		{"", "A[0] == A[0] ? 1.0 : 0.0", "A[0] == A[0] ? 1.0 : 0.0"},
		{"", "not (A[0] < 1.0) ? 1.0 : 0.0", "not (A[0] < 1.0) ? 1.0 : 0.0"},
		{"", "max(A[3], A[3])", "A[3]"},
		{X, "x < N ? A[x % N] : A[0]", "A[x]"},
		/* a select loads both sides: an index must not rely on its condition */
		{X, "select(x < 4096, A[min(x, 4095)], 0.0)", "select(x < 4096, A[min(x, 4095)], 0.0)"},
		{X, "x < 4096 ? A[min(x, 4095)] : 0.0", "x < 4096 ? A[x] : 0.0"},
	};
	check_rules("core(1)", rules, TW_COUNT(rules), "f32");
}

static void check_body(const char *before, const char *after)
{
	static const char head[] =
		"symbol N;\n\nprogram p(A: f32[N], out B: f32[N])\n  launch core(ceil_div(N, 16)), lane(16)\n{\n";
	struct tw_arena *a = arena_new();
	struct job j = simplified(a, arena_printf(a, "%s%s}\n", head, before));
	const char *got = twir_print_program(a, j.m, j.m->programs.at[0]);
	assert_string_equal(got, arena_printf(a, "%s%s}\n", head, after));
	arena_free(a);
}

static void statements(void **state UNUSED)
{
	/* the launch says that there is work: N is not 0 */
	check_body("  let unused = A[0]; let n = N; let two = 2;\n for i in repeat(1) { for k in repeat(0) { B[k] = "
		   "0.0; }\n"
		   "  if i < n { B[i + two] = 1.0; } }",
		   "  B[2] = 1.0;\n");
	check_body("  if core * 16 < N { B[0] = A[0]; } else { B[1] = A[1]; }", "  B[0] = A[0];\n");
	check_body("  if A[0] < 1.0 { } else { B[0] = 1.0; }", "  if not (A[0] < 1.0) {\n    B[0] = 1.0;\n  }\n");
	check_body("  if core < 5 { let x = A[0]; } \n shared s: f32[16]; B[0] = 1.0;", "  B[0] = 1.0;\n");
	check_body("  for (i, j) in repeat(1, 1) { B[i + j] = 1.0; }", "  B[0] = 1.0;\n");
	check_body("  for (i) in spatial(ceil_div(N, 16)) * spatial(16) on (core, lane) within (N) { if i < N { B[i] = "
		   "A[min(i, N - 1)]; } }",
		   "  for (i) in spatial(ceil_div(N, 16)) * spatial(16) on (core, lane) within (N) {\n    B[i] = "
		   "A[i];\n  }\n");
	check_body("  for (i) in spatial(ceil_div(N, 16)) on core within (N) { B[i] = 1.0; }",
		   "  for (i) in spatial(ceil_div(N, 16)) on core {\n    B[i] = 1.0;\n  }\n");
	check_body("  specialise core * 16 + 16 <= N { for k in repeat(min(16, N - 16 * core)) { B[16 * core + k] = "
		   "1.0; } }",
		   "  specialise core * 16 + 16 <= N {\n    for k in repeat(min(N - core * 16, 16)) {\n      B[core * "
		   "16 + k] = 1.0;\n    }\n  }\n");
	check_body(
		"  if core * 16 + 16 <= N { for k in repeat(min(16, N - 16 * core)) { B[16 * core + k] = 1.0; } }",
		"  if core * 16 + 16 <= N {\n    for k in repeat(16) {\n      B[core * 16 + k] = 1.0;\n    }\n  }\n");
}

static void linear(void **state UNUSED)
{
	struct tw_arena *a = arena_new();
	struct twir_module *m = twir_module_new(a);
	struct twir_facts f;
	const struct twir_type index = twir_scalar_type(TWIR_INDEX);
	struct twir_var *v = twir_var_new(m, TWIR_LOOP, index, "v"), *w = twir_var_new(m, TWIR_LOOP, index, "w");
	const struct twir_expr *x = twir_var(m, v), *y = twir_var(m, w), *n = twir_var(m, twir_symbol(m, "N")), *base;
	int64_t stride;
	twir_facts_init(&f, m);
	twir_facts_range(&f, v, 0, 15);
	const struct twir_expr *e =
		twir_add(m, twir_mul(m, twir_add(m, x, y), n), twir_sub(m, twir_mul(m, x, twir_index(m, 3)), y));
	assert_false(twir_linear_in(&f, e, v, &base, &stride)); /* the stride is N + 3 */
	e = twir_sub(m, e, twir_mul(m, n, x));
	assert_true(twir_linear_in(&f, e, v, &base, &stride));
	assert_int_equal(stride, 3);
	assert_ptr_equal(base, twir_simplify(&f, twir_sub(m, twir_mul(m, y, n), y)));
	e = twir_div(m, twir_add(m, twir_mul(m, y, twir_index(m, 16)), x), twir_index(m, 16));
	assert_true(twir_linear_in(&f, e, v, &base, &stride)); /* = w */
	assert_int_equal(stride, 0);
	assert_ptr_equal(base, y);
	e = twir_mod(m, twir_add(m, x, y), n);
	assert_false(twir_linear_in(&f, e, v, &base, &stride));
	arena_free(a);
}

static void facts_come_and_go(void **state UNUSED)
{
	struct tw_arena *a = arena_new();
	struct twir_module *m = twir_module_new(a);
	struct twir_facts f;
	const struct twir_expr *n = twir_var(m, twir_symbol(m, "N")), *k = twir_var(m, twir_symbol(m, "K"));
	const struct twir_expr *less = twir_lt(m, k, n), *five = twir_index(m, 5);
	twir_facts_init(&f, m);
	assert_false(twir_prove(&f, less));
	const int outer = twir_facts_assume(&f, twir_le(m, n, five));
	assert_int_equal(twir_range_of(&f, n).hi, 5);
	const int inner = twir_facts_assume(&f, less);
	assert_true(twir_prove(&f, less));
	assert_true(twir_prove(&f, twir_lt(m, k, five)));
	assert_false(twir_prove(&f, twir_lt(m, k, twir_index(m, 4))));
	twir_facts_forget(&f, inner);
	assert_false(twir_prove(&f, less));
	assert_int_equal(twir_range_of(&f, n).hi, 5);
	twir_facts_forget(&f, outer);
	assert_int_equal(twir_range_of(&f, n).hi, INT64_MAX);
	/* a worker below a product: no factor is 0 */
	const struct twir_expr *h = twir_div(m, n, twir_index(m, 2)), *w = twir_div(m, k, twir_index(m, 2));
	const struct twir_expr *core = twir_worker(m, TWIR_CORE), *area = twir_mul(m, h, w);
	const struct twir_expr *whole = twir_add(m, twir_mul(m, twir_div(m, core, w), w), twir_mod(m, core, w));
	assert_ptr_not_equal(twir_simplify(&f, whole), core);
	(void)twir_facts_assume(&f, twir_lt(m, core, twir_mul(m, n, twir_ceildiv(m, area, twir_index(m, 32)))));
	assert_true(twir_prove(&f, twir_lt(m, twir_index(m, 0), w)));
	assert_true(twir_prove(&f, twir_lt(m, twir_index(m, 1), k)));
	assert_ptr_equal(twir_simplify(&f, whole), core);
	arena_free(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rules_of_sums),
		cmocka_unit_test(rules_of_conditions),
		cmocka_unit_test(facts_of_the_launch),
		cmocka_unit_test(floats_stay_exact),
		cmocka_unit_test(statements),
		cmocka_unit_test(linear),
		cmocka_unit_test(facts_come_and_go),
		cmocka_unit_test(values_stay),
		cmocka_unit_test(values_stay_under_guards),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
