/* tmap_same.c: whether two mappings give every worker the same tasks in the same order, whatever they are built of.
 *
 * Input: two mappings. Output: yes or no, without going through the tasks.
 * How: a coordinate of a task is a number in mixed radix whose digits are taken out of the worker's number or of the position in its list:
 * digit = source / stride % extent. Digits of extent 1 are nothing, and two neighbours that continue each other in the same source are
 * one. What remains is unique: along a source, the first step that changes a coordinate shows a digit's stride and weight, the step that
 * breaks the line its extent, and merging has removed all boundaries that do not break a line. */
#include "tmap/tmap.h"

#define MAX_DIGITS 256 /* a mapping has at most 256 nodes, and a dimension at most one digit of each */

enum source { WORKER, POSITION };

struct digit {
	enum source source;
	int64_t stride, extent;
};

struct digits { /* of one dimension, the fastest first */
	int n;
	struct digit at[MAX_DIGITS];
};

static void add_digit(struct digits *d, struct digit x)
{
	if (x.extent == 1)
		return;
	if (d->n) {
		struct digit *last = &d->at[d->n - 1];
		if (last->source == x.source && x.stride == last->stride * last->extent) {
			last->extent *= x.extent;
			return;
		}
	}
	d->at[d->n++] = x;
}

/* Adds the digits of dimension `dim` of f, fastest first; *stride[source] is how fast f's own numbering runs in the whole mapping's. With
   `hidden` the digits are only counted past: the dimension is projected away. */
static void collect(const struct twtm_map *f, int dim, int64_t stride[2], bool hidden, struct digits *out)
{
	if (f->kind == TWTM_COMPOSE) {
		collect(f->b, dim, stride, hidden, out);
		collect(f->a, dim, stride, hidden, out);
		return;
	}
	if (f->kind == TWTM_PROJECT) {
		collect(f->a, dim, stride, hidden || (f->projected >> dim & 1), out);
		return;
	}
	const enum source source = f->kind == TWTM_SPATIAL ? WORKER : POSITION;
	int64_t own = stride[source], all = 1;
	for (int i = 0; i < f->rank; i++) {
		if (f->order[i] > f->order[dim])
			own *= f->extent[i];
		all *= f->extent[i];
	}
	if (!hidden)
		add_digit(out, (struct digit){source, own, f->extent[dim]});
	stride[source] *= all;
}

bool twtm_same(const struct twtm_map *f, const struct twtm_map *g)
{
	if (f->rank != g->rank || twtm_workers(f) != twtm_workers(g) ||
	    twtm_tasks_per_worker(f) != twtm_tasks_per_worker(g))
		return false;
	int64_t s[TWTM_MAX_RANK], t[TWTM_MAX_RANK];
	twtm_shape(f, s);
	twtm_shape(g, t);
	if (memcmp(s, t, sizeof(*s) * (size_t)f->rank) != 0)
		return false;
	if (twtm_workers(f) == 0 || twtm_tasks_per_worker(f) == 0)
		return true;
	for (int dim = 0; dim < f->rank; dim++) {
		struct digits a = {.n = 0}, b = {.n = 0};
		collect(f, dim, (int64_t[2]){1, 1}, false, &a);
		collect(g, dim, (int64_t[2]){1, 1}, false, &b);
		if (a.n != b.n)
			return false;
		for (int i = 0; i < a.n; i++) {
			if (a.at[i].source != b.at[i].source || a.at[i].stride != b.at[i].stride ||
			    a.at[i].extent != b.at[i].extent)
				return false;
		}
	}
	return true;
}
