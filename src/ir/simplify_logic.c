/* simplify_logic: comparisons, and / or / not, with the facts of the place. */
#include "ir/simplify_int.h"

static const struct twirs_mono minus_one = {.k = -1};

const struct twir_expr *twirs_negate(struct twir_module *m, const struct twir_expr *e)
{
	if (e->kind == TWIR_Not)
		return e->arg[0];
	if (e->kind == TWIR_Eq)
		return twir_ne(m, e->arg[0], e->arg[1]);
	if (e->kind == TWIR_Ne)
		return twir_eq(m, e->arg[0], e->arg[1]);
	if ((e->kind == TWIR_Lt || e->kind == TWIR_Le) && twir_is_int((enum twir_scalar)e->arg[0]->type.scalar))
		return twir_binary(m, e->kind == TWIR_Lt ? TWIR_Le : TWIR_Lt, e->arg[1], e->arg[0]);
	return twir_not(m, e);
}

int twirs_known(struct twir_facts *f, const struct twir_expr *cond)
{
	if (f->known.n == 0 || cond->loads)
		return -1;
	const struct twir_expr *not = twirs_negate(f->m, cond);
	for (int k = f->known.n - 1; k >= 0; k--) {
		if (f->known.at[k] == cond)
			return 1;
		if (f->known.at[k] == not )
			return 0;
	}
	return -1;
}

bool twirs_informs(const struct twir_expr *c)
{
	if (c->type.lanes != 1 || c->type.scalar != TWIR_I1)
		return false;
	if (c->kind == TWIR_And || c->kind == TWIR_Or)
		return twirs_informs(c->arg[0]) || twirs_informs(c->arg[1]);
	if (c->kind == TWIR_Not)
		return twirs_informs(c->arg[0]);
	if (c->loads)
		return false;
	return (twir_kind_flags((enum twir_kind)c->kind) & TWIR_F_CMP) && twirs_is_index(c->arg[0]);
}

static const struct twir_expr *truth(struct twir_facts *f, const struct twir_type *type, bool value)
{
	const struct twir_expr *e = twir_bool(f->m, value);
	return type->lanes > 1 ? twir_splat(f->m, e, type->lanes) : e;
}

/* By ranges alone: all integer types and vectors. */
static int by_range(struct twir_facts *f, enum twir_kind k, const struct twir_expr *a, const struct twir_expr *b)
{
	if (a->type.scalar == TWIR_U64)
		return -1;
	const struct twir_range x = twir_range_of(f, a), y = twir_range_of(f, b);
	switch (k) {
	case TWIR_Lt:
		return x.hi < y.lo ? 1 : x.lo >= y.hi ? 0 : -1;
	case TWIR_Le:
		return x.hi <= y.lo ? 1 : x.lo > y.hi ? 0 : -1;
	default: {
		const bool apart = x.hi < y.lo || x.lo > y.hi, same = x.lo == x.hi && y.lo == y.hi && x.lo == y.lo;
		return apart ? k == TWIR_Ne : same ? k == TWIR_Eq : -1;
	}
	}
}

static bool divided(struct twirs_poly *p, bool whole)
{
	int64_t g = 0;
	for (int k = 0; k < p->n; k++)
		g = twirs_gcd(g, p->t[k].k);
	if (g <= 1)
		return true;
	if (whole && p->c % g)
		return false;
	for (int k = 0; k < p->n; k++)
		p->t[k].k /= g;
	p->c = tw_floordiv(p->c, g);
	return true;
}

static void parts(const struct twirs_poly *p, struct twirs_poly *plus, struct twirs_poly *minus)
{
	*plus = *minus = (struct twirs_poly){0};
	for (int k = 0; k < p->n; k++)
		if (p->t[k].k > 0) {
			plus->t[plus->n++] = p->t[k];
		} else {
			minus->t[minus->n] = p->t[k];
			minus->t[minus->n++].k = -p->t[k].k;
		}
}

/* p >= 0 as a comparison: what is subtracted on the left. */
static const struct twir_expr *order(struct twir_module *m, const struct twirs_poly *p)
{
	struct twirs_poly right, left;
	parts(p, &right, &left);
	if (left.n == 0) /* -c <= right as -c - 1 < right */
		return twir_lt(m, twir_index(m, -p->c - 1), twirs_build(m, &right));
	if (right.n == 0 && p->c < INT64_MAX)
		return twir_lt(m, twirs_build(m, &left), twir_index(m, p->c + 1));
	if (p->c == -1)
		return twir_lt(m, twirs_build(m, &left), twirs_build(m, &right));
	if (p->c >= 0)
		right.c = p->c;
	else
		left.c = -p->c;
	return twir_le(m, twirs_build(m, &left), twirs_build(m, &right));
}

static const struct twir_expr *equality(struct twir_module *m, enum twir_kind k, const struct twirs_poly *p)
{
	struct twirs_poly d = *p, right, left;
	const struct twirs_mono minus = twirs_number(-1);
	if (d.t[0].k < 0) {
		d = (struct twirs_poly){0};
		twirs_add(&d, p, &minus);
	}
	parts(&d, &left, &right);
	if (right.n == 0)
		right.c = -d.c;
	else if (d.c > 0)
		left.c = d.c;
	else
		right.c = -d.c;
	return twir_binary(m, k, twirs_build(m, &left), twirs_build(m, &right));
}

static bool extreme(const struct twirs_poly *p)
{
	bool bad = p->c < -INT64_MAX / 2 || p->c > INT64_MAX / 2;
	for (int k = 0; k < p->n; k++)
		bad |= p->t[k].k < -INT64_MAX / 2 || p->t[k].k > INT64_MAX / 2;
	return bad;
}

static const struct twir_expr *compare_index(struct twir_facts *f, enum twir_kind k, const struct twir_expr *a,
					     const struct twir_expr *b)
{
	struct twirs_poly x, y, d;
	twirs_poly_of(a, &x);
	twirs_poly_of(b, &y);
	d = y;
	if (!twirs_add(&d, &x, &minus_one) || extreme(&d))
		return twir_binary(f->m, k, a, b);
	twirs_normalise(f, &d);
	if (k == TWIR_Lt)
		d.c--;
	struct twirs_poly up = {0};
	if (!twirs_add(&up, &d, &minus_one))
		return twir_binary(f->m, k, a, b);
	if (k == TWIR_Lt || k == TWIR_Le) {
		divided(&d, false);
		up.c--;
		if (twirs_nonneg(f, &d))
			return twir_bool(f->m, true);
		if (twirs_nonneg(f, &up))
			return twir_bool(f->m, false);
		return order(f->m, &d);
	}
	const struct twir_range r = twirs_range_poly(f, &d);
	struct twirs_poly terms = d;
	terms.c = 0;
	if (d.n == 0 || r.lo > 0 || r.hi < 0 || d.c % twirs_range_poly(f, &terms).multiple || !divided(&d, true))
		return twir_bool(f->m, (d.n == 0 && d.c == 0) == (k == TWIR_Eq));
	up = (struct twirs_poly){0};
	twirs_add(&up, &d, &minus_one);
	const bool at_least = twirs_nonneg(f, &d), at_most = twirs_nonneg(f, &up);
	if (at_least && at_most)
		return twir_bool(f->m, k == TWIR_Eq);
	struct twirs_poly strict = at_least ? d : up;
	strict.c--;
	if (at_least || at_most) {
		if (twirs_nonneg(f, &strict))
			return twir_bool(f->m, k == TWIR_Ne);
	} else {
		d.c--;
		up.c--;
		if (twirs_nonneg(f, &d) || twirs_nonneg(f, &up))
			return twir_bool(f->m, k == TWIR_Ne);
		d.c++;
	}
	return equality(f->m, k, &d);
}

const struct twir_expr *twirs_compare(struct twir_facts *f, enum twir_kind k, const struct twir_expr *a,
				      const struct twir_expr *b)
{
	const struct twir_type type = twir_vector_type(TWIR_I1, a->type.lanes);
	if (!twir_is_int((enum twir_scalar)a->type.scalar))
		return twir_binary(f->m, k, a, b);
	const int known = by_range(f, k, a, b);
	if (known >= 0)
		return truth(f, &type, known);
	return twirs_is_index(a) ? compare_index(f, k, a, b) : twir_binary(f->m, k, a, b);
}

/* a decided when b holds (or, for `or`, does not)? */
static const struct twir_expr *under(struct twir_facts *f, const struct twir_expr *given, bool holds,
				     const struct twir_expr *e)
{
	if (e->loads || !twirs_informs(given) || f->state->nested > 8)
		return twir_simplify(f, e);
	f->state->nested++;
	twirs_push(f);
	twirs_assume(f, given, holds);
	const struct twir_expr *r = twir_simplify(f, e);
	twirs_pop(f);
	f->state->nested--;
	return r;
}

const struct twir_expr *twirs_and_or(struct twir_facts *f, const struct twir_expr *e)
{
	const bool and = e->kind == TWIR_And;
	const struct twir_expr *a = twir_simplify(f, e->arg[0]);
	int64_t v;
	if (twir_const_int(a, &v))
		return !v == and? a : twir_simplify(f, e->arg[1]);
	const struct twir_expr *b = under(f, a, and, e->arg[1]);
	if (twir_const_int(b, &v))
		return !v == and? b : a;
	const struct twir_expr *again = under(f, b, and, a);
	if (twir_const_int(again, &v))
		return !v == and? again : b;
	if (a == b)
		return a;
	if (twirs_negate(f->m, a) == b)
		return twir_bool(f->m, !and);
	return twir_binary(f->m, (enum twir_kind)e->kind, a, b);
}
