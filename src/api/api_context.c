/* Public interface: contexts. */
#include "api_int.h"

#include <stdatomic.h>
#include <stdlib.h>

struct tilewright_context {
	tilewright_model *model;
	struct twrt_context *rt;
	atomic_int cancelled;
};

#define NEED_CONTEXT(c)                                                                                                \
	do {                                                                                                           \
		if ((c) == NULL)                                                                                       \
			return API_FAIL(TW_ERR_USAGE, "the context is NULL");                                          \
	} while (0)

tilewright_status tilewright_create_context(tilewright_model *m, int threads, tilewright_context **context)
{
	if (m == NULL || context == NULL || threads < 0)
		return API_FAIL(TW_ERR_USAGE, "model or context is NULL, or threads below 0");
	*context = NULL;
	tilewright_context *c = calloc(1, sizeof(*c));
	if (c == NULL)
		return API_FAIL(TW_ERR_MEMORY, "no memory for a context");
	c->model = m;
	const enum tw_code code = twrt_context_new(m->rt, threads, &c->rt, tilewright_error_slot());
	if (code == TW_ERR_OK)
		*context = c;
	else
		free(c);
	return (tilewright_status)code;
}

void tilewright_free_context(tilewright_context *c)
{
	if (c == NULL)
		return;
	twrt_context_free(c->rt);
	free(c);
}

int tilewright_count_threads(const tilewright_context *c)
{
	return c ? twrt_context_threads(c->rt) : 0;
}

tilewright_status tilewright_set_input(tilewright_context *c, int input, tilewright_type type, int rank,
				       const int64_t *dims, const void *data)
{
	NEED_CONTEXT(c);
	if (rank < 0 || rank > TILEWRIGHT_MAX_RANK || (rank > 0 && dims == NULL))
		return API_FAIL(TW_ERR_USAGE, "a tensor of %d dimensions", rank);
	return (tilewright_status)twrt_set_input(c->rt, input, (enum twrt_type)type, rank, dims, data,
						 tilewright_error_slot());
}

tilewright_status tilewright_set_output(tilewright_context *c, int output, void *data, size_t bytes)
{
	NEED_CONTEXT(c);
	const int64_t size = bytes > INT64_MAX ? INT64_MAX : (int64_t)bytes;
	return (tilewright_status)twrt_set_output(c->rt, output, data, size, tilewright_error_slot());
}

static size_t tensor_bytes(const tilewright_tensor *t)
{
	size_t n = (size_t)tilewright_type_bytes(t->type);
	for (int d = 0; d < t->rank; d++)
		n *= (size_t)t->dims[d]; /* the runtime saw that it fits */
	return n;
}

tilewright_status tilewright_infer_output(tilewright_context *c, int output, tilewright_tensor *t)
{
	NEED_CONTEXT(c);
	if (t == NULL)
		return API_FAIL(TW_ERR_USAGE, "the tensor is NULL");
	tilewright_tensor x = {0};
	const enum tw_code code = twrt_infer_output(c->rt, output, &x.rank, x.dims, tilewright_error_slot());
	if (code != TW_ERR_OK)
		return (tilewright_status)code;
	x.type = (tilewright_type)twrt_model_plan(c->model->rt)->outputs[output].type;
	x.bytes = tensor_bytes(&x);
	*t = x;
	return TILEWRIGHT_OK;
}

static bool cancelled(void *arg)
{
	tilewright_context *c = arg;
	return atomic_load_explicit(&c->cancelled, memory_order_relaxed) && atomic_exchange(&c->cancelled, 0);
}

tilewright_status tilewright_run(tilewright_context *c)
{
	NEED_CONTEXT(c);
	return (tilewright_status)twrt_run(c->rt, cancelled, c, tilewright_error_slot());
}

tilewright_status tilewright_prepare(tilewright_context *c)
{
	NEED_CONTEXT(c);
	return (tilewright_status)twrt_prepare(c->rt, tilewright_error_slot());
}

tilewright_status tilewright_get_output(tilewright_context *c, int output, tilewright_tensor *t)
{
	NEED_CONTEXT(c);
	if (t == NULL)
		return API_FAIL(TW_ERR_USAGE, "the tensor is NULL");
	tilewright_tensor x = {0};
	enum twrt_type type;
	const enum tw_code code = twrt_output(c->rt, output, &type, &x.rank, x.dims, &x.data, tilewright_error_slot());
	if (code != TW_ERR_OK)
		return (tilewright_status)code;
	x.type = (tilewright_type)type;
	x.bytes = tensor_bytes(&x);
	*t = x;
	return TILEWRIGHT_OK;
}

void tilewright_cancel(tilewright_context *c)
{
	if (c)
		atomic_store(&c->cancelled, 1);
}

int64_t tilewright_get_arena_bytes(const tilewright_context *c)
{
	return c ? twrt_context_arena_bytes(c->rt) : 0;
}

tilewright_status tilewright_set_profile(tilewright_context *c, int on)
{
	NEED_CONTEXT(c);
	twrt_context_profile(c->rt, on != 0);
	return TILEWRIGHT_OK;
}

tilewright_status tilewright_get_step_time(const tilewright_context *c, int step, double *ms, int64_t *runs)
{
	NEED_CONTEXT(c);
	if (step < 0 || step >= tilewright_count_steps(c->model) || ms == NULL || runs == NULL)
		return API_FAIL(TW_ERR_USAGE, "there is no step %d", step);
	*ms = twrt_context_times(c->rt)[step].ms;
	*runs = twrt_context_times(c->rt)[step].runs;
	return TILEWRIGHT_OK;
}

tilewright_status tilewright_get_step_cost(const tilewright_context *c, int step, tilewright_cost *out)
{
	NEED_CONTEXT(c);
	if (step < 0 || step >= tilewright_count_steps(c->model) || out == NULL)
		return API_FAIL(TW_ERR_USAGE, "there is no step %d", step);
	struct twrt_cost cost;
	twrt_context_cost(c->rt, step, &cost);
	*out = (tilewright_cost){cost.ops, cost.bytes, twrt_context_times(c->rt)[step].least, cost.nextents, {0}};
	for (int i = 0; i < cost.nextents; i++)
		out->extents[i] = cost.extents[i];
	return TILEWRIGHT_OK;
}
