/* ir: tensor programs. Input and output of sched/ and pass/; text form (.tw) prints and parses without loss.
 *
 * SEMANTICS, obeyed by folder, interpreter, emitter, SIMD and scalar code alike
 *  - Every expression is total: nothing traps. Integers wrap; x / 0 = x % 0 = 0 and MIN / -1 = MIN for integers. `index` is a signed 64-bit integer
 *    whose / floors and % has the divisor's sign; other integer types truncate as in ONNX and C.
 *  - f32 and f64 follow IEEE 754, round half to even; nothing is contracted: only `fma` fuses. NaN propagates through min, max and folds of them.
 *  - float to integer saturates and NaN gives 0. i1 is false/true.
 *  - dot4(a, b, c) takes i32: c plus the sum of the products of a's four bytes, as numbers from 0 to 255, and b's, from -128 to 127. It wraps.
 *  - f16, bf16, f8.., f4e2m1, i4, u4, i2 and u2 are storage types: only loads, stores, casts and bitcasts touch them; casts are IR functions of math.tw.
 *    Casts to f8 and f4e2m1 round half to even and saturate (what is too large, infinity too, becomes the largest value); NaN stays NaN where there is
 *    one, in f4e2m1 it becomes 6. f8e8m0 takes the magnitude, up to the next power of two, at most 2^127; infinity becomes NaN.
 *  - Types of 4 and 2 bits are packed: element k of the storage order is in byte k / 2 (k / 4), lower bits first. Work on them is split at whole bytes:
 *    two workers that store to one byte without a barrier between race, though their elements differ.
 *  - Only out-of-bounds loads are illegal; therefore loads may not be moved out of a Cond, If or guard, everything else may be evaluated early.
 *  - Levels nest: core > lane on a CPU; block > warp > lane on a GPU, where `thread` is (warp, lane). The body runs once for each core item or block.
 *  - A for-mapping on lane is a region: outside it the core runs alone; inside it the lanes run as if one after another, in any order. `lane` is the
 *    number of the lane. In `on (core, lane)` workers are numbered in mixed radix, outermost first.
 *  - `within (M, N)` skips tasks at or beyond the bounds. Surplus workers do nothing.
 *  - A register tensor that mirrors MAP: each worker owns the elements MAP gives it. A shared tensor is the core item's (or block's) scratch, 64-byte
 *    aligned and uninitialised. An `out` tensor is written once per element and never read. Parameters do not overlap unless marked `alias`.
 *  - `copy async` reads its source when it is issued; the destination holds the value once the thread has waited for its group, and nothing until then. A
 *    group is what the thread issued since its last `commit`; `wait N` waits for all but its N latest groups. Other threads see it after a barrier.
 *  - shfl_up, shfl_down, shfl_xor and shfl_idx are met by all lanes of a warp together, and so is mma: d = a * b + d on a tile of which each lane holds the
 *    elements twir_mma_place says. Its products are exact, k is taken in order and each sum rounds once to the type of d.
 *  - Folds combine in a fixed order: left to right over the axes in row order, starting from the neutral element, by `fma` where the body is a product of
 *    f32 or f64 and the operation is add. Schedules may regroup (lanes, blocks); the result then differs by rounding only, and never by thread count.
 *
 * MEMORY AND IDENTITY: expressions are immutable and interned in the module's arena: structural equality is pointer equality. Statements, tensors, vars are
 * not interned; binders (lets, loops, axes) are unique objects, and each is bound once. One module belongs to one thread. */
#ifndef TW_IR_H
#define TW_IR_H

#include "base/base.h"
#include "tmap/tmap.h"

#define TWIR_MAX_RANK	 8
#define TWIR_MAX_DEPTH	 3000 /* of an expression; beyond it the constructors raise TW_ERR_UNSUPPORTED */
#define TWIR_MAX_LANES	 256
#define TWIR_USUAL_LANES 16

enum twir_scalar {
	TWIR_VOID,
	TWIR_I1,
	TWIR_I8,
	TWIR_I16,
	TWIR_I32,
	TWIR_I64,
	TWIR_U8,
	TWIR_U16,
	TWIR_U32,
	TWIR_U64,
	TWIR_F16,
	TWIR_BF16,
	TWIR_F32,
	TWIR_F64,
	TWIR_F8E4M3FN, /* from here to U2: storage types, of 8 bits, then packed ones of 4 and 2 bits */
	TWIR_F8E4M3FNUZ,
	TWIR_F8E5M2,
	TWIR_F8E5M2FNUZ,
	TWIR_F8E8M0,
	TWIR_F4E2M1,
	TWIR_I4,
	TWIR_U4,
	TWIR_I2,
	TWIR_U2,
	TWIR_INDEX,
	TWIR_SCALARS
};

struct twir_type {
	uint8_t scalar;
	uint16_t lanes; /* 1: a scalar */
};

enum twir_kind {
#define EXPR(name, text, arity, flags) TWIR_##name,
#include "ir/nodes.def"
#undef EXPR
	TWIR_KINDS
};

enum twir_level { TWIR_CORE, TWIR_LANE, TWIR_BLOCK, TWIR_WARP, TWIR_THREAD, TWIR_LEVELS };

enum twir_var_kind {
	TWIR_SYMBOL, /* of the module: a size known at launch; facts below */
	TWIR_LOOP,   /* for */
	TWIR_BOUND,  /* let */
	TWIR_AXIS,   /* axis of a compute definition or fold */
	TWIR_ARG,    /* argument of a func */
	TWIR_WORKER  /* core, lane, block, warp, thread: one per module and level */
};

struct twir_var {
	const char *name; /* unique in its program or definition */
	const char *base; /* what it was asked to be called; the printer makes names of locals from it */
	struct twir_type type;
	enum twir_var_kind kind;
	enum twir_level level; /* worker */
	uint32_t id;	       /* unique in the module */
	int64_t lo, hi;	       /* facts, inclusive; symbols: 0 .. INT64_MAX unless known better */
	int64_t multiple;      /* divisibility, >= 1 */
};

struct twir_expr {
	uint8_t kind;
	struct twir_type type;
	uint16_t n; /* arguments */
	uint8_t op; /* Fold, Reduce: the enum twir_kind of the combining operation: Add Mul Min Max MinNum MaxNum And Or Xor */
	uint8_t nidx; /* Load: how many of the arguments are indices; Gather: 1; a mask and an else value follow when n = nidx + 2 */
	bool loads;	/* contains a Load, Gather or register Reduce */
	uint16_t depth; /* of the tree, at most TWIR_MAX_DEPTH: walkers may recurse */
	uint32_t id;	/* order of creation, unique in the module */
	uint64_t hash;
	union {
		int64_t i; /* Const of integer type, index, i1 (sign- or zero-extended to the type's width) */
		double f;  /* Const of float type: exactly the f32 or f64 value */
		struct twir_var *var;	    /* Var */
		struct twir_tensor *tensor; /* Load, Gather */
		struct twir_func *func;	    /* Call */
		struct twir_var **axes;	    /* Fold: n - 1 axes */
	} u;
	const struct twir_expr *arg[];
};

/* Task mapping in a program: as twtm_map but extents are expressions; twir_map_bind gives the algebra's instance under values of symbols. */
struct twir_map {
	enum twtm_kind kind;
	int rank;
	const struct twir_expr *extent[TWIR_MAX_RANK];
	int order[TWIR_MAX_RANK];
	enum twtm_attr attr[TWIR_MAX_RANK];
	unsigned projected;
	const struct twir_map *a, *b;
};

/* Layout of a buffer: factors, outermost first; a coordinate is split over the factors as in a composition of mappings: offset(x) =
   outer(x / inner.shape) * inner.size + inner(x % inner.shape). NULL: row-major over the shape. In a row factor the last dimension is the fastest, in
   a column factor the first. A local factor takes no room: its elements belong to different workers (registers of GPU threads). A swizzled factor
   takes coordinate dim xor (coordinate by >> shift) % extent[dim] for its coordinate dim; extent[dim] is a constant power of two. */
enum twir_layout_kind { TWIR_LAYOUT_ROW, TWIR_LAYOUT_STRIDES, TWIR_LAYOUT_COLUMN, TWIR_LAYOUT_LOCAL };
struct twir_swizzle {
	bool on;
	int dim, by, shift;
};
struct twir_layout {
	enum twir_layout_kind kind;
	int rank;
	const struct twir_expr
		*extent[TWIR_MAX_RANK]; /* the factor's shape; strides: strides in elements (only as the last factor) */
	struct twir_swizzle swizzle;	/* of row and column factors */
	const struct twir_layout *inner; /* next factor or NULL */
};

enum twir_scope {
	TWIR_IN,
	TWIR_OUT,
	TWIR_SHARED,
	TWIR_REGISTER,
	TWIR_TENSOR, /* of compute definitions */
	TWIR_BUFFER  /* of launch functions: memory that programs write and read */
};

struct twir_tensor {
	const char *name; /* unique in the program */
	const char *base; /* as of variables */
	enum twir_scalar type;
	int lanes; /* 1; after lane lowering registers may hold vectors */
	int rank;
	const struct twir_expr **shape;
	enum twir_scope scope;
	const struct twir_layout *layout;
	const struct twir_map *mirrors; /* register, until lane lowering */
	struct twir_tensor *
		alias; /* an out parameter that may be the same buffer as this in parameter, accessed at equal offsets only */
	struct twir_tensor *
		bytes; /* of scope TENSOR, i32: the elements are words of four bytes of this 8-bit tensor's storage, as it lies */
	uint32_t id; /* unique in the module */
	void *user;  /* free for the owner of a compute graph; programs do not use it */
};

enum twir_stmt_kind {
	TWIR_LET,     /* let var = value; visible in the rest of the block */
	TWIR_DECLARE, /* shared or register tensor; visible in the rest of the block */
	TWIR_STORE, /* tensor[index..] = value;  wide: value.type.lanes > 1, "tensor[i, j +: 16 where m] = v"; scatter when index[0] is a vector */
	TWIR_FOR,   /* for var in repeat(extent) { body }   (attribute: repeat(extent, unroll)) */
	TWIR_FORMAP,	 /* for (vars) in map on (levels) within (bounds) { body } */
	TWIR_IF,	 /* if cond { body } else { other } */
	TWIR_SPECIALISE, /* specialise cond { body }: means its body */
	TWIR_BARRIER,	 /* barrier LEVEL; */
	TWIR_PREFETCH, /* prefetch tensor[index..] near;  a hint: load it into the second-level cache, near: into the first; changes
			    nothing, and the element need not exist; in a lane region it speaks of lane 0's element. The indices
			    load nothing. */
	TWIR_COMMIT, /* commit;  ends a group of asynchronous copies */
	TWIR_WAIT,   /* wait N;  for all groups but the N latest */
	TWIR_MMA,    /* mma SHAPE d[..], a[..], b[..];  one matrix instruction of a warp */
	TWIR_INVOKE  /* call PROGRAM(X, Y[i]) with (M = e, ..);  in launch functions only */
};

/* A matrix instruction: d (m x n) = a (m x k) * b (k x n) + d, over the 32 lanes of a warp. An operand is a fragment: a run of elements of a register
   tensor that belongs to the lane. mma.c holds the table. */
enum twir_operand_of { TWIR_MMA_D, TWIR_MMA_A, TWIR_MMA_B };
struct twir_mma {
	const char *name; /* "m16n8k16_f16" */
	int m, n, k;
	enum twir_scalar type, sum; /* of a and b; of d */
	int elements[3];	    /* of one lane: d, a, b */
};
struct twir_fragment {
	struct twir_tensor *tensor;
	int n; /* leading indices; the dimensions behind them are the fragment */
	const struct twir_expr **index;
};

/* What a program is called with: a tensor, or the part of it that its leading indices choose. */
struct twir_argument {
	struct twir_tensor *tensor;
	int n;
	const struct twir_expr **index;
};

struct twir_stmt {
	enum twir_stmt_kind kind;
	struct twir_stmt *next; /* the block is a list */
	int line, column;	/* of the text it was parsed from; 0: none */
	union {
		struct {
			struct twir_var *var;
			const struct twir_expr *value;
		} let;
		struct {
			struct twir_tensor *tensor;
		} declare;
		struct {
			struct twir_tensor *tensor;
			int n;
			const struct twir_expr **index, *value, *mask; /* mask: NULL or i1 vector */
			bool async; /* copy async T[..] = value; value is a load or c ? load : x, T is shared */
		} store;
		struct {
			struct twir_var *var;
			const struct twir_expr *extent;
			bool unroll;   /* in full: the extent is a constant */
			int unroll_by; /* repeat(n, unroll 4): so many steps at a time; 0: not asked for */
			struct twir_stmt *body;
		} loop;
		struct {
			int n; /* variables = rank of the map */
			struct twir_var **vars;
			const struct twir_map *map;
			int nlevels;
			enum twir_level levels[3];
			const struct twir_expr **bounds; /* NULL: no within; else n of them */
			struct twir_stmt *body;
		} formap;
		struct {
			const struct twir_expr *cond;
			struct twir_stmt *body, *other;
		} branch; /* if; specialise: other == NULL */
		struct {
			enum twir_level level;
		} barrier;
		struct {
			struct twir_tensor *tensor; /* in, out or shared */
			int n;
			const struct twir_expr **index;
			bool near; /* into the first-level cache, not the second */
		} prefetch;
		struct {
			int pending;
		} wait;
		struct {
			const struct twir_mma *shape;
			struct twir_fragment part[3]; /* enum twir_operand_of */
		} mma;
		struct {
			struct twir_program *program;
			int n; /* = program->nparams */
			struct twir_argument *args;
			int nsymbols;
			struct twir_var **symbols; /* of the program, that get a value of their own here */
			const struct twir_expr **values;
		} invoke;
	} u;
};

/* func name(x: f32, y: f32): f32 { let t = ..; return e; }   pure, no loads, no recursion */
struct twir_func {
	const char *name;
	struct twir_type result;
	int n;
	struct twir_var **args;
	int nlets;
	struct twir_var **lets;
	const struct twir_expr **values;
	const struct twir_expr *body;
	bool library; /* of the math library: printed only where it is used */
};

/* define Y: f32[M, N] = (i, j) => expr;   each element of out by one expression over loads of other tensors */
struct twir_compute {
	struct twir_tensor *out;
	struct twir_var **axes; /* out->rank of them, extents = out->shape */
	const struct twir_expr *value;
	const char *origin; /* the graph node it came from, for errors and tables; NULL: none */
	/* Programs over compute tensors that make out, in order, as somebody has scheduled them; value then only says what they load, and nothing evaluates
	   it. 0: none. */
	int nprograms;
	struct twir_program **programs;
};

struct twir_program {
	const char *name;
	int nparams;
	struct twir_tensor **params; /* in and out, in the order of the kernel's buf[] */
	int nlevels;
	enum twir_level levels[3];
	const struct twir_expr *extents[3]; /* launch: workers a level; lane counts are constants */
	struct twir_stmt *body;
	int nsymbols; /* symbols used anywhere, in the order of the kernel's sym[]; made by twir_program_symbols */
	struct twir_var **symbols;
};

/* launch NAME(A: f32[M, K], out C: f32[M, N]) { buffer T: f32[M]; for i in repeat(n) { call P(A, T); } }   what the host does: statements are let,
   declarations of buffers, for, if, call. Symbols have the values that the launch was given, but for what `with` says. */
struct twir_launch {
	const char *name;
	int nparams;
	struct twir_tensor **params; /* in and out; an out parameter may be read by programs after it was written */
	struct twir_stmt *body;
	int nsymbols; /* made by the parser */
	struct twir_var **symbols;
};

struct twir_module {
	struct tw_arena *arena;
	struct tw_arena *scratch;	 /* of a pass: maps that it looks things up in; otherwise the arena */
	const struct twir_module *under; /* in a frame: as it was before; what it holds is found, never changed */
	struct twir_expr **table;	 /* interning: open addressing */
	int64_t table_n, table_cap;
	uint32_t next_id;
	struct twir_var *workers[TWIR_LEVELS];
	VEC(struct twir_var *) symbols;
	VEC(struct twir_func *) funcs;	   /* the library of math functions is loaded by twir_math */
	VEC(struct twir_tensor *) tensors; /* free tensors of the definitions: "tensor X: f32[M, N];" */
	VEC(struct twir_compute *) computes;
	VEC(struct twir_program *) programs;
	VEC(struct twir_launch *) launches;
	struct tw_strmap names;	    /* taken names of variables and tensors -> the next suffix to try */
	struct tw_strmap symbol_of; /* symbols by the name they were asked for */
	struct tw_strmap func_of;   /* funcs by name */
	bool math_loaded;
	/* where the verifier and the interpreter tell a fault beside raising it, its texts in `arena`; NULL: nowhere */
	struct twir_diagnostic *fault;
	int lanes; /* lanes(f32) in texts: of 32 bits in a vector register of the machine that they are read for; 0: TWIR_USUAL_LANES */
};

/* types.c */
static inline struct twir_type twir_scalar_type(enum twir_scalar s)
{
	return (struct twir_type){.scalar = (uint8_t)s, .lanes = 1};
}
static inline struct twir_type twir_vector_type(enum twir_scalar s, int lanes)
{
	return (struct twir_type){(uint8_t)s, (uint16_t)lanes};
}
static inline bool twir_type_eq(struct twir_type a, struct twir_type b)
{
	return a.scalar == b.scalar && a.lanes == b.lanes;
}
const char *twir_scalar_name(enum twir_scalar s);     /* "f32" */
enum twir_scalar twir_scalar_parse(const char *name); /* TWIR_VOID when unknown */
struct twir_type twir_type_named(const char *name);   /* "f32", "f32x16"; scalar TWIR_VOID when unknown */
int twir_scalar_bytes(enum twir_scalar s); /* i1 is one byte in memory; packed types: 1, twir_storage_bytes tells */
int twir_scalar_bits(enum twir_scalar s);  /* of an element in memory: i1 is 8, i4 is 4 */
bool twir_is_storage(enum twir_scalar s);  /* only loads, stores, casts and bitcasts touch it */
bool twir_is_packed(enum twir_scalar s);   /* several elements share a byte */
int64_t twir_storage_bytes(enum twir_scalar s, int64_t elements); /* of a buffer; saturates */
bool twir_is_float(enum twir_scalar s), twir_is_int(enum twir_scalar s) /* index and i1 too */,
	twir_is_signed(enum twir_scalar s);
const char *twir_kind_name(enum twir_kind k); /* "Add" */
const char *twir_kind_text(enum twir_kind k); /* "+" */
enum {
	TWIR_F_INFIX = 1,
	TWIR_F_PREFIX = 2,
	TWIR_F_FUNC = 4,
	TWIR_F_OTHER = 8,
	TWIR_F_COMM = 16,
	TWIR_F_CMP = 32,
	TWIR_F_INT = 64,
	TWIR_F_FLT = 128,
	TWIR_F_LATE = 256
};
unsigned twir_kind_flags(enum twir_kind k);
int twir_kind_arity(enum twir_kind k);
const char *twir_level_name(enum twir_level l);

/* storage.c: floats of 16 bits and fewer as bits, with the rounding that the semantics name. */
uint64_t twir_float_bits(enum twir_scalar s, double v);
double twir_float_value(enum twir_scalar s, uint64_t bits);

/* mma.c */
const struct twir_mma *twir_mma_find(const char *name); /* NULL: there is none */
const struct twir_mma *twir_mma_at(int i);		/* all of them; NULL ends */
/* Which element of the operand's tile lane `lane` holds as element e of its fragment. */
void twir_mma_place(const struct twir_mma *s, enum twir_operand_of which, int lane, int e, int *row, int *column);

/* build.c: modules, variables, tensors and interned expressions. The constructors check types (TW_CHECK: our fault) and fold only integer constants and
   the identities x+0, x-0, x*1, x*0, x/1, x%1, min/max/ceil_div/round_up of constants, c ? a : b with constant c, and/or/not with constants, comparisons of
   integer constants or of one expression with itself (integers). Floats are never folded here. Two scalars or vectors of equal type; a scalar beside a
   vector is splat automatically. */
struct twir_module *twir_module_new(struct tw_arena *a);
struct twir_var *twir_var_new(struct twir_module *m, enum twir_var_kind kind, struct twir_type type,
			      const char *name);		       /* name is made unique: i, i_1 .. */
struct twir_var *twir_symbol(struct twir_module *m, const char *name); /* finds or makes */
struct twir_tensor *twir_tensor_new(struct twir_module *m, const char *name, enum twir_scalar type, int rank,
				    const struct twir_expr *const *shape, enum twir_scope scope);
const struct twir_expr *twir_int(struct twir_module *m, enum twir_scalar type, int64_t value);
const struct twir_expr *twir_index(struct twir_module *m, int64_t value);
const struct twir_expr *twir_float(struct twir_module *m, enum twir_scalar type,
				   double value); /* rounds to f32 for f32 */
const struct twir_expr *twir_bool(struct twir_module *m, bool value);
const struct twir_expr *twir_const_of(struct twir_module *m, struct twir_type type,
				      double value); /* any numeric type, vectors splat */
const struct twir_expr *twir_var(struct twir_module *m, struct twir_var *v);
const struct twir_expr *twir_worker(struct twir_module *m, enum twir_level level);
const struct twir_expr *twir_unary(struct twir_module *m, enum twir_kind k, const struct twir_expr *a);
const struct twir_expr *twir_binary(struct twir_module *m, enum twir_kind k, const struct twir_expr *a,
				    const struct twir_expr *b);
const struct twir_expr *twir_add(struct twir_module *m, const struct twir_expr *a, const struct twir_expr *b);
const struct twir_expr *twir_sub(struct twir_module *m, const struct twir_expr *a, const struct twir_expr *b);
const struct twir_expr *twir_mul(struct twir_module *m, const struct twir_expr *a, const struct twir_expr *b);
const struct twir_expr *twir_div(struct twir_module *m, const struct twir_expr *a, const struct twir_expr *b);
const struct twir_expr *twir_mod(struct twir_module *m, const struct twir_expr *a, const struct twir_expr *b);
const struct twir_expr *twir_min(struct twir_module *m, const struct twir_expr *a, const struct twir_expr *b);
const struct twir_expr *twir_max(struct twir_module *m, const struct twir_expr *a, const struct twir_expr *b);
const struct twir_expr *twir_lt(struct twir_module *m, const struct twir_expr *a, const struct twir_expr *b);
const struct twir_expr *twir_le(struct twir_module *m, const struct twir_expr *a, const struct twir_expr *b);
const struct twir_expr *twir_eq(struct twir_module *m, const struct twir_expr *a, const struct twir_expr *b);
const struct twir_expr *twir_ne(struct twir_module *m, const struct twir_expr *a, const struct twir_expr *b);
const struct twir_expr *twir_and(struct twir_module *m, const struct twir_expr *a, const struct twir_expr *b);
const struct twir_expr *twir_or(struct twir_module *m, const struct twir_expr *a, const struct twir_expr *b);
const struct twir_expr *twir_not(struct twir_module *m, const struct twir_expr *a);
const struct twir_expr *twir_ceildiv(struct twir_module *m, const struct twir_expr *a, const struct twir_expr *b);
const struct twir_expr *twir_roundup(struct twir_module *m, const struct twir_expr *a, const struct twir_expr *b);
const struct twir_expr *twir_fma(struct twir_module *m, const struct twir_expr *a, const struct twir_expr *b,
				 const struct twir_expr *c);
const struct twir_expr *twir_dot4(struct twir_module *m, const struct twir_expr *a, const struct twir_expr *b,
				  const struct twir_expr *c);
const struct twir_expr *twir_select(struct twir_module *m, const struct twir_expr *c, const struct twir_expr *a,
				    const struct twir_expr *b);
const struct twir_expr *twir_cond(struct twir_module *m, const struct twir_expr *c, const struct twir_expr *a,
				  const struct twir_expr *b);
const struct twir_expr *twir_cast(struct twir_module *m, enum twir_scalar to,
				  const struct twir_expr *a); /* same type: a itself */
const struct twir_expr *twir_bitcast(struct twir_module *m, enum twir_scalar to, const struct twir_expr *a);
const struct twir_expr *twir_call(struct twir_module *m, struct twir_func *f, int n,
				  const struct twir_expr *const *args);
const struct twir_expr *twir_math(struct twir_module *m, const char *name, int n,
				  const struct twir_expr *const *args); /* "exp", "tanh" .. of math.tw for the
	arguments' type (the func is NAME_f32 or NAME_f64); raises TW_ERR_INTERNAL when there is none */
const struct twir_expr *twir_load(struct twir_module *m, struct twir_tensor *t, int n,
				  const struct twir_expr *const *index);
const struct twir_expr *
twir_load_wide(struct twir_module *m, struct twir_tensor *t, int n, const struct twir_expr *const *index, int lanes,
	       const struct twir_expr *mask,
	       const struct twir_expr *other); /* mask == NULL: unmasked; other: scalar or vector */
const struct twir_expr *twir_gather(struct twir_module *m, struct twir_tensor *t, const struct twir_expr *index,
				    const struct twir_expr *mask, const struct twir_expr *other);
const struct twir_expr *twir_fold(struct twir_module *m, enum twir_kind op, int n, struct twir_var *const *axes,
				  const struct twir_expr *const *extents, const struct twir_expr *body);
const struct twir_expr *twir_reduce(struct twir_module *m, enum twir_kind op, const struct twir_expr *v);
const struct twir_expr *twir_splat(struct twir_module *m, const struct twir_expr *a, int lanes);
const struct twir_expr *twir_iota(struct twir_module *m, enum twir_scalar type, int lanes);
const struct twir_expr *twir_extract(struct twir_module *m, const struct twir_expr *v, int lane);
/* The same node with other arguments (types as the constructors would give); returns e when all arguments are the same pointers. */
const struct twir_expr *twir_with_args(struct twir_module *m, const struct twir_expr *e,
				       const struct twir_expr *const *args);
const struct twir_expr *twir_neutral(struct twir_module *m, enum twir_kind op,
				     struct twir_type type); /* of a fold: add 0, mul 1, min +inf or the largest, .. */
bool twir_const_int(const struct twir_expr *e, int64_t *value); /* is it an integer constant? */
/* statements; fields to fill as needed */
struct twir_stmt *twir_stmt_new(struct twir_module *m, enum twir_stmt_kind kind);
struct twir_stmt *twir_if(struct twir_module *m, const struct twir_expr *cond, struct twir_stmt *body,
			  struct twir_stmt *other); /* other may be NULL */
struct twir_stmt *twir_let(struct twir_module *m, struct twir_var *v, const struct twir_expr *value);
struct twir_stmt *twir_store(struct twir_module *m, struct twir_tensor *t, int n, const struct twir_expr *const *index,
			     const struct twir_expr *value, const struct twir_expr *mask);
struct twir_stmt *twir_prefetch(struct twir_module *m, struct twir_tensor *t, int n,
				const struct twir_expr *const *index, bool near);
struct twir_stmt *twir_copy_async(struct twir_module *m, struct twir_tensor *t, int n,
				  const struct twir_expr *const *index,
				  const struct twir_expr *value); /* value: a load, or cond ? load : else */
/* Does a block hold what only a GPU has (barriers apart): shuffles, asynchronous copies, mma? Gives its name, or NULL. */
const char *twir_gpu_only(const struct twir_stmt *list);
/* maps */
const struct twir_map *twir_repeat(struct twir_module *m, int rank, const struct twir_expr *const *extent,
				   const enum twtm_attr *attrs);
const struct twir_map *twir_spatial(struct twir_module *m, int rank, const struct twir_expr *const *extent);
const struct twir_map *twir_compose(struct twir_module *m, const struct twir_map *a, const struct twir_map *b);
const struct twir_map *twir_project(struct twir_module *m, const struct twir_map *a, unsigned dims);
const struct twir_expr *twir_map_workers(struct twir_module *m, const struct twir_map *f);
const struct twir_expr *twir_map_extent(struct twir_module *m, const struct twir_map *f,
					int dim); /* of the task shape */

/* walk.c: rewriting and visiting. Expressions are DAGs: every walker memoises. */
struct twir_rewriter {
	struct twir_module *m;
	void *user;
	/* Called bottom-up on each expression after its arguments; returns the replacement (e itself: unchanged). NULL: identity. */
	const struct twir_expr *(*expr)(struct twir_rewriter *r, const struct twir_expr *e);
	/* Called on each statement before its parts are rewritten; may return a list that replaces it (then it is responsible for the parts), NULL to
	   go on as usual, or &r->nothing to drop the statement. NULL: none. */
	struct twir_stmt *(*stmt)(struct twir_rewriter *r, const struct twir_stmt *s);
	struct twir_stmt nothing;
	struct tw_map memo; /* expr -> expr; cleared with twir_rewriter_reset when what expr() depends on changes */
};
void twir_rewriter_init(struct twir_rewriter *r, struct twir_module *m);
void twir_rewriter_reset(struct twir_rewriter *r);
const struct twir_expr *twir_rewrite_expr(struct twir_rewriter *r, const struct twir_expr *e);
struct twir_stmt *twir_rewrite_block(struct twir_rewriter *r,
				     const struct twir_stmt *list); /* a fresh list; var and tensor objects are kept */
const struct twir_map *twir_rewrite_map(struct twir_rewriter *r, const struct twir_map *map);
/* Replaces variables by expressions: pairs var -> expr. */
struct twir_subst {
	struct twir_module *m;
	struct tw_map map;
};
void twir_subst_init(struct twir_subst *s, struct twir_module *m);
void twir_subst_set(struct twir_subst *s, struct twir_var *v, const struct twir_expr *e);
const struct twir_expr *twir_subst_expr(struct twir_subst *s, const struct twir_expr *e);
struct twir_stmt *
twir_subst_block(struct twir_subst *s,
		 const struct twir_stmt
			 *list); /* a copy with fresh binders and local tensors: safe to insert beside the original */
/* Calls visit once for each distinct sub-expression, arguments first. */
void twir_visit_expr(const struct twir_expr *e, void (*visit)(void *arg, const struct twir_expr *e), void *arg);
/* Calls visit for each expression (not sub-expression) that a block holds, and stmt for each statement; either may be NULL. */
void twir_visit_block(const struct twir_stmt *list, void (*stmt)(void *arg, const struct twir_stmt *s),
		      void (*expr)(void *arg, const struct twir_expr *e), void *arg);
bool twir_uses_var(const struct twir_expr *e, const struct twir_var *v);
bool twir_uses_tensor(const struct twir_expr *e, const struct twir_tensor *t);
void twir_append(struct twir_stmt **list, struct twir_stmt *tail); /* tail may be a list */
void twir_program_symbols(struct twir_module *m,
			  struct twir_program *p); /* fills nsymbols, symbols: in order of their ids */
const struct twir_layout *twir_layout_row(struct twir_module *m, int rank, const struct twir_expr *const *extent,
					  const struct twir_layout *inner);
/* Any factor; swizzle may be NULL. */
const struct twir_layout *twir_layout_factor(struct twir_module *m, enum twir_layout_kind kind, int rank,
					     const struct twir_expr *const *extent, const struct twir_swizzle *swizzle,
					     const struct twir_layout *inner);
/* Tiles of the given block shape one after another, each row-major: row(ceil_div(shape, block)) * row(block). */
const struct twir_layout *twir_layout_blocked(struct twir_module *m, int rank, const struct twir_expr *const *shape,
					      const struct twir_expr *const *block);
const struct twir_layout *twir_layout_strides(struct twir_module *m, int rank, const struct twir_expr *const *stride);
/* Do two elements certainly lie at one place? Strides of 0 or more; too many elements to try: no. */
bool twir_strides_overlap(int rank, const int64_t *extent, const int64_t *stride);
bool twir_layout_equal(const struct twir_layout *a, const struct twir_layout *b);
const struct twir_expr *twir_layout_offset(struct twir_module *m, const struct twir_tensor *t, int n,
					   const struct twir_expr *const *index); /* in elements */
const struct twir_expr *twir_tensor_elements(struct twir_module *m,
					     const struct twir_tensor *t); /* storage size in elements, by its layout */

/* frame.c: work that leaves nothing behind. From begin to end the module allocates in an arena of its own; what it held is found as before, and expressions that
   it holds are the same objects. After end the module is what it was; what was made in between lives until the frame is freed: adopt what is to stay. Objects of
   the module itself must not be made to point to what was made in a frame; no symbol may be new. Frames do not nest. */
struct twir_frame {
	struct twir_module before;
	struct tw_arena *arena;
	struct tw_map adopted; /* made in the frame -> the module's own */
};
void twir_frame_begin(struct twir_module *m, struct twir_frame *f);
void twir_frame_end(struct twir_module *m, struct twir_frame *f);
void twir_frame_free(struct twir_frame *f);
/* Between end and free: the same in the module; what the module holds is itself. Of expressions, those over numbers and symbols. */
const struct twir_expr *twir_adopt_expr(struct twir_module *m, struct twir_frame *f, const struct twir_expr *e);
struct twir_tensor *twir_adopt_tensor(struct twir_module *m, struct twir_frame *f, struct twir_tensor *t);

/* names.c: an identifier as like name as can be: letters, digits and _ ; no word of the language; at most 64 characters */
const char *twir_identifier(struct tw_arena *a, const char *name);

/* text.c (print.c, lex.c, parse.c). Printing is canonical; print(parse(print(m))) == print(m) byte for byte. */
const char *
twir_print_module(struct tw_arena *a,
		  const struct twir_module *m); /* symbols with facts, funcs used, tensors, defines, programs */
const char *twir_print_program(struct tw_arena *a, const struct twir_module *m,
			       const struct twir_program *p); /* stands alone: symbols and funcs it uses come first */
const char *twir_print_compute(struct tw_arena *a, const struct twir_compute *c);
const char *twir_print_launch(struct tw_arena *a, const struct twir_launch *l); /* the function alone */
const char *twir_print_expr(struct tw_arena *a, const struct twir_expr *e);
const char *twir_print_map(struct tw_arena *a, const struct twir_map *f);
/* Adds what the text declares to m. Raises TW_ERR_MODEL "name:line:column: reason", with the line, a caret and a hint. */
void twir_parse(struct twir_module *m, const char *name, const char *text);
struct twir_func *twir_func_find(struct twir_module *m, const char *name); /* loads the math library on first use */
struct twir_program *twir_program_find(struct twir_module *m, const char *name);
struct twir_launch *twir_launch_find(struct twir_module *m, const char *name);

/* verify.c: raises TW_ERR_INTERNAL (or TW_ERR_MODEL for a program from text, code given) naming program, statement and reason. */
void twir_verify_program(struct twir_module *m, const struct twir_program *p, enum tw_code blame);
void twir_verify_func(struct twir_module *m, const struct twir_func *f, enum tw_code blame);
void twir_verify_compute(struct twir_module *m, const struct twir_compute *c, enum tw_code blame);
void twir_verify_launch(struct twir_module *m, const struct twir_launch *l, enum tw_code blame);

/* diagnose.c: what a person who writes a program should know of it, errors first, each part in the order of the text. An error is certain: the program
   cannot be right. What is neither proved right nor wrong is listed as unproved: the interpreter checks it where it runs. A fault of structure (types, scopes,
   levels: what twir_verify_program refuses) is reported alone, since everything else builds on it. */
enum twir_severity { TWIR_ERROR, TWIR_WARNING, TWIR_UNPROVED, TWIR_SEVERITIES };
struct twir_diagnostic {
	enum twir_severity severity;
	int line, column;      /* of the text; 0: none */
	const char *text;      /* the reason, one line */
	const char *hint;      /* NULL: none */
	const char *statement; /* the first line of the statement; NULL: the program's head */
	const char *within;    /* "program 'p'"; NULL: not said */
};
struct twir_diagnostics {
	int n, count[TWIR_SEVERITIES];
	struct twir_diagnostic *at; /* in the arena */
};
const char *twir_severity_name(enum twir_severity s); /* "error", "warning", "unproved" */
struct twir_diagnostics twir_diagnose_program(struct twir_module *m, const struct twir_program *p, struct tw_arena *a);

/* diagnose_bytes.c: an output of a packed type of which it is not proved that each of its bytes is stored to by one
   worker only (a core item, a thread; lanes of a core item follow each other). NULL: there is none. */
const struct twir_tensor *twir_shared_byte(struct twir_module *m, const struct twir_program *p);

/* report.c: a fault as a person reads it: "name:line:column: reason", the line of the text with a mark under the place, a hint. */
void twir_put_line(struct tw_buf *b, const char *text, int line, int column);
void twir_put_diagnostic(struct tw_buf *b, const char *name, const char *text, const char *program,
			 const struct twir_diagnostic *x);
/* Runs fn(arg), which verifies or interprets programs of m that were read from this text; what it raises names the place there. */
void twir_in_text(struct twir_module *m, const char *name, const char *text, void (*fn)(void *arg), void *arg);
/* Verifies everything that m has from the text. Raises TW_ERR_MODEL. */
void twir_verify_text(struct twir_module *m, const char *name, const char *text);

/* simplify.c: integer and boolean arithmetic made canonical with the facts of variables: sums of products in id order, (x / c) * c + x % c = x,
   (a * c + b) / c = a + b / c, bounds decide comparisons, min, max, / and %. Floats: only what is exact. Each rule shrinks or canonises, so it ends. */
struct twir_range {
	int64_t lo, hi, multiple;
};
struct twir_facts { /* what is known inside loops and guards; grows and shrinks as a stack */
	struct twir_module *m;
	struct tw_map ranges;		     /* var -> struct twir_range* , beyond the var's own facts */
	VEC(const struct twir_expr *) known; /* conditions known to be true */
	struct tw_map memo;
	struct twirs_state *state; /* the simplifier's own */
};
void twir_facts_init(struct twir_facts *f, struct twir_module *m);
void twir_facts_range(struct twir_facts *f, const struct twir_var *v, int64_t lo, int64_t hi);
int twir_facts_assume(struct twir_facts *f, const struct twir_expr *cond); /* returns the mark to give to forget */
void twir_facts_forget(struct twir_facts *f, int mark);
const struct twir_expr *twir_simplify(struct twir_facts *f, const struct twir_expr *e); /* f may be a fresh one */
struct twir_range twir_range_of(struct twir_facts *f, const struct twir_expr *e); /* integer expressions; saturating */
bool twir_prove(struct twir_facts *f, const struct twir_expr *cond); /* true only when it certainly holds */
void twir_simplify_program(
	struct twir_module *m,
	struct twir_program *p); /* all of the body, with facts from loops, guards, lets and launch extents;
	loops of extent 1 and 0 vanish, ifs with known conditions too */
/* e = base + stride * v with v-free base and constant stride? Works modulo simplification. */
bool twir_linear_in(struct twir_facts *f, const struct twir_expr *e, const struct twir_var *v,
		    const struct twir_expr **base, int64_t *stride);

/* interpret.c: runs any program at any stage: the definition of the semantics. Every access is checked: raises TW_ERR_INPUT naming program, statement and
   index on out-of-bounds, uninitialised reads, double stores to out tensors, foreign register elements. */
struct twir_binding { /* values of symbols */
	int n;
	struct twir_var *const *symbols;
	const int64_t *values;
};
struct twir_data { /* a tensor in memory, in its layout, storage type */
	void *at;
	int64_t elements; /* capacity in elements */
};
void twir_interpret(struct twir_module *m, const struct twir_program *p, const struct twir_binding *b,
		    const struct twir_data *params);
/* The same within limits, for programs that nobody vouches for. */
struct twir_limits {
	int64_t steps; /* turns of loops of all workers together, and work as long; beyond it TW_ERR_CANCELLED is raised; 0: none */
	int64_t bytes; /* of the state of a block's threads, and of a local tensor; 0: 2 GiB */
};
void twir_interpret_within(struct twir_module *m, const struct twir_program *p, const struct twir_binding *b,
			   const struct twir_data *params, const struct twir_limits *limits);
/* Runs a launch function: makes its buffers, runs the programs it calls in order. limits == NULL: none. */
void twir_interpret_launch(struct twir_module *m, const struct twir_launch *l, const struct twir_binding *b,
			   const struct twir_data *params, const struct twir_limits *limits);
/* The value of a compute definition, element by element in row order; loads look up inputs by tensor. */
struct twir_env {
	int n;
	struct twir_tensor *const *tensors;
	const struct twir_data *data;
	const int64_t (*shapes)[TWIR_MAX_RANK];
};
void twir_interpret_compute(struct twir_module *m, const struct twir_compute *c, const struct twir_binding *b,
			    const struct twir_env *inputs, struct twir_data out);
int64_t
twir_eval_index(const struct twir_expr *e,
		const struct twir_binding *b); /* size expressions over symbols; raises TW_ERR_INPUT on overflow */
const struct twtm_map *twir_map_bind(struct tw_arena *a, const struct twir_map *f, const struct twir_binding *b);

#endif
