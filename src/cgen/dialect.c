/* dialect: which table of rows an instruction set has. */
#include "cgen/cgen_int.h"

static const struct tw_dialect dialects[TW_ISA_COUNT] = {
	[TW_ISA_SCALAR] = {"scalar", 16, cgen_rows_plain},
	[TW_ISA_GENERIC] = {"generic", 16, cgen_rows_plain},
	[TW_ISA_NEON] = {"neon", 16, cgen_rows_neon},
	[TW_ISA_AVX2] = {"avx2", 32, cgen_rows_avx2},
	[TW_ISA_AVX512] = {"avx512", 64, cgen_rows_avx512},
	[TW_ISA_AVX512_VNNI] = {"avx512vnni", 64, cgen_rows_avx512, cgen_rows_vnni},
};

static const struct tw_dialect cuda = {"cuda", 16, cgen_rows_cuda, NULL, &cgen_words_cuda},
			       opencl = {"opencl", 16, cgen_rows_opencl, NULL, &cgen_words_opencl};

const struct tw_dialect *tw_dialect_of(const struct tw_target *t)
{
	if (t->device == TW_DEVICE_CUDA)
		return &cuda;
	return t->device == TW_DEVICE_OPENCL ? &opencl : tw_dialect_for(t->isa);
}

const struct tw_dialect *tw_dialect_for(enum tw_isa isa)
{
	TW_CHECK((int)isa >= 0 && isa < TW_ISA_COUNT, "instruction set %d", (int)isa);
	return &dialects[isa];
}
