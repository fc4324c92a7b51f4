/* Constant folding of small results through the interpreter, the definition of the semantics; and tensors whose element values are known integers. */
#include "opt/opt.h"

#define SMALL (64 << 10) /* bytes; larger constants are computed by compiled kernels at the end of the compilation */

static bool constant_inputs(const struct tw_graph *g, const struct tw_node *n)
{
	if (n->op->flags & (TW_OP_RANDOM | TW_OP_HOST | TW_OP_FLOW | TW_OP_PROGRAM))
		return false;
	for (int i = 0; i < n->nattrs; i++)
		if (n->attrs[i].kind == TW_ATTR_GRAPH)
			return false;
	for (int i = 0; i < n->nin; i++)
		if (n->in[i] != TW_NONE && !g->tensors.at[n->in[i]].data)
			return false;
	return true;
}

/* Bytes of a tensor with constant sizes; -1: symbols in them, or more than SMALL. */
static int64_t small_bytes(const struct tw_graph *g, tw_id t)
{
	int64_t dims[TWIR_MAX_RANK], bytes = twir_scalar_bytes(g->tensors.at[t].type);
	if (g->tensors.at[t].rank < 0 || g->tensors.at[t].rank > TWIR_MAX_RANK || !tw_graph_static(g, t, dims))
		return -1;
	for (int i = 0; i < g->tensors.at[t].rank; i++) {
		if (dims[i] != 0 && bytes > SMALL / dims[i])
			return -1;
		bytes *= dims[i];
	}
	return bytes;
}

/* What the definitions of a node load: graph tensors by their compute tensor, temporaries as they are made. */
struct folder {
	struct tw_graph *g;
	VEC(struct twir_tensor *) tensors;
	VEC(struct twir_data) data;
	VEC(int64_t) dims; /* TWIR_MAX_RANK for each */
};

static void remember(struct folder *f, struct twir_tensor *t, void *at, int64_t elements, const int64_t *dims)
{
	struct tw_arena *a = f->g->arena;
	vec_push(a, &f->tensors, t);
	vec_push(a, &f->data, ((struct twir_data){at, elements}));
	for (int i = 0; i < TWIR_MAX_RANK; i++)
		vec_push(a, &f->dims, i < t->rank ? dims[i] : 1);
}

static int64_t elements_of(const struct twir_tensor *t, int64_t *dims)
{
	int64_t n = 1;
	for (int i = 0; i < t->rank; i++) {
		if (!twir_const_int(t->shape[i], &dims[i]) || dims[i] < 0 || (dims[i] > 0 && n > (16 << 20) / dims[i]))
			return -1;
		n *= dims[i];
	}
	return n;
}

static bool fold_node(struct tw_graph *g, tw_id id)
{
	struct tw_arena *a = g->arena;
	struct folder f = {.g = g};
	struct twir_compute **computes;
	int n;
	for (int i = 0; i < g->nodes.at[id].nin; i++) {
		const tw_id t = g->nodes.at[id].in[i];
		int64_t dims[TWIR_MAX_RANK];
		if (t == TW_NONE || !tw_graph_static(g, t, dims))
			continue;
		struct twir_tensor *ir = tw_graph_ir(g, t);
		remember(&f, ir, (void *)(uintptr_t)g->tensors.at[t].data, elements_of(ir, dims), dims);
	}
	tw_compute_node(g, id, a, &n, &computes);
	for (int k = 0; k < n; k++) {
		int64_t dims[TWIR_MAX_RANK];
		struct twir_tensor *out = computes[k]->out;
		const int64_t elements = elements_of(out, dims);
		if (elements < 0 || elements * twir_scalar_bytes(out->type) > SMALL)
			return false;
		struct twir_data data = {arena_alloc(a, (size_t)(elements * twir_scalar_bytes(out->type)) + 1),
					 elements};
		for (int t = 0; t < g->tensors.n; t++) { /* tables that the operator made */
			const struct tw_tensor *gt = &g->tensors.at[t];
			int64_t table_dims[TWIR_MAX_RANK];
			bool known = !gt->ir || !gt->data;
			for (int i = 0; i < f.tensors.n && !known; i++)
				known = f.tensors.at[i] == gt->ir;
			if (!known && tw_graph_static(g, (tw_id)t, table_dims) &&
			    tw_loads_of(computes[k]->value, gt->ir, NULL))
				remember(&f, gt->ir, (void *)(uintptr_t)gt->data, elements_of(gt->ir, table_dims),
					 table_dims);
		}
		const struct twir_env env = {f.tensors.n, f.tensors.at, f.data.at,
					     (const int64_t(*)[TWIR_MAX_RANK])f.dims.at};
		const struct twir_binding none = {0};
		twir_interpret_compute(g->m, computes[k], &none, &env, data);
		remember(&f, out, data.at, elements, dims);
	}
	for (int i = 0; i < g->nodes.at[id].nout; i++) {
		const tw_id t = g->nodes.at[id].out[i];
		for (int k = 0; t != TW_NONE && k < f.tensors.n; k++)
			if (f.tensors.at[k] == g->tensors.at[t].ir) {
				g->tensors.at[t].data = f.data.at[k].at;
				g->tensors.at[t].bytes =
					f.data.at[k].elements * twir_scalar_bytes(f.tensors.at[k]->type);
				g->tensors.at[t].producer = TW_NONE;
			}
	}
	g->nodes.at[id].dead = true;
	return true;
}

/* A small integer tensor all of whose values are known: written out. */
static void fold_values(struct tw_graph *g, tw_id t)
{
	struct tw_tensor *x = &g->tensors.at[t];
	int64_t dims[TWIR_MAX_RANK], n = 1;
	if (x->data || x->nvalues < 0 || !twir_is_int(x->type) || !tw_graph_static(g, t, dims))
		return;
	for (int i = 0; i < x->rank; i++)
		n *= dims[i];
	if (n != x->nvalues)
		return;
	const int bytes = twir_scalar_bytes(x->type);
	char *at = arena_alloc(g->arena, (size_t)(n * bytes) + 8);
	for (int64_t i = 0; i < n; i++) {
		int64_t v;
		if (!twir_const_int(x->values[i], &v))
			return;
		memcpy(at + i * bytes, &v, (size_t)bytes);
	}
	x->data = at;
	x->bytes = n * bytes;
	x->producer = TW_NONE;
}

void opt_fold_constants(struct tw_graph *g)
{
	for (int i = 0; i < g->nodes.n; i++) {
		if (g->nodes.at[i].dead)
			continue;
		bool all_known = true, small = true;
		for (int k = 0; k < g->nodes.at[i].nout; k++) {
			const tw_id t = g->nodes.at[i].out[k];
			if (t == TW_NONE)
				continue;
			fold_values(g, t);
			all_known &= g->tensors.at[t].data != NULL;
			small &= small_bytes(g, t) >= 0;
		}
		if (all_known)
			g->nodes.at[i].dead = true;
		else if (small && constant_inputs(g, &g->nodes.at[i]) && !tw_keeps_constants(g, &g->nodes.at[i]))
			fold_node(g, (tw_id)i);
	}
}
