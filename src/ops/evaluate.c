/* evaluate.c: node after node, definition after definition, through the interpreter; loops and branches as marks say.
 *
 * Input: a graph after inference, values of its inputs and symbols. Output: the value of every tensor. Nothing is
 * fused or scheduled. */
#include "ops/evaluate.h"
#include "ops/flow.h"
#include "ops/guard.h"

struct item { /* a definition, a mark or a check of indices */
	const struct twir_compute *compute;
	const struct tw_mark *mark;
	const struct tw_node *guard;
	int partner; /* mark: the item where its loop or branch ends, or where its loop begins */
};

struct evaluation {
	struct tw_graph *g;
	struct tw_arena *arena;
	const struct twir_binding *binding; /* symbols of inputs, then those that are decided on the way */
	struct twir_var **symbols;
	int64_t *symbol_values;
	VEC(struct item) items;
	struct tw_map values; /* twir_tensor -> struct tw_value */
};

static struct tw_value *allocate(struct evaluation *e, const struct twir_tensor *t)
{
	struct tw_value *v = ARENA_NEW(e->arena, struct tw_value);
	bool bad = false;
	v->rank = t->rank;
	v->elements = 1;
	for (int d = 0; d < t->rank; d++) {
		v->dims[d] = twir_eval_index(t->shape[d], e->binding);
		if (v->dims[d] < 0)
			tw_raise(TW_ERR_INPUT, "tensor %s would have size %lld", t->name, (long long)v->dims[d]);
		v->elements = tw_mul64(v->elements, v->dims[d], &bad);
	}
	const int64_t bytes = tw_mul64(v->elements, twir_scalar_bytes(t->type), &bad);
	if (bad)
		tw_raise(TW_ERR_INPUT, "tensor %s is too large", t->name);
	v->data = arena_alloc(e->arena, (size_t)bytes + 1);
	return v;
}

struct loads {
	struct tw_arena *arena;
	VEC(struct twir_tensor *) list;
};

static void gather_load(void *arg, const struct twir_expr *x)
{
	struct loads *l = arg;
	if (x->kind != TWIR_Load)
		return;
	for (int i = 0; i < l->list.n; i++)
		if (l->list.at[i] == x->u.tensor)
			return;
	vec_push(l->arena, &l->list, x->u.tensor);
}

static void run(struct evaluation *e, const struct twir_compute *c)
{
	struct loads loads = {.arena = e->arena};
	twir_visit_expr(c->value, gather_load, &loads);
	const int n = loads.list.n;
	struct twir_data *data = ARENA_ARRAY(e->arena, struct twir_data, n);
	int64_t(*shapes)[TWIR_MAX_RANK] = arena_alloc_array(e->arena, sizeof *shapes, n);
	for (int i = 0; i < n; i++) {
		const struct tw_value *v = map_get_ptr(&e->values, loads.list.at[i]);
		TW_CHECK(v && v->data, "%s is read before it is computed", loads.list.at[i]->name);
		data[i] = (struct twir_data){.at = v->data, .elements = v->elements};
		memcpy(shapes[i], v->dims, sizeof shapes[i]);
	}
	struct tw_value *out = allocate(e, c->out); /* anew in each iteration: what is carried on keeps the old one */
	map_set_ptr(&e->values, c->out, out);
	const struct twir_env env = {
		.n = n, .tensors = loads.list.at, .data = data, .shapes = (const int64_t(*)[TWIR_MAX_RANK])shapes};
	const struct twir_data to = {.at = out->data, .elements = out->elements};
	twir_interpret_compute(e->g->m, c, e->binding, &env, to);
}

static struct tw_value *value_of(struct evaluation *e, tw_id id)
{
	return map_get_ptr(&e->values, tw_graph_ir(e->g, id));
}

static void run_guard(struct evaluation *e, const struct tw_node *n)
{
	struct tw_value *in = value_of(e, n->in[0]), *out = ARENA_NEW(e->arena, struct tw_value);
	const struct tw_tensor *t = &e->g->tensors.at[n->in[0]];
	int64_t size[TWIR_MAX_RANK];
	TW_CHECK(in && in->data, "indices are read before they are computed");
	for (int d = 0; d < e->g->tensors.at[n->in[1]].rank; d++)
		size[d] = twir_eval_index(e->g->tensors.at[n->in[1]].shape[d], e->binding);
	for (int64_t i = 0; i < in->elements; i++)
		tw_guard_check(n, tw_data_int(t->type, in->data, i), i, in->rank ? in->dims[in->rank - 1] : 1, size);
	*out = *in;
	map_set_ptr(&e->values, tw_graph_ir(e->g, n->out[0]), out);
}

/* Constants are copied, because those in a mapped file may lie unaligned. */
static void add_constants(struct evaluation *e)
{
	for (int i = 0; i < e->g->tensors.n; i++) {
		const struct tw_tensor *t = &e->g->tensors.at[i];
		if (!t->data || !t->ir || map_get_ptr(&e->values, t->ir))
			continue;
		struct tw_value *v = allocate(e, t->ir);
		memcpy(v->data, t->data, (size_t)t->bytes);
		map_set_ptr(&e->values, t->ir, v);
	}
}

static void check_requirements(const struct evaluation *e)
{
	for (int i = 0; i < e->g->requires.n; i++) {
		const struct tw_require *r = &e->g->requires.at[i];
		const int64_t a = twir_eval_index(r->a, e->binding), b = twir_eval_index(r->b, e->binding);
		if (a != b)
			tw_raise(TW_ERR_INPUT, "%s: %lld and %lld do not match", r->why, (long long)a, (long long)b);
	}
}

/* ---- loops and branches */

static int64_t *symbol_value(const struct evaluation *e, const struct twir_var *v)
{
	for (int i = 0; i < e->binding->n; i++)
		if (e->symbols[i] == v)
			return &e->symbol_values[i];
	tw_raise(TW_ERR_INTERNAL, "symbol %s has no value", v->name);
}

static bool holds(const struct evaluation *e, const struct twir_tensor *t)
{
	const struct tw_value *v = t ? map_get_ptr(&e->values, t) : NULL;
	TW_CHECK(!t || (v && v->elements > 0), "a condition is read before it is computed");
	return !t || *(const char *)v->data != 0;
}

static void hand_on(struct evaluation *e, const struct twir_tensor *from, const struct twir_tensor *to)
{
	void *v = map_get_ptr(&e->values, from);
	TW_CHECK(v, "%s is read before it is computed", from->name);
	if (to)
		map_set_ptr(&e->values, to, v);
}

static int64_t trips(const struct evaluation *e, const struct tw_flow *f)
{
	const int64_t most = twir_eval_index(f->trips, e->binding);
	const struct tw_value *v = f->count ? map_get_ptr(&e->values, f->count) : NULL;
	const int64_t count = v ? tw_data_int(f->count->type, v->data, 0) : most;
	return count < most ? count : most;
}

static void keep_slices(struct evaluation *e, const struct tw_flow *f, int64_t number)
{
	for (int i = 0; i < f->slices.n; i++) {
		const struct tw_value *slice = map_get_ptr(&e->values, f->slices.at[i].slice);
		const struct twir_tensor *t = f->slices.at[i].whole;
		const struct tw_value *whole = map_get_ptr(&e->values, t);
		const int64_t bytes = slice->elements * twir_scalar_bytes(t->type);
		memcpy((char *)whole->data + number * bytes, slice->data, (size_t)bytes);
	}
}

static void leave(struct evaluation *e, const struct tw_flow *f, int64_t ran)
{
	if (f->ran)
		*symbol_value(e, f->ran) = ran;
	for (int i = 0; i < f->carried.n; i++)
		hand_on(e, f->carried.at[i].in, f->carried.at[i].last);
	for (int i = 0; i < f->slices.n && f->ran; i++) { /* the size is known now */
		const struct tw_value *most = map_get_ptr(&e->values, f->slices.at[i].whole);
		struct tw_value *v = allocate(e, f->slices.at[i].whole);
		memcpy(v->data, most->data, (size_t)(v->elements * twir_scalar_bytes(f->slices.at[i].whole->type)));
		map_set_ptr(&e->values, f->slices.at[i].whole, v);
	}
}

static int begin_loop(struct evaluation *e, const struct item *at, int i)
{
	const struct tw_flow *f = at->mark->flow;
	const int64_t most = twir_eval_index(f->trips, e->binding);
	if (f->ran)
		*symbol_value(e, f->ran) = most;
	for (int k = 0; k < f->carried.n; k++)
		hand_on(e, f->carried.at[k].init, f->carried.at[k].in);
	for (int k = 0; k < f->slices.n; k++)
		map_set_ptr(&e->values, f->slices.at[k].whole, allocate(e, f->slices.at[k].whole));
	*symbol_value(e, f->number) = 0;
	if (trips(e, f) > 0 && holds(e, f->condition))
		return i + 1;
	leave(e, f, 0);
	return at->partner + 1;
}

static int next(struct evaluation *e, const struct item *at, int i)
{
	const struct tw_flow *f = at->mark->flow;
	int64_t *number = symbol_value(e, f->number);
	keep_slices(e, f, *number);
	VEC(void *) out = {0}; /* all are read before one is handed on */
	for (int k = 0; k < f->carried.n; k++)
		vec_push(e->arena, &out, map_get_ptr(&e->values, f->carried.at[k].out));
	for (int k = 0; k < f->carried.n; k++)
		map_set_ptr(&e->values, f->carried.at[k].in, out.at[k]);
	if (*number + 1 < trips(e, f) && holds(e, f->go_on)) {
		++*number;
		return at->partner + 1;
	}
	leave(e, f, *number + 1);
	return i + 1;
}

static void merge(struct evaluation *e, const struct tw_flow *f, bool yes)
{
	for (int k = 0; k < f->merged.n; k++) {
		const struct tw_merged *o = &f->merged.at[k];
		for (int d = 0; d < o->out->rank; d++)
			if (o->sizes[d].symbol)
				*symbol_value(e, o->sizes[d].symbol) =
					twir_eval_index(yes ? o->sizes[d].yes : o->sizes[d].no, e->binding);
		hand_on(e, yes ? o->yes : o->no, o->out);
	}
}

/* Returns the item to go on with. */
static int run_mark(struct evaluation *e, int i)
{
	const struct item *at = &e->items.at[i];
	switch (at->mark->kind) {
	case TW_MARK_LOOP:
		return begin_loop(e, at, i);
	case TW_MARK_NEXT:
		return next(e, at, i);
	case TW_MARK_IF:
		return holds(e, at->mark->flow->condition) ? i + 1 : at->partner + 1;
	case TW_MARK_ELSE: /* met at the end of the side before it */
		merge(e, at->mark->flow, true);
		return at->partner + 1;
	default:
		merge(e, at->mark->flow, false);
		return i + 1;
	}
}

/* All definitions in order; loops and branches know their ends. */
static void list_items(struct evaluation *e)
{
	struct tw_graph *g = e->g;
	VEC(int) open = {0};
	for (int i = 0; i < g->nodes.n; i++) {
		const struct tw_node *n = &g->nodes.at[i];
		if (n->dead)
			continue;
		if (tw_is_guard(n)) {
			vec_push(e->arena, &e->items, ((struct item){.guard = n}));
			continue;
		}
		if (!n->op->compute)
			tw_raise(TW_ERR_UNSUPPORTED, "node '%s' (%s): has no compute definition", n->name, n->op_type);
		struct twir_compute **list;
		const struct tw_mark *marks;
		int count, nmarks, mark = 0;
		tw_compute_flow(g, (tw_id)i, e->arena, &count, &list, &nmarks, &marks);
		for (int k = 0; k <= count; k++) {
			for (; mark < nmarks && marks[mark].at == k; mark++) {
				struct item item = {.mark = &marks[mark]};
				if (item.mark->kind != TW_MARK_LOOP && item.mark->kind != TW_MARK_IF) {
					item.partner = open.at[--open.n];
					e->items.at[item.partner].partner = e->items.n;
				}
				if (item.mark->kind != TW_MARK_NEXT && item.mark->kind != TW_MARK_END)
					vec_push(e->arena, &open, e->items.n);
				vec_push(e->arena, &e->items, item);
			}
			if (k < count)
				vec_push(e->arena, &e->items, ((struct item){.compute = list[k]}));
		}
	}
}

static void bind_symbols(struct evaluation *e, const struct twir_binding *b, struct twir_binding *all)
{
	const int most = b->n + e->g->decided.n;
	e->symbols = ARENA_ARRAY(e->arena, struct twir_var *, most);
	e->symbol_values = ARENA_ARRAY(e->arena, int64_t, most);
	*all = (struct twir_binding){b->n, e->symbols, e->symbol_values};
	for (int i = 0; i < b->n; i++) {
		e->symbols[i] = b->symbols[i];
		e->symbol_values[i] = b->values[i];
	}
	for (int i = 0; i < e->g->decided.n; i++) {
		e->symbol_values[all->n] = twir_eval_index(e->g->decided.at[i].most, all);
		e->symbols[all->n++] = e->g->decided.at[i].symbol;
	}
	e->binding = all;
}

struct tw_value *tw_graph_evaluate(struct tw_graph *g, struct tw_arena *a, const struct twir_binding *b,
				   const struct tw_value *inputs)
{
	struct evaluation e = {.g = g, .arena = a, .binding = b};
	struct twir_binding binding;
	map_init(&e.values, a);
	check_requirements(&e);
	for (int i = 0; i < g->inputs.n; i++)
		map_set_ptr(&e.values, tw_graph_ir(g, g->inputs.at[i]), arena_copy(a, &inputs[i], sizeof inputs[i]));
	list_items(&e);
	bind_symbols(&e, b, &binding);
	add_constants(&e);
	for (int i = 0; i < e.items.n;) {
		const struct item *item = &e.items.at[i];
		if (item->mark) {
			i = run_mark(&e, i);
			continue;
		}
		if (item->guard) {
			run_guard(&e, item->guard);
		} else {
			twir_verify_compute(g->m, item->compute, TW_ERR_INTERNAL);
			run(&e, item->compute);
		}
		i++;
	}
	for (int i = 0; i < g->outputs.n; i++)
		tw_graph_ir(g, g->outputs.at[i]);
	add_constants(&e);
	struct tw_value *all = ARENA_ARRAY(a, struct tw_value, g->tensors.n);
	for (int i = 0; i < g->tensors.n; i++) {
		const struct tw_value *v = g->tensors.at[i].ir ? map_get_ptr(&e.values, g->tensors.at[i].ir) : NULL;
		if (v)
			all[i] = *v;
	}
	return all;
}
