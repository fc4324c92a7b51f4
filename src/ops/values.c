/* values.c: what small tensors hold, as far as it is known when the model is compiled.
 *
 * Shape arithmetic (Shape, Gather, Concat, Cast, Mul, Floor ..) needs no code of its own: an output's compute
 * definition is evaluated element by element, loads replaced by the elements of the inputs. Input: the definitions
 * of a node and the values of its inputs. Output: values of its outputs, as numbers or expressions over symbols; or
 * constant data, when all inputs are constants. Invariant: what cannot be expressed exactly stays unknown.
 *
 * A float value is kept as size * scale, which is all that dynamic models do with sizes; rounding down then gives a
 * division. */
#include "ops/op.h"

#include <math.h>

enum { MAX_VALUES = 256, MAX_CONSTANTS = 65536, MAX_STEPS = 100000, MAX_FOLD = 16384, MAX_WORK = 1 << 21 };

int64_t tw_data_int(enum twir_scalar type, const void *data, int64_t i)
{
	const uint8_t *at = (const uint8_t *)data + i * twir_scalar_bytes(type);
	uint64_t bits = 0;
	if (twir_is_float(type)) {
		const double v = tw_data_float(type, data, i);
		return v != v ? 0 : v >= 9.2e18 ? INT64_MAX : v <= -9.2e18 ? INT64_MIN : (int64_t)v;
	}
	const int bytes = twir_scalar_bytes(type);
	memcpy(&bits, at, (size_t)bytes);
	if (twir_is_signed(type) && bytes < 8 && bits >> (8 * bytes - 1))
		bits |= ~0ull << 8 * bytes;
	return (int64_t)bits;
}

double tw_data_float(enum twir_scalar type, const void *data, int64_t i)
{
	const uint8_t *at = (const uint8_t *)data + i * twir_scalar_bytes(type);
	uint16_t h;
	float f;
	double d;
	switch (type) {
	case TWIR_F16:
		memcpy(&h, at, sizeof h);
		return tw_f16_to_f32(h);
	case TWIR_BF16:
		memcpy(&h, at, sizeof h);
		return tw_bf16_to_f32(h);
	case TWIR_F32:
		memcpy(&f, at, sizeof f);
		return f;
	case TWIR_F64:
		memcpy(&d, at, sizeof d);
		return d;
	case TWIR_U64:
		return (double)(uint64_t)tw_data_int(type, data, i);
	default:
		if (twir_is_storage(type))
			return twir_float_value(type, *at);
		return (double)tw_data_int(type, data, i);
	}
}

static int64_t count_elements(const struct tw_graph *g, tw_id id)
{
	int64_t dims[TWIR_MAX_RANK], n = 1;
	bool bad = false;
	if (!tw_graph_static(g, id, dims))
		return -1;
	for (int d = 0; d < g->tensors.at[id].rank; d++)
		n = tw_mul64(n, dims[d], &bad);
	return bad ? -1 : n;
}

int tw_tensor_values(struct tw_graph *g, tw_id id, const struct twir_expr *const **values)
{
	struct tw_tensor *t = &g->tensors.at[id];
	if (!twir_is_int(t->type))
		return -1;
	if (t->nvalues < 0 && t->data) {
		const int64_t n = count_elements(g, id);
		if (n < 0 || n > MAX_CONSTANTS)
			return -1;
		t->values = ARENA_ARRAY(g->arena, const struct twir_expr *, n);
		for (int64_t i = 0; i < n; i++) {
			const int64_t v = tw_data_int(t->type, t->data, i);
			t->values[i] = t->type == TWIR_I1 ? twir_bool(g->m, v != 0) : twir_index(g->m, v);
		}
		t->nvalues = (int)n;
	}
	*values = t->values;
	return t->nvalues;
}

/* ---- evaluation */

struct value {			   /* e == NULL: not known */
	const struct twir_expr *e; /* index or i1 */
	double scale;		   /* of a float: value = e * scale */
	bool is_float;
};

struct binding {
	const struct twir_var *var;
	int64_t value;
	const struct binding *next;
};

struct evaluator {
	struct tw_opctx *x;
	int steps;
};

static const struct value unknown;

static struct value eval(struct evaluator *v, const struct twir_expr *e, const struct binding *b);

static struct value of_int(struct evaluator *v, const struct twir_expr *e)
{
	return (struct value){.e = tw_simplify(v->x, e), .scale = 1};
}

static struct value of_float(struct evaluator *v, double f)
{
	return (struct value){.e = twir_index(v->x->m, 1), .scale = f, .is_float = true};
}

/* A float that depends on no symbol. */
static bool plain(struct value a, double *f)
{
	int64_t n;
	if (!a.e || !a.is_float || !twir_const_int(a.e, &n))
		return false;
	*f = (double)n * a.scale;
	return true;
}

static bool not_negative(struct evaluator *v, const struct twir_expr *e)
{
	struct twir_facts f;
	twir_facts_init(&f, v->x->m);
	return twir_range_of(&f, e).lo >= 0;
}

static double round_to(enum twir_scalar type, double f)
{
	return type == TWIR_F64 ? f : (double)(float)f;
}

/* floor(e * scale) as an integer, where that is exact. */
static struct value rounded(struct evaluator *v, struct value a, enum twir_kind how)
{
	double f;
	if (plain(a, &f)) {
		f = how == TWIR_Floor	? floor(f)
		    : how == TWIR_Ceil	? ceil(f)
		    : how == TWIR_Round ? nearbyint(f)
					: trunc(f);
		return of_float(v, f);
	}
	if (!a.e || !not_negative(v, a.e) || a.scale <= 0)
		return unknown;
	if (a.scale == floor(a.scale))
		return a;
	const double inverse = 1 / a.scale;
	if (inverse != floor(inverse) || inverse > 1e6 || how == TWIR_Round)
		return unknown;
	const struct twir_expr *by = twir_index(v->x->m, (int64_t)inverse);
	const struct twir_expr *q = how == TWIR_Ceil ? twir_ceildiv(v->x->m, a.e, by) : twir_div(v->x->m, a.e, by);
	return (struct value){.e = tw_simplify(v->x, q), .scale = 1, .is_float = true};
}

static struct value float_binary(struct evaluator *v, const struct twir_expr *e, struct value a, struct value b)
{
	double fa = 0, fb = 0;
	const bool pa = plain(a, &fa), pb = plain(b, &fb);
	if (pa && pb) {
		switch (e->kind) {
		case TWIR_Add:
			return of_float(v, round_to(e->type.scalar, fa + fb));
		case TWIR_Sub:
			return of_float(v, round_to(e->type.scalar, fa - fb));
		case TWIR_Mul:
			return of_float(v, round_to(e->type.scalar, fa * fb));
		case TWIR_Div:
			return of_float(v, round_to(e->type.scalar, fa / fb));
		default:
			return unknown;
		}
	}
	if (e->kind == TWIR_Mul && pb)
		return (struct value){.e = a.e, .scale = a.scale * fb, .is_float = true};
	if (e->kind == TWIR_Mul && pa)
		return (struct value){.e = b.e, .scale = b.scale * fa, .is_float = true};
	if (e->kind == TWIR_Div && pb && fb != 0)
		return (struct value){.e = a.e, .scale = a.scale / fb, .is_float = true};
	return unknown;
}

/* A model's division goes to zero, that of sizes down: of a negative number by a positive one. */
static const struct twir_expr *truncated(struct twir_module *m, enum twir_kind kind, const struct twir_expr *a,
					 const struct twir_expr *b)
{
	const struct twir_expr *zero = twir_index(m, 0), *minus = twir_sub(m, zero, a);
	return twir_select(m, twir_lt(m, a, zero), twir_sub(m, zero, twir_binary(m, kind, minus, b)),
			   twir_binary(m, kind, a, b));
}

static struct value int_binary(struct evaluator *v, const struct twir_expr *e, const struct twir_expr *a,
			       const struct twir_expr *b)
{
	struct twir_module *m = v->x->m;
	int64_t ca, cb;
	const bool consts = twir_const_int(a, &ca) && twir_const_int(b, &cb);
	if ((e->kind == TWIR_Div || e->kind == TWIR_Mod) && e->type.scalar != TWIR_INDEX) {
		if (consts && cb != 0 && cb != -1)
			return of_int(v, twir_index(m, e->kind == TWIR_Div ? ca / cb : ca % cb));
		if (!not_negative(v, a) && twir_const_int(b, &cb) && cb > 0)
			return of_int(v, truncated(m, (enum twir_kind)e->kind, a, b));
		if (!not_negative(v, a) || !not_negative(v, b))
			return unknown;
	}
	switch (e->kind) {
	case TWIR_Shl:
	case TWIR_Shr:
	case TWIR_Xor:
		return unknown;
	case TWIR_And:
	case TWIR_Or:
		if (e->type.scalar != TWIR_I1)
			return unknown;
		break;
	default:
		break;
	}
	return of_int(v, twir_binary(m, (enum twir_kind)e->kind, a, b));
}

static struct value cast_value(struct evaluator *v, const struct twir_expr *e, struct value a)
{
	struct twir_module *m = v->x->m;
	const enum twir_scalar from = e->arg[0]->type.scalar, to = e->type.scalar;
	int64_t n;
	if (twir_is_float(to)) {
		double f;
		if (plain(a, &f))
			return to == TWIR_F32 || to == TWIR_F64 ? of_float(v, round_to(to, f)) : unknown;
		if (a.is_float || from == TWIR_I1)
			return a.is_float ? a : unknown;
		return (struct value){.e = a.e, .scale = 1, .is_float = true};
	}
	if (a.is_float) {
		a = rounded(v, a, TWIR_Trunc);
		if (!a.e || to == TWIR_I1)
			return unknown;
		if (a.scale != floor(a.scale) || fabs(a.scale) > 1e15)
			return unknown;
		a.e = twir_mul(m, a.e, twir_index(m, (int64_t)a.scale));
		return of_int(v, a.e);
	}
	if (to == TWIR_I1)
		return from == TWIR_I1 ? a : of_int(v, twir_ne(m, a.e, twir_index(m, 0)));
	if (from == TWIR_I1)
		return of_int(v, twir_select(m, a.e, twir_index(m, 1), twir_index(m, 0)));
	if (twir_scalar_bytes(to) == 8)
		return a;
	if (twir_const_int(a.e, &n)) {
		const int64_t wrapped = tw_data_int(to, &n, 0);
		return of_int(v, twir_index(m, wrapped));
	}
	return to == TWIR_I32 ? a : unknown;
}

/* An element of a graph tensor, or of a temporary by its definition. */
static struct value load_value(struct evaluator *v, const struct twir_expr *e, const struct binding *b)
{
	struct tw_opctx *x = v->x;
	int64_t at[TWIR_MAX_RANK], flat = 0;
	const struct twir_tensor *t = e->u.tensor;
	if (e->n != e->nidx)
		return unknown;
	for (int d = 0; d < e->nidx; d++) {
		const struct value i = eval(v, e->arg[d], b);
		int64_t size;
		if (!i.e || !twir_const_int(i.e, &at[d]) || at[d] < 0)
			return unknown;
		if (twir_const_int(t->shape[d], &size) && at[d] >= size)
			return unknown;
		if (d && !twir_const_int(t->shape[d], &size))
			return unknown;
		flat = d ? flat * size + at[d] : at[d];
	}
	for (int k = 0; k < x->computes.n; k++) {
		const struct twir_compute *c = x->computes.at[k];
		if (c->out != t)
			continue;
		struct binding axes[TWIR_MAX_RANK];
		for (int d = 0; d < t->rank; d++)
			axes[d] = (struct binding){.var = c->axes[d], .value = at[d], .next = d ? &axes[d - 1] : NULL};
		return eval(v, c->value, t->rank ? &axes[t->rank - 1] : NULL);
	}
	for (int k = 0; k < x->node->nin; k++) {
		const tw_id id = x->node->in[k];
		if (id == TW_NONE || x->g->tensors.at[id].ir != t)
			continue;
		const struct tw_tensor *gt = &x->g->tensors.at[id];
		const struct twir_expr *const *values;
		if (twir_is_float(gt->type)) {
			if (gt->data)
				return of_float(v, tw_data_float(gt->type, gt->data, flat));
			if (flat >= gt->nvalues)
				return unknown;
			return eval(v, gt->values[flat], NULL);
		}
		const int n = tw_tensor_values(x->g, id, &values);
		return flat < n ? (struct value){.e = values[flat], .scale = 1} : unknown;
	}
	return unknown;
}

static struct value fold_value(struct evaluator *v, const struct twir_expr *e, const struct binding *b)
{
	const int n = e->n - 1;
	int64_t extent[TWIR_MAX_RANK], total = 1;
	if (n > TWIR_MAX_RANK || twir_is_float(e->type.scalar))
		return unknown;
	for (int d = 0; d < n; d++) {
		const struct value s = eval(v, e->arg[1 + d], b);
		if (!s.e || !twir_const_int(s.e, &extent[d]) || extent[d] > MAX_VALUES ||
		    (total *= extent[d]) > MAX_VALUES)
			return unknown;
	}
	const struct twir_expr *neutral = twir_neutral(v->x->m, (enum twir_kind)e->op, e->type);
	int64_t start = 0;
	if (neutral->type.scalar != TWIR_I1 && !twir_const_int(neutral, &start))
		return unknown;
	const struct twir_expr *sum = neutral->type.scalar == TWIR_I1 ? neutral : twir_index(v->x->m, start);
	for (int64_t i = 0; i < total; i++) {
		struct binding axes[TWIR_MAX_RANK];
		int64_t rest = i;
		for (int d = n - 1; d >= 0; d--) {
			axes[d] = (struct binding){
				.var = e->u.axes[d], .value = rest % extent[d], .next = d ? &axes[d - 1] : b};
			rest /= extent[d];
		}
		const struct value one = eval(v, e->arg[0], n ? &axes[n - 1] : b);
		if (!one.e)
			return unknown;
		sum = tw_simplify(v->x, twir_binary(v->x->m, (enum twir_kind)e->op, sum, one.e));
	}
	return (struct value){.e = sum, .scale = 1};
}

static struct value choose(struct evaluator *v, const struct twir_expr *e, const struct binding *b)
{
	const struct value c = eval(v, e->arg[0], b);
	if (!c.e)
		return unknown;
	int64_t known;
	if (c.e->kind == TWIR_Const && twir_const_int(c.e, &known))
		return eval(v, e->arg[known ? 1 : 2], b);
	const struct value yes = eval(v, e->arg[1], b), no = eval(v, e->arg[2], b);
	if (!yes.e || !no.e || yes.is_float || no.is_float)
		return unknown;
	return of_int(v, twir_select(v->x->m, c.e, yes.e, no.e));
}

static struct value unary_value(struct evaluator *v, const struct twir_expr *e, struct value a)
{
	struct twir_module *m = v->x->m;
	if (a.is_float) {
		if (e->kind == TWIR_Floor || e->kind == TWIR_Ceil || e->kind == TWIR_Round || e->kind == TWIR_Trunc)
			return rounded(v, a, (enum twir_kind)e->kind);
		return e->kind == TWIR_Neg ? (struct value){.e = a.e, .scale = -a.scale, .is_float = true} : unknown;
	}
	if (e->kind == TWIR_Neg || e->kind == TWIR_Abs || (e->kind == TWIR_Not && e->type.scalar == TWIR_I1))
		return of_int(v, twir_unary(m, (enum twir_kind)e->kind, a.e));
	return unknown;
}

static struct value eval(struct evaluator *v, const struct twir_expr *e, const struct binding *b)
{
	struct twir_module *m = v->x->m;
	if (++v->steps > MAX_STEPS)
		return unknown;
	switch (e->kind) {
	case TWIR_Const:
		if (twir_is_float(e->type.scalar))
			return of_float(v, e->u.f);
		return of_int(v, e->type.scalar == TWIR_I1 ? e : twir_index(m, e->u.i));
	case TWIR_Var:
		for (; b; b = b->next)
			if (b->var == e->u.var)
				return of_int(v, twir_index(m, b->value));
		return e->u.var->kind == TWIR_SYMBOL ? of_int(v, e) : unknown;
	case TWIR_Load:
		return load_value(v, e, b);
	case TWIR_Fold:
		return fold_value(v, e, b);
	case TWIR_Select:
	case TWIR_Cond:
		return choose(v, e, b);
	default:
		break;
	}
	if (e->n < 1 || e->n > 2 || e->kind == TWIR_Call)
		return unknown;
	const struct value a = eval(v, e->arg[0], b);
	if (!a.e)
		return unknown;
	if (e->kind == TWIR_Cast)
		return cast_value(v, e, a);
	if (e->n == 1)
		return unary_value(v, e, a);
	const struct value c = eval(v, e->arg[1], b);
	if (!c.e)
		return unknown;
	if (a.is_float || c.is_float)
		return float_binary(v, e, a, c);
	return int_binary(v, e, a.e, c.e);
}

/* ---- outputs */

static const struct twir_expr *as_expr(struct tw_opctx *x, enum twir_scalar type, struct value v)
{
	if (!v.is_float)
		return v.e;
	const enum twir_scalar t = type == TWIR_F64 ? TWIR_F64 : TWIR_F32;
	double f;
	if (plain(v, &f))
		return twir_float(x->m, t, f);
	const struct twir_expr *e = twir_cast(x->m, t, v.e);
	return v.scale == 1 ? e : twir_mul(x->m, e, twir_float(x->m, t, v.scale));
}

static const struct twir_compute *definition_of(const struct tw_opctx *x, const struct twir_tensor *t)
{
	for (int i = 0; i < x->computes.n; i++)
		if (x->computes.at[i]->out == t)
			return x->computes.at[i];
	return NULL;
}

static void evaluate(struct tw_opctx *x, tw_id id)
{
	const int64_t n = count_elements(x->g, id);
	if (n < 0 || n > MAX_VALUES || x->g->tensors.at[id].nvalues >= 0)
		return;
	const struct twir_tensor *ir = tw_graph_ir(x->g, id);
	const struct twir_compute *c = definition_of(x, ir);
	if (!c)
		return;
	struct evaluator v = {.x = x};
	const struct twir_expr **values = ARENA_ARRAY(x->g->arena, const struct twir_expr *, n);
	for (int64_t i = 0; i < n; i++) {
		struct binding axes[TWIR_MAX_RANK];
		int64_t rest = i;
		for (int d = ir->rank - 1; d >= 0; d--) {
			int64_t size = 1;
			twir_const_int(ir->shape[d], &size);
			axes[d] = (struct binding){
				.var = c->axes[d], .value = rest % size, .next = d ? &axes[d - 1] : NULL};
			rest /= size;
		}
		const struct value one = eval(&v, c->value, ir->rank ? &axes[ir->rank - 1] : NULL);
		if (!one.e)
			return;
		values[i] = as_expr(x, ir->type, one);
	}
	x->g->tensors.at[id].values = values;
	x->g->tensors.at[id].nvalues = (int)n;
}

struct work { /* of one element of a definition: products of fold extents */
	int64_t most;
	bool unknown;
};

static void count_fold(void *arg, const struct twir_expr *e)
{
	struct work *w = arg;
	int64_t n = 1, size;
	for (int k = 1; e->kind == TWIR_Fold && k < e->n; k++) {
		if (!twir_const_int(e->arg[k], &size))
			w->unknown = true;
		else
			n = size > 0 && n > MAX_WORK / size ? MAX_WORK : n * size;
	}
	w->most = n > w->most ? n : w->most;
}

/* Does the interpreter take no time to speak of? Folds do not nest in definitions. */
static bool quick(const struct twir_compute *c)
{
	struct work w = {.most = 1};
	int64_t n = 1, size = 0;
	for (int d = 0; d < c->out->rank; d++)
		if (!twir_const_int(c->out->shape[d], &size) || (n *= size) > MAX_FOLD)
			return false;
	twir_visit_expr(c->value, count_fold, &w);
	return !w.unknown && w.most <= MAX_WORK && n * w.most <= MAX_WORK;
}

/* All inputs constants and everything small: the interpreter gives the data. */
bool tw_keeps_constants(const struct tw_graph *g, const struct tw_node *n)
{
	const struct tw_tensor *t = n->nin > 0 && n->in[0] != TW_NONE ? &g->tensors.at[n->in[0]] : NULL;
	return (n->op->flags & TW_OP_KEEPS) && t && t->rank > 1 && twir_scalar_bytes(t->type) == 1 &&
	       t->narrow == TWIR_VOID;
}

static bool all_constant(const struct tw_opctx *x)
{
	for (int k = 0; k < x->node->nin; k++) {
		const tw_id id = x->node->in[k];
		if (id == TW_NONE)
			continue;
		const struct tw_tensor *t = &x->g->tensors.at[id];
		if (!t->data || t->bytes > 8 * MAX_FOLD)
			return false;
	}
	if ((x->node->op->flags & (TW_OP_RANDOM | TW_OP_HOST)) || tw_keeps_constants(x->g, x->node))
		return false;
	for (int k = 0; k < x->node->nout; k++) {
		const tw_id id = x->node->out[k];
		const int64_t n = id == TW_NONE ? 0 : count_elements(x->g, id);
		if (n < 0 || n > MAX_FOLD)
			return false;
	}
	for (int i = 0; i < x->computes.n; i++)
		if (!quick(x->computes.at[i]))
			return false;
	return true;
}

struct memory { /* tensors that hold data while a node is folded */
	VEC(struct twir_tensor *) tensors;
	VEC(struct twir_data) data;
	int64_t (*shapes)[TWIR_MAX_RANK];
};

static void put(struct tw_arena *a, struct memory *m, struct twir_tensor *t, void *at)
{
	int64_t n = 1;
	const int row = m->tensors.n;
	for (int d = 0; d < t->rank; d++) {
		int64_t size = 0;
		twir_const_int(t->shape[d], &size);
		m->shapes[row][d] = size;
		n *= size;
	}
	vec_push(a, &m->tensors, t);
	const struct twir_data data = {.at = at ? at : arena_alloc(a, (size_t)(n * twir_scalar_bytes(t->type)) + 1),
				       .elements = n};
	vec_push(a, &m->data, data);
}

static void fold(struct tw_opctx *x)
{
	struct tw_arena *a = x->g->arena;
	struct memory mem = {0};
	mem.shapes = arena_alloc_array(a, sizeof *mem.shapes, x->g->tensors.n + x->computes.n);
	for (int k = 0; k < x->g->tensors.n; k++) { /* inputs, and tables that the operator made */
		struct tw_tensor *t = &x->g->tensors.at[k];
		if (!t->ir || !t->data || t->bytes > 8 * MAX_FOLD)
			continue;
		bool used = false;
		for (int i = 0; i < x->computes.n && !used; i++)
			used = twir_uses_tensor(x->computes.at[i]->value, t->ir);
		if (used)
			put(a, &mem, t->ir, arena_copy(a, t->data, (size_t)t->bytes + (t->bytes == 0)));
	}
	for (int i = 0; i < x->computes.n; i++) {
		put(a, &mem, x->computes.at[i]->out, NULL);
		const struct twir_binding none = {0};
		const struct twir_env env = {.n = mem.tensors.n - 1,
					     .tensors = mem.tensors.at,
					     .data = mem.data.at,
					     .shapes = (const int64_t(*)[TWIR_MAX_RANK])mem.shapes};
		twir_interpret_compute(x->m, x->computes.at[i], &none, &env, mem.data.at[mem.data.n - 1]);
	}
	for (int k = 0; k < x->node->nout; k++)
		for (int i = 0; i < mem.tensors.n && tw_has_out(x, k); i++) {
			struct tw_tensor *t = tw_out(x, k);
			if (t->ir != mem.tensors.at[i])
				continue;
			t->data = mem.data.at[i].at;
			t->bytes = mem.data.at[i].elements * twir_scalar_bytes(t->type);
		}
}

void tw_evaluate_outputs(struct tw_opctx *x)
{
	if (!x->computes.n)
		return;
	if (all_constant(x)) {
		fold(x);
		return;
	}
	for (int k = 0; k < x->node->nout; k++)
		if (tw_has_out(x, k))
			evaluate(x, x->node->out[k]);
}
