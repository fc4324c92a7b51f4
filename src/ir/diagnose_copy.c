/* diagnose_copy: what asynchronous copies fill is touched only where they have arrived and all threads know. A copy is
 * in the group that the thread's next commit ends; a wait for all but n groups covers it when n + 1 commits or more
 * lie between; a barrier of the block behind the wait tells the others. The way from a copy to whoever touches the
 * tensor is written down, event by event, for a number of turns of the loops around them; commits, waits and barriers
 * that may be left out are not counted, and more of them, or more turns, would only make more copies arrive. Where a
 * copy is not known to have arrived it must fill other elements: double buffers, rings. */
#include "ir/diagnose_int.h"

#define TURNS 8 /* as many are followed */

struct way {
	struct twird *d;
	int64_t commits;
	bool waited, told;
};

/* Events from .. to - 1 that surely happen in a turn of `body` (NULL: the program's): no condition or loop around them
 * but those that are around `a` or `b` (NULL: nobody) too. */
static void walk(struct way *w, int from, int to, const struct twird_frame *body, const struct twird_frame *a,
		 const struct twird_frame *b)
{
	for (int k = from < 0 ? 0 : from; k < to && k < w->d->events.n; k++) {
		const struct twird_event *e = &w->d->events.at[k];
		bool sure = twird_inside(e->frame, body) || body == NULL;
		for (const struct twird_frame *f = e->frame; f && f != body && sure; f = f->outer)
			sure = f->kind == TWIRD_GUARD && ((a && twird_inside(a, f)) || (b && twird_inside(b, f)));
		if (!sure)
			continue;
		if (e->kind == TWIRD_COMMIT)
			w->commits++;
		else if (e->kind == TWIRD_WAIT)
			w->waited |= w->commits > e->pending;
		else if (e->kind == TWIRD_SYNC && e->level == TWIR_BLOCK)
			w->told |= w->waited;
	}
}

/* The first event inside the frame, and the one behind its last. */
static void extent_of(struct twird *d, const struct twird_frame *f, int *first, int *end)
{
	*first = d->events.n;
	*end = 0;
	for (int k = 0; k < d->events.n; k++)
		if (f == NULL || twird_inside(d->events.at[k].frame, f)) {
			*first = k < *first ? k : *first;
			*end = k + 1;
		}
}

/* The outermost loop of one worker that is inside `above`; what is in loops inside it is not counted. */
static const struct twird_frame *own_loop(const struct twird_frame *f, const struct twird_frame *above)
{
	const struct twird_frame *r = NULL;
	for (; f && f != above; f = f->outer)
		if (f->kind == TWIRD_LOOP)
			r = f;
	return r;
}

/* The frame that commits and barriers beside `f` are in: conditions are looked at one by one. */
static const struct twird_frame *body_of(const struct twird_frame *f)
{
	while (f && f->kind == TWIRD_GUARD)
		f = f->outer;
	return f;
}

/* From copy a, in turn `turn` of its loop (NULL: none), to b, in turn `later` of its own. */
static bool arrived(struct twird *d, int a, int b, const struct twird_frame *common, const struct twird_frame *la,
		    int64_t turn, int64_t turns, const struct twird_frame *lb, int64_t later)
{
	struct way w = {.d = d};
	int first, end, from = a + 1, to = b;
	const struct twird_frame *body = body_of(common), *fa = d->events.at[a].frame, *fb = d->events.at[b].frame;
	if (la) {
		extent_of(d, la, &first, &end);
		walk(&w, a + 1, end, la, fa, NULL);
		for (int64_t t = turn + 1; t < turns; t++)
			walk(&w, first, end, la, NULL, NULL);
		from = end;
	}
	if (lb) {
		extent_of(d, lb, &first, &end);
		to = first;
	}
	walk(&w, from, to, body, fa, fb);
	if (lb) {
		for (int64_t t = 0; t < later; t++)
			walk(&w, first, end, lb, NULL, NULL);
		walk(&w, first, b, lb, fb, NULL);
	}
	return w.told;
}

/* a before b in the text, and in the same turn of all loops around both. Of a's loop each turn is looked at, where they
 * are few, else the last, from which the way is shortest; of b's loop the first ones, until a copy has arrived. */
static bool same_turn(struct twird *d, int a, int b, const struct twird_frame *common)
{
	const struct twird_event *x = &d->events.at[a], *y = &d->events.at[b];
	const struct twird_frame *la = own_loop(x->frame, common), *lb = own_loop(y->frame, common);
	int64_t turns = 1;
	const bool counted = la && twir_const_int(la->extent[0], &turns) && turns <= TURNS;
	turns = counted ? turns : 1;
	for (int64_t t = 0; t < turns; t++) {
		struct twird_turns at = {0};
		if (counted)
			at.at[at.n++] = (struct twird_turn){la->vars[0], t, false};
		if (twird_apart(d, x, y, common, &at))
			continue;
		const int mine = at.n++;
		for (int64_t s = 0; !arrived(d, a, b, common, la, t, turns, lb, s); s++) {
			if (!lb || s == TURNS)
				return false;
			at.at[mine] = (struct twird_turn){lb->vars[0], s, true};
			if (!twird_apart(d, x, y, common, &at))
				return false;
		}
	}
	return true;
}

/* b in a later turn of the loop than a. */
static bool later_turn(struct twird *d, int a, int b, const struct twird_frame *common, const struct twird_frame *loop)
{
	const struct twird_event *x = &d->events.at[a], *y = &d->events.at[b];
	int first, end;
	extent_of(d, loop, &first, &end);
	for (int64_t ahead = 1; ahead <= TURNS; ahead++) {
		struct way w = {.d = d};
		int64_t turns;
		if (twir_const_int(loop->extent[0], &turns) && turns <= ahead)
			return true;
		walk(&w, a + 1, end, loop, x->frame, NULL);
		for (int64_t t = 1; t < ahead; t++)
			walk(&w, first, end, loop, NULL, NULL);
		walk(&w, first, b, loop, y->frame, NULL);
		if (w.told)
			return true;
		const struct twird_turns at = {.next = loop, .ahead = ahead};
		if (!twird_apart(d, x, y, common, &at))
			return false;
	}
	return false;
}

static bool repeats(const struct twir_map *f)
{
	int64_t n;
	if (f->kind == TWTM_COMPOSE)
		return repeats(f->a) || repeats(f->b);
	if (f->kind != TWTM_REPEAT)
		return f->kind == TWTM_PROJECT && repeats(f->a);
	for (int k = 0; k < f->rank; k++)
		if (!twir_const_int(f->extent[k], &n) || n > 1)
			return true;
	return false;
}

/* A worker's tasks in a mapping around both follow each other like turns, but in an order of their own. */
static bool other_tasks(struct twird *d, int a, int b, const struct twird_frame *common,
			const struct twird_frame *tasks)
{
	if (!repeats(tasks->stmt->u.formap.map))
		return true;
	if (tasks->levels & 1u << TWIR_BLOCK)
		return false;
	return a == b || twird_apart(d, &d->events.at[a], &d->events.at[b], common, &(struct twird_turns){0});
}

static void check(struct twird *d, int copy, int declared)
{
	const struct twird_event *a = &d->events.at[copy];
	const struct twird_frame *home = declared < 0 ? NULL : d->events.at[declared].frame;
	for (int i = 0; i < d->events.n; i++) {
		const struct twird_event *b = &d->events.at[i];
		if (b->kind > TWIRD_STORE || b->tensor != a->tensor)
			continue;
		const struct twird_frame *common = twird_common(a->frame, b->frame);
		bool good = i <= copy || same_turn(d, copy, i, common);
		for (const struct twird_frame *f = common; f && f != home && good; f = f->outer)
			good = f->kind == TWIRD_LOOP	? later_turn(d, copy, i, common, f)
			       : f->kind == TWIRD_TASKS ? other_tasks(d, copy, i, common, f)
							: true;
		if (!good)
			twird_say(d, TWIR_UNPROVED, a->stmt,
				  "`wait N` where N groups or more have been committed since, and `barrier block` "
				  "behind it, are proved; until then another part of the buffer is",
				  "is the copy to %s waited for before %s on line %d?", a->tensor->base,
				  twird_access(d, b), b->stmt->line);
	}
}

void twird_copies(struct twird *d)
{
	for (int i = 0; i < d->events.n; i++) {
		const struct twird_event *e = &d->events.at[i];
		if (e->kind == TWIRD_STORE && e->stmt->u.store.async)
			check(d, i, twird_declared(d, e->tensor));
	}
}
