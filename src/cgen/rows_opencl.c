/* rows_opencl: OpenCL C 1.2. */
#include "cgen/dialect.h"

#define S(op, types, text)                                                                                             \
	{                                                                                                              \
		op, types, ROW_SCALAR, "", text, NULL                                                                  \
	}

const struct cgen_words cgen_words_opencl = {
	.prelude = "#ifdef cl_khr_fp64\n#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n#endif\n"
		   "#pragma OPENCL FP_CONTRACT OFF\n",
	.types = {[TWIR_I8] = "char",
		  [TWIR_I16] = "short",
		  [TWIR_I32] = "int",
		  [TWIR_I64] = "long",
		  [TWIR_U8] = "uchar",
		  [TWIR_U16] = "ushort",
		  [TWIR_U32] = "uint",
		  [TWIR_U64] = "ulong",
		  [TWIR_F32] = "float",
		  [TWIR_F64] = "double"},
	.inl = "static inline",
	.kernel = "__kernel __attribute__((reqd_work_group_size(%lld, 1, 1))) void",
	.global = "__global ",
	.restricts = "restrict ",
	.shared = "__local __attribute__((aligned(64))) ",
	.block = "get_group_id(0)",
	.thread = "get_local_id(0)",
	.barrier = {[TWIR_BLOCK] = "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)",
		    [TWIR_WARP] = "barrier(CLK_LOCAL_MEM_FENCE)"},
	.unroll = "#pragma unroll",
	.nan = {"NAN", "((f64)NAN)"},
	.infinity = {"INFINITY", "((f64)INFINITY)"},
	.emulates = true,
	.pool_words = "__local u64 pool[%lld]",
};

#define MEET "\tbarrier(CLK_LOCAL_MEM_FENCE);\n"
/* Through the block's memory: what thread s of the same warp has, if there is one. */
#define SHUFFLE(op, source)                                                                                            \
	S("shfl_" op, T_ALL,                                                                                           \
	  "INL $V $F($V x, i64 d, i32 w, __local u64 *pool)\n{\n"                                                      \
	  "\t__local $V *all = (__local $V *)pool;\n\tconst i64 t = get_local_id(0), l = t % w, n = "                  \
	  "get_local_size(0);\n"                                                                                       \
	  "\ti64 s = " source ";\n\ts = s < 0 || s >= w || t - l + s >= n ? l : s;\n"                                  \
	  "\tall[t] = x;\n" MEET "\tconst $V r = all[t - l + s];\n" MEET "\treturn r;\n}")
/* The tiles of each warp go through the block's memory, as numbers of type c; each thread sums its own elements. Where an
 * element of a fragment lies: twir_mma_place; `wide` elements lie beside each other, `halves` of 8 rows make a tile. */
#define MMA(name, types, c, m, n, k, wide, halves, na, nb, nd, value, sum)                                             \
	S("mma_" name, types,                                                                                          \
	  "INL void $F($R *d, const $V *a, const $V *b, __local u64 *pool)\n{\n"                                       \
	  "\tconst i32 g = (get_local_id(0) & 31) >> 2, x = get_local_id(0) & 3;\n"                                    \
	  "\t__local " c " *A = (__local " c " *)pool + (get_local_id(0) >> 5) * (" m " * " k " + " k " * " n ");\n"   \
	  "\t__local " c " *B = A + " m " * " k ";\n"                                                                  \
	  "\tfor (i32 e = 0; e < " na "; e++)\n"                                                                       \
	  "\t\tA[(g + e / " wide " % " halves " * 8) * " k " + x * " wide " + e % " wide " + 4 * " wide                \
	  " * (e / " wide " / " halves                                                                                 \
	  ")] = " value("a") ";\n"                                                                                     \
			     "\tfor (i32 e = 0; e < " nb "; e++)\n"                                                    \
			     "\t\tB[(x * " wide " + e % " wide " + 4 * " wide " * (e / " wide ")) * " n                \
			     " + g] = " value("b") ";\n" MEET "\tfor (i32 e = 0; e < " nd                              \
						   "; e++)\n\t\tfor (i32 j = 0; j < " k "; j++)\n"                     \
						   "\t\t\td[e] = " sum("A[(g + e / 2 * 8) * " k " + j]",               \
								       "B[j * " n " + x * 2 + e % 2]") ";\n" MEET "}")
#define HALF(p)	    "vload_half(e, (const half *)" p ")"
#define BRAIN(p)    "as_float((u32)" p "[e] << 16)"
#define TENSOR(p)   "as_float(as_uint(" p "[e]) & 0xffffe000u)"
#define PLAIN(p)    p "[e]"
#define FUSED(a, b) "fma(" a ", " b ", d[e])"
#define WHOLE(a, b) "d[e] + " a " * " b

const struct cgen_row cgen_rows_opencl[] = {
	S("fma", T_FLOATS, "INL $V $F($V a, $V b, $V c) { return fma(a, b, c); }"),
	S("sqrt", T_FLOATS, "INL $V $F($V a) { return sqrt(a); }"),
	S("floor", T_FLOATS, "INL $V $F($V a) { return floor(a); }"),
	S("ceil", T_FLOATS, "INL $V $F($V a) { return ceil(a); }"),
	S("round", T_FLOATS, "INL $V $F($V a) { return rint(a); }"),
	S("trunc", T_FLOATS, "INL $V $F($V a) { return trunc(a); }"),
	S("abs", T_FLOATS, "INL $V $F($V a) { return fabs(a); }"),
	SHUFFLE("up", "l - d"),
	SHUFFLE("down", "l + d"),
	SHUFFLE("xor", "l ^ d"),
	SHUFFLE("idx", "(d % w + w) % w"),
	S("copy_async", T_ALL,
	  "INL void $F(__local $V *to, __global const $V *from, i32 n, i32 good)\n{\n"
	  "\tfor (i32 i = 0; i < n; i++)\n\t\tto[i] = good ? from[i] : 0;\n}"),
	S("copy_or", T_ALL,
	  "INL void $F(__local $V *to, __global const $V *from, i32 n, i32 good, $V other)\n{\n"
	  "\tfor (i32 i = 0; i < n; i++)\n\t\tto[i] = good ? from[i] : other;\n}"),
	MMA("m16n8k8_f16", T_(U16), "f32", "16", "8", "8", "2", "2", "4", "2", "4", HALF, FUSED),
	MMA("m16n8k16_f16", T_(U16), "f32", "16", "8", "16", "2", "2", "8", "4", "4", HALF, FUSED),
	MMA("m16n8k16_bf16", T_(U16), "f32", "16", "8", "16", "2", "2", "8", "4", "4", BRAIN, FUSED),
	MMA("m16n8k4_tf32", T_F32, "f32", "16", "8", "4", "1", "2", "2", "1", "4", TENSOR, FUSED),
	MMA("m16n8k8_tf32", T_F32, "f32", "16", "8", "8", "1", "2", "4", "2", "4", TENSOR, FUSED),
	MMA("m16n8k32_i8", T_(I8), "i32", "16", "8", "32", "4", "2", "16", "8", "4", PLAIN, WHOLE),
	MMA("m8n8k4_f64", T_F64, "f64", "8", "8", "4", "1", "1", "1", "1", "2", PLAIN, FUSED),
	{0},
};
