/* flags: what the compiler is told. Generated files have no headers and call no library: -fno-builtin and
 * -fno-tree-loop-distribute-patterns keep loops from becoming memcpy, -nostdlib and --no-undefined prove it at link
 * time. Rounding is the text's: no contraction, no reordering. */
#include "backend/cpu/cpu_int.h"

static const char *const common = "-std=gnu11 -O2 -fPIC -ffp-contract=off -fno-math-errno -fno-trapping-math -fwrapv "
				  "-fno-strict-aliasing -fno-builtin -fno-stack-protector "
				  "-fno-asynchronous-unwind-tables -fno-ident -Wno-psabi -Wno-unknown-pragmas";

static bool is_zig(const struct tw_toolchain *tc)
{
	return strstr(tc->command, "zig") != NULL;
}

static const char *isa_flags(const struct tw_target *t)
{
#if defined(__x86_64__)
	switch (t->isa) {
	case TW_ISA_AVX512_VNNI:
		return "-mavx2 -mfma -mf16c -mavx512f -mavx512cd -mavx512bw -mavx512dq -mavx512vl -mavx512vnni "
		       "-mprefer-vector-width=512 -fcf-protection=none";
	case TW_ISA_AVX512:
		return "-mavx2 -mfma -mf16c -mavx512f -mavx512cd -mavx512bw -mavx512dq -mavx512vl "
		       "-mprefer-vector-width=512 -fcf-protection=none";
	case TW_ISA_AVX2:
		return "-mavx2 -mfma -mf16c -fcf-protection=none";
	case TW_ISA_NEON: /* by a cross compiler */
		return "";
	default:
		return t->has_fma ? "-mfma -fcf-protection=none" : "-fcf-protection=none";
	}
#else
	(void)t;
	return "";
#endif
}

void cpu_compile_flags(struct command *c, const struct tw_target *t, const struct tw_toolchain *tc)
{
	command_add(c, tc->command);
	command_add(c, common);
	if (!tc->is_clang) /* values that it carried from turn to turn would take the registers that tiles need */
		command_add(c, "-fno-tree-loop-distribute-patterns -fno-predictive-commoning");
	if (is_zig(tc)) /* it adds traps by default */
		command_add(c, "-fno-sanitize=all");
	command_add(c, isa_flags(t));
}

void cpu_link_flags(struct command *c, const struct tw_toolchain *tc)
{
	command_add(c, tc->command);
	command_add(c, "-shared -fPIC -nostdlib -Wl,--no-undefined -Wl,-z,noexecstack -Wl,-s");
	if (!is_zig(tc))
		command_add(c, "-Wl,--build-id=none");
}
