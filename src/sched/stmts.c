/* Short builders for statements and programs; templates are written with them. */
#include "sched/sched.h"

struct twir_stmt *tw_formap(struct twir_module *m, int n, struct twir_var *const *vars, const struct twir_map *map,
			    int nlevels, const enum twir_level *levels, const struct twir_expr *const *bounds,
			    struct twir_stmt *body)
{
	struct twir_stmt *s = twir_stmt_new(m, TWIR_FORMAP);
	s->u.formap.n = n;
	s->u.formap.vars = arena_copy(m->arena, vars, sizeof(*vars) * (size_t)n);
	s->u.formap.map = map;
	s->u.formap.nlevels = nlevels;
	for (int i = 0; i < nlevels; i++)
		s->u.formap.levels[i] = levels[i];
	if (bounds)
		s->u.formap.bounds = arena_copy(m->arena, bounds, sizeof(*bounds) * (size_t)n);
	s->u.formap.body = body;
	return s;
}

struct twir_stmt *tw_for(struct twir_module *m, struct twir_var *v, const struct twir_expr *extent,
			 struct twir_stmt *body)
{
	struct twir_stmt *s = twir_stmt_new(m, TWIR_FOR);
	s->u.loop.var = v;
	s->u.loop.extent = extent;
	s->u.loop.body = body;
	return s;
}

struct twir_stmt *tw_declare(struct twir_module *m, struct twir_tensor *t)
{
	struct twir_stmt *s = twir_stmt_new(m, TWIR_DECLARE);
	s->u.declare.tensor = t;
	return s;
}

struct twir_var *tw_loop_var(struct twir_module *m, const char *name)
{
	return twir_var_new(m, TWIR_LOOP, twir_scalar_type(TWIR_INDEX), name);
}

struct twir_stmt *tw_let_new(struct twir_module *m, const char *name, const struct twir_expr *value,
			     const struct twir_expr **var)
{
	struct twir_var *v = twir_var_new(m, TWIR_BOUND, value->type, name);
	*var = twir_var(m, v);
	return twir_let(m, v, value);
}

struct twir_program *tw_program_new(struct twir_module *m, const char *name, const struct twir_expr *cores, int lanes,
				    struct twir_stmt *body)
{
	struct twir_program *p = ARENA_NEW(m->arena, struct twir_program);
	p->name = arena_strdup(m->arena, name);
	p->nlevels = 2;
	p->levels[0] = TWIR_CORE;
	p->levels[1] = TWIR_LANE;
	p->extents[0] = cores;
	p->extents[1] = twir_index(m, lanes);
	p->body = body;
	return p;
}
