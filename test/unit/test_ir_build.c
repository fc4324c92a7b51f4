/* rooms: base ir */
/* Expressions: interning, light folding, typing, substitution with fresh binders, layouts; frames. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "ir/ir.h"

typedef const struct twir_expr *expr;

struct state {
	struct tw_arena *a;
	struct twir_module *m;
};

static int setup(void **state)
{
	struct state *s = test_calloc(1, sizeof(*s));
	s->a = arena_new();
	s->m = twir_module_new(s->a);
	*state = s;
	return 0;
}

static int teardown(void **state)
{
	struct state *s = *state;
	arena_free(s->a);
	test_free(s);
	return 0;
}

static expr symbol(struct twir_module *m, const char *name)
{
	return twir_var(m, twir_symbol(m, name));
}

static void interning(void **state)
{
	struct twir_module *m = ((struct state *)*state)->m;
	expr n = symbol(m, "N"), k = symbol(m, "K");
	assert_ptr_equal(n, symbol(m, "N"));
	assert_ptr_not_equal(n, k);
	assert_ptr_equal(twir_add(m, n, k), twir_add(m, n, k));
	assert_ptr_not_equal(twir_add(m, n, k), twir_add(m, k, n));
	assert_ptr_not_equal(twir_sub(m, n, k), twir_add(m, n, k));
	assert_ptr_not_equal(twir_int(m, TWIR_I32, 3), twir_int(m, TWIR_I64, 3));
	assert_ptr_not_equal(twir_float(m, TWIR_F32, 0.0), twir_float(m, TWIR_F32, -0.0));
	assert_ptr_not_equal(twir_float(m, TWIR_F32, 1.0), twir_float(m, TWIR_F64, 1.0));
	assert_ptr_equal(twir_float(m, TWIR_F32, (double)NAN), twir_float(m, TWIR_F32, -(double)NAN));
	assert_true(twir_float(m, TWIR_F32, 0.1)->u.f == (double)0.1f);
	/* many: the table grows */
	expr first[300];
	for (int i = 0; i < 300; i++)
		first[i] = twir_mul(m, n, twir_index(m, 1000 + i));
	for (int i = 0; i < 5000; i++)
		twir_index(m, 100000 + i);
	for (int i = 0; i < 300; i++)
		assert_ptr_equal(first[i], twir_mul(m, n, twir_index(m, 1000 + i)));
}

static int64_t value(expr e)
{
	int64_t v = -12345;
	assert_true(twir_const_int(e, &v));
	return v;
}

static void folding(void **state)
{
	struct twir_module *m = ((struct state *)*state)->m;
	expr n = symbol(m, "N"), zero = twir_index(m, 0), one = twir_index(m, 1);
	assert_ptr_equal(twir_add(m, n, zero), n);
	assert_ptr_equal(twir_add(m, zero, n), n);
	assert_ptr_equal(twir_sub(m, n, zero), n);
	assert_ptr_equal(twir_mul(m, n, one), n);
	assert_ptr_equal(twir_mul(m, n, zero), zero);
	assert_ptr_equal(twir_div(m, n, one), n);
	assert_int_equal(value(twir_mod(m, n, one)), 0);
	/* index floors, others truncate; nothing traps */
	assert_int_equal(value(twir_div(m, twir_index(m, -7), twir_index(m, 2))), -4);
	assert_int_equal(value(twir_mod(m, twir_index(m, -7), twir_index(m, 2))), 1);
	assert_int_equal(value(twir_div(m, twir_int(m, TWIR_I64, -7), twir_int(m, TWIR_I64, 2))), -3);
	assert_int_equal(value(twir_mod(m, twir_int(m, TWIR_I64, -7), twir_int(m, TWIR_I64, 2))), -1);
	assert_int_equal(value(twir_div(m, twir_index(m, 5), zero)), 0);
	assert_int_equal(value(twir_mod(m, twir_index(m, 5), zero)), 0);
	assert_int_equal(value(twir_div(m, twir_int(m, TWIR_I64, INT64_MIN), twir_int(m, TWIR_I64, -1))), INT64_MIN);
	assert_int_equal(value(twir_div(m, twir_int(m, TWIR_I8, -128), twir_int(m, TWIR_I8, -1))), -128);
	assert_int_equal(value(twir_add(m, twir_int(m, TWIR_I8, 127), twir_int(m, TWIR_I8, 1))), -128);
	assert_int_equal(value(twir_add(m, twir_int(m, TWIR_U8, 255), twir_int(m, TWIR_U8, 1))), 0);
	assert_int_equal(value(twir_binary(m, TWIR_Shr, twir_int(m, TWIR_I8, -2), twir_int(m, TWIR_I8, 1))), -1);
	assert_int_equal(value(twir_binary(m, TWIR_Shr, twir_int(m, TWIR_U64, -2), twir_int(m, TWIR_U64, 1))),
			 INT64_MAX);
	assert_int_equal(value(twir_binary(m, TWIR_Shl, twir_int(m, TWIR_I32, 1), twir_int(m, TWIR_I32, 33))), 2);
	assert_int_equal(value(twir_ceildiv(m, twir_index(m, 7), twir_index(m, 2))), 4);
	assert_int_equal(value(twir_ceildiv(m, twir_index(m, -7), twir_index(m, 2))), -3);
	assert_int_equal(value(twir_ceildiv(m, twir_int(m, TWIR_I32, -7), twir_int(m, TWIR_I32, 2))), -3);
	assert_int_equal(value(twir_ceildiv(m, twir_int(m, TWIR_I32, 7), twir_int(m, TWIR_I32, 2))), 4);
	assert_int_equal(value(twir_roundup(m, twir_index(m, 33), twir_index(m, 32))), 64);
	assert_int_equal(value(twir_lt(m, twir_int(m, TWIR_U64, -1), twir_int(m, TWIR_U64, 1))), 0);
	assert_int_equal(value(twir_le(m, n, n)), 1);
	assert_int_equal(value(twir_lt(m, n, n)), 0);
	assert_ptr_equal(twir_and(m, twir_bool(m, true), twir_lt(m, n, one)), twir_lt(m, n, one));
	assert_int_equal(value(twir_and(m, twir_bool(m, false), twir_lt(m, n, one))), 0);
	assert_int_equal(value(twir_or(m, twir_bool(m, true), twir_lt(m, n, one))), 1);
	assert_int_equal(value(twir_not(m, twir_bool(m, true))), 0);
	assert_ptr_equal(twir_cond(m, twir_bool(m, true), n, one), n);
	assert_int_equal(value(twir_cast(m, TWIR_I8, twir_index(m, 300))), 44);
	assert_int_equal(value(twir_cast(m, TWIR_I1, twir_index(m, 2))), 1);
	/* floats stay */
	struct twir_tensor *t = twir_tensor_new(m, "T", TWIR_F32, 1, &n, TWIR_IN);
	expr x = twir_load(m, t, 1, &zero), fz = twir_float(m, TWIR_F32, 0.0);
	assert_int_equal(twir_add(m, x, fz)->kind, TWIR_Add);
	assert_int_equal(twir_mul(m, x, fz)->kind, TWIR_Mul);
	assert_int_equal(twir_eq(m, x, x)->kind, TWIR_Eq);
	assert_int_equal(twir_add(m, fz, fz)->kind, TWIR_Add);
	assert_true(x->loads);
	assert_true(twir_add(m, x, fz)->loads);
	assert_false(fz->loads);
	/* a scalar beside a vector is splat */
	expr wide = twir_load_wide(m, t, 1, &zero, 8, NULL, NULL);
	expr sum = twir_add(m, wide, x);
	assert_int_equal(sum->type.lanes, 8);
	assert_int_equal(sum->arg[1]->kind, TWIR_Splat);
	assert_int_equal(twir_lt(m, wide, x)->type.scalar, TWIR_I1);
	assert_int_equal(twir_lt(m, wide, x)->type.lanes, 8);
}

static void neutral(void **state)
{
	struct twir_module *m = ((struct state *)*state)->m;
	assert_int_equal(value(twir_neutral(m, TWIR_Min, twir_scalar_type(TWIR_I8))), 127);
	assert_int_equal(value(twir_neutral(m, TWIR_Max, twir_scalar_type(TWIR_I8))), -128);
	assert_int_equal(value(twir_neutral(m, TWIR_Max, twir_scalar_type(TWIR_I64))), INT64_MIN);
	assert_int_equal(value(twir_neutral(m, TWIR_Min, twir_scalar_type(TWIR_U16))), 65535);
	assert_int_equal(value(twir_neutral(m, TWIR_Max, twir_scalar_type(TWIR_U64))), 0);
	assert_int_equal(value(twir_neutral(m, TWIR_And, twir_scalar_type(TWIR_I1))), 1);
	assert_int_equal(value(twir_neutral(m, TWIR_And, twir_scalar_type(TWIR_U8))), 255);
	assert_true(twir_neutral(m, TWIR_Min, twir_scalar_type(TWIR_F32))->u.f == (double)INFINITY);
	assert_true(twir_neutral(m, TWIR_MaxNum, twir_scalar_type(TWIR_F64))->u.f == -(double)INFINITY);
	assert_int_equal(twir_neutral(m, TWIR_Add, twir_vector_type(TWIR_F32, 8))->type.lanes, 8);
}

static void names(void **state)
{
	struct twir_module *m = ((struct state *)*state)->m;
	const struct twir_type t = twir_scalar_type(TWIR_INDEX);
	assert_string_equal(twir_var_new(m, TWIR_LOOP, t, "i")->name, "i");
	assert_string_equal(twir_var_new(m, TWIR_LOOP, t, "i")->name, "i_1");
	assert_string_equal(twir_var_new(m, TWIR_LOOP, t, "i")->name, "i_2");
	assert_string_equal(twir_var_new(m, TWIR_LOOP, t, "for")->name, "_for");
	assert_string_equal(twir_tensor_new(m, "onnx::Conv_123/a.b", TWIR_F32, 0, NULL, TWIR_IN)->name,
			    "onnx_Conv_123_a_b");
	assert_string_equal(twir_tensor_new(m, "12", TWIR_F32, 0, NULL, TWIR_IN)->name, "_12");
	assert_string_equal(twir_tensor_new(m, "", TWIR_F32, 0, NULL, TWIR_IN)->name, "v");
	struct twir_var *a = twir_symbol(m, "a.b"), *b = twir_symbol(m, "a_b");
	assert_ptr_not_equal(a, b);
	assert_ptr_equal(twir_symbol(m, "a.b"), a);
	assert_string_not_equal(a->name, b->name);
}

static void substitution(void **state)
{
	struct twir_module *m = ((struct state *)*state)->m;
	expr n = symbol(m, "N");
	struct twir_var *i = twir_var_new(m, TWIR_AXIS, n->type, "i"), *k = twir_var_new(m, TWIR_AXIS, n->type, "k");
	struct twir_tensor *t = twir_tensor_new(m, "X", TWIR_F32, 2, (expr[]){n, n}, TWIR_TENSOR);
	expr fold = twir_fold(m, TWIR_Add, 1, &k, &n, twir_load(m, t, 2, (expr[]){twir_var(m, i), twir_var(m, k)}));
	struct twir_subst s;
	twir_subst_init(&s, m);
	twir_subst_init(&s, m);
	twir_subst_set(&s, i, twir_index(m, 7));
	expr out = twir_subst_expr(&s, fold);
	assert_int_equal(out->kind, TWIR_Fold);
	assert_ptr_not_equal(out->u.axes[0], k); /* fresh */
	assert_ptr_equal(out->arg[0]->arg[1], twir_var(m, out->u.axes[0]));
	assert_int_equal(value(out->arg[0]->arg[0]), 7);
	assert_true(twir_uses_var(fold, i));
	assert_false(twir_uses_var(out, i));
	assert_true(twir_uses_tensor(out, t));
	/* a block: let v = i + 1; register r: f32[4]; r[0] = X[v, i]; */
	struct twir_var *v = twir_var_new(m, TWIR_BOUND, n->type, "v");
	struct twir_tensor *r = twir_tensor_new(m, "r", TWIR_F32, 1, (expr[]){twir_index(m, 4)}, TWIR_REGISTER);
	struct twir_stmt *block = NULL;
	twir_append(&block, twir_let(m, v, twir_add(m, twir_var(m, i), twir_index(m, 1))));
	struct twir_stmt *d = twir_stmt_new(m, TWIR_DECLARE);
	d->u.declare.tensor = r;
	twir_append(&block, d);
	expr zero = twir_index(m, 0);
	twir_append(&block,
		    twir_store(m, r, 1, &zero, twir_load(m, t, 2, (expr[]){twir_var(m, v), twir_var(m, i)}), NULL));
	struct twir_stmt *copy = twir_subst_block(&s, block);
	assert_int_equal(value(copy->u.let.value), 8);
	assert_ptr_not_equal(copy->u.let.var, v);
	struct twir_stmt *store = copy->next->next;
	assert_ptr_equal(store->u.store.tensor, copy->next->u.declare.tensor);
	assert_ptr_not_equal(store->u.store.tensor, r);
	assert_ptr_equal(store->u.store.value->arg[0], twir_var(m, copy->u.let.var));
	assert_int_equal(value(store->u.store.value->arg[1]), 7);
	assert_null(store->next);
}

static void layouts(void **state)
{
	struct twir_module *m = ((struct state *)*state)->m;
	/* [6, 64] in panels: row(1, 2) * row(6, 32) */
	struct twir_tensor *t =
		twir_tensor_new(m, "B", TWIR_F32, 2, (expr[]){twir_index(m, 6), twir_index(m, 64)}, TWIR_IN);
	assert_int_equal(value(twir_layout_offset(m, t, 2, (expr[]){twir_index(m, 3), twir_index(m, 40)})),
			 3 * 64 + 40);
	t->layout = twir_layout_row(m, 2, (expr[]){twir_index(m, 1), twir_index(m, 2)},
				    twir_layout_row(m, 2, (expr[]){twir_index(m, 6), twir_index(m, 32)}, NULL));
	bool seen[6 * 64] = {false};
	for (int i = 0; i < 6; i++) {
		for (int j = 0; j < 64; j++) {
			const int64_t at =
				value(twir_layout_offset(m, t, 2, (expr[]){twir_index(m, i), twir_index(m, j)}));
			assert_int_equal(at, j / 32 * 192 + i * 32 + j % 32);
			assert_false(seen[at]);
			seen[at] = true;
		}
	}
	assert_int_equal(value(twir_tensor_elements(m, t)), 6 * 64);
}

static const struct twir_expr *double_constants(struct twir_rewriter *r, const struct twir_expr *e)
{
	return e->kind == TWIR_Const && e->type.scalar == TWIR_F32 ? twir_float(r->m, TWIR_F32, 2 * e->u.f) : e;
}

static struct twir_stmt *drop_lets(struct twir_rewriter *r, const struct twir_stmt *s)
{
	return s->kind == TWIR_LET ? &r->nothing : NULL;
}

static void rewriting(void **state)
{
	struct twir_module *m = ((struct state *)*state)->m;
	expr n = symbol(m, "N"), zero = twir_index(m, 0);
	struct twir_tensor *t = twir_tensor_new(m, "T", TWIR_F32, 1, &n, TWIR_OUT);
	struct twir_stmt *loop = twir_stmt_new(m, TWIR_FOR), *block = NULL;
	loop->u.loop.var = twir_var_new(m, TWIR_LOOP, n->type, "i");
	loop->u.loop.extent = n;
	twir_append(&loop->u.loop.body, twir_let(m, twir_var_new(m, TWIR_BOUND, n->type, "x"), n));
	twir_append(&loop->u.loop.body, twir_store(m, t, 1, &zero, twir_float(m, TWIR_F32, 1.5), NULL));
	twir_append(&block, loop);
	struct twir_rewriter r;
	twir_rewriter_init(&r, m);
	assert_ptr_equal(twir_rewrite_expr(&r, twir_add(m, n, twir_index(m, 2))), twir_add(m, n, twir_index(m, 2)));
	twir_rewriter_reset(&r);
	r.expr = double_constants;
	r.stmt = drop_lets;
	const struct twir_stmt *out = twir_rewrite_block(&r, block);
	assert_ptr_not_equal(out, block);
	assert_ptr_equal(out->u.loop.var, loop->u.loop.var);
	const struct twir_stmt *store = out->u.loop.body;
	assert_int_equal(store->kind, TWIR_STORE);
	assert_true(store->u.store.value->u.f == 3.0);
	assert_null(store->next);
	assert_int_equal(loop->u.loop.body->kind, TWIR_LET); /* the original stays */
	/* symbols in the order they were made, wherever they stand */
	expr k = symbol(m, "K"), shape = twir_mul(m, k, n);
	struct twir_tensor *p = twir_tensor_new(m, "P", TWIR_F32, 1, &shape, TWIR_OUT);
	struct twir_program program = {.name = "p", .nparams = 1, .params = &p, .body = block};
	twir_program_symbols(m, &program);
	assert_int_equal(program.nsymbols, 2);
	assert_ptr_equal(program.symbols[0], twir_symbol(m, "N"));
	assert_ptr_equal(program.symbols[1], twir_symbol(m, "K"));
}

static void check_failure(void *arg)
{
	struct twir_module *m = arg;
	twir_add(m, twir_index(m, 1), twir_int(m, TWIR_I32, 1));
}

static void too_deep(void *arg)
{
	struct twir_module *m = arg;
	expr e = symbol(m, "N");
	for (int i = 0; i < 100000; i++)
		e = twir_add(m, e, symbol(m, "K"));
}

static void failures(void **state)
{
	struct twir_module *m = ((struct state *)*state)->m;
	struct tw_error e;
	assert_false(tw_try(&e, check_failure, m));
	assert_int_equal(e.code, TW_ERR_INTERNAL);
	assert_false(tw_try(&e, too_deep, m));
	assert_int_equal(e.code, TW_ERR_UNSUPPORTED);
}

static void frames(void **state)
{
	struct twir_module *m = ((struct state *)*state)->m;
	struct twir_frame f;
	expr n = symbol(m, "N"), k = symbol(m, "K"), sum = twir_add(m, n, k);
	const struct twir_var *i = twir_var_new(m, TWIR_LOOP, twir_scalar_type(TWIR_INDEX), "turn");
	struct twir_tensor *own = twir_tensor_new(m, "X", TWIR_F32, 1, &n, TWIR_TENSOR);
	expr one = twir_float(m, TWIR_F32, 1.0), exponential = twir_math(m, "exp", 1, &one);
	for (int turn = 0; turn < 3; turn++) {
		twir_frame_begin(m, &f);
		const uint32_t first = m->next_id;
		assert_ptr_equal(twir_add(m, n, k), sum);
		assert_ptr_equal(symbol(m, "N"), n);
		assert_ptr_equal(twir_math(m, "exp", 1, &one), exponential);
		struct twir_var *j = twir_var_new(m, TWIR_LOOP, twir_scalar_type(TWIR_INDEX), "turn");
		assert_string_equal(j->name, "turn_1"); /* in every turn: those of earlier frames are gone */
		assert_int_equal(j->id, first);		/* and so are their ids */
		expr size = twir_add(m, twir_mul(m, sum, twir_index(m, 12345)), twir_max(m, n, k));
		assert_ptr_equal(size, twir_add(m, twir_mul(m, sum, twir_index(m, 12345)), twir_max(m, n, k)));
		for (int x = 0; x < 5000; x++) /* the frame's own table grows */
			twir_index(m, 200000 + x);
		struct twir_tensor *t = twir_tensor_new(m, "T", TWIR_I8, 1, &size, TWIR_TENSOR);
		t->layout = twir_layout_blocked(m, 1, &size, (expr[]){twir_index(m, 777)});
		twir_frame_end(m, &f);
		struct twir_tensor *adopted = twir_adopt_tensor(m, &f, t);
		expr kept = twir_adopt_expr(m, &f, size);
		assert_ptr_not_equal(adopted, t);
		assert_ptr_equal(twir_adopt_tensor(m, &f, t), adopted);
		assert_ptr_equal(twir_adopt_tensor(m, &f, own), own);
		assert_ptr_equal(twir_adopt_expr(m, &f, sum), sum);
		twir_frame_free(&f);
		assert_ptr_equal(kept, twir_add(m, twir_mul(m, sum, twir_index(m, 12345)), twir_max(m, n, k)));
		assert_ptr_equal(adopted->shape[0], kept);
		assert_int_equal(adopted->type, TWIR_I8);
		assert_true(twir_layout_equal(adopted->layout,
					      twir_layout_blocked(m, 1, &kept, (expr[]){twir_index(m, 777)})));
		assert_ptr_equal(symbol(m, "N"), n);
	}
	assert_string_equal(i->name, "turn");
}

static void symbol_in_frame(void *m)
{
	struct twir_frame f;
	twir_frame_begin(m, &f);
	twir_symbol(m, "late");
	twir_frame_end(m, &f);
}

static void frame_in_frame(void *m)
{
	struct twir_frame f, g;
	twir_frame_begin(m, &f);
	twir_frame_begin(m, &g);
}

static void variable_adopted(void *m)
{
	struct twir_frame f;
	twir_frame_begin(m, &f);
	expr v = twir_var(m, twir_var_new(m, TWIR_LOOP, twir_scalar_type(TWIR_INDEX), "i"));
	twir_frame_end(m, &f);
	twir_adopt_expr(m, &f, v);
}

/* What would be lost with a frame, or outlive it, is our fault and told as such. */
static void wrong_frames(void **state)
{
	void (*const wrong[])(void *) = {symbol_in_frame, frame_in_frame, variable_adopted};
	const char *const why[] = {"a symbol was made in a frame", "a frame in a frame", "was made in the frame"};
	(void)state;
	for (int i = 0; i < TW_COUNT(wrong); i++) {
		struct tw_arena *a = arena_new();
		struct tw_error e;
		assert_false(tw_try(&e, wrong[i], twir_module_new(a)));
		assert_int_equal(e.code, TW_ERR_INTERNAL);
		assert_non_null(strstr(e.text, why[i]));
		arena_free(a);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(interning, setup, teardown),
		cmocka_unit_test_setup_teardown(folding, setup, teardown),
		cmocka_unit_test_setup_teardown(neutral, setup, teardown),
		cmocka_unit_test_setup_teardown(names, setup, teardown),
		cmocka_unit_test_setup_teardown(substitution, setup, teardown),
		cmocka_unit_test_setup_teardown(layouts, setup, teardown),
		cmocka_unit_test_setup_teardown(rewriting, setup, teardown),
		cmocka_unit_test_setup_teardown(failures, setup, teardown),
		cmocka_unit_test_setup_teardown(frames, setup, teardown),
		cmocka_unit_test(wrong_frames),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
