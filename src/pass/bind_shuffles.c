/* bind_shuffles: each shuffle becomes a let before its statement, so that it is made once, by all lanes, and whatever
 * the statement chooses from. needs: nothing; breaks: nothing. */
#include "pass/pass_int.h"

struct binding {
	struct twir_rewriter r;
	struct twp_list *out; /* before the statement at hand */
};

static const struct twir_expr *bind(struct twir_rewriter *r, const struct twir_expr *e)
{
	struct binding *x = r->user;
	if (e->kind != TWIR_ShflUp && e->kind != TWIR_ShflDown && e->kind != TWIR_ShflXor && e->kind != TWIR_ShflIdx)
		return e;
	struct twir_var *v = twir_var_new(r->m, TWIR_BOUND, e->type, "shfl");
	twp_list_add(x->out, twir_let(r->m, v, e));
	return twir_var(r->m, v);
}

static const struct twir_expr *expr(struct twp_walk *w, const struct twir_expr *e)
{
	struct binding *x = w->user;
	if (!e->loads)
		return e;
	twir_rewriter_reset(&x->r);
	return twir_rewrite_expr(&x->r, e);
}

/* What a statement evaluates itself is rebuilt before its blocks are. */
static bool statement(struct twp_walk *w, const struct twir_stmt *s, struct twp_list *out)
{
	struct binding *x = w->user;
	x->out = out;
	twp_list_add(out, twp_walk_stmt(w, s));
	return true;
}

void pass_bind_shuffles(struct twir_module *m, struct twir_program *p, const struct tw_target *t)
{
	(void)t;
	struct binding x = {.out = NULL};
	struct twp_walk w;
	twp_walk_init(&w, m, p);
	w.user = &x;
	w.stmt = statement;
	w.expr = expr;
	twir_rewriter_init(&x.r, m);
	x.r.user = &x;
	x.r.expr = bind;
	p->body = twp_walk_block(&w, p->body);
}
