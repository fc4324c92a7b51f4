/* interpret: runs programs and compute definitions as ir.h defines them. Sets up tensors and workers, then runs the
 * code: on a CPU one frame for each core item in turn, on a GPU one frame for each thread of a block, in step from
 * barrier to barrier. */
#include "ir/interpret_int.h"

#define MAX_BYTES ((int64_t)1 << 31)
#define GPU_WARP  32 /* lanes of a warp where the program launches threads alone */

struct job {
	struct twiri_machine x;
	const struct twir_data *params;
	const struct twir_env *inputs;
	struct twir_data out;
};

static void fill_levels(struct twiri_machine *x)
{
	const struct twir_program *p = x->program;
	for (int l = 0; l < TWIR_LEVELS; l++)
		x->extent[l] = -1;
	for (int k = 0; k < p->nlevels; k++) {
		const int64_t n = twir_eval_index(p->extents[k], x->binding);
		if (n < 0 || (p->levels[k] != TWIR_CORE && p->levels[k] != TWIR_BLOCK && n > 4096))
			twiri_fail(x, NULL, NULL, "%lld workers of level %s are launched", (long long)n,
				   twir_level_name(p->levels[k]));
		x->extent[p->levels[k]] = n;
	}
	x->gpu = x->extent[TWIR_BLOCK] >= 0;
	if (!x->gpu) {
		if (x->extent[TWIR_CORE] < 0)
			x->extent[TWIR_CORE] = 1;
		if (x->extent[TWIR_WARP] >= 0 || x->extent[TWIR_THREAD] >= 0)
			twiri_fail(x, NULL, NULL, "warps and threads without blocks");
		return;
	}
	if (x->extent[TWIR_THREAD] < 0) {
		if (x->extent[TWIR_LANE] < 0)
			x->extent[TWIR_LANE] = 1;
		if (x->extent[TWIR_WARP] < 0)
			x->extent[TWIR_WARP] = 1;
		x->extent[TWIR_THREAD] = x->extent[TWIR_WARP] * x->extent[TWIR_LANE];
	} else {
		if (x->extent[TWIR_LANE] < 0)
			x->extent[TWIR_LANE] = x->extent[TWIR_THREAD] < GPU_WARP ? x->extent[TWIR_THREAD] : GPU_WARP;
		if (x->extent[TWIR_LANE] < 1)
			x->extent[TWIR_LANE] = 1;
		x->extent[TWIR_WARP] = (x->extent[TWIR_THREAD] + x->extent[TWIR_LANE] - 1) / x->extent[TWIR_LANE];
	}
	if (x->extent[TWIR_THREAD] > 4096)
		twiri_fail(x, NULL, NULL, "%lld threads in a block", (long long)x->extent[TWIR_THREAD]);
}

static void new_frame(struct twiri_machine *x, struct twiri_frame *f)
{
	f->s = ARENA_ARRAY(x->arena, union twiri_slot, x->nslots);
	f->t = ARENA_ARRAY(x->arena, struct twiri_tensor *, x->tensor_of.n);
	for (int k = 0; k < x->tensor_of.n; k++) {
		f->t[k] = x->tensors[k];
		if (x->gpu && x->tensor_of.at[k]->scope == TWIR_REGISTER)
			f->t[k] = ARENA_NEW(x->arena, struct twiri_tensor);
	}
}

static void start_frame(struct twiri_machine *x, struct twiri_frame *f)
{
	memcpy(f->s, x->first, sizeof(*f->s) * (size_t)x->nslots);
	f->pc = 0;
	f->status = TWIRI_RUNNING;
	f->who = f->warp = f->warp_phase = 0;
	f->groups = f->flights.n = 0;
}

static void run_cores(struct twiri_machine *x)
{
	struct twiri_frame f = {0};
	new_frame(x, &f);
	for (int64_t core = 0; core < x->extent[TWIR_CORE]; core++) {
		start_frame(x, &f);
		f.s[x->worker_slot[TWIR_CORE]].i = core;
		f.s[x->worker_slot[TWIR_LANE]].i = -1;
		x->serial++;
		x->phase++;
		twiri_run(x, &f);
	}
}

/* Releases the threads [from, to) if all of them wait at one barrier of the level. */
static bool release(struct twiri_frame *f, int64_t from, int64_t to, enum twir_level level)
{
	for (int64_t t = from; t < to; t++)
		if (f[t].status != TWIRI_AT_BARRIER || f[t].at_level != (int)level || f[t].pc != f[from].pc)
			return false;
	for (int64_t t = from; t < to; t++)
		f[t].status = TWIRI_RUNNING;
	return true;
}

/* Lanes of one warp that wait at one shuffle or matrix instruction run it. */
static bool meet(struct twiri_machine *x, struct twiri_frame *f, int64_t from, int64_t to)
{
	for (int64_t t = from; t < to; t++)
		if (f[t].status != TWIRI_AT_WARP || f[t].pc != f[from].pc)
			return false;
	twiri_warp(x, &f[from], (int)(to - from));
	for (int64_t t = from; t < to; t++) {
		f[t].status = TWIRI_RUNNING;
		f[t].pc++;
	}
	return true;
}

_Noreturn static void fail_waiting(struct twiri_machine *x, const struct twiri_frame *f, int64_t threads, int64_t block)
{
	const struct twir_stmt *at = NULL;
	const char *what = "a barrier is not reached by all threads";
	for (int64_t t = 0; t < threads; t++) {
		const struct twiri_ins *in = &x->code.at[f[t].pc]; /* of a barrier: the one before */
		if (f[t].status == TWIRI_AT_WARP) {
			at = in->op == OP_MMA ? x->accesses.at[x->matrices.at[in->a].access[0]].stmt
					      : x->meetings.at[in->c];
			what = in->op == OP_MMA ? "a matrix instruction is not reached by all lanes of a warp"
						: "a shuffle is not reached by all lanes of a warp";
			break;
		}
		if (f[t].status == TWIRI_AT_BARRIER)
			at = x->meetings.at[in[-1].b];
	}
	twiri_fail(x, at, NULL, "%s of block %lld", what, (long long)block);
}

static bool release_any(struct twiri_machine *x, struct twiri_frame *f)
{
	const int64_t threads = x->extent[TWIR_THREAD], lanes = x->extent[TWIR_LANE];
	if (release(f, 0, threads, TWIR_BLOCK)) {
		x->phase++;
		for (int64_t t = 0; t < threads; t++)
			f[t].warp_phase = 0;
		return true;
	}
	bool any = false;
	for (int64_t from = 0; from < threads; from += lanes) {
		const int64_t to = from + lanes < threads ? from + lanes : threads;
		if (meet(x, f, from, to)) {
			any = true;
			continue;
		}
		if (!release(f, from, to, TWIR_WARP))
			continue;
		any = true;
		for (int64_t t = from; t < to; t++)
			f[t].warp_phase++;
	}
	return any;
}

static void run_block(struct twiri_machine *x, struct twiri_frame *f, int64_t block)
{
	const int64_t threads = x->extent[TWIR_THREAD], lanes = x->extent[TWIR_LANE];
	x->serial++;
	x->phase++;
	for (int64_t t = 0; t < threads; t++) {
		start_frame(x, &f[t]);
		f[t].s[x->worker_slot[TWIR_BLOCK]].i = block;
		f[t].s[x->worker_slot[TWIR_THREAD]].i = t;
		f[t].s[x->worker_slot[TWIR_WARP]].i = t / lanes;
		f[t].s[x->worker_slot[TWIR_LANE]].i = t % lanes;
		f[t].who = (uint16_t)t;
		f[t].warp = (uint16_t)(t / lanes);
	}
	for (;;) {
		int64_t done = 0;
		for (int64_t t = 0; t < threads; t++) {
			if (f[t].status == TWIRI_RUNNING)
				twiri_run(x, &f[t]);
			done += f[t].status == TWIRI_DONE;
		}
		if (done == threads)
			return;
		if (!release_any(x, f))
			fail_waiting(x, f, threads, block);
	}
}

static void run_blocks(struct twiri_machine *x)
{
	const int64_t threads = x->extent[TWIR_THREAD];
	if (threads * x->nslots * (int64_t)sizeof(union twiri_slot) > x->bytes)
		twiri_fail(x, NULL, NULL, "%lld threads are too many for a program of this size", (long long)threads);
	struct twiri_frame *f = ARENA_ARRAY(x->arena, struct twiri_frame, threads);
	for (int64_t t = 0; t < threads; t++)
		new_frame(x, &f[t]);
	for (int64_t block = 0; block < x->extent[TWIR_BLOCK]; block++)
		run_block(x, f, block);
}

/* An out parameter that is its input's buffer: what it has overwritten may not be read any more. */
static void link_alias(struct twiri_machine *x)
{
	for (int out = 0; out < x->program->nparams; out++)
		for (int in = 0; in < x->program->nparams; in++)
			if (x->program->params[out]->alias == x->program->params[in] &&
			    x->tensors[in]->data == x->tensors[out]->data &&
			    x->tensors[out]->elements >= x->tensors[in]->elements) {
				x->tensors[in]->overwritten = x->tensors[out]->state;
				x->tensors[in]->readers = x->tensors[out]->readers =
					ARENA_ARRAY(x->arena, struct twiri_reader, x->tensors[out]->elements);
			}
}

static void new_tensors(struct twiri_machine *x)
{
	x->tensors = ARENA_ARRAY(x->arena, struct twiri_tensor *, x->tensor_of.n);
	for (int k = 0; k < x->tensor_of.n; k++)
		x->tensors[k] = ARENA_NEW(x->arena, struct twiri_tensor);
}

static void do_program(void *arg)
{
	struct job *j = arg;
	struct twiri_machine *x = &j->x;
	struct twiri_gen g;
	fill_levels(x);
	twiri_gen_init(&g, x);
	twiri_gen_program(&g, x->program);
	new_tensors(x);
	for (int k = 0; k < x->program->nparams; k++) {
		const struct twir_tensor *t = x->program->params[k];
		twiri_describe_param(x, x->tensors[k], t, &j->params[k], NULL, t->scope == TWIR_OUT);
	}
	for (int k = x->program->nparams; k < x->tensor_of.n; k++)
		if (x->tensor_of.at[k]->scope != TWIR_SHARED && x->tensor_of.at[k]->scope != TWIR_REGISTER)
			twiri_fail(x, NULL, NULL, "the tensor %s is no parameter", x->tensor_of.at[k]->name);
	link_alias(x);
	if (x->gpu)
		run_blocks(x);
	else
		run_cores(x);
	for (int k = 0; k < x->program->nparams && x->complete; k++)
		if (x->program->params[k]->scope == TWIR_OUT)
			twiri_check_stored(x, x->tensors[k]);
}

static void do_compute(void *arg)
{
	struct job *j = arg;
	struct twiri_machine *x = &j->x;
	struct twiri_gen g;
	int64_t shape[TWIR_MAX_RANK];
	for (int l = 0; l < TWIR_LEVELS; l++)
		x->extent[l] = 1;
	for (int k = 0; k < x->compute->out->rank; k++)
		shape[k] = twir_eval_index(x->compute->out->shape[k], x->binding);
	twiri_gen_init(&g, x);
	twiri_gen_compute(&g, x->compute, shape);
	new_tensors(x);
	twiri_describe_param(x, x->tensors[0], x->compute->out, &j->out, shape, true);
	for (int k = 1; k < x->tensor_of.n; k++) {
		int at = 0;
		while (at < j->inputs->n && j->inputs->tensors[at] != x->tensor_of.at[k])
			at++;
		if (at == j->inputs->n)
			twiri_fail(x, NULL, NULL, "the tensor %s has no data", x->tensor_of.at[k]->name);
		twiri_describe_param(x, x->tensors[k], x->tensor_of.at[k], &j->inputs->data[at],
				     j->inputs->shapes ? j->inputs->shapes[at] : NULL, false);
	}
	run_cores(x);
}

static void run_job(struct job *j, void (*fn)(void *arg))
{
	struct tw_error e;
	j->x.arena = arena_new();
	const bool ok = tw_try(&e, fn, j);
	arena_free(j->x.arena);
	if (!ok)
		tw_raise_error(&e);
}

static void run_program(void *arg)
{
	run_job(arg, do_program);
}

void twiri_try(struct twir_module *m, const struct twir_program *p, const struct twir_binding *b,
	       const struct twir_data *params, const struct twir_limits *limits, struct twir_diagnostic *report,
	       struct tw_arena *report_arena, int64_t *taken)
{
	struct job j = {.x = {.m = m,
			      .name = p->name,
			      .what = "program",
			      .program = p,
			      .binding = b,
			      .steps = limits->steps > 0 ? limits->steps : INT64_MAX,
			      .bytes = limits->bytes > 0 ? limits->bytes : MAX_BYTES,
			      .complete = report != NULL,
			      .report = report ? report : m->fault,
			      .report_arena = report ? report_arena : m->arena},
			.params = params};
	const int64_t steps = j.x.steps;
	struct tw_error e;
	const bool ok = tw_try(&e, run_program, &j);
	if (taken)
		*taken = steps - j.x.steps;
	if (!ok)
		tw_raise_error(&e);
}

void twir_interpret_within(struct twir_module *m, const struct twir_program *p, const struct twir_binding *b,
			   const struct twir_data *params, const struct twir_limits *limits)
{
	twiri_try(m, p, b, params, limits, NULL, NULL, NULL);
}

void twir_interpret(struct twir_module *m, const struct twir_program *p, const struct twir_binding *b,
		    const struct twir_data *params)
{
	const struct twir_limits none = {0};
	twir_interpret_within(m, p, b, params, &none);
}

void twir_interpret_compute(struct twir_module *m, const struct twir_compute *c, const struct twir_binding *b,
			    const struct twir_env *inputs, struct twir_data out)
{
	const struct twir_env none = {0};
	struct job j = {.x = {.m = m,
			      .name = c->out->name,
			      .what = "definition",
			      .compute = c,
			      .binding = b,
			      .steps = INT64_MAX,
			      .bytes = MAX_BYTES},
			.inputs = inputs ? inputs : &none,
			.out = out};
	run_job(&j, do_compute);
}
