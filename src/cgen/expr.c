/* expr: expressions to C. Input: expressions of lowered programs; output: C expressions, fully parenthesised, with the
 * semantics of ir.h. Invariants: a scalar i1 is 0 or 1, a vector of i1 is an i32 vector of 0 and -1; integers below 32
 * bits are cast back after promotion. */
#include "cgen/cgen_int.h"

#include <math.h>

static const struct twir_type no_type = {TWIR_VOID, 0};

/* name(a, b, ..) */
void cgen_call_text(struct cgen *g, const char *name, int n, const struct twir_expr *const *args)
{
	buf_printf(&g->out, "%s(", name);
	for (int i = 0; i < n; i++) {
		if (i)
			put(g, ", ");
		cgen_expr(g, args[i]);
	}
	put(g, ")");
}

const char *cgen_helper_for(struct cgen *g, const char *op, struct twir_type a)
{
	return cgen_use(g->uses, op, a, no_type);
}

static bool is_small_int(enum twir_scalar s)
{
	return twir_is_int(s) && s != TWIR_I1 && twir_scalar_bytes(s) < 4;
}

static void op_call(struct cgen *g, const char *op, const struct twir_expr *e)
{
	cgen_call_text(g, cgen_helper_for(g, op, e->arg[0]->type), e->n, e->arg);
}

static void int_constant(struct cgen *g, enum twir_scalar s, int64_t v)
{
	const uint64_t u = (uint64_t)v;
	switch (s) {
	case TWIR_U64:
		buf_printf(&g->out, "%lluuL", (unsigned long long)u);
		break;
	case TWIR_U32:
		buf_printf(&g->out, "%uu", (unsigned)(uint32_t)u);
		break;
	case TWIR_I64:
	case TWIR_INDEX:
		if (v == INT64_MIN)
			put(g, "(-9223372036854775807L - 1)");
		else
			buf_printf(&g->out, v < 0 ? "(%lldL)" : "%lldL", (long long)v);
		break;
	case TWIR_I1:
		put(g, v ? "1" : "0");
		break;
	default:
		if (v == INT32_MIN)
			put(g, "(-2147483647 - 1)");
		else
			buf_printf(&g->out, v < 0 ? "(%lld)" : "%lld", (long long)v);
	}
}

static void float_constant(struct cgen *g, enum twir_scalar s, double f)
{
	const char *suffix = s == TWIR_F32 ? "f" : "";
	const struct cgen_words *words = g->uses->d->words;
	if (words && isnan(f))
		put(g, words->nan[s == TWIR_F64]);
	else if (words && isinf(f))
		buf_printf(&g->out, f < 0 ? "(-%s)" : "%s", words->infinity[s == TWIR_F64]);
	else if (isnan(f))
		buf_printf(&g->out, "__builtin_nan%s(\"\")", suffix);
	else if (isinf(f))
		buf_printf(&g->out, f < 0 ? "(-__builtin_inf%s())" : "__builtin_inf%s()", suffix);
	else if (f == rint(f) && fabs(f) < 1e6)
		buf_printf(&g->out, signbit(f) ? "(%.1f%s)" : "%.1f%s", f, suffix);
	else
		buf_printf(&g->out, f < 0 ? "(%a%s)" : "%a%s", f, suffix);
}

static void constant(struct cgen *g, const struct twir_expr *e)
{
	const enum twir_scalar s = e->type.scalar;
	const bool vector = is_vector(e);
	if (vector)
		buf_printf(&g->out, "%s(", cgen_helper_for(g, "splat", e->type));
	if (twir_is_storage(s) && twir_is_float(s)) /* a value of its bits */
		int_constant(g, TWIR_U16, (int64_t)twir_float_bits(s, e->u.f));
	else if (twir_is_float(s))
		float_constant(g, s, e->u.f);
	else if (s == TWIR_I1 && vector)
		put(g, e->u.i ? "-1" : "0");
	else
		int_constant(g, s, e->u.i);
	if (vector)
		put(g, ")");
}

static void variable(struct cgen *g, const struct twir_var *v)
{
	if (v->kind == TWIR_WORKER && v->level == TWIR_CORE) {
		g->core_used = true;
		put(g, "core");
		return;
	}
	const char *name = map_get_ptr(&g->vars, v);
	TW_CHECK(name, "program %s: variable %s is not bound in lowered code", g->p->name, v->name);
	put(g, name);
}

bool cgen_nonneg(struct cgen *g, const struct twir_expr *e)
{
	switch ((enum twir_kind)e->kind) {
	case TWIR_Const:
		return e->u.i >= 0;
	case TWIR_Var:
		return e->u.var->kind == TWIR_WORKER || e->u.var->kind == TWIR_LOOP || e->u.var->lo >= 0 ||
		       (e->u.var->kind == TWIR_BOUND && map_get_ptr(&g->nonneg, e->u.var));
	case TWIR_Add:
	case TWIR_Mul:
	case TWIR_Min:
	case TWIR_Div:
	case TWIR_Ceildiv:
	case TWIR_Roundup:
		return cgen_nonneg(g, e->arg[0]) && cgen_nonneg(g, e->arg[1]);
	case TWIR_Max:
	case TWIR_And:
		return cgen_nonneg(g, e->arg[0]) || cgen_nonneg(g, e->arg[1]);
	case TWIR_Shr:
		return cgen_nonneg(g, e->arg[0]);
	case TWIR_Mod:
		return cgen_nonneg(g, e->arg[1]);
	case TWIR_Cond:
	case TWIR_Select:
		return cgen_nonneg(g, e->arg[1]) && cgen_nonneg(g, e->arg[2]);
	default:
		return false;
	}
}

/* Known to be at least 1? */
static bool is_positive(const struct twir_expr *e)
{
	return (e->kind == TWIR_Const && e->u.i > 0) ||
	       (e->kind == TWIR_Var && e->u.var->kind == TWIR_SYMBOL && e->u.var->lo > 0);
}

/* The names of signs where vectors are too wide for signs. */
static const char *sign_name(enum twir_kind k)
{
	switch (k) {
	case TWIR_Add:
		return "add";
	case TWIR_Sub:
		return "sub";
	case TWIR_Mul:
		return "mul";
	case TWIR_Div:
		return "quot";
	case TWIR_And:
		return "and";
	case TWIR_Or:
		return "or";
	case TWIR_Xor:
		return "xor";
	case TWIR_Lt:
		return "lt";
	case TWIR_Le:
		return "le";
	case TWIR_Eq:
		return "eq";
	default:
		return "ne";
	}
}

static bool is_wide(const struct cgen *g, const struct twir_expr *e)
{
	return cgen_is_wide(g->uses, e->type);
}

static void infix(struct cgen *g, const char *op, const struct twir_expr *e)
{
	if (is_wide(g, e->arg[0])) {
		op_call(g, sign_name((enum twir_kind)e->kind), e);
		return;
	}
	const bool narrow = !is_vector(e) && is_small_int(e->type.scalar) && !(twir_kind_flags(e->kind) & TWIR_F_CMP);
	buf_printf(&g->out, narrow ? "(%s)(" : "(", cgen_scalar_name(e->type.scalar));
	cgen_expr(g, e->arg[0]);
	buf_printf(&g->out, " %s ", op);
	cgen_expr(g, e->arg[1]);
	put(g, ")");
}

/* The constant behind a splat, or e itself when it is one; NULL: not constant. */
static const struct twir_expr *constant_of(const struct twir_expr *e)
{
	if (e->kind == TWIR_Splat)
		e = e->arg[0];
	return e->kind == TWIR_Const ? e : NULL;
}

/* The exponent of a constant power of two; -1: it is none. */
static int power_of_two(const struct twir_expr *c)
{
	return c && c->u.i > 0 && (c->u.i & (c->u.i - 1)) == 0 ? __builtin_ctzll((unsigned long long)c->u.i) : -1;
}

/* index arithmetic floors */
static void divide_index(struct cgen *g, const struct twir_expr *e, bool mod)
{
	const struct twir_expr *a = e->arg[0], *b = e->arg[1], *c = constant_of(b);
	const int power = power_of_two(c);
	const bool positive = is_positive(c ? c : b), plain = !is_vector(e) && cgen_nonneg(g, a);
	if (power >= 0 && is_wide(g, e)) {
		buf_printf(&g->out, "%s(", cgen_helper_for(g, mod ? "and" : "shr", e->type));
		cgen_expr(g, a);
		buf_printf(&g->out, ", %s(%lldL))", cgen_helper_for(g, "splat", e->type),
			   (long long)(mod ? c->u.i - 1 : power));
	} else if (power >= 0) { /* floors for either sign */
		put(g, "(");
		cgen_expr(g, a);
		if (mod)
			buf_printf(&g->out, " & %lldL)", (long long)c->u.i - 1);
		else
			buf_printf(&g->out, " >> %d)", power);
	} else if (positive && plain) {
		infix(g, mod ? "%" : "/", e);
	} else if (positive) {
		op_call(g, mod ? "fmodp" : "fdivp", e);
	} else if (plain && cgen_nonneg(g, b)) { /* truncates and floors alike; 0 may divide */
		op_call(g, mod ? "mod" : "div", e);
	} else {
		op_call(g, mod ? "fmod" : "fdiv", e);
	}
}

static void divide(struct cgen *g, const struct twir_expr *e, bool mod)
{
	const enum twir_scalar s = e->type.scalar;
	const struct twir_expr *c = constant_of(e->arg[1]);
	if (s == TWIR_INDEX)
		divide_index(g, e, mod);
	else if (twir_is_float(s) || (c && c->u.i != 0 && (c->u.i != -1 || !twir_is_signed(s)) && !is_wide(g, e)))
		infix(g, mod ? "%" : "/", e);
	else
		op_call(g, mod ? "mod" : "div", e);
}

/* a + b - 1 */
static void round_up_sum(struct cgen *g, const struct twir_expr *a, const struct twir_expr *b)
{
	put(g, "(");
	cgen_expr(g, a);
	if (b->kind == TWIR_Const) {
		buf_printf(&g->out, " + %lldL)", (long long)b->u.i - 1);
	} else {
		put(g, " + ");
		cgen_expr(g, b);
		put(g, " - 1)");
	}
}

static void ceil_divide(struct cgen *g, const struct twir_expr *e, bool roundup)
{
	const struct twir_expr *a = e->arg[0], *b = e->arg[1];
	const struct twir_type i64 = with_scalar(e->type, TWIR_I64);
	const int power = b->kind == TWIR_Const ? power_of_two(b) : -1;
	TW_CHECK(!is_vector(e), "program %s: %s of vectors", g->p->name, twir_kind_name(e->kind));
	const bool narrow = e->type.scalar != TWIR_INDEX && e->type.scalar != TWIR_I64;
	buf_printf(&g->out, narrow ? "(%s)(" : "(", cgen_scalar_name(e->type.scalar));
	if (!narrow && power >= 0) {
		round_up_sum(g, a, b);
		buf_printf(&g->out, roundup ? " & -%lldL)" : " >> %lld)",
			   roundup ? (long long)b->u.i : (long long)power);
		return;
	}
	if (!narrow && is_positive(b) && cgen_nonneg(g, a)) {
		round_up_sum(g, a, b);
		put(g, " / ");
		cgen_expr(g, b);
	} else if (!narrow && is_positive(b)) {
		buf_printf(&g->out, "%s(", cgen_helper_for(g, "fdivp", i64));
		round_up_sum(g, a, b);
		put(g, ", ");
		cgen_expr(g, b);
		put(g, ")");
	} else { /* -floor(-a / b) */
		buf_printf(&g->out, "-%s(-(i64)", cgen_helper_for(g, "fdiv", i64));
		cgen_expr(g, a);
		put(g, ", (i64)");
		cgen_expr(g, b);
		put(g, ")");
	}
	put(g, ")");
	if (roundup) {
		put(g, " * ");
		cgen_expr(g, b);
	}
}

static void shift(struct cgen *g, const struct twir_expr *e, bool left)
{
	const enum twir_scalar s = e->type.scalar;
	const int top = 8 * twir_scalar_bytes(s) - 1;
	const char *op = left ? "<<" : ">>";
	if (is_wide(g, e)) {
		op_call(g, left ? "shl" : "shr", e);
		return;
	}
	if (is_vector(e)) {
		put(g, "(");
		cgen_expr(g, e->arg[0]);
		const struct twir_expr *c = constant_of(e->arg[1]);
		if (c) {
			buf_printf(&g->out, " %s %d)", op, (int)(c->u.i & top));
			return;
		}
		buf_printf(&g->out, " %s (", op);
		cgen_expr(g, e->arg[1]);
		buf_printf(&g->out, " & %d))", top);
		return;
	}
	static const char *const as_unsigned[] = {[1] = "u8", [2] = "u16", [4] = "u32", [8] = "u64"};
	const bool whole = s == TWIR_INDEX || s == TWIR_I64; /* what C promotes nothing of */
	buf_printf(&g->out, left || !whole ? "(%s)(" : "(", cgen_scalar_name(s));
	if (left)
		buf_printf(&g->out, "(%s)", as_unsigned[twir_scalar_bytes(s)]);
	cgen_expr(g, e->arg[0]);
	int64_t by;
	if (twir_const_int(e->arg[1], &by)) {
		buf_printf(&g->out, " %s %d)", op, (int)(by & top));
		return;
	}
	buf_printf(&g->out, " %s (", op);
	cgen_expr(g, e->arg[1]);
	buf_printf(&g->out, " & %d))", top);
}

static void compare(struct cgen *g, const struct twir_expr *e, const char *sign, const char *op)
{
	const struct twir_type t = e->arg[0]->type;
	if (!is_vector(e)) {
		infix(g, sign, e);
	} else if (t.scalar == TWIR_I1 && !is_wide(g, e->arg[0])) { /* lanes are 0 and -1: the order turns round */
		const bool swap = e->kind == TWIR_Lt || e->kind == TWIR_Le;
		put(g, "(");
		cgen_expr(g, e->arg[swap]);
		buf_printf(&g->out, " %s ", sign);
		cgen_expr(g, e->arg[!swap]);
		put(g, ")");
	} else if (twir_scalar_bytes(t.scalar) == 4) {
		infix(g, sign, e);
	} else {
		op_call(g, op, e);
	}
}

/* A comparison and a choice as one helper, where the dialect has it. */
static bool choose_compared(struct cgen *g, const struct twir_expr *e)
{
	const struct twir_expr *test = e->arg[0];
	const char *op = test->kind == TWIR_Lt ? "lt_sel" : test->kind == TWIR_Le ? "le_sel" : NULL;
	if (!op || !twir_type_eq(test->arg[0]->type, e->type) || !cgen_has_row(g->uses, op, e->type))
		return false;
	const struct twir_expr *const args[] = {test->arg[0], test->arg[1], e->arg[1], e->arg[2]};
	cgen_call_text(g, cgen_helper_for(g, op, e->type), 4, args);
	return true;
}

static void choose(struct cgen *g, const struct twir_expr *e)
{
	if (is_vector(e->arg[0])) {
		if (choose_compared(g, e))
			return;
		TW_CHECK(e->kind == TWIR_Select, "program %s: a conditional on a vector", g->p->name);
		cgen_call_text(g, cgen_helper_for(g, "sel", e->type), 3, e->arg);
		return;
	}
	put(g, "(");
	cgen_expr(g, e->arg[0]);
	put(g, " ? ");
	cgen_expr(g, e->arg[1]);
	put(g, " : ");
	cgen_expr(g, e->arg[2]);
	put(g, ")");
}

static void extremum(struct cgen *g, const struct twir_expr *e)
{
	const bool low = e->kind == TWIR_Min;
	const struct twir_expr *a = constant_of(e->arg[0]), *b = constant_of(e->arg[1]);
	if (!twir_is_float(e->type.scalar))
		op_call(g, low ? "min" : "max", e);
	else if (a && !isnan(a->u.f) && a->u.f != 0)
		op_call(g, low ? "minnum" : "maxnum",
			e); /* gives b when b is NaN; of equal ones either, but for zeros */
	else if (b && !isnan(b->u.f))
		op_call(g, low ? "minc" : "maxc", e);
	else
		op_call(g, low ? "min" : "max", e);
}

/* Same representation in C? */
static bool same_in_c(enum twir_scalar a, enum twir_scalar b)
{
	return a != TWIR_I1 && b != TWIR_I1 && cgen_storage(a) == cgen_storage(b);
}

static void cast(struct cgen *g, const struct twir_expr *e)
{
	const struct twir_expr *x = e->arg[0];
	const enum twir_scalar from = x->type.scalar, to = e->type.scalar;
	const bool packed = twir_is_packed(from) || twir_is_packed(to);
	TW_CHECK(packed ? same_in_c(from, to) : !twir_is_storage(from) && !twir_is_storage(to),
		 "program %s: a cast of a storage type in lowered code", g->p->name);
	if (same_in_c(from, to)) {
		cgen_expr(g, x);
	} else if (from == TWIR_I1 && to == TWIR_I1) {
		cgen_expr(g, x);
	} else if (to == TWIR_I1) {
		if (is_vector(e)) {
			cgen_call_text(g, cgen_helper_for(g, "tomask", x->type), 1, &x);
		} else {
			put(g, "(");
			cgen_expr(g, x);
			put(g, " != 0)");
		}
	} else if (from == TWIR_I1 && is_vector(e)) {
		cgen_call_text(g, cgen_helper_for(g, "frommask", e->type), 1, &x);
	} else if (twir_is_float(from) && twir_is_int(to)) {
		cgen_call_text(g, cgen_use(g->uses, "toint", x->type, e->type), 1, &x);
	} else if (is_vector(e) && (is_wide(g, e) || is_wide(g, x) || twir_scalar_bytes(from) == 1)) {
		cgen_call_text(g, cgen_use(g->uses, "cvt", x->type, e->type), 1, &x);
	} else if (is_vector(e)) {
		put(g, "__builtin_convertvector(");
		cgen_expr(g, x);
		buf_printf(&g->out, ", %s)", cgen_type(g->uses, e->type));
	} else {
		buf_printf(&g->out, "(%s)", cgen_scalar_name(to));
		cgen_expr(g, x);
	}
}

static void bitcast(struct cgen *g, const struct twir_expr *e)
{
	const struct twir_expr *x = e->arg[0];
	if (same_in_c(x->type.scalar, e->type.scalar)) {
		cgen_expr(g, x);
	} else if (is_wide(g, e)) {
		cgen_call_text(g, cgen_use(g->uses, "cast", x->type, e->type), 1, &x);
	} else if (is_vector(e) || (!twir_is_float(x->type.scalar) && !twir_is_float(e->type.scalar))) {
		buf_printf(&g->out, "((%s)", cgen_type(g->uses, e->type));
		cgen_expr(g, x);
		put(g, ")");
	} else {
		cgen_call_text(g, cgen_use(g->uses, "bits", x->type, e->type), 1, &x);
	}
}

static void reduce(struct cgen *g, const struct twir_expr *e)
{
	static const char *const ops[TWIR_KINDS] = {
		[TWIR_Add] = "reduce_add", [TWIR_Mul] = "reduce_mul",	    [TWIR_Min] = "reduce_min",
		[TWIR_Max] = "reduce_max", [TWIR_MinNum] = "reduce_minnum", [TWIR_MaxNum] = "reduce_maxnum",
		[TWIR_And] = "reduce_and", [TWIR_Or] = "reduce_or",	    [TWIR_Xor] = "reduce_xor",
	};
	const struct twir_expr *x = e->arg[0];
	TW_CHECK(ops[e->op], "reduce by %s", twir_kind_name(e->op));
	if (is_i1(e))
		put(g, "(");
	if (is_vector(x)) {
		cgen_call_text(g, cgen_helper_for(g, ops[e->op], x->type), 1, &x);
	} else { /* a register array with one element a lane: as a vector */
		const struct twir_tensor *t = x->u.tensor;
		int64_t n;
		TW_CHECK(x->kind == TWIR_Load && t->scope == TWIR_REGISTER && t->rank == 1 &&
				 twir_const_int(t->shape[0], &n) && !is_i1(x),
			 "program %s: reduce of a scalar", g->p->name);
		const struct twir_type v = {x->type.scalar, (uint16_t)n};
		buf_printf(&g->out, "%s(%s(%s))", cgen_helper_for(g, ops[e->op], v), cgen_helper_for(g, "ld", v),
			   cgen_tensor_name(g, t));
	}
	if (is_i1(e))
		put(g, " != 0)");
}

static void splat(struct cgen *g, const struct twir_expr *e)
{
	buf_printf(&g->out, "%s(", cgen_helper_for(g, "splat", e->type));
	if (is_i1(e))
		put(g, "-");
	cgen_expr(g, e->arg[0]);
	put(g, ")");
}

static void extract(struct cgen *g, const struct twir_expr *e)
{
	int64_t lane;
	TW_CHECK(twir_const_int(e->arg[1], &lane), "extract of a lane that is not constant");
	put(g, is_i1(e) ? "(" : "");
	cgen_expr(g, e->arg[0]);
	struct twir_type t = e->arg[0]->type;
	for (; cgen_is_wide(g->uses, t); t.lanes /= 2) {
		buf_printf(&g->out, ".h[%d]", lane >= t.lanes / 2);
		lane -= lane >= t.lanes / 2 ? t.lanes / 2 : 0;
	}
	buf_printf(&g->out, is_i1(e) ? "[%d] != 0)" : "[%d]", (int)lane);
}

static void negate(struct cgen *g, const struct twir_expr *e)
{
	if (is_wide(g, e)) {
		op_call(g, "neg", e);
		return;
	}
	const bool narrow = !is_vector(e) && is_small_int(e->type.scalar);
	buf_printf(&g->out, narrow ? "(%s)(-" : "(-", cgen_scalar_name(e->type.scalar));
	cgen_expr(g, e->arg[0]);
	put(g, ")");
}

static void complement(struct cgen *g, const struct twir_expr *e)
{
	if (is_wide(g, e)) {
		op_call(g, "not", e);
		return;
	}
	const bool narrow = !is_vector(e) && is_small_int(e->type.scalar);
	const char *sign = is_i1(e) && !is_vector(e) ? "!" : "~";
	if (narrow)
		buf_printf(&g->out, "(%s)(%s", cgen_scalar_name(e->type.scalar), sign);
	else
		buf_printf(&g->out, "(%s", sign);
	cgen_expr(g, e->arg[0]);
	put(g, ")");
}

void cgen_expr(struct cgen *g, const struct twir_expr *e)
{
	TW_CHECK(g->budget-- > 0, "program %s: its C text explodes; shared expressions must be lets", g->p->name);
	switch ((enum twir_kind)e->kind) {
	case TWIR_Const:
		constant(g, e);
		break;
	case TWIR_Var:
		variable(g, e->u.var);
		break;
	case TWIR_Add:
		infix(g, "+", e);
		break;
	case TWIR_Sub:
		infix(g, "-", e);
		break;
	case TWIR_Mul:
		if (g->uses->d->words && g->uses->d->words->contracts && twir_is_float(e->type.scalar))
			op_call(g, "mul", e);
		else
			infix(g, "*", e);
		break;
	case TWIR_Div:
		divide(g, e, false);
		break;
	case TWIR_Mod:
		divide(g, e, true);
		break;
	case TWIR_And:
		infix(g, "&", e);
		break;
	case TWIR_Or:
		infix(g, "|", e);
		break;
	case TWIR_Xor:
		infix(g, "^", e);
		break;
	case TWIR_Shl:
		shift(g, e, true);
		break;
	case TWIR_Shr:
		shift(g, e, false);
		break;
	case TWIR_Lt:
		compare(g, e, "<", "lt");
		break;
	case TWIR_Le:
		compare(g, e, "<=", "le");
		break;
	case TWIR_Eq:
		compare(g, e, "==", "eq");
		break;
	case TWIR_Ne:
		compare(g, e, "!=", "ne");
		break;
	case TWIR_Min:
	case TWIR_Max:
		extremum(g, e);
		break;
	case TWIR_MinNum:
		op_call(g, "minnum", e);
		break;
	case TWIR_MaxNum:
		op_call(g, "maxnum", e);
		break;
	case TWIR_Neg:
		negate(g, e);
		break;
	case TWIR_Not:
		complement(g, e);
		break;
	case TWIR_Abs:
		op_call(g, "abs", e);
		break;
	case TWIR_Sqrt:
		op_call(g, "sqrt", e);
		break;
	case TWIR_Floor:
		op_call(g, "floor", e);
		break;
	case TWIR_Ceil:
		op_call(g, "ceil", e);
		break;
	case TWIR_Round:
		op_call(g, "round", e);
		break;
	case TWIR_Trunc:
		op_call(g, "trunc", e);
		break;
	case TWIR_Fma:
		op_call(g, "fma", e);
		break;
	case TWIR_Dot4:
		op_call(g, "dot4", e);
		break;
	case TWIR_Select:
	case TWIR_Cond:
		choose(g, e);
		break;
	case TWIR_Cast:
		cast(g, e);
		break;
	case TWIR_Bitcast:
		bitcast(g, e);
		break;
	case TWIR_Load:
		cgen_load(g, e);
		break;
	case TWIR_Gather:
		cgen_gather(g, e);
		break;
	case TWIR_Reduce:
		reduce(g, e);
		break;
	case TWIR_Splat:
		splat(g, e);
		break;
	case TWIR_Iota:
		buf_printf(&g->out, "%s()", cgen_helper_for(g, "iota", e->type));
		break;
	case TWIR_Extract:
		extract(g, e);
		break;
	case TWIR_Ceildiv:
		ceil_divide(g, e, false);
		break;
	case TWIR_Roundup:
		put(g, "(");
		ceil_divide(g, e, true);
		put(g, ")");
		break;
	case TWIR_ShflUp:
	case TWIR_ShflDown:
	case TWIR_ShflXor:
	case TWIR_ShflIdx:
		cgen_shuffle(g, e);
		break;
	case TWIR_Call:
	case TWIR_Fold:
	case TWIR_KINDS:
		TW_CHECK(false, "program %s: %s in lowered code", g->p->name, twir_kind_name(e->kind));
	}
}
