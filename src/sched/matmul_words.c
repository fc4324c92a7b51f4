/* Sums of products of bytes, four products at a time. Input: a problem whose factors are numbers of 8 bits less zero points, on a target that has dot4. Output:
 * the same problem over words of four bytes along the last axis of K: factors are i32, the sum is one of dot4, and what the zero points add comes behind it:
 *
 *   sum of (a - za) * (b - zb) = sum of a * b - zb * (sum of a) - za * (sum of b) + K * za * zb
 *
 * exact in arithmetic modulo 2^32, which is that of i32. dot4 wants bytes with a sign on one side and bytes without on the other. A stays as it is; B is turned
 * over where it has to be: a byte xor 128 is the same number off by 128, which its zero point makes up for. Words of A are read where its bytes lie if they
 * are neighbours along K; others are put together of their bytes. Where K has an axis of no more than four elements (the channels of a picture), that
 * becomes the last one, and a kernel before makes a word of the elements at each place, which the windows of the convolution then read. Bytes beyond K are
 * 0 on both sides. */
#include "sched/matmul.h"

typedef const struct twir_expr *E;

enum { WORD = 4, BITS = 8, SIGN = 128 };

struct bytes { /* value = i32(byte) - zero */
	E byte, zero;
};

static bool is_byte(E e)
{
	return e->type.lanes == 1 && (e->type.scalar == TWIR_U8 || e->type.scalar == TWIR_I8);
}

static bool uses_fold(const struct mm_problem *p, E e)
{
	for (int i = 0; i < p->nfold; i++)
		if (twir_uses_var(e, p->axis[i]))
			return true;
	return false;
}

/* The zero point as a byte like those of `byte`. */
static E zero_byte(const struct mm_problem *p, const struct bytes *x)
{
	int64_t v;
	const enum twir_scalar type = (enum twir_scalar)x->byte->type.scalar;
	if (!x->zero)
		return twir_const_of(p->m, x->byte->type, 0);
	if (twir_const_int(x->zero, &v))
		return twir_cast(p->m, type, x->zero);
	return x->zero->kind == TWIR_Cast && x->zero->arg[0]->type.scalar == type ? x->zero->arg[0] : NULL;
}

static bool split(const struct mm_problem *p, E e, struct bytes *x)
{
	int64_t v;
	if (e->kind == TWIR_Cast && e->type.scalar == TWIR_I32 && is_byte(e->arg[0])) {
		*x = (struct bytes){e->arg[0], NULL};
		return true;
	}
	if (e->kind == TWIR_Sub) {
		if (!split(p, e->arg[0], x) || x->zero || uses_fold(p, e->arg[1]))
			return false;
		x->zero = e->arg[1];
		return true;
	}
	if ((e->kind == TWIR_Cond || e->kind == TWIR_Select) && twir_const_int(e->arg[2], &v) && v == 0 &&
	    split(p, e->arg[1], x)) {
		const E zero = zero_byte(p, x);
		if (!zero) /* what is left out of a window counts as its zero point */
			return false;
		x->byte = twir_cond(p->m, e->arg[0], x->byte, zero);
		return true;
	}
	return false;
}

static void know_axes(const struct mm_problem *p, struct twir_facts *f)
{
	int64_t n;
	twir_facts_init(f, p->m);
	for (int d = 0; d < p->rank; d++)
		twir_facts_range(f, p->c->axes[d], 0, twir_const_int(p->c->out->shape[d], &n) ? n - 1 : INT64_MAX);
	for (int i = 0; i < p->nfold; i++)
		twir_facts_range(f, p->axis[i], 0, twir_const_int(p->extent[i], &n) ? n - 1 : INT64_MAX);
}

/* The making of words of one factor. */
struct maker {
	const struct mm_problem *p;
	struct twir_facts facts;
	struct twir_var *byte, *word; /* the last axis of K, before and after */
	E extent;		      /* of the former */
	bool whole;		      /* it is a multiple of four */
	bool flip;
	bool view; /* words may be read where bytes lie */
};

static E constant(const struct maker *k, int64_t v)
{
	return twir_int(k->p->m, TWIR_I32, v);
}

/* The word that lies where the load's byte number 4 * word is; NULL: it does not. */
static E seen(struct maker *k, E load)
{
	struct twir_module *m = k->p->m;
	struct twir_tensor *t = load->u.tensor;
	E base;
	int64_t stride;
	if (!k->view || !k->whole || load->kind != TWIR_Load || load->n != load->nidx || t->scope != TWIR_TENSOR)
		return NULL;
	const E offset = twir_simplify(&k->facts, twir_layout_offset(m, t, load->nidx, load->arg));
	if (!twir_linear_in(&k->facts, offset, k->byte, &base, &stride) || stride != 1 ||
	    twir_range_of(&k->facts, base).multiple % WORD != 0)
		return NULL;
	const E four = twir_index(m, WORD), size = twir_div(m, twir_tensor_elements(m, t), four);
	struct twir_tensor *words = twir_tensor_new(m, t->base, TWIR_I32, 1, &size, TWIR_TENSOR);
	words->bytes = t;
	const E at = twir_add(m, twir_simplify(&k->facts, twir_div(m, base, four)), twir_var(m, k->word));
	const E word = twir_load(m, words, 1, &at);
	return k->flip ? twir_binary(m, TWIR_Xor, word, constant(k, (int32_t)0x80808080)) : word;
}

static E at_byte(const struct maker *k, E e, int number)
{
	struct twir_module *m = k->p->m;
	struct twir_subst s;
	const E first = twir_mul(m, twir_var(m, k->word), twir_index(m, WORD));
	twir_subst_init(&s, m);
	twir_subst_set(&s, k->byte, twir_add(m, first, twir_index(m, number)));
	return twir_subst_expr(&s, e);
}

static E assembled(const struct maker *k, E byte)
{
	struct twir_module *m = k->p->m;
	E word = NULL;
	for (int i = 0; i < WORD; i++) {
		E one = twir_and(m, twir_cast(m, TWIR_I32, at_byte(k, byte, i)), constant(k, 255));
		one = k->flip ? twir_binary(m, TWIR_Xor, one, constant(k, SIGN)) : one;
		if (!k->whole) {
			const E there = twir_lt(m, at_byte(k, twir_var(m, k->byte), i), k->extent);
			one = twir_cond(m, there, one, constant(k, 0));
		}
		one = i ? twir_binary(m, TWIR_Shl, one, constant(k, i * BITS)) : one;
		word = word ? twir_or(m, word, one) : one;
	}
	return word;
}

/* The word of a byte that is the same all along the axis. */
static E repeated(const struct maker *k, E byte)
{
	struct twir_module *m = k->p->m;
	E one = twir_and(m, twir_cast(m, TWIR_I32, byte), constant(k, 255));
	one = k->flip ? twir_binary(m, TWIR_Xor, one, constant(k, SIGN)) : one;
	return twir_mul(m, one, constant(k, 0x01010101));
}

static E word_of(struct maker *k, E byte)
{
	if (byte->kind == TWIR_Cond && k->whole && !twir_uses_var(byte->arg[0], k->byte) &&
	    !twir_uses_var(byte->arg[2], k->byte)) {
		const E word = seen(k, byte->arg[1]);
		if (word)
			return twir_cond(k->p->m, byte->arg[0], word, repeated(k, byte->arg[2]));
	}
	const E word = seen(k, byte);
	return word ? word : assembled(k, byte);
}

/* The dimension along which nothing but v runs, which is in no other; -1: there is none. */
static int plane_of(E load, const struct twir_var *v)
{
	int found = -1;
	for (int d = 0; d < load->nidx; d++) {
		if (!twir_uses_var(load->arg[d], v))
			continue;
		if (found >= 0 || load->arg[d]->kind != TWIR_Var)
			return -1;
		found = d;
	}
	return found;
}

/* The axis of K that makes words of planes, moved to the last place; false: there is none. */
static bool take_planes(struct mm_problem *p, E byte)
{
	const E load = byte->kind == TWIR_Cond ? byte->arg[1] : byte;
	int64_t n;
	if (load->kind != TWIR_Load || load->n != load->nidx || load->u.tensor->scope != TWIR_TENSOR || p->a.constant ||
	    p->nfold < 2)
		return false;
	for (int i = 0; i < p->nfold; i++) {
		if (!twir_const_int(p->extent[i], &n) || n < 2 || n > WORD || plane_of(load, p->axis[i]) < 0 ||
		    (byte->kind == TWIR_Cond &&
		     (twir_uses_var(byte->arg[0], p->axis[i]) || twir_uses_var(byte->arg[2], p->axis[i]))))
			continue;
		struct twir_var *axis = p->axis[i];
		const E extent = p->extent[i];
		for (; i + 1 < p->nfold; i++) {
			p->axis[i] = p->axis[i + 1];
			p->extent[i] = p->extent[i + 1];
		}
		p->axis[i] = axis;
		p->extent[i] = extent;
		return true;
	}
	return false;
}

static E word_of_planes(const struct maker *k, struct mm_problem *p, E byte)
{
	struct twir_module *m = p->m;
	const E load = byte->kind == TWIR_Cond ? byte->arg[1] : byte;
	const int plane = plane_of(load, k->byte);
	struct twir_compute *c = ARENA_NEW(m->arena, struct twir_compute);
	E at[TWIR_MAX_RANK], place[TWIR_MAX_RANK], shape[TWIR_MAX_RANK];
	struct twir_subst s;
	int rank = 0;
	c->axes = ARENA_ARRAY(m->arena, struct twir_var *, load->nidx);
	for (int d = 0; d < load->nidx; d++) {
		at[d] = load->arg[d];
		if (d == plane)
			continue;
		c->axes[rank] = twir_var_new(m, TWIR_AXIS, twir_scalar_type(TWIR_INDEX), "i");
		at[d] = twir_var(m, c->axes[rank]);
		place[rank] = load->arg[d];
		shape[rank++] = load->u.tensor->shape[d];
	}
	c->out = twir_tensor_new(m, "words", TWIR_I32, rank, shape, TWIR_TENSOR);
	twir_subst_init(&s, m);
	twir_subst_set(&s, k->word, twir_index(m, 0));
	c->value = twir_subst_expr(&s, assembled(k, twir_load(m, load->u.tensor, load->nidx, at)));
	p->words.planes = c;
	const E word = twir_load(m, c->out, rank, place);
	return byte->kind == TWIR_Cond ? twir_cond(m, byte->arg[0], word, repeated(k, byte->arg[2])) : word;
}

/* The zero point of B once it is turned over; NULL: 0. */
static E turned(const struct mm_problem *p, E zero, bool flip, bool was_signed)
{
	struct twir_module *m = p->m;
	int64_t v = 0;
	const bool known = !zero || twir_const_int(zero, &v);
	const int64_t by = !flip ? 0 : was_signed ? SIGN : -SIGN;
	if (known)
		return v + by ? twir_int(m, TWIR_I32, v + by) : NULL;
	return by ? twir_add(m, zero, twir_int(m, TWIR_I32, by)) : zero;
}

bool mm_take_words(struct mm_problem *p)
{
	struct twir_module *m = p->m;
	struct bytes a, b;
	const int last = p->nfold - 1;
	if (!p->t->has_dot4 || p->type != TWIR_I32 || !split(p, mm_inlined(p, p->a.value), &a) ||
	    !split(p, mm_inlined(p, p->b.value), &b))
		return false;
	const bool planes = take_planes(p, a.byte);
	const bool a_signed = a.byte->type.scalar == TWIR_I8, b_signed = b.byte->type.scalar == TWIR_I8;
	struct maker k = {.p = p, .byte = p->axis[last], .extent = p->extent[last], .view = !p->a.constant};
	know_axes(p, &k.facts);
	k.whole = twir_range_of(&k.facts, k.extent).multiple % WORD == 0;
	k.word = twir_var_new(m, TWIR_AXIS, twir_scalar_type(TWIR_INDEX), "k");
	p->words = (struct mm_words){.on = true, .a_signed = a_signed, .a_zero = turned(p, a.zero, false, a_signed)};
	p->words.terms = twir_index(m, 1);
	for (int i = 0; i < p->nfold; i++)
		p->words.terms = twir_mul(m, p->words.terms, p->extent[i]);
	p->a.value = planes ? word_of_planes(&k, p, a.byte) : word_of(&k, a.byte);
	k.view = !p->b.constant;
	k.flip = a_signed == b_signed;
	p->words.b_zero = turned(p, b.zero, k.flip, b_signed);
	p->b.value = word_of(&k, b.byte);
	p->axis[last] = k.word;
	p->extent[last] = twir_simplify(&k.facts, twir_ceildiv(m, k.extent, twir_index(m, WORD)));
	return true;
}

E mm_dot(const struct mm_problem *p, E a, E b, E sum)
{
	return p->words.a_signed ? twir_dot4(p->m, b, a, sum) : twir_dot4(p->m, a, b, sum);
}

E mm_bytes_sum(const struct mm_problem *p, bool of_a, E word)
{
	struct twir_module *m = p->m;
	const E ones = twir_int(m, TWIR_I32, 0x01010101), zero = twir_int(m, TWIR_I32, 0);
	return of_a == p->words.a_signed ? twir_dot4(m, ones, word, zero) : twir_dot4(m, word, ones, zero);
}

E mm_scaled_sum(const struct mm_problem *p, bool of_a, E sum)
{
	int64_t v;
	const E zero = of_a ? p->words.b_zero : p->words.a_zero;
	return twir_const_int(zero, &v) ? twir_mul(p->m, sum, zero) : sum;
}

E mm_whole_sum(const struct mm_problem *p, E sum, E row_sum, E column_sum)
{
	struct twir_module *m = p->m;
	const E za = p->words.a_zero, zb = p->words.b_zero;
	int64_t v;
	if (row_sum)
		sum = twir_sub(m, sum, twir_const_int(zb, &v) ? row_sum : twir_mul(m, row_sum, zb));
	if (column_sum)
		sum = twir_sub(m, sum, twir_const_int(za, &v) ? column_sum : twir_mul(m, column_sum, za));
	if (za && zb)
		sum = twir_add(m, sum, twir_mul(m, twir_cast(m, TWIR_I32, p->words.terms), twir_mul(m, za, zb)));
	return sum;
}
