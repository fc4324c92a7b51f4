/* Compute definitions as algebra: inlining one into another, counting what an element costs, which tensors it loads. */
#include "sched/sched.h"

struct inliner {
	const struct twir_compute *producer;
};

static const struct twir_expr *inline_load(struct twir_rewriter *r, const struct twir_expr *e)
{
	const struct twir_compute *c = ((struct inliner *)r->user)->producer;
	if (e->kind != TWIR_Load || e->u.tensor != c->out)
		return e;
	TW_CHECK(e->nidx == e->n, "a masked load of %s cannot be inlined", c->out->name);
	struct twir_subst s;
	twir_subst_init(&s, r->m);
	for (int i = 0; i < c->out->rank; i++)
		twir_subst_set(&s, c->axes[i], e->arg[i]);
	return twir_subst_expr(&s, c->value);
}

const struct twir_expr *tw_inline(struct twir_module *m, const struct twir_expr *e, const struct twir_compute *producer)
{
	struct inliner in = {producer};
	struct twir_rewriter r;
	twir_rewriter_init(&r, m);
	r.user = &in;
	r.expr = inline_load;
	return twir_rewrite_expr(&r, e);
}

static void see_fold(void *arg, const struct twir_expr *e)
{
	if (e->kind == TWIR_Fold)
		*(bool *)arg = true;
}

bool tw_has_fold(const struct twir_expr *e)
{
	bool has = false;
	twir_visit_expr(e, see_fold, &has);
	return has;
}

static void count_cost(void *arg, const struct twir_expr *e)
{
	int *cost = arg;
	if (e->type.scalar == TWIR_INDEX || e->kind == TWIR_Const || e->kind == TWIR_Var || e->kind == TWIR_Load)
		return;
	if (e->kind == TWIR_Call)
		*cost += 20;
	else if (e->kind == TWIR_Div || e->kind == TWIR_Mod || e->kind == TWIR_Sqrt)
		*cost += 5;
	else
		*cost += 1;
}

int tw_cost(const struct twir_expr *e)
{
	int cost = 0;
	twir_visit_expr(e, count_cost, &cost);
	return cost;
}

struct load_count {
	const struct twir_tensor *t;
	const struct twir_expr *one;
	int n;
};

static void count_load(void *arg, const struct twir_expr *e)
{
	struct load_count *c = arg;
	if ((e->kind == TWIR_Load || e->kind == TWIR_Gather) && e->u.tensor == c->t) {
		c->n++;
		c->one = e;
	}
}

int tw_loads_of(const struct twir_expr *e, const struct twir_tensor *t, const struct twir_expr **one)
{
	struct load_count c = {.t = t};
	twir_visit_expr(e, count_load, &c);
	if (one)
		*one = c.one;
	return c.n;
}

struct tensor_list {
	struct tw_arena *a;
	VEC(struct twir_tensor *) found;
};

static void list_tensor(void *arg, const struct twir_expr *e)
{
	struct tensor_list *l = arg;
	if (e->kind != TWIR_Load && e->kind != TWIR_Gather)
		return;
	for (int i = 0; i < l->found.n; i++)
		if (l->found.at[i] == e->u.tensor)
			return;
	vec_push(l->a, &l->found, e->u.tensor);
}

void tw_loaded_tensors(struct tw_arena *a, const struct twir_expr *e, struct twir_tensor ***tensors, int *n)
{
	struct tensor_list l = {.a = a};
	twir_visit_expr(e, list_tensor, &l);
	*tensors = l.found.at;
	*n = l.found.n;
}

int64_t tw_size_or(const struct twir_expr *e, int64_t otherwise)
{
	int64_t v;
	return twir_const_int(e, &v) ? v : otherwise;
}

struct guess {
	struct twir_subst s;
	int64_t symbol;
};

static void see_symbol(void *arg, const struct twir_expr *e)
{
	struct guess *g = arg;
	if (e->kind != TWIR_Var || e->u.var->kind != TWIR_SYMBOL)
		return;
	struct twir_var *v = e->u.var;
	twir_subst_set(&g->s, v, twir_index(g->s.m, tw_most(v->lo, tw_least(v->hi, g->symbol))));
}

int64_t tw_size_about(struct twir_module *m, const struct twir_expr *e, int64_t symbol)
{
	struct guess g = {.symbol = symbol};
	struct twir_facts f;
	twir_subst_init(&g.s, m);
	twir_visit_expr(e, see_symbol, &g);
	twir_facts_init(&f, m);
	return tw_most(1, tw_size_or(twir_simplify(&f, twir_subst_expr(&g.s, e)), symbol));
}
