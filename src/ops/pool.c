/* pool.c: MaxPool, AveragePool, LpPool and their global forms: direct folds over the window. */
#include "ops/elementwise.h"
#include "ops/window.h"

typedef const struct twir_expr *E;

static bool ceil_mode(struct tw_opctx *x)
{
	return tw_attr_int(x->node, "ceil_mode", 0) != 0;
}

static void infer_window(struct tw_opctx *x)
{
	struct tw_window w = {0};
	tw_window_read(x, &w, NULL, ceil_mode(x));
	if (w.n < 1)
		tw_op_fail(x, TW_ERR_MODEL, "input without spatial axes");
	E shape[TWIR_MAX_RANK] = {tw_in_dim(x, 0, 0), tw_in_dim(x, 0, 1)};
	for (int d = 0; d < w.n; d++)
		shape[2 + d] = w.out[d];
	tw_set_out(x, 0, tw_in_type(x, 0), 2 + w.n, shape);
	tw_set_out(x, 1, TWIR_I64, 2 + w.n, shape);
}

static void infer_max(struct tw_opctx *x)
{
	tw_need_type(x, 0, x->node->opset >= 12 ? "float i8 u8" : "float");
	infer_window(x);
}

static void infer_float(struct tw_opctx *x)
{
	tw_need_type(x, 0, "float");
	infer_window(x);
}

struct fold { /* of one window */
	struct tw_window w;
	struct twir_tensor *y;
	struct twir_var **axes, *taps[TW_MAX_SPATIAL];
	E *i, at[TWIR_MAX_RANK], extent[TW_MAX_SPATIAL], inside;
};

static void start(struct tw_opctx *x, struct fold *f, struct twir_tensor *y)
{
	*f = (struct fold){.y = y};
	tw_window_read(x, &f->w, NULL, ceil_mode(x));
	f->axes = tw_axes(x, y, &f->i);
	f->at[0] = f->i[0];
	f->at[1] = f->i[1];
	for (int d = 0; d < f->w.n; d++) {
		f->extent[d] = twir_index(x->m, f->w.kernel[d]);
		f->taps[d] = tw_fold_axis(x, "k", f->extent[d]);
		f->at[2 + d] = tw_window_at(x, &f->w, d, f->i[2 + d], twir_var(x->m, f->taps[d]), &f->inside);
	}
}

static E finish(struct tw_opctx *x, const struct fold *f, enum twir_kind op, E body)
{
	return twir_fold(x->m, op, f->w.n, f->taps, f->extent, body);
}

/* ---- MaxPool */

static void define_indices(struct tw_opctx *x)
{
	struct fold f;
	struct twir_module *m = x->m;
	start(x, &f, tw_y(x, 1));
	const E best = tw_load(x, tw_y(x, 0), f.y->rank, f.i), here = tw_load(x, tw_x(x, 0), f.y->rank, f.at);
	E same = twir_eq(m, here, best);
	if (twir_is_float(best->type.scalar)) /* a NaN is the largest */
		same = twir_or(m, same, twir_and(m, twir_ne(m, here, here), twir_ne(m, best, best)));
	/* Row-major over (N, C, spatial..), or with the spatial axes in reverse order. */
	E flat = tw_flatten(x, f.y->rank, tw_x(x, 0)->shape, f.at);
	if (tw_attr_int(x->node, "storage_order", 0)) {
		flat = tw_flatten(x, 2, tw_x(x, 0)->shape, f.at);
		for (int d = f.w.n - 1; d >= 0; d--)
			flat = twir_add(m, twir_mul(m, flat, f.w.in[d]), f.at[2 + d]);
	}
	const E none = twir_index(m, INT64_MAX);
	const E one = twir_select(m, same, flat, none); /* under the guard of the load */
	E first = finish(x, &f, TWIR_Min, tw_where_inside(x, f.inside, one, none));
	first = twir_select(m, twir_eq(m, first, none), twir_index(m, 0), first);
	tw_define(x, f.y, f.axes, twir_cast(m, TWIR_I64, first));
}

static void compute_max(struct tw_opctx *x)
{
	struct fold f;
	start(x, &f, tw_y(x, 0));
	const E v = tw_load(x, tw_x(x, 0), f.y->rank, f.at);
	const E outside = twir_neutral(x->m, TWIR_Max, v->type);
	tw_define(x, f.y, f.axes, finish(x, &f, TWIR_Max, tw_where_inside(x, f.inside, v, outside)));
	if (tw_has_out(x, 1))
		define_indices(x);
}

/* ---- AveragePool */

/* a / b rounded up, for b > 0 */
static E ceiling(struct tw_opctx *x, E a, int64_t b)
{
	return twir_div(x->m, twir_add(x->m, a, twir_index(x->m, b - 1)), twir_index(x->m, b));
}

/* How many kernel elements of the window at o lie in begin .. begin + size - 1, in coordinates where the window of
   o = 0 starts at 0. */
static E taps_inside(struct tw_opctx *x, const struct tw_window *w, int d, E o, E begin, E size)
{
	struct twir_module *m = x->m;
	const E kernel = twir_index(m, w->kernel[d]), zero = twir_index(m, 0);
	const E at = twir_mul(m, o, twir_index(m, w->stride[d]));
	const E low = twir_max(m, zero, ceiling(x, twir_sub(m, begin, at), w->dilation[d]));
	const E high = twir_min(m, kernel, ceiling(x, twir_sub(m, twir_add(m, begin, size), at), w->dilation[d]));
	return twir_max(m, twir_sub(m, high, low), zero);
}

static E window_count(struct tw_opctx *x, const struct fold *f)
{
	struct twir_module *m = x->m;
	const bool include = tw_attr_int(x->node, "count_include_pad", 0) != 0;
	E count = twir_index(m, 1);
	for (int d = 0; d < f->w.n; d++) {
		const struct tw_window *w = &f->w;
		const E padded = twir_add(m, twir_add(m, w->in[d], w->begin[d]), w->end[d]);
		E one = twir_index(m, w->kernel[d]);
		if (include && ceil_mode(x))
			one = taps_inside(x, w, d, f->i[2 + d], twir_index(m, 0), padded);
		else if (!include && (w->may_start_before[d] || w->may_end_after[d]))
			one = taps_inside(x, w, d, f->i[2 + d], w->begin[d], w->in[d]);
		count = twir_mul(m, count, one);
	}
	return tw_simplify(x, count);
}

static void compute_average(struct tw_opctx *x)
{
	struct fold f;
	start(x, &f, tw_y(x, 0));
	const E v = tw_load(x, tw_x(x, 0), f.y->rank, f.at);
	const E sum = finish(x, &f, TWIR_Add, tw_where_inside(x, f.inside, v, tw_like(x, v, 0)));
	const E count = window_count(x, &f);
	tw_define(x, f.y, f.axes, twir_div(x->m, sum, tw_size_as(x, sum, count)));
}

/* ---- LpPool */

static E power(struct tw_opctx *x, E a, double p)
{
	if (p == 1)
		return a;
	if (p == 2)
		return twir_mul(x->m, a, a);
	const E args[] = {a, tw_like(x, a, p)};
	return twir_math(x->m, "pow", 2, args);
}

static E root(struct tw_opctx *x, E sum, double p)
{
	if (p == 1)
		return sum;
	if (p == 2)
		return twir_unary(x->m, TWIR_Sqrt, sum);
	return power(x, sum, 1 / p);
}

static double lp_order(struct tw_opctx *x)
{
	const int64_t p = tw_attr_int(x->node, "p", 2);
	if (p < 1)
		tw_op_fail(x, TW_ERR_MODEL, "p must be at least 1");
	return (double)p;
}

static void infer_lp(struct tw_opctx *x)
{
	lp_order(x);
	infer_float(x);
}

static void compute_lp(struct tw_opctx *x)
{
	struct fold f;
	start(x, &f, tw_y(x, 0));
	const double p = lp_order(x);
	const E v = tw_load(x, tw_x(x, 0), f.y->rank, f.at);
	const E one = power(x, twir_unary(x->m, TWIR_Abs, v), p);
	tw_define(x, f.y, f.axes,
		  root(x, finish(x, &f, TWIR_Add, tw_where_inside(x, f.inside, one, tw_like(x, v, 0))), p));
}

/* ---- global pools */

static void infer_global(struct tw_opctx *x)
{
	tw_need_type(x, 0, "float");
	const int rank = tw_in_rank(x, 0);
	if (rank < 2)
		tw_op_fail(x, TW_ERR_MODEL, "input of rank %d", rank);
	E shape[TWIR_MAX_RANK] = {tw_in_dim(x, 0, 0), tw_in_dim(x, 0, 1)};
	for (int d = 2; d < rank; d++)
		shape[d] = twir_index(x->m, 1);
	tw_set_out(x, 0, tw_in_type(x, 0), rank, shape);
}

static void global(struct tw_opctx *x, enum twir_kind op, double p)
{
	struct twir_tensor *y = tw_y(x, 0), *t = tw_x(x, 0);
	E *i, at[TWIR_MAX_RANK];
	struct twir_var **axes = tw_axes(x, y, &i), *fold[TWIR_MAX_RANK];
	const int n = y->rank - 2;
	at[0] = i[0];
	at[1] = i[1];
	for (int d = 0; d < n; d++) {
		fold[d] = tw_fold_axis(x, "k", t->shape[2 + d]);
		at[2 + d] = twir_var(x->m, fold[d]);
	}
	E v = tw_load(x, t, y->rank, at);
	if (p)
		v = power(x, twir_unary(x->m, TWIR_Abs, v), p);
	E r = n ? twir_fold(x->m, op, n, fold, t->shape + 2, v) : v;
	if (p)
		r = root(x, r, p);
	else if (op == TWIR_Add)
		r = twir_div(x->m, r, tw_size_as(x, r, tw_product(x, n, t->shape + 2)));
	tw_define(x, y, axes, r);
}

static void compute_global_average(struct tw_opctx *x)
{
	global(x, TWIR_Add, 0);
}

static void compute_global_max(struct tw_opctx *x)
{
	global(x, TWIR_Max, 0);
}

static void compute_global_lp(struct tw_opctx *x)
{
	global(x, TWIR_Add, lp_order(x));
}

#define WINDOW                                                                                                         \
	{"auto_pad", TW_ATTR_STRING, false}, {"ceil_mode", TW_ATTR_INT, false}, {"dilations", TW_ATTR_INTS, false},    \
		{"kernel_shape", TW_ATTR_INTS, true}, {"pads", TW_ATTR_INTS, false},                                   \
	{                                                                                                              \
		"strides", TW_ATTR_INTS, false                                                                         \
	}

static const struct tw_attr_spec attrs_max[] = {WINDOW, {"storage_order", TW_ATTR_INT, false}, {NULL}};
static const struct tw_attr_spec attrs_average[] = {WINDOW, {"count_include_pad", TW_ATTR_INT, false}, {NULL}};
static const struct tw_attr_spec attrs_lp[] = {WINDOW, {"p", TW_ATTR_INT, false}, {NULL}};
static const struct tw_attr_spec attrs_p[] = {{"p", TW_ATTR_INT, false}, {NULL}};

const struct tw_op tw_ops_pool[] = {
	{.name = "MaxPool",
	 .since = 1,
	 .in = {1, 1},
	 .out = {1, 2},
	 .attrs = attrs_max,
	 .flags = TW_OP_IMAGE,
	 .infer = infer_max,
	 .compute = compute_max},
	{.name = "AveragePool",
	 .since = 7,
	 .in = {1, 1},
	 .out = {1, 1},
	 .attrs = attrs_average,
	 .flags = TW_OP_IMAGE,
	 .infer = infer_float,
	 .compute = compute_average},
	{.name = "LpPool",
	 .since = 2,
	 .in = {1, 1},
	 .out = {1, 1},
	 .attrs = attrs_lp,
	 .flags = TW_OP_IMAGE,
	 .infer = infer_lp,
	 .compute = compute_lp},
	{.name = "GlobalAveragePool",
	 .since = 1,
	 .in = {1, 1},
	 .out = {1, 1},
	 .flags = TW_OP_IMAGE,
	 .infer = infer_global,
	 .compute = compute_global_average},
	{.name = "GlobalMaxPool",
	 .since = 1,
	 .in = {1, 1},
	 .out = {1, 1},
	 .flags = TW_OP_IMAGE,
	 .infer = infer_global,
	 .compute = compute_global_max},
	{.name = "GlobalLpPool",
	 .since = 2,
	 .in = {1, 1},
	 .out = {1, 1},
	 .attrs = attrs_p,
	 .flags = TW_OP_IMAGE,
	 .infer = infer_global,
	 .compute = compute_global_lp},
	{0},
};
