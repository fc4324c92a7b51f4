/* split_vectors: vectors become numbers, lane by lane, as threads of a GPU have no vector registers: a let of a vector
 * is a let for each lane, a register tensor of vectors has one dimension more, wide loads and stores are loads and
 * stores of elements (under a mask: each under its condition). Asynchronous copies stay wide. The values are bit for
 * bit the same: the operations of a lane are those of a number. needs: flatten_index (an access has one index); breaks:
 * nothing; no vectors afterwards, but in asynchronous copies. */
#include "pass/pass_int.h"

typedef const struct twir_expr *expr;

struct splitting {
	struct twir_module *m;
	struct twir_rewriter r;
	struct tw_map values;  /* vector -> its lanes */
	struct tw_map vars;    /* variable -> the variables of its lanes */
	struct tw_map tensors; /* register tensor of vectors -> of numbers */
};

static const expr *lanes_of(struct splitting *x, expr e);

/* The element of a load that belongs to the lane. */
static expr element(struct splitting *x, expr e, int lane)
{
	struct twir_tensor *split = map_get_ptr(&x->tensors, e->u.tensor);
	expr at[TWIR_MAX_RANK + 1];
	int n = e->nidx;
	for (int k = 0; k < n; k++)
		at[k] = e->arg[k];
	if (split)
		at[n++] = twir_index(x->m, lane);
	else
		at[n - 1] = twir_add(x->m, at[n - 1], twir_index(x->m, lane));
	return twir_load(x->m, split ? split : e->u.tensor, n, at);
}

static expr gathered(struct splitting *x, expr e, int lane)
{
	const expr at = twir_cast(x->m, TWIR_INDEX, lanes_of(x, e->arg[0])[lane]);
	return twir_load(x->m, e->u.tensor, 1, &at);
}

static expr lane_of(struct splitting *x, expr e, int lane)
{
	expr args[16];
	const bool masked =
		(e->kind == TWIR_Load || e->kind == TWIR_Gather) && e->n > e->nidx + (e->kind == TWIR_Gather);
	switch (e->kind) {
	case TWIR_Var:
		return twir_var(x->m, ((struct twir_var **)map_get_ptr(&x->vars, e->u.var))[lane]);
	case TWIR_Splat:
		return e->arg[0];
	case TWIR_Iota:
		return twir_int(x->m, (enum twir_scalar)e->type.scalar, lane);
	case TWIR_Load:
	case TWIR_Gather: {
		const expr value = e->kind == TWIR_Load ? element(x, e, lane) : gathered(x, e, lane);
		if (!masked)
			return value;
		return twir_cond(x->m, lanes_of(x, e->arg[e->n - 2])[lane], value, lanes_of(x, e->arg[e->n - 1])[lane]);
	}
	default:
		TW_CHECK(e->n <= TW_COUNT(args), "%s of %d lanes", twir_kind_name(e->kind), e->type.lanes);
		for (int k = 0; k < e->n; k++)
			args[k] = lanes_of(x, e->arg[k])[lane];
		return twir_with_args(x->m, e, args);
	}
}

/* The lanes of a vector; of a number, itself for each that may be asked for. */
static const expr *lanes_of(struct splitting *x, expr e)
{
	const expr *known = map_get_ptr(&x->values, e);
	if (known)
		return known;
	const int n = e->type.lanes > 1 ? e->type.lanes : TWIR_MAX_LANES;
	expr *lanes = ARENA_ARRAY(x->m->arena, expr, n);
	for (int l = 0; l < n; l++)
		lanes[l] = e->type.lanes > 1 ? lane_of(x, e, l) : e;
	map_set_ptr(&x->values, e, lanes);
	return lanes;
}

/* By halves, as the interpreter does. */
static expr reduced(struct splitting *x, expr e)
{
	const int n = e->arg[0]->type.lanes;
	expr part[TWIR_MAX_LANES];
	memcpy(part, lanes_of(x, e->arg[0]), sizeof(*part) * (size_t)n);
	for (int half = n / 2; half > 0; half /= 2)
		for (int l = 0; l < half; l++)
			part[l] = twir_binary(x->m, (enum twir_kind)e->op, part[l], part[l + half]);
	return part[0];
}

/* Numbers that are made of vectors. */
static expr number(struct twir_rewriter *r, expr e)
{
	struct splitting *x = r->user;
	int64_t lane;
	if (e->kind == TWIR_Extract && twir_const_int(e->arg[1], &lane))
		return lanes_of(x, e->arg[0])[lane];
	if (e->kind == TWIR_Reduce && e->arg[0]->type.lanes > 1)
		return reduced(x, e);
	return e;
}

static expr rewrite(struct twp_walk *w, expr e)
{
	return twir_rewrite_expr(&((struct splitting *)w->user)->r, e);
}

static void declare(struct splitting *x, const struct twir_stmt *s, struct twp_list *out)
{
	const struct twir_tensor *t = s->u.declare.tensor;
	expr shape[TWIR_MAX_RANK];
	if (t->mirrors || t->layout || t->rank == TWIR_MAX_RANK)
		tw_raise(TW_ERR_UNSUPPORTED,
			 "register tensor %s: on a GPU a tensor of vectors has neither mapping nor layout, and at most "
			 "%d dimensions",
			 t->base, TWIR_MAX_RANK - 1);
	for (int k = 0; k < t->rank; k++)
		shape[k] = t->shape[k];
	shape[t->rank] = twir_index(x->m, t->lanes);
	struct twir_stmt *d = twp_copy(x->m, s);
	d->u.declare.tensor = twir_tensor_new(x->m, t->base, t->type, t->rank + 1, shape, TWIR_REGISTER);
	map_set_ptr(&x->tensors, t, d->u.declare.tensor);
	twp_list_add(out, d);
}

/* Lets of the lanes' values: all are computed before anything is stored. */
static expr *bind(struct splitting *x, expr value, const char *name, struct twp_list *out)
{
	const int n = value->type.lanes;
	const expr *lanes = lanes_of(x, value);
	expr *bound = ARENA_ARRAY(x->m->arena, expr, n);
	for (int l = 0; l < n; l++) {
		struct twir_var *v = twir_var_new(x->m, TWIR_BOUND, lanes[l]->type, name);
		twp_list_add(out, twir_let(x->m, v, lanes[l]));
		bound[l] = twir_var(x->m, v);
	}
	return bound;
}

static void let(struct splitting *x, const struct twir_stmt *s, expr value, struct twp_list *out)
{
	const expr *bound = bind(x, value, s->u.let.var->name, out);
	struct twir_var **vars = ARENA_ARRAY(x->m->arena, struct twir_var *, value->type.lanes);
	for (int l = 0; l < value->type.lanes; l++)
		vars[l] = bound[l]->u.var;
	map_set_ptr(&x->vars, s->u.let.var, vars);
}

static void store(struct splitting *x, const struct twir_stmt *s, struct twp_list *out)
{
	struct twir_tensor *t = s->u.store.tensor, *split = map_get_ptr(&x->tensors, t);
	const expr value = s->u.store.value, mask = s->u.store.mask;
	const expr *lanes = value->loads ? bind(x, value, t->base, out) : lanes_of(x, value);
	const bool scattered = s->u.store.n == 1 && s->u.store.index[0]->type.lanes > 1;
	for (int l = 0; l < value->type.lanes; l++) {
		expr at[TWIR_MAX_RANK + 1];
		int n = s->u.store.n;
		for (int k = 0; k < n; k++)
			at[k] = lanes_of(x, s->u.store.index[k])[l];
		if (split)
			at[n++] = twir_index(x->m, l);
		else if (scattered)
			at[0] = twir_cast(x->m, TWIR_INDEX, at[0]);
		else
			at[n - 1] = twir_add(x->m, at[n - 1], twir_index(x->m, l));
		struct twir_stmt *one = twir_store(x->m, split ? split : t, n, at, lanes[l], NULL);
		twp_list_add(out, mask ? twir_if(x->m, lanes_of(x, mask)[l], one, NULL) : one);
	}
}

static bool statement(struct twp_walk *w, const struct twir_stmt *s, struct twp_list *out)
{
	struct splitting *x = w->user;
	if (s->kind == TWIR_DECLARE && s->u.declare.tensor->lanes > 1) {
		declare(x, s, out);
		return true;
	}
	if (s->kind == TWIR_LET && s->u.let.value->type.lanes > 1) {
		let(x, s, rewrite(w, s->u.let.value), out);
		return true;
	}
	if (s->kind == TWIR_STORE && s->u.store.async) {
		twp_list_add(out, twp_copy(w->m, s));
		return true;
	}
	if (s->kind != TWIR_STORE || s->u.store.value->type.lanes == 1)
		return false;
	store(x, twp_walk_stmt(w, s), out);
	return true;
}

void pass_split_vectors(struct twir_module *m, struct twir_program *p, const struct tw_target *t)
{
	(void)t;
	struct splitting x = {.m = m};
	struct twp_walk w;
	map_init(&x.values, m->scratch);
	map_init(&x.vars, m->scratch);
	map_init(&x.tensors, m->scratch);
	twp_walk_init(&w, m, p);
	w.user = &x;
	w.stmt = statement;
	w.expr = rewrite;
	twir_rewriter_init(&x.r, m);
	x.r.user = &x;
	x.r.expr = number;
	p->body = twp_walk_block(&w, p->body);
}
