/* verify_int: what the two files of the verifier share. */
#ifndef TW_VERIFY_INT_H
#define TW_VERIFY_INT_H

#include "ir/ir_int.h"

enum { SEEN_VISIBLE = 1, SEEN_GONE = 2 };

struct twir_verifier {
	struct tw_arena *arena; /* of this run; freed before raising */
	enum tw_code blame;
	struct twir_diagnostic
		*report; /* where a fault is told beside raising it, its texts in report_arena; NULL: nowhere */
	struct tw_arena *report_arena;
	const char *what, *name;	 /* "program", its name */
	const struct twir_program *prog; /* NULL: a definition or func */
	const struct twir_compute *compute;
	const struct twir_func *func;
	const struct twir_launch *launch;
	const struct twir_stmt *stmt; /* being looked at; NULL: the head */
	struct tw_map state;	      /* var, tensor -> SEEN_* */
	VEC(const void *) scope;      /* visible ones, innermost last */
	struct tw_map done;	      /* expr -> the round in which it was checked; without folds' axes */
	int64_t round;
	int depth;
	int64_t lanes; /* of a CPU launch; 0: no lane level */
	bool cpu, gpu;
	/* inside a region of lanes of a CPU program */
	bool region;
	int region_scope;	/* scope.n at its start: what is above belongs to the lane */
	struct tw_map loaded;	/* vars whose value comes from data */
	struct tw_map lanewise; /* vars whose value differs between lanes */
	bool lane_guard;	/* under a condition that depends on the lane */
	unsigned taken;		/* bits of levels whose regions we are in */
	bool in_reduce;
};

/* The reason; behind "\nhint: " what to do. */
_Noreturn void twir_verify_fail(struct twir_verifier *v, const char *fmt, ...) TW_PRINTF(2, 3);
void twir_verify_bind(struct twir_verifier *v, const void *object, const char *name);
void twir_verify_unbind(struct twir_verifier *v, int mark);
/* Checks the statements of a block one by one; what they bind is bound in it alone. */
void twir_verify_block(struct twir_verifier *v, const struct twir_stmt *list,
		       void (*check)(struct twir_verifier *v, const struct twir_stmt *s));
bool twir_verify_visible(const struct twir_verifier *v, const void *object);

/* verify.c */
void twir_verify_start(struct twir_verifier *v, const struct twir_module *m, enum tw_code blame, const char *what,
		       const char *name);
void twir_verify_tensor(struct twir_verifier *v, const struct twir_tensor *t, bool constant, const char *what);

/* verify_expr.c */
void twir_verify_expr(struct twir_verifier *v,
		      const struct twir_expr *e); /* types, arity, scopes, what may stand where */
void twir_verify_sizes(struct twir_verifier *v, int n, const struct twir_expr *const *e, bool constant,
		       const char *what);
bool twir_verify_loaded(struct twir_verifier *v, const struct twir_expr *e); /* does it depend on data? */
bool twir_verify_lanewise(struct twir_verifier *v,
			  const struct twir_expr *e);	    /* may differ between lanes of the region? */
bool twir_verify_spread(const struct twir_map *f, int dim); /* do workers differ in this dimension? */
/* An access of a register tensor: own elements only, where that can be told. */
void twir_verify_register(struct twir_verifier *v, const struct twir_tensor *t, int n,
			  const struct twir_expr *const *index, bool store);

#endif
