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
	.barrier = {[TWIR_BLOCK] = "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)"},
	.unroll = "#pragma unroll",
	.nan = {"NAN", "((f64)NAN)"},
	.infinity = {"INFINITY", "((f64)INFINITY)"},
};

const struct cgen_row cgen_rows_opencl[] = {
	S("fma", T_FLOATS, "INL $V $F($V a, $V b, $V c) { return fma(a, b, c); }"),
	S("sqrt", T_FLOATS, "INL $V $F($V a) { return sqrt(a); }"),
	S("floor", T_FLOATS, "INL $V $F($V a) { return floor(a); }"),
	S("ceil", T_FLOATS, "INL $V $F($V a) { return ceil(a); }"),
	S("round", T_FLOATS, "INL $V $F($V a) { return rint(a); }"),
	S("trunc", T_FLOATS, "INL $V $F($V a) { return trunc(a); }"),
	S("abs", T_FLOATS, "INL $V $F($V a) { return fabs(a); }"),
	{0},
};
