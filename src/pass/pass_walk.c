/* pass_walk: rebuilding blocks with the facts of each place in force. Input: a block; output: a fresh block that
 * shares variables and tensors with it. Facts come from launch extents, loop extents, bounds of for-mappings, guards
 * and the ranges of integer lets. */
#include "pass/pass_int.h"

void twp_walk_init(struct twp_walk *w, struct twir_module *m, const struct twir_program *p)
{
	memset(w, 0, sizeof *w);
	w->m = m;
	twir_facts_init(&w->facts, m);
	for (int i = 0; i < p->nlevels; i++) {
		const struct twir_expr *worker = twir_worker(m, p->levels[i]);
		const struct twir_range r = twir_range_of(&w->facts, p->extents[i]);
		twir_facts_range(&w->facts, worker->u.var, 0, r.hi > 0 ? r.hi - 1 : 0);
		(void)twir_facts_assume(&w->facts, twir_lt(m, worker, p->extents[i]));
	}
}

static void below(struct twp_walk *w, struct twir_var *v, const struct twir_expr *extent)
{
	const struct twir_range r = twir_range_of(&w->facts, extent);
	twir_facts_range(&w->facts, v, 0, r.hi > 0 ? r.hi - 1 : 0);
	(void)twir_facts_assume(&w->facts, twir_lt(w->m, twir_var(w->m, v), extent));
}

int twp_enter(struct twp_walk *w, const struct twir_stmt *s, bool other)
{
	struct twir_module *m = w->m;
	const int mark = twir_facts_assume(&w->facts, twir_bool(m, true));
	switch (s->kind) {
	case TWIR_FOR:
		below(w, s->u.loop.var, s->u.loop.extent);
		break;
	case TWIR_FORMAP:
		for (int d = 0; d < s->u.formap.n; d++) {
			below(w, s->u.formap.vars[d], twir_map_extent(m, s->u.formap.map, d));
			if (s->u.formap.bounds)
				(void)twir_facts_assume(
					&w->facts, twir_lt(m, twir_var(m, s->u.formap.vars[d]), s->u.formap.bounds[d]));
		}
		break;
	case TWIR_IF:
		(void)twir_facts_assume(&w->facts, other ? twir_not(m, s->u.branch.cond) : s->u.branch.cond);
		break;
	default:
		break;
	}
	return mark;
}

void twp_leave(struct twp_walk *w, int mark)
{
	twir_facts_forget(&w->facts, mark);
}

struct twir_stmt *twp_copy(struct twir_module *m, const struct twir_stmt *s)
{
	struct twir_stmt *c = arena_copy(m->arena, s, sizeof *s);
	c->next = NULL;
	return c;
}

static const struct twir_expr *expr(struct twp_walk *w, const struct twir_expr *e)
{
	return e && w->expr ? w->expr(w, e) : e;
}

static const struct twir_expr **exprs(struct twp_walk *w, int n, const struct twir_expr *const *e)
{
	const struct twir_expr **out = ARENA_ARRAY(w->m->arena, const struct twir_expr *, n);
	for (int i = 0; i < n; i++)
		out[i] = expr(w, e[i]);
	return out;
}

static const struct twir_map *map(struct twp_walk *w, const struct twir_map *f)
{
	if (!f || !w->expr)
		return f;
	struct twir_map *c = arena_copy(w->m->arena, f, sizeof *f);
	c->a = map(w, f->a);
	c->b = map(w, f->b);
	if (f->kind == TWTM_REPEAT || f->kind == TWTM_SPATIAL)
		for (int d = 0; d < f->rank; d++)
			c->extent[d] = expr(w, f->extent[d]);
	return c;
}

struct twir_stmt *twp_walk_stmt(struct twp_walk *w, const struct twir_stmt *s)
{
	struct twir_stmt *c = twp_copy(w->m, s);
	int mark;
	switch (s->kind) {
	case TWIR_LET:
		c->u.let.value = expr(w, s->u.let.value);
		if (twir_is_int(s->u.let.var->type.scalar) && s->u.let.var->type.lanes == 1) {
			const struct twir_range r = twir_range_of(&w->facts, c->u.let.value);
			twir_facts_range(&w->facts, s->u.let.var, r.lo, r.hi);
		}
		break;
	case TWIR_DECLARE: {
		struct twir_tensor *t = s->u.declare.tensor;
		if (w->expr) /* the tensor object is kept, its shape follows */
			for (int d = 0; d < t->rank; d++)
				t->shape[d] = expr(w, t->shape[d]);
		break;
	}
	case TWIR_STORE:
		c->u.store.index = exprs(w, s->u.store.n, s->u.store.index);
		c->u.store.value = expr(w, s->u.store.value);
		c->u.store.mask = expr(w, s->u.store.mask);
		break;
	case TWIR_FOR:
		c->u.loop.extent = expr(w, s->u.loop.extent);
		mark = twp_enter(w, c, false);
		c->u.loop.body = twp_walk_block(w, s->u.loop.body);
		twp_leave(w, mark);
		break;
	case TWIR_FORMAP:
		c->u.formap.map = map(w, s->u.formap.map);
		if (s->u.formap.bounds)
			c->u.formap.bounds = exprs(w, s->u.formap.n, s->u.formap.bounds);
		mark = twp_enter(w, c, false);
		c->u.formap.body = twp_walk_block(w, s->u.formap.body);
		twp_leave(w, mark);
		break;
	case TWIR_IF:
	case TWIR_SPECIALISE:
		c->u.branch.cond = expr(w, s->u.branch.cond);
		mark = twp_enter(w, c, false);
		c->u.branch.body = twp_walk_block(w, s->u.branch.body);
		twp_leave(w, mark);
		if (s->u.branch.other) {
			mark = twp_enter(w, c, true);
			c->u.branch.other = twp_walk_block(w, s->u.branch.other);
			twp_leave(w, mark);
		}
		break;
	case TWIR_PREFETCH:
		c->u.prefetch.index = exprs(w, s->u.prefetch.n, s->u.prefetch.index);
		break;
	case TWIR_MMA:
		for (int k = 0; k < 3; k++)
			c->u.mma.part[k].index = exprs(w, s->u.mma.part[k].n, s->u.mma.part[k].index);
		break;
	case TWIR_BARRIER:
	case TWIR_COMMIT:
	case TWIR_WAIT:
	case TWIR_INVOKE: /* of launch functions, which no pass sees */
		break;
	}
	return c;
}

struct twir_stmt *twp_walk_block(struct twp_walk *w, const struct twir_stmt *list)
{
	struct twp_list out;
	twp_list_init(&out);
	for (const struct twir_stmt *s = list; s; s = s->next)
		if (!w->stmt || !w->stmt(w, s, &out))
			twp_list_add(&out, twp_walk_stmt(w, s));
	return out.head;
}

static const struct twir_expr *replace_var(struct twir_rewriter *r, const struct twir_expr *e)
{
	const struct twp_replace *p = r->user;
	const struct twir_expr *to = e->kind == TWIR_Var ? map_get_ptr(&p->map, e->u.var) : NULL;
	return to ? to : e;
}

void twp_replace_init(struct twp_replace *r, struct twir_module *m)
{
	twir_rewriter_init(&r->r, m);
	r->r.user = r;
	r->r.expr = replace_var;
	r->r.stmt = NULL;
	map_init(&r->map, m->scratch);
}

/* The memo stays valid: a variable is never seen before it is bound. */
void twp_replace_set(struct twp_replace *r, const struct twir_var *v, const struct twir_expr *e)
{
	map_set_ptr(&r->map, v, (void *)e);
}

const struct twir_expr *twp_replace_expr(struct twp_replace *r, const struct twir_expr *e)
{
	return twir_rewrite_expr(&r->r, e);
}

struct twir_stmt *twp_replace_block(struct twp_replace *r, const struct twir_stmt *list)
{
	return twir_rewrite_block(&r->r, list);
}
