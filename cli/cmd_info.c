/* tilewright info and tilewright check: texts of the library. */
#include "cli.h"

int cmd_info(const struct args *a)
{
	char *text = a->space ? tilewright_describe_space(a->space) : tilewright_describe_machine();
	if (text == NULL) {
		fprintf(stderr, "tilewright: %s\n", tilewright_last_error());
		return a->space ? EXIT_USAGE : EXIT_FAULT;
	}
	if (!a->space)
		printf("version: %s\n", tilewright_version());
	fputs(text, stdout);
	tilewright_free_text(text);
	return EXIT_DONE;
}

int cmd_check(const struct args *a)
{
	char *table;
	struct problem p;
	tilewright_options *o;
	const int wrong = cli_make_options(a, true, &o, &p);
	if (wrong)
		return cli_fail(&p), wrong;
	const tilewright_status s = tilewright_check_file(a->files[0], o, &table);
	tilewright_free_options(o);
	if (table)
		cli_print_text(stdout, table);
	else if (s != TILEWRIGHT_OK)
		problem_status(&p, s), cli_fail(&p);
	tilewright_free_text(table);
	return tilewright_status_exit(s);
}
