/* tilewright test: ONNX test folders. Each folder runs in a process of its own, so that one that crashes stops no
 * other. */
#include "cli.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_TENSORS = 256, PATH_BYTES = 4096, SECONDS = 600 };

struct case_ {
	const struct args *args;
	const char *folder;
	double rtol, atol;
	bool expect_error;
};

static bool exists(const char *path)
{
	return access(path, F_OK) == 0;
}

static int join(char *to, const char *folder, const char *name, struct problem *p)
{
	if (snprintf(to, PATH_BYTES, "%s/%s", folder, name) >= PATH_BYTES)
		return problem_set(p, EXIT_INPUT, "%.100s..: the path is too long", folder);
	return EXIT_DONE;
}

/* ---- one data set ---- */

struct data_set {
	int nin, nout;
	struct bytes in[MOST_TENSORS]; /* as files, for --constants */
	struct tensor input[MOST_TENSORS], output[MOST_TENSORS];
};

static void free_data_set(struct data_set *d)
{
	for (int i = 0; i < d->nin; i++) {
		free(d->in[i].at);
		cli_tensor_free(&d->input[i]);
	}
	for (int i = 0; i < d->nout; i++)
		cli_tensor_free(&d->output[i]);
	free(d);
}

static int load_data_set(const char *folder, struct data_set *d, struct problem *p)
{
	char path[PATH_BYTES + 64];
	for (; d->nin < MOST_TENSORS; d->nin++) {
		snprintf(path, sizeof(path), "%s/input_%d.pb", folder, d->nin);
		if (!exists(path))
			break;
		int code = cli_read_file(path, &d->in[d->nin], p);
		if (code == EXIT_DONE)
			code = cli_tensor_load(path, &d->input[d->nin], p);
		if (code != EXIT_DONE)
			return code;
	}
	for (; d->nout < MOST_TENSORS; d->nout++) {
		snprintf(path, sizeof(path), "%s/output_%d.pb", folder, d->nout);
		if (!exists(path))
			break;
		const int code = cli_tensor_load(path, &d->output[d->nout], p);
		if (code != EXIT_DONE)
			return code;
	}
	return EXIT_DONE;
}

/* Tensors are named as the model's inputs or stand in their order. */
static int port_of(const tilewright_model *m, const struct tensor *t, int i, bool outputs)
{
	const int named = t->name == NULL ? -1
			  : outputs	  ? tilewright_find_output(m, t->name)
					  : tilewright_find_input(m, t->name);
	return named >= 0 ? named : i;
}

static int check_outputs(const struct case_ *c, const tilewright_model *m, tilewright_context *context,
			 const struct data_set *d, struct problem *p)
{
	for (int i = 0; i < d->nout; i++) {
		const int k = port_of(m, &d->output[i], i, true);
		tilewright_tensor got;
		char reason[1024];
		const tilewright_status s = tilewright_get_output(context, k, &got);
		if (s != TILEWRIGHT_OK)
			return problem_status(p, s);
		cli_compare(&got, &d->output[i], c->rtol, c->atol, reason, sizeof(reason));
		if (reason[0])
			return problem_set(p, EXIT_INPUT, "output %d \"%s\": %s", k,
					   tilewright_get_output_port(m, k)->name, reason);
	}
	return EXIT_DONE;
}

static int run_model(const struct case_ *c, tilewright_model *m, const struct data_set *d, struct problem *p)
{
	tilewright_context *context;
	tilewright_status s = tilewright_create_context(m, c->args->threads, &context);
	for (int i = 0; s == TILEWRIGHT_OK && i < d->nin; i++) {
		if (c->args->constants && i > 0)
			break; /* part of the model now */
		const struct tensor *t = &d->input[i];
		s = tilewright_set_input(context, port_of(m, t, i, false), t->type, t->rank, t->dims, t->data);
	}
	if (s == TILEWRIGHT_OK)
		s = tilewright_run(context);
	const int code = s == TILEWRIGHT_OK ? check_outputs(c, m, context, d, p) : problem_status(p, s);
	tilewright_free_context(context);
	return code;
}

static int run_data_set(const struct case_ *c, const struct bytes *model, const tilewright_options *o,
			const struct data_set *d, struct problem *p)
{
	struct bytes edited = *model;
	int code = EXIT_DONE;
	if (c->args->constants)
		code = onnx_fix_inputs(model, d->nin, d->in, &edited, p);
	if (code != EXIT_DONE)
		return code;
	tilewright_model *m;
	const tilewright_status s = tilewright_compile_memory(edited.at, edited.n, c->folder, o, &m);
	code = s == TILEWRIGHT_OK ? run_model(c, m, d, p) : problem_status(p, s);
	tilewright_free_model(m);
	if (c->args->constants)
		free(edited.at);
	return code;
}

/* ---- one folder ---- */

static int run_data_sets(const struct case_ *c, const struct bytes *model, const tilewright_options *o,
			 struct problem *p)
{
	int code = EXIT_DONE, n = 0;
	for (;; n++) {
		char path[PATH_BYTES + 64];
		snprintf(path, sizeof(path), "%s/test_data_set_%d", c->folder, n);
		if (!exists(path))
			break;
		struct data_set *d = calloc(1, sizeof(*d));
		if (d == NULL)
			return problem_memory(p);
		code = load_data_set(path, d, p);
		if (code == EXIT_DONE)
			code = run_data_set(c, model, o, d, p);
		free_data_set(d);
		if (code != EXIT_DONE)
			return code;
	}
	if (n > 0)
		return EXIT_DONE;
	struct data_set nothing = {0};
	code = run_data_set(c, model, o, &nothing, p);
	return code == EXIT_DONE && !c->expect_error ? problem_set(p, EXIT_INPUT, "there is no test_data_set_0") : code;
}

static int run_folder(const struct case_ *c, struct problem *p)
{
	char path[PATH_BYTES];
	struct bytes model;
	tilewright_options *o;
	int code = join(path, c->folder, "model.onnx", p);
	if (code == EXIT_DONE)
		code = cli_read_file(path, &model, p);
	if (code != EXIT_DONE)
		return code;
	code = cli_make_options(c->args, true, &o, p);
	if (code == EXIT_DONE) {
		code = run_data_sets(c, &model, o, p);
		tilewright_free_options(o);
	}
	free(model.at);
	if (!c->expect_error)
		return code;
	if (code == EXIT_DONE)
		return problem_set(p, EXIT_INPUT, "ran, but should have been refused");
	return code == EXIT_INPUT ? EXIT_DONE : code;
}

static void read_meta(struct case_ *c)
{
	char path[PATH_BYTES], text[64] = "";
	struct problem p;
	if (join(path, c->folder, "meta.json", &p) == EXIT_DONE && exists(path)) {
		json_error_t error;
		json_t *meta = json_load_file(path, 0, &error);
		const json_t *rtol = json_object_get(meta, "rtol"), *atol = json_object_get(meta, "atol");
		if (json_is_number(rtol))
			c->rtol = json_number_value(rtol);
		if (json_is_number(atol))
			c->atol = json_number_value(atol);
		json_decref(meta);
	}
	if (join(path, c->folder, "expect.txt", &p) != EXIT_DONE)
		return;
	FILE *f = fopen(path, "re");
	if (f == NULL)
		return;
	c->expect_error = fgets(text, sizeof(text), f) && strncmp(text, "error", 5) == 0;
	fclose(f);
}

static void child(const struct args *a, const char *folder, int to)
{
	struct case_ c = {a, folder, 1e-3, 1e-7, false};
	struct problem p = {0};
	alarm(SECONDS);
	read_meta(&c);
	if (a->rtol >= 0)
		c.rtol = a->rtol;
	if (a->atol >= 0)
		c.atol = a->atol;
	const int code = run_folder(&c, &p);
	if (code != EXIT_DONE && write(to, p.text, strlen(p.text)) < 0)
		_exit(EXIT_FAULT);
	_exit(code == EXIT_DONE ? 0 : 1);
}

static void one_line(char *text)
{
	for (; *text; text++)
		if (*text == '\n' || *text == '\r')
			*text = ' ';
}

static const char *base_name(const char *folder, char *to, size_t n)
{
	size_t end = strlen(folder);
	while (end > 1 && folder[end - 1] == '/')
		end--;
	size_t start = end;
	while (start > 0 && folder[start - 1] != '/')
		start--;
	snprintf(to, n, "%.*s", (int)(end - start), folder + start);
	return to;
}

static bool test_folder(const struct args *a, const char *folder)
{
	char name[256], reason[4096];
	int ends[2], status = 0;
	base_name(folder, name, sizeof(name));
	fflush(stdout);
	const pid_t pid = pipe(ends) == 0 ? fork() : -1;
	if (pid == 0) {
		close(ends[0]);
		child(a, folder, ends[1]);
	}
	if (pid < 0) {
		printf("FAIL %s: cannot start a process: %s\n", name, strerror(errno));
		return false;
	}
	close(ends[1]);
	size_t n = 0;
	ssize_t got;
	while ((got = read(ends[0], reason + n, sizeof(reason) - 1 - n)) > 0 || (got < 0 && errno == EINTR))
		n += got > 0 ? (size_t)got : 0;
	reason[n] = '\0';
	close(ends[0]);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	const bool good = WIFEXITED(status) && WEXITSTATUS(status) == 0;
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
		snprintf(reason, sizeof(reason), "took longer than %d seconds", SECONDS);
	else if (WIFSIGNALED(status))
		snprintf(reason, sizeof(reason), "crashed: %s", strsignal(WTERMSIG(status)));
	else if (!good && n == 0)
		snprintf(reason, sizeof(reason), "ended with exit code %d", WEXITSTATUS(status));
	one_line(reason);
	terminal_clear();
	printf(good ? "ok %s" : "FAIL %s: ", name);
	cli_print_text(stdout, good ? "" : reason);
	putchar('\n');
	return good;
}

/* ---- all folders ---- */

struct folders {
	char **at;
	int n, cap;
};

static bool add(struct folders *f, char *path)
{
	if (f->n == f->cap) {
		const int cap = 2 * f->cap + 64;
		char **at = realloc(f->at, (size_t)cap * sizeof(*at));
		if (at == NULL)
			return false;
		f->at = at;
		f->cap = cap;
	}
	f->at[f->n++] = path;
	return path != NULL;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* A folder without model.onnx stands for those in it that have one. */
static bool gather(const char *path, struct folders *f)
{
	char inner[PATH_BYTES], model[PATH_BYTES];
	struct problem p;
	if (join(model, path, "model.onnx", &p) != EXIT_DONE)
		return false;
	const int first = f->n;
	DIR *d = exists(model) ? NULL : opendir(path);
	bool good = true;
	for (struct dirent *x; d && good && (x = readdir(d)) != NULL;)
		if (x->d_name[0] != '.' && join(inner, path, x->d_name, &p) == EXIT_DONE &&
		    join(model, inner, "model.onnx", &p) == EXIT_DONE && exists(model))
			good = add(f, strdup(inner));
	if (d)
		closedir(d);
	if (good && f->n == first)
		return add(f, strdup(path));
	if (good)
		qsort(f->at + first, (size_t)(f->n - first), sizeof(*f->at), by_name);
	return good;
}

int cmd_test(const struct args *a)
{
	struct folders f = {0};
	bool good = true;
	for (int i = 0; i < a->nfiles && good; i++)
		good = gather(a->files[i], &f);
	int passed = 0, done = 0;
	for (; good && done < f.n && !terminal_cancelled(); done++) {
		terminal_progress(NULL, "folder", done + 1, f.n);
		passed += test_folder(a, f.at[done]);
	}
	const bool all = done == f.n;
	for (int i = 0; i < f.n; i++)
		free(f.at[i]);
	free(f.at);
	if (!good) {
		fprintf(stderr, "tilewright: out of memory, or a path is too long\n");
		return EXIT_FAULT;
	}
	if (!all)
		fprintf(stderr, "tilewright: cancelled after %d of %d folders\n", done, f.n);
	printf("%d passed, %d failed\n", passed, done - passed);
	return passed == done && all ? EXIT_DONE : EXIT_INPUT;
}
