/* inline_math: calls become lets before their statement; casts to and from f16 and bf16 become calls of the math
 * library first, those of packed integers arithmetic. needs: nothing; breaks: nothing. Out: no Call, no Cast that
 * touches f16, bf16 or f8; casts of packed integers are from and to the byte that holds their value.
 *
 * Functions are pure and total, so a call may be evaluated although a lazy conditional would not have chosen it. A
 * load may not: an argument that holds loads is bound under the conditions on its way, `let x = c ? A[i] : 0`. */
#include "pass/pass_int.h"

/* The conditions under which an expression is reached. */
struct path {
	const struct path *up;
	const struct twir_expr *cond; /* NULL: always */
	struct tw_map memo;	      /* expr -> replacement on this path */
	struct tw_map children[2];    /* cond -> struct path: then, else */
};

struct inl {
	struct twir_module *m;
	struct path *root;
	struct twp_list *out; /* lets of the statement at hand */
};

static struct path *path_new(struct inl *k, const struct path *up, const struct twir_expr *cond)
{
	struct path *p = ARENA_NEW(k->m->arena, struct path);
	p->up = up;
	p->cond = cond;
	map_init(&p->memo, k->m->scratch);
	map_init(&p->children[0], k->m->scratch);
	map_init(&p->children[1], k->m->scratch);
	return p;
}

static struct path *child(struct inl *k, struct path *p, const struct twir_expr *cond, bool other)
{
	struct path *c = map_get_ptr(&p->children[other], cond);
	if (!c) {
		const struct twir_expr *own = other ? twir_not(k->m, cond) : cond;
		/* The outer condition decides whether the inner one may be evaluated. */
		const struct twir_expr *both = !p->cond	    ? own
					       : own->loads ? twir_cond(k->m, p->cond, own, twir_bool(k->m, false))
							    : twir_and(k->m, p->cond, own);
		c = path_new(k, p, both);
		map_set_ptr(&p->children[other], cond, c);
	}
	return c;
}

static const struct twir_expr *bind(struct inl *k, const struct path *p, const char *name, const struct twir_expr *e)
{
	if (e->kind == TWIR_Const || e->kind == TWIR_Var)
		return e;
	if (e->loads && p->cond)
		e = twir_cond(k->m, p->cond, e, twir_const_of(k->m, e->type, 0));
	struct twir_var *v = twir_var_new(k->m, TWIR_BOUND, e->type, name);
	twp_list_add(k->out, twir_let(k->m, v, e));
	return twir_var(k->m, v);
}

static const struct twir_expr *rebuilt(struct inl *k, const struct path *p, const struct twir_expr *e,
				       const struct twir_expr *const *arg);

/* The function's expressions hold calls but no loads, so the path that matters is the caller's. */
static const struct twir_expr *body_expr(struct inl *k, const struct path *p, struct twp_replace *r,
					 struct tw_map *memo, const struct twir_expr *e)
{
	const struct twir_expr *done = map_get_ptr(memo, e);
	if (done)
		return done;
	if (e->kind == TWIR_Var) {
		done = twp_replace_expr(r, e);
	} else {
		const struct twir_expr *arg[64];
		TW_CHECK(e->n <= TW_COUNT(arg));
		for (int i = 0; i < e->n; i++)
			arg[i] = body_expr(k, p, r, memo, e->arg[i]);
		done = rebuilt(k, p, e, arg);
	}
	map_set_ptr(memo, e, (void *)done);
	return done;
}

static const struct twir_expr *inline_call(struct inl *k, const struct path *p, const struct twir_func *f,
					   const struct twir_expr *const *args)
{
	struct twp_replace r;
	struct tw_map memo;
	twp_replace_init(&r, k->m);
	map_init(&memo, k->m->scratch);
	for (int i = 0; i < f->n; i++)
		twp_replace_set(&r, f->args[i], bind(k, p, f->args[i]->base, args[i]));
	for (int i = 0; i < f->nlets; i++)
		twp_replace_set(&r, f->lets[i], bind(k, p, f->lets[i]->base, body_expr(k, p, &r, &memo, f->values[i])));
	return bind(k, p, f->name, body_expr(k, p, &r, &memo, f->body));
}

/* Floats of storage types, whose casts go by way of f32. */
static bool is_narrow(enum twir_scalar s)
{
	return twir_is_storage(s) && twir_is_float(s);
}

/* The bits of a narrow float as a number, and back: elements of 4 bits are u4 on the way. */
static const struct twir_expr *to_bits(struct inl *k, const struct twir_expr *x)
{
	const enum twir_scalar s = x->type.scalar;
	if (twir_is_packed(s))
		return twir_cast(k->m, TWIR_U8, twir_bitcast(k->m, TWIR_U4, x));
	return twir_bitcast(k->m, twir_scalar_bits(s) == 16 ? TWIR_U16 : TWIR_U8, x);
}

static const struct twir_expr *from_bits(struct inl *k, enum twir_scalar s, const struct twir_expr *x)
{
	return twir_bitcast(k->m, s, twir_is_packed(s) ? twir_cast(k->m, TWIR_U4, x) : x);
}

static bool is_packed_int(enum twir_scalar s)
{
	return twir_is_packed(s) && twir_is_int(s);
}

/* The type of a byte that holds a packed integer's value. */
static enum twir_scalar byte_of(enum twir_scalar s)
{
	return twir_is_signed(s) ? TWIR_I8 : TWIR_U8;
}

/* A number in a byte whose lower bits are the integer's: made the integer's value, which a cast then only renames. */
static const struct twir_expr *narrowed(struct inl *k, enum twir_scalar to, const struct twir_expr *byte)
{
	struct twir_module *m = k->m;
	const int bits = twir_scalar_bits(to);
	if (twir_is_signed(to)) {
		const struct twir_expr *by = twir_int(m, TWIR_I8, 8 - bits);
		byte = twir_binary(m, TWIR_Shr, twir_binary(m, TWIR_Shl, byte, by), by);
	} else {
		byte = twir_and(m, byte, twir_int(m, TWIR_U8, (1 << bits) - 1));
	}
	return twir_cast(m, to, byte);
}

static const struct twir_expr *convert(struct inl *k, const struct path *p, const char *name, const struct twir_expr *e)
{
	struct twir_func *f = twir_func_find(k->m, name);
	if (!f)
		tw_raise(TW_ERR_INTERNAL, "the math library lacks %s", name);
	return inline_call(k, p, f, &e);
}

/* x rounded to f32 so that a second rounding to a shorter format gives what one rounding would: to odd. */
static const struct twir_expr *to_f32_odd(struct inl *k, const struct path *p, const struct twir_expr *x)
{
	struct twir_module *m = k->m;
	x = bind(k, p, "x", x);
	const struct twir_expr *f = bind(k, p, "f", twir_cast(m, TWIR_F32, x));
	const struct twir_expr *back = bind(k, p, "back", twir_cast(m, TWIR_F64, f));
	const struct twir_expr *bits = twir_bitcast(m, TWIR_I32, f);
	const struct twir_expr *away = twir_lt(m, twir_unary(m, TWIR_Abs, x), twir_unary(m, TWIR_Abs, back));
	const struct twir_expr *one = twir_int(m, TWIR_I32, 1);
	const struct twir_expr *low = twir_select(m, away, twir_sub(m, bits, one), bits);
	const struct twir_expr *odd = twir_select(m, twir_eq(m, x, back), bits, twir_or(m, low, one));
	return twir_bitcast(m, TWIR_F32, odd);
}

/* A float saturates to the packed type's range, and NaN gives 0; an integer gives its lower bits. */
static const struct twir_expr *to_byte(struct inl *k, const struct path *p, enum twir_scalar to,
				       const struct twir_expr *x)
{
	struct twir_module *m = k->m;
	const int bits = twir_scalar_bits(to);
	if (twir_is_float(x->type.scalar)) {
		const struct twir_type t = x->type;
		x = bind(k, p, "x", x);
		const struct twir_expr *low = twir_const_of(m, t, twir_is_signed(to) ? -(1 << (bits - 1)) : 0);
		const struct twir_expr *high =
			twir_const_of(m, t, twir_is_signed(to) ? (1 << (bits - 1)) - 1 : (1 << bits) - 1);
		x = twir_select(m, twir_lt(m, x, low), low, twir_select(m, twir_lt(m, high, x), high, x));
	}
	return twir_cast(m, byte_of(to), x);
}

static const struct twir_expr *storage_cast(struct inl *k, const struct path *p, enum twir_scalar to,
					    const struct twir_expr *x)
{
	struct twir_module *m = k->m;
	const enum twir_scalar from = x->type.scalar;
	if (from == to)
		return x;
	if (is_packed_int(from))
		x = twir_cast(m, byte_of(from), x);
	if (is_narrow(from))
		x = convert(k, p, arena_printf(m->arena, "%s_to_f32", twir_scalar_name(from)), to_bits(k, x));
	if (is_packed_int(to))
		return narrowed(k, to, to_byte(k, p, to, x));
	if (!is_narrow(to))
		return twir_cast(m, to, x);
	if (x->type.scalar != TWIR_F32) /* f64 holds every integer that matters exactly */
		x = to_f32_odd(k, p, twir_cast(m, TWIR_F64, x));
	return from_bits(k, to, convert(k, p, arena_printf(m->arena, "f32_to_%s", twir_scalar_name(to)), x));
}

/* Bits of one packed type as another: as bytes they differ by the sign. */
static const struct twir_expr *packed_bits(struct inl *k, enum twir_scalar to, const struct twir_expr *x)
{
	struct twir_module *m = k->m;
	if (twir_is_float(x->type.scalar))
		x = twir_bitcast(m, TWIR_U4, x);
	const enum twir_scalar from = x->type.scalar, through = twir_is_float(to) ? TWIR_U4 : to;
	if (from != through)
		x = narrowed(k, through, twir_cast(m, byte_of(through), twir_cast(m, byte_of(from), x)));
	return twir_bitcast(m, to, x);
}

/* Casts and bitcasts that touch storage types. */
static bool touches_storage(const struct twir_expr *e, const struct twir_expr *x)
{
	const enum twir_scalar to = e->type.scalar, from = x->type.scalar;
	return (e->kind == TWIR_Cast && (twir_is_storage(to) || twir_is_storage(from))) ||
	       (e->kind == TWIR_Bitcast && twir_is_packed(to) && twir_is_packed(from));
}

/* e with other arguments, in which nothing is left to do: a call, or a cast that this pass does, becomes what it means. */
static const struct twir_expr *rebuilt(struct inl *k, const struct path *p, const struct twir_expr *e,
				       const struct twir_expr *const *arg)
{
	if (e->kind == TWIR_Call)
		return inline_call(k, p, e->u.func, arg);
	if (e->kind == TWIR_Cast && touches_storage(e, arg[0]))
		return storage_cast(k, p, e->type.scalar, arg[0]);
	if (e->kind == TWIR_Bitcast && touches_storage(e, arg[0]))
		return packed_bits(k, e->type.scalar, arg[0]);
	return twir_with_args(k->m, e, arg);
}

static bool has_work(struct tw_map *memo, const struct twir_expr *e)
{
	intptr_t known = (intptr_t)map_get_ptr(memo, e);
	if (known)
		return known == 2;
	bool yes = e->kind == TWIR_Call || (e->n == 1 && touches_storage(e, e->arg[0]));
	for (int i = 0; i < e->n && !yes; i++)
		yes = has_work(memo, e->arg[i]);
	map_set_ptr(memo, e, (void *)(intptr_t)(yes ? 2 : 1));
	return yes;
}

static const struct twir_expr *rewrite(struct inl *k, struct path *p, struct tw_map *work, const struct twir_expr *e)
{
	if (!has_work(work, e))
		return e;
	if (!e->loads)
		p = k->root; /* may be evaluated early, hence once for all paths */
	const struct twir_expr *done = map_get_ptr(&p->memo, e);
	if (done)
		return done;
	const struct twir_expr *arg[64];
	TW_CHECK(e->n <= TW_COUNT(arg));
	if (e->kind == TWIR_Cond) {
		arg[0] = rewrite(k, p, work, e->arg[0]);
		arg[1] = rewrite(k, child(k, p, arg[0], false), work, e->arg[1]);
		arg[2] = rewrite(k, child(k, p, arg[0], true), work, e->arg[2]);
	} else {
		for (int i = 0; i < e->n; i++)
			arg[i] = rewrite(k, p, work, e->arg[i]);
	}
	done = rebuilt(k, p, e, arg);
	map_set_ptr(&p->memo, e, (void *)done);
	return done;
}

static const struct twir_expr *whole(struct twp_walk *w, const struct twir_expr *e)
{
	struct inl *k = w->user;
	struct tw_map work;
	map_init(&work, w->m->scratch);
	return rewrite(k, k->root, &work, e);
}

static bool statement(struct twp_walk *w, const struct twir_stmt *s, struct twp_list *out)
{
	struct inl *k = w->user;
	const struct inl outer = *k;
	struct twp_list lets;
	twp_list_init(&lets);
	/* Memo and lets belong to this statement: what a nested block binds is bound inside it. */
	k->root = path_new(k, NULL, NULL);
	k->out = &lets;
	struct twir_stmt *c = twp_walk_stmt(w, s);
	*k = outer;
	twp_list_add(out, lets.head);
	twp_list_add(out, c);
	return true;
}

void pass_inline_math(struct twir_module *m, struct twir_program *p, const struct tw_target *t)
{
	(void)t;
	struct inl k = {.m = m};
	struct twp_walk w;
	twp_walk_init(&w, m, p);
	w.user = &k;
	w.stmt = statement;
	w.expr = whole;
	p->body = twp_walk_block(&w, p->body);
}
