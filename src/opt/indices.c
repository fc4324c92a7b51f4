/* indices.c: checks of indices that are certainly in range go.
 *
 * Input: definitions, with host operators CheckIndices before what looks elements up. Output: the same, where a check
 * whose indices come of positions and sizes alone (a range, spread and laid side by side) is a definition that hands
 * them on, so that it vanishes and what is looked up is known to the passes that follow. */
#include "ops/guard.h"
#include "opt/opt.h"

typedef const struct twir_expr *E;

enum { MOST_ROUNDS = 12, MOST_COST = 200 /* of an index as one expression */ };

struct checks {
	struct tw_definitions *d;
	struct twir_module *m;
	struct tw_map made_by; /* tensor -> its definition, where that has no fold */
	const struct twir_compute *next;
};

static void see_load(void *arg, E e)
{
	struct checks *x = arg;
	if (e->kind == TWIR_Load && !x->next)
		x->next = map_get_ptr(&x->made_by, e->u.tensor);
}

/* What an element is, in terms of its place, as far as definitions tell. */
static E whole_value(struct checks *x, struct twir_facts *f, E e)
{
	for (int round = 0; round < MOST_ROUNDS && tw_cost(e) < MOST_COST; round++) {
		x->next = NULL;
		twir_visit_expr(e, see_load, x);
		if (!x->next)
			break;
		e = twir_simplify(f, tw_inline(x->m, e, x->next));
	}
	return e;
}

static bool in_range(struct checks *x, struct twir_facts *f, E value, E size)
{
	struct twir_module *m = x->m;
	const E i = twir_simplify(f, twir_cast(m, TWIR_INDEX, value));
	return !i->loads && twir_prove(f, twir_lt(m, i, size)) &&
	       twir_prove(f, twir_le(m, twir_sub(m, twir_index(m, 0), size), i));
}

static bool certain(struct checks *x, const struct tw_node *n, struct twir_compute *c)
{
	const struct tw_tensor *data = &x->d->g->tensors.at[n->in[1]];
	const int64_t axis = tw_attr_int(n, "axis", 0);
	const int last = c->out->rank - 1;
	struct twir_facts f;
	int64_t columns = 1;
	const bool apart = tw_attr_int(n, "columns", 0) != 0;
	twir_facts_init(&f, x->m);
	for (int k = 0; k <= last; k++) {
		const E at = twir_var(x->m, c->axes[k]);
		twir_facts_assume(&f, twir_le(x->m, twir_index(x->m, 0), at));
		twir_facts_assume(&f, twir_lt(x->m, at, c->out->shape[k]));
	}
	const E value = whole_value(x, &f, c->value);
	if (!apart)
		return in_range(x, &f, value, data->shape[axis]);
	if (!twir_const_int(c->out->shape[last], &columns) || axis + columns > data->rank)
		return false;
	for (int64_t k = 0; k < columns; k++) {
		struct twir_subst s;
		twir_subst_init(&s, x->m);
		twir_subst_set(&s, c->axes[last], twir_index(x->m, k));
		if (!in_range(x, &f, twir_subst_expr(&s, value), data->shape[axis + k]))
			return false;
	}
	return true;
}

/* The definition that hands the indices on. */
static struct twir_compute *hand_on(struct checks *x, const struct tw_node *n)
{
	struct tw_graph *g = x->d->g;
	struct twir_compute *c = ARENA_NEW(g->arena, struct twir_compute);
	E at[TWIR_MAX_RANK];
	c->out = tw_graph_ir(g, n->out[0]);
	c->axes = ARENA_ARRAY(g->arena, struct twir_var *, c->out->rank);
	c->origin = n->name;
	for (int k = 0; k < c->out->rank; k++) {
		c->axes[k] = twir_var_new(x->m, TWIR_AXIS, twir_scalar_type(TWIR_INDEX), "i");
		c->axes[k]->lo = 0;
		at[k] = twir_var(x->m, c->axes[k]);
	}
	c->value = twir_load(x->m, tw_graph_ir(g, n->in[0]), c->out->rank, at);
	return c;
}

void opt_drop_checks(struct tw_definitions *d)
{
	struct checks x = {.d = d, .m = d->g->m};
	map_init(&x.made_by, d->g->arena);
	for (int i = 0; i < d->list.n; i++) {
		struct tw_definition *e = &d->list.at[i];
		if (!e->compute && !e->mark && tw_is_guard(&d->g->nodes.at[e->node])) {
			struct twir_compute *c = hand_on(&x, &d->g->nodes.at[e->node]);
			e->compute = certain(&x, &d->g->nodes.at[e->node], c) ? c : NULL;
		}
		if (e->compute && !e->compute->nprograms && !tw_has_fold(e->compute->value))
			map_set_ptr(&x.made_by, e->compute->out, e->compute);
	}
}
