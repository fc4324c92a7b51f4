/* peak: how many multiply-adds of f32 one core makes in a second. Input: nothing (or how many rounds: 100 unless told);
 * output: lines "name value".
 *
 * Two ways, in turn, in one run: a loop of independent multiply-adds on the widest vectors, timed; and lanes x ports x
 * clock. The clock is timed by a chain of dependent additions, each of which takes one cycle, with as many
 * multiply-adds beside it (wide vectors lower the clock of some processors); ports is the whole number nearest to the
 * multiply-adds that end in a cycle. The two must agree: the exit code is 1 where they differ by more than 5%. Times
 * are processor time of this thread, the least of many short rounds: other work can only make them longer.
 *
 *     cc -O2 -o peak bench/peak.c -lm && ./peak */
#define _GNU_SOURCE
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { STEPS = 40000 }; /* a round takes a tenth of a millisecond */

static double seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Opaque to the compiler. Accumulators go to 2 and stay there: no denormal or infinite numbers slow the loop down. */
static volatile float half = 0.5f, one = 1.0f, sink;

#ifdef __clang__
#define EACH(count) _Pragma("clang loop unroll(full)") for (int k = 0; k < (count); k++)
#else
#define EACH(count) _Pragma("GCC unroll 32") for (int k = 0; k < (count); k++)
#endif

/* COUNT accumulators, each a chain of its own: enough of them hide the latency, and they all fit in registers. */
#define LOOP(name, bytes, count, attribute, between)                                                                   \
	attribute static void name(int64_t steps)                                                                      \
	{                                                                                                              \
		typedef float vector __attribute__((vector_size(bytes)));                                              \
		const vector zero = {0}, x = zero + half, y = zero + one;                                              \
		uint64_t sum = 1, by = 1;                                                                              \
		vector a[count];                                                                                       \
		EACH(count) a[k] = zero + (float)k;                                                                    \
		for (int64_t i = 0; i < steps; i++) {                                                                  \
			EACH(count)                                                                                    \
			{                                                                                              \
				between a[k] = a[k] * x + y;                                                           \
			}                                                                                              \
		}                                                                                                      \
		EACH(count) sink = a[k][0];                                                                            \
		sink = (float)(sum + by);                                                                              \
	}

struct vectors {
	const char *name;
	int lanes, count;
	void (*fmas)(int64_t steps), (*adds)(int64_t steps); /* COUNT of them a step */
};

#if defined(__x86_64__)
/* From register to register: newer cores add small constants without executing anything. */
#define ADD __asm__ volatile("add %1, %0" : "+r"(sum) : "r"(by));
LOOP(avx512_fmas, 64, 12, __attribute__((target("avx512f"))), )
LOOP(avx512_adds, 64, 12, __attribute__((target("avx512f"))), ADD)
LOOP(avx2_fmas, 32, 12, __attribute__((target("avx2,fma"))), )
LOOP(avx2_adds, 32, 12, __attribute__((target("avx2,fma"))), ADD)

static struct vectors best(void)
{
	if (__builtin_cpu_supports("avx512f"))
		return (struct vectors){"avx512", 16, 12, avx512_fmas, avx512_adds};
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
		return (struct vectors){"avx2", 8, 12, avx2_fmas, avx2_adds};
	return (struct vectors){0};
}
#elif defined(__aarch64__)
#define ADD __asm__ volatile("add %0, %0, %1" : "+r"(sum) : "r"(by));
LOOP(neon_fmas, 16, 24, , )
LOOP(neon_adds, 16, 24, , ADD)

static struct vectors best(void)
{
	return (struct vectors){"neon", 4, 24, neon_fmas, neon_adds};
}
#else
#error "bench/peak.c knows x86-64 and AArch64"
#endif

static double least(double known, void (*loop)(int64_t steps))
{
	const double start = seconds();
	loop(STEPS);
	const double took = seconds() - start;
	return took < known ? took : known;
}

/* For bench/program_matmul.py, which loads this file as a library: GFLOP/s of the multiply-adds over so many seconds. */
double peak_over(double least)
{
	const struct vectors v = best();
	const double start = seconds();
	int64_t rounds = 0;
	double took = 0;
	for (; v.fmas && took < least; rounds++, took = seconds() - start)
		v.fmas(STEPS);
	return took > 0 ? 2e-9 * v.lanes * v.count * STEPS * (double)rounds / took : 0;
}

int main(int argc, char **argv)
{
	const int rounds = argc > 1 ? atoi(argv[1]) : 100;
	const struct vectors v = best();
	if (!v.fmas)
		return fprintf(stderr, "peak: this processor has no multiply-add on vectors\n"), 2;
	double adds = INFINITY, fmas = INFINITY;
	for (int i = 0; i < rounds; i++) {
		adds = least(adds, v.adds);
		fmas = least(fmas, v.fmas);
	}
	const double clock = (double)STEPS * v.count / adds, rate = (double)STEPS * v.count / fmas;
	const int ports = (int)lrint(rate / clock);
	const double measured = 2e-9 * v.lanes * rate, expected = 2e-9 * v.lanes * ports * clock;
	printf("vectors %s\nlanes %d\nports %d\nclock_ghz %.3f\n", v.name, v.lanes, ports, clock * 1e-9);
	printf("fmas_per_cycle %.3f\n", rate / clock);
	printf("lanes_x_ports_x_clock_gflops %.1f\nmeasured_gflops %.1f\n", expected, measured);
	return fabs(measured / expected - 1) > 0.05;
}
