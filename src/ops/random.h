/* random.h: random numbers as expressions. Internal to ops/. */
#ifndef TW_RANDOM_H
#define TW_RANDOM_H

#include "ops/elementwise.h"

/* At least 0, below 1, a multiple of 2^-24; of the node's seed or its output's name, a stream of it, and a place. */
const struct twir_expr *tw_random_uniform(struct tw_opctx *x, enum twir_scalar type, uint32_t stream,
					  const struct twir_expr *place);

#endif
