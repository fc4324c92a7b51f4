/* conv.h: what convolutions and transposed convolutions share. Internal to ops/. */
#ifndef TW_CONV_H
#define TW_CONV_H

#include "ops/window.h"

struct tw_conv {
	struct tw_window w;
	int64_t group, mg, cg;	     /* output and input channels of one group */
	struct twir_tensor *weights; /* of a convolution: [output channel, channel of the group, tap..] */
};

/* conv.c */
void tw_conv_read(struct tw_opctx *x, struct tw_conv *c, bool transposed);
void tw_conv_check_types(struct tw_opctx *x);
void tw_conv_set_output(struct tw_opctx *x, const struct tw_conv *c);
const struct twir_expr *tw_conv_add_bias(struct tw_opctx *x, const struct twir_expr *value,
					 const struct twir_expr *channel);
/* Defines the output: the sums of input 0's windows with the weights, and the bias. */
void tw_conv_sum(struct tw_opctx *x, const struct tw_conv *c);
/* The channel of the whole that is `inner` of a group of so many. */
const struct twir_expr *tw_conv_channel(struct tw_opctx *x, const struct tw_conv *c, const struct twir_expr *group,
					const struct twir_expr *inner, int64_t size);

struct tw_conv_product { /* C'[n, (g), i, p] */
	struct twir_tensor *c;
	bool grouped;
};
void tw_conv_make_product(struct tw_opctx *x, const struct tw_conv *c, const struct twir_expr *rows,
			  const struct twir_expr *pixels, struct tw_conv_product *p);
/* The element of C' for output channel f (row = f of one group, `rest` after it) and pixel p. */
const struct twir_expr *tw_conv_load_product(struct tw_opctx *x, const struct tw_conv_product *p,
					     const struct twir_expr *n, const struct twir_expr *group,
					     const struct twir_expr *row, const struct twir_expr *pixel);

/* conv_phases.c: a transposed convolution as convolutions of its input; false: nothing is defined, for it would cost
 * more than summing up products of pixels. */
bool tw_conv_phases(struct tw_opctx *x, const struct tw_conv *c);

#define TW_CONV_ATTRS                                                                                                  \
	{"auto_pad", TW_ATTR_STRING, false}, {"dilations", TW_ATTR_INTS, false}, {"group", TW_ATTR_INT, false},        \
		{"kernel_shape", TW_ATTR_INTS, false}, {"pads", TW_ATTR_INTS, false},                                  \
	{                                                                                                              \
		"strides", TW_ATTR_INTS, false                                                                         \
	}

#endif
