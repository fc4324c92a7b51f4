/* Expressions: literals, names, loads, and everything written like a call: operations, casts, folds, reductions,
 * vectors, funcs. */
#include "ir/parse_int.h"

#include <math.h>

static struct twir_operand rigid(const struct twir_expr *e)
{
	return (struct twir_operand){e, false, NULL};
}

/* The type that ends a literal ("i32" in 3i32), from the end of its text; TWIR_VOID: none. */
static enum twir_scalar suffix(const char *at, int n, int *digits)
{
	enum twir_scalar found = TWIR_VOID;
	int longest = 0; /* bf16 ends in f16 too */
	for (int s = TWIR_I8; s < TWIR_INDEX; s++) {
		const char *name = twir_scalar_name((enum twir_scalar)s);
		const int len = (int)strlen(name);
		if (n > len && len > longest && memcmp(at + n - len, name, (size_t)len) == 0) {
			found = (enum twir_scalar)s;
			longest = len;
		}
	}
	*digits = n - longest;
	return found;
}

static bool read_integer(const char *at, int n, uint64_t *value)
{
	const bool hex = n > 2 && at[0] == '0' && (at[1] == 'x' || at[1] == 'X');
	const unsigned base = hex ? 16 : 10;
	uint64_t v = 0;
	for (int i = hex ? 2 : 0; i < n; i++) {
		const char c = at[i];
		const unsigned d = c >= '0' && c <= '9' ? (unsigned)(c - '0') : (unsigned)((c | 32) - 'a' + 10);
		if (d >= base || v > (UINT64_MAX - d) / base)
			return false;
		v = v * base + d;
	}
	*value = v;
	return n > 0;
}

static const struct twir_expr *integer(struct twir_parser *p, const struct twir_tok *t, int digits, enum twir_scalar s,
				       bool minus)
{
	uint64_t v;
	if (!read_integer(t->at, digits, &v))
		twir_fail(p, t,
			  "3 is an index, 1.5 takes the type around it; others end in theirs: 3i32, 1.5f64, 0x1.8p+3",
			  "'%.*s' is no number", t->n > 40 ? 40 : t->n, t->at);
	const int64_t i = (int64_t)(minus ? 0 - v : v);
	const bool fits =
		s == TWIR_U64 ? !minus || v == 0 : v <= (uint64_t)INT64_MAX + (minus ? 1 : 0) && twir_wrap(s, i) == i;
	/* hexadecimal integers are bit patterns: 0xffffffffi32 is -1 */
	const bool pattern = digits > 2 && (t->at[1] == 'x' || t->at[1] == 'X') && !minus &&
			     (twir_scalar_bits(s) == 64 || v >> twir_scalar_bits(s) == 0);
	if (!fits && !pattern)
		twir_fail(p, t, "take a wider type", "%s%.*s does not fit in %s", minus ? "-" : "",
			  digits > 40 ? 40 : digits, t->at, twir_scalar_name(s));
	return twir_int(p->m, s, i);
}

static const struct twir_expr *special(struct twir_parser *p, const struct twir_tok *t, bool minus)
{
	const enum twir_scalar s =
		t->n == 3 ? TWIR_F32 : twir_scalar_parse(arena_strndup(p->scratch, t->at + 4, (size_t)(t->n - 4)));
	const double v = t->at[0] == 'i' ? (double)INFINITY : (double)NAN;
	return twir_float(p->m, s, minus ? -v : v);
}

/* A float literal without a suffix. */
static struct twir_operand loose(struct twir_parser *p, double v)
{
	return (struct twir_operand){twir_float(p->m, TWIR_F32, v), true, twir_float(p->m, TWIR_F64, v)};
}

bool twir_at_number(struct twir_parser *p)
{
	char word[20] = {0};
	if (p->tok.kind != TK_NAME || p->tok.n >= (int)sizeof(word))
		return p->tok.kind == TK_NUMBER;
	memcpy(word, p->tok.at, (size_t)p->tok.n);
	return twir_special_number(word);
}

struct twir_operand twir_literal(struct twir_parser *p, bool minus)
{
	const struct twir_tok t = p->tok;
	twir_next(p);
	if (t.kind == TK_NAME && t.n == 3)
		return loose(p, special(p, &t, minus)->u.f);
	if (t.kind == TK_NAME)
		return rigid(special(p, &t, minus));
	int digits;
	const enum twir_scalar s = suffix(t.at, t.n, &digits);
	const bool hex = t.n > 2 && (t.at[1] == 'x' || t.at[1] == 'X');
	bool is_float = false;
	for (int i = 0; i < digits; i++)
		is_float |= t.at[i] == '.' || (hex ? (t.at[i] | 32) == 'p' : (t.at[i] | 32) == 'e');
	if (!is_float && !twir_is_float(s))
		return (struct twir_operand){integer(p, &t, digits, s == TWIR_VOID ? TWIR_INDEX : s, minus),
					     s == TWIR_VOID, NULL};
	double v;
	if (!twir_float_literal(t.at, (size_t)digits, &v) || (s != TWIR_VOID && !twir_is_float(s)))
		twir_fail(p, &t,
			  "3 is an index, 1.5 takes the type around it; others end in theirs: 3i32, 1.5f64, 0x1.8p+3",
			  "'%.*s' is no number", t.n > 40 ? 40 : t.n, t.at);
	v = minus ? -v : v;
	return s == TWIR_VOID ? loose(p, v) : rigid(twir_float(p->m, s, v));
}

struct twir_tensor *twir_tensor_named(struct twir_parser *p, const char *what)
{
	const struct twir_tok at = p->tok;
	const char *name = twir_take_name(p, what);
	const struct twir_entry *b = twir_lookup(p, name);
	if (!b || b->kind != BOUND_TENSOR)
		twir_fail(p, &at, twir_suggest(p, name, 1 << BOUND_TENSOR), "there is no tensor '%s' here", name);
	return b->what;
}

/* i, j +: 16   up to ']' or where. Returns the number of indices; *wide is the number of lanes or 0. */
int twir_parse_index(struct twir_parser *p, const struct twir_tensor *t, const struct twir_expr **index, int *wide)
{
	int n = 0;
	const bool guard = p->no_guard;
	*wide = 0;
	p->no_guard = true; /* T[I[j] where m ..]: the mask of T's access */
	do {
		if (n == TWIR_MAX_RANK)
			twir_fail(p, &p->tok, "one index for each dimension, or one for the whole storage",
				  "more than %d indices", TWIR_MAX_RANK);
		const struct twir_tok index_at = p->tok;
		const struct twir_expr *e = index[n++] = twir_parse_expr(p);
		if (e->type.lanes == 1 && e->type.scalar != TWIR_INDEX)
			twir_fail(p, &index_at,
				  twir_is_int((enum twir_scalar)e->type.scalar) ? "convert it: index(x)"
										: "positions are whole numbers",
				  "an index of '%s' must have type index, not %s", t->base, twir_type_text(p, e->type));
	} while (twir_take(p, ","));
	p->no_guard = guard;
	const struct twir_tok at = p->tok;
	if (twir_take(p, "+:")) {
		const int64_t lanes = twir_take_int(p, "the number of elements");
		if (lanes < 2 || lanes > TWIR_MAX_LANES)
			twir_fail(p, &at, "T[i +: 16] is 16 elements", "the number of elements is 2 to %d",
				  TWIR_MAX_LANES);
		if (t->lanes == lanes)
			twir_fail(p, &at, "leave '+:' out", "each element of %s is a vector already", t->base);
		*wide = (int)lanes;
	}
	return n;
}

static void parse_where(struct twir_parser *p, enum twir_scalar type, const struct twir_expr **mask,
			const struct twir_expr **other)
{
	*mask = *other = NULL;
	if (!twir_take(p, "where"))
		return;
	const bool guard = p->no_guard;
	p->no_guard = false;
	*mask = twir_parse_expr(p);
	twir_expect(p, "else", "a masked load is written T[i +: 16 where m else x]");
	*other = twir_retype(p, twir_parse_operand(p), type);
	p->no_guard = guard;
}

/* X[i, j] where cond else x   is   cond ? X[i, j] : x */
static const struct twir_expr *parse_guard(struct twir_parser *p, const struct twir_expr *load)
{
	const struct twir_tok at = p->tok;
	if (p->no_guard || !twir_take(p, "where"))
		return load;
	twir_enter(p);
	const struct twir_expr *cond = twir_parse_binary(p, 1).e;
	twir_expect(p, "else", "a guarded load is written X[i] where i < N else 0.0");
	const struct twir_expr *other = twir_retype(p, twir_parse_binary(p, 1), (enum twir_scalar)load->type.scalar);
	twir_leave(p);
	const char *why = twir_bad_choice(TWIR_Cond, cond, load, other);
	if (why)
		twir_fail(p, &at,
			  "a load of several elements takes its mask in the brackets: X[i +: 8 where m else 0.0]",
			  "guard of %s with %s else %s: %s", twir_type_text(p, load->type),
			  twir_type_text(p, cond->type), twir_type_text(p, other->type), why);
	return twir_cond(p->m, cond, load, other);
}

static const struct twir_expr *parse_load(struct twir_parser *p, const struct twir_tok *at, struct twir_tensor *t)
{
	const struct twir_expr *index[TWIR_MAX_RANK], *mask = NULL, *other = NULL;
	int n = 0, wide = 0;
	if (twir_take(p, "[")) {
		n = twir_parse_index(p, t, index, &wide);
		parse_where(p, t->type, &mask, &other);
		twir_expect(p, "]", NULL);
	}
	const int lanes = wide ? wide : t->lanes;
	const char *why = twir_bad_load(t, n, index, lanes, mask, other);
	if (why)
		twir_fail(p, at, "one index for each dimension: T[i, j]; several elements: T[i, j +: 16]",
			  "load of '%s' (rank %d): %s", t->base, t->rank, why);
	if (t->scope == TWIR_TENSOR && n != t->rank)
		twir_fail(p, at, "one index for each dimension: T[i, j]",
			  "load of '%s' (rank %d) at an offset into its storage: definitions know no storage", t->base,
			  t->rank);
	return twir_load_wide(p->m, t, n, index, lanes, mask, other);
}

static int parse_lanes(struct twir_parser *p)
{
	const struct twir_tok at = p->tok;
	const int64_t lanes = twir_take_int(p, "the number of lanes");
	if (lanes < 2 || lanes > TWIR_MAX_LANES)
		twir_fail(p, &at, "the lanes of a vector type: f32x16 has 16", "the number of lanes is 2 to %d",
			  TWIR_MAX_LANES);
	return (int)lanes;
}

static enum twir_kind parse_combiner(struct twir_parser *p)
{
	for (int k = 0; k < TWIR_KINDS; k++)
		if (twir_is_combiner((enum twir_kind)k) && twir_take(p, twir_combiner_name((enum twir_kind)k)))
			return (enum twir_kind)k;
	twir_fail(p, &p->tok, "add, mul, min, max, minnum, maxnum, and, or, xor", "expected an operation");
}

static const struct twir_expr *parse_reduce(struct twir_parser *p, const struct twir_tok *at)
{
	const enum twir_kind op = parse_combiner(p);
	twir_expect(p, ",", "reduce(add, v)");
	/* a register tensor's name alone means the tensor, as element 0 .. 0 */
	const struct twir_expr *v = NULL;
	const struct twir_entry *b = NULL;
	if (p->tok.kind == TK_NAME)
		b = twir_lookup(p, arena_strndup(p->scratch, p->tok.at, (size_t)p->tok.n));
	struct twir_tensor *t = b && b->kind == BOUND_TENSOR ? b->what : NULL;
	const char *after = p->at + strspn(p->at, " \t\r\n");
	if (t && t->scope == TWIR_REGISTER && t->rank > 0 && t->lanes == 1 && *after == ')') {
		twir_next(p);
		const struct twir_expr *zeros[TWIR_MAX_RANK];
		for (int i = 0; i < t->rank; i++)
			zeros[i] = twir_index(p->m, 0);
		v = twir_load(p->m, t, t->rank, zeros);
	} else {
		v = twir_parse_expr(p);
	}
	const char *why = twir_bad_reduce(op, v);
	if (why)
		twir_fail(p, at,
			  "reduce(add, v) combines the lanes of a vector, or the elements of a register tensor with "
			  "one a lane",
			  "reduce of %s: %s", twir_type_text(p, v->type), why);
	return twir_reduce(p->m, op, v);
}

static const struct twir_expr *parse_gather(struct twir_parser *p, const struct twir_tok *at)
{
	struct twir_tensor *t = twir_tensor_named(p, "a tensor");
	twir_expect(p, ",", "gather(T, indices)");
	p->no_guard = true; /* parse_where follows */
	const struct twir_expr *index = twir_parse_expr(p), *mask, *other;
	p->no_guard = false;
	parse_where(p, t->type, &mask, &other);
	const char *why = twir_bad_gather(t, index, mask, other);
	if (why)
		twir_fail(p, at, "gather(T, v): v is a vector of integers, one offset a lane", "gather: %s", why);
	return twir_gather(p->m, t, index, mask, other);
}

/* The text of a fold that was printed twice is one expression again. */
static const struct twir_expr *known_fold(struct twir_parser *p, const struct twir_expr *e)
{
	for (int i = 0; i < p->folds.n; i++) {
		struct twir_pairs pairs = {0};
		if (p->folds.at[i]->op == e->op && p->folds.at[i]->depth == e->depth &&
		    twir_same_expr(&pairs, p->folds.at[i], e))
			return p->folds.at[i];
	}
	if (p->folds.n < 64)
		vec_push(p->scratch, &p->folds, e);
	return e;
}

static const struct twir_expr *parse_fold(struct twir_parser *p, const struct twir_tok *at, enum twir_kind op)
{
	struct twir_var *axes[2 * TWIR_MAX_RANK];
	const struct twir_expr *extents[2 * TWIR_MAX_RANK];
	const int mark = p->scope.n;
	int n = 0;
	/* "name <" opens an axis as long as no variable has that name */
	while (p->tok.kind == TK_NAME && n < TW_COUNT(axes)) {
		const struct twir_tok name_at = p->tok;
		const char *s = p->at + strspn(p->at, " \t\r\n");
		const char *word = arena_strndup(p->scratch, p->tok.at, (size_t)p->tok.n);
		if (s[0] != '<' || s[1] == '=' || s[1] == '<' || twir_reserved(word) || twir_lookup(p, word) ||
		    (!p->no_symbols && strmap_get(&p->symbols, word)))
			break;
		const char *name = twir_take_name(p, "the name of an axis");
		twir_expect(p, "<", NULL);
		const struct twir_tok size_at = p->tok;
		extents[n] = twir_retype(p, twir_parse_binary(p, TWIR_SHIFT_LEVEL), TWIR_INDEX);
		const char *why = twir_bad_extents(1, &extents[n]);
		if (why)
			twir_fail(p, &size_at, "sum(k < K, body): K is of type index", "%s", why);
		twir_expect(p, ",", "sum(k < K, body)");
		axes[n] = twir_declare_var(p, &name_at, TWIR_AXIS, twir_scalar_type(TWIR_INDEX), name);
		axes[n]->lo = 0;
		int64_t size;
		if (twir_const_int(extents[n], &size))
			axes[n]->hi = size > 0 ? size - 1 : 0;
		n++;
	}
	if (n == 0)
		twir_fail(p, &p->tok, "sum(k < K, body); an axis needs a name of its own",
			  "expected an axis of the fold");
	const struct twir_expr *body = twir_parse_expr(p);
	const char *why = twir_bad_fold(op, n, axes, extents, body);
	if (why)
		twir_fail(p, at, "sum(k < K, body)", "fold of %s: %s", twir_type_text(p, body->type), why);
	twir_unbind(p, mark);
	return known_fold(p, twir_fold(p->m, op, n, axes, extents, body));
}

/* name( was read: the arguments up to ')' */
static int parse_args(struct twir_parser *p, struct twir_operand *args, int most)
{
	int n = 0;
	if (twir_is(p, ")"))
		return 0;
	do {
		if (n == most)
			twir_fail(p, &p->tok, "operations take at most 3, funcs 16", "too many arguments");
		args[n++] = twir_parse_operand(p);
	} while (twir_take(p, ","));
	return n;
}

static struct twir_operand parse_operation(struct twir_parser *p, const struct twir_tok *at, enum twir_kind k)
{
	struct twir_operand o[3];
	const struct twir_expr *e[3] = {0};
	const int n = parse_args(p, o, 3), arity = twir_kind_arity(k);
	if (n != arity)
		twir_fail(p, at, "see the table of operations in docs/LANGUAGE.md", "%s takes %d argument%s, not %d",
			  twir_kind_text(k), arity, arity == 1 ? "" : "s", n);
	/* literals take the type of the first argument that has one; the condition of select and the lane of extract
	 * stand apart */
	const bool apart = k == TWIR_Extract || (k >= TWIR_ShflUp && k <= TWIR_ShflIdx);
	const int first = k == TWIR_Select ? 1 : 0, last = apart ? 1 : n;
	enum twir_scalar type = TWIR_VOID;
	for (int i = last - 1; i >= first; i--)
		if (!o[i].flexible)
			type = (enum twir_scalar)o[i].e->type.scalar;
	for (int i = 0; i < n; i++)
		e[i] = type != TWIR_VOID && i >= first && i < last ? twir_retype(p, o[i], type) : o[i].e;
	if (type == TWIR_VOID && (twir_kind_flags(k) & TWIR_F_FLT)) /* fma(1, 2.0, 3) */
		for (int i = 0; i < n; i++)
			e[i] = twir_retype(p, o[i], TWIR_F32);
	const char *why = k == TWIR_Fma	     ? twir_bad_fma(e[0], e[1], e[2])
			  : k == TWIR_Dot4   ? twir_bad_dot4(e[0], e[1], e[2])
			  : k == TWIR_Select ? twir_bad_choice(k, e[0], e[1], e[2])
			  : n == 1	     ? twir_bad_unary(k, e[0])
					     : twir_bad_binary(k, e[0], e[1]);
	if (why)
		twir_fail(p, at, "convert the operands, for example f32(x) or index(x)", "%s of %s%s%s%s%s: %s",
			  twir_kind_text(k), twir_type_text(p, e[0]->type), n > 1 ? ", " : "",
			  n > 1 ? twir_type_text(p, e[1]->type) : "", n > 2 ? ", " : "",
			  n > 2 ? twir_type_text(p, e[2]->type) : "", why);
	if (k == TWIR_Fma)
		return rigid(twir_fma(p->m, e[0], e[1], e[2]));
	if (k == TWIR_Dot4)
		return rigid(twir_dot4(p->m, e[0], e[1], e[2]));
	if (k == TWIR_Select)
		return (struct twir_operand){twir_select(p->m, e[0], e[1], e[2]), o[1].flexible && o[2].flexible,
					     twir_wide_choice(p, k, e[0], o[1], o[2])};
	return rigid(n == 1 ? twir_unary(p->m, k, e[0]) : twir_binary(p->m, k, e[0], e[1]));
}

static const char *call_hint(struct twir_parser *p, const char *name, const struct twir_operand *first)
{
	const struct twir_entry *b = twir_lookup(p, name);
	if (b && b->kind == BOUND_TENSOR)
		return "elements of tensors are written T[i, j]";
	if (first && twir_func_find(p->m, arena_printf(p->scratch, "%s_f32", name)))
		return arena_printf(p->scratch, "there are %s_f32 and %s_f64; the argument is %s: cast it", name, name,
				    twir_type_text(p, first->e->type));
	const char *near = twir_suggest(p, name, TWIR_SUGGEST_CALLS);
	return near ? near : "funcs are declared before they are used";
}

static const struct twir_expr *parse_func_call(struct twir_parser *p, const struct twir_tok *at, const char *name)
{
	struct twir_operand o[16];
	const struct twir_expr *args[16];
	const int n = parse_args(p, o, 16);
	struct twir_func *f = twir_func_find(p->m, name);
	if (!f && n > 0) { /* exp(x) is exp_f32(x) or exp_f64(x) */
		const char *type = twir_scalar_name((enum twir_scalar)(o[0].flexible ? TWIR_F32 : o[0].e->type.scalar));
		f = twir_func_find(p->m, arena_printf(p->scratch, "%s_%s", name, type));
	}
	if (!f)
		twir_fail(p, at, call_hint(p, name, n > 0 ? &o[0] : NULL), "there is no func or operation '%.60s'",
			  name);
	for (int i = 0; i < n; i++)
		args[i] = i < f->n ? twir_retype(p, o[i], (enum twir_scalar)f->args[i]->type.scalar) : o[i].e;
	const char *why = twir_bad_call(f, n, args);
	if (why)
		twir_fail(p, at, "convert the arguments, for example f32(x)", "call of %s: %s", f->name, why);
	return twir_call(p->m, f, n, args);
}

static const struct twir_expr *parse_cast(struct twir_parser *p, const struct twir_tok *at, enum twir_scalar to,
					  bool bits)
{
	struct twir_operand o = twir_parse_operand(p);
	const char *why = bits ? twir_bad_bitcast(to, o.e) : twir_bad_cast(to, o.e);
	if (why)
		twir_fail(p, at, "f32(x) converts the value; bitcast_f32(x) keeps the bits of an equally wide type",
			  "%s", why);
	if (!bits && o.wide && twir_is_float(to)) /* f64(0.1): the literal's own value */
		o.e = twir_retype(p, o, to);
	return bits ? twir_bitcast(p->m, to, o.e) : twir_cast(p->m, to, o.e);
}

/* f32x4(x): the cast, and a scalar in every lane */
static const struct twir_expr *parse_vector_cast(struct twir_parser *p, const struct twir_tok *at, struct twir_type to)
{
	const struct twir_expr *e = parse_cast(p, at, (enum twir_scalar)to.scalar, false);
	if (e->type.lanes != 1 && e->type.lanes != to.lanes)
		twir_fail(p, at, "extract takes one lane out", "a vector of %d lanes does not become one of %d",
			  e->type.lanes, to.lanes);
	return twir_splat_to(p->m, e, to.lanes);
}

/* lanes(f32): how many numbers of a type a vector register of the machine holds */
static const struct twir_expr *parse_lanes_of(struct twir_parser *p)
{
	const struct twir_type t = twir_parse_type(p);
	const int64_t bytes = 4 * (p->m->lanes ? p->m->lanes : TWIR_USUAL_LANES),
		      n = bytes / twir_scalar_bytes(t.scalar);
	return twir_index(p->m, n > 1 ? n : 1);
}

static const struct twir_expr *parse_call_like(struct twir_parser *p, const struct twir_tok *at, const char *name)
{
	for (int k = 0; k < TWIR_KINDS; k++)
		if (twir_is_combiner((enum twir_kind)k) && strcmp(twir_fold_name((enum twir_kind)k), name) == 0)
			return parse_fold(p, at, (enum twir_kind)k);
	const struct twir_type to = twir_type_named(name);
	if (to.scalar != TWIR_VOID && to.lanes == 1)
		return parse_cast(p, at, (enum twir_scalar)to.scalar, false);
	if (to.scalar != TWIR_VOID)
		return parse_vector_cast(p, at, to);
	if (strncmp(name, "bitcast_", 8) == 0 && twir_scalar_parse(name + 8) != TWIR_VOID)
		return parse_cast(p, at, twir_scalar_parse(name + 8), true);
	if (strncmp(name, "iota_", 5) == 0) {
		const enum twir_scalar s = twir_scalar_parse(name + 5);
		if (!twir_is_int(s) || s == TWIR_I1)
			twir_fail(p, at, "iota_i32(16)", "iota needs an integer type");
		return twir_iota(p->m, s, parse_lanes(p));
	}
	if (strcmp(name, "lanes") == 0)
		return parse_lanes_of(p);
	if (strcmp(name, "reduce") == 0)
		return parse_reduce(p, at);
	if (strcmp(name, "gather") == 0)
		return parse_gather(p, at);
	if (strcmp(name, "splat") == 0) {
		const struct twir_expr *e = twir_parse_expr(p);
		if (e->type.lanes != 1)
			twir_fail(p, at, "splat(x, 16) has x in 16 lanes", "splat takes a scalar");
		twir_expect(p, ",", "splat(x, 16)");
		return twir_splat(p->m, e, parse_lanes(p));
	}
	return parse_func_call(p, at, name);
}

static const struct twir_expr *parse_word(struct twir_parser *p, const struct twir_tok *at, const char *name)
{
	if (strcmp(name, "true") == 0 || strcmp(name, "false") == 0)
		return twir_bool(p->m, name[0] == 't');
	for (int l = 0; l < TWIR_LEVELS; l++)
		if (strcmp(twir_level_name((enum twir_level)l), name) == 0)
			return twir_worker(p->m, (enum twir_level)l);
	const struct twir_entry *b = twir_lookup(p, name);
	if (b && b->kind == BOUND_VAR)
		return twir_var(p->m, b->what);
	if (b && b->kind == BOUND_TENSOR)
		return parse_guard(p, parse_load(p, at, b->what));
	if (b)
		twir_fail(p, at, "a mapping follows 'in' or 'mirrors'", "'%s' is a mapping, not a value", name);
	const struct twir_expr *constant = strmap_get(&p->consts, name);
	if (constant)
		return constant;
	struct twir_var *symbol = p->no_symbols ? NULL : strmap_get(&p->symbols, name);
	if (symbol)
		return twir_var(p->m, symbol);
	if (twir_reserved(name))
		twir_fail(p, at, "this is a word of the language", "expected an expression, found '%.40s'", name);
	const char *near = twir_suggest(p, name, TWIR_SUGGEST_VALUES);
	twir_fail(p, at,
		  near		  ? near
		  : p->no_symbols ? "a func sees only its arguments and lets"
				  : "sizes are declared with symbol, values with let",
		  "'%.80s' is not declared", name);
}

struct twir_operand twir_parse_primary(struct twir_parser *p)
{
	const struct twir_tok at = p->tok;
	if (twir_at_number(p))
		return twir_literal(p, false);
	const bool guard = p->no_guard;
	if (twir_take(p, "(")) {
		p->no_guard = false;
		const struct twir_operand o = twir_parse_operand(p);
		p->no_guard = guard;
		twir_expect(p, ")", NULL);
		return o;
	}
	if (at.kind != TK_NAME) {
		const char *known = twir_habit(p);
		twir_fail(p, &at, known ? known : "a number, a name, T[i, j], f(x) or (..)", "expected an expression");
	}
	const char *name = arena_strndup(p->scratch, at.at, (size_t)at.n);
	twir_next(p);
	if (!twir_take(p, "("))
		return rigid(parse_word(p, &at, name));
	p->no_guard = false;
	int k = 0;
	while (k < TWIR_KINDS && (!(twir_kind_flags((enum twir_kind)k) & TWIR_F_FUNC) || k == TWIR_Neg ||
				  strcmp(twir_kind_text((enum twir_kind)k), name) != 0))
		k++;
	const struct twir_operand o =
		k < TWIR_KINDS ? parse_operation(p, &at, (enum twir_kind)k) : rigid(parse_call_like(p, &at, name));
	p->no_guard = guard;
	twir_expect(p, ")", NULL);
	return o;
}
