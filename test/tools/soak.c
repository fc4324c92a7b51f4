/* A model as a long-running program uses it: other sizes in each run, several contexts in several threads.
 *
 * Usage: soak MODEL [-d SYMBOL=LOW..HIGH[/STEP]].. [--runs N] [--contexts N] [--threads N] [--integers N] [--churn MS]
 * -d SYMBOL=OTHER: the same size as OTHER, which was given before. --churn 0: without the third check.
 *
 * Three checks, each a line and a test of the last line, "N passed, N failed":
 *   shapes    N runs of sizes drawn at random, after the largest and as many as plans are kept for, need no more memory:
 *             neither resident nor of intermediate results;
 *   contexts  the same in several contexts at once, a thread each; each result has the bytes that one context on one thread gave;
 *   churn     while two contexts run and are compared so, others are made, run, cancelled, given inputs that are refused, and freed.
 * Inputs are functions of sizes: floats in [-1, 1), integers in [0, --integers), bools. Results with a NaN compare like others.
 * Only the public interface is used. Meant to be run under the sanitizers too; memory is not looked at there. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tilewright.h"

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
static const bool memory_is_plain = false; /* sanitizers keep books of their own */
#else
static const bool memory_is_plain = true;
#endif

enum { MOST_SYMBOLS = 16, MOST_INPUTS = 32, MOST_CONTEXTS = 16, KNOWN = 12, WARM = 40, SLACK_KB = 1024 };

struct range {
	const char *symbol;
	long long low, high, step;
	int draw; /* symbols of one draw have one value */
};

struct soak {
	tilewright_model *model;
	int nranges, runs, contexts, threads, integers;
	struct range ranges[MOST_SYMBOLS];
	int churn_ms;
	uint64_t known[KNOWN]; /* hashes of the results of the first sizes, from one context on one thread */
	atomic_int wrong, stop;
};

/* One context, the memory of its inputs, and what it did. */
struct runner {
	struct soak *s;
	tilewright_context *c;
	void *data[MOST_INPUTS];
	size_t have[MOST_INPUTS];
	pthread_t thread;
	int number;
	long long done;
};

static uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

static void complain(struct soak *s, const char *what)
{
	if (atomic_fetch_add(&s->wrong, 1) < 5)
		fprintf(stderr, "%s: %s\n", what, tilewright_last_error());
}

/* The value of a symbol in the k-th set of sizes; set 0 is the largest. */
static long long value_of(const struct range *r, int k)
{
	const long long n = (r->high - r->low) / r->step + 1;
	return k == 0 ? r->low + (n - 1) * r->step
		      : r->low + (long long)(mix((uint64_t)k * 31 + (uint64_t)r->draw) % (uint64_t)n) * r->step;
}

static int64_t size_of(const struct soak *s, const tilewright_port *p, int d, int k)
{
	if (p->dims[d] >= 0)
		return p->dims[d];
	for (int i = 0; i < s->nranges; i++)
		if (strcmp(s->ranges[i].symbol, p->dim_text[d]) == 0)
			return value_of(&s->ranges[i], k);
	fprintf(stderr, "input %s: give -d %s=LOW..HIGH\n", p->name, p->dim_text[d]);
	exit(2);
}

static void fill(const struct soak *s, tilewright_type type, void *data, int64_t n, uint64_t seed)
{
	const int bytes = tilewright_type_bytes(type);
	for (int64_t i = 0; i < n; i++) {
		const uint64_t x = mix(seed + (uint64_t)i);
		const int64_t whole = type == TILEWRIGHT_BOOL ? (int64_t)(x & 1) : (int64_t)(x % (uint64_t)s->integers);
		const float f = (float)(x >> 40) / (float)(1 << 23) - 1.0f;
		const double wide = f;
		const void *from = type == TILEWRIGHT_F32   ? (const void *)&f
				   : type == TILEWRIGHT_F64 ? (const void *)&wide
							    : &whole;
		memcpy((char *)data + i * bytes, from, (size_t)bytes); /* little-endian integers begin with what fits */
	}
}

static tilewright_status give(struct runner *r, int k)
{
	const struct soak *s = r->s;
	for (int i = 0; i < tilewright_count_inputs(s->model); i++) {
		const tilewright_port *p = tilewright_get_input_port(s->model, i);
		int64_t dims[TILEWRIGHT_MAX_RANK], n = 1;
		for (int d = 0; d < p->rank; d++)
			n *= dims[d] = size_of(s, p, d, k);
		const size_t bytes = (size_t)n * (size_t)tilewright_type_bytes(p->type);
		if (bytes > r->have[i] || !r->data[i]) {
			free(r->data[i]);
			r->data[i] = malloc(r->have[i] = bytes + 1);
			if (!r->data[i])
				exit(3);
		}
		fill(s, p->type, r->data[i], n, (uint64_t)k << 32 | (uint64_t)i << 28);
		const tilewright_status status = tilewright_set_input(r->c, i, p->type, p->rank, dims, r->data[i]);
		if (status)
			return status;
	}
	return TILEWRIGHT_OK;
}

static uint64_t hash_results(struct runner *r)
{
	uint64_t h = 0;
	for (int i = 0; i < tilewright_count_outputs(r->s->model); i++) {
		tilewright_tensor t;
		if (tilewright_get_output(r->c, i, &t))
			return 0;
		for (int d = 0; d < t.rank; d++)
			h = mix(h ^ (uint64_t)t.dims[d]);
		for (size_t b = 0; b < t.bytes; b++)
			h = (h ^ ((const unsigned char *)t.data)[b]) * 1099511628211u;
	}
	return mix(h) | 1;
}

/* One run at the k-th set of sizes; a known result is compared. */
static bool run(struct runner *r, int k)
{
	if (give(r, k) || tilewright_run(r->c)) {
		complain(r->s, "run");
		return false;
	}
	r->done++;
	if (k < KNOWN && r->s->known[k] && hash_results(r) != r->s->known[k]) {
		fprintf(stderr, "context %d: another result at sizes %d\n", r->number, k);
		atomic_fetch_add(&r->s->wrong, 1);
		return false;
	}
	return true;
}

static bool open_runner(struct runner *r, struct soak *s, int number, int threads)
{
	*r = (struct runner){.s = s, .number = number};
	if (tilewright_create_context(s->model, threads, &r->c) == TILEWRIGHT_OK)
		return true;
	complain(s, "context");
	return false;
}

static void close_runner(struct runner *r)
{
	tilewright_free_context(r->c);
	for (int i = 0; i < MOST_INPUTS; i++)
		free(r->data[i]);
}

static long long resident_kb(void)
{
	long long pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");
	if (!f || fscanf(f, "%*s %lld", &pages) != 1)
		exit(3);
	fclose(f);
	return pages * (sysconf(_SC_PAGESIZE) >> 10);
}

/* ---- shapes ---- */

static void warm_up(struct runner *r)
{
	for (int k = 0; k < WARM && run(r, k); k++)
		;
	run(r, 0);
}

static bool flat(const char *what, struct soak *s, long long before, int64_t arena_before, int64_t arena,
		 long long runs)
{
	const long long after = resident_kb();
	const bool grew = memory_is_plain && after - before > SLACK_KB;
	printf("%s: %lld runs, resident %lld KB, then %+lld KB; intermediate results %lld KB%s\n", what, runs, before,
	       after - before, (long long)arena >> 10, grew ? ": GREW" : "");
	if (arena > arena_before)
		printf("%s: intermediate results took %lld KB before\n", what, (long long)arena_before >> 10);
	return !grew && arena <= arena_before && !atomic_load(&s->wrong);
}

static bool shapes(struct soak *s)
{
	struct runner r;
	if (!open_runner(&r, s, 0, 1))
		return false;
	for (int k = 0; k < KNOWN; k++)
		if (run(&r, k))
			s->known[k] = hash_results(&r);
	close_runner(&r);
	if (!open_runner(&r, s, 0, s->threads))
		return false;
	warm_up(&r);
	const long long before = resident_kb();
	const int64_t arena = tilewright_get_arena_bytes(r.c);
	r.done = 0;
	for (int k = 0; k < s->runs && !atomic_load(&s->wrong); k++)
		run(&r, k);
	const bool good = flat("shapes", s, before, arena, tilewright_get_arena_bytes(r.c), r.done);
	close_runner(&r);
	return good;
}

/* ---- contexts ---- */

static void *work(void *arg)
{
	struct runner *r = arg;
	for (int k = 0; k < r->s->runs / r->s->contexts && !atomic_load(&r->s->wrong); k++)
		run(r, k * r->s->contexts + r->number);
	for (int k = 0; k < KNOWN; k++)
		run(r, (k + r->number) % KNOWN);
	return NULL;
}

static bool contexts(struct soak *s)
{
	struct runner r[MOST_CONTEXTS];
	int64_t arenas = 0, after = 0;
	long long runs = 0;
	int n = 0;
	while (n < s->contexts && open_runner(&r[n], s, n, s->threads)) {
		warm_up(&r[n]);
		r[n].done = 0;
		arenas += tilewright_get_arena_bytes(r[n++].c);
	}
	long long before = 0;
	for (int turn = 0; turn < 2; turn++) { /* the first turn lets threads and their stacks come to be */
		before = resident_kb();
		for (int i = 0; i < n; i++)
			if (pthread_create(&r[i].thread, NULL, work, &r[i]) != 0)
				exit(3);
		for (int i = 0; i < n; i++)
			pthread_join(r[i].thread, NULL);
	}
	for (int i = 0; i < n; i++) {
		after += tilewright_get_arena_bytes(r[i].c);
		runs += r[i].done;
	}
	const bool good = flat("contexts", s, before, arenas, after, runs);
	for (int i = 0; i < n; i++)
		close_runner(&r[i]);
	return good && n == s->contexts;
}

/* ---- churn ---- */

static void *steady(void *arg)
{
	struct runner *r = arg;
	for (int k = r->number; !atomic_load(&r->s->stop) && !atomic_load(&r->s->wrong); k++)
		run(r, k % KNOWN);
	return NULL;
}

static void *canceller(void *arg)
{
	struct runner *r = arg;
	for (int i = 0; i < 20; i++) {
		nanosleep(&(struct timespec){.tv_nsec = (long)(mix((uint64_t)(r->number * 100 + i)) % 300000)}, NULL);
		tilewright_cancel(r->c);
	}
	return NULL;
}

/* Refused inputs leave a context as it was. */
static void provoke(struct runner *r)
{
	struct soak *s = r->s;
	const tilewright_port *p = tilewright_get_input_port(s->model, 0);
	const int64_t dims[TILEWRIGHT_MAX_RANK] = {-1, -1, -1, -1, -1, -1, -1, -1};
	if (!p)
		return;
	tilewright_tensor t;
	const tilewright_type other = p->type == TILEWRIGHT_F32 ? TILEWRIGHT_I64 : TILEWRIGHT_F32;
	if (tilewright_set_input(r->c, 0, other, p->rank, dims, r->data[0]) == TILEWRIGHT_OK ||
	    (p->rank && tilewright_set_input(r->c, 0, p->type, p->rank, dims, r->data[0]) == TILEWRIGHT_OK) ||
	    tilewright_get_output(r->c, 99, &t) == TILEWRIGHT_OK)
		complain(s, "a wrong input was taken");
}

static void *restless(void *arg)
{
	struct soak *s = ((struct runner *)arg)->s;
	const int number = ((struct runner *)arg)->number;
	for (int k = 0; !atomic_load(&s->stop) && !atomic_load(&s->wrong); k++) {
		struct runner r;
		if (!open_runner(&r, s, number, 1 + k % 3))
			break;
		run(&r, k % KNOWN);
		provoke(&r);
		pthread_t thread;
		const bool cancels = pthread_create(&thread, NULL, canceller, &r) == 0;
		for (int i = 0; i < 5; i++) {
			const tilewright_status status = give(&r, (k + i) % KNOWN) || tilewright_run(r.c);
			if (status && !strstr(tilewright_last_error(), "cancelled"))
				complain(s, "cancelled run");
		}
		if (cancels)
			pthread_join(thread, NULL);
		tilewright_run(r.c); /* takes a cancellation that came late */
		run(&r, (k + 1) % KNOWN);
		close_runner(&r);
	}
	return NULL;
}

static bool churn(struct soak *s)
{
	enum { STEADY = 2, ALL = 4 };
	struct runner r[ALL];
	long long runs = 0;
	for (int i = 0; i < ALL; i++) {
		r[i] = (struct runner){.s = s, .number = i};
		if (i < STEADY && !open_runner(&r[i], s, i, s->threads))
			return false;
		if (pthread_create(&r[i].thread, NULL, i < STEADY ? steady : restless, &r[i]) != 0)
			exit(3);
	}
	nanosleep(&(struct timespec){s->churn_ms / 1000, s->churn_ms % 1000 * 1000000L}, NULL);
	atomic_store(&s->stop, 1);
	for (int i = 0; i < ALL; i++)
		pthread_join(r[i].thread, NULL);
	for (int i = 0; i < STEADY; i++) {
		runs += r[i].done;
		close_runner(&r[i]);
	}
	printf("churn: %lld runs beside contexts that came and went\n", runs);
	return !atomic_load(&s->wrong);
}

/* SYMBOL=LOW..HIGH/STEP or SYMBOL=OTHER */
static bool parse_range(struct soak *s, char *word)
{
	char *is = strchr(word, '=');
	if (!is || s->nranges == MOST_SYMBOLS)
		return false;
	*is++ = 0;
	struct range r = {.symbol = word, .step = 1, .draw = s->nranges};
	if (sscanf(is, "%lld..%lld/%lld", &r.low, &r.high, &r.step) < 2) {
		int other = 0;
		while (other < s->nranges && strcmp(s->ranges[other].symbol, is) != 0)
			other++;
		if (other == s->nranges)
			return false;
		r = s->ranges[other];
		r.symbol = word;
	}
	s->ranges[s->nranges++] = r;
	return r.low >= 0 && r.low <= r.high && r.step >= 1;
}

static bool parse(struct soak *s, int argc, char **argv)
{
	const struct {
		const char *word;
		int *value;
	} numbers[] = {{"--runs", &s->runs},
		       {"--contexts", &s->contexts},
		       {"--threads", &s->threads},
		       {"--integers", &s->integers},
		       {"--churn", &s->churn_ms}};
	const int n = (int)(sizeof(numbers) / sizeof(*numbers));
	for (int i = 2; i + 1 < argc; i += 2) {
		int k = 0;
		while (k < n && strcmp(argv[i], numbers[k].word) != 0)
			k++;
		if (k < n)
			*numbers[k].value = atoi(argv[i + 1]);
		else if (strcmp(argv[i], "-d") != 0 || !parse_range(s, argv[i + 1]))
			return false;
	}
	return argc >= 2 && argc % 2 == 0 && s->contexts >= 1 && s->contexts <= MOST_CONTEXTS && s->integers >= 1;
}

int main(int argc, char **argv)
{
	struct soak s = {.runs = 1000, .contexts = 4, .threads = 2, .integers = 2, .churn_ms = 3000};
	if (!parse(&s, argc, argv)) {
		fputs("soak MODEL [-d SYMBOL=LOW..HIGH[/STEP]].. [--runs N] [--contexts N] [--threads N] [--integers "
		      "N] "
		      "[--churn MS]\n",
		      stderr);
		return 2;
	}
	if (tilewright_compile_file(argv[1], NULL, &s.model)) {
		fprintf(stderr, "%s\n", tilewright_last_error());
		return 1;
	}
	if (tilewright_count_inputs(s.model) > MOST_INPUTS)
		return 2;
	bool (*const checks[])(struct soak *) = {shapes, contexts, churn};
	int passed = 0, failed = 0;
	for (int i = 0; i < (s.churn_ms > 0 ? 3 : 2); i++) {
		atomic_store(&s.wrong, 0);
		const bool good = checks[i](&s);
		fflush(stdout);
		passed += good;
		failed += !good;
	}
	tilewright_free_model(s.model);
	printf("%d passed, %d failed\n", passed, failed);
	return failed > 0;
}
