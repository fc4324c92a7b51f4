/* tilewright program: a file of the language: check it, show it at any stage, print it in another language. Runs are in
 * program_run.c. */
#include "cli.h"

#include <string.h>

static int print(tilewright_status s, char **text, struct problem *p)
{
	if (s != TILEWRIGHT_OK)
		return problem_status(p, s);
	fputs(*text, stdout);
	tilewright_free_text(*text);
	return EXIT_DONE;
}

/* The target by the language, where none was named. */
static const char *emit_target(const struct args *a)
{
	if (a->target)
		return a->target;
	return strcmp(a->emit, "cuda") == 0 ? "sm_90" : strcmp(a->emit, "opencl") == 0 ? "opencl" : "host";
}

static bool fits(const char *language, const char *target)
{
	const bool cuda = strncmp(target, "sm_", 3) == 0, opencl = strcmp(target, "opencl") == 0;
	return strcmp(language, "cuda") == 0 ? cuda : strcmp(language, "opencl") == 0 ? opencl : !cuda && !opencl;
}

static int texts(const struct args *a, const tilewright_program *program, struct problem *p)
{
	tilewright_options *o;
	char *text = NULL;
	int code = cli_make_options(a, true, &o, p);
	if (code == EXIT_DONE && a->stage)
		code = print(tilewright_show_program(program, a->stage, a->target, o, &text), &text, p);
	if (code == EXIT_DONE && a->emit && !fits(a->emit, emit_target(a)))
		code = problem_set(p, EXIT_USAGE, "--emit %s is not for target %s", a->emit, a->target);
	else if (code == EXIT_DONE && a->emit)
		code = print(tilewright_emit_program(program, emit_target(a), o, &text), &text, p);
	tilewright_free_options(o);
	return code;
}

int cmd_program(const struct args *a)
{
	struct problem p;
	tilewright_program *program;
	const tilewright_status s = tilewright_open_program_file(a->files[0], a->name, &program);
	int code = s == TILEWRIGHT_OK ? EXIT_DONE : problem_status(&p, s);
	const bool alone = !a->stage && !a->emit && !a->engine && !a->time && !a->out && !a->ninputs;
	char *text = NULL;
	if (code == EXIT_DONE && (alone || a->unproved))
		code = print(tilewright_check_program(program, a->unproved, &text), &text, &p);
	if (code == EXIT_DONE && (a->stage || a->emit))
		code = texts(a, program, &p);
	if (code == EXIT_DONE && a->engine)
		code = cli_run_program(a, program, &p);
	else if (code == EXIT_DONE && (a->time || a->out || a->ninputs))
		code = problem_set(&p, EXIT_USAGE, "nothing is run: say --run interp, compiled or opencl");
	tilewright_free_program(program);
	return code == EXIT_DONE ? code : cli_fail(&p);
}
