/* cast.c: Cast, CastLike, BitCast. Conversions follow the IR: float to integer saturates, NaN gives 0, rounding is
   half to even. */
#include "ops/elementwise.h"

#include <inttypes.h>

typedef const struct twir_expr *E;

/* TensorProto's numbers of the types that are supported */
static enum twir_scalar type_of(struct tw_opctx *x, int64_t number)
{
	static const struct {
		const char *name;
		enum twir_scalar type;
	} types[] = {{"undefined", TWIR_VOID},
		     {"float", TWIR_F32},
		     {"uint8", TWIR_U8},
		     {"int8", TWIR_I8},
		     {"uint16", TWIR_U16},
		     {"int16", TWIR_I16},
		     {"int32", TWIR_I32},
		     {"int64", TWIR_I64},
		     {"string", TWIR_VOID},
		     {"bool", TWIR_I1},
		     {"float16", TWIR_F16},
		     {"double", TWIR_F64},
		     {"uint32", TWIR_U32},
		     {"uint64", TWIR_U64},
		     {"complex64", TWIR_VOID},
		     {"complex128", TWIR_VOID},
		     {"bfloat16", TWIR_BF16},
		     {"float8e4m3fn", TWIR_VOID},
		     {"float8e4m3fnuz", TWIR_VOID},
		     {"float8e5m2", TWIR_VOID},
		     {"float8e5m2fnuz", TWIR_VOID},
		     {"uint4", TWIR_VOID},
		     {"int4", TWIR_VOID},
		     {"float4e2m1", TWIR_VOID},
		     {"float8e8m0", TWIR_VOID},
		     {"uint2", TWIR_VOID},
		     {"int2", TWIR_VOID}};
	const bool known = number >= 0 && number < TW_COUNT(types);
	if (!known || types[number].type == TWIR_VOID)
		tw_op_fail(x, TW_ERR_UNSUPPORTED, "to = %" PRId64 " (%s)", number,
			   known ? types[number].name : "unknown type");
	return types[number].type;
}

static void infer_to(struct tw_opctx *x, enum twir_scalar type)
{
	const struct tw_tensor *t = tw_in(x, 0);
	tw_set_out(x, 0, type, t->rank, t->shape);
}

static void infer_cast(struct tw_opctx *x)
{
	infer_to(x, type_of(x, tw_attr_int(x->node, "to", 0)));
}

static void infer_like(struct tw_opctx *x)
{
	infer_to(x, tw_in_type(x, 1));
}

static void compute(struct tw_opctx *x)
{
	struct twir_tensor *y = tw_y(x, 0), *t = tw_x(x, 0);
	E *i;
	struct twir_var **axes = tw_axes(x, y, &i);
	E v = twir_load(x->m, t, y->rank, i);
	const bool storage = t->type == TWIR_F16 || t->type == TWIR_BF16;
	if (storage && y->type != t->type)
		v = twir_cast(x->m, TWIR_F32, v);
	const bool to_storage = y->type == TWIR_F16 || y->type == TWIR_BF16;
	if (to_storage && !twir_is_float(v->type.scalar))
		v = twir_cast(x->m, TWIR_F32, v);
	tw_define(x, y, axes, twir_cast(x->m, y->type, v));
}

static void infer_bits(struct tw_opctx *x)
{
	const enum twir_scalar type = type_of(x, tw_attr_int(x->node, "to", 0));
	if (twir_scalar_bytes(type) != twir_scalar_bytes(tw_in_type(x, 0)))
		tw_op_fail(x, TW_ERR_UNSUPPORTED, "types of different width, %s and %s",
			   twir_scalar_name(tw_in_type(x, 0)), twir_scalar_name(type));
	infer_to(x, type);
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

/* saturate and round_mode concern only types of 8 bits and fewer, which are refused by name. */
static const struct tw_attr_spec attrs_cast[] = {
	{"to", TW_ATTR_INT, true}, {"saturate", TW_ATTR_INT, false}, {"round_mode", TW_ATTR_STRING, false}, {NULL}};
static const struct tw_attr_spec attrs_like[] = {
	{"saturate", TW_ATTR_INT, false}, {"round_mode", TW_ATTR_STRING, false}, {NULL}};
static const struct tw_attr_spec attrs_bits[] = {{"to", TW_ATTR_INT, true}, {NULL}};

const struct tw_op tw_ops_cast[] = {
	{.name = "Cast",
	 .since = 6,
	 .in = {1, 1},
	 .out = {1, 1},
	 .attrs = attrs_cast,
	 .infer = infer_cast,
	 .compute = compute},
	{.name = "CastLike",
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
