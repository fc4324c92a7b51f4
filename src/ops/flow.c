/* flow.c: loops and branches among definitions, see flow.h. */
#include "ops/flow.h"

struct tw_flow *tw_flow_new(struct tw_graph *g, const char *name)
{
	struct tw_flow *f = ARENA_NEW(g->arena, struct tw_flow);
	f->name = name;
	return f;
}

void tw_flow_number(struct tw_opctx *x, struct tw_flow *f, const struct twir_expr *trips)
{
	struct twir_module *m = x->m;
	f->trips = tw_simplify(x, trips);
	f->number = twir_var_new(m, TWIR_SYMBOL, twir_scalar_type(TWIR_INDEX),
				 arena_printf(x->g->arena, "%s.number.%d", f->name, m->symbols.n));
	struct twir_facts facts;
	twir_facts_init(&facts, m);
	const int64_t most = twir_range_of(&facts, f->trips).hi;
	f->number->hi = most > 0 && most < INT64_MAX ? most - 1 : INT64_MAX;
	const struct twir_expr *last = twir_max(m, twir_sub(m, f->trips, twir_index(m, 1)), twir_index(m, 0));
	const struct tw_decided d = {.symbol = f->number, .most = tw_simplify(x, last)};
	vec_push(x->g->arena, &x->g->decided, d);
}

struct tw_flow *tw_flow_of(const struct tw_graph *g, tw_id token)
{
	for (int i = 0; i < g->flows.n; i++)
		if (g->flows.at[i]->token == token)
			return g->flows.at[i];
	return NULL;
}

void tw_flow_mark(struct tw_opctx *x, enum tw_mark_kind kind, struct tw_flow *f)
{
	const struct tw_mark mark = {x->computes.n, kind, f};
	vec_push(x->arena, &x->marks, mark);
}

struct twir_tensor *tw_copy_of(struct tw_opctx *x, struct twir_tensor *t, const char *name)
{
	const struct twir_expr **at;
	struct twir_tensor *copy = tw_temp(x, name, t->type, t->rank, t->shape);
	struct twir_var **axes = tw_axes(x, copy, &at);
	tw_define(x, copy, axes, tw_load(x, t, t->rank, at));
	return copy;
}
