/* Checks a plan: whatever the sizes of a run, nothing in it can lead outside what it owns. (Kernels are trusted; the
 * image's checksum stands for them.) Input: a decoded or hand-built plan; output: TW_ERR_OK, or TW_ERR_MODEL with what
 * is wrong. */
#include "rt_int.h"

#include <stdlib.h>

#define NEED(cond, ...)                                                                                                \
	do {                                                                                                           \
		if (!(cond))                                                                                           \
			return TWRT_FAIL(e, TW_ERR_MODEL, __VA_ARGS__);                                                \
	} while (0)

int twrt_buffer_root(const struct twrt_plan *p, int buffer)
{
	while (p->buffers[buffer].kind == TWRT_ALIAS)
		buffer = p->buffers[buffer].of;
	return buffer;
}

static enum tw_code check_buffers(const struct twrt_plan *p, bool under_construction, struct tw_error *e)
{
	for (int i = 0; i < p->nbuffers; i++) {
		const struct twrt_buffer *b = &p->buffers[i];
		NEED(b->kind >= TWRT_INPUT && b->kind <= TWRT_ALIAS, "buffer %d: unknown kind %d", i, (int)b->kind);
		NEED(under_construction || b->kind != TWRT_FOLDED,
		     "buffer %d is written by a set-up step that never ran", i);
		NEED(twrt_expr_valid(&b->bytes, p->nsymbols), "buffer %d: bad size expression", i);
		if (b->kind == TWRT_CONST)
			NEED(b->const_bytes >= 0 && (b->data || b->const_bytes == 0),
			     "buffer %d: constant without data", i);
		if (b->kind != TWRT_ALIAS)
			continue;
		NEED(twrt_expr_valid(&b->offset, p->nsymbols), "buffer %d: bad offset expression", i);
		int hops = 0;
		for (int k = i; p->buffers[k].kind == TWRT_ALIAS; k = p->buffers[k].of)
			NEED(p->buffers[k].of >= 0 && p->buffers[k].of < p->nbuffers && ++hops <= 64,
			     "buffer %d: alias of nothing", i);
	}
	return TW_ERR_OK;
}

static enum tw_code check_io(const struct twrt_plan *p, const struct twrt_io *io, const char *what, int i,
			     struct tw_error *e)
{
	NEED(twrt_type_bytes(io->type) > 0, "%s %d: element type %d is not supported", what, i, (int)io->type);
	NEED(io->rank >= 0 && io->rank <= TWRT_MAX_RANK, "%s %d: rank %d", what, i, io->rank);
	for (int d = 0; d < io->rank; d++)
		NEED(twrt_expr_valid(&io->dims[d], p->nsymbols), "%s %d: bad size expression", what, i);
	return TW_ERR_OK;
}

static enum tw_code check_ios(const struct twrt_plan *p, struct tw_error *e)
{
	for (int i = 0; i < p->ninputs; i++) {
		TWRT_TRY(check_io(p, &p->inputs[i], "input", i, e));
		const int b = p->inputs[i].buffer;
		NEED(p->inputs[i].name && b >= -1 && b < p->nbuffers, "input %d: no name or no buffer", i);
		if (b < 0)
			continue; /* an input that nothing reads */
		NEED(p->buffers[b].kind == TWRT_INPUT, "input %d: its buffer is of another kind", i);
		for (int k = 0; k < i; k++)
			NEED(p->inputs[k].buffer != b, "inputs %d and %d share a buffer", k, i);
	}
	for (int i = 0; i < p->noutputs; i++) {
		TWRT_TRY(check_io(p, &p->outputs[i], "output", i, e));
		NEED(p->outputs[i].name && p->outputs[i].buffer >= 0 && p->outputs[i].buffer < p->nbuffers,
		     "output %d: no name or no buffer", i);
	}
	/* Each input and output buffer must belong to somebody, or it would have no address. */
	for (int b = 0; b < p->nbuffers; b++) {
		const enum twrt_buffer_kind kind = p->buffers[b].kind;
		bool found = kind != TWRT_INPUT && kind != TWRT_OUTPUT;
		for (int i = 0; kind == TWRT_INPUT && i < p->ninputs; i++)
			found |= p->inputs[i].buffer == b;
		for (int i = 0; kind == TWRT_OUTPUT && i < p->noutputs; i++)
			found |= p->outputs[i].buffer == b;
		NEED(found, "buffer %d belongs to no input or output", b);
	}
	return TW_ERR_OK;
}

static bool bound_valid(const struct twrt_plan *p, int symbol)
{
	const struct twrt_expr *x = &p->sources[symbol].most;
	if (!twrt_expr_valid(x, p->nsymbols))
		return false;
	for (int i = 0; i < x->n; i += 1 + (x->code[i] == TWRT_PUSH || x->code[i] == TWRT_SYM))
		if (x->code[i] == TWRT_SYM && x->code[i + 1] >= symbol && p->sources[x->code[i + 1]].input < 0)
			return false;
	return true;
}

static enum tw_code check_symbols(const struct twrt_plan *p, struct tw_error *e)
{
	for (int i = 0; i < p->nsymbols; i++) {
		const struct twrt_source *s = &p->sources[i];
		NEED(p->symbols[i], "symbol %d has no name", i);
		if (s->input == -1) {
			NEED(bound_valid(p, i), "symbol %s has no proper bound", p->symbols[i]);
			continue;
		}
		NEED(s->input >= 0 && s->input < p->ninputs && s->dim < p->inputs[s->input].rank,
		     "symbol %s comes from nowhere", p->symbols[i]);
		NEED(s->dim >= 0 || p->inputs[s->input].type == TWRT_I32 || p->inputs[s->input].type == TWRT_I64,
		     "symbol %s is the value of something else than an integer", p->symbols[i]);
	}
	for (int i = 0; i < p->nchecks; i++)
		NEED(p->checks[i].text && twrt_expr_valid(&p->checks[i].cond, p->nsymbols), "check %d: bad expression",
		     i);
	for (int i = 0; i < p->nmeta; i++)
		NEED(p->meta_keys[i] && p->meta_values[i], "fact %d is empty", i);
	for (int i = 0; i < p->nkernels; i++)
		NEED(p->kernels[i], "kernel %d has no name", i);
	return TW_ERR_OK;
}

/* Jumps stay inside the plan, a loop's ends know each other, and only symbols that data decides are set. */
static enum tw_code check_flow(const struct twrt_plan *p, int i, struct tw_error *e)
{
	const struct twrt_step *s = &p->steps[i];
	const int64_t to = (int64_t)i + s->to;
	NEED(i >= p->nsetup, "step %d: the set-up has no flow", i);
	const int leading = s->kind == TWRT_LOOP ? 2 : s->kind == TWRT_SET ? 0 : 1;
	const bool pairs = s->kind == TWRT_NEXT && s->nbuffers % 2 == 1;
	NEED((s->nbuffers == leading || pairs) && s->nout == 0, "step %d: a flow step of %d buffers", i, s->nbuffers);
	for (int k = leading; k < s->nbuffers; k++) {
		const int b = s->buffers[k];
		NEED(b >= 0 && p->buffers[b].kind == TWRT_TEMP, "step %d: buffer %d cannot change places", i, b);
		for (int j = 0; j < p->nbuffers; j++)
			NEED(p->buffers[j].kind != TWRT_ALIAS || p->buffers[j].of != b,
			     "step %d: a part of buffer %d stays behind", i, b);
		for (int j = leading; j < k; j++)
			NEED(s->buffers[j] != b, "step %d: buffer %d changes places twice", i, b);
	}
	NEED(s->kind == TWRT_SET || (to >= p->nsetup && to <= p->nsteps), "step %d leads out of the plan", i);
	if (s->kind == TWRT_SKIP) {
		NEED(s->to > 0, "step %d skips backwards", i);
		return TW_ERR_OK;
	}
	NEED(s->kind == TWRT_NEXT || s->nsymbols == 1, "step %d: without a value", i);
	NEED(s->symbol < p->nsymbols && s->symbol >= (s->kind == TWRT_NEXT ? -1 : 0) &&
		     (s->symbol < 0 || p->sources[s->symbol].input < 0),
	     "step %d sets symbol %d, which is not its to set", i, s->symbol);
	if (s->kind == TWRT_LOOP)
		NEED(s->to > 0 && to < p->nsteps && p->steps[to].kind == TWRT_NEXT && p->steps[to].to == -s->to,
		     "step %d: a loop without an end", i);
	if (s->kind == TWRT_NEXT)
		NEED(s->to < 0 && p->steps[to].kind == TWRT_LOOP && p->steps[to].to == -s->to,
		     "step %d: a loop without a beginning", i);
	return TW_ERR_OK;
}

static enum tw_code check_step(const struct twrt_plan *p, int i, bool *written, struct tw_error *e)
{
	const struct twrt_step *s = &p->steps[i];
	NEED(s->kind >= TWRT_KERNEL && s->kind <= TWRT_SET, "step %d: unknown kind %d", i, (int)s->kind);
	NEED(s->nbuffers >= 0 && s->nout >= 0 && s->nout <= s->nbuffers, "step %d: %d of %d buffers written", i,
	     s->nout, s->nbuffers);
	NEED(twrt_expr_valid(&s->cores, p->nsymbols) && twrt_expr_valid(&s->scratch, p->nsymbols),
	     "step %d: bad expression", i);
	for (int k = 0; k < s->nsymbols; k++)
		NEED(twrt_expr_valid(&s->symbols[k], p->nsymbols), "step %d: bad expression", i);
	NEED(s->work.n == 0 || twrt_expr_valid(&s->work, p->nsymbols), "step %d: bad expression", i);
	for (int k = 0; k < s->nextents; k++)
		NEED(twrt_expr_valid(&s->extents[k], p->nsymbols), "step %d: bad expression", i);
	const int nin = s->nbuffers - s->nout;
	for (int k = 0; k < s->nbuffers; k++) {
		const int b = s->buffers[k];
		NEED(b >= -1 && b < p->nbuffers, "step %d: no buffer %d", i, b);
		if (b < 0)
			continue;
		const int root = twrt_buffer_root(p, b);
		const enum twrt_buffer_kind kind = p->buffers[root].kind;
		if (k < nin)
			NEED(written[root] || kind == TWRT_INPUT || kind == TWRT_CONST,
			     "step %d reads buffer %d before anything is written there", i, b);
		else
			NEED(kind == TWRT_TEMP || kind == TWRT_OUTPUT || (kind == TWRT_FOLDED && i < p->nsetup),
			     "step %d writes buffer %d, which is read-only", i, b);
		NEED(i >= p->nsetup || kind == TWRT_CONST || kind == TWRT_FOLDED || kind == TWRT_TEMP,
		     "set-up step %d needs an input or output", i);
	}
	for (int k = nin; k < s->nbuffers; k++)
		if (s->buffers[k] >= 0)
			written[twrt_buffer_root(p, s->buffers[k])] = true;
	for (int k = 0; s->inplace && k < s->nout; k++)
		NEED(s->inplace[k] >= -1 && s->inplace[k] < nin, "step %d: takes over input %d of %d", i, s->inplace[k],
		     nin);
	if (s->kind == TWRT_KERNEL)
		NEED(s->kernel >= 0 && s->kernel < p->nkernels, "step %d: no kernel %d", i, s->kernel);
	if (s->kind == TWRT_COPY)
		NEED(s->nbuffers == 2 && s->nout == 1 && s->buffers[0] >= 0 && s->buffers[1] >= 0,
		     "step %d: a copy has one source and one target", i);
	if (s->kind >= TWRT_LOOP)
		TWRT_TRY(check_flow(p, i, e));
	if (s->kind == TWRT_HOST) {
		NEED(s->host && s->host_io && s->host_attrs_bytes >= 0, "step %d: host operator without name or types",
		     i);
		if (twrt_host_find(s->host) == NULL)
			return TWRT_FAIL(e, TW_ERR_UNSUPPORTED, "this version has no host operator \"%s\"", s->host);
		for (int k = 0; k < s->nbuffers; k++)
			if (s->buffers[k] >= 0)
				TWRT_TRY(check_io(p, &s->host_io[k], "host operator's operand", k, e));
	}
	return TW_ERR_OK;
}

enum tw_code twrt_plan_validate(const struct twrt_plan *p, bool under_construction, struct tw_error *e)
{
	NEED(p->nsetup >= 0 && p->nsetup <= p->nsteps && (under_construction || p->nsetup == 0), "%d set-up steps",
	     p->nsetup);
	TWRT_TRY(check_symbols(p, e));
	TWRT_TRY(check_buffers(p, under_construction, e));
	TWRT_TRY(check_ios(p, e));
	bool *written = calloc((size_t)p->nbuffers + 1, 1);
	if (written == NULL)
		return TWRT_FAIL(e, TW_ERR_MEMORY, "no memory to check the plan");
	enum tw_code code = TW_ERR_OK;
	for (int i = 0; code == TW_ERR_OK && i < p->nsteps; i++)
		code = check_step(p, i, written, e);
	for (int i = 0; code == TW_ERR_OK && i < p->noutputs; i++) {
		const int root = twrt_buffer_root(p, p->outputs[i].buffer);
		const enum twrt_buffer_kind kind = p->buffers[root].kind;
		if (!written[root] && kind != TWRT_INPUT && kind != TWRT_CONST && kind != TWRT_FOLDED)
			code = TWRT_FAIL(e, TW_ERR_MODEL, "output %s is never written", p->outputs[i].name);
	}
	free(written);
	return code;
}
