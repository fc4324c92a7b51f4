/* Conv + BatchNormalization -> Conv. Needs: constant f32 weights, bias and statistics; the convolution's result used once. */
#include "opt/opt.h"

#include <math.h>

static const float *constant_f32(const struct tw_graph *g, tw_id t, int64_t elements)
{
	const struct tw_tensor *x = t == TW_NONE ? NULL : &g->tensors.at[t];
	if (!x || !x->data || x->type != TWIR_F32 || x->bytes != elements * 4)
		return NULL;
	/* a large constant lies wherever the model file put it */
	return (uintptr_t)x->data % sizeof(float) ? arena_copy(g->arena, x->data, (size_t)x->bytes) : x->data;
}

static bool is_op(const struct tw_node *n, const char *name)
{
	return !n->dead && strcmp(n->op->name, name) == 0 && (!n->op->domain || !n->op->domain[0]);
}

static bool fold(struct tw_graph *g, tw_id conv_id, tw_id norm_id)
{
	struct tw_node *conv = &g->nodes.at[conv_id], *norm = &g->nodes.at[norm_id];
	int64_t wd[TWIR_MAX_RANK];
	if (conv->nin < 2 || norm->nin < 5 || tw_attr_int(norm, "training_mode", 0) != 0 ||
	    !tw_graph_static(g, conv->in[1], wd))
		return false;
	for (int i = 1; i < norm->nout; i++)
		if (norm->out[i] != TW_NONE)
			return false;
	const int64_t channels = wd[0], per = channels ? g->tensors.at[conv->in[1]].bytes / 4 / channels : 0;
	const float *w = constant_f32(g, conv->in[1], channels * per);
	const bool has_bias = conv->nin > 2 && conv->in[2] != TW_NONE;
	const float *bias = has_bias ? constant_f32(g, conv->in[2], channels) : NULL;
	const float *stat[4]; /* scale, B, mean, var */
	for (int i = 0; i < 4; i++)
		if (!(stat[i] = constant_f32(g, norm->in[i + 1], channels)))
			return false;
	if (!w || (has_bias && !bias) || channels == 0)
		return false;
	const double epsilon = tw_attr_float(norm, "epsilon", 1e-5f);
	float *nw = ARENA_ARRAY(g->arena, float, channels *per), *nb = ARENA_ARRAY(g->arena, float, channels);
	for (int64_t c = 0; c < channels; c++) {
		const double factor = stat[0][c] / sqrt((double)stat[3][c] + epsilon);
		for (int64_t k = 0; k < per; k++)
			nw[c * per + k] = (float)(w[c * per + k] * factor);
		nb[c] = (float)(((bias ? bias[c] : 0.0) - stat[2][c]) * factor + stat[1][c]);
	}
	const int rank = g->tensors.at[conv->in[1]].rank;
	const tw_id in[3] = {conv->in[0], tw_graph_constant(g, "folded_weight", TWIR_F32, rank, wd, nw),
			     tw_graph_constant(g, "folded_bias", TWIR_F32, 1, wd, nb)};
	conv = &g->nodes.at[conv_id];
	norm = &g->nodes.at[norm_id];
	conv->in = arena_copy(g->arena, in, sizeof(in));
	conv->nin = 3;
	/* The convolution takes the normalisation's place: its output, in its position, and both names. */
	conv->out[0] = norm->out[0];
	conv->name = arena_printf(g->arena, "%s+%s", conv->name, norm->name);
	g->tensors.at[norm->out[0]].producer = norm_id;
	*norm = *conv;
	g->nodes.at[conv_id].dead = true;
	return true;
}

void opt_fold_batchnorm(struct tw_graph *g)
{
	int *uses = ARENA_ARRAY(g->arena, int, g->tensors.n);
	tw_graph_uses(g, uses);
	for (int i = 0; i < g->nodes.n; i++) {
		const struct tw_node *norm = &g->nodes.at[i];
		if (!is_op(norm, "BatchNormalization") || norm->in[0] == TW_NONE)
			continue;
		const tw_id x = norm->in[0], producer = g->tensors.at[x].producer;
		if (producer == TW_NONE || uses[x] != 1 || !is_op(&g->nodes.at[producer], "Conv"))
			continue;
		fold(g, producer, (tw_id)i);
	}
}
