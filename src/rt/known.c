/* What is known of files that were read before: one small file for each in the cache's folder, named after what the system says of it:
 * device, inode, size, times of the last change of content and of state. Input: that, and a text; output: the text.
 *
 * A change of content changes the times, unless it comes within the clock's grain of the last one: so nothing is kept of a file that
 * was changed less than two seconds before it was looked at, as git has it for its index. The time of the last change of state cannot be
 * set by a program, so that neither copying old times nor writing in place goes unnoticed. A damaged or foreign record is no record. */
#define _GNU_SOURCE
#include "rt_int.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

enum { MOST = 64 << 10, GRAIN_SECONDS = 2, STAMP = 200, NAME = 64 };

static void stamp_of(const struct stat *st, char stamp[STAMP])
{
	snprintf(stamp, STAMP, "tilewright file 1\n%llu %llu %lld %lld.%09ld %lld.%09ld\n",
		 (unsigned long long)st->st_dev, (unsigned long long)st->st_ino, (long long)st->st_size,
		 (long long)st->st_mtim.tv_sec, st->st_mtim.tv_nsec, (long long)st->st_ctim.tv_sec,
		 st->st_ctim.tv_nsec);
}

static void name_of(const char *stamp, char name[NAME])
{
	char hash[33];
	tw_hash128_hex(stamp, strlen(stamp), hash);
	snprintf(name, NAME, "%s" TWRT_KNOWN_SUFFIX, hash);
}

/* A record: the stamp, the text, and the hash of both. */
static void sum_of(const char *record, size_t n, char sum[34])
{
	tw_hash128_hex(record, n, sum);
	sum[32] = '\n';
	sum[33] = '\0';
}

static bool read_record(int fd, const char *stamp, char *text, size_t room)
{
	char record[MOST + 1], sum[34];
	const ssize_t got = read(fd, record, sizeof(record));
	const size_t head = strlen(stamp), tail = 33, n = got < 0 ? 0 : (size_t)got;
	if (n < head + tail || n > MOST || memcmp(record, stamp, head) != 0)
		return false;
	sum_of(record, n - tail, sum);
	const size_t length = n - tail - head;
	if (memcmp(record + n - tail, sum, tail) != 0 || length >= room || memchr(record, '\0', n))
		return false;
	memcpy(text, record + head, length);
	text[length] = '\0';
	return true;
}

bool twrt_known_get(const struct stat *st, char *text, size_t room)
{
	char path[4096], stamp[STAMP], name[NAME];
	struct tw_error e;
	const int folder = twrt_cache_open(false, path, sizeof(path), &e);
	if (folder < 0)
		return false;
	stamp_of(st, stamp);
	name_of(stamp, name);
	const int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat own;
	bool good = false;
	if (fd >= 0 && fstat(fd, &own) == 0 && S_ISREG(own.st_mode) && twrt_cache_ours(&own)) {
		good = read_record(fd, stamp, text, room);
		if (good)
			twrt_cache_used(fd);
	}
	if (fd >= 0)
		close(fd);
	close(folder);
	return good;
}

/* Any later change will show. */
static bool settled(const struct timespec *changed, const struct timespec *looked)
{
	return changed->tv_sec < looked->tv_sec - GRAIN_SECONDS;
}

void twrt_known_put(const struct twrt_file *f, const char *text)
{
	struct stat now;
	char stamp[STAMP], stamp_now[STAMP], name[NAME], path[4096], record[MOST + 1], sum[34];
	struct tw_error e;
	if (stat(f->path, &now) != 0)
		return;
	stamp_of(&f->st, stamp);
	stamp_of(&now, stamp_now);
	if (strcmp(stamp, stamp_now) != 0 || !settled(&now.st_mtim, &f->looked) || !settled(&now.st_ctim, &f->looked))
		return;
	const size_t head = strlen(stamp), length = strlen(text), n = head + length;
	if (length > MOST - STAMP - sizeof(sum))
		return;
	memcpy(record, stamp, head);
	memcpy(record + head, text, length);
	sum_of(record, n, sum);
	memcpy(record + n, sum, strlen(sum));
	const int64_t bytes = (int64_t)(n + strlen(sum));
	const int folder = bytes > twrt_cache_limit() ? -1 : twrt_cache_open(true, path, sizeof(path), &e);
	if (folder < 0)
		return;
	name_of(stamp, name);
	twrt_cache_write(folder, path, name, record, bytes, false, &e); /* a broken one is none */
	close(folder);
}
