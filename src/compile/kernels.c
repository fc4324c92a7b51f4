/* From tasks to kernels, one task after another: scheduled, lowered and written down as C in a frame of the module, which then
 * goes with all that the work took. Input: groups. Output: the groups with their launches, which speak of the module's own
 * tensors and have no programs any more; what was prepared of constants as groups of its own, each before the one that
 * asked for it; what the plan must know of each kernel; their C. */
#include "compile/compile_int.h"

struct stage {
	struct twc *c;
	int number;
};

static void after_pass(void *arg, const char *name, const struct twir_program *p)
{
	const struct stage *s = arg;
	s->c->after(s->c->after_arg, s->c, s->number, name, p);
}

static void lower(struct twc *c, const struct tw_launch *launch)
{
	for (int k = 0; k < launch->kernels.n; k++) {
		struct stage s = {c, c->kernels.n};
		struct twir_program *p = launch->kernels.at[k].program;
		tw_lower(c->m, p, &c->target, c->after ? after_pass : NULL, &s);
		cpu_kernels_add(c->texts, c->m, p);
		const struct twc_kernel made = {.cores = p->extents[0],
						.scratch = cgen_scratch(c->m, p),
						.nsymbols = p->nsymbols,
						.symbols = p->symbols,
						.name = p->name};
		vec_push(c->arena, &c->kernels, made);
	}
}

static void adopt_kernel(struct twc *c, struct twir_frame *f, struct twc_kernel *k)
{
	k->cores = twir_adopt_expr(c->m, f, k->cores);
	k->scratch = twir_adopt_expr(c->m, f, k->scratch);
	k->symbols = arena_copy(c->arena, k->symbols, (size_t)k->nsymbols * sizeof(k->symbols[0]));
	k->name = arena_strdup(c->arena, k->name);
}

static void adopt_launch(struct twc *c, struct twir_frame *f, struct tw_launch *launch)
{
	struct tw_launch made = {0};
	for (int i = 0; i < launch->kernels.n; i++) {
		struct tw_kernel k = launch->kernels.at[i];
		struct twir_tensor **args = ARENA_ARRAY(c->arena, struct twir_tensor *, k.nargs);
		for (int a = 0; a < k.nargs; a++)
			args[a] = twir_adopt_tensor(c->m, f, k.args[a]);
		k.args = args;
		k.inplace = arena_copy(c->arena, k.inplace, (size_t)k.nout * sizeof(k.inplace[0]));
		k.schedule = k.schedule ? arena_strdup(c->arena, k.schedule) : NULL;
		k.program = NULL;
		vec_push(c->arena, &made.kernels, k);
	}
	*launch = made;
}

/* What a template prepares of constants is a task like any other; it stands before the one that asked for it. */
static struct tw_group *prepared(struct twc *c, const struct tw_group *g, struct twir_compute *definition)
{
	struct tw_group *made = ARENA_NEW(c->arena, struct tw_group);
	made->node = g->node;
	made->label = arena_printf(c->arena, "prepare %s", g->label);
	made->setup = true;
	made->task = (struct tw_task){
		.m = c->m, .name = arena_printf(c->arena, "prepare_%s", g->task.name), .anchor = definition};
	return made;
}

static void make_kernels(struct twc *c, struct tw_group *g, struct tw_groups *all)
{
	struct twir_frame f;
	const int first = c->kernels.n, first_group = all->list.n;
	twir_frame_begin(c->m, &f);
	tw_schedule(&g->task, &c->target, &g->launch);
	for (int k = 0; k < g->launch.prepared.n; k++) {
		struct tw_group *before = prepared(c, g, g->launch.prepared.at[k]);
		tw_schedule(&before->task, &c->target, &before->launch);
		lower(c, &before->launch);
		vec_push(c->arena, &all->list, before);
	}
	lower(c, &g->launch);
	vec_push(c->arena, &all->list, g);
	twir_frame_end(c->m, &f);
	for (int k = 0; k < g->launch.prepared.n; k++)
		map_set_ptr(g->task.constants, g->launch.prepared.at[k]->out, NULL);
	for (int k = first; k < c->kernels.n; k++)
		adopt_kernel(c, &f, &c->kernels.at[k]);
	for (int i = first_group; i < all->list.n; i++) {
		adopt_launch(c, &f, &all->list.at[i]->launch);
		all->list.at[i]->task.anchor = g->task.anchor; /* of what was prepared: gone with the frame */
	}
	twir_frame_free(&f);
}

/* Compilers run beside us; those that have ended make room for others. */
static void compile_some(struct twc *c)
{
	struct tw_error e;
	if (c->compiles && cpu_kernels_turn(c->texts, &e) != TW_ERR_OK)
		tw_raise_error(&e);
}

void twc_kernels(struct twc *c)
{
	struct tw_error e;
	struct tw_groups all = c->groups;
	memset(&all.list, 0, sizeof(all.list));
	c->texts = cpu_kernels_new(c->arena, &c->target);
	if (c->compiles && (tw_toolchain_find(&c->toolchain, &e) != TW_ERR_OK ||
			    cpu_kernels_begin(c->texts, &c->toolchain, twc_jobs(c), &e) != TW_ERR_OK))
		tw_raise_error(&e);
	for (int i = 0; i < c->groups.list.n; i++) {
		struct tw_group *g = c->groups.list.at[i];
		twc_progress(c, "scheduling", i, c->groups.list.n);
		if (g->task.anchor)
			make_kernels(c, g, &all);
		else
			vec_push(c->arena, &all.list, g);
		compile_some(c);
	}
	c->groups = all;
}
