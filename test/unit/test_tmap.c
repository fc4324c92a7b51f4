/* rooms: base tmap */
/* test_tmap.c: the task-mapping algebra against the definition: exhaustively for small mappings, by samples for larger ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "tmap_samples.h"

#define UNUSED __attribute__((unused))

/* A fast assertion for inner loops. */
#define EXPECT(cond)                                                                                                   \
	do {                                                                                                           \
		if (!(cond))                                                                                           \
			fail_msg("%s: %s", #cond, twtm_print(c->arena, c->map));                                       \
	} while (0)

struct check {
	struct tw_arena *arena;
	const struct twtm_map *map;
	struct sample_meaning want;
	int64_t seen; /* by twtm_each */
	int64_t w;
	int64_t mappings;
};

static bool same_task(int rank, const int64_t *p, const int64_t *q)
{
	return memcmp(p, q, sizeof(*p) * (size_t)rank) == 0;
}

static void each_visit(void *arg, const int64_t *task)
{
	struct check *c = arg;
	EXPECT(c->seen < c->want.per_worker);
	EXPECT(same_task(c->want.rank, task, c->want.tasks + (c->w * c->want.per_worker + c->seen) * c->want.rank));
	c->seen++;
}

/* Workers, shape, every task of every worker in order; how often each task is done; the register layout. */
static void check_meaning(struct check *c)
{
	const struct sample_meaning *m = &c->want;
	int64_t shape[TWTM_MAX_RANK], task[TWTM_MAX_RANK];
	EXPECT(twtm_workers(c->map) == m->workers);
	EXPECT(twtm_tasks_per_worker(c->map) == m->per_worker);
	twtm_shape(c->map, shape);
	EXPECT(same_task(m->rank, shape, m->shape));
	int64_t all = 1;
	for (int i = 0; i < m->rank; i++)
		all *= shape[i];
	int *count = ARENA_ARRAY(c->arena, int, all);
	bool *place = ARENA_ARRAY(c->arena, bool, m->per_worker);
	EXPECT(twtm_register_size(c->map) == m->per_worker);
	for (int64_t w = 0; w < m->workers; w++) {
		c->w = w;
		c->seen = 0;
		twtm_each(c->map, w, each_visit, c);
		EXPECT(c->seen == m->per_worker);
		memset(place, 0, (size_t)m->per_worker);
		for (int64_t k = 0; k < m->per_worker; k++) {
			twtm_task(c->map, w, k, task);
			EXPECT(same_task(m->rank, task, m->tasks + (w * m->per_worker + k) * m->rank));
			int64_t at = 0;
			for (int i = 0; i < m->rank; i++) {
				EXPECT(task[i] >= 0 && task[i] < shape[i]);
				at = at * shape[i] + task[i];
			}
			count[at]++;
			const int64_t offset = twtm_register_offset(c->map, task);
			EXPECT(offset >= 0 && offset < m->per_worker && !place[offset]);
			place[offset] = true;
		}
	}
	bool covers = true, exact = true;
	for (int64_t i = 0; i < all; i++) {
		covers &= count[i] > 0;
		exact &= count[i] == 1;
	}
	EXPECT(twtm_covers(c->map) == covers);
	EXPECT(twtm_exact(c->map) == exact);
	EXPECT(twtm_balanced(c->map)); /* the places above are as many as the tasks, for every worker */
	const char *text = twtm_print(c->arena, c->map);
	const struct twtm_map *parsed = twtm_parse(c->arena, text);
	EXPECT(twtm_equal(parsed, c->map) && twtm_same(parsed, c->map));
	EXPECT(strcmp(twtm_print(c->arena, parsed), text) == 0);
	c->mappings++;
}

/* The other bracketing of three factors must be the same mapping, task by task. */
static void check_associative(struct check *c, const struct sample *s)
{
	struct sample head = *s, middle = *s, tail = *s;
	head.n = middle.n = tail.n = 1;
	middle.factor[0] = s->factor[1];
	tail.factor[0] = s->factor[2];
	const struct twtm_map *left = c->map;
	c->map = twtm_compose(c->arena, sample_map(c->arena, &head),
			      twtm_compose(c->arena, sample_map(c->arena, &middle), sample_map(c->arena, &tail)));
	EXPECT(twtm_same(c->map, left));
	EXPECT(!twtm_equal(c->map, left));
	check_meaning(c);
}

static void check_sample(void *arg, const struct sample *s)
{
	struct check *c = arg;
	const struct arena_mark mark = arena_mark(c->arena);
	c->map = sample_map(c->arena, s);
	c->want = sample_meaning(c->arena, s);
	check_meaning(c);
	bool plain = true;
	for (int k = 0; k < s->n; k++)
		plain &= !s->factor[k].projected;
	if (plain)
		EXPECT(twtm_exact(c->map));
	if (s->n == 3)
		check_associative(c, s);
	arena_release(c->arena, mark);
}

static void exhaustive(void **state UNUSED)
{
	struct check c = {.arena = arena_new()};
	samples_all(1, 3, 4, check_sample, &c);
	assert_int_equal(c.mappings, 8 + 64 + 512 + 512);
	c.mappings = 0;
	samples_all(2, 3, 4, check_sample, &c);
	assert_int_equal(c.mappings, 32 + 1024 + 32768 + 32768);
	arena_free(c.arena);
}

static void sampled(void **state UNUSED)
{
	struct check c = {.arena = arena_new()};
	uint64_t seed = 88172645463325252u;
	for (int i = 0; i < 6000; i++) {
		/* permuted ranks; rank 3; projections; empty extents */
		struct sample s = samples_random(&seed, 2 + i % 2, i % 5 == 0 ? 0 : 1, i % 2 ? 3 : 4, i % 3 == 0);
		check_sample(&c, &s);
	}
	arena_free(c.arena);
}

static void collect(void *arg, const struct sample *s)
{
	struct sample **to = arg;
	*(*to)++ = *s;
}

static bool same_meaning(const struct sample_meaning *a, const struct sample_meaning *b)
{
	return a->workers == b->workers && a->per_worker == b->per_worker && same_task(a->rank, a->shape, b->shape) &&
	       memcmp(a->tasks, b->tasks, sizeof(int64_t) * (size_t)(a->workers * a->per_worker * a->rank)) == 0;
}

/* twtm_same against a comparison of all tasks: every pair of mappings with one dimension, random pairs with two and three. */
static void sameness(void **state UNUSED)
{
	enum { N = 8 + 64 + 512, PAIRS = 400, ROUNDS = 12 };
	struct tw_arena *a = arena_new();
	struct sample *list = ARENA_ARRAY(a, struct sample, N), *end = list;
	samples_all(1, 3, 4, collect, &end);
	assert_int_equal(end - list, N);
	uint64_t seed = 1234567;
	for (int round = 0; round <= ROUNDS; round++) {
		const struct arena_mark mark = arena_mark(a);
		const int n = round == 0 ? N : PAIRS;
		const struct twtm_map **maps = ARENA_ARRAY(a, const struct twtm_map *, n);
		struct sample_meaning *meaning = ARENA_ARRAY(a, struct sample_meaning, n);
		for (int i = 0; i < n; i++) {
			const struct sample s = round == 0 ? list[i]
							   : samples_random(&seed, 2 + round % 2,
									    round % 4 == 0 ? 0 : 1, 2, round % 3 == 0);
			maps[i] = sample_map(a, &s);
			meaning[i] = sample_meaning(a, &s);
		}
		int equal = 0;
		for (int i = 0; i < n; i++) {
			for (int j = 0; j <= i; j++) {
				const bool want = same_meaning(&meaning[i], &meaning[j]);
				if (twtm_same(maps[i], maps[j]) != want)
					fail_msg("%s and %s: same?", twtm_print(a, maps[i]), twtm_print(a, maps[j]));
				equal += want && i != j;
			}
		}
		assert_true(equal > 100);
		arena_release(a, mark);
	}
	arena_free(a);
}

static void known_values(void **state UNUSED)
{
	struct tw_arena *a = arena_new();
	/* The paper's example: 128 workers load a 64 x 8 tile. */
	const struct twtm_map *f = twtm_auto(a, 2, (int64_t[]){64, 8}, 128, NULL);
	assert_string_equal(twtm_print(a, f), "repeat(4, 1) * spatial(16, 8)");
	const int64_t want[4][2] = {{2, 3}, {18, 3}, {34, 3}, {50, 3}};
	int64_t task[TWTM_MAX_RANK];
	assert_int_equal(twtm_tasks_per_worker(f), 4);
	for (int k = 0; k < 4; k++) {
		twtm_task(f, 19, k, task);
		assert_memory_equal(task, want[k], sizeof(want[k]));
	}
	/* Column order: worker 1 is one row down, not one column right. */
	twtm_task(twtm_spatial(a, 2, (int64_t[]){2, 3}, (int[]){1, 0}), 1, 0, task);
	assert_int_equal(task[0], 1);
	assert_int_equal(task[1], 0);
	twtm_task(twtm_parse(a, "repeat(2, 3, ranks = [1, 0])"), 0, 3, task);
	assert_int_equal(task[0], 1);
	assert_int_equal(task[1], 1);
	/* Composition does not commute. */
	assert_false(twtm_same(twtm_parse(a, "repeat(2) * spatial(2)"), twtm_parse(a, "spatial(2) * repeat(2)")));
	assert_true(twtm_same(twtm_parse(a, "repeat(2, 1) * repeat(2, 3)"), twtm_parse(a, "repeat(4, 3)")));
	assert_false(twtm_same(twtm_parse(a, "repeat(2, 3) * repeat(2, 1)"), twtm_parse(a, "repeat(4, 3)")));
	/* A tensor core's operand: eight columns of workers share a row, so the row's tasks are done eight times. */
	const struct twtm_map *p = twtm_parse(a, "repeat(2, 1) * project(spatial(4, 8), [1])");
	assert_int_equal(twtm_workers(p), 32);
	assert_true(twtm_covers(p));
	assert_false(twtm_exact(p));
	twtm_task(p, 9, 1, task);
	assert_int_equal(task[0], 5);
	assert_int_equal(task[1], 0);
	/* Sizes that no loop could go through. */
	const struct twtm_map *huge = twtm_parse(a, "repeat(1048576, 1048576) * spatial(1048576, 1048576)");
	assert_true(twtm_exact(huge));
	assert_true(twtm_same(huge, huge));
	twtm_task(huge, (int64_t)1 << 39, ((int64_t)1 << 39) + 5, task);
	assert_int_equal(task[0], ((int64_t)1 << 39) + (1 << 19));
	assert_int_equal(task[1], (int64_t)5 << 20);
	arena_free(a);
}

/* All shapes up to 12 x 12 (x ranks) for all numbers of workers that divide: exact, the right shape, the right number of workers. */
static void automatic(void **state UNUSED)
{
	struct check automatic_check = {.arena = arena_new()}, *c = &automatic_check;
	for (int64_t m = 1; m <= 12; m++) {
		for (int64_t n = 1; n <= 12; n++) {
			for (int64_t w = 1; w <= m * n; w++) {
				if (m * n % w)
					continue;
				for (int column = 0; column < 2; column++) {
					const struct arena_mark mark = arena_mark(c->arena);
					c->map = twtm_auto(c->arena, 2, (int64_t[]){m, n}, w,
							   (int[]){column, 1 - column});
					int64_t shape[TWTM_MAX_RANK];
					twtm_shape(c->map, shape);
					EXPECT(shape[0] == m && shape[1] == n && twtm_workers(c->map) == w &&
					       twtm_exact(c->map));
					/* Neighbouring workers take neighbouring tasks along the fastest dimension. */
					const int64_t fastest = column ? m : n;
					if (w > 1 && fastest > 1 && w % 2 == 0 && fastest % 2 == 0) {
						int64_t task[TWTM_MAX_RANK];
						twtm_task(c->map, 1, 0, task);
						EXPECT(task[column ? 0 : 1] == 1 && task[column ? 1 : 0] == 0);
					}
					arena_release(c->arena, mark);
				}
			}
		}
	}
	c->map = twtm_auto(c->arena, 2, (int64_t[]){0, 5}, 4, NULL);
	EXPECT(twtm_workers(c->map) == 4 && twtm_tasks_per_worker(c->map) == 0 && twtm_exact(c->map));
	arena_free(c->arena);
}

struct parse_args {
	struct tw_arena *arena;
	const char *text;
};

static void parse_it(void *arg)
{
	const struct parse_args *p = arg;
	twtm_parse(p->arena, p->text);
}

static void refuse(const char *text, const char *part)
{
	struct parse_args p = {arena_new(), text};
	struct tw_error e;
	const bool accepted = tw_try(&e, parse_it, &p);
	arena_free(p.arena);
	if (accepted)
		fail_msg("accepted: %s", text);
	assert_int_equal(e.code, TW_ERR_USAGE);
	if (!strstr(e.text, part))
		fail_msg("%s: \"%s\" is not in \"%s\"", text, part, e.text);
}

static void text_errors(void **state UNUSED)
{
	refuse("", "column 1");
	refuse("repeat", "column 7: '(' expected");
	refuse("repeat()", "column 8: a number expected");
	refuse("repeat(2", "column 9: ')' expected");
	refuse("repeat(2) *", "column 12");
	refuse("repeat(2) spatial(2)", "column 11: '*' or the end");
	refuse("repeat(-1)", "column 8: a number");
	refuse("repeated(2)", "column 1");
	refuse("repeat(99999999999999999999)", "64 bits");
	refuse("repeat(4294967296, 4294967296)", "64 bits");
	refuse("repeat(4294967296) * repeat(4294967296)", "64 bits");
	refuse("spatial(4294967296) * spatial(4294967296)", "64 bits");
	refuse("repeat(4294967296) * spatial(4294967296)", "64 bits");
	refuse("repeat(1, 2) * spatial(2)", "2 and 1 dimensions");
	refuse("repeat(1,1,1,1,1,1,1,1,1)", "too many dimensions");
	refuse("repeat(2, 2, ranks = [0])", "one rank for each");
	refuse("repeat(2, 2, ranks = [0, 0])", "permutation");
	refuse("repeat(2, 2, ranks = [0, 2])", "too large");
	refuse("repeat(2, 2, ranks = [0, 1], 3)", "extents come first");
	refuse("repeat(2, 2, attrs = [plain])", "',' expected");
	refuse("repeat(2, attrs = [fast])", "plain, unroll or vector");
	refuse("spatial(2, attrs = [unroll])", "a number expected");
	refuse("project(repeat(2), [0])", "spatial factors");
	refuse("project(spatial(2), [1])", "too large");
	refuse("project(spatial(2) [0])", "',' expected");
	char *deep = malloc(100001);
	assert_non_null(deep);
	memset(deep, '(', 100000);
	deep[100000] = 0;
	refuse(deep, "too deeply");
	char *at = deep;
	for (int i = 0; i < 1000; i++)
		at += sprintf(at, "%srepeat(1)", i ? "*" : "");
	refuse(deep, "at most");
	free(deep);
}

static void text_forms(void **state UNUSED)
{
	struct tw_arena *a = arena_new();
	static const char *const canonical[] = {
		"repeat(4, 1) * spatial(16, 8)",
		"repeat(4, 8, ranks = [1, 0], attrs = [unroll, plain])",
		"repeat(2, attrs = [vector])",
		"project(spatial(4, 2), [1])",
		"project(spatial(4, 2) * spatial(1, 2), [0, 1])",
		"project(spatial(4, 2), [])",
		"spatial(0)",
		"repeat(2) * (spatial(2) * repeat(3))",
		"(repeat(2) * spatial(2))",
	};
	for (int i = 0; i < TW_COUNT(canonical) - 1; i++)
		assert_string_equal(twtm_print(a, twtm_parse(a, canonical[i])), canonical[i]);
	assert_string_equal(twtm_print(a, twtm_parse(a, canonical[8])), "repeat(2) * spatial(2)");
	assert_string_equal(twtm_print(a, twtm_parse(a, "\n repeat( 4,8,attrs=[unroll ,plain],ranks=[ 1,0 ] )\t")),
			    "repeat(4, 8, ranks = [1, 0], attrs = [unroll, plain])");
	assert_false(twtm_equal(twtm_parse(a, "repeat(2, attrs = [unroll])"), twtm_parse(a, "repeat(2)")));
	assert_true(twtm_same(twtm_parse(a, "repeat(2, attrs = [unroll])"), twtm_parse(a, "repeat(2)")));
	arena_free(a);
}

struct bad_build {
	struct tw_arena *arena;
	int which;
};

static void bad_builds(void *arg)
{
	const struct bad_build *b = arg;
	struct tw_arena *a = b->arena;
	const int64_t two[2] = {2, 2};
	switch (b->which) {
	case 0:
		twtm_repeat(a, 0, two, NULL, NULL);
		return;
	case 1:
		twtm_spatial(a, 9, two, NULL);
		return;
	case 2:
		twtm_spatial(a, 2, (int64_t[]){2, -1}, NULL);
		return;
	case 3:
		twtm_spatial(a, 2, two, (int[]){0, -1});
		return;
	case 4:
		twtm_repeat(a, 2, two, NULL, (enum twtm_attr[]){TWTM_PLAIN, (enum twtm_attr)7});
		return;
	case 5:
		twtm_project(a, twtm_spatial(a, 2, two, NULL), 4);
		return;
	case 6:
		twtm_auto(a, 2, two, 3, NULL);
		return;
	case 7:
		twtm_auto(a, 2, two, 8, NULL);
		return;
	case 8:
		twtm_auto(a, 2, two, 0, NULL);
		return;
	case 9:
		twtm_project(a, twtm_compose(a, twtm_spatial(a, 2, two, NULL), twtm_repeat(a, 2, two, NULL, NULL)), 1);
		return;
	}
}

static void build_errors(void **state UNUSED)
{
	for (int i = 0; i < 10; i++) {
		struct bad_build b = {arena_new(), i};
		struct tw_error e;
		const bool accepted = tw_try(&e, bad_builds, &b);
		arena_free(b.arena);
		if (accepted)
			fail_msg("bad build %d was accepted", i);
		assert_int_equal(e.code, TW_ERR_USAGE);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_values), cmocka_unit_test(exhaustive),	cmocka_unit_test(sampled),
		cmocka_unit_test(sameness),	cmocka_unit_test(automatic),	cmocka_unit_test(text_forms),
		cmocka_unit_test(text_errors),	cmocka_unit_test(build_errors),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
