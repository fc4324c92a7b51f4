/* print.c: the text form of a graph, for --dump and golden tests.
 *
 * One line a node: results with their types, the operator, its operands, its attributes. Dead nodes are left out. */
#include "graph/graph.h"

#include <inttypes.h>

static void put_shape(struct tw_buf *b, const struct tw_graph *g, tw_id id)
{
	const struct tw_tensor *t = &g->tensors.at[id];
	buf_puts(b, t->type == TWIR_VOID ? "?" : twir_scalar_name(t->type));
	if (t->rank < 0) {
		buf_puts(b, "[?]");
		return;
	}
	buf_putc(b, '[');
	for (int d = 0; d < t->rank; d++)
		buf_printf(b, "%s%s", d ? ", " : "", t->shape[d] ? twir_print_expr(g->arena, t->shape[d]) : "?");
	buf_putc(b, ']');
}

static void put_name(struct tw_buf *b, const struct tw_graph *g, tw_id id)
{
	if (id == TW_NONE)
		buf_putc(b, '_');
	else if (*g->tensors.at[id].name)
		buf_puts(b, g->tensors.at[id].name);
	else
		buf_printf(b, "t_%u", id);
}

static void put_named_shape(struct tw_buf *b, const struct tw_graph *g, tw_id id)
{
	put_name(b, g, id);
	if (id != TW_NONE) {
		buf_puts(b, ": ");
		put_shape(b, g, id);
	}
}

static void put_attr(struct tw_buf *b, const struct tw_graph *g, const struct tw_attr *a)
{
	buf_printf(b, "%s=", a->name);
	switch (a->kind) {
	case TW_ATTR_INT:
		buf_printf(b, "%" PRId64, a->i);
		break;
	case TW_ATTR_FLOAT:
		buf_printf(b, "%.9g", (double)a->f);
		break;
	case TW_ATTR_STRING:
		buf_printf(b, "\"%s\"", a->s);
		break;
	case TW_ATTR_TENSOR:
		put_shape(b, g, a->tensor);
		break;
	case TW_ATTR_INTS:
	case TW_ATTR_FLOATS:
	case TW_ATTR_STRINGS:
		buf_putc(b, '[');
		for (int i = 0; i < a->n; i++) {
			buf_puts(b, i ? ", " : "");
			if (a->kind == TW_ATTR_INTS)
				buf_printf(b, "%" PRId64, a->ints[i]);
			else if (a->kind == TW_ATTR_FLOATS)
				buf_printf(b, "%.9g", (double)a->floats[i]);
			else
				buf_printf(b, "\"%s\"", a->strings[i]);
		}
		buf_putc(b, ']');
		break;
	case TW_ATTR_GRAPH:
		buf_puts(b, "graph");
		break;
	case TW_ATTR_OTHER:
		buf_puts(b, "other");
		break;
	}
}

const char *tw_graph_shape_text(struct tw_arena *a, const struct tw_graph *g, tw_id t)
{
	struct tw_buf b;
	buf_init(&b, a);
	put_shape(&b, g, t);
	return b.at;
}

const char *tw_graph_print(struct tw_arena *a, const struct tw_graph *g)
{
	struct tw_buf b;
	buf_init(&b, a);
	buf_printf(&b, "graph %s(", g->name);
	for (int i = 0; i < g->inputs.n; i++) {
		buf_puts(&b, i ? ", " : "");
		put_named_shape(&b, g, g->inputs.at[i]);
	}
	buf_puts(&b, ") -> (");
	for (int i = 0; i < g->outputs.n; i++) {
		buf_puts(&b, i ? ", " : "");
		put_named_shape(&b, g, g->outputs.at[i]);
	}
	buf_puts(&b, ")\n{\n");
	for (int i = 0; i < g->nodes.n; i++) {
		const struct tw_node *n = &g->nodes.at[i];
		if (n->dead)
			continue;
		buf_putc(&b, '\t');
		for (int k = 0; k < n->nout; k++) {
			buf_puts(&b, k ? ", " : "");
			put_named_shape(&b, g, n->out[k]);
		}
		buf_printf(&b, " = %s(", n->op_type);
		for (int k = 0; k < n->nin; k++) {
			buf_puts(&b, k ? ", " : "");
			put_name(&b, g, n->in[k]);
		}
		buf_putc(&b, ')');
		for (int k = 0; k < n->nattrs; k++) {
			buf_puts(&b, k ? ", " : " ");
			put_attr(&b, g, &n->attrs[k]);
		}
		buf_printf(&b, " # %s\n", n->name);
	}
	for (int i = 0; i < g->requires.n; i++)
		buf_printf(&b, "\trequire %s == %s # %s\n", twir_print_expr(a, g->requires.at[i].a),
			   twir_print_expr(a, g->requires.at[i].b), g->requires.at[i].why);
	buf_puts(&b, "}\n");
	return b.at;
}
