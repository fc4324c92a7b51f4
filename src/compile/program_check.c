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

static void put(struct check *c, const struct twir_program *program, const struct twir_diagnostic *x)
{
	struct tw_buf *b = x->severity == TWIR_ERROR ? &c->wrong : &c->list;
	buf_puts(b, b->n ? "\n" : "");
	twir_put_diagnostic(b, c->p->name, c->p->text, arena_printf(c->arena, "program '%s'", program->name), x);
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
