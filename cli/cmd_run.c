/* tilewright run: one run, a summary of each output, perhaps files, perhaps comparisons. */
#include "cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void cli_summary(const char *name, const tilewright_tensor *t)
{
	cli_print_text(stdout, name);
	printf("  %s", tilewright_type_name(t->type));
	cli_print_shape(stdout, t->rank, t->dims);
	const int64_t n = cli_tensor_elements(t->rank, t->dims);
	int64_t finite = 0, nans = 0, infinities = 0;
	double least = 0, most = 0, sum = 0;
	for (int64_t i = 0; i < n; i++) {
		const double x = cli_tensor_value(t->type, t->data, i);
		nans += isnan(x) != 0;
		infinities += isinf(x) != 0;
		if (!isfinite(x))
			continue;
		least = finite == 0 || x < least ? x : least;
		most = finite == 0 || x > most ? x : most;
		sum += x;
		finite++;
	}
	if (finite > 0)
		printf("  least %.6g, most %.6g, mean %.6g", least, most, sum / (double)finite);
	if (infinities)
		printf(", %lld infinite", (long long)infinities);
	if (nans)
		printf(", %lld NaN", (long long)nans);
	if (n > 0 && n <= 8) {
		printf("  =");
		for (int64_t i = 0; i < n; i++)
			printf(" %.6g", cli_tensor_value(t->type, t->data, i));
	}
	putchar('\n');
}

static int outputs(const struct args *a, const tilewright_model *m, tilewright_context *c, struct problem *p)
{
	struct tensor_set own = {0};
	int code = cli_set_take(&own, m, c, false, p);
	for (int i = 0; code == EXIT_DONE && i < own.n; i++) {
		const tilewright_tensor t = cli_tensor_view(&own.at[i]);
		cli_summary(own.at[i].name, &t);
	}
	if (code == EXIT_DONE && a->out)
		code = cli_set_write(&own, a->out, p);
	cli_set_free(&own);
	return code;
}

/* What --dump-tensors and --compare speak of: the inputs, then what the run wrote, in the order of the graph. */
static int tensors(const struct args *a, const tilewright_model *m, tilewright_context *c, const struct tensor *inputs,
		   struct problem *p)
{
	struct tensor_set all = {0};
	int code = EXIT_DONE;
	for (int i = 0; code == EXIT_DONE && i < tilewright_count_inputs(m); i++) {
		const tilewright_tensor t = cli_tensor_view(&inputs[i]);
		code = cli_set_add(&all, tilewright_get_input_port(m, i)->name, &t, p);
	}
	if (code == EXIT_DONE)
		code = cli_set_take(&all, m, c, true, p);
	if (code == EXIT_DONE && a->dump_tensors)
		code = cli_set_write(&all, a->dump_tensors, p);
	if (code == EXIT_DONE && a->dump_tensors)
		code = cli_names_write(&all, a->dump_tensors, p);
	if (code == EXIT_DONE && a->compare)
		code = cli_set_compare(&all, a->compare, p);
	cli_set_free(&all);
	return code;
}

static int run(const struct args *a, tilewright_model *m, struct problem *p)
{
	const int n = tilewright_count_inputs(m);
	struct tensor *t = calloc((size_t)n + 1, sizeof(*t));
	tilewright_context *c = NULL;
	if (t == NULL)
		return problem_memory(p);
	int code = cli_make_inputs(a, m, a->random, t, p);
	tilewright_status s = TILEWRIGHT_OK;
	if (code == EXIT_DONE && (s = tilewright_create_context(m, a->threads, &c)) != TILEWRIGHT_OK)
		code = problem_status(p, s);
	if (code == EXIT_DONE)
		code = cli_set_inputs(c, n, t, p);
	terminal_watch(c);
	if (code == EXIT_DONE && (s = tilewright_run(c)) != TILEWRIGHT_OK)
		code = problem_status(p, s);
	terminal_watch(NULL);
	if (code == EXIT_DONE)
		code = outputs(a, m, c, p);
	if (code == EXIT_DONE && (a->dump_tensors || a->compare))
		code = tensors(a, m, c, t, p);
	if (code == EXIT_DONE && a->verify)
		code = cli_verify(a, m, c, t, p);
	tilewright_free_context(c);
	cli_free_tensors(n, t);
	return code;
}

int cmd_run(const struct args *a)
{
	struct problem p;
	tilewright_model *m;
	int code = cli_open_model(a, a->files[0], &m, &p);
	if (code == EXIT_DONE)
		code = run(a, m, &p);
	tilewright_free_model(m);
	return code == EXIT_DONE ? code : cli_fail(&p);
}
