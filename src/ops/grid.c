/* grid.c: GridSample: the input read at places that a grid gives, and AffineGrid, which makes such grids.
 *
 * Along each axis a place has taps (one for nearest, two for linear, four for cubic) with weights; the result is
 * the sum over all combinations of taps. What lies outside is 0, the edge, or a reflection. */
#include "ops/elementwise.h"

typedef const struct twir_expr *E;

enum mode { NEAREST, LINEAR, CUBIC };
enum padding { ZEROS, BORDER, REFLECTION };
enum { MAX_SPATIAL = 3, MAX_TAPS = 4 };

struct sample {
	enum mode mode;
	enum padding padding;
	bool corners;
	int n; /* spatial axes */
};

static void read_sample(struct tw_opctx *x, struct sample *s)
{
	const bool old = x->node->opset < 20;
	const char *mode = tw_attr_string(x->node, "mode", old ? "bilinear" : "linear");
	const char *padding = tw_attr_string(x->node, "padding_mode", "zeros");
	*s = (struct sample){.n = tw_in_rank(x, 0) - 2, .corners = tw_attr_int(x->node, "align_corners", 0) != 0};
	if (!strcmp(mode, "nearest"))
		s->mode = NEAREST;
	else if (!strcmp(mode, old ? "bilinear" : "linear"))
		s->mode = LINEAR;
	else if (!strcmp(mode, old ? "bicubic" : "cubic"))
		s->mode = CUBIC;
	else
		tw_op_fail(x, TW_ERR_MODEL, "mode = '%s' is not known", mode);
	if (!strcmp(padding, "zeros"))
		s->padding = ZEROS;
	else if (!strcmp(padding, "border"))
		s->padding = BORDER;
	else if (!strcmp(padding, "reflection"))
		s->padding = REFLECTION;
	else
		tw_op_fail(x, TW_ERR_MODEL, "padding_mode = '%s' is not known", padding);
	if (s->n < 1 || s->n > MAX_SPATIAL || (s->mode == CUBIC && s->n != 2))
		tw_op_fail(x, TW_ERR_UNSUPPORTED, "mode '%s' on an input of rank %d", mode, s->n + 2);
}

static void infer_sample(struct tw_opctx *x)
{
	struct sample s;
	tw_need_type(x, 0, "numeric");
	tw_need_type(x, 1, "float");
	read_sample(x, &s);
	if (tw_in_rank(x, 1) != s.n + 2)
		tw_op_fail(x, TW_ERR_MODEL, "grid of rank %d for an input of rank %d", tw_in_rank(x, 1), s.n + 2);
	tw_same_size(x, tw_in_dim(x, 1, 0), tw_in_dim(x, 0, 0), "batch sizes");
	tw_same_size(x, tw_in_dim(x, 1, -1), twir_index(x->m, s.n), "coordinates of a place");
	E shape[TWIR_MAX_RANK] = {tw_in_dim(x, 0, 0), tw_in_dim(x, 0, 1)};
	for (int d = 0; d < s.n; d++)
		shape[2 + d] = tw_in_dim(x, 1, 1 + d);
	tw_set_out(x, 0, tw_in_type(x, 0), s.n + 2, shape);
}

/* -1 .. 1 of the grid as a coordinate of an axis */
static E denormalised(struct tw_opctx *x, const struct sample *s, E g, E size)
{
	struct twir_module *m = x->m;
	const E one = tw_like(x, g, 1), half = tw_like(x, g, 0.5), n = tw_size_as(x, g, size),
		from = twir_add(m, g, one);
	if (s->corners)
		return twir_mul(m, twir_mul(m, from, half), twir_sub(m, n, one));
	return twir_mul(m, twir_sub(m, twir_mul(m, from, n), one), half);
}

/* v mirrored at low and at high, as often as it takes */
static E reflected(struct tw_opctx *x, E v, E low, E high)
{
	struct twir_module *m = x->m;
	const E range = twir_sub(m, high, low), period = twir_mul(m, range, tw_like(x, v, 2)), zero = tw_like(x, v, 0);
	const E distance = twir_unary(m, TWIR_Abs, twir_sub(m, v, low));
	const E turns = twir_unary(m, TWIR_Floor, twir_div(m, distance, period));
	const E rest = twir_sub(m, distance, twir_mul(m, turns, period));
	const E folded = twir_select(m, twir_lt(m, range, rest), twir_sub(m, period, rest), rest);
	return twir_select(m, twir_lt(m, zero, range), twir_add(m, low, folded), low);
}

static E padded(struct tw_opctx *x, const struct sample *s, E v, E size)
{
	struct twir_module *m = x->m;
	const E n = tw_size_as(x, v, size), last = twir_sub(m, n, tw_like(x, v, 1));
	if (s->padding == ZEROS)
		return v;
	if (s->padding == BORDER)
		return twir_max(m, tw_like(x, v, 0), twir_min(m, v, last));
	const E half = tw_like(x, v, 0.5);
	return s->corners ? reflected(x, v, tw_like(x, v, 0), last)
			  : reflected(x, v, tw_like(x, v, -0.5), twir_sub(m, n, half));
}

/* Weight of cubic tap k (0 .. 3) for a fraction t of the way from tap 1 to tap 2 */
static E cubic(struct tw_opctx *x, E t, int k)
{
	struct twir_module *m = x->m;
	const double a = -0.75;
	const E distance = twir_unary(m, TWIR_Abs, twir_sub(m, t, tw_like(x, t, k - 1)));
	const E d2 = twir_mul(m, distance, distance), d3 = twir_mul(m, d2, distance);
	if (k == 1 || k == 2)
		return twir_add(
			m, twir_sub(m, twir_mul(m, tw_like(x, t, a + 2), d3), twir_mul(m, tw_like(x, t, a + 3), d2)),
			tw_like(x, t, 1));
	const E high = twir_sub(m, twir_mul(m, tw_like(x, t, a), d3), twir_mul(m, tw_like(x, t, 5 * a), d2));
	return twir_add(m, high, twir_sub(m, twir_mul(m, tw_like(x, t, 8 * a), distance), tw_like(x, t, 4 * a)));
}

struct taps { /* along one axis */
	int n;
	E at[MAX_TAPS], weight[MAX_TAPS], inside[MAX_TAPS];
};

static void make_taps(struct tw_opctx *x, const struct sample *s, E place, E size, struct taps *t)
{
	struct twir_module *m = x->m;
	E v = denormalised(x, s, place, size);
	if (s->mode == NEAREST)
		v = twir_unary(m, TWIR_Round, v);
	v = padded(x, s, v, size);
	const E base = twir_unary(m, TWIR_Floor, v), fraction = twir_sub(m, v, base), one = tw_like(x, v, 1);
	t->n = s->mode == NEAREST ? 1 : s->mode == LINEAR ? 2 : 4;
	for (int k = 0; k < t->n; k++) {
		E at = twir_add(m, base, tw_like(x, v, s->mode == CUBIC ? k - 1 : k));
		if (s->mode != NEAREST && s->padding != ZEROS)
			at = padded(x, s, at, size);
		t->at[k] = twir_cast(m, TWIR_INDEX, s->padding == REFLECTION ? twir_unary(m, TWIR_Round, at) : at);
		t->inside[k] = twir_and(m, twir_le(m, twir_index(m, 0), t->at[k]), twir_lt(m, t->at[k], size));
		t->weight[k] = s->mode == NEAREST ? NULL
			       : s->mode == CUBIC ? cubic(x, fraction, k)
			       : k		  ? fraction
						  : twir_sub(m, one, fraction);
	}
}

static void compute_sample(struct tw_opctx *x)
{
	struct twir_module *m = x->m;
	struct sample s;
	struct taps taps[MAX_SPATIAL];
	read_sample(x, &s);
	struct twir_tensor *y = tw_y(x, 0), *t = tw_x(x, 0);
	E *i, at[TWIR_MAX_RANK], from[TWIR_MAX_RANK];
	struct twir_var **axes = tw_axes(x, y, &i);
	from[0] = at[0] = i[0];
	at[1] = i[1];
	for (int d = 0; d < s.n; d++)
		from[1 + d] = i[2 + d];
	for (int d = 0; d < s.n; d++) {
		from[1 + s.n] = twir_index(m, s.n - 1 - d); /* the last axis comes first in a place */
		make_taps(x, &s, tw_load(x, tw_x(x, 1), s.n + 2, from), t->shape[2 + d], &taps[d]);
	}
	int total = 1;
	for (int d = 0; d < s.n; d++)
		total *= taps[d].n;
	E sum = NULL;
	for (int k = 0; k < total; k++) {
		E inside = NULL, weight = NULL;
		for (int d = s.n - 1, rest = k; d >= 0; rest /= taps[d].n, d--) {
			const int tap = rest % taps[d].n;
			at[2 + d] = taps[d].at[tap];
			inside = inside ? twir_and(m, inside, taps[d].inside[tap]) : taps[d].inside[tap];
			if (taps[d].weight[tap])
				weight = weight ? twir_mul(m, weight, taps[d].weight[tap]) : taps[d].weight[tap];
		}
		E v = tw_load(x, t, s.n + 2, at);
		v = twir_cond(m, inside, v, tw_like(x, v, 0));
		if (weight)
			v = twir_mul(m, twir_cast(m, weight->type.scalar, v), weight);
		sum = sum ? twir_add(m, sum, v) : v;
	}
	tw_define(x, y, axes, twir_cast(m, tw_compute_type(y->type), sum));
}

/* ---- AffineGrid */

static void infer_affine(struct tw_opctx *x)
{
	E const *size;
	tw_need_type(x, 0, "float");
	tw_need_type(x, 1, "i64");
	const int n = tw_in_values(x, 1, &size);
	if (n < 0)
		tw_op_fail(x, TW_ERR_UNSUPPORTED, "a size that only data decides");
	if ((n != 4 && n != 5) || tw_in_rank(x, 0) != 3)
		tw_op_fail(x, TW_ERR_MODEL, "theta of rank %d for a size of %d values", tw_in_rank(x, 0), n);
	E shape[5] = {tw_in_dim(x, 0, 0)};
	for (int d = 2; d < n; d++)
		shape[d - 1] = size[d];
	shape[n - 1] = twir_index(x->m, n - 2);
	tw_same_size(x, tw_in_dim(x, 0, 1), twir_index(x->m, n - 2), "rows of theta");
	tw_same_size(x, tw_in_dim(x, 0, 2), twir_index(x->m, n - 1), "columns of theta");
	tw_set_out(x, 0, tw_in_type(x, 0), n, shape);
}

/* The position of a pixel along an axis, in -1 .. 1 */
static E normalised(struct tw_opctx *x, E at, E size, bool corners, E like)
{
	struct twir_module *m = x->m;
	const E p = twir_cast(m, like->type.scalar, at), n = tw_size_as(x, like, size), one = tw_like(x, like, 1),
		two = tw_like(x, like, 2);
	if (!corners)
		return twir_sub(m, twir_div(m, twir_add(m, twir_mul(m, p, two), one), n), one);
	const E last = twir_max(m, twir_sub(m, n, one), one);
	return twir_sub(m, twir_div(m, twir_mul(m, p, two), last), one);
}

static void compute_affine(struct tw_opctx *x)
{
	struct twir_module *m = x->m;
	struct twir_tensor *y = tw_y(x, 0);
	const int n = y->rank - 2;
	const bool corners = tw_attr_int(x->node, "align_corners", 0) != 0;
	E *i;
	struct twir_var **axes = tw_axes(x, y, &i);
	const E last[] = {i[0], i[n + 1], twir_index(m, n)};
	E sum = tw_load(x, tw_x(x, 0), 3, last);
	for (int k = 0; k < n; k++) { /* column k belongs to the axis that is k-th from the end */
		const E at[] = {i[0], i[n + 1], twir_index(m, k)}, factor = tw_load(x, tw_x(x, 0), 3, at);
		sum = twir_add(m, sum, twir_mul(m, factor, normalised(x, i[n - k], y->shape[n - k], corners, factor)));
	}
	tw_define(x, y, axes, sum);
}

static const struct tw_attr_spec attrs_sample[] = {{"align_corners", TW_ATTR_INT, false},
						   {"mode", TW_ATTR_STRING, false},
						   {"padding_mode", TW_ATTR_STRING, false},
						   {NULL}};
static const struct tw_attr_spec attrs_affine[] = {{"align_corners", TW_ATTR_INT, false}, {NULL}};

const struct tw_op tw_ops_grid[] = {
	{.name = "GridSample",
	 .since = 16,
	 .in = {2, 2},
	 .out = {1, 1},
	 .attrs = attrs_sample,
	 .infer = infer_sample,
	 .compute = compute_sample},
	{.name = "AffineGrid",
	 .since = 20,
	 .in = {2, 2},
	 .out = {1, 1},
	 .attrs = attrs_affine,
	 .infer = infer_affine,
	 .compute = compute_affine},
	{0},
};
