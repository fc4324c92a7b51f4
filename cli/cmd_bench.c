/* tilewright bench: how long a run takes. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

struct timing {
	double *ms;
	int n;
};

static int by_size(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double peak_mb(void)
{
	struct rusage r;
	return getrusage(RUSAGE_SELF, &r) == 0 ? (double)r.ru_maxrss / 1024 : 0;
}

static double fact(const tilewright_model *m, const char *key)
{
	const char *text = tilewright_get_fact(m, key);
	return text ? atof(text) : 0;
}

static int one_run(tilewright_context *c, struct problem *p)
{
	const tilewright_status s = tilewright_run(c);
	return s == TILEWRIGHT_OK ? EXIT_DONE : problem_status(p, s);
}

static int measure(const struct args *a, tilewright_context *c, struct timing *t, struct problem *p)
{
	enum { LEAST = 5, MOST = 1000 };
	const int limit = a->runs > 0 ? a->runs : MOST;
	t->ms = calloc((size_t)limit, sizeof(*t->ms));
	if (t->ms == NULL)
		return problem_memory(p);
	for (int i = 0; i < a->warmup; i++) {
		const int code = one_run(c, p);
		if (code != EXIT_DONE)
			return code;
	}
	const double start = cli_now_ms();
	for (t->n = 0; t->n < limit; t->n++) {
		if (a->runs < 0 && t->n >= LEAST && cli_now_ms() - start > 1000)
			break;
		const double before = cli_now_ms();
		const int code = one_run(c, p);
		if (code != EXIT_DONE)
			return code;
		t->ms[t->n] = cli_now_ms() - before;
	}
	qsort(t->ms, (size_t)t->n, sizeof(*t->ms), by_size);
	return EXIT_DONE;
}

struct line {
	double ms;   /* of a run: the step's least time, as often as a run does it */
	double runs; /* within one run: steps of a loop many, those of a branch perhaps none */
	int step;
};

static int slower_first(const void *a, const void *b)
{
	const struct line *x = a, *y = b;
	return x->ms != y->ms ? (x->ms < y->ms ? 1 : -1) : x->step - y->step;
}

/* A rate and its share of what the machine can do. */
static void print_rate(FILE *to, double rate, double most)
{
	if (rate <= 0)
		fprintf(to, "%9s %5s ", "-", "-");
	else if (most <= 0)
		fprintf(to, "%9.2f %5s ", rate, "-");
	else
		fprintf(to, "%9.2f %5.1f ", rate, 100 * rate / most);
}

/* Rates, what bounds the step, its program, schedule and sizes: "1x64x3136x576", those that are summed over last. */
static void print_cost(FILE *to, const tilewright_context *c, int step, const tilewright_step *s, const struct rates *r)
{
	tilewright_cost cost = {0};
	char sizes[256] = "";
	tilewright_get_step_cost(c, step, &cost);
	for (int i = 0; i < cost.extent_count; i++) {
		const size_t used = strlen(sizes);
		snprintf(sizes + used, sizeof(sizes) - used, "%s%lld", i ? "x" : "", (long long)cost.extents[i]);
	}
	const double ns = cost.least_ms > 0 ? cost.least_ms * 1e6 : 1;
	print_rate(to, cost.operations / ns, r->gflops);
	print_rate(to, cost.bytes / ns, r->gbytes);
	const bool known = r->gflops > 0 && r->gbytes > 0 && cost.operations > 0;
	const char *bound = !known ? "-" : cost.operations / r->gflops > cost.bytes / r->gbytes ? "compute" : "memory";
	fprintf(to, "%-7s  %4d  %-24s %-26s %-24s ", bound, step, s->program, s->schedule, sizes);
}

static int profile(const struct args *a, const tilewright_model *m, tilewright_context *c, FILE *to, struct problem *p)
{
	const int n = tilewright_count_steps(m);
	struct line *lines = calloc((size_t)n + 1, sizeof(*lines));
	if (lines == NULL)
		return problem_memory(p);
	tilewright_set_profile(c, 1);
	int code = EXIT_DONE;
	enum { RUNS = 20 };
	for (int i = 0; i < RUNS && code == EXIT_DONE; i++)
		code = one_run(c, p);
	double all = 0;
	for (int i = 0; i < n; i++) {
		tilewright_cost cost = {0};
		double ms = 0;
		int64_t runs = 0;
		tilewright_get_step_cost(c, i, &cost);
		tilewright_get_step_time(c, i, &ms, &runs);
		lines[i] = (struct line){cost.least_ms * (double)runs / RUNS, (double)runs / RUNS, i};
		all += lines[i].ms;
	}
	qsort(lines, (size_t)n, sizeof(*lines), slower_first);
	struct rates rates = {0};
	if (code == EXIT_DONE && cli_measure_rates(a, tilewright_count_threads(c), &rates))
		fprintf(to, "this machine, measured: %.1f GFLOP/s of multiply-adds, %.1f GB/s read from memory\n",
			rates.gflops, rates.gbytes);
	fprintf(to, "%10s %6s %6s %9s %5s %9s %5s %-7s  %4s  %-24s %-26s %-24s %s\n", "least ms", "%", "times",
		"GFLOP/s", "%", "GB/s", "%", "bound", "step", "program", "schedule", "sizes", "nodes");
	for (int i = 0; code == EXIT_DONE && i < n; i++) {
		tilewright_step s;
		tilewright_get_step(m, lines[i].step, &s);
		fprintf(to, "%10.4f %6.2f %6g ", lines[i].ms, all > 0 ? 100 * lines[i].ms / all : 0, lines[i].runs);
		print_cost(to, c, lines[i].step, &s, &rates);
		cli_print_text(to, s.label);
		fputc('\n', to);
	}
	fprintf(to, "%10.4f\n", all);
	free(lines);
	return code;
}

static void report(const struct args *a, const tilewright_model *m, const tilewright_context *c, const struct timing *t)
{
	const double median = t->n % 2 ? t->ms[t->n / 2] : (t->ms[t->n / 2 - 1] + t->ms[t->n / 2]) / 2;
	const double compile = fact(m, "compile_ms"), load = fact(m, "load_ms");
	if (a->json) {
		printf("{\"median_ms\": %.4f, \"min_ms\": %.4f, \"compile_ms\": %.1f, \"load_ms\": %.2f, \"threads\": "
		       "%d, \"peak_mb\": %.1f}\n",
		       median, t->ms[0], compile, load, tilewright_count_threads(c), peak_mb());
		return;
	}
	printf("median %.3f ms, least %.3f ms of %d runs with %d threads\n", median, t->ms[0], t->n,
	       tilewright_count_threads(c));
	printf("compile %.0f ms%s, load %.1f ms\n", compile, fact(m, "cached") > 0 ? " (cached)" : "", load);
	printf("peak memory %.0f MB", peak_mb());
	printf(", intermediate results %.1f MB\n", (double)tilewright_get_arena_bytes(c) / 1048576);
}

static int bench(const struct args *a, tilewright_model *m, struct problem *p)
{
	const int n = tilewright_count_inputs(m);
	struct tensor *t = calloc((size_t)n + 1, sizeof(*t));
	tilewright_context *c = NULL;
	struct timing timing = {0};
	if (t == NULL)
		return problem_memory(p);
	int code = cli_make_inputs(a, m, true, t, p);
	tilewright_status s = TILEWRIGHT_OK;
	if (code == EXIT_DONE && (s = tilewright_create_context(m, a->threads, &c)) != TILEWRIGHT_OK)
		code = problem_status(p, s);
	if (code == EXIT_DONE)
		code = cli_set_inputs(c, n, t, p);
	terminal_watch(c);
	if (code == EXIT_DONE)
		code = measure(a, c, &timing, p);
	if (code == EXIT_DONE)
		report(a, m, c, &timing);
	if (code == EXIT_DONE && a->profile)
		code = profile(a, m, c, a->json ? stderr : stdout, p);
	terminal_watch(NULL);
	free(timing.ms);
	tilewright_free_context(c);
	cli_free_tensors(n, t);
	return code;
}

int cmd_bench(const struct args *a)
{
	struct problem p;
	tilewright_model *m;
	int code = cli_open_model(a, a->files[0], &m, &p);
	if (code == EXIT_DONE)
		code = bench(a, m, &p);
	tilewright_free_model(m);
	return code == EXIT_DONE ? code : cli_fail(&p);
}
