/* rooms: base tmap ir */
/* Random modules (definitions, funcs, programs of both machines, lowered and not): they verify, print, parse to the
 * same expressions, verify and print to the same bytes. TW_SEED and TW_COUNT choose others; a failure prints its seed. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "ir/ir_int.h"

typedef const struct twir_expr *expr;

struct gen {
	struct tw_arena *a;
	struct twir_module *m;
	uint64_t seed;
	VEC(struct twir_var *) vars; /* in scope */
	VEC(struct twir_tensor *) readable, writable;
	VEC(expr) pool; /* made before: shared again */
	bool region;	/* in a loop on lane */
	struct twir_var *lane_var;
	bool definition, vectors, gpu, threads;
	int lanes;
	int budget;
};

static uint32_t below(struct gen *g, uint32_t n)
{
	g->seed = g->seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)((g->seed >> 33) % n);
}

static bool chance(struct gen *g, int percent)
{
	return (int)below(g, 100) < percent;
}

static enum twir_scalar number_type(struct gen *g)
{
	static const enum twir_scalar types[] = {TWIR_F32, TWIR_F32, TWIR_F32, TWIR_F64, TWIR_INDEX, TWIR_INDEX,
						 TWIR_I32, TWIR_I64, TWIR_U8,  TWIR_I8,	 TWIR_U64};
	return types[below(g, TW_COUNT(types))];
}

static expr constant(struct gen *g, enum twir_scalar s)
{
	const uint64_t bits =
		(uint64_t)below(g, UINT32_MAX) << 33 ^ (uint64_t)below(g, UINT32_MAX) << 11 ^ below(g, 4096);
	if (twir_is_float(s)) {
		double v;
		static const double known[] = {
			0,	     -0.0,     1,	0.5, -2, 0.1, 1e-7, 1e30, (double)INFINITY, -(double)INFINITY,
			(double)NAN, 16777217, 0x1p-149};
		memcpy(&v, &bits, sizeof(v));
		return twir_float(g->m, s, chance(g, 70) ? known[below(g, TW_COUNT(known))] : v);
	}
	return twir_int(g->m, s, chance(g, 70) ? (int64_t)below(g, 20) - 4 : (int64_t)bits);
}

static expr gen(struct gen *g, enum twir_scalar s, int lanes, int depth);

static expr leaf(struct gen *g, enum twir_scalar s, int lanes)
{
	if (lanes > 1) {
		if (twir_is_int(s) && s != TWIR_I1 && chance(g, 40))
			return twir_iota(g->m, s, lanes);
		return twir_splat(g->m, leaf(g, s, 1), lanes);
	}
	for (int tries = 0; tries < 6 && g->vars.n > 0; tries++) {
		struct twir_var *v = g->vars.at[below(g, (uint32_t)g->vars.n)];
		if (twir_type_eq(v->type, twir_scalar_type(s)))
			return twir_var(g->m, v);
	}
	return constant(g, s);
}

static expr gen_index(struct gen *g, int depth)
{
	return gen(g, TWIR_INDEX, 1, depth > 2 ? 2 : depth);
}

static bool spread(const struct twir_tensor *t)
{
	return t->mirrors != NULL;
}

static expr gen_load(struct gen *g, enum twir_scalar s, int lanes, int depth)
{
	for (int tries = 0; tries < 8 && g->readable.n > 0; tries++) {
		struct twir_tensor *t = g->readable.at[below(g, (uint32_t)g->readable.n)];
		if (t->type != s || (spread(t) && !g->region))
			continue;
		if (t->lanes != lanes && (t->lanes != 1 || t->rank == 0 || spread(t)))
			continue;
		expr index[TWIR_MAX_RANK];
		for (int i = 0; i < t->rank; i++)
			index[i] = spread(t) ? twir_var(g->m, g->lane_var) : gen_index(g, depth);
		if (t->lanes == lanes)
			return twir_load(g->m, t, t->rank, index);
		const bool masked = chance(g, 40);
		return twir_load_wide(g->m, t, t->rank, index, lanes, masked ? gen(g, TWIR_I1, lanes, depth) : NULL,
				      masked ? gen(g, s, chance(g, 50) ? lanes : 1, depth) : NULL);
	}
	return leaf(g, s, lanes);
}

static expr gen_fold(struct gen *g, enum twir_scalar s, int depth)
{
	static const enum twir_kind ops[] = {TWIR_Add, TWIR_Mul, TWIR_Min, TWIR_Max, TWIR_MinNum, TWIR_MaxNum};
	static const enum twir_kind bits[] = {TWIR_And, TWIR_Or, TWIR_Xor};
	const enum twir_kind op = s == TWIR_I1 ? bits[below(g, 3)] : ops[below(g, 6)];
	const int n = 1 + (int)below(g, 2), mark = g->vars.n;
	struct twir_var *axes[2];
	expr extents[2];
	for (int i = 0; i < n; i++) {
		do
			extents[i] = gen_index(g, 1);
		while (twir_bad_extents(1, &extents[i]));
		axes[i] = twir_var_new(g->m, TWIR_AXIS, twir_scalar_type(TWIR_INDEX), i ? "l" : "k");
	}
	for (int i = 0; i < n; i++)
		vec_push(g->a, &g->vars, axes[i]);
	expr body = gen(g, s, 1, depth);
	g->vars.n = mark;
	return twir_fold(g->m, op, n, axes, extents, body);
}

static expr gen_int_op(struct gen *g, enum twir_scalar s, int lanes, int depth)
{
	static const enum twir_kind ops[] = {TWIR_Mod, TWIR_And, TWIR_Or,      TWIR_Xor,
					     TWIR_Shl, TWIR_Shr, TWIR_Ceildiv, TWIR_Roundup};
	if (chance(g, 15))
		return twir_not(g->m, gen(g, s, lanes, depth));
	return twir_binary(g->m, ops[below(g, TW_COUNT(ops))], gen(g, s, lanes, depth), gen(g, s, lanes, depth));
}

static expr gen_float_op(struct gen *g, enum twir_scalar s, int lanes, int depth)
{
	static const enum twir_kind ops[] = {TWIR_Sqrt, TWIR_Floor, TWIR_Ceil, TWIR_Round, TWIR_Trunc};
	if (chance(g, 50))
		return twir_fma(g->m, gen(g, s, lanes, depth), gen(g, s, chance(g, 50) ? lanes : 1, depth),
				gen(g, s, lanes, depth));
	return twir_unary(g->m, ops[below(g, TW_COUNT(ops))], gen(g, s, lanes, depth));
}

static expr gen_bool(struct gen *g, int lanes, int depth)
{
	static const enum twir_kind compares[] = {TWIR_Lt, TWIR_Le, TWIR_Eq, TWIR_Ne};
	static const enum twir_kind ops[] = {TWIR_And, TWIR_Or, TWIR_Xor};
	if (chance(g, 30))
		return twir_binary(g->m, ops[below(g, 3)], gen(g, TWIR_I1, lanes, depth),
				   gen(g, TWIR_I1, lanes, depth));
	if (chance(g, 15))
		return twir_not(g->m, gen(g, TWIR_I1, lanes, depth));
	const enum twir_scalar s = number_type(g);
	return twir_binary(g->m, compares[below(g, 4)], gen(g, s, lanes, depth),
			   gen(g, s, chance(g, 50) ? lanes : 1, depth));
}

static expr gen_call(struct gen *g, enum twir_scalar s, int depth)
{
	for (int i = 0; i < g->m->funcs.n; i++) {
		struct twir_func *f = g->m->funcs.at[below(g, (uint32_t)g->m->funcs.n)];
		if (f->result.scalar != s)
			continue;
		expr args[16];
		for (int k = 0; k < f->n; k++)
			args[k] = gen(g, (enum twir_scalar)f->args[k]->type.scalar, 1, depth);
		return twir_call(g->m, f, f->n, args);
	}
	return leaf(g, s, 1);
}

/* Vectors in, or scalars of vectors, or gathers. */
static expr gen_late(struct gen *g, enum twir_scalar s, int lanes, int depth)
{
	static const enum twir_kind ops[] = {TWIR_Add, TWIR_Mul, TWIR_Min, TWIR_MaxNum};
	if (lanes == 1 && s != TWIR_I1 && chance(g, 50))
		return twir_reduce(g->m, ops[below(g, 4)], gen(g, s, 4, depth));
	if (lanes == 1)
		return twir_extract(g->m, gen(g, s, 4, depth), (int)below(g, 4));
	for (int i = 0; i < g->readable.n; i++) {
		struct twir_tensor *t = g->readable.at[i];
		if (t->type != s || t->lanes != 1 || spread(t))
			continue;
		const bool masked = chance(g, 50);
		return twir_gather(g->m, t, gen(g, chance(g, 50) ? TWIR_I32 : TWIR_INDEX, lanes, depth),
				   masked ? gen(g, TWIR_I1, lanes, depth) : NULL, masked ? gen(g, s, 1, depth) : NULL);
	}
	return leaf(g, s, lanes);
}

static expr make(struct gen *g, enum twir_scalar s, int lanes, int depth)
{
	static const enum twir_kind common[] = {TWIR_Add, TWIR_Sub, TWIR_Mul,	 TWIR_Div,
						TWIR_Min, TWIR_Max, TWIR_MinNum, TWIR_MaxNum};
	static const enum twir_kind prefix[] = {TWIR_Neg, TWIR_Abs};
	if (depth <= 0 || --g->budget < 0)
		return leaf(g, s, lanes);
	depth--;
	const int other = chance(g, 25) ? 1 : lanes; /* a scalar beside a vector is splat */
	switch (below(g, 12)) {
	case 0:
		return leaf(g, s, lanes);
	case 1:
	case 2:
		return gen_load(g, s, lanes, depth);
	case 3:
		return lanes == 1 ? twir_cond(g->m, gen(g, TWIR_I1, 1, depth), gen(g, s, 1, depth), gen(g, s, 1, depth))
				  : twir_select(g->m, gen(g, TWIR_I1, lanes, depth), gen(g, s, other, depth),
						gen(g, s, lanes, depth));
	case 4:
		if (s == TWIR_I1)
			return gen_bool(g, lanes, depth);
		return twir_cast(g->m, s, gen(g, chance(g, 30) ? TWIR_I1 : number_type(g), lanes, depth));
	case 5:
		if (s == TWIR_F32 || s == TWIR_I32)
			return twir_bitcast(g->m, s, gen(g, s == TWIR_F32 ? TWIR_I32 : TWIR_F32, lanes, depth));
		break;
	case 6:
		if (g->definition && lanes == 1 && s != TWIR_INDEX)
			return gen_fold(g, s, depth);
		if (lanes == 1 && g->m->funcs.n > 0)
			return gen_call(g, s, depth);
		break;
	case 7:
		if (g->vectors)
			return gen_late(g, s, lanes, depth);
		break;
	case 8:
		if (s != TWIR_I1)
			return twir_unary(g->m, prefix[below(g, 2)], gen(g, s, lanes, depth));
		break;
	case 9:
		if (s != TWIR_I1)
			return twir_is_float(s) ? gen_float_op(g, s, lanes, depth) : gen_int_op(g, s, lanes, depth);
		break;
	default:
		break;
	}
	if (s == TWIR_I1)
		return gen_bool(g, lanes, depth);
	return twir_binary(g->m, common[below(g, TW_COUNT(common))], gen(g, s, lanes, depth), gen(g, s, other, depth));
}

static expr gen(struct gen *g, enum twir_scalar s, int lanes, int depth)
{
	expr e = make(g, s, lanes, depth);
	return e->type.lanes == lanes ? e : twir_splat(g->m, e, lanes);
}

static expr fresh(struct gen *g, enum twir_scalar s, int lanes, int depth)
{
	g->budget = 60;
	return gen(g, s, lanes, depth);
}

static const char *word(struct gen *g)
{
	static const char *const words[] = {"x",    "i",   "j", "acc", "part", "onnx::Conv_1/a.b",
					    "core", "sum", "7", "f32", "y_1",  "row"};
	return words[below(g, TW_COUNT(words))];
}

static expr size(struct gen *g)
{
	if (chance(g, 40) && g->m->symbols.n > 0)
		return twir_var(g->m, g->m->symbols.at[below(g, (uint32_t)g->m->symbols.n)]);
	if (chance(g, 30) && g->m->symbols.n > 0)
		return twir_ceildiv(g->m, twir_var(g->m, g->m->symbols.at[0]), twir_index(g->m, 1 + below(g, 32)));
	return twir_index(g->m, below(g, 9));
}

static struct twir_tensor *tensor(struct gen *g, enum twir_scope scope)
{
	expr shape[TWIR_MAX_RANK];
	const int rank = (int)below(g, 4);
	for (int i = 0; i < rank; i++)
		shape[i] = scope == TWIR_REGISTER ? twir_index(g->m, below(g, 5)) : size(g);
	struct twir_tensor *t = twir_tensor_new(g->m, word(g), number_type(g), rank, shape, scope);
	if (scope == TWIR_REGISTER && g->vectors && chance(g, 50))
		t->lanes = 4;
	else if (rank > 0 && chance(g, 25))
		t->layout = chance(g, 30)
				    ? twir_layout_make(g->m, TWIR_LAYOUT_STRIDES, rank, shape, NULL)
				    : twir_layout_row(g->m, rank, shape,
						      chance(g, 50) ? twir_layout_row(g->m, rank, shape, NULL) : NULL);
	return t;
}

/* statements */

static struct twir_stmt *block(struct gen *g, int depth);

static struct twir_stmt *store_to(struct gen *g, struct twir_tensor *t)
{
	expr index[TWIR_MAX_RANK];
	for (int i = 0; i < t->rank; i++)
		index[i] = spread(t) || g->region ? twir_var(g->m, g->lane_var) : fresh(g, TWIR_INDEX, 1, 2);
	int lanes = t->lanes;
	expr mask = NULL;
	if (g->vectors && lanes == 1 && t->rank > 0 && chance(g, 50)) {
		lanes = 4;
		if (chance(g, 50))
			mask = fresh(g, TWIR_I1, 4, 2);
		if (t->rank == 1 && chance(g, 30))
			index[0] = fresh(g, TWIR_I32, 4, 2);
	}
	expr value = fresh(g, t->type, lanes, 4);
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
		extent[i] = twir_index(g->m, 1 + below(g, 3));
		order[i] = i;
		attrs[i] = spatial || chance(g, 70) ? TWTM_PLAIN : chance(g, 50) ? TWTM_UNROLL : TWTM_VECTOR;
	}
	if (rank == 2 && chance(g, 30)) {
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
	if (chance(g, 40)) {
		s->u.formap.bounds = ARENA_ARRAY(g->a, expr, map->rank);
		for (int i = 0; i < map->rank; i++)
			s->u.formap.bounds[i] = fresh(g, TWIR_INDEX, 1, 2);
	}
	s->u.formap.vars = ARENA_ARRAY(g->a, struct twir_var *, map->rank);
	for (int i = 0; i < map->rank; i++) {
		s->u.formap.vars[i] = twir_var_new(g->m, TWIR_LOOP, twir_scalar_type(TWIR_INDEX), word(g));
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
	if (chance(g, 50)) {
		map = twir_spatial(g->m, 2, (expr[]){one, lanes});
		map = twir_compose(g->m, random_factor(g, 2, false), map);
		if (chance(g, 30))
			map = twir_compose(g->m, random_factor(g, 2, false), map);
	}
	return formap(g, map, 1, TWIR_LANE, TWIR_LANE, depth);
}

static struct twir_stmt *declare(struct gen *g)
{
	struct twir_stmt *s = twir_stmt_new(g->m, TWIR_DECLARE);
	struct twir_tensor *t;
	if (!g->vectors && !g->region && g->lanes > 1 && chance(g, 40)) {
		expr lanes = twir_index(g->m, g->lanes);
		t = twir_tensor_new(g->m, word(g), number_type(g), 1, &lanes, TWIR_REGISTER);
		t->mirrors = twir_spatial(g->m, 1, &lanes);
	} else {
		t = tensor(g, g->region || chance(g, 50) ? TWIR_REGISTER : TWIR_SHARED);
	}
	s->u.declare.tensor = t;
	vec_push(g->a, &g->readable, t);
	vec_push(g->a, &g->writable, t);
	return s;
}

static struct twir_stmt *let(struct gen *g)
{
	const bool wide = g->vectors && chance(g, 30);
	const struct twir_type t = {(uint8_t)(chance(g, 20) ? TWIR_I1 : number_type(g)), wide ? 4 : 1};
	expr value = fresh(g, (enum twir_scalar)t.scalar, t.lanes, 4);
	struct twir_var *v = twir_var_new(g->m, TWIR_BOUND, value->type, word(g));
	struct twir_stmt *s = twir_let(g->m, v, value);
	vec_push(g->a, &g->vars, v);
	return s;
}

static struct twir_stmt *prefetch(struct gen *g)
{
	struct twir_tensor *t = g->writable.at[below(g, (uint32_t)g->writable.n)];
	expr index[TWIR_MAX_RANK];
	for (int i = 0; i < t->rank; i++) {
		index[i] = fresh(g, TWIR_INDEX, 1, 2);
		if (index[i]->loads)
			index[i] = size(g);
	}
	return t->scope == TWIR_REGISTER ? let(g) : twir_prefetch(g->m, t, t->rank, index);
}

static struct twir_stmt *branch(struct gen *g, int depth)
{
	struct twir_stmt *s = twir_stmt_new(g->m, chance(g, 70) ? TWIR_IF : TWIR_SPECIALISE);
	s->u.branch.cond = fresh(g, TWIR_I1, 1, 3);
	s->u.branch.body = block(g, depth - 1);
	/* an else of no statements is no else */
	if (s->kind == TWIR_IF && chance(g, 50))
		s->u.branch.other = block(g, depth - 1);
	return s;
}

static struct twir_stmt *loop(struct gen *g, int depth)
{
	struct twir_stmt *s = twir_stmt_new(g->m, TWIR_FOR);
	const int mark = g->vars.n;
	s->u.loop.unroll = chance(g, 30);
	s->u.loop.extent = s->u.loop.unroll ? twir_index(g->m, below(g, 5)) : size(g);
	s->u.loop.var = twir_var_new(g->m, TWIR_LOOP, twir_scalar_type(TWIR_INDEX), word(g));
	vec_push(g->a, &g->vars, s->u.loop.var);
	s->u.loop.body = block(g, depth - 1);
	g->vars.n = mark;
	return s;
}

static struct twir_stmt *thread_loop(struct gen *g, int depth)
{
	if (g->threads)
		return loop(g, depth);
	if (chance(g, 30)) {
		struct twir_stmt *s = twir_stmt_new(g->m, TWIR_BARRIER);
		s->u.barrier.level = TWIR_BLOCK;
		return s;
	}
	g->threads = true;
	const struct twir_map *map = twir_compose(g->m, random_factor(g, 2, true), random_factor(g, 2, false));
	if (chance(g, 30))
		map = twir_compose(g->m, twir_project(g->m, random_factor(g, 2, true), 1 + below(g, 3)),
				   random_factor(g, 2, false));
	struct twir_stmt *s = formap(g, map, 1, TWIR_THREAD, TWIR_THREAD, depth);
	g->threads = false;
	return s;
}

static struct twir_stmt *statement(struct gen *g, int depth)
{
	switch (below(g, depth > 0 ? 8 : 4)) {
	case 0:
		return let(g);
	case 1:
		return declare(g);
	case 2:
		if (chance(g, 20))
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
		return g->lanes > 1 && chance(g, 70)
			       ? lane_loop(g, depth)
			       : formap(g, random_factor(g, 1 + (int)below(g, 3), false), 0, 0, 0, depth);
	default:
		break;
	}
	for (int tries = 0; tries < 8; tries++) {
		struct twir_tensor *t = g->writable.at[below(g, (uint32_t)g->writable.n)];
		if (g->region ? t->rank > 0 && t->scope != TWIR_REGISTER : !spread(t))
			return store_to(g, t);
		if (g->region && spread(t))
			return store_to(g, t);
	}
	return let(g);
}

static struct twir_stmt *block(struct gen *g, int depth)
{
	const int vars = g->vars.n, readable = g->readable.n, writable = g->writable.n;
	struct twir_stmt *list = NULL;
	for (int n = 1 + (int)below(g, 4); n > 0; n--)
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
	g->gpu = chance(g, 20);
	g->vectors = !g->gpu && chance(g, 40);
	g->lanes = g->gpu || g->vectors || chance(g, 20) ? 0 : 2 << below(g, 4);
	p->name = arena_printf(g->a, "p%d", number);
	for (int i = 1 + (int)below(g, 3); i > 0; i--) {
		struct twir_tensor *t = tensor(g, TWIR_IN);
		vec_push(g->a, &params, t);
		vec_push(g->a, &g->readable, t);
	}
	for (int i = 1 + (int)below(g, 2); i > 0; i--) {
		struct twir_tensor *t = tensor(g, TWIR_OUT);
		if (chance(g, 20))
			t->alias = params.at[0];
		vec_push(g->a, &params, t);
		vec_push(g->a, &g->writable, t);
	}
	p->nparams = params.n;
	p->params = params.at;
	p->levels[0] = g->gpu ? TWIR_BLOCK : TWIR_CORE;
	p->extents[0] = size(g);
	p->nlevels = 1;
	if (g->lanes) {
		p->levels[1] = TWIR_LANE;
		p->extents[1] = twir_index(g->m, g->lanes);
		p->nlevels = 2;
	}
	if (g->gpu) {
		const bool warps = chance(g, 50);
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
	if (chance(g, 40)) {
		expr n = size(g);
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

static void make_define(struct gen *g)
{
	struct twir_compute *c = ARENA_NEW(g->a, struct twir_compute);
	scope_of_symbols(g);
	g->definition = true;
	g->vectors = g->region = g->gpu = false;
	c->out = tensor(g, TWIR_TENSOR);
	c->axes = ARENA_ARRAY(g->a, struct twir_var *, c->out->rank);
	for (int i = 0; i < c->out->rank; i++) {
		c->axes[i] = twir_var_new(g->m, TWIR_AXIS, twir_scalar_type(TWIR_INDEX), "ijklmnop" + 7 - i);
		vec_push(g->a, &g->vars, c->axes[i]);
	}
	c->value = fresh(g, c->out->type, 1, 6);
	c->origin = chance(g, 30) ? "node \"x\\y\"\n" : NULL;
	vec_push(g->a, &g->m->computes, c);
	vec_push(g->a, &g->readable, c->out);
}

static void make_func(struct gen *g, int number)
{
	struct twir_func *f = ARENA_NEW(g->a, struct twir_func);
	g->definition = g->vectors = g->region = false;
	g->vars.n = g->readable.n = 0;
	f->name = arena_printf(g->a, "func%d", number);
	f->n = 1 + (int)below(g, 3);
	f->args = ARENA_ARRAY(g->a, struct twir_var *, f->n);
	for (int i = 0; i < f->n; i++) {
		f->args[i] = twir_var_new(g->m, TWIR_ARG, twir_scalar_type(number_type(g)), word(g));
		vec_push(g->a, &g->vars, f->args[i]);
	}
	f->nlets = (int)below(g, 3);
	f->lets = ARENA_ARRAY(g->a, struct twir_var *, f->nlets);
	f->values = ARENA_ARRAY(g->a, expr, f->nlets);
	for (int i = 0; i < f->nlets; i++) {
		f->values[i] = fresh(g, number_type(g), 1, 4);
		f->lets[i] = twir_var_new(g->m, TWIR_BOUND, f->values[i]->type, word(g));
		vec_push(g->a, &g->vars, f->lets[i]);
	}
	f->result = twir_scalar_type(number_type(g));
	f->body = fresh(g, (enum twir_scalar)f->result.scalar, 1, 4);
	vec_push(g->a, &g->m->funcs, f);
	strmap_set(&g->m->func_of, f->name, f);
}

static void make_module(struct gen *g)
{
	g->m = twir_module_new(g->a);
	static const char *const names[] = {"N", "batch size", "M.2", "i"};
	for (int i = (int)below(g, 4); i >= 0; i--) {
		struct twir_var *s = twir_symbol(g->m, names[i]);
		if (chance(g, 30)) {
			s->lo = below(g, 10);
			s->hi = chance(g, 50) ? INT64_MAX : s->lo + below(g, 1000);
			s->multiple = 1 + below(g, 8);
		}
	}
	const int funcs = (int)below(g, 3);
	for (int i = 0; i < funcs; i++)
		make_func(g, i);
	g->readable.n = 0;
	for (int i = (int)below(g, 4); i > 0; i--) {
		struct twir_tensor *t = tensor(g, TWIR_TENSOR);
		vec_push(g->a, &g->m->tensors, t);
		vec_push(g->a, &g->readable, t);
	}
	for (int i = (int)below(g, 3); i > 0; i--)
		make_define(g);
	for (int i = (int)below(g, 3); i >= 0; i--)
		make_program(g, i);
}

/* the check */

struct job {
	struct tw_arena *a;
	struct gen g;
	const char *text;
	struct twir_module *parsed;
	const char *again;
	const char *trouble;
};

static void verify_all(struct twir_module *m)
{
	for (int i = 0; i < m->funcs.n; i++)
		twir_verify_func(m, m->funcs.at[i], TW_ERR_INTERNAL);
	for (int i = 0; i < m->computes.n; i++)
		twir_verify_compute(m, m->computes.at[i], TW_ERR_INTERNAL);
	for (int i = 0; i < m->programs.n; i++)
		twir_verify_program(m, m->programs.at[i], TW_ERR_INTERNAL);
}

/* Definitions read back into the same module are the same expressions, up to the axes. */
static bool same_definitions(struct job *j)
{
	struct twir_module *m = j->g.m;
	const int n = m->computes.n;
	for (int i = 0; i < m->tensors.n; i++)
		m->tensors.at[i]->base = arena_printf(j->a, "in%d", i);
	for (int i = 0; i < n; i++)
		m->computes.at[i]->out->base = arena_printf(j->a, "def%d", i);
	for (int i = 0; i < n; i++) {
		const struct twir_compute *c = m->computes.at[i];
		const char *base = c->out->base;
		c->out->base = "copy"; /* declared anew under another name */
		const char *text = twir_print_compute(j->a, c);
		c->out->base = base;
		twir_parse(m, "definition", text);
		const struct twir_compute *d = m->computes.at[m->computes.n - 1];
		m->computes.n = n;
		struct twir_pairs pairs = {.n = c->out->rank};
		for (int k = 0; k < c->out->rank; k++) {
			pairs.left[k] = c->axes[k];
			pairs.right[k] = d->axes[k];
		}
		if (!twir_same_expr(&pairs, c->value, d->value)) {
			j->text = text;
			return false;
		}
	}
	return true;
}

static void run(void *arg)
{
	struct job *j = arg;
	j->trouble = "making";
	make_module(&j->g);
	j->trouble = "verifying";
	j->text = twir_print_module(j->a, j->g.m);
	verify_all(j->g.m);
	j->trouble = "parsing";
	j->parsed = twir_module_new(j->a);
	twir_parse(j->parsed, "printed", j->text);
	j->trouble = "verifying what was parsed";
	verify_all(j->parsed);
	j->again = twir_print_module(j->a, j->parsed);
	j->trouble = "round trip of the module";
	if (strcmp(j->text, j->again) != 0)
		tw_raise(TW_ERR_INTERNAL, "the text differs:\n%.3000s", j->again);
	j->trouble = "round trip of a program";
	for (int i = 0; i < j->parsed->programs.n; i++) {
		const char *alone = twir_print_program(j->a, j->parsed, j->parsed->programs.at[i]);
		struct twir_module *m = twir_module_new(j->a);
		twir_parse(m, "alone", alone);
		if (strcmp(alone, twir_print_program(j->a, m, m->programs.at[0])) != 0)
			tw_raise(TW_ERR_INTERNAL, "the text differs:\n%.3000s", alone);
	}
	j->trouble = "copy of a body";
	for (int i = 0; i < j->parsed->programs.n; i++) {
		struct twir_program *p = j->parsed->programs.at[i];
		struct twir_subst s;
		twir_subst_init(&s, j->parsed);
		p->body = twir_subst_block(&s, p->body);
		twir_verify_program(j->parsed, p, TW_ERR_INTERNAL);
	}
	if (strcmp(j->text, twir_print_module(j->a, j->parsed)) != 0)
		tw_raise(TW_ERR_INTERNAL, "the copy's text differs:\n%.3000s", twir_print_module(j->a, j->parsed));
	j->trouble = "expressions of a definition";
	if (!same_definitions(j))
		tw_raise(TW_ERR_INTERNAL, "it is another expression");
}

static void random_modules(void **state)
{
	(void)state;
	const char *from = getenv("TW_SEED"), *count = getenv("TW_COUNT");
	const uint64_t first = from ? strtoull(from, NULL, 10) : 1;
	const int n = count ? atoi(count) : 2000;
	print_message("seeds %llu to %llu\n", (unsigned long long)first, (unsigned long long)first + (unsigned)n - 1);
	for (int i = 0; i < n; i++) {
		struct job j = {.a = arena_new()};
		struct tw_error e;
		j.g = (struct gen){.a = j.a, .seed = (first + (uint64_t)i) * 0x9e3779b97f4a7c15u};
		if (!tw_try(&e, run, &j)) {
			print_error("seed %llu, %s: %s\n%s\n", (unsigned long long)first + (unsigned)i, j.trouble,
				    e.text, j.text ? j.text : "");
			fail();
		}
		arena_free(j.a);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(random_modules)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
