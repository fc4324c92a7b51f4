/* Help texts and manual pages, both from the table of commands. */
#include "cli.h"

#include <ctype.h>
#include <string.h>

static const char about[] = "Tilewright compiles ONNX models to fast CPU programs and runs them.";
static const char exits[] = "0 done; 1 the model or an input is at fault, or a test failed; 2 wrong usage; 3 a fault "
			    "of the program or the machine.";

/* Words of text in lines of at most 80 columns, each line behind `indent` spaces; the first stands at column `at`
   already. */
static void wrap(FILE *to, const char *text, int indent, int at)
{
	for (bool first = true; *text; first = false) {
		while (*text == ' ')
			text++;
		const int n = (int)strcspn(text, " ");
		if (n == 0)
			break;
		if (!first && at + 1 + n > 80) {
			fprintf(to, "\n%*s", indent, "");
			at = indent;
			first = true;
		}
		fprintf(to, "%s%.*s", first ? "" : " ", n, text);
		at += n + !first;
		text += n;
	}
	fputc('\n', to);
}

static void row(FILE *to, const char *left, const char *right)
{
	enum { COLUMN = 22 };
	int at = fprintf(to, "  %s", left);
	if (at > COLUMN - 2) {
		fputc('\n', to);
		at = 0;
	}
	fprintf(to, "%*s", COLUMN - at, "");
	wrap(to, right, COLUMN, COLUMN);
}

void cli_print_help(FILE *to)
{
	fprintf(to, "%s\n\nusage: tilewright COMMAND ...\n\n", about);
	for (const struct command *c = commands; c->name; c++)
		row(to, c->name, c->summary);
	fprintf(to, "\n");
	row(to, "COMMAND --help", "about a command");
	row(to, "--version", "the version");
	fprintf(to, "\nenvironment:\n");
	for (int i = 0; environment_help[i][0]; i++)
		row(to, environment_help[i][0], environment_help[i][1]);
	fprintf(to, "\n");
	wrap(to,
	     "exit codes: 0 done; 1 the model or an input is at fault, or a test failed; 2 wrong usage; 3 a fault of "
	     "the program or the machine.",
	     12, 0);
}

void cli_print_command_help(FILE *to, const struct command *c)
{
	fprintf(to, "usage: tilewright %s%s%s\n\n", c->name, c->synopsis[0] ? " " : "", c->synopsis);
	wrap(to, c->text, 0, 0);
	if (c->options->name)
		fputc('\n', to);
	for (const struct command_option *o = c->options; o->name; o++) {
		char left[64];
		snprintf(left, sizeof(left), "%s%s%s", o->name, o->value ? " " : "", o->value ? o->value : "");
		row(to, left, o->help);
	}
}

static void roff(FILE *to, const char *text)
{
	if (*text == '.' || *text == '\'')
		fputs("\\&", to);
	for (; *text; text++) {
		if (*text == '-')
			fputs("\\-", to);
		else if (*text == '\\')
			fputs("\\e", to);
		else
			fputc(*text, to);
	}
}

static void section(FILE *to, const char *name, const char *text)
{
	fprintf(to, ".SH %s\n", name);
	if (text) {
		roff(to, text);
		fputc('\n', to);
	}
}

static void item(FILE *to, const char *left, const char *value, const char *right)
{
	fputs(".TP\n.B ", to);
	roff(to, left);
	if (value) {
		fputs(" \\fI", to);
		roff(to, value);
		fputs("\\fR", to);
	}
	fputc('\n', to);
	roff(to, right);
	fputc('\n', to);
}

void cli_print_man(FILE *to, const struct command *c)
{
	char title[64], name[64];
	snprintf(name, sizeof(name), "tilewright%s%s", c ? "-" : "", c ? c->name : "");
	for (int i = 0; i == 0 || name[i - 1]; i++)
		title[i] = (char)toupper((unsigned char)name[i]);
	fprintf(to, ".TH %s 1 \"\" \"Tilewright %s\" \"Tilewright\"\n", title, tilewright_version());
	fputs(".SH NAME\n", to);
	roff(to, name);
	fputs(" \\- ", to);
	roff(to, c ? c->summary : "compile and run ONNX models");
	fputs("\n.SH SYNOPSIS\n.B tilewright", to);
	if (c)
		fprintf(to, " %s", c->name);
	fputc('\n', to);
	roff(to, c ? c->synopsis : "COMMAND ...");
	fputc('\n', to);
	section(to, "DESCRIPTION", c ? c->text : about);
	if (c == NULL) {
		section(to, "COMMANDS", NULL);
		for (const struct command *each = commands; each->name; each++)
			item(to, each->name, NULL, each->summary);
	} else if (c->options->name) {
		section(to, "OPTIONS", NULL);
		for (const struct command_option *o = c->options; o->name; o++)
			item(to, o->name, o->value, o->help);
	}
	section(to, "ENVIRONMENT", NULL);
	for (int i = 0; environment_help[i][0]; i++)
		item(to, environment_help[i][0], NULL, environment_help[i][1]);
	section(to, "EXIT STATUS", exits);
	fputs(".SH SEE ALSO\n", to);
	const char *comma = "";
	for (const struct command *each = commands; each->name; each++)
		if (each != c) {
			fprintf(to, "%s.BR tilewright\\-%s (1)", comma, each->name);
			comma = ",\n";
		}
	if (c)
		fprintf(to, "%s.BR tilewright (1)", comma);
	fputc('\n', to);
}
