/* The protobuf wire format, read and written field by field, within bounds. */
#include "cli.h"

bool cli_varint(struct cli_wire *w, uint64_t *value)
{
	*value = 0;
	for (int shift = 0; shift < 70 && w->at < w->end; shift += 7) {
		const unsigned char byte = *w->at++;
		if (shift < 64)
			*value |= (uint64_t)(byte & 127) << shift;
		if (byte < 128)
			return true;
	}
	return false;
}

int cli_next(struct cli_wire *w, struct field *f)
{
	if (w->at == w->end)
		return 0;
	uint64_t tag;
	*f = (struct field){.start = w->at};
	if (!cli_varint(w, &tag) || tag >> 3 == 0)
		return -1;
	f->number = tag >> 3;
	f->type = (int)(tag & 7);
	uint64_t n = 0;
	if (f->type == 0) {
		if (!cli_varint(w, &f->value))
			return -1;
	} else if (f->type == 1 || f->type == 5) {
		n = f->type == 1 ? 8 : 4;
	} else if (f->type != 2 || !cli_varint(w, &n)) {
		return -1;
	}
	if (n > (uint64_t)(w->end - w->at))
		return -1;
	f->bytes = (struct cli_wire){w->at, w->at + n};
	w->at += n;
	f->end = w->at;
	return 1;
}

size_t cli_put_varint(unsigned char *to, uint64_t value)
{
	size_t n = 0;
	for (; value > 127; value >>= 7)
		to[n++] = (unsigned char)(value | 128);
	to[n++] = (unsigned char)value;
	return n;
}
