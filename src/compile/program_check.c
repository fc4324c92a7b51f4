/* program_check: what is known to be wrong with the programs of a text, and what is not proved of them, as text for a
 * person: file, line and column, the reason, the line with a mark under it, a hint. */
#include "compile/program_int.h"

#include <stdlib.h>

struct check {
	const struct tw_program *p;
	struct tw_arena *arena;
	bool unproved; /* list these too */
	int errors, open;
	struct tw_buf wrong, list;
};

static void put_line(struct tw_buf *b, const char *text, int line, int column)
{
	const char *at = text;
	for (int n = 1; n < line && at; n++) {
		at = strchr(at, '\n');
		at = at ? at + 1 : NULL;
	}
	if (!at)
		return;
	const int shift = column > 61 ? column - 61 : 0;
	const int n = (int)strcspn(at, "\n");
	const int shown = n > shift ? (n - shift < 100 ? n - shift : 100) : 0;
	buf_puts(b, "  ");
	for (int i = 0; i < shown; i++)
		buf_putc(b, (unsigned char)at[shift + i] < 32 ? ' ' : at[shift + i]);
	buf_printf(b, "\n  %*s^\n", column - 1 - shift, "");
}

static void put(struct check *c, const struct twir_program *program, const struct twir_diagnostic *x)
{
	struct tw_buf *b = x->severity == TWIR_ERROR ? &c->wrong : &c->list;
	buf_puts(b, b->n ? "\n" : "");
	if (x->line)
		buf_printf(b, "%s:%d:%d: ", c->p->name, x->line, x->column);
	else
		buf_printf(b, "%s: program '%s': ", c->p->name, program->name);
	buf_printf(b, "%s%s\n", x->severity == TWIR_UNPROVED ? "not proved: " : "", x->text);
	if (x->line)
		put_line(b, c->p->text, x->line, x->column);
	if (x->hint)
		buf_printf(b, "hint: %s\n", x->hint);
}

static void check_all(void *arg)
{
	struct check *c = arg;
	struct twir_module *m = c->p->m;
	buf_init(&c->wrong, c->arena);
	buf_init(&c->list, c->arena);
	for (int i = 0; i < m->programs.n; i++) {
		const struct twir_diagnostics d = twir_diagnose_program(m, m->programs.at[i], c->arena);
		c->errors += d.count[TWIR_ERROR];
		c->open += d.count[TWIR_UNPROVED];
		for (int k = 0; k < d.n; k++)
			if (d.at[k].severity == TWIR_ERROR || c->unproved)
				put(c, m->programs.at[i], &d.at[k]);
	}
	if (c->open && !c->unproved)
		buf_printf(&c->list, "%d place%s not proved right (--unproved lists %s)\n", c->open,
			   c->open == 1 ? " is" : "s are", c->open == 1 ? "it" : "them");
}

enum tw_code tw_program_check(const struct tw_program *p, bool unproved, char **text, struct tw_error *e)
{
	struct check c = {.p = p, .arena = arena_new(), .unproved = unproved};
	enum tw_code code = TW_ERR_OK;
	*text = NULL;
	if (!tw_try(e, check_all, &c)) {
		code = e->code;
	} else if (c.errors) {
		while (c.wrong.n && c.wrong.at[c.wrong.n - 1] == '\n') /* an error's text has no end of line */
			c.wrong.at[--c.wrong.n] = 0;
		tw_error_set(e, code = TW_ERR_MODEL, "%s", c.wrong.at);
	} else {
		*text = strdup(c.list.at);
		if (!*text)
			tw_error_set(e, code = TW_ERR_MEMORY, "out of memory");
	}
	arena_free(c.arena);
	return code;
}
