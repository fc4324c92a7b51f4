/* Attention: product, row program, product, for blocks of queries, with nothing of the scores' size in memory.
 *
 * A core item owns a band of queries of one head. It packs the head's keys (as columns) and values into panels as
 * wide as the register tile, then for each block of queries: scores, a register tile at a time, into scratch; the
 * stages, row by row, in place; the second product, stored through a small tile so that a fused consumer (the
 * transpose back) is compiled once. A block of scores stays in the caches. Where elements are known to have no
 * weight (a causal mask), whole panels of keys are left out.
 *
 * Few queries (a step of decoding) do not repay packing: keys are then read where they lie, one by one, against
 * queries that lie across the lanes, and values where they lie too.
 *
 * Input: a task with attention. Output: a program over compute tensors. The order of all sums is that of the
 * unfused programs. */
#include "sched/rows_int.h"

typedef const struct twir_expr *E;

#define BLOCK 32  /* queries of a block: its scores over a thousand keys are 128 KiB */
#define BAND  256 /* queries of an item: packing a head's keys and values is small beside the products then */
#define FEW   4	  /* heads; with fewer, bands are shorter so that cores find work */
#define KEYS  8	  /* that few queries are multiplied with at a time: as many chains of sums as hide their latency */

static const enum twir_level CORE[] = {TWIR_CORE}, LANE[] = {TWIR_LANE};

struct attend {
	struct twir_module *m;
	const struct tw_attention *a;
	const struct tw_target *t;
	int mr, nr, lanes;
	enum twir_scalar type;
	const struct twir_map *tile;
	E keys, depth, columns, queries;
	struct twir_tensor *kt, *vt, *qs, *s, *part;
	struct twir_tensor *qt, *st; /* for few queries: [depth, query], [key, query] */
	bool few;		     /* the statements made now are for few queries */
	E i1, here, limit;	     /* first query of the block, how many, how many keys count */
};

static struct twir_tensor *scratch(struct attend *x, const char *name, int rank, E const *shape)
{
	return twir_tensor_new(x->m, name, x->type, rank, shape, TWIR_SHARED);
}

static E index_of(struct attend *x, int64_t v)
{
	return twir_index(x->m, v);
}

static E with(struct attend *x, E e, struct twir_var *v, E by)
{
	struct twir_subst s;
	twir_subst_init(&s, x->m);
	twir_subst_set(&s, v, by);
	return twir_subst_expr(&s, e);
}

struct pair {
	struct twir_var *v[2];
	E e[2];
};

static struct pair fresh(struct twir_module *m, const char *a, const char *b)
{
	struct pair p = {.v = {tw_loop_var(m, a), tw_loop_var(m, b)}};
	p.e[0] = twir_var(m, p.v[0]);
	p.e[1] = twir_var(m, p.v[1]);
	return p;
}

/* for rows x panel: long runs fastest, so that what a column's index costs leaves the loop */
static const struct twir_map *panel_map(struct attend *x, E rows)
{
	E extent[] = {rows, index_of(x, x->nr / x->lanes)}, lanes[] = {index_of(x, 1), index_of(x, x->lanes)};
	struct twir_map *columns = arena_copy(x->m->arena, twir_repeat(x->m, 2, extent, NULL), sizeof(*columns));
	columns->order[0] = 1;
	columns->order[1] = 0;
	return twir_compose(x->m, columns, twir_spatial(x->m, 2, lanes));
}

/* to[panel, row, j] = value at row and column nr * panel + j, or zero from `columns` on */
static struct twir_stmt *pack(struct attend *x, struct twir_tensor *to, E value, struct twir_var *row, E rows,
			      struct twir_var *column, E columns)
{
	struct twir_module *m = x->m;
	struct twir_var *p = tw_loop_var(m, "p");
	struct pair v = fresh(m, "k", "j");
	const E nr = index_of(x, x->nr), at = twir_add(m, twir_mul(m, twir_var(m, p), nr), v.e[1]);
	const E element = with(x, with(x, value, row, v.e[0]), column, at);
	const E zero = twir_const_of(m, twir_scalar_type(x->type), 0), where[] = {twir_var(m, p), v.e[0], v.e[1]};
	struct twir_stmt *store =
		twir_store(m, to, 3, where, twir_cond(m, twir_lt(m, at, columns), element, zero), NULL);
	return tw_for(m, p, twir_ceildiv(m, columns, nr),
		      tw_formap(m, 2, v.v, panel_map(x, rows), 1, LANE, NULL, store));
}

static struct twir_stmt *pack_queries(struct attend *x)
{
	struct twir_module *m = x->m;
	struct pair v = fresh(m, "i", "d");
	E extent[] = {index_of(x, BLOCK), twir_ceildiv(m, x->depth, index_of(x, x->lanes))},
	  lanes[] = {index_of(x, 1), index_of(x, x->lanes)}, bound[] = {index_of(x, BLOCK), x->depth};
	const struct twir_map *map = twir_compose(m, twir_repeat(m, 2, extent, NULL), twir_spatial(m, 2, lanes));
	const E i = twir_add(m, x->i1, v.e[0]);
	const E value = with(x, with(x, x->a->q, x->a->rows->row[x->a->query], i), x->a->depth, v.e[1]);
	const E zero = twir_const_of(m, twir_scalar_type(x->type), 0);
	struct twir_stmt *store =
		twir_store(m, x->qs, 2, v.e, twir_cond(m, twir_lt(m, i, x->queries), value, zero), NULL);
	return tw_formap(m, 2, v.v, map, 1, LANE, bound, store);
}

struct search {
	const struct tw_attention *a;
	bool work;
};

static void see_work(void *arg, E e)
{
	struct search *s = arg;
	const struct tw_attention *a = s->a;
	if (e->kind == TWIR_Div || e->kind == TWIR_Mod)
		s->work |=
			twir_uses_var(e, a->depth) || twir_uses_var(e, a->column) || twir_uses_var(e, a->rows->fold[0]);
}

/* A load at a place that is plain arithmetic of what changes in the loops. */
static bool is_place(const struct tw_attention *a, E e)
{
	struct search s = {.a = a};
	twir_visit_expr(e, see_work, &s);
	return e->kind == TWIR_Load && e->nidx == e->n && !s.work;
}

/* Keys or values that are read where they lie: those of elements `from` to `to` of a row. */
struct piece {
	E value, from, to;
};

/* A constant factor of all keys (the root of the scale) goes to the queries; 1: none. */
static E scale_of(struct attend *x, E *value)
{
	const E e = *value;
	for (int i = 0; e->kind == TWIR_Mul && i < 2; i++)
		if (e->arg[i]->kind == TWIR_Const) {
			*value = e->arg[1 - i];
			return e->arg[i];
		}
	return twir_const_of(x->m, e->type, 1);
}

/* One piece, or two: what a cache has of former steps and what is new. 0: they cannot be read in place. */
static int pieces(struct attend *x, E value, struct piece *out)
{
	struct twir_module *m = x->m;
	const E key = twir_var(m, x->a->rows->fold[0]), zero = index_of(x, 0);
	if (is_place(x->a, value)) {
		out[0] = (struct piece){value, zero, x->limit};
		return 1;
	}
	if (value->kind != TWIR_Cond || value->arg[0]->kind != TWIR_Lt || value->arg[0]->arg[0] != key ||
	    twir_uses_var(value->arg[0]->arg[1], x->a->rows->fold[0]) || !is_place(x->a, value->arg[1]) ||
	    !is_place(x->a, value->arg[2]))
		return 0;
	const E border = value->arg[0]->arg[1];
	out[0] = (struct piece){value->arg[1], zero, twir_min(m, border, x->limit)};
	out[1] = (struct piece){value->arg[2], border, twir_max(m, border, x->limit)};
	return 2;
}

/* Whole panels of values can be read where they lie. */
static bool values_in_place(struct attend *x)
{
	struct piece unused[2];
	int64_t n;
	return pieces(x, x->a->v, unused) > 0 && twir_const_int(x->columns, &n) && n % x->nr == 0;
}

/* acc = sum over n of left[it * mr + i, n] * right[panel, n, j], for one tile, left in acc; right NULL: the values
 * where they lie */
static struct twir_stmt *tile_product(struct attend *x, struct twir_tensor *acc, struct twir_tensor *left, E it,
				      struct twir_tensor *right, E panel, E n)
{
	struct twir_module *m = x->m;
	struct twir_stmt *body = NULL;
	const E zero = twir_const_of(m, twir_scalar_type(x->type), 0);
	struct piece piece[2] = {{NULL, index_of(x, 0), n}};
	const int count = right ? 1 : pieces(x, x->a->v, piece);
	struct pair v = fresh(m, "i", "j");
	acc->mirrors = x->tile;
	twir_append(&body, tw_declare(m, acc));
	twir_append(&body, tw_formap(m, 2, v.v, x->tile, 1, LANE, NULL, twir_store(m, acc, 2, v.e, zero, NULL)));
	for (int i = 0; i < count; i++) {
		struct twir_var *k = tw_loop_var(m, "n");
		v = fresh(m, "i", "j");
		const E at = twir_add(m, piece[i].from, twir_var(m, k));
		const E l[] = {twir_add(m, twir_mul(m, it, index_of(x, x->mr)), v.e[0]), at}, r[] = {panel, at, v.e[1]};
		const E column = twir_add(m, twir_mul(m, panel, index_of(x, x->nr)), v.e[1]);
		const E a = twir_load(m, left, 2, l), c = twir_load(m, acc, 2, v.e);
		const E b = right ? twir_load(m, right, 3, r)
				  : with(x, with(x, piece[i].value, x->a->rows->fold[0], at), x->a->column, column);
		const E sum = x->t->has_fma ? twir_fma(m, a, b, c) : twir_add(m, c, twir_mul(m, a, b));
		struct twir_stmt *step =
			tw_formap(m, 2, v.v, x->tile, 1, LANE, NULL, twir_store(m, acc, 2, v.e, sum, NULL));
		twir_append(&body, tw_for(m, k, twir_sub(m, piece[i].to, piece[i].from), step));
	}
	return body;
}

static struct twir_tensor *accumulator(struct attend *x)
{
	const E shape[] = {index_of(x, x->mr), index_of(x, x->nr)};
	return twir_tensor_new(x->m, "acc", x->type, 2, shape, TWIR_REGISTER);
}

/* for panels, for tiles of rows { body } */
static struct twir_stmt *tiles(struct attend *x, struct twir_var *panel, E width, struct twir_var *it,
			       struct twir_stmt *body)
{
	struct twir_module *m = x->m;
	body = tw_for(m, it, twir_ceildiv(m, x->here, index_of(x, x->mr)), body);
	return tw_for(m, panel, twir_ceildiv(m, width, index_of(x, x->nr)), body);
}

static struct twir_stmt *scores(struct attend *x)
{
	struct twir_module *m = x->m;
	struct twir_var *p = tw_loop_var(m, "p"), *it = tw_loop_var(m, "ti");
	struct twir_tensor *acc = accumulator(x);
	struct twir_stmt *body = tile_product(x, acc, x->qs, twir_var(m, it), x->kt, twir_var(m, p), x->depth);
	struct pair v = fresh(m, "i", "j");
	const E at[] = {twir_add(m, twir_mul(m, twir_var(m, it), index_of(x, x->mr)), v.e[0]),
			twir_add(m, twir_mul(m, twir_var(m, p), index_of(x, x->nr)), v.e[1])};
	twir_append(&body, tw_formap(m, 2, v.v, x->tile, 1, LANE, NULL,
				     twir_store(m, x->s, 2, at, twir_load(m, acc, 2, v.e), NULL)));
	return tiles(x, p, x->limit, it, body);
}

static struct twir_stmt *result(struct attend *x, struct twir_tensor *out)
{
	struct twir_module *m = x->m;
	struct twir_var *p = tw_loop_var(m, "p"), *it = tw_loop_var(m, "ti");
	struct twir_tensor *acc = accumulator(x);
	struct twir_tensor *right = x->few && values_in_place(x) ? NULL : x->vt;
	struct twir_stmt *body = tile_product(x, acc, x->s, twir_var(m, it), right, twir_var(m, p), x->limit);
	struct pair v = fresh(m, "i", "j");
	twir_append(&body, tw_formap(m, 2, v.v, x->tile, 1, LANE, NULL,
				     twir_store(m, x->part, 2, v.e, twir_load(m, acc, 2, v.e), NULL)));
	v = fresh(m, "i", "j");
	const E row = twir_mul(m, twir_var(m, it), index_of(x, x->mr)),
		column = twir_mul(m, twir_var(m, p), index_of(x, x->nr));
	const E i = twir_add(m, x->i1, twir_add(m, row, v.e[0]));
	E place[TWIR_MAX_RANK], bound[] = {twir_sub(m, x->here, row), twir_sub(m, x->columns, column)};
	for (int d = 0; d < out->rank; d++)
		place[d] = with(x, with(x, x->a->place[d], x->a->rows->row[x->a->query], i), x->a->column,
				twir_add(m, column, v.e[1]));
	twir_append(&body, tw_formap(m, 2, v.v, x->tile, 1, LANE, bound,
				     twir_store(m, out, out->rank, place, twir_load(m, x->part, 2, v.e), NULL)));
	return tiles(x, p, x->columns, it, body);
}

/* Queries across the lanes: qt[d, i], zero beyond the last. */
static struct twir_stmt *pack_few_queries(struct attend *x)
{
	struct twir_module *m = x->m;
	struct pair v = fresh(m, "d", "i");
	E extent[] = {x->depth, index_of(x, 1)}, lanes[] = {index_of(x, 1), index_of(x, x->lanes)};
	const struct twir_map *map = twir_compose(m, twir_repeat(m, 2, extent, NULL), twir_spatial(m, 2, lanes));
	const E i = twir_add(m, x->i1, v.e[1]);
	E keys = x->a->k;
	const E query = with(x, with(x, x->a->q, x->a->rows->row[x->a->query], i), x->a->depth, v.e[0]);
	const E value = twir_mul(m, query, scale_of(x, &keys));
	const E zero = twir_const_of(m, twir_scalar_type(x->type), 0);
	return tw_formap(m, 2, v.v, map, 1, LANE, NULL,
			 twir_store(m, x->qt, 2, v.e, twir_cond(m, twir_lt(m, i, x->queries), value, zero), NULL));
}

/* st[key, i] = sum over d of k[key, d] * qt[d, i], some keys of a piece at a time; keys beyond the last repeat it. */
static struct twir_stmt *few_sums(struct attend *x, const struct piece *piece)
{
	struct twir_module *m = x->m;
	const E shape[] = {index_of(x, KEYS), index_of(x, x->lanes)}, one = index_of(x, 1);
	E extent[] = {index_of(x, KEYS), one}, lanes[] = {one, index_of(x, x->lanes)};
	const struct twir_map *map = twir_compose(m, twir_repeat(m, 2, extent, NULL), twir_spatial(m, 2, lanes));
	struct twir_tensor *acc = twir_tensor_new(m, "acc", x->type, 2, shape, TWIR_REGISTER);
	struct twir_var *b = tw_loop_var(m, "kb"), *d = tw_loop_var(m, "d");
	const E first = twir_add(m, piece->from, twir_mul(m, twir_var(m, b), index_of(x, KEYS))), de = twir_var(m, d);
	const E zero = twir_const_of(m, twir_scalar_type(x->type), 0);
	struct twir_stmt *body = tw_declare(m, acc);
	acc->mirrors = map;
	struct pair v = fresh(m, "i", "j");
	twir_append(&body, tw_formap(m, 2, v.v, map, 1, LANE, NULL, twir_store(m, acc, 2, v.e, zero, NULL)));
	v = fresh(m, "i", "j");
	const E key = twir_min(m, twir_add(m, first, v.e[0]), twir_sub(m, piece->to, one)), q[] = {de, v.e[1]};
	const E k = with(x, with(x, piece->value, x->a->rows->fold[0], key), x->a->depth, de);
	const E qe = twir_load(m, x->qt, 2, q), c = twir_load(m, acc, 2, v.e);
	const E sum = x->t->has_fma ? twir_fma(m, k, qe, c) : twir_add(m, c, twir_mul(m, k, qe));
	twir_append(&body, tw_for(m, d, x->depth,
				  tw_formap(m, 2, v.v, map, 1, LANE, NULL, twir_store(m, acc, 2, v.e, sum, NULL))));
	v = fresh(m, "i", "j");
	const E at[] = {twir_add(m, first, v.e[0]), v.e[1]};
	twir_append(&body, tw_formap(m, 2, v.v, map, 1, LANE, NULL,
				     twir_store(m, x->st, 2, at, twir_load(m, acc, 2, v.e), NULL)));
	return tw_for(m, b, twir_ceildiv(m, twir_sub(m, piece->to, piece->from), index_of(x, KEYS)), body);
}

/* Their sums as rows, as many as the second product's tiles read. */
static struct twir_stmt *few_scores(struct attend *x)
{
	struct twir_module *m = x->m;
	struct twir_stmt *body = NULL;
	struct piece piece[2];
	E keys = x->a->k;
	scale_of(x, &keys);
	const int count = pieces(x, keys, piece);
	for (int i = 0; i < count; i++)
		twir_append(&body, few_sums(x, &piece[i]));
	struct twir_var *r = tw_loop_var(m, "r"), *key = tw_loop_var(m, "key");
	const E lanes[] = {index_of(x, x->lanes)}, times[] = {twir_ceildiv(m, x->limit, lanes[0])};
	const struct twir_map *map = twir_compose(m, twir_repeat(m, 1, times, NULL), twir_spatial(m, 1, lanes));
	const E last = index_of(x, x->lanes - 1), to[] = {twir_var(m, r), twir_var(m, key)};
	const E from[] = {to[1], twir_min(m, to[0], last)};
	struct twir_stmt *turn = tw_formap(m, 1, &key, map, 1, LANE, &x->limit,
					   twir_store(m, x->s, 2, to, twir_load(m, x->st, 2, from), NULL));
	twir_append(&body, tw_for(m, r, twir_roundup(m, x->here, index_of(x, x->mr)), turn));
	return body;
}

/* The stages of each row of the block. */
static struct twir_stmt *weights(struct attend *x)
{
	struct twir_module *m = x->m;
	const struct tw_attention *a = x->a;
	struct twir_var *r = tw_loop_var(m, "r");
	struct row_plan p = {.m = m,
			     .t = x->t,
			     .rows = a->rows,
			     .given = a->scores,
			     .made = a->weights,
			     .held = x->s,
			     .held_row = twir_var(m, r),
			     .limit = a->limit ? x->limit : NULL};
	rows_plan(&p);
	struct twir_subst s;
	twir_subst_init(&s, m);
	for (int k = 0; k < a->rows->nrow; k++)
		twir_subst_set(&s, p.over.var[k],
			       k == a->query ? twir_add(m, x->i1, twir_var(m, r)) : twir_var(m, a->rows->row[k]));
	return tw_for(m, r, x->here, twir_subst_block(&s, rows_body(&p, 1, NULL)));
}

static struct twir_stmt *block(struct attend *x, struct twir_tensor *out, E first, E band, E number)
{
	struct twir_module *m = x->m;
	struct twir_stmt *body = NULL;
	const E left = twir_min(m, twir_sub(m, band, twir_mul(m, number, index_of(x, BLOCK))), index_of(x, BLOCK));
	twir_append(&body, tw_let_new(m, "first", twir_add(m, first, twir_mul(m, number, index_of(x, BLOCK))), &x->i1));
	twir_append(&body, tw_let_new(m, "here", twir_min(m, left, twir_sub(m, x->queries, x->i1)), &x->here));
	x->limit = x->keys;
	if (x->a->limit) {
		const E last = twir_sub(m, twir_add(m, x->i1, x->here), index_of(x, 1));
		E most = with(x, x->a->limit, x->a->rows->row[x->a->query], last);
		most = twir_max(m, twir_min(m, most, x->keys), twir_min(m, x->keys, index_of(x, 1)));
		twir_append(&body, tw_let_new(m, "keys", most, &x->limit));
	}
	twir_append(&body, x->few ? pack_few_queries(x) : pack_queries(x));
	twir_append(&body, x->few ? few_scores(x) : scores(x));
	twir_append(&body, weights(x));
	twir_append(&body, result(x, out));
	return body;
}

static void prepare(struct attend *x, const struct tw_task *task)
{
	struct twir_module *m = x->m;
	const struct tw_attention *a = task->attention;
	const struct tw_target *t = x->t;
	const int nv = t->vector_registers >= 16 ? 2 : 1;
	x->lanes = t->lanes;
	x->mr = t->vector_registers >= 32 ? 8 : 4;
	x->nr = nv * t->lanes;
	x->type = (enum twir_scalar)task->anchor->value->type.scalar;
	x->keys = a->rows->fold_extent[0];
	x->depth = a->depth_extent;
	x->columns = a->column_extent;
	x->queries = a->rows->row_extent[a->query];
	E tile[] = {index_of(x, x->mr), index_of(x, nv)}, lanes[] = {index_of(x, 1), index_of(x, x->lanes)};
	x->tile = twir_compose(m, twir_repeat(m, 2, tile, NULL), twir_spatial(m, 2, lanes));
	const E nr = index_of(x, x->nr), rows = index_of(x, BLOCK), panels = twir_ceildiv(m, x->keys, nr);
	const E kt[] = {panels, x->depth, nr}, vt[] = {twir_ceildiv(m, x->columns, nr), x->keys, nr};
	const E qt[] = {x->depth, index_of(x, x->lanes)};
	const E st[] = {twir_add(m, x->keys, index_of(x, KEYS)), index_of(x, x->lanes)};
	const E qs[] = {rows, x->depth}, s[] = {rows, twir_mul(m, panels, nr)}, part[] = {index_of(x, x->mr), nr};
	x->kt = scratch(x, "keys", 3, kt);
	x->vt = scratch(x, "values", 3, vt);
	x->qs = scratch(x, "queries", 2, qs);
	x->s = scratch(x, "scores", 2, s);
	x->part = scratch(x, "part", 2, part);
	x->qt = scratch(x, "queries", 2, qt);
	x->st = scratch(x, "sums", 2, st);
}

static struct twir_stmt *declare(struct attend *x)
{
	struct twir_tensor *all[] = {x->kt, x->vt, x->qs, x->s, x->part, x->qt, x->st};
	struct twir_stmt *list = NULL;
	for (int i = 0; i < TW_COUNT(all); i++)
		twir_append(&list, tw_declare(x->m, all[i]));
	return list;
}

struct twir_program *tw_attention_schedule(const struct tw_task *task, const struct tw_target *t)
{
	struct twir_module *m = task->m;
	const struct tw_attention *a = task->attention;
	const struct tw_rows *rows = a->rows;
	struct attend x = {.m = m, .a = a, .t = t};
	prepare(&x, task);
	int64_t heads = 1;
	for (int k = 0; k < rows->nrow; k++)
		heads *= k == a->query || heads >= FEW ? 1 : tw_size_or(rows->row_extent[k], 1);
	const E band = index_of(&x, heads >= FEW ? BAND : BAND / 4);
	struct twir_var *vars[TWIR_MAX_RANK], *number = tw_loop_var(m, "n"), *queries = tw_loop_var(m, "band");
	E extent[TWIR_MAX_RANK], cores = index_of(&x, 1);
	struct twir_subst s;
	twir_subst_init(&s, m);
	for (int k = 0, n = 0; k < rows->nrow; k++) { /* heads outside, bands inside */
		if (k == a->query)
			continue;
		vars[n] = tw_loop_var(m, "b");
		extent[n] = rows->row_extent[k];
		twir_subst_set(&s, rows->row[k], twir_var(m, vars[n++]));
	}
	vars[rows->nrow - 1] = queries;
	extent[rows->nrow - 1] = twir_ceildiv(m, x.queries, band);
	for (int k = 0; k < rows->nrow; k++)
		cores = twir_mul(m, cores, extent[k]);
	const E first = twir_mul(m, twir_var(m, queries), band);
	const E mine = twir_min(m, band, twir_sub(m, x.queries, first));
	struct twir_stmt *body = declare(&x);
	struct twir_stmt *many = pack(&x, x.kt, a->k, a->depth, x.depth, rows->fold[0], x.keys);
	twir_append(&many, pack(&x, x.vt, a->v, rows->fold[0], x.keys, a->column, x.columns));
	twir_append(&many, tw_for(m, number, twir_ceildiv(m, mine, index_of(&x, BLOCK)),
				  block(&x, task->anchor->out, first, mine, twir_var(m, number))));
	struct piece unused[2];
	E keys = a->k;
	scale_of(&x, &keys);
	x.limit = x.keys;
	if (pieces(&x, keys, unused)) {
		struct twir_stmt *s = twir_stmt_new(m, TWIR_IF);
		x.few = true;
		s->u.branch.cond = twir_le(m, x.queries, index_of(&x, x.lanes));
		if (!values_in_place(&x))
			s->u.branch.body = pack(&x, x.vt, a->v, rows->fold[0], x.keys, a->column, x.columns);
		twir_append(&s->u.branch.body, block(&x, task->anchor->out, first, mine, index_of(&x, 0)));
		s->u.branch.other = many;
		many = s;
	}
	twir_append(&body, many);
	body = tw_formap(m, rows->nrow, vars, twir_spatial(m, rows->nrow, extent), 1, CORE, NULL,
			 twir_subst_block(&s, body));
	return tw_program_new(m, task->name, cores, x.lanes, body);
}
