/* rows_bits: helpers for elements of 4 and 2 bits. i counts elements from p; the lower bits of a byte come first. A
 * store leaves the rest of the byte as it is, and lanes follow each other. */
#include "cgen/dialect.h"

#define T_BYTES (T_(I8) | T_(U8))
/* each: log2 of the elements in a byte; bits of one; last: elements in a byte less one; ones: its bits */
#define PACKED(bits, each, last, ones, global)                                                                         \
	{"bld" bits,                                                                                                   \
	 T_(U8),                                                                                                       \
	 ROW_SCALAR,                                                                                                   \
	 "",                                                                                                           \
	 "INL $V $F(" global "const $S *p, i64 i) { return (u8)(p[i >> " each "] >> (i & " last ") * " bits " & " ones \
	 "); }",                                                                                                       \
	 NULL},                                                                                                        \
		{"bld" bits,                                                                                           \
		 T_(I8),                                                                                               \
		 ROW_SCALAR,                                                                                           \
		 "",                                                                                                   \
		 "INL $V $F(" global "const $S *p, i64 i) { return (i8)((i8)(u8)((u8)p[i >> " each "] << (~i & " last  \
		 ") * " bits ") >> (8 - " bits ")); }",                                                                \
		 NULL},                                                                                                \
	{                                                                                                              \
		"bst" bits, T_BYTES, ROW_SCALAR, "",                                                                   \
			"INL void $F(" global "$S *p, i64 i, $V v)\n{\n\tconst i32 s = (i32)(i & " last ") * " bits    \
			";\n"                                                                                          \
			"\tp[i >> " each "] = ($S)((p[i >> " each "] & ~(" ones " << s)) | (v & " ones ") << s);\n}",  \
			NULL                                                                                           \
	}
#define LANES(bits)                                                                                                    \
	{"bld" bits,                                                                                                   \
	 T_BYTES,                                                                                                      \
	 ROW_VECTOR,                                                                                                   \
	 "bld" bits ".s",                                                                                              \
	 "INL $V $F(const $S *p, i64 i) { $V r = {0}; for (int l = 0; l < $N; l++) r[l] = bld" bits                    \
	 "_$L(p, i + l); return r; }",                                                                                 \
	 NULL},                                                                                                        \
		{"bldm" bits,                                                                                          \
		 T_BYTES,                                                                                              \
		 ROW_VECTOR,                                                                                           \
		 "bld" bits ".s",                                                                                      \
		 "INL $V $F(const $S *p, i64 i, $M m, $V other) { $V r = other; for (int l = 0; l < $N; l++) if "      \
		 "(m[l]) r[l] = bld" bits "_$L(p, i + l); return r; }",                                                \
		 NULL},                                                                                                \
		{"bst" bits,                                                                                           \
		 T_BYTES,                                                                                              \
		 ROW_VECTOR,                                                                                           \
		 "bst" bits ".s",                                                                                      \
		 "INL void $F($S *p, i64 i, $V v) { for (int l = 0; l < $N; l++) bst" bits "_$L(p, i + l, v[l]); }",   \
		 NULL},                                                                                                \
		{"bstm" bits,                                                                                          \
		 T_BYTES,                                                                                              \
		 ROW_VECTOR,                                                                                           \
		 "bst" bits ".s",                                                                                      \
		 "INL void $F($S *p, i64 i, $M m, $V v) { for (int l = 0; l < $N; l++) if (m[l]) bst" bits             \
		 "_$L(p, i + l, v[l]); }",                                                                             \
		 NULL},                                                                                                \
		{"bgather" bits,                                                                                       \
		 T_BYTES,                                                                                              \
		 ROW_VECTOR,                                                                                           \
		 "bld" bits ".s",                                                                                      \
		 "INL $V $F(const $S *p, i64 at, $R i) { $V r = {0}; for (int l = 0; l < $N; l++) r[l] = bld" bits     \
		 "_$L(p, at + i[l]); return r; }",                                                                     \
		 NULL},                                                                                                \
		{"bgatherm" bits,                                                                                      \
		 T_BYTES,                                                                                              \
		 ROW_VECTOR,                                                                                           \
		 "bld" bits ".s",                                                                                      \
		 "INL $V $F(const $S *p, i64 at, $R i, $M m, $V other) { $V r = other; for (int l = 0; l < $N; l++) "  \
		 "if (m[l]) r[l] = bld" bits "_$L(p, at + i[l]); return r; }",                                         \
		 NULL},                                                                                                \
		{"bscatter" bits,                                                                                      \
		 T_BYTES,                                                                                              \
		 ROW_VECTOR,                                                                                           \
		 "bst" bits ".s",                                                                                      \
		 "INL void $F($S *p, i64 at, $R i, $V v) { for (int l = 0; l < $N; l++) bst" bits                      \
		 "_$L(p, at + i[l], v[l]); }",                                                                         \
		 NULL},                                                                                                \
	{                                                                                                              \
		"bscatterm" bits, T_BYTES, ROW_VECTOR, "bst" bits ".s",                                                \
			"INL void $F($S *p, i64 at, $R i, $M m, $V v) { for (int l = 0; l < $N; l++) if (m[l]) "       \
			"bst" bits "_$L(p, at + i[l], v[l]); }",                                                       \
			NULL                                                                                           \
	}

const struct cgen_row cgen_rows_bits[] = {
	PACKED("4", "1", "1", "15", ""), PACKED("2", "2", "3", "3", ""), LANES("4"), LANES("2"), {0},
};

/* OpenCL tells the memory of parameters from others. */
const struct cgen_row cgen_rows_bits_global[] = {
	PACKED("4", "1", "1", "15", "__global "),
	PACKED("2", "2", "3", "3", "__global "),
	{0},
};
