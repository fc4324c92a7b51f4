/* guard.h: the check of indices, as the interpreter sees it. Internal to ops/. */
#ifndef TW_GUARD_H
#define TW_GUARD_H

#include "ops/op.h"

bool tw_is_guard(const struct tw_node *n);
/* Element number i of the indices, `last` the size of their last axis, size[] the data's: raises TW_ERR_INPUT. */
void tw_guard_check(const struct tw_node *n, int64_t index, int64_t i, int64_t last, const int64_t *size);

#endif
