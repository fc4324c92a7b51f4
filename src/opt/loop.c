/* Joins the groups of a loop into one: where a fixed number of steps, which only sizes decide, runs tasks that can all be one program. Which can, and whether that
 * pays on the machine, is sched's to say (tw_loop_serves).
 *
 * In: groups in order, with marks where loops begin and end. Out: the same list with one group in the place of a loop's marks and tasks; what the loop hands out
 * (slices' wholes, last values) is that group's to store. */
#include "ops/flow.h"
#include "opt/opt.h"

struct loops {
	struct twir_module *m;
	const struct tw_target *t;
	struct tw_groups *groups;
};

/* The index of the mark that ends the loop that begins at i; -1: there are host operators, loops or branches in it, or data decides how often it runs. */
static int end_of(const struct loops *x, int i)
{
	const struct tw_mark *mark = x->groups->list.at[i]->mark;
	if (!mark || mark->kind != TW_MARK_LOOP)
		return -1;
	const struct tw_flow *f = mark->flow;
	if (f->count || f->condition || f->go_on || f->ran || !f->trips || !f->number)
		return -1;
	for (int k = i + 1; k < x->groups->list.n; k++) {
		const struct tw_group *g = x->groups->list.at[k];
		if (g->mark)
			return g->mark->kind == TW_MARK_NEXT && g->mark->flow == f ? k : -1;
		if (!g->task.anchor || g->setup)
			return -1;
	}
	return -1;
}

static bool is_part(const struct loops *x, const struct twir_tensor *t)
{
	if (map_get_ptr(&x->groups->parts, t))
		return true;
	for (int i = 0; i < x->groups->part_list.n; i++)
		if (x->groups->part_list.at[i]->whole == t)
			return true;
	return false;
}

static struct tw_loop *loop_of(const struct loops *x, int begin, int end)
{
	struct tw_arena *a = x->m->arena;
	const struct tw_flow *f = x->groups->list.at[begin]->mark->flow;
	struct tw_loop *l = ARENA_NEW(a, struct tw_loop);
	*l = (struct tw_loop){.number = f->number,
			      .trips = f->trips,
			      .ntasks = end - begin - 1,
			      .ncarried = f->carried.n,
			      .nslices = f->slices.n};
	l->tasks = ARENA_ARRAY(a, const struct tw_task *, l->ntasks);
	l->carried = ARENA_ARRAY(a, struct tw_loop_value, l->ncarried);
	l->slices = ARENA_ARRAY(a, struct tw_loop_slice, l->nslices);
	for (int k = 0; k < l->ntasks; k++)
		l->tasks[k] = &x->groups->list.at[begin + 1 + k]->task;
	for (int i = 0; i < l->ncarried; i++) {
		const struct tw_carried *c = &f->carried.at[i];
		l->carried[i] = (struct tw_loop_value){c->init, c->in, c->out, c->last};
	}
	for (int i = 0; i < l->nslices; i++)
		l->slices[i] = (struct tw_loop_slice){f->slices.at[i].slice, f->slices.at[i].whole};
	return l;
}

/* What tasks of a loop make for each other never lies in memory, so that it can be no part of something else. */
static bool stands_alone(const struct loops *x, const struct tw_loop *l)
{
	for (int k = 0; k < l->ntasks; k++)
		if (is_part(x, l->tasks[k]->anchor->out) ||
		    (l->tasks[k]->consumer && is_part(x, l->tasks[k]->consumer->out)))
			return false;
	return true;
}

static bool serves(const struct loops *x, const struct tw_loop *l)
{
	struct twir_frame f;
	if (!stands_alone(x, l))
		return false;
	twir_frame_begin(x->m, &f);
	const bool yes = tw_loop_serves(l, x->t, x->m);
	twir_frame_end(x->m, &f);
	twir_frame_free(&f);
	return yes;
}

void opt_loop(struct tw_groups *groups, struct twir_module *m, const struct tw_target *t)
{
	struct loops x = {m, t, groups};
	struct tw_groups all = *groups;
	memset(&all.list, 0, sizeof(all.list));
	for (int i = 0; i < groups->list.n; i++) {
		const int end = end_of(&x, i);
		struct tw_loop *l = end > i + 1 ? loop_of(&x, i, end) : NULL;
		if (!l || !serves(&x, l)) {
			vec_push(m->arena, &all.list, groups->list.at[i]);
			continue;
		}
		struct tw_group *made = ARENA_NEW(m->arena, struct tw_group);
		const struct tw_group *last = groups->list.at[end - 1];
		*made = *last;
		made->task.loop = l;
		made->task.consumer = NULL;
		made->task.nproducers = 0;
		vec_push(m->arena, &all.list, made);
		i = end;
	}
	*groups = all;
}
