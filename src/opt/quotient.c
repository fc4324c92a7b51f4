/* Quotients by constants as products: a division takes as long as ten multiplications.
 *
 *  - Always, when the reciprocal is exact (powers of two): the result is the same in every bit.
 *  - In the argument of erf, unless results must be exact: GELU divides by the square root of two. The argument
 *    moves by at most an ulp, where erf is smooth. */
#include "opt/group_int.h"

#include <math.h>

typedef const struct twir_expr *E;

struct quotients {
	bool smooth; /* in the argument of erf */
	bool exact;
};

static bool exact_reciprocal(double c)
{
	int exponent;
	return fabs(frexp(c, &exponent)) == 0.5 && exponent > -120 && exponent < 120;
}

static E product(struct twir_rewriter *r, E e)
{
	const struct quotients *q = r->user;
	if (e->kind == TWIR_Call && !q->smooth && !q->exact && strncmp(e->u.func->name, "erf_f", 5) == 0) {
		struct quotients inner = {.smooth = true};
		struct twir_rewriter in;
		twir_rewriter_init(&in, r->m);
		in.user = &inner;
		in.expr = product;
		const E arg = twir_rewrite_expr(&in, e->arg[0]);
		return twir_call(r->m, e->u.func, 1, &arg);
	}
	if (e->kind != TWIR_Div || (e->type.scalar != TWIR_F32 && e->type.scalar != TWIR_F64) ||
	    e->arg[1]->kind != TWIR_Const)
		return e;
	const double c = e->arg[1]->u.f;
	if (exact_reciprocal(c) || (q->smooth && fabs(c) > 1e-6 && fabs(c) < 1e6))
		return twir_mul(r->m, e->arg[0], twir_const_of(r->m, e->type, 1 / c));
	return e;
}

void group_without_quotients(struct grouping *x, bool exact)
{
	struct quotients q = {.exact = exact};
	struct twir_rewriter r;
	twir_rewriter_init(&r, x->m);
	r.user = &q;
	r.expr = product;
	for (int i = 0; i < x->n; i++)
		if (x->def[i].c)
			x->def[i].c->value = twir_rewrite_expr(&r, x->def[i].c->value);
}
