/* pass_support: see the header. */
#include "pass_support.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

char *support_read(struct tw_arena *a, const char *path)
{
	FILE *f = fopen(path, "rb");
	if (!f)
		return NULL;
	struct tw_buf b;
	buf_init(&b, a);
	char chunk[4096];
	for (size_t n; (n = fread(chunk, 1, sizeof chunk, f)) > 0;)
		buf_bytes(&b, chunk, n);
	fclose(f);
	buf_puts(&b, "");
	return b.at;
}

char *support_replace(struct tw_arena *a, const char *text, const char *from, const char *to)
{
	struct tw_buf b;
	buf_init(&b, a);
	for (const char *at; (at = strstr(text, from)); text = at + strlen(from)) {
		buf_bytes(&b, text, (size_t)(at - text));
		buf_puts(&b, to);
	}
	buf_puts(&b, text);
	return b.at;
}

char *support_directive(struct tw_arena *a, const char *text, const char *key)
{
	char *mark = arena_printf(a, "# %s:", key);
	for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
		if (strncmp(line, mark, strlen(mark)) != 0)
			continue;
		line += strlen(mark);
		line += strspn(line, " ");
		return arena_strndup(a, line, strcspn(line, "\n"));
	}
	return NULL;
}

struct tw_target support_target(enum tw_isa isa, int lanes)
{
	return (struct tw_target){.isa = isa,
				  .lanes = lanes,
				  .vector_bytes = isa == TW_ISA_SCALAR ? 0 : 4 * lanes,
				  .vector_registers = 32,
				  .has_fma = true,
				  .l1_bytes = 32768,
				  .l2_bytes = 1 << 20,
				  .l3_bytes = 1 << 24,
				  .cores = 2};
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

int support_list(struct tw_arena *a, const char *folder, char ***names)
{
	VEC(char *) v = {0};
	DIR *d = opendir(folder);
	for (struct dirent *e; d && (e = readdir(d));) {
		const char *dot = strrchr(e->d_name, '.');
		if (dot && strcmp(dot, ".tw") == 0)
			vec_push(a, &v, arena_strdup(a, e->d_name));
	}
	if (d)
		closedir(d);
	if (v.n > 1)
		qsort(v.at, (size_t)v.n, sizeof *v.at, by_name);
	*names = v.at;
	return v.n;
}

/* --- data --- */

static uint64_t next(uint64_t *state)
{
	*state += 0x9e3779b97f4a7c15u;
	uint64_t z = *state;
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static double real(uint64_t *state)
{
	static const double odd[] = {0.0, -0.0, 1.0, -1.0, 1e30, -1e-30};
	const uint64_t r = next(state);
	return r % 16 == 0 ? odd[(r >> 8) % TW_COUNT(odd)]
			   : (double)(int64_t)(r >> 20) / (double)((int64_t)1 << 42) - 2.0;
}

static void fill(struct twir_data *d, enum twir_scalar type, int64_t limit, uint64_t *state)
{
	for (int64_t i = 0; i < d->elements; i++) {
		uint64_t r = next(state);
		float f = (float)real(state);
		double g = real(state);
		uint16_t h;
		if (limit > 0)
			r %= (uint64_t)limit;
		switch (type) {
		case TWIR_F32:
			memcpy((char *)d->at + i * 4, &f, 4);
			break;
		case TWIR_F64:
			memcpy((char *)d->at + i * 8, &g, 8);
			break;
		case TWIR_F16:
		case TWIR_BF16:
			h = type == TWIR_F16 ? tw_f32_to_f16(f) : tw_f32_to_bf16(f);
			memcpy((char *)d->at + i * 2, &h, 2);
			break;
		case TWIR_F8E4M3FN:
		case TWIR_F8E5M2:
			((uint8_t *)d->at)[i] = (uint8_t)twir_float_bits(type, (double)f);
			break;
		case TWIR_I1:
			((uint8_t *)d->at)[i] = r & 1;
			break;
		default:
			memcpy((char *)d->at + i * twir_scalar_bytes(type), &r, (size_t)twir_scalar_bytes(type));
		}
	}
}

struct set { /* one set of sizes, its data and the results expected of every stage */
	struct twir_binding binding;
	struct twir_data *data, *expected; /* expected: of out parameters; NULL before the first run */
};

struct stage {
	const struct support_case *c;
	struct tw_arena *a;
	struct twir_module *m;
	struct twir_program *p;
	struct set *sets;
	uint64_t seed;
};

static void prepare(struct stage *s, struct set *set, const int64_t *sizes)
{
	const struct support_case *c = s->c;
	struct twir_var **vars = ARENA_ARRAY(s->a, struct twir_var *, c->nsizes);
	for (int i = 0; i < c->nsizes; i++)
		vars[i] = twir_symbol(s->m, c->symbols[i]);
	set->binding = (struct twir_binding){c->nsizes, vars, sizes};
	set->data = ARENA_ARRAY(s->a, struct twir_data, s->p->nparams);
	uint64_t state = s->seed;
	for (int i = 0; i < s->p->nparams; i++) {
		const struct twir_tensor *t = s->p->params[i];
		char *limit = support_directive(s->a, c->text, arena_printf(s->a, "limit %s", t->name));
		const int64_t n = twir_eval_index(twir_tensor_elements(s->m, t), &set->binding);
		set->data[i] = (struct twir_data){arena_alloc(s->a, (size_t)(n * twir_scalar_bytes(t->type) + 16)), n};
		if (t->scope == TWIR_IN)
			fill(&set->data[i], t->type, limit ? atoll(limit) : 0, &state);
	}
}

static void compare(const struct stage *s, const struct set *set, const char *name, const struct twir_tensor *t, int i)
{
	const int size = twir_scalar_bytes(t->type);
	const uint8_t *got = set->data[i].at, *want = set->expected[i].at;
	for (int64_t k = 0; k < set->data[i].elements * size; k++) {
		if (got[k] == want[k])
			continue;
		struct tw_buf b;
		buf_init(&b, s->a);
		for (int v = 0; v < set->binding.n; v++)
			buf_printf(&b, " %s=%lld", set->binding.symbols[v]->name, (long long)set->binding.values[v]);
		tw_raise(TW_ERR_INTERNAL, "%s:%s: after %s element %lld of %s differs", s->c->name, b.at ? b.at : "",
			 name, (long long)(k / size), t->name);
	}
}

/* The program's text, parsed, is the program: it prints to the same bytes, and it is what runs. */
static const struct twir_program *reparse(struct stage *s, const char *name, const struct twir_program *p,
					  struct twir_module **m)
{
	const char *text = twir_print_program(s->a, s->m, p);
	if (s->c->dump)
		printf("--- %s\n%s", name, text);
	*m = twir_module_new(s->a);
	twir_parse(*m, name, text);
	const struct twir_program *again = (*m)->programs.at[0];
	if (strcmp(text, twir_print_program(s->a, *m, again)) != 0)
		tw_raise(TW_ERR_INTERNAL, "%s: after %s the text does not come back:\n%.4000s\n%.4000s", s->c->name,
			 name, text, twir_print_program(s->a, *m, again));
	return again;
}

static struct twir_binding binding_in(struct stage *s, struct twir_module *m, const struct twir_binding *b)
{
	struct twir_var **vars = ARENA_ARRAY(s->a, struct twir_var *, b->n);
	for (int i = 0; i < b->n; i++)
		vars[i] = twir_symbol(m, b->symbols[i]->name);
	return (struct twir_binding){b->n, vars, b->values};
}

static void run_stage(void *arg, const char *name, const struct twir_program *original)
{
	struct stage *s = arg;
	struct twir_module *m;
	const struct twir_program *p = reparse(s, name, original, &m);
	for (int n = 0; n < s->c->nsets; n++) {
		struct set *set = &s->sets[n];
		for (int i = 0; i < p->nparams; i++)
			if (p->params[i]->scope == TWIR_OUT) /* a pattern that shows elements left out */
				memset(set->data[i].at, 0xa5,
				       (size_t)(set->data[i].elements * twir_scalar_bytes(p->params[i]->type)));
		const struct twir_binding b = binding_in(s, m, &set->binding);
		twir_interpret(m, p, &b, set->data);
		for (int i = 0; set->expected && i < p->nparams; i++)
			if (p->params[i]->scope == TWIR_OUT)
				compare(s, set, name, p->params[i], i);
	}
}

static void differential(void *arg)
{
	struct stage *s = arg;
	twir_parse(s->m, s->c->name, s->c->text);
	s->p = s->m->programs.at[s->c->program];
	twir_verify_program(s->m, s->p, TW_ERR_MODEL);
	s->sets = ARENA_ARRAY(s->a, struct set, s->c->nsets);
	for (int n = 0; n < s->c->nsets; n++)
		prepare(s, &s->sets[n], s->c->sizes + (int64_t)n * s->c->nsizes);
	run_stage(s, "parsing", s->p);
	for (int n = 0; n < s->c->nsets; n++) {
		struct set *set = &s->sets[n];
		struct twir_data *expected = ARENA_ARRAY(s->a, struct twir_data, s->p->nparams);
		for (int i = 0; i < s->p->nparams; i++) {
			const size_t bytes = (size_t)(set->data[i].elements * twir_scalar_bytes(s->p->params[i]->type));
			expected[i] =
				(struct twir_data){arena_copy(s->a, set->data[i].at, bytes), set->data[i].elements};
		}
		set->expected = expected;
	}
	tw_lower(s->m, s->p, &s->c->target, run_stage, s);
}

bool support_differential(const struct support_case *c, uint64_t seed, struct tw_error *error)
{
	struct stage s = {.c = c, .a = arena_new(), .seed = seed};
	s.m = twir_module_new(s.a);
	const bool ok = tw_try(error, differential, &s);
	arena_free(s.a);
	return ok;
}
