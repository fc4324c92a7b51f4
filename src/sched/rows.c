/* Row programs: stages over one space of rows (softmax, norms), computed for one row after the other, or for a
 * vector of neighbouring rows at once.
 *
 *   lanes over the row    its elements lie side by side: loops over tiles, folds keep partial results in lanes
 *   lanes over rows       neighbouring rows lie side by side (softmax over an inner axis): a lane has its own row
 *
 * What is fixed in a row is computed before the loop that needs it. Rows go to core items; how many an item takes
 * depends on sizes alone. Input: struct tw_rows. Output: a program over compute tensors, which stores each output
 * once and reads none. */
#include "sched/rows_int.h"

#define ITEM_WORK  16384
#define MAX_UNROLL 4
#define LANE_SCRATCH                                                                                                   \
	(128 << 10) /* bytes of scratch that lanes over rows may take before they go one vector at a time */

typedef const struct twir_expr *E;

static const enum twir_level CORE[] = {TWIR_CORE}, LANE[] = {TWIR_LANE};

struct maker {
	struct row_plan *p;
	struct twir_module *m;
	int unroll;		     /* vectors of a tile */
	const struct twir_map *tile; /* repeat(unroll) * spatial(lanes) */
	struct twir_var *j;	     /* stands for the place in the tile */
	struct twir_var *first;	     /* lanes over rows: stands for the number of the tile's first row */
	int phase;
	struct twir_stmt *declared, *before; /* the loop of the phase: what is fixed in the row */
	struct tw_map fixed, fixed_guarded;
	struct tw_map elements; /* variables that hold elements of this phase */
};

static const struct twir_map *tile_map(struct maker *k, int unroll)
{
	E repeat[] = {twir_index(k->m, unroll)}, lanes[] = {twir_index(k->m, k->p->lanes)};
	return twir_compose(k->m, twir_repeat(k->m, 1, repeat, NULL), twir_spatial(k->m, 1, lanes));
}

/* Registers with one element for each lane of the tile, all set: lanes beyond the last row are masked later, and
 * keep what they have. */
static struct twir_tensor *registers(struct maker *k, const char *name, const struct twir_map *tile, int unroll,
				     E value, struct twir_stmt **out)
{
	struct twir_module *m = k->m;
	const E shape[] = {twir_index(m, (int64_t)unroll * k->p->lanes)};
	struct twir_tensor *t = twir_tensor_new(m, name, (enum twir_scalar)value->type.scalar, 1, shape, TWIR_REGISTER);
	struct twir_var *j = tw_loop_var(m, "j");
	const E je = twir_var(m, j);
	t->mirrors = tile;
	twir_append(out, tw_declare(m, t));
	twir_append(out, tw_formap(m, 1, &j, tile, 1, LANE, NULL, twir_store(m, t, 1, &je, value, NULL)));
	return t;
}

static bool is_storage(enum twir_scalar s)
{
	return s == TWIR_F16 || s == TWIR_BF16;
}

/* ---- expressions of a phase */

static E resolve(struct maker *k, E e);

static E resolve_one(struct twir_rewriter *r, E e)
{
	struct maker *k = r->user;
	const struct row_plan *p = k->p;
	const E j = twir_var(k->m, k->j);
	const struct row_fold *f = e->kind == TWIR_Var ? map_get_ptr(&p->total_of, e->u.var) : NULL;
	if (f)
		return p->along ? twir_var(k->m, f->total) : twir_load(k->m, f->partial, 1, &j);
	if (e->kind == TWIR_Load && e->u.tensor == p->given) {
		const E held[] = {p->held_row, twir_var(k->m, p->inner.var[0])};
		return twir_load(k->m, p->held, 2, held);
	}
	const struct row_part *part = rows_part_of(p, e);
	if (!part)
		return e;
	if (part->now)
		return part->now;
	if (part->s->row)
		return twir_load(k->m, part->store, 1, &j);
	if (!part->kept)
		return resolve(k, part->value);
	E at[TWIR_MAX_RANK];
	for (int i = 0; i < p->inner.rank; i++)
		at[i] = twir_var(k->m, p->inner.var[i]);
	at[p->inner.rank] = j;
	return twir_load(k->m, part->store, part->store->rank, at);
}

static E resolve(struct maker *k, E e)
{
	struct twir_rewriter r;
	twir_rewriter_init(&r, k->m);
	r.user = k;
	r.expr = resolve_one;
	return twir_rewrite_expr(&r, e);
}

/* A value fixed in the row, computed before the loop: a variable, or registers with one element for each row. */
static E set_before(struct maker *k, E e)
{
	struct twir_module *m = k->m;
	if (k->p->along) {
		E v;
		twir_append(&k->before, tw_let_new(m, "fixed", e, &v));
		return v;
	}
	const E j = twir_var(m, k->j);
	struct twir_tensor *t = registers(k, "fixed", k->tile, k->unroll, twir_const_of(m, e->type, 0), &k->declared);
	twir_append(&k->before, twir_store(m, t, 1, &j, e, NULL));
	return twir_load(m, t, 1, &j);
}

struct variation {
	const struct maker *k;
	bool varies;
};

static void see_element(void *arg, E e)
{
	struct variation *v = arg;
	v->varies |= e->kind == TWIR_Var && map_get_ptr(&v->k->elements, e->u.var);
}

/* Does e, resolved, change within a row? */
static bool varies(const struct maker *k, E e)
{
	struct variation v = {k, rows_varies(k->p, e)};
	if (!v.varies)
		twir_visit_expr(e, see_element, &v);
	return v.varies;
}

static bool is_work(E e)
{
	if (e->type.scalar == TWIR_INDEX || e->type.scalar == TWIR_I1 || is_storage((enum twir_scalar)e->type.scalar))
		return false;
	if (e->kind == TWIR_Load)
		return e->u.tensor->scope == TWIR_TENSOR;
	return e->n > 0;
}

/* Sub-expressions fixed in the row move before the loop; loads under a guard stay. */
static E hoist(struct maker *k, E e, bool guarded)
{
	struct tw_map *memo = guarded ? &k->fixed_guarded : &k->fixed;
	E done = map_get_ptr(memo, e), arg[64];
	if (done)
		return done;
	if (e->n == 0 || e->type.scalar == TWIR_INDEX)
		return e;
	if (is_work(e) && !varies(k, e) && !(guarded && e->loads)) {
		done = set_before(k, e);
	} else {
		TW_CHECK(e->n <= TW_COUNT(arg));
		for (int i = 0; i < e->n; i++)
			arg[i] = hoist(k, e->arg[i], guarded || (e->kind == TWIR_Cond && i > 0));
		done = twir_with_args(k->m, e, arg);
	}
	map_set_ptr(memo, e, (void *)done);
	return done;
}

static E in_loop(struct maker *k, E e)
{
	return hoist(k, resolve(k, e), false);
}

/* ---- binding: statements over the nests' variables get loops of their own */

static struct twir_stmt *lane_region(struct maker *k, const struct twir_map *tile, E bound, struct twir_stmt *body)
{
	struct twir_subst s;
	struct twir_var *j = tw_loop_var(k->m, "j");
	twir_subst_init(&s, k->m);
	twir_subst_set(&s, k->j, twir_var(k->m, j));
	if (!k->p->along)
		twir_subst_set(&s, k->p->over.var[k->p->over.rank - 1],
			       twir_add(k->m, twir_var(k->m, k->first), twir_var(k->m, j)));
	return tw_formap(k->m, 1, &j, tile, 1, LANE, bound ? &bound : NULL, twir_subst_block(&s, body));
}

/* for the elements of a row { body }, with lanes over rows: of the last axis in pieces, each followed by after, where there is something to do after. */
static struct twir_stmt *in_pieces(struct maker *k, struct twir_stmt *body, struct twir_stmt *after)
{
	struct twir_module *m = k->m;
	const struct row_plan *p = k->p;
	const int last = p->inner.rank - 1;
	struct twir_subst s;
	struct twir_var *inner = tw_loop_var(m, "k"), *piece = tw_loop_var(m, "piece");
	const E extent = p->inner.extent[last], length = twir_index(m, tw_piece_of_terms(tw_size_or(extent, -1)));
	const E first = twir_mul(m, twir_var(m, piece), length);
	twir_subst_init(&s, m);
	twir_subst_set(&s, p->inner.var[last], twir_add(m, first, twir_var(m, inner)));
	body = tw_for(m, inner, twir_min(m, length, twir_sub(m, extent, first)), twir_subst_block(&s, body));
	twir_append(&body, after);
	return tw_for(m, piece, twir_ceildiv(m, extent, length), body);
}

/* for the elements of a row { body } */
static struct twir_stmt *row_loop(struct maker *k, const struct twir_map *tile, int unroll, struct twir_stmt *body,
				  struct twir_stmt *after)
{
	struct twir_module *m = k->m;
	const struct row_plan *p = k->p;
	struct twir_subst s;
	const int seq = p->inner.rank - (p->along || after);
	struct twir_var *vars[TWIR_MAX_RANK];
	if (p->along) {
		const E step = twir_index(m, (int64_t)unroll * p->lanes),
			extent = p->limit ? p->limit : p->inner.extent[seq];
		struct twir_var *t = tw_loop_var(m, "t");
		const E j0 = twir_mul(m, twir_var(m, t), step);
		twir_subst_init(&s, m);
		twir_subst_set(&s, p->inner.var[seq], twir_add(m, j0, twir_var(m, k->j)));
		body = lane_region(k, tile, twir_sub(m, extent, j0), twir_subst_block(&s, body));
		if (unroll > 1) {
			struct twir_stmt *full = twir_stmt_new(m, TWIR_SPECIALISE);
			full->u.branch.cond = twir_le(m, twir_add(m, j0, step), extent);
			full->u.branch.body = body;
			body = full;
		}
		body = tw_for(m, t, twir_ceildiv(m, extent, step), body);
	} else {
		const E size = p->over.extent[p->over.rank - 1];
		const E rows = twir_sub(m, size, twir_var(m, k->first));
		body = lane_region(k, tile, rows, body);
		if (after)
			body = in_pieces(k, body, lane_region(k, tile, rows, after));
	}
	twir_subst_init(&s, m);
	for (int i = 0; i < seq; i++) {
		vars[i] = tw_loop_var(m, "k");
		twir_subst_set(&s, p->inner.var[i], twir_var(m, vars[i]));
	}
	body = seq ? twir_subst_block(&s, body) : body;
	for (int i = seq - 1; i >= 0; i--)
		body = tw_for(m, vars[i], p->inner.extent[i], body);
	return body;
}

/* ---- folds */

static E combine(struct maker *k, const struct row_fold *f, E acc, E body)
{
	if (f->op == TWIR_Add && body->kind == TWIR_Mul && k->p->t->has_fma && twir_is_float(body->type.scalar))
		return twir_fma(k->m, body->arg[0], body->arg[1], acc);
	return twir_binary(k->m, f->op, acc, body);
}

/* Partial results of the lanes and of the vectors of a tile become the total. */
static void total(struct maker *k, struct row_fold *f, int unroll, struct twir_stmt **out)
{
	struct twir_module *m = k->m;
	const E zero = twir_index(m, 0);
	struct twir_tensor *t = f->partial;
	if (!k->p->along)
		return;
	if (unroll > 1) {
		E lanes[] = {twir_index(m, k->p->lanes)};
		struct twir_var *j = tw_loop_var(m, "j");
		E je = twir_var(m, j), v[MAX_UNROLL];
		struct twir_tensor *one = twir_tensor_new(m, "part", t->type, 1, lanes, TWIR_REGISTER);
		one->mirrors = twir_spatial(m, 1, lanes);
		for (int u = 0; u < unroll; u++) {
			const E at = twir_add(m, je, twir_index(m, (int64_t)u * k->p->lanes));
			v[u] = twir_load(m, t, 1, &at);
		}
		for (int n = unroll; n > 1; n = (n + 1) / 2)
			for (int u = 0; u < n / 2; u++)
				v[u] = twir_binary(m, f->op, v[u], v[u + (n + 1) / 2]);
		twir_append(out, tw_declare(m, one));
		twir_append(out,
			    tw_formap(m, 1, &j, one->mirrors, 1, LANE, NULL, twir_store(m, one, 1, &je, v[0], NULL)));
		t = one;
	}
	twir_append(out, twir_let(m, f->total, twir_reduce(m, f->op, twir_load(m, t, 1, &zero))));
}

/* ---- stages */

static void declare_scratch(struct maker *k, struct row_part *part, struct twir_stmt **out)
{
	struct twir_module *m = k->m;
	const struct row_plan *p = k->p;
	E shape[TWIR_MAX_RANK + 1];
	int rank = 0;
	for (int i = 0; i < p->inner.rank && !part->s->row; i++)
		shape[rank++] = p->inner.extent[i];
	if (!p->along)
		shape[rank++] = twir_index(m, (int64_t)k->unroll * p->lanes);
	if (rank == 0)
		shape[rank++] = twir_index(m, 1);
	const enum twir_scalar type = (enum twir_scalar)part->value->type.scalar;
	const char *name = part->s->definition->out->name;
	if (part->s->row && !is_storage(type)) {
		part->store = registers(k, name, k->tile, k->unroll, twir_const_of(m, part->value->type, 0), out);
		return;
	}
	part->store = twir_tensor_new(m, name, type, rank, shape, TWIR_SHARED);
	twir_append(out, tw_declare(m, part->store));
}

static struct twir_stmt *store_result(struct maker *k, const struct row_part *part, E value)
{
	struct twir_tensor *out = part->s->definition->out;
	if (out == k->p->made) {
		const E held[] = {k->p->held_row, twir_var(k->m, k->p->inner.var[0])};
		return twir_store(k->m, k->p->held, 2, held, value, NULL);
	}
	return twir_store(k->m, out, out->rank, part->place, value, NULL);
}

/* Row values known before phase `phase`. */
static void row_values(struct maker *k, int phase, struct twir_stmt **out)
{
	struct twir_module *m = k->m;
	struct twir_stmt *list = NULL;
	const E j = twir_var(m, k->j), zero = twir_index(m, 0);
	for (int i = 0; i < k->p->n; i++) {
		struct row_part *part = &k->p->part[i];
		if (!part->s->row || part->phase != phase)
			continue;
		E value = resolve(k, part->value), now;
		if (k->p->along && !is_storage((enum twir_scalar)value->type.scalar)) {
			twir_append(&list, tw_let_new(m, part->s->definition->out->name, value, &now));
			part->now = now;
		} else {
			declare_scratch(k, part, out);
			now = k->p->along ? zero : j;
			twir_append(&list, twir_store(m, part->store, 1, &now, value, NULL));
			now = twir_load(m, part->store, 1, &now);
			part->now = k->p->along ? now : NULL;
		}
		if (part->s->stored)
			twir_append(&list, store_result(k, part, now));
	}
	if (list && !k->p->along)
		list = lane_region(k, k->tile,
				   twir_sub(m, k->p->over.extent[k->p->over.rank - 1], twir_var(m, k->first)), list);
	twir_append(out, list);
}

static bool is_element(const struct row_part *part, int phase)
{
	return !part->s->row && part->phase == phase && part->used;
}

/* Vectors at once: enough to hide the latency of light folds; heavy bodies keep the machine busy one by one. */
static int phase_unroll(const struct maker *k, int phase)
{
	const struct row_plan *p = k->p;
	int cost = 0, folds = 0;
	if (!p->along)
		return k->unroll;
	for (int i = 0; i < p->n; i++) {
		cost += is_element(&p->part[i], phase) ? tw_cost(p->part[i].value) : 0;
		for (int f = 0; f < p->part[i].nfolds; f++) {
			if (p->part[i].fold[f].phase != phase)
				continue;
			folds++;
			cost += tw_cost(p->part[i].fold[f].body);
		}
	}
	int unroll = folds == 0 || cost > 30 ? 1 : folds * cost > 12 ? 2 : MAX_UNROLL;
	const int64_t vectors = (tw_size_or(p->inner.extent[p->inner.rank - 1], INT32_MAX) + p->lanes - 1) / p->lanes;
	while (unroll > 1 && unroll > vectors)
		unroll /= 2;
	return unroll;
}

static struct twir_stmt *phase_body(struct maker *k, int phase)
{
	struct twir_module *m = k->m;
	const struct row_plan *p = k->p;
	struct twir_stmt *body = NULL;
	const E j = twir_var(m, k->j);
	E at[TWIR_MAX_RANK + 1];
	for (int i = 0; i < p->inner.rank; i++)
		at[i] = twir_var(m, p->inner.var[i]);
	at[p->inner.rank] = j;
	for (int i = 0; i < p->n; i++) {
		struct row_part *part = &p->part[i];
		if (is_element(part, phase)) {
			E value = in_loop(k, part->value), now = value;
			const bool storage = is_storage((enum twir_scalar)value->type.scalar);
			if (!storage) {
				twir_append(&body, tw_let_new(m, part->s->definition->out->name, value, &now));
				map_set_ptr(&k->elements, now->u.var, k);
			}
			if (part->kept)
				twir_append(&body, twir_store(m, part->store, part->store->rank, at, now, NULL));
			if (storage)
				now = twir_load(m, part->store, part->store->rank, at);
			if (part->s->stored)
				twir_append(&body, store_result(k, part, now));
			part->now = now;
		}
		for (int f = 0; f < part->nfolds; f++) {
			const struct row_fold *fold = &part->fold[f];
			if (fold->phase != phase)
				continue;
			const E acc = twir_load(m, fold->partial, 1, &j);
			twir_append(&body, twir_store(m, fold->partial, 1, &j,
						      combine(k, fold, acc, in_loop(k, fold->body)), NULL));
		}
	}
	for (int i = 0; i < p->n; i++)
		if (!p->part[i].s->row)
			p->part[i].now = NULL;
	return body;
}

enum { LONG_ROW = 128 };

/* Lanes over rows: one accumulator of a long row loses bits with every term. What takes the sums of its pieces is declared; the result adds them up. */
static struct twir_stmt *sum_pieces(struct maker *k, int phase, struct twir_stmt **out)
{
	struct twir_module *m = k->m;
	const struct row_plan *p = k->p;
	struct twir_stmt *after = NULL;
	const E j = twir_var(m, k->j);
	int64_t all = 1;
	for (int i = 0; i < p->inner.rank && all <= LONG_ROW; i++)
		all *= tw_size_or(p->inner.extent[i], LONG_ROW + 1);
	for (int i = 0; i < p->n; i++)
		for (int f = 0; f < p->part[i].nfolds; f++) {
			struct row_fold *fold = &p->part[i].fold[f];
			if (fold->phase != phase)
				continue;
			fold->whole = NULL;
			if (p->along || all <= LONG_ROW || p->inner.rank == 0 || fold->op != TWIR_Add ||
			    !twir_is_float(fold->body->type.scalar))
				continue;
			const E zero = twir_neutral(m, fold->op, fold->body->type);
			fold->whole = registers(k, "sum", k->tile, k->unroll, zero, out);
			const E sum = twir_add(m, twir_load(m, fold->whole, 1, &j), twir_load(m, fold->partial, 1, &j));
			twir_append(&after, twir_store(m, fold->whole, 1, &j, sum, NULL));
			twir_append(&after, twir_store(m, fold->partial, 1, &j, zero, NULL));
		}
	return after;
}

static void run_phase(struct maker *k, int phase, struct twir_stmt **out)
{
	struct row_plan *p = k->p;
	const int unroll = phase_unroll(k, phase);
	const struct twir_map *tile = p->along ? tile_map(k, unroll) : k->tile;
	map_init(&k->fixed, k->m->arena);
	map_init(&k->fixed_guarded, k->m->arena);
	map_init(&k->elements, k->m->arena);
	k->declared = k->before = NULL;
	for (int i = 0; i < p->n; i++)
		for (int f = 0; f < p->part[i].nfolds; f++)
			if (p->part[i].fold[f].phase == phase)
				p->part[i].fold[f].partial = registers(
					k, "part", tile, unroll,
					twir_neutral(k->m, p->part[i].fold[f].op, p->part[i].fold[f].body->type), out);
	struct twir_stmt *after = sum_pieces(k, phase, out), *body = phase_body(k, phase);
	twir_append(out, k->declared);
	if (p->along)
		twir_append(out, k->before);
	else if (k->before) /* with lanes over rows, in a region of its own */
		twir_append(out, lane_region(k, tile,
					     twir_sub(k->m, p->over.extent[p->over.rank - 1], twir_var(k->m, k->first)),
					     k->before));
	twir_append(out, row_loop(k, tile, unroll, body, after));
	for (int i = 0; i < p->n; i++)
		for (int f = 0; f < p->part[i].nfolds; f++) {
			struct row_fold *fold = &p->part[i].fold[f];
			if (fold->phase != phase)
				continue;
			fold->partial = fold->whole ? fold->whole : fold->partial;
			total(k, fold, unroll, out);
		}
}

/* ---- rows to cores */

static int64_t row_work(const struct row_plan *p)
{
	int64_t work = 1, cost = 1;
	for (int i = 0; i < p->inner.rank; i++) {
		const int64_t size = tw_size_or(p->inner.extent[i], 64);
		work = work > 1 << 24 ? work : work * (size < 1 ? 1 : size > 1 << 20 ? 1 << 20 : size);
	}
	for (int i = 0; i < p->n; i++) {
		cost += tw_cost(p->part[i].value);
		for (int f = 0; f < p->part[i].nfolds; f++)
			cost += tw_cost(p->part[i].fold[f].body);
	}
	return work * (cost > 256 ? 256 : cost) / p->lanes + 16;
}

static struct twir_stmt *rows_to_cores(const struct row_plan *p, int unroll, struct twir_var *first,
				       struct twir_stmt *body, E *cores)
{
	struct twir_module *m = p->m;
	const int n = p->over.rank, last = n - 1;
	E outer[TWIR_MAX_RANK], inner[TWIR_MAX_RANK], extent[TWIR_MAX_RANK];
	struct twir_var *vars[TWIR_MAX_RANK];
	struct twir_subst s;
	*cores = twir_index(m, 1);
	if (n == 0)
		return body;
	const int64_t step = p->along ? 1 : (int64_t)unroll * p->lanes;
	int64_t left = ITEM_WORK / (row_work(p) * (p->along ? 1 : step)) + 1;
	twir_subst_init(&s, m);
	for (int i = 0; i < n; i++) {
		vars[i] = tw_loop_var(m, "r");
		extent[i] = i == last && step > 1 ? twir_ceildiv(m, p->over.extent[i], twir_index(m, step))
						  : p->over.extent[i];
	}
	for (int i = last; i >= 0; i--) {
		const int64_t size = tw_size_or(extent[i], 64), block = left < 1      ? 1
									: left < size ? left
									: size > 0    ? size
										      : 1;
		left /= block;
		inner[i] = twir_index(m, block);
		outer[i] = twir_ceildiv(m, extent[i], inner[i]);
		*cores = twir_mul(m, *cores, outer[i]);
		if (i < last || p->along)
			twir_subst_set(&s, p->over.var[i], twir_var(m, vars[i]));
		else
			twir_subst_set(&s, first, twir_mul(m, twir_var(m, vars[i]), twir_index(m, step)));
	}
	const struct twir_map *map = twir_compose(m, twir_spatial(m, n, outer), twir_repeat(m, n, inner, NULL));
	return tw_formap(m, n, vars, map, 1, CORE, extent, twir_subst_block(&s, body));
}

/* With lanes over rows: as many vectors as keep the scratch small and the registers few. */
static int rows_unroll(const struct row_plan *p)
{
	int64_t elements = 1;
	int kept = 0, registers = 0;
	for (int i = 0; i < p->inner.rank; i++)
		elements *= tw_size_or(p->inner.extent[i], 256);
	for (int i = 0; i < p->n; i++) {
		kept += p->part[i].kept;
		registers += p->part[i].nfolds + p->part[i].s->row;
	}
	const int64_t vectors = (tw_size_or(p->over.extent[p->over.rank - 1], INT32_MAX) + p->lanes - 1) / p->lanes;
	return vectors >= 2 && registers <= 6 && elements * kept * 2 * p->lanes * 4 <= LANE_SCRATCH ? 2 : 1;
}

struct twir_stmt *rows_body(struct row_plan *p, int unroll, struct twir_var *first)
{
	struct maker k = {.p = p, .m = p->m, .j = tw_loop_var(p->m, "j"), .first = first, .unroll = unroll};
	struct twir_stmt *body = NULL;
	k.tile = tile_map(&k, unroll);
	for (int i = 0; i < p->n; i++)
		if (p->part[i].kept)
			declare_scratch(&k, &p->part[i], &body);
	for (int phase = 0; phase < p->phases; phase++) {
		row_values(&k, phase, &body);
		run_phase(&k, phase, &body);
	}
	row_values(&k, p->phases, &body);
	return body;
}

struct twir_program *tw_rows_schedule(struct twir_module *m, const char *name, const struct tw_rows *rows,
				      const struct tw_target *t)
{
	struct row_plan p = {.m = m, .t = t, .rows = rows};
	struct twir_var *first = tw_loop_var(m, "first");
	rows_plan(&p);
	const int unroll = p.along ? 1 : rows_unroll(&p);
	E cores;
	struct twir_stmt *body = rows_to_cores(&p, unroll, first, rows_body(&p, unroll, first), &cores);
	return tw_program_new(m, name, cores, p.lanes, body);
}
