/* The command line: what its files share. A client of the public header alone. Functions that can fail return an exit
 * code (0: done) and leave the reason in a struct problem; only main.c and the commands print. */
#ifndef CLI_H
#define CLI_H

#include "tilewright.h"

#include <stdbool.h>
#include <stdio.h>

#define COUNT(a)     ((int)(sizeof(a) / sizeof((a)[0])))
#define PRINTF(f, a) __attribute__((format(printf, f, a)))

enum { EXIT_DONE = 0, EXIT_INPUT = 1, EXIT_USAGE = 2, EXIT_FAULT = 3 };

struct problem {
	int exit;
	char text[4096];
};
int problem_set(struct problem *p, int exit, const char *fmt, ...) PRINTF(3, 4); /* returns exit */
int problem_status(struct problem *p, tilewright_status status);		 /* the library's last error */
int problem_memory(struct problem *p);

/* text.c: prints text from a model or file with control characters escaped */
void cli_print_text(FILE *to, const char *text);
int cli_fail(const struct problem *p); /* prints it; returns its exit code */

/* ---- command lines: commands.c, args.c, help.c ---- */

struct pair {
	const char *name, *value;
};
struct sizes { /* -d SYMBOL=N, --fix SYMBOL=N */
	int n;
	struct {
		const char *symbol;
		int64_t value;
	} at[64];
};
struct args {
	int nfiles;
	char **files; /* positional */
	int ninputs;
	struct pair inputs[256];
	struct sizes sizes, fixed;
	const char *out, *dump, *isa, *dump_tensors, *compare, *space;
	int nops;
	const char *ops[64];				   /* --op [[DOMAIN::]NAME=]FILE.tw */
	const char *stage, *emit, *engine, *target, *name; /* of programs */
	int threads, runs, warmup;			   /* runs -1: not given */
	bool random, json, profile, constants, no_cache, verify, plain, exact, time, unproved;
	uint64_t seed;
	double rtol, atol; /* negative: not given */
};

struct command_option {
	const char *name, *value; /* "--threads", "N" (NULL: takes none) */
	const char *help;
	int (*take)(struct args *a, const char *value, struct problem *p);
};
struct command {
	const char *name, *summary, *synopsis, *text;
	int least, most;		      /* positional arguments; most -1: any number */
	const struct command_option *options; /* ends with a zero entry */
	int (*run)(const struct args *a);
};
extern const struct command commands[]; /* ends with a zero entry */
const struct command *cli_find_command(const char *name);
/* argv[0] is the command's name. *help: --help was among them. */
int cli_parse_args(const struct command *c, int argc, char **argv, struct args *a, bool *help, struct problem *p);
void cli_free_args(struct args *a);
void cli_print_help(FILE *to);
void cli_print_command_help(FILE *to, const struct command *c);
void cli_print_man(FILE *to, const struct command *c); /* NULL: of the program as a whole */
extern const char *const environment_help[][2];	       /* ends with a NULL */

int cmd_run(const struct args *a);
int cmd_bench(const struct args *a);
int cmd_test(const struct args *a);
int cmd_check(const struct args *a);
int cmd_show(const struct args *a);
int cmd_info(const struct args *a);
int cmd_program(const struct args *a);

/* rates.c: of the machine with that many threads, in units of 1e9 a second; false: they could not be measured. */
struct rates {
	double gflops, gbytes;
};
bool cli_measure_rates(const struct args *a, int threads, struct rates *r);

/* ---- tensors: tensor.c, npy.c, pb.c, compare.c ---- */

struct tensor {
	char *name; /* may be NULL */
	char *file; /* tensor_names.c; NULL: not named yet */
	tilewright_type type;
	int rank;
	int64_t dims[TILEWRIGHT_MAX_RANK];
	void *data; /* 64-byte aligned */
	size_t bytes;
};
void cli_tensor_free(struct tensor *t);
/* Checks type, rank and dims, and sets bytes. tensor_alloc does that and allocates the data. */
int cli_tensor_measure(struct tensor *t, struct problem *p);
int cli_tensor_alloc(struct tensor *t, struct problem *p);
int64_t cli_tensor_elements(int rank, const int64_t *dims); /* of a tensor that exists: cannot overflow */
double cli_tensor_value(tilewright_type type, const void *data, int64_t i);
bool cli_type_is_float(tilewright_type type);
void cli_print_shape(FILE *to, int rank, const int64_t *dims);
/* .npy or .pb, by the name's end */
int cli_tensor_load(const char *path, struct tensor *t, struct problem *p);

struct bytes {
	unsigned char *at;
	size_t n;
};
int cli_read_file(const char *path, struct bytes *b, struct problem *p);
int cli_write_file(const char *path, const void *head, size_t nhead, const void *body, size_t nbody,
		   struct problem *p); /* whole or not at all */

bool npy_has_type(tilewright_type type);
int npy_read(const struct bytes *b, struct tensor *t, struct problem *p);
int npy_write(const char *path, const tilewright_tensor *t, struct problem *p);

/* A TensorProto */
int pb_read(const struct bytes *b, struct tensor *t, struct problem *p);
int pb_write(const char *path, const char *name, const tilewright_tensor *t, struct problem *p);

/* What differs, in words, or "" */
void cli_compare(const tilewright_tensor *got, const struct tensor *want, double rtol, double atol, char *reason,
		 size_t n);

/* What differs, in words, or "": more than 1e-4 of the largest magnitude (or one rounding of the type, where that is
   more), NaN or infinities at other places, integers that are not equal. */
struct difference {
	double largest, magnitude; /* of the differences; of what is wanted. Negative: not comparable */
	char reason[1024];
};
void cli_differ(const struct tensor *got, const struct tensor *want, struct difference *d);

/* ---- many tensors: tensor_set.c, compare_set.c, verify.c ---- */

struct tensor_set { /* tensors with names, copied; in the order of the graph */
	int n;
	struct tensor *at;
};
void cli_set_free(struct tensor_set *s);
int cli_set_add(struct tensor_set *s, const char *name, const tilewright_tensor *t, struct problem *p);
/* The outputs of a run, or what was kept beside them. */
int cli_set_take(struct tensor_set *s, const tilewright_model *m, tilewright_context *c, bool kept, struct problem *p);
const struct tensor *cli_set_find(const struct tensor_set *s, const char *name); /* NULL: not there */
tilewright_tensor cli_tensor_view(const struct tensor *t);
int cli_make_folder(const char *path, struct problem *p);
/* Files DIR/NAME.npy or .pb */
int cli_set_write(struct tensor_set *s, const char *folder, struct problem *p);
/* Prints a table of how the tensors differ from the files of a folder; EXIT_INPUT: some do. */
int cli_set_compare(struct tensor_set *s, const char *folder, struct problem *p);

/* tensor_names.c: gives each tensor its `file`, without the end; no two have the same. */
int cli_set_name_files(struct tensor_set *s, struct problem *p);
/* names.txt in a folder: which file is which tensor's */
struct tensor_names {
	bool there;
	int n;
	struct {
		const char *file, *tensor;
	} * at;
	char *text;
};
int cli_names_write(const struct tensor_set *s, const char *folder, struct problem *p);
int cli_names_read(const char *folder, struct tensor_names *names, struct problem *p); /* no such list: not there */
const char *cli_names_find(const struct tensor_names *names, const char *tensor);      /* NULL: not in it */
void cli_names_free(struct tensor_names *names);
/* Runs the model twice more, without optimisation and in the interpreter; EXIT_INPUT: the results differ from those of
   the context's run. */
int cli_verify(const struct args *a, const tilewright_model *m, tilewright_context *c, const struct tensor *inputs,
	       struct problem *p);

/* ---- the protobuf wire format: pb_wire.c ---- */

struct cli_wire {
	const unsigned char *at, *end;
};
struct field {
	uint64_t number;
	int type; /* 0: varint, 1: 8 bytes, 2: bytes, 5: 4 bytes */
	uint64_t value;
	struct cli_wire bytes;		  /* type 1, 2, 5: the contents */
	const unsigned char *start, *end; /* the whole field with its tag */
};
/* 1: a field; 0: the end; -1: malformed */
int cli_next(struct cli_wire *w, struct field *f);
bool cli_varint(struct cli_wire *w, uint64_t *value);
size_t cli_put_varint(unsigned char *to, uint64_t value); /* at most 10 bytes */

/* onnx_edit.c: a copy of a model in which all graph inputs but the first that has no initialiser are initialisers:
   input k (of those without one) gets tensor k, given as serialised TensorProtos; NULL at: stays an input. */
int onnx_fix_inputs(const struct bytes *model, int n, const struct bytes *tensors, struct bytes *out,
		    struct problem *p);

/* ---- models and runs: session.c, inputs.c, terminal.c ---- */

/* Options from the command line, with progress and cancel hooked up. */
int cli_make_options(const struct args *a, bool quiet, tilewright_options **o, struct problem *p);
int cli_open_model(const struct args *a, const char *path, tilewright_model **m, struct problem *p);
/* Tensors for all inputs: files given by -i, else random ones where wanted, of sizes by -d and by the files. t: one
   for each input of the model. */
int cli_make_inputs(const struct args *a, const tilewright_model *m, bool random, struct tensor *t, struct problem *p);
int cli_set_inputs(tilewright_context *c, int n, const struct tensor *t, struct problem *p);
void cli_free_tensors(int n, struct tensor *t);
/* Random contents for a tensor that is allocated; number: of the input, so that each has its own. */
void cli_fill(struct tensor *t, uint64_t seed, int number);
/* A line about a tensor: type, shape, least, most and mean. */
void cli_summary(const char *name, const tilewright_tensor *t);

/* program_run.c: --run */
int cli_run_program(const struct args *a, tilewright_program *program, struct problem *p);

void terminal_start(void);			  /* Ctrl-C stops in good order */
void terminal_usual(void);			  /* .. at once: nothing needs order */
void terminal_watch(tilewright_context *context); /* whose run Ctrl-C cancels; NULL: none */
bool terminal_cancelled(void);
int terminal_progress(void *arg, const char *stage, int done, int all);
int terminal_cancel(void *arg);
void terminal_log(void *arg, tilewright_log_level level, const char *text);
void terminal_clear(void); /* takes the progress line away */

double cli_now_ms(void);

#endif
