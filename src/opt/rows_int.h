/* Between rows.c and attention.c: the search for a row program. */
#ifndef TW_OPT_ROWS_INT_H
#define TW_OPT_ROWS_INT_H

#include "opt/group_int.h"

#define ROWS_MAX_STAGES 32

/* Where a tensor's elements lie in the space: index expressions over row[] and fold[]. */
struct rows_place {
	struct twir_tensor *t;
	bool row; /* one element a row */
	const struct twir_expr *at[TWIR_MAX_RANK];
};

struct rows_search {
	struct grouping *x;
	struct twir_module *m;
	struct tw_rows *rows;
	struct twir_facts facts;     /* of an element: there is one */
	struct twir_facts row_facts; /* of a row: there is one; it may be empty */
	VEC(struct rows_place) places;
	VEC(int) members;
	VEC(int) guests;	     /* products before and behind the stages: of the task too, but no stages */
	VEC(struct tw_stage) stages; /* parallel to members */
};

/* Own axes of a definition, then those of one of its folds. */
struct rows_axes {
	int n;
	struct twir_var *var[2 * TWIR_MAX_RANK];
	const struct twir_expr *extent[2 * TWIR_MAX_RANK], *at[2 * TWIR_MAX_RANK]; /* at: found places in the space */
};

/* rows.c */
const struct twir_expr *rows_simple(struct rows_search *s, const struct twir_expr *e);
const struct rows_place *rows_place_of(const struct rows_search *s, const struct twir_tensor *t); /* NULL: not known */
/* Axes of a definition and, if not NULL, of a fold of it; false: too many. */
bool rows_list_axes(const struct twir_compute *c, const struct twir_expr *fold, struct rows_axes *a);
/* e with axes replaced by their places. */
const struct twir_expr *rows_at_axes(struct rows_search *s, const struct twir_expr *e, const struct rows_axes *a);
bool rows_reads_in_place(struct rows_search *s, const struct twir_expr *value);
void rows_add_member(struct rows_search *s, int i, const struct tw_stage *stage);
bool rows_is_member(const struct rows_search *s, int i);
/* With `extra` among the members: does every way from one member to another stay among them? Between them there
 * may be no mark and no host operator. */
bool rows_closed(const struct rows_search *s, int extra);
/* The definition p, which makes a tensor that stages load at its known place, as a stage; false: it cannot be one. */
bool rows_producer_stage(struct rows_search *s, int p, struct tw_stage *stage);

/* attention.c: makes the row program found the middle of an attention, if a product makes its rows and the only
 * user of its result is another one. Adds guests (and a stage for what lies between the first product and the
 * rows). NULL: it is none. */
struct tw_attention *group_find_attention(struct rows_search *s);
/* causal.c: sets a->limit where the stages' masks allow it. */
void group_find_limit(struct rows_search *s, struct tw_attention *a);

#endif
