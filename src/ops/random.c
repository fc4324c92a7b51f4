/* random.c: RandomUniform, RandomNormal, their Like forms, Bernoulli and Multinomial; the mask of Dropout in training.
 *
 * An element is a hash of its place and of a key: of the seed, where there is one, else of the output's name. So runs
 * are alike, nodes differ, and every core makes its own part. */
#include "ops/random.h"

#include <inttypes.h>
#include <math.h>

typedef const struct twir_expr *E;

static E number(struct tw_opctx *x, uint32_t v)
{
	return twir_int(x->m, TWIR_U32, v);
}

static uint32_t key_of(struct tw_opctx *x, uint32_t stream)
{
	const struct tw_attr *seed = tw_attr_find(x->node, "seed"); /* a number of either kind */
	const char *name = x->g->tensors.at[x->node->out[0]].name;
	uint64_t h = tw_hash64(name, strlen(name), 1);
	if (seed && seed->kind == TW_ATTR_INT)
		h = tw_hash64(&seed->i, sizeof(seed->i), 2);
	else if (seed)
		h = tw_hash64(&seed->f, sizeof(seed->f), 3);
	h = tw_hash_mix(h, stream);
	return (uint32_t)(h >> 32) ^ (uint32_t)h;
}

static E scrambled(struct tw_opctx *x, E h, int shift, uint32_t factor)
{
	h = twir_binary(x->m, TWIR_Xor, h, twir_binary(x->m, TWIR_Shr, h, number(x, (uint32_t)shift)));
	return twir_mul(x->m, h, number(x, factor));
}

/* 24 random bits for a place */
static E bits(struct tw_opctx *x, uint32_t stream, E place)
{
	struct twir_module *m = x->m;
	E h = twir_add(m, twir_mul(m, twir_cast(m, TWIR_U32, place), number(x, 0x9e3779b1u)),
		       number(x, key_of(x, stream)));
	h = scrambled(x, scrambled(x, scrambled(x, h, 16, 0x85ebca6bu), 13, 0xc2b2ae35u), 16, 0x27d4eb2fu);
	return twir_binary(m, TWIR_Shr, h, number(x, 8));
}

const struct twir_expr *tw_random_uniform(struct tw_opctx *x, enum twir_scalar type, uint32_t stream,
					  const struct twir_expr *place)
{
	const E v = twir_cast(x->m, type, bits(x, stream, place));
	return twir_mul(x->m, v, tw_like(x, v, ldexp(1, -24)));
}

/* Two uniform numbers by the method of Box and Muller */
static E normal(struct tw_opctx *x, enum twir_scalar type, E place)
{
	struct twir_module *m = x->m;
	const E u = tw_random_uniform(x, type, 0, place), v = tw_random_uniform(x, type, 1, place);
	const E above_zero = twir_add(m, u, tw_like(x, u, ldexp(1, -24)));
	const E radius = twir_unary(m, TWIR_Sqrt, twir_mul(m, tw_like(x, u, -2), tw_call(x, "log", above_zero)));
	return twir_mul(m, radius, tw_call(x, "cos", twir_mul(m, v, tw_like(x, v, 2 * 3.14159265358979323846))));
}

static enum twir_scalar read_type(struct tw_opctx *x, enum twir_scalar otherwise)
{
	switch (tw_attr_int(x->node, "dtype", 0)) {
	case 0:
		return otherwise;
	case 1:
		return TWIR_F32;
	case 10:
		return TWIR_F16;
	case 11:
		return TWIR_F64;
	case 16:
		return TWIR_BF16;
	default:
		tw_op_fail(x, TW_ERR_UNSUPPORTED, "dtype = %" PRId64, tw_attr_int(x->node, "dtype", 0));
	}
}

static void infer_shape(struct tw_opctx *x)
{
	E shape[TWIR_MAX_RANK];
	const int64_t *dims;
	const int rank = tw_attr_ints(x->node, "shape", &dims);
	if (rank > TWIR_MAX_RANK)
		tw_op_fail(x, TW_ERR_UNSUPPORTED, "a shape of rank %d", rank);
	for (int d = 0; d < rank; d++) {
		if (dims[d] < 0)
			tw_op_fail(x, TW_ERR_MODEL, "a size of %" PRId64, dims[d]);
		shape[d] = twir_index(x->m, dims[d]);
	}
	tw_set_out(x, 0, read_type(x, TWIR_F32), rank, shape);
}

static void infer_like(struct tw_opctx *x)
{
	const struct tw_tensor *t = tw_in(x, 0);
	tw_set_out(x, 0, read_type(x, twir_is_float(t->type) ? t->type : TWIR_F32), t->rank, t->shape);
}

/* at + by * (a random number) */
static void define(struct tw_opctx *x, bool gaussian, float at, float by)
{
	struct twir_tensor *y = tw_y(x, 0);
	E *i;
	struct twir_var **axes = tw_axes(x, y, &i);
	const enum twir_scalar type = tw_compute_type(y->type);
	const E place = tw_flatten(x, y->rank, y->shape, i);
	const E v = gaussian ? normal(x, type, place) : tw_random_uniform(x, type, 0, place);
	tw_define(x, y, axes, twir_add(x->m, tw_like(x, v, (double)at), twir_mul(x->m, tw_like(x, v, (double)by), v)));
}

static void compute_uniform(struct tw_opctx *x)
{
	const float low = tw_attr_float(x->node, "low", 0), high = tw_attr_float(x->node, "high", 1);
	define(x, false, low, high - low);
}

static void compute_normal(struct tw_opctx *x)
{
	define(x, true, tw_attr_float(x->node, "mean", 0), tw_attr_float(x->node, "scale", 1));
}

/* ---- Bernoulli: 1 with the probability that the input says */

static void infer_bernoulli(struct tw_opctx *x)
{
	static const struct {
		int number;
		enum twir_scalar type;
	} types[] = {{1, TWIR_F32},  {2, TWIR_U8},   {3, TWIR_I8},   {4, TWIR_U16},  {5, TWIR_I16},
		     {6, TWIR_I32},  {7, TWIR_I64},  {9, TWIR_I1},   {10, TWIR_F16}, {11, TWIR_F64},
		     {12, TWIR_U32}, {13, TWIR_U64}, {16, TWIR_BF16}};
	tw_need_type(x, 0, "float");
	const struct tw_tensor *t = tw_in(x, 0);
	const int64_t dtype = tw_attr_int(x->node, "dtype", 0);
	enum twir_scalar type = dtype ? TWIR_VOID : t->type;
	for (int k = 0; k < (int)TW_COUNT(types); k++)
		if (types[k].number == dtype)
			type = types[k].type;
	if (type == TWIR_VOID)
		tw_op_fail(x, TW_ERR_UNSUPPORTED, "dtype = %" PRId64, dtype);
	tw_set_out(x, 0, type, t->rank, t->shape);
}

static void compute_bernoulli(struct tw_opctx *x)
{
	struct twir_module *m = x->m;
	struct twir_tensor *y = tw_y(x, 0);
	E *i;
	struct twir_var **axes = tw_axes(x, y, &i);
	const E p = tw_load(x, tw_x(x, 0), y->rank, i);
	const E hit = twir_lt(m, tw_random_uniform(x, p->type.scalar, 0, tw_flatten(x, y->rank, y->shape, i)), p);
	const struct twir_type type = twir_scalar_type(tw_compute_type(y->type));
	tw_define(x, y, axes,
		  y->type == TWIR_I1 ? hit : twir_select(m, hit, twir_const_of(m, type, 1), twir_const_of(m, type, 0)));
}

/* ---- Multinomial: from logarithms of weights (batch, classes), sample_size classes each: the class whose weight's
   logarithm is largest after Gumbel noise */

static void infer_multinomial(struct tw_opctx *x)
{
	const int64_t n = tw_attr_int(x->node, "sample_size", 1), dtype = tw_attr_int(x->node, "dtype", 6);
	tw_need_type(x, 0, "float");
	if (tw_in_rank(x, 0) != 2 || n < 1 || (dtype != 6 && dtype != 7))
		tw_op_fail(x, TW_ERR_MODEL, "input of rank %d, sample_size = %" PRId64 ", dtype = %" PRId64,
			   tw_in_rank(x, 0), n, dtype);
	const E shape[] = {tw_in_dim(x, 0, 0), twir_index(x->m, n)};
	tw_set_out(x, 0, dtype == 6 ? TWIR_I32 : TWIR_I64, 2, shape);
}

static void compute_multinomial(struct tw_opctx *x)
{
	struct twir_module *m = x->m;
	struct twir_tensor *y = tw_y(x, 0), *t = tw_x(x, 0);
	const enum twir_scalar type = tw_compute_type(t->type);
	const E shape[] = {y->shape[0], y->shape[1], t->shape[1]};
	struct twir_tensor *noisy = tw_temp(x, "noisy", type, 3, shape), *best = tw_temp(x, "best", type, 2, shape);
	E *i;
	struct twir_var **axes = tw_axes(x, noisy, &i);
	const E u = tw_random_uniform(x, type, 0, tw_flatten(x, 3, noisy->shape, i));
	const E safe = twir_add(m, u, tw_like(x, u, ldexp(1, -25)));
	const E gumbel = tw_call(x, "log", twir_unary(m, TWIR_Neg, tw_call(x, "log", safe)));
	const E from[] = {i[0], i[2]};
	tw_define(x, noisy, axes, twir_sub(m, tw_load(x, t, 2, from), gumbel));

	axes = tw_axes(x, best, &i);
	struct twir_var *c = tw_fold_axis(x, "c", shape[2]);
	const E here[] = {i[0], i[1], twir_var(m, c)};
	tw_define(x, best, axes, twir_fold(m, TWIR_Max, 1, &c, &shape[2], tw_load(x, noisy, 3, here)));

	axes = tw_axes(x, y, &i);
	c = tw_fold_axis(x, "c", shape[2]);
	const E at[] = {i[0], i[1], twir_var(m, c)};
	const E chosen = twir_select(m, twir_eq(m, tw_load(x, noisy, 3, at), tw_load(x, best, 2, at)), at[2],
				     twir_sub(m, shape[2], twir_index(m, 1)));
	tw_define(x, y, axes, twir_cast(m, y->type, twir_fold(m, TWIR_Min, 1, &c, &shape[2], chosen)));
}

#define DTYPE                                                                                                          \
	{                                                                                                              \
		"dtype", TW_ATTR_INT, false                                                                            \
	}
#define NUMBER(name)                                                                                                   \
	{                                                                                                              \
		name, TW_ATTR_FLOAT, false                                                                             \
	}
static const struct tw_attr_spec attrs_uniform[] = {
	DTYPE, NUMBER("high"), NUMBER("low"), NUMBER("seed"), {"shape", TW_ATTR_INTS, true}, {NULL}};
static const struct tw_attr_spec attrs_normal[] = {
	DTYPE, NUMBER("mean"), NUMBER("scale"), NUMBER("seed"), {"shape", TW_ATTR_INTS, true}, {NULL}};
static const struct tw_attr_spec attrs_uniform_like[] = {DTYPE, NUMBER("high"), NUMBER("low"), NUMBER("seed"), {NULL}};
static const struct tw_attr_spec attrs_normal_like[] = {DTYPE, NUMBER("mean"), NUMBER("scale"), NUMBER("seed"), {NULL}};
static const struct tw_attr_spec attrs_bernoulli[] = {DTYPE, NUMBER("seed"), {NULL}};
static const struct tw_attr_spec attrs_multinomial[] = {
	DTYPE, {"sample_size", TW_ATTR_INT, false}, NUMBER("seed"), {NULL}};

#define ROW(NAME, first, inputs, list, shapes, definition)                                                             \
	{                                                                                                              \
		.name = NAME, .since = first, .in = {inputs, inputs}, .out = {1, 1}, .attrs = attrs_##list,            \
		.flags = TW_OP_RANDOM, .infer = infer_##shapes, .compute = compute_##definition                        \
	}

const struct tw_op tw_ops_random[] = {
	ROW("RandomUniform", 1, 0, uniform, shape, uniform),
	ROW("RandomNormal", 1, 0, normal, shape, normal),
	ROW("RandomUniformLike", 1, 1, uniform_like, like, uniform),
	ROW("RandomNormalLike", 1, 1, normal_like, like, normal),
	ROW("Bernoulli", 15, 1, bernoulli, bernoulli, bernoulli),
	ROW("Multinomial", 7, 1, multinomial, multinomial, multinomial),
	{0},
};
