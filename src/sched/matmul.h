/* The matmul template, internal to sched: what matmul.c recognises, what matmul_plan.c decides, and how matmul_pack.c reads the factors. */
#ifndef TW_MATMUL_H
#define TW_MATMUL_H

#include "sched/sched.h"

/* How the inner loop gets a factor's elements. */
enum mm_access {
	MM_DIRECT,   /* from where they are: an affine place without guards */
	MM_PREPARED, /* from a tensor made of constants at compile time */
	MM_STAGED, /* from a tensor that a kernel before this one packs, once for all core items; the plan treats it like the former */
	MM_PACKED /* from the core item's scratch, filled before */
};

struct mm_factor {
	const struct twir_expr *value; /* over the anchor's axes and the fold's */
	bool uses[TWIR_MAX_RANK];      /* the anchor's axes */
	bool constant;
	enum mm_access access;
	struct twir_tensor *tensor; /* prepared or packed */
	enum twir_scalar stored;    /* of a prepared tensor */
};

/* Sums of products of bytes by dot4: see matmul_words.c. */
struct mm_words {
	bool on;
	bool a_signed;				    /* bytes of a; those of b are the other kind */
	const struct twir_expr *a_zero, *b_zero;    /* i32; NULL: 0 */
	const struct twir_expr *terms;		    /* products of bytes in a sum */
	struct twir_tensor *row_sums, *column_sums; /* of bytes; NULL: no need of them */
	struct twir_compute *planes;		    /* makes words of a's bytes, by a kernel before; NULL: none */
};

/* C[.., i, j] = epilogue(sum over k.. of A(.., i, k..) * B(.., k.., j)): i may be missing; other axes are batches. */
struct mm_problem {
	const struct tw_task *task;
	const struct tw_target *t;
	struct twir_module *m;
	const struct twir_compute *c;
	const struct twir_expr *fold;
	enum twir_scalar type; /* of the sum of a block of K, in which products are added */
	int64_t exact; /* sums of 32-bit integers: f32 holds those of so many products as they are; 0: of none, and type is theirs */
	struct mm_words words;
	struct mm_factor a, b; /* a does not use j, b does not use i */
	int rank, row, column; /* axes of c; row: -1 when there is none */
	int nbatch, batch[TWIR_MAX_RANK];
	int nfold; /* axes of K: the fold's, or two that one of it was split into */
	struct twir_var *axis[TWIR_MAX_RANK];
	const struct twir_expr *extent[TWIR_MAX_RANK];
	bool affine; /* A may be read where it is: in one loop over K, or, nested, in one for each axis of the fold */
	bool nested;
	const struct twir_expr *M, *N, *K;	 /* K: of all fold axes together */
	int64_t m_size, n_size, k_size, batches; /* as known, else middling guesses */
	bool m_known, n_known, k_known;
	bool map; /* rows are the pixels of an open picture, made smaller: their number is known about */
};

/* Factors of the space. */
enum { MM_ROWS, MM_VECTORS, MM_DEPTH, MM_AHEAD };

enum { MM_HEIGHTS = 6 };
enum { MM_PICTURE = 224 }; /* the side of a middling picture */

/* What a point means for a problem. */
struct mm_plan {
	int heights[MM_HEIGHTS], nheights; /* of register tiles, falling */
	int tall;			   /* the first of them */
	int nv, nr;			   /* width of a tile: vectors, columns */
	bool open;			   /* the number of rows is known at run time alone */
	const struct twir_expr *ntall;	   /* not open: so many strips are tall, the others low */
	const struct twir_expr *slack[2];  /* open: see mm_slack */
	const struct twir_expr *strips;
	int64_t band;		   /* strips of rows of a core item; open: at most */
	int64_t group;		   /* panels of columns of a core item */
	int64_t kc, blocks, outer; /* K: rows of a block, blocks, and how many of the outermost loop's turns */
	int64_t near;		   /* open: where an item has so many strips at most, one turn will do */
	int64_t piece; /* so many terms at most are added up at a stretch, along the last axis of K or all of it; 0: all */
	int apart;     /* nested: each step of so many axes of K, the first ones, is a piece or several of its own */
	int64_t spread; /* strips that share the prefetching of the next block */
	bool ahead;	/* prefetch the next block of B */
	bool straight;	/* store whole tiles from registers */
};

/* matmul.c */
bool mm_match(const struct tw_task *task, const struct tw_target *t, struct mm_problem *p);
/* Rows are that axis of c, which A uses and B does not; the others are batches. */
void mm_take_row(struct mm_problem *p, int row);
/* matmul_words.c. mm_take_words: the problem becomes one over words, if it can; producers are then inlined. mm_dot: sum + a * b. mm_bytes_sum: of a word of
 * a, else of b; mm_scaled_sum: times the other side's zero point where that is a literal. mm_whole_sum: the sum of the definition, from that of dot4 and those of the bytes (NULL: no zero point asks for it). */
bool mm_take_words(struct mm_problem *p);
const struct twir_expr *mm_dot(const struct mm_problem *p, const struct twir_expr *a, const struct twir_expr *b,
			       const struct twir_expr *sum);
const struct twir_expr *mm_bytes_sum(const struct mm_problem *p, bool of_a, const struct twir_expr *word);
const struct twir_expr *mm_scaled_sum(const struct mm_problem *p, bool of_a, const struct twir_expr *sum);
const struct twir_expr *mm_whole_sum(const struct mm_problem *p, const struct twir_expr *sum,
				     const struct twir_expr *row_sum, const struct twir_expr *column_sum);

/* matmul_plan.c: the analytic model. Costs are cycles of one core, to compare points with. */
void mm_space(struct tw_arena *a, const struct tw_target *t, struct tw_space *s);
void mm_plan_init(struct mm_plan *q, const struct mm_problem *p, const struct tw_point *point);
double mm_cost(const struct mm_problem *p, const struct tw_point *point);

/* matmul_rows.c: strips of rows. Steps of K of all strips in cycles; what must be known in a core item first (a let, or
 * NULL); the row i0 that a strip begins at, and how many it has. */
void mm_plan_rows(struct mm_plan *q, const struct mm_problem *p, int tall);
double mm_rows_cost(const struct mm_plan *q, int64_t rows, double (*step)(double, double), double vectors);
struct twir_stmt *mm_slack(struct mm_plan *q, const struct mm_problem *p);
const struct twir_expr *mm_strip_begin(const struct mm_plan *q, const struct mm_problem *p,
				       const struct twir_expr *strip);
const struct twir_expr *mm_strip_rows(const struct mm_plan *q, const struct mm_problem *p,
				      const struct twir_expr *strip, const struct twir_expr *i0);

/* matmul_build.c: with K divided among core items where that pays, and never. */
void mm_build(const struct tw_task *task, const struct tw_target *t, const struct tw_point *point,
	      struct tw_launch *out);
void mm_build_whole(const struct tw_task *task, const struct tw_target *t, const struct tw_point *point,
		    struct tw_launch *out);

/* matmul_forms.c: for rows of unknown length: up to how many of them another axis of known length had better be the rows, 0: never. The problem takes that axis; own: the point
 * that costs least with panels as wide as that point's. */
int64_t mm_other_rows(struct mm_problem *p, const struct tw_point *point, struct tw_point *own);

/* matmul_split.c: how many parts K is divided into for a problem that has so many core items, 1: none; the launch of such parts. */
int64_t mm_parts(const struct mm_problem *p, int64_t items);
void mm_build_parts(const struct mm_problem *p, int64_t parts, struct tw_launch *out);

/* For schedules with a matmul among their stages: the scratch that tiles go through, and all rows of one panel. Batch axes are
 * c's. Neither factor may be packed by items. */
struct twir_tensor *mm_part(const struct mm_problem *p, const struct mm_plan *q);
struct twir_stmt *mm_panel(const struct mm_problem *p, const struct mm_plan *q, struct twir_tensor *part,
			   const struct twir_expr *panel);

/* matmul_pack.c */
const struct twir_expr *mm_inlined(const struct mm_problem *p, const struct twir_expr *e); /* producers put in */
/* k as one number, from the indices of the fold, and back */
const struct twir_expr *mm_flat(const struct mm_problem *p, const struct twir_expr *const *k);
void mm_unflat(const struct mm_problem *p, const struct twir_expr *k, const struct twir_expr **out);
/* Makes the tensors that the factors are read from, unless the panels are there already; `declared` gets the declarations of scratch. */
void mm_tensors(struct mm_problem *p, const struct mm_plan *q, struct tw_launch *out, struct twir_stmt **declared);
/* What a core item packs first: `rows` rows from row `first` on; `panels` panels from panel `first` on. NULL: nothing. */
struct twir_stmt *mm_pack_rows(const struct mm_problem *p, const struct twir_expr *first, const struct twir_expr *rows);
struct twir_stmt *mm_pack_panels(const struct mm_problem *p, const struct mm_plan *q, const struct twir_expr *first,
				 const struct twir_expr *panels);
/* The elements: A of row i (first: of the item), at k of the fold as one number and as indices; B of column j of a panel (first: of the item), at k as one number. */
const struct twir_expr *mm_a(const struct mm_problem *p, const struct twir_expr *first, const struct twir_expr *i,
			     const struct twir_expr *flat, const struct twir_expr *const *k);
/* The sum of all, from the one that the loop over K made: see matmul_words.c. */
const struct twir_expr *mm_corrected(const struct mm_problem *p, const struct twir_expr *sum);
const struct twir_expr *mm_b(const struct mm_problem *p, const struct twir_expr *first, const struct twir_expr *panel,
			     const struct twir_expr *k, const struct twir_expr *j);
/* The place of B[panel, k, 0], to prefetch. Returns the number of indices. */
int mm_b_place(const struct mm_problem *p, const struct twir_expr *panel, const struct twir_expr *k,
	       const struct twir_expr *j, const struct twir_expr **index);

#endif
