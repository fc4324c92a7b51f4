/* Expressions: operators by precedence; the types of literals from what stands beside them.
 * Levels, loosest first: ?: or xor and, comparisons, << >>, + -, * / %, then prefix - and not. */
#include "ir/parse_int.h"

#include <math.h>

const char *twir_type_text(struct twir_parser *p, struct twir_type t)
{
	const char *name = twir_scalar_name((enum twir_scalar)t.scalar);
	return t.lanes == 1 ? name : arena_printf(p->scratch, "%sx%d", name, t.lanes);
}

/* A literal without a suffix, or a choice between such, as a value of another type; everything else as it is. */
const struct twir_expr *twir_retype(struct twir_parser *p, struct twir_operand o, enum twir_scalar to)
{
	const struct twir_expr *e = o.e;
	const struct twir_expr *w = o.wide ? o.wide : e;
	if (o.flexible && e->kind == TWIR_Splat) {
		const struct twir_operand part = {e->arg[0], true, w->kind == TWIR_Splat ? w->arg[0] : NULL};
		return twir_splat(p->m, twir_retype(p, part, to), e->type.lanes);
	}
	if (o.flexible && (e->kind == TWIR_Cond || e->kind == TWIR_Select)) {
		const bool both = w->kind == e->kind;
		const struct twir_expr *a =
			twir_retype(p, (struct twir_operand){e->arg[1], true, both ? w->arg[1] : NULL}, to);
		const struct twir_expr *b =
			twir_retype(p, (struct twir_operand){e->arg[2], true, both ? w->arg[2] : NULL}, to);
		if (!twir_type_eq(a->type, b->type))
			return e;
		return e->kind == TWIR_Cond ? twir_cond(p->m, e->arg[0], a, b) : twir_select(p->m, e->arg[0], a, b);
	}
	if (!o.flexible || e->kind != TWIR_Const || e->type.scalar == to || to == TWIR_I1 || to == TWIR_VOID)
		return e;
	if (twir_is_float(to))
		return twir_float(p->m, to, twir_is_float((enum twir_scalar)w->type.scalar) ? w->u.f : (double)w->u.i);
	if (twir_is_float((enum twir_scalar)e->type.scalar) || twir_wrap(to, e->u.i) != e->u.i ||
	    (to == TWIR_U64 && e->u.i < 0))
		return e;
	return twir_int(p->m, to, e->u.i);
}

void twir_must_fit(struct twir_parser *p, const struct twir_tok *at, struct twir_operand o, enum twir_scalar to)
{
	const struct twir_expr *e = o.e;
	if (o.flexible && e->kind == TWIR_Const && e->type.scalar == TWIR_INDEX && to != TWIR_INDEX && to != TWIR_I1 &&
	    twir_is_int(to) && twir_retype(p, o, to) == e)
		twir_fail(p, at, "take a wider type", "%lld does not fit in %s", (long long)e->u.i,
			  twir_scalar_name(to));
}

static void meet(struct twir_parser *p, struct twir_operand *a, struct twir_operand *b)
{
	const enum twir_scalar sa = (enum twir_scalar)a->e->type.scalar, sb = (enum twir_scalar)b->e->type.scalar;
	if (a->flexible && (!b->flexible || twir_is_float(sb)))
		a->e = twir_retype(p, *a, sb);
	else if (b->flexible)
		b->e = twir_retype(p, *b, sa);
}

static const struct {
	const char *text;
	enum twir_kind kind;
	int level;
	bool swapped; /* a > b is b < a */
} operators[] = {
	{"or", TWIR_Or, 1, false}, {"xor", TWIR_Xor, 2, false}, {"and", TWIR_And, 3, false}, {"<", TWIR_Lt, 4, false},
	{"<=", TWIR_Le, 4, false}, {">", TWIR_Lt, 4, true},	{">=", TWIR_Le, 4, true},    {"==", TWIR_Eq, 4, false},
	{"!=", TWIR_Ne, 4, false}, {"<<", TWIR_Shl, 5, false},	{">>", TWIR_Shr, 5, false},  {"+", TWIR_Add, 6, false},
	{"-", TWIR_Sub, 6, false}, {"*", TWIR_Mul, 7, false},	{"/", TWIR_Div, 7, false},   {"%", TWIR_Mod, 7, false},
};

static int operator_of(const struct twir_parser *p)
{
	if (p->tok.kind == TK_PUNCT || p->tok.kind == TK_NAME)
		for (int i = 0; i < TW_COUNT(operators); i++)
			if (twir_is(p, operators[i].text))
				return i;
	return -1;
}

static struct twir_operand combine(struct twir_parser *p, const struct twir_tok *at, int op, struct twir_operand a,
				   struct twir_operand b)
{
	if (!a.flexible != !b.flexible)
		twir_must_fit(p, at, a.flexible ? a : b, (enum twir_scalar)(a.flexible ? b : a).e->type.scalar);
	meet(p, &a, &b);
	const enum twir_kind k = operators[op].kind;
	if (a.e->depth > TWIR_MAX_DEPTH - 8 || b.e->depth > TWIR_MAX_DEPTH - 8)
		twir_fail(p, at, "name parts with let", "an expression of more than %d levels", TWIR_MAX_DEPTH - 8);
	int64_t zero;
	if (p->in_const && (k == TWIR_Div || k == TWIR_Mod) && twir_const_int(b.e, &zero) && zero == 0)
		twir_fail(p, at, "in programs x / 0 and x % 0 are 0", "a constant is divided by 0");
	const char *why = twir_bad_binary(k, a.e, b.e);
	if (why)
		twir_fail(p, at,
			  a.e->type.scalar != b.e->type.scalar ? "convert one side, for example f32(x) or index(x)"
							       : NULL,
			  "'%s' of %s and %s: %s", operators[op].text, twir_type_text(p, a.e->type),
			  twir_type_text(p, b.e->type), why);
	const struct twir_expr *e =
		operators[op].swapped ? twir_binary(p->m, k, b.e, a.e) : twir_binary(p->m, k, a.e, b.e);
	return (struct twir_operand){e, a.flexible && b.flexible && e->kind == TWIR_Const && operators[op].level != 4,
				     NULL};
}

static struct twir_operand parse_prefix(struct twir_parser *p)
{
	const struct twir_tok at = p->tok;
	if (twir_take(p, "-")) {
		if (twir_at_number(p))
			return twir_literal(p, true);
		twir_enter(p);
		const struct twir_expr *a = parse_prefix(p).e;
		twir_leave(p);
		const char *why = twir_bad_unary(TWIR_Neg, a);
		if (why)
			twir_fail(p, &at, "convert it: -f32(x)", "'-' of %s: %s", twir_type_text(p, a->type), why);
		return (struct twir_operand){twir_unary(p->m, TWIR_Neg, a), false, NULL};
	}
	if (twir_take(p, "not")) {
		twir_enter(p);
		const struct twir_expr *a = parse_prefix(p).e;
		twir_leave(p);
		const char *why = twir_bad_unary(TWIR_Not, a);
		if (why)
			twir_fail(p, &at, "compare it: x == 0.0", "'not' of %s: %s", twir_type_text(p, a->type), why);
		return (struct twir_operand){twir_not(p->m, a), false, NULL};
	}
	return twir_parse_primary(p);
}

struct twir_operand twir_parse_binary(struct twir_parser *p, int least)
{
	twir_enter(p);
	struct twir_operand a = parse_prefix(p);
	for (int op; (op = operator_of(p)) >= 0 && operators[op].level >= least;) {
		const struct twir_tok at = p->tok;
		twir_next(p);
		const struct twir_operand b = twir_parse_binary(p, operators[op].level + 1);
		a = combine(p, &at, op, a, b);
		const int next = operator_of(p);
		if (operators[op].level == 4 && next >= 0 && operators[next].level == 4)
			twir_fail(p, &p->tok, "write a < b and b < c", "comparisons do not chain");
	}
	twir_leave(p);
	return a;
}

/* The f64 forms of two flexible floats. */
const struct twir_expr *twir_wide_choice(struct twir_parser *p, enum twir_kind k, const struct twir_expr *c,
					 struct twir_operand a, struct twir_operand b)
{
	if (!a.flexible || !b.flexible || !a.wide || !b.wide || twir_bad_choice(k, c, a.wide, b.wide))
		return NULL;
	return k == TWIR_Cond ? twir_cond(p->m, c, a.wide, b.wide) : twir_select(p->m, c, a.wide, b.wide);
}

static const struct twir_expr *choose(struct twir_parser *p, const struct twir_tok *at, const struct twir_expr *c,
				      struct twir_operand a, struct twir_operand b)
{
	meet(p, &a, &b);
	const char *why = twir_bad_choice(TWIR_Cond, c, a.e, b.e);
	if (why)
		twir_fail(p, at, "the condition is an i1, both choices have one type", "'? :' of %s, %s and %s: %s",
			  twir_type_text(p, c->type), twir_type_text(p, a.e->type), twir_type_text(p, b.e->type), why);
	return twir_cond(p->m, c, a.e, b.e);
}

/* c ? a : d ? b : e is a chain: it is read in a loop, however long, and built from its end. */
struct twir_operand twir_parse_operand(struct twir_parser *p)
{
	struct link {
		struct twir_tok at;
		const struct twir_expr *c;
		struct twir_operand a;
	};
	VEC(struct link) chain = {0};
	twir_enter(p);
	struct twir_operand last = twir_parse_binary(p, 1);
	while (twir_is(p, "?")) {
		struct link link = {.at = p->tok, .c = last.e};
		twir_next(p);
		link.a = twir_parse_operand(p);
		twir_expect(p, ":", "a condition is written c ? a : b");
		vec_push(p->scratch, &chain, link);
		last = twir_parse_binary(p, 1);
	}
	for (int i = chain.n - 1; i >= 0; i--)
		last = (struct twir_operand){choose(p, &chain.at[i].at, chain.at[i].c, chain.at[i].a, last),
					     chain.at[i].a.flexible && last.flexible,
					     twir_wide_choice(p, TWIR_Cond, chain.at[i].c, chain.at[i].a, last)};
	twir_leave(p);
	return last;
}

const struct twir_expr *twir_parse_expr(struct twir_parser *p)
{
	return twir_parse_operand(p).e;
}

const struct twir_expr *twir_parse_typed(struct twir_parser *p, struct twir_type type, const char *what)
{
	const struct twir_tok at = p->tok;
	const struct twir_expr *e = twir_retype(p, twir_parse_operand(p), (enum twir_scalar)type.scalar);
	if (!twir_type_eq(e->type, type))
		twir_fail(p, &at, "convert it with the name of the type: f32(x), index(x), i1(x)",
			  "%s must have type %s, not %s", what, twir_type_text(p, type), twir_type_text(p, e->type));
	return e;
}

const struct twir_expr *twir_parse_size(struct twir_parser *p, const char *what)
{
	const struct twir_tok at = p->tok;
	const struct twir_expr *e = twir_parse_typed(p, twir_scalar_type(TWIR_INDEX), what);
	const char *why = twir_bad_extents(1, &e);
	if (why)
		twir_fail(p, &at, "sizes are of type index, 0 or more", "%s: %s", what, why);
	return e;
}
