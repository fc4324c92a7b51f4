/* The thread pool: every item once, whoever calls, however many at a time. Meant to be run under the thread sanitizer
 * too. */
/* rooms: base rt rt/host */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include <sys/wait.h>
#include <unistd.h>

#include "rt/rt.h"

#ifdef __SANITIZE_THREAD__
static const bool start_in_child = false; /* the sanitizer cannot follow threads of a forked child */
#else
static const bool start_in_child = true;
#endif

struct job {
	int64_t items;
	int threads;
	unsigned char *done; /* each written by one item alone: the sanitizer sees a second writer */
	atomic_int wrong;
	atomic_uint seen; /* threads, as bits */
	int sleep_us;
};

static void mark(void *arg, int64_t item, int thread)
{
	struct job *j = arg;
	if (item < 0 || item >= j->items || thread < 0 || thread >= j->threads)
		atomic_store(&j->wrong, 1);
	else
		j->done[item]++;
	atomic_fetch_or(&j->seen, 1u << (thread & 31));
	if (j->sleep_us)
		nanosleep(&(struct timespec){.tv_nsec = j->sleep_us * 1000}, NULL);
}

static void run(struct twrt_pool *p, int64_t items, int sleep_us, unsigned *seen)
{
	struct job j = {.items = items, .threads = twrt_pool_threads(p), .sleep_us = sleep_us};
	j.done = calloc((size_t)items + 1, 1);
	twrt_pool_run(p, items, items % 2, mark, &j);
	for (int64_t i = 0; i < items; i++)
		if (j.done[i] != 1)
			fail_msg("item %d ran %d times", (int)i, j.done[i]);
	assert_int_equal(j.wrong, 0);
	if (seen)
		*seen |= j.seen;
	free(j.done);
}

static void every_item_once(void **state)
{
	(void)state;
	for (int threads = 1; threads <= 5; threads++) {
		struct twrt_pool *p = twrt_pool_get(threads);
		assert_int_equal(twrt_pool_threads(p), threads);
		for (int64_t items = 0; items < 70; items++)
			run(p, items, 0, NULL);
		run(p, 100003, 0, NULL);
		twrt_pool_put(p);
	}
}

static void all_take_part(void **state)
{
	(void)state;
	struct twrt_pool *p = twrt_pool_get(4);
	unsigned seen = 0;
	for (int i = 0; i < 50 && seen != 15; i++)
		run(p, 40, 300, &seen);
	assert_int_equal(seen, 15);
	/* asleep, then woken again */
	nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
	seen = 0;
	for (int i = 0; i < 50 && seen != 15; i++)
		run(p, 40, 300, &seen);
	assert_int_equal(seen, 15);
	twrt_pool_put(p);
}

static void *caller(void *arg)
{
	struct twrt_pool *p = twrt_pool_get(3);
	for (int i = 0; i < 300; i++)
		run(p, (i * 7 + (intptr_t)arg) % 90, i % 50 == 0 ? 50 : 0, NULL);
	twrt_pool_put(p);
	return NULL;
}

static void several_callers(void **state)
{
	(void)state;
	for (int round = 0; round < 3; round++) { /* the pool comes and goes */
		pthread_t ids[6];
		for (intptr_t i = 0; i < 6; i++)
			assert_int_equal(pthread_create(&ids[i], NULL, caller, (void *)i), 0);
		for (int i = 0; i < 6; i++)
			pthread_join(ids[i], NULL);
	}
}

static void nested_item(void *arg, int64_t item, int thread)
{
	(void)thread, (void)item;
	run(arg, 20, 0, NULL);
}

static void nested(void **state)
{
	(void)state;
	struct twrt_pool *p = twrt_pool_get(3);
	twrt_pool_run(p, 10, false, nested_item, p);
	twrt_pool_put(p);
}

static void shared(void **state)
{
	(void)state;
	struct twrt_pool *a = twrt_pool_get(2), *b = twrt_pool_get(2), *c = twrt_pool_get(3), *d = twrt_pool_get(0);
	assert_ptr_equal(a, b);
	assert_ptr_not_equal(a, c);
	assert_int_equal(twrt_pool_threads(d), twrt_cpus());
	twrt_pool_put(a);
	run(b, 50, 0, NULL);
	twrt_pool_put(b);
	twrt_pool_put(c);
	twrt_pool_put(d);
	twrt_pool_put(NULL);
}

/* Busy while the parent forks. */
static void *busy(void *arg)
{
	struct twrt_pool *p = twrt_pool_get(3);
	for (int i = 0; i < 200; i++)
		run(p, 60, 20, NULL);
	twrt_pool_put(p);
	return arg;
}

/* A child inherits pools without their threads: it can use them, let them go, and get new ones. */
static void forked_child(void **state)
{
	(void)state;
	struct twrt_pool *mine = twrt_pool_get(2), *busy_one = twrt_pool_get(3);
	run(mine, 100, 0, NULL);
	pthread_t other;
	assert_int_equal(pthread_create(&other, NULL, busy, NULL), 0);
	nanosleep(&(struct timespec){.tv_nsec = 3000000}, NULL);
	const pid_t child = fork();
	if (child == 0) {
		alarm(20); /* rather than wait for threads that are not there */
		run(mine, 1000, 0, NULL);
		run(busy_one, 1000, 0, NULL);
		twrt_pool_put(mine);
		unsigned seen = start_in_child ? 0 : 7;
		struct twrt_pool *own = start_in_child ? twrt_pool_get(3) : NULL;
		for (int i = 0; i < 50 && seen != 7; i++)
			run(own, 40, 300, &seen);
		twrt_pool_put(own);
		_exit(seen != 7);
	}
	int status = -1;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	pthread_join(other, NULL);
	run(mine, 1000, 0, NULL);
	twrt_pool_put(mine);
	twrt_pool_put(busy_one);
}

/* Fewer processors while the program runs: what 0 means follows, and threads that are too many still do all of the work. */
static void fewer_processors(void **state)
{
	(void)state;
	cpu_set_t before, one;
	assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
	int cpu = 0;
	while (!CPU_ISSET(cpu, &before))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	struct twrt_pool *wide = twrt_pool_get(2);
	const int cpus = twrt_cpus();
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	assert_int_equal(twrt_cpus(), 1);
	struct twrt_pool *usual = twrt_pool_get(0),
			 *crowded = twrt_pool_get(4); /* its threads share the one processor */
	assert_int_equal(twrt_pool_threads(usual), 1);
	run(usual, 1000, 0, NULL);
	run(wide, 1000, 0, NULL);
	unsigned seen = 0;
	for (int i = 0; i < 50 && seen != 15; i++)
		run(crowded, 40, 300, &seen);
	assert_int_equal(seen, 15);
	assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
	assert_int_equal(twrt_cpus(), cpus);
	twrt_pool_put(usual);
	twrt_pool_put(crowded);
	twrt_pool_put(wide);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(every_item_once), cmocka_unit_test(all_take_part),
					   cmocka_unit_test(several_callers), cmocka_unit_test(nested),
					   cmocka_unit_test(shared),	      cmocka_unit_test(forked_child),
					   cmocka_unit_test(fewer_processors)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
