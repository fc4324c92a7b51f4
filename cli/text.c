/* Text that came from a model or a file, made safe for a terminal: control characters and bytes that are no UTF-8
 * become \xNN. */
#include "cli.h"

/* Length of the well-formed UTF-8 sequence at `at`, 0: none. */
static int sequence(const unsigned char *at)
{
	if (at[0] < 0x80)
		return 1;
	const int n = at[0] >= 0xf0 && at[0] <= 0xf4  ? 4
		      : at[0] >= 0xe0 && at[0] < 0xf0 ? 3
		      : at[0] >= 0xc2 && at[0] < 0xe0 ? 2
						      : 0;
	for (int i = 1; i < n; i++)
		if ((at[i] & 0xc0) != 0x80)
			return 0;
	const bool overlong = (at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xf0 && at[1] < 0x90);
	const bool outside = (at[0] == 0xed && at[1] > 0x9f) || (at[0] == 0xf4 && at[1] > 0x8f);
	return overlong || outside ? 0 : n;
}

void cli_print_text(FILE *to, const char *text)
{
	for (const unsigned char *at = (const unsigned char *)text; *at;) {
		const int n = sequence(at);
		/* C1 control characters are two bytes, 0xc2 0x80 to 0xc2 0x9f */
		const bool control = (n == 1 && (*at < 0x20 || *at == 0x7f) && *at != '\n' && *at != '\t') ||
				     (n == 2 && at[0] == 0xc2 && at[1] < 0xa0);
		if (n == 0 || control)
			fprintf(to, "\\x%02x", *at++);
		for (int i = 0; i < n && !control; i++)
			putc(*at++, to);
	}
}

int cli_fail(const struct problem *p)
{
	fputs("tilewright: ", stderr);
	cli_print_text(stderr, p->text);
	fputc('\n', stderr);
	return p->exit;
}
