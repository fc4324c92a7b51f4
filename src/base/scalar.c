/* scalar.c: float16 and bfloat16 to and from float and double.
 *
 * Input: a number or its bits. Output: the nearest value of the other type, half to even; too large becomes infinity; a NaN stays
 * a (quiet) NaN with its sign. Only integer arithmetic, so the rounding mode and the compiler's options have no say. */
#include "base/base.h"

static uint32_t float_bits(float f)
{
	uint32_t u;
	memcpy(&u, &f, 4);
	return u;
}

static float bits_float(uint32_t u)
{
	float f;
	memcpy(&f, &u, 4);
	return f;
}

float tw_f16_to_f32(uint16_t h)
{
	const uint32_t sign = (uint32_t)(h & 0x8000) << 16;
	const uint32_t exponent = h >> 10 & 31;
	const uint32_t fraction = h & 0x3ff;
	if (exponent == 31)
		return bits_float(sign | 0x7f800000 | fraction << 13 | (fraction ? 0x400000 : 0));
	if (exponent)
		return bits_float(sign | (exponent + 112) << 23 | fraction << 13);
	if (!fraction)
		return bits_float(sign);
	/* Subnormal: the highest bit of the fraction becomes the hidden one. */
	const int top = 31 - __builtin_clz(fraction);
	return bits_float(sign | (uint32_t)(top + 103) << 23 | ((fraction << (23 - top)) & 0x7fffff));
}

uint16_t tw_f64_to_f16(double f)
{
	uint64_t u;
	memcpy(&u, &f, 8);
	const uint16_t sign = (uint16_t)(u >> 48 & 0x8000);
	u &= INT64_MAX;
	if (u > 0x7ff0000000000000u)
		return (uint16_t)(sign | 0x7e00 | (u >> 42 & 0x1ff));
	if (u >= 0x40effe0000000000u) /* 65520, half way from the largest number to the next: infinity */
		return sign | 0x7c00;
	const int exponent = (int)(u >> 52) - 1023;
	if (exponent >= -14) {
		/* A carry out of the fraction counts the exponent up, as it should. */
		u -= (uint64_t)(1023 - 15) << 52;
		u += (((uint64_t)1 << 41) - 1) + (u >> 42 & 1);
		return (uint16_t)(sign | u >> 42);
	}
	if (exponent < -25)
		return sign;
	const int shift = 42 - 14 - exponent;
	const uint64_t whole = (u & (((uint64_t)1 << 52) - 1)) | (uint64_t)1 << 52;
	const uint64_t rest = whole & (((uint64_t)1 << shift) - 1);
	const uint64_t half = (uint64_t)1 << (shift - 1);
	uint64_t q = whole >> shift;
	q += rest > half || (rest == half && (q & 1));
	return (uint16_t)(sign | q);
}

uint16_t tw_f32_to_f16(float f)
{
	return tw_f64_to_f16((double)f);
}

float tw_bf16_to_f32(uint16_t h)
{
	return bits_float((uint32_t)h << 16);
}

uint16_t tw_f32_to_bf16(float f)
{
	const uint32_t u = float_bits(f);
	if ((u & INT32_MAX) > 0x7f800000)
		return (uint16_t)(u >> 16 | 0x40);
	return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}
