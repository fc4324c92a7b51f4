/* Makes the graph's tensors outputs, as far as the steps of a run write them: behind the model's own outputs, in the
 * order of the graph, the model's own among them again. Grouping is done by then, so nothing but where results lie
 * changes: a run that keeps its tensors computes what any other run does. */
#include "compile/compile_int.h"

/* Tensors inside a loop or branch come to be many times or not at all: only what marks hand out of them is kept. */
static void gather(struct twc *c, struct tw_map *made)
{
	int depth = 0;
	for (int i = 0; i < c->groups.list.n; i++) {
		const struct tw_group *g = c->groups.list.at[i];
		depth -= g->mark && (g->mark->kind == TW_MARK_NEXT || g->mark->kind == TW_MARK_END);
		const bool inside = depth > 0;
		depth += g->mark && (g->mark->kind == TW_MARK_LOOP || g->mark->kind == TW_MARK_IF);
		if (inside)
			continue;
		for (int k = 0; k < g->launch.kernels.n; k++) {
			const struct tw_kernel *kernel = &g->launch.kernels.at[k];
			for (int a = kernel->nargs - kernel->nout; a < kernel->nargs; a++)
				map_set_ptr(made, kernel->args[a], made);
		}
		const struct tw_node *n = &c->g->nodes.at[g->node];
		for (int k = 0; !g->task.anchor && k < n->nout; k++)
			if (n->out[k] != TW_NONE)
				map_set_ptr(made, tw_graph_ir(c->g, n->out[k]), made);
	}
}

/* A task that copies t into a row-major tensor. */
static struct tw_group *copy_of(struct twc *c, const struct tw_group *g, struct twir_tensor *t)
{
	struct twir_compute *copy = ARENA_NEW(c->arena, struct twir_compute);
	const struct twir_expr *at[TWIR_MAX_RANK];
	copy->out = twir_tensor_new(c->m, t->base, t->type, t->rank, t->shape, TWIR_TENSOR);
	copy->axes = ARENA_ARRAY(c->arena, struct twir_var *, t->rank);
	for (int d = 0; d < t->rank; d++) {
		copy->axes[d] = twir_var_new(c->m, TWIR_AXIS, twir_scalar_type(TWIR_INDEX), "i");
		at[d] = twir_var(c->m, copy->axes[d]);
	}
	copy->value = twir_load(c->m, t, t->rank, at);
	struct tw_group *made = ARENA_NEW(c->arena, struct tw_group);
	made->node = g->node;
	made->label = arena_printf(c->arena, "keep %s", g->label);
	made->task =
		(struct tw_task){.m = c->m, .name = arena_printf(c->arena, "keep_%s", g->task.name), .anchor = copy};
	return made;
}

void twc_keep_row_major(struct twc *c)
{
	struct tw_groups all = c->groups;
	memset(&all.list, 0, sizeof(all.list));
	for (int i = 0; i < c->groups.list.n; i++) {
		struct tw_group *g = c->groups.list.at[i];
		const struct twir_compute *last = g->task.consumer ? g->task.consumer : g->task.anchor;
		const uintptr_t id =
			last && last->out->layout ? (uintptr_t)map_get_ptr(&c->definitions.tensor, last->out) : 0;
		vec_push(c->arena, &all.list, g);
		if (!id)
			continue;
		struct tw_group *copy = copy_of(c, g, last->out);
		c->g->tensors.at[id - 1].ir = copy->task.anchor->out;
		vec_push(c->arena, &all.list, copy);
	}
	c->groups = all;
}

void twc_keep(struct twc *c)
{
	struct tw_graph *g = c->g;
	struct tw_map made;
	map_init(&made, c->arena);
	gather(c, &made);
	const int own = g->outputs.n;
	for (int i = 0; i < g->nodes.n; i++) {
		const struct tw_node *n = &g->nodes.at[i];
		for (int k = 0; twc_is_of_model(n) && k < n->nout; k++) {
			const tw_id t = n->out[k];
			if (t == TW_NONE || !g->tensors.at[t].name[0] || !g->tensors.at[t].ir ||
			    !map_get_ptr(&made, g->tensors.at[t].ir))
				continue;
			vec_push(g->arena, &g->outputs, t);
		}
	}
	for (int i = 0; i < own; i++) { /* outputs that a loop or branch hands out, which is no node of the model's */
		bool kept = false;
		for (int k = own; k < g->outputs.n; k++)
			kept |= g->outputs.at[k] == g->outputs.at[i];
		if (!kept && g->tensors.at[g->outputs.at[i]].producer != TW_NONE)
			vec_push(g->arena, &g->outputs, g->outputs.at[i]);
	}
	c->nkept = g->outputs.n - own;
}
