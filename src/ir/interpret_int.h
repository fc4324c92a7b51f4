/* interpret_int: the interpreter's own header. A program or compute definition is translated once to a flat code
 * over slots (interpret_code.c, interpret_expr.c), then run (interpret_run.c). Tensors are described by struct
 * twiri_tensor (interpret_memory.c), which checks every access. Arithmetic of one element is twiri_arith
 * (interpret_arith.c).
 *
 * A slot holds one element: integers sign- or zero-extended to 64 bits, i1 as 0 or 1, f16 and bf16 as their bits in
 * an integer. A vector takes as many slots in a row as it has lanes. No slot is shared by two expressions, so a
 * frame of slots and a position in the code are the whole state of a thread: a GPU thread stops at a barrier and
 * goes on later. */
#ifndef TW_IR_INTERPRET_INT_H
#define TW_IR_INTERPRET_INT_H

#include "ir/ir_int.h"

union twiri_slot {
	int64_t i;
	double d;
	float s;
};

enum twiri_class { TWIRI_LONG, TWIRI_F32, TWIRI_F64, TWIRI_NARROW, TWIRI_CLASSES }; /* LONG: i64 and index */

/* Below OP_COPY an operation is kind * TWIRI_CLASSES + class of the operands. */
enum twiri_op {
	OP_COPY = TWIR_KINDS * TWIRI_CLASSES,
	OP_SPLAT,
	OP_SELECT,	    /* one condition for all lanes */
	OP_CAST,	    /* b: the source's scalar type */
	OP_BITCAST,	    /* b: the source's scalar type */
	OP_REDUCE,	    /* b: kind, c: lanes of the source */
	OP_REDUCE_REGISTER, /* b: kind, c: access */
	OP_LOAD,	    /* c: access */
	OP_STORE,	    /* c: access, a: value */
	OP_JUMP,	    /* c: distance, from the instruction itself */
	OP_JUMP_IF_NOT,	    /* a: condition */
	OP_LOOP_BEGIN,	    /* d: counter, a: extent, c: distance when there is nothing to do */
	OP_LOOP_NEXT,	    /* d: counter, a: extent, c: distance back to the body */
	OP_MAP_BEGIN,	    /* a: site, c: distance when there is no task */
	OP_MAP_NEXT,	    /* a: site, c: distance back to the body */
	OP_REGION,	    /* start of a lane region */
	OP_LANE_NEXT,	    /* c: distance when all lanes are done */
	OP_DECLARE,	    /* a: declaration */
	OP_BARRIER,	    /* a: level, b: its number in meetings */
	OP_SHUFFLE, /* b: slot of the second operand, c: its number in meetings, type: kind; all lanes of the warp together */
	OP_MMA, /* a: matrix site; all lanes of the warp together */
	OP_COMMIT,
	OP_WAIT, /* a: groups that may be under way */
	OP_END
};

struct twiri_ins {
	uint16_t op;
	uint16_t lanes;
	uint8_t type; /* scalar type of the result; of the operands for comparisons */
	int32_t d, a, b, c;
};

typedef VEC(struct twiri_ins) twiri_code;

/* One Load, Gather or Store of the text. */
struct twiri_access {
	const struct twir_stmt *stmt; /* NULL in compute definitions */
	const struct twir_expr *expr; /* the Load or Gather; NULL for a store */
	int tensor;		      /* number in machine.tensors */
	int n;			      /* indices */
	int index[TWIR_MAX_RANK];     /* slots */
	int lanes;		      /* elements moved */
	bool whole;		      /* a vector register's element: index once, all lanes */
	bool gather;		      /* index[0] is a vector of offsets */
	int mask, other;	      /* slots or -1 */
	int mask_step, other_step;    /* 0: one slot for all lanes */
	int worker;		      /* slot of the worker's number for mirrored registers or -1 */
	bool async;		      /* a store that takes effect when its group is waited for */
};

/* One mma: an access for each fragment, whose last indices (behind: how many) are slots of their own. */
struct twiri_matrix {
	const struct twir_mma *shape;
	int access[3], behind[3], slot[3][2];
};

/* An asynchronous copy that was issued: elements of one tensor, one after another. */
enum { TWIRI_FLIGHT = 16 };
struct twiri_flight {
	const struct twiri_access *access;
	struct twiri_tensor *tensor;
	int64_t cell[TWIRI_FLIGHT];
	union twiri_slot value[TWIRI_FLIGHT];
	int n, group;
};

/* A factor of a mapping and a place for it in the code. */
struct twiri_leaf {
	bool spatial;
	unsigned projected;
	int order[TWIR_MAX_RANK];  /* dimensions, slowest first */
	int extent[TWIR_MAX_RANK]; /* slots */
};
struct twiri_site {
	const struct twir_stmt *stmt;
	int rank, nleaves;
	struct twiri_leaf *leaves;
	int ndigits;		  /* repeat digits, slowest first */
	int var;		  /* rank slots: the task */
	int state;		  /* 3 * ndigits slots: extent, stride, counter */
	int *dim;		  /* of each digit */
	int bound[TWIR_MAX_RANK]; /* slots or -1 */
	int nlevels;
	enum twir_level levels[3];
};

/* A tensor's shape, layout and mirror, as slots, read when the declaration runs. */
struct twiri_factor {
	enum twir_layout_kind kind;
	int rank;
	struct twir_swizzle swizzle;
	int extent[TWIR_MAX_RANK];
};
struct twiri_declare {
	const struct twir_stmt *stmt;
	int tensor;
	int shape[TWIR_MAX_RANK];
	int nfactors;
	struct twiri_factor *factors;
	int site;		     /* of the mirrored map or -1 */
	struct twiri_mirror *mirror; /* made at the first run of the declaration, again when extents change */
};

/* Who owns which element of a register tensor. */
struct twiri_mirror {
	int64_t elements, workers, local; /* local: places of one worker */
	int64_t shape[TWIR_MAX_RANK];
	int32_t *owner; /* of each element: the first of the workers that own it; -1: nobody */
	int32_t *place; /* of each element, in its owner */
	int32_t *first; /* of each worker: the first worker that owns the same elements */
};

/* Of an offset: (x / div % mod) * stride; mod 0: none. Swizzled: xor (y / by_div % by_mod >> by_shift) % mod before the
 * stride, y another coordinate. */
struct twiri_term {
	int dim;
	int64_t div, mod, stride;
	bool swizzled;
	int by, by_shift;
	int64_t by_div, by_mod;
};

/* Who touched an element last: a barrier phase (or lane region) and a worker in it. */
struct twiri_track {
	uint32_t write_phase, read_phase;
	uint16_t writer, write_warp_phase, reader, read_warp_phase;
	bool many_readers;
};

/* Who read an element of an input that an output overwrites. */
struct twiri_reader {
	int64_t serial; /* 0: nobody */
	uint32_t phase;
	uint16_t who;
};

struct twiri_tensor {
	const struct twir_tensor *t;
	enum twir_scalar type;
	int bytes, lanes, rank;
	int packed;			      /* elements that share a byte; 0: none do */
	bool readable, writable, once, plain; /* plain: every term is a dimension times its stride */
	int64_t shape[TWIR_MAX_RANK];
	int nterms;
	struct twiri_term *terms;
	int64_t elements, capacity;
	char *data;
	uint8_t *state;		      /* CELL_*; NULL: all readable */
	const uint8_t *overwritten;   /* state of the out tensor that shares this memory, or NULL */
	struct twiri_reader *readers; /* of an input that is overwritten, and of the output that does it; or NULL */
	struct twiri_reader *owners;  /* of a packed output: who stored to each byte; or NULL */
	struct twiri_track *track;    /* NULL: not tracked */
	int64_t serial;		      /* of the core item or block that declared it */
	const struct twiri_mirror *mirror; /* registers only */
};

enum { CELL_EMPTY, CELL_WRITTEN, CELL_FLYING };

enum twiri_status { TWIRI_RUNNING, TWIRI_AT_BARRIER, TWIRI_AT_WARP /* shuffle or mma */, TWIRI_DONE };

struct twiri_frame {
	union twiri_slot *s;
	struct twiri_tensor **t;
	int pc;
	int at_level; /* of the barrier it waits at */
	enum twiri_status status;
	uint16_t who, warp, warp_phase;
	int groups; /* of asynchronous copies that were committed */
	VEC(struct twiri_flight) flights;
};

struct twiri_machine {
	struct tw_arena *arena;
	struct twir_module *m;
	const char *name; /* of the program or the computed tensor */
	const char *what; /* "program" or "definition" */
	const struct twir_program *program;
	const struct twir_compute *compute;
	const struct twir_binding *binding;
	bool gpu;
	int64_t extent[TWIR_LEVELS]; /* workers launched */
	twiri_code code;
	VEC(struct twiri_access) accesses;
	VEC(struct twiri_site) sites;
	VEC(struct twiri_declare) declares;
	VEC(struct twiri_matrix) matrices;
	VEC(const struct twir_stmt *) meetings; /* barriers, statements of shuffles */
	VEC(struct twir_tensor *) tensor_of;	/* number -> tensor */
	struct twiri_tensor **tensors;		/* parameters and shared ones */
	union twiri_slot *first;		/* the slots' first values: constants and symbols */
	int nslots;
	int worker_slot[TWIR_LEVELS];
	uint32_t phase; /* of barriers and regions; grows */
	int64_t serial; /* of core items and blocks */
	int64_t steps;	/* that may still be taken */
	int64_t bytes;	/* of the frames of a block's threads, and of one local tensor */
	struct twir_diagnostic
		*report; /* where a fault is told beside raising it; texts in report_arena; NULL: nowhere */
	struct tw_arena *report_arena;
	bool complete; /* every element of the outputs is to be stored */
};

/* interpret.c: twir_interpret_within that also wants every element of the outputs stored, fills in *report when it raises
 * a fault of the program, and counts steps. */
void twiri_try(struct twir_module *m, const struct twir_program *p, const struct twir_binding *b,
	       const struct twir_data *params, const struct twir_limits *limits, struct twir_diagnostic *report,
	       struct tw_arena *report_arena, int64_t *taken);

/* interpret_arith.c */
enum twiri_class twiri_class_of(enum twir_scalar s);
void twiri_arith(const struct twiri_ins *in, union twiri_slot *d, const union twiri_slot *a, const union twiri_slot *b,
		 const union twiri_slot *c);
int64_t twiri_int_binary(enum twir_kind k, enum twir_scalar type, int64_t a, int64_t b);
union twiri_slot twiri_cast(enum twir_scalar to, enum twir_scalar from, union twiri_slot v);
union twiri_slot twiri_bitcast(enum twir_scalar to, enum twir_scalar from, union twiri_slot v);
union twiri_slot twiri_read(enum twir_scalar type, const char *at);
void twiri_write(enum twir_scalar type, char *at, union twiri_slot v);
union twiri_slot twiri_const(enum twir_scalar type, const struct twir_expr *e);

/* interpret_memory.c */
struct twiri_layout { /* a layout with its numbers */
	int nfactors;
	const enum twir_layout_kind *kind;
	const int *rank;
	const struct twir_swizzle *swizzle;
	const int64_t (*extent)[TWIR_MAX_RANK];
};
void twiri_describe(struct twiri_machine *x, struct twiri_tensor *d, const struct twir_tensor *t, const int64_t *shape,
		    const struct twiri_layout *layout);
void twiri_describe_param(struct twiri_machine *x, struct twiri_tensor *d, const struct twir_tensor *t,
			  const struct twir_data *data, const int64_t *shape, bool out);
void twiri_declare(struct twiri_machine *x, struct twiri_frame *f, const struct twiri_declare *decl);
void twiri_load(struct twiri_machine *x, struct twiri_frame *f, const struct twiri_access *a, union twiri_slot *d);
void twiri_store(struct twiri_machine *x, struct twiri_frame *f, const struct twiri_access *a,
		 const union twiri_slot *v);
void twiri_reduce_register(struct twiri_machine *x, struct twiri_frame *f, const struct twiri_access *a,
			   enum twir_kind op, union twiri_slot *d);
void twiri_reduce(enum twir_kind op, enum twir_scalar type, union twiri_slot *v, int n);
_Noreturn void twiri_fail(struct twiri_machine *x, const struct twir_stmt *s, const struct twir_expr *e,
			  const char *fmt, ...) TW_PRINTF(4, 5);

/* Raises when an element of an out tensor has not been stored. */
void twiri_check_stored(struct twiri_machine *x, const struct twiri_tensor *t);
void twiri_wait(struct twiri_machine *x, struct twiri_frame *f, int pending); /* all groups but the latest */

/* interpret_warp.c: runs the shuffle or mma at which the lanes of a warp have met */
void twiri_warp(struct twiri_machine *x, struct twiri_frame *lanes, int n);

/* interpret_map.c: tasks of a worker as an odometer over the repeat digits */
int64_t twiri_site_workers(const struct twiri_site *site, const union twiri_slot *s);
bool twiri_map_begin(struct twiri_machine *x, struct twiri_frame *f, const struct twiri_site *site);
bool twiri_map_start(const struct twiri_site *site, union twiri_slot *s, int64_t worker);
bool twiri_map_step(const struct twiri_site *site, union twiri_slot *s);
bool twiri_map_inside(const struct twiri_site *site, const union twiri_slot *s);

/* interpret_run.c: runs one frame until it ends or meets a barrier */
_Noreturn void twiri_out_of_steps(struct twiri_machine *x);
static inline void twiri_step(struct twiri_machine *x, int64_t n) /* on every way back in the code, and for long work */
{
	x->steps -= n;
	if (x->steps < 0)
		twiri_out_of_steps(x);
}
void twiri_run(struct twiri_machine *x, struct twiri_frame *f);

/* interpret_code.c, interpret_expr.c: translation */
struct twiri_scope {
	twiri_code code;
	VEC(const struct twir_expr *) pure;  /* expressions known here, forgotten when the scope ends */
	VEC(const struct twir_expr *) loads; /* forgotten when the statement ends */
};
struct twiri_gen {
	struct twiri_machine *x;
	struct tw_arena *arena;
	VEC(struct twiri_scope) scopes;
	struct tw_map memo;    /* expression -> slot and depth */
	struct tw_map vars;    /* variable -> slot and depth */
	struct tw_map tensors; /* tensor -> number + 1 */
	VEC(union twiri_slot) first;
	const struct twir_stmt *stmt;
	int pin;	     /* depth at which a function's body is evaluated, or -1 */
	int register_worker; /* slot, or -1 */
	bool in_region;
	int region_depth;
};
struct twiri_place {
	int slot, depth;
};
void twiri_gen_init(struct twiri_gen *g, struct twiri_machine *x);
int twiri_slots(struct twiri_gen *g, int n);
void twiri_emit(struct twiri_gen *g, int depth, struct twiri_ins in);
int twiri_depth(const struct twiri_gen *g);
void twiri_push(struct twiri_gen *g);
twiri_code twiri_pop(struct twiri_gen *g);
void twiri_splice(struct twiri_gen *g, const twiri_code *code);
void twiri_forget_loads(struct twiri_gen *g);
void twiri_bind(struct twiri_gen *g, const struct twir_var *v, int slot, int depth);
int twiri_tensor_number(struct twiri_gen *g, struct twir_tensor *t);
int twiri_index_const(struct twiri_gen *g, int64_t v);
struct twiri_place twiri_expr(struct twiri_gen *g, const struct twir_expr *e);
int twiri_access_new(struct twiri_gen *g, struct twir_tensor *t, const struct twir_expr *e, int n,
		     const struct twir_expr *const *index, struct twir_type type);
void twiri_gen_program(struct twiri_gen *g, const struct twir_program *p);
void twiri_gen_compute(struct twiri_gen *g, const struct twir_compute *c, const int64_t *shape);

#endif
