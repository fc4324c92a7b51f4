/* simplify_facts: what is known at a place of a program: bounds, conditions as polynomials >= 0, definitions of
 * lets. A stack of layers; simplified expressions are remembered for one layer, because they depend on its facts. */
#include "ir/simplify_int.h"

static const struct twirs_mono one = {.k = 1}, minus_one = {.k = -1};

/* Memos are kept by the facts that they depend on, so that leaving and entering a scope again finds what was known. */
struct twirs_memo *twirs_memo(struct twir_facts *f)
{
	struct twirs_state *s = f->state;
	if (s->memo)
		return s->memo;
	s->memo = map_get(&s->memos, s->signature);
	if (!s->memo) {
		s->memo = ARENA_NEW(f->m->scratch, struct twirs_memo);
		map_init(&s->memo->simple, f->m->scratch);
		map_set(&s->memos, s->signature, s->memo);
	}
	return s->memo;
}

struct twirs_ground *twirs_ground(struct twir_facts *f)
{
	struct twirs_state *s = f->state;
	if (s->on)
		return s->on;
	s->on = map_get(&s->grounds, s->ground);
	if (!s->on) {
		s->on = ARENA_NEW(f->m->scratch, struct twirs_ground);
		map_init(&s->on->ranges, f->m->scratch);
		map_init(&s->on->proofs, f->m->scratch);
		map_set(&s->grounds, s->ground, s->on);
	}
	return s->on;
}

/* A condition holds. What follows from it is signed where it is learnt. */
static void sign_known(struct twir_facts *f, uint64_t a, uint64_t b)
{
	f->state->signature = tw_hash_mix(tw_hash_mix(f->state->signature, a), b);
	f->state->memo = NULL;
}

void twirs_sign(struct twir_facts *f, uint64_t a, uint64_t b)
{
	sign_known(f, a, b);
	f->state->ground = tw_hash_mix(tw_hash_mix(f->state->ground, a), b);
	f->state->on = NULL;
}

void twirs_push(struct twir_facts *f)
{
	struct twirs_state *s = f->state;
	const struct twirs_layer l = {.known = f->known.n,
				      .facts = s->facts.n,
				      .undo = s->undo.n,
				      .defs = s->defined.n,
				      .signature = s->signature,
				      .ground = s->ground};
	vec_push(f->m->scratch, &s->layers, l);
}

void twirs_pop(struct twir_facts *f)
{
	struct twirs_state *s = f->state;
	const struct twirs_layer *l = &s->layers.at[--s->layers.n];
	f->known.n = l->known;
	s->facts.n = l->facts;
	while (s->undo.n > l->undo) {
		const struct twirs_undo *u = &s->undo.at[--s->undo.n];
		map_set(&f->ranges, u->key, u->old);
	}
	while (s->defined.n > l->defs)
		map_set_ptr(&s->defs, s->defined.at[--s->defined.n], NULL);
	s->signature = l->signature;
	s->memo = NULL;
	if (s->ground != l->ground)
		s->on = NULL;
	s->ground = l->ground;
}

void twir_facts_init(struct twir_facts *f, struct twir_module *m)
{
	memset(f, 0, sizeof(*f));
	f->m = m;
	map_init(&f->ranges, m->scratch);
	map_init(&f->memo, m->scratch);
	f->state = ARENA_NEW(m->scratch, struct twirs_state);
	map_init(&f->state->defs, m->scratch);
	map_init(&f->state->replaced, m->scratch);
	map_init(&f->state->memos, m->scratch);
	map_init(&f->state->grounds, m->scratch);
	map_init(&f->state->seen, m->scratch);
	twirs_push(f);
}

/* A change that outlives the layers. Nothing that was found out speaks of a variable not seen yet. */
static void changed_for_good(struct twir_facts *f, const struct twir_var *v)
{
	struct twirs_state *s = f->state;
	if (!map_get_ptr(&s->seen, v))
		return;
	map_init(&s->memos, f->m->scratch);
	map_init(&s->grounds, f->m->scratch);
	map_init(&s->seen, f->m->scratch);
	s->memo = NULL;
	s->on = NULL;
}

static void set_range(struct twir_facts *f, const struct twir_var *v, struct twir_range to)
{
	const struct twir_range *old = map_get_ptr(&f->ranges, v);
	if (old && old->lo == to.lo && old->hi == to.hi && old->multiple == to.multiple)
		return;
	struct twir_range *r = ARENA_NEW(f->m->scratch, struct twir_range);
	*r = to;
	map_set_ptr(&f->ranges, v, r);
	changed_for_good(f, v);
}

void twir_facts_range(struct twir_facts *f, const struct twir_var *v, int64_t lo, int64_t hi)
{
	const struct twir_range *old = map_get_ptr(&f->ranges, v);
	set_range(f, v, (struct twir_range){lo, hi, old ? old->multiple : 1});
}

static void atom_at_least(struct twir_facts *f, const struct twir_expr *e, int64_t lo, int depth)
{
	struct twirs_poly x, c;
	twirs_narrow(f, e, lo, INT64_MAX);
	if (!twirs_is_index(e) || depth == 0)
		return;
	if (e->kind == TWIR_Min) {
		for (int k = 0; k < 2; k++) {
			twirs_poly_of(e->arg[k], &x);
			if (!__builtin_sub_overflow(x.c, lo, &x.c))
				twirs_fact(f, &x, depth - 1);
		}
	} else if (e->kind == TWIR_Ceildiv || e->kind == TWIR_Div) {
		twirs_poly_of(e->arg[0], &x);
		twirs_poly_of(e->arg[1], &c);
		if (twirs_range_poly(f, &c).lo < 1) {
			if (lo == 1 && twirs_range_poly(f, &c).lo >= 0 && c.n == 1 && c.c == 0 && c.t[0].n == 1)
				atom_at_least(f, c.t[0].a[0], 1, depth - 1); /* x / 0 is 0 */
			return;
		}
		const struct twirs_mono by =
			twirs_number(e->kind == TWIR_Div ? -lo : 1 - lo); /* x >= c*lo; x > c*(lo - 1) */
		if (twirs_add(&x, &c, &by) && !__builtin_sub_overflow(x.c, e->kind == TWIR_Ceildiv, &x.c))
			twirs_fact(f, &x, depth - 1);
	}
}

/* Bounds of single atoms: k*v + c >= 0, and products of what is not negative. */
static void narrow_atoms(struct twir_facts *f, const struct twirs_poly *p, int depth)
{
	if (p->n != 1)
		return;
	const struct twirs_mono *t = &p->t[0];
	if (t->n == 1 && t->k > 0 && p->c != INT64_MIN)
		atom_at_least(f, t->a[0], -tw_floordiv(p->c, t->k), depth);
	else if (t->n == 1 && t->k > -INT64_MAX)
		twirs_narrow(f, t->a[0], INT64_MIN, tw_floordiv(p->c, -t->k));
	else if (t->k > 0 && p->c < 0) {
		for (int k = 0; k < t->n; k++)
			if (twir_range_of(f, t->a[k]).lo < 0)
				return;
		for (int k = 0; k < t->n; k++)
			atom_at_least(f, t->a[k], 1, depth);
	}
}

/* p without the term, plus rest * e */
static bool put(const struct twirs_poly *p, int term, const struct twirs_mono *rest, const struct twir_expr *e,
		struct twirs_poly *r)
{
	struct twirs_mono t = p->t[term];
	struct twirs_poly q;
	t.k = -t.k;
	*r = *p;
	twirs_poly_of(e, &q);
	return t.k != INT64_MIN && twirs_add_mono(r, &t) && twirs_add(r, &q, rest);
}

/* A fact about min, max or a quotient says something about what they are made of. */
static void derive(struct twir_facts *f, const struct twirs_poly *p, int depth)
{
	for (int k = 0; k < p->n; k++) {
		const struct twirs_mono *t = &p->t[k];
		if (t->n != 1)
			continue;
		const struct twir_expr *e = t->a[0];
		const struct twirs_mono rest = twirs_number(t->k);
		struct twirs_poly r;
		if ((e->kind == TWIR_Min && t->k > 0) || (e->kind == TWIR_Max && t->k < 0)) {
			for (int i = 0; i < 2; i++)
				if (put(p, k, &rest, e->arg[i], &r))
					twirs_fact(f, &r, depth - 1);
			return;
		}
		if ((e->kind != TWIR_Div && e->kind != TWIR_Ceildiv) || (t->k != 1 && t->k != -1) || !twirs_is_index(e))
			continue;
		struct twirs_poly x, c, all;
		const struct twirs_mono minus = twirs_number(-t->k);
		const struct twirs_mono atom = twirs_atom(e);
		const struct twirs_poly self = {.n = 1, .t = {atom}};
		const int64_t extra = (t->k == 1) == (e->kind == TWIR_Ceildiv);
		r = *p;
		twirs_poly_of(e->arg[0], &x);
		twirs_poly_of(e->arg[1], &c);
		if (twirs_range_poly(f, &c).lo < 1 || !twirs_add(&r, &self, &minus) ||
		    __builtin_add_overflow(r.c, extra, &r.c) || !twirs_mul(&all, &r, &c) ||
		    !twirs_add(&all, &x, t->k == 1 ? &one : &minus_one) || __builtin_sub_overflow(all.c, extra, &all.c))
			continue;
		twirs_fact(f, &all, depth - 1);
		return;
	}
}

/* p >= 0 where all terms of one sign have a bound: the terms of the other sign have one too. With v >= 0, v < n says
 * that n is positive. */
static void narrow_side(struct twir_facts *f, const struct twirs_poly *p, bool positive, int depth)
{
	struct twirs_poly side;
	side.n = 0;
	side.c = p->c;
	for (int k = 0; k < p->n; k++) {
		if ((p->t[k].k > 0) == positive) {
			side.t[side.n++] = p->t[k];
			continue;
		}
		const int64_t hi = twirs_range_mono(f, &p->t[k]).hi;
		if (hi > INT64_MAX / 2 || hi < INT64_MIN / 2 || __builtin_add_overflow(side.c, hi, &side.c))
			return;
	}
	if (side.n < p->n)
		narrow_atoms(f, &side, depth);
}

/* v*q + rest >= 0 where the rest is negative: neither v nor q is 0 when v is not negative. i < M * (N - 2) says that
 * N is at least 3. */
static void narrow_product(struct twir_facts *f, const struct twirs_poly *p, const struct twir_expr *v, int depth)
{
	const struct twirs_mono factor = twirs_atom(v);
	struct twirs_poly q;
	struct twirs_mono t;
	int64_t rest = p->c;
	q.n = 0;
	q.c = 0;
	for (int k = 0; k < p->n; k++) {
		if (twirs_mono_div(&t, &p->t[k], &factor)) {
			if (!twirs_add_mono(&q, &t))
				return;
			continue;
		}
		const int64_t hi = twirs_range_mono(f, &p->t[k]).hi;
		if (hi > INT64_MAX / 2 || hi < INT64_MIN / 2 || __builtin_add_overflow(rest, hi, &rest))
			return;
	}
	if (q.n + (q.c != 0) < 2 || rest >= 0 || __builtin_sub_overflow(q.c, 1, &q.c))
		return;
	atom_at_least(f, v, 1, depth - 1);
	twirs_fact(f, &q, depth - 1);
}

static void narrow_products(struct twir_facts *f, const struct twirs_poly *p, int depth)
{
	for (int k = 0; k < p->n && depth > 0; k++)
		for (int i = 0; i < p->t[k].n; i++) {
			const struct twir_expr *v = p->t[k].a[i];
			bool first = true, again = false; /* several terms have it, and this is the first of them */
			for (int n = 0; n < p->n; n++)
				for (int j = 0; j < p->t[n].n; j++) {
					first &= n >= k || p->t[n].a[j] != v;
					again |= n > k && p->t[n].a[j] == v;
				}
			if (first && again && twir_range_of(f, v).lo >= 0)
				narrow_product(f, p, v, depth);
		}
}

static bool same(const struct twirs_poly *p, const struct twirs_poly *q)
{
	if (p->n != q->n || p->c != q->c)
		return false;
	for (int k = 0; k < p->n; k++)
		if (p->t[k].k != q->t[k].k || !twirs_mono_same(&p->t[k], &q->t[k]))
			return false;
	return true;
}

void twirs_fact(struct twir_facts *f, const struct twirs_poly *p, int depth)
{
	struct twirs_state *s = f->state;
	struct twirs_poly q = *p;
	if (p->n == 0 || s->facts.n > 256)
		return;
	narrow_atoms(f, p, depth);
	narrow_side(f, p, true, depth);
	narrow_side(f, p, false, depth);
	narrow_products(f, p, depth);
	twirs_expand(f, &q);
	if (q.n > 0 && q.n <= p->n + TWIRS_TERMS / 2) {
		narrow_atoms(f, &q, depth);
		const size_t bytes = offsetof(struct twirs_poly, t) + sizeof(q.t[0]) * (size_t)q.n;
		bool known = false;
		for (int k = 0; k < s->facts.n && !known; k++)
			known = same(s->facts.at[k].p, &q);
		if (!known) {
			struct twirs_fact fact = {.p = arena_copy(f->m->scratch, &q, bytes)};
			for (int k = 0; k < q.n; k++)
				fact.terms[q.t[k].k < 0] |= twirs_bit(q.t[k].a[0]);
			vec_push(f->m->scratch, &s->facts, fact);
			twirs_sign(f, twirs_hash(&q), 1);
		}
		if (depth > 0)
			derive(f, &q, depth);
	}
}

static bool learn_compare(struct twir_facts *f, const struct twir_expr *e, bool holds)
{
	if (!twirs_is_index(e->arg[0]))
		return false;
	struct twirs_poly a, b, d, up;
	twirs_poly_of(e->arg[0], &a);
	twirs_poly_of(e->arg[1], &b);
	d = b;
	up = a;
	if (!twirs_add(&d, &a, &minus_one) || !twirs_add(&up, &b, &minus_one)) /* b - a, a - b */
		return false;
	const bool order = e->kind == TWIR_Lt || e->kind == TWIR_Le;
	struct twirs_poly *p = holds || !order ? &d : &up;
	const bool strict = (e->kind == TWIR_Lt) == holds;
	if (order) {
		if (strict && __builtin_sub_overflow(p->c, 1, &p->c))
			return false;
		twirs_fact(f, p, 3);
		return true;
	}
	if ((e->kind == TWIR_Eq) == holds) {
		twirs_fact(f, &d, 3);
		twirs_fact(f, &up, 3);
		return true;
	}
	for (int side = 0; side < 2; side++) { /* unequal, and one side known: strictly so */
		p = side ? &up : &d;
		if (twirs_nonneg(f, p) && !__builtin_sub_overflow(p->c, 1, &p->c)) {
			twirs_fact(f, p, 3);
			break;
		}
	}
	return true;
}

bool twirs_assume(struct twir_facts *f, const struct twir_expr *cond, bool holds)
{
	if (cond->type.lanes != 1 || cond->type.scalar != TWIR_I1)
		return false;
	if (cond->kind == TWIR_Not)
		return twirs_assume(f, cond->arg[0], !holds);
	if ((cond->kind == TWIR_And && holds) || (cond->kind == TWIR_Or && !holds)) {
		const bool a = twirs_assume(f, cond->arg[0], holds);
		return twirs_assume(f, cond->arg[1], holds) || a;
	}
	if (cond->loads || cond->kind == TWIR_Const) /* memory may change */
		return false;
	vec_push(f->m->scratch, &f->known, holds ? cond : twirs_negate(f->m, cond));
	sign_known(f, cond->id, holds);
	if (twir_kind_flags((enum twir_kind)cond->kind) & TWIR_F_CMP)
		learn_compare(f, cond, holds);
	return true;
}

int twir_facts_assume(struct twir_facts *f, const struct twir_expr *cond)
{
	const int mark = f->state->layers.n;
	const struct twir_expr *e = twir_simplify(f, cond);
	twirs_push(f);
	twirs_assume(f, e, true);
	return mark;
}

void twir_facts_forget(struct twir_facts *f, int mark)
{
	TW_CHECK(mark >= 1, "no mark of twir_facts_assume");
	while (f->state->layers.n > mark)
		twirs_pop(f);
}

/* let v = value: its range, and for index expressions what it stands for. */
void twirs_define(struct twir_facts *f, const struct twir_var *v, const struct twir_expr *value)
{
	struct twirs_state *s = f->state;
	if (v->type.lanes != 1 || !twir_is_int((enum twir_scalar)v->type.scalar))
		return;
	set_range(f, v, twir_range_of(f, value));
	if (!twirs_is_index(value) || value->loads)
		return;
	struct twirs_poly p;
	twirs_poly_of(value, &p);
	twirs_expand(f, &p);
	const size_t bytes = sizeof(p); /* whole: it is copied as a struct when it is put in */
	map_set_ptr(&s->defs, v, arena_copy(f->m->scratch, &p, bytes));
	vec_push(f->m->scratch, &s->defined, v);
	twirs_sign(f, v->id, value->id);
}

void twirs_replace(struct twir_facts *f, const struct twir_var *v, const struct twir_expr *value)
{
	map_set_ptr(&f->state->replaced, v, (void *)(uintptr_t)value);
	changed_for_good(f, v);
}
