/* rows_x86: what AVX2 and AVX-512 say in one instruction that lane loops do not give in every compiler. */
#include "cgen/dialect.h"

#define K16 "(unsigned short)__builtin_ia32_cvtd2mask512(m)"

/* Masked accesses by builtin: gcc 12 dies on some masks that are partly known when it takes the lane loops apart, and its code branches. */
const struct cgen_row cgen_rows_avx512[] = {
	{"fma", T_F32, 16, "", "INL $V $F($V a, $V b, $V c) { return __builtin_ia32_vfmaddps512_mask(a, b, c, (unsigned short)-1, 4); }", NULL},
	{"fma", T_F64, 8, "", "INL $V $F($V a, $V b, $V c) { return __builtin_ia32_vfmaddpd512_mask(a, b, c, (unsigned char)-1, 4); }", NULL},
	{"fma", T_F32, 8, "", "INL $V $F($V a, $V b, $V c) { return __builtin_ia32_vfmaddps256(a, b, c); }", NULL},
	{"fma", T_F32, 4, "", "INL $V $F($V a, $V b, $V c) { return __builtin_ia32_vfmaddps(a, b, c); }", NULL},
	{"sqrt", T_F32, 16, "", "INL $V $F($V a) { $V r = {0}; for (int l = 0; l < $N; l++) r[l] = __builtin_sqrtf(a[l]); return r; }",
		"INL $V $F($V a) { return __builtin_ia32_sqrtps512(a, 4); }"},
	{"ldm", T_F32, 16, "",
		"INL $V $F(const $S *p, $M m, $V other) { return __builtin_ia32_loadups512_mask(p, other, " K16 "); }", NULL},
	{"ldm", T_(I32), 16, "",
		"INL $V $F(const $S *p, $M m, $V other) { return __builtin_ia32_loaddqusi512_mask(p, other, " K16 "); }", NULL},
	{"stm", T_F32, 16, "",
		"INL void $F($S *p, $M m, $V v) { __builtin_ia32_storeups512_mask(p, v, " K16 "); }", NULL},
	{"stm", T_(I32), 16, "",
		"INL void $F($S *p, $M m, $V v) { __builtin_ia32_storedqusi512_mask(p, v, " K16 "); }", NULL},
	{0},
};

const struct cgen_row cgen_rows_avx2[] = {
	{"fma", T_F32, 8, "", "INL $V $F($V a, $V b, $V c) { return __builtin_ia32_vfmaddps256(a, b, c); }", NULL},
	{"fma", T_F64, 4, "", "INL $V $F($V a, $V b, $V c) { return __builtin_ia32_vfmaddpd256(a, b, c); }", NULL},
	{"fma", T_F32, 4, "", "INL $V $F($V a, $V b, $V c) { return __builtin_ia32_vfmaddps(a, b, c); }", NULL},
	{"sqrt", T_F32, 8, "", "INL $V $F($V a) { return __builtin_ia32_sqrtps256(a); }", NULL},
	{"ldm", T_F32, 8, "sel", "INL $V $F(const $S *p, $M m, $V other) { return sel_$a(m, __builtin_ia32_maskloadps256((const $V *)p, m), other); }", NULL},
	{"ldm", T_(I32), 8, "sel", "INL $V $F(const $S *p, $M m, $V other) { return sel_$a(m, __builtin_ia32_maskloadd256((const $V *)p, m), other); }", NULL},
	{"stm", T_F32, 8, "", "INL void $F($S *p, $M m, $V v) { __builtin_ia32_maskstoreps256(($V *)p, m, v); }", NULL},
	{"stm", T_(I32), 8, "", "INL void $F($S *p, $M m, $V v) { __builtin_ia32_maskstored256(($V *)p, m, v); }", NULL},
	{0},
};
