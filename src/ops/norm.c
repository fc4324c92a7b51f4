/* norm.c: normalisation by moments: LayerNormalization, RMSNormalization, InstanceNormalization, GroupNormalization,
 * MeanVarianceNormalization, LpNormalization, LRN.
 *
 * Each is a definition a stage: mean, variance (mean square difference from it) and the result. */
#include "ops/elementwise.h"

#include <inttypes.h>

typedef const struct twir_expr *E;

/* Moments over a set of axes; temporaries keep those axes at size 1. */
struct over {
	struct twir_tensor *t; /* what the moments are of */
	bool gone[TWIR_MAX_RANK];
	E shape[TWIR_MAX_RANK], count;
	enum twir_scalar type;
};

static void set_over(struct tw_opctx *x, struct over *o)
{
	E sizes[TWIR_MAX_RANK];
	int n = 0;
	for (int d = 0; d < o->t->rank; d++) {
		o->shape[d] = o->gone[d] ? twir_index(x->m, 1) : o->t->shape[d];
		if (o->gone[d])
			sizes[n++] = o->t->shape[d];
	}
	o->count = tw_product(x, n, sizes);
}

static E at_moment(struct tw_opctx *x, const struct over *o, struct twir_tensor *moment, E const *i)
{
	E at[TWIR_MAX_RANK];
	for (int d = 0; d < o->t->rank; d++)
		at[d] = o->gone[d] ? twir_index(x->m, 0) : i[d];
	return tw_load(x, moment, o->t->rank, at);
}

/* sum over the axes of fn(value, mean) */
typedef E (*moment_fn)(struct tw_opctx *x, E v, E mean);

static E value(struct tw_opctx *x, E v, E mean)
{
	(void)x;
	(void)mean;
	return v;
}

static E square(struct tw_opctx *x, E v, E mean)
{
	if (mean)
		v = twir_sub(x->m, v, mean);
	return twir_mul(x->m, v, v);
}

static E magnitude(struct tw_opctx *x, E v, E mean)
{
	(void)mean;
	return twir_unary(x->m, TWIR_Abs, v);
}

static struct twir_tensor *moment(struct tw_opctx *x, const struct over *o, const char *name, moment_fn fn,
				  struct twir_tensor *mean, bool divide)
{
	struct twir_tensor *out = tw_temp(x, name, o->type, o->t->rank, o->shape);
	E *i, at[TWIR_MAX_RANK], extent[TWIR_MAX_RANK];
	struct twir_var **axes = tw_axes(x, out, &i), *fold[TWIR_MAX_RANK];
	int n = 0;
	for (int d = 0; d < o->t->rank; d++) {
		at[d] = i[d];
		if (!o->gone[d])
			continue;
		extent[n] = o->t->shape[d];
		fold[n] = tw_fold_axis(x, "k", extent[n]);
		at[d] = twir_var(x->m, fold[n++]);
	}
	const E v = twir_cast(x->m, o->type, tw_load(x, o->t, o->t->rank, at));
	const E body = fn(x, v, mean ? at_moment(x, o, mean, i) : NULL);
	const E sum = n ? twir_fold(x->m, TWIR_Add, n, fold, extent, body) : body;
	tw_define(x, out, axes, divide ? twir_div(x->m, sum, tw_size_as(x, sum, o->count)) : sum);
	return out;
}

/* 1 / sqrt(variance + epsilon) */
static E inverse_deviation(struct tw_opctx *x, E variance, double epsilon)
{
	const E sum = twir_add(x->m, variance, tw_like(x, variance, epsilon));
	return twir_div(x->m, tw_like(x, sum, 1), twir_unary(x->m, TWIR_Sqrt, sum));
}

static double epsilon_of(struct tw_opctx *x)
{
	return (double)tw_attr_float(x->node, "epsilon", 1e-5f);
}

/* ---- LayerNormalization, RMSNormalization: over the last axes, from `axis` on */

static enum twir_scalar stash_type(struct tw_opctx *x)
{
	const int64_t stash = tw_attr_int(x->node, "stash_type", 1);
	if (stash != 1 && stash != 11)
		tw_op_fail(x, TW_ERR_UNSUPPORTED, "stash_type = %" PRId64 "; 1 (float) and 11 (double) are", stash);
	return stash == 11 || tw_in_type(x, 0) == TWIR_F64 ? TWIR_F64 : TWIR_F32;
}

static int layer_axis(struct tw_opctx *x)
{
	return tw_axis(x, tw_attr_int(x->node, "axis", -1), tw_in_rank(x, 0));
}

static void infer_layer(struct tw_opctx *x)
{
	tw_need_type(x, 0, "float");
	E shape[TWIR_MAX_RANK];
	const int rank = tw_in_rank(x, 0), axis = layer_axis(x);
	for (int i = 1; i < x->node->nin; i++) {
		if (!tw_has_in(x, i))
			continue;
		if (tw_in_rank(x, i) > rank)
			tw_op_fail(x, TW_ERR_MODEL, "input %d has a higher rank than input 0", i);
		for (int d = 1; d <= tw_in_rank(x, i); d++)
			if (tw_in_dim(x, i, -d) != twir_index(x->m, 1))
				tw_same_size(x, tw_in_dim(x, i, -d), tw_in_dim(x, 0, -d), "scale or bias");
	}
	const enum twir_scalar stash = stash_type(x);
	tw_infer_same(x);
	for (int d = 0; d < rank; d++)
		shape[d] = d < axis ? tw_in_dim(x, 0, d) : twir_index(x->m, 1);
	tw_set_out(x, 1, stash, rank, shape);
	tw_set_out(x, 2, stash, rank, shape);
}

static void copy_out(struct tw_opctx *x, int output, struct twir_tensor *from, bool inverse)
{
	if (!tw_has_out(x, output))
		return;
	struct twir_tensor *y = tw_y(x, output);
	E *i;
	struct twir_var **axes = tw_axes(x, y, &i);
	const E v = tw_load(x, from, y->rank, i);
	tw_define(x, y, axes, inverse ? inverse_deviation(x, v, epsilon_of(x)) : v);
}

static void layer(struct tw_opctx *x, bool centred)
{
	struct over o = {.t = tw_x(x, 0), .type = stash_type(x)};
	struct twir_tensor *y = tw_y(x, 0), *mean = NULL;
	for (int d = layer_axis(x); d < o.t->rank; d++)
		o.gone[d] = true;
	set_over(x, &o);
	if (centred)
		mean = moment(x, &o, "mean", value, NULL, true);
	struct twir_tensor *variance = moment(x, &o, "variance", square, mean, true);
	E *i;
	struct twir_var **axes = tw_axes(x, y, &i);
	E v = twir_cast(x->m, o.type, tw_load(x, o.t, o.t->rank, i));
	if (centred)
		v = twir_sub(x->m, v, at_moment(x, &o, mean, i));
	v = twir_mul(x->m, v, inverse_deviation(x, at_moment(x, &o, variance, i), epsilon_of(x)));
	v = twir_cast(x->m, tw_compute_type(y->type), v);
	v = twir_mul(x->m, v, twir_cast(x->m, v->type.scalar, tw_operand(x, 1, y->rank, i)));
	if (tw_has_in(x, 2))
		v = twir_add(x->m, v, twir_cast(x->m, v->type.scalar, tw_operand(x, 2, y->rank, i)));
	tw_define(x, y, axes, v);
	if (centred) {
		copy_out(x, 1, mean, false);
		copy_out(x, 2, variance, true);
	}
}

static void compute_layer(struct tw_opctx *x)
{
	layer(x, true);
}

static void compute_rms(struct tw_opctx *x)
{
	layer(x, false);
}

/* ---- InstanceNormalization, GroupNormalization */

static void infer_channels(struct tw_opctx *x)
{
	tw_need_type(x, 0, "float");
	tw_need_same_type(x, 0, 2);
	if (tw_in_rank(x, 0) < 2 || tw_in_rank(x, 1) != 1 || tw_in_rank(x, 2) != 1)
		tw_op_fail(x, TW_ERR_MODEL, "inputs of rank %d, %d and %d", tw_in_rank(x, 0), tw_in_rank(x, 1),
			   tw_in_rank(x, 2));
	tw_infer_same(x);
}

static void infer_instance(struct tw_opctx *x)
{
	infer_channels(x);
	tw_same_size(x, tw_in_dim(x, 1, 0), tw_in_dim(x, 0, 1), "scale and channels");
	tw_same_size(x, tw_in_dim(x, 2, 0), tw_in_dim(x, 0, 1), "bias and channels");
}

static void compute_instance(struct tw_opctx *x)
{
	struct over o = {.t = tw_x(x, 0), .type = tw_compute_type(tw_in_type(x, 0))};
	for (int d = 2; d < o.t->rank; d++)
		o.gone[d] = true;
	set_over(x, &o);
	struct twir_tensor *mean = moment(x, &o, "mean", value, NULL, true),
			   *variance = moment(x, &o, "variance", square, mean, true);
	struct twir_tensor *y = tw_y(x, 0);
	E *i;
	struct twir_var **axes = tw_axes(x, y, &i);
	const E scale = tw_load(x, tw_x(x, 1), 1, i + 1), bias = tw_load(x, tw_x(x, 2), 1, i + 1);
	const E centred = twir_sub(x->m, tw_load(x, o.t, o.t->rank, i), at_moment(x, &o, mean, i));
	const E factor = twir_mul(x->m, scale, inverse_deviation(x, at_moment(x, &o, variance, i), epsilon_of(x)));
	tw_define(x, y, axes, twir_add(x->m, twir_mul(x->m, centred, factor), bias));
}

static int64_t groups_of(struct tw_opctx *x)
{
	const int64_t groups = tw_attr_int(x->node, "num_groups", 0);
	if (groups < 1)
		tw_op_fail(x, TW_ERR_MODEL, "num_groups = %" PRId64, groups);
	return groups;
}

static void infer_group(struct tw_opctx *x)
{
	infer_channels(x);
	const E groups = twir_index(x->m, groups_of(x)), channels = tw_in_dim(x, 0, 1);
	const E wanted = x->node->opset < 21 ? groups : channels;
	tw_same_size(x, twir_mul(x->m, twir_div(x->m, channels, groups), groups), channels, "channels in whole groups");
	tw_same_size(x, tw_in_dim(x, 1, 0), wanted, "scale");
	tw_same_size(x, tw_in_dim(x, 2, 0), wanted, "bias");
	if (tw_in_rank(x, 0) == TWIR_MAX_RANK)
		tw_op_fail(x, TW_ERR_UNSUPPORTED, "input of rank %d", TWIR_MAX_RANK);
}

static void compute_group(struct tw_opctx *x)
{
	struct twir_module *m = x->m;
	struct twir_tensor *t = tw_x(x, 0), *y = tw_y(x, 0);
	const E groups = twir_index(m, groups_of(x)), size = tw_simplify(x, twir_div(m, t->shape[1], groups));
	const enum twir_scalar type = tw_compute_type(t->type);
	E split[TWIR_MAX_RANK] = {t->shape[0], groups, size}, *i, at[TWIR_MAX_RANK];
	for (int d = 2; d < t->rank; d++)
		split[d + 1] = t->shape[d];
	struct twir_tensor *view = tw_temp(x, "groups", type, t->rank + 1, split);
	struct twir_var **axes = tw_axes(x, view, &i);
	tw_reindex(x, t->rank + 1, split, i, t->rank, t->shape, at);
	tw_define(x, view, axes, tw_load(x, t, t->rank, at));
	struct over o = {.t = view, .type = type};
	for (int d = 2; d <= t->rank; d++)
		o.gone[d] = true;
	set_over(x, &o);
	struct twir_tensor *mean = moment(x, &o, "mean", value, NULL, true),
			   *variance = moment(x, &o, "variance", square, mean, true);
	axes = tw_axes(x, y, &i);
	const E group = tw_simplify(x, twir_div(m, i[1], size));
	E of[TWIR_MAX_RANK] = {i[0], group};
	for (int d = 2; d <= t->rank; d++)
		of[d] = twir_index(m, 0);
	const E channel = x->node->opset < 21 ? group : i[1];
	const E scale = tw_load(x, tw_x(x, 1), 1, &channel), bias = tw_load(x, tw_x(x, 2), 1, &channel);
	const E centred = twir_sub(m, tw_load(x, t, t->rank, i), tw_load(x, mean, t->rank + 1, of));
	const E factor = twir_mul(m, scale, inverse_deviation(x, tw_load(x, variance, t->rank + 1, of), epsilon_of(x)));
	tw_define(x, y, axes, twir_add(m, twir_mul(m, centred, factor), bias));
}

/* ---- MeanVarianceNormalization */

static void mvn_axes(struct tw_opctx *x, struct over *o)
{
	static const int64_t usual[] = {0, 2, 3};
	const int64_t *list;
	int n = tw_attr_ints(x->node, "axes", &list);
	if (n < 0) {
		list = usual;
		n = 3;
	}
	for (int k = 0; k < n; k++)
		o->gone[tw_axis(x, list[k], tw_in_rank(x, 0))] = true;
}

static void infer_mvn(struct tw_opctx *x)
{
	struct over o = {0};
	tw_need_type(x, 0, "float");
	mvn_axes(x, &o);
	tw_infer_same(x);
}

static void compute_mvn(struct tw_opctx *x)
{
	struct over o = {.t = tw_x(x, 0), .type = tw_compute_type(tw_in_type(x, 0))};
	mvn_axes(x, &o);
	set_over(x, &o);
	struct twir_tensor *mean = moment(x, &o, "mean", value, NULL, true),
			   *variance = moment(x, &o, "variance", square, mean, true);
	struct twir_tensor *y = tw_y(x, 0);
	E *i;
	struct twir_var **axes = tw_axes(x, y, &i);
	const E centred = twir_sub(x->m, tw_load(x, o.t, o.t->rank, i), at_moment(x, &o, mean, i));
	const E deviation = twir_unary(x->m, TWIR_Sqrt, at_moment(x, &o, variance, i));
	tw_define(x, y, axes, twir_div(x->m, centred, twir_add(x->m, deviation, tw_like(x, deviation, 1e-9))));
}

/* ---- LpNormalization: a norm of 0 leaves zeros */

static void infer_lp(struct tw_opctx *x)
{
	const int64_t p = tw_attr_int(x->node, "p", 2);
	tw_need_type(x, 0, "float");
	if (p != 1 && p != 2)
		tw_op_fail(x, TW_ERR_MODEL, "p = %" PRId64 " is neither 1 nor 2", p);
	layer_axis(x);
	tw_infer_same(x);
}

static void compute_lp(struct tw_opctx *x)
{
	struct over o = {.t = tw_x(x, 0), .type = tw_compute_type(tw_in_type(x, 0))};
	const bool squares = tw_attr_int(x->node, "p", 2) == 2;
	o.gone[layer_axis(x)] = true;
	set_over(x, &o);
	struct twir_tensor *sum = moment(x, &o, "sum", squares ? square : magnitude, NULL, false), *y = tw_y(x, 0);
	E *i;
	struct twir_var **axes = tw_axes(x, y, &i);
	E norm = at_moment(x, &o, sum, i);
	if (squares)
		norm = twir_unary(x->m, TWIR_Sqrt, norm);
	const E v = tw_load(x, o.t, o.t->rank, i), zero = tw_like(x, norm, 0);
	tw_define(x, y, axes, twir_select(x->m, twir_eq(x->m, norm, zero), zero, twir_div(x->m, v, norm)));
}

/* ---- LRN: over a window of channels */

static void infer_lrn(struct tw_opctx *x)
{
	tw_need_type(x, 0, "float");
	if (tw_in_rank(x, 0) < 2 || tw_attr_int(x->node, "size", 0) < 1 || tw_attr_int(x->node, "size", 0) > 1 << 20)
		tw_op_fail(x, TW_ERR_MODEL, "size = %" PRId64 " on an input of rank %d",
			   tw_attr_int(x->node, "size", 0), tw_in_rank(x, 0));
	tw_infer_same(x);
}

static void compute_lrn(struct tw_opctx *x)
{
	struct twir_module *m = x->m;
	struct twir_tensor *t = tw_x(x, 0), *y = tw_y(x, 0);
	const int64_t size = tw_attr_int(x->node, "size", 1);
	const E extent = twir_index(m, size);
	E *i, at[TWIR_MAX_RANK];
	struct twir_var **axes = tw_axes(x, y, &i), *k = tw_fold_axis(x, "k", extent);
	for (int d = 0; d < t->rank; d++)
		at[d] = i[d];
	at[1] = twir_sub(m, twir_add(m, i[1], twir_var(m, k)), twir_index(m, (size - 1) / 2));
	const E v = tw_load(x, t, t->rank, at), zero = tw_like(x, v, 0);
	const E inside = twir_and(m, twir_le(m, twir_index(m, 0), at[1]), twir_lt(m, at[1], t->shape[1]));
	const E sum = twir_fold(m, TWIR_Add, 1, &k, &extent, twir_cond(m, inside, twir_mul(m, v, v), zero));
	const double alpha = (double)tw_attr_float(x->node, "alpha", 1e-4f),
		     beta = (double)tw_attr_float(x->node, "beta", 0.75f);
	const E base = twir_add(m, tw_like(x, sum, (double)tw_attr_float(x->node, "bias", 1)),
				twir_mul(m, tw_like(x, sum, alpha / (double)size), sum));
	const E args[] = {base, tw_like(x, sum, beta)};
	tw_define(x, y, axes, twir_div(m, tw_load(x, t, t->rank, i), twir_math(m, "pow", 2, args)));
}

#define A_AXIS                                                                                                         \
	{                                                                                                              \
		"axis", TW_ATTR_INT, false                                                                             \
	}
#define A_EPSILON                                                                                                      \
	{                                                                                                              \
		"epsilon", TW_ATTR_FLOAT, false                                                                        \
	}
#define A_STASH                                                                                                        \
	{                                                                                                              \
		"stash_type", TW_ATTR_INT, false                                                                       \
	}

static const struct tw_attr_spec attrs_layer[] = {A_AXIS, A_EPSILON, A_STASH, {NULL}};
static const struct tw_attr_spec attrs_epsilon[] = {A_EPSILON, {NULL}};
static const struct tw_attr_spec attrs_group[] = {A_EPSILON, A_STASH, {"num_groups", TW_ATTR_INT, true}, {NULL}};
static const struct tw_attr_spec attrs_axes[] = {{"axes", TW_ATTR_INTS, false}, {NULL}};
static const struct tw_attr_spec attrs_lp[] = {A_AXIS, {"p", TW_ATTR_INT, false}, {NULL}};
static const struct tw_attr_spec attrs_lrn[] = {{"alpha", TW_ATTR_FLOAT, false},
						{"beta", TW_ATTR_FLOAT, false},
						{"bias", TW_ATTR_FLOAT, false},
						{"size", TW_ATTR_INT, true},
						{NULL}};

#define FN(name) .infer = infer_##name, .compute = compute_##name

const struct tw_op tw_ops_norm[] = {
	{.name = "LayerNormalization", .since = 17, .in = {2, 3}, .out = {1, 3}, .attrs = attrs_layer, FN(layer)},
	{.name = "RMSNormalization",
	 .since = 23,
	 .in = {2, 2},
	 .out = {1, 1},
	 .attrs = attrs_layer,
	 .infer = infer_layer,
	 .compute = compute_rms},
	{.name = "InstanceNormalization",
	 .since = 6,
	 .in = {3, 3},
	 .out = {1, 1},
	 .attrs = attrs_epsilon,
	 FN(instance)},
	{.name = "GroupNormalization", .since = 18, .in = {3, 3}, .out = {1, 1}, .attrs = attrs_group, FN(group)},
	{.name = "MeanVarianceNormalization", .since = 9, .in = {1, 1}, .out = {1, 1}, .attrs = attrs_axes, FN(mvn)},
	{.name = "LpNormalization", .since = 1, .in = {1, 1}, .out = {1, 1}, .attrs = attrs_lp, FN(lp)},
	{.name = "LRN", .since = 1, .in = {1, 1}, .out = {1, 1}, .attrs = attrs_lrn, FN(lrn)},
	{0},
};
