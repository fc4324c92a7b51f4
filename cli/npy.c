/* numpy's .npy files: versions 1 to 3, either byte order, either element order. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

static const struct {
	tilewright_type type;
	char code[3];
} types[] = {{TILEWRIGHT_F32, "f4"}, {TILEWRIGHT_F64, "f8"}, {TILEWRIGHT_F16, "f2"}, {TILEWRIGHT_U8, "u1"},
	     {TILEWRIGHT_I8, "i1"},  {TILEWRIGHT_U16, "u2"}, {TILEWRIGHT_I16, "i2"}, {TILEWRIGHT_U32, "u4"},
	     {TILEWRIGHT_I32, "i4"}, {TILEWRIGHT_U64, "u8"}, {TILEWRIGHT_I64, "i8"}, {TILEWRIGHT_BOOL, "b1"}};

static const char magic[6] = {'\x93', 'N', 'U', 'M', 'P', 'Y'};

static const char *code_of(tilewright_type type)
{
	for (int i = 0; i < COUNT(types); i++)
		if (types[i].type == type)
			return types[i].code;
	return NULL;
}

bool npy_has_type(tilewright_type type)
{
	return code_of(type) != NULL;
}

/* The text behind 'key': in the header's dictionary, NULL otherwise. */
static const char *value_of(const char *header, const char *key)
{
	char quoted[32];
	snprintf(quoted, sizeof(quoted), "'%s'", key);
	const char *at = strstr(header, quoted);
	if (at == NULL)
		return NULL;
	at += strlen(quoted);
	at += strspn(at, " ");
	if (*at++ != ':')
		return NULL;
	return at + strspn(at, " ");
}

static bool parse_shape(const char *at, struct tensor *t)
{
	if (*at++ != '(')
		return false;
	for (t->rank = 0;;) {
		at += strspn(at, " ");
		if (*at == ')')
			return true;
		if (t->rank == TILEWRIGHT_MAX_RANK || *at < '0' || *at > '9')
			return false;
		int64_t n = 0;
		for (; *at >= '0' && *at <= '9'; at++)
			if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, *at - '0', &n))
				return false;
		t->dims[t->rank++] = n;
		at += strspn(at, " L");
		if (*at == ',')
			at++;
		else if (*at != ')')
			return false;
	}
}

static bool parse_type(const char *at, tilewright_type *type, bool *swap)
{
	if (*at != '\'' && *at != '"')
		return false;
	const char order = at[1];
	*swap = order == '>';
	for (int i = 0; i < COUNT(types); i++)
		if (strchr("<>|=", order) && order && strncmp(at + 2, types[i].code, 2) == 0 && at[4] == at[0]) {
			*type = types[i].type;
			return true;
		}
	return false;
}

static void swap_bytes(unsigned char *at, size_t bytes, int size)
{
	for (size_t i = 0; i + (size_t)size <= bytes; i += (size_t)size)
		for (int k = 0; k < size / 2; k++) {
			const unsigned char x = at[i + (size_t)k];
			at[i + (size_t)k] = at[i + (size_t)(size - 1 - k)];
			at[i + (size_t)(size - 1 - k)] = x;
		}
}

/* Element order from first-fastest to last-fastest. */
static void reorder(const struct tensor *t, const unsigned char *from)
{
	const size_t size = (size_t)tilewright_type_bytes(t->type);
	const int64_t n = cli_tensor_elements(t->rank, t->dims);
	int64_t index[TILEWRIGHT_MAX_RANK] = {0};
	for (int64_t i = 0; i < n; i++) {
		int64_t at = 0;
		for (int d = t->rank; d-- > 0;)
			at = at * t->dims[d] + index[d];
		memcpy((unsigned char *)t->data + (size_t)i * size, from + (size_t)at * size, size);
		for (int d = t->rank; d-- > 0;) {
			if (++index[d] < t->dims[d])
				break;
			index[d] = 0;
		}
	}
}

int npy_read(const struct bytes *b, struct tensor *t, struct problem *p)
{
	if (b->n < 10 || memcmp(b->at, magic, sizeof(magic)) != 0)
		return problem_set(p, EXIT_INPUT, "not a .npy file");
	const int version = b->at[6];
	size_t start = version == 1 ? 10 : 12, length = b->at[8] | (size_t)b->at[9] << 8;
	if (version < 1 || version > 3 || b->n < start)
		return problem_set(p, EXIT_INPUT, ".npy version %d is not supported", version);
	if (version > 1)
		length |= (size_t)b->at[10] << 16 | (size_t)b->at[11] << 24;
	if (length > b->n - start)
		return problem_set(p, EXIT_INPUT, "the file is cut short");
	char *header = strndup((const char *)b->at + start, length);
	if (header == NULL)
		return problem_memory(p);
	const char *type = value_of(header, "descr"), *order = value_of(header, "fortran_order"),
		   *shape = value_of(header, "shape");
	bool swap = false;
	const bool typed = type && parse_type(type, &t->type, &swap), shaped = shape && parse_shape(shape, t);
	const bool fortran = order && strncmp(order, "True", 4) == 0;
	free(header);
	if (!typed)
		return problem_set(p, EXIT_INPUT, "its element type is not supported");
	if (!shaped)
		return problem_set(p, EXIT_INPUT, "its shape is not supported");
	int code = cli_tensor_measure(t, p);
	if (code != EXIT_DONE)
		return code;
	const unsigned char *data = b->at + start + length;
	if (b->n - start - length != t->bytes)
		return problem_set(p, EXIT_INPUT, "%zu bytes of data instead of %zu", b->n - start - length, t->bytes);
	code = cli_tensor_alloc(t, p);
	if (code != EXIT_DONE)
		return code;
	if (fortran && t->rank > 1)
		reorder(t, data);
	else
		memcpy(t->data, data, t->bytes);
	if (swap)
		swap_bytes(t->data, t->bytes, tilewright_type_bytes(t->type));
	return EXIT_DONE;
}

int npy_write(const char *path, const tilewright_tensor *t, struct problem *p)
{
	char head[512] = {0};
	const int start = 10;
	memcpy(head, magic, sizeof(magic));
	head[6] = 1;
	int n = start;
	n += snprintf(head + n, sizeof(head) - (size_t)n, "{'descr': '%c%s', 'fortran_order': False, 'shape': (",
		      tilewright_type_bytes(t->type) == 1 ? '|' : '<', code_of(t->type));
	for (int d = 0; d < t->rank; d++)
		n += snprintf(head + n, sizeof(head) - (size_t)n,
			      t->rank == 1 ? "%lld,"
			      : d	   ? ", %lld"
					   : "%lld",
			      (long long)t->dims[d]);
	n += snprintf(head + n, sizeof(head) - (size_t)n, "), }");
	while (n % 64 != 63)
		head[n++] = ' ';
	head[n++] = '\n';
	head[8] = (char)((n - start) & 255);
	head[9] = (char)((n - start) >> 8);
	return cli_write_file(path, head, (size_t)n, t->data, t->bytes, p);
}
