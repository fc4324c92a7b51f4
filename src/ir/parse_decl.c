/* Declarations: types, tensors with layouts, mappings. */
#include "ir/parse_int.h"

/* Types of ONNX that tensor programs do not have. */
static const struct {
	const char *name, *hint;
} refused[] = {
	{"c64", "a complex number is two f32: give the tensor a last dimension of 2"},
	{"c128", "a complex number is two f64: give the tensor a last dimension of 2"},
	{"complex64", "a complex number is two f32: give the tensor a last dimension of 2"},
	{"complex128", "a complex number is two f64: give the tensor a last dimension of 2"},
	{"string", "strings are the work of host operators"},
	{"bool", "i1"},
	{"float", "f32"},
	{"float16", "f16"},
	{"float32", "f32"},
	{"float64", "f64"},
	{"bfloat16", "bf16"},
	{"half", "f16"},
	{"double", "f64"},
	{"char", "i8 or u8"},
	{"long", "i64"},
	{"int", "i32, or index for sizes and positions"},
	{"int8", "i8"},
	{"int16", "i16"},
	{"int32", "i32"},
	{"int64", "i64"},
	{"uint8", "u8"},
	{"uint16", "u16"},
	{"uint32", "u32"},
	{"uint64", "u64"},
};

static const char type_hint[] = "i1 i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64 f8e4m3fn f8e4m3fnuz f8e5m2 "
				"f8e5m2fnuz f8e8m0 f4e2m1 i4 u4 i2 "
				"u2 index, or a vector such as f32x16";

struct twir_type twir_parse_type(struct twir_parser *p)
{
	const struct twir_tok at = p->tok;
	char name[20] = {0};
	if (at.kind == TK_NAME && at.n < (int)sizeof(name))
		memcpy(name, at.at, (size_t)at.n);
	for (int i = 0; i < TW_COUNT(refused); i++)
		if (strcmp(name, refused[i].name) == 0)
			twir_fail(p, &at, refused[i].hint, "there is no type '%s'", name);
	const struct twir_type t = twir_type_named(name);
	if (t.scalar == TWIR_VOID)
		twir_fail(p, &at, twir_suggest_token(p, TWIR_SUGGEST_TYPES, type_hint), "expected a type");
	twir_next(p);
	return t;
}

static int parse_sizes(struct twir_parser *p, const struct twir_expr **sizes, const char *end, const char *what)
{
	int n = 0;
	if (twir_is(p, end))
		return 0;
	do {
		if (n == TWIR_MAX_RANK)
			twir_fail(p, &p->tok, "join dimensions that are used together", "more than %d dimensions",
				  TWIR_MAX_RANK);
		sizes[n++] = twir_parse_size(p, what);
	} while (twir_take(p, ","));
	return n;
}

static const char layout_hint[] = "layout row(..), column(..), strides(..), blocked(..), local(..), or factors: "
				  "row(8, 2) * row(16, 4)";

static struct twir_swizzle parse_swizzle(struct twir_parser *p, enum twir_layout_kind kind, int rank,
					 const struct twir_expr *const *extent)
{
	struct twir_swizzle s = {0};
	const struct twir_tok at = p->tok;
	if (!twir_take(p, "swizzle"))
		return s;
	int64_t number[3] = {0};
	int n = 0;
	twir_expect(p, "(", "row(64, 8) swizzle(1, 0): coordinate 1 xor coordinate 0");
	do
		if (n < 3)
			number[n++] = twir_take_int(p, "a dimension");
		else
			twir_fail(p, &p->tok, "row(64, 8) swizzle(1, 0): coordinate 1 xor coordinate 0",
				  "swizzle(DIM, BY) or swizzle(DIM, BY, SHIFT)");
	while (twir_take(p, ","));
	twir_expect(p, ")", NULL);
	for (int i = 0; i < 3; i++)
		number[i] = number[i] < 0 || number[i] > 99 ? 99 : number[i];
	s = (struct twir_swizzle){.on = true, .dim = (int)number[0], .by = (int)number[1], .shift = (int)number[2]};
	const char *why =
		n < 2 ? "swizzle(DIM, BY) or swizzle(DIM, BY, SHIFT)" : twir_bad_swizzle(kind, rank, extent, &s);
	if (why)
		twir_fail(p, &at, "row(64, 8) swizzle(1, 0): coordinate 1 xor coordinate 0", "%s", why);
	return s;
}

static const struct twir_layout *parse_layout(struct twir_parser *p, const struct twir_tensor *t, bool first)
{
	const int rank = t->rank;
	twir_enter(p);
	const struct twir_tok at = p->tok;
	enum twir_layout_kind kind = TWIR_LAYOUT_ROW;
	const bool blocked = twir_take(p, "blocked");
	while (!blocked && !twir_take(p, twir_layout_word(kind)))
		if (kind++ == TWIR_LAYOUT_LOCAL)
			twir_fail(p, &at, layout_hint, "expected a factor of a layout");
	const struct twir_expr *extent[TWIR_MAX_RANK];
	if (!twir_is(p, "(") && first && (kind == TWIR_LAYOUT_ROW || kind == TWIR_LAYOUT_COLUMN) && !blocked) {
		twir_leave(p); /* the word alone: over the tensor's shape */
		return kind == TWIR_LAYOUT_ROW ? NULL : twir_layout_make(p->m, kind, rank, t->shape, NULL);
	}
	twir_expect(p, "(", layout_hint);
	const int n = parse_sizes(p, extent, ")", kind == TWIR_LAYOUT_STRIDES ? "a stride" : "a size");
	if (n != rank)
		twir_fail(p, &at, "every factor has one extent for each dimension, 1 where it does not split it",
			  "the factor has %d dimensions, the tensor %d", n, rank);
	twir_expect(p, ")", NULL);
	if (blocked && !first)
		twir_fail(p, &at, "row(..) * row(..) says it in factors", "blocked is a layout of its own, no factor");
	if (blocked) {
		twir_leave(p);
		return twir_layout_blocked(p->m, rank, t->shape, extent);
	}
	const struct twir_swizzle swizzle = parse_swizzle(p, kind, rank, extent);
	const struct twir_tok times = p->tok;
	const struct twir_layout *inner = NULL;
	if (twir_take(p, "*")) {
		if (kind == TWIR_LAYOUT_STRIDES)
			twir_fail(p, &times, "put the factors that split before it: row(8, 1) * strides(1, 8)",
				  "strides are the last factor of a layout");
		inner = parse_layout(p, t, false);
	}
	twir_leave(p);
	return twir_layout_factor(p->m, kind, rank, extent, &swizzle, inner);
}

/* NAME: type[shape] mirrors MAP layout L. The name is not bound yet; *at is where it stands. */
struct twir_tensor *twir_parse_tensor(struct twir_parser *p, enum twir_scope scope, struct twir_tok *at)
{
	*at = p->tok;
	if (p->tok.kind == TK_NAME && p->tok.n < 20 &&
	    twir_type_named(arena_strndup(p->scratch, p->tok.at, (size_t)p->tok.n)).scalar != TWIR_VOID)
		twir_fail(p, at, "NAME: f32[M, N]", "the type of a tensor stands behind its name");
	const char *name = twir_take_name(p, "the name of a tensor");
	twir_expect(p, ":", "NAME: f32[M, N]");
	const struct twir_tok type_at = p->tok;
	const struct twir_type type = twir_parse_type(p);
	if (type.lanes > 1 && scope != TWIR_REGISTER)
		twir_fail(p, &type_at, "load and store vectors of scalars with T[i +: 16]",
			  "only register tensors hold vectors");
	const struct twir_expr *shape[TWIR_MAX_RANK];
	twir_expect(p, "[", "NAME: f32[M, N]");
	const int rank = parse_sizes(p, shape, "]", "a size");
	twir_expect(p, "]", NULL);
	const bool global = scope == TWIR_IN || scope == TWIR_OUT || scope == TWIR_TENSOR || scope == TWIR_BUFFER;
	const char *unique = twir_unique(p->m, name); /* parameters keep their names, others must not take them */
	struct twir_tensor *t =
		twir_tensor_exact(p->m, global ? name : unique, (enum twir_scalar)type.scalar, rank, shape, scope);
	t->base = name;
	t->lanes = type.lanes;
	const struct twir_tok map_at = p->tok;
	if (twir_take(p, "mirrors")) {
		if (scope != TWIR_REGISTER)
			twir_fail(p, &map_at,
				  "shared memory has a layout: shared S: f32[64, 8] layout row(64, 8) swizzle(1, 0);",
				  "only register tensors mirror a mapping");
		t->mirrors = twir_parse_map(p);
		if (t->mirrors->rank != rank)
			twir_fail(p, &map_at, "a register tensor has one dimension for each of its mapping",
				  "the mapping has rank %d, the tensor %d", t->mirrors->rank, rank);
	}
	const struct twir_tok layout_at = p->tok;
	if (twir_take(p, "layout")) {
		if (rank == 0 || t->mirrors)
			twir_fail(p, &layout_at, NULL,
				  t->mirrors ? "a tensor that mirrors a mapping has no other layout"
					     : "a tensor of rank 0 has no layout");
		t->layout = parse_layout(p, t, true);
	}
	return t;
}

bool twir_parse_level(struct twir_parser *p, enum twir_level *level)
{
	for (int l = 0; l < TWIR_LEVELS; l++) {
		if (twir_take(p, twir_level_name((enum twir_level)l))) {
			*level = (enum twir_level)l;
			return true;
		}
	}
	return false;
}

/* mappings */

static int parse_int_list(struct twir_parser *p, int *list)
{
	int n = 0;
	twir_expect(p, "[", NULL);
	if (twir_take(p, "]"))
		return 0;
	do {
		const struct twir_tok at = p->tok;
		const int64_t v = twir_take_int(p, "a dimension");
		if (v < 0 || v >= TWIR_MAX_RANK || n == TWIR_MAX_RANK)
			twir_fail(p, &at, "dimensions are counted from 0", "a dimension is 0 to %d", TWIR_MAX_RANK - 1);
		list[n++] = (int)v;
	} while (twir_take(p, ","));
	twir_expect(p, "]", NULL);
	return n;
}

static bool parse_attr(struct twir_parser *p, enum twtm_attr *attr)
{
	*attr = twir_is(p, "unroll") ? TWTM_UNROLL : twir_is(p, "vector") ? TWTM_VECTOR : TWTM_PLAIN;
	return twir_take(p, "unroll") || twir_take(p, "vector") || twir_take(p, "plain");
}

static void parse_ranks(struct twir_parser *p, int rank, int *order)
{
	const struct twir_tok at = p->tok;
	twir_expect(p, "ranks", NULL);
	twir_expect(p, "=", "ranks = [1, 0]");
	const int n = parse_int_list(p, order);
	unsigned taken = 0;
	for (int i = 0; i < n; i++)
		taken |= 1u << order[i];
	if (n != rank || taken != (1u << rank) - 1)
		twir_fail(p, &at, "ranks = [1, 0] visits dimension 1 slowest", "the ranks are a permutation of 0 to %d",
			  rank - 1);
}

static void parse_attrs(struct twir_parser *p, int rank, enum twtm_attr *attrs)
{
	const struct twir_tok at = p->tok;
	twir_expect(p, "attrs", NULL);
	twir_expect(p, "=", "attrs = [unroll, plain]");
	twir_expect(p, "[", NULL);
	int n = 0;
	do {
		if (n == rank || !parse_attr(p, &attrs[n]))
			twir_fail(p, &p->tok, "attrs = [plain, unroll]",
				  "one of plain, unroll, vector for each dimension");
		n++;
	} while (twir_take(p, ","));
	twir_expect(p, "]", NULL);
	if (n != rank)
		twir_fail(p, &at, "attrs = [plain, unroll]", "one of plain, unroll, vector for each dimension");
}

static const struct twir_map *parse_basic(struct twir_parser *p, enum twtm_kind kind)
{
	const struct twir_expr *extent[TWIR_MAX_RANK];
	int order[TWIR_MAX_RANK], rank = 0;
	enum twtm_attr attrs[TWIR_MAX_RANK] = {TWTM_PLAIN};
	bool ranked = false, attributed = false;
	twir_expect(p, "(", NULL);
	do {
		const struct twir_tok at = p->tok;
		enum twtm_attr all;
		if (twir_is(p, "ranks") && rank && !ranked) {
			parse_ranks(p, rank, order);
			ranked = true;
		} else if (twir_is(p, "attrs") && rank && !attributed) {
			parse_attrs(p, rank, attrs);
			attributed = true;
		} else if (rank && !attributed && parse_attr(p, &all)) {
			for (int i = 0; i < rank; i++)
				attrs[i] = all;
			attributed = true;
		} else {
			if (rank == TWIR_MAX_RANK || ranked || attributed)
				twir_fail(p, &at, "repeat(4, 8, ranks = [1, 0], unroll)",
					  "a mapping has at most %d extents, before its attributes", TWIR_MAX_RANK);
			extent[rank++] = twir_parse_size(p, "an extent");
		}
		if (attributed && kind == TWTM_SPATIAL)
			twir_fail(p, &at,
				  "the tasks of a spatial factor belong to different workers: nothing is unrolled",
				  "attributes belong to repeat");
	} while (twir_take(p, ","));
	twir_expect(p, ")", NULL);
	return twir_map_basic(p->m, kind, rank, extent, ranked ? order : NULL, attrs);
}

static const struct twir_map *parse_project(struct twir_parser *p, const struct twir_tok *at)
{
	int dims[TWIR_MAX_RANK], n = 1;
	unsigned mask = 0;
	twir_expect(p, "(", NULL);
	const struct twir_map *f = twir_parse_map(p);
	twir_expect(p, ",", "project(spatial(4, 2), [1])");
	if (twir_is(p, "[")) {
		n = parse_int_list(p, dims);
	} else {
		const int64_t v = twir_take_int(p, "a dimension");
		dims[0] = v < 0 || v >= TWIR_MAX_RANK ? TWIR_MAX_RANK : (int)v;
	}
	twir_expect(p, ")", NULL);
	for (int i = 0; i < n; i++)
		mask |= 1u << dims[i];
	const char *why = twir_bad_project(f, mask);
	if (why)
		twir_fail(p, at,
			  "a projected mapping numbers the workers of one dimension: project(spatial(4, 2), [1])", "%s",
			  why);
	return twir_project(p->m, f, mask);
}

static const struct twir_map *parse_factor(struct twir_parser *p)
{
	const struct twir_tok at = p->tok;
	if (twir_take(p, "repeat"))
		return parse_basic(p, TWTM_REPEAT);
	if (twir_take(p, "spatial"))
		return parse_basic(p, TWTM_SPATIAL);
	if (twir_take(p, "project"))
		return parse_project(p, &at);
	if (twir_take(p, "(")) {
		const struct twir_map *f = twir_parse_map(p);
		twir_expect(p, ")", NULL);
		return f;
	}
	const char *name = twir_take_name(p, "a mapping");
	const struct twir_entry *b = twir_lookup(p, name);
	const char *hint = twir_suggest(p, name, 1 << BOUND_MAP | TWIR_SUGGEST_WORDS);
	if (!b || b->kind != BOUND_MAP)
		twir_fail(p, &at,
			  hint ? hint : "repeat(..), spatial(..), project(.., [0]), or a name declared with map",
			  "there is no mapping '%s' here", name);
	return b->what;
}

const struct twir_map *twir_parse_map(struct twir_parser *p)
{
	twir_enter(p);
	const struct twir_map *f = parse_factor(p);
	const int factors_before = p->depth;
	while (twir_is(p, "*")) {
		const struct twir_tok at = p->tok;
		twir_next(p);
		twir_enter(p); /* a chain of factors is as deep as it is long */
		const struct twir_map *g = parse_factor(p);
		const char *why = twir_bad_compose(f, g);
		if (why)
			twir_fail(p, &at,
				  "write 1 for a dimension that a factor leaves alone: repeat(4, 1) * spatial(8, 8)",
				  "%s", why);
		f = twir_compose(p->m, f, g);
	}
	p->depth = factors_before;
	twir_leave(p);
	return f;
}
