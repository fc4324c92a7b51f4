/* Between rows.c, rows_plan.c and attention.c: the stages of a row program in the making. */
#ifndef TW_ROWS_INT_H
#define TW_ROWS_INT_H

#include "sched/nest.h"

#define ROWS_MAX_FOLDS 8

struct row_fold {
	enum twir_kind op;
	const struct twir_expr *body; /* over the nests' variables */
	struct twir_var *total;
	int phase;		     /* of its loop; the result is known after it */
	struct twir_tensor *partial; /* registers */
	struct twir_tensor *whole; /* registers that take the sum of each piece of a long row, or NULL; then the sum */
};

struct row_part {
	const struct tw_stage *s;
	const struct twir_expr *value, *place[TWIR_MAX_RANK]; /* over the nests' variables */
	int nfolds,
		phase; /* of an element, the loop that computes it; of a row value, the loop before which it is known */
	struct row_fold fold[ROWS_MAX_FOLDS];
	bool late;		   /* needed in later phases too */
	bool kept;		   /* in scratch */
	bool used;		   /* needed in its own phase */
	struct twir_tensor *store; /* scratch; of a row value with lanes over rows: registers */
	const struct twir_expr
		*now; /* the variable: of an element in its own phase, of a row value with lanes over the row */
};

struct row_plan {
	struct twir_module *m;
	const struct tw_target *t;
	const struct tw_rows *rows;
	struct row_part *part;
	int n, lanes, phases;
	struct tw_nest over, inner; /* rows; elements of a row */
	bool along;		    /* lanes over the elements of a row; else over rows */
	struct tw_map part_of;	    /* tensor -> number + 1 */
	struct tw_map total_of;	    /* a total's variable -> struct row_fold * */
	/* Rows that already lie in scratch: what stages load of `given` and define as `made` is held[held_row,
	 * element]. NULL: none. */
	struct twir_tensor *given, *made, *held;
	const struct twir_expr *held_row;
	const struct twir_expr *limit; /* with held: how many elements of a row count; NULL: all */
};

/* rows.c: the statements for one row (or one tile of neighbouring rows, whose first is `first`), over the
 * variables of the nest of rows. */
struct twir_stmt *rows_body(struct row_plan *p, int unroll, struct twir_var *first);

/* rows_plan.c: nests, lanes, phases, what is kept. */
void rows_plan(struct row_plan *p);
struct row_part *rows_part_of(const struct row_plan *p,
			      const struct twir_expr *e); /* of a load; NULL: not of a stage */
/* Does e change within a row? */
bool rows_varies(const struct row_plan *p, const struct twir_expr *e);

#endif
