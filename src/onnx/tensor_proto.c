/* tensor_proto.c: TensorProto messages, in a model or in a file of their own.
 *
 * Input: a slice of bytes. Output: type, sizes and elements in row-major little-endian order, pointing into the
 * file where it holds them in that form and where that was asked for, else copied. Invariant: out->bytes is exactly
 * elements * element size. */
#include "onnx/onnx_int.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

struct elem {
	const char *name;
	enum twir_scalar type;	 /* what an element is kept in */
	enum twir_scalar narrow; /* of elements that share bytes in files; they are kept in a byte each */
};

static const struct elem elems[] = {
	[0] = {"undefined", TWIR_VOID},
	[1] = {"float", TWIR_F32},
	[2] = {"uint8", TWIR_U8},
	[3] = {"int8", TWIR_I8},
	[4] = {"uint16", TWIR_U16},
	[5] = {"int16", TWIR_I16},
	[6] = {"int32", TWIR_I32},
	[7] = {"int64", TWIR_I64},
	[8] = {"string", TWIR_VOID},
	[9] = {"bool", TWIR_I1},
	[10] = {"float16", TWIR_F16},
	[11] = {"double", TWIR_F64},
	[12] = {"uint32", TWIR_U32},
	[13] = {"uint64", TWIR_U64},
	[14] = {"complex64", TWIR_VOID},
	[15] = {"complex128", TWIR_VOID},
	[16] = {"bfloat16", TWIR_BF16},
	[17] = {"float8e4m3fn", TWIR_F8E4M3FN},
	[18] = {"float8e4m3fnuz", TWIR_F8E4M3FNUZ},
	[19] = {"float8e5m2", TWIR_F8E5M2},
	[20] = {"float8e5m2fnuz", TWIR_F8E5M2FNUZ},
	[21] = {"uint4", TWIR_U8, TWIR_U4},
	[22] = {"int4", TWIR_I8, TWIR_I4},
	[23] = {"float4e2m1", TWIR_U8, TWIR_F4E2M1},
	[24] = {"float8e8m0", TWIR_F8E8M0},
	[25] = {"uint2", TWIR_U8, TWIR_U2},
	[26] = {"int2", TWIR_I8, TWIR_I2},
};

const char *onnx_elem_name(int elem)
{
	return elem >= 0 && elem < TW_COUNT(elems) ? elems[elem].name : "unknown";
}

enum twir_scalar onnx_elem_type(int elem)
{
	return elem >= 0 && elem < TW_COUNT(elems) ? elems[elem].type : TWIR_VOID;
}

enum twir_scalar onnx_elem_narrow(int elem)
{
	return elem >= 0 && elem < TW_COUNT(elems) ? elems[elem].narrow : TWIR_VOID;
}

enum {
	F_DIMS = 1,
	F_TYPE,
	F_SEGMENT,
	F_FLOAT,
	F_INT32,
	F_STRING,
	F_INT64,
	F_NAME,
	F_RAW,
	F_DOUBLE,
	F_UINT64,
	F_DOC,
	F_EXTERNAL,
	F_LOCATION
};

struct external {
	const char *location;
	int64_t offset, length;
	bool used;
};

static _Noreturn void bad_tensor(const struct tw_wire *w, const char *name, const char *fmt, ...) TW_PRINTF(3, 4);

static void bad_tensor(const struct tw_wire *w, const char *name, const char *fmt, ...)
{
	char text[256];
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	tw_raise(TW_ERR_MODEL, "%s: tensor '%s' %s", w->file, name, text);
}

static int64_t decimal(const struct tw_wire *w, const char *text)
{
	char *end;
	const long long v = strtoll(text, &end, 10);
	if (*end || end == text || v < 0)
		wire_fail(w, "external data with an offset or length that is no number");
	return v;
}

static void read_external_entry(struct tw_arena *a, struct tw_wire w, struct external *e)
{
	const char *key = "", *value = "";
	const struct tw_wire whole = w;
	for (struct tw_field f; wire_next(&w, &f);) {
		if (f.number == 1)
			key = wire_string(a, &w, &f);
		else if (f.number == 2)
			value = wire_string(a, &w, &f);
	}
	if (!strcmp(key, "location"))
		e->location = value;
	else if (!strcmp(key, "offset"))
		e->offset = decimal(&whole, value);
	else if (!strcmp(key, "length"))
		e->length = decimal(&whole, value);
}

/* The typed field that holds a type's elements, its wire type and its element size there (0: varint). */
static uint32_t typed_field(enum twir_scalar t, enum tw_wire_type *wire)
{
	switch (t) {
	case TWIR_F32:
		*wire = TW_WIRE_FIXED32;
		return F_FLOAT;
	case TWIR_F64:
		*wire = TW_WIRE_FIXED64;
		return F_DOUBLE;
	case TWIR_I64:
		*wire = TW_WIRE_VARINT;
		return F_INT64;
	case TWIR_U32:
	case TWIR_U64:
		*wire = TW_WIRE_VARINT;
		return F_UINT64;
	default:
		*wire = TW_WIRE_VARINT;
		return F_INT32;
	}
}

static void typed_data(struct tw_arena *a, struct tw_wire message, int64_t elements, struct tw_onnx_tensor *out)
{
	enum tw_wire_type wire;
	const uint32_t field = typed_field(out->type, &wire);
	const int64_t found = wire_count(message, field, wire);
	if (found != elements)
		bad_tensor(&message, out->name, "holds %" PRId64 " elements; its shape says %" PRId64, found, elements);
	uint64_t *values = ARENA_ARRAY(a, uint64_t, elements);
	wire_read(message, field, wire, values);
	const int size = twir_scalar_bytes(out->type);
	uint8_t *to = (uint8_t *)values; /* in place: elements only shrink */
	for (int64_t i = 0; i < elements; i++) {
		const uint64_t v = values[i];
		for (int b = 0; b < size; b++)
			to[i * size + b] = (uint8_t)(v >> 8 * b);
	}
	out->data = values;
}

/* Booleans are kept as exactly 0 or 1: everything behind relies on it. */
static const void *clean_bools(struct tw_arena *a, const uint8_t *from, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		if (from[i] > 1) {
			uint8_t *to = arena_alloc(a, (size_t)n);
			for (int64_t k = 0; k < n; k++)
				to[k] = from[k] != 0;
			return to;
		}
	return from;
}

static void place(struct tw_arena *a, const struct onnx_tensor_options *o, const void *from, struct tw_onnx_tensor *out)
{
	out->data = out->bytes == 0		  ? NULL
		    : out->bytes <= o->copy_up_to ? arena_copy(a, from, (size_t)out->bytes)
						  : from;
}

/* Elements of 4 or 2 bits, the lowest first in a byte, to a byte each */
static void unpack(struct tw_arena *a, int64_t elements, struct tw_onnx_tensor *out)
{
	const uint8_t *from = out->data;
	uint8_t *to = arena_alloc(a, (size_t)elements + 1);
	const int bits = twir_scalar_bits(out->narrow), each = 8 / bits, mask = (1 << bits) - 1, sign = 1 << (bits - 1);
	for (int64_t i = 0; i < elements; i++) {
		const int v = from[i / each] >> (int)(i % each) * bits & mask;
		to[i] = (uint8_t)(out->type == TWIR_I8 ? (v ^ sign) - sign : v);
	}
	out->data = to;
	out->bytes = elements;
}

void onnx_tensor_decode(struct tw_arena *a, struct tw_wire message, const struct onnx_tensor_options *o,
			struct tw_onnx_tensor *out, int *elem_out)
{
	struct tw_wire w = message, raw = {0};
	struct external external = {.offset = 0, .length = -1};
	*out = (struct tw_onnx_tensor){.name = ""};
	int elem = 0;
	bool has_raw = false;
	for (struct tw_field f; wire_next(&w, &f);) {
		switch (f.number) {
		case F_TYPE: {
			const int64_t type = wire_int(&w, &f);
			elem = type < 0 || type > 1000 ? 1000 : (int)type;
			break;
		}
		case F_SEGMENT:
			wire_fail(&w, "tensor in segments, which is not supported,");
		case F_NAME:
			out->name = wire_string(a, &w, &f);
			break;
		case F_RAW:
			raw = wire_sub(&w, &f);
			has_raw = true;
			break;
		case F_EXTERNAL:
			read_external_entry(a, wire_sub(&w, &f), &external);
			break;
		case F_LOCATION:
			external.used = wire_int(&w, &f) == 1;
			break;
		default:
			break;
		}
	}
	*elem_out = elem;
	const int64_t rank = wire_count(message, F_DIMS, TW_WIRE_VARINT);
	if (rank > TWIR_MAX_RANK)
		tw_raise(TW_ERR_UNSUPPORTED, "%s: tensor '%s' of rank %lld; at most %d are supported", message.file,
			 out->name, (long long)rank, TWIR_MAX_RANK);
	uint64_t dims[TWIR_MAX_RANK];
	wire_read(message, F_DIMS, TW_WIRE_VARINT, dims);
	out->rank = (int)rank;
	int64_t elements = 1;
	bool bad = false;
	for (int d = 0; d < rank; d++) {
		out->dims[d] = (int64_t)dims[d];
		if (out->dims[d] < 0)
			bad_tensor(&message, out->name, "has a negative size, %" PRId64 ", along axis %d", out->dims[d],
				   d);
		elements = tw_mul64(elements, out->dims[d], &bad);
	}
	out->type = onnx_elem_type(elem);
	out->narrow = onnx_elem_narrow(elem);
	if (out->type == TWIR_VOID)
		return;
	out->bytes = tw_mul64(elements, twir_scalar_bytes(out->type), &bad);
	if (bad || elements > INT64_MAX - 8)
		bad_tensor(&message, out->name, "has a shape of more elements than fit in 64 bits");
	const int64_t values = out->narrow ? twir_storage_bytes(out->narrow, elements) : elements;
	if (out->narrow)
		out->bytes = values; /* as the file holds them */
	if (external.used) {
		if (!external.location)
			bad_tensor(&message, out->name, "has external data without a location");
		int64_t bytes;
		const void *at = onnx_external(a, o, out->name, external.location, external.offset,
					       external.length < 0 ? out->bytes : external.length, &bytes);
		if (bytes != out->bytes)
			bad_tensor(&message, out->name,
				   "has %" PRId64 " bytes of external data; its shape says %" PRId64, bytes,
				   out->bytes);
		place(a, o, at, out);
	} else if (has_raw) {
		enum tw_wire_type wire;
		const uint32_t field = typed_field(out->type, &wire);
		if (wire_count(message, field, wire))
			bad_tensor(&message, out->name, "has two kinds of data");
		if (wire_left(&raw) != out->bytes)
			bad_tensor(&message, out->name, "has %" PRId64 " bytes of data; its shape says %" PRId64,
				   wire_left(&raw), out->bytes);
		place(a, o, raw.at, out);
	} else if (elements > 0) {
		typed_data(a, message, values, out);
	}
	if (!out->data) {
		static const uint64_t empty[2];
		out->data = empty;
	}
	if (out->type == TWIR_I1)
		out->data = clean_bools(a, out->data, out->bytes);
	if (out->narrow)
		unpack(a, elements, out);
}

void tw_onnx_tensor_read(struct tw_arena *a, const char *file_name, const void *bytes, size_t size,
			 struct tw_onnx_tensor *out)
{
	const uint8_t *at = bytes;
	const struct tw_wire w = {.at = at, .end = at + size, .base = at, .file = file_name};
	const struct onnx_tensor_options o = {.copy_up_to = INT64_MAX};
	int elem;
	onnx_tensor_decode(a, w, &o, out, &elem);
	if (out->type == TWIR_VOID)
		tw_raise(TW_ERR_UNSUPPORTED, "%s: tensor of type %s (%d) is not supported", file_name,
			 onnx_elem_name(elem), elem);
}
