/* Finds attention around a row program: one product of two makes what its stages read, row by row, and another one
 * sums what they make over the elements of a row. Masks, scales and the softmax itself are the stages' business;
 * the products are known by their definitions alone (a fold of a product), whatever operators, transposes and
 * reshapes they were.
 *
 * Where the stages give elements beyond some place a weight of zero (a causal mask, by condition or as a
 * constant), that place is the limit. */
#include "opt/rows_int.h"

typedef const struct twir_expr *E;

/* sum over one axis of a product of floats */
static bool is_product(const struct twir_compute *c)
{
	const E v = c->value;
	return v->kind == TWIR_Fold && v->op == TWIR_Add && v->n == 2 && v->arg[0]->kind == TWIR_Mul &&
	       (v->type.scalar == TWIR_F32 || v->type.scalar == TWIR_F64);
}

/* A factor of definition i's product with its producers inlined. */
static E factor(struct grouping *x, int i, int arg)
{
	const struct group_def *d = &x->def[i];
	E e = d->c->value->arg[0]->arg[arg];
	for (int k = d->producers.n - 1; k >= 0; k--)
		e = tw_inline(x->m, e, x->def[d->producers.at[k]].c);
	return e;
}

static struct twir_var *new_axis(struct rows_search *s, const char *name, E extent)
{
	struct twir_var *v = twir_var_new(s->m, TWIR_AXIS, twir_scalar_type(TWIR_INDEX), name);
	const struct twir_range r = twir_range_of(&s->facts, extent);
	v->lo = 0;
	v->hi = r.hi > 0 ? r.hi - 1 : 0;
	return v;
}

static bool users_are_stages(const struct rows_search *s, int i)
{
	const struct group_def *d = &s->x->def[i];
	for (int k = 0; k < d->users.n; k++)
		if (!rows_is_member(s, d->users.at[k]))
			return false;
	return !d->output;
}

static bool free_to_join(const struct rows_search *s, int i)
{
	const struct group_def *d = &s->x->def[i], *seed = &s->x->def[s->members.at[0]];
	return !d->gone && !d->whole && !d->rows && d->region == seed->region && d->constant == seed->constant;
}

/* The product whose result the stages read, -1; what lies between (its epilogue) becomes a stage. */
static int find_scores(struct rows_search *s)
{
	struct grouping *x = s->x;
	for (int i = 0; i < s->places.n; i++) {
		const int p = group_producer_of(x, s->places.at[i].t);
		struct tw_stage stage;
		if (p < 0 || s->places.at[i].row || rows_is_member(s, p) || !users_are_stages(s, p) ||
		    !free_to_join(s, p))
			continue;
		if (x->def[p].anchor) {
			if (is_product(x->def[p].c))
				return p;
			continue;
		}
		if (rows_producer_stage(s, p, &stage))
			rows_add_member(s, p, &stage); /* its own loads come up later in the list */
	}
	return -1;
}

/* The only stage that others read, and the only one who does. */
static int find_result(const struct rows_search *s, struct tw_attention *a)
{
	const struct grouping *x = s->x;
	int found = -1;
	for (int k = 0; k < s->members.n; k++) {
		const struct group_def *d = &x->def[s->members.at[k]];
		bool stored = d->output;
		for (int u = 0; u < d->users.n; u++)
			stored |= !rows_is_member(s, d->users.at[u]);
		if (!stored)
			continue;
		if (found >= 0 || d->output || d->users.n != 1 || s->stages.at[k].row)
			return -1;
		found = d->users.at[0];
		a->weights = d->c->out;
	}
	return found >= 0 && x->def[found].c && is_product(x->def[found].c) && free_to_join(s, found) ? found : -1;
}

static bool uses_query(const struct rows_search *s, const struct tw_attention *a, E e)
{
	return twir_uses_var(e, s->rows->row[a->query]);
}

/* q and k over the rows' axes, the keys' and depth. */
static bool set_scores(struct rows_search *s, int i, struct tw_attention *a)
{
	const struct twir_compute *c = s->x->def[i].c;
	const struct rows_place *at = rows_place_of(s, c->out);
	struct rows_axes axes;
	if (!rows_list_axes(c, NULL, &axes))
		return false;
	for (int d = 0; d < axes.n; d++)
		axes.at[d] = at->at[d];
	a->scores = c->out;
	a->depth_extent = c->value->arg[1];
	a->depth = new_axis(s, "d", a->depth_extent);
	axes.var[axes.n] = c->value->u.axes[0];
	axes.at[axes.n++] = twir_var(s->m, a->depth);
	const E f[] = {rows_at_axes(s, factor(s->x, i, 0), &axes), rows_at_axes(s, factor(s->x, i, 1), &axes)};
	const struct twir_var *key = s->rows->fold[0];
	for (int swap = 0; swap < 2; swap++) {
		a->q = f[swap];
		a->k = f[1 - swap];
		if (twir_uses_var(a->q, key) || !twir_uses_var(a->k, key))
			continue;
		for (a->query = s->rows->nrow - 1; a->query >= 0; a->query--)
			if (uses_query(s, a, a->q) && !uses_query(s, a, a->k))
				return true;
	}
	return false;
}

/* v over the rows' axes, the keys' and the column; where results lie. */
static bool set_result(struct rows_search *s, int i, struct tw_attention *a)
{
	struct twir_module *m = s->m;
	const struct twir_compute *c = s->x->def[i].c;
	const struct rows_place *at = rows_place_of(s, a->weights);
	for (int arg = 0; arg < 2; arg++) {
		const E w = factor(s->x, i, arg), v = factor(s->x, i, 1 - arg);
		if (w->kind != TWIR_Load || w->u.tensor != a->weights || w->n != w->nidx ||
		    twir_uses_tensor(v, a->weights))
			continue;
		/* Axes that the weights do not know: one, the column. */
		struct rows_axes all, own = {0};
		struct twir_var *column = NULL;
		if (!rows_list_axes(c, c->value, &all))
			continue;
		for (int k = 0; k < all.n; k++) {
			int64_t size;
			const bool one = twir_const_int(all.extent[k], &size) && size == 1;
			if (k < c->out->rank && !one && !twir_uses_var(w, all.var[k])) {
				if (column)
					return false;
				column = all.var[k];
				a->column_extent = all.extent[k];
				continue;
			}
			own.var[own.n] = all.var[k];
			own.extent[own.n++] = all.extent[k];
		}
		if (!column || !tw_invert(m, own.n, own.var, own.extent, w->u.tensor->rank, w->arg, w->u.tensor->shape,
					  at->at, own.at))
			return false;
		a->column = new_axis(s, "e", a->column_extent);
		own.var[own.n] = column;
		own.at[own.n++] = twir_var(m, a->column);
		for (int d = 0; d < c->out->rank; d++) {
			a->place[d] = rows_at_axes(s, twir_var(m, c->axes[d]), &own);
			if (twir_uses_var(a->place[d], s->rows->fold[0]))
				return false;
		}
		/* The sum runs over the keys and nothing else. */
		if (rows_at_axes(s, twir_var(m, c->value->u.axes[0]), &own) != twir_var(m, s->rows->fold[0]))
			return false;
		a->v = rows_at_axes(s, v, &own);
		return !uses_query(s, a, a->v);
	}
	return false;
}

#define LIGHT 12 /* operations that packing may repeat for each band of queries */

/* What merely prepares the operands of product i (a scale, a bias) is done while they are packed. */
static void absorb(struct rows_search *s, int i)
{
	struct grouping *x = s->x;
	bool again = true;
	while (again) {
		struct twir_tensor **t;
		int n;
		again = false;
		tw_loaded_tensors(x->a, group_whole_value(x, i), &t, &n);
		for (int k = 0; k < n && !again; k++) {
			const int p = group_producer_of(x, t[k]);
			const struct group_def *d = p >= 0 ? &x->def[p] : NULL;
			if (!d || d->anchor || d->output || d->users.n != 1 || d->users.at[0] != i ||
			    !free_to_join(s, p) || rows_is_member(s, p) || tw_cost(d->c->value) > LIGHT ||
			    group_serves_an_anchor(x, p, 0, NULL))
				continue;
			group_vanish(x, p);
			again = true;
		}
	}
}

struct tw_attention *group_find_attention(struct rows_search *s)
{
	struct grouping *x = s->x;
	struct tw_attention *a = ARENA_NEW(x->a, struct tw_attention);
	const int members = s->members.n, places = s->places.n;
	if (s->rows->nfold != 1)
		return NULL;
	a->rows = s->rows;
	const int result = find_result(s, a), scores = result < 0 ? -1 : find_scores(s);
	if (scores >= 0 && set_scores(s, scores, a) && set_result(s, result, a)) {
		vec_push(x->a, &s->guests, scores);
		if (rows_closed(s, result)) {
			vec_push(x->a, &s->guests, result);
			absorb(s, scores);
			absorb(s, result);
			TW_CHECK(set_scores(s, scores, a) && set_result(s, result, a), "operands changed");
			group_find_limit(s, a);
			return a;
		}
	}
	s->members.n = s->stages.n = members;
	s->places.n = places;
	s->guests.n = 0;
	return NULL;
}
