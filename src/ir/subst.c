/* Substitution of variables. A fold that changes gets fresh axes, a block that is copied gets fresh binders and local
 * tensors, so no object is ever bound twice and nothing is captured. */
#include "ir/ir_int.h"

void twir_subst_init(struct twir_subst *s, struct twir_module *m)
{
	s->m = m;
	map_init(&s->map, m->scratch);
}

void twir_subst_set(struct twir_subst *s, struct twir_var *v, const struct twir_expr *e)
{
	TW_CHECK(twir_type_eq(v->type, e->type), "%s is replaced by a value of another type", v->name);
	map_set_ptr(&s->map, v, (void *)e);
}

struct run { /* one use of a substitution: the memo is good as long as the map does not change */
	struct twir_module *m;
	const struct tw_map *map; /* var -> expr, tensor -> tensor */
	struct tw_map memo;
};

static const struct twir_expr *subst(struct run *r, const struct twir_expr *e);

/* The same load of another tensor. */
static const struct twir_expr *of_tensor(struct run *r, const struct twir_expr *e, struct twir_tensor *t)
{
	if (t == e->u.tensor)
		return e;
	return twir_intern(r->m, &(struct twir_key){.kind = (enum twir_kind)e->kind,
						    .type = e->type,
						    .n = e->n,
						    .nidx = e->nidx,
						    .args = e->arg,
						    .ptr = t});
}

static const struct twir_expr *fold_with_fresh_axes(struct run *r, const struct twir_expr *e)
{
	const int n = e->n - 1;
	struct twir_var **axes = ARENA_ARRAY(r->m->arena, struct twir_var *, n);
	struct tw_map fresh;
	map_init(&fresh, r->m->scratch);
	for (int i = 0; i < n; i++) {
		axes[i] = twir_var_new(r->m, TWIR_AXIS, e->u.axes[i]->type, e->u.axes[i]->base);
		axes[i]->lo = e->u.axes[i]->lo;
		axes[i]->hi = e->u.axes[i]->hi;
		axes[i]->multiple = e->u.axes[i]->multiple;
		map_set_ptr(&fresh, e->u.axes[i], (void *)twir_var(r->m, axes[i]));
	}
	struct run inner = {.m = r->m, .map = &fresh};
	map_init(&inner.memo, r->m->scratch);
	return twir_fold(r->m, (enum twir_kind)e->op, n, axes, e->arg + 1, subst(&inner, e->arg[0]));
}

static const struct twir_expr *subst(struct run *r, const struct twir_expr *e)
{
	const struct twir_expr *out = map_get_ptr(&r->memo, e);
	if (out)
		return out;
	out = e;
	if (e->kind == TWIR_Var) {
		const struct twir_expr *to = map_get_ptr(r->map, e->u.var);
		out = to ? to : e;
	}
	if (e->n > 0) {
		const struct twir_expr *small[8];
		const struct twir_expr **args =
			e->n <= TW_COUNT(small) ? small : ARENA_ARRAY(r->m->arena, const struct twir_expr *, e->n);
		for (int i = 0; i < e->n; i++)
			args[i] = subst(r, e->arg[i]);
		out = twir_with_args(r->m, e, args);
	}
	if (e->kind == TWIR_Fold && out != e && out->kind == TWIR_Fold)
		out = fold_with_fresh_axes(r, out);
	if (out->kind == e->kind && (e->kind == TWIR_Load || e->kind == TWIR_Gather)) {
		struct twir_tensor *t = map_get_ptr(r->map, e->u.tensor);
		if (t)
			out = of_tensor(r, out, t);
	}
	map_set_ptr(&r->memo, e, (void *)out);
	return out;
}

const struct twir_expr *twir_subst_expr(struct twir_subst *s, const struct twir_expr *e)
{
	struct run r = {.m = s->m, .map = &s->map};
	map_init(&r.memo, s->m->scratch);
	return subst(&r, e);
}

/* Copies of blocks. Binders that the copy makes live in a map of its own: the caller's substitution stays as it was. */

static void fresh_var(struct run *r, struct tw_map *map, struct twir_var **v)
{
	const struct twir_var *old = *v;
	struct twir_var *new = twir_var_new(r->m, old->kind, old->type, old->base);
	new->lo = old->lo;
	new->hi = old->hi;
	new->multiple = old->multiple;
	map_set_ptr(map, old, (void *)twir_var(r->m, new));
	*v = new;
}

static const struct twir_map *copy_map(struct run *r, const struct twir_map *map)
{
	struct twir_map *f = arena_copy(r->m->arena, map, sizeof(*map));
	if (f->kind == TWTM_REPEAT || f->kind == TWTM_SPATIAL) {
		for (int i = 0; i < f->rank; i++)
			f->extent[i] = subst(r, map->extent[i]);
	} else {
		f->a = copy_map(r, map->a);
		f->b = map->b ? copy_map(r, map->b) : NULL;
	}
	return f;
}

static const struct twir_layout *copy_layout(struct run *r, const struct twir_layout *l)
{
	if (!l)
		return NULL;
	struct twir_layout *out = arena_copy(r->m->arena, l, sizeof(*l));
	for (int i = 0; i < l->rank; i++)
		out->extent[i] = subst(r, l->extent[i]);
	out->inner = copy_layout(r, l->inner);
	return out;
}

static const struct twir_expr **subst_all(struct run *r, int n, const struct twir_expr *const *in)
{
	const struct twir_expr **out = ARENA_ARRAY(r->m->arena, const struct twir_expr *, n);
	for (int i = 0; i < n; i++)
		out[i] = subst(r, in[i]);
	return out;
}

static struct twir_tensor *copy_tensor(struct run *r, struct tw_map *map, const struct twir_tensor *t)
{
	struct twir_tensor *new =
		twir_tensor_new(r->m, t->base, t->type, t->rank, subst_all(r, t->rank, t->shape), t->scope);
	new->lanes = t->lanes;
	new->layout = copy_layout(r, t->layout);
	new->mirrors = t->mirrors ? copy_map(r, t->mirrors) : NULL;
	map_set_ptr(map, t, new);
	return new;
}

static struct twir_stmt *copy_block(struct run *r, struct tw_map *map, const struct twir_stmt *list);

static void copy_parts(struct run *r, struct tw_map *map, struct twir_stmt *s)
{
	switch (s->kind) {
	case TWIR_LET:
		s->u.let.value = subst(r, s->u.let.value);
		fresh_var(r, map, &s->u.let.var);
		break;
	case TWIR_DECLARE:
		s->u.declare.tensor = copy_tensor(r, map, s->u.declare.tensor);
		break;
	case TWIR_STORE: {
		struct twir_tensor *t = map_get_ptr(map, s->u.store.tensor);
		if (t)
			s->u.store.tensor = t;
		s->u.store.index = subst_all(r, s->u.store.n, s->u.store.index);
		s->u.store.value = subst(r, s->u.store.value);
		if (s->u.store.mask)
			s->u.store.mask = subst(r, s->u.store.mask);
		break;
	}
	case TWIR_FOR:
		s->u.loop.extent = subst(r, s->u.loop.extent);
		fresh_var(r, map, &s->u.loop.var);
		s->u.loop.body = copy_block(r, map, s->u.loop.body);
		break;
	case TWIR_FORMAP: {
		s->u.formap.map = copy_map(r, s->u.formap.map);
		if (s->u.formap.bounds)
			s->u.formap.bounds = subst_all(r, s->u.formap.n, s->u.formap.bounds);
		s->u.formap.vars =
			arena_copy(r->m->arena, s->u.formap.vars, (size_t)s->u.formap.n * sizeof(s->u.formap.vars[0]));
		for (int i = 0; i < s->u.formap.n; i++)
			fresh_var(r, map, &s->u.formap.vars[i]);
		s->u.formap.body = copy_block(r, map, s->u.formap.body);
		break;
	}
	case TWIR_IF:
	case TWIR_SPECIALISE:
		s->u.branch.cond = subst(r, s->u.branch.cond);
		s->u.branch.body = copy_block(r, map, s->u.branch.body);
		s->u.branch.other = copy_block(r, map, s->u.branch.other);
		break;
	case TWIR_PREFETCH: {
		struct twir_tensor *t = map_get_ptr(map, s->u.prefetch.tensor);
		if (t)
			s->u.prefetch.tensor = t;
		s->u.prefetch.index = subst_all(r, s->u.prefetch.n, s->u.prefetch.index);
		break;
	}
	case TWIR_MMA:
		for (int k = 0; k < 3; k++) {
			struct twir_fragment *f = &s->u.mma.part[k];
			struct twir_tensor *t = map_get_ptr(map, f->tensor);
			f->tensor = t ? t : f->tensor;
			f->index = subst_all(r, f->n, f->index);
		}
		break;
	case TWIR_INVOKE: {
		struct twir_argument *args =
			arena_copy(r->m->arena, s->u.invoke.args, (size_t)s->u.invoke.n * sizeof(s->u.invoke.args[0]));
		for (int k = 0; k < s->u.invoke.n; k++) {
			struct twir_tensor *t = map_get_ptr(map, args[k].tensor);
			args[k].tensor = t ? t : args[k].tensor;
			args[k].index = subst_all(r, args[k].n, args[k].index);
		}
		s->u.invoke.args = args;
		s->u.invoke.values = subst_all(r, s->u.invoke.nsymbols, s->u.invoke.values);
		break;
	}
	case TWIR_BARRIER:
	case TWIR_COMMIT:
	case TWIR_WAIT:
		break;
	}
}

static struct twir_stmt *copy_block(struct run *r, struct tw_map *map, const struct twir_stmt *list)
{
	struct twir_stmt *out = NULL, **end = &out;
	for (const struct twir_stmt *s = list; s; s = s->next) {
		struct twir_stmt *new = arena_copy(r->m->arena, s, sizeof(*s));
		new->next = NULL;
		copy_parts(r, map, new);
		*end = new;
		end = &new->next;
	}
	return out;
}

struct twir_stmt *twir_subst_block(struct twir_subst *s, const struct twir_stmt *list)
{
	struct tw_map map;
	map_init(&map, s->m->scratch);
	for (int64_t i = 0; i < s->map.cap; i++)
		if (s->map.values && s->map.values[i])
			map_set(&map, s->map.keys[i], s->map.values[i]);
	/* A binder is new to every expression that uses it, so what was remembered before it stays right. */
	struct run r = {.m = s->m, .map = &map};
	map_init(&r.memo, s->m->scratch);
	return copy_block(&r, &map, list);
}
