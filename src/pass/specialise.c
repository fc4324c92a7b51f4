/* specialise: bodies are copied under the condition that makes them simple.
 * needs: expand_mapping; breaks: nothing. Out: no Specialise.
 *
 * `specialise COND { .. }` becomes `if COND { .. } else { copy }`; simplification then uses the condition in each copy. A lane region that
 * is one guarded statement is split alike when the guard is monotone in the lane: it holds for all lanes if it holds for the worst one,
 * so that all vectors but the last go without masks. Parts of a guard that do not read the lane move out of the region.
 * Region copies do not nest, so the text at most doubles for each specialise around it. */
#include "pass/pass_int.h"

struct guard {
	struct twp_walk *w;
	const struct twir_expr *lane;
	int64_t lanes;
	const struct twir_expr *uniform; /* conjunction without lane; NULL: none */
	const struct twir_expr *varying; /* conjunction with lane; NULL: none */
	const struct twir_expr *all;     /* implies varying for every lane; NULL: none or unknown */
	bool known;                      /* all is what its name says */
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

static struct twir_stmt *region(struct twp_walk *w, int64_t lanes, const struct twir_stmt *s)
{
	struct twir_module *m = w->m;
	const struct twir_stmt *guarded = only_guard(s->u.formap.body);
	if (!guarded)
		return NULL;
	struct guard g = {.w = w, .lane = twir_worker(m, TWIR_LANE), .lanes = lanes, .known = true};
	gather(&g, guarded->u.branch.cond);
	struct twir_stmt *out;
	if (!g.varying) {
		out = twp_lane_region(m, lanes, guarded->u.branch.body);
	} else {
		struct twir_stmt *masked = twp_lane_region(m, lanes, twp_if(m, g.varying, guarded->u.branch.body, NULL));
		if (!g.known)
			out = g.uniform ? masked : NULL;
		else if (twir_prove(&w->facts, g.all))
			out = twp_lane_region(m, lanes, guarded->u.branch.body);
		else
			out = twp_if(m, g.all, twp_lane_region(m, lanes, fresh(m, guarded->u.branch.body)), masked);
	}
	return out && g.uniform ? twp_if(m, g.uniform, out, NULL) : out;
}

static bool statement(struct twp_walk *w, const struct twir_stmt *s, struct twp_list *out)
{
	struct twir_module *m = w->m;
	if (s->kind == TWIR_SPECIALISE) {
		struct twir_stmt *c = twp_if(m, s->u.branch.cond, s->u.branch.body, fresh(m, s->u.branch.body));
		twp_list_add(out, twp_walk_stmt(w, c));
		return true;
	}
	if (!twp_is_lane_region(s))
		return false;
	struct twir_stmt *walked = twp_walk_stmt(w, s), *c = region(w, *(const int64_t *)w->user, walked);
	twp_list_add(out, c ? c : walked);
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
