/* rooms: base tmap ir */
/* The text form. Every text of test/ir/ prints, parses and prints to the same bytes; bad texts are refused at the
 * right place; nothing crashes. With arguments it is a tool: test_ir_text FILE.tw prints the file canonically, after
 * verifying it. */
#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "ir/ir.h"

static char *read_file(struct tw_arena *a, const char *path)
{
	FILE *f = fopen(path, "rb");
	if (!f)
		return NULL;
	struct tw_buf b;
	buf_init(&b, a);
	char piece[4096];
	for (size_t n; (n = fread(piece, 1, sizeof(piece), f)) > 0;)
		buf_bytes(&b, piece, n);
	fclose(f);
	return b.at;
}

struct job {
	struct tw_arena *a;
	const char *name, *text;
	const char *printed;
	struct twir_module *m;
	bool verify;
};

static void parse_job(void *arg)
{
	struct job *j = arg;
	j->m = twir_module_new(j->a);
	twir_parse(j->m, j->name, j->text);
	for (int i = 0; j->verify && i < j->m->programs.n; i++)
		twir_verify_program(j->m, j->m->programs.at[i], TW_ERR_MODEL);
	for (int i = 0; j->verify && i < j->m->computes.n; i++)
		twir_verify_compute(j->m, j->m->computes.at[i], TW_ERR_MODEL);
	for (int i = 0; j->verify && i < j->m->funcs.n; i++)
		twir_verify_func(j->m, j->m->funcs.at[i], TW_ERR_MODEL);
	for (int i = 0; j->verify && i < j->m->launches.n; i++)
		twir_verify_launch(j->m, j->m->launches.at[i], TW_ERR_MODEL);
	j->printed = twir_print_module(j->a, j->m);
}

static void must_parse(struct job *j)
{
	struct tw_error e;
	if (!tw_try(&e, parse_job, j)) {
		print_error("%s\n%s\n", e.text, j->text);
		fail();
	}
}

/* print(parse(print(parse(text)))) == print(parse(text)), for the module and each program alone */
static void round_trip(const char *name, const char *text)
{
	struct tw_arena *a = arena_new();
	struct job one = {.a = a, .name = name, .text = text, .verify = true};
	must_parse(&one);
	struct job two = {.a = a, .name = "printed", .text = one.printed, .verify = true};
	must_parse(&two);
	assert_string_equal(one.printed, two.printed);
	assert_int_equal(one.m->programs.n, two.m->programs.n);
	assert_int_equal(one.m->computes.n, two.m->computes.n);
	for (int i = 0; i < one.m->programs.n; i++) {
		const char *alone = twir_print_program(a, one.m, one.m->programs.at[i]);
		struct job three = {.a = a, .name = "alone", .text = alone, .verify = true};
		must_parse(&three);
		assert_string_equal(alone, twir_print_program(a, three.m, three.m->programs.at[0]));
		/* the order of the symbols is the kernel's interface */
		const struct twir_program *p = one.m->programs.at[i], *q = three.m->programs.at[0];
		assert_int_equal(p->nsymbols, q->nsymbols);
		for (int k = 0; k < p->nsymbols; k++)
			assert_string_equal(p->symbols[k]->name, q->symbols[k]->name);
	}
	arena_free(a);
}

static void each_of_corpus(void (*run)(const char *name, const char *text))
{
	struct tw_arena *a = arena_new();
	DIR *dir = opendir(TW_SOURCE_DIR "/test/ir");
	assert_non_null(dir);
	int n = 0;
	for (struct dirent *d; (d = readdir(dir));) {
		const char *dot = strrchr(d->d_name, '.');
		if (!dot || strcmp(dot, ".tw") != 0)
			continue;
		char *text = read_file(a, arena_printf(a, "%s/test/ir/%s", TW_SOURCE_DIR, d->d_name));
		assert_non_null(text);
		run(d->d_name, text);
		n++;
	}
	closedir(dir);
	arena_free(a);
	assert_true(n >= 14);
}

static void corpus(void **state)
{
	(void)state;
	each_of_corpus(round_trip);
}

/* what is refused, where, and why */
static void refused(void **state)
{
	(void)state;
	static const struct {
		const char *text, *place, *why;
	} cases[] = {
		{"program", ":1:8:", "name of a program"},
		{"hello", ":1:1:", "expected symbol, const, func, tensor, define, program or launch"},
		{"symbol N in 4..2;", ":1:8:", "leave no value"},
		{"symbol N in -4..-5;", ":1:8:", "leave no value"},
		{"symbol N in 1..8;\nsymbol N;", ":2:8:", "other facts"},
		{"symbol for;", ":1:8:", "a word of the language"},
		{"symbol N", ":1:9:", "expected ';'"},
		{"symbol N in 99999999999999999999..;", ":1:13:", "too large"},
		{"tensor T: f33[4];", ":1:11:", "expected a type"},
		{"tensor T: f32x16[4];", ":1:11:", "only register tensors hold vectors"},
		{"tensor T: f32[-1];", ":1:15:", "negative"},
		{"tensor T: f32[1.5];", ":1:15:", "must have type index"},
		{"tensor T: f32[1,1,1,1,1,1,1,1,1];", ":1:31:", "more than 8 dimensions"},
		{"tensor T: f32[N];", ":1:15:", "'N' is not declared"},
		{"tensor T: f32[4];\ntensor T: f32[4];", ":2:8:", "already declared"},
		{"tensor T: f32[4] layout row(2, 2);", ":1:25:", "factor has 2 dimensions"},
		{"tensor T: f32[4] layout strides(1) * row(4);", ":1:36:", "strides are the last factor"},
		{"tensor T: f32[4];\ndefine Y: f32[4] = (i) => T[i] + i;", ":2:32:", "types differ"},
		{"tensor T: f32[4];\ndefine Y: f32[4] = (i, j) => T[i];", ":2:24:", "rank 1"},
		{"tensor T: f32[4, 4];\ndefine Y: f32[4] = (i) => T[i];", ":2:27:", "no storage"},
		{"tensor T: f32[4];\ndefine Y: f32[4] = (i) => T[i, i];", ":2:27:", "number of indices"},
		{"tensor T: f32[4];\ndefine Y: f32[4] = (i) => T[i] < 1.0;", ":2:27:", "must have type f32"},
		{"define Y: f32[4] = (i) => 1.0 < 2.0 < 3.0;", ":1:37:", "do not chain"},
		{"define Y: f32[4] = (i) => true ? 1.0;", ":1:37:", "expected ':'"},
		{"define Y: f32[4] = (i) => 1.0 +;", ":1:32:", "expected an expression"},
		{"define Y: f32[4] = (i) => 3.5i32;", ":1:27:", "no number"},
		{"define Y: i8[4] = (i) => 300i8;", ":1:26:", "does not fit"},
		{"define Y: f32[4] = (i) => sum(k < 4, m);", ":1:38:", "'m' is not declared"},
		{"define Y: f32[4] = (i) => sum(i < 4, 1.0);", ":1:31:", "expected an axis"},
		{"define Y: f32[4] = (i) => nothing(1.0);", ":1:27:", "no func or operation"},
		{"define Y: f32[4] = (i) => fma(1.0, 2.0);", ":1:27:", "takes 3 arguments"},
		{"define Y: f32[4] = (i) => f32(i", ":1:32:", "expected ')'"},
		{"define Y: f32[4] = (i) => 1.0 from \"abc", ":1:36:", "a string ends on its line"},
		{"func f(x: f32): f32 { return N; }", ":1:30:", "'N' is not declared"},
		{"func f(x: f32): f32 { return f(x); }", ":1:30:", "no func"},
		{"func f(x: f32): f32 { return core; }", ":1:23:", "worker"},
		{"func f(x: f32): i32 { return x; }", ":1:23:", "another type"},
		{"func f(x: f32): f32 { return x; }\nfunc f(y: f32): f32 { return -y; }", ":2:6:", "differently"},
		{"program p() { x = 1; }", ":1:15:", "no tensor 'x'"},
		{"program p(A: f32[4]) { let x = A; }", ":1:32:", "number of indices"},
		{"program p(A: f32[4]) { let x = 1; let x = 2; }", ":1:39:", "already declared"},
		{"program p(A: f32[4]) { for i in repeat(4) { let x = i; } let y = x; }",
		 ":1:66:", "'x' is not declared"},
		{"program p(out A: f32[4]) launch core(1), lane(4) { for (i, j) in spatial(4) on lane { A[i] = 1.0; } "
		 "}",
		 ":1:66:", "rank 1"},
		{"program p() launch core(1) { for (i) in spatial(4) * repeat(2, 2) on core { } }",
		 ":1:52:", "one rank"},
		{"program p() launch core(1) { for (i) in project(repeat(4), [0]) on core { } }",
		 ":1:41:", "only spatial"},
		{"program p() launch core(1) { for (i) in tile on core { } }", ":1:41:", "no mapping 'tile'"},
		{"program p() launch moon(1) { }", ":1:20:", "level of workers"},
		{"program p(A: f32[4], out B: f32[4] alias C) { }", ":1:42:", "alias"},
		{"program p(A: i32[4]) { if A[0] { } }", ":1:27:", "must have type i1"},
		{"program p(out A: f32[4]) { A[0 +: 4 where true] = 1.0; }", ":1:28:", "mask"},
		{"program p(out A: f32[4]) { A[0] = splat(1.0, 4); }", ":1:35:", "f32x4"},
		{"program p(A: f32[4]) { let m = A[0 +: 4 where iota_i32(4) < 3]; }", ":1:62:", "expected 'else'"},
		{"program p() { barrier nowhere; }", ":1:23:", "level of workers"},
		{"program p(X: f32[4]) { prefetch Y[0]; }", ":1:33:", "no tensor 'Y'"},
		{"program p(X: f32[4]) { prefetch X[0 +: 2]; }", ":1:24:", "one element"},
		{"program p(X: index[4]) { prefetch X[X[0]]; }", ":1:26:", "loads nothing"},
		{"program p() { register r: f32[1]; prefetch r[0]; }", ":1:35:", "not in memory"},
		{"program p(X: f32[4]) { prefetch X[0] far; }", ":1:38:", "expected ';'"},
		{"symbol N; const C = N + 1;", ":1:21:", "not known here"},
		{"const C = 1; const C = 1;", ":1:20:", "already declared"},
		{"const C = 1; symbol C;", ":1:21:", "already declared"},
		{"symbol C; const C = 1;", ":1:17:", "already declared"},
		{"const C = lanes(9);", ":1:17:", "type"},
		{"program p(A: f32[C]) { } const C = 1;", ":1:18:", "not declared"},
		{"program p() { specialise true { } else { } }", ":1:35:", "no else"},
		{"program p() { let x = 1 }", ":1:25:", "expected ';'"},
		{"program p() { ", ":1:13:", "not closed"},
		{"program p() { } program p() { }", ":1:25:", "already declared"},
		{"symbol N; \x01", ":1:11:", "expected symbol"},
	};
	int wrong = 0;
	for (int i = 0; i < TW_COUNT(cases); i++) {
		struct tw_arena *a = arena_new();
		struct job j = {.a = a, .name = "bad", .text = cases[i].text};
		struct tw_error e = {0};
		const bool ok = tw_try(&e, parse_job, &j);
		if (ok || e.code != TW_ERR_MODEL || !strstr(e.text, cases[i].place) || !strstr(e.text, cases[i].why) ||
		    !strchr(e.text, '^')) {
			print_error("%s\n%s\nshould be at %s for: %s\n", cases[i].text, ok ? "accepted" : e.text,
				    cases[i].place, cases[i].why);
			wrong++;
		}
		arena_free(a);
	}
	assert_int_equal(wrong, 0);
}

/* what the verifier refuses in texts that parse */
static void unverified(void **state)
{
	(void)state;
	static const struct {
		const char *text, *why;
	} cases[] = {
		{"program p(A: f32[4], out B: f32[4]) launch core(1) { B[0] = B[1]; }", "output 'B' is read"},
		{"program p(A: f32[4], out B: f32[4]) launch core(1) { A[0] = 1.0; }", "store to input 'A'"},
		{"program p(out B: f32[4]) launch core(1) { B[lane] = 1.0; }", "not launched on lane"},
		{"program p(out B: f32[4]) launch core(1), lane(4) { B[lane] = 1.0; }", "inside loops on lane only"},
		{"symbol N; program p(out B: f32[4]) launch core(1), lane(N) { }", "must be a constant"},
		{"program p() launch lane(4), core(1) { }", "launched on core, lane or"},
		{"program p(out B: f32[8]) launch core(1), lane(4) { for (i) in spatial(8) on lane { B[i] = 1.0; } }",
		 "hold the 4 lanes"},
		{"program p(out B: f32[8]) launch core(1), lane(4) { for (i) in spatial(4) * repeat(2) on lane { B[i] "
		 "= 1.0; } }",
		 "hold the 4 lanes"},
		{"symbol N; program p(out B: f32[N]) launch core(1), lane(4) { for (i) in spatial(N) on lane { B[i] = "
		 "1.0; } }",
		 "hold the 4 lanes"},
		{"program p(out B: f32[8]) launch core(2), lane(4) { for (i) in spatial(2) * spatial(4) on lane { B[i] "
		 "= 1.0; } }",
		 "more workers than the 4 lanes"},
		{"program p(out B: f32[8]) launch core(2) { for (i) in spatial(4) on core { B[i] = 1.0; } }",
		 "needs 4 workers, the launch has 2"},
		{"program p(out B: f32[8]) launch core(2) { for (i) in spatial(4) { B[i] = 1.0; } }", "needs workers"},
		{"program p(out B: f32[4, 4]) launch core(1), lane(4) { for (i) in spatial(4) on lane { for (j) in "
		 "spatial(4) on lane { B[i, j] = 1.0; } } }",
		 "inside a loop on lane"},
		{"program p(out B: f32[4]) launch core(1), lane(4) { for (i) in spatial(4) on lane { B[0] = 1.0; } }",
		 "all lanes store to the same element"},
		{"program p(out B: f32[4]) launch core(1), lane(4) { register s: f32[]; for (i) in spatial(4) on lane "
		 "{ s = 1.0; } B[0] = s; }",
		 "belongs to the core"},
		{"program p(out B: f32[4]) launch core(1), lane(4) { for (i) in spatial(4) on lane { shared s: f32[4]; "
		 "s[i] = 1.0; } }",
		 "belongs to the core"},
		{"program p(out B: f32[4]) launch core(1), lane(4) { register s: f32[4] mirrors spatial(4); for (i) in "
		 "spatial(4) on lane { s[0] = 1.0; } }",
		 "does not depend on the lane"},
		{"program p(out B: f32[4]) launch core(1), lane(4) { register s: f32[4] mirrors spatial(4); B[0] = "
		 "s[1]; }",
		 "only reduce may read it"},
		{"program p(out B: f32[4]) launch core(1), lane(4) { register s: f32[4] mirrors spatial(4); for (i) in "
		 "spatial(4) on lane { B[i] = reduce(add, s); } }",
		 "passes values between lanes"},
		{"program p() launch core(1), lane(4) { register s: f32[8] mirrors spatial(4); }",
		 "has 8 elements, its mapping 4 tasks"},
		{"program p() launch core(1), lane(4) { register s: f32[8] mirrors spatial(8); }",
		 "8 workers, not the 4 lanes"},
		{"symbol N; program p() launch core(1), lane(4) { register s: f32[N]; }", "must be a constant"},
		{"program p() launch core(1), lane(4) { barrier core; }", "no barriers"},
		{"program p() launch block(1), thread(4) { for (i) in spatial(4) on thread { barrier block; } }",
		 "inside a loop on threads"},
		{"symbol N; program p() launch core(1) { for i in repeat(N, unroll) { } }", "constant number of steps"},
		{"program p(A: i32[4], out B: f32[4]) launch core(1) { let n = index(A[0]); shared s: f32[n + "
		 "index(A[1])]; }",
		 "must not depend on data"},
		{"program p(A: f32[4, 4] layout row(2, 4)) launch core(1) { }", "2 places for 4 elements"},
		{"program p(A: f32[4], out B: f32[4]) launch core(1) { B[0] = sum(k < 4, A[k]); }",
		 "folds belong to definitions"},
		{"define Y: f32[4] = (i) => f32(core);", "known in programs only"},
		{"func f(x: f32): f32 { return x; }\nfunc g(x: f32): f32 { return f(x); }", NULL},
	};
	for (int i = 0; i < TW_COUNT(cases); i++) {
		struct tw_arena *a = arena_new();
		struct job j = {.a = a, .name = "bad", .text = cases[i].text, .verify = true};
		struct tw_error e = {0};
		const bool ok = tw_try(&e, parse_job, &j);
		if (ok != !cases[i].why || (!ok && (e.code != TW_ERR_MODEL || !strstr(e.text, cases[i].why)))) {
			print_error("%s\n%s\nshould say: %s\n", cases[i].text, ok ? "accepted" : e.text,
				    cases[i].why ? cases[i].why : "nothing");
			fail();
		}
		arena_free(a);
	}
}

static uint64_t seed;

static uint32_t random_below(uint32_t n)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return n ? (uint32_t)((seed >> 33) % n) : 0;
}

/* Bytes changed, removed, doubled, pieces moved: parsed or refused, never worse. What parses must print and parse
 * again. */
static void mutate_text(const char *name, const char *text)
{
	const char *count = getenv("TW_FUZZ");
	const int rounds = (count ? atoi(count) : 2800) / 14 + 1;
	const size_t n = strlen(text);
	char *copy = malloc(2 * n + 64);
	for (int r = 0; r < rounds; r++) {
		size_t len = n;
		memcpy(copy, text, n + 1);
		for (int k = 1 + (int)random_below(4); k > 0 && len > 0; k--) {
			static const char alphabet[] = "()[]{}<>=+-*/%,;:.?#\"\\ \n0123456789abcdefxyzNM_\x01\xff";
			const size_t at = random_below((uint32_t)len),
				     take = 1 + random_below((uint32_t)(len - at < 12 ? len - at : 12));
			switch (random_below(5)) {
			case 0:
				copy[at] = alphabet[random_below(sizeof(alphabet) - 1)];
				break;
			case 1:
				memmove(copy + at, copy + at + take, len - at - take + 1);
				len -= take;
				break;
			case 2:
				if (len + take < 2 * n) {
					memmove(copy + at + take, copy + at, len - at + 1);
					len += take;
				}
				break;
			case 3:
				len = at;
				copy[len] = 0;
				break;
			default: { /* a word from elsewhere */
				const size_t from = random_below((uint32_t)len);
				const size_t most = len - from < len - at ? len - from : len - at;
				memmove(copy + at, copy + from, take < most ? take : most);
				break;
			}
			}
		}
		struct tw_arena *a = arena_new();
		struct job j = {.a = a, .name = name, .text = copy, .verify = true};
		struct tw_error e;
		if (tw_try(&e, parse_job, &j)) {
			struct job again = {.a = a, .name = "printed", .text = j.printed, .verify = true};
			must_parse(&again);
			assert_string_equal(j.printed, again.printed);
		} else if (e.code != TW_ERR_MODEL && e.code != TW_ERR_UNSUPPORTED) {
			print_error("round %d of %s: %s\n%s\n", r, name, e.text, copy);
			fail();
		}
		arena_free(a);
	}
	free(copy);
}

static void mutations(void **state)
{
	(void)state;
	seed = 20260726;
	print_message("seed %llu\n", (unsigned long long)seed);
	each_of_corpus(mutate_text);
}

/* Depth and length attacks end in an error, not in a stack overflow or a flood. */
static void attacks(void **state)
{
	(void)state;
	static const struct {
		const char *head, *repeated, *tail;
	} cases[] = {
		{"define Y: f32[1] = (i) => ", "(", ""},
		{"define Y: f32[1] = (i) => ", "-", "1.0;"},
		{"define Y: f32[1] = (i) => ", "not ", "1.0;"},
		{"define Y: f32[1] = (i) => f32(i)", " + f32(i)", ";"},
		{"define Y: f32[1] = (i) => ", "i < 3 ? ", "1.0;"},
		{"define Y: f32[1] = (i) => ", "i < 3 ? 1.0 : ", "2.0;"},
		{"define Y: f32[1] = (i) => ", "sqrt(", ""},
		{"define Y: f32[1] = (i) => sum(k < ", "sum(k < ", ""},
		{"program p() { for (i) in ", "(", ""},
		{"program p() { for (i) in repeat(2)", " * repeat(2)", " { } }"},
		{"program p() { ", "if true { ", ""},
		{"program p() { if true { } ", "else if true { } ", "}"},
		{"tensor T: f32[4] layout row(4)", " * row(1)", ";"},
		{"symbol ", "N", ";"},
		{"define Y: f32[1] = (i) => ", "9", ";"},
		{"", "program ", ""},
		{"", "symbol N;", ""},
	};
	for (int i = 0; i < TW_COUNT(cases); i++) {
		struct tw_arena *a = arena_new();
		struct tw_buf b;
		buf_init(&b, a);
		buf_puts(&b, cases[i].head);
		for (int k = 0; k < 100000; k++)
			buf_puts(&b, cases[i].repeated);
		buf_puts(&b, cases[i].tail);
		struct job j = {.a = a, .name = "attack", .text = b.at, .verify = true};
		struct tw_error e;
		const bool ok = tw_try(&e, parse_job, &j);
		if (!ok)
			assert_true(e.code == TW_ERR_MODEL || e.code == TW_ERR_UNSUPPORTED);
		assert_true(!ok || i == TW_COUNT(cases) - 1);
		arena_free(a);
	}
}

/* A DAG that is small in memory and 2^60 terms as text is refused. */
static void print_dag(void *arg)
{
	struct job *j = arg;
	const struct twir_expr *e = twir_cast(j->m, TWIR_F32, twir_var(j->m, twir_symbol(j->m, "N")));
	for (int i = 0; i < 60; i++)
		e = twir_mul(j->m, e, e);
	twir_print_expr(j->a, e);
}

static void shared_parts(void **state)
{
	(void)state;
	struct job j = {.a = arena_new()};
	j.m = twir_module_new(j.a);
	struct tw_error e;
	assert_false(tw_try(&e, print_dag, &j));
	assert_int_equal(e.code, TW_ERR_INTERNAL);
	arena_free(j.a);
}

/* Constants keep their bits through text. */
static void constants(void **state)
{
	(void)state;
	struct tw_arena *a = arena_new();
	struct twir_module *m = twir_module_new(a);
	seed = 7;
	static const enum twir_scalar floats[] = {TWIR_F32, TWIR_F64, TWIR_F16, TWIR_BF16};
	for (int i = 0; i < 1200; i++) {
		const uint64_t bits = (uint64_t)random_below(UINT32_MAX) << 32 ^ (uint64_t)random_below(UINT32_MAX)
											 << 8;
		double v;
		memcpy(&v, &bits, sizeof(v));
		if (i % 3 == 1)
			v = (double)((int)random_below(2000000) - 1000000) / 1000.0;
		if (i % 3 == 2)
			v = (double)(float)ldexp((double)random_below(100000), (int)random_below(200) - 120);
		const struct twir_expr *c = i % 2 ? twir_float(m, floats[i / 2 % 4], v)
						  : twir_int(m, (enum twir_scalar)(TWIR_I8 + i / 2 % 8), (int64_t)bits);
		const char *text = twir_print_expr(a, c);
		twir_parse(m, "constant",
			   arena_printf(a, "define c%d: %s[] = () => %s;", i,
					twir_scalar_name((enum twir_scalar)c->type.scalar), text));
		if (m->computes.at[m->computes.n - 1]->value != c) {
			print_error("%s of %a\n", text, v);
			fail();
		}
	}
	/* the names people know */
	assert_string_equal(twir_print_expr(a, twir_float(m, TWIR_F32, 0.1)), "0.1");
	assert_string_equal(twir_print_expr(a, twir_float(m, TWIR_F32, 1.5)), "1.5");
	assert_string_equal(twir_print_expr(a, twir_float(m, TWIR_F32, -0.0)), "-0.0");
	assert_string_equal(twir_print_expr(a, twir_float(m, TWIR_F32, 1e-12)), "1e-12");
	assert_string_equal(twir_print_expr(a, twir_float(m, TWIR_F32, (double)INFINITY)), "inf");
	assert_string_equal(twir_print_expr(a, twir_float(m, TWIR_F64, -(double)INFINITY)), "-inf_f64");
	assert_string_equal(twir_print_expr(a, twir_int(m, TWIR_I32, 3)), "3i32");
	assert_string_equal(twir_print_expr(a, twir_index(m, -3)), "-3");
	assert_string_equal(twir_print_expr(a, twir_int(m, TWIR_U64, -1)), "18446744073709551615u64");
	arena_free(a);
}

/* The math library verifies, and its text declares the same funcs again. */
static void library(void **state)
{
	(void)state;
	struct tw_arena *a = arena_new();
	struct twir_module *m = twir_module_new(a);
	assert_non_null(twir_func_find(m, "exp_f32"));
	assert_null(twir_func_find(m, "no_such_func"));
	for (int i = 0; i < m->funcs.n; i++) {
		twir_verify_func(m, m->funcs.at[i], TW_ERR_INTERNAL);
		assert_true(m->funcs.at[i]->library);
	}
	assert_string_equal(twir_print_module(a, m), ""); /* not used: not printed */
	for (int i = 0; i < m->funcs.n; i++)
		m->funcs.at[i]->library = false;
	struct job j = {.a = a, .name = "library", .text = twir_print_module(a, m)};
	must_parse(&j); /* equal to the built-in ones, or refused */
	assert_int_equal(j.m->funcs.n, m->funcs.n);
	const struct twir_expr *x = twir_float(m, TWIR_F64, 1.0);
	assert_string_equal(twir_math(m, "exp", 1, &x)->u.func->name, "exp_f64");
	arena_free(a);
}

/* A const stands for its value, and lanes(TYPE) for the machine's. */
static void named_constants(void **state)
{
	(void)state;
	static const char text[] =
		"const L = lanes(f32);\nconst M = L == 16 ? 8 : 4;\n"
		"program p(A: f32[M], out B: f32[L]) launch core(1), lane(L)\n{\n"
		"  for (l) in spatial(L) on lane { B[l] = A[l % M] + f32(lanes(f64) + lanes(u8)); }\n}\n";
	static const int lanes[] = {0, 16, 8, 4};
	for (int i = 0; i < TW_COUNT(lanes); i++) {
		struct tw_arena *a = arena_new();
		struct twir_module *m = twir_module_new(a);
		const int n = lanes[i] ? lanes[i] : TWIR_USUAL_LANES;
		m->lanes = lanes[i];
		twir_parse(m, "named", text);
		struct job j = {
			.a = a,
			.name = "plain",
			.text = arena_printf(a,
					     "program p(A: f32[%d], out B: f32[%d]) launch core(1), lane(%d)\n{\n"
					     "  for (l) in spatial(%d) on lane { B[l] = A[l %% %d] + f32(%d); }\n}\n",
					     n == 16 ? 8 : 4, n, n, n, n == 16 ? 8 : 4, n / 2 + 4 * n)};
		must_parse(&j);
		assert_string_equal(twir_print_module(a, m), j.printed);
		arena_free(a);
	}
}

int main(int argc, char **argv)
{
	if (argc > 1) {
		struct tw_arena *a = arena_new();
		struct job j = {.a = a, .name = argv[1], .text = read_file(a, argv[1]), .verify = true};
		struct tw_error e;
		const bool ok = j.text && tw_try(&e, parse_job, &j);
		if (ok)
			fputs(j.printed, stdout);
		else
			fprintf(stderr, "%s\n", j.text ? e.text : "cannot read the file");
		arena_free(a);
		return !ok;
	}
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(corpus),    cmocka_unit_test(refused), cmocka_unit_test(unverified),
		cmocka_unit_test(mutations), cmocka_unit_test(attacks), cmocka_unit_test(shared_parts),
		cmocka_unit_test(constants), cmocka_unit_test(library), cmocka_unit_test(named_constants),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
