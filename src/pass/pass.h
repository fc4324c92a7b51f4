/* pass: lowering of tensor programs, one pass a file. Order, needs and breaks: the table in cpu_passes.c. Each pass changes the program in place
 * (statements may be replaced, nothing is shared with other programs); the verifier accepts the result; the interpreter gives the same numbers, bit for bit. */
#ifndef TW_PASS_H
#define TW_PASS_H

#include "ir/ir.h"
#include "target/target.h"

typedef void tw_pass_fn(struct twir_module *m, struct twir_program *p, const struct tw_target *t);

tw_pass_fn
	pass_inline_math; /* calls become lets before the statement (guarded when they hold loads under a Cond); casts of f16, bf16, f8.. too */
tw_pass_fn pass_bound_within; /* `within` and surplus workers become shorter repeats and guards (If) */
tw_pass_fn
	pass_expand_mapping; /* for-mappings become loops and arithmetic on workers; only `for (l) in spatial(L) on lane` regions remain */
tw_pass_fn
	pass_specialise; /* copies bodies under their condition; also at lane guards that are uniform but for the last vector */
tw_pass_fn
	pass_flatten_index; /* layouts become offsets: all loads and stores of in, out and shared tensors have one index */
tw_pass_fn
	pass_lower_lanes; /* lane regions become vectors, masks, reductions; for a scalar target: a loop over the lanes */
tw_pass_fn
	pass_unroll_registers; /* loops that index register tensors are unrolled, register tensors become rank-0 tensors (named variables);
                                     loads repeated with no store between become lets */
tw_pass_fn pass_name_workers;	 /* GPU: `thread`, or `warp` and `lane`, in terms of the levels launched */
tw_pass_fn pass_split_vectors;	 /* GPU: vectors become numbers, lane by lane */
tw_pass_fn pass_local_registers; /* GPU: register tensors hold what one thread owns: no mirrors, no layouts */
tw_pass_fn pass_bind_shuffles;	 /* GPU: shuffles become lets before their statements */
tw_pass_fn pass_hoist;		 /* index arithmetic that is fixed in a loop becomes lets before it */
tw_pass_fn pass_share; /* pure sub-expressions used twice in a statement become lets, so that text and C stay linear */
tw_pass_fn pass_shift; /* quotients and remainders by powers of two become shifts and masks */
tw_pass_fn pass_simplify; /* twir_simplify_program */

struct tw_pass {
	const char *name;
	tw_pass_fn *run;
	const char *needs, *breaks;
	bool simplify; /* pass_simplify runs after it; the others simplify what they make */
};
extern const struct tw_pass tw_cpu_passes[]; /* cpu_passes.c: in order, ends with name == NULL */
extern const struct tw_pass tw_gpu_passes[]; /* gpu_passes.c: likewise */
/* Those of the machine that the program is launched on. */
const struct tw_pass *tw_passes(const struct twir_program *p);
/* Runs all; after(arg, name, p) is called with "input" and after each pass (NULL: none), for dumps and tests. */
void tw_lower(struct twir_module *m, struct twir_program *p, const struct tw_target *t,
	      void (*after)(void *arg, const char *name, const struct twir_program *p), void *arg);

#endif
