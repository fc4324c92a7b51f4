/* Constants as text and back, exactly and whatever the locale: a decimal where few digits give the same bits, else a
 * hexadecimal float. */
#include "ir/ir_int.h"

#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>

#define TEN_EXACT 22 /* 10^22 is the largest power of ten that a double holds exactly */

static double power_of_ten(int k)
{
	double p = 1;
	while (k-- > 0)
		p *= 10;
	return p;
}

static double rounded(enum twir_scalar s, double v)
{
	if (twir_is_storage(s))
		return twir_float_value(s, twir_float_bits(s, v));
	return s == TWIR_F32 ? (double)(float)v : v;
}

static void put_decimal(struct tw_buf *b, int64_t digits, int places)
{
	int64_t unit = 1;
	for (int i = 0; i < places; i++)
		unit *= 10;
	if (places == 0)
		buf_printf(b, "%" PRId64 ".0", digits);
	else
		buf_printf(b, "%" PRId64 ".%0*" PRId64, digits / unit, places, digits % unit);
}

static void put_hexadecimal(struct tw_buf *b, double v)
{
	int exponent;
	const double half = frexp(v, &exponent); /* 0.5 <= half < 1 */
	uint64_t fraction = (uint64_t)ldexp(half, 53) & ((UINT64_C(1) << 52) - 1);
	buf_puts(b, "0x1");
	if (fraction) {
		int digits = 13;
		while ((fraction & 15) == 0) {
			fraction >>= 4;
			digits--;
		}
		buf_printf(b, ".%0*" PRIx64, digits, fraction);
	}
	buf_printf(b, "p%+d", exponent - 1);
}

static void put_float(struct tw_buf *b, enum twir_scalar s, double v, bool suffix)
{
	if (signbit(v) && !isnan(v)) {
		buf_putc(b, '-');
		v = -v;
	}
	if (isnan(v) || isinf(v)) {
		buf_puts(b, isnan(v) ? "nan" : "inf");
		if (s != TWIR_F32 || suffix)
			buf_printf(b, "_%s", twir_scalar_name(s));
		return;
	}
	const double many = s == TWIR_F64 ? 1e15 : 1e7;
	bool done = v == 0;
	if (done)
		buf_puts(b, "0.0");
	for (int k = 0; k <= 8 && !done; k++) {
		const double scaled = v * power_of_ten(k);
		if (scaled >= (k == 0 ? 1e15 : many))
			break;
		const double digits = round(scaled);
		if (digits >= 1 && rounded(s, digits / power_of_ten(k)) == v) {
			put_decimal(b, (int64_t)digits, k);
			done = true;
		}
	}
	for (int k = 9; k <= TEN_EXACT && !done && v < 1e-3; k++) {
		const double digits = round(v * power_of_ten(k));
		if (digits >= 1e7)
			break;
		if (digits >= 1 && rounded(s, digits / power_of_ten(k)) == v) {
			buf_printf(b, "%de-%d", (int)digits, k);
			done = true;
		}
	}
	if (!done)
		put_hexadecimal(b, v);
	if (s != TWIR_F32 || suffix)
		buf_puts(b, twir_scalar_name(s));
}

void twir_print_const(struct tw_buf *b, const struct twir_expr *e, bool suffix)
{
	const enum twir_scalar s = (enum twir_scalar)e->type.scalar;
	if (twir_is_float(s)) {
		put_float(b, s, e->u.f, suffix);
		return;
	}
	if (s == TWIR_I1) {
		buf_puts(b, e->u.i ? "true" : "false");
		return;
	}
	if (s == TWIR_U64)
		buf_printf(b, "%" PRIu64, (uint64_t)e->u.i);
	else
		buf_printf(b, "%" PRId64, e->u.i);
	if (s != TWIR_INDEX)
		buf_puts(b, twir_scalar_name(s));
}

static int digit_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return 99;
}

struct literal {
	const char *at, *end;
	uint64_t mantissa;
	int exponent;
	bool exact; /* all digits are in the mantissa */
};

static void read_digits(struct literal *l, int base, int step, bool fraction)
{
	for (; l->at < l->end && digit_of(*l->at) < base; l->at++) {
		const int d = digit_of(*l->at);
		if (l->mantissa < (UINT64_C(1) << 59)) {
			l->mantissa = l->mantissa * (uint64_t)base + (uint64_t)d;
			l->exponent -= fraction ? step : 0;
		} else {
			l->exact &= d == 0;
			l->exponent += fraction ? 0 : step;
		}
	}
}

static bool read_exponent(struct literal *l)
{
	const bool minus = l->at < l->end && *l->at == '-';
	if (l->at < l->end && (*l->at == '-' || *l->at == '+'))
		l->at++;
	if (l->at == l->end)
		return false;
	int e = 0;
	for (; l->at < l->end; l->at++) {
		if (digit_of(*l->at) > 9)
			return false;
		if (e < 100000)
			e = e * 10 + digit_of(*l->at);
	}
	l->exponent += minus ? -e : e;
	return true;
}

/* The general case of a decimal, in the C locale. */
static bool slow_decimal(const char *s, size_t n, double *value)
{
	char text[512];
	if (n >= sizeof(text))
		return false;
	memcpy(text, s, n);
	text[n] = 0;
	locale_t c = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
	if (!c)
		return false;
	char *end;
	*value = strtod_l(text, &end, c);
	freelocale(c);
	return *end == 0;
}

bool twir_float_literal(const char *s, size_t n, double *value)
{
	struct literal l = {.at = s, .end = s + n, .exact = true};
	const bool hexadecimal = n > 2 && s[0] == '0' && (s[1] == 'x' || s[1] == 'X');
	const int base = hexadecimal ? 16 : 10, step = hexadecimal ? 4 : 1;
	if (hexadecimal)
		l.at += 2;
	read_digits(&l, base, step, false);
	if (l.at < l.end && *l.at == '.') {
		l.at++;
		read_digits(&l, base, step, true);
	}
	if (l.at < l.end) {
		const char mark = *l.at++;
		if (hexadecimal ? mark != 'p' && mark != 'P' : mark != 'e' && mark != 'E')
			return false;
		if (!read_exponent(&l))
			return false;
	}
	if (hexadecimal) {
		if (!l.exact || l.mantissa >> 53)
			return false;
		*value = ldexp((double)l.mantissa, l.exponent);
		return true;
	}
	if (!l.exact || l.mantissa >> 53 || l.exponent < -TEN_EXACT || l.exponent > TEN_EXACT)
		return slow_decimal(s, n, value);
	*value = l.exponent < 0 ? (double)l.mantissa / power_of_ten(-l.exponent)
				: (double)l.mantissa * power_of_ten(l.exponent);
	return true;
}
