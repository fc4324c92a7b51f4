/* loss.c: NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss.
 *
 * Stages: log-probabilities (for the second), the loss and the weight of each place, then for a reduction their
 * sums. */
#include "ops/elementwise.h"

typedef const struct twir_expr *E;

enum reduction { NONE, SUM, MEAN };

static enum reduction reduction_of(struct tw_opctx *x)
{
	const char *s = tw_attr_string(x->node, "reduction", "mean");
	if (strcmp(s, "none") && strcmp(s, "sum") && strcmp(s, "mean"))
		tw_op_fail(x, TW_ERR_MODEL, "reduction = '%s' is not known", s);
	return !strcmp(s, "none") ? NONE : !strcmp(s, "sum") ? SUM : MEAN;
}

static void infer(struct tw_opctx *x)
{
	tw_need_type(x, 0, "float");
	tw_need_type(x, 1, "index");
	const int rank = tw_in_rank(x, 0);
	if (rank < 2 || tw_in_rank(x, 1) != rank - 1)
		tw_op_fail(x, TW_ERR_MODEL, "input of rank %d with targets of rank %d", rank, tw_in_rank(x, 1));
	for (int d = 0; d < rank - 1; d++)
		tw_same_size(x, tw_in_dim(x, 1, d), tw_in_dim(x, 0, d + (d > 0)), "input and targets");
	if (tw_has_in(x, 2)) {
		tw_need_type(x, 2, "float");
		if (tw_in_rank(x, 2) != 1)
			tw_op_fail(x, TW_ERR_MODEL, "weights of rank %d", tw_in_rank(x, 2));
		tw_same_size(x, tw_in_dim(x, 2, 0), tw_in_dim(x, 0, 1), "weights and classes");
	}
	const bool none = reduction_of(x) == NONE;
	tw_set_out(x, 0, tw_in_type(x, 0), none ? rank - 1 : 0, tw_in(x, 1)->shape);
	tw_set_out(x, 1, tw_in_type(x, 0), rank, tw_in(x, 0)->shape);
}

/* Sum of all elements of t into a scalar */
static struct twir_tensor *total(struct tw_opctx *x, const char *name, struct twir_tensor *t)
{
	struct twir_tensor *out = tw_temp(x, name, t->type, 0, NULL);
	E at[TWIR_MAX_RANK];
	struct twir_var *fold[TWIR_MAX_RANK];
	for (int d = 0; d < t->rank; d++) {
		fold[d] = tw_fold_axis(x, "k", t->shape[d]);
		at[d] = twir_var(x->m, fold[d]);
	}
	const E v = tw_load(x, t, t->rank, at);
	tw_define(x, out, NULL, t->rank ? twir_fold(x->m, TWIR_Add, t->rank, fold, t->shape, v) : v);
	return out;
}

/* Loss and weight of each place; a target that is ignored, or is no class, counts nothing. */
static void define_places(struct tw_opctx *x, struct twir_tensor *logs, struct twir_tensor *loss,
			  struct twir_tensor *weight)
{
	struct twir_module *m = x->m;
	struct twir_tensor *targets = tw_x(x, 1);
	const struct tw_attr *ignore = tw_attr_find(x->node, "ignore_index");
	for (int pass = 0; pass < 2; pass++) {
		struct twir_tensor *out = pass ? weight : loss;
		E *i, at[TWIR_MAX_RANK];
		struct twir_var **axes = tw_axes(x, out, &i);
		const E target = twir_cast(m, TWIR_INDEX, tw_load(x, targets, out->rank, i));
		E ok = twir_and(m, twir_le(m, twir_index(m, 0), target), twir_lt(m, target, logs->shape[1]));
		if (ignore)
			ok = twir_and(m, ok, twir_ne(m, target, twir_index(m, ignore->i)));
		at[0] = i[0];
		at[1] = target;
		for (int d = 1; d < out->rank; d++)
			at[d + 1] = i[d];
		const struct twir_type type = twir_scalar_type(out->type);
		E w = twir_const_of(m, type, 1), zero = twir_const_of(m, type, 0);
		if (tw_has_in(x, 2))
			w = twir_cast(m, out->type, tw_load(x, tw_x(x, 2), 1, &target));
		const E v = pass ? w : twir_mul(m, twir_unary(m, TWIR_Neg, tw_load(x, logs, logs->rank, at)), w);
		tw_define(x, out, axes, twir_cond(m, ok, v, zero));
	}
}

static void finish(struct tw_opctx *x, struct twir_tensor *logs)
{
	struct twir_tensor *targets = tw_x(x, 1), *y = tw_y(x, 0);
	const enum twir_scalar type = tw_compute_type(tw_in_type(x, 0));
	struct twir_tensor *loss = tw_temp(x, "loss", type, targets->rank, targets->shape);
	struct twir_tensor *weight = tw_temp(x, "weight", type, targets->rank, targets->shape);
	define_places(x, logs, loss, weight);
	if (reduction_of(x) == NONE) {
		E *i;
		struct twir_var **axes = tw_axes(x, y, &i);
		tw_define(x, y, axes, tw_load(x, loss, y->rank, i));
		return;
	}
	const E sum = tw_load(x, total(x, "sum", loss), 0, NULL);
	const bool mean = reduction_of(x) == MEAN;
	tw_define(x, y, NULL, mean ? twir_div(x->m, sum, tw_load(x, total(x, "weights", weight), 0, NULL)) : sum);
}

static void compute_nll(struct tw_opctx *x)
{
	finish(x, tw_x(x, 0));
}

/* Fold of t, or of exp(t - top), over the classes, kept at size 1 */
static struct twir_tensor *over_classes(struct tw_opctx *x, const char *name, enum twir_kind op,
					struct twir_tensor *top)
{
	struct twir_tensor *t = tw_x(x, 0);
	E shape[TWIR_MAX_RANK], *i, at[TWIR_MAX_RANK];
	for (int d = 0; d < t->rank; d++)
		shape[d] = d == 1 ? twir_index(x->m, 1) : t->shape[d];
	struct twir_tensor *out = tw_temp(x, name, tw_compute_type(t->type), t->rank, shape);
	struct twir_var **axes = tw_axes(x, out, &i), *k = tw_fold_axis(x, "k", t->shape[1]);
	for (int d = 0; d < t->rank; d++)
		at[d] = d == 1 ? twir_var(x->m, k) : i[d];
	E v = tw_load(x, t, t->rank, at);
	if (top)
		v = tw_call(x, "exp", twir_sub(x->m, v, tw_load(x, top, t->rank, i)));
	tw_define(x, out, axes, twir_fold(x->m, op, 1, &k, &t->shape[1], v));
	return out;
}

static void compute_sce(struct tw_opctx *x)
{
	struct twir_tensor *t = tw_x(x, 0), *top = over_classes(x, "top", TWIR_Max, NULL),
			   *sum = over_classes(x, "sum", TWIR_Add, top);
	struct twir_tensor *logs = tw_temp(x, "logs", tw_compute_type(t->type), t->rank, t->shape);
	E *i, row[TWIR_MAX_RANK];
	struct twir_var **axes = tw_axes(x, logs, &i);
	for (int d = 0; d < t->rank; d++)
		row[d] = d == 1 ? twir_index(x->m, 0) : i[d];
	const E shifted = twir_sub(x->m, tw_load(x, t, t->rank, i), tw_load(x, top, t->rank, row));
	tw_define(x, logs, axes, twir_sub(x->m, shifted, tw_call(x, "log", tw_load(x, sum, t->rank, row))));
	finish(x, logs);
	if (!tw_has_out(x, 1))
		return;
	struct twir_tensor *y = tw_y(x, 1);
	axes = tw_axes(x, y, &i);
	tw_define(x, y, axes, tw_load(x, logs, y->rank, i));
}

static const struct tw_attr_spec attrs[] = {
	{"ignore_index", TW_ATTR_INT, false}, {"reduction", TW_ATTR_STRING, false}, {NULL}};

const struct tw_op tw_ops_loss[] = {
	{.name = "NegativeLogLikelihoodLoss",
	 .since = 12,
	 .in = {2, 3},
	 .out = {1, 1},
	 .attrs = attrs,
	 .infer = infer,
	 .compute = compute_nll},
	{.name = "SoftmaxCrossEntropyLoss",
	 .since = 12,
	 .in = {2, 3},
	 .out = {1, 2},
	 .attrs = attrs,
	 .infer = infer,
	 .compute = compute_sce},
	{0},
};
