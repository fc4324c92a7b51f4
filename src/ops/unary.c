/* unary.c: elementwise operators of one input without attributes. Rows of one table; an operator is one line for
   its element. */
#include "ops/elementwise.h"

#define ELEMENT(fn, types, expression)                                                                                 \
	static const struct twir_expr *element_##fn(struct tw_opctx *x, const struct twir_expr *a)                     \
	{                                                                                                              \
		struct twir_module *m = x->m;                                                                          \
		(void)m;                                                                                               \
		return expression;                                                                                     \
	}                                                                                                              \
	static void infer_##fn(struct tw_opctx *x)                                                                     \
	{                                                                                                              \
		tw_need_type(x, 0, types);                                                                             \
		tw_infer_same(x);                                                                                      \
	}                                                                                                              \
	static void compute_##fn(struct tw_opctx *x)                                                                   \
	{                                                                                                              \
		tw_elementwise(x, element_##fn);                                                                       \
	}

static const struct twir_expr *sign(struct tw_opctx *x, const struct twir_expr *a)
{
	const struct twir_expr *one = tw_like(x, a, 1), *zero = tw_like(x, a, 0);
	if (!twir_is_float(a->type.scalar) && !twir_is_signed(a->type.scalar))
		return twir_select(x->m, twir_ne(x->m, a, zero), one, zero);
	const struct twir_expr *negative = twir_select(x->m, twir_lt(x->m, a, zero), tw_like(x, a, -1), a);
	return twir_select(x->m, twir_lt(x->m, zero, a), one, negative);
}

ELEMENT(abs, "numeric", twir_is_signed(a->type.scalar) ? twir_unary(m, TWIR_Abs, a) : a)
ELEMENT(neg, "float signed", twir_unary(m, TWIR_Neg, a))
ELEMENT(ceil, "float", twir_unary(m, TWIR_Ceil, a))
ELEMENT(floor, "float", twir_unary(m, TWIR_Floor, a))
ELEMENT(round, "float", twir_unary(m, TWIR_Round, a))
ELEMENT(sqrt, "float", twir_unary(m, TWIR_Sqrt, a))
ELEMENT(reciprocal, "float", twir_div(m, tw_like(x, a, 1), a))
ELEMENT(exp, "float", tw_call(x, "exp", a))
ELEMENT(log, "float", tw_call(x, "log", a))
ELEMENT(sin, "float", tw_call(x, "sin", a))
ELEMENT(cos, "float", tw_call(x, "cos", a))
ELEMENT(tan, "float", tw_call(x, "tan", a))
ELEMENT(asin, "float", tw_call(x, "asin", a))
ELEMENT(acos, "float", tw_call(x, "acos", a))
ELEMENT(atan, "float", tw_call(x, "atan", a))
ELEMENT(sinh, "float", tw_call(x, "sinh", a))
ELEMENT(cosh, "float", tw_call(x, "cosh", a))
ELEMENT(tanh, "float", tw_call(x, "tanh", a))
ELEMENT(asinh, "float", tw_call(x, "asinh", a))
ELEMENT(acosh, "float", tw_call(x, "acosh", a))
ELEMENT(atanh, "float", tw_call(x, "atanh", a))
ELEMENT(erf, "float", tw_call(x, "erf", a))
ELEMENT(sigmoid, "float", tw_call(x, "sigmoid", a))
ELEMENT(sign, "numeric", sign(x, a))
ELEMENT(not, "bool", twir_not(m, a))
ELEMENT(bitwise_not, "int", twir_not(m, a))

#define ROW(NAME, fn, first)                                                                                           \
	{                                                                                                              \
		.name = NAME, .since = first, .in = {1, 1}, .out = {1, 1}, .infer = infer_##fn,                        \
		.compute = compute_##fn                                                                                \
	}

const struct tw_op tw_ops_unary[] = {
	ROW("Abs", abs, 1),
	ROW("Neg", neg, 1),
	ROW("Ceil", ceil, 1),
	ROW("Floor", floor, 1),
	ROW("Round", round, 11),
	ROW("Sqrt", sqrt, 1),
	ROW("Reciprocal", reciprocal, 1),
	ROW("Exp", exp, 1),
	ROW("Log", log, 1),
	ROW("Sin", sin, 7),
	ROW("Cos", cos, 7),
	ROW("Tan", tan, 7),
	ROW("Asin", asin, 7),
	ROW("Acos", acos, 7),
	ROW("Atan", atan, 7),
	ROW("Sinh", sinh, 9),
	ROW("Cosh", cosh, 9),
	ROW("Tanh", tanh, 1),
	ROW("Asinh", asinh, 9),
	ROW("Acosh", acosh, 9),
	ROW("Atanh", atanh, 9),
	ROW("Erf", erf, 9),
	ROW("Sigmoid", sigmoid, 1),
	ROW("Sign", sign, 9),
	ROW("Not", not, 1),
	ROW("BitwiseNot", bitwise_not, 18),
	{0},
};
