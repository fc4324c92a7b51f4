/* command: command lines as vectors of words. A word is never split again and never seen by a shell. */
#include "backend/cpu/cpu_int.h"

void command_init(struct command *c)
{
	c->n = 0;
	c->used = 0;
	c->argv[0] = NULL;
}

static void add(struct command *c, const char *word, size_t n)
{
	if (n == 0)
		return;
	if (c->n + 1 >= PROCESS_ARGS || c->used + n + 1 > sizeof c->text) {
		c->used = sizeof c->text + 1; /* command_fits tells */
		return;
	}
	char *at = c->text + c->used;
	memcpy(at, word, n);
	at[n] = 0;
	c->used += n + 1;
	c->argv[c->n++] = at;
	c->argv[c->n] = NULL;
}

void command_word(struct command *c, const char *word)
{
	add(c, word, strlen(word));
}

void command_add(struct command *c, const char *words)
{
	for (const char *s = words; *s;) {
		const size_t n = strcspn(s, " ");
		add(c, s, n);
		s += n + (s[n] == ' ');
	}
}

bool command_fits(const struct command *c)
{
	return c->used <= sizeof c->text && c->n > 0;
}
