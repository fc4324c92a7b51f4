/* hoist: index arithmetic that does not change in a loop becomes lets before it; sums are regrouped so that what is
 * fixed comes first. needs: unroll_registers (offsets are whole); breaks: nothing.
 *
 * The C compiler cannot do it: total division is a conditional expression, and offsets come in the simplifier's
 * order, not by loop depth. Only integers without loads move, scalars of type index and vectors that cost something:
 * they are pure and total. A let goes right before the outermost loop that it is fixed in, so nothing is evaluated
 * that the block around that loop would not reach. */
#include "pass/pass_int.h"

enum { MOST_LOOPS = 64 };

struct level { /* a loop that is open */
	struct twp_list lets;
	struct tw_map memo; /* expr -> its variable */
};

struct hoist {
	struct twir_module *m;
	struct tw_map depths; /* variable -> depth + 1 at which it is bound; absent: a symbol or worker */
	int depth;
	bool gpu;
	struct level level[MOST_LOOPS];
};

static int depth_of(struct hoist *h, const struct twir_expr *e)
{
	if (e->kind == TWIR_Var)
		return (int)(intptr_t)map_get_ptr(&h->depths, e->u.var) - (map_get_ptr(&h->depths, e->u.var) ? 1 : 0);
	int d = 0;
	for (int i = 0; i < e->n; i++) {
		const int own = depth_of(h, e->arg[i]);
		d = own > d ? own : d;
	}
	return d;
}

static bool constant(const struct twir_expr *e)
{
	return e->kind == TWIR_Const;
}

/* More than an address computation does for nothing? */
static bool worth(const struct twir_expr *e)
{
	switch (e->kind) {
	case TWIR_Const:
	case TWIR_Var:
		return false;
	case TWIR_Add:
	case TWIR_Sub:
	case TWIR_Mul:
		if (!constant(e->arg[0]) && !constant(e->arg[1]))
			return true;
		return worth(e->arg[0]) || worth(e->arg[1]);
	default:
		return true;
	}
}

/* Of index vectors and masks: what is more than a splat and a few additions, for vectors that wait occupy registers. */
static bool worth_vector(const struct twir_expr *e)
{
	switch (e->kind) {
	case TWIR_Mul: /* strides of lanes are constants in C, and the emitter knows them */
		return e->arg[0]->kind != TWIR_Iota || e->arg[1]->kind != TWIR_Splat || !constant(e->arg[1]->arg[0]);
	case TWIR_Div:
	case TWIR_Mod:
	case TWIR_Min:
	case TWIR_Max:
		return true;
	case TWIR_Splat:
	case TWIR_Cast: /* widening stays where it is used: gathers take a base and narrow offsets */
		return false;
	default:
		for (int i = 0; i < e->n; i++)
			if (e->arg[i]->type.lanes > 1 && worth_vector(e->arg[i]))
				return true;
		return false;
	}
}

static const struct twir_expr *rewrite(struct hoist *h, const struct twir_expr *e, int depth);

static const struct twir_expr *by_args(struct hoist *h, const struct twir_expr *e, int depth)
{
	const struct twir_expr *arg[64];
	TW_CHECK(e->n <= TW_COUNT(arg));
	for (int i = 0; i < e->n; i++)
		arg[i] = rewrite(h, e->arg[i], depth);
	return twir_with_args(h->m, e, arg);
}

enum { MOST_TERMS = 64 };

struct terms {
	int n;
	struct {
		const struct twir_expr *e;
		bool negate;
		int home;
	} at[MOST_TERMS];
};

/* The terms of a sum; constants belong to the last group: they are displacements. False: too many. */
static bool terms(struct hoist *h, const struct twir_expr *e, bool negate, int depth, struct terms *t)
{
	int64_t value;
	if (e->kind == TWIR_Add || e->kind == TWIR_Sub)
		return terms(h, e->arg[0], negate, depth, t) &&
		       terms(h, e->arg[1], negate ^ (e->kind == TWIR_Sub), depth, t);
	if (twir_const_int(e, &value) && value == 0)
		return true; /* of 0 - x */
	if (t->n == MOST_TERMS)
		return false;
	t->at[t->n].e = e;
	t->at[t->n].negate = negate;
	t->at[t->n++].home = constant(e) ? depth + 1 : depth_of(h, e);
	return true;
}

/* ((what is fixed longest) + ..) + what changes here + constants */
static const struct twir_expr *sum(struct hoist *h, const struct twir_expr *e, int depth)
{
	struct twir_module *m = h->m;
	const struct twir_expr *all = NULL;
	struct terms t = {0};
	bool one_group = true;
	if (!terms(h, e, false, depth, &t))
		return by_args(h, e, depth);
	for (int i = 1; i < t.n; i++)
		one_group &= t.at[i].home == t.at[0].home;
	if (one_group)
		return by_args(h, e, depth);
	for (int d = 0; d <= depth + 1; d++) {
		bool first = true;
		for (int i = 0; i < t.n; i++) {
			if (t.at[i].home != d)
				continue;
			/* What came before is fixed where this group changes. */
			if (first && all && d <= depth)
				all = rewrite(h, all, d);
			first = false;
			const struct twir_expr *x = d <= depth ? rewrite(h, t.at[i].e, depth) : t.at[i].e;
			all = t.at[i].negate ? twir_sub(m, all ? all : twir_index(m, 0), x)
			      : all	     ? twir_add(m, all, x)
					     : x;
		}
	}
	return all;
}

static const struct twir_expr *bind(struct hoist *h, const struct twir_expr *e, const struct twir_expr *value, int home)
{
	struct level *l = &h->level[home];
	struct twir_var *v = twir_var_new(h->m, TWIR_BOUND, e->type, e->type.lanes > 1 ? "v" : "o");
	map_set_ptr(&h->depths, v, (void *)(intptr_t)(home + 1));
	map_set_ptr(&l->memo, e, v);
	twp_list_add(&l->lets, twir_let(h->m, v, value));
	return twir_var(h->m, v);
}

/* At the top of a GPU's program: divisions have names of their own, each once; what is made of them stays where it is. */
static const struct twir_expr *divisions(struct hoist *h, const struct twir_expr *e)
{
	const struct twir_expr *arg[64];
	if (e->n == 0 || e->loads || e->type.scalar != TWIR_INDEX || e->type.lanes > 1)
		return e;
	const struct twir_var *known = map_get_ptr(&h->level[0].memo, e);
	if (known)
		return twir_var(h->m, (struct twir_var *)(uintptr_t)known);
	TW_CHECK(e->n <= TW_COUNT(arg));
	for (int i = 0; i < e->n; i++)
		arg[i] = divisions(h, e->arg[i]);
	const struct twir_expr *value = twir_with_args(h->m, e, arg);
	const bool costly =
		e->kind == TWIR_Div || e->kind == TWIR_Mod || e->kind == TWIR_Ceildiv || e->kind == TWIR_Roundup;
	return costly ? bind(h, e, value, 0) : value;
}

static const struct twir_expr *rewrite(struct hoist *h, const struct twir_expr *e, int depth)
{
	if (e->n == 0)
		return e;
	if (h->gpu && depth == 1 && !e->loads && e->type.scalar == TWIR_INDEX && e->type.lanes == 1 &&
	    depth_of(h, e) == 0)
		return divisions(h, e);
	const bool vector = e->type.lanes > 1 && twir_is_int(e->type.scalar);
	if (e->loads || !(vector || (e->type.scalar == TWIR_INDEX && e->type.lanes == 1)))
		return by_args(h, e, depth);
	const int home = depth_of(h, e);
	if (home >= depth || !(vector ? worth_vector(e) : worth(e)))
		return !vector && (e->kind == TWIR_Add || e->kind == TWIR_Sub) ? sum(h, e, depth)
									       : by_args(h, e, depth);
	struct level *l = &h->level[home];
	struct twir_var *v = map_get_ptr(&l->memo, e);
	if (v)
		return twir_var(h->m, v);
	const struct twir_expr *value = h->gpu && home == 0 ? divisions(h, e) : rewrite(h, e, home);
	return value->kind == TWIR_Var || value->kind == TWIR_Const ? value : bind(h, e, value, home);
}

static const struct twir_expr *expr(struct twp_walk *w, const struct twir_expr *e)
{
	struct hoist *h = w->user;
	return rewrite(h, e, h->depth);
}

static bool statement(struct twp_walk *w, const struct twir_stmt *s, struct twp_list *out)
{
	struct hoist *h = w->user;
	if (s->kind == TWIR_LET)
		map_set_ptr(&h->depths, s->u.let.var, (void *)(intptr_t)(h->depth + 1));
	if (s->kind == TWIR_DECLARE) { /* sizes stay whole: they are part of the tensor */
		twp_list_add(out, twp_copy(w->m, s));
		return true;
	}
	if (s->kind != TWIR_FOR || h->depth + 1 >= MOST_LOOPS)
		return false;
	struct twir_stmt *c = twp_copy(w->m, s);
	c->u.loop.extent = expr(w, s->u.loop.extent);
	struct level *l = &h->level[h->depth++];
	twp_list_init(&l->lets);
	map_init(&l->memo, w->m->scratch);
	map_set_ptr(&h->depths, s->u.loop.var, (void *)(intptr_t)(h->depth + 1));
	c->u.loop.body = twp_walk_block(w, s->u.loop.body);
	h->depth--;
	twp_list_add(out, l->lets.head);
	twp_list_add(out, c);
	return true;
}

void pass_hoist(struct twir_module *m, struct twir_program *p, const struct tw_target *t)
{
	(void)t;
	struct hoist *h = ARENA_NEW(m->arena, struct hoist);
	struct twp_walk w;
	h->m = m;
	map_init(&h->depths, m->scratch);
	twp_walk_init(&w, m, p);
	w.user = h;
	w.stmt = statement;
	w.expr = expr;
	h->gpu = twp_is_gpu(p);
	if (!h->gpu) {
		p->body = twp_walk_block(&w, p->body);
		return;
	}
	/* Blocks and threads are loops that the device makes: what depends on them alone is named once, at the top. */
	struct level *l = &h->level[h->depth++];
	twp_list_init(&l->lets);
	map_init(&l->memo, m->scratch);
	struct twir_stmt *body = twp_walk_block(&w, p->body);
	twp_list_add(&l->lets, body);
	p->body = l->lets.head;
}
