/* The plan of a chain and the analytic model that says whether it pays. Input: a chain as matched. An item owns a strip of rows (and, without a projection, some
 * panels of channels); the rows that neighbouring strips both read are made twice. What is saved: tensors between the stages that would leave the second-level
 * cache are neither written nor read back. What is lost: rows made twice, and tiles of one row of an image instead of all its pixels. */
#include "sched/chain_int.h"

typedef const struct twir_expr *E;

/* What a symbol is taken for, mostly the side of the picture that the model is given: where it is open, pictures are larger than the 224 pixels of
 * networks that tell what one thing is; of images there is one. A detector of 160 pixels loses 0.5% by plans for 320, one of 448 x 640 gains 1%. */
enum { MIDDLING = 320 };
enum { ENOUGH_ITEMS = 8, ENOUGH_PIXELS = 56 }; /* items that keep cores busy; pixels of a step */
/* Bytes a cycle: read from beyond the second level and written there, as a stream; between the first two. */
enum { READ_BYTES = 8, WRITE_BYTES = 24, NEAR_BYTES = 32 };

void chain_guess(struct mm_problem *p)
{
	p->m_size = tw_size_about(p->m, p->M, MIDDLING);
	p->batches = 1;
	for (int d = 0; d < p->nbatch; d++)
		p->batches *=
			tw_size_about(p->m, p->c->out->shape[p->batch[d]], p->batch[d] == CHAIN_IMAGE ? 1 : MIDDLING);
}

static int64_t size_of(const struct chain *c, int part, int dimension)
{
	return tw_size_about(c->m, c->part[part].task.anchor->out->shape[dimension],
			     dimension == CHAIN_IMAGE ? 1 : MIDDLING);
}

static int64_t l2_of(const struct chain *c)
{
	return c->t->l2_bytes > 0 ? c->t->l2_bytes : 256 << 10;
}

static int64_t l1_of(const struct chain *c)
{
	return c->t->l1_bytes > 0 ? c->t->l1_bytes : 32 << 10;
}

static double elements(const struct chain *c, int part)
{
	double n = 1;
	for (int d = 0; d < CHAIN_RANK; d++)
		n *= (double)size_of(c, part, d);
	return n;
}

/* Rows that the window reads for `rows` of its result. */
static int64_t reach(const struct chain *c, int64_t rows)
{
	return (rows - 1) * c->step + (c->taps - 1) * c->dilation + 1;
}

static int64_t ring_bytes(const struct chain *c, int64_t channels)
{
	return c->ring * size_of(c, CHAIN_EXPAND, CHAIN_COLUMN) * channels * 4;
}

/* Cycles of moving the ring and the expansion's operand between the first two levels, with turns of so many channels. */
static double moving(const struct chain *c, int64_t channels)
{
	const struct mm_problem *p = &c->part[CHAIN_EXPAND].p;
	const double image = elements(c, CHAIN_EXPAND) * 4, operand = image / (double)p->n_size * (double)p->k_size;
	const double reads = (double)tw_most(1, c->taps / c->step);
	const double turns = (double)tw_ceil_div(p->n_size, channels);
	const bool near = ring_bytes(c, channels) <= l1_of(c) * 3 / 4;
	return ((near ? 0 : image * (2 + reads)) + operand * turns) / NEAR_BYTES;
}

/* The best tile with all of K in one block and no prefetching: weights are read again soon. */
static void plan_matmul(struct chain *c, int which)
{
	struct chain_part *x = &c->part[which];
	struct tw_space s = {0};
	bool any = false;
	double best = 0;
	mm_space(c->m->arena, c->t, &s);
	for (int i = 0; i < s.points.n; i++) {
		const struct tw_point *point = &s.points.at[i];
		if (point->value[MM_DEPTH] || point->value[MM_AHEAD])
			continue;
		const double cost = mm_cost(&x->p, point);
		const int64_t nr = (int64_t)point->value[MM_VECTORS] * c->t->lanes;
		for (int64_t turn = 1; turn == 1 || (which == CHAIN_EXPAND && turn * nr < x->p.n_size + nr); turn++) {
			const double all = cost + (which == CHAIN_EXPAND ? moving(c, turn * nr) : 0);
			if (any && all >= best)
				continue;
			any = true;
			best = all;
			x->point = *point;
			if (which == CHAIN_EXPAND)
				c->turn = turn;
		}
	}
	TW_CHECK(any, "no tile has all of K in one block");
	mm_plan_init(&x->q, &x->p, &x->point);
	x->q.band = 1 << 30;
	x->q.group = x->q.outer = 1;
}

static void set_block(struct chain *c, int64_t block)
{
	const int64_t rows = reach(c, block);
	c->block = block;
	c->ring = 1;
	while (c->ring < rows)
		c->ring *= 2;
	if (c->ring > rows + rows / 3) /* a remainder costs less than so much cache */
		c->ring = rows;
}

static int64_t scratch_bytes(const struct chain *c)
{
	return tw_most(l1_of(c), l2_of(c) / 2);
}

static E largest(struct twir_module *m, E a, int64_t b)
{
	return twir_max(m, a, twir_index(m, b));
}

/* Rows of an item, of all that there are and with so many items for each image's rows: enough items for any number of cores, but few rows made twice, and what
 * the projection reads in the second-level cache. Whole steps, and shares that are even. */
static E strip_of(const struct chain *c, E items)
{
	struct twir_module *m = c->m;
	const struct twir_tensor *result = c->part[CHAIN_WINDOW].task.anchor->out;
	const E *size = result->shape, rows = size[CHAIN_ROW], block = twir_index(m, c->block);
	const int64_t twice = c->part[CHAIN_EXPAND].given ? tw_most(0, reach(c, 1) - c->step) : 0;
	const int64_t fewest = tw_most(c->block, tw_ceil_div(14 * twice, c->step));
	const E wanted = twir_ceildiv(m, twir_index(m, ENOUGH_ITEMS), largest(m, items, 1));
	E strips = twir_div(m, rows, largest(m, twir_ceildiv(m, rows, wanted), fewest));
	if (c->part[CHAIN_PROJECT].given) {
		const E line = twir_mul(m, size[CHAIN_COLUMN], twir_mul(m, size[CHAIN_CHANNEL], twir_index(m, 4)));
		const E fit = twir_div(m, twir_index(m, scratch_bytes(c)), largest(m, line, 1));
		strips = twir_max(m, strips, twir_ceildiv(m, rows, largest(m, fit, fewest)));
	}
	const E strip = twir_ceildiv(m, rows, largest(m, strips, 1));
	struct twir_facts f;
	twir_facts_init(&f, m);
	return twir_simplify(&f, largest(m, twir_mul(m, twir_ceildiv(m, strip, block), block), c->block));
}

/* Items: channels cost nothing to share out, strips their borders; those stay few. */
static void plan_items(struct chain *c)
{
	struct twir_module *m = c->m;
	const bool expands = c->part[CHAIN_EXPAND].given, projects = c->part[CHAIN_PROJECT].given;
	const int64_t images = size_of(c, CHAIN_WINDOW, CHAIN_IMAGE);
	const struct chain_part *x = &c->part[CHAIN_EXPAND];
	const int64_t all = expands ? tw_ceil_div(x->p.n_size, x->q.nr * c->turn) : 1; /* turns of a strip */
	int64_t turns = all;
	while (!projects && turns > 1 && images * tw_ceil_div(all, turns) < ENOUGH_ITEMS)
		turns = tw_ceil_div(turns, 2);
	c->group = turns * (expands ? c->turn : 1);
	c->strip = strip_of(c, twir_mul(m, c->part[CHAIN_WINDOW].task.anchor->out->shape[CHAIN_IMAGE],
					twir_index(m, tw_ceil_div(all, turns))));
}

static int64_t line_bytes(const struct chain *c)
{
	return size_of(c, CHAIN_WINDOW, CHAIN_COLUMN) * size_of(c, CHAIN_WINDOW, CHAIN_CHANNEL) * 4;
}

int64_t chain_strip_rows(const struct chain *c)
{
	return tw_size_about(c->m, c->strip, MIDDLING);
}

bool chain_plan(struct chain *c)
{
	const int64_t rows = size_of(c, CHAIN_WINDOW, CHAIN_ROW), columns = size_of(c, CHAIN_WINDOW, CHAIN_COLUMN);
	c->turn = 1;
	set_block(c, tw_least(rows, tw_ceil_div(ENOUGH_PIXELS, columns)));
	if (c->part[CHAIN_EXPAND].given) {
		while (c->block > 1 && ring_bytes(c, c->t->lanes) > l1_of(c) / 2)
			set_block(c, tw_ceil_div(c->block, 2));
		plan_matmul(c, CHAIN_EXPAND);
		if (ring_bytes(c, c->turn * c->part[CHAIN_EXPAND].q.nr) > tw_most(l1_of(c), l2_of(c) / 4))
			return false;
	}
	if (c->part[CHAIN_PROJECT].given)
		plan_matmul(c, CHAIN_PROJECT);
	plan_items(c);
	return !c->part[CHAIN_PROJECT].given || chain_strip_rows(c) * line_bytes(c) <= scratch_bytes(c);
}

/* The share of a tensor of so many bytes that is gone from the second level when its reader comes. */
static double far(const struct chain *c, double bytes)
{
	const double l2 = (double)l2_of(c);
	return bytes <= l2 / 4 ? 0 : bytes >= l2 * 3 / 4 ? 1 : (bytes - l2 / 4) / (l2 / 2);
}

/* Cycles not spent on moving what a part makes. */
static double traffic(const struct chain *c, int part)
{
	const double bytes = elements(c, part) * 4;
	return bytes * far(c, bytes) * (1.0 / READ_BYTES + 1.0 / WRITE_BYTES);
}

/* Of the matmul as it would run on its own, and here. */
static double alone(const struct chain *c, int part)
{
	const struct chain_part *x = &c->part[part];
	const struct tw_template *t = &tw_template_matmul;
	struct tw_space s = {0};
	struct mm_problem p;
	if (!mm_match(x->given, c->t, &p))
		return 0;
	chain_guess(&p);
	t->space(c->m->arena, c->t, &s);
	return mm_cost(&p, &s.points.at[t->choose(x->given, c->t, &s)]);
}

static double epilogue(const struct chain *c, int part)
{
	const struct chain_part *x = &c->part[part];
	return elements(c, part) / c->t->lanes * (tw_cost(x->task.anchor->value) - tw_cost(x->p.fold));
}

/* Cycles of reading weights again, where one turn's or panel's leave no room in the first level for what they are multiplied with. */
static double weights(const struct chain *c)
{
	double cycles = 0;
	for (int i = 0; i < CHAIN_PARTS; i += CHAIN_PROJECT) {
		const struct chain_part *x = &c->part[i];
		if (!x->given)
			continue;
		const int64_t columns = x->q.nr * (i == CHAIN_EXPAND ? c->turn : 1),
			      rows = size_of(c, CHAIN_WINDOW, CHAIN_ROW);
		const int64_t times = tw_ceil_div(rows, i == CHAIN_EXPAND ? c->block : 1);
		if (x->p.k_size * columns * 4 > l1_of(c) / 2)
			cycles += (double)(x->p.k_size * x->p.n_size * 4) *
				  (double)(times * size_of(c, i, CHAIN_IMAGE)) / NEAR_BYTES;
	}
	return cycles;
}

double chain_saves(const struct chain *c)
{
	const double rows = (double)size_of(c, CHAIN_WINDOW, CHAIN_ROW);
	double saved = 0;
	if (c->part[CHAIN_EXPAND].given) {
		const struct chain_part *x = &c->part[CHAIN_EXPAND];
		const double here = mm_cost(&x->p, &x->point),
			     strips = (double)tw_ceil_div((int64_t)rows, chain_strip_rows(c));
		const double again = (strips - 1) * (double)tw_most(0, reach(c, 1) - c->step) /
				     (double)size_of(c, CHAIN_EXPAND, CHAIN_ROW);
		saved += traffic(c, CHAIN_EXPAND) + alone(c, CHAIN_EXPAND) - here;
		saved += moving(c, INT32_MAX) -
			 moving(c, c->turn * x->q.nr); /* what does not lie in the first level moves unfused too */
		saved -= again * (here + epilogue(c, CHAIN_EXPAND));
	}
	if (c->part[CHAIN_PROJECT].given)
		saved += traffic(c, CHAIN_WINDOW) + alone(c, CHAIN_PROJECT) -
			 mm_cost(&c->part[CHAIN_PROJECT].p, &c->part[CHAIN_PROJECT].point);
	return saved - weights(c);
}
