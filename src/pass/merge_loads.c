/* merge_loads: loads of memory that two statements of a run repeat, with no store to the tensor between, become a let
 * before the first. Part of unroll_registers. A run is a stretch of lets, declarations, stores and prefetches: what a loop or
 * branch may store is never looked through. Only loads that the first statement surely makes are bound; inside lazy
 * conditionals they are replaced when bound already. */
#include "pass/pass_int.h"

struct load { /* a load as of one epoch of its tensor */
	int statements;
	struct twir_var *var;
};

struct merge {
	struct twir_module *m;
	struct tw_map epochs; /* tensor -> number of stores seen, biased by 1 */
	struct tw_map loads;  /* load mixed with epoch -> struct load */
	struct tw_map seen;   /* of the statement at hand */
};

static intptr_t epoch(const struct merge *x, const struct twir_tensor *t)
{
	return (intptr_t)map_get_ptr(&x->epochs, t);
}

static struct load *lookup(struct merge *x, const struct twir_expr *e)
{
	const uint64_t key = tw_hash_mix((uint64_t)(uintptr_t)e, (uint64_t)epoch(x, e->u.tensor));
	struct load *l = map_get(&x->loads, key);
	if (!l) {
		l = ARENA_NEW(x->m->arena, struct load);
		map_set(&x->loads, key, l);
	}
	return l;
}

static bool is_load(const struct twir_expr *e)
{
	return (e->kind == TWIR_Load || e->kind == TWIR_Gather) && e->u.tensor->scope != TWIR_REGISTER;
}

static bool nested_load(const struct twir_expr *e)
{
	for (int i = 0; i < e->n; i++)
		if (e->arg[i]->loads)
			return true;
	return false;
}

static void count(struct merge *x, const struct twir_expr *e)
{
	if (!e->loads || map_get_ptr(&x->seen, e))
		return;
	map_set_ptr(&x->seen, e, x);
	/* A load whose index is loaded depends on two tensors' epochs: it is left alone, its inner loads are not. */
	if (is_load(e) && !nested_load(e))
		lookup(x, e)->statements++;
	for (int i = 0; i < (e->kind == TWIR_Cond ? 1 : e->n); i++)
		count(x, e->arg[i]);
}

/* Where a load stands in the statement: surely evaluated, so that it may be bound, or not. */
static const struct twir_expr *replace(struct merge *x, const struct twir_expr *e, bool sure, struct twp_list *out)
{
	const struct twir_expr *arg[64];
	if (!e->loads)
		return e;
	if (is_load(e) && !nested_load(e)) {
		struct load *l = lookup(x, e);
		if (!l->var && sure && l->statements > 1) {
			l->var = twir_var_new(x->m, TWIR_BOUND, e->type, e->u.tensor->base);
			twp_list_add(out, twir_let(x->m, l->var, e));
		}
		return l->var ? twir_var(x->m, l->var) : e;
	}
	const struct twir_expr *done = sure ? map_get_ptr(&x->seen, e) : NULL;
	if (done)
		return done;
	TW_CHECK(e->n <= TW_COUNT(arg));
	for (int i = 0; i < e->n; i++)
		arg[i] = replace(x, e->arg[i], sure && !(e->kind == TWIR_Cond && i > 0), out);
	done = twir_with_args(x->m, e, arg);
	if (sure)
		map_set_ptr(&x->seen, e, (void *)done);
	return done;
}

static void stored(struct merge *x, const struct twir_stmt *s)
{
	if (s->kind != TWIR_STORE)
		return;
	const struct twir_tensor *t = s->u.store.tensor;
	map_set_ptr(&x->epochs, t, (void *)(epoch(x, t) + 1));
	if (t->alias)
		map_set_ptr(&x->epochs, t->alias, (void *)(epoch(x, t->alias) + 1));
}

static bool simple(const struct twir_stmt *s)
{
	return s && (s->kind == TWIR_LET || (s->kind == TWIR_STORE && !s->u.store.async) || s->kind == TWIR_DECLARE ||
		     s->kind == TWIR_PREFETCH);
}

static void run_reset(struct merge *x)
{
	map_init(&x->epochs, x->m->scratch);
	map_init(&x->seen, x->m->scratch);
}

/* Statements from s to end (excluded), twice: counting, then replacing. */
static void run(struct merge *x, const struct twir_stmt *s, const struct twir_stmt *end, struct twp_list *out)
{
	struct twir_module *m = x->m;
	map_init(&x->loads, m->scratch);
	run_reset(x);
	for (const struct twir_stmt *a = s; a != end; a = a->next) {
		map_init(&x->seen, m->scratch);
		if (a->kind == TWIR_LET)
			count(x, a->u.let.value);
		if (a->kind == TWIR_STORE) {
			for (int i = 0; i < a->u.store.n; i++)
				count(x, a->u.store.index[i]);
			count(x, a->u.store.value);
			if (a->u.store.mask)
				count(x, a->u.store.mask);
		}
		stored(x, a);
	}
	run_reset(x);
	for (const struct twir_stmt *a = s; a != end; a = a->next) {
		struct twir_stmt *c = twp_copy(m, a);
		map_init(&x->seen, m->scratch);
		if (a->kind == TWIR_LET) {
			const struct twir_expr *e = a->u.let.value;
			struct load *l = is_load(e) && !nested_load(e) ? lookup(x, e) : NULL;
			if (l && !l->var)
				l->var = a->u.let.var; /* the text has named it */
			else
				c->u.let.value = replace(x, e, true, out);
		}
		if (a->kind == TWIR_STORE) {
			c->u.store.index = ARENA_ARRAY(m->arena, const struct twir_expr *, a->u.store.n);
			for (int i = 0; i < a->u.store.n; i++)
				c->u.store.index[i] = replace(x, a->u.store.index[i], true, out);
			c->u.store.value = replace(x, a->u.store.value, true, out);
			if (a->u.store.mask)
				c->u.store.mask = replace(x, a->u.store.mask, true, out);
		}
		twp_list_add(out, c);
		stored(x, a);
	}
}

struct twir_stmt *twp_merge_loads(struct twir_module *m, const struct twir_stmt *list)
{
	struct twp_list out;
	twp_list_init(&out);
	while (list) {
		const struct twir_stmt *end = list;
		while (simple(end))
			end = end->next;
		if (end != list) {
			struct merge x = {.m = m};
			run(&x, list, end, &out);
			list = end;
			continue;
		}
		struct twir_stmt *c = twp_copy(m, list);
		if (c->kind == TWIR_FOR) {
			c->u.loop.body = twp_merge_loads(m, c->u.loop.body);
		} else if (c->kind == TWIR_IF) {
			c->u.branch.body = twp_merge_loads(m, c->u.branch.body);
			c->u.branch.other = twp_merge_loads(m, c->u.branch.other);
		}
		twp_list_add(&out, c);
		list = list->next;
	}
	return out.head;
}
