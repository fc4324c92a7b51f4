/* tilewright run --compare: a table of how a run's tensors differ from files. Input: tensors in the order of the graph,
 * a folder; output: a line for each tensor that has a file. */
#include "cli.h"

#include <string.h>
#include <unistd.h>

/* The file of tensor i; false: there is none. */
static bool find_file(const struct tensor_set *s, int i, const char *folder, char *path, size_t n)
{
	struct problem p;
	static const char *const ends[] = {".npy", ".pb"};
	for (int k = 0; k < COUNT(ends); k++) {
		if (cli_set_path(s, i, folder, path, n, &p) != EXIT_DONE)
			return false;
		strcat(path, ends[k]);
		if (access(path, F_OK) == 0)
			return true;
	}
	return false;
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

int cli_set_compare(const struct tensor_set *s, const char *folder, struct problem *p)
{
	int found = 0, different = 0;
	const char *first = NULL;
	for (int i = 0; i < s->n; i++) {
		char path[4096];
		struct tensor want = {0};
		if (!find_file(s, i, folder, path, sizeof(path)))
			continue;
		const int code = cli_tensor_load(path, &want, p);
		if (code != EXIT_DONE)
			return code;
		if (found++ == 0)
			printf("%10s %10s  %s\n", "difference", "relative", "tensor");
		struct difference d;
		cli_differ(&s->at[i], &want, &d);
		row(&s->at[i], &d, d.reason[0] && different == 0);
		if (d.reason[0] && different++ == 0)
			first = s->at[i].name;
		cli_tensor_free(&want);
	}
	if (found == 0)
		return problem_set(p, EXIT_INPUT, "no file in %s is named as one of the %d tensors of this run", folder,
				   s->n);
	printf("%d of %d tensors compared, %d differ\n", found, s->n, different);
	if (first)
		return problem_set(p, EXIT_INPUT, "%d tensors differ from those in %.1000s, first of them \"%.1000s\"",
				   different, folder, first);
	return EXIT_DONE;
}
