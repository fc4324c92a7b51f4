/* integers.c: sums of products of dequantised numbers become sums of integers.
 *
 * Input: definitions in order, with sums over k of  f32(a - za) * sa * (f32(b - zb) * sb)  where a and b are numbers of 8 bits; scales and zero points do not
 * depend on k. What dequantises may be a definition of its own, before moves (transpositions, padding with 0). Output: the same with a definition
 * before each that adds up  (a - za) * (b - zb)  in i32, and the sum it was as  f32(that) * (sa * sb): rounded twice instead of at every step. Only where
 * the sum of integers cannot overflow. Sums that no matmul makes, of a window over each channel, are added up in f32, which is faster there, where so
 * few terms are exact in it. */
#include "opt/opt.h"
#include "sched/nest.h"

typedef const struct twir_expr *E;

enum { MOST_ROUNDS = 8, MOST_COST = 60 /* of a factor as one expression */, MOST_CENTRED = 255 };

struct integers {
	struct tw_definitions *d, *out;
	tw_id node; /* of the definition at hand */
	struct twir_module *m;
	int region;	       /* marks passed: how loops and branches divide the list */
	struct tw_map made_by; /* tensor -> struct made, of definitions without a fold */
	E fold;
};

struct made {
	const struct twir_compute *c;
	int region;
};

struct factor { /* f32(number) * scale; scale NULL: 1 */
	E number, scale;
};

static bool uses_axes(E e, E fold)
{
	for (int i = 0; i < fold->n - 1; i++)
		if (twir_uses_var(e, fold->u.axes[i]))
			return true;
	return false;
}

static bool is_byte(E e)
{
	return e->type.scalar == TWIR_U8 || e->type.scalar == TWIR_I8;
}

/* A number of 8 bits less a zero point of 8 bits, or 0 instead of it: at most MOST_CENTRED in magnitude. */
static bool is_centred(E e, E fold)
{
	int64_t v;
	if (e->kind == TWIR_Cast && e->type.scalar == TWIR_I32)
		return is_byte(e->arg[0]);
	if (e->kind == TWIR_Cond)
		return is_centred(e->arg[1], fold) && twir_const_int(e->arg[2], &v) && v == 0;
	if (e->kind != TWIR_Sub || !is_centred(e->arg[0], fold) || e->arg[0]->kind != TWIR_Cast ||
	    uses_axes(e->arg[1], fold))
		return false;
	const E byte = e->arg[0]->arg[0], zero = e->arg[1];
	if (twir_const_int(zero, &v))
		return byte->type.scalar == TWIR_U8 ? v >= 0 && v <= 255 : v >= -128 && v <= 127;
	return zero->kind == TWIR_Cast && zero->arg[0]->type.scalar == byte->type.scalar;
}

static bool as_factor(struct integers *x, E e, struct factor *f)
{
	struct twir_module *m = x->m;
	if (e->type.scalar != TWIR_F32)
		return false;
	if (e->kind == TWIR_Cast) {
		E number = e->arg[0];
		if (is_byte(number))
			number = twir_cast(m, TWIR_I32, number);
		*f = (struct factor){number, NULL};
		return is_centred(number, x->fold);
	}
	if (e->kind == TWIR_Cond && e->arg[2]->kind == TWIR_Const && e->arg[2]->u.f == 0 &&
	    as_factor(x, e->arg[1], f)) {
		f->number = twir_cond(m, e->arg[0], f->number, twir_int(m, TWIR_I32, 0));
		return true;
	}
	for (int i = 0; e->kind == TWIR_Mul && i < 2; i++)
		if (!uses_axes(e->arg[1 - i], x->fold) && as_factor(x, e->arg[i], f)) {
			f->scale = f->scale ? twir_mul(m, f->scale, e->arg[1 - i]) : e->arg[1 - i];
			return true;
		}
	return false;
}

struct next {
	struct integers *x;
	const struct twir_compute *c;
};

static bool find_factor(struct integers *x, E e, struct factor *f);

static void see_load(void *arg, E e)
{
	struct next *n = arg;
	if (e->kind != TWIR_Load || n->c || !twir_is_float(e->u.tensor->type))
		return;
	const struct made *by = map_get_ptr(&n->x->made_by, e->u.tensor);
	if (by && by->region == n->x->region)
		n->c = by->c;
}

/* What moves dequantised numbers, with 0 where there are none (padding), moves the bytes instead: they are stored so, and e, which loads it, dequantises them.
 * NULL: it does something else. */
static E of_moved_bytes(struct integers *x, E e, const struct twir_compute *c)
{
	struct twir_module *m = x->m;
	struct factor f;
	int64_t v;
	if (c->value->kind != TWIR_Cond || !find_factor(x, c->value, &f) || f.number->kind != TWIR_Cond)
		return NULL;
	E number = f.number->arg[1], zero = NULL;
	if (number->kind == TWIR_Sub) {
		zero = number->arg[1];
		number = number->arg[0];
	}
	if (number->kind != TWIR_Cast || !is_byte(number->arg[0]) || (zero && !twir_const_int(zero, &v)))
		return NULL;
	const E byte = number->arg[0];
	const enum twir_scalar type = (enum twir_scalar)byte->type.scalar;
	struct twir_compute *moved = arena_copy(m->arena, c, sizeof(*c));
	moved->out = twir_tensor_new(m, c->out->base, type, c->out->rank, c->out->shape, TWIR_TENSOR);
	moved->value =
		twir_cond(m, f.number->arg[0], byte, zero ? twir_cast(m, type, zero) : twir_const_of(m, byte->type, 0));
	struct twir_compute again = *c;
	E at[TWIR_MAX_RANK];
	for (int d = 0; d < c->out->rank; d++)
		at[d] = twir_var(m, c->axes[d]);
	number = twir_cast(m, TWIR_I32, twir_load(m, moved->out, c->out->rank, at));
	number = zero ? twir_sub(m, number, zero) : number;
	again.value = twir_cast(m, TWIR_F32, number);
	again.value = f.scale ? twir_mul(m, again.value, f.scale) : again.value;
	vec_push(x->d->g->arena, &x->out->list, ((struct tw_definition){.compute = moved, .node = x->node}));
	return tw_inline(m, e, &again);
}

/* The factor with what makes its floats put in, until numbers of 8 bits show. */
static bool find_factor(struct integers *x, E e, struct factor *f)
{
	for (int round = 0; round < MOST_ROUNDS && tw_cost(e) <= MOST_COST; round++) {
		if (as_factor(x, e, f))
			return true;
		struct next next = {.x = x};
		twir_visit_expr(e, see_load, &next);
		if (!next.c)
			return false;
		const E moved = of_moved_bytes(x, e, next.c);
		e = moved ? moved : tw_inline(x->m, e, next.c);
	}
	return false;
}

static void see_fold(void *arg, E e)
{
	struct integers *x = arg;
	if (e->kind == TWIR_Fold)
		x->fold = e;
}

/* Are there so few terms that their sum is at most so large? */
static bool is_within(E fold, int64_t most)
{
	int64_t all = 1, n;
	for (int i = 1; i < fold->n; i++) {
		if (!twir_const_int(fold->arg[i], &n) || n > INT32_MAX)
			return false;
		all *= n;
		if (all > most / (MOST_CENTRED * MOST_CENTRED))
			return false;
	}
	return true;
}

/* Does each factor have an axis of its own, rows and columns? */
static bool is_product(const struct twir_compute *c, E a, E b)
{
	bool own[2] = {false, false};
	for (int d = 0; d < c->out->rank; d++) {
		const bool in_a = twir_uses_var(a, c->axes[d]), in_b = twir_uses_var(b, c->axes[d]);
		own[0] |= in_a && !in_b;
		own[1] |= in_b && !in_a;
	}
	return own[0] && own[1];
}

/* The definition of the sum of integers, which c then loads; NULL: c stays as it is. */
static struct twir_compute *rewrite(struct integers *x, struct twir_compute *c)
{
	struct twir_module *m = x->m;
	struct factor a, b;
	x->fold = NULL;
	twir_visit_expr(c->value, see_fold, x);
	const E fold = x->fold;
	if (!fold || fold->op != TWIR_Add || fold->type.scalar != TWIR_F32 || fold->arg[0]->kind != TWIR_Mul ||
	    !is_within(fold, INT32_MAX) || !find_factor(x, fold->arg[0]->arg[0], &a) ||
	    !find_factor(x, fold->arg[0]->arg[1], &b))
		return NULL;
	const int rank = c->out->rank;
	struct twir_compute *sum = ARENA_NEW(m->arena, struct twir_compute);
	E at[TWIR_MAX_RANK];
	struct twir_subst s;
	enum { EXACT = 1 << 24 };
	const bool floats = !is_product(c, a.number, b.number) && is_within(fold, EXACT);
	const enum twir_scalar type = floats ? TWIR_F32 : TWIR_I32;
	sum->out = twir_tensor_new(m, "sum", type, rank, c->out->shape, TWIR_TENSOR);
	sum->axes = ARENA_ARRAY(m->arena, struct twir_var *, rank);
	sum->origin = c->origin;
	twir_subst_init(&s, m);
	for (int d = 0; d < rank; d++) {
		sum->axes[d] = twir_var_new(m, TWIR_AXIS, twir_scalar_type(TWIR_INDEX), c->axes[d]->base);
		sum->axes[d]->lo = c->axes[d]->lo;
		sum->axes[d]->hi = c->axes[d]->hi;
		at[d] = twir_var(m, c->axes[d]);
		twir_subst_set(&s, c->axes[d], twir_var(m, sum->axes[d]));
	}
	const E product = twir_mul(m, twir_cast(m, type, a.number), twir_cast(m, type, b.number));
	sum->value = twir_subst_expr(&s, twir_fold(m, TWIR_Add, fold->n - 1, fold->u.axes, fold->arg + 1, product));
	E value = twir_cast(m, TWIR_F32, twir_load(m, sum->out, rank, at));
	const E scale = a.scale && b.scale ? twir_mul(m, a.scale, b.scale) : a.scale ? a.scale : b.scale;
	if (scale)
		value = twir_mul(m, value, scale);
	c->value = tw_swapped(m, c->value, fold, value);
	return sum;
}

void opt_add_integers(struct tw_definitions *d)
{
	struct tw_arena *a = d->g->arena;
	struct tw_definitions out = *d;
	struct integers x = {.d = d, .out = &out, .m = d->g->m};
	memset(&out.list, 0, sizeof(out.list));
	map_init(&x.made_by, a);
	for (int i = 0; i < d->list.n; i++) {
		struct tw_definition def = d->list.at[i];
		x.region += !def.compute;
		x.node = def.node;
		struct twir_compute *sum = def.compute && !def.compute->nprograms ? rewrite(&x, def.compute) : NULL;
		if (sum)
			vec_push(a, &out.list, ((struct tw_definition){.compute = sum, .node = def.node}));
		vec_push(a, &out.list, def);
		if (def.compute && !def.compute->nprograms && !tw_has_fold(def.compute->value)) {
			struct made *made = ARENA_NEW(a, struct made);
			*made = (struct made){def.compute, x.region};
			map_set_ptr(&x.made_by, def.compute->out, made);
		}
	}
	d->list = out.list;
}
