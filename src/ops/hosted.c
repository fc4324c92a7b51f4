/* hosted.c: operators that the runtime does by itself: order or data decides their results (TopK, NonZero,
 * Compress, Unique, NonMaxSuppression, RoiAlign).
 *
 * Rows have inference only; a size that data decides is a new symbol with an upper bound. */
#include "ops/op.h"

#include <inttypes.h>

typedef const struct twir_expr *E;

static void infer_topk(struct tw_opctx *x)
{
	const int rank = tw_in_rank(x, 0), axis = tw_axis(x, tw_attr_int(x->node, "axis", -1), rank);
	E shape[TWIR_MAX_RANK], size;
	E const *k;
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

/* ---- NonZero: rank x count */

static void infer_nonzero(struct tw_opctx *x)
{
	const struct tw_tensor *t = tw_in(x, 0);
	const int rank = t->rank;
	const E most = tw_product(x, rank, t->shape);
	const E shape[] = {twir_index(x->m, rank), tw_decided_size(x, 0, most)};
	tw_set_out(x, 0, TWIR_I64, 2, shape);
}

/* ---- Compress: slices along an axis, or elements of the flattened input */

static void infer_compress(struct tw_opctx *x)
{
	const int rank = tw_in_rank(x, 0);
	E shape[TWIR_MAX_RANK];
	tw_need_type(x, 1, "bool");
	if (tw_in_rank(x, 1) != 1)
		tw_op_fail(x, TW_ERR_MODEL, "condition of rank %d", tw_in_rank(x, 1));
	if (!tw_attr_find(x->node, "axis")) {
		shape[0] = tw_decided_size(x, 0, tw_product(x, rank, tw_in(x, 0)->shape));
		tw_set_out(x, 0, tw_in_type(x, 0), 1, shape);
		return;
	}
	const int axis = tw_axis(x, tw_attr_int(x->node, "axis", 0), rank);
	for (int d = 0; d < rank; d++)
		shape[d] = d == axis ? tw_decided_size(x, 0, tw_in_dim(x, 0, d)) : tw_in_dim(x, 0, d);
	tw_set_out(x, 0, tw_in_type(x, 0), rank, shape);
}

/* ---- Unique */

static void infer_unique(struct tw_opctx *x)
{
	const int rank = tw_in_rank(x, 0);
	const bool flat = !tw_attr_find(x->node, "axis");
	const int axis = flat ? 0 : tw_axis(x, tw_attr_int(x->node, "axis", 0), rank);
	const E all = flat ? tw_product(x, rank, tw_in(x, 0)->shape) : tw_in_dim(x, 0, axis);
	const E count = tw_decided_size(x, 0, all);
	E shape[TWIR_MAX_RANK] = {count};
	for (int d = 0; d < rank && !flat; d++)
		shape[d] = d == axis ? count : tw_in_dim(x, 0, d);
	tw_set_out(x, 0, tw_in_type(x, 0), flat ? 1 : rank, shape);
	tw_set_out(x, 1, TWIR_I64, 1, &count);
	tw_set_out(x, 2, TWIR_I64, 1, &all);
	tw_set_out(x, 3, TWIR_I64, 1, &count);
}

/* ---- NonMaxSuppression: boxes (batch, n, 4), scores (batch, classes, n) */

static void infer_nms(struct tw_opctx *x)
{
	tw_need_type(x, 0, "f32");
	tw_need_type(x, 1, "f32");
	if (tw_in_rank(x, 0) != 3 || tw_in_rank(x, 1) != 3)
		tw_op_fail(x, TW_ERR_MODEL, "boxes and scores of rank %d and %d", tw_in_rank(x, 0), tw_in_rank(x, 1));
	tw_same_size(x, tw_in_dim(x, 0, 0), tw_in_dim(x, 1, 0), "batch sizes");
	tw_same_size(x, tw_in_dim(x, 0, 1), tw_in_dim(x, 1, 2), "boxes and scores");
	tw_same_size(x, tw_in_dim(x, 0, 2), twir_index(x->m, 4), "coordinates of a box");
	const E most = tw_product(x, 3, tw_in(x, 1)->shape);
	const E shape[] = {tw_decided_size(x, 0, most), twir_index(x->m, 3)};
	tw_set_out(x, 0, TWIR_I64, 2, shape);
}

/* ---- RoiAlign: x (n, c, h, w), rois (r, 4), batch indices (r) -> (r, c, output_height, output_width) */

static void infer_roi_align(struct tw_opctx *x)
{
	const char *mode = tw_attr_string(x->node, "mode", "avg");
	const char *pixel = tw_attr_string(x->node, "coordinate_transformation_mode", "half_pixel");
	const int64_t height = tw_attr_int(x->node, "output_height", 1),
		      width = tw_attr_int(x->node, "output_width", 1);
	tw_need_type(x, 0, "f32 f64");
	tw_need_same_type(x, 0, 1);
	tw_need_type(x, 2, "i64");
	if (tw_in_rank(x, 0) != 4 || tw_in_rank(x, 1) != 2 || tw_in_rank(x, 2) != 1)
		tw_op_fail(x, TW_ERR_MODEL,
			   "input, regions and batch indices of rank %d, %d and %d; 4, 2 and 1 are needed",
			   tw_in_rank(x, 0), tw_in_rank(x, 1), tw_in_rank(x, 2));
	if (strcmp(mode, "avg") && strcmp(mode, "max"))
		tw_op_fail(x, TW_ERR_MODEL, "mode = '%s' is not known", mode);
	if (strcmp(pixel, "half_pixel") && strcmp(pixel, "output_half_pixel"))
		tw_op_fail(x, TW_ERR_MODEL, "coordinate_transformation_mode = '%s' is not known", pixel);
	if (height < 1 || width < 1 || height > 1 << 20 || width > 1 << 20)
		tw_op_fail(x, TW_ERR_MODEL, "output of %" PRId64 " x %" PRId64, height, width);
	tw_same_size(x, tw_in_dim(x, 1, 1), twir_index(x->m, 4), "coordinates of a region");
	const E shape[] = {tw_same_size(x, tw_in_dim(x, 1, 0), tw_in_dim(x, 2, 0), "regions and batch indices"),
			   tw_in_dim(x, 0, 1), twir_index(x->m, height), twir_index(x->m, width)};
	tw_set_out(x, 0, tw_in_type(x, 0), 4, shape);
}

static const struct tw_attr_spec attrs_roi10[] = {
	{"mode", TW_ATTR_STRING, false},	 {"output_height", TW_ATTR_INT, false},
	{"output_width", TW_ATTR_INT, false},	 {"sampling_ratio", TW_ATTR_INT, false},
	{"spatial_scale", TW_ATTR_FLOAT, false}, {NULL}};
static const struct tw_attr_spec attrs_roi16[] = {{"coordinate_transformation_mode", TW_ATTR_STRING, false},
						  {"mode", TW_ATTR_STRING, false},
						  {"output_height", TW_ATTR_INT, false},
						  {"output_width", TW_ATTR_INT, false},
						  {"sampling_ratio", TW_ATTR_INT, false},
						  {"spatial_scale", TW_ATTR_FLOAT, false},
						  {NULL}};
static const struct tw_attr_spec attrs1[] = {{"axis", TW_ATTR_INT, false}, {"k", TW_ATTR_INT, true}, {NULL}};
static const struct tw_attr_spec attrs10[] = {{"axis", TW_ATTR_INT, false}, {NULL}};
static const struct tw_attr_spec attrs11[] = {
	{"axis", TW_ATTR_INT, false}, {"largest", TW_ATTR_INT, false}, {"sorted", TW_ATTR_INT, false}, {NULL}};

static const struct tw_attr_spec attrs_axis[] = {{"axis", TW_ATTR_INT, false}, {NULL}};
static const struct tw_attr_spec attrs_unique[] = {
	{"axis", TW_ATTR_INT, false}, {"sorted", TW_ATTR_INT, false}, {NULL}};
static const struct tw_attr_spec attrs_nms[] = {{"center_point_box", TW_ATTR_INT, false}, {NULL}};

#define HOST(fn) .flags = TW_OP_HOST, .infer = infer_##fn

const struct tw_op tw_ops_hosted[] = {
	{.name = "TopK", .since = 1, .until = 9, .in = {1, 1}, .out = {1, 2}, .attrs = attrs1, HOST(topk)},
	{.name = "TopK", .since = 10, .until = 10, .in = {2, 2}, .out = {1, 2}, .attrs = attrs10, HOST(topk)},
	{.name = "TopK", .since = 11, .in = {2, 2}, .out = {1, 2}, .attrs = attrs11, HOST(topk)},
	{.name = "NonZero", .since = 9, .in = {1, 1}, .out = {1, 1}, HOST(nonzero)},
	{.name = "Compress", .since = 9, .in = {2, 2}, .out = {1, 1}, .attrs = attrs_axis, HOST(compress)},
	{.name = "Unique", .since = 11, .in = {1, 1}, .out = {1, 4}, .attrs = attrs_unique, HOST(unique)},
	{.name = "NonMaxSuppression", .since = 10, .in = {2, 5}, .out = {1, 1}, .attrs = attrs_nms, HOST(nms)},
	{.name = "RoiAlign",
	 .since = 10,
	 .until = 15,
	 .in = {3, 3},
	 .out = {1, 1},
	 .attrs = attrs_roi10,
	 HOST(roi_align)},
	{.name = "RoiAlign", .since = 16, .in = {3, 3}, .out = {1, 1}, .attrs = attrs_roi16, HOST(roi_align)},
	{0},
};
