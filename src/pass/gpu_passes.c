/* gpu_passes: the order of lowering for GPUs. A thread is what runs, so lanes are workers like others, vectors are
 * numbers beside each other, and registers are arrays of each thread's own. */
#include "pass/pass_int.h"

const struct tw_pass tw_gpu_passes[] = {
	{"inline_math", pass_inline_math, "nothing", "nothing; no calls afterwards", false},
	{"name_workers", pass_name_workers, "nothing", "nothing; workers are those launched", false},
	{"bound_within", pass_bound_within, "mappings", "nothing; no bounds afterwards", false},
	{"expand_mapping", pass_expand_mapping, "bound_within", "mappings", true},
	{"specialise", pass_specialise, "expand_mapping", "nothing; no specialise afterwards", true},
	{"flatten_index", pass_flatten_index, "expand_mapping", "shapes and layouts", false},
	{"split_vectors", pass_split_vectors, "flatten_index", "nothing; no vectors afterwards", true},
	{"local_registers", pass_local_registers, "expand_mapping", "mirrors and layouts of registers", true},
	{"unroll_registers", pass_unroll_registers, "local_registers", "nothing", false},
	{"hoist", pass_hoist, "unroll_registers", "nothing", false},
	{"bind_shuffles", pass_bind_shuffles, "nothing", "nothing; shuffles are the values of lets", false},
	{"share", pass_share, "nothing", "nothing", false},
	{"shift", pass_shift, "nothing", "quotients", false},
	{NULL, NULL, NULL, NULL, false},
};
