/* How the rows of a matmul are divided into strips, each of which a register tile goes over. Input: the number of
 * rows, known or not, and the height of the tallest tile; output: heights of tiles and where strips begin.
 *
 * A known number of rows is divided evenly: 128 rows are 8 strips of 13 and 2 of 12, not 9 of 14 and one of 2. An
 * unknown one is divided at run time: strips are tall, but for the last two, which share what is left evenly, and a
 * branch for each strip takes the tile of the height next above its own. There are few such heights: a tile may go a
 * few rows beyond its strip (beyond the last row, as its place says), where it repeats the last one. */
#include "sched/matmul.h"

typedef const struct twir_expr *E;

static void add_height(struct mm_plan *q, int height)
{
	if (height >= 1 && (q->nheights == 0 || height < q->heights[q->nheights - 1]))
		q->heights[q->nheights++] = height;
}

/* The least height that the last two strips can need; what is lower serves fewer rows than one tall strip has. */
static int shared_height(int tall)
{
	return tall / 2 + 1;
}

void mm_plan_rows(struct mm_plan *q, const struct mm_problem *p, int tall)
{
	struct twir_module *m = p->m;
	q->open = !p->m_known;
	q->nheights = 0;
	if (q->open) {
		const int shared = shared_height(tall);
		add_height(q, tall);
		if (tall >= 9)
			add_height(q, (tall + shared) / 2);
		add_height(q, shared);
		add_height(q, (shared + 1) / 2);
		q->ntall = NULL;
		q->strips = twir_ceildiv(m, p->M, twir_index(m, tall));
	} else {
		const int64_t strips = p->m_size > tall ? tw_ceil_div(p->m_size, tall) : 1;
		const int64_t low = p->m_size > strips ? p->m_size / strips : 1;
		const int64_t ntall = p->m_size > low * strips ? p->m_size - low * strips : 0;
		add_height(q, (int)low + (ntall > 0));
		add_height(q, (int)low);
		q->ntall = twir_index(m, ntall);
		q->strips = twir_index(m, p->m_size > 0 ? strips : 0);
	}
	q->tall = q->heights[0];
}

/* The height of the tile for a strip of so many rows. */
static int height_for(const struct mm_plan *q, int64_t rows)
{
	int i = q->nheights - 1;
	while (i > 0 && q->heights[i] < rows)
		i--;
	return q->heights[i];
}

double mm_rows_cost(const struct mm_plan *q, int64_t rows, double (*step)(double, double), double vectors)
{
	int64_t ntall, strips;
	if (!q->open) {
		twir_const_int(q->ntall, &ntall);
		twir_const_int(q->strips, &strips);
		return (double)ntall * step(q->tall, vectors) +
		       (double)(strips - ntall) * step(q->heights[q->nheights - 1], vectors);
	}
	if (rows <= q->tall)
		return step(height_for(q, rows), vectors);
	strips = tw_ceil_div(rows, q->tall);
	const int64_t left = rows - (strips - 2) * q->tall, first = height_for(q, tw_ceil_div(left, 2));
	return (double)(strips - 2) * step(q->tall, vectors) + step((double)first, vectors) +
	       step(height_for(q, left - first), vectors);
}

/* How many rows the strip before the last lacks of a tall one. */
struct twir_stmt *mm_slack(struct mm_plan *q, const struct mm_problem *p)
{
	struct twir_module *m = p->m;
	const E tall = twir_index(m, q->tall), others = twir_sub(m, q->strips, twir_index(m, 2));
	const E left = twir_sub(m, p->M, twir_mul(m, others, tall));
	const E half = twir_ceildiv(m, left, twir_index(m, 2));
	E lacks = twir_index(m, 0);
	if (!q->open)
		return NULL;
	for (int i = 1; i < q->nheights; i++)
		if (q->heights[i] >= shared_height(q->tall))
			lacks = twir_cond(m, twir_le(m, half, twir_index(m, q->heights[i])),
					  twir_index(m, q->tall - q->heights[i]), lacks);
	lacks = twir_cond(m, twir_lt(m, tall, p->M), lacks, twir_index(m, 0));
	return tw_let_new(m, "slack", lacks, &q->slack);
}

E mm_strip_begin(const struct mm_plan *q, const struct mm_problem *p, E strip)
{
	struct twir_module *m = p->m;
	const E tall = twir_mul(m, strip, twir_index(m, q->tall));
	const int low = q->heights[q->nheights - 1];
	if (q->open) {
		const E last = twir_eq(m, strip, twir_sub(m, q->strips, twir_index(m, 1)));
		return twir_sub(m, tall, twir_cond(m, last, q->slack, twir_index(m, 0)));
	}
	return twir_add(m, twir_mul(m, strip, twir_index(m, low)),
			twir_mul(m, twir_min(m, strip, q->ntall), twir_index(m, q->tall - low)));
}

E mm_strip_rows(const struct mm_plan *q, const struct mm_problem *p, E strip, E i0)
{
	struct twir_module *m = p->m;
	const int low = q->heights[q->nheights - 1];
	if (!q->open)
		return q->nheights == 1
			       ? twir_index(m, low)
			       : twir_cond(m, twir_lt(m, strip, q->ntall), twir_index(m, q->tall), twir_index(m, low));
	const E next = mm_strip_begin(q, p, twir_add(m, strip, twir_index(m, 1)));
	return twir_sub(m, twir_min(m, p->M, next), i0);
}
