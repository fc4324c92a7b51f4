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

int twrt_cpus(void)
{
	const int cores = affinity_cores(), limit = tw_cgroup_cpus("");
	const int n = limit > 0 && limit < cores ? limit : cores;
	return n > 0 ? n : 1;
}
