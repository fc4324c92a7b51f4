/* The terminal: a line of progress, warnings, Ctrl-C. Signals and their handler need state of the process; it is here
 * and nowhere else. */
#include "cli.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t interrupted;
static tilewright_context *volatile watched;
static bool line_shown;

static void on_interrupt(int signal)
{
	if (interrupted++) { /* the second time: at once */
		struct sigaction usual = {.sa_handler = SIG_DFL};
		sigaction(signal, &usual, NULL);
		raise(signal);
	}
	tilewright_context *c = watched;
	if (c)
		tilewright_cancel(c);
}

void terminal_start(void)
{
	struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = SA_RESTART};
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	struct sigaction ignore = {.sa_handler = SIG_IGN};
	sigaction(SIGPIPE, &ignore, NULL); /* a closed pipe is an error of writing, told at the end */
}

void terminal_usual(void)
{
	struct sigaction usual = {.sa_handler = SIG_DFL};
	sigaction(SIGINT, &usual, NULL);
	sigaction(SIGTERM, &usual, NULL);
	if (interrupted)
		raise(SIGINT);
}

void terminal_watch(tilewright_context *context)
{
	watched = context;
	if (interrupted && context)
		tilewright_cancel(context);
}

bool terminal_cancelled(void)
{
	return interrupted != 0;
}

void terminal_clear(void)
{
	if (line_shown)
		fputs("\r\033[K", stderr);
	line_shown = false;
}

int terminal_progress(void *arg, const char *stage, int done, int all)
{
	(void)arg;
	if (isatty(STDERR_FILENO)) {
		fputs("\r\033[K", stderr);
		cli_print_text(stderr, stage);
		if (all > 0)
			fprintf(stderr, " %d/%d", done, all);
		fflush(stderr);
		line_shown = true;
	}
	return interrupted != 0;
}

int terminal_cancel(void *arg)
{
	(void)arg;
	return interrupted != 0;
}

void terminal_log(void *arg, tilewright_log_level level, const char *text)
{
	(void)arg;
	if (level > TILEWRIGHT_LOG_WARNING)
		return;
	terminal_clear();
	fputs(level == TILEWRIGHT_LOG_WARNING ? "tilewright: warning: " : "tilewright: ", stderr);
	cli_print_text(stderr, text);
	fputc('\n', stderr);
}
