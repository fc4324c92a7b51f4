/* rooms: base tmap ir */
/* test_simplify_types.c: the simplifier on expressions of all scalar types, vectors too: random ones over loads of
 * extreme values have the same bits before and after, in the interpreter. And programs of test/ir: simplifying twice
 * changes nothing. */
#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "ir/ir.h"

#define UNUSED __attribute__((unused))
#define CELLS  16
#define ROUNDS 1000
#define EXPRS  40

static uint64_t seed = 0x2545f4914f6cdd1d;

static uint64_t next_random(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static const enum twir_scalar types[] = {TWIR_I1,  TWIR_I8,  TWIR_U8,	 TWIR_I16, TWIR_I32, TWIR_U32,
					 TWIR_I64, TWIR_U64, TWIR_INDEX, TWIR_F32, TWIR_F64};

struct world {
	struct tw_arena *a;
	struct twir_module *m;
	struct twir_facts f;
	struct twir_tensor *in[TW_COUNT(types)];
	char data[TW_COUNT(types)][CELLS * 8];
	int lanes;
};

static int place_of(enum twir_scalar s)
{
	for (int k = 0; k < TW_COUNT(types); k++)
		if (types[k] == s)
			return k;
	fail();
	return 0;
}

static enum twir_scalar any_type(void)
{
	return types[next_random() % (uint64_t)TW_COUNT(types)];
}

static const struct twir_expr *leaf(struct world *w, enum twir_scalar s)
{
	static const double consts[] = {0, 1, -1, 2, 3, 7, 8, 100, 127, -128, 1e6};
	if (next_random() % 3 == 0)
		return twir_const_of(w->m, twir_vector_type(s, w->lanes),
				     consts[next_random() % (uint64_t)TW_COUNT(consts)]);
	if (s == TWIR_INDEX) /* small: index arithmetic may not overflow */
		return twir_cast(w->m, TWIR_INDEX, leaf(w, next_random() % 2 ? TWIR_I8 : TWIR_U8));
	const struct twir_expr *at = twir_index(w->m, (int64_t)(next_random() % (uint64_t)(CELLS - w->lanes + 1)));
	return w->lanes == 1 ? twir_load(w->m, w->in[place_of(s)], 1, &at)
			     : twir_load_wide(w->m, w->in[place_of(s)], 1, &at, w->lanes, NULL, NULL);
}

static const struct twir_expr *make(struct world *w, enum twir_scalar s, int depth)
{
	static const enum twir_kind numeric[] = {TWIR_Add, TWIR_Sub, TWIR_Mul,	  TWIR_Div,
						 TWIR_Min, TWIR_Max, TWIR_MinNum, TWIR_MaxNum};
	static const enum twir_kind ints[] = {TWIR_Mod, TWIR_And, TWIR_Or,	TWIR_Xor,
					      TWIR_Shl, TWIR_Shr, TWIR_Ceildiv, TWIR_Roundup};
	static const enum twir_kind compare[] = {TWIR_Lt, TWIR_Le, TWIR_Eq, TWIR_Ne};
	static const enum twir_kind logic[] = {TWIR_And, TWIR_Or, TWIR_Xor};
	struct twir_module *m = w->m;
	if (depth == 0)
		return leaf(w, s);
	const struct twir_expr *a, *b;
	switch (next_random() % 8) {
	case 0:
		return leaf(w, s);
	case 1: {
		const enum twir_scalar from = any_type();
		if (s == TWIR_INDEX) /* as above */
			return twir_cast(m, s, make(w, next_random() % 2 ? TWIR_I16 : TWIR_U8, depth - 1));
		return twir_cast(m, s, make(w, from, depth - 1));
	}
	case 2:
		a = make(w, s, depth - 1);
		b = make(w, s, depth - 1);
		return next_random() % 2 && w->lanes == 1 ? twir_cond(m, make(w, TWIR_I1, depth - 1), a, b)
							  : twir_select(m, make(w, TWIR_I1, depth - 1), a, b);
	case 3:
		a = make(w, s, depth - 1);
		if (s == TWIR_I1)
			return twir_not(m, a);
		return twir_unary(m, next_random() % 2 ? TWIR_Neg : TWIR_Abs, a);
	default:
		break;
	}
	if (s == TWIR_I1) {
		if (next_random() % 3 == 0) {
			a = make(w, s, depth - 1);
			return twir_binary(m, logic[next_random() % 3], a, make(w, s, depth - 1));
		}
		enum twir_scalar of = any_type();
		of = of == TWIR_I1 ? TWIR_I32 : of;
		a = make(w, of, depth - 1);
		return twir_binary(m, compare[next_random() % 4], a, make(w, of, depth - 1));
	}
	enum twir_kind k = numeric[next_random() % (uint64_t)TW_COUNT(numeric)];
	if (twir_is_int(s) && next_random() % 2)
		k = ints[next_random() % (uint64_t)TW_COUNT(ints)];
	if (s == TWIR_INDEX && (k == TWIR_Shl || k == TWIR_Roundup))
		k = TWIR_Mod;
	a = make(w, s, depth - 1);
	return twir_binary(m, k, a, make(w, s, depth - 1));
}

static void fill(struct world *w)
{
	static const double floats[] = {0,	  -0.0,	     1,	  -1,	 1.5,	-2.5, 1e30, -1e30,
					INFINITY, -INFINITY, NAN, 1e-40, 127.5, 3,    -7,   65536};
	for (int k = 0; k < TW_COUNT(types); k++)
		for (int c = 0; c < CELLS; c++) {
			char *at = w->data[k] + (size_t)c * (size_t)twir_scalar_bytes(types[k]);
			const int64_t edges[] = {0, 1, -1, INT64_MIN, INT64_MAX, INT32_MIN, 0x7f, 0x80, 7};
			const int64_t v = edges[next_random() % (uint64_t)TW_COUNT(edges)];
			const float f = (float)floats[c];
			if (types[k] == TWIR_F32)
				memcpy(at, &f, sizeof(f));
			else if (types[k] == TWIR_F64)
				memcpy(at, &floats[c], sizeof(double));
			else if (types[k] == TWIR_I1)
				*at = v & 1;
			else
				memcpy(at, &v, (size_t)twir_scalar_bytes(types[k]));
		}
}

/* One program that stores EXPRS expressions as they are and simplified. */
static void do_round(void *arg)
{
	struct world *w = arg;
	struct twir_module *m = w->m = twir_module_new(w->a);
	const struct twir_expr *cells = twir_index(m, CELLS), *one = twir_index(m, 1);
	struct twir_program *p = ARENA_NEW(w->a, struct twir_program);
	struct twir_data data[TW_COUNT(types) * 3];
	twir_facts_init(&w->f, m);
	p->name = "p";
	p->nlevels = 1;
	p->levels[0] = TWIR_CORE;
	p->extents[0] = one;
	p->nparams = 3 * TW_COUNT(types);
	p->params = ARENA_ARRAY(w->a, struct twir_tensor *, p->nparams);
	fill(w);
	const struct twir_expr *room = twir_index(m, EXPRS * w->lanes);
	for (int k = 0; k < TW_COUNT(types); k++) {
		const size_t bytes = (size_t)EXPRS * (size_t)w->lanes * (size_t)twir_scalar_bytes(types[k]);
		w->in[k] = p->params[3 * k] = twir_tensor_new(m, "in", types[k], 1, &cells, TWIR_IN);
		p->params[3 * k + 1] = twir_tensor_new(m, "plain", types[k], 1, &room, TWIR_OUT);
		p->params[3 * k + 2] = twir_tensor_new(m, "simple", types[k], 1, &room, TWIR_OUT);
		data[3 * k] = (struct twir_data){w->data[k], CELLS};
		data[3 * k + 1] = (struct twir_data){arena_alloc(w->a, bytes), EXPRS * w->lanes};
		data[3 * k + 2] = (struct twir_data){arena_alloc(w->a, bytes), EXPRS * w->lanes};
	}
	const struct twir_expr *e[EXPRS], *s[EXPRS];
	int of[EXPRS];
	for (int n = 0; n < EXPRS; n++) {
		const struct twir_expr *at = twir_index(m, n * w->lanes);
		of[n] = place_of(any_type());
		e[n] = make(w, types[of[n]], 4);
		s[n] = twir_simplify(&w->f, e[n]);
		if (twir_simplify(&w->f, s[n]) != s[n])
			tw_raise(TW_ERR_INTERNAL, "not idempotent: %s", twir_print_expr(w->a, e[n]));
		twir_append(&p->body, twir_store(m, p->params[3 * of[n] + 1], 1, &at, e[n], NULL));
		twir_append(&p->body, twir_store(m, p->params[3 * of[n] + 2], 1, &at, s[n], NULL));
	}
	twir_interpret(m, p, NULL, data);
	for (int n = 0; n < EXPRS; n++)
		for (int l = 0; l < w->lanes; l++) {
			const size_t bytes = (size_t)twir_scalar_bytes(types[of[n]]),
				     at = ((size_t)n * (size_t)w->lanes + (size_t)l) * bytes;
			const char *x = (const char *)data[3 * of[n] + 1].at + at,
				   *y = (const char *)data[3 * of[n] + 2].at + at;
			float fx = 0, fy = 0;
			double dx = 0, dy = 0;
			if (types[of[n]] == TWIR_F32) {
				memcpy(&fx, x, sizeof(fx));
				memcpy(&fy, y, sizeof(fy));
			} else if (types[of[n]] == TWIR_F64) {
				memcpy(&dx, x, sizeof(dx));
				memcpy(&dy, y, sizeof(dy));
			}
			if (memcmp(x, y, bytes) != 0 && !(isnan(fx) && isnan(fy)) && !(isnan(dx) && isnan(dy)))
				tw_raise(TW_ERR_INTERNAL, "lane %d of\n%s\ndiffers from\n%s", l,
					 twir_print_expr(w->a, e[n]), twir_print_expr(w->a, s[n]));
		}
}

static void rounds(int lanes)
{
	for (int n = 0; n < ROUNDS; n++) {
		struct world w = {.a = arena_new(), .lanes = lanes};
		struct tw_error error;
		if (!tw_try(&error, do_round, &w)) {
			print_error("%s\n", error.text);
			fail();
		}
		arena_free(w.a);
	}
}

static void scalars_keep_their_bits(void **state UNUSED)
{
	rounds(1);
}

static void vectors_keep_their_bits(void **state UNUSED)
{
	rounds(8);
}

struct file {
	struct tw_arena *a;
	const char *text;
};

static void do_file(void *arg)
{
	struct file *f = arg;
	struct twir_module *m = twir_module_new(f->a);
	twir_parse(m, "file", f->text);
	for (int k = 0; k < m->programs.n; k++) {
		struct twir_program *p = m->programs.at[k];
		twir_simplify_program(m, p);
		twir_verify_program(m, p, TW_ERR_INTERNAL);
		const char *once = twir_print_program(f->a, m, p);
		twir_simplify_program(m, p);
		const char *twice = twir_print_program(f->a, m, p);
		if (strcmp(once, twice) != 0)
			tw_raise(TW_ERR_INTERNAL, "%s\nbecomes\n%s", once, twice);
	}
}

static void programs_are_simplified_once(void **state UNUSED)
{
	DIR *d = opendir("test/ir");
	assert_non_null(d);
	int files = 0;
	for (const struct dirent *entry; (entry = readdir(d));) {
		if (!strstr(entry->d_name, ".tw"))
			continue;
		struct tw_arena *a = arena_new();
		struct tw_buf b;
		struct tw_error error;
		char piece[4096];
		FILE *in = fopen(arena_printf(a, "test/ir/%s", entry->d_name), "rb");
		assert_non_null(in);
		buf_init(&b, a);
		for (size_t n; (n = fread(piece, 1, sizeof(piece), in)) > 0;)
			buf_bytes(&b, piece, n);
		fclose(in);
		struct file f = {a, b.at};
		if (!tw_try(&error, do_file, &f)) {
			print_error("%s: %s\n", entry->d_name, error.text);
			fail();
		}
		arena_free(a);
		files++;
	}
	closedir(d);
	assert_true(files >= 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(scalars_keep_their_bits),
		cmocka_unit_test(vectors_keep_their_bits),
		cmocka_unit_test(programs_are_simplified_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
