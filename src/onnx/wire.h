/* wire: the protobuf wire format over bytes in memory. A message is a slice; fields are read one after another;
   nothing is copied. Internal to onnx/. */
#ifndef TW_WIRE_H
#define TW_WIRE_H

#include "base/base.h"

struct tw_wire {
	const uint8_t *at, *end;
	const uint8_t *base; /* first byte of the file, for offsets in messages */
	const char *file;
};

enum tw_wire_type { TW_WIRE_VARINT = 0, TW_WIRE_FIXED64 = 1, TW_WIRE_BYTES = 2, TW_WIRE_FIXED32 = 5 };

struct tw_field {
	uint32_t number;
	enum tw_wire_type type;
	uint64_t value;	      /* varint and fixed */
	struct tw_wire bytes; /* TW_WIRE_BYTES */
};

_Noreturn void wire_fail(const struct tw_wire *w, const char *what);
bool wire_next(struct tw_wire *w,
	       struct tw_field *f); /* false at the end of the message; raises TW_ERR_MODEL when malformed */
/* The field's value, after a check of its wire type. */
int64_t wire_int(const struct tw_wire *w, const struct tw_field *f);
float wire_float(const struct tw_wire *w, const struct tw_field *f);
struct tw_wire wire_sub(const struct tw_wire *w, const struct tw_field *f);
const char *wire_string(struct tw_arena *a, const struct tw_wire *w, const struct tw_field *f); /* refuses NUL bytes */
static inline int64_t wire_left(const struct tw_wire *w)
{
	return w->end - w->at;
}
uint64_t wire_varint(struct tw_wire *w);
/* Elements of a repeated number field, packed or not: first count them, then read them. */
int64_t wire_count(struct tw_wire message, uint32_t number, enum tw_wire_type type);
void wire_read(struct tw_wire message, uint32_t number, enum tw_wire_type type, uint64_t *out);

#endif
