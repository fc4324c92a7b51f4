/* Makes the graph's tensors outputs, as far as the steps of a run write them: behind the model's own outputs, in the
 * order of the graph, the model's own among them again. Grouping is done by then, so nothing but where results lie
 * changes: a run that keeps its tensors computes what any other run does. */
#include "compile/compile_int.h"

static void gather(struct twc *c, struct tw_map *made)
{
	for (int i = 0; i < c->groups.list.n; i++) {
		const struct tw_group *g = c->groups.list.at[i];
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
	c->nkept = g->outputs.n - own;
}
