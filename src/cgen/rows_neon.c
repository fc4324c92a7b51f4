/* rows_neon: 64-bit ARM. Its vector unit has fma and the roundings, which lane loops reach; nothing of it needs a
 * builtin yet. */
#include "cgen/dialect.h"

const struct cgen_row cgen_rows_neon[] = {
	{0},
};
