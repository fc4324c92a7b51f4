/* Parses a command's arguments by its table of options. --name VALUE and --name=VALUE, -x VALUE and -xVALUE; "--" ends
 * the options. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

static const struct command_option *find_option(const struct command *c, const char *arg, const char **value)
{
	for (const struct command_option *o = c->options; o->name; o++) {
		const size_t n = strlen(o->name);
		if (strncmp(arg, o->name, n) != 0)
			continue;
		const bool is_long = o->name[1] == '-';
		if (arg[n] == '\0')
			*value = NULL;
		else if (is_long && arg[n] == '=')
			*value = arg + n + 1;
		else if (!is_long && o->value)
			*value = arg + n;
		else
			continue;
		return o;
	}
	return NULL;
}

static int take(const struct command *c, const char *arg, const char *next, int *used, struct args *a,
		struct problem *p)
{
	const char *value;
	const struct command_option *o = find_option(c, arg, &value);
	if (o == NULL)
		return problem_set(p, EXIT_USAGE, "unknown option '%s'", arg);
	if (o->value == NULL && value)
		return problem_set(p, EXIT_USAGE, "option '%s' takes no value", o->name);
	if (o->value && value == NULL) {
		if (next == NULL)
			return problem_set(p, EXIT_USAGE, "option '%s' needs a value: %s", o->name, o->value);
		value = next;
		++*used;
	}
	return o->take(a, value, p);
}

int cli_parse_args(const struct command *c, int argc, char **argv, struct args *a, bool *help, struct problem *p)
{
	*a = (struct args){.runs = -1, .warmup = 3, .rtol = -1, .atol = -1};
	a->files = calloc((size_t)argc, sizeof(*a->files));
	if (a->files == NULL)
		return problem_memory(p);
	bool options = true;
	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
			*help = true;
			return EXIT_DONE;
		}
	for (int i = 1; i < argc; i++) {
		if (options && strcmp(argv[i], "--") == 0) {
			options = false;
		} else if (options && argv[i][0] == '-' && argv[i][1]) {
			const int code = take(c, argv[i], i + 1 < argc ? argv[i + 1] : NULL, &i, a, p);
			if (code != EXIT_DONE)
				return code;
		} else {
			a->files[a->nfiles++] = argv[i];
		}
	}
	if (a->nfiles < c->least)
		return problem_set(p, EXIT_USAGE, "%s",
				   c->most < 0				  ? "which folder?"
				   : strncmp(c->synopsis, "FILE", 4) == 0 ? "which file?"
									  : "which model?");
	if (c->most >= 0 && a->nfiles > c->most)
		return problem_set(p, EXIT_USAGE, "one argument too many: '%s'", a->files[c->most]);
	return EXIT_DONE;
}

void cli_free_args(struct args *a)
{
	for (int i = 0; i < a->ninputs; i++)
		free((char *)(uintptr_t)a->inputs[i].name);
	for (int i = 0; i < a->sizes.n; i++)
		free((char *)(uintptr_t)a->sizes.at[i].symbol);
	for (int i = 0; i < a->fixed.n; i++)
		free((char *)(uintptr_t)a->fixed.at[i].symbol);
	free(a->files);
}
