/* The memory plan of a run: for one set of symbol values, the size of every buffer, where temporaries lie in the
 * arena, and the numbers each step needs. Input: a validated plan, symbol values; output: a twrt_memplan, kept by the
 * context for as long as these sizes come back.
 *
 * A temporary lives from the step that first writes it to the last that uses it or an alias of it; one that an output
 * is made of lives to the end. Where a step may compute in place and its input dies there, the output takes over the
 * input's bytes. What a loop shares with the steps around it lives as long as the loop. */
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

/* What a loop's steps share with steps outside of it lives as long as the loop. */
static void live_through(struct planner *s, int begin, int end)
{
	for (int b = 0; b < s->p->nbuffers; b++) {
		const bool inside = s->first[b] >= 0 && s->first[b] <= end && s->last[b] >= begin;
		if (!inside || (s->first[b] > begin && s->last[b] < end))
			continue;
		s->first[b] = s->first[b] < begin ? s->first[b] : begin;
		s->last[b] = s->last[b] > end ? s->last[b] : end;
	}
}

static int larger(int a, int b)
{
	return a > b ? a : b;
}

/* Buffers that change places live equally long. */
static void live_together(struct planner *s, const struct twrt_step *next)
{
	for (int k = 1; k + 1 < next->nbuffers; k += 2) {
		const int a = next->buffers[k], b = next->buffers[k + 1];
		s->first[a] = s->first[b] = -larger(-s->first[a], -s->first[b]);
		s->last[a] = s->last[b] = larger(s->last[a], s->last[b]);
	}
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
	for (int i = p->nsetup; i < s->to; i++)
		if (p->steps[i].kind == TWRT_NEXT)
			live_together(s, &p->steps[i]);
	for (int i = p->nsetup; i < s->to; i++)
		if (p->steps[i].kind == TWRT_LOOP)
			live_through(s, i, i + p->steps[i].to);
}

static bool in_use(const struct planner *s, int buffer)
{
	return !s->setup || s->first[twrt_buffer_root(s->p, buffer)] >= 0;
}

static enum tw_code size_of(struct planner *s, int b)
{
	const struct twrt_buffer *buf = &s->p->buffers[b];
	bool bad = false;
	s->m->bytes[b] = buf->kind == TWRT_CONST ? buf->const_bytes : twrt_expr_eval(&buf->bytes, s->symbols, &bad);
	if (bad)
		return overflow(s->e);
	if (s->m->bytes[b] < 0)
		return TWRT_FAIL(s->e, TW_ERR_INPUT, "these input sizes give a tensor a negative size");
	return TW_ERR_OK;
}

/* Of an alias, in its root; the sizes of both are known. */
static enum tw_code offset_of(struct planner *s, int b)
{
	const struct twrt_plan *p = s->p;
	bool bad = false;
	int64_t offset = 0;
	for (int k = b; p->buffers[k].kind == TWRT_ALIAS; k = p->buffers[k].of) {
		const int64_t at = twrt_expr_eval(&p->buffers[k].offset, s->symbols, &bad);
		const int64_t end = tw_add64(at, s->m->bytes[k], &bad);
		const int of = p->buffers[k].of; /* a whole may have become smaller than the room it has */
		const int64_t room = s->m->room[of] > s->m->bytes[of] ? s->m->room[of] : s->m->bytes[of];
		if (bad || at < 0 || end > room)
			return TWRT_FAIL(s->e, TW_ERR_MODEL, "buffer %d lies outside the buffer it is a part of", k);
		offset += at;
	}
	if (p->buffers[b].kind == TWRT_ALIAS)
		s->m->offset[b] = offset;
	return TW_ERR_OK;
}

static enum tw_code sizes(struct planner *s)
{
	for (int b = 0; b < s->p->nbuffers; b++)
		if (in_use(s, b))
			TWRT_TRY(size_of(s, b));
	for (int b = 0; b < s->p->nbuffers; b++)
		if (in_use(s, b))
			TWRT_TRY(offset_of(s, b));
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
	if (s->m->offset[in] != 0 || s->m->room[out] > s->m->room[slot])
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
				at[n++] = (struct twrt_interval){s->first[b], s->last[b], s->m->room[b], 0};
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

static enum tw_code numbers_of(struct planner *s, int i)
{
	const struct twrt_step *st = &s->p->steps[i];
	struct twrt_step_plan *sp = &s->m->steps[i];
	bool bad = false;
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
		return host_step(s, i, sp);
	return TW_ERR_OK;
}

static enum tw_code steps(struct planner *s)
{
	for (int i = 0; i < s->to; i++)
		TWRT_TRY(numbers_of(s, i));
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

static enum tw_code beyond(struct tw_error *e)
{
	return TWRT_FAIL(e, TW_ERR_MODEL, "a size that data decides is beyond its bound");
}

enum tw_code twrt_memplan_update(const struct twrt_plan *p, const int64_t *symbols, struct twrt_memplan *m,
				 struct tw_error *e)
{
	struct planner s = {.p = p, .symbols = symbols, .to = p->nsteps, .m = m, .e = e};
	TWRT_TRY(sizes(&s));
	for (int b = 0; b < p->nbuffers; b++)
		if (m->bytes[b] > m->room[b])
			return beyond(e);
	const int64_t scratch = m->scratch_bytes;
	TWRT_TRY(steps(&s));
	if (m->scratch_bytes > scratch)
		return beyond(e);
	return output_shapes(&s);
}

enum tw_code twrt_memplan_update_steps(const struct twrt_plan *p, const int64_t *symbols, struct twrt_memplan *m,
				       int from, int to, struct tw_error *e)
{
	struct planner s = {.p = p, .symbols = symbols, .to = p->nsteps, .m = m, .e = e};
	const int64_t scratch = m->scratch_bytes;
	for (int i = from; i < to; i++)
		for (int k = 0; k < p->steps[i].nbuffers; k++) {
			const int b = p->steps[i].buffers[k];
			if (b < 0)
				continue;
			TWRT_TRY(size_of(&s, b));
			if (m->bytes[b] > m->room[b])
				return beyond(e);
		}
	for (int i = from; i < to; i++) {
		for (int k = 0; k < p->steps[i].nbuffers; k++)
			if (p->steps[i].buffers[k] >= 0)
				TWRT_TRY(offset_of(&s, p->steps[i].buffers[k]));
		TWRT_TRY(numbers_of(&s, i));
	}
	return m->scratch_bytes > scratch ? beyond(e) : TW_ERR_OK;
}

/* Sizes inside a loop may grow or shrink with the iterations: there is room for the first and the last. */
static enum tw_code first_iterations(struct planner *s)
{
	const struct twrt_plan *p = s->p;
	bool loops = false;
	for (int i = p->nsetup; i < s->to; i++)
		loops |= p->steps[i].kind == TWRT_LOOP;
	if (!loops)
		return TW_ERR_OK;
	int64_t *symbols = calloc((size_t)p->nsymbols + 1, sizeof(*symbols));
	if (symbols == NULL)
		return TWRT_FAIL(s->e, TW_ERR_MEMORY, "no memory to plan the memory of a run");
	memcpy(symbols, s->symbols, (size_t)p->nsymbols * sizeof(*symbols));
	for (int i = p->nsetup; i < s->to; i++)
		if (p->steps[i].kind == TWRT_LOOP)
			symbols[p->steps[i].symbol] = 0;
	struct planner first = *s;
	first.symbols = symbols;
	enum tw_code code = sizes(&first);
	if (code == TW_ERR_OK)
		code = steps(&first);
	memcpy(s->m->room, s->m->bytes, (size_t)p->nbuffers * sizeof(*s->m->room));
	free(symbols);
	return code;
}

static enum tw_code make(struct planner *s)
{
	if (!room_for_steps(s))
		return TWRT_FAIL(s->e, TW_ERR_MEMORY, "no memory to plan the memory of a run");
	liveness(s);
	TWRT_TRY(first_iterations(s));
	TWRT_TRY(sizes(s));
	for (int b = 0; b < s->p->nbuffers; b++)
		if (s->m->bytes[b] > s->m->room[b])
			s->m->room[b] = s->m->bytes[b];
	for (int i = s->p->nsetup; i < s->to; i++)
		for (int k = 1; s->p->steps[i].kind == TWRT_NEXT && k + 1 < s->p->steps[i].nbuffers; k += 2) {
			int64_t *a = &s->m->room[s->p->steps[i].buffers[k]],
				*b = &s->m->room[s->p->steps[i].buffers[k + 1]];
			*a = *b = *a > *b ? *a : *b;
		}
	share(s);
	TWRT_TRY(place(s));
	TWRT_TRY(steps(s));
	if (!s->setup)
		TWRT_TRY(output_shapes(s));
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
