/* unroll_registers: loops that index register tensors are unrolled, register tensors become rank-0 tensors, which C
 * can keep in registers (left as arrays they ran at 30% of peak). Loads repeated with no store between become lets.
 * needs: lower_lanes; breaks: nothing. Out: register tensors have rank 0, but those indexed by what is not constant
 * or by loops whose unrolling would exceed UNROLL_STATEMENTS, which stay arrays. */
#include "pass/pass_int.h"

enum { UNROLL_STATEMENTS = 1024 };

/* --- unrolling --- */

struct indexed {
	const struct twir_var *v;
	bool yes;
	int64_t statements;
};

static void see_load(void *arg, const struct twir_expr *e)
{
	struct indexed *x = arg;
	if (e->kind == TWIR_Load && e->u.tensor->scope == TWIR_REGISTER)
		for (int i = 0; i < e->nidx; i++)
			x->yes |= twir_uses_var(e->arg[i], x->v);
}

static void see_expr(void *arg, const struct twir_expr *e)
{
	if (e->loads)
		twir_visit_expr(e, see_load, arg);
}

static void see_stmt(void *arg, const struct twir_stmt *s)
{
	struct indexed *x = arg;
	x->statements++;
	if (s->kind == TWIR_STORE && s->u.store.tensor->scope == TWIR_REGISTER)
		for (int i = 0; i < s->u.store.n; i++)
			x->yes |= twir_uses_var(s->u.store.index[i], x->v);
	for (int k = 0; k < 3 && s->kind == TWIR_MMA; k++)
		for (int i = 0; i < s->u.mma.part[k].n; i++)
			x->yes |= twir_uses_var(s->u.mma.part[k].index[i], x->v);
}

static bool unroll(struct twp_walk *w, const struct twir_stmt *s, struct twp_list *out)
{
	struct twir_module *m = w->m;
	int64_t n;
	if (s->kind != TWIR_FOR)
		return false;
	struct twir_stmt *loop = twp_walk_stmt(w, s); /* inner loops first: their statements count */
	struct indexed x = {.v = s->u.loop.var};
	twir_visit_block(loop->u.loop.body, see_stmt, see_expr, &x);
	if (!x.yes || !twir_const_int(s->u.loop.extent, &n) || n > UNROLL_STATEMENTS ||
	    n * x.statements > UNROLL_STATEMENTS) {
		twp_list_add(out, loop);
		return true;
	}
	for (int64_t i = 0; i < n; i++) {
		struct twir_subst sub;
		twir_subst_init(&sub, m);
		twir_subst_set(&sub, s->u.loop.var, twir_index(m, i));
		twp_list_add(out, twir_subst_block(&sub, loop->u.loop.body));
	}
	return true;
}

/* --- register tensors to variables --- */

struct element {
	struct element *next;
	int64_t at[TWIR_MAX_RANK];
	struct twir_tensor *variable;
};

struct reg {
	struct twir_tensor *tensor;
	bool array; /* an index is not constant */
	struct element *elements;
};

struct regs {
	struct twir_module *m;
	struct tw_map map; /* tensor -> struct reg */
	struct twir_rewriter r;
};

static struct reg *reg_of(struct regs *x, struct twir_tensor *t)
{
	struct reg *g = map_get_ptr(&x->map, t);
	if (!g) {
		g = ARENA_NEW(x->m->arena, struct reg);
		g->tensor = t;
		map_set_ptr(&x->map, t, g);
	}
	return g;
}

static struct element *element(struct regs *x, struct twir_tensor *t, int n, const struct twir_expr *const *index)
{
	struct reg *g = reg_of(x, t);
	int64_t at[TWIR_MAX_RANK] = {0};
	for (int i = 0; i < n && !g->array; i++)
		g->array = !twir_const_int(index[i], &at[i]);
	if (g->array)
		return NULL;
	struct element **e = &g->elements;
	for (; *e; e = &(*e)->next)
		if (memcmp((*e)->at, at, sizeof at) == 0)
			return *e;
	*e = ARENA_NEW(x->m->arena, struct element);
	memcpy((*e)->at, at, sizeof at);
	const char *name = t->base;
	for (int i = 0; i < n; i++)
		name = arena_printf(x->m->arena, "%s_%lld", name, (long long)at[i]);
	(*e)->variable = twir_tensor_new(x->m, name, t->type, 0, NULL, TWIR_REGISTER);
	(*e)->variable->lanes = t->lanes;
	return *e;
}

static bool is_array(const struct twir_tensor *t)
{
	return t->scope == TWIR_REGISTER && t->rank > 0;
}

static void collect_load(void *arg, const struct twir_expr *e)
{
	if (e->kind == TWIR_Load && is_array(e->u.tensor))
		(void)element(arg, e->u.tensor, e->nidx, e->arg);
}

static void collect_expr(void *arg, const struct twir_expr *e)
{
	if (e->loads)
		twir_visit_expr(e, collect_load, arg);
}

static void collect_stmt(void *arg, const struct twir_stmt *s)
{
	if (s->kind == TWIR_STORE && is_array(s->u.store.tensor))
		(void)element(arg, s->u.store.tensor, s->u.store.n, s->u.store.index);
	for (int k = 0; k < 3 && s->kind == TWIR_MMA; k++) /* matrix instructions take runs of elements */
		reg_of(arg, s->u.mma.part[k].tensor)->array = true;
}

static struct reg *split(const struct regs *x, const struct twir_tensor *t)
{
	struct reg *g = is_array(t) ? map_get_ptr(&x->map, t) : NULL;
	return g && !g->array ? g : NULL;
}

static const struct twir_expr *variable_load(struct twir_rewriter *r, const struct twir_expr *e)
{
	struct regs *x = r->user;
	if (e->kind != TWIR_Load || !split(x, e->u.tensor))
		return e;
	return twir_load(r->m, element(x, e->u.tensor, e->nidx, e->arg)->variable, 0, NULL);
}

static const struct twir_expr *variable_expr(struct twp_walk *w, const struct twir_expr *e)
{
	struct regs *x = w->user;
	return e->loads ? twir_rewrite_expr(&x->r, e) : e;
}

static bool variable_stmt(struct twp_walk *w, const struct twir_stmt *s, struct twp_list *out)
{
	struct regs *x = w->user;
	if (s->kind == TWIR_DECLARE && is_array(s->u.declare.tensor)) {
		const struct reg *g = map_get_ptr(&x->map, s->u.declare.tensor);
		if (!g)
			return true; /* never used */
		if (g->array)
			return false;
		for (const struct element *e = g->elements; e; e = e->next) {
			struct twir_stmt *d = twp_copy(w->m, s);
			d->u.declare.tensor = e->variable;
			twp_list_add(out, d);
		}
		return true;
	}
	if (s->kind != TWIR_STORE || !split(x, s->u.store.tensor))
		return false;
	struct twir_stmt *c = twp_walk_stmt(w, s);
	const struct element *e = element(x, s->u.store.tensor, s->u.store.n, s->u.store.index);
	twp_list_add(out, twir_store(w->m, e->variable, 0, NULL, c->u.store.value, NULL));
	return true;
}

void pass_unroll_registers(struct twir_module *m, struct twir_program *p, const struct tw_target *t)
{
	struct twp_walk w;
	struct regs x = {.m = m};
	if (t->isa == TW_ISA_SCALAR) { /* arrays over the lanes are what its compiler can work with */
		twir_simplify_program(m, p);
		p->body = twp_merge_loads(m, p->body);
		return;
	}
	twp_walk_init(&w, m, p);
	w.stmt = unroll;
	p->body = twp_walk_block(&w, p->body);
	twir_simplify_program(m, p); /* indices become constants, equal loads the same expression */
	map_init(&x.map, m->scratch);
	twir_rewriter_init(&x.r, m);
	x.r.user = &x;
	x.r.expr = variable_load;
	twir_visit_block(p->body, collect_stmt, collect_expr, &x);
	w.user = &x;
	w.stmt = variable_stmt;
	w.expr = variable_expr;
	p->body = twp_walk_block(&w, p->body);
	p->body = twp_merge_loads(m, p->body);
}
