/* Inverts the index map of an epilogue: the consumer's axes as expressions over the coordinates of the element that the anchor stores.
 *
 * Dimensions and axes fall into components (dimensions that share axes). Within one, the row-major number of the element is written as a sum of strides
 * times axes; when the strides form a complete mixed radix, every axis is (number / stride) % extent. This covers permutations, reshapes (a row index split
 * or merged) and their compositions, with symbolic sizes as long as the simplifier proves the strides equal. An axis that is read by its quotient and its
 * remainder (rows of which the batch runs fastest) is taken as two first. */
#include "sched/sched.h"

#define MAX_DIMS TWIR_MAX_RANK

struct inversion {
	struct twir_module *m;
	struct twir_facts facts;
	int naxes, ndims;
	struct twir_var *const *axes;
	const struct twir_expr *const *extents, *const *shape, *const *coords;
	const struct twir_expr *index[MAX_DIMS];
	bool uses[MAX_DIMS][MAX_DIMS]; /* dimension, axis */
};

static const struct twir_expr *simple(struct inversion *v, const struct twir_expr *e)
{
	return twir_simplify(&v->facts, e);
}

static bool is_one(const struct twir_expr *e)
{
	int64_t x;
	return twir_const_int(e, &x) && x == 1;
}

static bool is_zero(const struct twir_expr *e)
{
	int64_t x;
	return twir_const_int(e, &x) && x == 0;
}

/* The coefficient of axis k in number: number at axis k = 1, the others 0. */
static const struct twir_expr *coefficient(struct inversion *v, const struct twir_expr *number, int k)
{
	struct twir_subst s;
	twir_subst_init(&s, v->m);
	for (int i = 0; i < v->naxes; i++)
		twir_subst_set(&s, v->axes[i], twir_index(v->m, i == k));
	return simple(v, twir_subst_expr(&s, number));
}

/* One component: its dimensions and axes are given as sets. */
static bool invert_component(struct inversion *v, const bool *dims, const bool *used, const struct twir_expr **axis)
{
	struct twir_module *m = v->m;
	const struct twir_expr *number = twir_index(m, 0), *target = number, *size = twir_index(m, 1);
	for (int d = 0; d < v->ndims; d++) {
		if (!dims[d])
			continue;
		number = twir_add(m, twir_mul(m, number, v->shape[d]), v->index[d]);
		target = twir_add(m, twir_mul(m, target, v->shape[d]), v->coords[d]);
		size = twir_mul(m, size, v->shape[d]);
	}
	number = simple(v, number);
	size = simple(v, size);
	const struct twir_expr *stride[MAX_DIMS], *sum = twir_index(m, 0);
	int left = 0;
	for (int k = 0; k < v->naxes; k++) {
		if (!used[k])
			continue;
		stride[k] = coefficient(v, number, k);
		sum = twir_add(m, sum, twir_mul(m, stride[k], twir_var(m, v->axes[k])));
		left++;
	}
	if (!is_zero(coefficient(v, number, -1)) || !is_zero(simple(v, twir_sub(m, number, sum))))
		return false;
	const struct twir_expr *now = twir_index(m, 1);
	bool done[MAX_DIMS] = {false};
	for (; left > 0; left--) {
		int k = 0;
		while (k < v->naxes && !(used[k] && !done[k] && stride[k] == now))
			k++;
		if (k == v->naxes)
			return false;
		done[k] = true;
		const struct twir_expr *value = is_one(now) ? target : twir_div(m, target, now);
		axis[k] = left == 1 ? value : twir_mod(m, value, v->extents[k]);
		now = simple(v, twir_mul(m, now, v->extents[k]));
	}
	return now == size;
}

static bool invert(struct twir_module *m, int naxes, struct twir_var *const *axes,
		   const struct twir_expr *const *extents, int nindex, const struct twir_expr *const *index,
		   const struct twir_expr *const *shape, const struct twir_expr *const *coords,
		   const struct twir_expr **axis)
{
	struct inversion v = {.m = m,
			      .naxes = naxes,
			      .ndims = nindex,
			      .axes = axes,
			      .extents = extents,
			      .shape = shape,
			      .coords = coords};
	const struct twir_expr *simple_extents[MAX_DIMS], *simple_shape[MAX_DIMS];
	twir_facts_init(&v.facts, m);
	for (int k = 0; k < naxes; k++)
		simple_extents[k] = simple(&v, extents[k]);
	for (int d = 0; d < nindex; d++)
		simple_shape[d] = simple(&v, shape[d]);
	v.extents = simple_extents;
	v.shape = simple_shape;
	/* Where a size is zero there is nothing to invert: sizes may be taken for positive, so that (i / s) * s + i % s = i. */
	for (int k = 0; k < naxes; k++)
		twir_facts_assume(&v.facts, twir_lt(m, twir_index(m, 0), simple_extents[k]));
	for (int d = 0; d < nindex; d++)
		twir_facts_assume(&v.facts, twir_lt(m, twir_index(m, 0), simple_shape[d]));
	for (int d = 0; d < nindex; d++) {
		v.index[d] = simple(&v, index[d]);
		for (int k = 0; k < naxes; k++)
			v.uses[d][k] = twir_uses_var(v.index[d], axes[k]);
	}
	/* Axes that no index mentions must have extent 1. */
	for (int k = 0; k < naxes; k++) {
		bool used = false;
		for (int d = 0; d < nindex; d++)
			used |= v.uses[d][k];
		if (!used && !is_one(v.extents[k]))
			return false;
		axis[k] = twir_index(m, 0);
	}
	bool seen[MAX_DIMS] = {false};
	for (int d = 0; d < nindex; d++) {
		if (seen[d])
			continue;
		bool dims[MAX_DIMS] = {false}, used[MAX_DIMS] = {false}, grew = true, any = false;
		dims[d] = true;
		while (grew) {
			grew = false;
			for (int e = 0; e < nindex; e++)
				for (int k = 0; k < naxes; k++)
					if (v.uses[e][k] && dims[e] != used[k])
						dims[e] = used[k] = grew = true;
		}
		for (int e = 0; e < nindex; e++)
			seen[e] |= dims[e];
		for (int k = 0; k < naxes; k++)
			any |= used[k];
		if (any ? !invert_component(&v, dims, used, axis) : !(is_one(v.shape[d]) && is_zero(v.index[d])))
			return false;
	}
	return true;
}

struct divided {
	struct twir_module *m;
	const struct twir_var *axis;
	const struct twir_expr *by;
};

static void see_divided(void *arg, const struct twir_expr *e)
{
	struct divided *d = arg;
	if ((e->kind == TWIR_Div || e->kind == TWIR_Mod) && e->arg[0]->kind == TWIR_Var && e->arg[0]->u.var == d->axis)
		d->by = e->arg[1];
}

/* axis = high * by + low, where that divides its extent: index speaks of the two then. */
static bool split(struct twir_facts *f, struct twir_var *axis, const struct twir_expr *extent,
		  const struct twir_expr *by, int nindex, const struct twir_expr **index, struct twir_var **two,
		  const struct twir_expr **extents)
{
	struct twir_module *m = f->m;
	struct twir_subst s;
	extents[0] = twir_simplify(f, twir_div(m, extent, by));
	extents[1] = by;
	if (twir_simplify(f, twir_mul(m, extents[0], by)) != extent)
		return false;
	for (int i = 0; i < 2; i++) {
		two[i] = twir_var_new(m, TWIR_AXIS, twir_scalar_type(TWIR_INDEX), axis->name);
		twir_facts_assume(f, twir_le(m, twir_index(m, 0), twir_var(m, two[i])));
		twir_facts_assume(f, twir_lt(m, twir_var(m, two[i]), extents[i]));
	}
	twir_subst_init(&s, m);
	twir_subst_set(&s, axis, twir_add(m, twir_mul(m, twir_var(m, two[0]), by), twir_var(m, two[1])));
	for (int d = 0; d < nindex; d++)
		index[d] = twir_simplify(f, twir_subst_expr(&s, index[d]));
	return true;
}

bool tw_invert(struct twir_module *m, int naxes, struct twir_var *const *axes, const struct twir_expr *const *extents,
	       int nindex, const struct twir_expr *const *index, const struct twir_expr *const *shape,
	       const struct twir_expr *const *coords, const struct twir_expr **axis)
{
	struct twir_var *var[MAX_DIMS];
	const struct twir_expr *extent[MAX_DIMS], *at[MAX_DIMS], *found[MAX_DIMS];
	struct twir_facts f;
	if (invert(m, naxes, axes, extents, nindex, index, shape, coords, axis))
		return true;
	twir_facts_init(&f, m);
	for (int k = 0; k < naxes; k++) {
		var[k] = axes[k];
		extent[k] = twir_simplify(&f, extents[k]);
		twir_facts_assume(&f, twir_lt(m, twir_index(m, 0), extent[k]));
	}
	for (int d = 0; d < nindex; d++)
		at[d] = index[d];
	for (int k = 0; k < naxes && naxes < MAX_DIMS; k++) {
		struct divided x = {.m = m, .axis = axes[k]};
		for (int d = 0; d < nindex && !x.by; d++)
			twir_visit_expr(at[d], see_divided, &x);
		struct twir_var *two[2];
		const struct twir_expr *sizes[2];
		bool alone = x.by && !x.by->loads;
		for (int i = 0; i < naxes && alone; i++)
			alone = !twir_uses_var(x.by, axes[i]);
		if (!alone || !split(&f, axes[k], extent[k], x.by, nindex, at, two, sizes))
			continue;
		var[k] = two[0];
		extent[k] = sizes[0];
		var[naxes] = two[1];
		extent[naxes] = sizes[1];
		if (!tw_invert(m, naxes + 1, var, extent, nindex, at, shape, coords, found))
			return false;
		for (int i = 0; i < naxes; i++)
			axis[i] = found[i];
		axis[k] = twir_add(m, twir_mul(m, found[k], x.by), found[naxes]);
		return true;
	}
	return false;
}
