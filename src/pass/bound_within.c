/* bound_within: `within` and surplus workers become shorter repeats and guards. needs: mappings; breaks: nothing.
 * Out: no for-mapping has bounds, each has as many workers as its levels or is guarded.
 *
 * A repeat is shortened where the coordinates of the factors outside it are known before it starts: the mapping is
 * split there into nested for-mappings. Where a dimension indexes register tensors its repeats keep their constant
 * extents and a guard does the work, or the registers could not become named variables. A guard stays too when
 * factors inside the last shortened repeat overshoot. */
#include "pass/pass_int.h"

struct split {
	struct twir_module *m;
	const struct twir_program *p;
	const struct twir_stmt *s;
	struct twp_factors f;
	const struct twir_expr *base[TWIR_MAX_RANK]; /* coordinates over the factors done so far; NULL: 0 */
	unsigned shorten[64];			     /* per factor: dimensions whose repeat is shortened */
	int start;				     /* first factor of the group being gathered */
};

struct indexed {
	const struct twir_var *v;
	bool yes;
};

static void check_load(void *arg, const struct twir_expr *e)
{
	struct indexed *x = arg;
	if (e->kind == TWIR_Load && e->u.tensor->scope == TWIR_REGISTER)
		for (int i = 0; i < e->nidx; i++)
			x->yes |= twir_uses_var(e->arg[i], x->v);
}

static void check_expr(void *arg, const struct twir_expr *e)
{
	twir_visit_expr(e, check_load, arg);
}

static void check_stmt(void *arg, const struct twir_stmt *s)
{
	struct indexed *x = arg;
	if (s->kind == TWIR_STORE && s->u.store.tensor->scope == TWIR_REGISTER)
		for (int i = 0; i < s->u.store.n; i++)
			x->yes |= twir_uses_var(s->u.store.index[i], x->v);
}

static bool indexes_registers(const struct twir_stmt *body, const struct twir_var *v)
{
	struct indexed x = {v, false};
	twir_visit_block(body, check_stmt, check_expr, &x);
	return x.yes;
}

/* May the mapping be split before and after factor r? Not between spatial factors of one level. */
static bool separable(const struct twir_program *p, const struct twp_factors *f, int r)
{
	bool before[3] = {false}, after[3] = {false};
	for (int i = 0; i < f->n; i++)
		if (f->at[i].spatial)
			(i < r ? before : after)[f->at[i].owner] = true;
	const bool mixed = before[TWP_MIXED] || after[TWP_MIXED];
	if (twp_is_gpu(p))
		return !(before[TWP_MIXED] && after[TWP_MIXED]);
	return !mixed && !(before[TWP_UPPER] && after[TWP_UPPER]) && !(before[TWP_LANE] && after[TWP_LANE]);
}

static const struct twir_expr *coordinate(struct split *x, int d, const struct twir_expr *extent, struct twir_var *v)
{
	const struct twir_expr *own = twir_var(x->m, v);
	return x->base[d] ? twir_add(x->m, twir_mul(x->m, x->base[d], extent), own) : own;
}

/* A for-mapping over factors [from, to) with fresh variables; moves base past them. */
static struct twir_stmt *group(struct split *x, int from, int to)
{
	struct twir_module *m = x->m;
	const int n = x->s->u.formap.n;
	struct twir_stmt *s = twp_copy(m, x->s);
	const struct twir_map *map = NULL;
	bool upper = false, any = false;
	/* The innermost group is the lane region, also where no factor counts lanes because there is only one. */
	bool lane = to == x->f.n;
	for (int i = 0; i < x->f.n; i++)
		lane &= !(x->f.at[i].spatial && x->f.at[i].owner == TWP_LANE);
	for (int i = from; i < to; i++) {
		const struct twir_map *one = twp_factor_map(m, &x->f.at[i]);
		map = map ? twir_compose(m, map, one) : one;
		any |= x->f.at[i].spatial;
		upper |= x->f.at[i].spatial && x->f.at[i].owner == TWP_UPPER;
		lane |= x->f.at[i].spatial && x->f.at[i].owner == TWP_LANE;
	}
	s->u.formap.map = map;
	s->u.formap.bounds = NULL;
	s->u.formap.body = NULL;
	s->u.formap.nlevels = 0;
	for (int i = 0; i < x->s->u.formap.nlevels; i++) {
		const enum twir_level l = x->s->u.formap.levels[i];
		if (twp_is_gpu(x->p) ? any : l == TWIR_LANE ? lane : upper)
			s->u.formap.levels[s->u.formap.nlevels++] = l;
	}
	s->u.formap.vars = ARENA_ARRAY(m->arena, struct twir_var *, n);
	for (int d = 0; d < n; d++) {
		const struct twir_expr *extent = twir_map_extent(m, map, d);
		struct twir_var *v =
			twir_var_new(m, TWIR_LOOP, twir_scalar_type(TWIR_INDEX), x->s->u.formap.vars[d]->base);
		s->u.formap.vars[d] = v;
		x->base[d] = coordinate(x, d, extent, v);
	}
	return s;
}

/* for v in repeat(min(extent, what is left of the bound)) over factor r. */
static struct twir_stmt *short_repeat(struct split *x, int r)
{
	struct twir_module *m = x->m;
	struct twp_factor *f = &x->f.at[r];
	const struct twp_factor kept = *f;
	for (int d = 0; d < x->s->u.formap.n; d++) {
		if (!(x->shorten[r] >> d & 1))
			continue;
		const struct twir_expr *inner = twp_inner_extent(m, &x->f, r, d);
		const struct twir_expr *left = x->s->u.formap.bounds[d];
		if (x->base[d])
			left = twir_sub(m, left, twir_mul(m, x->base[d], twir_mul(m, f->extent[d], inner)));
		int64_t one;
		if (!twir_const_int(inner, &one) || one != 1)
			left = twir_ceildiv(m, left, inner);
		f->extent[d] = twir_min(m, f->extent[d], left);
	}
	const struct twir_expr *before[TWIR_MAX_RANK];
	memcpy(before, x->base, sizeof before);
	struct twir_stmt *s = group(x, r, r + 1);
	*f = kept; /* coordinates go by the full extents */
	for (int d = 0; d < x->s->u.formap.n; d++) {
		x->base[d] = before[d];
		x->base[d] = coordinate(x, d, twp_task_extent(m, f, d), s->u.formap.vars[d]);
	}
	return s;
}

static void nest(struct twir_stmt ***hole, struct twir_stmt *s)
{
	**hole = s;
	*hole = &s->u.formap.body;
}

/* The nest of for-mappings around body, whose variables it binds by lets. */
static struct twir_stmt *split_around(struct split *x, struct twir_stmt *body)
{
	struct twir_module *m = x->m;
	struct twir_stmt *outer = NULL, **hole = &outer;
	for (int i = 0; i < x->f.n; i++) {
		if (!x->shorten[i])
			continue;
		if (i > x->start)
			nest(&hole, group(x, x->start, i));
		nest(&hole, short_repeat(x, i));
		x->start = i + 1;
	}
	if (x->start < x->f.n)
		nest(&hole, group(x, x->start, x->f.n));
	struct twp_list inner;
	twp_list_init(&inner);
	for (int d = 0; d < x->s->u.formap.n; d++) {
		struct twir_var *v = x->s->u.formap.vars[d];
		v->kind = TWIR_BOUND;
		twp_list_add(&inner, twir_let(m, v, x->base[d]));
	}
	twp_list_add(&inner, body);
	*hole = inner.head;
	return outer;
}

static const struct twir_expr *both(struct twir_module *m, const struct twir_expr *a, const struct twir_expr *b)
{
	return !a ? b : !b ? a : twir_and(m, a, b);
}

static const struct twir_expr *unless_proved(struct twp_walk *w, const struct twir_expr *cond)
{
	return twir_prove(&w->facts, twir_simplify(&w->facts, cond)) ? NULL : cond;
}

/* Conditions that keep surplus workers out: *outside around the for-mapping, the result inside it (it reads the
 * lane). */
static const struct twir_expr *surplus(struct twp_walk *w, struct split *x, const struct twir_expr **outside)
{
	struct twir_module *m = x->m;
	const struct twir_stmt *s = x->s;
	const struct twir_expr *upper = twir_index(m, 1), *lane = twir_index(m, 1), *all = twir_index(m, 1);
	bool mixed = false;
	for (int i = 0; i < x->f.n; i++) {
		const struct twp_factor *f = &x->f.at[i];
		if (!f->spatial)
			continue;
		mixed |= f->owner == TWP_MIXED;
		all = twir_mul(m, all, f->workers);
		if (f->owner == TWP_UPPER)
			upper = twir_mul(m, upper, f->workers);
		else
			lane = twir_mul(m, lane, f->workers);
	}
	const struct twir_expr *number = twir_index(m, 0), *inside = NULL;
	for (int i = 0; i < s->u.formap.nlevels; i++) {
		const enum twir_level l = s->u.formap.levels[i];
		const struct twir_expr *worker = twp_worker(m, x->p, l), *extent = twp_level_extent(m, x->p, l);
		number = twir_add(m, twir_mul(m, number, extent), worker);
		if (mixed)
			continue;
		if (l == TWIR_LANE && lane != extent)
			inside = unless_proved(w, twir_lt(m, worker, lane));
		else if (l != TWIR_LANE && upper != extent)
			*outside = unless_proved(w, twir_lt(m, worker, upper));
	}
	if (twp_is_gpu(x->p)) { /* the number is the same in all of the mapping */
		*outside = unless_proved(w, twir_lt(m, number, all));
		return NULL;
	}
	return mixed ? unless_proved(w, twir_lt(m, number, all)) : inside;
}

static bool needs_bound(struct twp_walk *w, const struct twir_stmt *s, int d)
{
	return s->u.formap.bounds && unless_proved(w, twir_le(w->m, twir_map_extent(w->m, s->u.formap.map, d),
							      s->u.formap.bounds[d])) != NULL;
}

static struct twir_stmt *bounded(struct twp_walk *w, const struct twir_program *p, const struct twir_stmt *s)
{
	struct twir_module *m = w->m;
	struct split x = {.m = m, .p = p, .s = s};
	twp_factors(m, s->u.formap.map, &x.f);
	twp_assign(m, x.p, s->u.formap.nlevels, s->u.formap.levels, &x.f);
	const struct twir_expr *outside = NULL, *guard = surplus(w, &x, &outside);
	bool any = false;
	for (int d = 0; d < s->u.formap.n; d++) {
		if (!needs_bound(w, s, d))
			continue;
		bool exact = false;
		const bool keep = indexes_registers(s->u.formap.body, s->u.formap.vars[d]);
		for (int i = 0; i < x.f.n && !keep; i++) {
			int64_t one;
			const bool unit = twir_const_int(twp_task_extent(m, &x.f.at[i], d), &one) && one == 1;
			if (x.f.at[i].spatial || unit) {
				exact &= unit; /* a spatial factor inside overshoots */
				continue;
			}
			exact = separable(x.p, &x.f, i);
			if (exact)
				x.shorten[i] |= 1u << d;
			any |= exact;
		}
		if (!exact)
			guard = both(m, guard, twir_lt(m, twir_var(m, s->u.formap.vars[d]), s->u.formap.bounds[d]));
	}
	const int mark = twp_enter(w, s, false);
	struct twir_stmt *body = twp_walk_block(w, s->u.formap.body);
	twp_leave(w, mark);
	if (guard)
		body = twir_if(m, guard, body, NULL);
	struct twir_stmt *c;
	if (any) {
		c = split_around(&x, body);
	} else {
		c = twp_copy(m, s);
		c->u.formap.bounds = NULL;
		c->u.formap.body = body;
	}
	return outside ? twir_if(m, outside, c, NULL) : c;
}

/* A tile of registers keeps its extents and gets a guard for each element. The whole tile is inside most times: it
 * gets a copy without, under the condition that the bounds exceed the tile. NULL: no such dimension. */
static const struct twir_expr *whole_tile(struct twp_walk *w, const struct twir_stmt *s, struct twir_stmt **copy)
{
	struct twir_module *m = w->m;
	const struct twir_expr *cond = NULL, *bounds[TWIR_MAX_RANK];
	for (int d = 0; d < s->u.formap.n; d++) {
		const struct twir_expr *extent = twir_map_extent(m, s->u.formap.map, d);
		int64_t size;
		bounds[d] = s->u.formap.bounds ? s->u.formap.bounds[d] : NULL;
		if (!twir_const_int(extent, &size) || !needs_bound(w, s, d) ||
		    !indexes_registers(s->u.formap.body, s->u.formap.vars[d]))
			continue;
		cond = both(m, cond, twir_le(m, extent, bounds[d]));
		bounds[d] = extent;
	}
	if (cond) {
		struct twir_subst fresh;
		twir_subst_init(&fresh, m);
		struct twir_stmt *inside = twp_copy(m, s);
		inside->u.formap.bounds = arena_copy(m->arena, bounds, sizeof *bounds * (size_t)s->u.formap.n);
		*copy = twir_subst_block(&fresh, inside);
	}
	return cond;
}

static bool statement(struct twp_walk *w, const struct twir_stmt *s, struct twp_list *out)
{
	struct twir_stmt *whole;
	if (s->kind != TWIR_FORMAP)
		return false;
	const struct twir_expr *cond = whole_tile(w, s, &whole);
	struct twir_stmt *c = bounded(w, w->user, s);
	twp_list_add(out, cond ? twir_if(w->m, cond, bounded(w, w->user, whole), c) : c);
	return true;
}

void pass_bound_within(struct twir_module *m, struct twir_program *p, const struct tw_target *t)
{
	(void)t;
	struct twp_walk w;
	twp_walk_init(&w, m, p);
	w.user = p;
	w.stmt = statement;
	p->body = twp_walk_block(&w, p->body);
}
