/* The window template: a fold over a small window of a tensor whose last axis in memory is not part of the window (depthwise convolution, pooling, channels
 * last). Lanes run over that axis, and a tile of neighbours along the axis before it is folded at once: what they share (weights, overlapping columns) is loaded
 * once, since the innermost window axis is written out. Tiles inside the borders go without the guards that padding needs.
 *
 * A known number of pixels is divided evenly when the program is made; an unknown one at run time, and a branch takes the code for a tile's length: 28 pixels are
 * 4 tiles of 7 either way. Tiles but the last are equally long, which is little arithmetic in every index. There is code for all lengths from half a tile's; what
 * is shorter goes pixel by pixel.
 *
 * In: an anchor with one fold of constant, few taps. Constants that lanes would gather are laid out anew at compile time. */
#include "sched/window.h"

enum { PIXELS };
enum { MOST_TAPS = 128, MOST_COLUMNS = 11, FEW_COLUMNS = 5 };

static const enum twir_level LANE[] = {TWIR_LANE};

struct found {
	const struct twir_expr *fold;
	int n;
};

static void see_fold(void *arg, const struct twir_expr *e)
{
	struct found *f = arg;
	if (e->kind == TWIR_Fold && e != f->fold) {
		f->fold = e;
		f->n++;
	}
}

static const struct twir_expr *only_fold(const struct twir_expr *value)
{
	struct found f = {0};
	twir_visit_expr(value, see_fold, &f);
	return f.n == 1 ? f.fold : NULL;
}

/* Is some load of the fold indexed by v and by fold axis k in one dimension? */
struct windowed {
	const struct twir_var *v, *k;
	bool yes;
};

static void see_load(void *arg, const struct twir_expr *e)
{
	struct windowed *w = arg;
	for (int d = 0; e->kind == TWIR_Load && d < e->nidx; d++)
		w->yes |= twir_uses_var(e->arg[d], w->v) && twir_uses_var(e->arg[d], w->k);
}

static bool slides(const struct twir_expr *fold, const struct twir_var *v, const struct twir_var *k)
{
	struct windowed w = {.v = v, .k = k};
	twir_visit_expr(fold->arg[0], see_load, &w);
	return w.yes;
}

/* Each fold axis moves along an axis of the result, the innermost along the last but one, none along the last. */
static bool is_window(const struct twir_expr *fold, const struct tw_nest *n)
{
	for (int k = 0; k + 1 < fold->n; k++) {
		bool any = false;
		for (int i = 0; i + 1 < n->rank; i++)
			any |= slides(fold, n->var[i], fold->u.axes[k]);
		if (!any || slides(fold, n->var[n->rank - 1], fold->u.axes[k]))
			return false;
	}
	return slides(fold, n->var[n->rank - 2], fold->u.axes[fold->n - 2]);
}

bool tw_window_match(const struct tw_task *task, const struct tw_target *t)
{
	const struct twir_compute *c = task->anchor;
	const struct twir_expr *fold = only_fold(c->value);
	int64_t taps = 1, size = 0;
	(void)t;
	if (!fold || !c->out->layout || c->out->layout->kind != TWIR_LAYOUT_STRIDES)
		return false;
	for (int i = 1; i < fold->n; i++) {
		if (!twir_const_int(fold->arg[i], &size) || size < 1 || size > MOST_TAPS)
			return false;
		taps *= size;
	}
	struct tw_nest n;
	tw_nest_init(&n, task->m, c->out->rank, c->axes, c->out->shape, c->value);
	tw_nest_order(&n, c->out);
	if (taps > MOST_TAPS || size > MOST_COLUMNS || n.rank < 2)
		return false;
	return is_window(only_fold(n.value), &n);
}

/* As many accumulators as hide the latency of two units, and half of the registers at most. */
static int default_pixels(const struct tw_target *t)
{
	return t->vector_registers >= 32 ? 8 : 4;
}

static void space(struct tw_arena *a, const struct tw_target *t, struct tw_space *s)
{
	s->nparams = 1;
	s->names[PIXELS] = "pixels";
	vec_push(a, &s->points, ((struct tw_point){.value = {default_pixels(t)}}));
	vec_push(a, &s->points, ((struct tw_point){.value = {t->vector_registers >= 32 ? 4 : 6}}));
}

/* --- guards --- */

struct guards {
	struct twir_module *m;
	const struct twir_expr *fold;
	const struct twir_var *pixel, *column;	 /* axis of the tile, window axis that is written out */
	VEC(const struct twir_expr *) tile, row; /* conditions that speak of either, and those that do not */
};

static void split(struct guards *g, const struct twir_expr *e)
{
	if (e->kind == TWIR_And && e->type.scalar == TWIR_I1) {
		split(g, e->arg[0]);
		split(g, e->arg[1]);
	} else if (e->loads) {
		return;
	} else if (twir_uses_var(e, g->pixel) || twir_uses_var(e, g->column)) {
		bool others = false;
		for (int k = 0; k + 2 < g->fold->n; k++)
			others |= twir_uses_var(e, g->fold->u.axes[k]);
		if (!others)
			vec_push(g->m->arena, &g->tile, e);
	} else {
		vec_push(g->m->arena, &g->row, e);
	}
}

static void see_guard(void *arg, const struct twir_expr *e)
{
	if (e->kind == TWIR_Cond && e->loads)
		split(arg, e->arg[0]);
}

/* The conjunction, without what the others imply; NULL: nothing is left. */
static const struct twir_expr *conjunction(struct twir_module *m, int n, const struct twir_expr *const *part)
{
	struct twir_facts f;
	const struct twir_expr *all = NULL;
	twir_facts_init(&f, m);
	for (int i = 0; i < n; i++) {
		const struct twir_expr *one = twir_simplify(&f, part[i]);
		if (twir_prove(&f, one))
			continue;
		twir_facts_assume(&f, one);
		all = all ? twir_and(m, all, one) : one;
	}
	return all;
}

/* --- the schedule --- */

/* for (j, l) in the tile on lane { target[j, l] = value } with the nest's last axes at w0 + j, c0 + l and the inner window axis at k */
static struct twir_stmt *over_tile(const struct tw_window *w, const struct twir_expr *k, bool bounded,
				   struct twir_stmt *(*make)(const struct tw_window *w, struct twir_subst *s,
							     const struct twir_expr *const *at))
{
	struct twir_module *m = w->m;
	struct twir_var *v[] = {tw_loop_var(m, "j"), tw_loop_var(m, "l")};
	const struct twir_expr *at[] = {twir_var(m, v[0]), twir_var(m, v[1])};
	struct twir_subst s;
	twir_subst_init(&s, m);
	twir_subst_set(&s, w->nest.var[w->pixel], twir_add(m, w->w0, at[0]));
	twir_subst_set(&s, w->nest.var[w->channel], twir_add(m, w->c0, at[1]));
	if (k)
		twir_subst_set(&s, w->fold->u.axes[w->fold->n - 2], k);
	return tw_formap(m, 2, v, w->tile, 1, LANE, bounded ? w->left : NULL, make(w, &s, at));
}

static struct twir_stmt *make_start(const struct tw_window *w, struct twir_subst *s, const struct twir_expr *const *at)
{
	(void)s;
	return twir_store(w->m, w->acc, 2, at, twir_neutral(w->m, w->fold->op, w->fold->type), NULL);
}

static struct twir_stmt *make_step(const struct tw_window *w, struct twir_subst *s, const struct twir_expr *const *at)
{
	const struct twir_expr *acc = twir_load(w->m, w->acc, 2, at), *one = twir_subst_expr(s, w->fold->arg[0]);
	return twir_store(w->m, w->acc, 2, at, tw_combine(w->m, w->t, w->fold->op, acc, one), NULL);
}

static struct twir_stmt *make_part(const struct tw_window *w, struct twir_subst *s, const struct twir_expr *const *at)
{
	const struct twir_expr *to[] = {w->within ? twir_add(w->m, w->within, at[0]) : at[0], at[1]};
	(void)s;
	return twir_store(w->m, w->part, 2, to, twir_load(w->m, w->acc, 2, at), NULL);
}

static struct twir_stmt *make_store(const struct tw_window *w, struct twir_subst *s, const struct twir_expr *const *at)
{
	const struct twir_expr *place[TWIR_MAX_RANK];
	for (int d = 0; d < w->nest.nplaces; d++)
		place[d] = twir_subst_expr(s, w->nest.place[d]);
	const struct twir_expr *sum = twir_load(w->m, w->part ? w->part : w->acc, 2, at);
	const struct twir_expr *value = tw_swapped(w->m, w->nest.value, w->fold, sum);
	return twir_store(w->m, w->task->anchor->out, w->nest.nplaces, place, twir_subst_expr(s, value), NULL);
}

static struct twir_stmt *specialised(struct twir_module *m, const struct twir_expr *cond, struct twir_stmt *body)
{
	if (!cond)
		return body;
	struct twir_stmt *s = twir_stmt_new(m, TWIR_SPECIALISE);
	s->u.branch.cond = cond;
	s->u.branch.body = body;
	return s;
}

/* The guards hold at the tile's corners, but for `edge` pixels at either end: then they hold between. More conditions may go before. */
static const struct twir_expr *inside(const struct tw_window *w, const struct guards *g, int64_t columns, int64_t edge,
				      int nfirst, const struct twir_expr *const *first)
{
	struct twir_module *m = w->m;
	VEC(const struct twir_expr *) part = {0};
	for (int i = 0; i < nfirst; i++)
		vec_push(m->arena, &part, first[i]);
	for (int i = 0; i < g->tile.n && 2 * edge < w->pixels; i++)
		for (int corner = 0; corner < 4; corner++) {
			struct twir_subst s;
			twir_subst_init(&s, m);
			const int64_t j = corner & 1 ? w->pixels - 1 - edge : edge, k = corner & 2 ? columns - 1 : 0;
			twir_subst_set(&s, w->nest.var[w->pixel], twir_add(m, w->w0, twir_index(m, j)));
			twir_subst_set(&s, w->fold->u.axes[w->fold->n - 2], twir_index(m, k));
			vec_push(m->arena, &part, twir_subst_expr(&s, g->tile.at[i]));
		}
	return conjunction(m, part.n, part.at);
}

static int64_t columns_of(const struct tw_window *w)
{
	int64_t columns = 1;
	twir_const_int(w->fold->arg[w->fold->n - 1], &columns);
	return columns;
}

static void find_guards(const struct tw_window *w, struct guards *g)
{
	*g = (struct guards){
		.m = w->m, .fold = w->fold, .pixel = w->nest.var[w->pixel], .column = w->fold->u.axes[w->fold->n - 2]};
	twir_visit_expr(w->fold->arg[0], see_guard, g);
}

/* The sums of one tile. */
static struct twir_stmt *sums(struct tw_window *w, const struct guards *g)
{
	struct twir_module *m = w->m;
	const struct twir_expr *fold = w->fold;
	const int inner = fold->n - 2; /* fold axis that is written out */
	const int64_t columns = columns_of(w);
	struct twir_stmt *taps = NULL;
	for (int64_t k = 0; k < columns; k++)
		twir_append(&taps, over_tile(w, twir_index(m, k), true, make_step));
	taps = specialised(m, conjunction(m, g->row.n, g->row.at), taps);
	struct twir_subst axes;
	twir_subst_init(&axes, m);
	struct twir_var *v[TWIR_MAX_RANK];
	for (int i = 0; i < inner; i++) {
		v[i] = tw_loop_var(m, "k");
		twir_subst_set(&axes, fold->u.axes[i], twir_var(m, v[i]));
	}
	taps = twir_subst_block(&axes, taps);
	for (int i = inner - 1; i >= 0; i--)
		taps = tw_for(m, v[i], fold->arg[i + 1], taps);
	struct twir_stmt *body = tw_declare(m, w->acc);
	twir_append(&body, over_tile(w, NULL, false, make_start));
	twir_append(&body, taps);
	twir_append(&body, over_tile(w, NULL, !w->part, w->part ? make_part : make_store));
	return body;
}

static struct twir_tensor *tensor2(struct twir_module *m, const char *name, const struct twir_expr *like, int64_t rows,
				   int64_t cols, enum twir_scope scope)
{
	const struct twir_expr *shape[] = {twir_index(m, rows), twir_index(m, cols)};
	return twir_tensor_new(m, name, (enum twir_scalar)like->type.scalar, 2, shape, scope);
}

enum { CHEAP = 8 }; /* a consumer of more operations is compiled once, in a loop over the tile */

static void set_pixels(struct tw_window *w, int64_t pixels)
{
	struct twir_module *m = w->m;
	const struct twir_expr *rows[] = {twir_index(m, pixels), twir_index(m, 1)};
	const struct twir_expr *across[] = {twir_index(m, 1), twir_index(m, w->t->lanes)};
	w->pixels = pixels;
	w->tile = twir_compose(m, twir_repeat(m, 2, rows, NULL), twir_spatial(m, 2, across));
	w->acc = tensor2(m, "acc", w->fold, pixels, w->t->lanes, TWIR_REGISTER);
	w->acc->mirrors = w->tile;
}

/* What a tile is, in a nest whose last axes are pixels and channels. */
static void plan_tile(struct tw_window *w, int64_t pixels)
{
	struct twir_module *m = w->m;
	const struct tw_task *task = w->task;
	const struct tw_nest *n = &w->nest;
	w->fold = only_fold(n->value);
	w->channel = n->rank - 1;
	w->pixel = n->rank - 2;

	/* Balanced tiles: 28 pixels are 4 tiles of 7, not 3 of 8 and one of 4. */
	int64_t size;
	const bool known = twir_const_int(n->extent[w->pixel], &size);
	w->open = !known && columns_of(w) <= FEW_COLUMNS;
	if (known && size > 0) {
		const int64_t tiles = (size + pixels - 1) / pixels;
		pixels = (size + tiles - 1) / tiles;
	}
	set_pixels(w, pixels);
	const int cost = (task->consumer ? tw_cost(task->consumer->value) : 0) + tw_cost(n->value);
	if (cost - tw_cost(w->fold) > CHEAP)
		w->part = tensor2(m, "part", w->fold, w->pixels, w->t->lanes, TWIR_SHARED);
}

static struct twir_stmt *closed_tile(struct tw_window *w, const struct guards *g, const struct twir_expr *pixel)
{
	struct twir_module *m = w->m;
	w->w0 = twir_mul(m, pixel, twir_index(m, w->pixels));
	w->left[0] = twir_sub(m, w->nest.extent[w->pixel], w->w0);
	const struct twir_expr *whole = twir_le(m, twir_index(m, w->pixels), w->left[0]);
	return specialised(m, inside(w, g, columns_of(w), 0, 1, &whole), sums(w, g));
}

/* A tile of exactly n pixels, `other` where it has another length or lies across a border by more than a window padded on both sides does. */
static struct twir_stmt *tile_of(const struct tw_window *w, const struct guards *g, const struct twir_expr *length,
				 int64_t n, struct twir_stmt *other)
{
	struct twir_module *m = w->m;
	struct tw_window one = *w;
	set_pixels(&one, n);
	one.left[0] = twir_index(m, n);
	const struct twir_expr *end = twir_add(m, w->w0, one.left[0]);
	const struct twir_expr *first[] = {twir_eq(m, length, one.left[0]), twir_le(m, twir_index(m, 0), w->w0),
					   twir_le(m, end, w->nest.extent[w->pixel])};
	const struct twir_expr *cond = inside(&one, g, columns_of(w), columns_of(w) / 2, TW_COUNT(first), first);
	return twir_if(m, cond, sums(&one, g), other);
}

static struct twir_stmt *pixel_by_pixel(const struct tw_window *w, const struct guards *g,
					const struct twir_expr *length)
{
	struct twir_module *m = w->m;
	struct tw_window one = *w;
	struct twir_var *v = tw_loop_var(m, "pixel");
	set_pixels(&one, 1);
	one.within = twir_var(m, v);
	one.w0 = twir_add(m, w->w0, one.within);
	one.left[0] = twir_index(m, 1);
	return tw_for(m, v, length, sums(&one, g));
}

static struct twir_stmt *open_tile(struct tw_window *w, const struct guards *g, const struct twir_expr *pixel)
{
	struct twir_module *m = w->m;
	const struct twir_expr *all = w->nest.extent[w->pixel], *length;
	const struct twir_expr *tiles = twir_ceildiv(m, all, twir_index(m, w->pixels));
	const struct twir_expr *share = twir_ceildiv(m, all, twir_max(m, twir_index(m, 1), tiles));
	struct twir_stmt *body = tw_let_new(m, "w0", twir_mul(m, pixel, share), &w->w0);
	twir_append(&body, tw_let_new(m, "length", twir_min(m, share, twir_sub(m, all, w->w0)), &length));
	w->left[0] = length;
	struct twir_stmt *tiles_of = pixel_by_pixel(w, g, length);
	for (int64_t n = (w->pixels + 1) / 2; n <= w->pixels; n++)
		tiles_of = tile_of(w, g, length, n, tiles_of);
	twir_append(&body, tiles_of);
	return body;
}

struct twir_stmt *tw_window_tile(struct tw_window *w, const struct twir_expr *pixel, const struct twir_expr *channel)
{
	struct twir_module *m = w->m;
	struct guards g;
	find_guards(w, &g);
	w->c0 = twir_mul(m, channel, twir_index(m, w->t->lanes));
	w->left[1] = twir_sub(m, w->nest.extent[w->channel], w->c0);
	struct twir_stmt *body = NULL;
	if (w->part)
		twir_append(&body, tw_declare(m, w->part));
	twir_append(&body, w->open ? open_tile(w, &g, pixel) : closed_tile(w, &g, pixel));
	if (w->part)
		twir_append(&body, over_tile(w, NULL, true, make_store));
	return body;
}

void tw_window_begin(struct tw_window *w, const struct tw_task *task, const struct tw_target *t, int64_t pixels,
		     struct tw_launch *out)
{
	const struct twir_compute *c = task->anchor;
	*w = (struct tw_window){.task = task, .m = task->m, .t = t};
	tw_nest_init(&w->nest, task->m, c->out->rank, c->axes, c->out->shape, c->value);
	tw_nest_order(&w->nest, c->out);
	tw_nest_prepare(&w->nest, task, out, w->nest.rank - 1);
	plan_tile(w, pixels > 0 ? pixels : default_pixels(t));
}

static void build(const struct tw_task *task, const struct tw_target *t, const struct tw_point *p,
		  struct tw_launch *out)
{
	struct twir_module *m = task->m;
	struct tw_window w;
	const struct tw_nest *n = &w.nest;
	tw_window_begin(&w, task, t, p->value[PIXELS], out);

	struct twir_var *vars[TWIR_MAX_RANK];
	const struct twir_expr *extents[TWIR_MAX_RANK];
	for (int i = 0; i < n->rank; i++) {
		const int64_t step = i == w.channel ? t->lanes : i == w.pixel ? w.pixels : 1;
		vars[i] = i >= w.pixel ? tw_loop_var(m, "tile") : n->var[i];
		extents[i] = twir_ceildiv(m, n->extent[i], twir_index(m, step));
	}
	struct twir_stmt *body = tw_window_tile(&w, twir_var(m, vars[w.pixel]), twir_var(m, vars[w.channel]));
	int64_t block[TWIR_MAX_RANK];
	const struct twir_expr *cores;
	tw_choose_blocks(m, n->rank, extents, tw_fold_work(n->value) * w.pixels, block);
	body = tw_core_loop(m, n->rank, vars, extents, block, body, &cores);
	struct tw_kernel kernel = {.program = tw_program_new(m, task->name, cores, t->lanes, body)};
	vec_push(m->arena, &out->kernels, kernel);
}

const struct tw_template tw_template_window = {
	.name = "window", .applicable = tw_window_match, .space = space, .build = build};
