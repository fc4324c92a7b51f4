/* file: a program as a text that stands alone: a comment that says how it is called, the prelude, the kernel. Input: a
 * lowered program; output: one file. */
#include "cgen/cgen_int.h"

static void call_comment(struct tw_buf *out, struct twir_module *m, const struct twir_program *p)
{
	buf_printf(out, "/* program %s, to be called for each", p->name);
	if (p->nlevels)
		buf_printf(out, " core from 0 below %s", twir_print_expr(m->arena, p->extents[0]));
	else
		buf_puts(out, " core from 0 below 1");
	buf_puts(out, " with\n");
	for (int i = 0; i < p->nparams; i++) {
		const struct twir_tensor *t = p->params[i];
		buf_printf(out, " *   buf[%d]  %s%s: %s[", i, t->scope == TWIR_OUT ? "out " : "", t->base,
			   twir_scalar_name(t->type));
		for (int d = 0; d < t->rank; d++)
			buf_printf(out, "%s%s", d ? ", " : "", twir_print_expr(m->arena, t->shape[d]));
		buf_puts(out, "]\n");
	}
	for (int i = 0; i < p->nsymbols; i++)
		buf_printf(out, " *   sym[%d]  %s\n", i, p->symbols[i]->name);
	const struct twir_expr *scratch = cgen_scratch(m, p);
	int64_t none;
	if (!twir_const_int(scratch, &none) || none > 0)
		buf_printf(out, " *   scratch of %s bytes, aligned to 64\n", twir_print_expr(m->arena, scratch));
	buf_puts(out, " */\n");
}

void cgen_file(struct tw_buf *out, const struct tw_target *t, struct twir_module *m, struct twir_program *p)
{
	const struct tw_dialect *d = tw_dialect_for(t->isa);
	call_comment(out, m, p);
	cgen_prelude(out, d, m, 1, &p);
	buf_putc(out, '\n');
	cgen_kernel(out, d, m, p, p->name);
}
