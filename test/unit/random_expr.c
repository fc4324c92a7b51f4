/* random_expr: expressions, sizes and tensors of random modules. */
#include <math.h>

#include "random_module_int.h"

uint32_t gen_below(struct gen *g, uint32_t n)
{
	g->seed = g->seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)((g->seed >> 33) % n);
}

bool gen_chance(struct gen *g, int percent)
{
	return (int)gen_below(g, 100) < percent;
}

enum twir_scalar gen_number_type(struct gen *g)
{
	static const enum twir_scalar types[] = {TWIR_F32, TWIR_F32, TWIR_F32, TWIR_F64, TWIR_INDEX, TWIR_INDEX,
						 TWIR_I32, TWIR_I64, TWIR_U8,  TWIR_I8,	 TWIR_U64};
	return types[gen_below(g, TW_COUNT(types))];
}

expr gen_constant(struct gen *g, enum twir_scalar s)
{
	const uint64_t bits = (uint64_t)gen_below(g, UINT32_MAX) << 33 ^ (uint64_t)gen_below(g, UINT32_MAX) << 11 ^
			      gen_below(g, 4096);
	if (twir_is_float(s)) {
		double v;
		static const double known[] = {
			0,	     -0.0,     1,	0.5, -2, 0.1, 1e-7, 1e30, (double)INFINITY, -(double)INFINITY,
			(double)NAN, 16777217, 0x1p-149};
		memcpy(&v, &bits, sizeof(v));
		return twir_float(g->m, s, gen_chance(g, 70) ? known[gen_below(g, TW_COUNT(known))] : v);
	}
	return twir_int(g->m, s, gen_chance(g, 70) ? (int64_t)gen_below(g, 20) - 4 : (int64_t)bits);
}

static expr gen(struct gen *g, enum twir_scalar s, int lanes, int depth);

static expr leaf(struct gen *g, enum twir_scalar s, int lanes)
{
	if (lanes > 1) {
		if (twir_is_int(s) && s != TWIR_I1 && gen_chance(g, 40))
			return twir_iota(g->m, s, lanes);
		return twir_splat(g->m, leaf(g, s, 1), lanes);
	}
	for (int tries = 0; tries < 6 && g->vars.n > 0; tries++) {
		struct twir_var *v = g->vars.at[gen_below(g, (uint32_t)g->vars.n)];
		if (twir_type_eq(v->type, twir_scalar_type(s)))
			return twir_var(g->m, v);
	}
	return gen_constant(g, s);
}

static expr gen_index(struct gen *g, int depth)
{
	return gen(g, TWIR_INDEX, 1, depth > 2 ? 2 : depth);
}

bool gen_spread(const struct twir_tensor *t)
{
	return t->mirrors != NULL;
}

static expr gen_load(struct gen *g, enum twir_scalar s, int lanes, int depth)
{
	for (int tries = 0; tries < 8 && g->readable.n > 0; tries++) {
		struct twir_tensor *t = g->readable.at[gen_below(g, (uint32_t)g->readable.n)];
		if (t->type != s || (gen_spread(t) && !g->region))
			continue;
		if (t->lanes != lanes && (t->lanes != 1 || t->rank == 0 || gen_spread(t)))
			continue;
		expr index[TWIR_MAX_RANK];
		for (int i = 0; i < t->rank; i++)
			index[i] = gen_spread(t) ? twir_var(g->m, g->lane_var) : gen_index(g, depth);
		if (t->lanes == lanes)
			return twir_load(g->m, t, t->rank, index);
		const bool masked = gen_chance(g, 40);
		return twir_load_wide(g->m, t, t->rank, index, lanes, masked ? gen(g, TWIR_I1, lanes, depth) : NULL,
				      masked ? gen(g, s, gen_chance(g, 50) ? lanes : 1, depth) : NULL);
	}
	return leaf(g, s, lanes);
}

static expr gen_fold(struct gen *g, enum twir_scalar s, int depth)
{
	static const enum twir_kind ops[] = {TWIR_Add, TWIR_Mul, TWIR_Min, TWIR_Max, TWIR_MinNum, TWIR_MaxNum};
	static const enum twir_kind bits[] = {TWIR_And, TWIR_Or, TWIR_Xor};
	const enum twir_kind op = s == TWIR_I1 ? bits[gen_below(g, 3)] : ops[gen_below(g, 6)];
	const int n = 1 + (int)gen_below(g, 2), mark = g->vars.n;
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
	if (s == TWIR_I32 && gen_chance(g, 5))
		return twir_dot4(g->m, gen(g, s, lanes, depth), gen(g, s, lanes, depth), gen(g, s, lanes, depth));
	if (gen_chance(g, 15))
		return twir_not(g->m, gen(g, s, lanes, depth));
	return twir_binary(g->m, ops[gen_below(g, TW_COUNT(ops))], gen(g, s, lanes, depth), gen(g, s, lanes, depth));
}

static expr gen_float_op(struct gen *g, enum twir_scalar s, int lanes, int depth)
{
	static const enum twir_kind ops[] = {TWIR_Sqrt, TWIR_Floor, TWIR_Ceil, TWIR_Round, TWIR_Trunc};
	if (gen_chance(g, 50))
		return twir_fma(g->m, gen(g, s, lanes, depth), gen(g, s, gen_chance(g, 50) ? lanes : 1, depth),
				gen(g, s, lanes, depth));
	return twir_unary(g->m, ops[gen_below(g, TW_COUNT(ops))], gen(g, s, lanes, depth));
}

static expr gen_bool(struct gen *g, int lanes, int depth)
{
	static const enum twir_kind compares[] = {TWIR_Lt, TWIR_Le, TWIR_Eq, TWIR_Ne};
	static const enum twir_kind ops[] = {TWIR_And, TWIR_Or, TWIR_Xor};
	if (gen_chance(g, 30))
		return twir_binary(g->m, ops[gen_below(g, 3)], gen(g, TWIR_I1, lanes, depth),
				   gen(g, TWIR_I1, lanes, depth));
	if (gen_chance(g, 15))
		return twir_not(g->m, gen(g, TWIR_I1, lanes, depth));
	const enum twir_scalar s = gen_number_type(g);
	return twir_binary(g->m, compares[gen_below(g, 4)], gen(g, s, lanes, depth),
			   gen(g, s, gen_chance(g, 50) ? lanes : 1, depth));
}

static expr gen_call(struct gen *g, enum twir_scalar s, int depth)
{
	for (int i = 0; i < g->m->funcs.n; i++) {
		struct twir_func *f = g->m->funcs.at[gen_below(g, (uint32_t)g->m->funcs.n)];
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
	if (lanes == 1 && s != TWIR_I1 && gen_chance(g, 50))
		return twir_reduce(g->m, ops[gen_below(g, 4)], gen(g, s, 4, depth));
	if (lanes == 1)
		return twir_extract(g->m, gen(g, s, 4, depth), (int)gen_below(g, 4));
	for (int i = 0; i < g->readable.n; i++) {
		struct twir_tensor *t = g->readable.at[i];
		if (t->type != s || t->lanes != 1 || gen_spread(t))
			continue;
		const bool masked = gen_chance(g, 50);
		return twir_gather(g->m, t, gen(g, gen_chance(g, 50) ? TWIR_I32 : TWIR_INDEX, lanes, depth),
				   masked ? gen(g, TWIR_I1, lanes, depth) : NULL, masked ? gen(g, s, 1, depth) : NULL);
	}
	return leaf(g, s, lanes);
}

enum twir_scalar gen_storage_type(struct gen *g)
{
	static const enum twir_scalar types[] = {TWIR_F16,    TWIR_BF16,       TWIR_F8E4M3FN, TWIR_F8E4M3FNUZ,
						 TWIR_F8E5M2, TWIR_F8E5M2FNUZ, TWIR_F8E8M0,   TWIR_F4E2M1,
						 TWIR_I4,     TWIR_U4,	       TWIR_I2,	      TWIR_U2};
	return types[gen_below(g, TW_COUNT(types))];
}

/* Storage types are loaded, cast, chosen between, and their bits taken. */
static expr make_storage(struct gen *g, enum twir_scalar s, int lanes, int depth)
{
	if (depth <= 0 || --g->budget < 0 || gen_chance(g, 20))
		return leaf(g, s, lanes);
	depth--;
	if (gen_chance(g, 30))
		return gen_load(g, s, lanes, depth);
	if (lanes == 1 && gen_chance(g, 20))
		return twir_cond(g->m, gen(g, TWIR_I1, 1, depth), gen(g, s, 1, depth), gen(g, s, 1, depth));
	if (twir_scalar_bits(s) == 8 && gen_chance(g, 20))
		return twir_bitcast(g->m, s, gen(g, TWIR_U8, lanes, depth));
	return twir_cast(g->m, s, gen(g, gen_chance(g, 20) ? gen_storage_type(g) : gen_number_type(g), lanes, depth));
}

static expr gen_shuffle(struct gen *g, enum twir_scalar s, int depth)
{
	static const enum twir_kind ops[] = {TWIR_ShflUp, TWIR_ShflDown, TWIR_ShflXor, TWIR_ShflIdx};
	return twir_binary(g->m, ops[gen_below(g, 4)], gen(g, s, 1, depth), gen_index(g, depth));
}

static expr make(struct gen *g, enum twir_scalar s, int lanes, int depth)
{
	static const enum twir_kind common[] = {TWIR_Add, TWIR_Sub, TWIR_Mul,	 TWIR_Div,
						TWIR_Min, TWIR_Max, TWIR_MinNum, TWIR_MaxNum};
	static const enum twir_kind prefix[] = {TWIR_Neg, TWIR_Abs};
	if (twir_is_storage(s))
		return make_storage(g, s, lanes, depth);
	if (depth <= 0 || --g->budget < 0)
		return leaf(g, s, lanes);
	depth--;
	const int other = gen_chance(g, 25) ? 1 : lanes; /* a scalar beside a vector is splat */
	switch (gen_below(g, 12)) {
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
		return twir_cast(g->m, s,
				 gen(g,
				     gen_chance(g, 30)	 ? TWIR_I1
				     : gen_chance(g, 25) ? gen_storage_type(g)
							 : gen_number_type(g),
				     lanes, depth));
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
		if (g->gpu && lanes == 1 && s != TWIR_I1)
			return gen_shuffle(g, s, depth);
		break;
	case 8:
		if (s != TWIR_I1)
			return twir_unary(g->m, prefix[gen_below(g, 2)], gen(g, s, lanes, depth));
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
	return twir_binary(g->m, common[gen_below(g, TW_COUNT(common))], gen(g, s, lanes, depth),
			   gen(g, s, other, depth));
}

static expr gen(struct gen *g, enum twir_scalar s, int lanes, int depth)
{
	expr e = make(g, s, lanes, depth);
	return e->type.lanes == lanes ? e : twir_splat(g->m, e, lanes);
}

expr gen_fresh(struct gen *g, enum twir_scalar s, int lanes, int depth)
{
	g->budget = 60;
	return gen(g, s, lanes, depth);
}

const char *gen_word(struct gen *g)
{
	static const char *const words[] = {"x",    "i",   "j", "acc", "part", "onnx::Conv_1/a.b",
					    "core", "sum", "7", "f32", "y_1",  "row"};
	return words[gen_below(g, TW_COUNT(words))];
}

expr gen_size(struct gen *g)
{
	if (gen_chance(g, 40) && g->m->symbols.n > 0)
		return twir_var(g->m, g->m->symbols.at[gen_below(g, (uint32_t)g->m->symbols.n)]);
	if (gen_chance(g, 30) && g->m->symbols.n > 0)
		return twir_ceildiv(g->m, twir_var(g->m, g->m->symbols.at[0]), twir_index(g->m, 1 + gen_below(g, 32)));
	return twir_index(g->m, gen_below(g, 9));
}

/* No two elements of known sizes (below 1000) at one place. */
static const struct twir_layout *strides(struct gen *g, int rank, const expr *shape)
{
	expr apart[TWIR_MAX_RANK];
	bool known = true;
	int64_t n, power = 1;
	for (int i = 0; i < rank; i++, power *= 1000) {
		known &= twir_const_int(shape[i], &n);
		apart[i] = twir_index(g->m, power);
	}
	for (int i = rank - 1; i > 0; i--) {
		const int k = (int)gen_below(g, (uint32_t)i + 1);
		const expr e = apart[i];
		apart[i] = apart[k];
		apart[k] = e;
	}
	return twir_layout_make(g->m, TWIR_LAYOUT_STRIDES, rank, known ? apart : shape, NULL);
}

static const struct twir_layout *layout(struct gen *g, enum twir_scope scope, int rank, const expr *shape)
{
	if (gen_chance(g, 20))
		return strides(g, rank, shape);
	if (gen_chance(g, 20)) {
		expr tile[TWIR_MAX_RANK];
		for (int i = 0; i < rank; i++)
			tile[i] = twir_index(g->m, 1 + gen_below(g, 16));
		return twir_layout_blocked(g->m, rank, shape, tile);
	}
	const struct twir_layout *l = gen_chance(g, 50) ? twir_layout_row(g->m, rank, shape, NULL) : NULL;
	const bool local = scope == TWIR_REGISTER && g->gpu;
	for (int n = l ? (int)gen_below(g, 2) : 1; n > 0; n--) {
		const enum twir_layout_kind kind = gen_chance(g, 50)		? TWIR_LAYOUT_ROW
						   : local && gen_chance(g, 50) ? TWIR_LAYOUT_LOCAL
										: TWIR_LAYOUT_COLUMN;
		struct twir_swizzle s = {.on = true,
					 .dim = (int)gen_below(g, (uint32_t)rank),
					 .by = (int)gen_below(g, (uint32_t)rank),
					 .shift = gen_chance(g, 50) ? 0 : (int)gen_below(g, 5)};
		s.on = !twir_bad_swizzle(kind, rank, shape, &s);
		l = twir_layout_factor(g->m, kind, rank, shape, &s, l);
	}
	return l;
}

struct twir_tensor *gen_tensor(struct gen *g, enum twir_scope scope)
{
	expr shape[TWIR_MAX_RANK];
	const int rank = (int)gen_below(g, 4);
	for (int i = 0; i < rank; i++)
		shape[i] = scope == TWIR_REGISTER ? twir_index(g->m, gen_below(g, 5)) : gen_size(g);
	struct twir_tensor *t = twir_tensor_new(
		g->m, gen_word(g), gen_chance(g, 15) ? gen_storage_type(g) : gen_number_type(g), rank, shape, scope);
	if (scope == TWIR_REGISTER && g->vectors && gen_chance(g, 50))
		t->lanes = 4;
	else if (rank > 0 && gen_chance(g, 25))
		t->layout = layout(g, scope, rank, shape);
	return t;
}
