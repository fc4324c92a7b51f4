/* diagnose_once: each element of an output is stored exactly once. Proved where one store statement (or the same store on
 * both sides of an if) reaches every element by exactly one combination of worker and turns. */
#include "ir/diagnose_int.h"

#define STORES 64 /* of one tensor: more were written by a machine */

static bool same_element(const struct twird_event *a, const struct twird_event *b)
{
	bool same = a->n == b->n && a->lanes == b->lanes && a->masked == b->masked;
	for (int k = 0; k < a->n && same; k++)
		same = a->index[k] == b->index[k];
	return same;
}

/* Two stores to one element on the two sides of an if are one store. */
static bool join(struct twird *d, struct twird_event *a, const struct twird_event *b)
{
	const struct twird_frame *x = a->frame, *y = b->frame;
	if (!x || !y || x->kind != TWIRD_GUARD || y->kind != TWIRD_GUARD || x->stmt != y->stmt || x->outer != y->outer)
		return false;
	if (!same_element(a, b) || x->cond != twirs_negate(d->m, y->cond))
		return false;
	a->frame = x->outer;
	return true;
}

static const char *unused_binder(struct twird *d, const struct twird_event *e, const struct twird_binders *b)
{
	struct twir_facts f;
	twir_facts_init(&f, d->m);
	twird_enter(&f, e->frame);
	for (int i = 0; i < b->n; i++) {
		bool used = twir_prove(&f, twir_le(d->m, b->at[i].extent, twir_index(d->m, 1)));
		for (int k = 0; k < e->n && !used; k++)
			used = twir_uses_var(e->index[k], b->at[i].var);
		if (!used && e->lanes == 1)
			return b->at[i].var->base;
	}
	return NULL;
}

static void check_output(struct twird *d, struct twir_tensor *t)
{
	static const char hint[] = "one store whose indices are the variables of the mapping is proved by itself";
	struct twird_event stores[STORES];
	int n = 0;
	for (int i = 0; i < d->events.n; i++) {
		if (d->events.at[i].kind != TWIRD_STORE || d->events.at[i].tensor != t)
			continue;
		if (n == STORES)
			break;
		stores[n++] = d->events.at[i];
	}
	if (n == 0) {
		twird_unsay(d, NULL);
		if (d->list.n) /* a run found it, at a store that has no turns */
			return;
		twird_say(d, TWIR_ERROR, NULL, "every element of an output is stored once",
			  "output %s is never stored to", t->base);
		return;
	}
	while (n > 1 && join(d, &stores[n - 2], &stores[n - 1]))
		n--;
	if (n > 1)
		return twird_say(d, TWIR_UNPROVED, stores[1].stmt, hint,
				 "is each element of %s stored once? It has %d stores, the first on line %d", t->base,
				 n, stores[0].stmt->line);
	struct twird_binders b;
	const struct twird_event *e = &stores[0];
	twird_bind(d, e, NULL, ~0u, &b);
	if (!e->masked && twird_injective(d, e, &b, (1u << e->n) - 1) && twird_covers(d, e, &b, NULL, 0))
		return;
	const char *unused = unused_binder(d, e, &b);
	if (unused)
		twird_say(d, TWIR_UNPROVED, e->stmt, hint,
			  "is each element of %s stored once? %s is in no index of %s, so each of its turns may store "
			  "again",
			  t->base, unused, twird_access(d, e));
	else
		twird_say(d, TWIR_UNPROVED, e->stmt, hint, "is each element of %s stored once?", t->base);
}

void twird_once(struct twird *d)
{
	for (int i = 0; i < d->p->nparams; i++)
		if (d->p->params[i]->scope == TWIR_OUT)
			check_output(d, d->p->params[i]);
}
