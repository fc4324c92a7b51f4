/* flatten.c: calls of model-local functions, branches of If and bodies of Loop and Scan become the nodes of their
 * bodies.
 *
 * Input: a decoded model. Output: one flat list of nodes in which no node calls a function, names made unique by a
 * prefix for each call, references to a caller's attributes resolved. Branches and bodies stand between nodes that
 * say where they begin and end (domain tilewright), so names of the outer scopes need no care. Invariants: calls nest
 * at most MAX_DEPTH deep (recursion ends in an error) and the list stays below MAX_NODES, so a small file cannot grow
 * without bound. */
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
		if (n->opset < 6 && !strcmp(t->name, "consumed_inputs") && !*n->domain)
			continue; /* up to opset 5 a hint about memory */
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

/* Adds the nodes of a node's graph; in: what its inputs are called in the flat model; out: what its outputs are. */
static void expand_body(struct expander *x, const struct scope *from, const struct onnx_node *call, const char *which,
			const struct onnx_graph *g, const struct onnx_opset *opsets, int nopsets, const char **in,
			const char **out)
{
	struct tw_arena *a = x->m->arena;
	if (from->depth == MAX_DEPTH)
		tw_raise(TW_ERR_MODEL, "node '%s' (%s): branches and loops nest more than %d deep", call->name,
			 call->op_type, MAX_DEPTH);
	struct scope s = {.fn = from->fn, .call = from->call, .outer = from, .depth = from->depth + 1};
	s.prefix = arena_printf(a, "%s.%d/", which, x->calls++);
	strmap_init(&s.names, a);
	for (int i = 0; i < g->inputs.n + g->outputs.n; i++)
		if (!*(i < g->inputs.n ? g->inputs.at[i] : g->outputs.at[i - g->inputs.n]).name)
			tw_raise(TW_ERR_MODEL, "node '%s' (%s): an input or output of '%s' has no name", call->name,
				 call->op_type, which);
	for (int i = 0; i < g->inputs.n; i++) {
		define_name(x, &s, g->inputs.at[i].name);
		in[i] = outer_name(x, &s, g->inputs.at[i].name);
	}
	for (int i = 0; i < g->initializers.n; i++) {
		const char *name = initializer_name(a, g->initializers.at[i].message);
		define_name(x, &s, name);
		g->initializers.at[i].name = outer_name(x, &s, name);
		vec_push(a, &x->m->graph.initializers, g->initializers.at[i]);
	}
	x->m->graph.nsparse += g->nsparse;
	for (int i = 0; i < g->nodes.n; i++)
		for (int k = 0; k < g->nodes.at[i].nout; k++)
			define_name(x, &s, g->nodes.at[i].out[k]);
	expand(x, &s, g->nodes.n, g->nodes.at, opsets, nopsets);
	for (int i = 0; i < g->outputs.n; i++)
		out[i] = outer_name(x, &s, g->outputs.at[i].name);
}

/* A node that says where a branch or loop begins or ends (ops/branch.c, ops/loop.c). Names are set by the caller. */
static struct onnx_node marker(struct expander *x, const struct onnx_node *call, const char *op, int nin, int nout)
{
	struct onnx_node n = {.op_type = op,
			      .domain = "tilewright",
			      .overload = "",
			      .nin = nin,
			      .nout = nout,
			      .opset = call->opset ? call->opset : 1};
	n.name = call->name;
	n.shown = call->op_type;
	n.in = ARENA_ARRAY(x->m->arena, const char *, nin);
	n.out = ARENA_ARRAY(x->m->arena, const char *, nout);
	return n;
}

static const char *token(struct expander *x, const struct onnx_node *call)
{
	return arena_printf(x->m->arena, "%s.flow.%d", call->op_type, x->calls++);
}

/* BranchBegin, the nodes of one side, BranchElse, those of the other, BranchEnd */
static void expand_if(struct expander *x, const struct scope *from, const struct onnx_node *call,
		      const struct onnx_opset *opsets, int nopsets)
{
	struct tw_arena *a = x->m->arena;
	static const char *const sides[] = {"then_branch", "else_branch"};
	for (int k = 0; k < 2; k++)
		if (!find_attr(call->nattrs, call->attrs, sides[k]))
			tw_raise(TW_ERR_MODEL, "node '%s' (If): attribute '%s' is missing", call->name, sides[k]);
	if (call->nin != 1 || call->nattrs != 2)
		tw_raise(TW_ERR_MODEL, "node '%s' (If): must have one input and no attributes but its branches",
			 call->name);
	const char **out[2];
	struct onnx_node begin = marker(x, call, "BranchBegin", 1, 1), middle;
	begin.in[0] = call->in[0];
	begin.out[0] = token(x, call);
	vec_push(a, &x->nodes, begin);
	for (int k = 0; k < 2; k++) {
		struct onnx_graph g;
		if (!branch_graph(x, call, sides[k], &g) || g.outputs.n != call->nout || g.inputs.n)
			tw_raise(TW_ERR_MODEL, "node '%s' (If): '%s' must be a graph of %d outputs and no inputs",
				 call->name, sides[k], call->nout);
		out[k] = ARENA_ARRAY(a, const char *, call->nout);
		expand_body(x, from, call, sides[k], &g, opsets, nopsets, NULL, out[k]);
		if (k)
			break;
		middle = marker(x, call, "BranchElse", 1 + call->nout, 1);
		middle.in[0] = begin.out[0];
		memcpy(middle.in + 1, out[0], sizeof(*out[0]) * (size_t)call->nout);
		middle.out[0] = token(x, call);
		vec_push(a, &x->nodes, middle);
	}
	struct onnx_node end = marker(x, call, "BranchEnd", 2 + 2 * call->nout, call->nout);
	end.in[0] = begin.out[0];
	end.in[1] = middle.out[0];
	for (int k = 0; k < 2; k++)
		memcpy(end.in + 2 + k * call->nout, out[k], sizeof(*out[k]) * (size_t)call->nout);
	memcpy(end.out, call->out, sizeof(*end.out) * (size_t)call->nout);
	vec_push(a, &x->nodes, end);
}

static int64_t int_attr(const struct onnx_node *n, const char *name)
{
	const struct onnx_attr *t = find_attr(n->nattrs, n->attrs, name);
	struct tw_wire w = t ? t->message : (struct tw_wire){0};
	int64_t value = 0;
	for (struct tw_field f; t && wire_next(&w, &f);)
		if (f.number == 3)
			value = (int64_t)f.value;
	return value;
}

/* Loop and Scan: LoopBegin (count, condition, initial values, scanned inputs -> token, number, condition, values,
   slices), the nodes of the body, LoopEnd (token, condition, values, slices -> last values, wholes) */
static void expand_loop(struct expander *x, const struct scope *from, const struct onnx_node *call,
			const struct onnx_opset *opsets, int nopsets)
{
	struct tw_arena *a = x->m->arena;
	const bool scan = !strcmp(call->op_type, "Scan");
	const int lead = scan ? 0 : 2,
		  own = scan ? 0 : 1; /* inputs of the loop and outputs of the body that are not values */
	const int64_t scanned = scan ? int_attr(call, "num_scan_inputs") : 0;
	struct onnx_graph g;
	if (call->nin < lead || scanned < 0 || scanned > call->nin || (scan && scanned == 0))
		tw_raise(TW_ERR_MODEL, "node '%s' (%s): has %d inputs", call->name, call->op_type, call->nin);
	const int values = call->nin - lead - (int)scanned;
	for (int i = lead; i < call->nin; i++)
		if (!*call->in[i])
			tw_raise(TW_ERR_MODEL, "node '%s' (%s): input %d is missing", call->name, call->op_type, i);
	if (!branch_graph(x, call, "body", &g) || g.inputs.n != call->nin || g.outputs.n < own + values ||
	    g.outputs.n - own < call->nout)
		tw_raise(TW_ERR_MODEL, "node '%s' (%s): 'body' must be a graph of %d inputs and %d outputs or more",
			 call->name, call->op_type, call->nin, own + (call->nout > values ? call->nout : values));
	const int nbody = call->nin - lead, nresults = g.outputs.n - own;
	struct onnx_attr *attrs = ARENA_ARRAY(a, struct onnx_attr, call->nattrs);
	int nattrs = 0;
	for (int i = 0; i < call->nattrs; i++)
		if (strcmp(call->attrs[i].name, "body") != 0)
			attrs[nattrs++] = call->attrs[i];
	struct onnx_node begin = marker(x, call, "LoopBegin", 2 + nbody, 3 + nbody);
	struct onnx_node end = marker(x, call, "LoopEnd", 2 + nresults, nresults);
	begin.attrs = end.attrs = attrs;
	begin.nattrs = end.nattrs = nattrs;
	begin.in[0] = begin.in[1] = begin.out[1] = begin.out[2] = end.in[1] = "";
	memcpy(begin.in + 2 - lead, call->in, sizeof(*begin.in) * (size_t)call->nin);
	begin.out[0] = end.in[0] = token(x, call);
	const int place = x->nodes.n; /* names of the body's inputs are known once it is expanded */
	vec_push(a, &x->nodes, begin);
	expand_body(x, from, call, "body", &g, opsets, nopsets, begin.out + 3 - lead, end.in + 2 - own);
	x->nodes.at[place] = begin;
	for (int i = 0; i < nresults; i++)
		end.out[i] = i < call->nout ? call->out[i] : "";
	vec_push(a, &x->nodes, end);
}

static struct onnx_attr integer(struct tw_arena *a, const char *name, int64_t value)
{
	uint8_t *message = arena_alloc(a, 16);
	int n = 0;
	message[n++] = 3 << 3 | TW_WIRE_VARINT; /* AttributeProto.i */
	for (uint64_t v = (uint64_t)value;; v >>= 7) {
		message[n++] = (uint8_t)(v > 127 ? v | 128 : v);
		if (v < 128)
			break;
	}
	const struct tw_wire w = {.at = message, .end = message + n, .base = message, .file = "model"};
	return (struct onnx_attr){.name = name, .type = 2, .has_i = true, .message = w};
}

/* Scan of opset 8 has a batch: a loop over it, in which a Scan as it is since opset 9 works on one element. Its first
 * input, the lengths of the sequences, comes before the values. */
static void expand_scan8(struct expander *x, const struct scope *from, const struct onnx_node *call,
			 const struct onnx_opset *opsets, int nopsets)
{
	struct tw_arena *a = x->m->arena;
	const int n = call->nin - 1;
	if (n < 1)
		tw_raise(TW_ERR_MODEL, "node '%s' (Scan): has %d inputs", call->name, call->nin);
	if (*call->in[0])
		tw_raise(TW_ERR_UNSUPPORTED, "node '%s' (Scan, opset 8): input 0, sequence_lens, is not supported",
			 call->name);
	for (int i = 1; i <= n; i++)
		if (!*call->in[i])
			tw_raise(TW_ERR_MODEL, "node '%s' (Scan): input %d is missing", call->name, i);
	struct onnx_attr *count = ARENA_ARRAY(a, struct onnx_attr, 1),
			 *attrs = ARENA_ARRAY(a, struct onnx_attr, call->nattrs);
	count[0] = integer(a, "num_scan_inputs", n);
	for (int i = 0; i < call->nattrs; i++) {
		attrs[i] = call->attrs[i];
		if (!strcmp(attrs[i].name, "directions"))
			attrs[i].name = "scan_input_directions";
	}
	struct onnx_node begin = marker(x, call, "LoopBegin", 2 + n, 3 + n), one = *call;
	struct onnx_node end = marker(x, call, "LoopEnd", 2 + call->nout, call->nout);
	begin.attrs = end.attrs = count;
	begin.nattrs = end.nattrs = 1;
	begin.in[0] = begin.in[1] = begin.out[1] = begin.out[2] = end.in[1] = "";
	memcpy(begin.in + 2, call->in + 1, sizeof(*begin.in) * (size_t)n);
	begin.out[0] = end.in[0] = token(x, call);
	for (int i = 0; i < n; i++)
		begin.out[3 + i] = arena_printf(a, "%s.in.%d", begin.out[0], i);
	for (int i = 0; i < call->nout; i++) {
		end.in[2 + i] = arena_printf(a, "%s.out.%d", begin.out[0], i);
		end.out[i] = call->out[i];
	}
	one.nin = n;
	one.in = begin.out + 3;
	one.out = end.in + 2;
	one.attrs = attrs;
	vec_push(a, &x->nodes, begin);
	expand_loop(x, from, &one, opsets, nopsets);
	vec_push(a, &x->nodes, end);
}

static void expand(struct expander *x, struct scope *s, int n, const struct onnx_node *nodes,
		   const struct onnx_opset *opsets, int nopsets)
{
	struct tw_arena *a = x->m->arena;
	for (int i = 0; i < n; i++) {
		struct onnx_node node = nodes[i];
		node.opset = onnx_opset_of(opsets, nopsets, node.domain);
		resolve_attrs(x, s, &node);
		if (s->fn || s->outer) /* without a name: that of what it makes */
			node.name =
				arena_printf(a, "%s%s", s->prefix, *node.name || !node.nout ? node.name : node.out[0]);
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
		const bool loop = !strcmp(node.op_type, "Loop"), scan = !strcmp(node.op_type, "Scan");
		if ((loop || scan) && !*node.domain && node.opset) {
			(scan && node.opset < 9 ? expand_scan8 : expand_loop)(x, s, &node, opsets, nopsets);
			continue;
		}
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
