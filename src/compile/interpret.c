/* A model through the interpreter. Input: a model in memory and its inputs; output: every tensor that a node makes. The
 * work is estimated first, on a reading of its own, so that nothing long is begun. */
#include "compile/compile_int.h"
#include "ops/evaluate.h"

struct job {
	struct twc *c;
	const void *model;
	int64_t bytes;
	const char *folder;
	int ninputs;
	const struct tw_dense *inputs;
	double most;
	tw_take *take;
	void *arg;
};

bool twc_is_of_model(const struct tw_node *n)
{
	return !n->dead && !(n->op->domain && strcmp(n->op->domain, "tilewright") == 0);
}

/* Values of the symbols: of inputs, then those that data decides, at their bounds. */
static struct twir_binding bind(const struct job *j)
{
	const struct twc *c = j->c;
	const struct tw_graph *g = c->g;
	VEC(struct twir_var *) symbols = {0};
	VEC(int64_t) values = {0};
	for (int i = 0; i < c->m->symbols.n; i++) {
		struct twrt_source s;
		if (!twc_find_source(c, c->m->symbols.at[i], &s))
			continue;
		const struct tw_dense *t = &j->inputs[s.input];
		const int64_t v = s.dim >= 0
					  ? t->dims[s.dim]
					  : tw_data_int(g->tensors.at[g->inputs.at[s.input]].type, t->data, -1 - s.dim);
		vec_push(c->arena, &symbols, c->m->symbols.at[i]);
		vec_push(c->arena, &values, v);
	}
	for (int i = 0; i < g->decided.n; i++) {
		const struct twir_binding before = {symbols.n, symbols.at, values.at};
		const int64_t v = twir_eval_index(g->decided.at[i].most, &before);
		vec_push(c->arena, &symbols, g->decided.at[i].symbol);
		vec_push(c->arena, &values, v);
	}
	return (struct twir_binding){symbols.n, symbols.at, values.at};
}

/* Types and ranks first: binding reads sizes and elements. */
static void check_kinds(const struct job *j)
{
	const struct tw_graph *g = j->c->g;
	if (j->ninputs != g->inputs.n)
		tw_raise(TW_ERR_INPUT, "%d inputs are given; the model has %d", j->ninputs, g->inputs.n);
	for (int i = 0; i < j->ninputs; i++) {
		const struct tw_tensor *t = &g->tensors.at[g->inputs.at[i]];
		if (j->inputs[i].type != (int)twc_type(t->type) || j->inputs[i].rank != t->rank)
			tw_raise(TW_ERR_INPUT, "input \"%s\": its type or its number of dimensions does not fit",
				 t->name);
	}
}

static void check_sizes(const struct job *j, const struct twir_binding *b)
{
	const struct tw_graph *g = j->c->g;
	for (int i = 0; i < j->ninputs; i++) {
		const struct tw_tensor *t = &g->tensors.at[g->inputs.at[i]];
		for (int d = 0; d < t->rank; d++)
			if (twir_eval_index(t->shape[d], b) != j->inputs[i].dims[d])
				tw_raise(TW_ERR_INPUT, "input \"%s\": dimension %d is %lld, which does not fit",
					 t->name, d, (long long)j->inputs[i].dims[d]);
	}
}

/* ---- the work ---- */

struct work {
	struct tw_arena *a;
	const struct twir_binding *b;
	struct tw_map known; /* expression -> double */
};

static void see_axis(void *arg, const struct twir_expr *e)
{
	*(bool *)arg |= e->kind == TWIR_Var && e->u.var->kind != TWIR_SYMBOL;
}

static double extent(const struct work *w, const struct twir_expr *e)
{
	bool varies = false;
	twir_visit_expr(e, see_axis, &varies);
	return varies ? 1 : (double)twir_eval_index(e, w->b);
}

/* Nodes that one evaluation of e visits. */
static double cost(struct work *w, const struct twir_expr *e)
{
	const double *known = map_get_ptr(&w->known, e);
	if (known)
		return *known;
	double *n = ARENA_NEW(w->a, double);
	const bool fold = e->kind == TWIR_Fold;
	*n = 1;
	for (int i = 0; i < (fold ? 1 : e->n); i++)
		*n += cost(w, e->arg[i]);
	for (int i = 1; fold && i < e->n; i++)
		*n *= extent(w, e->arg[i]);
	map_set_ptr(&w->known, e, n);
	return *n;
}

static void estimate(void *arg)
{
	const struct job *j = arg;
	struct twc *c = j->c;
	twc_graph(c, j->model, j->bytes, j->folder);
	check_kinds(j);
	const struct twir_binding b = bind(j);
	check_sizes(j, &b);
	opt_remove_dead(c->g);
	opt_lower(c->g, &c->definitions);
	struct work w = {.a = c->arena, .b = &b};
	map_init(&w.known, w.a);
	double all = 0;
	for (int i = 0; i < c->definitions.list.n; i++) {
		const struct twir_compute *d = c->definitions.list.at[i].compute;
		double n = d ? cost(&w, d->value) : 0;
		for (int k = 0; d && k < d->out->rank; k++)
			n *= extent(&w, d->out->shape[k]);
		all += n;
	}
	if (all > j->most)
		tw_raise(TW_ERR_UNSUPPORTED, "it would take about %.2g operations, more than %.2g", all, j->most);
}

/* ---- the run ---- */

static void hand_out(const struct job *j, tw_id id, const struct tw_value *all)
{
	if (id == TW_NONE || !j->c->g->tensors.at[id].name[0] || !all[id].data)
		return;
	const struct tw_tensor *t = &j->c->g->tensors.at[id];
	struct tw_dense x = {.type = (int)twc_type(t->type), .rank = all[id].rank, .data = all[id].data};
	memcpy(x.dims, all[id].dims, sizeof(int64_t) * (size_t)x.rank);
	j->take(j->arg, t->name, &x);
}

static void interpret(void *arg)
{
	const struct job *j = arg;
	struct twc *c = j->c;
	twc_graph(c, j->model, j->bytes, j->folder);
	opt_remove_dead(c->g);
	struct tw_graph *g = c->g;
	const struct twir_binding b = bind(j);
	struct tw_value *inputs = ARENA_ARRAY(c->arena, struct tw_value, j->ninputs);
	for (int i = 0; i < j->ninputs; i++) {
		struct tw_value *v = &inputs[i];
		v->rank = j->inputs[i].rank;
		v->elements = 1;
		for (int d = 0; d < v->rank; d++)
			v->elements *= v->dims[d] = j->inputs[i].dims[d];
		const size_t bytes = (size_t)(v->elements * twir_scalar_bytes(g->tensors.at[g->inputs.at[i]].type));
		v->data = arena_alloc(c->arena, bytes + 1);
		if (bytes)
			memcpy(v->data, j->inputs[i].data, bytes);
	}
	const struct tw_value *all = tw_graph_evaluate(g, c->arena, &b, inputs);
	for (int i = 0; i < g->nodes.n; i++) {
		const struct tw_node *n = &g->nodes.at[i];
		for (int k = 0; twc_is_of_model(n) && k < n->nout; k++)
			hand_out(j, n->out[k], all);
	}
	for (int i = 0; i < g->outputs.n; i++) { /* an input or a constant, or what a node left of one */
		const tw_id p = g->tensors.at[g->outputs.at[i]].producer;
		if (p == TW_NONE || !twc_is_of_model(&g->nodes.at[p]))
			hand_out(j, g->outputs.at[i], all);
	}
}

/* Each step on a reading of its own. */
static enum tw_code step(struct job *j, const struct tw_compile_options *o, void (*f)(void *), struct tw_error *e)
{
	struct twc c = {.o = o, .arena = arena_new(), .reference = true};
	if (!c.arena) {
		tw_error_set(e, TW_ERR_MEMORY, "out of memory");
		return TW_ERR_MEMORY;
	}
	j->c = &c;
	const bool good = tw_try(e, f, j);
	tw_onnx_close(&c.files);
	arena_free(c.arena);
	return good ? TW_ERR_OK : e->code;
}

enum tw_code tw_interpret(const void *model, int64_t bytes, const char *folder, const struct tw_compile_options *o,
			  int ninputs, const struct tw_dense *inputs, double most, tw_take *take, void *arg,
			  struct tw_error *e)
{
	const struct tw_compile_options none = {0};
	struct job j = {.model = model,
			.bytes = bytes,
			.folder = folder,
			.ninputs = ninputs,
			.inputs = inputs,
			.most = most,
			.take = take,
			.arg = arg};
	const enum tw_code code = step(&j, o ? o : &none, estimate, e);
	return code == TW_ERR_OK ? step(&j, o ? o : &none, interpret, e) : code;
}
