/* diagnose_owner: workers touch their own elements of a register tensor only. Mappings of registers are constant, so who
 * owns what is a table, and an access is proved by looking at all tasks that its own mapping hands out. */
#include "ir/diagnose_int.h"

#define LOOKS ((int64_t)1 << 18) /* tasks looked at for one access */

struct table {
	struct twird *d;
	const struct twird_event *e;
	const struct twird_frame *frame; /* that hands out the work; NULL: each worker does it once */
	int64_t shape[TWIR_MAX_RANK], elements, workers;
	int32_t *owner; /* of each element: the first worker that has it; -1: nobody */
	int32_t *first; /* of each worker: the first that has the same elements */
	int64_t worker, count;
	bool ok;
};

static int64_t element(const struct table *t, const int64_t *at)
{
	int64_t e = 0;
	for (int k = 0; k < t->e->tensor->rank; k++) {
		if (at[k] < 0 || at[k] >= t->shape[k])
			return -1;
		e = e * t->shape[k] + at[k];
	}
	return e;
}

static void own(void *arg, const int64_t *task)
{
	struct table *t = arg;
	const int64_t e = element(t, task);
	if (e < 0)
		return;
	if (t->owner[e] < 0)
		t->owner[e] = (int32_t)t->worker;
	else if (t->count == 0)
		t->first[t->worker] = t->owner[e];
	t->count++;
}

/* The access, done by a worker for a task. */
static void look(void *arg, const int64_t *task)
{
	static const enum twir_level raw[] = {TWIR_THREAD, TWIR_LANE};
	struct table *t = arg;
	const struct twird_event *e = t->e;
	struct twir_var *vars[TWIR_MAX_RANK + TW_COUNT(raw)];
	int64_t values[TWIR_MAX_RANK + TW_COUNT(raw)], at[TWIR_MAX_RANK];
	struct twir_binding b = {.symbols = vars, .values = values};
	if (!t->ok || ++t->count > LOOKS) {
		t->ok = false;
		return;
	}
	for (int k = 0; t->frame && k < t->frame->n; k++) {
		vars[b.n] = t->frame->vars[k];
		values[b.n++] = task[k];
	}
	for (int k = 0; k < TW_COUNT(raw); k++)
		if (t->d->m->workers[raw[k]] && (!t->d->gpu || raw[k] == TWIR_THREAD)) {
			vars[b.n] = t->d->m->workers[raw[k]];
			values[b.n++] = t->worker;
		}
	for (int k = 0; k < e->n; k++)
		at[k] = twir_eval_index(e->index[k], &b);
	const int64_t which = element(t, at);
	t->ok = which >= 0 && t->worker < t->workers && t->owner[which] == t->first[t->worker];
}

static void compare(void *arg)
{
	struct table *t = arg;
	struct twird *d = t->d;
	const struct twir_tensor *x = t->e->tensor;
	const struct twtm_map *mine = twir_map_bind(d->scratch, x->mirrors, NULL);
	t->elements = 1;
	for (int k = 0; k < x->rank; k++) {
		t->shape[k] = twir_eval_index(x->shape[k], NULL);
		t->elements *= t->shape[k] < LOOKS ? t->shape[k] : LOOKS;
		if (t->elements > LOOKS)
			return;
	}
	t->workers = twtm_workers(mine);
	if (t->workers > LOOKS || t->workers * twtm_tasks_per_worker(mine) > LOOKS)
		return;
	t->owner = ARENA_ARRAY(d->scratch, int32_t, t->elements);
	t->first = ARENA_ARRAY(d->scratch, int32_t, t->workers);
	memset(t->owner, 0xff, sizeof(*t->owner) * (size_t)t->elements);
	for (t->worker = 0; t->worker < t->workers; t->worker++) {
		t->first[t->worker] = (int32_t)t->worker;
		t->count = 0;
		twtm_each(mine, t->worker, own, t);
	}
	t->count = 0;
	t->ok = true;
	if (!t->frame) {
		for (t->worker = 0; t->worker < t->workers && t->ok; t->worker++)
			look(t, NULL);
		return;
	}
	const struct twtm_map *theirs = twir_map_bind(d->scratch, t->frame->stmt->u.formap.map, NULL);
	for (t->worker = 0; t->worker < twtm_workers(theirs) && t->ok; t->worker++)
		twtm_each(theirs, t->worker, look, t);
}

static bool is_own(struct twird *d, const struct twird_event *e)
{
	const unsigned inner = 1u << TWIR_THREAD | 1u << TWIR_WARP | 1u << TWIR_LANE;
	struct table t = {.d = d, .e = e};
	struct tw_error error;
	for (const struct twird_frame *f = e->frame; f && !t.frame; f = f->outer)
		t.frame = f->levels & inner ? f : NULL;
	if (t.frame) {
		bool same = twird_same_map(t.frame->stmt->u.formap.map, e->tensor->mirrors) && e->n == t.frame->n;
		for (int k = 0; k < e->n && same; k++)
			same = e->index[k] == twir_var(d->m, t.frame->vars[k]);
		if (same)
			return true;
	}
	bool by_worker = true; /* by its number alone, whatever the task */
	for (int k = 0; k < e->n && t.frame; k++)
		for (int v = 0; v < t.frame->n; v++)
			by_worker &= !twir_uses_var(e->index[k], t.frame->vars[v]);
	if (by_worker)
		t.frame = NULL;
	else if (t.frame->levels & ~inner)
		return false;
	if (e->n != e->tensor->rank || e->scattered || e->lanes > 1)
		return false;
	return tw_try(&error, compare, &t) && t.ok; /* it raises where an index speaks of more */
}

void twird_owners(struct twird *d)
{
	for (int i = 0; i < d->events.n; i++) {
		const struct twird_event *e = &d->events.at[i];
		if (e->kind <= TWIRD_STORE && e->tensor->mirrors && !e->fragment && !is_own(d, e))
			twird_say(d, TWIR_UNPROVED, e->stmt,
				  "the loop that hands out the work should have the mapping that the tensor mirrors",
				  "does each worker own %s?", twird_access(d, e));
	}
}
