/* rows_plain: machines of which nothing is known: fma and the roundings without calls into a math library, in plain
 * arithmetic where the compiler has no instruction for them. All results are those of the instructions, bit for bit
 * (NaN payloads apart). */
#include "cgen/dialect.h"

#define HAVE_FMA   "#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)\n"
#define HAVE_ROUND "#if defined(__SSE4_1__) || defined(__aarch64__)\n"
/* |a| + 2^23 - 2^23 is |a| rounded half to even when |a| < 2^23; larger values are whole. `fix` corrects by one. */
#define ROUNDING(op, builtin, fix)                                                                                     \
	{op,                                                                                                           \
	 T_FLOATS,                                                                                                     \
	 ROW_SCALAR,                                                                                                   \
	 "",                                                                                                           \
	 HAVE_ROUND "INL $V $F($V a) { return __builtin_" builtin "$f(a); }\n#else\n"                                  \
		    "INL $V $F($V a)\n{\n"                                                                             \
		    "\tconst $V big = sizeof(a) == 4 ? ($V)0x1p23 : ($V)0x1p52, m = __builtin_fabs$f(a);\n"            \
		    "\tif (!(m < big))\n\t\treturn a;\n"                                                               \
		    "\t$V t = m + big - big;\n" fix "\treturn __builtin_copysign$f(t, a);\n}\n#endif",                 \
	 NULL},                                                                                                        \
	{                                                                                                              \
		op, T_FLOATS, ROW_VECTOR, op ".s",                                                                     \
			"INL $V $F($V a) { $V r = {0}; for (int l = 0; l < $N; l++) r[l] = " op                        \
			"_$L(a[l]); return r; }",                                                                      \
			NULL                                                                                           \
	}

const struct cgen_row cgen_rows_plain[] = {
	/* The product of two floats is exact in double; the sum is rounded to odd, so that the last rounding sees on
	 * which side it fell. */
	{"fma", T_F32, ROW_SCALAR, "",
	 HAVE_FMA "INL f32 $F(f32 a, f32 b, f32 c) { return __builtin_fmaf(a, b, c); }\n#else\n"
		  "INL f32 $F(f32 a, f32 b, f32 c)\n{\n"
		  "\tconst f64 p = (f64)a * b, s = p + c, t = s - p, e = (p - (s - t)) + (c - t);\n"
		  "\tunion { f64 f; u64 i; } u = {s};\n"
		  "\tif ((e > 0 || e < 0) && !(u.i & 1))\n\t\tu.i += (e > 0) == (s > 0) ? 1 : -1;\n"
		  "\treturn (f32)u.f;\n}\n#endif",
	 NULL},
	/* Exact in 128 bits: both addends as 127-bit numbers with a sticky last bit, one rounding at the end. */
	{"fma", T_F64, ROW_SCALAR, "",
	 HAVE_FMA
	 "INL f64 $F(f64 a, f64 b, f64 c) { return __builtin_fma(a, b, c); }\n#else\n"
	 "typedef unsigned __int128 u128;\n"
	 "static u64 fma_split(f64 x, int *e)\n{\n"
	 "\tconst union { f64 f; u64 i; } u = {x};\n"
	 "\tu64 m = u.i & 0xfffffffffffff;\n"
	 "\t*e = (int)(u.i >> 52 & 0x7ff);\n"
	 "\tif (*e)\n\t\tm |= 1ul << 52;\n\telse\n\t\tfor (*e = 1; !(m >> 52); m <<= 1)\n\t\t\t--*e;\n"
	 "\treturn m;\n}\n"
	 "static u128 fma_shift(u128 x, int n)\n{\n"
	 "\treturn n == 0 ? x : n > 127 ? x != 0 : x >> n | ((x & (((u128)1 << n) - 1)) != 0);\n}\n"
	 "static f64 $F(f64 a, f64 b, f64 c)\n{\n"
	 "\tif (a - a != 0 || b - b != 0 || c - c != 0 || a == 0 || b == 0)\n\t\treturn a * b + c;\n"
	 "\tif (c == 0)\n\t\treturn a * b;\n"
	 "\tint ea, eb, ec;\n"
	 "\tconst u64 ma = fma_split(a, &ea), mb = fma_split(b, &eb), mc = fma_split(c, &ec);\n"
	 "\tu128 p = (u128)ma * mb << 20, q = (u128)mc << 72;\n" /* times 2^ep and 2^eq: biased exponents */
	 "\tint ep = ea + eb - 1075 - 20, eq = ec - 72;\n"
	 "\tint sp = __builtin_signbit(a) != __builtin_signbit(b), sq = !!__builtin_signbit(c);\n"
	 "\tint e = ep > eq ? ep : eq;\n"
	 "\tp = fma_shift(p, e - ep);\n\tq = fma_shift(q, e - eq);\n"
	 "\tu128 r;\n\tint s = sp;\n"
	 "\tif (sp == sq)\n\t\tr = p + q;\n\telse if (p >= q)\n\t\tr = p - q;\n\telse {\n\t\tr = q - p;\n\t\ts = "
	 "sq;\n\t}\n"
	 "\tif (r == 0)\n\t\treturn 0;\n"
	 "\tint n = 128;\n\twhile (!(r >> (n - 1)))\n\t\tn--;\n" /* r has n bits */
	 "\tint k = n - 53;\n"					 /* bits to drop */
	 "\tif (e + k < 1)\n\t\tk = 1 - e;\n"			 /* subnormal: exponent 1 is the least */
	 "\tif (k > 0) {\n\t\tr = fma_shift(r, k - 2 > 0 ? k - 2 : 0);\n\t\tif (k < 2)\n\t\t\tr <<= 2 - k;\n\t} else "
	 "{\n\t\tr <<= 2 - k;\n\t}\n"
	 "\te += k;\n"
	 "\tu64 m = (u64)(r >> 2);\n"
	 "\tconst int low = (int)(r & 3);\n"
	 "\tif (low == 3 || (low == 2 && (m & 1)))\n\t\tm++;\n"
	 "\tu64 bits = m >> 52 ? ((u64)e << 52) + (m - (1ul << 52)) : m;\n"
	 "\tif (m >> 52 && (e >= 0x7ff || bits >> 52 >= 0x7ff))\n\t\tbits = 0x7fful << 52;\n"
	 "\tconst union { u64 i; f64 f; } u = {bits | (u64)s << 63};\n"
	 "\treturn u.f;\n}\n#endif",
	 NULL},
	ROUNDING("floor", "floor", "\tt = __builtin_copysign$f(t, a);\n\tif (t > a)\n\t\tt -= 1;\n"),
	ROUNDING("ceil", "ceil", "\tt = __builtin_copysign$f(t, a);\n\tif (t < a)\n\t\tt += 1;\n"),
	ROUNDING("round", "rint", ""),
	ROUNDING("trunc", "trunc", "\tif (t > m)\n\t\tt -= 1;\n"),
	{0},
};
