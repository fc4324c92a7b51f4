/* A convolution, transposed or not, and a run of nodes behind it that scale and shift each channel become one convolution: BatchNormalization, and sums, differences,
 * products and quotients with constants of one element, or of one for each channel. What the whole run does to a channel is computed in f64, and weights and bias
 * are rounded once. Identities between them do not count. Needs: constant f32 weights, bias and constants; results within the run used once. */
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

/* What node n makes of x, channel by channel; false: something else. */
static bool affine_of(const struct tw_graph *g, const struct tw_node *n, tw_id x, int rank, struct affine *f)
{
	if (is_op(n, "Identity")) {
		for (int64_t c = 0; c < f->channels; c++) {
			f->scale[c] = 1;
			f->shift[c] = 0;
		}
		return true;
	}
	return is_op(n, "BatchNormalization") ? n->in[0] == x && of_batchnorm(g, n, f) : of_constant(g, n, x, rank, f);
}

/* after is what happens behind `all`; false: not in finite numbers. */
static bool append(struct affine *all, const struct affine *after)
{
	for (int64_t c = 0; c < all->channels; c++)
		if (!isfinite(all->scale[c] * after->scale[c]) ||
		    !isfinite(all->shift[c] * after->scale[c] + after->shift[c]))
			return false;
	for (int64_t c = 0; c < all->channels; c++) {
		all->scale[c] *= after->scale[c];
		all->shift[c] = all->shift[c] * after->scale[c] + after->shift[c];
	}
	return true;
}

/* A convolution's weights: element k of them makes channel of_element(..). */
struct weights {
	int64_t channels, elements;
	int64_t taps; /* of one input channel and one of the result */
	int64_t across,
		depth; /* transposed: result channels of a group, and input channels; across == 0: not transposed */
};

static bool look_at(const struct tw_graph *g, const struct tw_node *conv, struct weights *w)
{
	int64_t d[TWIR_MAX_RANK];
	const bool transposed = is_op(conv, "ConvTranspose");
	if (conv->nin < 2 || !(transposed || is_op(conv, "Conv")) || !tw_graph_static(g, conv->in[1], d))
		return false;
	const int rank = g->tensors.at[conv->in[1]].rank;
	const int64_t group = tw_attr_int(conv, "group", 1);
	if (rank < 3 || group < 1)
		return false;
	*w = (struct weights){.channels = transposed ? d[1] * group : d[0], .elements = d[0] * d[1], .taps = 1};
	for (int i = 2; i < rank; i++)
		w->taps *= d[i];
	w->elements *= w->taps;
	w->across = transposed ? d[1] : 0;
	w->depth = transposed ? d[0] / group : 0;
	return w->elements > 0 && (!transposed || w->depth > 0);
}

static int64_t of_element(const struct weights *w, int64_t k)
{
	if (!w->across)
		return k / (w->elements / w->channels);
	const int64_t row = k / w->taps; /* input channel, result channel of the group */
	return row / w->across / w->depth * w->across + row % w->across;
}

static struct affine new_affine(struct tw_graph *g, int64_t channels)
{
	struct affine f = {channels, ARENA_ARRAY(g->arena, double, channels), ARENA_ARRAY(g->arena, double, channels)};
	for (int64_t c = 0; c < channels; c++) {
		f.scale[c] = 1;
		f.shift[c] = 0;
	}
	return f;
}

/* The run of nodes behind convolution `id`, of which next[tensor] is the only one that takes a tensor: *last, and what they do in all. */
static bool find_run(struct tw_graph *g, tw_id id, const tw_id *next, int64_t channels, tw_id *last, struct affine *all)
{
	const int rank = g->tensors.at[g->nodes.at[id].in[1]].rank;
	struct affine one = new_affine(g, channels);
	tw_id x = g->nodes.at[id].out[0];
	*last = TW_NONE;
	while (next[x] != TW_NONE) {
		const struct tw_node *n = &g->nodes.at[next[x]];
		if (!affine_of(g, n, x, rank, &one) || !append(all, &one))
			break;
		if (!is_op(n, "Identity"))
			*last = next[x];
		x = n->out[0];
	}
	return *last != TW_NONE;
}

static void fold(struct tw_graph *g, tw_id id, const tw_id *next)
{
	struct weights s;
	tw_id last;
	if (!look_at(g, &g->nodes.at[id], &s))
		return;
	struct tw_node conv = g->nodes.at[id];
	struct affine all = new_affine(g, s.channels);
	if (!find_run(g, id, next, s.channels, &last, &all))
		return;
	const bool has_bias = conv.nin > 2 && conv.in[2] != TW_NONE;
	const float *bias = has_bias ? constant_f32(g, conv.in[2], s.channels) : NULL;
	const float *w = constant_f32(g, conv.in[1], s.elements);
	if (!w || (has_bias && !bias))
		return;
	float *nw = ARENA_ARRAY(g->arena, float, s.elements), *nb = ARENA_ARRAY(g->arena, float, s.channels);
	for (int64_t k = 0; k < s.elements; k++)
		nw[k] = (float)(w[k] * all.scale[of_element(&s, k)]);
	for (int64_t c = 0; c < s.channels; c++)
		nb[c] = (float)((bias ? bias[c] : 0.0) * all.scale[c] + all.shift[c]);
	int64_t dims[TWIR_MAX_RANK];
	const int rank = g->tensors.at[conv.in[1]].rank;
	tw_graph_static(g, conv.in[1], dims);
	const tw_id in[3] = {conv.in[0], tw_graph_constant(g, "folded_weight", TWIR_F32, rank, dims, nw),
			     tw_graph_constant(g, "folded_bias", TWIR_F32, 1, &s.channels, nb)};
	conv.in = arena_copy(g->arena, in, sizeof(in));
	conv.nin = 3;
	/* The convolution takes the place of the run's last node: its output, in its position, and all names. */
	for (tw_id at = id; at != last;) {
		const tw_id after = next[g->nodes.at[at].out[0]];
		g->nodes.at[at].dead = true;
		if (!is_op(&g->nodes.at[after], "Identity"))
			conv.name = arena_printf(g->arena, "%s+%s", conv.name, g->nodes.at[after].name);
		at = after;
	}
	conv.out = arena_copy(g->arena, conv.out, sizeof(*conv.out) * (size_t)conv.nout);
	conv.out[0] = g->nodes.at[last].out[0];
	g->tensors.at[conv.out[0]].producer = last;
	g->nodes.at[last] = conv;
}

void opt_fold_affine(struct tw_graph *g)
{
	const int known = g->tensors.n;
	int *uses = ARENA_ARRAY(g->arena, int, known);
	tw_id *next = ARENA_ARRAY(g->arena, tw_id, known);
	tw_graph_uses(g, uses);
	for (int t = 0; t < known; t++)
		next[t] = TW_NONE;
	for (int i = 0; i < g->nodes.n; i++)
		for (int k = 0; k < g->nodes.at[i].nin && k < 2 && !g->nodes.at[i].dead; k++) {
			const tw_id x = g->nodes.at[i].in[k];
			if (x != TW_NONE && uses[x] == 1)
				next[x] = (tw_id)i;
		}
	for (int i = 0; i < g->nodes.n; i++)
		if (!g->nodes.at[i].dead)
			fold(g, (tw_id)i, next);
}
