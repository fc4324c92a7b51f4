/* test_fusion_random.c: fused equals unfused. Graphs made at random around anchors (matmul, convolution, reductions,
 * softmax): chains of elementwise operators before and after, second outputs, broadcasts, and movement (reshape,
 * transpose, concat, slice, pad, expand), some with a symbolic size. Their definitions are evaluated one by one; then they are grouped and
 * scheduled, and the fused programs run in the interpreter, before lowering and after it. All outputs must agree, and
 * over all graphs fusion must have happened.
 *
 * A third of the graphs lay results side by side: of layers, slices and inputs, again and again (DenseNet), nested, some of
 * them outputs too.
 *
 * usage: test_fusion_random [SEED [COUNT]]; the graph is named by its own seed, which reproduces it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "opt/opt.h"
#include "pass/pass.h"

enum { MOST = 64, RANK = 4, LARGEST = 3000 };

static uint64_t state;

static int pick(int n) /* 0 .. n - 1 */
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (int)(state % (uint64_t)n);
}

/* A tensor of the graph with its sizes. */
struct value {
	tw_id id;
	int rank, s; /* s: the dimension whose size is the symbol N; -1: none */
	int64_t dim[RANK];
};

struct world {
	struct tw_arena *a;
	struct tw_graph *g;
	struct tw_buf told; /* what the graph is, for a message */
	struct value all[MOST];
	int n;
	struct tw_target *target;
	struct twir_var *symbol;
	int64_t size; /* of the symbol */
	struct twir_binding b;
	/* outcome */
	int definitions, kernels, parts, chains;
	double worst;
	const char *where;
	uint64_t seed;
};

static int64_t elements(const struct value *v)
{
	int64_t n = 1;
	for (int k = 0; k < v->rank; k++)
		n *= v->dim[k];
	return n;
}

static struct value *keep(struct world *w, struct value v, const char *what)
{
	TW_CHECK(w->n < MOST);
	buf_printf(&w->told, "  %d: %s [", (int)v.id, what);
	for (int k = 0; k < v.rank; k++)
		buf_printf(&w->told, "%s%s%lld", k ? ", " : "", k == v.s ? "N = " : "", (long long)v.dim[k]);
	buf_puts(&w->told, "]\n");
	w->all[w->n] = v;
	return &w->all[w->n++];
}

static float number(uint64_t *s) /* quarters from -2 to 2: sums and products of few stay exact */
{
	*s = *s * 6364136223846793005u + 1442695040888963407u;
	return (float)((int)(*s >> 33) % 17 - 8) / 4;
}

static void fill(void *at, int64_t n, uint64_t seed)
{
	for (int64_t k = 0; k < n; k++)
		((float *)at)[k] = number(&seed);
}

/* An input or, half of the time, a constant. */
static struct value leaf(struct world *w, int rank, const int64_t *dim, int s)
{
	struct value v = {.rank = rank, .s = s};
	const struct twir_expr *shape[RANK];
	memcpy(v.dim, dim, sizeof(*dim) * (size_t)rank);
	const char *name = arena_printf(w->a, "leaf_%d", w->g->tensors.n);
	if (s < 0 && pick(2)) {
		float *data = ARENA_ARRAY(w->a, float, elements(&v));
		fill(data, elements(&v), (uint64_t)w->g->tensors.n + w->seed);
		v.id = tw_graph_constant(w->g, name, TWIR_F32, rank, dim, data);
		return *keep(w, v, "constant");
	}
	for (int k = 0; k < rank; k++)
		shape[k] = k == s ? twir_var(w->g->m, w->symbol) : twir_index(w->g->m, dim[k]);
	v.id = tw_graph_tensor(w->g, name, TWIR_F32, rank, shape);
	vec_push(w->a, &w->g->inputs, v.id);
	return *keep(w, v, "input");
}

static tw_id integers(struct world *w, int n, const int64_t *v)
{
	const int64_t dims[1] = {n};
	return tw_graph_constant(w->g, arena_printf(w->a, "ints_%d", w->g->tensors.n), TWIR_I64, 1, dims,
				 arena_copy(w->a, v, sizeof(*v) * (size_t)n));
}

static tw_id node(struct world *w, const char *op, int nin, const tw_id *in, int nattrs, const struct tw_attr *attrs)
{
	const struct tw_op *row = tw_op_find("", op, 17);
	TW_CHECK(row, "%s", op);
	const char *name = arena_printf(w->a, "%s_%d", op, w->g->nodes.n);
	const tw_id out = tw_graph_tensor(w->g, name, TWIR_VOID, -1, NULL);
	const tw_id id = tw_graph_node(w->g, row, name, 17, nin, in, 1, &out, nattrs, attrs);
	w->g->nodes.at[id].op_type = op;
	return out;
}

static const char *told(struct world *w, const char *op, int a, int b)
{
	return arena_printf(w->a, b >= 0 ? "%s(%d, %d)" : "%s(%d)", op, a, b);
}

static struct value unary(struct world *w, struct value x)
{
	static const char *const ops[] = {"Relu", "Neg", "Abs", "Sigmoid", "Relu", "HardSwish", "Tanh"};
	const char *op = ops[pick(TW_COUNT(ops))];
	struct value v = x;
	v.id = node(w, op, 1, &x.id, 0, NULL);
	return *keep(w, v, told(w, op, (int)x.id, -1));
}

/* With a leaf that may be broadcast, or with the value itself after another operator. */
static struct value binary(struct world *w, struct value x)
{
	static const char *const ops[] = {"Add", "Sub", "Mul", "Max", "Min", "Add"};
	const char *op = ops[pick(TW_COUNT(ops))];
	struct value y, v = x;
	if (pick(4) == 0) {
		y = unary(w, x);
	} else {
		const int rank = pick(x.rank + 1);
		int64_t dim[RANK];
		int s = x.s - (x.rank - rank);
		for (int k = 0; k < rank; k++) {
			const bool whole = pick(3);
			dim[k] = whole ? x.dim[x.rank - rank + k] : 1;
			s = k == s && !whole ? -1 : s;
		}
		y = leaf(w, rank, dim, s < 0 ? -1 : s);
	}
	const tw_id in[2] = {x.id, y.id};
	v.id = node(w, op, 2, in, 0, NULL);
	return *keep(w, v, told(w, op, (int)in[0], (int)in[1]));
}

static struct value transpose(struct world *w, struct value x)
{
	int64_t perm[RANK];
	struct value v = x;
	for (int k = 0; k < x.rank; k++)
		perm[k] = k;
	for (int k = x.rank - 1; k > 0; k--) {
		const int o = pick(k + 1);
		const int64_t t = perm[k];
		perm[k] = perm[o];
		perm[o] = t;
	}
	for (int k = 0; k < x.rank; k++) {
		v.dim[k] = x.dim[perm[k]];
		v.s = perm[k] == x.s ? k : v.s;
	}
	const struct tw_attr attr = {.name = "perm",
				     .kind = TW_ATTR_INTS,
				     .n = x.rank,
				     .ints = arena_copy(w->a, perm, sizeof(*perm) * (size_t)x.rank)};
	v.id = node(w, "Transpose", 1, &x.id, 1, arena_copy(w->a, &attr, sizeof(attr)));
	return *keep(w, v, told(w, "Transpose", (int)x.id, -1));
}

/* Two dimensions become one, or one two. */
static struct value reshape(struct world *w, struct value x)
{
	struct value v = x;
	const int k = pick(x.rank);
	if (x.s >= 0) /* its sizes would have to be written down */
		return x;
	if (x.rank > 1 && k + 1 < x.rank && pick(2)) {
		v.dim[k] *= x.dim[k + 1];
		for (int i = k + 1; i + 1 < x.rank; i++)
			v.dim[i] = x.dim[i + 1];
		v.rank--;
	} else if (x.rank < RANK) {
		int64_t by = 1;
		for (int64_t f = 2; f < x.dim[k]; f++)
			if (x.dim[k] % f == 0 && (by == 1 || pick(2)))
				by = f;
		for (int i = x.rank; i > k; i--)
			v.dim[i] = x.dim[i - 1];
		v.dim[k] = x.dim[k] / by;
		v.dim[k + 1] = by;
		v.rank++;
	}
	const tw_id in[2] = {x.id, integers(w, v.rank, v.dim)};
	v.id = node(w, "Reshape", 2, in, 0, NULL);
	return *keep(w, v, told(w, "Reshape", (int)x.id, -1));
}

static struct value concat(struct world *w, struct value x)
{
	const int axis = pick(x.rank);
	struct value v = x, y = x;
	if (elements(&x) * 2 > LARGEST || axis == x.s)
		return x;
	if (pick(2)) {
		y.dim[axis] = 1 + pick(4);
		y = leaf(w, x.rank, y.dim, x.s);
	} else {
		y = unary(w, x);
	}
	v.dim[axis] += y.dim[axis];
	const bool first = pick(2);
	const tw_id in[2] = {first ? y.id : x.id, first ? x.id : y.id};
	const struct tw_attr attr = {.name = "axis", .kind = TW_ATTR_INT, .i = axis};
	v.id = node(w, "Concat", 2, in, 1, arena_copy(w->a, &attr, sizeof(attr)));
	return *keep(w, v, told(w, "Concat", (int)in[0], (int)in[1]));
}

static struct value slice(struct world *w, struct value x)
{
	const int64_t axis = pick(x.rank), size = x.dim[axis];
	const int64_t from = pick((int)size), step = 1 + pick(2);
	const int64_t to = from + 1 + pick((int)(size - from));
	struct value v = x;
	if (axis == x.s)
		return x;
	v.dim[axis] = (to - from + step - 1) / step;
	const tw_id in[5] = {x.id, integers(w, 1, &from), integers(w, 1, &to), integers(w, 1, &axis),
			     integers(w, 1, &step)};
	v.id = node(w, "Slice", 5, in, 0, NULL);
	return *keep(w, v, told(w, "Slice", (int)x.id, -1));
}

static struct value pad(struct world *w, struct value x)
{
	int64_t pads[2 * RANK];
	struct value v = x;
	for (int k = 0; k < 2 * x.rank; k++)
		pads[k] = pick(3) == 0 && k % x.rank != x.s ? pick(3) : 0;
	for (int k = 0; k < x.rank; k++)
		v.dim[k] += pads[k] + pads[k + x.rank];
	if (elements(&v) > LARGEST)
		return x;
	const tw_id in[2] = {x.id, integers(w, 2 * x.rank, pads)};
	v.id = node(w, "Pad", 2, in, 0, NULL);
	return *keep(w, v, told(w, "Pad", (int)x.id, -1));
}

static struct value expand(struct world *w, struct value x)
{
	struct value v = x;
	if (x.s >= 0)
		return x;
	for (int k = 0; k < x.rank; k++)
		if (x.dim[k] == 1)
			v.dim[k] = 1 + pick(4);
	if (x.rank < RANK && pick(2)) {
		memmove(&v.dim[1], &v.dim[0], sizeof(v.dim[0]) * (size_t)x.rank);
		v.dim[0] = 1 + pick(3);
		v.rank++;
	}
	if (elements(&v) > LARGEST)
		return x;
	const tw_id in[2] = {x.id, integers(w, v.rank, v.dim)};
	v.id = node(w, "Expand", 2, in, 0, NULL);
	return *keep(w, v, told(w, "Expand", (int)x.id, -1));
}

static struct value chain(struct world *w, struct value x, int most)
{
	static struct value (*const moves[])(struct world * w, struct value x) = {transpose, reshape, concat,
										  slice,     pad,     expand};
	for (int n = pick(most + 1); n > 0 && w->n < MOST - 16; n--) {
		const int kind = pick(5);
		x = kind < 2 ? unary(w, x) : kind < 4 ? binary(w, x) : moves[pick(TW_COUNT(moves))](w, x);
	}
	return x;
}

/* anchors */

static struct value matmul(struct world *w, struct value x)
{
	struct value v = x;
	if (x.rank < 2) {
		const int64_t two[2] = {1 + pick(9), x.dim[0]};
		x = chain(w, leaf(w, 2, two, x.s < 0 ? -1 : 1), 1);
		x = x.rank < 2 ? leaf(w, 2, two, -1) : x;
	}
	const int64_t dim[2] = {x.dim[x.rank - 1], 1 + pick(40)};
	const int s = x.s == x.rank - 1 ? 0 : -1;
	struct value y = leaf(w, 2, dim, s);
	if (pick(3) == 0)
		y = chain(w, y, 1);
	if (y.rank != 2 || y.dim[0] != dim[0] || y.s != s)
		y = leaf(w, 2, dim, s);
	const tw_id in[2] = {x.id, y.id};
	v = x;
	v.dim[x.rank - 1] = y.dim[1];
	v.s = s == 0 ? -1 : x.s;
	v.id = node(w, "MatMul", 2, in, 0, NULL);
	return *keep(w, v, told(w, "MatMul", (int)x.id, (int)y.id));
}

static struct value conv(struct world *w, struct value x)
{
	const int64_t channels = 1 + pick(6), size[2] = {3 + pick(7), 3 + pick(12)};
	int64_t dim[4] = {1 + pick(2), channels, size[0], size[1]}, pads[4];
	const int s = x.s < 0 ? -1 : 0;
	dim[0] = s == 0 ? w->size : dim[0];
	x = chain(w, leaf(w, 4, dim, s), 2);
	if (x.rank != 4 || x.dim[2] < 3 || x.dim[3] < 3 || x.s > 0)
		x = leaf(w, 4, dim, s);
	const bool depthwise = pick(3) == 0;
	const int64_t out = depthwise ? x.dim[1] : 1 + pick(9), side = pick(2) ? 3 : 1, stride = 1 + pick(2);
	const int64_t k[4] = {out, depthwise ? 1 : x.dim[1], side, side}, strides[2] = {stride, stride};
	const struct value y = leaf(w, 4, k, -1);
	const int64_t border = side == 3 ? pick(2) : 0;
	for (int i = 0; i < 4; i++)
		pads[i] = border;
	struct tw_attr *attrs = ARENA_ARRAY(w->a, struct tw_attr, 3);
	attrs[0] = (struct tw_attr){
		.name = "pads", .kind = TW_ATTR_INTS, .n = 4, .ints = arena_copy(w->a, pads, sizeof(pads))};
	attrs[1] = (struct tw_attr){
		.name = "strides", .kind = TW_ATTR_INTS, .n = 2, .ints = arena_copy(w->a, strides, sizeof(strides))};
	attrs[2] = (struct tw_attr){.name = "group", .kind = TW_ATTR_INT, .i = depthwise ? x.dim[1] : 1};
	const tw_id in[2] = {x.id, y.id};
	struct value v = x;
	v.dim[1] = out;
	for (int i = 2; i < 4; i++)
		v.dim[i] = (x.dim[i] + 2 * border - side) / stride + 1;
	v.id = node(w, "Conv", 2, in, 3, attrs);
	return *keep(w, v, told(w, "Conv", (int)x.id, (int)y.id));
}

static struct value reduce(struct world *w, struct value x)
{
	static const char *const ops[] = {"ReduceMax", "ReduceMean", "ReduceMin", "ReduceL2"};
	const char *op = ops[pick(TW_COUNT(ops))];
	const int64_t axis = pick(x.rank);
	const bool keepdims = pick(2) || x.rank == 1;
	struct tw_attr *attrs = ARENA_ARRAY(w->a, struct tw_attr, 2);
	attrs[0] = (struct tw_attr){
		.name = "axes", .kind = TW_ATTR_INTS, .n = 1, .ints = arena_copy(w->a, &axis, sizeof(axis))};
	attrs[1] = (struct tw_attr){.name = "keepdims", .kind = TW_ATTR_INT, .i = keepdims};
	struct value v = x;
	v.dim[axis] = 1;
	v.s = axis == x.s ? -1 : x.s;
	if (!keepdims) {
		v.s -= v.s > axis;
		for (int k = (int)axis; k + 1 < x.rank; k++)
			v.dim[k] = x.dim[k + 1];
		v.rank--;
	}
	v.id = node(w, op, 1, &x.id, 2, attrs);
	return *keep(w, v, told(w, op, (int)x.id, -1));
}

/* The operator, or what exporters make of it. */
static struct value softmax(struct world *w, struct value x)
{
	struct value v = x;
	const struct tw_attr attr = {.name = "axis", .kind = TW_ATTR_INT, .i = pick(3) ? x.rank - 1 : pick(x.rank)};
	v.id = node(w, "Softmax", 1, &x.id, 1, arena_copy(w->a, &attr, sizeof(attr)));
	return *keep(w, v, told(w, "Softmax", (int)x.id, -1));
}

/* graphs that lay results side by side */

static struct value join(struct world *w, int n, const struct value *part, int axis)
{
	tw_id in[8];
	struct value v = part[0];
	for (int k = 0; k < n; k++) {
		in[k] = part[k].id;
		v.dim[axis] += k ? part[k].dim[axis] : 0;
	}
	const struct tw_attr attr = {.name = "axis", .kind = TW_ATTR_INT, .i = axis};
	v.id = node(w, "Concat", n, in, 1, arena_copy(w->a, &attr, sizeof(attr)));
	return *keep(w, v,
		     arena_printf(w->a, "Concat(%d, .. %d, of %d, axis %d)", (int)in[0], (int)in[n - 1], n, axis));
}

/* A convolution or product that changes no size but, where `axis` allows it, that of the channels or columns. */
static struct value layer(struct world *w, struct value x, int axis)
{
	const int last = x.rank == 4 ? 1 : x.rank - 1;
	const int64_t side = pick(2) ? 3 : 1, out = axis == last ? 1 + pick(20) : x.dim[last];
	struct value v = x;
	v.dim[last] = out;
	if (x.rank < 4) {
		const int64_t dim[2] = {x.dim[last], out};
		const struct value y = leaf(w, 2, dim, -1);
		v.id = node(w, "MatMul", 2, (tw_id[]){x.id, y.id}, 0, NULL);
		return *keep(w, v, told(w, "MatMul", (int)x.id, (int)y.id));
	}
	const int64_t k[4] = {out, x.dim[1], side, side}, pads[4] = {side / 2, side / 2, side / 2, side / 2};
	const struct value y = leaf(w, 4, k, -1);
	const struct tw_attr attr = {
		.name = "pads", .kind = TW_ATTR_INTS, .n = 4, .ints = arena_copy(w->a, pads, sizeof(pads))};
	v.id = node(w, "Conv", 2, (tw_id[]){x.id, y.id}, 1, arena_copy(w->a, &attr, sizeof(attr)));
	return *keep(w, v, told(w, "Conv", (int)x.id, (int)y.id));
}

static struct value cut(struct world *w, struct value x, int64_t axis, int64_t from, int64_t to)
{
	struct value v = x;
	v.dim[axis] = to - from;
	const tw_id in[4] = {x.id, integers(w, 1, &from), integers(w, 1, &to), integers(w, 1, &axis)};
	v.id = node(w, "Slice", 4, in, 0, NULL);
	return *keep(w, v, told(w, "Slice", (int)x.id, -1));
}

/* One part more, or two. */
static int add_parts(struct world *w, struct value y, int axis, struct value *part)
{
	const int64_t size = y.dim[axis];
	if (pick(6) == 0) {
		y.dim[axis] = 1 + pick(5);
		part[0] = leaf(w, y.rank, y.dim, y.s);
		return 1;
	}
	y = pick(2) ? unary(w, y) : y;
	part[0] = y;
	if (pick(5) == 0)
		vec_push(w->a, &w->g->outputs, y.id);
	if (size < 2 || pick(4))
		return 1;
	const int64_t middle = 1 + pick((int)size - 1), from = pick(3) ? middle : middle - 1;
	part[0] = cut(w, y, axis, 0, middle);
	part[1] = cut(w, y, axis, from, size);
	return 2;
}

static void make_parts(struct world *w)
{
	const int rank = 3 + pick(2), axis = 1 + pick(rank - 1), s = pick(3) ? -1 : 0;
	const int64_t dim[4] = {1 + pick(3), 1 + pick(9), 2 + pick(5), 2 + pick(5)};
	struct value part[8], x;
	int n = 0;
	w->size = dim[0];
	x = leaf(w, rank, dim, s);
	for (int round = 2 + pick(3); round > 0 && n < 5; round--) {
		n += add_parts(w, layer(w, x, axis), axis, part + n);
		if (n < 2 || pick(3) == 0)
			continue;
		x = join(w, n, part, axis);
		if (pick(3) == 0) {
			part[0] = x;
			n = 1;
		}
		if (pick(6) == 0)
			vec_push(w->a, &w->g->outputs, x.id);
		x = pick(3) ? x : unary(w, x);
	}
	x = join(w, n, part, axis);
	x = pick(3) ? layer(w, x, axis) : pick(2) ? x : chain(w, x, 2);
	vec_push(w->a, &w->g->outputs, x.id);
}

static void make(struct world *w)
{
	static struct value (*const anchors[])(struct world * w, struct value x) = {matmul, conv, reduce, softmax};
	int64_t dim[RANK];
	const int rank = 1 + pick(3);
	for (int k = 0; k < rank; k++)
		dim[k] = 1 + pick(k == rank - 1 ? 40 : 6);
	const int s = pick(3) ? -1 : pick(rank);
	w->size = s < 0 ? 1 + pick(7) : dim[s];
	struct value x = chain(w, leaf(w, rank, dim, s), 3);
	for (int n = 1 + pick(2); n > 0; n--) {
		x = anchors[pick(TW_COUNT(anchors))](w, x);
		if (pick(5) == 0) /* what others need too */
			vec_push(w->a, &w->g->outputs, x.id);
		const struct value middle = chain(w, x, 3);
		if (pick(5) == 0 && middle.id != x.id)
			vec_push(w->a, &w->g->outputs, unary(w, middle).id);
		x = middle;
	}
	x = chain(w, unary(w, x), 2);
	vec_push(w->a, &w->g->outputs, x.id);
}

/* blocks of images: a product of pixels, a window for each channel, another product */

static struct value weights(struct world *w, int rank, const int64_t *dim)
{
	struct value v = {.rank = rank, .s = -1};
	memcpy(v.dim, dim, sizeof(*dim) * (size_t)rank);
	float *data = ARENA_ARRAY(w->a, float, elements(&v));
	fill(data, elements(&v), (uint64_t)w->g->tensors.n + w->seed);
	for (int64_t i = 0; i < elements(&v); i++)
		data[i] /= 8; /* sums stay small */
	v.id = tw_graph_constant(w->g, arena_printf(w->a, "weights_%d", w->g->tensors.n), TWIR_F32, rank, dim, data);
	return *keep(w, v, "constant");
}

static struct tw_attr integer_list(struct world *w, const char *name, int n, const int64_t *v)
{
	return (struct tw_attr){
		.name = name, .kind = TW_ATTR_INTS, .n = n, .ints = arena_copy(w->a, v, sizeof(*v) * (size_t)n)};
}

/* A convolution to `out` channels, of all channels or, where out is 0, of each; with or without a bias. */
static struct value image_conv(struct world *w, struct value x, int64_t out)
{
	int64_t k[4] = {out ? out : x.dim[1], out ? x.dim[1] : 1, 1, 1}, pads[4] = {0}, strides[2], dilations[2];
	struct tw_attr *attrs = ARENA_ARRAY(w->a, struct tw_attr, 4);
	struct value v = x;
	v.dim[1] = k[0];
	for (int i = 0; i < 2; i++) {
		int64_t *side = &k[2 + i], room = x.dim[2 + i] - 1;
		strides[i] = 1 + (out ? 0 : pick(3));
		dilations[i] = 1 + (out ? 0 : pick(2));
		*side = out ? 1 : 1 + pick(5);
		while ((*side - 1) * dilations[i] > room)
			(*side)--;
		pads[i] = *side > 1 ? pick((int)*side) : 0;
		pads[2 + i] = *side > 1 ? pick((int)*side) : 0;
		v.dim[2 + i] = (x.dim[2 + i] + pads[i] + pads[2 + i] - (*side - 1) * dilations[i] - 1) / strides[i] + 1;
	}
	attrs[0] = integer_list(w, "pads", 4, pads);
	attrs[1] = integer_list(w, "strides", 2, strides);
	attrs[2] = integer_list(w, "dilations", 2, dilations);
	attrs[3] = (struct tw_attr){.name = "group", .kind = TW_ATTR_INT, .i = out ? 1 : x.dim[1]};
	const struct value y = weights(w, 4, k), bias = weights(w, 1, k);
	const tw_id in[3] = {x.id, y.id, bias.id};
	v.id = node(w, "Conv", 2 + pick(2), in, 4, attrs);
	return *keep(w, v, told(w, "Conv", (int)x.id, (int)y.id));
}

static void make_block(struct world *w)
{
	const int64_t dim[4] = {1 + pick(2), 8 + pick(12), 1 + pick(12), 2 + pick(14)}, most = pick(2) ? 20 : 40;
	const int s = pick(2) ? -1 : pick(2) ? 0 : 2 + pick(2), parts = 1 + pick(7);
	w->size = s < 0 ? 1 : dim[s];
	w->target->l1_bytes = pick(4) ? 1 << 20 : 1024 << pick(10);
	w->target->l2_bytes = 64 << pick(6); /* chains pay where maps do not fit */
	struct value x = leaf(w, 4, dim, s), first = x;
	if (pick(3) == 0) /* sizes that are quotients of symbols */
		x = image_conv(w, x, 0);
	x = first = image_conv(w, x, 8 + pick(8)); /* channels last from here on */
	if (parts & 1)
		x = image_conv(w, x, 8 + pick((int)most));
	if (pick(2))
		x = unary(w, x);
	x = image_conv(w, x, 0);
	if (pick(3) == 0) /* what others need too */
		vec_push(w->a, &w->g->outputs, unary(w, x).id);
	if (pick(2))
		x = unary(w, x);
	if (parts & 2)
		x = image_conv(w, x, pick(2) ? first.dim[1] : 4 + pick((int)most));
	if (memcmp(x.dim, first.dim, sizeof(x.dim)) == 0 && s < 2) {
		const tw_id in[2] = {x.id, first.id};
		x.id = node(w, "Add", 2, in, 0, NULL);
		x = *keep(w, x, told(w, "Add", (int)in[0], (int)in[1]));
	}
	if (pick(3))
		x = unary(w, x);
	x = image_conv(w, x, 8 + pick(8)); /* channels last up to here */
	vec_push(w->a, &w->g->outputs, unary(w, x).id);
}

/* runs */

struct store {
	struct tw_arena *a;
	const struct tw_groups *groups; /* NULL, or: what lies in what */
	struct tw_map at;		/* twir_tensor -> struct twir_data* */
	VEC(struct twir_tensor *) tensors;
	VEC(struct twir_data) data;
};

static struct twir_data *find(struct store *s, const struct twir_tensor *t)
{
	return map_get_ptr(&s->at, t);
}

/* A part lies in its whole. */
static struct twir_data *add(struct world *w, struct store *s, struct twir_tensor *t)
{
	const int64_t n = twir_eval_index(twir_tensor_elements(w->g->m, t), &w->b);
	const struct tw_part *part = s->groups ? map_get_ptr(&s->groups->parts, t) : NULL;
	struct twir_data *d = ARENA_NEW(s->a, struct twir_data);
	if (part) {
		struct twir_data *whole = find(s, part->whole);
		whole = whole ? whole : add(w, s, part->whole);
		const struct twir_expr *at[TWIR_MAX_RANK];
		for (int k = 0; k < t->rank; k++)
			at[k] = k == part->axis ? part->at : twir_index(w->g->m, 0);
		const int64_t from = twir_eval_index(twir_layout_offset(w->g->m, part->whole, t->rank, at), &w->b);
		TW_CHECK(from >= 0 && from + n <= whole->elements, "%s lies outside of %s", t->name, part->whole->name);
		*d = (struct twir_data){(char *)whole->at + from * twir_scalar_bytes(t->type), n};
	} else {
		*d = (struct twir_data){arena_alloc_array(s->a, 8, n), n};
	}
	map_set_ptr(&s->at, t, d);
	vec_push(s->a, &s->tensors, t);
	vec_push(s->a, &s->data, *d);
	return d;
}

static void add_leaf(struct world *w, struct store *s, struct twir_tensor *t, const struct tw_definitions *d)
{
	const uintptr_t id = (uintptr_t)map_get_ptr(&d->tensor, t);
	TW_CHECK(id, "%s is neither defined nor of the graph", t->name);
	const struct tw_tensor *of = &w->g->tensors.at[id - 1];
	struct twir_data *x = add(w, s, t);
	if (of->data)
		memcpy(x->at, of->data, (size_t)of->bytes);
	else
		fill(x->at, x->elements, id * 77 + w->seed);
}

struct leaves {
	struct world *w;
	struct store *s;
	const struct tw_definitions *d;
};

static void find_leaf(void *arg, const struct twir_expr *e)
{
	struct leaves *l = arg;
	if ((e->kind == TWIR_Load || e->kind == TWIR_Gather) && !find(l->s, e->u.tensor))
		add_leaf(l->w, l->s, e->u.tensor, l->d);
}

static void evaluate(struct world *w, struct store *s, const struct twir_compute *c, const struct tw_definitions *d)
{
	struct leaves l = {w, s, d};
	twir_visit_expr(c->value, find_leaf, &l);
	const struct twir_env env = {s->tensors.n, s->tensors.at, s->data.at, NULL};
	struct twir_data *out = add(w, s, c->out);
	twir_interpret_compute(w->g->m, c, &w->b, &env, *out);
	s->data.at[s->data.n - 1] = *out;
}

static void run_launch(struct world *w, struct store *s, const struct tw_launch *l, const struct tw_definitions *d)
{
	for (int i = 0; i < l->prepared.n; i++)
		if (!find(s, l->prepared.at[i]->out))
			evaluate(w, s, l->prepared.at[i], d);
	for (int i = 0; i < l->kernels.n; i++) {
		const struct tw_kernel *k = &l->kernels.at[i];
		struct twir_data *data = ARENA_ARRAY(s->a, struct twir_data, k->nargs);
		for (int j = 0; j < k->nargs; j++) {
			if (!find(s, k->args[j])) {
				const bool part = s->groups && map_get_ptr(&s->groups->parts, k->args[j]);
				if (j < k->nargs - k->nout && !part)
					add_leaf(w, s, k->args[j], d);
				else
					add(w, s, k->args[j]);
			}
			data[j] = *find(s, k->args[j]);
		}
		twir_interpret(w->g->m, k->program, &w->b, data);
	}
}

static void compare(struct world *w, struct store *want, struct store *got, const char *where)
{
	for (int i = 0; i < w->g->outputs.n; i++) {
		struct twir_tensor *t = tw_graph_ir(w->g, w->g->outputs.at[i]);
		const struct twir_data *x = find(want, t), *y = find(got, t);
		TW_CHECK(x && y, "output %d is not computed", (int)w->g->outputs.at[i]);
		double scale = 1;
		for (int64_t k = 0; k < x->elements; k++)
			scale = fabs(((float *)x->at)[k]) > scale ? fabs(((float *)x->at)[k]) : scale;
		for (int64_t k = 0; k < x->elements; k++) {
			const float a = ((float *)x->at)[k], b = ((float *)y->at)[k];
			const double e = a == b || (isnan(a) && isnan(b)) ? 0 : fabs((double)a - b) / scale;
			if (!(e <= w->worst)) {
				w->worst = isnan(e) ? INFINITY : e;
				w->where = arena_printf(w->a, "output %d, element %lld: %g, not %g, %s",
							(int)w->g->outputs.at[i], (long long)k, b, a, where);
			}
		}
	}
}

static void new_store(struct world *w, struct store *s)
{
	*s = (struct store){.a = w->a};
	map_init(&s->at, w->a);
}

static void check_graph(void *arg)
{
	struct world *w = arg;
	struct tw_definitions d;
	struct tw_groups groups = {0};
	struct store want, got, lowered;
	w->g = tw_graph_new(w->a, twir_module_new(w->a));
	buf_init(&w->told, w->a);
	w->symbol = twir_symbol(w->g->m, "N");
	w->b = (struct twir_binding){1, &w->symbol, &w->size};
	static void (*const makers[])(struct world * w) = {make, make, make_parts, make_block};
	makers[pick(TW_COUNT(makers))](w);
	tw_infer(w->g);
	opt_fold_constants(w->g);
	opt_remove_dead(w->g);
	opt_lower(w->g, &d);
	new_store(w, &want);
	new_store(w, &got);
	new_store(w, &lowered);
	for (int i = 0; i < d.list.n; i++) {
		TW_CHECK(d.list.at[i].compute, "a host operator");
		evaluate(w, &want, d.list.at[i].compute, &d);
	}
	for (int i = 0; i < w->g->outputs.n; i++) { /* folded to a constant, or an input */
		struct twir_tensor *t = tw_graph_ir(w->g, w->g->outputs.at[i]);
		if (!find(&want, t)) {
			add_leaf(w, &want, t, &d);
			add_leaf(w, &got, t, &d);
			add_leaf(w, &lowered, t, &d);
		}
	}
	opt_group(&d, &groups);
	if (w->target->l2_bytes == 0 && pick(2)) /* no block: nothing lies channels last */
		for (int i = 0; i < d.list.n; i++)
			map_set_ptr(&groups.row_major, d.list.at[i].compute->out, w);
	opt_convert(&groups, w->g->m);
	opt_layout(&d, &groups);
	opt_widen_groups(&groups, w->g->m, w->target);
	opt_chain(&groups, w->g->m, w->target);
	got.groups = lowered.groups = &groups;
	w->definitions = d.list.n;
	w->parts = groups.part_list.n;
	for (int i = 0; i < groups.list.n; i++) {
		struct tw_group *g = groups.list.at[i];
		w->chains += g->task.chain != NULL;
		tw_schedule(&g->task, w->target, &g->launch);
		w->kernels += g->launch.kernels.n;
		run_launch(w, &got, &g->launch, &d);
	}
	compare(w, &want, &got, "fused");
	for (int i = 0; i < groups.list.n; i++) {
		struct tw_launch *l = &groups.list.at[i]->launch;
		for (int k = 0; k < l->kernels.n; k++)
			tw_lower(w->g->m, l->kernels.at[k].program, w->target, NULL, NULL);
		run_launch(w, &lowered, l, &d);
	}
	compare(w, &want, &lowered, "lowered");
}

int main(int argc, char **argv)
{
	static const enum tw_isa isas[] = {TW_ISA_AVX512, TW_ISA_AVX2, TW_ISA_SCALAR};
	const char *longer = getenv("TILEWRIGHT_LONG_TESTS");
	const uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
	const int count = argc > 2 ? atoi(argv[2]) : longer && *longer ? 3000 : 150;
	int failed = 0, definitions = 0, kernels = 0, parts = 0, chains = 0;
	for (int i = 0; i < count; i++) {
		struct tw_error e;
		struct tw_target t = {0};
		struct world w = {.a = arena_new(), .seed = first + (uint64_t)i, .target = &t};
		state = w.seed * 0x9e3779b97f4a7c15u + 1;
		tw_target_with_isa(&t, isas[pick(TW_COUNT(isas))]);
		const bool ok = tw_try(&e, check_graph, &w);
		if (!ok || !(w.worst < 2e-5)) {
			printf("seed %llu: %s\n%s", (unsigned long long)w.seed, ok ? w.where : e.text,
			       w.told.at ? w.told.at : "");
			failed++;
		}
		definitions += w.definitions;
		kernels += w.kernels;
		parts += w.parts;
		chains += w.chains;
		arena_free(w.a);
	}
	printf("%d graphs: %d definitions became %d kernels, %d tensors parts of others; %d chains\n", count,
	       definitions, kernels, parts, chains);
	failed += kernels >= definitions || (count > 20 && (parts == 0 || chains == 0)); /* nothing was fused */
	printf("%d passed, %d failed\n", count - failed, failed);
	return failed ? 1 : 0;
}
