/* tmap_samples.c: see tmap_samples.h. The meaning of a mapping is built from lists of tasks, factor by factor, as the definition says;
 * nothing here comes from src/tmap but the builders. */
#include "tmap_samples.h"

static void extend(struct sample *s, int factors, int max, void (*visit)(void *arg, const struct sample *s), void *arg)
{
	if (s->n == factors)
		return;
	struct sample_factor *f = &s->factor[s->n++];
	for (int spatial = 0; spatial < 2; spatial++) {
		int64_t all = 1;
		for (int i = 0; i < s->rank; i++)
			all *= max;
		for (int64_t code = 0; code < all; code++) {
			*f = (struct sample_factor){.spatial = spatial};
			int64_t rest = code;
			for (int i = 0; i < s->rank; i++) {
				f->extent[i] = 1 + rest % max;
				f->order[i] = i;
				rest /= max;
			}
			visit(arg, s);
			extend(s, factors, max, visit, arg);
		}
	}
	s->n--;
}

void samples_all(int rank, int factors, int max, void (*visit)(void *arg, const struct sample *s), void *arg)
{
	struct sample s = {.rank = rank};
	extend(&s, factors, max, visit, arg);
}

uint64_t samples_next(uint64_t *state)
{
	uint64_t x = *state;
	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return *state = x;
}

static int pick(uint64_t *state, int n)
{
	return (int)((samples_next(state) >> 20) % (uint64_t)n);
}

struct sample samples_random(uint64_t *state, int rank, int min, int max, bool projections)
{
	struct sample s = {.rank = rank, .n = 1 + pick(state, SAMPLE_FACTORS)};
	for (int k = 0; k < s.n; k++) {
		struct sample_factor *f = &s.factor[k];
		f->spatial = pick(state, 2);
		for (int i = 0; i < rank; i++) {
			f->extent[i] = min + pick(state, max - min + 1);
			f->order[i] = i;
		}
		for (int i = rank - 1; i > 0; i--) {
			const int j = pick(state, i + 1);
			const int t = f->order[i];
			f->order[i] = f->order[j];
			f->order[j] = t;
		}
		if (projections && f->spatial && pick(state, 2))
			f->projected = (unsigned)pick(state, 1 << rank);
	}
	return s;
}

const struct twtm_map *sample_map(struct tw_arena *a, const struct sample *s)
{
	const struct twtm_map *map = NULL;
	for (int k = 0; k < s->n; k++) {
		const struct sample_factor *x = &s->factor[k];
		const struct twtm_map *f = x->spatial ? twtm_spatial(a, s->rank, x->extent, x->order)
						      : twtm_repeat(a, s->rank, x->extent, x->order, NULL);
		if (x->projected)
			f = twtm_project(a, f, x->projected);
		map = map ? twtm_compose(a, map, f) : f;
	}
	return map;
}

/* Whether task p comes before q in a factor's order: the dimension with rank 0 decides first. */
static bool before(const struct sample_factor *f, int rank, const int64_t *p, const int64_t *q)
{
	for (int r = 0; r < rank; r++) {
		for (int i = 0; i < rank; i++) {
			if (f->order[i] == r && p[i] != q[i])
				return p[i] < q[i];
		}
	}
	return false;
}

/* All tasks of one factor, sorted into its order. */
static int64_t *factor_tasks(struct tw_arena *a, const struct sample_factor *f, int rank, int64_t *count)
{
	int64_t n = 1;
	for (int i = 0; i < rank; i++)
		n *= f->extent[i];
	int64_t *list = ARENA_ARRAY(a, int64_t, n * rank + 1);
	int64_t done = 0;
	int64_t p[3] = {0};
	for (p[0] = 0; p[0] < f->extent[0]; p[0]++) {
		for (p[1] = 0; p[1] < (rank > 1 ? f->extent[1] : 1); p[1]++) {
			for (p[2] = 0; p[2] < (rank > 2 ? f->extent[2] : 1); p[2]++) {
				int64_t at = done++;
				for (; at > 0 && before(f, rank, p, list + (at - 1) * rank); at--)
					memcpy(list + at * rank, list + (at - 1) * rank, sizeof(*list) * (size_t)rank);
				memcpy(list + at * rank, p, sizeof(*list) * (size_t)rank);
			}
		}
	}
	for (int64_t k = 0; k < n * rank; k++) {
		if (f->projected >> (k % rank) & 1)
			list[k] = 0;
	}
	*count = n;
	return list;
}

static struct sample_meaning factor_meaning(struct tw_arena *a, const struct sample_factor *f, int rank)
{
	struct sample_meaning m = {.rank = rank};
	int64_t n;
	m.tasks = factor_tasks(a, f, rank, &n);
	m.workers = f->spatial ? n : 1;
	m.per_worker = f->spatial ? 1 : n;
	for (int i = 0; i < rank; i++)
		m.shape[i] = f->projected >> i & 1 ? 1 : f->extent[i];
	return m;
}

struct sample_meaning sample_meaning(struct tw_arena *a, const struct sample *s)
{
	struct sample_meaning x = factor_meaning(a, &s->factor[0], s->rank);
	for (int k = 1; k < s->n; k++) {
		const struct sample_meaning y = factor_meaning(a, &s->factor[k], s->rank);
		struct sample_meaning z = {
			.rank = s->rank, .workers = x.workers * y.workers, .per_worker = x.per_worker * y.per_worker};
		for (int i = 0; i < s->rank; i++)
			z.shape[i] = x.shape[i] * y.shape[i];
		z.tasks = ARENA_ARRAY(a, int64_t, z.workers * z.per_worker * s->rank + 1);
		int64_t *to = z.tasks;
		for (int64_t w = 0; w < z.workers; w++) {
			const int64_t *p = x.tasks + w / y.workers * x.per_worker * s->rank;
			for (int64_t i = 0; i < x.per_worker; i++, p += s->rank) {
				const int64_t *q = y.tasks + w % y.workers * y.per_worker * s->rank;
				for (int64_t j = 0; j < y.per_worker; j++, q += s->rank) {
					for (int d = 0; d < s->rank; d++)
						*to++ = p[d] * y.shape[d] + q[d];
				}
			}
		}
		x = z;
	}
	return x;
}
