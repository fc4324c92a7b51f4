/* tilewright run --verify: the results of a run against two other ways to get them. Input: a run that is done, and its
 * inputs; output: lines that say whether the outputs agree, and which tensor is the first that does not. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

#define MOST_OPERATIONS 1e9 /* for the interpreter: some ten seconds */

struct verification {
	const struct args *args;
	const struct tensor *inputs;
	struct tensor_set outputs;		   /* of the run to be verified */
	struct tensor_set fused, plain, reference; /* tensors of the graph */
	struct problem *p;
	int code; /* of what take met */
};

/* Compiles in another way and runs. outputs may be NULL. */
static int run_again(struct verification *v, bool optimise, struct tensor_set *outputs, struct tensor_set *kept)
{
	tilewright_options *o;
	tilewright_model *m = NULL;
	tilewright_context *c = NULL;
	int code = cli_make_options(v->args, false, &o, v->p);
	if (code != EXIT_DONE)
		return code;
	tilewright_status s = tilewright_set_optimise(o, optimise);
	if (s == TILEWRIGHT_OK)
		s = tilewright_keep_tensors(o, 1);
	if (s == TILEWRIGHT_OK)
		s = tilewright_compile_file(v->args->files[0], o, &m);
	if (s == TILEWRIGHT_OK)
		s = tilewright_create_context(m, v->args->threads, &c);
	if (s != TILEWRIGHT_OK)
		code = problem_status(v->p, s);
	if (code == EXIT_DONE)
		code = cli_set_inputs(c, tilewright_count_inputs(m), v->inputs, v->p);
	terminal_watch(c);
	if (code == EXIT_DONE && (s = tilewright_run(c)) != TILEWRIGHT_OK)
		code = problem_status(v->p, s);
	terminal_watch(NULL);
	if (code == EXIT_DONE && outputs)
		code = cli_set_take(outputs, m, c, false, v->p);
	if (code == EXIT_DONE)
		code = cli_set_take(kept, m, c, true, v->p);
	tilewright_free_context(c);
	tilewright_free_model(m);
	tilewright_free_options(o);
	terminal_clear();
	return code;
}

static void take(void *arg, const char *name, const tilewright_tensor *t)
{
	struct verification *v = arg;
	if (v->code == EXIT_DONE)
		v->code = cli_set_add(&v->reference, name, t, v->p);
}

/* *ran: false where the work is too much, or an operator is none for it. */
static int interpret(struct verification *v, const tilewright_model *m, bool *ran)
{
	const int n = tilewright_count_inputs(m);
	tilewright_options *o;
	tilewright_tensor *in = calloc((size_t)n + 1, sizeof(*in));
	if (in == NULL)
		return problem_memory(v->p);
	for (int i = 0; i < n; i++)
		in[i] = cli_tensor_view(&v->inputs[i]);
	int code = cli_make_options(v->args, true, &o, v->p);
	*ran = false;
	if (code == EXIT_DONE) {
		const tilewright_status s =
			tilewright_interpret_file(v->args->files[0], o, n, in, MOST_OPERATIONS, take, v);
		*ran = s == TILEWRIGHT_OK;
		if (s == TILEWRIGHT_ERROR_UNSUPPORTED) {
			fputs("verify: interpreter: left out: ", stdout);
			cli_print_text(stdout, tilewright_last_error());
			putchar('\n');
		} else {
			code = s == TILEWRIGHT_OK ? v->code : problem_status(v->p, s);
		}
		tilewright_free_options(o);
	}
	free(in);
	return code;
}

static void tell(const char *what, const char *name, const struct difference *d)
{
	printf("verify: %s \"", what);
	cli_print_text(stdout, name);
	printf("\": %s\n", d->reason);
}

/* Whether the outputs agree with others of the same names. */
static bool agree(const struct verification *v, const char *how, const struct tensor_set *others)
{
	int compared = 0, different = 0;
	for (int i = 0; i < v->outputs.n; i++) {
		const struct tensor *want = cli_set_find(others, v->outputs.at[i].name);
		struct difference d;
		if (want == NULL)
			continue; /* an input, handed on */
		cli_differ(&v->outputs.at[i], want, &d);
		compared++;
		if (d.reason[0] && different++ == 0) {
			printf("verify: %s: ", how);
			printf("output \"");
			cli_print_text(stdout, v->outputs.at[i].name);
			printf("\" differs: %s\n", d.reason);
		}
	}
	printf("verify: %s: %d of %d outputs agree\n", how, compared - different, compared);
	return different == 0;
}

/* The first tensor, in the order of `want`, that both have and that differs. */
static bool name_first(const char *what, const struct tensor_set *got, const struct tensor_set *want)
{
	for (int i = 0; i < want->n; i++) {
		const struct tensor *t = cli_set_find(got, want->at[i].name);
		struct difference d;
		if (t == NULL)
			continue;
		cli_differ(t, &want->at[i], &d);
		if (d.reason[0]) {
			tell(what, t->name, &d);
			return true;
		}
	}
	return false;
}

static int explain(struct verification *v, bool plain_agrees, bool reference_agrees)
{
	const int code = run_again(v, true, NULL, &v->fused);
	if (code != EXIT_DONE)
		return code;
	bool named = false;
	if (!plain_agrees)
		named |= name_first("the first tensor that differs from the run without optimisation is", &v->fused,
				    &v->plain);
	if (!reference_agrees) {
		named |= name_first("the first tensor that differs from the interpreter is", &v->fused, &v->reference);
		named |= name_first("without optimisation, the first that differs from the interpreter is", &v->plain,
				    &v->reference);
	}
	if (!named)
		puts("verify: none differs once tensors are kept: the fault may lie in the plan of memory");
	return problem_set(v->p, EXIT_INPUT, "verify: the results differ");
}

int cli_verify(const struct args *a, const tilewright_model *m, tilewright_context *c, const struct tensor *inputs,
	       struct problem *p)
{
	struct verification v = {.args = a, .inputs = inputs, .p = p};
	struct tensor_set others = {0};
	bool plain_agrees = true, reference_agrees = true, ran = false;
	int code = cli_set_take(&v.outputs, m, c, false, p);
	if (code == EXIT_DONE)
		code = run_again(&v, false, &others, &v.plain);
	if (code == EXIT_DONE)
		plain_agrees = agree(&v, "without optimisation", &others);
	if (code == EXIT_DONE)
		code = interpret(&v, m, &ran);
	if (code == EXIT_DONE && ran)
		reference_agrees = agree(&v, "interpreter", &v.reference);
	if (code == EXIT_DONE && !(plain_agrees && reference_agrees))
		code = explain(&v, plain_agrees, reference_agrees);
	cli_set_free(&others);
	cli_set_free(&v.outputs);
	cli_set_free(&v.fused);
	cli_set_free(&v.plain);
	cli_set_free(&v.reference);
	return code;
}
