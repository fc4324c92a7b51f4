/* isa.c: instruction sets: names, what each offers, which of them run on the machine at hand.
 *
 * Input: a name or a number. Output: facts. An instruction set runs here when the processor has every extension that the generated code
 * for it uses and the system saves its registers. */
#include "target/target_int.h"

static const struct {
	const char *name;
	int lanes, vector_bytes, vector_registers;
	bool has_fma, has_dot4;
} sets[TW_ISA_COUNT] = {
	[TW_ISA_SCALAR] = {"scalar", 16, 0, 16, false, false},
	[TW_ISA_GENERIC] = {"generic", 4, 16, 16, false, false},
	[TW_ISA_NEON] = {"neon", 4, 16, 32, true, false},
	[TW_ISA_AVX2] = {"avx2", 8, 32, 16, true, false},
	[TW_ISA_AVX512] = {"avx512", 16, 64, 32, true, false},
	[TW_ISA_AVX512_VNNI] = {"avx512vnni", 16, 64, 32, true, true},
};

const char *tw_isa_name(enum tw_isa isa)
{
	return (unsigned)isa < TW_ISA_COUNT ? sets[isa].name : "unknown";
}

bool tw_isa_parse(const char *name, enum tw_isa *isa)
{
	for (int i = 0; i < TW_ISA_COUNT; i++) {
		if (strcmp(name, sets[i].name) == 0) {
			*isa = (enum tw_isa)i;
			return true;
		}
	}
	return false;
}

void tw_target_with_isa(struct tw_target *t, enum tw_isa isa)
{
	TW_CHECK((unsigned)isa < TW_ISA_COUNT, "instruction set %d", (int)isa);
	t->isa = isa;
	t->lanes = sets[isa].lanes;
	t->vector_bytes = sets[isa].vector_bytes;
	t->vector_registers = sets[isa].vector_registers;
	t->has_fma = sets[isa].has_fma;
	t->has_dot4 = sets[isa].has_dot4;
}

#if defined(__x86_64__)

#include <cpuid.h>

/* Which register files the system saves when it switches tasks: XCR0, readable once the system has switched it on. */
static uint64_t saved_state(void)
{
	enum { OSXSAVE = 1 << 27 };
	unsigned a, b, c, d, low, high;
	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & OSXSAVE))
		return 0;
	__asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
	return (uint64_t)high << 32 | low;
}

static bool extension_runs(enum tw_isa isa)
{
	enum { YMM = 0x06, ZMM = 0xe6 };
	const uint64_t saved = saved_state();
	__builtin_cpu_init();
	if (isa == TW_ISA_AVX2)
		return (saved & YMM) == YMM && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
	if (isa != TW_ISA_AVX512 && isa != TW_ISA_AVX512_VNNI)
		return false;
	if (isa == TW_ISA_AVX512_VNNI && !__builtin_cpu_supports("avx512vnni"))
		return false;
	return (saved & ZMM) == ZMM && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
	       __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
	       __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

#elif defined(__aarch64__)

/* Advanced SIMD is part of every 64-bit Arm processor that Linux runs on. */
static bool extension_runs(enum tw_isa isa)
{
	return isa == TW_ISA_NEON;
}

#else

static bool extension_runs(enum tw_isa isa)
{
	(void)isa;
	return false;
}

#endif

bool tw_isa_runs_here(enum tw_isa isa)
{
	return isa == TW_ISA_SCALAR || isa == TW_ISA_GENERIC || extension_runs(isa);
}
