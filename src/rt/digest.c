/* Hashes of large memory, by pieces, on all cores. Input: bytes, a mapped file's perhaps, or a file to be read into memory; output: a hash of them that does not depend on
 * how many threads there are. What was hashed has been looked at once, so a file's pages are in this process afterwards. */
#define _GNU_SOURCE
#include "rt_int.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PIECE = 1 << 20, ROUND = 1024 /* pieces at once: what their hashes take lies on the stack */ };

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22 /* of Linux 5.14; an older one refuses, and pages come one by one */
#endif

struct digest {
	char *at;
	int64_t bytes;
	bool drop, read; /* read: from the file into memory first */
	int fd;
	int64_t offset;
	char (*pieces)[33];
	atomic_bool failed;
};

static bool read_piece(int fd, char *to, int64_t bytes, int64_t offset)
{
	while (bytes > 0) {
		const ssize_t n = pread(fd, to, (size_t)bytes, offset);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		to += n;
		offset += n;
		bytes -= n;
	}
	return true;
}

static void hash_piece(void *arg, int64_t i, int thread)
{
	(void)thread;
	struct digest *d = arg;
	const int64_t from = i * PIECE, left = d->bytes - from, n = left < PIECE ? left : PIECE;
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start = (uintptr_t)(d->at + from) / page * page;
	if (d->read && !read_piece(d->fd, d->at + from, n, d->offset + from)) {
		atomic_store(&d->failed, true);
		return;
	}
	if (!d->read && n == PIECE)
		madvise((void *)start, (uintptr_t)(d->at + from + n) - start, MADV_POPULATE_READ);
	tw_hash128_hex(d->at + from, (size_t)n, d->pieces[i]);
	if (d->drop)
		tw_drop_pages(d->at + from, n);
}

static bool digest(struct digest d, int64_t bytes, char hash[33])
{
	char pieces[ROUND + 1][33];
	memset(pieces, 0, sizeof(pieces));
	d.pieces = pieces + 1; /* the first line is what came before */
	struct twrt_pool *pool = bytes > 2 * PIECE ? twrt_pool_get(0) : NULL;
	do {
		d.bytes = bytes < (int64_t)ROUND * PIECE ? bytes : (int64_t)ROUND * PIECE;
		const int64_t count = (d.bytes + PIECE - 1) / PIECE;
		if (pool)
			twrt_pool_run(pool, count, false, hash_piece, &d);
		else
			for (int64_t i = 0; i < count; i++)
				hash_piece(&d, i, 0);
		tw_hash128_hex(pieces, (size_t)(count + 1) * sizeof(*pieces), pieces[0]);
		d.at += d.bytes;
		d.offset += d.bytes;
		bytes -= d.bytes;
	} while (bytes > 0 && !atomic_load(&d.failed));
	twrt_pool_put(pool);
	memcpy(hash, pieces[0], sizeof(pieces[0]));
	return !atomic_load(&d.failed);
}

void twrt_digest(const void *at, int64_t bytes, bool drop, char hash[33])
{
	digest((struct digest){.at = (char *)(uintptr_t)at, .drop = drop}, bytes, hash);
}

bool twrt_digest_read(int fd, int64_t offset, void *to, int64_t bytes, char hash[33])
{
	return digest((struct digest){.at = to, .read = true, .fd = fd, .offset = offset}, bytes, hash);
}
