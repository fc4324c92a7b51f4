/* specialise: bodies are copied under the condition that makes them simple. needs: expand_mapping; breaks: nothing.
 * Out: no Specialise.
 *
 * `specialise COND { .. }` becomes `if COND { .. } else { copy }`; simplification then uses the condition in each
 * copy. A lane region that is one guarded statement is split alike when the guard is monotone in the lane: it holds
 * for all lanes if it holds for the worst one, so that all vectors but the last go without masks. Parts of a guard
 * that do not read the lane move out of the region. A choice that is all of a loop's body and does not depend on its
 * variable moves out of the loop. Lazy conditionals in a region are treated as its guard is: where they hold in every
 * lane their loads need no masks. Region copies do not nest, so the text at most triples for each specialise around
 * it. */
#include "pass/pass_int.h"

struct guard {
	struct twp_walk *w;
	const struct twir_expr *lane;
	int64_t lanes;
	const struct twir_expr *uniform; /* conjunction without lane; NULL: none */
	const struct twir_expr *varying; /* conjunction with lane; NULL: none */
	const struct twir_expr *all;	 /* implies varying for every lane; NULL: none or unknown */
	bool known;			 /* all is what its name says */
};

static const struct twir_expr *both(struct twir_module *m, const struct twir_expr *a, const struct twir_expr *b)
{
	return !a ? b : !b ? a : twir_and(m, a, b);
}

/* The comparison at the lane where it fails first; NULL when it is not monotone. */
static const struct twir_expr *worst(struct guard *g, const struct twir_expr *e)
{
	struct twir_module *m = g->w->m;
	if ((e->kind != TWIR_Lt && e->kind != TWIR_Le) || e->arg[0]->type.scalar != TWIR_INDEX || e->loads)
		return NULL;
	const struct twir_expr *base[2];
	int64_t stride[2];
	for (int i = 0; i < 2; i++)
		if (!twir_linear_in(&g->w->facts, e->arg[i], g->lane->u.var, &base[i], &stride[i]))
			return NULL;
	const int64_t s = stride[0] - stride[1];
	const struct twir_expr *lane = twir_index(m, s > 0 ? g->lanes - 1 : 0);
	const struct twir_expr *side[2];
	for (int i = 0; i < 2; i++)
		side[i] = twir_add(m, base[i], twir_mul(m, twir_index(m, stride[i]), lane));
	return twir_simplify(&g->w->facts, twir_binary(m, e->kind, side[0], side[1]));
}

static void gather(struct guard *g, const struct twir_expr *e)
{
	struct twir_module *m = g->w->m;
	if (e->kind == TWIR_And && e->type.scalar == TWIR_I1) {
		gather(g, e->arg[0]);
		gather(g, e->arg[1]);
	} else if (!twir_uses_var(e, g->lane->u.var) && !e->loads) {
		g->uniform = both(m, g->uniform, e);
	} else {
		const struct twir_expr *at = worst(g, e);
		g->varying = both(m, g->varying, e);
		if (at)
			g->all = both(m, g->all, at);
		else
			g->known = false;
	}
}

/* Is the body nothing but an If without else? */
static const struct twir_stmt *only_guard(const struct twir_stmt *body)
{
	return body && !body->next && body->kind == TWIR_IF && !body->u.branch.other ? body : NULL;
}

static struct twir_stmt *fresh(struct twir_module *m, const struct twir_stmt *list)
{
	struct twir_subst s;
	twir_subst_init(&s, m);
	return twir_subst_block(&s, list);
}

/* --- lazy conditionals that differ between lanes --- */

enum { MOST_CONDITIONS = 4 };

struct conditions {
	struct guard g;
	struct tw_map bound; /* variables that the region binds */
	int n;
	const struct twir_expr *at[MOST_CONDITIONS];
	bool depends; /* scratch of outer_only */
};

static void see_var(void *arg, const struct twir_expr *e)
{
	struct conditions *c = arg;
	c->depends |= e->kind == TWIR_Var && map_get_ptr(&c->bound, e->u.var);
}

static void see_binder(void *arg, const struct twir_stmt *s)
{
	struct conditions *c = arg;
	if (s->kind == TWIR_LET)
		map_set_ptr(&c->bound, s->u.let.var, c);
	else if (s->kind == TWIR_FOR)
		map_set_ptr(&c->bound, s->u.loop.var, c);
}

static void see_cond(void *arg, const struct twir_expr *e)
{
	struct conditions *c = arg;
	if (e->kind != TWIR_Cond || !e->loads || c->n == MOST_CONDITIONS || !twir_uses_var(e->arg[0], c->g.lane->u.var))
		return;
	for (int i = 0; i < c->n; i++)
		if (c->at[i] == e->arg[0])
			return;
	c->depends = false;
	twir_visit_expr(e->arg[0], see_var, c);
	struct guard g = c->g;
	if (!c->depends)
		gather(&g, e->arg[0]);
	if (c->depends || !g.known)
		return;
	c->g = g;
	c->at[c->n++] = e->arg[0];
}

static void see_conds(void *arg, const struct twir_expr *e)
{
	if (e->loads)
		twir_visit_expr(e, see_cond, arg);
}

static const struct twir_expr *hold(struct twir_rewriter *r, const struct twir_expr *e)
{
	const struct conditions *c = r->user;
	for (int i = 0; i < c->n; i++)
		if (c->at[i] == e)
			return twir_bool(r->m, true);
	return e;
}

/* The region, split where all its conditions hold in every lane, so that guarded loads need no masks there. */
static struct twir_stmt *choices(struct twp_walk *w, int64_t lanes, struct twir_stmt *body)
{
	struct twir_module *m = w->m;
	struct conditions c = {.g = {.w = w, .lane = twir_worker(m, TWIR_LANE), .lanes = lanes, .known = true}};
	map_init(&c.bound, m->scratch);
	twir_visit_block(body, see_binder, NULL, &c);
	twir_visit_block(body, NULL, see_conds, &c);
	if (c.n == 0)
		return twp_lane_region(m, lanes, body);
	struct twir_rewriter r;
	twir_rewriter_init(&r, m);
	r.user = &c;
	r.expr = hold;
	struct twir_stmt *held = twp_lane_region(m, lanes, fresh(m, twir_rewrite_block(&r, body)));
	const struct twir_expr *all = both(m, c.g.uniform, c.g.all);
	return twir_prove(&w->facts, all) ? held : twir_if(m, all, held, twp_lane_region(m, lanes, body));
}

static struct twir_stmt *region(struct twp_walk *w, int64_t lanes, const struct twir_stmt *s)
{
	struct twir_module *m = w->m;
	const struct twir_stmt *guarded = only_guard(s->u.formap.body);
	if (!guarded)
		return choices(w, lanes, s->u.formap.body);
	struct guard g = {.w = w, .lane = twir_worker(m, TWIR_LANE), .lanes = lanes, .known = true};
	gather(&g, guarded->u.branch.cond);
	struct twir_stmt *body = guarded->u.branch.body, *out;
	if (!g.varying) {
		out = choices(w, lanes, body);
	} else {
		struct twir_stmt *masked = twp_lane_region(m, lanes, twir_if(m, g.varying, body, NULL));
		if (!g.known)
			out = masked;
		else if (twir_prove(&w->facts, g.all))
			out = choices(w, lanes, body);
		else
			out = twir_if(m, g.all, choices(w, lanes, fresh(m, body)), masked);
	}
	return g.uniform ? twir_if(m, g.uniform, out, NULL) : out;
}

/* for v { if C { A } else { B } } with C free of v becomes if C { for v { A } } else { for v { B } }: the choice is
 * made once. */
static struct twir_stmt *unswitch(struct twir_module *m, struct twir_stmt *loop)
{
	const struct twir_stmt *b = loop->u.loop.body;
	if (!b || b->next || b->kind != TWIR_IF || !b->u.branch.other || b->u.branch.cond->loads ||
	    twir_uses_var(b->u.branch.cond, loop->u.loop.var))
		return NULL;
	struct twir_stmt *then = twp_copy(m, loop), *other = twp_copy(m, loop);
	then->u.loop.body = b->u.branch.body;
	other->u.loop.body = b->u.branch.other;
	return twir_if(m, b->u.branch.cond, fresh(m, then), other);
}

static bool statement(struct twp_walk *w, const struct twir_stmt *s, struct twp_list *out)
{
	struct twir_module *m = w->m;
	if (s->kind == TWIR_SPECIALISE) {
		struct twir_stmt *c = twir_if(m, s->u.branch.cond, s->u.branch.body, fresh(m, s->u.branch.body));
		twp_list_add(out, twp_walk_stmt(w, c));
		return true;
	}
	if (s->kind == TWIR_FOR) {
		struct twir_stmt *loop = twp_walk_stmt(w, s), *c = unswitch(m, loop);
		twp_list_add(out, c ? c : loop);
		return true;
	}
	if (!twp_is_lane_region(s))
		return false;
	struct twir_stmt *walked = twp_walk_stmt(w, s);
	twp_list_add(out, region(w, *(const int64_t *)w->user, walked));
	return true;
}

void pass_specialise(struct twir_module *m, struct twir_program *p, const struct tw_target *t)
{
	(void)t;
	int64_t lanes = twp_lanes(p);
	struct twp_walk w;
	twp_walk_init(&w, m, p);
	w.user = &lanes;
	w.stmt = statement;
	p->body = twp_walk_block(&w, p->body);
}
