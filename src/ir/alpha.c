/* Equality of expressions and funcs up to the names of their binders: where two texts declare the same func, and where
 * a text repeats a fold that was one expression when it was printed. Expressions that were parsed are as large as
 * trees as their text is long, so plain recursion is enough. */
#include "ir/ir_int.h"

static bool same_var(const struct twir_pairs *p, const struct twir_var *a, const struct twir_var *b)
{
	for (int i = p->n - 1; i >= 0; i--)
		if (p->left[i] == a || p->right[i] == b)
			return p->left[i] == a && p->right[i] == b;
	return a == b;
}

bool twir_same_expr(struct twir_pairs *p, const struct twir_expr *a, const struct twir_expr *b)
{
	if (a->kind != b->kind || !twir_type_eq(a->type, b->type) || a->n != b->n || a->op != b->op ||
	    a->nidx != b->nidx)
		return false;
	const int mark = p->n;
	switch (a->kind) {
	case TWIR_Const:
		return a == b;
	case TWIR_Var:
		return same_var(p, a->u.var, b->u.var);
	case TWIR_Load:
	case TWIR_Gather:
		if (a->u.tensor != b->u.tensor)
			return false;
		break;
	case TWIR_Call:
		if (a->u.func != b->u.func)
			return false;
		break;
	case TWIR_Fold:
		for (int i = 1; i < a->n; i++)
			if (!twir_same_expr(p, a->arg[i], b->arg[i]))
				return false;
		if (p->n + a->n - 1 > TW_COUNT(p->left))
			return false;
		for (int i = 0; i + 1 < a->n; i++) {
			p->left[p->n] = a->u.axes[i];
			p->right[p->n++] = b->u.axes[i];
		}
		break;
	default:
		break;
	}
	bool same = true;
	for (int i = 0; i < (a->kind == TWIR_Fold ? 1 : a->n) && same; i++)
		same = twir_same_expr(p, a->arg[i], b->arg[i]);
	p->n = mark;
	return same;
}

bool twir_same_func(const struct twir_func *f, const struct twir_func *g)
{
	struct twir_pairs p = {0};
	if (!twir_type_eq(f->result, g->result) || f->n != g->n || f->nlets != g->nlets ||
	    f->n + f->nlets > TW_COUNT(p.left) - 2 * TWIR_MAX_RANK)
		return false;
	for (int i = 0; i < f->n; i++) {
		if (!twir_type_eq(f->args[i]->type, g->args[i]->type))
			return false;
		p.left[p.n] = f->args[i];
		p.right[p.n++] = g->args[i];
	}
	for (int i = 0; i < f->nlets; i++) {
		if (!twir_same_expr(&p, f->values[i], g->values[i]))
			return false;
		p.left[p.n] = f->lets[i];
		p.right[p.n++] = g->lets[i];
	}
	return twir_same_expr(&p, f->body, g->body);
}
