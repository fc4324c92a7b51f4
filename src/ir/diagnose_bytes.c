/* diagnose_bytes: elements of packed types share bytes, and two workers that store to one byte would undo each other's
 * stores. Input: the events of a program; output: the first store to a packed output of which it is not proved that
 * each byte belongs to one worker. An index is taken apart into the digits of its mapping, so that what a worker's
 * number chooses is told from what the worker runs through; then the numbers of bytes, not those of elements, must
 * differ from worker to worker. On a CPU the lanes of a core item follow each other, so they are no workers here. */
#include "ir/diagnose_int.h"

#define VARS 64

/* Variables of digits are the same for equal mappings, so that stores in different loops can be compared. */
struct known {
	const struct twir_map *map;
	unsigned levels;
	int factor, dim;
	struct twir_var *var;
};

struct bytes {
	struct twird *d;
	int n;
	struct known known[VARS];
	bool failed;
};

/* A store, with the last index counting bytes. */
struct owned {
	const struct twird_event *of;
	struct twird_event e;
	struct twird_binders b;
	unsigned workers;	   /* bits of binders */
	int64_t only[TWIR_LEVELS]; /* the one worker that comes here, by a condition; -1: several may */
};

static struct twir_var *fresh(struct twird *d, const char *name)
{
	struct twir_var *v = ARENA_NEW(d->m->arena, struct twir_var);
	*v = (struct twir_var){.name = name,
			       .base = name,
			       .type = twir_scalar_type(TWIR_INDEX),
			       .kind = TWIR_LOOP,
			       .id = d->m->next_id++,
			       .hi = INT64_MAX,
			       .multiple = 1};
	return v;
}

static void bind(struct bytes *x, struct owned *o, struct twir_var *v, const struct twir_expr *extent, bool worker)
{
	if (o->b.n == TWIRD_BINDERS) {
		x->failed = true;
		return;
	}
	if (worker)
		o->workers |= 1u << o->b.n;
	o->b.at[o->b.n++] = (struct twird_binder){v, extent};
}

static struct twir_var *digit_var(struct bytes *x, const struct twird_frame *f, int factor, int dim)
{
	for (int i = 0; i < x->n; i++) {
		const struct known *k = &x->known[i];
		if (k->factor == factor && k->dim == dim && k->levels == f->levels &&
		    twird_same_map(k->map, f->stmt->u.formap.map))
			return k->var;
	}
	if (x->n == VARS) {
		x->failed = true;
		return fresh(x->d, "digit");
	}
	x->known[x->n++] = (struct known){f->stmt->u.formap.map, f->levels, factor, dim, fresh(x->d, "digit")};
	return x->known[x->n - 1].var;
}

/* Factors of a mapping, outermost first; false: a projection, or too many. */
static bool factors(const struct twir_map *f, const struct twir_map **list, int *n)
{
	if (f->kind == TWTM_COMPOSE)
		return factors(f->a, list, n) && factors(f->b, list, n);
	if ((f->kind != TWTM_REPEAT && f->kind != TWTM_SPATIAL) || *n == TWIRD_BINDERS)
		return false;
	list[(*n)++] = f;
	return true;
}

/* The innermost spatial factors, as many as make the lanes of a core; -1: lanes and cores share a factor. */
static int first_lane_factor(struct twird *d, const struct twird_frame *f, const struct twir_map *const *list, int n)
{
	const unsigned lane = 1u << TWIR_LANE;
	int64_t left = 1, workers;
	if (d->gpu || !(f->levels & lane))
		return n;
	if (f->levels == lane)
		return 0;
	for (int i = 0; i < d->p->nlevels; i++)
		if (d->p->levels[i] == TWIR_LANE && !twir_const_int(d->p->extents[i], &left))
			return -1;
	while (left > 1 && n > 0) {
		n--;
		if (list[n]->kind != TWTM_SPATIAL)
			continue;
		if (!twir_const_int(twir_map_workers(d->m, list[n]), &workers) || workers < 1 || left % workers)
			return -1;
		left /= workers;
	}
	return left == 1 ? n : -1;
}

/* The variables of a mapping as sums of its digits. */
static void tasks(struct bytes *x, struct owned *o, const struct twird_frame *f, struct twir_subst *put)
{
	struct twird *d = x->d;
	const struct twir_map *list[TWIRD_BINDERS];
	int n = 0;
	if (f->projected || !factors(f->stmt->u.formap.map, list, &n)) {
		x->failed = true;
		return;
	}
	const int lanes = first_lane_factor(d, f, list, n);
	x->failed |= lanes < 0;
	for (int k = 0; k < f->n; k++) {
		const struct twir_expr *sum = twir_index(d->m, 0);
		for (int i = 0; i < n; i++) {
			const struct twir_expr *extent = list[i]->extent[k], *v;
			int64_t one;
			sum = twir_mul(d->m, sum, extent);
			if (twir_const_int(extent, &one) && one == 1)
				continue;
			struct twir_var *digit = digit_var(x, f, i, k);
			bind(x, o, digit, extent, list[i]->kind == TWTM_SPATIAL && i < lanes);
			v = twir_var(d->m, digit);
			sum = twir_add(d->m, sum, v);
		}
		twir_subst_set(put, f->vars[k], sum);
	}
}

static void frames(struct bytes *x, struct owned *o, const struct twird_frame *f, struct twir_subst *put)
{
	if (!f)
		return;
	frames(x, o, f->outer, put);
	if (f->kind == TWIRD_TASKS && f->levels)
		tasks(x, o, f, put);
	else
		for (int k = 0; k < f->n; k++)
			bind(x, o, f->vars[k], f->extent[k], false);
}

/* Levels whose workers no mapping hands work to: all of them come here. */
static void raw_workers(struct bytes *x, struct owned *o)
{
	struct twird *d = x->d;
	const unsigned thread = 1u << TWIR_THREAD, parts = 1u << TWIR_WARP | 1u << TWIR_LANE;
	unsigned handed = 0;
	for (const struct twird_frame *f = o->of->frame; f; f = f->outer)
		handed |= f->levels;
	handed |= handed & thread ? parts : (handed & parts) == parts ? thread : 0;
	struct twir_facts facts;
	twir_facts_init(&facts, d->m);
	twird_launch(d, &facts);
	twird_enter(&facts, o->of->frame);
	for (int l = 0; l < TWIR_LEVELS; l++)
		o->only[l] = -1;
	for (int i = 0; i < d->p->nlevels; i++) {
		const enum twir_level l = d->p->levels[i];
		if (!d->gpu && l == TWIR_LANE)
			continue;
		const struct twir_expr *w = twir_worker(d->m, l);
		if (handed >> l &
		    1) { /* its number says which digits these are, and must not be spoken of beside them */
			for (int k = 0; k < o->e.n; k++)
				x->failed |= twir_uses_var(o->e.index[k], w->u.var);
			continue;
		}
		const struct twir_range r = twir_range_of(&facts, w);
		if (r.lo != r.hi)
			bind(x, o, w->u.var, d->p->extents[i], true);
		else
			o->only[l] = r.lo;
	}
}

/* One number for the place in the storage, where the last dimension alone does not tell the byte. */
static void flatten(struct bytes *x, struct owned *o, int each)
{
	struct twir_module *m = x->d->m;
	const struct twir_tensor *t = o->e.tensor;
	struct twir_facts f;
	twir_facts_init(&f, m);
	const struct twir_expr *last = t->rank ? t->shape[t->rank - 1] : NULL;
	const bool apart =
		t->rank == 1 ||
		(last && twir_prove(&f, twir_eq(m, twir_mod(m, last, twir_index(m, each)), twir_index(m, 0))));
	if (!t->layout && o->e.n == t->rank && t->rank > 0 && apart)
		return;
	struct twir_tensor *flat = arena_copy(m->arena, t, sizeof(*t));
	flat->rank = 1;
	flat->layout = NULL;
	flat->shape = ARENA_ARRAY(m->arena, const struct twir_expr *, 1);
	flat->shape[0] = twir_tensor_elements(m, t);
	o->e.index[0] = twir_layout_offset(m, t, o->e.n, o->e.index);
	o->e.n = 1;
	o->e.tensor = flat;
}

/* The last index in bytes: digits of whole bytes count those, what is below must stay in one byte. */
static bool count_bytes(struct bytes *x, struct owned *o, int each)
{
	struct twird *d = x->d;
	struct twir_module *m = d->m;
	const int last = o->e.n - 1;
	const struct twir_expr *size = twir_index(m, each), *zero = twir_index(m, 0);
	struct twird_digits g;
	struct twir_facts f;
	int64_t within;
	twir_facts_init(&f, m);
	twird_launch(d, &f);
	for (int i = 0; i < o->b.n; i++)
		twird_below(&f, twir_var(m, o->b.at[i].var), o->b.at[i].extent);
	if (!twird_digits_of(d, &f, &o->e, &o->b, last, last, &g) ||
	    !twir_const_int(twir_simplify(&f, twir_mod(m, g.base, size)), &within))
		return false;
	const struct twir_expr *at = twir_div(m, twir_sub(m, g.base, twir_index(m, within)), size);
	for (int i = 0; i < g.n; i++) {
		const struct twird_binder *b = &o->b.at[g.at[i].binder];
		const struct twir_expr *stride = g.at[i].stride;
		int64_t small, n;
		if (twir_prove(&f, twir_eq(m, twir_mod(m, stride, size), zero))) {
			at = twir_add(m, at, twir_mul(m, twir_div(m, stride, size), twir_var(m, b->var)));
			continue;
		}
		if (!twir_const_int(stride, &small) || small < 1 || each % small || o->workers >> g.at[i].binder & 1)
			return false;
		if (twir_const_int(b->extent, &n) && n <= each / small) {
			within += small * (n - 1);
			continue;
		}
		within += each - small;
		struct twir_var *q = fresh(d, "byte");
		at = twir_add(m, at, twir_var(m, q));
		bind(x, o, q, twir_ceildiv(m, b->extent, twir_index(m, each / small)), false);
	}
	struct twir_tensor *t = arena_copy(m->arena, o->e.tensor, sizeof(*t));
	t->shape = arena_copy(m->arena, t->shape, sizeof(*t->shape) * (size_t)t->rank);
	t->shape[last] = twir_ceildiv(m, t->shape[last], size);
	o->e.tensor = t;
	o->e.index[last] = twir_simplify(&f, at);
	o->e.lanes = 1;
	return within < each && !x->failed;
}

/* What a worker repeats without its showing in the index is its own affair. */
static void drop_unused(struct owned *o)
{
	struct twird_binders b = o->b;
	unsigned workers = 0;
	b.n = 0;
	for (int i = 0; i < o->b.n; i++) {
		bool used = o->workers >> i & 1;
		for (int k = 0; k < o->e.n; k++)
			used |= twir_uses_var(o->e.index[k], o->b.at[i].var);
		if (!used)
			continue;
		workers |= (o->workers >> i & 1) << b.n;
		b.at[b.n++] = o->b.at[i];
	}
	o->b = b;
	o->workers = workers;
}

static bool take_apart(struct bytes *x, const struct twird_event *e, struct owned *o)
{
	struct twird *d = x->d;
	struct twir_subst put;
	const int each = 8 / twir_scalar_bits(e->tensor->type);
	*o = (struct owned){.of = e, .e = *e};
	x->failed = e->scattered;
	twir_subst_init(&put, d->m);
	raw_workers(x, o);
	frames(x, o, e->frame, &put);
	if (x->failed || o->workers == 0) /* one worker does it all */
		return !x->failed;
	flatten(x, o, each);
	for (int k = 0; k < o->e.n; k++)
		o->e.index[k] = twir_subst_expr(&put, o->e.index[k]);
	if (e->lanes > 1)
		bind(x, o, fresh(d, "lane"), twir_index(d->m, e->lanes), false);
	if (x->failed || !count_bytes(x, o, each))
		return false;
	drop_unused(o);
	return twird_injective(d, &o->e, &o->b, (1u << o->e.n) - 1);
}

/* The digits of a dimension that workers choose, and the others; what the others reach is proved below `below`. */
static bool rest_below(struct twird *d, const struct owned *o, const struct twird_digits *g,
		       const struct twir_expr *below)
{
	struct twir_module *m = d->m;
	const struct twir_expr *most = g->base, *one = twir_index(m, 1);
	struct twir_facts f;
	twir_facts_init(&f, m);
	for (int i = 0; i < o->b.n; i++)
		twird_below(&f, twir_var(m, o->b.at[i].var), o->b.at[i].extent);
	for (int i = 0; i < g->n; i++) {
		const struct twir_expr *extent = o->b.at[g->at[i].binder].extent;
		if (o->workers >> g->at[i].binder & 1)
			continue;
		if (!twir_prove(&f, twir_le(m, twir_index(m, 0), g->at[i].stride)))
			return false;
		most = twir_add(m, most, twir_mul(m, g->at[i].stride, twir_sub(m, extent, one)));
	}
	return twir_prove(&f, twir_le(m, twir_index(m, 0), g->base)) && twir_prove(&f, twir_lt(m, most, below));
}

static const struct twir_expr *stride_of(const struct owned *o, const struct twird_digits *g, const struct twir_var *v)
{
	for (int i = 0; i < g->n; i++)
		if (o->b.at[g->at[i].binder].var == v)
			return g->at[i].stride;
	return NULL;
}

/* In one dimension: do equal numbers mean equal digits of workers? */
static bool same_digits(struct twird *d, const struct owned *a, const struct owned *b, int k)
{
	struct twir_module *m = d->m;
	struct twird_digits ga, gb;
	struct twir_facts f;
	const struct twir_expr *least = NULL;
	int na = 0, nb = 0;
	twir_facts_init(&f, m);
	if (!twird_digits_of(d, &f, &a->e, &a->b, k, k, &ga) || !twird_digits_of(d, &f, &b->e, &b->b, k, k, &gb))
		return false;
	for (int i = 0; i < gb.n; i++)
		nb += b->workers >> gb.at[i].binder & 1;
	for (int i = 0; i < ga.n; i++) {
		if (!(a->workers >> ga.at[i].binder & 1))
			continue;
		const struct twir_expr *s = ga.at[i].stride;
		if (stride_of(b, &gb, a->b.at[ga.at[i].binder].var) != s)
			return false;
		if (!least || twir_prove(&f, twir_lt(m, s, least)))
			least = s;
		na++;
	}
	if (na != nb)
		return false;
	for (int i = 0; i < ga.n && least; i++)
		if (a->workers >> ga.at[i].binder & 1 &&
		    !twir_prove(&f, twir_eq(m, twir_mod(m, ga.at[i].stride, least), twir_index(m, 0))))
			return false;
	return !least || (rest_below(d, a, &ga, least) && rest_below(d, b, &gb, least));
}

static bool same_owner(struct twird *d, const struct owned *a, const struct owned *b)
{
	if (memcmp(a->only, b->only, sizeof(a->only)) != 0 || (a->workers == 0) != (b->workers == 0))
		return false;
	if (a->workers == 0) /* one worker does both */
		return true;
	if (a->e.n != b->e.n)
		return false;
	for (int k = 0; k < a->e.n; k++)
		if (!same_digits(d, a, b, k))
			return false;
	return true;
}

static bool is_packed_store(const struct twird_event *e)
{
	return e->kind == TWIRD_STORE && e->tensor->scope == TWIR_OUT && twir_is_packed(e->tensor->type);
}

const struct twird_event *twird_shared_byte(struct twird *d)
{
	struct bytes x = {.d = d};
	VEC(struct owned) done = {0};
	for (int i = 0; i < d->events.n; i++) {
		const struct twird_event *e = &d->events.at[i];
		struct owned o;
		if (!is_packed_store(e))
			continue;
		if (!take_apart(&x, e, &o))
			return e;
		for (int k = 0; k < done.n; k++)
			if (done.at[k].of->tensor == e->tensor && !same_owner(d, &done.at[k], &o))
				return e;
		vec_push(d->scratch, &done, o);
	}
	return NULL;
}

struct question {
	struct twird d;
	const struct twird_event *found;
};

static void ask(void *arg)
{
	struct question *q = arg;
	twird_walk(&q->d);
	q->found = twird_shared_byte(&q->d);
}

const struct twir_tensor *twir_shared_byte(struct twir_module *m, const struct twir_program *p)
{
	struct question q = {.d = {.m = m, .p = p}};
	struct tw_error e;
	const struct twir_tensor *packed = NULL;
	for (int i = 0; i < p->nparams; i++)
		if (p->params[i]->scope == TWIR_OUT && twir_is_packed(p->params[i]->type))
			packed = p->params[i];
	if (!packed)
		return NULL;
	q.d.scratch = q.d.arena = arena_new();
	q.d.gpu = p->nlevels > 0 && p->levels[0] == TWIR_BLOCK;
	const bool ok = tw_try(&e, ask, &q);
	const struct twir_tensor *r = q.d.too_large ? packed : q.found ? q.found->tensor : NULL;
	arena_free(q.d.arena);
	if (!ok)
		tw_raise_error(&e);
	return r;
}
