/* name_workers: numbers of workers whose level is not launched become those of the levels that are: `thread` of warps
 * and lanes, `warp` and `lane` of threads. needs: nothing; breaks: nothing. */
#include "pass/pass_int.h"

struct naming {
	const struct twir_program *p;
	struct twir_rewriter r;
};

static const struct twir_expr *worker(struct twir_rewriter *r, const struct twir_expr *e)
{
	const struct naming *x = r->user;
	return e->kind == TWIR_Var && e->u.var->kind == TWIR_WORKER ? twp_worker(r->m, x->p, e->u.var->level) : e;
}

void pass_name_workers(struct twir_module *m, struct twir_program *p, const struct tw_target *t)
{
	(void)t;
	struct naming x = {.p = p};
	twir_rewriter_init(&x.r, m);
	x.r.user = &x;
	x.r.expr = worker;
	p->body = twir_rewrite_block(&x.r, p->body);
}
