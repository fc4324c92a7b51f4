/* window.c: sizes, padding and coordinates of sliding windows.
 *
 * Input: attributes of convolutions and pools. Output: struct tw_window, sizes as expressions. Invariant: a
 * coordinate that may leave the input carries a condition, one that cannot carries none. */
#include "ops/window.h"

#include <inttypes.h>

enum { MAX_NUMBER = 1 << 24 };

static void read_ints(struct tw_opctx *x, const char *name, int n, int64_t otherwise, int64_t least, int64_t *out)
{
	const int64_t *values;
	const int count = tw_attr_ints(x->node, name, &values);
	if (count >= 0 && count != n)
		tw_op_fail(x, TW_ERR_MODEL, "'%s' has %d values for %d axes", name, count, n);
	for (int d = 0; d < n; d++) {
		out[d] = count < 0 ? otherwise : values[d];
		if (out[d] < least || out[d] > MAX_NUMBER)
			tw_op_fail(x, TW_ERR_MODEL, "'%s' holds %" PRId64, name, out[d]);
	}
}

void tw_window_numbers(struct tw_opctx *x, struct tw_window *w, const int64_t *kernel)
{
	w->n = tw_in_rank(x, 0) - 2;
	if (w->n < 0)
		tw_op_fail(x, TW_ERR_MODEL, "input 0 of rank %d is too small", tw_in_rank(x, 0));
	read_ints(x, "strides", w->n, 1, 1, w->stride);
	read_ints(x, "dilations", w->n, 1, 1, w->dilation);
	if (kernel && !tw_attr_find(x->node, "kernel_shape"))
		for (int d = 0; d < w->n; d++)
			w->kernel[d] = kernel[d];
	else
		read_ints(x, "kernel_shape", w->n, 0, 1, w->kernel);
	for (int d = 0; d < w->n; d++) {
		w->in[d] = tw_in_dim(x, 0, 2 + d);
		if (kernel && w->kernel[d] != kernel[d])
			tw_op_fail(x, TW_ERR_MODEL,
				   "kernel_shape says %" PRId64 " along axis %d; the weights have %" PRId64,
				   w->kernel[d], d, kernel[d]);
	}
}

static void fixed_padding(struct tw_opctx *x, struct tw_window *w)
{
	int64_t pads[2 * TW_MAX_SPATIAL];
	read_ints(x, "pads", 2 * w->n, 0, 0, pads);
	for (int d = 0; d < w->n; d++) {
		w->begin[d] = twir_index(x->m, pads[d]);
		w->end[d] = twir_index(x->m, pads[w->n + d]);
		w->may_start_before[d] = pads[d] > 0;
		w->may_end_after[d] = pads[w->n + d] > 0;
	}
}

static void output_sizes(struct tw_opctx *x, struct tw_window *w, bool ceil_mode)
{
	struct twir_module *m = x->m;
	for (int d = 0; d < w->n; d++) {
		const struct twir_expr *stride = twir_index(m, w->stride[d]);
		const struct twir_expr *padded = twir_add(m, twir_add(m, w->in[d], w->begin[d]), w->end[d]);
		const struct twir_expr *room =
			twir_sub(m, padded, twir_index(m, (w->kernel[d] - 1) * w->dilation[d] + 1));
		const struct twir_expr *one = twir_index(m, 1);
		if (!ceil_mode) {
			w->out[d] = tw_simplify(x, twir_add(m, twir_div(m, room, stride), one));
			continue;
		}
		/* The last window must start inside the input or the padding before it. */
		const struct twir_expr *steps = twir_ceildiv(m, room, stride);
		const struct twir_expr *beyond =
			twir_le(m, twir_add(m, w->in[d], w->begin[d]), twir_mul(m, steps, stride));
		w->out[d] = tw_simplify(x, twir_select(m, beyond, steps, twir_add(m, steps, one)));
		w->may_end_after[d] = true;
	}
}

static void same_padding(struct tw_opctx *x, struct tw_window *w, bool upper)
{
	struct twir_module *m = x->m;
	const struct twir_expr *two = twir_index(m, 2);
	for (int d = 0; d < w->n; d++) {
		w->out[d] = tw_simplify(x, twir_ceildiv(m, w->in[d], twir_index(m, w->stride[d])));
		const struct twir_expr *reach =
			twir_add(m, twir_mul(m, twir_sub(m, w->out[d], twir_index(m, 1)), twir_index(m, w->stride[d])),
				 twir_index(m, (w->kernel[d] - 1) * w->dilation[d] + 1));
		const struct twir_expr *total = twir_max(m, twir_sub(m, reach, w->in[d]), twir_index(m, 0));
		const struct twir_expr *small = tw_simplify(x, twir_div(m, total, two));
		const struct twir_expr *large = tw_simplify(x, twir_sub(m, total, small));
		w->begin[d] = upper ? small : large;
		w->end[d] = upper ? large : small;
		w->may_start_before[d] = w->begin[d] != twir_index(m, 0);
		w->may_end_after[d] = w->end[d] != twir_index(m, 0);
	}
}

void tw_window_read(struct tw_opctx *x, struct tw_window *w, const int64_t *kernel, bool ceil_mode)
{
	tw_window_numbers(x, w, kernel);
	const char *pad = tw_attr_string(x->node, "auto_pad", "NOTSET");
	if (!strcmp(pad, "SAME_UPPER") || !strcmp(pad, "SAME_LOWER")) {
		same_padding(x, w, !strcmp(pad, "SAME_UPPER"));
		return;
	}
	if (!strcmp(pad, "VALID"))
		for (int d = 0; d < w->n; d++)
			w->begin[d] = w->end[d] = twir_index(x->m, 0);
	else if (!strcmp(pad, "NOTSET") || !*pad)
		fixed_padding(x, w);
	else
		tw_op_fail(x, TW_ERR_MODEL, "auto_pad = '%s' is not known", pad);
	output_sizes(x, w, ceil_mode);
}

void tw_both(struct tw_opctx *x, const struct twir_expr **all, const struct twir_expr *one)
{
	*all = *all ? twir_and(x->m, *all, one) : one;
}

const struct twir_expr *tw_window_at(struct tw_opctx *x, const struct tw_window *w, int d, const struct twir_expr *o,
				     const struct twir_expr *k, const struct twir_expr **inside)
{
	struct twir_module *m = x->m;
	const struct twir_expr *at =
		twir_add(m, twir_mul(m, o, twir_index(m, w->stride[d])), twir_mul(m, k, twir_index(m, w->dilation[d])));
	at = tw_simplify(x, twir_sub(m, at, w->begin[d]));
	if (w->may_start_before[d])
		tw_both(x, inside, twir_le(m, twir_index(m, 0), at));
	if (w->may_end_after[d])
		tw_both(x, inside, twir_lt(m, at, w->in[d]));
	return at;
}

void tw_window_taps(struct tw_opctx *x, const struct tw_window *w, const struct twir_expr *const *pixel,
		    int64_t channels, struct tw_taps *t)
{
	struct twir_module *m = x->m;
	*t = (struct tw_taps){0};
	for (int d = 0; d < w->n; d++) {
		t->tap[2 + d] = twir_index(m, 0);
		if (w->kernel[d] > 1) {
			t->extent[t->n] = twir_index(m, w->kernel[d]);
			t->fold[t->n] = tw_fold_axis(x, "k", t->extent[t->n]);
			t->tap[2 + d] = twir_var(m, t->fold[t->n++]);
		}
		t->at[2 + d] = tw_window_at(x, w, d, pixel[d], t->tap[2 + d], &t->inside);
	}
	t->extent[t->n] = twir_index(m, channels);
	t->fold[t->n] = tw_fold_axis(x, "c", t->extent[t->n]);
	t->tap[1] = twir_var(m, t->fold[t->n++]);
}

const struct twir_expr *tw_where_inside(struct tw_opctx *x, const struct twir_expr *inside,
					const struct twir_expr *value, const struct twir_expr *other)
{
	return inside ? twir_cond(x->m, inside, value, other) : value;
}
