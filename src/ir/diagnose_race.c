/* diagnose_race: two workers do not touch one element of a shared tensor, one of them storing, with nothing that keeps
 * them apart. On a GPU workers are threads and barriers keep apart; on a CPU lanes, apart between regions. Two accesses
 * are looked at when some way from one to the other meets no barrier, within one turn of the loops around both or from
 * one turn to the next. Proved where they differ in some index whoever runs them, or where the same element means the
 * same worker, because both hand out elements by the same mapping. Outputs are diagnose_once.c's. */
#include "ir/diagnose_int.h"

#define PAIRS 4000

struct races {
	struct twird *d;
	int pairs;
};

/* Loops that a frame's inside runs through as one: those of one worker. */
static bool is_parallel(const struct twird *d, const struct twird_frame *f)
{
	const unsigned inner = d->gpu ? 1u << TWIR_THREAD | 1u << TWIR_WARP | 1u << TWIR_LANE : 1u << TWIR_LANE;
	return (f->levels & inner) != 0;
}

/* Is the barrier met by whoever comes past it between a and b (NULL: none)? What stands around the barrier must stand
 * around one of them too, or run at least once. */
static bool is_met(struct twird *d, const struct twird_event *barrier, const struct twird_frame *within,
		   const struct twird_event *a, const struct twird_event *b)
{
	if (barrier->kind != TWIRD_SYNC || barrier->level != TWIR_BLOCK)
		return false;
	for (const struct twird_frame *f = barrier->frame; f != within; f = f->outer) {
		if ((a && twird_inside(a->frame, f)) || (b && twird_inside(b->frame, f)))
			continue;
		struct twir_facts facts;
		if (f->kind != TWIRD_LOOP)
			return false;
		twir_facts_init(&facts, d->m);
		twird_enter(&facts, f->outer);
		if (!twir_prove(&facts, twir_le(d->m, twir_index(d->m, 1), f->extent[0])))
			return false;
	}
	return true;
}

static bool barrier_between(struct twird *d, int i, int j)
{
	for (int k = i + 1; k < j; k++)
		if (d->events.at[k].kind == TWIRD_SYNC &&
		    is_met(d, &d->events.at[k], NULL, &d->events.at[i], &d->events.at[j]))
			return true;
	return false;
}

/* From event j to the end of the loop's body, and from its start to event i. */
static bool barrier_around(struct twird *d, int i, int j, const struct twird_frame *loop)
{
	for (int k = 0; k < d->events.n; k++)
		if ((k < i || k > j) && d->events.at[k].kind == TWIRD_SYNC &&
		    twird_inside(d->events.at[k].frame, loop) &&
		    is_met(d, &d->events.at[k], loop, &d->events.at[k > j ? j : i], NULL))
			return true;
	return false;
}

/* Does each turn of the loop meet a barrier? */
static bool barrier_inside(struct twird *d, const struct twird_frame *loop)
{
	for (int k = 0; k < d->events.n; k++)
		if (d->events.at[k].kind == TWIRD_SYNC && twird_inside(d->events.at[k].frame, loop) &&
		    is_met(d, &d->events.at[k], loop, NULL, NULL))
			return true;
	return false;
}

/* The outermost frame that hands out work to the workers in question; what is inside it is a worker's own. */
static const struct twird_frame *own_part(const struct twird *d, const struct twird_frame *f)
{
	const struct twird_frame *r = NULL;
	for (; f; f = f->outer)
		if (is_parallel(d, f))
			r = f;
	return r;
}

/* Variables of frames inside `above` get other names; raw worker numbers too. */
struct rename {
	struct twird *d;
	struct twir_subst put;
	const struct twir_expr *cond[TWIRD_BINDERS];
	int n;
	bool too_many;
};

static void assume_renamed(struct rename *r, const struct twir_expr *cond)
{
	r->too_many |= r->n == TWIRD_BINDERS;
	if (!r->too_many)
		r->cond[r->n++] = twir_subst_expr(&r->put, cond);
}

static void fresh(struct rename *r, struct twir_var *v, const struct twir_expr *extent)
{
	struct twir_module *m = r->d->m;
	struct twir_var *n = ARENA_NEW(m->arena, struct twir_var);
	*n = *v;
	n->id = m->next_id++;
	n->kind = TWIR_LOOP;
	twir_subst_set(&r->put, v, twir_var(m, n));
	if (extent)
		assume_renamed(r, twir_lt(m, twir_var(m, v), extent));
}

static void rename_frames(struct rename *r, const struct twird_frame *f, const struct twird_frame *above)
{
	struct twir_module *m = r->d->m;
	if (f == above)
		return;
	rename_frames(r, f->outer, above);
	for (int k = 0; k < f->n; k++) {
		fresh(r, f->vars[k], f->extent[k]);
		if (f->bound[k])
			assume_renamed(r, twir_lt(m, twir_var(m, f->vars[k]), f->bound[k]));
	}
	if (f->cond)
		assume_renamed(r, f->cond);
}

/* x % c and y % c where (x - y) % c is a number other than 0, as in double buffers. */
static bool other_residue(struct twir_facts *f, const struct twir_expr *x, const struct twir_expr *y)
{
	int64_t c, r;
	if (x->kind != TWIR_Mod || y->kind != TWIR_Mod || x->arg[1] != y->arg[1] || !twir_const_int(x->arg[1], &c))
		return false;
	const struct twir_expr *d = twir_mod(f->m, twir_sub(f->m, x->arg[0], y->arg[0]), x->arg[1]);
	return c > 1 && twir_const_int(twir_simplify(f, d), &r) && r != 0;
}

/* On a GPU threads that store to one byte race, though their elements differ: of packed types nothing below is proved. */
static bool shares_bytes(const struct twird *d, const struct twird_event *e)
{
	return d->gpu && twir_is_packed(e->tensor->type);
}

bool twird_apart(struct twird *d, const struct twird_event *a, const struct twird_event *b,
		 const struct twird_frame *common, const struct twird_turns *turns)
{
	const struct twird_frame *next = turns->next;
	static const enum twir_level raw[] = {TWIR_THREAD, TWIR_WARP, TWIR_LANE};
	struct twir_module *m = d->m;
	struct twir_facts f;
	struct rename r = {.d = d};
	struct twir_subst first;
	const struct twird_frame *mine = own_part(d, common);
	const struct twird_frame *shared = mine ? mine->outer : common; /* the same for both */
	if (a->n != b->n || a->scattered || b->scattered || shares_bytes(d, a))
		return false;
	twir_subst_init(&r.put, m);
	for (int i = 0; i < TW_COUNT(raw); i++)
		if (m->workers[raw[i]])
			fresh(&r, m->workers[raw[i]], NULL);
	if (next) /* the loops inside it are at any turn */
		shared = next->outer;
	rename_frames(&r, b->frame, shared);
	if (r.too_many)
		return false;
	twir_facts_init(&f, m);
	twird_launch(d, &f);
	twird_enter(&f, a->frame);
	if (next) {
		const struct twir_expr *v = twir_var(m, next->vars[0]), *after = twir_add(m, v, twir_index(m, 1));
		const struct twir_expr *later = twir_subst_expr(&r.put, v);
		if (turns->ahead > 0) {
			after = twir_add(m, v, twir_index(m, turns->ahead));
			twirs_assume(&f, twir_eq(m, later, after), true);
			twir_subst_set(&r.put, next->vars[0], after);
		} else if (barrier_inside(d, next)) { /* which keeps all but the turn right after apart */
			twirs_assume(&f, twir_eq(m, later, after), true);
			twir_subst_set(&r.put, next->vars[0], after);
		} else {
			twirs_assume(&f, twir_le(m, after, later), true);
		}
	}
	twir_subst_init(&first, m);
	for (int i = 0; i < turns->n; i++) {
		const struct twird_turn *t = &turns->at[i];
		const struct twir_expr *v = twir_var(m, t->var), *number = twir_index(m, t->number);
		twirs_assume(&f, twir_eq(m, t->second ? twir_subst_expr(&r.put, v) : v, number), true);
		twir_subst_set(t->second ? &r.put : &first, t->var, number);
	}
	for (int i = 0; i < r.n; i++)
		twirs_assume(&f, twir_simplify(&f, r.cond[i]), true);
	for (int k = 0; k < a->n; k++) {
		const struct twir_expr *x = twir_subst_expr(&first, a->index[k]);
		const struct twir_expr *y = twir_subst_expr(&r.put, b->index[k]);
		const bool last = k == a->n - 1;
		const struct twir_expr *xe = last ? twir_add(m, x, twir_index(m, a->lanes - 1)) : x;
		const struct twir_expr *ye = last ? twir_add(m, y, twir_index(m, b->lanes - 1)) : y;
		if (!twirs_is_index(x) || !twirs_is_index(y))
			continue;
		if (twir_prove(&f, twir_lt(m, xe, y)) || twir_prove(&f, twir_lt(m, ye, x)) ||
		    (xe == x && ye == y && (other_residue(&f, x, y) || twir_prove(&f, twir_ne(m, x, y)))))
			return true;
	}
	return false;
}

/* Is it one worker alone, by its number? */
static bool is_one_worker(struct twird *d, const struct twird_event *e)
{
	struct twir_facts f;
	bool one = d->gpu && !own_part(d, e->frame);
	twir_facts_init(&f, d->m);
	twird_launch(d, &f);
	twird_enter(&f, e->frame);
	for (int i = 0; i < d->p->nlevels && one; i++) {
		const struct twir_range r = twir_range_of(&f, twir_worker(d->m, d->p->levels[i]));
		one = d->p->levels[i] == TWIR_BLOCK || r.lo == r.hi;
	}
	return one;
}

static bool same_one(struct twird *d, const struct twird_event *a, const struct twird_event *b)
{
	if (!is_one_worker(d, a) || !is_one_worker(d, b))
		return false;
	const struct twird_frame *common = twird_common(a->frame, b->frame);
	const struct twird_event both = {.frame = common};
	return a->frame == b->frame || is_one_worker(d, &both);
}

/* Does the same element mean the same worker? Both hand out work by the same mapping and take the same element of each
 * task, and no two tasks take the same one. next: a loop whose turn is a later one for b. */
static bool same_worker(struct twird *d, const struct twird_event *a, const struct twird_event *b,
			const struct twird_frame *common, const struct twird_frame *next)
{
	const unsigned raw = d->gpu ? 1u << TWIR_THREAD | 1u << TWIR_WARP | 1u << TWIR_LANE : 0;
	const struct twird_frame *mine = own_part(d, common), *outer = mine ? mine->outer : common;
	struct twird_binders own;
	unsigned same;
	if (same_one(d, a, b))
		return true;
	if (shares_bytes(d, a) || a->n != b->n || a->lanes != b->lanes || !twird_alike(d, a, b, common, &same))
		return false;
	for (int k = 0; k < a->n && next; k++) /* in another turn the index may be another */
		if (twir_uses_var(a->index[k], next->vars[0]))
			same &= ~(1u << k);
	twird_bind(d, a, next ? next : outer, raw, &own);
	return twird_injective(d, a, &own, same);
}

static void tell(struct twird *d, const struct twird_event *a, const struct twird_event *b, bool turns)
{
	const bool itself = a == b;
	twird_say(d, TWIR_UNPROVED, b->stmt,
		  d->gpu ? "a barrier between them, or the same mapping for both, is proved by itself"
			 : "two loops on lane, or the same index for both, are proved by themselves",
		  itself ? "do two workers store to one element here? %s%s"
			 : "do two workers touch one element without a barrier? %s%s and %s on line %d",
		  twird_access(d, b), itself && turns ? " in different turns" : "", itself ? "" : twird_access(d, a),
		  itself ? 0 : a->stmt->line);
}

static void check_pair(struct races *r, int i, int j)
{
	struct twird *d = r->d;
	const struct twird_event *a = &d->events.at[i], *b = &d->events.at[j];
	const struct twird_frame *common = twird_common(a->frame, b->frame);
	if (!d->gpu && !own_part(d, common))
		return; /* not in one region of lanes */
	if (!barrier_between(d, i, j) && !twird_apart(d, a, b, common, &(struct twird_turns){0}) &&
	    !same_worker(d, a, b, common, NULL)) {
		tell(d, a, b, false);
		return;
	}
	/* from one turn to the next, in loops that all workers run through together */
	const struct twird_frame *mine = own_part(d, common);
	for (const struct twird_frame *f = mine ? mine->outer : common; f && d->gpu; f = f->outer) {
		if (f->kind != TWIRD_LOOP)
			continue;
		if (barrier_around(d, i, j, f))
			return; /* of outer loops too: it is met in them */
		if (!twird_apart(d, b, a, common, &(struct twird_turns){.next = f}) &&
		    !same_worker(d, b, a, common, f)) {
			tell(d, a, b, true);
			return;
		}
	}
}

void twird_races(struct twird *d)
{
	struct races r = {.d = d};
	twird_copies(d);
	for (int i = 0; i < d->events.n; i++)
		for (int j = i; j < d->events.n; j++) {
			const struct twird_event *a = &d->events.at[i], *b = &d->events.at[j];
			const bool stores = a->kind == TWIRD_STORE || b->kind == TWIRD_STORE;
			const bool accesses = a->kind <= TWIRD_STORE && b->kind <= TWIRD_STORE;
			if (!accesses || !stores || a->tensor != b->tensor || a->tensor->scope != TWIR_SHARED)
				continue;
			if (++r.pairs > PAIRS) {
				twird_say(d, TWIR_UNPROVED, NULL, NULL,
					  "the program is too large to be proved free of races");
				return;
			}
			check_pair(&r, i, j);
		}
}
