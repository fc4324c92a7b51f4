/* elementwise.c: shape inference and definitions shared by all elementwise operators. */
#include "ops/elementwise.h"

void tw_infer_same(struct tw_opctx *x)
{
	const struct tw_tensor *t = tw_in(x, 0);
	tw_set_out(x, 0, t->type, t->rank, t->shape);
}

void tw_infer_same_bool(struct tw_opctx *x)
{
	const struct tw_tensor *t = tw_in(x, 0);
	tw_set_out(x, 0, TWIR_I1, t->rank, t->shape);
}

static void infer_broadcast(struct tw_opctx *x, enum twir_scalar type)
{
	const struct twir_expr *shape[TWIR_MAX_RANK];
	tw_need_same_type(x, 0, x->node->nin - 1);
	const int rank = tw_broadcast(x, 0, x->node->nin - 1, shape);
	tw_set_out(x, 0, type, rank, shape);
}

void tw_infer_broadcast(struct tw_opctx *x)
{
	infer_broadcast(x, tw_in_type(x, 0));
}

void tw_infer_broadcast_bool(struct tw_opctx *x)
{
	infer_broadcast(x, TWIR_I1);
}

enum twir_scalar tw_compute_type(enum twir_scalar storage)
{
	return twir_is_storage(storage) ? TWIR_F32 : storage;
}

const struct twir_expr *tw_operand(struct tw_opctx *x, int i, int n, const struct twir_expr *const *axes)
{
	const struct tw_tensor *t = tw_in(x, i);
	int64_t dims[TWIR_MAX_RANK], count = 1;
	if (t->data && tw_graph_static(x->g, x->node->in[i], dims)) {
		for (int d = 0; d < t->rank; d++)
			count *= dims[d];
		const enum twir_scalar type = tw_compute_type(t->type);
		if (count == 1 && twir_is_float(type))
			return twir_float(x->m, type, tw_data_float(t->type, t->data, 0));
		if (count == 1 && type != TWIR_I1)
			return twir_int(x->m, type, tw_data_int(t->type, t->data, 0));
	}
	return tw_load_broadcast(x, tw_x(x, i), n, axes);
}

bool tw_is_zero(struct tw_opctx *x, int i)
{
	const double *v;
	if (!tw_has_in(x, i))
		return true;
	const int n = tw_in_floats(x, i, &v);
	int zeros = 0;
	while (zeros < n && v[zeros] == 0)
		zeros++;
	return n > 0 && zeros == n;
}

void tw_elementwise(struct tw_opctx *x, tw_element_fn fn)
{
	const struct twir_expr **i;
	struct twir_tensor *y = tw_y(x, 0);
	struct twir_var **axes = tw_axes(x, y, &i);
	tw_define(x, y, axes, fn(x, tw_load(x, tw_x(x, 0), y->rank, i)));
}

void tw_elementwise2(struct tw_opctx *x, tw_element2_fn fn)
{
	const struct twir_expr **i;
	struct twir_tensor *y = tw_y(x, 0);
	struct twir_var **axes = tw_axes(x, y, &i);
	const struct twir_expr *value = tw_operand(x, 0, y->rank, i);
	for (int k = 1; k < x->node->nin; k++)
		value = fn(x, value, tw_operand(x, k, y->rank, i));
	tw_define(x, y, axes, value);
}

const struct twir_expr *tw_call(struct tw_opctx *x, const char *name, const struct twir_expr *a)
{
	return twir_math(x->m, name, 1, &a);
}

const struct twir_expr *tw_like(struct tw_opctx *x, const struct twir_expr *like, double value)
{
	return twir_const_of(x->m, like->type, value);
}

const struct twir_expr *tw_size_as(struct tw_opctx *x, const struct twir_expr *like, const struct twir_expr *size)
{
	int64_t n;
	return twir_const_int(size, &n) ? tw_like(x, like, (double)n) : twir_cast(x->m, like->type.scalar, size);
}

void tw_need_scalar(struct tw_opctx *x, int i)
{
	for (int d = 0; tw_has_in(x, i) && d < tw_in_rank(x, i); d++)
		if (tw_in_dim(x, i, d) != twir_index(x->m, 1))
			tw_op_fail(x, TW_ERR_MODEL, "input %d must hold one element", i);
}

const struct twir_expr *tw_scalar(struct tw_opctx *x, int i)
{
	const struct twir_expr *origin[TWIR_MAX_RANK];
	for (int d = 0; d < TWIR_MAX_RANK; d++)
		origin[d] = twir_index(x->m, 0);
	return tw_operand(x, i, tw_in_rank(x, i), origin);
}
