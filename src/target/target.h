/* target: what the machine has: instruction set, lanes, registers, caches, cores. Templates and passes ask here and nowhere else. */
#ifndef TW_TARGET_H
#define TW_TARGET_H

#include "base/base.h"

enum tw_isa {
	TW_ISA_SCALAR,
	TW_ISA_GENERIC,
	TW_ISA_NEON,
	TW_ISA_AVX2,
	TW_ISA_AVX512,
	TW_ISA_AVX512_VNNI,
	TW_ISA_COUNT
};

/* What a program's outermost workers run on. */
enum tw_device { TW_DEVICE_CPU, TW_DEVICE_CUDA, TW_DEVICE_OPENCL };

struct tw_target {
	enum tw_device device;
	enum tw_isa isa; /* of a CPU */
	int lanes;	 /* of 32 bits in a vector register: 16, 8, 4, 4 (generic); scalar: 16, run one after another */
	int vector_bytes;     /* 64, 32, 16; scalar: 0 */
	int vector_registers; /* 32, 16, 32 (NEON), 16 */
	bool has_fma;
	bool has_dot4;			      /* one instruction for the IR's dot4 of a vector */
	int64_t l1_bytes, l2_bytes, l3_bytes; /* per core: data; 0 never: guessed when unknown */
	int cores;     /* physical cores this process may use: affinity mask and cgroup quota respected */
	char cpu[128]; /* "Intel(R) Xeon(R) .." */
	/* of a GPU */
	const char *gpu;			   /* "sm_90", "opencl" */
	int capability;				   /* 90: of CUDA; 0: OpenCL */
	int warp, block_threads;		   /* threads of a warp; threads of a block, at most */
	int64_t static_shared_bytes, shared_bytes; /* of a block: declared as arrays; in all */
};

const char *tw_isa_name(enum tw_isa isa); /* "avx512" */
bool tw_isa_parse(const char *name, enum tw_isa *isa);
bool tw_isa_runs_here(enum tw_isa isa);
/* The machine at hand. TILEWRIGHT_ISA=avx2 .. in the environment chooses a lesser instruction set (raises TW_ERR_USAGE when it cannot run here). */
void tw_target_host(struct tw_target *t);
/* The same without its topology, for those in a hurry: caches, cores and the name stay empty. text: what the processor says of itself,
   such that machines with equal texts have equal caches; where it says nothing, topology is asked after all. */
void tw_target_identify(struct tw_target *t, char *text, size_t size);
/* GPUs by name, whether or not there is one here: sm_80, sm_90, opencl. False: no such target. */
bool tw_target_gpu(struct tw_target *t, const char *name);
/* The same machine restricted to an instruction set. */
void tw_target_with_isa(struct tw_target *t, enum tw_isa isa);

#endif
