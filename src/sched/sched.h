/* sched: from what a group computes to tensor programs. A task is scheduled by its anchor alone (a template, or the rule-based schedule that takes
 * anything); then producers are fused into the loads of the finished program and the consumer into its stores (post-scheduling fusion, section 4.2 of the
 * paper). No target text here: only task mappings, programs and what target/ says of the machine. */
#ifndef TW_SCHED_H
#define TW_SCHED_H

#include "ir/ir.h"
#include "target/target.h"

/* A row program: definitions over one space of rows, computed row by row (or lane by lane) on one core item. Rows are numbered by the axes row[], the elements of
 * a row by fold[]. */
struct tw_row_fold { /* a fold of a stage: over all of fold[] */
	enum twir_kind op;
	const struct twir_expr *body;
	struct twir_var *total; /* stands for the result in the stage's value */
};
struct tw_stage {
	struct twir_compute *definition;
	const struct twir_expr *
		value; /* over row[] and, unless row, fold[]; may load what earlier stages define, at the place of this row and element */
	const struct twir_expr *place[TWIR_MAX_RANK]; /* index in definition->out */
	VEC(struct tw_row_fold) folds;
	bool row;    /* one element for each row */
	bool stored; /* others need it: it is an output of the program */
};
struct tw_rows {
	int nrow, nfold;
	struct twir_var *row[TWIR_MAX_RANK], *fold[TWIR_MAX_RANK];
	const struct twir_expr *row_extent[TWIR_MAX_RANK], *fold_extent[TWIR_MAX_RANK];
	VEC(struct tw_stage) stages; /* in order of dependence */
};

/* Attention: two products with a row program between them. Scores of a row are sums over depth of q * k; the stages make weights of them; the anchor is the sum
 * over the row's elements of weight * v. All over the rows' axes, the element, depth or column. */
struct tw_attention {
	const struct tw_rows *rows;	      /* one fold axis: the keys */
	int query;			      /* row[query]: the queries, on which neither k nor v depends */
	struct twir_tensor *scores, *weights; /* what stages load and define instead of memory */
	const struct twir_expr *q, *k, *v;
	struct twir_var *depth, *column;
	const struct twir_expr *depth_extent, *column_extent;
	const struct twir_expr *place[TWIR_MAX_RANK]; /* index in the anchor's result, over rows and column */
	/* A row's elements from this one on have weight 0 whatever their scores; rises with row[query]. NULL: none are known to. */
	const struct twir_expr *limit;
};

/* A chain: up to three tasks one after another, each the only reader of what the one before it stores: a matmul that makes an image, a window over it, a matmul
 * that takes the window's result. The first or the last may be missing (NULL). */
struct tw_chain {
	const struct tw_task *stage[3];
};

/* A loop in one program: tasks that each of its steps runs in order. A value that steps hand on is a pair of tensors, `in`, which no task makes, and `out`; a slice
 * is made in each step and is a part of the whole, which has one more axis in front. */
struct tw_loop_value {
	struct twir_tensor *init, *in, *out, *last; /* last: after all steps; NULL: nobody asks */
};
struct tw_loop_slice {
	struct twir_tensor *slice, *whole;
};
struct tw_loop {
	struct twir_var *number; /* a symbol: 0 .. trips - 1 */
	const struct twir_expr *trips;
	int ntasks, ncarried, nslices;
	const struct tw_task **tasks;
	struct tw_loop_value *carried;
	struct tw_loop_slice *slices;
};

struct tw_task {
	struct twir_module *m;
	const char *name;	     /* "conv1_relu1": identifier, for the programs' names */
	struct twir_compute *anchor; /* computed for its own sake; may hold folds */
	int nproducers; /* injective definitions that vanish into loads; none needed more than once per load */
	struct twir_compute **producers;
	struct twir_compute *
		consumer; /* NULL, or one injective definition that loads anchor->out at one place, by an invertible index map */
	const struct tw_rows
		*rows; /* NULL, or: a row program; the anchor is its last definition, producers are inlined */
	const struct tw_attention
		*attention; /* NULL, or: what the anchor is the second product of; rows is NULL then */
	const struct tw_chain
		*chain; /* NULL, or: this task is that chain; anchor, consumer and producers are its last stage's */
	const struct tw_loop *loop; /* NULL, or: this task is that loop; the anchor is its last task's */
	/* keys: tensors whose values are known when the model is compiled; what is prepared joins them. NULL: prepare nothing. */
	struct tw_map *constants;
	bool exact; /* sums may not be regrouped in ways that lose accuracy (Winograd) */
	int piece;  /* terms that one accumulator adds up at most, about; 0: TW_SUM_PIECE */
};

/* One kernel of a launch: a program and the compute tensors that are its parameters, inputs first. */
struct tw_kernel {
	struct twir_program *program;
	int nargs, nout; /* the last nout are written */
	struct twir_tensor **args;
	int *inplace;	      /* nout: input position whose buffer the output may take over, or -1 */
	const char *schedule; /* for people: "matmul mr=12 nv=2"; a template may say more than its name and point */
};

/* The host-level launch of a task: kernels in order. Tensors (scope TWIR_TENSOR) that only live between them are stored by one and loaded by a later one.
 * prepared: definitions over constants (packed weights, transformed filters), computed once, at compile time; the kernels load their outputs. */
struct tw_launch {
	VEC(struct tw_kernel) kernels;
	VEC(struct twir_compute *) prepared;
};

/* A point of a hardware-centric schedule space. */
#define TW_MAX_PARAMS 6
struct tw_point {
	int value[TW_MAX_PARAMS];
};
struct tw_space {
	int nparams;
	const char *names[TW_MAX_PARAMS];
	VEC(struct tw_point) points; /* the first is the default */
};

/* A schedule template. build may derive remainders from sizes, a point never does. */
struct tw_template {
	const char *name;
	bool (*applicable)(const struct tw_task *task, const struct tw_target *t);
	void (*space)(struct tw_arena *a, const struct tw_target *t, struct tw_space *s);
	/* The point that the analytic model puts first for this task; NULL: the first of the space. */
	int (*choose)(const struct tw_task *task, const struct tw_target *t, const struct tw_space *s);
	/* The anchor alone, over its compute tensors; NULL-terminated choice is the caller's. Fusion follows. */
	void (*build)(const struct tw_task *task, const struct tw_target *t, const struct tw_point *p,
		      struct tw_launch *out);
};
extern const struct tw_template tw_template_matmul, tw_template_winograd, tw_template_window;
extern const struct tw_template *const tw_templates[]; /* ends with NULL; first applicable one serves */

/* schedule.c: template or rule, then fusion, then parameters. */
void tw_schedule(const struct tw_task *task, const struct tw_target *t, struct tw_launch *out);
/* The same with a template and point of the caller's choice. */
void tw_schedule_point(const struct tw_task *task, const struct tw_target *t, const struct tw_template *template,
		       const struct tw_point *point, struct tw_launch *out);
const char *tw_schedule_name(const struct tw_task *task, const struct tw_target *t); /* "matmul", "rule" */

/* rule.c: the rule-based schedule: one program for any definition. */
struct twir_program *tw_rule_schedule(struct twir_module *m, const char *name, const struct twir_compute *c,
				      const struct tw_target *t);

/* attention.c: one program for the task's attention, but for its consumer. */
struct twir_program *tw_attention_schedule(const struct tw_task *task, const struct tw_target *t);

/* chain.c: cycles of one core that running the stages as one program saves, as estimated; 0 or less: let them be, or they are no chain that it serves. */
double tw_chain_saves(const struct tw_chain *stages, const struct tw_target *t);
/* One program for the task's chain, with all that the stages' producers and consumers are. */
void tw_chain_schedule(const struct tw_task *task, const struct tw_target *t, struct tw_launch *out);

/* loop.c: whether the whole loop can be, and had better be, one program; that program. */
bool tw_loop_serves(const struct tw_loop *l, const struct tw_target *t, struct twir_module *m);
void tw_loop_schedule(const struct tw_task *task, const struct tw_target *t, struct tw_launch *out);

/* rows.c: one program for a row program; its outputs are the stored stages. */
struct twir_program *tw_rows_schedule(struct twir_module *m, const char *name, const struct tw_rows *rows,
				      const struct tw_target *t);

/* schedule.c: the task's consumer and producers become part of the anchor's program. */
void tw_fuse(const struct tw_task *task, struct twir_program *p);

/* fuse.c: the pass pair. Programs here still speak of compute tensors (scope TWIR_TENSOR) or of parameters. */
void tw_fuse_prologue(struct twir_module *m, struct twir_program *p, const struct twir_compute *producer);
/* consumer->value loads `anchor_out` at one place; raises TW_ERR_INTERNAL when the index map has no inverse (ask tw_invert first) */
void tw_fuse_epilogue(struct twir_module *m, struct twir_program *p, struct twir_tensor *anchor_out,
		      const struct twir_compute *consumer);

/* invert.c: index[d] are expressions over axes (extents given). Fills axis[i] with expressions over coords[d] such that index(axis(coords)) = coords, when
   the map is a bijection between the axes' box and the tensor's box; false otherwise. */
bool tw_invert(struct twir_module *m, int naxes, struct twir_var *const *axes, const struct twir_expr *const *extents,
	       int nindex, const struct twir_expr *const *index, const struct twir_expr *const *shape,
	       const struct twir_expr *const *coords, const struct twir_expr **axis);

/* work.c, for profiles: the operations of a task (NULL: more than symbols decides) and the sizes of its anchor, then of the anchor's folds. */
const struct twir_expr *tw_task_work(const struct tw_task *task);
int tw_task_extents(const struct tw_task *task, int most, const struct twir_expr **extents);

/* prepare.c: what a template computes of constants at compile time. tw_is_constant: e (of the anchor, producers not yet fused) depends on constants only; tells
   nothing of e's own variables. tw_prepare: defines a tensor of that shape whose element at the axes is value, with the task's producers inlined; the
   template loads it like any compute tensor. Shapes must be free of symbols. */
bool tw_is_constant(const struct tw_task *task, const struct twir_expr *e);
struct twir_tensor *tw_prepare(const struct tw_task *task, struct tw_launch *out, const char *name,
			       enum twir_scalar type, int rank, const struct twir_expr *const *shape,
			       struct twir_var *const *axes, const struct twir_expr *value);

/* define.c: definitions as algebra */
const struct twir_expr *tw_inline(struct twir_module *m, const struct twir_expr *e,
				  const struct twir_compute *producer); /* its loads replaced by its value */
bool tw_has_fold(const struct twir_expr *e);
int64_t tw_size_or(const struct twir_expr *e, int64_t otherwise); /* a constant's value */
/* What a size is where each symbol has that value, or its nearest possible one; at least 1. */
int64_t tw_size_about(struct twir_module *m, const struct twir_expr *e, int64_t symbol);
static inline int64_t tw_ceil_div(int64_t a, int64_t b)
{
	return (a + b - 1) / b;
}
static inline int64_t tw_least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}
static inline int64_t tw_most(int64_t a, int64_t b)
{
	return a > b ? a : b;
}
/* One accumulator that adds up n terms one after another is off by about the square root of n last bits, so that sums of products are made of the sums of
 * pieces, as far as that is nearly free: registers have to be emptied and filled in between. (Measured on one AVX-512 core: pieces of 192 cost nothing,
 * of 128 one in a hundred, of 64 four.) Returns the length of a piece, 0: all n at a stretch. */
enum { TW_SUM_PIECE = 160 };
static inline int64_t tw_sum_piece(int64_t n, int64_t about)
{
	const int64_t pieces = (n + about / 2) / about;
	return pieces < 2 ? 0 : tw_ceil_div(tw_ceil_div(n, pieces), 8) * 8;
}
/* How many of n terms, of which each costs a loop of its own, to add up at a stretch: the sums of the pieces are added up one after another too, and are fewer
 * but larger. n < 0: unknown. */
static inline int64_t tw_piece_of_terms(int64_t n)
{
	int64_t piece = 64;
	while (piece < 4096 && piece * piece < 4 * n)
		piece += 8;
	return piece;
}
int tw_cost(const struct twir_expr *e); /* arithmetic operations an element costs; calls count 20 */
int tw_loads_of(const struct twir_expr *e, const struct twir_tensor *t,
		const struct twir_expr **one); /* distinct loads of t; one: some load of them */
void tw_loaded_tensors(struct tw_arena *a, const struct twir_expr *e, struct twir_tensor ***tensors, int *n);

/* params.c: gives a program its parameters: one for each compute tensor it loads or stores, with in-place pairs found. */
void tw_bind_params(struct twir_module *m, struct twir_program *p, struct tw_kernel *k);

/* stmts.c: short builders */
struct twir_stmt *tw_formap(struct twir_module *m, int n, struct twir_var *const *vars, const struct twir_map *map,
			    int nlevels, const enum twir_level *levels, const struct twir_expr *const *bounds,
			    struct twir_stmt *body);
struct twir_stmt *tw_for(struct twir_module *m, struct twir_var *v, const struct twir_expr *extent,
			 struct twir_stmt *body);
struct twir_stmt *tw_declare(struct twir_module *m, struct twir_tensor *t);
struct twir_var *tw_loop_var(struct twir_module *m, const char *name);
struct twir_stmt *tw_let_new(struct twir_module *m, const char *name, const struct twir_expr *value,
			     const struct twir_expr **var);
struct twir_program *tw_program_new(struct twir_module *m, const char *name, const struct twir_expr *cores, int lanes,
				    struct twir_stmt *body);

#endif
