/* mapping_program.h: a sample mapping put into a program that tells what each worker does and in which order, and what the algebra says
 * about it. */
#ifndef MAPPING_PROGRAM_H
#define MAPPING_PROGRAM_H

#include "ir/ir.h"
#include "tmap_samples.h"

enum where { ON_CORE, ON_CORE_LANE, ON_BLOCK_THREAD };

/* How a sample's mapping is put into a program. */
struct setting {
	enum where where;
	enum twir_scalar type; /* of the numbers: i64, or i32 (then they wrap at 32 bits) */
	bool symbols;	       /* extents are symbols (those on lane stay constants) */
	int64_t surplus;       /* cores beyond the workers; block, thread: threads in a block */
	bool within;
	int64_t bound[3];
};

struct built {
	struct twir_program *program;
	struct twir_map *map;
	const struct twir_tensor *out;
	int64_t slots; /* elements of the output: launched workers */
	int nsymbols;
	struct twir_var *symbols[SAMPLE_FACTORS * 3];
	int64_t values[SAMPLE_FACTORS * 3];
};

struct machinery {
	struct tw_arena *arena;
	struct twir_module *m;
	int programs; /* in this module */
	int64_t checked;
};

void machinery_fresh(struct machinery *x); /* a new module; what was in the old one is gone */
/* A program with one output T: for each launched worker the tasks it does, folded in order into one number (0: no task). */
struct built mapping_program(struct machinery *x, const struct sample *s, const struct setting *how);
/* The same numbers by the algebra, for all `slots` launched workers. */
void mapping_by_algebra(const struct twtm_map *f, const struct setting *how, int64_t slots, int64_t *result);
/* The algebra's instance of the program's mapping under the values of its symbols. */
const struct twtm_map *mapping_bound(struct machinery *x, const struct built *b);
/* A random way to put a sample into a program. */
struct setting mapping_random_setting(uint64_t *seed, const struct sample *s);
int64_t mapping_pick(uint64_t *seed, int64_t n); /* 0 .. n - 1 */

#endif
