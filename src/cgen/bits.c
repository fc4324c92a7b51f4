/* bits: elements of 4 and 2 bits in the memory of parameters, the lower bits first. Input: loads and stores of lowered
 * programs; output: calls of helpers that take the parameter and the number of the element. A store keeps the other
 * elements of its byte, and lanes store one after another; that no other worker stores to the byte is the lowering's to
 * prove (twir_whole_bytes). Values and local tensors have a byte for each element, signed ones with their sign. */
#include "cgen/cgen_int.h"

bool cgen_in_bits(const struct twir_tensor *t)
{
	return twir_is_packed(t->type) && (t->scope == TWIR_IN || t->scope == TWIR_OUT);
}

static const char *op_of(struct cgen *g, const char *op, const struct twir_tensor *t)
{
	return arena_printf(g->m->arena, "%s%d", op, twir_scalar_bits(t->type));
}

static struct twir_type as_bytes(struct twir_type t)
{
	return with_scalar(t, cgen_storage(t.scalar));
}

void cgen_bits_pointer(struct cgen *g, const struct twir_tensor *t, int n, const struct twir_expr *const *index)
{
	put(g, cgen_tensor_name(g, t));
	put(g, " + (");
	cgen_flat_index(g, t, n, index);
	buf_printf(&g->out, ") / %d", 8 / twir_scalar_bits(t->type));
}

/* HELPER(p0, element, or HELPER(p0, base, indices */
static void head(struct cgen *g, const char *op, const struct twir_tensor *t, struct twir_type mem, int n,
		 const struct twir_expr *const *index, bool vector)
{
	const struct twir_expr *base;
	if (!vector) {
		buf_printf(&g->out, "%s(%s, ", cgen_helper_for(g, op_of(g, op, t), mem), cgen_tensor_name(g, t));
		cgen_flat_index(g, t, n, index);
		return;
	}
	const struct twir_expr *at = cgen_index_parts(index[0], &base);
	buf_printf(&g->out, "%s(%s, ", cgen_use(g->uses, op_of(g, op, t), mem, at->type), cgen_tensor_name(g, t));
	if (base)
		cgen_expr(g, base);
	else
		put(g, "0");
	put(g, ", ");
	cgen_expr(g, at);
}

void cgen_bits_load(struct cgen *g, const struct twir_expr *e)
{
	const bool gather = e->kind == TWIR_Gather, masked = e->n == e->nidx + 2;
	TW_CHECK(is_vector(e) || !masked, "program %s: a masked scalar load of %s", g->p->name, e->u.tensor->name);
	head(g,
	     gather   ? masked ? "bgatherm" : "bgather"
	     : masked ? "bldm"
		      : "bld",
	     e->u.tensor, as_bytes(e->type), e->nidx, e->arg, gather);
	if (masked) {
		put(g, ", ");
		cgen_expr(g, e->arg[e->nidx]);
		put(g, ", ");
		cgen_else_value(g, e, e->arg[e->nidx + 1]);
	}
	put(g, ")");
}

void cgen_bits_store(struct cgen *g, const struct twir_stmt *s)
{
	const struct twir_expr *v = s->u.store.value, *mask = s->u.store.mask;
	const bool scatter = s->u.store.n == 1 && is_vector(s->u.store.index[0]);
	TW_CHECK(is_vector(v) || !mask, "program %s: a masked scalar store to %s", g->p->name, s->u.store.tensor->name);
	head(g,
	     scatter ? mask ? "bscatterm" : "bscatter"
	     : mask  ? "bstm"
		     : "bst",
	     s->u.store.tensor, as_bytes(v->type), s->u.store.n, s->u.store.index, scatter);
	if (mask) {
		put(g, ", ");
		cgen_expr(g, mask);
	}
	put(g, ", ");
	cgen_expr(g, v);
	put(g, ")");
}
