/* rows_shuffle: loads of every second element. Two loads and a shuffle are some four times as fast as a gather; the
 * second load ends at the last element that is wanted, so that nothing is read behind it. */
#include "cgen/dialect.h"

#define EVEN(n, last, ...)                                                                                             \
	{                                                                                                              \
		"ld2", T_F32 | T_(I32), n, "ld",                                                                       \
			"#if defined(__clang__) || __GNUC__ >= 12\n"                                                   \
			"INL $V $F(const $S *p) { return __builtin_shufflevector(ld_$a(p), ld_$a(p + " last            \
			"), " __VA_ARGS__ "); }\n#else\n"                                                              \
			"INL $V $F(const $S *p) { $V r = {0}; for (int l = 0; l < $N; l++) r[l] = p[2 * l]; "          \
			"return r; }\n#endif",                                                                         \
			NULL                                                                                           \
	}

const struct cgen_row cgen_rows_shuffle[] = {
	EVEN(4, "3", "0, 2, 5, 7"),
	EVEN(8, "7", "0, 2, 4, 6, 9, 11, 13, 15"),
	EVEN(16, "15", "0, 2, 4, 6, 8, 10, 12, 14, 17, 19, 21, 23, 25, 27, 29, 31"),
	{0},
};
