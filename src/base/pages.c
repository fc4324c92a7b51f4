/* Pages of mapped files that nobody needs for now. */
#include "base/base.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

void tw_drop_pages(const void *at, int64_t bytes)
{
	const long page = sysconf(_SC_PAGESIZE);
	if (at == NULL || bytes <= 0 || page <= 0)
		return;
	const uintptr_t mask = (uintptr_t)page - 1, first = ((uintptr_t)at + mask) & ~mask;
	const uintptr_t end = ((uintptr_t)at + (uintptr_t)bytes) & ~mask;
	if (end > first)
		madvise((void *)first, end - first, MADV_DONTNEED); /* a wish: it saves memory or nothing */
}

void tw_trim(void)
{
#ifdef __GLIBC__
	malloc_trim(0);
#endif
}
