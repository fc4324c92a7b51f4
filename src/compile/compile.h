/* compile: ONNX bytes to a bundle image: the whole pipeline. Input: a model in memory, the folder its external data
 * lies in. Output: an image that rt opens. Everything here returns a status and leaves nothing behind on failure;
 * several threads may call at once. */
#ifndef TW_COMPILE_H
#define TW_COMPILE_H

#include "base/base.h"

struct twrt_file;

enum tw_log_level { TW_LOG_ERROR, TW_LOG_WARNING, TW_LOG_INFO, TW_LOG_DEBUG };

struct tw_compile_options {
	int jobs;	 /* C compilers at once; 0: as many as cores this process may use */
	const char *isa; /* "avx512" ..; NULL: the host's */
	int nfixed;	 /* symbols fixed at compile time */
	const char *const *fixed_names;
	const int64_t *fixed_values;
	/* what the model's bytes are a private mapping of: pages may be dropped and read again; NULL: no file */
	const struct twrt_file *file;
	bool use_cache; /* of parts; the whole image's cache is the caller's, by tw_compile_key */
	bool plain;	/* no rewriting of the graph, no fusion: a kernel for each compute definition of each node */
	bool exact;	/* nothing that trades accuracy for speed: no Winograd */
	bool keep;	/* tensors between the steps become outputs, behind the model's own: keep.c */
	int noperators; /* made of text: ops/custom.h */
	const struct tw_operator_text {
		const char *domain; /* NULL: any */
		const char *name, *file, *text;
	} * operators;
	const char *dump_dir;				     /* the program after each pass; NULL: none */
	void (*log)(void *arg, int level, const char *text); /* enum tw_log_level; NULL: none */
	void *log_arg;
	bool (*cancel)(void *arg); /* asked now and then; true: stop with TW_ERR_CANCELLED; NULL: never */
	void *cancel_arg;
	bool (*progress)(void *arg, const char *stage, int done, int all); /* true: stop likewise; NULL: none */
	void *progress_arg;
};

/* *image comes from malloc (freed with free()), 64-byte aligned. */
enum tw_code tw_compile(const void *model, int64_t bytes, const char *folder, const struct tw_compile_options *o,
			void **image, int64_t *image_bytes, struct tw_error *e);

struct tw_dense { /* a tensor in memory, row-major; type: as in ONNX */
	int type, rank;
	int64_t dims[8];
	const void *data;
};

/* The reference: runs the model's nodes by their definitions in the interpreter. inputs: one for each of the model's,
   in order. take: told of each tensor that a node makes, in the graph's order, then of outputs that none makes; t lives
   during the call. TW_ERR_UNSUPPORTED: a node has no definition, or the run would take more than `most` operations
   (estimated; nothing was run then). */
typedef void tw_take(void *arg, const char *name, const struct tw_dense *t);
enum tw_code tw_interpret(const void *model, int64_t bytes, const char *folder, const struct tw_compile_options *o,
			  int ninputs, const struct tw_dense *inputs, double most, tw_take *take, void *arg,
			  struct tw_error *e);

/* The cache key: hashes of the model and of its external data, options, target, C compiler, version. Files that were
   hashed before and look unchanged are not read again. */
enum tw_code tw_compile_key(const void *model, int64_t bytes, const char *folder, const struct tw_compile_options *o,
			    char key[33], struct tw_error *e);

/* What is and is not supported, as a text table (malloc) ending in a newline. TW_ERR_OK: all of it;
   TW_ERR_UNSUPPORTED: not all, the table is there all the same; anything else: no table. Of the options operators matter. */
enum tw_code tw_check(const void *model, int64_t bytes, const char *folder, const struct tw_compile_options *o,
		      char **table, struct tw_error *e);

/* The machine, the instruction set chosen, the C compiler: "key: value" lines (malloc). Never fails for want of a
   compiler: says so in its line. */
enum tw_code tw_describe_machine(char **text, struct tw_error *e);

/* The points of a schedule template's space on this machine, one a line: "rows=14 vectors=2 .." (malloc). TW_ERR_USAGE: there is no such template; e lists those there are. */
enum tw_code tw_describe_space(const char *schedule, char **text, struct tw_error *e);

#endif
