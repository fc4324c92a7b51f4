/* slice.c: Slice and Pad: a window of the input, or the input in a larger frame. */
#include "ops/elementwise.h"

#include <inttypes.h>

typedef const struct twir_expr *E;

/* ---- Slice: starts and ends are attributes up to opset 9, inputs from 10 on, and may hold sizes with symbols */

struct slice {
	E start[TWIR_MAX_RANK], size[TWIR_MAX_RANK], step[TWIR_MAX_RANK];
};

static int list(struct tw_opctx *x, const char *attr, int input, E const **values)
{
	const int64_t *plain;
	if (tw_has_in(x, input)) {
		tw_need_type(x, input, "index");
		const int n = tw_in_values(x, input, values);
		if (n < 0)
			tw_op_fail(x, TW_ERR_UNSUPPORTED, "%s that only data decides", attr);
		return n;
	}
	const int n = tw_attr_ints(x->node, attr, &plain);
	if (n < 0)
		return -1;
	E *out = ARENA_ARRAY(x->arena, E, n);
	for (int k = 0; k < n; k++)
		out[k] = twir_index(x->m, plain[k]);
	*values = out;
	return n;
}

/* A start or end as the model gives it, counted from the end when negative, limited to low .. high. */
static E limited(struct tw_opctx *x, E v, E size, E low, E high)
{
	struct twir_module *m = x->m;
	const E zero = twir_index(m, 0);
	int64_t c;
	E at;
	if (twir_const_int(v, &c)) {
		if (c >= INT32_MAX)
			return high;
		if (c <= -INT32_MAX)
			return low;
		at = c < 0 ? twir_add(m, v, size) : v;
		return tw_simplify(x, twir_max(m, low, twir_min(m, at, high)));
	}
	at = twir_select(m, twir_lt(m, v, zero), twir_add(m, v, size), v);
	return tw_simplify(x, twir_max(m, low, twir_min(m, at, high)));
}

/* Start and number of elements along an axis for a step that is upward, or one that is downward */
static E one_way(struct tw_opctx *x, E start, E end, E size, E step, bool up, E *first)
{
	struct twir_module *m = x->m;
	const E zero = twir_index(m, 0), last = up ? size : twir_sub(m, size, twir_index(m, 1));
	*first = limited(x, start, size, zero, last);
	const E stop = limited(x, end, size, up ? zero : twir_index(m, -1), last);
	const E length = up ? twir_sub(m, stop, *first) : twir_sub(m, *first, stop);
	const E stride = up ? step : twir_unary(m, TWIR_Neg, step);
	return tw_simplify(x, twir_max(m, twir_ceildiv(m, length, tw_simplify(x, stride)), zero));
}

/* What slice k does to an axis of this size */
static void slice_axis(struct tw_opctx *x, int k, E const *starts, E const *ends, E const *steps, E size, E *start,
		       E *count, E *step)
{
	struct twir_module *m = x->m;
	int64_t number = 1;
	const bool known = !steps || twir_const_int(steps[k], &number);
	if (number == 0)
		tw_op_fail(x, TW_ERR_MODEL, "step 0");
	number = number < -(1 << 30) ? -(1 << 30) : number > 1 << 30 ? 1 << 30 : number;
	*step = known ? twir_index(m, number) : steps[k];
	if (known) {
		*count = one_way(x, starts[k], ends[k], size, *step, number > 0, start);
		return;
	}
	E up, down;
	const E upward = twir_lt(m, twir_index(m, 0), *step),
		nup = one_way(x, starts[k], ends[k], size, *step, true, &up);
	const E ndown = one_way(x, starts[k], ends[k], size, *step, false, &down);
	*count = twir_select(m, upward, nup, ndown);
	*start = twir_select(m, upward, up, down);
}

static void read_slice(struct tw_opctx *x, struct slice *s)
{
	struct twir_module *m = x->m;
	const int rank = tw_in_rank(x, 0);
	E const *starts, *ends, *steps = NULL, *axes = NULL;
	const int n = list(x, "starts", 1, &starts), ne = list(x, "ends", 2, &ends), na = list(x, "axes", 3, &axes);
	const int ns = tw_has_in(x, 4) ? list(x, "steps", 4, &steps) : -1;
	if (n < 0 || ne != n || (na >= 0 && na != n) || (ns >= 0 && ns != n) || (na < 0 && n > rank))
		tw_op_fail(x, TW_ERR_MODEL, "starts, ends, axes and steps do not fit each other");
	for (int d = 0; d < rank; d++) {
		s->start[d] = twir_index(m, 0);
		s->size[d] = tw_in_dim(x, 0, d);
		s->step[d] = twir_index(m, 1);
	}
	for (int k = 0; k < n; k++) {
		const E axis = na < 0 ? twir_index(m, k) : axes[k];
		int64_t plain;
		if (twir_const_int(axis, &plain))
			tw_axis(x, plain, rank);
		for (int d = 0; d < rank; d++) {
			E start, count, step;
			const E hit = twir_or(m, twir_eq(m, axis, twir_index(m, d)),
					      twir_eq(m, axis, twir_index(m, d - rank)));
			if (hit == twir_bool(m, false))
				continue;
			slice_axis(x, k, starts, ends, steps, tw_in_dim(x, 0, d), &start, &count, &step);
			s->start[d] = twir_select(m, hit, start, s->start[d]);
			s->size[d] = twir_select(m, hit, count, s->size[d]);
			s->step[d] = twir_select(m, hit, step, s->step[d]);
		}
	}
}

static void infer_slice(struct tw_opctx *x)
{
	struct slice s;
	read_slice(x, &s);
	tw_set_out(x, 0, tw_in_type(x, 0), tw_in_rank(x, 0), s.size);
}

static void compute_slice(struct tw_opctx *x)
{
	struct slice s;
	struct twir_tensor *y = tw_y(x, 0);
	E *i, at[TWIR_MAX_RANK];
	struct twir_var **axes = tw_axes(x, y, &i);
	read_slice(x, &s);
	for (int d = 0; d < y->rank; d++)
		at[d] = twir_add(x->m, twir_mul(x->m, i[d], s.step[d]), s.start[d]);
	tw_define(x, y, axes, tw_load(x, tw_x(x, 0), y->rank, at));
}

/* ---- Pad: pads are an attribute up to opset 10, an input from 11 on */

struct pad {
	E begin[TWIR_MAX_RANK], end[TWIR_MAX_RANK];
};

static void read_pads(struct tw_opctx *x, struct pad *p)
{
	struct twir_module *m = x->m;
	const int rank = tw_in_rank(x, 0);
	E const *values, *axes = NULL;
	const int n = list(x, "pads", 1, &values), na = tw_has_in(x, 3) ? list(x, "axes", 3, &axes) : rank;
	int64_t plain;
	if (n != 2 * na)
		tw_op_fail(x, TW_ERR_MODEL, "%d pads for %d axes", n, na);
	for (int d = 0; d < rank; d++)
		p->begin[d] = p->end[d] = twir_index(m, 0);
	for (int k = 0; k < na; k++) {
		const E axis = axes ? axes[k] : twir_index(m, k);
		if (twir_const_int(axis, &plain))
			tw_axis(x, plain, rank);
		for (int d = 0; d < rank; d++) {
			const E hit = twir_or(m, twir_eq(m, axis, twir_index(m, d)),
					      twir_eq(m, axis, twir_index(m, d - rank)));
			p->begin[d] = twir_select(m, hit, values[k], p->begin[d]);
			p->end[d] = twir_select(m, hit, values[na + k], p->end[d]);
		}
	}
}

static void infer_pad(struct tw_opctx *x)
{
	struct pad p;
	E shape[TWIR_MAX_RANK];
	const char *mode = tw_attr_string(x->node, "mode", "constant");
	if (strcmp(mode, "constant") && strcmp(mode, "edge") && strcmp(mode, "reflect") && strcmp(mode, "wrap"))
		tw_op_fail(x, TW_ERR_UNSUPPORTED, "mode '%s'", mode);
	read_pads(x, &p);
	tw_need_scalar(x, 2);
	if (tw_has_in(x, 2) && tw_in_type(x, 2) != tw_in_type(x, 0))
		tw_op_fail(x, TW_ERR_MODEL, "the value for padding has another type than the input");
	for (int d = 0; d < tw_in_rank(x, 0); d++)
		shape[d] = twir_add(x->m, twir_add(x->m, tw_in_dim(x, 0, d), p.begin[d]), p.end[d]);
	tw_set_out(x, 0, tw_in_type(x, 0), tw_in_rank(x, 0), shape);
}

/* 0 1 2 3 2 1 0 1 ..: a period of 2 * (size - 1), folded back in its middle */
static E reflected(struct tw_opctx *x, E at, E size)
{
	struct twir_module *m = x->m;
	const E last = twir_sub(m, size, twir_index(m, 1)), period = twir_mul(m, last, twir_index(m, 2));
	const E r = twir_mod(m, at, period);
	return twir_select(m, twir_lt(m, last, r), twir_sub(m, period, r), r);
}

static E pad_value(struct tw_opctx *x, enum twir_scalar type)
{
	const struct twir_type t = twir_scalar_type(type);
	if (tw_has_in(x, 2))
		return tw_scalar(x, 2);
	if (type == TWIR_I1)
		return twir_bool(x->m, false);
	return twir_const_of(x->m, t, x->node->opset < 11 ? (double)tw_attr_float(x->node, "value", 0) : 0);
}

static void compute_pad(struct tw_opctx *x)
{
	struct twir_module *m = x->m;
	struct pad p;
	struct twir_tensor *y = tw_y(x, 0), *t = tw_x(x, 0);
	E *i, at[TWIR_MAX_RANK], inside = NULL;
	struct twir_var **axes = tw_axes(x, y, &i);
	const char *mode = tw_attr_string(x->node, "mode", "constant");
	const E zero = twir_index(m, 0);
	read_pads(x, &p);
	for (int d = 0; d < y->rank; d++) {
		at[d] = tw_simplify(x, twir_sub(m, i[d], p.begin[d]));
		if (p.begin[d] == zero && p.end[d] == zero)
			continue;
		if (!strcmp(mode, "edge")) {
			at[d] = twir_max(m, zero, twir_min(m, at[d], twir_sub(m, t->shape[d], twir_index(m, 1))));
		} else if (!strcmp(mode, "wrap")) {
			at[d] = twir_mod(m, at[d], t->shape[d]);
		} else if (!strcmp(mode, "reflect")) {
			at[d] = reflected(x, at[d], t->shape[d]);
		} else {
			const E low = twir_le(m, zero, at[d]), high = twir_lt(m, at[d], t->shape[d]);
			inside = inside ? twir_and(m, inside, low) : low;
			inside = twir_and(m, inside, high);
		}
	}
	const E v = tw_load(x, t, y->rank, at);
	tw_define(x, y, axes, inside ? twir_cond(m, inside, v, pad_value(x, v->type.scalar)) : v);
}

static const struct tw_attr_spec attrs_slice[] = {
	{"axes", TW_ATTR_INTS, false}, {"ends", TW_ATTR_INTS, true}, {"starts", TW_ATTR_INTS, true}, {NULL}};
static const struct tw_attr_spec attrs_pad2[] = {
	{"mode", TW_ATTR_STRING, false}, {"pads", TW_ATTR_INTS, true}, {"value", TW_ATTR_FLOAT, false}, {NULL}};
static const struct tw_attr_spec attrs_pad11[] = {{"mode", TW_ATTR_STRING, false}, {NULL}};

#define FN(name) .infer = infer_##name, .compute = compute_##name

const struct tw_op tw_ops_slice[] = {
	{.name = "Slice", .since = 1, .until = 9, .in = {1, 1}, .out = {1, 1}, .attrs = attrs_slice, FN(slice)},
	{.name = "Slice", .since = 10, .in = {3, 5}, .out = {1, 1}, FN(slice)},
	{.name = "Pad", .since = 2, .until = 10, .in = {1, 1}, .out = {1, 1}, .attrs = attrs_pad2, FN(pad)},
	{.name = "Pad", .since = 11, .in = {2, 4}, .out = {1, 1}, .attrs = attrs_pad11, FN(pad)},
	{0},
};
