/* Runs of a program: inputs from files or made up, a run by one of the engines, outputs, times. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

static int port_of(const tilewright_program *program, const char *name)
{
	int is_output;
	for (int i = 0; i < tilewright_count_parameters(program); i++)
		if (strcmp(tilewright_get_parameter(program, i, &is_output)->name, name) == 0 && !is_output)
			return i;
	return -1;
}

static int no_input(const tilewright_program *program, const char *name, struct problem *p)
{
	char names[1000] = "";
	int is_output, at = 0;
	for (int i = 0; i < tilewright_count_parameters(program) && at < 900; i++) {
		const tilewright_port *port = tilewright_get_parameter(program, i, &is_output);
		if (!is_output)
			at += snprintf(names + at, sizeof(names) - (size_t)at, "%s%.80s", at ? ", " : "", port->name);
	}
	return problem_set(p, EXIT_INPUT, "the program has no input \"%s\"; it has: %s", name, at ? names : "none");
}

static int set_size(tilewright_program *program, const char *symbol, int64_t value, const char *where,
		    struct problem *p)
{
	if (tilewright_set_size(program, symbol, value) == TILEWRIGHT_OK)
		return EXIT_DONE;
	return problem_set(p, EXIT_INPUT, "%s%s%s", where, *where ? ": " : "", tilewright_last_error());
}

static bool is_symbol(const tilewright_program *program, const char *text)
{
	for (int i = 0; i < tilewright_count_sizes(program); i++)
		if (strcmp(tilewright_get_size(program, i, NULL), text) == 0)
			return true;
	return false;
}

/* Files, and the sizes that they and the command line tell. */
static int read_inputs(const struct args *a, tilewright_program *program, struct tensor *t, struct problem *p)
{
	int code = EXIT_DONE;
	for (int i = 0; code == EXIT_DONE && i < a->fixed.n; i++)
		code = set_size(program, a->fixed.at[i].symbol, a->fixed.at[i].value, "--fix", p);
	for (int i = 0; code == EXIT_DONE && i < a->sizes.n; i++)
		code = set_size(program, a->sizes.at[i].symbol, a->sizes.at[i].value, "-d", p);
	for (int i = 0; code == EXIT_DONE && i < a->ninputs; i++) {
		const int k = port_of(program, a->inputs[i].name);
		code = k < 0 ? no_input(program, a->inputs[i].name, p) : cli_tensor_load(a->inputs[i].value, &t[k], p);
		const tilewright_port *port = k < 0 ? NULL : tilewright_get_parameter(program, k, NULL);
		for (int d = 0; code == EXIT_DONE && t[k].rank == port->rank && d < port->rank; d++) {
			char where[512];
			snprintf(where, sizeof(where), "input \"%.100s\", dimension %d", port->name, d);
			if (is_symbol(program, port->dim_text[d]))
				code = set_size(program, port->dim_text[d], t[k].dims[d], where, p);
		}
	}
	return code;
}

static int check_input(const tilewright_port *port, const struct tensor *t, struct problem *p)
{
	if (t->type != port->type)
		return problem_set(p, EXIT_INPUT, "input \"%s\" is %s, the program wants %s", port->name,
				   tilewright_type_name(t->type), tilewright_type_name(port->type));
	if (t->rank != port->rank)
		return problem_set(p, EXIT_INPUT, "input \"%s\" has %d dimensions, the program wants %d", port->name,
				   t->rank, port->rank);
	for (int d = 0; d < port->rank; d++)
		if (t->dims[d] != port->dims[d])
			return problem_set(
				p, EXIT_INPUT, "input \"%s\": dimension %d is %lld, the program wants %s = %lld",
				port->name, d, (long long)t->dims[d], port->dim_text[d], (long long)port->dims[d]);
	return EXIT_DONE;
}

static int make_tensors(const struct args *a, tilewright_program *program, struct tensor *t, struct problem *p)
{
	int code = read_inputs(a, program, t, p);
	for (int i = 0; code == EXIT_DONE && i < tilewright_count_parameters(program); i++) {
		int is_output;
		const tilewright_port *port = tilewright_get_parameter(program, i, &is_output);
		for (int d = 0; d < port->rank; d++)
			if (port->dims[d] < 0)
				return problem_set(p, EXIT_INPUT,
						   "parameter \"%s\": the size %s is not known\nhint: give it with -d "
						   "SYMBOL=N, or an input that has it with -i",
						   port->name, port->dim_text[d]);
		if ((int)port->type == 0)
			return problem_set(p, EXIT_INPUT,
					   "parameter \"%s\" has a type that lives inside programs: index, or a packed "
					   "one with a layout\n"
					   "hint: hand it over as i64 and cast, or without the layout",
					   port->name);
		if (t[i].data) {
			code = check_input(port, &t[i], p);
			continue;
		}
		if (!is_output && !a->random)
			return problem_set(p, EXIT_INPUT,
					   "input \"%s\" is not given\nhint: -i %s=FILE.npy, or --random SEED",
					   port->name, port->name);
		t[i].type = port->type;
		t[i].rank = port->rank;
		memcpy(t[i].dims, port->dims, sizeof(t[i].dims));
		code = cli_tensor_alloc(&t[i], p);
		if (code == EXIT_DONE && is_output)
			memset(t[i].data, 0, t[i].bytes);
		else if (code == EXIT_DONE)
			cli_fill(&t[i], a->seed, i);
	}
	return code;
}

/* --- engines --- */

struct times {
	double *ms;
	int n, limit;
};

static int by_size(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* Calls run(arg) once, or as often as is to be timed. */
static int repeat(const struct args *a, int (*run)(void *arg, double *ms, struct problem *p), void *arg,
		  struct times *t, struct problem *p)
{
	enum { LEAST = 5, MOST = 1000 };
	double ms;
	int code = run(arg, &ms, p);
	if (!a->time || code != EXIT_DONE)
		return code;
	t->limit = a->runs > 0 ? a->runs : MOST;
	t->ms = calloc((size_t)t->limit, sizeof(*t->ms));
	if (t->ms == NULL)
		return problem_memory(p);
	for (int i = 1; i < a->warmup && code == EXIT_DONE; i++)
		code = run(arg, &ms, p);
	const double start = cli_now_ms();
	while (code == EXIT_DONE && t->n < t->limit) {
		if (a->runs < 0 && t->n >= LEAST && cli_now_ms() - start > 1000)
			break;
		code = run(arg, &t->ms[t->n++], p);
	}
	qsort(t->ms, (size_t)t->n, sizeof(*t->ms), by_size);
	return code;
}

/* An engine that is set up anew by each call makes all runs in one; the first ones are left out. */
static int run_at_once(const struct args *a, const tilewright_program *program, void **data, struct times *t,
		       struct problem *p)
{
	enum { USUAL = 20 };
	t->limit = !a->time ? 0 : a->runs > 0 ? a->runs : USUAL;
	const int first = a->time ? a->warmup : 1, runs = first + t->limit > 0 ? first + t->limit : 1;
	double *ms = calloc((size_t)runs, sizeof(*ms));
	if (ms == NULL)
		return problem_memory(p);
	const tilewright_status s = tilewright_run_program(program, TILEWRIGHT_OPENCL,
							   tilewright_count_parameters(program), data, runs, ms);
	t->ms = ms;
	t->n = t->limit;
	memmove(ms, ms + first, (size_t)t->n * sizeof(*ms));
	qsort(t->ms, (size_t)t->n, sizeof(*t->ms), by_size);
	return s == TILEWRIGHT_OK ? EXIT_DONE : problem_status(p, s);
}

struct engine {
	const tilewright_program *program;
	int count;
	void **data;
	tilewright_context *context;
};

static int interpret(void *arg, double *ms, struct problem *p)
{
	const struct engine *e = arg;
	const tilewright_status s =
		tilewright_run_program(e->program, TILEWRIGHT_INTERPRETER, e->count, e->data, 1, ms);
	return s == TILEWRIGHT_OK ? EXIT_DONE : problem_status(p, s);
}

static int run_context(void *arg, double *ms, struct problem *p)
{
	const struct engine *e = arg;
	const double start = cli_now_ms();
	const tilewright_status s = tilewright_run(e->context);
	*ms = cli_now_ms() - start;
	return s == TILEWRIGHT_OK ? EXIT_DONE : problem_status(p, s);
}

/* Inputs and outputs of a model are the program's parameters, in their order. */
static int bind(const tilewright_program *program, tilewright_context *c, const struct tensor *t, struct problem *p)
{
	int in = 0, out = 0;
	for (int i = 0; i < tilewright_count_parameters(program); i++) {
		int is_output;
		tilewright_get_parameter(program, i, &is_output);
		const tilewright_status s =
			is_output ? tilewright_set_output(c, out++, t[i].data, t[i].bytes)
				  : tilewright_set_input(c, in++, t[i].type, t[i].rank, t[i].dims, t[i].data);
		if (s != TILEWRIGHT_OK)
			return problem_status(p, s);
	}
	return EXIT_DONE;
}

static int run_compiled(const struct args *a, const tilewright_program *program, const struct tensor *t,
			struct times *times, struct problem *p)
{
	struct engine e = {0};
	tilewright_options *o;
	tilewright_model *m = NULL;
	struct args with = *a;
	with.isa = a->target;
	int code = cli_make_options(&with, false, &o, p);
	if (code != EXIT_DONE)
		return code;
	tilewright_status s = tilewright_compile_program(program, o, &m);
	terminal_clear();
	if (s == TILEWRIGHT_OK)
		s = tilewright_create_context(m, a->threads, &e.context);
	code = s == TILEWRIGHT_OK ? bind(program, e.context, t, p) : problem_status(p, s);
	terminal_watch(e.context);
	if (code == EXIT_DONE)
		code = repeat(a, run_context, &e, times, p);
	terminal_watch(NULL);
	tilewright_free_context(e.context);
	tilewright_free_model(m);
	tilewright_free_options(o);
	return code;
}

static int run_other(const struct args *a, const tilewright_program *program, const struct tensor *t,
		     struct times *times, struct problem *p)
{
	const int n = tilewright_count_parameters(program);
	struct engine e = {.program = program, .count = n};
	e.data = calloc((size_t)n + 1, sizeof(*e.data));
	if (e.data == NULL)
		return problem_memory(p);
	for (int i = 0; i < n; i++)
		e.data[i] = t[i].data;
	terminal_usual(); /* files appear whole or not at all; nothing else is left behind */
	const int code = strcmp(a->engine, "interp") == 0 ? repeat(a, interpret, &e, times, p)
							  : run_at_once(a, program, e.data, times, p);
	free(e.data);
	return code;
}

static void report(const tilewright_program *program, const struct times *t)
{
	const double median = t->n % 2 ? t->ms[t->n / 2] : (t->ms[t->n / 2 - 1] + t->ms[t->n / 2]) / 2;
	double operations = -1, bytes = 0;
	printf("median %.4f ms, least %.4f ms of %d runs", median, t->ms[0], t->n);
	tilewright_count_work(program, &operations, &bytes);
	if (operations > 0)
		printf("; %.2f GFLOP/s, at best %.2f", operations / median * 1e-6, operations / t->ms[0] * 1e-6);
	if (bytes > 0)
		printf("; %.2f GB/s, at best %.2f", bytes / median * 1e-6, bytes / t->ms[0] * 1e-6);
	putchar('\n');
}

static int outputs(const struct args *a, const tilewright_program *program, const struct tensor *t, struct problem *p)
{
	struct tensor_set set = {0};
	int code = EXIT_DONE;
	for (int i = 0; code == EXIT_DONE && i < tilewright_count_parameters(program); i++) {
		int is_output;
		const tilewright_port *port = tilewright_get_parameter(program, i, &is_output);
		const tilewright_tensor view = cli_tensor_view(&t[i]);
		if (!is_output)
			continue;
		cli_summary(port->name, &view);
		if (a->out)
			code = cli_set_add(&set, port->name, &view, p);
	}
	if (code == EXIT_DONE && a->out)
		code = cli_set_write(&set, a->out, p);
	cli_set_free(&set);
	return code;
}

int cli_run_program(const struct args *a, tilewright_program *program, struct problem *p)
{
	const int n = tilewright_count_parameters(program);
	struct tensor *t = calloc((size_t)n + 1, sizeof(*t));
	struct times times = {0};
	if (t == NULL)
		return problem_memory(p);
	int code = make_tensors(a, program, t, p);
	if (code == EXIT_DONE)
		code = strcmp(a->engine, "compiled") == 0 ? run_compiled(a, program, t, &times, p)
							  : run_other(a, program, t, &times, p);
	if (code == EXIT_DONE)
		code = outputs(a, program, t, p);
	if (code == EXIT_DONE && times.n > 0)
		report(program, &times);
	free(times.ms);
	cli_free_tensors(n, t);
	return code;
}
