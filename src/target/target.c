/* target.c: the machine at hand as the compiler sees it.
 *
 * Input: the machine, and TILEWRIGHT_ISA from the environment. Output: struct tw_target.
 * Invariant: the instruction set given runs here. */
#include "target/target_int.h"

#include <stdio.h>
#include <stdlib.h>

static enum tw_isa best_isa(void)
{
	enum tw_isa isa = TW_ISA_COUNT - 1;
	while (!tw_isa_runs_here(isa))
		isa--;
	/* Scalar code is for comparison; the generic vectors of the compiler are never worse. */
	return isa == TW_ISA_SCALAR ? TW_ISA_GENERIC : isa;
}

static enum tw_isa chosen_isa(void)
{
	const char *name = getenv("TILEWRIGHT_ISA");
	if (!name || !*name)
		return best_isa();
	enum tw_isa isa;
	if (!tw_isa_parse(name, &isa))
		tw_raise(TW_ERR_USAGE,
			 "TILEWRIGHT_ISA=%.40s: no such instruction set; there are avx512vnni, avx512, avx2, neon, "
			 "generic, scalar",
			 name);
	if (!tw_isa_runs_here(isa))
		tw_raise(TW_ERR_USAGE, "TILEWRIGHT_ISA=%s: this processor cannot run it; the best it has is %s", name,
			 tw_isa_name(best_isa()));
	return isa;
}

void tw_target_identify(struct tw_target *t, char *text, size_t size)
{
	*t = (struct tw_target){.isa = TW_ISA_SCALAR};
	tw_target_with_isa(t, chosen_isa());
	if (target_identity(text, size))
		return;
	tw_target_host(t);
	snprintf(text, size, "%s, caches %lld %lld %lld", t->cpu, (long long)t->l1_bytes, (long long)t->l2_bytes,
		 (long long)t->l3_bytes);
}

void tw_target_host(struct tw_target *t)
{
	*t = (struct tw_target){.isa = TW_ISA_SCALAR};
	const enum tw_isa isa = chosen_isa();
	target_topology(t);
	const int quota = tw_cgroup_cpus("");
	if (quota > 0 && quota < t->cores)
		t->cores = quota;
	tw_target_with_isa(t, isa);
}
