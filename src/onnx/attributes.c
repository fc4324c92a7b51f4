/* attributes.c: AttributeProto to the graph's attributes.
 *
 * Input: a decoded attribute. Output: struct tw_attr with values in the arena; tensors become constants of the
 * graph. */
#include "onnx/onnx_int.h"

enum { A_FLOAT = 1, A_INT, A_STRING, A_TENSOR, A_GRAPH, A_FLOATS, A_INTS, A_STRINGS };

static void read_floats(struct tw_arena *a, struct tw_wire w, struct tw_attr *out)
{
	const int64_t n = wire_count(w, 7, TW_WIRE_FIXED32);
	if (n > INT32_MAX)
		wire_fail(&w, "attribute with too many values");
	uint64_t *bits = ARENA_ARRAY(a, uint64_t, n);
	wire_read(w, 7, TW_WIRE_FIXED32, bits);
	float *values = ARENA_ARRAY(a, float, n);
	for (int64_t i = 0; i < n; i++) {
		const uint32_t b = (uint32_t)bits[i];
		memcpy(&values[i], &b, sizeof b);
	}
	out->n = (int)n;
	out->floats = values;
}

static void read_ints(struct tw_arena *a, struct tw_wire w, struct tw_attr *out)
{
	const int64_t n = wire_count(w, 8, TW_WIRE_VARINT);
	if (n > INT32_MAX)
		wire_fail(&w, "attribute with too many values");
	uint64_t *values = ARENA_ARRAY(a, uint64_t, n);
	wire_read(w, 8, TW_WIRE_VARINT, values);
	out->n = (int)n;
	out->ints = (const int64_t *)values;
}

static void read_strings(struct tw_arena *a, struct tw_wire w, struct tw_attr *out)
{
	VEC(const char *) list = {0};
	for (struct tw_field f; wire_next(&w, &f);)
		if (f.number == 9)
			vec_push(a, &list, wire_string(a, &w, &f));
	out->n = list.n;
	out->strings = list.at;
}

static bool read_tensor(struct tw_graph *g, struct tw_wire message, struct tw_attr *out, const char **reason)
{
	const struct onnx_tensor_options o = {.copy_up_to = 65536};
	struct tw_onnx_tensor t;
	int elem;
	onnx_tensor_decode(g->arena, message, &o, &t, &elem);
	if (t.type == TWIR_VOID) {
		*reason = arena_printf(g->arena, "tensor of type %s", onnx_elem_name(elem));
		return false;
	}
	out->tensor = tw_graph_constant(g, out->name, t.type, t.rank, t.dims, t.data);
	g->tensors.at[out->tensor].narrow = t.narrow;
	return true;
}

/* Old files leave the type out: the field that is there tells. */
static int type_of(const struct onnx_attr *in)
{
	if (in->type)
		return in->type;
	if (in->has_f)
		return A_FLOAT;
	if (in->has_i)
		return A_INT;
	if (in->has_s)
		return A_STRING;
	if (in->has_t)
		return A_TENSOR;
	if (wire_count(in->message, 8, TW_WIRE_VARINT))
		return A_INTS;
	return wire_count(in->message, 7, TW_WIRE_FIXED32) ? A_FLOATS : A_INTS;
}

bool onnx_attribute(struct tw_graph *g, const struct onnx_attr *in, struct tw_attr *out, const char **reason)
{
	static const enum tw_attr_kind kinds[] = {
		[A_FLOAT] = TW_ATTR_FLOAT,   [A_INT] = TW_ATTR_INT,	    [A_STRING] = TW_ATTR_STRING,
		[A_TENSOR] = TW_ATTR_TENSOR, [A_GRAPH] = TW_ATTR_GRAPH,	    [A_FLOATS] = TW_ATTR_FLOATS,
		[A_INTS] = TW_ATTR_INTS,     [A_STRINGS] = TW_ATTR_STRINGS,
	};
	const int type = type_of(in);
	*out = (struct tw_attr){.name = in->name, .kind = TW_ATTR_OTHER, .tensor = TW_NONE};
	if (type < A_FLOAT || type > A_STRINGS)
		return true; /* the operator's row refuses it by name */
	out->kind = kinds[type];
	if (type == A_INTS)
		read_ints(g->arena, in->message, out);
	else if (type == A_FLOATS)
		read_floats(g->arena, in->message, out);
	else if (type == A_STRINGS)
		read_strings(g->arena, in->message, out);
	out->s = "";
	struct tw_wire w = in->message;
	for (struct tw_field f; wire_next(&w, &f);) {
		if (f.number == 2 && type == A_FLOAT) {
			out->f = wire_float(&w, &f);
		} else if (f.number == 3 && type == A_INT) {
			out->i = wire_int(&w, &f);
		} else if (f.number == 4 && type == A_STRING) {
			const struct tw_wire s = wire_sub(&w, &f);
			out->s_n = wire_left(&s);
			out->s = arena_strndup(g->arena, (const char *)s.at, (size_t)out->s_n);
		} else if (f.number == 5 && type == A_TENSOR && out->tensor == TW_NONE) {
			if (!read_tensor(g, wire_sub(&w, &f), out, reason))
				return false;
		}
	}
	if (type == A_TENSOR && out->tensor == TW_NONE)
		tw_raise(TW_ERR_MODEL, "attribute '%s' is a tensor without a value", in->name);
	return true;
}
