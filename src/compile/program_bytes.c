/* program_bytes: parameters of packed types at the edge of a run, where each element has a byte: i8 for i4 and i2, u8
 * for u4 and u2, the bits of an f4e2m1 in a u8. Input: a launch function; output: one whose parameters are bytes,
 * which packs inputs into buffers before its statements and takes outputs out of buffers behind them. */
#include "compile/program_int.h"

enum { CHUNK = 1024, THREADS = 32, EACH = 4 };

typedef const struct twir_expr *E;

static enum twir_scalar byte_of(enum twir_scalar packed)
{
	return packed == TWIR_I4 || packed == TWIR_I2 ? TWIR_I8 : TWIR_U8;
}

static E to_bits(struct twir_module *m, enum twir_scalar to, E byte)
{
	if (to != TWIR_F4E2M1)
		return twir_cast(m, to, byte);
	return twir_bitcast(m, to, twir_cast(m, TWIR_U4, byte));
}

static E to_byte(struct twir_module *m, E x)
{
	if (x->type.scalar == TWIR_F4E2M1)
		x = twir_bitcast(m, TWIR_U4, x);
	return twir_cast(m, byte_of(x->type.scalar), x);
}

static struct twir_tensor *like(struct twir_module *m, const struct twir_tensor *t, enum twir_scalar type,
				enum twir_scope scope)
{
	struct twir_tensor *n = twir_tensor_new(m, t->base, type, t->rank, t->shape, scope);
	n->base = t->base;
	return n;
}

/* for (i) in spatial(..) * repeat(..) within (n) { to[i] = from[i]; }   on cores, or on blocks and threads */
static struct twir_program *conversion(struct twir_module *m, const struct twir_tensor *t, bool pack, bool gpu)
{
	const enum twir_scalar type = t->type, byte = byte_of(type);
	struct twir_tensor *from = like(m, t, pack ? byte : type, TWIR_IN);
	struct twir_tensor *to = like(m, t, pack ? type : byte, TWIR_OUT);
	struct twir_program *p = ARENA_NEW(m->arena, struct twir_program);
	struct twir_var *v = twir_var_new(m, TWIR_LOOP, twir_scalar_type(TWIR_INDEX), "i");
	const E n = twir_tensor_elements(m, t), i = twir_var(m, v), chunk = twir_index(m, gpu ? THREADS * EACH : CHUNK);
	const E parts = twir_ceildiv(m, n, chunk), threads = twir_index(m, THREADS),
		each = twir_index(m, gpu ? EACH : CHUNK);
	const int rank = t->rank > 0;
	const E x = twir_load(m, from, rank, &i);
	struct twir_stmt *s = twir_stmt_new(m, TWIR_FORMAP);
	s->u.formap.n = 1;
	s->u.formap.vars = arena_copy(m->arena, &v, sizeof(v));
	s->u.formap.map = twir_spatial(m, 1, &parts);
	if (gpu)
		s->u.formap.map = twir_compose(m, s->u.formap.map, twir_spatial(m, 1, &threads));
	s->u.formap.map = twir_compose(m, s->u.formap.map, twir_repeat(m, 1, &each, NULL));
	s->u.formap.nlevels = gpu ? 2 : 1;
	s->u.formap.levels[0] = gpu ? TWIR_BLOCK : TWIR_CORE;
	s->u.formap.levels[1] = TWIR_THREAD;
	s->u.formap.bounds = arena_copy(m->arena, &n, sizeof(E));
	s->u.formap.body = twir_store(m, to, rank, &i, pack ? to_bits(m, type, x) : to_byte(m, x), NULL);
	p->name = arena_printf(m->arena, "%s_%s", pack ? "pack" : "unpack", t->name);
	p->nparams = 2;
	p->params = ARENA_ARRAY(m->arena, struct twir_tensor *, 2);
	p->params[0] = from;
	p->params[1] = to;
	p->nlevels = s->u.formap.nlevels;
	p->levels[0] = s->u.formap.levels[0];
	p->levels[1] = TWIR_THREAD;
	p->extents[0] = parts;
	p->extents[1] = threads;
	p->body = s;
	twir_program_symbols(m, p);
	return p;
}

static struct twir_stmt *call(struct twir_module *m, struct twir_program *p, struct twir_tensor *a,
			      struct twir_tensor *b)
{
	struct twir_stmt *s = twir_stmt_new(m, TWIR_INVOKE);
	s->u.invoke.program = p;
	s->u.invoke.n = 2;
	s->u.invoke.args = ARENA_ARRAY(m->arena, struct twir_argument, 2);
	s->u.invoke.args[0].tensor = a;
	s->u.invoke.args[1].tensor = b;
	return s;
}

static void first_program(void *arg, const struct twir_stmt *s)
{
	const struct twir_program **found = arg;
	if (s->kind == TWIR_INVOKE && !*found)
		*found = s->u.invoke.program;
}

struct swap {
	const struct twir_tensor *was;
	struct twir_tensor *is;
};

static void swap_arguments(void *arg, const struct twir_stmt *s)
{
	const struct swap *w = arg;
	for (int i = 0; s->kind == TWIR_INVOKE && i < s->u.invoke.n; i++)
		if (s->u.invoke.args[i].tensor == w->was)
			s->u.invoke.args[i].tensor = w->is;
}

static bool is_plain_packed(const struct twir_tensor *t)
{
	return twir_is_packed(t->type) && !t->layout;
}

struct twir_launch *twpr_with_bytes(struct twir_module *m, struct twir_launch *l)
{
	struct twir_stmt *before = NULL, *behind = NULL;
	const struct twir_program *first = NULL;
	bool any = false;
	for (int i = 0; i < l->nparams; i++)
		any |= is_plain_packed(l->params[i]);
	if (!any)
		return l;
	twir_visit_block(l->body, first_program, NULL, &first);
	const bool gpu = first && twpr_is_gpu(first);
	struct twir_launch *n = arena_copy(m->arena, l, sizeof(*l));
	n->params = arena_copy(m->arena, l->params, sizeof(*l->params) * (size_t)l->nparams);
	for (int i = 0; i < l->nparams; i++) {
		struct twir_tensor *t = l->params[i];
		if (!is_plain_packed(t))
			continue;
		struct twir_tensor *bytes = like(m, t, byte_of(t->type), t->scope);
		struct twir_tensor *bits = like(m, t, t->type, TWIR_BUFFER);
		struct twir_stmt *s = twir_stmt_new(m, TWIR_DECLARE);
		struct swap w = {t, bits};
		s->u.declare.tensor = bits;
		twir_append(&before, s);
		twir_visit_block(l->body, swap_arguments, NULL, &w);
		if (t->scope == TWIR_OUT)
			twir_append(&behind, call(m, conversion(m, t, false, gpu), bits, bytes));
		else
			twir_append(&before, call(m, conversion(m, t, true, gpu), bytes, bits));
		n->params[i] = bytes;
	}
	twir_append(&before, l->body);
	twir_append(&before, behind);
	n->body = before;
	return n;
}
