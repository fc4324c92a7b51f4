/* rooms: base tmap target ir pass cgen backend/cpu */
/* test_mapping_emitted.c: the machine code of a mapping does what the algebra says. Samples of every kind (rank, factors, levels, symbols,
 * bounds, instruction set) go through all passes, the emitter and the C compiler, in batches, and run.
 *
 * One sample of each kind; TILEWRIGHT_LONG_TESTS in the environment takes 5,000 in all. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "backend/backend.h"
#include "cgen/cgen.h"
#include "mapping_program.h"
#include "pass/pass.h"

#define UNUSED __attribute__((unused))

enum { BATCH = 144, LONG_SAMPLES = 5000 };

struct piece {
	struct sample sample;
	struct setting how;
	struct built built;
	const struct twtm_map *map;
	int64_t scratch;
};

struct batch {
	struct machinery x;
	struct tw_target target;
	struct tw_toolchain toolchain;
	int n;
	struct piece piece[BATCH];
	struct tw_object code;
	int64_t checked;
};

/* Splits `lanes` over the dimensions of the last factor. */
static void set_lanes(uint64_t *seed, struct sample *s, int64_t lanes)
{
	struct sample_factor *f = &s->factor[s->n - 1];
	f->spatial = true;
	for (int d = 0; d < s->rank; d++)
		f->extent[d] = 1;
	for (; lanes > 1; lanes /= 2)
		f->extent[mapping_pick(seed, s->rank)] *= 2;
}

/* A sample of kind number `kind`: rank 1..3, 1..3 factors, core alone or core and lanes, symbols or constants, bounds or none. */
static void choose(uint64_t *seed, int kind, const struct tw_target *t, struct piece *p)
{
	const int rank = 1 + kind % 3, factors = 1 + kind / 3 % 3;
	do {
		p->sample = samples_random(seed, rank, 1, rank == 3 ? 3 : 4, true);
	} while (p->sample.n != factors);
	p->how = mapping_random_setting(seed, &p->sample);
	p->how.type = TWIR_I32;
	p->how.where = kind / 9 % 2 ? ON_CORE_LANE : ON_CORE;
	p->how.symbols = kind / 18 % 2;
	p->how.within = kind / 36 % 2;
	p->how.surplus = mapping_pick(seed, 3);
	if (p->how.where == ON_CORE_LANE)
		set_lanes(seed, &p->sample, t->lanes);
}
enum { KINDS = 3 * 3 * 2 * 2 * 2 };

static void build_all(void *arg)
{
	struct batch *b = arg;
	struct machinery *x = &b->x;
	struct twir_program **programs = ARENA_ARRAY(x->arena, struct twir_program *, b->n);
	for (int i = 0; i < b->n; i++) {
		struct piece *p = &b->piece[i];
		p->built = mapping_program(x, &p->sample, &p->how);
		p->map = mapping_bound(x, &p->built);
		tw_lower(x->m, p->built.program, &b->target, NULL, NULL);
		programs[i] = p->built.program;
		const struct twir_binding binding = {p->built.nsymbols, p->built.symbols, p->built.values};
		p->scratch = twir_eval_index(cgen_scratch(x->m, p->built.program), &binding);
	}
	struct tw_error e;
	if (cpu_compile(x->arena, x->m, b->n, programs, &b->target, &b->toolchain, 2, NULL, NULL, &b->code, &e))
		tw_raise_error(&e);
}

static void *load(const struct tw_object *code)
{
	char path[64];
	const int fd = memfd_create("kernels", MFD_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, code->object, code->object_bytes), code->object_bytes);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library)
		fail_msg("%s", dlerror());
	close(fd);
	return library;
}

/* The kernel's sym[]: values by the names of the program's symbols. */
static void symbol_values(const struct built *b, int64_t *values)
{
	for (int i = 0; i < b->program->nsymbols; i++) {
		for (int k = 0; k < b->nsymbols; k++) {
			if (b->symbols[k] == b->program->symbols[i])
				values[i] = b->values[k];
		}
	}
}

static void run_piece(struct batch *b, struct piece *p, void *function)
{
	typedef void kernel(int64_t core, void *const *buf, const int64_t *sym, void *scratch);
	kernel *run;
	memcpy(&run, &function, sizeof(run));
	const int64_t slots = p->built.slots;
	const int64_t lanes = p->how.where == ON_CORE_LANE ? b->target.lanes : 1;
	int64_t *want = ARENA_ARRAY(b->x.arena, int64_t, slots);
	int32_t *got = ARENA_ARRAY(b->x.arena, int32_t, slots + 1);
	int64_t symbols[SAMPLE_FACTORS * 3] = {0};
	mapping_by_algebra(p->map, &p->how, slots, want);
	symbol_values(&p->built, symbols);
	memset(got, 0xff, sizeof(*got) * (size_t)(slots + 1));
	void *buffers[] = {got};
	for (int64_t core = 0; core < slots / lanes; core++) {
		/* What lay there before must not matter. */
		void *scratch = arena_alloc(b->x.arena, (size_t)p->scratch + 64);
		memset(scratch, 0xa5, (size_t)p->scratch + 64);
		run(core, buffers, symbols, scratch);
	}
	for (int64_t w = 0; w < slots; w++) {
		if (got[w] == want[w])
			continue;
		print_error("%s\n", twir_print_program(b->x.arena, b->x.m, p->built.program));
		fail_msg("%s (%s, levels %d, symbols %d, within %d): worker %lld did %d, not %lld",
			 twtm_print(b->x.arena, p->map), tw_isa_name(b->target.isa), (int)p->how.where, p->how.symbols,
			 p->how.within, (long long)w, (int)got[w], (long long)want[w]);
	}
	assert_int_equal(got[slots], -1);
	b->checked++;
}

static void run_batch(struct batch *b, uint64_t *seed, int first, int n)
{
	machinery_fresh(&b->x);
	b->n = n;
	for (int i = 0; i < n; i++)
		choose(seed, (first + i) % KINDS, &b->target, &b->piece[i]);
	struct tw_error e;
	if (!tw_try(&e, build_all, b))
		fail_msg("%s: %s", tw_isa_name(b->target.isa), e.text);
	assert_int_equal(b->code.nkernels, n);
	void *library = load(&b->code);
	for (int i = 0; i < n; i++) {
		void *function = dlsym(library, b->code.names[i]);
		assert_non_null(function);
		run_piece(b, &b->piece[i], function);
	}
	dlclose(library);
}

static void host(void *arg)
{
	tw_target_host(arg);
}

static void emitted(void **state UNUSED)
{
	static struct batch b;
	struct tw_error e;
	if (tw_toolchain_find(&b.toolchain, &e))
		fail_msg("%s", e.text);
	if (!tw_try(&e, host, &b.target))
		fail_msg("%s", e.text);
	int sets = 0;
	for (int isa = 0; isa < TW_ISA_COUNT; isa++)
		sets += tw_isa_runs_here((enum tw_isa)isa);
	const int each = getenv("TILEWRIGHT_LONG_TESTS") ? (LONG_SAMPLES + sets - 1) / sets : KINDS;
	uint64_t seed = 424242424242u;
	for (int isa = 0; isa < TW_ISA_COUNT; isa++) {
		if (!tw_isa_runs_here((enum tw_isa)isa))
			continue;
		tw_target_with_isa(&b.target, (enum tw_isa)isa);
		for (int at = 0; at < each; at += BATCH)
			run_batch(&b, &seed, at, each - at < BATCH ? each - at : BATCH);
	}
	assert_int_equal(b.checked, (int64_t)each * sets);
	arena_free(b.x.arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(emitted),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
