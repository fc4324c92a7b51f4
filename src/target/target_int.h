/* target_int.h: between the files of this room. */
#ifndef TW_TARGET_INT_H
#define TW_TARGET_INT_H

#include "target/target.h"

/* topology.c: fills caches, cores (affinity respected, quota not) and the processor's name. */
void target_topology(struct tw_target *t);
/* identity.c: what the processor says of itself and of its caches; false: it says nothing. */
bool target_identity(char *text, size_t size);

#endif
