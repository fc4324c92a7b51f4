/* lower_expr: expressions of a lane region as vectors. What does not depend on the lane stays scalar and is splat
 * where it meets a vector. Indices of stride 1 become wide loads, of stride 0 scalar loads, others gathers with
 * 32-bit index vectors where ranges prove that they fit. Lanes that a guard or a lazy conditional excludes never
 * touch memory: their loads are masked. */
#include "pass/lower_int.h"

static bool memo_bool(struct tw_map *memo, const struct twir_expr *e, bool *value)
{
	const intptr_t known = (intptr_t)map_get_ptr(memo, e);
	*value = known == 2;
	return known != 0;
}

static bool remember(struct tw_map *memo, const struct twir_expr *e, bool value)
{
	map_set_ptr(memo, e, (void *)(intptr_t)(value ? 2 : 1));
	return value;
}

static const struct twp_reg *reg_of(const struct twp_lower *k, const struct twir_expr *e)
{
	return e->kind == TWIR_Load ? map_get_ptr(&k->regs, e->u.tensor) : NULL;
}

bool twp_varies(struct twp_lower *k, const struct twir_expr *e)
{
	bool yes;
	if (memo_bool(&k->varies, e, &yes))
		return yes;
	const struct twp_reg *r = reg_of(k, e);
	if (e->kind == TWIR_Var)
		yes = e->u.var == k->lane || map_get_ptr(&k->vars, e->u.var);
	else if (e->kind != TWIR_Reduce)
		yes = r && r->per_lane;
	for (int i = 0; i < e->n && !yes && e->kind != TWIR_Reduce; i++)
		yes = twp_varies(k, e->arg[i]);
	return remember(&k->varies, e, yes);
}

/* Does it read memory (not registers)? */
static bool reads(struct twp_lower *k, const struct twir_expr *e)
{
	bool yes;
	if (!e->loads)
		return false;
	if (memo_bool(&k->reads, e, &yes))
		return yes;
	yes = e->kind == TWIR_Load && e->u.tensor->scope != TWIR_REGISTER;
	for (int i = 0; i < e->n && !yes; i++)
		yes = reads(k, e->arg[i]);
	return remember(&k->reads, e, yes);
}

/* Does it vary through anything but the number of the lane? */
static bool varies_otherwise(struct twp_lower *k, const struct twir_expr *e)
{
	bool yes;
	if (!twp_varies(k, e))
		return false;
	if (memo_bool(&k->other, e, &yes))
		return yes;
	yes = e->kind == TWIR_Load || (e->kind == TWIR_Var && e->u.var != k->lane);
	for (int i = 0; i < e->n && !yes; i++)
		yes = varies_otherwise(k, e->arg[i]);
	return remember(&k->other, e, yes);
}

static bool linear(struct twp_lower *k, const struct twir_expr *e, const struct twir_expr **base, int64_t *stride)
{
	return !varies_otherwise(k, e) && twir_linear_in(&k->w.facts, e, k->lane, base, stride);
}

void twp_ctx_init(struct twp_lower *k, struct twp_ctx *c, const struct twp_ctx *from)
{
	c->mask = from ? from->mask : NULL;
	c->any = from ? from->any : NULL;
	c->prefix = from ? from->prefix : true;
	c->up = NULL;
	map_init(&c->memo, k->m->scratch);
}

/* If cond holds for the first lanes only (or for all or none): its value at lane 0; else NULL. */
static const struct twir_expr *at_first(struct twp_lower *k, const struct twir_expr *cond)
{
	struct twir_module *m = k->m;
	const struct twir_expr *a, *b;
	int64_t s, t;
	if (!twp_varies(k, cond))
		return cond->loads ? NULL : cond;
	if (cond->kind == TWIR_And) {
		a = at_first(k, cond->arg[0]);
		b = a ? at_first(k, cond->arg[1]) : NULL;
		return b ? twir_and(m, a, b) : NULL;
	}
	if ((cond->kind != TWIR_Lt && cond->kind != TWIR_Le) || cond->arg[0]->type.scalar != TWIR_INDEX)
		return NULL;
	if (!linear(k, cond->arg[0], &a, &s) || !linear(k, cond->arg[1], &b, &t) || s < t || a->loads || b->loads)
		return NULL;
	return twir_binary(m, cond->kind, a, b);
}

void twp_ctx_narrow(struct twp_lower *k, struct twp_ctx *c, const struct twp_ctx *from, const struct twir_expr *cond,
		    bool negate, const struct twir_expr *mask)
{
	struct twir_module *m = k->m;
	const struct twir_expr *first = negate ? NULL : at_first(k, cond);
	twp_ctx_init(k, c, from);
	mask = twp_vector(k, negate ? twir_not(m, mask) : mask);
	c->mask = from->mask ? twir_and(m, from->mask, mask) : mask;
	c->prefix = from->prefix && first;
	if (c->prefix) {
		/* What is known here is known of active lanes: it says nothing of whether there are any. */
		if (!twir_prove(&k->w.facts, first)) {
			first = twir_simplify(&k->w.facts, first);
			c->any = from->any ? twir_and(m, from->any, first) : first;
		}
	} else {
		c->any = twir_reduce(m, TWIR_Or, c->mask);
	}
}

const struct twir_expr *twp_vector(struct twp_lower *k, const struct twir_expr *e)
{
	return e->type.lanes > 1 ? e : twir_splat(k->m, e, k->lanes);
}

int twp_reg_index(struct twp_lower *k, struct twp_ctx *c, const struct twp_reg *r, int n,
		  const struct twir_expr *const *index, const struct twir_expr **out)
{
	struct twir_module *m = k->m;
	const struct twir_expr *own[TWIR_MAX_RANK * 2];
	int count = 0;
	if (r->f.n == 0) {
		for (int d = 0; d < n; d++)
			own[count++] = index[d];
	}
	bool outer[TWIR_MAX_RANK] = {false}; /* a factor further out has coordinates there */
	for (int i = 0; i < r->f.n; i++) {
		const struct twp_factor *f = &r->f.at[i];
		for (int d = 0; d < f->rank; d++) {
			int64_t one;
			const struct twir_expr *extent = twp_task_extent(m, f, d);
			if (twir_const_int(extent, &one) && one == 1)
				continue;
			if (!f->spatial) {
				const struct twir_expr *x = twir_div(m, index[d], twp_inner_extent(m, &r->f, i, d));
				if (count == TWIR_MAX_RANK)
					tw_raise(TW_ERR_MODEL, "register tensor %s mirrors more than %d repeats",
						 r->was->name, count);
				own[count++] = twir_simplify(&k->w.facts, outer[d] ? twir_mod(m, x, extent) : x);
			}
			outer[d] = true;
		}
	}
	for (int i = 0; i < count; i++) {
		if (!k->scalar && twp_varies(k, own[i]))
			k->failed = true;
		out[i] = k->failed ? twir_index(m, 0) : k->scalar ? own[i] : twp_lower_expr(k, c, own[i]);
	}
	return count;
}

static const struct twir_expr *reg_load(struct twp_lower *k, struct twp_ctx *c, const struct twp_reg *r,
					const struct twir_expr *e)
{
	const struct twir_expr *at[TWIR_MAX_RANK];
	const int n = twp_reg_index(k, c, r, e->nidx, e->arg, at);
	return twir_load(k->m, r->now, n, at);
}

/* Same value in every lane: a scalar, with register tensors replaced. */
static const struct twir_expr *uniform_part(struct twp_lower *k, struct twp_ctx *c, const struct twir_expr *e)
{
	if (!e->loads)
		return e;
	const struct twir_expr *done = map_get_ptr(&c->memo, e), *arg[64];
	if (done)
		return done;
	const struct twp_reg *r = reg_of(k, e);
	if (r) {
		done = reg_load(k, c, r, e);
	} else {
		TW_CHECK(e->n <= TW_COUNT(arg));
		for (int i = 0; i < e->n; i++)
			arg[i] = uniform_part(k, c, e->arg[i]);
		done = twir_with_args(k->m, e, arg);
	}
	map_set_ptr(&c->memo, e, (void *)done);
	return done;
}

static const struct twir_expr *uniform(struct twp_lower *k, struct twp_ctx *c, const struct twir_expr *e)
{
	const struct twir_expr *x = uniform_part(k, c, e);
	if (!c->any || !reads(k, e))
		return x;
	return twir_cond(k->m, c->any, x, twir_const_of(k->m, x->type, 0));
}

static bool within(struct twir_range r, int64_t lo, int64_t hi)
{
	return r.lo >= lo && r.hi <= hi;
}

/* Terms of a sum: those without lane into *sum (NULL: none), the others into the result (NULL: none). */
static const struct twir_expr *terms(struct twp_lower *k, const struct twir_expr *e, bool negate,
				     const struct twir_expr **sum, const struct twir_expr *rest)
{
	struct twir_module *m = k->m;
	if (twp_varies(k, e) && (e->kind == TWIR_Add || e->kind == TWIR_Sub)) {
		rest = terms(k, e->arg[0], negate, sum, rest);
		return terms(k, e->arg[1], negate ^ (e->kind == TWIR_Sub), sum, rest);
	}
	const struct twir_expr **to = twp_varies(k, e) ? &rest : sum;
	const struct twir_expr *zero = twir_index(m, 0), *had = *to ? *to : zero;
	*to = negate ? twir_sub(m, had, e) : twir_add(m, had, e);
	return rest;
}

/* A let of index type that is kept as a vector of i32. */
static bool is_narrow(const struct twir_var *v)
{
	return v && v->type.scalar == TWIR_I32;
}

static bool fits32(struct twp_lower *k, const struct twir_expr *e);

/* (u + r) / n and (u + r) % n with u and n the same in all lanes need 64 bits for u only: u % n + r is small. */
static bool splits(struct twp_lower *k, const struct twir_expr *e, const struct twir_expr **u,
		   const struct twir_expr **r)
{
	if (twp_varies(k, e->arg[1]) || !within(twir_range_of(&k->w.facts, e->arg[1]), 1, 1 << 30))
		return false;
	*u = NULL;
	*r = terms(k, e->arg[0], false, u, NULL);
	if (!*r || !*u || *r == e->arg[0])
		return false;
	*r = twir_simplify(&k->w.facts, *r);
	return twp_varies(k, *r) && within(twir_range_of(&k->w.facts, *r), 0, 1 << 30) && fits32(k, *r);
}

/* An index that was 32 bits before it became one */
static bool is_widened(const struct twir_expr *e)
{
	return e->kind == TWIR_Cast && e->type.scalar == TWIR_INDEX && e->arg[0]->type.scalar == TWIR_I32;
}

/* Can the lane-dependent index expression be computed in 32 bits, with truncating division? */
static bool fits32(struct twp_lower *k, const struct twir_expr *e)
{
	const struct twir_expr *u, *r;
	if (e->type.scalar != TWIR_INDEX || !within(twir_range_of(&k->w.facts, e), INT32_MIN, INT32_MAX))
		return false;
	if (!twp_varies(k, e))
		return true;
	switch (e->kind) {
	case TWIR_Var:
		return e->u.var == k->lane || is_narrow(map_get_ptr(&k->vars, e->u.var));
	case TWIR_Cast:
		return is_widened(e);
	case TWIR_Add:
	case TWIR_Sub:
	case TWIR_Mul:
	case TWIR_Min:
	case TWIR_Max:
		return fits32(k, e->arg[0]) && fits32(k, e->arg[1]);
	case TWIR_Div:
	case TWIR_Mod:
		if (splits(k, e, &u, &r))
			return true;
		return fits32(k, e->arg[0]) && fits32(k, e->arg[1]) && twir_range_of(&k->w.facts, e->arg[0]).lo >= 0 &&
		       twir_range_of(&k->w.facts, e->arg[1]).lo > 0;
	default:
		return false;
	}
}

static const struct twir_expr *vector32(struct twp_lower *k, struct twp_ctx *c, const struct twir_expr *e);

/* The part of a division that splits which fits: (u % n + r) OP n. */
static const struct twir_expr *small_division(struct twp_lower *k, struct twp_ctx *c, const struct twir_expr *e,
					      const struct twir_expr *u, const struct twir_expr *r)
{
	struct twir_module *m = k->m;
	const struct twir_expr *rest = twir_simplify(&k->w.facts, twir_mod(m, u, e->arg[1]));
	const struct twir_expr *x = twp_vector(k, twir_cast(m, TWIR_I32, uniform(k, c, rest)));
	const struct twir_expr *n = twp_vector(k, twir_cast(m, TWIR_I32, uniform(k, c, e->arg[1])));
	int64_t zero;
	const struct twir_expr *v = twp_vector(k, vector32(k, c, r));
	return twir_binary(m, e->kind, twir_const_int(rest, &zero) && zero == 0 ? v : twir_add(m, x, v), n);
}

static const struct twir_expr *vector32(struct twp_lower *k, struct twp_ctx *c, const struct twir_expr *e)
{
	struct twir_module *m = k->m;
	int64_t value;
	if (twir_const_int(e, &value))
		return twir_int(m, TWIR_I32, value);
	if (!twp_varies(k, e))
		return twir_cast(m, TWIR_I32, uniform(k, c, e));
	if (e->kind == TWIR_Var && e->u.var == k->lane)
		return twir_iota(m, TWIR_I32, k->lanes);
	if (e->kind == TWIR_Var)
		return twir_var(m, map_get_ptr(&k->vars, e->u.var));
	if (is_widened(e))
		return twp_vector(k, twp_lower_expr(k, c, e->arg[0]));
	const struct twir_expr *u, *r;
	if ((e->kind == TWIR_Div || e->kind == TWIR_Mod) && splits(k, e, &u, &r)) {
		const struct twir_expr *v = small_division(k, c, e, u, r);
		if (e->kind == TWIR_Mod)
			return v;
		return twir_add(m, twp_vector(k, twir_cast(m, TWIR_I32, uniform(k, c, twir_div(m, u, e->arg[1])))), v);
	}
	const struct twir_expr *a = vector32(k, c, e->arg[0]), *b = vector32(k, c, e->arg[1]);
	return twir_binary(m, e->kind, twp_vector(k, a), twp_vector(k, b));
}

static const struct twir_expr *by_args(struct twp_lower *k, struct twp_ctx *c, const struct twir_expr *e)
{
	const struct twir_expr *arg[64];
	bool vector = false;
	TW_CHECK(e->n <= TW_COUNT(arg));
	for (int i = 0; i < e->n; i++) {
		arg[i] = twp_lower_expr(k, c, e->arg[i]);
		vector |= arg[i]->type.lanes > 1;
	}
	for (int i = 0; i < e->n && vector; i++)
		arg[i] = twp_vector(k, arg[i]);
	return twir_with_args(k->m, e, arg);
}

enum { FEW = 1 << 12 };

/* (u + r) / n and (u + r) % n of any size, where lanes differ by r only, less than n at run time: then r reaches the next multiple of n or does not,
 * and no lane divides. NULL: r is not known to be small. */
static const struct twir_expr *stepping_division(struct twp_lower *k, struct twp_ctx *c, const struct twir_expr *e)
{
	struct twir_module *m = k->m;
	if ((e->kind != TWIR_Div && e->kind != TWIR_Mod) || twp_varies(k, e->arg[1]))
		return NULL;
	const struct twir_expr *u = NULL, *n = e->arg[1], *r;
	r = terms(k, e->arg[0], false, &u, NULL);
	if (!r || !u || r == e->arg[0])
		return NULL;
	r = twir_simplify(&k->w.facts, r);
	const struct twir_range range = twir_range_of(&k->w.facts, r);
	if (!twp_varies(k, r) || !within(range, 0, FEW) || !fits32(k, r))
		return NULL;
	const struct twir_expr *most = twir_index(m, range.hi), *zero = twp_vector(k, twir_index(m, 0));
	const struct twir_expr *rest = twir_mod(m, u, n), *v = twp_vector(k, vector32(k, c, r));
	const struct twir_expr *left = twir_min(m, twir_sub(m, n, rest), twir_add(m, most, twir_index(m, 1)));
	const struct twir_expr *next = twir_le(m, twp_vector(k, twir_cast(m, TWIR_I32, uniform(k, c, left))), v);
	const struct twir_expr *first, *step;
	if (e->kind == TWIR_Div) {
		first = twp_vector(k, uniform(k, c, twir_div(m, u, n)));
		step = twir_add(m, first, twir_select(m, next, twp_vector(k, twir_index(m, 1)), zero));
	} else {
		first = twir_add(m, twp_vector(k, uniform(k, c, rest)), twir_cast(m, TWIR_INDEX, v));
		step = twir_sub(m, first, twir_select(m, next, twp_vector(k, uniform(k, c, n)), zero));
	}
	return twir_cond(m, uniform(k, c, twir_lt(m, most, n)), step, by_args(k, c, e));
}

/* An index expression that varies, as a vector of i32 (narrow) or of index. */
static const struct twir_expr *index_vector(struct twp_lower *k, struct twp_ctx *c, const struct twir_expr *e,
					    bool narrow)
{
	struct twir_module *m = k->m;
	const struct twir_expr *base, *sum = NULL, *rest;
	int64_t stride, zero;
	if (!twp_varies(k, e))
		return twp_vector(k, uniform(k, c, e));
	if (fits32(k, e)) {
		const struct twir_expr *v = twp_vector(k, vector32(k, c, e));
		return narrow ? v : twir_cast(m, TWIR_INDEX, v);
	}
	if (linear(k, e, &base, &stride) &&
	    within((struct twir_range){.lo = stride, .hi = stride}, INT32_MIN / 4096, INT32_MAX / 4096)) {
		const struct twir_expr *v = twir_mul(m, twir_iota(m, TWIR_I32, k->lanes),
						     twir_splat(m, twir_int(m, TWIR_I32, stride), k->lanes));
		v = stride == 1 ? twir_iota(m, TWIR_I32, k->lanes) : v;
		if (twir_const_int(base, &zero) && zero == 0)
			return narrow ? v : twir_cast(m, TWIR_INDEX, v);
		return twir_add(m, twp_vector(k, uniform(k, c, base)), twir_cast(m, TWIR_INDEX, v));
	}
	if (e->kind == TWIR_Div && splits(k, e, &sum, &rest))
		return twir_add(m, twp_vector(k, uniform(k, c, twir_div(m, sum, e->arg[1]))),
				twir_cast(m, TWIR_INDEX, small_division(k, c, e, sum, rest)));
	if ((rest = stepping_division(k, c, e)) != NULL)
		return rest;
	sum = NULL;
	if (e->kind == TWIR_Add || e->kind == TWIR_Sub) {
		rest = terms(k, e, false, &sum, NULL);
		if (sum && rest != e)
			return twir_add(m, twp_vector(k, uniform(k, c, sum)), index_vector(k, c, rest, false));
	}
	return e->kind == TWIR_Var || e->kind == TWIR_Load || e->kind == TWIR_Cond
		       ? twp_vector(k, twp_lower_expr(k, c, e))
		       : by_args(k, c, e);
}

static const struct twir_expr *clamped(struct twp_lower *k, struct twp_ctx *c, const struct twir_expr *n, int64_t lo)
{
	struct twir_module *m = k->m;
	n = twir_simplify(&k->w.facts, n);
	const struct twir_range r = twir_range_of(&k->w.facts, n);
	if (r.hi > INT32_MAX)
		n = twir_min(m, n, twir_index(m, k->lanes));
	if (r.lo < INT32_MIN)
		n = twir_max(m, n, twir_index(m, lo));
	n = twir_simplify(&k->w.facts, n);
	return twir_splat(m, twir_cast(m, TWIR_I32, uniform(k, c, n)), k->lanes);
}

/* Comparison of indices; lanes are compared in 32 bits with a clamped scalar where both sides are linear in them. */
static const struct twir_expr *compare(struct twp_lower *k, struct twp_ctx *c, const struct twir_expr *e)
{
	struct twir_module *m = k->m;
	const struct twir_expr *a = e->arg[0], *b = e->arg[1], *base[2];
	const struct twir_expr *lanes = twir_iota(m, TWIR_I32, k->lanes), *one = twir_index(m, 1);
	int64_t stride[2];
	if (linear(k, a, &base[0], &stride[0]) && linear(k, b, &base[1], &stride[1])) {
		/* s * lane  OP  d */
		const int64_t s = stride[0] - stride[1];
		const struct twir_expr *d = twir_sub(m, base[1], base[0]);
		const bool less = e->kind == TWIR_Lt || e->kind == TWIR_Le;
		if (s == 0)
			return twir_binary(m, e->kind, uniform(k, c, base[0]), uniform(k, c, base[1]));
		if (less && s > 0) {
			const struct twir_expr *by = twir_index(m, s);
			const struct twir_expr *n =
				e->kind == TWIR_Lt ? twir_ceildiv(m, d, by) : twir_add(m, twir_div(m, d, by), one);
			return twir_lt(m, lanes, clamped(k, c, n, 0));
		}
		if (less && s != INT64_MIN) {
			const struct twir_expr *by = twir_index(m, -s), *up = twir_sub(m, base[0], base[1]);
			const struct twir_expr *n =
				e->kind == TWIR_Le ? twir_ceildiv(m, up, by) : twir_add(m, twir_div(m, up, by), one);
			return twir_le(m, clamped(k, c, n, 0), lanes);
		}
		if (s == 1 || s == -1) {
			const struct twir_expr *at = s == 1 ? d : twir_sub(m, base[0], base[1]);
			return twir_binary(m, e->kind, lanes, clamped(k, c, at, -1));
		}
	}
	if (fits32(k, a) && fits32(k, b))
		return twir_binary(m, e->kind, twp_vector(k, vector32(k, c, a)), twp_vector(k, vector32(k, c, b)));
	return twir_binary(m, e->kind, index_vector(k, c, a, false), index_vector(k, c, b, false));
}

const struct twir_expr *twp_narrow(struct twp_lower *k, struct twp_ctx *c, const struct twir_expr *e)
{
	return twp_varies(k, e) && fits32(k, e) ? twp_vector(k, vector32(k, c, e)) : NULL;
}

enum twp_access twp_access(struct twp_lower *k, struct twp_ctx *c, const struct twir_expr *index,
			   const struct twir_expr **lowered)
{
	const struct twir_expr *base;
	int64_t stride;
	if (!twp_varies(k, index)) {
		*lowered = uniform(k, c, index);
		return TWP_ONE;
	}
	if (linear(k, index, &base, &stride) && (stride == 0 || stride == 1)) {
		*lowered = uniform(k, c, base);
		return stride == 0 ? TWP_ONE : TWP_WIDE;
	}
	*lowered = index_vector(k, c, index, true);
	return TWP_SCATTERED;
}

const struct twir_expr *twp_index_of_first(struct twp_lower *k, struct twp_ctx *c, const struct twir_expr *index)
{
	const struct twir_expr *base;
	int64_t stride;
	if (linear(k, index, &base, &stride))
		return uniform(k, c, base);
	const enum twp_access how = twp_access(k, c, index, &base);
	return how == TWP_SCATTERED ? twir_extract(k->m, base, 0) : base;
}

/* other: what excluded lanes give; a scalar. */
static const struct twir_expr *memory_load(struct twp_lower *k, struct twp_ctx *c, const struct twir_expr *e,
					   const struct twir_expr *other)
{
	struct twir_module *m = k->m;
	struct twir_tensor *t = e->u.tensor;
	TW_CHECK(e->nidx == 1, "indices are flat");
	const struct twir_expr *at, *x;
	switch (twp_access(k, c, e->arg[0], &at)) {
	case TWP_ONE:
		x = twir_load(m, t, 1, &at);
		return c->any ? twir_cond(m, c->any, x, other) : x;
	case TWP_WIDE:
		return twir_load_wide(m, t, 1, &at, k->lanes, c->mask, c->mask ? other : NULL);
	default:
		return twir_gather(m, t, at, c->mask, c->mask ? other : NULL);
	}
}

/* A load of memory, or a constant otherwise: the masked load's else value does the choice. */
static const struct twir_expr *load_or_constant(struct twp_lower *k, const struct twp_ctx *from,
						const struct twir_expr *e, const struct twir_expr *cond)
{
	for (int arm = 1; arm <= 2; arm++) {
		const struct twir_expr *load = e->arg[arm], *other = e->arg[3 - arm], *base;
		int64_t stride;
		if (load->kind != TWIR_Load || reg_of(k, load) || !twp_varies(k, load) || other->kind != TWIR_Const ||
		    map_get_ptr(&from->memo, load))
			continue;
		if (linear(k, load->arg[0], &base, &stride) && stride == 0)
			continue; /* one element for all lanes: there is no mask */
		struct twp_ctx c;
		twp_ctx_narrow(k, &c, from, e->arg[0], arm == 2, cond);
		return memory_load(k, &c, load, other);
	}
	return NULL;
}

static const struct twir_expr *conditional(struct twp_lower *k, struct twp_ctx *c, const struct twir_expr *e)
{
	struct twir_module *m = k->m;
	const struct twir_expr *cond = twp_lower_expr(k, c, e->arg[0]), *a;
	struct twp_ctx arm[2];
	const bool scalar = cond->type.lanes == 1; /* such a choice stays lazy: what it holds back is not evaluated */
	a = scalar ? NULL : load_or_constant(k, c, e, cond);
	if (a)
		return a;
	const struct twir_expr *value[2];
	for (int i = 0; i < 2; i++) {
		twp_ctx_init(k, &arm[i], c);
		if (!scalar && reads(k, e->arg[1 + i]))
			twp_ctx_narrow(k, &arm[i], c, e->arg[0], i == 1, cond);
		arm[i].up = c;
		value[i] = twp_vector(k, twp_lower_expr(k, &arm[i], e->arg[1 + i]));
	}
	return scalar ? twir_cond(m, cond, value[0], value[1]) : twir_select(m, cond, value[0], value[1]);
}

/* A load that the expression around makes anyway, as it makes it. */
static const struct twir_expr *loaded_around(const struct twp_ctx *c, const struct twir_expr *load)
{
	for (int i = 0; i < load->nidx; i++)
		if (load->arg[i]->loads)
			return NULL;
	for (c = c->up; c; c = c->up) {
		const struct twir_expr *done = map_get_ptr(&c->memo, load);
		if (done)
			return done;
	}
	return NULL;
}

const struct twir_expr *twp_lower_expr(struct twp_lower *k, struct twp_ctx *c, const struct twir_expr *e)
{
	struct twir_module *m = k->m;
	if (!twp_varies(k, e))
		return uniform(k, c, e);
	const struct twir_expr *done = map_get_ptr(&c->memo, e);
	if (done)
		return done;
	const struct twp_reg *r = reg_of(k, e);
	const bool index = e->type.scalar == TWIR_INDEX;
	if (e->kind == TWIR_Var && (e->u.var == k->lane || (index && is_narrow(map_get_ptr(&k->vars, e->u.var)))))
		done = index_vector(k, c, e, false);
	else if (e->kind == TWIR_Var)
		done = twir_var(m, map_get_ptr(&k->vars, e->u.var));
	else if (r)
		done = reg_load(k, c, r, e);
	else if (e->kind == TWIR_Load)
		done = loaded_around(c, e);
	if (done)
		;
	else if (e->kind == TWIR_Load)
		done = memory_load(k, c, e, twir_const_of(m, twir_scalar_type(e->u.tensor->type), 0));
	else if (e->kind == TWIR_Cond)
		done = conditional(k, c, e);
	else if ((twir_kind_flags(e->kind) & TWIR_F_CMP) && e->arg[0]->type.scalar == TWIR_INDEX)
		done = compare(k, c, e);
	else if (e->kind == TWIR_Cast && e->type.scalar == TWIR_F32 && fits32(k, e->arg[0]))
		done = twir_cast(m, TWIR_F32, twp_vector(k, vector32(k, c, e->arg[0])));
	else if (index && e->kind != TWIR_Cast && e->kind != TWIR_Bitcast && e->kind != TWIR_Select)
		done = index_vector(k, c, e, false);
	else
		done = by_args(k, c, e);
	map_set_ptr(&c->memo, e, (void *)done);
	return done;
}
