/* Memory for data: aligned, and refused where it could only end in the kernel killing the process. */
#include "rt_int.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { HUGE_PAGE = 2 << 20 };

int64_t twrt_memory_limit(void)
{
	const int64_t pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
	const int64_t machine = pages > 0 && page > 0 ? pages * page : INT64_MAX;
	const int64_t group = tw_cgroup_memory("");
	return group && group < machine ? group : machine;
}

void *twrt_alloc(int64_t bytes)
{
	if (bytes < 0 || bytes > INT64_MAX - HUGE_PAGE)
		return NULL;
	/* Overcommitting kernels promise anything; small requests are not worth the look. */
	if (bytes > (int64_t)64 << 20 && bytes > twrt_memory_limit())
		return NULL;
	/* From a megabyte on, whole huge pages: a tile's panels and rows lie in hundreds of small ones. */
	const size_t align = bytes >= HUGE_PAGE / 2 ? HUGE_PAGE : TWRT_ALIGN;
	const size_t size = ((size_t)(bytes ? bytes : 1) + align - 1) / align * align;
	void *at = NULL;
	if (posix_memalign(&at, align, size) != 0)
		return NULL;
	if (align == HUGE_PAGE)
		madvise(at, size, MADV_HUGEPAGE); /* a wish; refusal costs only time */
	return at;
}
