/* cpu_passes: the order of lowering for CPUs. */
#include "pass/pass_int.h"

/* Simplifying a whole program costs more than any pass: it happens where later passes look at shapes of statements
 * and guards. */
const struct tw_pass tw_cpu_passes[] = {
	{"inline_math", pass_inline_math, "nothing", "nothing; no calls afterwards", false},
	{"bound_within", pass_bound_within, "mappings", "nothing; no bounds afterwards", false},
	{"expand_mapping", pass_expand_mapping, "bound_within", "mappings, but for lane regions", true},
	{"specialise", pass_specialise, "expand_mapping", "nothing; no specialise afterwards", true},
	{"flatten_index", pass_flatten_index, "expand_mapping", "shapes and layouts", false},
	{"lower_lanes", pass_lower_lanes, "flatten_index", "lane regions, mirrors", false},
	{"unroll_registers", pass_unroll_registers, "lower_lanes", "nothing", false},
	{"hoist", pass_hoist, "unroll_registers", "nothing", false},
	{"share", pass_share, "nothing", "nothing", false},
	{"shift", pass_shift, "nothing", "quotients", false},
	{NULL, NULL, NULL, NULL, false},
};
