/* Matmul with K divided among core items: where a problem has few rows and columns and a long K, its items would
 * be too few for many cores. Input: a task that the matmul template takes. Output: a launch of two steps. The first is
 * a matmul of its own with one more batch axis, the part of K, whose results are partial sums:
 *
 *   sums[s, ..] = sum over k < span of A(.., s * span + k) * B(s * span + k, ..)
 *   C[..] = the anchor's value with sum over s of sums[s, ..], in the order of s
 *
 * Of the pixels of an open map there are about as many as a middling picture has.
 *
 * How many parts there are follows from the sizes alone, never from the threads at hand, so that results are the
 * same for any number of them. */
#include "sched/matmul.h"

enum {
	FEW_ITEMS = 16,	      /* with so many items or more K stays whole */
	WANTED_ITEMS = 32,    /* of all parts together, about */
	SHORTEST = 256,	      /* steps of K in a part: sums are then stored and loaded at small cost */
	PART_CYCLES = 100000, /* of one core: what a part is worth handing out for, and the second step besides */
	SHARE = 32,	      /* one in so many cycles at most may go into sums */
};

/* Cycles of one core for all of it: multiply-adds on two ports, or B from memory. */
static double work(const struct mm_problem *p)
{
	const double nk = (double)p->n_size * (double)p->k_size, bytes = twir_scalar_bytes(p->type);
	const double compute = (double)p->m_size * nk / (2.0 * p->t->lanes), stream = nk * bytes / 6;
	return (double)p->batches * (compute > stream ? compute : stream);
}

static bool batches_known(const struct mm_problem *p)
{
	for (int d = 0; d < p->nbatch; d++)
		if (tw_size_or(p->c->out->shape[p->batch[d]], -1) < 0)
			return false;
	return true;
}

static int longest_axis(const struct mm_problem *p)
{
	int axis = 0;
	for (int i = 1; i < p->nfold; i++)
		if (tw_size_or(p->extent[i], 0) > tw_size_or(p->extent[axis], 0))
			axis = i;
	return axis;
}

/* The divisor of `extent` nearest to `wanted`, from half of it to twice of it; else `wanted`. */
static int64_t divisor_near(int64_t extent, int64_t wanted)
{
	for (int64_t by = 0; by <= wanted; by++) {
		if (wanted + by <= extent && extent % (wanted + by) == 0)
			return wanted + by;
		if (wanted - by >= (wanted + 1) / 2 && wanted - by > 1 && extent % (wanted - by) == 0)
			return wanted - by;
	}
	return wanted;
}

int64_t mm_parts(const struct mm_problem *p, int64_t items)
{
	if (p->words.on || items >= FEW_ITEMS || !p->m_known || !p->n_known || !p->k_known || !batches_known(p) ||
	    p->rank + 1 > TWIR_MAX_RANK || items < 1)
		return 1;
	const int64_t extent = tw_size_or(p->extent[longest_axis(p)], 1);
	int64_t parts = WANTED_ITEMS / items;
	const int64_t worth = (int64_t)(work(p) / PART_CYCLES);
	const double sums = 1.5 * (double)p->batches * (double)p->m_size *
			    (double)p->n_size; /* cycles to store and add those of a part, measured */
	const int64_t cheap = (int64_t)(work(p) / (SHARE * (sums > 1 ? sums : 1)));
	parts = parts < worth ? parts : worth;
	parts = parts < cheap ? parts : cheap;
	parts = parts < p->k_size / SHORTEST ? parts : p->k_size / SHORTEST;
	parts = parts < extent ? parts : extent;
	return parts < 2 ? 1 : divisor_near(extent, parts);
}

/* Axis d of the partial sums, after the parts': the anchor's, columns last whatever the layout of the result, so
 * that they stay columns. */
static int axis_at(const struct mm_problem *p, int d)
{
	return d == p->rank - 1 ? p->column : d < p->column ? d : d + 1;
}

/* The definition of the partial sums. */
static struct twir_compute *partial(const struct mm_problem *p, int64_t parts)
{
	struct twir_module *m = p->m;
	const struct twir_expr *shape[TWIR_MAX_RANK], *extents[TWIR_MAX_RANK];
	const int axis = longest_axis(p), rank = p->rank + 1;
	struct twir_var **axes = ARENA_ARRAY(m->arena, struct twir_var *, rank), *folds[TWIR_MAX_RANK];
	const int64_t extent = tw_size_or(p->extent[axis], 1), span = (extent + parts - 1) / parts;
	struct twir_subst s;
	twir_subst_init(&s, m);
	shape[0] = twir_index(m, parts);
	axes[0] = twir_var_new(m, TWIR_AXIS, twir_scalar_type(TWIR_INDEX), "s");
	for (int d = 0; d < p->rank; d++) {
		const int from = axis_at(p, d);
		shape[d + 1] = p->c->out->shape[from];
		axes[d + 1] = twir_var_new(m, TWIR_AXIS, twir_scalar_type(TWIR_INDEX), p->c->axes[from]->name);
		twir_subst_set(&s, p->c->axes[from], twir_var(m, axes[d + 1]));
	}
	const struct twir_expr *k = NULL;
	for (int i = 0; i < p->nfold; i++) {
		folds[i] = twir_var_new(m, TWIR_AXIS, twir_scalar_type(TWIR_INDEX), "k");
		extents[i] = i == axis ? twir_index(m, span) : p->extent[i];
		const struct twir_expr *at = twir_var(m, folds[i]);
		if (i == axis)
			k = at = twir_add(m, twir_mul(m, twir_var(m, axes[0]), extents[i]), at);
		twir_subst_set(&s, p->axis[i], at);
	}
	const struct twir_expr *a = twir_subst_expr(&s, p->a.value), *b = twir_subst_expr(&s, p->b.value);
	if (span * parts != extent) { /* the last part is shorter */
		const struct twir_expr *within = twir_lt(m, k, p->extent[axis]);
		const struct twir_expr *zero = twir_const_of(m, a->type, 0);
		a = twir_cond(m, within, a, zero);
		b = twir_cond(m, within, b, zero);
	}
	struct twir_compute *c = ARENA_NEW(m->arena, struct twir_compute);
	c->out = twir_tensor_new(m, "sums", (enum twir_scalar)p->fold->type.scalar, rank, shape, TWIR_TENSOR);
	c->axes = axes;
	c->origin = p->c->origin;
	c->value = twir_fold(m, TWIR_Add, p->nfold, folds, extents, twir_mul(m, a, b));
	return c;
}

struct swap {
	const struct twir_expr *from, *to;
};

static const struct twir_expr *swap_expr(struct twir_rewriter *r, const struct twir_expr *e)
{
	const struct swap *s = r->user;
	return e == s->from ? s->to : e;
}

/* The anchor with the sum of the parts for its own sum. */
static struct twir_compute *total(const struct mm_problem *p, const struct twir_compute *sums)
{
	struct twir_module *m = p->m;
	struct twir_compute *c = ARENA_NEW(m->arena, struct twir_compute);
	struct twir_var *part = twir_var_new(m, TWIR_AXIS, twir_scalar_type(TWIR_INDEX), "s");
	const struct twir_expr *index[TWIR_MAX_RANK] = {twir_var(m, part)};
	struct twir_rewriter r;
	for (int d = 0; d < p->rank; d++)
		index[d + 1] = twir_var(m, p->c->axes[axis_at(p, d)]);
	struct swap sum = {p->fold, twir_fold(m, TWIR_Add, 1, &part, &sums->out->shape[0],
					      twir_load(m, sums->out, sums->out->rank, index))};
	*c = *p->c;
	twir_rewriter_init(&r, m);
	r.user = &sum;
	r.expr = swap_expr;
	c->value = twir_rewrite_expr(&r, p->c->value);
	return c;
}

void mm_build_parts(const struct mm_problem *p, int64_t parts, struct tw_launch *out)
{
	struct twir_module *m = p->m;
	const struct tw_task *task = p->task;
	struct tw_task inner = *task;
	struct tw_space space = {0};
	inner.name = arena_printf(m->arena, "%s_parts", task->name);
	inner.anchor = partial(p, parts);
	inner.consumer = NULL;
	tw_template_matmul.space(m->arena, p->t, &space);
	const struct tw_point *point = &space.points.at[tw_template_matmul.choose(&inner, p->t, &space)];
	const int before = out->kernels.n;
	mm_build_whole(&inner, p->t, point, out);
	for (int i = before; i < out->kernels.n; i++)
		if (!out->kernels.at[i].schedule)
			out->kernels.at[i].schedule =
				arena_printf(m->arena, "matmul parts=%d rows=%d vectors=%d depth=%d ahead=%d",
					     (int)parts, point->value[MM_ROWS], point->value[MM_VECTORS],
					     point->value[MM_DEPTH], point->value[MM_AHEAD]);
	struct tw_kernel k = {.program = tw_rule_schedule(m, task->name, total(p, inner.anchor), p->t),
			      .schedule = "sum of parts"};
	vec_push(m->arena, &out->kernels, k);
}
