/* evaluate.h: runs a graph by its compute definitions in the interpreter: slow, and the reference that everything
   compiled is held against. */
#ifndef TW_EVALUATE_H
#define TW_EVALUATE_H

#include "ops/op.h"

struct tw_value { /* a tensor in memory, row-major, in its storage type; data NULL: not known */
	void *data;
	int rank;
	int64_t dims[TWIR_MAX_RANK];
	int64_t elements;
};

/* inputs: one for each of g->inputs, with dims that fit the binding of the symbols. Returns a value for each tensor
   of the graph, in the arena. Raises TW_ERR_UNSUPPORTED for host operators and TW_ERR_INPUT when sizes break a
   requirement of the graph. */
struct tw_value *tw_graph_evaluate(struct tw_graph *g, struct tw_arena *a, const struct twir_binding *b,
				   const struct tw_value *inputs);

#endif
