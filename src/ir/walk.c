/* Visiting and rewriting of expressions and statements. Expressions are DAGs: every walker remembers what it has seen. */
#include "ir/ir_int.h"

#include <stdlib.h>

/* a set of pointers that allocates only when it gets big */

void twir_seen_init(struct twir_seen *s)
{
	s->arena = NULL;
	s->n = 0;
	memset(s->small, 0, sizeof(s->small));
}

static void outgrow(struct twir_seen *s)
{
	s->arena = arena_new();
	map_init(&s->big, s->arena);
	for (int i = 0; i < TWIR_SEEN_SLOTS; i++)
		if (s->small[i])
			map_set_ptr(&s->big, s->small[i], s);
}

bool twir_seen_add(struct twir_seen *s, const void *p)
{
	if (!s->arena) {
		uint64_t at = tw_hash_mix(0, (uint64_t)(uintptr_t)p) % TWIR_SEEN_SLOTS;
		for (; s->small[at]; at = (at + 1) % TWIR_SEEN_SLOTS)
			if (s->small[at] == p)
				return false;
		if (s->n < TWIR_SEEN_SLOTS * 3 / 4) {
			s->small[at] = p;
			s->n++;
			return true;
		}
		outgrow(s);
	}
	if (map_get_ptr(&s->big, p))
		return false;
	map_set_ptr(&s->big, p, s);
	return true;
}

void twir_seen_free(struct twir_seen *s)
{
	arena_free(s->arena);
	s->arena = NULL;
}

struct visit {
	void (*visit)(void *arg, const struct twir_expr *e);
	void *arg;
	struct twir_seen seen;
};

static void visit_rec(struct visit *v, const struct twir_expr *e)
{
	if (!twir_seen_add(&v->seen, e))
		return;
	for (int i = 0; i < e->n; i++)
		visit_rec(v, e->arg[i]);
	v->visit(v->arg, e);
}

void twir_visit_expr(const struct twir_expr *e, void (*visit)(void *arg, const struct twir_expr *e), void *arg)
{
	struct visit v = {.visit = visit, .arg = arg};
	twir_seen_init(&v.seen);
	visit_rec(&v, e);
	twir_seen_free(&v.seen);
}

static void visit_parts(const struct twir_stmt *s, void (*visit)(void *arg, const struct twir_expr *e), void *arg)
{
	switch (s->kind) {
	case TWIR_LET:
		visit(arg, s->u.let.value);
		break;
	case TWIR_DECLARE:
		twir_visit_tensor(s->u.declare.tensor, visit, arg);
		break;
	case TWIR_STORE:
		for (int i = 0; i < s->u.store.n; i++)
			visit(arg, s->u.store.index[i]);
		if (s->u.store.mask)
			visit(arg, s->u.store.mask);
		visit(arg, s->u.store.value);
		break;
	case TWIR_FOR:
		visit(arg, s->u.loop.extent);
		break;
	case TWIR_FORMAP:
		twir_visit_map(s->u.formap.map, visit, arg);
		for (int i = 0; s->u.formap.bounds && i < s->u.formap.n; i++)
			visit(arg, s->u.formap.bounds[i]);
		break;
	case TWIR_IF:
	case TWIR_SPECIALISE:
		visit(arg, s->u.branch.cond);
		break;
	case TWIR_PREFETCH:
		for (int i = 0; i < s->u.prefetch.n; i++)
			visit(arg, s->u.prefetch.index[i]);
		break;
	case TWIR_MMA:
		for (int k = 0; k < 3; k++)
			for (int i = 0; i < s->u.mma.part[k].n; i++)
				visit(arg, s->u.mma.part[k].index[i]);
		break;
	case TWIR_INVOKE:
		for (int k = 0; k < s->u.invoke.n; k++)
			for (int i = 0; i < s->u.invoke.args[k].n; i++)
				visit(arg, s->u.invoke.args[k].index[i]);
		for (int k = 0; k < s->u.invoke.nsymbols; k++)
			visit(arg, s->u.invoke.values[k]);
		break;
	case TWIR_BARRIER:
	case TWIR_COMMIT:
	case TWIR_WAIT:
		break;
	}
}

void twir_visit_block(const struct twir_stmt *list, void (*stmt)(void *arg, const struct twir_stmt *s),
		      void (*expr)(void *arg, const struct twir_expr *e), void *arg)
{
	for (const struct twir_stmt *s = list; s; s = s->next) {
		if (stmt)
			stmt(arg, s);
		if (expr)
			visit_parts(s, expr, arg);
		if (s->kind == TWIR_FOR) {
			twir_visit_block(s->u.loop.body, stmt, expr, arg);
		} else if (s->kind == TWIR_FORMAP) {
			twir_visit_block(s->u.formap.body, stmt, expr, arg);
		} else if (s->kind == TWIR_IF || s->kind == TWIR_SPECIALISE) {
			twir_visit_block(s->u.branch.body, stmt, expr, arg);
			twir_visit_block(s->u.branch.other, stmt, expr, arg);
		}
	}
}

struct looking {
	const void *what;
	bool found;
};

static void look_var(void *arg, const struct twir_expr *e)
{
	struct looking *l = arg;
	l->found |= e->kind == TWIR_Var && e->u.var == l->what;
}

bool twir_uses_var(const struct twir_expr *e, const struct twir_var *v)
{
	struct looking l = {v, false};
	twir_visit_expr(e, look_var, &l);
	return l.found;
}

static void look_tensor(void *arg, const struct twir_expr *e)
{
	struct looking *l = arg;
	l->found |= (e->kind == TWIR_Load || e->kind == TWIR_Gather) && e->u.tensor == l->what;
}

bool twir_uses_tensor(const struct twir_expr *e, const struct twir_tensor *t)
{
	struct looking l = {t, false};
	if (e->loads)
		twir_visit_expr(e, look_tensor, &l);
	return l.found;
}

/* rewriting */

void twir_rewriter_init(struct twir_rewriter *r, struct twir_module *m)
{
	*r = (struct twir_rewriter){.m = m};
	map_init(&r->memo, m->scratch);
}

void twir_rewriter_reset(struct twir_rewriter *r)
{
	map_init(&r->memo, r->m->scratch);
}

const struct twir_expr *twir_rewrite_expr(struct twir_rewriter *r, const struct twir_expr *e)
{
	const struct twir_expr *known = map_get_ptr(&r->memo, e);
	if (known)
		return known;
	const struct twir_expr *out = e;
	if (e->n > 0) {
		const struct twir_expr *small[8];
		const struct twir_expr **args =
			e->n <= TW_COUNT(small) ? small : ARENA_ARRAY(r->m->arena, const struct twir_expr *, e->n);
		for (int i = 0; i < e->n; i++)
			args[i] = twir_rewrite_expr(r, e->arg[i]);
		out = twir_with_args(r->m, e, args);
	}
	if (r->expr)
		out = r->expr(r, out);
	TW_CHECK(out != NULL, "a rewriter returned nothing for %s", twir_kind_name((enum twir_kind)e->kind));
	map_set_ptr(&r->memo, e, (void *)out);
	return out;
}

const struct twir_map *twir_rewrite_map(struct twir_rewriter *r, const struct twir_map *map)
{
	struct twir_map f = *map;
	bool changed = false;
	if (f.kind == TWTM_REPEAT || f.kind == TWTM_SPATIAL) {
		for (int i = 0; i < f.rank; i++) {
			f.extent[i] = twir_rewrite_expr(r, map->extent[i]);
			changed |= f.extent[i] != map->extent[i];
		}
	} else {
		f.a = twir_rewrite_map(r, map->a);
		changed |= f.a != map->a;
		if (f.kind == TWTM_COMPOSE) {
			f.b = twir_rewrite_map(r, map->b);
			changed |= f.b != map->b;
		}
	}
	return changed ? arena_copy(r->m->arena, &f, sizeof(f)) : map;
}

static const struct twir_expr **rewrite_all(struct twir_rewriter *r, int n, const struct twir_expr *const *in)
{
	const struct twir_expr **out = ARENA_ARRAY(r->m->arena, const struct twir_expr *, n);
	for (int i = 0; i < n; i++)
		out[i] = twir_rewrite_expr(r, in[i]);
	return out;
}

static void rewrite_parts(struct twir_rewriter *r, struct twir_stmt *s)
{
	switch (s->kind) {
	case TWIR_LET:
		s->u.let.value = twir_rewrite_expr(r, s->u.let.value);
		break;
	case TWIR_STORE:
		s->u.store.index = rewrite_all(r, s->u.store.n, s->u.store.index);
		s->u.store.value = twir_rewrite_expr(r, s->u.store.value);
		if (s->u.store.mask)
			s->u.store.mask = twir_rewrite_expr(r, s->u.store.mask);
		break;
	case TWIR_FOR:
		s->u.loop.extent = twir_rewrite_expr(r, s->u.loop.extent);
		s->u.loop.body = twir_rewrite_block(r, s->u.loop.body);
		break;
	case TWIR_FORMAP:
		s->u.formap.map = twir_rewrite_map(r, s->u.formap.map);
		if (s->u.formap.bounds)
			s->u.formap.bounds = rewrite_all(r, s->u.formap.n, s->u.formap.bounds);
		s->u.formap.body = twir_rewrite_block(r, s->u.formap.body);
		break;
	case TWIR_IF:
	case TWIR_SPECIALISE:
		s->u.branch.cond = twir_rewrite_expr(r, s->u.branch.cond);
		s->u.branch.body = twir_rewrite_block(r, s->u.branch.body);
		s->u.branch.other = twir_rewrite_block(r, s->u.branch.other);
		break;
	case TWIR_PREFETCH:
		s->u.prefetch.index = rewrite_all(r, s->u.prefetch.n, s->u.prefetch.index);
		break;
	case TWIR_MMA:
		for (int k = 0; k < 3; k++)
			s->u.mma.part[k].index = rewrite_all(r, s->u.mma.part[k].n, s->u.mma.part[k].index);
		break;
	case TWIR_INVOKE:
		s->u.invoke.args =
			arena_copy(r->m->arena, s->u.invoke.args, (size_t)s->u.invoke.n * sizeof(s->u.invoke.args[0]));
		for (int k = 0; k < s->u.invoke.n; k++)
			s->u.invoke.args[k].index = rewrite_all(r, s->u.invoke.args[k].n, s->u.invoke.args[k].index);
		s->u.invoke.values = rewrite_all(r, s->u.invoke.nsymbols, s->u.invoke.values);
		break;
	case TWIR_DECLARE:
	case TWIR_BARRIER:
	case TWIR_COMMIT:
	case TWIR_WAIT:
		break;
	}
}

struct twir_stmt *twir_rewrite_block(struct twir_rewriter *r, const struct twir_stmt *list)
{
	struct twir_stmt *out = NULL, **end = &out;
	for (const struct twir_stmt *s = list; s; s = s->next) {
		struct twir_stmt *new = r->stmt ? r->stmt(r, s) : NULL;
		if (new == &r->nothing)
			continue;
		if (!new) {
			new = arena_copy(r->m->arena, s, sizeof(*s));
			new->next = NULL;
			rewrite_parts(r, new);
		}
		*end = new;
		while (*end)
			end = &(*end)->next;
	}
	return out;
}

/* what only a GPU has */

static void find_shuffle(void *arg, const struct twir_expr *e)
{
	const char **found = arg;
	if (e->kind == TWIR_ShflUp || e->kind == TWIR_ShflDown || e->kind == TWIR_ShflXor || e->kind == TWIR_ShflIdx)
		*found = twir_kind_text((enum twir_kind)e->kind);
}

static void find_gpu_expr(void *arg, const struct twir_expr *e)
{
	if (e->loads)
		twir_visit_expr(e, find_shuffle, arg);
}

static void find_gpu_stmt(void *arg, const struct twir_stmt *s)
{
	const char **found = arg;
	if (s->kind == TWIR_MMA)
		*found = "mma";
	else if (s->kind == TWIR_COMMIT)
		*found = "commit";
	else if (s->kind == TWIR_WAIT)
		*found = "wait";
	else if (s->kind == TWIR_STORE && s->u.store.async)
		*found = "copy async";
}

const char *twir_gpu_only(const struct twir_stmt *list)
{
	const char *found = NULL;
	twir_visit_block(list, find_gpu_stmt, find_gpu_expr, &found);
	return found;
}

/* the symbols of a program */

struct symbols {
	struct twir_module *m;
	struct twir_seen seen;
	VEC(struct twir_var *) found;
};

static void find_symbol(void *arg, const struct twir_expr *e)
{
	struct symbols *s = arg;
	if (e->kind == TWIR_Var && e->u.var->kind == TWIR_SYMBOL && twir_seen_add(&s->seen, e))
		vec_push(s->m->arena, &s->found, e->u.var);
}

static void find_symbols(void *arg, const struct twir_expr *e)
{
	twir_visit_expr(e, find_symbol, arg);
}

static int by_id(const void *a, const void *b)
{
	const struct twir_var *const *x = a, *const *y = b;
	return ((*x)->id > (*y)->id) - ((*x)->id < (*y)->id);
}

void twir_program_symbols(struct twir_module *m, struct twir_program *p)
{
	struct symbols s = {.m = m};
	twir_seen_init(&s.seen);
	twir_visit_program(p, find_symbols, &s);
	twir_seen_free(&s.seen);
	if (s.found.n > 1)
		qsort(s.found.at, (size_t)s.found.n, sizeof(s.found.at[0]), by_id);
	p->nsymbols = s.found.n;
	p->symbols = s.found.at;
}
