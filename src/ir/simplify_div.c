/* simplify_div: quotients and remainders of polynomials, and sums that put them together again. All rules are those
 * of floor division by a divisor proved to be positive:
 *   (a*c + b) / c = a + b / c;  (a*c + b) % c = b % c;  0 <= b < c: b / c = 0, b % c = b
 *   (g*x + b) / (g*c) = x / c, (g*x + b) % (g*c) = g * (x % c) + b  where 0 <= b < g
 *   (x / a) / c = x / (a*c);  (x % (a*c)) / c = (x / c) % a;  (x % (a*c)) % c = x % c
 *   k*c*(x / c) + k*(x % c) = k*x;  k*c*((x / c) % a) + k*(x % c) = k*(x % (a*c));  k*x - k*c*(x / c) = k*(x % c)
 * where a and c may be sums with symbols, as in (x / (N - 2)) * N - (x / (N - 2)) * 2 + x % (N - 2).
 * Each either takes terms out of a quotient or remainder, makes it smaller, or reduces their number, so they end. */
#include "ir/simplify_int.h"

static const struct twirs_mono one = {.k = 1}, minus_one = {.k = -1};

static bool within(struct twir_facts *f, const struct twirs_poly *x, const struct twirs_poly *c) /* 0 <= x < c */
{
	struct twirs_poly d = *c;
	return twirs_add(&d, x, &minus_one) && !__builtin_sub_overflow(d.c, 1, &d.c) && twirs_nonneg(f, x) &&
	       twirs_nonneg(f, &d);
}

static void poly_of_mono(struct twirs_poly *p, const struct twirs_mono *t)
{
	*p = (struct twirs_poly){0};
	twirs_add_mono(p, t);
}

static bool is_zero(const struct twirs_poly *p)
{
	return p->n == 0 && p->c == 0;
}

static bool is_sum(const struct twirs_poly *p)
{
	return p->n > 1 || (p->n == 1 && p->c != 0);
}

/* c >= 1; cm is c as a monomial, or its expression as an atom where it is a sum. */
static bool positive(struct twir_facts *f, const struct twirs_poly *c, const struct twirs_mono *cm)
{
	struct twirs_poly p = *c;
	return twirs_positive(f, cm) || (is_sum(c) && !__builtin_sub_overflow(p.c, 1, &p.c) && twirs_nonneg(f, &p));
}

/* Long division by the first term of c: x = quot * c + rem, where no term of rem is a multiple of that term. */
static bool long_division(const struct twirs_poly *x, const struct twirs_poly *c, struct twirs_poly *quot,
			  struct twirs_poly *rem)
{
	*quot = (struct twirs_poly){0};
	*rem = *x;
	if (c->n == 0)
		return false;
	for (int round = 0; round < TWIRS_TERMS; round++) {
		struct twirs_mono q;
		int k = 0;
		while (k < rem->n && !twirs_mono_div(&q, &rem->t[k], &c->t[0]))
			k++;
		if (k == rem->n)
			return true;
		if (q.k == INT64_MIN || !twirs_add_mono(quot, &q))
			return false;
		q.k = -q.k;
		if (!twirs_add(rem, c, &q))
			return false;
	}
	return false;
}

/* x / c where c divides x. */
static bool exact_quotient(const struct twirs_poly *x, const struct twirs_poly *c, struct twirs_poly *quot)
{
	struct twirs_poly rem;
	if (c->n == 0) {
		struct twirs_mono t;
		const struct twirs_mono cm = twirs_number(c->c);
		*quot = (struct twirs_poly){0};
		for (int k = 0; k < x->n; k++)
			if (!twirs_mono_div(&t, &x->t[k], &cm) || !twirs_add_mono(quot, &t))
				return false;
		quot->c = cm.k > 0 ? x->c / cm.k : 0;
		return cm.k > 0 && x->c % cm.k == 0;
	}
	return long_division(x, c, quot, &rem) && is_zero(&rem);
}

/* Moves what is a multiple of c from rem to quot: whole terms, parts of coefficients, and terms known to be
 * multiples. */
static bool split(struct twir_facts *f, const struct twirs_poly *x, const struct twirs_mono *c, struct twirs_poly *quot,
		  struct twirs_poly *rem, struct twirs_poly *exact)
{
	*quot = *rem = *exact = (struct twirs_poly){0};
	for (int k = 0; k < x->n; k++) {
		struct twirs_mono t = x->t[k], q;
		if (twirs_mono_div(&q, &t, c)) {
			if (!twirs_add_mono(quot, &q))
				return false;
			continue;
		}
		if (c->n == 0 && (t.k >= c->k || t.k <= -c->k)) {
			q = t;
			q.k = t.k / c->k;
			t.k %= c->k;
			if (!twirs_add_mono(quot, &q))
				return false;
		}
		const int64_t m = c->n == 0 ? twirs_range_mono(f, &t).multiple : 1;
		if (!twirs_add_mono(c->n == 0 && m % c->k == 0 ? exact : rem, &t))
			return false;
	}
	rem->c = x->c;
	if (c->n == 0) {
		rem->c = tw_floormod(x->c, c->k);
		return !__builtin_add_overflow(quot->c, tw_floordiv(x->c, c->k), &quot->c);
	}
	return true;
}

/* (g*x + b) / (g*c) with 0 <= b < g, for the g that some term has in common with c. */
static bool by_common_factor(struct twir_facts *f, const struct twirs_poly *rem, const struct twirs_mono *c,
			     const struct twirs_poly *quot, struct twirs_poly *div, struct twirs_poly *mod)
{
	for (int k = 0; k < rem->n; k++) {
		struct twirs_mono g, left, t;
		twirs_mono_gcd(&g, &rem->t[k], c);
		if ((g.n == 0 && g.k == 1) || !twirs_mono_div(&left, c, &g))
			continue;
		struct twirs_poly x = {0}, b = {0}, gp, lp, d, m;
		for (int i = 0; i < rem->n; i++)
			if (!(twirs_mono_div(&t, &rem->t[i], &g) ? twirs_add_mono(&x, &t)
								 : twirs_add_mono(&b, &rem->t[i])))
				return false;
		b.c = g.n == 0 ? tw_floormod(rem->c, g.k) : rem->c;
		x.c += g.n == 0 ? tw_floordiv(rem->c, g.k) : 0;
		poly_of_mono(&gp, &g);
		if (!is_zero(&b) && !within(f, &b, &gp))
			continue;
		poly_of_mono(&lp, &left);
		if (!twirs_divide(f, &x, &lp, &d, &m))
			continue;
		*div = *quot;
		*mod = b;
		return twirs_add(div, &d, &one) && twirs_add(mod, &m, &g);
	}
	return false;
}

/* One quotient or remainder inside another; cp is c as it is, c as a monomial. */
static bool by_nesting(struct twir_facts *f, const struct twirs_poly *rem, const struct twirs_mono *c,
		       const struct twirs_poly *cp, const struct twirs_poly *quot, struct twirs_poly *div,
		       struct twirs_poly *mod)
{
	if (rem->n != 1 || rem->c != 0 || rem->t[0].k != 1 || rem->t[0].n != 1)
		return false;
	const struct twir_expr *e = rem->t[0].a[0];
	if ((e->kind != TWIR_Div && e->kind != TWIR_Mod) || !twirs_is_index(e))
		return false;
	struct twirs_poly y, a, d, m, ac;
	struct twirs_mono am;
	twirs_poly_of(e->arg[0], &y);
	twirs_poly_of(e->arg[1], &a);
	twirs_mono_of(&am, &a, e->arg[1]);
	if (!positive(f, &a, &am))
		return false;
	*div = *quot;
	if (e->kind == TWIR_Div) {
		if (!twirs_mul(&ac, &a, cp) || !twirs_divide(f, &y, &ac, &d, &m) || !twirs_add(div, &d, &one))
			return false;
		const struct twirs_mono atom = twirs_atom(twir_mod(f->m, e, twirs_build_mono(f->m, c)));
		poly_of_mono(mod, &atom);
		return true;
	}
	struct twirs_poly inner, unused, left;
	return exact_quotient(&a, cp, &left) && twirs_divide(f, &y, cp, &inner, mod) &&
	       twirs_divide(f, &inner, &left, &unused, &d) && twirs_add(div, &d, &one);
}

/* Nothing helps: x / c and x % c as they stand. */
static bool as_atoms(struct twir_facts *f, const struct twirs_poly *x, const struct twir_expr *c,
		     struct twirs_poly *div, struct twirs_poly *mod)
{
	const struct twir_expr *e = twirs_build(f->m, x);
	struct twirs_poly d, m;
	twirs_poly_of(twir_div(f->m, e, c), &d);
	twirs_poly_of(twir_mod(f->m, e, c), &m);
	*mod = m;
	return twirs_add(div, &d, &one);
}

static bool divide_mono(struct twir_facts *f, const struct twirs_poly *x, const struct twirs_mono *c,
			const struct twirs_poly *cp, struct twirs_poly *div, struct twirs_poly *mod)
{
	struct twirs_poly quot, rem, exact, d, m;
	if (!split(f, x, c, &quot, &rem, &exact))
		return false;
	if (!is_zero(&exact)) { /* multiples of c, though not by their coefficients: divided on their own */
		if (exact.n == 1 && is_zero(&rem)) {
			struct twirs_poly d1, m1;
			if (!by_common_factor(f, &exact, c, &quot, &d1, &m1)) {
				d1 = quot;
				if (!as_atoms(f, &exact, twirs_build_mono(f->m, c), &d1, &m1))
					return false;
			}
			*div = d1;
			*mod = (struct twirs_poly){0};
			return true;
		}
		for (int k = 0; k < exact.n; k++) {
			struct twirs_poly t;
			poly_of_mono(&t, &exact.t[k]);
			if (!divide_mono(f, &t, c, cp, &d, &m) || !twirs_add(&quot, &d, &one))
				return false;
		}
	}
	if (twirs_normalise(f, &rem)) {
		if (!divide_mono(f, &rem, c, cp, &d, mod))
			return false;
		*div = quot;
		return twirs_add(div, &d, &one);
	}
	*div = quot;
	*mod = rem;
	if (is_zero(&rem))
		return true;
	if (c->n == 0) {
		const struct twir_range r = twirs_range_poly(f, &rem);
		const int64_t q = tw_floordiv(r.lo, c->k);
		struct twirs_mono all = {0};
		if (r.lo != INT64_MIN && r.hi != INT64_MAX && q == tw_floordiv(r.hi, c->k))
			return !__builtin_mul_overflow(-q, c->k, &all.k) && twirs_add_mono(mod, &all) &&
			       !__builtin_add_overflow(div->c, q, &div->c);
	}
	if (within(f, &rem, cp))
		return true;
	if (by_common_factor(f, &rem, c, &quot, div, mod) || by_nesting(f, &rem, c, cp, &quot, div, mod))
		return true;
	*div = quot;
	return as_atoms(f, &rem, twirs_build_mono(f->m, c), div, mod);
}

/* c is a sum with a symbol: long division by it, or by what is left of it without a common factor. Taken only when it
 * ends with 0 <= rest < c, or with fewer terms to divide. */
static bool divide_sum(struct twir_facts *f, const struct twirs_poly *x, const struct twirs_poly *c,
		       struct twirs_poly *div, struct twirs_poly *mod)
{
	struct twirs_poly quot, rem, d, m;
	if (long_division(x, c, &quot, &rem)) {
		*div = quot;
		*mod = rem;
		if (within(f, &rem, c))
			return true;
		if (rem.n < x->n && !is_zero(&quot))
			return twirs_divide(f, &rem, c, &d, mod) && twirs_add(div, &d, &one);
	}
	struct twirs_mono g = c->t[0], t; /* c = g * p */
	struct twirs_poly p = {0}, gp;
	for (int k = 1; k < c->n; k++)
		twirs_mono_gcd(&g, &g, &c->t[k]);
	if (c->c)
		g = twirs_number(twirs_gcd(g.k, c->c));
	if (g.n == 0 && g.k == 1)
		return false;
	for (int k = 0; k < c->n; k++)
		if (!twirs_mono_div(&t, &c->t[k], &g) || !twirs_add_mono(&p, &t))
			return false;
	p.c += c->c / (c->c ? g.k : 1);
	poly_of_mono(&gp, &g);
	if (!long_division(x, &p, &quot, &rem) || is_zero(&quot) || !within(f, &rem, &p) || !twirs_positive(f, &g) ||
	    !twirs_divide(f, &quot, &gp, div, &d))
		return false;
	*mod = rem;
	return twirs_mul(&m, &d, &p) && twirs_add(mod, &m, &one);
}

bool twirs_divide(struct twir_facts *f, const struct twirs_poly *x, const struct twirs_poly *c, struct twirs_poly *div,
		  struct twirs_poly *mod)
{
	const struct twir_expr *whole = twirs_build(f->m, c);
	struct twirs_mono cm;
	twirs_mono_of(&cm, c, whole);
	*div = *mod = (struct twirs_poly){0};
	if (is_zero(x) || is_zero(c))
		return true;
	if (cm.n == 0 && cm.k == 1) {
		*div = *x;
		return true;
	}
	if (!positive(f, c, &cm)) {
		struct twirs_poly up = *c;
		if (!within(f, x, &up))
			return as_atoms(f, x, whole, div, mod);
		*mod = *x;
		return true;
	}
	if (is_sum(c) && divide_sum(f, x, c, div, mod))
		return true;
	return divide_mono(f, x, &cm, c, div, mod);
}

/* ceil_div(x, c): multiples of c come out, common factors cancel, nested ones merge. */
bool twirs_ceil(struct twir_facts *f, const struct twirs_poly *x, const struct twirs_poly *c, struct twirs_poly *r)
{
	const struct twir_expr *whole = twirs_build(f->m, c);
	struct twirs_mono cm;
	struct twirs_poly rem, exact, d, m;
	twirs_mono_of(&cm, c, whole);
	*r = (struct twirs_poly){0};
	if (is_zero(x) || is_zero(c))
		return true;
	if (!twirs_positive(f, &cm)) {
		twirs_poly_of(twir_ceildiv(f->m, twirs_build(f->m, x), whole), r);
		return true;
	}
	if (!split(f, x, &cm, r, &rem, &exact) || !twirs_add(&rem, &exact, &one))
		return false;
	twirs_normalise(f, &rem);
	if (is_zero(&rem))
		return true;
	if (twirs_divide(f, &rem, c, &d, &m) && is_zero(&m))
		return twirs_add(r, &d, &one);
	const struct twir_range range = twirs_range_poly(f, &rem);
	if (cm.n == 0 && range.lo > -INT64_MAX && range.hi != INT64_MAX) {
		const int64_t lo = -tw_floordiv(-range.lo, cm.k), hi = -tw_floordiv(-range.hi, cm.k);
		if (lo == hi)
			return !__builtin_add_overflow(r->c, lo, &r->c);
	}
	struct twirs_poly above = rem; /* 1 <= rem <= c? */
	if (!__builtin_sub_overflow(above.c, 1, &above.c) && within(f, &above, c))
		return !__builtin_add_overflow(r->c, 1, &r->c);
	struct twirs_mono g = cm, t, left;
	for (int k = 0; k < rem.n; k++)
		twirs_mono_gcd(&g, &g, &rem.t[k]);
	if (g.n > 0 && rem.c != 0) /* a constant beside symbols */
		g = twirs_number(g.k);
	if ((g.n || g.k > 1) && twirs_mono_div(&left, &cm, &g)) {
		struct twirs_poly y = {0}, lp;
		for (int k = 0; k < rem.n; k++)
			if (!twirs_mono_div(&t, &rem.t[k], &g) || !twirs_add_mono(&y, &t))
				return false;
		y.c += g.n ? 0 : -tw_floordiv(-rem.c, g.k);
		poly_of_mono(&lp, &left);
		return twirs_ceil(f, &y, &lp, &d) && twirs_add(r, &d, &one);
	}
	if (rem.n == 1 && rem.c == 0 && rem.t[0].k == 1 && rem.t[0].n == 1 && rem.t[0].a[0]->kind == TWIR_Ceildiv) {
		const struct twir_expr *e = rem.t[0].a[0];
		struct twirs_poly y, a, ac;
		twirs_poly_of(e->arg[0], &y);
		twirs_poly_of(e->arg[1], &a);
		if (twirs_range_poly(f, &a).lo >= 1 && twirs_mul(&ac, &a, c))
			return twirs_ceil(f, &y, &ac, &d) && twirs_add(r, &d, &one);
	}
	twirs_poly_of(twir_ceildiv(f->m, twirs_build(f->m, &rem), whole), &d);
	return twirs_add(r, &d, &one);
}

/* Does p hold every term of s with the same coefficient? */
static bool holds(const struct twirs_poly *p, const struct twirs_poly *s)
{
	for (int k = 0; k < s->n; k++) {
		bool found = false;
		for (int i = 0; i < p->n && !found; i++)
			found = p->t[i].k == s->t[k].k && twirs_mono_same(&p->t[i], &s->t[k]);
		if (!found)
			return false;
	}
	return s->n > 0;
}

/* p - take + put * rest */
static bool exchange(struct twirs_poly *p, const struct twirs_poly *take, const struct twirs_poly *put,
		     const struct twirs_mono *rest)
{
	struct twirs_poly r = *p;
	if (!twirs_add(&r, take, &minus_one) || !twirs_add(&r, put, rest))
		return false;
	*p = r;
	return true;
}

/* Term i holds y % c at atom u: look for the quotient that goes with it. */
static bool join_remainder(struct twir_facts *f, struct twirs_poly *p, int i, int u)
{
	const struct twir_expr *e = p->t[i].a[u];
	struct twirs_poly y, c, q, m, qc, take = {0};
	struct twirs_mono cm, rest;
	twirs_poly_of(e->arg[0], &y);
	twirs_poly_of(e->arg[1], &c);
	twirs_mono_of(&cm, &c, e->arg[1]);
	twirs_mono_without(&rest, &p->t[i], u);
	if (!positive(f, &c, &cm) || !twirs_divide(f, &y, &c, &q, &m))
		return false;
	if (twirs_mul(&qc, &q, &c) && twirs_add(&take, &qc, &rest) && holds(p, &take))
		return twirs_add_mono(&take, &p->t[i]) && exchange(p, &take, &y, &rest);
	const struct twir_expr *inner = twirs_build(f->m, &q);
	for (int j = 0; j < p->n; j++)
		for (int v = 0; v < p->t[j].n; v++) {
			const struct twir_expr *o = p->t[j].a[v];
			struct twirs_mono am, by;
			struct twirs_poly a, ac, whole;
			const struct twirs_mono digit = twirs_atom(o);
			if (j == i || o->kind != TWIR_Mod || !twirs_is_index(o) || o->arg[0] != inner)
				continue;
			take = (struct twirs_poly){0};
			if (!twirs_mono_mul(&by, &rest, &digit) || !twirs_add(&take, &c, &by) || !holds(p, &take))
				continue;
			twirs_poly_of(o->arg[1], &a);
			twirs_mono_of(&am, &a, o->arg[1]);
			if (!twirs_mul(&ac, &a, &c))
				continue;
			return positive(f, &a, &am) && twirs_divide(f, &y, &ac, &q, &whole) &&
			       twirs_add_mono(&take, &p->t[i]) && exchange(p, &take, &whole, &rest);
		}
	return false;
}

/* Term i holds y / c at atom u, its coefficient a multiple l of c: l*(y / c) - l/c*y is a remainder; exact ones
 * vanish. */
static bool join_quotient(struct twir_facts *f, struct twirs_poly *p, int i, int u)
{
	const struct twir_expr *e = p->t[i].a[u];
	const struct twirs_mono atom = twirs_atom(e);
	struct twirs_poly y, c, q, m, take = {0};
	struct twirs_mono cm, rest, l, by;
	twirs_poly_of(e->arg[1], &c);
	twirs_mono_of(&cm, &c, e->arg[1]);
	twirs_mono_without(&rest, &p->t[i], u);
	if (!twirs_mono_div(&l, &rest, is_sum(&c) ? &c.t[0] : &cm) || l.k == INT64_MIN || !positive(f, &c, &cm))
		return false;
	if (!twirs_mono_mul(&by, &l, &atom) || !twirs_add(&take, &c, &by) || !holds(p, &take))
		return false;
	twirs_poly_of(e->arg[0], &y);
	if (!twirs_divide(f, &y, &c, &q, &m))
		return false;
	if (is_zero(&m))
		return exchange(p, &take, &y, &l);
	l.k = -l.k;
	struct twirs_poly s = {0};
	return twirs_add(&s, &y, &l) && holds(p, &s) && twirs_add(&take, &s, &one) && exchange(p, &take, &m, &l);
}

bool twirs_normalise(struct twir_facts *f, struct twirs_poly *p)
{
	bool changed = true, any = false;
	for (int round = 0; round < 2 * TWIRS_TERMS && changed; round++) {
		changed = false;
		for (int i = 0; i < p->n && !changed; i++)
			for (int u = 0; u < p->t[i].n && !changed; u++) {
				const struct twir_expr *e = p->t[i].a[u];
				if (!twirs_is_index(e))
					continue;
				if (e->kind == TWIR_Mod && p->n > 1)
					changed = join_remainder(f, p, i, u);
				else if (e->kind == TWIR_Div)
					changed = join_quotient(f, p, i, u);
			}
		any |= changed;
	}
	return any;
}
