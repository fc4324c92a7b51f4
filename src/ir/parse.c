/* Modules: symbols, funcs, tensors, definitions and programs from text. Input: .tw text. Output: what it declares,
 * added to the module. Programs see symbols and their own names only; definitions see the tensors and definitions
 * before them. */
#include "ir/parse_int.h"

static void bind_symbol(struct twir_parser *p, struct twir_var *v)
{
	strmap_set(&p->symbols, v->name, v);
}

static void parse_symbol(struct twir_parser *p)
{
	do {
		const struct twir_tok at = p->tok;
		const char *name = twir_take_name(p, "the name of a symbol");
		int64_t lo = 0, hi = INT64_MAX, multiple = 1;
		if (twir_take(p, "in")) {
			lo = twir_take_int(p, "the least value");
			twir_expect(p, "..", "symbol N in 1..4096 multiple 8;");
			if (p->tok.kind == TK_NUMBER || twir_is(p, "-"))
				hi = twir_take_int(p, "the greatest value");
		}
		if (twir_take(p, "multiple"))
			multiple = twir_take_int(p, "the divisor");
		if (hi < lo || multiple < 1)
			twir_fail(p, &at, "symbol N in 1..4096 multiple 8;", "the facts of '%s' leave no value", name);
		if (twir_lookup(p, name) || strmap_get(&p->consts, name))
			twir_fail(p, &at, "names of symbols are known in the whole text", "'%s' is already declared",
				  name);
		struct twir_var *v = strmap_get(&p->symbols, name);
		if (v) {
			if (v->lo != lo || v->hi != hi || v->multiple != multiple)
				twir_fail(p, &at, "declare it once", "symbol '%s' is already declared with other facts",
					  name);
			continue;
		}
		v = twir_symbol(p->m, name);
		if (strcmp(v->name, name) !=
		    0) /* the module has given the name to a local: texts know it by this name all the same */
			v->name = v->base = name;
		v->lo = lo;
		v->hi = hi;
		v->multiple = multiple;
		bind_symbol(p, v);
	} while (twir_take(p, ","));
	twir_expect(p, ";", NULL);
}

/* const NAME = E;   a number that is known while the text is read: it stands for its value, so that sizes of register tiles can speak of the machine */
static void parse_const(struct twir_parser *p)
{
	const struct twir_tok at = p->tok;
	const char *name = twir_take_name(p, "the name of a constant");
	twir_expect(p, "=", "const L = lanes(f32);");
	const struct twir_tok value_at = p->tok;
	p->in_const = true;
	const struct twir_expr *value = twir_parse_expr(p);
	p->in_const = false;
	if (value->kind != TWIR_Const)
		twir_fail(p, &value_at, "numbers, other constants and lanes(TYPE)",
			  "the value of '%s' is not known here", name);
	twir_expect(p, ";", NULL);
	if (twir_lookup(p, name) || strmap_get(&p->symbols, name) || strmap_get(&p->consts, name))
		twir_fail(p, &at, "names of constants are known in the whole text", "'%s' is already declared", name);
	strmap_set(&p->consts, name, (void *)(uintptr_t)value);
}

/* Only loads and sizes do not belong in a func; no names give it access to either, but workers have names everywhere. */
static void find_worker(void *arg, const struct twir_expr *e)
{
	bool *found = arg;
	*found |= e->kind == TWIR_Var && e->u.var->kind == TWIR_WORKER;
}

static const struct twir_expr *parse_pure(struct twir_parser *p, const struct twir_tok *at)
{
	const struct twir_expr *e = twir_parse_expr(p);
	bool worker = false;
	twir_visit_expr(e, find_worker, &worker);
	if (worker)
		twir_fail(p, at, "pass the number as an argument", "a func does not know its worker");
	return e;
}

static void parse_func(struct twir_parser *p)
{
	const struct twir_tok at = p->tok;
	struct twir_func *f = ARENA_NEW(p->m->arena, struct twir_func);
	VEC(struct twir_var *) args = {0}, lets = {0};
	VEC(const struct twir_expr *) values = {0};
	f->name = twir_take_name(p, "the name of a func");
	const int mark = p->scope.n, floor = p->floor;
	p->floor = mark;
	p->no_symbols = true;
	twir_expect(p, "(", "func name(x: f32): f32 { return x; }");
	while (!twir_is(p, ")")) {
		if (args.n)
			twir_expect(p, ",", NULL);
		if (args.n == 16)
			twir_fail(p, &p->tok, "several funcs do", "a func has at most 16 arguments");
		const struct twir_tok name_at = p->tok;
		const char *name = twir_take_name(p, "the name of an argument");
		twir_expect(p, ":", "x: f32");
		const struct twir_type type = twir_parse_type(p);
		if (type.lanes != 1)
			twir_fail(p, &name_at, "they are applied to each lane of a vector by itself",
				  "funcs take scalars");
		vec_push(p->m->arena, &args, twir_declare_var(p, &name_at, TWIR_ARG, type, name));
	}
	twir_next(p);
	twir_expect(p, ":", "func name(x: f32): f32 { return x; }");
	f->result = twir_parse_type(p);
	if (f->result.lanes != 1)
		twir_fail(p, &at, "they are applied to each lane of a vector by itself", "funcs return a scalar");
	twir_expect(p, "{", NULL);
	while (twir_take(p, "let")) {
		const struct twir_tok name_at = p->tok;
		const char *name = twir_take_name(p, "a name");
		twir_expect(p, "=", "let x = value;");
		const struct twir_expr *value = parse_pure(p, &name_at);
		twir_expect(p, ";", NULL);
		vec_push(p->m->arena, &lets, twir_declare_var(p, &name_at, TWIR_BOUND, value->type, name));
		vec_push(p->m->arena, &values, value);
	}
	const struct twir_tok return_at = p->tok;
	twir_expect(p, "return", "a func is lets and one return");
	struct twir_operand o = twir_parse_operand(p);
	f->body = twir_retype(p, o, (enum twir_scalar)f->result.scalar);
	bool worker = false;
	twir_visit_expr(f->body, find_worker, &worker);
	if (worker || !twir_type_eq(f->body->type, f->result))
		twir_fail(p, &return_at, "pass the number as an argument",
			  worker ? "a func does not know its worker"
				 : "the value has another type than the func's result");
	twir_expect(p, ";", NULL);
	twir_expect(p, "}", NULL);
	twir_unbind(p, mark);
	p->floor = floor;
	p->no_symbols = false;
	f->n = args.n;
	f->args = args.at;
	f->nlets = lets.n;
	f->lets = lets.at;
	f->values = values.at;
	const struct twir_func *known = twir_func_find(p->m, f->name);
	if (known && !twir_same_func(known, f))
		twir_fail(p, &at, "a func may be repeated word for word only",
			  "func '%s' is already declared, and differently", f->name);
	if (known)
		return;
	strmap_set(&p->m->func_of, f->name, f);
	vec_push(p->m->arena, &p->m->funcs, f);
}

static void parse_free_tensor(struct twir_parser *p)
{
	struct twir_tok at;
	struct twir_tensor *t = twir_parse_tensor(p, TWIR_TENSOR, &at);
	twir_expect(p, ";", NULL);
	twir_bind(p, &at, t->base, BOUND_TENSOR, t);
	vec_push(p->m->arena, &p->m->tensors, t);
}

static void parse_define(struct twir_parser *p)
{
	struct twir_compute *c = ARENA_NEW(p->m->arena, struct twir_compute);
	struct twir_tok at;
	c->out = twir_parse_tensor(p, TWIR_TENSOR, &at);
	c->axes = ARENA_ARRAY(p->m->arena, struct twir_var *, c->out->rank);
	twir_expect(p, "=", "define Y: f32[M, N] = (i, j) => value;");
	const int mark = p->scope.n;
	p->folds.n = 0;
	const struct twir_tok axes_at = p->tok;
	twir_expect(p, "(", "define Y: f32[M, N] = (i, j) => value;");
	int n = 0;
	while (!twir_is(p, ")")) {
		if (n)
			twir_expect(p, ",", NULL);
		const struct twir_tok name_at = p->tok;
		const char *name = twir_take_name(p, "the name of an axis");
		if (n == c->out->rank)
			twir_fail(p, &name_at, "one axis for each dimension: define Y: f32[M, N] = (i, j) => value;",
				  "the tensor has rank %d", c->out->rank);
		struct twir_var *v = twir_declare_var(p, &name_at, TWIR_AXIS, twir_scalar_type(TWIR_INDEX), name);
		v->lo = 0;
		int64_t size;
		if (twir_const_int(c->out->shape[n], &size))
			v->hi = size > 0 ? size - 1 : 0;
		c->axes[n++] = v;
	}
	if (n != c->out->rank)
		twir_fail(p, &axes_at, "one axis for each dimension: define Y: f32[M, N] = (i, j) => value;",
			  "the tensor has rank %d, but there %s %d ax%s", c->out->rank, n == 1 ? "is" : "are", n,
			  n == 1 ? "is" : "es");
	twir_next(p);
	twir_expect(p, "=>", "define Y: f32[M, N] = (i, j) => value;");
	c->value = twir_parse_typed(p, twir_scalar_type(c->out->type), "the value");
	if (twir_take(p, "from"))
		c->origin = twir_take_string(p);
	twir_expect(p, ";", NULL);
	twir_unbind(p, mark);
	p->folds.n = 0;
	twir_bind(p, &at, c->out->base, BOUND_TENSOR, c->out);
	vec_push(p->m->arena, &p->m->computes, c);
}

struct twir_tensor *twir_parse_param(struct twir_parser *p)
{
	struct twir_tok at;
	const bool out = twir_take(p, "out");
	struct twir_tensor *t = twir_parse_tensor(p, out ? TWIR_OUT : TWIR_IN, &at);
	if (twir_take(p, "alias")) {
		const struct twir_tok name_at = p->tok;
		const char *name = twir_take_name(p, "the name of an input");
		const struct twir_entry *b = twir_lookup(p, name);
		struct twir_tensor *other = b && b->kind == BOUND_TENSOR ? b->what : NULL;
		if (!out || !other || other->scope != TWIR_IN)
			twir_fail(p, &name_at, "out C: f32[N] alias A, where A is an input before it",
				  "an output may be an alias of an input");
		t->alias = other;
	}
	twir_bind(p, &at, t->base, BOUND_TENSOR, t);
	return t;
}

static void parse_launch(struct twir_parser *p, struct twir_program *f)
{
	do {
		const struct twir_tok at = p->tok;
		enum twir_level level;
		if (f->nlevels == 3 || !twir_parse_level(p, &level))
			twir_fail(p, &at, twir_suggest_token(p, TWIR_SUGGEST_LEVELS, "launch core(n), lane(16)"),
				  "expected a level of workers");
		twir_expect(p, "(", "launch core(n), lane(16)");
		f->levels[f->nlevels] = level;
		f->extents[f->nlevels++] = twir_parse_size(p, "the number of workers");
		twir_expect(p, ")", NULL);
	} while (twir_take(p, ","));
}

static void parse_program(struct twir_parser *p)
{
	struct twir_program *f = ARENA_NEW(p->m->arena, struct twir_program);
	const struct twir_tok at = p->tok;
	f->name = twir_take_name(p, "the name of a program");
	if (twir_program_find(p->m, f->name))
		twir_fail(p, &at, "choose another name", "program '%s' is already declared", f->name);
	const int mark = p->scope.n, floor = p->floor;
	p->floor = mark;
	VEC(struct twir_tensor *) params = {0};
	twir_expect(p, "(", "program name(A: f32[N], out B: f32[N]) launch core(1), lane(16) { .. }");
	while (!twir_is(p, ")")) {
		if (params.n)
			twir_expect(p, ",", NULL);
		struct twir_tensor *t = twir_parse_param(p);
		vec_push(p->m->arena, &params, t);
	}
	twir_next(p);
	f->nparams = params.n;
	f->params = params.at;
	if (twir_take(p, "launch"))
		parse_launch(p, f);
	f->body = twir_parse_block(p);
	twir_unbind(p, mark);
	p->floor = floor;
	twir_program_symbols(p->m, f);
	vec_push(p->m->arena, &p->m->programs, f);
}

static void parse_module(void *arg)
{
	struct twir_parser *p = arg;
	for (;;) {
		const struct twir_tok at = p->tok;
		if (at.kind == TK_END)
			return;
		if (twir_take(p, "symbol"))
			parse_symbol(p);
		else if (twir_take(p, "const"))
			parse_const(p);
		else if (twir_take(p, "func"))
			parse_func(p);
		else if (twir_take(p, "tensor"))
			parse_free_tensor(p);
		else if (twir_take(p, "define"))
			parse_define(p);
		else if (twir_take(p, "program"))
			parse_program(p);
		else if (twir_take(p, "launch"))
			twir_parse_launch(p);
		else
			twir_fail(p, &at,
				  twir_suggest_token(p, TWIR_SUGGEST_WORDS,
						     "for example: program f(A: f32[4], out B: f32[4]) { .. }"),
				  "expected symbol, const, func, tensor, define, program or launch");
	}
}

static void bind_known(struct twir_parser *p, struct twir_tensor *t)
{
	if (twir_lookup(p, t->base) || strmap_get(&p->symbols, t->base))
		return; /* hidden, as another has the name */
	twir_bind(p, &p->tok, t->base, BOUND_TENSOR, t);
}

static void start(void *arg)
{
	struct twir_parser *p = arg;
	twir_lex_start(p, p->name, p->text);
	for (int i = 0; i < p->m->symbols.n; i++)
		bind_symbol(p, p->m->symbols.at[i]);
	for (int i = 0; i < p->m->tensors.n; i++)
		bind_known(p, p->m->tensors.at[i]);
	for (int i = 0; i < p->m->computes.n; i++)
		bind_known(p, p->m->computes.at[i]->out);
	parse_module(p);
}

void twir_parse(struct twir_module *m, const char *name, const char *text)
{
	struct twir_parser p = {.m = m, .scratch = arena_new(), .name = name, .text = text};
	strmap_init(&p.names, p.scratch);
	strmap_init(&p.symbols, p.scratch);
	strmap_init(&p.consts, p.scratch);
	struct tw_error error;
	const bool ok = tw_try(&error, start, &p);
	arena_free(p.scratch);
	if (!ok)
		tw_raise_error(&error);
}
