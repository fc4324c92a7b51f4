/* tilewright run --compare: a table of how a run's tensors differ from files. Input: tensors in the order of the graph,
 * a folder; output: a line for each tensor that has a file there. */
#include "cli.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* The file of tensor i: what the list says, else one of its name; false: there is none. */
static bool find_file(const struct tensor_set *s, int i, const char *folder, const struct tensor_names *names,
		      char *path, size_t n)
{
	static const char *const ends[] = {".npy", ".pb"};
	if (names->there) {
		const char *file = cli_names_find(names, s->at[i].name);
		return file && snprintf(path, n, "%s/%s", folder, file) < (int)n && access(path, F_OK) == 0;
	}
	for (int k = 0; k < COUNT(ends); k++)
		if (snprintf(path, n, "%s/%s%s", folder, s->at[i].file, ends[k]) < (int)n && access(path, F_OK) == 0)
			return true;
	return false;
}

/* Where two right programs part: to be told beside the first tensor that differs. */
static void explain_step(const struct tensor *t, const struct difference *d)
{
	if ((t->type == TILEWRIGHT_U8 || t->type == TILEWRIGHT_I8) && d->largest == 1)
		puts("note: the first to differ is rounded to 8 bits and off by one step. Where a sum lies between two "
		     "steps, its\n"
		     "last bit decides, so that right programs part there; what follows differs by more and more.");
}

static void row(const struct tensor *t, const struct difference *d, bool first)
{
	if (d->largest < 0)
		printf("%10s %10s  ", "-", "-");
	else
		printf("%10.3g %10.3g  ", d->largest, d->magnitude > 0 ? d->largest / d->magnitude : d->largest);
	cli_print_text(stdout, t->name);
	printf("  %s", tilewright_type_name(t->type));
	cli_print_shape(stdout, t->rank, t->dims);
	if (d->reason[0])
		printf("  %s: %s", first ? "DIFFERS FIRST" : "differs", d->reason);
	putchar('\n');
}

static int compare(const struct tensor_set *s, const char *folder, const struct tensor_names *names, struct problem *p)
{
	int found = 0, different = 0;
	const char *first = NULL;
	const struct tensor *first_tensor = NULL;
	struct difference first_difference = {0};
	for (int i = 0; i < s->n; i++) {
		char path[4096];
		struct tensor want = {0};
		if (!find_file(s, i, folder, names, path, sizeof(path)))
			continue;
		const int code = cli_tensor_load(path, &want, p);
		if (code != EXIT_DONE)
			return code;
		if (found++ == 0)
			printf("%10s %10s  %s\n", "difference", "relative", "tensor");
		struct difference d;
		cli_differ(&s->at[i], &want, &d);
		row(&s->at[i], &d, d.reason[0] && different == 0);
		if (d.reason[0] && different++ == 0) {
			first = s->at[i].name;
			first_difference = d;
			first_tensor = &s->at[i];
		}
		cli_tensor_free(&want);
	}
	if (found == 0 && access(folder, R_OK | X_OK) != 0)
		return problem_set(p, EXIT_INPUT, "cannot read %.1000s: %s", folder, strerror(errno));
	if (found == 0)
		return problem_set(p, EXIT_INPUT, "no file in %s is named as one of the %d tensors of this run", folder,
				   s->n);
	printf("%d of %d tensors compared, %d differ\n", found, s->n, different);
	if (first_tensor)
		explain_step(first_tensor, &first_difference);
	if (first)
		return problem_set(p, EXIT_INPUT, "%d tensors differ from those in %.1000s, first of them \"%.1000s\"",
				   different, folder, first);
	return EXIT_DONE;
}

int cli_set_compare(struct tensor_set *s, const char *folder, struct problem *p)
{
	struct tensor_names names;
	int code = cli_names_read(folder, &names, p);
	if (code == EXIT_DONE)
		code = cli_set_name_files(s, p);
	if (code == EXIT_DONE)
		code = compare(s, folder, &names, p);
	cli_names_free(&names);
	return code;
}
