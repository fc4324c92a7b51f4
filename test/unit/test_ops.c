/* rooms: base tmap ir graph ops onnx */
/* The operators as a table, and the helpers that definitions are written with: index maps between shapes,
   broadcasting, values of shape arithmetic. */
#include "onnx_writer.h"
#include "onnx/onnx.h"
#include "ops/evaluate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

enum { IN = 11, OUT = 12, FLOAT = 1, NEWEST = 28 };

static const char *domain_of(const struct tw_op *op)
{
	return op->domain ? op->domain : "";
}

static void test_rows(void **state)
{
	(void)state;
	for (int i = 0; i < tw_op_count(); i++) {
		const struct tw_op *op = tw_op_at(i);
		const bool host = (op->flags & TW_OP_HOST) != 0;
		if (!op->infer || host == (op->compute != NULL))
			fail_msg("%s: infer and compute do not fit its flags", op->name);
		if (op->since < 1 || (op->until && op->until < op->since) || op->in.min < 0 ||
		    (op->in.max >= 0 && op->in.max < op->in.min))
			fail_msg("%s: versions or counts are wrong", op->name);
		for (const struct tw_attr_spec *a = op->attrs; a && a->name; a++)
			for (const struct tw_attr_spec *b = op->attrs; b != a; b++)
				if (!strcmp(a->name, b->name))
					fail_msg("%s: attribute %s is listed twice", op->name, a->name);
	}
}

/* No two rows serve one version, and none is lost between two rows. */
static void test_versions(void **state)
{
	(void)state;
	for (int i = 0; i < tw_op_count(); i++) {
		const struct tw_op *op = tw_op_at(i);
		bool started = false;
		for (int opset = 1; opset <= NEWEST; opset++) {
			int rows = 0;
			for (int k = 0; k < tw_op_count(); k++) {
				const struct tw_op *other = tw_op_at(k);
				rows += !strcmp(op->name, other->name) && !strcmp(domain_of(op), domain_of(other)) &&
					other->since <= opset && (!other->until || opset <= other->until);
			}
			if (rows > 1)
				fail_msg("%s: %d rows serve opset %d", op->name, rows, opset);
			started = started || rows == 1;
			if (started && rows == 0 && strcmp(op->name, "Upsample") && strcmp(op->name, "Scatter"))
				fail_msg("%s: no row serves opset %d", op->name, opset);
			assert_true((tw_op_find(domain_of(op), op->name, opset) != NULL) == (rows == 1));
		}
	}
}

/* ---- index maps: tw_reindex against counting */

struct scratch {
	struct tw_arena *arena;
	struct twir_module *m;
	struct tw_graph *g;
	struct tw_node node;
	struct tw_opctx x;
};

static int setup(void **state)
{
	struct scratch *s = calloc(1, sizeof *s);
	s->arena = arena_new();
	s->m = twir_module_new(s->arena);
	s->g = tw_graph_new(s->arena, s->m);
	s->node = (struct tw_node){.name = "n", .op_type = "Test", .opset = 17};
	s->x = (struct tw_opctx){.g = s->g, .m = s->m, .node = &s->node, .arena = s->arena};
	*state = s;
	return 0;
}

static int teardown(void **state)
{
	struct scratch *s = *state;
	arena_free(s->arena);
	free(s);
	return 0;
}

/* Shapes of the same elements; a letter is a symbol, whose value is 2 for a, 3 for b .. */
static const struct {
	const char *to, *from;
} pairs[] = {
	{"2 3 4", "24"},      {"24", "2 3 4"},	  {"a b 4", "a 12"}, /* only when b is 3, which it is */
	{"a 3 b", "a 3 b"},   {"a*b", "a b"},	  {"a b", "a*b"},     {"a b c", "a b*c"},
	{"a*b c", "a b c"},   {"1 a 1 b", "a b"}, {"a b", "a 1 b 1"}, {"a 2 3 b", "a 6 b"},
	{"a 6 b", "a 3 2 b"}, {"", "1 1"},	  {"1 1 1", ""},      {"a*b*c", "c*a*b"},
};

static int parse(struct scratch *s, const char *text, const struct twir_expr **shape, int64_t *value)
{
	int n = 0;
	while (*text) {
		const struct twir_expr *e = twir_index(s->m, 1);
		value[n] = 1;
		for (; *text && *text != ' '; text++) {
			if (*text == '*')
				continue;
			if (*text >= 'a') {
				const char name[] = {*text, 0};
				e = twir_mul(s->m, e, twir_var(s->m, twir_symbol(s->m, name)));
				value[n] *= *text - 'a' + 2;
			} else {
				char *end;
				const long v = strtol(text, &end, 10);
				e = twir_mul(s->m, e, twir_index(s->m, v));
				value[n] *= v;
				text = end - 1;
			}
		}
		shape[n++] = e;
		text += *text == ' ';
	}
	return n;
}

static void test_reindex(void **state)
{
	struct scratch *s = *state;
	for (int p = 0; p < TW_COUNT(pairs); p++) {
		const struct twir_expr *to[TWIR_MAX_RANK], *from[TWIR_MAX_RANK], *at[TWIR_MAX_RANK],
			*out[TWIR_MAX_RANK];
		int64_t nto[TWIR_MAX_RANK], nfrom[TWIR_MAX_RANK], total = 1;
		const int rto = parse(s, pairs[p].to, to, nto), rfrom = parse(s, pairs[p].from, from, nfrom);
		struct twir_var *bound[TWIR_MAX_RANK + 3];
		int64_t values[TWIR_MAX_RANK + 3];
		int n = 0;
		for (char c = 'a'; c <= 'c'; c++) {
			const char name[] = {c, 0};
			bound[n] = twir_symbol(s->m, name);
			values[n++] = c - 'a' + 2;
		}
		const int first = n;
		for (int d = 0; d < rto; d++) {
			bound[n] = tw_fold_axis(&s->x, "i", to[d]);
			at[d] = twir_var(s->m, bound[n++]);
			total *= nto[d];
		}
		tw_reindex(&s->x, rto, to, at, rfrom, from, out);
		for (int64_t i = 0; i < total; i++) {
			int64_t rest = i, flat = 0;
			for (int d = rto - 1; d >= 0; d--) {
				values[first + d] = rest % nto[d];
				rest /= nto[d];
			}
			const struct twir_binding b = {.n = n, .symbols = bound, .values = values};
			for (int d = 0; d < rfrom; d++) {
				const int64_t v = twir_eval_index(out[d], &b);
				assert_true(v >= 0 && v < nfrom[d]);
				flat = flat * nfrom[d] + v;
			}
			if (flat != i)
				fail_msg("[%s] of [%s]: element %lld is read at %lld", pairs[p].to, pairs[p].from,
					 (long long)i, (long long)flat);
		}
	}
}

/* Axes that both shapes have must stay apart: no division by a symbol. */
static void test_reindex_stays_simple(void **state)
{
	struct scratch *s = *state;
	const struct twir_expr *to[TWIR_MAX_RANK], *from[TWIR_MAX_RANK], *at[TWIR_MAX_RANK], *out[TWIR_MAX_RANK];
	int64_t values[TWIR_MAX_RANK];
	const int rto = parse(s, "a 6 b", to, values), rfrom = parse(s, "a 2 3 b", from, values);
	for (int d = 0; d < rto; d++)
		at[d] = twir_var(s->m, tw_fold_axis(&s->x, "i", to[d]));
	tw_reindex(&s->x, rto, to, at, rfrom, from, out);
	assert_ptr_equal(out[0], at[0]);
	assert_ptr_equal(out[3], at[2]);
	assert_false(twir_uses_var(out[1], twir_symbol(s->m, "b")));
}

/* ---- inference of shapes with symbols, through models */

struct job {
	struct tw_arena *arena;
	struct tw_buf model;
	struct tw_graph *g;
};

static void import(void *arg)
{
	struct job *j = arg;
	const struct tw_onnx_source src = {.bytes = j->model.at, .size = j->model.n, .name = "test"};
	j->g = tw_onnx_import(j->arena, twir_module_new(j->arena), &src);
	tw_infer(j->g);
}

/* One node on inputs a, b .. of the given sizes ("N,3;1,M"), result y. */
static const char *infer_one(struct scratch *s, const char *op, const char *sizes, const struct tw_buf *attrs,
			     struct tw_graph **g)
{
	struct tw_buf graph;
	struct job j = {.arena = s->arena};
	buf_init(&graph, s->arena);
	buf_init(&j.model, s->arena);
	char names[64] = "";
	for (char name = 'a'; *sizes; name++) {
		const size_t n = strcspn(sizes, ";");
		const char text[] = {name, 0};
		put_value(&graph, IN, text, FLOAT, arena_strndup(s->arena, sizes, n));
		snprintf(names + strlen(names), sizeof names - strlen(names), "%s%c", *names ? "," : "", name);
		sizes += n + (sizes[n] == ';');
	}
	put_node(&graph, 1, op, "", names, "y", attrs);
	put_value(&graph, OUT, "y", FLOAT, NULL);
	put_model(&j.model, &graph, 18, NULL);
	struct tw_error e;
	if (!tw_try(&e, import, &j))
		return arena_strdup(s->arena, e.text);
	if (g)
		*g = j.g;
	return tw_graph_shape_text(s->arena, j.g, j.g->outputs.at[0]);
}

static void test_broadcast(void **state)
{
	struct scratch *s = *state;
	struct tw_graph *g;
	assert_string_equal(infer_one(s, "Add", "N,3;3", NULL, &g), "f32[N, 3]");
	assert_int_equal(g->requires.n, 0);
	assert_string_equal(infer_one(s, "Add", "N,1;1,M", NULL, &g), "f32[N, M]");
	assert_int_equal(g->requires.n, 0);
	assert_string_equal(infer_one(s, "Add", "N;M", NULL, &g), "f32[N]");
	assert_int_equal(g->requires.n, 1);
	assert_string_equal(infer_one(s, "Add", "N;5", NULL, &g), "f32[5]");
	assert_int_equal(g->requires.n, 1);
	assert_non_null(strstr(infer_one(s, "Add", "4;5", NULL, NULL), "do not match"));
	assert_string_equal(infer_one(s, "Add", "0;1", NULL, NULL), "f32[0]");
}

static void test_matmul_shapes(void **state)
{
	struct scratch *s = *state;
	assert_string_equal(infer_one(s, "MatMul", "N,M,K;K,5", NULL, NULL), "f32[N, M, 5]");
	assert_string_equal(infer_one(s, "MatMul", "K;K,5", NULL, NULL), "f32[5]");
	assert_string_equal(infer_one(s, "MatMul", "7,K;K", NULL, NULL), "f32[7]");
	assert_string_equal(infer_one(s, "MatMul", "2,1,3,K;B,K,4", NULL, NULL), "f32[2, B, 3, 4]");
	assert_non_null(strstr(infer_one(s, "MatMul", "2,3;4,5", NULL, NULL), "do not match"));
}

static void test_conv_shapes(void **state)
{
	struct scratch *s = *state;
	assert_string_equal(infer_one(s, "Conv", "N,3,8,8;6,3,3,3", NULL, NULL), "f32[N, 6, 6, 6]");
	assert_non_null(strstr(infer_one(s, "Conv", "1,4,8,8;6,3,3,3", NULL, NULL), "do not match"));
	assert_non_null(strstr(infer_one(s, "Conv", "1,3,1,1;6,3,3,3", NULL, NULL), "would be"));
}

/* As detection heads make their grids: a size, cast to float, is the limit of a Range. */
static struct job float_range(struct scratch *s, const char *dims)
{
	struct tw_buf graph, attrs;
	struct job j = {.arena = s->arena};
	const float start = 2, step = 3;
	struct tw_error e;
	buf_init(&graph, s->arena);
	buf_init(&attrs, s->arena);
	buf_init(&j.model, s->arena);
	put_value(&graph, IN, "a", FLOAT, dims);
	put_initializer(&graph, "start", 0, NULL, &start, NULL, 1);
	put_initializer(&graph, "step", 0, NULL, &step, NULL, 1);
	put_node(&graph, 1, "Size", "", "a", "size", NULL);
	put_attr_int(&attrs, "to", FLOAT);
	put_node(&graph, 1, "Cast", "", "size", "limit", &attrs);
	put_node(&graph, 1, "Range", "", "start,limit,step", "y", NULL);
	put_value(&graph, OUT, "y", FLOAT, NULL);
	put_model(&j.model, &graph, 18, NULL);
	if (!tw_try(&e, import, &j))
		fail_msg("%s", e.text);
	return j;
}

static void test_float_range(void **state)
{
	const struct job j = float_range(*state, "N,4"), fixed = float_range(*state, "3,4");
	const struct twir_expr *length = j.g->tensors.at[j.g->outputs.at[0]].shape[0];
	const int64_t sizes[][2] = {
		{0, 0}, {1, 1}, {2, 2}, {5, 6}, {100, 133}}; /* N, elements of 2, 5, 8 .. below 4 N */
	for (int i = 0; i < (int)TW_COUNT(sizes); i++) {
		const struct twir_binding b = {1, j.g->m->symbols.at, &sizes[i][0]};
		assert_int_equal(twir_eval_index(length, &b), sizes[i][1]);
	}
	int64_t n;
	assert_true(twir_const_int(fixed.g->tensors.at[fixed.g->outputs.at[0]].shape[0], &n));
	assert_int_equal(n, 4); /* 2, 5, 8, 11 */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_rows),      TEST(test_versions),	TEST(test_reindex),	TEST(test_reindex_stays_simple),
		TEST(test_broadcast), TEST(test_matmul_shapes), TEST(test_conv_shapes), TEST(test_float_range),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
