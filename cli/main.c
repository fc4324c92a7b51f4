/* tilewright: the command line's entry: finds the command, parses its arguments, runs it. */
#include "cli.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int problem_set(struct problem *p, int exit, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	vsnprintf(p->text, sizeof(p->text), fmt, args);
	va_end(args);
	p->exit = exit;
	return exit;
}

int problem_status(struct problem *p, tilewright_status status)
{
	return problem_set(p, tilewright_status_exit(status), "%s", tilewright_last_error());
}

int problem_memory(struct problem *p)
{
	return problem_set(p, EXIT_FAULT, "out of memory");
}

double cli_now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static int usage(const char *fmt, const char *what)
{
	fprintf(stderr, "tilewright: ");
	fprintf(stderr, fmt, what);
	fprintf(stderr, "\nTry 'tilewright --help'.\n");
	return EXIT_USAGE;
}

static int man(int argc, char **argv) /* makes the pages in man/; not in the help */
{
	const struct command *c = argc > 2 ? cli_find_command(argv[2]) : NULL;
	if (argc > 2 && c == NULL)
		return usage("there is no command '%s'", argv[2]);
	cli_print_man(stdout, c);
	return EXIT_DONE;
}

static int finish(int code)
{
	if (fflush(stdout) != 0 || ferror(stdout)) {
		fprintf(stderr, "tilewright: cannot write the output\n");
		return code ? code : EXIT_INPUT;
	}
	return code;
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		cli_print_help(stderr);
		return EXIT_USAGE;
	}
	const char *name = argv[1];
	if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || (strcmp(name, "help") == 0 && argc == 2)) {
		cli_print_help(stdout);
		return finish(EXIT_DONE);
	}
	if (strcmp(name, "--version") == 0) {
		printf("tilewright %s\n", tilewright_version());
		return finish(EXIT_DONE);
	}
	if (strcmp(name, "man") == 0)
		return finish(man(argc, argv));
	const bool asks = strcmp(name, "help") == 0;
	const struct command *c = cli_find_command(asks ? argv[2] : name);
	if (c == NULL)
		return usage(name[0] == '-' ? "unknown option '%s'" : "there is no command '%s'",
			     asks ? argv[2] : name);
	struct args a;
	struct problem p;
	bool help = asks;
	int code = asks ? EXIT_DONE : cli_parse_args(c, argc - 1, argv + 1, &a, &help, &p);
	if (help) {
		cli_print_command_help(stdout, c);
		if (!asks)
			cli_free_args(&a);
		return finish(EXIT_DONE);
	}
	if (code == EXIT_DONE) {
		terminal_start();
		code = c->run(&a);
	} else {
		fprintf(stderr, "tilewright %s: ", c->name);
		cli_print_text(stderr, p.text);
		fprintf(stderr, "\nTry 'tilewright %s --help'.\n", c->name);
	}
	cli_free_args(&a);
	return finish(code);
}
