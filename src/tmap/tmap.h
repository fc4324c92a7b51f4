/* tmap: the task-mapping algebra on plain integers: the definition that every lowering is checked against (section 3 of the paper).
 *
 * A mapping is (W workers, task shape S, f: worker -> ordered list of tasks).
 *   repeat(d..)   one worker does all tasks, in the order given by the ranks
 *   spatial(d..)  prod(d) workers with one task each
 *   f1 * f2       W1*W2 workers; for p in f1(w / W2), for q in f2(w % W2): the task p (.) S2 + q; S = S1 (.) S2
 *   project(f, dims)  the projected dimensions' extents become 1, their coordinates 0; f must be built of spatial factors only
 * ranks[i] is the significance of dimension i: rank 0 is slowest, the highest has stride 1. Default: row order.
 * Extents are >= 0 (an empty task set is legal); ranks a permutation of 0..rank-1. Attributes live on repeat dimensions. */
#ifndef TW_TMAP_H
#define TW_TMAP_H

#include "base/base.h"

#define TWTM_MAX_RANK 8

enum twtm_kind { TWTM_REPEAT, TWTM_SPATIAL, TWTM_COMPOSE, TWTM_PROJECT };
enum twtm_attr { TWTM_PLAIN, TWTM_UNROLL, TWTM_VECTOR };

struct twtm_map {
	enum twtm_kind kind;
	int rank;
	int64_t extent[TWTM_MAX_RANK]; /* repeat, spatial */
	int order[TWTM_MAX_RANK];      /* repeat, spatial: the ranks */
	enum twtm_attr attr[TWTM_MAX_RANK];
	unsigned projected;	      /* project: bit i = dimension i */
	const struct twtm_map *a, *b; /* compose: outer, inner; project: a */
};

/* build.c. ranks == NULL: row order. All raise TW_ERR_USAGE on a bad argument (rank, ranks, negative extent, overflow, rank mismatch). */
const struct twtm_map *twtm_repeat(struct tw_arena *a, int rank, const int64_t *extent, const int *ranks,
				   const enum twtm_attr *attrs);
const struct twtm_map *twtm_spatial(struct tw_arena *a, int rank, const int64_t *extent, const int *ranks);
const struct twtm_map *twtm_compose(struct tw_arena *a, const struct twtm_map *outer, const struct twtm_map *inner);
const struct twtm_map *twtm_project(struct tw_arena *a, const struct twtm_map *f, unsigned dims);
/* Covers shape with workers: from the fastest dimension, spatial extent = gcd(workers left, extent), the rest repeats; gives repeat * spatial.
   Needs prod(shape) % workers == 0. ranks as above. */
const struct twtm_map *twtm_auto(struct tw_arena *a, int rank, const int64_t *shape, int64_t workers, const int *ranks);

/* query.c */
int64_t twtm_workers(const struct twtm_map *f);
void twtm_shape(const struct twtm_map *f, int64_t *shape); /* rank numbers */
int64_t twtm_tasks_per_worker(const struct twtm_map *f);   /* length of every f(w) */
/* The k-th task of worker w; task gets rank coordinates. 0 <= w < workers, 0 <= k < tasks per worker. */
void twtm_task(const struct twtm_map *f, int64_t w, int64_t k, int64_t *task);
/* Calls visit for each task of worker w in order; the direct reading of the definition, which twtm_task is tested against. */
void twtm_each(const struct twtm_map *f, int64_t w, void (*visit)(void *arg, const int64_t *task), void *arg);
bool twtm_covers(const struct twtm_map *f);   /* every task of the shape is done by some worker */
bool twtm_exact(const struct twtm_map *f);    /* ... exactly once */
bool twtm_balanced(const struct twtm_map *f); /* all workers have as many distinct tasks */
bool twtm_equal(const struct twtm_map *f, const struct twtm_map *g); /* same structure */
bool twtm_same(const struct twtm_map *f, const struct twtm_map *g);  /* same W, S and f, whatever the structure */

/* layout.c: register layouts that mirror mappings: spatial dimensions take no storage (local), repeats are row-major in their ranks.
   Number of elements one worker keeps, and where the worker's element for a task lies (the worker is implied). */
int64_t twtm_register_size(const struct twtm_map *f);
int64_t twtm_register_offset(const struct twtm_map *f, const int64_t *task);

/* text.c: "repeat(4, 1) * spatial(16, 8)"; ranks and attributes: "repeat(4, 8, ranks = [1, 0], attrs = [unroll, plain])";
   "project(spatial(4, 2), [1])". Parsing raises TW_ERR_USAGE with the column. Print-parse is the identity. */
const struct twtm_map *twtm_parse(struct tw_arena *a, const char *text);
const char *twtm_print(struct tw_arena *a, const struct twtm_map *f);

#endif
