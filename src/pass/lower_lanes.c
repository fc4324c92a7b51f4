/* lower_lanes: lane regions become vectors, masks and reductions; for a target without vectors, loops over the lanes
 * with the same bits. needs: flatten_index; breaks: nothing. Out: no for-mapping, no `lane`; register tensors no
 * longer mirror mappings: they are indexed by the coordinates of their mapping's repeats and hold vectors (scalar
 * target: the lane is their last axis).
 *
 * A guard that differs between lanes becomes a mask: stores to memory are masked, assignments to registers become
 * selects, loads are masked so that excluded lanes touch nothing. A loop whose extent differs between lanes runs to
 * the largest one under a mask. A region that cannot be vectors (it indexes its own arrays by lane) becomes a loop
 * over the lanes as well. */
#include "pass/lower_int.h"

static void block(struct twp_lower *k, struct twp_ctx *c, const struct twir_stmt *list, struct twp_list *out);

/* The register tensor after lowering. inside: declared in the region, so each lane has its own. */
static struct twp_reg *declare(struct twp_lower *k, struct twir_tensor *t, bool inside, const struct twir_expr *mask)
{
	struct twir_module *m = k->m;
	struct twp_reg *r = ARENA_NEW(m->arena, struct twp_reg);
	const struct twir_expr *shape[TWIR_MAX_RANK + 1];
	int rank = 0;
	bool spatial = false;
	r->was = t;
	r->inside = inside;
	r->mask = mask;
	if (t->mirrors)
		twp_factors(m, t->mirrors, &r->f);
	for (int i = 0; i < r->f.n; i++)
		for (int d = 0; d < r->f.at[i].rank; d++) {
			const struct twir_expr *extent = twp_task_extent(m, &r->f.at[i], d);
			int64_t n;
			const bool constant = twir_const_int(extent, &n);
			spatial |= r->f.at[i].spatial && !(constant && n == 1);
			if (r->f.at[i].spatial || (constant && n == 1))
				continue;
			if (rank == TWIR_MAX_RANK)
				tw_raise(TW_ERR_MODEL, "register tensor %s mirrors more than %d repeats", t->name,
					 rank);
			shape[rank++] = extent;
		}
	for (int d = 0; d < t->rank && !t->mirrors; d++)
		shape[rank++] = t->shape[d];
	r->per_lane = inside || spatial;
	if (k->scalar && r->per_lane && !inside) {
		if (rank == TWIR_MAX_RANK)
			tw_raise(TW_ERR_MODEL, "register tensor %s has too many axes", t->name);
		shape[rank++] = twir_index(m, k->lanes);
	}
	r->now = twir_tensor_new(m, t->name, t->type, rank, shape, TWIR_REGISTER);
	r->now->name = t->name;
	if (r->per_lane && t->lanes > 1)
		tw_raise(TW_ERR_UNSUPPORTED, "register tensor %s: a lane holds numbers, not vectors", t->base);
	r->now->lanes = r->per_lane && !k->scalar ? k->lanes : t->lanes;
	map_set_ptr(&k->regs, t, r);
	return r;
}

/* --- vectors --- */

static struct twir_stmt *scalar_guard(struct twp_lower *k, const struct twp_ctx *c, struct twir_stmt *s)
{
	return c->any ? twir_if(k->m, c->any, s, NULL) : s;
}

static void store(struct twp_lower *k, struct twp_ctx *c, const struct twir_stmt *s, struct twp_list *out)
{
	struct twir_module *m = k->m;
	struct twir_tensor *t = s->u.store.tensor;
	const struct twir_expr *value = twp_lower_expr(k, c, s->u.store.value), *at[TWIR_MAX_RANK];
	const struct twp_reg *r = map_get_ptr(&k->regs, t);
	if (r) {
		const int n = twp_reg_index(k, c, r, s->u.store.n, s->u.store.index, at);
		if (r->per_lane) {
			value = twp_vector(k, value);
			/* Lanes excluded since the declaration are never read. */
			if (c->mask && !(r->inside && r->mask == c->mask))
				value = twir_select(m, c->mask, value, twir_load(m, r->now, n, at));
			twp_list_add(out, twir_store(m, r->now, n, at, value, NULL));
			return;
		}
		if (value->type.lanes > 1)
			tw_raise(TW_ERR_MODEL, "register %s belongs to the core, but lanes store different values",
				 t->name);
		twp_list_add(out, scalar_guard(k, c, twir_store(m, r->now, n, at, value, NULL)));
		return;
	}
	TW_CHECK(s->u.store.n == 1, "indices are flat");
	enum twp_access how = twp_access(k, c, s->u.store.index[0], &at[0]);
	if (how == TWP_ONE && value->type.lanes == 1) {
		twp_list_add(out, scalar_guard(k, c, twir_store(m, t, 1, at, value, NULL)));
		return;
	}
	if (how == TWP_ONE)
		at[0] = twp_vector(k, at[0]);
	twp_list_add(out, twir_store(m, t, 1, at, twp_vector(k, value), c->mask));
}

static const struct twir_expr *bind(struct twp_lower *k, const char *name, const struct twir_expr *e,
				    struct twp_list *out)
{
	if (e->kind == TWIR_Var || e->kind == TWIR_Const)
		return e;
	struct twir_var *v = twir_var_new(k->m, TWIR_BOUND, e->type, name);
	twp_list_add(out, twir_let(k->m, v, e));
	return twir_var(k->m, v);
}

/* Facts of the place hold in the body only, so it has a memo of its own. */
static struct twir_stmt *nested(struct twp_lower *k, const struct twp_ctx *c, const struct twir_stmt *s,
				const struct twir_stmt *body, bool other)
{
	struct twp_ctx inner;
	struct twp_list list;
	twp_list_init(&list);
	twp_ctx_init(k, &inner, c);
	const int mark = twp_enter(&k->w, s, other);
	block(k, &inner, body, &list);
	twp_leave(&k->w, mark);
	return list.head;
}

/* Statements under a mask stay in the block: they are harmless for the lanes that it excludes. */
static void masked(struct twp_lower *k, struct twp_ctx *c, const struct twir_stmt *s, const struct twir_expr *mask,
		   bool other, struct twp_list *out)
{
	struct twp_ctx inner;
	twp_ctx_narrow(k, &inner, c, s->u.branch.cond, other, mask);
	inner.mask = bind(k, "m", inner.mask, out);
	if (inner.any)
		inner.any = bind(k, "any", inner.prefix ? inner.any : twir_reduce(k->m, TWIR_Or, inner.mask), out);
	const int mark = twp_enter(&k->w, s, other);
	block(k, &inner, other ? s->u.branch.other : s->u.branch.body, out);
	twp_leave(&k->w, mark);
}

static void branch(struct twp_lower *k, struct twp_ctx *c, const struct twir_stmt *s, struct twp_list *out)
{
	const struct twir_expr *cond = twp_lower_expr(k, c, s->u.branch.cond);
	if (cond->type.lanes == 1) {
		struct twir_stmt *i = twp_copy(k->m, s);
		i->kind = TWIR_IF;
		i->u.branch.cond = cond;
		i->u.branch.body = nested(k, c, s, s->u.branch.body, false);
		i->u.branch.other = nested(k, c, s, s->u.branch.other, true);
		twp_list_add(out, i);
		return;
	}
	cond = s->u.branch.other ? bind(k, "m", cond, out) : cond;
	masked(k, c, s, cond, false, out);
	if (s->u.branch.other)
		masked(k, c, s, cond, true, out);
}

static void loop(struct twp_lower *k, struct twp_ctx *c, const struct twir_stmt *s, struct twp_list *out)
{
	struct twir_module *m = k->m;
	struct twir_stmt *f = twp_copy(m, s);
	const struct twir_expr *n = twp_lower_expr(k, c, s->u.loop.extent);
	if (n->type.lanes == 1) {
		f->u.loop.extent = n;
		f->u.loop.body = nested(k, c, s, s->u.loop.body, false);
		twp_list_add(out, f);
		return;
	}
	if (c->mask)
		n = twir_select(m, c->mask, n, twp_vector(k, twir_index(m, 0)));
	n = bind(k, "n", n, out);
	f->u.loop.extent = twir_reduce(m, TWIR_Max, n);
	struct twp_ctx inner;
	struct twp_list body;
	twp_list_init(&body);
	twp_ctx_init(k, &inner, c);
	const int mark = twp_enter(&k->w, s, false);
	const struct twir_expr *mask = twir_lt(m, twp_vector(k, twir_var(m, s->u.loop.var)), n);
	inner.mask = bind(k, "m", c->mask ? twir_and(m, c->mask, mask) : mask, &body);
	inner.any = twir_reduce(m, TWIR_Or, inner.mask);
	inner.prefix = false;
	block(k, &inner, s->u.loop.body, &body);
	twp_leave(&k->w, mark);
	f->u.loop.body = body.head;
	twp_list_add(out, f);
}

static void let(struct twp_lower *k, struct twp_ctx *c, const struct twir_stmt *s, struct twp_list *out)
{
	struct twir_module *m = k->m;
	struct twir_var *v = s->u.let.var;
	const struct twir_expr *value = twp_narrow(k, c, s->u.let.value);
	if (!value)
		value = twp_lower_expr(k, c, s->u.let.value);
	if (twir_is_int(v->type.scalar)) {
		const struct twir_range r = twir_range_of(&k->w.facts, s->u.let.value);
		twir_facts_range(&k->w.facts, v, r.lo, r.hi);
	}
	if (twir_type_eq(value->type, v->type)) {
		twp_list_add(out, twir_let(m, v, value));
		return;
	}
	struct twir_var *now = twir_var_new(m, TWIR_BOUND, value->type, v->base);
	now->name = v->name;
	map_set_ptr(&k->vars, v, now);
	twp_list_add(out, twir_let(m, now, value));
}

static void block(struct twp_lower *k, struct twp_ctx *c, const struct twir_stmt *list, struct twp_list *out)
{
	for (const struct twir_stmt *s = list; s && !k->failed; s = s->next)
		switch (s->kind) {
		case TWIR_LET:
			let(k, c, s, out);
			break;
		case TWIR_DECLARE: {
			if (s->u.declare.tensor->scope != TWIR_REGISTER)
				tw_raise(TW_ERR_MODEL, "%s: only register tensors are declared in a lane region",
					 s->u.declare.tensor->name);
			struct twir_stmt *d = twp_copy(k->m, s);
			d->u.declare.tensor = declare(k, s->u.declare.tensor, true, c->mask)->now;
			twp_list_add(out, d);
			break;
		}
		case TWIR_STORE:
			store(k, c, s, out);
			break;
		case TWIR_FOR:
			loop(k, c, s, out);
			break;
		case TWIR_IF:
		case TWIR_SPECIALISE:
			branch(k, c, s, out);
			break;
		case TWIR_PREFETCH: {
			TW_CHECK(s->u.prefetch.n == 1, "indices are flat");
			const struct twir_expr *at = twp_index_of_first(k, c, s->u.prefetch.index[0]);
			twp_list_add(out, twir_prefetch(k->m, s->u.prefetch.tensor, 1, &at, s->u.prefetch.near));
			break;
		}
		case TWIR_FORMAP:
			tw_raise(TW_ERR_MODEL, "a lane region holds a for on a level");
		case TWIR_BARRIER:
			tw_raise(TW_ERR_MODEL, "a lane region holds a barrier");
		case TWIR_COMMIT:
		case TWIR_WAIT:
		case TWIR_MMA:
		case TWIR_INVOKE:
			tw_raise(TW_ERR_MODEL, "a lane region holds a statement of GPU threads");
		}
}

/* --- loops over lanes, and what lies outside regions --- */

/* reduce of a register tensor: its vector, or the tree of halves over its last axis. */
static const struct twir_expr *reduction(struct twp_lower *k, const struct twir_expr *e)
{
	struct twir_module *m = k->m;
	const struct twir_expr *load = e->arg[0], *at[TWIR_MAX_RANK], *v[64];
	struct twp_ctx c;
	if (load->kind != TWIR_Load)
		return e;
	const struct twp_reg *r = map_get_ptr(&k->regs, load->u.tensor);
	if (!r || !r->per_lane)
		tw_raise(TW_ERR_MODEL, "reduce takes a register tensor with one element for each lane");
	twp_ctx_init(k, &c, NULL);
	int n = twp_reg_index(k, &c, r, load->nidx, load->arg, at);
	if (!k->scalar)
		return twir_reduce(m, e->op, twir_load(m, r->now, n, at));
	TW_CHECK(k->lanes <= TW_COUNT(v), "at most %d lanes", TW_COUNT(v));
	for (int l = 0; l < k->lanes; l++) {
		at[n] = twir_index(m, l);
		v[l] = twir_load(m, r->now, n + 1, at);
	}
	for (int h = k->lanes / 2; h > 0; h /= 2)
		for (int l = 0; l < h; l++)
			v[l] = twir_binary(m, e->op, v[l], v[l + h]);
	return v[0];
}

struct scalar_walk {
	struct twp_lower *k;
	struct twir_rewriter r;
	const struct twir_expr *lane; /* the loop's variable in a region, else NULL */
};

static int scalar_index(struct scalar_walk *x, const struct twp_reg *r, int n, const struct twir_expr *const *index,
			const struct twir_expr **at)
{
	struct twp_ctx c;
	twp_ctx_init(x->k, &c, NULL);
	int count = twp_reg_index(x->k, &c, r, n, index, at);
	if (r->per_lane && !r->inside) {
		if (!x->lane)
			tw_raise(TW_ERR_MODEL, "register %s is read outside its lanes", r->was->name);
		if (!x->k->scalar)
			tw_raise(TW_ERR_MODEL, "register %s is used in a lane region that indexes arrays by lane",
				 r->was->name);
		at[count++] = x->lane;
	}
	return count;
}

static const struct twir_expr *scalar_expr(struct twir_rewriter *r, const struct twir_expr *e)
{
	struct scalar_walk *x = r->user;
	const struct twir_expr *at[TWIR_MAX_RANK];
	if (e->kind == TWIR_Var && e->u.var == x->k->lane && x->lane)
		return x->lane;
	const struct twp_reg *g = e->kind == TWIR_Load ? map_get_ptr(&x->k->regs, e->u.tensor) : NULL;
	if (!g)
		return e;
	return twir_load(r->m, g->now, scalar_index(x, g, e->nidx, e->arg, at), at);
}

/* Reduce is replaced whole, before its load would be taken for an access from outside. */
static const struct twir_expr *with_reductions(struct scalar_walk *x, struct tw_map *memo, const struct twir_expr *e)
{
	if (!e->loads)
		return e;
	const struct twir_expr *done = map_get_ptr(memo, e), *arg[64];
	if (done)
		return done;
	if (e->kind == TWIR_Reduce) {
		done = reduction(x->k, e);
	} else {
		TW_CHECK(e->n <= TW_COUNT(arg));
		for (int i = 0; i < e->n; i++)
			arg[i] = with_reductions(x, memo, e->arg[i]);
		done = twir_with_args(x->k->m, e, arg);
	}
	map_set_ptr(memo, e, (void *)done);
	return done;
}

static const struct twir_expr *outside_expr(struct twp_walk *w, const struct twir_expr *e)
{
	struct scalar_walk *x = w->user;
	struct tw_map memo;
	map_init(&memo, w->m->scratch);
	twir_rewriter_reset(&x->r);
	return twir_rewrite_expr(&x->r, x->lane ? e : with_reductions(x, &memo, e));
}

static bool outside(struct twp_walk *w, const struct twir_stmt *s, struct twp_list *out);

static struct twir_stmt *lane_loop(struct twp_walk *w, const struct twir_stmt *body)
{
	struct scalar_walk *x = w->user;
	struct twir_module *m = w->m;
	struct twir_stmt *f = twir_stmt_new(m, TWIR_FOR);
	f->u.loop.var = twir_var_new(m, TWIR_LOOP, twir_scalar_type(TWIR_INDEX), "l");
	f->u.loop.extent = twir_index(m, x->k->lanes);
	x->lane = twir_var(m, f->u.loop.var);
	const int mark = twp_enter(w, f, false);
	f->u.loop.body = twp_walk_block(w, body);
	twp_leave(w, mark);
	x->lane = NULL;
	return f;
}

static bool outside(struct twp_walk *w, const struct twir_stmt *s, struct twp_list *out)
{
	struct scalar_walk *x = w->user;
	struct twp_lower *k = x->k;
	struct twir_module *m = w->m;
	if (twp_is_lane_region(s)) {
		if (!k->scalar) {
			struct twp_ctx c;
			struct twp_list list;
			twp_ctx_init(k, &c, NULL);
			twp_list_init(&list);
			block(k, &c, s->u.formap.body, &list);
			if (!k->failed) {
				twp_list_add(out, list.head);
				return true;
			}
			k->failed = false;
		}
		twp_list_add(out, lane_loop(w, s->u.formap.body));
		return true;
	}
	if (s->kind == TWIR_PREFETCH && x->lane) /* one for each lane would be too many */
		return true;
	if (s->kind == TWIR_DECLARE && s->u.declare.tensor->scope == TWIR_REGISTER) {
		struct twir_stmt *d = twp_copy(m, s);
		d->u.declare.tensor = declare(k, s->u.declare.tensor, x->lane != NULL, NULL)->now;
		if (x->lane) /* a scalar of this lane's iteration */
			d->u.declare.tensor->lanes = 1;
		twp_list_add(out, d);
		return true;
	}
	const struct twp_reg *r = s->kind == TWIR_STORE ? map_get_ptr(&k->regs, s->u.store.tensor) : NULL;
	if (!r)
		return false;
	const struct twir_expr *at[TWIR_MAX_RANK];
	struct twir_stmt *c = twp_walk_stmt(w, s);
	struct scalar_walk own = *x;
	const int n = scalar_index(&own, r, c->u.store.n, c->u.store.index, at);
	twp_list_add(out, twir_store(m, r->now, n, at, c->u.store.value, NULL));
	return true;
}

void pass_lower_lanes(struct twir_module *m, struct twir_program *p, const struct tw_target *t)
{
	struct twp_lower k = {.m = m, .lanes = (int)twp_lanes(p), .scalar = t->isa == TW_ISA_SCALAR};
	struct scalar_walk x = {.k = &k};
	if (k.lanes <= 1)
		k.scalar = true;
	k.lane = twir_worker(m, TWIR_LANE)->u.var;
	map_init(&k.regs, m->scratch);
	map_init(&k.vars, m->scratch);
	map_init(&k.varies, m->scratch);
	map_init(&k.reads, m->scratch);
	map_init(&k.other, m->scratch);
	twp_walk_init(&k.w, m, p);
	k.w.user = &x;
	k.w.stmt = outside;
	k.w.expr = outside_expr;
	twir_rewriter_init(&x.r, m);
	x.r.user = &x;
	x.r.expr = scalar_expr;
	p->body = twp_walk_block(&k.w, p->body);
}
