/* conv_phases.c: transposed convolutions as convolutions.
 *
 * With stride 1 it is the convolution of the input with the kernel turned round. With stride s, output h = s * q + p
 * along an axis reads only the taps that are (p + begin) mod s, so that the outputs of one phase p are a convolution of
 * stride 1 with every s-th tap: q runs over the input, and all phases are one product
 *
 *   C'[n, (g), o, p.., q..] = sum over taps j and channels c of
 *       W[c, o, (p + begin) mod s + s * j] * X[n, c, q + (p + begin) / s - j]
 *
 * whose elements its consumer stores where they belong. Taps of phases that have fewer than others are zeros. */
#include "ops/conv.h"
#include "ops/elementwise.h"

typedef const struct twir_expr *E;

enum { FEW_CHANNELS = 8 }; /* of the output: below, products of pixels with channels and taps together serve better */

/* --- stride 1 --- */

/* W'[g * o, c, tap..] of the convolution */
static struct twir_tensor *turned(struct tw_opctx *x, const struct tw_conv *c)
{
	const struct tw_window *w = &c->w;
	struct twir_module *m = x->m;
	E shape[TWIR_MAX_RANK] = {twir_index(m, c->group * c->mg), twir_index(m, c->cg)}, *i, at[TWIR_MAX_RANK];
	for (int d = 0; d < w->n; d++)
		shape[2 + d] = twir_index(m, w->kernel[d]);
	struct twir_tensor *t = tw_temp(x, "turned", tw_in_type(x, 1), 2 + w->n, shape);
	struct twir_var **axes = tw_axes(x, t, &i);
	const E mg = twir_index(m, c->mg);
	at[0] = tw_simplify(x, tw_conv_channel(x, c, twir_div(m, i[0], mg), i[1], c->cg));
	at[1] = tw_simplify(x, twir_mod(m, i[0], mg));
	for (int d = 0; d < w->n; d++)
		at[2 + d] = twir_sub(m, twir_index(m, w->kernel[d] - 1), i[2 + d]);
	tw_define(x, t, axes, tw_load(x, c->weights, 2 + w->n, at));
	return t;
}

static void as_convolution(struct tw_opctx *x, const struct tw_conv *c)
{
	struct twir_module *m = x->m;
	struct tw_conv turn = *c;
	struct tw_window *w = &turn.w;
	for (int d = 0; d < w->n; d++) {
		int64_t n;
		const E reach = twir_index(m, (w->kernel[d] - 1) * w->dilation[d]);
		w->begin[d] = tw_simplify(x, twir_sub(m, reach, w->begin[d]));
		w->end[d] =
			tw_simplify(x, twir_sub(m, twir_sub(m, twir_add(m, w->out[d], reach), w->in[d]), w->begin[d]));
		w->may_start_before[d] = !twir_const_int(w->begin[d], &n) || n > 0;
		w->may_end_after[d] = !twir_const_int(w->end[d], &n) || n > 0;
	}
	turn.weights = turned(x, c);
	tw_conv_sum(x, &turn);
}

/* --- phases --- */

struct phases {
	const struct tw_conv *c;
	bool direct;		       /* one input channel for each output channel: no sum over channels */
	bool grouped;		       /* groups are an axis of their own */
	int64_t begin[TW_MAX_SPATIAL]; /* padding */
	int64_t taps[TW_MAX_SPATIAL];  /* of a phase */
	E quotients[TW_MAX_SPATIAL];   /* outputs of a phase */
};

/* Are outputs a whole number of strides, and padding known? Then phases are all of one size. */
static bool divides(struct tw_opctx *x, struct phases *p)
{
	const struct tw_window *w = &p->c->w;
	double made = 1, asked = 1;
	for (int d = 0; d < w->n; d++) {
		const E stride = twir_index(x->m, w->stride[d]);
		p->quotients[d] = tw_simplify(x, twir_div(x->m, w->out[d], stride));
		if (w->dilation[d] != 1 || !twir_const_int(w->begin[d], &p->begin[d]) ||
		    tw_simplify(x, twir_mul(x->m, p->quotients[d], stride)) != w->out[d])
			return false;
		p->taps[d] = (w->kernel[d] + w->stride[d] - 1) / w->stride[d];
		made *= (double)(p->taps[d] * w->stride[d]);
		asked *= (double)w->kernel[d];
	}
	return made <=
	       1.5 * asked; /* measured: 3 x 3 taps with stride 2, four of nine of which are zeros, gain nothing */
}

/* C', and its axes as expressions: phases from i[*at] on, then quotients */
static struct twir_tensor *product(struct tw_opctx *x, const struct phases *p, int *at)
{
	const struct tw_conv *c = p->c;
	struct twir_module *m = x->m;
	E shape[TWIR_MAX_RANK] = {tw_in_dim(x, 0, 0), twir_index(m, p->grouped ? c->group : c->group * c->mg),
				  twir_index(m, c->mg)};
	const int n = c->w.n;
	*at = p->grouped ? 3 : 2;
	for (int d = 0; d < n; d++) {
		shape[*at + d] = twir_index(m, c->w.stride[d]);
		shape[*at + n + d] = p->quotients[d];
	}
	return tw_temp(x, "product", tw_compute_type(tw_in_type(x, 0)), *at + 2 * n, shape);
}

static void define_product(struct tw_opctx *x, const struct phases *p, struct twir_tensor *t, int first)
{
	const struct tw_conv *c = p->c;
	const struct tw_window *w = &c->w;
	struct twir_module *m = x->m;
	E *i, at[TWIR_MAX_RANK], tap[TWIR_MAX_RANK], extent[TWIR_MAX_RANK], inside = NULL, exists = NULL;
	struct twir_var **axes = tw_axes(x, t, &i), *fold[TWIR_MAX_RANK];
	int n = 0;
	at[0] = i[0];
	for (int d = 0; d < w->n; d++) {
		const E stride = twir_index(m, w->stride[d]);
		const E from = twir_add(m, i[first + d], twir_index(m, p->begin[d]));
		E number = twir_index(m, 0);
		if (p->taps[d] > 1) {
			extent[n] = twir_index(m, p->taps[d]);
			fold[n] = tw_fold_axis(x, "k", extent[n]);
			number = twir_var(m, fold[n++]);
		}
		const E here = twir_add(m, i[first + w->n + d], twir_div(m, from, stride));
		at[2 + d] = tw_simplify(x, twir_sub(m, here, number));
		tap[2 + d] = tw_simplify(x, twir_add(m, twir_mod(m, from, stride), twir_mul(m, number, stride)));
		tw_both(x, &inside, twir_le(m, twir_index(m, 0), at[2 + d]));
		tw_both(x, &inside, twir_lt(m, at[2 + d], w->in[d]));
		if (w->kernel[d] % w->stride[d])
			tw_both(x, &exists, twir_lt(m, tap[2 + d], twir_index(m, w->kernel[d])));
	}
	if (p->direct) {
		at[1] = tap[0] = tw_simplify(x, twir_div(m, i[1], twir_index(m, c->mg)));
		tap[1] = tw_simplify(x, twir_mod(m, i[1], twir_index(m, c->mg)));
	} else {
		extent[n] = twir_index(m, c->cg);
		fold[n] = tw_fold_axis(x, "c", extent[n]);
		at[1] = tap[0] = tw_conv_channel(x, c, i[1], twir_var(m, fold[n++]), c->cg);
		tap[1] = i[p->grouped ? 2 : 1];
	}
	E value = tw_load(x, tw_x(x, 0), 2 + w->n, at), weight = tw_load(x, c->weights, 2 + w->n, tap);
	value = tw_where_inside(x, tw_simplify(x, inside), value, tw_like(x, value, 0));
	weight = tw_where_inside(x, exists, weight, tw_like(x, weight, 0));
	E sum = twir_mul(m, weight, value);
	tw_define(x, t, axes, n ? twir_fold(m, TWIR_Add, n, fold, extent, sum) : sum);
}

/* Y: each output is one element of C'. */
static void define_output(struct tw_opctx *x, const struct phases *p, struct twir_tensor *t, int first)
{
	const struct tw_conv *c = p->c;
	const struct tw_window *w = &c->w;
	struct twir_module *m = x->m;
	struct twir_tensor *y = tw_y(x, 0);
	E *i, at[TWIR_MAX_RANK];
	struct twir_var **axes = tw_axes(x, y, &i);
	at[0] = i[0];
	at[1] = i[1];
	if (p->grouped) {
		at[1] = twir_div(m, i[1], twir_index(m, c->mg));
		at[2] = twir_mod(m, i[1], twir_index(m, c->mg));
	}
	for (int d = 0; d < w->n; d++) {
		const E stride = twir_index(m, w->stride[d]);
		at[first + d] = tw_simplify(x, twir_mod(m, i[2 + d], stride));
		at[first + w->n + d] = tw_simplify(x, twir_div(m, i[2 + d], stride));
	}
	tw_define(x, y, axes, tw_conv_add_bias(x, tw_load(x, t, t->rank, at), i[1]));
}

bool tw_conv_phases(struct tw_opctx *x, const struct tw_conv *c)
{
	struct phases p = {.c = c, .direct = c->cg == 1 && c->group > 1 && c->mg <= 8};
	bool strides = false;
	int first;
	p.grouped = !p.direct && c->group > 1;
	for (int d = 0; d < c->w.n; d++)
		strides |= c->w.stride[d] > 1;
	if (!strides) {
		as_convolution(x, c);
		return true;
	}
	if (2 + p.grouped + 2 * c->w.n > TWIR_MAX_RANK || (!p.direct && c->mg < FEW_CHANNELS) || !divides(x, &p))
		return false;
	struct twir_tensor *t = product(x, &p, &first);
	define_product(x, &p, t, first);
	define_output(x, &p, t, first);
	return true;
}
