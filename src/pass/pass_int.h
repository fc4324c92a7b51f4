/* pass_int: what the passes share: statement lists, a walker that keeps facts, the factors of a mapping. */
#ifndef TW_PASS_INT_H
#define TW_PASS_INT_H

#include "pass/pass.h"

/* A list of statements that grows at its end. */
struct twp_list {
	struct twir_stmt *head, **tail;
};
static inline void twp_list_init(struct twp_list *l)
{
	l->head = NULL;
	l->tail = &l->head;
}
static inline void twp_list_add(struct twp_list *l, struct twir_stmt *s) /* s may be a list or NULL */
{
	*l->tail = s;
	while (*l->tail)
		l->tail = &(*l->tail)->next;
}

/* pass_walk.c: rebuilds blocks while the facts of each place (loops, guards, launch extents) are in force. */
struct twp_walk {
	struct twir_module *m;
	struct twir_facts facts;
	void *user;
	/* Called for each statement; true: it has appended what replaces s to out (nothing removes s). NULL: none. */
	bool (*stmt)(struct twp_walk *w, const struct twir_stmt *s, struct twp_list *out);
	/* Called for each whole expression of a statement that is rebuilt generically. NULL: identity. */
	const struct twir_expr *(*expr)(struct twp_walk *w, const struct twir_expr *e);
};
void twp_walk_init(struct twp_walk *w, struct twir_module *m, const struct twir_program *p);
struct twir_stmt *twp_walk_block(struct twp_walk *w, const struct twir_stmt *list);
/* The generic rebuild of one statement: its expressions through expr, its blocks through twp_walk_block. */
struct twir_stmt *twp_walk_stmt(struct twp_walk *w, const struct twir_stmt *s);
/* Enters the body of a loop, a for-mapping or a branch (other: the other branch); leave takes what enter gave. */
int twp_enter(struct twp_walk *w, const struct twir_stmt *s, bool other);
void twp_leave(struct twp_walk *w, int mark);
struct twir_stmt *twp_copy(struct twir_module *m, const struct twir_stmt *s); /* the node alone, next == NULL */

/* Variables replaced by expressions, binders and tensors kept. */
struct twp_replace {
	struct twir_rewriter r;
	struct tw_map map; /* var -> expr */
};
void twp_replace_init(struct twp_replace *r, struct twir_module *m);
void twp_replace_set(struct twp_replace *r, const struct twir_var *v, const struct twir_expr *e);
const struct twir_expr *twp_replace_expr(struct twp_replace *r, const struct twir_expr *e);
struct twir_stmt *twp_replace_block(struct twp_replace *r, const struct twir_stmt *list);

/* merge_loads.c: loads that statements of a run repeat become lets. */
struct twir_stmt *twp_merge_loads(struct twir_module *m, const struct twir_stmt *list);

/* pass_util.c */
int64_t twp_tree_size(const struct twir_expr *e); /* nodes of the printed text; saturates at 1 << 40 */
/* Lets of integers and i1 without loads and of modest size are replaced by their values, so that indices are seen
 * whole. */
struct twir_stmt *twp_inline_lets(struct twir_module *m, const struct twir_stmt *list);
int64_t twp_lanes(const struct twir_program *p); /* workers of the level lane; 0: the program has none */
bool twp_is_lane_region(const struct twir_stmt *s);
struct twir_stmt *twp_lane_region(struct twir_module *m, int64_t lanes, struct twir_stmt *body);

enum { TWP_WARP = 32 };			       /* lanes of a warp where a program launches threads alone */
bool twp_is_gpu(const struct twir_program *p); /* launched on blocks: no lane regions, workers count by one number */
/* A worker's number; where its level is not launched itself, in terms of those that are. */
const struct twir_expr *twp_worker(struct twir_module *m, const struct twir_program *p, enum twir_level l);

/* A mapping as the list of its factors, outermost first. */
enum twp_owner { TWP_UPPER, TWP_LANE, TWP_MIXED };
struct twp_factor {
	bool spatial;
	enum twp_owner
		owner; /* spatial: which level's number tells its worker; mixed: the number over all levels does */
	int rank;
	const struct twir_expr *extent[TWIR_MAX_RANK]; /* projected dimensions included */
	int order[TWIR_MAX_RANK];
	enum twtm_attr attr[TWIR_MAX_RANK];
	unsigned projected;
	const struct twir_expr *workers;
};
struct twp_factors {
	int n;
	struct twp_factor at[64];
};
void twp_factors(struct twir_module *m, const struct twir_map *map, struct twp_factors *f);
/* Which levels own the spatial factors when the mapping runs on the given levels of p. */
void twp_assign(struct twir_module *m, const struct twir_program *p, int nlevels, const enum twir_level *levels,
		struct twp_factors *f);
const struct twir_expr *twp_task_extent(struct twir_module *m, const struct twp_factor *f,
					int d); /* 1 when projected */
const struct twir_expr *twp_inner_extent(struct twir_module *m, const struct twp_factors *f, int after,
					 int d); /* of the factors behind `after` */
const struct twir_map *twp_factor_map(struct twir_module *m, const struct twp_factor *f);
const struct twir_expr *twp_level_extent(struct twir_module *m, const struct twir_program *p, enum twir_level l);

#endif
