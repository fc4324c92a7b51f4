/* shift: quotients and remainders by powers of two become shifts and masks. x >> k and x and (1 << k) - 1 floor for
 * either sign, as index arithmetic does; other signed integers truncate, and change only where they cannot be
 * negative. Last, since what looks at indices before knows quotients. needs: nothing; breaks: nothing. */
#include "pass/pass_int.h"

/* The exponent of a constant power of two, alone or splat; -1: it is none. */
static int exponent(const struct twir_expr *e)
{
	int64_t c;
	if (e->kind == TWIR_Splat)
		e = e->arg[0];
	return twir_const_int(e, &c) && c > 0 && (c & (c - 1)) == 0 ? __builtin_ctzll((unsigned long long)c) : -1;
}

static bool floors(struct twir_facts *f, const struct twir_expr *e)
{
	const enum twir_scalar s = e->type.scalar;
	return s == TWIR_INDEX || !twir_is_signed(s) || (e->type.lanes == 1 && twir_range_of(f, e->arg[0]).lo >= 0);
}

static const struct twir_expr *shifted(struct twir_rewriter *r, const struct twir_expr *e)
{
	if ((e->kind != TWIR_Div && e->kind != TWIR_Mod) || !twir_is_int(e->type.scalar))
		return e;
	const int k = exponent(e->arg[1]);
	if (k <= 0 || !floors(r->user, e))
		return e;
	const bool mod = e->kind == TWIR_Mod;
	return twir_binary(r->m, mod ? TWIR_And : TWIR_Shr, e->arg[0],
			   twir_int(r->m, e->type.scalar, mod ? ((int64_t)1 << k) - 1 : k));
}

void pass_shift(struct twir_module *m, struct twir_program *p, const struct tw_target *t)
{
	(void)t;
	struct twir_facts f;
	struct twir_rewriter r;
	twir_facts_init(&f, m);
	twir_rewriter_init(&r, m);
	r.user = &f;
	r.expr = shifted;
	p->body = twir_rewrite_block(&r, p->body);
}
