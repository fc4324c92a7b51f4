/* custom: rows of operators made of text: their inference and their definitions. */
#include "ops/custom_int.h"

#include <inttypes.h>

const struct twir_expr *custom_size(struct custom *c, const struct twir_expr *e)
{
	return tw_simplify(c->x, twir_subst_expr(&c->sizes, e));
}

static const char *type_text(struct custom *c, const struct twir_tensor *t)
{
	struct tw_buf b;
	buf_init(&b, c->x->arena);
	buf_printf(&b, "%s[", twir_scalar_name(t->type));
	for (int d = 0; d < t->rank; d++)
		buf_printf(&b, "%s%s", d ? ", " : "", twir_print_expr(c->x->arena, t->shape[d]));
	buf_putc(&b, ']');
	return b.at;
}

/* ---- symbols ---- */

/* What the text declares of a symbol must be known to hold. */
static void check_facts(struct custom *c, const struct twir_var *v, const struct twir_expr *e, const char *where)
{
	struct twir_facts f;
	twir_facts_init(&f, c->x->m);
	const struct twir_range r = twir_range_of(&f, e);
	int64_t n;
	const bool known = twir_const_int(e, &n);
	const bool fits = known ? n >= v->lo && n <= v->hi && n % v->multiple == 0
				: r.lo >= v->lo && r.hi <= v->hi && r.multiple % v->multiple == 0;
	if (!fits)
		tw_op_fail(c->x, TW_ERR_MODEL,
			   "%s: %s is %s; %s declares %s in %" PRId64 "..%" PRId64 " multiple %" PRId64, where, v->name,
			   twir_print_expr(c->x->arena, e), c->text->file, v->name, v->lo, v->hi, v->multiple);
}

static bool is_bound(const struct custom *c, const struct twir_var *v)
{
	return map_get_ptr(&c->sizes.map, v) != NULL;
}

static void bind_symbol(struct custom *c, struct twir_var *v, const struct twir_expr *e, const char *where)
{
	check_facts(c, v, e, where);
	twir_subst_set(&c->sizes, v, e);
}

static struct twir_var *symbol_named(const struct custom *c, const char *name)
{
	for (int i = 0; i < c->symbols.n; i++)
		if (strcmp(c->symbols.at[i]->name, name) == 0)
			return c->symbols.at[i];
	return NULL;
}

/* Attributes: an integer is the value of a symbol, other numbers are tensors. */
static void bind_attributes(struct custom *c)
{
	const struct tw_node *n = c->x->node;
	map_init(&c->attrs, c->x->arena);
	for (int i = 0; i < n->nattrs; i++) {
		const struct tw_attr *a = &n->attrs[i];
		struct twir_var *v = a->kind == TW_ATTR_INT ? symbol_named(c, a->name) : NULL;
		int k = 0;
		while (k < c->inputs.n && strcmp(c->inputs.at[k]->base, a->name) != 0)
			k++;
		struct twir_tensor *t = k < c->inputs.n && !c->program && !c->launch ? c->inputs.at[k] : NULL;
		const bool list = a->kind == TW_ATTR_FLOATS || a->kind == TW_ATTR_INTS;
		if (v) {
			bind_symbol(c, v, twir_index(c->x->m, a->i),
				    arena_printf(c->x->arena, "attribute '%s'", a->name));
		} else if (t && (list || a->kind == TW_ATTR_FLOAT || a->kind == TW_ATTR_INT)) {
			if (t->rank != list)
				tw_op_fail(c->x, TW_ERR_MODEL, "attribute '%s' is %s, but %s has %s", a->name,
					   list ? "a list" : "one number", c->text->file, type_text(c, t));
			map_set_ptr(&c->attrs, t, (void *)(uintptr_t)a);
			if (list && t->shape[0]->kind == TWIR_Var && !is_bound(c, t->shape[0]->u.var))
				bind_symbol(c, t->shape[0]->u.var, twir_index(c->x->m, a->n), a->name);
			memmove(&c->inputs.at[k], &c->inputs.at[k + 1],
				sizeof(*c->inputs.at) * (size_t)(c->inputs.n - k - 1));
			c->inputs.n--;
		} else {
			tw_op_fail(c->x, TW_ERR_UNSUPPORTED,
				   "attribute '%s' is not supported: %s has neither a symbol nor a tensor for it",
				   a->name, c->text->file);
		}
	}
}

void custom_bind(struct custom *c)
{
	struct tw_opctx *x = c->x;
	const struct tw_node *n = x->node;
	twir_subst_init(&c->sizes, x->m);
	bind_attributes(c);
	if (n->nin != c->inputs.n || n->nout > c->outputs.n)
		tw_op_fail(x, TW_ERR_MODEL, "it has %d inputs and %d outputs, but %s is written for %d and %d", n->nin,
			   n->nout, c->text->file, c->inputs.n, c->outputs.n);
	for (int i = 0; i < n->nin; i++) {
		const struct twir_tensor *t = c->inputs.at[i];
		if (tw_in_type(x, i) != t->type)
			tw_op_fail(x, TW_ERR_MODEL, "input %d is of type %s, but %s has %s %s", i,
				   twir_scalar_name(tw_in_type(x, i)), c->text->file, t->base, type_text(c, t));
		if (tw_in_rank(x, i) != t->rank)
			tw_op_fail(x, TW_ERR_MODEL, "input %d has %d dimensions, but %s has %s %s", i, tw_in_rank(x, i),
				   c->text->file, t->base, type_text(c, t));
		for (int d = 0; d < t->rank; d++)
			if (t->shape[d]->kind == TWIR_Var && !is_bound(c, t->shape[d]->u.var))
				bind_symbol(c, t->shape[d]->u.var, tw_in_dim(x, i, d),
					    arena_printf(x->arena, "dimension %d of input %d", d, i));
	}
	for (int i = 0; i < c->symbols.n; i++)
		if (!is_bound(c, c->symbols.at[i]))
			tw_op_fail(x, TW_ERR_MODEL, "nothing tells %s of %s: neither an input's size nor an attribute",
				   c->symbols.at[i]->name, c->text->file);
	for (int i = 0; i < n->nin; i++)
		for (int d = 0; d < c->inputs.at[i]->rank; d++)
			(void)tw_same_size(x, tw_in_dim(x, i, d), custom_size(c, c->inputs.at[i]->shape[d]),
					   arena_printf(x->arena, "dimension %d of input %d", d, i));
}

/* ---- definitions ---- */

struct replacing {
	struct custom *c;
	struct tw_map tensors; /* of the text -> of the graph */
};

static const struct twir_expr *attribute_value(struct custom *c, const struct twir_tensor *t, const struct tw_attr *a)
{
	const double v = a->kind == TW_ATTR_FLOAT ? (double)a->f : (double)a->i;
	return twir_const_of(c->x->m, twir_scalar_type(t->type), v);
}

static const struct twir_expr *replace_load(struct twir_rewriter *r, const struct twir_expr *e)
{
	const struct replacing *p = r->user;
	if (e->kind != TWIR_Load)
		return e;
	const struct tw_attr *a = map_get_ptr(&p->c->attrs, e->u.tensor);
	if (a && e->u.tensor->rank == 0)
		return attribute_value(p->c, e->u.tensor, a);
	struct twir_tensor *t = map_get_ptr(&p->tensors, e->u.tensor);
	TW_CHECK(t, "%s loads %s, which is nothing of the node's", p->c->text->file, e->u.tensor->name);
	return twir_load(r->m, t, e->nidx, e->arg);
}

/* A list of numbers as a constant of the graph. */
static struct twir_tensor *table(struct custom *c, const struct twir_tensor *t, const struct tw_attr *a)
{
	const int64_t n = a->n;
	char *at = ARENA_ARRAY(c->x->g->arena, char, (n + 1) * twir_scalar_bytes(t->type));
	for (int64_t i = 0; i < n; i++) {
		const float f = a->kind == TW_ATTR_FLOATS ? a->floats[i] : (float)a->ints[i];
		if (t->type == TWIR_F32 && a->kind == TW_ATTR_FLOATS)
			((float *)at)[i] = f;
		else if (t->type == TWIR_I64 && a->kind == TW_ATTR_INTS)
			((int64_t *)at)[i] = a->ints[i];
		else
			tw_op_fail(c->x, TW_ERR_MODEL, "attribute '%s' is a list of %s, but %s has %s", a->name,
				   a->kind == TW_ATTR_FLOATS ? "f32" : "i64", c->text->file, type_text(c, t));
	}
	return tw_table(c->x, a->name, t->type, 1, &n, at);
}

static void definitions(struct custom *c)
{
	struct tw_opctx *x = c->x;
	struct replacing p = {.c = c};
	struct twir_rewriter r;
	map_init(&p.tensors, x->arena);
	twir_rewriter_init(&r, x->m);
	r.user = &p;
	r.expr = replace_load;
	for (int i = 0; i < c->inputs.n; i++)
		map_set_ptr(&p.tensors, c->inputs.at[i], tw_x(x, i));
	for (int i = 0; i < c->tensors.n; i++) {
		const struct tw_attr *a = map_get_ptr(&c->attrs, c->tensors.at[i]);
		if (a && c->tensors.at[i]->rank == 1)
			map_set_ptr(&p.tensors, c->tensors.at[i], table(c, c->tensors.at[i], a));
	}
	for (int i = 0, y = 0; i < c->computes.n; i++) {
		const struct twir_compute *d = c->computes.at[i];
		const struct twir_expr *shape[TWIR_MAX_RANK];
		const bool is_output = y < c->outputs.n && c->outputs.at[y] == d->out;
		for (int k = 0; k < d->out->rank; k++) {
			shape[k] = custom_size(c, d->out->shape[k]);
			int64_t n;
			if (twir_const_int(shape[k], &n))
				d->axes[k]->hi = n > 0 ? n - 1 : 0;
		}
		struct twir_tensor *out = is_output && tw_has_out(x, y)
						  ? tw_y(x, y)
						  : tw_temp(x, d->out->base, d->out->type, d->out->rank, shape);
		y += is_output;
		map_set_ptr(&p.tensors, d->out, out);
		tw_define(x, out, d->axes, twir_rewrite_expr(&r, twir_subst_expr(&c->sizes, d->value)));
	}
}

/* ---- rows ---- */

static void instance(struct tw_opctx *x, struct custom *c)
{
	*c = (struct custom){.x = x, .text = x->node->op->custom};
	custom_read(c, x->m, x->arena);
	custom_bind(c);
}

static void infer(struct tw_opctx *x)
{
	struct custom c;
	instance(x, &c);
	for (int i = 0; i < x->node->nout; i++) {
		const struct twir_tensor *t = c.outputs.at[i];
		const struct twir_expr *shape[TWIR_MAX_RANK];
		for (int d = 0; d < t->rank; d++)
			shape[d] = custom_size(&c, t->shape[d]);
		tw_set_out(x, i, t->type, t->rank, shape);
	}
}

static void compute(struct tw_opctx *x)
{
	struct custom c;
	instance(x, &c);
	if (!c.program && !c.launch)
		definitions(&c);
	else if (x->g->reference)
		tw_op_fail(x, TW_ERR_UNSUPPORTED, "%s has no definition of it, only a program", c.text->file);
	else
		custom_programs(&c);
}

void tw_custom_row(struct tw_arena *a, int lanes, struct tw_custom *t)
{
	struct twir_module *m = twir_module_new(a);
	struct custom c = {.text = t};
	m->lanes = lanes;
	custom_read(&c, m, a);
	t->op = (struct tw_op){.name = t->name,
			       .domain = t->domain,
			       .since = 1,
			       .in = {0, -1},
			       .out = {0, -1},
			       .flags = TW_OP_CUSTOM | (c.program || c.launch ? TW_OP_PROGRAM : 0),
			       .infer = infer,
			       .compute = compute,
			       .custom = t};
}

const struct tw_op *tw_custom_find(const struct tw_custom *list, int n, const char *domain, const char *name)
{
	while (n-- > 0)
		if (strcmp(list[n].name, name) == 0 && (!list[n].domain || strcmp(list[n].domain, domain) == 0))
			return &list[n].op;
	return NULL;
}
