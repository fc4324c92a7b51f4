/* simplify_poly: polynomials over atoms: arithmetic, reading from expressions, writing back in one canonical form. */
#include "ir/simplify_int.h"

bool twirs_is_index(const struct twir_expr *e)
{
	return e->type.scalar == TWIR_INDEX && e->type.lanes == 1;
}

int64_t twirs_gcd(int64_t a, int64_t b)
{
	uint64_t x = a < 0 ? 0 - (uint64_t)a : (uint64_t)a, y = b < 0 ? 0 - (uint64_t)b : (uint64_t)b;
	while (y) {
		const uint64_t r = x % y;
		x = y;
		y = r;
	}
	return x > INT64_MAX ? 1 : (int64_t)x;
}

uint64_t twirs_hash(const struct twirs_poly *p)
{
	uint64_t h = tw_hash_mix((uint64_t)p->n, (uint64_t)p->c);
	for (int k = 0; k < p->n; k++) {
		h = tw_hash_mix(h, (uint64_t)p->t[k].k);
		for (int i = 0; i < p->t[k].n; i++)
			h = tw_hash_mix(h, p->t[k].a[i]->id);
	}
	return h;
}

static int compare(const struct twirs_mono *a, const struct twirs_mono *b)
{
	for (int k = 0; k < a->n && k < b->n; k++)
		if (a->a[k] != b->a[k])
			return a->a[k]->id < b->a[k]->id ? -1 : 1;
	return a->n - b->n;
}

bool twirs_mono_same(const struct twirs_mono *a, const struct twirs_mono *b)
{
	return compare(a, b) == 0;
}

/* p += t, whose place is at `at` or behind; its place: terms that come after t go at or behind it. */
static bool put_term(struct twirs_poly *p, const struct twirs_mono *t, int *from)
{
	int at = *from, order = 1;
	while (at < p->n && (order = compare(&p->t[at], t)) < 0)
		at++;
	*from = at;
	if (at < p->n && order == 0) {
		if (__builtin_add_overflow(p->t[at].k, t->k, &p->t[at].k))
			return false;
		if (p->t[at].k == 0) {
			p->n--;
			memmove(&p->t[at], &p->t[at + 1], sizeof(p->t[0]) * (size_t)(p->n - at));
		}
		return true;
	}
	if (p->n == TWIRS_TERMS)
		return false;
	memmove(&p->t[at + 1], &p->t[at], sizeof(p->t[0]) * (size_t)(p->n - at));
	p->t[at] = *t;
	p->n++;
	return true;
}

bool twirs_add_mono(struct twirs_poly *p, const struct twirs_mono *t)
{
	int at = 0;
	if (t->n == 0)
		return !__builtin_add_overflow(p->c, t->k, &p->c);
	return t->k == 0 || put_term(p, t, &at);
}

bool twirs_mono_mul(struct twirs_mono *r, const struct twirs_mono *a, const struct twirs_mono *b)
{
	struct twirs_mono m;
	int i = 0, j = 0;
	if (__builtin_mul_overflow(a->k, b->k, &m.k) || a->n + b->n > TWIRS_ATOMS)
		return false;
	m.n = 0;
	while (i < a->n || j < b->n)
		m.a[m.n++] = j == b->n || (i < a->n && a->a[i]->id <= b->a[j]->id) ? a->a[i++] : b->a[j++];
	*r = m;
	return true;
}

bool twirs_mono_div(struct twirs_mono *r, const struct twirs_mono *a, const struct twirs_mono *b)
{
	struct twirs_mono m;
	if (b->n > a->n || b->k == 0 || b->k == -1)
		return false;
	int j = 0;
	m.n = 0;
	for (int i = 0; i < a->n; i++)
		if (j < b->n && a->a[i] == b->a[j])
			j++;
		else
			m.a[m.n++] = a->a[i];
	if (j < b->n || (b->k != 1 && a->k % b->k))
		return false;
	m.k = b->k == 1 ? a->k : a->k / b->k;
	*r = m;
	return true;
}

void twirs_mono_gcd(struct twirs_mono *r, const struct twirs_mono *a, const struct twirs_mono *b)
{
	struct twirs_mono m = {.k = twirs_gcd(a->k, b->k)};
	int i = 0, j = 0;
	while (i < a->n && j < b->n)
		if (a->a[i] == b->a[j]) {
			m.a[m.n++] = a->a[i++];
			j++;
		} else if (a->a[i]->id < b->a[j]->id) {
			i++;
		} else {
			j++;
		}
	*r = m;
}

void twirs_mono_without(struct twirs_mono *r, const struct twirs_mono *a, int atom)
{
	struct twirs_mono m = {.k = a->k};
	for (int i = 0; i < a->n; i++)
		if (i != atom)
			m.a[m.n++] = a->a[i];
	*r = m;
}

/* p += k * q: both are in order, so one walk finds all places. */
static bool add_times(struct twirs_poly *p, const struct twirs_poly *q, int64_t k)
{
	int64_t c;
	int at = 0;
	if (__builtin_mul_overflow(k, q->c, &c) || __builtin_add_overflow(p->c, c, &p->c))
		return false;
	for (int i = 0; i < q->n && k != 0; i++) {
		struct twirs_mono t = q->t[i];
		if (__builtin_mul_overflow(t.k, k, &t.k) || !put_term(p, &t, &at))
			return false;
	}
	return true;
}

bool twirs_add(struct twirs_poly *p, const struct twirs_poly *q, const struct twirs_mono *by)
{
	struct twirs_mono t = *by;
	if (by->n == 0)
		return add_times(p, q, by->k);
	if (__builtin_mul_overflow(by->k, q->c, &t.k) || !twirs_add_mono(p, &t))
		return false;
	for (int k = 0; k < q->n; k++)
		if (!twirs_mono_mul(&t, &q->t[k], by) || !twirs_add_mono(p, &t))
			return false;
	return true;
}

bool twirs_mul(struct twirs_poly *r, const struct twirs_poly *a, const struct twirs_poly *b)
{
	if ((a->n + 1) * (b->n + 1) > TWIRS_TERMS && a->n > 1 && b->n > 1)
		return false;
	struct twirs_poly p = {0};
	const struct twirs_mono c = twirs_number(b->c);
	if (b->c && !twirs_add(&p, a, &c))
		return false;
	for (int k = 0; k < b->n; k++)
		if (!twirs_add(&p, a, &b->t[k]))
			return false;
	*r = p;
	return true;
}

void twirs_mono_of(struct twirs_mono *t, const struct twirs_poly *p, const struct twir_expr *whole)
{
	if (p->n == 0)
		*t = twirs_number(p->c);
	else if (p->n == 1 && p->c == 0)
		*t = p->t[0];
	else
		*t = twirs_atom(whole);
}

static bool read_sum(const struct twir_expr *e, const struct twirs_mono *by, struct twirs_poly *p)
{
	struct twirs_mono t;
	int64_t v;
	if (twir_const_int(e, &v)) {
		const struct twirs_mono c = twirs_number(v);
		return twirs_mono_mul(&t, by, &c) && twirs_add_mono(p, &t);
	}
	if (e->kind == TWIR_Add)
		return read_sum(e->arg[0], by, p) && read_sum(e->arg[1], by, p);
	if (e->kind == TWIR_Sub || e->kind == TWIR_Neg) {
		const struct twirs_mono minus = twirs_number(-1);
		if (!twirs_mono_mul(&t, by, &minus))
			return false;
		return e->kind == TWIR_Neg ? read_sum(e->arg[0], &t, p)
					   : read_sum(e->arg[0], by, p) && read_sum(e->arg[1], &t, p);
	}
	if (e->kind == TWIR_Mul) {
		struct twirs_poly a, b, r;
		twirs_poly_of(e->arg[0], &a);
		twirs_poly_of(e->arg[1], &b);
		if (twirs_mul(&r, &a, &b))
			return twirs_add(p, &r, by);
	}
	const struct twirs_mono atom = twirs_atom(e);
	return twirs_mono_mul(&t, by, &atom) && twirs_add_mono(p, &t);
}

void twirs_poly_of(const struct twir_expr *e, struct twirs_poly *p)
{
	const struct twirs_mono one = twirs_number(1);
	p->n = 0;
	p->c = 0;
	if (!read_sum(e, &one, p)) {
		p->n = 1;
		p->c = 0;
		p->t[0] = twirs_atom(e);
	}
}

static const struct twir_expr *product(struct twir_module *m, const struct twirs_mono *t, int64_t k)
{
	const struct twir_expr *e = NULL;
	for (int i = 0; i < t->n; i++)
		e = e ? twir_mul(m, e, t->a[i]) : t->a[i];
	return !e ? twir_index(m, k) : k == 1 ? e : twir_mul(m, e, twir_index(m, k));
}

const struct twir_expr *twirs_build_mono(struct twir_module *m, const struct twirs_mono *t)
{
	return product(m, t, t->k);
}

/* Terms that are added in order, then those that are subtracted, the constant last; first when nothing else is
 * positive. */
const struct twir_expr *twirs_build(struct twir_module *m, const struct twirs_poly *p)
{
	const struct twir_expr *e = NULL;
	bool constant = p->c != 0;
	for (int k = 0; k < p->n; k++)
		if (p->t[k].k > 0) {
			const struct twir_expr *t = twirs_build_mono(m, &p->t[k]);
			e = e ? twir_add(m, e, t) : t;
		}
	if (!e && p->c > 0) {
		e = twir_index(m, p->c);
		constant = false;
	}
	for (int k = 0; k < p->n; k++) {
		const struct twirs_mono *t = &p->t[k];
		if (t->k > 0)
			continue;
		if (!e)
			e = t->k == -1 ? twir_unary(m, TWIR_Neg, product(m, t, 1)) : product(m, t, t->k);
		else if (t->k == INT64_MIN)
			e = twir_add(m, e, product(m, t, t->k));
		else
			e = twir_sub(m, e, product(m, t, -t->k));
	}
	if (!e)
		return twir_index(m, p->c);
	if (!constant)
		return e;
	return p->c > 0 || p->c == INT64_MIN ? twir_add(m, e, twir_index(m, p->c))
					     : twir_sub(m, e, twir_index(m, -p->c));
}
