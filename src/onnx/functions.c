/* functions.c: calls of model-local functions become the nodes of their bodies.
 *
 * Input: a decoded model. Output: one flat list of nodes in which no node calls a function, names made unique by a prefix
 * for each call, references to a caller's attributes resolved. Invariants: calls nest at most MAX_DEPTH deep (recursion ends
 * in an error) and the list stays below MAX_NODES, so a small file cannot grow without bound. */
#include "onnx/onnx_int.h"

enum { MAX_DEPTH = 32, MAX_NODES = 1000000 };

struct expander {
	struct onnx_model *m;
	VEC(struct onnx_node) nodes;
	int calls;
	int64_t weight; /* inputs, outputs and attributes written so far */
};

struct scope { /* of one call; of the main graph: no function, no prefix */
	const struct onnx_function *fn;
	const struct onnx_node *call;
	struct tw_strmap names; /* inner name -> outer name */
	const char *prefix;
	int depth;
};

static const struct onnx_function *find_function(const struct onnx_model *m, const struct onnx_node *n)
{
	for (int i = 0; i < m->functions.n; i++) {
		const struct onnx_function *f = &m->functions.at[i];
		if (!strcmp(f->name, n->op_type) && !strcmp(f->domain, n->domain) && !strcmp(f->overload, n->overload))
			return f;
	}
	return NULL;
}

static const char *outer_name(struct expander *x, struct scope *s, const char *name)
{
	if (!s->fn || !*name)
		return name;
	const char *known = strmap_get(&s->names, name);
	if (!known) {
		known = arena_printf(x->m->arena, "%s%s", s->prefix, name);
		strmap_set(&s->names, name, (void *)(uintptr_t)known);
	}
	return known;
}

static const struct onnx_attr *find_attr(int n, const struct onnx_attr *list, const char *name)
{
	for (int i = 0; i < n; i++)
		if (!strcmp(list[i].name, name))
			return &list[i];
	return NULL;
}

static void resolve_attrs(struct expander *x, const struct scope *s, struct onnx_node *n)
{
	struct tw_arena *a = x->m->arena;
	struct onnx_attr *attrs = ARENA_ARRAY(a, struct onnx_attr, n->nattrs);
	int count = 0;
	for (int i = 0; i < n->nattrs; i++) {
		const struct onnx_attr *t = &n->attrs[i];
		if (!t->ref || !*t->ref) {
			attrs[count++] = *t;
			continue;
		}
		if (!s->fn)
			tw_raise(TW_ERR_MODEL,
				 "node '%s' (%s): attribute '%s' refers to a function's attribute outside a "
				 "function",
				 n->name, n->op_type, t->name);
		const struct onnx_attr *given = find_attr(s->call->nattrs, s->call->attrs, t->ref);
		if (!given)
			given = find_attr(s->fn->defaults.n, s->fn->defaults.at, t->ref);
		if (!given)
			continue; /* absent in the call: absent here */
		attrs[count] = *given;
		attrs[count++].name = t->name;
	}
	n->attrs = attrs;
	n->nattrs = count;
}

static void expand(struct expander *x, struct scope *s, int n, const struct onnx_node *nodes,
		   const struct onnx_opset *opsets, int nopsets);

static void expand_call(struct expander *x, const struct scope *from, const struct onnx_node *call,
			const struct onnx_function *fn)
{
	struct tw_arena *a = x->m->arena;
	if (from->depth == MAX_DEPTH)
		tw_raise(TW_ERR_MODEL, "node '%s': function '%s' calls itself, or calls nest more than %d deep",
			 call->name, fn->name, MAX_DEPTH);
	if (call->nin > fn->inputs.n || call->nout > fn->outputs.n)
		tw_raise(TW_ERR_MODEL, "node '%s': function '%s' has %d inputs and %d outputs, not %d and %d",
			 call->name, fn->name, fn->inputs.n, fn->outputs.n, call->nin, call->nout);
	struct scope s = {.fn = fn, .call = call, .depth = from->depth + 1};
	s.prefix = arena_printf(a, "%s.%d/", fn->name, x->calls++);
	strmap_init(&s.names, a);
	for (int i = 0; i < fn->inputs.n; i++)
		strmap_set(&s.names, fn->inputs.at[i], (void *)(uintptr_t)(i < call->nin ? call->in[i] : ""));
	for (int i = 0; i < call->nout; i++) {
		if (!*call->out[i])
			continue;
		const char *inner = fn->outputs.at[i], *known = strmap_get(&s.names, inner);
		if (!known) {
			strmap_set(&s.names, inner, (void *)(uintptr_t)call->out[i]);
			continue;
		}
		/* An output that is an input, or is given out twice: one Identity node. */
		struct onnx_node copy = {.op_type = "Identity", .domain = "", .overload = "", .nin = 1, .nout = 1};
		copy.name = arena_printf(a, "%sout%d", s.prefix, i);
		copy.in = arena_copy(a, &known, sizeof known);
		copy.out = arena_copy(a, &call->out[i], sizeof call->out[i]);
		copy.opset = onnx_opset_of(fn->opsets.at, fn->opsets.n, "");
		vec_push(a, &x->nodes, copy);
	}
	expand(x, &s, fn->nodes.n, fn->nodes.at, fn->opsets.at, fn->opsets.n);
}

static void expand(struct expander *x, struct scope *s, int n, const struct onnx_node *nodes,
		   const struct onnx_opset *opsets, int nopsets)
{
	struct tw_arena *a = x->m->arena;
	for (int i = 0; i < n; i++) {
		struct onnx_node node = nodes[i];
		resolve_attrs(x, s, &node);
		if (s->fn)
			node.name = arena_printf(a, "%s%s", s->prefix, node.name);
		const char **in = ARENA_ARRAY(a, const char *, node.nin),
			   **out = ARENA_ARRAY(a, const char *, node.nout);
		for (int k = 0; k < node.nin; k++)
			in[k] = outer_name(x, s, node.in[k]);
		for (int k = 0; k < node.nout; k++)
			out[k] = outer_name(x, s, node.out[k]);
		node.in = in;
		node.out = out;
		const struct onnx_function *fn = find_function(x->m, &node);
		x->weight += 1 + node.nin + node.nout + node.nattrs + (int64_t)strlen(s->prefix) / 64;
		if (s->fn && x->weight > MAX_NODES)
			tw_raise(TW_ERR_MODEL, "the model's functions expand to more than %d nodes", MAX_NODES);
		if (fn) {
			expand_call(x, s, &node, fn);
			continue;
		}
		node.opset = onnx_opset_of(opsets, nopsets, node.domain);
		vec_push(a, &x->nodes, node);
	}
}

void onnx_expand(struct onnx_model *m, int *n, struct onnx_node **nodes)
{
	struct expander x = {.m = m};
	struct scope top = {.prefix = ""};
	expand(&x, &top, m->nodes.n, m->nodes.at, m->opsets.at, m->opsets.n);
	*n = x.nodes.n;
	*nodes = x.nodes.at;
}
