/* memory: accesses to tensors: elements, pointers, wide and masked loads, gathers. Input: loads of lowered programs
 * with one flattened index (registers: none or one for each dimension); output: C expressions. */
#include "cgen/cgen_int.h"

const char *cgen_tensor_name(struct cgen *g, const struct twir_tensor *t)
{
	const char *name = map_get_ptr(&g->tensors, t);
	TW_CHECK(name, "program %s: tensor %s is not declared where it is used", g->p->name, t->name);
	return name;
}

/* The flat index of an access: one index, or row-major over constant extents for register arrays. */
void cgen_flat_index(struct cgen *g, const struct twir_tensor *t, int n, const struct twir_expr *const *index)
{
	if (n == 0) {
		put(g, "0");
		return;
	}
	TW_CHECK(n == 1 || (t->scope == TWIR_REGISTER && n == t->rank), "program %s: %s has %d indices in lowered code",
		 g->p->name, t->name, n);
	for (int i = 2; i < n; i++) /* ((a * d1 + b) * d2 + c) */
		put(g, "(");
	for (int i = 0; i < n; i++) {
		if (i) {
			put(g, " * ");
			cgen_expr(g, t->shape[i]);
			put(g, " + ");
		}
		cgen_expr(g, index[i]);
		if (i > 0 && i + 1 < n)
			put(g, ")");
	}
}

void cgen_element(struct cgen *g, const struct twir_tensor *t, int n, const struct twir_expr *const *index)
{
	put(g, cgen_tensor_name(g, t));
	if (t->scope == TWIR_REGISTER && t->rank == 0)
		return;
	put(g, "[");
	cgen_flat_index(g, t, n, index);
	put(g, "]");
}

void cgen_pointer(struct cgen *g, const struct twir_tensor *t, int n, const struct twir_expr *const *index)
{
	put(g, cgen_tensor_name(g, t));
	put(g, " + ");
	cgen_flat_index(g, t, n, index);
}

static struct twir_type memory_type(const struct twir_expr *e)
{
	return with_scalar(e->type, cgen_storage(e->type.scalar));
}

/* What masked-out lanes give, in the type that memory holds. */
void cgen_else_value(struct cgen *g, const struct twir_expr *e, const struct twir_expr *other)
{
	const struct twir_type t = memory_type(e);
	if (is_i1(e) && is_vector(other)) {
		cgen_call_text(g, cgen_helper_for(g, "frommask", t), 1, &other);
	} else if (is_vector(other)) {
		cgen_expr(g, other);
	} else {
		cgen_call_text(g, cgen_helper_for(g, "splat", t), 1, &other);
	}
}

void cgen_load(struct cgen *g, const struct twir_expr *e)
{
	const struct twir_tensor *t = e->u.tensor;
	const bool masked = e->n == e->nidx + 2;
	if (cgen_in_bits(t)) {
		cgen_bits_load(g, e);
		return;
	}
	if (t->scope == TWIR_REGISTER && t->lanes == e->type.lanes) {
		TW_CHECK(!masked, "program %s: a masked load of register %s", g->p->name, t->name);
		cgen_element(g, t, e->nidx, e->arg);
		return;
	}
	if (!is_vector(e)) {
		TW_CHECK(!masked, "program %s: a masked scalar load of %s", g->p->name, t->name);
		if (is_i1(e))
			put(g, "(");
		cgen_element(g, t, e->nidx, e->arg);
		if (is_i1(e))
			put(g, " != 0)");
		return;
	}
	const struct twir_type mem = memory_type(e);
	if (is_i1(e)) /* the helper is named after what memory holds */
		buf_printf(&g->out, "%s(", cgen_helper_for(g, "tomask", mem));
	buf_printf(&g->out, "%s(", cgen_helper_for(g, masked ? "ldm" : "ld", mem));
	cgen_pointer(g, t, e->nidx, e->arg);
	if (masked) {
		put(g, ", ");
		cgen_expr(g, e->arg[e->nidx]);
		put(g, ", ");
		cgen_else_value(g, e, e->arg[e->nidx + 1]);
	}
	put(g, is_i1(e) ? "))" : ")");
}

/* splat(base) + index(i32 vector): gives the vector and sets *base; else the index, with no base. */
const struct twir_expr *cgen_index_parts(const struct twir_expr *index, const struct twir_expr **base)
{
	*base = NULL;
	for (int i = 0; index->kind == TWIR_Add && i < 2; i++) {
		const struct twir_expr *first = index->arg[i], *lanes = index->arg[1 - i];
		if (first->kind != TWIR_Splat || lanes->kind != TWIR_Cast || lanes->arg[0]->type.scalar != TWIR_I32)
			continue;
		*base = first->arg[0];
		return lanes->arg[0];
	}
	return index;
}

const struct twir_expr *cgen_indexed(struct cgen *g, const struct twir_tensor *t, const struct twir_expr *index)
{
	const struct twir_expr *base;
	index = cgen_index_parts(index, &base);
	put(g, cgen_tensor_name(g, t));
	if (base) {
		put(g, " + ");
		cgen_expr(g, base);
	}
	put(g, ", ");
	return index;
}

/* The type of the indices that cgen_indexed leaves. */
struct twir_type cgen_index_type(const struct twir_expr *index)
{
	const struct twir_expr *base;
	return cgen_index_parts(index, &base)->type;
}

/* p[2 * l + ..] for each lane: what remains of the index is iota * 2. */
static bool every_second(const struct cgen *g, const struct twir_expr *e)
{
	const struct twir_type t = e->type;
	const struct twir_expr *index = e->arg[0];
	int64_t two;
	if (e->n != 1 || (t.scalar != TWIR_F32 && t.scalar != TWIR_I32) || t.lanes < 4 || t.lanes > 16 ||
	    cgen_is_wide(g->uses, t))
		return false;
	for (int i = 0; index->kind == TWIR_Add && i < 2; i++)
		if (index->arg[i]->kind == TWIR_Splat && index->arg[1 - i]->kind == TWIR_Cast) {
			index = index->arg[1 - i]->arg[0];
			break;
		}
	return index->kind == TWIR_Mul && index->arg[0]->kind == TWIR_Iota && index->arg[1]->kind == TWIR_Splat &&
	       twir_const_int(index->arg[1]->arg[0], &two) && two == 2;
}

void cgen_gather(struct cgen *g, const struct twir_expr *e)
{
	const bool masked = e->n == 3;
	const struct twir_type mem = memory_type(e);
	if (cgen_in_bits(e->u.tensor)) {
		cgen_bits_load(g, e);
		return;
	}
	if (every_second(g, e)) {
		buf_printf(&g->out, "%s(", cgen_helper_for(g, "ld2", mem));
		(void)cgen_indexed(g, e->u.tensor, e->arg[0]);
		g->out.n -= 2; /* the comma before the indices */
		put(g, ")");
		return;
	}
	if (is_i1(e))
		buf_printf(&g->out, "%s(", cgen_helper_for(g, "tomask", mem));
	buf_printf(&g->out, "%s(", cgen_use(g->uses, masked ? "gatherm" : "gather", mem, cgen_index_type(e->arg[0])));
	cgen_expr(g, cgen_indexed(g, e->u.tensor, e->arg[0]));
	if (masked) {
		put(g, ", ");
		cgen_expr(g, e->arg[1]);
		put(g, ", ");
		cgen_else_value(g, e, e->arg[2]);
	}
	put(g, is_i1(e) ? "))" : ")");
}
