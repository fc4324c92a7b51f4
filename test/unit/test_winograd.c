/* rooms: base tmap target ir pass sched */
/* The Winograd template: its matrices against the correlation they stand for, and its programs, in both forms, before and after lowering, against the convolution
 * summed in double precision. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "pass/pass.h"
#include "sched/winograd_int.h"

static double next_number(uint64_t *s)
{
	*s = *s * 6364136223846793005u + 1442695040888963407u;
	return (double)(*s >> 40) / (1 << 23) - 1;
}

static void matrices(void **state)
{
	(void)state;
	uint64_t seed = 3;
	for (int r = 1; r <= 7; r++)
		for (int m = 1; m + r - 1 <= TW_WINOGRAD_MOST; m++) {
			struct tw_winograd_axis a;
			if (r == 1 && m > 1)
				continue;
			tw_winograd_axis(m, r, &a);
			double d[TW_WINOGRAD_MOST], g[TW_WINOGRAD_MOST], y[TW_WINOGRAD_MOST] = {0};
			for (int i = 0; i < a.n; i++)
				d[i] = next_number(&seed);
			for (int k = 0; k < r; k++)
				g[k] = next_number(&seed);
			for (int e = 0; e < a.n; e++) {
				double u = 0, v = 0;
				for (int k = 0; k < r; k++)
					u += a.filter[e][k] * g[k];
				for (int i = 0; i < a.n; i++)
					v += a.input[e][i] * d[i];
				for (int i = 0; i < m; i++)
					y[i] += a.output[i][e] * u * v;
			}
			for (int i = 0; i < m; i++) {
				double want = 0;
				for (int k = 0; k < r; k++)
					want += d[i + k] * g[k];
				if (!(fabs(want - y[i]) < 1e-10))
					fail_msg("F(%d, %d): output %d is %g, not %g", m, r, i, y[i], want);
			}
		}
}

struct shape {
	int images, c, co, h, w, kh, kw, top, bottom, left, right;
};

static const struct shape shapes[] = {
	{1, 16, 32, 8, 8, 3, 3, 1, 1, 1, 1},  {2, 19, 33, 7, 11, 3, 3, 1, 1, 1, 1}, {1, 16, 24, 9, 6, 3, 3, 0, 0, 0, 0},
	{1, 17, 16, 5, 13, 1, 7, 0, 0, 3, 3}, {1, 16, 17, 13, 5, 7, 1, 3, 3, 0, 0}, {1, 8, 40, 9, 10, 5, 5, 2, 2, 2, 2},
	{1, 16, 16, 2, 2, 3, 3, 1, 1, 1, 1},  {3, 16, 70, 6, 5, 3, 3, 2, 0, 0, 2},
};

struct run {
	const struct shape *s;
	struct tw_target t;
	int point;
	bool symbols, last, blocked;
	double worst;
};

/* Definitions of the convolution, as Conv lowers it; Y adds one to each sum. Channels are innermost in memory. */
static const char *definitions(struct tw_arena *a, const struct run *r, int oh, int ow)
{
	const struct shape *s = r->s;
	const char *h = r->symbols ? "H" : arena_printf(a, "%d", s->h),
		   *w = r->symbols ? "W" : arena_printf(a, "%d", s->w);
	const char *q = r->symbols ? arena_printf(a, "(H + %d)", oh - s->h) : arena_printf(a, "%d", oh);
	const char *v = r->symbols ? arena_printf(a, "(W + %d)", ow - s->w) : arena_printf(a, "%d", ow);
	return arena_printf(
		a,
		"%stensor X: f32[%d, %d, %s, %s] layout strides(%s * %s * %d, 1, %s * %d, %d);\n"
		"tensor F: f32[%d, %d, %d, %d];\n"
		"define P: f32[%d, %d, %s * %s] = (n, m, p) => sum(a < %d, b < %d, c < %d, F[m, c, a, b] * "
		"(p / %s + a - %d >= 0 and p / %s + a - %d < %s and p %% %s + b - %d >= 0 and p %% %s + b - %d < %s ? "
		"X[n, c, p / %s + a - %d, p %% %s + b - %d] : 0.0));\n"
		"define Y: f32[%d, %d, %s, %s] = (n, m, y, x) => P[n, m, y * %s + x] + 1.0;\n",
		r->symbols ? "symbol H, W;\n" : "", s->images, s->c, h, w, h, w, s->c, w, s->c, s->c, s->co, s->c,
		s->kh, s->kw, s->images, s->co, q, v, s->kh, s->kw, s->c, v, s->top, v, s->top, h, v, s->left, v,
		s->left, w, v, s->top, v, s->left, s->images, s->co, q, v, v);
}

static double direct(const struct shape *s, const float *x, const float *f, int n, int m, int y, int z)
{
	double sum = 1;
	for (int a = 0; a < s->kh; a++)
		for (int b = 0; b < s->kw; b++) {
			const int h = y + a - s->top, w = z + b - s->left;
			if (h < 0 || h >= s->h || w < 0 || w >= s->w)
				continue;
			for (int c = 0; c < s->c; c++)
				sum += (double)x[((n * s->h + h) * s->w + w) * s->c + c] *
				       f[((m * s->c + c) * s->kh + a) * s->kw + b];
		}
	return sum;
}

struct store {
	int n;
	struct twir_tensor *tensor[16];
	struct twir_data data[16];
};

static struct twir_data *data_of(struct store *s, struct tw_arena *a, struct twir_tensor *t,
				 const struct twir_binding *b)
{
	for (int i = 0; i < s->n; i++)
		if (s->tensor[i] == t)
			return &s->data[i];
	int64_t n = 1;
	for (int d = 0; d < t->rank; d++)
		n *= twir_eval_index(t->shape[d], b);
	s->tensor[s->n] = t;
	s->data[s->n] = (struct twir_data){arena_alloc(a, (size_t)n * 4 + 64), n};
	return &s->data[s->n++];
}

static void execute(struct run *r, struct twir_module *m, struct tw_launch *l, struct store *s, bool lower,
		    const struct twir_binding *b)
{
	for (int k = 0; k < l->kernels.n; k++) {
		struct tw_kernel *kernel = &l->kernels.at[k];
		struct twir_data data[16];
		for (int i = 0; i < kernel->nargs; i++)
			data[i] = *data_of(s, m->arena, kernel->args[i], b);
		if (lower)
			tw_lower(m, kernel->program, &r->t, NULL, NULL);
		twir_interpret(m, kernel->program, b, data);
	}
}

static void body(void *arg)
{
	struct run *r = arg;
	const struct shape *s = r->s;
	struct tw_arena *a = arena_new();
	struct twir_module *m = twir_module_new(a);
	const int oh = s->h + s->top + s->bottom - s->kh + 1, ow = s->w + s->left + s->right - s->kw + 1;
	twir_parse(m, "conv", definitions(a, r, oh, ow));
	struct twir_var *symbols[] = {twir_symbol(m, "H"), twir_symbol(m, "W")};
	const int64_t values[] = {s->h, s->w};
	const struct twir_binding b = {2, symbols, values};
	struct twir_compute *p = m->computes.at[0], *y = m->computes.at[1];
	struct tw_map constants;
	map_init(&constants, a);
	map_set_ptr(&constants, m->tensors.at[1], &constants);
	/* Y's axes in memory: channels innermost */
	const struct twir_expr **strides = ARENA_ARRAY(a, const struct twir_expr *, 4);
	const int64_t step[] = {(int64_t)oh * ow * s->co, 1, (int64_t)ow * s->co, s->co};
	for (int d = 0; d < 4; d++)
		strides[d] = twir_index(m, step[d]);
	if (r->symbols) {
		strides[2] = twir_mul(m, y->out->shape[3], twir_index(m, s->co));
		strides[0] = twir_mul(m, y->out->shape[2], strides[2]);
	}
	struct twir_layout *channels_last = ARENA_NEW(a, struct twir_layout);
	*channels_last = (struct twir_layout){.kind = TWIR_LAYOUT_STRIDES, .rank = 4};
	memcpy(channels_last->extent, strides, sizeof(*strides) * 4);
	y->out->layout = channels_last;

	struct tw_task task = {.m = m, .name = "conv", .anchor = p, .consumer = y, .constants = &constants};
	struct tw_winograd w;
	struct tw_space space = {0};
	struct tw_launch launch = {0};
	if (!tw_winograd_match(&task, &w))
		tw_raise(TW_ERR_INTERNAL, "not matched");
	tw_template_winograd.space(a, &r->t, &space);
	r->last = r->point + 1 >= space.points.n;
	tw_schedule_point(&task, &r->t, &tw_template_winograd, &space.points.at[r->point], &launch);
	r->blocked = launch.kernels.n == 1;

	struct store all = {0};
	uint64_t seed = 11;
	for (int i = 0; i < 2; i++) {
		struct twir_data *d = data_of(&all, a, m->tensors.at[i], &b);
		for (int64_t k = 0; k < d->elements; k++)
			((float *)d->at)[k] = (float)next_number(&seed);
	}
	for (int i = 0; i < launch.prepared.n; i++) {
		struct twir_compute *c = launch.prepared.at[i];
		const struct twir_data out = *data_of(&all, a, c->out, &b);
		int64_t sizes[16][TWIR_MAX_RANK];
		for (int t = 0; t < all.n; t++)
			for (int d = 0; d < all.tensor[t]->rank; d++)
				sizes[t][d] = twir_eval_index(all.tensor[t]->shape[d], &b);
		const struct twir_env env = {all.n, all.tensor, all.data, (const int64_t(*)[TWIR_MAX_RANK])sizes};
		twir_interpret_compute(m, c, &b, &env, out);
	}
	const float *x = data_of(&all, a, m->tensors.at[0], &b)->at, *f = data_of(&all, a, m->tensors.at[1], &b)->at;
	for (int lowered = 0; lowered < 2; lowered++) {
		float *got = data_of(&all, a, y->out, &b)->at;
		memset(got, 0xff, (size_t)data_of(&all, a, y->out, &b)->elements * 4);
		execute(r, m, &launch, &all, lowered, &b);
		double most = 1e-30, worst = 0;
		for (int n = 0; n < s->images; n++)
			for (int c = 0; c < s->co; c++)
				for (int i = 0; i < oh; i++)
					for (int j = 0; j < ow; j++) {
						const double want = direct(s, x, f, n, c, i, j);
						const double d = fabs(want - got[((n * oh + i) * ow + j) * s->co + c]);
						most = fmax(most, fabs(want));
						worst = d > worst || isnan(d) ? d : worst;
					}
		r->worst = fmax(r->worst, worst / most);
	}
	arena_free(a);
}

static void programs(void **state)
{
	(void)state;
	static const enum tw_isa isas[] = {TW_ISA_AVX512, TW_ISA_AVX2};
	int blocked = 0, staged = 0;
	for (int i = 0; i < TW_COUNT(shapes); i++)
		for (int v = 0; v < (i % 3 ? 2 : 4); v++) { /* symbols too */
			struct run r = {.s = &shapes[i], .symbols = v / 2};
			struct tw_error e;
			tw_target_host(&r.t);
			tw_target_with_isa(&r.t, isas[i % 2]);
			r.t.l2_bytes = v % 2 ? 8 << 10 : 2 << 20; /* a small cache asks for blocks */
			for (; !r.last; r.point++) {
				r.worst = 0;
				if (!tw_try(&e, body, &r))
					fail_msg("shape %d, point %d, cache %d: %s", i, r.point, v, e.text);
				if (!(r.worst < 2e-5))
					fail_msg("shape %d, point %d, cache %d: error %g", i, r.point, v, r.worst);
				blocked += r.blocked;
				staged += !r.blocked;
			}
		}
	assert_true(blocked > 5 && staged > 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(matrices), cmocka_unit_test(programs)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
