/* simplify: expressions made canonical with the facts of their place (simplify_int.h tells the parts). Input: any
 * expression. Output: an equal one; twir_simplify of it is itself. Index arithmetic is taken not to overflow 64
 * bits. Floats: exact only. */
#include "ir/simplify_int.h"

#define NESTED_CONDS 5 /* conditions assumed one inside another: sides are simplified anew for each */

static const struct twirs_mono one = {.k = 1};

/* A finished polynomial as an expression; one value left: a constant. */
static const struct twir_expr *finish(struct twir_facts *f, struct twirs_poly *p)
{
	twirs_normalise(f, p);
	if (p->n) {
		const struct twir_range r = twirs_range_poly(f, p);
		if (r.lo == r.hi && r.lo != INT64_MIN && r.lo != INT64_MAX)
			return twir_index(f->m, r.lo);
	}
	return twirs_build(f->m, p);
}

static const struct twir_expr *sum(struct twir_facts *f, const struct twir_expr *e, const struct twir_expr *const *arg)
{
	struct twirs_poly a = {0}, b = {0}, r = {0};
	const struct twirs_mono sign = twirs_number(e->kind == TWIR_Add ? 1 : -1);
	bool ok;
	twirs_poly_of(arg[0], &a);
	if (e->n == 2)
		twirs_poly_of(arg[1], &b);
	if (e->kind == TWIR_Mul)
		ok = twirs_mul(&r, &a, &b);
	else if (e->kind == TWIR_Neg)
		ok = twirs_add(&r, &a, &sign);
	else
		ok = twirs_add(&r, &a, &one) && twirs_add(&r, &b, &sign);
	return ok ? finish(f, &r) : twir_with_args(f->m, e, arg);
}

static const struct twir_expr *quotient(struct twir_facts *f, const struct twir_expr *e,
					const struct twir_expr *const *arg)
{
	struct twirs_poly a, b, r, div, mod;
	bool ok;
	twirs_poly_of(arg[0], &a);
	twirs_poly_of(arg[1], &b);
	struct twirs_mono bm;
	twirs_mono_of(&bm, &b, arg[1]);
	if (e->kind == TWIR_Div || e->kind == TWIR_Mod) {
		ok = twirs_divide(f, &a, &b, &div, &mod);
		r = e->kind == TWIR_Div ? div : mod;
	} else {
		ok = twirs_ceil(f, &a, &b, &r);
		if (ok && e->kind == TWIR_Roundup) {
			if (!twirs_positive(f, &bm))
				return twir_with_args(f->m, e, arg);
			div = r;
			ok = twirs_mul(&r, &div, &b);
		}
	}
	return ok ? finish(f, &r) : twir_with_args(f->m, e, arg);
}

static bool at_most(struct twir_facts *f, const struct twir_expr *a, const struct twir_expr *b)
{
	struct twirs_poly p, q;
	const struct twirs_mono minus = twirs_number(-1);
	twirs_poly_of(b, &p);
	twirs_poly_of(a, &q);
	return twirs_add(&p, &q, &minus) && twirs_nonneg(f, &p);
}

static const struct twir_expr *extremum(struct twir_facts *f, enum twir_kind k, const struct twir_expr *a,
					const struct twir_expr *b)
{
	const bool min = k == TWIR_Min;
	int64_t x, y;
	if (at_most(f, a, b))
		return min ? a : b;
	if (at_most(f, b, a))
		return min ? b : a;
	if (twir_const_int(a, &x) || (!twir_const_int(b, &y) && a->id > b->id)) {
		const struct twir_expr *t = a;
		a = b;
		b = t;
	}
	if (a->kind == k && twir_const_int(b, &x) && twir_const_int(a->arg[1], &y)) /* min(min(v, 8), 4) */
		return twir_binary(f->m, k, a->arg[0], twir_index(f->m, min == (x < y) ? x : y));
	return twir_binary(f->m, k, a, b);
}

static const struct twir_expr *index_node(struct twir_facts *f, const struct twir_expr *e,
					  const struct twir_expr *const *arg)
{
	switch (e->kind) {
	case TWIR_Add:
	case TWIR_Sub:
	case TWIR_Mul:
	case TWIR_Neg:
		return sum(f, e, arg);
	case TWIR_Div:
	case TWIR_Mod:
	case TWIR_Ceildiv:
	case TWIR_Roundup:
		return quotient(f, e, arg);
	case TWIR_Min:
	case TWIR_MinNum:
		return extremum(f, TWIR_Min, arg[0], arg[1]);
	case TWIR_Max:
	case TWIR_MaxNum:
		return extremum(f, TWIR_Max, arg[0], arg[1]);
	case TWIR_Abs: {
		const struct twir_range r = twir_range_of(f, arg[0]);
		if (r.lo >= 0)
			return arg[0];
		if (r.hi <= 0)
			return twir_simplify(f, twir_unary(f->m, TWIR_Neg, arg[0]));
		return twir_with_args(f->m, e, arg);
	}
	default:
		return twir_with_args(f->m, e, arg);
	}
}

/* min and max of other integers, where ranges decide. */
static const struct twir_expr *int_extremum(struct twir_facts *f, const struct twir_expr *e,
					    const struct twir_expr *const *arg)
{
	const bool min = e->kind == TWIR_Min || e->kind == TWIR_MinNum;
	if (arg[0] == arg[1])
		return arg[0];
	if (e->type.scalar != TWIR_U64) {
		const struct twir_range a = twir_range_of(f, arg[0]), b = twir_range_of(f, arg[1]);
		if (a.hi <= b.lo)
			return arg[!min];
		if (b.hi <= a.lo)
			return arg[min];
	}
	return twir_with_args(f->m, e, arg);
}

static bool is_one(const struct twir_expr *e)
{
	if (e->kind == TWIR_Splat)
		e = e->arg[0];
	return e->kind == TWIR_Const && twir_is_float((enum twir_scalar)e->type.scalar) && e->u.f == 1;
}

static const struct twir_expr *float_node(struct twir_facts *f, const struct twir_expr *e,
					  const struct twir_expr *const *arg)
{
	if (e->kind == TWIR_Mul && is_one(arg[1]))
		return arg[0];
	if (e->kind == TWIR_Mul && is_one(arg[0]))
		return arg[1];
	if (e->kind == TWIR_Div && is_one(arg[1]))
		return arg[0];
	if (e->kind >= TWIR_Min && e->kind <= TWIR_MaxNum && arg[0] == arg[1])
		return arg[0];
	return twir_with_args(f->m, e, arg);
}

/* to(mid(x)) = x where x has the type `to` and fits mid */
static const struct twir_expr *cast(struct twir_facts *f, const struct twir_expr *e, const struct twir_expr *const *arg)
{
	const struct twir_expr *a = arg[0];
	if (a->kind == TWIR_Cast && twir_is_int((enum twir_scalar)a->type.scalar) &&
	    twir_type_eq(a->arg[0]->type, e->type) && twir_is_int((enum twir_scalar)e->type.scalar) &&
	    a->type.scalar != TWIR_I1 && e->type.scalar != TWIR_U64) {
		const struct twir_range x = twir_range_of(f, a->arg[0]), mid = twir_range_of(f, a);
		const bool wide = a->type.scalar == TWIR_I64 || a->type.scalar == TWIR_INDEX;
		if (wide || (x.lo > INT64_MIN && x.hi < INT64_MAX && x.lo == mid.lo && x.hi == mid.hi &&
			     twir_is_int(e->type.scalar)))
			return a->arg[0];
	}
	return twir_with_args(f->m, e, arg);
}

static const struct twir_expr *choice(struct twir_facts *f, const struct twir_expr *e)
{
	const struct twir_expr *c = twir_simplify(f, e->arg[0]);
	const struct twir_expr *plain = c->kind == TWIR_Splat ? c->arg[0] : c;
	const struct twir_expr *arg[3] = {c, NULL, NULL};
	int64_t v;
	if (twir_const_int(plain, &v))
		return twir_simplify(f, e->arg[v ? 1 : 2]);
	/* a select evaluates both sides: an index must not rely on its condition */
	const bool guarded = e->kind == TWIR_Cond || !(e->arg[1]->loads || e->arg[2]->loads);
	for (int k = 1; k < 3; k++) {
		if (!guarded || !twirs_informs(c) || f->state->nested >= NESTED_CONDS) {
			arg[k] = twir_simplify(f, e->arg[k]);
			continue;
		}
		f->state->nested++;
		twirs_push(f);
		twirs_assume(f, c, k == 1);
		arg[k] = twir_simplify(f, e->arg[k]);
		twirs_pop(f);
		f->state->nested--;
	}
	if (arg[1] == arg[2])
		return arg[1];
	return twir_with_args(f->m, e, arg);
}

/* The axes have their extents as facts inside the body. */
static const struct twir_expr *fold(struct twir_facts *f, const struct twir_expr *e)
{
	struct twir_module *m = f->m;
	const struct twir_expr **arg = ARENA_ARRAY(m->arena, const struct twir_expr *, e->n);
	for (int k = 1; k < e->n; k++)
		arg[k] = twir_simplify(f, e->arg[k]);
	twirs_push(f);
	for (int k = 1; k < e->n; k++) {
		const struct twir_expr *v = twir_var(m, e->u.axes[k - 1]);
		const struct twir_range r = twir_range_of(f, arg[k]);
		twirs_narrow(f, v, 0, r.hi > 0 ? r.hi - 1 : 0);
		if (arg[k]->kind != TWIR_Const && !arg[k]->loads)
			twirs_assume(f, twir_lt(m, v, arg[k]), true);
	}
	arg[0] = twir_simplify(f, e->arg[0]);
	twirs_pop(f);
	return twir_with_args(m, e, arg);
}

static const struct twir_expr *logical(struct twir_facts *f, const struct twir_expr *e,
				       const struct twir_expr *const *arg)
{
	if (e->kind == TWIR_Not)
		return twirs_negate(f->m, arg[0]);
	return twir_with_args(f->m, e, arg);
}

static const struct twir_expr *node(struct twir_facts *f, const struct twir_expr *e)
{
	const enum twir_scalar s = (enum twir_scalar)e->type.scalar;
	if (e->n == 0)
		return e;
	if (e->kind == TWIR_Cond || e->kind == TWIR_Select)
		return choice(f, e);
	if (e->kind == TWIR_Fold)
		return fold(f, e);
	if ((e->kind == TWIR_And || e->kind == TWIR_Or) && s == TWIR_I1 && e->type.lanes == 1)
		return twirs_and_or(f, e);
	const struct twir_expr *few[4];
	const struct twir_expr **arg =
		e->n <= TW_COUNT(few) ? few : ARENA_ARRAY(f->m->arena, const struct twir_expr *, e->n);
	for (int k = 0; k < e->n; k++)
		arg[k] = twir_simplify(f, e->arg[k]);
	if (twir_kind_flags((enum twir_kind)e->kind) & TWIR_F_CMP)
		return twirs_compare(f, (enum twir_kind)e->kind, arg[0], arg[1]);
	if (e->kind == TWIR_Cast)
		return cast(f, e, arg);
	if (e->kind == TWIR_Load || e->kind == TWIR_Gather || e->kind == TWIR_Call || e->kind == TWIR_Bitcast ||
	    e->kind == TWIR_Reduce)
		return twir_with_args(f->m, e, arg);
	if (twirs_is_index(e))
		return index_node(f, e, arg);
	if (s == TWIR_I1)
		return logical(f, e, arg);
	if (twir_is_float(s))
		return float_node(f, e, arg);
	if (e->kind >= TWIR_Min && e->kind <= TWIR_MaxNum)
		return int_extremum(f, e, arg);
	return twir_with_args(f->m, e, arg);
}

/* Results that facts decide as a whole. */
static const struct twir_expr *decided(struct twir_facts *f, const struct twir_expr *e)
{
	if (e->kind == TWIR_Const || e->type.lanes != 1)
		return e;
	if (e->type.scalar == TWIR_I1) {
		const int known = twirs_known(f, e);
		return known >= 0 ? twir_bool(f->m, known) : e;
	}
	if (twirs_is_index(e) && !e->loads) {
		const struct twir_range r = twir_range_of(f, e);
		if (r.lo == r.hi && r.lo != INT64_MIN && r.lo != INT64_MAX)
			return twir_index(f->m, r.lo);
	}
	return e;
}

const struct twir_expr *twir_simplify(struct twir_facts *f, const struct twir_expr *e)
{
	struct twirs_state *s = f->state;
	if (e->kind == TWIR_Const)
		return e;
	if (e->kind == TWIR_Var) {
		map_set_ptr(&s->seen, e->u.var, s);
		const struct twir_expr *by = map_get_ptr(&s->replaced, e->u.var);
		return by ? twir_simplify(f, by) : decided(f, e);
	}
	const struct twir_expr *known = map_get_ptr(&twirs_memo(f)->simple, e);
	if (known)
		return known;
	const struct twir_expr *r = decided(f, node(f, e));
	struct tw_map *memo = &twirs_memo(f)->simple;
	map_set_ptr(memo, e, (void *)(uintptr_t)r);
	if (r != e)
		map_set_ptr(memo, r, (void *)(uintptr_t)r);
	return r;
}

bool twir_prove(struct twir_facts *f, const struct twir_expr *cond)
{
	const struct twir_expr *e = twir_simplify(f, cond);
	int64_t v;
	return twir_const_int(e->kind == TWIR_Splat ? e->arg[0] : e, &v) && v != 0;
}

bool twir_linear_in(struct twir_facts *f, const struct twir_expr *e, const struct twir_var *v,
		    const struct twir_expr **base, int64_t *stride)
{
	const struct twir_expr *s = twir_simplify(f, e);
	struct twirs_poly p;
	if (!twir_uses_var(s, v)) {
		*base = s;
		*stride = 0;
		return true;
	}
	if (!twirs_is_index(s))
		return false;
	twirs_poly_of(s, &p);
	int64_t step = 0;
	for (int k = 0; k < p.n; k++) {
		struct twirs_mono *t = &p.t[k];
		const bool self = t->n == 1 && t->a[0]->kind == TWIR_Var && t->a[0]->u.var == v;
		for (int i = 0; i < t->n && !self; i++)
			if (twir_uses_var(t->a[i], v))
				return false;
		if (self) {
			step = t->k;
			p.n--;
			memmove(t, t + 1, sizeof(*t) * (size_t)(p.n - k));
			k--;
		}
	}
	*base = finish(f, &p);
	*stride = step;
	return true;
}
