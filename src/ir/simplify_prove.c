/* simplify_prove: does a polynomial stay at or above zero? First by the ranges of its terms; then min, max,
 * conditionals and quotients are resolved by what defines them, and facts (polynomials known to be >= 0) are
 * subtracted, scaled so that a term cancels. Each step spends from a budget, so it ends; giving up means "not
 * proved". */
#include "ir/simplify_int.h"

#define BUDGET 16 /* all but a few in a thousand proofs of real programs take fewer steps */
#define DEPTH  5

/* What an atom's own definition says: polynomials >= 0. */
struct definition {
	const struct twir_expr *atom;
	int n;
	struct twirs_poly q[2];
};

#define DEFINITIONS 6

struct proof {
	struct twir_facts *f;
	int budget, nseen, ndefs;
	uint64_t seen[BUDGET + 1];	    /* hashes of what was tried: facts are subtracted in any order */
	struct definition def[DEFINITIONS]; /* most steps ask for the same ones; more are not kept */
};

/* Terms of a polynomial that have no lower bound. A sum that has one left has none either. */
struct loose {
	int n, at[TWIRS_TERMS];
};

static bool is_new(struct proof *s, const struct twirs_poly *p)
{
	const uint64_t h = twirs_hash(p);
	for (int k = 0; k < s->nseen; k++)
		if (s->seen[k] == h)
			return false;
	if (s->nseen < TW_COUNT(s->seen))
		s->seen[s->nseen++] = h;
	return true;
}

static bool prove(struct proof *s, const struct twirs_poly *p, int depth);

static bool is_quotient(const struct twir_expr *e)
{
	return e->kind == TWIR_Div || e->kind == TWIR_Ceildiv || e->kind == TWIR_Mod;
}

/* p with the term's atom replaced: p - term + rest * q */
static bool replaced(const struct twirs_poly *p, int term, const struct twirs_mono *rest, const struct twirs_poly *q,
		     struct twirs_poly *r)
{
	struct twirs_mono t = p->t[term];
	if (t.k == INT64_MIN)
		return false;
	t.k = -t.k;
	*r = *p;
	return twirs_add_mono(r, &t) && twirs_add(r, q, rest);
}

/* Sign of a product: 1 never below zero, -1 never above, 0 unknown. */
static int sign_of(struct twir_facts *f, const struct twirs_mono *t)
{
	const struct twir_range r = twirs_range_mono(f, t);
	return r.lo >= 0 ? 1 : r.hi <= 0 ? -1 : 0;
}

static bool try_with(struct proof *s, const struct twirs_poly *p, int term, const struct twirs_mono *rest,
		     const struct twir_expr *e, int depth)
{
	struct twirs_poly q, r;
	twirs_poly_of(e, &q);
	return replaced(p, term, rest, &q, &r) && prove(s, &r, depth - 1);
}

static bool by_choice(struct proof *s, const struct twirs_poly *p, int term, const struct twirs_mono *rest,
		      const struct twir_expr *e, int depth)
{
	const int sign = sign_of(s->f, rest);
	const struct twir_expr *a = e->arg[e->n - 2], *b = e->arg[e->n - 1];
	const bool max = e->kind == TWIR_Max || e->kind == TWIR_MaxNum,
		   min = e->kind == TWIR_Min || e->kind == TWIR_MinNum;
	if ((max && sign > 0) || (min && sign < 0))
		return try_with(s, p, term, rest, a, depth) || try_with(s, p, term, rest, b, depth);
	return try_with(s, p, term, rest, a, depth) && try_with(s, p, term, rest, b, depth);
}

/* r - x / c >= 0  is  x < c * (r + 1);   r + x / c >= 0  is  x + c * r >= 0;   ceil_div likewise. */
static bool by_quotient(struct proof *s, const struct twirs_poly *p, int term, const struct twir_expr *e, int depth)
{
	struct twirs_poly r = *p, x, c, all;
	struct twirs_mono t = p->t[term];
	const bool plus = t.k == 1, ceil = e->kind == TWIR_Ceildiv;
	const struct twirs_mono one = twirs_number(1), minus = twirs_number(-1);
	t.k = -t.k;
	twirs_poly_of(e->arg[0], &x);
	twirs_poly_of(e->arg[1], &c);
	if (twirs_range_poly(s->f, &c).lo < 1 || !twirs_add_mono(&r, &t))
		return false;
	const int64_t extra = plus == ceil;
	if (__builtin_add_overflow(r.c, extra, &r.c) || !twirs_mul(&all, &r, &c) ||
	    !twirs_add(&all, &x, plus ? &one : &minus) || __builtin_sub_overflow(all.c, extra, &all.c))
		return false;
	return prove(s, &all, depth - 1);
}

static bool by_structure(struct proof *s, const struct twirs_poly *p, int depth)
{
	for (int k = 0; k < p->n; k++) {
		const struct twirs_mono *t = &p->t[k];
		for (int i = 0; i < t->n; i++) {
			const struct twir_expr *e = t->a[i];
			struct twirs_mono rest;
			twirs_mono_without(&rest, t, i);
			switch (e->kind) {
			case TWIR_Min:
			case TWIR_Max:
			case TWIR_MinNum:
			case TWIR_MaxNum:
			case TWIR_Cond:
			case TWIR_Select:
				return by_choice(s, p, k, &rest, e, depth);
			case TWIR_Div:
			case TWIR_Ceildiv:
				if (t->n == 1 && (t->k == 1 || t->k == -1) && by_quotient(s, p, k, e, depth))
					return true;
				break;
			default:
				break;
			}
		}
	}
	return false;
}

/* Has each loose term of p one of by * q with the same atoms? */
static bool meets_loose(const struct twirs_poly *p, const struct loose *l, const struct twirs_poly *q,
			const struct twirs_mono *by)
{
	for (int k = 0; k < l->n; k++) {
		const struct twirs_mono *t = &p->t[l->at[k]];
		bool met = false;
		for (int i = 0; i < q->n && !met; i++) {
			struct twirs_mono product;
			if (q->t[i].n + by->n != t->n)
				continue;
			met = by->n == 0 ? twirs_mono_same(&q->t[i], t)
					 : !twirs_mono_mul(&product, &q->t[i], by) || twirs_mono_same(&product, t);
		}
		if (!met && (q->c == 0 || !twirs_mono_same(by, t))) /* nor its number */
			return false;
	}
	return true;
}

/* Are a's atoms among b's? */
static bool is_part(const struct twirs_mono *a, const struct twirs_mono *b)
{
	int j = 0;
	for (int i = 0; i < b->n && j < a->n; i++)
		j += b->a[i] == a->a[j];
	return j == a->n;
}

/* p = scale * p - by * q >= 0 for some q >= 0 and by >= 0 that cancels a term of p with that sign? loose: of p, where
 * ranges have to decide what is left (depth 1). */
static bool by_fact(struct proof *s, const struct twirs_poly *p, const struct loose *loose, const struct twirs_poly *q,
		    bool negative, int depth)
{
	if (loose && loose->n > q->n + 1)
		return false;
	for (int i = 0; i < q->n; i++)
		for (int k = 0; k < p->n; k++) {
			const struct twirs_mono *tq = &q->t[i], *tp = &p->t[k];
			if ((tq->k < 0) != negative || (tp->k < 0) != negative || tq->n > tp->n || tq->k == INT64_MIN ||
			    tp->k == INT64_MIN || !is_part(tq, tp))
				continue;
			struct twirs_mono part = *tq, by;
			part.k = 1;
			if (!twirs_mono_div(&by, tp, &part))
				continue;
			by.k = 1;
			if (loose && !meets_loose(p, loose, q, &by))
				continue;
			if (by.n && sign_of(s->f, &by) < 1)
				continue;
			const int64_t kp = negative ? -tp->k : tp->k, kq = negative ? -tq->k : tq->k,
				      g = twirs_gcd(kp, kq);
			const struct twirs_mono scale = twirs_number(kq / g);
			struct twirs_poly r;
			r.n = 0;
			r.c = 0;
			by.k = -(kp / g);
			if (!twirs_add(&r, p, &scale) || !twirs_add(&r, q, &by))
				continue;
			if (prove(s, &r, depth - 1))
				return true;
			if (s->budget < 0)
				return false;
		}
	return false;
}

/* e >= .. and e <= .. as polynomials >= 0. */
static int facts_of_atom(struct proof *s, const struct twir_expr *e, struct twirs_poly q[2])
{
	struct twirs_poly x, c, product;
	const struct twirs_mono atom = twirs_atom(e), one = twirs_number(1), minus = twirs_number(-1);
	struct twirs_poly self = {.n = 1, .t = {atom}};
	twirs_poly_of(e->arg[0], &x);
	twirs_poly_of(e->arg[1], &c);
	if (twirs_range_poly(s->f, &c).lo < 1)
		return 0;
	if (e->kind == TWIR_Mod) { /* c - 1 - x % c, and x - x % c where x >= 0 */
		q[0] = c;
		q[1] = x;
		return twirs_add(&q[0], &self, &minus) && !__builtin_sub_overflow(q[0].c, 1, &q[0].c) &&
				       twirs_add(&q[1], &self, &minus)
			       ? 1 + (twirs_range_poly(s->f, &x).lo >= 0)
			       : 0;
	}
	if (!twirs_mul(&product, &self, &c))
		return 0;
	const bool ceil = e->kind == TWIR_Ceildiv; /* x - c*e and c*e + c - 1 - x; the ceiling's signs are turned */
	struct twirs_poly *below = &q[0], *above = &q[1];
	*below = x;
	*above = c;
	if (!twirs_add(below, &product, &minus) || __builtin_sub_overflow(above->c, 1, &above->c))
		return 0;
	if (!ceil)
		return twirs_add(above, &product, &one) && twirs_add(above, &x, &minus) ? 2 : 0;
	if (!twirs_add(above, &x, &one) || !twirs_add(above, &product, &minus))
		return 0;
	*below = product;
	return twirs_add(below, &x, &minus) ? 2 : 0;
}

static const struct definition *definition_of(struct proof *s, const struct twir_expr *e, struct definition *other)
{
	for (int k = 0; k < s->ndefs; k++)
		if (s->def[k].atom == e)
			return &s->def[k];
	struct definition *d = s->ndefs < DEFINITIONS ? &s->def[s->ndefs++] : other;
	d->atom = e;
	d->n = facts_of_atom(s, e, d->q);
	return d;
}

/* Negative terms must go; positive ones are traded only where that does not help. */
static bool by_facts(struct proof *s, const struct twirs_poly *p, const struct loose *loose, bool negative, int depth)
{
	const struct twirs_state *state = s->f->state;
	uint64_t atoms = 0;
	for (int k = 0; k < p->n; k++)
		for (int i = 0; i < p->t[k].n && (p->t[k].k < 0) == negative; i++)
			atoms |= twirs_bit(p->t[k].a[i]);
	for (int k = state->facts.n - 1; k >= 0 && s->budget > 0; k--)
		if ((state->facts.at[k].terms[negative] & atoms) &&
		    by_fact(s, p, loose, state->facts.at[k].p, negative, depth))
			return true;
	for (int k = 0; k < p->n && s->budget > 0; k++)
		for (int i = 0; i < p->t[k].n; i++) {
			struct definition other;
			if (!is_quotient(p->t[k].a[i]))
				continue;
			const struct definition *d = definition_of(s, p->t[k].a[i], &other);
			for (int j = 0; j < d->n; j++)
				if (by_fact(s, p, loose, &d->q[j], negative, depth))
					return true;
		}
	return false;
}

/* p = c*v + r is least where v is: at a bound below, v >= L, when c >= 0, at one above, U >= v, when c <= 0. For sums
 * c; a single term needs no such rule. */
static bool by_extreme_of(struct proof *s, const struct twirs_poly *p, const struct twir_expr *v, int depth)
{
	const struct twirs_mono atom = twirs_atom(v), one = twirs_number(1), minus = twirs_number(-1);
	const struct twirs_state *state = s->f->state;
	struct twirs_poly c, r;
	struct twirs_mono t;
	c.n = r.n = 0;
	c.c = 0;
	r.c = p->c;
	for (int k = 0; k < p->n; k++) {
		const bool has = twirs_mono_div(&t, &p->t[k], &atom);
		for (int i = 0; i < t.n && has; i++)
			if (t.a[i] == v)
				return false;
		if (!twirs_add_mono(has ? &c : &r, has ? &t : &p->t[k]))
			return false;
	}
	if (c.n + (c.c != 0) < 2)
		return false;
	for (int up = 0; up < 2 && s->budget > 0; up++) { /* c >= 0, then c <= 0 */
		struct twirs_poly size;
		size.n = 0;
		size.c = 0;
		if (!twirs_add(&size, &c, up ? &minus : &one) || !prove(s, &size, depth - 1))
			continue;
		struct twirs_poly least;
		bool bounded = false;
		for (int k = state->facts.n - 1; k >= 0 && s->budget > 0; k--) { /* v - L or U - v: p - size * fact */
			const struct twirs_poly *q = state->facts.at[k].p;
			struct twirs_poly product;
			const struct twirs_mono *sign = up ? &minus : &one;
			bool fits = false;
			for (int i = 0; i < q->n && !fits; i++)
				fits = q->t[i].k == sign->k && twirs_mono_same(&q->t[i], &atom);
			if (!fits || !twirs_mul(&product, &size, q))
				continue;
			least = *p;
			bounded = true;
			if (twirs_add(&least, &product, &minus) && prove(s, &least, depth - 1))
				return true;
		}
		const struct twir_range range = twir_range_of(s->f, v);
		const struct twirs_mono end = twirs_number(up ? range.hi : range.lo);
		least = r;
		return !bounded && end.k > INT64_MIN / 2 && end.k < INT64_MAX / 2 && twirs_add(&least, &c, &end) &&
		       prove(s, &least, depth - 1);
	}
	return false;
}

static bool by_extreme(struct proof *s, const struct twirs_poly *p, int depth)
{
	for (int k = 0; k < p->n; k++)
		for (int i = 0; i < p->t[k].n; i++) {
			const struct twir_expr *v = p->t[k].a[i];
			bool again = false, first = true;
			for (int n = 0; n < p->n && v->kind == TWIR_Var; n++)
				for (int j = 0; j < p->t[n].n; j++) {
					again |= n > k && p->t[n].a[j] == v;
					first &= n >= k || p->t[n].a[j] != v;
				}
			if (first && again && by_extreme_of(s, p, v, depth))
				return true;
		}
	return false;
}

/* Has q a term of t's sign with some of t's atoms and no others? */
static bool may_cancel(const struct twirs_poly *q, const struct twirs_mono *t, bool negative)
{
	for (int i = 0; i < q->n; i++) {
		const struct twirs_mono *tq = &q->t[i];
		int j = 0;
		if ((tq->k < 0) != negative || tq->n > t->n)
			continue;
		for (int at = 0; at < t->n && j < tq->n; at++)
			j += t->a[at] == tq->a[j];
		if (j == tq->n)
			return true;
	}
	return false;
}

/* A term without a lower bound has to be cancelled: is there a fact, or the definition of an atom, that could do it? */
static bool has_cover(const struct proof *s, const struct twirs_poly *p, const struct twirs_mono *t)
{
	const struct twirs_state *state = s->f->state;
	for (int i = 0; i < t->n; i++) {
		const enum twir_kind k = (enum twir_kind)t->a[i]->kind;
		if (k != TWIR_Var && k != TWIR_Load && k != TWIR_Cast)
			return true;
	}
	for (int k = state->facts.n - 1; k >= 0; k--) {
		const struct twirs_poly *q = state->facts.at[k].p;
		if (may_cancel(q, t, t->k < 0))
			return true;
		/* the fact's own number, when the rest of it meets another term */
		for (int i = 0; i < q->n && (q->c < 0) == (t->k < 0) && q->c; i++)
			for (int n = 0; n < p->n; n++) {
				struct twirs_mono part = q->t[i], by;
				if ((p->t[n].k < 0) != (part.k < 0))
					continue;
				part.k = 1;
				if (twirs_mono_div(&by, &p->t[n], &part) && twirs_mono_same(&by, t))
					return true;
			}
	}
	for (int k = 0; k < p->n; k++)
		for (int i = 0; i < p->t[k].n; i++) {
			const struct twir_expr *e = p->t[k].a[i];
			struct twirs_poly x;
			if (!is_quotient(e))
				continue;
			twirs_poly_of(e->arg[0], &x);
			if (may_cancel(&x, t, true) || may_cancel(&x, t, false))
				return true;
		}
	return false;
}

static bool is_hopeless(const struct proof *s, const struct twirs_poly *p, const int64_t *least)
{
	for (int k = 0; k < p->n; k++)
		if (least[k] < -((int64_t)1 << 60) && !has_cover(s, p, &p->t[k]))
			return true;
	return false;
}

static bool prove(struct proof *s, const struct twirs_poly *p, int depth)
{
	int64_t least[TWIRS_TERMS];
	const struct twir_range r = twirs_range_terms(s->f, p, least);
	if (r.lo >= 0 || r.hi < 0)
		return r.lo >= 0;
	if (depth == 0 || --s->budget < 0 || is_hopeless(s, p, least) || !is_new(s, p))
		return false;
	struct loose loose;
	loose.n = 0;
	for (int k = 0; k < p->n; k++)
		if (least[k] == INT64_MIN)
			loose.at[loose.n++] = k;
	if (by_facts(s, p, &loose, true, 1) || by_facts(s, p, &loose, false, 1)) /* one fact alone, before any search */
		return true;
	if (by_structure(s, p, depth) || (depth > 1 && by_extreme(s, p, depth)))
		return true;
	return depth > 1 && (by_facts(s, p, NULL, true, depth) || by_facts(s, p, NULL, false, depth));
}

void twirs_expand(struct twir_facts *f, struct twirs_poly *p)
{
	const struct twirs_state *state = f->state;
	for (int round = 0; round < 4 * TWIRS_TERMS; round++) {
		bool changed = false;
		for (int k = 0; k < p->n && !changed; k++)
			for (int i = 0; i < p->t[k].n && !changed; i++) {
				const struct twir_expr *e = p->t[k].a[i];
				const struct twirs_poly *def =
					e->kind == TWIR_Var ? map_get_ptr(&state->defs, e->u.var) : NULL;
				struct twirs_mono rest;
				struct twirs_poly r;
				twirs_mono_without(&rest, &p->t[k], i);
				if (def && replaced(p, k, &rest, def, &r)) {
					*p = r;
					changed = true;
				}
			}
		if (!changed)
			return;
	}
}

/* Bounds that need no search decide most questions; a polynomial whose every value is negative needs none either. */
bool twirs_nonneg(struct twir_facts *f, const struct twirs_poly *p)
{
	const struct twir_range r = twirs_range_poly(f, p);
	if (r.lo >= 0 || r.hi < 0)
		return r.lo >= 0;
	struct tw_map *proofs = &twirs_ground(f)->proofs;
	const uint64_t h = twirs_hash(p);
	const void *known = map_get(proofs, h);
	if (known)
		return known == proofs;
	struct proof s;
	s.f = f;
	s.budget = BUDGET;
	s.nseen = s.ndefs = 0;
	struct twirs_poly q = *p;
	if (f->state->defined.n)
		twirs_expand(f, &q);
	const bool ok = prove(&s, &q, DEPTH);
	map_set(proofs, h, ok ? (void *)proofs : (void *)f);
	return ok;
}

bool twirs_positive(struct twir_facts *f, const struct twirs_mono *c)
{
	if (twirs_range_mono(f, c).lo >= 1)
		return true;
	struct twirs_poly p = {0};
	return twirs_add_mono(&p, c) && !__builtin_sub_overflow(p.c, 1, &p.c) && twirs_nonneg(f, &p);
}
