/* Runs the set-up steps of a plan under construction (weight packing, large constant folds), so that an image holds
 * their results. Input: a plan with constants and folded buffers; output: an image of the same plan with constants only.
 * What a run needs of the results is made where it lies in the image; constants that nothing needs any more stay out. */
#include "rt_int.h"

#include <stdlib.h>

struct bake {
	const struct twrt_plan *p;
	struct twrt_plan baked;	     /* as the image has it */
	struct twrt_buffer *buffers; /* its own */
	struct twrt_draft draft;
	struct twrt_memplan *m;
	struct twrt_loaded code;
	struct twrt_pool *pool;
	char *arena;
	struct twrt_scratch scratch;
	void **address;
	void **folded; /* by buffer: of those that only the set-up needs */
	bool *used;    /* by buffer: the run needs it */
	twrt_release *release;
	void *release_arg;
};

/* Folded buffers get their memory at the step that first speaks of them. Others: */
static void addresses(struct bake *k)
{
	const struct twrt_plan *p = k->p;
	for (int b = 0; b < p->nbuffers; b++) {
		if (p->buffers[b].kind == TWRT_CONST)
			k->address[b] = (void *)(uintptr_t)p->buffers[b].data;
		if (p->buffers[b].kind == TWRT_TEMP)
			k->address[b] = k->arena + k->m->offset[b];
	}
	for (int b = 0; b < p->nbuffers; b++)
		if (p->buffers[b].kind == TWRT_ALIAS && k->address[twrt_buffer_root(p, b)])
			k->address[b] = (char *)k->address[twrt_buffer_root(p, b)] + k->m->offset[b];
}

static enum tw_code allocate(struct bake *k, const struct twrt_step *s, struct tw_error *e)
{
	for (int n = 0; n < s->nbuffers; n++) {
		const int b = s->buffers[n];
		if (b < 0 || k->p->buffers[b].kind != TWRT_FOLDED || k->address[b])
			continue;
		k->folded[b] = twrt_alloc(k->m->bytes[b]);
		if (k->folded[b] == NULL)
			return TWRT_FAIL(e, TW_ERR_MEMORY, "no memory for a constant of %lld bytes",
					 (long long)k->m->bytes[b]);
		k->address[b] = k->folded[b];
	}
	return TW_ERR_OK;
}

/* The last set-up step that needs each buffer; those that a run needs too: none. */
static void last_uses(const struct twrt_plan *p, int *last)
{
	for (int i = 0; i < p->nsteps; i++)
		for (int n = 0; n < p->steps[i].nbuffers; n++)
			if (p->steps[i].buffers[n] >= 0)
				last[twrt_buffer_root(p, p->steps[i].buffers[n])] = i < p->nsetup ? i : -1;
	for (int i = 0; i < p->noutputs; i++)
		last[twrt_buffer_root(p, p->outputs[i].buffer)] = -1;
}

/* What only set-up steps needed goes after the last of them. */
static void give_back(struct bake *k, int step, const int *last)
{
	const struct twrt_step *s = &k->p->steps[step];
	for (int n = 0; n < s->nbuffers; n++) {
		const int b = s->buffers[n];
		if (b >= 0 && k->p->buffers[b].kind == TWRT_FOLDED && last[b] == step) {
			free(k->folded[b]);
			k->folded[b] = NULL;
		}
	}
}

static enum tw_code run_steps(struct bake *k, struct tw_error *e)
{
	int most = 2;
	for (int i = 0; i < k->p->nsetup; i++)
		most = k->p->steps[i].nbuffers > most ? k->p->steps[i].nbuffers : most;
	void **arguments = calloc((size_t)most, sizeof(*arguments));
	int64_t *bytes = calloc((size_t)most, sizeof(*bytes));
	int *last = calloc((size_t)k->p->nbuffers + 1, sizeof(*last));
	enum tw_code code = TW_ERR_OK;
	if (arguments == NULL || bytes == NULL || last == NULL)
		code = TWRT_FAIL(e, TW_ERR_MEMORY, "no memory to fold constants");
	else
		last_uses(k->p, last);
	for (int i = 0; code == TW_ERR_OK && i < k->p->nsetup; i++) {
		const struct twrt_step *s = &k->p->steps[i];
		code = allocate(k, s, e);
		for (int n = 0; code == TW_ERR_OK && n < s->nbuffers; n++) {
			arguments[n] = s->buffers[n] < 0 ? NULL : k->address[s->buffers[n]];
			bytes[n] = s->buffers[n] < 0 ? 0 : k->m->bytes[s->buffers[n]];
		}
		if (code == TW_ERR_OK)
			code = twrt_step_run(s, &k->m->steps[i], k->code.kernels, arguments, bytes, k->pool,
					     &k->scratch, false, e);
		for (int n = 0; k->release && n < s->nbuffers; n++)
			if (s->buffers[n] >= 0 && k->p->buffers[s->buffers[n]].kind == TWRT_CONST)
				k->release(k->release_arg, arguments[n], bytes[n]);
		give_back(k, i, last);
	}
	free(arguments);
	free(bytes);
	free(last);
	return code;
}

/* The plan that is left: folded buffers are constants, and what the run does not need is nothing. */
static void baked_plan(struct bake *k)
{
	const struct twrt_plan *p = k->p;
	bool *used = k->used;
	for (int i = p->nsetup; i < p->nsteps; i++)
		for (int n = 0; n < p->steps[i].nbuffers; n++)
			if (p->steps[i].buffers[n] >= 0)
				used[twrt_buffer_root(p, p->steps[i].buffers[n])] = true;
	for (int i = 0; i < p->noutputs; i++)
		used[twrt_buffer_root(p, p->outputs[i].buffer)] = true;
	for (int b = 0; b < p->nbuffers; b++) {
		const enum twrt_buffer_kind kind = p->buffers[b].kind;
		k->buffers[b] = p->buffers[b];
		if (kind == TWRT_ALIAS && !used[twrt_buffer_root(p, b)])
			k->buffers[b] = (struct twrt_buffer){.kind = TWRT_TEMP}; /* part of something dropped */
		else if ((kind == TWRT_CONST || kind == TWRT_FOLDED) && !used[b])
			k->buffers[b] = (struct twrt_buffer){.kind = TWRT_CONST};
		else if (kind == TWRT_FOLDED) {
			k->buffers[b].kind = TWRT_CONST;
			k->buffers[b].const_bytes = k->m->bytes[b];
		}
	}
	k->baked = *p;
	k->baked.buffers = k->buffers;
	k->baked.steps += p->nsetup;
	k->baked.nsteps -= p->nsetup;
	k->baked.nsetup = 0;
}

/* Those that stay are made in the image. */
static void place_folded(struct bake *k)
{
	for (int b = 0; b < k->p->nbuffers; b++)
		if (k->p->buffers[b].kind == TWRT_FOLDED && k->used[b]) {
			k->address[b] = k->draft.image + k->draft.const_at[b];
			k->buffers[b].data = k->address[b];
		}
}

static enum tw_code bake(struct bake *k, const struct twrt_code *code, int threads, struct tw_error *e)
{
	const struct twrt_plan *p = k->p;
	int64_t *zeros =
		calloc((size_t)p->nsymbols + 1,
		       sizeof(*zeros)); /* sizes of set-up steps are numbers; other buffers' do not matter yet */
	if (zeros == NULL)
		return TWRT_FAIL(e, TW_ERR_MEMORY, "no memory to fold constants");
	const enum tw_code planned = twrt_memplan_new(p, zeros, true, &k->m, e);
	free(zeros);
	TWRT_TRY(planned);
	baked_plan(k);
	TWRT_TRY(twrt_image_reserve(&k->baked, 1, code, &k->draft, e));
	TWRT_TRY(twrt_code_load(code, p->nkernels, p->kernels, &k->code, e));
	k->pool = twrt_pool_get(threads);
	k->arena = twrt_alloc(k->m->arena_bytes);
	k->scratch.stride = (k->m->scratch_bytes + 2 * TWRT_ALIGN - 1) / TWRT_ALIGN * TWRT_ALIGN;
	bool bad = k->m->scratch_bytes > INT64_MAX / 2;
	if (k->pool && !bad)
		k->scratch.at = twrt_alloc(tw_mul64(k->scratch.stride, twrt_pool_threads(k->pool), &bad));
	if (bad || k->pool == NULL || k->arena == NULL || k->scratch.at == NULL)
		return TWRT_FAIL(e, TW_ERR_MEMORY, "no memory to fold constants");
	place_folded(k);
	TWRT_TRY(twrt_plan_validate(&k->baked, false, e));
	addresses(k);
	return run_steps(k, e);
}

enum tw_code twrt_bake(const struct twrt_plan *p, const struct twrt_code *code, int threads, twrt_release *release,
		       void *arg, void **image, int64_t *bytes, struct tw_error *e)
{
	TWRT_TRY(twrt_plan_validate(p, true, e));
	struct bake k = {.p = p, .code = {.fd = -1}, .release = release, .release_arg = arg};
	const size_t n = (size_t)p->nbuffers + 1;
	k.buffers = calloc(n, sizeof(*k.buffers));
	k.address = calloc(n, sizeof(*k.address));
	k.folded = calloc(n, sizeof(*k.folded));
	k.used = calloc(n, sizeof(*k.used));
	enum tw_code result = TW_ERR_OK;
	if (!k.buffers || !k.address || !k.folded || !k.used)
		result = TWRT_FAIL(e, TW_ERR_MEMORY, "no memory to fold constants");
	else
		result = bake(&k, code, threads, e);
	twrt_memplan_free(k.m);
	twrt_code_unload(&k.code);
	twrt_pool_put(k.pool);
	free(k.arena);
	free(k.scratch.at);
	for (int b = 0; k.folded && b < p->nbuffers; b++)
		free(k.folded[b]);
	if (result == TW_ERR_OK)
		twrt_image_finish(&k.draft, &k.baked, release, arg, image, bytes);
	twrt_image_drop(&k.draft);
	free(k.buffers);
	free(k.address);
	free(k.folded);
	free(k.used);
	return result;
}
