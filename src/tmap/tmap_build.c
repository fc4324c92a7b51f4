/* tmap_build.c: makes mappings, and refuses those that have no meaning.
 *
 * Input: ranks, extents, factors. Output: immutable mappings in the caller's arena.
 * Invariants of every mapping made here: 1 <= rank <= TWTM_MAX_RANK; order is a permutation; workers, tasks a worker and each extent of
 * the shape fit in an int64; at most MAX_NODES nodes, so that recursion over a mapping is shallow. */
#include "tmap/tmap.h"

#define MAX_NODES 256

static int node_count(const struct twtm_map *f)
{
	int n = 1;
	if (f->a)
		n += node_count(f->a);
	if (f->b)
		n += node_count(f->b);
	return n;
}

static void check_extents(int rank, const int64_t *extent)
{
	if (rank < 1 || rank > TWTM_MAX_RANK)
		tw_raise(TW_ERR_USAGE, "a task mapping has 1 to %d dimensions, not %d", TWTM_MAX_RANK, rank);
	bool bad = false;
	int64_t all = 1;
	bool empty = false;
	for (int i = 0; i < rank; i++) {
		if (extent[i] < 0)
			tw_raise(TW_ERR_USAGE, "extent %lld of dimension %d is negative", (long long)extent[i], i);
		empty |= extent[i] == 0;
	}
	for (int i = 0; i < rank && !empty; i++)
		all = tw_mul64(all, extent[i], &bad);
	if (bad)
		tw_raise(TW_ERR_USAGE, "the extents' product does not fit in 64 bits");
}

static struct twtm_map *leaf(struct tw_arena *a, enum twtm_kind kind, int rank, const int64_t *extent, const int *ranks)
{
	check_extents(rank, extent);
	struct twtm_map *f = ARENA_NEW(a, struct twtm_map);
	f->kind = kind;
	f->rank = rank;
	unsigned seen = 0;
	for (int i = 0; i < rank; i++) {
		const int r = ranks ? ranks[i] : i;
		if (r < 0 || r >= rank || (seen & 1u << r))
			tw_raise(TW_ERR_USAGE, "ranks must be a permutation of 0..%d", rank - 1);
		seen |= 1u << r;
		f->extent[i] = extent[i];
		f->order[i] = r;
	}
	return f;
}

const struct twtm_map *twtm_repeat(struct tw_arena *a, int rank, const int64_t *extent, const int *ranks,
				   const enum twtm_attr *attrs)
{
	struct twtm_map *f = leaf(a, TWTM_REPEAT, rank, extent, ranks);
	for (int i = 0; attrs && i < rank; i++) {
		if ((unsigned)attrs[i] > TWTM_VECTOR)
			tw_raise(TW_ERR_USAGE, "dimension %d has an unknown attribute", i);
		f->attr[i] = attrs[i];
	}
	return f;
}

const struct twtm_map *twtm_spatial(struct tw_arena *a, int rank, const int64_t *extent, const int *ranks)
{
	return leaf(a, TWTM_SPATIAL, rank, extent, ranks);
}

const struct twtm_map *twtm_compose(struct tw_arena *a, const struct twtm_map *outer, const struct twtm_map *inner)
{
	if (outer->rank != inner->rank)
		tw_raise(TW_ERR_USAGE, "composition of mappings with %d and %d dimensions", outer->rank, inner->rank);
	if (node_count(outer) + node_count(inner) >= MAX_NODES)
		tw_raise(TW_ERR_USAGE, "a task mapping has at most %d factors", MAX_NODES / 2);
	bool bad = false;
	tw_mul64(twtm_workers(outer), twtm_workers(inner), &bad);
	tw_mul64(twtm_tasks_per_worker(outer), twtm_tasks_per_worker(inner), &bad);
	int64_t s[TWTM_MAX_RANK], t[TWTM_MAX_RANK];
	twtm_shape(outer, s);
	twtm_shape(inner, t);
	for (int i = 0; i < outer->rank; i++)
		tw_mul64(s[i], t[i], &bad);
	if (bad)
		tw_raise(TW_ERR_USAGE, "the composed mapping's workers or tasks do not fit in 64 bits");
	struct twtm_map *f = ARENA_NEW(a, struct twtm_map);
	f->kind = TWTM_COMPOSE;
	f->rank = outer->rank;
	f->a = outer;
	f->b = inner;
	return f;
}

static bool only_spatial(const struct twtm_map *f)
{
	switch (f->kind) {
	case TWTM_REPEAT:
		return false;
	case TWTM_SPATIAL:
		return true;
	case TWTM_COMPOSE:
		return only_spatial(f->a) && only_spatial(f->b);
	case TWTM_PROJECT:
		break;
	}
	return only_spatial(f->a);
}

const struct twtm_map *twtm_project(struct tw_arena *a, const struct twtm_map *f, unsigned dims)
{
	if (dims >> f->rank)
		tw_raise(TW_ERR_USAGE, "projected dimensions must be among 0..%d", f->rank - 1);
	if (!only_spatial(f))
		tw_raise(TW_ERR_USAGE, "only mappings of spatial factors can be projected");
	if (node_count(f) + 1 >= MAX_NODES)
		tw_raise(TW_ERR_USAGE, "a task mapping has at most %d factors", MAX_NODES / 2);
	struct twtm_map *p = ARENA_NEW(a, struct twtm_map);
	p->kind = TWTM_PROJECT;
	p->rank = f->rank;
	p->projected = dims;
	p->a = f;
	return p;
}

static int64_t gcd(int64_t a, int64_t b)
{
	while (b) {
		const int64_t r = a % b;
		a = b;
		b = r;
	}
	return a;
}

const struct twtm_map *twtm_auto(struct tw_arena *a, int rank, const int64_t *shape, int64_t workers, const int *ranks)
{
	check_extents(rank, shape);
	if (workers < 1)
		tw_raise(TW_ERR_USAGE, "a mapping cannot be made for %lld workers", (long long)workers);
	const struct twtm_map *order = twtm_spatial(a, rank, shape, ranks);
	int64_t repeats[TWTM_MAX_RANK], lanes[TWTM_MAX_RANK];
	int64_t left = workers;
	for (int r = rank - 1; r >= 0; r--) {
		for (int i = 0; i < rank; i++) {
			if (order->order[i] != r)
				continue;
			lanes[i] = gcd(left, shape[i]);
			repeats[i] = shape[i] / lanes[i];
			left /= lanes[i];
		}
	}
	/* Each prime of `workers` finds its place exactly when it divides the number of tasks. */
	if (left != 1)
		tw_raise(TW_ERR_USAGE, "the number of tasks is not a multiple of %lld workers", (long long)workers);
	return twtm_compose(a, twtm_repeat(a, rank, repeats, ranks, NULL), twtm_spatial(a, rank, lanes, ranks));
}
