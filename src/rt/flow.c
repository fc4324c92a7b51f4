/* Flow steps of a run: loops, skips, sizes that a branch or a loop decides. Input: a context at a flow step; output:
 * the step to go on with. An iteration allocates nothing: its number is a symbol that data decides, so that only the
 * numbers of the loop's own steps are taken anew, and memory was planned with room for all iterations. */
#include "rt_int.h"

static enum tw_code condition(const struct twrt_context *c, int b, bool *holds, struct tw_error *e)
{
	*holds = true;
	if (b < 0)
		return TW_ERR_OK;
	if (c->current->bytes[b] < 1)
		return TWRT_FAIL(e, TW_ERR_INPUT, "a condition without an element");
	*holds = *(const char *)c->address[b] != 0;
	return TW_ERR_OK;
}

/* Sizes that operators of the loop decide are open again. */
static void open_sizes(struct twrt_context *c, int begin, int end)
{
	const struct twrt_plan *p = &c->model->plan;
	for (int i = begin + 1; i < end; i++) {
		const struct twrt_step *s = &p->steps[i];
		if (s->kind >= TWRT_LOOP && s->kind != TWRT_SKIP && s->symbol >= 0)
			c->symbols[s->symbol] = c->bounds[s->symbol];
		for (int k = s->nbuffers - s->nout; s->kind == TWRT_HOST && k < s->nbuffers; k++)
			for (int d = 0; s->buffers[k] >= 0 && d < s->host_io[k].rank; d++) {
				const struct twrt_expr *x = &s->host_io[k].dims[d];
				if (x->n == 2 && x->code[0] == TWRT_SYM && p->sources[x->code[1]].input < 0)
					c->symbols[x->code[1]] = c->bounds[x->code[1]];
			}
	}
}

static enum tw_code iterate(struct twrt_context *c, int begin, int64_t number, struct tw_error *e)
{
	const struct twrt_plan *p = &c->model->plan;
	const int end = begin + p->steps[begin].to;
	if (number > c->bounds[p->steps[begin].symbol])
		return TWRT_FAIL(e, TW_ERR_INPUT, "%s: more iterations than memory was planned for",
				 p->steps[begin].label ? p->steps[begin].label : "a loop");
	c->turned = number % 2 != 0;
	open_sizes(c, begin, end);
	c->symbols[p->steps[begin].symbol] = number;
	TWRT_TRY(twrt_memplan_update_steps(p, c->symbols, c->current, begin, end + 1, e));
	for (int i = begin; i <= end; i++)
		for (int k = 0; k < p->steps[i].nbuffers; k++) {
			const int b = p->steps[i].buffers[k];
			if (b >= 0 && p->buffers[b].kind == TWRT_ALIAS)
				c->address[b] = (char *)c->address[twrt_buffer_root(p, b)] + c->current->offset[b];
		}
	return TW_ERR_OK;
}

static enum tw_code leave(struct twrt_context *c, int end, int64_t ran, bool *sizes, struct tw_error *e)
{
	const int symbol = c->model->plan.steps[end].symbol;
	c->turned = false;
	if (symbol < 0)
		return TW_ERR_OK;
	if (ran > c->bounds[symbol])
		return TWRT_FAIL(e, TW_ERR_INTERNAL, "a loop ran more often than its bound");
	*sizes = c->symbols[symbol] != ran;
	c->symbols[symbol] = ran;
	return TW_ERR_OK;
}

static enum tw_code enter(struct twrt_context *c, int *at, bool *sizes, struct tw_error *e)
{
	const struct twrt_step *s = &c->model->plan.steps[*at];
	bool bad = false, holds;
	int64_t trips = twrt_expr_eval(&s->symbols[0], c->symbols, &bad);
	if (bad)
		return TWRT_FAIL(e, TW_ERR_INPUT, "a loop's count does not fit in 64 bits");
	if (s->buffers[0] >= 0) {
		int64_t count;
		if (c->current->bytes[s->buffers[0]] < (int64_t)sizeof(count))
			return TWRT_FAIL(e, TW_ERR_INPUT, "a loop's count without an element");
		memcpy(&count, c->address[s->buffers[0]], sizeof(count));
		trips = count < trips ? count : trips;
	}
	TWRT_TRY(condition(c, s->buffers[1], &holds, e));
	if (trips <= 0 || !holds) {
		const int end = *at + s->to;
		*at = end + 1;
		return leave(c, end, 0, sizes, e);
	}
	c->trips[*at] = trips;
	TWRT_TRY(iterate(c, *at, 0, e));
	++*at;
	return TW_ERR_OK;
}

/* What this iteration made is what the next one finds. The places are the memory plan's: they stay so. */
static enum tw_code change_places(struct twrt_context *c, const struct twrt_step *s, struct tw_error *e)
{
	for (int k = 1; k + 1 < s->nbuffers; k += 2) {
		const int a = s->buffers[k], b = s->buffers[k + 1];
		if (c->current->bytes[a] != c->current->bytes[b])
			return TWRT_FAIL(e, TW_ERR_INPUT, "a value of a loop changes its size");
		const int64_t offset = c->current->offset[a];
		void *const address = c->address[a];
		c->current->offset[a] = c->current->offset[b];
		c->current->offset[b] = offset;
		c->address[a] = c->address[b];
		c->address[b] = address;
	}
	return TW_ERR_OK;
}

static enum tw_code next(struct twrt_context *c, int *at, bool *sizes, struct tw_error *e)
{
	const struct twrt_step *s = &c->model->plan.steps[*at];
	const int begin = *at + s->to;
	const int64_t ran = c->symbols[c->model->plan.steps[begin].symbol] + 1;
	bool holds;
	TWRT_TRY(condition(c, s->buffers[0], &holds, e));
	TWRT_TRY(change_places(c, s, e));
	if (ran < c->trips[begin] && holds) {
		*at = begin + 1;
		return iterate(c, begin, ran, e);
	}
	const int end = *at;
	++*at;
	return leave(c, end, ran, sizes, e);
}

enum tw_code twrt_flow_step(struct twrt_context *c, int *at, bool *sizes, struct tw_error *e)
{
	const struct twrt_step *s = &c->model->plan.steps[*at];
	bool bad = false, holds;
	switch (s->kind) {
	case TWRT_LOOP:
		return enter(c, at, sizes, e);
	case TWRT_NEXT:
		return next(c, at, sizes, e);
	case TWRT_SKIP:
		holds = false;
		if (s->buffers[0] >= 0)
			TWRT_TRY(condition(c, s->buffers[0], &holds, e));
		*at += holds ? 1 : s->to;
		return TW_ERR_OK;
	default:
		break;
	}
	const int64_t value = twrt_expr_eval(&s->symbols[0], c->symbols, &bad);
	if (bad || value < 0 || value > c->bounds[s->symbol])
		return TWRT_FAIL(e, TW_ERR_MODEL, "a size that a branch decides is beyond its bound");
	*sizes = c->symbols[s->symbol] != value;
	c->symbols[s->symbol] = value;
	++*at;
	return TW_ERR_OK;
}
