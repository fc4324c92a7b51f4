/* training.c: the steps of optimizers (ai.onnx.preview.training): Adagrad, Adam, Momentum. Inputs: rate, count of
 * updates, then all X, all gradients, and the state of each; outputs: all new X, then the new states. */
#include "ops/elementwise.h"

typedef const struct twir_expr *E;

enum { RATE, UPDATES, FIRST };

static int groups(struct tw_opctx *x, int states)
{
	const int rest = x->node->nin - FIRST, each = 2 + states;
	if (rest <= 0 || rest % each || x->node->nout != rest / each * (1 + states))
		tw_op_fail(x, TW_ERR_MODEL, "%d inputs and %d outputs", x->node->nin, x->node->nout);
	return rest / each;
}

static void infer(struct tw_opctx *x, int states)
{
	const int n = groups(x, states);
	tw_need_type(x, RATE, "float");
	tw_need_type(x, UPDATES, "i64");
	tw_need_scalar(x, RATE);
	tw_need_scalar(x, UPDATES);
	for (int i = FIRST; i < x->node->nin; i++) {
		const int own = FIRST + (i - FIRST) % n;
		tw_need_type(x, i, "f32 f64");
		if (tw_in_rank(x, i) != tw_in_rank(x, own) || tw_in_type(x, i) != tw_in_type(x, own))
			tw_op_fail(x, TW_ERR_MODEL, "input %d has another type or rank than X", i);
		for (int d = 0; d < tw_in_rank(x, i); d++)
			tw_same_size(x, tw_in_dim(x, i, d), tw_in_dim(x, own, d), "sizes of X and what goes with it");
	}
	for (int k = 0; k < x->node->nout; k++) {
		const struct tw_tensor *t = tw_in(x, FIRST + k % n);
		tw_set_out(x, k, t->type, t->rank, t->shape);
	}
}

static E attribute(struct tw_opctx *x, E like, const char *name, float otherwise)
{
	return tw_like(x, like, (double)tw_attr_float(x->node, name, otherwise));
}

static E rate(struct tw_opctx *x, E like)
{
	return twir_cast(x->m, like->type.scalar, tw_scalar(x, RATE));
}

static E updates(struct tw_opctx *x, E like)
{
	return twir_cast(x->m, like->type.scalar, tw_scalar(x, UPDATES));
}

static E power(struct tw_opctx *x, E base, E exponent)
{
	const E args[] = {base, exponent};
	return twir_math(x->m, "pow", 2, args);
}

/* The gradient with the weight's own share */
static E gradient(struct tw_opctx *x, E v, E g)
{
	return twir_add(x->m, g, twir_mul(x->m, attribute(x, v, "norm_coefficient", 0), v));
}

typedef void (*step_fn)(struct tw_opctx *x, E v, E g, E const *state, E *next);

/* Defines output k * n + j from the j-th X, its gradient and states; next[0] is the new X, the new states follow. */
static void compute(struct tw_opctx *x, int states, step_fn step)
{
	const int n = groups(x, states);
	for (int j = 0; j < n; j++)
		for (int k = 0; k <= states; k++) {
			struct twir_tensor *y = tw_y(x, k * n + j);
			E *i, in[4], next[3];
			struct twir_var **axes = tw_axes(x, y, &i);
			for (int s = 0; s < 2 + states; s++)
				in[s] = tw_load(x, tw_x(x, FIRST + s * n + j), y->rank, i);
			step(x, in[0], in[1], in + 2, next);
			tw_define(x, y, axes, next[k]);
		}
}

static void adagrad(struct tw_opctx *x, E v, E g, E const *state, E *next)
{
	struct twir_module *m = x->m;
	const E one = tw_like(x, v, 1), decay = attribute(x, v, "decay_factor", 0);
	const E r = twir_div(m, rate(x, v), twir_add(m, one, twir_mul(m, updates(x, v), decay)));
	const E whole = gradient(x, v, g), squares = twir_add(m, state[0], twir_mul(m, whole, whole));
	const E scale = twir_add(m, twir_unary(m, TWIR_Sqrt, squares), attribute(x, v, "epsilon", 1e-6f));
	next[0] = twir_sub(m, v, twir_div(m, twir_mul(m, r, whole), scale));
	next[1] = squares;
}

/* a * old + (1 - a) * fresh */
static E averaged(struct tw_opctx *x, E a, E old, E fresh)
{
	const E rest = twir_sub(x->m, tw_like(x, a, 1), a);
	return twir_add(x->m, twir_mul(x->m, a, old), twir_mul(x->m, rest, fresh));
}

static void adam(struct tw_opctx *x, E v, E g, E const *state, E *next)
{
	struct twir_module *m = x->m;
	const E one = tw_like(x, v, 1), a = attribute(x, v, "alpha", 0.9f), b = attribute(x, v, "beta", 0.999f);
	const E t = updates(x, v), whole = gradient(x, v, g), started = twir_lt(m, tw_like(x, v, 0), t);
	const E mean = averaged(x, a, state[0], whole), squares = averaged(x, b, state[1], twir_mul(m, whole, whole));
	const E unbiased = twir_div(m, twir_unary(m, TWIR_Sqrt, twir_sub(m, one, power(x, b, t))),
				    twir_sub(m, one, power(x, a, t)));
	const E r = twir_mul(m, rate(x, v), twir_select(m, started, unbiased, one));
	const E scale = twir_add(m, twir_unary(m, TWIR_Sqrt, squares), attribute(x, v, "epsilon", 1e-6f));
	const E moved = twir_sub(m, v, twir_div(m, twir_mul(m, r, mean), scale));
	next[0] = twir_mul(m, twir_sub(m, one, attribute(x, v, "norm_coefficient_post", 0)), moved);
	next[1] = mean;
	next[2] = squares;
}

static void momentum(struct tw_opctx *x, E v, E g, E const *state, E *next)
{
	struct twir_module *m = x->m;
	const bool nesterov = !strcmp(tw_attr_string(x->node, "mode", "standard"), "nesterov");
	const E a = attribute(x, v, "alpha", 0), b = attribute(x, v, "beta", 0), one = tw_like(x, v, 1),
		whole = gradient(x, v, g);
	const E later = twir_lt(m, tw_like(x, v, 0), updates(x, v));
	const E fresh = twir_add(m, twir_mul(m, a, state[0]), twir_mul(m, twir_select(m, later, b, one), whole));
	const E by = nesterov ? twir_add(m, whole, twir_mul(m, a, fresh)) : fresh;
	next[0] = twir_sub(m, v, twir_mul(m, rate(x, v), by));
	next[1] = fresh;
}

static void infer_adagrad(struct tw_opctx *x)
{
	infer(x, 1);
}

static void compute_adagrad(struct tw_opctx *x)
{
	compute(x, 1, adagrad);
}

static void infer_adam(struct tw_opctx *x)
{
	infer(x, 2);
}

static void compute_adam(struct tw_opctx *x)
{
	compute(x, 2, adam);
}

static void infer_momentum(struct tw_opctx *x)
{
	const char *mode = tw_attr_string(x->node, "mode", "standard");
	if (strcmp(mode, "standard") && strcmp(mode, "nesterov"))
		tw_op_fail(x, TW_ERR_MODEL, "mode = '%s' is not known", mode);
	infer(x, 1);
}

static void compute_momentum(struct tw_opctx *x)
{
	compute(x, 1, momentum);
}

#define NUMBER(name, needed)                                                                                           \
	{                                                                                                              \
		name, TW_ATTR_FLOAT, needed                                                                            \
	}
static const struct tw_attr_spec attrs_adagrad[] = {
	NUMBER("decay_factor", false), NUMBER("epsilon", false), NUMBER("norm_coefficient", false), {NULL}};
static const struct tw_attr_spec attrs_adam[] = {NUMBER("alpha", false),
						 NUMBER("beta", false),
						 NUMBER("epsilon", false),
						 NUMBER("norm_coefficient", false),
						 NUMBER("norm_coefficient_post", false),
						 {NULL}};
static const struct tw_attr_spec attrs_momentum[] = {NUMBER("alpha", true),
						     NUMBER("beta", true),
						     NUMBER("norm_coefficient", true),
						     {"mode", TW_ATTR_STRING, true},
						     {NULL}};

#define ROW(NAME, fn)                                                                                                  \
	{                                                                                                              \
		.name = NAME, .domain = "ai.onnx.preview.training", .since = 1, .in = {3, -1}, .out = {1, -1},         \
		.attrs = attrs_##fn, .infer = infer_##fn, .compute = compute_##fn                                      \
	}

const struct tw_op tw_ops_training[] = {ROW("Adagrad", adagrad), ROW("Adam", adam), ROW("Momentum", momentum), {0}};
