/* The loop nest of a definition, internal to sched. */
#ifndef TW_NEST_H
#define TW_NEST_H

#include "sched/sched.h"

struct tw_nest {
	struct twir_module *m;
	int rank; /* axes that remain: sizes of 1 are gone, neighbours merged */
	struct twir_var *var[TWIR_MAX_RANK];
	const struct twir_expr *extent[TWIR_MAX_RANK];
	int nplaces; /* the definition's own axes, as expressions over var */
	const struct twir_expr *place[TWIR_MAX_RANK];
	const struct twir_expr *value; /* over var */
};

void tw_nest_init(struct tw_nest *n, struct twir_module *m, int rank, struct twir_var *const *axes,
		  const struct twir_expr *const *extents, const struct twir_expr *value);
/* Puts the axes in the order of their strides in out's layout, the longest first: the last is the one to give to lanes. */
void tw_nest_order(struct tw_nest *n, const struct twir_tensor *out);
/* Puts the axes of a fold in the order of their strides in what it loads, where that serves lanes over the last one better: sums, and what
   else is folded, are then of another order than the definition's. */
void tw_nest_order_loads(struct tw_nest *n, int lanes);
/* Merges neighbouring axes that all loads, and a store at `place` (out, or NULL), walk through as through one. */
void tw_nest_merge(struct tw_nest *n, struct twir_tensor *out);
/* Merges short last axes by force (accesses become gathers) so that lanes are filled; gives a nest without axes one of extent 1. */
void tw_nest_flatten_short(struct tw_nest *n, int lanes);
/* How well lanes over v serve: share of accesses that are contiguous or uniform, times the share of lanes filled. */
double tw_nest_lane_score(struct tw_nest *n, const struct twir_var *v, const struct twir_expr *extent, int lanes);
/* The axis along which loads are contiguous that are not along the last one (they turn what they read); -1: there are none such. */
int tw_nest_across(struct tw_nest *n);
/* Loads of constants that lanes over an axis of the nest would gather become loads of tensors that are laid out for it at compile time (tw_prepare). */
void tw_nest_prepare(struct tw_nest *n, const struct tw_task *task, struct tw_launch *out, int lane_axis);

/* blocks.c. Splits an axis list into blocks: block[i] rows of axis i for one core item, from the last axis up, until an item is worth its while; work: operations
   of one element. */
void tw_choose_blocks(struct twir_module *m, int naxes, const struct twir_expr *const *extent, int64_t work,
		      int64_t *block);
/* Operations for one element: the product of the constant fold extents, symbols counting 64. */
int64_t tw_fold_work(const struct twir_expr *value);
/* for (vars) in spatial(ceil_div(e, b)..) * repeat(b..) on core within (e..) { body }  and the number of core items */
struct twir_stmt *tw_core_loop(struct twir_module *m, int n, struct twir_var *const *vars,
			       const struct twir_expr *const *extent, const int64_t *block, struct twir_stmt *body,
			       const struct twir_expr **cores);
/* op(acc, body); a product is added by fma where the machine has one */
const struct twir_expr *tw_combine(struct twir_module *m, const struct tw_target *t, enum twir_kind op,
				   const struct twir_expr *acc, const struct twir_expr *body);
/* e with one of its sub-expressions replaced */
const struct twir_expr *tw_swapped(struct twir_module *m, const struct twir_expr *e, const struct twir_expr *from,
				   const struct twir_expr *to);

#endif
