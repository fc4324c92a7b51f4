/* Chains, internal to sched: what chain_match.c recognises, what chain_plan.c decides; chain.c writes the program. */
#ifndef TW_CHAIN_INT_H
#define TW_CHAIN_INT_H

#include "sched/matmul.h"
#include "sched/window.h"

enum { CHAIN_EXPAND, CHAIN_WINDOW, CHAIN_PROJECT, CHAIN_PARTS };
enum { CHAIN_IMAGE, CHAIN_CHANNEL, CHAIN_ROW, CHAIN_COLUMN, CHAIN_RANK }; /* axes of every stage's result */

struct chain_part {
	const struct tw_task *given; /* as it was grouped; NULL: the chain has no such stage */
	struct tw_task task;	     /* one definition: producers, anchor and consumer in one, over rows and columns */
	struct mm_problem p;	     /* of a matmul; its rows are the columns of one row of the image */
	struct mm_plan q;
	struct tw_point point;
	struct twir_tensor *part;
};

struct chain {
	const struct tw_task *task;
	struct twir_module *m;
	const struct tw_target *t;
	struct chain_part part[CHAIN_PARTS];
	/* Row r of the window's result reads the rows step * r + dilation * k + base of its image, k < taps. */
	int64_t step, dilation, taps;
	const struct twir_expr *base;
	/* Plan: rows of a step and of the ring; panels of an item's channels and of a turn, whose ring it is; rows of an item. */
	int64_t block, ring, group, turn;
	const struct twir_expr *strip; /* of the sizes at run time */
};

/* chain_match.c: fills all but the plan; false: it is no chain that the template serves. */
bool chain_match(const struct tw_chain *stages, const struct tw_target *t, struct chain *c);

/* chain_plan.c: chain_guess takes sizes of a matmul that are not known for what images mostly have. chain_plan, false: what an item needs does not fit the caches. */
void chain_guess(struct mm_problem *p);
bool chain_plan(struct chain *c);
int64_t chain_strip_rows(const struct chain *c); /* as known, else a guess */
double chain_saves(const struct chain *c);	 /* cycles of one core, estimated */

#endif
