/* flatten.c: calls of model-local functions and branches of If become the nodes of their bodies.
 *
 * Input: a decoded model. Output: one flat list of nodes in which no node calls a function, names made unique by a
 * prefix for each call, references to a caller's attributes resolved. An If becomes both of its branches and, for
 * each output, a node (tilewright, Select) that takes the one the condition says: branches have no effects, so
 * computing both is the same. Invariants: calls nest at most MAX_DEPTH deep (recursion ends in an error) and the
 * list stays below MAX_NODES, so a small file cannot grow without bound. */
#include "onnx/onnx_int.h"

enum { MAX_DEPTH = 32, MAX_NODES = 1000000 };

struct expander {
	struct onnx_model *m;
	VEC(struct onnx_node) nodes;
	int calls;
	int64_t weight; /* inputs, outputs and attributes written so far */
};

struct scope { /* of one call or branch; of the main graph: no function, no prefix */
	const struct onnx_function *fn;
	const struct scope *outer; /* of a branch: where names that it does not define are looked up */
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

static const char *outer_name(struct expander *x, const struct scope *s, const char *name)
{
	if (!*name || (!s->fn && !s->outer))
		return name;
	const char *known = strmap_get(&s->names, name);
	if (known)
		return known;
	return s->outer ? outer_name(x, s->outer, name) : arena_printf(x->m->arena, "%s%s", s->prefix, name);
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

/* The attribute's graph: field 6 of the message */
static bool branch_graph(struct expander *x, const struct onnx_node *n, const char *name, struct onnx_graph *g)
{
	const struct onnx_attr *t = find_attr(n->nattrs, n->attrs, name);
	struct tw_wire w = t ? t->message : (struct tw_wire){0};
	for (struct tw_field f; t && wire_next(&w, &f);)
		if (f.number == 6) {
			onnx_decode_graph(x->m->arena, wire_sub(&w, &f), g);
			return true;
		}
	return false;
}

static const char *initializer_name(struct tw_arena *a, struct tw_wire w)
{
	const char *name = "";
	for (struct tw_field f; wire_next(&w, &f);)
		if (f.number == 8)
			name = wire_string(a, &w, &f);
	return name;
}

static void define_name(struct expander *x, struct scope *s, const char *name)
{
	if (*name)
		strmap_set(&s->names, name, arena_printf(x->m->arena, "%s%s", s->prefix, name));
}

/* Adds a branch's nodes; out: what its outputs are called in the flat model. */
static void expand_branch(struct expander *x, const struct scope *from, const struct onnx_node *call, const char *which,
			  const struct onnx_opset *opsets, int nopsets, const char **out)
{
	struct tw_arena *a = x->m->arena;
	struct onnx_graph g;
	if (!branch_graph(x, call, which, &g) || g.outputs.n != call->nout || g.inputs.n)
		tw_raise(TW_ERR_MODEL, "node '%s' (If): '%s' must be a graph of %d outputs and no inputs", call->name,
			 which, call->nout);
	if (from->depth == MAX_DEPTH)
		tw_raise(TW_ERR_MODEL, "node '%s' (If): branches nest more than %d deep", call->name, MAX_DEPTH);
	struct scope s = {.fn = from->fn, .call = from->call, .outer = from, .depth = from->depth + 1};
	s.prefix = arena_printf(a, "%s.%d/", which, x->calls++);
	strmap_init(&s.names, a);
	for (int i = 0; i < g.initializers.n; i++) {
		const char *name = initializer_name(a, g.initializers.at[i].message);
		define_name(x, &s, name);
		g.initializers.at[i].name = outer_name(x, &s, name);
		vec_push(a, &x->m->graph.initializers, g.initializers.at[i]);
	}
	x->m->graph.nsparse += g.nsparse;
	for (int i = 0; i < g.nodes.n; i++)
		for (int k = 0; k < g.nodes.at[i].nout; k++)
			define_name(x, &s, g.nodes.at[i].out[k]);
	expand(x, &s, g.nodes.n, g.nodes.at, opsets, nopsets);
	for (int i = 0; i < call->nout; i++)
		out[i] = outer_name(x, &s, g.outputs.at[i].name);
}

static void expand_if(struct expander *x, const struct scope *from, const struct onnx_node *call,
		      const struct onnx_opset *opsets, int nopsets)
{
	struct tw_arena *a = x->m->arena;
	if (call->nin != 1 || call->nattrs != 2)
		tw_raise(TW_ERR_MODEL, "node '%s' (If): must have one input, then_branch and else_branch", call->name);
	const char **yes = ARENA_ARRAY(a, const char *, call->nout), **no = ARENA_ARRAY(a, const char *, call->nout);
	expand_branch(x, from, call, "then_branch", opsets, nopsets, yes);
	expand_branch(x, from, call, "else_branch", opsets, nopsets, no);
	for (int i = 0; i < call->nout; i++) {
		if (!*call->out[i])
			continue;
		const char *in[] = {call->in[0], yes[i], no[i]};
		struct onnx_node n = {
			.op_type = "Select", .domain = "tilewright", .overload = "", .nin = 3, .nout = 1, .opset = 1};
		n.name = i ? arena_printf(a, "%s.%d", call->name, i) : call->name;
		n.in = arena_copy(a, in, sizeof in);
		n.out = arena_copy(a, &call->out[i], sizeof call->out[i]);
		vec_push(a, &x->nodes, n);
	}
}

static void expand(struct expander *x, struct scope *s, int n, const struct onnx_node *nodes,
		   const struct onnx_opset *opsets, int nopsets)
{
	struct tw_arena *a = x->m->arena;
	for (int i = 0; i < n; i++) {
		struct onnx_node node = nodes[i];
		resolve_attrs(x, s, &node);
		if (s->fn || s->outer)
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
		if ((s->fn || s->outer) && x->weight > MAX_NODES)
			tw_raise(TW_ERR_MODEL, "the model's functions expand to more than %d nodes", MAX_NODES);
		if (fn) {
			expand_call(x, s, &node, fn);
			continue;
		}
		if (!strcmp(node.op_type, "If") && !*node.domain) {
			expand_if(x, s, &node, opsets, nopsets);
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
	expand(&x, &top, m->graph.nodes.n, m->graph.nodes.at, m->opsets.at, m->opsets.n);
	*n = x.nodes.n;
	*nodes = x.nodes.at;
}
