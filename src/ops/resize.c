/* resize.c: Resize and Upsample, one axis after another: each resized axis is a definition that reads the taps of
 * one output coordinate.
 *
 * Nearest reads one tap, linear two, cubic four; with antialias the filter widens by the inverse scale and the taps
 * are a fold. Integer scales of nearest modes become index arithmetic; everything else computes coordinates in f32. */
#include "ops/elementwise.h"

#include <inttypes.h>
#include <math.h>

typedef const struct twir_expr *E;

enum mode { NEAREST, LINEAR, CUBIC };
enum coordinates {
	HALF_PIXEL,
	HALF_PIXEL_SYMMETRIC,
	PYTORCH_HALF_PIXEL,
	ALIGN_CORNERS,
	ASYMMETRIC,
	TF_CROP,
	TF_HALF_PIXEL_NN
};
enum rounding { PREFER_FLOOR, PREFER_CEIL, FLOOR, CEIL };

struct axis { /* of the input */
	bool resized;
	E in, out;
	double scale; /* 0: out / in, known only at launch */
	E num, den;   /* the scale is exactly num / den; NULL: it is not a fraction */
	E start, end; /* of the region, TF_CROP */
};

struct resize {
	enum mode mode;
	enum coordinates coordinates;
	enum rounding rounding;
	bool antialias, exclude;
	double cubic_a, extrapolation;
	int rank;
	struct axis axis[TWIR_MAX_RANK];
};

static int choose(struct tw_opctx *x, const char *attr, const char *otherwise, const char *const *names)
{
	const char *s = tw_attr_string(x->node, attr, otherwise);
	for (int i = 0; names[i]; i++)
		if (!strcmp(names[i], s))
			return i;
	tw_op_fail(x, TW_ERR_MODEL, "%s = '%s' is not known", attr, s);
}

static void read_modes(struct tw_opctx *x, struct resize *r)
{
	static const char *const modes[] = {"nearest", "linear", "cubic", NULL};
	static const char *const coordinates[] = {
		"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel",   "align_corners",
		"asymmetric", "tf_crop_and_resize",   "tf_half_pixel_for_nn", NULL};
	static const char *const roundings[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil", NULL};
	const bool old = x->node->opset < 11 || !strcmp(x->node->op_type, "Upsample");
	if (!strcmp(tw_attr_string(x->node, "mode", "nearest"), "bilinear") && old)
		r->mode = LINEAR;
	else
		r->mode = (enum mode)choose(x, "mode", "nearest", modes);
	r->coordinates = old ? ASYMMETRIC
			     : (enum coordinates)choose(x, "coordinate_transformation_mode", "half_pixel", coordinates);
	r->rounding = old ? FLOOR : (enum rounding)choose(x, "nearest_mode", "round_prefer_floor", roundings);
	r->antialias = tw_attr_int(x->node, "antialias", 0) != 0 && r->mode != NEAREST;
	r->exclude = tw_attr_int(x->node, "exclude_outside", 0) != 0;
	r->cubic_a = (double)tw_attr_float(x->node, "cubic_coeff_a", -0.75f);
	r->extrapolation = (double)tw_attr_float(x->node, "extrapolation_value", 0);
}

/* floor(in * scale) with a size that holds symbols: by a fraction that is exactly the scale. */
static E scaled_size(struct tw_opctx *x, E in, double scale)
{
	int64_t n;
	if (twir_const_int(in, &n))
		return twir_index(x->m, (int64_t)floorf((float)n * (float)scale));
	for (int64_t q = 1; q <= 4096; q++) {
		const double p = nearbyint(scale * (double)q);
		if (p >= 1 && (float)(p / (double)q) == (float)scale) {
			const E product = twir_mul(x->m, in, twir_index(x->m, (int64_t)p));
			return tw_simplify(x, twir_div(x->m, product, twir_index(x->m, q)));
		}
	}
	tw_op_fail(x, TW_ERR_UNSUPPORTED, "scale %g of a size that is known only at launch", scale);
}

static void apply_policy(struct tw_opctx *x, struct resize *r, int n, const int *axes)
{
	static const char *const names[] = {"stretch", "not_larger", "not_smaller", NULL};
	const int policy = choose(x, "keep_aspect_ratio_policy", "stretch", names);
	if (policy == 0)
		return;
	double best = 0;
	int64_t in, out;
	for (int k = 0; k < n; k++) {
		const struct axis *a = &r->axis[axes[k]];
		if (!twir_const_int(a->in, &in) || !twir_const_int(a->out, &out))
			tw_op_fail(x, TW_ERR_UNSUPPORTED,
				   "keep_aspect_ratio_policy with sizes that are known only at launch");
		const double s = (double)out / (double)in;
		best = k == 0 || (policy == 1 ? s < best : s > best) ? s : best;
	}
	for (int k = 0; k < n; k++) {
		struct axis *a = &r->axis[axes[k]];
		twir_const_int(a->in, &in);
		a->out = twir_index(x->m, (int64_t)floor(best * (double)in + 0.5));
		a->scale = best;
		a->num = a->den = NULL;
	}
}

static void read_sizes(struct tw_opctx *x, struct resize *r, int n, const int *axes)
{
	E const *sizes;
	tw_need_type(x, 3, "i64");
	const int count = tw_in_values(x, 3, &sizes);
	if (count < 0)
		tw_op_fail(x, TW_ERR_UNSUPPORTED, "sizes that only data decides");
	if (count != n)
		tw_op_fail(x, TW_ERR_MODEL, "%d sizes for %d axes", count, n);
	for (int k = 0; k < n; k++) {
		struct axis *a = &r->axis[axes[k]];
		int64_t in, out;
		a->out = tw_simplify(x, sizes[k]);
		a->resized = a->out != a->in || r->coordinates == TF_CROP;
		const bool known = twir_const_int(a->in, &in) && twir_const_int(a->out, &out);
		if (known && (out < 0 || (in == 0 && out > 0)))
			tw_op_fail(x, TW_ERR_MODEL, "size %" PRId64 " of axis %d", out, axes[k]);
		a->scale = known && in > 0 ? (double)(float)((float)out / (float)in) : 0;
		a->num = a->out;
		a->den = a->in;
	}
	apply_policy(x, r, n, axes);
}

static void read_scales(struct tw_opctx *x, struct resize *r, int n, const int *axes, const double *scales)
{
	for (int k = 0; k < n; k++) {
		struct axis *a = &r->axis[axes[k]];
		if (!(scales[k] > 0) || scales[k] > 1e6)
			tw_op_fail(x, TW_ERR_MODEL, "scale %g of axis %d", scales[k], axes[k]);
		a->scale = scales[k];
		a->out = scaled_size(x, a->in, scales[k]);
		a->resized = scales[k] != 1 || r->coordinates == TF_CROP;
		for (int64_t q = 1; q <= 4096 && !a->num; q++)
			if (scales[k] * (double)q == floor(scales[k] * (double)q)) {
				a->num = twir_index(x->m, (int64_t)(scales[k] * (double)q));
				a->den = twir_index(x->m, q);
			}
	}
}

static void read_roi(struct tw_opctx *x, struct resize *r, int n, const int *axes)
{
	if (!tw_has_in(x, 1) || tw_in_rank(x, 1) != 1)
		tw_op_fail(x, TW_ERR_MODEL, "roi must hold a start and an end for each axis");
	tw_same_size(x, tw_in_dim(x, 1, 0), twir_index(x->m, 2 * n), "roi (a start and an end for each axis)");
	for (int k = 0; k < n; k++) {
		const E start = twir_index(x->m, k), end = twir_index(x->m, n + k);
		r->axis[axes[k]].start = twir_cast(x->m, TWIR_F32, tw_load(x, tw_x(x, 1), 1, &start));
		r->axis[axes[k]].end = twir_cast(x->m, TWIR_F32, tw_load(x, tw_x(x, 1), 1, &end));
	}
}

/* An input that is there and holds something */
static bool given(struct tw_opctx *x, int i)
{
	return tw_has_in(x, i) && !(tw_in_rank(x, i) == 1 && tw_in_dim(x, i, 0) == twir_index(x->m, 0));
}

static void read_resize(struct tw_opctx *x, struct resize *r)
{
	*r = (struct resize){.rank = tw_in_rank(x, 0)};
	int axes[TWIR_MAX_RANK], n = r->rank;
	read_modes(x, r);
	for (int d = 0; d < r->rank; d++) {
		axes[d] = d;
		r->axis[d].in = r->axis[d].out = tw_in_dim(x, 0, d);
		r->axis[d].scale = 1;
	}
	const int64_t *list;
	const int count = tw_attr_ints(x->node, "axes", &list);
	if (count > r->rank)
		tw_op_fail(x, TW_ERR_MODEL, "%d axes for rank %d", count, r->rank);
	if (count >= 0)
		for (n = 0; n < count; n++)
			axes[n] = tw_axis(x, list[n], r->rank);
	const bool old = x->node->opset < 11 || !strcmp(x->node->op_type, "Upsample");
	if (r->coordinates == TF_CROP)
		read_roi(x, r, n, axes);
	if (!old && given(x, 3)) {
		read_sizes(x, r, n, axes);
		return;
	}
	const double *scales;
	const float *floats;
	int ns;
	if (old && x->node->nin == 1) {
		ns = tw_attr_floats(x->node, "scales", &floats);
		double *wide = ARENA_ARRAY(x->arena, double, ns < 0 ? 0 : ns);
		for (int k = 0; k < ns; k++)
			wide[k] = (double)floats[k];
		scales = wide;
	} else {
		if (!old && !given(x, 2))
			tw_op_fail(x, TW_ERR_MODEL, "neither scales nor sizes are given");
		ns = tw_in_floats(x, old ? 1 : 2, &scales);
		if (ns < 0)
			tw_op_fail(x, TW_ERR_UNSUPPORTED, "scales that only data decides");
	}
	if (ns != n)
		tw_op_fail(x, TW_ERR_MODEL, "%d scales for %d axes", ns, n);
	read_scales(x, r, n, axes, scales);
}

static void infer(struct tw_opctx *x)
{
	struct resize r;
	read_resize(x, &r);
	if (r.mode != NEAREST)
		tw_need_type(x, 0, "numeric");
	E shape[TWIR_MAX_RANK];
	for (int d = 0; d < r.rank; d++)
		shape[d] = r.axis[d].out;
	tw_set_out(x, 0, tw_in_type(x, 0), r.rank, shape);
}

/* ---- coordinates, in f32 */

static E number(struct tw_opctx *x, double v)
{
	return twir_float(x->m, TWIR_F32, v);
}

static E as_float(struct tw_opctx *x, E index)
{
	int64_t n;
	return twir_const_int(index, &n) ? number(x, (double)n) : twir_cast(x->m, TWIR_F32, index);
}

static E scale_of(struct tw_opctx *x, const struct axis *a)
{
	return a->scale != 0 ? number(x, a->scale) : twir_div(x->m, as_float(x, a->out), as_float(x, a->in));
}

/* v / scale, with one rounding where the scale is a fraction */
static E unscaled(struct tw_opctx *x, const struct axis *a, E v)
{
	if (!a->num)
		return twir_div(x->m, v, scale_of(x, a));
	return twir_div(x->m, twir_mul(x->m, v, as_float(x, a->den)), as_float(x, a->num));
}

static E half_pixel(struct tw_opctx *x, const struct axis *a, E o)
{
	const E half = number(x, 0.5);
	return twir_sub(x->m, unscaled(x, a, twir_add(x->m, o, half)), half);
}

/* The output's size less one, before rounding down where it comes from a scale. */
static E last_out_of(struct tw_opctx *x, const struct axis *a)
{
	int64_t in;
	const E rounded = twir_max(x->m, twir_sub(x->m, a->out, twir_index(x->m, 1)), twir_index(x->m, 1));
	if (a->num == a->out || !twir_const_int(a->in, &in) || a->scale == 0)
		return as_float(x, tw_simplify(x, rounded));
	return number(x, (double)in * a->scale - 1);
}

static E source(struct tw_opctx *x, const struct resize *r, const struct axis *a, E out)
{
	struct twir_module *m = x->m;
	const E o = as_float(x, out), last_in = as_float(x, tw_simplify(x, twir_sub(m, a->in, twir_index(m, 1))));
	const E last_out = last_out_of(x, a);
	const E several = twir_lt(m, twir_index(m, 1), a->out), zero = number(x, 0);
	switch (r->coordinates) {
	case HALF_PIXEL:
		return half_pixel(x, a, o);
	case HALF_PIXEL_SYMMETRIC: {
		const E size = as_float(x, a->in), real = twir_mul(m, size, scale_of(x, a));
		const E part = twir_sub(m, number(x, 1), twir_div(m, as_float(x, a->out), real));
		return twir_add(m, twir_mul(m, twir_mul(m, size, number(x, 0.5)), part), half_pixel(x, a, o));
	}
	case PYTORCH_HALF_PIXEL:
		return twir_select(m, several, half_pixel(x, a, o), zero);
	case ALIGN_CORNERS:
		return twir_select(m, several, twir_div(m, twir_mul(m, o, last_in), last_out), zero);
	case ASYMMETRIC:
		return unscaled(x, a, o);
	case TF_HALF_PIXEL_NN:
		return unscaled(x, a, twir_add(m, o, number(x, 0.5)));
	case TF_CROP:
	default: {
		const E step = twir_div(m, twir_mul(m, twir_sub(m, a->end, a->start), last_in), last_out);
		const E line = twir_add(m, twir_mul(m, a->start, last_in), twir_mul(m, o, step));
		return twir_select(m, several, line,
				   twir_mul(m, twir_mul(m, number(x, 0.5), twir_add(m, a->start, a->end)), last_in));
	}
	}
}

static E clamped(struct tw_opctx *x, E at, E size)
{
	const E last = twir_sub(x->m, size, twir_index(x->m, 1));
	return twir_max(x->m, twir_index(x->m, 0), twir_min(x->m, at, last));
}

static E floor_of(struct tw_opctx *x, E v)
{
	return twir_unary(x->m, TWIR_Floor, v);
}

/* A whole number of f32 as an index, by way of 32 bits, which lanes convert and gather by at once; those of regions may
 * be any number. */
static E as_index(struct tw_opctx *x, const struct resize *r, E v)
{
	if (r->coordinates != TF_CROP)
		v = twir_cast(x->m, TWIR_I32, v);
	return twir_cast(x->m, TWIR_INDEX, v);
}

/* A fraction p / q rounded to an integer, all in index arithmetic */
static E rounded(struct tw_opctx *x, enum rounding how, E p, E q)
{
	struct twir_module *m = x->m;
	const E two = twir_index(m, 2);
	switch (how) {
	case FLOOR:
		return twir_div(m, p, q);
	case CEIL:
		return twir_div(m, twir_sub(m, twir_add(m, p, q), twir_index(m, 1)), q);
	case PREFER_CEIL:
		return twir_div(m, twir_add(m, twir_mul(m, p, two), q), twir_mul(m, q, two));
	case PREFER_FLOOR:
	default:
		return twir_div(m, twir_sub(m, twir_add(m, twir_mul(m, p, two), q), twir_index(m, 1)),
				twir_mul(m, q, two));
	}
}

static E rounded_float(struct tw_opctx *x, enum rounding how, E s)
{
	const E half = number(x, 0.5);
	switch (how) {
	case FLOOR:
		return floor_of(x, s);
	case CEIL:
		return twir_unary(x->m, TWIR_Ceil, s);
	case PREFER_CEIL:
		return floor_of(x, twir_add(x->m, s, half));
	case PREFER_FLOOR:
	default:
		return twir_unary(x->m, TWIR_Ceil, twir_sub(x->m, s, half));
	}
}

/* The one tap of nearest modes: exact when the scale is a fraction, without clamping when it cannot leave the input */
static E nearest(struct tw_opctx *x, const struct resize *r, const struct axis *a, E out)
{
	struct twir_module *m = x->m;
	const bool whole = a->scale >= 1 && a->scale == floor(a->scale) && a->num;
	const bool middle = r->rounding == PREFER_FLOOR || r->rounding == PREFER_CEIL;
	if (whole &&
	    ((r->coordinates == ASYMMETRIC && r->rounding == FLOOR) || (r->coordinates == HALF_PIXEL && middle)))
		return twir_div(m, out, twir_index(m, (int64_t)a->scale));
	E at;
	if (a->num && r->coordinates == ASYMMETRIC) {
		at = rounded(x, r->rounding, twir_mul(m, out, a->den), a->num);
	} else if (a->num && r->coordinates == HALF_PIXEL) {
		const E two = twir_index(m, 2), centre = twir_add(m, twir_mul(m, out, two), twir_index(m, 1));
		at = rounded(x, r->rounding, twir_sub(m, twir_mul(m, centre, a->den), a->num),
			     twir_mul(m, a->num, two));
	} else {
		at = as_index(x, r, rounded_float(x, r->rounding, source(x, r, a, out)));
	}
	return clamped(x, tw_simplify(x, at), a->in);
}

/* ---- filters */

/* Cubic convolution at distance d >= 0 */
static E cubic_weight(struct tw_opctx *x, double a, E d)
{
	struct twir_module *m = x->m;
	const E d2 = twir_mul(m, d, d), d3 = twir_mul(m, d2, d);
	const E near = twir_add(m, twir_add(m, twir_mul(m, number(x, a + 2), d3), twir_mul(m, number(x, -(a + 3)), d2)),
				number(x, 1));
	const E far = twir_add(m, twir_add(m, twir_mul(m, number(x, a), d3), twir_mul(m, number(x, -5 * a), d2)),
			       twir_add(m, twir_mul(m, number(x, 8 * a), d), number(x, -4 * a)));
	return twir_select(m, twir_le(m, d, number(x, 1)), near,
			   twir_select(m, twir_lt(m, d, number(x, 2)), far, number(x, 0)));
}

static E linear_weight(struct tw_opctx *x, E d)
{
	return twir_max(x->m, twir_sub(x->m, number(x, 1), d), number(x, 0));
}

struct stage { /* one axis of one tensor to another */
	struct tw_opctx *x;
	const struct resize *r;
	const struct axis *a;
	struct twir_tensor *from;
	int d;
	E *i;
};

static E load_at(const struct stage *s, E at)
{
	E index[TWIR_MAX_RANK];
	for (int d = 0; d < s->from->rank; d++)
		index[d] = d == s->d ? at : s->i[d];
	return tw_load(s->x, s->from, s->from->rank, index);
}

/* Weight of tap `at`, as an index and as a number, for a source coordinate; taps outside weigh nothing when they are excluded. */
static E weight(const struct stage *s, E coordinate, E at, E number_of_tap, E shrink)
{
	struct tw_opctx *x = s->x;
	struct twir_module *m = x->m;
	E distance = twir_unary(m, TWIR_Abs, twir_sub(m, number_of_tap, coordinate));
	if (shrink)
		distance = twir_mul(m, distance, shrink);
	const E w = s->r->mode == CUBIC ? cubic_weight(x, s->r->cubic_a, distance) : linear_weight(x, distance);
	if (!s->r->exclude)
		return w;
	const E inside = twir_and(m, twir_le(m, twir_index(m, 0), at), twir_lt(m, at, s->a->in));
	return twir_select(m, inside, w, number(x, 0));
}

static E interpolated(const struct stage *s)
{
	struct tw_opctx *x = s->x;
	struct twir_module *m = x->m;
	E coordinate = source(x, s->r, s->a, s->i[s->d]);
	const int taps = s->r->mode == CUBIC ? 4 : 2;
	if (s->r->mode == LINEAR && s->r->coordinates != TF_CROP) /* beyond the edges the edge itself */
		coordinate = twir_max(
			m, number(x, 0),
			twir_min(m, coordinate, as_float(x, tw_simplify(x, twir_sub(m, s->a->in, twir_index(m, 1))))));
	const E base = floor_of(x, coordinate);
	E sum = NULL, total = NULL;
	for (int k = 0; k < taps; k++) {
		const int step = k - (taps == 4);
		const E number_of_tap = step ? twir_add(m, base, number(x, step)) : base;
		const E at = as_index(x, s->r, number_of_tap);
		const E w = weight(s, coordinate, at, number_of_tap, NULL), v = load_at(s, clamped(x, at, s->a->in));
		const E product = twir_mul(m, v, twir_cast(m, v->type.scalar, w));
		sum = sum ? twir_add(m, sum, product) : product;
		total = total ? twir_add(m, total, w) : w;
	}
	return s->r->exclude ? twir_div(m, sum, twir_cast(m, sum->type.scalar, total)) : sum;
}

/* Filter widened to cover the input elements that fall on one output element. */
static E antialiased(const struct stage *s)
{
	struct tw_opctx *x = s->x;
	struct twir_module *m = x->m;
	if (s->a->scale == 0)
		tw_op_fail(x, TW_ERR_UNSUPPORTED, "antialias with sizes that are known only at launch");
	const double shrink = s->a->scale < 1 ? s->a->scale : 1;
	const double reach = (s->r->mode == CUBIC ? 2 : 1) / shrink;
	const E coordinate = source(x, s->r, s->a, s->i[s->d]);
	const E base = twir_cast(m, TWIR_INDEX, floor_of(x, twir_sub(m, coordinate, number(x, reach))));
	const E extent = twir_index(m, (int64_t)(2 * ceil(reach)) + 2);
	E parts[2];
	for (int part = 0; part < 2; part++) {
		struct twir_var *k = tw_fold_axis(x, "k", extent);
		const E at = twir_add(m, base, twir_var(m, k)),
			w = weight(s, coordinate, at, as_float(x, at), number(x, shrink));
		const E v = load_at(s, clamped(x, at, s->a->in));
		parts[part] = twir_fold(m, TWIR_Add, 1, &k, &extent,
					part ? w : twir_mul(m, v, twir_cast(m, v->type.scalar, w)));
	}
	return twir_div(m, parts[0], twir_cast(m, parts[0]->type.scalar, parts[1]));
}

/* TF_CROP: is the output element's source inside the input, along every axis? */
static E inside_of(struct tw_opctx *x, const struct resize *r, E const *i)
{
	E inside = twir_bool(x->m, true);
	for (int d = 0; d < r->rank; d++) {
		const struct axis *a = &r->axis[d];
		if (!a->resized)
			continue;
		const E s = source(x, r, a, i[d]),
			last = as_float(x, tw_simplify(x, twir_sub(x->m, a->in, twir_index(x->m, 1))));
		inside = twir_and(x->m, inside, twir_and(x->m, twir_le(x->m, number(x, 0), s), twir_le(x->m, s, last)));
	}
	return inside;
}

/* Integers are filtered as floats. */
static struct twir_tensor *widened(struct tw_opctx *x, struct twir_tensor *t)
{
	if (twir_is_float(t->type))
		return t;
	struct twir_tensor *wide = tw_temp(x, "wide", TWIR_F32, t->rank, t->shape);
	E *i;
	struct twir_var **axes = tw_axes(x, wide, &i);
	tw_define(x, wide, axes, twir_cast(x->m, TWIR_F32, tw_load(x, t, t->rank, i)));
	return wide;
}

static void compute_nearest(struct tw_opctx *x, const struct resize *r)
{
	struct twir_tensor *y = tw_y(x, 0);
	E *i, at[TWIR_MAX_RANK];
	struct twir_var **axes = tw_axes(x, y, &i);
	for (int d = 0; d < r->rank; d++)
		at[d] = r->axis[d].resized ? nearest(x, r, &r->axis[d], i[d]) : i[d];
	const E v = tw_load(x, tw_x(x, 0), r->rank, at);
	const E inside = r->coordinates == TF_CROP ? inside_of(x, r, i) : NULL;
	tw_define(x, y, axes, inside ? twir_select(x->m, inside, v, tw_like(x, v, r->extrapolation)) : v);
}

static void compute(struct tw_opctx *x)
{
	struct resize r;
	read_resize(x, &r);
	if (r.mode == NEAREST) {
		compute_nearest(x, &r);
		return;
	}
	struct twir_tensor *y = tw_y(x, 0), *from = widened(x, tw_x(x, 0));
	const enum twir_scalar type = tw_compute_type(y->type), inner = twir_is_float(type) ? type : TWIR_F32;
	E *i;
	int last = -1;
	for (int d = 0; d < r.rank; d++)
		last = r.axis[d].resized ? d : last;
	for (int d = 0; d <= last; d++) {
		if (!r.axis[d].resized)
			continue;
		E shape[TWIR_MAX_RANK];
		for (int k = 0; k < r.rank; k++)
			shape[k] = k == d ? r.axis[d].out : from->shape[k];
		const bool done = d == last && inner == type && r.coordinates != TF_CROP;
		struct twir_tensor *to = done ? y : tw_temp(x, "resized", inner, r.rank, shape);
		struct twir_var **axes = tw_axes(x, to, &i);
		const struct stage s = {.x = x, .r = &r, .a = &r.axis[d], .from = from, .d = d, .i = i};
		tw_define(x, to, axes, r.antialias ? antialiased(&s) : interpolated(&s));
		if (done)
			return;
		from = to;
	}
	struct twir_var **axes = tw_axes(x, y, &i);
	E v = tw_load(x, from, r.rank, i);
	if (r.coordinates == TF_CROP)
		v = twir_select(x->m, inside_of(x, &r, i), v, tw_like(x, v, r.extrapolation));
	tw_define(x, y, axes, twir_cast(x->m, type, v));
}

#define A_MODE                                                                                                         \
	{                                                                                                              \
		"mode", TW_ATTR_STRING, false                                                                          \
	}
#define A_11                                                                                                           \
	A_MODE, {"coordinate_transformation_mode", TW_ATTR_STRING, false}, {"cubic_coeff_a", TW_ATTR_FLOAT, false},    \
		{"exclude_outside", TW_ATTR_INT, false}, {"extrapolation_value", TW_ATTR_FLOAT, false},                \
	{                                                                                                              \
		"nearest_mode", TW_ATTR_STRING, false                                                                  \
	}

static const struct tw_attr_spec attrs_scales[] = {A_MODE, {"scales", TW_ATTR_FLOATS, true}, {NULL}};
static const struct tw_attr_spec attrs_mode[] = {A_MODE, {NULL}};
static const struct tw_attr_spec attrs11[] = {A_11, {NULL}};
static const struct tw_attr_spec attrs18[] = {A_11,
					      {"antialias", TW_ATTR_INT, false},
					      {"axes", TW_ATTR_INTS, false},
					      {"keep_aspect_ratio_policy", TW_ATTR_STRING, false},
					      {NULL}};

const struct tw_op tw_ops_resize[] = {
	{.name = "Upsample",
	 .since = 7,
	 .until = 8,
	 .in = {1, 1},
	 .out = {1, 1},
	 .attrs = attrs_scales,
	 .infer = infer,
	 .compute = compute},
	{.name = "Upsample",
	 .since = 9,
	 .in = {2, 2},
	 .out = {1, 1},
	 .attrs = attrs_mode,
	 .infer = infer,
	 .compute = compute},
	{.name = "Resize",
	 .since = 10,
	 .until = 10,
	 .in = {2, 2},
	 .out = {1, 1},
	 .attrs = attrs_mode,
	 .infer = infer,
	 .compute = compute},
	{.name = "Resize",
	 .since = 11,
	 .until = 17,
	 .in = {1, 4},
	 .out = {1, 1},
	 .attrs = attrs11,
	 .infer = infer,
	 .compute = compute},
	{.name = "Resize",
	 .since = 18,
	 .in = {1, 4},
	 .out = {1, 1},
	 .attrs = attrs18,
	 .infer = infer,
	 .compute = compute},
	{0},
};
