/* cgen: the one emitter of C-like text. Input: lowered programs. What differs between targets is a dialect: a table of strings, no code.
 * A kernel is  void NAME(i64 core, void *const *buf, const i64 *sym, void *scratch). */
#ifndef TW_CGEN_H
#define TW_CGEN_H

#include "ir/ir.h"
#include "target/target.h"

struct tw_dialect; /* dialect.h: rows for types, masked load and store, gather, select, min, max, fma, rounding, reductions, prefetch */
const struct tw_dialect *tw_dialect_for(enum tw_isa isa);
const struct tw_dialect *tw_dialect_of(const struct tw_target *t);

/* The helpers and types that functions need of the file they stand in. */
struct cgen_uses;
struct cgen_uses *cgen_uses_new(struct tw_arena *a, const struct tw_dialect *d);
void cgen_uses_join(struct cgen_uses *to, const struct cgen_uses *from); /* from's, after its own */
/* The prelude that every file starts with: typedefs and helpers. */
void cgen_prelude(struct tw_buf *out, struct cgen_uses *u);
/* One function; what it needs joins u. Local names are canonical, so that equal programs give equal text but for `name`. */
void cgen_kernel(struct tw_buf *out, struct cgen_uses *u, struct twir_module *m, const struct twir_program *p,
		 const char *name);
/* file.c: a text that stands alone: how it is called, the prelude, the kernel under the program's name. */
void cgen_file(struct tw_buf *out, const struct tw_target *t, struct twir_module *m, int n,
	       struct twir_program *const *programs);
/* names.c: what the function of a program is called there. */
const char *cgen_function_name(struct tw_arena *a, const char *name);
/* kernel_gpu.c: threads of a block; bytes of its shared memory. Both raise where they are not constant. */
int64_t cgen_threads(const struct twir_program *p);
int64_t cgen_pool_bytes(struct twir_module *m, const struct twir_program *p);
/* Bytes of scratch a core item needs, as an expression over symbols (0: none): the sum of the shared tensors, each rounded up to 64 bytes. */
const struct twir_expr *cgen_scratch(struct twir_module *m, const struct twir_program *p);

#endif
