/* The plan: groups and their launches become steps, tensors become buffers. Set-up steps, which depend on constants only, come first. */
#include "compile/compile_int.h"
#include "ops/flow.h"

struct planner {
	struct twc *c;
	struct tw_arena *a;
	VEC(struct twrt_buffer) buffers;
	VEC(struct twrt_step) steps;
	struct tw_map of_tensor; /* twir_tensor -> buffer + 1 */
	int kernel;		 /* next of the compilation's */
	VEC(int) open;		 /* steps of loops and branches that have not ended */
};

enum twrt_type twc_type(enum twir_scalar s)
{
	static const enum twrt_type types[TWIR_SCALARS] = {[TWIR_I1] = TWRT_BOOL,
							   [TWIR_I8] = TWRT_I8,
							   [TWIR_I16] = TWRT_I16,
							   [TWIR_I32] = TWRT_I32,
							   [TWIR_I64] = TWRT_I64,
							   [TWIR_U8] = TWRT_U8,
							   [TWIR_U16] = TWRT_U16,
							   [TWIR_U32] = TWRT_U32,
							   [TWIR_U64] = TWRT_U64,
							   [TWIR_F16] = TWRT_F16,
							   [TWIR_BF16] = TWRT_BF16,
							   [TWIR_F32] = TWRT_F32,
							   [TWIR_F64] = TWRT_F64,
							   [TWIR_F8E4M3FN] = TWRT_F8E4M3FN,
							   [TWIR_F8E4M3FNUZ] = TWRT_F8E4M3FNUZ,
							   [TWIR_F8E5M2] = TWRT_F8E5M2,
							   [TWIR_F8E5M2FNUZ] = TWRT_F8E5M2FNUZ,
							   [TWIR_F8E8M0] = TWRT_F8E8M0};
	TW_CHECK(types[s] != 0, "type %s has no counterpart in the runtime", twir_scalar_name(s));
	return types[s];
}

static struct twrt_expr size(struct planner *p, const struct twir_expr *e)
{
	return twc_size(p->c, e);
}

/* A size inside a loop or branch that does not run may make no sense: it is none then. */
static struct twrt_expr inner_size(struct planner *p, const struct twir_expr *e)
{
	return size(p, p->open.n ? twir_max(p->c->m, e, twir_index(p->c->m, 0)) : e);
}

static const struct twir_expr *bytes_of(struct planner *p, const struct twir_tensor *t)
{
	struct twir_module *m = p->c->m;
	return twir_mul(m, twir_tensor_elements(m, t), twir_index(m, twir_scalar_bytes(t->type)));
}

static int new_buffer(struct planner *p, enum twrt_buffer_kind kind, const struct twir_tensor *t)
{
	struct twrt_buffer b = {.kind = kind, .bytes = inner_size(p, bytes_of(p, t)), .of = -1};
	vec_push(p->a, &p->buffers, b);
	return p->buffers.n - 1;
}

static int known(const struct planner *p, const struct twir_tensor *t)
{
	return (int)(uintptr_t)map_get_ptr(&p->of_tensor, t) - 1;
}

static void set_buffer(struct planner *p, const struct twir_tensor *t, int buffer)
{
	map_set_ptr(&p->of_tensor, t, (void *)(uintptr_t)(buffer + 1));
}

static int buffer_of(struct planner *p, struct twir_tensor *t, bool setup);

static const struct tw_part *part_of(const struct planner *p, const struct twir_tensor *t)
{
	return map_get_ptr(&p->c->groups.parts, t);
}

/* Inside of the whole; nothing where it has no element. */
static int part_buffer(struct planner *p, const struct tw_part *part)
{
	struct twir_module *m = p->c->m;
	const struct twir_tensor *t = part->tensor;
	const struct twir_expr *any = twir_index(m, 1), *at = part->at;
	int64_t n;
	const int whole = buffer_of(p, part->whole, false);
	for (int d = 0; d < t->rank; d++)
		if (!twir_const_int(t->shape[d], &n) || n < 1)
			any = twir_mul(m, any,
				       twir_max(m, twir_min(m, t->shape[d], twir_index(m, 1)), twir_index(m, 0)));
	if (t->layout)
		at = twir_mul(m, at, t->layout->extent[part->axis]);
	for (int d = part->axis + 1; d < t->rank && !t->layout; d++)
		at = twir_mul(m, at, t->shape[d]);
	const int b = new_buffer(p, TWRT_ALIAS, t);
	p->buffers.at[b].of = whole;
	p->buffers.at[b].bytes = size(p, twir_mul(m, bytes_of(p, t), any));
	p->buffers.at[b].offset = size(p, twir_mul(m, twir_mul(m, at, twir_index(m, twir_scalar_bytes(t->type))), any));
	set_buffer(p, t, b);
	return b;
}

/* The buffer of a compute tensor; constants and temporaries are made when they are first met. */
static int buffer_of(struct planner *p, struct twir_tensor *t, bool setup)
{
	int b = known(p, t);
	if (b >= 0)
		return b;
	if (part_of(p, t))
		return part_buffer(p, part_of(p, t));
	const uintptr_t id = (uintptr_t)map_get_ptr(&p->c->definitions.tensor, t);
	const struct tw_tensor *gt = id ? &p->c->g->tensors.at[id - 1] : NULL;
	b = new_buffer(p, gt && gt->data ? TWRT_CONST : setup ? TWRT_FOLDED : TWRT_TEMP, t);
	if (gt && gt->data) {
		p->buffers.at[b].data = gt->data;
		p->buffers.at[b].const_bytes = gt->bytes;
	}
	set_buffer(p, t, b);
	return b;
}

/* What profiles tell of a task stands at its first kernel. */
static void add_cost(struct planner *p, const struct tw_group *g, struct twrt_step *s)
{
	const struct twir_expr *work = tw_task_work(&g->task), *extents[TWRT_MOST_EXTENTS];
	if (g->setup || !work)
		return;
	s->work = inner_size(p, work);
	s->nextents = tw_task_extents(&g->task, TWRT_MOST_EXTENTS, extents);
	struct twrt_expr *at = ARENA_ARRAY(p->a, struct twrt_expr, s->nextents);
	for (int i = 0; i < s->nextents; i++)
		at[i] = inner_size(p, extents[i]);
	s->extents = at;
}

static void add_kernel(struct planner *p, const struct tw_group *g, const struct tw_kernel *k)
{
	const struct twc_kernel *kernel = &p->c->kernels.at[p->kernel];
	int *buffers = ARENA_ARRAY(p->a, int, k->nargs);
	struct twrt_expr *symbols = ARENA_ARRAY(p->a, struct twrt_expr, kernel->nsymbols);
	for (int i = 0; i < k->nargs; i++)
		buffers[i] = buffer_of(p, k->args[i], g->setup);
	for (int i = 0; i < kernel->nsymbols; i++)
		symbols[i] = size(p, twir_var(p->c->m, kernel->symbols[i]));
	struct twrt_step s = {.kind = TWRT_KERNEL,
			      .kernel = p->kernel,
			      .cores = inner_size(p, kernel->cores),
			      .nbuffers = k->nargs,
			      .buffers = buffers,
			      .nout = k->nout,
			      .inplace = k->inplace,
			      .nsymbols = kernel->nsymbols,
			      .symbols = symbols,
			      .label = g->label,
			      .program = kernel->name};
	s.scratch = inner_size(p, kernel->scratch);
	s.schedule = k->schedule;
	if (k == &g->launch.kernels.at[0])
		add_cost(p, g, &s);
	vec_push(p->a, &p->steps, s);
	p->kernel++;
}

static void describe_io(struct planner *p, tw_id t, int buffer, const char *name, struct twrt_io *io)
{
	const struct tw_tensor *x = &p->c->g->tensors.at[t];
	*io = (struct twrt_io){.name = name, .type = twc_type(x->type), .rank = x->rank, .buffer = buffer};
	for (int d = 0; d < x->rank; d++)
		io->dims[d] = inner_size(p, x->shape[d]);
}

static void add_host(struct planner *p, const struct tw_group *g)
{
	const struct tw_node *n = &p->c->g->nodes.at[g->node];
	int *buffers = ARENA_ARRAY(p->a, int, n->nin + n->nout);
	struct twrt_io *io = ARENA_ARRAY(p->a, struct twrt_io, n->nin + n->nout);
	int *inplace = ARENA_ARRAY(p->a, int, n->nout);
	for (int i = 0; i < n->nin + n->nout; i++) {
		const tw_id t = i < n->nin ? n->in[i] : n->out[i - n->nin];
		buffers[i] = t == TW_NONE ? -1 : buffer_of(p, tw_graph_ir(p->c->g, t), false);
		if (t != TW_NONE)
			describe_io(p, t, buffers[i], p->c->g->tensors.at[t].name, &io[i]);
	}
	for (int i = 0; i < n->nout; i++)
		inplace[i] = -1;
	/* attributes: "name=value" lines, integers and floats as text, lists with spaces */
	struct tw_buf attrs;
	buf_init(&attrs, p->a);
	buf_printf(&attrs, "opset=%d\n", n->opset); /* defaults may depend on it */
	for (int i = 0; i < n->nattrs; i++) {
		const struct tw_attr *at = &n->attrs[i];
		buf_printf(&attrs, "%s=", at->name);
		if (at->kind == TW_ATTR_INT)
			buf_printf(&attrs, "%lld", (long long)at->i);
		else if (at->kind == TW_ATTR_FLOAT)
			buf_printf(&attrs, "%.9g", (double)at->f);
		else if (at->kind == TW_ATTR_STRING)
			buf_puts(&attrs, at->s);
		else if (at->kind == TW_ATTR_INTS)
			for (int k = 0; k < at->n; k++)
				buf_printf(&attrs, "%s%lld", k ? " " : "", (long long)at->ints[k]);
		buf_putc(&attrs, '\n');
	}
	struct twrt_step s = {.kind = TWRT_HOST,
			      .kernel = -1,
			      .nbuffers = n->nin + n->nout,
			      .buffers = buffers,
			      .nout = n->nout,
			      .inplace = inplace,
			      .host = n->op->name,
			      .host_attrs = attrs.at,
			      .host_attrs_bytes = (int64_t)attrs.n,
			      .host_io = io,
			      .label = g->label,
			      .program = n->op->name};
	vec_push(p->a, &p->steps, s);
}

/* An output that no step makes (an input, a constant, the same tensor twice) is copied. */
static void add_copy(struct planner *p, int from, int to)
{
	int *buffers = ARENA_ARRAY(p->a, int, 2), *inplace = ARENA_ARRAY(p->a, int, 1);
	buffers[0] = from;
	buffers[1] = to;
	inplace[0] = -1;
	struct twrt_step s = {.kind = TWRT_COPY,
			      .kernel = -1,
			      .nbuffers = 2,
			      .buffers = buffers,
			      .nout = 1,
			      .inplace = inplace,
			      .label = "copy",
			      .program = "copy"};
	vec_push(p->a, &p->steps, s);
}

static struct twrt_step *add_flow(struct planner *p, enum twrt_step_kind kind, const struct tw_flow *f, int nbuffers,
				  int first, int second)
{
	static const char *const names[] = {
		[TWRT_LOOP] = "loop", [TWRT_NEXT] = "next", [TWRT_SKIP] = "skip", [TWRT_SET] = "set"};
	int *buffers = ARENA_ARRAY(p->a, int, 2);
	buffers[0] = first;
	buffers[1] = second;
	struct twrt_step s = {.kind = kind,
			      .kernel = -1,
			      .nbuffers = nbuffers,
			      .buffers = buffers,
			      .symbol = -1,
			      .label = f->name,
			      .program = names[kind]};
	vec_push(p->a, &p->steps, s);
	return &p->steps.at[p->steps.n - 1];
}

static void set_value(struct planner *p, struct twrt_step *s, const struct twir_var *symbol,
		      const struct twir_expr *value)
{
	struct twrt_expr *e = ARENA_NEW(p->a, struct twrt_expr);
	*e = size(p, value);
	s->nsymbols = 1;
	s->symbols = e;
	s->symbol = twc_symbol(p->c, symbol);
}

static int flow_buffer(struct planner *p, struct twir_tensor *t)
{
	return t ? buffer_of(p, t, false) : -1;
}

/* The value of an iteration is the buffer of the value after the loop; a slice is a part of its whole. */
static void begin_loop(struct planner *p, const struct tw_flow *f)
{
	struct twir_module *m = p->c->m;
	for (int i = 0; i < f->carried.n; i++) {
		const struct tw_carried *c = &f->carried.at[i];
		const int b = c->last ? buffer_of(p, c->last, false) : new_buffer(p, TWRT_TEMP, c->in);
		set_buffer(p, c->in, b);
		add_copy(p, buffer_of(p, c->init, false), b);
	}
	for (int i = 0; i < f->slices.n; i++) {
		const struct tw_slice *s = &f->slices.at[i];
		const struct twir_expr *bytes = bytes_of(p, s->slice);
		const int whole = buffer_of(p, s->whole, false), b = new_buffer(p, TWRT_ALIAS, s->slice);
		p->buffers.at[b].of = whole;
		const struct twir_expr *any = twir_max(m, twir_min(m, f->trips, twir_index(m, 1)), twir_index(m, 0));
		p->buffers.at[b].bytes = size(p, twir_mul(m, twir_max(m, bytes, twir_index(m, 0)), any));
		p->buffers.at[b].offset =
			size(p, twir_mul(m, twir_max(m, bytes, twir_index(m, 0)), twir_var(m, f->number)));
		set_buffer(p, s->slice, b);
	}
	struct twrt_step *s = add_flow(p, TWRT_LOOP, f, 2, flow_buffer(p, f->count), flow_buffer(p, f->condition));
	set_value(p, s, f->number, f->trips);
	vec_push(p->a, &p->open, p->steps.n - 1);
}

/* Values that are carried on change places with those they replace, or are copied where their memory is not a temporary. */
static void end_loop(struct planner *p, const struct tw_flow *f)
{
	int *buffers = ARENA_ARRAY(p->a, int, 1 + 2 * f->carried.n), n = 0;
	buffers[n++] = flow_buffer(p, f->go_on);
	for (int i = 0; i < f->carried.n; i++) {
		const int in = buffer_of(p, f->carried.at[i].in, false),
			  out = buffer_of(p, f->carried.at[i].out, false);
		bool seen = false;
		for (int k = 1; k < n; k++)
			seen |= buffers[k] == out;
		if (p->buffers.at[in].kind != TWRT_TEMP || p->buffers.at[out].kind != TWRT_TEMP || seen) {
			add_copy(p, out, in);
			continue;
		}
		buffers[n++] = in;
		buffers[n++] = out;
	}
	struct twrt_step *s = add_flow(p, TWRT_NEXT, f, 1, -1, -1);
	s->nbuffers = n;
	s->buffers = buffers;
	const int end = p->steps.n - 1, begin = p->open.at[--p->open.n];
	s->to = begin - end;
	s->symbol = f->ran ? twc_symbol(p->c, f->ran) : -1;
	p->steps.at[begin].to = end - begin;
}

/* What a side makes for the result is made in the result's place. */
static void share_result(struct planner *p, const struct tw_merged *o, struct twir_tensor *side)
{
	const uintptr_t id = (uintptr_t)map_get_ptr(&p->c->definitions.tensor, side);
	for (int d = 0; d < o->out->rank; d++)
		if (o->sizes[d].symbol)
			return;
	if (known(p, side) < 0 && !(id && p->c->g->tensors.at[id - 1].data))
		set_buffer(p, side, buffer_of(p, o->out, false));
}

static void begin_branch(struct planner *p, const struct tw_flow *f)
{
	for (int i = 0; i < f->merged.n; i++) {
		share_result(p, &f->merged.at[i], f->merged.at[i].yes);
		share_result(p, &f->merged.at[i], f->merged.at[i].no);
	}
	add_flow(p, TWRT_SKIP, f, 1, flow_buffer(p, f->condition), -1);
	vec_push(p->a, &p->open, p->steps.n - 1);
}

static void end_branch(struct planner *p, const struct tw_flow *f, bool yes)
{
	for (int i = 0; i < f->merged.n; i++) {
		const struct tw_merged *o = &f->merged.at[i];
		for (int d = 0; d < o->out->rank; d++)
			if (o->sizes[d].symbol)
				set_value(p, add_flow(p, TWRT_SET, f, 0, -1, -1), o->sizes[d].symbol,
					  yes ? o->sizes[d].yes : o->sizes[d].no);
		const int from = buffer_of(p, yes ? o->yes : o->no, false), to = buffer_of(p, o->out, false);
		if (from != to)
			add_copy(p, from, to);
	}
}

static void add_mark(struct planner *p, const struct tw_mark *mark)
{
	const struct tw_flow *f = mark->flow;
	if (mark->kind == TW_MARK_LOOP) {
		begin_loop(p, f);
	} else if (mark->kind == TW_MARK_NEXT) {
		end_loop(p, f);
	} else if (mark->kind == TW_MARK_IF) {
		begin_branch(p, f);
	} else {
		end_branch(p, f, mark->kind == TW_MARK_ELSE);
		if (mark->kind == TW_MARK_ELSE)
			add_flow(p, TWRT_SKIP, f, 1, -1, -1);
		const int begin = p->open.at[--p->open.n];
		p->steps.at[begin].to = p->steps.n - begin;
		if (mark->kind == TW_MARK_ELSE)
			vec_push(p->a, &p->open, p->steps.n - 1);
	}
}

static void add_steps(struct planner *p, bool setup)
{
	p->kernel = 0;
	for (int i = 0; i < p->c->groups.list.n; i++) {
		const struct tw_group *g = p->c->groups.list.at[i];
		if (g->setup != setup) {
			p->kernel += g->launch.kernels.n;
			continue;
		}
		if (g->mark)
			add_mark(p, g->mark);
		else if (!g->task.anchor)
			add_host(p, g);
		for (int k = 0; k < g->launch.kernels.n; k++)
			add_kernel(p, g, &g->launch.kernels.at[k]);
	}
}

static void add_meta(struct planner *p, struct twrt_plan *plan)
{
	struct twc *c = p->c;
	VEC(const char *) keys = {0}, values = {0};
	int nodes = 0, hosts = 0, kernels = 0;
	for (int i = 0; i < c->g->nodes.n; i++)
		nodes++;
	for (int i = 0; i < p->steps.n; i++)
		hosts += p->steps.at[i].kind == TWRT_HOST;
	for (int i = plan->nsetup; i < p->steps.n; i++)
		kernels += p->steps.at[i].kind == TWRT_KERNEL || p->steps.at[i].kind == TWRT_COPY;
#define META(key, ...) (vec_push(p->a, &keys, (key)), vec_push(p->a, &values, arena_printf(p->a, __VA_ARGS__)))
	META("nodes", "%d", nodes);
	META("kernels", "%d", kernels);
	META("distinct kernels", "%d", c->kernels.n);
	META("host operators", "%d", hosts);
	META("kept tensors", "%d", c->nkept);
	META("target", "%s", tw_isa_name(c->target.isa));
	META("model", "%s", c->g->name ? c->g->name : "");
	META("producer", "%s", c->g->producer ? c->g->producer : "");
	for (int i = 0; i < c->g->nmeta; i++)
		META(arena_printf(p->a, "meta:%s", c->g->meta_keys[i]), "%s", c->g->meta_values[i]);
#undef META
	plan->nmeta = keys.n;
	plan->meta_keys = keys.at;
	plan->meta_values = values.at;
}

bool twc_find_source(const struct twc *c, const struct twir_var *v, struct twrt_source *source)
{
	const struct tw_graph *g = c->g;
	for (int i = 0; i < g->inputs.n; i++) {
		const struct tw_tensor *t = &g->tensors.at[g->inputs.at[i]];
		for (int d = 0; d < t->rank; d++)
			if (t->shape[d]->kind == TWIR_Var && t->shape[d]->u.var == v) {
				*source = (struct twrt_source){.input = i, .dim = d};
				return true;
			}
	}
	for (int i = 0; i < c->value_symbols.n; i++)
		if (c->value_symbols.at[i].symbol == v) {
			*source = (struct twrt_source){.input = c->value_symbols.at[i].input,
						       .dim = -1 - c->value_symbols.at[i].element};
			return true;
		}
	return false;
}

static void add_symbols(struct planner *p, struct twrt_plan *plan)
{
	struct twc *c = p->c;
	VEC(const char *) names = {0};
	VEC(struct twrt_source) sources = {0};
	struct twrt_source source;
	for (int s = 0; s < c->m->symbols.n; s++) {
		if (!twc_find_source(c, c->m->symbols.at[s], &source))
			continue;
		vec_push(p->a, &c->symbols, c->m->symbols.at[s]);
		vec_push(p->a, &names, c->m->symbols.at[s]->name);
		vec_push(p->a, &sources, source);
	}
	for (int s = 0; s < c->g->decided.n; s++) { /* their bounds speak of the symbols before */
		const struct tw_decided *d = &c->g->decided.at[s];
		source = (struct twrt_source){.input = -1, .most = size(p, d->most)};
		vec_push(p->a, &c->symbols, d->symbol);
		vec_push(p->a, &names, d->symbol->name);
		vec_push(p->a, &sources, source);
	}
	plan->nsymbols = c->symbols.n;
	plan->symbols = names.at;
	plan->sources = sources.at;
}

/* Sizes that inference had to take for equal: a run that breaks it is refused. */
static void add_checks(struct planner *p, struct twrt_plan *plan)
{
	const struct tw_graph *g = p->c->g;
	struct twrt_check *checks = ARENA_ARRAY(p->a, struct twrt_check, g->requires.n);
	for (int i = 0; i < g->requires.n; i++) {
		const struct tw_require *r = &g->requires.at[i];
		checks[i].cond = size(p, twir_eq(p->c->m, r->a, r->b));
		checks[i].text = arena_printf(p->a, "%s: %s must be equal to %s", r->why, twir_print_expr(p->a, r->a),
					      twir_print_expr(p->a, r->b));
	}
	plan->nchecks = g->requires.n;
	plan->checks = checks;
}

void twc_plan(struct twc *c)
{
	struct planner p = {.c = c, .a = c->arena};
	struct tw_graph *g = c->g;
	struct twrt_plan *plan = &c->plan;
	map_init(&p.of_tensor, p.a);
	add_symbols(&p, plan);
	add_checks(&p, plan);
	struct twrt_io *inputs = ARENA_ARRAY(p.a, struct twrt_io, g->inputs.n);
	struct twrt_io *outputs = ARENA_ARRAY(p.a, struct twrt_io, g->outputs.n);
	for (int i = 0; i < g->inputs.n; i++) {
		struct twir_tensor *t = tw_graph_ir(g, g->inputs.at[i]);
		const int b = new_buffer(&p, TWRT_INPUT, t);
		set_buffer(&p, t, b);
		describe_io(&p, g->inputs.at[i], b, g->tensors.at[g->inputs.at[i]].name, &inputs[i]);
	}
	add_steps(&p, true);
	plan->nsetup = p.steps.n;
	const int first_output = p.buffers.n;
	for (int i = 0; i < g->outputs.n; i++) {
		struct twir_tensor *t = tw_graph_ir(g, g->outputs.at[i]);
		const int b = new_buffer(&p, TWRT_OUTPUT, t);
		if (known(&p, t) < 0 && !part_of(&p, t) && !g->tensors.at[g->outputs.at[i]].data)
			set_buffer(&p, t, b);
		describe_io(&p, g->outputs.at[i], b, g->tensors.at[g->outputs.at[i]].name, &outputs[i]);
	}
	add_steps(&p, false);
	for (int i = 0; i < g->outputs.n; i++) {
		const int from = buffer_of(&p, tw_graph_ir(g, g->outputs.at[i]), false);
		if (from != first_output + i)
			add_copy(&p, from, first_output + i);
	}
	plan->ninputs = g->inputs.n;
	plan->noutputs = g->outputs.n;
	plan->inputs = inputs;
	plan->outputs = outputs;
	plan->nbuffers = p.buffers.n;
	plan->buffers = p.buffers.at;
	plan->nsteps = p.steps.n;
	plan->steps = p.steps.at;
	plan->nkernels = c->code.nkernels;
	plan->kernels = c->code.names;
	add_meta(&p, plan);
}
