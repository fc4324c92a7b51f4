/* diagnose_trial: runs a program at a few small sizes in the interpreter, on data made up here. What it finds is
 * certain, with the sizes as the proof; what it does not find may still be wrong at others. Sizes keep to the facts of
 * the symbols; each run has a limited number of steps. */
#include <stdio.h>

#include "ir/diagnose_int.h"
#include "ir/interpret_int.h"

#define TRIALS	 6
#define STEPS	 ((int64_t)1500000) /* of one run */
#define BUDGET	 ((int64_t)4000000) /* of all: a fifth of a second */
#define BYTES	 ((int64_t)1 << 26)
#define ELEMENTS ((int64_t)1 << 20) /* of all parameters */

struct trial {
	struct twird *d;
	int number;
	int64_t steps, taken; /* that it may take, that it took */
	int64_t tile;	      /* the largest number by which the launch divides, within reason */
	struct tw_arena *arena;
	int64_t values[64];
	struct twir_binding b;
	struct twir_data data[64];
	struct twir_diagnostic fault;
	bool fits; /* there are such sizes */
};

/* Sizes that programs get wrong: one, odd and distinct ones, one more than a tile, a tile, none. */
static int64_t size_for(const struct trial *t, const struct twir_var *v, int i)
{
	const int64_t want[TRIALS] = {1, 5 + 2 * i, 17 + 2 * i, t->tile + 1 + i, t->tile, 0};
	const int64_t m = v->multiple > 1 ? v->multiple : 1;
	int64_t n = want[t->number];
	n = n < v->lo ? v->lo : n;
	n = n > v->hi ? v->hi : n;
	if (n % m != 0)
		n = n > INT64_MAX - m ? n : (n / m + 1) * m;
	if (n > v->hi)
		n -= m;
	return n;
}

static void find_tile(void *arg, const struct twir_expr *e)
{
	struct trial *t = arg;
	int64_t c;
	if ((e->kind == TWIR_Ceildiv || e->kind == TWIR_Div) && twir_const_int(e->arg[1], &c) && c > t->tile &&
	    c <= 256)
		t->tile = c;
}

static void fill(const struct twir_tensor *t, void *at, int64_t elements)
{
	uint32_t seed = t->id * 2654435761u + 12345;
	for (int64_t k = 0; k < elements && (t->type == TWIR_F32 || t->type == TWIR_F64); k++) {
		seed = seed * 1664525u + 1013904223u;
		const float x = (float)(int)(seed >> 24) / 64 - 2;
		if (t->type == TWIR_F32)
			((float *)at)[k] = x;
		else
			((double *)at)[k] = x;
	}
}

static void prepare(void *arg)
{
	struct trial *t = arg;
	const struct twir_program *p = t->d->p;
	int64_t total = 0;
	for (int i = 0; i < p->nsymbols; i++) {
		const struct twir_var *v = p->symbols[i];
		t->values[i] = size_for(t, v, i);
		if (t->values[i] < v->lo || t->values[i] > v->hi)
			return;
	}
	t->b = (struct twir_binding){p->nsymbols, p->symbols, t->values};
	for (int k = 0; k < p->nparams; k++) {
		const struct twir_tensor *x = p->params[k];
		if (t->number == TRIALS - 1 && x->scope == TWIR_IN && twir_is_int(x->type))
			return; /* numbers that may be indices into nothing */
		for (int i = 0; i < x->rank; i++)
			if (twir_eval_index(x->shape[i], &t->b) < 0)
				return;
		const int64_t n = twir_eval_index(twir_tensor_elements(t->d->m, x), &t->b);
		total += n < 0 || n > ELEMENTS ? ELEMENTS : n;
		if (total > ELEMENTS)
			return;
		t->data[k] = (struct twir_data){arena_alloc_array(t->arena, (size_t)twir_scalar_bytes(x->type), n), n};
		fill(x, t->data[k].at, n);
		for (int in = 0; in < k && t->number == 1; in++)
			if (x->alias == p->params[in] && t->data[in].elements == n)
				t->data[k] = t->data[in];
	}
	t->fits = true;
}

static void run(void *arg)
{
	struct trial *t = arg;
	const struct twir_limits limits = {t->steps, BYTES};
	twiri_try(t->d->m, t->d->p, &t->b, t->data, &limits, &t->fault, t->d->arena, &t->taken);
}

static void tell(struct trial *t)
{
	struct twird *d = t->d;
	char sizes[200] = "";
	size_t used = 0;
	for (int i = 0; i < t->b.n && used < sizeof(sizes) - 60; i++)
		used += (size_t)snprintf(sizes + used, sizeof(sizes) - used, "%s%.40s = %lld", i ? ", " : "",
					 t->b.symbols[i]->base, (long long)t->values[i]);
	for (int i = 0; i < d->list.n; i++) /* the same at other sizes */
		if (d->list.at[i].line == t->fault.line && d->list.at[i].column == t->fault.column)
			return;
	if (t->b.n)
		t->fault.text = arena_printf(d->arena, "%s (with %s)", t->fault.text, sizes);
	vec_push(d->arena, &d->list, t->fault);
}

void twird_trial(struct twird *d)
{
	if (d->p->nparams > 64 || d->p->nsymbols > 64)
		return;
	int64_t tile = 4, left = BUDGET;
	for (int number = 0; number < TRIALS && left > 0; number++) {
		struct trial t = {.d = d,
				  .number = number,
				  .steps = left < STEPS ? left : STEPS,
				  .tile = tile,
				  .arena = arena_new()};
		struct tw_error e;
		for (int i = 0; i < d->p->nlevels && number == 0; i++)
			twir_visit_expr(d->p->extents[i], find_tile, &t);
		tile = t.tile;
		const bool ready = tw_try(&e, prepare, &t) && t.fits;
		if (ready && !tw_try(&e, run, &t) && t.fault.text)
			tell(&t);
		left -= t.taken;
		arena_free(t.arena);
		if (d->p->nsymbols == 0)
			return;
	}
}
