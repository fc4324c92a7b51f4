/* How many threads are worth running: the physical cores in this process's affinity mask, bounded by its cgroup's
 * processor quota. */
#define _GNU_SOURCE
#include "rt_int.h"

#include <sched.h>
#include <stdio.h>

static int
first_sibling(int cpu) /* the lowest-numbered thread of the same core; cpu itself when the system does not tell */
{
	char path[96];
	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
	FILE *f = fopen(path, "re");
	if (f == NULL)
		return cpu;
	int first = cpu;
	if (fscanf(f, "%d", &first) != 1)
		first = cpu;
	fclose(f);
	return first;
}

static int affinity_cores(void)
{
	enum { MOST = 4096 };
	cpu_set_t set[MOST / CPU_SETSIZE + 1];
	if (sched_getaffinity(0, sizeof(set), set) != 0)
		return 1;
	bool seen[MOST] = {false};
	int n = 0;
	for (int cpu = 0; cpu < MOST; cpu++) {
		if (!CPU_ISSET_S(cpu, sizeof(set), set))
			continue;
		const int core = first_sibling(cpu);
		if (core < 0 || core >= MOST || seen[core])
			continue;
		seen[core] = true;
		n++;
	}
	return n;
}

static int quota_of(const char *folder) /* 0: none */
{
	char path[1200];
	long long quota = 0, period = 0;
	snprintf(path, sizeof(path), "%s/cpu.max", folder);
	FILE *f = fopen(path, "re");
	if (f == NULL)
		return 0;
	const bool both = fscanf(f, "%lld %lld", &quota, &period) == 2;
	fclose(f);
	if (!both || quota <= 0 || period <= 0)
		return 0;
	const long long cores = (quota + period - 1) / period;
	return cores > 1 << 20 ? 0 : (int)cores;
}

static int quota_v1(void)
{
	long long quota = 0, period = 0;
	FILE *q = fopen("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "re"),
	     *p = fopen("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "re");
	const bool both = q && p && fscanf(q, "%lld", &quota) == 1 && fscanf(p, "%lld", &period) == 1;
	if (q)
		fclose(q);
	if (p)
		fclose(p);
	return both && quota > 0 && period > 0 ? (int)((quota + period - 1) / period) : 0;
}

static int quota(void)
{
	int best = quota_v1();
	char line[1024], folder[1100];
	FILE *f = fopen("/proc/self/cgroup", "re");
	if (f == NULL)
		return best;
	while (fgets(line, sizeof(line), f)) {
		if (strncmp(line, "0::/", 4) != 0)
			continue;
		line[strcspn(line, "\n")] = '\0';
		snprintf(folder, sizeof(folder), "/sys/fs/cgroup%s", line + 3);
		/* A quota holds for everything below it. */
		for (char *end = folder + strlen(folder); end >= folder + strlen("/sys/fs/cgroup");
		     end = strrchr(folder, '/')) {
			*end = '\0';
			const int q = quota_of(folder);
			if (q > 0 && (best == 0 || q < best))
				best = q;
		}
	}
	fclose(f);
	return best;
}

int twrt_cpus(void)
{
	const int cores = affinity_cores(), limit = quota();
	const int n = limit > 0 && limit < cores ? limit : cores;
	return n > 0 ? n : 1;
}
