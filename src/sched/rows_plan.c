/* Plans a row program: merges axes, chooses what lanes run over, and sorts stages into phases. A phase is one loop
 * over the elements of a row; it ends where a fold's result is needed. An element that later phases need is kept
 * in scratch when it is costly, else computed again. */
#include "sched/rows_int.h"

typedef const struct twir_expr *E;

struct row_part *rows_part_of(const struct row_plan *p, E e)
{
	const int i = e->kind == TWIR_Load ? (int)(uintptr_t)map_get_ptr(&p->part_of, e->u.tensor) : 0;
	return i ? &p->part[i - 1] : NULL;
}

bool rows_varies(const struct row_plan *p, E e)
{
	for (int i = 0; i < p->inner.rank; i++)
		if (twir_uses_var(e, p->inner.var[i]))
			return true;
	return false;
}

/* ---- one expression that holds every access to memory: axes merge and lanes are chosen by it */

static E hide_stage(struct twir_rewriter *r, E e)
{
	const struct row_plan *p = r->user;
	const bool given = e->kind == TWIR_Load && e->u.tensor == p->given;
	return given || rows_part_of(p, e) ? twir_const_of(r->m, e->type, 0) : e;
}

static E plus(struct twir_module *m, E sum, E e)
{
	return twir_add(m, sum, twir_cast(m, TWIR_F32, e));
}

static E all_accesses(struct row_plan *p)
{
	struct twir_module *m = p->m;
	struct twir_rewriter r;
	twir_rewriter_init(&r, m);
	r.user = p;
	r.expr = hide_stage;
	E sum = twir_float(m, TWIR_F32, 0);
	for (int i = 0; i < p->n; i++) {
		const struct tw_stage *s = p->part[i].s;
		sum = plus(m, sum, twir_rewrite_expr(&r, s->value));
		for (int f = 0; f < s->folds.n; f++)
			sum = plus(m, sum, twir_rewrite_expr(&r, s->folds.at[f].body));
		if (s->stored)
			sum = plus(m, sum, twir_load(m, s->definition->out, s->definition->out->rank, s->place));
	}
	return sum;
}

static void make_nests(struct row_plan *p)
{
	struct twir_module *m = p->m;
	const struct tw_rows *rows = p->rows;
	tw_nest_init(&p->inner, m, rows->nfold, rows->fold, rows->fold_extent, all_accesses(p));
	if (!p->held) {
		tw_nest_order_loads(&p->inner, p->lanes);
		tw_nest_merge(&p->inner, NULL);
	}
	tw_nest_init(&p->over, m, rows->nrow, rows->row, rows->row_extent, p->inner.value);
	p->along = true;
	if (p->held) /* rows keep their axes: whoever holds them knows what they are */
		return;
	tw_nest_merge(&p->over, NULL);
	p->inner.value = p->over.value;
	if (p->over.rank > 0 && p->inner.rank > 0) {
		const int o = p->over.rank - 1, i = p->inner.rank - 1;
		const double rows_score = tw_nest_lane_score(&p->over, p->over.var[o], p->over.extent[o], p->lanes);
		p->along = 0.9 * tw_nest_lane_score(&p->inner, p->inner.var[i], p->inner.extent[i], p->lanes) >=
			   rows_score;
	}
	tw_nest_flatten_short(p->along ? &p->inner : &p->over, p->lanes);
}

/* ---- quotients by what is fixed in a row become products, where the reciprocal cannot overflow */

static bool is_exponential(const struct row_plan *p, E e)
{
	const struct row_part *part = rows_part_of(p, e);
	if (part)
		return !part->s->row && is_exponential(p, part->s->value);
	if (e->kind == TWIR_Select || e->kind == TWIR_Cond)
		return is_exponential(p, e->arg[1]) && is_exponential(p, e->arg[2]);
	if (e->kind == TWIR_Const)
		return e->u.f == 0 || e->u.f == 1;
	return e->kind == TWIR_Call && strncmp(e->u.func->name, "exp_f", 5) == 0;
}

/* Zero, or not so small that 1 / e overflows: a square root, a sum of exponentials (they are never subnormal). */
static bool has_reciprocal(const struct row_plan *p, E e)
{
	const struct row_part *part = rows_part_of(p, e);
	if (part)
		return part->s->row && has_reciprocal(p, part->s->value);
	if (e->kind == TWIR_Var) {
		const struct row_fold *f = map_get_ptr(&p->total_of, e->u.var);
		return f && f->op == TWIR_Add && is_exponential(p, f->body);
	}
	if (e->kind == TWIR_Select)
		return has_reciprocal(p, e->arg[1]) && has_reciprocal(p, e->arg[2]);
	if (e->kind == TWIR_Const)
		return e->u.f == 0 || e->u.f >= 1e-30;
	if (e->kind == TWIR_Add)
		return e->arg[0]->kind == TWIR_Sqrt && e->arg[1]->kind == TWIR_Const && e->arg[1]->u.f >= 0;
	return e->kind == TWIR_Sqrt;
}

static E by_reciprocal(struct twir_rewriter *r, E e)
{
	const struct row_plan *p = r->user;
	if (e->kind != TWIR_Div || !twir_is_float(e->type.scalar) || e->arg[1]->kind == TWIR_Const)
		return e;
	if (rows_varies(p, e->arg[1]) || !rows_varies(p, e->arg[0]) || !has_reciprocal(p, e->arg[1]))
		return e;
	return twir_mul(r->m, e->arg[0], twir_div(r->m, twir_const_of(r->m, e->type, 1), e->arg[1]));
}

/* ---- stages over the nests' variables */

static void place_parts(struct row_plan *p)
{
	const struct tw_rows *rows = p->rows;
	struct twir_subst s;
	struct twir_rewriter r;
	twir_subst_init(&s, p->m);
	for (int k = 0; k < rows->nrow; k++)
		twir_subst_set(&s, rows->row[k], p->over.place[k]);
	for (int k = 0; k < rows->nfold; k++)
		twir_subst_set(&s, rows->fold[k], p->inner.place[k]);
	for (int i = 0; i < p->n; i++) {
		struct row_part *part = &p->part[i];
		part->value = twir_subst_expr(&s, part->s->value);
		for (int d = 0; d < part->s->definition->out->rank; d++)
			part->place[d] = twir_subst_expr(&s, part->s->place[d]);
		TW_CHECK(part->s->folds.n <= ROWS_MAX_FOLDS, "a stage holds too many folds");
		for (int f = 0; f < part->s->folds.n; f++) {
			const struct tw_row_fold *from = &part->s->folds.at[f];
			struct row_fold *to = &part->fold[part->nfolds++];
			*to = (struct row_fold){
				.op = from->op, .body = twir_subst_expr(&s, from->body), .total = from->total};
			map_set_ptr(&p->total_of, from->total, to);
		}
	}
	twir_rewriter_init(&r, p->m);
	r.user = p;
	r.expr = by_reciprocal;
	for (int i = 0; i < p->n; i++) {
		p->part[i].value = twir_rewrite_expr(&r, p->part[i].value);
		for (int f = 0; f < p->part[i].nfolds; f++)
			p->part[i].fold[f].body = twir_rewrite_expr(&r, p->part[i].fold[f].body);
	}
}

/* ---- phases */

struct phase_of {
	const struct row_plan *p;
	int phase;
};

static void see_phase(void *arg, E e)
{
	struct phase_of *x = arg;
	const struct row_part *part = rows_part_of(x->p, e);
	const struct row_fold *f = e->kind == TWIR_Var ? map_get_ptr(&x->p->total_of, e->u.var) : NULL;
	const int phase = part ? part->phase : f ? f->phase + 1 : 0;
	x->phase = phase > x->phase ? phase : x->phase;
}

static int phase_of(const struct row_plan *p, E e)
{
	struct phase_of x = {p, 0};
	twir_visit_expr(e, see_phase, &x);
	return x.phase;
}

static void sort_phases(struct row_plan *p)
{
	for (int i = 0; i < p->n; i++) {
		struct row_part *part = &p->part[i];
		for (int f = 0; f < part->nfolds; f++) {
			part->fold[f].phase = phase_of(p, part->fold[f].body);
			if (part->fold[f].phase >= p->phases)
				p->phases = part->fold[f].phase + 1;
		}
		part->phase = phase_of(p, part->value);
		if (!part->s->row && part->phase >= p->phases)
			p->phases = part->phase + 1;
	}
}

struct use {
	const struct row_plan *p;
	int phase; /* in which the expression is computed */
};

static void see_use(void *arg, E e)
{
	const struct use *u = arg;
	struct row_part *part = rows_part_of(u->p, e);
	if (!part || part->s->row)
		return;
	part->late |= u->phase > part->phase;
	part->used |= u->phase == part->phase;
}

static void count_load(void *arg, E e)
{
	*(int *)arg += e->kind == TWIR_Load || e->kind == TWIR_Cond ? 1 : 0;
}

static bool is_storage(enum twir_scalar s)
{
	return s == TWIR_F16 || s == TWIR_BF16;
}

/* From the last stage to the first: what one of a later phase reads of an earlier one is needed late, through
 * stages computed again too. */
static void find_uses(struct row_plan *p)
{
	for (int i = p->n - 1; i >= 0; i--) {
		struct row_part *part = &p->part[i];
		int loads = 0;
		twir_visit_expr(part->value, count_load, &loads);
		part->kept = !part->s->row && ((part->late && tw_cost(part->value) + loads > 4) ||
					       is_storage((enum twir_scalar)part->value->type.scalar));
		part->used |= part->s->stored || part->kept;
		struct use u = {p, part->phase};
		if (part->used || part->s->row)
			twir_visit_expr(part->value, see_use, &u);
		for (int f = 0; f < part->nfolds; f++) {
			u.phase = part->fold[f].phase;
			twir_visit_expr(part->fold[f].body, see_use, &u);
		}
		u.phase = p->phases;
		if (part->late && !part->kept)
			twir_visit_expr(part->value, see_use, &u);
	}
}

void rows_plan(struct row_plan *p)
{
	const struct tw_rows *rows = p->rows;
	p->n = rows->stages.n;
	p->lanes = p->t->lanes;
	p->part = ARENA_ARRAY(p->m->arena, struct row_part, p->n);
	map_init(&p->part_of, p->m->arena);
	map_init(&p->total_of, p->m->arena);
	for (int i = 0; i < p->n; i++) {
		p->part[i].s = &rows->stages.at[i];
		map_set_ptr(&p->part_of, rows->stages.at[i].definition->out, (void *)(uintptr_t)(i + 1));
	}
	make_nests(p);
	place_parts(p);
	sort_phases(p);
	find_uses(p);
}
