/* arrange.c: CenterCropPad, Col2Im, TensorScatter, MaxUnpool, RotaryEmbedding. */
#include "ops/elementwise.h"
#include "ops/window.h"

#include <inttypes.h>

typedef const struct twir_expr *E;

static E zero_of(struct tw_opctx *x, E v)
{
	return v->type.scalar == TWIR_I1 ? twir_bool(x->m, false) : tw_like(x, v, 0);
}

/* ---- CenterCropPad */

static void crop_shape(struct tw_opctx *x, E *shape)
{
	E const *values;
	const int64_t *axes;
	const int rank = tw_in_rank(x, 0), n = tw_in_values(x, 1, &values), na = tw_attr_ints(x->node, "axes", &axes);
	if (n < 0)
		tw_op_fail(x, TW_ERR_UNSUPPORTED, "a shape that only data decides");
	if (n != (na < 0 ? rank : na))
		tw_op_fail(x, TW_ERR_MODEL, "%d sizes for %d axes", n, na < 0 ? rank : na);
	for (int d = 0; d < rank; d++)
		shape[d] = tw_in_dim(x, 0, d);
	for (int k = 0; k < n; k++)
		shape[na < 0 ? k : tw_axis(x, axes[k], rank)] = values[k];
}

static void infer_crop(struct tw_opctx *x)
{
	E shape[TWIR_MAX_RANK];
	tw_need_type(x, 1, "index");
	crop_shape(x, shape);
	tw_set_out(x, 0, tw_in_type(x, 0), tw_in_rank(x, 0), shape);
}

static void compute_crop(struct tw_opctx *x)
{
	struct twir_module *m = x->m;
	struct twir_tensor *y = tw_y(x, 0), *t = tw_x(x, 0);
	E *i, at[TWIR_MAX_RANK], inside = NULL;
	struct twir_var **axes = tw_axes(x, y, &i);
	for (int d = 0; d < y->rank; d++) {
		at[d] = i[d];
		if (y->shape[d] == t->shape[d])
			continue;
		/* Both halves round down: the crop starts early, the padding is shorter before. */
		const E two = twir_index(m, 2), zero = twir_index(m, 0);
		const E crop = twir_div(m, twir_max(m, twir_sub(m, t->shape[d], y->shape[d]), zero), two);
		const E pad = twir_div(m, twir_max(m, twir_sub(m, y->shape[d], t->shape[d]), zero), two);
		at[d] = tw_simplify(x, twir_sub(m, twir_add(m, i[d], crop), pad));
		tw_both(x, &inside, twir_le(m, zero, at[d]));
		tw_both(x, &inside, twir_lt(m, at[d], t->shape[d]));
	}
	const E v = tw_load(x, t, t->rank, at);
	tw_define(x, y, axes, tw_where_inside(x, inside, v, zero_of(x, v)));
}

/* ---- Col2Im: each pixel is the sum of the columns' elements that came from it */

struct columns {
	struct tw_window w; /* out: how many blocks along each axis */
};

static void read_columns(struct tw_opctx *x, struct columns *c)
{
	struct tw_window *w = &c->w;
	const int64_t *image, *block, *pads, *strides, *dilations;
	w->n = tw_in_consts(x, 1, &image);
	if (w->n < 1 || w->n > TW_MAX_SPATIAL || tw_in_consts(x, 2, &block) != w->n || tw_in_rank(x, 0) != 3)
		tw_op_fail(x, TW_ERR_UNSUPPORTED,
			   "image_shape and block_shape must be known and of one length, the input of rank 3");
	const int np = tw_attr_ints(x->node, "pads", &pads), ns = tw_attr_ints(x->node, "strides", &strides);
	const int nd = tw_attr_ints(x->node, "dilations", &dilations);
	if ((np >= 0 && np != 2 * w->n) || (ns >= 0 && ns != w->n) || (nd >= 0 && nd != w->n))
		tw_op_fail(x, TW_ERR_MODEL, "pads, strides or dilations have the wrong length");
	for (int d = 0; d < w->n; d++) {
		const int64_t begin = np < 0 ? 0 : pads[d], end = np < 0 ? 0 : pads[w->n + d];
		w->stride[d] = ns < 0 ? 1 : strides[d];
		w->dilation[d] = nd < 0 ? 1 : dilations[d];
		w->kernel[d] = block[d];
		if (w->stride[d] < 1 || w->dilation[d] < 1 || block[d] < 1 || image[d] < 0 || begin < 0 || end < 0)
			tw_op_fail(x, TW_ERR_MODEL, "axis %d has a size that is not positive", d);
		const int64_t room = image[d] + begin + end - ((block[d] - 1) * w->dilation[d] + 1);
		w->in[d] = twir_index(x->m, image[d]);
		w->begin[d] = twir_index(x->m, begin);
		w->out[d] = twir_index(x->m, room < 0 ? 0 : room / w->stride[d] + 1);
	}
}

static void infer_columns(struct tw_opctx *x)
{
	struct columns c = {0};
	E kernel = twir_index(x->m, 1), shape[TWIR_MAX_RANK];
	read_columns(x, &c);
	for (int d = 0; d < c.w.n; d++)
		kernel = twir_mul(x->m, kernel, twir_index(x->m, c.w.kernel[d]));
	shape[0] = tw_in_dim(x, 0, 0);
	shape[1] = tw_simplify(x, twir_div(x->m, tw_in_dim(x, 0, 1), kernel));
	tw_same_size(x, twir_mul(x->m, shape[1], kernel), tw_in_dim(x, 0, 1), "channels of whole blocks");
	tw_same_size(x, tw_product(x, c.w.n, c.w.out), tw_in_dim(x, 0, 2), "blocks of the image and columns");
	for (int d = 0; d < c.w.n; d++)
		shape[2 + d] = c.w.in[d];
	tw_need_type(x, 0, "numeric");
	tw_set_out(x, 0, tw_in_type(x, 0), 2 + c.w.n, shape);
}

static void compute_columns(struct tw_opctx *x)
{
	struct twir_module *m = x->m;
	struct columns c = {0};
	read_columns(x, &c);
	const struct tw_window *w = &c.w;
	struct twir_tensor *y = tw_y(x, 0), *t = tw_x(x, 0);
	E *i, extent[TWIR_MAX_RANK], tap[TWIR_MAX_RANK], block[TWIR_MAX_RANK], inside = NULL;
	struct twir_var **axes = tw_axes(x, y, &i), *fold[TW_MAX_SPATIAL];
	extent[0] = y->shape[1];
	tap[0] = i[1];
	for (int d = 0; d < w->n; d++) {
		extent[1 + d] = twir_index(m, w->kernel[d]);
		fold[d] = tw_fold_axis(x, "k", extent[1 + d]);
		tap[1 + d] = twir_var(m, fold[d]);
		const E at = twir_sub(m, twir_add(m, i[2 + d], w->begin[d]),
				      twir_mul(m, tap[1 + d], twir_index(m, w->dilation[d])));
		const E stride = twir_index(m, w->stride[d]);
		block[d] = twir_div(m, at, stride);
		tw_both(x, &inside, twir_le(m, twir_index(m, 0), at));
		tw_both(x, &inside, twir_eq(m, twir_mod(m, at, stride), twir_index(m, 0)));
		tw_both(x, &inside, twir_lt(m, block[d], w->out[d]));
	}
	const E at[] = {i[0], tw_flatten(x, 1 + w->n, extent, tap), tw_flatten(x, w->n, w->out, block)};
	const E v = tw_load(x, t, 3, at);
	tw_define(x, y, axes,
		  twir_fold(m, TWIR_Add, w->n, fold, extent + 1, tw_where_inside(x, inside, v, tw_like(x, v, 0))));
}

/* ---- TensorScatter: new entries written into a cache, at an index of each batch element */

static int cache_axis(struct tw_opctx *x)
{
	const int axis = tw_axis(x, tw_attr_int(x->node, "axis", -2), tw_in_rank(x, 0));
	if (axis == 0)
		tw_op_fail(x, TW_ERR_MODEL, "axis 0 is the batch");
	return axis;
}

static bool circular(struct tw_opctx *x)
{
	const char *mode = tw_attr_string(x->node, "mode", "linear");
	if (strcmp(mode, "linear") && strcmp(mode, "circular"))
		tw_op_fail(x, TW_ERR_MODEL, "mode = '%s' is not known", mode);
	return !strcmp(mode, "circular");
}

static void infer_cache(struct tw_opctx *x)
{
	const int axis = cache_axis(x), rank = tw_in_rank(x, 0);
	circular(x);
	tw_need_same_type(x, 0, 1);
	if (tw_in_rank(x, 1) != rank)
		tw_op_fail(x, TW_ERR_MODEL, "cache and update of rank %d and %d", rank, tw_in_rank(x, 1));
	for (int d = 0; d < rank; d++)
		if (d != axis)
			tw_same_size(x, tw_in_dim(x, 0, d), tw_in_dim(x, 1, d), "cache and update");
	if (tw_has_in(x, 2)) {
		tw_need_type(x, 2, "i64");
		if (tw_in_rank(x, 2) != 1)
			tw_op_fail(x, TW_ERR_MODEL, "write_indices of rank %d", tw_in_rank(x, 2));
		tw_same_size(x, tw_in_dim(x, 2, 0), tw_in_dim(x, 0, 0), "write indices and batch");
	}
	tw_infer_same(x);
}

static void compute_cache(struct tw_opctx *x)
{
	struct twir_module *m = x->m;
	struct twir_tensor *y = tw_y(x, 0), *update = tw_x(x, 1);
	const int axis = cache_axis(x);
	E *i, at[TWIR_MAX_RANK];
	struct twir_var **axes = tw_axes(x, y, &i);
	const E start = tw_has_in(x, 2) ? twir_cast(m, TWIR_INDEX, tw_load(x, tw_x(x, 2), 1, i)) : twir_index(m, 0);
	for (int d = 0; d < y->rank; d++)
		at[d] = i[d];
	at[axis] = twir_sub(m, i[axis], start);
	if (circular(x))
		at[axis] = twir_mod(m, at[axis], y->shape[axis]);
	const E fresh = twir_and(m, twir_le(m, twir_index(m, 0), at[axis]), twir_lt(m, at[axis], update->shape[axis]));
	tw_define(x, y, axes, twir_cond(m, fresh, tw_load(x, update, y->rank, at), tw_load(x, tw_x(x, 0), y->rank, i)));
}

/* ---- MaxUnpool: the inverse of MaxPool with indices; among several writers of an element the last wins */

static void infer_unpool(struct tw_opctx *x)
{
	struct tw_window w = {0};
	const int64_t *pads, *shape;
	const int rank = tw_in_rank(x, 0);
	tw_need_type(x, 0, "float");
	tw_need_type(x, 1, "i64");
	tw_window_numbers(x, &w, NULL);
	const int np = tw_attr_ints(x->node, "pads", &pads);
	if (tw_in_rank(x, 1) != rank || (np >= 0 && np != 2 * w.n))
		tw_op_fail(x, TW_ERR_MODEL, "indices of rank %d, %d pads", tw_in_rank(x, 1), np);
	E out[TWIR_MAX_RANK] = {tw_in_dim(x, 0, 0), tw_in_dim(x, 0, 1)};
	const bool given = tw_has_in(x, 2);
	const int n = given ? tw_in_consts(x, 2, &shape) : 0;
	if (given && n != rank)
		tw_op_fail(x, n < 0 ? TW_ERR_UNSUPPORTED : TW_ERR_MODEL, "output_shape must be known, with %d sizes",
			   rank);
	for (int d = 0; d < w.n; d++) {
		const int64_t pad = np < 0 ? 0 : pads[d] + pads[w.n + d];
		const E steps =
			twir_mul(x->m, twir_sub(x->m, w.in[d], twir_index(x->m, 1)), twir_index(x->m, w.stride[d]));
		out[2 + d] = given ? twir_index(x->m, shape[2 + d])
				   : twir_add(x->m, steps, twir_index(x->m, w.kernel[d] - pad));
	}
	tw_set_out(x, 0, tw_in_type(x, 0), rank, out);
}

static void compute_unpool(struct tw_opctx *x)
{
	struct twir_module *m = x->m;
	struct tw_window w = {0};
	const int64_t *pads;
	struct twir_tensor *y = tw_y(x, 0), *t = tw_x(x, 0), *indices = tw_x(x, 1);
	tw_window_numbers(x, &w, NULL);
	const int np = tw_attr_ints(x->node, "pads", &pads);
	/* Indices count in the tensor that was pooled: the output without output_shape. */
	E pooled[TWIR_MAX_RANK] = {y->shape[0], y->shape[1]}, *i, at[TWIR_MAX_RANK], extent[TWIR_MAX_RANK],
	  inside = NULL;
	for (int d = 0; d < w.n; d++) {
		const E steps = twir_mul(m, twir_sub(m, w.in[d], twir_index(m, 1)), twir_index(m, w.stride[d]));
		pooled[2 + d] = twir_add(m, steps, twir_index(m, w.kernel[d] - (np < 0 ? 0 : pads[d] + pads[w.n + d])));
	}
	struct twir_var *fold[TWIR_MAX_RANK], **axes = tw_axes(x, y, &i);
	at[0] = i[0];
	at[1] = i[1];
	for (int d = 0; d < w.n; d++) {
		extent[d] = t->shape[2 + d];
		fold[d] = tw_fold_axis(x, "k", extent[d]);
		at[2 + d] = twir_var(m, fold[d]);
	}
	for (int d = 2; d < y->rank; d++)
		if (tw_simplify(x, pooled[d]) != y->shape[d])
			tw_both(x, &inside, twir_lt(m, i[d], pooled[d]));
	const E index = twir_cast(m, TWIR_INDEX, tw_load(x, indices, y->rank, at)), none = twir_index(m, -1);
	const E place = tw_flatten(x, w.n, t->shape + 2, at + 2);
	E hit = twir_eq(m, index, tw_flatten(x, y->rank, pooled, i));
	if (inside)
		hit = twir_and(m, inside, hit);
	struct twir_tensor *last = tw_temp(x, "last", TWIR_INDEX, y->rank, y->shape);
	tw_define(x, last, axes, twir_fold(m, TWIR_Max, w.n, fold, extent, twir_select(m, hit, place, none)));
	axes = tw_axes(x, y, &i);
	const E which = tw_load(x, last, y->rank, i);
	at[0] = i[0];
	at[1] = i[1];
	tw_unflatten(x, which, w.n, t->shape + 2, at + 2);
	const E v = tw_load(x, t, t->rank, at);
	tw_define(x, y, axes, twir_cond(m, twir_le(m, twir_index(m, 0), which), v, tw_like(x, v, 0)));
}

/* ---- RotaryEmbedding */

struct rotary {
	bool flat, interleaved;
	int64_t heads, size, turned; /* of a head; how much of it is turned */
};

static void read_rotary(struct tw_opctx *x, struct rotary *r)
{
	const int rank = tw_in_rank(x, 0);
	if (rank != 3 && rank != 4)
		tw_op_fail(x, TW_ERR_MODEL, "input of rank %d", rank);
	*r = (struct rotary){.flat = rank == 3, .interleaved = tw_attr_int(x->node, "interleaved", 0) != 0};
	r->heads = tw_attr_int(x->node, "num_heads", 0);
	if (!twir_const_int(tw_in_dim(x, 0, -1), &r->size))
		tw_op_fail(x, TW_ERR_UNSUPPORTED, "hidden size must be known when the model is compiled");
	if (r->flat && (r->heads < 1 || r->size % r->heads))
		tw_op_fail(x, TW_ERR_MODEL, "num_heads = %" PRId64 " for a hidden size of %" PRId64, r->heads, r->size);
	r->size = r->flat ? r->size / r->heads : r->size;
	r->turned = tw_attr_int(x->node, "rotary_embedding_dim", 0);
	r->turned = r->turned ? r->turned : r->size;
	if (r->turned < 2 || r->turned % 2 || r->turned > r->size)
		tw_op_fail(x, TW_ERR_MODEL, "rotary_embedding_dim = %" PRId64 " of a head of %" PRId64, r->turned,
			   r->size);
}

static void infer_rotary(struct tw_opctx *x)
{
	struct rotary r;
	tw_need_type(x, 0, "float");
	tw_need_same_type(x, 0, 2);
	read_rotary(x, &r);
	for (int k = 1; k < 3; k++) {
		if (tw_in_rank(x, k) != (tw_has_in(x, 3) ? 2 : 3))
			tw_op_fail(x, TW_ERR_MODEL, "cache of rank %d", tw_in_rank(x, k));
		tw_same_size(x, tw_in_dim(x, k, -1), twir_index(x->m, r.turned / 2),
			     "cache and half of the turned part");
	}
	if (tw_has_in(x, 3)) {
		tw_need_type(x, 3, "i64");
		if (tw_in_rank(x, 3) != 2)
			tw_op_fail(x, TW_ERR_MODEL, "position_ids of rank %d", tw_in_rank(x, 3));
	}
	tw_infer_same(x);
}

static E cached(struct tw_opctx *x, int input, E batch, E position, E place)
{
	struct twir_tensor *t = tw_x(x, input);
	if (!tw_has_in(x, 3)) {
		const E at[] = {batch, position, place};
		return tw_load(x, t, 3, at);
	}
	const E from[] = {batch, position};
	const E row = twir_cast(x->m, TWIR_INDEX, tw_load(x, tw_x(x, 3), 2, from)),
		last = twir_sub(x->m, t->shape[0], twir_index(x->m, 1));
	const E at[] = {twir_max(x->m, twir_index(x->m, 0), twir_min(x->m, row, last)), place};
	return tw_load(x, t, 2, at);
}

static void compute_rotary(struct tw_opctx *x)
{
	struct twir_module *m = x->m;
	struct rotary r;
	read_rotary(x, &r);
	struct twir_tensor *y = tw_y(x, 0), *t = tw_x(x, 0);
	E *i, at[TWIR_MAX_RANK];
	struct twir_var **axes = tw_axes(x, y, &i);
	const int last = y->rank - 1;
	const E size = twir_index(m, r.size), half = twir_index(m, r.turned / 2), two = twir_index(m, 2),
		one = twir_index(m, 1);
	const E d = r.flat ? twir_mod(m, i[last], size) : i[last], base = tw_simplify(x, twir_sub(m, i[last], d));
	const E position = r.flat ? i[1] : i[2];
	/* The pair (a, b) that the place belongs to, and whether it is its second. */
	const E second = r.interleaved ? twir_eq(m, twir_mod(m, d, two), one) : twir_le(m, half, d);
	const E pair = r.interleaved ? twir_div(m, d, two) : twir_mod(m, d, half);
	for (int k = 0; k < last; k++)
		at[k] = i[k];
	at[last] = twir_add(m, base, r.interleaved ? twir_mul(m, pair, two) : pair);
	const E a = tw_load(x, t, y->rank, at);
	at[last] = twir_add(m, at[last], r.interleaved ? one : half);
	const E b = tw_load(x, t, y->rank, at), c = cached(x, 1, i[0], position, pair),
		s = cached(x, 2, i[0], position, pair);
	const E real = twir_sub(m, twir_mul(m, c, a), twir_mul(m, s, b)),
		imaginary = twir_add(m, twir_mul(m, s, a), twir_mul(m, c, b));
	const E turned = twir_select(m, second, imaginary, real);
	tw_define(x, y, axes,
		  r.turned == r.size
			  ? turned
			  : twir_cond(m, twir_lt(m, d, twir_index(m, r.turned)), turned, tw_load(x, t, y->rank, i)));
}

#define INTS(NAME)                                                                                                     \
	{                                                                                                              \
		NAME, TW_ATTR_INTS, false                                                                              \
	}
#define INT(NAME)                                                                                                      \
	{                                                                                                              \
		NAME, TW_ATTR_INT, false                                                                               \
	}

static const struct tw_attr_spec attrs_axes[] = {INTS("axes"), {NULL}};
static const struct tw_attr_spec attrs_columns[] = {INTS("dilations"), INTS("pads"), INTS("strides"), {NULL}};
static const struct tw_attr_spec attrs_cache[] = {INT("axis"), {"mode", TW_ATTR_STRING, false}, {NULL}};
static const struct tw_attr_spec attrs_unpool[] = {
	{"kernel_shape", TW_ATTR_INTS, true}, INTS("pads"), INTS("strides"), {NULL}};
static const struct tw_attr_spec attrs_rotary[] = {
	INT("interleaved"), INT("num_heads"), INT("rotary_embedding_dim"), {NULL}};

#define FN(name) .infer = infer_##name, .compute = compute_##name

const struct tw_op tw_ops_arrange[] = {
	{.name = "CenterCropPad", .since = 18, .in = {2, 2}, .out = {1, 1}, .attrs = attrs_axes, FN(crop)},
	{.name = "Col2Im", .since = 18, .in = {3, 3}, .out = {1, 1}, .attrs = attrs_columns, FN(columns)},
	{.name = "TensorScatter", .since = 24, .in = {2, 3}, .out = {1, 1}, .attrs = attrs_cache, FN(cache)},
	{.name = "MaxUnpool", .since = 9, .in = {2, 3}, .out = {1, 1}, .attrs = attrs_unpool, FN(unpool)},
	{.name = "RotaryEmbedding", .since = 23, .in = {3, 4}, .out = {1, 1}, .attrs = attrs_rotary, FN(rotary)},
	{0},
};
