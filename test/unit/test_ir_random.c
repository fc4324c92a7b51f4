/* rooms: base tmap ir */
/* Random modules (random_module.c): they verify, print, parse to the same expressions, verify and print to the same bytes.
 * TW_SEED and TW_COUNT choose others, TILEWRIGHT_LONG_TESTS takes 10000; a failure prints its seed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "ir/ir_int.h"
#include "random_module.h"

/* the check */

struct job {
	struct tw_arena *a;
	uint64_t seed;
	struct twir_module *m;
	const char *text;
	struct twir_module *parsed;
	const char *again;
	const char *trouble;
};

static void verify_all(struct twir_module *m)
{
	for (int i = 0; i < m->funcs.n; i++)
		twir_verify_func(m, m->funcs.at[i], TW_ERR_INTERNAL);
	for (int i = 0; i < m->computes.n; i++)
		twir_verify_compute(m, m->computes.at[i], TW_ERR_INTERNAL);
	for (int i = 0; i < m->programs.n; i++)
		twir_verify_program(m, m->programs.at[i], TW_ERR_INTERNAL);
	for (int i = 0; i < m->launches.n; i++)
		twir_verify_launch(m, m->launches.at[i], TW_ERR_INTERNAL);
}

/* Definitions read back into the same module are the same expressions, up to the axes. */
static bool same_definitions(struct job *j)
{
	struct twir_module *m = j->m;
	const int n = m->computes.n;
	for (int i = 0; i < m->tensors.n; i++)
		m->tensors.at[i]->base = arena_printf(j->a, "in%d", i);
	for (int i = 0; i < n; i++)
		m->computes.at[i]->out->base = arena_printf(j->a, "def%d", i);
	for (int i = 0; i < n; i++) {
		const struct twir_compute *c = m->computes.at[i];
		const char *base = c->out->base;
		c->out->base = "copy"; /* declared anew under another name */
		const char *text = twir_print_compute(j->a, c);
		c->out->base = base;
		twir_parse(m, "definition", text);
		const struct twir_compute *d = m->computes.at[m->computes.n - 1];
		m->computes.n = n;
		struct twir_pairs pairs = {.n = c->out->rank};
		for (int k = 0; k < c->out->rank; k++) {
			pairs.left[k] = c->axes[k];
			pairs.right[k] = d->axes[k];
		}
		if (!twir_same_expr(&pairs, c->value, d->value)) {
			j->text = text;
			return false;
		}
	}
	return true;
}

static void run(void *arg)
{
	struct job *j = arg;
	j->trouble = "making";
	j->m = random_module(j->a, j->seed);
	j->trouble = "verifying";
	j->text = twir_print_module(j->a, j->m);
	verify_all(j->m);
	j->trouble = "parsing";
	j->parsed = twir_module_new(j->a);
	twir_parse(j->parsed, "printed", j->text);
	j->trouble = "verifying what was parsed";
	verify_all(j->parsed);
	j->again = twir_print_module(j->a, j->parsed);
	j->trouble = "round trip of the module";
	if (strcmp(j->text, j->again) != 0)
		tw_raise(TW_ERR_INTERNAL, "the text differs:\n%.3000s", j->again);
	j->trouble = "round trip of a program";
	for (int i = 0; i < j->parsed->programs.n; i++) {
		const char *alone = twir_print_program(j->a, j->parsed, j->parsed->programs.at[i]);
		struct twir_module *m = twir_module_new(j->a);
		twir_parse(m, "alone", alone);
		if (strcmp(alone, twir_print_program(j->a, m, m->programs.at[0])) != 0)
			tw_raise(TW_ERR_INTERNAL, "the text differs:\n%.3000s", alone);
	}
	j->trouble = "copy of a body";
	for (int i = 0; i < j->parsed->programs.n; i++) {
		struct twir_program *p = j->parsed->programs.at[i];
		struct twir_subst s;
		twir_subst_init(&s, j->parsed);
		p->body = twir_subst_block(&s, p->body);
		twir_verify_program(j->parsed, p, TW_ERR_INTERNAL);
	}
	if (strcmp(j->text, twir_print_module(j->a, j->parsed)) != 0)
		tw_raise(TW_ERR_INTERNAL, "the copy's text differs:\n%.3000s", twir_print_module(j->a, j->parsed));
	j->trouble = "expressions of a definition";
	if (!same_definitions(j))
		tw_raise(TW_ERR_INTERNAL, "it is another expression");
}

static void random_modules(void **state)
{
	(void)state;
	const char *from = getenv("TW_SEED"), *count = getenv("TW_COUNT");
	const uint64_t first = from ? strtoull(from, NULL, 10) : 1;
	const int n = count ? atoi(count) : getenv("TILEWRIGHT_LONG_TESTS") ? 10000 : 1000;
	print_message("seeds %llu to %llu\n", (unsigned long long)first, (unsigned long long)first + (unsigned)n - 1);
	for (int i = 0; i < n; i++) {
		struct job j = {.a = arena_new()};
		struct tw_error e;
		j.seed = (first + (uint64_t)i) * 0x9e3779b97f4a7c15u;
		if (!tw_try(&e, run, &j)) {
			print_error("seed %llu, %s: %s\n%s\n", (unsigned long long)first + (unsigned)i, j.trouble,
				    e.text, j.text ? j.text : "");
			fail();
		}
		arena_free(j.a);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(random_modules)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
