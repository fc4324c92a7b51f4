/* model.c: ModelProto to plain structs.
 *
 * Input: the bytes of a model. Output: struct onnx_model; strings copied, tensors and attributes still slices of
 * the file. Invariants: every name that the importer relies on is present; memory is a small multiple of the file. */
#include "onnx/onnx_int.h"

const char *onnx_domain(const char *domain)
{
	return strcmp(domain, "ai.onnx") ? domain : "";
}

int onnx_opset_of(const struct onnx_opset *list, int n, const char *domain)
{
	for (int i = 0; i < n; i++)
		if (!strcmp(list[i].domain, domain))
			return list[i].version < 1 ? 1 : list[i].version > 100000 ? 100000 : (int)list[i].version;
	return 0;
}

static struct onnx_opset decode_opset(struct tw_arena *a, struct tw_wire w)
{
	struct onnx_opset o = {.domain = "", .version = 0};
	for (struct tw_field f; wire_next(&w, &f);) {
		if (f.number == 1)
			o.domain = onnx_domain(wire_string(a, &w, &f));
		else if (f.number == 2)
			o.version = wire_int(&w, &f);
	}
	return o;
}

static void decode_dim(struct tw_arena *a, struct tw_wire w, int64_t *value, const char **param)
{
	*value = -1;
	*param = "";
	for (struct tw_field f; wire_next(&w, &f);) {
		if (f.number == 1)
			*value = wire_int(&w, &f);
		else if (f.number == 2)
			*param = wire_string(a, &w, &f);
	}
	if (*value < 0)
		*value = -1;
	else
		*param = "";
}

static void decode_shape(struct tw_arena *a, struct tw_wire w, struct onnx_value *v)
{
	v->rank = 0;
	for (struct tw_field f; wire_next(&w, &f);) {
		if (f.number != 1)
			continue;
		if (v->rank == TWIR_MAX_RANK)
			tw_raise(TW_ERR_UNSUPPORTED, "'%s': more than %d dimensions are not supported", v->name,
				 TWIR_MAX_RANK);
		decode_dim(a, wire_sub(&w, &f), &v->dims[v->rank], &v->params[v->rank]);
		v->rank++;
	}
}

static void decode_type(struct tw_arena *a, struct tw_wire w, struct onnx_value *v)
{
	static const char *const kinds[] = {
		[4] = "sequence", [5] = "map", [7] = "opaque", [8] = "sparse tensor", [9] = "optional"};
	for (struct tw_field f; wire_next(&w, &f);) {
		if (f.number == 1) {
			v->kind = NULL;
			struct tw_wire t = wire_sub(&w, &f);
			for (struct tw_field g; wire_next(&t, &g);) {
				if (g.number == 1) {
					const int64_t elem = wire_int(&t, &g);
					v->elem = elem < 0 || elem > 1000 ? 1000 : (int)elem;
				} else if (g.number == 2) {
					decode_shape(a, wire_sub(&t, &g), v);
				}
			}
		} else if (f.number < TW_COUNT(kinds) && kinds[f.number]) {
			v->kind = kinds[f.number];
		}
	}
}

static struct onnx_value decode_value(struct tw_arena *a, struct tw_wire w)
{
	struct onnx_value v = {.name = "", .rank = -1};
	struct tw_wire again = w;
	for (struct tw_field f; wire_next(&w, &f);)
		if (f.number == 1)
			v.name = wire_string(a, &w, &f);
	if (!*v.name)
		wire_fail(&w, "input or output without a name");
	for (struct tw_field f; wire_next(&again, &f);)
		if (f.number == 2)
			decode_type(a, wire_sub(&again, &f), &v);
	return v;
}

static struct onnx_attr decode_attr(struct tw_arena *a, struct tw_wire w)
{
	struct onnx_attr t = {.name = "", .message = w};
	for (struct tw_field f; wire_next(&w, &f);) {
		switch (f.number) {
		case 1:
			t.name = wire_string(a, &w, &f);
			break;
		case 2:
			t.has_f = true;
			break;
		case 3:
			t.has_i = true;
			break;
		case 4:
			t.has_s = true;
			break;
		case 5:
			t.has_t = true;
			break;
		case 20: {
			const int64_t type = wire_int(&w, &f);
			t.type = type < 0 || type > 100 ? 100 : (int)type;
			break;
		}
		case 21:
			t.ref = wire_string(a, &w, &f);
			break;
		default:
			break;
		}
	}
	if (!*t.name)
		wire_fail(&w, "attribute without a name");
	return t;
}

static struct onnx_node decode_node(struct tw_arena *a, struct tw_wire w)
{
	struct onnx_node n = {.name = "", .op_type = "", .domain = "", .overload = ""};
	VEC(const char *) in = {0}, out = {0};
	VEC(struct onnx_attr) attrs = {0};
	for (struct tw_field f; wire_next(&w, &f);) {
		switch (f.number) {
		case 1:
			vec_push(a, &in, wire_string(a, &w, &f));
			break;
		case 2:
			vec_push(a, &out, wire_string(a, &w, &f));
			break;
		case 3:
			n.name = wire_string(a, &w, &f);
			break;
		case 4:
			n.op_type = wire_string(a, &w, &f);
			break;
		case 5: {
			const struct onnx_attr t = decode_attr(a, wire_sub(&w, &f));
			for (int i = 0; i < attrs.n && attrs.n < 64; i++)
				if (!strcmp(attrs.at[i].name, t.name))
					tw_raise(TW_ERR_MODEL, "node '%s' (%s): attribute '%s' is given twice", n.name,
						 n.op_type, t.name);
			vec_push(a, &attrs, t);
			break;
		}
		case 7:
			n.domain = onnx_domain(wire_string(a, &w, &f));
			break;
		case 8:
			n.overload = wire_string(a, &w, &f);
			break;
		default:
			break;
		}
	}
	if (!*n.op_type)
		wire_fail(&w, "node without an operator");
	n.nin = in.n;
	n.in = in.at;
	n.nout = out.n;
	n.out = out.at;
	n.nattrs = attrs.n;
	n.attrs = attrs.at;
	return n;
}

void onnx_decode_graph(struct tw_arena *a, struct tw_wire w, struct onnx_graph *g)
{
	*g = (struct onnx_graph){.name = ""};
	for (struct tw_field f; wire_next(&w, &f);) {
		switch (f.number) {
		case 1:
			vec_push(a, &g->nodes, decode_node(a, wire_sub(&w, &f)));
			break;
		case 2:
			g->name = wire_string(a, &w, &f);
			break;
		case 5:
			vec_push(a, &g->initializers, ((struct onnx_initializer){.message = wire_sub(&w, &f)}));
			break;
		case 11:
			vec_push(a, &g->inputs, decode_value(a, wire_sub(&w, &f)));
			break;
		case 12:
			vec_push(a, &g->outputs, decode_value(a, wire_sub(&w, &f)));
			break;
		case 15:
			g->nsparse++;
			break;
		default:
			break;
		}
	}
}

static struct onnx_function decode_function(struct tw_arena *a, struct tw_wire w)
{
	struct onnx_function fn = {.name = "", .domain = "", .overload = ""};
	for (struct tw_field f; wire_next(&w, &f);) {
		switch (f.number) {
		case 1:
			fn.name = wire_string(a, &w, &f);
			break;
		case 4:
			vec_push(a, &fn.inputs, wire_string(a, &w, &f));
			break;
		case 5:
			vec_push(a, &fn.outputs, wire_string(a, &w, &f));
			break;
		case 6:
			vec_push(a, &fn.attrs, wire_string(a, &w, &f));
			break;
		case 7:
			vec_push(a, &fn.nodes, decode_node(a, wire_sub(&w, &f)));
			break;
		case 9:
			vec_push(a, &fn.opsets, decode_opset(a, wire_sub(&w, &f)));
			break;
		case 10:
			fn.domain = onnx_domain(wire_string(a, &w, &f));
			break;
		case 11:
			vec_push(a, &fn.defaults, decode_attr(a, wire_sub(&w, &f)));
			break;
		case 13:
			fn.overload = wire_string(a, &w, &f);
			break;
		default:
			break;
		}
	}
	if (!*fn.name)
		wire_fail(&w, "function without a name");
	return fn;
}

static void decode_meta(struct onnx_model *m, struct tw_wire w)
{
	const char *key = "", *value = "";
	for (struct tw_field f; wire_next(&w, &f);) {
		if (f.number == 1)
			key = wire_string(m->arena, &w, &f);
		else if (f.number == 2)
			value = wire_string(m->arena, &w, &f);
	}
	vec_push(m->arena, &m->meta_keys, key);
	vec_push(m->arena, &m->meta_values, value);
}

void onnx_decode(struct tw_arena *a, const char *file, const void *bytes, size_t size, struct onnx_model *m)
{
	const uint8_t *at = bytes;
	struct tw_wire w = {.at = at, .end = at + size, .base = at, .file = file};
	const char *foreign = onnx_foreign(at, size);
	if (foreign)
		tw_raise(TW_ERR_MODEL, "%s: not an ONNX model, but %s", file, foreign);
	*m = (struct onnx_model){.file = file, .arena = a, .producer = ""};
	const char *producer = "", *version = "";
	for (struct tw_field f; wire_next(&w, &f);) {
		switch (f.number) {
		case 1:
			m->ir_version = wire_int(&w, &f);
			break;
		case 2:
			producer = wire_string(a, &w, &f);
			break;
		case 3:
			version = wire_string(a, &w, &f);
			break;
		case 7:
			if (m->has_graph)
				wire_fail(&w, "second graph");
			m->has_graph = true;
			onnx_decode_graph(a, wire_sub(&w, &f), &m->graph);
			break;
		case 8:
			vec_push(a, &m->opsets, decode_opset(a, wire_sub(&w, &f)));
			break;
		case 14:
			decode_meta(m, wire_sub(&w, &f));
			break;
		case 25:
			vec_push(a, &m->functions, decode_function(a, wire_sub(&w, &f)));
			break;
		default:
			break;
		}
	}
	m->producer = *version ? arena_printf(a, "%s %s", producer, version) : producer;
	if (!m->has_graph)
		tw_raise(TW_ERR_MODEL, "%s: not an ONNX model (it holds no graph)", file);
}
