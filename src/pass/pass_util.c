/* pass_util: the factors of a mapping and who owns them, lets of integers replaced by their values, small statement
 * builders. */
#include "pass/pass_int.h"

static int64_t tree_size(struct tw_map *memo, const struct twir_expr *e)
{
	const int64_t limit = (int64_t)1 << 40;
	int64_t n = (int64_t)(intptr_t)map_get_ptr(memo, e);
	if (n)
		return n;
	n = 1;
	for (int i = 0; i < e->n && n < limit; i++)
		n += tree_size(memo, e->arg[i]);
	if (n > limit)
		n = limit;
	map_set_ptr(memo, e, (void *)(intptr_t)n);
	return n;
}

int64_t twp_tree_size(const struct twir_expr *e)
{
	struct tw_arena *a = arena_new();
	struct tw_map memo;
	map_init(&memo, a);
	const int64_t n = tree_size(&memo, e);
	arena_free(a);
	return n;
}

/* Text grows by at most this factor a let; larger values keep their name. */
enum { INLINE_NODES = 160 };

static bool inline_let(struct twp_walk *w, const struct twir_stmt *s, struct twp_list *out)
{
	(void)out;
	struct twp_replace *r = w->user;
	if (s->kind != TWIR_LET)
		return false;
	const struct twir_var *v = s->u.let.var;
	if (!twir_is_int(v->type.scalar) || v->type.lanes != 1 || s->u.let.value->loads)
		return false;
	const struct twir_expr *value = twp_replace_expr(r, s->u.let.value);
	if (twp_tree_size(value) > INLINE_NODES)
		return false;
	twp_replace_set(r, v, value);
	return true;
}

static const struct twir_expr *inline_expr(struct twp_walk *w, const struct twir_expr *e)
{
	return twp_replace_expr(w->user, e);
}

struct twir_stmt *twp_inline_lets(struct twir_module *m, const struct twir_stmt *list)
{
	struct twp_replace r;
	twp_replace_init(&r, m);
	struct twp_walk w = {.m = m, .user = &r, .stmt = inline_let, .expr = inline_expr};
	twir_facts_init(&w.facts, m);
	return twp_walk_block(&w, list);
}

int64_t twp_lanes(const struct twir_program *p)
{
	int64_t n = 0;
	for (int i = 0; i < p->nlevels; i++)
		if (p->levels[i] == TWIR_LANE)
			TW_CHECK(twir_const_int(p->extents[i], &n), "lane counts are constants");
	return n;
}

bool twp_is_gpu(const struct twir_program *p)
{
	return p->nlevels > 0 && p->levels[0] == TWIR_BLOCK;
}

static bool is_launched(const struct twir_program *p, enum twir_level l)
{
	for (int i = 0; i < p->nlevels; i++)
		if (p->levels[i] == l)
			return true;
	return false;
}

const struct twir_expr *twp_level_extent(struct twir_module *m, const struct twir_program *p, enum twir_level l)
{
	for (int i = 0; i < p->nlevels; i++)
		if (p->levels[i] == l)
			return p->extents[i];
	if (l == TWIR_THREAD && is_launched(p, TWIR_WARP))
		return twir_mul(m, twp_level_extent(m, p, TWIR_WARP), twp_level_extent(m, p, TWIR_LANE));
	return twir_index(m, 1);
}

const struct twir_expr *twp_worker(struct twir_module *m, const struct twir_program *p, enum twir_level l)
{
	const struct twir_expr *own = twir_worker(m, l), *thread = twir_worker(m, TWIR_THREAD);
	if (!twp_is_gpu(p) || is_launched(p, l))
		return own;
	if (l == TWIR_THREAD && is_launched(p, TWIR_WARP))
		return twir_add(m, twir_mul(m, twir_worker(m, TWIR_WARP), twp_level_extent(m, p, TWIR_LANE)),
				twir_worker(m, TWIR_LANE));
	if (l == TWIR_WARP && is_launched(p, TWIR_THREAD))
		return twir_div(m, thread, twir_index(m, TWP_WARP));
	if (l == TWIR_LANE && is_launched(p, TWIR_THREAD))
		return twir_mod(m, thread, twir_index(m, TWP_WARP));
	return own;
}

bool twp_is_lane_region(const struct twir_stmt *s)
{
	return s->kind == TWIR_FORMAP && s->u.formap.nlevels == 1 && s->u.formap.levels[0] == TWIR_LANE;
}

struct twir_stmt *twp_lane_region(struct twir_module *m, int64_t lanes, struct twir_stmt *body)
{
	struct twir_stmt *s = twir_stmt_new(m, TWIR_FORMAP);
	const struct twir_expr *n = twir_index(m, lanes);
	s->u.formap.n = 1;
	s->u.formap.vars = ARENA_ARRAY(m->arena, struct twir_var *, 1);
	s->u.formap.vars[0] = twir_var_new(m, TWIR_LOOP, twir_scalar_type(TWIR_INDEX), "l");
	s->u.formap.map = twir_spatial(m, 1, &n);
	s->u.formap.nlevels = 1;
	s->u.formap.levels[0] = TWIR_LANE;
	s->u.formap.body = body;
	return s;
}

static void collect(struct twir_module *m, const struct twir_map *map, unsigned projected, struct twp_factors *f)
{
	switch (map->kind) {
	case TWTM_COMPOSE:
		collect(m, map->a, projected, f);
		collect(m, map->b, projected, f);
		return;
	case TWTM_PROJECT:
		collect(m, map->a, projected | map->projected, f);
		return;
	case TWTM_REPEAT:
	case TWTM_SPATIAL:
		break;
	}
	if (f->n == TW_COUNT(f->at))
		tw_raise(TW_ERR_MODEL, "a mapping of more than %d factors", TW_COUNT(f->at));
	struct twp_factor *x = &f->at[f->n++];
	memset(x, 0, sizeof *x);
	x->spatial = map->kind == TWTM_SPATIAL;
	x->rank = map->rank;
	x->projected = projected;
	x->workers = twir_index(m, 1);
	for (int d = 0; d < map->rank; d++) {
		x->extent[d] = map->extent[d];
		x->order[d] = map->order[d];
		x->attr[d] = map->attr[d];
		if (x->spatial)
			x->workers = twir_mul(m, x->workers, map->extent[d]);
	}
}

void twp_factors(struct twir_module *m, const struct twir_map *map, struct twp_factors *f)
{
	f->n = 0;
	collect(m, map, 0, f);
}

void twp_assign(struct twir_module *m, const struct twir_program *p, int nlevels, const enum twir_level *levels,
		struct twp_factors *f)
{
	bool lane = false;
	for (int i = 0; i < f->n && twp_is_gpu(p); i++)
		f->at[i].owner = TWP_MIXED;
	if (twp_is_gpu(p))
		return;
	for (int i = 0; i < nlevels; i++)
		lane |= levels[i] == TWIR_LANE;
	enum twp_owner owner = lane ? TWP_LANE : nlevels > 1 ? TWP_MIXED : TWP_UPPER;
	int64_t lanes = 1, held = 1;
	if (lane && nlevels > 1)
		TW_CHECK(twir_const_int(twp_level_extent(m, p, TWIR_LANE), &lanes), "lane counts are constants");
	for (int i = f->n - 1; i >= 0; i--) {
		struct twp_factor *x = &f->at[i];
		int64_t n;
		if (!x->spatial)
			continue;
		if (lane && nlevels > 1 && owner == TWP_LANE) {
			if (held == lanes)
				owner = nlevels == 2 ? TWP_UPPER : TWP_MIXED;
			else if (twir_const_int(x->workers, &n) && n >= 0 && held * n <= lanes)
				held *= n;
			else
				owner = TWP_MIXED;
		}
		x->owner = owner;
	}
	/* The number over all levels is needed as soon as one factor straddles two; a tail that is short of lanes
	 * straddles too. */
	bool mixed = lane && nlevels > 1 && held != lanes;
	for (int i = 0; i < f->n; i++)
		mixed |= f->at[i].spatial && f->at[i].owner == TWP_MIXED;
	for (int i = 0; mixed && i < f->n; i++)
		f->at[i].owner = TWP_MIXED;
}

const struct twir_expr *twp_task_extent(struct twir_module *m, const struct twp_factor *f, int d)
{
	return f->projected >> d & 1 ? twir_index(m, 1) : f->extent[d];
}

const struct twir_expr *twp_inner_extent(struct twir_module *m, const struct twp_factors *f, int after, int d)
{
	const struct twir_expr *n = twir_index(m, 1);
	for (int i = after + 1; i < f->n; i++)
		n = twir_mul(m, n, twp_task_extent(m, &f->at[i], d));
	return n;
}

const struct twir_map *twp_factor_map(struct twir_module *m, const struct twp_factor *f)
{
	struct twir_map *c = ARENA_NEW(m->arena, struct twir_map);
	c->kind = f->spatial ? TWTM_SPATIAL : TWTM_REPEAT;
	c->rank = f->rank;
	for (int d = 0; d < f->rank; d++) {
		c->extent[d] = f->extent[d];
		c->order[d] = f->order[d];
		c->attr[d] = f->attr[d];
	}
	return f->projected ? twir_project(m, c, f->projected) : c;
}
