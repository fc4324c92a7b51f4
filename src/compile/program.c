/* program: opening a file of programs: parsing, verifying, choosing, sizes. Input: text; output: struct tw_program. */
#include "compile/program_int.h"

#include <stdlib.h>

struct opening {
	struct tw_program *p;
	const char *which;
};

static void list_names(const struct twir_module *m, struct tw_buf *b)
{
	for (int i = 0; i < m->launches.n; i++)
		buf_printf(b, "%s%s", b->n ? ", " : "", m->launches.at[i]->name);
	for (int i = 0; i < m->programs.n; i++)
		buf_printf(b, "%s%s", b->n ? ", " : "", m->programs.at[i]->name);
}

/* A launch function that does nothing but call the program. */
static struct twir_launch *wrap(struct twir_module *m, struct twir_program *p)
{
	struct twir_launch *l = ARENA_NEW(m->arena, struct twir_launch);
	struct twir_stmt *s = twir_stmt_new(m, TWIR_INVOKE);
	l->name = p->name;
	l->nparams = p->nparams;
	l->params = p->params;
	l->nsymbols = p->nsymbols;
	l->symbols = p->symbols;
	l->body = s;
	s->u.invoke.program = p;
	s->u.invoke.n = p->nparams;
	s->u.invoke.args = ARENA_ARRAY(m->arena, struct twir_argument, p->nparams);
	for (int i = 0; i < p->nparams; i++)
		s->u.invoke.args[i].tensor = p->params[i];
	return l;
}

/* By name; without: the only launch function, else the only program. NULL: there is none, or several. */
static struct twir_launch *choose(struct twir_module *m, const char *which, struct twir_program **program)
{
	*program = NULL;
	if (which) {
		struct twir_launch *l = twir_launch_find(m, which);
		*program = l ? NULL : twir_program_find(m, which);
		return *program ? wrap(m, *program) : l;
	}
	if (m->launches.n)
		return m->launches.n == 1 ? m->launches.at[0] : NULL;
	*program = m->programs.n == 1 ? m->programs.at[0] : NULL;
	return *program ? wrap(m, *program) : NULL;
}

/* The number of a type in ONNX; 0: it has none. */
static int type_number(enum twir_scalar s)
{
	return twir_is_packed(s) || s == TWIR_INDEX ? 0
						    : (int)twc_type(s); /* packed: with a layout, which no run takes */
}

static void describe(struct tw_program *p)
{
	p->nparams = p->chosen->nparams;
	p->params = ARENA_ARRAY(p->arena, struct tw_param, p->nparams);
	p->nsymbols = p->chosen->nsymbols;
	p->values = ARENA_ARRAY(p->arena, int64_t, p->nsymbols);
	for (int i = 0; i < p->nsymbols; i++)
		p->values[i] = -1;
	for (int i = 0; i < p->nparams; i++) {
		const struct twir_tensor *t = p->chosen->params[i];
		struct tw_param *x = &p->params[i];
		*x = (struct tw_param){
			.name = t->base, .type = type_number(t->type), .rank = t->rank, .is_out = t->scope == TWIR_OUT};
		for (int d = 0; d < t->rank; d++) {
			x->dim_text[d] = twir_print_expr(p->arena, t->shape[d]);
			x->dims[d] = -1;
			(void)twir_const_int(t->shape[d], &x->dims[d]);
		}
	}
}

/* Of the host, or of it with the instruction set that is asked for. */
static int lanes_of(const struct tw_compile_options *o)
{
	struct tw_target t;
	enum tw_isa isa;
	tw_target_host(&t);
	if (o && o->isa && tw_isa_parse(o->isa, &isa))
		tw_target_with_isa(&t, isa);
	return t.lanes;
}

static void open_text(void *arg)
{
	const struct opening *o = arg;
	struct tw_program *p = o->p;
	p->m = twir_module_new(p->arena);
	p->m->lanes = lanes_of(NULL);
	twir_parse(p->m, p->name, p->text);
	twir_verify_text(p->m, p->name, p->text);
	p->chosen = choose(p->m, o->which, &p->program);
	if (o->which && !p->chosen) {
		struct tw_buf b;
		buf_init(&b, p->arena);
		list_names(p->m, &b);
		tw_raise(TW_ERR_USAGE, "%s has no program '%.100s'; it has: %s", p->name, o->which,
			 b.n ? b.at : "none");
	}
	if (!p->chosen)
		return;
	p->launch = p->program ? NULL : twir_print_launch(p->arena, p->chosen);
	struct twir_launch *l = twpr_with_bytes(p->m, p->chosen);
	p->bytes = l != p->chosen;
	p->chosen = l;
	describe(p);
}

struct making {
	const char *name, *text;
	struct tw_arena *arena;
	struct tw_program *p;
};

static void make(void *arg)
{
	struct making *m = arg;
	m->arena = arena_new();
	m->p = ARENA_NEW(m->arena, struct tw_program);
	m->p->arena = m->arena;
	m->p->name = arena_strdup(m->arena, m->name);
	m->p->text = arena_strdup(m->arena, m->text);
}

enum tw_code tw_program_open(const char *name, const char *text, const char *which, struct tw_program **out,
			     struct tw_error *e)
{
	struct making m = {.name = name, .text = text};
	*out = NULL;
	bool good = tw_try(e, make, &m);
	struct opening o = {m.p, which};
	good = good && tw_try(e, open_text, &o);
	if (good)
		*out = m.p;
	else
		arena_free(m.arena);
	return good ? TW_ERR_OK : e->code;
}

void tw_program_close(struct tw_program *p)
{
	if (p)
		arena_free(p->arena);
}

enum tw_code tw_program_choose(const struct tw_program *p, struct tw_error *e)
{
	if (p->chosen)
		return TW_ERR_OK;
	struct tw_buf b;
	buf_init(&b, p->arena);
	list_names(p->m, &b);
	if (b.n)
		tw_error_set(e, TW_ERR_USAGE, "%s has several programs: %s\nhint: choose one with --name", p->name,
			     b.at);
	else
		tw_error_set(e, TW_ERR_USAGE,
			     "%s has no program, only definitions\nhint: definitions become operators of a model with "
			     "--op",
			     p->name);
	return TW_ERR_USAGE;
}

const char *tw_program_name(const struct tw_program *p)
{
	return p->chosen ? p->chosen->name : NULL;
}

int tw_program_params(const struct tw_program *p, const struct tw_param **params)
{
	*params = p->params;
	return p->nparams;
}

int tw_program_symbols(const struct tw_program *p)
{
	return p->nsymbols;
}

const char *tw_program_symbol(const struct tw_program *p, int i, int64_t *value)
{
	*value = p->values[i];
	return p->chosen->symbols[i]->name;
}

struct twir_binding twpr_binding(const struct tw_program *p)
{
	return (struct twir_binding){p->nsymbols, p->chosen->symbols, p->values};
}

struct unknown {
	const struct tw_program *p;
	bool yes;
};

static void find_unknown(void *arg, const struct twir_expr *e)
{
	struct unknown *u = arg;
	for (int i = 0; e->kind == TWIR_Var && i < u->p->nsymbols; i++)
		u->yes |= u->p->chosen->symbols[i] == e->u.var && u->p->values[i] < 0;
}

static void evaluate_dims(void *arg)
{
	struct tw_program *p = arg;
	const struct twir_binding b = twpr_binding(p);
	for (int i = 0; i < p->nparams; i++)
		for (int d = 0; d < p->params[i].rank; d++) {
			const struct twir_expr *size = p->chosen->params[i]->shape[d];
			struct unknown u = {p, false};
			twir_visit_expr(size, find_unknown, &u);
			if (u.yes)
				continue;
			p->params[i].dims[d] = twir_eval_index(size, &b);
			if (p->params[i].dims[d] < 0)
				tw_raise(TW_ERR_INPUT, "%s: dimension %d is %s = %lld", p->params[i].name, d,
					 p->params[i].dim_text[d], (long long)p->params[i].dims[d]);
		}
}

enum tw_code tw_program_size(struct tw_program *p, const char *symbol, int64_t value, struct tw_error *e)
{
	for (int i = 0; i < p->nsymbols; i++) {
		const struct twir_var *v = p->chosen->symbols[i];
		if (strcmp(v->name, symbol) != 0)
			continue;
		if (p->values[i] >= 0 && p->values[i] != value) {
			tw_error_set(e, TW_ERR_INPUT, "%s is %lld and %lld", symbol, (long long)p->values[i],
				     (long long)value);
			return TW_ERR_INPUT;
		}
		if (value < v->lo || value > v->hi || value % v->multiple != 0) {
			tw_error_set(e, TW_ERR_INPUT,
				     "%s = %lld does not fit its declaration: from %lld to %lld, a multiple of %lld",
				     symbol, (long long)value, (long long)v->lo, (long long)v->hi,
				     (long long)v->multiple);
			return TW_ERR_INPUT;
		}
		p->values[i] = value;
		return tw_try(e, evaluate_dims, p) ? TW_ERR_OK : e->code;
	}
	tw_error_set(e, TW_ERR_INPUT, "the program has no symbol \"%.100s\"", symbol);
	return TW_ERR_INPUT;
}

bool twpr_is_gpu(const struct twir_program *p)
{
	return p->nlevels > 0 && p->levels[0] == TWIR_BLOCK;
}

static void fix(struct twir_module *m, const struct tw_compile_options *o)
{
	for (int i = 0; o && i < o->nfixed; i++) {
		struct twir_var *v = NULL;
		for (int k = 0; k < m->symbols.n; k++)
			if (strcmp(m->symbols.at[k]->name, o->fixed_names[i]) == 0)
				v = m->symbols.at[k];
		if (!v)
			tw_raise(TW_ERR_INPUT, "the program has no symbol \"%.100s\"", o->fixed_names[i]);
		const int64_t n = o->fixed_values[i];
		if (n < v->lo || n > v->hi || n % v->multiple != 0)
			tw_raise(TW_ERR_INPUT, "%s = %lld does not fit its declaration", v->name, (long long)n);
		v->lo = v->hi = n; /* facts: the simplifier puts the number in its place */
		v->multiple = n > 0 ? n : 1;
	}
}

int twpr_number(const struct twpr_copy *c, const struct twir_program *p)
{
	int i = 0;
	while (i < c->programs.n && c->programs.at[i] != p)
		i++;
	return i;
}

static void list_program(void *arg, const struct twir_stmt *s)
{
	struct twpr_copy *c = arg;
	if (s->kind == TWIR_INVOKE && twpr_number(c, s->u.invoke.program) == c->programs.n)
		vec_push(c->arena, &c->programs, s->u.invoke.program);
}

/* The place of parameter i when inputs come before outputs. */
static int place(const struct twir_program *p, int i)
{
	int at = 0;
	for (int k = 0; k < p->nparams; k++)
		at += p->params[k]->scope < p->params[i]->scope ||
		      (p->params[k]->scope == p->params[i]->scope && k < i);
	return at;
}

static void order_arguments(void *arg, const struct twir_stmt *s)
{
	struct twpr_copy *c = arg;
	if (s->kind != TWIR_INVOKE)
		return;
	struct twir_argument *args = ARENA_ARRAY(c->arena, struct twir_argument, s->u.invoke.n);
	for (int i = 0; i < s->u.invoke.n; i++)
		args[place(s->u.invoke.program, i)] = s->u.invoke.args[i];
	memcpy(s->u.invoke.args, args, sizeof(*args) * (size_t)s->u.invoke.n);
}

static void order_parameters(struct twpr_copy *c, struct twir_program *p)
{
	struct twir_tensor **params = ARENA_ARRAY(c->arena, struct twir_tensor *, p->nparams);
	for (int i = 0; i < p->nparams; i++)
		params[place(p, i)] = p->params[i];
	p->params = params;
}

void twpr_copy(struct twpr_copy *c, const struct tw_program *p, const struct tw_compile_options *o)
{
	struct tw_error e;
	struct twir_program *program;
	if (tw_program_choose(p, &e) != TW_ERR_OK)
		tw_raise_error(&e);
	c->m = twir_module_new(c->arena);
	c->m->lanes = lanes_of(o);
	twir_parse(c->m, p->name, p->text);
	c->launch = choose(c->m, p->chosen->name, &program);
	TW_CHECK(c->launch, "the text has been parsed before");
	twir_visit_block(c->launch->body, list_program, NULL, c);
	twir_visit_block(c->launch->body, order_arguments, NULL, c);
	for (int i = 0; i < c->programs.n; i++)
		order_parameters(c, c->programs.at[i]);
	fix(c->m, o);
}

void twpr_take_bytes(struct twpr_copy *c)
{
	c->launch = twpr_with_bytes(c->m, c->launch);
	twir_visit_block(c->launch->body, list_program, NULL, c);
}

struct copying {
	const struct tw_program *p;
	const struct tw_compile_options *o;
	struct twpr_copy copy;
	void (*fn)(struct twpr_copy *c, void *arg);
	void *arg;
};

static void copy_and_do(void *arg)
{
	struct copying *c = arg;
	c->copy.arena = arena_new();
	twpr_copy(&c->copy, c->p, c->o);
	c->fn(&c->copy, c->arg);
}

enum tw_code twpr_with_copy(const struct tw_program *p, const struct tw_compile_options *o,
			    void (*fn)(struct twpr_copy *c, void *arg), void *arg, struct tw_error *e)
{
	struct copying c = {.p = p, .o = o, .fn = fn, .arg = arg};
	const bool good = tw_try(e, copy_and_do, &c);
	arena_free(c.copy.arena);
	return good ? TW_ERR_OK : e->code;
}
