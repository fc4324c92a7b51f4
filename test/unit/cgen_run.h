/* cgen_run: for tests of generated code: text to programs, programs to functions that can be called, with any
 * instruction set and compiler. */
#ifndef CGEN_RUN_H
#define CGEN_RUN_H

#include "backend/backend.h"
#include "ir/ir.h"

typedef void kernel_fn(int64_t core, void *const *buf, const int64_t *sym, void *scratch);

struct compiled {
	struct tw_object object;
	void *handle;
	int fd;
	kernel_fn **fns; /* kernel i */
};

/* Fails the test with the error's text when something goes wrong. */
struct twir_module *cgen_parse(struct tw_arena *a, const char *text);
/* without asking the machine: has_fma is set for the wide ones only */
void cgen_target(struct tw_target *t, enum tw_isa isa);
bool cgen_runs_here(enum tw_isa isa);
bool cgen_compiler(struct tw_toolchain *tc, const char *command); /* false: not installed */
void cgen_compile(struct compiled *c, struct tw_arena *a, struct twir_module *m, int n,
		  struct twir_program *const *programs, const struct tw_target *t, const struct tw_toolchain *tc);
void cgen_close(struct compiled *c);
/* All core items in order, scratch provided; symbols as in p->symbols. */
void cgen_call(const struct compiled *c, int kernel, struct twir_module *m, const struct twir_program *p,
	       void *const *buf, const int64_t *sym);

#endif
