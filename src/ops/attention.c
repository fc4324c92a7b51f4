/* attention.c: Attention: softmax(Q K^T * scale + bias) V, with heads, grouped heads, caches, masks, windows and
 * soft caps.
 *
 * Stages: operands by head (scaled), scores (a matmul), bias, softmax in its usual stages, and the product with V
 * (a matmul). A query that may attend to no key gives zeros. */
#include "ops/elementwise.h"

#include <inttypes.h>
#include <math.h>

typedef const struct twir_expr *E;

enum { Q, K, V, MASK, PAST_K, PAST_V, LENGTHS };

struct attention {
	bool flat; /* inputs are (batch, sequence, heads * size) */
	int64_t heads, kv_heads, size, v_size;
	E batch, queries, keys, past; /* keys: past and new ones; past: NULL without a cache */
	double scale, softcap;
	int64_t left, right, mode;
	bool causal;
	enum twir_scalar type, soft; /* of the products and of the softmax */
};

static int64_t constant(struct tw_opctx *x, E e, const char *what)
{
	int64_t v;
	if (!twir_const_int(e, &v) || v < 1)
		tw_op_fail(x, TW_ERR_UNSUPPORTED, "%s must be known when the model is compiled", what);
	return v;
}

static int64_t split(struct tw_opctx *x, int input, int64_t heads)
{
	const int64_t all = constant(x, tw_in_dim(x, input, 2), "hidden size");
	if (heads < 1 || all % heads)
		tw_op_fail(x, TW_ERR_MODEL, "%" PRId64 " heads do not divide a hidden size of %" PRId64, heads, all);
	return all / heads;
}

static void read_attention(struct tw_opctx *x, struct attention *a)
{
	const int rank = tw_in_rank(x, Q);
	if ((rank != 3 && rank != 4) || tw_in_rank(x, K) != rank || tw_in_rank(x, V) != rank)
		tw_op_fail(x, TW_ERR_MODEL, "Q, K and V of rank %d, %d and %d", rank, tw_in_rank(x, K),
			   tw_in_rank(x, V));
	*a = (struct attention){.flat = rank == 3, .batch = tw_in_dim(x, Q, 0)};
	if (a->flat) {
		a->heads = tw_attr_int(x->node, "q_num_heads", 0);
		a->kv_heads = tw_attr_int(x->node, "kv_num_heads", 0);
		a->size = split(x, Q, a->heads);
		a->v_size = split(x, V, a->kv_heads);
		if (split(x, K, a->kv_heads) != a->size)
			tw_op_fail(x, TW_ERR_MODEL, "heads of Q and K have different sizes");
	} else {
		a->heads = constant(x, tw_in_dim(x, Q, 1), "number of heads");
		a->kv_heads = constant(x, tw_in_dim(x, K, 1), "number of heads");
		a->size = constant(x, tw_in_dim(x, Q, 3), "head size");
		a->v_size = constant(x, tw_in_dim(x, V, 3), "head size");
		tw_same_size(x, tw_in_dim(x, Q, 3), tw_in_dim(x, K, 3), "heads of Q and K");
	}
	if (a->heads % a->kv_heads)
		tw_op_fail(x, TW_ERR_MODEL, "%" PRId64 " query heads for %" PRId64 " key heads", a->heads, a->kv_heads);
	const int seq = a->flat ? 1 : 2;
	a->queries = tw_in_dim(x, Q, seq);
	a->keys = tw_same_size(x, tw_in_dim(x, K, seq), tw_in_dim(x, V, seq), "keys and values");
	if (tw_has_in(x, PAST_K) != tw_has_in(x, PAST_V))
		tw_op_fail(x, TW_ERR_MODEL, "past_key and past_value go together");
	if (tw_has_in(x, PAST_K)) {
		if (tw_in_rank(x, PAST_K) != 4 || tw_in_rank(x, PAST_V) != 4)
			tw_op_fail(x, TW_ERR_MODEL, "past_key and past_value must have rank 4");
		a->past = tw_in_dim(x, PAST_K, 2);
		a->keys = tw_simplify(x, twir_add(x->m, a->keys, a->past));
	}
	a->scale = (double)tw_attr_float(x->node, "scale", (float)(1 / sqrt((double)a->size)));
	a->softcap = (double)tw_attr_float(x->node, "softcap", 0);
	a->left = tw_attr_int(x->node, "left_window_size", -1);
	a->right = tw_attr_int(x->node, "right_window_size", -1);
	a->causal = tw_attr_int(x->node, "is_causal", 0) != 0;
	a->mode = tw_attr_int(x->node, "qk_matmul_output_mode", 0);
	a->type = tw_compute_type(tw_in_type(x, Q));
	const int64_t precision = tw_attr_int(x->node, "softmax_precision", 0);
	if (precision != 0 && precision != 1 && precision != 10 && precision != 11 && precision != 16)
		tw_op_fail(x, TW_ERR_MODEL, "softmax_precision = %" PRId64, precision);
	a->soft = precision == 11 ? TWIR_F64 : precision ? TWIR_F32 : a->type;
}

static void infer(struct tw_opctx *x)
{
	struct attention a;
	for (int k = Q; k <= V; k++)
		tw_need_type(x, k, "float");
	read_attention(x, &a);
	if (tw_has_in(x, PAST_K) &&
	    (tw_in_type(x, PAST_K) != tw_in_type(x, K) || tw_in_type(x, PAST_V) != tw_in_type(x, V)))
		tw_op_fail(x, TW_ERR_MODEL, "past and new keys or values have different types");
	if (tw_has_in(x, MASK))
		tw_need_type(x, MASK, "float bool");
	if (tw_has_in(x, MASK) && (tw_in_rank(x, MASK) < 1 || tw_in_rank(x, MASK) > 4))
		tw_op_fail(x, TW_ERR_MODEL, "attn_mask of rank %d", tw_in_rank(x, MASK));
	if (tw_has_in(x, LENGTHS) && tw_in_rank(x, LENGTHS) != 1)
		tw_op_fail(x, TW_ERR_MODEL, "nonpad_kv_seqlen of rank %d", tw_in_rank(x, LENGTHS));
	const E heads = twir_index(x->m, a.heads), kv = twir_index(x->m, a.kv_heads);
	const E flat[] = {a.batch, a.queries, twir_index(x->m, a.heads * a.v_size)};
	const E full[] = {a.batch, heads, a.queries, twir_index(x->m, a.v_size)};
	tw_set_out(x, 0, tw_in_type(x, Q), a.flat ? 3 : 4, a.flat ? flat : full);
	const E key[] = {a.batch, kv, a.keys, twir_index(x->m, a.size)},
		value[] = {a.batch, kv, a.keys, twir_index(x->m, a.v_size)};
	tw_set_out(x, 1, tw_in_type(x, K), 4, key);
	tw_set_out(x, 2, tw_in_type(x, V), 4, value);
	const E scores[] = {a.batch, heads, a.queries, a.keys};
	tw_set_out(x, 3, tw_in_type(x, Q), 4, scores);
}

/* Element of Q, K or V by batch, head, position and place in the head */
static E load_head(struct tw_opctx *x, const struct attention *a, int input, E b, E h, E s, E d, int64_t size)
{
	const E full[] = {b, h, s, d};
	const E flat[] = {b, s, twir_add(x->m, twir_mul(x->m, h, twir_index(x->m, size)), d)};
	return tw_load(x, tw_x(x, input), a->flat ? 3 : 4, a->flat ? flat : full);
}

/* The same with the cache before it */
static E load_key(struct tw_opctx *x, const struct attention *a, int input, E const *i, int64_t size)
{
	if (!a->past)
		return load_head(x, a, input, i[0], i[1], i[2], i[3], size);
	const E fresh = load_head(x, a, input, i[0], i[1], twir_sub(x->m, i[2], a->past), i[3], size);
	const E old = tw_load(x, tw_x(x, input + PAST_K - K), 4, i);
	return twir_cond(x->m, twir_lt(x->m, i[2], a->past), old, fresh);
}

static struct twir_tensor *operand(struct tw_opctx *x, const struct attention *a, int input, int64_t size, bool scaled)
{
	const E shape[] = {a->batch, twir_index(x->m, input == Q ? a->heads : a->kv_heads),
			   input == Q ? a->queries : a->keys, twir_index(x->m, size)};
	struct twir_tensor *t = tw_temp(x, input == Q ? "q" : input == K ? "k" : "v", a->type, 4, shape);
	E *i;
	struct twir_var **axes = tw_axes(x, t, &i);
	E v = input == Q ? load_head(x, a, Q, i[0], i[1], i[2], i[3], size) : load_key(x, a, input, i, size);
	v = twir_cast(x->m, a->type, v);
	tw_define(x, t, axes, scaled ? twir_mul(x->m, v, tw_like(x, v, sqrt(a->scale))) : v);
	return t;
}

/* How many keys come before the first query of a batch element */
static E offset_of(struct tw_opctx *x, const struct attention *a, E b)
{
	if (a->past)
		return a->past;
	if (!tw_has_in(x, LENGTHS))
		return twir_index(x->m, 0);
	return twir_sub(x->m, twir_cast(x->m, TWIR_INDEX, tw_load(x, tw_x(x, LENGTHS), 1, &b)), a->queries);
}

/* What is added to the score of query i[2] and key i[3]: 0, the mask, or minus infinity */
static E bias_at(struct tw_opctx *x, const struct attention *a, E const *i)
{
	struct twir_module *m = x->m;
	const E none = twir_float(m, a->type, -INFINITY), zero = twir_float(m, a->type, 0);
	E allowed = twir_bool(m, true), bias = zero;
	const E at = twir_add(m, i[2], offset_of(x, a, i[0]));
	if (a->causal)
		allowed = twir_and(m, allowed, twir_le(m, i[3], at));
	if (a->left >= 0)
		allowed = twir_and(m, allowed, twir_le(m, twir_sub(m, at, twir_index(m, a->left)), i[3]));
	if (a->right >= 0)
		allowed = twir_and(m, allowed, twir_le(m, i[3], twir_add(m, at, twir_index(m, a->right))));
	if (tw_has_in(x, LENGTHS))
		allowed = twir_and(m, allowed,
				   twir_lt(m, i[3], twir_cast(m, TWIR_INDEX, tw_load(x, tw_x(x, LENGTHS), 1, i))));
	if (tw_has_in(x, MASK)) {
		struct twir_tensor *t = tw_x(x, MASK);
		const E v = tw_load_broadcast(x, t, 4, i), last = t->shape[t->rank - 1];
		bias = t->type == TWIR_I1 ? twir_select(m, v, zero, none) : twir_cast(m, a->type, v);
		if (last != a->keys && last != twir_index(m, 1)) /* a mask that is too short masks the rest */
			bias = twir_cond(m, twir_lt(m, i[3], last), bias, none);
	}
	return twir_select(m, allowed, bias, none);
}

static E capped(struct tw_opctx *x, const struct attention *a, E v)
{
	if (a->softcap <= 0)
		return v;
	const E cap = tw_like(x, v, a->softcap);
	return twir_mul(x->m, tw_call(x, "tanh", twir_div(x->m, v, cap)), cap);
}

/* Fold over the keys of t[b, h, q, .] */
static struct twir_tensor *over_keys(struct tw_opctx *x, const char *name, enum twir_kind op, struct twir_tensor *t)
{
	struct twir_tensor *out = tw_temp(x, name, t->type, 3, t->shape);
	E *i;
	struct twir_var **axes = tw_axes(x, out, &i), *k = tw_fold_axis(x, "k", t->shape[3]);
	const E at[] = {i[0], i[1], i[2], twir_var(x->m, k)};
	tw_define(x, out, axes, twir_fold(x->m, op, 1, &k, &t->shape[3], tw_load(x, t, 4, at)));
	return out;
}

/* C[b, h, i, j] = sum over k of A[b, h, i, k] * B[b, h / repeats, ..], B's last two axes swapped or not */
static void define_product(struct tw_opctx *x, const struct attention *a, struct twir_tensor *c, struct twir_tensor *l,
			   struct twir_tensor *r, bool swapped)
{
	E *i;
	struct twir_var **axes = tw_axes(x, c, &i), *k = tw_fold_axis(x, "k", l->shape[3]);
	const E ke = twir_var(x->m, k),
		group = tw_simplify(x, twir_div(x->m, i[1], twir_index(x->m, a->heads / a->kv_heads)));
	const E left[] = {i[0], i[1], i[2], ke}, right[] = {i[0], group, swapped ? i[3] : ke, swapped ? ke : i[3]};
	const E product = twir_mul(x->m, tw_load(x, l, 4, left), tw_load(x, r, 4, right));
	tw_define(x, c, axes, twir_fold(x->m, TWIR_Add, 1, &k, &l->shape[3], product));
}

static struct twir_tensor *softmax(struct tw_opctx *x, const struct attention *a, struct twir_tensor *scores,
				   struct twir_tensor *bias)
{
	struct twir_module *m = x->m;
	struct twir_tensor *logits = tw_temp(x, "logits", a->soft, 4, scores->shape);
	E *i;
	struct twir_var **axes = tw_axes(x, logits, &i);
	const E sum = twir_add(m, capped(x, a, tw_load(x, scores, 4, i)), tw_load(x, bias, 4, i));
	tw_define(x, logits, axes, twir_cast(m, a->soft, sum));
	struct twir_tensor *top = over_keys(x, "top", TWIR_Max, logits), *open = over_keys(x, "open", TWIR_Max, bias);
	struct twir_tensor *e = tw_temp(x, "e", a->soft, 4, scores->shape);
	axes = tw_axes(x, e, &i);
	const E masked = twir_eq(m, tw_load(x, open, 3, i), twir_float(m, a->type, -INFINITY));
	const E power = tw_call(x, "exp", twir_sub(m, tw_load(x, logits, 4, i), tw_load(x, top, 3, i)));
	tw_define(x, e, axes, twir_select(m, masked, tw_like(x, power, 0), power));
	struct twir_tensor *total = over_keys(x, "total", TWIR_Add, e), *p = tw_temp(x, "p", a->type, 4, scores->shape);
	axes = tw_axes(x, p, &i);
	const E t = tw_load(x, total, 3, i), zero = tw_like(x, t, 0);
	const E divisor = twir_select(m, twir_eq(m, t, zero), tw_like(x, t, 1), t);
	tw_define(x, p, axes, twir_cast(m, a->type, twir_div(m, tw_load(x, e, 4, i), divisor)));
	return p;
}

static void define_present(struct tw_opctx *x, const struct attention *a, int input)
{
	const int output = input - K + 1;
	if (!tw_has_out(x, output))
		return;
	E *i;
	struct twir_tensor *y = tw_y(x, output);
	struct twir_var **axes = tw_axes(x, y, &i);
	tw_define(x, y, axes, load_key(x, a, input, i, input == K ? a->size : a->v_size));
}

static void define_scores(struct tw_opctx *x, const struct attention *a, struct twir_tensor *scores,
			  struct twir_tensor *bias, struct twir_tensor *p)
{
	if (!tw_has_out(x, 3))
		return;
	E *i;
	struct twir_tensor *y = tw_y(x, 3);
	struct twir_var **axes = tw_axes(x, y, &i);
	E v = tw_load(x, a->mode == 3 ? p : scores, 4, i);
	if (a->mode == 1 || a->mode == 2)
		v = capped(x, a, v);
	if (a->mode == 2)
		v = twir_add(x->m, v, tw_load(x, bias, 4, i));
	tw_define(x, y, axes, v);
}

static void compute(struct tw_opctx *x)
{
	struct attention a;
	read_attention(x, &a);
	struct twir_tensor *q = operand(x, &a, Q, a.size, true), *k = operand(x, &a, K, a.size, true),
			   *v = operand(x, &a, V, a.v_size, false);
	const E heads = twir_index(x->m, a.heads), shape[] = {a.batch, heads, a.queries, a.keys};
	const E result[] = {a.batch, heads, a.queries, twir_index(x->m, a.v_size)};
	struct twir_tensor *scores = tw_temp(x, "scores", a.type, 4, shape),
			   *bias = tw_temp(x, "bias", a.type, 4, shape);
	define_product(x, &a, scores, q, k, true);
	E *i;
	struct twir_var **axes = tw_axes(x, bias, &i);
	tw_define(x, bias, axes, bias_at(x, &a, i));
	struct twir_tensor *p = softmax(x, &a, scores, bias), *out = tw_temp(x, "out", a.type, 4, result),
			   *y = tw_y(x, 0);
	define_product(x, &a, out, p, v, false);
	axes = tw_axes(x, y, &i);
	const E size = twir_index(x->m, a.v_size);
	const E flat[] = {i[0], a.flat ? twir_div(x->m, i[2], size) : NULL, i[1],
			  a.flat ? twir_mod(x->m, i[2], size) : NULL};
	tw_define(x, y, axes, tw_load(x, out, 4, a.flat ? flat : i));
	define_present(x, &a, K);
	define_present(x, &a, V);
	define_scores(x, &a, scores, bias, p);
}

#define A_INT(NAME)                                                                                                    \
	{                                                                                                              \
		NAME, TW_ATTR_INT, false                                                                               \
	}
#define A_23                                                                                                           \
	A_INT("is_causal"), A_INT("kv_num_heads"), A_INT("q_num_heads"), A_INT("qk_matmul_output_mode"),               \
		A_INT("softmax_precision"), {"scale", TW_ATTR_FLOAT, false},                                           \
	{                                                                                                              \
		"softcap", TW_ATTR_FLOAT, false                                                                        \
	}

static const struct tw_attr_spec attrs23[] = {A_23, {NULL}};
static const struct tw_attr_spec attrs25[] = {A_23, A_INT("left_window_size"), A_INT("right_window_size"), {NULL}};

const struct tw_op tw_ops_attention[] = {
	{.name = "Attention",
	 .since = 23,
	 .until = 24,
	 .in = {3, 7},
	 .out = {1, 4},
	 .attrs = attrs23,
	 .infer = infer,
	 .compute = compute},
	{.name = "Attention",
	 .since = 25,
	 .in = {3, 7},
	 .out = {1, 4},
	 .attrs = attrs25,
	 .infer = infer,
	 .compute = compute},
	{0},
};
