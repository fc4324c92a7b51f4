/* random_module: statements, programs, definitions, funcs and launch functions of random modules. */
#include "random_module.h"

#include "random_module_int.h"

/* statements */

static struct twir_stmt *block(struct gen *g, int depth);

static struct twir_stmt *store_to(struct gen *g, struct twir_tensor *t)
{
	expr index[TWIR_MAX_RANK];
	for (int i = 0; i < t->rank; i++)
		index[i] = gen_spread(t) || g->region ? twir_var(g->m, g->lane_var) : gen_fresh(g, TWIR_INDEX, 1, 2);
	int lanes = t->lanes;
	expr mask = NULL;
	if (g->vectors && lanes == 1 && t->rank > 0 && gen_chance(g, 50)) {
		lanes = 4;
		if (gen_chance(g, 50))
			mask = gen_fresh(g, TWIR_I1, 4, 2);
		if (t->rank == 1 && gen_chance(g, 30))
			index[0] = gen_fresh(g, TWIR_I32, 4, 2);
	}
	expr value = gen_fresh(g, t->type, lanes, 4);
	if (lanes > 1 && value->type.lanes == 1)
		value = twir_splat(g->m, value, lanes);
	return twir_store(g->m, t, t->rank, index, value, mask);
}

static const struct twir_map *random_factor(struct gen *g, int rank, bool spatial)
{
	expr extent[TWIR_MAX_RANK];
	int order[TWIR_MAX_RANK];
	enum twtm_attr attrs[TWIR_MAX_RANK];
	for (int i = 0; i < rank; i++) {
		extent[i] = twir_index(g->m, 1 + gen_below(g, 3));
		order[i] = i;
		attrs[i] = spatial || gen_chance(g, 70) ? TWTM_PLAIN : gen_chance(g, 50) ? TWTM_UNROLL : TWTM_VECTOR;
	}
	if (rank == 2 && gen_chance(g, 30)) {
		order[0] = 1;
		order[1] = 0;
	}
	return twir_map_basic(g->m, spatial ? TWTM_SPATIAL : TWTM_REPEAT, rank, extent, order, attrs);
}

static struct twir_stmt *formap(struct gen *g, const struct twir_map *map, int nlevels, enum twir_level a,
				enum twir_level b, int depth)
{
	struct twir_stmt *s = twir_stmt_new(g->m, TWIR_FORMAP);
	const int mark = g->vars.n;
	s->u.formap.n = map->rank;
	s->u.formap.map = map;
	s->u.formap.nlevels = nlevels;
	s->u.formap.levels[0] = a;
	s->u.formap.levels[1] = b;
	if (gen_chance(g, 40)) {
		s->u.formap.bounds = ARENA_ARRAY(g->a, expr, map->rank);
		for (int i = 0; i < map->rank; i++)
			s->u.formap.bounds[i] = gen_fresh(g, TWIR_INDEX, 1, 2);
	}
	s->u.formap.vars = ARENA_ARRAY(g->a, struct twir_var *, map->rank);
	for (int i = 0; i < map->rank; i++) {
		s->u.formap.vars[i] = twir_var_new(g->m, TWIR_LOOP, twir_scalar_type(TWIR_INDEX), gen_word(g));
		vec_push(g->a, &g->vars, s->u.formap.vars[i]);
	}
	if (nlevels && (a == TWIR_LANE || b == TWIR_LANE)) {
		g->region = true;
		g->lane_var = s->u.formap.vars[map->rank - 1];
	}
	s->u.formap.body = block(g, depth - 1);
	g->region = false;
	g->vars.n = mark;
	return s;
}

static struct twir_stmt *lane_loop(struct gen *g, int depth)
{
	expr lanes = twir_index(g->m, g->lanes), one = twir_index(g->m, 1);
	const struct twir_map *map = twir_spatial(g->m, 1, &lanes);
	if (gen_chance(g, 50)) {
		map = twir_spatial(g->m, 2, (expr[]){one, lanes});
		map = twir_compose(g->m, random_factor(g, 2, false), map);
		if (gen_chance(g, 30))
			map = twir_compose(g->m, random_factor(g, 2, false), map);
	}
	return formap(g, map, 1, TWIR_LANE, TWIR_LANE, depth);
}

static struct twir_stmt *declare(struct gen *g)
{
	struct twir_stmt *s = twir_stmt_new(g->m, TWIR_DECLARE);
	struct twir_tensor *t;
	if (!g->vectors && !g->region && g->lanes > 1 && gen_chance(g, 40)) {
		expr lanes = twir_index(g->m, g->lanes);
		t = twir_tensor_new(g->m, gen_word(g), gen_number_type(g), 1, &lanes, TWIR_REGISTER);
		t->mirrors = twir_spatial(g->m, 1, &lanes);
	} else {
		t = gen_tensor(g, g->region || gen_chance(g, 50) ? TWIR_REGISTER : TWIR_SHARED);
	}
	s->u.declare.tensor = t;
	vec_push(g->a, &g->readable, t);
	vec_push(g->a, &g->writable, t);
	return s;
}

static struct twir_stmt *let(struct gen *g)
{
	const bool wide = g->vectors && gen_chance(g, 30);
	const struct twir_type t = {(uint8_t)(gen_chance(g, 20) ? TWIR_I1 : gen_number_type(g)), wide ? 4 : 1};
	expr value = gen_fresh(g, (enum twir_scalar)t.scalar, t.lanes, 4);
	struct twir_var *v = twir_var_new(g->m, TWIR_BOUND, value->type, gen_word(g));
	struct twir_stmt *s = twir_let(g->m, v, value);
	vec_push(g->a, &g->vars, v);
	return s;
}

static struct twir_stmt *prefetch(struct gen *g)
{
	struct twir_tensor *t = g->writable.at[gen_below(g, (uint32_t)g->writable.n)];
	expr index[TWIR_MAX_RANK];
	for (int i = 0; i < t->rank; i++) {
		index[i] = gen_fresh(g, TWIR_INDEX, 1, 2);
		if (index[i]->loads)
			index[i] = gen_size(g);
	}
	return t->scope == TWIR_REGISTER ? let(g) : twir_prefetch(g->m, t, t->rank, index, gen_chance(g, 50));
}

static struct twir_stmt *branch(struct gen *g, int depth)
{
	struct twir_stmt *s = twir_stmt_new(g->m, gen_chance(g, 70) ? TWIR_IF : TWIR_SPECIALISE);
	s->u.branch.cond = gen_fresh(g, TWIR_I1, 1, 3);
	s->u.branch.body = block(g, depth - 1);
	/* an else of no statements is no else */
	if (s->kind == TWIR_IF && gen_chance(g, 50))
		s->u.branch.other = block(g, depth - 1);
	return s;
}

static struct twir_stmt *loop(struct gen *g, int depth)
{
	struct twir_stmt *s = twir_stmt_new(g->m, TWIR_FOR);
	const int mark = g->vars.n;
	s->u.loop.unroll = gen_chance(g, 30);
	s->u.loop.extent = s->u.loop.unroll ? twir_index(g->m, gen_below(g, 5)) : gen_size(g);
	s->u.loop.unroll_by = !s->u.loop.unroll && gen_chance(g, 30) ? 2 + (int)gen_below(g, 7) : 0;
	s->u.loop.var = twir_var_new(g->m, TWIR_LOOP, twir_scalar_type(TWIR_INDEX), gen_word(g));
	vec_push(g->a, &g->vars, s->u.loop.var);
	s->u.loop.body = block(g, depth - 1);
	g->vars.n = mark;
	return s;
}

static struct twir_tensor *fragment(struct gen *g, const struct twir_mma *shape, enum twir_operand_of which, int lead,
				    struct twir_stmt **list)
{
	expr sizes[3];
	for (int i = 0; i < lead; i++)
		sizes[i] = twir_index(g->m, 1 + gen_below(g, 3));
	sizes[lead] = twir_index(g->m, shape->elements[which]);
	struct twir_stmt *s = twir_stmt_new(g->m, TWIR_DECLARE);
	s->u.declare.tensor = twir_tensor_new(g->m, gen_word(g), which == TWIR_MMA_D ? shape->sum : shape->type,
					      lead + 1, sizes, TWIR_REGISTER);
	twir_append(list, s);
	return s->u.declare.tensor;
}

static struct twir_stmt *matrix(struct gen *g)
{
	struct twir_stmt *list = NULL, *s = twir_stmt_new(g->m, TWIR_MMA);
	s->u.mma.shape = twir_mma_at((int)gen_below(g, 7));
	for (int k = 0; k < 3; k++) {
		struct twir_fragment *f = &s->u.mma.part[k];
		f->n = (int)gen_below(g, 3);
		f->tensor = fragment(g, s->u.mma.shape, (enum twir_operand_of)k, f->n, &list);
		f->index = ARENA_ARRAY(g->a, expr, f->n);
		for (int i = 0; i < f->n; i++)
			f->index[i] = gen_fresh(g, TWIR_INDEX, 1, 2);
	}
	twir_append(&list, s);
	return list;
}

static struct twir_stmt *copy_async(struct gen *g)
{
	for (int k = 0; k < g->readable.n; k++) {
		struct twir_tensor *from = g->readable.at[k];
		expr to_index[TWIR_MAX_RANK], index[TWIR_MAX_RANK];
		const int bits = twir_scalar_bits(from->type), lanes = bits < 32 ? 128 / bits : 1;
		if (from->scope != TWIR_IN || from->rank == 0 || bits < 8)
			continue;
		struct twir_stmt *list = twir_stmt_new(g->m, TWIR_DECLARE);
		expr shape[2] = {twir_index(g->m, 4), twir_index(g->m, 32)};
		struct twir_tensor *to = twir_tensor_new(g->m, gen_word(g), from->type, 2, shape, TWIR_SHARED);
		list->u.declare.tensor = to;
		for (int i = 0; i < from->rank; i++)
			index[i] = gen_fresh(g, TWIR_INDEX, 1, 2);
		for (int i = 0; i < 2; i++)
			to_index[i] = gen_fresh(g, TWIR_INDEX, 1, 2);
		expr value = twir_load_wide(g->m, from, from->rank, index, lanes, NULL, NULL);
		if (gen_chance(g, 40))
			value = twir_cond(g->m, gen_fresh(g, TWIR_I1, 1, 2), value, gen_constant(g, from->type));
		if (!twir_bad_copy(to, value))
			twir_append(&list, twir_copy_async(g->m, to, 2, to_index, value));
		return list;
	}
	return let(g);
}

/* What the threads of a block do. */
static struct twir_stmt *gpu_statement(struct gen *g)
{
	struct twir_stmt *s = twir_stmt_new(g->m, TWIR_COMMIT);
	switch (gen_below(g, 5)) {
	case 0:
		return s;
	case 1:
		s->kind = TWIR_WAIT;
		s->u.wait.pending = (int)gen_below(g, 5);
		return s;
	case 2:
	case 3:
		return copy_async(g);
	default:
		return matrix(g);
	}
}

static struct twir_stmt *thread_loop(struct gen *g, int depth)
{
	if (g->threads)
		return loop(g, depth);
	if (gen_chance(g, 40))
		return gpu_statement(g);
	if (gen_chance(g, 30)) {
		struct twir_stmt *s = twir_stmt_new(g->m, TWIR_BARRIER);
		s->u.barrier.level = TWIR_BLOCK;
		return s;
	}
	g->threads = true;
	const struct twir_map *map = twir_compose(g->m, random_factor(g, 2, true), random_factor(g, 2, false));
	if (gen_chance(g, 30))
		map = twir_compose(g->m, twir_project(g->m, random_factor(g, 2, true), 1 + gen_below(g, 3)),
				   random_factor(g, 2, false));
	struct twir_stmt *s = formap(g, map, 1, TWIR_THREAD, TWIR_THREAD, depth);
	g->threads = false;
	return s;
}

static struct twir_stmt *statement(struct gen *g, int depth)
{
	switch (gen_below(g, depth > 0 ? 8 : 4)) {
	case 0:
		return let(g);
	case 1:
		return declare(g);
	case 2:
		if (gen_chance(g, 20))
			return prefetch(g);
		break;
	case 4:
		return branch(g, depth);
	case 5:
		return loop(g, depth);
	case 6:
	case 7:
		if (g->gpu)
			return thread_loop(g, depth);
		if (g->region || g->vectors)
			return loop(g, depth);
		return g->lanes > 1 && gen_chance(g, 70)
			       ? lane_loop(g, depth)
			       : formap(g, random_factor(g, 1 + (int)gen_below(g, 3), false), 0, 0, 0, depth);
	default:
		break;
	}
	for (int tries = 0; tries < 8; tries++) {
		struct twir_tensor *t = g->writable.at[gen_below(g, (uint32_t)g->writable.n)];
		if (g->region ? t->rank > 0 && t->scope != TWIR_REGISTER : !gen_spread(t))
			return store_to(g, t);
		if (g->region && gen_spread(t))
			return store_to(g, t);
	}
	return let(g);
}

static struct twir_stmt *block(struct gen *g, int depth)
{
	const int vars = g->vars.n, readable = g->readable.n, writable = g->writable.n;
	struct twir_stmt *list = NULL;
	for (int n = 1 + (int)gen_below(g, 4); n > 0; n--)
		twir_append(&list, statement(g, depth));
	g->vars.n = vars;
	g->readable.n = readable;
	g->writable.n = writable;
	return list;
}

static void scope_of_symbols(struct gen *g)
{
	g->vars.n = 0;
	for (int i = 0; i < g->m->symbols.n; i++)
		vec_push(g->a, &g->vars, g->m->symbols.at[i]);
}

static void make_program(struct gen *g, int number)
{
	struct twir_program *p = ARENA_NEW(g->a, struct twir_program);
	VEC(struct twir_tensor *) params = {0};
	scope_of_symbols(g);
	g->readable.n = g->writable.n = 0;
	g->definition = false;
	g->gpu = gen_chance(g, 20);
	g->vectors = !g->gpu && gen_chance(g, 40);
	g->lanes = g->gpu || g->vectors || gen_chance(g, 20) ? 0 : 2 << gen_below(g, 4);
	p->name = arena_printf(g->a, "p%d", number);
	for (int i = 1 + (int)gen_below(g, 3); i > 0; i--) {
		struct twir_tensor *t = gen_tensor(g, TWIR_IN);
		vec_push(g->a, &params, t);
		vec_push(g->a, &g->readable, t);
	}
	for (int i = 1 + (int)gen_below(g, 2); i > 0; i--) {
		struct twir_tensor *t = gen_tensor(g, TWIR_OUT);
		if (gen_chance(g, 20))
			t->alias = params.at[0];
		vec_push(g->a, &params, t);
		vec_push(g->a, &g->writable, t);
	}
	p->nparams = params.n;
	p->params = params.at;
	p->levels[0] = g->gpu ? TWIR_BLOCK : TWIR_CORE;
	p->extents[0] = gen_size(g);
	p->nlevels = 1;
	if (g->lanes) {
		p->levels[1] = TWIR_LANE;
		p->extents[1] = twir_index(g->m, g->lanes);
		p->nlevels = 2;
	}
	if (g->gpu) {
		const bool warps = gen_chance(g, 50);
		p->levels[1] = warps ? TWIR_WARP : TWIR_THREAD;
		p->extents[1] = twir_index(g->m, warps ? 2 : 64);
		p->levels[2] = TWIR_LANE;
		p->extents[2] = twir_index(g->m, 32);
		p->nlevels = warps ? 3 : 2;
		twir_worker(g->m, TWIR_THREAD);
		vec_push(g->a, &g->vars, g->m->workers[TWIR_THREAD]);
	}
	twir_worker(g->m, p->levels[0]);
	vec_push(g->a, &g->vars, g->m->workers[p->levels[0]]);
	if (gen_chance(g, 40)) {
		expr n = gen_size(g);
		const struct twir_map *map = twir_compose(g->m, twir_spatial(g->m, 1, &n), random_factor(g, 1, false));
		expr launch;
		int64_t have, need;
		launch = twir_map_workers(g->m, map);
		if (!twir_const_int(p->extents[0], &have) || !twir_const_int(launch, &need) || need <= have)
			twir_append(&p->body, formap(g, map, 1, p->levels[0], p->levels[0], 3));
	}
	twir_append(&p->body, block(g, 3));
	twir_program_symbols(g->m, p);
	vec_push(g->a, &g->m->programs, p);
}

static struct twir_stmt *buffer_for(struct gen *g, const struct twir_tensor *param)
{
	struct twir_stmt *s = twir_stmt_new(g->m, TWIR_DECLARE);
	s->u.declare.tensor =
		twir_tensor_new(g->m, gen_word(g), param->type, param->rank, (const expr *)param->shape, TWIR_BUFFER);
	s->u.declare.tensor->layout = param->layout;
	return s;
}

/* Parameters and buffers as the program takes them; each call by itself, with symbols of its own. */
static struct twir_stmt *invoke(struct gen *g, struct twir_program *p, struct twir_launch *l)
{
	struct twir_stmt *list = NULL, *s = twir_stmt_new(g->m, TWIR_INVOKE);
	VEC(struct twir_var *) symbols = {0};
	VEC(expr) values = {0};
	s->u.invoke.program = p;
	s->u.invoke.n = p->nparams;
	s->u.invoke.args = ARENA_ARRAY(g->a, struct twir_argument, p->nparams);
	for (int k = 0; k < p->nparams; k++) {
		struct twir_stmt *b = buffer_for(g, p->params[k]);
		struct twir_argument *a = &s->u.invoke.args[k];
		a->tensor = b->u.declare.tensor;
		if (l->nparams < 4 && gen_chance(g, 50)) {
			a->tensor->scope = p->params[k]->scope;
			l->params[l->nparams++] = a->tensor;
		} else {
			twir_append(&list, b);
		}
		if (!a->tensor->layout && !twir_is_packed(a->tensor->type) && a->tensor->rank > 0 &&
		    gen_chance(g, 40)) {
			a->n = 1;
			a->index = ARENA_ARRAY(g->a, expr, 1);
			a->index[0] = gen_fresh(g, TWIR_INDEX, 1, 2);
		}
	}
	for (int k = 0; k < p->nsymbols; k++)
		if (gen_chance(g, 30)) {
			vec_push(g->a, &symbols, p->symbols[k]);
			vec_push(g->a, &values, gen_size(g));
		}
	s->u.invoke.nsymbols = symbols.n;
	s->u.invoke.symbols = symbols.at;
	s->u.invoke.values = values.at;
	twir_append(&list, s);
	return list;
}

static struct twir_stmt *host_block(struct gen *g, struct twir_launch *l, int depth)
{
	struct twir_stmt *list = NULL;
	const int mark = g->vars.n;
	for (int n = 1 + (int)gen_below(g, 3); n > 0; n--) {
		struct twir_stmt *s;
		switch (gen_below(g, depth > 0 ? 5 : 3)) {
		case 0: {
			expr value = gen_fresh(g, TWIR_INDEX, 1, 3);
			struct twir_var *v = twir_var_new(g->m, TWIR_BOUND, value->type, gen_word(g));
			s = twir_let(g->m, v, value);
			vec_push(g->a, &g->vars, v);
			break;
		}
		case 3:
			s = twir_stmt_new(g->m, TWIR_FOR);
			s->u.loop.extent = gen_size(g);
			s->u.loop.var = twir_var_new(g->m, TWIR_LOOP, twir_scalar_type(TWIR_INDEX), gen_word(g));
			vec_push(g->a, &g->vars, s->u.loop.var);
			s->u.loop.body = host_block(g, l, depth - 1);
			g->vars.n--;
			break;
		case 4:
			s = twir_stmt_new(g->m, TWIR_IF);
			s->u.branch.cond = gen_fresh(g, TWIR_I1, 1, 3);
			s->u.branch.body = host_block(g, l, depth - 1);
			break;
		default:
			s = invoke(g, g->m->programs.at[gen_below(g, (uint32_t)g->m->programs.n)], l);
		}
		twir_append(&list, s);
	}
	g->vars.n = mark;
	return list;
}

static void make_launch(struct gen *g, int number)
{
	struct twir_launch *l = ARENA_NEW(g->a, struct twir_launch);
	scope_of_symbols(g);
	g->readable.n = g->writable.n = 0;
	g->definition = g->vectors = g->gpu = g->region = false;
	l->name = arena_printf(g->a, "l%d", number);
	l->params = ARENA_ARRAY(g->a, struct twir_tensor *, 8);
	l->body = host_block(g, l, 2);
	vec_push(g->a, &g->m->launches, l);
}

static void make_define(struct gen *g)
{
	struct twir_compute *c = ARENA_NEW(g->a, struct twir_compute);
	scope_of_symbols(g);
	g->definition = true;
	g->vectors = g->region = g->gpu = false;
	c->out = gen_tensor(g, TWIR_TENSOR);
	c->axes = ARENA_ARRAY(g->a, struct twir_var *, c->out->rank);
	for (int i = 0; i < c->out->rank; i++) {
		c->axes[i] = twir_var_new(g->m, TWIR_AXIS, twir_scalar_type(TWIR_INDEX), "ijklmnop" + 7 - i);
		vec_push(g->a, &g->vars, c->axes[i]);
	}
	c->value = gen_fresh(g, c->out->type, 1, 6);
	c->origin = gen_chance(g, 30) ? "node \"x\\y\"\n" : NULL;
	vec_push(g->a, &g->m->computes, c);
	vec_push(g->a, &g->readable, c->out);
}

static void make_func(struct gen *g, int number)
{
	struct twir_func *f = ARENA_NEW(g->a, struct twir_func);
	g->definition = g->vectors = g->region = false;
	g->vars.n = g->readable.n = 0;
	f->name = arena_printf(g->a, "func%d", number);
	f->n = 1 + (int)gen_below(g, 3);
	f->args = ARENA_ARRAY(g->a, struct twir_var *, f->n);
	for (int i = 0; i < f->n; i++) {
		f->args[i] = twir_var_new(g->m, TWIR_ARG, twir_scalar_type(gen_number_type(g)), gen_word(g));
		vec_push(g->a, &g->vars, f->args[i]);
	}
	f->nlets = (int)gen_below(g, 3);
	f->lets = ARENA_ARRAY(g->a, struct twir_var *, f->nlets);
	f->values = ARENA_ARRAY(g->a, expr, f->nlets);
	for (int i = 0; i < f->nlets; i++) {
		f->values[i] = gen_fresh(g, gen_number_type(g), 1, 4);
		f->lets[i] = twir_var_new(g->m, TWIR_BOUND, f->values[i]->type, gen_word(g));
		vec_push(g->a, &g->vars, f->lets[i]);
	}
	f->result = twir_scalar_type(gen_number_type(g));
	f->body = gen_fresh(g, (enum twir_scalar)f->result.scalar, 1, 4);
	vec_push(g->a, &g->m->funcs, f);
	strmap_set(&g->m->func_of, f->name, f);
}

struct twir_module *random_module(struct tw_arena *a, uint64_t seed)
{
	struct gen own = {.a = a, .seed = seed}, *const g = &own;
	g->m = twir_module_new(g->a);
	static const char *const names[] = {"N", "batch size", "M.2", "i"};
	for (int i = (int)gen_below(g, 4); i >= 0; i--) {
		struct twir_var *s = twir_symbol(g->m, names[i]);
		if (gen_chance(g, 30)) {
			s->lo = gen_below(g, 10);
			s->hi = gen_chance(g, 50) ? INT64_MAX : s->lo + gen_below(g, 1000);
			s->multiple = 1 + gen_below(g, 8);
		}
	}
	const int funcs = (int)gen_below(g, 3);
	for (int i = 0; i < funcs; i++)
		make_func(g, i);
	g->readable.n = 0;
	for (int i = (int)gen_below(g, 4); i > 0; i--) {
		struct twir_tensor *t = gen_tensor(g, TWIR_TENSOR);
		vec_push(g->a, &g->m->tensors, t);
		vec_push(g->a, &g->readable, t);
	}
	for (int i = (int)gen_below(g, 3); i > 0; i--)
		make_define(g);
	for (int i = (int)gen_below(g, 3); i >= 0; i--)
		make_program(g, i);
	for (int i = (int)gen_below(g, 3); i > 0; i--)
		make_launch(g, i);
	return g->m;
}
