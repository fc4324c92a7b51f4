/* reduce.c: reductions over axes (Reduce*), and ArgMax, ArgMin.
 *
 * Each is one fold over the reduced axes, and for some an elementwise step before or after. Axes are an attribute
 * or, in later versions, an input that must be constant. */
#include "ops/elementwise.h"

typedef const struct twir_expr *E;

struct reduction {
	int rank, n;	       /* of the input; axes that go */
	bool keep, nothing;    /* nothing: no axis is reduced, the operator is an identity */
	E gone[TWIR_MAX_RANK]; /* is the axis reduced: constants, or conditions on values known at launch */
};

static bool surely(E condition, bool value)
{
	int64_t v;
	return twir_const_int(condition, &v) && (v != 0) == value;
}

static void read_axes(struct tw_opctx *x, struct reduction *r)
{
	*r = (struct reduction){.rank = tw_in_rank(x, 0), .keep = tw_attr_int(x->node, "keepdims", 1) != 0};
	r->n = tw_axes_conditions(x, "axes", 1, r->rank, r->gone);
	r->nothing = r->n <= 0 && tw_attr_int(x->node, "noop_with_empty_axes", 0);
	for (int d = 0; d < r->rank && r->n <= 0 && !r->nothing; d++)
		r->gone[d] = twir_bool(x->m, true);
	if (r->n <= 0)
		r->n = r->nothing ? 0 : r->rank;
	if (r->n > r->rank)
		tw_op_fail(x, TW_ERR_MODEL, "%d axes for rank %d", r->n, r->rank);
}

/* Where an input axis stands among those that stay */
static E position(struct tw_opctx *x, const struct reduction *r, int d)
{
	E p = twir_index(x->m, 0);
	for (int e = 0; e < d; e++)
		p = twir_add(x->m, p, twir_select(x->m, r->gone[e], twir_index(x->m, 0), twir_index(x->m, 1)));
	return tw_simplify(x, p);
}

static int reduced_shape(struct tw_opctx *x, const struct reduction *r, E *shape)
{
	struct twir_module *m = x->m;
	if (r->keep) {
		for (int d = 0; d < r->rank; d++)
			shape[d] = twir_select(m, r->gone[d], twir_index(m, 1), tw_in_dim(x, 0, d));
		return r->rank;
	}
	int stay = 0;
	for (int d = 0; d < r->rank; d++)
		stay += !surely(r->gone[d], true);
	bool known = true;
	for (int d = 0; d < r->rank; d++)
		known = known && r->gone[d]->kind == TWIR_Const;
	const int n = known ? stay : r->rank - r->n;
	for (int j = 0; j < n; j++) {
		E size = twir_index(m, 0);
		for (int d = r->rank - 1; d >= 0; d--) {
			const E here =
				twir_and(m, twir_not(m, r->gone[d]), twir_eq(m, position(x, r, d), twir_index(m, j)));
			size = twir_select(m, tw_simplify(x, here), tw_in_dim(x, 0, d), size);
		}
		shape[j] = size;
	}
	return n;
}

static void infer_as(struct tw_opctx *x, enum twir_scalar type)
{
	struct reduction r;
	E shape[TWIR_MAX_RANK];
	read_axes(x, &r);
	const int n = reduced_shape(x, &r, shape);
	tw_set_out(x, 0, type, n, shape);
}

static void infer_arithmetic(struct tw_opctx *x)
{
	tw_need_type(x, 0, "float i32 i64 u32 u64");
	infer_as(x, tw_in_type(x, 0));
}

static void infer_extreme(struct tw_opctx *x)
{
	tw_need_type(x, 0, x->node->opset >= 20 ? "numeric bool" : "numeric");
	infer_as(x, tw_in_type(x, 0));
}

/* Coordinates in the input of the output's element, fold axes where axes are gone or may be. */
static int fold_axes(struct tw_opctx *x, const struct reduction *r, int out_rank, E const *i, E *at,
		     struct twir_var **fold, E *extent)
{
	struct twir_module *m = x->m;
	int n = 0;
	for (int d = 0; d < r->rank; d++) {
		const E place = r->keep ? NULL : position(x, r, d);
		E own = r->keep ? i[d] : twir_index(m, 0);
		for (int j = 0; !r->keep && j < out_rank; j++)
			own = twir_select(m, tw_simplify(x, twir_eq(m, place, twir_index(m, j))), i[j], own);
		at[d] = own;
		if (surely(r->gone[d], false))
			continue;
		extent[n] = twir_select(m, r->gone[d], tw_in_dim(x, 0, d), twir_index(m, 1));
		fold[n] = tw_fold_axis(x, "k", extent[n]);
		at[d] = twir_select(m, r->gone[d], twir_var(m, fold[n++]), own);
	}
	return n;
}

typedef E (*step_fn)(struct tw_opctx *x, E v);

static E reduced(struct tw_opctx *x, const struct reduction *r, int out_rank, E const *i, enum twir_kind op,
		 step_fn before)
{
	E at[TWIR_MAX_RANK], extent[TWIR_MAX_RANK];
	struct twir_var *fold[TWIR_MAX_RANK];
	const int n = fold_axes(x, r, out_rank, i, at, fold, extent);
	E v = tw_load(x, tw_x(x, 0), r->rank, at);
	if (before)
		v = before(x, v);
	return n ? twir_fold(x->m, op, n, fold, extent, v) : v;
}

static void reduce(struct tw_opctx *x, enum twir_kind op, step_fn before, step_fn after)
{
	struct reduction r;
	E *i;
	read_axes(x, &r);
	struct twir_tensor *y = tw_y(x, 0);
	struct twir_var **axes = tw_axes(x, y, &i);
	E v = reduced(x, &r, y->rank, i, op, before);
	if (after)
		v = after(x, v);
	tw_define(x, y, axes, v);
}

static E square(struct tw_opctx *x, E v)
{
	return twir_mul(x->m, v, v);
}

static E absolute(struct tw_opctx *x, E v)
{
	return twir_is_signed(v->type.scalar) ? twir_unary(x->m, TWIR_Abs, v) : v;
}

/* A function of floats on any numeric type */
static E through_float(struct tw_opctx *x, E v, E (*fn)(struct tw_opctx *x, E v))
{
	const enum twir_scalar t = v->type.scalar;
	return twir_is_float(t) ? fn(x, v) : twir_cast(x->m, t, fn(x, twir_cast(x->m, TWIR_F64, v)));
}

static E sqrt_of(struct tw_opctx *x, E v)
{
	return twir_unary(x->m, TWIR_Sqrt, v);
}

static E log_of(struct tw_opctx *x, E v)
{
	return tw_call(x, "log", v);
}

static E root(struct tw_opctx *x, E v)
{
	return through_float(x, v, sqrt_of);
}

static E logarithm(struct tw_opctx *x, E v)
{
	return through_float(x, v, log_of);
}

static E mean_of(struct tw_opctx *x, E sum)
{
	struct reduction r;
	E sizes[TWIR_MAX_RANK];
	read_axes(x, &r);
	for (int d = 0; d < r.rank; d++)
		sizes[d] = twir_select(x->m, r.gone[d], tw_in_dim(x, 0, d), twir_index(x->m, 1));
	return twir_div(x->m, sum, tw_size_as(x, sum, tw_product(x, r.rank, sizes)));
}

static void compute_sum(struct tw_opctx *x)
{
	reduce(x, TWIR_Add, NULL, NULL);
}

static void compute_mean(struct tw_opctx *x)
{
	reduce(x, TWIR_Add, NULL, mean_of);
}

static void compute_prod(struct tw_opctx *x)
{
	reduce(x, TWIR_Mul, NULL, NULL);
}

static void compute_max(struct tw_opctx *x)
{
	reduce(x, tw_in_type(x, 0) == TWIR_I1 ? TWIR_Or : TWIR_Max, NULL, NULL);
}

static void compute_min(struct tw_opctx *x)
{
	reduce(x, tw_in_type(x, 0) == TWIR_I1 ? TWIR_And : TWIR_Min, NULL, NULL);
}

static void compute_l1(struct tw_opctx *x)
{
	reduce(x, TWIR_Add, absolute, NULL);
}

static void compute_l2(struct tw_opctx *x)
{
	reduce(x, TWIR_Add, square, root);
}

static void compute_sum_square(struct tw_opctx *x)
{
	reduce(x, TWIR_Add, square, NULL);
}

static void compute_log_sum(struct tw_opctx *x)
{
	reduce(x, TWIR_Add, NULL, logarithm);
}

/* log(sum(exp(v - top))) + top, where an infinite top is left out of the difference */
static void compute_log_sum_exp(struct tw_opctx *x)
{
	struct reduction r;
	E *i, at[TWIR_MAX_RANK], extent[TWIR_MAX_RANK];
	struct twir_var *fold[TWIR_MAX_RANK];
	struct twir_module *m = x->m;
	read_axes(x, &r);
	struct twir_tensor *y = tw_y(x, 0);
	const enum twir_scalar type = tw_compute_type(y->type), wide = twir_is_float(type) ? type : TWIR_F64;
	struct twir_tensor *top = tw_temp(x, "top", wide, y->rank, y->shape);
	struct twir_var **axes = tw_axes(x, top, &i);
	const E best = twir_cast(m, wide, reduced(x, &r, y->rank, i, TWIR_Max, NULL));
	const E big = twir_float(m, wide, __builtin_inf());
	const E finite = twir_lt(m, twir_unary(m, TWIR_Abs, best), big);
	tw_define(x, top, axes, twir_select(m, finite, best, twir_float(m, wide, 0)));
	axes = tw_axes(x, y, &i);
	const int n = fold_axes(x, &r, y->rank, i, at, fold, extent);
	const E shift = tw_load(x, top, y->rank, i), v = twir_cast(m, wide, tw_load(x, tw_x(x, 0), r.rank, at));
	const E e = tw_call(x, "exp", twir_sub(m, v, shift));
	const E sum = n ? twir_fold(m, TWIR_Add, n, fold, extent, e) : e;
	tw_define(x, y, axes, twir_cast(m, type, twir_add(m, tw_call(x, "log", sum), shift)));
}

/* ---- ArgMax, ArgMin */

static void read_arg(struct tw_opctx *x, struct reduction *r)
{
	*r = (struct reduction){.rank = tw_in_rank(x, 0), .n = 1, .keep = tw_attr_int(x->node, "keepdims", 1) != 0};
	const int axis = tw_axis(x, tw_attr_int(x->node, "axis", 0), r->rank);
	for (int d = 0; d < r->rank; d++)
		r->gone[d] = twir_bool(x->m, d == axis);
}

static void infer_arg(struct tw_opctx *x)
{
	struct reduction r;
	E shape[TWIR_MAX_RANK];
	tw_need_type(x, 0, "numeric");
	read_arg(x, &r);
	const int n = reduced_shape(x, &r, shape);
	tw_set_out(x, 0, TWIR_I64, n, shape);
}

static void arg(struct tw_opctx *x, enum twir_kind op)
{
	struct reduction r;
	E *i, at[TWIR_MAX_RANK], extent[1];
	struct twir_var *fold[1];
	struct twir_module *m = x->m;
	read_arg(x, &r);
	const bool last = tw_attr_int(x->node, "select_last_index", 0) != 0;
	struct twir_tensor *y = tw_y(x, 0);
	struct twir_tensor *best = tw_temp(x, "best", tw_compute_type(tw_in_type(x, 0)), y->rank, y->shape);
	struct twir_var **axes = tw_axes(x, best, &i);
	tw_define(x, best, axes, reduced(x, &r, y->rank, i, op, NULL));
	axes = tw_axes(x, y, &i);
	fold_axes(x, &r, y->rank, i, at, fold, extent);
	const E v = tw_load(x, tw_x(x, 0), r.rank, at), b = tw_load(x, best, y->rank, i);
	E same = twir_eq(m, v, b);
	if (twir_is_float(v->type.scalar)) /* a NaN is the largest and the smallest */
		same = twir_or(m, same, twir_and(m, twir_ne(m, v, v), twir_ne(m, b, b)));
	const E here = twir_var(m, fold[0]), none = twir_index(m, last ? -1 : INT64_MAX);
	const E place = twir_fold(m, last ? TWIR_Max : TWIR_Min, 1, fold, extent, twir_select(m, same, here, none));
	tw_define(x, y, axes, twir_cast(m, TWIR_I64, place));
}

static void compute_argmax(struct tw_opctx *x)
{
	arg(x, TWIR_Max);
}

static void compute_argmin(struct tw_opctx *x)
{
	arg(x, TWIR_Min);
}

#define A_AXES                                                                                                         \
	{                                                                                                              \
		"axes", TW_ATTR_INTS, false                                                                            \
	}
#define A_KEEP                                                                                                         \
	{                                                                                                              \
		"keepdims", TW_ATTR_INT, false                                                                         \
	}
#define A_NOOP                                                                                                         \
	{                                                                                                              \
		"noop_with_empty_axes", TW_ATTR_INT, false                                                             \
	}

static const struct tw_attr_spec attrs_old[] = {A_AXES, A_KEEP, {NULL}};
static const struct tw_attr_spec attrs_new[] = {A_KEEP, A_NOOP, {NULL}};
static const struct tw_attr_spec attrs_arg[] = {
	{"axis", TW_ATTR_INT, false}, A_KEEP, {"select_last_index", TW_ATTR_INT, false}, {NULL}};

/* `change` is the opset in which axes became an input. */
#define ROWS(NAME, fn, kind, change)                                                                                   \
	{.name = NAME,                                                                                                 \
	 .since = 1,                                                                                                   \
	 .until = (change)-1,                                                                                          \
	 .in = {1, 1},                                                                                                 \
	 .out = {1, 1},                                                                                                \
	 .attrs = attrs_old,                                                                                           \
	 .infer = infer_##kind,                                                                                        \
	 .compute = compute_##fn},                                                                                     \
	{                                                                                                              \
		.name = NAME, .since = change, .in = {1, 2}, .out = {1, 1}, .attrs = attrs_new, .infer = infer_##kind, \
		.compute = compute_##fn                                                                                \
	}

const struct tw_op tw_ops_reduce[] = {
	ROWS("ReduceSum", sum, arithmetic, 13),
	ROWS("ReduceMean", mean, arithmetic, 18),
	ROWS("ReduceProd", prod, arithmetic, 18),
	ROWS("ReduceMax", max, extreme, 18),
	ROWS("ReduceMin", min, extreme, 18),
	ROWS("ReduceL1", l1, arithmetic, 18),
	ROWS("ReduceL2", l2, arithmetic, 18),
	ROWS("ReduceSumSquare", sum_square, arithmetic, 18),
	ROWS("ReduceLogSum", log_sum, arithmetic, 18),
	ROWS("ReduceLogSumExp", log_sum_exp, arithmetic, 18),
	{.name = "ArgMax",
	 .since = 1,
	 .in = {1, 1},
	 .out = {1, 1},
	 .attrs = attrs_arg,
	 .infer = infer_arg,
	 .compute = compute_argmax},
	{.name = "ArgMin",
	 .since = 1,
	 .in = {1, 1},
	 .out = {1, 1},
	 .attrs = attrs_arg,
	 .infer = infer_arg,
	 .compute = compute_argmin},
	{0},
};
