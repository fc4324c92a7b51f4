/* rooms: base tmap target ir pass sched */
/* Scheduling and fusion against the definitions themselves: each case is a few compute definitions as text; the interpreter evaluates them one by one, and runs the
 * program that tw_schedule makes of them, before lowering and after it. Every point of a template's space must give the right numbers. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "pass/pass.h"
#include "sched/matmul.h"
#include "sched/nest.h"
#include "sched_cases.h"

struct store { /* values of tensors by name */
	int n;
	struct twir_tensor *tensor[32];
	struct twir_data data[32];
	int64_t shape[32][TWIR_MAX_RANK];
};

static uint64_t next_random(uint64_t *s)
{
	return *s = *s * 6364136223846793005u + 1442695040888963407u, *s >> 33;
}

static void add(struct store *s, struct tw_arena *a, struct twir_tensor *t, const struct twir_binding *b,
		uint64_t *seed)
{
	int64_t n = 1;
	for (int d = 0; d < t->rank; d++)
		n *= s->shape[s->n][d] = twir_eval_index(t->shape[d], b);
	const int bytes = twir_scalar_bytes(t->type);
	char *at = arena_alloc(a, (size_t)(n * bytes) + 64);
	for (int64_t i = 0; seed && i < n; i++) {
		const int64_t v = (int64_t)(next_random(seed) % 2001) - 1000;
		if (t->type == TWIR_F32)
			((float *)at)[i] = (float)v / 500;
		else if (t->type == TWIR_F64)
			((double *)at)[i] = (double)v / 500;
		else if (bytes == 8)
			((int64_t *)at)[i] = v / 300;
		else
			at[i] = (char)v;
	}
	s->tensor[s->n] = t;
	s->data[s->n++] = (struct twir_data){at, n};
}

static struct twir_data *find(struct store *s, const struct twir_tensor *t)
{
	for (int i = 0; i < s->n; i++)
		if (s->tensor[i] == t)
			return &s->data[i];
	return NULL;
}

static struct twir_compute *named(struct twir_module *m, const char *name, size_t n)
{
	for (int i = 0; i < m->computes.n; i++)
		if (strlen(m->computes.at[i]->out->name) == n && memcmp(m->computes.at[i]->out->name, name, n) == 0)
			return m->computes.at[i];
	fail_msg("no definition %.*s", (int)n, name);
	return NULL;
}

struct run {
	const struct sched_case *c;
	const int64_t *values;
	struct tw_target t;
	int point;   /* of the template; -1: the default, through tw_schedule */
	int points;  /* of the space, set when a point was run */
	int tile[2]; /* of the point: rows and vectors of the register tile */
	double worst;
	uint64_t text; /* hash of the lowered program's text, set by body */
};

static size_t bytes_of(const struct store *s, int i)
{
	return (size_t)(s->data[i].elements * twir_scalar_bytes(s->tensor[i]->type));
}

static void execute(struct twir_module *m, const struct tw_launch *l, struct store *got, const struct twir_binding *b)
{
	for (int k = 0; k < l->kernels.n; k++) {
		const struct tw_kernel *kernel = &l->kernels.at[k];
		struct twir_data data[16];
		for (int i = 0; i < kernel->nargs; i++) {
			if (!find(got, kernel->args[i])) { /* between two kernels */
				add(got, m->arena, kernel->args[i], b, NULL);
				memset(got->data[got->n - 1].at, 0xff, bytes_of(got, got->n - 1));
			}
			data[i] = *find(got, kernel->args[i]);
		}
		twir_interpret(m, kernel->program, b, data);
	}
}

static void compare(struct run *r, const struct twir_tensor *t, const struct twir_data *want,
		    const struct twir_data *got)
{
	for (int64_t i = 0; i < want->elements; i++) {
		if (t->type == TWIR_F64) {
			const double d = fabs(((double *)want->at)[i] - ((double *)got->at)[i]);
			r->worst = d > r->worst || isnan(d) ? d : r->worst;
			continue;
		}
		if (t->type != TWIR_F32) {
			const size_t bytes = (size_t)twir_scalar_bytes(t->type), off = (size_t)i * bytes;
			r->worst += memcmp((char *)want->at + off, (char *)got->at + off, bytes) != 0;
			continue;
		}
		const double x = ((float *)want->at)[i], y = ((float *)got->at)[i], d = fabs(x - y) / (1 + fabs(x));
		r->worst = d > r->worst || isnan(d) ? d : r->worst;
	}
}

/* What the launch wants computed of constants, by the definitions' own meaning. */
static void prepare(struct twir_module *m, struct tw_arena *a, const struct tw_launch *l, struct store *got,
		    const struct twir_binding *b)
{
	for (int i = 0; i < l->prepared.n; i++) {
		const int n = got->n;
		add(got, a, l->prepared.at[i]->out, b, NULL);
		const struct twir_env env = {n, got->tensor, got->data, (const int64_t(*)[TWIR_MAX_RANK])got->shape};
		twir_interpret_compute(m, l->prepared.at[i], b, &env, got->data[n]);
	}
}

/* Calls take(arg, name, length) for each of the names in a list apart by spaces. */
static void each_name(const char *list, void (*take)(void *arg, const char *name, size_t n), void *arg)
{
	while (list && *list) {
		const size_t n = strcspn(list, " ");
		take(arg, list, n);
		list += n + (list[n] == ' ');
	}
}

struct constants {
	const struct twir_module *m;
	struct tw_map map;
};

static void add_constant(void *arg, const char *name, size_t n)
{
	struct constants *c = arg;
	for (int i = 0; i < c->m->tensors.n; i++)
		if (strlen(c->m->tensors.at[i]->name) == n && memcmp(c->m->tensors.at[i]->name, name, n) == 0)
			map_set_ptr(&c->map, c->m->tensors.at[i], c);
}

struct producers {
	struct twir_module *m;
	struct tw_task *task;
};

static void add_producer(void *arg, const char *name, size_t n)
{
	struct producers *p = arg;
	p->task->producers[p->task->nproducers++] = named(p->m, name, n);
}

static void body(void *arg)
{
	struct run *r = arg;
	const struct sched_case *c = r->c;
	struct tw_arena *a = arena_new();
	struct twir_module *m = twir_module_new(a);
	twir_parse(m, c->name, c->text);
	struct twir_var *symbols[4];
	for (int i = 0; i < c->nsymbols; i++)
		symbols[i] = twir_symbol(m, c->symbols[i]);
	const struct twir_binding b = {c->nsymbols, symbols, r->values};
	struct store want = {0}, got = {0};
	uint64_t seed = 7;
	for (int i = 0; i < m->tensors.n; i++)
		if (m->tensors.at[i]->scope == TWIR_TENSOR)
			add(&want, a, m->tensors.at[i], &b, &seed);
	got = want;
	for (int i = 0; i < m->computes.n; i++) {
		struct twir_compute *d = m->computes.at[i];
		add(&got, a, d->out, &b, NULL);
		const int n = want.n;
		add(&want, a, d->out, &b, NULL);
		const struct twir_env env = {n, want.tensor, want.data, (const int64_t(*)[TWIR_MAX_RANK])want.shape};
		twir_interpret_compute(m, d, &b, &env, want.data[n]);
	}
	struct tw_task task = {.m = m, .name = "task", .anchor = named(m, c->anchor, strlen(c->anchor))};
	struct twir_compute *producers[4];
	struct constants constants = {.m = m};
	map_init(&constants.map, a);
	task.producers = producers;
	each_name(c->producers, add_producer, &(struct producers){m, &task});
	each_name(c->constants, add_constant, &constants);
	task.constants = &constants.map;
	task.consumer = c->consumer ? named(m, c->consumer, strlen(c->consumer)) : NULL;
	assert_string_equal(tw_schedule_name(&task, &r->t), c->schedule);
	struct tw_launch launch = {0};
	if (r->point < 0) {
		tw_schedule(&task, &r->t, &launch);
	} else {
		struct tw_space s = {0};
		tw_template_matmul.space(a, &r->t, &s);
		r->points = s.points.n;
		memcpy(r->tile, s.points.at[r->point].value, sizeof(r->tile));
		tw_schedule_point(&task, &r->t, &tw_template_matmul, &s.points.at[r->point], &launch);
	}
	const struct twir_compute *out = task.consumer ? task.consumer : task.anchor;
	if (getenv("TW_SHOW"))
		printf("%s\n", twir_print_program(a, m, launch.kernels.at[0].program));
	assert_int_equal(launch.prepared.n, c->prepared);
	prepare(m, a, &launch, &got, &b);
	execute(m, &launch, &got, &b);
	compare(r, out->out, find(&want, out->out), find(&got, out->out));
	r->text = 0;
	for (int k = 0; k < launch.kernels.n; k++) {
		tw_lower(m, launch.kernels.at[k].program, &r->t, NULL, NULL);
		const char *text = twir_print_program(a, m, launch.kernels.at[k].program);
		if (getenv("TW_SHOW"))
			printf("%s\n", text);
		r->text = tw_hash64(text, strlen(text), r->text);
	}
	memset(find(&got, out->out)->at, 0xff,
	       (size_t)(find(&got, out->out)->elements * twir_scalar_bytes(out->out->type)));
	execute(m, &launch, &got, &b);
	compare(r, out->out, find(&want, out->out), find(&got, out->out));
	arena_free(a);
}

static void check(struct run *r)
{
	struct tw_error e;
	r->worst = 0;
	if (!tw_try(&e, body, r))
		fail_msg("%s, lanes %d, point %d: %s", r->c->name, r->t.lanes, r->point, e.text);
	if (!(r->worst < 1e-5))
		fail_msg("%s, lanes %d, point %d: error %g", r->c->name, r->t.lanes, r->point, r->worst);
}

/* Caches so small that the sizes here fill them: bands, groups and turns over blocks of K all show. */
static struct tw_target target(enum tw_isa isa)
{
	struct tw_target t;
	memset(&t, 0, sizeof(t));
	tw_target_with_isa(&t, isa);
	t.l1_bytes = 4 << 10;
	t.l2_bytes = 32 << 10;
	return t;
}

static const enum tw_isa isas[] = {TW_ISA_AVX512, TW_ISA_AVX2, TW_ISA_GENERIC, TW_ISA_SCALAR};
static const enum tw_isa with_dot4[] = {TW_ISA_AVX512_VNNI};

static void every_case(void **state)
{
	(void)state;
	const char *only = getenv("TW_ONLY");
	for (int i = 0; i < TW_COUNT(cases); i++)
		for (int k = 0; k < (cases[i].words ? TW_COUNT(with_dot4) : TW_COUNT(isas)); k++)
			for (int v = 0; v < 3 && cases[i].values[v][0] >= 0 && !(v > 0 && cases[i].nsymbols == 0);
			     v++) {
				struct run r = {.c = &cases[i],
						.values = cases[i].values[v],
						.t = target(cases[i].words ? with_dot4[k] : isas[k]),
						.point = -1};
				if (!only || strcmp(only, cases[i].name) == 0)
					check(&r);
			}
}

enum { STRIDE = 11 }; /* of points tried where the loops are like those of the first matmul, of which all are */

/* Perturbation: any factors of the register tile give the right numbers, and other loops. (Where the number of rows is constant, balancing may make two
 * points the same.) */
static void every_point(void **state)
{
	(void)state;
	const char *only = getenv("TW_ONLY");
	int seen = 0;
	for (int i = 0; i < TW_COUNT(cases); i++) {
		if (strcmp(cases[i].schedule, "matmul") != 0 || (only && strcmp(only, cases[i].name) != 0))
			continue;
		const int stride = seen++ == 0 ? 1 : STRIDE;
		for (int k = 0; k < (cases[i].words ? TW_COUNT(with_dot4) : 2); k++) {
			uint64_t before = 0;
			int tile[2] = {0};
			for (int point = i % stride, end = STRIDE; point < end; point += stride) {
				struct run r = {.c = &cases[i],
						.values = cases[i].values[0],
						.t = target(cases[i].words ? with_dot4[k] : isas[k]),
						.point = point};
				check(&r);
				if (r.text == before && cases[i].nsymbols > 0 && cases[i].symbols[0][0] == 'M' &&
				    memcmp(tile, r.tile, sizeof(tile)) != 0)
					fail_msg("%s: point %d changes nothing in the loops", cases[i].name, point);
				before = r.text;
				memcpy(tile, r.tile, sizeof(tile));
				end = r.points;
			}
		}
	}
}

/* Rows of an unknown number, on two axes: every one from none to several tall tiles, by tiles of all heights, whole and lowered. */
static void heights(void *arg)
{
	struct run *r = arg;
	struct tw_arena *a = arena_new();
	struct twir_module *m = twir_module_new(a);
	const bool blocks = r->point == 0 && r->t.lanes == 16; /* of K, which then is long */
	r->t.l2_bytes = blocks ? 64 << 10 : r->t.l2_bytes;     /* one strip has one turn over K, more have two */
	const char *text = arena_printf(
		a,
		"symbol n, s; tensor A: f32[n, s, %d]; tensor B: f32[%d, 35]; tensor b: f32[35]; define C: f32[n * s, "
		"35] = (i, j) => sum(k < %d, A[i / s, i %% s, k] * B[k, j]); define Y: f32[n * s, 35] = (i, j) => C[i, "
		"j] + b[j];",
		blocks ? 400 : 12, blocks ? 400 : 12, blocks ? 400 : 12);
	twir_parse(m, "heights", text);
	struct constants constants = {.m = m};
	map_init(&constants.map, a);
	add_constant(&constants, "B", 1);
	const struct tw_task task = {.m = m,
				     .name = "task",
				     .anchor = named(m, "C", 1),
				     .consumer = named(m, "Y", 1),
				     .constants = &constants.map};
	struct tw_space s = {0};
	struct tw_launch launch = {0};
	struct mm_problem p;
	tw_template_matmul.space(a, &r->t, &s);
	assert_true(mm_match(&task, &r->t, &p));
	assert_int_equal(p.a.access, MM_DIRECT); /* (i / s) * s + i % s is i */
	struct mm_plan q;
	mm_plan_init(&q, &p, &s.points.at[r->point]);
	assert_true(!blocks || (q.outer == 2 && q.near == 1));
	tw_schedule_point(&task, &r->t, &tw_template_matmul, &s.points.at[r->point], &launch);
	r->points = s.points.n;
	const int tall = s.points.at[r->point].value[MM_ROWS];
	for (int lowered = 0; lowered < 2; lowered++) {
		for (int rows = 0; rows <= 3 * tall + 1; rows++) {
			struct twir_var *symbols[] = {twir_symbol(m, "n"), twir_symbol(m, "s")};
			const int n = rows > 3 && rows % 3 == 0 ? 3 : 1;
			const int64_t values[] = {n, rows / n};
			const struct twir_binding b = {2, symbols, values};
			struct store got = {0};
			uint64_t seed = 7;
			for (int i = 0; i < m->tensors.n; i++)
				if (m->tensors.at[i]->scope == TWIR_TENSOR)
					add(&got, a, m->tensors.at[i], &b, &seed);
			struct store want = got;
			for (int i = 0; i < 2; i++) {
				struct twir_compute *d = m->computes.at[i];
				const int at = want.n;
				add(&want, a, d->out, &b, NULL);
				add(&got, a, d->out, &b, NULL);
				const struct twir_env env = {at, want.tensor, want.data,
							     (const int64_t(*)[TWIR_MAX_RANK])want.shape};
				twir_interpret_compute(m, d, &b, &env, want.data[at]);
			}
			prepare(m, a, &launch, &got, &b);
			execute(m, &launch, &got, &b);
			compare(r, task.consumer->out, find(&want, task.consumer->out), find(&got, task.consumer->out));
			/* the definition is summed in order, in f32 */
			if (!(r->worst < (blocks ? 3e-5 : 1e-5)))
				fail_msg("%d rows, point %d: error %g", rows, r->point, r->worst);
		}
		if (!lowered)
			tw_lower(m, launch.kernels.at[0].program, &r->t, NULL, NULL);
	}
	arena_free(a);
}

static void every_height(void **state)
{
	(void)state;
	for (int k = 0; k < 2; k++)
		for (int point = 0, end = 1; point < end; point += point == 0 ? 6 : 18) {
			struct run r = {.t = target(isas[k]), .point = point};
			struct tw_error e;
			if (!tw_try(&e, heights, &r))
				fail_msg("lanes %d, point %d: %s", r.t.lanes, r.point, e.text);
			end = r.points;
		}
}

/* What the analytic model must see: padding, the chain of an accumulator, what a core item is worth. */
static void model(void **state)
{
	static const struct {
		int64_t m, n, k, padded, least_rows; /* columns at most, rows of a tile at least */
		int64_t items;			     /* at least */
	} shapes[] = {{128, 768, 768, 768, 6, 12},   {128, 768, 3072, 768, 6, 8}, {49, 24, 960, 32, 6, 1},
		      {3136, 80, 64, 80, 4, 4},	     {1, 1000, 1280, 1024, 1, 1}, {196, 1024, 256, 1024, 6, 8},
		      {1000, 2048, 512, 2048, 6, 32}};
	(void)state;
	for (int i = 0; i < TW_COUNT(shapes); i++) {
		struct tw_arena *a = arena_new();
		struct twir_module *m = twir_module_new(a);
		struct tw_target t;
		memset(&t, 0, sizeof(t));
		tw_target_with_isa(&t, TW_ISA_AVX512);
		t.l1_bytes = 48 << 10;
		t.l2_bytes = 2 << 20;
		const long long mm = shapes[i].m, nn = shapes[i].n, kk = shapes[i].k;
		twir_parse(m, "model",
			   arena_printf(a,
					"tensor A: f32[%lld, %lld]; tensor B: f32[%lld, %lld]; define C: f32[%lld, "
					"%lld] = (i, j) => "
					"sum(k < %lld, A[i, k] * B[k, j]);",
					mm, kk, kk, nn, mm, nn, kk));
		struct constants constants = {.m = m};
		map_init(&constants.map, a);
		add_constant(&constants, "B", 1);
		const struct tw_task task = {
			.m = m, .name = "task", .anchor = m->computes.at[0], .constants = &constants.map};
		struct tw_space s = {0};
		struct tw_launch launch = {0};
		struct mm_problem p;
		struct mm_plan q;
		tw_template_matmul.space(a, &t, &s);
		const struct tw_point *point = &s.points.at[tw_template_matmul.choose(&task, &t, &s)];
		assert_true(mm_match(&task, &t, &p));
		mm_plan_init(&q, &p, point);
		assert_true((nn + q.nr - 1) / q.nr * q.nr <= shapes[i].padded);
		assert_true(q.heights[q.nheights - 1] >= shapes[i].least_rows && q.tall * q.nv <= 30);
		assert_true(q.tall * q.nv >= 8 || mm * q.nv < 8);
		tw_schedule_point(&task, &t, &tw_template_matmul, point, &launch);
		const struct twir_binding none = {0};
		assert_true(twir_eval_index(launch.kernels.at[0].program->extents[0], &none) >= shapes[i].items);
		arena_free(a);
	}
}

/* A fold over an image whose channels lie last walks through it as it lies: as through one axis. */
static void fold_order(void **state)
{
	(void)state;
	struct tw_arena *a = arena_new();
	struct twir_module *m = twir_module_new(a);
	const struct twir_expr *w = twir_index(m, 10), *at[3];
	const struct twir_expr *shape[] = {twir_index(m, 24), twir_index(m, 6), w};
	const struct twir_expr *stride[] = {twir_index(m, 1), twir_mul(m, w, shape[0]), shape[0]};
	struct twir_tensor *rows = twir_tensor_new(m, "rows", TWIR_F32, 3, shape, TWIR_TENSOR);
	struct twir_tensor *last = twir_tensor_new(m, "last", TWIR_F32, 3, shape, TWIR_TENSOR);
	struct twir_var *axis[3];
	struct tw_nest n;
	last->layout = twir_layout_strides(m, 3, stride);
	for (int d = 0; d < 3; d++) {
		axis[d] = twir_var_new(m, TWIR_AXIS, twir_scalar_type(TWIR_INDEX), "k");
		at[d] = twir_var(m, axis[d]);
	}
	tw_nest_init(&n, m, 3, axis, shape, twir_load(m, last, 3, at));
	tw_nest_order_loads(&n, 16);
	assert_ptr_equal(twir_var(m, n.var[2]), n.place[0]);
	assert_ptr_equal(twir_var(m, n.var[0]), n.place[1]);
	tw_nest_merge(&n, NULL);
	assert_int_equal(n.rank, 1);
	tw_nest_init(&n, m, 3, axis, shape, twir_load(m, rows, 3, at));
	tw_nest_order_loads(&n, 16);
	for (int d = 0; d < 3; d++)
		assert_ptr_equal(twir_var(m, n.var[d]), n.place[d]);
	arena_free(a);
}

/* A tensor of a sound's windows, whose number a symbol of middling value makes zero: channels that lie last still are the last axis. */
static void order_of_symbols(void **state)
{
	(void)state;
	struct tw_arena *a = arena_new();
	struct twir_module *m = twir_module_new(a);
	const struct twir_expr *n = twir_var(m, twir_symbol(m, "n")), *s = twir_var(m, twir_symbol(m, "s")), *at[3];
	const struct twir_expr *windows = twir_sub(m, twir_div(m, s, twir_index(m, 128)), twir_index(m, 1));
	const struct twir_expr *shape[] = {n, twir_index(m, 129), windows};
	const struct twir_expr *stride[] = {twir_mul(m, windows, shape[1]), twir_index(m, 1), shape[1]};
	struct twir_tensor *t = twir_tensor_new(m, "t", TWIR_F32, 3, shape, TWIR_TENSOR);
	struct twir_var *axis[3];
	struct tw_nest nest;
	t->layout = twir_layout_strides(m, 3, stride);
	for (int d = 0; d < 3; d++) {
		axis[d] = twir_var_new(m, TWIR_AXIS, twir_scalar_type(TWIR_INDEX), "k");
		at[d] = twir_var(m, axis[d]);
	}
	tw_nest_init(&nest, m, 3, axis, shape, twir_load(m, t, 3, at));
	tw_nest_order(&nest, t);
	assert_ptr_equal(twir_var(m, nest.var[0]), nest.place[0]);
	assert_ptr_equal(twir_var(m, nest.var[1]), nest.place[2]);
	assert_ptr_equal(twir_var(m, nest.var[2]), nest.place[1]);
	arena_free(a);
}

/* An open image whose channels lie last, read as rows of pixels: what lies side by side is across the last axis. */
static void across_symbols(void **state)
{
	(void)state;
	struct tw_arena *a = arena_new();
	struct twir_module *m = twir_module_new(a);
	const struct twir_expr *s = twir_var(m, twir_symbol(m, "s")), *two = twir_index(m, 2);
	const struct twir_expr *w = twir_div(m, twir_add(m, s, twir_index(m, 1)), two);
	const struct twir_expr *image[] = {twir_index(m, 32), w, w}, *shape[] = {image[0], twir_mul(m, w, w)};
	const struct twir_expr *stride[] = {twir_index(m, 1), twir_mul(m, w, image[0]), image[0]};
	struct twir_tensor *t = twir_tensor_new(m, "t", TWIR_F32, 3, image, TWIR_TENSOR);
	struct twir_var *axis[2];
	struct tw_nest nest;
	t->layout = twir_layout_strides(m, 3, stride);
	for (int d = 0; d < 2; d++)
		axis[d] = twir_var_new(m, TWIR_AXIS, twir_scalar_type(TWIR_INDEX), "k");
	const struct twir_expr *pixel = twir_var(m, axis[1]);
	const struct twir_expr *at[] = {twir_var(m, axis[0]), twir_div(m, pixel, w), twir_mod(m, pixel, w)};
	tw_nest_init(&nest, m, 2, axis, shape, twir_load(m, t, 3, at));
	assert_int_equal(tw_nest_across(&nest), 0);
	arena_free(a);
}

/* The core items of the rule-based schedule for a definition in the module, with n = 1. */
static int64_t items(struct twir_module *m, const char *text)
{
	struct tw_target t;
	memset(&t, 0, sizeof(t));
	tw_target_with_isa(&t, TW_ISA_AVX512);
	twir_parse(m, "model", text);
	const struct twir_program *p = tw_rule_schedule(m, "task", m->computes.at[0], &t);
	const int64_t one = 1;
	const struct twir_binding b = {m->symbols.n, m->symbols.at, &one};
	return twir_eval_index(p->extents[0], &b);
}

/* Sizes that a symbol is a factor of are as long as the others make them: an item does as much as with all sizes known. */
static void items_of_symbols(void **state)
{
	(void)state;
	struct tw_arena *a = arena_new();
	int64_t n[2];
	for (int i = 0; i < 2; i++)
		n[i] = items(
			twir_module_new(a),
			arena_printf(a,
				     "%s tensor A: f32[%s, 50000, 1]; tensor B: f32[%s, 50000, 1]; "
				     "define C: f32[%s, 50000, 2] = (n, i, j) => j < 1 ? A[n, i, 0] : B[n, i, j - 1];",
				     i ? "symbol s;" : "", i ? "s" : "1", i ? "s" : "1", i ? "s" : "1"));
	assert_int_equal(n[1], n[0]);
	arena_free(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(every_case),     cmocka_unit_test(every_point),
					   cmocka_unit_test(every_height),   cmocka_unit_test(model),
					   cmocka_unit_test(fold_order),     cmocka_unit_test(order_of_symbols),
					   cmocka_unit_test(across_symbols), cmocka_unit_test(items_of_symbols)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
