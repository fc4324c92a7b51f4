/* Joins groups into chains: a task that folds windows of an image with the task that makes the image, the task that takes its result, or both, where each is the
 * other's only reader. Which tasks can be stages, and whether fusing them pays on the machine, is sched's to say (tw_chain_saves).
 *
 * In: groups with layouts, in order. Out: the same list with the stages' groups gone and the chain in the place of the last; tensors between stages are never stored. */
#include "opt/opt.h"

struct reader {
	int group; /* the only one that loads the tensor; -1: several */
};

struct chains {
	struct twir_module *m;
	const struct tw_target *t;
	struct tw_groups *groups;
	struct tw_map readers; /* tensor -> struct reader */
	struct tw_map writer;  /* tensor -> index of group + 1 */
	int now;
};

static void see_load(void *arg, const struct twir_expr *e)
{
	struct chains *x = arg;
	if (e->kind != TWIR_Load && e->kind != TWIR_Gather)
		return;
	struct reader *r = map_get_ptr(&x->readers, e->u.tensor);
	if (!r) {
		r = ARENA_NEW(x->m->arena, struct reader);
		r->group = x->now;
		map_set_ptr(&x->readers, e->u.tensor, r);
	}
	r->group = r->group == x->now ? r->group : -1;
}

static void see_rows(struct chains *x, const struct tw_rows *rows)
{
	for (int i = 0; rows && i < rows->stages.n; i++) {
		const struct tw_stage *s = &rows->stages.at[i];
		twir_visit_expr(s->value, see_load, x);
		for (int f = 0; f < s->folds.n; f++)
			twir_visit_expr(s->folds.at[f].body, see_load, x);
	}
}

static void see_task(struct chains *x, const struct tw_task *t)
{
	const struct tw_attention *a = t->attention;
	if (!t->anchor)
		return;
	twir_visit_expr(t->anchor->value, see_load, x);
	if (t->consumer)
		twir_visit_expr(t->consumer->value, see_load, x);
	for (int i = 0; i < t->nproducers; i++)
		twir_visit_expr(t->producers[i]->value, see_load, x);
	see_rows(x, t->rows);
	if (!a)
		return;
	see_rows(x, a->rows);
	twir_visit_expr(a->q, see_load, x);
	twir_visit_expr(a->k, see_load, x);
	twir_visit_expr(a->v, see_load, x);
}

static const struct twir_compute *last_of(const struct tw_task *t)
{
	return t->consumer ? t->consumer : t->anchor;
}

static struct tw_group *group_at(const struct chains *x, int i)
{
	return x->groups->list.at[i];
}

/* May what the group stores stay inside a chain, and who reads it then? -1: no. */
static int only_reader(const struct chains *x, int i)
{
	const struct tw_group *g = group_at(x, i);
	const struct twir_tensor *t = g->task.anchor ? last_of(&g->task)->out : NULL;
	const struct reader *r = t ? map_get_ptr(&x->readers, t) : NULL;
	if (!r || g->setup || g->task.chain || map_get_ptr(&x->groups->row_major, t) ||
	    map_get_ptr(&x->groups->parts, t))
		return -1;
	for (int k = i; k < r->group; k++) /* marks and host operators stay where they are */
		if (!group_at(x, k)->task.anchor)
			return -1;
	return r->group;
}

struct found {
	const struct chains *x;
	int reader, group;
};

static void see_source(void *arg, const struct twir_expr *e)
{
	struct found *f = arg;
	const int i = e->kind == TWIR_Load ? (int)(uintptr_t)map_get_ptr(&f->x->writer, e->u.tensor) - 1 : -1;
	if (i >= 0 && only_reader(f->x, i) == f->reader)
		f->group = i;
}

/* The group that makes what group i folds. */
static int source_of(const struct chains *x, int i)
{
	struct found f = {x, i, -1};
	const struct tw_task *t = &group_at(x, i)->task;
	twir_visit_expr(t->anchor->value, see_source, &f);
	for (int k = 0; k < t->nproducers; k++)
		twir_visit_expr(t->producers[k]->value, see_source, &f);
	return f.group;
}

static const struct tw_task *task_at(const struct chains *x, int i)
{
	return i >= 0 ? arena_copy(x->m->arena, &group_at(x, i)->task, sizeof(struct tw_task)) : NULL;
}

static void join(struct chains *x, const struct tw_chain *best, const int *stage, bool *gone)
{
	struct tw_group *last = NULL;
	struct tw_buf label;
	buf_init(&label, x->m->arena);
	for (int k = 0; k < TW_COUNT(best->stage); k++) {
		if (!best->stage[k])
			continue;
		if (last) {
			buf_puts(&label, "+");
			gone[stage[k - 1]] = true;
		}
		last = group_at(x, stage[k]);
		buf_puts(&label, last->label);
	}
	last->label = label.at;
	last->task.chain = arena_copy(x->m->arena, best, sizeof(*best));
}

/* What a chain would save. The trial plans all of its stages; only the number stays. */
static double saves(const struct chains *x, const struct tw_chain *c)
{
	struct twir_frame f;
	twir_frame_begin(x->m, &f);
	const double seconds = tw_chain_saves(c, x->t);
	twir_frame_end(x->m, &f);
	twir_frame_free(&f);
	return seconds;
}

/* The chain around group i that saves most. */
static void find(struct chains *x, int i, bool *gone)
{
	const struct tw_task *t = &group_at(x, i)->task;
	if (!t->anchor || t->chain || t->rows || t->attention || gone[i] || group_at(x, i)->setup)
		return;
	const int stage[] = {source_of(x, i), i, only_reader(x, i)};
	const struct tw_task *task[] = {task_at(x, stage[0]), task_at(x, i), task_at(x, stage[2])};
	struct tw_chain best = {{NULL}};
	double most = 0;
	for (int ends = 1; ends < 4; ends++) {
		const struct tw_chain c = {{ends & 1 ? task[0] : NULL, task[1], ends & 2 ? task[2] : NULL}};
		if ((ends & 1 && !task[0]) || (ends & 2 && !task[2]))
			continue;
		const double gain = saves(x, &c);
		if (gain > most) {
			most = gain;
			best = c;
		}
	}
	if (most > 0)
		join(x, &best, stage, gone);
}

void opt_chain(struct tw_groups *groups, struct twir_module *m, const struct tw_target *t)
{
	struct chains x = {.m = m, .t = t, .groups = groups};
	const int n = groups->list.n;
	bool *gone = ARENA_ARRAY(m->arena, bool, n);
	map_init(&x.readers, m->arena);
	map_init(&x.writer, m->arena);
	for (x.now = 0; x.now < n; x.now++) {
		const struct tw_task *task = &group_at(&x, x.now)->task;
		see_task(&x, task);
		if (task->anchor)
			map_set_ptr(&x.writer, last_of(task)->out, (void *)(uintptr_t)(x.now + 1));
	}
	for (int i = 0; i < n; i++)
		find(&x, i, gone);
	int kept = 0;
	for (int i = 0; i < n; i++)
		if (!gone[i])
			groups->list.at[kept++] = groups->list.at[i];
	groups->list.n = kept;
}
