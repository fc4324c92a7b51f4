/* Grouped convolutions of few channels a group: neighbouring groups become one, as wide as a vector, whose weights
 * are zeros where a channel in is none of a channel out's group.
 *
 * Lanes run over a group's channels out, so that a group of four fills a quarter of each vector; wider groups take
 * as many multiply-adds, but pack, load and store whole vectors. Not where results must be exact: a zero weight
 * times an infinity is not zero.
 *
 * In: groups with layouts. Out: the same tasks; anchors C'[.., g, o, ..] = sum over taps and channels c of W(g, o,
 * c) * X(g * channels + c), read by their consumer at channel / outputs and channel % outputs, have fewer and wider
 * groups. */
#include "opt/opt.h"
#include "sched/nest.h"

typedef const struct twir_expr *E;

struct grouped {
	struct tw_task *task;
	struct twir_module *m;
	struct twir_facts *f;
	E fold, weights, data;
	int group, output;	  /* axes of the anchor */
	struct twir_var *channel; /* axis of the fold */
	int64_t count, in, out;	  /* groups, channels of each */
};

static int64_t extent_of(E fold, const struct twir_var *v)
{
	int64_t n = 0;
	for (int i = 0; i + 1 < fold->n; i++)
		if (fold->u.axes[i] == v && !twir_const_int(fold->arg[i + 1], &n))
			return 0;
	return n;
}

struct loads {
	E one;
	int n;
};

static void see_load(void *arg, E e)
{
	struct loads *l = arg;
	if (e->kind == TWIR_Load && l->one != e) {
		l->one = e;
		l->n++;
	}
}

static bool either(E e, const struct twir_var *a, const struct twir_var *b)
{
	return twir_uses_var(e, a) || twir_uses_var(e, b);
}

/* Are group and channel read at group * channels + channel in one index of the only load, and nowhere else? */
static bool reads_whole(struct grouped *g, E load)
{
	const struct twir_var *group = g->task->anchor->axes[g->group];
	int found = 0;
	for (int d = 0; d < load->n; d++) {
		E base, rest;
		int64_t stride, one;
		if (!either(load->arg[d], group, g->channel))
			continue;
		found++;
		if (!twir_linear_in(g->f, load->arg[d], group, &base, &stride) || stride != g->in ||
		    !twir_linear_in(g->f, base, g->channel, &rest, &one) || one != 1 || either(rest, group, g->channel))
			return false;
	}
	return found == 1;
}

static E without(struct twir_rewriter *r, E e)
{
	return e->kind == TWIR_Load ? twir_const_of(r->m, e->type, 0) : e;
}

static bool match_data(struct grouped *g)
{
	struct loads l = {0};
	struct twir_rewriter r;
	twir_visit_expr(g->data, see_load, &l);
	if (l.n != 1 || twir_uses_var(g->data, g->task->anchor->axes[g->output]))
		return false;
	for (int i = g->fold->n - 2; i >= 0 && !g->channel; i--)
		if (twir_uses_var(l.one, g->fold->u.axes[i])) {
			g->channel = g->fold->u.axes[i];
			g->in = extent_of(g->fold, g->channel);
			if (g->in < 1 || !reads_whole(g, l.one))
				g->channel = NULL;
		}
	if (!g->channel)
		return false;
	twir_rewriter_init(&r, g->m); /* guards speak of neither */
	r.expr = without;
	return !either(twir_rewrite_expr(&r, g->data), g->task->anchor->axes[g->group], g->channel);
}

static bool is_split(E e, enum twir_kind kind, int64_t by, E whole)
{
	int64_t n;
	return e->kind == kind && twir_const_int(e->arg[1], &n) && n == by && (!whole || e->arg[0] == whole);
}

/* The consumer's load of the anchor; its group and output are the quotient and remainder of one index. */
static bool match_consumer(const struct grouped *g, E *load, E *whole)
{
	const struct twir_compute *c = g->task->consumer;
	if (!c || tw_loads_of(c->value, g->task->anchor->out, load) != 1 || (*load)->nidx != (*load)->n)
		return false;
	*whole = (*load)->arg[g->group]->n == 2 ? (*load)->arg[g->group]->arg[0] : NULL;
	return *whole && is_split((*load)->arg[g->group], TWIR_Div, g->out, NULL) &&
	       is_split((*load)->arg[g->output], TWIR_Mod, g->out, *whole);
}

/* Channels out lie side by side. */
static bool match(struct grouped *g, const struct tw_target *t)
{
	const struct twir_compute *c = g->task->anchor;
	const struct twir_layout *l = c->out->layout;
	E one = twir_index(g->m, 1);
	g->fold = c->value;
	if (!l || l->kind != TWIR_LAYOUT_STRIDES || c->nprograms || g->fold->kind != TWIR_Fold ||
	    g->fold->op != TWIR_Add || g->fold->arg[0]->kind != TWIR_Mul || c->out->type != TWIR_F32)
		return false;
	const int constant = tw_is_constant(g->task, g->fold->arg[0]->arg[0]) ? 0 : 1;
	g->weights = g->fold->arg[0]->arg[constant];
	g->data = g->fold->arg[0]->arg[1 - constant];
	if (!tw_is_constant(g->task, g->weights))
		return false;
	g->group = g->output = -1;
	for (int d = 0; d < c->out->rank; d++) {
		const bool w = twir_uses_var(g->weights, c->axes[d]), x = twir_uses_var(g->data, c->axes[d]);
		if (w && g->group < 0 && x)
			g->group = d;
		else if (w && g->output < 0 && !x && l->extent[d] == one)
			g->output = d;
		else if (w)
			return false;
	}
	return g->group >= 0 && g->output >= 0 && twir_const_int(c->out->shape[g->group], &g->count) &&
	       twir_const_int(c->out->shape[g->output], &g->out) && g->out * 2 <= t->lanes && match_data(g);
}

static struct twir_var *axis_like(struct twir_module *m, const struct twir_var *v, int64_t extent)
{
	struct twir_var *made = twir_var_new(m, TWIR_AXIS, twir_scalar_type(TWIR_INDEX), v->name);
	made->lo = 0;
	made->hi = extent - 1;
	return made;
}

/* Strides of the anchor with groups and outputs innermost. */
static const struct twir_layout *channels_last(const struct grouped *g, const struct twir_tensor *t)
{
	E stride[TWIR_MAX_RANK], inner = twir_mul(g->m, t->shape[g->group], t->shape[g->output]);
	stride[g->output] = twir_index(g->m, 1);
	stride[g->group] = t->shape[g->output];
	for (int d = t->rank - 1; d >= 0; d--) {
		if (d == g->group || d == g->output)
			continue;
		stride[d] = twir_simplify(g->f, inner);
		inner = twir_mul(g->m, inner, t->shape[d]);
	}
	return twir_layout_strides(g->m, t->rank, stride);
}

static E times(struct twir_module *m, struct twir_var *v, int64_t n)
{
	return twir_mul(m, twir_var(m, v), twir_index(m, n));
}

/* `by` groups become one. */
static void widen(struct grouped *g, int64_t by, E load, E whole)
{
	struct twir_module *m = g->m;
	struct twir_compute *old = g->task->anchor, *c = arena_copy(m->arena, old, sizeof(*old));
	const E wide_in = twir_index(m, g->in * by), wide_out = twir_index(m, g->out * by);
	const E in = twir_index(m, g->in), out = twir_index(m, g->out);
	E shape[TWIR_MAX_RANK], extent[TWIR_MAX_RANK], at[TWIR_MAX_RANK];
	struct twir_var *fold[TWIR_MAX_RANK], *channel = axis_like(m, g->channel, g->in * by);
	c->axes = arena_copy(m->arena, old->axes, sizeof(*old->axes) * (size_t)old->out->rank);
	c->axes[g->group] = axis_like(m, old->axes[g->group], g->count / by);
	c->axes[g->output] = axis_like(m, old->axes[g->output], g->out * by);
	for (int d = 0; d < old->out->rank; d++)
		shape[d] = old->out->shape[d];
	shape[g->group] = twir_index(m, g->count / by);
	shape[g->output] = wide_out;
	c->out = twir_tensor_new(m, old->out->name, TWIR_F32, old->out->rank, shape, TWIR_TENSOR);
	c->out->layout = channels_last(g, c->out);
	struct twir_subst data, weights;
	twir_subst_init(&data, m);
	twir_subst_init(&weights, m);
	const E first = times(m, c->axes[g->group], by), ci = twir_var(m, channel),
		co = twir_var(m, c->axes[g->output]);
	twir_subst_set(&data, old->axes[g->group], first);
	twir_subst_set(&data, g->channel, ci);
	twir_subst_set(&weights, old->axes[g->group], twir_add(m, first, twir_div(m, co, out)));
	twir_subst_set(&weights, old->axes[g->output], twir_mod(m, co, out));
	twir_subst_set(&weights, g->channel, twir_mod(m, ci, in));
	const E own = twir_eq(m, twir_div(m, ci, in), twir_div(m, co, out));
	const E weight =
		twir_cond(m, own, twir_subst_expr(&weights, g->weights), twir_const_of(m, g->weights->type, 0));
	const int n = g->fold->n - 1;
	for (int i = 0; i < n; i++) {
		const bool is = g->fold->u.axes[i] == g->channel;
		fold[i] = is ? channel : g->fold->u.axes[i];
		extent[i] = is ? wide_in : g->fold->arg[i + 1];
	}
	c->value = twir_fold(m, TWIR_Add, n, fold, extent, twir_mul(m, weight, twir_subst_expr(&data, g->data)));
	for (int d = 0; d < load->nidx; d++)
		at[d] = load->arg[d];
	at[g->group] = twir_div(m, whole, wide_out);
	at[g->output] = twir_mod(m, whole, wide_out);
	g->task->consumer = arena_copy(m->arena, g->task->consumer, sizeof(*g->task->consumer));
	g->task->consumer->value = tw_swapped(m, g->task->consumer->value, load, twir_load(m, c->out, load->nidx, at));
	g->task->anchor = c;
}

void opt_widen_groups(struct tw_groups *groups, struct twir_module *m, const struct tw_target *t)
{
	struct twir_facts f;
	twir_facts_init(&f, m);
	for (int i = 0; i < groups->list.n && !groups->exact; i++) {
		struct grouped g = {.task = &groups->list.at[i]->task, .m = m, .f = &f};
		E load, whole;
		if (!g.task->anchor || g.task->rows || g.task->attention || groups->list.at[i]->setup ||
		    !match(&g, t) || !match_consumer(&g, &load, &whole))
			continue;
		int64_t by = t->lanes / g.out;
		while (by > 1 && g.count % by)
			by--;
		if (by > 1)
			widen(&g, by, load, whole);
	}
}
