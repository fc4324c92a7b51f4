/* The loop nest of a definition, internal to sched. */
#ifndef TW_NEST_H
#define TW_NEST_H

#include "sched/sched.h"

struct tw_nest {
	struct twir_module *m;
	int rank; /* axes that remain: sizes of 1 are gone, neighbours merged */
	struct twir_var *var[TWIR_MAX_RANK];
	const struct twir_expr *extent[TWIR_MAX_RANK];
	int nplaces; /* the definition's own axes, as expressions over var */
	const struct twir_expr *place[TWIR_MAX_RANK];
	const struct twir_expr *value; /* over var */
};

void tw_nest_init(struct tw_nest *n, struct twir_module *m, int rank, struct twir_var *const *axes,
		  const struct twir_expr *const *extents, const struct twir_expr *value);
/* Merges neighbouring axes that all loads, and a store at `place` (out, or NULL), walk through as through one. */
void tw_nest_merge(struct tw_nest *n, struct twir_tensor *out);
/* Merges short last axes by force (accesses become gathers) so that lanes are filled; gives a nest without axes one of extent 1. */
void tw_nest_flatten_short(struct tw_nest *n, int lanes);
/* How well lanes over v serve: share of accesses that are contiguous or uniform, times the share of lanes filled. */
double tw_nest_lane_score(struct tw_nest *n, const struct twir_var *v, const struct twir_expr *extent, int lanes);

#endif
