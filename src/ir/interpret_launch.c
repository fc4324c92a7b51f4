/* interpret_launch: runs launch functions. Input: values of symbols, the parameters' memory; output: what the programs
 * that are called have written. Every program runs in the interpreter with its checks; a buffer that no program has
 * written is not handed on to be read, and sizes are checked before each call. */
#include <stdio.h>

#include "ir/interpret_int.h"

#define MAX_BUFFER_BYTES ((int64_t)1 << 31)

struct host_buffer {
	const struct twir_tensor *tensor;
	struct twir_data data;
	int64_t shape[TWIR_MAX_RANK];
	bool written;
};

struct host {
	struct tw_arena *arena; /* of this run */
	struct twir_module *m;
	const struct twir_launch *l;
	const struct twir_binding *given;
	const struct twir_data *params;
	struct twir_limits limits;
	VEC(struct twir_var *) vars; /* symbols, lets, loop variables in scope */
	VEC(int64_t) values;
	VEC(struct host_buffer) buffers;
};

_Noreturn static void fail(struct host *h, const struct twir_stmt *s, const char *fmt, ...) TW_PRINTF(3, 4);

static void fail(struct host *h, const struct twir_stmt *s, const char *fmt, ...)
{
	char why[512], place[64] = "";
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	if (h->m->fault)
		*h->m->fault = (struct twir_diagnostic){
			.severity = TWIR_ERROR,
			.line = s ? s->line : 0,
			.column = s ? s->column : 0,
			.text = arena_strdup(h->m->arena, why),
			.within = arena_printf(h->m->arena, "launch function '%s'", h->l->name)};
	if (s && s->line)
		snprintf(place, sizeof(place), " line %d:%d:", s->line, s->column);
	tw_raise(TW_ERR_INPUT, "launch function %s:%s %.600s%s%s", h->l->name, place,
		 s ? twir_print_head(h->arena, s) : "", s ? ": " : "", why);
}

static void set(struct host *h, struct twir_var *v, int64_t value)
{
	vec_push(h->arena, &h->vars, v);
	vec_push(h->arena, &h->values, value);
}

static int64_t eval(struct host *h, const struct twir_expr *e)
{
	const struct twir_binding b = {h->vars.n, h->vars.at, h->values.at};
	return twir_eval_index(e, &b);
}

static void add_buffer(struct host *h, const struct twir_stmt *s, const struct twir_tensor *t,
		       const struct twir_data *data)
{
	struct host_buffer b = {.tensor = t, .written = data && t->scope == TWIR_IN};
	bool bad = false;
	int64_t elements = 1;
	for (int k = 0; k < t->rank; k++) {
		b.shape[k] = eval(h, t->shape[k]);
		if (b.shape[k] < 0)
			fail(h, s, "'%s' has the size %lld", t->base, (long long)b.shape[k]);
		elements = tw_mul64(elements, b.shape[k], &bad);
	}
	if (t->layout) {
		elements = eval(h, twir_tensor_elements(h->m, t));
		bad = elements < 0;
	}
	if (bad || (!data && twir_storage_bytes(t->type, elements) > MAX_BUFFER_BYTES))
		fail(h, s, "'%s' is too large", t->base);
	if (data && (data->elements < elements || (elements > 0 && !data->at)))
		fail(h, s, "parameter '%s' needs %lld elements, the buffer has %lld", t->base, (long long)elements,
		     (long long)data->elements);
	b.data.elements = elements;
	b.data.at = data ? data->at : arena_alloc_array(h->arena, 1, twir_storage_bytes(t->type, elements) + 64);
	vec_push(h->arena, &h->buffers, b);
}

static struct host_buffer *find_buffer(struct host *h, const struct twir_tensor *t)
{
	for (int k = h->buffers.n - 1; k >= 0; k--)
		if (h->buffers.at[k].tensor == t)
			return &h->buffers.at[k];
	tw_raise(TW_ERR_INTERNAL, "launch function %s: tensor %s is not in scope", h->l->name, t->name);
}

/* The memory of an argument: all of a buffer, or the part behind its leading indices. */
static struct twir_data part(struct host *h, const struct twir_stmt *s, const struct twir_argument *a)
{
	const struct host_buffer *b = find_buffer(h, a->tensor);
	if (a->n == 0)
		return b->data;
	int64_t at = 0, inner = 1;
	for (int k = a->n; k < a->tensor->rank; k++)
		inner *= b->shape[k];
	for (int k = 0; k < a->n; k++) {
		const int64_t i = eval(h, a->index[k]);
		if (i < 0 || i >= b->shape[k])
			fail(h, s, "'%s': index %lld is out of bounds of %lld", a->tensor->base, (long long)i,
			     (long long)b->shape[k]);
		at = at * b->shape[k] + i;
	}
	return (struct twir_data){(char *)b->data.at + at * inner * twir_scalar_bytes(a->tensor->type), inner};
}

static int64_t symbol_value(struct host *h, const struct twir_stmt *s, struct twir_var *v)
{
	int64_t value = 0;
	bool own = false;
	for (int k = 0; k < s->u.invoke.nsymbols; k++)
		if (s->u.invoke.symbols[k] == v) {
			value = eval(h, s->u.invoke.values[k]);
			own = true;
		}
	if (!own)
		value = eval(h, twir_var(h->m, v));
	if (value < v->lo || value > v->hi || value % v->multiple != 0)
		fail(h, s, "symbol '%s' cannot be %lld", v->name, (long long)value);
	return value;
}

static void invoke(struct host *h, const struct twir_stmt *s)
{
	struct twir_program *f = s->u.invoke.program;
	int64_t *values = ARENA_ARRAY(h->arena, int64_t, f->nsymbols);
	struct twir_data *data = ARENA_ARRAY(h->arena, struct twir_data, f->nparams);
	for (int k = 0; k < f->nsymbols; k++)
		values[k] = symbol_value(h, s, f->symbols[k]);
	const struct twir_binding b = {f->nsymbols, f->symbols, values};
	for (int k = 0; k < f->nparams; k++) {
		const struct twir_argument *a = &s->u.invoke.args[k];
		if (f->params[k]->scope == TWIR_IN && !find_buffer(h, a->tensor)->written)
			fail(h, s, "'%s' is read before a program has written it", a->tensor->base);
		data[k] = part(h, s, a);
		const struct twir_tensor *t = f->params[k];
		const struct host_buffer *from = find_buffer(h, a->tensor);
		for (int d = 0; d < t->rank && t->rank == a->tensor->rank - a->n; d++) {
			const int64_t asked = twir_eval_index(t->shape[d], &b), given = from->shape[a->n + d];
			if (asked != given)
				fail(h, s, "parameter '%s' has size %lld in dimension %d, '%s' has %lld", t->base,
				     (long long)asked, d, a->tensor->base, (long long)given);
		}
		const int64_t needs = twir_eval_index(twir_tensor_elements(h->m, f->params[k]), &b);
		if (needs > data[k].elements)
			fail(h, s, "parameter '%s' needs %lld elements, '%s' has %lld", f->params[k]->base,
			     (long long)needs, a->tensor->base, (long long)data[k].elements);
	}
	twir_interpret_within(h->m, f, &b, data, &h->limits);
	for (int k = 0; k < f->nparams; k++)
		if (f->params[k]->scope == TWIR_OUT)
			find_buffer(h, s->u.invoke.args[k].tensor)->written = true;
}

static void block(struct host *h, const struct twir_stmt *list);

static void loop(struct host *h, const struct twir_stmt *s)
{
	const int64_t n = eval(h, s->u.loop.extent);
	const int mark = h->vars.n;
	for (int64_t i = 0; i < n; i++) {
		if (h->limits.steps > 0 && --h->limits.steps == 0)
			tw_raise(TW_ERR_CANCELLED, "launch function %s: too many steps", h->l->name);
		set(h, s->u.loop.var, i);
		block(h, s->u.loop.body);
		h->vars.n = h->values.n = mark;
	}
}

static void block(struct host *h, const struct twir_stmt *list)
{
	const int vars = h->vars.n, buffers = h->buffers.n;
	for (const struct twir_stmt *s = list; s; s = s->next) {
		switch (s->kind) {
		case TWIR_LET:
			set(h, s->u.let.var, eval(h, s->u.let.value));
			break;
		case TWIR_DECLARE:
			add_buffer(h, s, s->u.declare.tensor, NULL);
			break;
		case TWIR_FOR:
			loop(h, s);
			break;
		case TWIR_IF:
			block(h, eval(h, s->u.branch.cond) ? s->u.branch.body : s->u.branch.other);
			break;
		case TWIR_INVOKE:
			invoke(h, s);
			break;
		default:
			fail(h, s, "this is no statement of launch functions");
		}
	}
	h->vars.n = h->values.n = vars;
	h->buffers.n = buffers;
}

static void run(void *arg)
{
	struct host *h = arg;
	for (int k = 0; k < h->given->n; k++)
		set(h, h->given->symbols[k], h->given->values[k]);
	for (int k = 0; k < h->l->nparams; k++)
		add_buffer(h, NULL, h->l->params[k], &h->params[k]);
	block(h, h->l->body);
}

void twir_interpret_launch(struct twir_module *m, const struct twir_launch *l, const struct twir_binding *b,
			   const struct twir_data *params, const struct twir_limits *limits)
{
	const struct twir_binding nothing = {0};
	struct host h = {.arena = arena_new(),
			 .m = m,
			 .l = l,
			 .given = b ? b : &nothing,
			 .params = params,
			 .limits = limits ? *limits : (struct twir_limits){0}};
	struct tw_error e;
	const bool ok = tw_try(&e, run, &h);
	arena_free(h.arena);
	if (!ok)
		tw_raise_error(&e);
}
