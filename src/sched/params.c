/* Gives a finished program its parameters: one for each compute tensor that it loads (in) or stores (out), in order of first appearance, inputs first.
 * A tensor of words that sees the bytes of another is a parameter of words for which the other is handed in. An output may take over the buffer of an input that the program reads only at the very element it then stores. */
#include "sched/sched.h"

struct binder {
	struct twir_module *m;
	struct tw_arena *a;
	VEC(struct twir_tensor *) ins, outs; /* compute tensors */
	struct tw_map made;		     /* compute tensor -> parameter */
};

static void add_once(struct binder *b, struct twir_tensor *t, bool out)
{
	if (t->scope != TWIR_TENSOR || map_get_ptr(&b->made, t))
		return;
	struct twir_tensor *param =
		twir_tensor_new(b->m, t->name, t->type, t->rank, t->shape, out ? TWIR_OUT : TWIR_IN);
	param->layout = t->layout;
	map_set_ptr(&b->made, t, param);
	if (out)
		vec_push(b->a, &b->outs, t);
	else
		vec_push(b->a, &b->ins, t);
}

static void see_stmt(void *arg, const struct twir_stmt *s)
{
	if (s->kind == TWIR_STORE)
		add_once(arg, s->u.store.tensor, true);
}

static void see_sub(void *arg, const struct twir_expr *e)
{
	if (e->kind == TWIR_Load || e->kind == TWIR_Gather)
		add_once(arg, e->u.tensor, false);
}

static void see_expr(void *arg, const struct twir_expr *e)
{
	twir_visit_expr(e, see_sub, arg);
}

static const struct twir_expr *bind_load(struct twir_rewriter *r, const struct twir_expr *e)
{
	const struct binder *b = r->user;
	if (e->kind != TWIR_Load)
		return e;
	struct twir_tensor *param = map_get_ptr(&b->made, e->u.tensor);
	return param ? twir_load(r->m, param, e->n, e->arg) : e;
}

static struct twir_stmt *bind_prefetch(struct twir_rewriter *r, const struct twir_stmt *s)
{
	const struct binder *b = r->user;
	struct twir_tensor *param = map_get_ptr(&b->made, s->u.prefetch.tensor);
	const struct twir_expr *index[TWIR_MAX_RANK];
	if (!param) /* nobody reads it */
		return &r->nothing;
	for (int i = 0; i < s->u.prefetch.n; i++)
		index[i] = twir_rewrite_expr(r, s->u.prefetch.index[i]);
	return twir_prefetch(r->m, param, s->u.prefetch.n, index, s->u.prefetch.near);
}

static struct twir_stmt *bind_store(struct twir_rewriter *r, const struct twir_stmt *s)
{
	const struct binder *b = r->user;
	if (s->kind == TWIR_PREFETCH && s->u.prefetch.tensor->scope == TWIR_TENSOR)
		return bind_prefetch(r, s);
	struct twir_tensor *param = s->kind == TWIR_STORE ? map_get_ptr(&b->made, s->u.store.tensor) : NULL;
	if (!param)
		return NULL;
	const struct twir_expr **index = ARENA_ARRAY(r->m->arena, const struct twir_expr *, s->u.store.n);
	for (int i = 0; i < s->u.store.n; i++)
		index[i] = twir_rewrite_expr(r, s->u.store.index[i]);
	return twir_store(r->m, param, s->u.store.n, index, twir_rewrite_expr(r, s->u.store.value), NULL);
}

/* In-place: all loads of `in` are in the statement that stores `out` (or in lets just before it is out of the question: they would show as loads elsewhere), at the
   same index, and both have the same shape, type and layout. */
struct inplace {
	const struct twir_tensor *in, *out;
	const struct twir_stmt *store;
	int stores, loads_outside;
	const struct twir_stmt *current;
};

static void inplace_stmt(void *arg, const struct twir_stmt *s)
{
	struct inplace *x = arg;
	x->current = s;
	if (s->kind == TWIR_STORE && s->u.store.tensor == x->out) {
		x->store = s;
		x->stores++;
	}
}

static void inplace_expr(void *arg, const struct twir_expr *e)
{
	struct inplace *x = arg;
	const struct twir_expr *load = NULL;
	const int n = tw_loads_of(e, x->in, &load);
	if (n == 0)
		return;
	const struct twir_stmt *s = x->current;
	bool same = n == 1 && s && s->kind == TWIR_STORE && s->u.store.tensor == x->out && e == s->u.store.value;
	for (int i = 0; same && i < load->nidx; i++)
		same = load->arg[i] == s->u.store.index[i];
	x->loads_outside += !same;
}

static bool may_take_over(const struct twir_program *p, const struct twir_tensor *in, const struct twir_tensor *out)
{
	if (in->type != out->type || in->rank != out->rank || !twir_layout_equal(in->layout, out->layout))
		return false;
	for (int i = 0; i < in->rank; i++)
		if (in->shape[i] != out->shape[i])
			return false;
	struct inplace x = {.in = in, .out = out};
	twir_visit_block(p->body, inplace_stmt, inplace_expr, &x);
	return x.stores == 1 && x.loads_outside == 0;
}

void tw_bind_params(struct twir_module *m, struct twir_program *p, struct tw_kernel *k)
{
	struct binder b = {.m = m, .a = m->arena};
	map_init(&b.made, m->arena);
	twir_visit_block(p->body, see_stmt, NULL, &b); /* outputs first: what is stored is never an input */
	twir_visit_block(p->body, NULL, see_expr, &b);
	struct twir_rewriter r;
	twir_rewriter_init(&r, m);
	r.user = &b;
	r.expr = bind_load;
	r.stmt = bind_store;
	p->body = twir_rewrite_block(&r, p->body);
	const int nin = b.ins.n, nout = b.outs.n;
	k->program = p;
	k->nargs = nin + nout;
	k->nout = nout;
	k->args = ARENA_ARRAY(m->arena, struct twir_tensor *, k->nargs);
	k->inplace = ARENA_ARRAY(m->arena, int, nout);
	p->nparams = k->nargs;
	p->params = ARENA_ARRAY(m->arena, struct twir_tensor *, k->nargs);
	for (int i = 0; i < k->nargs; i++) {
		struct twir_tensor *t = i < nin ? b.ins.at[i] : b.outs.at[i - nin];
		p->params[i] = map_get_ptr(&b.made, t);
		k->args[i] = t->bytes ? t->bytes : t;
	}
	for (int o = 0; o < nout; o++) {
		k->inplace[o] = -1;
		for (int i = 0; i < nin && k->inplace[o] < 0; i++)
			if (may_take_over(p, p->params[i], p->params[nin + o])) {
				k->inplace[o] = i;
				p->params[nin + o]->alias = p->params[i];
			}
	}
	twir_program_symbols(m, p);
}
