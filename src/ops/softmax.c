/* softmax.c: Softmax, LogSoftmax, Hardmax: one definition a stage (largest, exponentials, their sum, result).
 *
 * Up to opset 12 the input is seen as a matrix, split at the axis; from 13 on one axis is normalised. */
#include "ops/elementwise.h"

typedef const struct twir_expr *E;

struct rows { /* axes first .. last - 1 form one distribution */
	int rank, first, last;
	E keep[TWIR_MAX_RANK]; /* the shape with those axes at 1 */
};

static void read_rows(struct tw_opctx *x, struct rows *r)
{
	const bool matrix = x->node->opset < 13;
	r->rank = tw_in_rank(x, 0);
	const int64_t axis = tw_attr_int(x->node, "axis", matrix ? 1 : -1);
	r->first = matrix && axis == r->rank ? r->rank : tw_axis(x, axis, r->rank);
	r->last = matrix ? r->rank : r->first + 1;
	for (int d = 0; d < r->rank; d++)
		r->keep[d] = d >= r->first && d < r->last ? twir_index(x->m, 1) : tw_in_dim(x, 0, d);
}

static void infer(struct tw_opctx *x)
{
	struct rows r;
	tw_need_type(x, 0, "float");
	if (tw_in_rank(x, 0) > 0)
		read_rows(x, &r);
	tw_infer_same(x);
}

/* One element a row: the fold of t (of the full shape) over the row. */
static struct twir_tensor *fold_rows(struct tw_opctx *x, const struct rows *r, const char *name, enum twir_scalar type,
				     enum twir_kind op, struct twir_tensor *t)
{
	struct twir_tensor *out = tw_temp(x, name, type, r->rank, r->keep);
	E *i, at[TWIR_MAX_RANK], extent[TWIR_MAX_RANK];
	struct twir_var **axes = tw_axes(x, out, &i), *fold[TWIR_MAX_RANK];
	int n = 0;
	for (int d = 0; d < r->rank; d++) {
		at[d] = i[d];
		if (d < r->first || d >= r->last)
			continue;
		extent[n] = t->shape[d];
		fold[n] = tw_fold_axis(x, "k", extent[n]);
		at[d] = twir_var(x->m, fold[n++]);
	}
	const E v = tw_load(x, t, r->rank, at);
	tw_define(x, out, axes, n ? twir_fold(x->m, op, n, fold, extent, v) : v);
	return out;
}

/* The row's value at a full coordinate */
static E of_row(struct tw_opctx *x, const struct rows *r, struct twir_tensor *t, E const *i)
{
	E at[TWIR_MAX_RANK];
	for (int d = 0; d < r->rank; d++)
		at[d] = d >= r->first && d < r->last ? twir_index(x->m, 0) : i[d];
	return tw_load(x, t, r->rank, at);
}

static void scalar_result(struct tw_opctx *x, double value)
{
	struct twir_tensor *y = tw_y(x, 0);
	const enum twir_scalar type = tw_compute_type(y->type);
	tw_define(x, y, NULL, twir_float(x->m, type, value));
}

static void softmax(struct tw_opctx *x, bool log)
{
	struct rows r;
	if (tw_in_rank(x, 0) == 0) {
		scalar_result(x, log ? 0 : 1);
		return;
	}
	read_rows(x, &r);
	struct twir_tensor *t = tw_x(x, 0), *y = tw_y(x, 0);
	const enum twir_scalar type = tw_compute_type(t->type);
	E *i;
	struct twir_tensor *top = fold_rows(x, &r, "top", type, TWIR_Max, t);
	struct twir_tensor *e = tw_temp(x, "e", type, r.rank, t->shape);
	struct twir_var **axes = tw_axes(x, e, &i);
	tw_define(x, e, axes, tw_call(x, "exp", twir_sub(x->m, tw_load(x, t, r.rank, i), of_row(x, &r, top, i))));
	struct twir_tensor *sum = fold_rows(x, &r, "sum", type, TWIR_Add, e);
	axes = tw_axes(x, y, &i);
	if (log) {
		const E shifted = twir_sub(x->m, tw_load(x, t, r.rank, i), of_row(x, &r, top, i));
		tw_define(x, y, axes, twir_sub(x->m, shifted, tw_call(x, "log", of_row(x, &r, sum, i))));
	} else {
		tw_define(x, y, axes, twir_div(x->m, tw_load(x, e, r.rank, i), of_row(x, &r, sum, i)));
	}
}

static void compute_softmax(struct tw_opctx *x)
{
	softmax(x, false);
}

static void compute_log_softmax(struct tw_opctx *x)
{
	softmax(x, true);
}

/* One at the first of the largest, else zero. */
static void compute_hardmax(struct tw_opctx *x)
{
	struct rows r;
	if (tw_in_rank(x, 0) == 0) {
		scalar_result(x, 1);
		return;
	}
	read_rows(x, &r);
	struct twir_tensor *t = tw_x(x, 0), *y = tw_y(x, 0);
	E *i;
	struct twir_tensor *top = fold_rows(x, &r, "top", tw_compute_type(t->type), TWIR_Max, t);
	struct twir_tensor *place = tw_temp(x, "place", TWIR_INDEX, r.rank, t->shape);
	const int n = r.last - r.first;
	struct twir_var **axes = tw_axes(x, place, &i);
	const E flat = tw_flatten(x, n, t->shape + r.first, i + r.first);
	const E v = tw_load(x, t, r.rank, i), best = of_row(x, &r, top, i);
	tw_define(x, place, axes, twir_select(x->m, twir_eq(x->m, v, best), flat, twir_index(x->m, INT64_MAX)));
	struct twir_tensor *first = fold_rows(x, &r, "first", TWIR_INDEX, TWIR_Min, place);
	axes = tw_axes(x, y, &i);
	const E here = twir_eq(x->m, of_row(x, &r, first, i), tw_flatten(x, n, t->shape + r.first, i + r.first));
	const struct twir_type type = twir_scalar_type(tw_compute_type(t->type));
	tw_define(x, y, axes, twir_select(x->m, here, twir_const_of(x->m, type, 1), twir_const_of(x->m, type, 0)));
}

static const struct tw_attr_spec attrs_axis[] = {{"axis", TW_ATTR_INT, false}, {NULL}};

#define ROW(NAME, fn)                                                                                                  \
	{                                                                                                              \
		.name = NAME, .since = 1, .in = {1, 1}, .out = {1, 1}, .attrs = attrs_axis, .infer = infer,            \
		.compute = compute_##fn                                                                                \
	}

const struct tw_op tw_ops_softmax[] = {
	ROW("Softmax", softmax),
	ROW("LogSoftmax", log_softmax),
	ROW("Hardmax", hardmax),
	{0},
};
