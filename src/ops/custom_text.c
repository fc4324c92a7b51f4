/* custom_text: the text of an operator, read into a module beside what the module has: its names are its own. */
#include "ops/custom_int.h"

struct reading {
	struct custom *c;
	struct twir_module *m;
};

static void read_text(void *arg)
{
	const struct reading *r = arg;
	twir_parse(r->m, r->c->text->file, r->c->text->text);
	twir_verify_text(r->m, r->c->text->file, r->c->text->text);
}

/* The lists of the module are put aside while the text fills its own. */
static void parse_apart(struct custom *c, struct twir_module *m, struct tw_arena *a)
{
	const struct twir_module own = *m;
	struct reading r = {c, m};
	struct tw_error e;
	memset(&m->symbols, 0, sizeof(m->symbols));
	memset(&m->tensors, 0, sizeof(m->tensors));
	memset(&m->computes, 0, sizeof(m->computes));
	memset(&m->programs, 0, sizeof(m->programs));
	memset(&m->launches, 0, sizeof(m->launches));
	strmap_init(&m->symbol_of, a);
	const bool good = tw_try(&e, read_text, &r);
#define TAKE(list)                                                                                                     \
	memcpy(&c->list, &m->list, sizeof(c->list));                                                                   \
	memcpy(&m->list, &own.list, sizeof(m->list))
	TAKE(symbols);
	TAKE(tensors);
	TAKE(computes);
	TAKE(programs);
	TAKE(launches);
#undef TAKE
	m->symbol_of = own.symbol_of;
	if (!good)
		tw_raise_error(&e);
}

struct reader {
	const struct twir_tensor *t;
	bool yes;
};

static void see_load(void *arg, const struct twir_expr *e)
{
	struct reader *r = arg;
	r->yes |= (e->kind == TWIR_Load || e->kind == TWIR_Gather) && e->u.tensor == r->t;
}

static bool is_read(const struct custom *c, const struct twir_tensor *t)
{
	struct reader r = {t, false};
	for (int i = 0; i < c->computes.n; i++)
		twir_visit_expr(c->computes.at[i]->value, see_load, &r);
	return r.yes;
}

_Noreturn static void fail(const struct custom *c, const char *why, const char *hint)
{
	tw_raise(TW_ERR_MODEL, "%s: operator %s: %s\nhint: %s", c->text->file, c->text->name, why, hint);
}

/* A program or launch function of the operator's name, else the only one. */
static void choose(struct custom *c)
{
	for (int i = 0; i < c->launches.n; i++)
		if (c->launches.n == 1 || strcmp(c->launches.at[i]->name, c->text->name) == 0)
			c->launch = c->launches.at[i];
	for (int i = 0; i < c->programs.n && !c->launches.n; i++)
		if (c->programs.n == 1 || strcmp(c->programs.at[i]->name, c->text->name) == 0)
			c->program = c->programs.at[i];
	if (!c->launch && !c->program && c->launches.n + c->programs.n)
		fail(c, "the text has several programs and none of this name",
		     "call the one that is meant like the operator, or write a launch function that calls them");
}

static void see_wide(void *arg, const struct twir_expr *e)
{
	const struct twir_tensor **found = arg;
	if ((e->kind == TWIR_Load || e->kind == TWIR_Gather) && e->type.lanes > 1 && e->u.tensor->scope == TWIR_IN)
		*found = e->u.tensor;
}

static void see_wide_expr(void *arg, const struct twir_expr *e)
{
	twir_visit_expr(e, see_wide, arg);
}

static void see_wide_store(void *arg, const struct twir_stmt *s)
{
	const struct twir_tensor **found = arg;
	if (s->kind == TWIR_STORE && s->u.store.value->type.lanes > 1 && s->u.store.tensor->scope == TWIR_OUT)
		*found = s->u.store.tensor;
}

/* What fusion rewrites must be plain: one element at a time, on a CPU. */
static void check_program(const struct custom *c, const struct twir_program *p)
{
	const struct twir_tensor *wide = NULL;
	if (p->nlevels && p->levels[0] == TWIR_BLOCK)
		fail(c, "its program is launched on blocks, but models run on CPUs", "launch core(..), lane(..)");
	twir_visit_block(p->body, see_wide_store, see_wide_expr, &wide);
	if (wide)
		fail(c, "its program loads or stores several elements of a parameter at once",
		     "write one element in a loop on lane: lowering makes vectors of it");
}

void custom_read(struct custom *c, struct twir_module *m, struct tw_arena *a)
{
	parse_apart(c, m, a);
	if (!c->x || !c->x->g->reference || !c->computes.n) /* a reference goes by definitions where there are any */
		choose(c);
	struct twir_tensor *const *params = c->launch ? c->launch->params : c->program ? c->program->params : NULL;
	const int nparams = c->launch ? c->launch->nparams : c->program ? c->program->nparams : 0;
	for (int i = 0; i < nparams; i++) {
		if (params[i]->scope == TWIR_OUT)
			vec_push(a, &c->outputs, params[i]);
		else
			vec_push(a, &c->inputs, params[i]);
		if (params[i]->layout)
			fail(c, "a parameter has a layout, but the model's tensors are plain",
			     "a launch function can hold the program that packs it");
	}
	for (int i = 0; i < c->programs.n; i++)
		check_program(c, c->programs.at[i]);
	if (params) {
		if (c->outputs.n != 1)
			fail(c, "a program that is an operator has one output",
			     "definitions may have any number of them");
		return;
	}
	for (int i = 0; i < c->tensors.n; i++)
		vec_push(a, &c->inputs, c->tensors.at[i]);
	for (int i = 0; i < c->computes.n; i++)
		if (!is_read(c, c->computes.at[i]->out))
			vec_push(a, &c->outputs, c->computes.at[i]->out);
	if (!c->outputs.n)
		fail(c, "the text says nothing of it: it has neither a definition nor a program",
		     "tensor X: f32[N]; define Y: f32[N] = (i) => X[i] * X[i];");
}
