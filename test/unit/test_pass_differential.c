/* rooms: base tmap target ir pass */
/* Programs of test/pass/programs, interpreted as they stand and after every pass: the same bits. @L in a text is the
 * number of lanes; those of test/pass/gpu likewise. "# sizes: M=0,1,17 N=5" lists values of each symbol: all combinations run. With arguments: FOLDER/NAME
 * [isa lanes] prints the stages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "pass_support.h"

struct sizes {
	int n;
	const char *symbol[8];
	int nvalues[8];
	int64_t value[8][32];
};

static void parse_sizes(struct tw_arena *a, const char *text, struct sizes *s)
{
	char *at = support_directive(a, text, "sizes");
	s->n = 0;
	while (at && *at) {
		char *eq = strchr(at, '=');
		if (!eq || s->n == 8)
			break;
		s->symbol[s->n] = arena_strndup(a, at, (size_t)(eq - at));
		at = eq;
		int n = 0;
		do
			s->value[s->n][n++] = strtoll(at + 1, &at, 10);
		while (*at == ',' && n < 32);
		s->nvalues[s->n++] = n;
		at += strspn(at, " ");
	}
}

static const struct {
	enum tw_isa isa;
	int lanes;
} targets[] = {{TW_ISA_AVX512, 16}, {TW_ISA_AVX2, 8}, {TW_ISA_GENERIC, 4}, {TW_ISA_SCALAR, 16}};

static int run_file(const char *file, int target, bool dump)
{
	struct tw_arena *a = arena_new();
	char *text = support_read(a, arena_printf(a, "%s/test/pass/%s", TW_SOURCE_DIR, file));
	struct sizes s;
	int failed = 0;
	const bool gpu = strncmp(file, "gpu/", 4) == 0;
	if (!text)
		return 1;
	text = support_replace(a, text, "@L", arena_printf(a, "%d", targets[target].lanes));
	parse_sizes(a, text, &s);
	int nsets = 1, at[8] = {0};
	for (int i = 0; i < s.n; i++)
		nsets *= s.nvalues[i];
	int64_t *values = ARENA_ARRAY(a, int64_t, nsets * s.n);
	for (int n = 0; n < nsets; n++) {
		int i = 0;
		for (int k = 0; k < s.n; k++)
			values[n * s.n + k] = s.value[k][at[k]];
		while (i < s.n && ++at[i] == s.nvalues[i])
			at[i++] = 0;
	}
	struct support_case c = {.name = file,
				 .text = text,
				 .nsizes = s.n,
				 .symbols = s.symbol,
				 .nsets = nsets,
				 .sizes = values,
				 .target = support_target(targets[target].isa, targets[target].lanes),
				 .dump = dump};
	struct tw_error e;
	if (gpu && !tw_target_gpu(&c.target, "sm_90"))
		return 1;
	if (!support_differential(&c, 1 + (uint64_t)target, &e)) {
		failed++;
		fprintf(stderr, "%s, %s: %s\n", file, tw_isa_name(targets[target].isa), e.text);
	}
	arena_free(a);
	return failed;
}

static void run_folder(const char *folder, int ntargets)
{
	struct tw_arena *a = arena_new();
	char **names;
	int failed = 0;
	const int n = support_list(a, arena_printf(a, "%s/test/pass/%s", TW_SOURCE_DIR, folder), &names);
	for (int i = 0; i < n; i++)
		for (int t = 0; t < ntargets; t++)
			failed += run_file(arena_printf(a, "%s/%s", folder, names[i]), t, false);
	arena_free(a);
	assert_true(n > 0);
	assert_int_equal(failed, 0);
}

static void programs(void **state)
{
	(void)state;
	run_folder("programs", TW_COUNT(targets));
}

/* Launched on blocks: the instruction set means nothing to them. */
static void gpu_programs(void **state)
{
	(void)state;
	run_folder("gpu", 1);
}

int main(int argc, char **argv)
{
	if (argc > 1) {
		const int t = argc > 2 ? atoi(argv[2]) : 0;
		return t < 0 || t >= TW_COUNT(targets) ? 2 : run_file(argv[1], t, true) != 0;
	}
	const struct CMUnitTest tests[] = {cmocka_unit_test(programs), cmocka_unit_test(gpu_programs)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
