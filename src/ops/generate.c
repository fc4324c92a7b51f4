/* generate.c: tensors made from positions: Range, EyeLike, Trilu, windows of signal processing; running sums along
   an axis: CumSum, CumProd; ReverseSequence. */
#include "ops/elementwise.h"

#include <inttypes.h>
#include <math.h>

typedef const struct twir_expr *E;

/* ---- Range: its length is known as a number or by sizes with symbols; else it is a host operator, and its length a
 * symbol. Nothing bounds that: memory is planned for a guess, which the runtime lets grow (rt/host/range.c). */

enum { RANGE_GUESS = 256 };

static E integer_input(struct tw_opctx *x, int i)
{
	E const *values;
	return tw_in_values(x, i, &values) == 1 ? values[0] : NULL;
}

/* A float that holds a whole number: a constant, or a size with symbols (Cast of Shape). */
static E whole_input(struct tw_opctx *x, int i)
{
	const struct tw_tensor *t = tw_in(x, i);
	double v;
	if (tw_in_scalar(x, i, &v))
		return v == floor(v) && fabs(v) < 1 << 24 ? twir_index(x->m, (int64_t)v) : NULL;
	if (t->nvalues != 1 || t->values[0]->kind != TWIR_Cast || t->values[0]->arg[0]->type.scalar != TWIR_INDEX)
		return NULL;
	return t->values[0]->arg[0];
}

/* NULL: only data knows */
static E range_length(struct tw_opctx *x)
{
	struct twir_module *m = x->m;
	double start, limit, delta;
	const E zero = twir_index(m, 0);
	const bool whole = twir_is_float(tw_in_type(x, 0));
	if (whole && tw_in_scalar(x, 0, &start) && tw_in_scalar(x, 1, &limit) && tw_in_scalar(x, 2, &delta)) {
		const double n = delta != 0 ? ceil((limit - start) / delta) : 0;
		if (!(n < 1e12))
			tw_op_fail(x, TW_ERR_MODEL, "from %g to %g by %g", start, limit, delta);
		return n > 0 ? twir_index(m, (int64_t)n) : zero;
	}
	const E s = whole ? whole_input(x, 0) : integer_input(x, 0),
		l = whole ? whole_input(x, 1) : integer_input(x, 1),
		d = whole ? whole_input(x, 2) : integer_input(x, 2);
	int64_t step;
	if (!s || !l || !d)
		return NULL;
	if (twir_const_int(d, &step) && (step == 0 || step < -(1ll << 40) || step > 1ll << 40))
		tw_op_fail(x, TW_ERR_MODEL, "a step of %" PRId64, step);
	const E up = twir_ceildiv(m, twir_sub(m, l, s), d),
		down = twir_ceildiv(m, twir_sub(m, s, l), twir_unary(m, TWIR_Neg, d));
	return tw_simplify(x, twir_max(m, zero, twir_select(m, twir_lt(m, zero, d), up, down)));
}

static void infer_range(struct tw_opctx *x);

static const struct tw_op host_range = {
	.name = "Range", .since = 11, .in = {3, 3}, .out = {1, 1}, .flags = TW_OP_HOST, .infer = infer_range};

/* Where inputs of the model decide, their values do better (wants_values): other sizes may be known by them too. */
static E decided_length(struct tw_opctx *x)
{
	if (x->g->wants_values || x->g->reference)
		tw_op_fail(x, TW_ERR_UNSUPPORTED, "a length that only data decides");
	tw_need_type(x, 0, "f32 f64 i16 i32 i64");
	x->g->nodes.at[x->node - x->g->nodes.at].op = &host_range;
	return tw_decided_size(x, 0, twir_index(x->m, RANGE_GUESS));
}

static void infer_range(struct tw_opctx *x)
{
	tw_need_type(x, 0, "float i16 i32 i64");
	tw_need_same_type(x, 0, 2);
	for (int i = 0; i < 3; i++)
		tw_need_scalar(x, i);
	const E known = range_length(x), n = known ? known : decided_length(x);
	tw_set_out(x, 0, tw_in_type(x, 0), 1, &n);
}

static void compute_range(struct tw_opctx *x)
{
	struct twir_tensor *y = tw_y(x, 0);
	E *i;
	struct twir_var **axes = tw_axes(x, y, &i);
	const enum twir_scalar type = tw_compute_type(y->type);
	const E start = tw_scalar(x, 0), delta = tw_scalar(x, 2);
	tw_define(x, y, axes, twir_add(x->m, start, twir_mul(x->m, twir_cast(x->m, type, i[0]), delta)));
}

/* ---- EyeLike */

static void infer_eye(struct tw_opctx *x)
{
	static const enum twir_scalar types[] = {
		[1] = TWIR_F32,	 [2] = TWIR_U8,	  [3] = TWIR_I8,   [4] = TWIR_U16,  [5] = TWIR_I16,
		[6] = TWIR_I32,	 [7] = TWIR_I64,  [9] = TWIR_I1,   [10] = TWIR_F16, [11] = TWIR_F64,
		[12] = TWIR_U32, [13] = TWIR_U64, [16] = TWIR_BF16};
	const struct tw_tensor *t = tw_in(x, 0);
	if (t->rank != 2)
		tw_op_fail(x, TW_ERR_MODEL, "input of rank %d; it must be 2", t->rank);
	enum twir_scalar type = t->type;
	if (tw_attr_find(x->node, "dtype")) {
		const int64_t dtype = tw_attr_int(x->node, "dtype", 0);
		if (dtype < 0 || dtype >= TW_COUNT(types) || types[dtype] == TWIR_VOID)
			tw_op_fail(x, TW_ERR_UNSUPPORTED, "dtype = %" PRId64, dtype);
		type = types[dtype];
	}
	tw_set_out(x, 0, type, 2, t->shape);
}

static void compute_eye(struct tw_opctx *x)
{
	struct twir_tensor *y = tw_y(x, 0);
	E *i;
	struct twir_var **axes = tw_axes(x, y, &i);
	const E on = twir_eq(x->m, twir_add(x->m, i[0], twir_index(x->m, tw_attr_int(x->node, "k", 0))), i[1]);
	const struct twir_type type = twir_scalar_type(tw_compute_type(y->type));
	tw_define(x, y, axes,
		  y->type == TWIR_I1
			  ? on
			  : twir_select(x->m, on, twir_const_of(x->m, type, 1), twir_const_of(x->m, type, 0)));
}

/* ---- Trilu */

static void infer_trilu(struct tw_opctx *x)
{
	if (tw_in_rank(x, 0) < 2)
		tw_op_fail(x, TW_ERR_MODEL, "input of rank %d; it must be at least 2", tw_in_rank(x, 0));
	tw_need_scalar(x, 1);
	tw_infer_same(x);
}

static void compute_trilu(struct tw_opctx *x)
{
	struct twir_module *m = x->m;
	struct twir_tensor *y = tw_y(x, 0);
	const int r = y->rank;
	E *i;
	struct twir_var **axes = tw_axes(x, y, &i);
	const E k = tw_has_in(x, 1) ? twir_cast(m, TWIR_INDEX, tw_scalar(x, 1)) : twir_index(m, 0);
	const E diagonal = twir_add(m, i[r - 2], k);
	const E keep =
		tw_attr_int(x->node, "upper", 1) ? twir_le(m, diagonal, i[r - 1]) : twir_le(m, i[r - 1], diagonal);
	const E v = tw_load(x, tw_x(x, 0), r, i);
	tw_define(x, y, axes, twir_select(m, keep, v, y->type == TWIR_I1 ? twir_bool(m, false) : tw_like(x, v, 0)));
}

/* ---- CumSum, CumProd */

/* The axis as conditions: it may be known only at launch. */
static void running_axis(struct tw_opctx *x, E *is_axis)
{
	if (tw_axes_conditions(x, "axis", 1, tw_in_rank(x, 0), is_axis) != 1)
		tw_op_fail(x, TW_ERR_MODEL, "axis must be one number");
}

static void infer_running(struct tw_opctx *x)
{
	E is_axis[TWIR_MAX_RANK];
	tw_need_type(x, 0, "float i32 i64 u32 u64");
	running_axis(x, is_axis);
	tw_infer_same(x);
}

static void running(struct tw_opctx *x, enum twir_kind op)
{
	struct twir_module *m = x->m;
	struct twir_tensor *t = tw_x(x, 0), *y = tw_y(x, 0);
	const bool exclusive = tw_attr_int(x->node, "exclusive", 0) != 0,
		   reverse = tw_attr_int(x->node, "reverse", 0) != 0;
	E *i, at[TWIR_MAX_RANK], is_axis[TWIR_MAX_RANK], extent = twir_index(m, 1), own = twir_index(m, 0);
	struct twir_var **axes = tw_axes(x, y, &i);
	running_axis(x, is_axis);
	for (int d = 0; d < t->rank; d++) {
		extent = twir_select(m, is_axis[d], t->shape[d], extent);
		own = twir_select(m, is_axis[d], i[d], own);
	}
	struct twir_var *k = tw_fold_axis(x, "k", extent);
	const E ke = twir_var(m, k), a = reverse ? own : ke, b = reverse ? ke : own;
	for (int d = 0; d < t->rank; d++)
		at[d] = twir_select(m, is_axis[d], ke, i[d]);
	const E v = tw_load(x, t, t->rank, at), counts = exclusive ? twir_lt(m, a, b) : twir_le(m, a, b);
	const E body = twir_select(m, counts, v, tw_like(x, v, op == TWIR_Add ? 0 : 1));
	tw_define(x, y, axes, twir_fold(m, op, 1, &k, &extent, body));
}

static void compute_cumsum(struct tw_opctx *x)
{
	running(x, TWIR_Add);
}

static void compute_cumprod(struct tw_opctx *x)
{
	running(x, TWIR_Mul);
}

/* ---- ReverseSequence */

static void reverse_axes(struct tw_opctx *x, int *batch, int *time)
{
	*batch = (int)tw_attr_int(x->node, "batch_axis", 1);
	*time = (int)tw_attr_int(x->node, "time_axis", 0);
	if (*batch + *time != 1 || *batch * *time != 0 || tw_in_rank(x, 0) < 2)
		tw_op_fail(x, TW_ERR_MODEL, "batch_axis = %d and time_axis = %d", *batch, *time);
}

static void infer_reverse(struct tw_opctx *x)
{
	int batch, time;
	reverse_axes(x, &batch, &time);
	tw_need_type(x, 1, "i64");
	if (tw_in_rank(x, 1) != 1)
		tw_op_fail(x, TW_ERR_MODEL, "lengths of rank %d", tw_in_rank(x, 1));
	tw_same_size(x, tw_in_dim(x, 1, 0), tw_in_dim(x, 0, batch), "lengths and batch");
	tw_infer_same(x);
}

static void compute_reverse(struct tw_opctx *x)
{
	struct twir_module *m = x->m;
	struct twir_tensor *t = tw_x(x, 0), *y = tw_y(x, 0);
	int batch, time;
	reverse_axes(x, &batch, &time);
	E *i, at[TWIR_MAX_RANK];
	struct twir_var **axes = tw_axes(x, y, &i);
	const E given = twir_cast(m, TWIR_INDEX, tw_load(x, tw_x(x, 1), 1, &i[batch]));
	const E length = twir_min(m, given, t->shape[time]); /* longer ones would read beyond the input */
	for (int d = 0; d < t->rank; d++)
		at[d] = i[d];
	const E back = twir_sub(m, twir_sub(m, length, twir_index(m, 1)), i[time]);
	at[time] = twir_select(m, twir_lt(m, i[time], length), back, i[time]);
	tw_define(x, y, axes, tw_load(x, t, t->rank, at));
}

/* ---- HannWindow, HammingWindow, BlackmanWindow: sums of cosines over a size that must be known */

static enum twir_scalar window_type(struct tw_opctx *x)
{
	const int64_t type = tw_attr_int(x->node, "output_datatype", 1);
	if (type != 1 && type != 10 && type != 11 && type != 16)
		tw_op_fail(x, TW_ERR_UNSUPPORTED, "output_datatype = %" PRId64 "; floats are", type);
	return type == 1 ? TWIR_F32 : type == 10 ? TWIR_F16 : type == 11 ? TWIR_F64 : TWIR_BF16;
}

static void infer_window(struct tw_opctx *x)
{
	const E size = integer_input(x, 0);
	tw_need_type(x, 0, "index");
	if (!size)
		tw_op_fail(x, TW_ERR_UNSUPPORTED, "a size that only data decides");
	tw_set_out(x, 0, window_type(x), 1, &size);
}

static void window(struct tw_opctx *x, double a, double b, double c)
{
	struct twir_module *m = x->m;
	struct twir_tensor *y = tw_y(x, 0);
	E *i;
	struct twir_var **axes = tw_axes(x, y, &i);
	const enum twir_scalar type = tw_compute_type(y->type);
	const bool periodic = tw_attr_int(x->node, "periodic", 1) != 0;
	const E n = twir_cast(m, type,
			      periodic ? y->shape[0]
				       : twir_max(m, twir_sub(m, y->shape[0], twir_index(m, 1)), twir_index(m, 1)));
	const E turn = twir_div(m, twir_mul(m, twir_cast(m, type, i[0]), twir_float(m, type, 2 * M_PI)), n);
	E v = twir_sub(m, twir_float(m, type, a), twir_mul(m, twir_float(m, type, b), tw_call(x, "cos", turn)));
	if (c != 0)
		v = twir_add(
			m, v,
			twir_mul(m, twir_float(m, type, c), tw_call(x, "cos", twir_mul(m, turn, tw_like(x, turn, 2)))));
	tw_define(x, y, axes, v);
}

static void compute_hann(struct tw_opctx *x)
{
	window(x, 0.5, 0.5, 0);
}

static void compute_hamming(struct tw_opctx *x)
{
	window(x, 25.0 / 46, 21.0 / 46, 0);
}

static void compute_blackman(struct tw_opctx *x)
{
	window(x, 0.42, 0.5, 0.08);
}

static const struct tw_attr_spec attrs_window[] = {
	{"output_datatype", TW_ATTR_INT, false}, {"periodic", TW_ATTR_INT, false}, {NULL}};
static const struct tw_attr_spec attrs_eye[] = {{"dtype", TW_ATTR_INT, false}, {"k", TW_ATTR_INT, false}, {NULL}};
static const struct tw_attr_spec attrs_upper[] = {{"upper", TW_ATTR_INT, false}, {NULL}};
static const struct tw_attr_spec attrs_running[] = {
	{"exclusive", TW_ATTR_INT, false}, {"reverse", TW_ATTR_INT, false}, {NULL}};
static const struct tw_attr_spec attrs_reverse[] = {
	{"batch_axis", TW_ATTR_INT, false}, {"time_axis", TW_ATTR_INT, false}, {NULL}};

#define FN(name) .infer = infer_##name, .compute = compute_##name

const struct tw_op tw_ops_generate[] = {
	{.name = "Range", .since = 11, .in = {3, 3}, .out = {1, 1}, FN(range)},
	{.name = "EyeLike",
	 .since = 9,
	 .in = {1, 1},
	 .out = {1, 1},
	 .attrs = attrs_eye,
	 .flags = TW_OP_SHAPE_ONLY,
	 FN(eye)},
	{.name = "Trilu", .since = 14, .in = {1, 2}, .out = {1, 1}, .attrs = attrs_upper, FN(trilu)},
	{.name = "CumSum",
	 .since = 11,
	 .in = {2, 2},
	 .out = {1, 1},
	 .attrs = attrs_running,
	 .infer = infer_running,
	 .compute = compute_cumsum},
	{.name = "CumProd",
	 .since = 26,
	 .in = {2, 2},
	 .out = {1, 1},
	 .attrs = attrs_running,
	 .infer = infer_running,
	 .compute = compute_cumprod},
	{.name = "ReverseSequence", .since = 10, .in = {2, 2}, .out = {1, 1}, .attrs = attrs_reverse, FN(reverse)},
	{.name = "HannWindow",
	 .since = 17,
	 .in = {1, 1},
	 .out = {1, 1},
	 .attrs = attrs_window,
	 .infer = infer_window,
	 .compute = compute_hann},
	{.name = "HammingWindow",
	 .since = 17,
	 .in = {1, 1},
	 .out = {1, 1},
	 .attrs = attrs_window,
	 .infer = infer_window,
	 .compute = compute_hamming},
	{.name = "BlackmanWindow",
	 .since = 17,
	 .in = {1, 1},
	 .out = {1, 1},
	 .attrs = attrs_window,
	 .infer = infer_window,
	 .compute = compute_blackman},
	{0},
};
