/* qlinear.c: QLinearAdd, QLinearMul, QLinearSigmoid, QLinearLeakyRelu, QLinearGlobalAveragePool and QGemm (com.microsoft): arithmetic on
 * numbers of 8 bits that stand for (q - zero point) * scale. Results are rounded once, with the scales gathered as ONNX Runtime does. Scales and zero points
 * are one number each, QGemm's of B one for each column as well. */
#include "ops/elementwise.h"

typedef const struct twir_expr *E;

/* Input k, which has one element or one for each index `at` (NULL: must have one). */
static E number(struct tw_opctx *x, int k, E at)
{
	struct twir_tensor *t = tw_x(x, k);
	const E zero = twir_index(x->m, 0);
	if (t->rank > 1 || (t->rank == 1 && !at && t->shape[0] != twir_index(x->m, 1)))
		tw_op_fail(x, TW_ERR_UNSUPPORTED, "input %d, a scale or zero point, of more than one number", k);
	return tw_load(x, t, t->rank, t->rank && t->shape[0] == twir_index(x->m, 1) ? &zero : &at);
}

static E zero_of(struct tw_opctx *x, int k, E at)
{
	return tw_is_zero(x, k) ? twir_int(x->m, TWIR_I32, 0) : twir_cast(x->m, TWIR_I32, number(x, k, at));
}

static void need_bytes(struct tw_opctx *x, int value, int scale, int zero)
{
	if (value >= 0)
		tw_need_type(x, value, "u8 i8");
	tw_need_type(x, scale, "f32");
	if (tw_has_in(x, zero))
		tw_need_type(x, zero, "u8 i8");
	if (value >= 0 && tw_has_in(x, zero) && tw_in_type(x, zero) != tw_in_type(x, value))
		tw_op_fail(x, TW_ERR_MODEL, "input %d and its zero point have different types", value);
}

/* round(v) + zero point of the output, saturated */
static void define_rounded(struct tw_opctx *x, struct twir_var **axes, E v, int zero, E at)
{
	struct twir_tensor *y = tw_y(x, 0);
	E q = twir_unary(x->m, TWIR_Round, v);
	if (!tw_is_zero(x, zero))
		q = twir_add(x->m, q, twir_cast(x->m, TWIR_F32, number(x, zero, at)));
	tw_define(x, y, axes, twir_cast(x->m, y->type, q));
}

/* ---- QLinearAdd, QLinearMul: A, scale, zero, B, scale, zero, scale and zero of the result */

enum { A, A_SCALE, A_ZERO, B, B_SCALE, B_ZERO, Y_SCALE, Y_ZERO };

static void infer_binary(struct tw_opctx *x)
{
	need_bytes(x, A, A_SCALE, A_ZERO);
	need_bytes(x, B, B_SCALE, B_ZERO);
	need_bytes(x, -1, Y_SCALE, Y_ZERO);
	const int ra = tw_in_rank(x, A), rb = tw_in_rank(x, B), rank = ra > rb ? ra : rb;
	const E one = twir_index(x->m, 1);
	E shape[TWIR_MAX_RANK];
	for (int d = 0; d < rank; d++) {
		const E a = d >= rank - ra ? tw_in_dim(x, A, d - (rank - ra)) : one;
		const E b = d >= rank - rb ? tw_in_dim(x, B, d - (rank - rb)) : one;
		shape[d] = a == one ? b : b == one ? a : tw_same_size(x, a, b, "sizes");
	}
	tw_set_out(x, 0, tw_in_type(x, A), rank, shape);
}

static E as_float(struct tw_opctx *x, int value, int n, E const *i)
{
	return twir_cast(x->m, TWIR_F32, twir_cast(x->m, TWIR_I32, tw_load_broadcast(x, tw_x(x, value), n, i)));
}

static void compute_add(struct tw_opctx *x)
{
	struct twir_module *m = x->m;
	E *i;
	const int n = tw_y(x, 0)->rank;
	struct twir_var **axes = tw_axes(x, tw_y(x, 0), &i);
	const E sy = number(x, Y_SCALE, NULL), ra = twir_div(m, number(x, A_SCALE, NULL), sy),
		rb = twir_div(m, number(x, B_SCALE, NULL), sy);
	const E za = twir_mul(m, ra, twir_cast(m, TWIR_F32, zero_of(x, A_ZERO, NULL))),
		zb = twir_mul(m, rb, twir_cast(m, TWIR_F32, zero_of(x, B_ZERO, NULL)));
	const E fixed = twir_sub(m, twir_cast(m, TWIR_F32, zero_of(x, Y_ZERO, NULL)), twir_add(m, za, zb));
	const E a = twir_add(m, twir_mul(m, as_float(x, A, n, i), ra), fixed);
	const E v = twir_add(m, twir_mul(m, as_float(x, B, n, i), rb), a);
	tw_define(x, tw_y(x, 0), axes, twir_cast(m, tw_y(x, 0)->type, twir_unary(m, TWIR_Round, v)));
}

static E centred(struct tw_opctx *x, int value, int zero, int n, E const *i)
{
	const E v = twir_cast(x->m, TWIR_I32, tw_load_broadcast(x, tw_x(x, value), n, i));
	return twir_cast(x->m, TWIR_F32, twir_sub(x->m, v, zero_of(x, zero, NULL)));
}

static void compute_mul(struct tw_opctx *x)
{
	struct twir_module *m = x->m;
	E *i;
	const int n = tw_y(x, 0)->rank;
	struct twir_var **axes = tw_axes(x, tw_y(x, 0), &i);
	const E scale =
		twir_div(m, twir_mul(m, number(x, A_SCALE, NULL), number(x, B_SCALE, NULL)), number(x, Y_SCALE, NULL));
	const E product = twir_mul(m, centred(x, A, A_ZERO, n, i), centred(x, B, B_ZERO, n, i));
	define_rounded(x, axes, twir_mul(m, product, scale), Y_ZERO, NULL);
}

/* ---- functions of one number: X, scale, zero, scale and zero of the result */

enum { X, X_SCALE, X_ZERO, OUT_SCALE, OUT_ZERO };

static void infer_unary(struct tw_opctx *x)
{
	need_bytes(x, X, X_SCALE, X_ZERO);
	need_bytes(x, -1, OUT_SCALE, OUT_ZERO);
	tw_set_out(x, 0, tw_in_type(x, X), tw_in_rank(x, X), tw_in(x, X)->shape);
}

static void define_unary(struct tw_opctx *x, E (*f)(struct tw_opctx *x, E v))
{
	struct twir_module *m = x->m;
	E *i;
	struct twir_var **axes = tw_axes(x, tw_y(x, 0), &i);
	const E v = twir_mul(m, centred(x, X, X_ZERO, tw_y(x, 0)->rank, i), number(x, X_SCALE, NULL));
	define_rounded(x, axes, twir_div(m, f(x, v), number(x, OUT_SCALE, NULL)), OUT_ZERO, NULL);
}

static E sigmoid(struct tw_opctx *x, E v)
{
	return twir_call(x->m, twir_func_find(x->m, "sigmoid_f32"), 1, &v);
}

static void compute_sigmoid(struct tw_opctx *x)
{
	define_unary(x, sigmoid);
}

static E leaky(struct tw_opctx *x, E v)
{
	const E alpha = tw_like(x, v, (double)tw_attr_float(x->node, "alpha", 0.01f));
	return twir_select(x->m, twir_lt(x->m, v, tw_like(x, v, 0)), twir_mul(x->m, v, alpha), v);
}

static void compute_leaky(struct tw_opctx *x)
{
	define_unary(x, leaky);
}

/* ---- QLinearGlobalAveragePool */

static void infer_pool(struct tw_opctx *x)
{
	E shape[TWIR_MAX_RANK];
	const int rank = tw_in_rank(x, X);
	need_bytes(x, X, X_SCALE, X_ZERO);
	need_bytes(x, -1, OUT_SCALE, OUT_ZERO);
	if (rank < 3)
		tw_op_fail(x, TW_ERR_MODEL, "input of rank %d; it must be at least 3", rank);
	if (tw_attr_int(x->node, "channels_last", 0))
		tw_op_fail(x, TW_ERR_UNSUPPORTED, "channels_last = 1");
	for (int d = 0; d < rank; d++)
		shape[d] = d < 2 ? tw_in_dim(x, X, d) : twir_index(x->m, 1);
	tw_set_out(x, 0, tw_in_type(x, X), rank, shape);
}

static void compute_pool(struct tw_opctx *x)
{
	struct twir_module *m = x->m;
	struct twir_tensor *t = tw_x(x, X), *sum = tw_temp(x, "sum", TWIR_I32, 2, t->shape);
	E *i, at[TWIR_MAX_RANK];
	struct twir_var **axes = tw_axes(x, sum, &i), *fold[TWIR_MAX_RANK];
	const int n = t->rank - 2;
	at[0] = i[0];
	at[1] = i[1];
	for (int d = 0; d < n; d++) {
		fold[d] = tw_fold_axis(x, "k", t->shape[2 + d]);
		at[2 + d] = twir_var(m, fold[d]);
	}
	const E value = twir_cast(m, TWIR_I32, tw_load(x, t, t->rank, at));
	tw_define(x, sum, axes, twir_fold(m, TWIR_Add, n, fold, t->shape + 2, value));
	axes = tw_axes(x, tw_y(x, 0), &i);
	const E size = tw_product(x, n, t->shape + 2);
	const E zeros = twir_mul(m, twir_cast(m, TWIR_I32, size), zero_of(x, X_ZERO, NULL));
	const E v = twir_cast(m, TWIR_F32, twir_sub(m, tw_load(x, sum, 2, i), zeros));
	const E all = twir_mul(m, number(x, OUT_SCALE, NULL), twir_cast(m, TWIR_F32, size));
	define_rounded(x, axes, twir_mul(m, v, twir_div(m, number(x, X_SCALE, NULL), all)), OUT_ZERO, NULL);
}

/* ---- QGemm: A, scale, zero, B, scale, zero, C (i32), scale and zero of the result, which is f32 where they are missing */

enum { C = 6, GEMM_SCALE, GEMM_ZERO };

static bool flag(struct tw_opctx *x, const char *name)
{
	return tw_attr_int(x->node, name, 0) != 0;
}

static void infer_gemm(struct tw_opctx *x)
{
	need_bytes(x, A, A_SCALE, A_ZERO);
	need_bytes(x, B, B_SCALE, B_ZERO);
	if (tw_in_rank(x, A) != 2 || tw_in_rank(x, B) != 2)
		tw_op_fail(x, TW_ERR_MODEL, "inputs of rank %d and %d; both must be 2", tw_in_rank(x, A),
			   tw_in_rank(x, B));
	const int ta = flag(x, "transA"), tb = flag(x, "transB");
	tw_same_size(x, tw_in_dim(x, A, 1 - ta), tw_in_dim(x, B, tb), "inner sizes");
	const E shape[] = {tw_in_dim(x, A, ta), tw_in_dim(x, B, 1 - tb)};
	if (tw_has_in(x, C)) {
		tw_need_type(x, C, "i32");
		for (int d = 0; d < tw_in_rank(x, C); d++)
			if (tw_in_dim(x, C, d) != twir_index(x->m, 1))
				tw_same_size(x, tw_in_dim(x, C, d), shape[2 - tw_in_rank(x, C) + d],
					     "C and the product");
	}
	if (tw_has_in(x, GEMM_SCALE) && !tw_has_in(x, GEMM_ZERO))
		tw_op_fail(x, TW_ERR_MODEL, "a scale of the result without a zero point");
	if (tw_has_in(x, GEMM_SCALE))
		need_bytes(x, -1, GEMM_SCALE, GEMM_ZERO);
	tw_set_out(x, 0, tw_has_in(x, GEMM_SCALE) ? tw_in_type(x, GEMM_ZERO) : TWIR_F32, 2, shape);
}

static void compute_gemm(struct tw_opctx *x)
{
	struct twir_module *m = x->m;
	struct twir_tensor *y = tw_y(x, 0), *sum = tw_temp(x, "sum", TWIR_I32, 2, y->shape);
	E *i;
	struct twir_var **axes = tw_axes(x, sum, &i);
	const bool ta = flag(x, "transA"), tb = flag(x, "transB");
	const E depth = tw_in_dim(x, A, ta ? 0 : 1);
	struct twir_var *k = tw_fold_axis(x, "k", depth);
	const E ke = twir_var(m, k), at[] = {ta ? ke : i[0], ta ? i[0] : ke}, bt[] = {tb ? i[1] : ke, tb ? ke : i[1]};
	E a = twir_cast(m, TWIR_I32, tw_load(x, tw_x(x, A), 2, at));
	E b = twir_cast(m, TWIR_I32, tw_load(x, tw_x(x, B), 2, bt));
	a = tw_is_zero(x, A_ZERO) ? a : twir_sub(m, a, zero_of(x, A_ZERO, NULL));
	b = tw_is_zero(x, B_ZERO) ? b : twir_sub(m, b, zero_of(x, B_ZERO, i[1]));
	tw_define(x, sum, axes, twir_fold(m, TWIR_Add, 1, &k, &depth, twir_mul(m, a, b)));
	/* of a column; a definition of its own, so that quotients of constants are made once */
	struct twir_tensor *scale = tw_temp(x, "scale", TWIR_F32, 1, y->shape + 1);
	axes = tw_axes(x, scale, &i);
	const double alpha = (double)tw_attr_float(x->node, "alpha", 1.0f);
	E s = twir_mul(m, number(x, A_SCALE, NULL), number(x, B_SCALE, i[0]));
	s = alpha == 1 ? s : twir_mul(m, tw_like(x, s, alpha), s);
	tw_define(x, scale, axes, tw_has_in(x, GEMM_SCALE) ? twir_div(m, s, number(x, GEMM_SCALE, NULL)) : s);
	axes = tw_axes(x, y, &i);
	E v = tw_load(x, sum, 2, i);
	if (tw_has_in(x, C))
		v = twir_add(m, v, tw_load_broadcast(x, tw_x(x, C), 2, i));
	v = twir_mul(m, twir_cast(m, TWIR_F32, v), tw_load(x, scale, 1, &i[1]));
	if (tw_has_in(x, GEMM_SCALE))
		define_rounded(x, axes, v, GEMM_ZERO, NULL);
	else
		tw_define(x, y, axes, v);
}

static const struct tw_attr_spec attrs_alpha[] = {{"alpha", TW_ATTR_FLOAT, false}, {NULL}};
static const struct tw_attr_spec attrs_pool[] = {{"channels_last", TW_ATTR_INT, false}, {NULL}};
static const struct tw_attr_spec attrs_gemm[] = {
	{"alpha", TW_ATTR_FLOAT, false}, {"transA", TW_ATTR_INT, false}, {"transB", TW_ATTR_INT, false}, {NULL}};

#define OP(title, least, most, f, g)                                                                                   \
	.name = title, .domain = "com.microsoft", .since = 1, .in = {least, most}, .out = {1, 1}, .infer = infer_##f,  \
	.compute = compute_##g

const struct tw_op tw_ops_qlinear[] = {
	{OP("QLinearAdd", 7, 8, binary, add)},
	{OP("QLinearMul", 7, 8, binary, mul)},
	{OP("QLinearSigmoid", 4, 5, unary, sigmoid)},
	{OP("QLinearLeakyRelu", 4, 5, unary, leaky), .attrs = attrs_alpha},
	{OP("QLinearGlobalAveragePool", 5, 5, pool, pool), .attrs = attrs_pool, .flags = TW_OP_IMAGE},
	{OP("QGemm", 6, 9, gemm, gemm), .attrs = attrs_gemm},
	{0},
};
