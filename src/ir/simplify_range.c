/* simplify_range: intervals and divisibility of integer expressions. Bounds saturate at 64 bits; index arithmetic is
 * taken not to overflow (sizes are checked), other integers are taken to wrap unless their bounds show that they
 * cannot. */
#include "ir/simplify_int.h"

typedef __int128 wide;

static int64_t clamp(wide v)
{
	return v > INT64_MAX ? INT64_MAX : v < INT64_MIN ? INT64_MIN : (int64_t)v;
}

static struct twir_range everything(enum twir_scalar s)
{
	switch (s) {
	case TWIR_I1:
		return (struct twir_range){0, 1, 1};
	case TWIR_I8:
		return (struct twir_range){INT8_MIN, INT8_MAX, 1};
	case TWIR_I16:
		return (struct twir_range){INT16_MIN, INT16_MAX, 1};
	case TWIR_I32:
		return (struct twir_range){INT32_MIN, INT32_MAX, 1};
	case TWIR_U8:
		return (struct twir_range){0, UINT8_MAX, 1};
	case TWIR_U16:
		return (struct twir_range){0, UINT16_MAX, 1};
	case TWIR_U32:
		return (struct twir_range){0, UINT32_MAX, 1};
	default:
		return (struct twir_range){INT64_MIN, INT64_MAX, 1};
	}
}

static struct twir_range exactly(int64_t v)
{
	const int64_t m = twirs_gcd(v, 0);
	return (struct twir_range){v, v, v == 0 ? INT64_MAX : m};
}

/* gcd where INT64_MAX stands for "any", as of the number 0 */
static int64_t common(int64_t a, int64_t b)
{
	return a == INT64_MAX ? b : b == INT64_MAX ? a : twirs_gcd(a, b);
}

static struct twir_range add(struct twir_range a, struct twir_range b)
{
	return (struct twir_range){clamp((wide)a.lo + b.lo), clamp((wide)a.hi + b.hi), common(a.multiple, b.multiple)};
}

static struct twir_range mul(struct twir_range a, struct twir_range b)
{
	const wide v[4] = {(wide)a.lo * b.lo, (wide)a.lo * b.hi, (wide)a.hi * b.lo, (wide)a.hi * b.hi};
	wide lo = v[0], hi = v[0];
	for (int k = 1; k < 4; k++) {
		lo = v[k] < lo ? v[k] : lo;
		hi = v[k] > hi ? v[k] : hi;
	}
	const wide m = (wide)a.multiple * b.multiple;
	const bool zero = a.multiple == INT64_MAX || b.multiple == INT64_MAX;
	return (struct twir_range){clamp(lo), clamp(hi),
				   zero		       ? INT64_MAX
				   : m > INT64_MAX / 2 ? twirs_gcd(a.multiple, 0)
						       : (int64_t)m};
}

static struct twir_range negate(struct twir_range a)
{
	return (struct twir_range){clamp(-(wide)a.hi), clamp(-(wide)a.lo), a.multiple};
}

static struct twir_range either(struct twir_range a, struct twir_range b)
{
	return (struct twir_range){a.lo < b.lo ? a.lo : b.lo, a.hi > b.hi ? a.hi : b.hi,
				   common(a.multiple, b.multiple)};
}

struct twir_range twirs_range_mono(struct twir_facts *f, const struct twirs_mono *t)
{
	struct twir_range r = exactly(t->k);
	for (int k = 0; k < t->n; k++) {
		const struct twir_range a = twir_range_of(f, t->a[k]);
		if (k > 0 && t->a[k] == t->a[k - 1] && t->n == 2 && t->k > 0) { /* a square */
			const struct twir_range s = mul(a, a);
			return mul(exactly(t->k), (struct twir_range){s.lo < 0 ? 0 : s.lo, s.hi, s.multiple});
		}
		r = mul(r, a);
	}
	return r;
}

struct twir_range twirs_range_terms(struct twir_facts *f, const struct twirs_poly *p, int64_t *least)
{
	struct twir_range r = exactly(p->c);
	for (int k = 0; k < p->n; k++) {
		const struct twir_range t = twirs_range_mono(f, &p->t[k]);
		least[k] = t.lo;
		r = add(r, t);
	}
	return r;
}

struct twir_range twirs_range_poly(struct twir_facts *f, const struct twirs_poly *p)
{
	int64_t least[TWIRS_TERMS];
	return twirs_range_terms(f, p, least);
}

/* Quotients: floor for index, toward zero for the rest; only positive divisors are looked at. */
static struct twir_range quotient(struct twir_range a, struct twir_range b, bool floors)
{
	if (b.lo < 0)
		return (struct twir_range){INT64_MIN, INT64_MAX, 1};
	if (b.lo == 0)
		return (struct twir_range){a.lo < 0 ? a.lo : 0, a.hi > 0 ? a.hi : 0, 1};
	const int64_t by_lo = a.lo < 0 ? b.lo : b.hi, by_hi = a.hi < 0 ? b.hi : b.lo;
	const int64_t lo = floors ? tw_floordiv(a.lo, by_lo) : a.lo / by_lo;
	const int64_t hi = floors ? tw_floordiv(a.hi, by_hi) : a.hi / by_hi;
	int64_t multiple = 1;
	if (b.lo == b.hi && a.multiple != INT64_MAX && a.multiple % b.lo == 0)
		multiple = a.multiple / b.lo;
	return (struct twir_range){a.lo == INT64_MIN ? INT64_MIN : lo, a.hi == INT64_MAX ? INT64_MAX : hi, multiple};
}

static struct twir_range remainder_of(struct twir_range a, struct twir_range b, bool floors)
{
	if (b.lo < 0)
		return (struct twir_range){INT64_MIN, INT64_MAX, 1};
	struct twir_range r = {0, b.hi == INT64_MAX ? INT64_MAX : b.hi > 0 ? b.hi - 1 : 0, 1};
	if (a.lo >= 0 && a.hi < r.hi)
		r.hi = a.hi;
	if (!floors && a.lo < 0)
		r.lo = -r.hi;
	if (b.lo == b.hi && b.lo > 0)
		r.multiple = common(a.multiple, b.lo);
	return r;
}

static struct twir_range ceiling(struct twir_range a, struct twir_range b)
{
	if (b.lo < 1)
		return (struct twir_range){a.lo >= 0 && b.lo >= 0 ? 0 : INT64_MIN, INT64_MAX, 1};
	return negate(quotient(negate(a), b, true));
}

static struct twir_range of_var(struct twir_facts *f, const struct twir_var *v)
{
	map_set_ptr(&f->state->seen, v, f);
	struct twir_range r = {v->lo, v->hi, v->multiple < 1 ? 1 : v->multiple};
	const struct twir_range all = everything((enum twir_scalar)v->type.scalar);
	if (v->kind == TWIR_BOUND || v->kind == TWIR_ARG) /* their facts are not kept */
		r = all;
	if ((v->kind == TWIR_LOOP || v->kind == TWIR_AXIS) && r.lo < 0) /* loops count from 0 */
		r.lo = 0;
	if (r.lo < all.lo)
		r.lo = all.lo;
	if (r.hi > all.hi)
		r.hi = all.hi;
	const struct twir_range *more = map_get_ptr(&f->ranges, v);
	if (more) {
		r.lo = more->lo > r.lo ? more->lo : r.lo;
		r.hi = more->hi < r.hi ? more->hi : r.hi;
		r.multiple = more->multiple > r.multiple ? more->multiple : r.multiple;
	}
	return r;
}

static struct twir_range of_cast(struct twir_facts *f, const struct twir_expr *e)
{
	const struct twir_range all = everything((enum twir_scalar)e->type.scalar);
	if (!twir_is_int((enum twir_scalar)e->arg[0]->type.scalar) || e->arg[0]->type.scalar == TWIR_U64)
		return all;
	const struct twir_range a = twir_range_of(f, e->arg[0]);
	if (e->type.scalar == TWIR_U64)
		return a.lo >= 0 ? a : all;
	return a.lo >= all.lo && a.hi <= all.hi ? a : all;
}

static struct twir_range of_node(struct twir_facts *f, const struct twir_expr *e)
{
	const enum twir_scalar s = (enum twir_scalar)e->type.scalar;
	const struct twir_range all = everything(s);
	struct twir_range a = all, b = all;
	if (s == TWIR_U64 && e->kind != TWIR_Const && e->kind != TWIR_Cast && e->kind != TWIR_Splat)
		return all;
	if (e->kind >= TWIR_Add && e->kind <= TWIR_MaxNum && e->arg[0]->type.scalar == TWIR_U64)
		return all;
	if (e->kind == TWIR_Cond || e->kind == TWIR_Select)
		return either(twir_range_of(f, e->arg[1]), twir_range_of(f, e->arg[2]));
	if (e->n >= 1 && e->n <= 2 && e->kind != TWIR_Load && e->kind != TWIR_Cast && e->arg[0]->type.scalar == s) {
		a = twir_range_of(f, e->arg[0]);
		if (e->n == 2 && e->arg[1]->type.scalar == s)
			b = twir_range_of(f, e->arg[1]);
	}
	switch (e->kind) {
	case TWIR_Const:
		return s == TWIR_U64 && e->u.i < 0 ? all : exactly(e->u.i);
	case TWIR_Var:
		return of_var(f, e->u.var);
	case TWIR_Iota:
		return (struct twir_range){0, e->type.lanes - 1, 1};
	case TWIR_Splat:
	case TWIR_Extract:
		return e->arg[0]->type.scalar == s ? twir_range_of(f, e->arg[0]) : all;
	case TWIR_Cast:
		return of_cast(f, e);
	case TWIR_Add:
		return add(a, b);
	case TWIR_Sub:
		return add(a, negate(b));
	case TWIR_Mul:
		return mul(a, b);
	case TWIR_Neg:
		return negate(a);
	case TWIR_Div:
		return quotient(a, b, s == TWIR_INDEX);
	case TWIR_Mod:
		return remainder_of(a, b, s == TWIR_INDEX);
	case TWIR_Ceildiv:
		return ceiling(a, b);
	case TWIR_Roundup: {
		struct twir_range r = mul(ceiling(a, b), b);
		r.lo = b.lo >= 1 && a.lo > r.lo ? a.lo : r.lo;
		return r;
	}
	case TWIR_Min:
	case TWIR_MinNum:
		return (struct twir_range){a.lo < b.lo ? a.lo : b.lo, a.hi < b.hi ? a.hi : b.hi,
					   common(a.multiple, b.multiple)};
	case TWIR_Max:
	case TWIR_MaxNum:
		return (struct twir_range){a.lo > b.lo ? a.lo : b.lo, a.hi > b.hi ? a.hi : b.hi,
					   common(a.multiple, b.multiple)};
	case TWIR_Abs: {
		const struct twir_range n = negate(a);
		return a.lo >= 0 ? a : (struct twir_range){a.hi < 0 ? n.lo : 0, a.hi > n.hi ? a.hi : n.hi, a.multiple};
	}
	case TWIR_And:
		return a.lo >= 0 && b.lo >= 0 ? (struct twir_range){0, a.hi < b.hi ? a.hi : b.hi, 1} : all;
	case TWIR_Shr:
		return a.lo >= 0 ? (struct twir_range){0, a.hi, 1} : all;
	default:
		return all;
	}
}

struct twir_range twir_range_of(struct twir_facts *f, const struct twir_expr *e)
{
	if (e->kind == TWIR_Const)
		return of_node(f, e);
	const struct twir_range *known = map_get_ptr(&twirs_ground(f)->ranges, e);
	if (known)
		return *known;
	const struct twir_range all = everything((enum twir_scalar)e->type.scalar);
	struct twir_range r = twir_is_int((enum twir_scalar)e->type.scalar) ? of_node(f, e) : all;
	const bool saturated = r.lo == INT64_MIN || r.hi == INT64_MAX;
	if (e->type.scalar != TWIR_INDEX && (saturated || r.lo < all.lo || r.hi > all.hi)) /* it may wrap */
		r = all;
	const struct twir_range *more = e->kind == TWIR_Var ? NULL : map_get_ptr(&f->ranges, e);
	if (more) {
		r.lo = more->lo > r.lo ? more->lo : r.lo;
		r.hi = more->hi < r.hi ? more->hi : r.hi;
	}
	struct twir_range *keep = ARENA_NEW(f->m->scratch, struct twir_range);
	*keep = r;
	map_set_ptr(&twirs_ground(f)->ranges, e, keep);
	return r;
}

/* The atom lies within lo .. hi from now on, until the layer ends. */
void twirs_narrow(struct twir_facts *f, const struct twir_expr *atom, int64_t lo, int64_t hi)
{
	struct twirs_state *s = f->state;
	const struct twir_range now = twir_range_of(f, atom);
	if (lo <= now.lo && hi >= now.hi)
		return;
	/* A guard may leave a single lane; that lane's register elements are still named by `lane`. */
	const bool lane = atom->kind == TWIR_Var && atom->u.var->kind == TWIR_WORKER && atom->u.var->level == TWIR_LANE;
	if (lane && (lo > now.lo ? lo : now.lo) == (hi < now.hi ? hi : now.hi))
		return;
	const void *key = atom->kind == TWIR_Var ? (const void *)atom->u.var : (const void *)atom;
	struct twir_range *r = ARENA_NEW(f->m->scratch, struct twir_range);
	const int64_t m = now.multiple;
	if (m > 1 && m != INT64_MAX) { /* to multiples inside */
		if (hi < INT64_MAX)
			hi = tw_floordiv(hi, m) * m;
		if (lo > INT64_MIN / 2 && lo < INT64_MAX / 2)
			lo = -tw_floordiv(-lo, m) * m;
	}
	*r = (struct twir_range){lo > now.lo ? lo : now.lo, hi < now.hi ? hi : now.hi, m};
	vec_push(f->m->scratch, &s->undo,
		 ((struct twirs_undo){(uint64_t)(uintptr_t)key, map_get_ptr(&f->ranges, key)}));
	map_set_ptr(&f->ranges, key, r);
	twirs_sign(f, atom->id, tw_hash_mix((uint64_t)r->lo, (uint64_t)r->hi));
}
