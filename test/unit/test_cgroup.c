/* rooms: base */
/* test_cgroup.c: limits of processor time and memory, with control groups made up for the test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "base/base.h"

#define UNUSED __attribute__((unused))

/* A tree with proc/self/cgroup and sys/fs/cgroup, made for one test. */
static char tree[256];

static void put(const char *path, const char *text)
{
	char full[1024];
	snprintf(full, sizeof(full), "%s/%s", tree, path);
	for (char *at = full + strlen(tree) + 1; (at = strchr(at, '/')); at++) {
		*at = 0;
		mkdir(full, 0700);
		*at = '/';
	}
	FILE *f = fopen(full, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static int make_tree(void **state UNUSED)
{
	const char *place = getenv("TMPDIR");
	snprintf(tree, sizeof(tree), "%s/test_cgroup_XXXXXX", place && *place ? place : "/tmp");
	return mkdtemp(tree) ? 0 : -1;
}

static int drop_tree(void **state UNUSED)
{
	char command[512];
	snprintf(command, sizeof(command), "rm -rf '%s'", tree);
	return system(command);
}

static void no_groups(void **state UNUSED)
{
	assert_int_equal(tw_cgroup_cpus(tree), 0);
	put("proc/self/cgroup", "nonsense\n0::/gone/away\n5:cpu:/x\n");
	assert_int_equal(tw_cgroup_cpus(tree), 0);
}

static void groups_v2(void **state UNUSED)
{
	put("proc/self/cgroup", "0::/a/b\n");
	put("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
	assert_int_equal(tw_cgroup_cpus(tree), 0);
	put("sys/fs/cgroup/a/cpu.max", "250000 100000\n");
	assert_int_equal(tw_cgroup_cpus(tree), 3);
	put("sys/fs/cgroup/cpu.max", "50000 100000\n");
	assert_int_equal(tw_cgroup_cpus(tree), 1);
	put("sys/fs/cgroup/cpu.max", "-5 0\n");
	assert_int_equal(tw_cgroup_cpus(tree), 3);
}

static void groups_v1(void **state UNUSED)
{
	put("proc/self/cgroup", "7:cpuset:/c\n4:cpu,cpuacct:/job\n1:name=systemd:/\n");
	put("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "-1\n");
	put("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
	assert_int_equal(tw_cgroup_cpus(tree), 0);
	put("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "400000\n");
	assert_int_equal(tw_cgroup_cpus(tree), 4);
	/* In a container the path is the host's; the mount shows the container's own group. */
	put("proc/self/cgroup", "4:cpu,cpuacct:/docker/0123\n");
	put("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "150000\n");
	put("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
	assert_int_equal(tw_cgroup_cpus(tree), 2);
}

/* The group is the mount's own, as in a container with a name space of its own; quotas change while the program runs. */
static void changed_while_running(void **state UNUSED)
{
	put("proc/self/cgroup", "0::/\n");
	assert_int_equal(tw_cgroup_cpus(tree), 0);
	put("sys/fs/cgroup/cpu.max", "400000 100000\n");
	assert_int_equal(tw_cgroup_cpus(tree), 4);
	put("sys/fs/cgroup/cpu.max", "150000 100000\n");
	assert_int_equal(tw_cgroup_cpus(tree), 2);
	put("sys/fs/cgroup/cpu.max", "max 100000\n");
	assert_int_equal(tw_cgroup_cpus(tree), 0);
	put("proc/self/cgroup", "0::/../beside/it\n"); /* outside of what is mounted here: the mount still counts */
	put("sys/fs/cgroup/cpu.max", "100000 100000\n");
	assert_int_equal(tw_cgroup_cpus(tree), 1);
}

/* Version 1 with version 2 beside it, and groups in groups: the strictest of all. */
static void nested_groups(void **state UNUSED)
{
	put("proc/self/cgroup", "3:cpuset:/\n2:cpuacct:/a/b/c\n1:cpu:/a/b/c\n0::/x/y\n");
	put("sys/fs/cgroup/cpu/a/b/c/cpu.cfs_quota_us", "800000\n");
	put("sys/fs/cgroup/cpu/a/b/c/cpu.cfs_period_us", "100000\n");
	assert_int_equal(tw_cgroup_cpus(tree), 8);
	put("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "25000\n");
	put("sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "5000\n");
	assert_int_equal(tw_cgroup_cpus(tree), 5);
	put("sys/fs/cgroup/unified/x/cpu.max", "300000 100000\n");
	assert_int_equal(tw_cgroup_cpus(tree), 3);
	put("sys/fs/cgroup/unified/x/y/cpu.max", "600000 100000\n");
	assert_int_equal(tw_cgroup_cpus(tree), 3);
	put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000\n");
	put("sys/fs/cgroup/cpu/cpu.cfs_period_us", "0\n"); /* no period: no limit */
	assert_int_equal(tw_cgroup_cpus(tree), 3);
}

static void memory_of_groups(void **state UNUSED)
{
	assert_true(tw_cgroup_memory(tree) == 0);
	put("proc/self/cgroup", "5:memory:/a/b\n0::/a/b\n");
	put("sys/fs/cgroup/a/b/memory.max", "max\n");
	assert_true(tw_cgroup_memory(tree) == 0);
	put("sys/fs/cgroup/a/memory.max", "3000000000\n");
	assert_true(tw_cgroup_memory(tree) == 3000000000);
	put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
	assert_true(tw_cgroup_memory(tree) == 3000000000);
	put("sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "2000000\n");
	assert_true(tw_cgroup_memory(tree) == 2000000);
	put("sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "-1\n");
	assert_true(tw_cgroup_memory(tree) == 3000000000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(no_groups, make_tree, drop_tree),
		cmocka_unit_test_setup_teardown(groups_v2, make_tree, drop_tree),
		cmocka_unit_test_setup_teardown(groups_v1, make_tree, drop_tree),
		cmocka_unit_test_setup_teardown(changed_while_running, make_tree, drop_tree),
		cmocka_unit_test_setup_teardown(nested_groups, make_tree, drop_tree),
		cmocka_unit_test_setup_teardown(memory_of_groups, make_tree, drop_tree),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
