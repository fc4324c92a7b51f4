/* rows_common: the helper functions that every dialect falls back to. Lane loops of constant length become single
 * vector or masked instructions in gcc (-O2, measured on 12); clang expands some of them, so its text uses bit selects
 * or builtins. NaN and rounding follow the semantics in ir.h. */
#include "cgen/dialect.h"

#define V2(op, types, expr)                                                                                            \
	{                                                                                                              \
		op, types, ROW_VECTOR, "",                                                                             \
			"INL $V $F($V a, $V b) { $V r = {0}; for (int l = 0; l < $N; l++) r[l] = " expr                \
			"; return r; }",                                                                               \
			NULL                                                                                           \
	}
#define V1(op, types, expr)                                                                                            \
	{                                                                                                              \
		op, types, ROW_VECTOR, "",                                                                             \
			"INL $V $F($V a) { $V r = {0}; for (int l = 0; l < $N; l++) r[l] = " expr "; return r; }",     \
			NULL                                                                                           \
	}
#define S2(op, types, expr)                                                                                            \
	{                                                                                                              \
		op, types, ROW_SCALAR, "", "INL $V $F($V a, $V b) { return " expr "; }", NULL                          \
	}
#define S1(op, types, expr)                                                                                            \
	{                                                                                                              \
		op, types, ROW_SCALAR, "", "INL $V $F($V a) { return " expr "; }", NULL                                \
	}
#define SIGN(op, types, expr)                                                                                          \
	{                                                                                                              \
		op, types, ROW_VECTOR, "", "INL $V $F($V a, $V b) { return " expr "; }", NULL                          \
	}
#define MASK(e) "__builtin_convertvector(($I)(" e "), $M)"
#define CMP(op, sign)                                                                                                  \
	{                                                                                                              \
		op, T_ALL, ROW_VECTOR, "", "INL $M $F($V a, $V b) { return " MASK("a " sign " b") "; }", NULL          \
	}
#define CHOICE(op, test)                                                                                               \
	{                                                                                                              \
		op, T_ALL, ROW_VECTOR, "sel",                                                                          \
			"INL $V $F($V a, $V b) { $V r = {0}; for (int l = 0; l < $N; l++) r[l] = a[l] " test           \
			" b[l] ? a[l] : b[l]; return r; }",                                                            \
			"INL $V $F($V a, $V b) { return sel_$a(" MASK("a " test " b") ", a, b); }"                     \
	}
/* NaN wins: `num` of b and a gives a when either is NaN, so only a NaN in b is left to choose */
#define NANWINS(op, num)                                                                                               \
	{                                                                                                              \
		op, T_FLOATS, ROW_VECTOR, "sel " num,                                                                  \
			"INL $V $F($V a, $V b) { return sel_$a(" MASK("b != b") ", b, " num "_$a(b, a)); }", NULL      \
	}
/* b is known not to be NaN: what machines have an instruction for */
#define CONSTANT(op, test)                                                                                             \
	{                                                                                                              \
		op, T_FLOATS, ROW_VECTOR, "sel",                                                                       \
			"INL $V $F($V a, $V b) { return sel_$a(" MASK("b " test " a") ", b, a); }", NULL               \
	}
#define HALVES "const union { $V v; $H h[2]; } u = {a}; "
#define REDUCE(name, types, whole, last, needs, needs2)                                                                \
	{"reduce_" name, types, 2, needs2, "INL $S $F($V a) { return ($S)(" last "); }", NULL},                        \
	{                                                                                                              \
		"reduce_" name, types, ROW_VECTOR, "reduce_" name ".h" needs,                                          \
			"INL $S $F($V a) { " HALVES "return reduce_" name "_$H(" whole "); }", NULL                    \
	}

const struct cgen_row cgen_rows_common[] = {
	/* memory */
	{"ld", T_ALL, ROW_VECTOR, "", "INL $V $F(const $S *p) { return *(const $V_u *)p; }", NULL},
	{"st", T_ALL, ROW_VECTOR, "", "INL void $F($S *p, $V v) { *($V_u *)p = v; }", NULL},
	{"ldm", T_ALL, ROW_VECTOR, "",
	 "INL $V $F(const $S *p, $M m, $V other) { $V r = {0}; for (int l = 0; l < $N; l++) r[l] = m[l] ? p[l] : "
	 "other[l]; return r; }",
	 NULL},
	{"stm", T_ALL, ROW_VECTOR, "",
	 "INL void $F($S *p, $M m, $V v) { for (int l = 0; l < $N; l++) if (m[l]) p[l] = v[l]; }", NULL},
	{"gather", T_ALL, ROW_VECTOR, "",
	 "INL $V $F(const $S *p, $R i) { $V r = {0}; for (int l = 0; l < $N; l++) r[l] = p[i[l]]; return r; }", NULL},
	{"gatherm", T_ALL, ROW_VECTOR, "",
	 "INL $V $F(const $S *p, $R i, $M m, $V other) { $V r = {0}; for (int l = 0; l < $N; l++) r[l] = m[l] ? "
	 "p[i[l]] : other[l]; return r; }",
	 NULL},
	{"scatter", T_ALL, ROW_VECTOR, "",
	 "INL void $F($S *p, $R i, $V v) { for (int l = 0; l < $N; l++) p[i[l]] = v[l]; }", NULL},
	{"scatterm", T_ALL, ROW_VECTOR, "",
	 "INL void $F($S *p, $R i, $M m, $V v) { for (int l = 0; l < $N; l++) if (m[l]) p[i[l]] = v[l]; }", NULL},
	/* making and choosing */
	{"splat", T_ALL, ROW_VECTOR, "", "INL $V $F($S x) { return ($V){$X}; }", NULL},
	{"iota", T_ALL, ROW_VECTOR, "", "INL $V $F(void) { return ($V){$J}; }", NULL},
	{"sel", T_ALL, ROW_VECTOR, "",
	 "INL $V $F($M m, $V a, $V b) { const $I k = __builtin_convertvector(m, $I); $V r = {0}; for (int l = 0; l < "
	 "$N; l++) r[l] = k[l] ? a[l] : b[l]; return r; }",
	 "INL $V $F($M m, $V a, $V b) { const $I k = __builtin_convertvector(m, $I); return ($V)((($I)a & k) | (($I)b "
	 "& ~k)); }"},
	{"lo", T_ALL, ROW_VECTOR, "", "INL $H $F($V a) { " HALVES "return u.h[0]; }", NULL},
	{"hi", T_ALL, ROW_VECTOR, "", "INL $H $F($V a) { " HALVES "return u.h[1]; }", NULL},
	{"join", T_ALL, ROW_VECTOR, "",
	 "INL $V $F($H a, $H b) { const union { $H h[2]; $V v; } u = {{a, b}}; return u.v; }", NULL},
	/* signs as functions, for the halves of wide vectors */
	SIGN("add", T_ALL, "a + b"),
	SIGN("sub", T_ALL, "a - b"),
	SIGN("mul", T_ALL, "a * b"),
	SIGN("quot", T_FLOATS, "a / b"),
	SIGN("and", T_INTS, "a & b"),
	SIGN("or", T_INTS, "a | b"),
	SIGN("xor", T_INTS, "a ^ b"),
	SIGN("shl", T_INTS, "a << (b & $w)"),
	SIGN("shr", T_INTS, "a >> (b & $w)"),
	{"neg", T_ALL, ROW_VECTOR, "", "INL $V $F($V a) { return -a; }", NULL},
	{"not", T_INTS, ROW_VECTOR, "", "INL $V $F($V a) { return ~a; }", NULL},
	{"cvt", T_ALL, ROW_VECTOR, "", "INL $R $F($V a) { return __builtin_convertvector(a, $R); }", NULL},
	{"cast", T_ALL, ROW_VECTOR, "", "INL $R $F($V a) { return ($R)a; }", NULL},
	{"tomask", T_ALL, ROW_VECTOR, "", "INL $M $F($V a) { return " MASK("a != 0") "; }", NULL},
	{"frommask", T_ALL, ROW_VECTOR, "", "INL $V $F($M m) { return __builtin_convertvector(m & 1, $V); }", NULL},
	CMP("lt", "<"),
	CMP("le", "<="),
	CMP("eq", "=="),
	CMP("ne", "!="),
	CHOICE("minnum", "<"),
	CHOICE("maxnum", ">"),
	S2("minnum", T_ALL, "a < b ? a : b"),
	S2("maxnum", T_ALL, "a > b ? a : b"),
	NANWINS("min", "minnum"),
	NANWINS("max", "maxnum"),
	CHOICE("min", "<"),
	CHOICE("max", ">"), /* integers */
	S2("min", T_FLOATS, "b < a || b != b ? b : a"),
	S2("max", T_FLOATS, "b > a || b != b ? b : a"),
	S2("min", T_INTS, "a < b ? a : b"),
	S2("max", T_INTS, "a > b ? a : b"),
	CONSTANT("minc", "<"),
	CONSTANT("maxc", ">"),
	S2("minc", T_FLOATS, "b < a ? b : a"),
	S2("maxc", T_FLOATS, "b > a ? b : a"),
	/* floats */
	S1("sqrt", T_FLOATS, "__builtin_sqrt$f(a)"),
	S1("floor", T_FLOATS, "__builtin_floor$f(a)"),
	S1("ceil", T_FLOATS, "__builtin_ceil$f(a)"),
	S1("round", T_FLOATS, "__builtin_rint$f(a)"),
	S1("trunc", T_FLOATS, "__builtin_trunc$f(a)"),
	S1("abs", T_FLOATS, "__builtin_fabs$f(a)"),
	V1("sqrt", T_FLOATS, "__builtin_sqrt$f(a[l])"),
	V1("floor", T_FLOATS, "__builtin_floor$f(a[l])"),
	V1("ceil", T_FLOATS, "__builtin_ceil$f(a[l])"),
	V1("round", T_FLOATS, "__builtin_rint$f(a[l])"),
	V1("trunc", T_FLOATS, "__builtin_trunc$f(a[l])"),
	{"abs", T_FLOATS, ROW_VECTOR, "", "INL $V $F($V a) { return ($V)(($I)a & ~((($I){0} + 1) << $w)); }", NULL},
	{"fma", T_FLOATS, ROW_SCALAR, "", "INL $V $F($V a, $V b, $V c) { return __builtin_fma$f(a, b, c); }", NULL},
	{"fma", T_FLOATS, ROW_VECTOR, "fma.s",
	 "INL $V $F($V a, $V b, $V c) { $V r = {0}; for (int l = 0; l < $N; l++) r[l] = fma_$L(a[l], b[l], c[l]); "
	 "return r; }",
	 NULL},
	/* integers: total division; unsigned types have no -1 */
	S1("abs", T_SIGNED, "($V)(a < 0 ? -a : a)"),
	V1("abs", T_SIGNED, "($S)(a[l] < 0 ? -a[l] : a[l])"),
	S1("abs", T_UNSIGNED, "a"),
	{"abs", T_UNSIGNED, ROW_VECTOR, "", "INL $V $F($V a) { return a; }", NULL},
	S2("div", T_SIGNED, "b == 0 ? 0 : b == -1 ? ($V)-a : ($V)(a / b)"),
	S2("mod", T_SIGNED, "b == 0 || b == -1 ? 0 : ($V)(a % b)"),
	S2("div", T_UNSIGNED, "b == 0 ? 0 : ($V)(a / b)"),
	S2("mod", T_UNSIGNED, "b == 0 ? 0 : ($V)(a % b)"),
	{"div", T_INTS, ROW_VECTOR, "div.s",
	 "INL $V $F($V a, $V b) { $V r = {0}; for (int l = 0; l < $N; l++) r[l] = div_$L(a[l], b[l]); return r; }",
	 NULL},
	{"mod", T_INTS, ROW_VECTOR, "mod.s",
	 "INL $V $F($V a, $V b) { $V r = {0}; for (int l = 0; l < $N; l++) r[l] = mod_$L(a[l], b[l]); return r; }",
	 NULL},
	{"dot4", T_(I32), ROW_SCALAR, "",
	 "INL $V $F($V a, $V b, $V c) { return ($V)((u32)c + (u32)((i32)(u8)a * (i8)b) + (u32)((i32)(u8)(a >> 8) * "
	 "(i8)(b >> 8)) + (u32)((i32)(u8)(a >> 16) * (i8)(b >> 16)) + (u32)((i32)(u8)(a >> 24) * (i8)(b >> 24))); }",
	 NULL},
	{"dot4", T_(I32), ROW_VECTOR, "",
	 "INL $V $F($V a, $V b, $V c) { return c + (a & 255) * (b << 24 >> 24) + (a >> 8 & 255) * (b << 16 >> 24) + (a "
	 ">> 16 & 255) * (b << 8 >> 24) + (a >> 24 & 255) * (b >> 24); }",
	 NULL},
	/* index arithmetic: floors; fdivp and fmodp: b > 0 */
	S2("fdivp", T_SIGNED, "a / b - (a % b < 0)"),
	S2("fmodp", T_SIGNED, "a % b < 0 ? a % b + b : a % b"),
	V2("fdivp", T_SIGNED, "a[l] / b[l] - (a[l] % b[l] < 0)"),
	V2("fmodp", T_SIGNED, "a[l] % b[l] < 0 ? a[l] % b[l] + b[l] : a[l] % b[l]"),
	S2("fdiv", T_SIGNED, "b == 0 ? 0 : b == -1 ? -a : a / b - (a % b != 0 && (a % b < 0) != (b < 0))"),
	S2("fmod", T_SIGNED, "b == 0 || b == -1 ? 0 : a % b != 0 && (a % b < 0) != (b < 0) ? a % b + b : a % b"),
	{"fdiv", T_SIGNED, ROW_VECTOR, "fdiv.s",
	 "INL $V $F($V a, $V b) { $V r = {0}; for (int l = 0; l < $N; l++) r[l] = fdiv_$L(a[l], b[l]); return r; }",
	 NULL},
	{"fmod", T_SIGNED, ROW_VECTOR, "fmod.s",
	 "INL $V $F($V a, $V b) { $V r = {0}; for (int l = 0; l < $N; l++) r[l] = fmod_$L(a[l], b[l]); return r; }",
	 NULL},
	/* conversions */
	{"toint", T_FLOATS, ROW_SCALAR, "",
	 "INL $R $F($V a) { return a >= $K ? $m : a >= $k ? ($R)a : a < $k ? $n : 0; }", NULL},
	/* few bits: whole numbers from the least to the greatest are floats, and these are cheaper to choose from */
	{"toint", T_FLOATS, ROW_VECTOR, "sel minnum maxnum",
	 "INL $R $F($V a)\n{\n"
	 "\tconst $V t = minnum_$a(maxnum_$a(a, ($V){0} + $n), ($V){0} + $m);\n"
	 "\treturn __builtin_convertvector(__builtin_convertvector(sel_$a(" MASK(
		 "a == a") ", t, ($V){0}), $W), $R);\n}",
	 NULL, T_(I8) | T_(U8) | T_(I16) | T_(U16)},
	{"toint", T_FLOATS, ROW_VECTOR, "sel sel.b",
	 "INL $R $F($V a)\n{\n"
	 "\tconst $V t = sel_$a(" MASK(
		 "(a >= $k) & (a < $K)") ", a, ($V){0});\n"
					 "\tconst $R r = __builtin_convertvector(__builtin_convertvector(t, $W), $R);\n"
					 "\treturn sel_$b(" MASK("a >= $K") ", ($R){0} + $m, sel_$b(" MASK(
						 "a < $k") ", ($R){0} + $n, r));\n}",
	 NULL},
	{"bits", T_ALL, ROW_SCALAR, "", "INL $R $F($V a) { const union { $V a; $R b; } u = {a}; return u.b; }", NULL},
	/* reductions: halves, then quarters, ..; b of each pair is the upper one */
	REDUCE("add", T_ALL, "u.h[0] + u.h[1]", "a[0] + a[1]", "", ""),
	REDUCE("mul", T_ALL, "u.h[0] * u.h[1]", "a[0] * a[1]", "", ""),
	REDUCE("and", T_INTS, "u.h[0] & u.h[1]", "a[0] & a[1]", "", ""),
	REDUCE("or", T_INTS, "u.h[0] | u.h[1]", "a[0] | a[1]", "", ""),
	REDUCE("xor", T_INTS, "u.h[0] ^ u.h[1]", "a[0] ^ a[1]", "", ""),
	REDUCE("min", T_ALL, "min_$H(u.h[0], u.h[1])", "min_$L(a[0], a[1])", " min.h", "min.s"),
	REDUCE("max", T_ALL, "max_$H(u.h[0], u.h[1])", "max_$L(a[0], a[1])", " max.h", "max.s"),
	REDUCE("minnum", T_ALL, "minnum_$H(u.h[0], u.h[1])", "minnum_$L(a[0], a[1])", " minnum.h", "minnum.s"),
	REDUCE("maxnum", T_ALL, "maxnum_$H(u.h[0], u.h[1])", "maxnum_$L(a[0], a[1])", " maxnum.h", "maxnum.s"),
	{0},
};
