/* diagnose_walk: one walk over a program with the facts of each place: lists accesses and barriers for the other parts,
 * proves bounds, and finds barriers under what differs between the threads they wait for. */
#include "ir/diagnose_int.h"

static void block(struct twird *d, const struct twir_stmt *list);

/* What a value differs by within a block. */
struct differ {
	struct twird *d;
	unsigned bits;
};

static void differ(void *arg, const struct twir_expr *e)
{
	struct differ *x = arg;
	if ((e->kind == TWIR_Load && e->u.tensor->scope == TWIR_REGISTER) ||
	    (e->kind >= TWIR_ShflUp && e->kind <= TWIR_ShflIdx))
		x->bits |= TWIRD_BY_DATA;
	if (e->kind != TWIR_Var)
		return;
	const struct twir_var *v = e->u.var;
	x->bits |= (unsigned)(uintptr_t)map_get_ptr(&x->d->differs, v);
	if (v->kind != TWIR_WORKER)
		return;
	if (v->level == TWIR_LANE || v->level == TWIR_THREAD)
		x->bits |= TWIRD_BY_LANE;
	if (v->level == TWIR_WARP || v->level == TWIR_THREAD)
		x->bits |= TWIRD_BY_WARP;
}

static unsigned differs(struct twird *d, const struct twir_expr *e)
{
	struct differ x = {.d = d};
	if (d->gpu)
		twir_visit_expr(e, differ, &x);
	return x.bits;
}

static void set_differs(struct twird *d, const struct twir_var *v, unsigned bits)
{
	if (bits)
		map_set_ptr(&d->differs, v, (void *)(uintptr_t)bits);
}

static struct twird_frame *frame(struct twird *d, enum twird_frame_kind kind)
{
	struct twird_frame *f = ARENA_NEW(d->scratch, struct twird_frame);
	f->kind = kind;
	f->outer = d->at;
	f->depth = d->at ? d->at->depth + 1 : 1;
	f->stmt = d->stmt;
	return f;
}

static struct twird_event *event(struct twird *d, enum twird_kind kind)
{
	d->too_large |= d->events.n == TWIRD_EVENTS;
	vec_push(d->scratch, &d->events,
		 ((struct twird_event){.kind = kind, .frame = d->at, .stmt = d->stmt, .lanes = 1}));
	return &d->events.at[d->events.n - 1];
}

int twird_declared(const struct twird *d, const struct twir_tensor *t)
{
	return (int)(uintptr_t)map_get_ptr(&d->declared, t) - 1;
}

static const struct twir_expr *add(struct twird *d, const struct twir_expr *a, int64_t b)
{
	return twir_add(d->m, a, twir_index(d->m, b));
}

static void unproved_bound(struct twird *d, const struct twird_event *e, int k, const struct twir_expr *size)
{
	const char *access = twird_access(d, e), *index = twir_print_expr(d->scratch, e->index[k]);
	const char *end = twir_print_expr(d->scratch, size);
	if (!e->scattered && !e->fragment && twird_beyond(d, e, k, size))
		twird_say(d, TWIR_ERROR, e->stmt, "bound the loop (within (M, N)), or guard the access",
			  "out of bounds: index %d of %s, %s, goes beyond %s - 1 in the last turns", k, access, index,
			  end);
	else
		twird_say(d, TWIR_UNPROVED, e->stmt,
			  "a bound (within (M, N)), a guard or facts of the sizes would prove it",
			  "bounds of %s: is index %d, %s, within 0 .. %s - 1?", access, k, index, end);
}

static void check_bounds(struct twird *d, const struct twird_event *e)
{
	struct twir_facts *f = &d->facts;
	const struct twir_expr *zero = twir_index(d->m, 0);
	const bool flat = e->n == 1 && e->tensor->rank != 1;
	for (int k = 0; k < e->n; k++) {
		const struct twir_expr *size =
			flat ? twir_tensor_elements(d->m, e->tensor) : twir_simplify(f, e->tensor->shape[k]);
		const struct twir_expr *i = e->index[k];
		if (e->scattered) {
			const struct twir_range r = twir_range_of(f, i), n = twir_range_of(f, size);
			if (r.lo < 0 || r.hi >= n.lo)
				unproved_bound(d, e, k, size);
			continue;
		}
		const struct twir_expr *last = k == e->n - 1 ? add(d, i, e->lanes - 1) : i;
		if (!twir_prove(f, twir_le(d->m, zero, i)) || !twir_prove(f, twir_lt(d->m, last, size)))
			unproved_bound(d, e, k, size);
	}
}

static void access_of(struct twird *d, enum twird_kind kind, const struct twir_expr *expr, struct twir_tensor *t, int n,
		      const struct twir_expr *const *index, int lanes, bool masked)
{
	struct twird_event *e = event(d, kind);
	e->expr = expr;
	e->tensor = t;
	e->n = n;
	e->lanes = t->lanes > 1 ? 1 : lanes;
	e->masked = masked;
	for (int k = 0; k < n; k++)
		e->index[k] = twir_simplify(&d->facts, index[k]);
	e->scattered = n == 1 && index[0]->type.lanes > 1;
	check_bounds(d, e);
}

/* All that meet at a barrier or in an instruction of a warp must come to it: nothing around may differ between them. */
static void converge(struct twird *d, const char *what, unsigned all)
{
	for (const struct twird_frame *f = d->at; f; f = f->outer) {
		unsigned bits = f->cond ? differs(d, f->cond) : 0;
		for (int k = 0; k < f->n; k++)
			bits |= differs(d, f->extent[k]) | (f->bound[k] ? differs(d, f->bound[k]) : 0);
		const char *around = f->cond ? "condition" : "number of turns";
		const struct twir_expr *of = f->cond ? f->cond : f->extent[0];
		if (bits & all)
			twird_unsay(d, d->stmt);
		if (bits & all)
			twird_say(d, TWIR_ERROR, d->stmt, "move it out, and guard the accesses alone",
				  "%s under a %s that differs between the threads it waits for: %s (line %d)", what,
				  around, twir_print_expr(d->scratch, of), f->stmt->line);
		else if (bits & TWIRD_BY_DATA)
			twird_say(d, TWIR_UNPROVED, d->stmt,
				  "conditions around barriers should speak of sizes and loops",
				  "%s under a %s that depends on what a thread has computed: %s (line %d)", what,
				  around, twir_print_expr(d->scratch, of), f->stmt->line);
	}
}

/* The sides of a conditional that load are guarded; everything else happens where it stands. */
static void loads(struct twird *d, const struct twir_expr *e, struct tw_map *seen);

static void side(struct twird *d, const struct twir_expr *cond, bool holds, const struct twir_expr *e)
{
	if (!e->loads)
		return;
	const struct twird_frame *outer = d->at;
	struct twird_frame *f = frame(d, TWIRD_GUARD);
	struct tw_map seen;
	map_init(&seen, d->scratch);
	f->cond = holds ? cond : twirs_negate(d->m, cond);
	d->at = f;
	twirs_push(&d->facts);
	twirs_assume(&d->facts, cond, holds);
	loads(d, e, &seen);
	twirs_pop(&d->facts);
	d->at = outer;
}

static void loads(struct twird *d, const struct twir_expr *e, struct tw_map *seen)
{
	if (!e->loads || d->too_large || map_get_ptr(seen, e))
		return;
	map_set_ptr(seen, e, d);
	if (e->kind == TWIR_Cond && (e->arg[1]->loads || e->arg[2]->loads)) {
		const struct twir_expr *c = twir_simplify(&d->facts, e->arg[0]);
		int64_t known;
		loads(d, e->arg[0], seen);
		if (twir_const_int(c, &known)) {
			loads(d, e->arg[known ? 1 : 2], seen);
			return;
		}
		side(d, c, true, e->arg[1]);
		side(d, c, false, e->arg[2]);
		return;
	}
	if (e->kind == TWIR_Reduce && e->arg[0]->kind == TWIR_Load && e->arg[0]->type.lanes == 1)
		return; /* of all lanes' elements: no access of one of them */
	for (int k = 0; k < e->n; k++)
		loads(d, e->arg[k], seen);
	if (e->kind >= TWIR_ShflUp && e->kind <= TWIR_ShflIdx)
		converge(d, twir_kind_text((enum twir_kind)e->kind), TWIRD_BY_LANE);
	if (e->kind == TWIR_Load)
		access_of(d, TWIRD_LOAD, e, e->u.tensor, e->nidx, e->arg, e->type.lanes, e->n > e->nidx);
	else if (e->kind == TWIR_Gather)
		access_of(d, TWIRD_LOAD, e, e->u.tensor, 1, e->arg, e->type.lanes, e->n > 1);
}

static void loads_of(struct twird *d, const struct twir_expr *e)
{
	struct tw_map seen;
	if (!e->loads)
		return;
	map_init(&seen, d->scratch);
	loads(d, e, &seen);
}

static void let(struct twird *d, const struct twir_stmt *s)
{
	const struct twir_var *v = s->u.let.var;
	loads_of(d, s->u.let.value);
	set_differs(d, v, differs(d, s->u.let.value));
	if (v->type.lanes > 1 || !twir_is_int((enum twir_scalar)v->type.scalar))
		return;
	const struct twir_expr *value = twir_simplify(&d->facts, s->u.let.value);
	if (value->loads)
		twirs_define(&d->facts, v, value); /* a number that stays what it is */
	else
		twirs_replace(&d->facts, v, value);
}

static void store(struct twird *d, const struct twir_stmt *s)
{
	for (int k = 0; k < s->u.store.n; k++)
		loads_of(d, s->u.store.index[k]);
	if (s->u.store.mask)
		loads_of(d, s->u.store.mask);
	loads_of(d, s->u.store.value);
	access_of(d, TWIRD_STORE, NULL, s->u.store.tensor, s->u.store.n, s->u.store.index, s->u.store.value->type.lanes,
		  s->u.store.mask != NULL);
}

void twird_below(struct twir_facts *f, const struct twir_expr *v, const struct twir_expr *extent)
{
	const struct twir_range r = twir_range_of(f, extent);
	twirs_narrow(f, v, 0, r.hi > 0 ? r.hi - 1 : 0);
	if (extent->kind == TWIR_Const || extent->loads)
		return;
	twirs_assume(f, twir_lt(f->m, twir_index(f->m, 0), extent), true);
	twirs_assume(f, twir_lt(f->m, v, extent), true);
}

/* The body inside a frame. */
static void body(struct twird *d, const struct twird_frame *f, const struct twir_stmt *list)
{
	const struct twird_frame *outer = d->at;
	const struct twir_stmt *s = d->stmt;
	d->at = f;
	twirs_push(&d->facts);
	for (int k = 0; k < f->n; k++) {
		twird_below(&d->facts, twir_var(d->m, f->vars[k]), f->extent[k]);
		if (f->bound[k])
			twird_below(&d->facts, twir_var(d->m, f->vars[k]), f->bound[k]);
	}
	if (f->cond)
		twirs_assume(&d->facts, f->cond, true);
	block(d, list);
	twirs_pop(&d->facts);
	d->at = outer;
	d->stmt = s;
}

static bool has_projection(const struct twir_map *f)
{
	return f->kind == TWTM_PROJECT || (f->kind == TWTM_COMPOSE && (has_projection(f->a) || has_projection(f->b)));
}

static void formap(struct twird *d, const struct twir_stmt *s)
{
	struct twird_frame *f = frame(d, TWIRD_TASKS);
	unsigned bits = 0;
	f->n = s->u.formap.n;
	f->projected = has_projection(s->u.formap.map);
	for (int i = 0; i < s->u.formap.nlevels; i++) {
		const enum twir_level l = s->u.formap.levels[i];
		f->levels |= 1u << l;
		bits |= l == TWIR_LANE ? TWIRD_BY_LANE : l == TWIR_WARP ? TWIRD_BY_WARP : 0;
		bits |= l == TWIR_THREAD ? TWIRD_BY_LANE | TWIRD_BY_WARP : 0;
	}
	for (int k = 0; k < f->n; k++) {
		f->vars[k] = s->u.formap.vars[k];
		f->extent[k] = twir_simplify(&d->facts, twir_map_extent(d->m, s->u.formap.map, k));
		if (twir_range_of(&d->facts, f->extent[k]).hi <= 0)
			return;
		const struct twir_expr *b = s->u.formap.bounds ? s->u.formap.bounds[k] : NULL;
		if (b)
			loads_of(d, b);
		if (b && !twir_prove(&d->facts, twir_le(d->m, f->extent[k], b)))
			f->bound[k] = twir_simplify(&d->facts, b);
		set_differs(d, f->vars[k], (d->gpu ? bits : 0) | differs(d, f->extent[k]));
	}
	body(d, f, s->u.formap.body);
}

static void loop(struct twird *d, const struct twir_stmt *s)
{
	struct twird_frame *f = frame(d, TWIRD_LOOP);
	loads_of(d, s->u.loop.extent);
	f->n = 1;
	f->vars[0] = s->u.loop.var;
	f->extent[0] = twir_simplify(&d->facts, s->u.loop.extent);
	set_differs(d, s->u.loop.var, differs(d, f->extent[0]));
	if (twir_range_of(&d->facts, f->extent[0]).hi > 0)
		body(d, f, s->u.loop.body);
}

static void branch(struct twird *d, const struct twir_stmt *s)
{
	const struct twir_expr *c = twir_simplify(&d->facts, s->u.branch.cond);
	int64_t known;
	loads_of(d, s->u.branch.cond);
	for (int other = 0; other < 2; other++) {
		const struct twir_stmt *list = other ? s->u.branch.other : s->u.branch.body;
		if (twir_const_int(c, &known) && (known != 0) == (other != 0))
			continue;
		struct twird_frame *f = frame(d, TWIRD_GUARD);
		f->cond = other ? twirs_negate(d->m, c) : c;
		body(d, f, list);
	}
}

static void barrier(struct twird *d, const struct twir_stmt *s)
{
	const unsigned all = s->u.barrier.level == TWIR_WARP ? TWIRD_BY_LANE : TWIRD_BY_LANE | TWIRD_BY_WARP;
	event(d, TWIRD_SYNC)->level = s->u.barrier.level;
	converge(d, s->u.barrier.level == TWIR_WARP ? "barrier warp" : "barrier block", all);
}

/* Each lane reads the fragments and stores one again: what was stored before it must be all of them. */
static void mma(struct twird *d, const struct twir_stmt *s)
{
	const struct twir_mma *shape = s->u.mma.shape;
	converge(d, shape->name, TWIRD_BY_LANE);
	for (int p = 0; p < 3; p++) {
		const struct twir_fragment *f = &s->u.mma.part[p];
		const struct twir_expr *index[TWIR_MAX_RANK];
		for (int k = 0; k < f->tensor->rank; k++)
			index[k] = k < f->n ? f->index[k] : add(d, f->tensor->shape[k], -1);
		access_of(d, TWIRD_LOAD, NULL, f->tensor, f->tensor->rank, index, 1, false);
		d->events.at[d->events.n - 1].fragment = true;
	}
}

static void statement(struct twird *d, const struct twir_stmt *s)
{
	d->stmt = s;
	switch (s->kind) {
	case TWIR_LET:
		let(d, s);
		break;
	case TWIR_DECLARE:
		event(d, TWIRD_DECLARE)->tensor = s->u.declare.tensor;
		map_set_ptr(&d->declared, s->u.declare.tensor, (void *)(uintptr_t)d->events.n);
		break;
	case TWIR_STORE:
		store(d, s);
		break;
	case TWIR_FOR:
		loop(d, s);
		break;
	case TWIR_FORMAP:
		formap(d, s);
		break;
	case TWIR_IF:
		branch(d, s);
		break;
	case TWIR_SPECIALISE:
		block(d, s->u.branch.body);
		break;
	case TWIR_BARRIER:
		barrier(d, s);
		break;
	case TWIR_MMA:
		mma(d, s);
		break;
	case TWIR_COMMIT:
		event(d, TWIRD_COMMIT);
		break;
	case TWIR_WAIT:
		event(d, TWIRD_WAIT)->pending = s->u.wait.pending;
		break;
	default: /* no access, and nothing that waits */
		break;
	}
}

static void block(struct twird *d, const struct twir_stmt *list)
{
	for (const struct twir_stmt *s = list; s && !d->too_large; s = s->next)
		statement(d, s);
}

void twird_walk(struct twird *d)
{
	twir_facts_init(&d->facts, d->m);
	map_init(&d->differs, d->scratch);
	map_init(&d->declared, d->scratch);
	for (int i = 0; i < d->p->nlevels; i++)
		twird_below(&d->facts, twir_worker(d->m, d->p->levels[i]), twir_simplify(&d->facts, d->p->extents[i]));
	block(d, d->p->body);
}
