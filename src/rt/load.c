/* An image from a file into memory. Input: an open file and its size; output: the image's bytes, read into huge pages where the machine has them to give, else
 * mapped. A kernel that streams weights from pages of 4 KB reaches three quarters of the bandwidth that it has from huge ones, and files are mapped in small pages;
 * small images fit the address cache either way, and are mapped. The checksum needs every byte in any case, so that reading costs little; it is done by a few threads. */
#include "rt_int.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SMALL = 8 << 20, CHUNK = 4 << 20, MOST_READERS = 4 };

struct reading {
	int fd;
	char *at;
	int64_t bytes;
	atomic_llong next;
	atomic_int failed;
};

static void *read_chunks(void *arg)
{
	struct reading *r = arg;
	for (int64_t from; (from = atomic_fetch_add(&r->next, CHUNK)) < r->bytes && !atomic_load(&r->failed);) {
		const int64_t end = r->bytes - from < CHUNK ? r->bytes : from + CHUNK;
		while (from < end) {
			const ssize_t n = pread(r->fd, r->at + from, (size_t)(end - from), from);
			if (n < 0 && errno == EINTR)
				continue;
			if (n <= 0) {
				atomic_store(&r->failed, 1);
				return NULL;
			}
			from += n;
		}
	}
	return NULL;
}

static bool read_all(int fd, char *at, int64_t bytes)
{
	struct reading r = {.fd = fd, .at = at, .bytes = bytes};
	pthread_t ids[MOST_READERS];
	const int cpus = twrt_cpus(), wanted = (cpus < MOST_READERS ? cpus : MOST_READERS) - 1;
	int started = 0;
	while (started < wanted && pthread_create(&ids[started], NULL, read_chunks, &r) == 0)
		started++;
	read_chunks(&r);
	for (int i = 0; i < started; i++)
		pthread_join(ids[i], NULL);
	return !atomic_load(&r.failed);
}

/* Does the system give huge pages to those who ask, and is there plenty of memory? A mapped file can be dropped from memory, a copy cannot. */
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

void *twrt_image_load(int fd, int64_t bytes, enum twrt_own *own)
{
	void *at = affordable(bytes) ? twrt_alloc(bytes) : NULL;
	*own = TWRT_FREE;
	if (at && read_all(fd, at, bytes))
		return at;
	free(at);
	*own = TWRT_UNMAP;
	at = bytes > 0 ? mmap(NULL, (size_t)bytes, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
	return at == MAP_FAILED ? NULL : at;
}
