/* rooms: base tmap ir graph ops onnx */
/* The importer: what it reads, what it refuses and how, and that no damage to a file makes it crash, hang or eat
   memory. */
#include "onnx/onnx.h"
#include "onnx_writer.h"
#include "ops/evaluate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <cmocka.h>

enum { IN = 11, OUT = 12, FLOAT = 1, INT64 = 7 };

struct job {
	struct tw_arena *arena;
	struct tw_onnx_source src;
	struct tw_graph *g;
};

static void import(void *arg)
{
	struct job *j = arg;
	j->g = tw_onnx_import(j->arena, twir_module_new(j->arena), &j->src);
	tw_infer(j->g);
}

static bool try_import(struct job *j, const void *bytes, size_t size, struct tw_error *e)
{
	j->src.bytes = bytes;
	j->src.size = size;
	j->src.name = "model.onnx";
	return tw_try(e, import, j);
}

struct fixture { /* a model under construction */
	struct tw_arena *arena;
	struct tw_buf graph, model, functions;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof *f);
	f->arena = arena_new();
	buf_init(&f->graph, f->arena);
	buf_init(&f->model, f->arena);
	buf_init(&f->functions, f->arena);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	arena_free(f->arena);
	free(f);
	return 0;
}

static struct tw_graph *accept(struct fixture *f, struct job *j)
{
	struct tw_error e = {0};
	put_model(&f->model, &f->graph, 13, &f->functions);
	j->arena = f->arena;
	if (!try_import(j, f->model.at, f->model.n, &e))
		fail_msg("refused: %s", e.text);
	return j->g;
}

/* Must be refused with this code and these words. */
static void refuse(struct fixture *f, enum tw_code code, const char *words)
{
	struct tw_error e = {0};
	struct job j = {.arena = f->arena};
	put_model(&f->model, &f->graph, 13, &f->functions);
	assert_false(try_import(&j, f->model.at, f->model.n, &e));
	if (e.code != code || !strstr(e.text, words))
		fail_msg("code %d, text: %s", e.code, e.text);
}

static const char *shape_of(const struct tw_graph *g, const char *name)
{
	for (int i = 0; i < g->tensors.n; i++)
		if (!strcmp(g->tensors.at[i].name, name))
			return tw_graph_shape_text(g->arena, g, (tw_id)i);
	return "absent";
}

static void test_symbols(void **state)
{
	struct fixture *f = *state;
	put_value(&f->graph, IN, "a", FLOAT, "N,3");
	put_value(&f->graph, IN, "b", FLOAT, "N,_");
	put_node(&f->graph, 1, "Add", "", "a,b", "c", NULL);
	put_value(&f->graph, OUT, "c", FLOAT, NULL);
	struct job j = {0};
	struct tw_graph *g = accept(f, &j);
	assert_string_equal(shape_of(g, "a"), "f32[N, 3]");
	assert_string_equal(shape_of(g, "b"), "f32[N, b_1]");
	assert_string_equal(shape_of(g, "c"), "f32[N, 3]");
	assert_int_equal(g->requires.n, 1); /* b_1 == 3 is checked at launch */
}

/* Sizes whose bytes do not fit in 64 bits, whatever a symbol is; small products and slices to the end are none of these. */
static void test_sizes_beyond(void **state)
{
	struct fixture *f = *state;
	put_value(&f->graph, IN, "a", FLOAT, "N,1");
	put_initializer(&f->graph, "s", 1, (const int64_t[]){2}, NULL, (const int64_t[]){1, (int64_t)1 << 62}, 2);
	put_node(&f->graph, 1, "Tile", "", "a,s", "c", NULL);
	put_value(&f->graph, OUT, "c", FLOAT, NULL);
	refuse(f, TW_ERR_MODEL, "more than can be addressed");
}

static void test_sizes_within(void **state)
{
	struct fixture *f = *state;
	put_value(&f->graph, IN, "a", FLOAT, "N,4");
	put_initializer(&f->graph, "zero", 1, (const int64_t[]){1}, NULL, (const int64_t[]){0}, 1);
	put_initializer(&f->graph, "end", 1, (const int64_t[]){1}, NULL, (const int64_t[]){INT64_MAX}, 1);
	put_initializer(&f->graph, "s", 1, (const int64_t[]){2}, NULL, (const int64_t[]){0, (int64_t)1 << 40}, 2);
	put_node(&f->graph, 1, "Slice", "", "a,zero,end,zero", "b", NULL);
	put_node(&f->graph, 1, "Tile", "", "b,s", "c", NULL); /* no elements at all */
	put_value(&f->graph, OUT, "c", FLOAT, NULL);
	struct job j = {0};
	accept(f, &j);
}

static void test_fixed_symbols(void **state)
{
	struct fixture *f = *state;
	put_value(&f->graph, IN, "a", FLOAT, "N.1,3");
	put_node(&f->graph, 1, "Relu", "", "a", "c", NULL);
	put_value(&f->graph, OUT, "c", FLOAT, NULL);
	const char *const names[] = {"N.1", "M"};
	const int64_t values[] = {5, 2};
	struct job j = {.src = {.nfixed = 1, .fixed_names = names, .fixed_values = values}};
	assert_string_equal(shape_of(accept(f, &j), "c"), "f32[5, 3]");
	struct tw_error e;
	j.src.nfixed = 2;
	assert_false(try_import(&j, f->model.at, f->model.n, &e));
	assert_int_equal(e.code, TW_ERR_INPUT);
	assert_non_null(strstr(e.text, "'M'"));
}

static void test_sorts_nodes(void **state)
{
	struct fixture *f = *state;
	put_value(&f->graph, IN, "a", FLOAT, "3");
	put_node(&f->graph, 1, "Exp", "", "b", "c", NULL);
	put_node(&f->graph, 1, "Relu", "", "a", "b", NULL);
	put_value(&f->graph, OUT, "c", FLOAT, NULL);
	struct job j = {0};
	struct tw_graph *g = accept(f, &j);
	assert_string_equal(g->nodes.at[0].op_type, "Relu");
	assert_string_equal(g->nodes.at[1].op_type, "Exp");
}

static void test_refuses_cycle(void **state)
{
	struct fixture *f = *state;
	put_value(&f->graph, IN, "a", FLOAT, "3");
	put_node(&f->graph, 1, "Add", "", "a,c", "b", NULL);
	put_node(&f->graph, 1, "Relu", "", "b", "c", NULL);
	put_value(&f->graph, OUT, "c", FLOAT, NULL);
	refuse(f, TW_ERR_MODEL, "cycle");
}

static void test_refuses_duplicate(void **state)
{
	struct fixture *f = *state;
	put_value(&f->graph, IN, "a", FLOAT, "3");
	put_node(&f->graph, 1, "Relu", "", "a", "b", NULL);
	put_node(&f->graph, 1, "Exp", "", "a", "b", NULL);
	put_value(&f->graph, OUT, "b", FLOAT, NULL);
	refuse(f, TW_ERR_MODEL, "'b'");
}

static void test_refuses_missing_input(void **state)
{
	struct fixture *f = *state;
	put_value(&f->graph, IN, "a", FLOAT, "3");
	put_node(&f->graph, 1, "Add", "", "a,ghost", "b", NULL);
	put_value(&f->graph, OUT, "b", FLOAT, NULL);
	refuse(f, TW_ERR_MODEL, "'ghost'");
}

static void test_gathers_unsupported(void **state)
{
	struct fixture *f = *state;
	struct tw_buf attrs;
	buf_init(&attrs, f->arena);
	put_attr_int(&attrs, "spice", 7);
	put_value(&f->graph, IN, "a", FLOAT, "3");
	put_node(&f->graph, 1, "Frobnicate", "", "a", "b", NULL);
	put_node(&f->graph, 1, "Relu", "", "b", "c", &attrs);
	put_node(&f->graph, 1, "Gelu", "", "c", "d", NULL); /* from opset 20 on */
	put_node(&f->graph, 1, "Frobnicate", "", "d", "e", NULL);
	put_value(&f->graph, OUT, "e", FLOAT, NULL);
	struct tw_error e = {0};
	struct job j = {.arena = f->arena};
	put_model(&f->model, &f->graph, 13, NULL);
	assert_false(try_import(&j, f->model.at, f->model.n, &e));
	assert_int_equal(e.code, TW_ERR_UNSUPPORTED);
	assert_non_null(strstr(e.text, "3 things"));
	assert_non_null(strstr(e.text, "Frobnicate (ai.onnx, opset 13): operator is not supported: 'n_b', 'n_e'"));
	assert_non_null(strstr(e.text, "attribute 'spice' is not supported: 'n_c'"));
	assert_non_null(strstr(e.text, "Gelu (ai.onnx, opset 13): operator is supported from opset 20 on: 'n_d'"));
}

static void put_function(struct fixture *f, const char *name, const char *calls)
{
	struct tw_buf fn, import, attrs;
	buf_init(&fn, f->arena);
	buf_init(&import, f->arena);
	buf_init(&attrs, f->arena);
	put_text(&fn, 1, name);
	put_text(&fn, 4, "x");
	put_text(&fn, 5, "y");
	put_text(&fn, 6, "slope");
	put_attr_ref(&attrs, "alpha", "slope", 1);
	if (calls) {
		put_node(&fn, 7, calls, "local", "x", "t", NULL);
		put_node(&fn, 7, calls, "local", "t", "y", NULL);
	} else {
		put_node(&fn, 7, "LeakyRelu", "", "x", "t", &attrs);
		put_node(&fn, 7, "Neg", "", "t", "y", NULL);
	}
	put_text(&import, 1, "");
	put_int(&import, 2, 13);
	put_message(&fn, 9, &import);
	put_text(&fn, 10, "local");
	put_message(&f->functions, 25, &fn);
}

static void test_functions(void **state)
{
	struct fixture *f = *state;
	struct tw_buf attrs;
	buf_init(&attrs, f->arena);
	put_attr_float(&attrs, "slope", 0.5f);
	put_value(&f->graph, IN, "a", FLOAT, "2");
	put_function(f, "flip", NULL);
	put_node(&f->graph, 1, "flip", "local", "a", "b", &attrs);
	put_node(&f->graph, 1, "flip", "local", "b", "c", NULL); /* no slope: LeakyRelu's own 0.01 */
	put_value(&f->graph, OUT, "c", FLOAT, NULL);
	struct job j = {0};
	struct tw_graph *g = accept(f, &j);
	assert_int_equal(g->nodes.n, 4);
	float data[] = {-8, 4};
	const struct tw_value in = {.data = data, .rank = 1, .dims = {2}, .elements = 2};
	const struct twir_binding none = {0};
	const struct tw_value *all = tw_graph_evaluate(g, f->arena, &none, &in);
	const float *c = all[g->outputs.at[0]].data;
	assert_true(c[0] == -4 && c[1] == 4 * 0.01f);
}

static void test_recursive_function(void **state)
{
	struct fixture *f = *state;
	put_function(f, "loop", "loop");
	put_value(&f->graph, IN, "a", FLOAT, "2");
	put_node(&f->graph, 1, "loop", "local", "a", "b", NULL);
	put_value(&f->graph, OUT, "b", FLOAT, NULL);
	refuse(f, TW_ERR_MODEL, "'loop'");
}

/* 25 functions that each call the one before twice would be 2^25 nodes. */
static void test_exploding_functions(void **state)
{
	struct fixture *f = *state;
	put_function(f, "f0", NULL);
	for (int i = 1; i <= 25; i++)
		put_function(f, arena_printf(f->arena, "f%d", i), arena_printf(f->arena, "f%d", i - 1));
	put_value(&f->graph, IN, "a", FLOAT, "2");
	put_node(&f->graph, 1, "f25", "local", "a", "b", NULL);
	put_value(&f->graph, OUT, "b", FLOAT, NULL);
	refuse(f, TW_ERR_MODEL, "expand");
}

static void test_shape_arithmetic(void **state)
{
	struct fixture *f = *state;
	const int64_t one[] = {1}, zero = 0, rest = -1;
	put_value(&f->graph, IN, "a", FLOAT, "N,3,H");
	put_initializer(&f->graph, "zero", 0, NULL, NULL, &zero, 1);
	put_initializer(&f->graph, "rest", 1, one, NULL, &rest, 1);
	put_initializer(&f->graph, "axis", 1, one, NULL, &zero, 1);
	struct tw_buf axis;
	buf_init(&axis, f->arena);
	put_attr_int(&axis, "axis", 0);
	put_node(&f->graph, 1, "Shape", "", "a", "s", NULL);
	put_node(&f->graph, 1, "Gather", "", "s,zero", "n", &axis);
	put_node(&f->graph, 1, "Unsqueeze", "", "n,axis", "n1", NULL);
	put_node(&f->graph, 1, "Concat", "", "n1,rest", "to", &axis);
	put_node(&f->graph, 1, "Reshape", "", "a,to", "b", NULL);
	put_value(&f->graph, OUT, "b", FLOAT, NULL);
	struct job j = {0};
	struct tw_graph *g = accept(f, &j);
	assert_string_equal(shape_of(g, "b"), "f32[N, H * 3]");
	assert_int_equal(g->requires.n, 0);
}

/* ---- damage */

/* A model with most kinds of fields: initialisers, attributes of several kinds, a function, symbols. */
static void rich_model(struct fixture *f)
{
	const int64_t dims[] = {2, 3, 1, 1}, one[] = {1}, shape[] = {0, -1};
	const float w[] = {1, 2, 3, 4, 5, 6};
	struct tw_buf attrs, axis;
	buf_init(&attrs, f->arena);
	buf_init(&axis, f->arena);
	put_attr_float(&attrs, "slope", 0.5f);
	put_attr_int(&axis, "axis", 1);
	const int64_t two[] = {2};
	put_function(f, "flip", NULL);
	put_value(&f->graph, IN, "a", FLOAT, "N,3,4,4");
	put_initializer(&f->graph, "w", 4, dims, w, NULL, 6);
	put_initializer(&f->graph, "shape", 1, two, NULL, shape, 2);
	put_node(&f->graph, 1, "Conv", "", "a,w", "b", NULL);
	put_node(&f->graph, 1, "flip", "local", "b", "c", &attrs);
	put_node(&f->graph, 1, "Concat", "", "c,b", "d", &axis);
	put_node(&f->graph, 1, "Reshape", "", "d,shape", "e", NULL);
	put_node(&f->graph, 1, "Softmax", "", "e", "y", &axis);
	put_value(&f->graph, OUT, "y", FLOAT, "N,64");
	(void)one;
	put_model(&f->model, &f->graph, 13, &f->functions);
}

struct damage {
	int accepted, refused, internal;
	size_t most;
	double slowest;
	char text[256];
};

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void try_damaged(struct damage *d, const char *bytes, size_t size)
{
	struct job j = {.arena = arena_new()};
	struct tw_error e = {0};
	const double start = now();
	char *exact = malloc(size + (size == 0)); /* so that a sanitizer sees a read beyond the end */
	memcpy(exact, bytes, size);
	if (try_import(&j, exact, size, &e)) {
		d->accepted++;
	} else {
		d->refused++;
		if (e.code == TW_ERR_INTERNAL || e.code == TW_ERR_MEMORY || !*e.text) {
			d->internal++;
			snprintf(d->text, sizeof d->text, "%.250s", e.text);
		}
	}
	const double took = now() - start;
	d->slowest = took > d->slowest ? took : d->slowest;
	d->most = arena_bytes(j.arena) > d->most ? arena_bytes(j.arena) : d->most;
	free(exact);
	arena_free(j.arena);
}

static void check_damage(const struct damage *d)
{
	if (d->internal)
		fail_msg("%d internal errors, such as: %s", d->internal, d->text);
	assert_true(d->refused > 0);
	assert_true(d->most < 16u << 20);
	assert_true(d->slowest < 5);
}

static void test_truncation(void **state)
{
	struct fixture *f = *state;
	struct damage d = {0};
	rich_model(f);
	for (size_t n = 0; n <= f->model.n; n++)
		try_damaged(&d, f->model.at, n);
	assert_true(d.accepted >= 1); /* the whole file */
	check_damage(&d);
}

static uint64_t next_random(uint64_t *s)
{
	*s ^= *s << 13;
	*s ^= *s >> 7;
	*s ^= *s << 17;
	return *s;
}

static void test_bit_flips(void **state)
{
	struct fixture *f = *state;
	struct damage d = {0};
	const char *more = getenv("TW_FUZZ_ROUNDS");
	const int rounds = more ? atoi(more) : 50000;
	uint64_t seed = 88172645463325252ull;
	rich_model(f);
	char *copy = malloc(f->model.n);
	for (int i = 0; i < rounds; i++) {
		memcpy(copy, f->model.at, f->model.n);
		const int flips = 1 + (int)(next_random(&seed) % 3);
		for (int k = 0; k < flips; k++)
			copy[next_random(&seed) % f->model.n] ^= (char)(1 << next_random(&seed) % 8);
		try_damaged(&d, copy, f->model.n);
	}
	free(copy);
	check_damage(&d);
}

/* A tensor file: the shape must fit the data, typed data of every width is read. */
static void read_tensor(void *arg)
{
	struct job *j = arg;
	struct tw_onnx_tensor t;
	tw_onnx_tensor_read(j->arena, "t.pb", j->src.bytes, j->src.size, &t);
	assert_int_equal(t.type, TWIR_I16);
	assert_int_equal(t.rank, 1);
	assert_int_equal(t.bytes, 6);
	int16_t v[3];
	memcpy(v, t.data, sizeof v);
	assert_true(v[0] == 1 && v[1] == -2 && v[2] == 32767);
}

static void test_tensor_file(void **state)
{
	struct fixture *f = *state;
	struct tw_buf t;
	struct tw_error e = {0};
	buf_init(&t, f->arena);
	put_int(&t, 1, 3);
	put_int(&t, 2, 5);
	put_int(&t, 5, 1);
	put_int(&t, 5, -2);
	put_int(&t, 5, 32767);
	struct job j = {.arena = f->arena, .src = {.bytes = t.at, .size = t.n}};
	assert_true(tw_try(&e, read_tensor, &j));
	put_int(&t, 5, 4);
	j.src.bytes = t.at;
	j.src.size = t.n;
	assert_false(tw_try(&e, read_tensor, &j));
	assert_int_equal(e.code, TW_ERR_MODEL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_symbols),	      TEST(test_sizes_beyond),		TEST(test_sizes_within),
		TEST(test_fixed_symbols),     TEST(test_sorts_nodes),		TEST(test_refuses_cycle),
		TEST(test_refuses_duplicate), TEST(test_refuses_missing_input), TEST(test_gathers_unsupported),
		TEST(test_functions),	      TEST(test_recursive_function),	TEST(test_exploding_functions),
		TEST(test_shape_arithmetic),  TEST(test_tensor_file),		TEST(test_truncation),
		TEST(test_bit_flips),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
