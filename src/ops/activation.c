/* activation.c: elementwise operators of one input with attributes, and Clip, PRelu. */
#include "ops/elementwise.h"

#define ELEMENT(fn, types)                                                                                             \
	static void infer_##fn(struct tw_opctx *x)                                                                     \
	{                                                                                                              \
		tw_need_type(x, 0, types);                                                                             \
		tw_infer_same(x);                                                                                      \
	}                                                                                                              \
	static void compute_##fn(struct tw_opctx *x)                                                                   \
	{                                                                                                              \
		tw_elementwise(x, fn);                                                                                 \
	}

typedef const struct twir_expr *E;

static E attr(struct tw_opctx *x, const char *name, float otherwise, E like)
{
	return tw_like(x, like, (double)tw_attr_float(x->node, name, otherwise));
}

static E clamp01(struct tw_opctx *x, E a)
{
	return twir_min(x->m, twir_max(x->m, a, tw_like(x, a, 0)), tw_like(x, a, 1));
}

static E relu(struct tw_opctx *x, E a)
{
	return twir_max(x->m, a, tw_like(x, a, 0));
}
ELEMENT(relu, "float signed")

static E leaky_relu(struct tw_opctx *x, E a)
{
	const E scaled = twir_mul(x->m, a, attr(x, "alpha", 0.01f, a));
	return twir_select(x->m, twir_lt(x->m, a, tw_like(x, a, 0)), scaled, a);
}
ELEMENT(leaky_relu, "float")

static E elu(struct tw_opctx *x, E a)
{
	const E below = tw_call(x, "expm1", a);
	return twir_select(x->m, twir_lt(x->m, a, tw_like(x, a, 0)), twir_mul(x->m, attr(x, "alpha", 1.0f, a), below),
			   a);
}
ELEMENT(elu, "float")

static E selu(struct tw_opctx *x, E a)
{
	const E alpha = attr(x, "alpha", 1.67326319217681884765625f, a);
	const E gamma = attr(x, "gamma", 1.05070102214813232421875f, a);
	const E below = twir_mul(x->m, alpha, tw_call(x, "expm1", a));
	return twir_mul(x->m, gamma, twir_select(x->m, tw_gt0(x, a), a, below));
}
ELEMENT(selu, "float")

static E celu(struct tw_opctx *x, E a)
{
	const E alpha = attr(x, "alpha", 1.0f, a), zero = tw_like(x, a, 0);
	const E e = tw_call(x, "expm1", twir_div(x->m, a, alpha));
	return twir_add(x->m, twir_max(x->m, a, zero), twir_min(x->m, twir_mul(x->m, alpha, e), zero));
}
ELEMENT(celu, "float")

static E softplus(struct tw_opctx *x, E a)
{
	return tw_call(x, "softplus", a);
}
ELEMENT(softplus, "float")

static E softsign(struct tw_opctx *x, E a)
{
	return twir_div(x->m, a, twir_add(x->m, tw_like(x, a, 1), twir_unary(x->m, TWIR_Abs, a)));
}
ELEMENT(softsign, "float")

static E mish(struct tw_opctx *x, E a)
{
	return twir_mul(x->m, a, tw_call(x, "tanh", softplus(x, a)));
}
ELEMENT(mish, "float")

static E hard_sigmoid(struct tw_opctx *x, E a)
{
	const E line = twir_add(x->m, twir_mul(x->m, attr(x, "alpha", 0.2f, a), a), attr(x, "beta", 0.5f, a));
	return clamp01(x, line);
}
ELEMENT(hard_sigmoid, "float")

static E hard_swish(struct tw_opctx *x, E a)
{
	const E line = twir_add(x->m, twir_mul(x->m, tw_like(x, a, 1.0 / 6), a), tw_like(x, a, 0.5));
	return twir_mul(x->m, a, clamp01(x, line));
}
ELEMENT(hard_swish, "float")

static E swish(struct tw_opctx *x, E a)
{
	return twir_mul(x->m, a, tw_call(x, "sigmoid", twir_mul(x->m, attr(x, "alpha", 1.0f, a), a)));
}
ELEMENT(swish, "float")

/* ---- SwiGLU: two inputs of one shape */

static E swiglu(struct tw_opctx *x, E a, E b)
{
	return twir_mul(x->m, swish(x, a), b);
}

static void infer_swiglu(struct tw_opctx *x)
{
	tw_need_type(x, 0, "float");
	tw_need_same_type(x, 0, 1);
	if (tw_in_rank(x, 0) != tw_in_rank(x, 1))
		tw_op_fail(x, TW_ERR_MODEL, "inputs of rank %d and %d", tw_in_rank(x, 0), tw_in_rank(x, 1));
	for (int d = 0; d < tw_in_rank(x, 0); d++)
		tw_same_size(x, tw_in_dim(x, 0, d), tw_in_dim(x, 1, d), "the two inputs");
	tw_infer_same(x);
}

static void compute_swiglu(struct tw_opctx *x)
{
	tw_elementwise2(x, swiglu);
}

static E thresholded_relu(struct tw_opctx *x, E a)
{
	return twir_select(x->m, twir_lt(x->m, attr(x, "alpha", 1.0f, a), a), a, tw_like(x, a, 0));
}
ELEMENT(thresholded_relu, "float")

static E gelu(struct tw_opctx *x, E a)
{
	const char *how = tw_attr_string(x->node, "approximate", "none");
	const E half = tw_like(x, a, 0.5), one = tw_like(x, a, 1);
	E inner;
	if (!strcmp(how, "tanh")) {
		const E cube = twir_mul(x->m, twir_mul(x->m, a, a), a);
		const E sum = twir_add(x->m, a, twir_mul(x->m, tw_like(x, a, 0.044715), cube));
		inner = tw_call(x, "tanh", twir_mul(x->m, tw_like(x, a, 0.7978845608028654), sum));
	} else {
		inner = tw_call(x, "erf", twir_mul(x->m, a, tw_like(x, a, 0.7071067811865476)));
	}
	return twir_mul(x->m, twir_mul(x->m, half, a), twir_add(x->m, one, inner));
}

static void infer_gelu(struct tw_opctx *x)
{
	const char *how = tw_attr_string(x->node, "approximate", "none");
	if (strcmp(how, "none") && strcmp(how, "tanh"))
		tw_op_fail(x, TW_ERR_MODEL, "approximate = '%s' is neither none nor tanh", how);
	tw_need_type(x, 0, "float");
	tw_infer_same(x);
}

static void compute_gelu(struct tw_opctx *x)
{
	tw_elementwise(x, gelu);
}

static E shrink(struct tw_opctx *x, E a)
{
	const enum twir_scalar t = a->type.scalar;
	const E f = twir_is_float(t) ? a : twir_cast(x->m, TWIR_F32, a);
	const E lambda = attr(x, "lambd", 0.5f, f), bias = attr(x, "bias", 0.0f, f);
	const E low = twir_lt(x->m, f, twir_unary(x->m, TWIR_Neg, lambda)), high = twir_lt(x->m, lambda, f);
	const E r = twir_select(x->m, low, twir_add(x->m, f, bias),
				twir_select(x->m, high, twir_sub(x->m, f, bias), tw_like(x, f, 0)));
	return twir_cast(x->m, t, r);
}
ELEMENT(shrink, "numeric")

static E is_nan(struct tw_opctx *x, E a)
{
	return twir_ne(x->m, a, a);
}

static E is_inf(struct tw_opctx *x, E a)
{
	const E no = twir_bool(x->m, false);
	const E up = tw_attr_int(x->node, "detect_positive", 1) ? twir_eq(x->m, a, tw_like(x, a, __builtin_inf())) : no;
	const E down =
		tw_attr_int(x->node, "detect_negative", 1) ? twir_eq(x->m, a, tw_like(x, a, -__builtin_inf())) : no;
	return twir_or(x->m, up, down);
}

static void infer_test(struct tw_opctx *x)
{
	tw_need_type(x, 0, "float");
	tw_infer_same_bool(x);
}

static void compute_is_nan(struct tw_opctx *x)
{
	tw_elementwise(x, is_nan);
}

static void compute_is_inf(struct tw_opctx *x)
{
	tw_elementwise(x, is_inf);
}

/* ---- Clip: bounds are attributes up to opset 10, inputs from 11 on */

static void infer_clip(struct tw_opctx *x)
{
	tw_need_type(x, 0, "numeric");
	tw_need_same_type(x, 0, x->node->nin - 1);
	tw_need_scalar(x, 1);
	tw_need_scalar(x, 2);
	tw_infer_same(x);
}

static void compute_clip(struct tw_opctx *x)
{
	const struct twir_expr **i;
	struct twir_tensor *y = tw_y(x, 0);
	struct twir_var **axes = tw_axes(x, y, &i);
	E v = tw_load(x, tw_x(x, 0), y->rank, i);
	if (tw_has_in(x, 1))
		v = twir_max(x->m, v, tw_scalar(x, 1));
	else if (tw_attr_find(x->node, "min"))
		v = twir_max(x->m, v, attr(x, "min", 0, v));
	if (tw_has_in(x, 2))
		v = twir_min(x->m, v, tw_scalar(x, 2));
	else if (tw_attr_find(x->node, "max"))
		v = twir_min(x->m, v, attr(x, "max", 0, v));
	tw_define(x, y, axes, v);
}

/* ---- PRelu: the slope stretches to the input's shape only */

static void infer_prelu(struct tw_opctx *x)
{
	tw_need_type(x, 0, "float signed");
	tw_need_same_type(x, 0, 1);
	if (tw_in_rank(x, 1) > tw_in_rank(x, 0))
		tw_op_fail(x, TW_ERR_MODEL, "slope of higher rank than the input");
	const struct twir_expr *shape[TWIR_MAX_RANK];
	tw_broadcast(x, 0, 1, shape);
	tw_infer_same(x);
}

static E prelu(struct tw_opctx *x, E a, E slope)
{
	return twir_select(x->m, twir_lt(x->m, a, tw_like(x, a, 0)), twir_mul(x->m, a, slope), a);
}

static void compute_prelu(struct tw_opctx *x)
{
	tw_elementwise2(x, prelu);
}

#define F(NAME)                                                                                                        \
	{                                                                                                              \
		NAME, TW_ATTR_FLOAT, false                                                                             \
	}
#define ROW(NAME, fn, first, list)                                                                                     \
	{                                                                                                              \
		.name = NAME, .since = first, .in = {1, 1}, .out = {1, 1}, .attrs = list, .infer = infer_##fn,         \
		.compute = compute_##fn                                                                                \
	}

static const struct tw_attr_spec attrs_alpha[] = {F("alpha"), {NULL}};
static const struct tw_attr_spec attrs_alpha_beta[] = {F("alpha"), F("beta"), {NULL}};
static const struct tw_attr_spec attrs_alpha_gamma[] = {F("alpha"), F("gamma"), {NULL}};
static const struct tw_attr_spec attrs_shrink[] = {F("lambd"), F("bias"), {NULL}};
static const struct tw_attr_spec attrs_bounds[] = {F("min"), F("max"), {NULL}};
static const struct tw_attr_spec attrs_gelu[] = {{"approximate", TW_ATTR_STRING, false}, {NULL}};
static const struct tw_attr_spec attrs_is_inf[] = {
	{"detect_negative", TW_ATTR_INT, false}, {"detect_positive", TW_ATTR_INT, false}, {NULL}};

const struct tw_op tw_ops_activation[] = {
	ROW("Relu", relu, 1, NULL),
	ROW("LeakyRelu", leaky_relu, 1, attrs_alpha),
	ROW("Elu", elu, 1, attrs_alpha),
	ROW("Selu", selu, 1, attrs_alpha_gamma),
	ROW("Celu", celu, 12, attrs_alpha),
	ROW("Softplus", softplus, 1, NULL),
	ROW("Softsign", softsign, 1, NULL),
	ROW("Mish", mish, 18, NULL),
	ROW("HardSigmoid", hard_sigmoid, 1, attrs_alpha_beta),
	ROW("HardSwish", hard_swish, 14, NULL),
	ROW("Swish", swish, 24, attrs_alpha),
	ROW("ThresholdedRelu", thresholded_relu, 10, attrs_alpha),
	ROW("Gelu", gelu, 20, attrs_gelu),
	ROW("Shrink", shrink, 9, attrs_shrink),
	{.name = "IsNaN", .since = 9, .in = {1, 1}, .out = {1, 1}, .infer = infer_test, .compute = compute_is_nan},
	{.name = "IsInf",
	 .since = 10,
	 .in = {1, 1},
	 .out = {1, 1},
	 .attrs = attrs_is_inf,
	 .infer = infer_test,
	 .compute = compute_is_inf},
	{.name = "Clip",
	 .since = 1,
	 .until = 10,
	 .in = {1, 1},
	 .out = {1, 1},
	 .attrs = attrs_bounds,
	 .infer = infer_clip,
	 .compute = compute_clip},
	{.name = "Clip", .since = 11, .in = {1, 3}, .out = {1, 1}, .infer = infer_clip, .compute = compute_clip},
	{.name = "PRelu", .since = 7, .in = {2, 2}, .out = {1, 1}, .infer = infer_prelu, .compute = compute_prelu},
	{.name = "SwiGLU",
	 .since = 28,
	 .in = {2, 2},
	 .out = {1, 1},
	 .attrs = attrs_alpha,
	 .infer = infer_swiglu,
	 .compute = compute_swiglu},
	{0},
};
