/* report: a fault of a text as a person reads it. Input: a diagnostic and the text it speaks of; output: name, line and
 * column, the reason, the line with a mark under the place, a hint. */
#include "ir/ir_int.h"

void twir_put_line(struct tw_buf *b, const char *text, int line, int column)
{
	const char *at = text;
	for (int n = 1; n < line && at; n++) {
		at = strchr(at, '\n');
		at = at ? at + 1 : NULL;
	}
	if (!at)
		return;
	const int shift = column > 61 ? column - 61 : 0; /* at most 100 characters around the place */
	const int n = (int)strcspn(at, "\n");
	const int shown = n > shift ? (n - shift < 100 ? n - shift : 100) : 0;
	buf_puts(b, "  ");
	for (int i = 0; i < shown; i++) {
		const char c = at[shift + i];
		buf_putc(b, (unsigned char)c < 32 || c == 127 ? ' ' : c);
	}
	buf_printf(b, "\n  %*s^\n", column - 1 - shift, "");
}

void twir_put_diagnostic(struct tw_buf *b, const char *name, const char *text, const char *program,
			 const struct twir_diagnostic *x)
{
	if (x->line)
		buf_printf(b, "%s:%d:%d: ", name, x->line, x->column);
	else
		buf_printf(b, "%s: %s: ", name, program);
	buf_printf(b, "%s%s\n", x->severity == TWIR_UNPROVED ? "not proved: " : "", x->text);
	if (x->line)
		twir_put_line(b, text, x->line, x->column);
	if (x->hint)
		buf_printf(b, "hint: %s\n", x->hint);
}

void twir_in_text(struct twir_module *m, const char *name, const char *text, void (*fn)(void *arg), void *arg)
{
	struct twir_diagnostic fault = {0}, *const outer = m->fault;
	struct tw_error e;
	m->fault = &fault;
	const bool good = tw_try(&e, fn, arg);
	m->fault = outer;
	if (good)
		return;
	if (!fault.text) /* no fault of the text: memory, a size, or ours */
		tw_raise_error(&e);
	struct tw_buf b;
	buf_init(&b, m->arena);
	twir_put_diagnostic(&b, name, text, fault.within ? fault.within : "program", &fault);
	b.at[--b.n] = 0; /* an error's text has no end of line */
	tw_raise(e.code, "%s", b.at);
}

static void verify(void *arg)
{
	struct twir_module *m = arg;
	for (int i = 0; i < m->funcs.n; i++)
		if (!m->funcs.at[i]->library)
			twir_verify_func(m, m->funcs.at[i], TW_ERR_MODEL);
	for (int i = 0; i < m->computes.n; i++)
		twir_verify_compute(m, m->computes.at[i], TW_ERR_MODEL);
	for (int i = 0; i < m->programs.n; i++)
		twir_verify_program(m, m->programs.at[i], TW_ERR_MODEL);
	for (int i = 0; i < m->launches.n; i++)
		twir_verify_launch(m, m->launches.at[i], TW_ERR_MODEL);
}

void twir_verify_text(struct twir_module *m, const char *name, const char *text)
{
	twir_in_text(m, name, text, verify, m);
}
