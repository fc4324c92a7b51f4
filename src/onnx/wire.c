/* wire.c: a bounds-checked reader of the protobuf wire format.
 *
 * Input: a slice of bytes. Output: fields, as numbers or sub-slices of the same bytes. Invariant: nothing outside
 * the slice is ever read, and each call consumes at least one byte, so reading ends. */
#include "onnx/wire.h"

void wire_fail(const struct tw_wire *w, const char *what)
{
	tw_raise(TW_ERR_MODEL, "%s: %s at byte %lld", w->file, what, (long long)(w->at - w->base));
}

uint64_t wire_varint(struct tw_wire *w)
{
	uint64_t value = 0;
	for (int shift = 0; shift < 70; shift += 7) {
		if (w->at == w->end)
			wire_fail(w, "file ends inside a number");
		const uint8_t byte = *w->at++;
		if (shift < 64)
			value |= (uint64_t)(byte & 127) << shift;
		if (byte < 128)
			return value;
	}
	wire_fail(w, "number of more than ten bytes");
}

static uint64_t fixed(struct tw_wire *w, int bytes)
{
	if (wire_left(w) < bytes)
		wire_fail(w, "file ends inside a number");
	uint64_t value = 0;
	for (int i = 0; i < bytes; i++)
		value |= (uint64_t)w->at[i] << 8 * i;
	w->at += bytes;
	return value;
}

bool wire_next(struct tw_wire *w, struct tw_field *f)
{
	if (w->at == w->end)
		return false;
	const uint64_t tag = wire_varint(w);
	if (tag >> 3 == 0 || tag >> 3 > 0x1fffffff)
		wire_fail(w, "not an ONNX model, or damaged: field number out of range");
	f->number = (uint32_t)(tag >> 3);
	f->value = 0;
	switch (tag & 7) {
	case TW_WIRE_VARINT:
		f->type = TW_WIRE_VARINT;
		f->value = wire_varint(w);
		return true;
	case TW_WIRE_FIXED64:
		f->type = TW_WIRE_FIXED64;
		f->value = fixed(w, 8);
		return true;
	case TW_WIRE_FIXED32:
		f->type = TW_WIRE_FIXED32;
		f->value = fixed(w, 4);
		return true;
	case TW_WIRE_BYTES: {
		const uint64_t n = wire_varint(w);
		if (n > (uint64_t)wire_left(w))
			tw_raise(TW_ERR_MODEL,
				 "%s: cut short or damaged: the field of %llu bytes at byte %lld has only %lld left",
				 w->file, (unsigned long long)n, (long long)(w->at - w->base), (long long)wire_left(w));
		f->type = TW_WIRE_BYTES;
		f->bytes = (struct tw_wire){.at = w->at, .end = w->at + n, .base = w->base, .file = w->file};
		w->at += n;
		return true;
	}
	default:
		wire_fail(w, "not an ONNX model, or damaged: field of an unknown wire type");
	}
}

int64_t wire_int(const struct tw_wire *w, const struct tw_field *f)
{
	if (f->type != TW_WIRE_VARINT)
		wire_fail(w, "expected an integer field");
	return (int64_t)f->value;
}

float wire_float(const struct tw_wire *w, const struct tw_field *f)
{
	if (f->type != TW_WIRE_FIXED32)
		wire_fail(w, "expected a float field");
	const uint32_t bits = (uint32_t)f->value;
	float x;
	memcpy(&x, &bits, sizeof x);
	return x;
}

struct tw_wire wire_sub(const struct tw_wire *w, const struct tw_field *f)
{
	if (f->type != TW_WIRE_BYTES)
		wire_fail(w, "expected a field with a length");
	return f->bytes;
}

const char *wire_string(struct tw_arena *a, const struct tw_wire *w, const struct tw_field *f)
{
	const struct tw_wire s = wire_sub(w, f);
	const size_t n = (size_t)wire_left(&s);
	if (n && memchr(s.at, 0, n))
		wire_fail(&s, "name with a NUL byte");
	return n ? arena_strndup(a, (const char *)s.at, n) : "";
}

static uint64_t element(struct tw_wire *w, enum tw_wire_type type)
{
	return type == TW_WIRE_VARINT ? wire_varint(w) : fixed(w, type == TW_WIRE_FIXED64 ? 8 : 4);
}

int64_t wire_count(struct tw_wire w, uint32_t number, enum tw_wire_type type)
{
	int64_t n = 0;
	for (struct tw_field f; wire_next(&w, &f);) {
		if (f.number != number)
			continue;
		if (f.type == type) {
			n++;
			continue;
		}
		for (struct tw_wire packed = wire_sub(&w, &f); packed.at < packed.end; n++)
			element(&packed, type);
	}
	return n;
}

void wire_read(struct tw_wire w, uint32_t number, enum tw_wire_type type, uint64_t *out)
{
	for (struct tw_field f; wire_next(&w, &f);) {
		if (f.number != number)
			continue;
		if (f.type == type) {
			*out++ = f.value;
			continue;
		}
		for (struct tw_wire packed = wire_sub(&w, &f); packed.at < packed.end;)
			*out++ = element(&packed, type);
	}
}
