/* evaluate.c: node after node, definition after definition, through the interpreter.
 *
 * Input: a graph after inference, values of its inputs and symbols. Output: the value of every tensor. Nothing is
 * fused or scheduled. */
#include "ops/evaluate.h"
#include "ops/guard.h"

struct evaluation {
	struct tw_graph *g;
	struct tw_arena *arena;
	const struct twir_binding *binding;
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
	struct tw_value *out = map_get_ptr(&e->values, c->out);
	if (!out) {
		out = allocate(e, c->out);
		map_set_ptr(&e->values, c->out, out);
	}
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

struct tw_value *tw_graph_evaluate(struct tw_graph *g, struct tw_arena *a, const struct twir_binding *b,
				   const struct tw_value *inputs)
{
	struct evaluation e = {.g = g, .arena = a, .binding = b};
	map_init(&e.values, a);
	check_requirements(&e);
	for (int i = 0; i < g->inputs.n; i++)
		map_set_ptr(&e.values, tw_graph_ir(g, g->inputs.at[i]), arena_copy(a, &inputs[i], sizeof inputs[i]));
	for (int i = 0; i < g->nodes.n; i++) {
		const struct tw_node *n = &g->nodes.at[i];
		if (n->dead)
			continue;
		if (tw_is_guard(n)) {
			run_guard(&e, n);
			continue;
		}
		if (!n->op->compute)
			tw_raise(TW_ERR_UNSUPPORTED, "node '%s' (%s): has no compute definition", n->name, n->op_type);
		struct twir_compute **list;
		int count;
		tw_compute_node(g, (tw_id)i, a, &count, &list);
		add_constants(&e);
		for (int k = 0; k < count; k++) {
			twir_verify_compute(g->m, list[k], TW_ERR_INTERNAL);
			run(&e, list[k]);
		}
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
