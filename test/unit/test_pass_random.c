/* rooms: base tmap target ir pass */
/* Random programs, interpreted before lowering and after every pass: the same bits. Four forms: elementwise with
 * random mappings, row reductions with lane partials, column folds in mirrored registers, and lane-private folds in
 * loops inside the region; their values mix broadcast, transposed, strided, reversed, gathered, wrapped and guarded
 * loads. Arguments: SEED prints the stages of that program; else COUNT=. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "pass_support.h"

struct gen {
	struct tw_arena *a;
	uint64_t state;
	int lets;
	struct tw_buf *let_text;
	const char *indent;
};

static unsigned pick(struct gen *g, unsigned n)
{
	g->state = g->state * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(g->state >> 33) % n;
}

/* A load, or a guarded one, valid wherever i < M and j < N. */
static const char *load(struct gen *g)
{
	struct tw_arena *a = g->a;
	const unsigned s = pick(g, 4);
	switch (pick(g, 17)) {
	case 0:
		return "B[j]";
	case 1:
		return "C[j, i]";
	case 2:
		return arena_printf(a, "D[2 * j + %u]", pick(g, 3));
	case 3:
		return arena_printf(a, "D[j + %u]", s);
	case 4:
		return "A[M - 1 - i, N - 1 - j]";
	case 5:
		return "T[index(I[j])]";
	case 6:
		return arena_printf(a, "(j + %u < N ? A[i, j + %u] : 0.5)", s, s);
	case 7:
		return arena_printf(a, "(%u <= j ? A[i, j - %u] : B[j])", s, s);
	case 8:
		return "(E[i, j] ? B[N - 1 - j] : A[i, j])";
	case 9:
		return "B[(3 * j + i) % N]";
	case 10:
		return "A[(i + j) % M, j]";
	case 11:
		return "D[j / 2]";
	case 12:
		return arena_printf(a, "(%u <= i + j and i + j < N + %u ? B[i + j - %u] : 1.0)", s, s, s);
	case 13:
		return "T[i % 7]";
	case 14:
		return arena_printf(a, "(A[i, j] < B[j] ? (j < %u ? T[j] : 2.0) : D[%u])", 1 + pick(g, 7), s);
	case 15:
		return "f32(I[j] * i64(i))";
	default:
		return "A[i, j]";
	}
}

static const char *value(struct gen *g, int depth)
{
	struct tw_arena *a = g->a;
	if (depth == 0)
		return load(g);
	const char *x = value(g, depth - 1), *y = value(g, (int)pick(g, (unsigned)depth));
	switch (pick(g, 11)) {
	case 0:
		return arena_printf(a, "(%s + %s)", x, y);
	case 1:
		return arena_printf(a, "(%s - %s)", x, y);
	case 2:
		return arena_printf(a, "(%s * %s)", x, y);
	case 3:
		return arena_printf(a, "max(%s, %s)", x, y);
	case 4:
		return arena_printf(a, "minnum(%s, %s)", x, y);
	case 5:
		return arena_printf(a, "fma(%s, %s, 0.25)", x, y);
	case 6:
		return arena_printf(a, "sqrt(abs(%s))", x);
	case 7:
		return arena_printf(a, "(%s < %s ? %s : 0.125)", x, y, y);
	case 8:
		return arena_printf(a, "floor(%s * 4.0)", x);
	case 9:
		if (g->let_text) {
			const int n = g->lets++;
			buf_printf(g->let_text, "%slet x%d = %s;\n", g->indent, n, x);
			return arena_printf(a, "(x%d * x%d)", n, n);
		}
		return x;
	default:
		return arena_printf(a, "f32(f64(%s) * 0.1)", x);
	}
}

static const char *map2(struct gen *g, int lanes, const char **cores)
{
	struct tw_arena *a = g->a;
	const int p = 1 + (int)pick(g, 3), q = 1 + (int)pick(g, 3);
	const char *rank = pick(g, 2) ? "" : ", ranks = [1, 0]";
	int rows = p, columns = q * lanes;
	const char *tail;
	switch (pick(g, 4)) {
	case 0:
		/* a blocked dimension: core workers, a repeat, core workers again */
		rows = 2 * p;
		*cores = arena_printf(a, "ceil_div(M, %d) * 2 * ceil_div(N, %d)", rows, columns);
		return arena_printf(
			a,
			"spatial(ceil_div(M, %d), ceil_div(N, %d)) * repeat(%d, %d%s) * spatial(2, 1) * spatial(1, %d)",
			rows, columns, p, q, rank, lanes);
	case 1:
		rows = 2 * p;
		columns = q * lanes / 2;
		tail = arena_printf(a, "repeat(%d, %d%s) * spatial(2, %d%s)", p, q, rank, lanes / 2, rank);
		break;
	case 2:
		rows = 2 * p;
		tail = arena_printf(a, "repeat(%d, 1) * repeat(2, %d%s) * spatial(1, %d)", p, q, rank, lanes);
		break;
	default:
		tail = arena_printf(a, "repeat(%d, %d%s) * spatial(1, %d)", p, q, rank, lanes);
	}
	*cores = arena_printf(a, "ceil_div(M, %d) * ceil_div(N, %d)", rows, columns);
	return arena_printf(a, "spatial(ceil_div(M, %d), ceil_div(N, %d)) * %s", rows, columns, tail);
}

static const char *program(struct gen *g, int lanes)
{
	struct tw_arena *a = g->a;
	struct tw_buf lets, b;
	buf_init(&b, a);
	buf_init(&lets, a);
	buf_puts(&lets, "");
	buf_puts(&b, "# limit I: 7\nsymbol M, N;\n\nprogram random(A: f32[M, N], B: f32[N], C: f32[N, M], D: f32[2 * N "
		     "+ 3], "
		     "T: f32[7], I: i64[N], E: i1[M, N], out Y: f32[M, N], out Z: f32[M], out W: f32[N])\n");
	const char *cores;
	const unsigned form = pick(g, 4);
	if (form == 0) {
		const char *map = map2(g, lanes, &cores);
		g->let_text = &lets;
		g->indent = "    ";
		const char *v = value(g, 3);
		buf_printf(&b, "  launch core(%s%s), lane(%d)\n{\n", cores, pick(g, 3) ? "" : " + 1", lanes);
		buf_printf(&b, "  for (i, j) in %s on (core, lane) within (M, N) {\n%s", map, lets.at);
		if (pick(g, 3))
			buf_printf(&b, "    Y[i, j] = %s;\n", v);
		else
			buf_printf(&b,
				   "    if %s < A[i, j] {\n      Y[i, j] = %s;\n    } else {\n      Y[i, j] = %s;\n    "
				   "}\n",
				   load(g), v, load(g));
		buf_puts(&b, "  }\n}\n");
		return b.at;
	}
	static const char *const op[] = {"s[%s] + %s", "max(s[%s], %s)", "minnum(s[%s], %s)",
					 "fma(%2$s, 0.5, s[%1$s])"};
	static const char *const reduce[] = {"add", "max", "minnum", "add"};
	const unsigned k = pick(g, 4);
	g->let_text = &lets;
	g->indent = "      ";
	const char *v = value(g, 2);
	if (form == 1) {
		buf_printf(&b, "  launch core(M), lane(%d)\n{\n  for (i) in spatial(M) on core {\n", lanes);
		buf_printf(&b, "    register s: f32[%d] mirrors spatial(%d);\n", lanes, lanes);
		buf_printf(&b, "    for (l) in spatial(%d) on lane {\n      s[l] = 0.0;\n    }\n", lanes);
		buf_printf(
			&b,
			"    for (j) in repeat(ceil_div(N, %d)) * spatial(%d) on lane within (N) {\n%s      s[lane] = ",
			lanes, lanes, lets.at);
		buf_puts(&b, arena_printf(a, op[k], "lane", v));
		buf_printf(&b, ";\n    }\n    Z[i] = reduce(%s, s);\n  }\n}\n", reduce[k]);
	} else if (form == 2) {
		const int q = 1 + (int)pick(g, 3), step = q * lanes;
		buf_printf(&b, "  launch core(ceil_div(N, %d)), lane(%d)\n{\n", step, lanes);
		buf_printf(&b, "  map tile = repeat(%d) * spatial(%d);\n", q, lanes);
		buf_printf(&b, "  for (c) in spatial(ceil_div(N, %d)) on core {\n    let j0 = %d * c;\n", step, step);
		const bool split = pick(g, 2);
		if (split)
			buf_printf(&b, "    specialise j0 + %d <= N {\n", step);
		buf_printf(&b,
			   "    register s: f32[%d] mirrors tile;\n    for (d) in tile on lane {\n      s[d] = 0.5;\n  "
			   "  }\n",
			   step);
		buf_printf(&b,
			   "    for i in repeat(M) {\n    for (d) in tile on lane within (N - j0) {\n      let j = j0 "
			   "+ d;\n%s",
			   lets.at);
		buf_printf(&b, "      s[d] = %s;\n    }\n    }\n", arena_printf(a, op[k], "d", v));
		buf_puts(&b, "    for (d) in tile on lane within (N - j0) {\n      W[j0 + d] = s[d] * 2.0;\n    }\n");
		buf_puts(&b, split ? "    }\n  }\n}\n" : "  }\n}\n");
	} else {
		buf_printf(&b, "  launch core(ceil_div(N, %d)), lane(%d)\n{\n", lanes, lanes);
		buf_printf(&b, "  for (j) in spatial(ceil_div(N, %d)) * spatial(%d) on (core, lane) within (N) {\n",
			   lanes, lanes);
		buf_puts(&b, "    register s: f32[1];\n    s[0] = B[j];\n");
		buf_printf(&b, "    for i in repeat(%s) {\n%s      s[0] = %s;\n    }\n    W[j] = s[0];\n  }\n}\n",
			   pick(g, 2) ? "M" : "min(M, j + 1)", lets.at, arena_printf(a, op[k], "0", v));
	}
	return b.at;
}

static const int64_t some[] = {0, 1, 2, 7, 16, 17, 37};

static bool run(uint64_t seed, bool dump)
{
	static const struct {
		enum tw_isa isa;
		int lanes;
	} targets[] = {{TW_ISA_AVX512, 16}, {TW_ISA_AVX2, 8}, {TW_ISA_NEON, 4}, {TW_ISA_SCALAR, 8}};
	static const char *const symbols[] = {"M", "N"};
	struct gen g = {.a = arena_new(), .state = seed * 0x9e3779b97f4a7c15u};
	(void)pick(&g, 2);
	const unsigned t = pick(&g, TW_COUNT(targets));
	const char *text = program(&g, targets[t].lanes);
	int64_t sizes[6];
	for (int k = 0; k < TW_COUNT(sizes); k++)
		sizes[k] = some[pick(&g, TW_COUNT(some))];
	const struct support_case c = {.name = "random",
				       .text = text,
				       .nsizes = 2,
				       .symbols = symbols,
				       .nsets = 3,
				       .sizes = sizes,
				       .target = support_target(targets[t].isa, targets[t].lanes),
				       .dump = dump};
	struct tw_error e;
	const bool ok = support_differential(&c, seed, &e);
	if (!ok)
		fprintf(stderr, "seed %llu, %s: %s\n%s\n", (unsigned long long)seed, tw_isa_name(targets[t].isa),
			e.text, text);
	arena_free(g.a);
	return ok;
}

static uint64_t count = 200;

static void random_programs(void **state)
{
	(void)state;
	int failed = 0;
	for (uint64_t seed = 1; seed <= count && failed < 5; seed++)
		failed += !run(seed, false);
	assert_int_equal(failed, 0);
}

int main(int argc, char **argv)
{
	if (argc > 1 && strncmp(argv[1], "COUNT=", 6) == 0)
		count = strtoull(argv[1] + 6, NULL, 10);
	else if (argc > 1)
		return run(strtoull(argv[1], NULL, 10), true) ? 0 : 1;
	const struct CMUnitTest tests[] = {cmocka_unit_test(random_programs)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
