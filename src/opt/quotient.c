/* Quotients by constants as products: a division takes as long as ten multiplications.
 *
 *  - Always, when the reciprocal is exact (powers of two): the result is the same in every bit.
 *  - Unless results must be exact, in the argument of erf (GELU divides by the square root of two): it moves by at
 *    most an ulp, where erf is smooth.
 *  - Unless results must be exact, where the dividend stems from a sum of products, whose last bits depend on the order
 *    of the sum anyway (hard swish divides by six), and nothing rounds the result to an integer before the next such
 *    sum. */
#include "opt/group_int.h"

#include <math.h>

typedef const struct twir_expr *E;

struct quotients {
	struct grouping *x;
	bool exact, smooth; /* in the argument of erf */
	bool *summed;	    /* by definition: depends on a sum of products */
	bool *rounded;	    /* by definition: is rounded to an integer, or what is made of it without such a sum */
	bool here;	    /* the definition at hand is not rounded */
};

static bool is_float(E e)
{
	return e->type.scalar == TWIR_F32 || e->type.scalar == TWIR_F64;
}

static bool rounds(E e)
{
	return e->kind == TWIR_Floor || e->kind == TWIR_Ceil || e->kind == TWIR_Round || e->kind == TWIR_Trunc ||
	       (e->kind == TWIR_Cast && e->type.scalar != TWIR_I1 && !twir_is_float(e->type.scalar) &&
		is_float(e->arg[0]));
}

struct search {
	const struct quotients *q;
	bool product, sum, rounding;
};

static void see_product(void *arg, E e)
{
	((struct search *)arg)->product |= is_float(e) && (e->kind == TWIR_Mul || e->kind == TWIR_Fma);
}

static bool sums_products(E e)
{
	struct search s = {0};
	if (e->kind != TWIR_Fold || e->op != TWIR_Add || !is_float(e))
		return false;
	twir_visit_expr(e->arg[0], see_product, &s);
	return s.product;
}

static void see(void *arg, E e)
{
	struct search *s = arg;
	s->rounding |= rounds(e);
	s->sum |= sums_products(e);
	if (e->kind == TWIR_Load && s->q->summed) {
		const int p = group_producer_of(s->q->x, e->u.tensor);
		s->sum |= p >= 0 && s->q->summed[p];
	}
}

static struct search search(const struct quotients *q, E e)
{
	struct search s = {.q = q};
	twir_visit_expr(e, see, &s);
	return s;
}

static E product(struct twir_rewriter *r, E e)
{
	const struct quotients *q = r->user;
	if (e->kind == TWIR_Call && !q->smooth && !q->exact && strncmp(e->u.func->name, "erf_f", 5) == 0) {
		struct quotients inner = *q;
		struct twir_rewriter in;
		inner.smooth = true;
		twir_rewriter_init(&in, r->m);
		in.user = &inner;
		in.expr = product;
		const E arg = twir_rewrite_expr(&in, e->arg[0]);
		return twir_call(r->m, e->u.func, 1, &arg);
	}
	if (e->kind != TWIR_Div || !is_float(e) || e->arg[1]->kind != TWIR_Const)
		return e;
	int exponent;
	const double c = e->arg[1]->u.f, mantissa = fabs(frexp(c, &exponent));
	const bool near = exponent > -20 && exponent < 20;
	if ((mantissa == 0.5 && exponent > -120 && exponent < 120) || (near && q->smooth) ||
	    (near && q->here && search(q, e->arg[0]).sum))
		return twir_mul(r->m, e->arg[0], twir_const_of(r->m, e->type, 1 / c));
	return e;
}

/* Definitions stand in the order in which they depend on each other, but for what loops carry. */
static void find_sums(struct quotients *q)
{
	struct grouping *x = q->x;
	for (int i = 0; i < x->n; i++)
		q->summed[i] = x->def[i].c && search(q, x->def[i].c->value).sum;
	for (int i = x->n - 1; i >= 0; i--) {
		struct twir_tensor **t;
		int n;
		if (!x->def[i].c)
			continue;
		const struct quotients none = {.x = x};
		const struct search s = search(&none, x->def[i].c->value);
		q->rounded[i] |= s.rounding;
		if (!s.rounding && (s.sum || !q->rounded[i]))
			continue;
		tw_loaded_tensors(x->a, x->def[i].c->value, &t, &n);
		for (int k = 0; k < n; k++) {
			const int p = group_producer_of(x, t[k]);
			if (p >= 0)
				q->rounded[p] = true;
		}
	}
}

void group_without_quotients(struct grouping *x, bool exact)
{
	struct quotients q = {.x = x,
			      .exact = exact,
			      .summed = ARENA_ARRAY(x->a, bool, x->n),
			      .rounded = ARENA_ARRAY(x->a, bool, x->n)};
	struct twir_rewriter r;
	twir_rewriter_init(&r, x->m);
	r.user = &q;
	r.expr = product;
	if (!exact)
		find_sums(&q);
	for (int i = 0; i < x->n; i++) {
		q.here = !exact && !q.rounded[i];
		if (x->def[i].c)
			x->def[i].c->value = twir_rewrite_expr(&r, x->def[i].c->value);
	}
}
