/* A plan as a sequence of 64-bit words. Input: a validated plan; output: words that plan_read.c turns back into it.
 * Strings: length (-1: none), then the bytes with their NUL, filled up to whole words. Arrays: count, then elements. */
#include "rt_int.h"

#include <stdlib.h>

struct writer {
	int64_t *at;
	int64_t n, cap;
	bool bad; /* out of memory */
};

static int64_t *room(struct writer *w, int64_t words)
{
	if (w->bad)
		return NULL;
	if (words > w->cap - w->n) {
		const int64_t cap = 2 * w->cap + words + 64;
		int64_t *at = realloc(w->at, (size_t)cap * sizeof(*at));
		if (at == NULL) {
			w->bad = true;
			return NULL;
		}
		w->at = at;
		w->cap = cap;
	}
	int64_t *at = w->at + w->n;
	w->n += words;
	return at;
}

static void word(struct writer *w, int64_t x)
{
	int64_t *at = room(w, 1);
	if (at)
		*at = x;
}

static void bytes(struct writer *w, const void *from, int64_t n)
{
	const int64_t words = (n + 7) / 8;
	int64_t *at = room(w, words);
	if (at == NULL || words == 0)
		return;
	at[words - 1] = 0;
	memcpy(at, from, (size_t)n);
}

static void text(struct writer *w, const char *s)
{
	word(w, s ? (int64_t)strlen(s) : -1);
	if (s)
		bytes(w, s, (int64_t)strlen(s) + 1);
}

static void expr(struct writer *w, const struct twrt_expr *x)
{
	word(w, x->n);
	bytes(w, x->code, 8 * (int64_t)x->n);
}

static void io(struct writer *w, const struct twrt_io *io)
{
	text(w, io->name);
	word(w, io->type);
	word(w, io->rank);
	for (int d = 0; d < io->rank; d++)
		expr(w, &io->dims[d]);
	word(w, io->buffer);
}

static void buffer(struct writer *w, const struct twrt_buffer *b, int64_t const_at)
{
	word(w, b->kind);
	expr(w, &b->bytes);
	word(w, b->kind == TWRT_CONST ? const_at : 0);
	word(w, b->const_bytes);
	word(w, b->of);
	expr(w, &b->offset);
}

static void ints(struct writer *w, const int *at, int n)
{
	for (int i = 0; i < n; i++)
		word(w, at[i]);
}

static void step(struct writer *w, const struct twrt_step *s)
{
	word(w, s->kind);
	word(w, s->kernel);
	expr(w, &s->cores);
	expr(w, &s->scratch);
	word(w, s->nbuffers);
	ints(w, s->buffers, s->nbuffers);
	word(w, s->nout);
	word(w, s->inplace != NULL);
	if (s->inplace)
		ints(w, s->inplace, s->nout);
	word(w, s->nsymbols);
	for (int i = 0; i < s->nsymbols; i++)
		expr(w, &s->symbols[i]);
	word(w, s->to);
	word(w, s->symbol);
	text(w, s->host);
	word(w, s->host_attrs_bytes);
	bytes(w, s->host_attrs, s->host_attrs_bytes);
	word(w, s->host_io != NULL);
	if (s->host_io)
		for (int i = 0; i < s->nbuffers; i++)
			io(w, &s->host_io[i]);
	text(w, s->label);
	text(w, s->program);
	text(w, s->schedule);
	expr(w, &s->work);
	word(w, s->nextents);
	for (int i = 0; i < s->nextents; i++)
		expr(w, &s->extents[i]);
}

static void texts(struct writer *w, const char *const *at, int n)
{
	for (int i = 0; i < n; i++)
		text(w, at[i]);
}

enum tw_code twrt_plan_write(const struct twrt_plan *p, const int64_t *const_at, int64_t **words, int64_t *nwords,
			     struct tw_error *e)
{
	struct writer w = {0};
	word(&w, p->nsymbols);
	texts(&w, p->symbols, p->nsymbols);
	for (int i = 0; i < p->nsymbols; i++) {
		word(&w, p->sources[i].input);
		word(&w, p->sources[i].dim);
		expr(&w, &p->sources[i].most);
	}
	word(&w, p->nbuffers);
	for (int i = 0; i < p->nbuffers; i++)
		buffer(&w, &p->buffers[i], const_at[i]);
	word(&w, p->ninputs);
	for (int i = 0; i < p->ninputs; i++)
		io(&w, &p->inputs[i]);
	word(&w, p->noutputs);
	for (int i = 0; i < p->noutputs; i++)
		io(&w, &p->outputs[i]);
	word(&w, p->nkernels);
	texts(&w, p->kernels, p->nkernels);
	word(&w, p->nsteps);
	for (int i = 0; i < p->nsteps; i++)
		step(&w, &p->steps[i]);
	word(&w, p->nchecks);
	for (int i = 0; i < p->nchecks; i++) {
		expr(&w, &p->checks[i].cond);
		text(&w, p->checks[i].text);
	}
	word(&w, p->nmeta);
	texts(&w, p->meta_keys, p->nmeta);
	texts(&w, p->meta_values, p->nmeta);
	if (w.bad) {
		free(w.at);
		return TWRT_FAIL(e, TW_ERR_MEMORY, "no memory to write the plan");
	}
	*words = w.at;
	*nwords = w.n;
	return TW_ERR_OK;
}
