/* onnx_writer.c: the protobuf wire format, written by hand. */
#include "onnx_writer.h"

#include <stdlib.h>

void put_varint(struct tw_buf *b, uint64_t v)
{
	for (; v > 127; v >>= 7)
		buf_putc(b, (char)(v | 128));
	buf_putc(b, (char)v);
}

void put_int(struct tw_buf *b, int field, int64_t v)
{
	put_varint(b, (uint64_t)field << 3);
	put_varint(b, (uint64_t)v);
}

void put_float(struct tw_buf *b, int field, float v)
{
	put_varint(b, (uint64_t)field << 3 | 5);
	buf_bytes(b, &v, sizeof v);
}

void put_bytes(struct tw_buf *b, int field, const void *at, size_t n)
{
	put_varint(b, (uint64_t)field << 3 | 2);
	put_varint(b, n);
	buf_bytes(b, at, n);
}

void put_text(struct tw_buf *b, int field, const char *s)
{
	put_bytes(b, field, s, strlen(s));
}

void put_message(struct tw_buf *b, int field, const struct tw_buf *m)
{
	put_bytes(b, field, m->at, m->n);
}

void put_value(struct tw_buf *graph, int field, const char *name, int elem, const char *sizes)
{
	struct tw_buf value, type, tensor, shape;
	buf_init(&value, graph->arena);
	buf_init(&type, graph->arena);
	buf_init(&tensor, graph->arena);
	buf_init(&shape, graph->arena);
	put_text(&value, 1, name);
	put_int(&tensor, 1, elem);
	for (const char *s = sizes; s && *s; s += strcspn(s, ","), s += *s == ',') {
		struct tw_buf dim;
		const size_t n = strcspn(s, ",");
		buf_init(&dim, graph->arena);
		if (*s >= '0' && *s <= '9')
			put_int(&dim, 1, atoll(s));
		else if (n && *s != '_')
			put_bytes(&dim, 2, s, n);
		put_message(&shape, 1, &dim);
	}
	if (sizes)
		put_message(&tensor, 2, &shape);
	put_message(&type, 1, &tensor);
	put_message(&value, 2, &type);
	put_message(graph, field, &value);
}

static void put_names(struct tw_buf *node, int field, const char *names)
{
	for (const char *s = names; *s; s += strcspn(s, ","), s += *s == ',') {
		const size_t n = strcspn(s, ",");
		put_bytes(node, field, s, *s == '_' ? 0 : n);
	}
}

void put_node(struct tw_buf *graph, int field, const char *op, const char *domain, const char *in, const char *out,
	      const struct tw_buf *attrs)
{
	struct tw_buf node;
	buf_init(&node, graph->arena);
	put_names(&node, 1, in);
	put_names(&node, 2, out);
	put_text(&node, 3, arena_printf(graph->arena, "n_%s", out));
	put_text(&node, 4, op);
	if (*domain)
		put_text(&node, 7, domain);
	if (attrs)
		buf_bytes(&node, attrs->at, attrs->n);
	put_message(graph, field, &node);
}

static void finish_attr(struct tw_buf *attrs, struct tw_buf *a, int type)
{
	put_int(a, 20, type);
	put_message(attrs, 5, a);
}

void put_attr_int(struct tw_buf *attrs, const char *name, int64_t v)
{
	struct tw_buf a;
	buf_init(&a, attrs->arena);
	put_text(&a, 1, name);
	put_int(&a, 3, v);
	finish_attr(attrs, &a, 2);
}

void put_attr_float(struct tw_buf *attrs, const char *name, float v)
{
	struct tw_buf a;
	buf_init(&a, attrs->arena);
	put_text(&a, 1, name);
	put_float(&a, 2, v);
	finish_attr(attrs, &a, 1);
}

void put_attr_ref(struct tw_buf *attrs, const char *name, const char *outer, int type)
{
	struct tw_buf a;
	buf_init(&a, attrs->arena);
	put_text(&a, 1, name);
	put_text(&a, 21, outer);
	finish_attr(attrs, &a, type);
}

void put_initializer(struct tw_buf *graph, const char *name, int rank, const int64_t *dims, const float *floats,
		     const int64_t *ints, int n)
{
	struct tw_buf t;
	buf_init(&t, graph->arena);
	for (int d = 0; d < rank; d++)
		put_int(&t, 1, dims[d]);
	put_int(&t, 2, ints ? 7 : 1);
	put_text(&t, 8, name);
	put_bytes(&t, 9, ints ? (const void *)ints : (const void *)floats, (size_t)n * (ints ? 8 : 4));
	put_message(graph, 5, &t);
}

void put_model(struct tw_buf *model, const struct tw_buf *graph, int opset, const struct tw_buf *functions)
{
	struct tw_buf import;
	buf_init(&import, model->arena);
	put_text(&import, 1, "");
	put_int(&import, 2, opset);
	put_int(model, 1, 8);
	put_message(model, 7, graph);
	put_message(model, 8, &import);
	if (functions)
		buf_bytes(model, functions->at, functions->n);
}
