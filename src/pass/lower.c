/* lower: the driver of the passes. Input: a program as scheduled; output: the program the emitter takes. */
#include "pass/pass_int.h"

static void verify(struct twir_module *m, const struct twir_program *p)
{
#ifndef NDEBUG
	twir_verify_program(m, p, TW_ERR_INTERNAL);
#else
	(void)m;
	(void)p;
#endif
}

static void find_packed(void *arg, const struct twir_stmt *s)
{
	const struct twir_tensor **found = arg;
	if (s->kind == TWIR_DECLARE && twir_is_packed(s->u.declare.tensor->type))
		*found = s->u.declare.tensor;
}

/* What has no meaning on a CPU, by name; and what has no code anywhere yet. */
static void refuse(const struct twir_program *p, const struct tw_target *t)
{
	const char *what = t->device != TW_DEVICE_CPU ? NULL
			   : twp_is_gpu(p)	      ? "a launch on blocks"
						      : twir_gpu_only(p->body);
	if (what)
		tw_raise(TW_ERR_UNSUPPORTED,
			 "program '%s' has %s, which is for a GPU: code for a CPU cannot be made of it", p->name, what);
	const struct twir_tensor *packed = NULL;
	for (int i = 0; i < p->nparams; i++)
		if (twir_is_packed(p->params[i]->type))
			packed = p->params[i];
	twir_visit_block(p->body, find_packed, NULL, &packed);
	if (packed)
		tw_raise(TW_ERR_UNSUPPORTED, "program '%s': tensor '%s' of type %s: packed types have no code", p->name,
			 packed->base, twir_scalar_name(packed->type));
}

void pass_simplify(struct twir_module *m, struct twir_program *p, const struct tw_target *t)
{
	(void)t;
	twir_simplify_program(m, p);
}

const struct tw_pass *tw_passes(const struct twir_program *p)
{
	return twp_is_gpu(p) ? tw_gpu_passes : tw_cpu_passes;
}

void tw_lower(struct twir_module *m, struct twir_program *p, const struct tw_target *t,
	      void (*after)(void *arg, const char *name, const struct twir_program *p), void *arg)
{
	refuse(p, t);
	verify(m, p);
	if (after)
		after(arg, "input", p);
	for (const struct tw_pass *s = tw_passes(p); s->name; s++) {
		m->scratch = arena_child(m->arena);
		s->run(m, p, t);
		if (s->simplify)
			pass_simplify(m, p, t);
		arena_free(m->scratch);
		m->scratch = m->arena;
		verify(m, p);
		if (after)
			after(arg, s->name, p);
	}
	twir_program_symbols(m, p);
}
