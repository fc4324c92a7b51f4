/* Lowers the graph: every live node becomes its compute definitions, over one tensor object per graph tensor. Loads of one-element constants become literals. */
#include "opt/opt.h"

struct literal {
	struct tw_definitions *d;
};

static double scalar_value(const struct tw_tensor *t)
{
	switch (t->type) {
	case TWIR_F32: {
		float f;
		memcpy(&f, t->data, sizeof(f));
		return f;
	}
	case TWIR_F64: {
		double f;
		memcpy(&f, t->data, sizeof(f));
		return f;
	}
	default:
		return 0;
	}
}

static int64_t scalar_integer(const struct tw_tensor *t)
{
	int64_t v = 0;
	const int bytes = twir_scalar_bytes(t->type);
	memcpy(&v, t->data, (size_t)bytes);
	if (twir_is_signed(t->type) && bytes < 8)
		v = (int64_t)((uint64_t)v << (64 - 8 * bytes)) >> (64 - 8 * bytes);
	return v;
}

static const struct twir_expr *literal_load(struct twir_rewriter *r, const struct twir_expr *e)
{
	const struct tw_definitions *d = ((struct literal *)r->user)->d;
	if (e->kind != TWIR_Load)
		return e;
	const uintptr_t id = (uintptr_t)map_get_ptr(&d->tensor, e->u.tensor);
	if (id == 0)
		return e;
	const struct tw_tensor *t = &d->g->tensors.at[id - 1];
	if (!t->data || t->bytes != twir_scalar_bytes(t->type))
		return e;
	if (t->type == TWIR_F32 || t->type == TWIR_F64)
		return twir_float(r->m, t->type, scalar_value(t));
	if (twir_is_int(t->type))
		return twir_int(r->m, t->type, scalar_integer(t));
	return e;
}

void opt_lower(struct tw_graph *g, struct tw_definitions *d)
{
	*d = (struct tw_definitions){.g = g};
	map_init(&d->tensor, g->arena);
	struct literal l = {d};
	struct twir_rewriter r;
	twir_rewriter_init(&r, g->m);
	r.user = &l;
	r.expr = literal_load;
	for (int i = 0; i < g->nodes.n; i++) {
		if (g->nodes.at[i].dead)
			continue;
		if (g->nodes.at[i].op->flags & TW_OP_HOST) {
			for (int k = 0; k < g->nodes.at[i].nin + g->nodes.at[i].nout; k++) {
				const struct tw_node *n = &g->nodes.at[i];
				const tw_id t = k < n->nin ? n->in[k] : n->out[k - n->nin];
				if (t != TW_NONE)
					tw_graph_ir(g, t);
			}
			vec_push(g->arena, &d->list, ((struct tw_definition){.node = (tw_id)i}));
			continue;
		}
		struct twir_compute **computes;
		const struct tw_mark *marks;
		int n, nmarks, mark = 0;
		tw_compute_flow(g, (tw_id)i, g->arena, &n, &computes, &nmarks, &marks);
		for (int k = 0; k <= n; k++) {
			for (; mark < nmarks && marks[mark].at == k; mark++)
				vec_push(g->arena, &d->list,
					 ((struct tw_definition){.node = (tw_id)i, .mark = &marks[mark]}));
			if (k < n)
				vec_push(g->arena, &d->list,
					 ((struct tw_definition){.compute = computes[k], .node = (tw_id)i}));
		}
	}
	for (int i = 0; i < g->outputs.n; i++) /* one may be a constant that no node reads */
		tw_graph_ir(g, g->outputs.at[i]);
	for (int t = 0; t < g->tensors.n; t++)
		if (g->tensors.at[t].ir)
			map_set_ptr(&d->tensor, g->tensors.at[t].ir, (void *)(uintptr_t)(t + 1));
	for (int i = 0; i < d->list.n; i++)
		if (d->list.at[i].compute)
			d->list.at[i].compute->value = twir_rewrite_expr(&r, d->list.at[i].compute->value);
}
