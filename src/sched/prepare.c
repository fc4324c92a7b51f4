/* What a template wants computed of constants once, at compile time: packed weights, transformed filters. Input: an expression of the anchor over its own
 * axes. Output: a compute definition in the launch's list, over constants only; the pipeline schedules it like any other and runs it when it bakes the image. */
#include "sched/sched.h"

static const struct twir_expr *with_producers(const struct tw_task *task, const struct twir_expr *e)
{
	for (int i = task->nproducers - 1; i >= 0; i--)
		e = tw_inline(task->m, e, task->producers[i]);
	return e;
}

static void see_symbol(void *arg, const struct twir_expr *e)
{
	*(bool *)arg |= e->kind == TWIR_Var && e->u.var->kind == TWIR_SYMBOL;
}

static bool has_symbol(const struct twir_expr *e)
{
	bool found = false;
	twir_visit_expr(e, see_symbol, &found);
	return found;
}

bool tw_is_constant(const struct tw_task *task, const struct twir_expr *e)
{
	struct twir_tensor **loaded;
	int n;
	if (!task->constants)
		return false;
	e = with_producers(task, e);
	tw_loaded_tensors(task->m->arena, e, &loaded, &n);
	for (int i = 0; i < n; i++)
		if (!map_get_ptr(task->constants, loaded[i]))
			return false;
	return !has_symbol(e);
}

struct twir_tensor *tw_prepare(const struct tw_task *task, struct tw_launch *out, const char *name,
			       enum twir_scalar type, int rank, const struct twir_expr *const *shape,
			       struct twir_var *const *axes, const struct twir_expr *value)
{
	struct twir_module *m = task->m;
	struct twir_compute *c = ARENA_NEW(m->arena, struct twir_compute);
	for (int d = 0; d < rank; d++)
		TW_CHECK(!has_symbol(shape[d]), "%s is prepared with a size that is not known yet", name);
	c->out = twir_tensor_new(m, name, type, rank, shape, TWIR_TENSOR);
	c->axes = ARENA_ARRAY(m->arena, struct twir_var *, rank);
	memcpy(c->axes, axes, sizeof(*axes) * (size_t)rank);
	c->value = with_producers(task, value);
	c->origin = task->anchor->origin;
	map_set_ptr(task->constants, c->out, task->constants);
	vec_push(m->arena, &out->prepared, c);
	return c->out;
}
