/* rows_x86: what AVX2 and AVX-512 say in one instruction that lane loops do not give, or not safely.
 * Masked accesses are builtins because lane loops of them (a) make gcc 12 die on some masks that are partly known, (b)
 * become branches, (c) may become a masked store of a register's half, vextracti64x4 {k}, which faults on bytes that
 * are masked out. Gathers: measured on 16 lanes of AVX-512, 1.9 ns against 9.1 for a lane loop, masked 3.8 against
 * 14.7. */
#include "cgen/dialect.h"

#define VEC_OF(type, bytes) "(" type " __attribute__((vector_size(" bytes "))))"
#define K16		    "(unsigned short)__builtin_ia32_cvtd2mask512(m)"
#define K8		    "(unsigned char)__builtin_ia32_cvtd2mask256(m)"
#define TO_K(k)		    "(unsigned " k ")"

#define MASKED512(types, n, name, type, bytes, mask)                                                                   \
	{"ldm",                                                                                                        \
	 types,                                                                                                        \
	 n,                                                                                                            \
	 "",                                                                                                           \
	 "INL $V $F(const $S *p, $M m, $V other) { return ($V)__builtin_ia32_load" name                                \
	 "_mask((const void *)p, " VEC_OF(type, bytes) "other, " mask "); }",                                          \
	 NULL},                                                                                                        \
	{                                                                                                              \
		"stm", types, n, "",                                                                                   \
			"INL void $F($S *p, $M m, $V v) { __builtin_ia32_store" name                                   \
			"_mask((void *)p, " VEC_OF(type, bytes) "v, " mask "); }",                                     \
			NULL                                                                                           \
	}
#define GATHER512(types, index, n, name, type, bytes, k, mask, i)                                                      \
	{"gather",                                                                                                     \
	 types,                                                                                                        \
	 n,                                                                                                            \
	 "",                                                                                                           \
	 "INL $V $F(const $S *p, $R i) { return ($V)__builtin_ia32_gather" name                                        \
	 "(" VEC_OF(type, bytes) "($V){0}, p, " i ", " k "-1, sizeof(*p)); }",                                         \
	 NULL,                                                                                                         \
	 index},                                                                                                       \
	{                                                                                                              \
		"gatherm", types, n, "",                                                                               \
			"INL $V $F(const $S *p, $R i, $M m, $V other) { return ($V)__builtin_ia32_gather" name         \
			"(" VEC_OF(type, bytes) "other, p, " i ", " mask ", sizeof(*p)); }",                           \
			NULL, index                                                                                    \
	}
#define LONG_INDEX VEC_OF("long long", "64") "i"

#define SELECT512(types, n, name, type, mask)                                                                          \
	{                                                                                                              \
		"sel", types, n, "",                                                                                   \
			"INL $V $F($M m, $V a, $V b) { return ($V)__builtin_ia32_blendm" name                          \
			"_512_mask(" VEC_OF(type, "64") "b, " VEC_OF(type, "64") "a, " mask "); }",                    \
			"INL $V $F($M m, $V a, $V b) { const $I k = __builtin_convertvector(m, $I); return "           \
			"($V)((($I)a & k) | (($I)b & ~k)); }"                                                          \
	}

/* Bytes to words: gcc takes a vector that comes from memory apart. */
#define WORDS_OF(type, n, name, a, more)                                                                               \
	{                                                                                                              \
		"cvt", T_(type), n, "",                                                                                \
			"INL $R $F($V a) { return ($R)__builtin_ia32_pmov" name "(" VEC_OF("char", "16") a more        \
			"); }",                                                                                        \
			"INL $R $F($V a) { return __builtin_convertvector(a, $R); }", T_(I32) | T_(U32)                \
	}
#define WORDS512(type, name)                                                                                           \
	WORDS_OF(type, 16, name "512_mask", "a", ", " VEC_OF("int", "64") "{0}, (unsigned short)-1")
#define WORDS256(type, name) WORDS_OF(type, 8, name "256", VEC_OF("long long", "16") "{(long long)a, 0}", "")

/* gcc makes the same of lane loops, but takes a quarter of a network's compile time for that. Predicates: 1 <, 2 <=, 3 unordered. */
#define BLEND512(a, b, left, right, predicate)                                                                         \
	"__builtin_ia32_blendmps_512_mask(" b ", " a ", __builtin_ia32_cmpps512_mask(" left ", " right ", " predicate  \
	", (unsigned short)-1, 4))"
/* The instruction gives b when either is NaN, or both are zeros, as the test with < or > does. */
#define NUM512(op, name, test)                                                                                         \
	{                                                                                                              \
		op "num", T_F32, 16, "sel",                                                                            \
			"INL $V $F($V a, $V b) { return __builtin_ia32_" name "ps512_mask(a, b, a, (unsigned "         \
			"short)-1, 4); }",                                                                             \
			"INL $V $F($V a, $V b) { return sel_$a(a " test " b, a, b); }"                                 \
	}
#define NANWINS512(op)                                                                                                 \
	{                                                                                                              \
		op, T_F32, 16, "sel " op "num",                                                                        \
			"INL $V $F($V a, $V b) { return " BLEND512("b", op "num_$a(b, a)", "b", "b", "3") "; }",       \
			"INL $V $F($V a, $V b) { return sel_$a(b != b, b, " op "num_$a(b, a)); }"                      \
	}

#define CHOOSE512(op, sign, predicate)                                                                                 \
	{                                                                                                              \
		op "_sel", T_F32, 16, "",                                                                              \
			"INL $V $F($V a, $V b, $V c, $V d) { return " BLEND512("c", "d", "a", "b", predicate) "; }",   \
			"INL $V $F($V a, $V b, $V c, $V d) { const $I k = a " sign " b; return ($V)((($I)c & k) | "    \
			"(($I)d & ~k)); }"                                                                             \
	}

/* of equal ones and with a NaN: the second operand, which is a */
#define EXTREMUM512(op, types, n, name, k)                                                                             \
	{                                                                                                              \
		op, types, n, "",                                                                                      \
			"INL $V $F($V a, $V b) { return __builtin_ia32_" name "512_mask(b, a, a, (" k ")-1, 4); }",    \
			"INL $V $F($V a, $V b) { return __builtin_ia32_" name "512(b, a, 4); }"                        \
	}

const struct cgen_row cgen_rows_avx512[] = {
	WORDS512(I8, "sxbd"),
	WORDS512(U8, "zxbd"),
	WORDS256(I8, "sxbd"),
	WORDS256(U8, "zxbd"),
	CHOOSE512("lt", "<", "1"),
	CHOOSE512("le", "<=", "2"),
	NUM512("min", "min", "<"),
	NUM512("max", "max", ">"),
	NANWINS512("min"),
	NANWINS512("max"),
	{"fma", T_F32, 16, "",
	 "INL $V $F($V a, $V b, $V c) { return __builtin_ia32_vfmaddps512_mask(a, b, c, (unsigned short)-1, 4); }",
	 NULL},
	{"fma", T_F64, 8, "",
	 "INL $V $F($V a, $V b, $V c) { return __builtin_ia32_vfmaddpd512_mask(a, b, c, (unsigned char)-1, 4); }",
	 NULL},
	{"fma", T_F32, 8, "", "INL $V $F($V a, $V b, $V c) { return __builtin_ia32_vfmaddps256(a, b, c); }", NULL},
	{"fma", T_F32, 4, "", "INL $V $F($V a, $V b, $V c) { return __builtin_ia32_vfmaddps(a, b, c); }", NULL},
	EXTREMUM512("minc", T_F32, 16, "minps", "unsigned short"),
	EXTREMUM512("maxc", T_F32, 16, "maxps", "unsigned short"),
	EXTREMUM512("minc", T_F64, 8, "minpd", "unsigned char"),
	EXTREMUM512("maxc", T_F64, 8, "maxpd", "unsigned char"),
	{"minc", T_F32, 8, "", "INL $V $F($V a, $V b) { return __builtin_ia32_minps256(b, a); }", NULL},
	{"maxc", T_F32, 8, "", "INL $V $F($V a, $V b) { return __builtin_ia32_maxps256(b, a); }", NULL},
	{"sqrt", T_F32, 16, "",
	 "INL $V $F($V a) { $V r = {0}; for (int l = 0; l < $N; l++) r[l] = __builtin_sqrtf(a[l]); return r; }",
	 "INL $V $F($V a) { return __builtin_ia32_sqrtps512(a, 4); }"},
	SELECT512(T_F64, 8, "pd", "double", K8),
	SELECT512(T_(I64) | T_(U64), 8, "q", "long long", K8),
	MASKED512(T_F32, 16, "ups512", "float", "64", K16),
	MASKED512(T_(I32) | T_(U32), 16, "dqusi512", "int", "64", K16),
	MASKED512(T_F64, 8, "upd512", "double", "64", K8),
	MASKED512(T_(I64) | T_(U64), 8, "dqudi512", "long long", "64", K8),
	MASKED512(T_(I16) | T_(U16), 16, "dquhi256", "short", "32", K16),
	MASKED512(T_(I8) | T_(U8), 16, "dquqi128", "char", "16", K16),
	GATHER512(T_F32, T_(I32), 16, "siv16sf", "float", "64", TO_K("short"), K16, "i"),
	GATHER512(T_(I32) | T_(U32), T_(I32), 16, "siv16si", "int", "64", TO_K("short"), K16, "i"),
	GATHER512(T_F32, T_(I64), 8, "div16sf", "float", "32", TO_K("char"), K8,
		  LONG_INDEX), /* halves: sixteen 64-bit indices are wide */
	GATHER512(T_F64, T_(I32), 8, "siv8df", "double", "64", TO_K("char"), K8, "i"),
	GATHER512(T_(I64) | T_(U64), T_(I32), 8, "siv8di", "long long", "64", TO_K("char"), K8, "i"),
	{0},
};

/* The products' sums do not saturate here, as they do in vpmaddubsw. */
#define DOT4(n, gcc, clang)                                                                                            \
	{                                                                                                              \
		"dot4", T_(I32), n, "",                                                                                \
			"INL $V $F($V a, $V b, $V c) { return ($V)__builtin_ia32_vpdpbusd" gcc                         \
			"(($T)c, ($T)a, ($T)b); }",                                                                    \
			"INL $V $F($V a, $V b, $V c) { return ($V)__builtin_ia32_vpdpbusd" clang                       \
			"(($T)c, ($T)a, ($T)b); }"                                                                     \
	}

const struct cgen_row cgen_rows_vnni[] = {
	DOT4(16, "_v16si", "512"),
	DOT4(8, "_v8si", "256"),
	DOT4(4, "_v4si", "128"),
	{0},
};

#define MASKED256(types, n, name, type)                                                                                \
	{"ldm",                                                                                                        \
	 types,                                                                                                        \
	 n,                                                                                                            \
	 "sel",                                                                                                        \
	 "INL $V $F(const $S *p, $M m, $V other) { return sel_$a(m, ($V)__builtin_ia32_maskload" name                  \
	 "256((const void *)p, " VEC_OF(type, "32") "__builtin_convertvector(m, $I)), other); }",                      \
	 NULL},                                                                                                        \
	{                                                                                                              \
		"stm", types, n, "",                                                                                   \
			"INL void $F($S *p, $M m, $V v) { __builtin_ia32_maskstore" name                               \
			"256((void *)p, " VEC_OF(type, "32") "__builtin_convertvector(m, $I), ($T)v); }",              \
			NULL                                                                                           \
	}
#define GATHER256_PLAIN(name, i)                                                                                       \
	"INL $V $F(const $S *p, $R i) { return ($V)__builtin_ia32_gather" name "(($T){0}, (const void *)p, " i         \
	", ($T)~($I){0}, sizeof(*p)); }"
#define GATHER256_MASKED(name, i)                                                                                      \
	"INL $V $F(const $S *p, $R i, $M m, $V other) { return ($V)__builtin_ia32_gather" name                         \
	"(($T)other, (const void *)p, " i ", ($T)m, sizeof(*p)); }"
#define GATHER256(types, index, n, gcc, clang, i)                                                                      \
	{"gather", types, n, "", GATHER256_PLAIN(gcc, i), GATHER256_PLAIN(clang, i), index},                           \
	{                                                                                                              \
		"gatherm", types, n, "", GATHER256_MASKED(gcc, i), GATHER256_MASKED(clang, i), index                   \
	}
#define LONG_INDEX256 VEC_OF("long long", "32") "i"

const struct cgen_row cgen_rows_avx2[] = {
	WORDS256(I8, "sxbd"),
	WORDS256(U8, "zxbd"),
	{"fma", T_F32, 8, "", "INL $V $F($V a, $V b, $V c) { return __builtin_ia32_vfmaddps256(a, b, c); }", NULL},
	{"fma", T_F64, 4, "", "INL $V $F($V a, $V b, $V c) { return __builtin_ia32_vfmaddpd256(a, b, c); }", NULL},
	{"fma", T_F32, 4, "", "INL $V $F($V a, $V b, $V c) { return __builtin_ia32_vfmaddps(a, b, c); }", NULL},
	{"minc", T_F32, 8, "", "INL $V $F($V a, $V b) { return __builtin_ia32_minps256(b, a); }", NULL},
	{"maxc", T_F32, 8, "", "INL $V $F($V a, $V b) { return __builtin_ia32_maxps256(b, a); }", NULL},
	{"sqrt", T_F32, 8, "", "INL $V $F($V a) { return __builtin_ia32_sqrtps256(a); }", NULL},
	MASKED256(T_F32, 8, "ps", "int"),
	MASKED256(T_(I32) | T_(U32), 8, "d", "int"),
	MASKED256(T_F64, 4, "pd", "long long"),
	MASKED256(T_(I64) | T_(U64), 4, "q", "long long"),
	GATHER256(T_F32, T_(I32), 8, "siv8sf", "d_ps256", "i"),
	GATHER256(T_(I32) | T_(U32), T_(I32), 8, "siv8si", "d_d256", "i"),
	GATHER256(T_F32, T_(I64), 4, "div4sf256", "q_ps256", LONG_INDEX256),
	{0},
};
