/* rooms: base tmap ir */
/* The language as people meet it: errors with place, reason and hint; every example of docs/LANGUAGE.md; the editor's
 * word lists against the compiler's tables; literals. */
#include <ctype.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "ir/ir_int.h"

static char *read_file(struct tw_arena *a, const char *path)
{
	FILE *f = fopen(path, "rb");
	if (!f)
		fail_msg("%s is missing", path);
	struct tw_buf b;
	buf_init(&b, a);
	char piece[4096];
	for (size_t n; (n = fread(piece, 1, sizeof(piece), f)) > 0;)
		buf_bytes(&b, piece, n);
	fclose(f);
	return b.at;
}

struct job {
	struct tw_arena *a;
	const char *name, *text;
	const char *printed;
	struct twir_module *m;
};

static void parse_job(void *arg)
{
	struct job *j = arg;
	j->m = twir_module_new(j->a);
	twir_parse(j->m, j->name, j->text);
	for (int i = 0; i < j->m->programs.n; i++)
		twir_verify_program(j->m, j->m->programs.at[i], TW_ERR_MODEL);
	for (int i = 0; i < j->m->computes.n; i++)
		twir_verify_compute(j->m, j->m->computes.at[i], TW_ERR_MODEL);
	for (int i = 0; i < j->m->funcs.n; i++)
		twir_verify_func(j->m, j->m->funcs.at[i], TW_ERR_MODEL);
	for (int i = 0; i < j->m->launches.n; i++)
		twir_verify_launch(j->m, j->m->launches.at[i], TW_ERR_MODEL);
	j->printed = twir_print_module(j->a, j->m);
}

/* Place, reason and hint of bad texts. A program's head is P, its end E. */
#define P "program p(X: f32[8, 8], I: i32[8], out Y: f32[8, 8]) launch core(8), lane(4) {\n"
#define G "program p(X: f32[8, 8], out Y: f32[8, 8]) launch block(8), warp(2), lane(32) {\n"
#define E "}\n"

static void errors(void **state)
{
	(void)state;
	static const struct {
		const char *text, *place, *why, *hint;
	} cases[] = {
		/* words that are not known */
		{"progam p() { }", "1:1", "expected symbol, const, func", "did you mean 'program'?"},
		{"symbl N;", "1:1", "expected symbol, const, func", "did you mean 'symbol'?"},
		{P "  Y[0, 0] = Xx[0, 0];\n" E, "2:13", "'Xx' is not declared", "did you mean 'X'?"},
		{P "  for row_of in repeat(4) { Y[rwo_of, 0] = 1.0; }\n" E, "2:31", "'rwo_of' is not declared",
		 "did you mean 'row_of'?"},
		{"symbol Height;\nprogram p(X: f32[Heigth]) { }", "2:18", "'Heigth' is not declared",
		 "did you mean 'Height'?"},
		{P "  y[0, 0] = 1.0;\n" E, "2:3", "there is no tensor 'y'", "did you mean 'Y'?"},
		{P "  Y[0, 0] = sqr(X[0, 0]);\n" E, "2:13", "no func or operation 'sqr'", "did you mean 'sqrt'?"},
		{P "  Y[0, 0] = sigmoit(X[0, 0]);\n" E, "2:13", "no func or operation", "did you mean 'sigmoid'?"},
		{P "  Y[0, 0] = exp(I[0]);\n" E, "2:13", "no func or operation 'exp'", "the argument is i32: cast it"},
		{P "  Y[0, 0] = X(0, 0);\n" E, "2:13", "no func or operation 'X'",
		 "elements of tensors are written T[i, j]"},
		{"program p(X: f23[4]) { }", "1:14", "expected a type", "did you mean 'f32'?"},
		{"program p(X: float[4]) { }", "1:14", "there is no type 'float'", "hint: f32"},
		{"program p(X: complex64[4]) { }", "1:14", "there is no type 'complex64'", "two f32"},
		{"program p(X: string[4]) { }", "1:14", "there is no type 'string'", "host operators"},
		{"program p(X: f32x1[4]) { }", "1:14", "expected a type", "vector such as f32x16"},
		{"program p(X: f32[4]) launch cor(4) { }", "1:29", "expected a level of workers",
		 "did you mean 'core'?"},
		{P "  for (i) in tiles on core { }\n" E, "2:14", "there is no mapping 'tiles'",
		 "repeat(..), spatial(..)"},
		{P "  map tile = repeat(4);\n  for (i) in tle { }\n" E, "3:14", "there is no mapping 'tle'",
		 "did you mean 'tile'?"},
		{P "  reapeat;\n" E, "2:3", "there is no tensor 'reapeat'", "did you mean 'repeat'?"},
		/* habits of other languages */
		{P "  while true { }\n" E, "2:3", "there is no tensor 'while'", "loops are for i in repeat(n)"},
		{P "  if X[0, 0] < 1.0 && true { }\n" E, "2:20", "expected '{', found '&'", "and, or, xor, not"},
		{P "  Y[0, 0] = 1.0 // one\n" E, "2:18", "expected an expression", "a comment begins with #"},
		{P "  // one\n" E, "2:3", "expected a statement, found '/'", "a comment begins with #"},
		{P "  Y[0, 0] += 1.0;\n" E, "2:11", "expected '=', found '+'", "T[i, j] + value;"},
		{P "  Y[0][0] = 1.0;\n" E, "2:7", "expected '='", "one pair of brackets: T[i, j]"},
		{P "  Y[0, 0] = X[0, 0] ** 2.0;\n" E, "2:22", "expected an expression", "pow(x, y)"},
		{P "  Y[0, 0] = !true ? 1.0 : 0.0;\n" E, "2:13", "expected an expression", "and, or, xor, not"},
		{P "  for i in repeat(4) { break; }\n" E, "2:24", "there is no tensor 'break'", "under an if"},
		{P "  for (int i = 0; i < 4; i++) { }\n" E, "2:12", "expected ')', found 'i'", "for i in repeat(n)"},
		{P "  int n = 0;\n" E, "2:3", "there is no tensor 'int'", "let x = e"},
		{"program p(f32 X[4]) { }", "1:11", "type of a tensor stands behind its name", "NAME: f32[M, N]"},
		{"program p(X: float32[4]) { }", "1:14", "there is no type 'float32'", "hint: f32"},
		{"const Z = 4 / 0;", "1:13", "a constant is divided by 0", "x / 0"},
		{P "  return 1.0;\n" E, "2:3", "a word of the language", "choose another name"},
		{P "  if 0 < 1 { }\n  Y[0, 0] = 1.0;\n  else { }\n" E, "4:3", "a word of the language", NULL},
		{P "  x = 1;\n" E, "2:3", "there is no tensor 'x'", NULL},
		{P "  let x = 1;\n  x = 2;\n" E, "3:3", "there is no tensor 'x'", "let makes a new value"},
		/* types */
		{P "  let x = I[0] * X[0, 0];\n" E, "2:16", "'*' of i32 and f32: the operands' types differ",
		 "convert one side"},
		{P "  for i in repeat(8) { Y[i, 0] = i * X[i, 0]; }\n" E, "2:36", "'*' of index and f32",
		 "for example f32(x) or index(x)"},
		{P "  if X[0, 0] { }\n" E, "2:6", "the condition must have type i1, not f32", "i1(x)"},
		{P "  let x = not X[0, 0];\n" E, "2:11", "'not' of f32", "compare it"},
		{P "  let x = true ? 1i32 : 2.5;\n" E, "2:16", "'? :' of i1, i32 and f32",
		 "both choices have one type"},
		{P "  Y[0, 0] = I[0];\n" E, "2:3", "store to 'Y' (f32, rank 2) of i32", "convert it"},
		{P "  let x = X[0];\n  let y = X[0.5, 0];\n" E, "3:13", "must have type index, not f32",
		 "whole numbers"},
		{P "  let y = X[I[1], 0];\n" E, "2:13", "must have type index, not i32", "convert it: index(x)"},
		{P "  register b: u8[];\n  b = 300;\n" E, "3:7", "300 does not fit in u8", "wider type"},
		{P "  let b = I[0] + 5000000000;\n" E, "2:16", "5000000000 does not fit in i32", "wider type"},
		{P "  let x = X[0, 0, 0];\n" E, "2:11", "load of 'X' (rank 2)", "one index for each dimension"},
		{P "  let x = shfl_up(true, 1);\n" E, "2:11", "shuffle moves scalar numbers", NULL},
		{"func f(x: f16): f16 { return x * x; }", "1:32", "storage type: cast to f32 first", NULL},
		{"func f(x: i4): i32 { return i32(x) + i32(-x); }", "1:42", "storage type: cast to i32 first", NULL},
		{"func f(x: u8): u4 { return bitcast_u4(x); }", "1:28", "a bitcast keeps the width", "equally wide"},
		/* accesses */
		{P "  let v = X[0, 0 +: 1];\n" E, "2:18", "the number of elements is 2 to 256", "T[i +: 16]"},
		{P "  let v = X[0, 0 +: 4] where true else 0.0;\n  Y[0, 0] = v;\n" E, "3:13", "f32x4", "T[i +: 16]"},
		{P "  let v = X[0, 0] where 3 else 0.0;\n" E, "2:19", "the condition must be i1", "in the brackets"},
		{P "  let v = X[0, 0] where true;\n" E, "2:29", "expected 'else'", "X[i] where i < N else 0.0"},
		{P "  Y[0, 0 +: 4] = f32x8(1.0);\n" E, "2:18", "type f32x8 is stored where 4 elements", NULL},
		/* layouts and mappings */
		{"program p(X: f32[4, 4] layout colum) { }", "1:31", "expected a factor of a layout", "column(..)"},
		{"program p(X: f32[4, 4] layout row(4)) { }", "1:31", "the factor has 1 dimensions",
		 "one extent for each"},
		{"program p(X: f32[4, 4] layout row(4, 4) swizzle(1, 1)) { }", "1:41", "two different dimensions",
		 "coordinate 1 xor coordinate 0"},
		{"program p(X: f32[4, 6] layout row(4, 6) swizzle(1, 0)) { }", "1:41", "constant power of two", "xor"},
		{"program p(X: f32[4, 4] layout strides(1, 4) swizzle(1, 0)) { }", "1:45",
		 "only row and column factors", "xor"},
		{"program p(X: f32[4, 4] layout strides(1, 4) * row(4, 4)) { }", "1:45", "last factor", "before it"},
		{"program p(X: f32[4, 4] layout row(2, 2) * blocked(2, 2)) { }", "1:43", "no factor",
		 "row(..) * row(..)"},
		{P "  for (i) in spatial(4, unroll) on lane { }\n" E, "2:25", "attributes belong to repeat",
		 "different workers"},
		{P "  for (i, j) in repeat(4) { }\n" E, "2:17", "the mapping has rank 1", "one variable for each"},
		{P "  for (i) in spatial(4) * repeat(2, 2) { }\n" E, "2:25", "one rank", "write 1 for a dimension"},
		{P "  for i in spatial(4) { }\n" E, "2:12", "expected 'repeat'", "for (i, j) in .."},
		{P "  for i in repeat(4, unroll 1) { }\n" E, "2:29", "2 to 128 steps", "repeat(n, unroll 4)"},
		{P "  shared S: f32x4[8];\n" E, "2:13", "only register tensors hold vectors", "T[i +: 16]"},
		{P "  shared S: f32[4] mirrors spatial(4);\n" E, "2:20", "only register tensors mirror", "layout"},
		/* GPU */
		{G "  copy async Y[0, 0] = X[0, 0];\n" E, "2:14", "goes to a shared tensor", NULL},
		{G "  wait 64;\n" E, "2:8", "the number of groups is 0 to 63", "wait 0; waits for all"},
		{G "  wait;\n" E, "2:7", "expected the number of groups", "plain decimal number"},
		{G "  mma m16n8k16 X, X, X;\n" E, "2:7", "no matrix instruction 'm16n8k16'", "m16n8k16_f16"},
		{G "  mma m16n8k16_f16 X, X, X;\n" E, "2:20", "a part of a register tensor",
		 "takes d: f32[4], a: f16[8], b: f16[4]"},
		{G "  copy sync Y[0, 0] = X[0, 0];\n" E, "2:8", "expected 'async'", "copy async T"},
		/* brackets and ends */
		{P "  Y[0, 0 = 1.0;\n" E, "2:10", "expected ']', found '='", "brackets come in pairs"},
		{P "  Y[0, 0] = (1.0;\n" E, "2:17", "expected ')', found ';'", "parentheses come in pairs"},
		{P "  Y[0, 0] = 1.0\n" E, "3:1", "expected ';', found '}'", "end with ;"},
		{P "  if true Y[0, 0] = 1.0;\n" E, "2:11", "expected '{'", "a body stands in braces"},
		{P "  if true {\n" E, "1:78", "this { is not closed", "every { has its }"},
		{P "  let for = 1;\n" E, "2:7", "found 'for', a word of the language", "choose another name"},
		{P "  let 2x = 1;\n" E, "2:7", "expected a name, found '2x'", "do not begin with a digit"},
	};
	int wrong = 0;
	for (int i = 0; i < TW_COUNT(cases); i++) {
		struct job j = {.a = arena_new(), .name = "bad.tw", .text = cases[i].text};
		struct tw_error e = {0};
		const bool ok = tw_try(&e, parse_job, &j);
		const char *head = arena_printf(j.a, "bad.tw:%s: ", cases[i].place), *hint = strstr(e.text, "\nhint: ");
		if (ok || e.code != TW_ERR_MODEL || strncmp(e.text, head, strlen(head)) != 0 ||
		    !strstr(e.text, cases[i].why) || !strchr(e.text, '^') ||
		    (cases[i].hint && (!hint || !strstr(hint, cases[i].hint)))) {
			print_error("%s\n%s\nshould be at %s for: %s, hint: %s\n\n", cases[i].text,
				    ok ? "accepted" : e.text, cases[i].place, cases[i].why,
				    cases[i].hint ? cases[i].hint : "any");
			wrong++;
		}
		arena_free(j.a);
	}
	assert_int_equal(wrong, 0);
}

/* The blocks ```tw of the page are modules that stand alone. */
static void documentation(void **state)
{
	(void)state;
	struct tw_arena *a = arena_new();
	const char *at = read_file(a, TW_SOURCE_DIR "/docs/LANGUAGE.md");
	int n = 0;
	while ((at = strstr(at, "\n```tw\n"))) {
		at += 7;
		const char *end = strstr(at, "\n```");
		assert_non_null(end);
		struct tw_error e = {0};
		struct job j = {.a = a, .name = "LANGUAGE.md", .text = arena_strndup(a, at, (size_t)(end - at + 1))};
		if (!tw_try(&e, parse_job, &j))
			fail_msg("%s\n%s", e.text, j.text);
		struct job again = {.a = a, .name = "printed", .text = j.printed};
		if (!tw_try(&e, parse_job, &again))
			fail_msg("%s\n%s", e.text, j.printed);
		assert_string_equal(j.printed, again.printed);
		at = end;
		n++;
	}
	assert_true(n >= 10);
	arena_free(a);
}

/* docs/LANGUAGE.md names every word, type, level and matrix instruction. */
static void mention(const char *page, const char *word)
{
	const size_t n = strlen(word);
	for (const char *at = page; (at = strstr(at, word)); at += n) {
		const char before = at == page ? ' ' : at[-1], after = at[n];
		if (!isalnum((unsigned char)before) && before != '_' && !isalnum((unsigned char)after) && after != '_')
			return;
	}
	fail_msg("docs/LANGUAGE.md does not mention '%s'", word);
}

static void complete(void **state)
{
	(void)state;
	struct tw_arena *a = arena_new();
	const char *page = read_file(a, TW_SOURCE_DIR "/docs/LANGUAGE.md");
	for (int i = 0; twir_word(i); i++)
		if (strcmp(twir_word(i), "void") != 0)
			mention(page, twir_word(i));
	for (int s = TWIR_I1; s < TWIR_SCALARS; s++)
		mention(page, twir_scalar_name((enum twir_scalar)s));
	for (int l = 0; l < TWIR_LEVELS; l++)
		mention(page, twir_level_name((enum twir_level)l));
	for (int i = 0; twir_mma_at(i); i++)
		mention(page, twir_mma_at(i)->name);
	for (int k = 0; k < TWIR_KINDS; k++)
		if ((twir_kind_flags((enum twir_kind)k) & TWIR_F_FUNC) && k != TWIR_Neg)
			mention(page, twir_kind_text((enum twir_kind)k));
	arena_free(a);
}

static bool listed(const char *list, const char *word)
{
	const size_t n = strlen(word);
	for (const char *at = list; (at = strstr(at, word)); at++)
		if (at[-1] == ' ' && (at[n] == ' ' || at[n] == '\n'))
			return true;
	return false;
}

static bool known(const char *word)
{
	for (int i = 0; twir_word(i); i++)
		if (strcmp(twir_word(i), word) == 0)
			return true;
	/* the combiners of reduce, written as words */
	return twir_reserved(word) || strcmp(word, "add") == 0 || strcmp(word, "mul") == 0;
}

/* The editor's lists hold every word of the language and nothing else. */
static void editor(void **state)
{
	(void)state;
	struct tw_arena *a = arena_new();
	const char *file = read_file(a, TW_SOURCE_DIR "/editors/vim/syntax/tilewright.vim");
	struct tw_buf list; /* of the lines "syn keyword GROUP words" */
	buf_init(&list, a);
	buf_puts(&list, "\n");
	for (const char *line = file; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
		if (strncmp(line, "syn keyword ", 12) != 0)
			continue;
		const char *words = strchr(line + 12, ' ');
		buf_bytes(&list, words, strcspn(words, "\n"));
		buf_puts(&list, " \n");
	}
	char *copy = arena_strdup(a, list.at);
	for (char *word = strtok(copy, " \n"); word; word = strtok(NULL, " \n"))
		if (!known(word))
			fail_msg("the editor knows '%s', the language does not", word);
	const char *missing = NULL;
	for (int i = 0; twir_word(i); i++)
		missing = listed(list.at, twir_word(i)) ? missing : twir_word(i);
	for (int s = TWIR_I1; s < TWIR_SCALARS; s++)
		missing = listed(list.at, twir_scalar_name((enum twir_scalar)s))
				  ? missing
				  : twir_scalar_name((enum twir_scalar)s);
	for (int l = 0; l < TWIR_LEVELS; l++)
		missing = listed(list.at, twir_level_name((enum twir_level)l)) ? missing
									       : twir_level_name((enum twir_level)l);
	for (int k = 0; k < TWIR_KINDS; k++) {
		const unsigned flags = twir_kind_flags((enum twir_kind)k);
		const char *text = twir_kind_text((enum twir_kind)k);
		if (!(flags & TWIR_F_OTHER) && isalpha((unsigned char)text[0]) && !listed(list.at, text))
			missing = text;
		if (twir_is_combiner((enum twir_kind)k) && !listed(list.at, twir_fold_name((enum twir_kind)k)))
			missing = twir_fold_name((enum twir_kind)k);
	}
	if (missing)
		fail_msg("editors/vim/syntax/tilewright.vim lacks '%s'", missing);
	arena_free(a);
}

static const struct twir_expr *value_of(struct tw_arena *a, const char *type, const char *text, const char **printed)
{
	struct job j = {.a = a, .name = "literal", .text = arena_printf(a, "define y: %s[] = () => %s;", type, text)};
	struct tw_error e = {0};
	if (!tw_try(&e, parse_job, &j))
		fail_msg("%s", e.text);
	struct job again = {.a = a, .name = "printed", .text = j.printed};
	if (!tw_try(&e, parse_job, &again))
		fail_msg("%s", e.text);
	assert_string_equal(j.printed, again.printed);
	*printed = j.printed;
	return again.m->computes.at[0]->value;
}

/* A literal is rounded once, to the type that the context gives it; what is printed gives it back. */
static void literals(void **state)
{
	(void)state;
	struct tw_arena *a = arena_new();
	const char *printed;
	const double tenth = 0.1, narrow = (double)0.1f;
	assert_true(value_of(a, "f64", "0.1", &printed)->u.f == tenth);
	assert_true(value_of(a, "f32", "0.1", &printed)->u.f == narrow);
	assert_true(value_of(a, "f64", "-0.1", &printed)->u.f == -tenth);
	assert_true(value_of(a, "f64", "f64(0.1)", &printed)->u.f == tenth);
	const struct twir_expr *e = value_of(a, "f64", "f64(0.1f32)", &printed);
	assert_int_equal(e->kind, TWIR_Cast);
	assert_true(e->arg[0]->u.f == narrow);
	assert_non_null(strstr(printed, "f64(0.1f32)"));
	arena_free(a);
}

static void literals_beside(void **state)
{
	(void)state;
	static const struct {
		const char *text; /* with x: f64, y: f32, c: i1 */
		double value;	  /* of the constant that is not 0.5 */
		enum twir_scalar type;
	} cases[] = {
		{"x + 0.1", 0.1, TWIR_F64},
		{"0.1 * x", 0.1, TWIR_F64},
		{"max(0.1, x)", 0.1, TWIR_F64},
		{"fma(x, 0.1, x)", 0.1, TWIR_F64},
		{"c ? 0.1 : x", 0.1, TWIR_F64},
		{"select(c, x, 0.1)", 0.1, TWIR_F64},
		{"x * (c ? 0.1 : 0.5)", 0.1, TWIR_F64},
		{"x * select(c, 0.5, c ? 0.1 : 0.5)", 0.1, TWIR_F64},
		{"f64(c ? 0.1 : 0.5)", 0.1, TWIR_F64},
		{"f64(y + 0.1)", (double)0.1f, TWIR_F32},
		{"f64(c ? y : 0.1)", (double)0.1f, TWIR_F32},
		{"f64(f16(0.1))", 0x1.998p-4, TWIR_F16},
		{"f64(f8e4m3fn(0.1))", 0.1015625, TWIR_F8E4M3FN},
		{"x + extract(f64(select(iota_i32(4) < 2i32, 0.1, 0.5)), 1)", 0.1, TWIR_F64},
		{"x + extract(f64(select(iota_i32(4) < 2i32, 0.1f32, 0.5f32)), 1)", (double)0.1f, TWIR_F32},
		{"x + extract(f64(select(iota_i32(4) < 2i32, y, 0.1)), 1)", (double)0.1f, TWIR_F32},
		{"x + extract(f64(splat(0.1, 4)), 1)", (double)0.1f, TWIR_F32},
		{"x + 1e300", 1e300, TWIR_F64},
		{"x + 0x1.123456789abcdp+0", 0x1.123456789abcdp+0, TWIR_F64},
	};
	for (int i = 0; i < TW_COUNT(cases); i++) {
		struct tw_arena *a = arena_new();
		struct tw_error e = {0};
		struct job j = {
			.a = a,
			.name = "literal",
			.text = arena_printf(a, "func f(x: f64, y: f32, c: i1): f64 { return %s; }", cases[i].text)};
		if (!tw_try(&e, parse_job, &j))
			fail_msg("%s", e.text);
		struct job again = {.a = a, .name = "printed", .text = j.printed};
		if (!tw_try(&e, parse_job, &again))
			fail_msg("%s", e.text);
		assert_string_equal(j.printed, again.printed);
		const struct job *const both[] = {&j, &again};
		for (int k = 0; k < 2; k++) {
			const struct twir_expr *found = NULL, *const body = twir_func_find(both[k]->m, "f")->body;
			VEC(const struct twir_expr *) todo = {0};
			vec_push(a, &todo, body);
			while (todo.n > 0) {
				const struct twir_expr *x = todo.at[--todo.n];
				if (x->kind == TWIR_Const && twir_is_float((enum twir_scalar)x->type.scalar) &&
				    x->u.f != 0.5)
					found = x;
				for (int n = 0; n < x->n; n++)
					vec_push(a, &todo, x->arg[n]);
			}
			if (!found || found->u.f != cases[i].value || found->type.scalar != cases[i].type)
				fail_msg("%s: %s %a", cases[i].text,
					 found ? twir_scalar_name((enum twir_scalar)found->type.scalar) : "nothing",
					 found ? found->u.f : 0);
		}
		arena_free(a);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(errors), cmocka_unit_test(documentation), cmocka_unit_test(complete),
		cmocka_unit_test(editor), cmocka_unit_test(literals),	   cmocka_unit_test(literals_beside),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
