/* rooms: base tmap ir */
/* test_simplify.c: the simplifier. Random expressions keep their values under every binding that the facts allow, and simplify to
 * themselves afterwards; each rule has examples, with symbols too. */
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
	static const enum twir_kind ops[] = {TWIR_Add, TWIR_Add, TWIR_Add, TWIR_Sub, TWIR_Sub, TWIR_Mul, TWIR_Mul, TWIR_Mul, TWIR_Div, TWIR_Div,
		TWIR_Div, TWIR_Mod, TWIR_Mod, TWIR_Mod, TWIR_Min, TWIR_Max, TWIR_Ceildiv, TWIR_Roundup};
	if (depth <= 0 || next_random() % 8 == 0) {
		if (next_random() % 2)
			return twir_index(k->m, consts[next_random() % (uint64_t)TW_COUNT(consts)]);
		return twir_var(k->m, k->v.var[next_random() % NVARS]);
	}
	const uint64_t pick = next_random() % 24;
	if (pick == 0)
		return twir_unary(k->m, next_random() % 2 ? TWIR_Neg : TWIR_Abs, make_index(k, depth - 1));
	if (pick <= 2) {
		const struct twir_expr *c = make_cond(k, depth - 1), *a = make_index(k, depth - 1), *b = make_index(k, depth - 1);
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
		print_error("not idempotent under %s\n%s\n%s\n%s\n", twir_print_expr(a, guard), twir_print_expr(a, e), twir_print_expr(a, s),
			twir_print_expr(a, again));
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
		print_error("%lld became %lld (range %lld .. %lld by %lld) at", (long long)want, (long long)got, (long long)range.lo,
			(long long)range.hi, (long long)range.multiple);
		for (int i = 0; i < NVARS; i++)
			print_error(" %s = %lld in %lld .. %lld", k->v.var[i]->name, (long long)k->v.at[i], (long long)b.lo[i], (long long)b.hi[i]);
		print_error("\nunder %s\n%s\n%s\n", twir_print_expr(a, guard), twir_print_expr(a, e), twir_print_expr(a, s));
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_stay),
		cmocka_unit_test(values_stay_under_guards),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
