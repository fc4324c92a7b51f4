/* Model bytes to an inferred graph. A model whose shapes, or what must hold in its branches, depend on the values of small integer inputs (a shape, a count, limits given as data) is read again with
 * a symbol for each such value: the runtime reads them before it plans the memory of a run. */
#include "compile/compile_int.h"
#include "ops/custom.h"

#define MOST_VALUES 16 /* elements of an input that may decide shapes */

struct reading {
	struct twc *c;
	const void *model;
	int64_t bytes;
	const char *folder;
	bool values; /* give small integer inputs symbolic values */
};

static void name_values(struct twc *c)
{
	struct tw_graph *g = c->g;
	for (int i = 0; i < g->inputs.n; i++) {
		struct tw_tensor *t = &g->tensors.at[g->inputs.at[i]];
		int64_t n = 1;
		if ((t->type != TWIR_I64 && t->type != TWIR_I32) || t->rank < 0 || t->rank > 1 ||
		    (t->rank == 1 && (!twir_const_int(t->shape[0], &n) || n > MOST_VALUES)))
			continue;
		t->values = ARENA_ARRAY(c->arena, const struct twir_expr *, n);
		t->nvalues = (int)n;
		for (int k = 0; k < n; k++) {
			struct twir_var *v = twir_var_new(c->m, TWIR_SYMBOL, twir_scalar_type(TWIR_INDEX),
							  arena_printf(c->arena, "%s.%d", t->name, k));
			v->lo = INT64_MIN;
			v->hi = INT64_MAX;
			t->values[k] = twir_var(c->m, v);
			vec_push(c->arena, &c->value_symbols, ((struct twc_value){v, i, k}));
		}
	}
}

static void read_graph(void *arg)
{
	const struct reading *r = arg;
	struct twc *c = r->c;
	const struct tw_compile_options *o = c->o;
	struct tw_custom *custom = ARENA_ARRAY(c->arena, struct tw_custom, o->noperators);
	for (int i = 0; i < o->noperators; i++) {
		custom[i] = (struct tw_custom){.domain = o->operators[i].domain,
					       .name = o->operators[i].name,
					       .file = o->operators[i].file,
					       .text = o->operators[i].text};
		tw_custom_row(c->arena, c->target.lanes, &custom[i]);
	}
	const struct tw_onnx_source source = {.bytes = r->model,
					      .size = (size_t)r->bytes,
					      .name = "model",
					      .folder = r->folder,
					      .files = &c->files,
					      .nfixed = o->nfixed,
					      .fixed_names = o->fixed_names,
					      .fixed_values = o->fixed_values,
					      .ncustom = o->noperators,
					      .custom = custom,
					      .graph = &c->g};
	c->m = twir_module_new(c->arena);
	c->m->lanes = c->target.lanes;
	c->g = tw_onnx_import(c->arena, c->m, &source);
	c->g->wants_values = !r->values;
	c->g->reference = c->reference;
	if (r->values)
		name_values(c);
	tw_infer(c->g);
	tw_guard_indices(c->g);
}

void twc_graph(struct twc *c, const void *model, int64_t bytes, const char *folder)
{
	struct reading r = {c, model, bytes, folder, false};
	struct tw_error first, second;
	if (tw_try(&first, read_graph, &r))
		return;
	struct tw_graph *const wrong = c->g;
	r.values = true;
	tw_onnx_close(&c->files);
	memset(&c->files, 0, sizeof(c->files));
	if (first.code != TW_ERR_UNSUPPORTED || !tw_try(&second, read_graph, &r)) {
		c->g = wrong;
		tw_raise_error(&first);
	}
}
