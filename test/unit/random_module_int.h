/* random_module_int: what the two files of the generator share. */
#ifndef RANDOM_MODULE_INT_H
#define RANDOM_MODULE_INT_H

#include "ir/ir_int.h"

typedef const struct twir_expr *expr;

struct gen {
	struct tw_arena *a;
	struct twir_module *m;
	uint64_t seed;
	VEC(struct twir_var *) vars; /* in scope */
	VEC(struct twir_tensor *) readable, writable;
	VEC(expr) pool; /* made before: shared again */
	bool region;	/* in a loop on lane */
	struct twir_var *lane_var;
	bool definition, vectors, gpu, threads;
	int lanes;
	int budget;
};

/* random_expr.c */
uint32_t gen_below(struct gen *g, uint32_t n);
bool gen_chance(struct gen *g, int percent);
enum twir_scalar gen_number_type(struct gen *g);
expr gen_constant(struct gen *g, enum twir_scalar s);
bool gen_spread(const struct twir_tensor *t);
expr gen_fresh(struct gen *g, enum twir_scalar s, int lanes, int depth);
const char *gen_word(struct gen *g);
expr gen_size(struct gen *g);
struct twir_tensor *gen_tensor(struct gen *g, enum twir_scope scope);
enum twir_scalar gen_storage_type(struct gen *g);

#endif
