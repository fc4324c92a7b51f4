/* rooms: base tmap ir */
/* The text form. Every text of test/ir/ prints, parses and prints to the same bytes; bad texts are refused at the right place; nothing crashes.
 * With arguments it is a tool: test_ir_text FILE.tw prints the file canonically, after verifying it. */
#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "ir/ir.h"

static char *read_file(struct tw_arena *a, const char *path)
{
	FILE *f = fopen(path, "rb");
	if (!f)
		return NULL;
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
	bool verify;
};

static void parse_job(void *arg)
{
	struct job *j = arg;
	j->m = twir_module_new(j->a);
	twir_parse(j->m, j->name, j->text);
	for (int i = 0; j->verify && i < j->m->programs.n; i++)
		twir_verify_program(j->m, j->m->programs.at[i], TW_ERR_MODEL);
	for (int i = 0; j->verify && i < j->m->computes.n; i++)
		twir_verify_compute(j->m, j->m->computes.at[i], TW_ERR_MODEL);
	for (int i = 0; j->verify && i < j->m->funcs.n; i++)
		twir_verify_func(j->m, j->m->funcs.at[i], TW_ERR_MODEL);
	j->printed = twir_print_module(j->a, j->m);
}

static void must_parse(struct job *j)
{
	struct tw_error e;
	if (!tw_try(&e, parse_job, j)) {
		print_error("%s\n%s\n", e.text, j->text);
		fail();
	}
}

/* print(parse(print(parse(text)))) == print(parse(text)), for the module and each program alone */
static void round_trip(const char *name, const char *text)
{
	struct tw_arena *a = arena_new();
	struct job one = {.a = a, .name = name, .text = text, .verify = true};
	must_parse(&one);
	struct job two = {.a = a, .name = "printed", .text = one.printed, .verify = true};
	must_parse(&two);
	assert_string_equal(one.printed, two.printed);
	assert_int_equal(one.m->programs.n, two.m->programs.n);
	assert_int_equal(one.m->computes.n, two.m->computes.n);
	for (int i = 0; i < one.m->programs.n; i++) {
		const char *alone = twir_print_program(a, one.m, one.m->programs.at[i]);
		struct job three = {.a = a, .name = "alone", .text = alone, .verify = true};
		must_parse(&three);
		assert_string_equal(alone, twir_print_program(a, three.m, three.m->programs.at[0]));
		/* the order of the symbols is the kernel's interface */
		const struct twir_program *p = one.m->programs.at[i], *q = three.m->programs.at[0];
		assert_int_equal(p->nsymbols, q->nsymbols);
		for (int k = 0; k < p->nsymbols; k++)
			assert_string_equal(p->symbols[k]->name, q->symbols[k]->name);
	}
	arena_free(a);
}

static void each_of_corpus(void (*run)(const char *name, const char *text))
{
	struct tw_arena *a = arena_new();
	DIR *dir = opendir(TW_SOURCE_DIR "/test/ir");
	assert_non_null(dir);
	int n = 0;
	for (struct dirent *d; (d = readdir(dir));) {
		const char *dot = strrchr(d->d_name, '.');
		if (!dot || strcmp(dot, ".tw") != 0)
			continue;
		char *text = read_file(a, arena_printf(a, "%s/test/ir/%s", TW_SOURCE_DIR, d->d_name));
		assert_non_null(text);
		run(d->d_name, text);
		n++;
	}
	closedir(dir);
	arena_free(a);
	assert_true(n >= 14);
}

static void corpus(void **state)
{
	(void)state;
	each_of_corpus(round_trip);
}

int main(int argc, char **argv)
{
	if (argc > 1) {
		struct tw_arena *a = arena_new();
		struct job j = {.a = a, .name = argv[1], .text = read_file(a, argv[1]), .verify = true};
		struct tw_error e;
		const bool ok = j.text && tw_try(&e, parse_job, &j);
		if (ok)
			fputs(j.printed, stdout);
		else
			fprintf(stderr, "%s\n", j.text ? e.text : "cannot read the file");
		arena_free(a);
		return !ok;
	}
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(corpus),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
