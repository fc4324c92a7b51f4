/* conv.c: Conv and ConvTranspose.
 *
 * A convolution is a matmul of the weights with input windows: C'[n, g, m, p] = sum over taps and channels, then Y is
 * C' in the shape of the output, plus bias. Depthwise convolutions have no reuse over output channels: they are a
 * direct sum over the window. A transposed convolution is the matmul of input pixels first, then a gather of the few products that fall on an
 * output pixel. */
#include "ops/elementwise.h"
#include "ops/window.h"

#include <inttypes.h>

typedef const struct twir_expr *E;

struct conv {
	struct tw_window w;
	int64_t group, mg, cg; /* output and input channels of one group */
	bool transposed;
};

static int64_t constant_dim(struct tw_opctx *x, int i, int d)
{
	int64_t v;
	if (!twir_const_int(tw_in_dim(x, i, d), &v))
		tw_op_fail(x, TW_ERR_UNSUPPORTED, "weights of a shape that is not known when the model is compiled");
	return v;
}

static void read_conv(struct tw_opctx *x, struct conv *c, bool transposed)
{
	const int rank = tw_in_rank(x, 0);
	if (rank < 3 || tw_in_rank(x, 1) != rank)
		tw_op_fail(x, TW_ERR_MODEL, "input of rank %d with weights of rank %d", rank, tw_in_rank(x, 1));
	c->transposed = transposed;
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

static void set_output(struct tw_opctx *x, const struct conv *c)
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

static void check_types(struct tw_opctx *x)
{
	tw_need_type(x, 0, "float");
	tw_need_same_type(x, 0, x->node->nin - 1);
}

static void infer_conv(struct tw_opctx *x)
{
	struct conv c = {0};
	check_types(x);
	read_conv(x, &c, false);
	set_output(x, &c);
}

static E add_bias(struct tw_opctx *x, E value, E channel)
{
	return tw_has_in(x, 2) ? twir_add(x->m, value, tw_load(x, tw_x(x, 2), 1, &channel)) : value;
}

/* Sum over the window, one input channel for each output channel. */
static void direct(struct tw_opctx *x, const struct conv *c)
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
	const E product = twir_mul(x->m, value, tw_load(x, tw_x(x, 1), 2 + w->n, tap));
	tw_define(x, y, axes, add_bias(x, twir_fold(x->m, TWIR_Add, w->n, fold, extent, product), i[1]));
}

struct product { /* C'[n, (g), i, p] */
	struct twir_tensor *c;
	bool grouped;
};

static void make_product(struct tw_opctx *x, const struct conv *c, E rows, E pixels, struct product *p)
{
	const E n = tw_in_dim(x, 0, 0), g = twir_index(x->m, c->group);
	const E y[] = {n, g, rows, pixels}, y1[] = {n, rows, pixels};
	p->grouped = c->group > 1;
	p->c = tw_temp(x, "product", tw_compute_type(tw_in_type(x, 0)), p->grouped ? 4 : 3, p->grouped ? y : y1);
}

/* The element of C' for output channel f (row = f of one group, `rest` after it) and pixel p. */
static E load_product(struct tw_opctx *x, const struct product *p, E n, E group, E row, E pixel)
{
	const E at[] = {n, group, row, pixel}, at1[] = {n, row, pixel};
	return tw_load(x, p->c, p->c->rank, p->grouped ? at : at1);
}

static E channel_of(struct tw_opctx *x, const struct conv *c, E group, E inner, int64_t size)
{
	return c->group > 1 ? twir_add(x->m, twir_mul(x->m, group, twir_index(x->m, size)), inner) : inner;
}

/* C'[n, (g), i, p] = sum over the taps and the input channels of a group; channels run fastest, as they lie where feature maps lie channels last. */
static void define_windows(struct tw_opctx *x, const struct conv *c, const struct product *p)
{
	const struct tw_window *w = &c->w;
	struct twir_module *m = x->m;
	E *i, pixel[TWIR_MAX_RANK];
	struct tw_taps t;
	struct twir_var **axes = tw_axes(x, p->c, &i);
	const E row = i[p->grouped + 1];
	tw_unflatten(x, i[p->grouped + 2], w->n, w->out, pixel);
	tw_window_taps(x, w, pixel, c->cg, &t);
	t.tap[0] = channel_of(x, c, i[1], row, c->mg);
	t.at[0] = i[0];
	t.at[1] = channel_of(x, c, i[1], t.tap[1], c->cg);
	E value = tw_load(x, tw_x(x, 0), 2 + w->n, t.at);
	value = tw_where_inside(x, t.inside, value, tw_like(x, value, 0));
	const E product = twir_mul(m, tw_load(x, tw_x(x, 1), 2 + w->n, t.tap), value);
	tw_define(x, p->c, axes, twir_fold(m, TWIR_Add, t.n, t.fold, t.extent, product));
}

static void implicit_matmul(struct tw_opctx *x, const struct conv *c)
{
	const struct tw_window *w = &c->w;
	E *i;
	struct product p;
	make_product(x, c, twir_index(x->m, c->mg), tw_product(x, w->n, w->out), &p);
	define_windows(x, c, &p);
	struct twir_tensor *y = tw_y(x, 0);
	struct twir_var **axes = tw_axes(x, y, &i);
	const E mg = twir_index(x->m, c->mg);
	const E group = p.grouped ? twir_div(x->m, i[1], mg) : NULL, row = p.grouped ? twir_mod(x->m, i[1], mg) : i[1];
	const E sum = load_product(x, &p, i[0], group, row, tw_flatten(x, w->n, w->out, i + 2));
	tw_define(x, y, axes, add_bias(x, sum, i[1]));
}

/* The input with its padding, as far as windows reach. */
static struct twir_tensor *padded(struct tw_opctx *x, const struct conv *c)
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
static void few_channels(struct tw_opctx *x, const struct conv *c)
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
	const E product = twir_mul(m, tw_load(x, tw_x(x, 1), 2 + w->n, tap), tw_load(x, from, 2 + w->n, at));
	tw_define(x, y, axes, add_bias(x, twir_fold(m, TWIR_Add, n, fold, extent, product), i[1]));
}

static void compute_conv(struct tw_opctx *x)
{
	struct conv c = {0};
	read_conv(x, &c, false);
	if (c.cg == 1 && c.group > 1 && c.mg <= 8)
		direct(x, &c);
	else if (c.group == 1 && c.cg <= FEW_INPUTS)
		few_channels(x, &c);
	else
		implicit_matmul(x, &c);
}

/* ---- ConvTranspose */

static void transposed_sizes(struct tw_opctx *x, struct conv *c)
{
	struct twir_module *m = x->m;
	struct tw_window *w = &c->w;
	const int64_t *extra, *shape, *pads;
	const int nextra = tw_attr_ints(x->node, "output_padding", &extra);
	int nshape = tw_attr_ints(x->node, "output_shape", &shape);
	const int npads = tw_attr_ints(x->node, "pads", &pads);
	const char *pad = tw_attr_string(x->node, "auto_pad", "NOTSET");
	const bool upper = !strcmp(pad, "SAME_UPPER"), same = upper || !strcmp(pad, "SAME_LOWER");
	if (!same && strcmp(pad, "NOTSET") && strcmp(pad, "VALID") && *pad)
		tw_op_fail(x, TW_ERR_MODEL, "auto_pad = '%s' is not known", pad);
	if (nshape == w->n + 2) {
		shape += 2;
		nshape = w->n;
	}
	if ((nextra >= 0 && nextra != w->n) || (nshape >= 0 && nshape != w->n) || (npads >= 0 && npads != 2 * w->n))
		tw_op_fail(x, TW_ERR_MODEL, "output_padding, output_shape or pads have the wrong length");
	for (int d = 0; d < w->n; d++) {
		const int64_t more = nextra < 0 ? 0 : extra[d];
		if (more < 0 || more > 1 << 20 || (npads > 0 && (pads[d] < 0 || pads[w->n + d] < 0)))
			tw_op_fail(x, TW_ERR_MODEL, "negative output_padding or pads");
		const E stride = twir_index(m, w->stride[d]);
		const E full = twir_add(m, twir_mul(m, twir_sub(m, w->in[d], twir_index(m, 1)), stride),
					twir_index(m, more + (w->kernel[d] - 1) * w->dilation[d] + 1));
		if (nshape < 0 && !same) {
			const bool given = npads >= 0 && strcmp(pad, "VALID");
			w->begin[d] = twir_index(m, given ? pads[d] : 0);
			w->end[d] = twir_index(m, given ? pads[w->n + d] : 0);
			w->out[d] = tw_simplify(x, twir_sub(m, twir_sub(m, full, w->begin[d]), w->end[d]));
			continue;
		}
		w->out[d] = nshape >= 0 ? twir_index(m, shape[d]) : tw_simplify(x, twir_mul(m, w->in[d], stride));
		const E total = twir_max(m, twir_sub(m, full, w->out[d]), twir_index(m, 0));
		const E half = twir_div(m, total, twir_index(m, 2));
		w->begin[d] = tw_simplify(x, upper ? half : twir_sub(m, total, half));
		w->end[d] = tw_simplify(x, twir_sub(m, total, w->begin[d]));
	}
}

static void infer_transposed(struct tw_opctx *x)
{
	struct conv c = {0};
	check_types(x);
	read_conv(x, &c, true);
	transposed_sizes(x, &c);
	set_output(x, &c);
}

/* Along axis d: is a multiple of the stride that lands in the input left after kernel element k? Gives the input
   coordinate. */
static E source(struct tw_opctx *x, const struct tw_window *w, int d, E o, E k, E *inside)
{
	struct twir_module *m = x->m;
	const E t =
		tw_simplify(x, twir_sub(m, twir_add(m, o, w->begin[d]), twir_mul(m, k, twir_index(m, w->dilation[d]))));
	const E stride = twir_index(m, w->stride[d]), at = twir_div(m, t, stride);
	if (w->stride[d] > 1)
		tw_both(x, inside, twir_eq(m, twir_mod(m, t, stride), twir_index(m, 0)));
	tw_both(x, inside, twir_le(m, twir_index(m, 0), t));
	tw_both(x, inside, twir_lt(m, at, w->in[d]));
	return at;
}

/* Windows that do not overlap: output o belongs to exactly one input and one kernel element, or to none. */
static E only_source(struct tw_opctx *x, const struct tw_window *w, int d, E o, E *k, E *inside)
{
	struct twir_module *m = x->m;
	const E t = tw_simplify(x, twir_add(m, o, w->begin[d])), stride = twir_index(m, w->stride[d]);
	const E at = tw_simplify(x, twir_div(m, t, stride));
	*k = tw_simplify(x, twir_mod(m, t, stride));
	if (w->kernel[d] < w->stride[d])
		tw_both(x, inside, twir_lt(m, *k, twir_index(m, w->kernel[d])));
	struct twir_facts f;
	twir_facts_init(&f, m);
	const E beyond = twir_div(m, twir_add(m, twir_sub(m, w->out[d], twir_index(m, 1)), w->begin[d]), stride);
	if (!twir_prove(&f, twir_lt(m, beyond, w->in[d])))
		tw_both(x, inside, twir_lt(m, at, w->in[d]));
	return at;
}

/* Windows that cover the output without gaps or overlaps: each output pixel is one tap of one input pixel. */
static bool tiles_output(struct tw_opctx *x, const struct conv *c)
{
	const struct tw_window *w = &c->w;
	bool tiles = c->group == 1 && w->n <= 2;
	for (int d = 0; d < w->n; d++) {
		const E exact = tw_simplify(x, twir_mul(x->m, w->in[d], twir_index(x->m, w->stride[d])));
		tiles = tiles && w->kernel[d] == w->stride[d] && w->dilation[d] == 1 &&
			w->begin[d] == twir_index(x->m, 0) && tw_simplify(x, w->out[d]) == exact;
	}
	return tiles;
}

enum { FEW_CHANNELS = 8 }; /* below, rows over channels and taps together serve better */

/* C'[n, o, input pixel.., tap..]: its consumer stores each element where it belongs. */
static void transposed_tiles(struct tw_opctx *x, const struct conv *c)
{
	const struct tw_window *w = &c->w;
	struct twir_module *m = x->m;
	struct twir_tensor *y = tw_y(x, 0);
	const int n = w->n;
	E shape[TWIR_MAX_RANK] = {tw_in_dim(x, 0, 0), twir_index(m, c->mg)}, *i, at[TWIR_MAX_RANK], tap[TWIR_MAX_RANK];
	for (int d = 0; d < n; d++) {
		shape[2 + d] = w->in[d];
		shape[2 + n + d] = twir_index(m, w->kernel[d]);
	}
	struct twir_tensor *t = tw_temp(x, "product", tw_compute_type(tw_in_type(x, 0)), 2 + 2 * n, shape);
	struct twir_var **axes = tw_axes(x, t, &i);
	const E channels = twir_index(m, c->cg);
	struct twir_var *k = tw_fold_axis(x, "c", channels);
	at[0] = i[0];
	at[1] = tap[0] = twir_var(m, k);
	tap[1] = i[1];
	for (int d = 0; d < n; d++) {
		at[2 + d] = i[2 + d];
		tap[2 + d] = i[2 + n + d];
	}
	const E product = twir_mul(m, tw_load(x, tw_x(x, 1), 2 + n, tap), tw_load(x, tw_x(x, 0), 2 + n, at));
	tw_define(x, t, axes, twir_fold(m, TWIR_Add, 1, &k, &channels, product));
	axes = tw_axes(x, y, &i);
	at[0] = i[0];
	at[1] = i[1];
	for (int d = 0; d < n; d++) {
		const E stride = twir_index(m, w->stride[d]);
		at[2 + d] = tw_simplify(x, twir_div(m, i[2 + d], stride));
		at[2 + n + d] = tw_simplify(x, twir_mod(m, i[2 + d], stride));
	}
	tw_define(x, y, axes, add_bias(x, tw_load(x, t, 2 + 2 * n, at), i[1]));
}

/* C'[n, (g), (o, tap..), p] over input pixels p. */
static void define_transposed(struct tw_opctx *x, const struct conv *c, int nrows, const E *rows,
			      const struct product *p)
{
	const struct tw_window *w = &c->w;
	struct twir_module *m = x->m;
	E *i, at[TWIR_MAX_RANK], tap[TWIR_MAX_RANK], split[TWIR_MAX_RANK];
	struct twir_var **axes = tw_axes(x, p->c, &i);
	const E channels = twir_index(m, c->cg);
	struct twir_var *k = tw_fold_axis(x, "c", channels);
	const int off = p->grouped;
	tw_unflatten(x, i[off + 1], nrows, rows, split);
	tap[0] = at[1] = channel_of(x, c, i[1], twir_var(m, k), c->cg);
	for (int d = 0; d <= w->n; d++)
		tap[1 + d] = split[d];
	tw_unflatten(x, i[off + 2], w->n, w->in, split);
	at[0] = i[0];
	for (int d = 0; d < w->n; d++)
		at[2 + d] = split[d];
	const E product = twir_mul(m, tw_load(x, tw_x(x, 1), 2 + w->n, tap), tw_load(x, tw_x(x, 0), 2 + w->n, at));
	tw_define(x, p->c, axes, twir_fold(m, TWIR_Add, 1, &k, &channels, product));
}

static void compute_transposed(struct tw_opctx *x)
{
	struct conv c = {0};
	read_conv(x, &c, true);
	transposed_sizes(x, &c);
	if (tiles_output(x, &c) && c.mg >= FEW_CHANNELS) {
		transposed_tiles(x, &c);
		return;
	}
	const struct tw_window *w = &c.w;
	E rows[TWIR_MAX_RANK] = {twir_index(x->m, c.mg)}, *i;
	for (int d = 0; d < w->n; d++)
		rows[1 + d] = twir_index(x->m, w->kernel[d]);
	struct product p;
	make_product(x, &c, tw_product(x, 1 + w->n, rows), tw_product(x, w->n, w->in), &p);
	define_transposed(x, &c, 1 + w->n, rows, &p);

	struct twir_tensor *y = tw_y(x, 0);
	struct twir_var **axes = tw_axes(x, y, &i);
	bool apart = true;
	for (int d = 0; d < w->n; d++)
		apart = apart && w->kernel[d] <= w->stride[d] && w->dilation[d] == 1;
	const E mg = twir_index(x->m, c.mg);
	const E group = p.grouped ? twir_div(x->m, i[1], mg) : NULL;
	E row[TWIR_MAX_RANK] = {p.grouped ? twir_mod(x->m, i[1], mg) : i[1]}, pixel[TWIR_MAX_RANK], inside = NULL;
	struct twir_var *fold[TW_MAX_SPATIAL];
	for (int d = 0; d < w->n; d++) {
		if (apart) {
			pixel[d] = only_source(x, w, d, i[2 + d], &row[1 + d], &inside);
			continue;
		}
		fold[d] = tw_fold_axis(x, "k", rows[1 + d]);
		row[1 + d] = twir_var(x->m, fold[d]);
		pixel[d] = source(x, w, d, i[2 + d], row[1 + d], &inside);
	}
	E value =
		load_product(x, &p, i[0], group, tw_flatten(x, 1 + w->n, rows, row), tw_flatten(x, w->n, w->in, pixel));
	value = tw_where_inside(x, inside, value, tw_like(x, value, 0));
	if (!apart)
		value = twir_fold(x->m, TWIR_Add, w->n, fold, rows + 1, value);
	tw_define(x, y, axes, add_bias(x, value, i[1]));
}

#define WINDOW                                                                                                         \
	{"auto_pad", TW_ATTR_STRING, false}, {"dilations", TW_ATTR_INTS, false}, {"group", TW_ATTR_INT, false},        \
		{"kernel_shape", TW_ATTR_INTS, false}, {"pads", TW_ATTR_INTS, false},                                  \
	{                                                                                                              \
		"strides", TW_ATTR_INTS, false                                                                         \
	}

static const struct tw_attr_spec attrs_conv[] = {WINDOW, {NULL}};
static const struct tw_attr_spec attrs_transposed[] = {
	WINDOW, {"output_padding", TW_ATTR_INTS, false}, {"output_shape", TW_ATTR_INTS, false}, {NULL}};

const struct tw_op tw_ops_conv[] = {
	{.name = "Conv",
	 .since = 1,
	 .in = {2, 3},
	 .out = {1, 1},
	 .attrs = attrs_conv,
	 .flags = TW_OP_IMAGE,
	 .infer = infer_conv,
	 .compute = compute_conv},
	{.name = "ConvTranspose",
	 .since = 1,
	 .in = {2, 3},
	 .out = {1, 1},
	 .attrs = attrs_transposed,
	 .flags = TW_OP_IMAGE,
	 .infer = infer_transposed,
	 .compute = compute_transposed},
	{0},
};
