/* qconv.c: ConvInteger and QLinearConv: sums of (x - zero) * (w - zero) over the window in i32, and for the second their
 * rescaling. Padding counts as the zero point, so it adds nothing. */
#include "ops/elementwise.h"
#include "ops/window.h"

#include <inttypes.h>

typedef const struct twir_expr *E;

struct qconv {
	struct tw_window w;
	int x, x_zero, weights, w_zero; /* input numbers */
	int64_t group, mg, cg;
};

static void read_qconv(struct tw_opctx *x, struct qconv *c, bool linear)
{
	*c = linear ? (struct qconv){.x = 0, .x_zero = 2, .weights = 3, .w_zero = 5}
		    : (struct qconv){.x = 0, .x_zero = 2, .weights = 1, .w_zero = 3};
	const int rank = tw_in_rank(x, 0);
	int64_t kernel[TW_MAX_SPATIAL], size[2];
	if (rank < 3 || tw_in_rank(x, c->weights) != rank)
		tw_op_fail(x, TW_ERR_MODEL, "input of rank %d with weights of rank %d", rank,
			   tw_in_rank(x, c->weights));
	for (int d = 0; d < rank; d++)
		if (!twir_const_int(tw_in_dim(x, c->weights, d), d < 2 ? &size[d] : &kernel[d - 2]))
			tw_op_fail(x, TW_ERR_UNSUPPORTED,
				   "weights of a shape that is not known when the model is compiled");
	c->group = tw_attr_int(x->node, "group", 1);
	if (c->group < 1 || size[0] % c->group)
		tw_op_fail(x, TW_ERR_MODEL, "group = %" PRId64 " does not divide %" PRId64 " channels", c->group,
			   size[0]);
	c->mg = size[0] / c->group;
	c->cg = size[1];
	tw_window_read(x, &c->w, kernel, false);
	tw_same_size(x, tw_in_dim(x, 0, 1), twir_index(x->m, c->cg * c->group), "input channels and weights");
	for (int k = 0; k < 2; k++) {
		const int zero = k ? c->w_zero : c->x_zero;
		if (tw_has_in(x, zero) && tw_in_rank(x, zero) > k)
			tw_op_fail(x, TW_ERR_UNSUPPORTED, "zero point of rank %d", tw_in_rank(x, zero));
	}
}

static void set_output(struct tw_opctx *x, const struct qconv *c, enum twir_scalar type)
{
	E shape[TWIR_MAX_RANK] = {tw_in_dim(x, 0, 0), twir_index(x->m, c->mg * c->group)};
	for (int d = 0; d < c->w.n; d++)
		shape[2 + d] = c->w.out[d];
	tw_set_out(x, 0, type, 2 + c->w.n, shape);
}

/* Input k, a scalar or one number for each output channel */
static E by_channel(struct tw_opctx *x, int k, E channel)
{
	struct twir_tensor *t = tw_x(x, k);
	const E zero = twir_index(x->m, 0);
	return tw_load(x, t, t->rank, t->rank && t->shape[0] == twir_index(x->m, 1) ? &zero : &channel);
}

static E centred_input(struct tw_opctx *x, const struct qconv *c, E const *at)
{
	const E v = twir_cast(x->m, TWIR_I32, tw_load(x, tw_x(x, c->x), 2 + c->w.n, at));
	if (tw_is_zero(x, c->x_zero))
		return v;
	return twir_sub(x->m, v, twir_cast(x->m, TWIR_I32, tw_load(x, tw_x(x, c->x_zero), 0, NULL)));
}

/* tap[0] is the output channel */
static E centred_weight(struct tw_opctx *x, const struct qconv *c, E const *tap)
{
	const E v = twir_cast(x->m, TWIR_I32, tw_load(x, tw_x(x, c->weights), 2 + c->w.n, tap));
	if (tw_is_zero(x, c->w_zero))
		return v;
	return twir_sub(x->m, v, twir_cast(x->m, TWIR_I32, by_channel(x, c->w_zero, tap[0])));
}

/* The sums as [batch, channel, pixel], like those of conv.c: pixels of all axes together are the rows of a matmul. */
static struct twir_tensor *define_sum(struct tw_opctx *x, const struct qconv *c)
{
	struct twir_module *m = x->m;
	const struct tw_window *w = &c->w;
	E *i, pixel[TWIR_MAX_RANK];
	struct tw_taps t;
	const E shape[] = {tw_in_dim(x, 0, 0), twir_index(m, c->mg * c->group), tw_product(x, w->n, w->out)};
	struct twir_tensor *out = tw_temp(x, "sum", TWIR_I32, 3, shape);
	struct twir_var **axes = tw_axes(x, out, &i);
	tw_unflatten(x, i[2], w->n, w->out, pixel);
	tw_window_taps(x, w, pixel, c->cg, &t);
	const E group = twir_div(m, i[1], twir_index(m, c->mg));
	t.at[0] = i[0];
	t.at[1] = c->group > 1 ? twir_add(m, twir_mul(m, group, twir_index(m, c->cg)), t.tap[1]) : t.tap[1];
	t.tap[0] = i[1];
	const E v = centred_input(x, c, t.at), k = centred_weight(x, c, t.tap);
	const E product = twir_mul(m, tw_where_inside(x, t.inside, v, twir_int(m, TWIR_I32, 0)), k);
	tw_define(x, out, axes, twir_fold(m, TWIR_Add, t.n, t.fold, t.extent, product));
	return out;
}

enum { EXACT = 1 << 24, MOST = 255 * 255, FEW_OUTPUTS = 8 };

/* One input channel for each output channel, and few terms: floats hold the sums as they are, and are added faster. */
static bool is_narrow(const struct qconv *c)
{
	int64_t taps = 1;
	for (int d = 0; d < c->w.n && taps <= EXACT; d++)
		taps *= c->w.kernel[d];
	return c->cg == 1 && c->group > 1 && c->mg <= FEW_OUTPUTS && taps * MOST < EXACT;
}

static struct twir_tensor *define_narrow_sum(struct tw_opctx *x, const struct qconv *c)
{
	struct twir_module *m = x->m;
	const struct tw_window *w = &c->w;
	struct twir_tensor *out = tw_temp(x, "sum", TWIR_F32, 2 + w->n, tw_y(x, 0)->shape);
	E *i, inside = NULL, at[TWIR_MAX_RANK], tap[TWIR_MAX_RANK], extent[TW_MAX_SPATIAL];
	struct twir_var **axes = tw_axes(x, out, &i), *fold[TW_MAX_SPATIAL];
	at[0] = i[0];
	at[1] = tw_simplify(x, twir_div(m, i[1], twir_index(m, c->mg)));
	tap[0] = i[1];
	tap[1] = twir_index(m, 0);
	for (int d = 0; d < w->n; d++) {
		extent[d] = twir_index(m, w->kernel[d]);
		fold[d] = tw_fold_axis(x, "k", extent[d]);
		tap[2 + d] = twir_var(m, fold[d]);
		at[2 + d] = tw_window_at(x, w, d, i[2 + d], tap[2 + d], &inside);
	}
	const E v = twir_cast(m, TWIR_F32, centred_input(x, c, at)), k = centred_weight(x, c, tap);
	const E product = twir_mul(m, tw_where_inside(x, inside, v, tw_like(x, v, 0)), twir_cast(m, TWIR_F32, k));
	tw_define(x, out, axes, twir_fold(m, TWIR_Add, w->n, fold, extent, product));
	return out;
}

/* The sum that belongs to the output's coordinates i */
static E load_sum(struct tw_opctx *x, const struct qconv *c, E const *i)
{
	if (is_narrow(c))
		return twir_cast(x->m, TWIR_I32, tw_load(x, define_narrow_sum(x, c), 2 + c->w.n, i));
	const E at[] = {i[0], i[1], tw_flatten(x, c->w.n, c->w.out, i + 2)};
	return tw_load(x, define_sum(x, c), 3, at);
}

static void infer_integer(struct tw_opctx *x)
{
	struct qconv c;
	tw_need_type(x, 0, "i8 u8");
	tw_need_type(x, 1, "i8 u8");
	read_qconv(x, &c, false);
	set_output(x, &c, TWIR_I32);
}

static void compute_integer(struct tw_opctx *x)
{
	struct qconv c;
	E *i;
	read_qconv(x, &c, false);
	struct twir_var **axes = tw_axes(x, tw_y(x, 0), &i);
	tw_define(x, tw_y(x, 0), axes, load_sum(x, &c, i));
}

static void infer_linear(struct tw_opctx *x)
{
	struct qconv c;
	tw_need_type(x, 0, "i8 u8");
	tw_need_type(x, 3, "i8 u8");
	tw_need_type(x, 7, "i8 u8");
	read_qconv(x, &c, true);
	for (int k = 1; k < 9; k++)
		if (k != 3 && tw_has_in(x, k) && tw_in_rank(x, k) > 1)
			tw_op_fail(x, TW_ERR_UNSUPPORTED, "input %d of rank %d", k, tw_in_rank(x, k));
	set_output(x, &c, tw_in_type(x, 7));
}

static void compute_linear(struct tw_opctx *x)
{
	struct twir_module *m = x->m;
	struct qconv c;
	read_qconv(x, &c, true);
	/* of a channel; a definition of its own, so that quotients of constants are made once */
	struct twir_tensor *y = tw_y(x, 0), *scale = tw_temp(x, "scale", TWIR_F32, 1, y->shape + 1);
	E *i;
	struct twir_var **axes = tw_axes(x, scale, &i);
	const E all = twir_mul(m, by_channel(x, 1, i[0]), by_channel(x, 4, i[0]));
	tw_define(x, scale, axes, twir_div(m, all, by_channel(x, 6, i[0])));
	axes = tw_axes(x, y, &i);
	E s = load_sum(x, &c, i);
	if (tw_has_in(x, 8))
		s = twir_add(m, s, by_channel(x, 8, i[1]));
	const E v = twir_mul(m, twir_cast(m, TWIR_F32, s), tw_load(x, scale, 1, &i[1]));
	const E q = twir_add(m, twir_unary(m, TWIR_Round, v), twir_cast(m, TWIR_F32, by_channel(x, 7, i[1])));
	tw_define(x, y, axes, twir_cast(m, y->type, q));
}

static const struct tw_attr_spec attrs[] = {{"auto_pad", TW_ATTR_STRING, false},
					    {"dilations", TW_ATTR_INTS, false},
					    {"group", TW_ATTR_INT, false},
					    {"kernel_shape", TW_ATTR_INTS, false},
					    {"pads", TW_ATTR_INTS, false},
					    {"strides", TW_ATTR_INTS, false},
					    {NULL}};

const struct tw_op tw_ops_qconv[] = {
	{.name = "ConvInteger",
	 .flags = TW_OP_IMAGE,
	 .since = 10,
	 .in = {2, 4},
	 .out = {1, 1},
	 .attrs = attrs,
	 .infer = infer_integer,
	 .compute = compute_integer},
	{.name = "QLinearConv",
	 .flags = TW_OP_IMAGE,
	 .since = 10,
	 .in = {8, 9},
	 .out = {1, 1},
	 .attrs = attrs,
	 .infer = infer_linear,
	 .compute = compute_linear},
	{0},
};
