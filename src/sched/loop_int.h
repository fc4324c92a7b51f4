/* Loops in one program, internal to sched: what loop_match.c recognises and loop.c writes. */
#ifndef TW_LOOP_INT_H
#define TW_LOOP_INT_H

#include "sched/sched.h"

/* Of all tensors that a loop makes. */
enum { LOOP_DIRECTION, LOOP_ROW, LOOP_ELEMENT, LOOP_RANK };
enum { LOOP_INNER = 32 };

struct loop {
	const struct tw_task *task;
	const struct tw_loop *l;
	struct twir_module *m;
	const struct tw_target *t;
	const struct twir_expr *directions, *batch;
	int ninner;
	struct twir_tensor *inner[LOOP_INNER]; /* what only the loop knows */
	const struct twir_expr *direction;     /* of the item */
};

/* loop_match.c: false: it cannot be, or had better not be, one program. */
bool loop_match(const struct tw_loop *l, const struct tw_target *t, struct twir_module *m, struct loop *x);
int loop_inner(const struct loop *x, const struct twir_tensor *t); /* its number; -1: from outside */
/* Is e the axis, or 0 where the axis has one element? */
bool loop_is_axis(const struct twir_expr *e, const struct twir_var *axis, const struct twir_expr *extent);

#endif
