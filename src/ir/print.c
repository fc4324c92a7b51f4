/* The text of statements, programs, funcs, definitions and modules (.tw). Parsing it gives the same objects again,
 * printing those the same bytes. Names are scoped by blocks, as in the language: the same word may serve in blocks
 * beside each other. */
#include "ir/ir_int.h"

#include <inttypes.h>

static void indent(struct twir_printer *p, int depth)
{
	for (int i = 0; i < depth; i++)
		buf_puts(&p->b, "  ");
}

const char *twir_layout_word(enum twir_layout_kind kind)
{
	static const char *const words[] = {[TWIR_LAYOUT_ROW] = "row",
					    [TWIR_LAYOUT_STRIDES] = "strides",
					    [TWIR_LAYOUT_COLUMN] = "column",
					    [TWIR_LAYOUT_LOCAL] = "local"};
	return words[kind];
}

static void put_layout(struct twir_printer *p, const struct twir_layout *l)
{
	if (!l)
		return;
	buf_puts(&p->b, " layout ");
	for (; l; l = l->inner) {
		buf_printf(&p->b, "%s(", twir_layout_word(l->kind));
		twir_print_list(p, l->rank, l->extent);
		buf_putc(&p->b, ')');
		if (l->swizzle.on) {
			buf_printf(&p->b, " swizzle(%d, %d", l->swizzle.dim, l->swizzle.by);
			buf_puts(&p->b, l->swizzle.shift ? arena_printf(p->b.arena, ", %d)", l->swizzle.shift) : ")");
		}
		buf_puts(&p->b, l->inner ? " * " : "");
	}
}

static void put_tensor(struct twir_printer *p, const struct twir_tensor *t)
{
	/* The shape first: the tensor's name is not yet in scope there, and sizes may need names too. */
	buf_printf(&p->b, "%s: %s", twir_print_tensor(p, t), twir_scalar_name(t->type));
	if (t->lanes > 1)
		buf_printf(&p->b, "x%d", t->lanes);
	buf_putc(&p->b, '[');
	twir_print_list(p, t->rank, t->shape);
	buf_putc(&p->b, ']');
	if (t->mirrors) {
		buf_puts(&p->b, " mirrors ");
		twir_put_map(p, t->mirrors);
	}
	put_layout(p, t->layout);
	if (t->alias)
		buf_printf(&p->b, " alias %s", twir_print_tensor(p, t->alias));
}

static void put_block(struct twir_printer *p, const struct twir_stmt *list, int depth);

static void put_body(struct twir_printer *p, const struct twir_stmt *list, int depth)
{
	buf_puts(&p->b, " {\n");
	put_block(p, list, depth + 1);
	indent(p, depth);
	buf_putc(&p->b, '}');
}

static void put_store(struct twir_printer *p, const struct twir_stmt *s)
{
	const struct twir_tensor *t = s->u.store.tensor;
	const struct twir_expr *value = s->u.store.value;
	const bool scatter = s->u.store.n == 1 && s->u.store.index[0]->type.lanes > 1;
	const bool wide = !scatter && value->type.lanes != t->lanes;
	buf_printf(&p->b, "%s%s", s->u.store.async ? "copy async " : "", twir_print_tensor(p, t));
	if (s->u.store.n > 0) {
		buf_putc(&p->b, '[');
		twir_print_list(p, s->u.store.n, s->u.store.index);
		if (wide)
			buf_printf(&p->b, " +: %d", value->type.lanes);
		if (s->u.store.mask) {
			buf_puts(&p->b, " where ");
			twir_put_expr(p, s->u.store.mask);
		}
		buf_putc(&p->b, ']');
	}
	buf_puts(&p->b, " = ");
	twir_put_expr(p, (wide || scatter) && value->kind == TWIR_Splat ? value->arg[0] : value);
	buf_puts(&p->b, ";\n");
}

static void put_part(struct twir_printer *p, const struct twir_tensor *t, int n, const struct twir_expr *const *index)
{
	buf_puts(&p->b, twir_print_tensor(p, t));
	if (n == 0)
		return;
	buf_putc(&p->b, '[');
	twir_print_list(p, n, index);
	buf_putc(&p->b, ']');
}

static void put_mma(struct twir_printer *p, const struct twir_stmt *s)
{
	buf_printf(&p->b, "mma %s ", s->u.mma.shape->name);
	for (int k = 0; k < 3; k++) {
		const struct twir_fragment *f = &s->u.mma.part[k];
		buf_puts(&p->b, k ? ", " : "");
		put_part(p, f->tensor, f->n, f->index);
	}
	buf_puts(&p->b, ";\n");
}

static void put_invoke(struct twir_printer *p, const struct twir_stmt *s)
{
	buf_printf(&p->b, "call %s(", s->u.invoke.program->name);
	for (int k = 0; k < s->u.invoke.n; k++) {
		const struct twir_argument *a = &s->u.invoke.args[k];
		buf_puts(&p->b, k ? ", " : "");
		put_part(p, a->tensor, a->n, a->index);
	}
	buf_putc(&p->b, ')');
	for (int k = 0; k < s->u.invoke.nsymbols; k++) {
		buf_printf(&p->b, "%s%s = ", k ? ", " : " with (", twir_print_var(p, s->u.invoke.symbols[k]));
		twir_put_expr(p, s->u.invoke.values[k]);
	}
	buf_puts(&p->b, s->u.invoke.nsymbols ? ");\n" : ";\n");
}

static void put_levels(struct twir_printer *p, int n, const enum twir_level *levels)
{
	if (n == 0)
		return;
	buf_puts(&p->b, n > 1 ? " on (" : " on ");
	for (int i = 0; i < n; i++)
		buf_printf(&p->b, "%s%s", i ? ", " : "", twir_level_name(levels[i]));
	if (n > 1)
		buf_putc(&p->b, ')');
}

static void put_formap(struct twir_printer *p, const struct twir_stmt *s, int depth)
{
	/* the variables are in scope in the body only, but their names come first in the text */
	const int mark = p->scope.n;
	buf_puts(&p->b, "for (");
	for (int i = 0; i < s->u.formap.n; i++)
		buf_printf(&p->b, "%s%s", i ? ", " : "", twir_print_var(p, s->u.formap.vars[i]));
	buf_puts(&p->b, ") in ");
	twir_put_map(p, s->u.formap.map);
	put_levels(p, s->u.formap.nlevels, s->u.formap.levels);
	if (s->u.formap.bounds) {
		buf_puts(&p->b, " within (");
		twir_print_list(p, s->u.formap.n, s->u.formap.bounds);
		buf_putc(&p->b, ')');
	}
	put_body(p, s->u.formap.body, depth);
	buf_putc(&p->b, '\n');
	twir_print_leave(p, mark);
}

static void put_if(struct twir_printer *p, const struct twir_stmt *s, int depth)
{
	buf_puts(&p->b, "if ");
	twir_put_expr(p, s->u.branch.cond);
	put_body(p, s->u.branch.body, depth);
	if (s->u.branch.other) {
		buf_puts(&p->b, " else");
		put_body(p, s->u.branch.other, depth);
	}
	buf_putc(&p->b, '\n');
}

static void put_stmt(struct twir_printer *p, const struct twir_stmt *s, int depth)
{
	indent(p, depth);
	switch (s->kind) {
	case TWIR_LET:
		buf_printf(&p->b, "let %s = ", twir_print_var(p, s->u.let.var));
		twir_put_expr(p, s->u.let.value);
		buf_puts(&p->b, ";\n");
		break;
	case TWIR_DECLARE:
		buf_puts(&p->b, s->u.declare.tensor->scope == TWIR_SHARED   ? "shared "
				: s->u.declare.tensor->scope == TWIR_BUFFER ? "buffer "
									    : "register ");
		put_tensor(p, s->u.declare.tensor);
		buf_puts(&p->b, ";\n");
		break;
	case TWIR_STORE:
		put_store(p, s);
		break;
	case TWIR_FOR: {
		const int mark = p->scope.n;
		buf_printf(&p->b, "for %s in repeat(", twir_print_var(p, s->u.loop.var));
		twir_put_expr(p, s->u.loop.extent);
		if (s->u.loop.unroll_by)
			buf_printf(&p->b, ", unroll %d)", s->u.loop.unroll_by);
		else
			buf_puts(&p->b, s->u.loop.unroll ? ", unroll)" : ")");
		put_body(p, s->u.loop.body, depth);
		buf_putc(&p->b, '\n');
		twir_print_leave(p, mark);
		break;
	}
	case TWIR_FORMAP:
		put_formap(p, s, depth);
		break;
	case TWIR_IF:
		put_if(p, s, depth);
		break;
	case TWIR_SPECIALISE:
		buf_puts(&p->b, "specialise ");
		twir_put_expr(p, s->u.branch.cond);
		put_body(p, s->u.branch.body, depth);
		buf_putc(&p->b, '\n');
		break;
	case TWIR_BARRIER:
		buf_printf(&p->b, "barrier %s;\n", twir_level_name(s->u.barrier.level));
		break;
	case TWIR_PREFETCH:
		buf_printf(&p->b, "prefetch %s", twir_print_tensor(p, s->u.prefetch.tensor));
		if (s->u.prefetch.n > 0) {
			buf_putc(&p->b, '[');
			twir_print_list(p, s->u.prefetch.n, s->u.prefetch.index);
			buf_putc(&p->b, ']');
		}
		buf_puts(&p->b, s->u.prefetch.near ? " near;\n" : ";\n");
		break;
	case TWIR_COMMIT:
		buf_puts(&p->b, "commit;\n");
		break;
	case TWIR_WAIT:
		buf_printf(&p->b, "wait %d;\n", s->u.wait.pending);
		break;
	case TWIR_MMA:
		put_mma(p, s);
		break;
	case TWIR_INVOKE:
		put_invoke(p, s);
		break;
	}
}

static void put_block(struct twir_printer *p, const struct twir_stmt *list, int depth)
{
	const int mark = p->scope.n;
	for (const struct twir_stmt *s = list; s; s = s->next)
		put_stmt(p, s, depth);
	twir_print_leave(p, mark);
}

const char *twir_print_head(struct tw_arena *a, const struct twir_stmt *s)
{
	struct twir_printer p;
	twir_printer_init(&p, a);
	struct twir_stmt head = *s;
	head.next = NULL;
	if (s->kind == TWIR_FOR)
		head.u.loop.body = NULL;
	else if (s->kind == TWIR_FORMAP)
		head.u.formap.body = NULL;
	else if (s->kind == TWIR_IF || s->kind == TWIR_SPECIALISE)
		head.u.branch.body = head.u.branch.other = NULL;
	put_stmt(&p, &head, 0);
	p.b.at[strcspn(p.b.at, "\n")] = 0;
	return p.b.at;
}

static void put_params(struct twir_printer *p, int n, struct twir_tensor *const *params)
{
	for (int i = 0; i < n; i++) {
		if (i)
			buf_puts(&p->b, ", ");
		if (params[i]->scope == TWIR_OUT)
			buf_puts(&p->b, "out ");
		put_tensor(p, params[i]);
	}
}

static void put_launch(struct twir_printer *p, const struct twir_launch *l)
{
	const int mark = p->scope.n;
	buf_printf(&p->b, "launch %s(", l->name);
	put_params(p, l->nparams, l->params);
	buf_puts(&p->b, ")\n{\n");
	put_block(p, l->body, 1);
	buf_puts(&p->b, "}\n");
	twir_print_leave(p, mark);
}

static void put_program(struct twir_printer *p, const struct twir_program *f)
{
	const int mark = p->scope.n;
	buf_printf(&p->b, "program %s(", f->name);
	put_params(p, f->nparams, f->params);
	buf_puts(&p->b, ")\n");
	for (int i = 0; i < f->nlevels; i++) {
		buf_printf(&p->b, "%s%s(", i ? ", " : "  launch ", twir_level_name(f->levels[i]));
		twir_put_expr(p, f->extents[i]);
		buf_putc(&p->b, ')');
	}
	buf_puts(&p->b, f->nlevels ? "\n{\n" : "{\n");
	put_block(p, f->body, 1);
	buf_puts(&p->b, "}\n");
	twir_print_leave(p, mark);
}

static void put_func(struct tw_buf *b, const struct twir_func *f)
{
	struct twir_printer p; /* a func sees nothing but its own names */
	twir_printer_init(&p, b->arena);
	p.b = *b;
	buf_printf(&p.b, "func %s(", f->name);
	for (int i = 0; i < f->n; i++)
		buf_printf(&p.b, "%s%s: %s", i ? ", " : "", twir_print_var(&p, f->args[i]),
			   twir_scalar_name((enum twir_scalar)f->args[i]->type.scalar));
	buf_printf(&p.b, "): %s {\n", twir_scalar_name((enum twir_scalar)f->result.scalar));
	for (int i = 0; i < f->nlets; i++) {
		/* the name first, as it comes first in the text; the value cannot use it */
		buf_printf(&p.b, "  let %s = ", twir_print_var(&p, f->lets[i]));
		twir_put_expr(&p, f->values[i]);
		buf_puts(&p.b, ";\n");
	}
	buf_puts(&p.b, "  return ");
	twir_put_expr(&p, f->body);
	buf_puts(&p.b, ";\n}\n\n");
	*b = p.b;
}

static void put_compute(struct twir_printer *p, const struct twir_compute *c)
{
	buf_puts(&p->b, "define ");
	put_tensor(p, c->out);
	const int mark = p->scope.n;
	buf_puts(&p->b, " = (");
	for (int i = 0; i < c->out->rank; i++)
		buf_printf(&p->b, "%s%s", i ? ", " : "", twir_print_var(p, c->axes[i]));
	buf_puts(&p->b, ") => ");
	twir_put_expr(p, c->value);
	if (c->origin) {
		buf_puts(&p->b, " from \"");
		for (const char *s = c->origin; *s; s++) {
			if (*s == '"' || *s == '\\')
				buf_printf(&p->b, "\\%c", *s);
			else if ((unsigned char)*s < 32 || *s == 127)
				buf_printf(&p->b, "\\x%02x", (unsigned char)*s);
			else
				buf_putc(&p->b, *s);
		}
		buf_putc(&p->b, '"');
	}
	buf_puts(&p->b, ";\n");
	twir_print_leave(p, mark);
}

static bool plain(const struct twir_var *v)
{
	return v->lo == 0 && v->hi == INT64_MAX && v->multiple == 1;
}

/* Symbols in the order of their ids, which is the order of the kernels' sym[]. */
static void put_symbols(struct twir_printer *p, int n, struct twir_var *const *symbols)
{
	for (int i = 0; i < n; i++)
		twir_print_var(p, symbols[i]);
	for (int i = 0; i < n; i++) {
		const struct twir_var *v = symbols[i];
		buf_printf(&p->b, "symbol %s", twir_print_var(p, v));
		if (v->lo != 0 || v->hi != INT64_MAX) {
			buf_printf(&p->b, " in %" PRId64 "..", v->lo);
			if (v->hi != INT64_MAX)
				buf_printf(&p->b, "%" PRId64, v->hi);
		}
		if (v->multiple != 1)
			buf_printf(&p->b, " multiple %" PRId64, v->multiple);
		for (; plain(v) && i + 1 < n && plain(symbols[i + 1]); i++)
			buf_printf(&p->b, ", %s", twir_print_var(p, symbols[i + 1]));
		buf_puts(&p->b, ";\n");
	}
	if (n)
		buf_putc(&p->b, '\n');
}

/* funcs that something calls, directly or through others */

struct calls {
	struct twir_seen seen;
	bool tensors;
	VEC(const struct twir_tensor *) found;
	struct tw_arena *arena;
};

static void collect_calls(void *arg, const struct twir_expr *e);

static void collect(void *arg, const struct twir_expr *e)
{
	struct calls *c = arg;
	if (e->kind == TWIR_Call && twir_seen_add(&c->seen, e->u.func)) {
		for (int i = 0; i < e->u.func->nlets; i++)
			collect_calls(c, e->u.func->values[i]);
		collect_calls(c, e->u.func->body);
	}
	if (c->tensors && (e->kind == TWIR_Load || e->kind == TWIR_Gather) && twir_seen_add(&c->seen, e->u.tensor))
		vec_push(c->arena, &c->found, e->u.tensor);
}

static void collect_calls(void *arg, const struct twir_expr *e)
{
	twir_visit_expr(e, collect, arg);
}

static void put_funcs(struct twir_printer *p, const struct twir_module *m, struct calls *c, bool own)
{
	for (int i = 0; i < m->funcs.n; i++) {
		const struct twir_func *f = m->funcs.at[i];
		const bool used = !twir_seen_add(&c->seen, f);
		if (used || (own && !f->library))
			put_func(&p->b, f);
	}
}

static void symbols_of_tensor(void *printer, const struct twir_expr *e)
{
	twir_print_symbols(printer, e);
}

const char *twir_print_program(struct tw_arena *a, const struct twir_module *m, const struct twir_program *f)
{
	struct twir_printer p;
	twir_printer_init(&p, a);
	struct twir_module scratch = {.arena = a}; /* the symbols are found without touching the program */
	struct twir_program copy = *f;
	twir_program_symbols(&scratch, &copy);
	put_symbols(&p, copy.nsymbols, copy.symbols);
	struct calls c = {.arena = a};
	twir_seen_init(&c.seen);
	twir_visit_program(f, collect_calls, &c);
	put_funcs(&p, m, &c, false);
	twir_seen_free(&c.seen);
	put_program(&p, f);
	return p.b.at;
}

static void name_tensor(void *printer, const struct twir_expr *e)
{
	if (e->kind == TWIR_Load || e->kind == TWIR_Gather)
		twir_print_tensor(printer, e->u.tensor);
}

const char *twir_print_compute(struct tw_arena *a, const struct twir_compute *c)
{
	struct twir_printer p;
	twir_printer_init(&p, a);
	twir_visit_tensor(c->out, symbols_of_tensor, &p);
	twir_print_symbols(&p, c->value);
	twir_print_tensor(&p, c->out);
	twir_visit_expr(c->value, name_tensor, &p); /* tensors keep their names, axes give way */
	put_compute(&p, c);
	return p.b.at;
}

static bool defined(const struct twir_module *m, const struct twir_tensor *t)
{
	for (int i = 0; i < m->computes.n; i++)
		if (m->computes.at[i]->out == t)
			return true;
	return false;
}

const char *twir_print_module(struct tw_arena *a, const struct twir_module *m)
{
	struct twir_printer p;
	twir_printer_init(&p, a);
	put_symbols(&p, m->symbols.n, m->symbols.at);
	struct calls c = {.arena = a, .tensors = true};
	twir_seen_init(&c.seen);
	for (int i = 0; i < m->tensors.n; i++)
		if (twir_seen_add(&c.seen, m->tensors.at[i]))
			vec_push(a, &c.found, m->tensors.at[i]);
	for (int i = 0; i < m->computes.n; i++)
		collect_calls(&c, m->computes.at[i]->value);
	c.tensors = false;
	for (int i = 0; i < m->programs.n; i++)
		twir_visit_program(m->programs.at[i], collect_calls, &c);
	put_funcs(&p, m, &c, true);
	twir_seen_free(&c.seen);
	const int mark = p.scope.n;
	int free_tensors = 0;
	for (int i = 0; i < c.found.n; i++) {
		if (defined(m, c.found.at[i]))
			continue;
		buf_puts(&p.b, "tensor ");
		put_tensor(&p, c.found.at[i]);
		buf_puts(&p.b, ";\n");
		free_tensors++;
	}
	if (free_tensors)
		buf_putc(&p.b, '\n');
	for (int i = 0; i < m->computes.n; i++)
		put_compute(&p, m->computes.at[i]);
	if (m->computes.n && (m->programs.n || m->launches.n))
		buf_putc(&p.b, '\n');
	twir_print_leave(&p, mark);
	for (int i = 0; i < m->programs.n; i++) {
		if (i)
			buf_putc(&p.b, '\n');
		put_program(&p, m->programs.at[i]);
	}
	for (int i = 0; i < m->launches.n; i++) {
		if (i || m->programs.n)
			buf_putc(&p.b, '\n');
		put_launch(&p, m->launches.at[i]);
	}
	return p.b.at;
}

const char *twir_print_launch(struct tw_arena *a, const struct twir_launch *l)
{
	struct twir_printer p;
	twir_printer_init(&p, a);
	for (int i = 0; i < l->nsymbols; i++)
		twir_print_var(&p, l->symbols[i]);
	put_launch(&p, l);
	return p.b.at;
}
