/* What chains are: a fold over a small window of an image, channel by channel, with a matmul before it that makes the image, one behind it that takes its result
 * pixel by pixel, or both. Input: the stages' tasks as they were grouped. Output: each stage as one definition over image, channel, row and column, with the
 * matmuls' problems and the rows that a row of the window's result reads. Shapes and operators are not asked for, only what is loaded where. */
#include "sched/chain_int.h"

typedef const struct twir_expr *E;

static E without_quotients(struct twir_module *m, const struct twir_compute *c, E value)
{
	struct twir_facts f;
	twir_facts_init(&f, m);
	for (int d = 0; d < c->out->rank; d++) {
		const E axis = twir_var(m, c->axes[d]);
		int64_t n;
		if (twir_const_int(c->out->shape[d], &n))
			twir_facts_range(&f, c->axes[d], 0, n - 1);
		else
			twir_facts_assume(&f, twir_and(m, twir_le(m, twir_index(m, 0), axis),
						       twir_lt(m, axis, c->out->shape[d])));
	}
	return twir_simplify(&f, value);
}

/* Producers, anchor and consumer as one definition; false: it is not over image, channel, row and column. */
static bool merge(struct chain_part *x, struct twir_module *m)
{
	const struct tw_task *from = x->given;
	const struct twir_compute *last = from->consumer ? from->consumer : from->anchor;
	struct twir_compute *c = arena_copy(m->arena, last, sizeof(*last));
	if (from->rows || from->attention || from->chain || from->anchor->nprograms || last->out->rank != CHAIN_RANK ||
	    last->out->type != TWIR_F32)
		return false;
	if (from->consumer)
		c->value = tw_inline(m, c->value, from->anchor);
	for (int i = from->nproducers - 1; i >= 0; i--)
		c->value = tw_inline(m, c->value, from->producers[i]);
	c->value = without_quotients(m, c, c->value);
	x->task = *from;
	x->task.anchor = c;
	x->task.consumer = NULL;
	x->task.nproducers = 0;
	return true;
}

static bool is_var(E e, const struct twir_var *v)
{
	return e->kind == TWIR_Var && e->u.var == v;
}

static bool is_one(E e)
{
	int64_t n;
	return twir_const_int(e, &n) && n == 1;
}

/* A sum over constants that only channels of the result choose; columns of the image are its rows. */
static bool match_matmul(struct chain *c, int which)
{
	struct chain_part *x = &c->part[which];
	struct mm_problem *p = &x->p;
	if (!mm_match(&x->task, c->t, p) || p->type != TWIR_F32 || p->exact || p->column != CHAIN_CHANNEL ||
	    p->a.access != MM_DIRECT || p->b.access != MM_PREPARED || !p->n_known || !p->k_known || p->n_size < 4 ||
	    p->k_size < 1 || !p->a.uses[CHAIN_COLUMN] || p->a.uses[CHAIN_CHANNEL])
		return false;
	for (int d = 0; d < CHAIN_RANK; d++)
		if (d != CHAIN_CHANNEL && p->b.uses[d])
			return false;
	mm_take_row(p, CHAIN_COLUMN);
	chain_guess(p);
	return !p->m_known || p->m_size > 1;
}

struct spread {
	const struct twir_compute *c;
	int dimension;
	const struct twir_var *k;
	bool others;
};

static void see_var(void *arg, E e)
{
	struct spread *s = arg;
	if (e->kind == TWIR_Var && e->u.var->kind == TWIR_AXIS && e->u.var != s->c->axes[s->dimension])
		s->others |= s->k && s->k != e->u.var, s->k = e->u.var;
}

/* Where the window's load reads along rows, and that it stays in its image and its channel. */
static bool match_reading(struct chain *c, const struct twir_compute *w, E load)
{
	struct twir_module *m = c->m;
	struct twir_facts f;
	twir_facts_init(&f, m);
	if (load->nidx != load->n || load->nidx != CHAIN_RANK ||
	    !is_var(load->arg[CHAIN_CHANNEL], w->axes[CHAIN_CHANNEL]))
		return false;
	if (!is_var(load->arg[CHAIN_IMAGE], w->axes[CHAIN_IMAGE]) && !is_one(w->out->shape[CHAIN_IMAGE]))
		return false;
	struct spread rows = {.c = w, .dimension = CHAIN_ROW}, columns = {.c = w, .dimension = CHAIN_COLUMN};
	E at = load->arg[CHAIN_ROW];
	twir_visit_expr(at, see_var, &rows);
	twir_visit_expr(load->arg[CHAIN_COLUMN], see_var, &columns);
	if (rows.others || columns.others || (rows.k && rows.k == columns.k))
		return false;
	c->taps = 1;
	c->dilation = 1;
	if (rows.k && !twir_linear_in(&f, at, rows.k, &at, &c->dilation))
		return false;
	if (!twir_linear_in(&f, at, w->axes[CHAIN_ROW], &c->base, &c->step) || c->step < 1 || c->dilation < 1)
		return false;
	return !twir_uses_var(c->base, w->axes[CHAIN_ROW]);
}

struct taps {
	const struct twir_var *k;
	int64_t n;
};

static void see_extent(void *arg, E e)
{
	struct taps *t = arg;
	for (int i = 0; e->kind == TWIR_Fold && i + 1 < e->n; i++)
		if (e->u.axes[i] == t->k)
			twir_const_int(e->arg[i + 1], &t->n);
}

static bool match_window(struct chain *c)
{
	struct chain_part *x = &c->part[CHAIN_WINDOW];
	const struct twir_compute *w = x->task.anchor;
	E load;
	if (!tw_window_match(&x->task, c->t))
		return false;
	for (int d = CHAIN_CHANNEL; d < CHAIN_RANK; d++)
		if (is_one(w->out->shape[d]))
			return false;
	c->step = c->dilation = c->taps = 1;
	c->base = twir_index(c->m, 0);
	if (!c->part[CHAIN_EXPAND].given)
		return true;
	const struct twir_tensor *image = c->part[CHAIN_EXPAND].task.anchor->out;
	if (tw_loads_of(w->value, image, &load) != 1 || !match_reading(c, w, load))
		return false;
	struct spread rows = {.c = w, .dimension = CHAIN_ROW};
	twir_visit_expr(load->arg[CHAIN_ROW], see_var, &rows);
	if (!rows.k)
		return true;
	struct taps taps = {rows.k, 0};
	twir_visit_expr(w->value, see_extent, &taps);
	c->taps = taps.n;
	return c->taps > 0;
}

/* The projection reads the window's result pixel by pixel, all channels of it. */
static bool match_project(struct chain *c)
{
	const struct chain_part *x = &c->part[CHAIN_PROJECT];
	const struct mm_problem *p = &x->p;
	const struct twir_compute *w = c->part[CHAIN_WINDOW].task.anchor, *d = x->task.anchor;
	E load;
	if (tw_loads_of(d->value, w->out, &load) != 1 || load != p->a.value || load->nidx != CHAIN_RANK ||
	    p->nfold != 1)
		return false;
	return is_var(load->arg[CHAIN_CHANNEL], p->axis[0]) && p->extent[0] == w->out->shape[CHAIN_CHANNEL] &&
	       (is_var(load->arg[CHAIN_IMAGE], d->axes[CHAIN_IMAGE]) || is_one(w->out->shape[CHAIN_IMAGE])) &&
	       is_var(load->arg[CHAIN_ROW], d->axes[CHAIN_ROW]) &&
	       is_var(load->arg[CHAIN_COLUMN], d->axes[CHAIN_COLUMN]);
}

bool chain_match(const struct tw_chain *stages, const struct tw_target *t, struct chain *c)
{
	*c = (struct chain){.t = t};
	for (int i = 0; i < CHAIN_PARTS; i++) {
		c->part[i].given = stages->stage[i];
		if (!stages->stage[i])
			continue;
		c->m = stages->stage[i]->m;
		if (!merge(&c->part[i], c->m) || (i != CHAIN_WINDOW && !match_matmul(c, i)))
			return false;
	}
	return match_window(c) && (!c->part[CHAIN_PROJECT].given || match_project(c));
}
