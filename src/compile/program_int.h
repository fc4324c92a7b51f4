/* program_int: between the files about single programs. */
#ifndef TW_PROGRAM_INT_H
#define TW_PROGRAM_INT_H

#include "compile/compile_int.h"
#include "compile/program.h"

struct tw_program {
	struct tw_arena *arena;
	struct twir_module *m; /* as parsed: nothing lowers it */
	const char *name, *text;
	struct twir_launch *chosen; /* NULL: see tw_program_choose; of a program alone: calls it with its parameters */
	struct twir_program *program; /* the program alone; NULL: a launch function is chosen */
	const char *launch;	      /* the text of a launch function that is chosen; else NULL */
	bool bytes; /* `chosen` has bytes for parameters of packed types: calls more than the program alone */
	int nparams;
	struct tw_param *params;
	int nsymbols; /* of the chosen program */
	int64_t *values;
};

/* A fresh copy of what was chosen, to be lowered, in an arena of its own: passes change programs in place. */
struct twpr_copy {
	struct tw_arena *arena;
	struct twir_module *m;
	struct twir_launch *launch;
	VEC(struct twir_program *) programs; /* that it calls, each once; their parameters: inputs, then outputs */
};

/* Raises. Parses the text anew into c->arena; symbols of o->fixed_names get their one value, lanes(TYPE) is
   as of o->isa. */
void twpr_copy(struct twpr_copy *c, const struct tw_program *p, const struct tw_compile_options *o);
/* Runs fn with a copy; the arena is freed whatever happens. */
enum tw_code twpr_with_copy(const struct tw_program *p, const struct tw_compile_options *o,
			    void (*fn)(struct twpr_copy *c, void *arg), void *arg, struct tw_error *e);
bool twpr_is_gpu(const struct twir_program *p);
/* program_bytes.c: with a byte for each element of parameters of packed types; l itself where there are none */
struct twir_launch *twpr_with_bytes(struct twir_module *m, struct twir_launch *l);
void twpr_take_bytes(struct twpr_copy *c);				  /* the same for a copy that is to be run */
int twpr_number(const struct twpr_copy *c, const struct twir_program *p); /* of a program that is called */
/* program_lower.c: lowers all programs of the copy for a target; NULL: what suits them. Raises. */
void twpr_lower(struct twpr_copy *c, const char *target, struct tw_target *t,
		void (*after)(void *arg, const char *name, const struct twir_program *p), void *arg);
/* program_image.c: a symbol is the size of an input */
bool twpr_told_by_input(const struct twir_launch *l, const struct twir_var *v, struct twrt_source *source);
/* Symbols that no input tells get their values as facts. Raises where one has none. */
void twpr_fix_others(const struct tw_program *p, struct twpr_copy *c);
/* program_plan.c: fills c->plan; begin before the programs are lowered, end after they are compiled. Raise. */
struct twpr_planner;
struct twpr_planner *twpr_plan_begin(struct twc *c, struct twpr_copy *copy);
void twpr_plan_end(struct twpr_planner *p);
struct twir_binding twpr_binding(const struct tw_program *p);
/* program_run.c: a program is chosen and all its sizes have values */
int64_t twpr_elements(const struct tw_program *p, int i); /* of a parameter; raises where it has a layout */
enum tw_code twpr_all_known(const struct tw_program *p, struct tw_error *e);

#endif
