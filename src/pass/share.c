/* share: pure sub-expressions used twice in a statement become lets before it, so that text and C are linear in the
 * size of the DAG. needs: nothing; breaks: nothing.
 *
 * A load under a lazy conditional is bound only if the statement makes it anyway; other expressions that hold such
 * loads stay where they are. Cheap leaves (constants, variables, splats and casts of them) are repeated. */
#include "pass/pass_int.h"

struct node {
	int uses;  /* from distinct parents */
	bool sure; /* evaluated whatever the conditionals choose */
	const struct twir_expr *done;
};

struct share {
	struct twir_module *m;
	struct tw_map nodes; /* of the statement at hand: expr -> struct node */
	struct twp_list *out;
};

/* The offsets of a gather: the emitter takes splat(base) + index(narrow vector) apart, so that it must see it whole. */
static bool is_offset(const struct twir_expr *e)
{
	if (e->type.scalar != TWIR_INDEX || e->type.lanes == 1)
		return false;
	if (e->kind == TWIR_Cast)
		return true;
	return e->kind == TWIR_Add && ((e->arg[0]->kind == TWIR_Splat && e->arg[1]->kind == TWIR_Cast) ||
				       (e->arg[1]->kind == TWIR_Splat && e->arg[0]->kind == TWIR_Cast));
}

static bool cheap(const struct twir_expr *e)
{
	if (is_offset(e))
		return true;
	switch (e->kind) {
	case TWIR_Const:
	case TWIR_Var:
	case TWIR_Iota:
		return true;
	case TWIR_Splat:
	case TWIR_Cast:
	case TWIR_Bitcast:
		return cheap(e->arg[0]);
	case TWIR_Mul: /* strides of lanes */
		return e->arg[0]->kind == TWIR_Iota && e->arg[1]->kind == TWIR_Splat && cheap(e->arg[1]);
	case TWIR_Load: /* a variable */
		return e->u.tensor->scope == TWIR_REGISTER && e->n == 0;
	default:
		return false;
	}
}

static struct node *node(struct share *x, const struct twir_expr *e)
{
	struct node *n = map_get_ptr(&x->nodes, e);
	if (!n) {
		n = ARENA_NEW(x->m->arena, struct node);
		map_set_ptr(&x->nodes, e, n);
	}
	return n;
}

static void count(struct share *x, const struct twir_expr *e, bool sure)
{
	struct node *n = node(x, e);
	const bool again = n->uses > 0;
	n->uses++;
	if (is_offset(e)) { /* repeated, so its parts are used as often */
		for (int i = 0; i < e->n; i++)
			count(x, e->arg[i], sure);
		return;
	}
	if (again && (n->sure || !sure))
		return;
	n->sure |= sure;
	for (int i = 0; i < e->n; i++) {
		/* A second visit, now on a sure path, tells the arguments so but adds no use. */
		const int uses = node(x, e->arg[i])->uses;
		count(x, e->arg[i], sure && !(e->kind == TWIR_Cond && i > 0));
		if (again)
			node(x, e->arg[i])->uses = uses;
	}
}

static const struct twir_expr *rewrite(struct share *x, const struct twir_expr *e)
{
	const struct twir_expr *arg[64];
	struct node *n = node(x, e);
	if (n->done)
		return n->done;
	TW_CHECK(e->n <= TW_COUNT(arg));
	for (int i = 0; i < e->n; i++)
		arg[i] = rewrite(x, e->arg[i]);
	const struct twir_expr *out = twir_with_args(x->m, e, arg);
	if (n->uses > 1 && !cheap(e) && (n->sure || !e->loads)) {
		struct twir_var *v = twir_var_new(x->m, TWIR_BOUND, out->type, out->type.scalar == TWIR_I1 ? "m" : "t");
		twp_list_add(x->out, twir_let(x->m, v, out));
		out = twir_var(x->m, v);
	}
	n->done = out;
	return out;
}

static const struct twir_expr *expr(struct twp_walk *w, const struct twir_expr *e)
{
	return rewrite(w->user, e);
}

static void count_parts(struct share *x, const struct twir_stmt *s)
{
	switch (s->kind) {
	case TWIR_LET:
		count(x, s->u.let.value, true);
		break;
	case TWIR_STORE:
		for (int i = 0; i < s->u.store.n; i++)
			count(x, s->u.store.index[i], true);
		count(x, s->u.store.value, true);
		if (s->u.store.mask)
			count(x, s->u.store.mask, true);
		break;
	case TWIR_FOR:
		count(x, s->u.loop.extent, true);
		break;
	case TWIR_IF:
		count(x, s->u.branch.cond, true);
		break;
	case TWIR_PREFETCH:
		for (int i = 0; i < s->u.prefetch.n; i++)
			count(x, s->u.prefetch.index[i], true);
		break;
	default:
		break;
	}
}

static bool statement(struct twp_walk *w, const struct twir_stmt *s, struct twp_list *out)
{
	const struct share outer = *(struct share *)w->user;
	struct share *x = w->user;
	struct twp_list lets;
	if (s->kind == TWIR_DECLARE) { /* sizes stay whole: they are part of the tensor */
		twp_list_add(out, twp_copy(w->m, s));
		return true;
	}
	twp_list_init(&lets);
	map_init(&x->nodes, w->m->scratch);
	x->out = &lets;
	count_parts(x, s);
	struct twir_stmt *c = twp_walk_stmt(w, s);
	*x = outer;
	twp_list_add(out, lets.head);
	twp_list_add(out, c);
	return true;
}

void pass_share(struct twir_module *m, struct twir_program *p, const struct tw_target *t)
{
	(void)t;
	struct share x = {.m = m};
	struct twp_walk w;
	twp_walk_init(&w, m, p);
	w.user = &x;
	w.stmt = statement;
	w.expr = expr;
	p->body = twp_walk_block(&w, p->body);
}
