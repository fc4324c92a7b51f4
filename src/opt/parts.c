/* Tensors that are made in parts: a definition that lays others side by side along an axis (Concat, padding behind the end) needs no step of its own where
 * the parts are stored straight into it. Such a definition becomes a whole: no task, only what its readers depend on. Each piece of it is then either a
 * tensor that others make anyway and that lies inside the whole from now on, at an offset and with the whole's strides, or is computed by a definition of
 * its own that writes there (inputs, constants, slices, movement). A whole may itself be a part; one whose pieces lie side by side in another whole is a
 * part of that one and costs nothing (chains of DenseNet).
 *
 * In: definitions while injective ones vanish: those that group_find_pieces marks hold still until group_make_parts has decided. Out: tw_groups.parts.
 * Only outside loops and branches, and only tensors that nobody but tasks reads; a whole may be an output. What else has to be copied for it is copied
 * where that is less than what comes for free, or where the whole has to be stored anyway. */
#include "opt/group_int.h"

typedef const struct twir_expr *E;

/* Where the definition takes element axis from: pieces start[k] .. start[k + 1] - 1. */
struct group_pieces {
	int axis, n;
	E *start;
};

struct piece {
	E start, end;
	E value;		     /* over the whole's axes, the one along which pieces lie counted from start */
	const struct twir_tensor *t; /* it is all of this tensor; NULL: something else */
};

struct pieces {
	int axis;
	VEC(struct piece) at;
};

/* A definition to come, in front of the one with this index. */
struct added {
	int before;
	struct twir_compute *c;
};

struct maker {
	struct grouping *x;
	struct tw_groups *out;
	VEC(struct added) added;
};

/* --- candidates --- */

static bool uses_axes(const struct twir_compute *c, E e)
{
	for (int d = 0; d < c->out->rank; d++)
		if (twir_uses_var(e, c->axes[d]))
			return true;
	return false;
}

/* The axis that an upper bound "axis < e" speaks of; -1. */
static int bounded_axis(const struct twir_compute *c, E cond)
{
	if (cond->kind != TWIR_Lt || cond->arg[0]->kind != TWIR_Var || uses_axes(c, cond->arg[1]))
		return -1;
	for (int d = 0; d < c->out->rank; d++)
		if (cond->arg[0]->u.var == c->axes[d])
			return d;
	return -1;
}

/* i < a ? .. : i < b ? .. : .. */
static struct group_pieces *pieces_of(struct grouping *x, const struct twir_compute *c)
{
	VEC(E) start = {0};
	int axis = -1;
	vec_push(x->a, &start, twir_index(x->m, 0));
	for (E e = c->value; e->kind == TWIR_Cond; e = e->arg[2]) {
		const int d = bounded_axis(c, e->arg[0]);
		if (d < 0 || (axis >= 0 && d != axis))
			break;
		axis = d;
		vec_push(x->a, &start, e->arg[0]->arg[1]);
	}
	if (axis < 0)
		return NULL;
	vec_push(x->a, &start, c->out->shape[axis]);
	struct group_pieces *p = ARENA_NEW(x->a, struct group_pieces);
	*p = (struct group_pieces){.axis = axis, .n = start.n - 1, .start = start.at};
	return p;
}

void group_find_pieces(struct grouping *x)
{
	for (int i = 0; i < x->n; i++) {
		struct group_def *d = &x->def[i];
		if (!d->c || d->anchor || d->gone || d->constant || d->region >= 0 || d->c->out->rank == 0 ||
		    twir_is_packed(d->c->out->type) || map_get_ptr(&x->pinned, d->c->out) ||
		    map_get_ptr(&x->asked, d->c->out))
			continue;
		d->pieces = pieces_of(x, d->c);
	}
}

/* --- what the pieces are by now --- */

static bool same(struct twir_facts *f, E a, E b)
{
	return twir_simplify(f, a) == twir_simplify(f, b);
}

/* The value of one piece, its axis counted from its start. NULL: it cannot be told from the others. */
static E value_of(struct grouping *x, const struct twir_compute *c, const struct group_pieces *p, int k)
{
	struct twir_module *m = x->m;
	struct twir_facts f;
	struct twir_subst s;
	E e = c->value;
	const E at = twir_var(m, c->axes[p->axis]);
	for (int n = 0; n <= k && n + 1 < p->n; n++) {
		if (e->kind != TWIR_Cond || bounded_axis(c, e->arg[0]) != p->axis ||
		    e->arg[0]->arg[1] != p->start[n + 1])
			return NULL;
		e = e->arg[n == k ? 1 : 2];
	}
	twir_subst_init(&s, m);
	twir_subst_set(&s, c->axes[p->axis], twir_add(m, at, p->start[k]));
	twir_facts_init(&f, m);
	twir_facts_assume(&f, twir_lt(m, at, twir_sub(m, p->start[k + 1], p->start[k])));
	return twir_simplify(&f, twir_subst_expr(&s, e));
}

/* A load at the axes themselves, but for one that is moved by what it returns; NULL: none. */
static E moved_load(struct grouping *x, const struct twir_compute *c, int axis, E value)
{
	struct twir_facts f;
	twir_facts_init(&f, x->m);
	if (value->kind != TWIR_Load || value->nidx != value->n || value->nidx != c->out->rank ||
	    value->u.tensor->type != c->out->type)
		return NULL;
	for (int d = 0; d < value->nidx; d++) {
		const bool one = value->arg[d]->kind == TWIR_Const && same(&f, c->out->shape[d], twir_index(x->m, 1));
		if (d != axis && !one && value->arg[d] != twir_var(x->m, c->axes[d]))
			return NULL;
	}
	const E by = twir_simplify(&f, twir_sub(x->m, value->arg[axis], twir_var(x->m, c->axes[axis])));
	return uses_axes(c, by) ? NULL : by;
}

/* Pieces that go on where the one before them ends, in the same tensor, are one. */
static bool joins(struct grouping *x, const struct twir_compute *c, int axis, const struct piece *a,
		  const struct piece *b)
{
	struct twir_facts f;
	twir_facts_init(&f, x->m);
	const E from = moved_load(x, c, axis, a->value), to = moved_load(x, c, axis, b->value);
	return from && to && a->value->u.tensor == b->value->u.tensor &&
	       same(&f, to, twir_add(x->m, from, twir_sub(x->m, a->end, a->start)));
}

static const struct twir_tensor *all_of(struct grouping *x, const struct twir_compute *c, int axis,
					const struct piece *p)
{
	struct twir_facts f;
	twir_facts_init(&f, x->m);
	const E by = moved_load(x, c, axis, p->value);
	if (!by || by != twir_index(x->m, 0))
		return NULL;
	const struct twir_tensor *t = p->value->u.tensor;
	for (int d = 0; d < t->rank; d++)
		if (!same(&f, t->shape[d], d == axis ? twir_sub(x->m, p->end, p->start) : c->out->shape[d]))
			return NULL;
	return t;
}

/* false: not told apart, or only one */
static bool list_pieces(struct grouping *x, int i, struct pieces *all)
{
	const struct twir_compute *c = x->def[i].c;
	const struct group_pieces *p = x->def[i].pieces;
	*all = (struct pieces){.axis = p->axis};
	for (int k = 0; k < p->n; k++) {
		struct piece one = {.start = p->start[k], .end = p->start[k + 1], .value = value_of(x, c, p, k)};
		if (!one.value)
			return false;
		if (k > 0 && joins(x, c, p->axis, &all->at.at[all->at.n - 1], &one))
			all->at.at[all->at.n - 1].end = one.end;
		else
			vec_push(x->a, &all->at, one);
	}
	for (int k = 0; k < all->at.n; k++)
		all->at.at[k].t = all_of(x, c, p->axis, &all->at.at[k]);
	return all->at.n > 1;
}

/* --- decision --- */

/* Symbols count as 64. */
static double elements(struct grouping *x, const struct twir_compute *c, int axis, const struct piece *p)
{
	int64_t *values = ARENA_ARRAY(x->a, int64_t, x->m->symbols.n);
	for (int i = 0; i < x->m->symbols.n; i++)
		values[i] = 64;
	const struct twir_binding b = {x->m->symbols.n, x->m->symbols.at, values};
	double n = (double)(twir_eval_index(p->end, &b) - twir_eval_index(p->start, &b));
	for (int d = 0; d < c->out->rank; d++)
		n *= d == axis ? 1 : (double)twir_eval_index(c->out->shape[d], &b);
	return n > 0 ? n : 0;
}

static const struct tw_part *part_of(const struct maker *k, const struct twir_tensor *t)
{
	return map_get_ptr(&k->out->parts, t);
}

/* Does it end up in an output, which lies row-major? */
static bool ends_in_output(const struct maker *k, const struct twir_tensor *t)
{
	const struct tw_part *p;
	while ((p = part_of(k, t)) != NULL)
		t = p->whole;
	const int i = group_producer_of(k->x, t);
	return i >= 0 && k->x->def[i].output;
}

static bool of_programs(const struct grouping *x, const struct group_def *d)
{
	bool found = d->c->nprograms > 0;
	for (int u = 0; u < d->users.n; u++)
		found |= x->def[d->users.at[u]].c->nprograms > 0;
	return found;
}

/* May definition p's result lie inside the whole w? A feature map with other readers is not dragged into row-major order. */
static bool may_be_part(const struct maker *k, int p, int w)
{
	const struct grouping *x = k->x;
	const struct group_def *d = &x->def[p];
	if (d->gone || d->output || d->constant || d->region >= 0 || p == w || part_of(k, d->c->out) ||
	    of_programs(x, d))
		return false;
	return d->users.n == 1 || d->c->out->rank < 3 || !ends_in_output(k, x->def[w].c->out);
}

/* Elements of the piece that need no step of their own. */
static double free_elements(struct maker *k, int w, const struct pieces *all, const struct piece *p, int depth)
{
	struct grouping *x = k->x;
	const int i = p->t ? group_producer_of(x, p->t) : -1;
	struct pieces inner;
	if (i < 0 || !may_be_part(k, i, w))
		return 0;
	if (!x->def[i].pieces)
		return elements(x, x->def[w].c, all->axis, p);
	double sum = 0;
	if (depth < 64 && list_pieces(x, i, &inner))
		for (int n = 0; n < inner.at.n; n++)
			sum += free_elements(k, i, &inner, &inner.at.at[n], depth + 1);
	return sum;
}

/* Pieces that lie side by side in a whole already, in this order: the part of it that they are; NULL. */
static struct tw_part *found_in_a_whole(struct maker *k, int i, const struct pieces *all)
{
	struct grouping *x = k->x;
	struct twir_facts f;
	twir_facts_init(&f, x->m);
	const struct tw_part *first = all->at.at[0].t ? part_of(k, all->at.at[0].t) : NULL;
	if (!first || first->axis != all->axis || x->def[i].output || part_of(k, x->def[i].c->out) ||
	    of_programs(x, &x->def[i]))
		return NULL;
	for (int n = 1; n < all->at.n; n++) {
		const struct tw_part *next = all->at.at[n].t ? part_of(k, all->at.at[n].t) : NULL;
		if (!next || next->whole != first->whole || next->axis != first->axis ||
		    !same(&f, next->at, twir_add(x->m, first->at, all->at.at[n].start)))
			return NULL;
	}
	struct tw_part *p = ARENA_NEW(x->a, struct tw_part);
	*p = *first;
	return p;
}

static void set_part(struct maker *k, struct twir_tensor *t, struct twir_tensor *whole, int axis, E at)
{
	struct tw_part *p = ARENA_NEW(k->x->a, struct tw_part);
	*p = (struct tw_part){.tensor = t, .whole = whole, .axis = axis, .at = at};
	map_set_ptr(&k->out->parts, t, p);
	vec_push(k->x->a, &k->out->part_list, p);
}

/* A definition that computes one piece. */
static struct twir_compute *define(struct grouping *x, const struct twir_compute *whole, int axis,
				   const struct piece *p)
{
	struct twir_module *m = x->m;
	struct twir_compute *c = ARENA_NEW(x->a, struct twir_compute);
	E shape[TWIR_MAX_RANK];
	struct twir_subst s;
	struct twir_facts f;
	twir_subst_init(&s, m);
	twir_facts_init(&f, m);
	c->axes = ARENA_ARRAY(x->a, struct twir_var *, whole->out->rank);
	for (int d = 0; d < whole->out->rank; d++) {
		int64_t n;
		shape[d] = d == axis ? twir_simplify(&f, twir_sub(m, p->end, p->start)) : whole->out->shape[d];
		c->axes[d] = twir_var_new(m, TWIR_AXIS, twir_scalar_type(TWIR_INDEX), "i");
		c->axes[d]->lo = 0;
		c->axes[d]->hi = twir_const_int(shape[d], &n) && n > 0 ? n - 1 : INT64_MAX - 1;
		twir_subst_set(&s, whole->axes[d], twir_var(m, c->axes[d]));
	}
	c->out = twir_tensor_new(m, "part", whole->out->type, whole->out->rank, shape, TWIR_TENSOR);
	c->origin = whole->origin;
	c->value = twir_subst_expr(&s, p->value);
	return c;
}

/* What the whole's readers depend on: a load of each part. */
static void set_value(struct grouping *x, struct twir_compute *c, const struct pieces *all)
{
	struct twir_module *m = x->m;
	const E along = twir_var(m, c->axes[all->axis]);
	E at[TWIR_MAX_RANK];
	for (int d = 0; d < c->out->rank; d++)
		at[d] = twir_var(m, c->axes[d]);
	c->value = NULL;
	for (int n = all->at.n - 1; n >= 0; n--) {
		const struct piece *p = &all->at.at[n];
		at[all->axis] = twir_sub(m, along, p->start);
		const E v = twir_load(m, (struct twir_tensor *)p->t, c->out->rank, at);
		c->value = c->value ? twir_cond(m, twir_lt(m, along, p->end), v, c->value) : v;
	}
}

static void make_whole(struct maker *k, int i, struct pieces *all)
{
	struct grouping *x = k->x;
	struct twir_compute *c = x->def[i].c;
	for (int n = 0; n < all->at.n; n++) {
		struct piece *p = &all->at.at[n];
		const int by = p->t ? group_producer_of(x, p->t) : -1;
		if (by < 0 || !may_be_part(k, by, i)) {
			struct added a = {.before = i, .c = define(x, c, all->axis, p)};
			vec_push(x->a, &k->added, a);
			p->t = a.c->out;
		}
		set_part(k, (struct twir_tensor *)p->t, c->out, all->axis, p->start);
	}
	set_value(x, c, all);
	x->def[i].whole = true;
}

static void decide(struct maker *k, int i)
{
	struct grouping *x = k->x;
	struct pieces all;
	struct tw_part *found;
	double all_elements = 0, spared = 0;
	if (x->def[i].gone || !list_pieces(x, i, &all))
		return;
	if ((found = found_in_a_whole(k, i, &all)) != NULL) {
		set_part(k, x->def[i].c->out, found->whole, found->axis, found->at);
		x->def[i].whole = true;
		return;
	}
	for (int n = 0; n < all.at.n; n++) {
		all_elements += elements(x, x->def[i].c, all.axis, &all.at.at[n]);
		spared += free_elements(k, i, &all, &all.at.at[n], 0);
	}
	if (spared > 0 && (2 * spared >= all_elements || !group_would_vanish(x, i)) && !of_programs(x, &x->def[i]))
		make_whole(k, i, &all);
}

/* --- definitions in between --- */

/* Definitions keep their order; who loads whom is found anew. */
static void insert(struct maker *k)
{
	struct grouping *x = k->x;
	struct group_def *def = ARENA_ARRAY(x->a, struct group_def, x->n + k->added.n);
	int *moved = ARENA_ARRAY(x->a, int, x->n), n = 0;
	for (int i = 0; i < x->n; i++) {
		for (int a = 0; a < k->added.n; a++) {
			if (k->added.at[a].before != i)
				continue;
			def[n] = (struct group_def){.c = k->added.at[a].c,
						    .node = x->def[i].node,
						    .region = -1,
						    .epilogue_of = -1,
						    .consumer = -1};
			vec_push(x->a, &def[n].origins, x->g->nodes.at[x->def[i].node].name);
			n++;
		}
		moved[i] = n;
		def[n++] = x->def[i];
	}
	x->def = def;
	x->n = n;
	for (int i = 0; i < n; i++) {
		struct group_def *d = &def[i];
		if (d->c)
			map_set_ptr(&x->by_tensor, d->c->out, (void *)(uintptr_t)(i + 1));
		for (int p = 0; p < d->producers.n; p++)
			d->producers.at[p] = moved[d->producers.at[p]];
		d->users.n = 0;
	}
	for (int i = 0; i < n; i++)
		if (def[i].c && !def[i].gone)
			group_link_loads(x, i);
}

void group_make_parts(struct grouping *x, struct tw_groups *out)
{
	struct maker k = {.x = x, .out = out};
	bool any = false;
	for (int i = x->n - 1; i >= 0; i--)
		if (x->def[i].pieces)
			decide(&k, i);
	for (int i = 0; i < x->n; i++) {
		any |= x->def[i].whole;
		x->def[i].pieces = NULL;
	}
	if (any)
		insert(&k);
}
