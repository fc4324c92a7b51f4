/* topk_row.c: TopK is a host operator: order decides its result. k must be known, as a number or a size with symbols. */
#include "ops/op.h"

#include <inttypes.h>

static void infer(struct tw_opctx *x)
{
	const int rank = tw_in_rank(x, 0), axis = tw_axis(x, tw_attr_int(x->node, "axis", -1), rank);
	const struct twir_expr *shape[TWIR_MAX_RANK], *const *k, *size;
	int64_t number, whole;
	tw_need_type(x, 0, "numeric");
	if (x->node->opset < 10)
		size = twir_index(x->m, tw_attr_int(x->node, "k", 0));
	else if (tw_in_values(x, 1, &k) == 1)
		size = k[0];
	else
		tw_op_fail(x, TW_ERR_UNSUPPORTED, "a k that only data decides");
	for (int d = 0; d < rank; d++)
		shape[d] = d == axis ? size : tw_in_dim(x, 0, d);
	if (twir_const_int(size, &number) && twir_const_int(tw_in_dim(x, 0, axis), &whole) && number > whole)
		tw_op_fail(x, TW_ERR_MODEL, "k = %" PRId64 " of %" PRId64 " elements", number, whole);
	tw_set_out(x, 0, tw_in_type(x, 0), rank, shape);
	tw_set_out(x, 1, TWIR_I64, rank, shape);
}

static const struct tw_attr_spec attrs1[] = {{"axis", TW_ATTR_INT, false}, {"k", TW_ATTR_INT, true}, {NULL}};
static const struct tw_attr_spec attrs10[] = {{"axis", TW_ATTR_INT, false}, {NULL}};
static const struct tw_attr_spec attrs11[] = {
	{"axis", TW_ATTR_INT, false}, {"largest", TW_ATTR_INT, false}, {"sorted", TW_ATTR_INT, false}, {NULL}};

const struct tw_op tw_ops_topk_row[] = {
	{.name = "TopK",
	 .since = 1,
	 .until = 9,
	 .in = {1, 1},
	 .out = {1, 2},
	 .attrs = attrs1,
	 .flags = TW_OP_HOST,
	 .infer = infer},
	{.name = "TopK",
	 .since = 10,
	 .until = 10,
	 .in = {2, 2},
	 .out = {1, 2},
	 .attrs = attrs10,
	 .flags = TW_OP_HOST,
	 .infer = infer},
	{.name = "TopK",
	 .since = 11,
	 .in = {2, 2},
	 .out = {1, 2},
	 .attrs = attrs11,
	 .flags = TW_OP_HOST,
	 .infer = infer},
	{0},
};
