/* Inside compile: what the steps of the pipeline hand on. */
#ifndef TW_COMPILE_INT_H
#define TW_COMPILE_INT_H

#include "backend/backend.h"
#include "cgen/cgen.h"
#include "compile/compile.h"
#include "onnx/onnx.h"
#include "opt/opt.h"
#include "pass/pass.h"
#include "rt/rt.h"

struct twc_value { /* a symbol that is the value of an input's element */
	struct twir_var *symbol;
	int input, element;
};

struct twc_kernel {	  /* what the plan says of a kernel */
	const char *name; /* of the program */
	int nsymbols;
	struct twir_var **symbols;
	const struct twir_expr *cores, *scratch; /* work items; bytes for each */
};

struct twc {
	struct tw_arena *arena;
	struct twir_module *m;
	struct tw_graph *g;
	const struct tw_compile_options *o;
	bool reference; /* nodes are evaluated by their definitions */
	struct tw_onnx_files files;
	struct tw_target target;
	struct tw_toolchain toolchain;
	struct tw_definitions definitions;
	struct tw_groups groups;
	VEC(struct twc_kernel) kernels; /* of the groups' launches, in order */
	struct cpu_kernels *texts;	/* their C */
	bool compiles;			/* C compilers start while programs are still being lowered */
	struct tw_object code;
	VEC(struct twc_value) value_symbols;
	VEC(struct twir_var *) symbols; /* of the plan: those that some input's size tells */
	struct twrt_plan plan;
	int nkept;	/* of the graph's outputs, at the end: keep.c */
	double started; /* seconds */
	/* Called with every program as scheduled ("input") and after each pass; NULL: none. Dumps and tests hang here. */
	void (*after)(void *arg, struct twc *c, int number, const char *pass, const struct twir_program *p);
	void *after_arg;
};

/* compile.c: the steps from the model's bytes to lowered programs and their C */
void twc_lowered(struct twc *c, const void *model, int64_t bytes, const char *folder);

/* kernels.c: groups to kernels */
void twc_kernels(struct twc *c);
int twc_jobs(const struct twc *c); /* compilers or threads at once */

/* Raises TW_ERR_CANCELLED when the caller asks to stop. */
void twc_progress(struct twc *c, const char *stage, int done, int all);
void twc_log(struct twc *c, enum tw_log_level level, const char *fmt, ...) TW_PRINTF(3, 4);

/* graph.c: import and infer */
void twc_graph(struct twc *c, const void *model, int64_t bytes, const char *folder);
/* dump.c: an `after` that writes one file for each program and pass to the options' dump_dir */
void twc_dump(void *arg, struct twc *c, int number, const char *pass, const struct twir_program *p);
/* keep.c: tensors that do not lie in row-major order get a copy that does, to be kept: between the choice of layouts and
   scheduling; the rest between scheduling and planning */
void twc_keep_row_major(struct twc *c);
void twc_keep(struct twc *c);
/* interpret.c: not a node that the compiler put in by itself, such as a check of indices */
bool twc_is_of_model(const struct tw_node *n);
/* size_expr.c */
int twc_symbol(const struct twc *c, const struct twir_var *v); /* its number in the plan */
struct twrt_expr twc_size(const struct twc *c, const struct twir_expr *e);
/* plan.c */
void twc_plan(struct twc *c);
/* Where the value of a symbol comes from: the first input dimension that is just this symbol, or an element of an
   input. */
bool twc_find_source(const struct twc *c, const struct twir_var *v, struct twrt_source *source);
enum twrt_type twc_type(enum twir_scalar s);

#endif
