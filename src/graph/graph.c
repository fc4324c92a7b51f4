/* graph.c: making and changing graphs of operators on tensors.
 *
 * Input: tensors and nodes in topological order. Output: ids, stable for the life of the graph. Everything lives in
 * the graph's arena. Invariant: a tensor has at most one producer, and a producer comes before its users. */
#include "graph/graph.h"

struct tw_graph *tw_graph_new(struct tw_arena *a, struct twir_module *m)
{
	struct tw_graph *g = ARENA_NEW(a, struct tw_graph);
	g->arena = a;
	g->m = m;
	g->name = "";
	g->producer = "";
	return g;
}

tw_id tw_graph_tensor(struct tw_graph *g, const char *name, enum twir_scalar type, int rank,
		      const struct twir_expr *const *shape)
{
	struct tw_tensor t = {.type = type, .rank = rank, .nvalues = -1, .producer = TW_NONE};
	t.name = name && *name ? arena_strdup(g->arena, name) : "";
	if (rank >= 0) {
		t.shape = ARENA_ARRAY(g->arena, const struct twir_expr *, rank);
		for (int d = 0; d < rank; d++)
			t.shape[d] = shape[d];
	}
	vec_push(g->arena, &g->tensors, t);
	return (tw_id)(g->tensors.n - 1);
}

tw_id tw_graph_constant(struct tw_graph *g, const char *name, enum twir_scalar type, int rank, const int64_t *dims,
			const void *data)
{
	const struct twir_expr *shape[TWIR_MAX_RANK];
	TW_CHECK(rank >= 0 && rank <= TWIR_MAX_RANK, "constant %s of rank %d", name, rank);
	bool bad = false;
	int64_t bytes = twir_scalar_bytes(type);
	for (int d = 0; d < rank; d++) {
		shape[d] = twir_index(g->m, dims[d]);
		bytes = tw_mul64(bytes, dims[d], &bad);
	}
	TW_CHECK(!bad, "size of constant %s", name);
	const tw_id id = tw_graph_tensor(g, name, type, rank, shape);
	g->tensors.at[id].data = data;
	g->tensors.at[id].bytes = bytes;
	return id;
}

static tw_id *copy_ids(struct tw_arena *a, int n, const tw_id *ids)
{
	tw_id *copy = ARENA_ARRAY(a, tw_id, n);
	for (int i = 0; i < n; i++)
		copy[i] = ids[i];
	return copy;
}

tw_id tw_graph_node(struct tw_graph *g, const struct tw_op *op, const char *name, int opset, int nin, const tw_id *in,
		    int nout, const tw_id *out, int nattrs, const struct tw_attr *attrs)
{
	struct tw_node n = {.op = op, .opset = opset, .nin = nin, .nout = nout, .nattrs = nattrs, .attrs = attrs};
	n.name = arena_strdup(g->arena, name);
	n.op_type = "";
	n.domain = "";
	n.in = copy_ids(g->arena, nin, in);
	n.out = copy_ids(g->arena, nout, out);
	const tw_id id = (tw_id)g->nodes.n;
	for (int i = 0; i < nout; i++)
		if (out[i] != TW_NONE)
			g->tensors.at[out[i]].producer = id;
	vec_push(g->arena, &g->nodes, n);
	return id;
}

struct twir_tensor *tw_graph_ir(struct tw_graph *g, tw_id id)
{
	struct tw_tensor *t = &g->tensors.at[id];
	if (!t->ir) {
		TW_CHECK(t->type != TWIR_VOID && t->rank >= 0, "tensor %s has no type or rank yet", t->name);
		t->ir = twir_tensor_new(g->m, *t->name ? t->name : "t", t->type, t->rank, t->shape, TWIR_TENSOR);
	}
	return t->ir;
}

bool tw_graph_static(const struct tw_graph *g, tw_id id, int64_t *dims)
{
	const struct tw_tensor *t = &g->tensors.at[id];
	for (int d = 0; d < t->rank; d++)
		if (!twir_const_int(t->shape[d], &dims[d]))
			return false;
	return t->rank >= 0;
}

void tw_graph_replace(struct tw_graph *g, tw_id from, tw_id to)
{
	for (int i = 0; i < g->nodes.n; i++) {
		struct tw_node *n = &g->nodes.at[i];
		for (int k = 0; k < n->nin && !n->dead; k++)
			if (n->in[k] == from)
				n->in[k] = to;
	}
	for (int i = 0; i < g->outputs.n; i++)
		if (g->outputs.at[i] == from)
			g->outputs.at[i] = to;
}

void tw_graph_uses(const struct tw_graph *g, int *count)
{
	for (int i = 0; i < g->tensors.n; i++)
		count[i] = 0;
	for (int i = 0; i < g->nodes.n; i++) {
		const struct tw_node *n = &g->nodes.at[i];
		for (int k = 0; k < n->nin && !n->dead; k++)
			if (n->in[k] != TW_NONE)
				count[n->in[k]]++;
	}
	for (int i = 0; i < g->outputs.n; i++)
		count[g->outputs.at[i]]++;
}

void tw_graph_require(struct tw_graph *g, const struct twir_expr *a, const struct twir_expr *b, const char *why)
{
	for (int i = g->assumed.n - 1; i >= 0; i--) {
		const struct tw_assumed *s = &g->assumed.at[i];
		if (!s->cond && g->wants_values)
			tw_raise(TW_ERR_UNSUPPORTED, "%s: must be equal inside of a branch that only data decides",
				 why);
		if (s->cond)
			a = s->holds ? twir_select(g->m, s->cond, a, b) : twir_select(g->m, s->cond, b, a);
	}
	if (a == b)
		return;
	for (int i = 0; i < g->requires.n; i++)
		if (g->requires.at[i].a == a && g->requires.at[i].b == b)
			return;
	const struct tw_require r = {.a = a, .b = b, .why = why};
	vec_push(g->arena, &g->requires, r);
}
