/* batchnorm.c: BatchNormalization: Y = X * a[c] + b[c], with a and b from scale, bias, mean and variance of the
 * channel.
 *
 * With constant parameters a and b are tables made here, in double precision; else they are definitions. In
 * training mode mean and variance are those of the batch, and the running ones are outputs. */
#include "ops/elementwise.h"

#include <math.h>

typedef const struct twir_expr *E;

static bool training(struct tw_opctx *x)
{
	return tw_attr_int(x->node, "training_mode", 0) != 0;
}

static void infer(struct tw_opctx *x)
{
	tw_need_type(x, 0, "float");
	for (int i = 1; i < 5; i++) {
		tw_need_type(x, i, "float");
		if (tw_in_rank(x, i) != 1)
			tw_op_fail(x, TW_ERR_UNSUPPORTED, "parameters of rank %d; one value a channel is supported",
				   tw_in_rank(x, i));
	}
	const int rank = tw_in_rank(x, 0);
	if (rank < 1)
		tw_op_fail(x, TW_ERR_MODEL, "input of rank %d", rank);
	const E channels = rank > 1 ? tw_in_dim(x, 0, 1) : twir_index(x->m, 1);
	for (int i = 1; i < 5; i++)
		tw_same_size(x, tw_in_dim(x, i, 0), channels, "parameters and channels");
	if (x->node->opset < 7 && !tw_attr_int(x->node, "is_test", 0))
		tw_op_fail(x, TW_ERR_UNSUPPORTED, "training mode (is_test = 0)");
	if (tw_attr_int(x->node, "spatial", 1) != 1)
		tw_op_fail(x, TW_ERR_UNSUPPORTED, "spatial = 0");
	tw_infer_same(x);
	const bool more = training(x) && x->node->opset >= 14;
	for (int i = 1; i < x->node->nout; i++) {
		if (!tw_has_out(x, i))
			continue;
		if (!more || i > 2)
			tw_op_fail(x, TW_ERR_UNSUPPORTED, "output %d, which is for training", i);
		tw_set_out(x, i, tw_in_type(x, 2 + i), 1, &channels);
	}
}

static double epsilon(struct tw_opctx *x)
{
	return (double)tw_attr_float(x->node, "epsilon", 1e-5f);
}

/* a and b as constants; false when a parameter is none */
static bool constant_factors(struct tw_opctx *x, enum twir_scalar type, struct twir_tensor *factors[2])
{
	const double *p[5];
	int n = 0;
	for (int i = 1; i < 5; i++) {
		n = tw_in_floats(x, i, &p[i]);
		if (n < 0)
			return false;
	}
	float *narrow[2] = {ARENA_ARRAY(x->arena, float, n), ARENA_ARRAY(x->arena, float, n)};
	double *wide[2] = {ARENA_ARRAY(x->arena, double, n), ARENA_ARRAY(x->arena, double, n)};
	for (int c = 0; c < n; c++) {
		wide[0][c] = p[1][c] / sqrt(p[4][c] + epsilon(x));
		wide[1][c] = p[2][c] - p[3][c] * wide[0][c];
		narrow[0][c] = (float)wide[0][c];
		narrow[1][c] = (float)wide[1][c];
	}
	const int64_t dims[] = {n};
	for (int k = 0; k < 2; k++)
		factors[k] = tw_table(x, k ? "shift" : "scale", type, 1, dims,
				      type == TWIR_F64 ? (const void *)wide[k] : (const void *)narrow[k]);
	return true;
}

/* Mean, then mean square difference from it, of each channel over batch and space. */
static struct twir_tensor *batch_statistic(struct tw_opctx *x, enum twir_scalar type, struct twir_tensor *mean)
{
	struct twir_tensor *t = tw_x(x, 0);
	const E channels = t->rank > 1 ? t->shape[1] : twir_index(x->m, 1);
	struct twir_tensor *out = tw_temp(x, mean ? "variance" : "mean", type, 1, &channels);
	E *i, at[TWIR_MAX_RANK], extent[TWIR_MAX_RANK];
	struct twir_var **axes = tw_axes(x, out, &i), *fold[TWIR_MAX_RANK];
	int n = 0;
	for (int d = 0; d < t->rank; d++) {
		if (d == 1) {
			at[d] = i[0];
			continue;
		}
		extent[n] = t->shape[d];
		fold[n] = tw_fold_axis(x, "k", extent[n]);
		at[d] = twir_var(x->m, fold[n++]);
	}
	E v = twir_cast(x->m, type, tw_load(x, t, t->rank, at));
	if (mean) {
		v = twir_sub(x->m, v, tw_load(x, mean, 1, i));
		v = twir_mul(x->m, v, v);
	}
	const E sum = twir_fold(x->m, TWIR_Add, n, fold, extent, v);
	tw_define(x, out, axes, twir_div(x->m, sum, tw_size_as(x, sum, tw_product(x, n, extent))));
	return out;
}

static void define_running(struct tw_opctx *x, int output, struct twir_tensor *now)
{
	if (!tw_has_out(x, output))
		return;
	struct twir_tensor *y = tw_y(x, output);
	const enum twir_scalar type = tw_compute_type(y->type);
	const double keep = (double)tw_attr_float(x->node, "momentum", 0.9f);
	E *i;
	struct twir_var **axes = tw_axes(x, y, &i);
	const E old = tw_load(x, tw_x(x, 2 + output), 1, i), fresh = twir_cast(x->m, type, tw_load(x, now, 1, i));
	const E sum = twir_add(x->m, twir_mul(x->m, old, tw_like(x, old, keep)),
			       twir_mul(x->m, fresh, tw_like(x, fresh, 1 - keep)));
	tw_define(x, y, axes, sum);
}

static void compute(struct tw_opctx *x)
{
	const enum twir_scalar type = tw_compute_type(tw_in_type(x, 0));
	struct twir_tensor *factors[2], *mean = NULL, *variance = NULL, *y = tw_y(x, 0);
	E *i;
	if (training(x)) {
		mean = batch_statistic(x, type, NULL);
		variance = batch_statistic(x, type, mean);
		define_running(x, 1, mean);
		define_running(x, 2, variance);
	}
	if (training(x) || !constant_factors(x, type, factors)) {
		mean = mean ? mean : tw_x(x, 3);
		variance = variance ? variance : tw_x(x, 4);
		for (int k = 0; k < 2; k++)
			factors[k] = tw_temp(x, k ? "shift" : "scale", type, 1, tw_x(x, 1)->shape);
		struct twir_var **axes = tw_axes(x, factors[0], &i);
		const E var = twir_add(x->m, twir_cast(x->m, type, tw_load(x, variance, 1, i)),
				       twir_float(x->m, type, epsilon(x)));
		const E scale = twir_cast(x->m, type, tw_load(x, tw_x(x, 1), 1, i));
		tw_define(x, factors[0], axes, twir_div(x->m, scale, twir_unary(x->m, TWIR_Sqrt, var)));
		axes = tw_axes(x, factors[1], &i);
		const E drift =
			twir_mul(x->m, twir_cast(x->m, type, tw_load(x, mean, 1, i)), tw_load(x, factors[0], 1, i));
		tw_define(x, factors[1], axes,
			  twir_sub(x->m, twir_cast(x->m, type, tw_load(x, tw_x(x, 2), 1, i)), drift));
	}
	struct twir_var **axes = tw_axes(x, y, &i);
	const E c = y->rank > 1 ? i[1] : twir_index(x->m, 0);
	const E product = twir_mul(x->m, tw_load(x, tw_x(x, 0), y->rank, i), tw_load(x, factors[0], 1, &c));
	tw_define(x, y, axes, twir_add(x->m, product, tw_load(x, factors[1], 1, &c)));
}

#define COMMON                                                                                                         \
	{"epsilon", TW_ATTR_FLOAT, false},                                                                             \
	{                                                                                                              \
		"momentum", TW_ATTR_FLOAT, false                                                                       \
	}

static const struct tw_attr_spec attrs7[] = {COMMON, {"spatial", TW_ATTR_INT, false}, {NULL}};
static const struct tw_attr_spec attrs9[] = {COMMON, {NULL}};
static const struct tw_attr_spec attrs14[] = {COMMON, {"training_mode", TW_ATTR_INT, false}, {NULL}};

static const struct tw_attr_spec attrs1[] = {
	COMMON, {"spatial", TW_ATTR_INT, false}, {"is_test", TW_ATTR_INT, false}, {NULL}};

const struct tw_op tw_ops_batchnorm[] = {
	{.name = "BatchNormalization",
	 .since = 1,
	 .until = 6,
	 .in = {5, 5},
	 .out = {1, 5},
	 .attrs = attrs1,
	 .infer = infer,
	 .compute = compute},
	{.name = "BatchNormalization",
	 .since = 7,
	 .until = 8,
	 .in = {5, 5},
	 .out = {1, 5},
	 .attrs = attrs7,
	 .infer = infer,
	 .compute = compute},
	{.name = "BatchNormalization",
	 .since = 9,
	 .until = 13,
	 .in = {5, 5},
	 .out = {1, 5},
	 .attrs = attrs9,
	 .infer = infer,
	 .compute = compute},
	{.name = "BatchNormalization",
	 .since = 14,
	 .in = {5, 5},
	 .out = {1, 3},
	 .attrs = attrs14,
	 .infer = infer,
	 .compute = compute},
	{0},
};
