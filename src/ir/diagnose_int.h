/* diagnose_int: what the files of the diagnosis share. A program is walked once (diagnose_walk.c) into a list of events,
 * accesses and barriers in the order of the text, each in a chain of frames: the loops, mappings and conditions around
 * it. Indices are simplified and hold no integer lets, so that they speak of symbols, loop variables and workers only.
 * The questions are asked of that list. */
#ifndef TW_IR_DIAGNOSE_INT_H
#define TW_IR_DIAGNOSE_INT_H

#include "ir/ir_int.h"
#include "ir/simplify_int.h"

#define TWIRD_EVENTS  2000 /* larger programs are not looked at: they were made by a machine */
#define TWIRD_BINDERS 32

enum twird_frame_kind { TWIRD_LOOP, TWIRD_TASKS, TWIRD_GUARD };

struct twird_frame {
	const struct twird_frame *outer; /* NULL: the program's body */
	int depth;			 /* 1: no outer one */
	enum twird_frame_kind kind;
	const struct twir_stmt *stmt;
	int n; /* variables of a loop or mapping */
	struct twir_var *vars[TWIR_MAX_RANK];
	const struct twir_expr *extent[TWIR_MAX_RANK], *bound[TWIR_MAX_RANK]; /* bound: NULL where there is none */
	bool projected;							      /* several workers do one task */
	unsigned levels;						      /* bits of enum twir_level */
	const struct twir_expr *cond;					      /* holds inside */
};

enum twird_kind { TWIRD_LOAD, TWIRD_STORE, TWIRD_DECLARE, TWIRD_SYNC, TWIRD_COMMIT, TWIRD_WAIT };

struct twird_event {
	enum twird_kind kind;
	const struct twird_frame *frame; /* innermost; NULL: none */
	const struct twir_stmt *stmt;
	const struct twir_expr *expr; /* of a load */
	struct twir_tensor *tensor;
	int n;
	const struct twir_expr *index[TWIR_MAX_RANK];
	int lanes; /* elements in a row of a wide access */
	bool masked, scattered;
	bool fragment;	       /* of a matrix instruction: the last element of what a lane holds */
	enum twir_level level; /* of a barrier */
	int pending;	       /* of a wait: groups that may be under way behind it */
};

enum { TWIRD_BY_LANE = 1, TWIRD_BY_WARP = 2, TWIRD_BY_DATA = 4 }; /* what a value differs by within a block */

struct twird {
	struct twir_module *m;
	const struct twir_program *p;
	struct tw_arena *arena; /* of the result */
	struct tw_arena *scratch;
	VEC(struct twir_diagnostic) list;
	VEC(struct twird_event) events; /* in the order of the text */
	const struct twird_frame *at;
	const struct twir_stmt *stmt;
	struct twir_facts facts; /* of the place of the walk */
	struct tw_map differs;	 /* variable -> bits */
	struct tw_map declared;	 /* tensor -> number of the event that declares it + 1; parameters have none */
	bool gpu, too_large;
};

void twird_say(struct twird *d, enum twir_severity severity, const struct twir_stmt *s, const char *hint,
	       const char *fmt, ...) TW_PRINTF(5, 6);
void twird_unsay(struct twird *d, const struct twir_stmt *s);		/* errors there: a better one follows */
const char *twird_access(struct twird *d, const struct twird_event *e); /* "A[i, j + 1]" */

/* diagnose_walk.c: fills events; proves bounds and looks for divergent barriers on the way */
void twird_walk(struct twird *d);
int twird_declared(const struct twird *d, const struct twir_tensor *t); /* the event that does; -1: a parameter */

/* diagnose_trial.c: runs the program at a few small sizes in the interpreter: what it finds is certain */
void twird_trial(struct twird *d);

/* diagnose_cover.c */
struct twird_binder {
	struct twir_var *var;
	const struct twir_expr *extent; /* of binders that come before and symbols */
};
struct twird_binders { /* everything that makes an event happen several times, outermost first */
	int n, nguards;
	struct twird_binder at[TWIRD_BINDERS];
	const struct twir_expr *guards[TWIRD_BINDERS];
	unsigned pinned; /* bits of binders that have one value only, by a guard v == x */
	bool projected, too_many;
};
/* Of the frames inside `above`; workers: bits of levels whose workers count too where no mapping hands tasks to them. */
void twird_bind(struct twird *d, const struct twird_event *e, const struct twird_frame *above, unsigned workers,
		struct twird_binders *b);
const struct twird_frame *twird_common(const struct twird_frame *a, const struct twird_frame *b);
bool twird_inside(const struct twird_frame *f, const struct twird_frame *of); /* f is `of` or within it; NULL: all */
void twird_launch(struct twird *d, struct twir_facts *f); /* there are workers, numbered below the launch */
void twird_enter(struct twir_facts *f, const struct twird_frame *frame); /* what holds there, outer frames too */
void twird_below(struct twir_facts *f, const struct twir_expr *v, const struct twir_expr *extent);
/* An index as a number in mixed radix: base + the sum of stride * binder. */
struct twird_digit {
	int binder;
	const struct twir_expr *stride;
};
struct twird_digits {
	int n;
	struct twird_digit at[TWIRS_TERMS];
	const struct twir_expr *base;
};
/* The index of the dimensions from .. to, as one number in row order, as digits; false: it is something else. */
bool twird_digits_of(struct twird *d, struct twir_facts *f, const struct twird_event *e, const struct twird_binders *b,
		     int from, int to, struct twird_digits *g);
/* Do different values of the binders give different elements? Only dimensions with a bit in dims are looked at. */
bool twird_injective(struct twird *d, const struct twird_event *e, const struct twird_binders *b, unsigned dims);
/* Is each element stored that `of` (NULL: any element of the tensor) can ask for? Dimensions with a bit in same are taken
 * to agree. */
bool twird_covers(struct twird *d, const struct twird_event *e, const struct twird_binders *b,
		  const struct twird_event *of, unsigned same);

bool twird_beyond(struct twird *d, const struct twird_event *e, int k, const struct twir_expr *size);

void twird_once(struct twird *d);   /* diagnose_once.c: outputs are stored once */
void twird_owners(struct twird *d); /* diagnose_owner.c: workers touch their own registers only */
/* diagnose_assign.c: local tensors are stored before they are read */
void twird_assign(struct twird *d);
bool twird_same_map(const struct twir_map *a, const struct twir_map *b);
bool twird_alike(struct twird *d, const struct twird_event *store, const struct twird_event *load,
		 const struct twird_frame *common, unsigned *same);
/* diagnose_bytes.c: stores to outputs of packed types, and each byte to one worker; the first that is not proved so */
const struct twird_event *twird_shared_byte(struct twird *d);
/* diagnose_race.c */
struct twird_turn { /* a loop of one of two events is at a turn that is known */
	struct twir_var *var;
	int64_t number;
	bool second; /* of the second event's */
};
struct twird_turns {
	const struct twird_frame *next; /* a loop around both, whose turn is a later one for the second; NULL: none */
	int64_t ahead;			/* by so many; 0: by one or more */
	int n;
	struct twird_turn at[2];
};
/* Do they differ in some index, whichever workers run them? */
bool twird_apart(struct twird *d, const struct twird_event *a, const struct twird_event *b,
		 const struct twird_frame *common, const struct twird_turns *turns);
/* diagnose_copy.c: asynchronous copies have arrived, and all are told, before what they fill is touched */
void twird_copies(struct twird *d);
/* diagnose_ring.c: is what the load reads stored some turns before it, in a buffer of as many parts or more? */
bool twird_ring(struct twird *d, int load, int declared);
/* diagnose_assign.c: does the store, which comes first, reach all that the load can ask for? */
bool twird_assigned_by(struct twird *d, const struct twird_event *store, const struct twird_event *load);
void twird_races(struct twird *d); /* diagnose_race.c: workers do not touch one element without a barrier */

#endif
