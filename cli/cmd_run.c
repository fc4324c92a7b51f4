/* tilewright run: one run, a summary of each output, perhaps files. */
#include "cli.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void summary(const char *name, const tilewright_tensor *t)
{
	cli_print_text(stdout, name);
	printf("  %s", tilewright_type_name(t->type));
	cli_print_shape(stdout, t->rank, t->dims);
	const int64_t n = cli_tensor_elements(t->rank, t->dims);
	int64_t finite = 0, nans = 0, infinities = 0;
	double least = 0, most = 0, sum = 0;
	for (int64_t i = 0; i < n; i++) {
		const double x = cli_tensor_value(t->type, t->data, i);
		nans += isnan(x) != 0;
		infinities += isinf(x) != 0;
		if (!isfinite(x))
			continue;
		least = finite == 0 || x < least ? x : least;
		most = finite == 0 || x > most ? x : most;
		sum += x;
		finite++;
	}
	if (finite > 0)
		printf("  least %.6g, most %.6g, mean %.6g", least, most, sum / (double)finite);
	if (infinities)
		printf(", %lld infinite", (long long)infinities);
	if (nans)
		printf(", %lld NaN", (long long)nans);
	if (n > 0 && n <= 8) {
		printf("  =");
		for (int64_t i = 0; i < n; i++)
			printf(" %.6g", cli_tensor_value(t->type, t->data, i));
	}
	putchar('\n');
}

static int make_folder(const char *path, struct problem *p)
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

static void file_name(const char *name, char *to, size_t n)
{
	size_t i = 0;
	for (; name[i] && i + 1 < n; i++) {
		const char c = name[i];
		const bool plain =
			(c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || strchr("._-", c);
		to[i] = plain ? c : '_';
	}
	to[i] = '\0';
}

static int write_output(const char *folder, const tilewright_model *m, int i, const tilewright_tensor *t,
			struct problem *p)
{
	char name[200], other[200], path[4400];
	const char *real = tilewright_get_output_port(m, i)->name;
	file_name(real, name, sizeof(name));
	int twins = 0; /* earlier outputs whose names become the same */
	for (int k = 0; k < i; k++) {
		file_name(tilewright_get_output_port(m, k)->name, other, sizeof(other));
		twins += strcmp(name, other) == 0;
	}
	const bool npy = npy_has_type(t->type);
	const int n = twins ? snprintf(path, sizeof(path), "%s/%s_%d%s", folder, name, twins + 1, npy ? ".npy" : ".pb")
			    : snprintf(path, sizeof(path), "%s/%s%s", folder, name, npy ? ".npy" : ".pb");
	if (n > 4000)
		return problem_set(p, EXIT_INPUT, "%.100s..: the path is too long", folder);
	return npy ? npy_write(path, t, p) : pb_write(path, real, t, p);
}

static int outputs(const struct args *a, const tilewright_model *m, tilewright_context *c, struct problem *p)
{
	if (a->out) {
		const int code = make_folder(a->out, p);
		if (code != EXIT_DONE)
			return code;
	}
	for (int i = 0; i < tilewright_count_outputs(m); i++) {
		tilewright_tensor t;
		const tilewright_status s = tilewright_get_output(c, i, &t);
		if (s != TILEWRIGHT_OK)
			return problem_status(p, s);
		summary(tilewright_get_output_port(m, i)->name, &t);
		const int code = a->out ? write_output(a->out, m, i, &t, p) : EXIT_DONE;
		if (code != EXIT_DONE)
			return code;
	}
	return EXIT_DONE;
}

static int run(const struct args *a, tilewright_model *m, struct problem *p)
{
	const int n = tilewright_count_inputs(m);
	struct tensor *t = calloc((size_t)n + 1, sizeof(*t));
	tilewright_context *c = NULL;
	if (t == NULL)
		return problem_memory(p);
	int code = cli_make_inputs(a, m, a->random, t, p);
	tilewright_status s = TILEWRIGHT_OK;
	if (code == EXIT_DONE && (s = tilewright_create_context(m, a->threads, &c)) != TILEWRIGHT_OK)
		code = problem_status(p, s);
	if (code == EXIT_DONE)
		code = cli_set_inputs(c, n, t, p);
	terminal_watch(c);
	if (code == EXIT_DONE && (s = tilewright_run(c)) != TILEWRIGHT_OK)
		code = problem_status(p, s);
	terminal_watch(NULL);
	if (code == EXIT_DONE)
		code = outputs(a, m, c, p);
	tilewright_free_context(c);
	cli_free_tensors(n, t);
	return code;
}

int cmd_run(const struct args *a)
{
	struct problem p;
	tilewright_model *m;
	int code = cli_open_model(a, a->files[0], &m, &p);
	if (code == EXIT_DONE)
		code = run(a, m, &p);
	tilewright_free_model(m);
	return code == EXIT_DONE ? code : cli_fail(&p);
}
