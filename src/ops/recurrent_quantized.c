/* recurrent_quantized.c: DynamicQuantizeLSTM (com.microsoft): an LSTM whose weights are whole numbers of 8 bits, and
 * whose inputs and states are rounded to 256 steps before each product.
 *
 * Products are sums of integers, scaled behind: what is rounded is the same whatever the order of the sum. */
#include "ops/elementwise.h"
#include "ops/recurrent.h"

typedef const struct twir_expr *E;

enum { W_SCALE = 8, W_ZERO, R_SCALE, R_ZERO };

/* The least or greatest value of each matrix of t, 0 among them */
static struct twir_tensor *extreme(struct tw_opctx *x, struct twir_tensor *t, const char *name, enum twir_kind op)
{
	const int lead = t->rank - 2;
	struct twir_tensor *out = tw_temp(x, name, TWIR_F32, lead, t->shape);
	E *i, at[TWIR_MAX_RANK];
	struct twir_var **axes = tw_axes(x, out, &i), *fold[2];
	for (int d = 0; d < lead; d++)
		at[d] = i[d];
	for (int d = 0; d < 2; d++) {
		fold[d] = tw_fold_axis(x, "k", t->shape[lead + d]);
		at[lead + d] = twir_var(x->m, fold[d]);
	}
	const E all = twir_fold(x->m, op, 2, fold, t->shape + lead, tw_load(x, t, t->rank, at));
	tw_define(x, out, axes, twir_binary(x->m, op, all, tw_like(x, all, 0)));
	return out;
}

static E within(struct tw_opctx *x, E v)
{
	return twir_min(x->m, twir_max(x->m, v, tw_like(x, v, 0)), tw_like(x, v, 255));
}

struct rounded {
	struct twir_tensor *steps, *zero, *scale; /* u8, u8, f32; the last two have the leading axes alone */
};

/* Each matrix of t as one of 256 equal steps from its least to its greatest value, 0 among them */
static struct rounded rounded(struct tw_opctx *x, struct twir_tensor *t)
{
	struct twir_module *m = x->m;
	struct twir_tensor *low = extreme(x, t, "low", TWIR_Min), *high = extreme(x, t, "high", TWIR_Max);
	const struct rounded r = {.steps = tw_temp(x, "steps", TWIR_U8, t->rank, t->shape),
				  .zero = tw_temp(x, "zero", TWIR_U8, low->rank, low->shape),
				  .scale = tw_temp(x, "scale", TWIR_F32, low->rank, low->shape)};
	E *i;
	struct twir_var **axes = tw_axes(x, r.scale, &i);
	const E span = twir_sub(m, tw_load(x, high, high->rank, i), tw_load(x, low, low->rank, i));
	const E step = twir_div(m, span, tw_like(x, span, 255));
	tw_define(x, r.scale, axes, twir_select(m, twir_eq(m, span, tw_like(x, span, 0)), tw_like(x, span, 1), step));
	axes = tw_axes(x, r.zero, &i);
	const E down = twir_unary(m, TWIR_Neg, tw_load(x, low, low->rank, i));
	const E zero = twir_div(m, down, tw_load(x, r.scale, low->rank, i));
	tw_define(x, r.zero, axes, twir_cast(m, TWIR_U8, twir_unary(m, TWIR_Round, within(x, zero))));
	axes = tw_axes(x, r.steps, &i);
	const E v = twir_div(m, tw_load(x, t, t->rank, i), tw_load(x, r.scale, low->rank, i));
	const E from = twir_cast(m, TWIR_F32, tw_load(x, r.zero, low->rank, i));
	tw_define(x, r.steps, axes, twir_cast(m, TWIR_U8, within(x, twir_add(m, twir_unary(m, TWIR_Round, v), from))));
	return r;
}

/* Scale or zero point of a direction, or of each of its columns */
static E parameter(struct tw_opctx *x, int input, E d, E column)
{
	struct twir_tensor *t = tw_x(x, input);
	const E at[] = {d, t->rank == 2 && t->shape[1] == twir_index(x->m, 1) ? twir_index(x->m, 0) : column};
	return tw_load(x, t, t->rank, at);
}

struct twir_tensor *tw_cell_product(struct tw_opctx *x, struct twir_tensor *t, int weights, const char *name)
{
	struct twir_module *m = x->m;
	struct twir_tensor *w = tw_x(x, weights);
	const struct rounded r = rounded(x, t);
	const int lead = t->rank - 2, scale = weights == 1 ? W_SCALE : R_SCALE;
	const E shape[] = {w->shape[0], t->shape[lead], w->shape[2]};
	struct twir_tensor *sum = tw_temp(x, "sum", TWIR_I32, 3, shape), *y = tw_temp(x, name, TWIR_F32, 3, shape);
	E *i;
	struct twir_var **axes = tw_axes(x, sum, &i), *k = tw_fold_axis(x, "k", w->shape[1]);
	const E ke = twir_var(m, k), ta[] = {i[0], i[1], ke}, wa[] = {i[0], ke, i[2]};
	const E a = twir_sub(m, twir_cast(m, TWIR_I32, tw_load(x, r.steps, t->rank, ta + 1 - lead)),
			     twir_cast(m, TWIR_I32, tw_load(x, r.zero, lead, i)));
	E b = twir_cast(m, TWIR_I32, tw_load(x, w, 3, wa));
	if (!tw_is_zero(x, scale + 1))
		b = twir_sub(m, b, twir_cast(m, TWIR_I32, parameter(x, scale + 1, i[0], i[2])));
	tw_define(x, sum, axes, twir_fold(m, TWIR_Add, 1, &k, &w->shape[1], twir_mul(m, a, b)));
	axes = tw_axes(x, y, &i);
	const E step = twir_mul(m, tw_load(x, r.scale, lead, i), parameter(x, scale, i[0], i[2]));
	tw_define(x, y, axes, twir_mul(m, twir_cast(m, TWIR_F32, tw_load(x, sum, 3, i)), step));
	return y;
}

void tw_cell_check_quantized(struct tw_opctx *x, const struct tw_cell *c, E columns)
{
	tw_need_type(x, 0, "f32");
	for (int i = 1; i <= 2; i++)
		tw_need_type(x, i, "i8 u8");
	for (int i = W_SCALE; i <= R_ZERO; i++) {
		const int rank = tw_has_in(x, i) ? tw_in_rank(x, i) : 0;
		if (rank < 1 || rank > 2)
			tw_op_fail(x, TW_ERR_MODEL, "input %d, a scale or zero point, has rank %d", i, rank);
		tw_same_size(x, tw_in_dim(x, i, 0), twir_index(x->m, c->directions), "directions");
		if (rank == 2 && tw_in_dim(x, i, 1) != twir_index(x->m, 1))
			tw_same_size(x, tw_in_dim(x, i, 1), columns, "scale and columns");
		if ((i == W_ZERO || i == R_ZERO) && tw_in_type(x, i) != tw_in_type(x, i == W_ZERO ? 1 : 2))
			tw_op_fail(x, TW_ERR_MODEL, "weights and zero point have different types");
	}
	tw_need_type(x, W_SCALE, "f32");
	tw_need_type(x, R_SCALE, "f32");
}
