/* Conv + BatchNormalization -> Conv, and the same for sums, differences, products and quotients with constants of one element, or of one for each channel: weights
 * and bias are scaled and shifted in f64 and rounded once. Needs: constant f32 weights, bias and constants; the convolution's result used once. */
#include "opt/opt.h"

#include <math.h>

/* What becomes of channel c: scale[c] * x + shift[c]. */
struct affine {
	int64_t channels;
	double *scale, *shift;
};

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

static bool of_batchnorm(const struct tw_graph *g, const struct tw_node *norm, struct affine *f)
{
	const float *stat[4]; /* scale, B, mean, var */
	if (norm->nin < 5 || tw_attr_int(norm, "training_mode", 0) != 0)
		return false;
	for (int i = 1; i < norm->nout; i++)
		if (norm->out[i] != TW_NONE)
			return false;
	for (int i = 0; i < 4; i++)
		if (!(stat[i] = constant_f32(g, norm->in[i + 1], f->channels)))
			return false;
	const double epsilon = tw_attr_float(norm, "epsilon", 1e-5f);
	for (int64_t c = 0; c < f->channels; c++) {
		f->scale[c] = stat[0][c] / sqrt((double)stat[3][c] + epsilon);
		f->shift[c] = stat[1][c] - stat[2][c] * f->scale[c];
	}
	return true;
}

/* Does constant t stretch over a tensor of that rank as one number, or as one for each channel? step: from one channel to the next. */
static const float *per_channel(const struct tw_graph *g, tw_id t, int rank, int64_t channels, int *step)
{
	int64_t dims[TWIR_MAX_RANK], elements = 1;
	const int own = g->tensors.at[t].rank;
	if (own < 0 || own > rank || !tw_graph_static(g, t, dims))
		return NULL;
	for (int d = 0; d < own; d++) {
		elements *= dims[d];
		if (dims[d] != 1 && (d + rank - own != 1 || dims[d] != channels))
			return NULL;
	}
	*step = elements > 1;
	return constant_f32(g, t, elements);
}

static bool of_constant(const struct tw_graph *g, const struct tw_node *n, tw_id conv, int rank, struct affine *f)
{
	const bool product = is_op(n, "Mul"), quotient = is_op(n, "Div"), difference = is_op(n, "Sub");
	int step = 0;
	if (!product && !quotient && !difference && !is_op(n, "Add"))
		return false;
	const bool second = n->nin == 2 && n->in[0] == conv;
	if (n->nin != 2 || n->in[0] == n->in[1] || (quotient && !second))
		return false;
	const float *by = per_channel(g, n->in[second], rank, f->channels, &step);
	for (int64_t c = 0; by && c < f->channels; c++) {
		const double k = by[c * step];
		f->scale[c] = product ? k : quotient ? 1 / k : difference && !second ? -1 : 1;
		f->shift[c] = product || quotient ? 0 : difference && second ? -k : k;
	}
	return by != NULL;
}

static bool fold(struct tw_graph *g, tw_id conv_id, tw_id next_id)
{
	struct tw_node *conv = &g->nodes.at[conv_id], *next = &g->nodes.at[next_id];
	int64_t wd[TWIR_MAX_RANK];
	if (conv->nin < 2 || !tw_graph_static(g, conv->in[1], wd))
		return false;
	const int rank = g->tensors.at[conv->in[1]].rank;
	const int64_t channels = wd[0], per = channels ? g->tensors.at[conv->in[1]].bytes / 4 / channels : 0;
	const float *w = constant_f32(g, conv->in[1], channels * per);
	const bool has_bias = conv->nin > 2 && conv->in[2] != TW_NONE;
	const float *bias = has_bias ? constant_f32(g, conv->in[2], channels) : NULL;
	struct affine f = {channels, ARENA_ARRAY(g->arena, double, channels), ARENA_ARRAY(g->arena, double, channels)};
	if (!w || (has_bias && !bias) || channels == 0 ||
	    !(is_op(next, "BatchNormalization") ? of_batchnorm(g, next, &f)
						: of_constant(g, next, conv->out[0], rank, &f)))
		return false;
	for (int64_t c = 0; c < channels; c++)
		if (!isfinite(f.scale[c]) || !isfinite(f.shift[c]))
			return false;
	float *nw = ARENA_ARRAY(g->arena, float, channels *per), *nb = ARENA_ARRAY(g->arena, float, channels);
	for (int64_t c = 0; c < channels; c++) {
		for (int64_t k = 0; k < per; k++)
			nw[c * per + k] = (float)(w[c * per + k] * f.scale[c]);
		nb[c] = (float)((bias ? bias[c] : 0.0) * f.scale[c] + f.shift[c]);
	}
	const tw_id in[3] = {conv->in[0], tw_graph_constant(g, "folded_weight", TWIR_F32, rank, wd, nw),
			     tw_graph_constant(g, "folded_bias", TWIR_F32, 1, wd, nb)};
	conv = &g->nodes.at[conv_id];
	next = &g->nodes.at[next_id];
	conv->in = arena_copy(g->arena, in, sizeof(in));
	conv->nin = 3;
	/* The convolution takes the other's place: its output, in its position, and both names. */
	conv->out[0] = next->out[0];
	conv->name = arena_printf(g->arena, "%s+%s", conv->name, next->name);
	g->tensors.at[next->out[0]].producer = next_id;
	*next = *conv;
	g->nodes.at[conv_id].dead = true;
	return true;
}

void opt_fold_affine(struct tw_graph *g)
{
	int *uses = ARENA_ARRAY(g->arena, int, g->tensors.n);
	tw_graph_uses(g, uses);
	for (int i = 0; i < g->nodes.n; i++)
		for (int k = 0; k < g->nodes.at[i].nin && k < 2; k++) {
			const tw_id x = g->nodes.at[i].in[k];
			const tw_id producer =
				x == TW_NONE || g->nodes.at[i].dead ? TW_NONE : g->tensors.at[x].producer;
			if (producer != TW_NONE && (k == 0 || !is_op(&g->nodes.at[i], "BatchNormalization")) &&
			    uses[x] == 1 && is_op(&g->nodes.at[producer], "Conv") && fold(g, producer, (tw_id)i))
				break;
		}
}
