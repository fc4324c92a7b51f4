/* interpret_arith: the meaning of every operation on one element (SEMANTICS in ir.h), conversions, and storage
 * types. Input: slots. Output: slots. Invariants: total (nothing traps); f32 operations are rounded to f32 one by
 * one; no contraction. */
#include <math.h>

#include "ir/interpret_int.h"

enum twiri_class twiri_class_of(enum twir_scalar s)
{
	switch (s) {
	case TWIR_I64:
	case TWIR_INDEX:
		return TWIRI_LONG;
	case TWIR_F32:
		return TWIRI_F32;
	case TWIR_F64:
		return TWIRI_F64;
	default:
		return TWIRI_NARROW;
	}
}

static int width_of(enum twir_scalar type)
{
	return type == TWIR_I1 ? 1 : twir_scalar_bits(type);
}

static bool is_less(enum twir_scalar type, int64_t a, int64_t b)
{
	return type == TWIR_U64 ? (uint64_t)a < (uint64_t)b : a < b;
}

static int64_t divide(enum twir_scalar type, int64_t a, int64_t b)
{
	if (b == 0)
		return 0;
	if (type == TWIR_U64)
		return (int64_t)((uint64_t)a / (uint64_t)b);
	if (type == TWIR_INDEX)
		return tw_floordiv(a, b);
	return b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}

static int64_t modulo(enum twir_scalar type, int64_t a, int64_t b)
{
	if (b == 0 || (b == -1 && type != TWIR_U64))
		return 0;
	if (type == TWIR_U64)
		return (int64_t)((uint64_t)a % (uint64_t)b);
	return type == TWIR_INDEX ? tw_floormod(a, b) : a % b;
}

/* The least integer not below a / b; ceil_div(a, 0) = 0. */
static int64_t ceil_divide(enum twir_scalar type, int64_t a, int64_t b)
{
	if (b == 0)
		return 0;
	if (type == TWIR_U64)
		return (int64_t)((uint64_t)a / (uint64_t)b + ((uint64_t)a % (uint64_t)b != 0));
	if (b == -1)
		return (int64_t)(0 - (uint64_t)a);
	return a / b + (a % b != 0 && (a % b < 0) == (b < 0));
}

static int64_t shift_right(enum twir_scalar type, int64_t a, int64_t b)
{
	const int by = (int)((uint64_t)b % (uint64_t)width_of(type));
	return twir_is_signed(type) || type == TWIR_INDEX ? a >> by : (int64_t)((uint64_t)a >> by);
}

int64_t twiri_int_binary(enum twir_kind k, enum twir_scalar type, int64_t a, int64_t b)
{
	const uint64_t ua = (uint64_t)a, ub = (uint64_t)b;
	switch (k) {
	case TWIR_Add:
		return twir_wrap(type, (int64_t)(ua + ub));
	case TWIR_Sub:
		return twir_wrap(type, (int64_t)(ua - ub));
	case TWIR_Mul:
		return twir_wrap(type, (int64_t)(ua * ub));
	case TWIR_Div:
		return twir_wrap(type, divide(type, a, b));
	case TWIR_Mod:
		return twir_wrap(type, modulo(type, a, b));
	case TWIR_Ceildiv:
		return twir_wrap(type, ceil_divide(type, a, b));
	case TWIR_Roundup:
		return twir_wrap(type, (int64_t)((uint64_t)ceil_divide(type, a, b) * ub));
	case TWIR_And:
		return a & b;
	case TWIR_Or:
		return a | b;
	case TWIR_Xor:
		return a ^ b;
	case TWIR_Shl:
		return twir_wrap(type, (int64_t)(ua << (ub % (uint64_t)width_of(type))));
	case TWIR_Shr:
		return twir_wrap(type, shift_right(type, a, b));
	case TWIR_Lt:
		return is_less(type, a, b);
	case TWIR_Le:
		return !is_less(type, b, a);
	case TWIR_Eq:
		return a == b;
	case TWIR_Ne:
		return a != b;
	case TWIR_Min:
	case TWIR_MinNum:
		return is_less(type, a, b) ? a : b;
	case TWIR_Max:
	case TWIR_MaxNum:
		return is_less(type, b, a) ? a : b;
	default:
		tw_raise(TW_ERR_INTERNAL, "interpreter: %s is no binary operation on integers", twir_kind_name(k));
	}
}

static int64_t int_unary(enum twir_kind k, enum twir_scalar type, int64_t a)
{
	switch (k) {
	case TWIR_Neg:
		return twir_wrap(type, (int64_t)(0 - (uint64_t)a));
	case TWIR_Not:
		return twir_wrap(type, ~a);
	case TWIR_Abs:
		return a < 0 && twir_is_signed(type) ? twir_wrap(type, (int64_t)(0 - (uint64_t)a)) : a;
	default:
		tw_raise(TW_ERR_INTERNAL, "interpreter: %s is no operation on integers", twir_kind_name(k));
	}
}

static int64_t dot4(int64_t a, int64_t b, int64_t c)
{
	for (int byte = 0; byte < 4; byte++)
		c += (int64_t)(uint8_t)((uint64_t)a >> 8 * byte) * (int8_t)((uint64_t)b >> 8 * byte);
	return twir_wrap(TWIR_I32, c);
}

/* The cases of floats, once for each type: T the C type, F the slot's member, X the suffix of libm's names. */
#define FLOAT_CASES(CLASS, F, X)                                                                                       \
	case TWIR_Add *TWIRI_CLASSES + CLASS:                                                                          \
		d->F = a->F + b->F;                                                                                    \
		return;                                                                                                \
	case TWIR_Sub *TWIRI_CLASSES + CLASS:                                                                          \
		d->F = a->F - b->F;                                                                                    \
		return;                                                                                                \
	case TWIR_Mul *TWIRI_CLASSES + CLASS:                                                                          \
		d->F = a->F * b->F;                                                                                    \
		return;                                                                                                \
	case TWIR_Div *TWIRI_CLASSES + CLASS:                                                                          \
		d->F = a->F / b->F;                                                                                    \
		return;                                                                                                \
	case TWIR_Lt *TWIRI_CLASSES + CLASS:                                                                           \
		d->i = a->F < b->F;                                                                                    \
		return;                                                                                                \
	case TWIR_Le *TWIRI_CLASSES + CLASS:                                                                           \
		d->i = a->F <= b->F;                                                                                   \
		return;                                                                                                \
	case TWIR_Eq *TWIRI_CLASSES + CLASS:                                                                           \
		d->i = a->F == b->F;                                                                                   \
		return;                                                                                                \
	case TWIR_Ne *TWIRI_CLASSES + CLASS:                                                                           \
		d->i = a->F != b->F;                                                                                   \
		return;                                                                                                \
	case TWIR_Min *TWIRI_CLASSES + CLASS:                                                                          \
		d->F = b->F < a->F || b->F != b->F ? b->F : a->F;                                                      \
		return;                                                                                                \
	case TWIR_Max *TWIRI_CLASSES + CLASS:                                                                          \
		d->F = b->F > a->F || b->F != b->F ? b->F : a->F;                                                      \
		return;                                                                                                \
	case TWIR_MinNum *TWIRI_CLASSES + CLASS:                                                                       \
		d->F = a->F < b->F ? a->F : b->F;                                                                      \
		return;                                                                                                \
	case TWIR_MaxNum *TWIRI_CLASSES + CLASS:                                                                       \
		d->F = a->F > b->F ? a->F : b->F;                                                                      \
		return;                                                                                                \
	case TWIR_Neg *TWIRI_CLASSES + CLASS:                                                                          \
		d->F = -a->F;                                                                                          \
		return;                                                                                                \
	case TWIR_Abs *TWIRI_CLASSES + CLASS:                                                                          \
		d->F = fabs##X(a->F);                                                                                  \
		return;                                                                                                \
	case TWIR_Sqrt *TWIRI_CLASSES + CLASS:                                                                         \
		d->F = sqrt##X(a->F);                                                                                  \
		return;                                                                                                \
	case TWIR_Floor *TWIRI_CLASSES + CLASS:                                                                        \
		d->F = floor##X(a->F);                                                                                 \
		return;                                                                                                \
	case TWIR_Ceil *TWIRI_CLASSES + CLASS:                                                                         \
		d->F = ceil##X(a->F);                                                                                  \
		return;                                                                                                \
	case TWIR_Round *TWIRI_CLASSES + CLASS:                                                                        \
		d->F = nearbyint##X(a->F);                                                                             \
		return;                                                                                                \
	case TWIR_Trunc *TWIRI_CLASSES + CLASS:                                                                        \
		d->F = trunc##X(a->F);                                                                                 \
		return;                                                                                                \
	case TWIR_Fma *TWIRI_CLASSES + CLASS:                                                                          \
		d->F = fma##X(a->F, b->F, c->F);                                                                       \
		return;

void twiri_arith(const struct twiri_ins *in, union twiri_slot *d, const union twiri_slot *a, const union twiri_slot *b,
		 const union twiri_slot *c)
{
	switch (in->op) {
		FLOAT_CASES(TWIRI_F32, s, f)
		FLOAT_CASES(TWIRI_F64, d, )
	default:
		break;
	}
	const enum twir_kind k = in->op / TWIRI_CLASSES;
	if (k == TWIR_Select || k == TWIR_Cond)
		*d = a->i ? *b : *c;
	else if (k == TWIR_Dot4)
		d->i = dot4(a->i, b->i, c->i);
	else if (k == TWIR_Neg || k == TWIR_Not || k == TWIR_Abs)
		d->i = int_unary(k, in->type, a->i);
	else if (in->op % TWIRI_CLASSES == TWIRI_F32 || in->op % TWIRI_CLASSES == TWIRI_F64)
		tw_raise(TW_ERR_INTERNAL, "interpreter: %s is no operation on floats", twir_kind_name(k));
	else
		d->i = twiri_int_binary(k, in->type, a->i, b->i);
}

static int64_t float_to_int(enum twir_scalar to, double v)
{
	if (to == TWIR_I1)
		return v != 0;
	if (v != v)
		return 0;
	v = trunc(v);
	const int width = width_of(to);
	if (!twir_is_signed(to) && to != TWIR_INDEX) {
		if (v <= 0)
			return 0;
		const double end = ldexp(1, width);
		if (v >= end)
			return width == 64 ? -1 : ((int64_t)1 << width) - 1;
		return (int64_t)(uint64_t)v;
	}
	const double end = ldexp(1, width - 1);
	if (v >= end)
		return width == 64 ? INT64_MAX : ((int64_t)1 << (width - 1)) - 1;
	if (v < -end)
		return width == 64 ? INT64_MIN : -((int64_t)1 << (width - 1));
	return (int64_t)v;
}

/* An integer as f64 with the lost part kept in the last bit. */
static double long_to_odd(bool negative, uint64_t magnitude)
{
	if (magnitude >> 53)
		magnitude = (magnitude >> 11 | ((magnitude & 2047) != 0)) << 11;
	return negative ? -(double)magnitude : (double)magnitude;
}

static union twiri_slot to_float(enum twir_scalar to, double v)
{
	union twiri_slot r = {0};
	if (to == TWIR_F32)
		r.s = (float)v;
	else if (to == TWIR_F64)
		r.d = v;
	else
		r.i = (int64_t)twir_float_bits(to, v);
	return r;
}

union twiri_slot twiri_cast(enum twir_scalar to, enum twir_scalar from, union twiri_slot v)
{
	union twiri_slot r = {0};
	if (twir_is_float(from)) {
		if (from == to)
			return v;
		const double x = from == TWIR_F32   ? (double)v.s
				 : from == TWIR_F64 ? v.d
						    : twir_float_value(from, (uint64_t)v.i);
		if (twir_is_float(to))
			return to_float(to, x);
		r.i = float_to_int(to, x);
		return r;
	}
	if (!twir_is_float(to)) {
		r.i = to == TWIR_I1 ? v.i != 0 : twir_wrap(to, v.i);
		return r;
	}
	const bool negative = v.i < 0 && from != TWIR_U64;
	const uint64_t magnitude = negative ? 0 - (uint64_t)v.i : (uint64_t)v.i;
	if (to == TWIR_F32)
		r.s = negative ? -(float)magnitude : (float)magnitude;
	else if (to == TWIR_F64)
		r.d = negative ? -(double)magnitude : (double)magnitude;
	else
		return to_float(to, long_to_odd(negative, magnitude));
	return r;
}

union twiri_slot twiri_bitcast(enum twir_scalar to, enum twir_scalar from, union twiri_slot v)
{
	char bits[8] = {0};
	twiri_write(from, bits, v);
	return twiri_read(to, bits);
}

#define READ_CASE(TYPE, C, F)                                                                                          \
	case TYPE: {                                                                                                   \
		C x;                                                                                                   \
		memcpy(&x, at, sizeof(x));                                                                             \
		r.F = x;                                                                                               \
		break;                                                                                                 \
	}

union twiri_slot twiri_read(enum twir_scalar type, const char *at)
{
	union twiri_slot r = {0};
	switch (type) {
		READ_CASE(TWIR_F32, float, s)
		READ_CASE(TWIR_F64, double, d)
		READ_CASE(TWIR_I8, int8_t, i)
		READ_CASE(TWIR_U8, uint8_t, i)
		READ_CASE(TWIR_I16, int16_t, i)
		READ_CASE(TWIR_U16, uint16_t, i)
		READ_CASE(TWIR_F16, uint16_t, i)
		READ_CASE(TWIR_BF16, uint16_t, i)
		READ_CASE(TWIR_I32, int32_t, i)
		READ_CASE(TWIR_U32, uint32_t, i)
		READ_CASE(TWIR_I64, int64_t, i)
		READ_CASE(TWIR_INDEX, int64_t, i)
	case TWIR_U64: {
		uint64_t x;
		memcpy(&x, at, sizeof(x));
		r.i = (int64_t)x;
		break;
	}
	case TWIR_I1:
		r.i = *at != 0;
		break;
	default: /* storage types of at most 8 bits, in the low ones */
		if (!twir_is_storage(type))
			tw_raise(TW_ERR_INTERNAL, "interpreter: %s is not stored", twir_scalar_name(type));
		r.i = twir_wrap(type, (uint8_t)*at);
	}
	return r;
}

void twiri_write(enum twir_scalar type, char *at, union twiri_slot v)
{
	switch (width_of(type)) {
	case 1:
		*at = v.i != 0;
		return;
	case 2:
	case 4:
		*at = (char)(v.i & ((1 << width_of(type)) - 1));
		return;
	case 8:
		*at = (char)v.i;
		return;
	case 16: {
		const uint16_t x = (uint16_t)v.i;
		memcpy(at, &x, sizeof(x));
		return;
	}
	case 32:
		if (type == TWIR_F32) {
			memcpy(at, &v.s, sizeof(v.s));
		} else {
			const uint32_t x = (uint32_t)v.i;
			memcpy(at, &x, sizeof(x));
		}
		return;
	default:
		memcpy(at, &v.i, sizeof(v.i));
	}
}

union twiri_slot twiri_const(enum twir_scalar type, const struct twir_expr *e)
{
	union twiri_slot r = {0};
	if (type == TWIR_F32)
		r.s = (float)e->u.f;
	else if (type == TWIR_F64)
		r.d = e->u.f;
	else if (twir_is_float(type))
		return to_float(type, e->u.f);
	else
		r.i = twir_wrap(type, e->u.i);
	return r;
}
