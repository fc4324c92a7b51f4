/* program_opencl: runs of single programs on a device of OpenCL. Input: a program launched on blocks and data for its
 * parameters; output: the data of its outputs. */
#include "backend/opencl/opencl.h"
#include "compile/program_int.h"

#include <stdlib.h>

struct opencl_running {
	const struct tw_program *p;
	void *const *data;
	int runs;
	double *ms;
};

static void prepare(const struct opencl_running *r, struct twpr_copy *c, struct opencl_job *job)
{
	const struct tw_program *p = r->p;
	struct tw_target t;
	struct tw_buf source;
	const struct twir_binding b = twpr_binding(p);
	struct opencl_buffer *buffers = ARENA_ARRAY(c->arena, struct opencl_buffer, p->nparams);
	struct opencl_call *call = ARENA_NEW(c->arena, struct opencl_call);
	int *numbers = ARENA_ARRAY(c->arena, int, p->nparams);
	int64_t *sizes = ARENA_ARRAY(c->arena, int64_t, p->nsymbols);
	if (!twpr_is_gpu(p->chosen))
		tw_raise(TW_ERR_UNSUPPORTED,
			 "program %s is launched on cores and lanes, which OpenCL has not\nhint: --run compiled; "
			 "programs "
			 "for GPUs say launch block(..), thread(..)",
			 p->chosen->name);
	for (int i = 0; i < p->nparams; i++) {
		const int64_t n = twpr_elements(p, i);
		numbers[i] = i;
		buffers[i] = (struct opencl_buffer){.data = r->data[i],
						    .bytes = n * twir_scalar_bytes(p->chosen->params[i]->type),
						    .in = !p->params[i].is_out,
						    .out = p->params[i].is_out};
	}
	*call = (struct opencl_call){.kernel = p->chosen->name,
				     .nbuffers = p->nparams,
				     .buffers = numbers,
				     .blocks = twir_eval_index(p->chosen->extents[0], &b),
				     .threads = cgen_threads(c->program)};
	(void)tw_target_gpu(&t, "opencl");
	tw_lower(c->m, c->program, &t, NULL, NULL);
	for (int i = 0; i < c->program->nsymbols; i++) {
		const struct twir_var *v = c->program->symbols[i];
		for (int k = 0; k < p->nsymbols; k++)
			if (strcmp(p->chosen->symbols[k]->name, v->name) == 0)
				sizes[i] = p->values[k];
	}
	call->nsizes = c->program->nsymbols;
	call->sizes = sizes;
	buf_init(&source, c->arena);
	cgen_file(&source, &t, c->m, c->program);
	*job = (struct opencl_job){
		.source = source.at, .nbuffers = p->nparams, .buffers = buffers, .ncalls = 1, .calls = call};
}

static void run(struct twpr_copy *c, void *arg)
{
	const struct opencl_running *r = arg;
	struct opencl_job job;
	struct tw_error e;
	prepare(r, c, &job);
	if (opencl_run(&job, r->runs, r->ms, NULL, &e) != TW_ERR_OK)
		tw_raise_error(&e);
}

enum tw_code tw_program_opencl(const struct tw_program *p, void *const *data, int runs, double *ms, struct tw_error *e)
{
	struct opencl_running r = {p, data, runs, ms};
	const enum tw_code code = twpr_all_known(p, e);
	return code == TW_ERR_OK ? twpr_with_copy(p, NULL, run, &r, e) : code;
}
