/* opencl: runs kernels of OpenCL C on the first device of the machine. The library (libOpenCL.so.1, which finds the
 * devices' drivers) is loaded when a run asks for it: nothing of OpenCL is needed to build or to use the rest. */
#ifndef TW_OPENCL_H
#define TW_OPENCL_H

#include "base/base.h"

struct opencl_buffer {
	void *data; /* the caller's; NULL: memory of the device only */
	int64_t bytes;
	bool in, out; /* copied to the device before the first run; from it after the last */
};

/* A kernel's call, or a copy between buffers. */
struct opencl_call {
	const char *kernel; /* NULL: a copy */
	int from, to;
	int64_t from_at, to_at, bytes;
	int nbuffers, nsizes;
	const int *buffers;   /* numbers of buffers, the first arguments */
	const int64_t *sizes; /* integers of 64 bits, the arguments behind them */
	int64_t blocks, threads;
};

struct opencl_job {
	const char *source;
	int nbuffers, ncalls;
	const struct opencl_buffer *buffers;
	const struct opencl_call *calls; /* one after the other */
};

/* Builds the source once and makes the calls `runs` times; ms (NULL: nobody asks) gets what each took, without the
   copies. TW_ERR_TOOLCHAIN: there is no OpenCL, or its compiler refuses the source. device: at least 100 characters, or
   NULL: gets the device's name. */
enum tw_code opencl_run(const struct opencl_job *job, int runs, double *ms, char *device, struct tw_error *e);

#endif
