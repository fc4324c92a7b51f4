/* local_registers: a register tensor that mirrors a mapping becomes an array of the elements that one thread owns: one
 * dimension for each repeat of the mapping, what spatial factors choose is the thread itself. One with a layout becomes
 * an array in its storage's order. needs: expand_mapping (indices are sums of loop variables and workers); breaks:
 * mirrors and layouts of registers. */
#include "pass/pass_int.h"

struct local {
	struct twir_tensor *was, *now;
	struct twp_factors f; /* of was->mirrors; n = 0: it has a layout */
	int lead; /* dimensions of `was` that number fragments; those behind become one. Its rank: there are none */
};

struct locals {
	struct twp_walk w;
	struct twir_rewriter r;
	struct tw_map map;   /* tensor -> struct local */
	struct tw_map leads; /* tensor that matrix instructions use -> its leading dimensions + 1 */
};

static bool is_one(const struct twir_expr *e)
{
	int64_t n;
	return twir_const_int(e, &n) && n == 1;
}

/* The dimension of that rank: 0 is the slowest. */
static int turning(const struct twp_factor *f, int rank)
{
	int d = 0;
	while (f->order[d] != rank)
		d++;
	return d;
}

static struct twir_tensor *declare(struct locals *x, struct twir_tensor *t)
{
	struct twir_module *m = x->w.m;
	struct local *l = ARENA_NEW(m->arena, struct local);
	const struct twir_expr *shape[TWIR_MAX_RANK];
	int rank = 0;
	const intptr_t lead = (intptr_t)map_get_ptr(&x->leads, t);
	const struct twir_expr *tile = twir_index(m, 1);
	l->was = t;
	l->lead = lead ? (int)lead - 1 : t->rank;
	if (lead && t->layout)
		tw_raise(TW_ERR_UNSUPPORTED,
			 "register tensor %s has a layout and is a fragment of a matrix instruction", t->base);
	if (t->mirrors) {
		twp_factors(m, t->mirrors, &l->f);
		for (int i = 0; i < l->f.n; i++)
			for (int k = 0; k < l->f.at[i].rank && !l->f.at[i].spatial; k++) {
				const int d = turning(&l->f.at[i], k);
				const struct twir_expr *extent = twp_task_extent(m, &l->f.at[i], d);
				if (is_one(extent))
					continue;
				if (d >= l->lead) {
					tile = twir_mul(m, tile, extent);
					continue;
				}
				if (rank == TWIR_MAX_RANK)
					tw_raise(TW_ERR_MODEL, "register tensor %s mirrors more than %d repeats",
						 t->base, rank);
				shape[rank++] = extent;
			}
		if (l->lead < t->rank)
			shape[rank++] = tile;
	} else {
		shape[rank++] = twir_tensor_elements(m, t);
	}
	l->now = twir_tensor_new(m, t->base, t->type, rank, shape, TWIR_REGISTER);
	map_set_ptr(&x->map, t, l);
	return l->now;
}

/* The element's place in l->now; returns the number of indices. */
static int place(struct locals *x, const struct local *l, int n, const struct twir_expr *const *index,
		 const struct twir_expr **at)
{
	struct twir_module *m = x->w.m;
	bool outer[TWIR_MAX_RANK] = {false}; /* a factor further out has coordinates there */
	int count = 0;
	const struct twir_expr *tile = twir_index(m, 0);
	if (!l->was->mirrors) {
		at[0] = twir_simplify(&x->w.facts, twir_layout_offset(m, l->was, n, index));
		return 1;
	}
	for (int i = 0; i < l->f.n; i++)
		for (int k = 0; k < l->f.at[i].rank; k++) {
			const int d = turning(&l->f.at[i], k); /* an instruction takes elements in the order of tasks */
			const struct twir_expr *extent = twp_task_extent(m, &l->f.at[i], d);
			if (is_one(extent))
				continue;
			const struct twir_expr *c = twir_div(m, index[d], twp_inner_extent(m, &l->f, i, d));
			c = twir_simplify(&x->w.facts, outer[d] ? twir_mod(m, c, extent) : c);
			outer[d] = true;
			if (!l->f.at[i].spatial && d >= l->lead)
				tile = twir_add(m, twir_mul(m, tile, extent), c);
			else if (!l->f.at[i].spatial)
				at[count++] = c;
		}
	if (l->lead < l->was->rank)
		at[count++] = twir_simplify(&x->w.facts, tile);
	return count;
}

/* The instruction takes a lane's elements in its own order; so must the mapping. */
static void check_order(struct locals *x, const struct local *l, const struct twir_mma *shape,
			enum twir_operand_of which)
{
	struct twir_module *m = x->w.m;
	const struct twir_expr *at[TWIR_MAX_RANK], *own[TWIR_MAX_RANK];
	for (int e = 0; e < shape->elements[which]; e++) {
		int row, column;
		int64_t number;
		twir_mma_place(shape, which, 0, e, &row, &column);
		for (int d = 0; d < l->was->rank; d++)
			at[d] = twir_index(m, d < l->lead ? 0 : d == l->lead ? row : column);
		const int n = place(x, l, l->was->rank, at, own);
		if (!twir_const_int(own[n - 1], &number) || number != e)
			tw_raise(TW_ERR_UNSUPPORTED,
				 "register tensor %s: its mapping orders a lane's elements otherwise than %s does",
				 l->was->base, shape->name);
	}
}

/* What the leading indices choose; the thread's elements of the tile are the last dimension. */
static void fragment(struct locals *x, const struct twir_mma *shape, enum twir_operand_of which,
		     struct twir_fragment *f)
{
	struct twir_module *m = x->w.m;
	const struct local *l = map_get_ptr(&x->map, f->tensor);
	const struct twir_expr *at[TWIR_MAX_RANK], *own[TWIR_MAX_RANK];
	if (!l)
		return;
	check_order(x, l, shape, which);
	for (int d = 0; d < l->was->rank; d++)
		at[d] = d < f->n ? f->index[d] : twir_index(m, 0);
	f->n = place(x, l, l->was->rank, at, own) - 1;
	f->tensor = l->now;
	f->index = arena_copy(m->arena, own, sizeof(*own) * (size_t)f->n);
}

static void find_fragments(void *arg, const struct twir_stmt *s)
{
	struct locals *x = arg;
	for (int k = 0; k < 3 && s->kind == TWIR_MMA; k++)
		map_set_ptr(&x->leads, s->u.mma.part[k].tensor, (void *)(intptr_t)(s->u.mma.part[k].n + 1));
}

static const struct twir_expr *load(struct twir_rewriter *r, const struct twir_expr *e)
{
	struct locals *x = r->user;
	const struct twir_expr *at[TWIR_MAX_RANK];
	const struct local *l = e->kind == TWIR_Load ? map_get_ptr(&x->map, e->u.tensor) : NULL;
	return l ? twir_load(r->m, l->now, place(x, l, e->nidx, e->arg, at), at) : e;
}

static const struct twir_expr *expr(struct twp_walk *w, const struct twir_expr *e)
{
	struct locals *x = w->user;
	if (!e->loads)
		return e;
	twir_rewriter_reset(&x->r); /* facts differ from place to place */
	return twir_rewrite_expr(&x->r, e);
}

static bool statement(struct twp_walk *w, const struct twir_stmt *s, struct twp_list *out)
{
	struct locals *x = w->user;
	if (s->kind == TWIR_DECLARE && s->u.declare.tensor->scope == TWIR_REGISTER &&
	    (s->u.declare.tensor->mirrors || s->u.declare.tensor->layout)) {
		struct twir_stmt *d = twp_copy(w->m, s);
		d->u.declare.tensor = declare(x, s->u.declare.tensor);
		twp_list_add(out, d);
		return true;
	}
	if (s->kind == TWIR_MMA) {
		struct twir_stmt *c = twp_walk_stmt(w, s);
		for (int k = 0; k < 3; k++)
			fragment(x, s->u.mma.shape, (enum twir_operand_of)k, &c->u.mma.part[k]);
		twp_list_add(out, c);
		return true;
	}
	const struct local *l = s->kind == TWIR_STORE ? map_get_ptr(&x->map, s->u.store.tensor) : NULL;
	if (!l)
		return false;
	const struct twir_expr *at[TWIR_MAX_RANK];
	struct twir_stmt *c = twp_walk_stmt(w, s);
	const int n = place(x, l, c->u.store.n, c->u.store.index, at);
	twp_list_add(out, twir_store(w->m, l->now, n, at, c->u.store.value, NULL));
	return true;
}

void pass_local_registers(struct twir_module *m, struct twir_program *p, const struct tw_target *t)
{
	(void)t;
	struct locals *x = ARENA_NEW(m->arena, struct locals);
	twp_walk_init(&x->w, m, p);
	x->w.user = x;
	x->w.stmt = statement;
	x->w.expr = expr;
	twir_rewriter_init(&x->r, m);
	x->r.user = x;
	x->r.expr = load;
	map_init(&x->map, m->scratch);
	map_init(&x->leads, m->scratch);
	twir_visit_block(p->body, find_fragments, NULL, x);
	p->body = twp_walk_block(&x->w, p->body);
}
