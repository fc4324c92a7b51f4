/* Launch functions: what the host does. Input: the text behind the word launch; output: a struct twir_launch of the
 * module. Programs are declared before the functions that call them. */
#include "ir/parse_int.h"

/* A tensor, or the part of it that leading indices choose. */
static struct twir_argument parse_argument(struct twir_parser *p, const struct twir_tensor *param)
{
	const struct twir_tok at = p->tok;
	struct twir_argument a = {.tensor = twir_tensor_named(p, "a buffer or parameter")};
	const struct twir_expr *index[TWIR_MAX_RANK];
	int wide = 0;
	if (twir_take(p, "[")) {
		a.n = twir_parse_index(p, a.tensor, index, &wide);
		twir_expect(p, "]", NULL);
	}
	a.index = arena_copy(p->m->arena, index, sizeof(index[0]) * (size_t)a.n);
	const char *why = wide ? "a part of a tensor has no '+:'" : twir_bad_argument(param, &a);
	if (why)
		twir_fail(p, &at,
			  strstr(why, "differ") ? "an argument has the type and the sizes of its parameter"
						: "in parameters take inputs and written buffers, out parameters take "
						  "buffers and outputs",
			  "'%s' for parameter '%s': %s", a.tensor->base, param->base, why);
	return a;
}

static bool uses_symbol(const struct twir_program *f, const struct twir_var *v)
{
	for (int i = 0; i < f->nsymbols; i++)
		if (f->symbols[i] == v)
			return true;
	return false;
}

static void parse_with(struct twir_parser *p, struct twir_stmt *s)
{
	VEC(struct twir_var *) symbols = {0};
	VEC(const struct twir_expr *) values = {0};
	twir_expect(p, "(", "call P(A, B) with (M = 16)");
	do {
		const struct twir_tok at = p->tok;
		const char *name = twir_take_name(p, "a symbol");
		struct twir_var *v = strmap_get(&p->symbols, name);
		if (!v || !uses_symbol(s->u.invoke.program, v))
			twir_fail(p, &at, "with gives values to symbols of the program that is called",
				  "program '%s' has no symbol '%s'", s->u.invoke.program->name, name);
		for (int i = 0; i < symbols.n; i++)
			if (symbols.at[i] == v)
				twir_fail(p, &at, "one value for each symbol", "symbol '%s' gets two values", name);
		twir_expect(p, "=", "call P(A, B) with (M = 16)");
		vec_push(p->m->arena, &symbols, v);
		vec_push(p->m->arena, &values, twir_parse_size(p, "the symbol's value"));
	} while (twir_take(p, ","));
	twir_expect(p, ")", NULL);
	s->u.invoke.nsymbols = symbols.n;
	s->u.invoke.symbols = symbols.at;
	s->u.invoke.values = values.at;
}

struct twir_stmt *twir_parse_invoke(struct twir_parser *p, const struct twir_tok *at)
{
	const struct twir_tok name_at = p->tok;
	const char *name = twir_take_name(p, "the name of a program");
	struct twir_program *f = twir_program_find(p->m, name);
	const char *near = f ? NULL : twir_suggest(p, name, TWIR_SUGGEST_PROGRAMS);
	if (!f)
		twir_fail(p, &name_at, near ? near : "programs are declared before the launch functions that call them",
			  "there is no program '%s'", name);
	struct twir_stmt *s = twir_stmt_new(p->m, TWIR_INVOKE);
	s->line = at->line;
	s->column = at->column;
	s->u.invoke.program = f;
	s->u.invoke.n = f->nparams;
	s->u.invoke.args = ARENA_ARRAY(p->m->arena, struct twir_argument, f->nparams);
	twir_expect(p, "(", "call P(A, B);");
	int n = 0;
	while (!twir_is(p, ")")) {
		if (n)
			twir_expect(p, ",", NULL);
		if (n == f->nparams)
			twir_fail(p, &p->tok, "call P(A, B) hands over tensors in the order of the parameters",
				  "program '%s' has %d parameters", name, f->nparams);
		s->u.invoke.args[n] = parse_argument(p, f->params[n]);
		n++;
	}
	if (n != f->nparams)
		twir_fail(p, &p->tok, "call P(A, B) hands over tensors in the order of the parameters",
			  "program '%s' has %d parameters, not %d", name, f->nparams, n);
	twir_next(p);
	if (twir_take(p, "with"))
		parse_with(p, s);
	twir_expect(p, ";", NULL);
	return s;
}

struct find {
	struct twir_parser *p;
	struct twir_launch *l;
	VEC(struct twir_var *) found;
};

static void add_symbol(struct find *f, struct twir_var *v)
{
	for (int i = 0; i < f->found.n; i++)
		if (f->found.at[i] == v)
			return;
	vec_push(f->p->m->arena, &f->found, v);
}

static void find_symbol(void *arg, const struct twir_expr *e)
{
	if (e->kind == TWIR_Var && e->u.var->kind == TWIR_SYMBOL)
		add_symbol(arg, e->u.var);
}

static void find_symbols(void *arg, const struct twir_expr *e)
{
	twir_visit_expr(e, find_symbol, arg);
}

/* Those of the programs that are called too, but for those that get values of their own. */
static void find_called(void *arg, const struct twir_stmt *s)
{
	if (s->kind != TWIR_INVOKE)
		return;
	const struct twir_program *f = s->u.invoke.program;
	for (int i = 0; i < f->nsymbols; i++) {
		bool own = false;
		for (int k = 0; k < s->u.invoke.nsymbols; k++)
			own |= s->u.invoke.symbols[k] == f->symbols[i];
		if (!own)
			add_symbol(arg, f->symbols[i]);
	}
}

static void fill_symbols(struct twir_parser *p, struct twir_launch *l)
{
	struct find f = {.p = p, .l = l};
	for (int i = 0; i < l->nparams; i++)
		twir_visit_tensor(l->params[i], find_symbols, &f);
	twir_visit_block(l->body, find_called, find_symbols, &f);
	for (int i = 1; i < f.found.n; i++) /* in the order of their ids */
		for (int k = i; k > 0 && f.found.at[k]->id < f.found.at[k - 1]->id; k--) {
			struct twir_var *v = f.found.at[k];
			f.found.at[k] = f.found.at[k - 1];
			f.found.at[k - 1] = v;
		}
	l->nsymbols = f.found.n;
	l->symbols = f.found.at;
}

void twir_parse_launch(struct twir_parser *p)
{
	struct twir_launch *l = ARENA_NEW(p->m->arena, struct twir_launch);
	const struct twir_tok at = p->tok;
	l->name = twir_take_name(p, "the name of a launch function");
	if (twir_launch_find(p->m, l->name) || twir_program_find(p->m, l->name))
		twir_fail(p, &at, "choose another name", "'%s' is already declared", l->name);
	const int mark = p->scope.n, floor = p->floor;
	p->floor = mark;
	VEC(struct twir_tensor *) params = {0};
	twir_expect(p, "(", "launch name(A: f32[N], out B: f32[N]) { call P(A, B); }");
	while (!twir_is(p, ")")) {
		if (params.n)
			twir_expect(p, ",", NULL);
		struct twir_tensor *t = twir_parse_param(p);
		vec_push(p->m->arena, &params, t);
	}
	twir_next(p);
	l->nparams = params.n;
	l->params = params.at;
	p->in_launch = true;
	l->body = twir_parse_block(p);
	p->in_launch = false;
	twir_unbind(p, mark);
	p->floor = floor;
	fill_symbols(p, l);
	vec_push(p->m->arena, &p->m->launches, l);
}
