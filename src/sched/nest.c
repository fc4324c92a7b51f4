/* The loop nest of a definition: its axes (or a fold's) with neighbours merged where every access walks through them as through one, so that lanes and
 * blocks see long axes and never the shape's accidents. */
#include "sched/nest.h"

/* Does value use v outside the indices of loads (a guard, an arithmetic use)? Loads are hidden behind constants first. */
static const struct twir_expr *hide_load(struct twir_rewriter *r, const struct twir_expr *e)
{
	return e->kind == TWIR_Load ? twir_const_of(r->m, e->type, 0) : e;
}

static bool used_outside_loads(struct twir_module *m, const struct twir_expr *value, const struct twir_var *v)
{
	struct twir_rewriter r;
	twir_rewriter_init(&r, m);
	r.expr = hide_load;
	return twir_uses_var(twir_rewrite_expr(&r, value), v);
}

struct load_list {
	struct tw_arena *a;
	VEC(const struct twir_expr *) loads;
};

static void list_load(void *arg, const struct twir_expr *e)
{
	struct load_list *l = arg;
	if (e->kind == TWIR_Load)
		vec_push(l->a, &l->loads, e);
}

static void see_division(void *arg, const struct twir_expr *e)
{
	if (e->kind == TWIR_Div || e->kind == TWIR_Mod)
		*(bool *)arg = true;
}

static bool divides(const struct twir_expr *e)
{
	bool found = false;
	twir_visit_expr(e, see_division, &found);
	return found;
}

/* Offset of a load with two axes written as quotient and remainder of a merged one: one walk when no division is left that was not there before. */
static bool walks_as_one(struct twir_module *m, const struct twir_expr *load, struct twir_var *a, struct twir_var *b,
			 const struct twir_expr *b_extent, const struct twir_expr *merged_extent)
{
	if (!twir_uses_var(load, a) && !twir_uses_var(load, b))
		return true;
	struct twir_facts f;
	twir_facts_init(&f, m);
	struct twir_var *v = twir_var_new(m, TWIR_LOOP, twir_scalar_type(TWIR_INDEX), "merged");
	int64_t n;
	twir_facts_range(&f, v, 0, twir_const_int(merged_extent, &n) ? n - 1 : INT64_MAX);
	const struct twir_expr *at = twir_layout_offset(m, load->u.tensor, load->nidx, load->arg);
	const bool before = divides(twir_simplify(&f, at));
	struct twir_subst s;
	twir_subst_init(&s, m);
	twir_subst_set(&s, a, twir_div(m, twir_var(m, v), b_extent));
	twir_subst_set(&s, b, twir_mod(m, twir_var(m, v), b_extent));
	const struct twir_expr *after = twir_simplify(&f, twir_subst_expr(&s, at));
	if (!before && divides(after))
		return false;
	const struct twir_expr *base;
	int64_t stride;
	return twir_linear_in(&f, after, v, &base, &stride);
}

enum {
	LONG = 4096
}; /* elements of known number that need no more of unknown number: their indices stay narrow, their loops known */

static bool mergeable(struct twir_module *m, const struct load_list *l, const struct twir_expr *value,
		      struct twir_var *a, struct twir_var *b, const struct twir_expr *a_extent,
		      const struct twir_expr *b_extent)
{
	if (used_outside_loads(m, value, a) || used_outside_loads(m, value, b))
		return false;
	if (tw_size_or(b_extent, 0) >= LONG && tw_size_or(a_extent, 0) == 0)
		return false;
	const struct twir_expr *merged = twir_mul(m, a_extent, b_extent);
	for (int i = 0; i < l->loads.n; i++)
		if (!walks_as_one(m, l->loads.at[i], a, b, b_extent, merged))
			return false;
	return true;
}

/* Merges axes first and first + 1 of the nest; the merged axis takes the first's place. */
static void merge(struct tw_nest *n, int first)
{
	struct twir_module *m = n->m;
	struct twir_var *v = twir_var_new(m, TWIR_LOOP, twir_scalar_type(TWIR_INDEX), "p");
	const struct twir_expr *ve = twir_var(m, v), *inner = n->extent[first + 1];
	struct twir_subst s;
	twir_subst_init(&s, m);
	twir_subst_set(&s, n->var[first], twir_div(m, ve, inner));
	twir_subst_set(&s, n->var[first + 1], twir_mod(m, ve, inner));
	for (int i = 0; i < n->nplaces; i++)
		n->place[i] = twir_subst_expr(&s, n->place[i]);
	n->value = twir_subst_expr(&s, n->value);
	n->var[first] = v;
	n->extent[first] = twir_mul(m, n->extent[first], inner);
	for (int i = first + 1; i + 1 < n->rank; i++) {
		n->var[i] = n->var[i + 1];
		n->extent[i] = n->extent[i + 1];
	}
	n->rank--;
}

void tw_nest_init(struct tw_nest *n, struct twir_module *m, int rank, struct twir_var *const *axes,
		  const struct twir_expr *const *extents, const struct twir_expr *value)
{
	*n = (struct tw_nest){.m = m, .value = value};
	struct twir_subst s;
	twir_subst_init(&s, m);
	for (int i = 0; i < rank; i++) {
		int64_t size;
		const bool one = twir_const_int(extents[i], &size) && size == 1;
		struct twir_var *v = one ? NULL : tw_loop_var(m, axes[i]->name);
		n->place[n->nplaces] = one ? twir_index(m, 0) : twir_var(m, v);
		twir_subst_set(&s, axes[i], n->place[n->nplaces++]);
		if (one)
			continue;
		n->var[n->rank] = v;
		n->extent[n->rank++] = extents[i];
	}
	n->value = twir_subst_expr(&s, value);
}

/* Only the order matters: a symbol counts as so much that sizes made of it (a sound's windows) are more than one. */
static int64_t stride_of(struct twir_module *m, const struct twir_expr *stride)
{
	enum { MANY = 1024 };
	return tw_size_or(stride, tw_size_about(m, stride, MANY));
}

void tw_nest_order(struct tw_nest *n, const struct twir_tensor *out)
{
	if (!out->layout || out->layout->kind != TWIR_LAYOUT_STRIDES)
		return;
	for (int d = 0, k = 0; d < n->nplaces; d++) {
		if (n->place[d]->kind != TWIR_Var) /* an axis of one element has gone */
			continue;
		struct twir_var *v = n->var[k];
		const struct twir_expr *extent = n->extent[k];
		const int64_t stride = stride_of(n->m, out->layout->extent[d]);
		int at = k++;
		for (; at > 0; at--) {
			int before = 0;
			while (n->place[before] != twir_var(n->m, n->var[at - 1]))
				before++;
			if (stride_of(n->m, out->layout->extent[before]) >= stride)
				break;
			n->var[at] = n->var[at - 1];
			n->extent[at] = n->extent[at - 1];
		}
		n->var[at] = v;
		n->extent[at] = extent;
	}
}

/* The store at `place` of `out` counts as an access too. */
void tw_nest_merge(struct tw_nest *n, struct twir_tensor *out)
{
	for (int i = n->rank - 2; i >= 0; i--) {
		struct load_list l = {.a = n->m->arena};
		twir_visit_expr(n->value, list_load, &l);
		if (out)
			vec_push(l.a, &l.loads, twir_load(n->m, out, n->nplaces, n->place));
		if (mergeable(n->m, &l, n->value, n->var[i], n->var[i + 1], n->extent[i], n->extent[i + 1]))
			merge(n, i);
	}
}

void tw_nest_flatten_short(struct tw_nest *n, int lanes)
{
	int64_t last;
	while (n->rank >= 2 && twir_const_int(n->extent[n->rank - 1], &last) && last * 2 <= lanes)
		merge(n, n->rank - 2);
	if (n->rank == 0) {
		n->var[0] = tw_loop_var(n->m, "p");
		n->extent[0] = twir_index(n->m, 1);
		n->rank = 1;
	}
}

double tw_nest_lane_score(struct tw_nest *n, const struct twir_var *v, const struct twir_expr *extent, int lanes)
{
	struct load_list l = {.a = n->m->arena};
	twir_visit_expr(n->value, list_load, &l);
	struct twir_facts f;
	twir_facts_init(&f, n->m);
	double good = 1, all = 1; /* the store counts as good: a reduction's costs nothing */
	for (int i = 0; i < l.loads.n; i++) {
		const struct twir_expr *load = l.loads.at[i], *base;
		int64_t stride = -1;
		all++;
		if (twir_linear_in(&f, twir_layout_offset(n->m, load->u.tensor, load->nidx, load->arg), v, &base,
				   &stride))
			good += stride == 0 || stride == 1 ? 1 : 0.2;
		else
			good += 0.1;
	}
	int64_t size;
	const double full = twir_const_int(extent, &size) && size > 0
				    ? (double)size / (double)((size + lanes - 1) / lanes * lanes)
				    : 0.9;
	return good / all * full;
}

/* --- transposes --- */

/* How far apart the elements are that neighbours along v load; NULL: not always equally far. */
static const struct twir_expr *stride_along(struct twir_facts *f, const struct twir_expr *offset, struct twir_var *v)
{
	struct twir_subst s;
	twir_subst_init(&s, f->m);
	twir_subst_set(&s, v, twir_add(f->m, twir_var(f->m, v), twir_index(f->m, 1)));
	const struct twir_expr *by = twir_simplify(f, twir_sub(f->m, twir_subst_expr(&s, offset), offset));
	return twir_uses_var(by, v) ? NULL : by;
}

static bool is_number(const struct twir_expr *e, int64_t n)
{
	int64_t v;
	return e && twir_const_int(e, &v) && v == n;
}

/* Not of the nest's own variables: symbols and numbers alone */
static bool constant_along(const struct tw_nest *n, const struct twir_expr *e)
{
	for (int i = 0; i < n->rank; i++)
		if (twir_uses_var(e, n->var[i]))
			return false;
	return true;
}

/* Axes that a load's neighbours lie along, the farthest apart first, as the load with the most axes has them. */
static void sort_by_load(struct tw_nest *n, const struct twir_expr *const *strides)
{
	int64_t stride[TWIR_MAX_RANK];
	for (int k = 0; k < n->rank; k++) {
		struct twir_var *v = n->var[k];
		const struct twir_expr *extent = n->extent[k];
		const int64_t own = stride_of(n->m, strides[k]);
		int at = k;
		for (; at > 0 && stride[at - 1] < own; at--) {
			n->var[at] = n->var[at - 1];
			n->extent[at] = n->extent[at - 1];
			stride[at] = stride[at - 1];
		}
		n->var[at] = v;
		n->extent[at] = extent;
		stride[at] = own;
	}
}

void tw_nest_order_loads(struct tw_nest *n, int lanes)
{
	struct load_list l = {.a = n->m->arena};
	struct twir_facts f;
	const struct tw_nest before = *n;
	const struct twir_expr *strides[TWIR_MAX_RANK];
	twir_visit_expr(n->value, list_load, &l);
	twir_facts_init(&f, n->m);
	for (int i = 0; i < l.loads.n && n->rank > 1; i++) {
		const struct twir_expr *load = l.loads.at[i];
		const struct twir_expr *at = twir_layout_offset(n->m, load->u.tensor, load->nidx, load->arg);
		int used = 0;
		for (int k = 0; k < n->rank; k++) {
			strides[k] = stride_along(&f, at, n->var[k]);
			used += strides[k] && constant_along(n, strides[k]) && !is_number(strides[k], 0);
		}
		if (used < n->rank)
			continue;
		const int last = n->rank - 1;
		const double score = tw_nest_lane_score(n, n->var[last], n->extent[last], lanes);
		sort_by_load(n, strides);
		if (tw_nest_lane_score(n, n->var[last], n->extent[last], lanes) <= score)
			*n = before;
		return;
	}
}

/* Of an axis that is not empty: for choices alone. */
static void see_divisor(void *arg, const struct twir_expr *e)
{
	struct twir_facts *f = arg;
	if ((e->kind == TWIR_Div || e->kind == TWIR_Mod) && e->type.scalar == TWIR_INDEX)
		twir_facts_assume(f, twir_lt(f->m, twir_index(f->m, 0), e->arg[1]));
}

int tw_nest_across(struct tw_nest *n)
{
	struct load_list l = {.a = n->m->arena};
	struct twir_facts f;
	int best = -1, most = 0;
	twir_visit_expr(n->value, list_load, &l);
	twir_facts_init(&f, n->m);
	for (int k = 0; k < l.loads.n; k++)
		twir_visit_expr(l.loads.at[k], see_divisor, &f);
	for (int i = 0; i + 1 < n->rank; i++) {
		int found = 0;
		for (int k = 0; k < l.loads.n; k++) {
			const struct twir_expr *load = l.loads.at[k];
			const struct twir_expr *at = twir_layout_offset(n->m, load->u.tensor, load->nidx, load->arg);
			const struct twir_expr *last = stride_along(&f, at, n->var[n->rank - 1]);
			found += last && !is_number(last, 0) && !is_number(last, 1) &&
				 is_number(stride_along(&f, at, n->var[i]), 1);
		}
		best = found > most ? i : best;
		most = found > most ? found : most;
	}
	return best;
}

/* --- constants --- */

struct gathered {
	struct tw_nest *n;
	const struct tw_task *task;
	struct twir_var *lane;
	struct load_list found;
};

static void see_gathered(void *arg, const struct twir_expr *e)
{
	struct gathered *g = arg;
	const struct twir_expr *base;
	int64_t stride;
	struct twir_facts f;
	if (e->kind != TWIR_Load || !twir_uses_var(e, g->lane) || !tw_is_constant(g->task, e))
		return;
	twir_facts_init(&f, g->n->m);
	if (!twir_linear_in(&f, twir_layout_offset(g->n->m, e->u.tensor, e->nidx, e->arg), g->lane, &base, &stride) ||
	    stride != 1)
		vec_push(g->found.a, &g->found.loads, e);
}

struct axes {
	VEC(struct twir_var *) var;
	VEC(const struct twir_expr *) extent;
};

static void add_axis(struct twir_module *m, struct axes *a, const struct twir_expr *load, struct twir_var *v,
		     const struct twir_expr *extent)
{
	if (twir_uses_var(load, v)) {
		vec_push(m->arena, &a->var, v);
		vec_push(m->arena, &a->extent, extent);
	}
}

static void list_fold_axes(void *arg, const struct twir_expr *e)
{
	struct gathered *g = ((void **)arg)[0];
	struct axes *a = ((void **)arg)[1];
	const struct twir_expr *load = ((void **)arg)[2];
	for (int i = 0; e->kind == TWIR_Fold && i + 1 < e->n; i++)
		add_axis(g->n->m, a, load, e->u.axes[i], e->arg[i + 1]);
}

/* The load's value over the axes it speaks of, the lane axis last. */
static const struct twir_expr *laid_out(struct gathered *g, struct tw_launch *out, const struct twir_expr *load)
{
	struct twir_module *m = g->n->m;
	struct axes a = {0};
	for (int i = 0; i < g->n->rank; i++)
		if (g->n->var[i] != g->lane)
			add_axis(m, &a, load, g->n->var[i], g->n->extent[i]);
	void *args[] = {g, &a, (void *)load};
	twir_visit_expr(g->n->value, list_fold_axes, args);
	for (int i = 0; i < g->n->rank; i++)
		if (g->n->var[i] == g->lane)
			add_axis(m, &a, load, g->lane, g->n->extent[i]);
	struct twir_var *axis[TWIR_MAX_RANK];
	const struct twir_expr *at[TWIR_MAX_RANK];
	int64_t size;
	struct twir_subst s;
	twir_subst_init(&s, m);
	if (a.var.n > TWIR_MAX_RANK)
		return load;
	for (int i = 0; i < a.var.n; i++) {
		if (!twir_const_int(a.extent.at[i], &size))
			return load;
		axis[i] = twir_var_new(m, TWIR_AXIS, twir_scalar_type(TWIR_INDEX), a.var.at[i]->base);
		at[i] = twir_var(m, a.var.at[i]);
		twir_subst_set(&s, a.var.at[i], twir_var(m, axis[i]));
	}
	struct twir_tensor *t = tw_prepare(g->task, out, load->u.tensor->base, (enum twir_scalar)load->type.scalar,
					   a.var.n, a.extent.at, axis, twir_subst_expr(&s, load));
	return twir_load(m, t, a.var.n, at);
}

void tw_nest_prepare(struct tw_nest *n, const struct tw_task *task, struct tw_launch *out, int lane_axis)
{
	struct gathered g = {.n = n, .task = task, .lane = n->var[lane_axis], .found = {.a = n->m->arena}};
	twir_visit_expr(n->value, see_gathered, &g);
	for (int i = 0; i < g.found.loads.n; i++) {
		const struct twir_expr *load = g.found.loads.at[i];
		n->value = tw_swapped(n->m, n->value, load, laid_out(&g, out, load));
	}
}
