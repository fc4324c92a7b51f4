/* loop.c: Loop and Scan, laid out flat by the importer: LoopBegin, the nodes of the body, LoopEnd (ops/flow.h).
 *
 * LoopBegin: count, condition, initial values, scanned inputs -> token, the iteration's number, true, the values as an
 * iteration finds them, slices of the scanned inputs. LoopEnd: token, condition, the values as it leaves them, slices
 * -> the last values, the slices of all iterations stacked. A value keeps its shape from one iteration to the next. */
#include "ops/flow.h"

#include <inttypes.h>

typedef const struct twir_expr *E;

#define MOST_ITERATIONS ((int64_t)1 << 40) /* where nothing says how many */

struct parts { /* of a node's inputs and outputs behind the leading ones */
	int values, slices;
};

static struct parts begin_parts(const struct tw_node *n)
{
	const int slices = (int)tw_attr_int(n, "num_scan_inputs", 0);
	return (struct parts){n->nin > 2 ? n->nin - 2 - slices : 0, slices};
}

static struct parts end_parts(const struct tw_node *n, const struct tw_flow *f)
{
	return (struct parts){f->carried.n, n->nin - 2 - f->carried.n};
}

static int64_t listed(struct tw_opctx *x, const char *name, int i, int n)
{
	const int64_t *list;
	const int count = tw_attr_ints(x->node, name, &list);
	if (count >= 0 && count != n)
		tw_op_fail(x, TW_ERR_MODEL, "'%s' holds %d numbers; %d are needed", name, count, n);
	return count < 0 ? 0 : list[i];
}

/* Is the condition certain? -1: data knows. */
static int certain(struct tw_opctx *x, int i)
{
	E const *values;
	int64_t v;
	if (!tw_has_in(x, i))
		return 1;
	tw_need_type(x, i, "bool");
	return tw_in_values(x, i, &values) == 1 && twir_const_int(values[0], &v) ? v != 0 : -1;
}

static void need_one(struct tw_opctx *x, int i, const char *what)
{
	const struct tw_tensor *t = tw_in(x, i);
	int64_t size;
	for (int d = 0; d < t->rank; d++)
		if (!twir_const_int(t->shape[d], &size) || size != 1)
			tw_op_fail(x, TW_ERR_MODEL, "%s must be one element", what);
}

/* How often the loop runs at most; *data: a count that only data knows is in input 0 */
static E find_trips(struct tw_opctx *x, struct parts p, bool *data)
{
	struct twir_module *m = x->m;
	E trips = NULL;
	E const *values;
	*data = false;
	for (int i = 0; i < p.slices; i++) {
		const int input = 2 + p.values + i;
		if (tw_in_rank(x, input) < 1)
			tw_op_fail(x, TW_ERR_MODEL, "input %d is a scalar: it cannot be scanned", input);
		const int axis = tw_axis(x, listed(x, "scan_input_axes", i, p.slices), tw_in_rank(x, input));
		const E size = tw_in_dim(x, input, axis);
		trips = trips ? tw_same_size(x, trips, size, "lengths of the scanned inputs") : size;
	}
	if (trips)
		return trips;
	if (!tw_has_in(x, 0))
		return twir_index(m, MOST_ITERATIONS);
	tw_need_type(x, 0, "i64");
	need_one(x, 0, "the count");
	*data = tw_in_values(x, 0, &values) != 1;
	return *data ? twir_index(m, MOST_ITERATIONS) : twir_max(m, values[0], twir_index(m, 0));
}

static void infer_begin(struct tw_opctx *x)
{
	const struct parts p = begin_parts(x->node);
	struct tw_flow *f = tw_flow_new(x->g, x->node->name);
	bool data;
	if (p.values < 0 || x->node->nout < 1)
		tw_op_fail(x, TW_ERR_MODEL, "has %d inputs to scan and %d inputs", p.slices, x->node->nin - 2);
	E trips = find_trips(x, p, &data);
	f->token = x->node->out[0];
	const int begins = certain(x, 1);
	if (tw_has_in(x, 1))
		need_one(x, 1, "the condition");
	if (begins == 0)
		trips = twir_index(x->m, 0);
	tw_flow_number(x, f, trips);
	f->unknown_count = data;
	f->conditional = begins < 0;
	for (int i = 0; i < p.values; i++)
		vec_push(x->g->arena, &f->carried, ((struct tw_carried){0}));
	vec_push(x->g->arena, &x->g->flows, f);
	tw_set_out(x, 0, TWIR_I64, 0, NULL);
	tw_set_out(x, 1, TWIR_I64, 0, NULL);
	tw_set_out(x, 2, TWIR_I1, 0, NULL);
	for (int k = 1; k <= 2; k++) { /* known in the body: a symbol, and true */
		if (!tw_has_out(x, k))
			continue;
		struct tw_tensor *t = tw_out(x, k);
		t->values = ARENA_ARRAY(x->g->arena, E, 1);
		t->values[0] = k == 1 ? twir_var(x->m, f->number) : twir_bool(x->m, true);
		t->nvalues = 1;
	}
	for (int i = 0; i < p.values; i++) {
		const struct tw_tensor *t = tw_in(x, 2 + i);
		tw_set_out(x, 3 + i, t->type, t->rank, t->shape);
	}
	for (int i = 0; i < p.slices; i++) {
		const struct tw_tensor *t = tw_in(x, 2 + p.values + i);
		const int axis = tw_axis(x, listed(x, "scan_input_axes", i, p.slices), t->rank);
		E shape[TWIR_MAX_RANK];
		for (int d = 0, n = 0; d < t->rank; d++)
			if (d != axis)
				shape[n++] = t->shape[d];
		tw_set_out(x, 3 + p.values + i, t->type, t->rank - 1, shape);
	}
}

static void define_scalar(struct tw_opctx *x, int k, E value)
{
	if (tw_has_out(x, k))
		tw_define(x, tw_y(x, k), NULL, value);
}

static void compute_begin(struct tw_opctx *x)
{
	struct twir_module *m = x->m;
	const struct parts p = begin_parts(x->node);
	struct tw_flow *f = tw_flow_of(x->g, x->node->out[0]);
	const E number = twir_var(m, f->number), one = twir_index(m, 1);
	f->count = f->unknown_count ? tw_x(x, 0) : NULL;
	f->condition = f->conditional ? tw_x(x, 1) : NULL;
	for (int i = 0; i < p.values; i++)
		f->carried.at[i] = (struct tw_carried){.init = tw_x(x, 2 + i), .in = tw_y(x, 3 + i)};
	tw_flow_mark(x, TW_MARK_LOOP, f);
	define_scalar(x, 1, twir_cast(m, TWIR_I64, number));
	define_scalar(x, 2, twir_bool(m, true));
	for (int i = 0; i < p.slices; i++) {
		struct twir_tensor *from = tw_x(x, 2 + p.values + i), *to;
		if (!tw_has_out(x, 3 + p.values + i))
			continue;
		to = tw_y(x, 3 + p.values + i);
		const int axis = tw_axis(x, listed(x, "scan_input_axes", i, p.slices), from->rank);
		const bool back = listed(x, "scan_input_directions", i, p.slices) != 0;
		E *at, from_at[TWIR_MAX_RANK];
		struct twir_var **axes = tw_axes(x, to, &at);
		for (int d = 0, n = 0; d < from->rank; d++)
			from_at[d] = d != axis ? at[n++]
				     : back    ? twir_sub(m, twir_sub(m, f->trips, one), number)
					       : number;
		tw_define(x, to, axes, tw_load(x, from, from->rank, from_at));
	}
}

static struct tw_flow *flow(struct tw_opctx *x)
{
	struct tw_flow *f = tw_flow_of(x->g, x->node->in[0]);
	if (!f)
		tw_op_fail(x, TW_ERR_MODEL, "its beginning is missing");
	return f;
}

static void same_shape(struct tw_opctx *x, const struct tw_tensor *before, const struct tw_tensor *after, int i)
{
	int64_t difference;
	if (before->type != after->type)
		tw_op_fail(x, TW_ERR_MODEL, "value %d is %s before an iteration and %s after it", i,
			   twir_scalar_name(before->type), twir_scalar_name(after->type));
	bool same = before->rank == after->rank;
	for (int d = 0; same && d < before->rank; d++) {
		const E change = tw_simplify(x, twir_sub(x->m, before->shape[d], after->shape[d]));
		same = !twir_const_int(change, &difference) || difference == 0;
		if (same && change->kind != TWIR_Const)
			tw_same_size(x, before->shape[d], after->shape[d], "a value before and after an iteration");
	}
	if (!same)
		tw_op_fail(x, TW_ERR_UNSUPPORTED, "value %d changes its shape from one iteration to the next", i);
}

static void infer_end(struct tw_opctx *x)
{
	struct tw_flow *f = flow(x);
	const struct parts p = end_parts(x->node, f);
	if (p.slices < 0)
		tw_op_fail(x, TW_ERR_MODEL, "the body gives too few values");
	f->asks = certain(x, 1) != 1;
	if (f->asks)
		need_one(x, 1, "the condition");
	const tw_id begin = x->g->tensors.at[x->node->in[0]].producer;
	for (int i = 0; i < p.values; i++) {
		const struct tw_tensor *before = &x->g->tensors.at[x->g->nodes.at[begin].out[3 + i]],
				       *after = tw_in(x, 2 + i);
		same_shape(x, before, after, i);
		tw_set_out(x, i, before->type, before->rank, before->shape);
	}
	if (p.slices == 0)
		return;
	int64_t most;
	if (f->unknown_count || (twir_const_int(f->trips, &most) && most == MOST_ITERATIONS))
		tw_op_fail(x, TW_ERR_UNSUPPORTED, "outputs for each iteration of a loop whose count only data knows");
	E length = f->trips;
	if (f->asks || f->conditional) {
		struct tw_decided d = {.most = f->trips};
		d.symbol = f->ran = twir_var_new(x->m, TWIR_SYMBOL, twir_scalar_type(TWIR_INDEX),
						 arena_printf(x->g->arena, "%s.ran.%d", f->name, x->m->symbols.n));
		vec_push(x->g->arena, &x->g->decided, d);
		length = twir_var(x->m, f->ran);
	}
	for (int i = 0; i < p.slices; i++) {
		const struct tw_tensor *t = tw_in(x, 2 + p.values + i);
		const int axis = tw_axis(x, listed(x, "scan_output_axes", i, p.slices), t->rank + 1);
		E shape[TWIR_MAX_RANK + 1];
		for (int d = 0, n = 0; d <= t->rank; d++)
			shape[d] = d == axis ? length : t->shape[n++];
		tw_set_out(x, p.values + i, t->type, t->rank + 1, shape);
	}
}

/* Output i from all slices in order: another axis, or backwards */
static void arrange(struct tw_opctx *x, const struct tw_flow *f, int output, int axis, bool back,
		    struct twir_tensor *whole)
{
	struct twir_module *m = x->m;
	struct twir_tensor *y = tw_y(x, output);
	E *at, from[TWIR_MAX_RANK];
	struct twir_var **axes = tw_axes(x, y, &at);
	for (int d = 0, n = 1; d < y->rank; d++)
		from[d == axis ? 0 : n++] = at[d];
	if (back)
		from[0] = twir_sub(m, twir_sub(m, f->ran ? twir_var(m, f->ran) : f->trips, twir_index(m, 1)), from[0]);
	tw_define(x, y, axes, tw_load(x, whole, y->rank, from));
}

static void compute_end(struct tw_opctx *x)
{
	struct tw_flow *f = flow(x);
	const struct parts p = end_parts(x->node, f);
	f->slices.n = 0;
	f->go_on = f->asks ? tw_copy_of(x, tw_x(x, 1), "go_on") : NULL;
	for (int i = 0; i < p.values; i++) {
		f->carried.at[i].out = tw_copy_of(x, tw_x(x, 2 + i), "value");
		f->carried.at[i].last = tw_has_out(x, i) ? tw_y(x, i) : NULL;
	}
	for (int i = 0; i < p.slices; i++) {
		if (!tw_has_out(x, p.values + i))
			continue;
		struct twir_tensor *slice = tw_copy_of(x, tw_x(x, 2 + p.values + i), "slice"),
				   *whole = tw_y(x, p.values + i);
		const int axis = tw_axis(x, listed(x, "scan_output_axes", i, p.slices), whole->rank);
		if (axis != 0 || listed(x, "scan_output_directions", i, p.slices) != 0) {
			E shape[TWIR_MAX_RANK];
			shape[0] = whole->shape[axis];
			for (int d = 0; d < slice->rank; d++)
				shape[d + 1] = slice->shape[d];
			whole = tw_temp(x, "slices", slice->type, slice->rank + 1, shape);
		}
		vec_push(x->g->arena, &f->slices, ((struct tw_slice){slice, whole}));
	}
	tw_flow_mark(x, TW_MARK_NEXT, f);
	for (int i = 0, n = 0; i < p.slices; i++) {
		if (!tw_has_out(x, p.values + i))
			continue;
		struct twir_tensor *whole = f->slices.at[n++].whole, *y = tw_y(x, p.values + i);
		if (whole != y)
			arrange(x, f, p.values + i, tw_axis(x, listed(x, "scan_output_axes", i, p.slices), y->rank),
				listed(x, "scan_output_directions", i, p.slices) != 0, whole);
	}
}

static const struct tw_attr_spec attrs[] = {
	{"num_scan_inputs", TW_ATTR_INT, false},	 {"scan_input_axes", TW_ATTR_INTS, false},
	{"scan_input_directions", TW_ATTR_INTS, false},	 {"scan_output_axes", TW_ATTR_INTS, false},
	{"scan_output_directions", TW_ATTR_INTS, false}, {NULL}};

const struct tw_op tw_ops_loop[] = {
	{.name = "LoopBegin",
	 .domain = "tilewright",
	 .since = 1,
	 .flags = TW_OP_FLOW,
	 .in = {0, -1},
	 .out = {1, -1},
	 .attrs = attrs,
	 .infer = infer_begin,
	 .compute = compute_begin},
	{.name = "LoopEnd",
	 .domain = "tilewright",
	 .since = 1,
	 .flags = TW_OP_FLOW,
	 .in = {1, -1},
	 .out = {0, -1},
	 .attrs = attrs,
	 .infer = infer_end,
	 .compute = compute_end},
	{0},
};
