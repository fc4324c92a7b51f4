/* import.c: an ONNX model to a graph.
 *
 * Input: the model's bytes and options. Output: a graph in topological order, constants in place, sizes of inputs
 * as numbers and symbols; types of intermediate tensors are left to inference. What is wrong in a file that can be read is
 * gathered and raised at the end (problems.c); what cannot be read raises at once. */
#include "onnx/onnx_int.h"
#include "ops/custom.h"

#include <inttypes.h>

struct importer {
	struct tw_arena *arena;
	const struct tw_onnx_source *src;
	struct onnx_model model;
	struct tw_graph *g;
	struct tw_strmap tensors; /* name -> id + 1 */
	struct tw_strmap symbols; /* dim_param -> expression */
	bool *fixed_used;
	struct onnx_problems problems;
	int nnodes;
	struct onnx_node *nodes;
};

static void report(struct importer *x, const char *node, const char *what)
{
	onnx_unsupported(&x->problems, node, what);
}

/* ---- symbols and inputs */

/* A size is asked for by its name in the file or as the module spells it. */
static const struct twir_expr *symbol(struct importer *x, const char *param)
{
	const struct twir_expr *e = strmap_get(&x->symbols, param);
	if (e)
		return e;
	struct twir_var *v = twir_symbol(x->g->m, param);
	for (int i = 0; i < x->src->nfixed && !e; i++)
		if (!strcmp(x->src->fixed_names[i], param) || !strcmp(x->src->fixed_names[i], v->name)) {
			if (x->src->fixed_values[i] < 0)
				tw_raise(TW_ERR_INPUT, "size %s cannot be negative", param);
			x->fixed_used[i] = true;
			e = twir_index(x->g->m, x->src->fixed_values[i]);
		}
	if (!e)
		e = twir_var(x->g->m, v);
	strmap_set(&x->symbols, param, (void *)(uintptr_t)e);
	return e;
}

/* Some exporters write "?" for a size without a name: it equals no other size. */
static bool named(const char *param)
{
	for (; *param; param++)
		if ((*param >= 'a' && *param <= 'z') || (*param >= 'A' && *param <= 'Z') ||
		    (unsigned char)*param >= 128)
			return true;
	return false;
}

static void check_fixed(const struct importer *x)
{
	for (int i = 0; i < x->src->nfixed; i++)
		if (!x->fixed_used[i])
			tw_raise(TW_ERR_INPUT, "the model has no size named '%s'", x->src->fixed_names[i]);
}

/* ": outputs of 'one' (Relu) and 'two' (Sigmoid)", or "" where nodes make less than two of that name */
static const char *makers_of(struct importer *x, const char *name)
{
	const struct onnx_node *by[2];
	int n = 0;
	for (int i = 0; i < x->nnodes && n < 2; i++)
		for (int k = 0; k < x->nodes[i].nout && n < 2; k++)
			if (!strcmp(x->nodes[i].out[k], name))
				by[n++] = &x->nodes[i];
	return n < 2 ? ""
		     : arena_printf(x->arena, ": outputs of '%s' (%s) and '%s' (%s)", by[0]->name, by[0]->op_type,
				    by[1]->name, by[1]->op_type);
}

static void bind(struct importer *x, const char *name, tw_id id)
{
	if (strmap_get(&x->tensors, name)) {
		onnx_malformed(&x->problems, "%s: two tensors are named '%s'%s", x->src->name, name,
			       makers_of(x, name));
		x->problems.tangled = true;
	}
	strmap_set(&x->tensors, name, (void *)(uintptr_t)(id + 1));
}

static tw_id lookup(const struct importer *x, const char *name)
{
	const uintptr_t at = (uintptr_t)strmap_get(&x->tensors, name);
	return at ? (tw_id)(at - 1) : TW_NONE;
}

static const struct tw_onnx_tensor *given_constant(const struct importer *x, const char *name)
{
	for (int i = 0; i < x->src->nconstants; i++)
		if (!strcmp(x->src->constants[i].name, name))
			return &x->src->constants[i];
	return NULL;
}

static void import_input(struct importer *x, const struct onnx_value *v)
{
	if (lookup(x, v->name) != TW_NONE) {
		const tw_id id = lookup(x, v->name);
		if (!x->g->tensors.at[id].data)
			onnx_malformed(&x->problems, "%s: two inputs are named '%s'", x->src->name, v->name);
		return; /* an initialiser gives its value */
	}
	const struct tw_onnx_tensor *c = given_constant(x, v->name);
	if (c) {
		const tw_id id = tw_graph_constant(x->g, v->name, c->type, c->rank, c->dims, c->data);
		x->g->tensors.at[id].narrow = onnx_elem_narrow(v->elem);
		bind(x, v->name, id);
		return;
	}
	enum twir_scalar type = onnx_elem_type(v->elem);
	if (v->kind)
		report(x, v->name, arena_printf(x->arena, "input of type %s", v->kind));
	else if (type == TWIR_VOID)
		report(x, v->name, arena_printf(x->arena, "input of type %s", onnx_elem_name(v->elem)));
	else if (v->rank < 0)
		report(x, v->name, "input without a shape");
	const struct twir_expr *shape[TWIR_MAX_RANK];
	for (int d = 0; d < v->rank; d++)
		shape[d] = v->dims[d] >= 0	 ? twir_index(x->g->m, v->dims[d])
			   : named(v->params[d]) ? symbol(x, v->params[d])
						 : symbol(x, arena_printf(x->arena, "%s_%d", v->name, d));
	const tw_id id = tw_graph_tensor(x->g, v->name, type, v->rank, shape);
	x->g->tensors.at[id].narrow = onnx_elem_narrow(v->elem);
	bind(x, v->name, id);
	vec_push(x->arena, &x->g->inputs, id);
}

static void import_initializer(struct importer *x, const struct onnx_initializer *init)
{
	const struct tw_wire message = init->message;
	const struct onnx_tensor_options o = {.folder = x->src->folder, .files = x->src->files, .copy_up_to = 65536};
	struct tw_onnx_tensor t;
	int elem;
	onnx_tensor_decode(x->arena, message, &o, &t, &elem);
	if (init->name)
		t.name = init->name;
	if (!*t.name)
		wire_fail(&message, "initialiser without a name");
	if (t.type == TWIR_VOID) {
		report(x, t.name, arena_printf(x->arena, "initialiser of type %s", onnx_elem_name(elem)));
		bind(x, t.name, tw_graph_tensor(x->g, t.name, TWIR_VOID, -1, NULL));
		return;
	}
	const tw_id id = tw_graph_constant(x->g, t.name, t.type, t.rank, t.dims, t.data);
	x->g->tensors.at[id].narrow = t.narrow;
	bind(x, t.name, id);
}

/* ---- nodes */

static bool is_constant(const struct onnx_node *n)
{
	return !*n->domain && !strcmp(n->op_type, "Constant");
}

static tw_id constant_of(struct importer *x, const struct onnx_node *n, const struct tw_attr *a)
{
	struct tw_graph *g = x->g;
	const char *name = n->out[0];
	const int64_t count = a->n;
	if (a->kind == TW_ATTR_TENSOR && !strcmp(a->name, "value")) {
		const struct tw_tensor t = g->tensors.at[a->tensor];
		int64_t dims[TWIR_MAX_RANK];
		tw_graph_static(g, a->tensor, dims);
		const tw_id id = tw_graph_constant(g, name, t.type, t.rank, dims, t.data);
		g->tensors.at[id].narrow = t.narrow;
		return id;
	}
	if (a->kind == TW_ATTR_FLOAT && !strcmp(a->name, "value_float"))
		return tw_graph_constant(g, name, TWIR_F32, 0, NULL, arena_copy(x->arena, &a->f, sizeof a->f));
	if (a->kind == TW_ATTR_INT && !strcmp(a->name, "value_int"))
		return tw_graph_constant(g, name, TWIR_I64, 0, NULL, arena_copy(x->arena, &a->i, sizeof a->i));
	if (a->kind == TW_ATTR_FLOATS && !strcmp(a->name, "value_floats"))
		return tw_graph_constant(g, name, TWIR_F32, 1, &count, a->floats);
	if (a->kind == TW_ATTR_INTS && !strcmp(a->name, "value_ints"))
		return tw_graph_constant(g, name, TWIR_I64, 1, &count, a->ints);
	return TW_NONE;
}

static void import_constant(struct importer *x, const struct onnx_node *n)
{
	if (n->nout != 1 || n->nin != 0 || n->nattrs != 1 || !*n->out[0])
		tw_raise(TW_ERR_MODEL, "node '%s' (Constant): must have one attribute, one output and no input",
			 n->name);
	struct tw_attr a;
	const char *reason = NULL;
	tw_id id = TW_NONE;
	if (onnx_attribute(x->g, &n->attrs[0], &a, &reason))
		id = constant_of(x, n, &a);
	if (id == TW_NONE) {
		report(x, n->name,
		       arena_printf(x->arena, "Constant (ai.onnx, opset %d): attribute '%s'%s%s", n->opset,
				    n->attrs[0].name, reason ? ": " : "", reason ? reason : ""));
		id = tw_graph_tensor(x->g, n->out[0], TWIR_VOID, -1, NULL);
	}
	bind(x, n->out[0], id);
}

static const struct tw_op *find_op(const struct importer *x, const struct onnx_node *n)
{
	const struct tw_op *own = tw_custom_find(x->src->custom, x->src->ncustom, n->domain, n->op_type);
	return own ? own : tw_op_find(n->domain, n->op_type, n->opset);
}

static bool takes_attribute(const struct tw_op *op, const char *name)
{
	const struct tw_attr_spec *s = op->attrs;
	while (s && s->name && strcmp(s->name, name))
		s++;
	return (op->flags & TW_OP_CUSTOM) || (s && s->name);
}

/* Without a name: that of what it makes */
static const char *node_name(const struct onnx_node *n)
{
	return *n->name || !n->nout ? n->name : n->out[0];
}

static void check_node(struct importer *x, const struct onnx_node *n)
{
	const char *domain = *n->domain ? n->domain : "ai.onnx";
	if (!n->opset) {
		onnx_malformed(&x->problems, "node '%s' (%s): the model imports no opset of domain %s", node_name(n),
			       n->op_type, domain);
		return;
	}
	const struct tw_op *op = find_op(x, n);
	const char *label = arena_printf(x->arena, "%s (%s, opset %d)", n->op_type, domain, n->opset);
	const char *name = node_name(n);
	const struct tw_op *other = op ? NULL : tw_op_any(n->domain, n->op_type);
	if (other && other->since > n->opset) {
		report(x, name,
		       arena_printf(x->arena, "%s: operator is supported from opset %d on", label, other->since));
	} else if (other) {
		report(x, name, arena_printf(x->arena, "%s: operator is not supported at this opset", label));
	} else if (!op) {
		report(x, name,
		       arena_printf(x->arena, "%s: operator is not supported%s", label,
				    *n->domain ? "; a text can say what it means: --op, tilewright_add_operator" : ""));
	} else {
		for (int i = 0; i < n->nattrs; i++)
			if (!takes_attribute(op, n->attrs[i].name))
				report(x, name,
				       arena_printf(x->arena, "%s: attribute '%s' is not supported", label,
						    n->attrs[i].name));
	}
}

static void bind_outputs(struct importer *x)
{
	for (int i = 0; i < x->nnodes; i++) {
		const struct onnx_node *n = &x->nodes[i];
		if (is_constant(n)) {
			import_constant(x, n);
			continue;
		}
		for (int k = 0; k < n->nout; k++)
			if (*n->out[k])
				bind(x, n->out[k], tw_graph_tensor(x->g, n->out[k], TWIR_VOID, -1, NULL));
	}
}

static void add_node(struct importer *x, const struct onnx_node *n)
{
	struct tw_graph *g = x->g;
	tw_id *in = ARENA_ARRAY(x->arena, tw_id, n->nin), *out = ARENA_ARRAY(x->arena, tw_id, n->nout);
	int nin = n->nin, nout = n->nout;
	for (int k = 0; k < n->nin; k++)
		in[k] = *n->in[k] ? lookup(x, n->in[k]) : TW_NONE;
	for (int k = 0; k < n->nout; k++)
		out[k] = *n->out[k] ? lookup(x, n->out[k]) : TW_NONE;
	while (nin && in[nin - 1] == TW_NONE)
		nin--; /* trailing absent inputs are no inputs */
	while (nout && out[nout - 1] == TW_NONE)
		nout--;
	const struct tw_op *op = find_op(x, n);
	struct tw_attr *attrs = ARENA_ARRAY(x->arena, struct tw_attr, n->nattrs);
	int nattrs = 0;
	for (int k = 0; k < n->nattrs; k++) {
		const char *reason = NULL;
		if (op && !takes_attribute(op, n->attrs[k].name))
			continue; /* check_node has complained */
		if (!onnx_attribute(g, &n->attrs[k], &attrs[nattrs], &reason))
			report(x, n->name,
			       arena_printf(x->arena, "%s (%s, opset %d): attribute '%s': %s", n->op_type,
					    *n->domain ? n->domain : "ai.onnx", n->opset, attrs[nattrs].name, reason));
		nattrs++;
	}
	const char *type = n->shown ? n->shown : n->op_type;
	const char *name = *n->name ? n->name : arena_printf(x->arena, "%s_%d", type, g->nodes.n);
	const tw_id id = tw_graph_node(g, op, name, n->opset, nin, in, nout, out, nattrs, attrs);
	g->nodes.at[id].op_type = type;
	g->nodes.at[id].domain = n->domain;
}

/* Inputs that nothing makes become tensors of which nothing is known. */
static void bind_lost(struct importer *x)
{
	for (int i = 0; i < x->nnodes; i++) {
		const struct onnx_node *n = &x->nodes[i];
		for (int k = 0; k < n->nin; k++) {
			if (!*n->in[k] || lookup(x, n->in[k]) != TW_NONE)
				continue;
			onnx_malformed(&x->problems, "node '%s' (%s): input '%s' is not a tensor of the model",
				       node_name(n), n->op_type, n->in[k]);
			bind(x, n->in[k], tw_graph_tensor(x->g, n->in[k], TWIR_VOID, -1, NULL));
		}
	}
}

/* Depth-first from each node in the order of the file, so that a sorted file keeps its order. */
static void add_nodes(struct importer *x)
{
	const int n = x->nnodes;
	int *maker = ARENA_ARRAY(x->arena, int, x->g->tensors.n); /* tensor -> node + 1 */
	for (int i = 0; i < n; i++)
		for (int k = 0; k < x->nodes[i].nout && !is_constant(&x->nodes[i]); k++)
			if (*x->nodes[i].out[k])
				maker[lookup(x, x->nodes[i].out[k])] = i + 1;
	char *state = ARENA_ARRAY(x->arena, char, n); /* 0 new, 1 open, 2 done */
	int *stack = ARENA_ARRAY(x->arena, int, n), *next = ARENA_ARRAY(x->arena, int, n);
	for (int root = 0; root < n; root++) {
		if (is_constant(&x->nodes[root]))
			state[root] = 2;
		int depth = 0;
		if (!state[root]) {
			state[root] = 1;
			stack[depth++] = root;
		}
		while (depth) {
			const int i = stack[depth - 1];
			const struct onnx_node *node = &x->nodes[i];
			if (next[i] == node->nin) {
				state[i] = 2;
				depth--;
				add_node(x, node);
				continue;
			}
			const char *name = node->in[next[i]++];
			if (!*name)
				continue;
			const tw_id id = lookup(x, name);
			const int from = maker[id] - 1;
			if (from < 0 || state[from] == 2)
				continue;
			if (state[from] == 1) {
				onnx_malformed(&x->problems, "node '%s' (%s): is part of a cycle, by its input '%s'",
					       node_name(node), node->op_type, name);
				x->problems.tangled = true;
				continue;
			}
			state[from] = 1;
			stack[depth++] = from;
		}
	}
}

/* ---- the model */

static void check_versions(struct importer *x)
{
	const struct onnx_model *m = &x->model;
	if (m->ir_version < TW_ONNX_MIN_IR || m->ir_version > TW_ONNX_MAX_IR)
		tw_raise(m->ir_version < 1 ? TW_ERR_MODEL : TW_ERR_UNSUPPORTED,
			 "%s: IR version %" PRId64 " is not supported; %d to %d are", x->src->name, m->ir_version,
			 TW_ONNX_MIN_IR, TW_ONNX_MAX_IR);
	for (int i = 0; i < m->opsets.n; i++)
		if (m->opsets.at[i].version < 1)
			onnx_malformed(&x->problems, "%s: opset %" PRId64 " of domain '%s'; the first is 1",
				       x->src->name, m->opsets.at[i].version, m->opsets.at[i].domain);
	const int opset = onnx_opset_of(m->opsets.at, m->opsets.n, "");
	if (opset && (opset < TW_ONNX_MIN_OPSET || opset > TW_ONNX_MAX_OPSET))
		report(x, NULL,
		       arena_printf(x->arena, "opset %d of ai.onnx is not supported; %d to %d are", opset,
				    TW_ONNX_MIN_OPSET, TW_ONNX_MAX_OPSET));
}

static void import_outputs(struct importer *x)
{
	for (int i = 0; i < x->model.graph.outputs.n; i++) {
		const struct onnx_value *v = &x->model.graph.outputs.at[i];
		const tw_id id = lookup(x, v->name);
		if (id == TW_NONE) {
			onnx_malformed(&x->problems, "%s: output '%s' is not a tensor of the model", x->src->name,
				       v->name);
			continue;
		}
		if (v->kind)
			report(x, v->name, arena_printf(x->arena, "output of type %s", v->kind));
		vec_push(x->arena, &x->g->outputs, id);
	}
	if (!x->model.graph.outputs.n)
		onnx_malformed(&x->problems, "%s: the model has no outputs", x->src->name);
}

struct tw_graph *tw_onnx_import(struct tw_arena *a, struct twir_module *m, const struct tw_onnx_source *src)
{
	struct importer x = {.arena = a, .src = src};
	onnx_decode(a, src->name, src->bytes, src->size, &x.model);
	x.g = tw_graph_new(a, m);
	x.g->name = x.model.graph.name;
	x.g->producer = x.model.producer;
	x.g->nmeta = x.model.meta_keys.n;
	x.g->meta_keys = x.model.meta_keys.at;
	x.g->meta_values = x.model.meta_values.at;
	strmap_init(&x.tensors, a);
	strmap_init(&x.symbols, a);
	x.problems.arena = a;
	strmap_init(&x.problems.index, a);
	if (src->graph)
		*src->graph = x.g;
	x.fixed_used = ARENA_ARRAY(a, bool, src->nfixed);
	check_versions(&x);
	onnx_expand(&x.model, &x.nnodes, &x.nodes);
	for (int i = 0; i < x.model.graph.initializers.n; i++)
		import_initializer(&x, &x.model.graph.initializers.at[i]);
	if (x.model.graph.nsparse)
		report(&x, x.model.graph.name, "sparse initialisers");
	for (int i = 0; i < x.model.graph.inputs.n; i++)
		import_input(&x, &x.model.graph.inputs.at[i]);
	for (int i = 0; i < x.nnodes; i++)
		if (!is_constant(&x.nodes[i]))
			check_node(&x, &x.nodes[i]);
	bind_outputs(&x);
	bind_lost(&x);
	add_nodes(&x);
	import_outputs(&x);
	onnx_raise_problems(&x.problems, x.g, src->name);
	check_fixed(&x);
	return x.g;
}
