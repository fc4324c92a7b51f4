/* simplify_program: a program's statements with the facts of their places: extents of loops and mappings, guards,
 * lets, launch. Loops without iterations, branches not taken, unused lets and empty bodies vanish; loops of one
 * iteration become their body. Variables and tensors stay the same objects; statements are new. */
#include "ir/ir_int.h"
#include "ir/simplify_int.h"

struct pass {
	struct twir_facts f;
	struct twir_module *m;
	struct tw_map used; /* variables, tensors and visited expressions of the part behind */
};

static struct twir_stmt *block(struct pass *p, const struct twir_stmt *list);

/* The block in a scope of facts of its own; cond == NULL: nothing is assumed. */
static struct twir_stmt *block_under(struct pass *p, const struct twir_stmt *list, const struct twir_expr *cond,
				     bool holds)
{
	twirs_push(&p->f);
	if (cond)
		twirs_assume(&p->f, cond, holds);
	struct twir_stmt *r = block(p, list);
	twirs_pop(&p->f);
	return r;
}

/* 0 <= v < extent, which therefore is positive. */
static void assume_below(struct pass *p, const struct twir_expr *v, const struct twir_expr *extent)
{
	const struct twir_range r = twir_range_of(&p->f, extent);
	twirs_narrow(&p->f, v, 0, r.hi > 0 ? r.hi - 1 : 0);
	if (extent->kind == TWIR_Const || extent->loads)
		return;
	twirs_assume(&p->f, twir_lt(p->m, twir_index(p->m, 0), extent), true);
	twirs_assume(&p->f, twir_lt(p->m, v, extent), true);
}

static const struct twir_map *simplify_map(struct pass *p, const struct twir_map *f)
{
	struct twir_map *r = arena_copy(p->m->arena, f, sizeof(*f));
	if (f->a)
		r->a = simplify_map(p, f->a);
	if (f->b)
		r->b = simplify_map(p, f->b);
	for (int d = 0; d < f->rank && (f->kind == TWTM_REPEAT || f->kind == TWTM_SPATIAL); d++)
		r->extent[d] = twir_simplify(&p->f, f->extent[d]);
	return r;
}

static const struct twir_layout *simplify_layout(struct pass *p, const struct twir_layout *l)
{
	if (!l)
		return NULL;
	struct twir_layout *r = arena_copy(p->m->arena, l, sizeof(*l));
	r->inner = simplify_layout(p, l->inner);
	for (int d = 0; d < l->rank; d++)
		r->extent[d] = twir_simplify(&p->f, l->extent[d]);
	return r;
}

/* Lets that were replaced may stand in a local tensor's shape. */
static void simplify_tensor(struct pass *p, struct twir_tensor *t)
{
	if (p->f.state->replaced.n == 0)
		return;
	for (int k = 0; k < t->rank; k++)
		t->shape[k] = twir_simplify(&p->f, t->shape[k]);
	t->layout = simplify_layout(p, t->layout);
	if (t->mirrors)
		t->mirrors = simplify_map(p, t->mirrors);
}

static struct twir_stmt *copy(struct pass *p, const struct twir_stmt *s)
{
	struct twir_stmt *r = arena_copy(p->m->arena, s, sizeof(*s));
	r->next = NULL;
	return r;
}

static struct twir_stmt *let(struct pass *p, const struct twir_stmt *s)
{
	const struct twir_expr *v = twir_simplify(&p->f, s->u.let.value);
	if ((v->kind == TWIR_Const || v->kind == TWIR_Var) && twir_type_eq(v->type, s->u.let.var->type)) {
		twirs_replace(&p->f, s->u.let.var, v);
		return NULL;
	}
	twirs_define(&p->f, s->u.let.var, v);
	struct twir_stmt *r = copy(p, s);
	r->u.let.value = v;
	return r;
}

static struct twir_stmt *store(struct pass *p, const struct twir_stmt *s)
{
	struct twir_stmt *r = copy(p, s);
	if (s->u.store.mask) {
		const struct twir_expr *m = twir_simplify(&p->f, s->u.store.mask);
		int64_t v;
		r->u.store.mask = m;
		if (twir_const_int(m->kind == TWIR_Splat ? m->arg[0] : m, &v)) {
			if (!v)
				return NULL;
			/* without its mask a store is as wide as its value */
			if (s->u.store.value->type.lanes == m->type.lanes)
				r->u.store.mask = NULL;
		}
	}
	r->u.store.value = twir_simplify(&p->f, s->u.store.value);
	r->u.store.index = ARENA_ARRAY(p->m->arena, const struct twir_expr *, s->u.store.n);
	for (int k = 0; k < s->u.store.n; k++)
		r->u.store.index[k] = twir_simplify(&p->f, s->u.store.index[k]);
	return r;
}

static struct twir_stmt *loop(struct pass *p, const struct twir_stmt *s)
{
	const struct twir_expr *extent = twir_simplify(&p->f, s->u.loop.extent);
	const struct twir_range r = twir_range_of(&p->f, extent);
	if (r.hi <= 0)
		return NULL;
	if (r.lo == 1 && r.hi == 1) {
		twirs_replace(&p->f, s->u.loop.var, twir_index(p->m, 0));
		return block_under(p, s->u.loop.body, NULL, true);
	}
	struct twir_stmt *n = copy(p, s);
	n->u.loop.extent = extent;
	twirs_push(&p->f);
	assume_below(p, twir_var(p->m, s->u.loop.var), extent);
	n->u.loop.body = block(p, s->u.loop.body);
	twirs_pop(&p->f);
	return n->u.loop.body ? n : NULL;
}

static struct twir_stmt *formap(struct pass *p, const struct twir_stmt *s)
{
	const int n = s->u.formap.n;
	struct twir_stmt *r = copy(p, s);
	const struct twir_map *map = simplify_map(p, s->u.formap.map);
	const struct twir_expr *extent[TWIR_MAX_RANK];
	bool single = s->u.formap.nlevels == 0;
	r->u.formap.map = map;
	for (int d = 0; d < n; d++) {
		extent[d] = twir_simplify(&p->f, twir_map_extent(p->m, map, d));
		const struct twir_range e = twir_range_of(&p->f, extent[d]);
		if (e.hi <= 0)
			return NULL;
		single &= e.lo == 1 && e.hi == 1;
	}
	bool bounded = false;
	if (s->u.formap.bounds) {
		r->u.formap.bounds = ARENA_ARRAY(p->m->arena, const struct twir_expr *, n);
		for (int d = 0; d < n; d++) {
			const struct twir_expr *b = s->u.formap.bounds[d];
			r->u.formap.bounds[d] = b ? twir_simplify(&p->f, b) : NULL;
			if (b && !b->loads && twir_range_of(&p->f, r->u.formap.bounds[d]).hi <= 0)
				return NULL;
			bounded |= b && !twir_prove(&p->f, twir_le(p->m, extent[d], r->u.formap.bounds[d]));
		}
		if (!bounded)
			r->u.formap.bounds = NULL;
	}
	int64_t workers;
	single &=
		!bounded && twir_const_int(twir_simplify(&p->f, twir_map_workers(p->m, map)), &workers) && workers == 1;
	if (single) {
		for (int d = 0; d < n; d++)
			twirs_replace(&p->f, s->u.formap.vars[d], twir_index(p->m, 0));
		return block_under(p, s->u.formap.body, NULL, true);
	}
	twirs_push(&p->f);
	for (int d = 0; d < n; d++) {
		const struct twir_expr *v = twir_var(p->m, s->u.formap.vars[d]);
		assume_below(p, v, extent[d]);
		if (!bounded || !r->u.formap.bounds[d])
			continue;
		assume_below(p, v, r->u.formap.bounds[d]);
		/* One task is left: the verifier sees that no two lanes meet. */
		const struct twir_expr *one = twir_index(p->m, 1);
		if (!twir_prove(&p->f, twir_le(p->m, extent[d], one)) && twir_range_of(&p->f, v).hi == 0 &&
		    twir_range_of(&p->f, r->u.formap.bounds[d]).lo == 1)
			r->u.formap.bounds[d] = one;
	}
	r->u.formap.body = block(p, s->u.formap.body);
	twirs_pop(&p->f);
	return r->u.formap.body ? r : NULL;
}

static struct twir_stmt *branch(struct pass *p, const struct twir_stmt *s)
{
	const struct twir_expr *c = twir_simplify(&p->f, s->u.branch.cond);
	int64_t v;
	if (twir_const_int(c, &v))
		return block_under(p, v ? s->u.branch.body : s->u.branch.other, NULL, true);
	struct twir_stmt *r = copy(p, s);
	r->u.branch.cond = c;
	r->u.branch.body = block_under(p, s->u.branch.body, c, true);
	r->u.branch.other = block_under(p, s->u.branch.other, c, false);
	if (!r->u.branch.body) {
		r->u.branch.cond = twir_simplify(&p->f, twirs_negate(p->m, c));
		r->u.branch.body = r->u.branch.other;
		r->u.branch.other = NULL;
	}
	return r->u.branch.body ? r : NULL;
}

static struct twir_stmt *specialise(struct pass *p, const struct twir_stmt *s)
{
	const struct twir_expr *c = twir_simplify(&p->f, s->u.branch.cond);
	struct twir_stmt *body = block_under(p, s->u.branch.body, NULL, true);
	if (c->kind == TWIR_Const || !body)
		return body;
	struct twir_stmt *r = copy(p, s);
	r->u.branch.cond = c;
	r->u.branch.body = body;
	return r;
}

static struct twir_stmt *matrix(struct pass *p, const struct twir_stmt *s)
{
	struct twir_stmt *r = copy(p, s);
	for (int k = 0; k < 3; k++) {
		struct twir_fragment *f = &r->u.mma.part[k];
		f->index = ARENA_ARRAY(p->m->arena, const struct twir_expr *, f->n);
		for (int i = 0; i < f->n; i++)
			f->index[i] = twir_simplify(&p->f, s->u.mma.part[k].index[i]);
	}
	return r;
}

static struct twir_stmt *statement(struct pass *p, const struct twir_stmt *s)
{
	switch (s->kind) {
	case TWIR_LET:
		return let(p, s);
	case TWIR_DECLARE:
		simplify_tensor(p, s->u.declare.tensor);
		return copy(p, s);
	case TWIR_STORE:
		return store(p, s);
	case TWIR_FOR:
		return loop(p, s);
	case TWIR_FORMAP:
		return formap(p, s);
	case TWIR_IF:
		return branch(p, s);
	case TWIR_SPECIALISE:
		return specialise(p, s);
	case TWIR_MMA:
		return matrix(p, s);
	case TWIR_BARRIER:
	case TWIR_COMMIT:
	case TWIR_WAIT:
	case TWIR_INVOKE: /* launch functions are not simplified */
		return copy(p, s);
	case TWIR_PREFETCH: {
		struct twir_stmt *r = copy(p, s);
		r->u.prefetch.index = ARENA_ARRAY(p->m->arena, const struct twir_expr *, s->u.prefetch.n);
		for (int k = 0; k < s->u.prefetch.n; k++)
			r->u.prefetch.index[k] = twir_simplify(&p->f, s->u.prefetch.index[k]);
		return r;
	}
	}
	return copy(p, s);
}

static struct twir_stmt *block(struct pass *p, const struct twir_stmt *list)
{
	struct twir_stmt *r = NULL, **end = &r;
	for (const struct twir_stmt *s = list; s; s = s->next) {
		*end = statement(p, s);
		while (*end)
			end = &(*end)->next;
	}
	return r;
}

static void use(struct pass *p, const void *at)
{
	map_set_ptr(&p->used, at, p);
}

static void use_expr(void *arg, const struct twir_expr *e)
{
	struct pass *p = arg;
	if (map_get_ptr(&p->used, e))
		return;
	use(p, e);
	if (e->kind == TWIR_Var)
		use(p, e->u.var);
	else if (e->kind == TWIR_Load || e->kind == TWIR_Gather)
		use(p, e->u.tensor);
	for (int k = 0; k < e->n; k++)
		use_expr(p, e->arg[k]);
}

/* Last statement first, so that a let's uses are known when it is met. */
static struct twir_stmt *drop_unused(struct pass *p, struct twir_stmt *s)
{
	int n = 0, k = 0;
	for (const struct twir_stmt *at = s; at; at = at->next)
		n++;
	struct twir_stmt **all = ARENA_ARRAY(p->m->arena, struct twir_stmt *, n);
	for (struct twir_stmt *at = s; at; at = at->next)
		all[k++] = at;
	struct twir_stmt *r = NULL;
	while (k-- > 0) {
		struct twir_stmt *at = all[k];
		switch (at->kind) {
		case TWIR_LET:
			if (!map_get_ptr(&p->used, at->u.let.var))
				continue;
			use_expr(p, at->u.let.value);
			break;
		case TWIR_DECLARE:
			if (!map_get_ptr(&p->used, at->u.declare.tensor))
				continue;
			twir_visit_tensor(at->u.declare.tensor, use_expr, p);
			break;
		case TWIR_STORE:
			use(p, at->u.store.tensor);
			use_expr(p, at->u.store.value);
			for (int i = 0; i < at->u.store.n; i++)
				use_expr(p, at->u.store.index[i]);
			if (at->u.store.mask)
				use_expr(p, at->u.store.mask);
			break;
		case TWIR_FOR:
			at->u.loop.body = drop_unused(p, at->u.loop.body);
			if (!at->u.loop.body)
				continue;
			use_expr(p, at->u.loop.extent);
			break;
		case TWIR_FORMAP:
			at->u.formap.body = drop_unused(p, at->u.formap.body);
			if (!at->u.formap.body)
				continue;
			twir_visit_map(at->u.formap.map, use_expr, p);
			for (int d = 0; d < at->u.formap.n && at->u.formap.bounds; d++)
				if (at->u.formap.bounds[d])
					use_expr(p, at->u.formap.bounds[d]);
			break;
		case TWIR_IF:
		case TWIR_SPECIALISE:
			at->u.branch.body = drop_unused(p, at->u.branch.body);
			at->u.branch.other = drop_unused(p, at->u.branch.other);
			if (!at->u.branch.body && !at->u.branch.other)
				continue;
			use_expr(p, at->u.branch.cond);
			break;
		case TWIR_PREFETCH:
			use(p, at->u.prefetch.tensor);
			for (int i = 0; i < at->u.prefetch.n; i++)
				use_expr(p, at->u.prefetch.index[i]);
			break;
		case TWIR_MMA:
			for (int i = 0; i < 3; i++) {
				use(p, at->u.mma.part[i].tensor);
				for (int d = 0; d < at->u.mma.part[i].n; d++)
					use_expr(p, at->u.mma.part[i].index[d]);
			}
			break;
		case TWIR_BARRIER:
		case TWIR_COMMIT:
		case TWIR_WAIT:
		case TWIR_INVOKE:
			break;
		}
		at->next = r;
		r = at;
	}
	return r;
}

void twir_simplify_program(struct twir_module *m, struct twir_program *prog)
{
	struct pass p = {.m = m};
	twir_facts_init(&p.f, m);
	map_init(&p.used, m->scratch);
	for (int k = 0; k < prog->nlevels; k++) {
		prog->extents[k] = twir_simplify(&p.f, prog->extents[k]);
		assume_below(&p, twir_worker(m, prog->levels[k]), prog->extents[k]);
	}
	prog->body = drop_unused(&p, block(&p, prog->body));
}
