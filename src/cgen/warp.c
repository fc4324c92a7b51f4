/* warp: what the threads of a warp do together: shuffles, matrix instructions, asynchronous copies. Input: lowered
 * programs for GPUs; output: calls of the dialect's helpers. Where a language has no warps, helpers meet at a barrier of
 * the block and hand values on through its memory: then all threads of the block must be there, and code where they may
 * not be is refused. */
#include "cgen/cgen_int.h"

struct variation {
	const struct cgen *g;
	bool yes;
};

static void vary(void *arg, const struct twir_expr *e)
{
	struct variation *v = arg;
	if (e->kind == TWIR_Var && e->u.var->kind == TWIR_WORKER)
		v->yes |= e->u.var->level != TWIR_BLOCK;
	else if (e->kind == TWIR_Var)
		v->yes |= map_get_ptr(&v->g->varying, e->u.var) != NULL;
}

bool cgen_varies(struct cgen *g, const struct twir_expr *e)
{
	struct variation v = {g, e->loads};
	if (!g->uses->d->words)
		return false;
	twir_visit_expr(e, vary, &v);
	return v.yes;
}

void cgen_together(const struct cgen *g, enum twir_level level, const char *what)
{
	if (g->uses->d->words->emulates && level != TWIR_BLOCK && g->divergent)
		tw_raise(TW_ERR_UNSUPPORTED,
			 "program %s: %s of a warp where not all threads of the block may be: %s has no warps, so that "
			 "all "
			 "of a block meet\nhint: let all warps do it, and choose whose result is stored",
			 g->p->name, what, g->uses->d->name);
}

/* Lanes of a warp, as the launch says. */
static int64_t lanes(const struct cgen *g)
{
	int64_t n = 32;
	if (g->p->nlevels == 3)
		(void)twir_const_int(g->p->extents[2], &n);
	if (n < 1 || n > 32 || (n & (n - 1)))
		tw_raise(TW_ERR_UNSUPPORTED,
			 "program %s: warps of %lld lanes pass nothing on: 32 or a smaller power of two do", g->p->name,
			 (long long)n);
	return n;
}

static void pool_argument(struct cgen *g)
{
	if (!g->uses->d->words->emulates)
		return;
	g->pooled = true;
	put(g, ", pool");
}

void cgen_shuffle(struct cgen *g, const struct twir_expr *e)
{
	TW_CHECK(g->uses->d->words, "program %s: a shuffle in code for a CPU", g->p->name);
	const char *op = e->kind == TWIR_ShflUp	    ? "shfl_up"
			 : e->kind == TWIR_ShflDown ? "shfl_down"
			 : e->kind == TWIR_ShflXor  ? "shfl_xor"
						    : "shfl_idx";
	cgen_together(g, TWIR_WARP, "a shuffle");
	buf_printf(&g->out, "%s(", cgen_helper_for(g, op, e->type));
	cgen_expr(g, e->arg[0]);
	put(g, ", ");
	cgen_expr(g, e->arg[1]);
	buf_printf(&g->out, ", %d", (int)lanes(g));
	pool_argument(g);
	put(g, ")");
}

static void tabs(struct cgen *g)
{
	for (int i = 0; i < g->indent; i++)
		buf_putc(&g->out, '\t');
}

void cgen_copy_async(struct cgen *g, const struct twir_stmt *s)
{
	const struct twir_expr *v = s->u.store.value, *cond = NULL, *other = NULL;
	if (v->kind == TWIR_Cond) {
		cond = v->arg[0];
		other = v->arg[2]->kind == TWIR_Splat ? v->arg[2]->arg[0] : v->arg[2];
		v = v->arg[1];
	}
	const struct twir_type type = {(uint8_t)cgen_storage(v->type.scalar), 1};
	const bool zero = other && (twir_is_float(other->type.scalar) ? other->u.f == 0 : other->u.i == 0);
	TW_CHECK(v->kind == TWIR_Load && g->uses->d->words, "program %s: an asynchronous copy of what is no load",
		 g->p->name);
	buf_printf(&g->out, "%s(", cgen_helper_for(g, cond && !zero ? "copy_or" : "copy_async", type));
	cgen_pointer(g, s->u.store.tensor, s->u.store.n, s->u.store.index);
	put(g, ", ");
	cgen_pointer(g, v->u.tensor, v->nidx, v->arg);
	buf_printf(&g->out, ", %d, ", v->type.lanes);
	if (cond)
		cgen_expr(g, cond);
	else
		put(g, "1");
	if (cond && !zero) {
		put(g, ", ");
		cgen_expr(g, other);
	}
	put(g, ");\n");
}

static void fragment(struct cgen *g, const struct twir_fragment *f)
{
	const struct twir_tensor *t = f->tensor;
	const struct twir_expr *at = twir_index(g->m, 0);
	for (int i = 0; i < t->rank; i++) {
		at = twir_mul(g->m, at, t->shape[i]);
		if (i < f->n)
			at = twir_add(g->m, at, f->index[i]);
	}
	put(g, cgen_tensor_name(g, t));
	put(g, " + ");
	cgen_expr(g, at);
}

static void mma(struct cgen *g, const struct twir_stmt *s)
{
	const struct twir_mma *shape = s->u.mma.shape;
	if (lanes(g) != 32)
		tw_raise(TW_ERR_UNSUPPORTED, "program %s: a matrix instruction needs warps of 32 lanes", g->p->name);
	cgen_together(g, TWIR_WARP, "a matrix instruction");
	buf_printf(&g->out, "%s(",
		   cgen_use(g->uses, arena_printf(g->m->arena, "mma_%s", shape->name), twir_scalar_type(shape->type),
			    twir_scalar_type(shape->sum)));
	for (int k = 0; k < 3; k++) {
		put(g, k ? ", " : "");
		fragment(g, &s->u.mma.part[k]);
	}
	pool_argument(g);
	put(g, ");\n");
}

void cgen_warp_stmt(struct cgen *g, const struct twir_stmt *s)
{
	const struct cgen_words *w = g->uses->d->words;
	TW_CHECK(w, "program %s: a statement of GPU threads in code for a CPU", g->p->name);
	if (s->kind == TWIR_MMA) {
		tabs(g);
		mma(g, s);
	} else if (s->kind == TWIR_COMMIT && w->commit) {
		tabs(g);
		buf_printf(&g->out, "%s;\n", w->commit);
	} else if (s->kind == TWIR_WAIT && w->wait) {
		tabs(g);
		buf_printf(&g->out, w->wait, s->u.wait.pending);
		put(g, ";\n");
	}
}
