/* The text of expressions and mappings. Canonical: fewest parentheses by precedence, one spelling for each node. Names
 * come from what an object was asked to be called; where that is taken in an enclosing scope, a number is added. */
#include "ir/ir_int.h"

#include <stdio.h>

#define LONGEST ((size_t)256 << 20) /* text is a tree where expressions are DAGs: stop before memory is flooded */

enum level { COND, OR, XOR, AND, COMPARE, SHIFT, SUM, PRODUCT, PREFIX, PRIMARY };

void twir_printer_init(struct twir_printer *p, struct tw_arena *a)
{
	*p = (struct twir_printer){0};
	buf_init(&p->b, a);
	strmap_init(&p->used, a);
	map_init(&p->given, a);
}

const char *twir_print_name(struct twir_printer *p, const void *object, const char *base)
{
	const char *name = map_get_ptr(&p->given, object);
	if (name)
		return name;
	name = base;
	for (int i = 1; strmap_get(&p->used, name); i++)
		name = arena_printf(p->b.arena, "%s_%d", base, i);
	strmap_set(&p->used, name, (void *)object);
	map_set_ptr(&p->given, object, (void *)name);
	vec_push(p->b.arena, &p->scope, object);
	return name;
}

void twir_print_leave(struct twir_printer *p, int mark)
{
	while (p->scope.n > mark) {
		const void *object = p->scope.at[--p->scope.n];
		strmap_set(&p->used, map_get_ptr(&p->given, object), NULL);
		map_set_ptr(&p->given, object, NULL);
	}
}

const char *twir_print_var(struct twir_printer *p, const struct twir_var *v)
{
	return v->kind == TWIR_WORKER ? v->name : twir_print_name(p, v, v->base);
}

const char *twir_print_tensor(struct twir_printer *p, const struct twir_tensor *t)
{
	return twir_print_name(p, t, t->base);
}

static void reserve(void *printer, const struct twir_expr *e)
{
	if (e->kind == TWIR_Var && e->u.var->kind == TWIR_SYMBOL)
		twir_print_var(printer, e->u.var);
}

void twir_print_symbols(void *printer, const struct twir_expr *e)
{
	twir_visit_expr(e, reserve, printer);
}

const char *twir_combiner_name(enum twir_kind op)
{
	return op == TWIR_Add ? "add" : op == TWIR_Mul ? "mul" : twir_kind_text(op);
}

const char *twir_fold_name(enum twir_kind op)
{
	switch (op) {
	case TWIR_Add:
		return "sum";
	case TWIR_Mul:
		return "prod";
	case TWIR_Min:
		return "fold_min";
	case TWIR_Max:
		return "fold_max";
	case TWIR_MinNum:
		return "fold_minnum";
	case TWIR_MaxNum:
		return "fold_maxnum";
	case TWIR_And:
		return "fold_and";
	case TWIR_Or:
		return "fold_or";
	default:
		return "fold_xor";
	}
}

static enum level level_of(const struct twir_expr *e)
{
	switch (e->kind) {
	case TWIR_Cond:
		return COND;
	case TWIR_Or:
		return OR;
	case TWIR_Xor:
		return XOR;
	case TWIR_And:
		return AND;
	case TWIR_Lt:
	case TWIR_Le:
	case TWIR_Eq:
	case TWIR_Ne:
		return COMPARE;
	case TWIR_Shl:
	case TWIR_Shr:
		return SHIFT;
	case TWIR_Add:
	case TWIR_Sub:
		return SUM;
	case TWIR_Mul:
	case TWIR_Div:
	case TWIR_Mod:
		return PRODUCT;
	case TWIR_Neg:
	case TWIR_Not:
		return PREFIX;
	default:
		return PRIMARY;
	}
}

static void put(struct twir_printer *p, const struct twir_expr *e, enum level least);

void twir_put_expr(struct twir_printer *p, const struct twir_expr *e)
{
	put(p, e, COND);
}

void twir_print_list(struct twir_printer *p, int n, const struct twir_expr *const *list)
{
	for (int i = 0; i < n; i++) {
		if (i)
			buf_puts(&p->b, ", ");
		put(p, list[i], COND);
	}
}

/* A splat beside a vector is left out: the constructors put it back. That needs one operand that is no splat. */
static bool beside_vector(const struct twir_expr *e)
{
	for (int i = 0; i < e->n; i++)
		if (e->arg[i]->type.lanes > 1 && e->arg[i]->kind != TWIR_Splat)
			return true;
	return false;
}

static const struct twir_expr *bare(const struct twir_expr *e, bool beside)
{
	return beside && e->kind == TWIR_Splat ? e->arg[0] : e;
}

static void put_infix(struct twir_printer *p, const struct twir_expr *e)
{
	const enum level own = level_of(e);
	const bool beside = beside_vector(e);
	put(p, bare(e->arg[0], beside), own == COMPARE ? own + 1 : own);
	buf_printf(&p->b, " %s ", twir_kind_text((enum twir_kind)e->kind));
	put(p, bare(e->arg[1], beside), own + 1);
}

static void put_call(struct twir_printer *p, const char *name, const struct twir_expr *e, bool beside)
{
	buf_printf(&p->b, "%s(", name);
	for (int i = 0; i < e->n; i++) {
		if (i)
			buf_puts(&p->b, ", ");
		put(p, bare(e->arg[i], beside), COND);
	}
	buf_putc(&p->b, ')');
}

static void put_where(struct twir_printer *p, const struct twir_expr *e)
{
	if (e->n == e->nidx)
		return;
	buf_puts(&p->b, " where ");
	put(p, e->arg[e->nidx], COND);
	buf_puts(&p->b, " else ");
	put(p, bare(e->arg[e->nidx + 1], true), COND);
}

static void put_load(struct twir_printer *p, const struct twir_expr *e)
{
	buf_puts(&p->b, twir_print_tensor(p, e->u.tensor));
	if (e->nidx == 0)
		return;
	buf_putc(&p->b, '[');
	twir_print_list(p, e->nidx, e->arg);
	if (e->type.lanes != e->u.tensor->lanes)
		buf_printf(&p->b, " +: %d", e->type.lanes);
	put_where(p, e);
	buf_putc(&p->b, ']');
}

static void put_fold(struct twir_printer *p, const struct twir_expr *e)
{
	buf_printf(&p->b, "%s(", twir_fold_name((enum twir_kind)e->op));
	const int mark = p->scope.n;
	for (int i = 0; i + 1 < e->n; i++) {
		buf_printf(&p->b, "%s < ", twir_print_var(p, e->u.axes[i]));
		put(p, e->arg[i + 1], SHIFT);
		buf_puts(&p->b, ", ");
	}
	put(p, e->arg[0], COND);
	twir_print_leave(p, mark);
	buf_putc(&p->b, ')');
}

/* Would it be a float that takes the type of a cast around it? f64(0.1) is the f64 nearest to 0.1. */
static bool loose(const struct twir_expr *e)
{
	if (e->kind == TWIR_Cond || e->kind == TWIR_Select)
		return loose(e->arg[1]) && loose(e->arg[2]);
	if (e->kind == TWIR_Splat)
		return loose(e->arg[0]);
	return e->kind == TWIR_Const && e->type.scalar == TWIR_F32;
}

static void put_other(struct twir_printer *p, const struct twir_expr *e)
{
	const char *type = twir_scalar_name((enum twir_scalar)e->type.scalar);
	switch (e->kind) {
	case TWIR_Const:
		twir_print_const(&p->b, e, p->suffixes);
		break;
	case TWIR_Var:
		buf_puts(&p->b, twir_print_var(p, e->u.var));
		break;
	case TWIR_Cond:
		put(p, e->arg[0], OR);
		buf_puts(&p->b, " ? ");
		put(p, e->arg[1], OR);
		buf_puts(&p->b, " : ");
		put(p, e->arg[2], COND);
		break;
	case TWIR_Cast: {
		const bool outer = p->suffixes;
		p->suffixes = twir_is_float(e->type.scalar) && loose(e->arg[0]);
		put_call(p, type, e, false);
		p->suffixes = outer;
		break;
	}
	case TWIR_Bitcast:
		buf_puts(&p->b, "bitcast_");
		put_call(p, type, e, false);
		break;
	case TWIR_Call:
		put_call(p, e->u.func->name, e, false);
		break;
	case TWIR_Load:
		put_load(p, e);
		break;
	case TWIR_Fold:
		put_fold(p, e);
		break;
	case TWIR_Reduce:
		buf_printf(&p->b, "reduce(%s, ", twir_combiner_name((enum twir_kind)e->op));
		if (twir_whole_register(e->arg[0]))
			buf_puts(&p->b, twir_print_tensor(p, e->arg[0]->u.tensor));
		else
			put(p, e->arg[0], COND);
		buf_putc(&p->b, ')');
		break;
	case TWIR_Splat:
		buf_puts(&p->b, "splat(");
		put(p, e->arg[0], COND);
		buf_printf(&p->b, ", %d)", e->type.lanes);
		break;
	case TWIR_Iota:
		buf_printf(&p->b, "iota_%s(%d)", type, e->type.lanes);
		break;
	case TWIR_Gather:
		buf_printf(&p->b, "gather(%s, ", twir_print_tensor(p, e->u.tensor));
		put(p, e->arg[0], COND);
		put_where(p, e);
		buf_putc(&p->b, ')');
		break;
	default:
		tw_raise(TW_ERR_INTERNAL, "%s has no text", twir_kind_name((enum twir_kind)e->kind));
	}
}

static void put(struct twir_printer *p, const struct twir_expr *e, enum level least)
{
	if (p->b.n > LONGEST)
		tw_raise(TW_ERR_INTERNAL, "the text of an expression is longer than %zu MiB: shared parts need lets",
			 LONGEST >> 20);
	const bool parenthesise = level_of(e) < least;
	if (parenthesise)
		buf_putc(&p->b, '(');
	const unsigned flags = twir_kind_flags((enum twir_kind)e->kind);
	if (e->kind == TWIR_Neg) {
		buf_putc(&p->b, '-');
		put(p, e->arg[0],
		    e->arg[0]->kind == TWIR_Const ? PRIMARY + 1 : PREFIX); /* -(1.0) is no negative constant */
	} else if (flags & TWIR_F_PREFIX) {
		buf_printf(&p->b, "%s ", twir_kind_text((enum twir_kind)e->kind));
		put(p, e->arg[0], PREFIX);
	} else if (flags & TWIR_F_INFIX) {
		put_infix(p, e);
	} else if (flags & TWIR_F_FUNC) {
		put_call(p, twir_kind_text((enum twir_kind)e->kind), e,
			 e->kind != TWIR_Extract && e->n > 1 && beside_vector(e));
	} else {
		put_other(p, e);
	}
	if (parenthesise)
		buf_putc(&p->b, ')');
}

/* mappings */

static void put_ranks(struct twir_printer *p, const struct twir_map *f)
{
	bool row = true;
	for (int i = 0; i < f->rank; i++)
		row &= f->order[i] == i;
	if (row)
		return;
	buf_puts(&p->b, ", ranks = [");
	for (int i = 0; i < f->rank; i++)
		buf_printf(&p->b, "%s%d", i ? ", " : "", f->order[i]);
	buf_putc(&p->b, ']');
}

static void put_attrs(struct twir_printer *p, const struct twir_map *f)
{
	static const char *const words[] = {[TWTM_PLAIN] = "plain", [TWTM_UNROLL] = "unroll", [TWTM_VECTOR] = "vector"};
	bool alike = true;
	for (int i = 1; i < f->rank; i++)
		alike &= f->attr[i] == f->attr[0];
	if (alike) {
		if (f->attr[0] != TWTM_PLAIN)
			buf_printf(&p->b, ", %s", words[f->attr[0]]);
		return;
	}
	buf_puts(&p->b, ", attrs = [");
	for (int i = 0; i < f->rank; i++)
		buf_printf(&p->b, "%s%s", i ? ", " : "", words[f->attr[i]]);
	buf_putc(&p->b, ']');
}

void twir_put_map(struct twir_printer *p, const struct twir_map *f)
{
	switch (f->kind) {
	case TWTM_REPEAT:
	case TWTM_SPATIAL:
		buf_puts(&p->b, f->kind == TWTM_REPEAT ? "repeat(" : "spatial(");
		twir_print_list(p, f->rank, f->extent);
		put_ranks(p, f);
		put_attrs(p, f);
		buf_putc(&p->b, ')');
		break;
	case TWTM_COMPOSE: {
		twir_put_map(p, f->a);
		const bool nested = f->b->kind == TWTM_COMPOSE;
		buf_puts(&p->b, nested ? " * (" : " * ");
		twir_put_map(p, f->b);
		if (nested)
			buf_putc(&p->b, ')');
		break;
	}
	case TWTM_PROJECT:
		buf_puts(&p->b, "project(");
		twir_put_map(p, f->a);
		buf_puts(&p->b, ", [");
		for (int i = 0, n = 0; i < f->rank; i++)
			if (f->projected & 1u << i)
				buf_printf(&p->b, "%s%d", n++ ? ", " : "", i);
		buf_puts(&p->b, "])");
		break;
	}
}

const char *twir_print_map(struct tw_arena *a, const struct twir_map *f)
{
	struct twir_printer p;
	twir_printer_init(&p, a);
	twir_put_map(&p, f);
	return p.b.at;
}

const char *twir_print_expr(struct tw_arena *a, const struct twir_expr *e)
{
	struct twir_printer p;
	twir_printer_init(&p, a);
	twir_print_symbols(&p, e);
	twir_put_expr(&p, e);
	return p.b.at;
}
