/* quota.c: how much processor time the control groups of this process grant.
 *
 * Input: /proc/self/cgroup and the groups' files, versions 1 and 2. Output: whole processors, rounded up; 0 where nothing limits.
 * A limit of a group holds for all groups below it, so every group from the process's own up to the top is asked. Inside a container
 * the path may be one that is not visible here: files that cannot be read limit nothing. */
#include "target/target_int.h"

#include <stdio.h>
#include <stdlib.h>

#define MAX_PATH 2048

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

static int whole(long long quota, long long period)
{
	if (quota <= 0 || period <= 0)
		return 0;
	const long long n = quota / period + (quota % period != 0);
	return n > INT32_MAX ? 0 : (int)n;
}

/* The limit that one group sets itself. */
static int group_quota(const char *folder)
{
	long long two[2], quota[2], period[2];
	if (read_numbers(folder, "cpu.max", two) == 2)
		return whole(two[0], two[1]);
	if (read_numbers(folder, "cpu.cfs_quota_us", quota) >= 1 &&
	    read_numbers(folder, "cpu.cfs_period_us", period) >= 1)
		return whole(quota[0], period[0]);
	return 0;
}

static int smaller(int a, int b)
{
	if (a == 0 || b == 0)
		return a + b;
	return a < b ? a : b;
}

/* The strictest limit from mount/path up to the mount itself. */
static int path_quota(const char *mount, const char *path)
{
	char folder[MAX_PATH];
	if ((size_t)snprintf(folder, sizeof(folder), "%s%s", mount, path) >= sizeof(folder))
		return 0;
	int best = 0;
	for (;;) {
		best = smaller(best, group_quota(folder));
		char *slash = strrchr(folder, '/');
		if (strlen(folder) <= strlen(mount) || !slash)
			return best;
		*slash = 0;
	}
}

/* Whether the comma-separated list of controllers names cpu. */
static bool has_cpu(const char *list)
{
	for (const char *at = list;; at++) {
		const size_t n = strcspn(at, ",");
		if (n == 3 && memcmp(at, "cpu", 3) == 0)
			return true;
		at += n;
		if (!*at)
			return false;
	}
}

/* One line of /proc/self/cgroup: "number:controllers:path"; version 2 has number 0 and no controllers. */
static int line_quota(const char *root, char *line)
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
		const int best = path_quota(mount, path);
		/* Where both versions are in use, version 2 lies beside the controllers of version 1. */
		snprintf(mount, sizeof(mount), "%s/sys/fs/cgroup/unified", root);
		return smaller(best, path_quota(mount, path));
	}
	if (!has_cpu(controllers))
		return 0;
	snprintf(mount, sizeof(mount), "%s/sys/fs/cgroup/%s", root, controllers);
	const int best = path_quota(mount, path);
	snprintf(mount, sizeof(mount), "%s/sys/fs/cgroup/cpu", root);
	return smaller(best, path_quota(mount, path));
}

int target_quota(const char *root)
{
	char path[MAX_PATH], line[MAX_PATH];
	snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
	FILE *f = fopen(path, "re");
	if (!f)
		return 0;
	int best = 0;
	while (fgets(line, sizeof(line), f))
		best = smaller(best, line_quota(root, line));
	fclose(f);
	return best;
}
