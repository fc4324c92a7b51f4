/* Constructors of constants, variables, arithmetic, choices and conversions, with the light folding that ir.h
 * promises: integer constants and identities of integers. Floats are never folded here. */
#include "ir/ir_int.h"

#include <math.h>

int64_t twir_wrap(enum twir_scalar s, int64_t v)
{
	switch (s) {
	case TWIR_I1:
		return v & 1;
	case TWIR_I8:
		return (int8_t)v;
	case TWIR_I16:
		return (int16_t)v;
	case TWIR_I32:
		return (int32_t)v;
	case TWIR_I4:
		return (int64_t)((uint64_t)v << 60) >> 60;
	case TWIR_I2:
		return (int64_t)((uint64_t)v << 62) >> 62;
	case TWIR_U2:
		return v & 3;
	case TWIR_U4:
	case TWIR_F4E2M1:
		return v & 15;
	case TWIR_U8:
	case TWIR_F8E4M3FN:
	case TWIR_F8E4M3FNUZ:
	case TWIR_F8E5M2:
	case TWIR_F8E5M2FNUZ:
	case TWIR_F8E8M0:
		return (uint8_t)v;
	case TWIR_U16:
	case TWIR_F16: /* storage types count as their bits */
	case TWIR_BF16:
		return (uint16_t)v;
	case TWIR_U32:
		return (uint32_t)v;
	default:
		return v;
	}
}

const struct twir_expr *twir_int(struct twir_module *m, enum twir_scalar type, int64_t value)
{
	TW_CHECK(twir_is_int(type));
	return twir_intern(
		m, &(struct twir_key){.kind = TWIR_Const, .type = twir_scalar_type(type), .i = twir_wrap(type, value)});
}

const struct twir_expr *twir_index(struct twir_module *m, int64_t value)
{
	return twir_int(m, TWIR_INDEX, value);
}

const struct twir_expr *twir_bool(struct twir_module *m, bool value)
{
	return twir_int(m, TWIR_I1, value);
}

const struct twir_expr *twir_float(struct twir_module *m, enum twir_scalar type, double value)
{
	TW_CHECK(twir_is_float(type));
	if (isnan(value) && type != TWIR_F4E2M1)
		value = (double)NAN;
	else if (type == TWIR_F32)
		value = (float)value;
	else if (twir_is_storage(type))
		value = twir_float_value(type, twir_float_bits(type, value));
	return twir_intern(m, &(struct twir_key){.kind = TWIR_Const, .type = twir_scalar_type(type), .f = value});
}

const struct twir_expr *twir_const_of(struct twir_module *m, struct twir_type type, double value)
{
	const struct twir_expr *e;
	if (twir_is_float(type.scalar)) {
		e = twir_float(m, type.scalar, value);
	} else if (type.scalar == TWIR_I1) {
		e = twir_bool(m, value != 0);
	} else {
		int64_t v = 0;
		if (value >= 0x1p63)
			v = type.scalar == TWIR_U64 && value < 0x1p64 ? (int64_t)(uint64_t)value
			    : type.scalar == TWIR_U64		      ? -1
								      : INT64_MAX;
		else if (value <= -0x1p63)
			v = INT64_MIN;
		else if (!isnan(value))
			v = (int64_t)value;
		e = twir_int(m, type.scalar, v);
	}
	return twir_splat_to(m, e, type.lanes);
}

const struct twir_expr *twir_var(struct twir_module *m, struct twir_var *v)
{
	return twir_intern(m, &(struct twir_key){.kind = TWIR_Var, .type = v->type, .ptr = v});
}

const struct twir_expr *twir_worker(struct twir_module *m, enum twir_level level)
{
	if (!m->workers[level]) {
		m->workers[level] =
			twir_var_exact(m, TWIR_WORKER, twir_scalar_type(TWIR_INDEX), twir_level_name(level));
		m->workers[level]->level = level;
	}
	return twir_var(m, m->workers[level]);
}

bool twir_const_int(const struct twir_expr *e, int64_t *value)
{
	if (e->kind != TWIR_Const || !twir_is_int(e->type.scalar))
		return false;
	*value = e->u.i;
	return true;
}

/* An integer constant, splat or not? */
static bool constant(const struct twir_expr *e, int64_t *value)
{
	return twir_const_int(e->kind == TWIR_Splat ? e->arg[0] : e, value);
}

const struct twir_expr *twir_splat_to(struct twir_module *m, const struct twir_expr *a, int lanes)
{
	return a->type.lanes == lanes ? a : twir_splat(m, a, lanes);
}

/* Integer arithmetic as ir.h defines it, before wrapping to the type's width. */
static int64_t divide(enum twir_scalar s, int64_t a, int64_t b)
{
	if (b == 0)
		return 0;
	if (s == TWIR_INDEX)
		return tw_floordiv(a, b);
	if (s == TWIR_U64)
		return (int64_t)((uint64_t)a / (uint64_t)b);
	return b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}

static int64_t modulo(enum twir_scalar s, int64_t a, int64_t b)
{
	if (b == 0)
		return 0;
	if (s == TWIR_INDEX)
		return tw_floormod(a, b);
	if (s == TWIR_U64)
		return (int64_t)((uint64_t)a % (uint64_t)b);
	return b == -1 ? 0 : a % b;
}

static bool less(enum twir_scalar s, int64_t a, int64_t b)
{
	return s == TWIR_U64 ? (uint64_t)a < (uint64_t)b : a < b;
}

static int64_t ceil_divide(enum twir_scalar s, int64_t a, int64_t b)
{
	const int64_t q = divide(s, a, b);
	if (b == 0 || twir_wrap(s, (int64_t)((uint64_t)q * (uint64_t)b)) == a)
		return q;
	/* floored quotients of index are always one short; truncated ones only when the exact quotient is positive */
	return s == TWIR_INDEX || !twir_is_signed(s) || (a < 0) == (b < 0) ? (int64_t)((uint64_t)q + 1) : q;
}

static int64_t fold_binary(enum twir_kind k, enum twir_scalar s, int64_t a, int64_t b)
{
	const uint64_t ua = (uint64_t)a, ub = (uint64_t)b;
	const unsigned width = s == TWIR_I1 ? 1 : (unsigned)twir_scalar_bytes(s) * 8;
	switch (k) {
	case TWIR_Add:
		return (int64_t)(ua + ub);
	case TWIR_Sub:
		return (int64_t)(ua - ub);
	case TWIR_Mul:
		return (int64_t)(ua * ub);
	case TWIR_Div:
		return divide(s, a, b);
	case TWIR_Mod:
		return modulo(s, a, b);
	case TWIR_And:
		return a & b;
	case TWIR_Or:
		return a | b;
	case TWIR_Xor:
		return a ^ b;
	case TWIR_Shl:
		return (int64_t)(ua << (ub % width));
	case TWIR_Shr:
		return twir_is_signed(s) ? a >> (ub % width) : (int64_t)(ua >> (ub % width));
	case TWIR_Min:
	case TWIR_MinNum:
		return less(s, a, b) ? a : b;
	case TWIR_Max:
	case TWIR_MaxNum:
		return less(s, b, a) ? a : b;
	case TWIR_Ceildiv:
		return ceil_divide(s, a, b);
	case TWIR_Roundup:
		return (int64_t)((uint64_t)ceil_divide(s, a, b) * ub);
	default:
		tw_raise(TW_ERR_INTERNAL, "no integer folding for %s", twir_kind_name(k));
	}
}

static bool fold_compare(enum twir_kind k, enum twir_scalar s, int64_t a, int64_t b)
{
	switch (k) {
	case TWIR_Lt:
		return less(s, a, b);
	case TWIR_Le:
		return !less(s, b, a);
	case TWIR_Eq:
		return a == b;
	default:
		return a != b;
	}
}

/* Identities of integers with one constant side; NULL: none applies. All ones is the neutral element of `and`: true
 * for i1. */
static const struct twir_expr *identity(enum twir_kind k, const struct twir_expr *a, const struct twir_expr *b, bool ca,
					int64_t va, bool cb, int64_t vb)
{
	const int64_t ones = twir_wrap(a->type.scalar, -1);
	switch (k) {
	case TWIR_Add:
		return cb && vb == 0 ? a : ca && va == 0 ? b : NULL;
	case TWIR_Sub:
		return cb && vb == 0 ? a : NULL;
	case TWIR_Mul:
		if ((cb && vb == 1) || (ca && va == 0))
			return a;
		return (ca && va == 1) || (cb && vb == 0) ? b : NULL;
	case TWIR_Div:
		return cb && vb == 1 ? a : NULL;
	case TWIR_And:
		if ((cb && vb == ones) || (ca && va == 0))
			return a;
		return (ca && va == ones) || (cb && vb == 0) ? b : NULL;
	case TWIR_Or:
		if ((cb && vb == 0) || (ca && va == ones))
			return a;
		return (ca && va == 0) || (cb && vb == ones) ? b : NULL;
	default:
		return NULL;
	}
}

const struct twir_expr *twir_unary(struct twir_module *m, enum twir_kind k, const struct twir_expr *a)
{
	const char *why = twir_bad_unary(k, a);
	TW_CHECK(!why, "%s: %s", twir_kind_name(k), why);
	int64_t v;
	if (twir_is_int(a->type.scalar) && constant(a, &v)) {
		const enum twir_scalar s = a->type.scalar;
		if (k == TWIR_Not)
			v = ~v;
		else if (k == TWIR_Neg || (k == TWIR_Abs && twir_is_signed(s) && v < 0))
			v = (int64_t)(0 - (uint64_t)v);
		return twir_splat_to(m, twir_int(m, s, v), a->type.lanes);
	}
	return twir_intern(m, &(struct twir_key){.kind = k, .type = a->type, .n = 1, .args = &a});
}

const struct twir_expr *twir_binary(struct twir_module *m, enum twir_kind k, const struct twir_expr *a,
				    const struct twir_expr *b)
{
	const char *why = twir_bad_binary(k, a, b);
	TW_CHECK(!why, "%s: %s", twir_kind_name(k), why);
	if (k == TWIR_Extract) {
		if (a->kind == TWIR_Splat)
			return a->arg[0];
		return twir_intern(m, &(struct twir_key){.kind = k,
							 .type = twir_scalar_type((enum twir_scalar)a->type.scalar),
							 .n = 2,
							 .args = (const struct twir_expr *[]){a, b}});
	}
	if (k == TWIR_ShflUp || k == TWIR_ShflDown || k == TWIR_ShflXor || k == TWIR_ShflIdx)
		return twir_intern(
			m, &(struct twir_key){
				   .kind = k, .type = a->type, .n = 2, .args = (const struct twir_expr *[]){a, b}});
	const int lanes = a->type.lanes > b->type.lanes ? a->type.lanes : b->type.lanes;
	a = twir_splat_to(m, a, lanes);
	b = twir_splat_to(m, b, lanes);
	const enum twir_scalar s = (enum twir_scalar)a->type.scalar;
	const bool compare = (twir_kind_flags(k) & TWIR_F_CMP) != 0;
	if (twir_is_int(s)) {
		int64_t va = 0, vb = 0;
		const bool ca = constant(a, &va), cb = constant(b, &vb);
		if (ca && cb)
			return twir_splat_to(m,
					     compare ? twir_bool(m, fold_compare(k, s, va, vb))
						     : twir_int(m, s, fold_binary(k, s, va, vb)),
					     lanes);
		if (compare && a == b)
			return twir_splat_to(m, twir_bool(m, k == TWIR_Le || k == TWIR_Eq), lanes);
		if (k == TWIR_Mod && cb && vb == 1)
			return twir_splat_to(m, twir_int(m, s, 0), lanes);
		const struct twir_expr *e = identity(k, a, b, ca, va, cb, vb);
		if (e)
			return e;
	}
	const struct twir_type type = compare ? twir_vector_type(TWIR_I1, lanes) : a->type;
	return twir_intern(
		m, &(struct twir_key){.kind = k, .type = type, .n = 2, .args = (const struct twir_expr *[]){a, b}});
}

#define BINARY(name, kind)                                                                                             \
	const struct twir_expr *name(struct twir_module *m, const struct twir_expr *a, const struct twir_expr *b)      \
	{                                                                                                              \
		return twir_binary(m, kind, a, b);                                                                     \
	}
BINARY(twir_add, TWIR_Add)
BINARY(twir_sub, TWIR_Sub)
BINARY(twir_mul, TWIR_Mul)
BINARY(twir_div, TWIR_Div)
BINARY(twir_mod, TWIR_Mod)
BINARY(twir_min, TWIR_Min)
BINARY(twir_max, TWIR_Max)
BINARY(twir_lt, TWIR_Lt)
BINARY(twir_le, TWIR_Le)
BINARY(twir_eq, TWIR_Eq)
BINARY(twir_ne, TWIR_Ne)
BINARY(twir_and, TWIR_And)
BINARY(twir_or, TWIR_Or)
BINARY(twir_ceildiv, TWIR_Ceildiv)
BINARY(twir_roundup, TWIR_Roundup)
#undef BINARY

const struct twir_expr *twir_not(struct twir_module *m, const struct twir_expr *a)
{
	return twir_unary(m, TWIR_Not, a);
}

static int lanes_of(const struct twir_expr *a, const struct twir_expr *b, const struct twir_expr *c)
{
	const int ab = a->type.lanes > b->type.lanes ? a->type.lanes : b->type.lanes;
	return ab > c->type.lanes ? ab : c->type.lanes;
}

const struct twir_expr *twir_fma(struct twir_module *m, const struct twir_expr *a, const struct twir_expr *b,
				 const struct twir_expr *c)
{
	const char *why = twir_bad_fma(a, b, c);
	TW_CHECK(!why, "%s", why);
	const int lanes = lanes_of(a, b, c);
	const struct twir_expr *const args[] = {twir_splat_to(m, a, lanes), twir_splat_to(m, b, lanes),
						twir_splat_to(m, c, lanes)};
	return twir_intern(m, &(struct twir_key){.kind = TWIR_Fma, .type = args[0]->type, .n = 3, .args = args});
}

const struct twir_expr *twir_dot4(struct twir_module *m, const struct twir_expr *a, const struct twir_expr *b,
				  const struct twir_expr *c)
{
	const char *why = twir_bad_dot4(a, b, c);
	TW_CHECK(!why, "%s", why);
	const int lanes = lanes_of(a, b, c);
	const struct twir_expr *const args[] = {twir_splat_to(m, a, lanes), twir_splat_to(m, b, lanes),
						twir_splat_to(m, c, lanes)};
	return twir_intern(m, &(struct twir_key){.kind = TWIR_Dot4, .type = args[0]->type, .n = 3, .args = args});
}

const struct twir_expr *twir_select(struct twir_module *m, const struct twir_expr *c, const struct twir_expr *a,
				    const struct twir_expr *b)
{
	const char *why = twir_bad_choice(TWIR_Select, c, a, b);
	TW_CHECK(!why, "%s", why);
	const int lanes = lanes_of(a, b, c);
	const struct twir_expr *const args[] = {twir_splat_to(m, c, lanes), twir_splat_to(m, a, lanes),
						twir_splat_to(m, b, lanes)};
	int64_t v;
	if (constant(c, &v))
		return v ? args[1] : args[2];
	return twir_intern(m, &(struct twir_key){.kind = TWIR_Select, .type = args[1]->type, .n = 3, .args = args});
}

const struct twir_expr *twir_cond(struct twir_module *m, const struct twir_expr *c, const struct twir_expr *a,
				  const struct twir_expr *b)
{
	const char *why = twir_bad_choice(TWIR_Cond, c, a, b);
	TW_CHECK(!why, "%s", why);
	const int lanes = lanes_of(a, b, c);
	const struct twir_expr *const args[] = {c, twir_splat_to(m, a, lanes), twir_splat_to(m, b, lanes)};
	int64_t v;
	if (twir_const_int(c, &v))
		return v ? args[1] : args[2];
	return twir_intern(m, &(struct twir_key){.kind = TWIR_Cond, .type = args[1]->type, .n = 3, .args = args});
}

const struct twir_expr *twir_cast(struct twir_module *m, enum twir_scalar to, const struct twir_expr *a)
{
	const char *why = twir_bad_cast(to, a);
	TW_CHECK(!why, "%s", why);
	if (a->type.scalar == to)
		return a;
	int64_t v;
	if (twir_is_int(to) && constant(a, &v))
		return twir_splat_to(m, twir_int(m, to, to == TWIR_I1 ? v != 0 : v), a->type.lanes);
	return twir_intern(
		m,
		&(struct twir_key){.kind = TWIR_Cast, .type = twir_vector_type(to, a->type.lanes), .n = 1, .args = &a});
}

const struct twir_expr *twir_bitcast(struct twir_module *m, enum twir_scalar to, const struct twir_expr *a)
{
	const char *why = twir_bad_bitcast(to, a);
	TW_CHECK(!why, "%s", why);
	if (a->type.scalar == to)
		return a;
	return twir_intern(
		m, &(struct twir_key){
			   .kind = TWIR_Bitcast, .type = twir_vector_type(to, a->type.lanes), .n = 1, .args = &a});
}
