/* fourier.c: DFT and STFT as products with a matrix of roots of unity, and MelWeightMatrix.
 *
 * Stages: the signal as a matrix, a row for each transform; the matrix of roots, which is made at compile time where
 * sizes are constants; their product, in the form that matmul schedules; its elements in the order of the output. */
#include "ops/elementwise.h"

#include <inttypes.h>
#include <math.h>

typedef const struct twir_expr *E;

#define PI 3.14159265358979323846

struct transform {
	bool inverse, real; /* real: from the first half of the frequencies to real numbers */
	int64_t parts;	    /* of an element of the input: 1 or 2 */
	E length;	    /* of the transform */
	E used;		    /* elements of the input that count; the others are zero */
	E made;		    /* elements of the output */
};

static int64_t parts_of(struct tw_opctx *x)
{
	int64_t parts;
	if (!twir_const_int(tw_in_dim(x, 0, -1), &parts) || (parts != 1 && parts != 2))
		tw_op_fail(x, TW_ERR_MODEL, "a last axis of size %s; it must be 1 or 2",
			   twir_print_expr(x->arena, tw_in_dim(x, 0, -1)));
	return parts;
}

static E half(struct tw_opctx *x, E n)
{
	return tw_simplify(x, twir_add(x->m, twir_div(x->m, n, twir_index(x->m, 2)), twir_index(x->m, 1)));
}

/* Element of a scalar input that decides sizes */
static E size_input(struct tw_opctx *x, int i, const char *what)
{
	E const *values;
	int64_t known;
	if (tw_in_values(x, i, &values) != 1)
		tw_op_fail(x, TW_ERR_UNSUPPORTED, "%s that only data decides", what);
	if (twir_const_int(values[0], &known) && known < 1)
		tw_op_fail(x, TW_ERR_MODEL, "%s of %" PRId64, what, known);
	return values[0];
}

static void finish(struct tw_opctx *x, struct transform *t, E given, bool onesided)
{
	t->real = t->inverse && onesided;
	t->used = tw_simplify(x, twir_min(x->m, given, t->real ? half(x, t->length) : t->length));
	t->made = onesided && !t->inverse ? half(x, t->length) : t->length;
}

/* Element (l, c) of the signal times root (row, column) of the matrix: row l * parts + c, column k * results + r. */
static struct twir_tensor *roots(struct tw_opctx *x, const struct transform *t, enum twir_scalar type)
{
	struct twir_module *m = x->m;
	const E parts = twir_index(m, t->parts), results = twir_index(m, t->real ? 1 : 2), zero = twir_index(m, 0);
	const E shape[] = {twir_mul(m, t->used, parts), twir_mul(m, t->made, results)};
	struct twir_tensor *b = tw_temp(x, "roots", type, 2, shape);
	E *i;
	struct twir_var **axes = tw_axes(x, b, &i);
	const E l = twir_div(m, i[0], parts), c = twir_mod(m, i[0], parts), k = twir_div(m, i[1], results),
		r = twir_mod(m, i[1], results);
	const E turn = twir_cast(m, TWIR_F64, twir_mod(m, twir_mul(m, l, k), t->length)),
		whole = twir_cast(m, TWIR_F64, t->length);
	const E angle = twir_mul(m, twir_div(m, turn, whole), tw_like(x, turn, 2 * PI));
	E sine = tw_call(x, "sin", angle), v;
	/* (a + bi)(cos + s sin i), s the sign of the exponent: a's part is cos and s sin, b's is -s sin and cos */
	const E own = twir_eq(m, c, r), negative = twir_eq(m, twir_ne(m, c, zero), twir_bool(m, t->inverse));
	sine = twir_select(m, negative, twir_unary(m, TWIR_Neg, sine), sine);
	v = twir_select(m, own, tw_call(x, "cos", angle), sine);
	if (t->real) { /* the other half are the conjugates of all but the first and the middle */
		const E alone =
			twir_or(m, twir_eq(m, l, zero), twir_eq(m, twir_mul(m, l, twir_index(m, 2)), t->length));
		v = twir_select(m, alone, v, twir_mul(m, v, tw_like(x, v, 2)));
	}
	tw_define(x, b, axes, twir_cast(m, type, t->inverse ? twir_div(m, v, whole) : v));
	return b;
}

static struct twir_tensor *product(struct tw_opctx *x, struct twir_tensor *a, struct twir_tensor *b)
{
	const E shape[] = {a->shape[0], b->shape[1]};
	struct twir_tensor *c = tw_temp(x, "spectrum", a->type, 2, shape);
	E *i;
	struct twir_var **axes = tw_axes(x, c, &i), *k = tw_fold_axis(x, "k", a->shape[1]);
	const E left[] = {i[0], twir_var(x->m, k)}, right[] = {twir_var(x->m, k), i[1]};
	const E v = twir_mul(x->m, tw_load(x, a, 2, left), tw_load(x, b, 2, right));
	tw_define(x, c, axes, twir_fold(x->m, TWIR_Add, 1, &k, &a->shape[1], v));
	return c;
}

/* ---- DFT along one axis; the last holds real and imaginary parts */

static int dft_axis(struct tw_opctx *x)
{
	const int64_t *axis;
	const int rank = tw_in_rank(x, 0);
	int64_t value = tw_attr_int(x->node, "axis", x->node->opset < 20 ? 1 : -2);
	if (tw_has_in(x, 2)) {
		if (tw_in_consts(x, 2, &axis) != 1)
			tw_op_fail(x, TW_ERR_UNSUPPORTED, "an axis that only data decides");
		value = axis[0];
	}
	const int d = tw_axis(x, value, rank);
	if (d == rank - 1)
		tw_op_fail(x, TW_ERR_MODEL, "a transform along the last axis, which holds the parts of a number");
	return d;
}

static void read_dft(struct tw_opctx *x, int axis, struct transform *t)
{
	const bool onesided = tw_attr_int(x->node, "onesided", 0) != 0;
	const E given = tw_in_dim(x, 0, axis);
	*t = (struct transform){.inverse = tw_attr_int(x->node, "inverse", 0) != 0, .parts = parts_of(x)};
	if (tw_has_in(x, 1))
		t->length = size_input(x, 1, "a dft_length");
	else if (t->inverse && onesided)
		t->length =
			tw_simplify(x, twir_mul(x->m, twir_sub(x->m, given, twir_index(x->m, 1)), twir_index(x->m, 2)));
	else
		t->length = given;
	finish(x, t, given, onesided);
}

static void infer_dft(struct tw_opctx *x)
{
	struct transform t;
	E shape[TWIR_MAX_RANK];
	tw_need_type(x, 0, "float");
	const int rank = tw_in_rank(x, 0);
	if (rank < 2)
		tw_op_fail(x, TW_ERR_MODEL, "input of rank %d; it must be at least 2", rank);
	const int axis = dft_axis(x);
	read_dft(x, axis, &t);
	for (int d = 0; d < rank; d++)
		shape[d] = d == axis ? t.made : tw_in_dim(x, 0, d);
	shape[rank - 1] = twir_index(x->m, t.real ? 1 : 2);
	tw_set_out(x, 0, tw_in_type(x, 0), rank, shape);
}

static void compute_dft(struct tw_opctx *x)
{
	struct twir_module *m = x->m;
	struct twir_tensor *from = tw_x(x, 0), *y = tw_y(x, 0);
	const int rank = from->rank, axis = dft_axis(x);
	const enum twir_scalar type = tw_compute_type(from->type);
	struct transform t;
	E others[TWIR_MAX_RANK], at[TWIR_MAX_RANK], *i;
	int n = 0;
	read_dft(x, axis, &t);
	for (int d = 0; d < rank - 1; d++)
		if (d != axis)
			others[n++] = from->shape[d];
	const E parts = twir_index(m, t.parts), shape[] = {tw_product(x, n, others), twir_mul(m, t.used, parts)};
	struct twir_tensor *a = tw_temp(x, "signal", type, 2, shape);
	struct twir_var **axes = tw_axes(x, a, &i);
	tw_unflatten(x, i[0], n, others, at);
	for (int d = rank - 2, k = n; d >= 0; d--)
		at[d] = d == axis ? twir_div(m, i[1], parts) : at[--k];
	at[rank - 1] = twir_mod(m, i[1], parts);
	tw_define(x, a, axes, tw_load(x, from, rank, at));

	struct twir_tensor *c = product(x, a, roots(x, &t, type));
	axes = tw_axes(x, y, &i);
	n = 0;
	for (int d = 0; d < rank - 1; d++)
		if (d != axis)
			at[n++] = i[d];
	const E column = twir_add(m, twir_mul(m, i[axis], y->shape[rank - 1]), i[rank - 1]);
	const E place[] = {tw_flatten(x, n, others, at), column};
	tw_define(x, y, axes, tw_load(x, c, 2, place));
}

/* ---- STFT: transforms of frames: signal (batch, length, parts), step, window, frame length -> (batch, frames,
   frequencies, 2) */

static E read_stft(struct tw_opctx *x, struct transform *t, E *step)
{
	struct twir_module *m = x->m;
	*t = (struct transform){.parts = parts_of(x)};
	*step = size_input(x, 1, "a frame_step");
	if (tw_has_in(x, 3))
		t->length = size_input(x, 3, "a frame_length");
	else
		t->length = tw_has_in(x, 2) ? tw_in_dim(x, 2, 0) : tw_in_dim(x, 0, 1);
	if (tw_has_in(x, 2))
		tw_same_size(x, t->length, tw_in_dim(x, 2, 0), "frame_length and window");
	finish(x, t, t->length, tw_attr_int(x->node, "onesided", 1) != 0);
	const E rest = twir_div(m, twir_sub(m, tw_in_dim(x, 0, 1), t->length), *step);
	return tw_simplify(x, twir_max(m, twir_index(m, 0), twir_add(m, rest, twir_index(m, 1))));
}

static void infer_stft(struct tw_opctx *x)
{
	struct transform t;
	E step;
	tw_need_type(x, 0, "float");
	if (tw_in_rank(x, 0) != 3 || (tw_has_in(x, 2) && tw_in_rank(x, 2) != 1))
		tw_op_fail(x, TW_ERR_MODEL, "signal of rank %d; it must be 3, and the window's 1", tw_in_rank(x, 0));
	const E frames = read_stft(x, &t, &step);
	const E shape[] = {tw_in_dim(x, 0, 0), frames, t.made, twir_index(x->m, 2)};
	tw_set_out(x, 0, tw_in_type(x, 0), 4, shape);
}

static void compute_stft(struct tw_opctx *x)
{
	struct twir_module *m = x->m;
	struct twir_tensor *from = tw_x(x, 0), *y = tw_y(x, 0);
	const enum twir_scalar type = tw_compute_type(from->type);
	struct transform t;
	E step, *i;
	const E frames = read_stft(x, &t, &step), parts = twir_index(m, t.parts);
	const E shape[] = {twir_mul(m, y->shape[0], frames), twir_mul(m, t.used, parts)};
	struct twir_tensor *a = tw_temp(x, "frames", type, 2, shape);
	struct twir_var **axes = tw_axes(x, a, &i);
	const E start = twir_mul(m, twir_mod(m, i[0], frames), step), l = twir_div(m, i[1], parts);
	const E at[] = {twir_div(m, i[0], frames), twir_add(m, start, l), twir_mod(m, i[1], parts)};
	E v = tw_load(x, from, 3, at);
	if (tw_has_in(x, 2))
		v = twir_mul(m, v, twir_cast(m, v->type.scalar, tw_load(x, tw_x(x, 2), 1, &l)));
	tw_define(x, a, axes, v);

	struct twir_tensor *c = product(x, a, roots(x, &t, type));
	axes = tw_axes(x, y, &i);
	const E place[] = {twir_add(m, twir_mul(m, i[0], frames), i[1]),
			   twir_add(m, twir_mul(m, i[2], twir_index(m, 2)), i[3])};
	tw_define(x, y, axes, tw_load(x, c, 2, place));
}

/* ---- MelWeightMatrix: triangles over frequencies, spaced evenly in mel. All inputs must be known. */

struct mel {
	double bins, length, rate, low, high;
};

static void read_mel(struct tw_opctx *x, struct mel *a)
{
	double *to[] = {&a->bins, &a->length, &a->rate, &a->low, &a->high};
	for (int i = 0; i < 5; i++)
		if (!tw_in_scalar(x, i, to[i]))
			tw_op_fail(x, TW_ERR_UNSUPPORTED, "input %d that only data decides", i);
	if (!(a->bins >= 1 && a->bins < 1 << 16 && a->length >= 1 && a->length < 1 << 24 && a->rate >= 1 &&
	      a->low >= 0 && a->high >= a->low && a->high <= a->rate / 2 + 1))
		tw_op_fail(x, TW_ERR_MODEL, "%g bins for a dft_length of %g from %g to %g Hz at a rate of %g", a->bins,
			   a->length, a->low, a->high, a->rate);
}

static void infer_mel(struct tw_opctx *x)
{
	struct mel a;
	read_mel(x, &a);
	const int64_t type = tw_attr_int(x->node, "output_datatype", 1);
	if (type != 1 && type != 11)
		tw_op_fail(x, TW_ERR_UNSUPPORTED, "output_datatype = %" PRId64, type);
	const E shape[] = {twir_index(x->m, (int64_t)a.length / 2 + 1), twir_index(x->m, (int64_t)a.bins)};
	tw_set_out(x, 0, type == 1 ? TWIR_F32 : TWIR_F64, 2, shape);
}

/* The frequency bin where triangle k begins; its top is where k + 1 does */
static int64_t mel_edge(const struct mel *a, int64_t k)
{
	const double low = 2595 * log10(1 + a->low / 700), high = 2595 * log10(1 + a->high / 700);
	const double mel = low + (double)k * (high - low) / (a->bins + 2);
	return (int64_t)floor((a->length + 1) * (700 * (pow(10, mel / 2595) - 1)) / a->rate);
}

static void compute_mel(struct tw_opctx *x)
{
	struct mel a;
	read_mel(x, &a);
	const int64_t rows = (int64_t)a.length / 2 + 1, columns = (int64_t)a.bins, dims[] = {rows, columns};
	double *w = ARENA_ARRAY(x->arena, double, (size_t)(rows * columns));
	for (int64_t c = 0; c < columns; c++) {
		const int64_t low = mel_edge(&a, c), top = mel_edge(&a, c + 1), high = mel_edge(&a, c + 2);
		for (int64_t r = 0; r < rows; r++) {
			double v = r == top;
			if (r >= low && r < top)
				v = (double)(r - low) / (double)(top - low);
			else if (r > top && r < high)
				v = (double)(high - r) / (double)(high - top);
			w[r * columns + c] = v;
		}
	}
	struct twir_tensor *table = tw_table(x, "mel", TWIR_F64, 2, dims, w), *y = tw_y(x, 0);
	E *i;
	struct twir_var **axes = tw_axes(x, y, &i);
	tw_define(x, y, axes, twir_cast(x->m, y->type, tw_load(x, table, 2, i)));
}

static const struct tw_attr_spec attrs17[] = {
	{"axis", TW_ATTR_INT, false}, {"inverse", TW_ATTR_INT, false}, {"onesided", TW_ATTR_INT, false}, {NULL}};
static const struct tw_attr_spec attrs20[] = {
	{"inverse", TW_ATTR_INT, false}, {"onesided", TW_ATTR_INT, false}, {NULL}};
static const struct tw_attr_spec attrs_stft[] = {{"onesided", TW_ATTR_INT, false}, {NULL}};
static const struct tw_attr_spec attrs_mel[] = {{"output_datatype", TW_ATTR_INT, false}, {NULL}};

#define ROW(NAME, first, last, fewest, most, list, fn)                                                                 \
	{                                                                                                              \
		.name = NAME, .since = first, .until = last, .in = {fewest, most}, .out = {1, 1}, .attrs = list,       \
		.infer = infer_##fn, .compute = compute_##fn                                                           \
	}

const struct tw_op tw_ops_fourier[] = {
	ROW("DFT", 17, 19, 1, 2, attrs17, dft),
	ROW("DFT", 20, 0, 1, 3, attrs20, dft),
	ROW("STFT", 17, 0, 2, 4, attrs_stft, stft),
	ROW("MelWeightMatrix", 17, 0, 5, 5, attrs_mel, mel),
	{0},
};
