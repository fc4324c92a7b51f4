/* The list of host operators: host/NAME.c defines the array twrt_host_NAME, ended by a zero entry; the build collects the names. */
#include "rt_int.h"

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
