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
		if ((o->severity == severity && strcmp(o->text, text) == 0) ||
		    (o->severity == TWIR_ERROR && severity == TWIR_UNPROVED && s)) /* what is wrong is not proved */
			return;
	}
	vec_push(d->arena, &d->list, new);
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
	twir_verify_reporting(j->d.p, TW_ERR_MODEL, &j->fault, j->d.arena);
}

static void look(void *arg)
{
	struct twird *d = arg;
	d->gpu = d->p->nlevels > 0 && d->p->levels[0] == TWIR_BLOCK;
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
	if (!tw_try(&e, verify, &j)) {
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
