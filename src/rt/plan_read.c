/* Decodes a plan from an image's words. Input: bytes nobody vouches for; output: a plan whose pointers lie in the
 * image or in a pile. Every count is compared with the words left before anything is allocated, so what a broken image
 * can ask for is bounded by its own size. validate.c looks at the meaning afterwards. */
#include "rt_int.h"

#include <stdlib.h>

struct twrt_pile {
	struct chunk {
		struct chunk *next;
	} * chunks;
};

struct twrt_pile *twrt_pile_new(void)
{
	return calloc(1, sizeof(struct twrt_pile));
}

void *twrt_pile_alloc(struct twrt_pile *pile, int64_t count, int64_t size)
{
	int64_t bytes;
	if (count < 0 || size < 0 || __builtin_mul_overflow(count, size, &bytes) || bytes > PTRDIFF_MAX - 64)
		return NULL;
	struct chunk *c = calloc(1, sizeof(*c) + 8 + (size_t)bytes);
	if (c == NULL)
		return NULL;
	c->next = pile->chunks;
	pile->chunks = c;
	return (char *)c + 16;
}

_Static_assert(sizeof(struct chunk) <= 16, "a pile's pieces start 16 bytes behind their header");

void twrt_pile_free(struct twrt_pile *pile)
{
	if (pile == NULL)
		return;
	for (struct chunk *c = pile->chunks; c;) {
		struct chunk *next = c->next;
		free(c);
		c = next;
	}
	free(pile);
}

struct reader {
	const struct twrt_image_view *v;
	struct twrt_pile *pile;
	int64_t at;
	bool bad, full; /* malformed; out of memory */
};

static int64_t word(struct reader *r)
{
	if (r->bad || r->at >= r->v->plan_words) {
		r->bad = true;
		return 0;
	}
	return r->v->plan[r->at++];
}

static int word_int(struct reader *r)
{
	const int64_t x = word(r);
	if (x < INT32_MIN || x > INT32_MAX)
		r->bad = true;
	return r->bad ? 0 : (int)x;
}

static int count(struct reader *r) /* of things that take at least a word each */
{
	const int64_t n = word(r);
	if (n < 0 || n > r->v->plan_words - r->at || n > INT32_MAX)
		r->bad = true;
	return r->bad ? 0 : (int)n;
}

static void *make(struct reader *r, int64_t n, int64_t size)
{
	static const int64_t
		nothing[1]; /* what arrays point to after a failure: never touched, as loops end once bad is set */
	void *at = r->bad ? NULL : twrt_pile_alloc(r->pile, n, size);
	if (at)
		return at;
	r->full |= !r->bad;
	r->bad = true;
	return (void *)(uintptr_t)nothing;
}

static const void *raw(struct reader *r, int64_t bytes)
{
	if (r->bad || bytes < 0 || bytes > 8 * (r->v->plan_words - r->at)) {
		r->bad = true;
		return NULL;
	}
	const void *at = r->v->plan + r->at;
	r->at += (bytes + 7) / 8;
	return at;
}

static const char *text(struct reader *r)
{
	const int64_t n = word(r);
	if (n == -1)
		return NULL;
	if (n < 0 || n == INT64_MAX) {
		r->bad = true;
		return NULL;
	}
	const char *s = raw(r, n + 1);
	if (s && (s[n] != '\0' || memchr(s, '\0', (size_t)n)))
		r->bad = true;
	return r->bad ? NULL : s;
}

static struct twrt_expr expr(struct reader *r)
{
	struct twrt_expr x = {0};
	const int n = count(r);
	const int64_t *code = raw(r, 8 * (int64_t)n);
	if (!r->bad && n)
		x = (struct twrt_expr){n, code};
	return x;
}

static void io(struct reader *r, struct twrt_io *io)
{
	io->name = text(r);
	io->type = (enum twrt_type)word_int(r);
	io->rank = word_int(r);
	if (io->rank < 0 || io->rank > TWRT_MAX_RANK)
		r->bad = true;
	for (int d = 0; !r->bad && d < io->rank; d++)
		io->dims[d] = expr(r);
	io->buffer = word_int(r);
}

static void buffer(struct reader *r, struct twrt_buffer *b)
{
	b->kind = (enum twrt_buffer_kind)word_int(r);
	b->bytes = expr(r);
	const int64_t at = word(r);
	b->const_bytes = word(r);
	b->of = word_int(r);
	b->offset = expr(r);
	if (b->kind != TWRT_CONST)
		return;
	if (b->const_bytes < 0 || at < 0 || at % TWRT_ALIGN || at > r->v->bytes || b->const_bytes > r->v->bytes - at)
		r->bad = true;
	else
		b->data = r->v->base + at;
}

static const int *ints(struct reader *r, int n)
{
	int *at = make(r, n, sizeof(*at));
	for (int i = 0; !r->bad && i < n; i++)
		at[i] = word_int(r);
	return at;
}

static void step(struct reader *r, struct twrt_step *s)
{
	s->kind = (enum twrt_step_kind)word_int(r);
	s->kernel = word_int(r);
	s->cores = expr(r);
	s->scratch = expr(r);
	s->nbuffers = count(r);
	s->buffers = ints(r, s->nbuffers);
	s->nout = word_int(r);
	if (s->nout < 0 || s->nout > s->nbuffers)
		r->bad = true;
	if (word(r) && !r->bad)
		s->inplace = ints(r, s->nout);
	s->nsymbols = count(r);
	struct twrt_expr *symbols = make(r, s->nsymbols, sizeof(*symbols));
	for (int i = 0; !r->bad && i < s->nsymbols; i++)
		symbols[i] = expr(r);
	s->symbols = symbols;
	s->to = word_int(r);
	s->symbol = word_int(r);
	s->host = text(r);
	s->host_attrs_bytes = word(r);
	s->host_attrs = raw(r, s->host_attrs_bytes);
	if (word(r) && !r->bad) {
		struct twrt_io *ios = make(r, s->nbuffers, sizeof(*ios));
		for (int i = 0; !r->bad && i < s->nbuffers; i++)
			io(r, &ios[i]);
		s->host_io = ios;
	}
	s->label = text(r);
	s->program = text(r);
	s->schedule = text(r);
	s->work = expr(r);
	s->nextents = count(r);
	struct twrt_expr *extents = make(r, s->nextents, sizeof(*extents));
	for (int i = 0; !r->bad && i < s->nextents; i++)
		extents[i] = expr(r);
	s->extents = extents;
}

static const char *const *texts(struct reader *r, int n)
{
	const char **at = make(r, n, sizeof(*at));
	for (int i = 0; !r->bad && i < n; i++)
		at[i] = text(r);
	return at;
}

static void plan(struct reader *r, struct twrt_plan *p)
{
	p->nsymbols = count(r);
	p->symbols = texts(r, p->nsymbols);
	struct twrt_source *sources = make(r, p->nsymbols, sizeof(*sources));
	for (int i = 0; !r->bad && i < p->nsymbols; i++) {
		sources[i].input = word_int(r);
		sources[i].dim = word_int(r);
		sources[i].most = expr(r);
	}
	p->sources = sources;
	p->nbuffers = count(r);
	struct twrt_buffer *buffers = make(r, p->nbuffers, sizeof(*buffers));
	for (int i = 0; !r->bad && i < p->nbuffers; i++)
		buffer(r, &buffers[i]);
	p->buffers = buffers;
	p->ninputs = count(r);
	struct twrt_io *inputs = make(r, p->ninputs, sizeof(*inputs));
	for (int i = 0; !r->bad && i < p->ninputs; i++)
		io(r, &inputs[i]);
	p->inputs = inputs;
	p->noutputs = count(r);
	struct twrt_io *outputs = make(r, p->noutputs, sizeof(*outputs));
	for (int i = 0; !r->bad && i < p->noutputs; i++)
		io(r, &outputs[i]);
	p->outputs = outputs;
	p->nkernels = count(r);
	p->kernels = texts(r, p->nkernels);
	p->nsteps = count(r);
	struct twrt_step *steps = make(r, p->nsteps, sizeof(*steps));
	for (int i = 0; !r->bad && i < p->nsteps; i++)
		step(r, &steps[i]);
	p->steps = steps;
	p->nchecks = count(r);
	struct twrt_check *checks = make(r, p->nchecks, sizeof(*checks));
	for (int i = 0; !r->bad && i < p->nchecks; i++) {
		checks[i].cond = expr(r);
		checks[i].text = text(r);
	}
	p->checks = checks;
	p->nmeta = count(r);
	p->meta_keys = texts(r, p->nmeta);
	p->meta_values = texts(r, p->nmeta);
}

enum tw_code twrt_plan_read(const struct twrt_image_view *v, struct twrt_pile *pile, struct twrt_plan *p,
			    struct tw_error *e)
{
	struct reader r = {.v = v, .pile = pile};
	*p = (struct twrt_plan){0};
	plan(&r, p);
	if (r.full)
		return TWRT_FAIL(e, TW_ERR_MEMORY, "no memory to load the model");
	if (r.bad || r.at != v->plan_words)
		return TWRT_FAIL(e, TW_ERR_MODEL, "the bundle's plan is damaged near word %lld", (long long)r.at);
	return TW_ERR_OK;
}
