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

static void launch_comment(struct tw_buf *out, const struct tw_dialect *d, struct twir_module *m,
			   const struct twir_program *p)
{
	buf_printf(out, "/* program %s, launched on %s blocks of", p->name, twir_print_expr(m->arena, p->extents[0]));
	for (int i = 1; i < p->nlevels; i++)
		buf_printf(out, "%s %s %s%s", i > 1 ? " of" : "", twir_print_expr(m->arena, p->extents[i]),
			   twir_level_name(p->levels[i]), i + 1 < p->nlevels ? "s" : "s each");
	if (p->nlevels == 1)
		buf_puts(out, " 1 thread each");
	const int64_t pool = cgen_pool_bytes(m, p);
	if (d->words->pool && pool > CGEN_STATIC_SHARED)
		buf_printf(out, ", with %lld bytes of dynamic shared memory", (long long)pool);
	buf_puts(out, " */\n");
}

void cgen_file(struct tw_buf *out, const struct tw_target *t, struct twir_module *m, int n,
	       struct twir_program *const *programs)
{
	const struct tw_dialect *d = tw_dialect_of(t);
	struct cgen_uses u;
	struct tw_buf kernels;
	buf_init(&kernels, m->arena);
	cgen_uses_init(&u, m->arena, d);
	for (int i = 0; i < n; i++) {
		buf_putc(&kernels, '\n');
		if (t->device == TW_DEVICE_CPU)
			call_comment(&kernels, m, programs[i]);
		else
			launch_comment(&kernels, d, m, programs[i]);
		cgen_kernel_into(&u, &kernels, m, programs[i], cgen_function_name(m->arena, programs[i]->name), true);
	}
	cgen_prelude(out, &u);
	buf_bytes(out, kernels.at, kernels.n);
}
