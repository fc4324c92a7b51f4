/* Schedules a task: the anchor alone by the first template that applies (else the whole task by the rules), then fusion into the finished programs. */
#include "sched/sched.h"

const struct tw_template *const tw_templates[] = {&tw_template_winograd, &tw_template_matmul, &tw_template_window,
						  NULL};

static const struct tw_template *choose(const struct tw_task *task, const struct tw_target *t)
{
	for (int i = 0; tw_templates[i]; i++)
		if (tw_templates[i]->applicable(task, t))
			return tw_templates[i];
	return NULL;
}

const char *tw_schedule_name(const struct tw_task *task, const struct tw_target *t)
{
	if (task->anchor->nprograms)
		return "text";
	if (task->chain || task->loop)
		return task->chain ? "chain" : "loop";
	if (task->rows || task->attention)
		return task->rows ? "rows" : "attention";
	const struct tw_template *chosen = choose(task, t);
	return chosen ? chosen->name : "rule";
}

/* The anchor with its producers inlined: what the rules see, since their choice of lanes looks at every access. */
static struct twir_compute *inlined(const struct tw_task *task)
{
	struct twir_compute *c = ARENA_NEW(task->m->arena, struct twir_compute);
	*c = *task->anchor;
	for (int i = task->nproducers - 1; i >= 0; i--)
		c->value = tw_inline(task->m, c->value, task->producers[i]);
	return c;
}

/* Parameters, simplification and the verifier's word, for each kernel. */
static void finish(struct twir_module *m, struct tw_launch *out)
{
	for (int k = 0; k < out->kernels.n; k++) {
		struct tw_kernel *kernel = &out->kernels.at[k];
		if (kernel->args) /* of a task that a template scheduled on its own */
			continue;
		tw_bind_params(m, kernel->program, kernel);
		twir_simplify_program(m, kernel->program);
		twir_verify_program(m, kernel->program, TW_ERR_INTERNAL);
	}
}

void tw_fuse(const struct tw_task *task, struct twir_program *p)
{
	if (task->consumer)
		tw_fuse_epilogue(task->m, p, task->anchor->out, task->consumer);
	for (int i = task->nproducers - 1; i >= 0; i--)
		tw_fuse_prologue(task->m, p, task->producers[i]);
}

static void fuse(const struct tw_task *task, struct tw_launch *out)
{
	for (int k = 0; k < out->kernels.n; k++)
		tw_fuse(task, out->kernels.at[k].program);
	finish(task->m, out);
}

static const char *describe(struct tw_arena *a, const struct tw_template *template, const struct tw_target *t,
			    const struct tw_point *point)
{
	struct tw_space s = {0};
	struct tw_buf b;
	template->space(a, t, &s);
	buf_init(&b, a);
	buf_puts(&b, template->name);
	for (int i = 0; i < s.nparams; i++)
		buf_printf(&b, " %s=%d", s.names[i], point->value[i]);
	return b.at;
}

void tw_schedule_point(const struct tw_task *task, const struct tw_target *t, const struct tw_template *template,
		       const struct tw_point *point, struct tw_launch *out)
{
	template->build(task, t, point, out);
	for (int k = 0; k < out->kernels.n; k++)
		if (!out->kernels.at[k].schedule)
			out->kernels.at[k].schedule = describe(task->m->arena, template, t, point);
	fuse(task, out);
}

void tw_schedule(const struct tw_task *task, const struct tw_target *t, struct tw_launch *out)
{
	struct twir_module *m = task->m;
	for (int i = 0; i < task->anchor->nprograms; i++) {
		struct twir_program *own = arena_copy(m->arena, task->anchor->programs[i], sizeof(*own));
		struct tw_kernel k = {.program = own, .schedule = "text"};
		vec_push(m->arena, &out->kernels, k);
	}
	if (task->anchor->nprograms) {
		fuse(task, out);
		return;
	}
	if (task->chain || task->loop) {
		(task->chain ? tw_chain_schedule : tw_loop_schedule)(task, t, out);
		finish(m, out);
		return;
	}
	if (task->rows || task->attention) {
		struct tw_kernel k = {.program = task->rows ? tw_rows_schedule(m, task->name, task->rows, t)
							    : tw_attention_schedule(task, t),
				      .schedule = tw_schedule_name(task, t)};
		vec_push(m->arena, &out->kernels, k);
		fuse(task, out);
		return;
	}
	const struct tw_template *chosen = choose(task, t);
	if (!chosen) {
		struct tw_kernel k = {.program = tw_rule_schedule(m, task->name, inlined(task), t), .schedule = "rule"};
		vec_push(m->arena, &out->kernels, k);
		fuse(task, out);
		return;
	}
	struct tw_space s = {0};
	chosen->space(m->arena, t, &s);
	TW_CHECK(s.points.n > 0, "template %s has an empty space", chosen->name);
	const int point = chosen->choose ? chosen->choose(task, t, &s) : 0;
	tw_schedule_point(task, t, chosen, &s.points.at[point], out);
}
