/* interpret_expr: translates expressions to code. Each distinct expression is evaluated once where it may be: those
 * without loads (they are total) at the outermost scope that knows their variables, so they leave inner loops by
 * themselves; those with loads where they stand, and only for the statement at hand. */
#include "ir/interpret_int.h"

static struct twiri_place expr_uncached(struct twiri_gen *g, const struct twir_expr *e);

static void *pack(struct twiri_place p)
{
	return (void *)(uintptr_t)(((uint64_t)p.slot << 24 | (uint64_t)p.depth) + 1);
}

static struct twiri_place unpack(const void *v)
{
	const uint64_t x = (uint64_t)(uintptr_t)v - 1;
	return (struct twiri_place){.slot = (int)(x >> 24), .depth = (int)(x & 0xffffff)};
}

void twiri_bind(struct twiri_gen *g, const struct twir_var *v, int slot, int depth)
{
	map_set_ptr(&g->vars, v, pack((struct twiri_place){slot, depth}));
}

int twiri_slots(struct twiri_gen *g, int n)
{
	const int at = g->first.n;
	for (int k = 0; k < n; k++)
		vec_push(g->arena, &g->first, (union twiri_slot){0});
	TW_CHECK(at < 1 << 28, "program too large");
	return at;
}

static struct twiri_place place_of_var(struct twiri_gen *g, struct twir_var *v)
{
	const void *known = map_get_ptr(&g->vars, v);
	if (known)
		return unpack(known);
	if (v->kind == TWIR_WORKER) {
		if (v->level == TWIR_LANE && !g->x->gpu && !g->in_region)
			twiri_fail(g->x, g->stmt, NULL, "lane is used outside of a lane region");
		if (v->level == TWIR_LANE && g->in_region)
			return (struct twiri_place){g->x->worker_slot[TWIR_LANE], g->region_depth};
		return (struct twiri_place){g->x->worker_slot[v->level], 0};
	}
	if (v->kind != TWIR_SYMBOL)
		tw_raise(TW_ERR_INTERNAL, "%s %s: the variable %s is used where it is not bound", g->x->what,
			 g->x->name, v->name);
	const struct twir_binding *b = g->x->binding;
	for (int k = 0; b && k < b->n; k++)
		if (b->symbols[k] == v) {
			const struct twiri_place p = {twiri_slots(g, 1), 0};
			g->first.at[p.slot].i = b->values[k];
			twiri_bind(g, v, p.slot, 0);
			return p;
		}
	twiri_fail(g->x, g->stmt, NULL, "the symbol %s has no value", v->name);
}

int twiri_index_const(struct twiri_gen *g, int64_t v)
{
	return twiri_expr(g, twir_index(g->x->m, v)).slot;
}

static int const_slot(struct twiri_gen *g, const struct twir_expr *e)
{
	const int at = twiri_slots(g, e->type.lanes);
	for (int l = 0; l < e->type.lanes; l++) {
		union twiri_slot v = {0};
		if (e->kind == TWIR_Iota) {
			v.i = l;
			v = twiri_cast(e->type.scalar, TWIR_INDEX, v);
		} else {
			v = twiri_const(e->type.scalar, e);
		}
		g->first.at[at + l] = v;
	}
	return at;
}

int twiri_access_new(struct twiri_gen *g, struct twir_tensor *t, const struct twir_expr *e, int n,
		     const struct twir_expr *const *index, struct twir_type type)
{
	struct twiri_access a = {
		.stmt = g->stmt, .expr = e, .tensor = twiri_tensor_number(g, t), .n = n, .lanes = type.lanes};
	if (n != t->rank && n != 1)
		twiri_fail(g->x, g->stmt, e, "%s has %d dimensions, not %d", t->name, t->rank, n);
	if (type.scalar != t->type)
		twiri_fail(g->x, g->stmt, e, "%s has elements of type %s, not %s", t->name, twir_scalar_name(t->type),
			   twir_scalar_name(type.scalar));
	a.gather = n == 1 && index[0]->type.lanes > 1;
	a.whole = t->lanes > 1;
	if (a.whole)
		a.lanes = t->lanes;
	else if (a.gather)
		a.lanes = index[0]->type.lanes;
	for (int k = 0; k < n; k++)
		a.index[k] = twiri_expr(g, index[k]).slot;
	a.mask = a.other = -1;
	a.worker = g->register_worker;
	vec_push(g->arena, &g->x->accesses, a);
	return g->x->accesses.n - 1;
}

static void set_mask(struct twiri_gen *g, int access, const struct twir_expr *mask, const struct twir_expr *other)
{
	const int m = twiri_expr(g, mask).slot;
	const int o = other ? twiri_expr(g, other).slot : -1;
	struct twiri_access *a = &g->x->accesses.at[access];
	a->mask = m;
	a->mask_step = mask->type.lanes > 1;
	if (other) {
		a->other = o;
		a->other_step = other->type.lanes > 1;
	}
}

static struct twiri_place load(struct twiri_gen *g, const struct twir_expr *e)
{
	struct twir_tensor *t = e->u.tensor;
	if (t->scope == TWIR_OUT)
		twiri_fail(g->x, g->stmt, e, "the out tensor %s is read", t->name);
	const int access = twiri_access_new(g, t, e, e->nidx, e->arg, e->type);
	if (e->n >= e->nidx + 2)
		set_mask(g, access, e->arg[e->nidx], e->arg[e->nidx + 1]);
	const int lanes = g->x->accesses.at[access].lanes;
	if (lanes != e->type.lanes)
		twiri_fail(g->x, g->stmt, e, "%d lanes are loaded where the type says %d", lanes, e->type.lanes);
	const struct twiri_place p = {twiri_slots(g, lanes), twiri_depth(g)};
	twiri_emit(g, p.depth,
		   (struct twiri_ins){
			   .op = OP_LOAD, .lanes = (uint16_t)lanes, .type = e->type.scalar, .d = p.slot, .c = access});
	return p;
}

/* One side of a conditional, in a scope of its own. */
static twiri_code side(struct twiri_gen *g, const struct twir_expr *e, int to)
{
	twiri_push(g);
	const int from = twiri_expr(g, e).slot;
	twiri_emit(g, twiri_depth(g), (struct twiri_ins){.op = OP_COPY, .lanes = e->type.lanes, .d = to, .a = from});
	return twiri_pop(g);
}

static struct twiri_place lazy(struct twiri_gen *g, const struct twir_expr *e)
{
	const int c = twiri_expr(g, e->arg[0]).slot;
	const struct twiri_place p = {twiri_slots(g, e->type.lanes), twiri_depth(g)};
	const twiri_code yes = side(g, e->arg[1], p.slot);
	const twiri_code no = side(g, e->arg[2], p.slot);
	twiri_emit(g, p.depth, (struct twiri_ins){.op = OP_JUMP_IF_NOT, .a = c, .c = yes.n + 2});
	twiri_splice(g, &yes);
	twiri_emit(g, p.depth, (struct twiri_ins){.op = OP_JUMP, .c = no.n + 1});
	twiri_splice(g, &no);
	return p;
}

/* acc = acc op body, by fma where the body is a product of floats that is added. */
static void fold_step(struct twiri_gen *g, const struct twir_expr *e, int acc)
{
	const struct twir_expr *body = e->arg[0];
	struct twiri_ins in = {.lanes = body->type.lanes, .type = body->type.scalar, .d = acc};
	const enum twiri_class class = twiri_class_of(body->type.scalar);
	if (e->op == TWIR_Add && body->kind == TWIR_Mul && (class == TWIRI_F32 || class == TWIRI_F64)) {
		in.op = (uint16_t)(TWIR_Fma * TWIRI_CLASSES + class);
		in.a = twiri_expr(g, body->arg[0]).slot;
		in.b = twiri_expr(g, body->arg[1]).slot;
		in.c = acc;
	} else {
		in.op = (uint16_t)(e->op * TWIRI_CLASSES + class);
		in.a = acc;
		in.b = twiri_expr(g, body).slot;
	}
	twiri_emit(g, twiri_depth(g), in);
}

static struct twiri_place fold(struct twiri_gen *g, const struct twir_expr *e)
{
	const int n = e->n - 1;
	int extent[32], var[32];
	TW_CHECK(n <= TW_COUNT(extent), "fold over %d axes", n);
	for (int k = 0; k < n; k++) {
		extent[k] = twiri_expr(g, e->arg[k + 1]).slot;
		var[k] = twiri_slots(g, 1);
	}
	const int start = twiri_expr(g, twir_neutral(g->x->m, e->op, e->type)).slot;
	const struct twiri_place p = {twiri_slots(g, e->type.lanes), twiri_depth(g)};
	twiri_emit(g, p.depth, (struct twiri_ins){.op = OP_COPY, .lanes = e->type.lanes, .d = p.slot, .a = start});
	for (int k = 0; k < n; k++) {
		twiri_push(g);
		twiri_bind(g, e->u.axes[k], var[k], twiri_depth(g));
	}
	fold_step(g, e, p.slot);
	for (int k = n - 1; k >= 0; k--) {
		const twiri_code body = twiri_pop(g);
		const int depth = twiri_depth(g);
		map_set_ptr(&g->vars, e->u.axes[k], NULL);
		twiri_emit(g, depth,
			   (struct twiri_ins){.op = OP_LOOP_BEGIN, .d = var[k], .a = extent[k], .c = body.n + 2});
		twiri_splice(g, &body);
		twiri_emit(g, depth, (struct twiri_ins){.op = OP_LOOP_NEXT, .d = var[k], .a = extent[k], .c = -body.n});
	}
	return p;
}

/* The function's body is translated anew for each call, all at one depth. */
static struct twiri_place call(struct twiri_gen *g, const struct twir_expr *e)
{
	const struct twir_func *f = e->u.func;
	struct twiri_place arg[TWIR_MAX_RANK];
	TW_CHECK(e->n == f->n && f->n <= TW_COUNT(arg), "call of %s", f->name);
	int depth = 0;
	bool pure = true;
	for (int k = 0; k < e->n; k++) {
		arg[k] = twiri_expr(g, e->arg[k]);
		depth = arg[k].depth > depth ? arg[k].depth : depth;
		pure &= !e->arg[k]->loads;
	}
	const struct tw_map memo = g->memo;
	const int pin = g->pin;
	map_init(&g->memo, g->arena);
	g->pin = pin >= 0 ? pin : pure ? depth : twiri_depth(g);
	for (int k = 0; k < f->n; k++)
		twiri_bind(g, f->args[k], arg[k].slot, g->pin);
	for (int k = 0; k < f->nlets; k++)
		twiri_bind(g, f->lets[k], twiri_expr(g, f->values[k]).slot, g->pin);
	const struct twiri_place p = {twiri_expr(g, f->body).slot, g->pin};
	g->memo = memo;
	g->pin = pin;
	return p;
}

static struct twiri_place reduce(struct twiri_gen *g, const struct twir_expr *e)
{
	const struct twir_expr *a = e->arg[0];
	const struct twiri_place p = {twiri_slots(g, 1), twiri_depth(g)};
	struct twiri_ins in = {.lanes = 1, .type = e->type.scalar, .d = p.slot, .b = e->op};
	if (a->type.lanes > 1) {
		in.op = OP_REDUCE;
		in.a = twiri_expr(g, a).slot;
		in.c = a->type.lanes;
	} else {
		if (a->kind != TWIR_Load)
			twiri_fail(g->x, g->stmt, e, "reduce needs a vector or a register tensor");
		in.op = OP_REDUCE_REGISTER;
		in.c = twiri_access_new(g, a->u.tensor, a, a->nidx, a->arg, a->type);
	}
	twiri_emit(g, p.depth, in);
	return p;
}

/* Kinds that are evaluated where they stand, even without loads. */
static bool is_bound_here(const struct twir_expr *e)
{
	return e->loads || e->kind == TWIR_Fold;
}

static struct twiri_place simple(struct twiri_gen *g, const struct twir_expr *e)
{
	struct twiri_place p = {0}, arg[3] = {{0}};
	TW_CHECK(e->n <= 3, "%s with %d arguments", twir_kind_name(e->kind), e->n);
	bool here = false;
	for (int k = 0; k < e->n; k++) {
		arg[k] = twiri_expr(g, e->arg[k]);
		p.depth = arg[k].depth > p.depth ? arg[k].depth : p.depth;
	}
	here = is_bound_here(e);
	p.depth = g->pin >= 0 ? g->pin : here ? twiri_depth(g) : p.depth;
	if (e->kind == TWIR_Extract) {
		int64_t lane = -1;
		if (!twir_const_int(e->arg[1], &lane) || lane < 0 || lane >= e->arg[0]->type.lanes)
			twiri_fail(g->x, g->stmt, e, "the lane to extract is not a constant within the vector");
		p.slot = arg[0].slot + (int)lane;
		return p;
	}
	p.slot = twiri_slots(g, e->type.lanes);
	struct twiri_ins in = {.lanes = e->type.lanes,
			       .type = e->type.scalar,
			       .d = p.slot,
			       .a = arg[0].slot,
			       .b = arg[1].slot,
			       .c = arg[2].slot};
	const enum twir_scalar from = e->n ? e->arg[0]->type.scalar : TWIR_VOID;
	if (e->kind == TWIR_Cast || e->kind == TWIR_Bitcast) {
		in.op = e->kind == TWIR_Cast ? OP_CAST : OP_BITCAST;
		in.b = (int32_t)from;
	} else if (e->kind == TWIR_Splat) {
		in.op = OP_SPLAT;
	} else if ((e->kind == TWIR_Select || e->kind == TWIR_Cond) && e->arg[0]->type.lanes == 1) {
		in.op = OP_SELECT;
	} else {
		for (int k = 0; k < e->n; k++)
			TW_CHECK(e->arg[k]->type.lanes == e->type.lanes, "%s of %d lanes beside %d",
				 twir_kind_name(e->kind), e->arg[k]->type.lanes, e->type.lanes);
		if (twir_kind_flags(e->kind) & TWIR_F_CMP)
			in.type = (uint8_t)from;
		in.op = (uint16_t)(e->kind * TWIRI_CLASSES + twiri_class_of((enum twir_scalar)in.type));
	}
	twiri_emit(g, p.depth, in);
	return p;
}

/* The lanes of the warp meet here, each with its operands. */
static struct twiri_place shuffle(struct twiri_gen *g, const struct twir_expr *e)
{
	if (!g->x->gpu)
		twiri_fail(g->x, g->stmt, e, "warp shuffles belong to programs on blocks");
	const int a = twiri_expr(g, e->arg[0]).slot, b = twiri_expr(g, e->arg[1]).slot;
	const struct twiri_place p = {twiri_slots(g, 1), twiri_depth(g)};
	_Static_assert(TWIR_KINDS <= 256, "a kind is a byte of an instruction");
	vec_push(g->arena, &g->x->meetings, g->stmt);
	twiri_emit(g, p.depth,
		   (struct twiri_ins){.op = OP_SHUFFLE,
				      .lanes = 1,
				      .type = (uint8_t)e->kind,
				      .d = p.slot,
				      .a = a,
				      .b = b,
				      .c = g->x->meetings.n - 1});
	return p;
}

static struct twiri_place expr_uncached(struct twiri_gen *g, const struct twir_expr *e)
{
	switch (e->kind) {
	case TWIR_Const:
	case TWIR_Iota:
		return (struct twiri_place){const_slot(g, e), 0};
	case TWIR_Load:
	case TWIR_Gather:
		return load(g, e);
	case TWIR_Fold:
		return fold(g, e);
	case TWIR_Reduce:
		return reduce(g, e);
	case TWIR_Call:
		return call(g, e);
	case TWIR_ShflUp:
	case TWIR_ShflDown:
	case TWIR_ShflXor:
	case TWIR_ShflIdx:
		return shuffle(g, e);
	case TWIR_Cond:
		return e->arg[1]->loads || e->arg[2]->loads ? lazy(g, e) : simple(g, e);
	default:
		return simple(g, e);
	}
}

struct twiri_place twiri_expr(struct twiri_gen *g, const struct twir_expr *e)
{
	if (e->kind == TWIR_Var)
		return place_of_var(g, e->u.var);
	const void *known = map_get_ptr(&g->memo, e);
	if (known)
		return unpack(known);
	const struct twiri_place p = expr_uncached(g, e);
	map_set_ptr(&g->memo, e, pack(p));
	if (g->pin < 0) {
		struct twiri_scope *s = &g->scopes.at[is_bound_here(e) ? twiri_depth(g) : p.depth];
		if (is_bound_here(e))
			vec_push(g->arena, &s->loads, e);
		else
			vec_push(g->arena, &s->pure, e);
	}
	return p;
}
