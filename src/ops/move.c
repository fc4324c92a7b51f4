/* move.c: operators that put elements elsewhere without computing: Transpose, Expand, Tile, Concat, Split,
   DepthToSpace, SpaceToDepth. */
#include "ops/elementwise.h"

#include <inttypes.h>

typedef const struct twir_expr *E;

/* ---- Transpose */

static void read_perm(struct tw_opctx *x, int *perm)
{
	const int64_t *values;
	const int n = tw_attr_ints(x->node, "perm", &values), rank = tw_in_rank(x, 0);
	bool seen[TWIR_MAX_RANK] = {false};
	if (n >= 0 && n != rank)
		tw_op_fail(x, TW_ERR_MODEL, "perm has %d values for rank %d", n, rank);
	for (int d = 0; d < rank; d++) {
		perm[d] = n < 0 ? rank - 1 - d : tw_axis(x, values[d], rank);
		if (seen[perm[d]])
			tw_op_fail(x, TW_ERR_MODEL, "perm names axis %d twice", perm[d]);
		seen[perm[d]] = true;
	}
}

static void infer_transpose(struct tw_opctx *x)
{
	int perm[TWIR_MAX_RANK];
	E shape[TWIR_MAX_RANK];
	read_perm(x, perm);
	for (int d = 0; d < tw_in_rank(x, 0); d++)
		shape[d] = tw_in_dim(x, 0, perm[d]);
	tw_set_out(x, 0, tw_in_type(x, 0), tw_in_rank(x, 0), shape);
}

static void compute_transpose(struct tw_opctx *x)
{
	int perm[TWIR_MAX_RANK];
	struct twir_tensor *y = tw_y(x, 0);
	E *i, at[TWIR_MAX_RANK];
	struct twir_var **axes = tw_axes(x, y, &i);
	read_perm(x, perm);
	for (int d = 0; d < y->rank; d++)
		at[perm[d]] = i[d];
	tw_define(x, y, axes, tw_load(x, tw_x(x, 0), y->rank, at));
}

/* ---- Expand, Tile */

static void infer_expand(struct tw_opctx *x)
{
	E const *values;
	E shape[TWIR_MAX_RANK];
	tw_need_type(x, 1, "i64");
	const int n = tw_in_values(x, 1, &values), rank = tw_in_rank(x, 0), out = n > rank ? n : rank;
	if (n < 0)
		tw_op_fail(x, TW_ERR_UNSUPPORTED, "a shape that only data decides");
	if (out > TWIR_MAX_RANK)
		tw_op_fail(x, TW_ERR_UNSUPPORTED, "output of rank %d; at most %d are supported", out, TWIR_MAX_RANK);
	const E one = twir_index(x->m, 1);
	for (int d = 0; d < out; d++) {
		const E a = d >= out - rank ? tw_in_dim(x, 0, d - (out - rank)) : one;
		E b = d >= out - n ? values[d - (out - n)] : one;
		if (b->kind != TWIR_Const && tw_may_be_negative(x, b)) /* may be 1, too */
			b = a == one ? b : twir_select(x->m, twir_eq(x->m, b, one), a, b);
		shape[d] = a == one ? b : b == one ? a : tw_same_size(x, a, b, "input and new shape");
	}
	tw_set_out(x, 0, tw_in_type(x, 0), out, shape);
}

static void compute_expand(struct tw_opctx *x)
{
	struct twir_tensor *y = tw_y(x, 0);
	E *i;
	struct twir_var **axes = tw_axes(x, y, &i);
	tw_define(x, y, axes, tw_load_broadcast(x, tw_x(x, 0), y->rank, i));
}

static void infer_tile(struct tw_opctx *x)
{
	E const *repeats;
	E shape[TWIR_MAX_RANK];
	tw_need_type(x, 1, "i64");
	const int n = tw_in_values(x, 1, &repeats), rank = tw_in_rank(x, 0);
	if (n < 0)
		tw_op_fail(x, TW_ERR_UNSUPPORTED, "repeats that only data decides");
	if (n != rank)
		tw_op_fail(x, TW_ERR_MODEL, "%d repeats for rank %d", n, rank);
	for (int d = 0; d < rank; d++)
		shape[d] = twir_mul(x->m, tw_in_dim(x, 0, d), repeats[d]);
	tw_set_out(x, 0, tw_in_type(x, 0), rank, shape);
}

static void compute_tile(struct tw_opctx *x)
{
	struct twir_tensor *y = tw_y(x, 0), *t = tw_x(x, 0);
	E *i, at[TWIR_MAX_RANK];
	struct twir_var **axes = tw_axes(x, y, &i);
	for (int d = 0; d < y->rank; d++)
		at[d] = t->shape[d] == twir_index(x->m, 1) ? twir_index(x->m, 0)
			: t->shape[d] == y->shape[d]	   ? i[d]
							   : twir_mod(x->m, i[d], t->shape[d]);
	tw_define(x, y, axes, tw_load(x, t, y->rank, at));
}

/* ---- Concat */

static void infer_concat(struct tw_opctx *x)
{
	const int rank = tw_in_rank(x, 0), axis = tw_axis(x, tw_attr_int(x->node, "axis", 1), rank);
	E shape[TWIR_MAX_RANK];
	tw_need_same_type(x, 0, x->node->nin - 1);
	for (int d = 0; d < rank; d++)
		shape[d] = tw_in_dim(x, 0, d);
	for (int k = 1; k < x->node->nin; k++) {
		if (tw_in_rank(x, k) != rank)
			tw_op_fail(x, TW_ERR_MODEL, "inputs of rank %d and %d", rank, tw_in_rank(x, k));
		for (int d = 0; d < rank; d++)
			shape[d] = d == axis ? twir_add(x->m, shape[d], tw_in_dim(x, k, d))
					     : tw_same_size(x, shape[d], tw_in_dim(x, k, d), "sizes beside the axis");
	}
	tw_set_out(x, 0, tw_in_type(x, 0), rank, shape);
}

static void compute_concat(struct tw_opctx *x)
{
	struct twir_tensor *y = tw_y(x, 0);
	const int n = x->node->nin, axis = tw_axis(x, tw_attr_int(x->node, "axis", 1), y->rank);
	E *i, at[TWIR_MAX_RANK], *start = ARENA_ARRAY(x->arena, E, n + 1), value = NULL;
	struct twir_var **axes = tw_axes(x, y, &i);
	start[0] = twir_index(x->m, 0);
	for (int k = 0; k < n; k++)
		start[k + 1] = tw_simplify(x, twir_add(x->m, start[k], tw_in_dim(x, k, axis)));
	for (int d = 0; d < y->rank; d++)
		at[d] = i[d];
	for (int k = n - 1; k >= 0; k--) {
		if (start[k] == start[k + 1])
			continue; /* an empty input */
		at[axis] = twir_sub(x->m, i[axis], start[k]);
		const E v = tw_load(x, tw_x(x, k), y->rank, at);
		value = value ? twir_cond(x->m, twir_lt(x->m, i[axis], start[k + 1]), v, value) : v;
	}
	if (!value) /* all inputs are empty */
		value = twir_const_of(x->m, twir_scalar_type(tw_compute_type(y->type)), 0);
	tw_define(x, y, axes, value);
}

/* ---- Split: sizes are an attribute up to opset 12, an input from 13 on */

static int split_axis(struct tw_opctx *x)
{
	return tw_axis(x, tw_attr_int(x->node, "axis", 0), tw_in_rank(x, 0));
}

/* Where output k starts, and at [nout] the end. */
static E *split_starts(struct tw_opctx *x)
{
	const int n = x->node->nout;
	const E size = tw_in_dim(x, 0, split_axis(x));
	E *start = ARENA_ARRAY(x->arena, E, n + 1);
	E const *sizes = NULL;
	const int64_t *plain;
	int count = tw_has_in(x, 1) ? tw_in_values(x, 1, &sizes) : tw_attr_ints(x->node, "split", &plain);
	if (tw_has_in(x, 1) && count < 0)
		tw_op_fail(x, TW_ERR_UNSUPPORTED, "sizes that only data decides");
	start[0] = twir_index(x->m, 0);
	if (count >= 0) {
		if (count != n)
			tw_op_fail(x, TW_ERR_MODEL, "%d sizes for %d outputs", count, n);
		for (int k = 0; k < n; k++)
			start[k + 1] =
				tw_simplify(x, twir_add(x->m, start[k], sizes ? sizes[k] : twir_index(x->m, plain[k])));
		tw_same_size(x, start[n], size, "sum of the sizes");
		return start;
	}
	if (x->node->opset < 18) {
		int64_t whole;
		if (twir_const_int(size, &whole) && whole % n)
			tw_op_fail(x, TW_ERR_MODEL, "%" PRId64 " elements do not split into %d equal parts", whole, n);
	}
	/* Parts of equal size, the last one smaller when it does not divide. */
	const E part = tw_simplify(x, twir_ceildiv(x->m, size, twir_index(x->m, n)));
	for (int k = 1; k <= n; k++)
		start[k] =
			k == n ? size : tw_simplify(x, twir_min(x->m, twir_mul(x->m, part, twir_index(x->m, k)), size));
	return start;
}

static void infer_split(struct tw_opctx *x)
{
	const int rank = tw_in_rank(x, 0), axis = split_axis(x);
	const int64_t wanted = tw_attr_int(x->node, "num_outputs", x->node->nout);
	if (wanted != x->node->nout)
		tw_op_fail(x, TW_ERR_MODEL, "num_outputs is %" PRId64 " but there are %d", wanted, x->node->nout);
	E *start = split_starts(x), shape[TWIR_MAX_RANK];
	for (int d = 0; d < rank; d++)
		shape[d] = tw_in_dim(x, 0, d);
	for (int k = 0; k < x->node->nout; k++) {
		shape[axis] = twir_sub(x->m, start[k + 1], start[k]);
		tw_set_out(x, k, tw_in_type(x, 0), rank, shape);
	}
}

static void compute_split(struct tw_opctx *x)
{
	const int axis = split_axis(x);
	E *start = split_starts(x), *i, at[TWIR_MAX_RANK];
	for (int k = 0; k < x->node->nout; k++) {
		if (!tw_has_out(x, k))
			continue;
		struct twir_tensor *y = tw_y(x, k);
		struct twir_var **axes = tw_axes(x, y, &i);
		for (int d = 0; d < y->rank; d++)
			at[d] = d == axis ? twir_add(x->m, i[d], start[k]) : i[d];
		tw_define(x, y, axes, tw_load(x, tw_x(x, 0), y->rank, at));
	}
}

/* ---- DepthToSpace, SpaceToDepth */

static int64_t block_size(struct tw_opctx *x)
{
	const int64_t b = tw_attr_int(x->node, "blocksize", 0);
	if (b < 1 || b > 1 << 20)
		tw_op_fail(x, TW_ERR_MODEL, "blocksize = %" PRId64, b);
	if (tw_in_rank(x, 0) != 4)
		tw_op_fail(x, TW_ERR_MODEL, "input of rank %d; it must be 4", tw_in_rank(x, 0));
	return b;
}

static bool column_first(struct tw_opctx *x)
{
	const char *mode = tw_attr_string(x->node, "mode", "DCR");
	if (strcmp(mode, "DCR") && strcmp(mode, "CRD"))
		tw_op_fail(x, TW_ERR_MODEL, "mode = '%s' is neither DCR nor CRD", mode);
	return !strcmp(mode, "CRD");
}

static void infer_depth_to_space(struct tw_opctx *x)
{
	const E b = twir_index(x->m, block_size(x)), area = twir_mul(x->m, b, b);
	const E c = tw_simplify(x, twir_div(x->m, tw_in_dim(x, 0, 1), area));
	column_first(x);
	tw_same_size(x, twir_mul(x->m, c, area), tw_in_dim(x, 0, 1), "channels in whole blocks");
	const E shape[] = {tw_in_dim(x, 0, 0), c, twir_mul(x->m, tw_in_dim(x, 0, 2), b),
			   twir_mul(x->m, tw_in_dim(x, 0, 3), b)};
	tw_set_out(x, 0, tw_in_type(x, 0), 4, shape);
}

static void compute_depth_to_space(struct tw_opctx *x)
{
	struct twir_module *m = x->m;
	struct twir_tensor *y = tw_y(x, 0);
	const E b = twir_index(m, block_size(x));
	E *i;
	struct twir_var **axes = tw_axes(x, y, &i);
	const E row = twir_mod(m, i[2], b), column = twir_mod(m, i[3], b);
	const E cell = twir_add(m, twir_mul(m, row, b), column), area = twir_mul(m, b, b);
	const E c = column_first(x) ? twir_add(m, twir_mul(m, i[1], area), cell)
				    : twir_add(m, twir_mul(m, cell, y->shape[1]), i[1]);
	const E at[] = {i[0], c, twir_div(m, i[2], b), twir_div(m, i[3], b)};
	tw_define(x, y, axes, tw_load(x, tw_x(x, 0), 4, at));
}

static void infer_space_to_depth(struct tw_opctx *x)
{
	const E b = twir_index(x->m, block_size(x)), area = twir_mul(x->m, b, b);
	E shape[] = {tw_in_dim(x, 0, 0), twir_mul(x->m, tw_in_dim(x, 0, 1), area), NULL, NULL};
	column_first(x);
	for (int d = 2; d < 4; d++) {
		shape[d] = tw_simplify(x, twir_div(x->m, tw_in_dim(x, 0, d), b));
		tw_same_size(x, twir_mul(x->m, shape[d], b), tw_in_dim(x, 0, d), "sizes in whole blocks");
	}
	tw_set_out(x, 0, tw_in_type(x, 0), 4, shape);
}

static void compute_space_to_depth(struct tw_opctx *x)
{
	struct twir_module *m = x->m;
	struct twir_tensor *y = tw_y(x, 0), *t = tw_x(x, 0);
	const E b = twir_index(m, block_size(x));
	E *i;
	struct twir_var **axes = tw_axes(x, y, &i);
	E c, cell;
	if (column_first(x)) {
		c = twir_div(m, i[1], twir_mul(m, b, b));
		cell = twir_mod(m, i[1], twir_mul(m, b, b));
	} else {
		c = twir_mod(m, i[1], t->shape[1]);
		cell = twir_div(m, i[1], t->shape[1]);
	}
	const E row = twir_add(m, twir_mul(m, i[2], b), twir_div(m, cell, b));
	const E column = twir_add(m, twir_mul(m, i[3], b), twir_mod(m, cell, b));
	const E at[] = {i[0], c, row, column};
	tw_define(x, y, axes, tw_load(x, t, 4, at));
}

static const struct tw_attr_spec attrs_perm[] = {{"perm", TW_ATTR_INTS, false}, {NULL}};
static const struct tw_attr_spec attrs_axis[] = {{"axis", TW_ATTR_INT, true}, {NULL}};
static const struct tw_attr_spec attrs_split2[] = {
	{"axis", TW_ATTR_INT, false}, {"split", TW_ATTR_INTS, false}, {NULL}};
static const struct tw_attr_spec attrs_split13[] = {{"axis", TW_ATTR_INT, false}, {NULL}};
static const struct tw_attr_spec attrs_split18[] = {
	{"axis", TW_ATTR_INT, false}, {"num_outputs", TW_ATTR_INT, false}, {NULL}};
static const struct tw_attr_spec attrs_block[] = {
	{"blocksize", TW_ATTR_INT, true}, {"mode", TW_ATTR_STRING, false}, {NULL}};

#define FN(name) .infer = infer_##name, .compute = compute_##name

const struct tw_op tw_ops_move[] = {
	{.name = "Transpose",
	 .since = 1,
	 .in = {1, 1},
	 .out = {1, 1},
	 .attrs = attrs_perm,
	 .flags = TW_OP_NARROW_ON,
	 FN(transpose)},
	{.name = "Expand", .since = 8, .in = {2, 2}, .out = {1, 1}, FN(expand)},
	{.name = "Tile", .since = 6, .in = {2, 2}, .out = {1, 1}, FN(tile)},
	{.name = "Concat", .since = 4, .in = {1, -1}, .out = {1, 1}, .attrs = attrs_axis, FN(concat)},
	{.name = "Split", .since = 2, .until = 12, .in = {1, 1}, .out = {1, -1}, .attrs = attrs_split2, FN(split)},
	{.name = "Split", .since = 13, .until = 17, .in = {1, 2}, .out = {1, -1}, .attrs = attrs_split13, FN(split)},
	{.name = "Split", .since = 18, .in = {1, 2}, .out = {1, -1}, .attrs = attrs_split18, FN(split)},
	{.name = "DepthToSpace", .since = 1, .in = {1, 1}, .out = {1, 1}, .attrs = attrs_block, FN(depth_to_space)},
	{.name = "SpaceToDepth", .since = 1, .in = {1, 1}, .out = {1, 1}, .attrs = attrs_block, FN(space_to_depth)},
	{0},
};
