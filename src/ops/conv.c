/* conv.c: Conv.
 *
 * A convolution is a matmul of the weights with input windows: C'[n, g, m, p] = sum over taps and channels, then Y is
 * C' in the shape of the output, plus bias. Depthwise convolutions have no reuse over output channels: they are a
 * direct sum over the window. */
#include "ops/conv.h"
#include "ops/elementwise.h"

#include <inttypes.h>

typedef const struct twir_expr *E;

static int64_t constant_dim(struct tw_opctx *x, int i, int d)
{
	int64_t v;
	if (!twir_const_int(tw_in_dim(x, i, d), &v))
		tw_op_fail(x, TW_ERR_UNSUPPORTED, "weights of a shape that is not known when the model is compiled");
	return v;
}

void tw_conv_read(struct tw_opctx *x, struct tw_conv *c, bool transposed)
{
	const int rank = tw_in_rank(x, 0);
	if (rank < 3 || tw_in_rank(x, 1) != rank)
		tw_op_fail(x, TW_ERR_MODEL, "input of rank %d with weights of rank %d", rank, tw_in_rank(x, 1));
	c->group = tw_attr_int(x->node, "group", 1);
	const int64_t first = constant_dim(x, 1, 0), second = constant_dim(x, 1, 1);
	if (c->group < 1 || first % c->group)
		tw_op_fail(x, TW_ERR_MODEL, "group = %" PRId64 " does not divide %" PRId64 " channels", c->group,
			   first);
	c->mg = transposed ? second : first / c->group;
	c->cg = transposed ? first / c->group : second;
	int64_t kernel[TW_MAX_SPATIAL];
	for (int d = 0; d < rank - 2; d++)
		kernel[d] = constant_dim(x, 1, 2 + d);
	if (transposed)
		tw_window_numbers(x, &c->w, kernel);
	else
		tw_window_read(x, &c->w, kernel, false);
	tw_same_size(x, tw_in_dim(x, 0, 1), twir_index(x->m, c->cg * c->group), "input channels and weights");
}

void tw_conv_set_output(struct tw_opctx *x, const struct tw_conv *c)
{
	E shape[TWIR_MAX_RANK] = {tw_in_dim(x, 0, 0), twir_index(x->m, c->mg * c->group)};
	for (int d = 0; d < c->w.n; d++)
		shape[2 + d] = c->w.out[d];
	if (tw_has_in(x, 2)) {
		if (tw_in_rank(x, 2) != 1)
			tw_op_fail(x, TW_ERR_MODEL, "bias of rank %d", tw_in_rank(x, 2));
		tw_same_size(x, tw_in_dim(x, 2, 0), shape[1], "bias and output channels");
	}
	tw_set_out(x, 0, tw_in_type(x, 0), 2 + c->w.n, shape);
}

void tw_conv_check_types(struct tw_opctx *x)
{
	tw_need_type(x, 0, "float");
	tw_need_same_type(x, 0, x->node->nin - 1);
}

static void infer_conv(struct tw_opctx *x)
{
	struct tw_conv c = {0};
	tw_conv_check_types(x);
	tw_conv_read(x, &c, false);
	tw_conv_set_output(x, &c);
}

E tw_conv_add_bias(struct tw_opctx *x, E value, E channel)
{
	return tw_has_in(x, 2) ? twir_add(x->m, value, tw_load(x, tw_x(x, 2), 1, &channel)) : value;
}

/* Sum over the window, one input channel for each output channel. */
static void direct(struct tw_opctx *x, const struct tw_conv *c)
{
	const struct tw_window *w = &c->w;
	struct twir_tensor *y = tw_y(x, 0);
	E *i, inside = NULL, at[TWIR_MAX_RANK], tap[TWIR_MAX_RANK], extent[TW_MAX_SPATIAL];
	struct twir_var **axes = tw_axes(x, y, &i), *fold[TW_MAX_SPATIAL];
	at[0] = i[0];
	at[1] = tw_simplify(x, twir_div(x->m, i[1], twir_index(x->m, c->mg)));
	tap[0] = i[1];
	tap[1] = twir_index(x->m, 0);
	for (int d = 0; d < w->n; d++) {
		extent[d] = twir_index(x->m, w->kernel[d]);
		fold[d] = tw_fold_axis(x, "k", extent[d]);
		tap[2 + d] = twir_var(x->m, fold[d]);
		at[2 + d] = tw_window_at(x, w, d, i[2 + d], tap[2 + d], &inside);
	}
	E value = tw_load(x, tw_x(x, 0), 2 + w->n, at);
	value = tw_where_inside(x, inside, value, tw_like(x, value, 0));
	const E product = twir_mul(x->m, value, tw_load(x, c->weights, 2 + w->n, tap));
	tw_define(x, y, axes, tw_conv_add_bias(x, twir_fold(x->m, TWIR_Add, w->n, fold, extent, product), i[1]));
}

void tw_conv_make_product(struct tw_opctx *x, const struct tw_conv *c, E rows, E pixels, struct tw_conv_product *p)
{
	const E n = tw_in_dim(x, 0, 0), g = twir_index(x->m, c->group);
	const E y[] = {n, g, rows, pixels}, y1[] = {n, rows, pixels};
	p->grouped = c->group > 1;
	p->c = tw_temp(x, "product", tw_compute_type(tw_in_type(x, 0)), p->grouped ? 4 : 3, p->grouped ? y : y1);
}

/* The element of C' for output channel f (row = f of one group, `rest` after it) and pixel p. */
E tw_conv_load_product(struct tw_opctx *x, const struct tw_conv_product *p, E n, E group, E row, E pixel)
{
	const E at[] = {n, group, row, pixel}, at1[] = {n, row, pixel};
	return tw_load(x, p->c, p->c->rank, p->grouped ? at : at1);
}

E tw_conv_channel(struct tw_opctx *x, const struct tw_conv *c, E group, E inner, int64_t size)
{
	return c->group > 1 ? twir_add(x->m, twir_mul(x->m, group, twir_index(x->m, size)), inner) : inner;
}

/* C'[n, (g), i, p] = sum over the taps and the input channels of a group; channels run fastest, as they lie where feature maps lie channels last. */
static void define_windows(struct tw_opctx *x, const struct tw_conv *c, const struct tw_conv_product *p)
{
	const struct tw_window *w = &c->w;
	struct twir_module *m = x->m;
	E *i, pixel[TWIR_MAX_RANK];
	struct tw_taps t;
	struct twir_var **axes = tw_axes(x, p->c, &i);
	const E row = i[p->grouped + 1];
	tw_unflatten(x, i[p->grouped + 2], w->n, w->out, pixel);
	tw_window_taps(x, w, pixel, c->cg, &t);
	t.tap[0] = tw_conv_channel(x, c, i[1], row, c->mg);
	t.at[0] = i[0];
	t.at[1] = tw_conv_channel(x, c, i[1], t.tap[1], c->cg);
	E value = tw_load(x, tw_x(x, 0), 2 + w->n, t.at);
	value = tw_where_inside(x, t.inside, value, tw_like(x, value, 0));
	const E product = twir_mul(m, tw_load(x, c->weights, 2 + w->n, t.tap), value);
	tw_define(x, p->c, axes, twir_fold(m, TWIR_Add, t.n, t.fold, t.extent, product));
}

static void implicit_matmul(struct tw_opctx *x, const struct tw_conv *c)
{
	const struct tw_window *w = &c->w;
	E *i;
	struct tw_conv_product p;
	tw_conv_make_product(x, c, twir_index(x->m, c->mg), tw_product(x, w->n, w->out), &p);
	define_windows(x, c, &p);
	struct twir_tensor *y = tw_y(x, 0);
	struct twir_var **axes = tw_axes(x, y, &i);
	const E mg = twir_index(x->m, c->mg);
	const E group = p.grouped ? twir_div(x->m, i[1], mg) : NULL, row = p.grouped ? twir_mod(x->m, i[1], mg) : i[1];
	const E sum = tw_conv_load_product(x, &p, i[0], group, row, tw_flatten(x, w->n, w->out, i + 2));
	tw_define(x, y, axes, tw_conv_add_bias(x, sum, i[1]));
}

/* The input with its padding, as far as windows reach. */
static struct twir_tensor *padded(struct tw_opctx *x, const struct tw_conv *c)
{
	const struct tw_window *w = &c->w;
	struct twir_module *m = x->m;
	E shape[TWIR_MAX_RANK] = {tw_in_dim(x, 0, 0), tw_in_dim(x, 0, 1)}, at[TWIR_MAX_RANK], *i, inside = NULL;
	for (int d = 0; d < w->n; d++) {
		const E last = twir_mul(m, twir_sub(m, w->out[d], twir_index(m, 1)), twir_index(m, w->stride[d]));
		const E reach = twir_add(m, last, twir_index(m, (w->kernel[d] - 1) * w->dilation[d] + 1));
		shape[2 + d] = tw_simplify(x, twir_max(m, reach, twir_index(m, 0)));
	}
	struct twir_tensor *t = tw_temp(x, "padded", tw_in_type(x, 0), 2 + w->n, shape);
	struct twir_var **axes = tw_axes(x, t, &i);
	at[0] = i[0];
	at[1] = i[1];
	for (int d = 0; d < w->n; d++) {
		at[2 + d] = tw_simplify(x, twir_sub(m, i[2 + d], w->begin[d]));
		if (w->may_start_before[d])
			tw_both(x, &inside, twir_le(m, w->begin[d], i[2 + d]));
		if (w->may_end_after[d])
			tw_both(x, &inside, twir_lt(m, at[2 + d], w->in[d]));
	}
	const E value = tw_load(x, tw_x(x, 0), 2 + w->n, at);
	tw_define(x, t, axes, tw_where_inside(x, inside, value, tw_like(x, value, 0)));
	return t;
}

enum {
	FEW_INPUTS = 4
}; /* channels that lanes cannot run over: windows are read where they are, one element at a time */

/* Y[n, m, pixel..] = sum over channels and taps, of a padded copy of the input: no guard and no quotient stands between a window and its elements. */
static void few_channels(struct tw_opctx *x, const struct tw_conv *c)
{
	const struct tw_window *w = &c->w;
	struct twir_module *m = x->m;
	bool pads = false;
	for (int d = 0; d < w->n; d++)
		pads = pads || w->may_start_before[d] || w->may_end_after[d];
	struct twir_tensor *from = pads ? padded(x, c) : tw_x(x, 0);
	struct twir_tensor *y = tw_y(x, 0);
	E *i, at[TWIR_MAX_RANK], tap[TWIR_MAX_RANK], extent[TWIR_MAX_RANK];
	struct twir_var **axes = tw_axes(x, y, &i), *fold[TWIR_MAX_RANK];
	int n = 1;
	extent[0] = twir_index(m, c->cg);
	fold[0] = tw_fold_axis(x, "c", extent[0]);
	at[0] = i[0];
	tap[0] = i[1];
	at[1] = tap[1] = twir_var(m, fold[0]);
	for (int d = 0; d < w->n; d++) {
		tap[2 + d] = twir_index(m, 0);
		if (w->kernel[d] > 1) {
			extent[n] = twir_index(m, w->kernel[d]);
			fold[n] = tw_fold_axis(x, "k", extent[n]);
			tap[2 + d] = twir_var(m, fold[n++]);
		}
		at[2 + d] = twir_add(m, twir_mul(m, i[2 + d], twir_index(m, w->stride[d])),
				     twir_mul(m, tap[2 + d], twir_index(m, w->dilation[d])));
	}
	const E product = twir_mul(m, tw_load(x, c->weights, 2 + w->n, tap), tw_load(x, from, 2 + w->n, at));
	tw_define(x, y, axes, tw_conv_add_bias(x, twir_fold(m, TWIR_Add, n, fold, extent, product), i[1]));
}

void tw_conv_sum(struct tw_opctx *x, const struct tw_conv *c)
{
	if (c->cg == 1 && c->group > 1 && c->mg <= 8)
		direct(x, c);
	else if (c->group == 1 && c->cg <= FEW_INPUTS)
		few_channels(x, c);
	else
		implicit_matmul(x, c);
}

static void compute_conv(struct tw_opctx *x)
{
	struct tw_conv c = {0};
	tw_conv_read(x, &c, false);
	c.weights = tw_x(x, 1);
	tw_conv_sum(x, &c);
}

static const struct tw_attr_spec attrs_conv[] = {TW_CONV_ATTRS, {NULL}};
const struct tw_op tw_ops_conv[] = {
	{.name = "Conv",
	 .since = 1,
	 .in = {2, 3},
	 .out = {1, 1},
	 .attrs = attrs_conv,
	 .flags = TW_OP_IMAGE,
	 .infer = infer_conv,
	 .compute = compute_conv},
	{0},
};
