/* Graph passes and grouping, on graphs made by hand: what folds, what joins whom, what is computed once at compile time. That the results are right is the business
 * of test_sched and of the runners over models; here it is the shape of the outcome. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "opt/opt.h"

struct world {
	struct tw_arena *a;
	struct tw_graph *g;
	struct tw_groups groups;
};

static tw_id input(struct world *w, const char *name, int rank, const int64_t *dims)
{
	const struct twir_expr *shape[TWIR_MAX_RANK];
	for (int i = 0; i < rank; i++)
		shape[i] = twir_index(w->g->m, dims[i]);
	const tw_id t = tw_graph_tensor(w->g, name, TWIR_F32, rank, shape);
	vec_push(w->a, &w->g->inputs, t);
	return t;
}

/* values: i * step + first */
static tw_id constant(struct world *w, const char *name, int rank, const int64_t *dims, float first, float step)
{
	int64_t n = 1;
	for (int i = 0; i < rank; i++)
		n *= dims[i];
	float *data = ARENA_ARRAY(w->a, float, n);
	for (int64_t i = 0; i < n; i++)
		data[i] = first + step * (float)i;
	return tw_graph_constant(w->g, name, TWIR_F32, rank, dims, data);
}

static tw_id node(struct world *w, const char *op, int nin, const tw_id *in, int nattrs, const struct tw_attr *attrs)
{
	const struct tw_op *row = tw_op_find("", op, 17);
	assert_non_null(row);
	const tw_id out = tw_graph_tensor(w->g, arena_printf(w->a, "%s_%d", op, w->g->nodes.n), TWIR_VOID, -1, NULL);
	const tw_id id = tw_graph_node(w->g, row, arena_printf(w->a, "%s_%d", op, w->g->nodes.n), 17, nin, in, 1, &out,
				       nattrs, attrs);
	w->g->nodes.at[id].op_type = op;
	return out;
}

#define NODE(w, op, ...)                                                                                               \
	node((w), (op), (int)(sizeof((tw_id[]){__VA_ARGS__}) / sizeof(tw_id)), (tw_id[]){__VA_ARGS__}, 0, NULL)

static void output(struct world *w, tw_id t)
{
	vec_push(w->a, &w->g->outputs, t);
}

static void optimise_and_group(struct world *w)
{
	struct tw_definitions d;
	tw_infer(w->g);
	opt_fold_constants(w->g);
	opt_fold_affine(w->g);
	opt_remove_dead(w->g);
	opt_lower(w->g, &d);
	opt_group(&d, &w->groups);
}

static int live_nodes(const struct world *w)
{
	int n = 0;
	for (int i = 0; i < w->g->nodes.n; i++)
		n += !w->g->nodes.at[i].dead;
	return n;
}

static void chain_is_one_task(struct world *w)
{
	const tw_id x = input(w, "x", 2, (int64_t[]){8, 100}), y = input(w, "y", 1, (int64_t[]){100});
	output(w, NODE(w, "Relu", NODE(w, "Mul", NODE(w, "Add", x, y), x)));
	optimise_and_group(w);
	assert_int_equal(w->groups.list.n, 1);
	assert_null(w->groups.list.at[0]->task.consumer);
	assert_string_equal(w->groups.list.at[0]->label, "Relu_2+Mul_1+Add_0");
}

static void matmul_takes_its_epilogue(struct world *w)
{
	const tw_id x = input(w, "x", 2, (int64_t[]){16, 32}), b = constant(w, "b", 2, (int64_t[]){32, 48}, 0, 0.01f);
	const tw_id bias = constant(w, "bias", 1, (int64_t[]){48}, 1, 1), r = input(w, "r", 2, (int64_t[]){16, 48});
	output(w, NODE(w, "Relu", NODE(w, "Add", NODE(w, "Add", NODE(w, "MatMul", x, b), bias), r)));
	optimise_and_group(w);
	assert_int_equal(w->groups.list.n, 1);
	assert_non_null(w->groups.list.at[0]->task.consumer);
	const struct tw_target t = {.isa = TW_ISA_AVX512, .lanes = 16, .vector_registers = 32, .has_fma = true};
	assert_string_equal(tw_schedule_name(&w->groups.list.at[0]->task, &t), "matmul");
}

/* x * sigmoid(x) after a matmul: two nodes read x, but one definition does. */
static void swish_joins_the_matmul(struct world *w)
{
	const tw_id x = input(w, "x", 2, (int64_t[]){16, 32}), b = constant(w, "b", 2, (int64_t[]){32, 48}, 0, 0.01f);
	const tw_id y = NODE(w, "Add", NODE(w, "MatMul", x, b), constant(w, "bias", 1, (int64_t[]){48}, 1, 1));
	output(w, NODE(w, "Mul", y, NODE(w, "Sigmoid", y)));
	optimise_and_group(w);
	assert_int_equal(w->groups.list.n, 1);
}

/* (197, 1, 32) x (32, 48): 197 rows of one matmul, not 197 matmuls of one row. */
static void stack_is_one_matmul(struct world *w)
{
	const tw_id x = input(w, "x", 3, (int64_t[]){197, 1, 32});
	const tw_id b = constant(w, "b", 2, (int64_t[]){32, 48}, 0, 0.01f);
	output(w, NODE(w, "Relu", NODE(w, "MatMul", x, b)));
	optimise_and_group(w);
	assert_int_equal(w->groups.list.n, 1);
	const struct tw_task *task = &w->groups.list.at[0]->task;
	assert_non_null(task->consumer);
	assert_int_equal(task->anchor->out->rank, 2);
	assert_ptr_equal(task->anchor->out->shape[0], twir_index(w->g->m, 197));
	const struct tw_target t = {.isa = TW_ISA_AVX512, .lanes = 16, .vector_registers = 32, .has_fma = true};
	assert_string_equal(tw_schedule_name(task, &t), "matmul");
}

/* A result with two consumers stays: each consumer is a task of its own. */
static void shared_anchor_stays(struct world *w)
{
	const tw_id x = input(w, "x", 2, (int64_t[]){16, 32}), b = constant(w, "b", 2, (int64_t[]){32, 48}, 0, 0.01f);
	const tw_id c = NODE(w, "MatMul", x, b);
	output(w, NODE(w, "Relu", c));
	output(w, NODE(w, "Exp", c));
	optimise_and_group(w);
	assert_int_equal(w->groups.list.n, 3);
}

static void batchnorm_folds(struct world *w)
{
	const tw_id x = input(w, "x", 4, (int64_t[]){1, 8, 8, 8}),
		    k = constant(w, "w", 4, (int64_t[]){6, 8, 3, 3}, -1, 0.01f);
	const tw_id scale = constant(w, "scale", 1, (int64_t[]){6}, 1, 0.5f),
		    shift = constant(w, "B", 1, (int64_t[]){6}, 0, 1);
	const tw_id mean = constant(w, "mean", 1, (int64_t[]){6}, 2, 1),
		    var = constant(w, "var", 1, (int64_t[]){6}, 1, 1);
	const int64_t pads[] = {1, 1, 1, 1};
	const struct tw_attr attr = {.name = "pads", .kind = TW_ATTR_INTS, .n = 4, .ints = pads};
	const tw_id c = node(w, "Conv", 2, (tw_id[]){x, k}, 1, &attr);
	output(w, NODE(w, "Relu", NODE(w, "BatchNormalization", c, scale, shift, mean, var)));
	optimise_and_group(w);
	assert_int_equal(live_nodes(w), 2);
	assert_int_equal(w->groups.list.n, 1);
	for (int i = 0; i < w->g->nodes.n; i++) {
		const struct tw_node *n = &w->g->nodes.at[i];
		if (n->dead || strcmp(n->op->name, "Conv") != 0)
			continue;
		const float *nw = w->g->tensors.at[n->in[1]].data, *nb = w->g->tensors.at[n->in[2]].data;
		for (int c5 = 0; c5 < 6; c5++) {
			const double factor = (1 + 0.5 * c5) / sqrt(1.0 + c5 + 1e-5);
			assert_float_equal(nw[c5 * 72], (-1 + 0.01 * c5 * 72) * factor, 1e-5);
			assert_float_equal(nb[c5], c5 - (2 + c5) * factor, 1e-5);
		}
	}
}

/* ((conv * 2 + b[c]) -> 1 - that) / 4; what lies along another axis, or is used twice, stays. */
static void constants_of_channels_fold(struct world *w)
{
	const tw_id x = input(w, "x", 4, (int64_t[]){1, 3, 6, 6}),
		    k = constant(w, "w", 4, (int64_t[]){6, 3, 1, 1}, -1, 0.25f);
	const tw_id two = constant(w, "two", 1, (int64_t[]){1}, 2, 0), one = constant(w, "one", 0, NULL, 1, 0);
	const tw_id b = constant(w, "b", 4, (int64_t[]){1, 6, 1, 1}, 3, 1),
		    columns = constant(w, "columns", 1, (int64_t[]){6}, 0, 1);
	const tw_id scaled = NODE(w, "Add", b, NODE(w, "Mul", NODE(w, "Conv", x, k), two));
	output(w, NODE(w, "Div", NODE(w, "Sub", one, scaled), constant(w, "four", 0, NULL, 4, 0)));
	output(w, NODE(w, "Add", NODE(w, "Conv", x, k), columns));
	const tw_id shared = NODE(w, "Conv", x, k);
	output(w, NODE(w, "Mul", shared, two));
	output(w, NODE(w, "Neg", shared));
	optimise_and_group(w);
	assert_int_equal(live_nodes(w), 1 + 2 + 3);
	const struct tw_node *n = &w->g->nodes.at[4];
	assert_string_equal(n->op->name, "Conv");
	const float *nw = w->g->tensors.at[n->in[1]].data, *nb = w->g->tensors.at[n->in[2]].data;
	for (int i = 0; i < 18; i++)
		assert_float_equal(nw[i], -(-1 + 0.25 * i) * 2 / 4, 1e-6);
	for (int i = 0; i < 6; i++)
		assert_float_equal(nb[i], (1.0 - (3 + i)) / 4, 1e-6);
}

/* A run of nodes is rounded once, whatever identities lie between them: thirds of thirds would not come out else. */
static void runs_are_rounded_once(struct world *w)
{
	const tw_id x = input(w, "x", 4, (int64_t[]){1, 4, 6, 6}),
		    k = constant(w, "w", 4, (int64_t[]){6, 4, 3, 3}, -1, 0.013f);
	const tw_id third = constant(w, "third", 0, NULL, 1.0f / 3, 0), few = constant(w, "few", 0, NULL, 0.7f, 0);
	const tw_id b = constant(w, "b", 4, (int64_t[]){1, 6, 1, 1}, 0.3f, 0.1f);
	const int64_t strides[] = {2, 2};
	const struct tw_attr attr[] = {{.name = "strides", .kind = TW_ATTR_INTS, .n = 2, .ints = strides},
				       {.name = "group", .kind = TW_ATTR_INT, .n = 1, .i = 2}};
	for (int transposed = 0; transposed < 2; transposed++) {
		/* the transposed one: 4 input channels, 3 results in each of 2 groups */
		const tw_id kt = constant(w, "wt", 4, (int64_t[]){4, 3, 2, 2}, -1, 0.013f);
		const tw_id c =
			transposed ? node(w, "ConvTranspose", 2, (tw_id[]){x, kt}, 2, attr) : NODE(w, "Conv", x, k);
		const tw_id scaled = NODE(w, "Identity", NODE(w, "Mul", NODE(w, "Identity", c), third));
		output(w, NODE(w, "Mul", NODE(w, "Add", NODE(w, "Mul", scaled, few), b), third));
	}
	optimise_and_group(w);
	assert_int_equal(live_nodes(w), 2);
	for (int i = 0; i < w->g->nodes.n; i++) {
		const struct tw_node *n = &w->g->nodes.at[i];
		const bool transposed = strcmp(n->op->name, "ConvTranspose") == 0;
		if (n->dead)
			continue;
		const double by = (double)(1.0f / 3) * 0.7f * (1.0f / 3);
		const float *nw = w->g->tensors.at[n->in[1]].data, *nb = w->g->tensors.at[n->in[2]].data;
		for (int j = 0; j < (transposed ? 48 : 216); j++)
			assert_true(nw[j] == (float)((double)(-1 + 0.013f * (float)j) * by));
		for (int j = 0; j < 6; j++)
			assert_true(nb[j] == (float)((double)(0.3f + 0.1f * (float)j) * (1.0f / 3)));
	}
}

/* Which channel of the result each weight of a transposed convolution makes, in groups. */
static void transposed_weights_scale_by_channel(struct world *w)
{
	const tw_id x = input(w, "x", 4, (int64_t[]){1, 4, 6, 6}),
		    k = constant(w, "w", 4, (int64_t[]){4, 3, 1, 2}, 1, 0);
	const struct tw_attr attr = {.name = "group", .kind = TW_ATTR_INT, .n = 1, .i = 2};
	const tw_id c = node(w, "ConvTranspose", 2, (tw_id[]){x, k}, 1, &attr);
	output(w, NODE(w, "Mul", c, constant(w, "scale", 4, (int64_t[]){1, 6, 1, 1}, 1, 1)));
	optimise_and_group(w);
	assert_int_equal(live_nodes(w), 1);
	for (int i = 0; i < w->g->nodes.n; i++) {
		const struct tw_node *n = &w->g->nodes.at[i];
		const float *nw = n->dead ? NULL : w->g->tensors.at[n->in[1]].data;
		for (int row = 0; nw && row < 4; row++) /* input channels 0 and 1 make 1 to 3, 2 and 3 make 4 to 6 */
			for (int j = 0; j < 6; j++)
				assert_true(nw[row * 6 + j] == (float)(1 + row / 2 * 3 + j / 2));
	}
}

/* Only where they are factors or biases: a quotient by the same tensor must not become infinite. */
static void subnormal_weights_are_zeros(struct world *w)
{
	const tw_id x = input(w, "x", 2, (int64_t[]){3, 100}), v = input(w, "v", 1, (int64_t[]){100});
	const tw_id b = constant(w, "b", 1, (int64_t[]){100}, 0x1.8p-126f, -0x1p-127f);
	const tw_id k = constant(w, "k", 2, (int64_t[]){100, 100}, 1, 1);
	output(w, NODE(w, "Gemm", x, k, b));
	output(w, NODE(w, "Gemm", x, k, b));
	output(w, NODE(w, "Div", v, b));
	tw_infer(w->g);
	opt_flush_weights(w->g);
	const tw_id used = w->g->nodes.at[0].in[2];
	assert_int_equal(w->g->nodes.at[0].in[1], k);
	assert_int_equal(w->g->nodes.at[1].in[2], used);
	assert_int_equal(w->g->nodes.at[2].in[1], b);
	const float *flushed = w->g->tensors.at[used].data, *kept = w->g->tensors.at[b].data;
	for (int i = 0; i < 100; i++)
		assert_true(flushed[i] == (i == 2 || i == 4 ? 0 : kept[i]));
	assert_true(kept[2] > 0 && kept[4] < 0 && kept[3] == 0);
}

static void small_constants_fold(struct world *w)
{
	const tw_id x = input(w, "x", 1, (int64_t[]){10}), c = constant(w, "c", 1, (int64_t[]){10}, 1, 1);
	output(w, NODE(w, "Add", x, NODE(w, "Sqrt", NODE(w, "Mul", c, c))));
	optimise_and_group(w);
	assert_int_equal(live_nodes(w), 1);
	for (int i = 0; i < w->g->tensors.n; i++)
		if (strcmp(w->g->tensors.at[i].name, "Sqrt_1") == 0)
			assert_float_equal(((const float *)w->g->tensors.at[i].data)[6], 7, 0);
}

static void large_constants_are_set_up(struct world *w)
{
	const tw_id x = input(w, "x", 1, (int64_t[]){40000}), c = constant(w, "c", 1, (int64_t[]){40000}, 1, 1);
	output(w, NODE(w, "Add", x, NODE(w, "Sqrt", c)));
	optimise_and_group(w);
	assert_int_equal(w->groups.list.n, 2);
	assert_true(w->groups.list.at[0]->setup);
	assert_false(w->groups.list.at[1]->setup);
}

/* An exponential in front of a 3x3 window would be computed nine times. */
static void windows_do_not_repeat_work(struct world *w)
{
	const tw_id x = input(w, "x", 4, (int64_t[]){1, 4, 32, 32});
	const int64_t shape[] = {3, 3};
	const struct tw_attr attr = {.name = "kernel_shape", .kind = TW_ATTR_INTS, .n = 2, .ints = shape};
	const tw_id e = NODE(w, "Exp", x);
	output(w, node(w, "MaxPool", 1, &e, 1, &attr));
	optimise_and_group(w);
	assert_int_equal(w->groups.list.n, 2);
}

/* The same before a depthwise convolution with a bias, where the sum is not the whole definition. */
static void depthwise_does_not_repeat_work(struct world *w)
{
	const tw_id x = input(w, "x", 4, (int64_t[]){1, 4, 32, 32}),
		    k = constant(w, "w", 4, (int64_t[]){4, 1, 3, 3}, -1, 0.01f);
	const tw_id bias = constant(w, "bias", 1, (int64_t[]){4}, 1, 1);
	const struct tw_attr attr = {.name = "group", .kind = TW_ATTR_INT, .i = 4};
	output(w, node(w, "Conv", 3, (tw_id[]){NODE(w, "Sigmoid", x), k, bias}, 1, &attr));
	optimise_and_group(w);
	assert_int_equal(w->groups.list.n, 2);
}

static void see_quotient(void *arg, const struct twir_expr *e)
{
	*(int *)arg += e->kind == TWIR_Div && e->type.scalar == TWIR_F32;
}

static int quotients(struct world *w)
{
	int n = 0;
	for (int i = 0; i < w->groups.list.n; i++) {
		const struct tw_task *t = &w->groups.list.at[i]->task;
		twir_visit_expr(t->anchor->value, see_quotient, &n);
		if (t->consumer)
			twir_visit_expr(t->consumer->value, see_quotient, &n);
	}
	return n;
}

/* x / 8 is x * 0.125 in every bit, and erf is smooth; x / 3 may be rounded next. */
static int quotients_left(struct world *w)
{
	const tw_id x = input(w, "x", 1, (int64_t[]){100}), root = constant(w, "r", 0, NULL, 1.4142135f, 0);
	output(w, NODE(w, "Div", x, constant(w, "c", 0, NULL, 8, 0)));
	output(w, NODE(w, "Erf", NODE(w, "Div", x, root)));
	output(w, NODE(w, "Round", NODE(w, "Div", x, constant(w, "d", 0, NULL, 3, 0))));
	optimise_and_group(w);
	return quotients(w);
}

static void quotients_become_products(struct world *w)
{
	assert_int_equal(quotients_left(w), 1);
}

static void exact_quotients_stay(struct world *w)
{
	w->groups.exact = true;
	assert_int_equal(quotients_left(w), 2);
}

/* Behind a sum of products, unless what follows is rounded before the next one. */
static int summed_quotients_left(struct world *w)
{
	const tw_id x = input(w, "x", 2, (int64_t[]){8, 100}), k = constant(w, "k", 2, (int64_t[]){100, 100}, 0, 1e-4f);
	const tw_id three = constant(w, "three", 0, NULL, 3, 0);
	const tw_id a = NODE(w, "Div", NODE(w, "MatMul", x, k), three); /* product */
	const tw_id b = NODE(w, "Div", NODE(w, "MatMul", a, k), three); /* rounded below */
	output(w, NODE(w, "Div", NODE(w, "Exp", x), three));		/* no sum */
	output(w, b);
	output(w, NODE(w, "Floor", NODE(w, "Exp", b)));
	optimise_and_group(w);
	return quotients(w);
}

static void summed_quotients_become_products(struct world *w)
{
	assert_int_equal(summed_quotients_left(w), 2);
}

static void exact_summed_quotients_stay(struct world *w)
{
	w->groups.exact = true;
	assert_int_equal(summed_quotients_left(w), 3);
}

static void see_step(void *arg, const struct twir_expr *e)
{
	*(int *)arg += e->kind == TWIR_Fma;
}

static int steps(const struct twir_expr *e)
{
	int n = 0;
	twir_visit_expr(e, see_step, &n);
	return n;
}

/* 2 * conv + 1 behind an activation; a difference of two products, and what no sum precedes, stay. */
static void multiplies_and_adds(struct world *w, bool fma, int expected)
{
	const tw_id x = input(w, "x", 2, (int64_t[]){8, 100}), y = input(w, "y", 2, (int64_t[]){9, 100});
	const tw_id k = constant(w, "k", 2, (int64_t[]){100, 100}, 0, 1e-4f);
	const tw_id two = constant(w, "two", 0, NULL, 2, 0), one = constant(w, "one", 0, NULL, 1, 0);
	output(w, NODE(w, "Add", NODE(w, "Mul", NODE(w, "Relu", NODE(w, "MatMul", x, k)), two), one));
	const tw_id z = NODE(w, "MatMul", y, k);
	output(w, NODE(w, "Add", NODE(w, "Mul", z, two), NODE(w, "Mul", z, constant(w, "three", 0, NULL, 3, 0))));
	output(w, NODE(w, "Add", NODE(w, "Mul", x, two), one));
	w->groups.fma = fma;
	optimise_and_group(w);
	int n = 0;
	for (int i = 0; i < w->groups.list.n; i++) {
		const struct tw_task *t = &w->groups.list.at[i]->task;
		n += steps(t->anchor->value) + (t->consumer ? steps(t->consumer->value) : 0);
	}
	assert_int_equal(n, expected);
}

static void sums_of_products_take_one_step(struct world *w)
{
	multiplies_and_adds(w, true, 1);
}

static void no_step_without_the_instruction(struct world *w)
{
	multiplies_and_adds(w, false, 0);
}

static void exact_sums_take_two_steps(struct world *w)
{
	w->groups.exact = true;
	multiplies_and_adds(w, true, 0);
}

static void unused_nodes_vanish(struct world *w)
{
	const tw_id x = input(w, "x", 1, (int64_t[]){10});
	NODE(w, "Exp", NODE(w, "Sqrt", x));
	output(w, NODE(w, "Relu", x));
	optimise_and_group(w);
	assert_int_equal(live_nodes(w), 1);
	assert_int_equal(w->groups.list.n, 1);
}

struct trial {
	void (*check)(struct world *w);
	struct world w;
};

static void guarded(void *arg)
{
	struct trial *t = arg;
	t->w.g = tw_graph_new(t->w.a, twir_module_new(t->w.a));
	t->check(&t->w);
}

static void run(void **state)
{
	struct trial t = {.check = *(void (**)(struct world *)) * state, .w = {.a = arena_new()}};
	struct tw_error e;
	if (!tw_try(&e, guarded, &t))
		fail_msg("%s", e.text);
	arena_free(t.w.a);
}

/* --- tensors in parts --- */

static tw_id concat(struct world *w, int axis, int n, const tw_id *in)
{
	const struct tw_attr attr = {.name = "axis", .kind = TW_ATTR_INT, .i = axis};
	return node(w, "Concat", n, in, 1, arena_copy(w->a, &attr, sizeof(attr)));
}

#define CONCAT(w, axis, ...)                                                                                           \
	concat((w), (axis), (int)(sizeof((tw_id[]){__VA_ARGS__}) / sizeof(tw_id)), (tw_id[]){__VA_ARGS__})

static tw_id product(struct world *w, tw_id x, int64_t from, int64_t to)
{
	return NODE(w, "MatMul", x, constant(w, "b", 2, (int64_t[]){from, to}, 0, 0.01f));
}

/* Where t lies in its whole along the axis; -1: it is no part. */
static int64_t place_of(const struct world *w, tw_id t)
{
	const struct tw_part *p = map_get_ptr(&w->groups.parts, w->g->tensors.at[t].ir);
	int64_t at = -1;
	if (p)
		assert_true(twir_const_int(p->at, &at));
	return at;
}

static const struct twir_tensor *whole_of(const struct world *w, tw_id t)
{
	const struct tw_part *p = map_get_ptr(&w->groups.parts, w->g->tensors.at[t].ir);
	return p ? p->whole : NULL;
}

static void products_are_stored_side_by_side(struct world *w)
{
	const tw_id x = input(w, "x", 2, (int64_t[]){16, 32}), a = product(w, x, 32, 48);
	const tw_id b = NODE(w, "Relu", product(w, x, 32, 20)), y = CONCAT(w, 1, a, b);
	output(w, y);
	optimise_and_group(w);
	assert_int_equal(w->groups.list.n, 2);
	assert_int_equal(place_of(w, a), 0);
	assert_int_equal(place_of(w, b), 48);
	assert_ptr_equal(whole_of(w, b), w->g->tensors.at[y].ir);
}

/* Each layer reads all before it: all lie in the last of the concatenations, the others are parts of it. */
static void a_dense_chain_copies_nothing(struct world *w)
{
	const tw_id x = input(w, "x", 2, (int64_t[]){16, 32}), a = product(w, x, 32, 8), b = product(w, a, 8, 8);
	const tw_id ab = CONCAT(w, 1, a, b), c = product(w, ab, 16, 8), abc = CONCAT(w, 1, a, b, c);
	const tw_id d = product(w, abc, 24, 8), all = CONCAT(w, 1, a, b, c, d);
	output(w, product(w, all, 32, 4));
	optimise_and_group(w);
	assert_int_equal(w->groups.list.n, 5);
	const tw_id parts[] = {a, b, c, d, ab, abc};
	const int64_t at[] = {0, 8, 16, 24, 0, 0};
	for (int i = 0; i < TW_COUNT(parts); i++) {
		assert_int_equal(place_of(w, parts[i]), at[i]);
		assert_ptr_equal(whole_of(w, parts[i]), w->g->tensors.at[all].ir);
	}
}

/* A whole inside another one; what is in its place already is copied for the second place. */
static void wholes_lie_in_wholes(struct world *w)
{
	const tw_id x = input(w, "x", 2, (int64_t[]){16, 32}), a = product(w, x, 32, 8), b = product(w, x, 32, 8);
	const tw_id inner = CONCAT(w, 1, a, b), outer = CONCAT(w, 1, product(w, x, 32, 5), inner, a);
	output(w, outer);
	optimise_and_group(w);
	assert_int_equal(w->groups.list.n, 4);
	assert_int_equal(place_of(w, inner) + place_of(w, b), 5 + 8);
	assert_ptr_equal(whole_of(w, inner), w->g->tensors.at[outer].ir);
}

/* A split whose halves come together again is no split. */
static void halves_are_one_part(struct world *w)
{
	const tw_id x = input(w, "x", 2, (int64_t[]){16, 32}), a = NODE(w, "Relu", product(w, x, 32, 24));
	static const int64_t one[] = {1}, at[] = {0, 12, 24};
	tw_id half[2];
	for (int i = 0; i < 2; i++)
		half[i] = NODE(w, "Slice", a, tw_graph_constant(w->g, "from", TWIR_I64, 1, one, &at[i]),
			       tw_graph_constant(w->g, "to", TWIR_I64, 1, one, &at[i + 1]),
			       tw_graph_constant(w->g, "axis", TWIR_I64, 1, one, one));
	output(w, product(w, CONCAT(w, 1, half[0], half[1], product(w, half[1], 12, 8)), 32, 4));
	optimise_and_group(w);
	assert_int_equal(w->groups.list.n, 3);
	assert_int_equal(place_of(w, a), 0);
}

/* Rotary embeddings: what is cheap to compute where it is read is not stored for the sake of a concatenation. */
static void rotation_stays_one_task(struct world *w)
{
	const tw_id x = input(w, "x", 2, (int64_t[]){16, 32}), c = input(w, "c", 2, (int64_t[]){16, 32});
	static const int64_t zero[] = {0}, half[] = {16}, all[] = {32}, one[] = {1};
	const tw_id from = tw_graph_constant(w->g, "zero", TWIR_I64, 1, one, zero);
	const tw_id middle = tw_graph_constant(w->g, "half", TWIR_I64, 1, one, half);
	const tw_id to = tw_graph_constant(w->g, "all", TWIR_I64, 1, one, all);
	const tw_id axis = tw_graph_constant(w->g, "axis", TWIR_I64, 1, one, one);
	const tw_id second = NODE(w, "Neg", NODE(w, "Slice", x, middle, to, axis));
	output(w, NODE(w, "Mul", CONCAT(w, 1, second, NODE(w, "Slice", x, from, middle, axis)), c));
	optimise_and_group(w);
	assert_int_equal(w->groups.list.n, 1);
	assert_int_equal(w->groups.part_list.n, 0);
}

/* An output is the caller's: an input is copied into it, the new part is stored there. */
static void an_input_is_copied_into_an_output(struct world *w)
{
	const tw_id x = input(w, "x", 2, (int64_t[]){4, 32}), past = input(w, "past", 2, (int64_t[]){100, 8});
	const tw_id k = product(w, x, 32, 8);
	output(w, CONCAT(w, 0, past, k));
	output(w, NODE(w, "Relu", x));
	optimise_and_group(w);
	assert_int_equal(w->groups.list.n, 3);
	assert_int_equal(place_of(w, k), 100);
}

static tw_id pointwise(struct world *w, tw_id x, int64_t in, int64_t out, const char *act)
{
	const tw_id weight = constant(w, "w", 4, (int64_t[]){out, in, 1, 1}, 0, 0.01f);
	const tw_id y = NODE(w, "Conv", x, weight, constant(w, "b", 1, &out, 1, 1));
	return act ? node(w, act, 1, &y, 0, NULL) : y;
}

static int live_of(const struct world *w, const char *op)
{
	int n = 0;
	for (int i = 0; i < w->g->nodes.n; i++)
		n += !w->g->nodes.at[i].dead && strcmp(w->g->nodes.at[i].op->name, op) == 0;
	return n;
}

static void merge_beside(struct world *w)
{
	tw_infer(w->g);
	opt_merge_beside(w->g, 16);
	opt_remove_dead(w->g);
}

/* 8 and 24 of 16 lanes are three vectors, two of which are filled by half; 32 are two. */
static void narrow_convolutions_become_one(struct world *w)
{
	const tw_id x = input(w, "x", 4, (int64_t[]){1, 64, 20, 20});
	const tw_id a = pointwise(w, x, 64, 8, "Relu");
	const struct tw_attr kernel = {
		.name = "kernel_shape", .kind = TW_ATTR_INTS, .n = 2, .ints = (const int64_t[]){2, 2}};
	output(w, node(w, "MaxPool", 1, &a, 1, &kernel)); /* between the two */
	const tw_id b = pointwise(w, x, 64, 24, "Relu");
	output(w, b);
	merge_beside(w);
	assert_int_equal(live_nodes(w), 4);
	assert_int_equal(live_of(w, "Conv") + live_of(w, "Relu") + live_of(w, "Split"), 3);
	for (int i = 0; i < w->g->nodes.n; i++) { /* in order still, and each tensor knows its node */
		const struct tw_node *n = &w->g->nodes.at[i];
		for (int k = 0; k < n->nin && !n->dead; k++) {
			const tw_id p = w->g->tensors.at[n->in[k]].producer;
			assert_true(p == TW_NONE || (p < (tw_id)i && !w->g->nodes.at[p].dead));
		}
	}
	assert_int_equal(w->g->nodes.at[w->g->tensors.at[b].producer].nout, 2);
}

static void activations_that_differ_stay(struct world *w)
{
	const tw_id x = input(w, "x", 4, (int64_t[]){1, 64, 20, 20});
	output(w, pointwise(w, x, 64, 4, "Tanh"));
	output(w, pointwise(w, x, 64, 6, "Sigmoid"));
	output(w, pointwise(w, x, 64, 6, NULL));
	merge_beside(w);
	assert_int_equal(live_nodes(w), 4);
	assert_int_equal(live_of(w, "Conv"), 1);
}

static void only_the_narrow_ones_merge(struct world *w)
{
	const tw_id x = input(w, "x", 4, (int64_t[]){1, 64, 20, 20});
	output(w, pointwise(w, x, 64, 256, "Relu"));
	output(w, pointwise(w, x, 64, 8, "Relu"));
	output(w, pointwise(w, x, 64, 8, "Relu"));
	merge_beside(w);
	assert_int_equal(live_of(w, "Conv"), 2);
	assert_int_equal(live_nodes(w), 5);
}

static void stay_apart(struct world *w, tw_id x, int64_t a, int64_t b)
{
	output(w, pointwise(w, x, 64, a, "Relu"));
	output(w, pointwise(w, x, 64, b, "Relu"));
	merge_beside(w);
	assert_int_equal(live_of(w, "Conv"), 2);
	assert_int_equal(live_of(w, "Split"), 0);
}

static void whole_vectors_stay_apart(struct world *w)
{
	stay_apart(w, input(w, "x", 4, (int64_t[]){1, 64, 20, 20}), 64, 96);
}

static void few_rows_stay_apart(struct world *w)
{
	stay_apart(w, input(w, "x", 4, (int64_t[]){1, 64, 1, 1}), 8, 8);
}

static void parts_of_a_whole_stay_apart(struct world *w)
{
	const tw_id x = input(w, "x", 4, (int64_t[]){1, 64, 20, 20});
	const tw_id parts[] = {pointwise(w, x, 64, 8, "Relu"), pointwise(w, x, 64, 8, "Relu")};
	const struct tw_attr axis = {.name = "axis", .kind = TW_ATTR_INT, .i = 1};
	output(w, node(w, "Concat", 2, parts, 1, &axis));
	merge_beside(w);
	assert_int_equal(live_of(w, "Conv"), 2);
}

int main(void)
{
	static void (*const checks[])(struct world *) = {chain_is_one_task,
							 matmul_takes_its_epilogue,
							 swish_joins_the_matmul,
							 stack_is_one_matmul,
							 shared_anchor_stays,
							 batchnorm_folds,
							 subnormal_weights_are_zeros,
							 constants_of_channels_fold,
							 runs_are_rounded_once,
							 transposed_weights_scale_by_channel,
							 small_constants_fold,
							 large_constants_are_set_up,
							 windows_do_not_repeat_work,
							 depthwise_does_not_repeat_work,
							 quotients_become_products,
							 exact_quotients_stay,
							 summed_quotients_become_products,
							 exact_summed_quotients_stay,
							 sums_of_products_take_one_step,
							 no_step_without_the_instruction,
							 exact_sums_take_two_steps,
							 unused_nodes_vanish,
							 products_are_stored_side_by_side,
							 a_dense_chain_copies_nothing,
							 wholes_lie_in_wholes,
							 halves_are_one_part,
							 rotation_stays_one_task,
							 an_input_is_copied_into_an_output,
							 narrow_convolutions_become_one,
							 activations_that_differ_stay,
							 only_the_narrow_ones_merge,
							 whole_vectors_stay_apart,
							 few_rows_stay_apart,
							 parts_of_a_whole_stay_apart};
	static const char *const names[] = {"a chain is one task",
					    "a matmul takes its epilogue",
					    "swish joins the matmul",
					    "a stack is one matmul",
					    "a shared anchor stays",
					    "batch normalisation folds into a convolution",
					    "subnormal weights are zeros",
					    "constants of channels fold into a convolution",
					    "runs behind a convolution are rounded once",
					    "transposed weights scale by channel",
					    "small constants fold",
					    "large constants are set up",
					    "windows do not repeat work",
					    "depthwise does not repeat work",
					    "quotients become products",
					    "exact quotients stay",
					    "quotients of sums become products",
					    "exact quotients of sums stay",
					    "sums of products take one step",
					    "no step without the instruction",
					    "exact sums take two steps",
					    "unused nodes vanish",
					    "products are stored side by side",
					    "a dense chain copies nothing",
					    "wholes lie in wholes",
					    "halves are one part",
					    "rotation stays one task",
					    "an input is copied into an output",
					    "narrow convolutions become one",
					    "activations that differ stay",
					    "only the narrow ones merge",
					    "whole vectors stay apart",
					    "few rows stay apart",
					    "parts of a whole stay apart"};
	struct CMUnitTest tests[TW_COUNT(checks)];
	for (int i = 0; i < TW_COUNT(checks); i++)
		tests[i] = (struct CMUnitTest){.name = names[i], .test_func = run, .initial_state = (void *)&checks[i]};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
