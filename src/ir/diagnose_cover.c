/* diagnose_cover: which elements an event touches as the loops and workers around it run. An index that is a sum of
 * variables with strides is a number in mixed radix, as a composed mapping is: different digits give different elements
 * when each stride exceeds what the smaller ones reach, and every element is reached when it exceeds it by just one. */
#include "ir/diagnose_int.h"

const struct twird_frame *twird_common(const struct twird_frame *a, const struct twird_frame *b)
{
	while (a != b) {
		if (!a || !b)
			return NULL;
		if (a->depth >= b->depth)
			a = a->outer;
		else
			b = b->outer;
	}
	return a;
}

bool twird_inside(const struct twird_frame *f, const struct twird_frame *of)
{
	while (f && f != of)
		f = f->outer;
	return f == of;
}

void twird_launch(struct twird *d, struct twir_facts *f)
{
	for (int i = 0; i < d->p->nlevels; i++)
		twird_below(f, twir_worker(d->m, d->p->levels[i]), d->p->extents[i]);
}

void twird_enter(struct twir_facts *f, const struct twird_frame *frame)
{
	if (!frame)
		return;
	twird_enter(f, frame->outer);
	for (int k = 0; k < frame->n; k++) {
		const struct twir_expr *v = twir_var(f->m, frame->vars[k]);
		twird_below(f, v, frame->extent[k]);
		if (frame->bound[k])
			twird_below(f, v, frame->bound[k]);
	}
	if (frame->cond)
		twirs_assume(f, frame->cond, true);
}

static bool speaks_of(const struct twird_binders *b, const struct twir_expr *e)
{
	for (int i = 0; i < b->n; i++)
		if (twir_uses_var(e, b->at[i].var))
			return true;
	return false;
}

static void guard(struct twird_binders *b, const struct twir_expr *cond)
{
	if (cond->kind == TWIR_And) { /* each on its own */
		guard(b, cond->arg[0]);
		guard(b, cond->arg[1]);
		return;
	}
	b->too_many |= b->nguards == TWIRD_BINDERS;
	if (!b->too_many)
		b->guards[b->nguards++] = cond;
}

/* A loop of min(a, b) turns is one of a turns with the guard v < b; a is the side that is the same for all. */
static void binder(struct twird *d, struct twird_binders *b, struct twir_var *v, const struct twir_expr *extent)
{
	struct twir_module *m = d->m;
	while (extent->kind == TWIR_Min) {
		const int other = speaks_of(b, extent->arg[0]) ? 0 : 1;
		guard(b, twir_lt(m, twir_var(m, v), extent->arg[other]));
		extent = extent->arg[1 - other];
	}
	b->too_many |= b->n == TWIRD_BINDERS;
	if (!b->too_many)
		b->at[b->n++] = (struct twird_binder){v, extent};
}

/* v of a guard a == b, if it is a binder that may be solved for: the other binders may not stand beside it. */
static const struct twir_expr *solved(struct twird *d, const struct twird_binders *b, const struct twir_expr *guard,
				      int v)
{
	struct twirs_poly x, y;
	const struct twirs_mono minus = twirs_number(-1), self = twirs_atom(twir_var(d->m, b->at[v].var));
	if (guard->kind != TWIR_Eq || !twirs_is_index(guard->arg[0]))
		return NULL;
	twirs_poly_of(guard->arg[0], &x);
	twirs_poly_of(guard->arg[1], &y);
	if (!twirs_add(&x, &y, &minus))
		return NULL;
	for (int k = 0; k < x.n; k++) {
		if (!twirs_mono_same(&x.t[k], &self) || (x.t[k].k != 1 && x.t[k].k != -1))
			continue;
		const struct twirs_mono sign = twirs_number(-x.t[k].k);
		struct twirs_poly rest = x, r = {0};
		rest.n--;
		memmove(&rest.t[k], &rest.t[k + 1], sizeof(rest.t[0]) * (size_t)(rest.n - k));
		const struct twir_expr *value = twirs_add(&r, &rest, &sign) ? twirs_build(d->m, &r) : NULL;
		return value && !twir_uses_var(value, b->at[v].var) ? value : NULL;
	}
	return NULL;
}

/* Binders that a guard leaves one value that there is: they count as one turn, and the guard holds in it. */
static void pin(struct twird *d, const struct twird_event *e, struct twird_binders *b)
{
	struct twir_module *m = d->m;
	for (int i = 0; i < b->n; i++) {
		bool indexes = false;
		for (int k = 0; k < e->n; k++)
			indexes |= twir_uses_var(e->index[k], b->at[i].var);
		for (int g = 0; g < b->nguards && !indexes; g++) {
			const struct twir_expr *value = solved(d, b, b->guards[g], i);
			struct twir_facts f;
			if (!value)
				continue;
			twir_facts_init(&f, m);
			for (int o = 0; o < i; o++)
				twird_below(&f, twir_var(m, b->at[o].var), b->at[o].extent);
			if (!twir_prove(&f, twir_le(m, twir_index(m, 0), value)) ||
			    !twir_prove(&f, twir_lt(m, value, b->at[i].extent)))
				continue;
			b->pinned |= 1u << i;
			b->guards[g] = b->guards[--b->nguards];
			break;
		}
	}
}

static void bind_frames(struct twird *d, const struct twird_frame *f, const struct twird_frame *above,
			struct twird_binders *b)
{
	if (!f || f == above)
		return;
	bind_frames(d, f->outer, above, b);
	b->projected |= f->projected;
	for (int k = 0; k < f->n; k++) {
		binder(d, b, f->vars[k], f->extent[k]);
		if (f->bound[k])
			guard(b, twir_lt(d->m, twir_var(d->m, f->vars[k]), f->bound[k]));
	}
	if (f->cond)
		guard(b, f->cond);
}

void twird_bind(struct twird *d, const struct twird_event *e, const struct twird_frame *above, unsigned workers,
		struct twird_binders *b)
{
	const struct twir_program *p = d->p;
	unsigned handed = 0; /* levels whose workers a mapping hands tasks to */
	*b = (struct twird_binders){0};
	for (const struct twird_frame *f = e->frame; f; f = f->outer)
		handed |= f->levels;
	const unsigned thread = 1u << TWIR_THREAD, parts = 1u << TWIR_WARP | 1u << TWIR_LANE;
	handed |= handed & thread ? parts : (handed & parts) == parts ? thread : 0;
	struct twir_facts f;
	twir_facts_init(&f, d->m);
	twird_enter(&f, above);
	for (int i = 0; i < p->nlevels; i++) {
		const struct twir_range one = twir_range_of(&f, twir_worker(d->m, p->levels[i]));
		if (above && one.lo == one.hi) /* a guard around both leaves one of them */
			continue;
		/* outside a region the core runs alone */
		if (!(workers >> p->levels[i] & 1) || handed >> p->levels[i] & 1 ||
		    (!d->gpu && p->levels[i] == TWIR_LANE))
			continue;
		binder(d, b, d->m->workers[p->levels[i]], p->extents[i]);
	}
	bind_frames(d, e->frame, above, b);
	if (e->lanes > 1 && !e->scattered && b->n < TWIRD_BINDERS) { /* a wide access is a loop over its elements */
		struct twir_var *v = ARENA_NEW(d->m->arena, struct twir_var);
		*v = (struct twir_var){.name = "lane of a wide access",
				       .base = "l",
				       .type = twir_scalar_type(TWIR_INDEX),
				       .kind = TWIR_LOOP,
				       .id = d->m->next_id++,
				       .hi = INT64_MAX,
				       .multiple = 1};
		b->at[b->n++] = (struct twird_binder){v, twir_index(d->m, e->lanes)};
	}
	pin(d, e, b);
}

bool twird_digits_of(struct twird *d, struct twir_facts *f, const struct twird_event *e, const struct twird_binders *b,
		     int from, int to, struct twird_digits *g)
{
	struct twir_module *m = d->m;
	const struct twir_expr *x = e->index[from];
	const bool wide = e->lanes > 1 && !e->scattered && to == e->n - 1;
	struct twirs_poly p, base = {0};
	for (int i = from + 1; i <= to; i++)
		x = twir_add(m, twir_mul(m, x, e->tensor->shape[i]), e->index[i]);
	if (wide)
		x = twir_add(m, x, twir_var(m, b->at[b->n - 1].var));
	x = twir_simplify(f, x);
	if (!twirs_is_index(x))
		return false;
	twirs_poly_of(x, &p);
	base.c = p.c;
	g->n = 0;
	for (int i = 0; i < p.n; i++) {
		struct twirs_mono rest = p.t[i];
		int which = -1;
		for (int a = 0; a < p.t[i].n; a++)
			for (int j = 0; j < b->n; j++) {
				if (!twir_uses_var(p.t[i].a[a], b->at[j].var))
					continue;
				if (which >= 0 || p.t[i].a[a]->kind != TWIR_Var)
					return false;
				which = j;
				twirs_mono_without(&rest, &p.t[i], a);
			}
		if (which < 0) {
			if (!twirs_add_mono(&base, &p.t[i]))
				return false;
			continue;
		}
		for (int j = 0; j < g->n; j++)
			if (g->at[j].binder == which) /* a stride that is a sum */ {
				g->at[j].stride = twir_add(m, g->at[j].stride, twirs_build_mono(m, &rest));
				which = -1;
				break;
			}
		if (which >= 0)
			g->at[g->n++] = (struct twird_digit){which, twirs_build_mono(m, &rest)};
	}
	g->base = twirs_build(m, &base);
	return true;
}

/* Smallest strides first. */
static void sort(struct twird *d, struct twir_facts *f, struct twird_digits *g)
{
	for (int i = 0; i < g->n; i++)
		for (int j = i + 1; j < g->n; j++)
			if (!twir_prove(f, twir_le(d->m, g->at[i].stride, g->at[j].stride)) &&
			    twir_prove(f, twir_le(d->m, g->at[j].stride, g->at[i].stride))) {
				const struct twird_digit t = g->at[i];
				g->at[i] = g->at[j];
				g->at[j] = t;
			}
}

/* What the digits reach: base aside, the largest value. */
static const struct twir_expr *reach(struct twird *d, const struct twird_binders *b, const struct twird_digits *g,
				     int n)
{
	const struct twir_expr *r = twir_index(d->m, 0), *one_more = twir_index(d->m, 1);
	for (int i = 0; i < n; i++)
		r = twir_add(d->m, r,
			     twir_mul(d->m, g->at[i].stride, twir_sub(d->m, b->at[g->at[i].binder].extent, one_more)));
	return r;
}

static bool digits_differ(struct twird *d, struct twir_facts *f, const struct twird_binders *b, struct twird_digits *g)
{
	sort(d, f, g);
	for (int i = 0; i < g->n; i++)
		if (!twir_prove(f, twir_lt(d->m, reach(d, b, g, i), g->at[i].stride)))
			return false;
	return true;
}

static bool at_most_one(struct twird *d, struct twir_facts *f, const struct twir_expr *extent)
{
	return twir_prove(f, twir_le(d->m, extent, twir_index(d->m, 1)));
}

bool twird_injective(struct twird *d, const struct twird_event *e, const struct twird_binders *b, unsigned dims)
{
	struct twir_facts f;
	struct twird_digits g;
	unsigned used = 0;
	if (b->too_many || b->projected || e->scattered)
		return false;
	twir_facts_init(&f, d->m);
	for (int i = 0; i < b->n; i++)
		twird_below(&f, twir_var(d->m, b->at[i].var), b->at[i].extent);
	twird_enter(&f, e->frame);
	for (int whole = 0; whole < 2; whole++) { /* by as few dimensions at a time as can be, then all as one number */
		bool ok = true;
		used = 0;
		for (int k = 0, to; k < e->n && ok; k = to + 1) {
			to = whole ? e->n - 1 : k;
			if (!(dims >> k & 1))
				continue;
			while (!(ok = twird_digits_of(d, &f, e, b, k, to, &g)) && ++to < e->n && dims >> to & 1)
				;
			ok = ok && digits_differ(d, &f, b, &g);
			for (int i = 0; i < g.n && ok; i++)
				used |= 1u << g.at[i].binder;
		}
		for (int i = 0; i < b->n && ok; i++)
			ok = (used | b->pinned) >> i & 1 || at_most_one(d, &f, b->at[i].extent);
		if (ok)
			return true;
		if (dims != (1u << e->n) - 1 || e->n == 0)
			return false;
	}
	return false;
}

/* 0 .. last all reached? */
static bool digits_reach(struct twird *d, struct twir_facts *f, const struct twird_binders *b, struct twird_digits *g,
			 const struct twir_expr *last)
{
	struct twir_module *m = d->m;
	if (!twir_prove(f, twir_eq(m, g->base, twir_index(m, 0))))
		return false;
	sort(d, f, g);
	for (int i = 0; i < g->n; i++) {
		const struct twir_expr *next = twir_add(m, reach(d, b, g, i), twir_index(m, 1));
		if (!twir_prove(f, twir_le(m, g->at[i].stride, next)))
			return false;
	}
	return twir_prove(f, twir_le(m, last, reach(d, b, g, g->n)));
}

static bool guards_hold(struct twird *d, const struct twird_event *e, const struct twird_binders *b,
			const struct twird_frame *common)
{
	struct twir_facts f;
	if (b->nguards == 0)
		return true;
	twir_facts_init(&f, d->m);
	twird_launch(d, &f);
	twird_enter(&f, common);
	for (int i = 0; i < b->n; i++)
		twird_below(&f, twir_var(d->m, b->at[i].var), b->at[i].extent);
	for (int k = 0; k < e->n && e->n == e->tensor->rank; k++) {
		const struct twir_expr *i = e->index[k];
		if (e->lanes > 1 && k == e->n - 1)
			i = twir_add(d->m, i, twir_var(d->m, b->at[b->n - 1].var));
		twirs_assume(&f, twir_simplify(&f, twir_lt(d->m, i, e->tensor->shape[k])), true);
	}
	for (int i = 0; i < b->nguards; i++)
		if (!twir_prove(&f, b->guards[i]))
			return false;
	return true;
}

static bool take(const struct twird_digits *g, unsigned *used)
{
	for (int i = 0; i < g->n; i++) {
		if (*used >> g->at[i].binder & 1)
			return false; /* one digit for two dimensions: a diagonal */
		*used |= 1u << g->at[i].binder;
	}
	return true;
}

/* Dimensions from .. to as one number; of: see twird_covers. */
static bool part_covered(struct twird *d, struct twir_facts *f, const struct twird_event *e,
			 const struct twird_binders *b, int from, int to, const struct twird_event *of, unsigned *used)
{
	struct twir_module *m = d->m;
	struct twird_digits g;
	const bool flat = e->n != e->tensor->rank;
	const struct twir_expr *last = of ? of->index[from] : NULL;
	if (of && from == e->n - 1)
		last = twir_add(m, last, twir_index(m, of->lanes - 1));
	if (!of) {
		const struct twir_expr *size = flat ? twir_tensor_elements(m, e->tensor) : e->tensor->shape[from];
		for (int k = from + 1; k <= to; k++)
			size = twir_mul(m, size, e->tensor->shape[k]);
		last = twir_sub(m, size, twir_index(m, 1));
	}
	return twird_digits_of(d, f, e, b, from, to, &g) && digits_reach(d, f, b, &g, last) && take(&g, used);
}

bool twird_covers(struct twird *d, const struct twird_event *e, const struct twird_binders *b,
		  const struct twird_event *of, unsigned same)
{
	struct twir_facts f;
	unsigned used = 0;
	struct twir_module *m = d->m;
	if (b->too_many || e->scattered || e->masked || (e->n != e->tensor->rank && e->n != 1))
		return false;
	twir_facts_init(&f, m);
	const struct twird_frame *common = of ? twird_common(e->frame, of->frame) : NULL;
	if (of)
		twird_launch(d, &f);
	twird_enter(&f, of ? of->frame : NULL);
	for (int k = 0; k < e->tensor->rank && !of; k++) /* of a tensor without elements there is nothing to reach */
		twirs_assume(&f, twir_simplify(&f, twir_lt(m, twir_index(m, 0), e->tensor->shape[k])), true);
	if (!guards_hold(d, e, b, common))
		return false;
	for (int k = 0, to; k < e->n; k = to + 1) { /* as few at a time as can be */
		bool ok = (same >> k & 1) != 0;
		for (to = k; !ok && to < e->n && !(same >> to & 1); to++) {
			unsigned now = used;
			ok = part_covered(d, &f, e, b, k, to, of, &now);
			used = ok ? now : used;
			if (ok || of)
				break;
		}
		if (!ok)
			return false;
	}
	/* what is in no index must happen at all */
	for (int i = 0; i < b->n; i++)
		if (!((used | b->pinned) >> i & 1) && !twir_prove(&f, twir_le(m, twir_index(m, 1), b->at[i].extent)))
			return false;
	return true;
}

/* The largest value of the index is that of the last turns: are they taken, whatever the sizes, and is it beyond? */
bool twird_beyond(struct twird *d, const struct twird_event *e, int k, const struct twir_expr *size)
{
	struct twir_module *m = d->m;
	struct twird_binders b;
	struct twir_facts f;
	struct twird_digits g;
	twird_bind(d, e, NULL, ~0u, &b);
	if (b.too_many || b.nguards || b.pinned || e->masked || e->scattered)
		return false;
	twir_facts_init(&f, m);
	if (!twird_digits_of(d, &f, e, &b, k, k, &g))
		return false;
	for (int i = 0; i < b.n; i++)
		if (!twir_prove(&f, twir_le(m, twir_index(m, 1), b.at[i].extent)))
			return false;
	for (int i = 0; i < g.n; i++)
		if (!twir_prove(&f, twir_le(m, twir_index(m, 0), g.at[i].stride)))
			return false;
	return twir_prove(&f, twir_le(m, size, twir_add(m, g.base, reach(d, &b, &g, g.n))));
}
