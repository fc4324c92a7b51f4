/* rt's own declarations: expressions, decoding, memory plans, steps. */
#ifndef TW_RT_INT_H
#define TW_RT_INT_H

#include "rt.h"

#include <stdatomic.h>
#include <sys/stat.h>

#define TWRT_FAIL(e, code, ...) (tw_error_set((e), (code), __VA_ARGS__), (code))
#define TWRT_TRY(x)                                                                                                    \
	do {                                                                                                           \
		const enum tw_code code_ = (x);                                                                        \
		if (code_ != TW_ERR_OK)                                                                                \
			return code_;                                                                                  \
	} while (0)

enum {
	TWRT_ALIGN = 64,
	TWRT_HEADER = 64, /* bytes of an image's header */
	TWRT_MOST_CODES = 8,
	TWRT_EXPR_WORDS = 4096, /* longest expression */
	TWRT_EXPR_DEPTH = 64	/* deepest stack */
};

/* memory.c: 64-byte aligned, free()-able; NULL when there is none, and for more than the machine or its cgroup has.
   Never NULL for bytes 0. */
void *twrt_alloc(int64_t bytes);
int64_t twrt_memory_limit(void);

/* load.c: an image before it is checked. digest: of what follows its header; "": not made yet */
struct twrt_loading {
	void *image;
	int64_t bytes;
	enum twrt_own own;
	char digest[33];
};
/* A file's bytes; false and errno when they cannot be had. */
bool twrt_image_load(int fd, int64_t bytes, struct twrt_loading *l);
/* model.c: the same as twrt_model_open */
enum tw_code twrt_model_take(const struct twrt_loading *l, struct twrt_model **out, struct tw_error *e);

/* digest.c: twrt_digest of what is read from a file into memory; false: it cannot be read. */
bool twrt_digest_read(int fd, int64_t offset, void *to, int64_t bytes, char digest[33]);

/* expr.c */
bool twrt_expr_valid(const struct twrt_expr *x, int nsymbols);
/* x must be valid. *bad becomes true when a value does not fit in 64 bits. */
int64_t twrt_expr_eval(const struct twrt_expr *x, const int64_t *symbols, bool *bad);

/* validate.c: everything a plan must hold for a run to be safe, whatever its sizes. TW_ERR_MODEL with the reason
   otherwise. */
enum tw_code twrt_plan_validate(const struct twrt_plan *p, bool under_construction, struct tw_error *e);
int twrt_buffer_root(const struct twrt_plan *p, int buffer);

/* plan_read.c: decodes a plan from its words; all it makes lies in a pile. */
struct twrt_pile;
struct twrt_pile *twrt_pile_new(void);
void *twrt_pile_alloc(struct twrt_pile *pile, int64_t count, int64_t size); /* zeroed; NULL: no memory */
void twrt_pile_free(struct twrt_pile *pile);
struct twrt_image_view {
	const char *base;
	int64_t bytes;
	const int64_t *plan; /* words */
	int64_t plan_words;
	int ncodes;
	struct twrt_code codes[TWRT_MOST_CODES];
};
enum tw_code twrt_image_view(const struct twrt_loading *l, struct twrt_image_view *v, struct tw_error *e);
enum tw_code twrt_plan_read(const struct twrt_image_view *v, struct twrt_pile *pile, struct twrt_plan *p,
			    struct tw_error *e);

/* plan_write.c: a plan as words (malloc). const_at[b]: where buffer b's bytes lie in the image. */
enum tw_code twrt_plan_write(const struct twrt_plan *p, const int64_t *const_at, int64_t **words, int64_t *nwords,
			     struct tw_error *e);

/* cache.c, for known.c. The folder: its descriptor and path; -1 with *e where there is none to be used. */
#define TWRT_KNOWN_SUFFIX ".twf"
int twrt_cache_open(bool make, char *path, size_t n, struct tw_error *e);
bool twrt_cache_ours(const struct stat *st); /* nobody else could have written it */
void twrt_cache_used(int fd);		     /* now: the age that eviction goes by */
int64_t twrt_cache_limit(void);
/* Atomic. sync: it must not be broken even where the machine stops at once. */
enum tw_code twrt_cache_write(int folder, const char *path, const char *name, const void *from, int64_t bytes,
			      bool sync, struct tw_error *e);

/* image.c: an image whose places are known and whose memory is there, but not filled: constants may be made where they are to lie. The
   plan is the one to be written, but for its constants' data. Dropped in any case, also after a failure. */
struct twrt_draft {
	char *image;
	int64_t bytes;
	int64_t *const_at; /* by buffer: where its bytes lie in the image */
	int ncodes;
	const struct twrt_code *codes;
	int64_t code_at[TWRT_MOST_CODES];
	int64_t *words, nwords, plan_at, codes_at;
};
enum tw_code twrt_image_reserve(const struct twrt_plan *p, int ncodes, const struct twrt_code *codes,
				struct twrt_draft *d, struct tw_error *e);
void twrt_image_finish(struct twrt_draft *d, const struct twrt_plan *p, twrt_release *release, void *arg, void **image,
		       int64_t *bytes);
void twrt_image_drop(struct twrt_draft *d);

/* code.c: a code object made callable. */
typedef void twrt_kernel(int64_t core, void *const *buf, const int64_t *sym, void *scratch);
struct twrt_loaded {
	void *handle;
	int fd; /* kept open: the loader tells libraries apart by path, and this one names the descriptor */
	twrt_kernel **kernels;
};
bool twrt_isa_runs_here(int isa);
const char *twrt_isa_text(int isa);
enum tw_code twrt_code_load(const struct twrt_code *code, int nkernels, const char *const *names,
			    struct twrt_loaded *out, struct tw_error *e);
void twrt_code_unload(struct twrt_loaded *l);

/* model.c */
struct twrt_model {
	struct twrt_plan plan;
	struct twrt_loaded code;
	int isa;
	struct twrt_pile *pile;
	void *image;
	int64_t bytes;
	enum twrt_own own;
};

/* memory_plan.c: sizes and places of everything for one set of symbol values. */
struct twrt_step_plan {
	int64_t cores;
	int64_t *symbols;		  /* the kernel's sym[] */
	struct twrt_host_tensor *tensors; /* host: its nbuffers tensors, data filled in at run time */
};
struct twrt_memplan {
	uint64_t used; /* clock of the last use */
	int64_t *key;  /* symbol values */
	int64_t arena_bytes, scratch_bytes /* of one thread */;
	int64_t *bytes;		      /* of each buffer */
	int64_t *room;		      /* what was planned for it: bytes with data-dependent symbols at their bounds */
	int64_t *offset;	      /* temporary: in the arena; alias: in its root; else 0 */
	int64_t *output_dims;	      /* TWRT_MAX_RANK for each output */
	struct twrt_step_plan *steps; /* of the plan's, from step 0 */
	struct twrt_pile *pile;
};
/* setup: for the set-up steps alone; other buffers' sizes are not looked at. */
enum tw_code twrt_memplan_new(const struct twrt_plan *p, const int64_t *symbols, bool setup, struct twrt_memplan **out,
			      struct tw_error *e);
/* Takes all numbers anew for other values of data-dependent symbols; the places stay. Allocates nothing. */
enum tw_code twrt_memplan_update(const struct twrt_plan *p, const int64_t *symbols, struct twrt_memplan *m,
				 struct tw_error *e);
/* The same for the steps from .. to - 1 and the buffers they use: between iterations of a loop. */
enum tw_code twrt_memplan_update_steps(const struct twrt_plan *p, const int64_t *symbols, struct twrt_memplan *m,
				       int from, int to, struct tw_error *e);
/* place.c: intervals to offsets. */
struct twrt_interval {
	int first, last; /* steps, both included */
	int64_t bytes;
	int64_t offset; /* the result */
};
enum tw_code twrt_place(int n, struct twrt_interval *at, int64_t *arena_bytes, struct tw_error *e);
void twrt_memplan_free(struct twrt_memplan *m);

/* step.c: one step of a run. buf: its nbuffers addresses (NULL: absent); bytes: their sizes; turned: items go backwards. */
struct twrt_scratch {
	char *at;
	int64_t stride;
};
enum tw_code twrt_step_run(const struct twrt_step *s, const struct twrt_step_plan *sp, twrt_kernel *const *kernels,
			   void *const *buf, const int64_t *bytes, struct twrt_pool *pool,
			   const struct twrt_scratch *scratch, bool turned, struct tw_error *e);

/* context.c */
enum { TWRT_PLANS = 16 }; /* memory plans kept: sets of sizes, the least recently used goes */

struct twrt_given {
	bool set;
	int64_t dims[TWRT_MAX_RANK];
	const void *data;
};

struct twrt_taken {
	void *caller; /* NULL: own */
	int64_t caller_bytes;
	void *own;
	int64_t own_bytes;
	void *result;
};

struct twrt_context {
	struct twrt_model *model;
	struct twrt_pool *pool;
	struct twrt_given *inputs;
	struct twrt_taken *outputs;
	int64_t *symbols;
	int64_t *bounds; /* the same, with those that data decides at their bounds */
	int64_t *grown;	 /* what runs have needed where a bound is a guess */
	bool again;	 /* the run must begin anew: a bound has grown */
	int64_t *trips;	 /* by step: of a loop that is running */
	struct twrt_memplan *plans[TWRT_PLANS];
	struct twrt_memplan *current; /* of the last run that was planned; its outputs' shapes */
	bool done;		      /* current's outputs are there */
	uint64_t clock;
	char *arena;
	int64_t arena_bytes;
	struct twrt_scratch scratch;
	int64_t scratch_bytes;
	void **address;	  /* by buffer */
	void **arguments; /* of the step at hand */
	int64_t *argument_bytes;
	bool data_symbols; /* the plan has sizes that data decides */
	bool turned;	   /* in every second iteration of a loop: what the one before read last lies in caches */
	bool profile;
	struct twrt_profile *times;
	atomic_flag running;
};

/* flow.c: a flow step. *at: the step, then the one to go on with; *sizes: all sizes must be taken anew. */
enum tw_code twrt_flow_step(struct twrt_context *c, int *at, bool *sizes, struct tw_error *e);

#endif
