/* Scalar types, kinds of expressions and worker levels: names and properties. Everything about kinds expands from
 * nodes.def. */
#include "ir/ir.h"

#include <stdlib.h>

enum {
	INFIX = TWIR_F_INFIX,
	PREFIX = TWIR_F_PREFIX,
	FUNC = TWIR_F_FUNC,
	OTHER = TWIR_F_OTHER,
	COMM = TWIR_F_COMM,
	CMP = TWIR_F_CMP,
	INT = TWIR_F_INT,
	FLT = TWIR_F_FLT,
	LATE = TWIR_F_LATE
};

static const struct {
	const char *name, *text;
	int arity;
	unsigned flags;
} kinds[] = {
#define EXPR(name, text, arity, flags) {#name, text, arity, flags},
#include "ir/nodes.def"
#undef EXPR
};
_Static_assert(TW_COUNT(kinds) == TWIR_KINDS, "one row for each kind");

enum { FLOAT = 1, WHOLE = 2, SIGNED = 4, STORAGE = 8 };
static const struct {
	const char *name;
	int bits; /* in memory */
	unsigned is;
} scalars[] = {
	[TWIR_VOID] = {"void", 0, 0},
	[TWIR_I1] = {"i1", 8, WHOLE},
	[TWIR_I8] = {"i8", 8, WHOLE | SIGNED},
	[TWIR_I16] = {"i16", 16, WHOLE | SIGNED},
	[TWIR_I32] = {"i32", 32, WHOLE | SIGNED},
	[TWIR_I64] = {"i64", 64, WHOLE | SIGNED},
	[TWIR_U8] = {"u8", 8, WHOLE},
	[TWIR_U16] = {"u16", 16, WHOLE},
	[TWIR_U32] = {"u32", 32, WHOLE},
	[TWIR_U64] = {"u64", 64, WHOLE},
	[TWIR_F16] = {"f16", 16, FLOAT | SIGNED | STORAGE},
	[TWIR_BF16] = {"bf16", 16, FLOAT | SIGNED | STORAGE},
	[TWIR_F32] = {"f32", 32, FLOAT | SIGNED},
	[TWIR_F64] = {"f64", 64, FLOAT | SIGNED},
	[TWIR_F8E4M3FN] = {"f8e4m3fn", 8, FLOAT | SIGNED | STORAGE},
	[TWIR_F8E4M3FNUZ] = {"f8e4m3fnuz", 8, FLOAT | SIGNED | STORAGE},
	[TWIR_F8E5M2] = {"f8e5m2", 8, FLOAT | SIGNED | STORAGE},
	[TWIR_F8E5M2FNUZ] = {"f8e5m2fnuz", 8, FLOAT | SIGNED | STORAGE},
	[TWIR_F8E8M0] = {"f8e8m0", 8, FLOAT | STORAGE},
	[TWIR_F4E2M1] = {"f4e2m1", 4, FLOAT | SIGNED | STORAGE},
	[TWIR_I4] = {"i4", 4, WHOLE | SIGNED | STORAGE},
	[TWIR_U4] = {"u4", 4, WHOLE | STORAGE},
	[TWIR_I2] = {"i2", 2, WHOLE | SIGNED | STORAGE},
	[TWIR_U2] = {"u2", 2, WHOLE | STORAGE},
	[TWIR_INDEX] = {"index", 64, WHOLE | SIGNED},
};
_Static_assert(TW_COUNT(scalars) == TWIR_SCALARS, "one row for each scalar type");

static const char *const levels[] = {"core", "lane", "block", "warp", "thread"};
_Static_assert(TW_COUNT(levels) == TWIR_LEVELS, "one name for each level");

const char *twir_scalar_name(enum twir_scalar s)
{
	return scalars[s].name;
}

enum twir_scalar twir_scalar_parse(const char *name)
{
	for (int s = TWIR_VOID + 1; s < TWIR_SCALARS; s++)
		if (strcmp(scalars[s].name, name) == 0)
			return (enum twir_scalar)s;
	return TWIR_VOID;
}

struct twir_type twir_type_named(const char *name)
{
	char scalar[16] = {0};
	int lanes = 1;
	const char *x = strrchr(name, 'x');
	size_t n = strlen(name);
	/* f32x16: the scalar's name, x, the lanes; f32 is the one spelling of f32x1 */
	if (x && x[1] && strspn(x + 1, "0123456789") == strlen(x + 1)) {
		lanes = strlen(x + 1) <= 3 && x[1] != '0' ? atoi(x + 1) : 0;
		lanes = lanes < 2 || lanes > TWIR_MAX_LANES ? 0 : lanes;
		n = (size_t)(x - name);
	}
	if (lanes == 0 || n >= sizeof(scalar))
		return twir_scalar_type(TWIR_VOID);
	memcpy(scalar, name, n);
	return twir_vector_type(twir_scalar_parse(scalar), lanes);
}

int twir_scalar_bits(enum twir_scalar s)
{
	return scalars[s].bits;
}

int twir_scalar_bytes(enum twir_scalar s)
{
	return (scalars[s].bits + 7) / 8;
}

int64_t twir_storage_bytes(enum twir_scalar s, int64_t elements)
{
	if (twir_is_packed(s)) {
		const int each = 8 / scalars[s].bits;
		return elements / each + (elements % each != 0);
	}
	int64_t bytes;
	return __builtin_mul_overflow(elements, (int64_t)twir_scalar_bytes(s), &bytes) ? INT64_MAX : bytes;
}

bool twir_is_float(enum twir_scalar s)
{
	return scalars[s].is & FLOAT;
}

bool twir_is_int(enum twir_scalar s)
{
	return scalars[s].is & WHOLE;
}

bool twir_is_signed(enum twir_scalar s)
{
	return scalars[s].is & SIGNED;
}

bool twir_is_storage(enum twir_scalar s)
{
	return scalars[s].is & STORAGE;
}

bool twir_is_packed(enum twir_scalar s)
{
	return scalars[s].bits > 0 && scalars[s].bits < 8;
}

const char *twir_kind_name(enum twir_kind k)
{
	return kinds[k].name;
}

const char *twir_kind_text(enum twir_kind k)
{
	return kinds[k].text;
}

unsigned twir_kind_flags(enum twir_kind k)
{
	return kinds[k].flags;
}

int twir_kind_arity(enum twir_kind k)
{
	return kinds[k].arity;
}

const char *twir_level_name(enum twir_level l)
{
	return levels[l];
}
