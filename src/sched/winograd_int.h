/* Winograd convolution, internal to sched: minimal filtering y = A^T [(G g) * (B^T d)] along one axis: m outputs of a correlation with r taps from n = m + r - 1
 * inputs by n products instead of m * r (Winograd 1980; Lavin and Gray, arXiv 1509.09308). */
#ifndef TW_WINOGRAD_H
#define TW_WINOGRAD_H

#include "sched/sched.h"

#define TW_WINOGRAD_MOST 10 /* inputs of a tile along one axis */

struct tw_winograd_axis {
	int m, r, n;
	double output[TW_WINOGRAD_MOST][TW_WINOGRAD_MOST]; /* A^T: m x n */
	double filter[TW_WINOGRAD_MOST][TW_WINOGRAD_MOST]; /* G: n x r */
	double input[TW_WINOGRAD_MOST][TW_WINOGRAD_MOST];  /* B^T: n x n */
};

/* winograd_axis.c. r == 1 (then m is 1): the identity. n must not exceed TW_WINOGRAD_MOST. */
void tw_winograd_axis(int m, int r, struct tw_winograd_axis *out);

/* A convolution that the template serves: out[n, co, oh * OW + ow] = sum over taps and ci of W * X[n, ci, oh + kh - pad, ow + kw - pad]. */
struct tw_winograd {
	const struct tw_task *task;
	struct twir_var *image, *channel; /* axes of the anchor: n, co */
	struct twir_var *tap[2], *ci;	  /* fold axes; tap[d] == NULL: one tap */
	struct twir_var *row, *column;	  /* stand for oh and ow in x and w */
	int taps[2];
	const struct twir_expr *channels, *filters; /* sizes of ci and co */
	const struct twir_expr *images, *out[2], *in[2];
	const struct twir_expr *x, *w; /* the factors, producers inlined, over the variables above */
	const struct twir_expr *at[2]; /* where x reads along the two axes */
};

/* winograd.c */
bool tw_winograd_match(const struct tw_task *task, struct tw_winograd *w);
/* Cycles, estimated, with tiles of mh x mw outputs; 1 x 1: of the direct sum. A symbol is taken for `side`. */
double tw_winograd_cost(const struct tw_winograd *w, const struct tw_target *t, int mh, int mw, int64_t side);

/* winograd_transform.c: parts of the programs. Tile `tile` counts over images, tile rows and tile columns. */
struct tw_winograd_tiles {
	struct twir_module *m;
	const struct tw_winograd *w;
	const struct tw_target *t;
	struct tw_winograd_axis axis[2];
	const struct twir_expr *rows, *columns, *all; /* tiles along the axes, and in all */
	int elements;				      /* products a tile: axis[0].n * axis[1].n */
};
void tw_winograd_tiles(struct tw_winograd_tiles *x, const struct tw_winograd *w, const struct tw_target *t, int mh,
		       int mw);
/* data[e, place, ci] for all elements e and channels, from the input tile. */
struct twir_stmt *tw_winograd_input(const struct tw_winograd_tiles *x, const struct twir_expr *tile,
				    struct twir_tensor *data, const struct twir_expr *place);
/* out[image, co, row * OW + column] of the tile from sums[e, place, co]; `part` is scratch of a chunk: tw_winograd_part. */
struct twir_tensor *tw_winograd_part(const struct tw_winograd_tiles *x);
struct twir_stmt *tw_winograd_output(const struct tw_winograd_tiles *x, const struct twir_expr *tile,
				     struct twir_tensor *sums, const struct twir_expr *place, struct twir_tensor *part);
/* weights[e, ci, co] = G w G^T, in f64, rounded once; made at compile time. */
struct twir_tensor *tw_winograd_weights(const struct tw_winograd_tiles *x, struct tw_launch *out);

/* winograd_build.c: nv vectors of channels in a register tile, where the template multiplies itself. */
void tw_winograd_build(const struct tw_winograd_tiles *x, int nv, struct tw_launch *out);

#endif
