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
	.commit = "asm volatile(\"cp.async.commit_group;\" ::: \"memory\")",
	.wait = "asm volatile(\"cp.async.wait_group %d;\" ::: \"memory\")",
	.contracts = true,
};

/* Lanes of the warp, which may be a part of the machine's. */
#define MASK "const u32 m = w == 32 ? 0xffffffffu : ((1u << w) - 1) << ((threadIdx.x & 31) / w * w); "
#define SHUFFLE(op, name)                                                                                              \
	S("shfl_" op, T_(I32) | T_(U32) | T_(I64) | T_(U64) | T_FLOATS,                                                \
	  "INL $V $F($V x, i64 d, i32 w) { " MASK "return __shfl_" name "sync(m, x, d, w); }"),                        \
		S("shfl_" op, T_(I8) | T_(U8) | T_(I16) | T_(U16),                                                     \
		  "INL $V $F($V x, i64 d, i32 w) { " MASK "return ($V)__shfl_" name "sync(m, (i32)x, d, w); }")
#define COPY(bytes, cache)                                                                                             \
	"\tif (sizeof(*to) * n == " bytes ")\n\t\tasm volatile(\"cp.async." cache ".shared.global [%0], [%1], " bytes  \
	", %2;\" :: \"r\"(at), \"l\"(from), \"r\"(good ? " bytes " : 0) : \"memory\");\n"
/* Registers of 32 bits of a fragment: elements beside each other, or one. */
#define TWO(x, i) "\"r\"((u32)" x "[" i " * 2] | (u32)" x "[" i " * 2 + 1] << 16)"
#define FOUR(x, i)                                                                                                     \
	"\"r\"((u32)(u8)" x "[" i " * 4] | (u32)(u8)" x "[" i " * 4 + 1] << 8 | (u32)(u8)" x "[" i                     \
	" * 4 + 2] << 16 | (u32)(u8)" x "[" i " * 4 + 3] << 24)"
#define ONE(x, i) "\"r\"(__float_as_uint(" x "[" i "]))"
#define A2(r)	  r("a", "0") ", " r("a", "1")
#define A4(r)	  A2(r) ", " r("a", "2") ", " r("a", "3")
#define B2(r)	  r("b", "0") ", " r("b", "1")
#define D4(c)	  "\"+" c "\"(d[0]), \"+" c "\"(d[1]), \"+" c "\"(d[2]), \"+" c "\"(d[3])"
#define MMA(name, types, shape, d, names, in)                                                                          \
	S("mma_" name, types,                                                                                          \
	  "INL void $F($R *d, const $V *a, const $V *b)\n{\n\tasm volatile(\"mma.sync.aligned." shape " " names        \
	  ";\"\n\t\t: " d "\n\t\t: " in ");\n}")
#define NAMES_2_1 "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3}"
#define NAMES_4_2 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3}"

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
	SHUFFLE("up", "up_"),
	SHUFFLE("down", "down_"),
	SHUFFLE("xor", "xor_"),
	SHUFFLE("idx", ""),
	/* n elements where good, zeros elsewhere */
	S("copy_async", T_ALL,
	  "INL void $F($V *to, const $V *from, i32 n, i32 good)\n{\n"
	  "\tconst u32 at = (u32)__cvta_generic_to_shared(to);\n" COPY("4", "ca") COPY("8", "ca") COPY("16", "cg") "}"),
	{"copy_or", T_ALL, ROW_SCALAR, "copy_async",
	 "INL void $F($V *to, const $V *from, i32 n, i32 good, $V other)\n{\n"
	 "\tif (good)\n\t\tcopy_async_$a(to, from, n, 1);\n\telse\n\t\tfor (i32 i = 0; i < n; i++)\n\t\t\tto[i] = "
	 "other;\n}",
	 NULL},
	MMA("m16n8k8_f16", T_(U16), "m16n8k8.row.col.f32.f16.f16.f32", D4("f"), NAMES_2_1, A2(TWO) ", " TWO("b", "0")),
	MMA("m16n8k16_f16", T_(U16), "m16n8k16.row.col.f32.f16.f16.f32", D4("f"), NAMES_4_2, A4(TWO) ", " B2(TWO)),
	MMA("m16n8k16_bf16", T_(U16), "m16n8k16.row.col.f32.bf16.bf16.f32", D4("f"), NAMES_4_2, A4(TWO) ", " B2(TWO)),
	MMA("m16n8k4_tf32", T_F32, "m16n8k4.row.col.f32.tf32.tf32.f32", D4("f"), NAMES_2_1, A2(ONE) ", " ONE("b", "0")),
	MMA("m16n8k8_tf32", T_F32, "m16n8k8.row.col.f32.tf32.tf32.f32", D4("f"), NAMES_4_2, A4(ONE) ", " B2(ONE)),
	MMA("m16n8k32_i8", T_(I8), "m16n8k32.row.col.s32.s8.s8.s32", D4("r"), NAMES_4_2, A4(FOUR) ", " B2(FOUR)),
	MMA("m8n8k4_f64", T_F64, "m8n8k4.row.col.f64.f64.f64.f64", "\"+d\"(d[0]), \"+d\"(d[1])",
	    "{%0, %1}, {%2}, {%3}, {%0, %1}", "\"d\"(a[0]), \"d\"(b[0])"),
	{0},
};
