/* tmap_samples.h: mappings to test with, as plain specifications, and what they mean by the definition, written down independently. */
#ifndef TMAP_SAMPLES_H
#define TMAP_SAMPLES_H

#include "tmap/tmap.h"

#define SAMPLE_FACTORS 3
#define SAMPLE_TASKS   (1 << 16) /* more than the largest mapping of three factors has in one worker times workers */

struct sample_factor {
	bool spatial;
	int64_t extent[3];
	int order[3];
	unsigned projected; /* spatial only: this factor is project(spatial(..), dims) */
};

struct sample {
	int rank, n;
	struct sample_factor factor[SAMPLE_FACTORS];
};

/* Calls visit for every mapping of 1 to `factors` factors, repeat or spatial, with extents 1..max and row order. */
void samples_all(int rank, int factors, int max, void (*visit)(void *arg, const struct sample *s), void *arg);
/* A random mapping: 1 to 3 factors, any rank order, extents min..max; sometimes projected factors where `projections`. */
struct sample samples_random(uint64_t *state, int rank, int min, int max, bool projections);
uint64_t samples_next(uint64_t *state); /* xorshift: the same numbers everywhere */

/* The mapping, composed from the left. */
const struct twtm_map *sample_map(struct tw_arena *a, const struct sample *s);

/* f(w) for all workers w: tasks[(w * per_worker + k) * rank + dim]. Built factor by factor from lists, not by index arithmetic. */
struct sample_meaning {
	int rank;
	int64_t workers, per_worker;
	int64_t shape[3];
	int64_t *tasks;
};
struct sample_meaning sample_meaning(struct tw_arena *a, const struct sample *s);

#endif
