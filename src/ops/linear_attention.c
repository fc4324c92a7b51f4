/* linear_attention.c: LinearAttention: a state for each head, a matrix (keys, values), that every step decays, corrects
 * and adds k v^T to, and that the query reads; CausalConvWithState: the short convolution such models put before it.
 *
 * The steps are a loop among definitions (flow.h), as in recurrent cells. */
#include "ops/flow.h"
#include "ops/elementwise.h"

#include <inttypes.h>
#include <math.h>

typedef const struct twir_expr *E;

enum { Q, K, V, PAST, DECAY, BETA };

struct linear {
	int64_t heads, kv_heads, keys, values; /* keys, values: sizes of a head */
	bool gated, delta;
	double scale;
	E batch, time;
};

static int64_t head_size(struct tw_opctx *x, int input, int64_t heads)
{
	int64_t all;
	if (tw_in_rank(x, input) != 3)
		tw_op_fail(x, TW_ERR_MODEL, "input %d of rank %d; it must be 3", input, tw_in_rank(x, input));
	if (!twir_const_int(tw_in_dim(x, input, 2), &all))
		tw_op_fail(x, TW_ERR_UNSUPPORTED, "the hidden size must be known when the model is compiled");
	if (heads < 1 || all < heads || all % heads)
		tw_op_fail(x, TW_ERR_MODEL, "%" PRId64 " heads do not divide a hidden size of %" PRId64, heads, all);
	return all / heads;
}

static void read_linear(struct tw_opctx *x, struct linear *a)
{
	const char *rule = tw_attr_string(x->node, "update_rule", "gated_delta");
	*a = (struct linear){.heads = tw_attr_int(x->node, "q_num_heads", 0),
			     .kv_heads = tw_attr_int(x->node, "kv_num_heads", 0),
			     .gated = !strcmp(rule, "gated") || !strcmp(rule, "gated_delta"),
			     .delta = !strcmp(rule, "delta") || !strcmp(rule, "gated_delta")};
	if (!a->gated && !a->delta && strcmp(rule, "linear"))
		tw_op_fail(x, TW_ERR_MODEL, "update_rule = '%s' is not known", rule);
	a->keys = head_size(x, Q, a->heads);
	a->values = head_size(x, V, a->kv_heads);
	if (head_size(x, K, a->kv_heads) != a->keys || a->heads % a->kv_heads)
		tw_op_fail(x, TW_ERR_MODEL, "query and key of %" PRId64 " and %" PRId64 " heads do not fit", a->heads,
			   a->kv_heads);
	a->batch = tw_in_dim(x, Q, 0);
	a->time = tw_in_dim(x, Q, 1);
	a->scale = (double)tw_attr_float(x->node, "scale", 0);
	if (a->scale == 0)
		a->scale = 1 / sqrt((double)a->keys);
}

/* decay and beta go with the rules that use them */
static void check_gate(struct tw_opctx *x, const struct linear *a, int input, bool wanted, int64_t one, int64_t other)
{
	int64_t size;
	if (tw_has_in(x, input) != wanted)
		tw_op_fail(x, TW_ERR_MODEL, "%s is %s by this update_rule", input == DECAY ? "decay" : "beta",
			   wanted ? "needed" : "not taken");
	if (!wanted)
		return;
	if (tw_in_rank(x, input) != 3 || !twir_const_int(tw_in_dim(x, input, 2), &size) ||
	    (size != one && size != other))
		tw_op_fail(x, TW_ERR_MODEL, "the last axis of %s must be %" PRId64 " or %" PRId64,
			   input == DECAY ? "decay" : "beta", one, other);
	tw_same_size(x, tw_in_dim(x, input, 0), a->batch, "batch sizes");
	tw_same_size(x, tw_in_dim(x, input, 1), a->time, "steps");
}

static void infer_linear(struct tw_opctx *x)
{
	struct linear a;
	for (int i = Q; i <= BETA; i++)
		if (tw_has_in(x, i))
			tw_need_type(x, i, "float");
	tw_need_same_type(x, Q, V);
	read_linear(x, &a);
	for (int i = K; i <= V; i++) {
		tw_same_size(x, tw_in_dim(x, i, 0), a.batch, "batch sizes");
		tw_same_size(x, tw_in_dim(x, i, 1), a.time, "steps");
	}
	check_gate(x, &a, DECAY, a.gated, a.kv_heads, a.kv_heads * a.keys);
	check_gate(x, &a, BETA, a.delta, a.kv_heads, 1);
	const E state[] = {a.batch, twir_index(x->m, a.kv_heads), twir_index(x->m, a.keys), twir_index(x->m, a.values)};
	if (tw_has_in(x, PAST) && tw_in_rank(x, PAST) != 4)
		tw_op_fail(x, TW_ERR_MODEL, "past_state of rank %d; it must be 4", tw_in_rank(x, PAST));
	for (int d = 0; d < 4 && tw_has_in(x, PAST); d++)
		tw_same_size(x, tw_in_dim(x, PAST, d), state[d], "past_state");
	const E shape[] = {a.batch, a.time, twir_index(x->m, a.heads * a.values)};
	tw_set_out(x, 0, tw_in_type(x, Q), 3, shape);
	tw_set_out(x, 1, tw_in_type(x, tw_has_in(x, PAST) ? PAST : Q), 4, state);
}

/* Element `place` of head h of a packed input, in the step at hand */
static E packed(struct tw_opctx *x, int input, E number, E b, E h, int64_t size, E place)
{
	const E at[] = {b, number, twir_add(x->m, twir_mul(x->m, h, twir_index(x->m, size)), place)};
	return tw_load(x, tw_x(x, input), 3, at);
}

static E decay(struct tw_opctx *x, const struct linear *a, E number, E b, E h, E key)
{
	int64_t size;
	twir_const_int(tw_in_dim(x, DECAY, 2), &size);
	const E v = size == a->kv_heads * a->keys && size != a->kv_heads
			    ? packed(x, DECAY, number, b, h, a->keys, key)
			    : packed(x, DECAY, number, b, h, 1, twir_index(x->m, 0));
	return tw_call(x, "exp", v);
}

/* What a step adds the outer product of its key with: v, or beta (v - S^T k), where S has decayed already */
static struct twir_tensor *update(struct tw_opctx *x, const struct linear *a, E number, struct twir_tensor *state)
{
	struct twir_module *m = x->m;
	const E shape[] = {state->shape[0], state->shape[1], state->shape[3]};
	struct twir_tensor *u = tw_temp(x, "update", state->type, 3, shape);
	E *i;
	struct twir_var **axes = tw_axes(x, u, &i);
	E v = packed(x, V, number, i[0], i[1], a->values, i[2]);
	if (a->delta) {
		struct twir_tensor *found = tw_temp(x, "found", state->type, 3, shape);
		E *j;
		struct twir_var **own = tw_axes(x, found, &j), *k = tw_fold_axis(x, "k", state->shape[2]);
		const E at[] = {j[0], j[1], twir_var(m, k), j[2]};
		const E key = packed(x, K, number, j[0], j[1], a->keys, twir_var(m, k));
		tw_define(x, found, own,
			  twir_fold(m, TWIR_Add, 1, &k, &state->shape[2], twir_mul(m, tw_load(x, state, 4, at), key)));
		const bool each = tw_in_dim(x, BETA, 2) != twir_index(m, 1);
		const E beta = packed(x, BETA, number, i[0], each ? i[1] : twir_index(m, 0), 1, twir_index(m, 0));
		v = twir_mul(m, beta, twir_sub(m, v, tw_load(x, found, 3, i)));
	}
	tw_define(x, u, axes, v);
	return u;
}

static struct twir_tensor *decayed(struct tw_opctx *x, const struct linear *a, E number, struct twir_tensor *state)
{
	if (!a->gated)
		return state;
	struct twir_tensor *t = tw_temp(x, "decayed", state->type, 4, state->shape);
	E *i;
	struct twir_var **axes = tw_axes(x, t, &i);
	tw_define(x, t, axes, twir_mul(x->m, tw_load(x, state, 4, i), decay(x, a, number, i[0], i[1], i[2])));
	return t;
}

static void compute_linear(struct tw_opctx *x)
{
	struct twir_module *m = x->m;
	struct linear a;
	E *i;
	read_linear(x, &a);
	const enum twir_scalar type = tw_compute_type(tw_in_type(x, Q));
	const E shape[] = {a.batch, twir_index(m, a.kv_heads), twir_index(m, a.keys), twir_index(m, a.values)};
	struct twir_tensor *first = tw_temp(x, "first", type, 4, shape), *in = tw_temp(x, "state", type, 4, shape);
	struct twir_var **axes = tw_axes(x, first, &i);
	const E zero = twir_const_of(m, twir_scalar_type(type), 0);
	tw_define(x, first, axes, tw_has_in(x, PAST) ? twir_cast(m, type, tw_load(x, tw_x(x, PAST), 4, i)) : zero);

	struct tw_flow *loop = tw_flow_new(x->g, x->node->name);
	tw_flow_number(x, loop, a.time);
	tw_flow_mark(x, TW_MARK_LOOP, loop);
	const E number = twir_var(m, loop->number);
	struct twir_tensor *before = decayed(x, &a, number, in), *add = update(x, &a, number, before);
	struct twir_tensor *out = tw_temp(x, "new_state", type, 4, shape);
	axes = tw_axes(x, out, &i);
	const E row[] = {i[0], i[1], i[3]};
	const E key = packed(x, K, number, i[0], i[1], a.keys, i[2]);
	tw_define(x, out, axes, twir_add(m, tw_load(x, before, 4, i), twir_mul(m, key, tw_load(x, add, 3, row))));
	const E said_shape[] = {a.batch, twir_index(m, a.heads * a.values)},
		all_shape[] = {a.time, a.batch, said_shape[1]};
	struct twir_tensor *said = tw_temp(x, "said", type, 2, said_shape),
			   *all = tw_temp(x, "all", type, 3, all_shape);
	axes = tw_axes(x, said, &i);
	struct twir_var *k = tw_fold_axis(x, "k", shape[2]);
	const E head = twir_div(m, i[1], shape[3]), from = twir_div(m, head, twir_index(m, a.heads / a.kv_heads));
	const E at[] = {i[0], from, twir_var(m, k), twir_mod(m, i[1], shape[3])};
	const E query = packed(x, Q, number, i[0], head, a.keys, twir_var(m, k));
	const E sum = twir_fold(m, TWIR_Add, 1, &k, &shape[2], twir_mul(m, query, tw_load(x, out, 4, at)));
	tw_define(x, said, axes, twir_mul(m, sum, tw_like(x, sum, a.scale)));
	struct twir_tensor *last = tw_has_out(x, 1) ? tw_temp(x, "last", type, 4, shape) : NULL;
	vec_push(x->g->arena, &loop->carried, ((struct tw_carried){first, in, out, last}));
	vec_push(x->g->arena, &loop->slices, ((struct tw_slice){said, all}));
	tw_flow_mark(x, TW_MARK_NEXT, loop);

	axes = tw_axes(x, tw_y(x, 0), &i);
	const E turned[] = {i[1], i[0], i[2]};
	tw_define(x, tw_y(x, 0), axes, tw_load(x, all, 3, turned));
	if (last) {
		axes = tw_axes(x, tw_y(x, 1), &i);
		tw_define(x, tw_y(x, 1), axes, tw_load(x, last, 4, i));
	}
}

/* ---- CausalConvWithState: each channel with its own kernel over what came before; x (batch, channels, time), w
   (channels, 1, kernel), bias (channels), past (batch, channels, kernel - 1) */

static void infer_causal(struct tw_opctx *x)
{
	const char *activation = tw_attr_string(x->node, "activation", "none");
	tw_need_type(x, 0, "float");
	tw_need_same_type(x, 0, 1);
	if (strcmp(activation, "none") && strcmp(activation, "silu") && strcmp(activation, "swish"))
		tw_op_fail(x, TW_ERR_MODEL, "activation = '%s' is not known", activation);
	if (tw_in_rank(x, 0) != 3 || tw_in_rank(x, 1) != 3)
		tw_op_fail(x, TW_ERR_MODEL, "input and weight of rank %d and %d; both must be 3", tw_in_rank(x, 0),
			   tw_in_rank(x, 1));
	tw_same_size(x, tw_in_dim(x, 1, 0), tw_in_dim(x, 0, 1), "channels of input and weight");
	tw_same_size(x, tw_in_dim(x, 1, 1), twir_index(x->m, 1), "the middle axis of a depthwise weight");
	const E past = tw_simplify(x, twir_sub(x->m, tw_in_dim(x, 1, 2), twir_index(x->m, 1)));
	const E state[] = {tw_in_dim(x, 0, 0), tw_in_dim(x, 0, 1), past};
	if (tw_has_in(x, 2) && tw_in_rank(x, 2) != 1)
		tw_op_fail(x, TW_ERR_MODEL, "bias of rank %d; it must be 1", tw_in_rank(x, 2));
	if (tw_has_in(x, 2))
		tw_same_size(x, tw_in_dim(x, 2, 0), state[1], "channels of input and bias");
	if (tw_has_in(x, 3) && tw_in_rank(x, 3) != 3)
		tw_op_fail(x, TW_ERR_MODEL, "past_state of rank %d; it must be 3", tw_in_rank(x, 3));
	for (int d = 0; d < 3 && tw_has_in(x, 3); d++)
		tw_same_size(x, tw_in_dim(x, 3, d), state[d], "past_state");
	tw_infer_same(x);
	tw_set_out(x, 1, tw_in_type(x, tw_has_in(x, 3) ? 3 : 0), 3, state);
}

/* Element `at` of the state followed by the input */
static E causal_element(struct tw_opctx *x, E b, E channel, E at)
{
	struct twir_module *m = x->m;
	const E past = tw_simplify(x, twir_sub(m, tw_in_dim(x, 1, 2), twir_index(m, 1)));
	const E now[] = {b, channel, twir_sub(m, at, past)}, before[] = {b, channel, at};
	const E v = tw_load(x, tw_x(x, 0), 3, now);
	const E old =
		tw_has_in(x, 3) ? twir_cast(m, v->type.scalar, tw_load(x, tw_x(x, 3), 3, before)) : tw_like(x, v, 0);
	return twir_cond(m, twir_lt(m, at, past), old, v);
}

static void compute_causal(struct tw_opctx *x)
{
	struct twir_module *m = x->m;
	struct twir_tensor *y = tw_y(x, 0);
	E *i;
	struct twir_var **axes = tw_axes(x, y, &i), *k = tw_fold_axis(x, "k", tw_in_dim(x, 1, 2));
	const E ke = twir_var(m, k), w[] = {i[1], twir_index(m, 0), ke}, extent = tw_in_dim(x, 1, 2);
	E v = twir_fold(
		m, TWIR_Add, 1, &k, &extent,
		twir_mul(m, causal_element(x, i[0], i[1], twir_add(m, i[2], ke)), tw_load(x, tw_x(x, 1), 3, w)));
	if (tw_has_in(x, 2))
		v = twir_add(m, v, twir_cast(m, v->type.scalar, tw_load(x, tw_x(x, 2), 1, &i[1])));
	if (!strcmp(tw_attr_string(x->node, "activation", "none"), "none")) {
		tw_define(x, y, axes, v);
	} else {
		struct twir_tensor *t = tw_temp(x, "sums", v->type.scalar, 3, y->shape);
		E *j;
		tw_define(x, t, axes, v);
		struct twir_var **own = tw_axes(x, y, &j);
		const E sum = tw_load(x, t, 3, j);
		tw_define(x, y, own, twir_mul(m, sum, tw_call(x, "sigmoid", sum)));
	}
	if (!tw_has_out(x, 1))
		return;
	axes = tw_axes(x, tw_y(x, 1), &i);
	tw_define(x, tw_y(x, 1), axes, causal_element(x, i[0], i[1], twir_add(m, i[2], tw_in_dim(x, 0, 2))));
}

static const struct tw_attr_spec attrs_linear[] = {{"chunk_size", TW_ATTR_INT, false}, /* advice about speed */
						   {"kv_num_heads", TW_ATTR_INT, true},
						   {"q_num_heads", TW_ATTR_INT, true},
						   {"scale", TW_ATTR_FLOAT, false},
						   {"update_rule", TW_ATTR_STRING, false},
						   {NULL}};
static const struct tw_attr_spec attrs_causal[] = {{"activation", TW_ATTR_STRING, false}, {NULL}};

const struct tw_op tw_ops_linear_attention[] = {
	{.name = "LinearAttention",
	 .since = 27,
	 .in = {3, 6},
	 .out = {1, 2},
	 .attrs = attrs_linear,
	 .flags = TW_OP_FLOW,
	 .infer = infer_linear,
	 .compute = compute_linear},
	{.name = "CausalConvWithState",
	 .since = 27,
	 .in = {2, 4},
	 .out = {1, 2},
	 .attrs = attrs_causal,
	 .infer = infer_causal,
	 .compute = compute_causal},
	{0},
};
