/* The list of host operators: host/NAME.c defines the array twrt_host_NAME, ended by a zero entry; the build collects
 * the names. */
#include "rt_int.h"

#include <stdio.h>
#include <stdlib.h>

#define HOST(name) extern const struct twrt_host twrt_host_##name[];
#include "host_list.inc"
#undef HOST

#define HOST(name) twrt_host_##name,
static const struct twrt_host *const families[] = {
#include "host_list.inc"
};
#undef HOST

const struct twrt_host *twrt_host_find(const char *name)
{
	for (int i = 0; i < TW_COUNT(families); i++)
		for (const struct twrt_host *h = families[i]; h->name; h++)
			if (strcmp(h->name, name) == 0)
				return h;
	return NULL;
}

bool twrt_host_text(const void *attrs, int64_t attrs_bytes, const char *name, char *text, size_t size)
{
	const char *at = attrs, *end = at + attrs_bytes;
	const size_t n = strlen(name);
	while (at < end) {
		const char *line_end = memchr(at, '\n', (size_t)(end - at));
		if (line_end == NULL)
			line_end = end;
		const size_t length = (size_t)(line_end - at);
		if (length > n && memcmp(at, name, n) == 0 && at[n] == '=') {
			snprintf(text, size, "%.*s", (int)(length - n - 1), at + n + 1);
			return true;
		}
		at = line_end + (line_end < end);
	}
	return false;
}

int64_t twrt_host_int(const void *attrs, int64_t attrs_bytes, const char *name, int64_t otherwise)
{
	char text[32];
	return twrt_host_text(attrs, attrs_bytes, name, text, sizeof(text)) ? strtoll(text, NULL, 10) : otherwise;
}

double twrt_host_float(const void *attrs, int64_t attrs_bytes, const char *name, double otherwise)
{
	char text[64];
	return twrt_host_text(attrs, attrs_bytes, name, text, sizeof(text)) ? strtod(text, NULL) : otherwise;
}
