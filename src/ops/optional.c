/* optional.c: OptionalHasElement and OptionalGetElement on tensors, which are always there, and on nothing. Values of
 * type optional do not exist here: a model that has some is refused when it is read. */
#include "ops/elementwise.h"

static void infer_has(struct tw_opctx *x)
{
	tw_set_out(x, 0, TWIR_I1, 0, NULL);
}

static void compute_has(struct tw_opctx *x)
{
	struct twir_tensor *y = tw_y(x, 0);
	tw_define(x, y, tw_axes(x, y, NULL), twir_bool(x->m, tw_has_in(x, 0)));
}

static void compute_get(struct tw_opctx *x)
{
	const struct twir_expr **i;
	struct twir_tensor *y = tw_y(x, 0);
	struct twir_var **axes = tw_axes(x, y, &i);
	tw_define(x, y, axes, tw_load(x, tw_x(x, 0), y->rank, i));
}

const struct tw_op tw_ops_optional[] = {
	{.name = "OptionalHasElement",
	 .since = 15,
	 .in = {0, 1},
	 .out = {1, 1},
	 .infer = infer_has,
	 .compute = compute_has},
	{.name = "OptionalGetElement",
	 .since = 15,
	 .in = {1, 1},
	 .out = {1, 1},
	 .flags = TW_OP_RESHAPE,
	 .infer = tw_infer_same,
	 .compute = compute_get},
	{0},
};
