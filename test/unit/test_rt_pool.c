/* The thread pool: every item once, whoever calls, however many at a time. Meant to be run under the thread sanitizer
 * too. */
/* rooms: base rt rt/host */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "rt/rt.h"

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
	twrt_pool_run(p, items, mark, &j);
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
	twrt_pool_run(p, 10, nested_item, p);
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

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(every_item_once), cmocka_unit_test(all_take_part),
					   cmocka_unit_test(several_callers), cmocka_unit_test(nested),
					   cmocka_unit_test(shared)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
