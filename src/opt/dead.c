/* Removes nodes whose outputs nothing needs. */
#include "opt/opt.h"

void opt_remove_dead(struct tw_graph *g)
{
	int *uses = ARENA_ARRAY(g->arena, int, g->tensors.n);
	tw_graph_uses(g, uses);
	for (int i = g->nodes.n - 1; i >= 0; i--) {
		struct tw_node *n = &g->nodes.at[i];
		bool needed = false;
		for (int k = 0; k < n->nout; k++)
			needed |= n->out[k] != TW_NONE && uses[n->out[k]] > 0;
		if (n->dead || needed)
			continue;
		n->dead = true;
		for (int k = 0; k < n->nin; k++)
			if (n->in[k] != TW_NONE)
				uses[n->in[k]]--;
	}
}
