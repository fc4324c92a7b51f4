/* rooms: base tmap target ir pass graph ops sched opt */
/* Row programs and attention: graphs made by hand are lowered to definitions; the interpreter evaluates these one
 * by one, and runs the programs of the tasks that grouping and scheduling make of them, before lowering and after
 * it, for every kind of lanes. What must become one task is said with each case. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "opt/opt.h"
#include "pass/pass.h"

struct world {
	struct tw_arena *a;
	struct tw_graph *g;
	int64_t s, t; /* values of the symbols */
	struct twir_var *symbols[2];
	bool special; /* inputs hold infinities and NaN */
	const int64_t *dims;
	int rank, axis;
};

static const struct twir_expr *size_of(struct world *w, int64_t dim) /* -1, -2: the symbols */
{
	return dim < 0 ? twir_var(w->g->m, w->symbols[-1 - dim]) : twir_index(w->g->m, dim);
}

static tw_id input(struct world *w, const char *name, int rank, const int64_t *dims)
{
	const struct twir_expr *shape[TWIR_MAX_RANK];
	for (int i = 0; i < rank; i++)
		shape[i] = size_of(w, dims[i]);
	const tw_id t = tw_graph_tensor(w->g, name, TWIR_F32, rank, shape);
	vec_push(w->a, &w->g->inputs, t);
	return t;
}

static tw_id constant(struct world *w, enum twir_scalar type, int rank, const int64_t *dims, const void *data)
{
	int64_t bytes = twir_scalar_bytes(type);
	for (int i = 0; i < rank; i++)
		bytes *= dims[i];
	return tw_graph_constant(w->g, arena_printf(w->a, "c%d", w->g->tensors.n), type, rank, dims,
				 arena_copy(w->a, data, (size_t)bytes));
}

static tw_id ints(struct world *w, int n, const int64_t *values)
{
	const int64_t dims[] = {n};
	return constant(w, TWIR_I64, 1, dims, values);
}

static tw_id number(struct world *w, float v)
{
	return constant(w, TWIR_F32, 0, NULL, &v);
}

static tw_id ramp(struct world *w, int64_t n, float first, float step)
{
	float *data = ARENA_ARRAY(w->a, float, n);
	for (int64_t i = 0; i < n; i++)
		data[i] = first + step * (float)i;
	return constant(w, TWIR_F32, 1, &n, data);
}

static tw_id node(struct world *w, const char *op, int nin, const tw_id *in, int nattrs, const struct tw_attr *attrs)
{
	const struct tw_op *row = tw_op_find("", op, 18);
	assert_non_null(row);
	const char *name = arena_printf(w->a, "%s_%d", op, w->g->nodes.n);
	const tw_id out = tw_graph_tensor(w->g, name, TWIR_VOID, -1, NULL);
	const tw_id id = tw_graph_node(w->g, row, name, 18, nin, in, 1, &out, nattrs,
				       nattrs ? arena_copy(w->a, attrs, sizeof(*attrs) * (size_t)nattrs) : NULL);
	w->g->nodes.at[id].op_type = op;
	return out;
}

#define NODE(w, op, ...)                                                                                               \
	node((w), (op), (int)(sizeof((tw_id[]){__VA_ARGS__}) / sizeof(tw_id)), (tw_id[]){__VA_ARGS__}, 0, NULL)

static tw_id with_axis(struct world *w, const char *op, tw_id in, int64_t axis)
{
	const struct tw_attr attr = {.name = "axis", .kind = TW_ATTR_INT, .i = axis};
	return node(w, op, 1, &in, 1, &attr);
}

static tw_id transpose(struct world *w, tw_id in, int n, const int64_t *perm)
{
	const struct tw_attr attr = {.name = "perm", .kind = TW_ATTR_INTS, .n = n, .ints = perm};
	return node(w, "Transpose", 1, &in, 1, &attr);
}

static void output(struct world *w, tw_id t)
{
	vec_push(w->a, &w->g->outputs, t);
}

/* ---- the graphs */

static void softmax(struct world *w)
{
	output(w, with_axis(w, "Softmax", input(w, "x", w->rank, w->dims), w->axis));
}

static void log_softmax(struct world *w)
{
	output(w, with_axis(w, "LogSoftmax", input(w, "x", w->rank, w->dims), w->axis));
}

static void hardmax(struct world *w)
{
	output(w, with_axis(w, "Hardmax", input(w, "x", w->rank, w->dims), w->axis));
}

/* The residual sum has other users: it is computed by the norm's program and stored. */
static void residual_norm(struct world *w)
{
	const tw_id sum = NODE(w, "Add", input(w, "x", w->rank, w->dims), input(w, "y", w->rank, w->dims));
	const int64_t n = w->dims[w->rank - 1];
	const tw_id norm = NODE(w, "LayerNormalization", sum, ramp(w, n, 1, 0.1f), ramp(w, n, -1, 0.2f));
	output(w, sum);
	output(w, NODE(w, "Mul", norm, sum));
}

/* As exporters write it. */
static void spelled_norm(struct world *w)
{
	const int64_t last = -1, n = w->dims[w->rank - 1];
	const tw_id x = input(w, "x", w->rank, w->dims);
	const tw_id d = NODE(w, "Sub", x, NODE(w, "ReduceMean", x, ints(w, 1, &last)));
	const tw_id variance = NODE(w, "ReduceMean", NODE(w, "Pow", d, number(w, 2)), ints(w, 1, &last));
	const tw_id deviation = NODE(w, "Sqrt", NODE(w, "Add", variance, number(w, 1e-5f)));
	const tw_id y = NODE(w, "Mul", NODE(w, "Div", d, deviation), ramp(w, n, 1, 0.1f));
	output(w, NODE(w, "Add", y, ramp(w, n, -1, 0.2f)));
}

static void spelled_rms(struct world *w)
{
	const int64_t last = -1;
	const tw_id x = input(w, "x", w->rank, w->dims);
	const tw_id mean = NODE(w, "ReduceMean", NODE(w, "Mul", x, x), ints(w, 1, &last));
	const tw_id root = NODE(w, "Sqrt", NODE(w, "Add", mean, number(w, 1e-5f)));
	output(w, NODE(w, "Mul", x, NODE(w, "Reciprocal", root)));
}

/* Group normalisation by way of InstanceNormalization, through two reshapes. */
static void spelled_group_norm(struct world *w)
{
	const float ones[] = {1, 1}, zeros[] = {0, 0};
	const int64_t two = 2, there[] = {0, 2, -1}, *d = w->dims;
	const tw_id x = NODE(w, "Reshape", input(w, "x", w->rank, w->dims), ints(w, 3, there));
	const tw_id y = NODE(w, "InstanceNormalization", x, constant(w, TWIR_F32, 1, &two, ones),
			     constant(w, TWIR_F32, 1, &two, zeros));
	output(w, NODE(w, "Mul", NODE(w, "Reshape", y, ints(w, w->rank, d)), ramp(w, d[w->rank - 1], 1, 0.3f)));
}

static void l2_norm(struct world *w)
{
	const int64_t axis = w->axis;
	const tw_id x = input(w, "x", w->rank, w->dims);
	const tw_id norm = NODE(w, "Max", NODE(w, "ReduceL2", x, ints(w, 1, &axis)), number(w, 1e-12f));
	output(w, NODE(w, "Div", x, norm));
}

/* A convolution-like reader between two uses of a fold: not one task, since it needs the whole first result. */
static void not_closed(struct world *w)
{
	static const int64_t perm[] = {1, 0};
	const int64_t last = -1;
	const tw_id x = input(w, "x", 2, w->dims);
	const tw_id e = NODE(w, "Sub", x, NODE(w, "ReduceMax", x, ints(w, 1, &last)));
	const tw_id turned = NODE(w, "MatMul", e, NODE(w, "MatMul", transpose(w, e, 2, perm), e));
	output(w, NODE(w, "Mul", e, NODE(w, "ReduceMax", NODE(w, "Add", turned, x), ints(w, 1, &last))));
}

static tw_id segments_and_past(struct world *w, tw_id x, int64_t size)
{
	static const int64_t turn[] = {1, 0};
	const int64_t one = 1, two = 2, zero = 0, column[] = {size, 1};
	const tw_id extent = NODE(w, "Gather", NODE(w, "Shape", x), constant(w, TWIR_I64, 0, NULL, &two));
	const tw_id at =
		NODE(w, "Range", constant(w, TWIR_I64, 0, NULL, &zero), extent, constant(w, TWIR_I64, 0, NULL, &one));
	const tw_id past = NODE(w, "LessOrEqual", at, NODE(w, "Unsqueeze", at, ints(w, 1, &one)));
	const tw_id segment = NODE(w, "Less", input(w, "c", 2, column), number(w, 0));
	const tw_id open = NODE(w, "And", past, NODE(w, "Equal", segment, transpose(w, segment, 2, turn)));
	const tw_id mask = NODE(w, "Where", open, number(w, 0), number(w, -3e38f));
	output(w, mask);
	return mask;
}

/* dims: batch, heads, queries, keys, depth, columns; axis: 0 scaled after, 1 scaled before, 2 with a mask to add,
 * 3 causal by a constant, 4 a causal mask of booleans, 5 one made at run time, in which segments are apart too */
static void attention(struct world *w)
{
	static const int64_t perm[] = {0, 1, 3, 2}, back[] = {0, 2, 1, 3};
	const int64_t *d = w->dims, *q = d;
	const int64_t qs[] = {d[0], d[1], d[2], d[4]}, ks[] = {d[0], d[1], d[3], d[4]}, vs[] = {d[0], d[1], d[3], d[5]};
	const int64_t ms[] = {d[0], 1, 1, d[3]}, cs[] = {1, 1, d[2], d[3]};
	tw_id query = input(w, "q", 4, qs), key = transpose(w, input(w, "k", 4, ks), 4, perm), scores;
	if (w->axis == 1)
		query = NODE(w, "Mul", query, number(w, 0.3f));
	scores = NODE(w, "MatMul", query, key);
	if (w->axis != 1)
		scores = NODE(w, "Mul", scores, number(w, 0.3f));
	if (w->axis == 2)
		scores = NODE(w, "Add", scores, input(w, "m", 4, ms));
	if (w->axis == 5)
		scores = NODE(w, "Add", scores, segments_and_past(w, query, d[2]));
	if (w->axis == 3 || w->axis == 4) {
		float *mask = ARENA_ARRAY(w->a, float, q[2] * q[3]);
		uint8_t *open = ARENA_ARRAY(w->a, uint8_t, q[2] * q[3]);
		for (int64_t i = 0; i < q[2] * q[3]; i++) {
			open[i] = i % q[3] <= i / q[3];
			mask[i] = open[i] ? 0 : -INFINITY;
		}
		scores = w->axis == 3 ? NODE(w, "Add", scores, constant(w, TWIR_F32, 4, cs, mask))
				      : NODE(w, "Where", constant(w, TWIR_I1, 4, cs, open), scores, number(w, -3e38f));
	}
	const tw_id p = with_axis(w, "Softmax", scores, -1);
	output(w, transpose(w, NODE(w, "MatMul", p, input(w, "v", 4, vs)), 4, back));
}

/* Query, key and value of one tensor, with biases; axis 1: one of them is an output too and stays apart. dims:
 * rows, width, heads, size of a head */
static void projected_attention(struct world *w)
{
	static const int64_t to_heads[] = {0, 2, 1, 3}, to_columns[] = {0, 2, 3, 1};
	const int64_t *d = w->dims, n = d[2] * d[3], split[] = {1, d[0], d[2], d[3]}, flat[] = {1, d[0], n};
	const int64_t xs[] = {1, d[0], d[1]}, ws[] = {d[1], n};
	const tw_id x = input(w, "x", 3, xs);
	tw_id part[3];
	for (int i = 0; i < 3; i++) {
		float *data = ARENA_ARRAY(w->a, float, d[1] * n);
		for (int64_t k = 0; k < d[1] * n; k++)
			data[k] = (float)((k * 7 + i * 5) % 11 - 5) / 20;
		const tw_id y = NODE(w, "Add", NODE(w, "MatMul", x, constant(w, TWIR_F32, 2, ws, data)),
				     ramp(w, n, (float)i, 0.1f));
		if (i == 2 && w->axis == 1)
			output(w, y);
		part[i] = transpose(w, NODE(w, "Reshape", y, ints(w, 4, split)), 4, i == 1 ? to_columns : to_heads);
	}
	const tw_id p = with_axis(w, "Softmax", NODE(w, "MatMul", part[0], part[1]), -1);
	const tw_id back = transpose(w, NODE(w, "MatMul", p, part[2]), 4, to_heads);
	output(w, NODE(w, "Reshape", back, ints(w, 3, flat)));
}

struct rows_case {
	const char *name;
	void (*graph)(struct world *w);
	int tasks;
	const char *schedule; /* of the last task */
	int rank, axis;
	int64_t dims[6];      /* -1, -2: symbols */
	bool special, causal; /* causal: elements beyond a limit are left out */
};

static const struct rows_case cases[] = {
	{"softmax over the last axis", softmax, 1, "rows", 2, -1, {5, 37}},
	{"softmax of long rows", softmax, 1, "rows", 2, -1, {2, 1030}},
	{"softmax of one row", softmax, 1, "rows", 1, 0, {19}},
	{"softmax over the first axis", softmax, 1, "rows", 2, 0, {5, 37}},
	{"softmax over a middle axis", softmax, 1, "rows", 3, 1, {3, 5, 18}},
	{"softmax over a middle axis, symbols", softmax, 1, "rows", 4, 1, {2, -1, 3, -2}},
	{"softmax of symbols", softmax, 1, "rows", 3, 2, {2, -1, -2}},
	{"softmax of infinities and NaN", softmax, 1, "rows", 2, -1, {8, 20}, true},
	{"softmax of infinities and NaN over rows", softmax, 1, "rows", 2, 0, {3, 40}, true},
	{"logarithm of softmax", log_softmax, 1, "rows", 3, 1, {3, 5, 18}},
	{"logarithm of softmax, last axis", log_softmax, 1, "rows", 2, -1, {3, 67}},
	{"first of the largest", hardmax, 1, "rows", 2, -1, {6, 21}},
	{"first of the largest over rows", hardmax, 1, "rows", 3, 1, {2, 7, 17}},
	{"norm with a residual sum", residual_norm, 1, "rows", 3, -1, {2, 3, 77}},
	{"norm of exporters", spelled_norm, 1, "rows", 3, -1, {2, 3, 50}},
	{"norm of exporters, symbols", spelled_norm, 1, "rows", 3, -1, {-1, -2, 35}},
	{"root mean square", spelled_rms, 1, "rows", 2, -1, {4, 33}},
	{"norm of groups", spelled_group_norm, 1, "rows", 4, -1, {2, 4, 3, 7}},
	{"length of vectors", l2_norm, 1, "rows", 3, 2, {2, 3, 19}},
	{"length of vectors over rows", l2_norm, 1, "rows", 3, 1, {2, 3, 19}},
	{"a way out and back", not_closed, 4, "rows", 2, -1, {6, 9}},
	{"attention", attention, 1, "attention", 4, 0, {1, 2, 9, 21, 7, 5}},
	{"attention, two blocks and bands", attention, 1, "attention", 4, 0, {1, 1, 70, 37, 3, 2}},
	{"attention, scaled before", attention, 1, "attention", 4, 1, {2, 2, 5, 17, 4, 33}},
	{"attention, symbols", attention, 1, "attention", 4, 0, {1, 2, -1, -2, 5, 6}},
	{"attention with a mask", attention, 1, "attention", 4, 2, {2, 1, 6, 19, 4, 4}},
	{"attention with a mask, infinities and NaN", attention, 1, "attention", 4, 2, {2, 1, 6, 19, 4, 4}, true},
	{"causal attention", attention, 1, "attention", 4, 3, {1, 2, 45, 45, 5, 6}},
	/* the columns side by side (once), one product, attention */
	{"attention of merged products", projected_attention, 3, "attention", 2, 0, {7, 6, 2, 5}},
	{"attention of two merged products", projected_attention, 4, "attention", 2, 1, {7, 6, 2, 5}},
	{"causal attention by a choice", attention, 1, "attention", 4, 4, {1, 2, 45, 45, 5, 6}, false, true},
	{"causal attention of segments", attention, 2, "attention", 4, 5, {1, 2, -1, -1, 5, 6}, false, true},
};

/* ---- values */

struct store {
	int n;
	struct twir_tensor *tensor[64];
	struct twir_data data[64];
	int64_t shape[64][TWIR_MAX_RANK];
};

static int find(const struct store *s, const struct twir_tensor *t)
{
	for (int i = 0; i < s->n; i++)
		if (s->tensor[i] == t)
			return i;
	return -1;
}

static int add(struct store *s, struct world *w, struct twir_tensor *t, const struct twir_binding *b)
{
	int64_t n = 1;
	const int found = find(s, t);
	if (found >= 0)
		return found;
	assert_true(s->n < TW_COUNT(s->tensor));
	for (int d = 0; d < t->rank; d++)
		n *= s->shape[s->n][d] = twir_eval_index(t->shape[d], b);
	s->tensor[s->n] = t;
	s->data[s->n] = (struct twir_data){arena_alloc(w->a, (size_t)(n * twir_scalar_bytes(t->type)) + 64), n};
	return s->n++;
}

static void fill(struct world *w, struct twir_data d, uint64_t *seed)
{
	static const float odd[] = {-INFINITY, NAN, INFINITY, -INFINITY};
	for (int64_t i = 0; i < d.elements; i++) {
		*seed = *seed * 6364136223846793005u + 1442695040888963407u;
		((float *)d.at)[i] = (float)((int64_t)(*seed >> 33) % 2001 - 1000) / 300;
		if (w->special &&
		    (i < 24 || (*seed >> 20) % 16 == 0)) /* a row of minus infinity, others of mixed values */
			((float *)d.at)[i] = i < 24 ? -INFINITY : odd[(*seed >> 24) % 4];
	}
}

static bool near(float x, float y)
{
	return (isnan(x) && isnan(y)) || x == y || fabsf(x - y) <= 2e-5f * (1 + fabsf(x));
}

struct trial {
	const struct rows_case *c;
	enum tw_isa isa;
	struct world w;
	int given; /* inputs and constants, of the tensors with values */
};

static void run_tasks(struct trial *t, const struct tw_groups *groups, const struct store *want, bool lowered,
		      const struct tw_target *target)
{
	struct world *w = &t->w;
	const int64_t values[] = {w->s, w->t};
	const struct twir_binding b = {2, w->symbols, values};
	struct store got = {0};
	for (int i = 0; i < t->given; i++)
		got.data[add(&got, w, want->tensor[i], &b)] = want->data[i];
	for (int i = 0; i < groups->list.n; i++) {
		struct tw_group *g = groups->list.at[i];
		for (int k = 0; k < g->launch.prepared.n; k++) {
			const struct twir_compute *c = g->launch.prepared.at[k];
			const struct twir_env env = {got.n, got.tensor, got.data,
						     (const int64_t(*)[TWIR_MAX_RANK])got.shape};
			twir_interpret_compute(w->g->m, c, &b, &env, got.data[add(&got, w, c->out, &b)]);
		}
		for (int k = 0; k < g->launch.kernels.n; k++) {
			const struct tw_kernel *kernel = &g->launch.kernels.at[k];
			struct twir_data data[16];
			if (lowered)
				tw_lower(w->g->m, kernel->program, target, NULL, NULL);
			assert_true(kernel->nargs <= TW_COUNT(data));
			for (int a = 0; a < kernel->nargs; a++)
				data[a] = got.data[add(&got, w, kernel->args[a], &b)];
			twir_interpret(w->g->m, kernel->program, &b, data);
		}
	}
	for (int o = 0; o < w->g->outputs.n; o++) {
		const struct twir_tensor *out = tw_graph_ir(w->g, w->g->outputs.at[o]);
		const struct twir_data *x = &want->data[find(want, out)], *y = &got.data[find(&got, out)];
		for (int64_t i = 0; i < x->elements; i++)
			if (!near(((float *)x->at)[i], ((float *)y->at)[i]))
				fail_msg("%s, %d lanes%s: element %lld is %g, not %g", t->c->name, target->lanes,
					 lowered ? ", lowered" : "", (long long)i, (double)((float *)y->at)[i],
					 (double)((float *)x->at)[i]);
	}
}

static void body(void *arg)
{
	struct trial *t = arg;
	struct world *w = &t->w;
	struct tw_definitions d;
	struct tw_groups groups = {0};
	struct store want = {0};
	uint64_t seed = 11;
	w->g = tw_graph_new(w->a, twir_module_new(w->a));
	w->symbols[0] = twir_symbol(w->g->m, "s");
	w->symbols[1] = twir_symbol(w->g->m, "t");
	const int64_t values[] = {w->s, w->t};
	const struct twir_binding b = {2, w->symbols, values};
	t->c->graph(w);
	tw_infer(w->g);
	opt_fold_constants(w->g);
	opt_remove_dead(w->g);
	opt_lower(w->g, &d);
	for (int i = 0; i < w->g->inputs.n; i++)
		fill(w, want.data[add(&want, w, tw_graph_ir(w->g, w->g->inputs.at[i]), &b)], &seed);
	for (int i = 0; i < w->g->tensors.n; i++)
		if (w->g->tensors.at[i].data && w->g->tensors.at[i].ir)
			want.data[add(&want, w, w->g->tensors.at[i].ir, &b)].at = (void *)w->g->tensors.at[i].data;
	t->given = want.n;
	for (int i = 0; i < d.list.n; i++) {
		const struct twir_compute *c = d.list.at[i].compute;
		const struct twir_env env = {want.n, want.tensor, want.data,
					     (const int64_t(*)[TWIR_MAX_RANK])want.shape};
		twir_interpret_compute(w->g->m, c, &b, &env, want.data[add(&want, w, c->out, &b)]);
	}
	opt_merge_products(&d);
	opt_group(&d, &groups);
	if (groups.list.n != t->c->tasks)
		fail_msg("%s: %d tasks, not %d", t->c->name, groups.list.n, t->c->tasks);
	struct tw_target target;
	memset(&target, 0, sizeof(target));
	tw_target_with_isa(&target, t->isa);
	for (int i = 0; i < groups.list.n; i++)
		tw_schedule(&groups.list.at[i]->task, &target, &groups.list.at[i]->launch);
	assert_string_equal(tw_schedule_name(&groups.list.at[groups.list.n - 1]->task, &target), t->c->schedule);
	if (t->c->causal)
		assert_non_null(groups.list.at[groups.list.n - 1]->task.attention->limit);
	run_tasks(t, &groups, &want, false, &target);
	run_tasks(t, &groups, &want, true, &target);
}

static void run(void **state)
{
	static const enum tw_isa isas[] = {TW_ISA_AVX512, TW_ISA_AVX2, TW_ISA_GENERIC, TW_ISA_SCALAR};
	static const int64_t sizes[][2] = {{5, 19}, {33, 1}, {1, 34}};
	const struct rows_case *c = *state;
	struct tw_error e;
	bool symbols = false;
	for (int i = 0; i < TW_COUNT(c->dims); i++)
		symbols |= c->dims[i] < 0;
	for (int i = 0; i < TW_COUNT(isas); i++)
		for (int k = 0; k < (symbols ? TW_COUNT(sizes) : 1); k++) {
			struct trial t = {.c = c,
					  .isa = isas[i],
					  .w = {.a = arena_new(),
						.s = sizes[k][0],
						.t = sizes[k][1],
						.special = c->special,
						.dims = c->dims,
						.rank = c->rank,
						.axis = c->axis}};
			if (!tw_try(&e, body, &t))
				fail_msg("%s: %s", c->name, e.text);
			arena_free(t.w.a);
		}
}

int main(void)
{
	struct CMUnitTest tests[TW_COUNT(cases)];
	for (int i = 0; i < TW_COUNT(cases); i++)
		tests[i] = (struct CMUnitTest){
			.name = cases[i].name, .test_func = run, .initial_state = (void *)&cases[i]};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
