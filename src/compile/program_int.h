/* program_int: between the files about single programs. */
#ifndef TW_PROGRAM_INT_H
#define TW_PROGRAM_INT_H

#include "compile/compile_int.h"
#include "compile/program.h"

struct tw_program {
	struct tw_arena *arena;
	struct twir_module *m; /* as parsed: nothing lowers it */
	const char *name, *text;
	struct twir_program *chosen; /* NULL: see tw_program_choose */
	int nparams;
	struct tw_param *params;
	int nsymbols; /* of the chosen program */
	int64_t *values;
};

/* A fresh copy of the chosen program to be lowered, in an arena of its own: passes change programs in place. */
struct twpr_copy {
	struct tw_arena *arena;
	struct twir_module *m;
	struct twir_program *program;
};

/* Raises. Parses the text anew into c->arena; symbols of o->fixed_names get their one value, lanes(TYPE) is
   as of o->isa. */
void twpr_copy(struct twpr_copy *c, const struct tw_program *p, const struct tw_compile_options *o);
/* Runs fn with a copy; the arena is freed whatever happens. */
enum tw_code twpr_with_copy(const struct tw_program *p, const struct tw_compile_options *o,
			    void (*fn)(struct twpr_copy *c, void *arg), void *arg, struct tw_error *e);
bool twpr_is_gpu(const struct twir_program *p);
struct twir_binding twpr_binding(const struct tw_program *p);
/* program_run.c: a program is chosen and all its sizes have values */
int64_t twpr_elements(const struct tw_program *p, int i); /* of a parameter; raises where it has a layout */
enum tw_code twpr_all_known(const struct tw_program *p, struct tw_error *e);

#endif
