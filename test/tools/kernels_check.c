/* Every kernel of a model, checked: its text after each pass parses and verifies, prints the same, and gives the same C
 * text once lowered; with --interpret, the interpreter computes the same bits from it at every stage.
 * Usage: kernels_check MODEL.onnx [--interpret] [SYMBOL=N]..   Ends with 'N passed, N failed'. */
#include <stdio.h>
#include <stdlib.h>

#include "cgen/cgen.h"
#include "compile/compile_int.h"

/* What integers are, as they may be indices: 0 and 1, all 0, all -1; or there are no numbers that this program takes. */
enum integers { MIXED, ZERO, MINUS_ONE, NONE };

struct kernels {
	bool interpret;
	int64_t most; /* elements of the largest parameter that is still interpreted */
	int nsizes;
	const char *names[16];
	int64_t sizes[16];
	int passed, failed, interpreted;
	enum integers integers;	   /* what they are filled with in this program */
	struct twir_data data[32]; /* outputs of the program at its first stage */
};

struct check {
	struct kernels *k;
	struct twc *c;
	const char *pass;
	const struct twir_program *p;
	const char *reason;
};

static const char *emit(struct tw_arena *a, struct twc *c, struct twir_module *m, struct twir_program *p)
{
	struct tw_buf b, kernel;
	struct cgen_uses *u = cgen_uses_new(a, tw_dialect_for(c->target.isa));
	buf_init(&b, a);
	buf_init(&kernel, a);
	cgen_kernel(&kernel, u, m, p, "kernel");
	cgen_prelude(&b, u);
	buf_bytes(&b, kernel.at, kernel.n);
	return b.at;
}

static void round_trip(void *arg)
{
	struct check *x = arg;
	struct tw_arena *a = arena_new();
	struct twir_module *again = twir_module_new(a);
	const char *text = twir_print_program(a, x->c->m, x->p);
	twir_parse(again, x->p->name, text);
	struct twir_program *p = again->programs.at[again->programs.n - 1];
	twir_verify_program(again, p, TW_ERR_INTERNAL);
	if (strcmp(twir_print_program(a, again, p), text) != 0)
		x->reason = "prints differently after parsing";
	else if (strcmp(x->pass, tw_cpu_passes[0].name) != 0 && !x->reason) {
		bool last = false;
		for (int i = 0; tw_cpu_passes[i].name; i++)
			last = strcmp(tw_cpu_passes[i].name, x->pass) == 0 && !tw_cpu_passes[i + 1].name;
		if (last && strcmp(emit(a, x->c, again, p), emit(a, x->c, x->c->m, (struct twir_program *)x->p)) != 0)
			x->reason = "gives other C after parsing";
	}
	arena_free(a);
}

static int64_t size_of(const struct kernels *k, const struct twir_var *v)
{
	for (int i = 0; i < k->nsizes; i++)
		if (strcmp(k->names[i], v->name) == 0)
			return k->sizes[i];
	return 2;
}

static void fill(char *at, int64_t elements, enum twir_scalar type, enum integers integers, uint64_t *seed)
{
	const int bytes = twir_scalar_bytes(type);
	for (int64_t e = 0; e < elements; e++) {
		*seed = *seed * 6364136223846793005u + 1442695040888963407u;
		const float f = (float)(int32_t)(*seed >> 32) * 0x1p-31f;
		if (type == TWIR_F32)
			memcpy(at + e * 4, &f, 4);
		else if (type == TWIR_F64)
			memcpy(at + e * 8, &(double){(double)f}, 8);
		else if (integers == MINUS_ONE && type != TWIR_I1)
			memset(at + e * bytes, 0xff, (size_t)bytes);
		else
			at[e * bytes] = (char)(*seed >> 40 & (integers == MIXED));
	}
}

struct run {
	struct check *x;
	const struct twir_binding *b;
	struct twir_data data[32];
};

static void run(void *arg)
{
	struct run *r = arg;
	const struct twir_program *p = r->x->p;
	uint64_t seed = 11;
	for (int i = 0; i < p->nparams; i++)
		if (p->params[i]->scope == TWIR_IN)
			fill(r->data[i].at, r->data[i].elements, p->params[i]->type, r->x->k->integers, &seed);
	twir_interpret(r->x->c->m, p, r->b, r->data);
}

/* The first stage finds out which integers serve as indices, if any: those of a scatter do not, and sizes that have
 * nothing to do with each other may leave too few elements. */
static void run_first(struct run *r)
{
	enum integers *integers = &r->x->k->integers;
	struct tw_error e;
	for (*integers = MIXED; *integers < NONE && !tw_try(&e, run, r); ++*integers)
		if (!strstr(e.text, "out of bounds"))
			tw_raise_error(&e);
}

static void interpret(void *arg)
{
	struct check *x = arg;
	struct kernels *k = x->k;
	const struct twir_program *p = x->p;
	const bool first = strcmp(x->pass, "input") == 0;
	int64_t values[32];
	if (p->nparams > 32 || p->nsymbols > 32)
		return;
	for (int i = 0; i < p->nsymbols; i++)
		values[i] = size_of(k, p->symbols[i]);
	const struct twir_binding b = {p->nsymbols, p->symbols, values};
	struct run r = {.x = x, .b = &b};
	for (int i = 0; i < p->nparams; i++) {
		r.data[i].elements = twir_eval_index(twir_tensor_elements(x->c->m, p->params[i]), &b);
		if (r.data[i].elements > k->most)
			return;
	}
	for (int i = 0; i < p->nparams; i++)
		r.data[i].at = calloc((size_t)r.data[i].elements + 1, (size_t)twir_scalar_bytes(p->params[i]->type));
	if (first)
		run_first(&r);
	else if (k->integers != NONE)
		run(&r);
	k->interpreted += k->integers != NONE;
	for (int i = 0; i < p->nparams; i++) {
		const bool out = p->params[i]->scope == TWIR_OUT;
		const size_t bytes = (size_t)r.data[i].elements * (size_t)twir_scalar_bytes(p->params[i]->type);
		if (out && !first && memcmp(k->data[i].at, r.data[i].at, bytes) != 0)
			x->reason = "computes other bits than before lowering";
		free(first ? k->data[i].at : r.data[i].at);
		if (first)
			k->data[i] = r.data[i];
	}
}

static void after(void *arg, struct twc *c, int number, const char *pass, const struct twir_program *p)
{
	struct kernels *k = arg;
	struct check x = {.k = k, .c = c, .pass = pass, .p = p};
	struct tw_error e;
	bool good = tw_try(&e, round_trip, &x);
	if (good && !x.reason && k->interpret)
		good = tw_try(&e, interpret, &x);
	if (good && !x.reason) {
		k->passed++;
		return;
	}
	k->failed++;
	printf("kernel %d, %s, after %s: %s\n", number, p->name, pass, x.reason ? x.reason : e.text);
}

struct job {
	struct twc c;
	char *model;
	size_t bytes;
};

static void lower(void *arg)
{
	struct job *j = arg;
	tw_target_host(&j->c.target);
	twc_lowered(&j->c, j->model, (int64_t)j->bytes, ".");
}

static char *read_file(const char *path, size_t *n)
{
	FILE *f = fopen(path, "rb");
	if (!f || fseek(f, 0, SEEK_END) != 0)
		return NULL;
	*n = (size_t)ftell(f);
	rewind(f);
	char *at = malloc(*n + 1);
	if (at && fread(at, 1, *n, f) != *n)
		at = NULL;
	fclose(f);
	return at;
}

int main(int argc, char **argv)
{
	struct kernels k = {.most = 1 << 20};
	struct tw_compile_options options = {0};
	struct job j = {.c = {.o = &options, .after = after, .after_arg = &k}};
	struct tw_error e;
	for (int i = 2; i < argc; i++) {
		char *eq = strchr(argv[i], '=');
		if (strcmp(argv[i], "--interpret") == 0) {
			k.interpret = true;
		} else if (eq && k.nsizes < 16) {
			*eq = '\0';
			k.names[k.nsizes] = argv[i];
			k.sizes[k.nsizes++] = strtoll(eq + 1, NULL, 10);
		}
	}
	if (argc < 2 || !(j.model = read_file(argv[1], &j.bytes))) {
		fprintf(stderr, "usage: kernels_check MODEL.onnx [--interpret] [SYMBOL=N]..\n");
		return 2;
	}
	j.c.arena = arena_new();
	if (!tw_try(&e, lower, &j)) {
		printf("%s\n", e.text);
		k.failed++;
	}
	printf("%d programs, %d stages interpreted\n%d passed, %d failed\n", j.c.kernels.n, k.interpreted, k.passed,
	       k.failed);
	tw_onnx_close(&j.c.files);
	arena_free(j.c.arena);
	return k.failed > 0;
}
