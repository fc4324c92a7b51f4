/* diagnose: what a person should know of a program, as a list: what the verifier refuses first, alone (everything else
 * builds on a sound program); then what trial runs find and what cannot be proved of accesses. */
#include <stdio.h>
#include <stdlib.h>

#include "ir/diagnose_int.h"
#include "ir/verify_int.h"

const char *twir_severity_name(enum twir_severity s)
{
	static const char *const names[] = {"error", "warning", "unproved"};
	_Static_assert(TW_COUNT(names) == TWIR_SEVERITIES, "a name for each");
	return names[s];
}

void twird_say(struct twird *d, enum twir_severity severity, const struct twir_stmt *s, const char *hint,
	       const char *fmt, ...)
{
	char text[512];
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	const struct twir_diagnostic new = {.severity = severity,
					    .line = s ? s->line : 0,
					    .column = s ? s->column : 0,
					    .text = arena_strdup(d->arena, text),
					    .hint = hint,
					    .statement = s ? twir_print_head(d->arena, s) : NULL};
	for (int i = 0; i < d->list.n; i++) {
		const struct twir_diagnostic *o = &d->list.at[i];
		if (o->line != new.line || o->column != new.column)
			continue;
		if ((o->severity == severity &&
		     (severity == TWIR_ERROR || strcmp(o->text, text) == 0)) ||	   /* one for a place */
		    (o->severity == TWIR_ERROR && severity == TWIR_UNPROVED && s)) /* what is wrong is not proved */
			return;
	}
	vec_push(d->arena, &d->list, new);
}

void twird_unsay(struct twird *d, const struct twir_stmt *s)
{
	const int line = s ? s->line : 0, column = s ? s->column : 0;
	int kept = 0;
	for (int i = 0; i < d->list.n; i++)
		if (d->list.at[i].line != line || d->list.at[i].column != column)
			d->list.at[kept++] = d->list.at[i];
	d->list.n = kept;
}

const char *twird_access(struct twird *d, const struct twird_event *e)
{
	struct tw_buf b;
	buf_init(&b, d->scratch);
	buf_puts(&b, e->tensor->base);
	for (int k = 0; k < e->n; k++)
		buf_printf(&b, "%s%s", k ? ", " : "[", twir_print_expr(d->scratch, e->index[k]));
	if (e->lanes > 1 && !e->scattered)
		buf_printf(&b, " +: %d", e->lanes);
	buf_puts(&b, e->n ? "]" : "");
	return b.at;
}

static int by_place(const void *a, const void *b)
{
	const struct twir_diagnostic *x = a, *y = b;
	if (x->severity != y->severity)
		return x->severity < y->severity ? -1 : 1;
	if (x->line != y->line)
		return x->line < y->line ? -1 : 1;
	return x->column != y->column ? (x->column < y->column ? -1 : 1) : strcmp(x->text, y->text);
}

struct job {
	struct twird d;
	struct twir_diagnostic fault;
};

static void verify(void *arg)
{
	struct job *j = arg;
	struct twir_module *m = j->d.m;
	m->fault = &j->fault;
	twir_verify_program(m, j->d.p, TW_ERR_MODEL);
}

/* A constant divisor of 0: defined, but never meant. */
static void see_statement(void *arg, const struct twir_stmt *s)
{
	struct twird *d = arg;
	d->stmt = s;
}

static void see_divisor(void *arg, const struct twir_expr *e)
{
	struct twird *d = arg;
	int64_t n;
	if ((e->kind == TWIR_Div || e->kind == TWIR_Mod || e->kind == TWIR_Ceildiv) &&
	    twir_is_int((enum twir_scalar)e->type.scalar) && twir_const_int(e->arg[1], &n) && n == 0)
		twird_say(d, TWIR_ERROR, d->stmt, "x / 0 and x % 0 are 0: no program means that", "%s divides by 0",
			  twir_print_expr(d->scratch, e));
}

static void see_expr(void *arg, const struct twir_expr *e)
{
	twir_visit_expr(e, see_divisor, arg);
}

static void find_zero_divisors(struct twird *d)
{
	for (int i = 0; i < d->p->nparams; i++)
		twir_visit_tensor(d->p->params[i], see_expr, d);
	for (int i = 0; i < d->p->nlevels; i++)
		see_expr(d, d->p->extents[i]);
	twir_visit_block(d->p->body, see_statement, see_expr, d);
	d->stmt = NULL;
}

static void look(void *arg)
{
	struct twird *d = arg;
	d->gpu = d->p->nlevels > 0 && d->p->levels[0] == TWIR_BLOCK;
	find_zero_divisors(d);
	twird_trial(d);
	twird_walk(d);
	if (d->too_large) {
		twird_say(d, TWIR_UNPROVED, NULL, NULL, "the program is too large to be proved right");
		return;
	}
	twird_once(d);
	twird_assign(d);
	twird_owners(d);
	twird_races(d);
	const struct twird_event *e = twird_shared_byte(d);
	if (e)
		twird_say(d, TWIR_UNPROVED, e->stmt,
			  "whole bytes for each worker (rows of an even size, or repeats side by side) are proved",
			  "elements of %s share bytes: do two workers store to one byte here? %s", e->tensor->base,
			  twird_access(d, e));
}

struct twir_diagnostics twir_diagnose_program(struct twir_module *m, const struct twir_program *p, struct tw_arena *a)
{
	struct job j = {.d = {.m = m, .p = p, .arena = a}};
	struct twir_diagnostics r = {0};
	struct tw_error e;
	struct twir_diagnostic *const outer = m->fault;
	const bool sound = tw_try(&e, verify, &j);
	m->fault = outer;
	if (!sound) {
		if (!j.fault.text) /* no fault of the program's: memory, or ours */
			tw_raise_error(&e);
		r.at = arena_copy(a, &j.fault, sizeof(j.fault));
		r.n = r.count[TWIR_ERROR] = 1;
		return r;
	}
	j.d.scratch = arena_new();
	const bool ok = tw_try(&e, look, &j.d);
	arena_free(j.d.scratch);
	if (!ok)
		tw_raise_error(&e);
	r.n = j.d.list.n;
	r.at = j.d.list.at;
	if (r.n)
		qsort(r.at, (size_t)r.n, sizeof(*r.at), by_place);
	for (int i = 0; i < r.n; i++)
		r.count[r.at[i].severity]++;
	return r;
}
