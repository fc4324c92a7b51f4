/* Sets of named tensors: taken from a run, written to a folder. */
#include "cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void cli_set_free(struct tensor_set *s)
{
	for (int i = 0; i < s->n; i++)
		cli_tensor_free(&s->at[i]);
	free(s->at);
	*s = (struct tensor_set){0};
}

int cli_set_add(struct tensor_set *s, const char *name, const tilewright_tensor *t, struct problem *p)
{
	struct tensor *more = realloc(s->at, ((size_t)s->n + 1) * sizeof(*more));
	if (more == NULL)
		return problem_memory(p);
	s->at = more;
	struct tensor *to = &more[s->n];
	*to = (struct tensor){.type = t->type, .rank = t->rank};
	memcpy(to->dims, t->dims, sizeof(to->dims));
	const int code = cli_tensor_alloc(to, p);
	if (code != EXIT_DONE)
		return code;
	to->name = strdup(name);
	if (to->name == NULL) {
		cli_tensor_free(to);
		return problem_memory(p);
	}
	if (to->bytes)
		memcpy(to->data, t->data, to->bytes);
	s->n++;
	return EXIT_DONE;
}

int cli_set_take(struct tensor_set *s, const tilewright_model *m, tilewright_context *c, bool kept, struct problem *p)
{
	const int n = tilewright_count_outputs(m), own = n - tilewright_count_kept(m);
	for (int i = kept ? own : 0; i < (kept ? n : own); i++) {
		tilewright_tensor t;
		const tilewright_status status = tilewright_get_output(c, i, &t);
		const int code = status == TILEWRIGHT_OK ? cli_set_add(s, tilewright_get_output_port(m, i)->name, &t, p)
							 : problem_status(p, status);
		if (code != EXIT_DONE)
			return code;
	}
	return EXIT_DONE;
}

const struct tensor *cli_set_find(const struct tensor_set *s, const char *name)
{
	for (int i = 0; i < s->n; i++)
		if (strcmp(s->at[i].name, name) == 0)
			return &s->at[i];
	return NULL;
}

tilewright_tensor cli_tensor_view(const struct tensor *t)
{
	tilewright_tensor v = {.type = t->type, .rank = t->rank, .data = t->data, .bytes = t->bytes};
	memcpy(v.dims, t->dims, sizeof(v.dims));
	return v;
}

int cli_make_folder(const char *path, struct problem *p)
{
	char part[4096];
	if (snprintf(part, sizeof(part), "%s", path) >= (int)sizeof(part))
		return problem_set(p, EXIT_INPUT, "%.100s..: the path is too long", path);
	for (char *at = part + 1; *at; at++)
		if (*at == '/') {
			*at = '\0';
			mkdir(part, 0777);
			*at = '/';
		}
	if (mkdir(part, 0777) != 0 && errno != EEXIST)
		return problem_set(p, EXIT_INPUT, "cannot make the folder %s: %s", path, strerror(errno));
	return EXIT_DONE;
}

static int path_of(const struct tensor *t, const char *folder, char *path, size_t n, struct problem *p)
{
	const char *end = npy_has_type(t->type) ? ".npy" : ".pb";
	if (snprintf(path, n, "%s/%s%s", folder, t->file, end) >= (int)n)
		return problem_set(p, EXIT_INPUT, "%.100s..: the path is too long", folder);
	return EXIT_DONE;
}

int cli_set_write(struct tensor_set *s, const char *folder, struct problem *p)
{
	int code = cli_make_folder(folder, p);
	if (code == EXIT_DONE)
		code = cli_set_name_files(s, p);
	for (int i = 0; code == EXIT_DONE && i < s->n; i++) {
		char path[4096];
		code = path_of(&s->at[i], folder, path, sizeof(path), p);
		if (code != EXIT_DONE)
			break;
		const tilewright_tensor t = cli_tensor_view(&s->at[i]);
		code = npy_has_type(t.type) ? npy_write(path, &t, p) : pb_write(path, s->at[i].name, &t, p);
	}
	return code;
}
