/* rooms: base tmap ir */
/* test_simplify_programs.c: whole programs before and after twir_simplify_program. The programs of test/ir with numbers
 * and operators changed at random: what parses, verifies and runs must run after it too, with the same bits in every
 * output; what does not run must fail with a message. */
#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "ir/ir.h"

#define UNUSED	 __attribute__((unused))
#define MUTANTS	 150 /* of each file */
#define MAX_CELL 20000

static uint64_t seed = 0x9e3779b97f4a7c15;

static uint64_t next_random(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_word(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.';
}

/* Replaces one number or operator after the first brace, where the body is. */
static char *mutate(struct tw_arena *a, const char *text)
{
	static const char *const numbers[] = {"0", "1", "2", "3", "4", "7", "8", "15", "16", "17", "32", "33"};
	static const char *const operators[] = {" + ", " - ", " * ", " / ", " % "};
	static const char *const compares[] = {" < ", " <= ", " == ", " != "};
	const size_t n = strlen(text);
	for (int tries = 0; tries < 1000; tries++) {
		const size_t at = next_random() % n;
		size_t end = at + 1;
		const char *by = NULL;
		if (is_digit(text[at]) && at > 0 && !is_word(text[at - 1])) {
			while (is_digit(text[end]))
				end++;
			if (is_word(text[end]))
				continue;
			by = numbers[next_random() % (uint64_t)TW_COUNT(numbers)];
		} else if (text[at] == ' ' && strchr("+-*/%", text[at + 1]) && text[at + 2] == ' ') {
			end = at + 3;
			by = operators[next_random() % (uint64_t)TW_COUNT(operators)];
		} else if (strncmp(text + at, " < ", 3) == 0 || strncmp(text + at, " <= ", 4) == 0) {
			end = at + (text[at + 2] == '=' ? 4 : 3);
			by = compares[next_random() % (uint64_t)TW_COUNT(compares)];
		}
		if (by)
			return arena_printf(a, "%.*s%s%s", (int)at, text, by, text + end);
	}
	return arena_strdup(a, text);
}

struct job {
	struct tw_arena *a;
	const char *text;
	struct twir_module *m;
	struct twir_program *p;
	struct twir_binding b;
	struct twir_data data[2][16]; /* before, after */
	int which;
};

static void do_parse(void *arg)
{
	struct job *j = arg;
	j->m = twir_module_new(j->a);
	twir_parse(j->m, "mutant", j->text);
	for (int k = 0; k < j->m->programs.n; k++)
		twir_verify_program(j->m, j->m->programs.at[k], TW_ERR_MODEL);
}

static void bind(struct job *j)
{
	const int n = j->m->symbols.n;
	int64_t *values = ARENA_ARRAY(j->a, int64_t, n);
	for (int k = 0; k < n; k++) {
		const struct twir_var *v = j->m->symbols.at[k];
		values[k] = (int64_t)(next_random() % 40);
		values[k] = values[k] / v->multiple * v->multiple;
		while (values[k] < v->lo)
			values[k] += v->multiple;
		if (values[k] > v->hi)
			values[k] = v->hi;
	}
	j->b = (struct twir_binding){n, j->m->symbols.at, values};
}

static void do_buffers(void *arg)
{
	struct job *j = arg;
	if (j->p->nparams > TW_COUNT(j->data[0]))
		tw_raise(TW_ERR_INPUT, "too many parameters");
	for (int k = 0; k < j->p->nparams; k++) {
		const struct twir_tensor *t = j->p->params[k];
		const int64_t n = twir_eval_index(twir_tensor_elements(j->m, t), &j->b);
		if (n < 0 || n > MAX_CELL)
			tw_raise(TW_ERR_INPUT, "too large");
		for (int w = 0; w < 2; w++) {
			char *at = arena_alloc_array(j->a, (size_t)twir_scalar_bytes(t->type), n);
			j->data[w][k] = (struct twir_data){at, n};
			for (int64_t i = 0; i < n && t->scope == TWIR_IN; i++) {
				const float f = (float)(i * 37 % 101) * 0.25f - 9.0f;
				const int64_t v = i * 37 % 101 - 40;
				const double d = (double)f;
				const uint16_t h = tw_f32_to_f16(f);
				const void *from = t->type == TWIR_F32	    ? (const void *)&f
						   : t->type == TWIR_F64    ? (const void *)&d
						   : twir_is_float(t->type) ? (const void *)&h
									    : (const void *)&v;
				memcpy(at + i * twir_scalar_bytes(t->type), from, (size_t)twir_scalar_bytes(t->type));
				if (t->type == TWIR_I1)
					at[i] &= 1;
			}
		}
	}
}

static void do_run(void *arg)
{
	struct job *j = arg;
	twir_interpret(j->m, j->p, &j->b, j->data[j->which]);
}

static void do_simplify(void *arg)
{
	struct job *j = arg;
	twir_simplify_program(j->m, j->p);
	twir_verify_program(j->m, j->p, TW_ERR_INTERNAL);
}

static void compare(struct job *j, const char *before)
{
	for (int k = 0; k < j->p->nparams; k++) {
		const struct twir_tensor *t = j->p->params[k];
		const int bytes = twir_scalar_bytes(t->type);
		for (int64_t i = 0; i < j->data[0][k].elements; i++) {
			const char *x = (const char *)j->data[0][k].at + i * bytes,
				   *y = (const char *)j->data[1][k].at + i * bytes;
			float fx = 0, fy = 0;
			if (t->type == TWIR_F32) {
				memcpy(&fx, x, sizeof(fx));
				memcpy(&fy, y, sizeof(fy));
			}
			if (memcmp(x, y, (size_t)bytes) == 0 || (isnan(fx) && isnan(fy)))
				continue;
			print_error("%s[%lld] differs:\n%s\n%s\n", t->name, (long long)i, before,
				    twir_print_program(j->a, j->m, j->p));
			fail();
		}
	}
}

/* Returns whether some program ran. */
static int mutant(const char *text)
{
	struct job j = {.a = arena_new(), .text = text};
	struct tw_error e;
	int ran = 0;
	if (tw_try(&e, do_parse, &j)) {
		bind(&j);
		for (int k = 0; k < j.m->programs.n; k++) {
			j.p = j.m->programs.at[k];
			j.which = 0;
			if (!tw_try(&e, do_buffers, &j))
				continue;
			const bool before = tw_try(&e, do_run, &j);
			if (!before) {
				assert_int_equal(e.code, TW_ERR_INPUT);
				continue;
			}
			const char *was = twir_print_program(j.a, j.m, j.p);
			j.which = 1;
			if (!tw_try(&e, do_simplify, &j) || !tw_try(&e, do_run, &j)) {
				print_error("%s\n%s\n%s\n", e.text, was, twir_print_program(j.a, j.m, j.p));
				fail();
			}
			compare(&j, was);
			ran = 1;
		}
	} else {
		assert_int_equal(e.code, TW_ERR_MODEL);
	}
	arena_free(j.a);
	return ran;
}

static int mutants(const char *path)
{
	struct tw_arena *a = arena_new();
	struct tw_buf b;
	char piece[4096];
	int ran = 0;
	FILE *in = fopen(path, "rb");
	assert_non_null(in);
	buf_init(&b, a);
	for (size_t n; (n = fread(piece, 1, sizeof(piece), in)) > 0;)
		buf_bytes(&b, piece, n);
	fclose(in);
	for (int k = 0; k < MUTANTS; k++) {
		const struct arena_mark mark = arena_mark(a);
		const char *text = b.at;
		for (int n = k == 0 ? 0 : 1 + (int)(next_random() % 3); n > 0; n--)
			text = mutate(a, text);
		ran += mutant(text);
		arena_release(a, mark);
	}
	arena_free(a);
	return ran;
}

static void changed_programs(void **state UNUSED)
{
	const char *alone = getenv("TILEWRIGHT_TEST_FILE");
	if (alone) {
		mutants(alone);
		return;
	}
	DIR *d = opendir("test/ir");
	assert_non_null(d);
	int ran = 0;
	for (const struct dirent *entry; (entry = readdir(d));) {
		char path[300];
		snprintf(path, sizeof(path), "test/ir/%.200s", entry->d_name);
		if (strstr(entry->d_name, ".tw"))
			ran += mutants(path);
	}
	closedir(d);
	assert_true(ran > 3 * MUTANTS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(changed_programs)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
