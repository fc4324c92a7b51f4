/* context.c: what shape inference of every operator is written with.
 *
 * Input: a node in a graph. Output: types, shapes and values of its inputs; types and shapes of its outputs. Every
 * complaint names the node, its operator and opset. */
#include "ops/op.h"

#include <inttypes.h>
#include <stdio.h>

/* Of a loop or branch laid out flat: what its nodes know each other by, no tensor of the model */
static bool is_token(const struct tw_graph *g, tw_id id)
{
	const tw_id made_by = g->tensors.at[id].producer;
	const struct tw_node *n = made_by == TW_NONE ? NULL : &g->nodes.at[made_by];
	return n && n->op && n->nout && n->out[0] == id &&
	       (!strcmp(n->op->name, "BranchBegin") || !strcmp(n->op->name, "BranchElse") ||
		!strcmp(n->op->name, "LoopBegin"));
}

/* "; its inputs: 'x' f32[N, 3], 'w' f32[16, 4]": what the complaint is about */
static const char *inputs_text(struct tw_opctx *x)
{
	enum { MOST = 6, LONGEST = 100 };
	const struct tw_node *n = x->node;
	struct tw_buf b;
	buf_init(&b, x->arena);
	for (int i = 0; i < n->nin && i < MOST; i++) {
		if (n->in[i] == TW_NONE || x->g->tensors.at[n->in[i]].rank < 0 || is_token(x->g, n->in[i]))
			continue;
		buf_printf(&b, "%s'%.*s' %.*s", b.n ? ", " : "; its inputs: ", LONGEST, x->g->tensors.at[n->in[i]].name,
			   LONGEST, tw_graph_shape_text(x->arena, x->g, n->in[i]));
	}
	return b.n ? b.at : "";
}

void tw_op_fail(struct tw_opctx *x, enum tw_code code, const char *fmt, ...)
{
	char text[1024];
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	tw_raise(code, "node '%s' (%s, opset %d): %s%s", x->node->name, x->node->op_type, x->node->opset, text,
		 inputs_text(x));
}

bool tw_has_in(struct tw_opctx *x, int i)
{
	return i < x->node->nin && x->node->in[i] != TW_NONE;
}

bool tw_has_out(struct tw_opctx *x, int i)
{
	return i < x->node->nout && x->node->out[i] != TW_NONE;
}

struct tw_tensor *tw_in(struct tw_opctx *x, int i)
{
	if (!tw_has_in(x, i))
		tw_op_fail(x, TW_ERR_MODEL, "input %d is missing", i);
	return &x->g->tensors.at[x->node->in[i]];
}

struct tw_tensor *tw_out(struct tw_opctx *x, int i)
{
	if (!tw_has_out(x, i))
		tw_op_fail(x, TW_ERR_MODEL, "output %d is missing", i);
	return &x->g->tensors.at[x->node->out[i]];
}

enum twir_scalar tw_in_type(struct tw_opctx *x, int i)
{
	return tw_in(x, i)->type;
}

int tw_in_rank(struct tw_opctx *x, int i)
{
	return tw_in(x, i)->rank;
}

const struct twir_expr *tw_in_dim(struct tw_opctx *x, int i, int d)
{
	const struct tw_tensor *t = tw_in(x, i);
	const int at = d < 0 ? d + t->rank : d;
	if (at < 0 || at >= t->rank)
		tw_op_fail(x, TW_ERR_MODEL, "input %d has rank %d, which is too low", i, t->rank);
	return t->shape[at];
}

void tw_set_out(struct tw_opctx *x, int i, enum twir_scalar type, int rank, const struct twir_expr *const *shape)
{
	if (!tw_has_out(x, i))
		return;
	if (rank > TWIR_MAX_RANK)
		tw_op_fail(x, TW_ERR_UNSUPPORTED, "output of rank %d; at most %d are supported", rank, TWIR_MAX_RANK);
	const struct twir_expr **sizes = ARENA_ARRAY(x->g->arena, const struct twir_expr *, rank);
	for (int d = 0; d < rank; d++) {
		int64_t n;
		sizes[d] = tw_simplify(x, shape[d]);
		if (twir_const_int(sizes[d], &n) && n < 0)
			tw_op_fail(x, TW_ERR_MODEL, "size %d of output %d would be %" PRId64, d, i, n);
	}
	struct tw_tensor *t = tw_out(x, i);
	t->type = type;
	t->rank = rank;
	t->shape = sizes;
}

/* ---- types */

static bool in_class(enum twir_scalar t, const char *word, size_t n)
{
	static const struct {
		const char *name;
		unsigned set;
	} classes[] = {
#define B(T) (1u << TWIR_##T)
		{"float", B(F16) | B(BF16) | B(F32) | B(F64)},
		{"signed", B(I8) | B(I16) | B(I32) | B(I64)},
		{"unsigned", B(U8) | B(U16) | B(U32) | B(U64)},
		{"int", B(I8) | B(I16) | B(I32) | B(I64) | B(U8) | B(U16) | B(U32) | B(U64)},
		{"numeric", B(F16) | B(BF16) | B(F32) | B(F64) | B(I8) | B(I16) | B(I32) | B(I64) | B(U8) | B(U16) |
				    B(U32) | B(U64)},
		{"bool", B(I1)},
		{"index", B(I32) | B(I64)},
		{"any", ~0u},
#undef B
	};
	for (int i = 0; i < TW_COUNT(classes); i++)
		if (strlen(classes[i].name) == n && !memcmp(classes[i].name, word, n))
			return classes[i].set >> t & 1;
	const char *name = twir_scalar_name(t);
	return strlen(name) == n && !memcmp(name, word, n);
}

void tw_need_type(struct tw_opctx *x, int i, const char *allowed)
{
	const enum twir_scalar t = tw_in_type(x, i);
	for (const char *word = allowed; *word;) {
		const size_t n = strcspn(word, " ");
		if (in_class(t, word, n))
			return;
		word += n;
		word += strspn(word, " ");
	}
	tw_op_fail(x, TW_ERR_UNSUPPORTED, "input %d of type %s is not supported; %s is", i, twir_scalar_name(t),
		   !strcmp(allowed, "index") ? "i32 or i64" : allowed);
}

void tw_need_same_type(struct tw_opctx *x, int first, int last)
{
	for (int i = first + 1; i <= last; i++)
		if (tw_has_in(x, i) && tw_in_type(x, i) != tw_in_type(x, first))
			tw_op_fail(x, TW_ERR_MODEL, "inputs %d and %d have different types, %s and %s", first, i,
				   twir_scalar_name(tw_in_type(x, first)), twir_scalar_name(tw_in_type(x, i)));
}

const char *tw_narrow_name(enum twir_scalar narrow)
{
	switch (narrow) {
	case TWIR_U4:
		return "uint4";
	case TWIR_I4:
		return "int4";
	case TWIR_U2:
		return "uint2";
	case TWIR_I2:
		return "int2";
	default:
		return "float4e2m1";
	}
}

const struct twir_expr *tw_from_narrow(struct tw_opctx *x, enum twir_scalar narrow, const struct twir_expr *byte)
{
	if (narrow != TWIR_F4E2M1)
		return byte;
	return twir_cast(x->m, TWIR_F32, twir_bitcast(x->m, TWIR_F4E2M1, twir_cast(x->m, TWIR_U4, byte)));
}

const struct twir_expr *tw_to_narrow(struct tw_opctx *x, enum twir_scalar narrow, const struct twir_expr *number)
{
	struct twir_module *m = x->m;
	if (narrow == TWIR_F4E2M1) {
		const struct twir_expr *bits =
			twir_cast(m, TWIR_U8, twir_bitcast(m, TWIR_U4, twir_cast(m, narrow, number)));
		if (!twir_is_float(number->type.scalar))
			return bits;
		return twir_select(m, twir_ne(m, number, number), twir_int(m, TWIR_U8, 8), bits);
	}
	if (twir_is_float(number->type.scalar))
		number = twir_cast(m, TWIR_I32, number);
	return twir_cast(m, twir_is_signed(narrow) ? TWIR_I8 : TWIR_U8, twir_cast(m, narrow, number));
}

int tw_axis(struct tw_opctx *x, int64_t axis, int rank)
{
	if (axis < -rank || axis >= rank)
		tw_op_fail(x, TW_ERR_MODEL, "axis %" PRId64 " is outside of rank %d", axis, rank);
	return (int)(axis < 0 ? axis + rank : axis);
}

/* ---- values of inputs */

int tw_in_values(struct tw_opctx *x, int i, const struct twir_expr *const **values)
{
	tw_in(x, i);
	return tw_tensor_values(x->g, x->node->in[i], values);
}

int tw_in_consts(struct tw_opctx *x, int i, const int64_t **values)
{
	const struct twir_expr *const *exprs;
	const int n = tw_in_values(x, i, &exprs);
	if (n < 0)
		return -1;
	int64_t *out = ARENA_ARRAY(x->arena, int64_t, n);
	for (int k = 0; k < n; k++)
		if (!twir_const_int(exprs[k], &out[k]))
			return -1;
	*values = out;
	return n;
}

/* What shape arithmetic came to, all of it numbers. */
static int known_floats(struct tw_opctx *x, const struct tw_tensor *t, const double **values)
{
	double *out = ARENA_ARRAY(x->arena, double, t->nvalues > 0 ? t->nvalues : 1);
	for (int k = 0; k < t->nvalues; k++) {
		if (t->values[k]->kind != TWIR_Const || !twir_is_float(t->values[k]->type.scalar))
			return -1;
		out[k] = t->values[k]->u.f;
	}
	*values = out;
	return t->nvalues > 0 ? t->nvalues : -1;
}

int tw_in_floats(struct tw_opctx *x, int i, const double **values)
{
	const struct tw_tensor *t = tw_in(x, i);
	int64_t dims[TWIR_MAX_RANK], n = 1;
	if (!t->data)
		return known_floats(x, t, values);
	if (!tw_graph_static(x->g, x->node->in[i], dims))
		return -1;
	for (int d = 0; d < t->rank; d++)
		n *= dims[d];
	if (n > 65536)
		return -1;
	double *out = ARENA_ARRAY(x->arena, double, n);
	for (int64_t k = 0; k < n; k++)
		out[k] = tw_data_float(t->type, t->data, k);
	*values = out;
	return (int)n;
}

void tw_check_indices(struct tw_opctx *x, int i, const struct twir_expr *size, int first, int step)
{
	const int64_t *values;
	int64_t limit;
	const int n = tw_in_consts(x, i, &values);
	for (int k = first; k < n && twir_const_int(size, &limit); k += step)
		if (values[k] < -limit || values[k] >= limit)
			tw_op_fail(x, TW_ERR_MODEL, "index %" PRId64 " is out of range for size %" PRId64, values[k],
				   limit);
}

bool tw_in_scalar(struct tw_opctx *x, int i, double *value)
{
	const double *values;
	if (tw_in_floats(x, i, &values) != 1)
		return false;
	*value = values[0];
	return true;
}

int tw_ints(struct tw_opctx *x, const char *attr, int input, const int64_t **values)
{
	if (input >= 0 && tw_has_in(x, input)) {
		const int n = tw_in_consts(x, input, values);
		if (n < 0)
			tw_op_fail(x, TW_ERR_UNSUPPORTED, "'%s' (input %d) must be known when the model is compiled",
				   attr, input);
		return n;
	}
	return tw_attr_ints(x->node, attr, values);
}

/* ---- sizes */

const struct twir_expr *tw_simplify(struct tw_opctx *x, const struct twir_expr *e)
{
	if (e->kind == TWIR_Const || e->kind == TWIR_Var)
		return e;
	struct twir_facts f;
	twir_facts_init(&f, x->m);
	return twir_simplify(&f, e);
}

const struct twir_expr *tw_product(struct tw_opctx *x, int n, const struct twir_expr *const *sizes)
{
	const struct twir_expr *p = twir_index(x->m, 1);
	for (int i = 0; i < n; i++)
		p = twir_mul(x->m, p, sizes[i]);
	return tw_simplify(x, p);
}

bool tw_may_be_negative(struct tw_opctx *x, const struct twir_expr *e)
{
	struct twir_facts f;
	twir_facts_init(&f, x->m);
	return twir_range_of(&f, e).lo < 0;
}

int tw_axes_conditions(struct tw_opctx *x, const char *attr, int input, int rank, const struct twir_expr **is_axis)
{
	struct twir_module *m = x->m;
	const struct twir_expr *const *values;
	const int64_t *plain = NULL;
	int n = -1;
	if (input >= 0 && tw_has_in(x, input) && tw_in_consts(x, input, &plain) < 0) {
		n = tw_in_values(x, input, &values);
		if (n < 0)
			tw_op_fail(x, TW_ERR_UNSUPPORTED, "'%s' (input %d) must be known when the model is compiled",
				   attr, input);
	} else {
		n = tw_ints(x, attr, input, &plain);
	}
	for (int d = 0; d < rank; d++)
		is_axis[d] = twir_bool(m, false);
	for (int k = 0; k < n; k++)
		for (int d = 0; d < rank; d++) {
			const struct twir_expr *hit;
			if (plain)
				hit = twir_bool(m, tw_axis(x, plain[k], rank) == d);
			else
				hit = twir_or(m, twir_eq(m, values[k], twir_index(m, d)),
					      twir_eq(m, values[k], twir_index(m, d - rank)));
			is_axis[d] = tw_simplify(x, twir_or(m, is_axis[d], hit));
		}
	return n;
}

const struct twir_expr *tw_decided_size(struct tw_opctx *x, int i, const struct twir_expr *most)
{
	const char *name = *tw_out(x, i)->name ? tw_out(x, i)->name : x->node->name;
	struct tw_decided d = {.most = tw_simplify(x, most)};
	d.symbol =
		twir_var_new(x->m, TWIR_SYMBOL, twir_scalar_type(TWIR_INDEX), arena_printf(x->arena, "%s.size", name));
	vec_push(x->g->arena, &x->g->decided, d);
	return twir_var(x->m, d.symbol);
}

static void count_node(void *arg, const struct twir_expr *e)
{
	(void)e;
	++*(int *)arg;
}

static int weight(const struct twir_expr *e)
{
	int n = 0;
	twir_visit_expr(e, count_node, &n);
	return n;
}

const struct twir_expr *tw_same_size(struct tw_opctx *x, const struct twir_expr *a, const struct twir_expr *b,
				     const char *what)
{
	a = tw_simplify(x, a);
	b = tw_simplify(x, b);
	int64_t ca, cb;
	if (a == b)
		return a;
	const bool const_a = twir_const_int(a, &ca), const_b = twir_const_int(b, &cb);
	if (const_a && const_b)
		tw_op_fail(x, TW_ERR_MODEL, "%s: sizes %" PRId64 " and %" PRId64 " do not match", what, ca, cb);
	const struct twir_expr *difference = tw_simplify(x, twir_sub(x->m, a, b));
	if (twir_const_int(difference, &ca)) {
		if (ca != 0)
			tw_op_fail(x, TW_ERR_MODEL, "%s: sizes %s and %s do not match", what,
				   twir_print_expr(x->arena, a), twir_print_expr(x->arena, b));
		return weight(a) <= weight(b) ? a : b;
	}
	tw_graph_require(x->g, a, b,
			 arena_printf(x->g->arena, "node '%s' (%s): %s", x->node->name, x->node->op_type, what));
	return const_a ? a : const_b ? b : weight(a) <= weight(b) ? a : b;
}

static bool is_one(const struct twir_expr *e)
{
	int64_t v;
	return twir_const_int(e, &v) && v == 1;
}

int tw_broadcast(struct tw_opctx *x, int first, int last, const struct twir_expr **shape)
{
	int rank = 0;
	for (int i = first; i <= last; i++)
		if (tw_has_in(x, i) && tw_in_rank(x, i) > rank)
			rank = tw_in_rank(x, i);
	for (int d = 0; d < rank; d++) {
		const struct twir_expr *size = twir_index(x->m, 1);
		for (int i = first; i <= last; i++) {
			const int at = tw_has_in(x, i) ? d - (rank - tw_in_rank(x, i)) : -1;
			if (at < 0 || is_one(tw_in_dim(x, i, at)))
				continue;
			const struct twir_expr *other = tw_in_dim(x, i, at);
			size = is_one(size) ? other
					    : tw_same_size(x, size, other,
							   arena_printf(x->arena, "axis %d of the inputs", d));
		}
		shape[d] = size;
	}
	return rank;
}
