/* The cache of bundles: bounded, whole entries only, refused when foreign, usable after a kill at any moment, shared
 * by processes. */
/* rooms: base rt rt/host */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <utime.h>

#include "rt/rt_int.h"
#include "rt_build.h"

static struct tw_error error;
static char folder[] = "/tmp/tilewright-test-XXXXXX";
static void *image;
static int64_t bytes;

enum { M = 4096 };

static int start(void **state)
{
	(void)state;
	static float bias[M];
	struct twrt_plan p;
	rt_example(&p, bias, M);
	const struct twrt_code code = rt_kernels();
	if (mkdtemp(folder) == NULL || twrt_image_write(&p, 1, &code, NULL, NULL, &image, &bytes, &error) != TW_ERR_OK)
		return 1;
	setenv("TILEWRIGHT_CACHE", folder, 1);
	return 0;
}

static int end(void **state)
{
	(void)state;
	char command[128];
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	free(image);
	return system(command);
}

static int empty(void **state)
{
	(void)state;
	unsetenv("TILEWRIGHT_CACHE_SIZE");
	return twrt_cache_clear(&error) == TW_ERR_OK ? 0 : 1;
}

static const char *key_of(int i)
{
	static char key[33];
	snprintf(key, sizeof(key), "%032x", i);
	return key;
}

static void path_of(int i, char path[128])
{
	snprintf(path, 128, "%s/%s.twb", folder, key_of(i));
}

static void put(int i)
{
	if (twrt_cache_put(key_of(i), image, bytes, &error) != TW_ERR_OK)
		fail_msg("%s", error.text);
}

static bool have(int i)
{
	struct twrt_model *m;
	if (!twrt_cache_get(key_of(i), &m))
		return false;
	assert_string_equal(twrt_model_plan(m)->symbols[0], "n");
	twrt_model_close(m);
	return true;
}

static int count_files(const char *prefix)
{
	DIR *d = opendir(folder);
	int n = 0;
	for (struct dirent *x; (x = readdir(d)) != NULL;)
		n += strncmp(x->d_name, prefix, strlen(prefix)) == 0 && strcmp(x->d_name, ".") != 0 &&
		     strcmp(x->d_name, "..") != 0;
	closedir(d);
	return n;
}

static void put_and_get(void **state)
{
	(void)state;
	int n;
	assert_false(have(1));
	put(1);
	put(1);
	assert_true(have(1));
	assert_false(have(2));
	assert_int_equal(twrt_cache_bytes(&n), bytes);
	assert_int_equal(n, 1);
	static const char *const wrong[] = {"", "../../../../../../../etc/passwd", "0000000000000000000000000000000g",
					    "00", "/0000000000000000000000000000000"};
	struct twrt_model *m;
	for (int i = 0; i < TW_COUNT(wrong); i++) {
		assert_false(twrt_cache_get(wrong[i], &m));
		assert_int_equal(twrt_cache_put(wrong[i], image, bytes, &error), TW_ERR_INTERNAL);
	}
	assert_int_equal(twrt_cache_clear(&error), TW_ERR_OK);
	assert_false(have(1));
}

static void damaged_entries(void **state)
{
	(void)state;
	char path[128];
	put(3);
	path_of(3, path);
	assert_int_equal(truncate(path, bytes - 1), 0);
	assert_false(have(3));
	assert_int_not_equal(access(path, F_OK), 0); /* out of the way */
	put(3);
	const int fd = open(path, O_WRONLY);
	assert_int_equal(pwrite(fd, "x", 1, bytes / 2), 1);
	close(fd);
	assert_false(have(3));
	put(3);
	assert_true(have(3));
	assert_int_equal(truncate(path, 0), 0);
	assert_false(have(3));
}

static void foreign(void **state)
{
	(void)state;
	char path[128], other[128];
	put(4);
	path_of(4, path);
	assert_int_equal(chmod(path, 0666), 0);
	assert_false(have(4)); /* anyone could have written it */
	assert_int_equal(chmod(path, 0600), 0);
	assert_true(have(4));
	path_of(5, other);
	assert_int_equal(symlink(path, other), 0);
	assert_false(have(5));
	unlink(other);
	assert_int_equal(chmod(folder, 0777), 0);
	assert_false(have(4));
	assert_int_equal(twrt_cache_put(key_of(6), image, bytes, &error), TW_ERR_IO);
	assert_non_null(strstr(error.text, "others may write"));
	assert_int_equal(chmod(folder, 0700), 0);
	assert_true(have(4));
	if (geteuid() == 0) {
		assert_int_equal(chown(path, 12345, 12345), 0);
		assert_false(have(4));
		assert_int_equal(chown(path, 0, 0), 0);
		assert_int_equal(chown(folder, 12345, 12345), 0);
		assert_false(have(4));
		assert_int_equal(twrt_cache_put(key_of(6), image, bytes, &error), TW_ERR_IO);
		assert_non_null(strstr(error.text, "another user"));
		assert_int_equal(chown(folder, 0, 0), 0);
	}
}

static void bounded(void **state)
{
	(void)state;
	char limit[32], path[128];
	int n;
	snprintf(limit, sizeof(limit), "%lld", (long long)(3 * bytes + 10));
	for (int i = 10; i < 13; i++) {
		put(i);
		path_of(i, path);
		const struct utimbuf old = {i, i}; /* long ago, one after another */
		assert_int_equal(utime(path, &old), 0);
	}
	assert_true(have(10)); /* used again: now 11 is the oldest */
	setenv("TILEWRIGHT_CACHE_SIZE", limit, 1);
	put(13);
	assert_in_range(twrt_cache_bytes(&n), 0, 3 * bytes + 10);
	assert_int_equal(n, 3);
	assert_true(have(10));
	assert_false(have(11));
	assert_true(have(12));
	assert_true(have(13));
	setenv("TILEWRIGHT_CACHE_SIZE", "1k", 1);
	put(14); /* larger than the whole cache may be: not kept, no error */
	assert_false(have(14));
	setenv("TILEWRIGHT_CACHE_SIZE", "much", 1); /* not a size: the usual one */
	put(14);
	assert_true(have(14));
}

static void full_disk(void **state)
{
	(void)state;
	/* A limit on the size of files acts as a full disk does. */
	const pid_t pid = fork();
	if (pid == 0) {
		signal(SIGXFSZ, SIG_IGN);
		struct tw_error e;
		if (setrlimit(RLIMIT_FSIZE, &(struct rlimit){4096, 4096}) != 0)
			_exit(8);
		const enum tw_code code = twrt_cache_put(key_of(20), image, bytes, &e);
		_exit(code == TW_ERR_IO && strstr(e.text, "cannot write") ? 0 : 1);
	}
	int status;
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
	assert_false(have(20));
	assert_int_equal(count_files(".part-"), 0);
}

static void killed_at_any_moment(void **state)
{
	(void)state;
	uint64_t seed = 5;
	put(30);
	for (int round = 0; round < 60; round++) {
		const pid_t pid = fork();
		assert_true(pid >= 0);
		if (pid == 0) {
			struct tw_error e;
			for (int i = 0;; i++)
				if (twrt_cache_put(key_of(30 + i % 3), image, bytes, &e) != TW_ERR_OK)
					_exit(1);
		}
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		nanosleep(&(struct timespec){.tv_nsec = (long)(seed >> 40) % 4000000}, NULL);
		int status;
		assert_int_equal(waitpid(pid, &status, WNOHANG), 0); /* it did not end by itself */
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
		assert_true(have(30));
		char path[128];
		for (int i = 31; i < 33; i++) { /* whole or absent, never broken */
			path_of(i, path);
			const bool there = access(path, F_OK) == 0;
			assert_int_equal(have(i), there);
		}
		put(31);
	}
	/* What the dead left behind goes away once it is old. */
	const int left = count_files(".part-");
	DIR *d = opendir(folder);
	for (struct dirent *x; (x = readdir(d)) != NULL;)
		if (strncmp(x->d_name, ".part-", 6) == 0) {
			char path[512];
			snprintf(path, sizeof(path), "%s/%.200s", folder, x->d_name);
			const struct utimbuf old = {1000, 1000};
			assert_int_equal(utime(path, &old), 0);
		}
	closedir(d);
	put(30);
	assert_int_equal(count_files(".part-"), 0);
	assert_true(left >= 0);
}

static void several_processes(void **state)
{
	(void)state;
	char limit[32];
	snprintf(limit, sizeof(limit), "%lld", (long long)(4 * bytes));
	setenv("TILEWRIGHT_CACHE_SIZE", limit, 1);
	pid_t pids[4];
	for (int k = 0; k < 4; k++) {
		pids[k] = fork();
		if (pids[k] != 0)
			continue;
		struct tw_error e;
		int broken = 0;
		for (int i = 0; i < 60; i++) {
			const int key = 40 + (i * (k + 3)) % 7;
			struct twrt_model *m;
			if (twrt_cache_get(key_of(key), &m)) {
				broken += strcmp(twrt_model_plan(m)->symbols[0], "n") != 0;
				twrt_model_close(m);
			} else {
				broken += twrt_cache_put(key_of(key), image, bytes, &e) != TW_ERR_OK;
			}
		}
		_exit(broken ? 1 : 0);
	}
	for (int k = 0; k < 4; k++) {
		int status;
		waitpid(pids[k], &status, 0);
		assert_int_equal(status, 0);
	}
	put(50);
	int n;
	assert_in_range(twrt_cache_bytes(&n), 1, 4 * bytes);
}

static void places(void **state)
{
	(void)state;
	char path[4096], inner[128];
	unsetenv("TILEWRIGHT_CACHE");
	setenv("XDG_CACHE_HOME", "/x/y", 1);
	setenv("HOME", "/h", 1);
	assert_int_equal(twrt_cache_dir(path, sizeof(path), &error), TW_ERR_OK);
	assert_string_equal(path, "/x/y/tilewright");
	setenv("XDG_CACHE_HOME", "relative", 1);
	assert_int_equal(twrt_cache_dir(path, sizeof(path), &error), TW_ERR_OK);
	assert_string_equal(path, "/h/.cache/tilewright");
	unsetenv("XDG_CACHE_HOME");
	unsetenv("HOME");
	assert_int_equal(twrt_cache_dir(path, sizeof(path), &error), TW_ERR_IO);
	struct twrt_model *m;
	assert_false(twrt_cache_get(key_of(1), &m));
	/* folders are made as needed, for us alone */
	snprintf(inner, sizeof(inner), "%s/a/b/c", folder);
	setenv("TILEWRIGHT_CACHE", inner, 1);
	put(1);
	assert_true(have(1));
	struct stat st;
	assert_int_equal(stat(inner, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	setenv("TILEWRIGHT_CACHE", "/dev/null/x", 1);
	assert_int_equal(twrt_cache_put(key_of(1), image, bytes, &error), TW_ERR_IO);
	setenv("TILEWRIGHT_CACHE", folder, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(put_and_get, empty),	  cmocka_unit_test_setup(damaged_entries, empty),
		cmocka_unit_test_setup(foreign, empty),		  cmocka_unit_test_setup(bounded, empty),
		cmocka_unit_test_setup(full_disk, empty),	  cmocka_unit_test_setup(killed_at_any_moment, empty),
		cmocka_unit_test_setup(several_processes, empty), cmocka_unit_test_setup(places, empty)};
	return cmocka_run_group_tests(tests, start, end);
}
