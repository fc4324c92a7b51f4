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

/* What has no meaning on a CPU, by name; and stores of two workers to one byte, which would undo each other. */
static void refuse(struct twir_module *m, const struct twir_program *p, const struct tw_target *t)
{
	const char *what = t->device != TW_DEVICE_CPU ? NULL
			   : twp_is_gpu(p)	      ? "a launch on blocks"
						      : twir_gpu_only(p->body);
	if (what)
		tw_raise(TW_ERR_UNSUPPORTED,
			 "program '%s' has %s, which is for a GPU: code for a CPU cannot be made of it", p->name, what);
	const struct twir_tensor *packed = twir_shared_byte(m, p);
	if (packed)
		tw_raise(TW_ERR_UNSUPPORTED,
			 "program '%s': elements of '%s' (%s) share bytes, and it is not proved that no two workers "
			 "store to one byte\nhint: give each worker whole bytes: rows of an even size, repeat(%d) or "
			 "more "
			 "elements side by side",
			 p->name, packed->base, twir_scalar_name(packed->type), 8 / twir_scalar_bits(packed->type));
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
	refuse(m, p, t);
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
