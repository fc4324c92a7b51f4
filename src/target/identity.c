/* identity.c: what the processor says of itself, without asking the system.
 *
 * Input: the processor. Output: a line that differs where models or caches differ: maker, model and the raw description of each cache,
 * sharing included. Only x86 tells a program so much. */
#include "target/target_int.h"

#include <stdio.h>

#if defined(__x86_64__)

#include <cpuid.h>

enum { INTEL_CACHES = 4, MOST_CACHES = 8 };
#define AMD_CACHES 0x8000001du

/* The leaf that describes caches, one sub-leaf each; 0: none. */
static unsigned caches_leaf(void)
{
	const unsigned leaves[] = {INTEL_CACHES, AMD_CACHES};
	for (int i = 0; i < TW_COUNT(leaves); i++) {
		unsigned a = 0, b, c, d;
		if (__get_cpuid_count(leaves[i], 0, &a, &b, &c, &d) && (a & 31))
			return leaves[i];
	}
	return 0;
}

/* Cores of several sorts, each of which would describe itself. */
static bool is_mixed(void)
{
	enum { FEATURES = 7, HYBRID = 1 << 15 };
	unsigned a, b, c, d;
	return __get_cpuid_count(FEATURES, 0, &a, &b, &c, &d) && (d & HYBRID);
}

bool target_identity(char *text, size_t size)
{
	unsigned a, b, c, d;
	const unsigned leaf = caches_leaf();
	if (!leaf || is_mixed() || !__get_cpuid(0, &a, &b, &c, &d))
		return false;
	size_t n = (size_t)snprintf(text, size, "x86 %x %x %x", b, c, d);
	__get_cpuid(1, &a, &b, &c, &d);
	n += (size_t)snprintf(text + n, n < size ? size - n : 0, " %x", a);
	for (unsigned i = 0; i < MOST_CACHES && n < size; i++) {
		__get_cpuid_count(leaf, i, &a, &b, &c, &d);
		if ((a & 31) == 0)
			break;
		n += (size_t)snprintf(text + n, size - n, ", %x %x %x", a, b, c);
	}
	return n < size;
}

#else

bool target_identity(char *text, size_t size)
{
	(void)text, (void)size;
	return false;
}

#endif
