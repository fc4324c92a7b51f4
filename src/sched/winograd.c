/* The Winograd template: which convolutions it serves, and with which tile. Input: a task whose anchor is a sum over taps and channels of constant weights times
 * shifted elements of one tensor, stride 1. The programs are in winograd_build.c.
 *
 * Rounding: the sums are regrouped. Measured against f64 on normal data (test_winograd), the largest error relative to the result's largest magnitude is below
 * 1e-6 for tiles of 2 x 2 outputs with 3 x 3 taps (less than the direct sum's), below 1e-5 for all others. A task marked exact is never served. */
#include "sched/winograd_int.h"

#include <math.h>

struct search {
	const struct twir_var *p;
	const struct twir_expr *divisor;
};

static void see_division(void *arg, const struct twir_expr *e)
{
	struct search *s = arg;
	if (e->kind == TWIR_Div && e->arg[0]->kind == TWIR_Var && e->arg[0]->u.var == s->p && !s->divisor)
		s->divisor = e->arg[1];
}

struct loads {
	int n;
	const struct twir_expr *one;
};

static void see_load(void *arg, const struct twir_expr *e)
{
	struct loads *l = arg;
	if (e->kind == TWIR_Load) {
		l->n++;
		l->one = e;
	}
}

/* e = v + c, or v + u + c with u given, c free of variables? */
static bool shifted(struct twir_facts *f, const struct twir_expr *e, const struct twir_var *v, const struct twir_var *u)
{
	const struct twir_expr *base;
	int64_t stride;
	if (!twir_linear_in(f, e, v, &base, &stride) || stride != 1)
		return false;
	if (u && (!twir_linear_in(f, base, u, &base, &stride) || stride != 1))
		return false;
	int64_t c;
	return twir_const_int(base, &c);
}

static bool is_var(const struct twir_expr *e, const struct twir_var *v)
{
	return e->kind == TWIR_Var && e->u.var == v;
}

/* Which fold axis moves along the index e of the load, beside v? Fills *tap; false: more than one, or not one step at a time. */
static bool find_tap(struct tw_winograd *w, struct twir_facts *f, int d, const struct twir_expr *e,
		     const struct twir_var *v)
{
	const struct twir_expr *fold = w->task->anchor->value;
	w->taps[d] = 1;
	w->at[d] = e;
	for (int i = 0; i + 1 < fold->n; i++) {
		int64_t size;
		if (!twir_uses_var(e, fold->u.axes[i]))
			continue;
		if (w->tap[d] || !twir_const_int(fold->arg[i + 1], &size) || size > TW_WINOGRAD_MOST)
			return false;
		w->tap[d] = fold->u.axes[i];
		w->taps[d] = (int)size;
	}
	return shifted(f, e, v, w->tap[d]);
}

/* The axis of the fold that e counts, from 0 or, in a part of the channels, from elsewhere; NULL: none. */
static struct twir_var *channel_axis(const struct tw_winograd *w, struct twir_facts *f, const struct twir_expr *e)
{
	const struct twir_expr *fold = w->task->anchor->value;
	for (int i = 0; i + 1 < fold->n; i++)
		if (twir_uses_var(e, fold->u.axes[i]))
			return shifted(f, e, fold->u.axes[i], NULL) ? fold->u.axes[i] : NULL;
	return NULL;
}

/* The data's load: an index with the image, one with the channel, two that move with row and column. */
static bool match_data(struct tw_winograd *w, struct twir_facts *f, const struct twir_expr *load)
{
	const struct twir_expr *fold = w->task->anchor->value;
	const struct twir_var *moving[2] = {w->row, w->column};
	int found[2] = {-1, -1}, channel = -1;
	if (load->nidx != load->n)
		return false;
	for (int d = 0; d < load->nidx; d++) {
		const struct twir_expr *e = load->arg[d];
		const bool row = twir_uses_var(e, w->row), column = twir_uses_var(e, w->column);
		int64_t c;
		if (row && column)
			return false;
		if (row || column) {
			if (found[column] >= 0)
				return false;
			found[column] = d;
		} else if (channel_axis(w, f, e)) {
			if (channel >= 0)
				return false;
			channel = d;
		} else if (!is_var(e, w->image) && !twir_const_int(e, &c)) {
			return false;
		}
	}
	if (found[0] < 0 || found[1] < 0 || channel < 0)
		return false;
	for (int d = 0; d < 2; d++) {
		w->in[d] = load->u.tensor->shape[found[d]];
		if (!find_tap(w, f, d, load->arg[found[d]], moving[d]))
			return false;
	}
	int used = 0;
	struct twir_subst only; /* an axis of one element is gone from the data's index, not from the weights' */
	twir_subst_init(&only, f->m);
	for (int i = 0; i + 1 < fold->n; i++) {
		struct twir_var *v = fold->u.axes[i];
		int64_t size;
		if (v == channel_axis(w, f, load->arg[channel])) {
			w->ci = v;
			w->channels = fold->arg[i + 1];
			used++;
		} else if (v == w->tap[0] || v == w->tap[1]) {
			used++;
		} else if (twir_const_int(fold->arg[i + 1], &size) && size == 1) {
			twir_subst_set(&only, v, twir_index(f->m, 0));
			used++;
		}
	}
	w->w = twir_subst_expr(&only, w->w);
	return w->ci && used == fold->n - 1 && w->tap[0] != w->tap[1];
}

/* Does walking along v step through memory one element at a time? Lanes run over channels. */
static bool contiguous(struct twir_facts *f, const struct twir_tensor *t, int n, const struct twir_expr *const *index,
		       const struct twir_var *v)
{
	const struct twir_expr *base;
	int64_t stride;
	return twir_linear_in(f, twir_layout_offset(f->m, t, n, index), v, &base, &stride) && stride == 1;
}

static bool stores_contiguously(const struct tw_winograd *w, struct twir_facts *f)
{
	const struct tw_task *task = w->task;
	const struct twir_compute *last = task->consumer ? task->consumer : task->anchor;
	const struct twir_expr *at[TWIR_MAX_RANK], *load;
	struct twir_var *channel = w->channel;
	if (task->consumer) { /* its axis that is the anchor's channel */
		channel = NULL;
		if (tw_loads_of(last->value, task->anchor->out, &load) != 1)
			return false;
		for (int d = 0; d < last->out->rank; d++)
			if (is_var(load->arg[1], last->axes[d]))
				channel = last->axes[d];
		if (!channel)
			return false;
	}
	for (int d = 0; d < last->out->rank; d++)
		at[d] = twir_var(f->m, last->axes[d]);
	return contiguous(f, last->out, last->out->rank, at, channel);
}

bool tw_winograd_match(const struct tw_task *task, struct tw_winograd *w)
{
	struct twir_module *m = task->m;
	const struct twir_compute *c = task->anchor;
	const struct twir_expr *v = c->value;
	*w = (struct tw_winograd){.task = task};
	if (task->exact || !task->constants || c->out->rank != 3 || c->out->type != TWIR_F32 || v->kind != TWIR_Fold ||
	    v->op != TWIR_Add || v->n < 2 || v->n > 4 || v->arg[0]->kind != TWIR_Mul)
		return false;
	w->image = c->axes[0];
	w->channel = c->axes[1];
	w->images = c->out->shape[0];
	w->filters = c->out->shape[1];
	const struct twir_expr *factor[2];
	for (int i = 0; i < 2; i++) {
		factor[i] = v->arg[0]->arg[i];
		for (int k = task->nproducers - 1; k >= 0; k--)
			factor[i] = tw_inline(m, factor[i], task->producers[k]);
	}
	const int constant = tw_is_constant(task, v->arg[0]->arg[0]) ? 0 : 1;
	struct twir_var *p = c->axes[2];
	w->w = factor[constant];
	w->x = factor[1 - constant];
	if (!tw_is_constant(task, v->arg[0]->arg[constant]) || twir_uses_var(w->w, w->image) ||
	    twir_uses_var(w->w, p) || twir_uses_var(w->x, w->channel))
		return false;
	struct search s = {.p = p};
	twir_visit_expr(w->x, see_division, &s);
	if (!s.divisor)
		return false;
	/* Pixel p as row and column. */
	struct twir_facts f;
	twir_facts_init(&f, m);
	w->row = tw_loop_var(m, "row");
	w->column = tw_loop_var(m, "column");
	w->out[1] = s.divisor;
	twir_facts_assume(&f, twir_le(m, twir_index(m, 1), w->out[1])); /* else there are no pixels */
	w->out[0] = twir_simplify(&f, twir_div(m, c->out->shape[2], w->out[1]));
	const struct twir_expr *all = twir_mul(m, w->out[0], w->out[1]);
	if (!twir_prove(&f, twir_eq(m, all, c->out->shape[2])))
		return false;
	const struct twir_expr *row = twir_var(m, w->row), *column = twir_var(m, w->column), *zero = twir_index(m, 0);
	twir_facts_assume(&f, twir_and(m, twir_le(m, zero, column), twir_lt(m, column, w->out[1])));
	twir_facts_assume(&f, twir_and(m, twir_le(m, zero, row), twir_lt(m, row, w->out[0])));
	struct twir_subst to;
	twir_subst_init(&to, m);
	twir_subst_set(&to, p, twir_add(m, twir_mul(m, row, w->out[1]), column));
	w->x = twir_simplify(&f, twir_subst_expr(&to, w->x));
	struct loads l = {0};
	twir_visit_expr(w->x, see_load, &l);
	return l.n == 1 && match_data(w, &f, l.one) &&
	       contiguous(&f, l.one->u.tensor, l.one->nidx, l.one->arg, w->ci) && stores_contiguously(w, &f);
}

static double size_or(const struct twir_expr *e, double otherwise)
{
	int64_t v;
	return twir_const_int(e, &v) ? (double)v : otherwise;
}

static double terms(int rows, int columns, const double matrix[TW_WINOGRAD_MOST][TW_WINOGRAD_MOST])
{
	int n = 0;
	for (int i = 0; i < rows; i++)
		for (int j = 0; j < columns; j++)
			n += matrix[i][j] != 0;
	return n;
}

static bool is_known(const struct tw_winograd *w)
{
	int64_t n;
	return twir_const_int(w->out[0], &n) && twir_const_int(w->out[1], &n);
}

enum { FAR_BYTES = 7 }; /* a cycle, from beyond the L2 cache */

/* Cycles, roughly: multiply-adds at 90% of two a cycle, weights streamed once from beyond L2, transforms one operation a cycle. A symbol, mostly the picture's
 * side, is taken for `side`; weights then count one and a half times, since the smaller the map the more they are all that takes time. (Measured, with 512
 * channels and filters, tiles of 2 x 2 take the direct sum's time on maps of 7 x 7, a third more on 6 x 5.) */
double tw_winograd_cost(const struct tw_winograd *w, const struct tw_target *t, int mh, int mw, int64_t side)
{
	struct twir_module *m = w->task->m;
	const double images = size_or(w->images, 1), h = (double)tw_size_about(m, w->out[0], side),
		     wd = (double)tw_size_about(m, w->out[1], side);
	const double byte = is_known(w) ? 1.0 / FAR_BYTES : 1.5 / FAR_BYTES;
	const double c = size_or(w->channels, 64), lanes = t->lanes, co = size_or(w->filters, 64);
	const double out_vectors = (double)(int64_t)((co + lanes - 1) / lanes), in_vectors = c / lanes;
	if (mh == 1 && mw == 1) {
		const double taps = w->taps[0] * w->taps[1];
		return images * h * wd * taps * c * out_vectors / 1.8 + taps * c * co * 4 * byte;
	}
	struct tw_winograd_axis a, b;
	tw_winograd_axis(mh, w->taps[0], &a);
	tw_winograd_axis(mw, w->taps[1], &b);
	const double tiles = images * (double)(int64_t)((h + mh - 1) / mh) * (double)(int64_t)((wd + mw - 1) / mw);
	const double elements = a.n * b.n, products = elements * tiles * c * out_vectors / 1.8;
	const double data = terms(a.n, a.n, a.input) * b.n + terms(b.n, b.n, b.input) * a.n + 2 * elements;
	const double result = terms(mh, a.n, a.output) * b.n + terms(mw, b.n, b.output) * mh + elements + 3.0 * mh * mw;
	return products + elements * c * co * 4 * byte + tiles * (data * in_vectors + result * out_vectors);
}

enum { OUTPUTS, VECTORS };

/* Outputs of a tile along each axis that has taps; vectors of a register tile. */
static void space(struct tw_arena *a, const struct tw_target *t, struct tw_space *s)
{
	(void)t;
	s->nparams = 2;
	s->names[OUTPUTS] = "m";
	s->names[VECTORS] = "nv";
	for (int m = 4; m >= 2; m -= 2)
		for (int nv = 2; nv >= 1; nv--)
			vec_push(a, &s->points, ((struct tw_point){.value = {m, nv}}));
}

static bool tile_of(const struct tw_winograd *w, int outputs, int *mh, int *mw)
{
	*mh = w->taps[0] > 1 ? outputs : 1;
	*mw = w->taps[1] > 1 ? outputs : 1;
	return *mh + w->taps[0] - 1 <= TW_WINOGRAD_MOST && *mw + w->taps[1] - 1 <= TW_WINOGRAD_MOST;
}

/* The outputs that cost least, at several sizes of the picture taken together where it is open; 0: the direct sum is about as good. */
static int best_outputs(const struct tw_winograd *w, const struct tw_target *t)
{
	static const int64_t side[] = {224, 160, 320};
	enum { DIRECT, TWO, FOUR, WAYS };
	double sum[WAYS] = {0};
	int best = DIRECT;
	for (int k = 0; k < (is_known(w) ? 1 : TW_COUNT(side)); k++) {
		const double direct = tw_winograd_cost(w, t, 1, 1, side[k]);
		for (int way = DIRECT; way < WAYS; way++) {
			int mh = 1, mw = 1;
			const bool fits = way == DIRECT || tile_of(w, 2 * way, &mh, &mw);
			sum[way] += !fits ? HUGE_VAL : tw_winograd_cost(w, t, mh, mw, side[k]) / direct;
		}
	}
	sum[DIRECT] *= 0.92;
	for (int way = TWO; way < WAYS; way++)
		best = sum[way] < sum[best] ? way : best;
	return 2 * best;
}

static bool applicable(const struct tw_task *task, const struct tw_target *t)
{
	struct tw_winograd w;
	return t->has_fma && t->lanes > 1 && tw_winograd_match(task, &w) && w.taps[0] * w.taps[1] > 1 &&
	       size_or(w.channels, 0) >= t->lanes / 2.0 && size_or(w.filters, 0) >= t->lanes / 2.0 &&
	       best_outputs(&w, t) > 0;
}

static int choose(const struct tw_task *task, const struct tw_target *t, const struct tw_space *s)
{
	struct tw_winograd w;
	TW_CHECK(tw_winograd_match(task, &w), "winograd chosen for something else");
	const int outputs = best_outputs(&w, t), vectors = size_or(w.filters, 64) > t->lanes ? 2 : 1;
	for (int i = 0; i < s->points.n; i++)
		if (s->points.at[i].value[OUTPUTS] == outputs && s->points.at[i].value[VECTORS] == vectors)
			return i;
	return 0;
}

static void build(const struct tw_task *task, const struct tw_target *t, const struct tw_point *p,
		  struct tw_launch *out)
{
	struct tw_winograd w;
	struct tw_winograd_tiles x;
	int mh, mw;
	TW_CHECK(tw_winograd_match(task, &w), "winograd built for something else");
	if (!tile_of(&w, p->value[OUTPUTS], &mh, &mw)) /* long filters: the tile that always fits */
		tile_of(&w, 2, &mh, &mw);
	tw_winograd_tiles(&x, &w, t, mh, mw);
	tw_winograd_build(&x, p->value[VECTORS], out);
}

const struct tw_template tw_template_winograd = {
	.name = "winograd", .applicable = applicable, .space = space, .choose = choose, .build = build};
