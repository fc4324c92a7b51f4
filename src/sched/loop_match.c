/* Which loops can be one program: those whose tasks are products of states with constant weights and definitions without sums, over tensors of three axes of which
 * the first two, direction and row, are the same everywhere and never mixed. Input: a loop. Output: what loop.c needs to know of it. */
#include "sched/loop_int.h"
#include "sched/matmul.h"

typedef const struct twir_expr *E;

int loop_inner(const struct loop *x, const struct twir_tensor *t)
{
	for (int i = 0; i < x->ninner; i++)
		if (x->inner[i] == t)
			return i;
	return -1;
}

static bool add_inner(struct loop *x, struct twir_tensor *t)
{
	int64_t n;
	if (loop_inner(x, t) >= 0)
		return true;
	if (x->ninner == LOOP_INNER || t->rank != LOOP_RANK || t->layout || t->shape[LOOP_DIRECTION] != x->directions ||
	    t->shape[LOOP_ROW] != x->batch || !twir_const_int(t->shape[LOOP_ELEMENT], &n) || n < 1 || n > 1 << 20)
		return false;
	x->inner[x->ninner++] = t;
	return true;
}

struct reads {
	const struct loop *x;
	const struct twir_compute *c;
	bool any, astray;
};

bool loop_is_axis(E e, const struct twir_var *axis, E extent)
{
	int64_t n, at;
	if (twir_const_int(extent, &n) && n == 1 && twir_const_int(e, &at) && at == 0)
		return true;
	return e->kind == TWIR_Var && e->u.var == axis;
}

static void see_read(void *arg, E e)
{
	struct reads *r = arg;
	if ((e->kind != TWIR_Load && e->kind != TWIR_Gather) || loop_inner(r->x, e->u.tensor) < 0)
		return;
	r->any = true;
	r->astray |= r->c->out->rank != LOOP_RANK || e->kind != TWIR_Load || e->n != LOOP_RANK ||
		     !loop_is_axis(e->arg[LOOP_DIRECTION], r->c->axes[LOOP_DIRECTION], r->x->directions) ||
		     !loop_is_axis(e->arg[LOOP_ROW], r->c->axes[LOOP_ROW], r->x->batch);
}

static struct reads reads_of(const struct loop *x, const struct twir_compute *c)
{
	struct reads r = {x, c, false, false};
	twir_visit_expr(c->value, see_read, &r);
	return r;
}

static bool list_inner(struct loop *x)
{
	const struct tw_loop *l = x->l;
	for (int i = 0; i < l->ncarried; i++)
		if (!add_inner(x, l->carried[i].in))
			return false;
	for (int k = 0; k < l->ntasks; k++) {
		const struct tw_task *t = l->tasks[k];
		for (int i = 0; i < t->nproducers; i++)
			if (reads_of(x, t->producers[i]).any && !add_inner(x, t->producers[i]->out))
				return false;
		if (!add_inner(x, t->anchor->out) || (t->consumer && !add_inner(x, t->consumer->out)))
			return false;
	}
	for (int i = 0; i < l->ncarried; i++)
		if (loop_inner(x, l->carried[i].out) < l->ncarried) /* made, not handed on from elsewhere */
			return false;
	for (int i = 0; i < l->nslices; i++)
		if (loop_inner(x, l->slices[i].slice) < 0)
			return false;
	return true;
}

static bool in_place(const struct loop *x)
{
	for (int k = 0; k < x->l->ntasks; k++) {
		const struct tw_task *t = x->l->tasks[k];
		for (int i = 0; i < t->nproducers; i++)
			if (reads_of(x, t->producers[i]).astray)
				return false;
		if (reads_of(x, t->anchor).astray || (t->consumer && reads_of(x, t->consumer).astray))
			return false;
	}
	return true;
}

/* A product of states and weights. Bytes of the weights of a direction. */
static bool is_product(const struct loop *x, const struct tw_task *t, struct mm_problem *p, int64_t *bytes)
{
	int64_t directions;
	if (!mm_match(t, x->t, p) || p->column != LOOP_ELEMENT || p->a.access != MM_DIRECT ||
	    p->b.access != MM_PREPARED || !p->k_known || !p->n_known || p->n_size < x->t->lanes || p->b.uses[LOOP_ROW])
		return false;
	const bool one = twir_const_int(x->directions, &directions) && directions == 1;
	if (!one && !(p->a.uses[LOOP_DIRECTION] && p->b.uses[LOOP_DIRECTION]))
		return false;
	*bytes = p->n_size * p->k_size * twir_scalar_bytes(p->b.stored);
	return true;
}

static bool is_plain(const struct tw_task *t)
{
	return t->anchor && !t->anchor->nprograms && !t->rows && !t->attention && !t->chain && !t->loop;
}

bool loop_match(const struct tw_loop *l, const struct tw_target *t, struct twir_module *m, struct loop *x)
{
	int64_t directions, bytes = 0, l2 = t->l2_bytes > 0 ? t->l2_bytes : 256 << 10;
	if (l->ncarried < 1 || l->ntasks < 1 || l->carried[0].in->rank != LOOP_RANK)
		return false;
	const struct twir_tensor *first = l->carried[0].in;
	*x = (struct loop){
		.l = l, .m = m, .t = t, .directions = first->shape[LOOP_DIRECTION], .batch = first->shape[LOOP_ROW]};
	if (!twir_const_int(x->directions, &directions))
		return false;
	for (int k = 0; k < l->ntasks; k++)
		if (!is_plain(l->tasks[k]))
			return false;
	if (!list_inner(x) || !in_place(x))
		return false;
	for (int k = 0; k < l->ntasks; k++) {
		struct mm_problem p;
		int64_t of_product = 0;
		if (tw_has_fold(l->tasks[k]->anchor->value) && !is_product(x, l->tasks[k], &p, &of_product))
			return false;
		bytes += of_product;
	}
	/* What does not fit beside other things is better shared out among cores, step by step. */
	return bytes <= l2 / 4 * 3;
}

bool tw_loop_serves(const struct tw_loop *l, const struct tw_target *t, struct twir_module *m)
{
	struct loop x;
	return loop_match(l, t, m, &x);
}
