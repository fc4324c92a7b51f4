/* Constructors of calls, loads, folds, reductions and vectors; neutral elements; a node with other arguments. */
#include "ir/ir_int.h"

#include <math.h>

const struct twir_expr *twir_call(struct twir_module *m, struct twir_func *f, int n,
				  const struct twir_expr *const *args)
{
	const char *why = twir_bad_call(f, n, args);
	TW_CHECK(!why, "call of %s: %s", f->name, why);
	return twir_intern(m, &(struct twir_key){.kind = TWIR_Call, .type = f->result, .n = n, .args = args, .ptr = f});
}

static const struct twir_expr *load(struct twir_module *m, struct twir_tensor *t, int n,
				    const struct twir_expr *const *index, int lanes, const struct twir_expr *mask,
				    const struct twir_expr *other)
{
	const char *why = twir_bad_load(t, n, index, lanes, mask, other);
	TW_CHECK(!why, "load of %s: %s", t->name, why);
	const struct twir_expr *args[TWIR_MAX_RANK + 2];
	for (int i = 0; i < n; i++)
		args[i] = index[i];
	if (mask) {
		args[n] = mask;
		args[n + 1] = twir_splat_to(m, other, lanes);
	}
	return twir_intern(m, &(struct twir_key){.kind = TWIR_Load,
						 .type = twir_vector_type(t->type, lanes),
						 .n = mask ? n + 2 : n,
						 .nidx = n,
						 .args = args,
						 .ptr = t});
}

const struct twir_expr *twir_load(struct twir_module *m, struct twir_tensor *t, int n,
				  const struct twir_expr *const *index)
{
	return load(m, t, n, index, t->lanes, NULL, NULL);
}

const struct twir_expr *twir_load_wide(struct twir_module *m, struct twir_tensor *t, int n,
				       const struct twir_expr *const *index, int lanes, const struct twir_expr *mask,
				       const struct twir_expr *other)
{
	return load(m, t, n, index, lanes, mask, other);
}

const struct twir_expr *twir_gather(struct twir_module *m, struct twir_tensor *t, const struct twir_expr *index,
				    const struct twir_expr *mask, const struct twir_expr *other)
{
	const char *why = twir_bad_gather(t, index, mask, other);
	TW_CHECK(!why, "gather of %s: %s", t->name, why);
	const int lanes = index->type.lanes;
	const struct twir_expr *const args[] = {index, mask, mask ? twir_splat_to(m, other, lanes) : NULL};
	return twir_intern(m, &(struct twir_key){.kind = TWIR_Gather,
						 .type = twir_vector_type(t->type, lanes),
						 .n = mask ? 3 : 1,
						 .nidx = 1,
						 .args = args,
						 .ptr = t});
}

const struct twir_expr *twir_fold(struct twir_module *m, enum twir_kind op, int n, struct twir_var *const *axes,
				  const struct twir_expr *const *extents, const struct twir_expr *body)
{
	const char *why = twir_bad_fold(op, n, axes, extents, body);
	TW_CHECK(!why, "fold: %s", why);
	const struct twir_expr *args[2 * TWIR_MAX_RANK + 1] = {body};
	for (int i = 0; i < n; i++)
		args[i + 1] = extents[i];
	return twir_intern(
		m,
		&(struct twir_key){
			.kind = TWIR_Fold, .type = body->type, .n = n + 1, .args = args, .op = (int)op, .axes = axes});
}

const struct twir_expr *twir_reduce(struct twir_module *m, enum twir_kind op, const struct twir_expr *v)
{
	const char *why = twir_bad_reduce(op, v);
	TW_CHECK(!why, "reduce: %s", why);
	return twir_intern(m, &(struct twir_key){.kind = TWIR_Reduce,
						 .type = twir_scalar_type((enum twir_scalar)v->type.scalar),
						 .n = 1,
						 .args = &v,
						 .op = (int)op});
}

const struct twir_expr *twir_splat(struct twir_module *m, const struct twir_expr *a, int lanes)
{
	TW_CHECK(a->type.lanes == 1 && lanes >= 1 && lanes <= TWIR_MAX_LANES);
	if (lanes == 1)
		return a;
	return twir_intern(m, &(struct twir_key){.kind = TWIR_Splat,
						 .type = twir_vector_type((enum twir_scalar)a->type.scalar, lanes),
						 .n = 1,
						 .args = &a});
}

const struct twir_expr *twir_iota(struct twir_module *m, enum twir_scalar type, int lanes)
{
	TW_CHECK(twir_is_int(type) && type != TWIR_I1 && lanes >= 2 && lanes <= TWIR_MAX_LANES);
	return twir_intern(m, &(struct twir_key){.kind = TWIR_Iota, .type = twir_vector_type(type, lanes)});
}

const struct twir_expr *twir_extract(struct twir_module *m, const struct twir_expr *v, int lane)
{
	return twir_binary(m, TWIR_Extract, v, twir_index(m, lane));
}

const struct twir_expr *twir_with_args(struct twir_module *m, const struct twir_expr *e,
				       const struct twir_expr *const *args)
{
	bool changed = false;
	for (int i = 0; i < e->n; i++)
		changed |= args[i] != e->arg[i];
	if (!changed)
		return e;
	const bool masked = e->n == e->nidx + 2;
	const enum twir_kind k = (enum twir_kind)e->kind;
	switch (k) {
	case TWIR_Fma:
		return twir_fma(m, args[0], args[1], args[2]);
	case TWIR_Dot4:
		return twir_dot4(m, args[0], args[1], args[2]);
	case TWIR_Select:
		return twir_select(m, args[0], args[1], args[2]);
	case TWIR_Cond:
		return twir_cond(m, args[0], args[1], args[2]);
	case TWIR_Cast:
		return twir_cast(m, (enum twir_scalar)e->type.scalar, args[0]);
	case TWIR_Bitcast:
		return twir_bitcast(m, (enum twir_scalar)e->type.scalar, args[0]);
	case TWIR_Call:
		return twir_call(m, e->u.func, e->n, args);
	case TWIR_Load:
		return load(m, e->u.tensor, e->nidx, args, e->type.lanes, masked ? args[e->nidx] : NULL,
			    masked ? args[e->nidx + 1] : NULL);
	case TWIR_Gather:
		return twir_gather(m, e->u.tensor, args[0], masked ? args[1] : NULL, masked ? args[2] : NULL);
	case TWIR_Fold:
		return twir_fold(m, (enum twir_kind)e->op, e->n - 1, e->u.axes, args + 1, args[0]);
	case TWIR_Reduce:
		return twir_reduce(m, (enum twir_kind)e->op, args[0]);
	case TWIR_Splat:
		return twir_splat(m, args[0], e->type.lanes);
	default:
		return e->n == 1 ? twir_unary(m, k, args[0]) : twir_binary(m, k, args[0], args[1]);
	}
}

const struct twir_expr *twir_neutral(struct twir_module *m, enum twir_kind op, struct twir_type type)
{
	const enum twir_scalar s = (enum twir_scalar)type.scalar;
	const int width = s == TWIR_I1 ? 1 : twir_scalar_bytes(s) * 8;
	const bool is_signed = twir_is_signed(s);
	const int64_t ones = -1;
	/* the largest and smallest integers, as bits that twir_int wraps */
	const int64_t largest = is_signed ? (int64_t)(UINT64_MAX >> (65 - width)) : ones;
	const int64_t smallest = is_signed ? (int64_t)(0 - (uint64_t)largest - 1) : 0;
	const struct twir_expr *e;
	switch (op) {
	case TWIR_Add:
	case TWIR_Or:
	case TWIR_Xor:
		return twir_const_of(m, type, 0);
	case TWIR_Mul:
		return twir_const_of(m, type, 1);
	case TWIR_And:
		e = twir_int(m, s, ones);
		break;
	case TWIR_Min:
	case TWIR_MinNum:
		e = twir_is_float(s) ? twir_float(m, s, (double)INFINITY) : twir_int(m, s, largest);
		break;
	case TWIR_Max:
	case TWIR_MaxNum:
		e = twir_is_float(s) ? twir_float(m, s, -(double)INFINITY) : twir_int(m, s, smallest);
		break;
	default:
		tw_raise(TW_ERR_INTERNAL, "%s has no neutral element", twir_kind_name(op));
	}
	return twir_splat_to(m, e, type.lanes);
}
