/* hash.c: xxHash's 64- and 128-bit hashes under our names.
 *
 * Input: bytes. Output: a number, or 32 hexadecimal digits in the canonical (big-endian) order: equal on every machine. */
#include "base/base.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t tw_hash64(const void *at, size_t n, uint64_t seed)
{
	return XXH3_64bits_withSeed(n ? at : "", n, seed);
}

void tw_hash128_hex(const void *at, size_t n, char out[33])
{
	static const char digits[] = "0123456789abcdef";
	XXH128_canonical_t c;
	XXH128_canonicalFromHash(&c, XXH3_128bits(n ? at : "", n));
	for (int i = 0; i < 16; i++) {
		out[2 * i] = digits[c.digest[i] >> 4];
		out[2 * i + 1] = digits[c.digest[i] & 15];
	}
	out[32] = 0;
}
