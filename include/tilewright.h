/* Tilewright: ONNX models compiled to fast CPU programs.
 *
 *     tilewright_model *model;
 *     tilewright_context *context;
 *     if (tilewright_compile_file("model.onnx", NULL, &model) || tilewright_create_context(model, 0, &context))
 *             fprintf(stderr, "%s\n", tilewright_last_error());
 *     const int64_t dims[] = {1, 3, 224, 224};
 *     tilewright_set_input(context, 0, TILEWRIGHT_F32, 4, dims, pixels);
 *     tilewright_run(context);
 *     tilewright_tensor scores;
 *     tilewright_get_output(context, 0, &scores);
 *
 * Objects. Options say how to compile; a model is compiled and immutable, any number of threads may use it at once; a
 * context is one run of a model with its memory, and one thread at a time may use it. All are opaque, made by a
 * function here and freed by another; freeing NULL is allowed. A model must outlive its contexts.
 *
 * Errors. Functions that can fail return a tilewright_status, 0 for success; tilewright_last_error() then tells the
 * calling thread what happened, in words fit to be shown. A failed call changes nothing and gives no object.
 *
 * Sizes are in elements where they are shapes, in bytes where they are named bytes. Tensors are dense and row-major
 * (the last dimension varies fastest). Strings given are copied; strings returned belong to the object they came from
 * and live as long as it does. */
#ifndef TILEWRIGHT_H
#define TILEWRIGHT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TILEWRIGHT_API __attribute__((visibility("default")))
#else
#define TILEWRIGHT_API
#endif

enum { TILEWRIGHT_MAX_RANK = 8 };

/* Status of a call. New ones may be added at the end. */
typedef enum tilewright_status {
	TILEWRIGHT_OK = 0,
	TILEWRIGHT_ERROR_USAGE = 1, /* wrong use of this interface: an index out of range, a buffer too small */
	TILEWRIGHT_ERROR_MODEL = 2, /* the model or bundle is malformed */
	TILEWRIGHT_ERROR_UNSUPPORTED =
		3,		     /* the model needs something that is not supported; the message lists all of it */
	TILEWRIGHT_ERROR_INPUT = 4,  /* an input does not fit the model: type, rank, sizes */
	TILEWRIGHT_ERROR_IO = 5,     /* a file could not be read or written */
	TILEWRIGHT_ERROR_MEMORY = 6, /* out of memory */
	TILEWRIGHT_ERROR_TOOLCHAIN = 7, /* the C compiler is missing or failed */
	TILEWRIGHT_ERROR_CANCELLED = 8, /* a callback or tilewright_cancel asked to stop */
	TILEWRIGHT_ERROR_INTERNAL = 9	/* a fault of Tilewright itself; please report it */
} tilewright_status;

/* Element types, numbered as in ONNX. Inputs and outputs of a model that are uint4, int4, uint2 or int2 are handed over as
   U8 and I8, a byte for each element; float4e2m1 as U8, its four bits. */
typedef enum tilewright_type {
	TILEWRIGHT_F32 = 1,
	TILEWRIGHT_U8 = 2,
	TILEWRIGHT_I8 = 3,
	TILEWRIGHT_U16 = 4,
	TILEWRIGHT_I16 = 5,
	TILEWRIGHT_I32 = 6,
	TILEWRIGHT_I64 = 7,
	TILEWRIGHT_BOOL = 9, /* a byte, 0 or 1 */
	TILEWRIGHT_F16 = 10,
	TILEWRIGHT_F64 = 11,
	TILEWRIGHT_U32 = 12,
	TILEWRIGHT_U64 = 13,
	TILEWRIGHT_BF16 = 16,
	TILEWRIGHT_F8E4M3FN = 17, /* floats of 8 bits */
	TILEWRIGHT_F8E4M3FNUZ = 18,
	TILEWRIGHT_F8E5M2 = 19,
	TILEWRIGHT_F8E5M2FNUZ = 20,
	TILEWRIGHT_F8E8M0 = 24
} tilewright_type;

typedef struct tilewright_options tilewright_options;
typedef struct tilewright_model tilewright_model;
typedef struct tilewright_context tilewright_context;

/* ---- the library ---- */

/* "0.1.0" */
TILEWRIGHT_API const char *tilewright_version(void);
/* What the last failed call of this thread had to say: one or more lines, no final newline. Valid until the thread's
   next failed call. "" at first. */
TILEWRIGHT_API const char *tilewright_last_error(void);
/* A short general text: "the model is malformed". */
TILEWRIGHT_API const char *tilewright_status_text(tilewright_status status);
/* The exit code a command-line program should end with: 0 done, 1 the model or input is at fault, 2 usage, 3 our fault
   or the machine's. */
TILEWRIGHT_API int tilewright_status_exit(tilewright_status status);
/* "f32"; "unknown" */
TILEWRIGHT_API const char *tilewright_type_name(tilewright_type type);
/* Bytes of an element; 0: not a type of this interface */
TILEWRIGHT_API int tilewright_type_bytes(tilewright_type type);
/* The machine, the instruction set chosen, the C compiler, the cache: lines "key: value". Freed by
   tilewright_free_text. */
TILEWRIGHT_API char *tilewright_describe_machine(void);
/* The points of a schedule template on this machine ("matmul"), one a line: "rows=14 vectors=2 ..". NULL: there is no such template, and
   tilewright_last_error lists those there are. Freed by tilewright_free_text. */
TILEWRIGHT_API char *tilewright_describe_space(const char *schedule);
TILEWRIGHT_API void tilewright_free_text(char *text);
/* Removes all cached models. */
TILEWRIGHT_API tilewright_status tilewright_clear_cache(void);

/* ---- options ---- */

/* Defaults: all cores, the host's instruction set, cache on. NULL: no memory. */
TILEWRIGHT_API tilewright_options *tilewright_create_options(void);
TILEWRIGHT_API void tilewright_free_options(tilewright_options *options);
/* C compilers running at once while compiling; 0: as many as there are cores. */
TILEWRIGHT_API tilewright_status tilewright_set_jobs(tilewright_options *options, int jobs);
/* "avx512vnni", "avx512", "avx2", "neon", "generic", "scalar"; NULL: the host's best. */
TILEWRIGHT_API tilewright_status tilewright_set_isa(tilewright_options *options, const char *isa);
/* Fixes a symbolic size ("batch") at compile time: the program is made for this size only, and may be faster for it. */
TILEWRIGHT_API tilewright_status tilewright_fix_symbol(tilewright_options *options, const char *symbol, int64_t value);
/* Whether compiled models are kept in, and taken from, the cache: TILEWRIGHT_CACHE, else XDG_CACHE_HOME/tilewright,
   else ~/.cache/tilewright. The cache also remembers files that were compiled by size, inode and times of change, so
   that they need not be read again while they are unchanged. */
TILEWRIGHT_API tilewright_status tilewright_use_cache(tilewright_options *options, int use);
/* Writes the program after each pass as text files into this folder; such a compilation is not taken from the cache.
   NULL: none. */
TILEWRIGHT_API tilewright_status tilewright_set_dump(tilewright_options *options, const char *folder);

/* Gives an operator: nodes of this name, and domain (NULL: of any; "": ONNX's own), are what the text says, in the
   language of tensor programs. `tensor` declarations and definitions: the tensors are the inputs in order, but for those
   named like an attribute of the node, whose value they get; definitions that no other one reads are the outputs in order. A
   program or launch function of the operator's name, or the only one: its parameters are the inputs and the output.
   Symbols get their values from the inputs' sizes and from integer attributes of their name. Both are fused with the nodes
   around them. What is given later goes first. file: what errors call the text; NULL: the name. */
TILEWRIGHT_API tilewright_status tilewright_add_operator(tilewright_options *options, const char *domain,
							 const char *name, const char *file, const char *text);
TILEWRIGHT_API tilewright_status tilewright_add_operator_file(tilewright_options *options, const char *domain,
							      const char *name, const char *path);

/* 0: neither rewrites the graph nor fuses anything, so that each node's results are written as they are. Slower; made
   to look for faults with. */
TILEWRIGHT_API tilewright_status tilewright_set_optimise(tilewright_options *options, int optimise);
/* Other than 0: no faster algorithm that is less accurate than summing products one by one (Winograd's convolution, whose
   error is at most about 1e-5 of the largest magnitude of a layer's result), and weights stay what they are (else subnormal
   ones are zeros to convolutions and products: they cost a hundred times as much). */
TILEWRIGHT_API tilewright_status tilewright_set_exact(tilewright_options *options, int exact);
/* Other than 0: tensors of the graph that a run writes to memory are outputs too, behind the model's own, in the order
   of the graph; the model's own outputs are among them again. Without optimisation these are all that nodes make. */
TILEWRIGHT_API tilewright_status tilewright_keep_tensors(tilewright_options *options, int keep);

typedef enum tilewright_log_level {
	TILEWRIGHT_LOG_ERROR = 0,
	TILEWRIGHT_LOG_WARNING = 1,
	TILEWRIGHT_LOG_INFO = 2,
	TILEWRIGHT_LOG_DEBUG = 3
} tilewright_log_level;
/* Callbacks come from the thread that compiles. `text` has no final newline. */
TILEWRIGHT_API tilewright_status tilewright_set_log(
	tilewright_options *options, void (*log)(void *arg, tilewright_log_level level, const char *text), void *arg);
/* Asked often; a result other than 0 stops the compilation with TILEWRIGHT_ERROR_CANCELLED. */
TILEWRIGHT_API tilewright_status tilewright_set_cancel(tilewright_options *options, int (*cancel)(void *arg),
						       void *arg);
/* Told of each stage: `done` of `all` parts are finished (all = 0: unknown). A result other than 0 stops likewise. */
TILEWRIGHT_API tilewright_status tilewright_set_progress(
	tilewright_options *options, int (*progress)(void *arg, const char *stage, int done, int all), void *arg);

/* ---- models ---- */

/* Compiles an ONNX file, or takes it from the cache; a file that tilewright_save_model wrote is loaded. options may be
   NULL: defaults. */
TILEWRIGHT_API tilewright_status tilewright_compile_file(const char *path, const tilewright_options *options,
							 tilewright_model **model);
/* The same from memory, which is needed during the call only. folder: where external data lies; NULL: the model may
   have none. */
TILEWRIGHT_API tilewright_status tilewright_compile_memory(const void *data, size_t bytes, const char *folder,
							   const tilewright_options *options, tilewright_model **model);
/* Loads a bundle. It is mapped, not read: processes share its pages. A bundle holds machine code: load only what you
   trust. */
TILEWRIGHT_API tilewright_status tilewright_load_file(const char *path, tilewright_model **model);
/* From memory, which must stay until the model is freed; if its address is a multiple of 64, it is used in place. */
TILEWRIGHT_API tilewright_status tilewright_load_memory(const void *data, size_t bytes, tilewright_model **model);
/* Writes the model as a bundle; the file appears whole or not at all. */
TILEWRIGHT_API tilewright_status tilewright_save_model(const tilewright_model *model, const char *path);
TILEWRIGHT_API void tilewright_free_model(tilewright_model *model);

/* An input or output. dims[d] is a size, or -1 where it depends on the inputs; then dim_text[d] says how: "batch", "2
   * height". */
typedef struct tilewright_port {
	const char *name;
	tilewright_type type;
	int rank;
	int64_t dims[TILEWRIGHT_MAX_RANK];
	const char *dim_text[TILEWRIGHT_MAX_RANK]; /* "3", "batch" */
} tilewright_port;
TILEWRIGHT_API int tilewright_count_inputs(const tilewright_model *model);
TILEWRIGHT_API int tilewright_count_outputs(const tilewright_model *model);
/* How many of the outputs, at the end, are there because of tilewright_keep_tensors. */
TILEWRIGHT_API int tilewright_count_kept(const tilewright_model *model);
/* NULL: there is no such input or output */
TILEWRIGHT_API const tilewright_port *tilewright_get_input_port(const tilewright_model *model, int input);
TILEWRIGHT_API const tilewright_port *tilewright_get_output_port(const tilewright_model *model, int output);
/* -1: no input or output of this name */
TILEWRIGHT_API int tilewright_find_input(const tilewright_model *model, const char *name);
TILEWRIGHT_API int tilewright_find_output(const tilewright_model *model, const char *name);
/* The sizes that inputs decide: names, -1 or NULL at the end. */
TILEWRIGHT_API int tilewright_count_symbols(const tilewright_model *model);
TILEWRIGHT_API const char *tilewright_get_symbol(const tilewright_model *model, int symbol);

/* The model's own metadata by key (ONNX metadata_props): "character". NULL: it has none such. */
TILEWRIGHT_API const char *tilewright_get_metadata(const tilewright_model *model, const char *key);
/* Facts about the compiled model, as text: "nodes", "kernels", "host operators", "target", "compile_ms", "load_ms",
   "cached" (of this call: "1" or "0"), "bundle bytes", "constant bytes". NULL: unknown. */
TILEWRIGHT_API const char *tilewright_get_fact(const tilewright_model *model, const char *key);

/* The steps of a run. label: the graph nodes one covers; program: the kernel's or host operator's name; kind:
   "kernel", "host" or "copy". */
typedef struct tilewright_step {
	const char *label, *program, *kind;
	const char *schedule; /* a kernel's template and its point, "matmul mr=12 nv=2", or "rule"; else "" */
} tilewright_step;
TILEWRIGHT_API int tilewright_count_steps(const tilewright_model *model);
TILEWRIGHT_API tilewright_status tilewright_get_step(const tilewright_model *model, int step, tilewright_step *out);

/* What of an ONNX file is supported, as a table; freed by tilewright_free_text. Of the options (NULL: none) only operators
   matter. TILEWRIGHT_OK: all of it; TILEWRIGHT_ERROR_UNSUPPORTED and TILEWRIGHT_ERROR_MODEL: not all, and the text lists
   everything that is wrong; where the file cannot be read so far, and for other statuses, *table is NULL. */
TILEWRIGHT_API tilewright_status tilewright_check_file(const char *path, const tilewright_options *options,
						       char **table);

/* ---- contexts ---- */

/* threads: that work on a run, 0: as many as there are physical cores this process may use. Contexts of one thread
   count share their threads. Results do not depend on the number of threads. */
TILEWRIGHT_API tilewright_status tilewright_create_context(tilewright_model *model, int threads,
							   tilewright_context **context);
TILEWRIGHT_API void tilewright_free_context(tilewright_context *context);
TILEWRIGHT_API int tilewright_count_threads(const tilewright_context *context);

/* data stays the caller's, is only read, must stay until the run ends, and is aligned to its element type; it counts
   for all runs until it is set anew. */
TILEWRIGHT_API tilewright_status tilewright_set_input(tilewright_context *context, int input, tilewright_type type,
						      int rank, const int64_t *dims, const void *data);
/* Lets a run write an output into the caller's memory, of `bytes` bytes. NULL: into the context's own again, which is
   the default. */
TILEWRIGHT_API tilewright_status tilewright_set_output(tilewright_context *context, int output, void *data,
						       size_t bytes);

typedef struct tilewright_tensor {
	tilewright_type type;
	int rank;
	int64_t dims[TILEWRIGHT_MAX_RANK];
	const void *data;
	size_t bytes;
} tilewright_tensor;
/* An output's type and sizes for the inputs that are set, before any run; data is NULL. */
TILEWRIGHT_API tilewright_status tilewright_infer_output(tilewright_context *context, int output,
							 tilewright_tensor *tensor);
/* Checks the inputs' sizes and plans and allocates the memory for them, without running. */
TILEWRIGHT_API tilewright_status tilewright_prepare(tilewright_context *context);
/* Checks the inputs' sizes, then runs. The first run with certain sizes plans its memory; later ones with the same
   sizes allocate nothing. */
TILEWRIGHT_API tilewright_status tilewright_run(tilewright_context *context);
/* An output of the last run. The data lives until the context's next run. */
TILEWRIGHT_API tilewright_status tilewright_get_output(tilewright_context *context, int output,
						       tilewright_tensor *tensor);
/* From any thread or a signal handler: the run at hand, or the next one if there is none, stops with
   TILEWRIGHT_ERROR_CANCELLED at its next step. */
TILEWRIGHT_API void tilewright_cancel(tilewright_context *context);

/* Bytes that intermediate results take in this context. */
TILEWRIGHT_API int64_t tilewright_get_arena_bytes(const tilewright_context *context);
/* Measures the time of each step from now on, or stops doing so. */
TILEWRIGHT_API tilewright_status tilewright_set_profile(tilewright_context *context, int on);
/* Milliseconds that a step took in all runs since, and how many runs. */
TILEWRIGHT_API tilewright_status tilewright_get_step_time(const tilewright_context *context, int step, double *ms,
							  int64_t *runs);

/* What a step had to do in the last run. operations: floating-point operations, a multiply-add counted as two (0: none,
   or not known); bytes: of all tensors it reads and writes, each counted once; extents: sizes of the result, then of what
   is summed over; least_ms: its fastest run since profiling began. */
typedef struct tilewright_cost {
	double operations, bytes, least_ms;
	int extent_count;
	int64_t extents[16];
} tilewright_cost;
TILEWRIGHT_API tilewright_status tilewright_get_step_cost(const tilewright_context *context, int step,
							  tilewright_cost *cost);

/* ---- the reference ---- */

/* name: a tensor of the graph. The tensor lives during the call. */
typedef void (*tilewright_take)(void *arg, const char *name, const tilewright_tensor *tensor);
/* Runs an ONNX file's nodes one after the other by their definitions in an interpreter, which is slow and compiles
   nothing: what compiled models are held against. inputs: one for each of the model's inputs, in their order. take is
   called for each tensor that nodes make, in the order of the graph. TILEWRIGHT_ERROR_UNSUPPORTED: a node has no
   definition, or the run would take more than `most` operations, about; nothing was run then. */
TILEWRIGHT_API tilewright_status tilewright_interpret_file(const char *path, const tilewright_options *options,
							   int count, const tilewright_tensor *inputs, double most,
							   tilewright_take take, void *arg);

/* ---- programs in the language of task mappings ---- */

/* A text of tensor programs (.tw) and the program chosen from it. */
typedef struct tilewright_program tilewright_program;

/* Parses and verifies all of the text, which errors call `name`. which: the program meant; NULL: the text's only one
   (there may be none or several: see tilewright_get_program_name). */
TILEWRIGHT_API tilewright_status tilewright_open_program(const char *name, const char *text, const char *which,
							 tilewright_program **program);
TILEWRIGHT_API tilewright_status tilewright_open_program_file(const char *path, const char *which,
							      tilewright_program **program);
TILEWRIGHT_API void tilewright_free_program(tilewright_program *program);
/* The chosen program's name; NULL: none was chosen, and what needs one fails, saying what there is to choose. */
TILEWRIGHT_API const char *tilewright_get_program_name(const tilewright_program *program);
/* Its parameters in order; the port lives until a size is set. dims[d] is -1 until the sizes that it depends on are
   set. NULL: there is no such parameter. */
TILEWRIGHT_API int tilewright_count_parameters(const tilewright_program *program);
TILEWRIGHT_API const tilewright_port *tilewright_get_parameter(const tilewright_program *program, int parameter,
							       int *is_output);
/* The symbols that it speaks of and their values, -1 while they are not set. NULL: there is no such symbol. */
TILEWRIGHT_API int tilewright_count_sizes(const tilewright_program *program);
TILEWRIGHT_API const char *tilewright_get_size(const tilewright_program *program, int size, int64_t *value);
TILEWRIGHT_API tilewright_status tilewright_set_size(tilewright_program *program, const char *symbol, int64_t value);

/* Looks for faults in all programs of the text beyond those that cannot be opened: runs them at small sizes
   by the interpreter, and proves what can be proved of bounds, assignment, barriers, stores and races. Fails when it is
   certainly wrong. *text: what is not proved, listed where `unproved` is not 0, else counted; empty: all is proved.
   Freed by tilewright_free_text. */
TILEWRIGHT_API tilewright_status tilewright_check_program(const tilewright_program *program, int unproved, char **text);
/* The program's text after a pass of lowering; "input": as parsed. target: an instruction set for programs on cores,
   "host": its best; "sm_80", "sm_90" or "opencl" for programs on blocks; NULL: host, or sm_90. Fixed symbols of the options are
   put in. Freed by tilewright_free_text. */
TILEWRIGHT_API tilewright_status tilewright_show_program(const tilewright_program *program, const char *pass,
							 const char *target, const tilewright_options *options,
							 char **text);
/* The program as a file of C, CUDA C or OpenCL C, by its target. */
TILEWRIGHT_API tilewright_status tilewright_emit_program(const tilewright_program *program, const char *target,
							 const tilewright_options *options, char **text);
/* A model whose inputs and outputs are the program's. Sizes that no input tells must be set. */
TILEWRIGHT_API tilewright_status tilewright_compile_program(const tilewright_program *program,
							    const tilewright_options *options,
							    tilewright_model **model);

typedef enum tilewright_engine {
	TILEWRIGHT_INTERPRETER = 0, /* checks every access, slowly */
	TILEWRIGHT_OPENCL = 1	    /* a device of OpenCL, whose library is looked for at run time */
} tilewright_engine;
/* Runs the program `runs` times with all sizes set. data: for each of its `count` parameters a dense row-major tensor
   of the parameter's type and dims; outputs are written. ms: what each run took in milliseconds; NULL: nobody asks. */
TILEWRIGHT_API tilewright_status tilewright_run_program(const tilewright_program *program, tilewright_engine engine,
							int count, void *const *data, int runs, double *ms);
/* Floating-point operations of a run with the sizes that are set, a multiply-add counting as two (-1: they cannot be
   told), and bytes of its parameters. */
TILEWRIGHT_API tilewright_status tilewright_count_work(const tilewright_program *program, double *operations,
						       double *bytes);

/* ---- building programs ---- */

/* Writes a text of the language by calls, for programs that are made rather than written. A value stands for an
   expression, tensor, mapping or variable; 0 is none. The first wrong call is kept and told by tilewright_build_text, so
   that calls in between need no checks. Types are checked where the text is read.

       tilewright_builder *b = tilewright_create_builder();
       const tilewright_value n = tilewright_build_symbol(b, "N"), x = tilewright_build_tensor(b, "X", TILEWRIGHT_F32, 1, &n);
       const tilewright_value i = tilewright_build_axis(b, "i"), e = tilewright_build_load(b, x, 1, &i);
       const tilewright_value ee[] = {e, e};
       tilewright_build_define(b, "Y", TILEWRIGHT_F32, 1, &n, &i, tilewright_build_op(b, "*", 2, ee));
       tilewright_add_operator(options, "my", "Square", NULL, tilewright_build_text(b)); */
typedef struct tilewright_builder tilewright_builder;
typedef int tilewright_value;

TILEWRIGHT_API tilewright_builder *tilewright_create_builder(void); /* NULL: no memory */
TILEWRIGHT_API void tilewright_free_builder(tilewright_builder *builder);
/* What was built; lives until the next call. NULL: a call was wrong, or a block has no end. */
TILEWRIGHT_API const char *tilewright_build_text(tilewright_builder *builder);

/* Expressions. op: "+ - * / % < <= == != and or xor << >>", "not", "neg", "?" (condition, then, else: only one is
   evaluated), or the name of a function of the language: "min", "fma", "exp", "f32", "ceil_div" .. */
TILEWRIGHT_API tilewright_value tilewright_build_symbol(tilewright_builder *builder, const char *name);
TILEWRIGHT_API tilewright_value tilewright_build_integer(tilewright_builder *builder, int64_t value);
TILEWRIGHT_API tilewright_value tilewright_build_number(tilewright_builder *builder, tilewright_type type,
							double value);
TILEWRIGHT_API tilewright_value tilewright_build_op(tilewright_builder *builder, const char *op, int count,
						    const tilewright_value *arguments);
TILEWRIGHT_API tilewright_value tilewright_build_load(tilewright_builder *builder, tilewright_value tensor, int count,
						      const tilewright_value *index);
TILEWRIGHT_API tilewright_value tilewright_build_axis(tilewright_builder *builder, const char *name);
/* op: "sum", "prod", "min", "max" over axes of these extents */
TILEWRIGHT_API tilewright_value tilewright_build_fold(tilewright_builder *builder, const char *op, int count,
						      const tilewright_value *axes, const tilewright_value *extents,
						      tilewright_value body);

/* Definitions: tensors are inputs, in order. */
TILEWRIGHT_API tilewright_value tilewright_build_tensor(tilewright_builder *builder, const char *name,
							tilewright_type type, int rank, const tilewright_value *shape);
TILEWRIGHT_API tilewright_value tilewright_build_define(tilewright_builder *builder, const char *name,
							tilewright_type type, int rank, const tilewright_value *shape,
							const tilewright_value *axes, tilewright_value value);

/* Mappings */
TILEWRIGHT_API tilewright_value tilewright_build_repeat(tilewright_builder *builder, int rank,
							const tilewright_value *extents);
TILEWRIGHT_API tilewright_value tilewright_build_spatial(tilewright_builder *builder, int rank,
							 const tilewright_value *extents);
TILEWRIGHT_API tilewright_value tilewright_build_compose(tilewright_builder *builder, tilewright_value outer,
							 tilewright_value inner);

/* Programs: parameters first, then the program, its statements, its end. levels: "core", "lane", "block" .. */
TILEWRIGHT_API tilewright_value tilewright_build_parameter(tilewright_builder *builder, int is_output, const char *name,
							   tilewright_type type, int rank,
							   const tilewright_value *shape);
TILEWRIGHT_API void tilewright_begin_program(tilewright_builder *builder, const char *name, int levels,
					     const char *const *level, const tilewright_value *workers);
/* scope: "shared" or "register"; mirrors: the mapping that says which elements a worker owns, or 0 */
TILEWRIGHT_API tilewright_value tilewright_build_local(tilewright_builder *builder, const char *scope, const char *name,
						       tilewright_type type, int rank, const tilewright_value *shape,
						       tilewright_value mirrors);
TILEWRIGHT_API tilewright_value tilewright_build_let(tilewright_builder *builder, const char *name,
						     tilewright_value value);
TILEWRIGHT_API void tilewright_build_store(tilewright_builder *builder, tilewright_value tensor, int count,
					   const tilewright_value *index, tilewright_value value);
TILEWRIGHT_API void tilewright_build_barrier(tilewright_builder *builder, const char *level);
/* A loop; its variable. */
TILEWRIGHT_API tilewright_value tilewright_begin_for(tilewright_builder *builder, const char *name,
						     tilewright_value extent);
/* A loop over a mapping's tasks: fills its `rank` variables. within: bounds of each, or NULL */
TILEWRIGHT_API void tilewright_begin_map(tilewright_builder *builder, int rank, const char *const *names,
					 tilewright_value map, int levels, const char *const *level,
					 const tilewright_value *within, tilewright_value *variables);
TILEWRIGHT_API void tilewright_begin_if(tilewright_builder *builder, tilewright_value condition);
TILEWRIGHT_API void tilewright_build_else(tilewright_builder *builder);
TILEWRIGHT_API void tilewright_end(tilewright_builder *builder); /* of a loop, branch or program */

#ifdef __cplusplus
}
#endif
#endif
