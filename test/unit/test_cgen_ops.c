/* rooms: base tmap target ir pass cgen backend/cpu */
/* Every operation on every element type, vectors and scalars: the emitted C gives the interpreter's bits (a NaN equals
 * any NaN) on awkward values. */
#include <setjmp.h>
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "cgen_run.h"
#include "pass_support.h"

enum { N = 203, MAX_PARAMS = 40 }; /* 203: full vectors, a partial one, several core items */

static const enum twir_scalar types[] = {TWIR_I8,  TWIR_I16, TWIR_I32, TWIR_I64, TWIR_U8,
					 TWIR_U16, TWIR_U32, TWIR_U64, TWIR_F32, TWIR_F64};
static const char *const of_all[] = {"a + b",
				     "a - b",
				     "a * b",
				     "a / b",
				     "min(a, b)",
				     "max(a, b)",
				     "minnum(a, b)",
				     "maxnum(a, b)",
				     "-a",
				     "abs(a)",
				     "select(a < b, a, c)",
				     "select(a <= b, b, c)",
				     "select(a == b, c, a)",
				     "select(a != b, c, a)",
				     "max(a, 1)",
				     "min(1, a)",
				     "i > 3 ? a : b"};
static const char *const of_ints[] = {"a % b", "a and b", "a or b", "a xor b", "a << b", "a >> b",
				      "not a", "a / 7",	  "a % 7",  "a << 3",  "a >> 3"};
static const char *const of_floats[] = {"sqrt(a)",  "floor(a)",	    "ceil(a)",	   "round(a)",
					"trunc(a)", "fma(a, b, c)", "max(a, 0.5)", "min(0.5, a)"};

static void open_program(struct tw_buf *b, const char *name, const char *type, int outputs,
			 const char *const *out_types)
{
	buf_printf(b, "program %s(A: %s[N], B: %s[N], C: %s[N]", name, type, type, type);
	for (int i = 0; i < outputs; i++)
		buf_printf(b, ", out R%d: %s[N]", i, out_types ? out_types[i] : type);
	buf_printf(
		b,
		") launch core(ceil_div(N, 64)), lane(@L)\n{\n"
		"  for (i) in spatial(ceil_div(N, 64)) * repeat(64 / @L) * spatial(@L) on (core, lane) within (N) {\n"
		"    let a = A[i];\n    let b = B[i];\n    let c = C[i];\n");
}

static void operations(struct tw_buf *b, enum twir_scalar t)
{
	const char *const *own = twir_is_float(t) ? of_floats : of_ints;
	const int nown = twir_is_float(t) ? TW_COUNT(of_floats) : TW_COUNT(of_ints), all = TW_COUNT(of_all);
	char name[32];
	snprintf(name, sizeof name, "ops_%s", twir_scalar_name(t));
	open_program(b, name, twir_scalar_name(t), all + nown, NULL);
	for (int i = 0; i < all + nown; i++)
		buf_printf(b, "    R%d[i] = %s;\n", i, i < all ? of_all[i] : own[i - all]);
	buf_puts(b, "  }\n}\n");
}

static void conversions(struct tw_buf *b, enum twir_scalar t)
{
	static const char *const to[] = {"i1",	"i8",  "i16", "i32", "i64", "u8",  "u16",
					 "u32", "u64", "f32", "f64", "f16", "bf16"};
	char name[32];
	snprintf(name, sizeof name, "casts_%s", twir_scalar_name(t));
	open_program(b, name, twir_scalar_name(t), TW_COUNT(to), to);
	for (int i = 0; i < TW_COUNT(to); i++) {
		if (strcmp(to[i], twir_scalar_name(t)) == 0)
			buf_printf(b, "    R%d[i] = b;\n", i);
		else
			buf_printf(b, "    R%d[i] = %s(a);\n", i, to[i]);
	}
	buf_puts(b, "  }\n}\n");
}

static void dots(struct tw_buf *b)
{
	static const char *const ops[] = {"dot4(a, b, c)", "dot4(-1, 0x80808080i32, c)", "dot4(a, 0x01010101, 0)"};
	open_program(b, "dots", "i32", TW_COUNT(ops), NULL);
	for (int i = 0; i < TW_COUNT(ops); i++)
		buf_printf(b, "    R%d[i] = %s;\n", i, ops[i]);
	buf_puts(b, "  }\n}\n");
}

static void logic(struct tw_buf *b)
{
	static const char *const ops[] = {"a and b",	     "a or b",	     "a xor b",
					  "not a",	     "a == b",	     "a != b",
					  "select(a, b, c)", "a and b or c", "f32(3) < 2.0 or a"};
	open_program(b, "logic", "i1", TW_COUNT(ops), NULL);
	for (int i = 0; i < TW_COUNT(ops); i++)
		buf_printf(b, "    R%d[i] = %s;\n", i, ops[i]);
	buf_puts(b, "  }\n}\n");
}

/* Index arithmetic floors: divisors of both signs and 0 through symbols, loops and constants. Sizes stay below 2^60,
 * as all real ones do. */
static void indices(struct tw_buf *b)
{
	static const char *const ops[] = {"j / 8",
					  "j % 8",
					  "j / 7",
					  "j % 7",
					  "j / -7",
					  "j % -7",
					  "j / D",
					  "j % D",
					  "i / D",
					  "i % D",
					  "ceil_div(j, 8)",
					  "ceil_div(j, 7)",
					  "ceil_div(i, 7)",
					  "round_up(j, 8)",
					  "round_up(i, 7)",
					  "ceil_div(j, D)",
					  "round_up(j, D)",
					  "j / Z",
					  "j % Z",
					  "i / Z",
					  "ceil_div(j, Z)",
					  "j / (i - 5)",
					  "ceil_div(j, i - 5)",
					  "i / (i % 3)",
					  "j % (i - 5)"};
	buf_puts(b, "program indices(A: i64[N], B: i64[N], C: i64[N]");
	for (int i = 0; i < TW_COUNT(ops); i++)
		buf_printf(b, ", out R%d: i64[N]", i);
	buf_puts(b, ") launch core(1)\n{\n  for i in repeat(N) {\n    let j = index(A[i]) / 16;\n");
	for (int i = 0; i < TW_COUNT(ops); i++)
		buf_printf(b, "    R%d[i] = i64(%s);\n", i, ops[i]);
	buf_puts(b, "  }\n}\n");
}

static void reductions(struct tw_buf *b, enum twir_scalar t)
{
	static const char *const ops[] = {"add", "mul", "min", "max", "minnum", "maxnum", "and", "or", "xor"};
	const int n = twir_is_float(t) ? 6 : 9;
	const char *type = twir_scalar_name(t);
	buf_printf(b, "program reduce_%s(A: %s[N], B: %s[N], C: %s[N]", type, type, type, type);
	for (int i = 0; i < n; i++)
		buf_printf(b, ", out R%d: %s[ceil_div(N, @L)]", i, type);
	buf_puts(b, ") launch core(ceil_div(N, @L)), lane(@L)\n{\n  for (t) in spatial(ceil_div(N, @L)) on core {\n");
	buf_printf(b,
		   "    register r: %s[@L] mirrors spatial(@L);\n    for (l) in spatial(@L) on lane {\n"
		   "      r[l] = A[min(t * @L + l, N - 1)];\n    }\n",
		   type);
	for (int i = 0; i < n; i++)
		buf_printf(b, "    R%d[t] = reduce(%s, r);\n", i, ops[i]);
	buf_puts(b, "  }\n}\n");
}

/* Gathers by 32 and 64-bit indices, guarded ones and a scatter. */
static void gathers(struct tw_buf *b, enum twir_scalar t)
{
	const char *type = twir_scalar_name(t);
	buf_printf(
		b,
		"program gather_%s(A: %s[N], I: i32[N], J: i64[N], out R0: %s[N], out R1: %s[N], out R2: %s[N], out "
		"R3: %s[N])\n"
		"  launch core(ceil_div(N, 64)), lane(@L)\n{\n"
		"  for (i) in spatial(ceil_div(N, 64)) * repeat(64 / @L) * spatial(@L) on (core, lane) within (N) {\n"
		"    R0[i] = A[index(I[i]) %% N];\n    R1[i] = A[index(J[i]) %% N];\n"
		"    R2[i] = I[i] > 0 ? A[index(I[i]) %% N] : A[N - 1 - i];\n    R3[N - 1 - i] = A[i];\n  }\n}\n",
		type, type, type, type, type, type);
}

static uint64_t next(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return *state >> 11 ^ *state << 31;
}

static void fill(void *at, enum twir_scalar t, uint64_t *state)
{
	static const double odd[] = {
		0.0,	      -0.0,	 1,	 -1,	0.5,	  -0.5,	 1.5,	    2.5,	  -2.5,
		127.5,	      -128.5,	 255.5,	 65504, 65519.99, 65520, 8388607.5, 2147483648.0, -2147483648.0,
		4294967296.0, 9.3e18,	 1.9e19, 1e30,	-1e30,	  3e-8,	 6e-5,	    -1e-40,	  4503599627370495.5,
		INFINITY,     -INFINITY, NAN};
	static const uint64_t awkward[] = {
		0,	    1,	       UINT64_MAX,	  2,  7, 8, 127, 128, 255, 32767, 32768, INT32_MAX, 2147483648u,
		UINT32_MAX, INT64_MAX, (uint64_t)1 << 63, 33, 63};
	const int size = twir_scalar_bytes(t);
	for (int i = 0; i < N; i++) {
		const uint64_t r = next(state);
		const double near = ((double)(r >> 12) / (double)((uint64_t)1 << 51) - 1) * ((r & 7) == 0 ? 40000 : 3);
		const double d = r % 3 == 0 ? odd[next(state) % TW_COUNT(odd)] : near;
		const float f = (float)d;
		const uint64_t u = r % 3 == 0	? awkward[next(state) % TW_COUNT(awkward)]
				   : r % 3 == 1 ? next(state)
						: next(state) % 20;
		if (t == TWIR_F32)
			memcpy((char *)at + i * 4, &f, 4);
		else if (t == TWIR_F64)
			memcpy((char *)at + i * 8, &d, 8);
		else if (t == TWIR_I1)
			((uint8_t *)at)[i] = u & 1;
		else
			memcpy((char *)at + i * size, &u, (size_t)size);
	}
}

static bool same(enum twir_scalar t, const void *a, const void *b, int i)
{
	const int size = twir_scalar_bytes(t);
	const char *x = (const char *)a + i * size, *y = (const char *)b + i * size;
	if (memcmp(x, y, (size_t)size) == 0)
		return true;
	if (t == TWIR_F32)
		return isnan(*(const float *)(const void *)x) && isnan(*(const float *)(const void *)y);
	if (t == TWIR_F64)
		return isnan(*(const double *)(const void *)x) && isnan(*(const double *)(const void *)y);
	if (t == TWIR_F16)
		return isnan(tw_f16_to_f32(*(const uint16_t *)(const void *)x)) &&
		       isnan(tw_f16_to_f32(*(const uint16_t *)(const void *)y));
	if (t == TWIR_BF16)
		return isnan(tw_bf16_to_f32(*(const uint16_t *)(const void *)x)) &&
		       isnan(tw_bf16_to_f32(*(const uint16_t *)(const void *)y));
	return false;
}

struct job {
	struct tw_arena *arena;
	struct twir_module *m;
	struct tw_target target;
	void *(*buf)[MAX_PARAMS], *(*expected)[MAX_PARAMS];
	int64_t sym[8];
};

static void prepare(void *arg)
{
	struct job *j = arg;
	struct tw_arena *a = j->arena;
	uint64_t state = 42;
	struct tw_buf text;
	buf_init(&text, a);
	buf_puts(&text, "symbol N, D, Z;\n");
	for (int i = 0; i < TW_COUNT(types); i++) {
		operations(&text, types[i]);
		conversions(&text, types[i]);
		reductions(&text, types[i]);
		gathers(&text, types[i]);
	}
	gathers(&text, TWIR_I1);
	conversions(&text, TWIR_I1);
	conversions(&text, TWIR_F16);
	conversions(&text, TWIR_BF16);
	logic(&text);
	dots(&text);
	indices(&text);
	j->m = twir_module_new(a);
	twir_parse(j->m, "ops", support_replace(a, text.at, "@L", arena_printf(a, "%d", j->target.lanes)));
	const int n = j->m->programs.n;
	j->buf = arena_alloc(a, sizeof(*j->buf) * (size_t)n);
	j->expected = arena_alloc(a, sizeof(*j->expected) * (size_t)n);
	for (int k = 0; k < n; k++) {
		struct twir_program *p = j->m->programs.at[k];
		struct twir_data data[MAX_PARAMS];
		twir_program_symbols(j->m, p);
		for (int i = 0; i < p->nsymbols; i++)
			j->sym[i] = strcmp(p->symbols[i]->name, "N") == 0   ? N
				    : strcmp(p->symbols[i]->name, "D") == 0 ? 5
									    : 0;
		assert_true(p->nparams <= MAX_PARAMS);
		const struct twir_binding b = {p->nsymbols, p->symbols, j->sym};
		for (int i = 0; i < p->nparams; i++) {
			const enum twir_scalar t = p->params[i]->type;
			data[i].elements = twir_eval_index(twir_tensor_elements(j->m, p->params[i]), &b);
			data[i].at = j->buf[k][i] = arena_alloc(a, N * 8);
			if (p->params[i]->scope == TWIR_IN)
				fill(data[i].at, t == TWIR_F16 || t == TWIR_BF16 ? TWIR_U16 : t, &state);
		}
		twir_interpret(j->m, p, &b, data);
		for (int i = 0; i < p->nparams; i++) {
			j->expected[k][i] = arena_copy(a, data[i].at, N * 8);
			if (p->params[i]->scope == TWIR_OUT)
				memset(data[i].at, 0xa5, N * 8);
		}
		tw_lower(j->m, p, &j->target, NULL, NULL);
		twir_program_symbols(j->m, p);
	}
}

static int compare(struct job *j, int k)
{
	const struct twir_program *p = j->m->programs.at[k];
	int failed = 0;
	for (int i = 3; i < p->nparams; i++) {
		const bool reduced = strncmp(p->name, "reduce_", 7) == 0;
		const int n = reduced ? (N + j->target.lanes - 1) / j->target.lanes : N;
		for (int e = 0; e < n; e++)
			if (!same(p->params[i]->type, j->buf[k][i], j->expected[k][i], e)) {
				fprintf(stderr, "%s on %s: element %d of %s differs\n", p->name,
					tw_isa_name(j->target.isa), e, p->params[i]->name);
				failed++;
				break;
			}
	}
	return failed;
}

static void check(enum tw_isa isa, int lanes, const char *command)
{
	struct tw_toolchain tc;
	struct tw_error e;
	struct compiled c;
	if (!cgen_runs_here(isa) || !cgen_compiler(&tc, command)) {
		print_message("no %s with %s here\n", tw_isa_name(isa), command);
		return;
	}
	struct job j = {.arena = arena_new(), .target = support_target(isa, lanes)};
	j.target.has_fma = isa != TW_ISA_SCALAR && isa != TW_ISA_GENERIC;
	if (!tw_try(&e, prepare, &j))
		fail_msg("%s", e.text);
	cgen_compile(&c, j.arena, j.m, j.m->programs.n, j.m->programs.at, &j.target, &tc);
	int failed = 0;
	for (int k = 0; k < j.m->programs.n; k++) {
		cgen_call(&c, k, j.m, j.m->programs.at[k], j.buf[k], j.sym);
		failed += compare(&j, k);
	}
	cgen_close(&c);
	arena_free(j.arena);
	assert_int_equal(failed, 0);
}

#define STRICT " -Wall -Wextra -Werror"
#define TRAPS  " -fsanitize=undefined -fsanitize-undefined-trap-on-error"

static void avx512(void **state)
{
	(void)state;
	/* which includes the other's rows */
	check(cgen_runs_here(TW_ISA_AVX512_VNNI) ? TW_ISA_AVX512_VNNI : TW_ISA_AVX512, 16, "gcc" STRICT);
}

static void avx2_clang(void **state)
{
	(void)state;
	check(TW_ISA_AVX2, 8, "clang" STRICT);
}

static void generic(void **state)
{
	(void)state;
	check(TW_ISA_GENERIC, 4, "gcc" STRICT);
}

static void scalar_undefined(void **state)
{
	(void)state;
	check(TW_ISA_SCALAR, 16, "gcc -O1" STRICT TRAPS);
}

/* Text for another machine: it compiles without a warning. */
static void neon_compiles(void **state)
{
	(void)state;
	struct tw_toolchain tc;
	struct tw_error e;
	struct tw_object o;
	struct job j = {.arena = arena_new(), .target = support_target(TW_ISA_NEON, 4)};
	if (!tw_try(&e, prepare, &j))
		fail_msg("%s", e.text);
	if (!cgen_compiler(&tc, "aarch64-linux-gnu-gcc" STRICT))
		print_message("no aarch64-linux-gnu-gcc here\n");
	else if (cpu_compile(j.arena, j.m, j.m->programs.n, j.m->programs.at, &j.target, &tc, 2, NULL, NULL, &o, &e))
		fail_msg("%s", e.text);
	arena_free(j.arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(avx512),	    cmocka_unit_test(avx2_clang),    cmocka_unit_test(generic),
		cmocka_unit_test(scalar_undefined), cmocka_unit_test(neon_compiles),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
