/* Which keys of an attention have weight zero whatever their scores: those that a mask gives minus infinity, or so
 * large a negative number, and that lie beyond a place which rises with the query. The mask is a comparison of the
 * places in the stages, or a constant tensor, which is looked at.
 *
 * Each comparison and constant is tried: what do the stages come to where it masks? Scores must become negative
 * beyond measure, exponentials and weights zero, and every fold must be indifferent to such elements. Then they
 * may be left out. A mask of minus infinity stands beside any other one; a finite one must be the only one, since
 * a row that is masked as a whole by two of them gives weight to all, or the last element before the limit must be
 * open to all masks. Every row keeps an element.
 *
 * A mask that is made once for several attentions is looked through: what its elements are is known from
 * definitions. */
#include "opt/rows_int.h"

#include <math.h>

typedef const struct twir_expr *E;

#define BEYOND_MEASURE (-1e30)

enum kind { ANY, NEGATIVE, ZERO };

/* What a stage comes to with other tensors' definitions put in. */
struct told {
	E value;
	VEC(E) folds;
};

struct mask {
	struct rows_search *s;
	struct twir_facts *facts; /* of an element */
	const struct told *told;  /* parallel to the stages */
	const struct tw_attention *a;
	E cause;       /* the comparison or the load */
	bool when;     /* a comparison: masks when it is this */
	bool infinite; /* all that it gives is minus infinity */
	E limit;
	struct tw_map kinds; /* tensor of a stage -> enum kind */
};

/* ---- limits */

/* An integer expression as one over indices, NULL when it is none. */
static E as_index(struct twir_module *m, E e)
{
	int64_t v;
	if (e->type.scalar == TWIR_INDEX)
		return e;
	if (e->kind == TWIR_Cast && e->arg[0]->type.scalar == TWIR_INDEX)
		return e->arg[0];
	if (e->type.scalar == TWIR_I64 && twir_const_int(e, &v))
		return twir_index(m, v);
	if (e->type.scalar != TWIR_I64 || (e->kind != TWIR_Add && e->kind != TWIR_Sub))
		return NULL;
	const E a = as_index(m, e->arg[0]), b = as_index(m, e->arg[1]);
	return a && b ? twir_binary(m, (enum twir_kind)e->kind, a, b) : NULL;
}

/* Rises with the query and leaves each row an element. */
static bool is_limit(struct mask *k, E limit)
{
	struct rows_search *s = k->s;
	E base;
	int64_t stride;
	return !twir_uses_var(limit, s->rows->fold[0]) &&
	       twir_linear_in(k->facts, limit, s->rows->row[k->a->query], &base, &stride) && stride >= 0 &&
	       twir_prove(k->facts, twir_le(s->m, twir_index(s->m, 1), limit));
}

/* The limit of a comparison that masks when it is k->when. */
static bool comparison_limit(struct mask *k)
{
	struct twir_module *m = k->s->m;
	E a = as_index(m, k->cause->arg[0]), b = as_index(m, k->cause->arg[1]), base;
	bool less = k->cause->kind == TWIR_Lt;
	int64_t stride;
	if (!a || !b)
		return false;
	if (k->when) { /* a < b masks: b <= a does not */
		const E t = a;
		a = b;
		b = t;
		less = !less;
	}
	/* Elements with a <= b are open: key + base <= 0, so key < 1 - base. */
	if (!twir_linear_in(k->facts, twir_sub(m, a, b), k->s->rows->fold[0], &base, &stride) || stride != 1)
		return false;
	k->limit = twir_simplify(k->facts, twir_sub(m, twir_index(m, less ? 0 : 1), base));
	return is_limit(k, k->limit);
}

static bool is_var(E e, const struct twir_var *v)
{
	return e->kind == TWIR_Var && e->u.var == v;
}

/* Does element i of a constant mask? Booleans do when they are k->when. */
static bool masks(struct mask *k, const struct tw_tensor *t, int64_t i)
{
	if (t->type == TWIR_I1)
		return (((const uint8_t *)t->data)[i] != 0) == k->when;
	float v;
	memcpy(&v, (const char *)t->data + i * 4, sizeof(v));
	k->infinite &= v > (float)BEYOND_MEASURE || isinf(v);
	return v <= (float)BEYOND_MEASURE;
}

/* The limit of a constant mask T[.., query, key]: the furthest key of all open ones, seen from the query. */
static bool constant_limit(struct mask *k)
{
	const struct grouping *x = k->s->x;
	const E load = k->cause;
	const int rank = load->u.tensor->rank;
	const uintptr_t id = (uintptr_t)map_get_ptr(&x->d->tensor, load->u.tensor);
	const struct tw_tensor *t = id ? &x->g->tensors.at[id - 1] : NULL;
	int64_t rows = 1, keys = 1, all = 1, furthest = INT64_MIN, size;
	if (!t || !t->data || (t->type != TWIR_I1 && t->type != TWIR_F32) || rank < 2 ||
	    !is_var(load->arg[rank - 1], k->s->rows->fold[0]) ||
	    !is_var(load->arg[rank - 2], k->s->rows->row[k->a->query]))
		return false;
	for (int d = 0; d < rank; d++) {
		if (!twir_const_int(load->u.tensor->shape[d], &size))
			return false;
		all *= size;
		rows = d == rank - 2 ? size : rows;
		keys = d == rank - 1 ? size : keys;
	}
	k->infinite = true;
	for (int64_t i = 0, row = 0; i < all; i += keys, row = (row + 1) % rows) {
		int64_t last = -1;
		for (int64_t j = 0; j < keys; j++)
			last = masks(k, t, i + j) ? last : j;
		if (last < 0)
			return false;
		furthest = last - row > furthest ? last - row : furthest;
	}
	struct twir_module *m = k->s->m;
	if (all == 0 || furthest >= keys - 1)
		return false;
	k->limit = twir_max(m, twir_index(m, 1),
			    twir_add(m, twir_var(m, k->s->rows->row[k->a->query]), twir_index(m, furthest + 1)));
	return true;
}

/* ---- what the stages come to where the mask holds */

static enum kind kind_of(struct mask *k, E e);

/* 1, 0: what a condition is where the mask holds; -1: not known */
static int condition(struct mask *k, E e)
{
	if (e == k->cause)
		return k->when;
	if (e->kind == TWIR_Not) {
		const int c = condition(k, e->arg[0]);
		return c < 0 ? c : !c;
	}
	if (e->kind != TWIR_And && e->kind != TWIR_Or)
		return -1;
	const int a = condition(k, e->arg[0]), b = condition(k, e->arg[1]), wins = e->kind == TWIR_Or;
	return a == wins || b == wins ? wins : a >= 0 && b >= 0 ? !wins : -1;
}

static enum kind constant_kind(struct mask *k, double v)
{
	if (v > BEYOND_MEASURE)
		return v == 0 ? ZERO : ANY;
	k->infinite &= isinf(v) != 0;
	return NEGATIVE;
}

static enum kind kind_of(struct mask *k, E e)
{
	enum kind a, b;
	if (!twir_is_float(e->type.scalar))
		return ANY;
	if (e == k->cause)
		return NEGATIVE;
	switch (e->kind) {
	case TWIR_Const:
		return constant_kind(k, e->u.f);
	case TWIR_Load:
		return (enum kind)(uintptr_t)map_get_ptr(&k->kinds, e->u.tensor);
	case TWIR_Cast:
		return kind_of(k, e->arg[0]);
	case TWIR_Select:
	case TWIR_Cond: {
		const int c = condition(k, e->arg[0]);
		if (c >= 0)
			return kind_of(k, e->arg[c ? 1 : 2]);
		a = kind_of(k, e->arg[1]);
		return a == kind_of(k, e->arg[2]) ? a : ANY;
	}
	case TWIR_Add:
		a = kind_of(k, e->arg[0]);
		b = kind_of(k, e->arg[1]);
		return a == NEGATIVE || b == NEGATIVE ? NEGATIVE : a == ZERO && b == ZERO ? ZERO : ANY;
	case TWIR_Sub:
		return kind_of(k, e->arg[0]) == NEGATIVE ? NEGATIVE : ANY;
	case TWIR_Mul:
		return kind_of(k, e->arg[0]) == ZERO || kind_of(k, e->arg[1]) == ZERO ? ZERO : ANY;
	case TWIR_Div:
		return kind_of(k, e->arg[0]) == ZERO ? ZERO : ANY;
	case TWIR_Call:
		return strncmp(e->u.func->name, "exp_f", 5) == 0 && kind_of(k, e->arg[0]) == NEGATIVE ? ZERO : ANY;
	default:
		return ANY;
	}
}

static bool vanishes(struct mask *k)
{
	const struct rows_search *s = k->s;
	map_init(&k->kinds, s->x->a);
	/* Stages are tried in order of definition. */
	for (int i = 0; i < s->x->n; i++) {
		for (int n = 0; n < s->members.n; n++) {
			const struct tw_stage *stage = &s->stages.at[n];
			if (s->members.at[n] != i)
				continue;
			for (int f = 0; f < stage->folds.n; f++) {
				const enum kind body = kind_of(k, k->told[n].folds.at[f]);
				if (body != (stage->folds.at[f].op == TWIR_Max	 ? NEGATIVE
					     : stage->folds.at[f].op == TWIR_Add ? ZERO
										 : ANY) ||
				    body == ANY)
					return false;
			}
			if (!stage->row)
				map_set_ptr(&k->kinds, stage->definition->out,
					    (void *)(uintptr_t)kind_of(k, k->told[n].value));
		}
	}
	return map_get_ptr(&k->kinds, k->a->weights) == (void *)(uintptr_t)ZERO;
}

/* ---- looking through tensors */

enum { MOST_ROUNDS = 12, MOST_COST = 400 };

struct seen {
	struct rows_search *s;
	const struct tw_attention *a;
	int next; /* definition to look through, -1 */
};

static bool is_stage(const struct rows_search *s, const struct twir_tensor *t)
{
	for (int k = 0; k < s->members.n; k++)
		if (s->stages.at[k].definition->out == t)
			return true;
	return false;
}

static void see_definition(void *arg, E e)
{
	struct seen *x = arg;
	if (e->kind != TWIR_Load || x->next >= 0 || e->u.tensor == x->a->scores || is_stage(x->s, e->u.tensor))
		return;
	const int p = group_producer_of(x->s->x, e->u.tensor);
	const struct twir_compute *c = p >= 0 ? x->s->x->def[p].c : NULL;
	if (c && !c->nprograms && !x->s->x->def[p].constant && !tw_has_fold(c->value))
		x->next = p;
}

static E look_through(struct rows_search *s, const struct tw_attention *a, struct twir_facts *f, E e)
{
	for (int round = 0; round < MOST_ROUNDS && tw_cost(e) < MOST_COST; round++) {
		struct seen x = {.s = s, .a = a, .next = -1};
		twir_visit_expr(e, see_definition, &x);
		if (x.next < 0)
			break;
		e = twir_simplify(f, tw_inline(s->m, e, s->x->def[x.next].c));
	}
	return e;
}

static void know(struct twir_facts *f, struct twir_var *v, E extent)
{
	twir_facts_assume(f, twir_le(f->m, twir_index(f->m, 0), twir_var(f->m, v)));
	twir_facts_assume(f, twir_lt(f->m, twir_var(f->m, v), extent));
}

static const struct told *tell(struct rows_search *s, const struct tw_attention *a, struct twir_facts *f)
{
	struct told *t = ARENA_ARRAY(s->x->a, struct told, s->stages.n);
	twir_facts_init(f, s->m);
	for (int k = 0; k < s->rows->nrow; k++)
		know(f, s->rows->row[k], s->rows->row_extent[k]);
	know(f, s->rows->fold[0], s->rows->fold_extent[0]);
	for (int i = 0; i < s->stages.n; i++) {
		t[i].value = look_through(s, a, f, s->stages.at[i].value);
		for (int k = 0; k < s->stages.at[i].folds.n; k++)
			vec_push(s->x->a, &t[i].folds, look_through(s, a, f, s->stages.at[i].folds.at[k].body));
	}
	return t;
}

struct causes {
	struct rows_search *s;
	const struct tw_attention *a;
	VEC(E) at;
	int others; /* loads and comparisons that may be masks */
};

static bool may_mask(const struct causes *c, E e)
{
	return (e->kind == TWIR_Load && e->u.tensor != c->a->scores && !is_stage(c->s, e->u.tensor)) ||
	       e->kind == TWIR_Lt || e->kind == TWIR_Le || e->kind == TWIR_Eq;
}

static void see_cause(void *arg, E e)
{
	struct causes *c = arg;
	for (int i = 0; i < c->at.n; i++)
		if (c->at.at[i] == e)
			return;
	c->others += may_mask(c, e) && e->kind != TWIR_Eq;
	if (e->kind == TWIR_Lt || e->kind == TWIR_Le || e->kind == TWIR_Load)
		vec_push(c->s->x->a, &c->at, e);
}

static void see_mask(void *arg, E e)
{
	struct causes *c = arg;
	c->others += may_mask(c, e);
}

/* Is the last element before the limit one that no mask speaks of? */
static bool open_before_limit(struct mask *k)
{
	struct rows_search *s = k->s;
	const E last = twir_sub(s->m, k->limit, twir_index(s->m, 1));
	struct causes left = {.s = s, .a = k->a};
	struct twir_subst at;
	if (!twir_prove(k->facts, twir_lt(s->m, last, s->rows->fold_extent[0])))
		return false;
	for (int i = 0; i < s->stages.n; i++) {
		twir_subst_init(&at, s->m);
		twir_subst_set(&at, s->rows->fold[0], last);
		if (!s->stages.at[i].row)
			twir_visit_expr(twir_simplify(k->facts, twir_subst_expr(&at, k->told[i].value)), see_mask,
					&left);
		for (int f = 0; f < k->told[i].folds.n; f++)
			twir_visit_expr(twir_simplify(k->facts, twir_subst_expr(&at, k->told[i].folds.at[f])), see_mask,
					&left);
	}
	return left.others == 0;
}

void group_find_limit(struct rows_search *s, struct tw_attention *a)
{
	struct causes c = {.s = s, .a = a};
	struct twir_facts facts;
	const struct told *told = tell(s, a, &facts);
	for (int i = 0; i < s->stages.n; i++) {
		twir_visit_expr(told[i].value, see_cause, &c);
		for (int f = 0; f < told[i].folds.n; f++)
			twir_visit_expr(told[i].folds.at[f], see_cause, &c);
	}
	for (int i = 0; i < c.at.n; i++)
		for (int when = 0; when < 2; when++) {
			struct mask k = {.s = s,
					 .facts = &facts,
					 .told = told,
					 .a = a,
					 .cause = c.at.at[i],
					 .when = when,
					 .infinite = true};
			const bool found = k.cause->kind == TWIR_Load ? constant_limit(&k) : comparison_limit(&k);
			if (!found || !vanishes(&k) || (!k.infinite && c.others > 1 && !open_before_limit(&k)))
				continue;
			a->limit = k.limit;
			return;
		}
}
