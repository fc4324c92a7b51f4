/* Every kernel of a model, checked: its text after each pass parses and verifies, prints the same, and gives the same C text once lowered; with sizes given, the
 * interpreter computes the same bits from it at every stage. Usage: kernels_check MODEL.onnx [--interpret] [SYMBOL=N]..   Ends with 'N passed, N failed'. */
#include <stdio.h>
#include <stdlib.h>

#include "cgen/cgen.h"
#include "compile/compile_int.h"

struct kernels {
	bool interpret;
	int64_t most; /* elements of the largest parameter that is still interpreted */
	int nsizes;
	const char *names[16];
	int64_t sizes[16];
	int passed, failed, interpreted;
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
	struct tw_buf b;
	buf_init(&b, a);
	cgen_prelude(&b, tw_dialect_for(c->target.isa), m, 1, &p);
	cgen_kernel(&b, tw_dialect_for(c->target.isa), m, p, "kernel");
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

static void interpret(void *arg)
{
	struct check *x = arg;
	struct kernels *k = x->k;
	const struct twir_program *p = x->p;
	const bool first = strcmp(x->pass, "input") == 0;
	struct twir_data data[32];
	int64_t values[32];
	if (p->nparams > 32 || p->nsymbols > 32)
		return;
	for (int i = 0; i < p->nsymbols; i++)
		values[i] = size_of(k, p->symbols[i]);
	const struct twir_binding b = {p->nsymbols, p->symbols, values};
	uint64_t seed = 11;
	bool small = true;
	for (int i = 0; i < p->nparams; i++) {
		struct twir_tensor *t = p->params[i];
		data[i].elements = twir_eval_index(twir_tensor_elements(x->c->m, t), &b);
		small &= data[i].elements <= k->most;
	}
	for (int i = 0; small && i < p->nparams; i++) {
		const struct twir_tensor *t = p->params[i];
		const int bytes = twir_scalar_bytes(t->type);
		char *at = calloc((size_t)data[i].elements + 1, (size_t)bytes);
		for (int64_t e = 0; t->scope == TWIR_IN && e < data[i].elements; e++) {
			seed = seed * 6364136223846793005u + 1442695040888963407u;
			const float f = (float)(int32_t)(seed >> 32) * 0x1p-31f;
			if (t->type == TWIR_F32)
				memcpy(at + e * 4, &f, 4);
			else if (t->type == TWIR_F64)
				memcpy(at + e * 8, &(double){(double)f}, 8);
			else
				at[e * bytes] = (char)(seed >> 40 & 1);
		}
		data[i].at = at;
	}
	if (!small)
		return;
	twir_interpret(x->c->m, p, &b, data);
	k->interpreted++;
	for (int i = 0; i < p->nparams; i++) {
		const bool out = p->params[i]->scope == TWIR_OUT;
		const size_t bytes = (size_t)data[i].elements * (size_t)twir_scalar_bytes(p->params[i]->type);
		if (out && !first && memcmp(k->data[i].at, data[i].at, bytes) != 0)
			x->reason = "computes other bits than before lowering";
		if (first) {
			free(k->data[i].at);
			k->data[i] = data[i];
		} else {
			free(data[i].at);
		}
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
	printf("%d programs, %d stages interpreted\n%d passed, %d failed\n", j.c.programs.n, k.interpreted, k.passed, k.failed);
	tw_onnx_close(&j.c.files);
	arena_free(j.c.arena);
	return k.failed > 0;
}
