/* program_image: single programs as images: a plan whose inputs and outputs are the program's parameters. Input: a
 * program; output: an image that rt opens, so that runs, threads, timing and saving are those of models. */
#include "compile/program_int.h"

struct imaging {
	const struct tw_program *p;
	const struct tw_compile_options *o;
	struct twc *c;
	void **image;
	int64_t *bytes;
};

static bool told_by_input(const struct twir_program *p, const struct twir_var *v, struct twrt_source *source)
{
	int input = 0;
	for (int i = 0; i < p->nparams; i++) {
		const struct twir_tensor *t = p->params[i];
		for (int d = 0; t->scope == TWIR_IN && d < t->rank; d++)
			if (t->shape[d]->kind == TWIR_Var && t->shape[d]->u.var == v) {
				*source = (struct twrt_source){.input = input, .dim = d};
				return true;
			}
		input += t->scope == TWIR_IN;
	}
	return false;
}

/* What no input tells is compiled in. */
static void fix_others(const struct tw_program *p, struct twir_program *program)
{
	for (int i = 0; i < program->nsymbols; i++) {
		struct twir_var *v = program->symbols[i];
		struct twrt_source source;
		int64_t n = -1;
		if (told_by_input(program, v, &source) || v->lo == v->hi)
			continue;
		for (int k = 0; k < p->nsymbols; k++)
			if (strcmp(p->chosen->symbols[k]->name, v->name) == 0)
				n = p->values[k];
		if (n < 0)
			tw_raise(TW_ERR_INPUT, "no input's size tells %s\nhint: give it with -d %s=N", v->name,
				 v->name);
		v->lo = v->hi = n;
		v->multiple = n > 0 ? n : 1;
	}
}

static void describe(struct twc *c, const struct twir_tensor *t, enum twrt_buffer_kind kind, struct twrt_io *io,
		     struct twrt_buffer *buffer, int number)
{
	if (t->layout)
		tw_raise(TW_ERR_UNSUPPORTED,
			 "parameter %s has a layout: a run takes and gives plain row-major tensors\nhint: a launch "
			 "function can hold the program that packs it",
			 t->base);
	*io = (struct twrt_io){.name = t->base, .type = twc_type(t->type), .rank = t->rank, .buffer = number};
	for (int d = 0; d < t->rank; d++)
		io->dims[d] = twc_size(c, t->shape[d]);
	const struct twir_expr *bytes =
		twir_mul(c->m, twir_tensor_elements(c->m, t), twir_index(c->m, twir_scalar_bytes(t->type)));
	*buffer = (struct twrt_buffer){.kind = kind, .bytes = twc_size(c, bytes), .of = -1};
}

static void add_symbols(struct twc *c, const struct twir_program *p)
{
	VEC(const char *) names = {0};
	VEC(struct twrt_source) sources = {0};
	for (int i = 0; i < p->nsymbols; i++) {
		struct twrt_source source;
		if (!told_by_input(p, p->symbols[i], &source))
			continue;
		vec_push(c->arena, &c->symbols, p->symbols[i]);
		vec_push(c->arena, &names, p->symbols[i]->name);
		vec_push(c->arena, &sources, source);
	}
	c->plan.nsymbols = c->symbols.n;
	c->plan.symbols = names.at;
	c->plan.sources = sources.at;
}

/* Inputs in order, then outputs; buffers are numbered as parameters are. Shapes are those before lowering. */
static void add_parameters(struct twc *c, const struct twir_program *p)
{
	struct twrt_plan *plan = &c->plan;
	struct twrt_io *in = ARENA_ARRAY(c->arena, struct twrt_io, p->nparams);
	struct twrt_io *out = ARENA_ARRAY(c->arena, struct twrt_io, p->nparams);
	struct twrt_buffer *buffers = ARENA_ARRAY(c->arena, struct twrt_buffer, p->nparams);
	for (int i = 0; i < p->nparams; i++) {
		const bool writes = p->params[i]->scope == TWIR_OUT;
		describe(c, p->params[i], writes ? TWRT_OUTPUT : TWRT_INPUT,
			 writes ? &out[plan->noutputs++] : &in[plan->ninputs++], &buffers[i], i);
	}
	plan->inputs = in;
	plan->outputs = out;
	plan->nbuffers = p->nparams;
	plan->buffers = buffers;
}

/* A step's buffers have the outputs last, so the program's parameters must be so too. */
static void add_step(struct twc *c, const struct twir_program *p)
{
	struct twrt_plan *plan = &c->plan;
	struct twrt_step *s = ARENA_NEW(c->arena, struct twrt_step);
	int *buffers = ARENA_ARRAY(c->arena, int, p->nparams), *inplace = ARENA_ARRAY(c->arena, int, p->nparams);
	struct twrt_expr *symbols = ARENA_ARRAY(c->arena, struct twrt_expr, p->nsymbols);
	for (int i = 0; i < p->nparams; i++) {
		buffers[i] = i;
		inplace[i] = -1;
	}
	for (int i = 0; i < p->nsymbols; i++)
		symbols[i] = twc_size(c, twir_var(c->m, p->symbols[i]));
	*s = (struct twrt_step){.kind = TWRT_KERNEL,
				.cores = twc_size(c, p->nlevels ? p->extents[0] : twir_index(c->m, 1)),
				.scratch = twc_size(c, cgen_scratch(c->m, p)),
				.nbuffers = p->nparams,
				.buffers = buffers,
				.nout = plan->noutputs,
				.inplace = inplace,
				.nsymbols = p->nsymbols,
				.symbols = symbols,
				.label = p->name,
				.program = p->name};
	plan->nsteps = 1;
	plan->steps = s;
	plan->nkernels = c->code.nkernels;
	plan->kernels = c->code.names;
}

static void outputs_last(const struct twir_program *p)
{
	for (int i = 1; i < p->nparams; i++)
		if (p->params[i]->scope == TWIR_IN && p->params[i - 1]->scope == TWIR_OUT)
			tw_raise(TW_ERR_UNSUPPORTED, "program %s: parameter %s: inputs come before outputs", p->name,
				 p->params[i]->base);
}

static bool compiler_progress(void *arg, int done, int all)
{
	const struct tw_compile_options *o = ((const struct twc *)arg)->o;
	return (o->progress && o->progress(o->progress_arg, "compiling kernels", done, all)) ||
	       (o->cancel && o->cancel(o->cancel_arg));
}

static void image(struct twpr_copy *copy, void *arg)
{
	const struct imaging *j = arg;
	struct twir_program *p = copy->program;
	struct twc c = {.arena = copy->arena, .m = copy->m, .o = j->o};
	struct tw_error e;
	if (twpr_is_gpu(p))
		tw_raise(TW_ERR_UNSUPPORTED,
			 "program %s is launched on blocks and threads, which C for a CPU has not\nhint: --run interp "
			 "or --run opencl",
			 p->name);
	outputs_last(p);
	fix_others(j->p, p);
	add_symbols(&c, p);
	add_parameters(&c, p);
	tw_target_host(&c.target);
	enum tw_isa isa;
	if (j->o->isa && tw_isa_parse(j->o->isa, &isa))
		tw_target_with_isa(&c.target, isa);
	tw_lower(c.m, p, &c.target, NULL, NULL);
	vec_push(c.arena, &c.programs, p);
	if (tw_toolchain_find(&c.toolchain, &e) != TW_ERR_OK ||
	    cpu_compile(c.arena, c.m, 1, c.programs.at, &c.target, &c.toolchain, 1, compiler_progress, &c, &c.code,
			&e) != TW_ERR_OK)
		tw_raise_error(&e);
	add_step(&c, p);
	const struct twrt_code code = {c.code.object, (int64_t)c.code.object_bytes, (int)c.target.isa};
	if (twrt_image_write(&c.plan, 1, &code, j->image, j->bytes, &e) != TW_ERR_OK)
		tw_raise_error(&e);
}

enum tw_code tw_program_compile(const struct tw_program *p, const struct tw_compile_options *o, void **bytes,
				int64_t *image_bytes, struct tw_error *e)
{
	const struct tw_compile_options none = {0};
	struct imaging j = {.p = p, .o = o ? o : &none, .image = bytes, .bytes = image_bytes};
	*bytes = NULL;
	*image_bytes = 0;
	return twpr_with_copy(p, j.o, image, &j, e);
}
