/* program_plan: a launch function as a plan: parameters become inputs and outputs, buffers temporaries, calls steps, loops
 * and branches flow steps whose counts are sizes. Input: a launch function and its programs, compiled; output: a plan. */
#include "compile/program_int.h"

struct twpr_planner {
	struct twc *c;
	struct twpr_copy *copy;
	struct tw_arena *a;
	VEC(struct twrt_buffer) buffers;
	VEC(struct twrt_step) steps;
	VEC(const char *) names; /* of symbols */
	VEC(struct twrt_source) sources;
	struct tw_map of_tensor;  /* tensor -> buffer + 1 */
	struct twir_subst values; /* lets, and what calls say of a program's symbols */
};

static const struct twir_expr *value(struct twpr_planner *p, const struct twir_expr *e)
{
	return twir_subst_expr(&p->values, e);
}

static struct twrt_expr size(struct twpr_planner *p, const struct twir_expr *e)
{
	return twc_size(p->c, value(p, e));
}

static const struct twir_expr *bytes_of(struct twpr_planner *p, const struct twir_tensor *t)
{
	struct twir_module *m = p->c->m;
	return twir_mul(m, twir_tensor_elements(m, t), twir_index(m, twir_scalar_bytes(t->type)));
}

static int new_buffer(struct twpr_planner *p, const struct twir_tensor *t, enum twrt_buffer_kind kind)
{
	const struct twrt_buffer b = {.kind = kind, .bytes = size(p, bytes_of(p, t)), .of = -1};
	vec_push(p->a, &p->buffers, b);
	map_set_ptr(&p->of_tensor, t, (void *)(uintptr_t)p->buffers.n);
	return p->buffers.n - 1;
}

static void add_parameter(struct twpr_planner *p, const struct twir_tensor *t, struct twrt_io *io)
{
	if (t->layout)
		tw_raise(TW_ERR_UNSUPPORTED,
			 "parameter %s has a layout: a run takes and gives plain row-major tensors\nhint: a launch "
			 "function can hold the program that packs it",
			 t->base);
	*io = (struct twrt_io){.name = t->base, .type = twc_type(t->type), .rank = t->rank};
	for (int d = 0; d < t->rank; d++)
		io->dims[d] = size(p, t->shape[d]);
	io->buffer = new_buffer(p, t, t->scope == TWIR_OUT ? TWRT_OUTPUT : TWRT_INPUT);
}

/* Sizes are written down before the programs are lowered, which flattens their parameters. */
struct twpr_planner *twpr_plan_begin(struct twc *c, struct twpr_copy *copy)
{
	struct twpr_planner *p = ARENA_NEW(c->arena, struct twpr_planner);
	const struct twir_launch *l = copy->launch;
	struct twrt_io *in = ARENA_ARRAY(c->arena, struct twrt_io, l->nparams);
	struct twrt_io *out = ARENA_ARRAY(c->arena, struct twrt_io, l->nparams);
	*p = (struct twpr_planner){.c = c, .copy = copy, .a = c->arena};
	map_init(&p->of_tensor, p->a);
	twir_subst_init(&p->values, c->m);
	for (int i = 0; i < l->nsymbols; i++) {
		struct twrt_source source;
		if (!twpr_told_by_input(l, l->symbols[i], &source))
			continue;
		vec_push(p->a, &c->symbols, l->symbols[i]);
		vec_push(p->a, &p->names, l->symbols[i]->name);
		vec_push(p->a, &p->sources, source);
	}
	for (int i = 0; i < l->nparams; i++)
		add_parameter(p, l->params[i],
			      l->params[i]->scope == TWIR_OUT ? &out[c->plan.noutputs++] : &in[c->plan.ninputs++]);
	c->plan.inputs = in;
	c->plan.outputs = out;
	return p;
}

/* The buffer of an argument: a tensor's, or a part of it at an offset. */
static int argument(struct twpr_planner *p, const struct twir_argument *a)
{
	struct twir_module *m = p->c->m;
	const int whole = (int)(uintptr_t)map_get_ptr(&p->of_tensor, a->tensor) - 1;
	TW_CHECK(whole >= 0, "tensor %s has no buffer", a->tensor->name);
	if (a->n == 0)
		return whole;
	const struct twir_expr *at = twir_index(m, 0), *inner = twir_index(m, twir_scalar_bytes(a->tensor->type));
	for (int i = 0; i < a->n; i++)
		at = twir_add(m, twir_mul(m, at, a->tensor->shape[i]), a->index[i]);
	for (int i = a->n; i < a->tensor->rank; i++)
		inner = twir_mul(m, inner, a->tensor->shape[i]);
	/* Loops that do not run leave nothing to be a part of. */
	const struct twir_expr *left = twir_sub(m, bytes_of(p, a->tensor), twir_mul(m, at, inner));
	const struct twir_expr *bytes = twir_max(m, twir_min(m, inner, left), twir_index(m, 0));
	const struct twrt_buffer b = {
		.kind = TWRT_ALIAS, .bytes = size(p, bytes), .of = whole, .offset = size(p, twir_mul(m, at, inner))};
	vec_push(p->a, &p->buffers, b);
	return p->buffers.n - 1;
}

static void call(struct twpr_planner *p, const struct twir_stmt *s)
{
	const struct twir_program *f = s->u.invoke.program;
	struct twir_module *m = p->c->m;
	int *buffers = ARENA_ARRAY(p->a, int, f->nparams), *inplace = ARENA_ARRAY(p->a, int, f->nparams), nout = 0;
	struct twrt_expr *symbols = ARENA_ARRAY(p->a, struct twrt_expr, f->nsymbols);
	for (int i = 0; i < f->nparams; i++) {
		buffers[i] = argument(p, &s->u.invoke.args[i]);
		inplace[i] = -1;
		nout += f->params[i]->scope == TWIR_OUT;
	}
	struct twir_subst saved = p->values;
	twir_subst_init(&p->values, m);
	for (int i = 0; i < s->u.invoke.nsymbols; i++)
		twir_subst_set(&p->values, s->u.invoke.symbols[i], twir_subst_expr(&saved, s->u.invoke.values[i]));
	for (int i = 0; i < f->nsymbols; i++)
		symbols[i] = size(p, twir_var(m, f->symbols[i]));
	struct twrt_step step = {.kind = TWRT_KERNEL,
				 .kernel = twpr_number(p->copy, f),
				 .cores = size(p, f->nlevels ? f->extents[0] : twir_index(m, 1)),
				 .scratch = size(p, cgen_scratch(m, f)),
				 .nbuffers = f->nparams,
				 .buffers = buffers,
				 .nout = nout,
				 .inplace = inplace,
				 .nsymbols = f->nsymbols,
				 .symbols = symbols,
				 .label = f->name,
				 .program = f->name};
	p->values = saved;
	vec_push(p->a, &p->steps, step);
}

static void block(struct twpr_planner *p, const struct twir_stmt *list);

/* Runs body `trips` times; v: the number of the turn, or NULL. */
static void loop(struct twpr_planner *p, struct twir_var *v, const struct twir_expr *trips,
		 const struct twir_stmt *body)
{
	struct twir_module *m = p->c->m;
	struct twrt_expr *count = ARENA_NEW(p->a, struct twrt_expr);
	int *none = ARENA_ARRAY(p->a, int, 2);
	none[0] = none[1] = -1;
	*count = size(p, trips);
	if (!v)
		v = twir_var_new(m, TWIR_LOOP, twir_scalar_type(TWIR_INDEX), "turn");
	const struct twrt_source source = {
		.input = -1, .most = size(p, twir_max(m, twir_sub(m, trips, twir_index(m, 1)), twir_index(m, 0)))};
	vec_push(p->a, &p->c->symbols, v);
	vec_push(p->a, &p->names, v->name);
	vec_push(p->a, &p->sources, source);
	const int begin = p->steps.n, symbol = p->c->symbols.n - 1;
	struct twrt_step s = {.kind = TWRT_LOOP,
			      .kernel = -1,
			      .nbuffers = 2,
			      .buffers = none,
			      .nsymbols = 1,
			      .symbols = count,
			      .symbol = symbol,
			      .label = v->name,
			      .program = "loop"};
	vec_push(p->a, &p->steps, s);
	block(p, body);
	s = (struct twrt_step){.kind = TWRT_NEXT,
			       .kernel = -1,
			       .nbuffers = 1,
			       .buffers = none,
			       .symbol = -1,
			       .label = v->name,
			       .program = "next"};
	s.to = begin - p->steps.n;
	p->steps.at[begin].to = p->steps.n - begin;
	vec_push(p->a, &p->steps, s);
}

static void block(struct twpr_planner *p, const struct twir_stmt *list)
{
	struct twir_module *m = p->c->m;
	const struct twir_expr *one = twir_index(m, 1), *zero = twir_index(m, 0);
	for (const struct twir_stmt *s = list; s; s = s->next)
		switch (s->kind) {
		case TWIR_LET:
			twir_subst_set(&p->values, s->u.let.var, value(p, s->u.let.value));
			break;
		case TWIR_DECLARE:
			(void)new_buffer(p, s->u.declare.tensor, TWRT_TEMP);
			break;
		case TWIR_FOR:
			loop(p, s->u.loop.var, s->u.loop.extent, s->u.loop.body);
			break;
		case TWIR_IF:
			loop(p, NULL, twir_select(m, s->u.branch.cond, one, zero), s->u.branch.body);
			if (s->u.branch.other)
				loop(p, NULL, twir_select(m, s->u.branch.cond, zero, one), s->u.branch.other);
			break;
		case TWIR_INVOKE:
			call(p, s);
			break;
		default:
			TW_CHECK(false, "a launch function holds let, buffer, for, if and call");
		}
}

void twpr_plan_end(struct twpr_planner *p)
{
	struct twrt_plan *plan = &p->c->plan;
	block(p, p->copy->launch->body);
	plan->nsymbols = p->c->symbols.n;
	plan->symbols = p->names.at;
	plan->sources = p->sources.at;
	plan->nbuffers = p->buffers.n;
	plan->buffers = p->buffers.at;
	plan->nsteps = p->steps.n;
	plan->steps = p->steps.at;
	plan->nkernels = p->c->code.nkernels;
	plan->kernels = p->c->code.names;
}
