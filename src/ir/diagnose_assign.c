/* diagnose_assign: local tensors (shared, register) are stored before they are read. Proved where a store before the
 * load, in a statement that always runs first, reaches every element that the load can ask for, or where the load runs
 * through the same loops with the same indices as the store did; rings of buffers are diagnose_ring.c's. */
#include "ir/diagnose_int.h"

/* The store's frames and indices in the variables of the load's. */
struct alike {
	struct twird *d;
	struct twir_facts plain; /* for canonical forms */
	struct twir_subst put;
	const struct twird_frame *common;
};

static bool is_same(struct alike *x, const struct twir_expr *of_store, const struct twir_expr *of_load)
{
	return of_store == of_load ||
	       twir_simplify(&x->plain, twir_subst_expr(&x->put, of_store)) == twir_simplify(&x->plain, of_load);
}

static bool guarded_alike(struct alike *x, const struct twir_expr *cond, const struct twird_frame *load)
{
	for (; load != x->common; load = load->outer)
		if (load->cond && is_same(x, cond, load->cond))
			return true;
	return false;
}

static bool frame_alike(struct alike *x, const struct twird_frame *a, const struct twird_frame *b)
{
	if (a->n != b->n || a->kind != b->kind || a->levels != b->levels)
		return false;
	if (a->kind == TWIRD_TASKS && a->levels && !twird_same_map(a->stmt->u.formap.map, b->stmt->u.formap.map))
		return false;
	for (int k = 0; k < a->n; k++)
		if (!is_same(x, a->extent[k], b->extent[k]) ||
		    (a->bound[k] && (!b->bound[k] || !is_same(x, a->bound[k], b->bound[k]))))
			return false;
	for (int k = 0; k < a->n; k++)
		twir_subst_set(&x->put, a->vars[k], twir_var(x->d->m, b->vars[k]));
	return true;
}

bool twird_same_map(const struct twir_map *a, const struct twir_map *b)
{
	if (a == b)
		return true;
	if (a->kind != b->kind || a->rank != b->rank || a->projected != b->projected)
		return false;
	if (a->kind == TWTM_COMPOSE)
		return twird_same_map(a->a, b->a) && twird_same_map(a->b, b->b);
	if (a->kind == TWTM_PROJECT)
		return twird_same_map(a->a, b->a);
	for (int k = 0; k < a->rank; k++)
		if (a->extent[k] != b->extent[k] || a->order[k] != b->order[k])
			return false;
	return true;
}

/* Do both run through the same loops below their common one, the load under the store's conditions at least? Then the
 * dimensions in which they ask for the same element get a bit in *same. */
bool twird_alike(struct twird *d, const struct twird_event *store, const struct twird_event *load,
		 const struct twird_frame *common, unsigned *same)
{
	const struct twird_frame *s[TWIRD_BINDERS], *l[TWIRD_BINDERS];
	struct alike x = {.d = d, .common = common};
	int ns = 0, nl = 0;
	*same = 0;
	twir_facts_init(&x.plain, d->m);
	twir_subst_init(&x.put, d->m);
	for (const struct twird_frame *f = store->frame; f != common; f = f->outer) {
		if (ns == TWIRD_BINDERS)
			return false;
		s[ns++] = f;
	}
	for (const struct twird_frame *f = load->frame; f != common; f = f->outer) {
		if (nl == TWIRD_BINDERS)
			return false;
		if (f->kind != TWIRD_GUARD)
			l[nl++] = f;
	}
	while (ns-- > 0) {
		if (s[ns]->kind == TWIRD_GUARD ? !guarded_alike(&x, s[ns]->cond, load->frame)
					       : nl == 0 || !frame_alike(&x, s[ns], l[--nl]))
			return false;
	}
	for (int k = 0; k < store->n && store->n == load->n; k++)
		if (is_same(&x, store->index[k], load->index[k]))
			*same |= 1u << k;
	return true;
}

bool twird_assigned_by(struct twird *d, const struct twird_event *store, const struct twird_event *load)
{
	const struct twird_frame *common = twird_common(store->frame, load->frame);
	struct twird_binders b;
	unsigned same;
	if (store->masked || store->n != load->n)
		return false;
	if (twird_alike(d, store, load, common, &same) && store->lanes == load->lanes && same == (1u << store->n) - 1)
		return true;
	same = 0; /* dimensions that speak of what is common to both */
	/* what is shared may be stored by any of the workers */
	const unsigned any = 1u << TWIR_THREAD | 1u << TWIR_WARP | 1u << TWIR_LANE;
	twird_bind(d, store, common, d->gpu && store->tensor->scope == TWIR_SHARED ? any : 0, &b);
	for (int k = 0; k < store->n; k++) {
		bool own = store->index[k] != load->index[k];
		for (int i = 0; i < b.n && !own; i++)
			own = twir_uses_var(store->index[k], b.at[i].var);
		same |= own ? 0 : 1u << k;
	}
	return twird_covers(d, store, &b, load, same);
}

static void check_load(struct twird *d, int at, int declared)
{
	const struct twird_event *load = &d->events.at[at];
	const struct twird_frame *home = d->events.at[declared].frame; /* of the declaration */
	bool any = false;
	for (int i = declared + 1; i < d->events.n; i++) {
		const struct twird_event *store = &d->events.at[i];
		if (store->kind != TWIRD_STORE || store->tensor != load->tensor)
			continue;
		if (i < at && twird_assigned_by(d, store, load))
			return;
		/* a store further down comes before the load in the next turn of a loop around both */
		bool again = i < at;
		for (const struct twird_frame *f = twird_common(store->frame, load->frame); f && f != home && !again;
		     f = f->outer)
			again = f->kind != TWIRD_GUARD;
		any |= again;
	}
	if (any && twird_ring(d, at, declared))
		return;
	if (!any)
		twird_say(d, TWIR_ERROR, load->stmt, "store to the tensor first",
			  "%s is read before anything is stored to %s", twird_access(d, load), load->tensor->base);
	else
		twird_say(d, TWIR_UNPROVED, load->stmt,
			  "a store before it, in the same loops or to the whole tensor, is proved by itself",
			  "is %s stored before it is read?", twird_access(d, load));
}

void twird_assign(struct twird *d)
{
	for (int i = 0; i < d->events.n; i++) {
		const struct twird_event *e = &d->events.at[i];
		const int declared = e->kind == TWIRD_LOAD ? twird_declared(d, e->tensor) : -1;
		if (declared >= 0)
			check_load(d, i, declared);
	}
}
