/* Turns inputs of an ONNX model into constants, on the bytes of the file. Input: a ModelProto, TensorProtos; output: a
 * ModelProto. Everything else is copied as it is. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

/* ModelProto.graph; GraphProto.initializer, .input; ValueInfoProto.name; TensorProto.name */
enum { MODEL_GRAPH = 7, GRAPH_INITIALIZER = 5, GRAPH_INPUT = 11, VALUE_NAME = 1, TENSOR_NAME = 8 };

struct out {
	struct bytes b;
	size_t cap;
	bool full; /* out of memory */
};

static void put(struct out *o, const void *from, size_t n)
{
	if (o->full)
		return;
	if (n > o->cap - o->b.n) {
		const size_t cap = 2 * o->cap + n + 4096;
		unsigned char *at = realloc(o->b.at, cap);
		if (at == NULL) {
			o->full = true;
			return;
		}
		o->b.at = at;
		o->cap = cap;
	}
	if (n)
		memcpy(o->b.at + o->b.n, from, n);
	o->b.n += n;
}

static void put_bytes_field(struct out *o, unsigned number, const void *from, size_t n)
{
	unsigned char head[20];
	size_t at = cli_put_varint(head, number << 3 | 2);
	at += cli_put_varint(head + at, n);
	put(o, head, at);
	put(o, from, n);
}

static struct cli_wire name_in(struct cli_wire w,
			       unsigned number) /* the last field of this number, as protobuf has it */
{
	struct cli_wire name = {0};
	struct field f;
	while (cli_next(&w, &f) > 0)
		if (f.number == number && f.type == 2)
			name = f.bytes;
	return name;
}

static bool same(struct cli_wire a, struct cli_wire b)
{
	const size_t n = (size_t)(a.end - a.at);
	return n == (size_t)(b.end - b.at) && (n == 0 || memcmp(a.at, b.at, n) == 0);
}

static bool has_initializer(struct cli_wire graph, struct cli_wire name)
{
	struct field f;
	while (cli_next(&graph, &f) > 0)
		if (f.number == GRAPH_INITIALIZER && f.type == 2 && same(name_in(f.bytes, TENSOR_NAME), name))
			return true;
	return false;
}

static void put_initializer(struct out *o, const struct bytes *tensor, struct cli_wire name)
{
	struct out t = {0};
	struct cli_wire w = {tensor->at, tensor->at + tensor->n};
	struct field f;
	while (cli_next(&w, &f) > 0)
		if (f.number != TENSOR_NAME)
			put(&t, f.start, (size_t)(f.end - f.start));
	put_bytes_field(&t, TENSOR_NAME, name.at, (size_t)(name.end - name.at));
	o->full |= t.full;
	put_bytes_field(o, GRAPH_INITIALIZER, t.b.at, t.b.n);
	free(t.b.at);
}

static bool edit_graph(struct cli_wire graph, int n, const struct bytes *tensors, struct out *o)
{
	struct cli_wire w = graph;
	struct field f;
	int more, input = 0;
	while ((more = cli_next(&w, &f)) > 0) {
		if (f.number == GRAPH_INPUT && f.type == 2) {
			const struct cli_wire name = name_in(f.bytes, VALUE_NAME);
			if (!has_initializer(graph, name)) {
				const int k = input++;
				if (k > 0 && k < n && tensors[k].at) {
					put_initializer(o, &tensors[k], name);
					continue;
				}
			}
		}
		put(o, f.start, (size_t)(f.end - f.start));
	}
	return more == 0;
}

int onnx_fix_inputs(const struct bytes *model, int n, const struct bytes *tensors, struct bytes *out, struct problem *p)
{
	struct out o = {0};
	struct cli_wire w = {model->at, model->at + model->n};
	struct field f;
	int more;
	bool good = true;
	while ((more = cli_next(&w, &f)) > 0) {
		if (f.number != MODEL_GRAPH || f.type != 2) {
			put(&o, f.start, (size_t)(f.end - f.start));
			continue;
		}
		struct out graph = {0};
		good &= edit_graph(f.bytes, n, tensors, &graph);
		o.full |= graph.full;
		put_bytes_field(&o, MODEL_GRAPH, graph.b.at, graph.b.n);
		free(graph.b.at);
	}
	if (more == 0 && good && !o.full) {
		*out = o.b;
		return EXIT_DONE;
	}
	free(o.b.at);
	return o.full ? problem_memory(p) : problem_set(p, EXIT_INPUT, "the model is malformed");
}
