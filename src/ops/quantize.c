/* quantize.c: QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear, MatMulInteger, QLinearMatMul.
 *
 * Scale and zero point are one number, one for each index of an axis, or one for each block along an axis. */
#include "ops/elementwise.h"

#include <inttypes.h>

typedef const struct twir_expr *E;

/* Input k (scale or zero point) at the coordinates of an element of input 0. */
static int axis_of(struct tw_opctx *x)
{
	return tw_axis(x, tw_attr_int(x->node, "axis", 1), tw_in_rank(x, 0));
}

/* The number that an input of 8 bits holds, the same everywhere, as a literal; NULL: it holds several, or is not known yet. */
static E same_everywhere(struct tw_opctx *x, int k)
{
	const double *v;
	const enum twir_scalar type = tw_in_type(x, k);
	const int n = type == TWIR_U8 || type == TWIR_I8 ? tw_in_floats(x, k, &v) : 0;
	for (int i = 1; i < n; i++)
		if (v[i] != v[0])
			return NULL;
	return n > 0 ? twir_int(x->m, type, (int64_t)v[0]) : NULL;
}

static E parameter(struct tw_opctx *x, int k, E const *i)
{
	struct twir_tensor *t = tw_x(x, k);
	const int64_t block = tw_attr_int(x->node, "block_size", 0);
	const E one = same_everywhere(x, k);
	E at[TWIR_MAX_RANK];
	if (one)
		return one;
	if (t->rank == 0)
		return tw_load(x, t, 0, NULL);
	if (t->rank == 1 && (tw_in_rank(x, 0) == 0 || t->shape[0] == twir_index(x->m, 1) || !block)) {
		at[0] = t->shape[0] == twir_index(x->m, 1) ? twir_index(x->m, 0) : i[axis_of(x)];
		return tw_load(x, t, 1, at);
	}
	for (int d = 0; d < t->rank; d++)
		at[d] = d == axis_of(x) && block ? twir_div(x->m, i[d], twir_index(x->m, block)) : i[d];
	return tw_load(x, t, t->rank, at);
}

static void check_parameters(struct tw_opctx *x)
{
	const int rank = tw_in_rank(x, 0);
	const int64_t block = tw_attr_int(x->node, "block_size", 0);
	for (int k = 1; k < 3; k++) {
		if (!tw_has_in(x, k))
			continue;
		const int r = tw_in_rank(x, k);
		if (r == 0 || (r == 1 && tw_in_dim(x, k, 0) == twir_index(x->m, 1)))
			continue;
		const int axis = axis_of(x);
		if (r == 1 && rank > 0 && !block) {
			tw_same_size(x, tw_in_dim(x, k, 0), tw_in_dim(x, 0, axis), "scale and the axis");
			continue;
		}
		if (block < 1 || r != rank)
			tw_op_fail(x, TW_ERR_MODEL, "scale or zero point of rank %d, block_size %" PRId64, r, block);
		for (int d = 0; d < rank; d++) {
			const E blocks = twir_ceildiv(x->m, tw_in_dim(x, 0, d), twir_index(x->m, block));
			tw_same_size(x, tw_in_dim(x, k, d), d == axis ? blocks : tw_in_dim(x, 0, d), "scale in blocks");
		}
	}
}

/* The type with a number in ONNX; *narrow: its own type where elements have 4 or 2 bits, else VOID. */
static enum twir_scalar number_type(struct tw_opctx *x, int64_t number, enum twir_scalar *narrow)
{
	static const enum twir_scalar narrows[] = {
		[21] = TWIR_U4, [22] = TWIR_I4, [23] = TWIR_F4E2M1, [25] = TWIR_U2, [26] = TWIR_I2};
	static const enum twir_scalar types[] = {
		[1] = TWIR_F32,		[2] = TWIR_U8,	      [3] = TWIR_I8,	      [4] = TWIR_U16,
		[5] = TWIR_I16,		[6] = TWIR_I32,	      [10] = TWIR_F16,	      [11] = TWIR_F64,
		[16] = TWIR_BF16,	[17] = TWIR_F8E4M3FN, [18] = TWIR_F8E4M3FNUZ, [19] = TWIR_F8E5M2,
		[20] = TWIR_F8E5M2FNUZ, [21] = TWIR_U8,	      [22] = TWIR_I8,	      [23] = TWIR_U8,
		[25] = TWIR_U8,		[26] = TWIR_I8};
	_Static_assert(TW_COUNT(narrows) == TW_COUNT(types), "one for each number");
	if (number < 0 || number >= TW_COUNT(types) || types[number] == TWIR_VOID)
		tw_op_fail(x, TW_ERR_UNSUPPORTED, "output of type number %" PRId64, number);
	*narrow = narrows[number];
	return types[number];
}

/* ---- QuantizeLinear */

static void limits(enum twir_scalar t, double *low, double *high)
{
	const int bits = twir_scalar_bits(t);
	*low = twir_is_signed(t) ? -(double)(1ll << (bits - 1)) : 0;
	*high = twir_is_signed(t) ? (double)(1ll << (bits - 1)) - 1 : (double)((1ll << bits) - 1);
}

static bool is_float8(enum twir_scalar t)
{
	return t == TWIR_F8E4M3FN || t == TWIR_F8E4M3FNUZ || t == TWIR_F8E5M2 || t == TWIR_F8E5M2FNUZ;
}

/* round(v / scale) + zero point, saturated: to what `narrow` holds, where it is one */
static E quantized(struct tw_opctx *x, E v, E scale, E zero, enum twir_scalar type, enum twir_scalar narrow)
{
	double low, high;
	limits(narrow ? narrow : type, &low, &high);
	E q = twir_unary(x->m, TWIR_Round, twir_div(x->m, v, scale));
	if (zero)
		q = twir_add(x->m, q, twir_cast(x->m, q->type.scalar, zero));
	if (narrow) /* casts saturate */
		q = twir_min(x->m, twir_max(x->m, q, tw_like(x, q, low)), tw_like(x, q, high));
	return twir_cast(x->m, type, q);
}

static void infer_quantize(struct tw_opctx *x)
{
	tw_need_type(x, 0, "float i32");
	tw_need_type(x, 1, "float");
	enum twir_scalar type = tw_has_in(x, 2) ? tw_in_type(x, 2) : TWIR_U8;
	enum twir_scalar narrow = tw_has_in(x, 2) ? tw_in(x, 2)->narrow : TWIR_VOID;
	if (tw_attr_int(x->node, "output_dtype", 0))
		type = number_type(x, tw_attr_int(x->node, "output_dtype", 0), &narrow);
	if (type != TWIR_U8 && type != TWIR_I8 && type != TWIR_U16 && type != TWIR_I16 && !is_float8(type))
		tw_op_fail(x, TW_ERR_UNSUPPORTED, "output of type %s", twir_scalar_name(type));
	if (tw_has_in(x, 2) && (tw_in_type(x, 2) != type || tw_in(x, 2)->narrow != narrow))
		tw_op_fail(x, TW_ERR_MODEL, "zero point and output have different types");
	check_parameters(x);
	tw_set_out(x, 0, type, tw_in_rank(x, 0), tw_in(x, 0)->shape);
	tw_out(x, 0)->narrow = narrow;
}

static void compute_quantize(struct tw_opctx *x)
{
	struct twir_tensor *y = tw_y(x, 0);
	E *i;
	struct twir_var **axes = tw_axes(x, y, &i);
	E v = tw_load(x, tw_x(x, 0), y->rank, i), scale = parameter(x, 1, i);
	const enum twir_scalar wide =
		v->type.scalar == TWIR_F64 || scale->type.scalar == TWIR_F64 ? TWIR_F64 : TWIR_F32;
	v = twir_cast(x->m, wide, v);
	scale = twir_cast(x->m, wide, scale);
	E zero = tw_has_in(x, 2) ? parameter(x, 2, i) : NULL;
	const enum twir_scalar narrow = tw_out(x, 0)->narrow;
	if (!is_float8(y->type) && narrow != TWIR_F4E2M1) {
		tw_define(x, y, axes, quantized(x, v, scale, zero, y->type, narrow));
		return;
	}
	v = twir_div(x->m, v, scale);
	zero = zero ? twir_cast(x->m, wide, tw_from_narrow(x, narrow, zero)) : tw_like(x, v, 0);
	v = twir_add(x->m, v, zero);
	tw_define(x, y, axes, narrow ? tw_to_narrow(x, narrow, v) : twir_cast(x->m, y->type, v));
}

/* ---- DequantizeLinear */

static void infer_dequantize(struct tw_opctx *x)
{
	tw_need_type(x, 0, "i8 u8 i16 u16 i32 f8e4m3fn f8e4m3fnuz f8e5m2 f8e5m2fnuz");
	tw_need_type(x, 1, "f32 f16 bf16");
	if (tw_has_in(x, 2) && (tw_in_type(x, 2) != tw_in_type(x, 0) || tw_in(x, 2)->narrow != tw_in(x, 0)->narrow))
		tw_op_fail(x, TW_ERR_MODEL, "zero point and input have different types");
	enum twir_scalar type = tw_in_type(x, 1), narrow;
	if (tw_attr_int(x->node, "output_dtype", 0))
		type = number_type(x, tw_attr_int(x->node, "output_dtype", 0), &narrow);
	if (!twir_is_float(type))
		tw_op_fail(x, TW_ERR_MODEL, "output of type %s", twir_scalar_name(type));
	check_parameters(x);
	tw_set_out(x, 0, type, tw_in_rank(x, 0), tw_in(x, 0)->shape);
}

static void compute_dequantize(struct tw_opctx *x)
{
	struct twir_tensor *y = tw_y(x, 0);
	E *i;
	struct twir_var **axes = tw_axes(x, y, &i);
	const enum twir_scalar narrow = tw_in(x, 0)->narrow;
	const bool floats = twir_is_storage(tw_x(x, 0)->type) || narrow == TWIR_F4E2M1;
	const enum twir_scalar wide = floats ? TWIR_F32 : TWIR_I32;
	E q = twir_cast(x->m, wide, tw_from_narrow(x, narrow, tw_load(x, tw_x(x, 0), y->rank, i)));
	if (!tw_is_zero(x, 2))
		q = twir_sub(x->m, q, twir_cast(x->m, wide, tw_from_narrow(x, narrow, parameter(x, 2, i))));
	const E v = twir_mul(x->m, twir_cast(x->m, TWIR_F32, q), parameter(x, 1, i));
	tw_define(x, y, axes, twir_cast(x->m, tw_compute_type(y->type), v));
}

/* ---- DynamicQuantizeLinear: scale and zero point of u8 from the smallest and largest value, 0 among them */

static void infer_dynamic(struct tw_opctx *x)
{
	tw_need_type(x, 0, "f32");
	const struct tw_tensor *t = tw_in(x, 0);
	tw_set_out(x, 0, TWIR_U8, t->rank, t->shape);
	tw_set_out(x, 1, TWIR_F32, 0, NULL);
	tw_set_out(x, 2, TWIR_U8, 0, NULL);
}

static struct twir_tensor *extreme(struct tw_opctx *x, const char *name, enum twir_kind op)
{
	struct twir_tensor *t = tw_x(x, 0), *out = tw_temp(x, name, TWIR_F32, 0, NULL);
	E at[TWIR_MAX_RANK];
	struct twir_var *fold[TWIR_MAX_RANK];
	for (int d = 0; d < t->rank; d++) {
		fold[d] = tw_fold_axis(x, "k", t->shape[d]);
		at[d] = twir_var(x->m, fold[d]);
	}
	const E v = tw_load(x, t, t->rank, at), all = t->rank ? twir_fold(x->m, op, t->rank, fold, t->shape, v) : v;
	tw_define(x, out, NULL, twir_binary(x->m, op, all, tw_like(x, all, 0)));
	return out;
}

static void compute_dynamic(struct tw_opctx *x)
{
	struct twir_module *m = x->m;
	struct twir_tensor *low = extreme(x, "low", TWIR_Min), *high = extreme(x, "high", TWIR_Max);
	struct twir_tensor *y = tw_y(x, 0), *scale = tw_temp(x, "scale", TWIR_F32, 0, NULL),
			   *zero = tw_temp(x, "zero", TWIR_U8, 0, NULL);
	const E l = tw_load(x, low, 0, NULL),
		step = twir_div(m, twir_sub(m, tw_load(x, high, 0, NULL), l), tw_like(x, l, 255));
	tw_define(x, scale, NULL, step);
	const E s = tw_load(x, scale, 0, NULL), none = tw_like(x, s, 0);
	const E at = twir_select(m, twir_eq(m, s, none), none, twir_div(m, twir_unary(m, TWIR_Neg, l), s));
	const E clamped = twir_min(m, twir_max(m, twir_unary(m, TWIR_Round, at), none), tw_like(x, s, 255));
	tw_define(x, zero, NULL, twir_cast(m, TWIR_U8, clamped));
	E *i;
	struct twir_var **axes = tw_axes(x, y, &i);
	tw_define(x, y, axes,
		  quantized(x, tw_load(x, tw_x(x, 0), y->rank, i), s, tw_load(x, zero, 0, NULL), TWIR_U8, TWIR_VOID));
	if (tw_has_out(x, 1))
		tw_define(x, tw_y(x, 1), NULL, tw_load(x, scale, 0, NULL));
	if (tw_has_out(x, 2))
		tw_define(x, tw_y(x, 2), NULL, tw_load(x, zero, 0, NULL));
}

/* ---- MatMulInteger, QLinearMatMul: numpy's matmul of (a - zero) and (b - zero) in i32 */

struct side { /* input, scale and zero point of an operand */
	int value, zero;
};

static int matmul_shape(struct tw_opctx *x, struct side a, struct side b, E *shape)
{
	const int ra = tw_in_rank(x, a.value), rb = tw_in_rank(x, b.value);
	if (ra < 2 || rb < 2)
		tw_op_fail(x, TW_ERR_UNSUPPORTED, "operands of rank %d and %d; at least 2 is", ra, rb);
	tw_same_size(x, tw_in_dim(x, a.value, -1), tw_in_dim(x, b.value, -2), "inner sizes");
	const int rank = ra > rb ? ra : rb;
	const E one = twir_index(x->m, 1);
	for (int d = 0; d < rank - 2; d++) {
		const E sa = d >= rank - ra ? tw_in_dim(x, a.value, d - (rank - ra)) : one;
		const E sb = d >= rank - rb ? tw_in_dim(x, b.value, d - (rank - rb)) : one;
		shape[d] = sa == one ? sb : sb == one ? sa : tw_same_size(x, sa, sb, "batch sizes");
	}
	shape[rank - 2] = tw_in_dim(x, a.value, -2);
	shape[rank - 1] = tw_in_dim(x, b.value, -1);
	return rank;
}

/* An operand less its zero point; along: where a zero point of one axis is indexed, the row of A or the column of
   B. */
static E centred(struct tw_opctx *x, struct side s, int n, E const *i, int along)
{
	E at[TWIR_MAX_RANK];
	struct twir_tensor *t = tw_x(x, s.value);
	for (int d = 0; d < t->rank; d++)
		at[d] = t->shape[d] == twir_index(x->m, 1) ? twir_index(x->m, 0) : i[n - t->rank + d];
	const E v = twir_cast(x->m, TWIR_I32, tw_load(x, t, t->rank, at));
	if (tw_is_zero(x, s.zero))
		return v;
	struct twir_tensor *z = tw_x(x, s.zero);
	E zero;
	if ((zero = same_everywhere(x, s.zero)) != NULL)
		;
	else if (z->rank == 1 && z->shape[0] != twir_index(x->m, 1))
		zero = tw_load(x, z, 1, &i[along]);
	else
		zero = tw_load_broadcast(x, z, n, i);
	return twir_sub(x->m, v, twir_cast(x->m, TWIR_I32, zero));
}

static void define_product(struct tw_opctx *x, struct twir_tensor *out, struct side a, struct side b)
{
	E *i, ia[TWIR_MAX_RANK], ib[TWIR_MAX_RANK];
	const int n = out->rank;
	struct twir_var **axes = tw_axes(x, out, &i);
	const E depth = tw_in_dim(x, a.value, -1);
	struct twir_var *k = tw_fold_axis(x, "k", depth);
	for (int d = 0; d < n; d++)
		ia[d] = ib[d] = i[d];
	ia[n - 1] = ib[n - 2] = twir_var(x->m, k);
	const E product = twir_mul(x->m, centred(x, a, n, ia, n - 2), centred(x, b, n, ib, n - 1));
	tw_define(x, out, axes, twir_fold(x->m, TWIR_Add, 1, &k, &depth, product));
}

static void infer_matmul_integer(struct tw_opctx *x)
{
	E shape[TWIR_MAX_RANK];
	tw_need_type(x, 0, "i8 u8");
	tw_need_type(x, 1, "i8 u8");
	const int rank = matmul_shape(x, (struct side){0, 2}, (struct side){1, 3}, shape);
	tw_set_out(x, 0, TWIR_I32, rank, shape);
}

static void compute_matmul_integer(struct tw_opctx *x)
{
	define_product(x, tw_y(x, 0), (struct side){0, 2}, (struct side){1, 3});
}

static void infer_qlinear_matmul(struct tw_opctx *x)
{
	E shape[TWIR_MAX_RANK];
	tw_need_type(x, 0, "i8 u8");
	tw_need_type(x, 3, "i8 u8");
	tw_need_type(x, 7, "i8 u8");
	const int rank = matmul_shape(x, (struct side){0, 2}, (struct side){3, 5}, shape);
	tw_set_out(x, 0, tw_in_type(x, 7), rank, shape);
}

static E vector_or_scalar(struct tw_opctx *x, int k, E at)
{
	struct twir_tensor *t = tw_x(x, k);
	const E zero = twir_index(x->m, 0);
	if (t->rank > 1)
		tw_op_fail(x, TW_ERR_UNSUPPORTED, "scale of rank %d", t->rank);
	return tw_load(x, t, t->rank, t->rank && t->shape[0] == twir_index(x->m, 1) ? &zero : &at);
}

static void compute_qlinear_matmul(struct tw_opctx *x)
{
	struct twir_tensor *y = tw_y(x, 0), *sum = tw_temp(x, "sum", TWIR_I32, y->rank, y->shape);
	define_product(x, sum, (struct side){0, 2}, (struct side){3, 5});
	E *i;
	const int n = y->rank;
	struct twir_var **axes = tw_axes(x, y, &i);
	const E sa = twir_cast(x->m, TWIR_F32, vector_or_scalar(x, 1, i[n - 2])),
		sb = twir_cast(x->m, TWIR_F32, vector_or_scalar(x, 4, i[n - 1]));
	const E sy = twir_cast(x->m, TWIR_F32, vector_or_scalar(x, 6, i[n - 2]));
	E v = twir_cast(x->m, TWIR_F32, tw_load(x, sum, n, i));
	v = twir_mul(x->m, v, twir_div(x->m, twir_mul(x->m, sa, sb), sy));
	v = twir_unary(x->m, TWIR_Round, v);
	v = twir_add(x->m, v, twir_cast(x->m, TWIR_F32, vector_or_scalar(x, 7, i[n - 2])));
	tw_define(x, y, axes, twir_cast(x->m, y->type, v)); /* which saturates */
}

/* saturate concerns only float8 outputs, which are refused. precision: 1 (float) is what is computed. */
static const struct tw_attr_spec attrs_quantize[] = {{"axis", TW_ATTR_INT, false},
						     {"saturate", TW_ATTR_INT, false},
						     {"block_size", TW_ATTR_INT, false},
						     {"output_dtype", TW_ATTR_INT, false},
						     {NULL}};
static const struct tw_attr_spec attrs_dequantize[] = {
	{"axis", TW_ATTR_INT, false}, {"block_size", TW_ATTR_INT, false}, {"output_dtype", TW_ATTR_INT, false}, {NULL}};

#define FN(name) .infer = infer_##name, .compute = compute_##name

const struct tw_op tw_ops_quantize[] = {
	{.name = "QuantizeLinear",
	 .flags = TW_OP_NARROW,
	 .since = 10,
	 .in = {2, 3},
	 .out = {1, 1},
	 .attrs = attrs_quantize,
	 FN(quantize)},
	{.name = "DequantizeLinear",
	 .flags = TW_OP_NARROW | TW_OP_KEEPS,
	 .since = 10,
	 .in = {2, 3},
	 .out = {1, 1},
	 .attrs = attrs_dequantize,
	 FN(dequantize)},
	{.name = "DynamicQuantizeLinear", .since = 11, .in = {1, 1}, .out = {1, 3}, FN(dynamic)},
	{.name = "MatMulInteger", .since = 10, .in = {2, 4}, .out = {1, 1}, FN(matmul_integer)},
	{.name = "QLinearMatMul", .since = 10, .in = {8, 8}, .out = {1, 1}, FN(qlinear_matmul)},
	{0},
};
