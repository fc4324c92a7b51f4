/* custom_program: an operator whose program is given: definitions that carry programs over compute tensors. Their values
 * only say what is loaded and that it is no movement: anchors, for grouping; no one evaluates them. Each call of a launch
 * function is a definition of its own, so that what depends on constants only (packed weights) is computed once, at
 * compile time; where several calls store one tensor, all of them are one definition. */
#include "ops/custom_int.h"

struct placing {
	struct custom *c;
	struct tw_map tensors; /* of the text -> compute tensors */
	VEC(struct twir_program *) programs;
	bool joined; /* all calls are one definition */
};

static const struct twir_expr *place_load(struct twir_rewriter *r, const struct twir_expr *e)
{
	const struct placing *p = r->user;
	struct twir_tensor *t = e->kind == TWIR_Load ? map_get_ptr(&p->tensors, e->u.tensor) : NULL;
	return t ? twir_load(r->m, t, e->nidx, e->arg) : e;
}

static struct twir_stmt *place_stmt(struct twir_rewriter *r, const struct twir_stmt *s)
{
	const struct placing *p = r->user;
	const struct twir_expr *index[TWIR_MAX_RANK];
	const bool store = s->kind == TWIR_STORE;
	if (!store && s->kind != TWIR_PREFETCH)
		return NULL;
	struct twir_tensor *t = map_get_ptr(&p->tensors, store ? s->u.store.tensor : s->u.prefetch.tensor);
	const int n = store ? s->u.store.n : s->u.prefetch.n;
	if (!t)
		return NULL;
	for (int i = 0; i < n; i++)
		index[i] = twir_rewrite_expr(r, store ? s->u.store.index[i] : s->u.prefetch.index[i]);
	return store ? twir_store(r->m, t, n, index, twir_rewrite_expr(r, s->u.store.value), NULL)
		     : twir_prefetch(r->m, t, n, index, s->u.prefetch.near);
}

/* A copy of the program over the tensors of `tensors`, with sizes in the place of symbols. */
static void add_program(struct placing *p, const struct twir_program *f, struct twir_subst *sizes)
{
	struct twir_module *m = p->c->x->m;
	struct twir_program *g = ARENA_NEW(m->arena, struct twir_program);
	struct twir_rewriter r;
	*g = *f;
	for (int i = 0; i < f->nlevels; i++)
		g->extents[i] = tw_simplify(p->c->x, twir_subst_expr(sizes, f->extents[i]));
	twir_rewriter_init(&r, m);
	r.user = p;
	r.expr = place_load;
	r.stmt = place_stmt;
	g->body = twir_rewrite_block(&r, twir_subst_block(sizes, f->body));
	vec_push(m->arena, &p->programs, g);
}

static const struct twir_layout *layout(struct custom *c, const struct twir_layout *l)
{
	if (!l)
		return NULL;
	struct twir_layout *copy = arena_copy(c->x->m->arena, l, sizeof(*l));
	for (int d = 0; d < l->rank; d++)
		copy->extent[d] = custom_size(c, l->extent[d]);
	copy->inner = layout(c, l->inner);
	return copy;
}

static void declare(struct placing *p, const struct twir_tensor *t)
{
	const struct twir_expr *shape[TWIR_MAX_RANK];
	for (int d = 0; d < t->rank; d++)
		shape[d] = custom_size(p->c, t->shape[d]);
	struct twir_tensor *own = tw_temp(p->c->x, t->base, t->type, t->rank, shape);
	own->layout = layout(p->c, t->layout);
	map_set_ptr(&p->tensors, t, own);
}

static void define(struct placing *p, struct twir_tensor *out, int n, struct twir_tensor *const *inputs);

/* Where the call stores; NULL: at several places. */
static const struct twir_tensor *stored_by(const struct twir_stmt *s)
{
	const struct twir_tensor *t = NULL;
	int n = 0;
	for (int i = 0; i < s->u.invoke.n; i++)
		if (s->u.invoke.program->params[i]->scope == TWIR_OUT) {
			t = s->u.invoke.args[i].tensor;
			n++;
		}
	return n == 1 ? t : NULL;
}

static bool must_join(const struct twir_stmt *list)
{
	for (const struct twir_stmt *s = list; s; s = s->next)
		for (const struct twir_stmt *o = list; o && s->kind == TWIR_INVOKE; o = o->next)
			if (!stored_by(s) || (o != s && o->kind == TWIR_INVOKE && stored_by(o) == stored_by(s)))
				return true;
	return false;
}

static void call(struct placing *p, const struct twir_stmt *s)
{
	struct custom *c = p->c;
	const struct twir_program *f = s->u.invoke.program;
	struct twir_subst sizes;
	twir_subst_init(&sizes, c->x->m);
	for (int i = 0; i < f->nsymbols; i++) {
		const struct twir_expr *e = twir_var(c->x->m, f->symbols[i]);
		for (int k = 0; k < s->u.invoke.nsymbols; k++)
			if (s->u.invoke.symbols[k] == f->symbols[i])
				e = s->u.invoke.values[k];
		twir_subst_set(&sizes, f->symbols[i], custom_size(c, e));
	}
	for (int i = 0; i < f->nparams; i++) {
		const struct twir_argument *a = &s->u.invoke.args[i];
		if (a->n)
			tw_op_fail(c->x, TW_ERR_UNSUPPORTED, "%s: its launch function hands on a part of %s",
				   c->text->file, a->tensor->base);
		if (a->tensor == c->outputs.at[0] && f->params[i]->scope == TWIR_IN)
			tw_op_fail(c->x, TW_ERR_UNSUPPORTED, "%s: its launch function reads the output %s",
				   c->text->file, a->tensor->base);
		map_set_ptr(&p->tensors, f->params[i], map_get_ptr(&p->tensors, a->tensor));
	}
	add_program(p, f, &sizes);
	if (p->joined)
		return;
	VEC(struct twir_tensor *) inputs = {0};
	for (int i = 0; i < f->nparams; i++)
		if (f->params[i]->scope == TWIR_IN)
			vec_push(c->x->arena, &inputs, map_get_ptr(&p->tensors, s->u.invoke.args[i].tensor));
	define(p, map_get_ptr(&p->tensors, stored_by(s)), inputs.n, inputs.at);
}

static void calls(struct placing *p, const struct twir_stmt *list)
{
	struct custom *c = p->c;
	for (const struct twir_stmt *s = list; s; s = s->next)
		switch (s->kind) {
		case TWIR_LET:
			twir_subst_set(&c->sizes, s->u.let.var, custom_size(c, s->u.let.value));
			break;
		case TWIR_DECLARE:
			declare(p, s->u.declare.tensor);
			break;
		case TWIR_INVOKE:
			call(p, s);
			break;
		default:
			tw_op_fail(c->x, TW_ERR_UNSUPPORTED,
				   "%s: the launch function of an operator calls programs one after the other, without "
				   "loops and branches",
				   c->text->file);
		}
}

/* The sum of an input's elements, as a value of the output's type. */
static const struct twir_expr *all_of(struct custom *c, struct twir_tensor *t, enum twir_scalar type)
{
	struct twir_module *m = c->x->m;
	const struct twir_expr **at;
	struct twir_var **axes = tw_axes(c->x, t, &at);
	const struct twir_expr *v = tw_load(c->x, t, t->rank, at);
	if (v->type.scalar == TWIR_I1 && type != TWIR_I1)
		v = twir_cast(m, TWIR_I32, v);
	v = twir_cast(m, type, v);
	return t->rank ? twir_fold(m, type == TWIR_I1 ? TWIR_Or : TWIR_Add, t->rank, axes, t->shape, v) : v;
}

/* The definition of out, with the programs that were added since the last one. */
static void define(struct placing *p, struct twir_tensor *out, int n, struct twir_tensor *const *inputs)
{
	struct tw_opctx *x = p->c->x;
	struct twir_module *m = x->m;
	const bool narrow = twir_is_storage(out->type);
	const enum twir_scalar type = narrow ? TWIR_F32 : out->type;
	const struct twir_expr *value = twir_const_of(m, twir_scalar_type(type), 0);
	for (int i = 0; i < n; i++) {
		const struct twir_expr *all = all_of(p->c, inputs[i], type);
		value = type == TWIR_I1 ? twir_or(m, value, all) : twir_add(m, value, all);
	}
	tw_define(x, out, tw_axes(x, out, NULL), narrow ? twir_cast(m, out->type, value) : value);
	struct twir_compute *d = x->computes.at[x->computes.n - 1];
	d->nprograms = p->programs.n;
	d->programs = p->programs.at;
	memset(&p->programs, 0, sizeof(p->programs));
}

void custom_programs(struct custom *c)
{
	struct tw_opctx *x = c->x;
	struct placing p = {.c = c};
	struct twir_tensor *y = tw_y(x, 0), **inputs = ARENA_ARRAY(x->arena, struct twir_tensor *, c->inputs.n);
	map_init(&p.tensors, x->arena);
	for (int i = 0; i < c->inputs.n; i++) {
		inputs[i] = tw_x(x, i);
		map_set_ptr(&p.tensors, c->inputs.at[i], inputs[i]);
	}
	map_set_ptr(&p.tensors, c->outputs.at[0], y);
	if (c->launch) {
		p.joined = must_join(c->launch->body);
		calls(&p, c->launch->body);
	} else {
		add_program(&p, c->program, &c->sizes);
	}
	if (c->program || p.joined)
		define(&p, y, c->inputs.n, inputs);
}
