/* The memory plan of a run: for one set of symbol values, the size of every buffer, where temporaries lie in the
 * arena, and the numbers each step needs. Input: a validated plan, symbol values; output: a twrt_memplan, kept by the
 * context for as long as these sizes come back.
 *
 * A temporary lives from the step that first writes it to the last that uses it or an alias of it; one that an output
 * is made of lives to the end. Where a step may compute in place and its input dies there, the output takes over the
 * input's bytes. */
#include "rt_int.h"

#include <stdlib.h>

struct planner {
	const struct twrt_plan *p;
	const int64_t *symbols;
	bool setup;
	int to; /* steps 0..to-1 */
	struct twrt_memplan *m;
	/* by buffer; meaningful for the roots of kind TWRT_TEMP */
	int *first, *last;
	int *slot;  /* the buffer whose bytes it shares: itself, or what it took over */
	int *taken; /* by slot: the last step at which something took it over, -1 */
	struct tw_error *e;
};

static enum tw_code overflow(struct tw_error *e)
{
	return TWRT_FAIL(e, TW_ERR_INPUT, "the sizes of these inputs are too large: a size does not fit in 64 bits");
}

static void use(struct planner *s, int buffer, int step)
{
	if (buffer < 0)
		return;
	const int root = twrt_buffer_root(s->p, buffer);
	if (s->first[root] < 0)
		s->first[root] = step;
	s->last[root] = step;
}

static void liveness(struct planner *s)
{
	const struct twrt_plan *p = s->p;
	for (int b = 0; b < p->nbuffers; b++) {
		s->first[b] = s->last[b] = s->taken[b] = -1;
		s->slot[b] = b;
	}
	for (int i = 0; i < s->to; i++)
		for (int k = 0; k < p->steps[i].nbuffers; k++)
			use(s, p->steps[i].buffers[k], i);
	if (!s->setup)
		for (int i = 0; i < p->noutputs; i++)
			use(s, p->outputs[i].buffer, s->to);
}

static bool in_use(const struct planner *s, int buffer)
{
	return !s->setup || s->first[twrt_buffer_root(s->p, buffer)] >= 0;
}

static enum tw_code sizes(struct planner *s)
{
	const struct twrt_plan *p = s->p;
	bool bad = false;
	for (int b = 0; b < p->nbuffers; b++) {
		const struct twrt_buffer *buf = &p->buffers[b];
		if (!in_use(s, b))
			continue;
		s->m->bytes[b] =
			buf->kind == TWRT_CONST ? buf->const_bytes : twrt_expr_eval(&buf->bytes, s->symbols, &bad);
		if (bad)
			return overflow(s->e);
		if (s->m->bytes[b] < 0)
			return TWRT_FAIL(s->e, TW_ERR_INPUT, "these input sizes give a tensor a negative size");
	}
	for (int b = 0; b < p->nbuffers; b++) {
		int64_t offset = 0;
		if (!in_use(s, b))
			continue;
		for (int k = b; p->buffers[k].kind == TWRT_ALIAS; k = p->buffers[k].of) {
			const int64_t at = twrt_expr_eval(&p->buffers[k].offset, s->symbols, &bad);
			const int64_t end = tw_add64(at, s->m->bytes[k], &bad);
			if (bad || at < 0 || end > s->m->bytes[p->buffers[k].of])
				return TWRT_FAIL(s->e, TW_ERR_MODEL,
						 "buffer %d lies outside the buffer it is a part of", k);
			offset += at;
		}
		if (p->buffers[b].kind == TWRT_ALIAS)
			s->m->offset[b] = offset;
	}
	return TW_ERR_OK;
}

static int slot_of(const struct planner *s, int buffer)
{
	return s->slot[twrt_buffer_root(s->p, buffer)];
}

/* last[] of a slot covers all that share it. */
static void take_over(struct planner *s, int step, int out, int in)
{
	const struct twrt_plan *p = s->p;
	if (out < 0 || in < 0 || p->buffers[out].kind != TWRT_TEMP || s->first[out] != step)
		return;
	const int root = twrt_buffer_root(p, in);
	const int slot = s->slot[root];
	if (p->buffers[root].kind != TWRT_TEMP || s->last[slot] != step || s->taken[slot] == step)
		return;
	if (s->m->offset[in] != 0 || s->m->bytes[out] > s->m->bytes[slot])
		return;
	const struct twrt_step *st = &p->steps[step];
	int readers = 0;
	for (int k = 0; k < st->nbuffers - st->nout; k++)
		readers += st->buffers[k] >= 0 && slot_of(s, st->buffers[k]) == slot;
	if (readers != 1)
		return; /* read through two operands: writing one would spoil the other */
	s->slot[out] = slot;
	s->taken[slot] = step;
	s->last[slot] = s->last[out];
}

static void share(struct planner *s)
{
	for (int i = 0; i < s->to; i++) {
		const struct twrt_step *st = &s->p->steps[i];
		const int nin = st->nbuffers - st->nout;
		for (int k = 0; st->inplace && k < st->nout; k++)
			if (st->inplace[k] >= 0)
				take_over(s, i, st->buffers[nin + k], st->buffers[st->inplace[k]]);
	}
}

static enum tw_code place(struct planner *s)
{
	const struct twrt_plan *p = s->p;
	struct twrt_interval *at = calloc((size_t)p->nbuffers + 1, sizeof(*at));
	int *owner = calloc((size_t)p->nbuffers + 1, sizeof(*owner));
	enum tw_code code = TW_ERR_MEMORY;
	if (at && owner) {
		int n = 0;
		for (int b = 0; b < p->nbuffers; b++)
			if (p->buffers[b].kind == TWRT_TEMP && s->slot[b] == b && s->first[b] >= 0) {
				owner[b] = n;
				at[n++] = (struct twrt_interval){s->first[b], s->last[b], s->m->bytes[b], 0};
			}
		code = twrt_place(n, at, &s->m->arena_bytes, s->e);
		for (int b = 0; code == TW_ERR_OK && b < p->nbuffers; b++)
			if (p->buffers[b].kind == TWRT_TEMP && s->first[b] >= 0)
				s->m->offset[b] = at[owner[s->slot[b]]].offset;
	} else {
		tw_error_set(s->e, code, "no memory to plan the memory of a run");
	}
	free(at);
	free(owner);
	return code;
}

/* dims and their size in bytes; *bad for what does not fit or is negative */
static int64_t shape(const struct planner *s, const struct twrt_io *io, int64_t *dims, bool *bad)
{
	int64_t bytes = twrt_type_bytes(io->type);
	for (int d = 0; d < io->rank; d++) {
		dims[d] = twrt_expr_eval(&io->dims[d], s->symbols, bad);
		*bad |= dims[d] < 0;
		bytes = tw_mul64(bytes, dims[d], bad);
	}
	return bytes;
}

static enum tw_code host_step(struct planner *s, int i, struct twrt_step_plan *sp)
{
	const struct twrt_step *st = &s->p->steps[i];
	bool bad = false;
	for (int k = 0; k < st->nbuffers; k++) {
		if (st->buffers[k] < 0)
			continue;
		struct twrt_host_tensor *t = &sp->tensors[k];
		t->present = true;
		t->type = st->host_io[k].type;
		t->rank = st->host_io[k].rank;
		if (shape(s, &st->host_io[k], t->dims, &bad) > s->m->bytes[st->buffers[k]] || bad)
			return TWRT_FAIL(s->e, TW_ERR_MODEL, "host operator %s: operand %d does not fit its buffer",
					 st->host, k);
	}
	return TW_ERR_OK;
}

static enum tw_code steps(struct planner *s)
{
	const struct twrt_plan *p = s->p;
	bool bad = false;
	for (int i = 0; i < s->to; i++) {
		const struct twrt_step *st = &p->steps[i];
		struct twrt_step_plan *sp = &s->m->steps[i];
		sp->cores = twrt_expr_eval(&st->cores, s->symbols, &bad);
		const int64_t scratch = twrt_expr_eval(&st->scratch, s->symbols, &bad);
		if (bad || sp->cores < 0 || sp->cores > (int64_t)1 << 48 || scratch < 0)
			return overflow(s->e);
		if (scratch > s->m->scratch_bytes)
			s->m->scratch_bytes = scratch;
		for (int k = 0; k < st->nsymbols; k++)
			sp->symbols[k] = twrt_expr_eval(&st->symbols[k], s->symbols, &bad);
		if (bad)
			return overflow(s->e);
		if (st->kind == TWRT_HOST)
			TWRT_TRY(host_step(s, i, sp));
		if (st->kind == TWRT_COPY && s->m->bytes[st->buffers[0]] != s->m->bytes[st->buffers[1]])
			return TWRT_FAIL(s->e, TW_ERR_MODEL, "step %d copies %lld bytes into %lld", i,
					 (long long)s->m->bytes[st->buffers[0]],
					 (long long)s->m->bytes[st->buffers[1]]);
	}
	return TW_ERR_OK;
}

static enum tw_code output_shapes(struct planner *s)
{
	for (int i = 0; i < s->p->noutputs; i++) {
		const struct twrt_io *io = &s->p->outputs[i];
		bool bad = false;
		const int64_t bytes = shape(s, io, s->m->output_dims + (int64_t)i * TWRT_MAX_RANK, &bad);
		if (bad)
			return overflow(s->e);
		if (bytes > s->m->bytes[io->buffer])
			return TWRT_FAIL(s->e, TW_ERR_MODEL, "output %s does not fit its buffer", io->name);
	}
	return TW_ERR_OK;
}

static bool room_for_steps(struct planner *s)
{
	for (int i = 0; i < s->to; i++) {
		const struct twrt_step *st = &s->p->steps[i];
		struct twrt_step_plan *sp = &s->m->steps[i];
		sp->symbols = twrt_pile_alloc(s->m->pile, st->nsymbols, sizeof(*sp->symbols));
		if (st->kind == TWRT_HOST)
			sp->tensors = twrt_pile_alloc(s->m->pile, st->nbuffers, sizeof(*sp->tensors));
		if (sp->symbols == NULL || (st->kind == TWRT_HOST && sp->tensors == NULL))
			return false;
	}
	return true;
}

enum tw_code twrt_memplan_update(const struct twrt_plan *p, const int64_t *symbols, struct twrt_memplan *m,
				 struct tw_error *e)
{
	struct planner s = {.p = p, .symbols = symbols, .to = p->nsteps, .m = m, .e = e};
	TWRT_TRY(sizes(&s));
	for (int b = 0; b < p->nbuffers; b++)
		if (m->bytes[b] > m->room[b])
			return TWRT_FAIL(e, TW_ERR_MODEL, "a size that data decides is beyond its bound");
	const int64_t scratch = m->scratch_bytes;
	TWRT_TRY(steps(&s));
	if (m->scratch_bytes > scratch)
		return TWRT_FAIL(e, TW_ERR_MODEL, "a size that data decides is beyond its bound");
	return output_shapes(&s);
}

static enum tw_code make(struct planner *s)
{
	if (!room_for_steps(s))
		return TWRT_FAIL(s->e, TW_ERR_MEMORY, "no memory to plan the memory of a run");
	liveness(s);
	TWRT_TRY(sizes(s));
	share(s);
	TWRT_TRY(place(s));
	TWRT_TRY(steps(s));
	if (!s->setup)
		TWRT_TRY(output_shapes(s));
	memcpy(s->m->room, s->m->bytes, (size_t)s->p->nbuffers * sizeof(*s->m->room));
	return TW_ERR_OK;
}

enum tw_code twrt_memplan_new(const struct twrt_plan *p, const int64_t *symbols, bool setup, struct twrt_memplan **out,
			      struct tw_error *e)
{
	*out = NULL;
	struct twrt_pile *pile = twrt_pile_new(), *work = twrt_pile_new();
	struct twrt_memplan *m = pile ? twrt_pile_alloc(pile, 1, sizeof(*m)) : NULL;
	enum tw_code code = TW_ERR_MEMORY;
	if (m && work) {
		*m = (struct twrt_memplan){.pile = pile};
		m->key = twrt_pile_alloc(pile, p->nsymbols, sizeof(*m->key));
		m->bytes = twrt_pile_alloc(pile, p->nbuffers, sizeof(*m->bytes));
		m->room = twrt_pile_alloc(pile, p->nbuffers, sizeof(*m->room));
		m->offset = twrt_pile_alloc(pile, p->nbuffers, sizeof(*m->offset));
		m->output_dims = twrt_pile_alloc(pile, (int64_t)p->noutputs * TWRT_MAX_RANK, sizeof(*m->output_dims));
		m->steps = twrt_pile_alloc(pile, p->nsteps, sizeof(*m->steps));
		int *ints = twrt_pile_alloc(work, 4 * (int64_t)p->nbuffers, sizeof(*ints));
		if (m->key && m->bytes && m->room && m->offset && m->output_dims && m->steps && ints) {
			if (p->nsymbols)
				memcpy(m->key, symbols, (size_t)p->nsymbols * sizeof(*m->key));
			const int n = p->nbuffers;
			struct planner s = {p,
					    symbols,
					    setup,
					    setup ? p->nsetup : p->nsteps,
					    m,
					    ints,
					    ints + n,
					    ints + 2 * n,
					    ints + 3 * n,
					    e};
			code = make(&s);
		} else {
			tw_error_set(e, code, "no memory to plan the memory of a run");
		}
	} else {
		tw_error_set(e, code, "no memory to plan the memory of a run");
	}
	twrt_pile_free(work);
	if (code == TW_ERR_OK)
		*out = m;
	else
		twrt_pile_free(pile);
	return code;
}

void twrt_memplan_free(struct twrt_memplan *m)
{
	if (m)
		twrt_pile_free(m->pile);
}
