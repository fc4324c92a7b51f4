/* The cache of bundles: a folder of images, one file a key, and of what is known of files (known.c).
 *
 * An entry appears by rename, so it is whole or absent; reading checks its checksum, so a damaged one is absent too.
 * Nothing is trusted that another user could have written: entries are code. A killed writer leaves a temporary file,
 * which a later one removes. Several processes need no lock but to evict. */
#define _GNU_SOURCE
#include "rt_int.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SUFFIX	  ".twb" /* of an image; known.c has its own, as long */
#define TEMPORARY ".part-"
enum { KEY_CHARS = 32, STALE_SECONDS = 600 };

static const char *set(const char *name)
{
	const char *value = getenv(name);
	return value && value[0] ? value : NULL;
}

enum tw_code twrt_cache_dir(char *path, size_t n, struct tw_error *e)
{
	const char *own = set("TILEWRIGHT_CACHE"), *xdg = set("XDG_CACHE_HOME"), *home = set("HOME");
	int length;
	if (own)
		length = snprintf(path, n, "%s", own);
	else if (xdg && xdg[0] == '/') /* its specification: relative ones are to be ignored */
		length = snprintf(path, n, "%s/tilewright", xdg);
	else if (home)
		length = snprintf(path, n, "%s/.cache/tilewright", home);
	else
		return TWRT_FAIL(e, TW_ERR_IO, "no folder for the cache: set TILEWRIGHT_CACHE or HOME");
	if (length >= (int)n)
		return TWRT_FAIL(e, TW_ERR_IO, "the path of the cache's folder is too long");
	return TW_ERR_OK;
}

static void make_folders(const char *path)
{
	char part[4096];
	if (snprintf(part, sizeof(part), "%s", path) >= (int)sizeof(part))
		return;
	for (char *at = part + 1; *at; at++)
		if (*at == '/') {
			*at = '\0';
			mkdir(part, 0700);
			*at = '/';
		}
	mkdir(part, 0700); /* failures show when it is opened */
}

bool twrt_cache_ours(const struct stat *st)
{
	return st->st_uid == geteuid() && (st->st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

int twrt_cache_open(bool make, char *path, size_t n, struct tw_error *e)
{
	if (twrt_cache_dir(path, n, e) != TW_ERR_OK)
		return -1;
	if (make)
		make_folders(path);
	const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) != 0) {
		tw_error_set(e, TW_ERR_IO, "cannot use the cache %s: %s", path, strerror(errno));
	} else if (!twrt_cache_ours(&st)) {
		tw_error_set(
			e, TW_ERR_IO,
			"the cache %s is not used: it belongs to another user, or others may write to it (chmod go-w)",
			path);
	} else {
		return fd;
	}
	if (fd >= 0)
		close(fd);
	return -1;
}

static bool valid_key(const char *key)
{
	return strlen(key) == KEY_CHARS && strspn(key, "0123456789abcdef") == KEY_CHARS;
}

static bool is_named(const char *name, const char *suffix)
{
	return strlen(name) == KEY_CHARS + strlen(suffix) && strspn(name, "0123456789abcdef") == KEY_CHARS &&
	       strcmp(name + KEY_CHARS, suffix) == 0;
}

static bool is_entry(const char *name)
{
	return is_named(name, SUFFIX) || is_named(name, TWRT_KNOWN_SUFFIX);
}

static void entry_name(const char *key, char name[64])
{
	snprintf(name, 64, "%s" SUFFIX, key);
}

void twrt_cache_used(int fd)
{
	futimens(fd, (const struct timespec[2]){{.tv_nsec = UTIME_OMIT}, {.tv_nsec = UTIME_NOW}});
}

static bool open_entry(int folder, const char *name, struct twrt_model **out, bool *broken)
{
	const int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat st;
	if (fd < 0)
		return false;
	bool good = false;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && twrt_cache_ours(&st)) {
		struct twrt_loading l;
		struct tw_error e;
		const enum tw_code code =
			twrt_image_load(fd, st.st_size, &l) ? twrt_model_take(&l, out, &e) : TW_ERR_MODEL;
		good = code == TW_ERR_OK;
		*broken = code == TW_ERR_MODEL;
		if (good)
			twrt_cache_used(fd);
	}
	close(fd);
	return good;
}

bool twrt_cache_get(const char *key, struct twrt_model **out)
{
	char path[4096], name[64];
	struct tw_error e;
	*out = NULL;
	if (!valid_key(key))
		return false;
	const int folder = twrt_cache_open(false, path, sizeof(path), &e);
	if (folder < 0)
		return false;
	bool broken = false;
	entry_name(key, name);
	const bool good = open_entry(folder, name, out, &broken);
	if (broken)
		unlinkat(folder, name, 0);
	close(folder);
	return good;
}

int64_t twrt_cache_limit(void)
{
	const int64_t usual = (int64_t)4 << 30;
	const char *text = set("TILEWRIGHT_CACHE_SIZE");
	if (text == NULL)
		return usual;
	char *end;
	errno = 0;
	const long long n = strtoll(text, &end, 10);
	int shift = 0;
	if (*end == 'k' || *end == 'K')
		shift = 10;
	else if (*end == 'm' || *end == 'M')
		shift = 20;
	else if (*end == 'g' || *end == 'G')
		shift = 30;
	end += shift != 0;
	if (end == text || *end || errno || n < 0 || n > INT64_MAX >> shift)
		return usual;
	return (int64_t)n << shift;
}

struct entry {
	char name[KEY_CHARS + sizeof(SUFFIX)];
	struct timespec used;
	int64_t bytes;
};

struct listing {
	struct entry *at;
	int n, cap, images;
	int64_t bytes;
	bool bad; /* out of memory */
};
_Static_assert(sizeof(SUFFIX) == sizeof(TWRT_KNOWN_SUFFIX), "an entry has room for either name");

static void add(struct listing *l, const char *name, const struct stat *st)
{
	if (l->n == l->cap) {
		const int cap = 2 * l->cap + 64;
		struct entry *at = realloc(l->at, (size_t)cap * sizeof(*at));
		if (at == NULL) {
			l->bad = true;
			return;
		}
		l->at = at;
		l->cap = cap;
	}
	struct entry *x = &l->at[l->n++];
	snprintf(x->name, sizeof(x->name), "%s", name);
	x->used = st->st_mtim;
	x->bytes = st->st_size;
	l->bytes += st->st_size;
	l->images += is_named(name, SUFFIX);
}

/* Lists entries; removes what killed writers left. */
static void list(int folder, bool clean, struct listing *l)
{
	*l = (struct listing){0};
	const int copy = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = copy < 0 ? NULL : fdopendir(copy);
	if (d == NULL) {
		if (copy >= 0)
			close(copy);
		return;
	}
	const time_t now = time(NULL);
	for (struct dirent *x; !l->bad && (x = readdir(d)) != NULL;) {
		struct stat st;
		if (fstatat(folder, x->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode))
			continue;
		if (is_entry(x->d_name))
			add(l, x->d_name, &st);
		else if (clean && strncmp(x->d_name, TEMPORARY, strlen(TEMPORARY)) == 0 &&
			 now - st.st_mtime > STALE_SECONDS)
			unlinkat(folder, x->d_name, 0);
	}
	closedir(d);
}

static int older_first(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	if (x->used.tv_sec != y->used.tv_sec)
		return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
	if (x->used.tv_nsec != y->used.tv_nsec)
		return x->used.tv_nsec < y->used.tv_nsec ? -1 : 1;
	return strcmp(x->name, y->name);
}

static void evict(int folder, int64_t limit, const char *keep)
{
	/* One process at a time; another that is at it already does the same for us. */
	if (flock(folder, LOCK_EX | LOCK_NB) != 0)
		return;
	struct listing l;
	list(folder, true, &l);
	if (l.n)
		qsort(l.at, (size_t)l.n, sizeof(*l.at), older_first);
	for (int i = 0; i < l.n && l.bytes > limit; i++)
		if (strcmp(l.at[i].name, keep) != 0 && unlinkat(folder, l.at[i].name, 0) == 0)
			l.bytes -= l.at[i].bytes;
	free(l.at);
	flock(folder, LOCK_UN);
}

static bool write_all(int fd, const char *at, int64_t bytes)
{
	while (bytes > 0) {
		const ssize_t n = write(fd, at, bytes > 1 << 30 ? 1 << 30 : (size_t)bytes);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		at += n;
		bytes -= n;
	}
	return true;
}

enum tw_code twrt_cache_write(int folder, const char *path, const char *name, const void *image, int64_t bytes,
			      bool sync, struct tw_error *e)
{
	char temporary[96];
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	snprintf(temporary, sizeof(temporary), TEMPORARY "%ld-%lx-%lld.%ld", (long)getpid(),
		 (unsigned long)(uintptr_t)&now, (long long)now.tv_sec, now.tv_nsec);
	const int fd = openat(folder, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return TWRT_FAIL(e, TW_ERR_IO, "cannot write to the cache %s: %s", path, strerror(errno));
	bool good = write_all(fd, image, bytes) && (!sync || fsync(fd) == 0);
	int reason = errno;
	if (close(fd) != 0 && good) {
		good = false;
		reason = errno;
	}
	if (good && renameat(folder, temporary, folder, name) != 0) {
		good = false;
		reason = errno;
	}
	if (good)
		return TW_ERR_OK;
	unlinkat(folder, temporary, 0);
	return TWRT_FAIL(e, TW_ERR_IO, "cannot write to the cache %s: %s", path, strerror(reason));
}

enum tw_code twrt_cache_put(const char *key, const void *image, int64_t bytes, struct tw_error *e)
{
	char path[4096], name[64];
	if (!valid_key(key))
		return TWRT_FAIL(e, TW_ERR_INTERNAL, "\"%.40s\" is no cache key", key);
	const int64_t limit = twrt_cache_limit();
	if (bytes > limit)
		return TW_ERR_OK; /* would push out everything, itself too */
	const int folder = twrt_cache_open(true, path, sizeof(path), e);
	if (folder < 0)
		return TW_ERR_IO;
	entry_name(key, name);
	const enum tw_code code = twrt_cache_write(folder, path, name, image, bytes, true, e);
	evict(folder, limit, code == TW_ERR_OK ? name : "");
	close(folder);
	return code;
}

int64_t twrt_cache_bytes(int *images)
{
	char path[4096];
	struct tw_error e;
	*images = 0;
	const int folder = twrt_cache_open(false, path, sizeof(path), &e);
	if (folder < 0)
		return 0;
	struct listing l;
	list(folder, false, &l);
	close(folder);
	free(l.at);
	*images = l.images;
	return l.bytes;
}

enum tw_code twrt_cache_clear(struct tw_error *e)
{
	char path[4096];
	TWRT_TRY(twrt_cache_dir(path, sizeof(path), e));
	if (access(path, F_OK) != 0 && errno == ENOENT)
		return TW_ERR_OK;
	const int folder = twrt_cache_open(false, path, sizeof(path), e);
	if (folder < 0)
		return TW_ERR_IO;
	struct listing l;
	list(folder, true, &l);
	int failed = 0;
	for (int i = 0; i < l.n; i++)
		failed += unlinkat(folder, l.at[i].name, 0) != 0 && errno != ENOENT;
	free(l.at);
	close(folder);
	if (failed)
		return TWRT_FAIL(e, TW_ERR_IO, "cannot remove %d entries of the cache %s", failed, path);
	return TW_ERR_OK;
}
