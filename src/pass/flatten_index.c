/* flatten_index: layouts become offsets. needs: expand_mapping, specialise (each index is a sum of terms with known
 * ranges); breaks: nothing. Out: in, out and shared tensors have rank 1 and no layout, in their storage's elements;
 * every access has one index, simplified with the facts of its place so that / and % of layouts cancel term by term.
 * Register tensors keep their indices until lanes are lowered. */
#include "pass/pass_int.h"

struct flat {
	struct twp_walk *w;
	struct twir_rewriter r;
	struct tw_map original; /* tensor -> its twir_tensor as it was */
	VEC(struct twir_tensor *) all;
};

static bool is_memory(const struct twir_tensor *t)
{
	return t->scope == TWIR_IN || t->scope == TWIR_OUT || t->scope == TWIR_SHARED;
}

/* Ranks change only when all accesses have: until then one index is taken as the offset, and a load whose index is a
 * load keeps its own. */
static void flatten(struct flat *f, struct twir_tensor *t)
{
	struct twir_module *m = f->w->m;
	if (!is_memory(t) || map_get_ptr(&f->original, t))
		return;
	map_set_ptr(&f->original, t, arena_copy(m->arena, t, sizeof *t));
	vec_push(m->arena, &f->all, t);
}

/* The tensor object is shared by all that reads it: it is changed in place. */
static void finish(struct flat *f)
{
	struct twir_module *m = f->w->m;
	for (int i = 0; i < f->all.n; i++) {
		struct twir_tensor *t = f->all.at[i];
		/* A parameter has its size where no core runs too. */
		struct twir_facts outside;
		twir_facts_init(&outside, m);
		struct twir_facts *facts = t->scope == TWIR_SHARED ? &f->w->facts : &outside;
		const struct twir_expr *n = twir_simplify(facts, twir_tensor_elements(m, t));
		t->rank = 1;
		t->layout = NULL;
		t->shape = ARENA_ARRAY(m->arena, const struct twir_expr *, 1);
		t->shape[0] = n;
	}
}

static const struct twir_expr *offset(struct flat *f, const struct twir_tensor *t, int n,
				      const struct twir_expr *const *index)
{
	const struct twir_tensor *was = map_get_ptr(&f->original, t);
	TW_CHECK(was, "%s is declared before its use", t->name);
	if (n == 1 && was->rank != 1) /* an offset into the storage already */
		return twir_simplify(&f->w->facts, index[0]);
	return twir_simplify(&f->w->facts, twir_layout_offset(f->w->m, was, n, index));
}

/* Where a wide access begins; its elements must lie beside each other in the layout too. */
static const struct twir_expr *wide_offset(struct flat *f, const struct twir_tensor *t, int n,
					   const struct twir_expr *const *index, int lanes)
{
	struct twir_module *m = f->w->m;
	const struct twir_expr *at = offset(f, t, n, index), *last[TWIR_MAX_RANK];
	int64_t step;
	if (lanes == 1)
		return at;
	for (int i = 0; i < n; i++)
		last[i] = i + 1 < n ? index[i] : twir_add(m, index[i], twir_index(m, lanes - 1));
	const struct twir_expr *all = twir_simplify(&f->w->facts, twir_sub(m, offset(f, t, n, last), at));
	if (!twir_const_int(all, &step) || step != lanes - 1)
		tw_raise(
			TW_ERR_UNSUPPORTED,
			"%d elements of %s beside each other cannot be shown to be so in its layout: they are %s apart",
			lanes, t->base, twir_print_expr(m->arena, all));
	return at;
}

static const struct twir_expr *load(struct twir_rewriter *r, const struct twir_expr *e)
{
	struct flat *f = r->user;
	if (e->kind != TWIR_Load || !is_memory(e->u.tensor))
		return e;
	const struct twir_expr *at = wide_offset(f, e->u.tensor, e->nidx, e->arg, e->type.lanes);
	if (e->n != e->nidx)
		return twir_load_wide(r->m, e->u.tensor, 1, &at, e->type.lanes, e->arg[e->nidx], e->arg[e->nidx + 1]);
	return e->type.lanes > 1 ? twir_load_wide(r->m, e->u.tensor, 1, &at, e->type.lanes, NULL, NULL)
				 : twir_load(r->m, e->u.tensor, 1, &at);
}

static const struct twir_expr *expr(struct twp_walk *w, const struct twir_expr *e)
{
	struct flat *f = w->user;
	twir_rewriter_reset(&f->r); /* facts differ from place to place */
	return twir_rewrite_expr(&f->r, e);
}

static bool statement(struct twp_walk *w, const struct twir_stmt *s, struct twp_list *out)
{
	struct flat *f = w->user;
	if (s->kind == TWIR_DECLARE)
		flatten(f, s->u.declare.tensor);
	if (s->kind == TWIR_PREFETCH) {
		struct twir_stmt *c = twp_walk_stmt(w, s);
		const struct twir_expr *at = offset(f, c->u.prefetch.tensor, c->u.prefetch.n, c->u.prefetch.index);
		twp_list_add(out, twir_prefetch(w->m, c->u.prefetch.tensor, 1, &at, c->u.prefetch.near));
		return true;
	}
	if (s->kind != TWIR_STORE || !is_memory(s->u.store.tensor))
		return false;
	if (s->u.store.n == 1 && s->u.store.index[0]->type.lanes > 1) /* a scatter: offsets into the storage already */
		return false;
	struct twir_stmt *c = twp_walk_stmt(w, s);
	const struct twir_expr *at =
		wide_offset(f, c->u.store.tensor, c->u.store.n, c->u.store.index, c->u.store.value->type.lanes);
	c->u.store.n = 1;
	c->u.store.index = ARENA_ARRAY(w->m->arena, const struct twir_expr *, 1);
	c->u.store.index[0] = at;
	twp_list_add(out, c);
	return true;
}

void pass_flatten_index(struct twir_module *m, struct twir_program *p, const struct tw_target *t)
{
	(void)t;
	struct twp_walk w;
	struct flat f = {.w = &w};
	twp_walk_init(&w, m, p);
	w.user = &f;
	w.stmt = statement;
	w.expr = expr;
	twir_rewriter_init(&f.r, m);
	f.r.user = &f;
	f.r.expr = load;
	map_init(&f.original, m->scratch);
	for (int i = 0; i < p->nparams; i++)
		flatten(&f, p->params[i]);
	p->body = twp_walk_block(&w, p->body);
	finish(&f);
}
