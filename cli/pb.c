/* ONNX TensorProto files: those of the backend tests, and for types that .npy lacks. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

/* TensorProto's fields */
enum {
	DIMS = 1,
	DATA_TYPE = 2,
	FLOAT_DATA = 4,
	INT32_DATA = 5,
	STRING_DATA = 6,
	INT64_DATA = 7,
	NAME = 8,
	RAW_DATA = 9,
	DOUBLE_DATA = 10,
	UINT64_DATA = 11,
	EXTERNAL_DATA = 13,
	DATA_LOCATION = 14
};

struct reading {
	struct tensor *t;
	struct cli_wire raw;
	bool has_raw;
	size_t filled; /* elements taken from typed fields */
	bool fill;     /* second pass: data is allocated */
	int bits;      /* 4 or 2: elements share bytes in the file, and have one each here; else 0 */
	struct problem *p;
};

static int malformed(struct problem *p)
{
	return problem_set(p, EXIT_INPUT, "not a tensor in ONNX's format, or damaged");
}

static int add_dim(struct reading *r, uint64_t value)
{
	if (r->t->rank == TILEWRIGHT_MAX_RANK)
		return problem_set(r->p, EXIT_INPUT, "more than %d dimensions", TILEWRIGHT_MAX_RANK);
	r->t->dims[r->t->rank++] = (int64_t)value;
	return EXIT_DONE;
}

/* uint4, int4, float4e2m1, uint2 and int2 become a byte for each element: a number, or the bits of a float. */
static void set_type(struct reading *r, uint64_t number)
{
	static const struct {
		tilewright_type type;
		int bits;
	} narrow[] = {{TILEWRIGHT_U8, 4}, {TILEWRIGHT_I8, 4}, {TILEWRIGHT_U8, 4}, {0, 0},
		      {TILEWRIGHT_U8, 2}, {TILEWRIGHT_I8, 2}};
	const bool is_narrow = number >= 21 && number <= 26 && narrow[number - 21].bits;
	r->t->type = is_narrow	     ? narrow[number - 21].type
		     : number < 1000 ? (tilewright_type)number
				     : (tilewright_type)0;
	r->bits = is_narrow ? narrow[number - 21].bits : 0;
}

/* Byte number `at` of the file's to the elements in it, the lowest first. */
static void unpack_byte(struct reading *r, size_t at, unsigned byte)
{
	const size_t each = 8 / (size_t)r->bits;
	const unsigned ones = (1u << r->bits) - 1, sign = r->t->type == TILEWRIGHT_I8 ? 1u << (r->bits - 1) : 0;
	for (size_t k = 0; k < each && at * each + k < r->t->bytes; k++) {
		const unsigned v = byte >> (k * (size_t)r->bits) & ones;
		((unsigned char *)r->t->data)[at * each + k] = (unsigned char)((v ^ sign) - sign);
	}
}

/* Bytes of the elements in the file. */
static size_t stored_bytes(const struct reading *r)
{
	const size_t each = r->bits ? 8 / (size_t)r->bits : 1;
	return (r->t->bytes + each - 1) / each;
}

/* Typed fields hold little-endian numbers or varints; a narrower type takes the low bytes. */
static int add_element(struct reading *r, const void *low_bytes)
{
	const size_t size = (size_t)tilewright_type_bytes(r->t->type);
	if (!r->fill)
		return EXIT_DONE;
	if (r->bits && r->filled < stored_bytes(r)) {
		unpack_byte(r, r->filled++, *(const unsigned char *)low_bytes);
		return EXIT_DONE;
	}
	if ((r->filled + 1) * size > r->t->bytes)
		return problem_set(r->p, EXIT_INPUT, "more elements than its dimensions say");
	memcpy((char *)r->t->data + r->filled++ * size, low_bytes, size);
	return EXIT_DONE;
}

static int varints(struct reading *r, const struct field *f, int (*take)(struct reading *r, uint64_t value))
{
	if (f->type == 0)
		return take(r, f->value);
	struct cli_wire w = f->bytes;
	if (f->type != 2)
		return malformed(r->p);
	while (w.at < w.end) {
		uint64_t value;
		if (!cli_varint(&w, &value))
			return malformed(r->p);
		const int code = take(r, value);
		if (code != EXIT_DONE)
			return code;
	}
	return EXIT_DONE;
}

static int varint_element(struct reading *r, uint64_t value)
{
	return add_element(r, &value);
}

static int fixed_elements(struct reading *r, const struct field *f, int size)
{
	const size_t n = (size_t)(f->bytes.end - f->bytes.at);
	if (f->type == 0 || n % (size_t)size || tilewright_type_bytes(r->t->type) != size)
		return malformed(r->p);
	for (size_t i = 0; i < n; i += (size_t)size) {
		const int code = add_element(r, f->bytes.at + i);
		if (code != EXIT_DONE)
			return code;
	}
	return EXIT_DONE;
}

static int header_field(struct reading *r, const struct field *f)
{
	switch (f->number) {
	case DIMS:
		return varints(r, f, add_dim);
	case DATA_TYPE:
		set_type(r, f->value);
		return EXIT_DONE;
	case NAME:
		free(r->t->name);
		r->t->name =
			f->type == 2 ? strndup((const char *)f->bytes.at, (size_t)(f->bytes.end - f->bytes.at)) : NULL;
		return EXIT_DONE;
	case RAW_DATA:
		if (f->type != 2)
			return malformed(r->p);
		r->raw = f->bytes;
		r->has_raw = true;
		return EXIT_DONE;
	case STRING_DATA:
		return problem_set(r->p, EXIT_INPUT, "tensors of strings are not supported");
	case DATA_LOCATION:
		return f->value ? problem_set(r->p, EXIT_INPUT, "tensors with external data are not supported here")
				: EXIT_DONE;
	default:
		return EXIT_DONE;
	}
}

static int data_field(struct reading *r, const struct field *f)
{
	switch (f->number) {
	case FLOAT_DATA:
		return fixed_elements(r, f, 4);
	case DOUBLE_DATA:
		return fixed_elements(r, f, 8);
	case INT32_DATA:
	case INT64_DATA:
	case UINT64_DATA:
		return varints(r, f, varint_element);
	default:
		return EXIT_DONE;
	}
}

static int each_field(struct reading *r, const struct bytes *b, int (*take)(struct reading *r, const struct field *f))
{
	struct cli_wire w = {b->at, b->at + b->n};
	struct field f;
	int more;
	while ((more = cli_next(&w, &f)) > 0) {
		const int code = take(r, &f);
		if (code != EXIT_DONE)
			return code;
	}
	return more < 0 ? malformed(r->p) : EXIT_DONE;
}

int pb_read(const struct bytes *b, struct tensor *t, struct problem *p)
{
	struct reading r = {.t = t, .p = p};
	int code = each_field(&r, b, header_field);
	if (code != EXIT_DONE)
		return code;
	if (tilewright_type_bytes(t->type) == 0)
		return problem_set(p, EXIT_INPUT, "element type %d is not supported", (int)t->type);
	code = cli_tensor_measure(t, p);
	if (code == EXIT_DONE && stored_bytes(&r) / 8 > b->n) /* an element of at most 8 bytes takes at least one */
		code = problem_set(p, EXIT_INPUT, "fewer elements than its dimensions say");
	if (code == EXIT_DONE)
		code = cli_tensor_alloc(t, p);
	if (code != EXIT_DONE)
		return code;
	const size_t raw = (size_t)(r.raw.end - r.raw.at);
	if (r.has_raw && (raw > 0 || t->bytes == 0)) {
		if (raw != stored_bytes(&r))
			return problem_set(p, EXIT_INPUT, "%zu bytes of data instead of %zu", raw, stored_bytes(&r));
		for (size_t i = 0; i < raw && r.bits; i++)
			unpack_byte(&r, i, r.raw.at[i]);
		if (raw && !r.bits)
			memcpy(t->data, r.raw.at, raw);
		return EXIT_DONE;
	}
	r.fill = true;
	code = each_field(&r, b, data_field);
	if (code == EXIT_DONE &&
	    r.filled * (size_t)tilewright_type_bytes(t->type) != (r.bits ? stored_bytes(&r) : t->bytes))
		return problem_set(p, EXIT_INPUT, "fewer elements than its dimensions say");
	return code;
}

int pb_write(const char *path, const char *name, const tilewright_tensor *t, struct problem *p)
{
	const size_t name_bytes = strlen(name);
	unsigned char *head = malloc(name_bytes + 256);
	if (head == NULL)
		return problem_memory(p);
	size_t n = 0;
	for (int d = 0; d < t->rank; d++) {
		head[n++] = DIMS << 3;
		n += cli_put_varint(head + n, (uint64_t)t->dims[d]);
	}
	head[n++] = DATA_TYPE << 3;
	n += cli_put_varint(head + n, (uint64_t)t->type);
	head[n++] = NAME << 3 | 2;
	n += cli_put_varint(head + n, name_bytes);
	memcpy(head + n, name, name_bytes);
	n += name_bytes;
	head[n++] = RAW_DATA << 3 | 2;
	n += cli_put_varint(head + n, t->bytes);
	const int code = cli_write_file(path, head, n, t->data, t->bytes, p);
	free(head);
	return code;
}
