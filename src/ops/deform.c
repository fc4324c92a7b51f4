/* deform.c: DeformConv over two spatial axes: a convolution whose window's elements are moved by offsets, perhaps
 * weighted by a mask.
 *
 * Stages: the moved elements as a matrix, each by linear interpolation between its four neighbours (zero outside), the
 * weights as a matrix, their product, the output with its bias. */
#include "ops/elementwise.h"
#include "ops/window.h"

#include <inttypes.h>

typedef const struct twir_expr *E;

enum { X, WEIGHT, OFFSET, BIAS, MASK };

struct deform {
	struct tw_window w;
	int64_t group, offset_group, mg, cg; /* output and input channels of one group */
	int64_t channels;
};

static int64_t constant_dim(struct tw_opctx *x, int i, int d)
{
	int64_t v;
	if (!twir_const_int(tw_in_dim(x, i, d), &v))
		tw_op_fail(x, TW_ERR_UNSUPPORTED, "weights of a shape that is not known when the model is compiled");
	return v;
}

static void read_deform(struct tw_opctx *x, struct deform *f)
{
	if (tw_in_rank(x, X) != 4 || tw_in_rank(x, WEIGHT) != 4 || tw_in_rank(x, OFFSET) != 4)
		tw_op_fail(x, TW_ERR_UNSUPPORTED,
			   "input, weights and offsets of rank %d, %d and %d; only 4 is supported", tw_in_rank(x, X),
			   tw_in_rank(x, WEIGHT), tw_in_rank(x, OFFSET));
	const int64_t kernel[] = {constant_dim(x, WEIGHT, 2), constant_dim(x, WEIGHT, 3)};
	const int64_t out = constant_dim(x, WEIGHT, 0);
	*f = (struct deform){.group = tw_attr_int(x->node, "group", 1),
			     .offset_group = tw_attr_int(x->node, "offset_group", 1),
			     .cg = constant_dim(x, WEIGHT, 1)};
	if (f->group < 1 || out % f->group || f->cg > (1 << 30) / f->group)
		tw_op_fail(x, TW_ERR_MODEL, "group = %" PRId64 " does not divide %" PRId64 " channels", f->group, out);
	f->mg = out / f->group;
	f->channels = f->cg * f->group;
	if (f->offset_group < 1 || f->channels % f->offset_group)
		tw_op_fail(x, TW_ERR_MODEL, "offset_group = %" PRId64 " does not divide %" PRId64 " channels",
			   f->offset_group, f->channels);
	tw_window_read(x, &f->w, kernel, false);
}

static void infer(struct tw_opctx *x)
{
	struct deform f;
	tw_need_type(x, X, "float");
	tw_need_same_type(x, X, x->node->nin - 1);
	read_deform(x, &f);
	const int64_t places = f.offset_group * f.w.kernel[0] * f.w.kernel[1];
	tw_same_size(x, tw_in_dim(x, X, 1), twir_index(x->m, f.channels), "input channels and weights");
	for (int i = OFFSET; i <= MASK; i += MASK - OFFSET) {
		if (!tw_has_in(x, i))
			continue;
		if (tw_in_rank(x, i) != 4)
			tw_op_fail(x, TW_ERR_MODEL, "a mask of rank %d; it must be 4", tw_in_rank(x, i));
		tw_same_size(x, tw_in_dim(x, i, 0), tw_in_dim(x, X, 0), "batch sizes");
		tw_same_size(x, tw_in_dim(x, i, 1), twir_index(x->m, i == OFFSET ? 2 * places : places),
			     i == OFFSET ? "channels of the offsets" : "channels of the mask");
		for (int d = 0; d < 2; d++)
			tw_same_size(x, tw_in_dim(x, i, 2 + d), f.w.out[d], "sizes of offsets and output");
	}
	const E shape[] = {tw_in_dim(x, X, 0), twir_index(x->m, f.mg * f.group), f.w.out[0], f.w.out[1]};
	if (tw_has_in(x, BIAS) && tw_in_rank(x, BIAS) != 1)
		tw_op_fail(x, TW_ERR_MODEL, "bias of rank %d; it must be 1", tw_in_rank(x, BIAS));
	if (tw_has_in(x, BIAS))
		tw_same_size(x, tw_in_dim(x, BIAS, 0), shape[1], "bias and output channels");
	tw_set_out(x, 0, tw_in_type(x, X), 4, shape);
}

/* The input's element at row, column: floats; linear between neighbours */
static E interpolated(struct tw_opctx *x, const struct deform *f, E n, E channel, E const *place)
{
	struct twir_module *m = x->m;
	E low[2], part[2], sum = NULL;
	for (int d = 0; d < 2; d++) {
		low[d] = twir_unary(m, TWIR_Floor, place[d]);
		part[d] = twir_sub(m, place[d], low[d]);
	}
	for (int corner = 0; corner < 4; corner++) {
		E at[] = {n, channel, NULL, NULL}, weight = NULL, inside = NULL;
		for (int d = 0; d < 2; d++) {
			const int high = d ? corner & 1 : corner >> 1;
			const E index = twir_cast(m, TWIR_I64, low[d]);
			at[2 + d] = twir_add(m, twir_cast(m, TWIR_INDEX, index), twir_index(m, high));
			const E share = high ? part[d] : twir_sub(m, tw_like(x, part[d], 1), part[d]);
			weight = weight ? twir_mul(m, weight, share) : share;
			tw_both(x, &inside, twir_le(m, twir_index(m, 0), at[2 + d]));
			tw_both(x, &inside, twir_lt(m, at[2 + d], f->w.in[d]));
		}
		const E v = tw_load(x, tw_x(x, X), 4, at);
		const E term = twir_mul(m, weight, twir_cond(m, inside, v, tw_like(x, v, 0)));
		sum = sum ? twir_add(m, sum, term) : term;
	}
	return sum;
}

/* (batch, group, channel * window, output pixels) */
static struct twir_tensor *moved(struct tw_opctx *x, const struct deform *f, enum twir_scalar type)
{
	struct twir_module *m = x->m;
	const int64_t window = f->w.kernel[0] * f->w.kernel[1];
	const E shape[] = {tw_in_dim(x, X, 0), twir_index(m, f->group), twir_index(m, f->cg * window),
			   twir_mul(m, f->w.out[0], f->w.out[1])};
	struct twir_tensor *t = tw_temp(x, "moved", type, 4, shape);
	E *i, place[2];
	struct twir_var **axes = tw_axes(x, t, &i);
	const E w = twir_index(m, window), k = twir_mod(m, i[2], w);
	const E channel = twir_add(m, twir_mul(m, i[1], twir_index(m, f->cg)), twir_div(m, i[2], w));
	const E owner = twir_div(m, channel, twir_index(m, f->channels / f->offset_group));
	const E at_k = twir_add(m, twir_mul(m, owner, w), k); /* window element of the offset group */
	const E columns = twir_index(m, f->w.kernel[1]);
	const E ks[] = {twir_div(m, k, columns), twir_mod(m, k, columns)};
	const E out[] = {twir_div(m, i[3], f->w.out[1]), twir_mod(m, i[3], f->w.out[1])};
	for (int d = 0; d < 2; d++) {
		const E from[] = {i[0], twir_add(m, twir_mul(m, at_k, twir_index(m, 2)), twir_index(m, d)), out[0],
				  out[1]};
		const E offset = tw_load(x, tw_x(x, OFFSET), 4, from);
		E start = twir_sub(m, twir_mul(m, out[d], twir_index(m, f->w.stride[d])), f->w.begin[d]);
		start = twir_add(m, start, twir_mul(m, ks[d], twir_index(m, f->w.dilation[d])));
		place[d] = twir_add(m, twir_cast(m, type, start), offset);
	}
	E v = interpolated(x, f, i[0], channel, place);
	if (tw_has_in(x, MASK)) {
		const E from[] = {i[0], at_k, out[0], out[1]};
		v = twir_mul(m, v, tw_load(x, tw_x(x, MASK), 4, from));
	}
	tw_define(x, t, axes, v);
	return t;
}

static struct twir_tensor *weights(struct tw_opctx *x, const struct deform *f, enum twir_scalar type)
{
	struct twir_module *m = x->m;
	const int64_t window = f->w.kernel[0] * f->w.kernel[1];
	const E shape[] = {twir_index(m, f->group), twir_index(m, f->mg), twir_index(m, f->cg * window)};
	struct twir_tensor *t = tw_temp(x, "weights", type, 3, shape);
	E *i, at[4];
	struct twir_var **axes = tw_axes(x, t, &i);
	tw_reindex(x, 3, shape, i, 4, tw_x(x, WEIGHT)->shape, at);
	tw_define(x, t, axes, tw_load(x, tw_x(x, WEIGHT), 4, at));
	return t;
}

static void compute(struct tw_opctx *x)
{
	struct twir_module *m = x->m;
	struct deform f;
	read_deform(x, &f);
	const enum twir_scalar type = tw_compute_type(tw_in_type(x, X));
	struct twir_tensor *a = weights(x, &f, type), *b = moved(x, &f, type);
	const E shape[] = {b->shape[0], a->shape[0], a->shape[1], b->shape[3]};
	struct twir_tensor *c = tw_temp(x, "products", type, 4, shape), *y = tw_y(x, 0);
	E *i, at[4];
	struct twir_var **axes = tw_axes(x, c, &i), *k = tw_fold_axis(x, "k", a->shape[2]);
	const E left[] = {i[1], i[2], twir_var(m, k)}, right[] = {i[0], i[1], twir_var(m, k), i[3]};
	tw_define(x, c, axes,
		  twir_fold(m, TWIR_Add, 1, &k, &a->shape[2],
			    twir_mul(m, tw_load(x, a, 3, left), tw_load(x, b, 4, right))));
	axes = tw_axes(x, y, &i);
	tw_reindex(x, 4, y->shape, i, 4, shape, at);
	E v = tw_load(x, c, 4, at);
	if (tw_has_in(x, BIAS))
		v = twir_add(m, v, tw_load(x, tw_x(x, BIAS), 1, &i[1]));
	tw_define(x, y, axes, v);
}

static const struct tw_attr_spec attrs[] = {{"dilations", TW_ATTR_INTS, false},
					    {"group", TW_ATTR_INT, false},
					    {"kernel_shape", TW_ATTR_INTS, false},
					    {"offset_group", TW_ATTR_INT, false},
					    {"pads", TW_ATTR_INTS, false},
					    {"strides", TW_ATTR_INTS, false},
					    {NULL}};

const struct tw_op tw_ops_deform[] = {
	{.name = "DeformConv",
	 .since = 19,
	 .in = {3, 5},
	 .out = {1, 1},
	 .attrs = attrs,
	 .infer = infer,
	 .compute = compute},
	{0},
};
