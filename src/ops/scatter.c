/* scatter.c: a copy of the data with some elements replaced or combined: ScatterElements, Scatter, ScatterND.
 *
 * Seen from an output element: which updates land on it is a fold over the updates that may. Without a reduction
 * the last one wins. */
#include "ops/elementwise.h"

#include <inttypes.h>

typedef const struct twir_expr *E;

static enum twir_kind reduction(struct tw_opctx *x, bool *none)
{
	static const struct {
		const char *name;
		enum twir_kind op;
		int since;
	} table[] = {{"none", TWIR_Max, 1},
		     {"add", TWIR_Add, 16},
		     {"mul", TWIR_Mul, 16},
		     {"max", TWIR_Max, 18},
		     {"min", TWIR_Min, 18}};
	const char *name = tw_attr_string(x->node, "reduction", "none");
	for (int i = 0; i < TW_COUNT(table); i++)
		if (!strcmp(table[i].name, name) && x->node->opset >= table[i].since) {
			*none = i == 0;
			return table[i].op;
		}
	tw_op_fail(x, TW_ERR_MODEL, "reduction = '%s' is not known", name);
}

static E wrapped(struct tw_opctx *x, E index, E size)
{
	const E i = twir_cast(x->m, TWIR_INDEX, index);
	return twir_select(x->m, twir_lt(x->m, i, twir_index(x->m, 0)), twir_add(x->m, i, size), i);
}

static void check_types(struct tw_opctx *x, const char *indices)
{
	bool none;
	tw_need_type(x, 1, indices);
	if (tw_in_type(x, 0) != tw_in_type(x, 2))
		tw_op_fail(x, TW_ERR_MODEL, "data and updates have different types");
	reduction(x, &none);
	if (!none)
		tw_need_type(x, 0, "numeric");
}

/* Updates are named by a vector of fold axes; match says whether one lands on the element, update is its value (a
   load that is in bounds). */
static void define(struct tw_opctx *x, struct twir_var **axes, E const *i, int n, struct twir_var **fold,
		   E const *extent, E match, E update, E number, E (*load)(struct tw_opctx *x, E const *i, E number))
{
	struct twir_module *m = x->m;
	struct twir_tensor *y = tw_y(x, 0);
	bool none;
	const enum twir_kind op = reduction(x, &none);
	const E data = tw_load(x, tw_x(x, 0), y->rank, i);
	if (!none) {
		const E neutral = twir_neutral(m, op, data->type);
		const E all = twir_fold(m, op, n, fold, extent, twir_cond(m, match, update, neutral));
		tw_define(x, y, axes, twir_binary(m, op, data, all));
		return;
	}
	struct twir_tensor *last = tw_temp(x, "last", TWIR_INDEX, y->rank, y->shape);
	tw_define(x, last, axes,
		  twir_fold(m, TWIR_Max, n, fold, extent, twir_select(m, match, number, twir_index(m, -1))));
	E *j;
	axes = tw_axes(x, y, &j);
	const E which = tw_load(x, last, y->rank, j), old = tw_load(x, tw_x(x, 0), y->rank, j);
	tw_define(x, y, axes, twir_cond(m, twir_le(m, twir_index(m, 0), which), load(x, j, which), old));
}

/* ---- ScatterElements */

static int axis_of(struct tw_opctx *x)
{
	return tw_axis(x, tw_attr_int(x->node, "axis", 0), tw_in_rank(x, 0));
}

static void infer_elements(struct tw_opctx *x)
{
	const int rank = tw_in_rank(x, 0);
	check_types(x, "index");
	tw_check_indices(x, 1, tw_in_dim(x, 0, axis_of(x)), 0, 1);
	if (tw_in_rank(x, 1) != rank || tw_in_rank(x, 2) != rank)
		tw_op_fail(x, TW_ERR_MODEL, "data, indices and updates of rank %d, %d and %d", rank, tw_in_rank(x, 1),
			   tw_in_rank(x, 2));
	for (int d = 0; d < rank; d++)
		tw_same_size(x, tw_in_dim(x, 1, d), tw_in_dim(x, 2, d), "indices and updates");
	tw_infer_same(x);
}

static E load_element(struct tw_opctx *x, E const *i, E number)
{
	E at[TWIR_MAX_RANK];
	const int axis = axis_of(x), rank = tw_in_rank(x, 0);
	for (int d = 0; d < rank; d++)
		at[d] = d == axis ? number : i[d];
	return tw_load(x, tw_x(x, 2), rank, at);
}

static void compute_elements(struct tw_opctx *x)
{
	struct twir_module *m = x->m;
	struct twir_tensor *y = tw_y(x, 0), *indices = tw_x(x, 1);
	const int axis = axis_of(x);
	E *i, at[TWIR_MAX_RANK], inside = twir_bool(m, true);
	struct twir_var **axes = tw_axes(x, y, &i), *k = tw_fold_axis(x, "k", indices->shape[axis]);
	for (int d = 0; d < y->rank; d++) {
		at[d] = d == axis ? twir_var(m, k) : i[d];
		if (d != axis && indices->shape[d] != y->shape[d])
			inside = twir_and(m, inside, twir_lt(m, i[d], indices->shape[d]));
	}
	const E hit = twir_eq(m, wrapped(x, tw_load(x, indices, y->rank, at), y->shape[axis]), i[axis]);
	const E match = twir_cond(m, inside, hit, twir_bool(m, false));
	define(x, axes, i, 1, &k, &indices->shape[axis], match, load_element(x, i, at[axis]), at[axis], load_element);
}

/* ---- ScatterND */

static int depth_of(struct tw_opctx *x)
{
	int64_t depth;
	if (tw_in_rank(x, 1) < 1 || !twir_const_int(tw_in_dim(x, 1, -1), &depth))
		tw_op_fail(x, TW_ERR_UNSUPPORTED, "indices whose last size is not known when the model is compiled");
	if (depth < 0 || depth > tw_in_rank(x, 0))
		tw_op_fail(x, TW_ERR_MODEL, "indices of %" PRId64 " coordinates for data of rank %d", depth,
			   tw_in_rank(x, 0));
	return (int)depth;
}

static void infer_nd(struct tw_opctx *x)
{
	check_types(x, "i64");
	const int depth = depth_of(x), lead = tw_in_rank(x, 1) - 1, rank = tw_in_rank(x, 0);
	for (int d = 0; d < depth; d++)
		tw_check_indices(x, 1, tw_in_dim(x, 0, d), d, depth);
	if (tw_in_rank(x, 2) != lead + rank - depth)
		tw_op_fail(x, TW_ERR_MODEL, "updates of rank %d; it must be %d", tw_in_rank(x, 2), lead + rank - depth);
	for (int d = 0; d < lead; d++)
		tw_same_size(x, tw_in_dim(x, 1, d), tw_in_dim(x, 2, d), "indices and updates");
	for (int d = depth; d < rank; d++)
		tw_same_size(x, tw_in_dim(x, 0, d), tw_in_dim(x, 2, lead + d - depth), "data and updates");
	tw_infer_same(x);
}

/* The update of a number: its coordinates are those of the index list in row order. */
static E load_nd(struct tw_opctx *x, E const *i, E number)
{
	E at[TWIR_MAX_RANK];
	const int depth = depth_of(x), lead = tw_in_rank(x, 1) - 1, rank = tw_in_rank(x, 0);
	tw_unflatten(x, number, lead, tw_x(x, 1)->shape, at);
	for (int d = depth; d < rank; d++)
		at[lead + d - depth] = i[d];
	return tw_load(x, tw_x(x, 2), lead + rank - depth, at);
}

static void compute_nd(struct tw_opctx *x)
{
	struct twir_module *m = x->m;
	struct twir_tensor *y = tw_y(x, 0), *indices = tw_x(x, 1);
	const int depth = depth_of(x), lead = indices->rank - 1;
	E *i, at[TWIR_MAX_RANK];
	struct twir_var **axes = tw_axes(x, y, &i);
	const E extent = tw_product(x, lead, indices->shape);
	struct twir_var *k = tw_fold_axis(x, "k", extent);
	const E number = twir_var(m, k);
	tw_unflatten(x, number, lead, indices->shape, at);
	E match = twir_bool(m, true);
	for (int d = 0; d < depth; d++) {
		at[lead] = twir_index(m, d);
		match = twir_and(m, match,
				 twir_eq(m, wrapped(x, tw_load(x, indices, indices->rank, at), y->shape[d]), i[d]));
	}
	define(x, axes, i, 1, &k, &extent, match, load_nd(x, i, number), number, load_nd);
}

static const struct tw_attr_spec attrs_axis[] = {{"axis", TW_ATTR_INT, false}, {NULL}};
static const struct tw_attr_spec attrs_elements[] = {
	{"axis", TW_ATTR_INT, false}, {"reduction", TW_ATTR_STRING, false}, {NULL}};
static const struct tw_attr_spec attrs_nd[] = {{"reduction", TW_ATTR_STRING, false}, {NULL}};

#define FN(name) .infer = infer_##name, .compute = compute_##name

const struct tw_op tw_ops_scatter[] = {
	{.name = "Scatter",
	 .flags = TW_OP_INDEXES,
	 .since = 9,
	 .until = 10,
	 .in = {3, 3},
	 .out = {1, 1},
	 .attrs = attrs_axis,
	 FN(elements)},
	{.name = "ScatterElements",
	 .flags = TW_OP_INDEXES,
	 .since = 11,
	 .in = {3, 3},
	 .out = {1, 1},
	 .attrs = attrs_elements,
	 FN(elements)},
	{.name = "ScatterND",
	 .flags = TW_OP_INDEXES_ND,
	 .since = 11,
	 .in = {3, 3},
	 .out = {1, 1},
	 .attrs = attrs_nd,
	 FN(nd)},
	{0},
};
