/* program_run: runs of single programs in the interpreter. Input: a program and data for its parameters; output: the
 * data of its outputs. */
#include "compile/program_int.h"

struct running {
	const struct tw_program *p;
	void *const *data;
};

/* Elements of a parameter of a run, which is plain row-major. Raises. */
int64_t twpr_elements(const struct tw_program *p, int i)
{
	const struct twir_tensor *t = p->chosen->params[i];
	bool bad = false;
	int64_t n = 1;
	if (t->layout)
		tw_raise(TW_ERR_UNSUPPORTED,
			 "parameter %s has a layout: a run takes and gives plain row-major tensors\nhint: a launch "
			 "function can hold the program that packs it",
			 t->base);
	for (int d = 0; d < t->rank; d++)
		n = tw_mul64(n, p->params[i].dims[d], &bad);
	if (bad || n > INT64_MAX / 16)
		tw_raise(TW_ERR_INPUT, "parameter %s is too large", t->base);
	return n;
}

static void interpret_chosen(void *arg)
{
	const struct running *r = arg;
	const struct tw_program *p = r->p;
	struct twir_data *data = ARENA_ARRAY(p->arena, struct twir_data, p->nparams);
	const struct twir_binding b = twpr_binding(p);
	for (int i = 0; i < p->nparams; i++)
		data[i] = (struct twir_data){r->data[i], twpr_elements(p, i)};
	if (p->program && !p->bytes)
		twir_interpret(p->m, p->program, &b, data);
	else
		twir_interpret_launch(p->m, p->chosen, &b, data, NULL);
}

static void interpret(void *arg)
{
	const struct running *r = arg;
	twir_in_text(r->p->m, r->p->name, r->p->text, interpret_chosen, arg);
}

enum tw_code twpr_all_known(const struct tw_program *p, struct tw_error *e)
{
	enum tw_code code = tw_program_choose(p, e);
	for (int i = 0; code == TW_ERR_OK && i < p->nsymbols; i++)
		if (p->values[i] < 0) {
			tw_error_set(e, code = TW_ERR_INPUT, "the size %s is not known\nhint: give it with -d %s=N",
				     p->chosen->symbols[i]->name, p->chosen->symbols[i]->name);
		}
	return code;
}

enum tw_code tw_program_interpret(const struct tw_program *p, void *const *data, struct tw_error *e)
{
	struct running r = {p, data};
	const enum tw_code code = twpr_all_known(p, e);
	if (code != TW_ERR_OK)
		return code;
	return tw_try(e, interpret, &r) ? TW_ERR_OK : e->code;
}
