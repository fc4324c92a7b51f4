/* Between the files of grouping: definitions while it is decided which of them share a task. */
#ifndef TW_GROUP_INT_H
#define TW_GROUP_INT_H

#include "ops/flow.h"
#include "opt/opt.h"

struct group_def {
	struct twir_compute *c; /* NULL: host operator or mark */
	const struct tw_mark *mark;
	tw_id node;
	int region;		     /* of loops and branches: an index, -1 outside of all */
	bool anchor;		     /* holds a fold */
	bool gone;		     /* inlined into all consumers, or unused */
	bool output;		     /* a graph output, or read by a host operator */
	bool constant;		     /* depends on constants only */
	bool whole;		     /* its parts are stored straight into it (parts.c): no task */
	struct group_pieces *pieces; /* may become a whole: holds still until that is decided */
	int epilogue_of;	     /* anchor index, -1 */
	int consumer;		     /* of an anchor: definition index, -1 */
	struct group_rows *rows;     /* the row program it is a stage of */
	VEC(int) users;		     /* definitions that load it */
	VEC(int) producers;	     /* of an anchor, in order */
	VEC(const char *) origins;
};

/* Definitions that become one row program (rows.c). */
struct group_rows {
	VEC(int) members; /* in order */
	struct tw_rows *rows;
	struct tw_attention *attention; /* NULL, or: the first and the last of the members are its products */
	int product;			/* of an attention: the last; it may take an epilogue. -1: none */
};

struct grouping {
	const struct tw_definitions *d;
	struct tw_graph *g;
	struct twir_module *m;
	struct tw_arena *a;
	struct group_def *def;
	int n;
	struct tw_map by_tensor; /* twir_tensor -> index + 1 */
	VEC(int) outer;		 /* by region: the one around it */
	struct tw_map pinned;	 /* tensors that a loop or branch hands on: made where they stand, in a run */
	struct tw_map asked;	 /* tensors that a loop or branch reads */
};

/* group.c */
int group_producer_of(const struct grouping *x, const struct twir_tensor *t); /* definition index, -1 */
/* Could d be fused into the store of the definition that makes t? */
bool group_invertible(struct grouping *x, const struct twir_compute *d, const struct twir_tensor *t);
/* Is the definition one that some anchor could take as its epilogue, other than those in row programs and the n of
 * `except`? */
bool group_serves_an_anchor(struct grouping *x, int i, int n, const int *except);
/* Records who loads what definition i and its producers load: i does. */
void group_link_loads(struct grouping *x, int i);
/* Does it cost nothing that definition i, which holds no fold, becomes part of all that load it? */
bool group_would_vanish(struct grouping *x, int i);
/* Definition i, which holds no fold, becomes part of all that load it. */
void group_vanish(struct grouping *x, int i);
/* The definition's value with its producers inlined. */
const struct twir_expr *group_whole_value(struct grouping *x, int i);

/* rows.c: chains of definitions that fold over the same axes of rows and read each other become row programs.
 * Comes after injective definitions have vanished and before epilogues are joined. */
void group_find_rows(struct grouping *x);

/* parts.c: definitions that lay others side by side are marked, then become wholes where that spares copies. Comes while
 * injective definitions vanish. */
void group_find_pieces(struct grouping *x);
void group_make_parts(struct grouping *x, struct tw_groups *out);

/* cheaper.c: divisions by constants become multiplications and more of the kind, where nothing, or little (not with
 * exact), is lost. */
void group_cheaper_arithmetic(struct grouping *x, bool exact);
/* Comes after what looks for sums and products. */
void group_multiply_add(struct grouping *x);

#endif
