/* The matmul template: sums of products of two factors, one without the columns' axis, the other without the rows' (MatMul, Gemm, convolutions, einsum), of
 * floats or 32-bit integers, over one or more fold axes.
 *
 * A core item owns a band of rows and a group of panels of columns. For each panel and each block of K it walks down the strips of rows: a register tile mirrors
 * repeat(rows, vectors) * spatial(1, lanes), and the loop over K adds one outer product a step. B is read in panels, k-major and as wide as the tile: constants are
 * laid out so at compile time, others by each item. A is read where it is when its places are affine, else from rows packed by the item. Sums of all but the last
 * block wait in scratch; finished tiles go through it to the one store of each element of C, so that a fused consumer is compiled once, in a rolled loop.
 *
 * Here: what is recognised. matmul_plan.c decides sizes, matmul_pack.c reads the factors, matmul_build.c writes the program. */
#include "sched/matmul.h"

static int64_t size_or(const struct twir_expr *e, int64_t otherwise, bool *known)
{
	int64_t v;
	const bool is = twir_const_int(e, &v);
	*known = is;
	return is ? v : otherwise;
}

static bool is_one(const struct twir_expr *e)
{
	int64_t n;
	return twir_const_int(e, &n) && n == 1;
}

/* The axis whose neighbours lie side by side in memory; axes of one element do not count. -1: none. */
static int contiguous_axis(struct twir_module *m, const struct twir_compute *c)
{
	struct twir_facts f;
	const struct twir_expr *at[TWIR_MAX_RANK], *base, *offset;
	int last = -1;
	twir_facts_init(&f, m);
	for (int d = 0; d < c->out->rank; d++) {
		int64_t n;
		at[d] = twir_var(m, c->axes[d]);
		twir_facts_range(&f, c->axes[d], 0, twir_const_int(c->out->shape[d], &n) ? n - 1 : INT64_MAX);
		last = is_one(c->out->shape[d]) ? last : d;
	}
	if (!c->out->layout)
		return last;
	offset = twir_layout_offset(m, c->out, c->out->rank, at);
	for (int d = 0; d < c->out->rank; d++) {
		int64_t stride;
		if (!is_one(c->out->shape[d]) && twir_linear_in(&f, offset, c->axes[d], &base, &stride) && stride == 1)
			return d;
	}
	return last;
}

static void see_varying(void *arg, const struct twir_expr *e)
{
	*(bool *)arg |= e->kind == TWIR_Var && e->u.var->kind != TWIR_SYMBOL;
}

/* Quotients of sizes, as in strides of an image whose sizes are halves of symbols, are made once, outside all loops. */
static void see_work(void *arg, const struct twir_expr *e)
{
	bool varies = e->kind == TWIR_Load;
	if (e->kind == TWIR_Div || e->kind == TWIR_Mod)
		twir_visit_expr(e, see_varying, &varies);
	*(bool *)arg |= varies;
}

/* One load at a place that is arithmetic without quotients, with the fold's indices given: the inner loop may repeat it. */
static bool is_affine(const struct mm_problem *p, const struct twir_expr *value, struct twir_facts *f,
		      const struct twir_expr *const *k)
{
	struct twir_subst s;
	const struct twir_expr *e = mm_inlined(p, value);
	bool work = false;
	if (e->kind != TWIR_Load || e->nidx != e->n)
		return false;
	twir_subst_init(&s, p->m);
	for (int i = 0; i < p->nfold; i++)
		twir_subst_set(&s, p->axis[i], k[i]);
	e = twir_subst_expr(&s, e);
	twir_visit_expr(twir_simplify(f, twir_layout_offset(p->m, e->u.tensor, e->nidx, e->arg)), see_work, &work);
	return !work;
}

/* v counts to an extent; that it does says something of the symbols in it as well. */
static void range_of(struct twir_facts *f, struct twir_var *v, const struct twir_expr *extent)
{
	int64_t n;
	const bool known = twir_const_int(extent, &n);
	twir_facts_range(f, v, 0, known ? n - 1 : INT64_MAX);
	if (!known)
		twir_facts_assume(f, twir_lt(f->m, twir_var(f->m, v), extent));
}

/* Can the inner loop read A where it is, with one loop over all of K, or with one for each axis of it? */
static void see_places(struct mm_problem *p)
{
	struct twir_facts f;
	const struct twir_expr *k[TWIR_MAX_RANK];
	struct twir_var *flat = twir_var_new(p->m, TWIR_LOOP, twir_scalar_type(TWIR_INDEX), "k");
	twir_facts_init(&f, p->m);
	range_of(&f, flat, p->K);
	for (int i = 0; i < p->nfold; i++)
		range_of(&f, p->axis[i], p->extent[i]);
	for (int d = 0; d < p->rank; d++)
		range_of(&f, p->c->axes[d], p->c->out->shape[d]);
	mm_unflat(p, twir_var(p->m, flat), k);
	p->affine = is_affine(p, p->a.value, &f, k);
	if (p->affine)
		return;
	for (int i = 0; i < p->nfold; i++)
		k[i] = twir_var(p->m, p->axis[i]);
	p->affine = p->nested = is_affine(p, p->a.value, &f, k);
}

struct divisor {
	const struct twir_var *k;
	int64_t least; /* of the constants that k is divided by; 0: none */
};

static void see_divisor(void *arg, const struct twir_expr *e)
{
	struct divisor *d = arg;
	int64_t n;
	if ((e->kind == TWIR_Div || e->kind == TWIR_Mod) && e->arg[0]->kind == TWIR_Var && e->arg[0]->u.var == d->k &&
	    twir_const_int(e->arg[1], &n) && n > 1 && (d->least == 0 || n < d->least))
		d->least = n;
}

/* A is read at quotients of k (of heads and their elements, after a transpose): one axis becomes two, so that its places are affine in both. */
static void split_axis(struct mm_problem *p)
{
	struct twir_module *m = p->m;
	struct divisor d = {.k = p->axis[0]};
	struct mm_problem split = *p;
	struct twir_subst s;
	twir_visit_expr(mm_inlined(p, p->a.value), see_divisor, &d);
	if (p->nfold != 1 || d.least == 0 || !p->k_known || p->k_size % d.least || p->k_size == d.least)
		return;
	split.nfold = 2;
	split.extent[0] = twir_index(m, p->k_size / d.least);
	split.extent[1] = twir_index(m, d.least);
	for (int i = 0; i < 2; i++)
		split.axis[i] = twir_var_new(m, TWIR_AXIS, twir_scalar_type(TWIR_INDEX), "k");
	const struct twir_expr *high = twir_mul(m, twir_var(m, split.axis[0]), split.extent[1]);
	twir_subst_init(&s, m);
	twir_subst_set(&s, p->axis[0], twir_add(m, high, twir_var(m, split.axis[1])));
	split.a.value = twir_subst_expr(&s, p->a.value);
	split.b.value = twir_subst_expr(&s, p->b.value);
	see_places(&split);
	if (split.affine)
		*p = split;
}

static void describe(const struct mm_problem *p, struct mm_factor *f)
{
	for (int d = 0; d < p->rank; d++)
		f->uses[d] = twir_uses_var(f->value, p->c->axes[d]);
	f->constant = tw_is_constant(p->task, f->value);
}

struct folds {
	const struct twir_expr *one;
	int n;
};

static void see_fold(void *arg, const struct twir_expr *e)
{
	struct folds *f = arg;
	if (e->kind == TWIR_Fold) {
		f->one = e;
		f->n++;
	}
}

static void see_division(void *arg, const struct twir_expr *e)
{
	*(bool *)arg |= e->kind == TWIR_Div;
}

/* Which axes are rows and columns: columns lie side by side in the result, rows are the longest of the other factor's own. */
static bool choose_axes(struct mm_problem *p)
{
	int column = contiguous_axis(p->m, p->c);
	if (column < 0)
		return false;
	for (int d = p->rank - 1; p->a.uses[column] == p->b.uses[column] && d >= 0; d--)
		if (p->a.uses[d] != p->b.uses[d] && !is_one(p->c->out->shape[d]))
			column = d;
	if (p->a.uses[column] == p->b.uses[column])
		return false;
	if (p->a.uses[column]) {
		const struct mm_factor other = p->a;
		p->a = p->b;
		p->b = other;
	}
	p->column = column;
	p->row = -1;
	int64_t longest = 0;
	for (int d = p->rank - 1; d >= 0; d--) {
		bool known;
		/* A size that is not known is middling, of the first axis small: it mostly is a batch. */
		const int64_t n = size_or(p->c->out->shape[d], d == 0 ? 8 : 64, &known);
		if (p->a.uses[d] && !p->b.uses[d] && n > longest) {
			longest = n;
			p->row = d;
		}
	}
	for (int d = 0; d < p->rank; d++)
		if (d != p->row && d != p->column)
			p->batch[p->nbatch++] = d;
	return true;
}

/* Are these the pixels of a map that is a picture's, made smaller? */
static bool is_map(const struct twir_expr *e)
{
	bool divides = false;
	twir_visit_expr(e, see_division, &divides);
	return divides;
}

static void measure(struct mm_problem *p)
{
	struct twir_module *m = p->m;
	struct twir_facts f;
	bool known;
	twir_facts_init(&f, m);
	p->M = p->row < 0 ? twir_index(m, 1) : p->c->out->shape[p->row];
	p->N = p->c->out->shape[p->column];
	p->K = twir_index(m, 1);
	for (int i = 0; i < p->nfold; i++)
		p->K = twir_mul(m, p->K, p->extent[i]);
	p->K = twir_simplify(&f, p->K);
	p->map = is_map(p->M);
	p->m_size = size_or(p->M, p->map ? tw_size_about(m, p->M, MM_PICTURE) : 128, &p->m_known);
	p->n_size = size_or(p->N, 256, &p->n_known);
	p->k_size = size_or(p->K, 512, &p->k_known);
	p->batches = 1;
	for (int d = 0; d < p->nbatch; d++) {
		const int64_t n = size_or(p->c->out->shape[p->batch[d]], 1, &known);
		p->batches *= n < 1 ? 1 : n > 4096 ? 4096 : n;
		p->batches = p->batches > 1 << 20 ? 1 << 20 : p->batches;
	}
}

/* The greatest magnitude that an integer expression can have; 0: not known */
static int64_t reach(const struct twir_expr *e)
{
	const enum twir_scalar type = (enum twir_scalar)e->type.scalar;
	int64_t a, b;
	switch (e->kind) {
	case TWIR_Const:
		return twir_const_int(e, &a) && a > -(1 << 16) && a < 1 << 16 ? (a < 0 ? -a : a) + !a : 0;
	case TWIR_Load:
		return type == TWIR_U8 ? 255 : type == TWIR_I8 ? 128 : 0;
	case TWIR_Cast:
		return type == TWIR_I32 ? reach(e->arg[0]) : 0;
	case TWIR_Sub:
	case TWIR_Add:
		a = reach(e->arg[0]);
		b = reach(e->arg[1]);
		return a && b ? a + b : 0;
	case TWIR_Select:
	case TWIR_Cond:
		a = reach(e->arg[1]);
		b = reach(e->arg[2]);
		return !a || !b ? 0 : a > b ? a : b;
	default:
		return 0;
	}
}

/* Numbers of 8 bits less their zero points: the sum of a few hundred of their products is below 2^24, so that floats add it without rounding, at twice the
 * speed and more. Blocks of K are as short as that demands; their sums are added as integers. */
static void see_exact(struct mm_problem *p)
{
	enum { SHORTEST = 64, EXACT = 1 << 24 };
	const int64_t a = reach(p->a.value), b = reach(p->b.value);
	if (p->type != TWIR_I32 || !a || !b || !p->k_known || a * b * SHORTEST > EXACT)
		return;
	p->exact = EXACT / (a * b) / 8 * 8; /* blocks are of so many */
	p->type = TWIR_F32;
}

/* Panels that many rows read are packed once, by a kernel before; those of few rows by the item that needs them, while they are in its cache. */
enum { SHARED_ROWS = 192 };

static enum mm_access how(const struct mm_problem *p, const struct mm_factor *f)
{
	bool known = p->k_known;
	int64_t rows = p->m_size;
	for (int d = 0; d < p->rank; d++) {
		int64_t n;
		known &= !f->uses[d] || twir_const_int(p->c->out->shape[d], &n);
	}
	if (f->constant && known)
		return MM_PREPARED;
	for (int d = 0; d < p->nbatch; d++)
		rows *= f->uses[p->batch[d]] ? 1 : tw_size_or(p->c->out->shape[p->batch[d]], 1);
	const bool plain = mm_inlined(p, f->value)->kind == TWIR_Load; /* a window's panels are many times the image */
	return f == &p->b && plain && p->n_known && p->m_known && known && rows >= SHARED_ROWS ? MM_STAGED : MM_PACKED;
}

/* Where few rows share an element of B, reading it from memory is what takes time: small integers stay small there. */
static enum twir_scalar stored_type(const struct mm_problem *p)
{
	enum { FEW_ROWS = 32 };
	if (!p->exact || !(p->row < 0 || p->m_known) || p->m_size > FEW_ROWS || p->b.access != MM_PREPARED)
		return p->type;
	const struct twir_expr *load = p->b.value->kind == TWIR_Cast ? p->b.value->arg[0] : p->b.value;
	return load->kind == TWIR_Load && load->type.scalar == TWIR_I8 ? TWIR_I8 : TWIR_I16;
}

bool mm_match(const struct tw_task *task, const struct tw_target *t, struct mm_problem *p)
{
	const struct twir_compute *c = task->anchor;
	struct folds folds = {0};
	twir_visit_expr(c->value, see_fold, &folds);
	if (folds.n != 1 || folds.one->op != TWIR_Add || folds.one->arg[0]->kind != TWIR_Mul)
		return false;
	const struct twir_expr *product = folds.one->arg[0];
	*p = (struct mm_problem){.task = task,
				 .t = t,
				 .m = task->m,
				 .c = c,
				 .fold = folds.one,
				 .type = (enum twir_scalar)folds.one->type.scalar,
				 .a = {.value = product->arg[0]},
				 .b = {.value = product->arg[1]},
				 .rank = c->out->rank,
				 .nfold = folds.one->n - 1};
	if (p->type != TWIR_F32 && p->type != TWIR_F64 && p->type != TWIR_I32 && p->type != TWIR_U32)
		return false;
	for (int i = 0; i < p->nfold; i++)
		if (!twir_uses_var(product->arg[0], folds.one->u.axes[i]) ||
		    !twir_uses_var(product->arg[1], folds.one->u.axes[i]))
			return false;
	for (int i = 0; i < p->nfold; i++) {
		p->axis[i] = folds.one->u.axes[i];
		p->extent[i] = folds.one->arg[1 + i];
	}
	describe(p, &p->a);
	describe(p, &p->b);
	if (!choose_axes(p))
		return false;
	const bool words = mm_take_words(p);
	measure(p);
	if (!words)
		see_exact(p);
	see_places(p);
	if (!p->affine)
		split_axis(p);
	p->a.access = p->affine ? MM_DIRECT : how(p, &p->a);
	p->b.access = how(p, &p->b);
	p->a.stored = p->type;
	p->b.stored = stored_type(p);
	return true;
}

void mm_take_row(struct mm_problem *p, int row)
{
	p->row = row;
	p->nbatch = 0;
	for (int d = 0; d < p->rank; d++)
		if (d != p->row && d != p->column)
			p->batch[p->nbatch++] = d;
	measure(p);
}

/* Packing at run time pays from a few rows on, lanes from a few columns on, and what is packed must not overflow the scratch a thread can afford. */
static bool applicable(const struct tw_task *task, const struct tw_target *t)
{
	struct mm_problem p;
	if (!mm_match(task, t, &p))
		return false;
	const int64_t scratch = p.k_size * 2 * t->lanes * 8;
	if (p.n_size < 4 || p.k_size <= 0 || scratch > 16 << 20)
		return false;
	return p.b.access != MM_PACKED || p.m_size >= 4;
}

enum { FEW_ROWS = 16, MOST_TRIALS = 3 };

/* The numbers of rows that a point is judged by: the known one; of a map, those of a small, a middling and a large picture; else, where weights lie prepared,
 * a middling number and few. */
static int trials(const struct mm_problem *p, int64_t *rows)
{
	static const int64_t picture[MOST_TRIALS] = {160, MM_PICTURE, 320};
	int n = 0;
	rows[n++] = p->m_size;
	if (p->m_known || p->b.access != MM_PREPARED)
		return n;
	if (!p->map) {
		rows[n++] = FEW_ROWS;
		return n;
	}
	for (n = 0; n < MOST_TRIALS; n++)
		rows[n] = tw_size_about(p->m, p->M, picture[n]);
	return n;
}

/* The point that costs least; for rows of an unknown number, the one that loses least at several numbers, taken together. */
static int choose(const struct tw_task *task, const struct tw_target *t, const struct tw_space *s)
{
	struct mm_problem p;
	int best = 0;
	int64_t rows[MOST_TRIALS];
	TW_CHECK(mm_match(task, t, &p), "matmul asked about something else");
	const int n = trials(&p, rows);
	double *cost = ARENA_ARRAY(p.m->arena, double, s->points.n),
	       *one = ARENA_ARRAY(p.m->arena, double, s->points.n);
	for (int k = 0; k < n; k++) {
		double least = 0;
		p.m_size = rows[k];
		for (int i = 0; i < s->points.n; i++) {
			one[i] = mm_cost(&p, &s->points.at[i]);
			least = i == 0 || one[i] < least ? one[i] : least;
		}
		for (int i = 0; i < s->points.n; i++)
			cost[i] += one[i] / (n > 1 ? least : 1);
	}
	for (int i = 0; i < s->points.n; i++)
		best = cost[i] < cost[best] ? i : best;
	return best;
}

const struct tw_template tw_template_matmul = {
	.name = "matmul", .applicable = applicable, .space = mm_space, .choose = choose, .build = mm_build};
