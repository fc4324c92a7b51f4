/* Cheaper arithmetic. Quotients by constants become products, since a division takes as long as ten multiplications:
 *
 *  - Always, when the reciprocal is exact (powers of two): the result is the same in every bit.
 *  - Unless results must be exact, in the argument of erf (GELU divides by the square root of two): it moves by at
 *    most an ulp, where erf is smooth. Not where something there is rounded to an integer.
 *  - Unless results must be exact, where the dividend stems from a sum of products, whose last bits depend on the order
 *    of the sum anyway (hard swish divides by six), and nothing rounds the result to an integer before the next such
 *    sum.
 *
 * In this last case products with two constants become products with one, and, as a second pass, what is added to a
 * product with a constant, or a constant to a product, is added in one step. */
#include "opt/group_int.h"

#include <math.h>

typedef const struct twir_expr *E;

struct cheaper {
	struct grouping *x;
	bool exact, fma;
	bool smooth;   /* in the argument of erf */
	bool *summed;  /* by definition: depends on a sum of products */
	bool *rounded; /* by definition: is rounded to an integer, or what is made of it without such a sum */
	bool here;     /* nothing rounds the definition at hand */
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
	const struct cheaper *q;
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

static struct search search(const struct cheaper *q, E e)
{
	struct search s = {.q = q};
	twir_visit_expr(e, see, &s);
	return s;
}

/* May e, which is made in another way, differ in its last bit? */
static bool may_differ(const struct cheaper *q, E e)
{
	return q->here && search(q, e).sum;
}

static bool moderate(double c)
{
	return fabs(c) > 0x1p-20 && fabs(c) < 0x1p20;
}

static E without_quotient(const struct cheaper *q, E e)
{
	int exponent;
	const double c = e->arg[1]->kind == TWIR_Const ? e->arg[1]->u.f : 0, mantissa = fabs(frexp(c, &exponent));
	if ((mantissa == 0.5 && exponent > -120 && exponent < 120) ||
	    (moderate(c) && (q->smooth || may_differ(q, e->arg[0]))))
		return twir_mul(q->x->m, e->arg[0], twir_const_of(q->x->m, e->type, 1 / c));
	return e;
}

/* The constant factor of a product, and the other one. */
static bool scaled(E e, double *by, E *other)
{
	for (int i = 0; e->kind == TWIR_Mul && i < 2; i++)
		if (e->arg[i]->kind == TWIR_Const) {
			*by = e->arg[i]->u.f;
			*other = e->arg[1 - i];
			return true;
		}
	return false;
}

static E with_one_constant(const struct cheaper *q, E e)
{
	double by, inner;
	E other, left;
	if (scaled(e, &by, &other) && scaled(other, &inner, &left) && moderate(by) && moderate(inner) &&
	    may_differ(q, left))
		return twir_mul(q->x->m, left, twir_const_of(q->x->m, e->type, by * inner));
	return e;
}

static E in_one_step(const struct cheaper *q, E e)
{
	for (int i = 0; q->fma && i < 2; i++) {
		const E product = e->arg[i], term = e->arg[1 - i];
		/* Of two products one would be rounded and the other not: their difference is not zero where it should be. */
		if (product->kind != TWIR_Mul || term->kind == TWIR_Mul || term->kind == TWIR_Fma)
			continue;
		if ((term->kind == TWIR_Const || product->arg[0]->kind == TWIR_Const ||
		     product->arg[1]->kind == TWIR_Const) &&
		    may_differ(q, product))
			return twir_fma(q->x->m, product->arg[0], product->arg[1], term);
	}
	return e;
}

static E cheaper(struct twir_rewriter *r, E e)
{
	const struct cheaper *q = r->user;
	if (e->kind == TWIR_Call && !q->smooth && !q->exact && strncmp(e->u.func->name, "erf_f", 5) == 0 &&
	    !search(&(struct cheaper){.x = q->x}, e->arg[0]).rounding) {
		struct cheaper inner = *q;
		struct twir_rewriter in;
		inner.smooth = true;
		twir_rewriter_init(&in, r->m);
		in.user = &inner;
		in.expr = cheaper;
		const E arg = twir_rewrite_expr(&in, e->arg[0]);
		return twir_call(r->m, e->u.func, 1, &arg);
	}
	if (!is_float(e))
		return e;
	if (e->kind == TWIR_Div)
		e = without_quotient(q, e);
	if (e->kind == TWIR_Mul)
		e = with_one_constant(q, e);
	return e->kind == TWIR_Add ? in_one_step(q, e) : e;
}

/* Definitions stand in the order in which they depend on each other, but for what loops carry. */
static void find_sums(struct cheaper *q)
{
	struct grouping *x = q->x;
	for (int i = 0; i < x->n; i++)
		q->summed[i] = x->def[i].c && search(q, x->def[i].c->value).sum;
	for (int i = x->n - 1; i >= 0; i--) {
		struct twir_tensor **t;
		int n;
		if (!x->def[i].c)
			continue;
		const struct cheaper none = {.x = x};
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

static void begin(struct cheaper *q, struct grouping *x, bool exact)
{
	*q = (struct cheaper){.x = x,
			      .exact = exact,
			      .summed = ARENA_ARRAY(x->a, bool, x->n),
			      .rounded = ARENA_ARRAY(x->a, bool, x->n)};
	if (!exact)
		find_sums(q);
}

static void rewrite(struct cheaper *q, int i)
{
	struct twir_rewriter r;
	twir_rewriter_init(&r, q->x->m);
	r.user = q;
	r.expr = cheaper;
	q->here = !q->exact && !q->rounded[i];
	q->x->def[i].c->value = twir_rewrite_expr(&r, q->x->def[i].c->value);
}

void group_cheaper_arithmetic(struct grouping *x, bool exact)
{
	struct cheaper q;
	begin(&q, x, exact);
	for (int i = 0; i < x->n; i++)
		if (x->def[i].c)
			rewrite(&q, i);
}

void group_multiply_add(struct grouping *x)
{
	struct cheaper q;
	begin(&q, x, false);
	q.fma = true;
	for (int i = 0; i < x->n; i++)
		if (x->def[i].c && !x->def[i].gone && !x->def[i].rows)
			rewrite(&q, i);
}
