/* opencl_int: the part of OpenCL 1.2's interface that is used, declared here so that no header is needed. Names and
 * numbers are those of the specification. */
#ifndef TW_OPENCL_INT_H
#define TW_OPENCL_INT_H

#include "backend/opencl/opencl.h"

typedef struct cl_object *cl_handle; /* platforms, devices, contexts, queues, memory, programs and kernels */

enum {
	CL_SUCCESS = 0,
	CL_FALSE_ = 0,
	CL_TRUE_ = 1,
	CL_DEVICE_NAME = 0x102b,
	CL_PROGRAM_BUILD_LOG = 0x1183,
	CL_MEM_READ_WRITE = 1 << 0
};
#define CL_DEVICE_TYPE_ALL 0xffffffffull

/* name, result, arguments */
#define OPENCL_FUNCTIONS(F)                                                                                            \
	F(GetPlatformIDs, int32_t, (uint32_t n, cl_handle * platforms, uint32_t * count))                              \
	F(GetDeviceIDs, int32_t,                                                                                       \
	  (cl_handle platform, uint64_t type, uint32_t n, cl_handle * devices, uint32_t * count))                      \
	F(GetDeviceInfo, int32_t, (cl_handle device, uint32_t what, size_t n, void *value, size_t *size))              \
	F(CreateContext, cl_handle,                                                                                    \
	  (const intptr_t *properties, uint32_t n, const cl_handle *devices,                                           \
	   void (*notify)(const char *text, const void *info, size_t n, void *arg), void *arg, int32_t *error))        \
	F(CreateCommandQueue, cl_handle, (cl_handle context, cl_handle device, uint64_t properties, int32_t * error))  \
	F(CreateBuffer, cl_handle, (cl_handle context, uint64_t flags, size_t bytes, void *host, int32_t *error))      \
	F(CreateProgramWithSource, cl_handle,                                                                          \
	  (cl_handle context, uint32_t n, const char **texts, const size_t *lengths, int32_t *error))                  \
	F(BuildProgram, int32_t,                                                                                       \
	  (cl_handle program, uint32_t n, const cl_handle *devices, const char *options,                               \
	   void (*notify)(cl_handle program, void *arg), void *arg))                                                   \
	F(GetProgramBuildInfo, int32_t,                                                                                \
	  (cl_handle program, cl_handle device, uint32_t what, size_t n, void *value, size_t *size))                   \
	F(CreateKernel, cl_handle, (cl_handle program, const char *name, int32_t *error))                              \
	F(SetKernelArg, int32_t, (cl_handle kernel, uint32_t number, size_t bytes, const void *value))                 \
	F(EnqueueWriteBuffer, int32_t,                                                                                 \
	  (cl_handle queue, cl_handle memory, uint32_t wait, size_t offset, size_t bytes, const void *from,            \
	   uint32_t nevents, const cl_handle *events, cl_handle *event))                                               \
	F(EnqueueReadBuffer, int32_t,                                                                                  \
	  (cl_handle queue, cl_handle memory, uint32_t wait, size_t offset, size_t bytes, void *to, uint32_t nevents,  \
	   const cl_handle *events, cl_handle *event))                                                                 \
	F(EnqueueCopyBuffer, int32_t,                                                                                  \
	  (cl_handle queue, cl_handle from, cl_handle to, size_t from_at, size_t to_at, size_t bytes,                  \
	   uint32_t nevents, const cl_handle *events, cl_handle *event))                                               \
	F(EnqueueNDRangeKernel, int32_t,                                                                               \
	  (cl_handle queue, cl_handle kernel, uint32_t dims, const size_t *offset, const size_t *global,               \
	   const size_t *local, uint32_t nevents, const cl_handle *events, cl_handle *event))                          \
	F(Finish, int32_t, (cl_handle queue))                                                                          \
	F(ReleaseKernel, int32_t, (cl_handle kernel))                                                                  \
	F(ReleaseProgram, int32_t, (cl_handle program))                                                                \
	F(ReleaseMemObject, int32_t, (cl_handle memory))                                                               \
	F(ReleaseCommandQueue, int32_t, (cl_handle queue))                                                             \
	F(ReleaseContext, int32_t, (cl_handle context))

struct opencl_library {
	void *handle;
#define F(name, result, arguments) result(*name) arguments;
	OPENCL_FUNCTIONS(F)
#undef F
};

/* library.c */
enum tw_code opencl_load(struct opencl_library *cl, struct tw_error *e);
void opencl_unload(struct opencl_library *cl);
const char *opencl_error_text(int32_t code);

#endif
