/* expand_mapping: for-mappings become loops over their repeats and arithmetic on worker numbers. needs: bound_within
 * (no bounds, surplus workers guarded); breaks: nothing. Out: the only for-mappings left are lane regions `for (l) in
 * spatial(L) on lane`, innermost but for loops of their own bodies; integer lets are replaced by their values.
 *
 * The arithmetic is the definition of composition read backwards: coordinates by Horner's rule over the factors, the
 * worker of a factor by division with the workers behind it. The `%` of the outermost spatial factor is left out:
 * surplus workers are guarded. */
#include "pass/pass_int.h"

struct expand {
	const struct twir_program *p;
	int64_t lanes;
};

/* The number that the owner of the factors counts by. */
static const struct twir_expr *worker_number(struct twir_module *m, const struct twir_program *p,
					     const struct twir_stmt *s, enum twp_owner owner)
{
	const struct twir_expr *n = NULL;
	for (int i = 0; i < s->u.formap.nlevels; i++) {
		const enum twir_level l = s->u.formap.levels[i];
		if (owner != TWP_MIXED && (owner == TWP_LANE) != (l == TWIR_LANE))
			continue;
		const struct twir_expr *worker = twp_worker(m, p, l);
		n = n ? twir_add(m, twir_mul(m, n, twp_level_extent(m, p, l)), worker) : worker;
	}
	return n ? n : twir_index(m, 0);
}

/* Coordinates of a spatial factor from its worker's number within the factor. */
static void spatial(struct twir_module *m, const struct twp_factor *f, const struct twir_expr *worker,
		    const struct twir_expr **at)
{
	for (int d = 0; d < f->rank; d++) {
		const struct twir_expr *stride = twir_index(m, 1);
		bool slowest = true;
		for (int o = 0; o < f->rank; o++) {
			int64_t n;
			if (f->order[o] > f->order[d])
				stride = twir_mul(m, stride, f->extent[o]);
			else if (f->order[o] < f->order[d])
				slowest &= twir_const_int(f->extent[o], &n) && n == 1;
		}
		int64_t own;
		const bool zero = f->projected >> d & 1 || (twir_const_int(f->extent[d], &own) && own == 1);
		const struct twir_expr *x = twir_div(m, worker, stride);
		at[d] = zero ? twir_index(m, 0) : slowest ? x : twir_mod(m, x, f->extent[d]);
	}
}

/* Loops of a repeat factor, slowest rank outermost; appended at the hole. */
static void repeat(struct twir_module *m, const struct twp_factor *f, const struct twir_stmt *s,
		   const struct twir_expr **at, struct twir_stmt ***hole)
{
	for (int rank = 0; rank < f->rank; rank++)
		for (int d = 0; d < f->rank; d++) {
			int64_t n;
			if (f->order[d] != rank)
				continue;
			at[d] = twir_index(m, 0);
			if (f->projected >> d & 1 || (twir_const_int(f->extent[d], &n) && n == 1))
				continue;
			struct twir_stmt *loop = twir_stmt_new(m, TWIR_FOR);
			loop->line = s->line;
			loop->column = s->column;
			loop->u.loop.var =
				twir_var_new(m, TWIR_LOOP, twir_scalar_type(TWIR_INDEX), s->u.formap.vars[d]->base);
			loop->u.loop.extent = f->extent[d];
			loop->u.loop.unroll = f->attr[d] == TWTM_UNROLL;
			at[d] = twir_var(m, loop->u.loop.var);
			**hole = loop;
			*hole = &loop->u.loop.body;
		}
}

static struct twir_stmt *expand(struct twp_walk *w, const struct twir_stmt *s)
{
	struct twir_module *m = w->m;
	const struct expand *x = w->user;
	const int n = s->u.formap.n;
	struct twp_factors f;
	twp_factors(m, s->u.formap.map, &f);
	twp_assign(m, x->p, s->u.formap.nlevels, s->u.formap.levels, &f);
	/* Workers behind each factor at the same owner, and whether one stands before it. */
	const struct twir_expr *behind[64], *seen[3] = {twir_index(m, 1), twir_index(m, 1), twir_index(m, 1)};
	bool first[64];
	for (int i = f.n - 1; i >= 0; i--) {
		behind[i] = seen[f.at[i].owner];
		if (f.at[i].spatial)
			seen[f.at[i].owner] = twir_mul(m, seen[f.at[i].owner], f.at[i].workers);
	}
	bool before[3] = {false};
	for (int i = 0; i < f.n; i++) {
		first[i] = !before[f.at[i].owner];
		before[f.at[i].owner] |= f.at[i].spatial;
	}
	const struct twir_expr *at[TWIR_MAX_RANK] = {NULL}, *own[TWIR_MAX_RANK];
	struct twir_stmt *outer = NULL, **hole = &outer;
	for (int i = 0; i < f.n; i++) {
		if (f.at[i].spatial) {
			const struct twir_expr *number = worker_number(m, x->p, s, f.at[i].owner);
			number = twir_div(m, number, behind[i]);
			spatial(m, &f.at[i], first[i] ? number : twir_mod(m, number, f.at[i].workers), own);
		} else {
			repeat(m, &f.at[i], s, own, &hole);
		}
		for (int d = 0; d < n; d++)
			at[d] = at[d] ? twir_add(m, twir_mul(m, at[d], twp_task_extent(m, &f.at[i], d)), own[d])
				      : own[d];
	}
	struct twp_replace r;
	twp_replace_init(&r, m);
	bool lane = false;
	for (int d = 0; d < n; d++)
		twp_replace_set(&r, s->u.formap.vars[d], at[d]);
	for (int i = 0; i < s->u.formap.nlevels; i++)
		lane |= s->u.formap.levels[i] == TWIR_LANE && !twp_is_gpu(x->p);
	struct twir_stmt *body = twp_walk_block(w, twp_replace_block(&r, s->u.formap.body));
	*hole = lane ? twp_lane_region(m, x->lanes, body) : body;
	return outer;
}

static bool statement(struct twp_walk *w, const struct twir_stmt *s, struct twp_list *out)
{
	if (s->kind != TWIR_FORMAP)
		return false;
	TW_CHECK(!s->u.formap.bounds, "bound_within has run");
	twp_list_add(out, expand(w, s));
	return true;
}

void pass_expand_mapping(struct twir_module *m, struct twir_program *p, const struct tw_target *t)
{
	(void)t;
	struct expand x = {p, twp_lanes(p)};
	struct twp_walk w;
	twp_walk_init(&w, m, p);
	w.user = &x;
	w.stmt = statement;
	p->body = twp_inline_lets(m, twp_walk_block(&w, p->body));
}
