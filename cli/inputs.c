/* Inputs of a run: from files, or made up. Input: arguments and a model; output: a tensor for each input of the model.
 * */
#include "cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void cli_free_tensors(int n, struct tensor *t)
{
	for (int i = 0; i < n; i++)
		cli_tensor_free(&t[i]);
	free(t);
}

static uint64_t next(uint64_t *state) /* splitmix64 */
{
	uint64_t x = *state += 0x9e3779b97f4a7c15u;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

static double uniform(uint64_t *state) /* in (0, 1] */
{
	return (double)((next(state) >> 11) + 1) * 0x1p-53;
}

static double normal(uint64_t *state)
{
	const double radius = sqrt(-2 * log(uniform(state)));
	return radius * cos(6.283185307179586 * uniform(state));
}

/* Rounding toward zero is as random as any. */
static uint16_t to_half(double x)
{
	int exponent;
	const double m = frexp(fabs(x), &exponent); /* m in [0.5, 1) */
	const uint16_t sign = signbit(x) ? 0x8000 : 0;
	if (x == 0 || exponent < -13)
		return sign;
	return (uint16_t)(sign | (uint16_t)(((exponent + 14) << 10) | ((int)(m * 2048) & 1023)));
}

void cli_fill(struct tensor *t, uint64_t seed, int number)
{
	seed += 0x100000001b3u * (uint64_t)number;
	const int64_t n = cli_tensor_elements(t->rank, t->dims);
	const int size = tilewright_type_bytes(t->type);
	for (int64_t i = 0; i < n; i++) {
		char *at = (char *)t->data + i * size;
		const double x = cli_type_is_float(t->type) ? normal(&seed) : 0;
		const float f = (float)x;
		uint64_t bits = next(&seed) % (t->type == TILEWRIGHT_BOOL		 ? 2
					       : size == 1 && cli_type_is_float(t->type) ? 120
											 : 10);
		if (t->type == TILEWRIGHT_F64)
			memcpy(&bits, &x, 8);
		else if (t->type == TILEWRIGHT_F32)
			memcpy(&bits, &f, 4);
		else if (t->type == TILEWRIGHT_F16)
			bits = to_half(x);
		else if (t->type == TILEWRIGHT_BF16) {
			uint32_t wide;
			memcpy(&wide, &f, 4);
			bits = wide >> 16;
		}
		memcpy(at, &bits, (size_t)size); /* little-endian machines */
	}
}

static int load_files(const struct args *a, const tilewright_model *m, struct tensor *t, struct problem *p)
{
	for (int i = 0; i < a->ninputs; i++) {
		const int k = tilewright_find_input(m, a->inputs[i].name);
		if (k < 0) {
			char names[1000] = "";
			for (int j = 0, at = 0; j < tilewright_count_inputs(m) && at < 900; j++)
				at += snprintf(names + at, sizeof(names) - (size_t)at, "%s%.80s", j ? ", " : "",
					       tilewright_get_input_port(m, j)->name);
			return problem_set(p, EXIT_INPUT, "the model has no input \"%s\"; it has: %s",
					   a->inputs[i].name, names);
		}
		const int code = cli_tensor_load(a->inputs[i].value, &t[k], p);
		if (code != EXIT_DONE)
			return code;
	}
	return EXIT_DONE;
}

static const char *next_letter(const char *c)
{
	while (*c && !(*c >= '0' && *c <= '9') && !(*c >= 'A' && *c <= 'Z') && !(*c >= 'a' && *c <= 'z'))
		c++;
	return c;
}

/* A model spells a size by letters, digits and _ only; in the file it may hold dots and spaces. */
static bool spelt_alike(const char *a, const char *b)
{
	for (;; a++, b++) {
		a = next_letter(a);
		b = next_letter(b);
		if (*a != *b || !*a)
			return *a == *b;
	}
}

/* The model's name for a size that -d gives; NULL: it has no such size. */
static const char *model_size(const struct args *a, const tilewright_model *m, const char *name)
{
	const int n = tilewright_count_symbols(m);
	for (int k = 0; k < n; k++)
		if (strcmp(tilewright_get_symbol(m, k), name) == 0)
			return name;
	for (int k = 0; k < a->fixed.n; k++)
		if (strcmp(a->fixed.at[k].symbol, name) == 0)
			return name;
	for (int k = 0; k < n; k++)
		if (spelt_alike(tilewright_get_symbol(m, k), name))
			return tilewright_get_symbol(m, k);
	return NULL;
}

/* Sizes that -d gives and the files have, by the dimension's text. */
static int gather_sizes(const struct args *a, const tilewright_model *m, const struct tensor *t, struct sizes *s,
			struct problem *p)
{
	*s = a->sizes;
	for (int i = 0; i < s->n; i++) {
		const char *name = model_size(a, m, s->at[i].symbol);
		if (!name) {
			char names[1000] = "";
			for (int k = 0, at = 0; k < tilewright_count_symbols(m) && at < 900; k++)
				at += snprintf(names + at, sizeof(names) - (size_t)at, "%s%.80s",
					       k ? ", " : "; it has: ", tilewright_get_symbol(m, k));
			return problem_set(p, EXIT_INPUT, "the model has no symbolic dimension \"%s\"%s",
					   s->at[i].symbol, names);
		}
		s->at[i].symbol = name;
	}
	for (int i = 0; i < tilewright_count_inputs(m); i++) {
		const tilewright_port *port = tilewright_get_input_port(m, i);
		for (int d = 0; t[i].data && t[i].rank == port->rank && d < port->rank; d++) {
			if (port->dims[d] >= 0)
				continue;
			int k = 0;
			while (k < s->n && strcmp(s->at[k].symbol, port->dim_text[d]) != 0)
				k++;
			if (k == s->n && k < COUNT(s->at)) {
				s->at[k].symbol = port->dim_text[d];
				s->at[s->n++].value = t[i].dims[d];
			} else if (k < s->n && s->at[k].value != t[i].dims[d]) {
				return problem_set(p, EXIT_INPUT, "input \"%s\": dimension %d is %lld, but %s is %lld",
						   port->name, d, (long long)t[i].dims[d], port->dim_text[d],
						   (long long)s->at[k].value);
			}
		}
	}
	return EXIT_DONE;
}

static bool has_size(const struct sizes *s, const char *symbol)
{
	for (int k = 0; k < s->n; k++)
		if (strcmp(s->at[k].symbol, symbol) == 0)
			return true;
	return false;
}

/* All sizes that inputs to be made up lack, as options: "-d height=N -d width=N" */
static int size_missing(const tilewright_model *m, const struct tensor *t, struct sizes s, const tilewright_port *port,
			int d, struct problem *p)
{
	char options[1000] = "";
	size_t used = 0;
	for (int i = 0; i < tilewright_count_inputs(m); i++) {
		const tilewright_port *other = tilewright_get_input_port(m, i);
		for (int k = 0; t[i].data == NULL && k < other->rank; k++) {
			const char *symbol = other->dim_text[k];
			if (other->dims[k] >= 0 || has_size(&s, symbol) || s.n == COUNT(s.at) || used > 800)
				continue;
			s.at[s.n++].symbol = symbol;
			used += (size_t)snprintf(options + used, sizeof(options) - used, "%s-d %.80s=N",
						 used ? " " : "", symbol);
		}
	}
	return problem_set(p, EXIT_INPUT, "input \"%s\": the size of dimension %d is not known: give it with %s",
			   port->name, d, options);
}

static int make_up(const struct args *a, const tilewright_model *m, int i, const struct sizes *s, struct tensor *all,
		   struct problem *p)
{
	const tilewright_port *port = tilewright_get_input_port(m, i);
	struct tensor *t = &all[i];
	t->type = port->type;
	t->rank = port->rank;
	for (int d = 0; d < port->rank; d++) {
		t->dims[d] = port->dims[d];
		for (int k = 0; k < s->n; k++)
			if (t->dims[d] < 0 && strcmp(s->at[k].symbol, port->dim_text[d]) == 0)
				t->dims[d] = s->at[k].value;
		if (t->dims[d] < 0)
			return size_missing(m, all, *s, port, d, p);
	}
	struct problem inner;
	const int code = cli_tensor_alloc(t, &inner);
	if (code != EXIT_DONE)
		return problem_set(p, code, "input \"%s\": %.2000s", port->name, inner.text);
	cli_fill(t, a->seed, i);
	return EXIT_DONE;
}

int cli_make_inputs(const struct args *a, const tilewright_model *m, bool random, struct tensor *t, struct problem *p)
{
	struct sizes s;
	int code = load_files(a, m, t, p);
	if (code == EXIT_DONE)
		code = gather_sizes(a, m, t, &s, p);
	for (int i = 0; code == EXIT_DONE && random && i < tilewright_count_inputs(m); i++)
		if (t[i].data == NULL)
			code = make_up(a, m, i, &s, t, p);
	return code;
}

int cli_set_inputs(tilewright_context *c, int n, const struct tensor *t, struct problem *p)
{
	for (int i = 0; i < n; i++) {
		if (t[i].data == NULL)
			continue; /* the run tells which is missing */
		const tilewright_status s = tilewright_set_input(c, i, t[i].type, t[i].rank, t[i].dims, t[i].data);
		if (s != TILEWRIGHT_OK)
			return problem_status(p, s);
	}
	return EXIT_DONE;
}
