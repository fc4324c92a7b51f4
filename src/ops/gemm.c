/* gemm.c: MatMul and Gemm: one sum over one axis of a product of two loads, the form that matmul schedules
 * recognise.
 *
 * Operands that need a change first (a transpose, f16 to f32) get a definition of their own; alpha, beta and C come
 * after the sum. */
#include "ops/elementwise.h"

typedef const struct twir_expr *E;

/* ---- MatMul */

static void infer_matmul(struct tw_opctx *x)
{
	tw_need_type(x, 0, "float i32 i64 u32 u64");
	tw_need_same_type(x, 0, 1);
	const int ra = tw_in_rank(x, 0), rb = tw_in_rank(x, 1);
	if (ra < 1 || rb < 1)
		tw_op_fail(x, TW_ERR_MODEL, "a scalar cannot be multiplied");
	tw_same_size(x, tw_in_dim(x, 0, -1), tw_in_dim(x, 1, rb == 1 ? 0 : -2), "inner sizes");
	E shape[TWIR_MAX_RANK];
	int n = 0;
	const int ba = ra > 2 ? ra - 2 : 0, bb = rb > 2 ? rb - 2 : 0, batch = ba > bb ? ba : bb;
	for (int d = 0; d < batch; d++) {
		const E one = twir_index(x->m, 1);
		const E a = d - (batch - ba) >= 0 ? tw_in_dim(x, 0, d - (batch - ba)) : one;
		const E b = d - (batch - bb) >= 0 ? tw_in_dim(x, 1, d - (batch - bb)) : one;
		shape[n++] = a == one ? b : b == one ? a : tw_same_size(x, a, b, "batch sizes");
	}
	if (ra > 1)
		shape[n++] = tw_in_dim(x, 0, -2);
	if (rb > 1)
		shape[n++] = tw_in_dim(x, 1, -1);
	tw_set_out(x, 0, tw_in_type(x, 0), n, shape);
}

/* Input i as the sum may load it: f16 and bf16 are widened by a definition first. */
static struct twir_tensor *operand(struct tw_opctx *x, int i, const char *name, bool transpose)
{
	struct twir_tensor *t = tw_x(x, i);
	const enum twir_scalar type = tw_compute_type(t->type);
	if (type == t->type && !transpose)
		return t;
	E shape[TWIR_MAX_RANK], *at;
	for (int d = 0; d < t->rank; d++)
		shape[d] = t->shape[transpose ? t->rank - 1 - d : d];
	struct twir_tensor *out = tw_temp(x, name, type, t->rank, shape);
	struct twir_var **axes = tw_axes(x, out, &at);
	const E swapped[] = {t->rank == 2 ? at[1] : NULL, t->rank == 2 ? at[0] : NULL};
	tw_define(x, out, axes, tw_load(x, t, t->rank, transpose ? swapped : at));
	return out;
}

/* Batch axes of an operand, sizes of 1 read at 0, then its own two. */
static E load_operand(struct tw_opctx *x, struct twir_tensor *t, int nbatch, E const *batch, E first, E second)
{
	E at[TWIR_MAX_RANK];
	const int own = t->rank > 1 ? 2 : 1, lead = t->rank - own;
	for (int d = 0; d < lead; d++)
		at[d] = t->shape[d] == twir_index(x->m, 1) ? twir_index(x->m, 0) : batch[nbatch - lead + d];
	at[lead] = first;
	if (own == 2)
		at[lead + 1] = second;
	return tw_load(x, t, t->rank, at);
}

/* A stack of matrices times one matrix is one matmul of all their rows: the schedule then cuts rows and packs the
   matrix once, whichever of the sizes in front is the long one. */
static void matmul_of_all_rows(struct tw_opctx *x, struct twir_tensor *a, struct twir_tensor *b)
{
	struct twir_tensor *y = tw_y(x, 0);
	const int lead = a->rank - 1;
	const E shape[] = {tw_product(x, lead, a->shape), y->shape[lead]};
	struct twir_tensor *c = tw_temp(x, "product", tw_compute_type(y->type), 2, shape);
	E *i, at[TWIR_MAX_RANK];
	struct twir_var **axes = tw_axes(x, c, &i);
	struct twir_var *k = tw_fold_axis(x, "k", a->shape[lead]);
	tw_unflatten(x, i[0], lead, a->shape, at);
	at[lead] = twir_var(x->m, k);
	E bt[TWIR_MAX_RANK];
	for (int d = 0; d < b->rank - 2; d++)
		bt[d] = twir_index(x->m, 0);
	bt[b->rank - 2] = at[lead];
	bt[b->rank - 1] = i[1];
	const E product = twir_mul(x->m, tw_load(x, a, a->rank, at), tw_load(x, b, b->rank, bt));
	tw_define(x, c, axes, twir_fold(x->m, TWIR_Add, 1, &k, &a->shape[lead], product));
	axes = tw_axes(x, y, &i);
	const E element[] = {tw_flatten(x, lead, a->shape, i), i[lead]};
	tw_define(x, y, axes, tw_load(x, c, 2, element));
}

static bool is_stack_times_matrix(struct tw_opctx *x, const struct twir_tensor *a, const struct twir_tensor *b)
{
	const E one = twir_index(x->m, 1);
	bool stack = false;
	for (int d = 0; d < a->rank - 2; d++)
		stack = stack || a->shape[d] != one;
	for (int d = 0; d < b->rank - 2; d++)
		if (b->shape[d] != one)
			return false;
	return stack && b->rank >= 2 && b->rank <= a->rank;
}

static void compute_matmul(struct tw_opctx *x)
{
	struct twir_tensor *a = operand(x, 0, "a", false), *b = operand(x, 1, "b", false), *y = tw_y(x, 0);
	struct twir_tensor *c = y;
	if (is_stack_times_matrix(x, a, b)) {
		matmul_of_all_rows(x, a, b);
		return;
	}
	const enum twir_scalar type = tw_compute_type(y->type);
	if (type != y->type)
		c = tw_temp(x, "product", type, y->rank, y->shape);
	E *i;
	struct twir_var **axes = tw_axes(x, c, &i);
	const E depth = a->shape[a->rank - 1];
	struct twir_var *k = tw_fold_axis(x, "k", depth);
	const E ke = twir_var(x->m, k);
	const int rows = a->rank > 1, columns = b->rank > 1, nbatch = c->rank - rows - columns;
	const E row = rows ? i[nbatch] : ke, column = columns ? i[nbatch + rows] : NULL;
	const E va = load_operand(x, a, nbatch, i, row, ke), vb = load_operand(x, b, nbatch, i, ke, column);
	tw_define(x, c, axes, twir_fold(x->m, TWIR_Add, 1, &k, &depth, twir_mul(x->m, va, vb)));
	if (c != y) {
		axes = tw_axes(x, y, &i);
		tw_define(x, y, axes, tw_load(x, c, c->rank, i));
	}
}

/* ---- Gemm */

static void infer_gemm(struct tw_opctx *x)
{
	tw_need_type(x, 0, "float i32 i64 u32 u64");
	tw_need_same_type(x, 0, x->node->nin - 1);
	if (tw_in_rank(x, 0) != 2 || tw_in_rank(x, 1) != 2)
		tw_op_fail(x, TW_ERR_MODEL, "inputs of rank %d and %d; both must be 2", tw_in_rank(x, 0),
			   tw_in_rank(x, 1));
	const int ta = tw_attr_int(x->node, "transA", 0) != 0, tb = tw_attr_int(x->node, "transB", 0) != 0;
	tw_same_size(x, tw_in_dim(x, 0, 1 - ta), tw_in_dim(x, 1, tb), "inner sizes");
	const E shape[] = {tw_in_dim(x, 0, ta), tw_in_dim(x, 1, 1 - tb)};
	tw_set_out(x, 0, tw_in_type(x, 0), 2, shape);
	if (!tw_has_in(x, 2))
		return;
	const int rank = tw_in_rank(x, 2);
	if (rank > 2)
		tw_op_fail(x, TW_ERR_MODEL, "C of rank %d", rank);
	for (int d = 0; d < rank; d++)
		if (tw_in_dim(x, 2, d) != twir_index(x->m, 1))
			tw_same_size(x, tw_in_dim(x, 2, d), shape[2 - rank + d], "C and the product");
}

static E scaled(struct tw_opctx *x, E v, const char *attr)
{
	const double s = (double)tw_attr_float(x->node, attr, 1.0f);
	if (s == 1)
		return v;
	if (twir_is_float(v->type.scalar))
		return twir_mul(x->m, v, tw_like(x, v, s));
	const E wide = twir_mul(x->m, twir_cast(x->m, TWIR_F64, v), twir_float(x->m, TWIR_F64, s));
	return twir_cast(x->m, v->type.scalar, wide);
}

static void compute_gemm(struct tw_opctx *x)
{
	struct twir_tensor *a = operand(x, 0, "a", tw_attr_int(x->node, "transA", 0) != 0);
	struct twir_tensor *b = operand(x, 1, "b", tw_attr_int(x->node, "transB", 0) != 0), *y = tw_y(x, 0);
	const enum twir_scalar type = tw_compute_type(y->type);
	const bool bare = !tw_has_in(x, 2) && tw_attr_float(x->node, "alpha", 1.0f) == 1.0f && type == y->type;
	struct twir_tensor *c = bare ? y : tw_temp(x, "product", type, 2, y->shape);
	E *i;
	struct twir_var **axes = tw_axes(x, c, &i);
	struct twir_var *k = tw_fold_axis(x, "k", a->shape[1]);
	const E ke = twir_var(x->m, k), at[] = {i[0], ke}, bt[] = {ke, i[1]};
	const E product = twir_mul(x->m, tw_load(x, a, 2, at), tw_load(x, b, 2, bt));
	tw_define(x, c, axes, twir_fold(x->m, TWIR_Add, 1, &k, &a->shape[1], product));
	if (bare)
		return;
	axes = tw_axes(x, y, &i);
	E v = scaled(x, tw_load(x, c, 2, i), "alpha");
	if (tw_has_in(x, 2))
		v = twir_add(x->m, v, scaled(x, tw_operand(x, 2, 2, i), "beta"));
	tw_define(x, y, axes, v);
}

static const struct tw_attr_spec attrs_gemm[] = {{"alpha", TW_ATTR_FLOAT, false},
						 {"beta", TW_ATTR_FLOAT, false},
						 {"transA", TW_ATTR_INT, false},
						 {"transB", TW_ATTR_INT, false},
						 {NULL}};

static const struct tw_attr_spec attrs_gemm1[] = {{"alpha", TW_ATTR_FLOAT, false},   {"beta", TW_ATTR_FLOAT, false},
						  {"broadcast", TW_ATTR_INT, false}, {"transA", TW_ATTR_INT, false},
						  {"transB", TW_ATTR_INT, false},    {NULL}};

const struct tw_op tw_ops_gemm[] = {
	{.name = "MatMul", .since = 1, .in = {2, 2}, .out = {1, 1}, .infer = infer_matmul, .compute = compute_matmul},
	{.name = "Gemm",
	 .since = 1,
	 .until = 6,
	 .in = {3, 3},
	 .out = {1, 1},
	 .attrs = attrs_gemm1,
	 .infer = infer_gemm,
	 .compute = compute_gemm},
	{.name = "Gemm",
	 .since = 7,
	 .in = {2, 3},
	 .out = {1, 1},
	 .attrs = attrs_gemm,
	 .infer = infer_gemm,
	 .compute = compute_gemm},
	{0},
};
