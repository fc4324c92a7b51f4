/* custom_int: between the files of custom operators. */
#ifndef TW_CUSTOM_INT_H
#define TW_CUSTOM_INT_H

#include "ops/custom.h"

/* A text in the graph's module, and what it is for one node: passes and definitions own what they get. */
struct custom {
	struct tw_opctx *x;
	const struct tw_custom *text;
	VEC(struct twir_tensor *) tensors;
	VEC(struct twir_compute *) computes;
	VEC(struct twir_program *) programs;
	VEC(struct twir_launch *) launches;
	VEC(struct twir_var *) symbols;
	struct twir_program *program; /* what is scheduled; NULL: definitions, or a launch function */
	struct twir_launch *launch;
	VEC(struct twir_tensor *) inputs, outputs; /* of the text */
	struct twir_subst sizes;		   /* symbols -> sizes of the graph */
	struct tw_map attrs;			   /* tensor -> struct tw_attr whose value it has */
};

/* custom_text.c: parses and sorts; raises TW_ERR_MODEL for what no node could make right. */
void custom_read(struct custom *c, struct twir_module *m, struct tw_arena *a);
/* custom.c: values for symbols, from the node at hand; what does not fit is refused. */
void custom_bind(struct custom *c);
const struct twir_expr *custom_size(struct custom *c, const struct twir_expr *e);
/* custom_program.c: the definition that stands for the programs. */
void custom_programs(struct custom *c);

#endif
