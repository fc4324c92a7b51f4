/* rooms: base tmap target ir pass */
/* Texts after a pass: test/pass/PASS/NAME.tw holds a program, a line "===", and the text expected after PASS and
 * simplification. The folder "all" runs the whole pipeline, "index" up to flattened indices and then "shift", for a GPU
 * where the program is launched on blocks: the texts there show index arithmetic, and the reasons stand above them.
 * "# isa: scalar" chooses the target, AVX-512 otherwise.
 * --update rewrites the expected texts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "pass_support.h"

static bool update;

struct one {
	struct tw_arena *a;
	struct twir_module *m;
	const char *pass, *name, *text, *out;
};

/* The passes up to flattened indices, then the last one. */
static void lower_indices(struct twir_module *m, struct twir_program *p, const struct tw_target *t)
{
	const struct tw_pass *s = tw_passes(p);
	for (bool flat = false; !flat; s++) {
		s->run(m, p, t);
		if (s->simplify)
			pass_simplify(m, p, t);
		flat = strcmp(s->name, "flatten_index") == 0;
	}
	pass_shift(m, p, t);
}

static void lower(void *arg)
{
	struct one *o = arg;
	struct twir_module *m = twir_module_new(o->a);
	twir_parse(m, o->name, o->text);
	const char *isa_name = support_directive(o->a, o->text, "isa");
	enum tw_isa isa = TW_ISA_AVX512;
	if (isa_name && !tw_isa_parse(isa_name, &isa))
		tw_raise(TW_ERR_USAGE, "%s: isa %s?", o->name, isa_name);
	struct twir_program *p = m->programs.at[0];
	struct tw_target t = support_target(isa, (int)16);
	o->m = m;
	twir_verify_program(m, p, TW_ERR_MODEL);
	if (strcmp(o->pass, "index") == 0) {
		if (p->levels[0] == TWIR_BLOCK)
			TW_CHECK(tw_target_gpu(&t, "sm_90"));
		lower_indices(m, p, &t);
	} else if (strcmp(o->pass, "all") == 0) {
		tw_lower(m, p, &t, NULL, NULL);
	} else {
		const struct tw_pass *s = tw_cpu_passes;
		while (s->name && strcmp(s->name, o->pass) != 0)
			s++;
		if (!s->name)
			tw_raise(TW_ERR_USAGE, "no pass %s", o->pass);
		s->run(m, p, &t);
		pass_simplify(m, p, &t);
	}
	twir_verify_program(m, p, TW_ERR_INTERNAL);
	if (!o->out)
		o->out = twir_print_program(o->a, m, p);
	/* what is printed is a program again */
	struct twir_module *again = twir_module_new(o->a);
	twir_parse(again, "printed", o->out);
	if (strcmp(twir_print_program(o->a, again, again->programs.at[0]), o->out) != 0)
		tw_raise(TW_ERR_INTERNAL, "%s: printing what was parsed gives another text", o->name);
}

static int check_file(struct tw_arena *a, const char *pass, const char *file)
{
	const char *path = arena_printf(a, "%s/test/pass/%s/%s", TW_SOURCE_DIR, pass, file);
	char *text = support_read(a, path), *mark = text ? strstr(text, "\n===\n") : NULL;
	struct one o = {.a = a, .pass = pass, .name = file};
	struct tw_error e;
	if (!text)
		return 1;
	const char *expected = mark ? mark + 5 : "";
	o.text = mark ? arena_strndup(a, text, (size_t)(mark - text) + 1) : text;
	if (!tw_try(&e, lower, &o)) {
		fprintf(stderr, "%s/%s: %s\n", pass, file, e.text);
		return 1;
	}
	if (strcmp(o.out, expected) == 0)
		return 0;
	if (!update) {
		fprintf(stderr, "%s/%s: expected\n%s\ngot\n%s\n", pass, file, expected, o.out);
		return 1;
	}
	FILE *f = fopen(path, "wb");
	if (!f || fprintf(f, "%s===\n%s", o.text, o.out) < 0 || fclose(f) != 0)
		return 1;
	return 0;
}

static void golden(void **state)
{
	(void)state;
	static const char *const folders[] = {
		"inline_math", "bound_within",	   "expand_mapping", "specialise", "flatten_index",
		"lower_lanes", "unroll_registers", "hoist",	     "share",	   "index",
		"all"};
	int failed = 0, count = 0;
	for (int i = 0; i < TW_COUNT(folders); i++) {
		struct tw_arena *a = arena_new();
		char **names;
		const int n = support_list(a, arena_printf(a, "%s/test/pass/%s", TW_SOURCE_DIR, folders[i]), &names);
		for (int k = 0; k < n; k++, count++)
			failed += check_file(a, folders[i], names[k]);
		arena_free(a);
	}
	assert_true(count > 0);
	assert_int_equal(failed, 0);
}

int main(int argc, char **argv)
{
	update = argc > 1 && strcmp(argv[1], "--update") == 0;
	const struct CMUnitTest tests[] = {cmocka_unit_test(golden)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
