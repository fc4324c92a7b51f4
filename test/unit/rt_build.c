/* See rt_build.h. */
#include "rt_build.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

const char *const rt_kernel_names[K_COUNT] = {"k_add", "k_twice", "k_bias", "k_mix", "k_split"};

static const char source[] =
	"typedef long long i64;\n"
	"#define ITEM const i64 from = core * 64, to = from + 64 < sym[0] ? from + 64 : sym[0]\n"
	"#define P(k) ((float *)buf[k])\n"
	"#define K(name) void name(i64 core, void *const *buf, const i64 *sym, void *scratch)\n"
	"K(k_add) { ITEM; (void)scratch; for (i64 i = from; i < to; i++) P(2)[i] = P(0)[i] + P(1)[i]; }\n"
	/* through scratch memory, so that threads sharing it would be seen */
	"K(k_twice) { ITEM; float *s = scratch; for (i64 i = from; i < to; i++) s[i - from] = P(0)[i] + P(0)[i];\n"
	"  for (i64 i = from; i < to; i++) P(1)[i] = s[i - from]; }\n"
	"K(k_bias) { ITEM; (void)scratch; for (i64 i = from; i < to; i++) P(2)[i] = P(0)[i] + P(1)[i % sym[1]]; }\n"
	"K(k_mix) { ITEM; (void)scratch; for (i64 i = from; i < to; i++) P(2)[i] = 0.5f * P(0)[i] - P(1)[i] + 1.0f; }\n"
	"K(k_split) { ITEM; (void)scratch; for (i64 i = from; i < to; i++) { const float a = P(0)[i]; P(1)[i] = a + 1; "
	"P(2)[i] = a + 2; } }\n";

static void fail(const char *what)
{
	perror(what);
	exit(2);
}

/* Memory that lives as long as the process, and is known to: plans point into each other. */
static void *keep(size_t bytes)
{
	static struct block {
		struct block *next;
		max_align_t at[];
	} * blocks;
	struct block *b = malloc(sizeof(*b) + bytes);
	if (b == NULL)
		fail("malloc");
	b->next = blocks;
	blocks = b;
	return b->at;
}

struct twrt_code rt_kernels(void)
{
	static struct twrt_code code;
	if (code.object)
		return code;
	char folder[] = "/tmp/tilewright-test-XXXXXX", text[64], object[64], command[256];
	if (mkdtemp(folder) == NULL)
		fail("mkdtemp");
	snprintf(text, sizeof(text), "%s/k.c", folder);
	snprintf(object, sizeof(object), "%s/k.so", folder);
	snprintf(command, sizeof(command), "cc -O1 -ffp-contract=off -shared -fPIC -o %s %s", object, text);
	FILE *f = fopen(text, "w");
	if (f == NULL || fputs(source, f) < 0 || fclose(f) != 0 || system(command) != 0)
		fail("compiling the test's kernels");
	struct stat st;
	f = fopen(object, "r");
	if (f == NULL || fstat(fileno(f), &st) != 0)
		fail(object);
	void *bytes = malloc((size_t)st.st_size);
	if (bytes == NULL || fread(bytes, 1, (size_t)st.st_size, f) != (size_t)st.st_size)
		fail(object);
	fclose(f);
	unlink(text);
	unlink(object);
	rmdir(folder);
	code = (struct twrt_code){bytes, st.st_size, 0};
	return code;
}

static struct twrt_expr join(struct twrt_expr a, struct twrt_expr b, int more, const int64_t *words)
{
	int64_t *code = keep((size_t)(a.n + b.n + more) * sizeof(*code));
	if (a.n)
		memcpy(code, a.code, (size_t)a.n * sizeof(*code));
	if (b.n)
		memcpy(code + a.n, b.code, (size_t)b.n * sizeof(*code));
	memcpy(code + a.n + b.n, words, (size_t)more * sizeof(*code));
	return (struct twrt_expr){a.n + b.n + more, code};
}

struct twrt_expr rt_num(int64_t x)
{
	return join((struct twrt_expr){0}, (struct twrt_expr){0}, 2, (int64_t[]){TWRT_PUSH, x});
}

struct twrt_expr rt_sym(int s)
{
	return join((struct twrt_expr){0}, (struct twrt_expr){0}, 2, (int64_t[]){TWRT_SYM, s});
}

struct twrt_expr rt_op(enum twrt_opcode op, struct twrt_expr a, struct twrt_expr b)
{
	return join(a, b, 1, (int64_t[]){op});
}

struct twrt_step rt_step(int kernel, struct twrt_expr elements, int nbuffers, const int *buffers, int nout,
			 const int *inplace)
{
	struct twrt_step s = {.kind = TWRT_KERNEL,
			      .kernel = kernel,
			      .nbuffers = nbuffers,
			      .nout = nout,
			      .nsymbols = 2,
			      .label = "node",
			      .program = rt_kernel_names[kernel]};
	s.cores = rt_op(TWRT_CEILDIV, elements, rt_num(64));
	s.scratch = kernel == K_TWICE ? rt_num(256) : rt_num(0);
	int *b = keep((size_t)nbuffers * sizeof(*b)), *in = keep(sizeof(*in) * (size_t)nout);
	struct twrt_expr *symbols = keep(2 * sizeof(*symbols));
	memcpy(b, buffers, (size_t)nbuffers * sizeof(*b));
	for (int i = 0; i < nout; i++)
		in[i] = inplace ? inplace[i] : -1;
	symbols[0] = elements;
	symbols[1] = rt_sym(1);
	s.buffers = b;
	s.inplace = in;
	s.symbols = symbols;
	return s;
}

void rt_example(struct twrt_plan *p, const float *w, int64_t m)
{
	static const char *const symbols[] = {"n", "m"}, *const keys[] = {"nodes"}, *const values[] = {"4"};
	static const struct twrt_source sources[] = {{0, 0}, {0, 1}};
	const struct twrt_expr count = rt_op(TWRT_MUL, rt_sym(0), rt_sym(1)), bytes = rt_op(TWRT_MUL, count, rt_num(4));
	static struct twrt_io inputs[2], outputs[2];
	inputs[0] = (struct twrt_io){"a", TWRT_F32, 2, {rt_sym(0), rt_sym(1)}, 0};
	inputs[1] = (struct twrt_io){"b", TWRT_F32, 2, {rt_sym(0), rt_sym(1)}, 1};
	outputs[0] = (struct twrt_io){"y", TWRT_F32, 1, {count}, 6};
	outputs[1] = (struct twrt_io){"z", TWRT_F32, 1, {count}, 7};
	static struct twrt_buffer buffers[8];
	buffers[0] = buffers[1] = (struct twrt_buffer){.kind = TWRT_INPUT, .bytes = bytes};
	buffers[2] = buffers[3] = (struct twrt_buffer){.kind = TWRT_TEMP, .bytes = bytes};
	buffers[4] = (struct twrt_buffer){.kind = TWRT_ALIAS, .bytes = bytes, .of = 3, .offset = rt_num(0)};
	buffers[5] = (struct twrt_buffer){.kind = TWRT_CONST, .data = w, .const_bytes = 4 * m};
	buffers[6] = (struct twrt_buffer){.kind = TWRT_OUTPUT, .bytes = bytes};
	buffers[7] = (struct twrt_buffer){.kind = TWRT_ALIAS, .bytes = bytes, .of = 0, .offset = rt_num(0)};
	static struct twrt_step steps[3];
	steps[0] = rt_step(K_ADD, count, 3, (int[]){0, 1, 2}, 1, NULL);
	steps[1] = rt_step(K_TWICE, count, 2, (int[]){2, 3}, 1, (int[]){0});
	steps[2] = rt_step(K_BIAS, count, 3, (int[]){4, 5, 6}, 1, (int[]){0});
	static struct twrt_check checks[1];
	checks[0] =
		(struct twrt_check){rt_op(TWRT_EQ, rt_sym(1), rt_num(m)), "input a: dimension 1 does not fit the bias"};
	*p = (struct twrt_plan){.nsymbols = 2,
				.symbols = symbols,
				.sources = sources,
				.ninputs = 2,
				.noutputs = 2,
				.inputs = inputs,
				.outputs = outputs,
				.nbuffers = 8,
				.buffers = buffers,
				.nsteps = 3,
				.steps = steps,
				.nchecks = 1,
				.checks = checks,
				.nkernels = K_COUNT,
				.kernels = rt_kernel_names,
				.nmeta = 1,
				.meta_keys = keys,
				.meta_values = values};
}

struct twrt_model *rt_open(const struct twrt_plan *p)
{
	struct tw_error e;
	void *image;
	int64_t bytes;
	struct twrt_model *m = NULL;
	const struct twrt_code code = rt_kernels();
	if (twrt_image_write(p, 1, &code, NULL, NULL, &image, &bytes, &e) != TW_ERR_OK ||
	    twrt_model_open(image, bytes, TWRT_FREE, &m, &e) != TW_ERR_OK)
		fprintf(stderr, "%s\n", e.text);
	return m;
}
