/* Programs built by calls: texts that parse, run, and serve as operators of a model; wrong calls. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tilewright.h"

typedef tilewright_value V;

static void check(tilewright_status s)
{
	if (s != TILEWRIGHT_OK)
		fail_msg("%s", tilewright_last_error());
}

static V op2(tilewright_builder *b, const char *op, V x, V y)
{
	const V both[] = {x, y};
	return tilewright_build_op(b, op, 2, both);
}

static V integer(tilewright_builder *b, int64_t x)
{
	return tilewright_build_integer(b, x);
}

/* C = A * B, a row for each core item, a column for each lane. */
static void build_matmul(tilewright_builder *b)
{
	static const char *const levels[] = {"core", "lane"}, *const row[] = {"i"}, *const column[] = {"j"};
	const V m = tilewright_build_symbol(b, "M"), n = tilewright_build_symbol(b, "N"),
		k = tilewright_build_symbol(b, "K");
	const V mk[] = {m, k}, kn[] = {k, n}, mn[] = {m, n}, workers[] = {m, integer(b, 8)}, lanes = integer(b, 8);
	const V A = tilewright_build_parameter(b, 0, "A", TILEWRIGHT_F32, 2, mk);
	const V B = tilewright_build_parameter(b, 0, "B", TILEWRIGHT_F32, 2, kn);
	const V C = tilewright_build_parameter(b, 1, "C", TILEWRIGHT_F32, 2, mn);
	const V chunks = op2(b, "ceil_div", n, lanes);
	V i, j;
	tilewright_begin_program(b, "product", 2, levels, workers);
	tilewright_begin_map(b, 1, row, tilewright_build_spatial(b, 1, &m), 1, levels, NULL, &i);
	tilewright_begin_map(b, 1, column,
			     tilewright_build_compose(b, tilewright_build_repeat(b, 1, &chunks),
						      tilewright_build_spatial(b, 1, &lanes)),
			     1, levels + 1, &n, &j);
	const V acc = tilewright_build_local(b, "register", "acc", TILEWRIGHT_F32, 0, NULL, 0);
	tilewright_build_store(b, acc, 0, NULL, tilewright_build_number(b, TILEWRIGHT_F32, 0));
	const V x = tilewright_begin_for(b, "k", k), ik[] = {i, x}, kj[] = {x, j}, ij[] = {i, j};
	const V terms[] = {tilewright_build_load(b, A, 2, ik), tilewright_build_load(b, B, 2, kj),
			   tilewright_build_load(b, acc, 0, NULL)};
	tilewright_build_store(b, acc, 0, NULL, tilewright_build_op(b, "fma", 3, terms));
	tilewright_end(b);
	tilewright_build_store(b, C, 2, ij, tilewright_build_load(b, acc, 0, NULL));
	tilewright_end(b);
	tilewright_end(b);
	tilewright_end(b);
}

static void a_program(void **state)
{
	(void)state;
	tilewright_builder *b = tilewright_create_builder();
	build_matmul(b);
	const char *text = tilewright_build_text(b);
	if (!text)
		fail_msg("%s", tilewright_last_error());
	tilewright_program *p;
	check(tilewright_open_program("built", text, NULL, &p));
	check(tilewright_set_size(p, "M", 3));
	check(tilewright_set_size(p, "N", 10));
	check(tilewright_set_size(p, "K", 2));
	float a[6] = {1, 2, 3, 4, 5, 6}, w[20], c[30];
	for (int i = 0; i < 20; i++)
		w[i] = (float)i;
	void *const data[] = {a, w, c};
	check(tilewright_run_program(p, TILEWRIGHT_INTERPRETER, 3, data, 1, NULL));
	for (int i = 0; i < 3; i++)
		for (int j = 0; j < 10; j++)
			assert_true(c[i * 10 + j] == a[2 * i] * w[j] + a[2 * i + 1] * w[10 + j]);
	tilewright_free_program(p);
	tilewright_free_builder(b);
}

/* The definitions of Snake, its factor an attribute. */
static void build_snake(tilewright_builder *b)
{
	const V m = tilewright_build_symbol(b, "M"), n = tilewright_build_symbol(b, "N"), mn[] = {m, n};
	const V alpha = tilewright_build_tensor(b, "alpha", TILEWRIGHT_F32, 0, NULL);
	const V x = tilewright_build_tensor(b, "X", TILEWRIGHT_F32, 2, mn);
	const V ij[] = {tilewright_build_axis(b, "i"), tilewright_build_axis(b, "j")};
	const V e = tilewright_build_load(b, x, 2, ij), a = tilewright_build_load(b, alpha, 0, NULL);
	const V ax = op2(b, "*", a, e);
	const V wave =
		tilewright_build_define(b, "Wave", TILEWRIGHT_F32, 2, mn, ij, tilewright_build_op(b, "sin", 1, &ax));
	const V w = tilewright_build_load(b, wave, 2, ij);
	tilewright_build_define(b, "Y", TILEWRIGHT_F32, 2, mn, ij, op2(b, "+", e, op2(b, "/", op2(b, "*", w, w), a)));
}

static void operators(void **state)
{
	(void)state;
	tilewright_builder *product = tilewright_create_builder(), *snake = tilewright_create_builder();
	tilewright_options *o = tilewright_create_options();
	tilewright_model *model;
	tilewright_context *context;
	tilewright_tensor y;
	float x[16], w[128];
	const int64_t x_dims[] = {2, 8}, w_dims[] = {8, 16};
	build_matmul(product);
	build_snake(snake);
	check(tilewright_use_cache(o, 0));
	check(tilewright_add_operator(o, "my", "MyMatMul", NULL, tilewright_build_text(product)));
	check(tilewright_add_operator(o, NULL, "Snake", "snake", tilewright_build_text(snake)));
	check(tilewright_compile_file(TW_SOURCE_DIR "/examples/custom_op/model.onnx", o, &model));
	assert_string_equal(tilewright_get_fact(model, "kernels"), "1");
	check(tilewright_create_context(model, 1, &context));
	for (int i = 0; i < 128; i++)
		w[i] = (float)(i % 5) / 4 - 0.5f;
	for (int i = 0; i < 16; i++)
		x[i] = (float)(i % 7) - 3;
	check(tilewright_set_input(context, 0, TILEWRIGHT_F32, 2, x_dims, x));
	check(tilewright_set_input(context, 1, TILEWRIGHT_F32, 2, w_dims, w));
	check(tilewright_run(context));
	check(tilewright_get_output(context, 0, &y));
	for (int i = 0; i < 2; i++)
		for (int j = 0; j < 16; j++) {
			float m = 0;
			for (int k = 0; k < 8; k++)
				m += fmaxf(x[8 * i + k], 0) * w[16 * k + j];
			const float want = m + sinf(m / 2) * sinf(m / 2) * 2 + 1;
			assert_true(fabsf(((const float *)y.data)[16 * i + j] - want) < 1e-5f);
		}
	tilewright_free_context(context);
	tilewright_free_model(model);
	tilewright_free_options(o);
	tilewright_free_builder(product);
	tilewright_free_builder(snake);
}

/* More of the language: branches, folds, numbers of all types. */
static void all_kinds(void **state)
{
	(void)state;
	static const tilewright_type types[] = {TILEWRIGHT_F32, TILEWRIGHT_F64,	 TILEWRIGHT_I32,
						TILEWRIGHT_U8,	TILEWRIGHT_BOOL, TILEWRIGHT_F16};
	for (size_t t = 0; t < sizeof(types) / sizeof(types[0]); t++) {
		static const char *const block[] = {"block", "thread"};
		tilewright_builder *b = tilewright_create_builder();
		const V n = integer(b, 4), two = integer(b, 2), workers[] = {two, n};
		const V out = tilewright_build_parameter(b, 1, "Y", types[t], 1, &n);
		tilewright_begin_program(b, "kinds", 2, block, workers);
		const V s = tilewright_build_local(b, "shared", "s", types[t], 1, &n, 0);
		static const char *const names[] = {"i"};
		V i;
		tilewright_begin_map(b, 1, names, tilewright_build_spatial(b, 1, &n), 1, block + 1, NULL, &i);
		tilewright_begin_if(b, op2(b, "<", i, two));
		tilewright_build_store(b, s, 1, &i, tilewright_build_number(b, types[t], 1));
		tilewright_build_else(b);
		tilewright_build_store(b, s, 1, &i, tilewright_build_number(b, types[t], 0));
		tilewright_end(b);
		tilewright_end(b);
		tilewright_build_barrier(b, "block");
		const V own = tilewright_build_let(b, "own", op2(b, "-", integer(b, 1), two));
		tilewright_begin_map(b, 1, names, tilewright_build_spatial(b, 1, &two), 1, block, NULL, &i);
		V j;
		tilewright_begin_map(b, 1, names, tilewright_build_spatial(b, 1, &two), 1, block + 1, NULL, &j);
		const V at = op2(b, "+", op2(b, "*", i, two), j), back = op2(b, "-", op2(b, "-", two, own), at);
		tilewright_build_store(b, out, 1, &at, tilewright_build_load(b, s, 1, &back));
		tilewright_end(b);
		tilewright_end(b);
		tilewright_end(b);
		tilewright_program *p;
		const char *text = tilewright_build_text(b);
		if (!text)
			fail_msg("%s", tilewright_last_error());
		check(tilewright_open_program("kinds", text, NULL, &p));
		uint8_t y[32], want[32] = {0};
		void *const data[] = {y};
		check(tilewright_run_program(p, TILEWRIGHT_INTERPRETER, 1, data, 1, NULL));
		const int size = tilewright_type_bytes(types[t]);
		assert_memory_equal(y, want, 2 * size); /* zeros, then ones */
		assert_memory_not_equal(y + 2 * size, want, size);
		assert_memory_equal(y + 2 * size, y + 3 * size, size);
		tilewright_free_program(p);
		tilewright_free_builder(b);
	}
}

static void wrong_calls(void **state)
{
	(void)state;
	for (int wrong = 0; wrong < 10; wrong++) {
		tilewright_builder *b = tilewright_create_builder();
		const V n = tilewright_build_symbol(b, "N"), x = tilewright_build_tensor(b, "X", TILEWRIGHT_F32, 1, &n);
		V e = tilewright_build_load(b, x, 1, &n);
		if (wrong == 0)
			tilewright_end(b);
		else if (wrong == 1)
			(void)tilewright_build_symbol(b, "two words");
		else if (wrong == 2)
			(void)tilewright_build_op(b, "+ 1", 1, &e);
		else if (wrong == 3)
			(void)op2(b, "+", e, 99);
		else if (wrong == 4)
			tilewright_begin_program(b, "p", 0, NULL, NULL);
		else if (wrong == 5)
			tilewright_build_store(b, x, 1, &n, e);
		else if (wrong == 6)
			(void)tilewright_build_tensor(b, "Z", (tilewright_type)77, 1, &n);
		else if (wrong == 7)
			(void)tilewright_build_parameter(b, 0, "Z", TILEWRIGHT_F32, 1, &n);
		else if (wrong == 8)
			(void)tilewright_build_repeat(b, 9, &n);
		else
			for (int i = 0; i < 40; i++)
				e = op2(b, "+", e, e);
		assert_null(tilewright_build_text(b));
		assert_non_null(strstr(tilewright_last_error(), "building a program: "));
		tilewright_free_builder(b);
	}
	assert_null(tilewright_build_text(NULL));
	tilewright_free_builder(NULL);
	assert_int_equal(tilewright_build_symbol(NULL, "N"), 0);
	tilewright_end(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(a_program), cmocka_unit_test(operators),
					   cmocka_unit_test(all_kinds), cmocka_unit_test(wrong_calls)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
