/* The thread pool: shared by all contexts of the process that ask for as many threads.
 *
 * A job is a slot. The caller publishes it, works on it, withdraws it and waits until nobody is inside; workers enter
 * published slots and take runs of items from counters, one for each thread's share: a thread begins with its own, so
 * that from one job or run to the next it meets the same part of the weights in its caches, then helps out in the
 * others'. So any number of callers may run at once: workers spread over their jobs, and each further caller sends one
 * worker to rest, which keeps running threads at the pool's size.
 * Workers without work spin for about 100 us, then sleep on a futex; where there are more threads than this process may
 * have cores, a thread that spins keeps another from its work, so none does. Results cannot depend on who does which item:
 * items are independent.
 * A forked child has none of its parent's threads: contexts that it inherits run on their caller's alone, new ones get a
 * new pool. */
#include "rt_int.h"

#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
	SLOTS = 16,
	MOST_THREADS = 1024,
	MOST_SHARES = 64,
	SPIN_NS = 100 * 1000,
	LONG_SPIN_NS = 2000 * 1000,
	SPINS = 4000
};

struct share { /* of a job's items: those up to `end` that nobody took yet */
	_Alignas(64) atomic_llong next;
	int64_t begin, end;
};

struct slot {
	_Alignas(64) atomic_int taken; /* by a caller */
	atomic_int open;	       /* workers may enter */
	atomic_uint inside;	       /* workers within; the caller waits for 0 */
	void (*fn)(void *arg, int64_t item, int thread);
	void *arg;
	int64_t chunk;
	bool backwards;
	struct share *shares; /* pool->shares of them */
};

struct twrt_pool {
	int threads; /* the caller's included */
	int users;
	struct twrt_pool *next_pool;
	pthread_t *ids;
	int started;
	int shares;
	bool crowded; /* more threads than cores */
	atomic_int quit, callers;
	atomic_int runs;		/* that go on, whether or not they have a job at the moment */
	_Alignas(64) atomic_uint epoch; /* grows with each job */
	_Alignas(64) atomic_int sleepers;
	struct slot slots[SLOTS];
};

struct start {
	struct twrt_pool *pool;
	int worker;
};

static pthread_mutex_t pools_lock = PTHREAD_MUTEX_INITIALIZER;
static struct twrt_pool *pools; /* the process's, one for each thread count in use */
static pthread_once_t forks = PTHREAD_ONCE_INIT;

static void futex_wait(atomic_uint *at, unsigned seen)
{
	syscall(SYS_futex, at, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

static void futex_wake(atomic_uint *at, int n)
{
	syscall(SYS_futex, at, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

static void relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

static int64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static bool work(const struct twrt_pool *p, struct slot *s, int thread) /* true: there was something left to do */
{
	bool found = false;
	for (int k = 0; k < p->shares; k++) {
		struct share *own = &s->shares[(thread + k) % p->shares];
		/* The counter may pass the end by a chunk a thread, no further: each stops at its first miss. */
		while (atomic_load(&own->next) < own->end) {
			const int64_t from = atomic_fetch_add(&own->next, s->chunk);
			const int64_t to = own->end - from < s->chunk ? own->end : from + s->chunk;
			found |= from < to;
			for (int64_t i = from; i < to; i++)
				s->fn(s->arg, s->backwards ? own->begin + own->end - 1 - i : i, thread);
		}
	}
	return found;
}

static bool visit(struct twrt_pool *p, int worker) /* true: did something, or had something to look at */
{
	bool found = false;
	for (int i = 0; i < SLOTS; i++) {
		struct slot *s = &p->slots[i];
		if (!atomic_load(&s->open))
			continue;
		/* Each caller brings a thread of its own: so many workers stay out. */
		if (worker + 1 + atomic_load(&p->callers) > p->threads)
			return false;
		atomic_fetch_add(&s->inside, 1);
		if (atomic_load(&s->open))
			found |= work(p, s, worker + 1);
		if (atomic_fetch_sub(&s->inside, 1) == 1 && !atomic_load(&s->open))
			futex_wake(&s->inside, 1);
	}
	return found;
}

static int64_t patience(struct twrt_pool *p)
{
	return atomic_load(&p->runs) > 0 ? LONG_SPIN_NS : SPIN_NS;
}

static void *worker_main(void *arg)
{
	struct start start = *(struct start *)arg;
	free(arg);
	struct twrt_pool *p = start.pool;
	for (;;) {
		const unsigned seen = atomic_load(&p->epoch);
		if (atomic_load(&p->quit))
			return NULL;
		if (visit(p, start.worker))
			continue;
		bool changed = false;
		const int64_t begun = p->crowded ? 0 : now_ns();
		for (int spins = 0; !changed && begun && (spins % 64 || now_ns() < begun + patience(p)); spins++) {
			relax();
			changed = atomic_load(&p->epoch) != seen;
		}
		if (changed)
			continue;
		atomic_fetch_add(&p->sleepers, 1);
		futex_wait(&p->epoch, seen); /* returns at once when the epoch moved on */
		atomic_fetch_sub(&p->sleepers, 1);
	}
}

static void announce(struct twrt_pool *p, int most)
{
	atomic_fetch_add(&p->epoch, 1);
	if (atomic_load(&p->sleepers) > 0)
		futex_wake(&p->epoch, most);
}

static void leave(struct twrt_pool *p)
{
	/* A worker that rested for this caller's sake may help the others again. */
	if (atomic_fetch_sub(&p->callers, 1) > 1)
		announce(p, 1);
}

static int64_t first_of(const struct twrt_pool *p, int64_t items, int share)
{
	const int64_t each = items / p->shares, rest = items % p->shares;
	return each * share + (share < rest ? share : rest);
}

void twrt_pool_begin(struct twrt_pool *p)
{
	atomic_fetch_add(&p->runs, 1);
}

void twrt_pool_end(struct twrt_pool *p)
{
	atomic_fetch_sub(&p->runs, 1);
}

void twrt_pool_run(struct twrt_pool *p, int64_t items, bool backwards, void (*fn)(void *arg, int64_t item, int thread),
		   void *arg)
{
	struct slot *s = NULL;
	if (items > 1 && p->started > 0)
		for (int i = 0; i < SLOTS && s == NULL; i++) {
			int free_slot = 0;
			if (atomic_compare_exchange_strong(&p->slots[i].taken, &free_slot, 1))
				s = &p->slots[i];
		}
	atomic_fetch_add(&p->callers, 1);
	if (s == NULL) {
		for (int64_t i = 0; i < items; i++)
			fn(arg, backwards ? items - 1 - i : i, 0);
		leave(p);
		return;
	}
	s->fn = fn;
	s->arg = arg;
	s->backwards = backwards;
	s->chunk = items / (4 * (int64_t)p->threads);
	if (s->chunk < 1)
		s->chunk = 1;
	if (s->chunk > 1 << 20)
		s->chunk = 1 << 20;
	for (int k = 0; k < p->shares; k++) {
		s->shares[k].begin = first_of(p, items, k);
		s->shares[k].end = first_of(p, items, k + 1);
		atomic_store(&s->shares[k].next, s->shares[k].begin);
	}
	atomic_store(&s->open, 1);
	announce(p, items - 1 < p->started ? (int)(items - 1) : p->started);
	work(p, s, 0);
	atomic_store(&s->open, 0);
	int spins = 0;
	for (unsigned inside; (inside = atomic_load(&s->inside)) != 0; spins++) {
		if (spins < SPINS && !p->crowded)
			relax();
		else
			futex_wait(&s->inside, inside);
	}
	atomic_store(&s->taken, 0);
	leave(p);
}

static void stop(struct twrt_pool *p)
{
	atomic_store(&p->quit, 1);
	atomic_fetch_add(&p->epoch, 1);
	futex_wake(&p->epoch, MOST_THREADS);
	for (int i = 0; i < p->started; i++)
		pthread_join(p->ids[i], NULL);
	free(p->ids);
	free(p->slots[0].shares);
	free(p);
}

static struct twrt_pool *start(int threads)
{
	struct twrt_pool *p = NULL;
	if (posix_memalign((void **)&p, _Alignof(struct twrt_pool), sizeof(*p)) != 0)
		return NULL;
	memset(p, 0, sizeof(*p));
	p->threads = threads;
	p->crowded = threads > twrt_cpus();
	p->shares = threads < MOST_SHARES ? threads : MOST_SHARES;
	p->ids = calloc((size_t)threads, sizeof(*p->ids));
	struct share *shares = NULL;
	const size_t bytes = (size_t)(SLOTS * p->shares) * sizeof(*shares);
	if (posix_memalign((void **)&shares, _Alignof(struct share), bytes) != 0) {
		free(p->ids);
		free(p);
		return NULL;
	}
	memset(shares, 0, bytes);
	for (int i = 0; i < SLOTS; i++)
		p->slots[i].shares = shares + (ptrdiff_t)i * p->shares;
	/* Fewer threads than wished for is slower, not wrong: the caller does what nobody else does. */
	for (int i = 0; p->ids && i < threads - 1; i++) {
		struct start *s = malloc(sizeof(*s));
		if (s == NULL)
			break;
		*s = (struct start){p, i};
		if (pthread_create(&p->ids[i], NULL, worker_main, s) != 0) {
			free(s);
			break;
		}
		p->started++;
	}
	return p;
}

static void before_fork(void)
{
	pthread_mutex_lock(&pools_lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&pools_lock);
}

/* Nobody else is here, whatever the counters say. */
static void in_child(void)
{
	for (struct twrt_pool *p = pools; p; p = p->next_pool) {
		p->started = 0;
		atomic_store(&p->callers, 0);
		for (int i = 0; i < SLOTS; i++) {
			atomic_store(&p->slots[i].taken, 0);
			atomic_store(&p->slots[i].open, 0);
			atomic_store(&p->slots[i].inside, 0);
		}
	}
	pools = NULL;
	pthread_mutex_unlock(&pools_lock);
}

static void heed_forks(void)
{
	pthread_atfork(before_fork, after_fork, in_child); /* without memory for it, forked children may wait in vain */
}

struct twrt_pool *twrt_pool_get(int threads)
{
	pthread_once(&forks, heed_forks);
	if (threads <= 0)
		threads = twrt_cpus();
	if (threads > MOST_THREADS)
		threads = MOST_THREADS;
	pthread_mutex_lock(&pools_lock);
	struct twrt_pool *p = pools;
	while (p && p->threads != threads)
		p = p->next_pool;
	if (p == NULL && (p = start(threads)) != NULL) {
		p->next_pool = pools;
		pools = p;
	}
	if (p)
		p->users++;
	pthread_mutex_unlock(&pools_lock);
	return p;
}

void twrt_pool_put(struct twrt_pool *p)
{
	if (p == NULL)
		return;
	pthread_mutex_lock(&pools_lock);
	const bool last = --p->users == 0;
	if (last) {
		struct twrt_pool **at = &pools;
		while (*at && *at != p)
			at = &(*at)->next_pool;
		if (*at) /* else it is from before a fork */
			*at = p->next_pool;
	}
	pthread_mutex_unlock(&pools_lock);
	if (last)
		stop(p);
}

int twrt_pool_threads(const struct twrt_pool *p)
{
	return p->threads;
}
