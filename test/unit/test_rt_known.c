/* What is known of files: kept under what the system says of a file, forgotten when that changes, never kept of a file that may still change
 * unseen; broken records are none; killed and racing writers leave whole ones. And the hash of much memory. */
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
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rt/rt_int.h"

static struct tw_error error;
static char folder[] = "/tmp/tilewright-test-XXXXXX";
static char source[100], cache[100];

static int start(void **state)
{
	(void)state;
	if (mkdtemp(folder) == NULL)
		return 1;
	snprintf(source, sizeof(source), "%s/model", folder);
	snprintf(cache, sizeof(cache), "%s/cache", folder);
	return setenv("TILEWRIGHT_CACHE", cache, 1);
}

static int end(void **state)
{
	(void)state;
	char command[128];
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	return system(command);
}

static int empty(void **state)
{
	(void)state;
	unsetenv("TILEWRIGHT_CACHE_SIZE");
	return twrt_cache_clear(&error) == TW_ERR_OK ? 0 : 1;
}

static void write_source(const char *text)
{
	FILE *f = fopen(source, "r+");
	if (f == NULL)
		f = fopen(source, "w");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

/* As if it had been looked at so many seconds from now. */
static struct twrt_file look(int later)
{
	struct twrt_file f = {.path = source};
	assert_int_equal(stat(source, &f.st), 0);
	clock_gettime(CLOCK_REALTIME, &f.looked);
	f.looked.tv_sec += later;
	return f;
}

static bool known(const char *text)
{
	const struct twrt_file f = look(0);
	char got[100];
	if (!twrt_known_get(&f.st, got, sizeof(got)))
		return false;
	assert_string_equal(got, text);
	return true;
}

/* The one record there is. */
static void record_path(char path[400])
{
	DIR *d = opendir(cache);
	int n = 0;
	assert_non_null(d);
	for (struct dirent *x; (x = readdir(d)) != NULL;)
		if (strstr(x->d_name, TWRT_KNOWN_SUFFIX)) {
			snprintf(path, 400, "%s/%.200s", cache, x->d_name);
			n++;
		}
	closedir(d);
	assert_int_equal(n, 1);
}

static void put_and_get(void **state)
{
	(void)state;
	write_source("one");
	assert_false(known(""));
	struct twrt_file f = look(10);
	twrt_known_put(&f, "1234\ndata w.bin\n");
	assert_true(known("1234\ndata w.bin\n"));
	twrt_known_put(&f, "");
	assert_true(known(""));
	char small[4], path[400];
	twrt_known_put(&f, "1234");
	assert_false(twrt_known_get(&f.st, small, sizeof(small))); /* no room for it */
	int images;
	assert_true(twrt_cache_bytes(&images) > 0); /* it counts, but is no model */
	assert_int_equal(images, 0);
	record_path(path);
	assert_int_equal(twrt_cache_clear(&error), TW_ERR_OK);
	assert_int_not_equal(access(path, F_OK), 0);
	assert_false(known("1234"));
	setenv("TILEWRIGHT_CACHE_SIZE", "10", 1);
	twrt_known_put(&f, "1234");
	assert_false(known("1234"));
}

static void changed_files(void **state)
{
	(void)state;
	write_source("one");
	const struct twrt_file f = look(10);
	twrt_known_put(&f, "1");
	assert_true(known("1"));
	/* in place, of the same size, with the times of content set back: the time of the state tells */
	usleep(20000);
	write_source("two");
	assert_int_equal(utimensat(AT_FDCWD, source, (const struct timespec[]){f.st.st_atim, f.st.st_mtim}, 0), 0);
	const struct twrt_file g = look(10);
	assert_int_equal(g.st.st_mtim.tv_nsec, f.st.st_mtim.tv_nsec);
	assert_false(known("1"));
	/* changed while it was read: what was found is of neither */
	twrt_known_put(&f, "1");
	assert_false(known("1"));
	/* another file under the same path */
	twrt_known_put(&g, "2");
	assert_true(known("2"));
	assert_int_equal(unlink(source), 0);
	twrt_known_put(&g, "2");
	write_source("two");
	assert_false(known("2"));
}

static void recent_files(void **state)
{
	(void)state;
	write_source("one");
	struct twrt_file f = look(0);
	twrt_known_put(&f, "1"); /* a change right now might leave its times as they are */
	assert_false(known("1"));
	f.looked.tv_sec += 2;
	twrt_known_put(&f, "1");
	assert_false(known("1"));
	/* old content, recent state: nobody knows when its times were set */
	assert_int_equal(utimensat(AT_FDCWD, source, (const struct timespec[]){{1000, 0}, {1000, 0}}, 0), 0);
	f = look(0);
	twrt_known_put(&f, "1");
	assert_false(known("1"));
	f = look(10);
	twrt_known_put(&f, "1");
	assert_true(known("1"));
	/* from the future */
	assert_int_equal(utimensat(AT_FDCWD, source, (const struct timespec[]){{1000, 0}, {f.looked.tv_sec + 5, 0}}, 0),
			 0);
	f = look(10);
	f.looked.tv_sec -= 4;
	twrt_known_put(&f, "1");
	assert_false(known("1"));
}

static void broken_records(void **state)
{
	(void)state;
	char path[400], record[1000];
	write_source("one");
	const struct twrt_file f = look(10);
	twrt_known_put(&f, "1234");
	record_path(path);
	int fd = open(path, O_RDWR);
	const ssize_t n = read(fd, record, sizeof(record));
	assert_in_range(n, 20, 999);
	for (ssize_t i = 0; i < n; i++) { /* no byte of it may be another */
		const char wrong = (char)(record[i] ^ 1);
		assert_int_equal(pwrite(fd, &wrong, 1, i), 1);
		assert_false(known("1234"));
		assert_int_equal(pwrite(fd, &record[i], 1, i), 1);
	}
	assert_true(known("1234"));
	for (ssize_t i = n - 1; i >= 0; i--) {
		assert_int_equal(ftruncate(fd, i), 0);
		assert_false(known("1234"));
	}
	close(fd);
	twrt_known_put(&f, "1234"); /* put right */
	assert_true(known("1234"));
	assert_int_equal(chmod(path, 0666), 0);
	assert_false(known("1234")); /* anyone could have written it */
	assert_int_equal(chmod(path, 0600), 0);
	assert_int_equal(chmod(cache, 0777), 0);
	assert_false(known("1234"));
	assert_int_equal(chmod(cache, 0700), 0);
	assert_true(known("1234"));
	char *much = calloc(1, 1 << 20); /* more than a record holds is not kept, nor cut */
	memset(much, 'x', (1 << 20) - 1);
	empty(NULL);
	twrt_known_put(&f, much);
	assert_false(twrt_known_get(&f.st, much, 1 << 20));
	free(much);
}

static void racing_and_killed_writers(void **state)
{
	(void)state;
	write_source("one");
	const struct twrt_file f = look(10);
	for (int round = 0; round < 20; round++) {
		pid_t pids[2];
		for (int k = 0; k < 2; k++) {
			pids[k] = fork();
			assert_true(pids[k] >= 0);
			while (pids[k] == 0)
				twrt_known_put(&f, "1234");
		}
		while (!known("1234")) /* soon there, and whole ever after */
			usleep(100);
		for (int i = 0; i < 20; i++)
			assert_true(known("1234"));
		for (int k = 0; k < 2; k++) {
			int status;
			assert_int_equal(waitpid(pids[k], &status, WNOHANG), 0);
			kill(pids[k], SIGKILL);
			waitpid(pids[k], &status, 0);
		}
		assert_true(known("1234"));
	}
}

/* By pieces of 1 MiB, in rounds of 1024: one that is a little longer than a round tells whether all of them count. */
static void digest(void **state)
{
	(void)state;
	const int64_t piece = 1 << 20, sizes[] = {0, 1, piece, 3 * piece + 5, 1024 * piece, 1024 * piece + 1};
	char first[33], again[33];
	for (int i = 0; i < TW_COUNT(sizes); i++) {
		/* never written: all pages are one page of zeros */
		char *at = mmap(NULL, (size_t)sizes[i] + 1, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		assert_true(at != MAP_FAILED);
		madvise(at, (size_t)sizes[i] + 1, MADV_NOHUGEPAGE);
		twrt_digest(at, sizes[i], true, first);
		assert_int_equal(strlen(first), 32);
		const int64_t places[] = {0, sizes[i] / 2, sizes[i] - 1};
		for (int k = 0; k < TW_COUNT(places) && sizes[i] > 0 && (sizes[i] < 5 * piece || k == 2); k++) {
			at[places[k]] = 1;
			twrt_digest(at, sizes[i], false, again);
			assert_string_not_equal(first, again);
			at[places[k]] = 0;
		}
		at[sizes[i]] = 1; /* behind it */
		twrt_digest(at, sizes[i], false, again);
		assert_string_equal(first, again);
		munmap(at, (size_t)sizes[i] + 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test_setup(put_and_get, empty),
					   cmocka_unit_test_setup(changed_files, empty),
					   cmocka_unit_test_setup(recent_files, empty),
					   cmocka_unit_test_setup(broken_records, empty),
					   cmocka_unit_test_setup(racing_and_killed_writers, empty),
					   cmocka_unit_test(digest)};
	return cmocka_run_group_tests(tests, start, end);
}
