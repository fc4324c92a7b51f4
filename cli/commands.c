/* The table of commands: what --help, the manual pages and the parser of arguments all read. */
#include "cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int number(const char *text, long long least, long long most, long long *out, struct problem *p)
{
	char *end;
	errno = 0;
	*out = strtoll(text, &end, 10);
	if (end == text || *end || errno || *out < least || *out > most)
		return problem_set(p, EXIT_USAGE, "'%s' is not a number from %lld to %lld", text, least, most);
	return EXIT_DONE;
}

static int take_input(struct args *a, const char *value, struct problem *p)
{
	const char *equal = strrchr(
		value,
		'='); /* names may hold '='; paths with one can be written ./x=y with the last '=' escaped by a link */
	if (equal == NULL || equal == value || equal[1] == '\0')
		return problem_set(p, EXIT_USAGE, "'%s' is not NAME=FILE", value);
	if (a->ninputs == COUNT(a->inputs))
		return problem_set(p, EXIT_USAGE, "more than %d inputs", a->ninputs);
	char *name = strndup(value, (size_t)(equal - value));
	if (name == NULL)
		return problem_memory(p);
	for (int i = 0; i < a->ninputs; i++)
		if (strcmp(a->inputs[i].name, name) == 0) {
			problem_set(p, EXIT_USAGE, "input '%s' is given twice", name);
			free(name);
			return EXIT_USAGE;
		}
	a->inputs[a->ninputs++] = (struct pair){name, equal + 1};
	return EXIT_DONE;
}

static int take_size(struct sizes *s, const char *value, struct problem *p)
{
	const char *equal = strrchr(value, '=');
	long long n;
	if (equal == NULL || equal == value)
		return problem_set(p, EXIT_USAGE, "'%s' is not SYMBOL=N", value);
	const int code = number(equal + 1, 0, INT64_MAX, &n, p);
	if (code != EXIT_DONE)
		return code;
	if (s->n == COUNT(s->at))
		return problem_set(p, EXIT_USAGE, "more than %d sizes", s->n);
	char *symbol = strndup(value, (size_t)(equal - value));
	if (symbol == NULL)
		return problem_memory(p);
	s->at[s->n].symbol = symbol;
	s->at[s->n++].value = n;
	return EXIT_DONE;
}

static int take_dim(struct args *a, const char *value, struct problem *p)
{
	return take_size(&a->sizes, value, p);
}

static int take_fix(struct args *a, const char *value, struct problem *p)
{
	return take_size(&a->fixed, value, p);
}

static int take_op(struct args *a, const char *value, struct problem *p)
{
	if (a->nops == COUNT(a->ops))
		return problem_set(p, EXIT_USAGE, "more than %d operators", a->nops);
	a->ops[a->nops++] = value;
	return EXIT_DONE;
}

static int take_out(struct args *a, const char *value, struct problem *p)
{
	(void)p;
	a->out = value;
	return EXIT_DONE;
}

static int take_dump(struct args *a, const char *value, struct problem *p)
{
	(void)p;
	a->dump = value;
	return EXIT_DONE;
}

static int take_isa(struct args *a, const char *value, struct problem *p)
{
	(void)p;
	a->isa = value;
	return EXIT_DONE;
}

static int take_int(int *to, const char *value, int least, int most, struct problem *p)
{
	long long n;
	const int code = number(value, least, most, &n, p);
	if (code == EXIT_DONE)
		*to = (int)n;
	return code;
}

static int take_threads(struct args *a, const char *value, struct problem *p)
{
	return take_int(&a->threads, value, 1, 1024, p);
}

static int take_runs(struct args *a, const char *value, struct problem *p)
{
	return take_int(&a->runs, value, 1, 1000000, p);
}

static int take_warmup(struct args *a, const char *value, struct problem *p)
{
	return take_int(&a->warmup, value, 0, 1000000, p);
}

static int take_random(struct args *a, const char *value, struct problem *p)
{
	long long n;
	const int code = number(value, 0, INT64_MAX, &n, p);
	a->random = true;
	a->seed = (uint64_t)n;
	return code;
}

static int take_json(struct args *a, const char *value, struct problem *p)
{
	(void)value, (void)p;
	a->json = true;
	return EXIT_DONE;
}

static int take_profile(struct args *a, const char *value, struct problem *p)
{
	(void)value, (void)p;
	a->profile = true;
	return EXIT_DONE;
}

static int take_constants(struct args *a, const char *value, struct problem *p)
{
	(void)value, (void)p;
	a->constants = true;
	return EXIT_DONE;
}

static int take_no_cache(struct args *a, const char *value, struct problem *p)
{
	(void)value, (void)p;
	a->no_cache = true;
	return EXIT_DONE;
}

static int take_verify(struct args *a, const char *value, struct problem *p)
{
	(void)value, (void)p;
	a->verify = true;
	return EXIT_DONE;
}

static int take_exact(struct args *a, const char *value, struct problem *p)
{
	(void)value, (void)p;
	a->exact = true;
	return EXIT_DONE;
}

static int take_space(struct args *a, const char *value, struct problem *p)
{
	(void)p;
	a->space = value;
	return EXIT_DONE;
}

static int take_no_optimise(struct args *a, const char *value, struct problem *p)
{
	(void)value, (void)p;
	a->plain = true;
	return EXIT_DONE;
}

static int take_dump_tensors(struct args *a, const char *value, struct problem *p)
{
	(void)p;
	a->dump_tensors = value;
	return EXIT_DONE;
}

static int take_compare(struct args *a, const char *value, struct problem *p)
{
	(void)p;
	a->compare = value;
	return EXIT_DONE;
}

static int take_time(struct args *a, const char *value, struct problem *p)
{
	(void)value, (void)p;
	a->time = true;
	return EXIT_DONE;
}

static int take_unproved(struct args *a, const char *value, struct problem *p)
{
	(void)value, (void)p;
	a->unproved = true;
	return EXIT_DONE;
}

static int take_stage(struct args *a, const char *value, struct problem *p)
{
	(void)p;
	a->stage = value;
	return EXIT_DONE;
}

static int take_target(struct args *a, const char *value, struct problem *p)
{
	(void)p;
	a->target = value;
	return EXIT_DONE;
}

static int take_name(struct args *a, const char *value, struct problem *p)
{
	(void)p;
	a->name = value;
	return EXIT_DONE;
}

/* One word of several. */
static int take_word(const char **to, const char *value, const char *const *words, struct problem *p)
{
	char all[200] = "";
	for (int i = 0; words[i]; i++) {
		if (strcmp(words[i], value) == 0) {
			*to = words[i];
			return EXIT_DONE;
		}
		strcat(strcat(all, i ? ", " : ""), words[i]);
	}
	return problem_set(p, EXIT_USAGE, "'%s' is none of %s", value, all);
}

static int take_emit(struct args *a, const char *value, struct problem *p)
{
	static const char *const words[] = {"c", "cuda", "opencl", NULL};
	return take_word(&a->emit, value, words, p);
}

static int take_engine(struct args *a, const char *value, struct problem *p)
{
	static const char *const words[] = {"interp", "compiled", "opencl", NULL};
	return take_word(&a->engine, value, words, p);
}

static int take_tolerance(double *to, const char *value, struct problem *p)
{
	char *end;
	*to = strtod(value, &end);
	if (end == value || *end || !(*to >= 0) || *to > 1e300)
		return problem_set(p, EXIT_USAGE, "'%s' is not a tolerance", value);
	return EXIT_DONE;
}

static int take_rtol(struct args *a, const char *value, struct problem *p)
{
	return take_tolerance(&a->rtol, value, p);
}

static int take_atol(struct args *a, const char *value, struct problem *p)
{
	return take_tolerance(&a->atol, value, p);
}

#define O_INPUT                                                                                                        \
	{                                                                                                              \
		"-i", "NAME=FILE", "an input's value from FILE, .npy or .pb (ONNX TensorProto); may be repeated",      \
			take_input                                                                                     \
	}
#define O_DIM                                                                                                          \
	{                                                                                                              \
		"-d", "SYMBOL=N", "size of a symbolic dimension of the inputs made up; may be repeated", take_dim      \
	}
#define O_FIX                                                                                                          \
	{                                                                                                              \
		"--fix", "SYMBOL=N", "compile for this size only", take_fix                                            \
	}
#define O_THREADS                                                                                                      \
	{                                                                                                              \
		"--threads", "N", "threads that run the model (default: one for each physical core)", take_threads     \
	}
#define O_ISA                                                                                                          \
	{                                                                                                              \
		"--isa", "NAME",                                                                                       \
			"instruction set: scalar, generic, neon, avx2, avx512, avx512vnni (default: the machine's "    \
			"best)",                                                                                       \
			take_isa                                                                                       \
	}
#define O_EXACT                                                                                                        \
	{                                                                                                              \
		"--exact", NULL, "no faster algorithm that is less accurate (Winograd's convolution)", take_exact      \
	}
#define O_OP                                                                                                           \
	{                                                                                                              \
		"--op", "[[DOMAIN::]NAME=]FILE.tw",                                                                    \
			"nodes of the operator NAME (default: the file's name) are what FILE.tw says: definitions, a " \
			"program or a launch function; of DOMAIN (default: of any); may be repeated",                  \
			take_op                                                                                        \
	}
#define O_NO_CACHE                                                                                                     \
	{                                                                                                              \
		"--no-cache", NULL, "compile anew and keep nothing", take_no_cache                                     \
	}

static const struct command_option run_options[] = {
	O_INPUT,
	O_DIM,
	O_FIX,
	{"-o", "DIR",
	 "write each output as DIR/NAME.npy (.pb for types that .npy lacks); in NAME, characters other than letters, "
	 "digits, '.', '_' "
	 "and '-' become '_'",
	 take_out},
	O_THREADS,
	{"--random", "SEED", "fill inputs that are not given with random numbers: floats normal, integers 0 to 9",
	 take_random},
	{"--verify", NULL,
	 "run the same inputs through a compilation that neither rewrites nor fuses anything and, where the work is "
	 "small, "
	 "through the interpreter; compare all outputs, and name the first tensor that differs; exit code 1 if any "
	 "does",
	 take_verify},
	{"--dump-tensors", "DIR",
	 "write the inputs and each tensor of the graph that the run writes to memory as -o does, and names.txt, which "
	 "says whose each file is; with --no-optimise these are all that nodes make",
	 take_dump_tensors},
	{"--compare", "DIR",
	 "compare these tensors with the files of DIR, from --dump-tensors or another runtime, and print a table: the "
	 "files that DIR/names.txt gives (in each line a file, a tab and a tensor), or NAME.npy or .pb where there is "
	 "no such list; tools/reference_tensors.py makes them with ONNX Runtime; exit code 1 if one differs by more "
	 "than 1e-4 of its largest magnitude, or in shape, type or places of NaN",
	 take_compare},
	{"--no-optimise", NULL, "neither rewrite nor fuse nodes: slower", take_no_optimise},
	O_OP,
	O_ISA,
	O_EXACT,
	O_NO_CACHE,
	{0}};
static const struct command_option bench_options[] = {
	O_INPUT,
	O_DIM,
	O_FIX,
	O_THREADS,
	{"--runs", "N", "runs to time (default: about a second's worth, at least 5)", take_runs},
	{"--warmup", "N", "runs before that (default: 3)", take_warmup},
	{"--json", NULL, "one line of JSON: median_ms, min_ms, compile_ms, load_ms, threads, peak_mb", take_json},
	{"--profile", NULL,
	 "each step's time and how often a run does it, rates and their share of what the machine can do, what bounds "
	 "it, "
	 "schedule and sizes",
	 take_profile},
	O_OP,
	O_ISA,
	O_EXACT,
	O_NO_CACHE,
	{0}};
static const struct command_option test_options[] = {
	{"--constants", NULL, "turn all inputs but the first into constants of the model", take_constants},
	{"--rtol", "R", "relative tolerance (default: the folder's meta.json, else 1e-3)", take_rtol},
	{"--atol", "A", "absolute tolerance (default: the folder's meta.json, else 1e-7)", take_atol},
	O_THREADS,
	O_OP,
	O_ISA,
	O_EXACT,
	O_NO_CACHE,
	{0}};
static const struct command_option check_options[] = {O_OP, {0}};
static const struct command_option show_options[] = {
	O_DIM,	    O_FIX, {"--dump", "DIR", "write the program after each pass as text into DIR", take_dump},
	O_OP,	    O_ISA, O_EXACT,
	O_NO_CACHE, {0}};
static const struct command_option info_options[] = {
	{"--space", "TEMPLATE", "instead: the points of a schedule template on this machine, one a line (matmul)",
	 take_space},
	{0}};
static const struct command_option program_options[] = {
	{"--name", "NAME",
	 "the program or launch function of the file that is meant (default: the only launch function, else the only "
	 "program)",
	 take_name},
	{"--unproved", NULL,
	 "list what the check could not prove: bounds, stores before reads, races, single stores of outputs; the "
	 "interpreter checks these when the program runs",
	 take_unproved},
	{"--stage", "PASS",
	 "print the program after this pass of lowering; input: as it was read; an unknown name lists the passes",
	 take_stage},
	{"--emit", "LANGUAGE", "print the program in c, cuda or opencl", take_emit},
	{"--target", "NAME",
	 "what --stage, --emit and --run compiled lower for: scalar, generic, neon, avx2, avx512, avx512vnni; sm_80, "
	 "sm_90, opencl "
	 "(default: the machine's best, or sm_90)",
	 take_target},
	{"--run", "ENGINE",
	 "run it: by the interpreter (interp), which checks every access; compiled as C (compiled); on a device of "
	 "OpenCL (opencl)",
	 take_engine},
	O_INPUT,
	{"--random", "SEED", "fill inputs that are not given with random numbers: floats normal, integers 0 to 9",
	 take_random},
	{"-d", "SYMBOL=N", "a size; may be repeated. Sizes of the inputs given are known", take_dim},
	{"--fix", "SYMBOL=N", "a size that is put into the program before lowering; may be repeated", take_fix},
	{"-o", "DIR", "write each output as DIR/NAME.npy (.pb for types that .npy lacks)", take_out},
	{"--time", NULL,
	 "run it several times; print the median and the least time, and what they come to in GFLOP/s, where "
	 "operations can be counted, and in GB/s of the parameters",
	 take_time},
	{"--runs", "N", "runs to time (default: about a second's worth, at least 5)", take_runs},
	{"--warmup", "N", "runs before that (default: 3)", take_warmup},
	O_THREADS,
	{0}};

const struct command commands[] = {
	{"run", "run a model once", "MODEL [-i NAME=FILE]... [-d SYMBOL=N]... [-o DIR] [--random SEED] [--verify]",
	 "Compiles the ONNX file MODEL, or takes it from the cache, runs it once, and prints a summary of each output.",
	 1, 1, run_options, cmd_run},
	{"bench", "measure a model's speed", "MODEL [-i NAME=FILE]... [-d SYMBOL=N]... [--runs N] [--json] [--profile]",
	 "Runs MODEL several times and prints the median and the least time of a run. Inputs that are not given are "
	 "filled with random numbers.",
	 1, 1, bench_options, cmd_bench},
	{"test", "run ONNX test folders", "[--constants] [--rtol R] [--atol A] DIR...",
	 "Each DIR holds model.onnx and test_data_set_*/input_*.pb and output_*.pb, perhaps meta.json with \"rtol\" "
	 "and \"atol\", perhaps expect.txt "
	 "saying \"error\" for a model that must be refused. A DIR without model.onnx stands for the folders in it. "
	 "Prints 'ok NAME' or 'FAIL NAME: "
	 "reason' for each and ends with 'N passed, N failed'. Outputs must agree within atol + rtol * |expected|; "
	 "integers exactly.",
	 1, -1, test_options, cmd_test},
	{"check", "what of a model is supported", "MODEL",
	 "Prints a table of the model's operators and what each runs as, without running anything; or, with exit code "
	 "1, "
	 "the list of all that is wrong with the model or not supported, with node, operator, opset, tensors, what was "
	 "expected and what came.",
	 1, 1, check_options, cmd_check},
	{"show", "what a model was compiled to", "MODEL [-d SYMBOL=N]... [--dump DIR]",
	 "Prints inputs, outputs, the fused groups of nodes and the program each became, host operators, and memory.",
	 1, 1, show_options, cmd_show},
	{"program", "check, show and run a program of task mappings",
	 "FILE.tw [--unproved] [--stage PASS] [--emit LANGUAGE] [--run ENGINE] [-i NAME=FILE]... [-d SYMBOL=N]... [-o "
	 "DIR] [--time]",
	 "Reads a text in the language of tensor programs and verifies all of it: errors name the file, line and "
	 "column "
	 "and say why. Then shows one program of it at a stage of lowering, prints it in another language, or runs it "
	 "and "
	 "prints a summary of each output. Without options it is a check, exit code 0 or 1, which also runs each "
	 "program "
	 "at a few small sizes and proves what it can. docs/LANGUAGE.md has the grammar and what everything means.",
	 1, 1, program_options, cmd_program},
	{"info", "the machine, the compiler, the cache", "[--space TEMPLATE]",
	 "Prints the machine, the instruction set chosen, the C compiler, and the cache.", 0, 0, info_options,
	 cmd_info},
	{0}};

const char *const environment_help[][2] = {
	{"TILEWRIGHT_CACHE", "folder of the cache (default: XDG_CACHE_HOME/tilewright, else ~/.cache/tilewright)"},
	{"TILEWRIGHT_CACHE_SIZE", "bound of the cache, as 500M or 4G (default: 4G)"},
	{"TILEWRIGHT_CC", "C compiler for generated code (default: cc, gcc or clang)"},
	{"TILEWRIGHT_HUGE_PAGES", "0: saved and cached models are mapped from their files, and processes share their "
				  "memory (default: large ones "
				  "are read into huge pages where the system gives any, which is faster)"},
	{"TILEWRIGHT_ISA", "instruction set, as --isa"},
	{"TMPDIR", "folder for temporary files"},
	{NULL, NULL}};

const struct command *cli_find_command(const char *name)
{
	for (const struct command *c = commands; c->name; c++)
		if (strcmp(c->name, name) == 0)
			return c;
	return NULL;
}
