/* rooms: base target */
/* test_target.c: facts about the machine: consistent with what the system tells. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#include "target/target_int.h"

#define UNUSED __attribute__((unused))

static void host(void *arg)
{
	tw_target_host(arg);
}

static void names(void **state UNUSED)
{
	for (int i = 0; i < TW_ISA_COUNT; i++) {
		enum tw_isa isa;
		assert_true(tw_isa_parse(tw_isa_name((enum tw_isa)i), &isa));
		assert_int_equal(isa, i);
	}
	enum tw_isa isa;
	assert_false(tw_isa_parse("sse9", &isa));
	assert_false(tw_isa_parse("", &isa));
	assert_string_equal(tw_isa_name(TW_ISA_AVX512), "avx512");
	assert_string_equal(tw_isa_name((enum tw_isa)77), "unknown");
}

static void machine(void **state UNUSED)
{
	unsetenv("TILEWRIGHT_ISA");
	struct tw_target t;
	struct tw_error e;
	assert_true(tw_try(&e, host, &t));
	assert_true(tw_isa_runs_here(t.isa));
	assert_true(t.isa != TW_ISA_SCALAR);
	for (int i = t.isa + 1; i < TW_ISA_COUNT; i++)
		assert_false(tw_isa_runs_here((enum tw_isa)i));
	assert_true(t.cores >= 1 && t.cores <= sysconf(_SC_NPROCESSORS_ONLN));
	assert_true(t.l1_bytes >= 4096 && t.l1_bytes <= t.l2_bytes);
	assert_true(t.l3_bytes >= 65536);
	assert_true(strlen(t.cpu) > 0);
	assert_int_equal(t.vector_bytes, t.lanes * 4);
}

/* The flags line of /proc/cpuinfo, the system's own reading, must agree. */
static void agrees_with_the_system(void **state UNUSED)
{
	FILE *f = fopen("/proc/cpuinfo", "r");
	static char line[65536];
	bool flags = false;
	while (f && !flags && fgets(line, sizeof(line), f))
		flags = strncmp(line, "flags", 5) == 0;
	if (f)
		fclose(f);
	if (!flags)
		skip();
	line[strcspn(line, "\n")] = ' ';
	assert_int_equal(tw_isa_runs_here(TW_ISA_AVX2), strstr(line, " avx2 ") && strstr(line, " fma "));
	assert_int_equal(tw_isa_runs_here(TW_ISA_AVX512), strstr(line, " avx512f ") && strstr(line, " avx512bw ") &&
								  strstr(line, " avx512dq ") &&
								  strstr(line, " avx512vl "));
	assert_int_equal(tw_isa_runs_here(TW_ISA_AVX512_VNNI),
			 tw_isa_runs_here(TW_ISA_AVX512) && strstr(line, " avx512_vnni "));
}

static void chosen(void **state UNUSED)
{
	struct tw_target t;
	struct tw_error e;
	setenv("TILEWRIGHT_ISA", "scalar", 1);
	assert_true(tw_try(&e, host, &t));
	assert_int_equal(t.isa, TW_ISA_SCALAR);
	assert_int_equal(t.vector_bytes, 0);
	assert_int_equal(t.lanes, 16);
	setenv("TILEWRIGHT_ISA", "generic", 1);
	assert_true(tw_try(&e, host, &t));
	assert_int_equal(t.lanes, 4);
	setenv("TILEWRIGHT_ISA", "mmx", 1);
	assert_false(tw_try(&e, host, &t));
	assert_int_equal(e.code, TW_ERR_USAGE);
	assert_non_null(strstr(e.text, "mmx"));
	for (int i = 0; i < TW_ISA_COUNT; i++) {
		setenv("TILEWRIGHT_ISA", tw_isa_name((enum tw_isa)i), 1);
		assert_int_equal(tw_try(&e, host, &t), tw_isa_runs_here((enum tw_isa)i));
	}
	setenv("TILEWRIGHT_ISA", "", 1);
	assert_true(tw_try(&e, host, &t));
	unsetenv("TILEWRIGHT_ISA");
	tw_target_with_isa(&t, TW_ISA_AVX2);
	assert_int_equal(t.lanes, 8);
	assert_int_equal(t.vector_registers, 16);
	assert_true(t.has_fma);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names),
		cmocka_unit_test(machine),
		cmocka_unit_test(agrees_with_the_system),
		cmocka_unit_test(chosen),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
