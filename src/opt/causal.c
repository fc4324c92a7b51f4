/* Which keys of an attention have weight zero whatever their scores: those that a mask gives minus infinity, or so
 * large a negative number, and that lie beyond a place which rises with the query. The mask is a comparison of the
 * places in the stages, or a constant tensor, which is looked at.
 *
 * Each comparison and constant is tried: what do the stages come to where it masks? Scores must become negative
 * beyond measure, exponentials and weights zero, and every fold must be indifferent to such elements. Then they
 * may be left out. A mask of minus infinity stands beside any other one; a finite one must be the only one, since
 * a row that is masked as a whole by two of them gives weight to all. Every row keeps an element. */
#include "opt/rows_int.h"

#include <math.h>

typedef const struct twir_expr *E;

#define BEYOND_MEASURE (-1e30)

enum kind { ANY, NEGATIVE, ZERO };

struct mask {
	struct rows_search *s;
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
	       twir_linear_in(&s->facts, limit, s->rows->row[k->a->query], &base, &stride) && stride >= 0 &&
	       twir_prove(&s->facts, twir_le(s->m, twir_index(s->m, 1), limit));
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
	if (!twir_linear_in(&k->s->facts, twir_sub(m, a, b), k->s->rows->fold[0], &base, &stride) || stride != 1)
		return false;
	k->limit = rows_simple(k->s, twir_sub(m, twir_index(m, less ? 0 : 1), base));
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
				const enum kind body = kind_of(k, stage->folds.at[f].body);
				if (body != (stage->folds.at[f].op == TWIR_Max	 ? NEGATIVE
					     : stage->folds.at[f].op == TWIR_Add ? ZERO
										 : ANY) ||
				    body == ANY)
					return false;
			}
			if (!stage->row)
				map_set_ptr(&k->kinds, stage->definition->out,
					    (void *)(uintptr_t)kind_of(k, stage->value));
		}
	}
	return map_get_ptr(&k->kinds, k->a->weights) == (void *)(uintptr_t)ZERO;
}

struct causes {
	struct rows_search *s;
	const struct tw_attention *a;
	VEC(E) at;
	int others; /* loads and comparisons that may be masks */
};

static void see_cause(void *arg, E e)
{
	struct causes *c = arg;
	for (int i = 0; i < c->at.n; i++)
		if (c->at.at[i] == e)
			return;
	c->others += (e->kind == TWIR_Load && e->u.tensor != c->a->scores) || e->kind == TWIR_Lt || e->kind == TWIR_Le;
	for (int k = 0; k < c->s->members.n && e->kind == TWIR_Load; k++)
		c->others -= c->s->stages.at[k].definition->out == e->u.tensor;
	if (e->kind == TWIR_Lt || e->kind == TWIR_Le || e->kind == TWIR_Load)
		vec_push(c->s->x->a, &c->at, e);
}

void group_find_limit(struct rows_search *s, struct tw_attention *a)
{
	struct causes c = {.s = s, .a = a};
	for (int i = 0; i < s->stages.n; i++) {
		twir_visit_expr(s->stages.at[i].value, see_cause, &c);
		for (int f = 0; f < s->stages.at[i].folds.n; f++)
			twir_visit_expr(s->stages.at[i].folds.at[f].body, see_cause, &c);
	}
	for (int i = 0; i < c.at.n; i++)
		for (int when = 0; when < 2; when++) {
			struct mask k = {.s = s, .a = a, .cause = c.at.at[i], .when = when, .infinite = true};
			const bool found = k.cause->kind == TWIR_Load ? constant_limit(&k) : comparison_limit(&k);
			if (!found || !vanishes(&k) || (!k.infinite && c.others > 1))
				continue;
			a->limit = k.limit;
			return;
		}
}
