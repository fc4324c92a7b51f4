/* guard.c: indices that only data knows are checked before they are used.
 *
 * Input: a graph after inference. Output: the same with a host operator CheckIndices (indices, data -> indices)
 * before each node that looks up or writes elements by such indices. Indices that are constants or shape arithmetic
 * were judged in inference. Definitions themselves read nothing where an index is out of range, so this is about
 * telling, not safety. */
#include "ops/guard.h"

static void infer(struct tw_opctx *x)
{
	const struct tw_tensor *t = tw_in(x, 0);
	tw_need_type(x, 0, "index");
	tw_set_out(x, 0, t->type, t->rank, t->shape);
}

static const struct tw_attr_spec attrs[] = {{"axis", TW_ATTR_INT, true}, {"columns", TW_ATTR_INT, false}, {NULL}};

const struct tw_op tw_ops_guard[] = {
	{.name = "CheckIndices",
	 .domain = "tilewright",
	 .since = 1,
	 .in = {2, 2},
	 .out = {1, 1},
	 .attrs = attrs,
	 .flags = TW_OP_HOST,
	 .infer = infer},
	{0},
};

bool tw_is_guard(const struct tw_node *n)
{
	return n->op == &tw_ops_guard[0];
}

void tw_guard_check(const struct tw_node *n, int64_t index, int64_t i, int64_t last, const int64_t *size)
{
	const int64_t axis = tw_attr_int(n, "axis", 0);
	const int64_t limit = size[axis + (tw_attr_int(n, "columns", 0) ? i % last : 0)];
	if (index < -limit || index >= limit)
		tw_raise(TW_ERR_INPUT, "node '%s': index %lld is out of range for size %lld", n->name, (long long)index,
			 (long long)limit);
}

static bool needs_guard(struct tw_graph *g, const struct tw_node *n)
{
	if (n->dead || !(n->op->flags & (TW_OP_INDEXES | TW_OP_INDEXES_ND)))
		return false;
	const struct tw_tensor *t = &g->tensors.at[n->in[1]];
	if (t->data || t->nvalues < 0)
		return !t->data;
	struct twir_facts f;
	twir_facts_init(&f, g->m);
	for (int k = 0; k < t->nvalues; k++) /* values of an input may be anything, sizes are not negative */
		if (t->values[k]->kind != TWIR_Const && twir_range_of(&f, t->values[k]).lo < 0)
			return true;
	return false;
}

static tw_id add_guard(struct tw_graph *g, const struct tw_node *user)
{
	const struct tw_tensor t = g->tensors.at[user->in[1]];
	const bool columns = (user->op->flags & TW_OP_INDEXES_ND) != 0;
	const int rank = g->tensors.at[user->in[0]].rank;
	struct tw_attr *list = ARENA_ARRAY(g->arena, struct tw_attr, 2);
	int64_t axis = columns ? tw_attr_int(user, "batch_dims", 0) : tw_attr_int(user, "axis", 0);
	axis = axis < 0 ? axis + rank : axis;
	list[0] = (struct tw_attr){.name = "axis", .kind = TW_ATTR_INT, .i = axis};
	list[1] = (struct tw_attr){.name = "columns", .kind = TW_ATTR_INT, .i = columns};
	const char *name = arena_printf(g->arena, "%s.indices", user->name);
	const tw_id out = tw_graph_tensor(g, name, t.type, t.rank, t.shape);
	const tw_id in[] = {user->in[1], user->in[0]};
	tw_op_node(g, &tw_ops_guard[0], name, 1, 2, in, 1, &out, 2, list);
	return out;
}

void tw_guard_indices(struct tw_graph *g)
{
	const int n = g->nodes.n;
	struct tw_node *old = ARENA_ARRAY(g->arena, struct tw_node, n);
	bool any = false;
	for (int i = 0; i < n; i++) {
		old[i] = g->nodes.at[i];
		any = any || needs_guard(g, &old[i]);
	}
	if (!any)
		return;
	g->nodes.n = 0; /* the list anew, with each check before its user */
	for (int i = 0; i < n; i++) {
		if (needs_guard(g, &old[i]))
			old[i].in[1] = add_guard(g, &old[i]);
		vec_push(g->arena, &g->nodes, old[i]);
		for (int k = 0; k < old[i].nout && !old[i].dead; k++)
			if (old[i].out[k] != TW_NONE)
				g->tensors.at[old[i].out[k]].producer = (tw_id)(g->nodes.n - 1);
	}
}
