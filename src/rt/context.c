/* A context: one run at a time of a model. Input: tensors; output: tensors. Binds symbols from the inputs' sizes,
 * checks every size, finds or makes the memory plan for them, and runs the steps. A run whose sizes were seen
 * allocates nothing. Several contexts may run at once on one model: each owns its arena and scratch. */
#include "rt_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum tw_code twrt_context_new(struct twrt_model *m, int threads, struct twrt_context **out, struct tw_error *e)
{
	const struct twrt_plan *p = &m->plan;
	*out = NULL;
	struct twrt_context *c = calloc(1, sizeof(*c));
	if (c == NULL)
		return TWRT_FAIL(e, TW_ERR_MEMORY, "no memory for a context");
	int most = 2;
	for (int i = 0; i < p->nsteps; i++)
		most = p->steps[i].nbuffers > most ? p->steps[i].nbuffers : most;
	*c = (struct twrt_context){.model = m, .pool = twrt_pool_get(threads), .running = ATOMIC_FLAG_INIT};
	for (int i = 0; i < p->nsymbols; i++)
		c->data_symbols |= p->sources[i].input < 0;
	c->inputs = calloc((size_t)p->ninputs + 1, sizeof(*c->inputs));
	c->outputs = calloc((size_t)p->noutputs + 1, sizeof(*c->outputs));
	c->symbols = calloc((size_t)p->nsymbols + 1, sizeof(*c->symbols));
	c->bounds = calloc((size_t)p->nsymbols + 1, sizeof(*c->bounds));
	c->grown = calloc((size_t)p->nsymbols + 1, sizeof(*c->grown));
	c->trips = calloc((size_t)p->nsteps + 1, sizeof(*c->trips));
	c->address = calloc((size_t)p->nbuffers + 1, sizeof(*c->address));
	c->arguments = calloc((size_t)most, sizeof(*c->arguments));
	c->argument_bytes = calloc((size_t)most, sizeof(*c->argument_bytes));
	c->times = calloc((size_t)p->nsteps + 1, sizeof(*c->times));
	if (!c->pool || !c->inputs || !c->outputs || !c->symbols || !c->bounds || !c->grown || !c->trips ||
	    !c->address || !c->arguments || !c->argument_bytes || !c->times) {
		twrt_context_free(c);
		return TWRT_FAIL(e, TW_ERR_MEMORY, "no memory for a context");
	}
	*out = c;
	return TW_ERR_OK;
}

void twrt_context_free(struct twrt_context *c)
{
	if (c == NULL)
		return;
	for (int i = 0; i < TWRT_PLANS; i++)
		twrt_memplan_free(c->plans[i]);
	for (int i = 0; c->outputs && i < c->model->plan.noutputs; i++)
		free(c->outputs[i].own);
	twrt_pool_put(c->pool);
	free(c->inputs);
	free(c->outputs);
	free(c->symbols);
	free(c->bounds);
	free(c->grown);
	free(c->trips);
	free(c->address);
	free(c->arguments);
	free(c->argument_bytes);
	free(c->times);
	free(c->arena);
	free(c->scratch.at);
	free(c);
}

enum tw_code twrt_set_input(struct twrt_context *c, int i, enum twrt_type type, int rank, const int64_t *dims,
			    const void *data, struct tw_error *e)
{
	const struct twrt_plan *p = &c->model->plan;
	if (i < 0 || i >= p->ninputs)
		return TWRT_FAIL(e, TW_ERR_USAGE, "there is no input %d: the model has %d", i, p->ninputs);
	const struct twrt_io *io = &p->inputs[i];
	if (type != io->type)
		return TWRT_FAIL(e, TW_ERR_INPUT, "input \"%s\" has type %s; the model wants %s", io->name,
				 twrt_type_name(type), twrt_type_name(io->type));
	if (rank != io->rank)
		return TWRT_FAIL(e, TW_ERR_INPUT, "input \"%s\" has %d dimensions; the model wants %d", io->name, rank,
				 io->rank);
	bool bad = false;
	int64_t bytes = twrt_type_bytes(type);
	for (int d = 0; d < rank; d++) {
		int64_t want;
		if (dims[d] < 0)
			return TWRT_FAIL(e, TW_ERR_INPUT, "input \"%s\": dimension %d is %lld", io->name, d,
					 (long long)dims[d]);
		if (twrt_expr_const(&io->dims[d], &want) && dims[d] != want)
			return TWRT_FAIL(e, TW_ERR_INPUT, "input \"%s\": dimension %d is %lld; the model wants %lld",
					 io->name, d, (long long)dims[d], (long long)want);
		bytes = tw_mul64(bytes, dims[d], &bad);
	}
	if (bad)
		return TWRT_FAIL(e, TW_ERR_INPUT, "input \"%s\" is too large: its size does not fit in 64 bits",
				 io->name);
	if (data == NULL && bytes > 0)
		return TWRT_FAIL(e, TW_ERR_USAGE, "input \"%s\" has no data", io->name);
	if ((uintptr_t)data % (unsigned)twrt_type_bytes(type))
		return TWRT_FAIL(e, TW_ERR_USAGE,
				 "input \"%s\": its address is not a multiple of its element's %d bytes", io->name,
				 twrt_type_bytes(type));
	struct twrt_given *in = &c->inputs[i];
	in->set = true;
	in->data = data;
	if (rank)
		memcpy(in->dims, dims, (size_t)rank * sizeof(*dims));
	return TW_ERR_OK;
}

enum tw_code twrt_set_output(struct twrt_context *c, int i, void *data, int64_t bytes, struct tw_error *e)
{
	const struct twrt_plan *p = &c->model->plan;
	if (i < 0 || i >= p->noutputs)
		return TWRT_FAIL(e, TW_ERR_USAGE, "there is no output %d: the model has %d", i, p->noutputs);
	if (data && bytes < 0)
		return TWRT_FAIL(e, TW_ERR_USAGE, "output \"%s\": a buffer of %lld bytes", p->outputs[i].name,
				 (long long)bytes);
	if ((uintptr_t)data % (unsigned)twrt_type_bytes(p->outputs[i].type))
		return TWRT_FAIL(e, TW_ERR_USAGE,
				 "output \"%s\": its address is not a multiple of its element's %d bytes",
				 p->outputs[i].name, twrt_type_bytes(p->outputs[i].type));
	c->outputs[i].caller = data;
	c->outputs[i].caller_bytes = data ? bytes : 0;
	return TW_ERR_OK;
}

static enum tw_code mismatch(const struct twrt_context *c, int i, int d, int64_t want, struct tw_error *e)
{
	const struct twrt_plan *p = &c->model->plan;
	char text[200];
	twrt_expr_text(&p->inputs[i].dims[d], p->symbols, text, sizeof(text));
	return TWRT_FAIL(e, TW_ERR_INPUT,
			 "input \"%s\": dimension %d is %lld; the model wants %s, which the other sizes make %lld",
			 p->inputs[i].name, d, (long long)c->inputs[i].dims[d], text, (long long)want);
}

/* A symbol that is an element of an integer input. */
static enum tw_code element(const struct twrt_context *c, int i, int64_t index, int64_t *value, struct tw_error *e)
{
	const struct twrt_io *io = &c->model->plan.inputs[i];
	int64_t n = 1;
	for (int d = 0; d < io->rank; d++)
		n *= c->inputs[i].dims[d]; /* set_input saw that it fits */
	if (index >= n)
		return TWRT_FAIL(e, TW_ERR_INPUT, "input \"%s\" has %lld elements; the model needs more", io->name,
				 (long long)n);
	*value = io->type == TWRT_I32 ? ((const int32_t *)c->inputs[i].data)[index]
				      : ((const int64_t *)c->inputs[i].data)[index];
	return TW_ERR_OK;
}

static enum tw_code bind(struct twrt_context *c, struct tw_error *e)
{
	const struct twrt_plan *p = &c->model->plan;
	for (int i = 0; i < p->ninputs; i++)
		if (!c->inputs[i].set)
			return TWRT_FAIL(e, TW_ERR_INPUT, "input \"%s\" was not given", p->inputs[i].name);
	for (int k = 0; k < p->nsymbols; k++) {
		const struct twrt_source *from = &p->sources[k];
		if (from->input >= 0 && from->dim >= 0)
			c->symbols[k] = c->inputs[from->input].dims[from->dim];
		else if (from->input >= 0)
			TWRT_TRY(element(c, from->input, -1 - (int64_t)from->dim, &c->symbols[k], e));
	}
	for (int k = 0; k < p->nsymbols; k++) {
		bool bad = false;
		if (p->sources[k].input >= 0)
			continue;
		c->symbols[k] = twrt_expr_eval(&p->sources[k].most, c->symbols, &bad);
		if (!bad && c->symbols[k] < c->grown[k])
			c->symbols[k] = c->grown[k];
		if (bad || c->symbols[k] < 0)
			return TWRT_FAIL(e, TW_ERR_INPUT,
					 "the sizes of these inputs are too large: a size does not fit in 64 bits");
	}
	for (int i = 0; i < p->ninputs; i++)
		for (int d = 0; d < p->inputs[i].rank; d++) {
			bool bad = false;
			const int64_t want = twrt_expr_eval(&p->inputs[i].dims[d], c->symbols, &bad);
			if (bad || want != c->inputs[i].dims[d])
				return mismatch(c, i, d, want, e);
		}
	memcpy(c->bounds, c->symbols, (size_t)p->nsymbols * sizeof(*c->bounds));
	return TW_ERR_OK;
}

static enum tw_code checks(const struct twrt_context *c, struct tw_error *e)
{
	const struct twrt_plan *p = &c->model->plan;
	for (int i = 0; i < p->nchecks; i++) {
		bool bad = false;
		if (!twrt_expr_eval(&p->checks[i].cond, c->symbols, &bad) || bad)
			return TWRT_FAIL(e, TW_ERR_INPUT, "%s", p->checks[i].text);
	}
	return TW_ERR_OK;
}

static enum tw_code find_plan(struct twrt_context *c, struct tw_error *e)
{
	const struct twrt_plan *p = &c->model->plan;
	const size_t key = (size_t)p->nsymbols * sizeof(*c->symbols);
	int oldest = 0;
	c->clock++;
	for (int i = 0; i < TWRT_PLANS; i++) {
		struct twrt_memplan *m = c->plans[i];
		if (m && (key == 0 || memcmp(m->key, c->symbols, key) == 0)) {
			m->used = c->clock;
			c->current = m;
			return c->data_symbols ? twrt_memplan_update(p, c->symbols, m, e) : TW_ERR_OK;
		}
		if (c->plans[oldest] && (m == NULL || m->used < c->plans[oldest]->used))
			oldest = i;
	}
	TWRT_TRY(checks(c, e));
	struct twrt_memplan *m;
	TWRT_TRY(twrt_memplan_new(p, c->symbols, false, &m, e));
	twrt_memplan_free(c->plans[oldest]);
	c->plans[oldest] = c->current = m;
	m->used = c->clock;
	return TW_ERR_OK;
}

static enum tw_code grow(void **at, int64_t *have, int64_t need, const char *what, struct tw_error *e)
{
	if (need <= *have && *at)
		return TW_ERR_OK;
	free(*at);
	*at = twrt_alloc(need);
	*have = *at ? need : 0;
	if (*at == NULL)
		return TWRT_FAIL(e, TW_ERR_MEMORY, "no memory for %s: %lld MB are needed with these sizes", what,
				 (long long)(need >> 20));
	return TW_ERR_OK;
}

static enum tw_code find_memory(struct twrt_context *c, struct tw_error *e)
{
	const struct twrt_memplan *m = c->current;
	TWRT_TRY(grow((void **)&c->arena, &c->arena_bytes, m->arena_bytes, "intermediate results", e));
	bool bad = false;
	const int64_t stride = tw_add64(m->scratch_bytes, 2 * TWRT_ALIGN - 1, &bad) / TWRT_ALIGN * TWRT_ALIGN;
	const int64_t all = tw_mul64(stride, twrt_pool_threads(c->pool), &bad);
	if (bad)
		return TWRT_FAIL(e, TW_ERR_INPUT,
				 "the sizes of these inputs are too large: a size does not fit in 64 bits");
	if (stride <= c->scratch.stride && c->scratch.at)
		return TW_ERR_OK;
	TWRT_TRY(grow((void **)&c->scratch.at, &c->scratch_bytes, all, "scratch memory of the threads", e));
	c->scratch.stride = stride;
	return TW_ERR_OK;
}

/* Where output i's bytes go while the steps run, when its buffer is an output buffer that it owns. */
static enum tw_code output_address(struct twrt_context *c, int i, void **at, struct tw_error *e)
{
	struct twrt_taken *o = &c->outputs[i];
	const int64_t need = c->current->room[c->model->plan.outputs[i].buffer];
	if (o->caller == NULL) {
		TWRT_TRY(grow(&o->own, &o->own_bytes, need, "an output", e));
		*at = o->own;
		return TW_ERR_OK;
	}
	if (o->caller_bytes < need)
		return TWRT_FAIL(e, TW_ERR_USAGE, "output \"%s\": the buffer given has %lld bytes; %lld are needed",
				 c->model->plan.outputs[i].name, (long long)o->caller_bytes, (long long)need);
	*at = o->caller;
	return TW_ERR_OK;
}

static enum tw_code addresses(struct twrt_context *c, struct tw_error *e)
{
	const struct twrt_plan *p = &c->model->plan;
	for (int b = 0; b < p->nbuffers; b++) {
		c->address[b] = NULL;
		if (p->buffers[b].kind == TWRT_CONST)
			c->address[b] = (void *)(uintptr_t)p->buffers[b].data;
		if (p->buffers[b].kind == TWRT_TEMP)
			c->address[b] = c->arena + c->current->offset[b];
	}
	for (int i = 0; i < p->ninputs; i++) {
		const int b = p->inputs[i].buffer;
		if (b < 0)
			continue;
		int64_t bytes = twrt_type_bytes(p->inputs[i].type);
		for (int d = 0; d < p->inputs[i].rank; d++)
			bytes *= c->inputs[i].dims[d]; /* set_input saw that it fits */
		if (c->current->bytes[b] > bytes)
			return TWRT_FAIL(e, TW_ERR_MODEL, "input \"%s\" is smaller than its buffer", p->inputs[i].name);
		c->address[b] = (void *)(uintptr_t)(c->inputs[i].data ? c->inputs[i].data : c->arena);
	}
	for (int i = 0; i < p->noutputs; i++) {
		const int b = p->outputs[i].buffer;
		if (p->buffers[b].kind == TWRT_OUTPUT && c->address[b] == NULL)
			TWRT_TRY(output_address(c, i, &c->address[b], e));
	}
	for (int b = 0; b < p->nbuffers; b++)
		if (p->buffers[b].kind == TWRT_ALIAS)
			c->address[b] = (char *)c->address[twrt_buffer_root(p, b)] + c->current->offset[b];
	return TW_ERR_OK;
}

static double now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* Other values of symbols that data decides count from here on. */
static enum tw_code update(struct twrt_context *c, struct tw_error *e)
{
	TWRT_TRY(twrt_memplan_update(&c->model->plan, c->symbols, c->current, e));
	return addresses(c, e);
}

/* A power of two, so that a few runs of growing sizes find the largest. */
static void grow_bound(struct twrt_context *c, int symbol, int64_t need)
{
	int64_t room = 1;
	while (room < need && room < INT64_MAX / 2)
		room *= 2;
	c->grown[symbol] = room;
	c->again = true;
}

/* Sizes that a host operator found: from here on they count. */
static enum tw_code take_sizes(struct twrt_context *c, int i, struct tw_error *e)
{
	const struct twrt_plan *p = &c->model->plan;
	const struct twrt_step *s = &p->steps[i];
	bool changed = false;
	for (int k = s->nbuffers - s->nout; k < s->nbuffers; k++) {
		const struct twrt_host_tensor *t = &c->current->steps[i].tensors[k];
		for (int d = 0; t->present && d < t->rank; d++) {
			const struct twrt_expr *x = &s->host_io[k].dims[d];
			const int64_t symbol = x->n == 2 && x->code[0] == TWRT_SYM ? x->code[1] : -1;
			if (symbol < 0 || p->sources[symbol].input >= 0 || c->symbols[symbol] == t->dims[d])
				continue;
			if (t->dims[d] > c->bounds[symbol] && twrt_host_find(s->host)->grows) {
				grow_bound(c, (int)symbol, t->dims[d]);
				return TW_ERR_OK;
			}
			if (t->dims[d] < 0 || t->dims[d] > c->bounds[symbol])
				return TWRT_FAIL(e, TW_ERR_INTERNAL, "host operator %s made more than its bound",
						 s->host);
			c->symbols[symbol] = t->dims[d];
			changed = true;
		}
	}
	return changed ? update(c, e) : TW_ERR_OK;
}

static enum tw_code run_step(struct twrt_context *c, int i, struct tw_error *e)
{
	const struct twrt_step *s = &c->model->plan.steps[i];
	for (int k = 0; k < s->nbuffers; k++) {
		const int b = s->buffers[k];
		c->arguments[k] = b < 0 ? NULL : c->address[b];
		c->argument_bytes[k] = b < 0 ? 0 : c->current->bytes[b];
	}
	const double start = c->profile ? now_ms() : 0;
	const enum tw_code code = twrt_step_run(s, &c->current->steps[i], c->model->code.kernels, c->arguments,
						c->argument_bytes, c->pool, &c->scratch, c->turned, e);
	if (c->profile) {
		const double ms = now_ms() - start;
		c->times[i].ms += ms;
		if (c->times[i].runs++ == 0 || ms < c->times[i].least)
			c->times[i].least = ms;
	}
	if (code == TW_ERR_OK && s->kind == TWRT_HOST && c->data_symbols)
		return take_sizes(c, i, e);
	return code;
}

/* Outputs that are part of something else, or named twice: the caller's buffer gets a copy. */
static enum tw_code finish(struct twrt_context *c, struct tw_error *e)
{
	const struct twrt_plan *p = &c->model->plan;
	for (int i = 0; i < p->noutputs; i++) {
		struct twrt_taken *o = &c->outputs[i];
		const int b = p->outputs[i].buffer;
		o->result = c->address[b];
		if (o->caller == NULL || o->caller == o->result)
			continue;
		void *at;
		TWRT_TRY(output_address(c, i, &at, e));
		memmove(at, o->result, (size_t)c->current->bytes[b]);
		o->result = at;
	}
	return TW_ERR_OK;
}

static enum tw_code prepare(struct twrt_context *c, struct tw_error *e)
{
	c->done = false;
	TWRT_TRY(bind(c, e));
	TWRT_TRY(find_plan(c, e));
	TWRT_TRY(find_memory(c, e));
	return addresses(c, e);
}

enum tw_code twrt_prepare(struct twrt_context *c, struct tw_error *e)
{
	if (atomic_flag_test_and_set(&c->running))
		return TWRT_FAIL(e, TW_ERR_USAGE, "this context is running");
	const enum tw_code code = prepare(c, e);
	atomic_flag_clear(&c->running);
	return code;
}

static enum tw_code run_steps(struct twrt_context *c, bool (*cancel)(void *arg), void *arg, struct tw_error *e)
{
	for (int i = 0; i < c->model->plan.nsteps && !c->again;) {
		if (cancel && cancel(arg))
			return TWRT_FAIL(e, TW_ERR_CANCELLED, "the run was cancelled");
		if (c->model->plan.steps[i].kind >= TWRT_LOOP) {
			bool sizes = false;
			TWRT_TRY(twrt_flow_step(c, &i, &sizes, e));
			if (sizes)
				TWRT_TRY(update(c, e));
			continue;
		}
		TWRT_TRY(run_step(c, i, e));
		i++;
	}
	return TW_ERR_OK;
}

static enum tw_code run(struct twrt_context *c, bool (*cancel)(void *arg), void *arg, struct tw_error *e)
{
	do {
		c->again = false;
		const enum tw_code code = prepare(c, e);
		if (code != TW_ERR_OK) { /* perhaps for what one run asked for: the next may ask for less */
			memset(c->grown, 0, (size_t)c->model->plan.nsymbols * sizeof(*c->grown));
			return code;
		}
		TWRT_TRY(run_steps(c, cancel, arg, e));
	} while (c->again);
	TWRT_TRY(finish(c, e));
	c->done = true;
	return TW_ERR_OK;
}

enum tw_code twrt_run(struct twrt_context *c, bool (*cancel)(void *arg), void *arg, struct tw_error *e)
{
	if (atomic_flag_test_and_set(&c->running))
		return TWRT_FAIL(e, TW_ERR_USAGE,
				 "this context is running already; other threads need contexts of their own");
	twrt_pool_begin(c->pool);
	c->turned = false;
	const enum tw_code code = run(c, cancel, arg, e);
	twrt_pool_end(c->pool);
	atomic_flag_clear(&c->running);
	return code;
}

enum tw_code twrt_output(struct twrt_context *c, int i, enum twrt_type *type, int *rank, int64_t *dims,
			 const void **data, struct tw_error *e)
{
	const struct twrt_plan *p = &c->model->plan;
	if (i < 0 || i >= p->noutputs)
		return TWRT_FAIL(e, TW_ERR_USAGE, "there is no output %d: the model has %d", i, p->noutputs);
	if (!c->done)
		return TWRT_FAIL(e, TW_ERR_USAGE, "there are no outputs before a run that succeeded");
	*type = p->outputs[i].type;
	*rank = p->outputs[i].rank;
	memcpy(dims, c->current->output_dims + (int64_t)i * TWRT_MAX_RANK, (size_t)*rank * sizeof(*dims));
	*data = c->outputs[i].result;
	return TW_ERR_OK;
}

enum tw_code twrt_infer_output(struct twrt_context *c, int i, int *rank, int64_t *dims, struct tw_error *e)
{
	const struct twrt_plan *p = &c->model->plan;
	if (i < 0 || i >= p->noutputs)
		return TWRT_FAIL(e, TW_ERR_USAGE, "there is no output %d: the model has %d", i, p->noutputs);
	TWRT_TRY(bind(c, e));
	TWRT_TRY(checks(c, e));
	bool bad = false;
	*rank = p->outputs[i].rank;
	for (int d = 0; d < *rank; d++)
		dims[d] = twrt_expr_eval(&p->outputs[i].dims[d], c->symbols, &bad);
	if (bad)
		return TWRT_FAIL(e, TW_ERR_INPUT,
				 "the sizes of these inputs are too large: a size does not fit in 64 bits");
	return TW_ERR_OK;
}

int64_t twrt_context_arena_bytes(const struct twrt_context *c)
{
	return c->arena_bytes;
}

int twrt_context_threads(const struct twrt_context *c)
{
	return twrt_pool_threads(c->pool);
}

void twrt_context_profile(struct twrt_context *c, bool on)
{
	c->profile = on;
	if (on)
		memset(c->times, 0, (size_t)c->model->plan.nsteps * sizeof(*c->times));
}

const struct twrt_profile *twrt_context_times(const struct twrt_context *c)
{
	return c->times;
}

void twrt_context_cost(const struct twrt_context *c, int step, struct twrt_cost *out)
{
	const struct twrt_step *s = &c->model->plan.steps[step];
	bool bad = false;
	*out = (struct twrt_cost){0};
	for (int i = 0; c->current && i < s->nbuffers; i++)
		if (s->buffers[i] >= 0)
			out->bytes += (double)c->current->bytes[s->buffers[i]];
	out->ops = s->work.n > 0 ? (double)twrt_expr_eval(&s->work, c->symbols, &bad) : 0;
	if (bad)
		out->ops = 0;
	for (int i = 0; i < s->nextents && i < TWRT_MOST_EXTENTS; i++) {
		out->extents[i] = twrt_expr_eval(&s->extents[i], c->symbols, &bad);
		out->nextents = i + 1;
	}
}
