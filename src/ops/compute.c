/* compute.c: what compute definitions of operators are written with.
 *
 * Input: the compute tensors of a node's inputs. Output: definitions appended to the context, in order. Invariant:
 * f16 and bf16 are storage types: loads come back as f32 and definitions cast on the way out. */
#include "ops/op.h"

#include <stdio.h>

struct twir_tensor *tw_x(struct tw_opctx *x, int i)
{
	tw_in(x, i);
	return tw_graph_ir(x->g, x->node->in[i]);
}

struct twir_tensor *tw_y(struct tw_opctx *x, int i)
{
	tw_out(x, i);
	return tw_graph_ir(x->g, x->node->out[i]);
}

struct twir_tensor *tw_temp(struct tw_opctx *x, const char *name, enum twir_scalar type, int rank,
			    const struct twir_expr *const *shape)
{
	TW_CHECK(rank <= TWIR_MAX_RANK, "temporary %s of rank %d", name, rank);
	const struct twir_expr *sizes[TWIR_MAX_RANK];
	for (int d = 0; d < rank; d++)
		sizes[d] = tw_simplify(x, shape[d]);
	return twir_tensor_new(x->m, name, type, rank, sizes, TWIR_TENSOR);
}

struct twir_var **tw_axes(struct tw_opctx *x, const struct twir_tensor *t, const struct twir_expr ***as_exprs)
{
	struct twir_var **axes = ARENA_ARRAY(x->arena, struct twir_var *, t->rank);
	const struct twir_expr **exprs = ARENA_ARRAY(x->arena, const struct twir_expr *, t->rank);
	for (int d = 0; d < t->rank; d++) {
		char name[16];
		snprintf(name, sizeof name, "d%d", d); /* i1, i8 .. are types */
		axes[d] = tw_fold_axis(x, name, t->shape[d]);
		exprs[d] = twir_var(x->m, axes[d]);
	}
	if (as_exprs)
		*as_exprs = exprs;
	return axes;
}

struct twir_var *tw_fold_axis(struct tw_opctx *x, const char *name, const struct twir_expr *extent)
{
	struct twir_var *v = twir_var_new(x->m, TWIR_AXIS, twir_scalar_type(TWIR_INDEX), name);
	struct twir_facts f;
	twir_facts_init(&f, x->m);
	const struct twir_range r = twir_range_of(&f, extent);
	v->lo = 0;
	v->hi = r.hi > 0 ? r.hi - 1 : 0;
	return v;
}

void tw_define(struct tw_opctx *x, struct twir_tensor *out, struct twir_var *const *axes, const struct twir_expr *value)
{
	struct twir_compute *c = ARENA_NEW(x->arena, struct twir_compute);
	c->out = out;
	c->axes = ARENA_ARRAY(x->arena, struct twir_var *, out->rank);
	for (int d = 0; d < out->rank; d++)
		c->axes[d] = axes[d];
	if (value->type.scalar == TWIR_F32 && twir_is_storage(out->type))
		value = twir_cast(x->m, out->type, value);
	TW_CHECK(value->type.scalar == out->type, "%s: definition of %s has another type", x->node->op_type, out->name);
	c->value = value;
	c->origin = x->node->name;
	vec_push(x->arena, &x->computes, c);
}

const struct twir_expr *tw_load(struct tw_opctx *x, struct twir_tensor *t, int n, const struct twir_expr *const *index)
{
	const struct twir_expr *v = twir_load(x->m, t, n, index);
	return twir_is_storage(t->type) ? twir_cast(x->m, TWIR_F32, v) : v;
}

const struct twir_expr *tw_load_broadcast(struct tw_opctx *x, struct twir_tensor *t, int n,
					  const struct twir_expr *const *axes)
{
	const struct twir_expr *index[TWIR_MAX_RANK];
	TW_CHECK(t->rank <= n, "broadcast of %s to a lower rank", t->name);
	for (int d = 0; d < t->rank; d++) {
		int64_t size;
		const struct twir_expr *axis = axes[n - t->rank + d];
		const bool one = twir_const_int(t->shape[d], &size) && size == 1;
		const bool same = axis->kind == TWIR_Var && axis->u.var->lo == 0 && axis->u.var->hi == 0;
		index[d] = one && !same ? twir_index(x->m, 0) : axis;
	}
	return tw_load(x, t, t->rank, index);
}

void tw_unflatten(struct tw_opctx *x, const struct twir_expr *flat, int n, const struct twir_expr *const *shape,
		  const struct twir_expr **coords)
{
	/* The outermost coordinate takes no modulo and an axis of size 1 is at 0, so that maps stay short. */
	int outermost = 0;
	while (outermost < n && shape[outermost] == twir_index(x->m, 1))
		outermost++;
	const struct twir_expr *inner = twir_index(x->m, 1);
	for (int d = n - 1; d >= 0; d--) {
		const struct twir_expr *at = twir_div(x->m, flat, inner);
		if (shape[d] == twir_index(x->m, 1))
			coords[d] = twir_index(x->m, 0);
		else
			coords[d] = tw_simplify(x, d == outermost ? at : twir_mod(x->m, at, shape[d]));
		inner = tw_simplify(x, twir_mul(x->m, inner, shape[d]));
	}
}

const struct twir_expr *tw_flatten(struct tw_opctx *x, int n, const struct twir_expr *const *shape,
				   const struct twir_expr *const *coords)
{
	const struct twir_expr *flat = twir_index(x->m, 0);
	for (int d = 0; d < n; d++)
		flat = twir_add(x->m, twir_mul(x->m, flat, shape[d]), coords[d]);
	return tw_simplify(x, flat);
}

/* Ends of the next pair of runs of axes with equal products, the shortest there is. */
static void next_run(struct tw_opctx *x, int i0, int n, const struct twir_expr *const *a, int j0, int m,
		     const struct twir_expr *const *b, int *i, int *j)
{
	for (int total = 2; total <= (n - i0) + (m - j0); total++)
		for (*i = i0 + 1; *i <= n && *i - i0 < total; ++*i) {
			*j = j0 + total - (*i - i0);
			if (*j <= m && tw_product(x, *i - i0, a + i0) == tw_product(x, *j - j0, b + j0))
				return;
		}
	*i = n;
	*j = m;
}

void tw_reindex(struct tw_opctx *x, int nto, const struct twir_expr *const *to, const struct twir_expr *const *to_at,
		int nfrom, const struct twir_expr *const *from, const struct twir_expr **from_at)
{
	int i = 0, j = 0;
	while (i < nto || j < nfrom) {
		int i1, j1;
		next_run(x, i, nto, to, j, nfrom, from, &i1, &j1);
		if (j1 - j == 1 && i1 - i == 1) {
			from_at[j] = to_at[i];
		} else if (j1 > j) {
			const struct twir_expr *flat = tw_flatten(x, i1 - i, to + i, to_at + i);
			tw_unflatten(x, flat, j1 - j, from + j, from_at + j);
		}
		i = i1;
		j = j1;
	}
}

struct twir_tensor *tw_table(struct tw_opctx *x, const char *name, enum twir_scalar type, int rank, const int64_t *dims,
			     const void *data)
{
	int64_t bytes = twir_scalar_bytes(type);
	for (int d = 0; d < rank; d++)
		bytes *= dims[d];
	const void *copy = arena_copy(x->g->arena, data, (size_t)bytes);
	return tw_graph_ir(x->g, tw_graph_constant(x->g, name, type, rank, dims, copy));
}
