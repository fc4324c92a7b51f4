/* The matmul template's program, written from a problem and its plan: see matmul.c for its shape.
 *
 *   for (batches, band, group) on core
 *     pack rows of A and panels of B, where they are not prepared or direct
 *     for outer blocks of K, panels, blocks of K, strips of rows:
 *       for pieces of the block: acc = 0; for k: acc += A * B; acc += part, unless first; part = acc
 *       after the last block C = part (or C = acc)
 *
 * Where the number of rows is unknown there may be two of these, one for few: see matmul_forms.c. */
#include "sched/matmul.h"

static const enum twir_level CORE[] = {TWIR_CORE}, LANE[] = {TWIR_LANE};

struct nest {						 /* variables of the loops around a tile, as expressions */
	const struct twir_expr *first_row, *first_panel; /* of the core item */
	const struct twir_expr *strip, *panel;		 /* within the item */
	const struct twir_expr *strips;			 /* of the item */
	const struct twir_expr *reach;		/* elements that a strip prefetches in a step; NULL: the plan's */
	const struct twir_expr *block, *turn;	/* of K, among all; outermost turn */
	const struct twir_expr *within, *inner; /* the block among those of its turn, and how many these are */
	const struct twir_expr *turns;
	const struct twir_expr *i0, *j0, *k0;
	const struct twir_expr *rows; /* of the strip */
	struct twir_tensor *part;
};

struct pair {
	struct twir_var *v[2];
	const struct twir_expr *e[2];
};

static struct pair fresh(struct twir_module *m)
{
	struct pair p = {.v = {tw_loop_var(m, "i"), tw_loop_var(m, "j")}};
	p.e[0] = twir_var(m, p.v[0]);
	p.e[1] = twir_var(m, p.v[1]);
	return p;
}

static const struct twir_map *tile_map(const struct mm_problem *p, const struct mm_plan *q, int height)
{
	const struct twir_expr *repeat[] = {twir_index(p->m, height), twir_index(p->m, q->nv)};
	const struct twir_expr *lanes[] = {twir_index(p->m, 1), twir_index(p->m, p->t->lanes)};
	return twir_compose(p->m, twir_repeat(p->m, 2, repeat, NULL), twir_spatial(p->m, 2, lanes));
}

/* part[slot, i, j]: a slot for each tile whose sums have to wait at once. */
static void part_place(const struct mm_problem *p, const struct mm_plan *q, const struct nest *n, const struct pair *v,
		       const struct twir_expr **index)
{
	struct twir_module *m = p->m;
	index[0] = q->blocks == 1 ? twir_index(m, 0) : n->strip;
	if (q->outer > 1)
		index[0] = twir_add(m, twir_mul(m, n->panel, twir_index(m, q->band)), n->strip);
	index[1] = v->e[0];
	index[2] = v->e[1];
}

struct twir_tensor *mm_part(const struct mm_problem *p, const struct mm_plan *q)
{
	const int64_t slots = (q->blocks == 1 ? 1 : q->band) * (q->outer > 1 ? q->group : 1);
	const struct twir_expr *shape[] = {twir_index(p->m, slots), twir_index(p->m, q->tall), twir_index(p->m, q->nr)};
	return twir_tensor_new(p->m, "part", p->exact ? TWIR_I32 : p->type, 3, shape, TWIR_SHARED);
}

/* acc = 0 */
static struct twir_stmt *clear(const struct mm_problem *p, struct twir_tensor *acc)
{
	struct twir_module *m = p->m;
	struct pair v = fresh(m);
	const struct twir_expr *zero = twir_const_of(m, twir_scalar_type(p->type), 0);
	return tw_formap(m, 2, v.v, acc->mirrors, 1, LANE, NULL, twir_store(m, acc, 2, v.e, zero, NULL));
}

/* acc += part */
static struct twir_stmt *join(const struct mm_problem *p, const struct mm_plan *q, const struct nest *n,
			      struct twir_tensor *acc)
{
	struct twir_module *m = p->m;
	struct pair v = fresh(m);
	const struct twir_expr *index[3];
	part_place(p, q, n, &v, index);
	const struct twir_expr *sum = twir_add(m, twir_load(m, n->part, 3, index), twir_load(m, acc, 2, v.e));
	return tw_formap(m, 2, v.v, acc->mirrors, 1, LANE, NULL, twir_store(m, acc, 2, v.e, sum, NULL));
}

/* The next block of B, its lines spread over all steps of all strips: each strip asks for a stretch of it. */
static struct twir_stmt *look_ahead(const struct mm_problem *p, const struct mm_plan *q, const struct nest *n,
				    const struct twir_expr *kk)
{
	struct twir_module *m = p->m;
	struct twir_stmt *list = NULL;
	const int line = 64 / twir_scalar_bytes(p->type);
	const int64_t reach = (q->nr + q->spread - 1) / q->spread;
	const struct twir_expr *step = n->reach ? n->reach : twir_index(m, reach);
	const struct twir_expr *next = twir_add(m, n->k0, twir_index(m, q->kc));
	if (!q->ahead)
		return NULL;
	if (q->outer > 1) /* the last block of a turn is followed by the next panel's first; rows beyond K lie there */
		next = twir_cond(m, twir_lt(m, n->within, twir_sub(m, n->inner, twir_index(m, 1))), next,
				 twir_add(m, p->K, twir_mul(m, twir_mul(m, n->turn, n->inner), twir_index(m, q->kc))));
	const struct twir_expr *stretch = twir_mul(m, twir_mul(m, n->strip, twir_index(m, q->kc)), step);
	for (int64_t at = 0; at < (n->reach ? q->nr : reach); at += line) {
		const struct twir_expr *index[TWIR_MAX_RANK], *beyond = twir_index(m, at);
		const struct twir_expr *j = twir_add(m, stretch, twir_mul(m, kk, step));
		const int rank =
			mm_b_place(p, twir_add(m, n->first_panel, n->panel), next, twir_add(m, j, beyond), index);
		struct twir_stmt *line_at = twir_prefetch(m, p->b.tensor, rank, index, false);
		if (n->reach && at > 0) /* where many strips share, one line will do */
			line_at = twir_if(m, twir_lt(m, beyond, n->reach), line_at, NULL);
		twir_append(&list, line_at);
	}
	return list;
}

/* The loops over K of a tile: those within a piece, which one accumulator adds up, and those over pieces. */
struct depth {
	int n, outer; /* the first `outer` go over pieces */
	struct twir_var *v[TWIR_MAX_RANK + 1];
	const struct twir_expr *extent[TWIR_MAX_RANK + 1];
	const struct twir_expr *k[TWIR_MAX_RANK]; /* the indices of the fold */
	const struct twir_expr *flat, *within;	  /* k as one number: of all, of this block (nested: of all) */
	const struct twir_expr *number, *pieces;  /* of the pieces */
};

static const struct twir_expr *add_loop(const struct mm_problem *p, struct depth *d, const char *name,
					const struct twir_expr *extent)
{
	d->v[d->n] = tw_loop_var(p->m, name);
	d->extent[d->n] = extent;
	return twir_var(p->m, d->v[d->n++]);
}

/* The index of a loop over `extent`, which becomes two where it is longer than a piece. */
static const struct twir_expr *add_pieces(const struct mm_problem *p, const struct mm_plan *q, struct depth *d,
					  const struct twir_expr *extent)
{
	struct twir_module *m = p->m;
	const struct twir_expr *piece = twir_index(m, q->piece);
	if (!q->piece)
		return add_loop(p, d, "k", extent);
	const struct twir_expr *first = twir_mul(m, add_loop(p, d, "piece", twir_ceildiv(m, extent, piece)), piece);
	d->outer = d->n;
	return twir_add(m, first, add_loop(p, d, "k", twir_min(m, piece, twir_sub(m, extent, first))));
}

static void describe(const struct mm_problem *p, const struct mm_plan *q, const struct nest *n, struct depth *d)
{
	struct twir_module *m = p->m;
	*d = (struct depth){.outer = q->apart, .number = twir_index(m, 0), .pieces = twir_index(m, 1)};
	if (p->nested) {
		for (int i = 0; i + 1 < p->nfold; i++)
			d->k[i] = add_loop(p, d, "k", p->extent[i]);
		d->k[p->nfold - 1] = add_pieces(p, q, d, p->extent[p->nfold - 1]);
		d->flat = d->within = mm_flat(p, d->k);
	} else {
		const struct twir_expr *extent = twir_index(m, q->kc);
		if (q->blocks == 1)
			extent = p->K;
		else if (q->kc * q->blocks != p->k_size)
			extent = twir_min(m, extent, twir_sub(m, p->K, n->k0));
		d->within = add_pieces(p, q, d, extent);
		d->flat = twir_add(m, n->k0, d->within);
		mm_unflat(p, d->flat, d->k);
	}
	for (int i = 0; i < d->outer; i++) {
		d->number = twir_add(m, twir_mul(m, d->number, d->extent[i]), twir_var(m, d->v[i]));
		d->pieces = twir_mul(m, d->pieces, d->extent[i]);
	}
}

/* acc[i, j] += A[i0 + i, k] * B[k, j0 + j]; rows from `sure` on may be beyond the last */
static struct twir_stmt *step(const struct mm_problem *p, const struct mm_plan *q, const struct nest *n,
			      const struct depth *d, struct twir_tensor *acc, int height, int sure)
{
	struct twir_module *m = p->m;
	struct pair v = fresh(m);
	const struct twir_expr *i = twir_add(m, n->i0, v.e[0]);
	if (sure < height)
		i = twir_cond(m, twir_lt(m, v.e[0], twir_index(m, sure)), i,
			      twir_min(m, i, twir_sub(m, p->M, twir_index(m, 1))));
	const struct twir_expr *a = mm_a(p, n->first_row, i, d->flat, d->k), *c = twir_load(m, acc, 2, v.e);
	const struct twir_expr *b = mm_b(p, n->first_panel, twir_add(m, n->first_panel, n->panel), d->flat, v.e[1]);
	const struct twir_expr *sum = p->words.on				? mm_dot(p, a, b, c)
				      : p->t->has_fma && twir_is_float(p->type) ? twir_fma(m, a, b, c)
										: twir_add(m, c, twir_mul(m, a, b));
	struct twir_stmt *body = look_ahead(p, q, n, d->within);
	twir_append(&body, tw_formap(m, 2, v.v, acc->mirrors, 1, LANE, NULL, twir_store(m, acc, 2, v.e, sum, NULL)));
	return body;
}

/* part = acc, or part += acc: sums wait there, or are drained from there by a rolled loop. */
static struct twir_stmt *put(const struct mm_problem *p, const struct mm_plan *q, const struct nest *n,
			     struct twir_tensor *acc, bool more)
{
	struct twir_module *m = p->m;
	struct pair v = fresh(m);
	const struct twir_expr *index[3], *sum = twir_load(m, acc, 2, v.e);
	part_place(p, q, n, &v, index);
	if (p->exact)
		sum = twir_cast(m, TWIR_I32, sum);
	if (more)
		sum = twir_add(m, sum, twir_load(m, n->part, 3, index));
	return tw_formap(m, 2, v.v, acc->mirrors, 1, LANE, NULL, twir_store(m, n->part, 3, index, sum, NULL));
}

/* acc = the sums up to the end of this block. Each piece of K is summed from zero, and then added to what there is: the
 * error of a sum grows with the number of terms that are added to it one after another. */
static struct twir_stmt *accumulate(const struct mm_problem *p, const struct mm_plan *q, const struct nest *n,
				    struct twir_tensor *acc, int height, int sure, bool *stored)
{
	struct twir_module *m = p->m;
	struct depth d;
	describe(p, q, n, &d);
	struct twir_stmt *one = clear(p, acc), *body = step(p, q, n, &d, acc, height, sure);
	for (int i = d.n - 1; i >= d.outer; i--)
		body = tw_for(m, d.v[i], d.extent[i], body);
	twir_append(&one, body);
	const struct twir_expr *before = twir_add(m, n->block, d.number);
	if (!p->exact && (q->blocks > 1 || d.outer > 0))
		twir_append(&one, twir_if(m, twir_lt(m, twir_index(m, 0), before), join(p, q, n, acc), NULL));
	int64_t pieces;
	const bool some = twir_const_int(d.pieces, &pieces) && pieces > 0;
	*stored = some && d.outer > 0 && !q->straight && !p->exact; /* the last piece's too, by the same code */
	if (d.outer > 0)
		twir_append(&one, *stored ? put(p, q, n, acc, false)
					  : twir_if(m, twir_lt(m, d.number, twir_sub(m, d.pieces, twir_index(m, 1))),
						    put(p, q, n, acc, false), NULL));
	for (int i = d.outer - 1; i >= 0; i--)
		one = tw_for(m, d.v[i], d.extent[i], one);
	if (some)
		return one;
	struct twir_stmt *all = clear(p, acc); /* there may be no piece */
	twir_append(&all, one);
	return all;
}

struct swap {
	const struct twir_expr *from, *to;
};

static const struct twir_expr *swap_expr(struct twir_rewriter *r, const struct twir_expr *e)
{
	const struct swap *s = r->user;
	return e == s->from ? s->to : e;
}

/* C[.., i0 + i, j0 + j] = the anchor's value with acc[i, j] for the sum, or part[i, j] where there is no acc */
static struct twir_stmt *finish(const struct mm_problem *p, const struct mm_plan *q, const struct nest *n,
				const struct twir_map *map, struct twir_tensor *acc,
				const struct twir_expr *const *bounds)
{
	struct twir_module *m = p->m;
	struct pair v = fresh(m);
	const struct twir_expr *index[3], *where[TWIR_MAX_RANK];
	part_place(p, q, n, &v, index);
	/* of the anchor's axes, which become the element's place below */
	struct swap sum = {p->fold, mm_corrected(p, acc ? twir_load(m, acc, 2, v.e) : twir_load(m, n->part, 3, index))};
	struct twir_rewriter r;
	struct twir_subst s;
	twir_rewriter_init(&r, m);
	r.user = &sum;
	r.expr = swap_expr;
	twir_subst_init(&s, m);
	for (int d = 0; d < p->rank; d++) {
		where[d] = d == p->row	    ? twir_add(m, n->i0, v.e[0])
			   : d == p->column ? twir_add(m, n->j0, v.e[1])
					    : twir_var(m, p->c->axes[d]);
		twir_subst_set(&s, p->c->axes[d], where[d]);
	}
	const struct twir_expr *value = twir_subst_expr(&s, twir_rewrite_expr(&r, p->c->value));
	return tw_formap(m, 2, v.v, map, 1, LANE, bounds, twir_store(m, p->c->out, p->rank, where, value, NULL));
}

/* Sums that floats hold exactly are those of one block: the part has the sum of all, as integers. */
static struct twir_stmt *put_by(const struct mm_problem *p, const struct mm_plan *q, const struct nest *n,
				struct twir_tensor *acc)
{
	struct twir_stmt *first = put(p, q, n, acc, false);
	if (!p->exact || q->blocks == 1)
		return first;
	return twir_if(p->m, twir_eq(p->m, n->block, twir_index(p->m, 0)), first, put(p, q, n, acc, true));
}

/* The sums that lie in part go to C, after the last block of K. bounds: rows and columns that there are; NULL: all. */
static struct twir_stmt *drain(const struct mm_problem *p, const struct mm_plan *q, const struct nest *n, int height,
			       const struct twir_expr *const *bounds)
{
	const struct twir_expr *last = twir_eq(p->m, n->block, twir_index(p->m, q->blocks - 1));
	struct twir_stmt *s = finish(p, q, n, tile_map(p, q, height), NULL, bounds);
	return q->blocks == 1 ? s : twir_if(p->m, last, s, NULL);
}

/* Whole tiles are stored from registers where that is little code, others go by way of part. */
static struct twir_stmt *end(const struct mm_problem *p, const struct mm_plan *q, const struct nest *n, int height,
			     struct twir_tensor *acc, bool all)
{
	struct twir_module *m = p->m;
	const bool whole = p->n_known && p->n_size % q->nr == 0;
	const struct twir_expr *bounds[] = {all ? twir_index(m, height) : n->rows, twir_sub(m, p->N, n->j0)};
	struct twir_stmt *by_part = put_by(p, q, n, acc);
	twir_append(&by_part, drain(p, q, n, height, whole && all ? NULL : bounds));
	if (!all && height < q->tall)
		return by_part;
	struct twir_stmt *at_once = finish(p, q, n, acc->mirrors, acc, NULL);
	if (q->blocks > 1)
		at_once = twir_if(m, twir_eq(m, n->block, twir_index(m, q->blocks - 1)), at_once, put_by(p, q, n, acc));
	if (whole && all)
		return at_once;
	const struct twir_expr *columns = twir_le(m, twir_add(m, n->j0, twir_index(m, q->nr)), p->N);
	const struct twir_expr *rows = twir_le(m, twir_index(m, height), n->rows);
	return twir_if(m, all ? columns : whole ? rows : twir_and(m, rows, columns), at_once, by_part);
}

/* A tile of which at least `sure` rows are those of its strip. */
static struct twir_stmt *tile(const struct mm_problem *p, const struct mm_plan *q, const struct nest *n, int height,
			      int sure)
{
	struct twir_module *m = p->m;
	const struct twir_expr *shape[] = {twir_index(m, height), twir_index(m, q->nr)};
	struct twir_tensor *acc = twir_tensor_new(m, "acc", p->type, 2, shape, TWIR_REGISTER);
	acc->mirrors = tile_map(p, q, height);
	struct twir_stmt *body = tw_declare(m, acc);
	bool stored;
	twir_append(&body, accumulate(p, q, n, acc, height, sure, &stored));
	if (!stored)
		twir_append(&body, q->straight ? end(p, q, n, height, acc, sure == height) : put_by(p, q, n, acc));
	return body;
}

static struct twir_stmt *strip(const struct mm_problem *p, const struct mm_plan *q, struct nest *n,
			       const struct twir_expr *first)
{
	struct twir_module *m = p->m;
	const struct twir_expr *number = twir_add(m, first, n->strip);
	struct twir_stmt *body = tw_let_new(m, "i0", mm_strip_begin(q, p, number), &n->i0), *tiles = NULL;
	n->rows = mm_strip_rows(q, p, number, n->i0);
	if (q->nheights > 1)
		twir_append(&body, tw_let_new(m, "rows", n->rows, &n->rows));
	for (int i = q->nheights - 1; i >= 0; i--) {
		const int lower = i + 1 < q->nheights ? q->heights[i + 1] : 0;
		/* where a tile serves several heights, rows that the next lower one does not have may be beyond the last */
		struct twir_stmt *one = tile(p, q, n, q->heights[i], q->open ? lower + 1 : q->heights[i]);
		tiles = lower ? twir_if(m, twir_lt(m, twir_index(m, lower), n->rows), one, tiles) : one;
	}
	twir_append(&body, tiles);
	if (!q->straight) { /* one piece of code for all heights */
		const bool whole = p->n_known && p->n_size % q->nr == 0;
		const struct twir_expr *bounds[] = {n->rows, twir_sub(m, p->N, n->j0)};
		twir_append(&body, drain(p, q, n, q->tall, whole && q->nheights == 1 && !q->open ? NULL : bounds));
	}
	return body;
}

/* All loops of a core item around its tiles. */
static struct twir_stmt *sweep(const struct mm_problem *p, const struct mm_plan *q, struct nest *n,
			       const struct twir_expr *first_strip, const struct twir_expr *panels)
{
	struct twir_module *m = p->m;
	struct twir_var *turn = tw_loop_var(m, "turn"), *tp = tw_loop_var(m, "tp"), *kb = tw_loop_var(m, "kb"),
			*ti = tw_loop_var(m, "ti");
	n->turn = twir_var(m, turn);
	n->panel = twir_var(m, tp);
	n->strip = twir_var(m, ti);
	n->block = n->within = q->blocks == 1 ? twir_index(m, 0) : twir_var(m, kb);
	if (q->outer > 1)
		n->block = twir_add(m, twir_mul(m, n->turn, n->inner), n->block);
	n->k0 = twir_mul(m, n->block, twir_index(m, q->kc));
	struct twir_stmt *head =
		tw_let_new(m, "j0", twir_mul(m, twir_add(m, n->first_panel, n->panel), twir_index(m, q->nr)), &n->j0);
	struct twir_stmt *body = tw_for(m, ti, n->strips, strip(p, q, n, first_strip));
	if (q->blocks > 1)
		body = tw_for(m, kb, n->inner, body);
	twir_append(&head, body);
	body = tw_for(m, tp, panels, head);
	return q->outer > 1 ? tw_for(m, turn, n->turns, body) : body;
}

/* How many turns there are, and blocks of K in each: where an item has few strips at run time, one turn will do. */
static struct twir_stmt *let_turns(const struct mm_problem *p, const struct mm_plan *q, struct nest *n)
{
	struct twir_module *m = p->m;
	n->turns = twir_index(m, q->outer);
	n->inner = twir_index(m, q->blocks / q->outer);
	if (!q->open || q->outer == 1)
		return NULL;
	const struct twir_expr *few = twir_le(m, n->strips, twir_index(m, q->near));
	struct twir_stmt *lets = tw_let_new(m, "turns", twir_cond(m, few, twir_index(m, 1), n->turns), &n->turns);
	twir_append(&lets, tw_let_new(m, "inner", twir_cond(m, few, twir_index(m, q->blocks), n->inner), &n->inner));
	return lets;
}

/* A strip asks for so much in a step that all strips of the item ask for the whole block. */
static struct twir_stmt *let_reach(const struct mm_problem *p, const struct mm_plan *q, struct nest *n)
{
	struct twir_module *m = p->m;
	const struct twir_expr *sharers = twir_max(m, n->strips, twir_index(m, 1));
	return tw_let_new(m, "reach", twir_ceildiv(m, twir_index(m, q->nr), sharers), &n->reach);
}

struct twir_stmt *mm_panel(const struct mm_problem *p, const struct mm_plan *q, struct twir_tensor *part,
			   const struct twir_expr *panel)
{
	const struct twir_expr *zero = twir_index(p->m, 0);
	struct mm_plan own = *q;
	struct nest n = {.first_row = zero, .first_panel = panel, .strips = q->strips, .part = part};
	struct twir_stmt *body = mm_slack(&own, p);
	twir_append(&body, let_turns(p, &own, &n));
	twir_append(&body, sweep(p, &own, &n, zero, twir_index(p->m, 1)));
	return body;
}

/* The core items of a problem, and in `cores` how many there are. */
static struct twir_stmt *items(struct mm_problem *p, const struct mm_plan *plan, struct tw_launch *out,
			       const struct twir_expr **cores)
{
	struct twir_module *m = p->m;
	struct mm_plan q = *plan;
	const struct twir_expr *extent[TWIR_MAX_RANK];
	const struct twir_expr *panels = twir_ceildiv(m, p->N, twir_index(m, q.nr));
	struct twir_var *var[TWIR_MAX_RANK];
	struct twir_subst batch;
	int n = 0;
	twir_subst_init(&batch, m);
	for (; n < p->nbatch; n++) {
		var[n] = tw_loop_var(m, "b");
		extent[n] = p->c->out->shape[p->batch[n]];
		twir_subst_set(&batch, p->c->axes[p->batch[n]], twir_var(m, var[n]));
	}
	struct nest x = {0};
	struct twir_stmt *body = mm_slack(&q, p);
	const struct twir_expr *first_strip = twir_index(m, 0), *band = twir_index(m, q.band);
	x.strips = q.strips;
	if (p->row >= 0) {
		var[n] = tw_loop_var(m, "band");
		extent[n] = twir_ceildiv(m, q.strips, band);
		if (q.open) /* even shares */
			twir_append(&body, tw_let_new(m, "share", twir_ceildiv(m, q.strips, extent[n]), &band));
		first_strip = twir_mul(m, twir_var(m, var[n++]), band);
		x.strips = twir_min(m, band, twir_sub(m, q.strips, first_strip));
	}
	twir_append(&body, let_turns(p, &q, &x));
	if (q.open && q.ahead)
		twir_append(&body, let_reach(p, &q, &x));
	x.first_row = mm_strip_begin(&q, p, first_strip);
	var[n] = tw_loop_var(m, "group");
	extent[n] = twir_ceildiv(m, panels, twir_index(m, q.group));
	x.first_panel = twir_mul(m, twir_var(m, var[n++]), twir_index(m, q.group));
	*cores = twir_index(m, 1);
	for (int d = 0; d < n; d++)
		*cores = twir_mul(m, *cores, extent[d]);

	const struct twir_expr *here = twir_min(m, twir_index(m, q.group), twir_sub(m, panels, x.first_panel));
	mm_tensors(p, &q, out, &body);
	x.part = mm_part(p, &q);
	twir_append(&body, tw_declare(m, x.part));
	if (p->a.access == MM_PACKED) {
		const struct twir_expr *end = mm_strip_begin(&q, p, twir_add(m, first_strip, band));
		const struct twir_expr *rows = twir_sub(m, twir_min(m, p->M, end), x.first_row);
		twir_append(&body, mm_pack_rows(p, x.first_row, rows));
	}
	if (p->b.access == MM_PACKED)
		twir_append(&body, mm_pack_panels(p, &q, x.first_panel, here));
	twir_append(&body, sweep(p, &q, &x, first_strip, here));
	body = twir_subst_block(&batch, body);
	return tw_formap(m, n, var, twir_spatial(m, n, extent), 1, CORE, NULL, body);
}

/* How many core items there are, about; 0: not known. */
static int64_t count_items(const struct mm_problem *p, const struct mm_plan *q)
{
	struct twir_module *m = p->m;
	const struct twir_expr *cores = twir_index(m, 1);
	for (int d = 0; d < p->nbatch; d++)
		cores = twir_mul(m, cores, p->c->out->shape[p->batch[d]]);
	if (p->row >= 0)
		cores = twir_mul(m, cores, twir_ceildiv(m, q->strips, twir_index(m, q->band)));
	cores = twir_mul(m, cores, twir_ceildiv(m, p->N, twir_index(m, q->nr * q->group)));
	return p->map && !p->m_known ? tw_size_about(m, cores, MM_PICTURE) : tw_size_or(cores, 0);
}

/* The program with a form of its own for few rows, where that pays: the number of rows decides. */
static struct twir_stmt *both_forms(const struct mm_problem *p, const struct tw_point *point, struct twir_stmt *open,
				    struct tw_launch *out, const struct twir_expr **cores)
{
	struct twir_module *m = p->m;
	struct mm_problem other = *p;
	struct tw_point own;
	struct mm_plan q;
	const struct twir_expr *others;
	const int64_t few = mm_other_rows(&other, point, &own);
	if (few < 1)
		return open;
	mm_plan_init(&q, &other, &own);
	struct twir_stmt *known = items(&other, &q, out, &others);
	const struct twir_expr *short_enough = twir_le(m, p->M, twir_index(m, few));
	*cores = twir_cond(m, short_enough, others, *cores);
	return twir_if(m, short_enough, known, open);
}

static void build(const struct tw_task *task, const struct tw_target *t, const struct tw_point *point, bool whole,
		  struct tw_launch *out)
{
	struct mm_problem p;
	struct mm_plan q;
	const struct twir_expr *cores;
	TW_CHECK(mm_match(task, t, &p), "matmul built for something else");
	mm_plan_init(&q, &p, point);
	const int64_t parts = whole ? 1 : mm_parts(&p, count_items(&p, &q));
	if (parts > 1) {
		mm_build_parts(&p, parts, out);
		return;
	}
	struct twir_stmt *body = items(&p, &q, out, &cores);
	if (!whole)
		body = both_forms(&p, point, body, out, &cores);
	struct tw_kernel kernel = {.program = tw_program_new(p.m, task->name, cores, t->lanes, body)};
	vec_push(p.m->arena, &out->kernels, kernel);
}

void mm_build_whole(const struct tw_task *task, const struct tw_target *t, const struct tw_point *point,
		    struct tw_launch *out)
{
	build(task, t, point, true, out);
}

void mm_build(const struct tw_task *task, const struct tw_target *t, const struct tw_point *point,
	      struct tw_launch *out)
{
	build(task, t, point, false, out);
}
