/* interpret_index: size expressions over symbols, checked for overflow, and mappings under values of symbols. */
#include "ir/interpret_int.h"

#define PLAIN_STEPS                                                                                                    \
	4096 /* so many evaluations without a memo: enough for any size expression that is not a web of sharing */

struct eval {
	const struct twir_binding *b;
	int64_t steps;
	struct tw_arena *arena; /* NULL until a memo is needed */
	struct tw_map memo;	/* expression -> int64_t* */
	const struct twir_expr *bad;
	const char *why;
};

static int64_t eval(struct eval *v, const struct twir_expr *e);

static int64_t fail(struct eval *v, const struct twir_expr *e, const char *why)
{
	if (!v->bad) {
		v->bad = e;
		v->why = why;
	}
	return 0;
}

static int64_t eval_binary(struct eval *v, const struct twir_expr *e)
{
	const int64_t a = eval(v, e->arg[0]), b = eval(v, e->arg[1]);
	const enum twir_scalar type = e->arg[0]->type.scalar;
	int64_t r = 0;
	bool bad = false;
	switch (e->kind) {
	case TWIR_Add:
		bad = __builtin_add_overflow(a, b, &r);
		break;
	case TWIR_Sub:
		bad = __builtin_sub_overflow(a, b, &r);
		break;
	case TWIR_Mul:
		bad = __builtin_mul_overflow(a, b, &r);
		break;
	case TWIR_Div:
		bad = b == -1 && a == INT64_MIN;
		break;
	case TWIR_Roundup:
		bad = __builtin_mul_overflow(twiri_int_binary(TWIR_Ceildiv, type, a, b), b, &r);
		break;
	default:
		break;
	}
	if (bad && type != TWIR_U64)
		return fail(v, e, "does not fit 64 bits");
	return twiri_int_binary(e->kind, type, a, b);
}

static int64_t eval_var(struct eval *v, const struct twir_expr *e)
{
	for (int k = 0; v->b && k < v->b->n; k++)
		if (v->b->symbols[k] == e->u.var)
			return v->b->values[k];
	return fail(v, e, "has no value");
}

static int64_t eval_node(struct eval *v, const struct twir_expr *e)
{
	if (v->bad)
		return 0;
	if (!twir_is_int((enum twir_scalar)e->type.scalar) || e->type.lanes != 1)
		return fail(v, e, "is no size");
	switch (e->kind) {
	case TWIR_Const:
		return e->type.scalar == TWIR_I1 ? e->u.i & 1 : e->u.i;
	case TWIR_Var:
		return eval_var(v, e);
	case TWIR_Cond:
	case TWIR_Select:
		return eval(v, eval(v, e->arg[0]) ? e->arg[1] : e->arg[2]);
	case TWIR_Cast: {
		if (!twir_is_int((enum twir_scalar)e->arg[0]->type.scalar))
			return fail(v, e, "is no size");
		const union twiri_slot a = {.i = eval(v, e->arg[0])};
		return twiri_cast((enum twir_scalar)e->type.scalar, (enum twir_scalar)e->arg[0]->type.scalar, a).i;
	}
	case TWIR_Neg: {
		const int64_t a = eval(v, e->arg[0]);
		return a == INT64_MIN ? fail(v, e, "does not fit 64 bits")
				      : twir_wrap((enum twir_scalar)e->type.scalar, -a);
	}
	case TWIR_Abs: {
		const int64_t a = eval(v, e->arg[0]);
		if (a == INT64_MIN && e->type.scalar != TWIR_U64)
			return fail(v, e, "does not fit 64 bits");
		return a < 0 && e->type.scalar != TWIR_U64 ? twir_wrap((enum twir_scalar)e->type.scalar, -a) : a;
	}
	case TWIR_Not:
		return twir_wrap((enum twir_scalar)e->type.scalar, ~eval(v, e->arg[0]));
	default:
		if (e->n != 2 || e->kind == TWIR_Load || e->kind == TWIR_Fold || e->kind == TWIR_Call ||
		    e->kind == TWIR_Extract)
			return fail(v, e, "is no size");
		return eval_binary(v, e);
	}
}

static int64_t eval(struct eval *v, const struct twir_expr *e)
{
	if (e->kind == TWIR_Const)
		return eval_node(v, e);
	if (!v->arena && ++v->steps > PLAIN_STEPS) {
		v->arena = arena_new();
		map_init(&v->memo, v->arena);
	}
	if (!v->arena)
		return eval_node(v, e);
	const int64_t *known = map_get_ptr(&v->memo, e);
	if (known)
		return *known;
	int64_t *value = ARENA_NEW(v->arena, int64_t);
	*value = eval_node(v, e);
	map_set_ptr(&v->memo, e, value);
	return *value;
}

int64_t twir_eval_index(const struct twir_expr *e, const struct twir_binding *b)
{
	struct eval v = {.b = b};
	const int64_t r = eval(&v, e);
	if (v.arena)
		arena_free(v.arena);
	if (v.bad) {
		struct tw_arena *a = arena_new();
		struct tw_error error;
		tw_error_set(&error, TW_ERR_INPUT, "size %.1000s: %.1000s %s", twir_print_expr(a, e),
			     twir_print_expr(a, v.bad), v.why);
		arena_free(a);
		tw_raise_error(&error);
	}
	return r;
}

const struct twtm_map *twir_map_bind(struct tw_arena *a, const struct twir_map *f, const struct twir_binding *b)
{
	int64_t extent[TWIR_MAX_RANK];
	for (int d = 0; d < f->rank && (f->kind == TWTM_REPEAT || f->kind == TWTM_SPATIAL); d++)
		extent[d] = twir_eval_index(f->extent[d], b);
	switch (f->kind) {
	case TWTM_REPEAT:
		return twtm_repeat(a, f->rank, extent, f->order, f->attr);
	case TWTM_SPATIAL:
		return twtm_spatial(a, f->rank, extent, f->order);
	case TWTM_COMPOSE: {
		const struct twtm_map *outer = twir_map_bind(a, f->a, b);
		return twtm_compose(a, outer, twir_map_bind(a, f->b, b));
	}
	case TWTM_PROJECT:
		return twtm_project(a, twir_map_bind(a, f->a, b), f->projected);
	}
	tw_raise(TW_ERR_INTERNAL, "map of kind %d", (int)f->kind);
}
