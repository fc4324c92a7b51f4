/* binary.c: elementwise operators of two or more inputs: arithmetic, comparison, logic, bits, choice. */
#include "ops/elementwise.h"

#include <inttypes.h>

typedef const struct twir_expr *E;

#define ELEMENT(fn, types, result, expression)                                                                         \
	static E element_##fn(struct tw_opctx *x, E a, E b)                                                            \
	{                                                                                                              \
		return expression;                                                                                     \
	}                                                                                                              \
	static void infer_##fn(struct tw_opctx *x)                                                                     \
	{                                                                                                              \
		tw_need_type(x, 0, types);                                                                             \
		tw_infer_broadcast##result(x);                                                                         \
	}                                                                                                              \
	static void compute_##fn(struct tw_opctx *x)                                                                   \
	{                                                                                                              \
		tw_elementwise2(x, element_##fn);                                                                      \
	}

ELEMENT(add, "numeric", , twir_add(x->m, a, b))
ELEMENT(sub, "numeric", , twir_sub(x->m, a, b))
ELEMENT(mul, "numeric", , twir_mul(x->m, a, b))
ELEMENT(div, "numeric", , twir_div(x->m, a, b))
ELEMENT(min, "numeric", , twir_min(x->m, a, b))
ELEMENT(max, "numeric", , twir_max(x->m, a, b))
ELEMENT(sum, "float", , twir_add(x->m, a, b))
ELEMENT(equal, "any", _bool, twir_eq(x->m, a, b))
ELEMENT(less, "numeric", _bool, twir_lt(x->m, a, b))
ELEMENT(less_equal, "numeric", _bool, twir_le(x->m, a, b))
ELEMENT(greater, "numeric", _bool, twir_lt(x->m, b, a))
ELEMENT(greater_equal, "numeric", _bool, twir_le(x->m, b, a))
ELEMENT(and, "bool", , twir_and(x->m, a, b))
ELEMENT(or, "bool", , twir_or(x->m, a, b))
ELEMENT(xor, "bool", , twir_binary(x->m, TWIR_Xor, a, b))
ELEMENT(bitwise_and, "int", , twir_and(x->m, a, b))
ELEMENT(bitwise_or, "int", , twir_or(x->m, a, b))
ELEMENT(bitwise_xor, "int", , twir_binary(x->m, TWIR_Xor, a, b))

static void compute_mean(struct tw_opctx *x)
{
	const struct twir_expr **i;
	struct twir_tensor *y = tw_y(x, 0);
	struct twir_var **axes = tw_axes(x, y, &i);
	E sum = tw_operand(x, 0, y->rank, i);
	for (int k = 1; k < x->node->nin; k++)
		sum = twir_add(x->m, sum, tw_operand(x, k, y->rank, i));
	tw_define(x, y, axes, twir_div(x->m, sum, tw_like(x, sum, x->node->nin)));
}

/* ---- Mod */

static E mod(struct tw_opctx *x, E a, E b)
{
	const enum twir_scalar t = a->type.scalar;
	const E args[] = {a, b}, zero = tw_like(x, a, 0);
	const E r = twir_is_float(t) ? twir_math(x->m, "fmod", 2, args) : twir_mod(x->m, a, b);
	if (tw_attr_int(x->node, "fmod", 0) || !twir_is_signed(t))
		return r;
	/* The sign of the divisor, as in Python. */
	const E differ = twir_ne(x->m, twir_lt(x->m, r, zero), twir_lt(x->m, b, zero));
	return twir_select(x->m, twir_and(x->m, twir_ne(x->m, r, zero), differ), twir_add(x->m, r, b), r);
}

static void infer_mod(struct tw_opctx *x)
{
	tw_need_type(x, 0, "numeric");
	if (twir_is_float(tw_in_type(x, 0)) && !tw_attr_int(x->node, "fmod", 0) && x->node->opset < 28)
		tw_op_fail(x, TW_ERR_MODEL, "fmod must be 1 for floats");
	tw_infer_broadcast(x);
}

static void compute_mod(struct tw_opctx *x)
{
	tw_elementwise2(x, mod);
}

/* ---- BitShift: amounts of the width or more, negative ones too, shift everything out */

static E shift(struct tw_opctx *x, E a, E b)
{
	const bool left = !strcmp(tw_attr_string(x->node, "direction", ""), "LEFT");
	const int bits = 8 * twir_scalar_bytes(a->type.scalar);
	const E width = tw_like(x, b, bits), zero = tw_like(x, b, 0);
	E inside = twir_lt(x->m, b, width), out = tw_like(x, a, 0);
	if (twir_is_signed(a->type.scalar)) {
		inside = twir_and(x->m, inside, twir_le(x->m, zero, b));
		if (!left)
			out = twir_select(x->m, twir_lt(x->m, a, tw_like(x, a, 0)), tw_like(x, a, -1), out);
	}
	return twir_select(x->m, inside, twir_binary(x->m, left ? TWIR_Shl : TWIR_Shr, a, b), out);
}

static void infer_shift(struct tw_opctx *x)
{
	const char *direction = tw_attr_string(x->node, "direction", "");
	if (strcmp(direction, "LEFT") && strcmp(direction, "RIGHT"))
		tw_op_fail(x, TW_ERR_MODEL, "direction = '%s' is neither LEFT nor RIGHT", direction);
	tw_need_type(x, 0, "int");
	tw_infer_broadcast(x);
}

static void compute_shift(struct tw_opctx *x)
{
	tw_elementwise2(x, shift);
}

/* ---- Pow: exponents may have a type of their own */

/* By squaring; exponents below zero leave 1 / a, truncated. Six bits are all that can matter in 64-bit integers,
   except for 0, 1 and -1. */
static E int_power(struct tw_opctx *x, E a, E b)
{
	struct twir_module *m = x->m;
	const E one = tw_like(x, a, 1), zero = tw_like(x, a, 0), zero_b = tw_like(x, b, 0);
	E result = one, square = a;
	for (int bit = 0; bit < 6; bit++) {
		const E set = twir_ne(m, twir_and(m, b, tw_like(x, b, 1 << bit)), zero_b);
		result = twir_mul(m, result, twir_select(m, set, square, one));
		if (bit < 5)
			square = twir_mul(m, square, square);
	}
	if (!twir_is_signed(b->type.scalar))
		return result;
	const E odd = twir_ne(m, twir_and(m, b, tw_like(x, b, 1)), zero_b);
	E inverse = twir_select(m, twir_eq(m, a, one), one, zero);
	if (twir_is_signed(a->type.scalar)) {
		const E minus = tw_like(x, a, -1);
		inverse = twir_select(m, twir_eq(m, a, minus), twir_select(m, odd, minus, one), inverse);
	}
	return twir_select(m, twir_lt(m, b, zero_b), inverse, result);
}

static E constant_power(struct tw_opctx *x, E a, double p)
{
	struct twir_module *m = x->m;
	if (p == 1)
		return a;
	if (p == 2)
		return twir_mul(m, a, a);
	if (p == 3)
		return twir_mul(m, twir_mul(m, a, a), a);
	if (p == 0.5)
		return twir_unary(m, TWIR_Sqrt, a);
	if (p == -1)
		return twir_div(m, tw_like(x, a, 1), a);
	return NULL;
}

static E element_pow(struct tw_opctx *x, E a, E b)
{
	const enum twir_scalar ta = a->type.scalar, tb = b->type.scalar;
	double p;
	if (twir_is_float(ta) && tw_in_scalar(x, 1, &p)) {
		const E simple = constant_power(x, a, p);
		if (simple)
			return simple;
	}
	if (!twir_is_float(ta) && !twir_is_float(tb))
		return int_power(x, a, b);
	const enum twir_scalar wide = ta == TWIR_F64 || (tb == TWIR_F64 && !twir_is_float(ta)) ? TWIR_F64 : TWIR_F32;
	const E args[] = {twir_cast(x->m, wide, a), twir_cast(x->m, wide, b)};
	return twir_cast(x->m, ta, twir_math(x->m, "pow", 2, args));
}

static void infer_pow(struct tw_opctx *x)
{
	const struct twir_expr *shape[TWIR_MAX_RANK];
	tw_need_type(x, 0, "numeric");
	tw_need_type(x, 1, "numeric");
	if (x->node->opset < 12)
		tw_need_same_type(x, 0, 1);
	const int rank = tw_broadcast(x, 0, 1, shape);
	tw_set_out(x, 0, tw_in_type(x, 0), rank, shape);
}

static void compute_pow(struct tw_opctx *x)
{
	tw_elementwise2(x, element_pow);
}

/* ---- Where */

static void infer_where(struct tw_opctx *x)
{
	const struct twir_expr *shape[TWIR_MAX_RANK];
	tw_need_type(x, 0, "bool");
	tw_need_same_type(x, 1, 2);
	const int rank = tw_broadcast(x, 0, 2, shape);
	tw_set_out(x, 0, tw_in_type(x, 1), rank, shape);
}

static void compute_where(struct tw_opctx *x)
{
	const struct twir_expr **i;
	struct twir_tensor *y = tw_y(x, 0);
	struct twir_var **axes = tw_axes(x, y, &i);
	const E c = tw_load_broadcast(x, tw_x(x, 0), y->rank, i);
	tw_define(x, y, axes, twir_select(x->m, c, tw_operand(x, 1, y->rank, i), tw_operand(x, 2, y->rank, i)));
}

/* ---- up to opset 6: the second input has the shape of the first or, with `broadcast`, of some of its axes, from `axis`
   on or the last ones */

static int old_axis(struct tw_opctx *x)
{
	const int behind = tw_in_rank(x, 0) - tw_in_rank(x, 1);
	const int64_t axis = tw_attr_int(x->node, "axis", behind);
	if (behind < 0 || (axis != behind && !tw_attr_int(x->node, "broadcast", 0)) || axis < 0 || axis > behind)
		tw_op_fail(x, TW_ERR_MODEL, "inputs of rank %d and %d with axis %" PRId64, tw_in_rank(x, 0),
			   tw_in_rank(x, 1), axis);
	return (int)axis;
}

static void infer_old(struct tw_opctx *x, const char *types, bool test)
{
	tw_need_type(x, 0, types);
	tw_need_same_type(x, 0, 1);
	const bool broadcast = tw_attr_int(x->node, "broadcast", 0) != 0;
	const int axis = old_axis(x);
	if (!broadcast && tw_in_rank(x, 0) != tw_in_rank(x, 1))
		tw_op_fail(x, TW_ERR_MODEL, "inputs of rank %d and %d without broadcast", tw_in_rank(x, 0),
			   tw_in_rank(x, 1));
	for (int d = 0; d < tw_in_rank(x, 1); d++)
		if (!broadcast || tw_in_dim(x, 1, d) != twir_index(x->m, 1))
			tw_same_size(x, tw_in_dim(x, 0, axis + d), tw_in_dim(x, 1, d), "sizes of both inputs");
	tw_set_out(x, 0, test ? TWIR_I1 : tw_in_type(x, 0), tw_in_rank(x, 0), tw_in(x, 0)->shape);
}

static void compute_old(struct tw_opctx *x, tw_element2_fn fn)
{
	E *i;
	struct twir_tensor *y = tw_y(x, 0);
	struct twir_var **axes = tw_axes(x, y, &i);
	const E b = tw_operand(x, 1, old_axis(x) + tw_in_rank(x, 1), i);
	tw_define(x, y, axes, fn(x, tw_operand(x, 0, y->rank, i), b));
}

#define OLD(fn, types, test)                                                                                           \
	static void infer_old_##fn(struct tw_opctx *x)                                                                 \
	{                                                                                                              \
		infer_old(x, types, test);                                                                             \
	}                                                                                                              \
	static void compute_old_##fn(struct tw_opctx *x)                                                               \
	{                                                                                                              \
		compute_old(x, element_##fn);                                                                          \
	}

OLD(add, "numeric", false)
OLD(sub, "numeric", false)
OLD(mul, "numeric", false)
OLD(div, "numeric", false)
OLD(equal, "int bool", true)
OLD(less, "numeric", true)
OLD(greater, "numeric", true)
OLD(and, "bool", false)
OLD(or, "bool", false)
OLD(xor, "bool", false)
OLD(pow, "float", false)

static const struct tw_attr_spec attrs_old[] = {
	{"axis", TW_ATTR_INT, false}, {"broadcast", TW_ATTR_INT, false}, {NULL}};
static const struct tw_attr_spec attrs_fmod[] = {{"fmod", TW_ATTR_INT, false}, {NULL}};
static const struct tw_attr_spec attrs_direction[] = {{"direction", TW_ATTR_STRING, true}, {NULL}};

#define ROW(NAME, fn, first)                                                                                           \
	{                                                                                                              \
		.name = NAME, .since = first, .in = {2, 2}, .out = {1, 1}, .infer = infer_##fn,                        \
		.compute = compute_##fn                                                                                \
	}
#define OLD_ROW(NAME, fn)                                                                                              \
	{                                                                                                              \
		.name = NAME, .since = 1, .until = 6, .in = {2, 2}, .out = {1, 1}, .attrs = attrs_old,                 \
		.infer = infer_old_##fn, .compute = compute_old_##fn                                                   \
	}
#define MANY(NAME, fn, first, definition)                                                                              \
	{                                                                                                              \
		.name = NAME, .since = first, .in = {1, -1}, .out = {1, 1}, .infer = infer_##fn,                       \
		.compute = compute_##definition                                                                        \
	}

const struct tw_op tw_ops_binary[] = {
	OLD_ROW("Add", add),
	OLD_ROW("Sub", sub),
	OLD_ROW("Mul", mul),
	OLD_ROW("Div", div),
	OLD_ROW("Equal", equal),
	OLD_ROW("Less", less),
	OLD_ROW("Greater", greater),
	OLD_ROW("And", and),
	OLD_ROW("Or", or),
	OLD_ROW("Xor", xor),
	OLD_ROW("Pow", pow),
	ROW("Add", add, 7),
	ROW("Sub", sub, 7),
	ROW("Mul", mul, 7),
	ROW("Div", div, 7),
	MANY("Min", min, 1, min),
	MANY("Max", max, 1, max),
	MANY("Sum", sum, 1, sum),
	MANY("Mean", sum, 1, mean),
	ROW("Equal", equal, 7),
	ROW("Less", less, 7),
	ROW("Greater", greater, 7),
	ROW("LessOrEqual", less_equal, 12),
	ROW("GreaterOrEqual", greater_equal, 12),
	ROW("And", and, 7),
	ROW("Or", or, 7),
	ROW("Xor", xor, 7),
	ROW("BitwiseAnd", bitwise_and, 18),
	ROW("BitwiseOr", bitwise_or, 18),
	ROW("BitwiseXor", bitwise_xor, 18),
	ROW("Pow", pow, 7),
	{.name = "Mod",
	 .since = 10,
	 .in = {2, 2},
	 .out = {1, 1},
	 .attrs = attrs_fmod,
	 .infer = infer_mod,
	 .compute = compute_mod},
	{.name = "BitShift",
	 .since = 11,
	 .in = {2, 2},
	 .out = {1, 1},
	 .attrs = attrs_direction,
	 .infer = infer_shift,
	 .compute = compute_shift},
	{.name = "Where", .since = 9, .in = {3, 3}, .out = {1, 1}, .infer = infer_where, .compute = compute_where},
	{0},
};
