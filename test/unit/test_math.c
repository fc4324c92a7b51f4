/* rooms: base tmap target ir pass cgen backend/cpu */
/* The math library: every 997th f32 and samples of f64, through lowered and compiled vector code, against the C
 * library in a wider type. The largest error in units of the last place is held to the bounds that math.tw states;
 * special values give what C says. On a sample the interpreter, scalar code and vector code agree bit for bit. With an
 * argument: prints the measured errors. */
#include <setjmp.h>
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "cgen_run.h"
#include "pass_support.h"

enum { STEP = 997, COUNT32 = (int)(((int64_t)1 << 32) / STEP), COUNT64 = 100000, SAMPLE = 3000 };

static bool verbose;

static double sigmoid(double x)
{
	return 1 / (1 + exp(-x));
}

static long double sigmoidl(long double x)
{
	return 1 / (1 + expl(-x));
}

static double softplus(double x)
{
	return (x > 0 ? x : 0) + log1p(exp(-fabs(x)));
}

static long double softplusl(long double x)
{
	return (x > 0 ? x : 0) + log1pl(expl(-fabsl(x)));
}

/* flush: a result below the normal range may be 0. bounds: ulp for f32 and f64, as math.tw states them. */
static const struct function {
	const char *name;
	double (*f)(double);
	long double (*l)(long double);
	double bound32, bound64;
	bool flush;
} functions[] = {
	{"exp", exp, expl, 1, 1, true},
	{"exp2", exp2, exp2l, 1.1, 1.1, true},
	{"expm1", expm1, expm1l, 2, 2, false},
	{"log", log, logl, 1, 1, false},
	{"log2", log2, log2l, 2, 2, false},
	{"log1p", log1p, log1pl, 2, 2, false},
	{"sigmoid", sigmoid, sigmoidl, 2, 3, true},
	{"softplus", softplus, softplusl, 2, 2, true},
	{"tanh", tanh, tanhl, 2, 3, false},
	{"erf", erf, erfl, 1, 2, false},
	{"sin", sin, sinl, 2, 2, false},
	{"cos", cos, cosl, 2, 2, false},
	{"tan", tan, tanl, 4, 3, false},
	{"asin", asin, asinl, 2, 3, false},
	{"acos", acos, acosl, 2, 3, false},
	{"atan", atan, atanl, 2, 2, false},
	{"sinh", sinh, sinhl, 3, 3, false},
	{"cosh", cosh, coshl, 3, 3, false},
	{"asinh", asinh, asinhl, 3, 3, false},
	{"acosh", acosh, acoshl, 3, 3, false},
	{"atanh", atanh, atanhl, 3, 3, false},
};

struct library {
	struct tw_arena *arena;
	struct tw_target target;
	struct twir_module *m;
	struct compiled c;
	bool lower;
};

static void write_programs(struct tw_buf *b)
{
	static const char *const types[] = {"f32", "f64"}, *const pairs[] = {"pow", "fmod"};
	buf_puts(b, "symbol N;\n");
	for (int i = 0; i < TW_COUNT(functions) + TW_COUNT(pairs); i++)
		for (int d = 0; d < 2; d++) {
			const bool pair = i >= TW_COUNT(functions);
			const char *name = pair ? pairs[i - TW_COUNT(functions)] : functions[i].name, *t = types[d];
			buf_printf(b,
				   "program k_%s_%s(X: %s[N], Z: %s[N], out Y: %s[N]) launch core(ceil_div(N, 4096)), "
				   "lane(@L)\n{\n"
				   "  for (i) in spatial(ceil_div(N, 4096)) * repeat(4096 / @L) * spatial(@L) on "
				   "(core, lane) within (N) {\n"
				   "    Y[i] = %s(X[i]%s);\n  }\n}\n",
				   name, t, t, t, t, name, pair ? ", Z[i]" : "");
		}
}

static void build(void *arg)
{
	struct library *l = arg;
	struct tw_buf b;
	buf_init(&b, l->arena);
	write_programs(&b);
	l->m = twir_module_new(l->arena);
	twir_parse(l->m, "math", support_replace(l->arena, b.at, "@L", arena_printf(l->arena, "%d", l->target.lanes)));
	for (int i = 0; i < l->m->programs.n; i++) {
		if (l->lower)
			tw_lower(l->m, l->m->programs.at[i], &l->target, NULL, NULL);
		twir_program_symbols(l->m, l->m->programs.at[i]);
	}
}

static void library_open(struct library *l, enum tw_isa isa, bool compile)
{
	static const int lanes[TW_ISA_COUNT] = {
		[TW_ISA_SCALAR] = 16, [TW_ISA_GENERIC] = 4, [TW_ISA_NEON] = 4, [TW_ISA_AVX2] = 8, [TW_ISA_AVX512] = 16};
	struct tw_toolchain tc;
	struct tw_error e;
	*l = (struct library){.arena = arena_new(), .target = support_target(isa, lanes[isa]), .lower = compile};
	l->target.has_fma = isa == TW_ISA_AVX2 || isa == TW_ISA_AVX512 || isa == TW_ISA_NEON;
	if (!tw_try(&e, build, l))
		fail_msg("%s", e.text);
	if (!compile)
		return;
	if (tw_toolchain_find(&tc, &e) != TW_ERR_OK)
		fail_msg("%s", e.text);
	cgen_compile(&l->c, l->arena, l->m, l->m->programs.n, l->m->programs.at, &l->target, &tc);
	if (verbose)
		print_message("%s: %d files\n", tw_isa_name(isa), l->c.object.files);
}

static void library_close(struct library *l)
{
	cgen_close(&l->c);
	arena_free(l->arena);
}

static void call(struct library *l, int kernel, const void *x, const void *z, void *y, int64_t n)
{
	void *buf[] = {(void *)(uintptr_t)x, (void *)(uintptr_t)z, y};
	cgen_call(&l->c, kernel, l->m, l->m->programs.at[kernel], buf, &n);
}

static enum tw_isa best(void)
{
	static const enum tw_isa order[] = {TW_ISA_AVX512, TW_ISA_AVX2, TW_ISA_NEON, TW_ISA_GENERIC};
	int i = 0;
	while (!cgen_runs_here(order[i]))
		i++;
	return order[i];
}

struct worst {
	const char *name;
	double bound, ulp, x, z;
	int wrong;
};

/* One result y against the true value r of a type with `bits` of precision and least normal exponent `least`. */
static void judge(struct worst *w, double x, double z, double y, long double r, int bits, int least, bool flush)
{
	const long double tiny = ldexpl(1, least);
	const double rounded = bits == 24 ? (double)(float)r : (double)r;
	int e;
	bool right = true;
	if (y == rounded && y != 0) /* within half a unit */
		return;
	if (isnan(r)) {
		right = isnan(y);
	} else if (fabsl(r) < tiny && flush) {
		right = y == 0 || fabs(y) <= tiny;
	} else if (isinf(rounded) || r == 0) {
		right = y == rounded && signbit(y) == signbit(rounded);
	} else if (isnan(y) || isinf(y)) {
		right = false;
	} else {
		frexpl(r, &e);
		e = e - 1 < least ? least + 1 : e; /* the spacing of subnormals is that of the least normal numbers */
		const double ulp = (double)(fabsl((long double)y - r) / ldexpl(1, e - bits));
		if (ulp > w->ulp) {
			w->ulp = ulp;
			w->x = x;
			w->z = z;
		}
	}
	if (!right && w->wrong++ < 3)
		print_message("%s(%a, %a) = %a, should be %La\n", w->name, x, z, y, r);
}

static void finish(const struct worst *w, const char *type, int *failed)
{
	if (verbose)
		print_message("%s_%s: %.3f ulp at %a, %a (bound %g)\n", w->name, type, w->ulp, w->x, w->z, w->bound);
	if (w->wrong || w->ulp > w->bound) {
		print_message("%s_%s: %d wrong values, %.3f ulp at %a, %a, bound %g\n", w->name, type, w->wrong, w->ulp,
			      w->x, w->z, w->bound);
		++*failed;
	}
}

static void sweep_f32(void **state)
{
	struct library *l = *state;
	float *x = malloc(COUNT32 * sizeof *x), *y = malloc(COUNT32 * sizeof *y);
	static const float special[] = {0.0f, -0.0f,	 1,	    -1,		INFINITY,	  -INFINITY,
					NAN,  0x1p-126f, 0x1p-149f, -0x1p-149f, 0x1.fffffep+127f, -0x1.fffffep+127f,
					0.5f, -0.5f};
	int failed = 0;
	for (int i = 0; i < COUNT32; i++) {
		const uint32_t u = (uint32_t)i * STEP;
		memcpy(x + i, &u, 4);
	}
	memcpy(x, special, sizeof special);
	for (int k = 0; k < TW_COUNT(functions); k++) {
		const struct function *f = &functions[k];
		struct worst w = {.name = f->name, .bound = f->bound32};
		call(l, 2 * k, x, x, y, COUNT32);
		for (int i = 0; i < COUNT32; i++)
			judge(&w, x[i], 0, y[i], f->f(x[i]), 24, -126, f->flush);
		finish(&w, "f32", &failed);
	}
	free(x);
	free(y);
	assert_int_equal(failed, 0);
}

static uint64_t next(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return *state >> 11 ^ *state << 31;
}

/* Uniform in -1 .. 1 */
static double unit(uint64_t *state)
{
	return (double)(int64_t)(next(state)) / 0x1p63;
}

static void samples_f64(void **state)
{
	struct library *l = *state;
	double *x = malloc(COUNT64 * sizeof *x), *y = malloc(COUNT64 * sizeof *y);
	static const double special[] = {0.0,	    -0.0,      1,	   -1,	   INFINITY, -INFINITY, NAN,
					 0x1p-1022, 0x1p-1074, -0x1p-1074, 0x1p50, -0x1p50,  0.5,	-0.5};
	int failed = 0;
	for (int k = 0; k < TW_COUNT(functions); k++) {
		const struct function *f = &functions[k];
		const bool periodic = f->f == sin || f->f == cos || f->f == tan;
		struct worst w = {.name = f->name, .bound = f->bound64};
		uint64_t seed = 5;
		for (int i = 0; i < COUNT64; i++) {
			const double u = unit(&seed);
			const int e = (int)(next(&seed) % 2040) - 1020;
			x[i] = i % 4 == 0    ? ldexp(u, (int)(next(&seed) % 60) - 40)
			       : i % 4 == 1  ? 10 * u
			       : i % 4 == 2  ? 700 * u
			       : i % 64 == 3 ? ldexp(u, e)
					     : u;
			if (periodic && fabs(x[i]) > 0x1p50)
				x[i] = u;
		}
		memcpy(x, special, sizeof special);
		call(l, 2 * k + 1, x, x, y, COUNT64);
		for (int i = 0; i < COUNT64; i++)
			judge(&w, x[i], 0, y[i], f->l(x[i]), 53, -1022, true);
		finish(&w, "f64", &failed);
	}
	free(x);
	free(y);
	assert_int_equal(failed, 0);
}

static void two_arguments(void **state)
{
	enum { N = 100000 };
	static const float special[] = {0,	-0.0f,	1,	  -1,	    2,	       -2,  3,
					-3,	0.5f,	-0.5f,	  INFINITY, -INFINITY, NAN, 1e30f,
					-1e30f, 1e-40f, 16777217, 16777215, -16777215};
	static float x[N], z[N], y[N];
	static double xd[N], zd[N], yd[N];
	struct library *l = *state;
	int failed = 0;
	for (int k = 0; k < 2; k++) {
		enum { S = TW_COUNT(special) };
		uint64_t seed = 9;
		struct worst w = {.name = k ? "fmod" : "pow", .bound = k ? 0 : 1},
			     wd = {.name = w.name, .bound = k ? 0 : 2};
		for (int i = 0; i < N; i++) {
			const int wide = i % 3 ? 5 : 125, e = (int)(next(&seed) % (2 * (unsigned)wide)) - wide;
			x[i] = ldexpf((float)unit(&seed), e);
			if (!k && i % 16)
				x[i] = fabsf(x[i]);
			z[i] = (float)unit(&seed) * (i % 7 ? 5 : i % 2 ? 150 : 5e4f);
			if (k)
				z[i] = ldexpf(z[i], (int)(next(&seed) % 60) - 30);
			if (i % 11 == 5)
				z[i] = rintf(z[i]);
			if (i < S * S) {
				x[i] = special[i / S];
				z[i] = special[i % S];
			}
			xd[i] = x[i];
			zd[i] = z[i];
			if (i >= S * S && !k) {
				xd[i] *= 1 + 1e-9 * unit(&seed);
				if (i % 5 == 0)
					xd[i] = 1 + 1e-3 * unit(&seed);
			}
			if (k && fabs(xd[i]) > 0x1p99 * fabs(zd[i]) && i >= S * S) /* math.tw: quotients below 2^100 */
				zd[i] = xd[i] / 3;
		}
		call(l, 2 * (TW_COUNT(functions) + k), x, z, y, N);
		call(l, 2 * (TW_COUNT(functions) + k) + 1, xd, zd, yd, N);
		for (int i = 0; i < N; i++) {
			judge(&w, x[i], z[i], y[i], k ? fmod(x[i], z[i]) : powl(x[i], z[i]), 24, -126, false);
			if (!k || i >= S * S)
				judge(&wd, xd[i], zd[i], yd[i], k ? fmodl(xd[i], zd[i]) : powl(xd[i], zd[i]), 53, -1022,
				      !k);
		}
		finish(&w, "f32", &failed);
		finish(&wd, "f64", &failed);
	}
	assert_int_equal(failed, 0);
}

/* Storage types against the conversions of base: every 16-bit pattern, and every 997th f32 (a NaN stays one). */
static void storage_types(void **state)
{
	(void)state;
	static const char text[] =
		"symbol N;\n"
		"program read(A: f16[N], B: bf16[N], out X: f32[N], out Y: f32[N]) launch core(1) {\n"
		"  for i in repeat(N) { X[i] = f32(A[i]); Y[i] = f32(B[i]); }\n}\n"
		"program write(A: f32[N], D: f64[N], out X: f16[N], out Y: bf16[N], out Z: f16[N], out U: u16[N], out "
		"V: u16[N])\n"
		"  launch core(1) {\n"
		"  for i in repeat(N) {\n    X[i] = f16(A[i]);\n    Y[i] = bf16(A[i]);\n    Z[i] = f16(D[i]);\n"
		"    U[i] = f64_to_f16(D[i]);\n    V[i] = f64_to_bf16(D[i]);\n  }\n}\n";
	enum { ALL = 65536 };
	struct tw_arena *a = arena_new();
	struct tw_toolchain tc;
	struct tw_error e;
	struct compiled c;
	const struct tw_target t = support_target(TW_ISA_SCALAR, 16);
	struct twir_module *m = cgen_parse(a, text);
	for (int i = 0; i < 2; i++)
		tw_lower(m, m->programs.at[i], &t, NULL, NULL);
	assert_int_equal(tw_toolchain_find(&tc, &e), TW_ERR_OK);
	cgen_compile(&c, a, m, 2, m->programs.at, &t, &tc);
	uint16_t *h = arena_alloc(a, ALL * 2);
	float *x = arena_alloc(a, ALL * 4), *y = arena_alloc(a, ALL * 4);
	for (int i = 0; i < ALL; i++)
		h[i] = (uint16_t)i;
	cgen_call(&c, 0, m, m->programs.at[0], (void *[]){h, h, x, y}, (int64_t[]){ALL});
	for (int i = 0; i < ALL; i++) {
		const float f = tw_f16_to_f32(h[i]), g = tw_bf16_to_f32(h[i]);
		assert_true((isnan(f) && isnan(x[i])) || memcmp(&f, x + i, 4) == 0);
		assert_true((isnan(g) && isnan(y[i])) || memcmp(&g, y + i, 4) == 0);
	}
	const int n = COUNT32;
	float *f = malloc((size_t)n * 4);
	double *d = malloc((size_t)n * 8);
	uint16_t *out[5];
	for (int k = 0; k < 5; k++)
		out[k] = malloc((size_t)n * 2);
	for (int i = 0; i < n; i++) {
		const uint32_t u = (uint32_t)i * STEP;
		memcpy(f + i, &u, 4);
		d[i] = (double)f[i] * (i % 3 ? 1 : 1 + 1e-12) * (i % 5 ? 1 : 1e-5);
	}
	cgen_call(&c, 1, m, m->programs.at[1], (void *[]){f, d, out[0], out[1], out[2], out[3], out[4]},
		  (int64_t[]){n});
	for (int i = 0; i < n; i++) {
		if (isnan(f[i]))
			assert_true(isnan(tw_f16_to_f32(out[0][i])) && isnan(tw_bf16_to_f32(out[1][i])) &&
				    isnan(tw_f16_to_f32(out[2][i])) && isnan(tw_f16_to_f32(out[3][i])) &&
				    isnan(tw_bf16_to_f32(out[4][i])));
		else if (out[0][i] != tw_f32_to_f16(f[i]) || out[1][i] != tw_f32_to_bf16(f[i]) ||
			 out[2][i] != tw_f64_to_f16(d[i]) || out[3][i] != tw_f64_to_f16(d[i]))
			fail_msg("%a or %a: %04x %04x %04x %04x", f[i], d[i], out[0][i], out[1][i], out[2][i],
				 out[3][i]);
		else if (d[i] == (double)(float)d[i] && out[4][i] != tw_f32_to_bf16((float)d[i]))
			fail_msg("%a: bf16 %04x", d[i], out[4][i]);
	}
	for (int k = 0; k < 5; k++)
		free(out[k]);
	free(f);
	free(d);
	cgen_close(&c);
	arena_free(a);
}

/* The definitions are one text: whatever runs them gives the same bits. */
static void agreement(void **state)
{
	struct library interpreted, scalar, *vector = *state;
	static union {
		float f[SAMPLE];
		double d[SAMPLE];
	} x, z, a, b, c;
	int failed = 0;
	library_open(&interpreted, TW_ISA_SCALAR, false);
	library_open(&scalar, TW_ISA_SCALAR, true);
	for (int k = 0; k < vector->m->programs.n; k++) {
		const bool f32 = k % 2 == 0;
		const int size = f32 ? 4 : 8;
		uint64_t seed = 3;
		for (int i = 0; i < SAMPLE; i++) {
			const double u = ldexp(unit(&seed), (int)(next(&seed) % 24) - 12), v = unit(&seed) * 20;
			if (f32) {
				x.f[i] = (float)u;
				z.f[i] = (float)v;
			} else {
				x.d[i] = u;
				z.d[i] = v;
			}
		}
		struct twir_program *p = interpreted.m->programs.at[k];
		const struct twir_data data[] = {{&x, SAMPLE}, {&z, SAMPLE}, {&a, SAMPLE}};
		const struct twir_binding binding = {p->nsymbols, p->symbols, &(int64_t){SAMPLE}};
		twir_interpret(interpreted.m, p, &binding, data);
		call(vector, k, &x, &z, &b, SAMPLE);
		call(&scalar, k, &x, &z, &c, SAMPLE);
		for (int i = 0; i < SAMPLE; i++) {
			const char *pa = (const char *)&a + i * size, *pb = (const char *)&b + i * size,
				   *pc = (const char *)&c + i * size;
			if (f32 ? isnan(a.f[i]) && isnan(b.f[i]) && isnan(c.f[i])
				: isnan(a.d[i]) && isnan(b.d[i]) && isnan(c.d[i]))
				continue;
			if (memcmp(pa, pb, (size_t)size) != 0 || memcmp(pa, pc, (size_t)size) != 0) {
				print_message("%s: element %d differs: interpreter %a, vector %a, scalar %a\n", p->name,
					      i, f32 ? a.f[i] : a.d[i], f32 ? b.f[i] : b.d[i], f32 ? c.f[i] : c.d[i]);
				failed++;
				break;
			}
		}
	}
	library_close(&interpreted);
	library_close(&scalar);
	assert_int_equal(failed, 0);
}

static int open_shared(void **state)
{
	static struct library l;
	library_open(&l, best(), true);
	*state = &l;
	return 0;
}

static int close_shared(void **state)
{
	library_close(*state);
	return 0;
}

int main(int argc, char **argv)
{
	(void)argv;
	verbose = argc > 1;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sweep_f32),	 cmocka_unit_test(samples_f64), cmocka_unit_test(two_arguments),
		cmocka_unit_test(storage_types), cmocka_unit_test(agreement),
	};
	return cmocka_run_group_tests(tests, open_shared, close_shared);
}
