/* conv_transposed.c: ConvTranspose.
 *
 * Where that costs least it is one or several convolutions (conv_phases.c); else the matmul of input pixels first, then
 * a gather of the few products that fall on an output pixel. */
#include "ops/conv.h"
#include "ops/elementwise.h"

typedef const struct twir_expr *E;

static void transposed_sizes(struct tw_opctx *x, struct tw_conv *c)
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
	struct tw_conv c = {0};
	tw_conv_check_types(x);
	tw_conv_read(x, &c, true);
	transposed_sizes(x, &c);
	tw_conv_set_output(x, &c);
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

/* C'[n, (g), (o, tap..), p] over input pixels p. */
static void define_transposed(struct tw_opctx *x, const struct tw_conv *c, int nrows, const E *rows,
			      const struct tw_conv_product *p)
{
	const struct tw_window *w = &c->w;
	struct twir_module *m = x->m;
	E *i, at[TWIR_MAX_RANK], tap[TWIR_MAX_RANK], split[TWIR_MAX_RANK];
	struct twir_var **axes = tw_axes(x, p->c, &i);
	const E channels = twir_index(m, c->cg);
	struct twir_var *k = tw_fold_axis(x, "c", channels);
	const int off = p->grouped;
	tw_unflatten(x, i[off + 1], nrows, rows, split);
	tap[0] = at[1] = tw_conv_channel(x, c, i[1], twir_var(m, k), c->cg);
	for (int d = 0; d <= w->n; d++)
		tap[1 + d] = split[d];
	tw_unflatten(x, i[off + 2], w->n, w->in, split);
	at[0] = i[0];
	for (int d = 0; d < w->n; d++)
		at[2 + d] = split[d];
	const E product = twir_mul(m, tw_load(x, c->weights, 2 + w->n, tap), tw_load(x, tw_x(x, 0), 2 + w->n, at));
	tw_define(x, p->c, axes, twir_fold(m, TWIR_Add, 1, &k, &channels, product));
}

static void compute_transposed(struct tw_opctx *x)
{
	struct tw_conv c = {0};
	tw_conv_read(x, &c, true);
	transposed_sizes(x, &c);
	c.weights = tw_x(x, 1);
	if (tw_conv_phases(x, &c))
		return;
	const struct tw_window *w = &c.w;
	E rows[TWIR_MAX_RANK] = {twir_index(x->m, c.mg)}, *i;
	for (int d = 0; d < w->n; d++)
		rows[1 + d] = twir_index(x->m, w->kernel[d]);
	struct tw_conv_product p;
	tw_conv_make_product(x, &c, tw_product(x, 1 + w->n, rows), tw_product(x, w->n, w->in), &p);
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
	E value = tw_conv_load_product(x, &p, i[0], group, tw_flatten(x, 1 + w->n, rows, row),
				       tw_flatten(x, w->n, w->in, pixel));
	value = tw_where_inside(x, inside, value, tw_like(x, value, 0));
	if (!apart)
		value = twir_fold(x->m, TWIR_Add, w->n, fold, rows + 1, value);
	tw_define(x, y, axes, tw_conv_add_bias(x, value, i[1]));
}

static const struct tw_attr_spec attrs_transposed[] = {
	TW_CONV_ATTRS, {"output_padding", TW_ATTR_INTS, false}, {"output_shape", TW_ATTR_INTS, false}, {NULL}};

const struct tw_op tw_ops_conv_transposed[] = {
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
