/* checked.c: arithmetic on sizes that tells when a result does not fit.
 *
 * Input: two numbers and a flag. Output: the result, or 0 with the flag set; the flag is never cleared, so a chain of operations
 * is checked once at its end. */
#include "base/base.h"

int64_t tw_mul64(int64_t a, int64_t b, bool *bad)
{
	int64_t r;
	if (!__builtin_mul_overflow(a, b, &r))
		return r;
	*bad = true;
	return 0;
}

int64_t tw_add64(int64_t a, int64_t b, bool *bad)
{
	int64_t r;
	if (!__builtin_add_overflow(a, b, &r))
		return r;
	*bad = true;
	return 0;
}
