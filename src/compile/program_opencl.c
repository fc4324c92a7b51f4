/* program_opencl: runs of single programs and launch functions on a device of OpenCL. Input: programs launched on blocks
 * and data for the parameters; output: the data of the outputs. The launch function is run here, on numbers: what is
 * left are calls of kernels. A part of a tensor is handed on as a copy, since devices want buffers to begin at round
 * addresses. */
#include "backend/opencl/opencl.h"
#include "compile/program_int.h"

enum { MOST_CALLS = 100000 };

struct host {
	const struct tw_program *p;
	struct twpr_copy *copy;
	void *const *data;
	int runs;
	double *ms;
	struct tw_map of_tensor; /* tensor -> buffer + 1 */
	VEC(struct opencl_buffer) buffers;
	VEC(struct opencl_call) calls;
	VEC(struct twir_var *) vars;
	VEC(int64_t) values;
};

static void set(struct host *h, struct twir_var *v, int64_t value)
{
	vec_push(h->copy->arena, &h->vars, v);
	vec_push(h->copy->arena, &h->values, value);
}

static int64_t eval(struct host *h, const struct twir_expr *e)
{
	const struct twir_binding b = {h->vars.n, h->vars.at, h->values.at};
	return twir_eval_index(e, &b);
}

static int add_buffer(struct host *h, void *data, int64_t bytes, bool in, bool out)
{
	const struct opencl_buffer b = {data, bytes, in, out};
	vec_push(h->copy->arena, &h->buffers, b);
	return h->buffers.n - 1;
}

static void add_call(struct host *h, struct opencl_call c)
{
	if (h->calls.n == MOST_CALLS)
		tw_raise(TW_ERR_UNSUPPORTED, "launch function %s makes more than %d calls", h->p->chosen->name,
			 MOST_CALLS);
	vec_push(h->copy->arena, &h->calls, c);
}

static int64_t bytes_of(struct host *h, const struct twir_tensor *t)
{
	return twir_storage_bytes(t->type, eval(h, twir_tensor_elements(h->copy->m, t)));
}

static int whole(struct host *h, const struct twir_tensor *t)
{
	const int b = (int)(uintptr_t)map_get_ptr(&h->of_tensor, t) - 1;
	TW_CHECK(b >= 0, "tensor %s has no buffer", t->name);
	return b;
}

/* The buffer of an argument; where it is a part, *back becomes the copy that writes it back. */
static int argument(struct host *h, const struct twir_argument *a, struct opencl_call *back)
{
	const int b = whole(h, a->tensor);
	back->bytes = 0;
	if (a->n == 0)
		return b;
	int64_t at = 0, inner = twir_scalar_bytes(a->tensor->type);
	for (int i = 0; i < a->n; i++) {
		const int64_t size = eval(h, a->tensor->shape[i]), x = eval(h, a->index[i]);
		if (x < 0 || x >= size)
			tw_raise(TW_ERR_INPUT, "launch function %s: %s has no part %lld of %lld", h->p->chosen->name,
				 a->tensor->base, (long long)x, (long long)size);
		at = at * size + x;
	}
	for (int i = a->n; i < a->tensor->rank; i++)
		inner *= eval(h, a->tensor->shape[i]);
	const int part = add_buffer(h, NULL, inner, false, false);
	add_call(h, (struct opencl_call){.from = b, .to = part, .from_at = at * inner, .bytes = inner});
	*back = (struct opencl_call){.from = part, .to = b, .to_at = at * inner, .bytes = inner};
	return part;
}

static void invoke(struct host *h, const struct twir_stmt *s)
{
	const struct twir_program *f = s->u.invoke.program;
	struct tw_arena *a = h->copy->arena;
	int *buffers = ARENA_ARRAY(a, int, f->nparams);
	int64_t *sizes = ARENA_ARRAY(a, int64_t, f->nsymbols);
	struct opencl_call *back = ARENA_ARRAY(a, struct opencl_call, f->nparams);
	for (int i = 0; i < f->nsymbols; i++) {
		const struct twir_expr *e = twir_var(h->copy->m, f->symbols[i]);
		for (int k = 0; k < s->u.invoke.nsymbols; k++)
			if (s->u.invoke.symbols[k] == f->symbols[i])
				e = s->u.invoke.values[k];
		sizes[i] = eval(h, e);
	}
	for (int i = 0; i < f->nparams; i++)
		buffers[i] = argument(h, &s->u.invoke.args[i], &back[i]);
	const struct twir_binding b = {f->nsymbols, f->symbols, sizes};
	add_call(h, (struct opencl_call){.kernel = cgen_function_name(a, f->name),
					 .nbuffers = f->nparams,
					 .buffers = buffers,
					 .nsizes = f->nsymbols,
					 .sizes = sizes,
					 .blocks = twir_eval_index(f->extents[0], &b),
					 .threads = cgen_threads(f)});
	for (int i = 0; i < f->nparams; i++)
		if (back[i].bytes > 0 && f->params[i]->scope == TWIR_OUT)
			add_call(h, back[i]);
}

static void declare(struct host *h, const struct twir_tensor *t)
{
	const int64_t bytes = bytes_of(h, t);
	const int known = (int)(uintptr_t)map_get_ptr(&h->of_tensor, t) - 1;
	if (known >= 0) { /* an earlier turn's: the same memory serves */
		h->buffers.at[known].bytes = bytes > h->buffers.at[known].bytes ? bytes : h->buffers.at[known].bytes;
		return;
	}
	map_set_ptr(&h->of_tensor, t, (void *)(uintptr_t)(add_buffer(h, NULL, bytes, false, false) + 1));
}

static void block(struct host *h, const struct twir_stmt *list)
{
	const int mark = h->vars.n;
	for (const struct twir_stmt *s = list; s; s = s->next)
		switch (s->kind) {
		case TWIR_LET:
			set(h, s->u.let.var, eval(h, s->u.let.value));
			break;
		case TWIR_DECLARE:
			declare(h, s->u.declare.tensor);
			break;
		case TWIR_FOR: {
			const int64_t n = eval(h, s->u.loop.extent);
			const int inner = h->vars.n;
			for (int64_t i = 0; i < n; i++) {
				set(h, s->u.loop.var, i);
				block(h, s->u.loop.body);
				h->vars.n = h->values.n = inner;
			}
			break;
		}
		case TWIR_IF:
			block(h, eval(h, s->u.branch.cond) ? s->u.branch.body : s->u.branch.other);
			break;
		case TWIR_INVOKE:
			invoke(h, s);
			break;
		default:
			TW_CHECK(false, "a launch function holds let, buffer, for, if and call");
		}
	h->vars.n = h->values.n = mark;
}

/* Sizes before lowering, calls after it. What a program does not store keeps the caller's value. */
static void run(struct twpr_copy *c, void *arg)
{
	struct host *h = arg;
	const struct tw_program *p = h->p;
	struct tw_target t;
	struct tw_buf source;
	struct tw_error e;
	twpr_take_bytes(c);
	const struct twir_launch *l = c->launch;
	h->copy = c;
	map_init(&h->of_tensor, c->arena);
	for (int i = 0; i < c->programs.n; i++)
		if (!twpr_is_gpu(c->programs.at[i]))
			tw_raise(TW_ERR_UNSUPPORTED,
				 "program %s is launched on cores and lanes, which OpenCL has not\nhint: --run "
				 "compiled; "
				 "programs for GPUs say launch block(..), thread(..)",
				 c->programs.at[i]->name);
	for (int i = 0; i < l->nsymbols; i++)
		for (int k = 0; k < p->nsymbols; k++)
			if (strcmp(p->chosen->symbols[k]->name, l->symbols[i]->name) == 0)
				set(h, l->symbols[i], p->values[k]);
	for (int i = 0; i < l->nparams; i++) {
		const int64_t bytes = twpr_elements(p, i) * twir_scalar_bytes(l->params[i]->type);
		const bool out = l->params[i]->scope == TWIR_OUT;
		map_set_ptr(&h->of_tensor, l->params[i],
			    (void *)(uintptr_t)(add_buffer(h, h->data[i], bytes, true, out) + 1));
	}
	twpr_lower(c, "opencl", &t, NULL, NULL);
	block(h, l->body);
	buf_init(&source, c->arena);
	cgen_file(&source, &t, c->m, c->programs.n, c->programs.at);
	const struct opencl_job job = {source.at ? source.at : "", h->buffers.n, h->calls.n, h->buffers.at,
				       h->calls.at};
	if (opencl_run(&job, h->runs, h->ms, NULL, &e) != TW_ERR_OK)
		tw_raise_error(&e);
}

enum tw_code tw_program_opencl(const struct tw_program *p, void *const *data, int runs, double *ms, struct tw_error *e)
{
	struct host h = {.p = p, .data = data, .runs = runs, .ms = ms};
	const enum tw_code code = twpr_all_known(p, e);
	return code == TW_ERR_OK ? twpr_with_copy(p, NULL, run, &h, e) : code;
}
