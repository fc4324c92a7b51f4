/* toolchain: finds the C compiler. Output: its command and version, or an error that tells what was tried and how to
 * install one. */
#include "backend/cpu/cpu_int.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const candidates[] = {"cc", "gcc", "clang", "python3 -m ziglang cc"};

/* Asks for --version; fills tc when the command works. why: what went wrong otherwise. */
static bool try_command(const char *words, struct tw_toolchain *tc, char *why, size_t room)
{
	struct command c;
	struct process p;
	command_init(&c);
	command_add(&c, words);
	if (strlen(words) >= sizeof tc->command || !command_fits(&c)) {
		snprintf(why, room, "the command is empty or too long");
		return false;
	}
	command_word(&c, "--version");
	int error;
	const enum tw_code code = process_run(&p, c.argv, NULL, 60, &error);
	if (code != TW_ERR_OK) {
		const char *line = p.n ? p.output : error ? strerror(error) : "it failed without a word";
		snprintf(why, room, "%.*s", (int)strcspn(line, "\n"), line);
		return false;
	}
	snprintf(tc->command, sizeof tc->command, "%s", words);
	snprintf(tc->version, sizeof tc->version, "%.*s", (int)strcspn(p.output, "\n"), p.output);
	tc->is_clang = strstr(tc->version, "clang") || strstr(tc->version, "zig");
	return true;
}

enum tw_code tw_toolchain_find(struct tw_toolchain *tc, struct tw_error *e)
{
	memset(tc, 0, sizeof *tc);
	char why[512];
	const char *chosen = getenv("TILEWRIGHT_CC");
	if (chosen && *chosen) {
		if (try_command(chosen, tc, why, sizeof why))
			return TW_ERR_OK;
		tw_error_set(e, TW_ERR_TOOLCHAIN,
			     "TILEWRIGHT_CC=%.200s does not work: %s\nhint: set it to a C compiler, for example gcc or "
			     "clang, or unset it",
			     chosen, why);
		return TW_ERR_TOOLCHAIN;
	}
	char tried[2048] = "";
	size_t n = 0;
	for (int i = 0; i < TW_COUNT(candidates); i++) {
		if (try_command(candidates[i], tc, why, sizeof why))
			return TW_ERR_OK;
		n += (size_t)snprintf(tried + n, sizeof tried - n, "\n  %s: %.300s", candidates[i], why);
		if (n >= sizeof tried)
			break;
	}
	tw_error_set(e, TW_ERR_TOOLCHAIN,
		     "no C compiler was found; models are compiled by one. Tried:%s\n"
		     "hint: install gcc (Debian, Ubuntu: apt-get install gcc) or clang, or run  pip install ziglang ; "
		     "or set TILEWRIGHT_CC",
		     tried);
	return TW_ERR_TOOLCHAIN;
}
