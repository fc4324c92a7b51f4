/* The plain matmul template: C[b.., i, j] = sum over k of A[.., i, k] * B[.., k, j], f32 or f64 (MatMul, Gemm, convolution as implicit matmul).
 *
 * A core item owns a band of rows and some panels of columns. It packs its panels of B into its scratch, k-major and as wide as the register tile, then
 * walks down the rows, each tile of rows across all panels: a register tile mirrors repeat(mr, nv) * spatial(1, lanes), the K loop adds one outer product a
 * step. The finished tile goes through a small scratch tile to the one store of each element of C, so that a fused consumer is compiled once, in a rolled loop.
 * Because B is packed, whatever is fused into its loads (an image-to-column map, a transpose) runs once per element and band. */
#include "sched/sched.h"

enum { MR, NV };

struct operands {
	const struct twir_expr *fold, *a, *b; /* the loads */
	struct twir_var *k, *i, *j;
	int nbatch;
};

/* Is the definition one sum over one axis of a product of two loads, one without the last axis, the other without the one before? */
static bool match(const struct twir_compute *c, struct operands *o)
{
	const struct twir_expr *v = c->value;
	const int rank = c->out->rank;
	if (rank < 2 || v->kind != TWIR_Fold || v->op != TWIR_Add || v->n != 2 || !twir_is_float(v->type.scalar))
		return false;
	const struct twir_expr *body = v->arg[0];
	if (body->kind != TWIR_Mul || body->arg[0]->kind != TWIR_Load || body->arg[1]->kind != TWIR_Load)
		return false;
	*o = (struct operands){
		.fold = v, .k = v->u.axes[0], .i = c->axes[rank - 2], .j = c->axes[rank - 1], .nbatch = rank - 2};
	for (int swap = 0; swap < 2; swap++) {
		o->a = body->arg[swap];
		o->b = body->arg[1 - swap];
		if (!twir_uses_var(o->a, o->j) && twir_uses_var(o->a, o->k) && !twir_uses_var(o->b, o->i) &&
		    twir_uses_var(o->b, o->k) && twir_uses_var(o->b, o->j))
			return true;
	}
	return false;
}

static int64_t size_or(const struct twir_expr *e, int64_t otherwise)
{
	int64_t v;
	return twir_const_int(e, &v) ? v : otherwise;
}

/* Packing pays from a few rows on, lanes from a few columns on, and a panel must not overflow the scratch a thread can afford. */
static bool applicable(const struct tw_task *task, const struct tw_target *t)
{
	struct operands o;
	const struct twir_compute *c = task->anchor;
	if (!match(c, &o))
		return false;
	const int rank = c->out->rank;
	const int64_t m = size_or(c->out->shape[rank - 2], 64), n = size_or(c->out->shape[rank - 1], 64);
	const int64_t k = size_or(o.fold->arg[1], 1024);
	return m >= 4 && n >= 4 && k > 0 && k * 2 * t->lanes * 8 <= 16 << 20;
}

/* Register tiles that fit: accumulators, nv vectors of B and one broadcast. Nothing here knows a size. */
static void space(struct tw_arena *a, const struct tw_target *t, struct tw_space *s)
{
	s->nparams = 2;
	s->names[MR] = "mr";
	s->names[NV] = "nv";
	static const int columns[] = {2, 3, 4, 1};
	for (int c = 0; c < TW_COUNT(columns); c++) {
		const int nv = columns[c], most = (t->vector_registers - nv - 1) / nv;
		for (int mr = most > 14 ? 14 : most; mr >= 2; mr -= 2)
			if (c > 0 || mr <= 12)
				vec_push(a, &s->points, ((struct tw_point){.value = {mr, nv}}));
	}
}

static const enum twir_level CORE[] = {TWIR_CORE}, LANE[] = {TWIR_LANE};

static struct twir_tensor *tensor2(struct twir_module *m, const char *name, enum twir_scalar type,
				   const struct twir_expr *rows, const struct twir_expr *cols, enum twir_scope scope)
{
	const struct twir_expr *shape[] = {rows, cols};
	return twir_tensor_new(m, name, type, 2, shape, scope);
}

/* load with axes replaced */
static const struct twir_expr *at(struct twir_module *m, const struct twir_expr *load, const struct operands *o,
				  const struct twir_expr *i, const struct twir_expr *j, const struct twir_expr *k)
{
	struct twir_subst s;
	twir_subst_init(&s, m);
	if (i)
		twir_subst_set(&s, o->i, i);
	if (j)
		twir_subst_set(&s, o->j, j);
	twir_subst_set(&s, o->k, k);
	return twir_subst_expr(&s, load);
}

/* for (i, j) in map on lane within bounds { tensor[i, j] = value }: value is given by a callback-free pattern: the variables come first */
struct pair {
	struct twir_var *v[2];
	const struct twir_expr *e[2];
};

static struct pair fresh(struct twir_module *m, const char *a, const char *b)
{
	struct pair p = {.v = {tw_loop_var(m, a), tw_loop_var(m, b)}};
	p.e[0] = twir_var(m, p.v[0]);
	p.e[1] = twir_var(m, p.v[1]);
	return p;
}

/* What one core item owns: `rows` rows and `panels` panels of columns. The panels it packs take at most half of the L2 cache, so that the rows of A, which
 * come by once for all of them, pass through the other half. Where too few items result, rows are split into bands of whole tiles: packing is then
 * repeated for each band. Sizes that are symbols count as middling. */
struct share {
	int64_t rows, panels;
};

#define ENOUGH_ITEMS 4 /* for a handful of cores; more and smaller ones pack more often */

static struct share item_share(const struct tw_target *t, const struct operands *o, const struct twir_compute *c,
			       int mr, int nr, int bytes)
{
	const int rank = c->out->rank;
	const int64_t k = size_or(o->fold->arg[1], 512), l2 = t->l2_bytes > 0 ? t->l2_bytes : 256 << 10;
	const int64_t fit = l2 / 2 / (k * nr * bytes), all = (size_or(c->out->shape[rank - 1], 8 * nr) + nr - 1) / nr;
	int64_t batch = 1;
	for (int d = 0; d < o->nbatch; d++) {
		const int64_t size = size_or(c->out->shape[d], 1);
		batch *= size < 1 ? 1 : size > ENOUGH_ITEMS ? ENOUGH_ITEMS : size;
	}
	struct share s = {.panels = fit < 1 ? 1 : fit < all ? fit : all > 0 ? all : 1};
	const int64_t rows = size_or(c->out->shape[rank - 2], -1), blocks = batch * ((all + s.panels - 1) / s.panels);
	if (rows < 0) {
		s.rows = 8 * mr;
		return s;
	}
	const int64_t tiles = (rows + mr - 1) / mr;
	int64_t bands = blocks >= ENOUGH_ITEMS ? 1 : (ENOUGH_ITEMS + blocks - 1) / (blocks > 0 ? blocks : 1);
	if (bands > (tiles + 3) / 4) /* a band of fewer than four tiles does not repay its packing */
		bands = (tiles + 3) / 4;
	s.rows = bands <= 1 ? (rows > 0 ? rows : 1) : (tiles + bands - 1) / bands * mr;
	while (s.panels > 1 && blocks * bands < ENOUGH_ITEMS &&
	       batch * bands * ((all + s.panels - 1) / s.panels) < ENOUGH_ITEMS)
		s.panels = (s.panels + 1) / 2;
	return s;
}

static void build(const struct tw_task *task, const struct tw_target *t, const struct tw_point *p,
		  struct tw_launch *out)
{
	struct twir_module *m = task->m;
	const struct twir_compute *c = task->anchor;
	struct operands o;
	TW_CHECK(match(c, &o), "matmul built for something else");
	const int rank = c->out->rank, lanes = t->lanes, nr = p->value[NV] * lanes;
	const struct twir_expr *M = c->out->shape[rank - 2], *N = c->out->shape[rank - 1], *K = o.fold->arg[1];
	const enum twir_scalar type = (enum twir_scalar)c->value->type.scalar;
	/* Balanced tiles: 64 rows are 6 tiles of 11, not 5 of 12 and one of 4. */
	const int64_t rows = size_or(M, p->value[MR]), tiles = (rows + p->value[MR] - 1) / p->value[MR];
	const int mr = (int)(tiles > 0 ? (rows + tiles - 1) / tiles : p->value[MR]);
	const struct twir_expr *MRe = twir_index(m, mr), *NRe = twir_index(m, nr), *one = twir_index(m, 1);

	const struct share share = item_share(t, &o, c, mr, nr, twir_scalar_bytes(type));
	const struct twir_expr *panels = twir_ceildiv(m, N, NRe), *band = twir_index(m, share.rows);
	const struct twir_expr *own = twir_index(m, share.panels);

	const struct twir_expr *tile_extent[] = {MRe, twir_index(m, p->value[NV])},
			       *lane_extent[] = {one, twir_index(m, lanes)};
	const struct twir_map *spread = twir_spatial(m, 2, lane_extent);
	const struct twir_map *tile = twir_compose(m, twir_repeat(m, 2, tile_extent, NULL), spread);
	const struct twir_expr *pack_extent[] = {K, twir_index(m, p->value[NV])};
	/* k runs fastest: what a column's index costs (an image's quotients and remainders) is then hoisted out of the loop */
	struct twir_map *columns = arena_copy(m->arena, twir_repeat(m, 2, pack_extent, NULL), sizeof(*columns));
	columns->order[0] = 1;
	columns->order[1] = 0;
	const struct twir_map *pack = twir_compose(m, columns, spread);

	const struct twir_expr *panel_shape[] = {own, K, NRe};
	struct twir_tensor *panel = twir_tensor_new(m, "panel", type, 3, panel_shape, TWIR_SHARED);
	struct twir_tensor *part = tensor2(m, "part", type, MRe, NRe, TWIR_SHARED);
	struct twir_tensor *acc = tensor2(m, "acc", type, MRe, NRe, TWIR_REGISTER);
	acc->mirrors = tile;

	/* core axes: batches (the definition's own axes, bound here), bands, panels */
	struct twir_var *core_vars[TWIR_MAX_RANK];
	const struct twir_expr *core_extent[TWIR_MAX_RANK], *cores = one;
	for (int d = 0; d < o.nbatch; d++)
		core_extent[d] = c->out->shape[d];
	core_extent[o.nbatch] = twir_ceildiv(m, M, band);
	core_extent[o.nbatch + 1] = twir_ceildiv(m, panels, own);
	struct twir_subst batch;
	twir_subst_init(&batch, m);
	for (int d = 0; d < rank; d++) {
		cores = twir_mul(m, cores, core_extent[d]);
		core_vars[d] = tw_loop_var(m, d < o.nbatch ? "b" : d == o.nbatch ? "band" : "block");
		if (d < o.nbatch)
			twir_subst_set(&batch, c->axes[d], twir_var(m, core_vars[d]));
	}
	const struct twir_expr *i_first = twir_mul(m, twir_var(m, core_vars[o.nbatch]), band);
	const struct twir_expr *first_panel = twir_mul(m, twir_var(m, core_vars[o.nbatch + 1]), own);
	const struct twir_expr *panels_here = twir_min(m, own, twir_sub(m, panels, first_panel));

	/* pack the panels */
	struct twir_stmt *body = NULL;
	struct twir_var *tp = tw_loop_var(m, "tp"), *tj = tw_loop_var(m, "tj");
	const struct twir_expr *tpe = twir_var(m, tp), *tje = twir_var(m, tj);
	struct pair v = fresh(m, "k", "j");
	const struct twir_expr *j = twir_add(m, twir_mul(m, twir_add(m, first_panel, tpe), NRe), v.e[1]);
	const struct twir_expr *zero = twir_const_of(m, twir_scalar_type(type), 0);
	const struct twir_expr *packed = twir_cond(m, twir_lt(m, j, N), at(m, o.b, &o, NULL, j, v.e[0]), zero);
	const struct twir_expr *pack_at[] = {tpe, v.e[0], v.e[1]};
	twir_append(&body, tw_declare(m, panel));
	twir_append(&body, tw_declare(m, part));
	twir_append(&body,
		    tw_for(m, tp, panels_here,
			   tw_formap(m, 2, v.v, pack, 1, LANE, NULL, twir_store(m, panel, 3, pack_at, packed, NULL))));

	/* one tile: i0 .. i0 + mr */
	struct twir_var *ti = tw_loop_var(m, "ti"), *k = tw_loop_var(m, "k");
	const struct twir_expr *i0, *j0, *ke = twir_var(m, k);
	struct twir_stmt *tile_body = tw_let_new(m, "i0", twir_add(m, i_first, twir_mul(m, twir_var(m, ti), MRe)), &i0);
	twir_append(&tile_body, tw_let_new(m, "j0", twir_mul(m, twir_add(m, first_panel, tje), NRe), &j0));
	struct twir_stmt *inner = NULL;
	twir_append(&inner, tw_declare(m, acc));
	v = fresh(m, "i", "j");
	twir_append(&inner, tw_formap(m, 2, v.v, tile, 1, LANE, NULL, twir_store(m, acc, 2, v.e, zero, NULL)));
	v = fresh(m, "i", "j");
	const struct twir_expr *i = twir_min(m, twir_add(m, i0, v.e[0]), twir_sub(m, M, one));
	const struct twir_expr *b_index[] = {tje, ke, v.e[1]};
	const struct twir_expr *av = at(m, o.a, &o, i, NULL, ke), *bv = twir_load(m, panel, 3, b_index),
			       *cv = twir_load(m, acc, 2, v.e);
	const struct twir_expr *sum = t->has_fma ? twir_fma(m, av, bv, cv) : twir_add(m, cv, twir_mul(m, av, bv));
	twir_append(&inner,
		    tw_for(m, k, K, tw_formap(m, 2, v.v, tile, 1, LANE, NULL, twir_store(m, acc, 2, v.e, sum, NULL))));
	v = fresh(m, "i", "j");
	twir_append(&inner, tw_formap(m, 2, v.v, tile, 1, LANE, NULL,
				      twir_store(m, part, 2, v.e, twir_load(m, acc, 2, v.e), NULL)));
	struct twir_stmt *full = twir_stmt_new(m, TWIR_SPECIALISE);
	full->u.branch.cond = twir_le(m, twir_add(m, i0, MRe), M);
	full->u.branch.body = inner;
	twir_append(&tile_body, full);

	/* the store: C[b.., i0 + i, j0 + j] = part[i, j] */
	v = fresh(m, "i", "j");
	const struct twir_expr *where[TWIR_MAX_RANK];
	for (int d = 0; d < o.nbatch; d++)
		where[d] = twir_var(m, core_vars[d]);
	where[rank - 2] = twir_add(m, i0, v.e[0]);
	where[rank - 1] = twir_add(m, j0, v.e[1]);
	const struct twir_expr *left[] = {twir_sub(m, M, i0), twir_sub(m, N, j0)};
	twir_append(&tile_body, tw_formap(m, 2, v.v, tile, 1, LANE, left,
					  twir_store(m, c->out, rank, where, twir_load(m, part, 2, v.e), NULL)));

	const struct twir_expr *mine = twir_min(m, band, twir_sub(m, M, i_first));
	tile_body = tw_for(m, tj, panels_here, tile_body);
	twir_append(&body, tw_for(m, ti, twir_ceildiv(m, mine, MRe), tile_body));
	body = twir_subst_block(&batch, body);

	struct twir_stmt *items_loop =
		tw_formap(m, rank, core_vars, twir_spatial(m, rank, core_extent), 1, CORE, NULL, body);
	struct tw_kernel kernel = {.program = tw_program_new(m, task->name, cores, lanes, items_loop)};
	vec_push(m->arena, &out->kernels, kernel);
}

const struct tw_template tw_template_matmul = {
	.name = "matmul", .applicable = applicable, .space = space, .build = build};
