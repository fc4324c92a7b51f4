/* recurrent.c: RNN, GRU and LSTM, and its form with quantised weights.
 *
 * The input's part of all gates is one matmul over all steps, biases included. The recurrence is a loop over
 * definitions (ops/flow.h) that runs both directions at once: a direction is an axis, and going backwards is a matter
 * of which time a step reads. States keep the arithmetic's type. */
#include "ops/elementwise.h"
#include "ops/recurrent.h"

typedef const struct twir_expr *E;

enum { X, W, R, BIAS, LENGTHS, INITIAL_H, INITIAL_C, PEEPHOLES };

static void read_cell(struct tw_opctx *x, struct tw_cell *c)
{
	const char *name = x->node->op->name;
	*c = (struct tw_cell){.directions = 1};
	c->kind = !strcmp(name, "RNN") ? TW_CELL_RNN : !strcmp(name, "GRU") ? TW_CELL_GRU : TW_CELL_LSTM;
	c->gates = c->kind == TW_CELL_RNN ? 1 : c->kind == TW_CELL_GRU ? 3 : 4;
	c->functions = c->kind == TW_CELL_RNN ? 1 : c->kind == TW_CELL_GRU ? 2 : 3;
	const char *direction = tw_attr_string(x->node, "direction", "forward");
	if (!strcmp(direction, "bidirectional"))
		c->directions = 2;
	else if (!strcmp(direction, "reverse"))
		c->reverse = true;
	else if (strcmp(direction, "forward") != 0)
		tw_op_fail(x, TW_ERR_MODEL, "direction '%s'", direction);
	c->batch_first = tw_attr_int(x->node, "layout", 0) != 0;
	c->lengths = tw_has_in(x, LENGTHS);
	c->input_forget = tw_attr_int(x->node, "input_forget", 0) != 0;
	c->linear_before_reset = tw_attr_int(x->node, "linear_before_reset", 0) != 0;
	c->clip = tw_attr_float(x->node, "clip", 0);
	c->type = tw_compute_type(tw_in_type(x, X));
	if (tw_in_rank(x, X) != 3 || tw_in_rank(x, W) != 3 || tw_in_rank(x, R) != 3)
		tw_op_fail(x, TW_ERR_MODEL, "X, W and R of rank %d, %d and %d; they must be 3", tw_in_rank(x, X),
			   tw_in_rank(x, W), tw_in_rank(x, R));
	c->time = tw_in_dim(x, X, c->batch_first ? 1 : 0);
	c->batch = tw_in_dim(x, X, c->batch_first ? 0 : 1);
	c->input = tw_in_dim(x, X, 2);
	c->quantized = !strcmp(name, "DynamicQuantizeLSTM");
	c->hidden = tw_in_dim(x, R, c->quantized ? 1 : 2);
	tw_cell_activations(x, c);
}

static void need_shape(struct tw_opctx *x, int i, const char *what, int rank, E a, E b, E c)
{
	const E want[] = {a, b, c};
	if (!tw_has_in(x, i))
		return;
	if (tw_in_rank(x, i) != rank)
		tw_op_fail(x, TW_ERR_MODEL, "%s of rank %d; it must be %d", what, tw_in_rank(x, i), rank);
	for (int d = 0; d < rank; d++)
		tw_same_size(x, tw_in_dim(x, i, d), want[d], what);
}

static E times(struct tw_opctx *x, int n, E e)
{
	return tw_simplify(x, twir_mul(x->m, twir_index(x->m, n), e));
}

static void infer(struct tw_opctx *x)
{
	struct tw_cell c;
	tw_need_type(x, X, "float");
	read_cell(x, &c);
	for (int i = c.quantized ? BIAS : W; i <= PEEPHOLES; i++)
		if (tw_has_in(x, i) && i != LENGTHS && tw_in_type(x, i) != tw_in_type(x, X))
			tw_op_fail(x, TW_ERR_MODEL, "input %d has another type than X", i);
	const E d = twir_index(x->m, c.directions), h = c.hidden;
	if (tw_attr_find(x->node, "hidden_size"))
		tw_same_size(x, twir_index(x->m, tw_attr_int(x->node, "hidden_size", 0)), h, "hidden size");
	const E columns = times(x, c.gates, h);
	if (c.quantized)
		tw_cell_check_quantized(x, &c, columns);
	need_shape(x, W, "W", 3, d, c.quantized ? c.input : columns, c.quantized ? columns : c.input);
	need_shape(x, R, "R", 3, d, c.quantized ? h : columns, c.quantized ? columns : h);
	need_shape(x, BIAS, "B", 2, d, times(x, 2 * c.gates, h), NULL);
	need_shape(x, LENGTHS, "sequence_lens", 1, c.batch, NULL, NULL);
	if (c.lengths)
		tw_need_type(x, LENGTHS, "i32");
	for (int i = INITIAL_H; i <= INITIAL_C; i++)
		need_shape(x, i, "the initial state", 3, c.batch_first ? c.batch : d, c.batch_first ? d : c.batch, h);
	need_shape(x, PEEPHOLES, "P", 2, d, times(x, 3, h), NULL);
	const E y[] = {c.time, d, c.batch, h}, y1[] = {c.batch, c.time, d, h};
	const E s[] = {d, c.batch, h}, s1[] = {c.batch, d, h};
	tw_set_out(x, 0, tw_in_type(x, X), 4, c.batch_first ? y1 : y);
	tw_set_out(x, 1, tw_in_type(x, X), 3, c.batch_first ? s1 : s);
	tw_set_out(x, 2, tw_in_type(x, X), 3, c.batch_first ? s1 : s);
}

/* (direction, inner, rows) of a weight (direction, rows, inner): the form that matmuls read */
static struct twir_tensor *turned(struct tw_opctx *x, const struct tw_cell *c, int input, const char *name)
{
	struct twir_tensor *w = tw_x(x, input);
	const E shape[] = {w->shape[0], w->shape[2], w->shape[1]};
	struct twir_tensor *t = tw_temp(x, name, c->type, 3, shape);
	E *i;
	struct twir_var **axes = tw_axes(x, t, &i);
	const E at[] = {i[0], i[2], i[1]};
	tw_define(x, t, axes, tw_load(x, w, 3, at));
	return t;
}

static E bias(struct tw_opctx *x, const struct tw_cell *c, E d, E column)
{
	struct twir_module *m = x->m;
	const E rows = times(x, c->gates, c->hidden), at[] = {d, column}, second[] = {d, twir_add(m, rows, column)};
	const E w = tw_load(x, tw_x(x, BIAS), 2, at), r = tw_load(x, tw_x(x, BIAS), 2, second);
	const E both = twir_add(m, w, r);
	if (c->kind != TW_CELL_GRU || !c->linear_before_reset)
		return both;
	return twir_select(m, twir_lt(m, column, times(x, 2, c->hidden)), both, w);
}

/* (direction, rows, gates * hidden): `in` (rows, input) times W */
static struct twir_tensor *multiply(struct tw_opctx *x, const struct tw_cell *c, struct twir_tensor *in)
{
	struct twir_module *m = x->m;
	struct twir_tensor *weights = turned(x, c, W, "w");
	const E shape[] = {twir_index(m, c->directions), in->shape[0], times(x, c->gates, c->hidden)};
	struct twir_tensor *y = tw_temp(x, "projected", c->type, 3, shape);
	E *i;
	struct twir_var **axes = tw_axes(x, y, &i), *k = tw_fold_axis(x, "k", c->input);
	const E ke = twir_var(m, k), xa[] = {i[1], ke}, wa[] = {i[0], ke, i[2]};
	const E v = twir_mul(m, tw_load(x, in, 2, xa), tw_load(x, weights, 3, wa));
	tw_define(x, y, axes, twir_fold(m, TWIR_Add, 1, &k, &c->input, v));
	return y;
}

/* X W of all steps: rows are (time, batch) */
static void project(struct tw_opctx *x, struct tw_cell *c)
{
	struct twir_module *m = x->m;
	const E rows = twir_mul(m, c->time, c->batch), flat[] = {rows, c->input};
	struct twir_tensor *in = tw_temp(x, "rows", c->type, 2, flat);
	E *i;
	struct twir_var **axes = tw_axes(x, in, &i);
	const E shape[] = {c->time, c->batch};
	E at[3];
	tw_unflatten(x, i[0], 2, shape, at);
	const E swapped[] = {at[1], at[0], i[1]}, straight[] = {at[0], at[1], i[1]};
	tw_define(x, in, axes, tw_load(x, tw_x(x, X), 3, c->batch_first ? swapped : straight));
	struct twir_tensor *y = c->quantized ? tw_cell_product(x, in, W, "projected") : multiply(x, c, in);
	c->projected = y;
	if (tw_has_in(x, BIAS)) {
		c->projected = tw_temp(x, "biased", c->type, 3, y->shape);
		axes = tw_axes(x, c->projected, &i);
		tw_define(x, c->projected, axes, twir_add(m, tw_load(x, y, 3, i), bias(x, c, i[0], i[2])));
	}
}

static struct twir_tensor *state(struct tw_opctx *x, const struct tw_cell *c, const char *name)
{
	const E shape[] = {twir_index(x->m, c->directions), c->batch, c->hidden};
	return tw_temp(x, name, c->type, 3, shape);
}

/* A state before the first step: given, or zero */
static struct twir_tensor *initial(struct tw_opctx *x, const struct tw_cell *c, int input)
{
	struct twir_tensor *t = state(x, c, "initial");
	E *i;
	struct twir_var **axes = tw_axes(x, t, &i);
	if (!tw_has_in(x, input)) {
		tw_define(x, t, axes, twir_const_of(x->m, twir_scalar_type(c->type), 0));
		return t;
	}
	if (!c->batch_first && tw_x(x, input)->type == c->type)
		return tw_x(x, input);
	const E swapped[] = {i[1], i[0], i[2]};
	tw_define(x, t, axes, tw_load(x, tw_x(x, input), 3, c->batch_first ? swapped : i));
	return t;
}

/* What counts after a step: the new value while the sequence lasts, then `otherwise` (NULL: zero). */
static struct twir_tensor *while_it_lasts(struct tw_opctx *x, const struct tw_cell *c, struct twir_tensor *value,
					  struct twir_tensor *otherwise)
{
	struct twir_tensor *t = state(x, c, otherwise ? "kept" : "shown");
	E *i;
	struct twir_var **axes = tw_axes(x, t, &i);
	const E now = tw_load(x, value, 3, i);
	const E then = otherwise ? tw_load(x, otherwise, 3, i) : tw_like(x, now, 0);
	const E lasts = twir_lt(x->m, twir_var(x->m, c->loop->number), tw_cell_length(x, i[1]));
	tw_define(x, t, axes, twir_select(x->m, lasts, now, then));
	return t;
}

/* Output k is the last state. Returns the tensor that the loop leaves it in. */
static struct twir_tensor *last(struct tw_opctx *x, const struct tw_cell *c, int k)
{
	if (!tw_has_out(x, k))
		return NULL;
	return c->batch_first || tw_y(x, k)->type != c->type ? state(x, c, "last") : tw_y(x, k);
}

static void give_last(struct tw_opctx *x, const struct tw_cell *c, int k, struct twir_tensor *t)
{
	E *i;
	if (!tw_has_out(x, k) || t == tw_y(x, k))
		return;
	struct twir_var **axes = tw_axes(x, tw_y(x, k), &i);
	const E swapped[] = {i[1], i[0], i[2]};
	tw_define(x, tw_y(x, k), axes, tw_load(x, t, 3, c->batch_first ? swapped : i));
}

/* Y from the states in the order of the steps */
static void give_all(struct tw_opctx *x, const struct tw_cell *c, struct twir_tensor *all)
{
	E *i;
	if (!all || all == tw_y(x, 0))
		return;
	struct twir_var **axes = tw_axes(x, tw_y(x, 0), &i);
	const E time = c->batch_first ? i[1] : i[0], d = c->batch_first ? i[2] : i[1], b = c->batch_first ? i[0] : i[2];
	const E at[] = {tw_cell_time(x, c, time, d, b), d, b, i[3]};
	tw_define(x, tw_y(x, 0), axes, tw_load(x, all, 4, at));
}

static void compute(struct tw_opctx *x)
{
	struct tw_cell c;
	read_cell(x, &c);
	project(x, &c);
	c.weights = c.quantized ? NULL : turned(x, &c, R, "r");
	struct twir_tensor *h0 = initial(x, &c, INITIAL_H), *h = state(x, &c, "h_in"), *new_h, *shown;
	struct twir_tensor *c0 = NULL, *cell = NULL, *new_cell = NULL, *all = NULL;
	if (c.kind == TW_CELL_LSTM) {
		c0 = initial(x, &c, INITIAL_C);
		cell = state(x, &c, "c_in");
	}
	c.loop = tw_flow_new(x->g, x->node->name);
	tw_flow_number(x, c.loop, c.time);
	tw_flow_mark(x, TW_MARK_LOOP, c.loop);
	tw_cell_step(x, &c, h, cell, &new_h, &new_cell);
	shown = new_h;
	if (c.lengths) {
		if (tw_has_out(x, 0))
			shown = while_it_lasts(x, &c, new_h, NULL);
		new_h = while_it_lasts(x, &c, new_h, h);
		if (cell)
			new_cell = while_it_lasts(x, &c, new_cell, cell);
	}
	struct twir_tensor *last_h = last(x, &c, 1), *last_c = cell ? last(x, &c, 2) : NULL;
	vec_push(x->g->arena, &c.loop->carried, ((struct tw_carried){h0, h, new_h, last_h}));
	if (cell)
		vec_push(x->g->arena, &c.loop->carried, ((struct tw_carried){c0, cell, new_cell, last_c}));
	if (tw_has_out(x, 0)) {
		const bool plain = !c.batch_first && !c.reverse && c.directions == 1 && tw_y(x, 0)->type == c.type;
		const E shape[] = {c.time, twir_index(x->m, c.directions), c.batch, c.hidden};
		all = plain ? tw_y(x, 0) : tw_temp(x, "states", c.type, 4, shape);
		vec_push(x->g->arena, &c.loop->slices, ((struct tw_slice){shown, all}));
	}
	tw_flow_mark(x, TW_MARK_NEXT, c.loop);
	give_all(x, &c, all);
	give_last(x, &c, 1, last_h);
	if (cell)
		give_last(x, &c, 2, last_c);
}

#define COMMON                                                                                                         \
	{"activation_alpha", TW_ATTR_FLOATS, false}, {"activation_beta", TW_ATTR_FLOATS, false},                       \
		{"activations", TW_ATTR_STRINGS, false}, {"clip", TW_ATTR_FLOAT, false},                               \
		{"direction", TW_ATTR_STRING, false},                                                                  \
	{                                                                                                              \
		"hidden_size", TW_ATTR_INT, false                                                                      \
	}
#define LAYOUT                                                                                                         \
	{                                                                                                              \
		"layout", TW_ATTR_INT, false                                                                           \
	}
static const struct tw_attr_spec attrs_rnn7[] = {COMMON, {NULL}}, attrs_rnn14[] = {COMMON, LAYOUT, {NULL}};
static const struct tw_attr_spec attrs_gru7[] = {COMMON, {"linear_before_reset", TW_ATTR_INT, false}, {NULL}};
static const struct tw_attr_spec attrs_gru14[] = {COMMON, LAYOUT, {"linear_before_reset", TW_ATTR_INT, false}, {NULL}};
static const struct tw_attr_spec attrs_lstm7[] = {COMMON, {"input_forget", TW_ATTR_INT, false}, {NULL}};
static const struct tw_attr_spec attrs_lstm14[] = {COMMON, LAYOUT, {"input_forget", TW_ATTR_INT, false}, {NULL}};

#define CELL .flags = TW_OP_FLOW, .infer = infer, .compute = compute

const struct tw_op tw_ops_recurrent[] = {
	{.name = "RNN", .since = 7, .until = 13, .in = {3, 6}, .out = {0, 2}, .attrs = attrs_rnn7, CELL},
	{.name = "RNN", .since = 14, .in = {3, 6}, .out = {0, 2}, .attrs = attrs_rnn14, CELL},
	{.name = "GRU", .since = 7, .until = 13, .in = {3, 6}, .out = {0, 2}, .attrs = attrs_gru7, CELL},
	{.name = "GRU", .since = 14, .in = {3, 6}, .out = {0, 2}, .attrs = attrs_gru14, CELL},
	{.name = "LSTM", .since = 7, .until = 13, .in = {3, 8}, .out = {0, 3}, .attrs = attrs_lstm7, CELL},
	{.name = "LSTM", .since = 14, .in = {3, 8}, .out = {0, 3}, .attrs = attrs_lstm14, CELL},
	{.name = "DynamicQuantizeLSTM",
	 .domain = "com.microsoft",
	 .since = 1,
	 .in = {3, 12},
	 .out = {0, 3},
	 .attrs = attrs_lstm7,
	 CELL},
	{0},
};
