/* features.c: operators of ai.onnx.ml on tensors of numbers: ArrayFeatureExtractor, Binarizer. */
#include "ops/elementwise.h"

typedef const struct twir_expr *E;

/* ---- ArrayFeatureExtractor: columns of the last axis */

static void infer_extract(struct tw_opctx *x)
{
	const struct tw_tensor *t = tw_in(x, 0), *y = tw_in(x, 1);
	tw_need_type(x, 0, "f32 f64 i32 i64");
	tw_need_type(x, 1, "i64");
	if (t->rank < 1)
		tw_op_fail(x, TW_ERR_MODEL, "input of rank 0; it must be at least 1");
	E shape[TWIR_MAX_RANK];
	const int rank = t->rank > 1 ? t->rank : 2;
	shape[0] = twir_index(x->m, 1); /* of a vector a matrix of one row */
	for (int d = 0; d < t->rank; d++)
		shape[rank - t->rank + d] = t->shape[d];
	shape[rank - 1] = tw_product(x, y->rank, y->shape);
	tw_check_indices(x, 1, t->shape[t->rank - 1], 0, 1);
	tw_set_out(x, 0, t->type, rank, shape);
}

static void compute_extract(struct tw_opctx *x)
{
	struct twir_module *m = x->m;
	struct twir_tensor *y = tw_y(x, 0), *t = tw_x(x, 0), *columns = tw_x(x, 1);
	E *i, at[TWIR_MAX_RANK], place[TWIR_MAX_RANK];
	struct twir_var **axes = tw_axes(x, y, &i);
	tw_unflatten(x, i[y->rank - 1], columns->rank, columns->shape, place);
	const E size = t->shape[t->rank - 1], zero = twir_index(m, 0), one = twir_index(m, 1);
	E column = twir_cast(m, TWIR_INDEX, tw_load(x, columns, columns->rank, place));
	column = twir_max(m, zero, twir_min(m, column, twir_sub(m, size, one)));
	for (int d = 0; d < t->rank - 1; d++)
		at[d] = i[y->rank - t->rank + d];
	at[t->rank - 1] = column;
	tw_define(x, y, axes, tw_load(x, t, t->rank, at));
}

/* ---- Binarizer */

static void infer_binarizer(struct tw_opctx *x)
{
	tw_need_type(x, 0, "f32 f64 i32 i64");
	tw_infer_same(x);
}

static E binarized(struct tw_opctx *x, E a)
{
	const E threshold = tw_like(x, a, (double)tw_attr_float(x->node, "threshold", 0));
	return twir_select(x->m, twir_lt(x->m, threshold, a), tw_like(x, a, 1), tw_like(x, a, 0));
}

static void compute_binarizer(struct tw_opctx *x)
{
	tw_elementwise(x, binarized);
}

static const struct tw_attr_spec attrs_threshold[] = {{"threshold", TW_ATTR_FLOAT, false}, {NULL}};

const struct tw_op tw_ops_features[] = {
	{.name = "ArrayFeatureExtractor",
	 .domain = "ai.onnx.ml",
	 .since = 1,
	 .in = {2, 2},
	 .out = {1, 1},
	 .infer = infer_extract,
	 .compute = compute_extract},
	{.name = "Binarizer",
	 .domain = "ai.onnx.ml",
	 .since = 1,
	 .in = {1, 1},
	 .out = {1, 1},
	 .attrs = attrs_threshold,
	 .infer = infer_binarizer,
	 .compute = compute_binarizer},
	{0},
};
