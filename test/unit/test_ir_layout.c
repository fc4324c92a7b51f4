/* rooms: base tmap ir */
/* Layouts: what a program stores where. The interpreter's memory, the offset expression that flatten_index uses, and the
 * definition in ir.h, computed here, agree on random layouts; sizes too; no two elements share a place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "ir/ir.h"

enum { MOST = 4 };

struct factor {
	enum twir_layout_kind kind;
	int64_t extent[3];
	int swizzle, by, shift; /* swizzle < 0: none */
};

struct sample {
	uint64_t seed;
	int rank, n;
	int64_t shape[3];
	struct factor f[MOST];
};

static unsigned below(struct sample *s, unsigned n)
{
	s->seed = s->seed * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(s->seed >> 33) % n;
}

static void choose(struct sample *s)
{
	s->rank = 1 + (int)below(s, 3);
	s->n = 1 + (int)below(s, 3);
	int64_t whole[3] = {1, 1, 1};
	for (int k = 0; k < s->n; k++) {
		struct factor *f = &s->f[k];
		f->kind = below(s, 2) ? TWIR_LAYOUT_ROW : TWIR_LAYOUT_COLUMN;
		f->swizzle = -1;
		for (int d = 0; d < s->rank; d++)
			f->extent[d] = 1 + below(s, 4);
		if (s->rank > 1 && below(s, 2)) {
			f->swizzle = (int)below(s, (unsigned)s->rank);
			f->by = (f->swizzle + 1) % s->rank;
			f->shift = (int)below(s, 3);
			f->extent[f->swizzle] = INT64_C(1) << below(s, 3);
		}
		for (int d = 0; d < s->rank; d++)
			whole[d] *= f->extent[d];
	}
	for (int d = 0; d < s->rank; d++) /* the shape may be less than the layout has room for */
		s->shape[d] = whole[d] - (below(s, 3) == 0 && whole[d] > 1);
}

/* offset(x) = outer(x / inner.shape) * inner.size + inner(x % inner.shape) */
static int64_t defined(const struct sample *s, int from, const int64_t *x)
{
	const struct factor *f = &s->f[from];
	int64_t inside[3] = {1, 1, 1}, size = 1, outer[3], rest[3], at = 0;
	for (int k = from + 1; k < s->n; k++)
		for (int d = 0; d < s->rank; d++) {
			inside[d] *= s->f[k].extent[d];
			size *= s->f[k].extent[d];
		}
	for (int d = 0; d < s->rank; d++) {
		outer[d] = x[d] / inside[d];
		rest[d] = x[d] % inside[d];
	}
	if (f->swizzle >= 0)
		outer[f->swizzle] ^= (outer[f->by] >> f->shift) % f->extent[f->swizzle];
	for (int k = 0; k < s->rank; k++) {
		const int d = f->kind == TWIR_LAYOUT_ROW ? k : s->rank - 1 - k;
		at = at * f->extent[d] + outer[d];
	}
	return from + 1 < s->n ? at * size + defined(s, from + 1, rest) : at;
}

static const char *text_of(struct tw_arena *a, const struct sample *s)
{
	struct tw_buf b;
	buf_init(&b, a);
	buf_puts(&b, "program p(out Y: i32[");
	for (int d = 0; d < s->rank; d++)
		buf_printf(&b, "%s%lld", d ? ", " : "", (long long)s->shape[d]);
	buf_puts(&b, "] layout ");
	for (int k = 0; k < s->n; k++) {
		buf_printf(&b, "%s%s(", k ? " * " : "", s->f[k].kind == TWIR_LAYOUT_ROW ? "row" : "column");
		for (int d = 0; d < s->rank; d++)
			buf_printf(&b, "%s%lld", d ? ", " : "", (long long)s->f[k].extent[d]);
		buf_putc(&b, ')');
		if (s->f[k].swizzle >= 0)
			buf_printf(&b, s->f[k].shift ? " swizzle(%d, %d, %d)" : " swizzle(%d, %d)", s->f[k].swizzle,
				   s->f[k].by, s->f[k].shift);
	}
	buf_puts(&b, ")\n{\n");
	static const char *const names[] = {"i", "j", "k"};
	for (int d = 0; d < s->rank; d++)
		buf_printf(&b, "%*sfor %s in repeat(%lld) {\n", 2 * d + 2, "", names[d], (long long)s->shape[d]);
	buf_printf(&b, "%*sY[%s] = i32(%s);\n", 2 * s->rank + 2, "",
		   s->rank == 1	  ? "i"
		   : s->rank == 2 ? "i, j"
				  : "i, j, k",
		   s->rank == 1	  ? "i"
		   : s->rank == 2 ? "i * 1000 + j"
				  : "i * 1000000 + j * 1000 + k");
	for (int d = s->rank - 1; d >= -1; d--)
		buf_printf(&b, "%*s}\n", 2 * d + 2, "");
	return b.at;
}

static void check(const struct sample *s)
{
	struct tw_arena *a = arena_new();
	const char *text = text_of(a, s);
	struct twir_module *m = twir_module_new(a);
	twir_parse(m, "layout", text);
	if (strcmp(text, twir_print_module(a, m)) != 0)
		fail_msg("%s\nprints as\n%s", text, twir_print_module(a, m));
	struct twir_program *p = m->programs.at[0];
	twir_verify_program(m, p, TW_ERR_MODEL);
	const struct twir_tensor *t = p->params[0];
	const struct twir_binding none = {0};
	int64_t size = 1;
	for (int k = 0; k < s->n; k++)
		for (int d = 0; d < s->rank; d++)
			size *= s->f[k].extent[d];
	assert_int_equal(twir_eval_index(twir_tensor_elements(m, t), &none), size);
	int32_t *memory = arena_alloc(a, (size_t)size * sizeof(int32_t));
	for (int64_t i = 0; i < size; i++)
		memory[i] = -1;
	twir_interpret(m, p, &none, &(struct twir_data){memory, size});
	int64_t x[3] = {0}, stored = 0;
	for (bool more = true; more;) {
		const struct twir_expr *index[3];
		int64_t value = 0;
		for (int d = 0; d < s->rank; d++) {
			index[d] = twir_index(m, x[d]);
			value = value * 1000 + x[d];
		}
		const int64_t at = defined(s, 0, x);
		assert_int_equal(twir_eval_index(twir_layout_offset(m, t, s->rank, index), &none), at);
		if (memory[at] != value) /* also when another element took the place */
			fail_msg("%s\nplace %lld has %d, not %lld", text, (long long)at, memory[at], (long long)value);
		int d = s->rank - 1;
		while (d >= 0 && ++x[d] == s->shape[d])
			x[d--] = 0;
		more = d >= 0;
		stored++;
	}
	for (int64_t i = 0; i < size; i++)
		stored -= memory[i] != -1;
	assert_int_equal(stored, 0);
	arena_free(a);
}

static void random_layouts(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 300; seed++) {
		struct sample s = {.seed = seed * 0x9e3779b97f4a7c15u};
		choose(&s);
		check(&s);
	}
}

/* Short forms and what they stand for. */
static void short_forms(void **state)
{
	(void)state;
	static const struct {
		const char *written, *printed;
	} cases[] = {
		{"tensor T: f32[M, N] layout row;", "tensor T: f32[M, N];"},
		{"tensor T: f32[M, N] layout column;", "tensor T: f32[M, N] layout column(M, N);"},
		{"tensor T: f32[M, N] layout blocked(4, 16);",
		 "tensor T: f32[M, N] layout row(ceil_div(M, 4), ceil_div(N, 16)) * row(4, 16);"},
		{"tensor T: f32[M, N] layout strides(1, M);", "tensor T: f32[M, N] layout strides(1, M);"},
		{"tensor T: f32[M, 8] layout row(M, 8) swizzle(1, 0);",
		 "tensor T: f32[M, 8] layout row(M, 8) swizzle(1, 0);"},
		{"tensor T: f32[M, 8] layout row(M, 8) swizzle(1, 0, 0);",
		 "tensor T: f32[M, 8] layout row(M, 8) swizzle(1, 0);"},
	};
	for (int i = 0; i < TW_COUNT(cases); i++) {
		struct tw_arena *a = arena_new();
		struct twir_module *m = twir_module_new(a);
		twir_parse(m, "short", arena_printf(a, "symbol M, N;\n%s", cases[i].written));
		assert_string_equal(twir_print_module(a, m),
				    arena_printf(a, "symbol M, N;\n\n%s\n\n", cases[i].printed));
		arena_free(a);
	}
}

static void interpret(void *arg)
{
	struct twir_module *m = arg;
	float y[256];
	twir_verify_program(m, m->programs.at[0], TW_ERR_MODEL);
	twir_interpret(m, m->programs.at[0], NULL, &(struct twir_data){y, 256});
	for (int i = 0; i < 256; i++)
		assert_true(y[i] == (float)(i / 16 * 100 + i % 16));
}

/* Registers of GPU threads: the local factors tell the threads apart, the others say where in its registers a thread has
 * the element. */
static void local(void **state)
{
	(void)state;
	static const char text[] = "program p(out Y: f32[16, 16]) launch block(1), thread(32) {\n"
				   "  map m = repeat(2, 1) * spatial(8, 4) * repeat(1, 4);\n"
				   "  register r: f32[16, 16] layout row(2, 1) * local(8, 4) * row(1, 4);\n"
				   "  for (i, j) in m on thread { r[i, j] = f32(i * 100 + j); }\n"
				   "  for (i, j) in m on thread { Y[i, j] = r[i, j]; }\n"
				   "}\n";
	struct tw_arena *a = arena_new();
	struct twir_module *m = twir_module_new(a);
	struct tw_error e = {0};
	twir_parse(m, "local", text);
	const struct twir_binding none = {0};
	const struct twir_tensor *r = m->programs.at[0]->body->u.declare.tensor;
	assert_int_equal(twir_eval_index(twir_tensor_elements(m, r), &none), 8);
	if (!tw_try(&e, interpret, m))
		fail_msg("%s", e.text);
	/* nobody else's elements: what another thread has put there is not seen */
	m = twir_module_new(a);
	twir_parse(m, "local",
		   "program p(out Y: f32[16, 16]) launch block(1), thread(32) {\n"
		   "  map m = repeat(2, 1) * spatial(8, 4) * repeat(1, 4);\n"
		   "  register r: f32[16, 16] layout row(2, 1) * local(8, 4) * row(1, 4);\n"
		   "  for (i, j) in m on thread { if i < 8 { r[i, j] = 1.0; } }\n"
		   "  for (i, j) in m on thread { Y[i, j] = r[i, j]; }\n"
		   "}\n");
	assert_false(tw_try(&e, interpret, m));
	assert_non_null(strstr(e.text, "read before it was written"));
	m = twir_module_new(a);
	twir_parse(m, "local", "program p(out Y: f32[16, 16] layout local(16, 16)) launch block(1), thread(32) { }\n");
	assert_false(tw_try(&e, interpret, m));
	assert_non_null(strstr(e.text, "registers of GPU threads"));
	arena_free(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(random_layouts), cmocka_unit_test(short_forms),
					   cmocka_unit_test(local)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
