/* The factors of a matmul as the inner loop reads them: prepared of constants at compile time, packed by a kernel before or into scratch by each core item, or where
 * they are.
 *
 * B lies in panels [panel, k, column], as wide as the register tile, its last panel padded with zeros. Packed rows of A lie [row, k], written with lanes over k, so
 * that what is fused into A's loads (the windows of a convolution) runs once per element and item. */
#include "sched/matmul.h"
#include "sched/nest.h"

static const enum twir_level LANE[] = {TWIR_LANE};

const struct twir_expr *mm_inlined(const struct mm_problem *p, const struct twir_expr *e)
{
	for (int i = p->task->nproducers - 1; i >= 0; i--)
		e = tw_inline(p->m, e, p->task->producers[i]);
	return e;
}

const struct twir_expr *mm_flat(const struct mm_problem *p, const struct twir_expr *const *k)
{
	const struct twir_expr *e = k[0];
	for (int i = 1; i < p->nfold; i++)
		e = twir_add(p->m, twir_mul(p->m, e, p->extent[i]), k[i]);
	return e;
}

void mm_unflat(const struct mm_problem *p, const struct twir_expr *k, const struct twir_expr **out)
{
	for (int i = p->nfold - 1; i >= 0; i--) {
		const struct twir_expr *extent = p->extent[i];
		int64_t n;
		if (i == 0)
			out[i] = k;
		else if (twir_const_int(extent, &n) && n == 1)
			out[i] = twir_index(p->m, 0);
		else
			out[i] = twir_mod(p->m, k, extent);
		k = i > 0 ? twir_div(p->m, k, extent) : k;
	}
}

/* The factor's value with its own axis and the fold's given; batch axes stay the anchor's unless `batch` replaces them. */
static const struct twir_expr *value_at(const struct mm_problem *p, const struct mm_factor *f,
					const struct twir_expr *at, const struct twir_expr *const *k,
					const struct twir_expr *const *batch)
{
	struct twir_subst s;
	const int own = f == &p->a ? p->row : p->column;
	twir_subst_init(&s, p->m);
	if (own >= 0)
		twir_subst_set(&s, p->c->axes[own], at);
	for (int i = 0; i < p->nfold; i++)
		twir_subst_set(&s, p->axis[i], k[i]);
	for (int i = 0; batch && i < p->nbatch; i++)
		if (batch[i])
			twir_subst_set(&s, p->c->axes[p->batch[i]], batch[i]);
	const struct twir_expr *value = twir_subst_expr(&s, f->value);
	return p->exact ? twir_cast(p->m, p->type, value) : value;
}

static const struct twir_expr *zero(const struct mm_problem *p)
{
	return twir_const_of(p->m, twir_scalar_type(p->type), 0);
}

struct prepared { /* axes of a prepared tensor: the batches that the factor uses, then its own */
	int rank;
	struct twir_var *axis[TWIR_MAX_RANK];
	const struct twir_expr *shape[TWIR_MAX_RANK], *batch[TWIR_MAX_RANK];
};

static const struct twir_expr *add_axis(const struct mm_problem *p, struct prepared *x, const char *name,
					const struct twir_expr *extent)
{
	TW_CHECK(x->rank < TWIR_MAX_RANK, "a factor of a matmul has too many axes");
	x->axis[x->rank] = twir_var_new(p->m, TWIR_AXIS, twir_scalar_type(TWIR_INDEX), name);
	x->shape[x->rank] = extent;
	return twir_var(p->m, x->axis[x->rank++]);
}

static void add_batches(const struct mm_problem *p, const struct mm_factor *f, struct prepared *x)
{
	for (int i = 0; i < p->nbatch; i++)
		if (f->uses[p->batch[i]])
			x->batch[i] = add_axis(p, x, "b", p->c->out->shape[p->batch[i]]);
}

/* The same by a kernel of the launch. */
static struct twir_tensor *by_kernel(const struct mm_problem *p, const char *name, enum twir_scalar type,
				     const struct prepared *x, const struct twir_expr *value, struct tw_launch *out)
{
	struct twir_module *m = p->m;
	struct twir_compute c = {.axes = (struct twir_var **)x->axis, .value = mm_inlined(p, value)};
	c.out = twir_tensor_new(m, name, type, x->rank, x->shape, TWIR_TENSOR);
	struct tw_kernel k = {
		.program = tw_rule_schedule(m, arena_printf(m->arena, "%s_%s", p->task->name, name), &c, p->t),
		.schedule = name};
	vec_push(m->arena, &out->kernels, k);
	return c.out;
}

static void prepare_panels(struct mm_problem *p, const struct mm_plan *q, struct tw_launch *out)
{
	struct twir_module *m = p->m;
	struct prepared x = {0};
	const struct twir_expr *k[TWIR_MAX_RANK], *nr = twir_index(m, q->nr);
	add_batches(p, &p->b, &x);
	const struct twir_expr *panel = add_axis(p, &x, "p", twir_ceildiv(m, p->N, nr));
	mm_unflat(p, add_axis(p, &x, "k", p->K), k);
	const struct twir_expr *j = twir_add(m, twir_mul(m, panel, nr), add_axis(p, &x, "j", nr));
	const struct twir_expr *value = value_at(p, &p->b, j, k, x.batch);
	if (p->b.stored != p->type)
		value = twir_cast(m, p->b.stored, value);
	if (!(p->n_known && p->n_size % q->nr == 0))
		value = twir_cond(m, twir_lt(m, j, p->N), value, twir_const_of(m, value->type, 0));
	if (p->b.access == MM_STAGED)
		p->b.tensor = by_kernel(p, "panels", p->type, &x, value, out);
	else
		p->b.tensor = tw_prepare(p->task, out, "panels", p->b.stored, x.rank, x.shape, x.axis, value);
}

static void prepare_rows(struct mm_problem *p, struct tw_launch *out)
{
	struct prepared x = {0};
	const struct twir_expr *k[TWIR_MAX_RANK];
	add_batches(p, &p->a, &x);
	const struct twir_expr *i = add_axis(p, &x, "i", p->M);
	mm_unflat(p, add_axis(p, &x, "k", p->K), k);
	p->a.tensor =
		tw_prepare(p->task, out, "rows", p->type, x.rank, x.shape, x.axis, value_at(p, &p->a, i, k, x.batch));
}

static int batch_place(const struct mm_problem *p, const struct mm_factor *f, const struct twir_expr **index)
{
	int n = 0;
	for (int i = 0; i < p->nbatch; i++)
		if (f->uses[p->batch[i]])
			index[n++] = twir_var(p->m, p->c->axes[p->batch[i]]);
	return n;
}

/* The sums of a factor's bytes along K, for each of its rows or columns: of constants, or by a kernel before. */
static struct twir_tensor *sum_bytes(struct mm_problem *p, const struct mm_factor *f, struct tw_launch *out)
{
	struct twir_module *m = p->m;
	const bool of_a = f == &p->a;
	const char *name = of_a ? "row_sums" : "column_sums";
	struct prepared x = {0};
	struct twir_var *fold[TWIR_MAX_RANK];
	const struct twir_expr *k[TWIR_MAX_RANK], *at = NULL;
	const int own = of_a ? p->row : p->column;
	add_batches(p, f, &x);
	if (own >= 0)
		at = add_axis(p, &x, "i", p->c->out->shape[own]);
	for (int i = 0; i < p->nfold; i++) {
		fold[i] = twir_var_new(m, TWIR_AXIS, twir_scalar_type(TWIR_INDEX), "k");
		k[i] = twir_var(m, fold[i]);
	}
	const struct twir_expr *one = mm_bytes_sum(p, of_a, value_at(p, f, at, k, x.batch));
	const struct twir_expr *sum = twir_fold(m, TWIR_Add, p->nfold, fold, p->extent, one),
			       *value = mm_scaled_sum(p, of_a, sum);
	if (f->access == MM_PREPARED)
		return tw_prepare(p->task, out, name, TWIR_I32, x.rank, x.shape, x.axis, value);
	return by_kernel(p, name, TWIR_I32, &x, value, out);
}

static const struct twir_expr *sum_of(const struct mm_problem *p, const struct mm_factor *f, struct twir_tensor *sums)
{
	const struct twir_expr *index[TWIR_MAX_RANK];
	const int own = f == &p->a ? p->row : p->column;
	if (!sums)
		return NULL;
	int n = batch_place(p, f, index);
	if (own >= 0)
		index[n++] = twir_var(p->m, p->c->axes[own]);
	return twir_load(p->m, sums, n, index);
}

const struct twir_expr *mm_corrected(const struct mm_problem *p, const struct twir_expr *sum)
{
	if (!p->words.on)
		return sum;
	return mm_whole_sum(p, sum, sum_of(p, &p->a, p->words.row_sums), sum_of(p, &p->b, p->words.column_sums));
}

/* Rows a page apart would fall on the same sets of the first-level cache. */
static const struct twir_expr *row_length(const struct mm_problem *p)
{
	const int line = 64 / twir_scalar_bytes(p->type);
	const int64_t k = (p->k_size + line - 1) / line * line;
	if (!p->k_known)
		return p->K;
	return twir_index(p->m, k % (8 * line) == 0 ? k + line : k);
}

void mm_tensors(struct mm_problem *p, const struct mm_plan *q, struct tw_launch *out, struct twir_stmt **declared)
{
	struct twir_module *m = p->m;
	if (p->b.access != MM_PACKED) {
		if (!p->b.tensor)
			prepare_panels(p, q, out);
	} else {
		const struct twir_expr *shape[] = {twir_index(m, q->group), p->K, twir_index(m, q->nr)};
		p->b.tensor = twir_tensor_new(m, "panels", p->type, 3, shape, TWIR_SHARED);
		twir_append(declared, tw_declare(m, p->b.tensor));
	}
	if (p->words.planes) {
		struct tw_kernel k = {.program = tw_rule_schedule(m, arena_printf(m->arena, "%s_words", p->task->name),
								  p->words.planes, p->t),
				      .schedule = "words"};
		vec_push(m->arena, &out->kernels, k);
	}
	if (p->words.b_zero)
		p->words.row_sums = sum_bytes(p, &p->a, out);
	if (p->words.a_zero)
		p->words.column_sums = sum_bytes(p, &p->b, out);
	if (p->a.access == MM_PREPARED) {
		prepare_rows(p, out);
	} else if (p->a.access == MM_PACKED) {
		const struct twir_expr *shape[] = {twir_index(m, q->band * q->tall), row_length(p)};
		p->a.tensor = twir_tensor_new(m, "rows", p->type, 2, shape, TWIR_SHARED);
		twir_append(declared, tw_declare(m, p->a.tensor));
	}
}

struct twir_stmt *mm_pack_rows(const struct mm_problem *p, const struct twir_expr *first, const struct twir_expr *rows)
{
	struct twir_module *m = p->m;
	struct tw_nest n;
	const struct twir_expr *k[TWIR_MAX_RANK], *repeat[1], *lanes[] = {twir_index(m, p->t->lanes)};
	if (p->a.access != MM_PACKED)
		return NULL;
	struct twir_var *r = tw_loop_var(m, "r");
	for (int i = 0; i < p->nfold; i++)
		k[i] = twir_var(m, p->axis[i]);
	const struct twir_expr *value = value_at(p, &p->a, twir_add(m, first, twir_var(m, r)), k, NULL);
	tw_nest_init(&n, m, p->nfold, p->axis, p->extent, mm_inlined(p, value));
	tw_nest_merge(&n, NULL);
	tw_nest_flatten_short(&n, p->t->lanes);
	const int last = n.rank - 1;
	repeat[0] = twir_ceildiv(m, n.extent[last], lanes[0]);
	const struct twir_map *map = twir_compose(m, twir_repeat(m, 1, repeat, NULL), twir_spatial(m, 1, lanes));
	const struct twir_expr *place[] = {twir_var(m, r), mm_flat(p, n.place)};
	struct twir_stmt *body = tw_formap(m, 1, &n.var[last], map, 1, LANE, &n.extent[last],
					   twir_store(m, p->a.tensor, 2, place, n.value, NULL));
	for (int i = last - 1; i >= 0; i--)
		body = tw_for(m, n.var[i], n.extent[i], body);
	return tw_for(m, r, rows, body);
}

/* Do columns of B lie side by side, at places that are plain arithmetic? */
static bool columns_adjoin(const struct mm_problem *p)
{
	const struct twir_expr *e = mm_inlined(p, p->b.value), *base;
	struct twir_facts f;
	int64_t stride;
	if (e->kind != TWIR_Load || e->nidx != e->n)
		return false;
	twir_facts_init(&f, p->m);
	const struct twir_expr *offset = twir_layout_offset(p->m, e->u.tensor, e->nidx, e->arg);
	return twir_linear_in(&f, offset, p->c->axes[p->column], &base, &stride) && stride == 1;
}

struct twir_stmt *mm_pack_panels(const struct mm_problem *p, const struct mm_plan *q, const struct twir_expr *first,
				 const struct twir_expr *panels)
{
	struct twir_module *m = p->m;
	const struct twir_expr *repeat[TWIR_MAX_RANK], *spread[TWIR_MAX_RANK], *k[TWIR_MAX_RANK];
	struct twir_var *v[TWIR_MAX_RANK], *tp = tw_loop_var(m, "tp");
	const int n = p->nfold;
	if (p->b.access != MM_PACKED)
		return NULL;
	for (int i = 0; i < n; i++) {
		repeat[i] = p->extent[i];
		spread[i] = twir_index(m, 1);
		v[i] = tw_loop_var(m, "k");
		k[i] = twir_var(m, v[i]);
	}
	repeat[n] = twir_index(m, q->nv);
	spread[n] = twir_index(m, p->t->lanes);
	v[n] = tw_loop_var(m, "j");
	/* k runs fastest, so that what a column's place costs (an image's quotients and remainders) is hoisted out of the loop, and lines of transposed factors serve
	 * several k; but where a step of k is a stretch of memory, its columns follow one another */
	struct twir_map *order = arena_copy(m->arena, twir_repeat(m, n + 1, repeat, NULL), sizeof(*order));
	for (int i = 0; i < n && !columns_adjoin(p); i++)
		order->order[i] = i + 1;
	order->order[n] = columns_adjoin(p) ? n : 0;
	const struct twir_map *map = twir_compose(m, order, twir_spatial(m, n + 1, spread));
	const struct twir_expr *own = twir_var(m, tp), *je = twir_var(m, v[n]);
	const struct twir_expr *j = twir_add(m, twir_mul(m, twir_add(m, first, own), twir_index(m, q->nr)), je);
	const struct twir_expr *value = twir_cond(m, twir_lt(m, j, p->N), value_at(p, &p->b, j, k, NULL), zero(p));
	const struct twir_expr *place[] = {own, mm_flat(p, k), je};
	struct twir_stmt *store = twir_store(m, p->b.tensor, 3, place, value, NULL);
	return tw_for(m, tp, panels, tw_formap(m, n + 1, v, map, 1, LANE, NULL, store));
}

const struct twir_expr *mm_a(const struct mm_problem *p, const struct twir_expr *first, const struct twir_expr *i,
			     const struct twir_expr *flat, const struct twir_expr *const *k)
{
	struct twir_module *m = p->m;
	const struct twir_expr *index[TWIR_MAX_RANK];
	if (p->a.access == MM_DIRECT)
		return value_at(p, &p->a, i, k, NULL);
	int n = p->a.access == MM_PREPARED ? batch_place(p, &p->a, index) : 0;
	index[n++] = p->a.access == MM_PREPARED ? i : twir_sub(m, i, first);
	index[n++] = flat;
	return twir_load(m, p->a.tensor, n, index);
}

int mm_b_place(const struct mm_problem *p, const struct twir_expr *panel, const struct twir_expr *k,
	       const struct twir_expr *j, const struct twir_expr **index)
{
	int n = p->b.access != MM_PACKED ? batch_place(p, &p->b, index) : 0;
	index[n++] = panel;
	index[n++] = k;
	index[n++] = j;
	return n;
}

const struct twir_expr *mm_b(const struct mm_problem *p, const struct twir_expr *first, const struct twir_expr *panel,
			     const struct twir_expr *k, const struct twir_expr *j)
{
	const struct twir_expr *index[TWIR_MAX_RANK];
	if (p->b.access == MM_PACKED)
		panel = twir_sub(p->m, panel, first);
	const struct twir_expr *b = twir_load(p->m, p->b.tensor, mm_b_place(p, panel, k, j, index), index);
	return p->b.stored == p->type ? b : twir_cast(p->m, p->type, twir_cast(p->m, TWIR_I32, b));
}
