/* The window template, internal to sched: a tile of neighbouring pixels and one vector of channels. */
#ifndef TW_WINDOW_H
#define TW_WINDOW_H

#include "sched/nest.h"

struct tw_window {
	const struct tw_task *task;
	struct twir_module *m;
	const struct tw_target *t;
	struct tw_nest nest;
	const struct twir_expr *fold;
	int64_t pixels;	    /* of a tile; open: at most */
	bool open;	    /* the number of pixels is known at run time alone: tiles share them evenly */
	int channel, pixel; /* axes of the nest */
	struct twir_tensor *acc, *part;
	const struct twir_map *tile;
	const struct twir_expr *w0, *c0;
	const struct twir_expr *within;	 /* place in part of the tile's first pixel; NULL: 0 */
	const struct twir_expr *left[2]; /* of the tile's axes */
};

bool tw_window_match(const struct tw_task *task, const struct tw_target *t);
/* Everything but w0, c0 and left; pixels of a tile, 0: as many as suit the machine. */
void tw_window_begin(struct tw_window *w, const struct tw_task *task, const struct tw_target *t, int64_t pixels,
		     struct tw_launch *out);
/* Sums and stores the tile that is the pixel-th along the nest's last axis but one and the channel-th along its last. */
struct twir_stmt *tw_window_tile(struct tw_window *w, const struct twir_expr *pixel, const struct twir_expr *channel);

#endif
