/* Element types: sizes and names. */
#include "rt_int.h"

static const struct {
	int bytes;
	const char *name;
} types[] = {
	[TWRT_F32] = {4, "f32"},
	[TWRT_U8] = {1, "u8"},
	[TWRT_I8] = {1, "i8"},
	[TWRT_U16] = {2, "u16"},
	[TWRT_I16] = {2, "i16"},
	[TWRT_I32] = {4, "i32"},
	[TWRT_I64] = {8, "i64"},
	[TWRT_STRING] = {0, "string"},
	[TWRT_BOOL] = {1, "bool"},
	[TWRT_F16] = {2, "f16"},
	[TWRT_F64] = {8, "f64"},
	[TWRT_U32] = {4, "u32"},
	[TWRT_U64] = {8, "u64"},
	[TWRT_BF16] = {2, "bf16"},
	[TWRT_F8E4M3FN] = {1, "f8e4m3fn"},
	[TWRT_F8E4M3FNUZ] = {1, "f8e4m3fnuz"},
	[TWRT_F8E5M2] = {1, "f8e5m2"},
	[TWRT_F8E5M2FNUZ] = {1, "f8e5m2fnuz"},
	[TWRT_F8E8M0] = {1, "f8e8m0"},
};

int twrt_type_bytes(enum twrt_type t)
{
	return (int)t > 0 && (int)t < TW_COUNT(types) ? types[t].bytes : 0;
}

const char *twrt_type_name(enum twrt_type t)
{
	return (int)t > 0 && (int)t < TW_COUNT(types) && types[t].name ? types[t].name : "unknown";
}
