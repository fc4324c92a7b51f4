/* simplify_int: the simplifier's own header. Index expressions become polynomials: sums of coefficient * product of
 * atoms plus a constant, where an atom is any index expression that is no sum or product (a variable, x / c,
 * min(..), a load). */
#ifndef TW_IR_SIMPLIFY_INT_H
#define TW_IR_SIMPLIFY_INT_H

#include "ir/ir.h"

#define TWIRS_TERMS 18 /* larger sums are left as they are */
#define TWIRS_ATOMS 5  /* larger products too */

struct twirs_mono { /* k * a[0] * a[1] ..; atoms in the order of their ids; n = 0: the number k */
	int64_t k;
	int n;
	const struct twir_expr *a[TWIRS_ATOMS];
};

struct twirs_poly { /* terms in the order of their atoms, no coefficient is 0 */
	int n;
	int64_t c;
	struct twirs_mono t[TWIRS_TERMS];
};

struct twirs_undo {
	uint64_t key;
	void *old;
};

struct twirs_layer { /* where the stacks stood when it began */
	int known, facts, undo, defs;
	uint64_t signature, ground;
};

/* What was found out under one set of facts. */
struct twirs_memo {
	struct tw_map simple; /* expression -> simplified */
};

/* What does not depend on the conditions themselves, but on what follows from them. */
struct twirs_ground {
	struct tw_map ranges; /* expression -> struct twir_range */
	struct tw_map proofs; /* hash of a polynomial -> itself when proved, else another pointer */
};

struct twirs_fact {
	const struct twirs_poly *p; /* >= 0 */
	uint64_t terms[2];	    /* bits of the first atoms of its terms above and below zero */
};

struct twirs_state {
	VEC(struct twirs_layer) layers;
	VEC(struct twirs_fact) facts; /* definitions of lets are put in */
	VEC(struct twirs_undo) undo;  /* of twir_facts.ranges */
	struct tw_map defs;	      /* let variable -> struct twirs_poly */
	VEC(const struct twir_var *) defined;
	struct tw_map replaced;	 /* let variable -> expression */
	int nested;		 /* conditions assumed inside of expressions */
	uint64_t signature;	 /* of all facts in force: equal ones share a memo */
	struct twirs_memo *memo; /* of the signature; NULL: to be looked up */
	struct tw_map memos;	 /* signature -> struct twirs_memo */
	uint64_t ground;	 /* of facts, ranges and definitions alone */
	struct twirs_ground *on; /* of that signature; NULL: to be looked up */
	struct tw_map grounds;	 /* signature -> struct twirs_ground */
	struct tw_map seen;	 /* variables that memos may speak of */
};

/* simplify_poly.c; functions that return bool: false when a limit or 64 bits are exceeded, then the result is
 * undefined */
bool twirs_add_mono(struct twirs_poly *p, const struct twirs_mono *t);
bool twirs_add(struct twirs_poly *p, const struct twirs_poly *q, const struct twirs_mono *by); /* p += q * by */
bool twirs_mul(struct twirs_poly *r, const struct twirs_poly *a, const struct twirs_poly *b);
bool twirs_mono_mul(struct twirs_mono *r, const struct twirs_mono *a, const struct twirs_mono *b);
bool twirs_mono_div(struct twirs_mono *r, const struct twirs_mono *a, const struct twirs_mono *b); /* exact, or false */
void twirs_mono_gcd(struct twirs_mono *r, const struct twirs_mono *a, const struct twirs_mono *b);
bool twirs_mono_same(const struct twirs_mono *a, const struct twirs_mono *b); /* but for the coefficient */
void twirs_mono_without(struct twirs_mono *r, const struct twirs_mono *a, int atom);
void twirs_mono_of(struct twirs_mono *t, const struct twirs_poly *p,
		   const struct twir_expr *whole); /* whole as one atom if p is no monomial */
void twirs_poly_of(const struct twir_expr *e,
		   struct twirs_poly *p); /* of a simplified expression; never fails: at worst an atom */
const struct twir_expr *twirs_build(struct twir_module *m, const struct twirs_poly *p);
const struct twir_expr *twirs_build_mono(struct twir_module *m, const struct twirs_mono *t);
bool twirs_is_index(const struct twir_expr *e);
int64_t twirs_gcd(int64_t a, int64_t b);
uint64_t twirs_hash(const struct twirs_poly *p);
/* Sets of atoms by which most that have nothing in common are told apart. */
static inline uint64_t twirs_bit(const struct twir_expr *atom)
{
	return (uint64_t)1 << (atom->id & 63);
}
static inline struct twirs_mono twirs_number(int64_t k)
{
	return (struct twirs_mono){.k = k};
}
static inline struct twirs_mono twirs_atom(const struct twir_expr *e)
{
	return (struct twirs_mono){.k = 1, .n = 1, .a = {e}};
}

/* simplify_range.c */
struct twir_range twirs_range_mono(struct twir_facts *f, const struct twirs_mono *t);
struct twir_range twirs_range_poly(struct twir_facts *f, const struct twirs_poly *p);
struct twir_range twirs_range_terms(struct twir_facts *f, const struct twirs_poly *p,
				    int64_t *least); /* of p; least: of each term */
void twirs_narrow(struct twir_facts *f, const struct twir_expr *atom, int64_t lo, int64_t hi);

/* simplify_prove.c: true only when it certainly holds */
bool twirs_nonneg(struct twir_facts *f, const struct twirs_poly *p);
bool twirs_positive(struct twir_facts *f, const struct twirs_mono *c);
void twirs_expand(struct twir_facts *f, struct twirs_poly *p); /* puts definitions of lets in */

/* simplify_div.c */
bool twirs_divide(struct twir_facts *f, const struct twirs_poly *x, const struct twirs_poly *c, struct twirs_poly *div,
		  struct twirs_poly *mod);
bool twirs_ceil(struct twir_facts *f, const struct twirs_poly *x, const struct twirs_poly *c, struct twirs_poly *r);
bool twirs_normalise(struct twir_facts *f, struct twirs_poly *p); /* true: changed */

/* simplify_facts.c */
bool twirs_assume(struct twir_facts *f, const struct twir_expr *cond,
		  bool holds); /* false: nothing to learn; into the top layer */
void twirs_fact(struct twir_facts *f, const struct twirs_poly *p, int depth); /* p >= 0 from now on */
void twirs_push(struct twir_facts *f);
struct twirs_memo *twirs_memo(struct twir_facts *f);
struct twirs_ground *twirs_ground(struct twir_facts *f);
void twirs_sign(struct twir_facts *f, uint64_t a, uint64_t b); /* the facts in force have changed, by a and b */
void twirs_pop(struct twir_facts *f);
void twirs_define(struct twir_facts *f, const struct twir_var *v, const struct twir_expr *value);
void twirs_replace(struct twir_facts *f, const struct twir_var *v, const struct twir_expr *value);

/* simplify_logic.c */
const struct twir_expr *twirs_compare(struct twir_facts *f, enum twir_kind k, const struct twir_expr *a,
				      const struct twir_expr *b);
const struct twir_expr *twirs_and_or(struct twir_facts *f, const struct twir_expr *e);
bool twirs_informs(const struct twir_expr *cond); /* is there something to learn from it? */
const struct twir_expr *twirs_negate(struct twir_module *m, const struct twir_expr *e);
int twirs_known(struct twir_facts *f, const struct twir_expr *cond); /* 1 true, 0 false, -1 unknown */

#endif
