/* Products of one tensor with several constants (query, key and value of an attention) become one product with
 * their columns side by side: its panels are packed and its rows read once. Each former result becomes a view of
 * the whole.
 *
 * Only where nothing is lost: a result that other products read as one of two operands that both change at run
 * time is moved there anyway, with a bias or a scale on the way; any other would lose the place in its product's
 * store where its consumer now joins. */
#include "opt/opt.h"

typedef const struct twir_expr *E;

#define MAX_MERGED 8

struct merger {
	struct tw_definitions *d;
	struct twir_module *m;
	struct tw_arena *a;
	struct tw_map user; /* tensor -> number of its only user + 1; 0 with several: SEVERAL */
};

#define SEVERAL ((void *)(uintptr_t)-1)

struct product { /* C[i.., j] = sum over k of a * B[k, j] */
	int at;
	struct twir_compute *c;
	E a; /* over the first one's axes, later: canonical ones */
	E b; /* load of a constant: the last axis last */
	E columns;
};

static bool is_constant(const struct merger *g, const struct twir_tensor *t)
{
	const uintptr_t id = (uintptr_t)map_get_ptr(&g->d->tensor, t);
	return id && g->d->g->tensors.at[id - 1].data;
}

static bool is_sum_of_products(const struct twir_compute *c)
{
	const E v = c->value;
	return v->kind == TWIR_Fold && v->op == TWIR_Add && v->n == 2 && v->arg[0]->kind == TWIR_Mul &&
	       v->arg[0]->arg[0]->kind == TWIR_Load && v->arg[0]->arg[1]->kind == TWIR_Load;
}

static bool is_var(E e, const struct twir_var *v)
{
	return e->kind == TWIR_Var && e->u.var == v;
}

static bool as_product(const struct merger *g, int i, struct product *p)
{
	struct twir_compute *c = g->d->list.at[i].compute;
	if (!c || c->out->rank < 1 || !is_sum_of_products(c) || c->value->type.scalar != TWIR_F32)
		return false;
	struct twir_var *j = c->axes[c->out->rank - 1], *k = c->value->u.axes[0];
	const E body = c->value->arg[0];
	for (int swap = 0; swap < 2; swap++) {
		*p = (struct product){.at = i,
				      .c = c,
				      .a = body->arg[swap],
				      .b = body->arg[1 - swap],
				      .columns = c->out->shape[c->out->rank - 1]};
		if (p->b->nidx == 2 && p->b->n == 2 && is_constant(g, p->b->u.tensor) && is_var(p->b->arg[0], k) &&
		    is_var(p->b->arg[1], j) && !is_constant(g, p->a->u.tensor) && !twir_uses_var(p->a, j))
			return true;
	}
	return false;
}

/* Does what becomes of the result, one step after the other, end as an operand of a product of two tensors that
 * both change? */
static bool ends_in_attention(const struct merger *g, const struct twir_tensor *t)
{
	for (int step = 0; step < 8; step++) {
		const void *user = map_get_ptr(&g->user, t);
		if (!user || user == SEVERAL)
			return false;
		const struct twir_compute *c = g->d->list.at[(uintptr_t)user - 1].compute;
		if (!c)
			return false;
		if (tw_has_fold(c->value))
			return is_sum_of_products(c) && !is_constant(g, c->value->arg[0]->arg[0]->u.tensor) &&
			       !is_constant(g, c->value->arg[0]->arg[1]->u.tensor) &&
			       c->value->arg[0]->arg[0]->u.tensor != c->value->arg[0]->arg[1]->u.tensor;
		t = c->out;
	}
	return false;
}

static void see_reader(struct merger *g, const struct twir_tensor *t, int reader)
{
	void *before = map_get_ptr(&g->user, t);
	map_set_ptr(&g->user, t, before ? SEVERAL : (void *)(uintptr_t)(reader + 1));
}

static void find_users(struct merger *g)
{
	const struct tw_graph *graph = g->d->g;
	for (int i = 0; i < g->d->list.n; i++) {
		const struct tw_definition *d = &g->d->list.at[i];
		struct twir_tensor **t;
		int n;
		if (!d->compute) { /* host operators and marks: whatever they read stays as it is */
			const struct tw_node *node = &graph->nodes.at[d->node];
			for (int k = 0; k < node->nin; k++)
				if (node->in[k] != TW_NONE && graph->tensors.at[node->in[k]].ir)
					map_set_ptr(&g->user, graph->tensors.at[node->in[k]].ir, SEVERAL);
			continue;
		}
		tw_loaded_tensors(g->a, d->compute->value, &t, &n);
		for (int k = 0; k < n; k++)
			see_reader(g, t[k], i);
	}
	for (int i = 0; i < graph->outputs.n; i++)
		if (graph->tensors.at[graph->outputs.at[i]].ir)
			map_set_ptr(&g->user, graph->tensors.at[graph->outputs.at[i]].ir, SEVERAL);
}

/* The other's a over p's axes */
static E over_axes_of(struct merger *g, const struct product *p, const struct product *other)
{
	struct twir_subst s;
	twir_subst_init(&s, g->m);
	for (int d = 0; d + 1 < p->c->out->rank; d++)
		twir_subst_set(&s, other->c->axes[d], twir_var(g->m, p->c->axes[d]));
	twir_subst_set(&s, other->c->value->u.axes[0], twir_var(g->m, p->c->value->u.axes[0]));
	return twir_subst_expr(&s, other->a);
}

static bool alike(struct merger *g, const struct product *p, const struct product *q)
{
	if (p->c->out->rank != q->c->out->rank || p->c->value->arg[1] != q->c->value->arg[1] ||
	    over_axes_of(g, p, q) != p->a)
		return false;
	for (int d = 0; d + 1 < p->c->out->rank; d++)
		if (p->c->out->shape[d] != q->c->out->shape[d])
			return false;
	return true;
}

static struct twir_var *axis(struct merger *g, const char *name, E extent)
{
	struct twir_var *v = twir_var_new(g->m, TWIR_AXIS, twir_scalar_type(TWIR_INDEX), name);
	int64_t n;
	v->lo = 0;
	v->hi = twir_const_int(extent, &n) && n > 0 ? n - 1 : INT64_MAX - 1;
	return v;
}

static struct twir_compute *definition(struct merger *g, const char *name, int rank, E const *shape,
				       struct twir_var *const *axes, const char *origin)
{
	struct twir_compute *c = ARENA_NEW(g->a, struct twir_compute);
	c->out = twir_tensor_new(g->m, name, TWIR_F32, rank, shape, TWIR_TENSOR);
	c->axes = arena_copy(g->a, axes, sizeof(*axes) * (size_t)rank);
	c->origin = origin;
	return c;
}

/* Columns[k, j]: the constants side by side. */
static struct twir_compute *side_by_side(struct merger *g, int n, const struct product *p, E const *first, E width)
{
	struct twir_module *m = g->m;
	const E depth = p[0].c->value->arg[1], shape[] = {depth, width};
	struct twir_var *axes[] = {axis(g, "k", depth), axis(g, "j", width)};
	struct twir_compute *c = definition(g, "columns", 2, shape, axes, p[0].c->origin);
	for (int i = n - 1; i >= 0; i--) {
		const E at[] = {twir_var(m, axes[0]), twir_sub(m, twir_var(m, axes[1]), first[i])};
		const E own = twir_load(m, p[i].b->u.tensor, 2, at);
		const E end = twir_add(m, first[i], p[i].columns);
		c->value = c->value ? twir_cond(m, twir_lt(m, twir_var(m, axes[1]), end), own, c->value) : own;
	}
	return c;
}

static void merge(struct merger *g, int n, struct product *p, struct tw_definition *made)
{
	struct twir_module *m = g->m;
	const struct twir_compute *c0 = p[0].c;
	const int last = c0->out->rank - 1;
	E first[MAX_MERGED], width = twir_index(m, 0), shape[TWIR_MAX_RANK];
	struct twir_var *axes[TWIR_MAX_RANK];
	for (int i = 0; i < n; i++) {
		first[i] = width;
		width = twir_add(m, width, p[i].columns);
	}
	for (int d = 0; d <= last; d++) {
		shape[d] = d < last ? c0->out->shape[d] : width;
		axes[d] = axis(g, "i", shape[d]);
	}
	struct twir_compute *columns = side_by_side(g, n, p, first, width);
	struct twir_compute *whole = definition(g, "merged", last + 1, shape, axes, c0->origin);
	struct twir_var *k = axis(g, "k", c0->value->arg[1]);
	struct twir_subst s;
	twir_subst_init(&s, m);
	for (int d = 0; d < last; d++)
		twir_subst_set(&s, c0->axes[d], twir_var(m, axes[d]));
	twir_subst_set(&s, c0->value->u.axes[0], twir_var(m, k));
	const E at[] = {twir_var(m, k), twir_var(m, axes[last])};
	const E product = twir_mul(m, twir_subst_expr(&s, p[0].a), twir_load(m, columns->out, 2, at));
	whole->value = twir_fold(m, TWIR_Add, 1, &k, &c0->value->arg[1], product);
	for (int i = 0; i < n; i++) {
		E place[TWIR_MAX_RANK];
		for (int d = 0; d <= last; d++)
			place[d] = twir_var(m, p[i].c->axes[d]);
		place[last] = twir_add(m, place[last], first[i]);
		p[i].c->value = twir_load(m, whole->out, last + 1, place);
	}
	made[0] = (struct tw_definition){.compute = columns, .node = g->d->list.at[p[0].at].node};
	made[1] = (struct tw_definition){.compute = whole, .node = g->d->list.at[p[0].at].node};
}

void opt_merge_products(struct tw_definitions *d)
{
	struct merger g = {.d = d, .m = d->g->m, .a = d->g->arena};
	const int n = d->list.n;
	struct product *all = ARENA_ARRAY(g.a, struct product, n);
	struct tw_definition(*before)[2] = arena_alloc(g.a, sizeof(*before) * (size_t)(n > 0 ? n : 1));
	int found = 0, region = 0;
	int *regions = ARENA_ARRAY(g.a, int, n);
	map_init(&g.user, g.a);
	find_users(&g);
	for (int i = 0; i < n; i++) { /* loops and branches begin and end at marks: what lies between two is merged */
		region += d->list.at[i].mark != NULL;
		regions[found] = region;
		if (as_product(&g, i, &all[found]) && ends_in_attention(&g, all[found].c->out))
			found++;
	}
	for (int i = 0; i < found; i++) {
		struct product set[MAX_MERGED];
		int count = 0;
		for (int k = i; k < found && count < MAX_MERGED && all[i].c; k++)
			if (all[k].c && regions[k] == regions[i] && (k == i || alike(&g, &all[i], &all[k])))
				set[count++] = all[k];
		if (count < 2)
			continue;
		merge(&g, count, set, before[all[i].at]);
		for (int k = i; k < found; k++)
			for (int s = 0; s < count; s++)
				if (all[k].c == set[s].c)
					all[k].c = NULL;
	}
	VEC(struct tw_definition) list = {0};
	for (int i = 0; i < n; i++) {
		for (int k = 0; k < 2; k++)
			if (before[i][k].compute)
				vec_push(g.a, &list, before[i][k]);
		vec_push(g.a, &list, d->list.at[i]);
	}
	d->list.at = list.at;
	d->list.n = list.n;
	d->list.cap = list.cap;
}
