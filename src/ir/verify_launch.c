/* The verifier on launch functions: scopes, buffers, the programs that are called and what they are called with. What
 * depends on values (sizes of buffers, their contents) is the interpreter's to find. */
#include "ir/verify_int.h"

static void check_block(struct twir_verifier *v, const struct twir_stmt *list);

static void check_number(struct twir_verifier *v, const struct twir_expr *e, const char *what)
{
	if (!twir_is_int((enum twir_scalar)e->type.scalar) || e->type.lanes != 1)
		twir_verify_fail(v, "%s is no integer: launch functions compute sizes and conditions only", what);
	twir_verify_expr(v, e);
}

static void check_argument(struct twir_verifier *v, const struct twir_tensor *param, const struct twir_argument *a)
{
	if (!twir_verify_visible(v, a->tensor))
		twir_verify_fail(v, "tensor '%s' is neither a parameter nor a buffer here", a->tensor->base);
	for (int i = 0; i < a->n; i++)
		check_number(v, a->index[i], "an index");
	const char *why = twir_bad_argument(param, a);
	if (why)
		twir_verify_fail(v, "'%s' for parameter '%s': %s", a->tensor->base, param->base, why);
}

static bool same_part(const struct twir_argument *a, const struct twir_argument *b)
{
	if (a->tensor != b->tensor)
		return false;
	for (int i = 0; i < a->n && i < b->n; i++)
		if (a->index[i] != b->index[i]) /* may differ */
			return false;
	return true;
}

static void check_invoke(struct twir_verifier *v, const struct twir_stmt *s)
{
	const struct twir_program *f = s->u.invoke.program;
	if (s->u.invoke.n != f->nparams)
		twir_verify_fail(v, "program '%s' has %d parameters, not %d", f->name, f->nparams, s->u.invoke.n);
	for (int k = 0; k < f->nparams; k++)
		check_argument(v, f->params[k], &s->u.invoke.args[k]);
	for (int k = 0; k < f->nparams; k++)
		for (int i = 0; i < k; i++) {
			const struct twir_tensor *p = f->params[i], *q = f->params[k];
			if ((p->scope == TWIR_OUT || q->scope == TWIR_OUT) && p->alias != q && q->alias != p &&
			    same_part(&s->u.invoke.args[i], &s->u.invoke.args[k]))
				twir_verify_fail(v, "'%s' is handed to '%s' and to '%s', which may not overlap",
						 s->u.invoke.args[k].tensor->base, p->base, q->base);
		}
	for (int k = 0; k < s->u.invoke.nsymbols; k++)
		check_number(v, s->u.invoke.values[k], "a symbol's value");
}

static void check_buffer(struct twir_verifier *v, const struct twir_stmt *s)
{
	const struct twir_tensor *t = s->u.declare.tensor;
	if (t->scope != TWIR_BUFFER || t->mirrors || t->lanes != 1)
		twir_verify_fail(v, "'%s' is no buffer", t->base);
	twir_verify_tensor(v, t, false, "a size");
	twir_verify_bind(v, t, t->base);
}

static void check_loop(struct twir_verifier *v, const struct twir_stmt *s)
{
	const int mark = v->scope.n;
	check_number(v, s->u.loop.extent, "the number of steps");
	twir_verify_bind(v, s->u.loop.var, s->u.loop.var->name);
	check_block(v, s->u.loop.body);
	twir_verify_unbind(v, mark);
}

static void check_stmt(struct twir_verifier *v, const struct twir_stmt *s)
{
	v->stmt = s;
	switch (s->kind) {
	case TWIR_LET:
		check_number(v, s->u.let.value, s->u.let.var->name);
		twir_verify_bind(v, s->u.let.var, s->u.let.var->name);
		break;
	case TWIR_DECLARE:
		check_buffer(v, s);
		break;
	case TWIR_FOR:
		check_loop(v, s);
		break;
	case TWIR_IF:
		check_number(v, s->u.branch.cond, "the condition");
		check_block(v, s->u.branch.body);
		check_block(v, s->u.branch.other);
		break;
	case TWIR_INVOKE:
		check_invoke(v, s);
		break;
	default:
		twir_verify_fail(v, "a launch function holds let, buffer, for, if and call");
	}
}

static void check_block(struct twir_verifier *v, const struct twir_stmt *list)
{
	twir_verify_block(v, list, check_stmt);
}

void twir_verify_launch(struct twir_module *m, const struct twir_launch *l, enum tw_code blame)
{
	struct twir_verifier v;
	twir_verify_start(&v, m, blame, "launch function", l->name);
	v.launch = l;
	for (int i = 0; i < l->nparams; i++) {
		const struct twir_tensor *t = l->params[i];
		if ((t->scope != TWIR_IN && t->scope != TWIR_OUT) || t->lanes != 1 || t->mirrors)
			twir_verify_fail(&v, "parameter '%s' must be an ordinary tensor, in or out", t->base);
		twir_verify_tensor(&v, t, false, "a size");
		twir_verify_bind(&v, t, t->base);
	}
	check_block(&v, l->body);
	arena_free(v.arena);
}
