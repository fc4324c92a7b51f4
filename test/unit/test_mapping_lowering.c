/* rooms: base tmap target ir pass */
/* test_mapping_lowering.c: three readings of a task mapping agree: the algebra on integers, the interpreter on a program with the mapping,
 * and the interpreter after pass_bound_within and pass_expand_mapping have made loops and index arithmetic of it.
 *
 * The program folds the tasks of each worker, in order, into one number that depends on their order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "mapping_program.h"
#include "pass/pass.h"

#define UNUSED __attribute__((unused))

static _Noreturn void disagree(struct machinery *x, const struct built *b, const struct twtm_map *f, const char *who,
			       int64_t w)
{
	print_error("%s\n", twir_print_program(x->arena, x->m, b->program));
	fail_msg("%s: %s disagrees with the algebra about worker %lld", twtm_print(x->arena, f), who, (long long)w);
	abort();
}

static void interpret(struct machinery *x, const struct built *b, const struct twtm_map *f, const char *who,
		      const int64_t *want)
{
	int64_t *got = ARENA_ARRAY(x->arena, int64_t, b->slots);
	for (int64_t w = 0; w < b->slots; w++)
		got[w] = -1;
	const struct twir_binding binding = {b->nsymbols, b->symbols, b->values};
	const struct twir_data data = {got, b->slots};
	twir_interpret(x->m, b->program, &binding, &data);
	for (int64_t w = 0; w < b->slots; w++) {
		if (got[w] != want[w])
			disagree(x, b, f, who, w);
	}
}

static void lower(struct machinery *x, struct built *b)
{
	pass_bound_within(x->m, b->program, NULL);
	pass_expand_mapping(x->m, b->program, NULL);
}

/* All three readings of one sample. */
static void check_raising(struct machinery *x, const struct sample *s, const struct setting *how)
{
	struct built b = mapping_program(x, s, how);
	const struct twtm_map *f = mapping_bound(x, &b);
	assert_true(twtm_equal(f, sample_map(x->arena, s)));
	int64_t *want = ARENA_ARRAY(x->arena, int64_t, b.slots);
	mapping_by_algebra(f, how, b.slots, want);
	twir_verify_program(x->m, b.program, TW_ERR_INTERNAL);
	interpret(x, &b, f, "the interpreter", want);
	lower(x, &b);
	twir_verify_program(x->m, b.program, TW_ERR_INTERNAL);
	interpret(x, &b, f, "the lowered program", want);
	x->checked++;
}

struct one_check {
	struct machinery *x;
	const struct sample *s;
	const struct setting *how;
};

static void check_caught(void *arg)
{
	const struct one_check *c = arg;
	check_raising(c->x, c->s, c->how);
}

static void check(struct machinery *x, const struct sample *s, const struct setting *how)
{
	if (!x->arena || x->programs == 200)
		machinery_fresh(x);
	struct one_check c = {x, s, how};
	struct tw_error e;
	if (!tw_try(&e, check_caught, &c))
		fail_msg("%s (levels %d, surplus %d, symbols %d, within %d): %s",
			 twtm_print(x->arena, sample_map(x->arena, s)), (int)how->where, (int)how->surplus,
			 how->symbols, how->within, e.text);
}

static void check_on_core(void *arg, const struct sample *s)
{
	check(arg, s, &(struct setting){.where = ON_CORE, .type = TWIR_I64});
}

/* All mappings of up to three factors with extents 1..4: constants in the program. */
static void exhaustive(void **state UNUSED)
{
	struct machinery x = {0};
	samples_all(1, 3, 4, check_on_core, &x);
	assert_int_equal(x.checked, 8 + 64 + 512);
	samples_all(2, 3, 4, check_on_core, &x);
	assert_int_equal(x.checked, 8 + 64 + 512 + 32 + 1024 + 32768);
	arena_free(x.arena);
}

/* One program with symbols for each kind of mapping, run for all values of the symbols. */
struct symbolic {
	struct machinery x;
	struct built before, after;
	struct sample last;
	bool any;
};

static bool same_kinds(const struct sample *a, const struct sample *b)
{
	bool same = a->n == b->n && a->rank == b->rank;
	for (int k = 0; same && k < a->n; k++)
		same = a->factor[k].spatial == b->factor[k].spatial;
	return same;
}

static void check_symbolic(void *arg)
{
	struct symbolic *y = arg;
	const struct setting how = {.where = ON_CORE, .type = TWIR_I64, .symbols = true};
	struct machinery *x = &y->x;
	if (!y->any) {
		machinery_fresh(x);
		y->before = mapping_program(x, &y->last, &how);
		y->after = mapping_program(x, &y->last, &how);
		lower(x, &y->after);
		twir_verify_program(x->m, y->after.program, TW_ERR_INTERNAL);
		y->any = true;
	}
	const struct arena_mark mark = arena_mark(x->arena);
	struct built *both[] = {&y->before, &y->after};
	int64_t slots = 1;
	for (int k = 0; k < y->last.n; k++) {
		for (int d = 0; d < y->last.rank; d++) {
			for (int i = 0; i < 2; i++)
				both[i]->values[k * y->last.rank + d] = y->last.factor[k].extent[d];
			if (y->last.factor[k].spatial)
				slots *= y->last.factor[k].extent[d];
		}
	}
	int64_t *want = ARENA_ARRAY(x->arena, int64_t, slots);
	const struct twtm_map *f = mapping_bound(x, &y->before);
	assert_int_equal(twtm_workers(f), slots);
	mapping_by_algebra(f, &how, slots, want);
	for (int i = 0; i < 2; i++) {
		both[i]->slots = slots;
		interpret(x, both[i], f, i ? "the lowered program" : "the interpreter", want);
	}
	arena_release(x->arena, mark);
	x->checked++;
}

static void visit_symbolic(void *arg, const struct sample *s)
{
	struct symbolic *all = arg;
	/* samples_all goes depth first, so kinds alternate: one slot for each. */
	int slot = s->rank;
	for (int k = 0; k < s->n; k++)
		slot = slot * 3 + 1 + s->factor[k].spatial;
	struct symbolic *y = &all[slot];
	assert_true(!y->any || same_kinds(&y->last, s));
	y->last = *s;
	struct tw_error e;
	if (!tw_try(&e, check_symbolic, y))
		fail_msg("symbols for %s: %s", twtm_print(y->x.arena, sample_map(y->x.arena, s)), e.text);
}

static void exhaustive_symbols(void **state UNUSED)
{
	enum { SLOTS = 81 };
	static struct symbolic all[SLOTS];
	samples_all(1, 3, 4, visit_symbolic, all);
	samples_all(2, 3, 4, visit_symbolic, all);
	int64_t checked = 0;
	for (int i = 0; i < SLOTS; i++) {
		checked += all[i].x.checked;
		arena_free(all[i].x.arena);
	}
	assert_int_equal(checked, 8 + 64 + 512 + 32 + 1024 + 32768);
}

/* Rank 2 with permuted ranks and rank 3; symbols, lanes, threads, bounds, surplus workers, projections, empty extents. */
static void sampled(void **state UNUSED)
{
	enum { SAMPLES = 100000 };
	struct machinery x = {0};
	uint64_t seed = 88172645463325252u;
	for (int i = 0; i < SAMPLES; i++) {
		const int rank = 2 + i % 2;
		const struct sample s = samples_random(&seed, rank, i % 8 == 0 ? 0 : 1, rank == 3 ? 3 : 4, i % 4 == 0);
		const struct setting how = mapping_random_setting(&seed, &s);
		check(&x, &s, &how);
	}
	assert_int_equal(x.checked, SAMPLES);
	arena_free(x.arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exhaustive),
		cmocka_unit_test(exhaustive_symbols),
		cmocka_unit_test(sampled),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
