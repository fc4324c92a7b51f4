/* lower_int: what the two files of lower_lanes share. */
#ifndef TW_LOWER_INT_H
#define TW_LOWER_INT_H

#include "pass/pass_int.h"

/* A register tensor before and after. */
struct twp_reg {
	struct twir_tensor *was, *now;
	bool per_lane; /* one element for each lane: a vector, or on a scalar target an axis of its own */
	bool inside;   /* declared in the region */
	const struct twir_expr *mask; /* inside: in force at its declaration */
	struct twp_factors f;	      /* of was->mirrors; n = 0: none */
};

struct twp_lower {
	struct twp_walk w; /* facts */
	struct twir_module *m;
	int lanes;
	bool scalar;			    /* the target has no vectors: regions become loops over the lanes */
	bool failed;			    /* the region cannot be vectors */
	struct twir_var *lane;		    /* the worker */
	struct tw_map regs;		    /* tensor -> struct twp_reg */
	struct tw_map vars;		    /* let that differs between lanes -> its vector variable */
	struct tw_map varies, reads, other; /* memos: expr -> 1 no, 2 yes */
};

/* Where an expression is evaluated: which lanes are active. */
struct twp_ctx {
	const struct twir_expr *mask; /* i1 vector; NULL: all lanes */
	const struct twir_expr *any;  /* scalar: is one lane active? NULL: surely */
	bool prefix;		      /* the active lanes are the first ones */
	struct tw_map memo;	      /* expr -> lowered */
	const struct twp_ctx
		*up; /* of the expression around: what it surely loads need not be loaded under a narrower mask */
};

/* lower_expr.c */
void twp_ctx_init(struct twp_lower *k, struct twp_ctx *c, const struct twp_ctx *from); /* from == NULL: all lanes */
/* Lanes of c where cond (not: where it does not hold), whose lowered value is mask. */
void twp_ctx_narrow(struct twp_lower *k, struct twp_ctx *c, const struct twp_ctx *from, const struct twir_expr *cond,
		    bool negate, const struct twir_expr *mask);
bool twp_varies(struct twp_lower *k, const struct twir_expr *e); /* from lane to lane */
const struct twir_expr *twp_lower_expr(struct twp_lower *k, struct twp_ctx *c, const struct twir_expr *e);
const struct twir_expr *twp_vector(struct twp_lower *k, const struct twir_expr *e); /* splat if it is a scalar */
/* An index expression that varies as a vector of i32; NULL: it may not fit. */
const struct twir_expr *twp_narrow(struct twp_lower *k, struct twp_ctx *c, const struct twir_expr *e);
/* How a flat index runs over the lanes. */
enum twp_access { TWP_ONE, TWP_WIDE, TWP_SCATTERED };
enum twp_access twp_access(struct twp_lower *k, struct twp_ctx *c, const struct twir_expr *index,
			   const struct twir_expr **lowered);
/* The flat index that lane 0 has. */
const struct twir_expr *twp_index_of_first(struct twp_lower *k, struct twp_ctx *c, const struct twir_expr *index);
/* The element's index in reg->now; false when it differs between lanes (or the region failed). */
int twp_reg_index(struct twp_lower *k, struct twp_ctx *c, const struct twp_reg *r, int n,
		  const struct twir_expr *const *index, const struct twir_expr **out);

#endif
