/* tmap_layout.c: register layouts that mirror mappings.
 *
 * Input: a mapping, a task. Output: how many elements a worker keeps, and which of them is the task's.
 * Invariants: the tasks of one worker lie in different places, and all places are used: the task at position k of the list lies at k.
 * Spatial factors take no storage, as each worker has one of their tasks. */
#include "tmap/tmap.h"

int64_t twtm_register_size(const struct twtm_map *f)
{
	return twtm_tasks_per_worker(f);
}

int64_t twtm_register_offset(const struct twtm_map *f, const int64_t *task)
{
	if (f->kind == TWTM_REPEAT) {
		int64_t offset = 0;
		for (int r = 0; r < f->rank; r++) {
			for (int i = 0; i < f->rank; i++) {
				if (f->order[i] == r)
					offset = offset * f->extent[i] + task[i];
			}
		}
		return offset;
	}
	if (f->kind != TWTM_COMPOSE)
		return 0;
	int64_t inner[TWTM_MAX_RANK], p[TWTM_MAX_RANK], q[TWTM_MAX_RANK];
	twtm_shape(f->b, inner);
	for (int i = 0; i < f->rank; i++) {
		p[i] = tw_floordiv(task[i], inner[i]);
		q[i] = tw_floormod(task[i], inner[i]);
	}
	return twtm_register_offset(f->a, p) * twtm_register_size(f->b) + twtm_register_offset(f->b, q);
}
