/* Task mappings with expressions as extents, and layouts of buffers: construction, workers, shapes, offsets, sizes,
 * visiting. */
#include "ir/ir_int.h"

#include <stdlib.h>

const struct twir_map *twir_map_basic(struct twir_module *m, enum twtm_kind kind, int rank,
				      const struct twir_expr *const *extent, const int *ranks,
				      const enum twtm_attr *attrs)
{
	TW_CHECK(rank >= 1 && rank <= TWIR_MAX_RANK, "rank %d", rank);
	const char *why = twir_bad_extents(rank, extent);
	TW_CHECK(!why, "mapping: %s", why);
	struct twir_map *f = ARENA_NEW(m->arena, struct twir_map);
	f->kind = kind;
	f->rank = rank;
	unsigned taken = 0;
	for (int i = 0; i < rank; i++) {
		f->extent[i] = extent[i];
		f->order[i] = ranks ? ranks[i] : i;
		f->attr[i] = attrs ? attrs[i] : TWTM_PLAIN;
		TW_CHECK(f->order[i] >= 0 && f->order[i] < rank && !(taken & 1u << f->order[i]),
			 "ranks are a permutation");
		taken |= 1u << f->order[i];
	}
	return f;
}

const struct twir_map *twir_repeat(struct twir_module *m, int rank, const struct twir_expr *const *extent,
				   const enum twtm_attr *attrs)
{
	return twir_map_basic(m, TWTM_REPEAT, rank, extent, NULL, attrs);
}

const struct twir_map *twir_spatial(struct twir_module *m, int rank, const struct twir_expr *const *extent)
{
	return twir_map_basic(m, TWTM_SPATIAL, rank, extent, NULL, NULL);
}

const char *twir_bad_compose(const struct twir_map *a, const struct twir_map *b)
{
	return a->rank == b->rank ? NULL : "the factors of a mapping must have one rank";
}

const struct twir_map *twir_compose(struct twir_module *m, const struct twir_map *a, const struct twir_map *b)
{
	const char *why = twir_bad_compose(a, b);
	TW_CHECK(!why, "%s", why);
	struct twir_map *f = ARENA_NEW(m->arena, struct twir_map);
	f->kind = TWTM_COMPOSE;
	f->rank = a->rank;
	f->a = a;
	f->b = b;
	return f;
}

static bool only_spatial(const struct twir_map *f)
{
	switch (f->kind) {
	case TWTM_SPATIAL:
		return true;
	case TWTM_REPEAT:
		return false;
	case TWTM_PROJECT:
		return only_spatial(f->a);
	default:
		return only_spatial(f->a) && only_spatial(f->b);
	}
}

const char *twir_bad_project(const struct twir_map *a, unsigned dims)
{
	if (dims >> a->rank)
		return "a projected dimension is beyond the rank";
	return only_spatial(a) ? NULL : "only spatial mappings can be projected";
}

const struct twir_map *twir_project(struct twir_module *m, const struct twir_map *a, unsigned dims)
{
	const char *why = twir_bad_project(a, dims);
	TW_CHECK(!why, "%s", why);
	struct twir_map *f = ARENA_NEW(m->arena, struct twir_map);
	f->kind = TWTM_PROJECT;
	f->rank = a->rank;
	f->projected = dims;
	f->a = a;
	return f;
}

const struct twir_expr *twir_map_workers(struct twir_module *m, const struct twir_map *f)
{
	switch (f->kind) {
	case TWTM_REPEAT:
		return twir_index(m, 1);
	case TWTM_SPATIAL: {
		const struct twir_expr *n = twir_index(m, 1);
		for (int i = 0; i < f->rank; i++)
			n = twir_mul(m, n, f->extent[i]);
		return n;
	}
	case TWTM_COMPOSE:
		return twir_mul(m, twir_map_workers(m, f->a), twir_map_workers(m, f->b));
	default:
		return twir_map_workers(m, f->a);
	}
}

const struct twir_expr *twir_map_extent(struct twir_module *m, const struct twir_map *f, int dim)
{
	TW_CHECK(dim >= 0 && dim < f->rank);
	switch (f->kind) {
	case TWTM_REPEAT:
	case TWTM_SPATIAL:
		return f->extent[dim];
	case TWTM_COMPOSE:
		return twir_mul(m, twir_map_extent(m, f->a, dim), twir_map_extent(m, f->b, dim));
	default:
		return f->projected & 1u << dim ? twir_index(m, 1) : twir_map_extent(m, f->a, dim);
	}
}

/* layouts */

const struct twir_layout *twir_layout_make(struct twir_module *m, enum twir_layout_kind kind, int rank,
					   const struct twir_expr *const *extent, const struct twir_layout *inner)
{
	TW_CHECK(rank >= 0 && rank <= TWIR_MAX_RANK && (!inner || inner->rank == rank));
	TW_CHECK(kind != TWIR_LAYOUT_STRIDES || !inner, "strides are the last factor");
	const char *why = twir_bad_extents(rank, extent);
	TW_CHECK(!why, "layout: %s", why);
	struct twir_layout *l = ARENA_NEW(m->arena, struct twir_layout);
	l->kind = kind;
	l->rank = rank;
	for (int i = 0; i < rank; i++)
		l->extent[i] = extent[i];
	l->inner = inner;
	return l;
}

const char *twir_bad_swizzle(enum twir_layout_kind kind, int rank, const struct twir_expr *const *extent,
			     const struct twir_swizzle *s)
{
	int64_t n;
	if (kind != TWIR_LAYOUT_ROW && kind != TWIR_LAYOUT_COLUMN)
		return "only row and column factors are swizzled";
	if (s->dim < 0 || s->dim >= rank || s->by < 0 || s->by >= rank || s->dim == s->by)
		return "swizzle(DIM, BY) takes two different dimensions of the factor";
	if (s->shift < 0 || s->shift > 31)
		return "the shift of a swizzle is 0 to 31";
	if (!twir_const_int(extent[s->dim], &n) || n < 1 || (n & (n - 1)))
		return "the swizzled dimension of a factor must be a constant power of two";
	return NULL;
}

const struct twir_layout *twir_layout_factor(struct twir_module *m, enum twir_layout_kind kind, int rank,
					     const struct twir_expr *const *extent, const struct twir_swizzle *swizzle,
					     const struct twir_layout *inner)
{
	struct twir_layout *l = (struct twir_layout *)twir_layout_make(m, kind, rank, extent, inner);
	if (swizzle && swizzle->on) {
		const char *why = twir_bad_swizzle(kind, rank, extent, swizzle);
		TW_CHECK(!why, "layout: %s", why);
		l->swizzle = *swizzle;
	}
	return l;
}

const struct twir_layout *twir_layout_blocked(struct twir_module *m, int rank, const struct twir_expr *const *shape,
					      const struct twir_expr *const *block)
{
	const struct twir_expr *count[TWIR_MAX_RANK];
	for (int i = 0; i < rank; i++)
		count[i] = twir_ceildiv(m, shape[i], block[i]);
	return twir_layout_row(m, rank, count, twir_layout_row(m, rank, block, NULL));
}

bool twir_strides_overlap(int rank, const int64_t *extent, const int64_t *stride)
{
	enum { MOST = 1 << 16 };
	bool taken[TWIR_MAX_RANK] = {false}, bad = false, apart = true;
	int64_t reach = 0, count = 1;
	for (int turn = 0; turn < rank; turn++) { /* by growing strides: does each pass over all before it? */
		int least = -1;
		for (int k = 0; k < rank; k++)
			if (!taken[k] && (least < 0 || stride[k] < stride[least]))
				least = k;
		taken[least] = true;
		count = tw_mul64(count, extent[least], &bad);
		apart &= extent[least] <= 1 || stride[least] > reach;
		reach = tw_add64(reach, tw_mul64(extent[least] - 1, stride[least], &bad), &bad);
	}
	if (apart || bad || count > MOST || count == 0)
		return false;
	if (reach + 1 < count)
		return true;
	if (reach >= (int64_t)MOST * 8)
		return false;
	uint8_t *seen = calloc((size_t)reach + 1, 1);
	int64_t at[TWIR_MAX_RANK] = {0};
	bool twice = false;
	for (int64_t n = 0; seen && n < count && !twice; n++) {
		int64_t place = 0;
		for (int k = 0; k < rank; k++)
			place += at[k] * stride[k];
		twice = seen[place]++ != 0;
		for (int k = rank - 1; k >= 0 && ++at[k] == extent[k]; k--)
			at[k] = 0;
	}
	free(seen);
	return twice;
}

const struct twir_layout *twir_layout_row(struct twir_module *m, int rank, const struct twir_expr *const *extent,
					  const struct twir_layout *inner)
{
	return twir_layout_make(m, TWIR_LAYOUT_ROW, rank, extent, inner);
}

const struct twir_layout *twir_layout_strides(struct twir_module *m, int rank, const struct twir_expr *const *stride)
{
	return twir_layout_make(m, TWIR_LAYOUT_STRIDES, rank, stride, NULL);
}

bool twir_layout_equal(const struct twir_layout *a, const struct twir_layout *b)
{
	for (; a && b && a != b; a = a->inner, b = b->inner) {
		if (a->kind != b->kind || a->rank != b->rank ||
		    memcmp(&a->swizzle, &b->swizzle, sizeof(a->swizzle)) != 0)
			return false;
		for (int i = 0; i < a->rank; i++)
			if (a->extent[i] != b->extent[i])
				return false;
	}
	return a == b;
}

static const struct twir_expr *row_offset(struct twir_module *m, int rank, const struct twir_expr *const *shape,
					  const struct twir_expr *const *x)
{
	const struct twir_expr *at = twir_index(m, 0);
	for (int i = 0; i < rank; i++)
		at = twir_add(m, twir_mul(m, at, shape[i]), x[i]);
	return at;
}

/* The place of x in one factor that is not strides. */
static const struct twir_expr *factor_offset(struct twir_module *m, const struct twir_layout *l,
					     const struct twir_expr *const *x)
{
	const struct twir_expr *turned[TWIR_MAX_RANK], *at = twir_index(m, 0);
	if (l->kind == TWIR_LAYOUT_LOCAL)
		return at;
	for (int i = 0; i < l->rank; i++)
		turned[i] = x[i];
	if (l->swizzle.on) {
		const struct twir_expr *by =
			twir_div(m, x[l->swizzle.by], twir_index(m, INT64_C(1) << l->swizzle.shift));
		const int d = l->swizzle.dim;
		turned[d] = twir_binary(m, TWIR_Xor, x[d], twir_mod(m, by, l->extent[d]));
	}
	if (l->kind == TWIR_LAYOUT_ROW)
		return row_offset(m, l->rank, l->extent, turned);
	for (int i = l->rank - 1; i >= 0; i--)
		at = twir_add(m, twir_mul(m, at, l->extent[i]), turned[i]);
	return at;
}

/* The shape of what is inside the factor l of a layout over shape. */
static void inside(struct twir_module *m, const struct twir_layout *l, const struct twir_expr *const *shape,
		   const struct twir_expr **rest)
{
	const struct twir_layout *in = l->inner;
	for (int i = 0; i < l->rank; i++) {
		bool strided = false;
		const struct twir_expr *n = twir_index(m, 1);
		for (const struct twir_layout *f = in; f; f = f->inner) {
			strided |= f->kind == TWIR_LAYOUT_STRIDES;
			if (f->kind != TWIR_LAYOUT_STRIDES)
				n = twir_mul(m, n, f->extent[i]);
		}
		/* strides do not tell their extents: they cover what the outer factors leave */
		rest[i] = strided ? twir_ceildiv(m, shape[i], l->extent[i]) : n;
	}
}

/* Storage of a layout over shape, in elements. */
static const struct twir_expr *layout_size(struct twir_module *m, const struct twir_layout *l, int rank,
					   const struct twir_expr *const *shape)
{
	const struct twir_expr *n = twir_index(m, 1);
	if (!l) {
		for (int i = 0; i < rank; i++)
			n = twir_mul(m, n, shape[i]);
		return n;
	}
	if (l->kind == TWIR_LAYOUT_STRIDES) {
		for (int i = 0; i < rank; i++) {
			const struct twir_expr *last =
				twir_sub(m, twir_max(m, shape[i], twir_index(m, 1)), twir_index(m, 1));
			n = twir_add(m, n, twir_mul(m, last, l->extent[i]));
		}
		return n;
	}
	for (int i = 0; i < rank && l->kind != TWIR_LAYOUT_LOCAL; i++)
		n = twir_mul(m, n, l->extent[i]);
	if (!l->inner)
		return n;
	const struct twir_expr *rest[TWIR_MAX_RANK];
	inside(m, l, shape, rest);
	return twir_mul(m, n, layout_size(m, l->inner, rank, rest));
}

static const struct twir_expr *layout_offset(struct twir_module *m, const struct twir_layout *l, int rank,
					     const struct twir_expr *const *shape, const struct twir_expr *const *x)
{
	if (!l)
		return row_offset(m, rank, shape, x);
	if (l->kind == TWIR_LAYOUT_STRIDES) {
		const struct twir_expr *at = twir_index(m, 0);
		for (int i = 0; i < rank; i++)
			at = twir_add(m, at, twir_mul(m, x[i], l->extent[i]));
		return at;
	}
	if (!l->inner)
		return factor_offset(m, l, x);
	const struct twir_expr *rest[TWIR_MAX_RANK], *outer[TWIR_MAX_RANK], *inner[TWIR_MAX_RANK];
	inside(m, l, shape, rest);
	for (int i = 0; i < rank; i++) {
		outer[i] = twir_div(m, x[i], rest[i]);
		inner[i] = twir_mod(m, x[i], rest[i]);
	}
	const struct twir_expr *at = twir_mul(m, factor_offset(m, l, outer), layout_size(m, l->inner, rank, rest));
	return twir_add(m, at, layout_offset(m, l->inner, rank, rest, inner));
}

const struct twir_expr *twir_layout_offset(struct twir_module *m, const struct twir_tensor *t, int n,
					   const struct twir_expr *const *index)
{
	if (n == 1 && t->rank != 1)
		return index[0]; /* flat already */
	TW_CHECK(n == t->rank, "tensor %s has rank %d, not %d", t->name, t->rank, n);
	return layout_offset(m, t->layout, n, t->shape, index);
}

const struct twir_expr *twir_tensor_elements(struct twir_module *m, const struct twir_tensor *t)
{
	return layout_size(m, t->layout, t->rank, t->shape);
}

/* visiting: each expression that the object holds, not their parts */

void twir_visit_map(const struct twir_map *f, void (*visit)(void *arg, const struct twir_expr *e), void *arg)
{
	if (f->kind == TWTM_REPEAT || f->kind == TWTM_SPATIAL) {
		for (int i = 0; i < f->rank; i++)
			visit(arg, f->extent[i]);
		return;
	}
	twir_visit_map(f->a, visit, arg);
	if (f->kind == TWTM_COMPOSE)
		twir_visit_map(f->b, visit, arg);
}

void twir_visit_layout(const struct twir_layout *l, void (*visit)(void *arg, const struct twir_expr *e), void *arg)
{
	for (; l; l = l->inner)
		for (int i = 0; i < l->rank; i++)
			visit(arg, l->extent[i]);
}

void twir_visit_tensor(const struct twir_tensor *t, void (*visit)(void *arg, const struct twir_expr *e), void *arg)
{
	for (int i = 0; i < t->rank; i++)
		visit(arg, t->shape[i]);
	twir_visit_layout(t->layout, visit, arg);
	if (t->mirrors)
		twir_visit_map(t->mirrors, visit, arg);
}

void twir_visit_program(const struct twir_program *p, void (*visit)(void *arg, const struct twir_expr *e), void *arg)
{
	for (int i = 0; i < p->nparams; i++)
		twir_visit_tensor(p->params[i], visit, arg);
	for (int i = 0; i < p->nlevels; i++)
		visit(arg, p->extents[i]);
	twir_visit_block(p->body, NULL, visit, arg);
}
