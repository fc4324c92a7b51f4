/* branch.c: If, laid out flat by the importer: BranchBegin, the nodes of one side, BranchElse, those of the other,
 * BranchEnd.
 *
 * A condition that is known makes no branch at all. One that sizes decide makes the results' sizes expressions; one
 * that data decides makes them symbols. Requirements of a side count only when it is taken. Results of different ranks
 * are refused, unless sizes decide: then the model is compiled for the first side (exporters write so what squeezes an
 * axis of length 1), and a run that would take the other is refused. */
#include "ops/flow.h"

typedef const struct twir_expr *E;

static struct tw_flow *flow(struct tw_opctx *x)
{
	struct tw_flow *f = tw_flow_of(x->g, x->node->in[0]);
	if (!f)
		tw_op_fail(x, TW_ERR_MODEL, "its beginning is missing");
	return f;
}

static void give_token(struct tw_opctx *x)
{
	tw_set_out(x, 0, TWIR_I64, 0, NULL);
}

static void infer_begin(struct tw_opctx *x)
{
	const struct tw_tensor *t = tw_in(x, 0);
	E const *values;
	int64_t one = 1;
	tw_need_type(x, 0, "bool");
	for (int d = 0; d < t->rank; d++)
		if (!twir_const_int(t->shape[d], &one) || one != 1)
			tw_op_fail(x, TW_ERR_MODEL, "a condition of %s",
				   tw_graph_shape_text(x->arena, x->g, x->node->in[0]));
	struct tw_flow *f = tw_flow_new(x->g, x->node->name);
	f->token = x->node->out[0];
	f->outside = x->g->assumed.n;
	f->known = tw_in_values(x, 0, &values) == 1 ? tw_simplify(x, values[0]) : NULL;
	vec_push(x->g->arena, &x->g->flows, f);
	vec_push(x->g->arena, &x->g->assumed, ((struct tw_assumed){f->known, true}));
	give_token(x);
}

static void infer_else(struct tw_opctx *x)
{
	const struct tw_flow *f = flow(x);
	x->g->assumed.n = f->outside;
	vec_push(x->g->arena, &x->g->assumed, ((struct tw_assumed){f->known, false}));
	give_token(x);
}

int tw_branch_side(struct tw_graph *g, const struct tw_node *end)
{
	struct tw_flow *f = tw_flow_of(g, end->in[0]);
	const int outputs = (end->nin - 2) / 2;
	int64_t v;
	if (!f)
		return -1;
	g->assumed.n = f->outside;
	if (!f->known)
		return -1;
	if (twir_const_int(f->known, &v))
		return v != 0;
	bool differ = false;
	for (int k = 0; k < outputs; k++) {
		const int yes = g->tensors.at[end->in[2 + k]].rank, no = g->tensors.at[end->in[2 + outputs + k]].rank;
		differ |= yes >= 0 && no >= 0 && yes != no;
	}
	if (!differ)
		return -1;
	const E one = twir_index(g->m, 1);
	tw_graph_require(g, twir_select(g->m, f->known, one, twir_index(g->m, 0)), one,
			 arena_printf(g->arena, "node '%s' (If): its branches differ in rank, the first must be taken",
				      end->name));
	return 1;
}

/* Small integers that are known on both sides are known after them. */
static void give_values(struct tw_opctx *x, int k, tw_id yes, tw_id no, E known)
{
	E const *a, *b;
	const int n = known ? tw_tensor_values(x->g, yes, &a) : -1;
	if (n < 0 || tw_tensor_values(x->g, no, &b) != n)
		return;
	E *values = ARENA_ARRAY(x->g->arena, E, n);
	for (int i = 0; i < n; i++)
		values[i] = tw_simplify(x, twir_select(x->m, known, a[i], b[i]));
	tw_out(x, k)->values = values;
	tw_out(x, k)->nvalues = n;
}

static void infer_end(struct tw_opctx *x)
{
	const struct tw_flow *f = flow(x);
	const int outputs = (x->node->nin - 2) / 2;
	for (int k = 0; k < x->node->nout; k++) {
		const struct tw_tensor *yes = tw_in(x, 2 + k), *no = tw_in(x, 2 + outputs + k);
		E shape[TWIR_MAX_RANK];
		if (!tw_has_out(x, k))
			continue;
		if (yes->type != no->type)
			tw_op_fail(x, TW_ERR_MODEL, "output %d is %s in one branch and %s in the other", k,
				   tw_graph_shape_text(x->arena, x->g, x->node->in[2 + k]),
				   tw_graph_shape_text(x->arena, x->g, x->node->in[2 + outputs + k]));
		if (yes->rank != no->rank)
			tw_op_fail(x, TW_ERR_UNSUPPORTED,
				   "output %d has rank %d in one branch and %d in the other, and data decides between "
				   "them",
				   k, yes->rank, no->rank);
		for (int d = 0; d < yes->rank; d++) {
			const E a = tw_simplify(x, yes->shape[d]), b = tw_simplify(x, no->shape[d]);
			if (a == b)
				shape[d] = a;
			else if (f->known)
				shape[d] = twir_select(x->m, f->known, a, b);
			else
				shape[d] = tw_decided_size(x, k, twir_max(x->m, a, b));
		}
		tw_set_out(x, k, yes->type, yes->rank, shape);
		give_values(x, k, x->node->in[2 + k], x->node->in[2 + outputs + k], f->known);
	}
}

static void compute_begin(struct tw_opctx *x)
{
	struct tw_flow *f = tw_flow_of(x->g, x->node->out[0]);
	f->condition = tw_x(x, 0);
	tw_flow_mark(x, TW_MARK_IF, f);
}

static void compute_else(struct tw_opctx *x)
{
	tw_flow_mark(x, TW_MARK_ELSE, flow(x));
}

static bool is_decided(const struct tw_graph *g, E size)
{
	for (int i = 0; i < g->decided.n; i++)
		if (size->kind == TWIR_Var && size->u.var == g->decided.at[i].symbol)
			return true;
	return false;
}

static void compute_end(struct tw_opctx *x)
{
	struct tw_flow *f = flow(x);
	const int outputs = (x->node->nin - 2) / 2;
	f->merged.n = 0;
	for (int k = 0; k < x->node->nout; k++) {
		if (!tw_has_out(x, k))
			continue;
		struct tw_merged o = {tw_x(x, 2 + k), tw_x(x, 2 + outputs + k), tw_y(x, k)};
		for (int d = 0; d < o.out->rank; d++) {
			const E yes = o.yes->shape[d], no = o.no->shape[d];
			if (!f->known && tw_simplify(x, yes) != tw_simplify(x, no) &&
			    is_decided(x->g, o.out->shape[d])) {
				o.sizes[d].symbol = o.out->shape[d]->u.var;
				o.sizes[d].yes = yes;
				o.sizes[d].no = no;
			}
		}
		vec_push(x->g->arena, &f->merged, o);
	}
	tw_flow_mark(x, TW_MARK_END, f);
}

const struct tw_op tw_ops_branch[] = {
	{.name = "BranchBegin",
	 .domain = "tilewright",
	 .since = 1,
	 .flags = TW_OP_FLOW,
	 .in = {1, 1},
	 .out = {1, 1},
	 .infer = infer_begin,
	 .compute = compute_begin},
	{.name = "BranchElse",
	 .domain = "tilewright",
	 .since = 1,
	 .flags = TW_OP_FLOW,
	 .in = {1, -1},
	 .out = {1, 1},
	 .infer = infer_else,
	 .compute = compute_else},
	{.name = "BranchEnd",
	 .domain = "tilewright",
	 .since = 1,
	 .flags = TW_OP_FLOW | TW_OP_CHOICE,
	 .in = {2, -1},
	 .out = {0, -1},
	 .infer = infer_end,
	 .compute = compute_end},
	{0},
};
