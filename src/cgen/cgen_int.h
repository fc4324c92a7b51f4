/* cgen_int: shared by the files of cgen/. */
#ifndef TW_CGEN_INT_H
#define TW_CGEN_INT_H

#include "cgen/cgen.h"
#include "cgen/dialect.h"

struct cgen_helper {
	const char *name, *op;
	struct twir_type a, b; /* b.scalar == TWIR_VOID: none */
	bool printed;
};

enum { MAX_LOG2 = 8 }; /* vectors have 2 .. 128 lanes */

/* The helpers and vector types that a file uses; filled while kernels are written. */
struct cgen_uses {
	struct tw_arena *arena;
	const struct tw_dialect *d;
	struct tw_strmap helpers;
	VEC(struct cgen_helper *) list;
	bool tracing; /* cgen_use notes what is asked for in `called` */
	VEC(struct cgen_helper *) called;
	bool vectors[TWIR_SCALARS][MAX_LOG2];	/* [scalar][log2 lanes] */
	bool unaligned[TWIR_SCALARS][MAX_LOG2]; /* the _u form too */
};

struct cgen {
	struct twir_module *m;
	const struct twir_program *p;
	struct tw_buf out;
	struct cgen_uses *uses;
	struct tw_map vars;    /* twir_var -> name */
	struct tw_map tensors; /* twir_tensor -> name */
	struct tw_map live;    /* let variables that something uses; register tensors that are loaded; see emit.c */
	struct tw_map nonneg;  /* twir_var (let) -> non-NULL: never negative */
	struct tw_map varying; /* twir_var (let) -> non-NULL: may differ between the threads of a block */
	int divergent;	       /* conditions around that may differ so */
	bool pooled;	       /* something passes values between threads through the block's memory */
	VEC(struct twir_tensor *) shared;
	int nvars, nloops, nregs, indent;
	bool core_used, readable; /* names of the text beside letters */
	int64_t budget;		  /* expressions still to be written: a guard against text that explodes */
};

/* helper.c */
void cgen_uses_init(struct cgen_uses *u, struct tw_arena *a, const struct tw_dialect *d);
const char *cgen_use(struct cgen_uses *u, const char *op, struct twir_type a, struct twir_type b);
bool cgen_has_row(const struct cgen_uses *u, const char *op, struct twir_type a); /* of the dialect's own */
const char *cgen_scalar_name(enum twir_scalar s); /* C type of a value: "f32", "i64" for index, "u16" for f16 */
enum twir_scalar
cgen_storage(enum twir_scalar s); /* the type it has in C: index is i64, f16 and bf16 are u16, i1 is u8, i4 is i8 */
const char *cgen_type(struct cgen_uses *u, struct twir_type t); /* C type of a value; i1 vectors are masks of i32 */

/* wide.c */
bool cgen_is_wide(const struct cgen_uses *u,
		  struct twir_type t); /* wider than the machine's vectors: a struct of two halves */
bool cgen_wide_helper(struct cgen_uses *u, struct tw_buf *out,
		      const struct cgen_helper *h); /* false: h has no wide type */

/* short names for what every file writes */
static inline void put(struct cgen *g, const char *s)
{
	buf_puts(&g->out, s);
}
static inline bool is_vector(const struct twir_expr *e)
{
	return e->type.lanes > 1;
}
static inline bool is_i1(const struct twir_expr *e)
{
	return e->type.scalar == TWIR_I1;
}
static inline struct twir_type with_scalar(struct twir_type t, enum twir_scalar s)
{
	t.scalar = (uint8_t)s;
	return t;
}

/* memory.c */
void cgen_element(struct cgen *g, const struct twir_tensor *t, int n,
		  const struct twir_expr *const *index); /* "p0[i]" or "r0" */
void cgen_flat_index(struct cgen *g, const struct twir_tensor *t, int n, const struct twir_expr *const *index);
void cgen_pointer(struct cgen *g, const struct twir_tensor *t, int n,
		  const struct twir_expr *const *index); /* "p0 + i" */
const char *cgen_tensor_name(struct cgen *g, const struct twir_tensor *t);
/* Writes "p0 + base, " and returns the index vector that remains: of 32 bits when the index is splat(base) + index(i32
 * vector). */
const struct twir_expr *cgen_indexed(struct cgen *g, const struct twir_tensor *t, const struct twir_expr *index);
const struct twir_expr *cgen_index_parts(const struct twir_expr *index, const struct twir_expr **base);
struct twir_type cgen_index_type(const struct twir_expr *index); /* of that vector */
/* bits.c: elements that share bytes: of parameters of packed types; other tensors have a byte for each */
bool cgen_in_bits(const struct twir_tensor *t);
void cgen_bits_load(struct cgen *g, const struct twir_expr *e); /* or gather */
void cgen_bits_store(struct cgen *g, const struct twir_stmt *s);
void cgen_bits_pointer(struct cgen *g, const struct twir_tensor *t, int n, const struct twir_expr *const *index);

void cgen_else_value(struct cgen *g, const struct twir_expr *e, const struct twir_expr *other);
void cgen_load(struct cgen *g, const struct twir_expr *e);
void cgen_gather(struct cgen *g, const struct twir_expr *e);

/* expr.c */
void cgen_call_text(struct cgen *g, const char *name, int n, const struct twir_expr *const *args); /* name(a, b, ..) */
void cgen_expr(struct cgen *g, const struct twir_expr *e);
bool cgen_nonneg(struct cgen *g, const struct twir_expr *e);
const char *cgen_helper_for(struct cgen *g, const char *op, struct twir_type a);

/* emit.c */
void cgen_kernel_into(struct cgen_uses *u, struct tw_buf *out, struct twir_module *m, const struct twir_program *p,
		      const char *name, bool readable);
void cgen_start(struct cgen *g); /* with m and p set: what is used, maps, the buffer */
void cgen_block(struct cgen *g, const struct twir_stmt *list);
bool cgen_is_live(const struct cgen *g, const void *x);
/* The name of a variable or tensor from here on: a letter and *count, which is counted up, or a letter and its own. */
const char *cgen_bind(struct cgen *g, struct tw_map *map, const void *what, const char *real, char letter, int *count);

/* warp.c: what the threads of a warp do together */
bool cgen_varies(struct cgen *g, const struct twir_expr *e); /* between threads of a block; false on a CPU */
/* Raises where the words need all threads of a block for it and they may not all be here. */
void cgen_together(const struct cgen *g, enum twir_level level, const char *what);
void cgen_shuffle(struct cgen *g, const struct twir_expr *e);
void cgen_copy_async(struct cgen *g, const struct twir_stmt *s); /* behind the tabs */
void cgen_warp_stmt(struct cgen *g, const struct twir_stmt *s);	 /* commit, wait, mma */

/* kernel_gpu.c */
enum { CGEN_STATIC_SHARED = 48 << 10 }; /* bytes of shared memory that arrays may have; more comes from a pool */
void cgen_gpu_kernel(struct cgen_uses *u, struct tw_buf *out, struct twir_module *m, const struct twir_program *p,
		     const char *name);

#endif
