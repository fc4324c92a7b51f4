/* opencl: one job: find a device, build the source, copy, call, copy back, and release all of it whatever happened. */
#include "backend/opencl/opencl_int.h"

#include <stdlib.h>
#include <time.h>

struct session {
	struct opencl_library cl;
	const struct opencl_job *job;
	struct tw_error *e;
	cl_handle device, context, queue, program;
	cl_handle *memory, *kernels;
};

static enum tw_code failed(struct session *s, const char *doing, int32_t code)
{
	tw_error_set(s->e, TW_ERR_TOOLCHAIN, "OpenCL, %s: %s (error %d)", doing, opencl_error_text(code), (int)code);
	return TW_ERR_TOOLCHAIN;
}

static enum tw_code find_device(struct session *s, char *name)
{
	cl_handle platforms[16];
	uint32_t n = 0, devices = 0;
	int32_t code = s->cl.GetPlatformIDs(TW_COUNT(platforms), platforms, &n);
	n = n > TW_COUNT(platforms) ? TW_COUNT(platforms) : n;
	for (uint32_t i = 0; code == CL_SUCCESS && i < n && devices == 0; i++)
		if (s->cl.GetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, 1, &s->device, &devices) != CL_SUCCESS)
			devices = 0;
	if (code != CL_SUCCESS || devices == 0) {
		tw_error_set(
			s->e, TW_ERR_TOOLCHAIN,
			"OpenCL has no device here: %s\nhint: install a driver; one that runs on the processor is, on "
			"Debian: apt-get install pocl-opencl-icd",
			opencl_error_text(code != CL_SUCCESS ? code : -1));
		return TW_ERR_TOOLCHAIN;
	}
	if (name && s->cl.GetDeviceInfo(s->device, CL_DEVICE_NAME, 100, name, NULL) != CL_SUCCESS)
		strcpy(name, "unknown");
	s->context = s->cl.CreateContext(NULL, 1, &s->device, NULL, NULL, &code);
	if (!s->context)
		return failed(s, "making a context", code);
	s->queue = s->cl.CreateCommandQueue(s->context, s->device, 0, &code);
	return s->queue ? TW_ERR_OK : failed(s, "making a queue", code);
}

static enum tw_code build(struct session *s)
{
	int32_t code;
	s->program =
		s->cl.CreateProgramWithSource(s->context, 1, (const char **)(uintptr_t)&s->job->source, NULL, &code);
	if (!s->program)
		return failed(s, "taking the source", code);
	code = s->cl.BuildProgram(s->program, 1, &s->device, "", NULL, NULL);
	if (code != CL_SUCCESS) {
		char log[2000] = "";
		size_t n = 0;
		char *all = NULL;
		s->cl.GetProgramBuildInfo(s->program, s->device, CL_PROGRAM_BUILD_LOG, 0, NULL, &n);
		if (n > 0 && n < 1 << 24 && (all = calloc(n + 1, 1)))
			s->cl.GetProgramBuildInfo(s->program, s->device, CL_PROGRAM_BUILD_LOG, n, all, NULL);
		if (all)
			strncpy(log, all, sizeof(log) - 1);
		free(all);
		tw_error_set(s->e, TW_ERR_TOOLCHAIN, "OpenCL refuses the source (error %d):\n%s", (int)code, log);
		return TW_ERR_TOOLCHAIN;
	}
	for (int i = 0; i < s->job->ncalls; i++) {
		if (!s->job->calls[i].kernel)
			continue;
		s->kernels[i] = s->cl.CreateKernel(s->program, s->job->calls[i].kernel, &code);
		if (!s->kernels[i])
			return failed(s, "making a kernel", code);
	}
	return TW_ERR_OK;
}

static enum tw_code allocate(struct session *s)
{
	for (int i = 0; i < s->job->nbuffers; i++) {
		const struct opencl_buffer *b = &s->job->buffers[i];
		int32_t code = CL_SUCCESS;
		s->memory[i] = s->cl.CreateBuffer(s->context, CL_MEM_READ_WRITE, b->bytes > 0 ? (size_t)b->bytes : 1,
						  NULL, &code);
		if (!s->memory[i])
			return failed(s, "making a buffer", code);
		if (b->in && b->bytes > 0)
			code = s->cl.EnqueueWriteBuffer(s->queue, s->memory[i], CL_TRUE_, 0, (size_t)b->bytes, b->data,
							0, NULL, NULL);
		if (code != CL_SUCCESS)
			return failed(s, "copying to the device", code);
	}
	return TW_ERR_OK;
}

static enum tw_code set_arguments(struct session *s)
{
	for (int i = 0; i < s->job->ncalls; i++) {
		const struct opencl_call *c = &s->job->calls[i];
		int32_t code = CL_SUCCESS;
		for (int k = 0; k < c->nbuffers && code == CL_SUCCESS; k++)
			code = s->cl.SetKernelArg(s->kernels[i], (uint32_t)k, sizeof(cl_handle),
						  &s->memory[c->buffers[k]]);
		for (int k = 0; k < c->nsizes && code == CL_SUCCESS; k++)
			code = s->cl.SetKernelArg(s->kernels[i], (uint32_t)(c->nbuffers + k), sizeof(int64_t),
						  &c->sizes[k]);
		if (code != CL_SUCCESS)
			return failed(s, "giving a kernel its arguments", code);
	}
	return TW_ERR_OK;
}

static double now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static int32_t launch(struct session *s, int i)
{
	const struct opencl_call *c = &s->job->calls[i];
	const size_t local = (size_t)c->threads, global = (size_t)c->blocks * local;
	if (c->blocks <= 0)
		return CL_SUCCESS;
	return s->cl.EnqueueNDRangeKernel(s->queue, s->kernels[i], 1, NULL, &global, &local, 0, NULL, NULL);
}

static int32_t copy(struct session *s, const struct opencl_call *c)
{
	if (c->bytes <= 0)
		return CL_SUCCESS;
	return s->cl.EnqueueCopyBuffer(s->queue, s->memory[c->from], s->memory[c->to], (size_t)c->from_at,
				       (size_t)c->to_at, (size_t)c->bytes, 0, NULL, NULL);
}

static enum tw_code call(struct session *s, int runs, double *ms)
{
	for (int r = 0; r < runs; r++) {
		const double start = now_ms();
		for (int i = 0; i < s->job->ncalls; i++) {
			const struct opencl_call *c = &s->job->calls[i];
			const int32_t code = c->kernel ? launch(s, i) : copy(s, c);
			if (code != CL_SUCCESS)
				return failed(s, c->kernel ? c->kernel : "copying", code);
		}
		const int32_t code = s->cl.Finish(s->queue);
		if (code != CL_SUCCESS)
			return failed(s, "running", code);
		if (ms)
			ms[r] = now_ms() - start;
	}
	return TW_ERR_OK;
}

static enum tw_code copy_back(struct session *s)
{
	for (int i = 0; i < s->job->nbuffers; i++) {
		const struct opencl_buffer *b = &s->job->buffers[i];
		if (!b->out || b->bytes <= 0)
			continue;
		const int32_t code = s->cl.EnqueueReadBuffer(s->queue, s->memory[i], CL_TRUE_, 0, (size_t)b->bytes,
							     b->data, 0, NULL, NULL);
		if (code != CL_SUCCESS)
			return failed(s, "copying from the device", code);
	}
	return TW_ERR_OK;
}

static void release(struct session *s)
{
	for (int i = 0; s->kernels && i < s->job->ncalls; i++)
		if (s->kernels[i])
			s->cl.ReleaseKernel(s->kernels[i]);
	for (int i = 0; s->memory && i < s->job->nbuffers; i++)
		if (s->memory[i])
			s->cl.ReleaseMemObject(s->memory[i]);
	if (s->program)
		s->cl.ReleaseProgram(s->program);
	if (s->queue)
		s->cl.ReleaseCommandQueue(s->queue);
	if (s->context)
		s->cl.ReleaseContext(s->context);
	free(s->kernels);
	free(s->memory);
	opencl_unload(&s->cl);
}

enum tw_code opencl_run(const struct opencl_job *job, int runs, double *ms, char *device, struct tw_error *e)
{
	struct session s = {.job = job, .e = e};
	enum tw_code code = opencl_load(&s.cl, e);
	if (code != TW_ERR_OK)
		return code;
	s.memory = calloc((size_t)job->nbuffers + 1, sizeof(*s.memory));
	s.kernels = calloc((size_t)job->ncalls + 1, sizeof(*s.kernels));
	if (!s.memory || !s.kernels)
		tw_error_set(e, code = TW_ERR_MEMORY, "no memory for a run on OpenCL");
	if (code == TW_ERR_OK)
		code = find_device(&s, device);
	if (code == TW_ERR_OK)
		code = build(&s);
	if (code == TW_ERR_OK)
		code = allocate(&s);
	if (code == TW_ERR_OK)
		code = set_arguments(&s);
	if (code == TW_ERR_OK)
		code = call(&s, runs, ms);
	if (code == TW_ERR_OK)
		code = copy_back(&s);
	release(&s);
	return code;
}
