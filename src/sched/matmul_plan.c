/* The matmul template's space and analytic model. Input: a problem and a point; output: sizes of tiles, blocks and core items, and the cycles they should take. A
 * point knows the machine alone: registers, lanes and caches; remainders are balanced. Nothing depends on the number of threads. */
#include "sched/matmul.h"

enum { AT_ONCE = 8 /* lines */, MOST_ROWS = 28 };

/* Register tiles that fit: accumulators, a row of B and one broadcast; tiles that cannot hide the latency of the multiply-add are of use where rows are few. */
void mm_space(struct tw_arena *a, const struct tw_target *t, struct tw_space *s)
{
	static const char *const names[] = {"rows", "vectors", "depth", "ahead"};
	static const int vectors[] = {2, 3, 4, 5, 6, 8, 1}, depth[] = {256, 384, 0};
	s->nparams = TW_COUNT(names);
	memcpy(s->names, names, sizeof(names));
	for (int v = 0; v < TW_COUNT(vectors); v++) {
		const int nv = vectors[v], fit = (t->vector_registers - nv - 1) / nv,
			  most = fit > MOST_ROWS ? MOST_ROWS : fit;
		for (int rows = most; rows >= 1 && rows > most - 3; rows--)
			for (int d = 0; d < TW_COUNT(depth); d++)
				for (int ahead = 1; ahead >= 0; ahead--)
					vec_push(a, &s->points,
						 ((struct tw_point){.value = {rows, nv, depth[d], ahead}}));
	}
}

/* Machine vectors that the program's lanes take: two where elements are wider than the lanes were counted for. */
static int64_t wide(const struct mm_problem *p)
{
	const int64_t bytes = p->t->lanes * twir_scalar_bytes(p->type);
	return p->t->vector_bytes ? tw_most(1, bytes / p->t->vector_bytes) : 1;
}

/* Blocks of K, of nearly equal length; all of it where it is not known, or where A is read by nested loops. */
static void plan_depth(struct mm_plan *q, const struct mm_problem *p, int depth)
{
	q->kc = p->k_size;
	q->blocks = q->outer = 1;
	if (p->exact && (depth == 0 || depth > p->exact))
		depth = (int)tw_least(p->exact, 1 << 20);
	if (!p->k_known || depth == 0 || p->nested || p->k_size <= depth + (p->exact ? 0 : depth / 2))
		return;
	q->blocks = p->exact ? tw_ceil_div(p->k_size, depth) : (p->k_size + depth / 2) / depth;
	q->kc = tw_ceil_div(tw_ceil_div(p->k_size, q->blocks), 8) * 8;
	q->blocks = tw_ceil_div(p->k_size, q->kc);
}

/* The accumulators of few rows are few, and what takes time there is B: shorter pieces cost nothing. Otherwise about TW_SUM_PIECE (sched.h). */
static void plan_pieces(struct mm_plan *q, const struct mm_problem *p)
{
	enum { FEW_ROWS = 2, SHORT = 4 };
	const int64_t shorter = (p->row < 0 || (p->m_known && p->m_size <= FEW_ROWS)) ? SHORT : 1;
	const int64_t usual = TW_SUM_PIECE / shorter, about = p->task->piece ? tw_least(p->task->piece, usual) : usual;
	int64_t whole = p->nested ? tw_size_or(p->extent[p->nfold - 1], 0) : p->k_known ? q->kc : 0;
	if (p->exact || !twir_is_float(p->type))
		return;
	q->piece = whole ? tw_sum_piece(whole, about) : about;
	if (!p->nested)
		return;
	q->apart = p->nfold - 1;
	while (q->apart > 0 && !q->piece) {
		whole *= tw_size_or(p->extent[q->apart - 1], TW_SUM_PIECE);
		if (tw_sum_piece(whole, about))
			break;
		q->apart--;
	}
}

enum { MANY_ROWS = 96 /* each element of B serves so many multiply-adds that it may come from far */ };
enum { SOME_STRIPS = 24, LONG_ROW = 4096 /* where K is unknown: for what must fit */ };
enum { ENOUGH_ITEMS = 48, FAR_ITEMS = 8, PACKING_ITEMS = 4, ITEM_CYCLES = 50000, FAR_CYCLES = 10000 };
enum { STREAM_BYTES = 12, NEAR_BYTES = 48 /* a cycle, from beyond the second-level cache, and from there */ };

/* The loop over blocks of K in two: the outer one takes `turns`, in each of which A's part stays in the second-level cache for all panels of the item. */
static void plan_turns(struct mm_plan *q, int64_t turns)
{
	const int64_t inner = tw_ceil_div(q->blocks, turns);
	q->outer = tw_ceil_div(q->blocks, inner);
	q->blocks = q->outer * inner;
}

/* What one core item owns. Its rows of A must leave half of the second-level cache to B; then items become smaller until there are enough for any number of cores
 * one could think of, as long as each is worth handing out. What an item packs it packs for itself, so that such items stay larger. */
static void plan_items(struct mm_plan *q, const struct mm_problem *p)
{
	const int bytes = twir_scalar_bytes(p->type);
	const int64_t l2 = p->t->l2_bytes > 0 ? p->t->l2_bytes : 256 << 10,
		      k = tw_most(1, p->k_known ? p->k_size : LONG_ROW);
	const int64_t strips = tw_most(1, tw_ceil_div(p->m_size, q->tall)),
		      panels = tw_most(1, tw_ceil_div(p->n_size, q->nr));
	/* Few rows wait for B, which comes from far: an item's share of it is small, so that loops find some of it near. */
	const bool waits = strips == 1 && q->tall <= 2 && p->b.access == MM_PREPARED;
	const double stream = waits ? (double)(k * q->nr * twir_scalar_bytes(p->b.stored)) / STREAM_BYTES : 0;
	const double adds = (double)k * q->tall * q->nv / 2, tile = adds > stream ? adds : stream;
	const double enough_work = waits ? FAR_CYCLES : ITEM_CYCLES;
	const int64_t fit = l2 / 2 / (k * bytes * q->tall);
	q->near = tw_most(1, fit);
	q->band = tw_most(1, tw_least(fit, p->m_known ? strips : SOME_STRIPS));
	if (q->blocks > 1 && p->a.access != MM_PACKED && q->band < strips && q->band * q->tall < MANY_ROWS) {
		const int64_t rows = tw_least(strips, tw_ceil_div(MANY_ROWS, q->tall));
		plan_turns(q, tw_ceil_div(k * bytes * q->tall * rows, l2 / 2));
		q->band = tw_most(rows, tw_least(strips, fit * q->outer));
	}
	q->group = panels;
	if (p->b.access == MM_PACKED)
		q->group = tw_most(1, tw_least(panels, l2 / 2 / (k * q->nr * bytes)));
	if (q->outer > 1) /* all its sums wait between turns */
		q->group = tw_most(4, tw_least(panels, l2 / 4 / (q->band * q->tall * q->nr * bytes)));
	if (!p->m_known && p->b.access == MM_PACKED)
		q->band = tw_most(1, tw_least(8, q->band));
	const bool packs = p->b.access == MM_PACKED;
	const int64_t enough = packs ? PACKING_ITEMS : q->outer > 1 ? FAR_ITEMS : ENOUGH_ITEMS;
	while (p->batches * tw_ceil_div(strips, q->band) * tw_ceil_div(panels, q->group) < enough) {
		const bool rows = q->band >= 8 && (packs || (p->m_known && q->band * q->tall > 4 * q->group * q->nr));
		const bool columns = q->group > 1 && (p->a.access != MM_PACKED || q->group * q->nr > 256);
		const bool few_rows = !columns && p->m_known && p->a.access == MM_PACKED && q->band >= 4;
		if (q->band * q->group * tile < 2 * enough_work || !(rows || columns || few_rows))
			break;
		if (rows || few_rows)
			q->band = tw_ceil_div(q->band, 2);
		else
			q->group = tw_ceil_div(q->group, 2);
	}
	/* even shares */
	if (p->m_known)
		q->band = tw_ceil_div(strips, tw_ceil_div(strips, q->band));
	q->group = tw_ceil_div(panels, tw_ceil_div(panels, q->group));
	q->spread = tw_least(q->band, strips);
}

/* By way of scratch an epilogue is compiled once, in a loop; from registers once for each vector of the tile. The latter pays where the loop over K is short. */
static bool stores_straight(const struct mm_problem *p)
{
	const struct twir_compute *c = p->task->consumer;
	return !p->exact && p->k_size <= 512 && tw_cost(p->c->value) + (c ? tw_cost(c->value) : 0) <= 12;
}

void mm_plan_init(struct mm_plan *q, const struct mm_problem *p, const struct tw_point *point)
{
	*q = (struct mm_plan){.nv = point->value[MM_VECTORS],
			      .nr = point->value[MM_VECTORS] * p->t->lanes,
			      .ahead = point->value[MM_AHEAD] && p->b.access != MM_PACKED};
	mm_plan_rows(q, p, (int)tw_most(1, point->value[MM_ROWS] / wide(p)));
	plan_depth(q, p, point->value[MM_DEPTH]);
	plan_pieces(q, p);
	plan_items(q, p);
	q->straight = stores_straight(p);
}

/* Cycles a step of K takes in a tile of h rows: multiply-adds on two ports, loads on two, the chain of one accumulator. */
static double step(double h, double vectors)
{
	const double fma = h * vectors / 2, loads = (h + vectors) / 2;
	const double most_of = fma > loads ? fma : loads, other = fma > loads ? loads : fma;
	return (most_of > 4 ? most_of : 4) + 0.1 * other + 0.3;
}

/* Cycles a step of K waits for A: the lines of a tile's rows arrive together, one step in so many as a line has elements, and more of them than the first-level
 * cache takes at once stand in line, longer where A fills more than the second level. (Measured at 2048 rows: tiles of 14 and 12 rows lose a tenth to one of 8; at
 * 128 rows, nothing to speak of.) */
static double burst(const struct mm_problem *p, const struct mm_plan *q, double l1, double l2)
{
	const double bytes = twir_scalar_bytes(p->type), rows = (double)tw_least(p->m_size, q->band * q->tall);
	const bool beyond = (double)p->m_size * (double)p->k_size * bytes > l2;
	if (q->tall <= AT_ONCE || rows * (double)q->kc * bytes < l1 / 2)
		return 0;
	return (q->tall - AT_ONCE) * (beyond ? 6 : 2.4) * bytes / 64;
}

/* Few rows of a B that fits the second-level cache beside other things find it there when they come again, as steps of a recurrence do. */
static bool stays_near(const struct mm_problem *p, double l2)
{
	enum { FEW_ROWS = 8 };
	double bytes = (double)p->k_size * (double)p->n_size * twir_scalar_bytes(p->b.stored);
	for (int d = 0; d < p->nbatch; d++)
		bytes *= p->b.uses[p->batch[d]] ? (double)tw_size_or(p->c->out->shape[p->batch[d]], 1) : 1;
	return (p->row < 0 || (p->m_known && p->m_size <= FEW_ROWS)) && p->b.access == MM_PREPARED && bytes <= l2;
}

double mm_cost(const struct mm_problem *p, const struct tw_point *point)
{
	struct mm_plan q;
	mm_plan_init(&q, p, point);
	const double bytes = twir_scalar_bytes(p->type), k = (double)tw_most(1, p->k_size);
	const double vectors = q.nv * (double)wide(p);
	const double panels = (double)tw_ceil_div(tw_most(1, p->n_size), q.nr),
		     strips = (double)tw_ceil_div(tw_most(1, p->m_size), q.tall);
	const double l1 = (double)(p->t->l1_bytes > 0 ? p->t->l1_bytes : 32 << 10);
	const double l2 = (double)(p->t->l2_bytes > 0 ? p->t->l2_bytes : 256 << 10);
	const double per_panel = mm_rows_cost(&q, p->m_size, step, vectors);
	/* Sums that wait are stored and loaded, finished ones too, row by row; a block of B beyond the first-level cache comes from the second. */
	const double rows = strips * q.tall, block = (double)q.kc * q.nr * bytes;
	const double detour =
		rows * (vectors * 1.2 * (double)(q.blocks - 1) + (q.straight ? vectors : 3 + 2 * vectors));
	const double far = strips >= 2 && block > l2 / 8 ? 0.15 : 0;
	const double lines = strips >= 2 && block > l1 * 0.7 ? 0.3 * q.nr * bytes / 64 : 0; /* of B, a step */
	const bool near = stays_near(p, l2);
	/* B itself, from the second level or beyond */
	const double stream = k * q.nr * twir_scalar_bytes(p->b.stored) / (near ? NEAR_BYTES : STREAM_BYTES);
	double panel = per_panel * k * (1 + far) + detour + strips * k * (lines + burst(p, &q, l1, l2));
	if (near) { /* To ask for what is there takes as long as to read it. (Measured on one AVX-512 core: 101 GB/s instead of 187.) */
		panel = 0.1 * panel + (panel > stream ? panel : stream);
		return (double)p->batches * panels * (panel + (q.ahead ? k * q.nr * bytes / 64 : 0));
	}
	panel += q.ahead ? strips : panel > stream ? stream * 0.25 : 0;
	panel = panel > stream ? panel : stream;
	return (double)p->batches * panels * panel;
}
