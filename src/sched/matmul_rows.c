/* How the rows of a matmul are divided into strips, each of which a register tile goes over. Input: the number of
 * rows, known or not, and the height of the tallest tile; output: heights of tiles and where strips begin.
 *
 * A known number of rows is divided evenly: 128 rows are 8 strips of 13 and 2 of 12, not 9 of 14 and one of 2. An
 * unknown one is divided at run time: strips are tall, but for the last three, whose heights are those that go beyond the
 * last row least. Heights are few but lie so that this mostly leaves nothing over: of 12, 11, 9, 7, 4 and 1 every number
 * of rows from 25 on is a sum of three or more. A branch for each strip takes the tile of its height or the next above: a
 * tile may go a few rows beyond its strip (beyond the last row, as its place says), where it repeats the last one. */
#include "sched/matmul.h"

typedef const struct twir_expr *E;

static void add_height(struct mm_plan *q, int height)
{
	if (height >= 1 && (q->nheights == 0 || height < q->heights[q->nheights - 1]))
		q->heights[q->nheights++] = height;
}

/* Those that sum up to most numbers, and some for fewer rows than one tall strip has. */
static void open_heights(struct mm_plan *q, int tall)
{
	const int half = tall / 2 + 1, step = (tall + 6) / 14;
	add_height(q, tall);
	add_height(q, tall - (step > 1 ? step : 1));
	if (tall >= 9)
		add_height(q, (tall + half) / 2);
	add_height(q, half);
	add_height(q, (half + 1) / 2);
	add_height(q, 1); /* a step of decoding, bound by what it reads: fewer instructions see further ahead */
}

void mm_plan_rows(struct mm_plan *q, const struct mm_problem *p, int tall)
{
	struct twir_module *m = p->m;
	q->open = !p->m_known;
	q->nheights = 0;
	if (q->open) {
		open_heights(q, tall);
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

/* Heights of the last strips, `n` of them, three at most. */
struct ends {
	int n, height[3];
};

/* The best for so many rows in all: beyond the last row least, then of the most equal heights. */
static struct ends best_ends(const struct mm_plan *q, int n, int64_t rows)
{
	struct ends best = {n, {q->tall, q->tall, q->tall}};
	int64_t least = INT64_MAX;
	for (int i = 0; i < (n > 2 ? q->nheights : 1); i++)
		for (int j = i; j < (n > 1 ? q->nheights : 1); j++) {
			const int before[] = {q->heights[i], q->heights[j]};
			int64_t left = rows;
			for (int k = 3 - n; k < 2; k++)
				left -= before[k];
			const int last = height_for(q, left);
			const int64_t beyond = last - left, spread = (n > 2 ? before[0] : before[1]) - last;
			const int64_t bad = beyond * 2 * q->tall + (spread < 0 ? -spread : spread);
			if (left > q->tall || left < 1 || bad >= least)
				continue;
			least = bad;
			best = (struct ends){n, {before[0], before[1], last}};
		}
	return best;
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
	rows = tw_most(1, rows);
	strips = tw_ceil_div(rows, q->tall);
	const int n = (int)tw_least(3, strips);
	const struct ends ends = best_ends(q, n, rows - (strips - n) * q->tall);
	double sum = (double)(strips - n) * step(q->tall, vectors);
	for (int k = 3 - n; k < 3; k++)
		sum += step(ends.height[k], vectors);
	return sum;
}

/* By how much a strip is lower than a tall one: strip k of the last three, where there are n (3: or more) of them and
 * all tall ones would have `over` rows too many. */
static E lower_by(const struct mm_plan *q, struct twir_module *m, int n, int k, E over)
{
	E e = NULL;
	int64_t before = 0;
	for (int d = q->tall - 1; d >= 0; d--) {
		const int64_t by = q->tall - best_ends(q, n, n * q->tall - d).height[k];
		if (!e)
			e = twir_index(m, by);
		else if (by != before)
			e = twir_cond(m, twir_le(m, over, twir_index(m, d)), twir_index(m, by), e);
		before = by;
	}
	return e;
}

/* How many rows lower than tall ones the third and the second strip from the last are. */
struct twir_stmt *mm_slack(struct mm_plan *q, const struct mm_problem *p)
{
	struct twir_module *m = p->m;
	const E zero = twir_index(m, 0), tall = twir_index(m, q->tall);
	E over;
	if (!q->open)
		return NULL;
	struct twir_stmt *lets = tw_let_new(m, "over", twir_sub(m, twir_mul(m, q->strips, tall), p->M), &over);
	const E several = twir_lt(m, twir_index(m, 2), q->strips), two = twir_eq(m, q->strips, twir_index(m, 2));
	const E third = twir_cond(m, several, lower_by(q, m, 3, 0, over), zero);
	const E second =
		twir_cond(m, several, lower_by(q, m, 3, 1, over), twir_cond(m, two, lower_by(q, m, 2, 1, over), zero));
	twir_append(&lets, tw_let_new(m, "slack", third, &q->slack[0]));
	twir_append(&lets, tw_let_new(m, "slack", second, &q->slack[1]));
	return lets;
}

E mm_strip_begin(const struct mm_plan *q, const struct mm_problem *p, E strip)
{
	struct twir_module *m = p->m;
	const E tall = twir_mul(m, strip, twir_index(m, q->tall)), zero = twir_index(m, 0);
	const int low = q->heights[q->nheights - 1];
	if (q->open) {
		const E third = twir_lt(m, twir_sub(m, q->strips, twir_index(m, 3)), strip);
		const E second = twir_lt(m, twir_sub(m, q->strips, twir_index(m, 2)), strip);
		return twir_sub(m, twir_sub(m, tall, twir_cond(m, third, q->slack[0], zero)),
				twir_cond(m, second, q->slack[1], zero));
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
