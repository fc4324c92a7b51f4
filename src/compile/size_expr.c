/* Size expressions of the IR to the runtime's postfix code. Comparisons and logic appear in sizes as 0 and 1. */
#include "compile/compile_int.h"

struct coder {
	struct tw_arena *a;
	const struct twc *c;
	VEC(int64_t) code;
};

int twc_symbol(const struct twc *c, const struct twir_var *v)
{
	for (int i = 0; i < c->symbols.n; i++)
		if (c->symbols.at[i] == v)
			return i;
	TW_CHECK(v->kind == TWIR_SYMBOL, "%s is not a symbol, but a size speaks of it", v->name);
	tw_raise(TW_ERR_UNSUPPORTED,
		 "the size '%s' is not the size of any input, so nothing tells its value before the run", v->name);
}

static void put(struct coder *c, const struct twir_expr *e);

static void put_op(struct coder *c, const struct twir_expr *e, enum twrt_opcode op)
{
	for (int i = 0; i < e->n; i++)
		put(c, e->arg[i]);
	vec_push(c->a, &c->code, op);
}

static void put(struct coder *c, const struct twir_expr *e)
{
	const bool index = e->type.scalar == TWIR_INDEX;
	switch (e->kind) {
	case TWIR_Const:
		vec_push(c->a, &c->code, TWRT_PUSH);
		vec_push(c->a, &c->code, e->u.i);
		return;
	case TWIR_Var:
		vec_push(c->a, &c->code, TWRT_SYM);
		vec_push(c->a, &c->code, twc_symbol(c->c, e->u.var));
		return;
	case TWIR_Cast: /* sizes fit every integer type they are cast to, or the run is refused by its bounds */
		put(c, e->arg[0]);
		return;
	case TWIR_Select:
	case TWIR_Cond:
		put_op(c, e, TWRT_SELECT);
		return;
	case TWIR_Add:
		put_op(c, e, TWRT_ADD);
		return;
	case TWIR_Sub:
		put_op(c, e, TWRT_SUB);
		return;
	case TWIR_Mul:
		put_op(c, e, TWRT_MUL);
		return;
	case TWIR_Div:
		put_op(c, e, index ? TWRT_FLOORDIV : TWRT_TRUNCDIV);
		return;
	case TWIR_Mod:
		put_op(c, e, index ? TWRT_FLOORMOD : TWRT_TRUNCMOD);
		return;
	case TWIR_Ceildiv:
		put_op(c, e, TWRT_CEILDIV);
		return;
	case TWIR_Roundup:
		put_op(c, e, TWRT_ROUNDUP);
		return;
	case TWIR_Min:
	case TWIR_MinNum:
		put_op(c, e, TWRT_MIN);
		return;
	case TWIR_Max:
	case TWIR_MaxNum:
		put_op(c, e, TWRT_MAX);
		return;
	case TWIR_Lt:
		put_op(c, e, TWRT_LT);
		return;
	case TWIR_Le:
		put_op(c, e, TWRT_LE);
		return;
	case TWIR_Eq:
		put_op(c, e, TWRT_EQ);
		return;
	case TWIR_Ne:
		put_op(c, e, TWRT_NE);
		return;
	case TWIR_And:
		put_op(c, e, TWRT_AND);
		return;
	case TWIR_Or:
		put_op(c, e, TWRT_OR);
		return;
	case TWIR_Not:
		put_op(c, e, TWRT_NOT);
		return;
	case TWIR_Neg:
		put_op(c, e, TWRT_NEG);
		return;
	default:
		tw_raise(TW_ERR_UNSUPPORTED, "a size is computed by '%s', which the runtime cannot evaluate: %s",
			 twir_kind_text(e->kind), twir_print_expr(c->a, e));
	}
}

struct twrt_expr twc_size(const struct twc *x, const struct twir_expr *e)
{
	struct coder c = {.a = x->arena, .c = x};
	struct twir_facts f;
	twir_facts_init(&f, x->m);
	put(&c, twir_simplify(&f, e));
	return (struct twrt_expr){c.code.n, c.code.at};
}
