/* elementwise.h: operators that compute each output element from the elements at the same place. Internal to ops/. */
#ifndef TW_ELEMENTWISE_H
#define TW_ELEMENTWISE_H

#include "ops/op.h"

/* One element: f16 and bf16 arrive as f32. */
typedef const struct twir_expr *(*tw_element_fn)(struct tw_opctx *x, const struct twir_expr *a);
typedef const struct twir_expr *(*tw_element2_fn)(struct tw_opctx *x, const struct twir_expr *a,
						  const struct twir_expr *b);

void tw_infer_same(struct tw_opctx *x);	     /* output 0: type and shape of input 0 */
void tw_infer_same_bool(struct tw_opctx *x); /* ... but i1 */
void tw_infer_broadcast(
	struct tw_opctx *x); /* output 0: broadcast of all inputs, type of input 0; inputs of one type */
void tw_infer_broadcast_bool(struct tw_opctx *x);
void tw_elementwise(struct tw_opctx *x, tw_element_fn fn);
void tw_elementwise2(struct tw_opctx *x, tw_element2_fn fn); /* two or more inputs, combined from the left */
/* Input i at the output's axes: a load, or the constant itself when it holds one element. */
const struct twir_expr *tw_operand(struct tw_opctx *x, int i, int n, const struct twir_expr *const *axes);
/* The only element of input i, a scalar or a tensor of sizes 1 (as tw_need_scalar makes sure in inference) */
void tw_need_scalar(struct tw_opctx *x, int i);
const struct twir_expr *tw_scalar(struct tw_opctx *x, int i);
/* Is input i missing, or a constant of zeros alone? For zero points: numbers less such ones are as small as they were. */
bool tw_is_zero(struct tw_opctx *x, int i);
/* Element i of a constant as an expression of its compute type (f32 for f16). */
enum twir_scalar tw_compute_type(enum twir_scalar storage);

/* expressions, shortened */
const struct twir_expr *tw_call(struct tw_opctx *x, const char *name, const struct twir_expr *a);
const struct twir_expr *tw_like(struct tw_opctx *x, const struct twir_expr *like,
				double value); /* a constant of like's type */
const struct twir_expr *tw_size_as(struct tw_opctx *x, const struct twir_expr *like,
				   const struct twir_expr *size); /* an index in like's type */
static inline const struct twir_expr *tw_gt0(struct tw_opctx *x, const struct twir_expr *a)
{
	return twir_lt(x->m, tw_like(x, a, 0), a);
}

#endif
