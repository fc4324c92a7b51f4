/* program: a file of the language of tensor programs as something to look at, to run and to compile. Input: .tw text.
 * Output: texts of any stage and target, results, or an image as of a model. Functions return a status and leave
 * nothing behind on failure; one object belongs to one thread at a time. */
#ifndef TW_PROGRAM_H
#define TW_PROGRAM_H

#include "compile/compile.h"

struct tw_program; /* the text, and the program of it that was chosen */

/* Parses and verifies all of the text. which: the name of a program or launch function; NULL: the only launch
   function, else the only program. name: what errors
   call the file. */
enum tw_code tw_program_open(const char *name, const char *text, const char *which, struct tw_program **out,
			     struct tw_error *e);
void tw_program_close(struct tw_program *p);

/* The chosen program. TW_ERR_USAGE: the file has none, or several and none was named. */
enum tw_code tw_program_choose(const struct tw_program *p, struct tw_error *e);
const char *tw_program_name(const struct tw_program *p); /* NULL: none is chosen */

struct tw_param {
	const char *name;
	int type, rank; /* type: as in ONNX */
	bool is_out;
	int64_t dims[8]; /* -1: some size is not known yet */
	const char *dim_text[8];
};
int tw_program_params(const struct tw_program *p, const struct tw_param **params);
/* The symbols that the program speaks of, and their values; -1: not known. */
int tw_program_symbols(const struct tw_program *p);
const char *tw_program_symbol(const struct tw_program *p, int i, int64_t *value);
/* Gives a symbol its value for runs; what depends on it in the parameters' dims is evaluated. */
enum tw_code tw_program_size(struct tw_program *p, const char *symbol, int64_t value, struct tw_error *e);

/* The program after a pass ("input": as parsed), lowered for a target: an instruction set, "host", sm_80,
   sm_90, opencl; NULL: host or sm_90, as the program is launched. With
   o->nfixed symbols fixed. Text from malloc. */
enum tw_code tw_program_stage(const struct tw_program *p, const char *pass, const char *target,
			      const struct tw_compile_options *o, char **text, struct tw_error *e);
/* Runs all programs of the text at small sizes and proves what can be proved (twir_diagnose_program). Fails
   when something is certainly wrong. *text: how many places are not proved, or a list of them; freed by free(). */
enum tw_code tw_program_check(const struct tw_program *p, bool unproved, char **text, struct tw_error *e);
/* Code in C, CUDA C or OpenCL C; target: see tw_program_stage. */
enum tw_code tw_program_emit(const struct tw_program *p, const char *target, const struct tw_compile_options *o,
			     char **text, struct tw_error *e);

/* The program as an image that rt opens: inputs are its inputs, outputs its outputs. Symbols that no input's size tells
   must have their value by tw_program_size. */
enum tw_code tw_program_compile(const struct tw_program *p, const struct tw_compile_options *o, void **image,
				int64_t *image_bytes, struct tw_error *e);

/* Runs the program with all sizes known. data: one for each parameter, of its dims; those of outputs are written. */
enum tw_code tw_program_interpret(const struct tw_program *p, void *const *data, struct tw_error *e);
/* The same `runs` times on a device of OpenCL; ms: what each took, without copying; NULL: nobody asks. */
enum tw_code tw_program_opencl(const struct tw_program *p, void *const *data, int runs, double *ms, struct tw_error *e);

/* What a run computes and moves at least: floating-point operations (a multiply-add is two), -1: it cannot be told; bytes
   of the parameters. All sizes must be known. */
enum tw_code tw_program_work(const struct tw_program *p, double *operations, double *bytes, struct tw_error *e);

#endif
