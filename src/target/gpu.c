/* gpu.c: what the GPU targets have, from their makers' documents. Input: a name; output: facts. No device is asked: code
 * is made for them on machines that have none. */
#include "target/target_int.h"

static const struct tw_target gpus[] = {
	{.device = TW_DEVICE_CUDA,
	 .gpu = "sm_80",
	 .capability = 80,
	 .lanes = 1,
	 .warp = 32,
	 .block_threads = 1024,
	 .static_shared_bytes = 48 << 10,
	 .shared_bytes = 163 << 10},
	{.device = TW_DEVICE_CUDA,
	 .gpu = "sm_90",
	 .capability = 90,
	 .lanes = 1,
	 .warp = 32,
	 .block_threads = 1024,
	 .static_shared_bytes = 48 << 10,
	 .shared_bytes = 227 << 10},
	/* What a device of OpenCL 1.2 must have is 32 KB; those that exist have more and refuse what they cannot do. */
	{.device = TW_DEVICE_OPENCL,
	 .gpu = "opencl",
	 .lanes = 1,
	 .warp = 32,
	 .block_threads = 1024,
	 .static_shared_bytes = 64 << 10,
	 .shared_bytes = 64 << 10},
};

bool tw_target_gpu(struct tw_target *t, const char *name)
{
	for (int i = 0; i < TW_COUNT(gpus); i++)
		if (strcmp(gpus[i].gpu, name) == 0) {
			*t = gpus[i];
			t->isa = TW_ISA_GENERIC;
			t->has_fma = true;
			return true;
		}
	return false;
}
