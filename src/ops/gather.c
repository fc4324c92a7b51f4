/* gather.c: elements chosen by indices in data: Gather, GatherElements, GatherND, OneHot.
 *
 * Indices count from the end when negative. One that is out of range reads nothing: the element is 0. */
#include "ops/elementwise.h"

#include <inttypes.h>

typedef const struct twir_expr *E;

/* An index of the model as a coordinate; *inside gathers its being in range. */
static E coordinate(struct tw_opctx *x, E index, E size, E *inside)
{
	struct twir_module *m = x->m;
	const E zero = twir_index(m, 0), i = twir_cast(m, TWIR_INDEX, index);
	const E at = twir_select(m, twir_lt(m, i, zero), twir_add(m, i, size), i);
	const E ok = twir_and(m, twir_le(m, zero, at), twir_lt(m, at, size));
	*inside = *inside ? twir_and(m, *inside, ok) : ok;
	return at;
}

static E guarded(struct tw_opctx *x, E inside, E v)
{
	const E zero = v->type.scalar == TWIR_I1 ? twir_bool(x->m, false) : tw_like(x, v, 0);
	return twir_cond(x->m, inside, v, zero);
}

/* ---- Gather */

static int gather_axis(struct tw_opctx *x)
{
	return tw_axis(x, tw_attr_int(x->node, "axis", 0), tw_in_rank(x, 0));
}

static void infer_gather(struct tw_opctx *x)
{
	const int axis = gather_axis(x), rank = tw_in_rank(x, 0), ri = tw_in_rank(x, 1);
	E shape[2 * TWIR_MAX_RANK];
	int n = 0;
	tw_need_type(x, 1, "index");
	tw_check_indices(x, 1, tw_in_dim(x, 0, axis), 0, 1);
	for (int d = 0; d < axis; d++)
		shape[n++] = tw_in_dim(x, 0, d);
	for (int d = 0; d < ri; d++)
		shape[n++] = tw_in_dim(x, 1, d);
	for (int d = axis + 1; d < rank; d++)
		shape[n++] = tw_in_dim(x, 0, d);
	tw_set_out(x, 0, tw_in_type(x, 0), n, shape);
}

static void compute_gather(struct tw_opctx *x)
{
	struct twir_tensor *y = tw_y(x, 0), *t = tw_x(x, 0), *index = tw_x(x, 1);
	const int axis = gather_axis(x);
	E *i, at[TWIR_MAX_RANK], inside = NULL;
	struct twir_var **axes = tw_axes(x, y, &i);
	for (int d = 0; d < axis; d++)
		at[d] = i[d];
	at[axis] = coordinate(x, tw_load(x, index, index->rank, i + axis), t->shape[axis], &inside);
	for (int d = axis + 1; d < t->rank; d++)
		at[d] = i[d - 1 + index->rank];
	tw_define(x, y, axes, guarded(x, inside, tw_load(x, t, t->rank, at)));
}

/* ---- GatherElements */

static void infer_gather_elements(struct tw_opctx *x)
{
	const int rank = tw_in_rank(x, 0);
	tw_need_type(x, 1, "index");
	tw_check_indices(x, 1, tw_in_dim(x, 0, gather_axis(x)), 0, 1);
	if (tw_in_rank(x, 1) != rank)
		tw_op_fail(x, TW_ERR_MODEL, "indices of rank %d for data of rank %d", tw_in_rank(x, 1), rank);
	tw_set_out(x, 0, tw_in_type(x, 0), rank, tw_in(x, 1)->shape);
}

static void compute_gather_elements(struct tw_opctx *x)
{
	struct twir_tensor *y = tw_y(x, 0), *t = tw_x(x, 0);
	const int axis = gather_axis(x);
	E *i, at[TWIR_MAX_RANK], inside = NULL;
	struct twir_var **axes = tw_axes(x, y, &i);
	for (int d = 0; d < y->rank; d++) {
		at[d] = i[d];
		if (d != axis && y->shape[d] != t->shape[d]) {
			const E ok = twir_lt(x->m, i[d], t->shape[d]);
			inside = inside ? twir_and(x->m, inside, ok) : ok;
		}
	}
	at[axis] = coordinate(x, tw_load(x, tw_x(x, 1), y->rank, i), t->shape[axis], &inside);
	tw_define(x, y, axes, guarded(x, inside, tw_load(x, t, t->rank, at)));
}

/* ---- GatherND */

struct nd {
	int batch, depth; /* leading axes shared; coordinates in one index */
};

static void read_nd(struct tw_opctx *x, struct nd *n)
{
	const int rank = tw_in_rank(x, 0), ri = tw_in_rank(x, 1);
	int64_t depth;
	n->batch = (int)tw_attr_int(x->node, "batch_dims", 0);
	if (ri < 1 || n->batch < 0 || n->batch >= ri || n->batch > rank)
		tw_op_fail(x, TW_ERR_MODEL, "batch_dims = %d for indices of rank %d", n->batch, ri);
	if (!twir_const_int(tw_in_dim(x, 1, -1), &depth))
		tw_op_fail(x, TW_ERR_UNSUPPORTED, "indices whose last size is not known when the model is compiled");
	if (depth < 1 || depth > rank - n->batch)
		tw_op_fail(x, TW_ERR_MODEL, "indices of %" PRId64 " coordinates for data of rank %d", depth, rank);
	n->depth = (int)depth;
}

static void infer_gather_nd(struct tw_opctx *x)
{
	struct nd nd;
	E shape[2 * TWIR_MAX_RANK];
	int n = 0;
	tw_need_type(x, 1, "i64");
	read_nd(x, &nd);
	for (int k = 0; k < nd.depth; k++)
		tw_check_indices(x, 1, tw_in_dim(x, 0, nd.batch + k), k, nd.depth);
	for (int d = 0; d < tw_in_rank(x, 1) - 1; d++)
		shape[n++] = d < nd.batch ? tw_same_size(x, tw_in_dim(x, 1, d), tw_in_dim(x, 0, d), "batch sizes")
					  : tw_in_dim(x, 1, d);
	for (int d = nd.batch + nd.depth; d < tw_in_rank(x, 0); d++)
		shape[n++] = tw_in_dim(x, 0, d);
	tw_set_out(x, 0, tw_in_type(x, 0), n, shape);
}

static void compute_gather_nd(struct tw_opctx *x)
{
	struct nd nd;
	read_nd(x, &nd);
	struct twir_tensor *y = tw_y(x, 0), *t = tw_x(x, 0), *index = tw_x(x, 1);
	E *i, at[TWIR_MAX_RANK], from[TWIR_MAX_RANK], inside = NULL;
	struct twir_var **axes = tw_axes(x, y, &i);
	for (int d = 0; d < nd.batch; d++)
		at[d] = i[d];
	for (int d = 0; d < index->rank - 1; d++)
		from[d] = i[d];
	for (int k = 0; k < nd.depth; k++) {
		from[index->rank - 1] = twir_index(x->m, k);
		at[nd.batch + k] = coordinate(x, tw_load(x, index, index->rank, from), t->shape[nd.batch + k], &inside);
	}
	for (int d = nd.batch + nd.depth; d < t->rank; d++)
		at[d] = i[index->rank - 1 + d - nd.batch - nd.depth];
	tw_define(x, y, axes, guarded(x, inside, tw_load(x, t, t->rank, at)));
}

/* ---- OneHot */

static int onehot_axis(struct tw_opctx *x)
{
	return tw_axis(x, tw_attr_int(x->node, "axis", -1), tw_in_rank(x, 0) + 1);
}

static void infer_onehot(struct tw_opctx *x)
{
	E const *depth;
	E shape[TWIR_MAX_RANK + 1], size = NULL;
	double number;
	tw_need_type(x, 0, "numeric");
	tw_need_type(x, 1, "numeric");
	if (twir_is_int(tw_in_type(x, 1)) && tw_in_values(x, 1, &depth) == 1)
		size = depth[0];
	else if (tw_in_scalar(x, 1, &number))
		size = twir_index(x->m, (int64_t)number);
	else
		tw_op_fail(x, TW_ERR_UNSUPPORTED, "a depth that only data decides");
	if (tw_in_rank(x, 2) != 1)
		tw_op_fail(x, TW_ERR_MODEL, "values must be two numbers, off and on");
	tw_same_size(x, tw_in_dim(x, 2, 0), twir_index(x->m, 2), "values (off and on)");
	const int axis = onehot_axis(x), rank = tw_in_rank(x, 0) + 1;
	if (rank > TWIR_MAX_RANK)
		tw_op_fail(x, TW_ERR_UNSUPPORTED, "output of rank %d; at most %d are supported", rank, TWIR_MAX_RANK);
	for (int d = 0; d < rank; d++)
		shape[d] = d == axis ? size : tw_in_dim(x, 0, d - (d > axis));
	tw_set_out(x, 0, tw_in_type(x, 2), rank, shape);
}

static void compute_onehot(struct tw_opctx *x)
{
	struct twir_module *m = x->m;
	struct twir_tensor *y = tw_y(x, 0);
	const int axis = onehot_axis(x);
	E *i, at[TWIR_MAX_RANK];
	struct twir_var **axes = tw_axes(x, y, &i);
	for (int d = 0; d < y->rank - 1; d++)
		at[d] = i[d + (d >= axis)];
	const E index = twir_cast(m, TWIR_INDEX, tw_load(x, tw_x(x, 0), y->rank - 1, at));
	const E wrapped =
		twir_select(m, twir_lt(m, index, twir_index(m, 0)), twir_add(m, index, y->shape[axis]), index);
	const E zero = twir_index(m, 0), one = twir_index(m, 1);
	const E off = tw_load(x, tw_x(x, 2), 1, &zero), on = tw_load(x, tw_x(x, 2), 1, &one);
	tw_define(x, y, axes, twir_select(m, twir_eq(m, wrapped, i[axis]), on, off));
}

static const struct tw_attr_spec attrs_axis[] = {{"axis", TW_ATTR_INT, false}, {NULL}};
static const struct tw_attr_spec attrs_batch[] = {{"batch_dims", TW_ATTR_INT, false}, {NULL}};

#define FN(name) .infer = infer_##name, .compute = compute_##name

const struct tw_op tw_ops_gather[] = {
	{.name = "Gather",
	 .flags = TW_OP_INDEXES | TW_OP_NARROW_ON,
	 .since = 1,
	 .in = {2, 2},
	 .out = {1, 1},
	 .attrs = attrs_axis,
	 FN(gather)},
	{.name = "GatherElements",
	 .flags = TW_OP_INDEXES,
	 .since = 11,
	 .in = {2, 2},
	 .out = {1, 1},
	 .attrs = attrs_axis,
	 FN(gather_elements)},
	{.name = "GatherND",
	 .flags = TW_OP_INDEXES_ND,
	 .since = 11,
	 .in = {2, 2},
	 .out = {1, 1},
	 .attrs = attrs_batch,
	 FN(gather_nd)},
	{.name = "OneHot", .since = 9, .in = {3, 3}, .out = {1, 1}, .attrs = attrs_axis, FN(onehot)},
	{0},
};
