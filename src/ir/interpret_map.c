/* interpret_map: the tasks of one worker of a mapping, in order, as an odometer. A mapping is flattened to its
 * factors (leaves); a task's coordinate is the sum over the factors of digit * stride, where the stride is the
 * product of the later factors' extents. Digits of spatial factors come from the worker's number, digits of repeats
 * turn. */
#include "ir/interpret_int.h"

static int64_t leaf_extent(const struct twiri_leaf *l, const union twiri_slot *s, int dim)
{
	return s[l->extent[dim]].i;
}

/* Extents below zero have no task, as a loop over them has no iteration. */
int64_t twiri_site_workers(const struct twiri_site *site, const union twiri_slot *s)
{
	int64_t workers = 1;
	for (int l = 0; l < site->nleaves; l++)
		for (int d = 0; d < site->rank && site->leaves[l].spatial; d++) {
			const int64_t e = leaf_extent(&site->leaves[l], s, d);
			if (__builtin_mul_overflow(workers, e < 0 ? 0 : e, &workers))
				return INT64_MAX;
		}
	return workers;
}

/* Puts the first task of the worker into the variables; false: there is none. */
bool twiri_map_start(const struct twiri_site *site, union twiri_slot *s, int64_t worker)
{
	int64_t stride[TWIR_MAX_RANK];
	for (int d = 0; d < site->rank; d++) {
		stride[d] = 1;
		s[site->var + d].i = 0;
	}
	int digit = site->ndigits;
	for (int l = site->nleaves - 1; l >= 0; l--) {
		const struct twiri_leaf *leaf = &site->leaves[l];
		for (int k = site->rank - 1; k >= 0; k--) {
			const int d = leaf->order[k];
			const int64_t e = leaf_extent(leaf, s, d);
			if (e <= 0)
				return false;
			const int64_t step = leaf->projected >> d & 1 ? 0 : stride[d];
			if (leaf->spatial) {
				s[site->var + d].i += worker % e * step;
				worker /= e;
			} else {
				digit--;
				s[site->state + 3 * digit].i = e;
				s[site->state + 3 * digit + 1].i = step;
				s[site->state + 3 * digit + 2].i = 0;
			}
		}
		for (int d = 0; d < site->rank; d++)
			if (!(leaf->projected >> d & 1) &&
			    __builtin_mul_overflow(stride[d], leaf_extent(leaf, s, d), &stride[d]))
				return false;
	}
	return worker == 0;
}

bool twiri_map_step(const struct twiri_site *site, union twiri_slot *s)
{
	for (int digit = site->ndigits - 1; digit >= 0; digit--) {
		union twiri_slot *at = &s[site->state + 3 * digit];
		union twiri_slot *var = &s[site->var + site->dim[digit]];
		if (++at[2].i < at[0].i) {
			var->i += at[1].i;
			return true;
		}
		var->i -= at[1].i * (at[0].i - 1);
		at[2].i = 0;
	}
	return false;
}

bool twiri_map_inside(const struct twiri_site *site, const union twiri_slot *s)
{
	for (int d = 0; d < site->rank; d++)
		if (site->bound[d] >= 0 && s[site->var + d].i >= s[site->bound[d]].i)
			return false;
	return true;
}

bool twiri_map_begin(struct twiri_machine *x, struct twiri_frame *f, const struct twiri_site *site)
{
	int64_t worker = 0, there = 1;
	for (int k = 0; k < site->nlevels; k++) {
		const enum twir_level level = site->levels[k];
		worker = worker * x->extent[level] + f->s[x->worker_slot[level]].i;
		if (__builtin_mul_overflow(there, x->extent[level], &there))
			there = INT64_MAX;
	}
	const int64_t workers = twiri_site_workers(site, f->s);
	if (workers > there)
		twiri_fail(x, site->stmt, NULL, "the mapping has %lld workers, but only %lld are launched",
			   (long long)workers, (long long)there);
	if (worker >= workers || !twiri_map_start(site, f->s, worker))
		return false;
	for (; !twiri_map_inside(site, f->s); twiri_step(x, 1))
		if (!twiri_map_step(site, f->s))
			return false;
	return true;
}
