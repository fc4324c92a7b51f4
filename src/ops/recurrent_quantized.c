/* recurrent_quantized.c: DynamicQuantizeLSTM (com.microsoft): an LSTM whose weights are whole numbers of 8 bits, and
 * whose inputs and states are rounded to 256 steps before each product.
 *
 * The products of such numbers are exact in f32 (their sums below 2^24 are), so rounded values and dequantised
 * weights go through the definitions of the LSTM itself. */
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

struct twir_tensor *tw_cell_rounded(struct tw_opctx *x, struct twir_tensor *t)
{
	struct twir_module *m = x->m;
	struct twir_tensor *low = extreme(x, t, "low", TWIR_Min), *high = extreme(x, t, "high", TWIR_Max);
	struct twir_tensor *out = tw_temp(x, "rounded", TWIR_F32, t->rank, t->shape);
	E *i;
	struct twir_var **axes = tw_axes(x, out, &i);
	const E least = tw_load(x, low, low->rank, i), span = twir_sub(m, tw_load(x, high, high->rank, i), least);
	const E flat = twir_eq(m, span, tw_like(x, span, 0));
	const E scale = twir_select(m, flat, tw_like(x, span, 1), twir_div(m, span, tw_like(x, span, 255)));
	const E zero = twir_unary(m, TWIR_Round, within(x, twir_div(m, twir_unary(m, TWIR_Neg, least), scale)));
	const E steps = twir_unary(m, TWIR_Round, twir_div(m, tw_load(x, t, t->rank, i), scale));
	tw_define(x, out, axes, twir_mul(m, twir_sub(m, within(x, twir_add(m, steps, zero)), zero), scale));
	return out;
}

/* Scale or zero point of a direction, or of each of its columns */
static E parameter(struct tw_opctx *x, int input, E d, E column)
{
	struct twir_tensor *t = tw_x(x, input);
	const E at[] = {d, t->rank == 2 && t->shape[1] == twir_index(x->m, 1) ? twir_index(x->m, 0) : column};
	return twir_cast(x->m, TWIR_F32, tw_load(x, t, t->rank, at));
}

struct twir_tensor *tw_cell_dequantized(struct tw_opctx *x, int input, const char *name)
{
	struct twir_module *m = x->m;
	struct twir_tensor *w = tw_x(x, input), *t = tw_temp(x, name, TWIR_F32, 3, w->shape);
	const int scale = input == 1 ? W_SCALE : R_SCALE;
	E *i;
	struct twir_var **axes = tw_axes(x, t, &i);
	const E v = twir_sub(m, twir_cast(m, TWIR_F32, tw_load(x, w, 3, i)), parameter(x, scale + 1, i[0], i[2]));
	tw_define(x, t, axes, twir_mul(m, v, parameter(x, scale, i[0], i[2])));
	return t;
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
