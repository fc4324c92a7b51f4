/* Feature maps that lie channels last: which tensors do, and that networks of convolutions, pools and what moves between them give what the interpreter gives,
 * which knows no layouts. Channel counts are odd ones, so that lanes stay empty and tiles overhang. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "onnx_writer.h"
#include "opt/opt.h"
#include "tilewright.h"

static void good(tilewright_status s)
{
	if (s != TILEWRIGHT_OK)
		fail_msg("%s", tilewright_last_error());
}

static float some(uint32_t *state) /* in [-1, 1) */
{
	*state = *state * 1664525u + 1013904223u;
	return (float)(*state >> 8) / (float)(1 << 23) - 1.0f;
}

/* --- networks as lines: "y = Conv x 24 3x3 s2 p1 g3" --- */

struct net {
	struct tw_arena *a;
	struct tw_buf graph;
	struct { /* channels of values by name */
		char name[16];
		int64_t channels;
	} value[32];
	int nvalues, spatial;
	uint32_t seed;
};

static int64_t *channels_of(struct net *n, const char *name)
{
	for (int i = 0; i < n->nvalues; i++)
		if (!strcmp(n->value[i].name, name))
			return &n->value[i].channels;
	assert_true(n->nvalues < TW_COUNT(n->value));
	strcpy(n->value[n->nvalues].name, name);
	return &n->value[n->nvalues++].channels;
}

static void put_ints(struct tw_buf *attrs, const char *name, int n, const int64_t *v)
{
	struct tw_buf a;
	buf_init(&a, attrs->arena);
	put_text(&a, 1, name);
	for (int i = 0; i < n; i++)
		put_int(&a, 8, v[i]);
	put_int(&a, 20, 7);
	put_message(attrs, 5, &a);
}

static void put_string(struct tw_buf *attrs, const char *name, const char *v)
{
	struct tw_buf a;
	buf_init(&a, attrs->arena);
	put_text(&a, 1, name);
	put_bytes(&a, 4, v, strlen(v));
	put_int(&a, 20, 3);
	put_message(attrs, 5, &a);
}

static void put_random(struct net *n, const char *name, int rank, const int64_t *dims, float scale)
{
	int64_t size = 1;
	for (int d = 0; d < rank; d++)
		size *= dims[d];
	float *data = ARENA_ARRAY(n->a, float, size);
	for (int64_t i = 0; i < size; i++)
		data[i] = scale * some(&n->seed);
	put_initializer(&n->graph, name, rank, dims, data, NULL, (int)size);
}

struct options {
	int64_t kernel[3], stride, pad, dilation, group, channels;
};

static void put_window(struct net *n, struct tw_buf *attrs, const struct options *o, bool conv)
{
	const int k = n->spatial;
	int64_t same[3], pads[6];
	put_ints(attrs, "kernel_shape", k, o->kernel);
	for (int i = 0; i < 3; i++)
		same[i] = o->stride;
	put_ints(attrs, "strides", k, same);
	for (int i = 0; i < 6; i++)
		pads[i] = o->kernel[i % k] > 1 ? o->pad : 0;
	put_ints(attrs, "pads", 2 * k, pads);
	for (int i = 0; i < 3; i++)
		same[i] = o->dilation;
	if (conv)
		put_ints(attrs, "dilations", k, same);
	if (conv)
		put_attr_int(attrs, "group", o->group);
}

/* One line: a result, an operator, its inputs, and what it is given. */
static void put_line(struct net *n, const char *line)
{
	char out[16], op[32], word[16], in[64] = "";
	struct options o = {.stride = 1, .dilation = 1, .group = 1};
	int read = 0, more;
	int64_t channels = 0, total = 0;
	assert_int_equal(sscanf(line, "%15s = %31s %n", out, op, &read), 2);
	struct tw_buf attrs;
	buf_init(&attrs, n->a);
	for (const char *s = line + read; sscanf(s, "%15s %n", word, &more) == 1; s += more) {
		if (word[0] == 's' && word[1] >= '0' && word[1] <= '9') {
			o.stride = atoi(word + 1);
		} else if (word[0] == 'p' && word[1] >= '0' && word[1] <= '9') {
			o.pad = atoi(word + 1);
		} else if (word[0] == 'd' && word[1] >= '0' && word[1] <= '9') {
			o.dilation = atoi(word + 1);
		} else if (word[0] == 'g' && word[1] >= '0' && word[1] <= '9') {
			o.group = atoi(word + 1);
		} else if (word[0] == 'k') { /* k3,1,3 */
			int i = 0;
			for (char *t = strtok(word + 1, ","); t; t = strtok(NULL, ","))
				o.kernel[i++] = atoi(t);
		} else if (word[0] >= '0' && word[0] <= '9') {
			o.channels = atoi(word);
		} else {
			channels = channels ? channels : *channels_of(n, word);
			total += *channels_of(n, word);
			strcat(strcat(in, *in ? "," : ""), word);
		}
	}
	*channels_of(n, out) = channels;
	const char *w = arena_printf(n->a, "w_%s", out), *b = arena_printf(n->a, "b_%s", out);
	if (!strcmp(op, "Conv") || !strcmp(op, "ConvTranspose")) {
		const bool turned = op[4] == 'T';
		int64_t dims[] = {turned ? channels : o.channels, (turned ? o.channels : channels) / o.group,
				  o.kernel[0], o.kernel[1], o.kernel[2]};
		put_window(n, &attrs, &o, true);
		put_random(n, w, 2 + n->spatial, dims, 0.3f);
		put_random(n, b, 1, &o.channels, 1);
		strcat(strcat(strcat(strcat(in, ","), w), ","), b);
		*channels_of(n, out) = o.channels;
	} else if (!strcmp(op, "MaxPool") || !strcmp(op, "AveragePool")) {
		put_window(n, &attrs, &o, false);
	} else if (!strcmp(op, "Concat")) {
		put_attr_int(&attrs, "axis", 1);
		*channels_of(n, out) = total;
	} else if (!strcmp(op, "Slice")) { /* the channels from a third on */
		const int64_t first = channels / 3, axis = 1, one = 1;
		const int64_t *numbers[] = {&first, &channels, &axis};
		for (int i = 0; i < 3; i++) {
			const char *name = arena_printf(n->a, "%s_%d", w, i);
			put_initializer(&n->graph, name, 1, &one, NULL, numbers[i], 1);
			strcat(strcat(in, ","), name);
		}
		*channels_of(n, out) = channels - first;
	} else if (!strcmp(op, "Transpose")) {
		put_ints(&attrs, "perm", 4, (const int64_t[]){0, 2, 3, 1});
	} else if (!strcmp(op, "Nearest") || !strcmp(op, "Linear")) {
		const float scales[] = {1, 1, 2, 2};
		put_string(&attrs, "mode", op[0] == 'N' ? "nearest" : "linear");
		put_initializer(&n->graph, w, 1, (const int64_t[]){4}, scales, NULL, 4);
		strcat(strcat(in, ",_,"), w);
		strcpy(op, "Resize");
	}
	put_node(&n->graph, 1, op, "", in, out, &attrs);
}

/* --- a compiled run against the interpreter --- */

struct reference {
	const tilewright_model *model;
	tilewright_context *context;
	const char *first; /* line of the network */
	int compared;
};

static void compare(void *arg, const char *name, const tilewright_tensor *want)
{
	struct reference *r = arg;
	for (int i = 0; i < tilewright_count_outputs(r->model); i++) {
		if (strcmp(tilewright_get_output_port(r->model, i)->name, name))
			continue;
		tilewright_tensor got;
		double worst = 0, most = 0;
		int64_t size = 1;
		good(tilewright_get_output(r->context, i, &got));
		assert_int_equal(got.rank, want->rank);
		for (int d = 0; d < got.rank; d++) {
			assert_int_equal(got.dims[d], want->dims[d]);
			size *= got.dims[d];
		}
		for (int64_t k = 0; k < size; k++) {
			const float a = ((const float *)got.data)[k], b = ((const float *)want->data)[k];
			assert_false(isnan(a));
			most = fmax(most, fabsf(b));
			worst = fmax(worst, fabs((double)a - b));
		}
		if (worst > 2e-5 * most)
			fail_msg("output %s of %s: error %g of %g", name, r->first, worst, most);
		r->compared++;
	}
}

static void run(const char *path, int rank, const int64_t *dims, struct reference *r)
{
	int64_t size = 1;
	uint32_t seed = 5;
	for (int d = 0; d < rank; d++)
		size *= dims[d];
	float *data = malloc((size_t)size * sizeof(*data));
	for (int64_t i = 0; i < size; i++)
		data[i] = some(&seed);
	good(tilewright_set_input(r->context, 0, TILEWRIGHT_F32, rank, dims, data));
	good(tilewright_run(r->context));
	tilewright_tensor x = {
		.type = TILEWRIGHT_F32, .rank = rank, .data = data, .bytes = size * (int64_t)sizeof(*data)};
	for (int d = 0; d < rank; d++)
		x.dims[d] = dims[d];
	r->compared = 0;
	good(tilewright_interpret_file(path, NULL, 1, &x, 1e9, compare, r));
	assert_int_equal(r->compared, tilewright_count_outputs(r->model));
	free(data);
}

/* The network at the sizes given (a letter in the input's shape is symbolic), rank numbers each. */
static void check(const char *input, int rank, int nsizes, const int64_t *dims, const char *outputs,
		  const char *const *lines)
{
	struct net n = {.a = arena_new(), .spatial = rank - 2, .seed = 11};
	struct tw_buf file;
	char path[] = "/tmp/tw_layout_XXXXXX", names[64];
	buf_init(&n.graph, n.a);
	buf_init(&file, n.a);
	*channels_of(&n, "x") = dims[1];
	for (int i = 0; lines[i]; i++)
		put_line(&n, lines[i]);
	put_value(&n.graph, 11, "x", 1, input);
	strcpy(names, outputs);
	for (char *s = strtok(names, ","); s; s = strtok(NULL, ","))
		put_value(&n.graph, 12, s, 1, NULL);
	put_model(&file, &n.graph, 17, NULL);
	const int fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, file.at, file.n), (ssize_t)file.n);
	close(fd);
	tilewright_options *o = tilewright_create_options();
	tilewright_model *model;
	struct reference r = {.first = lines[0]};
	tilewright_use_cache(o, 0);
	good(tilewright_compile_memory(file.at, file.n, NULL, o, &model));
	r.model = model;
	good(tilewright_create_context(model, 1, &r.context));
	for (int i = 0; i < nsizes; i++)
		run(path, rank, dims + i * rank, &r);
	tilewright_free_context(r.context);
	tilewright_free_model(model);
	tilewright_free_options(o);
	remove(path);
	arena_free(n.a);
}

#define NET(...)  ((const char *const[]){__VA_ARGS__, NULL})
#define DIMS(...) ((const int64_t[]){__VA_ARGS__})

/* All kinds of readers and writers of feature maps in one network. */
static void test_all_kinds(void **state)
{
	(void)state;
	check("1,3,11,13", 4, 1, DIMS(1, 3, 11, 13), "y,z,t",
	      NET("a = Conv x 24 k3,3 s2 p1", "c = MaxPool a k3,3 s1 p1", "d = Conv c 33 k1,1", "e = Conv c 17 k3,3 p1",
		  "f = Concat d e", "g = Nearest f", "h = Conv g 24 k1,1", "i = Linear c", "j = Add h i",
		  "u = GlobalAveragePool j", "l = Conv u 24 k1,1", "m = Sigmoid l", "o = Mul j m", "y = Conv o 8 k1,1",
		  "q = AveragePool o k2,2 s2", "z = Flatten q", "t = Transpose o"));
}

static void test_depthwise(void **state)
{
	(void)state;
	check("1,17,15,17", 4, 1, DIMS(1, 17, 15, 17), "y",
	      NET("b = Conv x 17 k3,3 p1 g17", "c = Relu b", "d = Conv c 33 k1,1", "e = Conv d 33 k5,5 s2 p2 g33",
		  "f = Conv e 24 k1,1", "g = Conv f 48 k3,3 p2 d2 g24", "h = Tanh g", "y = Conv h 10 k1,1"));
}

static void test_groups_and_dilations(void **state)
{
	(void)state;
	check("2,24,9,11", 4, 1, DIMS(2, 24, 9, 11), "y,e",
	      NET("a = Conv x 36 k3,3 p1 g4", "c = Conv a 24 k3,3 p2 d2", "e = Conv c 1 k3,3 p1",
		  "y = Conv c 40 k3,3 s3 p1 g8"));
	/* narrower than a vector: several groups become one */
	check("2,24,5,W", 4, 2, DIMS(2, 24, 5, 7, 2, 24, 5, 3), "y,z",
	      NET("a = Conv x 24 k3,3 p1 g6", "b = Relu a", "c = Conv b 48 k3,3 s2 p1 g12", "d = Conv b 18 k1,3 g6",
		  "z = Conv d 8 k1,1", "y = Conv c 9 k1,1"));
}

/* As convolutions: turned round, by phases, in groups, channel by channel, with taps that some phases lack. */
static void test_transposed(void **state)
{
	(void)state;
	check("1,9,3,H", 4, 2, DIMS(1, 9, 3, 5, 1, 9, 3, 2), "y,z,u,v",
	      NET("a = ConvTranspose x 24 k4,4 s2 p1", "b = Relu a", "c = ConvTranspose b 20 k3,3 p1",
		  "d = ConvTranspose c 20 k4,4 s2 p1 g20", "e = Conv d 24 k1,1", "y = ConvTranspose e 24 k4,4 s2 p1 g3",
		  "f = ConvTranspose b 17 k5,5 s3 p1", "z = Conv f 9 k3,3", "u = ConvTranspose x 18 k4,4 s2 p1 g9",
		  "g = ConvTranspose b 24 k3,3 p2 d2 g2", "h = Tanh g", "v = ConvTranspose h 24 k3,3 g24"));
}

/* Convolutions of some of a tensor's channels, as a block with a shortcut splits them: windows, tiles of Winograd,
 * channel by channel. */
static void test_some_channels(void **state)
{
	(void)state;
	check("1,3,H,11", 4, 2, DIMS(1, 3, 9, 11, 1, 3, 6, 11), "y,z",
	      NET("a = Conv x 36 k1,1", "b = Relu a", "c = Slice b", "d = Conv c 17 k3,3 p1",
		  "e = Conv c 24 k3,3 p1 g24", "f = Slice d", "g = Conv f 24 k1,3 p1", "h = Concat b d e",
		  "y = Conv h 5 k1,1", "z = Conv g 6 k1,1"));
}

/* Widths that are divided into tiles of every length, and those too narrow for any; windows that reach over borders by all of their taps but one. */
static void test_open_widths(void **state)
{
	enum { WIDEST = 19 };
	int64_t dims[4 * WIDEST];
	(void)state;
	for (int w = 1; w <= WIDEST; w++) {
		const int64_t one[] = {1, 17, 3, w};
		memcpy(dims + 4 * (w - 1), one, sizeof(one));
	}
	check("1,17,3,W", 4, WIDEST, dims, "y,z,u,v",
	      NET("a = Conv x 17 k1,1", "b = Relu a", "c = Conv b 17 k3,3 p1 g17", "y = Tanh c",
		  "d = Conv b 17 k1,5 s2 p2 g17", "z = Conv d 9 k1,1", "e = MaxPool b k3,3 s2 p1", "u = Conv e 9 k1,1",
		  "f = Conv b 17 k3,3 p2 g17", "g = Conv f 17 k1,3 p2 d2 g17", "v = Conv g 9 k1,1"));
}

/* Inputs and outputs that lie row-major around convolutions that work on copies: read by several, stored by one, both. */
static void test_converted(void **state)
{
	(void)state;
	check("1,17,6,W", 4, 2, DIMS(1, 17, 6, 7, 1, 17, 6, 4), "y,z,u,v,t,s,w",
	      NET("y = Conv x 20 k3,3 p1", "a = Conv x 18 k5,5 p2 s2", "z = Relu a", "b = Conv x 17 k5,5 p2 g17",
		  "c = Tanh b", "u = Conv c 33 k3,3", "v = ConvTranspose y 16 k4,4 s2 p1", "d = MaxPool x k3,3 s1 p1",
		  "e = Concat d x", "t = Conv e 16 k3,3 p1", "s = Conv u 7 k1,1", "m = Relu x", /* lies nowhere */
		  "w = Conv m 16 k3,3 p1"));
}

static void test_symbolic_sizes(void **state)
{
	(void)state;
	check("N,3,H,W", 4, 3, DIMS(1, 3, 20, 36, 3, 3, 9, 7, 1, 3, 1, 1), "y",
	      NET("a = Conv x 16 k3,3 s2 p1", "b = Conv a 16 k3,3 p1 g16", "c = HardSwish b",
		  "e = MaxPool c k3,3 s2 p1", "f = Conv e 24 k1,1", "g = Nearest f", "h = ConvTranspose f 24 k2,2 s2",
		  "i = Add g h", "j = ConvTranspose i 12 k3,3 s2 p1", "y = Conv j 3 k3,3 p1"));
}

/* What lies side by side is stored there, with strides of the whole: along channels and along rows, nested, chained, padded. */
static void test_parts(void **state)
{
	(void)state;
	check("N,7,H,9", 4, 2, DIMS(2, 7, 6, 9, 1, 7, 3, 9), "y,z,g",
	      NET("a = Conv x 12 k3,3 p1", "b = Conv a 20 k1,1", "c = Relu b", "d = Concat a c",
		  "e = Conv d 17 k3,3 p1", "f = Concat d e", "h = MaxPool f k3,3 s1 p1", "i = Concat h f",
		  "j = Conv i 9 k1,1", "z = Concat j x", "q = Concat e a", "l = Conv q 8 k3,3 p1 s2",
		  "m = Conv f 49 k3,3 p1 g49", "o = Concat m f", "y = Conv o 5 k1,1", "g = GlobalAveragePool l"));
}

static void test_one_axis(void **state)
{
	(void)state;
	check("2,5,40", 3, 1, DIMS(2, 5, 40), "y,z",
	      NET("a = Conv x 24 k5 s2 p2", "c = Conv a 24 k3 p1 g24", "d = MaxPool c k3 s2 p1",
		  "e = Conv d 33 k3 p2 d2", "z = GlobalMaxPool e", "y = ConvTranspose e 17 k4 s2 p1"));
}

static void test_three_axes(void **state)
{
	(void)state;
	check("1,2,5,6,7", 5, 1, DIMS(1, 2, 5, 6, 7), "y",
	      NET("a = Conv x 17 k3,3,3 p1", "c = Conv a 17 k3,3,3 p1 g17", "d = AveragePool c k2,2,2 s2",
		  "y = Conv d 9 k1,3,1 p1"));
}

/* --- which tensors --- */

static tw_id node(struct tw_graph *g, const char *op, int nin, const tw_id *in, int nattrs, const struct tw_attr *attrs)
{
	const struct tw_op *row = tw_op_find("", op, 17);
	assert_non_null(row);
	const char *name = arena_printf(g->arena, "%s_%d", op, g->nodes.n);
	const tw_id out = tw_graph_tensor(g, name, TWIR_VOID, -1, NULL);
	const tw_id id = tw_graph_node(g, row, name, 17, nin, in, 1, &out, nattrs, attrs);
	g->nodes.at[id].op_type = op;
	return out;
}

static tw_id input(struct tw_graph *g, const char *name, int rank, const int64_t *dims)
{
	const struct twir_expr *shape[TWIR_MAX_RANK];
	for (int i = 0; i < rank; i++)
		shape[i] = twir_index(g->m, dims[i]);
	const tw_id t = tw_graph_tensor(g, name, TWIR_F32, rank, shape);
	vec_push(g->arena, &g->inputs, t);
	return t;
}

static tw_id conv(struct tw_graph *g, tw_id x, int64_t from, int64_t to)
{
	const int64_t dims[] = {to, from, 1, 1};
	float *data = ARENA_ARRAY(g->arena, float, from *to);
	return node(g, "Conv", 2, (tw_id[]){x, tw_graph_constant(g, "w", TWIR_F32, 4, dims, data)}, 0, NULL);
}

static bool lies_channels_last(const struct tw_graph *g, tw_id t)
{
	const struct twir_layout *l = g->tensors.at[t].ir->layout;
	int64_t stride;
	return l && l->kind == TWIR_LAYOUT_STRIDES && twir_const_int(l->extent[1], &stride) && stride == 1;
}

/* What convolutions hand on lies channels last, outputs, few channels and flattened images do not. */
static void test_choice(void **state)
{
	(void)state;
	struct tw_arena *a = arena_new();
	struct tw_graph *g = tw_graph_new(a, twir_module_new(a));
	const tw_id x = input(g, "x", 4, DIMS(1, 16, 6, 5));
	const tw_id first = conv(g, x, 16, 24), inner = conv(g, first, 24, 32), few = conv(g, inner, 32, 4);
	const tw_id flat = conv(g, first, 24, 16), last = conv(g, few, 4, 16);
	const tw_id side = node(g, "Softmax", 1, (tw_id[]){node(g, "Flatten", 1, &flat, 0, NULL)}, 0, NULL);
	vec_push(a, &g->outputs, last);
	vec_push(a, &g->outputs, side);
	struct tw_definitions d;
	struct tw_groups groups = {0};
	tw_infer(g);
	opt_lower(g, &d);
	opt_group(&d, &groups);
	opt_layout(&d, &groups);
	assert_true(lies_channels_last(g, first));
	assert_true(lies_channels_last(g, inner));
	assert_false(lies_channels_last(g, few));
	assert_false(lies_channels_last(g, flat));
	assert_false(lies_channels_last(g, last));
	assert_null(g->tensors.at[x].ir->layout);
	arena_free(a);
}

/* What a transformer passes on has four axes too. */
static void test_no_image(void **state)
{
	(void)state;
	struct tw_arena *a = arena_new();
	struct tw_graph *g = tw_graph_new(a, twir_module_new(a));
	const tw_id q = input(g, "q", 4, DIMS(1, 16, 6, 8)), k = input(g, "k", 4, DIMS(1, 16, 8, 6));
	const tw_id score = node(g, "MatMul", 2, (tw_id[]){q, k}, 0, NULL), p = node(g, "Softmax", 1, &score, 0, NULL);
	const tw_id out = node(g, "MatMul", 2, (tw_id[]){p, q}, 0, NULL);
	vec_push(a, &g->outputs, out);
	struct tw_definitions d;
	struct tw_groups groups = {0};
	tw_infer(g);
	opt_lower(g, &d);
	opt_group(&d, &groups);
	opt_layout(&d, &groups);
	for (int i = 0; i < groups.list.n; i++)
		if (groups.list.at[i]->task.anchor)
			assert_null(groups.list.at[i]->task.anchor->out->layout);
	arena_free(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_choice),
		cmocka_unit_test(test_no_image),
		cmocka_unit_test(test_all_kinds),
		cmocka_unit_test(test_depthwise),
		cmocka_unit_test(test_groups_and_dilations),
		cmocka_unit_test(test_transposed),
		cmocka_unit_test(test_some_channels),
		cmocka_unit_test(test_open_widths),
		cmocka_unit_test(test_converted),
		cmocka_unit_test(test_symbolic_sizes),
		cmocka_unit_test(test_parts),
		cmocka_unit_test(test_one_axis),
		cmocka_unit_test(test_three_axes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
