/* The rule-based schedule: one program for any compute definition, over core and lane.
 *
 *   injective      tiles of the axes to cores, rows inside, lanes over the last axis; where loads are contiguous along another axis, tiles of both, so that
 *                  lines are read once
 *   lanes over the output   a fold whose accesses are contiguous in the last axis: each lane folds for its own element, a few vectors at once
 *   lanes over the fold     else: lanes hold partial results of one element, combined at the end in a fixed tree
 *
 * Input: a definition. Output: a program over compute tensors (tw_bind_params comes later). Nothing here depends on thread counts. */
#include "sched/nest.h"

static const enum twir_level CORE_LANE[] = {TWIR_CORE, TWIR_LANE}, LANE[] = {TWIR_LANE};

struct rule {
	struct twir_module *m;
	const struct tw_target *t;
	const char *name;
	const struct twir_compute *c;
	struct tw_nest nest;
	int lanes;
};

enum { MIDDLING = 224 };	  /* what a symbol is taken for */
enum { ACROSS = 128, LINE = 64 }; /* elements of a block across; bytes that are read together */

/* What a core item does: block[i] elements of axis i, in tiles of `tile` elements of axis `across` (-1: none) by one vector of the last axis. */
static struct twir_program *in_blocks(struct rule *r, const int64_t *block, int across, int64_t tile)
{
	struct twir_module *m = r->m;
	struct tw_nest *n = &r->nest;
	const struct twir_expr *outer[TWIR_MAX_RANK], *middle[TWIR_MAX_RANK], *rows[TWIR_MAX_RANK],
		*inner[TWIR_MAX_RANK], *cores = twir_index(m, 1);
	for (int i = 0; i < n->rank; i++) {
		const int64_t step = i == n->rank - 1 ? r->lanes : i == across ? tile : 1;
		const int64_t steps = (block[i] + step - 1) / step;
		outer[i] = twir_ceildiv(m, n->extent[i], twir_index(m, steps * step));
		middle[i] = twir_index(m, steps);
		rows[i] = twir_index(m, i == across ? tile : 1);
		inner[i] = twir_index(m, i == n->rank - 1 ? r->lanes : 1);
		cores = twir_mul(m, cores, outer[i]);
	}
	const struct twir_map *map =
		twir_compose(m, twir_spatial(m, n->rank, outer), twir_repeat(m, n->rank, middle, NULL));
	if (across >= 0)
		map = twir_compose(m, map, twir_repeat(m, n->rank, rows, NULL));
	map = twir_compose(m, map, twir_spatial(m, n->rank, inner));
	struct twir_stmt *store = twir_store(m, r->c->out, n->nplaces, n->place, n->value, NULL);
	struct twir_stmt *body = tw_formap(m, n->rank, n->var, map, 2, CORE_LANE, n->extent, store);
	return tw_program_new(m, r->name, cores, r->lanes, body);
}

/* Loads turn what they read: of the lines that lie across, as many elements as they hold are stored before the next ones come. */
static struct twir_program *turned(struct rule *r, int across)
{
	struct tw_nest *n = &r->nest;
	const int64_t size = tw_size_or(n->extent[across], ACROSS), line = LINE / twir_scalar_bytes(r->c->out->type);
	int64_t block[TWIR_MAX_RANK];
	for (int i = 0; i < n->rank; i++)
		block[i] = 1;
	block[across] = size < ACROSS ? size > 0 ? size : 1 : ACROSS;
	tw_choose_blocks(r->m, 1, &n->extent[n->rank - 1], tw_fold_work(n->value) * block[across], &block[n->rank - 1]);
	return in_blocks(r, block, across, block[across] < line ? block[across] : line);
}

static struct twir_program *injective(struct rule *r)
{
	struct twir_module *m = r->m;
	struct tw_nest *n = &r->nest;
	tw_nest_merge(n, r->c->out);
	if (n->rank == 0) { /* one element: no work for lanes */
		struct twir_stmt *one = twir_store(m, r->c->out, n->nplaces, n->place, n->value, NULL);
		return tw_program_new(m, r->name, twir_index(m, 1), r->lanes, one);
	}
	tw_nest_flatten_short(n, r->lanes);
	const int across = twir_is_packed(r->c->out->type) ? -1 : tw_nest_across(n);
	if (across >= 0)
		return turned(r, across);
	int64_t block[TWIR_MAX_RANK];
	tw_choose_blocks(m, n->rank, n->extent, (tw_fold_work(n->value) + r->lanes - 1) / r->lanes, block);
	return in_blocks(r, block, -1, 1);
}

static void see_fold(void *arg, const struct twir_expr *e)
{
	const struct twir_expr **found = arg;
	if (e->kind == TWIR_Fold && found[0] != e) {
		for (int i = 0; i < 8; i++) {
			if (found[i] == e)
				return;
			if (!found[i]) {
				found[i] = e;
				return;
			}
		}
		TW_CHECK(false, "a definition holds more than eight folds");
	}
}

/* Declares a register tensor of `size` elements that mirrors map, filled with what is neutral to the fold. */
static struct twir_tensor *accumulator(struct twir_module *m, const char *name, const struct twir_expr *fold,
				       struct twir_type type, int64_t size, const struct twir_map *map,
				       struct twir_stmt **body)
{
	const struct twir_expr *shape[] = {twir_index(m, size)};
	struct twir_tensor *t = twir_tensor_new(m, name, (enum twir_scalar)type.scalar, 1, shape, TWIR_REGISTER);
	struct twir_var *j = tw_loop_var(m, "j");
	const struct twir_expr *je = twir_var(m, j);
	t->mirrors = map;
	twir_append(body, tw_declare(m, t));
	twir_append(body, tw_formap(m, 1, &j, map, 1, LANE, NULL,
				    twir_store(m, t, 1, &je, twir_neutral(m, fold->op, type), NULL)));
	return t;
}

/* for l in fold axes { body }: loops with fresh variables are the nest's own */
static struct twir_stmt *fold_loops(struct twir_module *m, const struct tw_nest *f, int upto, struct twir_stmt *body)
{
	for (int i = upto - 1; i >= 0; i--)
		body = tw_for(m, f->var[i], f->extent[i], body);
	return body;
}

enum { LONG_SUM = 128, LONG_AXIS = 512 };

/* One running sum of many floats loses bits: the error grows with their number. */
static bool is_long_sum(const struct tw_nest *f, const struct twir_expr *fold)
{
	int64_t all = 1, size;
	if (fold->op != TWIR_Add || !twir_is_float(fold->type.scalar))
		return false;
	for (int i = 0; i < f->rank && all <= LONG_SUM; i++) {
		if (!twir_const_int(f->extent[i], &size))
			return true;
		all *= size;
	}
	return all > LONG_SUM;
}

/* A tile of lanes that folds for its elements: acc over tile, within bound. */
struct lane_fold {
	const struct twir_expr *fold, *element; /* over the nest's variables and j */
	struct tw_nest f;
	struct twir_var *j;
	int64_t step;
	const struct twir_map *tile;
	const struct twir_expr *const *bound;
};

/* for j on lane { acc[j] = acc[j] op value } */
static struct twir_stmt *add_to(const struct rule *r, const struct lane_fold *l, struct twir_tensor *acc,
				const struct twir_expr *value)
{
	struct twir_module *m = r->m;
	struct twir_var *v = tw_loop_var(m, "j");
	const struct twir_expr *je = twir_var(m, v);
	struct twir_subst s;
	twir_subst_init(&s, m);
	twir_subst_set(&s, l->j, je);
	const struct twir_expr *sum =
		tw_combine(m, r->t, l->fold->op, twir_load(m, acc, 1, &je), twir_subst_expr(&s, value));
	return tw_formap(m, 1, &v, l->tile, 1, LANE, l->bound, twir_store(m, acc, 1, &je, sum, NULL));
}

/* The loops of a fold. A long sum is made of the sums of its innermost axis, or of pieces of it. */
static struct twir_stmt *fold_on_lanes(const struct rule *r, struct lane_fold *l, struct twir_tensor *acc)
{
	struct twir_module *m = r->m;
	struct tw_nest *f = &l->f;
	int64_t size;
	if (!is_long_sum(f, l->fold))
		return fold_loops(m, f, f->rank, add_to(r, l, acc, l->element));
	const int last = f->rank - 1;
	const int64_t length = tw_piece_of_terms(tw_size_or(f->extent[last], -1));
	const struct twir_expr *extent = f->extent[last], *element = l->element;
	struct twir_var *inner = f->var[last], *piece = NULL;
	if (last == 0 || !twir_const_int(extent, &size) || size > LONG_AXIS) {
		piece = tw_loop_var(m, "piece");
		inner = tw_loop_var(m, "k");
		const struct twir_expr *most = twir_index(m, length), *first = twir_mul(m, twir_var(m, piece), most);
		struct twir_subst s;
		twir_subst_init(&s, m);
		twir_subst_set(&s, f->var[last], twir_add(m, first, twir_var(m, inner)));
		element = twir_subst_expr(&s, element);
		extent = twir_min(m, most, twir_sub(m, extent, first));
	}
	struct twir_stmt *body = NULL;
	struct twir_tensor *part = accumulator(m, "sum", l->fold, l->fold->type, l->step, l->tile, &body);
	const struct twir_expr *je = twir_var(m, l->j);
	twir_append(&body, tw_for(m, inner, extent, add_to(r, l, part, element)));
	twir_append(&body, add_to(r, l, acc, twir_load(m, part, 1, &je)));
	if (piece)
		body = tw_for(m, piece, twir_ceildiv(m, f->extent[last], twir_index(m, length)), body);
	return fold_loops(m, f, last, body);
}

/* Each lane folds for an element of its own; `unroll` vectors at once hide the latency of the accumulation. */
static struct twir_program *lanes_over_output(struct rule *r, int nfolds, const struct twir_expr *const *folds)
{
	struct twir_module *m = r->m;
	struct tw_nest *n = &r->nest;
	const int last = n->rank - 1;
	const int64_t unroll = tw_least(4, tw_ceil_div(tw_size_about(m, n->extent[last], MIDDLING), r->lanes));
	const int64_t step = unroll * r->lanes;
	const struct twir_expr *repeat[] = {twir_index(m, unroll)}, *lanes[] = {twir_index(m, r->lanes)};
	const struct twir_map *tile = twir_compose(m, twir_repeat(m, 1, repeat, NULL), twir_spatial(m, 1, lanes));

	/* The last axis becomes tiles of `step`; its variable is made anew inside. */
	struct twir_var *vars[TWIR_MAX_RANK];
	const struct twir_expr *extents[TWIR_MAX_RANK];
	for (int i = 0; i < n->rank; i++) {
		vars[i] = n->var[i];
		extents[i] = n->extent[i];
	}
	vars[last] = tw_loop_var(m, "tile");
	extents[last] = twir_ceildiv(m, n->extent[last], twir_index(m, step));
	const struct twir_expr *j0 = twir_mul(m, twir_var(m, vars[last]), twir_index(m, step));
	const struct twir_expr *bound[] = {twir_sub(m, n->extent[last], j0)};

	struct twir_stmt *body = NULL;
	const struct twir_expr *value = n->value;
	for (int i = 0; i < nfolds; i++) {
		const struct twir_expr *fold = folds[i];
		struct twir_tensor *acc = accumulator(m, "acc", fold, fold->type, step, tile, &body);
		struct lane_fold l = {
			.fold = fold, .j = tw_loop_var(m, "j"), .step = step, .tile = tile, .bound = bound};
		tw_nest_init(&l.f, m, fold->n - 1, fold->u.axes, fold->arg + 1, fold->arg[0]);
		struct twir_subst s;
		twir_subst_init(&s, m);
		twir_subst_set(&s, n->var[last], twir_add(m, j0, twir_var(m, l.j)));
		l.element = twir_subst_expr(&s, l.f.value);
		twir_append(&body, fold_on_lanes(r, &l, acc));
		/* what stands for the fold in the final value; the lane variable is put in below */
		const struct twir_expr *place = twir_sub(m, twir_var(m, n->var[last]), j0);
		value = tw_swapped(m, value, fold, twir_load(m, acc, 1, &place));
	}
	struct twir_var *j = tw_loop_var(m, "j");
	struct twir_subst s;
	twir_subst_init(&s, m);
	twir_subst_set(&s, n->var[last], twir_add(m, j0, twir_var(m, j)));
	const struct twir_expr *place[TWIR_MAX_RANK];
	for (int i = 0; i < n->nplaces; i++)
		place[i] = twir_subst_expr(&s, n->place[i]);
	struct twir_stmt *store = twir_store(m, r->c->out, n->nplaces, place, twir_subst_expr(&s, value), NULL);
	twir_append(&body, tw_formap(m, 1, &j, tile, 1, LANE, bound, store));

	int64_t block[TWIR_MAX_RANK];
	const struct twir_expr *cores;
	tw_choose_blocks(m, n->rank, extents, tw_fold_work(n->value) * step, block);
	body = tw_core_loop(r->m, n->rank, vars, extents, block, body, &cores);
	return tw_program_new(m, r->name, cores, r->lanes, body);
}

/* e as f64: of a product of two f32, exactly. */
static const struct twir_expr *widened(struct twir_module *m, const struct twir_expr *e)
{
	if (e->kind != TWIR_Mul)
		return twir_cast(m, TWIR_F64, e);
	return twir_mul(m, twir_cast(m, TWIR_F64, e->arg[0]), twir_cast(m, TWIR_F64, e->arg[1]));
}

/* Lanes hold partial results of one element: part[lane], combined in halves at the end. A long sum is made in f64: there is one accumulator, and what
 * takes time is the wait for it, or for memory. */
static struct twir_program *lanes_over_fold(struct rule *r, int nfolds, const struct twir_expr *const *folds)
{
	struct twir_module *m = r->m;
	struct tw_nest *n = &r->nest;
	const struct twir_expr *lanes[] = {twir_index(m, r->lanes)}, *lane = twir_worker(m, TWIR_LANE);
	const struct twir_map *one = twir_spatial(m, 1, lanes);
	struct twir_stmt *body = NULL;
	const struct twir_expr *value = n->value;
	for (int i = 0; i < nfolds; i++) {
		const struct twir_expr *fold = folds[i];
		struct tw_nest f;
		tw_nest_init(&f, m, fold->n - 1, fold->u.axes, fold->arg + 1, fold->arg[0]);
		const bool wide = fold->type.scalar == TWIR_F32 && is_long_sum(&f, fold);
		struct twir_tensor *part = accumulator(m, "part", fold, wide ? twir_scalar_type(TWIR_F64) : fold->type,
						       r->lanes, one, &body);
		tw_nest_order_loads(&f, r->lanes);
		tw_nest_merge(&f, NULL);
		tw_nest_flatten_short(&f, r->lanes);
		const struct twir_expr *rows[] = {twir_ceildiv(m, f.extent[f.rank - 1], lanes[0])};
		const struct twir_map *map = twir_compose(m, twir_repeat(m, 1, rows, NULL), one);
		const struct twir_expr *term = wide ? widened(m, f.value) : f.value,
				       *before = twir_load(m, part, 1, &lane);
		struct twir_stmt *step =
			twir_store(m, part, 1, &lane, tw_combine(m, r->t, fold->op, before, term), NULL);
		step = tw_formap(m, 1, &f.var[f.rank - 1], map, 1, LANE, &f.extent[f.rank - 1], step);
		twir_append(&body, fold_loops(m, &f, f.rank - 1, step));
		const struct twir_expr *zero = twir_index(m, 0), *total;
		twir_append(&body,
			    tw_let_new(m, "total", twir_reduce(m, fold->op, twir_load(m, part, 1, &zero)), &total));
		value = tw_swapped(m, value, fold, wide ? twir_cast(m, TWIR_F32, total) : total);
	}
	twir_append(&body, twir_store(m, r->c->out, n->nplaces, n->place, value, NULL));
	int64_t block[TWIR_MAX_RANK];
	const struct twir_expr *cores = twir_index(m, 1);
	tw_choose_blocks(m, n->rank, n->extent, tw_fold_work(n->value), block);
	if (n->rank > 0)
		body = tw_core_loop(r->m, n->rank, n->var, n->extent, block, body, &cores);
	return tw_program_new(m, r->name, cores, r->lanes, body);
}

/* Lanes over the output when its accesses are the better ones. */
static bool prefer_output(struct rule *r, const struct twir_expr *fold)
{
	struct tw_nest *n = &r->nest;
	if (n->rank == 0)
		return false;
	struct tw_nest f, body = *n;
	tw_nest_init(&f, r->m, fold->n - 1, fold->u.axes, fold->arg + 1, fold->arg[0]);
	body.value = f.value;
	const double over_output = tw_nest_lane_score(&body, n->var[n->rank - 1], n->extent[n->rank - 1], r->lanes);
	tw_nest_order_loads(&f, r->lanes);
	tw_nest_merge(&f, NULL);
	if (f.rank == 0)
		return true;
	const double over_fold = 0.9 * tw_nest_lane_score(&f, f.var[f.rank - 1], f.extent[f.rank - 1], r->lanes);
	return over_output >= over_fold;
}

struct twir_program *tw_rule_schedule(struct twir_module *m, const char *name, const struct twir_compute *c,
				      const struct tw_target *t)
{
	struct rule r = {.m = m, .t = t, .name = name, .c = c, .lanes = t->lanes};
	const struct twir_expr *folds[9] = {NULL};
	tw_nest_init(&r.nest, m, c->out->rank, c->axes, c->out->shape, c->value);
	tw_nest_order(&r.nest, c->out);
	twir_visit_expr(r.nest.value, see_fold, folds);
	if (!folds[0])
		return injective(&r);
	tw_nest_merge(&r.nest, c->out);
	memset(folds, 0, sizeof(folds));
	twir_visit_expr(r.nest.value, see_fold, folds);
	if (prefer_output(&r, folds[0])) {
		tw_nest_flatten_short(&r.nest, t->lanes);
		memset(folds, 0, sizeof(folds));
		twir_visit_expr(r.nest.value, see_fold, folds);
		int n = 0;
		while (folds[n])
			n++;
		return lanes_over_output(&r, n, folds);
	}
	int n = 0;
	while (folds[n])
		n++;
	return lanes_over_fold(&r, n, folds);
}
