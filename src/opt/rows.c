/* Finds row programs: sets of definitions over one space of rows that read each other where they lie. A row
 * program grows from a definition that folds over some axes: what loads its result at the row, or what it and they
 * have in common at the same element, joins, as do injective definitions that make what is folded. Softmax, norms
 * in every spelling, log-softmax, argmax: none of them is known by name.
 *
 * Input: definitions after the injective ones have vanished. Output: stages over shared axes; every place a stage
 * reads another is proved to be the place where that one writes (tw_invert, the simplifier). The set is closed: no
 * other task lies between two of its members. */
#include "opt/rows_int.h"

typedef const struct twir_expr *E;

static bool is_one(E e)
{
	int64_t v;
	return twir_const_int(e, &v) && v == 1;
}

E rows_simple(struct rows_search *s, E e)
{
	return twir_simplify(&s->facts, e);
}

const struct rows_place *rows_place_of(const struct rows_search *s, const struct twir_tensor *t)
{
	for (int i = 0; i < s->places.n; i++)
		if (s->places.at[i].t == t)
			return &s->places.at[i];
	return NULL;
}

struct folds {
	int n;
	E at[8];
	bool nested;
};

static void see_fold(void *arg, E e)
{
	struct folds *f = arg;
	if (e->kind != TWIR_Fold)
		return;
	f->nested |= f->n == TW_COUNT(f->at) || tw_has_fold(e->arg[0]);
	if (f->n < TW_COUNT(f->at))
		f->at[f->n++] = e;
}

struct loads {
	struct tw_arena *a;
	VEC(E) at;
};

static void see_load(void *arg, E e)
{
	struct loads *l = arg;
	if (e->kind == TWIR_Load)
		vec_push(l->a, &l->at, e);
}

static struct loads loads_of(struct rows_search *s, E e)
{
	struct loads l = {.a = s->x->a};
	twir_visit_expr(e, see_load, &l);
	return l;
}

static bool uses_any(E e, int n, struct twir_var *const *vars)
{
	for (int i = 0; i < n; i++)
		if (twir_uses_var(e, vars[i]))
			return true;
	return false;
}

bool rows_list_axes(const struct twir_compute *c, E fold, struct rows_axes *a)
{
	a->n = 0;
	if (c->out->rank + (fold ? fold->n - 1 : 0) > TWIR_MAX_RANK)
		return false;
	for (int d = 0; d < c->out->rank; d++) {
		a->var[a->n] = c->axes[d];
		a->extent[a->n++] = c->out->shape[d];
	}
	for (int k = 0; fold && k + 1 < fold->n; k++) {
		a->var[a->n] = fold->u.axes[k];
		a->extent[a->n++] = fold->arg[k + 1];
	}
	return true;
}

/* Axes from some load of a tensor whose place is known, when its index is a bijection. */
static bool solve(struct rows_search *s, E value, struct rows_axes *a, bool row)
{
	const struct loads l = loads_of(s, value);
	for (int i = 0; i < l.at.n; i++) {
		const E load = l.at.at[i];
		const struct rows_place *p = rows_place_of(s, load->u.tensor);
		if (!p || p->row != row || load->nidx != load->n)
			continue;
		if (!tw_invert(s->m, a->n, a->var, a->extent, p->t->rank, load->arg, p->t->shape, p->at, a->at))
			continue;
		for (int k = 0; k < a->n; k++)
			a->at[k] = rows_simple(s, a->at[k]);
		return true;
	}
	return false;
}

/* A definition that loads no such tensor (a comparison with the element's number) may still have the shape of one:
 * any bijection will do, if its loads then are in place. */
static bool same_shape(struct rows_search *s, const struct twir_tensor *t, struct rows_axes *a)
{
	for (int i = 0; i < s->places.n; i++) {
		const struct rows_place *p = &s->places.at[i];
		bool same = !p->row && p->t->rank == t->rank;
		for (int d = 0; d < t->rank && same; d++)
			same = p->t->shape[d] == t->shape[d];
		for (int d = 0; d < t->rank && same; d++)
			a->at[d] = p->at[d];
		if (same)
			return true;
	}
	return false;
}

struct fold_swap {
	struct rows_search *s;
	const struct folds *folds;
	struct twir_var **total;
};

static E swap_fold(struct twir_rewriter *r, E e)
{
	const struct fold_swap *w = r->user;
	for (int i = 0; i < w->folds->n; i++)
		if (w->folds->at[i] == e)
			return twir_var(r->m, w->total[i]);
	return e;
}

static E placed(struct rows_search *s, struct twir_facts *facts, E e, const struct rows_axes *a)
{
	struct twir_subst sub;
	twir_subst_init(&sub, s->m);
	for (int k = 0; k < a->n; k++)
		twir_subst_set(&sub, a->var[k], a->at[k]);
	return twir_simplify(facts, twir_subst_expr(&sub, e));
}

E rows_at_axes(struct rows_search *s, E e, const struct rows_axes *a)
{
	return placed(s, &s->facts, e, a);
}

/* Members may be read only at the element of the space that is being computed. */
bool rows_reads_in_place(struct rows_search *s, E value)
{
	const struct loads l = loads_of(s, value);
	for (int i = 0; i < l.at.n; i++) {
		const E load = l.at.at[i];
		const struct rows_place *p = rows_place_of(s, load->u.tensor);
		bool member = false;
		for (int k = 0; k < s->members.n; k++)
			member |= s->x->def[s->members.at[k]].c->out == load->u.tensor;
		if (!member)
			continue;
		for (int d = 0; d < load->nidx; d++)
			if (rows_simple(s, load->arg[d]) != p->at[d])
				return false;
		if (load->n != load->nidx)
			return false;
	}
	return true;
}

/* The definition as a stage of the space; false when it is none. */
static bool stage_of(struct rows_search *s, int i, struct tw_stage *stage)
{
	struct twir_compute *c = s->x->def[i].c;
	E value = group_whole_value(s->x, i);
	struct folds folds = {0};
	struct rows_axes a, b;
	*stage = (struct tw_stage){.definition = c};
	twir_visit_expr(value, see_fold, &folds);
	if (folds.nested || !rows_list_axes(c, folds.n ? folds.at[0] : NULL, &a))
		return false;
	const int own = c->out->rank;
	if (folds.n > 0) {
		stage->row = true;
		if (!solve(s, folds.at[0]->arg[0], &a, false))
			return false;
	} else if (!solve(s, value, &a, false)) {
		stage->row = solve(s, value, &a, true);
		if (!stage->row && !same_shape(s, c->out, &a))
			return false;
	}
	for (int k = 0; k < own; k++) {
		if (stage->row && uses_any(a.at[k], s->rows->nfold, s->rows->fold))
			return false;
		stage->place[k] = a.at[k];
	}
	struct twir_var *total[TW_COUNT(folds.at)];
	for (int f = 0; f < folds.n; f++) {
		const E fold = folds.at[f];
		b = a;
		if (f > 0 && (!rows_list_axes(c, fold, &b) || !solve(s, fold->arg[0], &b, false)))
			return false;
		for (int k = 0; k < b.n; k++)
			if (k < own ? b.at[k] != a.at[k] : uses_any(b.at[k], s->rows->nrow, s->rows->row))
				return false;
		total[f] = twir_var_new(s->m, TWIR_BOUND, fold->type, "total");
		const struct tw_row_fold rf = {
			.op = (enum twir_kind)fold->op, .body = rows_at_axes(s, fold->arg[0], &b), .total = total[f]};
		if (!rows_reads_in_place(s, rf.body))
			return false;
		vec_push(s->x->a, &stage->folds, rf);
	}
	struct fold_swap w = {s, &folds, total};
	struct twir_rewriter r;
	twir_rewriter_init(&r, s->m);
	r.user = &w;
	r.expr = swap_fold;
	a.n = own;
	stage->value = placed(s, stage->row ? &s->row_facts : &s->facts, twir_rewrite_expr(&r, value), &a);
	return rows_reads_in_place(s, stage->value);
}

static void add_place(struct rows_search *s, struct twir_tensor *t, bool row, E const *at)
{
	struct rows_place p = {.t = t, .row = row};
	if (rows_place_of(s, t))
		return;
	for (int d = 0; d < t->rank; d++)
		p.at[d] = rows_simple(s, at[d]);
	vec_push(s->x->a, &s->places, p);
}

/* What e loads at one place for each element of the space is a landmark: others that load it can be set in
 * relation to it. */
static void add_landmarks(struct rows_search *s, E e)
{
	const struct loads l = loads_of(s, e);
	struct twir_var *vars[2 * TWIR_MAX_RANK];
	E extents[2 * TWIR_MAX_RANK], coords[TWIR_MAX_RANK], axis[2 * TWIR_MAX_RANK];
	const int n = s->rows->nrow + s->rows->nfold;
	for (int k = 0; k < n; k++) {
		const bool row = k < s->rows->nrow;
		vars[k] = row ? s->rows->row[k] : s->rows->fold[k - s->rows->nrow];
		extents[k] = row ? s->rows->row_extent[k] : s->rows->fold_extent[k - s->rows->nrow];
	}
	for (int i = 0; i < l.at.n; i++) {
		const E load = l.at.at[i];
		struct twir_tensor *t = load->u.tensor;
		if (load->n != load->nidx || rows_place_of(s, t) || tw_loads_of(e, t, NULL) != 1)
			continue;
		for (int d = 0; d < t->rank; d++)
			coords[d] = twir_var(s->m, tw_loop_var(s->m, "c"));
		if (tw_invert(s->m, n, vars, extents, t->rank, load->arg, t->shape, coords, axis))
			add_place(s, t, false, load->arg);
	}
}

void rows_add_member(struct rows_search *s, int i, const struct tw_stage *stage)
{
	add_place(s, stage->definition->out, stage->row, stage->place);
	vec_push(s->x->a, &s->members, i);
	vec_push(s->x->a, &s->stages, *stage);
	for (int f = 0; f < stage->folds.n; f++)
		add_landmarks(s, stage->folds.at[f].body);
	if (!stage->row)
		add_landmarks(s, stage->value);
}

static struct twir_var *space_axis(struct rows_search *s, bool row, E extent)
{
	struct twir_var *v = twir_var_new(s->m, TWIR_AXIS, twir_scalar_type(TWIR_INDEX), row ? "r" : "k");
	const struct twir_range r = twir_range_of(&s->facts, extent);
	v->lo = 0;
	v->hi = r.hi > 0 ? r.hi - 1 : 0;
	/* Where a size is zero there is no element. */
	const E inside = twir_lt(s->m, twir_var(s->m, v), extent), some = twir_lt(s->m, twir_index(s->m, 0), extent);
	twir_facts_assume(&s->facts, some);
	twir_facts_assume(&s->facts, inside);
	if (row) {
		twir_facts_assume(&s->row_facts, some);
		twir_facts_assume(&s->row_facts, inside);
	}
	return v;
}

/* The space of a definition with folds: its own axes number the rows, those of its first fold their elements. */
static bool begin(struct rows_search *s, int i)
{
	const struct twir_compute *c = s->x->def[i].c;
	struct folds folds = {0};
	struct rows_axes a;
	E value = group_whole_value(s->x, i);
	twir_visit_expr(value, see_fold, &folds);
	if (folds.nested || !rows_list_axes(c, folds.at[0], &a))
		return false;
	struct tw_rows *rows = s->rows;
	for (int k = 0; k < a.n; k++) {
		const bool row = k < c->out->rank;
		a.at[k] = twir_index(s->m, 0);
		if (is_one(a.extent[k]))
			continue;
		struct twir_var *v = space_axis(s, row, a.extent[k]);
		a.at[k] = twir_var(s->m, v);
		if (row) {
			rows->row[rows->nrow] = v;
			rows->row_extent[rows->nrow++] = a.extent[k];
		} else {
			rows->fold[rows->nfold] = v;
			rows->fold_extent[rows->nfold++] = a.extent[k];
		}
	}
	add_landmarks(s, rows_at_axes(s, folds.at[0]->arg[0], &a));
	return rows->nfold > 0 && s->places.n > 0;
}

bool rows_is_member(const struct rows_search *s, int i)
{
	for (int k = 0; k < s->members.n; k++)
		if (s->members.at[k] == i)
			return true;
	for (int k = 0; k < s->guests.n; k++)
		if (s->guests.at[k] == i)
			return true;
	return false;
}

/* With `extra` among the members: does every way from one member to another stay among them? Between them there
 * may be no mark and no host operator. */
bool rows_closed(const struct rows_search *s, int extra)
{
	const struct grouping *x = s->x;
	int first = extra, last = extra;
	for (int k = 0; k < s->members.n; k++) {
		first = s->members.at[k] < first ? s->members.at[k] : first;
		last = s->members.at[k] > last ? s->members.at[k] : last;
	}
	for (int k = 0; k < s->guests.n; k++) {
		first = s->guests.at[k] < first ? s->guests.at[k] : first;
		last = s->guests.at[k] > last ? s->guests.at[k] : last;
	}
	bool *tainted = ARENA_ARRAY(x->a, bool, last - first + 1), again = true;
	while (again) {
		again = false;
		for (int i = first; i <= last; i++) {
			const struct group_def *d = &x->def[i];
			if (!d->c)
				return false;
			const bool member = i == extra || rows_is_member(s, i);
			if (!member && !tainted[i - first])
				continue;
			for (int k = 0; k < d->users.n; k++) {
				const int u = d->users.at[k];
				const bool inside = u == extra || rows_is_member(s, u);
				if (inside && !member)
					return false;
				if (!inside && u <= last)
					tainted[u - first] = true;
			}
			/* what shares its task is reached too */
			for (int k = 0; !member && d->rows && k < d->rows->members.n; k++) {
				const int mate = d->rows->members.at[k];
				if (mate >= first && mate <= last && !tainted[mate - first])
					again = tainted[mate - first] = true;
			}
		}
	}
	return true;
}

static bool try_to_add(struct rows_search *s, int i)
{
	struct grouping *x = s->x;
	const struct group_def *d = &x->def[i], *seed = &x->def[s->members.at[0]];
	struct tw_stage stage;
	if (!d->c || d->gone || d->whole || d->rows || d->region != seed->region || d->constant != seed->constant ||
	    s->members.n >= ROWS_MAX_STAGES || rows_is_member(s, i))
		return false;
	if (!d->anchor && group_serves_an_anchor(x, i, s->members.n, s->members.at))
		return false;
	if (!stage_of(s, i, &stage) || !rows_closed(s, i))
		return false;
	rows_add_member(s, i, &stage);
	return true;
}

bool rows_producer_stage(struct rows_search *s, int p, struct tw_stage *stage)
{
	struct grouping *x = s->x;
	const struct group_def *d = &x->def[p], *seed = &x->def[s->members.at[0]];
	const struct rows_place *at = rows_place_of(s, d->c->out);
	struct rows_axes a;
	if (!at || d->anchor || d->gone || d->whole || d->rows || d->region != seed->region ||
	    d->constant != seed->constant || s->members.n >= ROWS_MAX_STAGES || rows_is_member(s, p))
		return false;
	*stage = (struct tw_stage){.definition = d->c, .row = at->row};
	rows_list_axes(d->c, NULL, &a);
	for (int k = 0; k < a.n; k++)
		a.at[k] = stage->place[k] = at->at[k];
	stage->value = rows_at_axes(s, d->c->value, &a);
	/* whoever of the members reads it must do so at its place */
	bool in_place = rows_reads_in_place(s, stage->value);
	vec_push(x->a, &s->members, p);
	for (int k = 0; k < s->stages.n && in_place; k++) {
		in_place = rows_reads_in_place(s, s->stages.at[k].value);
		for (int f = 0; f < s->stages.at[k].folds.n && in_place; f++)
			in_place = rows_reads_in_place(s, s->stages.at[k].folds.at[f].body);
	}
	s->members.n--;
	return in_place && rows_closed(s, p);
}

/* The definitions of tensors that a stage loads at each element of the space join, if they are injective. */
static bool add_producers(struct rows_search *s, E e)
{
	const struct loads l = loads_of(s, e);
	bool grew = false;
	for (int i = 0; i < l.at.n; i++) {
		const int p = group_producer_of(s->x, l.at.at[i]->u.tensor);
		struct tw_stage stage;
		if (p < 0 || s->x->def[p].anchor || group_serves_an_anchor(s->x, p, s->members.n, s->members.at) ||
		    !rows_producer_stage(s, p, &stage))
			continue;
		rows_add_member(s, p, &stage);
		grew = true;
	}
	return grew;
}

static void grow(struct rows_search *s)
{
	bool grew = true;
	while (grew) {
		grew = false;
		for (int k = 0; k < s->members.n; k++) {
			const struct group_def *d = &s->x->def[s->members.at[k]];
			for (int u = 0; u < d->users.n; u++)
				grew |= try_to_add(s, d->users.at[u]);
			grew |= add_producers(s, s->stages.at[k].value);
			for (int f = 0; f < s->stages.at[k].folds.n; f++)
				grew |= add_producers(s, s->stages.at[k].folds.at[f].body);
		}
	}
}

/* In order of definition, which respects dependences; outputs are what others need. */
static void finish(struct rows_search *s, struct tw_attention *attention)
{
	struct grouping *x = s->x;
	struct group_rows *g = ARENA_NEW(x->a, struct group_rows);
	g->rows = s->rows;
	g->attention = attention;
	g->product = attention ? s->guests.at[1] : -1;
	for (int i = 0; i < x->n; i++) {
		int at = 0;
		if (!rows_is_member(s, i))
			continue;
		vec_push(x->a, &g->members, i);
		x->def[i].rows = g;
		while (at < s->members.n && s->members.at[at] != i)
			at++;
		if (at == s->members.n)
			continue;
		struct tw_stage *stage = &s->stages.at[at];
		stage->stored = x->def[i].output;
		for (int k = 0; k < x->def[i].users.n; k++)
			stage->stored |=
				!rows_is_member(s, x->def[i].users.at[k]) || x->def[i].users.at[k] == g->product;
		vec_push(x->a, &s->rows->stages, *stage);
	}
}

/* A fold alone, or with what merely finishes its result, is served as well by the rules. */
static bool worthwhile(const struct rows_search *s)
{
	int folds = 0, full = 0;
	for (int k = 0; k < s->stages.n; k++) {
		folds += s->stages.at[k].folds.n > 0;
		full += !s->stages.at[k].row;
	}
	return folds > 1 || full > 0;
}

#define LONGEST_ROW (1 << 18) /* beyond, more is won by many cores than by keeping rows in cache */

static bool of_fit_length(const struct rows_search *s)
{
	int64_t length = 1, size;
	for (int k = 0; k < s->rows->nfold; k++) {
		if (!twir_const_int(s->rows->fold_extent[k], &size))
			continue;
		if (size > LONGEST_ROW || length * size > LONGEST_ROW)
			return false;
		length *= size > 0 ? size : 1;
	}
	return true;
}

void group_find_rows(struct grouping *x)
{
	for (int i = 0; i < x->n; i++) {
		const struct group_def *d = &x->def[i];
		if (!d->c || !d->anchor || d->gone || d->rows || d->c->nprograms)
			continue;
		struct rows_search s = {.x = x, .m = x->m, .rows = ARENA_NEW(x->a, struct tw_rows)};
		struct tw_stage stage;
		twir_facts_init(&s.facts, x->m);
		twir_facts_init(&s.row_facts, x->m);
		if (!begin(&s, i) || !of_fit_length(&s) || !stage_of(&s, i, &stage))
			continue;
		rows_add_member(&s, i, &stage);
		grow(&s);
		if (worthwhile(&s))
			finish(&s, group_find_attention(&s));
	}
}
