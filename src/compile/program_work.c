/* program_work: how much a run of a program computes: floating-point operations, counted from its text for given sizes.
 * Input: a program as parsed and its sizes; output: a number, or that it cannot be told.
 *
 * A loop whose variable decides nothing inside counts its body once, times its trips; others are walked. What workers
 * do outside of mappings counts once. A branch whose condition depends on data cannot be told, unless it computes
 * nothing. */
#include "compile/program_int.h"

enum { MOST_STEPS = 2000000 };

struct work {
	const struct tw_program *p;
	struct tw_arena *arena;
	struct tw_map matters; /* variables that decide how often something runs */
	VEC(struct twir_var *) vars;
	VEC(int64_t) values;
	struct tw_map ops; /* expr or func -> operations + 1 */
	int first;	   /* of the variables in scope */
	int64_t steps;
	bool unknown;
	double total;
};

/* --- what decides --- */

static void mark_var(void *arg, const struct twir_expr *e)
{
	struct work *w = arg;
	if (e->kind == TWIR_Var)
		map_set_ptr(&w->matters, e->u.var, e->u.var);
}

static void mark(struct work *w, const struct twir_expr *e)
{
	if (e)
		twir_visit_expr(e, mark_var, w);
}

static void mark_map(struct work *w, const struct twir_map *f)
{
	if (!f)
		return;
	for (int d = 0; d < f->rank && (f->kind == TWTM_REPEAT || f->kind == TWTM_SPATIAL); d++)
		mark(w, f->extent[d]);
	if (f->kind == TWTM_COMPOSE || f->kind == TWTM_PROJECT)
		mark_map(w, f->a);
	if (f->kind == TWTM_COMPOSE)
		mark_map(w, f->b);
}

/* Backwards: a let is met after all its uses. */
static void mark_block(struct work *w, const struct twir_stmt *list)
{
	VEC(const struct twir_stmt *) all = {0};
	for (const struct twir_stmt *s = list; s; s = s->next)
		vec_push(w->arena, &all, s);
	while (all.n > 0) {
		const struct twir_stmt *s = all.at[--all.n];
		switch (s->kind) {
		case TWIR_LET:
			if (map_get_ptr(&w->matters, s->u.let.var))
				mark(w, s->u.let.value);
			break;
		case TWIR_FOR:
			mark_block(w, s->u.loop.body);
			mark(w, s->u.loop.extent);
			break;
		case TWIR_FORMAP:
			mark_block(w, s->u.formap.body);
			mark_map(w, s->u.formap.map);
			for (int i = 0; s->u.formap.bounds && i < s->u.formap.n; i++)
				mark(w, s->u.formap.bounds[i]);
			break;
		case TWIR_INVOKE:
			mark_block(w, s->u.invoke.program->body);
			for (int i = 0; i < s->u.invoke.nsymbols; i++)
				mark(w, s->u.invoke.values[i]);
			break;
		case TWIR_IF:
		case TWIR_SPECIALISE:
			mark_block(w, s->u.branch.body);
			mark_block(w, s->u.branch.other);
			mark(w, s->u.branch.cond);
			break;
		default:
			break;
		}
	}
}

/* --- operations of an expression --- */

static double operations(struct work *w, const struct twir_expr *e);

static double of_func(struct work *w, const struct twir_func *f)
{
	double n = operations(w, f->body);
	for (int i = 0; i < f->nlets; i++)
		n += operations(w, f->values[i]);
	return n;
}

static void add_ops(void *arg, const struct twir_expr *e)
{
	struct work *w = arg;
	const double lanes = e->type.lanes;
	if (e->kind == TWIR_Call) {
		w->total += of_func(w, e->u.func);
		return;
	}
	if (!twir_is_float((enum twir_scalar)e->type.scalar))
		return;
	switch ((enum twir_kind)e->kind) {
	case TWIR_Fma:
		w->total += 2 * lanes;
		break;
	case TWIR_Add:
	case TWIR_Sub:
	case TWIR_Mul:
	case TWIR_Div:
	case TWIR_Min:
	case TWIR_Max:
	case TWIR_MinNum:
	case TWIR_MaxNum:
	case TWIR_Sqrt:
		w->total += lanes;
		break;
	default:
		break;
	}
}

static double operations(struct work *w, const struct twir_expr *e)
{
	const double before = w->total;
	const double *known = map_get_ptr(&w->ops, e);
	if (known)
		return *known;
	w->total = 0;
	twir_visit_expr(e, add_ops, w);
	double *n = ARENA_NEW(w->arena, double);
	*n = w->total;
	map_set_ptr(&w->ops, e, n);
	w->total = before;
	return *n;
}

/* --- how often statements run --- */

static int64_t value(struct work *w, const struct twir_expr *e)
{
	const struct twir_binding b = {w->vars.n - w->first, w->vars.at + w->first, w->values.at + w->first};
	return twir_eval_index(e, &b);
}

static void set(struct work *w, struct twir_var *v, int64_t x)
{
	vec_push(w->arena, &w->vars, v);
	vec_push(w->arena, &w->values, x);
}

static double block(struct work *w, const struct twir_stmt *list);

static int64_t extent(struct work *w, const struct twir_map *f, int d)
{
	switch (f->kind) {
	case TWTM_REPEAT:
	case TWTM_SPATIAL:
		return value(w, f->extent[d]);
	case TWTM_COMPOSE:
		return extent(w, f->a, d) * extent(w, f->b, d);
	case TWTM_PROJECT:
		return f->projected >> d & 1 ? 1 : extent(w, f->a, d);
	}
	return 0;
}

/* A nest over n variables below their trips. */
static double nest(struct work *w, int n, struct twir_var *const *vars, const int64_t *trips,
		   const struct twir_stmt *body)
{
	if (n == 0)
		return block(w, body);
	if (trips[0] <= 0)
		return 0;
	const int mark = w->vars.n;
	double sum = 0;
	if (!map_get_ptr(&w->matters, vars[0]))
		return (double)trips[0] * nest(w, n - 1, vars + 1, trips + 1, body);
	for (int64_t i = 0; i < trips[0] && !w->unknown; i++) {
		set(w, vars[0], i);
		sum += nest(w, n - 1, vars + 1, trips + 1, body);
		w->vars.n = w->values.n = mark;
	}
	return sum;
}

static double formap(struct work *w, const struct twir_stmt *s)
{
	int64_t trips[TWIR_MAX_RANK];
	for (int d = 0; d < s->u.formap.n; d++) {
		trips[d] = extent(w, s->u.formap.map, d);
		const int64_t bound = s->u.formap.bounds ? value(w, s->u.formap.bounds[d]) : trips[d];
		trips[d] = bound < trips[d] ? bound : trips[d];
	}
	return nest(w, s->u.formap.n, s->u.formap.vars, trips, s->u.formap.body);
}

static double branch(struct work *w, const struct twir_stmt *s)
{
	const struct twir_expr *c = s->u.branch.cond;
	if (s->kind == TWIR_SPECIALISE)
		return block(w, s->u.branch.body);
	if (!c->loads)
		return block(w, value(w, c) ? s->u.branch.body : s->u.branch.other);
	const double a = block(w, s->u.branch.body), b = block(w, s->u.branch.other);
	w->unknown |= a != b;
	return a;
}

/* A program knows its symbols only: those that the call says, others as they are. */
static double invoke(struct work *w, const struct twir_stmt *s)
{
	const struct twir_program *f = s->u.invoke.program;
	int64_t *values = ARENA_ARRAY(w->arena, int64_t, f->nsymbols);
	const int mark = w->vars.n, first = w->first;
	for (int i = 0; i < f->nsymbols; i++) {
		const struct twir_expr *e = twir_var(w->p->m, f->symbols[i]);
		for (int k = 0; k < s->u.invoke.nsymbols; k++)
			if (s->u.invoke.symbols[k] == f->symbols[i])
				e = s->u.invoke.values[k];
		values[i] = value(w, e);
	}
	w->first = mark;
	for (int i = 0; i < f->nsymbols; i++)
		set(w, f->symbols[i], values[i]);
	const double n = block(w, f->body);
	w->vars.n = w->values.n = mark;
	w->first = first;
	return n;
}

static double block(struct work *w, const struct twir_stmt *list)
{
	const int mark = w->vars.n;
	double sum = 0;
	for (const struct twir_stmt *s = list; s && !w->unknown; s = s->next) {
		if (++w->steps > MOST_STEPS)
			w->unknown = true;
		switch (s->kind) {
		case TWIR_LET:
			sum += operations(w, s->u.let.value);
			if (map_get_ptr(&w->matters, s->u.let.var))
				set(w, s->u.let.var, value(w, s->u.let.value));
			break;
		case TWIR_STORE:
			sum += operations(w, s->u.store.value);
			break;
		case TWIR_FOR: {
			const int64_t n = value(w, s->u.loop.extent);
			sum += nest(w, 1, &s->u.loop.var, &n, s->u.loop.body);
			break;
		}
		case TWIR_FORMAP:
			sum += formap(w, s);
			break;
		case TWIR_IF:
		case TWIR_SPECIALISE:
			sum += branch(w, s);
			break;
		case TWIR_INVOKE:
			sum += invoke(w, s);
			break;
		case TWIR_MMA: /* of every warp: how many run it is not looked for */
			w->unknown = true;
			break;
		default:
			break;
		}
	}
	w->vars.n = w->values.n = mark;
	return sum;
}

static void count(void *arg)
{
	struct work *w = arg;
	w->arena = arena_new();
	map_init(&w->matters, w->arena);
	map_init(&w->ops, w->arena);
	for (int i = 0; i < w->p->nsymbols; i++)
		set(w, w->p->chosen->symbols[i], w->p->values[i]);
	mark_block(w, w->p->chosen->body);
	const double n = block(w, w->p->chosen->body);
	w->total = w->unknown ? -1 : n;
}

enum tw_code tw_program_work(const struct tw_program *p, double *ops, double *bytes, struct tw_error *e)
{
	struct work w = {.p = p};
	struct tw_error none;
	const enum tw_code code = twpr_all_known(p, e);
	if (code != TW_ERR_OK)
		return code;
	*ops = tw_try(&none, count, &w) ? w.total : -1;
	*bytes = 0;
	for (int i = 0; i < p->nparams; i++) {
		double n = twir_scalar_bytes(p->chosen->params[i]->type);
		for (int d = 0; d < p->params[i].rank; d++)
			n *= (double)p->params[i].dims[d];
		*bytes += n;
	}
	arena_free(w.arena);
	return TW_ERR_OK;
}
