/* Scalar types, kinds of expressions and worker levels: names and properties. Everything about kinds expands from
 * nodes.def. */
#include "ir/ir.h"

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

static const struct {
	const char *name;
	int bytes;
	bool is_float, is_int, is_signed;
} scalars[] = {
	[TWIR_VOID] = {"void", 0, false, false, false}, [TWIR_I1] = {"i1", 1, false, true, false},
	[TWIR_I8] = {"i8", 1, false, true, true},	[TWIR_I16] = {"i16", 2, false, true, true},
	[TWIR_I32] = {"i32", 4, false, true, true},	[TWIR_I64] = {"i64", 8, false, true, true},
	[TWIR_U8] = {"u8", 1, false, true, false},	[TWIR_U16] = {"u16", 2, false, true, false},
	[TWIR_U32] = {"u32", 4, false, true, false},	[TWIR_U64] = {"u64", 8, false, true, false},
	[TWIR_F16] = {"f16", 2, true, false, true},	[TWIR_BF16] = {"bf16", 2, true, false, true},
	[TWIR_F32] = {"f32", 4, true, false, true},	[TWIR_F64] = {"f64", 8, true, false, true},
	[TWIR_INDEX] = {"index", 8, false, true, true},
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

int twir_scalar_bytes(enum twir_scalar s)
{
	return scalars[s].bytes;
}

bool twir_is_float(enum twir_scalar s)
{
	return scalars[s].is_float;
}

bool twir_is_int(enum twir_scalar s)
{
	return scalars[s].is_int;
}

bool twir_is_signed(enum twir_scalar s)
{
	return scalars[s].is_signed;
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
