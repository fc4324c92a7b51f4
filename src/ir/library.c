/* Funcs and programs of a module by name; the library of math functions (math.tw, built in as text) is parsed on first
 * use. */
#include "ir/ir_int.h"

static const char math_text[] =
#include "math_tw.inc"
	;

struct twir_func *twir_func_find(struct twir_module *m, const char *name)
{
	struct twir_func *f = TWIR_LOOK(m, func_of, name);
	if (f || m->math_loaded)
		return f;
	m->math_loaded = true; /* before parsing: the library looks funcs up itself */
	const int before = m->funcs.n;
	twir_parse(m, "math.tw", math_text);
	for (int i = before; i < m->funcs.n; i++)
		m->funcs.at[i]->library = true;
	return TWIR_LOOK(m, func_of, name);
}

struct twir_program *twir_program_find(struct twir_module *m, const char *name)
{
	for (int i = 0; i < m->programs.n; i++)
		if (strcmp(m->programs.at[i]->name, name) == 0)
			return m->programs.at[i];
	return NULL;
}

const struct twir_expr *twir_math(struct twir_module *m, const char *name, int n, const struct twir_expr *const *args)
{
	TW_CHECK(n > 0);
	const char *full =
		arena_printf(m->arena, "%s_%s", name, twir_scalar_name((enum twir_scalar)args[0]->type.scalar));
	struct twir_func *f = twir_func_find(m, full);
	if (!f)
		tw_raise(TW_ERR_INTERNAL, "the math library has no func %s", full);
	return twir_call(m, f, n, args);
}
