/* Runs one step: a kernel's work items over the pool, a host operator, or a copy. Input: addresses of the step's
 * buffers; output: the last nout of them written. */
#include "rt_int.h"

struct kernel_job {
	twrt_kernel *kernel;
	void *const *buf;
	const int64_t *symbols;
	const struct twrt_scratch *scratch;
};

static void kernel_item(void *arg, int64_t item, int thread)
{
	const struct kernel_job *j = arg;
	j->kernel(item, j->buf, j->symbols, j->scratch->at + j->scratch->stride * thread);
}

enum { COPY_BLOCK = 1 << 20 };

struct copy_job {
	char *to;
	const char *from;
	int64_t bytes;
};

static void copy_item(void *arg, int64_t item, int thread)
{
	(void)thread;
	const struct copy_job *j = arg;
	const int64_t at = item * COPY_BLOCK, left = j->bytes - at;
	memmove(j->to + at, j->from + at, (size_t)(left < COPY_BLOCK ? left : COPY_BLOCK));
}

enum tw_code twrt_step_run(const struct twrt_step *s, const struct twrt_step_plan *sp, twrt_kernel *const *kernels,
			   void *const *buf, const int64_t *bytes, struct twrt_pool *pool,
			   const struct twrt_scratch *scratch, bool turned, struct tw_error *e)
{
	if (s->kind == TWRT_KERNEL) {
		struct kernel_job job = {kernels[s->kernel], buf, sp->symbols, scratch};
		twrt_pool_run(pool, sp->cores, turned, kernel_item, &job);
		return TW_ERR_OK;
	}
	if (s->kind == TWRT_COPY) {
		if (bytes[0] != bytes[1])
			return TWRT_FAIL(e, TW_ERR_MODEL, "%s copies %lld bytes into %lld",
					 s->label ? s->label : "a step", (long long)bytes[0], (long long)bytes[1]);
		if (bytes[0] > 0 && buf[0] != buf[1]) {
			struct copy_job job = {buf[1], buf[0], bytes[0]};
			twrt_pool_run(pool, bytes[0] / COPY_BLOCK + (bytes[0] % COPY_BLOCK != 0), turned, copy_item,
				      &job);
		}
		return TW_ERR_OK;
	}
	const struct twrt_host *h = twrt_host_find(s->host);
	for (int i = 0; i < s->nbuffers; i++)
		sp->tensors[i].data = buf[i];
	const int nin = s->nbuffers - s->nout;
	return h->run(sp->tensors, nin, sp->tensors + nin, s->nout, s->host_attrs, s->host_attrs_bytes, e);
}
