/* tempdir: the private folder of one compilation. Created with mode 0700 under TMPDIR (or /tmp), removed with
 * everything in it. Failures name the folder, the cause and what to do. */
#define _GNU_SOURCE
#include "backend/cpu/cpu_int.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PREFIX "tilewright-cc-"

static const char *parent(void)
{
	const char *dir = getenv("TMPDIR");
	return dir && *dir ? dir : "/tmp";
}

static const char *hint(int error)
{
	switch (error) {
	case ENOSPC:
	case EDQUOT:
		return "the disk is full; free some space or set TMPDIR to a folder with room";
	case EACCES:
	case EPERM:
	case EROFS:
		return "the folder cannot be written; set TMPDIR to one that can";
	case ENOENT:
	case ENOTDIR:
		return "there is no such folder; set TMPDIR to one that exists";
	default:
		return "set TMPDIR to a folder that can be written";
	}
}

static enum tw_code failed(struct tw_error *e, const char *what, const char *path, int error)
{
	tw_error_set(e, TW_ERR_TOOLCHAIN, "compiling kernels: %s %.300s: %s\nhint: %s", what, path, strerror(error),
		     hint(error));
	return TW_ERR_TOOLCHAIN;
}

/* Removes a folder and the files in it (compilers make no folders). */
static void remove_folder(const char *path)
{
	DIR *d = opendir(path);
	if (d) {
		struct dirent *entry;
		while ((entry = readdir(d)))
			if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
				unlinkat(dirfd(d), entry->d_name, 0);
		closedir(d);
	}
	rmdir(path);
}

/* Ours, and its lock is free? The lock appears under its name only when it is held; without one, the folder is just
 * being made, or its maker was killed at that very moment, long ago. */
static bool is_left_over(const char *path)
{
	char lock[600];
	struct stat st;
	if (lstat(path, &st) != 0 || !S_ISDIR(st.st_mode) || st.st_uid != geteuid())
		return false;
	snprintf(lock, sizeof lock, "%s/lock", path);
	const int fd = open(lock, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return errno == ENOENT && st.st_mtime < time(NULL) - 3600;
	const bool is_free = flock(fd, LOCK_EX | LOCK_NB) == 0;
	close(fd);
	return is_free;
}

/* Folders of compilations that were killed. */
static void sweep(const char *dir)
{
	DIR *d = opendir(dir);
	struct dirent *entry;
	while (d && (entry = readdir(d))) {
		char path[512];
		if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) != 0)
			continue;
		const int n = snprintf(path, sizeof path, "%s/%s", dir, entry->d_name);
		if (n > 0 && (size_t)n < sizeof path && is_left_over(path))
			remove_folder(path);
	}
	if (d)
		closedir(d);
}

enum tw_code tempdir_make(struct tempdir *t, struct tw_error *e)
{
	const char *dir = parent();
	/* an absolute path, because compilers run inside the folder */
	char here[256] = "";
	t->lock = -1;
	if (dir[0] != '/' && !getcwd(here, sizeof here))
		return failed(e, "cannot tell where is", dir, errno);
	const int n = snprintf(t->path, sizeof t->path, "%s%s%s/" PREFIX "XXXXXX", here, *here ? "/" : "", dir);
	if (n < 0 || (size_t)n >= sizeof t->path) {
		t->path[0] = 0;
		return failed(e, "cannot use", dir, ENAMETOOLONG);
	}
	sweep(dir);
	if (!mkdtemp(t->path)) {
		const int error = errno;
		t->path[0] = 0;
		return failed(e, "cannot make a folder in", dir, error);
	}
	char made[600], lock[600];
	snprintf(made, sizeof made, "%s/lock.new", t->path);
	snprintf(lock, sizeof lock, "%s/lock", t->path);
	t->lock = open(made, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (t->lock < 0 || flock(t->lock, LOCK_EX | LOCK_NB) != 0 || rename(made, lock) != 0) {
		const int error = errno;
		tempdir_remove(t);
		return failed(e, "cannot lock a file in", dir, error);
	}
	return TW_ERR_OK;
}

void tempdir_remove(struct tempdir *t)
{
	if (!t->path[0])
		return;
	remove_folder(t->path);
	if (t->lock >= 0)
		close(t->lock);
	t->lock = -1;
	t->path[0] = 0;
}

static bool full_name(const struct tempdir *t, const char *name, char out[600])
{
	const int n = snprintf(out, 600, "%s/%s", t->path, name);
	return n > 0 && n < 600;
}

static int write_all(int fd, const char *at, size_t n)
{
	while (n > 0) {
		const ssize_t put = write(fd, at, n);
		if (put < 0 && errno == EINTR)
			continue;
		if (put < 0)
			return errno;
		at += put;
		n -= (size_t)put;
	}
	return 0;
}

enum tw_code tempdir_write(const struct tempdir *t, const char *name, const void *at, size_t n, struct tw_error *e)
{
	char path[600];
	if (!full_name(t, name, path))
		return failed(e, "cannot write", name, ENAMETOOLONG);
	const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return failed(e, "cannot write", path, errno);
	int error = write_all(fd, at, n);
	if (close(fd) != 0 && !error)
		error = errno;
	return error ? failed(e, "cannot write", path, error) : TW_ERR_OK;
}

enum tw_code tempdir_read(const struct tempdir *t, const char *name, struct tw_arena *a, void **at, size_t *n,
			  struct tw_error *e)
{
	char path[600];
	if (!full_name(t, name, path))
		return failed(e, "cannot read", name, ENAMETOOLONG);
	const int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	if (fd < 0)
		return failed(e, "cannot read", path, errno);
	if (fstat(fd, &st) != 0 || st.st_size <= 0 || st.st_size > INT32_MAX) {
		close(fd);
		return failed(e, "cannot read", path, EIO);
	}
	const size_t size = (size_t)st.st_size;
	char *bytes = arena_alloc(a, size);
	size_t got = 0;
	int error = 0;
	while (got < size && !error) {
		const ssize_t k = read(fd, bytes + got, size - got);
		if (k > 0)
			got += (size_t)k;
		else if (k == 0)
			error = EIO;
		else if (errno != EINTR)
			error = errno;
	}
	close(fd);
	*at = bytes;
	*n = size;
	return error ? failed(e, "cannot read", path, error) : TW_ERR_OK;
}
