/* program_image: single programs and launch functions as images: their parameters are inputs and outputs, so that runs,
 * threads, timing and saving are those of models. Input: a program; output: an image that rt opens. */
#include "compile/program_int.h"

struct imaging {
	const struct tw_program *p;
	const struct tw_compile_options *o;
	void **image;
	int64_t *bytes;
};

bool twpr_told_by_input(const struct twir_launch *l, const struct twir_var *v, struct twrt_source *source)
{
	int input = 0;
	for (int i = 0; i < l->nparams; i++) {
		const struct twir_tensor *t = l->params[i];
		for (int d = 0; t->scope == TWIR_IN && d < t->rank; d++)
			if (t->shape[d]->kind == TWIR_Var && t->shape[d]->u.var == v) {
				*source = (struct twrt_source){.input = input, .dim = d};
				return true;
			}
		input += t->scope == TWIR_IN;
	}
	return false;
}

void twpr_fix_others(const struct tw_program *p, struct twpr_copy *c)
{
	for (int i = 0; i < c->launch->nsymbols; i++) {
		struct twir_var *v = c->launch->symbols[i];
		struct twrt_source source;
		int64_t n = -1;
		if (twpr_told_by_input(c->launch, v, &source) || v->lo == v->hi)
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

static bool compiler_progress(void *arg, int done, int all)
{
	const struct tw_compile_options *o = ((const struct twc *)arg)->o;
	return (o->progress && o->progress(o->progress_arg, "compiling kernels", done, all)) ||
	       (o->cancel && o->cancel(o->cancel_arg));
}

static void image(struct twpr_copy *copy, void *arg)
{
	const struct imaging *j = arg;
	struct twc c = {.arena = copy->arena, .m = copy->m, .o = j->o};
	struct tw_error e;
	twpr_take_bytes(copy);
	for (int i = 0; i < copy->programs.n; i++)
		if (twpr_is_gpu(copy->programs.at[i]))
			tw_raise(TW_ERR_UNSUPPORTED,
				 "program %s is launched on blocks and threads, which C for a CPU has not\nhint: --run "
				 "interp or --run opencl",
				 copy->programs.at[i]->name);
	twpr_fix_others(j->p, copy);
	struct twpr_planner *planner = twpr_plan_begin(&c, copy);
	twpr_lower(copy, j->o->isa ? j->o->isa : "host", &c.target, NULL, NULL);
	const int jobs = j->o->jobs > 0 ? j->o->jobs : c.target.cores > 0 ? c.target.cores : 1;
	if (tw_toolchain_find(&c.toolchain, &e) != TW_ERR_OK ||
	    cpu_compile(c.arena, c.m, copy->programs.n, copy->programs.at, &c.target, &c.toolchain, jobs,
			compiler_progress, &c, &c.code, &e) != TW_ERR_OK)
		tw_raise_error(&e);
	twpr_plan_end(planner);
	const struct twrt_code code = {c.code.object, (int64_t)c.code.object_bytes, (int)c.target.isa};
	if (twrt_image_write(&c.plan, 1, &code, NULL, NULL, j->image, j->bytes, &e) != TW_ERR_OK)
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
