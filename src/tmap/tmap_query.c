/* tmap_query.c: what a mapping does: its workers, its shape, the tasks of each worker, and whether two mappings are the same.
 *
 * Input: a mapping. Output: numbers. twtm_each follows the definition word by word; twtm_task computes one task by arithmetic.
 * Invariant: both agree (the tests compare them on all small mappings). */
#include "tmap/tmap.h"

/* Builders have seen to it that nothing overflows. An empty dimension makes the product 0 whatever the others are. */
static int64_t product(int n, const int64_t *x)
{
	int64_t p = 1;
	for (int i = 0; i < n; i++) {
		if (x[i] == 0)
			return 0;
	}
	for (int i = 0; i < n; i++)
		p *= x[i];
	return p;
}

int64_t twtm_workers(const struct twtm_map *f)
{
	switch (f->kind) {
	case TWTM_REPEAT:
		return 1;
	case TWTM_SPATIAL:
		return product(f->rank, f->extent);
	case TWTM_COMPOSE:
		return twtm_workers(f->a) * twtm_workers(f->b);
	case TWTM_PROJECT:
		break;
	}
	return twtm_workers(f->a);
}

void twtm_shape(const struct twtm_map *f, int64_t *shape)
{
	int64_t inner[TWTM_MAX_RANK];
	switch (f->kind) {
	case TWTM_REPEAT:
	case TWTM_SPATIAL:
		memcpy(shape, f->extent, sizeof(*shape) * (size_t)f->rank);
		return;
	case TWTM_COMPOSE:
		twtm_shape(f->a, shape);
		twtm_shape(f->b, inner);
		for (int i = 0; i < f->rank; i++)
			shape[i] *= inner[i];
		return;
	case TWTM_PROJECT:
		twtm_shape(f->a, shape);
		for (int i = 0; i < f->rank; i++) {
			if (f->projected >> i & 1)
				shape[i] = 1;
		}
		return;
	}
}

int64_t twtm_tasks_per_worker(const struct twtm_map *f)
{
	switch (f->kind) {
	case TWTM_REPEAT:
		return product(f->rank, f->extent);
	case TWTM_SPATIAL:
	case TWTM_PROJECT:
		return 1;
	case TWTM_COMPOSE:
		break;
	}
	return twtm_tasks_per_worker(f->a) * twtm_tasks_per_worker(f->b);
}

/* The dimension of each rank: by_rank[0] is the slowest. */
static void dimensions_by_rank(const struct twtm_map *f, int *by_rank)
{
	for (int i = 0; i < f->rank; i++)
		by_rank[f->order[i]] = i;
}

/* The n-th coordinate of a repeat's or spatial's extents, the highest rank running fastest. */
static void unrank(const struct twtm_map *f, int64_t n, int64_t *task)
{
	int by_rank[TWTM_MAX_RANK];
	dimensions_by_rank(f, by_rank);
	for (int r = f->rank - 1; r >= 0; r--) {
		const int64_t extent = f->extent[by_rank[r]];
		task[by_rank[r]] = n % extent;
		n /= extent;
	}
}

static void task_at(const struct twtm_map *f, int64_t w, int64_t k, int64_t *task)
{
	int64_t q[TWTM_MAX_RANK], inner[TWTM_MAX_RANK];
	switch (f->kind) {
	case TWTM_REPEAT:
		unrank(f, k, task);
		return;
	case TWTM_SPATIAL:
		unrank(f, w, task);
		return;
	case TWTM_COMPOSE: {
		const int64_t workers = twtm_workers(f->b), tasks = twtm_tasks_per_worker(f->b);
		task_at(f->a, w / workers, k / tasks, task);
		task_at(f->b, w % workers, k % tasks, q);
		twtm_shape(f->b, inner);
		for (int i = 0; i < f->rank; i++)
			task[i] = task[i] * inner[i] + q[i];
		return;
	}
	case TWTM_PROJECT:
		task_at(f->a, w, k, task);
		for (int i = 0; i < f->rank; i++) {
			if (f->projected >> i & 1)
				task[i] = 0;
		}
		return;
	}
}

void twtm_task(const struct twtm_map *f, int64_t w, int64_t k, int64_t *task)
{
	TW_CHECK(w >= 0 && w < twtm_workers(f) && k >= 0 && k < twtm_tasks_per_worker(f), "worker %lld, task %lld",
		 (long long)w, (long long)k);
	task_at(f, w, k, task);
}

/* Walks a factor's extents, the lowest rank in the outermost loop. */
static void each_repeat(const struct twtm_map *f, const int *by_rank, int r, int64_t *task,
			void (*visit)(void *arg, const int64_t *task), void *arg)
{
	if (r == f->rank) {
		visit(arg, task);
		return;
	}
	const int d = by_rank[r];
	for (task[d] = 0; task[d] < f->extent[d]; task[d]++)
		each_repeat(f, by_rank, r + 1, task, visit, arg);
}

struct compose_walk {
	const struct twtm_map *inner;
	int64_t w; /* the inner mapping's worker */
	int64_t shape[TWTM_MAX_RANK];
	int64_t p[TWTM_MAX_RANK];
	void (*visit)(void *arg, const int64_t *task);
	void *arg;
};

static void compose_inner(void *arg, const int64_t *q)
{
	const struct compose_walk *c = arg;
	int64_t task[TWTM_MAX_RANK];
	for (int i = 0; i < c->inner->rank; i++)
		task[i] = c->p[i] * c->shape[i] + q[i];
	c->visit(c->arg, task);
}

static void compose_outer(void *arg, const int64_t *p)
{
	struct compose_walk *c = arg;
	memcpy(c->p, p, sizeof(*p) * (size_t)c->inner->rank);
	twtm_each(c->inner, c->w, compose_inner, c);
}

struct project_walk {
	const struct twtm_map *f;
	void (*visit)(void *arg, const int64_t *task);
	void *arg;
};

static void project_one(void *arg, const int64_t *p)
{
	const struct project_walk *x = arg;
	int64_t task[TWTM_MAX_RANK];
	for (int i = 0; i < x->f->rank; i++)
		task[i] = x->f->projected >> i & 1 ? 0 : p[i];
	x->visit(x->arg, task);
}

void twtm_each(const struct twtm_map *f, int64_t w, void (*visit)(void *arg, const int64_t *task), void *arg)
{
	TW_CHECK(w >= 0 && w < twtm_workers(f), "worker %lld", (long long)w);
	int by_rank[TWTM_MAX_RANK];
	int64_t task[TWTM_MAX_RANK];
	switch (f->kind) {
	case TWTM_REPEAT:
		dimensions_by_rank(f, by_rank);
		each_repeat(f, by_rank, 0, task, visit, arg);
		return;
	case TWTM_SPATIAL:
		unrank(f, w, task);
		visit(arg, task);
		return;
	case TWTM_COMPOSE: {
		const int64_t workers = twtm_workers(f->b);
		struct compose_walk c = {.inner = f->b, .w = w % workers, .visit = visit, .arg = arg};
		twtm_shape(f->b, c.shape);
		twtm_each(f->a, w / workers, compose_outer, &c);
		return;
	}
	case TWTM_PROJECT: {
		struct project_walk p = {f, visit, arg};
		twtm_each(f->a, w, project_one, &p);
		return;
	}
	}
}

/* How often each task of the shape is done. It is the same for all tasks: repeat and spatial do each once, a composition multiplies the
   factors' numbers, a projection puts the tasks along the projected dimensions on top of each other. */
static int64_t multiplicity(const struct twtm_map *f)
{
	if (f->kind == TWTM_COMPOSE)
		return multiplicity(f->a) * multiplicity(f->b);
	if (f->kind != TWTM_PROJECT)
		return 1;
	if (twtm_workers(f->a) == 0)
		return 0;
	int64_t shape[TWTM_MAX_RANK];
	twtm_shape(f->a, shape);
	int64_t m = multiplicity(f->a);
	for (int i = 0; i < f->rank; i++) {
		if (f->projected >> i & 1)
			m *= shape[i];
	}
	return m;
}

static bool is_empty(const struct twtm_map *f)
{
	int64_t shape[TWTM_MAX_RANK];
	twtm_shape(f, shape);
	for (int i = 0; i < f->rank; i++) {
		if (shape[i] == 0)
			return true;
	}
	return false;
}

bool twtm_covers(const struct twtm_map *f)
{
	return is_empty(f) || multiplicity(f) > 0;
}

bool twtm_exact(const struct twtm_map *f)
{
	return is_empty(f) || multiplicity(f) == 1;
}

bool twtm_balanced(const struct twtm_map *f)
{
	/* A worker's list never names a task twice (repeats differ in some coordinate, projections have one task), so the number of distinct
	   tasks is the length of the list, and that is the same for all workers. */
	return twtm_tasks_per_worker(f) >= 0;
}

bool twtm_equal(const struct twtm_map *f, const struct twtm_map *g)
{
	if (f == g)
		return true;
	if (f->kind != g->kind || f->rank != g->rank)
		return false;
	if (f->kind == TWTM_COMPOSE)
		return twtm_equal(f->a, g->a) && twtm_equal(f->b, g->b);
	if (f->kind == TWTM_PROJECT)
		return f->projected == g->projected && twtm_equal(f->a, g->a);
	for (int i = 0; i < f->rank; i++) {
		if (f->extent[i] != g->extent[i] || f->order[i] != g->order[i] || f->attr[i] != g->attr[i])
			return false;
	}
	return true;
}
