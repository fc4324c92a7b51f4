/* rows_cuda: CUDA C++. Products are calls of functions that are never fused into sums; the roundings are single
 * instructions. */
#include "cgen/dialect.h"

#define S(op, types, text)                                                                                             \
	{                                                                                                              \
		op, types, ROW_SCALAR, "", text, NULL                                                                  \
	}

const struct cgen_words cgen_words_cuda = {
	.prelude = "",
	.types = {[TWIR_I8] = "signed char",
		  [TWIR_I16] = "short",
		  [TWIR_I32] = "int",
		  [TWIR_I64] = "long",
		  [TWIR_U8] = "unsigned char",
		  [TWIR_U16] = "unsigned short",
		  [TWIR_U32] = "unsigned",
		  [TWIR_U64] = "unsigned long",
		  [TWIR_F32] = "float",
		  [TWIR_F64] = "double"},
	.inl = "static __device__ __forceinline__",
	.kernel = "extern \"C\" __global__ void __launch_bounds__(%lld)",
	.global = "",
	.restricts = "__restrict__ ",
	.shared = "__shared__ __align__(64) ",
	.pool = "extern __shared__ __align__(64) unsigned char pool[]",
	.block = "blockIdx.x",
	.thread = "threadIdx.x",
	.barrier = {[TWIR_BLOCK] = "__syncthreads()", [TWIR_WARP] = "__syncwarp()"},
	.unroll = "#pragma unroll",
	.nan = {"__int_as_float(0x7fc00000)", "__longlong_as_double(0x7ff8000000000000)"},
	.infinity = {"__int_as_float(0x7f800000)", "__longlong_as_double(0x7ff0000000000000)"},
	.contracts = true,
};

const struct cgen_row cgen_rows_cuda[] = {
	S("mul", T_F32, "INL f32 $F(f32 a, f32 b) { return __fmul_rn(a, b); }"),
	S("mul", T_F64, "INL f64 $F(f64 a, f64 b) { return __dmul_rn(a, b); }"),
	S("fma", T_F32, "INL f32 $F(f32 a, f32 b, f32 c) { return __fmaf_rn(a, b, c); }"),
	S("fma", T_F64, "INL f64 $F(f64 a, f64 b, f64 c) { return __fma_rn(a, b, c); }"),
	S("sqrt", T_F32, "INL f32 $F(f32 a) { return __fsqrt_rn(a); }"),
	S("sqrt", T_F64, "INL f64 $F(f64 a) { return __dsqrt_rn(a); }"),
	S("floor", T_FLOATS, "INL $V $F($V a) { return floor$f(a); }"),
	S("ceil", T_FLOATS, "INL $V $F($V a) { return ceil$f(a); }"),
	S("round", T_FLOATS, "INL $V $F($V a) { return rint$f(a); }"),
	S("trunc", T_FLOATS, "INL $V $F($V a) { return trunc$f(a); }"),
	S("abs", T_FLOATS, "INL $V $F($V a) { return fabs$f(a); }"),
	{0},
};
