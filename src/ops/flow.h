/* flow.h: loops and branches over compute definitions. An operator marks where they begin and end among its own
 * definitions (recurrent cells), or is such an end itself (Loop, Scan, If after the importer laid their bodies out
 * flat).
 *
 * Definitions inside a loop may speak of the iteration's number, a symbol. Values that go from one iteration to the
 * next are a pair of tensors: `in`, which no definition makes, and `out`, which one inside the loop makes; after each
 * iteration `out` becomes `in`. A slice is a tensor made in each iteration that is a part of `whole`. */
#ifndef TW_FLOW_H
#define TW_FLOW_H

#include "ops/op.h"

struct tw_carried {
	struct twir_tensor *init, *in, *out;
	struct twir_tensor *last; /* after the loop; NULL: nobody asks */
};

struct tw_slice {
	struct twir_tensor *slice, *whole; /* whole: one more axis in front, as long as the loop's trips */
};

struct tw_merged { /* an output of a branch */
	struct twir_tensor *yes, *no, *out;
	struct tw_decided_pair {
		struct twir_var *symbol; /* NULL: both sides have this size */
		const struct twir_expr *yes, *no;
	} sizes[TWIR_MAX_RANK];
};

struct tw_flow {
	const char *name;
	/* loop */
	struct twir_var *number;       /* symbol: 0 .. trips - 1 */
	const struct twir_expr *trips; /* how often it runs at most */
	struct twir_tensor *count;     /* i64: how often it runs at most; NULL: trips says it all */
	struct twir_tensor *condition; /* i1: of the branch; of a loop: before it begins; NULL: true */
	struct twir_tensor *go_on;     /* i1, made inside: is there another iteration? NULL: true */
	struct twir_var *ran;	       /* symbol: how often it ran; NULL: trips */
	VEC(struct tw_carried) carried;
	VEC(struct tw_slice) slices;
	/* of Loop, Scan and If laid out flat */
	tw_id token;			 /* the tensor by which their nodes know each other */
	bool unknown_count, conditional; /* loop: only data knows its count; whether it begins */
	bool asks;			 /* loop: data decides after each iteration whether there is another */
	/* branch */
	const struct twir_expr *known; /* the condition over symbols; NULL: data decides */
	int outside;		       /* g->assumed.n */
	VEC(struct tw_merged) merged;
};

struct tw_flow *tw_flow_new(struct tw_graph *g, const char *name);
/* Gives the loop its number symbol. Between iterations memory is planned for number 0 and trips - 1. */
void tw_flow_number(struct tw_opctx *x, struct tw_flow *f, const struct twir_expr *trips);
/* The flow whose nodes share this node's input 0, or output 0 of its first node. */
struct tw_flow *tw_flow_of(const struct tw_graph *g, tw_id token);
void tw_flow_mark(struct tw_opctx *x, enum tw_mark_kind kind, struct tw_flow *f);
/* A tensor of t's type and shape with t's elements: a definition of its own. */
struct twir_tensor *tw_copy_of(struct tw_opctx *x, struct twir_tensor *t, const char *name);

/* branch.c: at the end of a branch (BranchEnd), before it is judged: 1, 0: that side it is, without a branch; -1: there
   is a choice. */
int tw_branch_side(struct tw_graph *g, const struct tw_node *end);

#endif
