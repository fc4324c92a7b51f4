/* infer.c: types, shapes and small values of all tensors of a graph.
 *
 * Input: a graph whose inputs and constants have types. Output: every live tensor has type and rank; nodes on constants only are
 * folded when small. What is not supported is gathered over all nodes and raised as one error; nodes behind an
 * unsupported one are not judged. */
#include "ops/op.h"

static void check_row(struct tw_opctx *x)
{
	const struct tw_node *n = x->node;
	const struct tw_op *op = n->op;
	if (n->nin < op->in.min || (op->in.max >= 0 && n->nin > op->in.max))
		tw_op_fail(x, TW_ERR_MODEL, "has %d inputs", n->nin);
	if (n->nout < op->out.min || (op->out.max >= 0 && n->nout > op->out.max))
		tw_op_fail(x, TW_ERR_MODEL, "has %d outputs", n->nout);
	for (int i = 0; i < op->in.min; i++)
		if (n->in[i] == TW_NONE)
			tw_op_fail(x, TW_ERR_MODEL, "input %d is missing", i);
	for (int i = 0; i < n->nattrs; i++) {
		const struct tw_attr_spec *s = op->attrs;
		while (s && s->name && strcmp(s->name, n->attrs[i].name))
			s++;
		if (!s || !s->name)
			tw_op_fail(x, TW_ERR_UNSUPPORTED, "attribute '%s' is not supported", n->attrs[i].name);
		if (s->kind != n->attrs[i].kind)
			tw_op_fail(x, TW_ERR_MODEL, "attribute '%s' has the wrong type", s->name);
	}
	for (const struct tw_attr_spec *s = op->attrs; s && s->name; s++)
		if (s->required && !tw_attr_find(n, s->name))
			tw_op_fail(x, TW_ERR_MODEL, "attribute '%s' is missing", s->name);
}

/* Values are worth looking for when something small is known: constants, sizes, or values of the inputs. */
static bool worth_evaluating(struct tw_opctx *x)
{
	const struct tw_node *n = x->node;
	if (!n->op->compute)
		return false;
	bool known = true;
	for (int i = 0; i < n->nin; i++)
		if (n->in[i] != TW_NONE && !(n->op->flags & TW_OP_SHAPE_ONLY)) {
			const struct tw_tensor *t = &x->g->tensors.at[n->in[i]];
			known = known && (t->data || t->nvalues >= 0);
		}
	return known;
}

void tw_infer_node(struct tw_graph *g, tw_id node)
{
	struct tw_opctx x = {.g = g, .m = g->m, .node = &g->nodes.at[node], .arena = g->arena};
	const struct tw_node *n = x.node;
	TW_CHECK(n->op, "node %s has no operator", n->name);
	check_row(&x);
	n->op->infer(&x);
	for (int i = 0; i < n->nout; i++)
		if (tw_has_out(&x, i))
			TW_CHECK(tw_out(&x, i)->type != TWIR_VOID && tw_out(&x, i)->rank >= 0,
				 "%s sets no type of output %d", n->op_type, i);
	if (worth_evaluating(&x)) {
		n->op->compute(&x);
		tw_evaluate_outputs(&x);
	}
}

void tw_compute_node(struct tw_graph *g, tw_id node, struct tw_arena *a, int *n, struct twir_compute ***computes)
{
	struct tw_opctx x = {.g = g, .m = g->m, .node = &g->nodes.at[node], .arena = a};
	TW_CHECK(x.node->op && x.node->op->compute, "node %s has no compute definition", x.node->name);
	x.node->op->compute(&x);
	*n = x.computes.n;
	*computes = x.computes.at;
}

/* A node whose outputs all became constants is dead. */
static void retire(struct tw_graph *g, struct tw_node *n)
{
	for (int k = 0; k < n->nout; k++)
		if (n->out[k] != TW_NONE && !g->tensors.at[n->out[k]].data)
			return;
	for (int k = 0; k < n->nout; k++)
		if (n->out[k] != TW_NONE)
			g->tensors.at[n->out[k]].producer = TW_NONE;
	n->dead = true;
}

struct one {
	struct tw_graph *g;
	tw_id node;
};

static void infer_one(void *arg)
{
	const struct one *o = arg;
	tw_infer_node(o->g, o->node);
}

static bool inputs_known(const struct tw_graph *g, const struct tw_node *n)
{
	for (int k = 0; k < n->nin; k++)
		if (n->in[k] != TW_NONE && g->tensors.at[n->in[k]].rank < 0)
			return false;
	return true;
}

void tw_infer(struct tw_graph *g)
{
	struct tw_buf report;
	buf_init(&report, g->arena);
	int missing = 0;
	for (int i = 0; i < g->nodes.n; i++) {
		struct tw_node *n = &g->nodes.at[i];
		if (n->dead || !inputs_known(g, n))
			continue;
		struct one o = {.g = g, .node = (tw_id)i};
		struct tw_error e;
		if (tw_try(&e, infer_one, &o)) {
			retire(g, &g->nodes.at[i]);
			continue;
		}
		if (e.code != TW_ERR_UNSUPPORTED)
			tw_raise_error(&e);
		if (report.n + strlen(e.text) < 3900)
			buf_printf(&report, "%s%s", report.n ? "\n" : "", e.text);
		missing++;
		for (int k = 0; k < n->nout; k++)
			if (n->out[k] != TW_NONE)
				g->tensors.at[n->out[k]].rank = -1;
	}
	if (missing)
		tw_raise(TW_ERR_UNSUPPORTED, "%s", report.at);
}
