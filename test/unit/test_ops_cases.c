/* rooms: base tmap ir graph ops onnx */
/* ONNX test folders (model.onnx, test_data_set_0/input_K.pb and output_K.pb) run through importer, inference and
 * the interpreter: every operator's compute definition against the expected outputs, before any schedule or
 * compiler has touched it.
 *
 * usage: test_ops_cases [-v] [-c] [FOLDER...]
 *   FOLDER is a case or holds cases; without one: test/cases of the repository
 *   -f N: instead of running a case, damage its model N times: it may be refused, but not by a fault of ours
 *   -c  all inputs but the first become constants      -v  one line for each case
 *   -m FILE: only import, infer and define FILE, and print its graph (behind -v: and definitions) */
#include "onnx/onnx.h"
#include "ops/evaluate.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct run {
	const char *folder;
	struct tw_arena *arena;
	struct tw_onnx_files files;
	bool constants;
	double rtol, atol;
};

static bool exists(const char *path)
{
	struct stat st;
	return stat(path, &st) == 0;
}

static void *read_file(struct tw_arena *a, const char *path, size_t *size)
{
	FILE *f = fopen(path, "rb");
	if (!f)
		tw_raise(TW_ERR_IO, "%s cannot be read", path);
	fseek(f, 0, SEEK_END);
	const long n = ftell(f);
	rewind(f);
	void *at = arena_alloc(a, (size_t)n + 1);
	*size = fread(at, 1, (size_t)n, f);
	fclose(f);
	return at;
}

static void read_tensor(struct run *r, const char *kind, int i, struct tw_onnx_tensor *t)
{
	size_t size;
	const char *path = arena_printf(r->arena, "%s/test_data_set_0/%s_%d.pb", r->folder, kind, i);
	const void *bytes = read_file(r->arena, path, &size);
	tw_onnx_tensor_read(r->arena, path, bytes, size, t);
}

/* Infinities and NaN at the same places; a difference of at most atol + rtol * |expected|. */
static bool near(double got, double want, double rtol, double atol)
{
	if (isnan(want) || isnan(got))
		return isnan(want) && isnan(got);
	if (isinf(want) || isinf(got))
		return got == want;
	return fabs(got - want) <= atol + rtol * fabs(want);
}

static void compare(struct run *r, int k, const struct tw_graph *g, const struct tw_value *v)
{
	struct tw_onnx_tensor want;
	read_tensor(r, "output", k, &want);
	const struct tw_tensor *t = &g->tensors.at[g->outputs.at[k]];
	if (!v->data)
		tw_raise(TW_ERR_INTERNAL, "output %d was not computed", k);
	bool same = want.rank == v->rank && want.type == t->type;
	for (int d = 0; d < want.rank && same; d++)
		same = want.dims[d] == v->dims[d];
	if (!same)
		tw_raise(TW_ERR_INPUT, "output %d is %s of rank %d, expected %s of rank %d, or sizes differ", k,
			 twir_scalar_name(t->type), v->rank, twir_scalar_name(want.type), want.rank);
	const bool exact = twir_is_int(t->type);
	for (int64_t i = 0; i < v->elements; i++) {
		const bool ok = exact ? tw_data_int(t->type, v->data, i) == tw_data_int(t->type, want.data, i)
				      : near(tw_data_float(t->type, v->data, i), tw_data_float(t->type, want.data, i),
					     r->rtol, r->atol);
		if (!ok)
			tw_raise(TW_ERR_INPUT, "output %d element %lld is %.9g, expected %.9g", k, (long long)i,
				 tw_data_float(t->type, v->data, i), tw_data_float(t->type, want.data, i));
	}
}

static int count_files(struct run *r, const char *kind)
{
	int n = 0;
	while (exists(arena_printf(r->arena, "%s/test_data_set_0/%s_%d.pb", r->folder, kind, n)))
		n++;
	return n;
}

static void read_tolerance(struct run *r)
{
	r->rtol = 1e-3;
	r->atol = 1e-5;
	const char *path = arena_printf(r->arena, "%s/meta.json", r->folder);
	if (!exists(path))
		return;
	size_t size;
	const char *text = read_file(r->arena, path, &size), *at;
	if ((at = strstr(text, "\"rtol\":")))
		r->rtol = strtod(at + 7, NULL);
	if ((at = strstr(text, "\"atol\":")))
		r->atol = strtod(at + 7, NULL);
	r->atol = r->atol < 1e-6 ? 1e-6 : r->atol;
}

static void run_case(void *arg)
{
	struct run *r = arg;
	size_t size;
	read_tolerance(r);
	const void *bytes = read_file(r->arena, arena_printf(r->arena, "%s/model.onnx", r->folder), &size);
	struct twir_module *m = twir_module_new(r->arena);
	const int nin = count_files(r, "input");
	struct tw_onnx_tensor *given = ARENA_ARRAY(r->arena, struct tw_onnx_tensor, nin);
	for (int i = 0; i < nin; i++)
		read_tensor(r, "input", i, &given[i]);
	const struct tw_onnx_source src = {.bytes = bytes,
					   .size = size,
					   .name = "model.onnx",
					   .folder = r->folder,
					   .files = &r->files,
					   .nconstants = r->constants && nin > 1 ? nin - 1 : 0,
					   .constants = given + 1};
	struct tw_graph *g = tw_onnx_import(r->arena, m, &src);
	tw_infer(g);
	tw_guard_indices(g);
	struct tw_value *in = ARENA_ARRAY(r->arena, struct tw_value, g->inputs.n);
	struct twir_var **symbols = ARENA_ARRAY(r->arena, struct twir_var *, m->symbols.n);
	int64_t *values = ARENA_ARRAY(r->arena, int64_t, m->symbols.n);
	struct twir_binding b = {.symbols = symbols, .values = values};
	for (int i = 0; i < g->inputs.n; i++) {
		const struct tw_tensor *t = &g->tensors.at[g->inputs.at[i]];
		int k = i;
		for (int j = 0; j < nin; j++)
			if (!strcmp(given[j].name, t->name))
				k = j;
		if (k >= nin || given[k].rank != t->rank || given[k].type != t->type)
			tw_raise(TW_ERR_INPUT, "input %d does not fit the model", i);
		in[i] = (struct tw_value){.data = (void *)(uintptr_t)given[k].data, .rank = t->rank, .elements = 1};
		for (int d = 0; d < t->rank; d++) {
			in[i].dims[d] = given[k].dims[d];
			in[i].elements *= given[k].dims[d];
			if (t->shape[d]->kind == TWIR_Var) {
				symbols[b.n] = t->shape[d]->u.var;
				values[b.n++] = given[k].dims[d];
			}
		}
	}
	const struct tw_value *all = tw_graph_evaluate(g, r->arena, &b, in);
	const int nout = count_files(r, "output");
	for (int k = 0; k < nout && k < g->outputs.n; k++)
		compare(r, k, g, &all[g->outputs.at[k]]);
}

/* -m: a model without data: every definition is made and verified, the graph printed. */
static void show_model(void *arg)
{
	struct run *r = arg;
	size_t size;
	const void *bytes = read_file(r->arena, r->folder, &size);
	struct twir_module *m = twir_module_new(r->arena);
	const char *slash = strrchr(r->folder, '/');
	const char *folder = slash ? arena_strndup(r->arena, r->folder, (size_t)(slash - r->folder)) : ".";
	const struct tw_onnx_source src = {
		.bytes = bytes, .size = size, .name = r->folder, .folder = folder, .files = &r->files};
	struct tw_graph *g = tw_onnx_import(r->arena, m, &src);
	tw_infer(g);
	int definitions = 0;
	for (int i = 0; i < g->nodes.n; i++) {
		struct twir_compute **list;
		int n;
		if (g->nodes.at[i].dead || !g->nodes.at[i].op->compute)
			continue;
		tw_compute_node(g, (tw_id)i, r->arena, &n, &list);
		for (int k = 0; k < n; k++)
			twir_verify_compute(m, list[k], TW_ERR_INTERNAL);
		for (int k = 0; k < n && r->constants; k++)
			printf("%s", twir_print_compute(r->arena, list[k]));
		definitions += n;
	}
	printf("%s%d definitions, %zu MB\n", tw_graph_print(r->arena, g), definitions, arena_bytes(r->arena) >> 20);
}

static bool expects_error(const char *path)
{
	char text[16] = "";
	FILE *f = fopen(path, "rb");
	if (f) {
		if (!fgets(text, sizeof text, f))
			text[0] = 0;
		fclose(f);
	}
	return !strncmp(text, "error", 5);
}

/* What is refused elsewhere: inputs are checked by the interface. */
static bool beyond_definitions(const char *name)
{
	return !strcmp(name, "b51_wrong_input_shape_at_run");
}

struct damage {
	struct tw_arena *arena;
	const char *bytes;
	size_t size;
};

/* Import, inference and definitions: all that runs before anything is compiled. */
static void define_damaged(void *arg)
{
	const struct damage *d = arg;
	const struct tw_onnx_source src = {.bytes = d->bytes, .size = d->size, .name = "model.onnx"};
	struct twir_module *m = twir_module_new(d->arena);
	struct tw_graph *g = tw_onnx_import(d->arena, m, &src);
	tw_infer(g);
	tw_guard_indices(g);
	for (int i = 0; i < g->nodes.n; i++) {
		struct twir_compute **list;
		int n;
		if (g->nodes.at[i].dead || !g->nodes.at[i].op->compute)
			continue;
		tw_compute_node(g, (tw_id)i, d->arena, &n, &list);
		for (int k = 0; k < n; k++)
			twir_verify_compute(m, list[k], TW_ERR_INTERNAL);
	}
}

static uint64_t next_random(uint64_t *s)
{
	*s ^= *s << 13;
	*s ^= *s >> 7;
	*s ^= *s << 17;
	return *s;
}

/* Flips bits and cuts the end off; returns how often a fault of ours showed, and tells the first. */
static int damage_model(const char *path, int rounds, struct tw_error *e)
{
	struct tw_arena *a = arena_new();
	size_t size = 0;
	const char *bytes = read_file(a, path, &size);
	int faults = 0;
	uint64_t seed = 0x9e3779b97f4a7c15u ^ tw_hash64(path, strlen(path), 0);
	for (int i = 0; i < rounds && size > 0; i++) {
		struct damage d = {.arena = arena_new(), .size = size};
		struct tw_error one;
		char *copy = malloc(size);
		memcpy(copy, bytes, size);
		for (uint64_t k = 1 + next_random(&seed) % 4; k > 0; k--)
			copy[next_random(&seed) % size] ^= (char)(1 << next_random(&seed) % 8);
		if (i % 8 == 0)
			d.size = 1 + next_random(&seed) % size;
		d.bytes = copy;
		if (!tw_try(&one, define_damaged, &d) && (one.code == TW_ERR_INTERNAL || one.code == TW_ERR_MEMORY) &&
		    !faults++)
			*e = one;
		free(copy);
		arena_free(d.arena);
	}
	arena_free(a);
	return faults;
}

struct totals {
	int passed, failed, unsupported;
	int damage;
	bool verbose, constants;
};

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void visit(struct totals *t, const char *folder)
{
	char path[4096];
	snprintf(path, sizeof path, "%s/model.onnx", folder);
	if (exists(path) && t->damage) {
		struct tw_error e = {0};
		const int faults = damage_model(path, t->damage, &e);
		if (faults)
			printf("FAIL %s: %d of %d: %s\n", folder, faults, t->damage, e.text);
		*(faults ? &t->failed : &t->passed) += 1;
		return;
	}
	if (exists(path)) {
		struct run r = {.folder = folder, .arena = arena_new(), .constants = t->constants};
		struct tw_error e;
		const char *name = strrchr(folder, '/');
		bool ok = tw_try(&e, run_case, &r);
		snprintf(path, sizeof path, "%s/expect.txt", folder);
		if (expects_error(path) && ok && name && beyond_definitions(name + 1)) {
			tw_error_set(&e, TW_ERR_UNSUPPORTED, "is refused elsewhere or not at all");
			ok = false;
		} else if (expects_error(path)) { /* the model must be refused, but not by a fault of ours */
			if (ok)
				tw_error_set(&e, TW_ERR_MODEL, "was accepted");
			ok = !ok && e.code != TW_ERR_INTERNAL && e.code != TW_ERR_MEMORY;
		}
		if (ok)
			t->passed++;
		else if (e.code == TW_ERR_UNSUPPORTED)
			t->unsupported++;
		else
			t->failed++;
		if (!ok && (t->verbose || e.code != TW_ERR_UNSUPPORTED))
			printf("%s %s: %s\n", e.code == TW_ERR_UNSUPPORTED ? "skip" : "FAIL", name ? name + 1 : folder,
			       e.text);
		else if (t->verbose)
			printf("pass %s\n", name ? name + 1 : folder);
		fflush(stdout);
		tw_onnx_close(&r.files);
		arena_free(r.arena);
		return;
	}
	DIR *d = opendir(folder);
	char *names[8192];
	int n = 0;
	for (struct dirent *e; d && (e = readdir(d)) && n < TW_COUNT(names);)
		if (e->d_name[0] != '.') {
			snprintf(path, sizeof path, "%s/%s/model.onnx", folder, e->d_name);
			if (exists(path))
				names[n++] = strdup(e->d_name);
		}
	if (d)
		closedir(d);
	qsort(names, (size_t)n, sizeof *names, by_name);
	for (int i = 0; i < n; i++) {
		snprintf(path, sizeof path, "%s/%s", folder, names[i]);
		visit(t, path);
		free(names[i]);
	}
}

int main(int argc, char **argv)
{
	struct totals t = {0};
	int folders = 0;
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "-m") && i + 1 < argc) {
			struct run r = {.folder = argv[i + 1], .arena = arena_new(), .constants = t.verbose};
			struct tw_error e;
			const bool ok = tw_try(&e, show_model, &r);
			if (!ok)
				printf("%s\n", e.text);
			return !ok;
		}
		if (!strcmp(argv[i], "-f") && i + 1 < argc)
			t.damage = atoi(argv[++i]);
		else if (!strcmp(argv[i], "-v"))
			t.verbose = true;
		else if (!strcmp(argv[i], "-c"))
			t.constants = true;
		else {
			visit(&t, argv[i]);
			folders++;
		}
	}
	if (!folders)
		visit(&t, TW_SOURCE_DIR "/test/cases");
	printf("%d passed, %d failed, %d not supported\n", t.passed, t.failed, t.unsupported);
	return t.failed > 0 || t.passed == 0;
}
