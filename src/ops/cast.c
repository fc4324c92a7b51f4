/* cast.c: Cast, CastLike, BitCast. Conversions follow the IR: float to integer saturates, NaN gives 0, rounding is
   half to even. */
#include "ops/elementwise.h"

#include <inttypes.h>

typedef const struct twir_expr *E;

/* TensorProto's numbers of the types that are supported */
static enum twir_scalar type_of(struct tw_opctx *x, int64_t number, enum twir_scalar *narrow)
{
	static const struct {
		const char *name;
		enum twir_scalar type, narrow;
	} types[] = {{"undefined", TWIR_VOID, 0},
		     {"float", TWIR_F32, 0},
		     {"uint8", TWIR_U8, 0},
		     {"int8", TWIR_I8, 0},
		     {"uint16", TWIR_U16, 0},
		     {"int16", TWIR_I16, 0},
		     {"int32", TWIR_I32, 0},
		     {"int64", TWIR_I64, 0},
		     {"string", TWIR_VOID, 0},
		     {"bool", TWIR_I1, 0},
		     {"float16", TWIR_F16, 0},
		     {"double", TWIR_F64, 0},
		     {"uint32", TWIR_U32, 0},
		     {"uint64", TWIR_U64, 0},
		     {"complex64", TWIR_VOID, 0},
		     {"complex128", TWIR_VOID, 0},
		     {"bfloat16", TWIR_BF16, 0},
		     {"float8e4m3fn", TWIR_F8E4M3FN, 0},
		     {"float8e4m3fnuz", TWIR_F8E4M3FNUZ, 0},
		     {"float8e5m2", TWIR_F8E5M2, 0},
		     {"float8e5m2fnuz", TWIR_F8E5M2FNUZ, 0},
		     {"uint4", TWIR_U8, TWIR_U4},
		     {"int4", TWIR_I8, TWIR_I4},
		     {"float4e2m1", TWIR_U8, TWIR_F4E2M1},
		     {"float8e8m0", TWIR_F8E8M0, 0},
		     {"uint2", TWIR_U8, TWIR_U2},
		     {"int2", TWIR_I8, TWIR_I2}};
	const bool known = number >= 0 && number < TW_COUNT(types);
	if (!known || types[number].type == TWIR_VOID)
		tw_op_fail(x, TW_ERR_UNSUPPORTED, "to = %" PRId64 " (%s)", number,
			   known ? types[number].name : "unknown type");
	*narrow = types[number].narrow;
	return types[number].type;
}

static void infer_to(struct tw_opctx *x, enum twir_scalar type, enum twir_scalar narrow)
{
	const char *mode = tw_attr_string(x->node, "round_mode", "up");
	if (type == TWIR_F8E8M0 && strcmp(mode, "up"))
		tw_op_fail(x, TW_ERR_UNSUPPORTED, "round_mode = '%s'", mode);
	const struct tw_tensor *t = tw_in(x, 0);
	tw_set_out(x, 0, type, t->rank, t->shape);
	tw_out(x, 0)->narrow = narrow;
}

static void infer_cast(struct tw_opctx *x)
{
	enum twir_scalar narrow;
	const enum twir_scalar type = type_of(x, tw_attr_int(x->node, "to", 0), &narrow);
	infer_to(x, type, narrow);
}

static void infer_like(struct tw_opctx *x)
{
	infer_to(x, tw_in_type(x, 1), tw_in(x, 1)->narrow);
}

/* What is too large for a float of 8 bits becomes its largest value; with saturate = 0, where the nearest value would be
   beyond that, infinity where the type has one, else NaN. */
static E narrowed(struct tw_opctx *x, E v, enum twir_scalar type)
{
	static const struct {
		double first; /* that does not round to the largest value or less */
		int special;  /* bits of what it becomes, without the sign */
		bool is_signed;
	} beyond[TWIR_SCALARS] = {[TWIR_F8E4M3FN] = {464, 0x7f, true},
				  [TWIR_F8E4M3FNUZ] = {248, 0x80, false},
				  [TWIR_F8E5M2] = {61440, 0x7c, true},
				  [TWIR_F8E5M2FNUZ] = {61440, 0x80, false}};
	struct twir_module *m = x->m;
	const E value = twir_cast(m, type, v);
	if (tw_attr_int(x->node, "saturate", 1) || beyond[type].first == 0)
		return value;
	/* An odd neighbour gives way to the even one beyond it; 448 is even. */
	const E size = twir_unary(m, TWIR_Abs, v), first = tw_like(x, v, beyond[type].first);
	const E far = type == TWIR_F8E4M3FN ? twir_lt(m, first, size) : twir_le(m, first, size);
	const E bits = twir_int(m, TWIR_U8, beyond[type].special), sign = twir_int(m, TWIR_U8, 0x80);
	const E below = twir_lt(m, v, tw_like(x, v, 0));
	const E special = beyond[type].is_signed ? twir_select(m, below, twir_or(m, bits, sign), bits) : bits;
	return twir_bitcast(m, type, twir_select(m, far, special, twir_bitcast(m, TWIR_U8, value)));
}

static void compute(struct tw_opctx *x)
{
	struct twir_tensor *y = tw_y(x, 0), *t = tw_x(x, 0);
	E *i;
	struct twir_var **axes = tw_axes(x, y, &i);
	const enum twir_scalar from = tw_in(x, 0)->narrow, to = tw_out(x, 0)->narrow;
	E v = twir_load(x->m, t, y->rank, i);
	if (from && from == to) {
		tw_define(x, y, axes, v);
		return;
	}
	v = tw_from_narrow(x, from, v);
	if (to) {
		v = twir_is_storage(v->type.scalar) ? twir_cast(x->m, TWIR_F32, v) : v;
		tw_define(x, y, axes, tw_to_narrow(x, to, v));
		return;
	}
	if (twir_is_storage(t->type) && y->type != t->type)
		v = twir_cast(x->m, TWIR_F32, v);
	if (twir_is_storage(y->type) && !twir_is_float(v->type.scalar))
		v = twir_cast(x->m, TWIR_F32, v);
	tw_define(x, y, axes, y->type == v->type.scalar ? v : narrowed(x, v, y->type));
}

static void infer_bits(struct tw_opctx *x)
{
	enum twir_scalar narrow;
	const enum twir_scalar type = type_of(x, tw_attr_int(x->node, "to", 0), &narrow);
	if (narrow)
		tw_op_fail(x, TW_ERR_UNSUPPORTED, "to %s", tw_narrow_name(narrow));
	if (twir_scalar_bytes(type) != twir_scalar_bytes(tw_in_type(x, 0)))
		tw_op_fail(x, TW_ERR_UNSUPPORTED, "types of different width, %s and %s",
			   twir_scalar_name(tw_in_type(x, 0)), twir_scalar_name(type));
	infer_to(x, type, TWIR_VOID);
}

static void compute_bits(struct tw_opctx *x)
{
	struct twir_tensor *y = tw_y(x, 0), *t = tw_x(x, 0);
	E *i;
	struct twir_var **axes = tw_axes(x, y, &i);
	E v = twir_load(x->m, t, y->rank, i);
	if (t->type == TWIR_I1)
		v = twir_cast(x->m, TWIR_U8, v);
	tw_define(x, y, axes,
		  y->type == TWIR_I1	      ? twir_cast(x->m, TWIR_I1, v)
		  : v->type.scalar == y->type ? v
					      : twir_bitcast(x->m, y->type, v));
}

static const struct tw_attr_spec attrs_cast[] = {
	{"to", TW_ATTR_INT, true}, {"saturate", TW_ATTR_INT, false}, {"round_mode", TW_ATTR_STRING, false}, {NULL}};
static const struct tw_attr_spec attrs_like[] = {
	{"saturate", TW_ATTR_INT, false}, {"round_mode", TW_ATTR_STRING, false}, {NULL}};
static const struct tw_attr_spec attrs_bits[] = {{"to", TW_ATTR_INT, true}, {NULL}};

const struct tw_op tw_ops_cast[] = {
	{.name = "Cast",
	 .flags = TW_OP_NARROW,
	 .since = 6,
	 .in = {1, 1},
	 .out = {1, 1},
	 .attrs = attrs_cast,
	 .infer = infer_cast,
	 .compute = compute},
	{.name = "CastLike",
	 .flags = TW_OP_NARROW,
	 .since = 15,
	 .in = {2, 2},
	 .out = {1, 1},
	 .attrs = attrs_like,
	 .infer = infer_like,
	 .compute = compute},
	{.name = "BitCast",
	 .since = 26,
	 .in = {1, 1},
	 .out = {1, 1},
	 .attrs = attrs_bits,
	 .infer = infer_bits,
	 .compute = compute_bits},
	{0},
};
