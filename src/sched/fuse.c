/* Post-scheduling fusion, the pass pair. Prologue: a load of a tensor becomes its producer's expression. Epilogue: the store of the anchor's output becomes
 * the consumer's store, at the place that the inverse index map gives. The programs were scheduled without knowing of either.
 * Needs: the anchor's output stored once per element. */
#include "sched/sched.h"

static const struct twir_expr *fuse_load(struct twir_rewriter *r, const struct twir_expr *e)
{
	const struct twir_compute *c = r->user;
	if (e->kind != TWIR_Load || e->u.tensor != c->out)
		return e;
	TW_CHECK(e->type.lanes == 1 && e->nidx == e->n, "prologue fusion comes before lane lowering");
	struct twir_subst s;
	twir_subst_init(&s, r->m);
	for (int i = 0; i < c->out->rank; i++)
		twir_subst_set(&s, c->axes[i], e->arg[i]);
	return twir_subst_expr(&s, c->value);
}

/* A tensor that vanishes is not prefetched. */
static struct twir_stmt *fuse_prefetch(struct twir_rewriter *r, const struct twir_stmt *s)
{
	const struct twir_compute *c = r->user;
	return s->kind == TWIR_PREFETCH && s->u.prefetch.tensor == c->out ? &r->nothing : NULL;
}

void tw_fuse_prologue(struct twir_module *m, struct twir_program *p, const struct twir_compute *producer)
{
	struct twir_rewriter r;
	twir_rewriter_init(&r, m);
	r.user = (void *)producer;
	r.expr = fuse_load;
	r.stmt = fuse_prefetch;
	p->body = twir_rewrite_block(&r, p->body);
}

struct epilogue {
	struct twir_tensor *from;
	const struct twir_compute *consumer;
	const struct twir_expr *load; /* of `from`, in the consumer's value */
};

struct replace_load {
	const struct twir_expr *load, *by;
};

static const struct twir_expr *replace(struct twir_rewriter *r, const struct twir_expr *e)
{
	const struct replace_load *x = r->user;
	return e == x->load ? x->by : e;
}

static struct twir_stmt *fuse_store(struct twir_rewriter *r, const struct twir_stmt *s)
{
	const struct epilogue *f = r->user;
	if (s->kind == TWIR_PREFETCH && s->u.prefetch.tensor == f->from)
		return &r->nothing;
	if (s->kind != TWIR_STORE || s->u.store.tensor != f->from)
		return NULL;
	struct twir_module *m = r->m;
	const struct twir_compute *c = f->consumer;
	const struct twir_expr *axis[TWIR_MAX_RANK], *coords[TWIR_MAX_RANK], *value;
	struct twir_stmt *list = NULL;
	/* Coordinates are repeated, not named: lane lowering must see through them. Interning keeps that cheap. */
	for (int d = 0; d < s->u.store.n; d++)
		coords[d] = s->u.store.index[d];
	TW_CHECK(tw_invert(m, c->out->rank, c->axes, c->out->shape, f->from->rank, f->load->arg, f->from->shape, coords,
			   axis),
		 "%s cannot be fused into the store of %s", c->out->name, f->from->name);
	twir_append(&list, tw_let_new(m, "value", s->u.store.value, &value));
	/* First the load of the anchor's element becomes the stored value, then axes become places. */
	struct replace_load x = {f->load, value};
	struct twir_rewriter rep;
	twir_rewriter_init(&rep, m);
	rep.user = &x;
	rep.expr = replace;
	const struct twir_expr *e = twir_rewrite_expr(&rep, c->value);
	struct twir_subst sub;
	twir_subst_init(&sub, m);
	for (int i = 0; i < c->out->rank; i++)
		twir_subst_set(&sub, c->axes[i], axis[i]);
	twir_append(&list, twir_store(m, c->out, c->out->rank, axis, twir_subst_expr(&sub, e), NULL));
	return list;
}

void tw_fuse_epilogue(struct twir_module *m, struct twir_program *p, struct twir_tensor *anchor_out,
		      const struct twir_compute *consumer)
{
	struct epilogue f = {.from = anchor_out, .consumer = consumer};
	TW_CHECK(tw_loads_of(consumer->value, anchor_out, &f.load) == 1, "an epilogue loads its anchor at one place");
	struct twir_rewriter r;
	twir_rewriter_init(&r, m);
	r.user = &f;
	r.stmt = fuse_store;
	p->body = twir_rewrite_block(&r, p->body);
}
