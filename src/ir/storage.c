/* storage: floats of 16 bits and fewer as bits. Input: a value, exactly, or bits; output: the other. Invariants: every
 * bit pattern has a value; encoding the value of a pattern gives the pattern again, but for NaNs, which become one, and
 * infinities of 8 bits, which become the largest value. */
#include "ir/ir.h"

#include <math.h>

/* Formats of 8 and 4 bits with a sign: significand bits behind the point, exponent bias, the largest value. */
static const struct {
	int digits, bias, bits;
	double largest;
	unsigned nan;	/* without the sign; 0: there is none */
	bool unsigned0; /* one zero; the pattern of -0 is NaN */
} formats[TWIR_SCALARS] = {
	[TWIR_F8E4M3FN] = {3, 7, 8, 448, 0x7f, false},	[TWIR_F8E4M3FNUZ] = {3, 8, 8, 240, 0x80, true},
	[TWIR_F8E5M2] = {2, 15, 8, 57344, 0x7e, false}, [TWIR_F8E5M2FNUZ] = {2, 16, 8, 57344, 0x80, true},
	[TWIR_F4E2M1] = {1, 1, 4, 6, 0, false},
};

/* To f32 with the lost part kept in the last bit (round to odd), so that a second rounding is right. */
static float to_odd(double v)
{
	union {
		float s;
		uint32_t u;
	} r = {.s = (float)v};
	if (v != v || (double)r.s == v)
		return r.s;
	if ((double)r.s > v ? r.s > 0 : r.s < 0) /* rounded away from zero, perhaps to infinity: step back */
		r.u--;
	r.u |= 1;
	return r.s;
}

static uint64_t power_of_two(double v)
{
	const double a = fabs(v);
	if (isnan(v) || isinf(v))
		return 0xff;
	if (a <= 0x1p-127)
		return 0;
	int e;
	const double half = frexp(a, &e); /* a = half * 2^e */
	e -= half == 0.5;
	return (uint64_t)(e > 127 ? 254 : e + 127);
}

static uint64_t narrow(enum twir_scalar s, double v)
{
	const int digits = formats[s].digits, least = 1 - formats[s].bias;
	const uint64_t sign = signbit(v) ? UINT64_C(1) << (formats[s].bits - 1) : 0;
	double a = fabs(v);
	if (isnan(v) && formats[s].nan)
		return formats[s].nan;
	if (isnan(v))
		return narrow(s, formats[s].largest);
	if (a >= formats[s].largest)
		a = formats[s].largest;
	int e = a == 0 ? least : ilogb(a);
	e = e < least ? least : e;
	double q = nearbyint(ldexp(a, digits - e)); /* half to even */
	if (q >= ldexp(1, digits + 1)) {
		q /= 2;
		e++;
	}
	if (q == 0)
		return formats[s].unsigned0 ? 0 : sign;
	const uint64_t whole = (uint64_t)q, one = UINT64_C(1) << digits;
	return sign | (whole < one ? whole : (uint64_t)(e - least + 1) << digits | (whole - one));
}

uint64_t twir_float_bits(enum twir_scalar s, double v)
{
	switch (s) {
	case TWIR_F16:
		return tw_f64_to_f16(v);
	case TWIR_BF16:
		return tw_f32_to_bf16(to_odd(v));
	case TWIR_F8E8M0:
		return power_of_two(v);
	default:
		TW_CHECK(formats[s].bits, "%s is no narrow float", twir_scalar_name(s));
		return narrow(s, v);
	}
}

static double wide(enum twir_scalar s, uint64_t bits)
{
	const int digits = formats[s].digits;
	const uint64_t top = UINT64_C(1) << (formats[s].bits - 1), a = bits & (top - 1), one = UINT64_C(1) << digits;
	const uint64_t e = a >> digits, fraction = a & (one - 1);
	if (formats[s].unsigned0 ? bits == formats[s].nan : formats[s].nan && a >= formats[s].nan)
		return (double)NAN;
	double v = e ? ldexp((double)(one + fraction), (int)e - formats[s].bias - digits)
		     : ldexp((double)fraction, 1 - formats[s].bias - digits);
	if (s == TWIR_F8E5M2 && e == 31)
		v = fraction ? (double)NAN : (double)INFINITY;
	return bits & top ? -v : v;
}

double twir_float_value(enum twir_scalar s, uint64_t bits)
{
	switch (s) {
	case TWIR_F16:
		return (double)tw_f16_to_f32((uint16_t)bits);
	case TWIR_BF16:
		return (double)tw_bf16_to_f32((uint16_t)bits);
	case TWIR_F8E8M0:
		return bits == 0xff ? (double)NAN : ldexp(1, (int)bits - 127);
	default:
		TW_CHECK(formats[s].bits, "%s is no narrow float", twir_scalar_name(s));
		return wide(s, bits);
	}
}
