/* cgroup.c: how much processor time and memory the control groups of this process grant.
 *
 * Input: /proc/self/cgroup and the groups' files, versions 1 and 2. Output: whole processors, rounded up, or bytes; 0 where nothing
 * limits. A limit of a group holds for all groups below it, so every group from the process's own up to the top is asked. Inside a
 * container the path may be one that is not visible here: files that cannot be read limit nothing. */
#include "base/base.h"

#include <stdio.h>
#include <stdlib.h>

#define MAX_PATH 2048

/* What is limited: the controller of version 1, and the limit that one group sets itself (0: none). */
struct resource {
	const char *controller;
	int64_t (*limit)(const char *folder);
};

/* Reads up to two numbers from a file; "max" ends the reading. Returns how many were there. */
static int read_numbers(const char *folder, const char *file, long long out[2])
{
	char path[MAX_PATH + 64];
	snprintf(path, sizeof(path), "%s/%s", folder, file);
	FILE *f = fopen(path, "re");
	if (!f)
		return 0;
	const int n = fscanf(f, "%lld %lld", &out[0], &out[1]);
	fclose(f);
	return n < 0 ? 0 : n;
}

static int64_t whole(long long quota, long long period)
{
	if (quota <= 0 || period <= 0)
		return 0;
	const long long n = quota / period + (quota % period != 0);
	return n > INT32_MAX ? 0 : n;
}

static int64_t group_cpus(const char *folder)
{
	long long two[2], quota[2], period[2];
	if (read_numbers(folder, "cpu.max", two) == 2)
		return whole(two[0], two[1]);
	if (read_numbers(folder, "cpu.cfs_quota_us", quota) >= 1 &&
	    read_numbers(folder, "cpu.cfs_period_us", period) >= 1)
		return whole(quota[0], period[0]);
	return 0;
}

static int64_t group_memory(const char *folder)
{
	long long bytes[2];
	if (read_numbers(folder, "memory.max", bytes) < 1 && read_numbers(folder, "memory.limit_in_bytes", bytes) < 1)
		return 0;
	return bytes[0] > 0 ? bytes[0] : 0;
}

static int64_t smaller(int64_t a, int64_t b)
{
	if (a == 0 || b == 0)
		return a + b;
	return a < b ? a : b;
}

/* The strictest limit from mount/path up to the mount itself. */
static int64_t path_limit(const struct resource *r, const char *mount, const char *path)
{
	char folder[MAX_PATH];
	if ((size_t)snprintf(folder, sizeof(folder), "%s%s", mount, path) >= sizeof(folder))
		return 0;
	int64_t best = 0;
	for (;;) {
		best = smaller(best, r->limit(folder));
		char *slash = strrchr(folder, '/');
		if (strlen(folder) <= strlen(mount) || !slash)
			return best;
		*slash = 0;
	}
}

/* Whether the comma-separated list of controllers has one. */
static bool names(const char *list, const char *controller)
{
	for (const char *at = list;; at++) {
		const size_t n = strcspn(at, ",");
		if (n == strlen(controller) && memcmp(at, controller, n) == 0)
			return true;
		at += n;
		if (!*at)
			return false;
	}
}

/* One line of /proc/self/cgroup: "number:controllers:path"; version 2 has number 0 and no controllers. */
static int64_t line_limit(const struct resource *r, const char *root, char *line)
{
	line[strcspn(line, "\n")] = 0;
	char *controllers = strchr(line, ':');
	char *path = controllers ? strchr(controllers + 1, ':') : NULL;
	if (!path)
		return 0;
	*controllers++ = 0;
	*path++ = 0;
	char mount[MAX_PATH];
	if (!*controllers) {
		snprintf(mount, sizeof(mount), "%s/sys/fs/cgroup", root);
		const int64_t best = path_limit(r, mount, path);
		/* Where both versions are in use, version 2 lies beside the controllers of version 1. */
		snprintf(mount, sizeof(mount), "%s/sys/fs/cgroup/unified", root);
		return smaller(best, path_limit(r, mount, path));
	}
	if (!names(controllers, r->controller))
		return 0;
	snprintf(mount, sizeof(mount), "%s/sys/fs/cgroup/%s", root, controllers);
	const int64_t best = path_limit(r, mount, path);
	snprintf(mount, sizeof(mount), "%s/sys/fs/cgroup/%s", root, r->controller);
	return smaller(best, path_limit(r, mount, path));
}

static int64_t strictest(const struct resource *r, const char *root)
{
	char path[MAX_PATH], line[MAX_PATH];
	snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
	FILE *f = fopen(path, "re");
	if (!f)
		return 0;
	int64_t best = 0;
	while (fgets(line, sizeof(line), f))
		best = smaller(best, line_limit(r, root, line));
	fclose(f);
	return best;
}

int tw_cgroup_cpus(const char *root)
{
	return (int)strictest(&(struct resource){"cpu", group_cpus}, root);
}

int64_t tw_cgroup_memory(const char *root)
{
	return strictest(&(struct resource){"memory", group_memory}, root);
}
