/* What the files of tensors are called, and the list beside them that says which file is which tensor's.
 *
 * A file has its tensor's name, in which characters other than letters, digits, '.', '_' and '-' become '_', cut at
 * 199 bytes, and with a number behind it where another file is called so already. The list, names.txt, has a line for
 * each file: its name, a tab, the tensor's name, in which \\, \n and \t stand for a backslash, a new line and a tab. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NAME_BYTES = 200 };

static char plain(char c)
{
	const bool is =
		(c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c && strchr("._-", c));
	return is || c == '\0' ? c : '_';
}

static uint64_t hash(const char *text)
{
	uint64_t h = 0xcbf29ce484222325u;
	for (; *text; text++)
		h = (h ^ (unsigned char)*text) * 0x100000001b3u;
	return h;
}

int cli_set_name_files(struct tensor_set *s, struct problem *p)
{
	uint64_t *hashes = calloc((size_t)s->n + 1, sizeof(*hashes));
	bool good = hashes != NULL;
	for (int i = 0; good && i < s->n; i++) {
		struct tensor *t = &s->at[i];
		char name[NAME_BYTES + 16] = "";
		size_t length = 0;
		for (; length < NAME_BYTES - 1 && t->name[length]; length++)
			name[length] = plain(t->name[length]);
		for (int k = 0, number = 1; k <= i; k++) {
			if (k == 0)
				hashes[i] = hash(name);
			if (k == i || hashes[k] != hashes[i] || strcmp(s->at[k].file, name) != 0)
				continue;
			snprintf(name + length, sizeof(name) - length, "_%d", ++number);
			k = -1; /* the new name, from the beginning */
		}
		free(t->file);
		t->file = strdup(name);
		good = t->file != NULL;
	}
	free(hashes);
	return good ? EXIT_DONE : problem_memory(p);
}

struct text {
	char *at;
	size_t n, room;
};

static bool put(struct text *b, const char *bytes, size_t n)
{
	if (b->n + n > b->room) {
		const size_t room = 2 * (b->n + n) + 256;
		char *more = realloc(b->at, room);
		if (more == NULL)
			return false;
		b->at = more;
		b->room = room;
	}
	memcpy(b->at + b->n, bytes, n);
	b->n += n;
	return true;
}

static bool put_name(struct text *b, const char *name)
{
	bool good = true;
	for (; good && *name; name++) {
		const char *code = *name == '\\' ? "\\\\" : *name == '\n' ? "\\n" : *name == '\t' ? "\\t" : NULL;
		good = code ? put(b, code, 2) : put(b, name, 1);
	}
	return good;
}

int cli_names_write(const struct tensor_set *s, const char *folder, struct problem *p)
{
	struct text b = {0};
	char path[4096];
	bool good = true;
	for (int i = 0; good && i < s->n; i++) {
		const char *end = npy_has_type(s->at[i].type) ? ".npy\t" : ".pb\t";
		good = put(&b, s->at[i].file, strlen(s->at[i].file)) && put(&b, end, strlen(end)) &&
		       put_name(&b, s->at[i].name) && put(&b, "\n", 1);
	}
	int code = EXIT_DONE;
	if (!good)
		code = problem_memory(p);
	else if (snprintf(path, sizeof(path), "%s/names.txt", folder) >= (int)sizeof(path))
		code = problem_set(p, EXIT_INPUT, "%.100s..: the path is too long", folder);
	else
		code = cli_write_file(path, NULL, 0, b.at, b.n, p);
	free(b.at);
	return code;
}

void cli_names_free(struct tensor_names *names)
{
	free(names->text);
	free(names->at);
	*names = (struct tensor_names){0};
}

/* A line's end, in place; \\, \n and \t become what they stand for. */
static void decode(char *name)
{
	char *to = name;
	for (; *name; name++) {
		if (*name == '\\' && name[1]) {
			name++;
			*to++ = *name == 'n' ? '\n' : *name == 't' ? '\t' : *name;
		} else {
			*to++ = *name;
		}
	}
	*to = '\0';
}

int cli_names_read(const char *folder, struct tensor_names *names, struct problem *p)
{
	char path[4096];
	struct bytes b;
	*names = (struct tensor_names){0};
	if (snprintf(path, sizeof(path), "%s/names.txt", folder) >= (int)sizeof(path) || access(path, F_OK) != 0)
		return EXIT_DONE;
	const int code = cli_read_file(path, &b, p);
	if (code != EXIT_DONE)
		return code;
	b.at[b.n] = '\0'; /* cli_read_file has room for it */
	names->text = (char *)b.at;
	names->there = true;
	int lines = 1;
	for (size_t i = 0; i < b.n; i++)
		lines += b.at[i] == '\n';
	names->at = calloc((size_t)lines, sizeof(*names->at));
	if (names->at == NULL) {
		cli_names_free(names);
		return problem_memory(p);
	}
	int number = 1;
	for (char *line = names->text, *next; line; line = next, number++) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		char *tab = strchr(line, '\t');
		if (*line == '\0')
			continue;
		if (tab == NULL || tab == line) {
			cli_names_free(names);
			return problem_set(p, EXIT_INPUT, "%.1000s: line %d is not a file, a tab and a tensor", path,
					   number);
		}
		*tab = '\0';
		decode(tab + 1);
		names->at[names->n].file = line;
		names->at[names->n++].tensor = tab + 1;
	}
	return EXIT_DONE;
}

const char *cli_names_find(const struct tensor_names *names, const char *tensor)
{
	for (int i = 0; i < names->n; i++)
		if (strcmp(names->at[i].tensor, tensor) == 0)
			return names->at[i].file;
	return NULL;
}
