/* What the schedules of a nest share: how much of it one core item does, the loop over core items, the step of a fold. */
#include "sched/nest.h"

#define ITEM_WORK 16384 /* operations a core item should be worth: some microseconds, far above the 0.3 us of a fork */

enum { MIDDLING = 224 }; /* what a symbol is taken for, mostly the side of a picture */

static const enum twir_level CORE[] = {TWIR_CORE};

void tw_choose_blocks(struct twir_module *m, int naxes, const struct twir_expr *const *extent, int64_t work,
		      int64_t *block)
{
	int64_t left = work > ITEM_WORK ? 1 : ITEM_WORK / (work > 0 ? work : 1);
	for (int i = naxes - 1; i >= 0; i--) {
		const int64_t size = tw_size_about(m, extent[i], MIDDLING);
		block[i] = left < 1 ? 1 : tw_least(left, size);
		left /= block[i];
	}
}

static int64_t bounded_cost(const struct twir_expr *e)
{
	const int cost = tw_cost(e);
	return cost < 1 ? 1 : cost > 64 ? 64 : cost;
}

static void see_fold(void *arg, const struct twir_expr *e)
{
	int64_t *most = arg, work = 1;
	if (e->kind != TWIR_Fold)
		return;
	for (int i = 1; i < e->n; i++) {
		int64_t size = 64;
		twir_const_int(e->arg[i], &size);
		work *= size < 1 ? 1 : size > 1 << 20 ? 1 << 20 : size;
		if (work > 1 << 24)
			work = 1 << 24;
	}
	work *= bounded_cost(e);
	*most = work > *most ? work : *most;
}

/* Operations for one element: of the largest fold, by its constant extents (symbols count 64), or of the rest. */
int64_t tw_fold_work(const struct twir_expr *value)
{
	int64_t work = bounded_cost(value);
	twir_visit_expr(value, see_fold, &work);
	return work;
}

/* for (vars) in spatial(ceil_div(e, b)..) * repeat(b..) on core within (e..) { body }  and the number of core items */
struct twir_stmt *tw_core_loop(struct twir_module *m, int n, struct twir_var *const *vars,
			       const struct twir_expr *const *extent, const int64_t *block, struct twir_stmt *body,
			       const struct twir_expr **cores)
{
	const struct twir_expr *outer[TWIR_MAX_RANK], *inner[TWIR_MAX_RANK];
	*cores = twir_index(m, 1);
	for (int i = 0; i < n; i++) {
		inner[i] = twir_index(m, block[i]);
		outer[i] = twir_ceildiv(m, extent[i], inner[i]);
		*cores = twir_mul(m, *cores, outer[i]);
	}
	const struct twir_map *map = twir_compose(m, twir_spatial(m, n, outer), twir_repeat(m, n, inner, NULL));
	return tw_formap(m, n, vars, map, 1, CORE, extent, body);
}

/* op(acc, body); a product is added by fma where the machine has one */
const struct twir_expr *tw_combine(struct twir_module *m, const struct tw_target *t, enum twir_kind op,
				   const struct twir_expr *acc, const struct twir_expr *body)
{
	if (op == TWIR_Add && body->kind == TWIR_Mul && t->has_fma && twir_is_float(body->type.scalar))
		return twir_fma(m, body->arg[0], body->arg[1], acc);
	return twir_binary(m, op, acc, body);
}

struct swap {
	const struct twir_expr *from, *to;
};

static const struct twir_expr *swap_expr(struct twir_rewriter *r, const struct twir_expr *e)
{
	const struct swap *s = r->user;
	return e == s->from ? s->to : e;
}

const struct twir_expr *tw_swapped(struct twir_module *m, const struct twir_expr *e, const struct twir_expr *from,
				   const struct twir_expr *to)
{
	struct swap s = {from, to};
	struct twir_rewriter r;
	twir_rewriter_init(&r, m);
	r.user = &s;
	r.expr = swap_expr;
	return twir_rewrite_expr(&r, e);
}
