/* rooms: base tmap ir */
/* test_diagnose_random.c: what the diagnosis proves holds. Programs put together at random from right and wrong parts:
 * where its proofs find nothing to list, the interpreter must find nothing either, at any of several sizes. The trial
 * runs, which would find the same faults, are left out here.
 *
 * usage: test_diagnose_random [SEED [COUNT]] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/diagnose_int.h"
#include "ir/interpret_int.h"

static uint64_t state;

static uint64_t random_number(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static bool one_in(int n)
{
	return random_number() % (uint64_t)n == 0;
}

/* The first of a list is right; the others may be. */
#define PICK(list) (list)[one_in(4) ? random_number() % (uint64_t)TW_COUNT(list) : 0]
#define ANY(list)  (list)[random_number() % (uint64_t)TW_COUNT(list)]

/* Tiles of 8 x 8 elements and 16 threads, or 16 lanes. */
static const char *const maps[] = {
	"spatial(4, 4) * repeat(2, 2)",
	"repeat(2, 2) * spatial(4, 4)",
	"spatial(2, 8) * repeat(4, 1)",
	"repeat(4, 1) * spatial(2, 8)",
	"spatial(4, 1) * repeat(2, 2) * spatial(1, 4)",
	"repeat(8, 1) * spatial(1, 8)",
	"repeat(2, 2) * spatial(4, 3)",
	"repeat(1, 2) * spatial(4, 4)",
	"project(spatial(2, 1), 0) * spatial(2, 4) * repeat(4, 2)",
};
static const char *const lane_maps[] = {
	"repeat(4, 1) * spatial(2, 8)", "repeat(2, 2) * spatial(4, 4)", "repeat(1, 4) * spatial(8, 2)",
	"repeat(2, 2) * spatial(4, 3)", "repeat(3, 1) * spatial(2, 8)",
};
static const char *const places[] = {
	"i, j",	    "i, j", "i, j",	"7 - i, j", "(i + 1) % 8, j",
	"i, 7 - j", "j, i", "i / 2, j", "i, 0",	    "i, min(j + 1, 7)",
};
static const char *const outs[] = {
	"8 * bi + i, 8 * bj + j", "8 * bi + i, 8 * bj + j",	"8 * bi + i, 8 * bj + j",
	"8 * bi + i, 7 * bj + j", "8 * bi + i / 2, 8 * bj + j", "i, 8 * bj + j",
};
static const char *const withins[] = {
	" within (M - 8 * bi, N - 8 * bj)",	" within (M - 8 * bi, N - 8 * bj)",	"",
	" within (M - 8 * bi, N - 8 * bj - 1)", " within (M - 8 * bi + 1, N - 8 * bj)",
};
static const char *const guards[] = {
	"8 * bi + i < M and 8 * bj + j < N",	       "8 * bi + i < M and 8 * bj + j < N",
	"8 * bi + i <= M and 8 * bj + j < N",	       "8 * bi + i < M",
	"bi * 8 + i < M and bj * 8 + j < N and i < 7",
};
static const char *const updates[] = {"s", "0", "s % 2", "(s + 1) % 2", "1 - s % 2"};

static const char *make(struct tw_buf *b, bool gpu)
{
	const char *on = gpu ? "thread" : "lane";
	const char *barrier = gpu ? "barrier block;" : "";
#define MAP()	  (gpu ? ANY(maps) : ANY(lane_maps))
#define BARRIER() (one_in(8) ? "" : barrier)
	const char *m1 = MAP(), *m2 = one_in(2) ? m1 : MAP();
	buf_printf(b,
		   "symbol M, N;\nprogram p(A: f32[M, N], out C: f32[M, N])\n  launch %s(ceil_div(M, 8) * ceil_div(N, "
		   "8)), %s(16)\n{\n",
		   gpu ? "block" : "core", on);
	buf_printf(b, "  map m1 = %s;\n  map m2 = %s;\n  shared S: f32[%d, 8, 8];\n", m1, m2, one_in(2) ? 2 : 1);
	buf_printf(b, "  for (bi, bj) in spatial(ceil_div(M, 8), ceil_div(N, 8)) on %s {\n", gpu ? "block" : "core");
	buf_printf(b, "    for (i, j) in m1 on %s { S[0, %s] = %s ? A[8 * bi + i, 8 * bj + j] : 0.0; }\n    %s\n", on,
		   PICK(places), PICK(guards), BARRIER());
	const int loop = (int)(random_number() % 3);
	if (loop == 1) { /* in place */
		const char *place = PICK(places);
		buf_printf(b,
			   "    for s in repeat(3) {\n      for (i, j) in m1 on %s { S[0, %s] = S[0, %s] + 1.0; }\n    "
			   "  %s\n"
			   "    }\n",
			   on, place, one_in(2) ? place : PICK(places), BARRIER());
	} else if (loop == 2) { /* from one half to the other */
		buf_printf(b, "    for (i, j) in m1 on %s { S[1, i, j] = 0.0; }\n    %s\n    for s in repeat(2) {\n",
			   on, BARRIER());
		buf_printf(b, "      for (i, j) in m2 on %s { S[%s, i, j] = S[%s, %s]; }\n      %s\n    }\n", on,
			   PICK(updates), PICK(updates), PICK(places), BARRIER());
	}
	const char *place = PICK(places);
	if (one_in(3)) { /* by way of a register of the worker */
		buf_printf(
			b,
			"    register R: f32[8, 8] mirrors m1;\n    for (i, j) in m1 on %s { R[i, j] = S[0, %s]; }\n",
			on, place);
		buf_printf(b, "    for (i, j) in %s on %s%s { C[%s] = R[i, j]; }\n", one_in(4) ? "m2" : "m1", on,
			   PICK(withins), PICK(outs));
	} else {
		buf_printf(b, "    for (i, j) in m2 on %s%s { C[%s] = S[0, %s]; }\n", on, PICK(withins), PICK(outs),
			   place);
	}
	buf_puts(b, "  }\n}\n");
	return b->at;
}

struct job {
	struct tw_arena *a;
	const char *text;
	struct twird d;
	bool sound; /* the text is a program */
	const struct twir_binding *b;
	struct twir_data data[2];
};

static void prove(void *arg)
{
	struct job *j = arg;
	struct twird *d = &j->d;
	*d = (struct twird){.m = twir_module_new(j->a), .arena = j->a, .scratch = j->a};
	twir_parse(d->m, "test", j->text);
	d->p = d->m->programs.at[0];
	twir_verify_program(d->m, d->p, TW_ERR_MODEL);
	j->sound = true;
	d->gpu = d->p->levels[0] == TWIR_BLOCK;
	twird_walk(d);
	twird_once(d);
	twird_assign(d);
	twird_owners(d);
	twird_races(d);
}

static void interpret(void *arg)
{
	struct job *j = arg;
	const struct twir_limits none = {0};
	struct twir_diagnostic fault;
	twiri_try(j->d.m, j->d.p, j->b, j->data, &none, &fault, j->a, NULL);
}

static bool check_runs(struct job *j, uint64_t seed)
{
	static float x[64 * 64], y[64 * 64];
	static const int64_t sizes[][2] = {{1, 1}, {8, 8}, {16, 8}, {9, 7}, {23, 17}, {24, 32}};
	for (int k = 0; k < TW_COUNT(sizes); k++) {
		struct tw_error e;
		const struct twir_binding b = {j->d.p->nsymbols, j->d.p->symbols, sizes[k]};
		const int64_t n = sizes[k][0] * sizes[k][1];
		j->b = &b;
		j->data[0] = (struct twir_data){x, n};
		j->data[1] = (struct twir_data){y, n};
		if (tw_try(&e, interpret, j))
			continue;
		printf("seed %llu: proved, but at %lld x %lld:\n%s\n%s\n", (unsigned long long)seed,
		       (long long)sizes[k][0], (long long)sizes[k][1], e.text, j->text);
		return false;
	}
	return true;
}

int main(int argc, char **argv)
{
	const char *longer = getenv("TILEWRIGHT_LONG_TESTS");
	const uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
	const int count = argc > 2 ? atoi(argv[2]) : longer && *longer ? 20000 : 1000;
	int failed = 0, proved = 0, programs = 0;
	for (int k = 0; k < count; k++) {
		const uint64_t seed = first + (uint64_t)k;
		struct job j = {.a = arena_new()};
		struct tw_error e;
		struct tw_buf b;
		state = seed * 0x9e3779b97f4a7c15u + 1;
		buf_init(&b, j.a);
		j.text = make(&b, one_in(4) ? false : true);
		if (!tw_try(&e, prove, &j) && j.sound) {
			printf("seed %llu: %s\n%s\n", (unsigned long long)seed, e.text, j.text);
			failed++;
		} else if (j.sound) {
			programs++;
			if (j.d.list.n == 0) {
				proved++;
				failed += !check_runs(&j, seed);
			}
		}
		arena_free(j.a);
	}
	printf("%d programs, %d of them proved right\n", programs, proved);
	failed += proved < programs / 50; /* it would prove nothing */
	printf("%d passed, %d failed\n", count - failed, failed);
	return failed ? 1 : 0;
}
