/* program_lower: single programs through the passes of their target: the text after a pass, code, an image. Input: a
 * program as parsed; output: text or an image. */
#include "compile/program_int.h"

#include <stdlib.h>

static void host_target(struct tw_target *t, const char *isa)
{
	tw_target_host(t);
	enum tw_isa parsed;
	if (!isa || strcmp(isa, "host") == 0)
		return;
	if (!tw_isa_parse(isa, &parsed))
		tw_raise(TW_ERR_USAGE,
			 "there is no target '%.40s': choose scalar, generic, neon, avx2 or avx512 for programs on "
			 "cores, sm_80, sm_90 or opencl for programs on blocks",
			 isa);
	tw_target_with_isa(t, parsed);
}

/* name: NULL: what suits the program. */
static void choose_target(const struct twir_program *p, const char *name, struct tw_target *t)
{
	const bool gpu = twpr_is_gpu(p);
	if (!tw_target_gpu(t, name ? name : gpu ? "sm_90" : ""))
		host_target(t, name);
	if (gpu && t->device == TW_DEVICE_CPU)
		tw_raise(TW_ERR_USAGE,
			 "program %s is launched on blocks and threads, which %s has not\nhint: its targets are sm_80, "
			 "sm_90 and opencl",
			 p->name, tw_isa_name(t->isa));
	if (!gpu && t->device != TW_DEVICE_CPU)
		tw_raise(TW_ERR_USAGE,
			 "program %s is launched on cores and lanes, which %s has not\nhint: programs for GPUs say "
			 "launch block(..), thread(..)",
			 p->name, t->gpu);
}

/* The text is read for the instruction set that it is lowered for. */
static struct tw_compile_options for_target(const struct tw_compile_options *o, const char *target)
{
	struct tw_compile_options with = o ? *o : (struct tw_compile_options){0};
	with.isa = target;
	return with;
}

void twpr_lower(struct twpr_copy *c, const char *target, struct tw_target *t,
		void (*after)(void *arg, const char *name, const struct twir_program *p), void *arg)
{
	for (int i = 0; i < c->programs.n; i++) {
		choose_target(c->programs.at[i], target, t);
		if (twpr_is_gpu(c->programs.at[i]) != twpr_is_gpu(c->programs.at[0]))
			tw_raise(TW_ERR_UNSUPPORTED, "launch function %s calls programs on cores and on blocks",
				 c->launch->name);
	}
	for (int i = 0; i < c->programs.n; i++)
		tw_lower(c->m, c->programs.at[i], t, after, arg);
}

struct staging {
	const struct tw_program *p;
	const char *pass, *target;
	struct twpr_copy *copy;
	struct tw_buf texts;
	char *text;
};

/* Symbols are declared by each text that speaks of them, which they may be. */
static void keep_stage(void *arg, const char *name, const struct twir_program *p)
{
	struct staging *s = arg;
	if (strcmp(name, s->pass) == 0)
		buf_printf(&s->texts, "%s%s", s->texts.n ? "\n" : "",
			   twir_print_program(s->copy->arena, s->copy->m, p));
}

static void stage(struct twpr_copy *c, void *arg)
{
	struct staging *s = arg;
	struct tw_target t;
	struct tw_buf names;
	s->copy = c;
	buf_init(&names, c->arena);
	buf_init(&s->texts, c->arena);
	const struct tw_pass *passes = c->programs.n ? tw_passes(c->programs.at[0]) : tw_cpu_passes;
	bool known = strcmp(s->pass, "input") == 0;
	for (int i = 0; passes[i].name; i++) {
		known |= strcmp(passes[i].name, s->pass) == 0;
		buf_printf(&names, ", %s", passes[i].name);
	}
	if (!known)
		tw_raise(TW_ERR_USAGE, "there is no pass '%.40s'; there are: input%s", s->pass, names.at);
	twpr_lower(c, s->target, &t, keep_stage, s);
	if (s->p->launch && strcmp(s->pass, "input") == 0)
		buf_printf(&s->texts, "\n%s", s->p->launch);
	s->text = strdup(s->texts.at ? s->texts.at : "");
	if (!s->text)
		tw_raise(TW_ERR_MEMORY, "out of memory");
}

enum tw_code tw_program_stage(const struct tw_program *p, const char *pass, const char *target,
			      const struct tw_compile_options *o, char **text, struct tw_error *e)
{
	struct staging s = {.p = p, .pass = pass, .target = target};
	const struct tw_compile_options with = for_target(o, target);
	const enum tw_code code = twpr_with_copy(p, &with, stage, &s, e);
	*text = code == TW_ERR_OK ? s.text : NULL;
	if (code != TW_ERR_OK)
		free(s.text);
	return code;
}

struct emitting {
	const struct tw_program *p;
	const char *target;
	char *text;
};

static void emit(struct twpr_copy *c, void *arg)
{
	struct emitting *x = arg;
	struct tw_target t;
	struct tw_buf b;
	twpr_lower(c, x->target, &t, NULL, NULL);
	buf_init(&b, c->arena);
	if (x->p->launch)
		buf_printf(&b, "/* %s */\n", x->p->launch);
	if (c->programs.n)
		cgen_file(&b, &t, c->m, c->programs.n, c->programs.at);
	x->text = strdup(b.at ? b.at : "");
	if (!x->text)
		tw_raise(TW_ERR_MEMORY, "out of memory");
}

enum tw_code tw_program_emit(const struct tw_program *p, const char *target, const struct tw_compile_options *o,
			     char **text, struct tw_error *e)
{
	struct emitting x = {.p = p, .target = target};
	const struct tw_compile_options with = for_target(o, target);
	const enum tw_code code = twpr_with_copy(p, &with, emit, &x, e);
	*text = code == TW_ERR_OK ? x.text : NULL;
	return code;
}
