/* rooms: base tmap target ir pass cgen backend/cpu */
/* The programs of test/pass/programs through the emitter: interpreted as written, then lowered, compiled and run; the
 * same bits, whatever the instruction set and compiler (a NaN equals any NaN). Warnings are errors, undefined
 * behaviour traps, and every buffer ends at an unreadable page. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "cgen_run.h"
#include "pass_support.h"

enum { MAX_RUNS = 24, MAX_PARAMS = 16 };

struct run { /* one set of sizes */
	int64_t sym[16];
	void *buf[MAX_PARAMS];
	void *expected[MAX_PARAMS];
	int64_t bytes[MAX_PARAMS];
};

struct subject {
	const char *file, *text;
	struct twir_program *p;
	int nruns;
	struct run runs[MAX_RUNS];
};

/* A module of programs that are compiled together: those whose names do not clash. */
struct batch {
	struct tw_arena *arena;
	struct twir_module *m;
	struct tw_target target;
	struct subject subjects[64];
	struct twir_program *programs[64];
	int n;
};

static uint64_t next(uint64_t *state)
{
	*state += 0x9e3779b97f4a7c15u;
	uint64_t z = *state;
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static double real(uint64_t *state)
{
	static const double odd[] = {0.0, -0.0, 1.0, -1.0, 1e30, -1e-30, INFINITY, -INFINITY, NAN};
	const uint64_t r = next(state);
	return r % 32 == 0 ? odd[(r >> 8) % TW_COUNT(odd)]
			   : (double)(int64_t)(r >> 20) / (double)((int64_t)1 << 42) - 2.0;
}

static void fill(void *at, enum twir_scalar type, int64_t n, uint64_t limit, uint64_t *state)
{
	for (int64_t i = 0; i < n; i++) {
		uint64_t r = next(state);
		const float f = (float)real(state);
		const double d = real(state);
		if (limit > 0)
			r %= limit;
		if (type == TWIR_F32) {
			((float *)at)[i] = f;
		} else if (type == TWIR_F64) {
			((double *)at)[i] = d;
		} else if (type == TWIR_F16 || type == TWIR_BF16) {
			((uint16_t *)at)[i] = type == TWIR_F16 ? tw_f32_to_f16(f) : tw_f32_to_bf16(f);
		} else if (type == TWIR_I1) {
			((uint8_t *)at)[i] = r & 1;
		} else {
			const int size = twir_scalar_bytes(type);
			memcpy((char *)at + i * size, &r, (size_t)size);
		}
	}
}

/* Memory that ends where an unreadable page begins (64 bytes of it at the most are slack for alignment). */
static void *guarded(int64_t bytes, int64_t align)
{
	const int64_t page = sysconf(_SC_PAGESIZE), size = (bytes + page - 1) / page * page;
	char *at = mmap(NULL, (size_t)(size + page), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(at != MAP_FAILED);
	assert_int_equal(mprotect(at + size, (size_t)page, PROT_NONE), 0);
	return at + (size - bytes) / align * align;
}

static int64_t values_of(struct tw_arena *a, const char *text, const char *symbol, int64_t *values)
{
	const char *sizes = support_directive(a, text, "sizes");
	const char *key = arena_printf(a, "%s=", symbol);
	int n = 0;
	for (const char *at = sizes; at && (at = strstr(at, key)); at += strlen(key)) {
		if (at != sizes && at[-1] != ' ')
			continue;
		char *end = (char *)(uintptr_t)at + strlen(key) - 1;
		do
			values[n++] = strtoll(end + 1, &end, 10);
		while (*end == ',' && n < 32);
		break;
	}
	return n;
}

static void interpret(struct batch *all, struct subject *s, struct run *r, uint64_t seed)
{
	const struct twir_program *p = s->p;
	const struct twir_binding b = {p->nsymbols, p->symbols, r->sym};
	struct twir_data data[MAX_PARAMS];
	for (int i = 0; i < p->nparams; i++) {
		const struct twir_tensor *t = p->params[i];
		const int size = twir_scalar_bytes(t->type);
		const int64_t n = twir_eval_index(twir_tensor_elements(all->m, t), &b);
		const char *limit =
			support_directive(all->arena, s->text, arena_printf(all->arena, "limit %s", t->name));
		r->bytes[i] = twir_storage_bytes(t->type, n);
		r->buf[i] = guarded(r->bytes[i], size);
		data[i] = (struct twir_data){r->buf[i], n};
		if (t->scope == TWIR_IN)
			fill(r->buf[i], t->type, twir_is_packed(t->type) ? r->bytes[i] : n,
			     limit ? strtoull(limit, NULL, 10) : 0, &seed);
		else
			memset(r->buf[i], 0xa5, (size_t)r->bytes[i]);
	}
	twir_interpret(all->m, p, &b, data);
	for (int i = 0; i < p->nparams; i++)
		if (p->params[i]->scope == TWIR_OUT) {
			r->expected[i] = arena_copy(all->arena, r->buf[i], (size_t)r->bytes[i]);
			memset(r->buf[i], 0xa5, (size_t)r->bytes[i]);
		}
}

/* A sample of the combinations of sizes. */
static void choose_sizes(struct batch *all, struct subject *s)
{
	int64_t values[16][32], n[16];
	uint64_t state = 7;
	int64_t combinations = 1;
	for (int k = 0; k < s->p->nsymbols; k++) {
		n[k] = values_of(all->arena, s->text, s->p->symbols[k]->name, values[k]);
		assert_true(n[k] > 0);
		combinations *= n[k];
	}
	s->nruns = combinations < MAX_RUNS ? (int)combinations : MAX_RUNS;
	for (int i = 0; i < s->nruns; i++) {
		int64_t c = combinations <= MAX_RUNS ? i : (int64_t)(next(&state) % (uint64_t)combinations);
		for (int k = 0; k < s->p->nsymbols; k++) {
			s->runs[i].sym[k] = values[k][c % n[k]];
			c /= n[k];
		}
		interpret(all, s, &s->runs[i], 100 + (uint64_t)i);
	}
}

struct loading {
	struct batch *batch;
	const char *file;
};

static void load(void *arg)
{
	const struct loading *l = arg;
	struct batch *all = l->batch;
	struct subject *s = &all->subjects[all->n];
	const char *lanes = arena_printf(all->arena, "%d", all->target.lanes);
	s->file = l->file;
	s->text = support_read(all->arena, arena_printf(all->arena, TW_SOURCE_DIR "/test/pass/programs/%s", l->file));
	s->text = support_replace(all->arena, s->text, "@L", lanes);
	twir_parse(all->m, l->file, s->text);
	s->p = all->m->programs.at[all->m->programs.n - 1];
	twir_program_symbols(all->m, s->p);
	choose_sizes(all, s);
	tw_lower(all->m, s->p, &all->target, NULL, NULL);
	twir_program_symbols(all->m, s->p);
	all->programs[all->n++] = s->p;
}

static bool same(enum twir_scalar t, const void *a, const void *b, int64_t i)
{
	const int size = twir_scalar_bytes(t);
	const char *x = (const char *)a + i * size, *y = (const char *)b + i * size;
	if (memcmp(x, y, (size_t)size) == 0)
		return true;
	float f, g;
	double d, e;
	switch (t) {
	case TWIR_F32:
		memcpy(&f, x, 4);
		memcpy(&g, y, 4);
		return isnan(f) && isnan(g);
	case TWIR_F64:
		memcpy(&d, x, 8);
		memcpy(&e, y, 8);
		return isnan(d) && isnan(e);
	case TWIR_F16:
		return isnan(tw_f16_to_f32(*(const uint16_t *)x)) && isnan(tw_f16_to_f32(*(const uint16_t *)y));
	case TWIR_BF16:
		return isnan(tw_bf16_to_f32(*(const uint16_t *)x)) && isnan(tw_bf16_to_f32(*(const uint16_t *)y));
	default:
		return false;
	}
}

static int run_subject(struct batch *all, const struct compiled *c, int k)
{
	struct subject *s = &all->subjects[k];
	int failed = 0;
	for (int r = 0; r < s->nruns && !failed; r++) {
		struct run *run = &s->runs[r];
		cgen_call(c, k, all->m, s->p, run->buf, run->sym);
		for (int i = 0; i < s->p->nparams && !failed; i++) {
			const struct twir_tensor *t = s->p->params[i];
			const int size = twir_scalar_bytes(t->type);
			for (int64_t e = 0; t->scope == TWIR_OUT && e < run->bytes[i] / size; e++)
				if (!same(t->type, run->buf[i], run->expected[i], e)) {
					fprintf(stderr, "%s, %s, sizes %d: element %lld of %s differs\n", s->file,
						tw_isa_name(all->target.isa), r, (long long)e, t->name);
					failed = 1;
					break;
				}
			if (t->scope == TWIR_OUT)
				memset(run->buf[i], 0xa5, (size_t)run->bytes[i]);
		}
	}
	return failed;
}

static struct batch *new_batch(struct tw_arena *a, enum tw_isa isa, int lanes)
{
	struct batch *b = ARENA_NEW(a, struct batch);
	b->arena = a;
	b->m = twir_module_new(a);
	b->target = support_target(isa, lanes);
	b->target.has_fma = isa == TW_ISA_AVX2 || isa == TW_ISA_AVX512;
	return b;
}

static int run_batch(struct batch *b, const char *const *commands)
{
	int failed = 0;
	for (int i = 0; commands[i] && b->n; i++) {
		struct tw_toolchain tc;
		struct compiled c;
		if (!cgen_compiler(&tc, commands[i])) {
			print_message("no %s here\n", commands[i]);
			continue;
		}
		cgen_compile(&c, b->arena, b->m, b->n, b->programs, &b->target, &tc);
		for (int k = 0; k < b->n; k++)
			failed += run_subject(b, &c, k);
		cgen_close(&c);
	}
	return failed;
}

static void check(enum tw_isa isa, int lanes, const char *const *commands)
{
	if (!cgen_runs_here(isa))
		return;
	struct tw_arena *a = arena_new();
	char **names;
	const int n = support_list(a, TW_SOURCE_DIR "/test/pass/programs", &names);
	struct batch *b = new_batch(a, isa, lanes);
	int failed = 0;
	for (int i = 0; i < n; i++) {
		struct tw_error e;
		if (tw_try(&e, load, &(struct loading){b, names[i]}))
			continue;
		failed += run_batch(b, commands); /* a name is taken: begin another module */
		b = new_batch(a, isa, lanes);
		if (!tw_try(&e, load, &(struct loading){b, names[i]}))
			fail_msg("%s", e.text);
	}
	failed += run_batch(b, commands);
	arena_free(a);
	assert_true(n > 20);
	assert_int_equal(failed, 0);
}

#define STRICT " -Wall -Wextra -Werror"
#define TRAPS  " -fsanitize=undefined -fsanitize-undefined-trap-on-error"

static void avx512(void **state)
{
	(void)state;
	check(TW_ISA_AVX512, 16, (const char *const[]){"gcc" STRICT, "clang" STRICT, NULL});
}

static void avx2(void **state)
{
	(void)state;
	check(TW_ISA_AVX2, 8, (const char *const[]){"gcc" STRICT, NULL});
}

static void generic(void **state)
{
	(void)state;
	check(TW_ISA_GENERIC, 4, (const char *const[]){"gcc" STRICT, NULL});
}

static void scalar(void **state)
{
	(void)state;
	check(TW_ISA_SCALAR, 16, (const char *const[]){"gcc" STRICT TRAPS, NULL});
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(avx512),
		cmocka_unit_test(avx2),
		cmocka_unit_test(generic),
		cmocka_unit_test(scalar),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
