/* topology.c: caches, cores and the processor's name, as hwloc sees the machine.
 *
 * Input: the machine. Output: sizes for one core, the physical cores that this process may run on, a name.
 * Invariant: nothing is 0. What the system does not tell is guessed low: blocking for a smaller cache costs little. */
#include "target/target_int.h"

#include <hwloc.h>
#include <stdio.h>
#include <unistd.h>

#define GUESS_L1 ((int64_t)32 << 10)
#define GUESS_L2 ((int64_t)512 << 10)
#define GUESS_L3 ((int64_t)2 << 20)
/* A virtual machine shows few of the cores that share its last cache, and would promise each of them most of it. */
#define MOST_L3 ((int64_t)16 << 20)

static int cores_below(hwloc_topology_t topology, hwloc_const_cpuset_t set)
{
	const int n = hwloc_get_nbobjs_inside_cpuset_by_type(topology, set, HWLOC_OBJ_CORE);
	return n > 0 ? n : 1;
}

/* A core's share of the data or unified cache of a level above it; 0 where there is none or the size is unknown. */
static int64_t cache_share(hwloc_topology_t topology, hwloc_obj_t core, hwloc_obj_type_t type)
{
	const hwloc_obj_t cache = hwloc_get_ancestor_obj_by_type(topology, type, core);
	if (!cache || cache->attr->cache.size == 0 || cache->attr->cache.size > INT64_MAX)
		return 0;
	return (int64_t)cache->attr->cache.size / cores_below(topology, cache->cpuset);
}

static void least(int64_t *to, int64_t value)
{
	if (value > 0 && (*to == 0 || value < *to))
		*to = value;
}

static void read_topology(struct tw_target *t, hwloc_topology_t topology, hwloc_const_cpuset_t allowed)
{
	hwloc_obj_t core = NULL;
	t->cores = 0;
	while ((core = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_CORE, core))) {
		if (!hwloc_bitmap_intersects(core->cpuset, allowed))
			continue;
		t->cores++;
		/* Cores of two sorts: what fits the lesser one fits both. */
		least(&t->l1_bytes, cache_share(topology, core, HWLOC_OBJ_L1CACHE));
		least(&t->l2_bytes, cache_share(topology, core, HWLOC_OBJ_L2CACHE));
		least(&t->l3_bytes, cache_share(topology, core, HWLOC_OBJ_L3CACHE));
	}
	if (t->cores == 0)
		t->cores = hwloc_bitmap_weight(allowed);
	const hwloc_obj_t package = hwloc_get_obj_by_type(topology, HWLOC_OBJ_PACKAGE, 0);
	const char *name = package ? hwloc_obj_get_info_by_name(package, "CPUModel") : NULL;
	if (name)
		snprintf(t->cpu, sizeof(t->cpu), "%s", name);
}

void target_topology(struct tw_target *t)
{
	hwloc_topology_t topology;
	if (hwloc_topology_init(&topology) == 0) {
		hwloc_bitmap_t allowed = hwloc_bitmap_alloc();
		/* The binding is this thread's affinity mask. */
		if (allowed && hwloc_topology_load(topology) == 0) {
			if (hwloc_get_cpubind(topology, allowed, HWLOC_CPUBIND_THREAD) != 0)
				hwloc_bitmap_copy(allowed, hwloc_topology_get_allowed_cpuset(topology));
			read_topology(t, topology, allowed);
		}
		hwloc_bitmap_free(allowed);
		hwloc_topology_destroy(topology);
	}
	if (t->cores <= 0)
		t->cores = (int)sysconf(_SC_NPROCESSORS_ONLN);
	if (t->cores <= 0)
		t->cores = 1;
	if (t->l1_bytes <= 0)
		t->l1_bytes = GUESS_L1;
	if (t->l2_bytes <= 0)
		t->l2_bytes = GUESS_L2;
	if (t->l3_bytes <= 0)
		t->l3_bytes = GUESS_L3;
	if (t->l3_bytes > MOST_L3)
		t->l3_bytes = MOST_L3;
	if (!t->cpu[0])
		snprintf(t->cpu, sizeof(t->cpu), "unknown processor");
}
