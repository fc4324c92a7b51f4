/* How much arithmetic a task is, for profiles: floating-point operations as an expression over symbols, a multiply-add counted as two, a call as twenty.
 * It is counted on the definitions, not on the program, so that a cleverer algorithm shows as a higher rate. */
#include "sched/sched.h"

struct sum {
	struct twir_module *m;
	const struct twir_expr *ops; /* of one element */
};

/* Operations on numbers: neither indices, conditions nor choices. */
static void count_number(void *arg, const struct twir_expr *e)
{
	const bool choice = e->kind == TWIR_Cond || e->kind == TWIR_Select || e->kind == TWIR_Cast;
	const bool leaf = e->n == 0 || e->kind == TWIR_Load || e->kind == TWIR_Fold;
	if (!choice && !leaf && e->type.scalar != TWIR_INDEX && e->type.scalar != TWIR_I1)
		*(int *)arg += e->kind == TWIR_Call ? 20 : 1;
}

static int numbers(const struct twir_expr *e)
{
	int n = 0;
	twir_visit_expr(e, count_number, &n);
	return n;
}

static void see_op(void *arg, const struct twir_expr *e)
{
	struct sum *s = arg;
	if (e->kind != TWIR_Fold)
		return;
	struct twir_module *m = s->m;
	const struct twir_expr *one = twir_index(m, numbers(e->arg[0]) + 1);
	for (int i = 1; i < e->n; i++)
		one = twir_mul(m, one, e->arg[i]);
	s->ops = twir_add(m, s->ops, one);
}

static void see_variable(void *arg, const struct twir_expr *e)
{
	*(bool *)arg |= e->kind == TWIR_Var && e->u.var->kind != TWIR_SYMBOL;
}

static bool of_symbols(const struct twir_expr *e)
{
	bool other = false;
	twir_visit_expr(e, see_variable, &other);
	return !other;
}

static const struct twir_expr *definition_work(struct twir_module *m, const struct twir_compute *c)
{
	struct sum s = {m, twir_index(m, tw_has_fold(c->value) ? 0 : numbers(c->value))};
	twir_visit_expr(c->value, see_op, &s);
	const struct twir_expr *all = s.ops;
	for (int d = 0; d < c->out->rank; d++)
		all = twir_mul(m, all, c->out->shape[d]);
	return all;
}

/* Of the stages, and of an attention's first product. */
static const struct twir_expr *rows_work(const struct tw_task *task)
{
	struct twir_module *m = task->m;
	const struct tw_rows *rows = task->rows ? task->rows : task->attention->rows;
	const struct twir_expr *all = twir_index(m, 0);
	for (int i = 0; i < rows->stages.n; i++)
		all = twir_add(m, all, definition_work(m, rows->stages.at[i].definition));
	if (task->rows)
		return all;
	const struct twir_expr *scores = twir_mul(m, task->attention->depth_extent, rows->fold_extent[0]);
	for (int k = 0; k < rows->nrow; k++)
		scores = twir_mul(m, scores, rows->row_extent[k]);
	all = twir_add(m, all, definition_work(m, task->anchor));
	return twir_add(m, all, twir_mul(m, twir_index(m, 2), scores));
}

static const struct twir_expr *chain_work(const struct tw_task *task)
{
	const struct twir_expr *all = twir_index(task->m, 0);
	for (int i = 0; i < TW_COUNT(task->chain->stage); i++) {
		const struct tw_task *stage = task->chain->stage[i];
		const struct twir_expr *work = stage ? tw_task_work(stage) : twir_index(task->m, 0);
		if (!work)
			return NULL;
		all = twir_add(task->m, all, work);
	}
	return all;
}

static const struct twir_expr *loop_work(const struct tw_task *task)
{
	const struct twir_expr *all = twir_index(task->m, 0);
	for (int i = 0; i < task->loop->ntasks; i++) {
		const struct twir_expr *work = tw_task_work(task->loop->tasks[i]);
		if (!work)
			return NULL;
		all = twir_add(task->m, all, work);
	}
	return twir_mul(task->m, all, task->loop->trips);
}

const struct twir_expr *tw_task_work(const struct tw_task *task)
{
	if (task->chain || task->loop)
		return task->chain ? chain_work(task) : loop_work(task);
	const struct twir_expr *all =
		task->rows || task->attention ? rows_work(task) : definition_work(task->m, task->anchor);
	if (task->consumer)
		all = twir_add(task->m, all, definition_work(task->m, task->consumer));
	return of_symbols(all) ? all : NULL;
}

struct list {
	const struct twir_expr **at;
	int n, most;
};

static void see_fold(void *arg, const struct twir_expr *e)
{
	struct list *l = arg;
	for (int i = 1; e->kind == TWIR_Fold && i < e->n && l->n < l->most; i++)
		if (of_symbols(e->arg[i]))
			l->at[l->n++] = e->arg[i];
}

int tw_task_extents(const struct tw_task *task, int most, const struct twir_expr **extents)
{
	struct list l = {extents, 0, most};
	if (task->loop) {
		l.at[l.n++] = task->loop->trips;
		task = task->loop->tasks[0];
	}
	for (int d = 0; d < task->anchor->out->rank && l.n < most; d++)
		l.at[l.n++] = task->anchor->out->shape[d];
	twir_visit_expr(task->anchor->value, see_fold, &l);
	return l.n;
}
