/* diagnose_ring: what one turn of a loop stores and a later one reads, in a tensor with a part for each turn under
 * way: T[(s + q) % D] is stored in turn s, T[s % D] read. Input: a load that no store before it is known to reach.
 * Proved where the store reaches all of its part, wherever a later turn reads it, and the parts of the first q turns
 * are stored before the loop. */
#include "ir/diagnose_int.h"

/* The one loop around both whose turn is x. */
static const struct twird_frame *loop_of(const struct twird_frame *f, const struct twir_expr *x)
{
	for (; f; f = f->outer)
		if (f->kind == TWIRD_LOOP && x->kind == TWIR_Var && x->u.var == f->vars[0])
			return f;
	return NULL;
}

static bool speaks_of(const struct twir_expr *e, const struct twir_var *v)
{
	return e && twir_uses_var(e, v);
}

/* The turn s - q stores all of part s % D that the load of turn s asks for. */
static bool stored_ahead(struct twird *d, const struct twird_event *store, const struct twird_event *load,
			 const struct twird_frame *loop, int part, int64_t q)
{
	struct twir_module *m = d->m;
	const struct twir_var *s = loop->vars[0];
	const unsigned any = 1u << TWIR_THREAD | 1u << TWIR_WARP | 1u << TWIR_LANE;
	unsigned same = 1u << part;
	struct twird_binders b;
	struct twir_facts f;
	twird_bind(d, store, loop, d->gpu && store->tensor->scope == TWIR_SHARED ? any : 0, &b);
	twir_facts_init(&f, m);
	twird_launch(d, &f);
	twird_enter(&f, loop); /* and there is a turn that reads it */
	twirs_assume(&f, twir_lt(m, twir_add(m, twir_var(m, loop->vars[0]), twir_index(m, q)), loop->extent[0]), true);
	for (int i = 0; i < b.nguards;) {
		if (twir_prove(&f, b.guards[i]))
			b.guards[i] = b.guards[--b.nguards];
		else if (twir_uses_var(b.guards[i++], s))
			return false;
	}
	for (int i = 0; i < b.n; i++)
		if (speaks_of(b.at[i].extent, s))
			return false;
	for (int k = 0; k < store->n; k++) {
		bool own = store->index[k] != load->index[k];
		if (k != part && (speaks_of(store->index[k], s) || speaks_of(load->index[k], s)))
			return false;
		for (int i = 0; i < b.n && !own; i++)
			own = twir_uses_var(store->index[k], b.at[i].var);
		same |= own ? 0 : 1u << k;
	}
	for (int i = 0; i < b.n; i++)
		if (twir_uses_var(store->index[part], b.at[i].var))
			return false;
	return twird_covers(d, store, &b, load, same);
}

/* In the first q turns the part's number is the turn's. */
static bool stored_before(struct twird *d, int at, int declared, const struct twird_frame *loop, int part, int64_t q)
{
	const struct twird_event *load = &d->events.at[at];
	const struct twir_expr *turn = twir_var(d->m, loop->vars[0]);
	struct twird_event early = *load;
	struct twird_frame first = {.outer = load->frame,
				    .depth = load->frame->depth + 1,
				    .kind = TWIRD_GUARD,
				    .stmt = load->stmt,
				    .cond = twir_lt(d->m, turn, twir_index(d->m, q))};
	early.frame = &first;
	early.index[part] = turn;
	for (int i = declared + 1; i < at; i++) {
		const struct twird_event *store = &d->events.at[i];
		if (store->kind == TWIRD_STORE && store->tensor == load->tensor && !twird_inside(store->frame, loop) &&
		    twird_assigned_by(d, store, &early))
			return true;
	}
	return false;
}

bool twird_ring(struct twird *d, int at, int declared)
{
	const struct twird_event *load = &d->events.at[at];
	const struct twird_frame *home = d->events.at[declared].frame;
	for (int i = declared + 1; i < d->events.n; i++) {
		const struct twird_event *store = &d->events.at[i];
		if (store->kind != TWIRD_STORE || store->tensor != load->tensor || store->n != load->n ||
		    store->masked || store->scattered)
			continue;
		for (int k = 0; k < load->n; k++) {
			const struct twir_expr *x = load->index[k], *y = store->index[k];
			int64_t parts, q;
			struct twir_facts f;
			twir_facts_init(&f, d->m);
			if (x->kind != TWIR_Mod || y->kind != TWIR_Mod || x->arg[1] != y->arg[1] ||
			    !twir_const_int(x->arg[1], &parts))
				continue;
			const struct twir_expr *ahead = twir_sub(d->m, y->arg[0], x->arg[0]);
			const struct twird_frame *common = twird_common(store->frame, load->frame);
			const struct twird_frame *loop = loop_of(common, x->arg[0]);
			if (!loop || loop != common || !twird_inside(loop, home) || loop == home ||
			    !twir_const_int(twir_simplify(&f, ahead), &q) || q < 1 || q > parts)
				continue;
			if (stored_ahead(d, store, load, loop, k, q) && stored_before(d, at, declared, loop, k, q))
				return true;
		}
	}
	return false;
}
