/* rt: the runtime. Executes bundle images and nothing else; knows no ir, graph or compiler. Everything here returns a
 * status and is safe to call from several threads where it says so. Types are ONNX's TensorProto numbers. */
#ifndef TW_RT_H
#define TW_RT_H

#include "base/base.h"

#include <sys/stat.h>
#include <time.h>

#define TWRT_MAX_RANK 8

enum twrt_type {
	TWRT_F32 = 1,
	TWRT_U8 = 2,
	TWRT_I8 = 3,
	TWRT_U16 = 4,
	TWRT_I16 = 5,
	TWRT_I32 = 6,
	TWRT_I64 = 7,
	TWRT_STRING = 8,
	TWRT_BOOL = 9,
	TWRT_F16 = 10,
	TWRT_F64 = 11,
	TWRT_U32 = 12,
	TWRT_U64 = 13,
	TWRT_BF16 = 16,
	TWRT_F8E4M3FN = 17,
	TWRT_F8E4M3FNUZ = 18,
	TWRT_F8E5M2 = 19,
	TWRT_F8E5M2FNUZ = 20,
	TWRT_F8E8M0 = 24
};
int twrt_type_bytes(enum twrt_type t);	      /* 0: unknown */
const char *twrt_type_name(enum twrt_type t); /* "f32" */

/* PLAN: what a run does. Built by compile/, written into an image, read back from it (then all pointers lie in the
 * image). Size expressions are overflow-checked postfix code over symbols: words of int64: opcode, and for PUSH and
 * SYM an operand. */
enum twrt_opcode {
	TWRT_PUSH,
	TWRT_SYM,
	TWRT_ADD,
	TWRT_SUB,
	TWRT_MUL,
	TWRT_FLOORDIV,
	TWRT_FLOORMOD,
	TWRT_TRUNCDIV,
	TWRT_TRUNCMOD,
	TWRT_CEILDIV,
	TWRT_ROUNDUP,
	TWRT_MIN,
	TWRT_MAX,
	TWRT_LT,
	TWRT_LE,
	TWRT_EQ,
	TWRT_NE,
	TWRT_AND,
	TWRT_OR,
	TWRT_NOT,
	TWRT_NEG,
	TWRT_SELECT
};
struct twrt_expr {
	int32_t n; /* words; 0: the constant 0 */
	const int64_t *code;
};

struct twrt_io { /* an input or output */
	const char *name;
	enum twrt_type type;
	int rank;
	struct twrt_expr dims[TWRT_MAX_RANK];
	int buffer; /* -1: an input that nothing reads */
};

enum twrt_buffer_kind {
	TWRT_INPUT,
	TWRT_OUTPUT, /* the caller's, or the context's own when the caller gives none */
	TWRT_CONST,  /* data in the image */
	TWRT_FOLDED, /* written by the set-up steps; CONST after twrt_bake; never in an image */
	TWRT_TEMP,   /* placed in the arena by the memory planner */
	TWRT_ALIAS   /* the same bytes as another buffer (reshape), or a part of it */
};
struct twrt_buffer {
	enum twrt_buffer_kind kind;
	struct twrt_expr bytes;
	const void *data; /* const: const_bytes bytes, 64-byte aligned in an image */
	int64_t const_bytes;
	int of;			 /* alias: buffer */
	struct twrt_expr offset; /* alias: bytes */
};

enum twrt_step_kind {
	TWRT_KERNEL,
	TWRT_HOST,
	TWRT_COPY,
	/* Flow; the condition is a bool's first byte, `to` counts from the step itself.
	   LOOP: buffers {count (i64), condition}, each may be absent. The steps up to NEXT at `to` run symbols[0] times, at
	   most count times, while the conditions here and at NEXT hold; `symbol` is the number of the iteration.
	   NEXT: buffers {condition or absent, a, b, ..}: each a and b, temporaries of equal size, change places: what was
	   made in b is found in a from here on. `to` leads back to LOOP; `symbol` becomes how many times the loop ran (-1:
	   nobody asks).
	   SKIP: buffers {condition}: goes to `to` unless it holds; absent: always.
	   SET: `symbol` becomes symbols[0]. */
	TWRT_LOOP,
	TWRT_NEXT,
	TWRT_SKIP,
	TWRT_SET
};
struct twrt_step {
	enum twrt_step_kind kind;
	int kernel;		  /* index into kernel names */
	struct twrt_expr cores;	  /* work items handed to the pool */
	struct twrt_expr scratch; /* bytes a work item needs */
	int nbuffers;
	const int *buffers; /* in kernel parameter order; inputs first; host: inputs, then outputs; -1: absent */
	int nout;	    /* how many of the last buffers are written */
	/* For output k (of the last nout): the input position whose buffer it may take over when that one dies here,
	   -1: none */
	const int *inplace;
	int nsymbols;
	const struct twrt_expr *symbols; /* values of the kernel's sym[] */
	int to, symbol;			 /* of flow steps */
	const char *host;		 /* host operator's name */
	const void *host_attrs;		 /* its own format, host_attrs_bytes bytes */
	int64_t host_attrs_bytes;
	const struct twrt_io *host_io; /* host: types and shapes of its nbuffers tensors */
	const char *label;	       /* for --profile and show: the graph nodes it covers, "conv1+relu1" */
	const char *program;	       /* the program's name, "matmul_relu" */
	const char *schedule; /* how it was scheduled: template and point, "matmul mr=12 nv=2"; NULL: not a kernel */
	/* For --profile: floating-point operations (a multiply-add counts two; empty: this step has none of its own) and
	   the sizes of what is computed, those of folds last. */
	struct twrt_expr work;
	int nextents;
	const struct twrt_expr *extents;
};

struct twrt_check { /* a condition on sizes that must hold for these inputs, with what to say otherwise */
	struct twrt_expr cond;
	const char *text; /* "input x: dimension 1 must be equal to ..." */
};

struct twrt_plan {
	int nsymbols;
	const char *const *symbols;
	/* Where a symbol's value comes from:
	   input >= 0, dim >= 0: dimension `dim` of input `input`; every later occurrence is checked to be equal.
	   input >= 0, dim < 0: the value of element -1 - dim of that input, of type i32 or i64: a shape or a count given
	   as data. It may be negative.
	   input -1: data decides: a host step that has an output with this symbol alone as a dimension, or a flow step.
	   Until then its value is `most`, an upper bound over the symbols of inputs and those before it (of a host operator
	   that grows: a guess), which memory is planned with. */
	const struct twrt_source {
		int input, dim;
		struct twrt_expr most;
	} * sources;
	int ninputs, noutputs;
	const struct twrt_io *inputs, *outputs;
	int nbuffers;
	const struct twrt_buffer *buffers;
	int nsetup; /* the first nsetup steps run once, at compile time (twrt_bake) */
	int nsteps;
	const struct twrt_step *steps;
	int nchecks;
	const struct twrt_check *checks;
	int nkernels;
	const char *const *kernels; /* symbols in the code object */
	/* facts for show and bench: "nodes", "host operators", "model", "compile_ms", "target"; the model's own
	   metadata as "meta:KEY" */
	int nmeta;
	const char *const *meta_keys, *const *meta_values;
};

/* IMAGE (image.c): header with magic, version, size, checksum; plan; code object; constants, 64-byte aligned.
   Position-independent: mapping it is loading it. */
struct twrt_code {
	const void *object;
	int64_t bytes;
	int isa; /* enum tw_isa */
};
/* Told of a part of a constant's data when it has been read: by the image's writer, for the last time; by the baker, for
   now. So large models need not be in memory twice. NULL: nobody asks. */
typedef void twrt_release(void *arg, const void *data, int64_t bytes);
enum tw_code twrt_image_write(const struct twrt_plan *p, int ncodes, const struct twrt_code *codes,
			      twrt_release *release, void *arg, void **image /* malloc */, int64_t *bytes,
			      struct tw_error *e);
bool twrt_image_is(const void *image, int64_t bytes); /* begins like one */
enum tw_code twrt_image_save(const char *path, const void *image, int64_t bytes,
			     struct tw_error *e); /* atomic: temporary file, fsync, rename */

/* Infix text of a size expression, for people: "2 * height", cut short at size bytes. */
void twrt_expr_text(const struct twrt_expr *x, const char *const *symbols, char *text, size_t size);
/* true: it needs no symbol, and *value is its value */
bool twrt_expr_const(const struct twrt_expr *x, int64_t *value);

/* MODEL: a loaded image; immutable, shared by any number of threads. */
struct twrt_model;
enum twrt_own { TWRT_BORROW, TWRT_FREE, TWRT_UNMAP };
/* Checks magic, version, bounds of everything and the checksum before using any of it. Code goes through a memory file
   (or a private temporary file). */
enum tw_code twrt_model_open(const void *image, int64_t bytes, enum twrt_own own, struct twrt_model **out,
			     struct tw_error *e);
enum tw_code twrt_model_open_file(const char *path, struct twrt_model **out, struct tw_error *e);
void twrt_model_close(struct twrt_model *m);
const struct twrt_plan *twrt_model_plan(const struct twrt_model *m);
/* Its bytes, to save or cache them, and the instruction set (enum tw_isa) chosen of those it holds. */
const void *twrt_model_image(const struct twrt_model *m, int64_t *bytes, int *isa);
/* An image of a plan under construction: runs its set-up steps; what they fold becomes constants, made where they lie in the image; what
   only they needed stays out of it. */
enum tw_code twrt_bake(const struct twrt_plan *p, const struct twrt_code *code, int threads, twrt_release *release,
		       void *arg, void **image, int64_t *bytes, struct tw_error *e);

/* POOL (pool.c): threads shared by all contexts of the process. Spins ~100 us, longer while a run goes on, then sleeps. Work items are handed out;
   results never depend on how many threads there are. */
struct twrt_pool;
struct twrt_pool *twrt_pool_get(
	int threads); /* 0: as many as affinity and cgroup quota allow; the process's shared pool, reference-counted */
void twrt_pool_put(struct twrt_pool *p);
int twrt_cpus(void); /* what 0 means: physical cores within affinity mask and cgroup quota; at least 1 */
int twrt_pool_threads(const struct twrt_pool *p);
/* Returns when all are done; safe from several threads. backwards: each thread begins with the last of its share. */
void twrt_pool_run(struct twrt_pool *p, int64_t items, bool backwards, void (*fn)(void *arg, int64_t item, int thread),
		   void *arg);
/* Around what calls twrt_pool_run many times: workers stay awake in between. */
void twrt_pool_begin(struct twrt_pool *p);
void twrt_pool_end(struct twrt_pool *p);

/* CONTEXT (context.c): one run at a time. */
struct twrt_context;
enum tw_code twrt_context_new(struct twrt_model *m, int threads, struct twrt_context **out, struct tw_error *e);
void twrt_context_free(struct twrt_context *c);
/* data stays the caller's and must live until the run ends; checks type, rank, sizes against the plan. */
enum tw_code twrt_set_input(struct twrt_context *c, int i, enum twrt_type type, int rank, const int64_t *dims,
			    const void *data, struct tw_error *e);
enum tw_code twrt_set_output(struct twrt_context *c, int i, void *data, int64_t bytes,
			     struct tw_error *e); /* NULL: the context's own again */
/* Binds symbols, plans and allocates memory, runs nothing. */
enum tw_code twrt_prepare(struct twrt_context *c, struct tw_error *e);
/* Binds symbols, plans memory (cached by sizes: no allocation in a run whose sizes were seen), runs the steps.
   cancel(arg) is asked between steps. */
enum tw_code twrt_run(struct twrt_context *c, bool (*cancel)(void *arg), void *arg, struct tw_error *e);
enum tw_code twrt_output(struct twrt_context *c, int i, enum twrt_type *type, int *rank, int64_t *dims,
			 const void **data, struct tw_error *e);
/* An output's sizes for the inputs set, before a run: what a caller's buffer must hold. */
enum tw_code twrt_infer_output(struct twrt_context *c, int i, int *rank, int64_t *dims, struct tw_error *e);
int twrt_context_threads(const struct twrt_context *c);
int64_t twrt_context_arena_bytes(const struct twrt_context *c);
struct twrt_profile {
	double ms, least; /* of all runs; of the fastest */
	int64_t runs;
};
/* What a step had to do at the last run's sizes. ops: floating-point operations, 0: unknown; bytes: of all its buffers,
   each once; extents: sizes of what it computes, folds last. */
enum { TWRT_MOST_EXTENTS = 16 };
struct twrt_cost {
	double ops, bytes;
	int nextents;
	int64_t extents[TWRT_MOST_EXTENTS];
};
void twrt_context_cost(const struct twrt_context *c, int step, struct twrt_cost *out);
void twrt_context_profile(struct twrt_context *c, bool on);
const struct twrt_profile *twrt_context_times(const struct twrt_context *c); /* one for each step after the set-up */

/* A hash of much memory, made on all cores (digest.c): 32 hexadecimal digits. drop: at is a private, unwritten file mapping whose
   pages are given back once they are hashed. */
void twrt_digest(const void *at, int64_t bytes, bool drop, char digest[33]);

/* CACHE (cache.c): images under TILEWRIGHT_CACHE (else XDG_CACHE_HOME/tilewright, else ~/.cache/tilewright), one file
   a key; atomic, checksummed, bounded in size (TILEWRIGHT_CACHE_SIZE, default 4 GiB, least recently used goes first),
   safe for several processes, refused when owned by someone else or writable by others. */
enum tw_code twrt_cache_dir(char *path, size_t n, struct tw_error *e);
bool twrt_cache_get(const char *key, struct twrt_model **out); /* a broken or foreign entry is no entry */
enum tw_code twrt_cache_put(const char *key, const void *image, int64_t bytes, struct tw_error *e);
int64_t twrt_cache_bytes(int *images);
enum tw_code twrt_cache_clear(struct tw_error *e);

/* KNOWN (known.c): a text about a file's content (its hash, say), kept in the cache's folder under what the system says of the file, not
   under its path, so that the file need not be read again while it is unchanged. */
struct twrt_file {
	const char *path;
	struct stat st;		/* before its content was looked at */
	struct timespec looked; /* when that was, by CLOCK_REALTIME */
};
/* False: nothing is known of a file that looks like this. */
bool twrt_known_get(const struct stat *st, char *text, size_t room);
/* Keeps the text unless the file has changed since f->st, or may yet change without a trace because its times are too recent. Failures
   are silent: the file is read again the next time. */
void twrt_known_put(const struct twrt_file *f, const char *text);

/* HOST (folder host): operators without a compute definition, by name. One file a family; the list is collected at
   build time. */
/* An operator whose output sizes data decides gets the bounds in out[].dims, writes the data densely for the sizes it
   finds, and sets dims to them. */
struct twrt_host_tensor {
	enum twrt_type type;
	int rank;
	int64_t dims[TWRT_MAX_RANK];
	void *data;
	bool present;
};
typedef enum tw_code twrt_host_fn(const struct twrt_host_tensor *in, int nin, struct twrt_host_tensor *out, int nout,
				  const void *attrs, int64_t attrs_bytes, struct tw_error *e);
/* Attributes are "name=value" lines: numbers as text, lists with spaces between them. */
int64_t twrt_host_int(const void *attrs, int64_t attrs_bytes, const char *name, int64_t otherwise);
double twrt_host_float(const void *attrs, int64_t attrs_bytes, const char *name, double otherwise);
bool twrt_host_text(const void *attrs, int64_t attrs_bytes, const char *name, char *text, size_t size);
struct twrt_host {
	const char *name;
	twrt_host_fn *run;
	/* The bound of its output's size is a guess. Where that is too small, it gives the size alone, and the run begins
	   again with more room, which the context keeps for later ones. */
	bool grows;
};
/* host/NAME.c defines `const struct twrt_host twrt_host_NAME[] = {{"Operator", function}, .., {0}}`. */
const struct twrt_host *twrt_host_find(const char *name);

#endif
