/* An image from a file into memory. Input: an open file and its size; output: the image's bytes, read into huge
 * pages where the machine has them to give, else mapped. A kernel that streams weights from pages of 4 KB reaches
 * three quarters of the bandwidth that it has from huge ones, and files are mapped in small pages. Weights that come again
 * in each step of a recurrence should stay in the second-level cache, which those of a megabyte do if their pages do not
 * share places in it by chance (a step then takes 8 us or 25). Smaller images are mapped. The checksum needs every byte in any case, so that reading
 * costs little: pieces are read and hashed on all cores while they are in the cache. */
#include "rt_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SMALL = 1 << 20 };

/* Does the system give huge pages to those who ask, and is there plenty of memory? A mapped file can be dropped
 * from memory, a copy cannot. */
static bool affordable(int64_t bytes)
{
	const char *wish = getenv("TILEWRIGHT_HUGE_PAGES");
	char line[128] = "";
	long long available = 0;
	if (bytes < SMALL || (wish && strcmp(wish, "0") == 0) || bytes > twrt_memory_limit() / 4)
		return false;
	FILE *f = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "re");
	const bool given = f && fgets(line, sizeof(line), f) && strstr(line, "[never]") == NULL;
	if (f)
		fclose(f);
	f = given ? fopen("/proc/meminfo", "re") : NULL;
	while (f && available == 0 && fgets(line, sizeof(line), f))
		if (sscanf(line, "MemAvailable: %lld", &available) != 1)
			available = 0;
	if (f)
		fclose(f);
	return bytes / 512 < available; /* which is in KB: no more than half of it */
}

bool twrt_image_load(int fd, int64_t bytes, struct twrt_loading *l)
{
	*l = (struct twrt_loading){
		.image = affordable(bytes) ? twrt_alloc(bytes) : NULL, .bytes = bytes, .own = TWRT_FREE};
	if (l->image && pread(fd, l->image, TWRT_HEADER, 0) == TWRT_HEADER &&
	    twrt_digest_read(fd, TWRT_HEADER, (char *)l->image + TWRT_HEADER, bytes - TWRT_HEADER, l->digest))
		return true;
	free(l->image);
	l->digest[0] = '\0';
	l->own = TWRT_UNMAP;
	l->image = bytes > 0 ? mmap(NULL, (size_t)bytes, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
	if (l->image != MAP_FAILED)
		return true;
	l->image = NULL;
	return false;
}
