/* custom: operators whose meaning or whose program is a text of the language, given by who compiles a model. Input: texts
 * by name and domain; output: rows like those of other operators.
 *
 * Definitions: tensors declared with `tensor` are the inputs in order, but for those named like an attribute of the
 * node, which get its value; definitions that no other one reads are the outputs in order. They go the way of every
 * operator's definitions. A program, or a launch function that calls programs one after the other: parameters are inputs
 * and the output. It is an anchor: what makes its inputs is fused into its loads, what uses its output into its stores.
 * Definitions beside it say what it means, to those that evaluate models as a reference. Symbols get their values from the
 * inputs' sizes and from integer attributes of the same name. */
#ifndef TW_CUSTOM_H
#define TW_CUSTOM_H

#include "ops/op.h"

struct tw_custom {
	const char *domain; /* NULL: any */
	const char *name;
	const char *file, *text; /* file: what errors call the text */
	struct tw_op op;	 /* made by tw_custom_row */
};

/* Looks the text over, so that what is wrong with it is said even where no node uses it; fills the row. Raises. */
void tw_custom_row(struct tw_arena *a, int lanes, struct tw_custom *c);
/* The row for a node; NULL: none of them is meant. Later ones go before earlier ones. */
const struct tw_op *tw_custom_find(const struct tw_custom *list, int n, const char *domain, const char *name);

#endif
