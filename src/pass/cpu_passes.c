/* cpu_passes: the order of lowering for CPUs, and the driver. Input: a program as scheduled; output: the program the
 * emitter takes. */
#include "pass/pass_int.h"

/* Simplifying a whole program costs more than any pass: it happens where later passes look at shapes of statements
 * and guards. */
const struct tw_pass tw_cpu_passes[] = {
	{"inline_math", pass_inline_math, "nothing", "nothing; no calls afterwards", false},
	{"bound_within", pass_bound_within, "mappings", "nothing; no bounds afterwards", false},
	{"expand_mapping", pass_expand_mapping, "bound_within", "mappings, but for lane regions", true},
	{"specialise", pass_specialise, "expand_mapping", "nothing; no specialise afterwards", true},
	{"flatten_index", pass_flatten_index, "expand_mapping", "shapes and layouts", false},
	{"lower_lanes", pass_lower_lanes, "flatten_index", "lane regions, mirrors", false},
	{"unroll_registers", pass_unroll_registers, "lower_lanes", "nothing", false},
	{"hoist", pass_hoist, "unroll_registers", "nothing", false},
	{"share", pass_share, "nothing", "nothing", false},
	{NULL, NULL, NULL, NULL, false},
};

static void verify(struct twir_module *m, const struct twir_program *p)
{
#ifndef NDEBUG
	twir_verify_program(m, p, TW_ERR_INTERNAL);
#else
	(void)m;
	(void)p;
#endif
}

/* What has no meaning on a CPU, by name. */
static void refuse(const struct twir_program *p)
{
	const char *what = p->nlevels && p->levels[0] == TWIR_BLOCK ? "a launch on blocks" : twir_gpu_only(p->body);
	if (what)
		tw_raise(TW_ERR_UNSUPPORTED,
			 "program '%s' has %s, which is for a GPU: code for a CPU cannot be made of it", p->name, what);
	for (int i = 0; i < p->nparams; i++)
		if (twir_is_packed(p->params[i]->type))
			tw_raise(TW_ERR_UNSUPPORTED,
				 "program '%s': tensor '%s' of type %s: packed types have no code for a CPU", p->name,
				 p->params[i]->base, twir_scalar_name(p->params[i]->type));
}

void pass_simplify(struct twir_module *m, struct twir_program *p, const struct tw_target *t)
{
	(void)t;
	twir_simplify_program(m, p);
}

const struct tw_pass *tw_passes(const struct twir_program *p)
{
	(void)p;
	return tw_cpu_passes;
}

void tw_lower(struct twir_module *m, struct twir_program *p, const struct tw_target *t,
	      void (*after)(void *arg, const char *name, const struct twir_program *p), void *arg)
{
	refuse(p);
	verify(m, p);
	if (after)
		after(arg, "input", p);
	for (const struct tw_pass *s = tw_passes(p); s->name; s++) {
		s->run(m, p, t);
		if (s->simplify)
			pass_simplify(m, p, t);
		verify(m, p);
		if (after)
			after(arg, s->name, p);
	}
	twir_program_symbols(m, p);
}
