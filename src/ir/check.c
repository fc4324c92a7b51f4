/* The typing rules of expressions and stores, in one place: each function says why a node cannot be built, or NULL.
 * Constructors treat a reason as our own fault, the parser as the text's. */
#include "ir/ir_int.h"

/* Why arithmetic on a storage type is refused. */
static const char *storage(enum twir_scalar s)
{
	return twir_is_float(s) ? "this is a storage type: cast to f32 first"
				: "this is a storage type: cast to i32 first";
}

static bool is_shuffle(enum twir_kind k)
{
	return k == TWIR_ShflUp || k == TWIR_ShflDown || k == TWIR_ShflXor || k == TWIR_ShflIdx;
}

/* equal, or equal scalars where one side has one lane and is splat */
static bool alike(struct twir_type a, struct twir_type b)
{
	return a.scalar == b.scalar && (a.lanes == b.lanes || a.lanes == 1 || b.lanes == 1);
}

static bool loads_ok(enum twir_scalar s)
{
	return s > TWIR_VOID && s < TWIR_SCALARS;
}

const char *twir_bad_unary(enum twir_kind k, const struct twir_expr *a)
{
	const unsigned flags = twir_kind_flags(k);
	const enum twir_scalar s = a->type.scalar;
	if (twir_kind_arity(k) != 1 || !(flags & (TWIR_F_FUNC | TWIR_F_PREFIX)))
		return "this is no operation on one operand";
	if (twir_is_storage(s))
		return storage(s);
	if ((flags & TWIR_F_INT) && !twir_is_int(s))
		return "the operand must be an integer";
	if ((flags & TWIR_F_FLT) && !twir_is_float(s))
		return "the operand must be a float";
	if (s == TWIR_I1 && k != TWIR_Not)
		return "the operand must be a number, not i1";
	return NULL;
}

const char *twir_bad_binary(enum twir_kind k, const struct twir_expr *a, const struct twir_expr *b)
{
	const unsigned flags = twir_kind_flags(k);
	const enum twir_scalar s = a->type.scalar;
	if (twir_kind_arity(k) != 2 || !(flags & (TWIR_F_FUNC | TWIR_F_INFIX)))
		return "this is no operation on two operands";
	if (k == TWIR_Extract) {
		int64_t lane;
		if (a->type.lanes == 1)
			return "extract takes a vector";
		if (!twir_const_int(b, &lane) || b->type.scalar != TWIR_INDEX || lane < 0 || lane >= a->type.lanes)
			return "extract takes a constant lane of type index within the vector";
		return NULL;
	}
	if (twir_is_storage(s) || twir_is_storage(b->type.scalar))
		return storage(twir_is_storage(s) ? s : b->type.scalar);
	if (is_shuffle(k)) {
		if (a->type.lanes != 1 || s == TWIR_I1)
			return "a shuffle moves scalar numbers";
		return twir_type_eq(b->type, twir_scalar_type(TWIR_INDEX)) ? NULL
									   : "the second operand must have type index";
	}
	if (!alike(a->type, b->type))
		return "the operands' types differ";
	if ((flags & TWIR_F_INT) && !twir_is_int(s))
		return "the operands must be integers";
	if ((flags & TWIR_F_FLT) && !twir_is_float(s))
		return "the operands must be floats";
	if (s == TWIR_I1 && k != TWIR_And && k != TWIR_Or && k != TWIR_Xor && k != TWIR_Eq && k != TWIR_Ne)
		return "the operands must be numbers, not i1";
	return NULL;
}

const char *twir_bad_fma(const struct twir_expr *a, const struct twir_expr *b, const struct twir_expr *c)
{
	if (a->type.scalar != TWIR_F32 && a->type.scalar != TWIR_F64)
		return "fma takes f32 or f64";
	return alike(a->type, b->type) && alike(a->type, c->type) && alike(b->type, c->type)
		       ? NULL
		       : "the operands' types differ";
}

const char *twir_bad_dot4(const struct twir_expr *a, const struct twir_expr *b, const struct twir_expr *c)
{
	if (a->type.scalar != TWIR_I32)
		return "dot4 takes i32";
	return alike(a->type, b->type) && alike(a->type, c->type) && alike(b->type, c->type)
		       ? NULL
		       : "the operands' types differ";
}

const char *twir_bad_choice(enum twir_kind k, const struct twir_expr *c, const struct twir_expr *a,
			    const struct twir_expr *b)
{
	if (c->type.scalar != TWIR_I1)
		return "the condition must be i1";
	if (k == TWIR_Cond && c->type.lanes != 1)
		return "the condition of '? :' must be a scalar; select chooses lane by lane";
	if (!alike(a->type, b->type))
		return "the two choices' types differ";
	if (k == TWIR_Select && !(c->type.lanes == 1 || (a->type.lanes == 1 && b->type.lanes == 1) ||
				  c->type.lanes == a->type.lanes || c->type.lanes == b->type.lanes))
		return "the condition and the choices have different numbers of lanes";
	return NULL;
}

const char *twir_bad_cast(enum twir_scalar to, const struct twir_expr *a)
{
	return loads_ok(to) && loads_ok(a->type.scalar) ? NULL : "a cast needs a scalar type";
}

const char *twir_bad_bitcast(enum twir_scalar to, const struct twir_expr *a)
{
	if (!loads_ok(to) || to == TWIR_I1 || a->type.scalar == TWIR_I1)
		return "a bitcast needs number types";
	return twir_scalar_bits(to) == twir_scalar_bits(a->type.scalar) ? NULL : "a bitcast keeps the width";
}

const char *twir_bad_call(const struct twir_func *f, int n, const struct twir_expr *const *args)
{
	if (n != f->n)
		return "wrong number of arguments";
	for (int i = 0; i < n; i++)
		if (!twir_type_eq(args[i]->type, f->args[i]->type))
			return "an argument has another type than the func's";
	return NULL;
}

static const char *bad_index(const struct twir_tensor *t, int n, const struct twir_expr *const *index)
{
	if (n != t->rank && n != 1)
		return "the number of indices is neither the rank nor one (a flat index)";
	for (int i = 0; i < n; i++)
		if (!twir_type_eq(index[i]->type, twir_scalar_type(TWIR_INDEX)))
			return "an index must have type index";
	return NULL;
}

const char *twir_bad_load(const struct twir_tensor *t, int n, const struct twir_expr *const *index, int lanes,
			  const struct twir_expr *mask, const struct twir_expr *other)
{
	const char *why = bad_index(t, n, index);
	if (why)
		return why;
	if (lanes < 1 || lanes > TWIR_MAX_LANES)
		return "the number of lanes is out of range";
	if (lanes != t->lanes && t->lanes != 1)
		return "a tensor of vectors is loaded one element at a time";
	if (lanes != t->lanes && n == 0)
		return "a wide load needs an index";
	if (!mask)
		return other ? "an else value needs a mask" : NULL;
	if (!other)
		return "a masked load needs an else value";
	if (lanes == t->lanes)
		return "only wide loads take a mask";
	if (!twir_type_eq(mask->type, twir_vector_type(TWIR_I1, lanes)))
		return "the mask must be i1 with one lane for each element";
	if (other->type.scalar != t->type || (other->type.lanes != 1 && other->type.lanes != lanes))
		return "the else value's type is not the load's";
	return NULL;
}

const char *twir_bad_gather(const struct twir_tensor *t, const struct twir_expr *index, const struct twir_expr *mask,
			    const struct twir_expr *other)
{
	const int lanes = index->type.lanes;
	if (!twir_is_int(index->type.scalar) || index->type.scalar == TWIR_I1 || lanes == 1)
		return "gather takes a vector of integers";
	if (t->lanes != 1)
		return "gather takes a tensor of scalars";
	if (!mask)
		return other ? "an else value needs a mask" : NULL;
	if (!other)
		return "a masked gather needs an else value";
	if (!twir_type_eq(mask->type, twir_vector_type(TWIR_I1, lanes)))
		return "the mask must be i1 with one lane for each element";
	if (other->type.scalar != t->type || (other->type.lanes != 1 && other->type.lanes != lanes))
		return "the else value's type is not the gather's";
	return NULL;
}

bool twir_is_combiner(enum twir_kind op)
{
	switch (op) {
	case TWIR_Add:
	case TWIR_Mul:
	case TWIR_Min:
	case TWIR_Max:
	case TWIR_MinNum:
	case TWIR_MaxNum:
	case TWIR_And:
	case TWIR_Or:
	case TWIR_Xor:
		return true;
	default:
		return false;
	}
}

bool twir_combines_type(enum twir_kind op, struct twir_type t)
{
	if (twir_is_storage(t.scalar) || t.scalar == TWIR_VOID)
		return false;
	if (op == TWIR_And || op == TWIR_Or || op == TWIR_Xor)
		return twir_is_int(t.scalar);
	return t.scalar != TWIR_I1;
}

const char *twir_bad_extents(int n, const struct twir_expr *const *extent)
{
	for (int i = 0; i < n; i++) {
		if (!twir_type_eq(extent[i]->type, twir_scalar_type(TWIR_INDEX)))
			return "a size must be a scalar of type index";
		int64_t v;
		if (twir_const_int(extent[i], &v) && v < 0)
			return "a size must not be negative";
	}
	return NULL;
}

const char *twir_bad_fold(enum twir_kind op, int n, struct twir_var *const *axes,
			  const struct twir_expr *const *extents, const struct twir_expr *body)
{
	if (!twir_is_combiner(op) || !twir_combines_type(op, body->type))
		return "the operation cannot combine values of this type";
	if (body->type.lanes != 1)
		return "a fold combines scalars";
	if (n < 1 || n > 2 * TWIR_MAX_RANK)
		return "the number of axes is out of range";
	for (int i = 0; i < n; i++)
		if (axes[i]->kind != TWIR_AXIS)
			return "a fold runs over axes";
	return twir_bad_extents(n, extents);
}

bool twir_whole_register(const struct twir_expr *e)
{
	if (e->kind != TWIR_Load || e->u.tensor->scope != TWIR_REGISTER || e->n != e->nidx || e->nidx == 0 ||
	    e->type.lanes != 1)
		return false;
	for (int i = 0; i < e->n; i++) {
		int64_t v;
		if (!twir_const_int(e->arg[i], &v) || v != 0)
			return false;
	}
	return true;
}

const char *twir_bad_reduce(enum twir_kind op, const struct twir_expr *v)
{
	if (!twir_is_combiner(op) || !twir_combines_type(op, v->type))
		return "the operation cannot combine values of this type";
	if (v->type.lanes == 1 && !twir_whole_register(v))
		return "reduce takes a vector or a register tensor";
	return NULL;
}

const char *twir_bad_store(const struct twir_tensor *t, int n, const struct twir_expr *const *index,
			   const struct twir_expr *value, const struct twir_expr *mask)
{
	if (value->type.scalar != t->type)
		return "the value has another type than the tensor";
	int lanes = value->type.lanes;
	if (n == 1 && index[0]->type.lanes > 1) { /* scatter */
		if (!twir_is_int(index[0]->type.scalar) || index[0]->type.scalar == TWIR_I1 || t->lanes != 1)
			return "scatter takes a vector of integers and a tensor of scalars";
		if (lanes != 1 && lanes != index[0]->type.lanes)
			return "the value and the indices have different numbers of lanes";
		lanes = index[0]->type.lanes;
	} else {
		const char *why = bad_index(t, n, index);
		if (why)
			return why;
		if (t->lanes != 1 && lanes != t->lanes && lanes != 1)
			return "a tensor of vectors is stored one element at a time";
		if (lanes != t->lanes && lanes != 1 && n == 0)
			return "a wide store needs an index";
		if (mask && (lanes == 1 || t->lanes != 1))
			return "only wide stores take a mask";
	}
	if (mask && !twir_type_eq(mask->type, twir_vector_type(TWIR_I1, lanes)))
		return "the mask must be i1 with one lane for each element";
	return NULL;
}

const char *twir_bad_prefetch(const struct twir_tensor *t, int n, const struct twir_expr *const *index)
{
	if (t->scope == TWIR_REGISTER)
		return "registers are not in memory";
	const char *why = bad_index(t, n, index);
	for (int i = 0; i < n && !why; i++)
		if (index[i]->loads)
			why = "the index of a prefetch loads nothing";
	return why;
}

/* The value of an asynchronous copy: memory, or memory where a condition holds and a constant elsewhere. */
const char *twir_bad_copy(const struct twir_tensor *t, const struct twir_expr *value)
{
	const struct twir_expr *from = value;
	if (t->scope != TWIR_SHARED)
		return "an asynchronous copy goes to a shared tensor";
	if (value->kind == TWIR_Cond) {
		const struct twir_expr *other =
			value->arg[2]->kind == TWIR_Splat ? value->arg[2]->arg[0] : value->arg[2];
		if (other->kind != TWIR_Const)
			return "an asynchronous copy has a constant beside its load";
		from = value->arg[1];
	}
	if (from->kind != TWIR_Load || from->u.tensor->scope != TWIR_IN || from->n != from->nidx)
		return "an asynchronous copy moves elements of an input: T[..] = X[..], or T[..] = X[..] where c else "
		       "0.0";
	const int bytes = twir_scalar_bits(t->type) / 8 * from->type.lanes;
	return bytes == 4 || bytes == 8 || bytes == 16 ? NULL : "an asynchronous copy moves 4, 8 or 16 bytes";
}

/* Is the last part of the tensor, behind the leading indices, a fragment of the instruction? A plain register tensor
 * has the lane's elements in one dimension, one that mirrors a mapping has the tile's two dimensions. */
const char *twir_bad_fragment(const struct twir_mma *shape, enum twir_operand_of which, const struct twir_fragment *f)
{
	const struct twir_tensor *t = f->tensor;
	const int rows = which == TWIR_MMA_B ? shape->k : shape->m, columns = which == TWIR_MMA_A ? shape->k : shape->n;
	const int sizes[2] = {t->mirrors ? rows : shape->elements[which], columns}, behind = t->mirrors ? 2 : 1;
	if (t->scope != TWIR_REGISTER || t->lanes != 1)
		return "a fragment is a part of a register tensor of scalars";
	if (t->type != (which == TWIR_MMA_D ? shape->sum : shape->type))
		return "the tensor has another type than the instruction";
	if (t->rank != f->n + behind)
		return t->mirrors ? "the indices leave two dimensions, the tile's"
				  : "the indices leave one dimension, the lane's elements";
	for (int i = 0; i < f->n; i++)
		if (!twir_type_eq(f->index[i]->type, twir_scalar_type(TWIR_INDEX)))
			return "an index must have type index";
	for (int i = 0; i < behind; i++) {
		int64_t n;
		if (!twir_const_int(t->shape[f->n + i], &n) || n != sizes[i])
			return t->mirrors ? "the last two dimensions are not the instruction's tile"
					  : "the last dimension has not the number of elements that a lane holds";
	}
	return NULL;
}

const char *twir_bad_argument(const struct twir_tensor *param, const struct twir_argument *a)
{
	const struct twir_tensor *t = a->tensor;
	if (t->scope != TWIR_IN && t->scope != TWIR_OUT && t->scope != TWIR_BUFFER)
		return "only buffers and parameters are handed to programs";
	if (t->type != param->type)
		return "the types differ";
	if (param->scope == TWIR_OUT && t->scope == TWIR_IN)
		return "an input is not written";
	if (a->n > t->rank)
		return "there are more indices than dimensions";
	if (a->n && t->layout)
		return "a tensor with a layout has no parts";
	if (a->n && twir_is_packed(t->type))
		return "a tensor of a packed type has no parts";
	for (int i = 0; i < param->rank && param->rank == t->rank - a->n; i++) {
		int64_t asked, given;
		if (twir_const_int(param->shape[i], &asked) && twir_const_int(t->shape[a->n + i], &given) &&
		    asked != given)
			return "the sizes differ";
	}
	for (int i = 0; i < a->n; i++)
		if (!twir_type_eq(a->index[i]->type, twir_scalar_type(TWIR_INDEX)))
			return "an index must have type index";
	return NULL;
}
