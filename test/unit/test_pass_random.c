/* rooms: base tmap target ir pass */
/* Random programs, interpreted before lowering and after every pass, each time from the text that is printed: the same
 * bytes when printed again, the same bits when run. Forms on a CPU: elementwise with random mappings, row reductions with
 * lane partials, column folds in mirrored registers, lane-private folds in loops inside the region, tiles in scratch; on a
 * GPU: tiles in shared memory, with mirrored registers, asynchronous copies, shuffles and matrix instructions. Their values
 * mix broadcast, transposed, strided, reversed, gathered, wrapped and guarded loads of several types (packed ones too) and
 * layouts.
 * Arguments: SEED prints the stages of that program; else COUNT=, FIRST= (a seed). TILEWRIGHT_LONG_TESTS in the
 * environment: 10000. */
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
	switch (pick(g, 25)) {
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
	case 16:
		return "f32(H[j])";
	case 17:
		return arena_printf(a, "(f32(F[i, j]) * %u.0)", s);
	case 18:
		return "f32(G[N - 1 - j])";
	case 20:
		return "f32(P[i, j])";
	case 21:
		return arena_printf(a, "f32(i32(Q[N - 1 - j]) * %u)", s);
	case 22:
		return "(0.5 * f32(R[i, j]))";
	case 23:
		return arena_printf(a, "(f32(i4(i32(P[M - 1 - i, j]) + i32(Q[j / 2]))) * %u.0)", s);
	case 19:
		return arena_printf(a, "(A[i, j + %u] where j + %u < N else 0.75)", s, s);
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

/* A layout of a tensor of M by N (turned: N by M), or none. */
static const char *layout(struct gen *g, bool turned)
{
	const char *m = turned ? "N" : "M", *n = turned ? "M" : "N";
	struct tw_arena *a = g->a;
	switch (pick(g, 9)) {
	case 0:
		return " layout column";
	case 1:
		return " layout blocked(4, 8)";
	case 2:
		return arena_printf(a, " layout strides(1, %s + 1)", m);
	case 3:
		return arena_printf(a, " layout row(ceil_div(%s, 4), ceil_div(%s, 8)) * column(4, 8) swizzle(1, 0)", m,
				    n);
	case 4:
		return arena_printf(
			a, " layout column(ceil_div(%s, 2), ceil_div(%s, 16)) * row(2, 16) swizzle(1, 0, 1)", m, n);
	default:
		return "";
	}
}

static const char *tile_layout(struct gen *g)
{
	static const char *const some[] = {"",
					   " layout column",
					   " layout row(4, 32) swizzle(1, 0)",
					   " layout strides(1, 5)",
					   " layout row(2, 4) * column(2, 8)",
					   " layout column(4, 32) swizzle(0, 1, 2)"};
	return some[pick(g, TW_COUNT(some))];
}

static const char *packed_type(struct gen *g)
{
	static const char *const some[] = {"i4", "u4", "i2", "u2", "f4e2m1"};
	return some[pick(g, TW_COUNT(some))];
}

static const char *parameters(struct gen *g, bool gpu)
{
	return arena_printf(
		g->a,
		"# limit I: 7\nsymbol M, N;\n\nprogram random(A: f32[M, N]%s, B: f32[N], C: f32[N, M]%s, D: "
		"f32[2 * N + 3], T: f32[7], I: i64[N], E: i1[M, N], H: f16[N], F: f8e4m3fn[M, N]%s, G: bf16[N], "
		"P: i4[M, N]%s, Q: u2[N], R: f4e2m1[M, N], "
		"out Y: f32[M, N]%s, out Z: f32[M], out W: f32[N], out V: %s[M, N]%s)\n",
		layout(g, false), layout(g, true), layout(g, false), layout(g, false), layout(g, false),
		pick(g, 2) ? "f16" : "f8e5m2", gpu ? "" : arena_printf(g->a, ", out O: %s[N]", packed_type(g)));
}

static const char *steps(struct gen *g)
{
	static const char *const some[] = {"", "", ", unroll 2", ", unroll 4"};
	return some[pick(g, TW_COUNT(some))];
}

/* Tiles of 4 x 32 of a block of 64 threads. */
static const char *gpu_program(struct gen *g)
{
	struct tw_arena *a = g->a;
	struct tw_buf b, lets;
	buf_init(&b, a);
	buf_init(&lets, a);
	buf_puts(&lets, "");
	static const char *const maps[] = {"repeat(2, 1) * spatial(2, 32)", "spatial(4, 16) * repeat(1, 2)",
					   "repeat(1, 2, ranks = [1, 0]) * spatial(4, 16, ranks = [1, 0])",
					   "spatial(2, 1) * repeat(2, 1) * spatial(1, 32)"};
	const bool warps = pick(g, 2);
	g->let_text = &lets;
	g->indent = "      ";
	const char *v = value(g, 2);
	g->let_text = NULL;
	buf_puts(&b, parameters(g, true));
	buf_printf(&b, "  launch block(ceil_div(M, 4) * ceil_div(N, 32)), %s\n{\n",
		   warps ? "warp(2), lane(32)" : "thread(64)");
	buf_printf(&b, "  map own = %s;\n  map other = %s;\n", maps[pick(g, 4)], maps[pick(g, 4)]);
	buf_puts(&b, "  for (bi, bj) in spatial(ceil_div(M, 4), ceil_div(N, 32)) on block {\n"
		     "    let i0 = 4 * bi;\n    let j0 = 32 * bj;\n");
	buf_printf(&b, "    shared S: f32[4, 32]%s;\n    register r: f32[4, 32] mirrors own;\n", tile_layout(g));
	const bool copied = pick(g, 2);
	if (copied) {
		buf_printf(&b, "    shared K: f32[4, 32]%s;\n", tile_layout(g));
		buf_puts(&b, "    for (p, q) in other on thread {\n      copy async K[p, q] = A[i0 + p, j0 + q] where "
			     "i0 + p "
			     "< M and j0 + q < N else 0.5;\n    }\n    commit;\n");
	}
	buf_puts(&b, "    for (p, q) in own on thread {\n      r[p, q] = 0.25;\n    }\n");
	buf_printf(&b,
		   "    for (p, q) in own on thread within (M - i0, N - j0) {\n      let i = i0 + p;\n      let j = j0 "
		   "+ q;\n"
		   "%s      r[p, q] = %s;\n    }\n",
		   lets.at, v);
	buf_puts(&b, "    for (p, q) in own on thread {\n      S[p, q] = r[p, q];\n    }\n");
	buf_puts(&b, copied ? "    wait 0;\n    barrier block;\n" : "    barrier block;\n");
	const char *extra = "0.0";
	if (warps && pick(g, 2)) {
		static const char *const ops[] = {"up", "down", "xor", "idx"};
		buf_puts(&b, "    let x = S[lane % 4, lane];\n");
		buf_printf(&b, "    let y = shfl_%s(x, %u) + shfl_xor(x, %u);\n", ops[pick(g, 4)], pick(g, 40),
			   pick(g, 32));
		extra = "y";
	}
	if (warps && pick(g, 3) == 0) {
		buf_printf(&b,
			   "    register d: f32[2, 4];\n    register l: f32[4];\n    register k: f32[2];\n"
			   "    for e in repeat(4%s) {\n      d[%u, e] = 0.5;\n      l[e] = S[e, lane];\n    }\n"
			   "    for e in repeat(2) {\n      k[e] = S[e + %u, 31 - lane];\n    }\n"
			   "    mma m16n8k8_tf32 d[%u], l, k;\n",
			   pick(g, 2) ? ", unroll" : "", 1u, pick(g, 3), 1u);
		extra = arena_printf(a, "%s + d[1, %u]", extra, pick(g, 4));
	}
	buf_puts(&b, "    for (p, q) in other on thread within (M - i0, N - j0) {\n");
	buf_printf(&b, "      Y[i0 + p, j0 + q] = S[%s, %s] + %s%s;\n", pick(g, 2) ? "p" : "3 - p",
		   pick(g, 2) ? "q" : "31 - q", copied ? "K[p, 31 - q] + " : "", extra);
	buf_puts(&b, "    }\n  }\n}\n");
	return b.at;
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
	buf_puts(&b, parameters(g, false));
	const bool narrow = strstr(b.at, "out V: f16") != NULL;
	const char *cores;
	const unsigned form = pick(g, 5);
	if (form == 0) {
		const char *map = map2(g, lanes, &cores);
		g->let_text = &lets;
		g->indent = "    ";
		const char *v = value(g, 3);
		buf_printf(&b, "  launch core(%s%s), lane(%d)\n{\n", cores, pick(g, 3) ? "" : " + 1", lanes);
		buf_printf(&b, "  for (i, j) in %s on (core, lane) within (M, N) {\n%s", map, lets.at);
		if (pick(g, 4) == 0)
			buf_printf(&b, "    V[i, j] = %s(%s);\n", narrow ? "f16" : "f8e5m2", v);
		else if (pick(g, 3))
			buf_printf(&b, "    Y[i, j] = %s;\n", v);
		else
			buf_printf(&b,
				   "    if %s < A[i, j] {\n      Y[i, j] = %s;\n    } else {\n      Y[i, j] = %s;\n    "
				   "}\n",
				   load(g), v, load(g));
		buf_puts(&b, "  }\n}\n");
		return b.at;
	}
	if (form == 4) {
		static const char *const layouts[] = {"", " layout column",
						      " layout row(1, ceil_div(N, 8)) * row(4, 8) swizzle(1, 0)",
						      " layout strides(1, 7)", " layout blocked(2, 16)"};
		g->let_text = &lets;
		g->indent = "        ";
		const char *v = value(g, 2);
		buf_printf(
			&b,
			"  launch core(ceil_div(M, 4)), lane(%d)\n{\n  for (c) in spatial(ceil_div(M, 4)) on core {\n",
			lanes);
		buf_printf(&b, "    shared S: %s[4, round_up(N, 8)]%s;\n", narrow ? "f16" : "f32", layouts[pick(g, 5)]);
		buf_printf(&b,
			   "    for p in repeat(min(4, M - 4 * c)%s) {\n      let i = 4 * c + p;\n"
			   "      for (j) in repeat(ceil_div(N, %d)) * spatial(%d) on lane within (N) {\n%s        "
			   "S[p, j] = %s(%s);\n"
			   "      }\n    }\n",
			   steps(g), lanes, lanes, lets.at, narrow ? "f16" : "f32", v);
		buf_printf(&b,
			   "    for p in repeat(min(4, M - 4 * c)%s) {\n"
			   "      for (j) in repeat(ceil_div(N, %d)) * spatial(%d) on lane within (N) {\n"
			   "        Y[4 * c + p, j] = f32(S[p, %s]) + %s;\n      }\n    }\n  }\n}\n",
			   steps(g), lanes, lanes, pick(g, 2) ? "N - 1 - j" : "j",
			   pick(g, 2) ? "1.0" : "A[4 * c + p, j + 1] where j + 1 < N else 2.0");
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
		buf_printf(
			&b,
			"    for i in repeat(M%s) {\n    for (d) in tile on lane within (N - j0) {\n      let j = j0 "
			"+ d;\n%s",
			steps(g), lets.at);
		buf_printf(&b, "      s[d] = %s;\n    }\n    }\n", arena_printf(a, op[k], "d", v));
		/* a core has whole bytes of the packed output */
		const char *k = strstr(b.at, "out O: ") + 7, *end = strchr(k, '[');
		buf_printf(&b,
			   "    for (d) in tile on lane within (N - j0) {\n      W[j0 + d] = s[d] * 2.0;\n"
			   "      O[j0 + d] = %.*s(s[d] * 1.5);\n    }\n",
			   (int)(end - k), arena_strndup(a, k, (size_t)(end - k)));
		buf_puts(&b, split ? "    }\n  }\n}\n" : "  }\n}\n");
	} else {
		buf_printf(&b, "  launch core(ceil_div(N, %d)), lane(%d)\n{\n", lanes, lanes);
		buf_printf(&b, "  for (j) in spatial(ceil_div(N, %d)) * spatial(%d) on (core, lane) within (N) {\n",
			   lanes, lanes);
		buf_puts(&b, "    register s: f32[1];\n    s[0] = B[j];\n");
		buf_printf(&b, "    for i in repeat(%s%s) {\n%s      s[0] = %s;\n    }\n    W[j] = s[0];\n  }\n}\n",
			   pick(g, 2) ? "M" : "min(M, j + 1)", steps(g), lets.at, arena_printf(a, op[k], "0", v));
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
	const bool gpu = pick(&g, 5) == 0;
	const char *text = gpu ? gpu_program(&g) : program(&g, targets[t].lanes);
	int64_t sizes[6];
	for (int k = 0; k < TW_COUNT(sizes); k++)
		sizes[k] = some[pick(&g, TW_COUNT(some))];
	struct support_case c = {.name = "random",
				 .text = text,
				 .nsizes = 2,
				 .symbols = symbols,
				 .nsets = 3,
				 .sizes = sizes,
				 .target = support_target(targets[t].isa, targets[t].lanes),
				 .dump = dump};
	if (gpu && !tw_target_gpu(&c.target, "sm_80"))
		fail_msg("there is no target sm_80");
	struct tw_error e;
	const bool ok = support_differential(&c, seed, &e);
	if (!ok)
		fprintf(stderr, "seed %llu, %s: %s\n%s\n", (unsigned long long)seed,
			gpu ? "gpu" : tw_isa_name(targets[t].isa), e.text, text);
	arena_free(g.a);
	return ok;
}

static uint64_t count = 250, first = 1;

static void random_programs(void **state)
{
	(void)state;
	int failed = 0;
	for (uint64_t seed = first; seed < first + count && failed < 5; seed++)
		failed += !run(seed, false);
	assert_int_equal(failed, 0);
}

int main(int argc, char **argv)
{
	if (getenv("TILEWRIGHT_LONG_TESTS"))
		count = 10000;
	for (int i = 1; i < argc; i++) {
		if (strncmp(argv[i], "COUNT=", 6) == 0)
			count = strtoull(argv[i] + 6, NULL, 10);
		else if (strncmp(argv[i], "FIRST=", 6) == 0)
			first = strtoull(argv[i] + 6, NULL, 10);
		else
			return run(strtoull(argv[i], NULL, 10), true) ? 0 : 1;
	}
	const struct CMUnitTest tests[] = {cmocka_unit_test(random_programs)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
