/* infer.c: types, shapes and small values of all tensors of a graph.
 *
 * Input: a graph whose inputs and constants have types. Output: every live tensor has type and rank; nodes on
 * constants only are folded when small, choices with a known condition are made. What is wrong is gathered over all nodes
 * that the outputs need, in the graph's complaints, and raised as one error; of nodes behind a wrong one only the number of
 * inputs and the attributes are judged. */
#include "ops/flow.h"

static const char *count_text(struct tw_opctx *x, int min, int max)
{
	if (max < 0)
		return arena_printf(x->arena, "%d or more", min);
	return min == max ? arena_printf(x->arena, "%d", min) : arena_printf(x->arena, "%d to %d", min, max);
}

static const char *kind_text(enum tw_attr_kind kind)
{
	static const char *const texts[] = {[TW_ATTR_INT] = "an integer",
					    [TW_ATTR_FLOAT] = "a number",
					    [TW_ATTR_STRING] = "a string",
					    [TW_ATTR_TENSOR] = "a tensor",
					    [TW_ATTR_GRAPH] = "a graph",
					    [TW_ATTR_INTS] = "a list of integers",
					    [TW_ATTR_FLOATS] = "a list of numbers",
					    [TW_ATTR_STRINGS] = "a list of strings"};
	return (unsigned)kind < TW_COUNT(texts) && texts[kind] ? texts[kind] : "of another kind";
}

static void check_row(struct tw_opctx *x)
{
	const struct tw_node *n = x->node;
	const struct tw_op *op = n->op;
	if (n->nin < op->in.min || (op->in.max >= 0 && n->nin > op->in.max))
		tw_op_fail(x, TW_ERR_MODEL, "has %d inputs, not %s", n->nin, count_text(x, op->in.min, op->in.max));
	if (n->nout < op->out.min || (op->out.max >= 0 && n->nout > op->out.max))
		tw_op_fail(x, TW_ERR_MODEL, "has %d outputs, not %s", n->nout, count_text(x, op->out.min, op->out.max));
	for (int i = 0; i < op->in.min; i++)
		if (n->in[i] == TW_NONE)
			tw_op_fail(x, TW_ERR_MODEL, "input %d is missing", i);
	for (int i = 0; i < n->nattrs && !(op->flags & TW_OP_CUSTOM); i++) {
		const struct tw_attr_spec *s = op->attrs;
		while (s && s->name && strcmp(s->name, n->attrs[i].name))
			s++;
		if (!s || !s->name)
			tw_op_fail(x, TW_ERR_UNSUPPORTED, "attribute '%s' is not supported", n->attrs[i].name);
		if (s->kind != n->attrs[i].kind)
			tw_op_fail(x, TW_ERR_MODEL, "attribute '%s' is %s, not %s", s->name,
				   kind_text(n->attrs[i].kind), kind_text(s->kind));
	}
	for (const struct tw_attr_spec *s = op->attrs; s && s->name; s++)
		if (s->required && !tw_attr_find(n, s->name))
			tw_op_fail(x, TW_ERR_MODEL, "attribute '%s' is missing", s->name);
}

/* Values are worth looking for when something small is known: constants, sizes, or values of the inputs. */
static bool worth_evaluating(struct tw_opctx *x)
{
	const struct tw_node *n = x->node;
	if (!n->op->compute || (n->op->flags & (TW_OP_FLOW | TW_OP_PROGRAM)))
		return false;
	bool known = true;
	for (int i = 0; i < n->nin; i++)
		if (n->in[i] != TW_NONE && !(n->op->flags & TW_OP_SHAPE_ONLY)) {
			const struct tw_tensor *t = &x->g->tensors.at[n->in[i]];
			known = known && (t->data || t->nvalues >= 0);
		}
	return known;
}

/* The type of input 0 where its elements have 4 or 2 bits. Operators that do not know of such inputs would take them for
   what they are kept in: they are refused. */
static enum twir_scalar narrow_input(struct tw_opctx *x)
{
	const struct tw_node *n = x->node;
	for (int i = 0; i < n->nin; i++) {
		const struct tw_tensor *t = tw_has_in(x, i) ? tw_in(x, i) : NULL;
		if (t && t->narrow && !(n->op->flags & (TW_OP_NARROW | TW_OP_NARROW_ON | TW_OP_RESHAPE)))
			tw_op_fail(x, TW_ERR_UNSUPPORTED, "input %d of type %s is not supported", i,
				   tw_narrow_name(t->narrow));
	}
	return tw_has_in(x, 0) ? tw_in(x, 0)->narrow : TWIR_VOID;
}

static int64_t larger(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* What a size multiplies its symbols by, or its value: a number that arithmetic on sizes has to hold whatever the symbols are. */
static int64_t magnitude(const struct twir_expr *e, int depth)
{
	if (depth == 0) /* expressions share their parts: a walk of them all could take forever */
		return 1;
	switch (e->kind) {
	case TWIR_Const:
		return e->u.i == INT64_MIN ? INT64_MAX : larger(e->u.i < 0 ? -e->u.i : e->u.i, 1);
	case TWIR_Mul: {
		bool bad = false;
		const int64_t n = tw_mul64(magnitude(e->arg[0], depth - 1), magnitude(e->arg[1], depth - 1), &bad);
		return bad ? INT64_MAX : n;
	}
	case TWIR_Min: /* a slice's end may be as large as it likes */
		return -larger(-magnitude(e->arg[0], depth - 1), -magnitude(e->arg[1], depth - 1));
	case TWIR_Add:
	case TWIR_Sub:
	case TWIR_Max:
		return larger(magnitude(e->arg[0], depth - 1), magnitude(e->arg[1], depth - 1));
	default:
		return 1;
	}
}

/* Sizes in bytes are computed in 64 bits, and constant factors are multiplied at compile time: what cannot be addressed is
   refused before it wraps round. */
static void check_sizes(struct tw_opctx *x, int output)
{
	const int64_t most = (int64_t)1 << 56;
	const struct tw_tensor *t = tw_out(x, output);
	bool bad = false, empty = false;
	int64_t n = twir_scalar_bytes(t->type);
	for (int d = 0; d < t->rank; d++) {
		empty |= t->shape[d]->kind == TWIR_Const && t->shape[d]->u.i == 0;
		n = tw_mul64(n, magnitude(t->shape[d], 12), &bad);
	}
	if (bad || (n > most && !empty))
		tw_op_fail(x, TW_ERR_MODEL, "output %d would be %s, which is more than can be addressed", output,
			   tw_graph_shape_text(x->arena, x->g, x->node->out[output]));
}

void tw_infer_node(struct tw_graph *g, tw_id node)
{
	struct tw_opctx x = {.g = g, .m = g->m, .node = &g->nodes.at[node], .arena = g->arena};
	const struct tw_node *n = x.node;
	TW_CHECK(n->op, "node %s has no operator", n->name);
	check_row(&x);
	const enum twir_scalar narrow = narrow_input(&x);
	n->op->infer(&x);
	if (narrow && (n->op->flags & (TW_OP_RESHAPE | TW_OP_NARROW_ON)))
		tw_out(&x, 0)->narrow = narrow;
	for (int i = 0; i < n->nout; i++) {
		if (!tw_has_out(&x, i))
			continue;
		TW_CHECK(tw_out(&x, i)->type != TWIR_VOID && tw_out(&x, i)->rank >= 0, "%s sets no type of output %d",
			 n->op_type, i);
		check_sizes(&x, i);
	}
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
	TW_CHECK(x.marks.n == 0, "node %s has control flow", x.node->name);
	*n = x.computes.n;
	*computes = x.computes.at;
}

void tw_compute_flow(struct tw_graph *g, tw_id node, struct tw_arena *a, int *n, struct twir_compute ***computes,
		     int *nmarks, const struct tw_mark **marks)
{
	struct tw_opctx x = {.g = g, .m = g->m, .node = &g->nodes.at[node], .arena = a};
	TW_CHECK(x.node->op && x.node->op->compute, "node %s has no compute definition", x.node->name);
	x.node->op->compute(&x);
	*n = x.computes.n;
	*computes = x.computes.at;
	*nmarks = x.marks.n;
	*marks = x.marks.at;
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
	bool row_only; /* of its inputs nothing is known: only their number and the attributes are judged */
};

static void infer_one(void *arg)
{
	const struct one *o = arg;
	struct tw_opctx x = {.g = o->g, .m = o->g->m, .node = &o->g->nodes.at[o->node], .arena = o->g->arena};
	if (o->row_only)
		check_row(&x);
	else
		tw_infer_node(o->g, o->node);
}

static bool inputs_known(const struct tw_graph *g, const struct tw_node *n)
{
	for (int k = 0; k < n->nin; k++)
		if (n->in[k] != TW_NONE &&
		    (g->tensors.at[n->in[k]].rank < 0 || g->tensors.at[n->in[k]].type == TWIR_VOID))
			return false;
	return true;
}

/* A branch whose condition is known is the side it chooses; what marks its beginning and middle goes too. */
static bool choose(struct tw_graph *g, struct tw_node *n)
{
	if (!(n->op->flags & TW_OP_CHOICE))
		return false;
	const int side = tw_branch_side(g, n), outputs = (n->nin - 2) / 2;
	if (side < 0)
		return false;
	n->dead = true;
	for (int k = 0; k < 2; k++)
		if (g->tensors.at[n->in[k]].producer != TW_NONE)
			g->nodes.at[g->tensors.at[n->in[k]].producer].dead = true;
	for (int k = 0; k < n->nout; k++)
		if (n->out[k] != TW_NONE)
			tw_graph_replace(g, n->out[k], n->in[2 + k + (side ? 0 : outputs)]);
	return true;
}

/* Marks what the graph's outputs need, from the last node to the first. */
static bool *needed_nodes(struct tw_graph *g)
{
	bool *tensor = ARENA_ARRAY(g->arena, bool, g->tensors.n), *node = ARENA_ARRAY(g->arena, bool, g->nodes.n);
	for (int i = 0; i < g->outputs.n; i++)
		tensor[g->outputs.at[i]] = true;
	for (int i = g->nodes.n - 1; i >= 0; i--) {
		const struct tw_node *n = &g->nodes.at[i];
		for (int k = 0; k < n->nout && !n->dead; k++)
			node[i] = node[i] || (n->out[k] != TW_NONE && tensor[n->out[k]]);
		for (int k = 0; k < n->nin && node[i]; k++)
			if (n->in[k] != TW_NONE)
				tensor[n->in[k]] = true;
	}
	return node;
}

/* Complaints count only where an output depends on the node: the side of an If that is not taken may be nonsense. */
static void report(struct tw_graph *g, const char *const *complaints, const enum tw_code *codes)
{
	const bool *needed = needed_nodes(g);
	enum tw_code code = TW_ERR_OK;
	struct tw_buf text;
	buf_init(&text, g->arena);
	for (int i = 0; i < g->nodes.n; i++) {
		if (!complaints[i])
			continue;
		if (!needed[i]) {
			g->nodes.at[i].dead = true;
			continue;
		}
		code = code == TW_ERR_MODEL ? code : codes[i];
		vec_push(g->arena, &g->complaints, ((struct tw_complaint){codes[i], complaints[i]}));
		if (text.n + strlen(complaints[i]) < 3900)
			buf_printf(&text, "%s%s", text.n ? "\n" : "", complaints[i]);
	}
	if (text.n)
		tw_raise(code, "%s", text.at);
	for (int i = 0; i < g->nodes.n; i++) /* behind nodes that make no sense, and not needed */
		if (!g->nodes.at[i].dead && !needed[i] && !inputs_known(g, &g->nodes.at[i]))
			g->nodes.at[i].dead = true;
}

void tw_infer(struct tw_graph *g)
{
	const char **complaints = ARENA_ARRAY(g->arena, const char *, g->nodes.n);
	enum tw_code *codes = ARENA_ARRAY(g->arena, enum tw_code, g->nodes.n);
	for (int i = 0; i < g->nodes.n; i++) {
		struct tw_node *n = &g->nodes.at[i];
		if (n->dead || !n->op || choose(g, n))
			continue; /* without an operator: the importer has complained */
		struct one o = {.g = g, .node = (tw_id)i, .row_only = !inputs_known(g, n)};
		struct tw_error e;
		if (tw_try(&e, infer_one, &o)) {
			if (!o.row_only)
				retire(g, &g->nodes.at[i]);
			continue;
		}
		if (e.code != TW_ERR_UNSUPPORTED && e.code != TW_ERR_MODEL)
			tw_raise_error(&e);
		complaints[i] = arena_strdup(g->arena, e.text);
		codes[i] = e.code;
		for (int k = 0; k < n->nout; k++)
			if (n->out[k] != TW_NONE)
				g->tensors.at[n->out[k]].rank = -1;
	}
	report(g, complaints, codes);
}
