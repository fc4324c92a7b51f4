/* The programs of a Winograd convolution, in one of two forms.
 *
 * Blocked: a core item owns some tiles; it transforms their data into scratch, multiplies with all weights there, transforms back. What lies between stays in
 * the L2 cache; weights are read once an item. For large maps, whose weights are few.
 * Staged: transform, one batched matmul over the elements of the tiles (scheduled as any matmul is), transform back. Each weight is read once. For small maps. */
#include "sched/winograd_int.h"

static const enum twir_level CORE[] = {TWIR_CORE}, LANE[] = {TWIR_LANE};

/* What the sums over channels lose is nearly all that the template loses, for the transform back cancels much of them: they are made of shorter pieces than others.
 * (Of layers of 96 to 512 channels with 4 x 4 outputs, pieces of 32 have 0.55 to 0.65 times the error of pieces of 160; whole networks take a hundredth longer,
 * which is less than what the transforms of pairs save.) */
enum { SUM_PIECE = 32 };
enum { STAGE_TILES = 4, ENOUGH_ITEMS = 4, MIDDLING_TILES = 400 };

/* for tile in spatial(items) * repeat(count) on core within (all) { body } */
static struct twir_program *over_tiles(const struct tw_winograd_tiles *x, const char *suffix, int64_t count,
				       struct twir_var *tile, struct twir_stmt *body)
{
	struct twir_module *m = x->m;
	const struct twir_expr *each[] = {twir_index(m, count)}, *items[] = {twir_ceildiv(m, x->all, each[0])};
	const struct twir_map *map = twir_compose(m, twir_spatial(m, 1, items), twir_repeat(m, 1, each, NULL));
	struct twir_stmt *loop = tw_formap(m, 1, &tile, map, 1, CORE, &x->all, body);
	return tw_program_new(m, arena_printf(m->arena, "%s%s", x->w->task->name, suffix), items[0], x->t->lanes, loop);
}

static struct twir_tensor *between(const struct tw_winograd_tiles *x, const char *name, const struct twir_expr *width)
{
	struct twir_module *m = x->m;
	const struct twir_expr *shape[] = {twir_index(m, x->elements), x->all, width};
	return twir_tensor_new(m, name, TWIR_F32, 3, shape, TWIR_TENSOR);
}

/* sums[e, tile, co] = sum over ci of data[e, tile, ci] * weights[e, ci, co] */
static struct twir_compute *product(const struct tw_winograd_tiles *x, struct twir_tensor *data,
				    struct twir_tensor *weights, struct twir_tensor *sums)
{
	struct twir_module *m = x->m;
	struct twir_compute *c = ARENA_NEW(m->arena, struct twir_compute);
	static const char *const names[] = {"e", "tile", "co"};
	const struct twir_expr *at[3];
	*c = (struct twir_compute){.out = sums, .axes = ARENA_ARRAY(m->arena, struct twir_var *, 3)};
	c->origin = x->w->task->anchor->origin;
	for (int d = 0; d < 3; d++) {
		c->axes[d] = twir_var_new(m, TWIR_AXIS, twir_scalar_type(TWIR_INDEX), names[d]);
		at[d] = twir_var(m, c->axes[d]);
	}
	struct twir_var *k = twir_var_new(m, TWIR_AXIS, twir_scalar_type(TWIR_INDEX), "k");
	const struct twir_expr *ke = twir_var(m, k), *a[] = {at[0], at[1], ke}, *b[] = {at[0], ke, at[2]};
	const struct twir_expr *factor = twir_mul(m, twir_load(m, data, 3, a), twir_load(m, weights, 3, b));
	c->value = twir_fold(m, TWIR_Add, 1, &k, &x->w->channels, factor);
	return c;
}

static void add_kernel(const struct tw_winograd_tiles *x, struct twir_program *p, struct tw_launch *out)
{
	struct tw_kernel k = {.program = p};
	vec_push(x->m->arena, &out->kernels, k);
}

static void staged(const struct tw_winograd_tiles *x, struct tw_launch *out)
{
	struct twir_module *m = x->m;
	const struct tw_task *task = x->w->task;
	struct twir_tensor *weights = tw_winograd_weights(x, out), *part = tw_winograd_part(x);
	struct twir_tensor *data = between(x, "data", x->w->channels), *sums = between(x, "sums", x->w->filters);
	struct twir_var *tile = tw_loop_var(m, "tile");
	struct twir_stmt *body = tw_winograd_input(x, twir_var(m, tile), data, twir_var(m, tile));
	add_kernel(x, over_tiles(x, "_in", STAGE_TILES, tile, body), out);

	const struct tw_task inner = {.m = m,
				      .name = arena_printf(m->arena, "%s_tiles", task->name),
				      .anchor = product(x, data, weights, sums),
				      .constants = task->constants,
				      .piece = SUM_PIECE};
	struct tw_launch launch = {0};
	tw_schedule(&inner, x->t, &launch);
	for (int i = 0; i < launch.prepared.n; i++)
		vec_push(m->arena, &out->prepared, launch.prepared.at[i]);
	for (int i = 0; i < launch.kernels.n; i++)
		vec_push(m->arena, &out->kernels, launch.kernels.at[i]);

	tile = tw_loop_var(m, "tile");
	body = tw_declare(m, part);
	twir_append(&body, tw_winograd_output(x, twir_var(m, tile), sums, twir_var(m, tile), part));
	add_kernel(x, over_tiles(x, "_out", STAGE_TILES, tile, body), out);
}

/* Tiles in all; of one image where the number of images is not known, middling where a map's size is not. */
static int64_t tiles_or_guess(const struct tw_winograd_tiles *x)
{
	const int64_t image = tw_size_or(x->rows, 0) * tw_size_or(x->columns, 0);
	return tw_size_or(x->all, image > 0 ? image : MIDDLING_TILES);
}

/* How many tiles an item of the blocked form owns: data and sums fill half of the L2 cache, in whole register tiles, and there are enough items. */
static int64_t block_of(const struct tw_winograd_tiles *x, int mr)
{
	const int64_t width = tw_size_or(x->w->channels, 64) + tw_size_or(x->w->filters, 64);
	const int64_t fit = x->t->l2_bytes / 2 / (width * 4 * x->elements), all = tiles_or_guess(x);
	int64_t block = fit < mr ? mr : fit / mr * mr;
	while (block > mr && (all + block - 1) / block < ENOUGH_ITEMS)
		block -= mr;
	return block;
}

static double weight_bytes(const struct tw_winograd_tiles *x)
{
	return 4.0 * x->elements * (double)tw_size_or(x->w->channels, 64) * (double)tw_size_or(x->w->filters, 64);
}

/* The blocked form reads the weights once an item, from the L2 cache while they fill less than a third of it; the staged one writes and reads data and sums. */
static bool prefer_blocked(const struct tw_winograd_tiles *x, int mr)
{
	const double all = (double)tiles_or_guess(x), weights = weight_bytes(x);
	const double width = (double)tw_size_or(x->w->channels, 64) + (double)tw_size_or(x->w->filters, 64);
	const double passed = 2 * 4.0 * x->elements * all * width, l2 = (double)x->t->l2_bytes;
	const double items = all / (double)block_of(x, mr);
	const double blocked = weights < l2 / 3 ? 0 : weights * items, through = passed < l2 ? 0 : passed;
	return items > 1.5 && (blocked < through || (blocked == 0 && passed > l2 / 2));
}

/* sums[e, tile, co] for the tiles in scratch: register tiles of mr tiles by nv vectors of channels. */
static struct twir_stmt *multiply(const struct tw_winograd_tiles *x, int mr, int nv, const struct twir_expr *tiles,
				  struct twir_tensor *data, struct twir_tensor *panels, struct twir_tensor *sums)
{
	struct twir_module *m = x->m;
	const int lanes = x->t->lanes, nr = nv * lanes;
	const struct twir_expr *MR = twir_index(m, mr), *NR = twir_index(m, nr), *one = twir_index(m, 1);
	const struct twir_expr *tile_extent[] = {MR, twir_index(m, nv)}, *lane_extent[] = {one, twir_index(m, lanes)};
	const struct twir_map *map =
		twir_compose(m, twir_repeat(m, 2, tile_extent, NULL), twir_spatial(m, 2, lane_extent));
	const struct twir_expr *shape[] = {MR, NR};
	struct twir_tensor *acc = twir_tensor_new(m, "acc", TWIR_F32, 2, shape, TWIR_REGISTER);
	acc->mirrors = map;
	struct twir_var *e = tw_loop_var(m, "e"), *panel = tw_loop_var(m, "panel"), *ti = tw_loop_var(m, "ti"),
			*k = tw_loop_var(m, "k"), *piece = tw_loop_var(m, "piece");
	const struct twir_expr *ee = twir_var(m, e), *pe = twir_var(m, panel), *ke = twir_var(m, k), *v[2];
	const int64_t length = tw_sum_piece(tw_size_or(x->w->channels, 0), SUM_PIECE);
	const struct twir_expr *terms = x->w->channels, *pieces = twir_index(m, 1);
	if (length) {
		const struct twir_expr *L = twir_index(m, length), *begin = twir_mul(m, twir_var(m, piece), L);
		pieces = twir_ceildiv(m, terms, L);
		terms = twir_min(m, L, twir_sub(m, terms, begin));
		ke = twir_add(m, begin, ke);
	}
	const struct twir_expr *first = twir_mul(m, twir_var(m, ti), MR);
	struct twir_stmt *body = NULL;
	for (int stage = 0; stage < 4; stage++) { /* begin, multiply and add, add the pieces before, store */
		struct twir_var *ij[] = {tw_loop_var(m, "i"), tw_loop_var(m, "j")};
		v[0] = twir_var(m, ij[0]);
		v[1] = twir_var(m, ij[1]);
		const struct twir_expr *row = twir_add(m, first, v[0]), *sum = twir_load(m, acc, 2, v);
		const struct twir_expr *a[] = {ee, row, ke}, *b[] = {ee, pe, ke, v[1]};
		const struct twir_expr *c[] = {ee, row, twir_add(m, twir_mul(m, pe, NR), v[1])};
		const struct twir_expr *value = twir_float(m, TWIR_F32, 0);
		if (stage == 1)
			value = twir_fma(m, twir_load(m, data, 3, a), twir_load(m, panels, 4, b), sum);
		else if (stage == 2)
			value = twir_add(m, twir_load(m, sums, 3, c), sum);
		struct twir_stmt *s =
			stage < 3 ? twir_store(m, acc, 2, v, value, NULL) : twir_store(m, sums, 3, c, sum, NULL);
		s = tw_formap(m, 2, ij, map, 1, LANE, NULL, s);
		if (stage == 1)
			s = tw_for(m, k, terms, s);
		else if (stage == 2)
			s = length ? twir_if(m, twir_lt(m, twir_index(m, 0), twir_var(m, piece)), s, NULL) : NULL;
		if (s)
			twir_append(&body, s);
	}
	if (length)
		body = tw_for(m, piece, pieces, body);
	struct twir_stmt *tile = tw_declare(m, acc);
	twir_append(&tile, body);
	body = tile;
	body = tw_for(m, ti, twir_ceildiv(m, tiles, MR), body);
	body = tw_for(m, panel, twir_ceildiv(m, x->w->filters, NR), body);
	return tw_for(m, e, twir_index(m, x->elements), body);
}

/* panels[e, co / nr, ci, co % nr], zero beyond the last channel */
static struct twir_tensor *pack(const struct tw_winograd_tiles *x, int nr, struct twir_tensor *weights,
				struct tw_launch *out)
{
	struct twir_module *m = x->m;
	const struct twir_expr *NR = twir_index(m, nr), *at[4];
	const struct twir_expr *shape[] = {twir_index(m, x->elements), twir_ceildiv(m, x->w->filters, NR),
					   x->w->channels, NR};
	static const char *const names[] = {"e", "panel", "ci", "j"};
	struct twir_var *axes[4];
	for (int d = 0; d < 4; d++) {
		axes[d] = twir_var_new(m, TWIR_AXIS, twir_scalar_type(TWIR_INDEX), names[d]);
		at[d] = twir_var(m, axes[d]);
	}
	const struct twir_expr *co = twir_add(m, twir_mul(m, at[1], NR), at[3]), *from[] = {at[0], at[2], co};
	const struct twir_expr *value =
		twir_cond(m, twir_lt(m, co, x->w->filters), twir_load(m, weights, 3, from), twir_float(m, TWIR_F32, 0));
	return tw_prepare(x->w->task, out, "winograd_panels", TWIR_F32, 4, shape, axes, value);
}

static void blocked(const struct tw_winograd_tiles *x, int mr, int nv, struct tw_launch *out)
{
	struct twir_module *m = x->m;
	const int nr = nv * x->t->lanes;
	const int64_t block = block_of(x, mr);
	const struct twir_expr *B = twir_index(m, block), *MR = twir_index(m, mr), *one = twir_index(m, 1);
	struct twir_tensor *panels = pack(x, nr, tw_winograd_weights(x, out), out), *part = tw_winograd_part(x);
	const struct twir_expr *data_shape[] = {twir_index(m, x->elements), B, x->w->channels};
	const struct twir_expr *sums_shape[] = {twir_index(m, x->elements), B,
						twir_roundup(m, x->w->filters, twir_index(m, nr))};
	struct twir_tensor *data = twir_tensor_new(m, "data", TWIR_F32, 3, data_shape, TWIR_SHARED);
	struct twir_tensor *sums = twir_tensor_new(m, "sums", TWIR_F32, 3, sums_shape, TWIR_SHARED);

	struct twir_var *item = tw_loop_var(m, "item"), *in = tw_loop_var(m, "tile"), *back = tw_loop_var(m, "tile");
	const struct twir_expr *first, *here;
	struct twir_stmt *body = tw_declare(m, data);
	twir_append(&body, tw_declare(m, sums));
	twir_append(&body, tw_declare(m, part));
	twir_append(&body, tw_let_new(m, "first", twir_mul(m, twir_var(m, item), B), &first));
	twir_append(&body, tw_let_new(m, "here", twir_min(m, B, twir_sub(m, x->all, first)), &here));
	/* Rows that fill the last register tile repeat the last tile: they are never transformed back. */
	const struct twir_expr *tile = twir_min(m, twir_add(m, first, twir_var(m, in)), twir_sub(m, x->all, one));
	twir_append(&body, tw_for(m, in, twir_roundup(m, here, MR), tw_winograd_input(x, tile, data, twir_var(m, in))));
	twir_append(&body, multiply(x, mr, nv, here, data, panels, sums));
	tile = twir_add(m, first, twir_var(m, back));
	twir_append(&body, tw_for(m, back, here, tw_winograd_output(x, tile, sums, twir_var(m, back), part)));

	const struct twir_expr *items = twir_ceildiv(m, x->all, B);
	struct twir_stmt *loop = tw_formap(m, 1, &item, twir_spatial(m, 1, &items), 1, CORE, NULL, body);
	add_kernel(x, tw_program_new(m, x->w->task->name, items, x->t->lanes, loop), out);
}

/* The highest register tile that the registers allow: sums, a line of weights and one broadcast. */
static int rows_of(const struct tw_winograd_tiles *x, int nv)
{
	const int most = (x->t->vector_registers - nv - 1) / nv;
	return most < 1 ? 1 : most > 14 ? 14 : most;
}

void tw_winograd_build(const struct tw_winograd_tiles *x, int nv, struct tw_launch *out)
{
	const int mr = rows_of(x, nv);
	if (prefer_blocked(x, mr))
		blocked(x, mr, nv, out);
	else
		staged(x, out);
}
