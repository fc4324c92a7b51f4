/* opt: passes on the graph, and its way from nodes to tasks: fold constants, fold BatchNormalization into convolutions, lower to compute definitions, group. */
#ifndef TW_OPT_H
#define TW_OPT_H

#include "ops/op.h"
#include "sched/sched.h"

/* fold.c: nodes whose inputs are all constant and whose outputs are small (64 KiB) are evaluated by the interpreter; the rest of the constant part of the graph
   is compiled like any kernel and run once, at compile time. */
void opt_fold_constants(struct tw_graph *g);
/* conv_affine.c: a convolution and the BatchNormalizations, with constant statistics, and arithmetic with constants of a channel that follow it become one
   convolution: weights and bias are scaled in f64 and rounded once. Changes rounding: relative error of an element at most about 2 ulp of the products' sum. */
void opt_fold_affine(struct tw_graph *g);
/* subnormal.c: subnormal weights and biases of convolutions and products become zero. */
void opt_flush_weights(struct tw_graph *g);
/* beside.c: narrow convolutions of one element that read one tensor become one, and a Split. */
void opt_merge_beside(struct tw_graph *g, int lanes);
/* dead.c: nodes whose outputs nothing needs. */
void opt_remove_dead(struct tw_graph *g);

/* lower.c: the graph as one list of compute definitions and host operators, in order. */
struct tw_definition {
	struct twir_compute *compute; /* NULL: a host operator or a mark */
	tw_id node;
	const struct tw_mark *mark; /* a loop or branch begins or ends here */
};
struct tw_definitions {
	struct tw_graph *g;
	VEC(struct tw_definition) list;
	struct tw_map tensor; /* twir_tensor -> graph tensor id + 1 */
};
void opt_lower(struct tw_graph *g, struct tw_definitions *d);

/* indices.c: checks of indices that are certainly in range become definitions that hand them on. */
void opt_drop_checks(struct tw_definitions *d);

/* integers.c: sums of products of dequantised numbers are made of sums of integers. */
void opt_add_integers(struct tw_definitions *d);

/* tables.c: functions of one byte are looked up. */
void opt_tabulate(struct tw_definitions *d);

/* merge.c: products of one tensor with several constants that an attention reads become one product. */
void opt_merge_products(struct tw_definitions *d);

/* group.c: which definitions vanish into others' loads and stores. */
struct tw_group {
	struct tw_task task;	    /* host: anchor == NULL */
	tw_id node;		    /* host operator's node */
	const struct tw_mark *mark; /* anchor == NULL: a loop or branch begins or ends here; NULL: host operator */
	const char *label;	    /* graph nodes it covers: "conv1+bn1+relu1" */
	bool setup;		    /* depends on constants only: runs once, at compile time */
	struct tw_launch launch;
};
/* A tensor that lies inside another one: from element `at` of the whole's `axis` on, with the strides of the whole, which may be a part itself. */
struct tw_part {
	struct twir_tensor *tensor, *whole;
	int axis;
	const struct twir_expr *at;
};
struct tw_groups {
	bool apart;		     /* set by the caller: each definition stays a task of its own */
	bool exact;		     /* set by the caller: of all tasks */
	bool fma;		     /* set by the caller: the machine multiplies and adds in one step */
	VEC(struct tw_group *) list; /* in an order that respects dependences */
	struct tw_map constants;     /* keys: tensors that depend on constants only */
	struct tw_map row_major;     /* keys: tensors that others than tasks read: outputs, host operators' operands,
					what loops and branches hand on */
	struct tw_map parts;	     /* tensor -> struct tw_part; no task makes a whole itself */
	VEC(struct tw_part *) part_list;
	struct tw_map images; /* keys: tensors made by opt_convert: channels last */
};
void opt_group(const struct tw_definitions *d, struct tw_groups *out);

/* convert.c: convolutions whose input or output is the caller's work on copies of other layout, where that pays. */
void opt_convert(struct tw_groups *groups, struct twir_module *m);

/* layout.c: feature maps between tasks lie channels last: sets tensor->layout, and that of anchors that are stored as such. */
void opt_layout(const struct tw_definitions *d, const struct tw_groups *groups);

/* widen.c: grouped convolutions whose groups are narrower than a vector get fewer, wider ones. After opt_layout. */
void opt_widen_groups(struct tw_groups *groups, struct twir_module *m, const struct tw_target *t);

/* chain.c: groups that become one: a matmul, a window and a matmul over an image, where that keeps large tensors out of memory. After opt_layout. */
void opt_chain(struct tw_groups *groups, struct twir_module *m, const struct tw_target *t);

/* loop.c: the groups of a loop become one, where it can be one program and had better be. After opt_chain. */
void opt_loop(struct tw_groups *groups, struct twir_module *m, const struct tw_target *t);

#endif
