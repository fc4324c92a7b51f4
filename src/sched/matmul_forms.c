/* Matmuls whose rows are of unknown length, mostly a batch. Input: such a problem and its point. Output: up to how many
 * rows another axis, whose length is known, had better be the rows, and the point for that form: the positions of a
 * convolution, for one image is then one tile of several rows instead of several tiles of one, each of which reads all
 * of B. The panels of both forms are the same. */
#include "sched/matmul.h"

/* The longest other axis that could be the rows and is known and short; -1: none. */
static int other_row(const struct mm_problem *p)
{
	enum { SHORT = 32 };
	int row = -1;
	int64_t longest = 1;
	for (int d = p->rank - 1; d >= 0; d--) {
		const int64_t n = tw_size_or(p->c->out->shape[d], 0);
		if (d != p->row && p->a.uses[d] && !p->b.uses[d] && n > longest && n <= SHORT) {
			longest = n;
			row = d;
		}
	}
	return row;
}

/* The least cost of the points with panels as wide as that point's, and which it is. */
static double least_cost(const struct mm_problem *p, const struct tw_point *point, struct tw_point *best)
{
	struct tw_space s = {0};
	double least = mm_cost(p, point);
	*best = *point;
	mm_space(p->m->arena, p->t, &s);
	for (int i = 0; i < s.points.n; i++) {
		const bool alike = s.points.at[i].value[MM_VECTORS] == point->value[MM_VECTORS];
		const double cost = alike ? mm_cost(p, &s.points.at[i]) : least;
		*best = cost < least ? s.points.at[i] : *best;
		least = cost < least ? cost : least;
	}
	return least;
}

/* The rows that a tile of an open plan computes for so many. */
static int64_t computed(const struct mm_plan *q, int64_t rows)
{
	int i = q->nheights - 1;
	while (i > 0 && q->heights[i] < rows)
		i--;
	return tw_most(rows, q->heights[i]);
}

int64_t mm_other_rows(struct mm_problem *p, const struct tw_point *point, struct tw_point *own)
{
	enum { MANY = 32 };
	struct mm_problem open = *p;
	struct mm_plan q;
	struct tw_point any;
	if (p->row < 0 || p->m_known || p->map || p->words.on || p->b.access != MM_PREPARED)
		return 0;
	const int row = other_row(p);
	if (row < 0)
		return 0;
	mm_plan_init(&q, p, point);
	mm_take_row(p, row);
	const double one = least_cost(p, point, own); /* row of the open axis */
	open.m_known = true;			      /* both costs are of known numbers, lest the model favours one */
	int64_t few = 0;
	for (; few < MANY; few++) {
		open.m_size = computed(&q, few + 1);
		if ((double)(few + 1) * one > least_cost(&open, point, &any))
			break;
	}
	return few;
}
