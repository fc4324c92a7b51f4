/* What the machine can do at most, measured where the profile is: multiply-adds a second of all threads together
 * and bytes a second that they read. Both are programs in the language of task mappings, compiled like any kernel. */
#include "cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* After the definition of L, the lanes of f32: ports and work are those of the machine at hand unless a number
 * says otherwise. */
static const char text[] =
	"const MR = L == 16 ? 12 : 6;\n"
	"symbol ITEMS, STEPS, N;\n"
	"program peak(x: f32[2], start: f32[MR, 2 * L], out y: f32[ITEMS, MR, 2 * L])\n"
	"  launch core(ITEMS), lane(L)\n"
	"{\n"
	"  map tile = repeat(MR, 2) * spatial(1, L);\n"
	"  for (item) in spatial(ITEMS) on core {\n"
	"    register acc: f32[MR, 2 * L] mirrors tile;\n"
	"    for (i, j) in tile on lane { acc[i, j] = start[i, j]; }\n"
	"    for s in repeat(STEPS) { for (i, j) in tile on lane { acc[i, j] = fma(acc[i, j], x[0], x[1]); } }\n"
	"    for (i, j) in tile on lane { y[item, i, j] = acc[i, j]; }\n"
	"  }\n"
	"}\n"
	"program read(x: f32[N], out y: f32[ceil_div(N, 65536), 8 * L])\n"
	"  launch core(ceil_div(N, 65536)), lane(L)\n"
	"{\n"
	"  map vectors = repeat(8) * spatial(L);\n"
	"  for (item) in spatial(ceil_div(N, 65536)) on core {\n"
	"    register acc: f32[8 * L] mirrors vectors;\n"
	"    for (j) in vectors on lane { acc[j] = 0.0; }\n"
	"    for s in repeat(65536 / (8 * L)) {\n"
	"      for (j) in vectors on lane { acc[j] = acc[j] + x[65536 * item + 8 * L * s + j]; }\n"
	"    }\n"
	"    for (j) in vectors on lane { y[item, j] = acc[j]; }\n"
	"  }\n"
	"}\n";

static const char *lanes_of(const char *isa)
{
	static const char *const known[][2] = {{"avx512vnni", "16"}, {"avx512", "16"}, {"avx2", "8"},
					       {"neon", "4"},	     {"generic", "4"}, {"scalar", "16"}};
	for (size_t i = 0; isa && i < sizeof(known) / sizeof(known[0]); i++)
		if (strcmp(isa, known[i][0]) == 0)
			return known[i][1];
	return "lanes(f32)";
}

enum { STEPS = 20000, ITEMS_A_THREAD = 4, FLOATS_READ = 64 << 20, ROUNDS = 7, HUGE_PAGE = 2 << 20 };

/* Inputs of a half, which neither vanish nor grow in the loop. */
static tilewright_status give_inputs(const tilewright_program *p, tilewright_context *c, float **data)
{
	tilewright_status s = TILEWRIGHT_OK;
	int is_output;
	for (int i = 0; s == TILEWRIGHT_OK && i < tilewright_count_parameters(p); i++) {
		const tilewright_port *port = tilewright_get_parameter(p, i, &is_output);
		int64_t n = 1;
		for (int d = 0; d < port->rank; d++)
			n *= port->dims[d];
		if (is_output)
			continue;
		const size_t bytes = ((size_t)n * sizeof(float) + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
		data[i] = aligned_alloc(HUGE_PAGE, bytes);
		if (data[i] == NULL)
			return TILEWRIGHT_ERROR_MEMORY;
		madvise(data[i], bytes, MADV_HUGEPAGE); /* as weights lie: a wish */
		for (int64_t k = 0; k < n; k++)
			data[i][k] = 0.5F + (float)(k % 8) / 64;
		s = tilewright_set_input(c, i, TILEWRIGHT_F32, port->rank, port->dims, data[i]);
	}
	return s;
}

/* Operations and bytes a second of the program `which`, in units of 1e9, in its fastest run. */
static tilewright_status fastest(const char *which, const struct args *a, int threads, double *operations,
				 double *bytes)
{
	const struct args plain = {.isa = a->isa, .no_cache = a->no_cache};
	tilewright_options *options = NULL;
	tilewright_program *p = NULL;
	tilewright_model *m = NULL;
	tilewright_context *c = NULL;
	struct problem ignored;
	float *data[2] = {NULL, NULL};
	double least = 0;
	if (cli_make_options(&plain, true, &options, &ignored) != EXIT_DONE)
		return TILEWRIGHT_ERROR_MEMORY;
	char whole[sizeof(text) + 64];
	snprintf(whole, sizeof(whole), "const L = %s;\n%s", lanes_of(a->isa), text);
	tilewright_status s = tilewright_open_program("rates", whole, which, &p);
	for (int i = 0; s == TILEWRIGHT_OK && i < tilewright_count_sizes(p); i++) {
		int64_t value;
		const char *name = tilewright_get_size(p, i, &value);
		value = strcmp(name, "N") == 0	     ? FLOATS_READ
			: strcmp(name, "STEPS") == 0 ? STEPS
						     : (int64_t)threads * ITEMS_A_THREAD;
		s = tilewright_set_size(p, name, value);
	}
	if (s == TILEWRIGHT_OK)
		s = tilewright_count_work(p, operations, bytes);
	if (s == TILEWRIGHT_OK)
		s = tilewright_compile_program(p, options, &m);
	if (s == TILEWRIGHT_OK)
		s = tilewright_create_context(m, threads, &c);
	if (s == TILEWRIGHT_OK)
		s = give_inputs(p, c, data);
	for (int i = 0; s == TILEWRIGHT_OK && i < ROUNDS; i++) {
		const double start = cli_now_ms();
		s = tilewright_run(c);
		const double taken = cli_now_ms() - start;
		least = i == 0 || taken < least ? taken : least;
	}
	*operations /= least * 1e6;
	*bytes /= least * 1e6;
	tilewright_free_context(c);
	tilewright_free_model(m);
	tilewright_free_program(p);
	tilewright_free_options(options);
	free(data[0]);
	free(data[1]);
	return s;
}

bool cli_measure_rates(const struct args *a, int threads, struct rates *r)
{
	double ignored;
	return fastest("peak", a, threads, &r->gflops, &ignored) == TILEWRIGHT_OK &&
	       fastest("read", a, threads, &ignored, &r->gbytes) == TILEWRIGHT_OK;
}
