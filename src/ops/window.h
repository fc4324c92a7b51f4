/* window.h: sliding windows over the spatial axes, for convolutions and pools. Internal to ops/. */
#ifndef TW_WINDOW_H
#define TW_WINDOW_H

#include "ops/op.h"

enum { TW_MAX_SPATIAL = TWIR_MAX_RANK - 2 };

struct tw_window {
	int n; /* spatial axes */
	const struct twir_expr *in[TW_MAX_SPATIAL], *out[TW_MAX_SPATIAL];
	int64_t kernel[TW_MAX_SPATIAL], stride[TW_MAX_SPATIAL], dilation[TW_MAX_SPATIAL];
	const struct twir_expr *begin[TW_MAX_SPATIAL], *end[TW_MAX_SPATIAL]; /* padding */
	bool may_start_before[TW_MAX_SPATIAL], may_end_after[TW_MAX_SPATIAL];
};

/* Reads strides, dilations, pads, auto_pad (and kernel_shape when kernel is NULL) and computes the output sizes;
   input 0 is (N, C, spatial..). */
void tw_window_read(struct tw_opctx *x, struct tw_window *w, const int64_t *kernel, bool ceil_mode);
/* Only the numbers of strides, dilations and kernel, for operators with size rules of their own. */
void tw_window_numbers(struct tw_opctx *x, struct tw_window *w, const int64_t *kernel);
/* Input coordinate of kernel element k of the window at output o along axis d; *inside gathers the conditions for
   it to exist (NULL: none yet). */
const struct twir_expr *tw_window_at(struct tw_opctx *x, const struct tw_window *w, int d, const struct twir_expr *o,
				     const struct twir_expr *k, const struct twir_expr **inside);
/* Where the fold of a convolution reads for the output's pixel: axes of the fold are made for the taps (none along an axis of one) and, innermost, for the
   channels. Filled in are at[2..] of the input and tap[1..] of the weights. */
struct tw_taps {
	int n;
	struct twir_var *fold[TWIR_MAX_RANK];
	const struct twir_expr *extent[TWIR_MAX_RANK], *at[TWIR_MAX_RANK], *tap[TWIR_MAX_RANK];
	const struct twir_expr *inside; /* NULL: always */
};
void tw_window_taps(struct tw_opctx *x, const struct tw_window *w, const struct twir_expr *const *pixel,
		    int64_t channels, struct tw_taps *t);
void tw_both(struct tw_opctx *x, const struct twir_expr **all, const struct twir_expr *one);
/* value where inside (NULL: everywhere), else other */
const struct twir_expr *tw_where_inside(struct tw_opctx *x, const struct twir_expr *inside,
					const struct twir_expr *value, const struct twir_expr *other);

#endif
