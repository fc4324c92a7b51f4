/* Opening a model as the arguments say. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

/* [[DOMAIN::]NAME=]FILE.tw */
static tilewright_status add_operator(tilewright_options *o, const char *text)
{
	const char *equal = strchr(text, '='), *path = equal ? equal + 1 : text;
	const char *slash = strrchr(path, '/'), *start = equal ? text : slash ? slash + 1 : path;
	const char *end = equal ? equal : strrchr(start, '.');
	if (end == NULL || end == start)
		end = start + strlen(start);
	char *name = strndup(start, (size_t)(end - start));
	if (name == NULL)
		return TILEWRIGHT_ERROR_MEMORY;
	char *colons = equal ? strstr(name, "::") : NULL;
	if (colons)
		*colons = '\0';
	const tilewright_status s =
		tilewright_add_operator_file(o, colons ? name : NULL, colons ? colons + 2 : name, path);
	free(name);
	return s;
}

int cli_make_options(const struct args *a, bool quiet, tilewright_options **o, struct problem *p)
{
	*o = tilewright_create_options();
	if (*o == NULL)
		return problem_status(p, TILEWRIGHT_ERROR_MEMORY);
	tilewright_status s = tilewright_set_isa(*o, a->isa);
	for (int i = 0; s == TILEWRIGHT_OK && i < a->nops; i++)
		s = add_operator(*o, a->ops[i]);
	for (int i = 0; s == TILEWRIGHT_OK && i < a->fixed.n; i++)
		s = tilewright_fix_symbol(*o, a->fixed.at[i].symbol, a->fixed.at[i].value);
	if (s == TILEWRIGHT_OK)
		s = tilewright_use_cache(*o, !a->no_cache);
	if (s == TILEWRIGHT_OK)
		s = tilewright_set_optimise(*o, !a->plain);
	if (s == TILEWRIGHT_OK)
		s = tilewright_set_exact(*o, a->exact);
	if (s == TILEWRIGHT_OK)
		s = tilewright_keep_tensors(*o, a->dump_tensors || a->compare);
	if (s == TILEWRIGHT_OK)
		s = tilewright_set_dump(*o, a->dump);
	if (s == TILEWRIGHT_OK)
		s = tilewright_set_cancel(*o, terminal_cancel, NULL);
	if (s == TILEWRIGHT_OK && !quiet)
		s = tilewright_set_progress(*o, terminal_progress, NULL);
	if (s == TILEWRIGHT_OK && !quiet)
		s = tilewright_set_log(*o, terminal_log, NULL);
	if (s == TILEWRIGHT_OK)
		return EXIT_DONE;
	tilewright_free_options(*o);
	*o = NULL;
	return problem_status(p, s);
}

int cli_open_model(const struct args *a, const char *path, tilewright_model **m, struct problem *p)
{
	tilewright_options *o;
	*m = NULL;
	int code = cli_make_options(a, false, &o, p);
	if (code != EXIT_DONE)
		return code;
	const tilewright_status s = tilewright_compile_file(path, o, m);
	if (s != TILEWRIGHT_OK)
		code = problem_status(p, s);
	tilewright_free_options(o);
	terminal_clear();
	return code;
}
