/* tilewright show: what a model was compiled to. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

static void port(const tilewright_port *p)
{
	fputs("  ", stdout);
	cli_print_text(stdout, p->name);
	printf("  %s[", tilewright_type_name(p->type));
	for (int d = 0; d < p->rank; d++) {
		fputs(d ? ", " : "", stdout);
		cli_print_text(stdout, p->dim_text[d]);
	}
	puts("]");
}

static double mb(const tilewright_model *m, const char *key)
{
	const char *text = tilewright_get_fact(m, key);
	return text ? atof(text) / 1048576 : 0;
}

static int count_kind(const tilewright_model *m, const char *kind)
{
	int n = 0;
	for (int i = 0; i < tilewright_count_steps(m); i++) {
		tilewright_step s;
		tilewright_get_step(m, i, &s);
		n += strcmp(s.kind, kind) == 0;
	}
	return n;
}

static void host_operators(const tilewright_model *m)
{
	printf("host operators: %d", count_kind(m, "host"));
	const char *before = " (";
	for (int i = 0; i < tilewright_count_steps(m); i++) {
		tilewright_step s, earlier;
		tilewright_get_step(m, i, &s);
		bool first = strcmp(s.kind, "host") == 0;
		for (int k = 0; k < i && first; k++) {
			tilewright_get_step(m, k, &earlier);
			first = strcmp(earlier.kind, "host") != 0 || strcmp(earlier.program, s.program) != 0;
		}
		if (first) {
			printf("%s%s", before, s.program);
			before = ", ";
		}
	}
	puts(before[0] == ',' ? ")" : "");
}

/* Intermediate results for the sizes given: planned, nothing is run. False: sizes are missing. */
static bool arena(const struct args *a, tilewright_model *m, double *megabytes, struct problem *p)
{
	const int n = tilewright_count_inputs(m);
	struct tensor *t = calloc((size_t)n + 1, sizeof(*t));
	tilewright_context *c = NULL;
	bool done = t && cli_make_inputs(a, m, true, t, p) == EXIT_DONE &&
		    tilewright_create_context(m, 1, &c) == TILEWRIGHT_OK && cli_set_inputs(c, n, t, p) == EXIT_DONE &&
		    tilewright_prepare(c) == TILEWRIGHT_OK;
	if (done)
		*megabytes = (double)tilewright_get_arena_bytes(c) / 1048576;
	tilewright_free_context(c);
	if (t)
		cli_free_tensors(n, t);
	return done;
}

static void show(const struct args *a, tilewright_model *m)
{
	const char *nodes = tilewright_get_fact(m, "nodes"), *kernels = tilewright_get_fact(m, "kernels"),
		   *target = tilewright_get_fact(m, "target");
	double megabytes = 0;
	struct problem p;
	printf("model: %s\n", a->files[0]);
	printf("nodes: %s\n", nodes ? nodes : "unknown");
	printf("kernels: %s\n", kernels ? kernels : "unknown");
	host_operators(m);
	printf("steps: %d\n", tilewright_count_steps(m));
	if (target)
		printf("target: %s\n", target);
	printf("memory: constants %.1f MB, ", mb(m, "constant bytes"));
	if (arena(a, m, &megabytes, &p))
		printf("intermediate results %.1f MB\n", megabytes);
	else
		puts("intermediate results depend on sizes (give them with -d)");
	puts("inputs:");
	for (int i = 0; i < tilewright_count_inputs(m); i++)
		port(tilewright_get_input_port(m, i));
	puts("outputs:");
	for (int i = 0; i < tilewright_count_outputs(m); i++)
		port(tilewright_get_output_port(m, i));
	puts("groups:");
	for (int i = 0; i < tilewright_count_steps(m); i++) {
		tilewright_step s;
		tilewright_get_step(m, i, &s);
		printf("  %3d  %-6s %-28s ", i, s.kind, s.program);
		cli_print_text(stdout, s.label);
		putchar('\n');
	}
}

int cmd_show(const struct args *a)
{
	struct problem p;
	tilewright_model *m;
	const int code = cli_open_model(a, a->files[0], &m, &p);
	if (code != EXIT_DONE)
		return cli_fail(&p);
	show(a, m);
	tilewright_free_model(m);
	return EXIT_DONE;
}
