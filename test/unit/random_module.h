/* random_module: modules with everything the text form has, for tests of what must hold for any of them. */
#ifndef RANDOM_MODULE_H
#define RANDOM_MODULE_H

#include "ir/ir.h"

/* Definitions, funcs, programs of both machines, lowered and not, launch functions; all accepted by the verifier. */
struct twir_module *random_module(struct tw_arena *a, uint64_t seed);

#endif
