/* reshape.c: the same elements in the same order under another shape (Reshape, Flatten, Squeeze, Unsqueeze,
 * Identity, Dropout), and what tells or takes shapes as values (Shape, Size, ConstantOfShape). */
#include "ops/random.h"

#include <inttypes.h>

typedef const struct twir_expr *E;

static void compute_reshape(struct tw_opctx *x)
{
	struct twir_tensor *y = tw_y(x, 0), *t = tw_x(x, 0);
	E *i, at[TWIR_MAX_RANK];
	struct twir_var **axes = tw_axes(x, y, &i);
	tw_reindex(x, y->rank, y->shape, i, t->rank, t->shape, at);
	tw_define(x, y, axes, tw_load(x, t, t->rank, at));
}

/* ---- Reshape */

/* product(all) / product(some), with common factors cancelled so that sizes with symbols divide */
static E quotient(struct tw_opctx *x, int na, E const *all, int ns, E const *some)
{
	E rest[TWIR_MAX_RANK], by = twir_index(x->m, 1);
	int n = 0;
	bool used[TWIR_MAX_RANK] = {false};
	for (int k = 0; k < na; k++)
		rest[n++] = all[k];
	for (int k = 0; k < ns; k++) {
		int match = -1;
		for (int r = 0; r < n; r++)
			if (!used[r] && rest[r] == some[k])
				match = r;
		if (match >= 0)
			used[match] = true;
		else
			by = twir_mul(x->m, by, some[k]);
	}
	E p = twir_index(x->m, 1);
	for (int r = 0; r < n; r++)
		if (!used[r])
			p = twir_mul(x->m, p, rest[r]);
	p = tw_simplify(x, p);
	by = tw_simplify(x, by);
	/* A size of 1 is known as one, for broadcasting: the quotient is not, as far as sizes may be 0. */
	return p == by ? twir_index(x->m, 1) : tw_simplify(x, twir_div(x->m, p, by));
}

/* Sizes that are known only at launch and may be 0 (copied) or -1 (what is left). */
static void launch_shape(struct tw_opctx *x, int n, E const *values, bool keep_zero, E *shape)
{
	struct twir_module *m = x->m;
	const E zero = twir_index(m, 0), one = twir_index(m, 1), open = twir_index(m, -1);
	E others = one;
	for (int d = 0; d < n; d++) {
		shape[d] = values[d];
		if (!keep_zero && d < tw_in_rank(x, 0))
			shape[d] = twir_select(m, twir_eq(m, values[d], zero), tw_in_dim(x, 0, d), values[d]);
		others = twir_mul(m, others, twir_select(m, twir_eq(m, values[d], open), one, shape[d]));
	}
	const E rest = twir_div(m, tw_product(x, tw_in_rank(x, 0), tw_in(x, 0)->shape), others);
	for (int d = 0; d < n; d++)
		shape[d] = twir_select(m, twir_eq(m, values[d], open), rest, shape[d]);
}

static void infer_reshape(struct tw_opctx *x)
{
	E const *values;
	tw_need_type(x, 1, "i64");
	const int n = tw_in_values(x, 1, &values), rank = tw_in_rank(x, 0);
	if (n < 0)
		tw_op_fail(x, TW_ERR_UNSUPPORTED, "a shape that only data decides");
	if (n > TWIR_MAX_RANK)
		tw_op_fail(x, TW_ERR_UNSUPPORTED, "output of rank %d; at most %d are supported", n, TWIR_MAX_RANK);
	const bool keep_zero = tw_attr_int(x->node, "allowzero", 0) != 0;
	E shape[TWIR_MAX_RANK], others[TWIR_MAX_RANK];
	int open = -1, count = 0;
	bool at_launch = false;
	for (int d = 0; d < n; d++)
		at_launch = at_launch || (values[d]->kind != TWIR_Const && tw_may_be_negative(x, values[d]));
	if (at_launch)
		launch_shape(x, n, values, keep_zero, shape);
	for (int d = 0; d < n && !at_launch; d++) {
		int64_t v = 1;
		shape[d] = values[d];
		const bool known = twir_const_int(values[d], &v);
		if (known && v == 0 && !keep_zero) {
			if (d >= rank)
				tw_op_fail(x, TW_ERR_MODEL, "size %d is copied from an axis that the input lacks", d);
			shape[d] = tw_in_dim(x, 0, d);
		} else if (known && v == -1 && open < 0) {
			open = d;
			continue;
		} else if (known && v == -1) {
			tw_op_fail(x, TW_ERR_MODEL, "the new shape has -1 for axis %d and for axis %d", open, d);
		} else if (known && v < 0) {
			tw_op_fail(x, TW_ERR_MODEL, "size %" PRId64 " for axis %d", v, d);
		}
		others[count++] = shape[d];
	}
	const struct tw_tensor *t = tw_in(x, 0);
	if (open >= 0)
		shape[open] = quotient(x, rank, t->shape, count, others);
	tw_set_out(x, 0, t->type, n, shape);
	tw_same_size(x, tw_product(x, rank, tw_in(x, 0)->shape), tw_product(x, n, tw_out(x, 0)->shape),
		     "number of elements");
}

static void infer_flatten(struct tw_opctx *x)
{
	const int rank = tw_in_rank(x, 0);
	const int64_t axis = tw_attr_int(x->node, "axis", 1);
	if (axis < -rank || axis > rank)
		tw_op_fail(x, TW_ERR_MODEL, "axis %" PRId64 " is outside of rank %d", axis, rank);
	const int at = (int)(axis < 0 ? axis + rank : axis);
	const struct tw_tensor *t = tw_in(x, 0);
	const E shape[] = {tw_product(x, at, t->shape), tw_product(x, rank - at, t->shape + at)};
	tw_set_out(x, 0, t->type, 2, shape);
}

/* ---- Squeeze, Unsqueeze: axes are an attribute up to opset 12, an input from 13 on */

static E when(struct tw_opctx *x, E condition, E yes, E no)
{
	return tw_simplify(x, twir_select(x->m, condition, yes, no));
}

static E count_if(struct tw_opctx *x, int n, E const *conditions, bool value)
{
	E sum = twir_index(x->m, 0);
	for (int d = 0; d < n; d++)
		sum = twir_add(x->m, sum,
			       twir_select(x->m, conditions[d], twir_index(x->m, value), twir_index(x->m, !value)));
	return tw_simplify(x, sum);
}

/* Without axes the rank depends on sizes: a symbol is taken to be other than 1, and a run where it is 1 is refused. */
static void need_other_than_one(struct tw_opctx *x, E size)
{
	int64_t known;
	if (twir_const_int(size, &known))
		return;
	const E one = twir_index(x->m, 1), zero = twir_index(x->m, 0);
	const E is_one = tw_simplify(x, twir_select(x->m, twir_eq(x->m, size, one), one, zero));
	tw_same_size(x, is_one, zero,
		     arena_printf(x->arena, "has no axes and is compiled for %s other than 1; fix it to 1 for this",
				  twir_print_expr(x->arena, size)));
}

static void infer_squeeze(struct tw_opctx *x)
{
	struct twir_module *m = x->m;
	E gone[TWIR_MAX_RANK], shape[TWIR_MAX_RANK];
	const int rank = tw_in_rank(x, 0), n = tw_axes_conditions(x, "axes", 1, rank, gone);
	int64_t stay = rank - n;
	for (int d = 0; d < rank; d++) {
		const E size = tw_in_dim(x, 0, d), one = twir_index(m, 1);
		if (n < 0) {
			gone[d] = twir_bool(m, size == one);
			need_other_than_one(x, size);
		}
		tw_same_size(x, when(x, gone[d], size, one), one, "a squeezed axis");
	}
	twir_const_int(count_if(x, rank, gone, false), &stay);
	for (int j = 0; j < stay; j++) {
		shape[j] = twir_index(m, 0);
		for (int d = rank - 1; d >= 0; d--) {
			const E here = twir_and(m, twir_not(m, gone[d]),
						twir_eq(m, count_if(x, d, gone, false), twir_index(m, j)));
			shape[j] = when(x, here, tw_in_dim(x, 0, d), shape[j]);
		}
	}
	tw_set_out(x, 0, tw_in_type(x, 0), (int)stay, shape);
}

static void infer_unsqueeze(struct tw_opctx *x)
{
	struct twir_module *m = x->m;
	E const *values;
	E fresh[TWIR_MAX_RANK], shape[TWIR_MAX_RANK];
	const int64_t *plain;
	int n = tw_has_in(x, 1) ? tw_in_values(x, 1, &values) : tw_attr_ints(x->node, "axes", &plain);
	if (n < 0)
		tw_op_fail(x, tw_has_in(x, 1) ? TW_ERR_UNSUPPORTED : TW_ERR_MODEL, "axes are not known");
	const int rank = tw_in_rank(x, 0) + n;
	int64_t count = n;
	if (rank > TWIR_MAX_RANK)
		tw_op_fail(x, TW_ERR_UNSUPPORTED, "output of rank %d; at most %d are supported", rank, TWIR_MAX_RANK);
	tw_axes_conditions(x, "axes", 1, rank, fresh);
	if (twir_const_int(count_if(x, rank, fresh, true), &count) && count != n)
		tw_op_fail(x, TW_ERR_MODEL, "an axis is given twice");
	for (int j = 0; j < rank; j++) {
		const E from = count_if(x, j, fresh, false);
		shape[j] = twir_index(m, 1);
		for (int d = tw_in_rank(x, 0) - 1; d >= 0; d--) {
			const E here = twir_and(m, twir_not(m, fresh[j]), twir_eq(m, from, twir_index(m, d)));
			shape[j] = when(x, here, tw_in_dim(x, 0, d), shape[j]);
		}
	}
	tw_set_out(x, 0, tw_in_type(x, 0), rank, shape);
}

/* ---- Identity, Dropout: an identity with a mask that is all true; in training elements are left out at random */

/* Whether this is training: NULL is no, else a constant or what only data knows */
static E training(struct tw_opctx *x)
{
	const int64_t *known;
	if (!tw_has_in(x, 2) || (tw_in_consts(x, 2, &known) == 1 && !known[0]))
		return NULL;
	return tw_scalar(x, 2);
}

static void infer_dropout(struct tw_opctx *x)
{
	tw_need_type(x, 0, "float");
	if (x->node->opset < 7 && !tw_attr_int(x->node, "is_test", 0))
		tw_op_fail(x, TW_ERR_UNSUPPORTED, "training mode (is_test = 0)");
	if (tw_has_in(x, 2)) {
		tw_need_type(x, 2, "bool");
		tw_need_scalar(x, 2);
	}
	if (tw_has_in(x, 1) && tw_has_in(x, 2)) {
		tw_need_type(x, 1, "float");
		tw_need_scalar(x, 1);
	}
	const struct tw_tensor *t = tw_in(x, 0);
	tw_set_out(x, 0, t->type, t->rank, t->shape);
	t = tw_in(x, 0);
	tw_set_out(x, 1, x->node->opset >= 10 ? TWIR_I1 : t->type, t->rank, t->shape);
}

/* Is the element at `place` kept? */
static E kept(struct tw_opctx *x, E place)
{
	const E ratio = tw_has_in(x, 1) ? tw_scalar(x, 1) : twir_float(x->m, TWIR_F32, 0.5);
	const E stays = twir_le(x->m, ratio, tw_random_uniform(x, ratio->type.scalar, 0, place));
	return twir_or(x->m, twir_not(x->m, training(x)), stays);
}

static void compute_training(struct tw_opctx *x)
{
	struct twir_module *m = x->m;
	struct twir_tensor *y = tw_y(x, 0);
	E *i;
	struct twir_var **axes = tw_axes(x, y, &i);
	const E v = tw_load(x, tw_x(x, 0), y->rank, i), one = tw_like(x, v, 1);
	const E ratio = tw_has_in(x, 1) ? twir_cast(m, v->type.scalar, tw_scalar(x, 1)) : tw_like(x, v, 0.5);
	const E scale = twir_select(m, training(x), twir_div(m, one, twir_sub(m, one, ratio)), one);
	const E here = kept(x, tw_flatten(x, y->rank, y->shape, i));
	tw_define(x, y, axes, twir_select(m, here, twir_mul(m, v, scale), tw_like(x, v, 0)));
}

static void compute_dropout(struct tw_opctx *x)
{
	const bool always = !training(x);
	if (always)
		compute_reshape(x);
	else
		compute_training(x);
	if (!tw_has_out(x, 1))
		return;
	struct twir_tensor *y = tw_y(x, 1);
	E *i;
	struct twir_var **axes = tw_axes(x, y, &i);
	const struct twir_type type = twir_scalar_type(tw_compute_type(y->type));
	tw_define(x, y, axes, always ? twir_const_of(x->m, type, 1) : kept(x, tw_flatten(x, y->rank, y->shape, i)));
}

/* ---- Shape, Size */

static void shape_range(struct tw_opctx *x, int *start, int *end)
{
	const int rank = tw_in_rank(x, 0);
	int64_t s = tw_attr_int(x->node, "start", 0), e = tw_attr_int(x->node, "end", rank);
	s = s < 0 ? s + rank : s;
	e = e < 0 ? e + rank : e;
	*start = (int)(s < 0 ? 0 : s > rank ? rank : s);
	*end = (int)(e < 0 ? 0 : e > rank ? rank : e);
	if (*end < *start)
		*end = *start;
}

static void infer_shape(struct tw_opctx *x)
{
	int start, end;
	shape_range(x, &start, &end);
	const E n = twir_index(x->m, end - start);
	tw_set_out(x, 0, TWIR_I64, 1, &n);
}

static void compute_shape(struct tw_opctx *x)
{
	struct twir_tensor *y = tw_y(x, 0);
	E *i;
	struct twir_var **axes = tw_axes(x, y, &i);
	int start, end;
	shape_range(x, &start, &end);
	E v = twir_int(x->m, TWIR_I64, 0);
	for (int d = end - 1; d >= start; d--) {
		const E size = twir_cast(x->m, TWIR_I64, tw_in_dim(x, 0, d));
		v = d == end - 1 ? size : twir_select(x->m, twir_eq(x->m, i[0], twir_index(x->m, d - start)), size, v);
	}
	tw_define(x, y, axes, v);
}

static void infer_size(struct tw_opctx *x)
{
	tw_set_out(x, 0, TWIR_I64, 0, NULL);
}

static void compute_size(struct tw_opctx *x)
{
	const struct tw_tensor *t = tw_in(x, 0);
	const E n = twir_cast(x->m, TWIR_I64, tw_product(x, t->rank, t->shape));
	tw_define(x, tw_y(x, 0), NULL, n);
}

/* ---- ConstantOfShape */

static void infer_constant_of_shape(struct tw_opctx *x)
{
	E const *values;
	tw_need_type(x, 0, "i64");
	const int n = tw_in_values(x, 0, &values);
	if (n < 0)
		tw_op_fail(x, TW_ERR_UNSUPPORTED, "a shape that only data decides");
	const struct tw_attr *a = tw_attr_find(x->node, "value");
	if (a && x->g->tensors.at[a->tensor].bytes != twir_scalar_bytes(x->g->tensors.at[a->tensor].type))
		tw_op_fail(x, TW_ERR_MODEL, "value must hold one element");
	tw_set_out(x, 0, a ? x->g->tensors.at[a->tensor].type : TWIR_F32, n, values);
}

static void compute_constant_of_shape(struct tw_opctx *x)
{
	struct twir_tensor *y = tw_y(x, 0);
	const struct tw_attr *a = tw_attr_find(x->node, "value");
	const enum twir_scalar type = tw_compute_type(y->type);
	const struct tw_tensor *t = a ? &x->g->tensors.at[a->tensor] : NULL;
	E v;
	if (twir_is_float(type))
		v = twir_float(x->m, type, t ? tw_data_float(t->type, t->data, 0) : 0);
	else if (type == TWIR_I1)
		v = twir_bool(x->m, tw_data_int(t->type, t->data, 0) != 0);
	else
		v = twir_int(x->m, type, tw_data_int(t->type, t->data, 0));
	tw_define(x, y, tw_axes(x, y, NULL), v);
}

static const struct tw_attr_spec attrs_allowzero[] = {{"allowzero", TW_ATTR_INT, false}, {NULL}};
static const struct tw_attr_spec attrs_axis[] = {{"axis", TW_ATTR_INT, false}, {NULL}};
static const struct tw_attr_spec attrs_axes[] = {{"axes", TW_ATTR_INTS, false}, {NULL}};
static const struct tw_attr_spec attrs_is_test[] = {
	{"is_test", TW_ATTR_INT, false}, {"ratio", TW_ATTR_FLOAT, false}, {NULL}};
static const struct tw_attr_spec attrs_ratio[] = {{"ratio", TW_ATTR_FLOAT, false}, {NULL}};
static const struct tw_attr_spec attrs_seed[] = {{"seed", TW_ATTR_INT, false}, {NULL}};
static const struct tw_attr_spec attrs_range[] = {{"start", TW_ATTR_INT, false}, {"end", TW_ATTR_INT, false}, {NULL}};
static const struct tw_attr_spec attrs_value[] = {{"value", TW_ATTR_TENSOR, false}, {NULL}};

#define SAME .flags = TW_OP_RESHAPE, .compute = compute_reshape

const struct tw_op tw_ops_reshape[] = {
	{.name = "Reshape",
	 .since = 5,
	 .in = {2, 2},
	 .out = {1, 1},
	 .attrs = attrs_allowzero,
	 .infer = infer_reshape,
	 SAME},
	{.name = "Flatten", .since = 1, .in = {1, 1}, .out = {1, 1}, .attrs = attrs_axis, .infer = infer_flatten, SAME},
	{.name = "Squeeze",
	 .since = 1,
	 .until = 12,
	 .in = {1, 1},
	 .out = {1, 1},
	 .attrs = attrs_axes,
	 .infer = infer_squeeze,
	 SAME},
	{.name = "Squeeze", .since = 13, .in = {1, 2}, .out = {1, 1}, .infer = infer_squeeze, SAME},
	{.name = "Unsqueeze",
	 .since = 1,
	 .until = 12,
	 .in = {1, 1},
	 .out = {1, 1},
	 .attrs = attrs_axes,
	 .infer = infer_unsqueeze,
	 SAME},
	{.name = "Unsqueeze", .since = 13, .in = {2, 2}, .out = {1, 1}, .infer = infer_unsqueeze, SAME},
	{.name = "Identity", .since = 1, .in = {1, 1}, .out = {1, 1}, .infer = tw_infer_same, SAME},
	{.name = "Dropout",
	 .since = 1,
	 .until = 6,
	 .in = {1, 1},
	 .out = {1, 2},
	 .attrs = attrs_is_test,
	 .infer = infer_dropout,
	 .compute = compute_dropout},
	{.name = "Dropout",
	 .since = 7,
	 .until = 11,
	 .in = {1, 1},
	 .out = {1, 2},
	 .attrs = attrs_ratio,
	 .infer = infer_dropout,
	 .compute = compute_dropout},
	{.name = "Dropout",
	 .since = 12,
	 .in = {1, 3},
	 .out = {1, 2},
	 .attrs = attrs_seed,
	 .flags = TW_OP_RANDOM,
	 .infer = infer_dropout,
	 .compute = compute_dropout},
	{.name = "Shape",
	 .since = 1,
	 .until = 14,
	 .in = {1, 1},
	 .out = {1, 1},
	 .flags = TW_OP_SHAPE_ONLY,
	 .infer = infer_shape,
	 .compute = compute_shape},
	{.name = "Shape",
	 .since = 15,
	 .in = {1, 1},
	 .out = {1, 1},
	 .attrs = attrs_range,
	 .flags = TW_OP_SHAPE_ONLY,
	 .infer = infer_shape,
	 .compute = compute_shape},
	{.name = "Size",
	 .since = 1,
	 .in = {1, 1},
	 .out = {1, 1},
	 .flags = TW_OP_SHAPE_ONLY,
	 .infer = infer_size,
	 .compute = compute_size},
	{.name = "ConstantOfShape",
	 .since = 9,
	 .in = {1, 1},
	 .out = {1, 1},
	 .attrs = attrs_value,
	 .infer = infer_constant_of_shape,
	 .compute = compute_constant_of_shape},
	{0},
};
