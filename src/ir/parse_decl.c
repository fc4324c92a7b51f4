/* Declarations: types, tensors with layouts, mappings. */
#include "ir/parse_int.h"

#include <stdlib.h>

struct twir_type twir_parse_type(struct twir_parser *p)
{
	const struct twir_tok at = p->tok;
	char name[16] = {0};
	if (at.kind == TK_NAME && at.n < (int)sizeof(name))
		memcpy(name, at.at, (size_t)at.n);
	/* f32x16: the scalar's name, x, the lanes */
	int lanes = 1;
	char *digits = name + strcspn(name, "0123456789x");
	digits = strncmp(name, "index", 5) == 0 ? name + 5 : digits + strspn(digits, "0123456789");
	if (*digits == 'x') {
		const bool number =
			digits[1] != '0' && digits[1] && strspn(digits + 1, "0123456789") == strlen(digits + 1);
		lanes = number ? atoi(digits + 1) : 0;
		*digits = 0;
		if (lanes == 1)
			lanes = 0; /* f32 is the one spelling */
	}
	const enum twir_scalar s = twir_scalar_parse(name);
	if (s == TWIR_VOID || lanes < 1 || lanes > TWIR_MAX_LANES)
		twir_fail(p, &at, "i1 i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64 index, or a vector such as f32x16",
			  "expected a type");
	twir_next(p);
	return twir_vector_type(s, lanes);
}

static int parse_sizes(struct twir_parser *p, const struct twir_expr **sizes, const char *end, const char *what)
{
	int n = 0;
	if (twir_is(p, end))
		return 0;
	do {
		if (n == TWIR_MAX_RANK)
			twir_fail(p, &p->tok, NULL, "more than %d dimensions", TWIR_MAX_RANK);
		sizes[n++] = twir_parse_size(p, what);
	} while (twir_take(p, ","));
	return n;
}

static const struct twir_layout *parse_layout(struct twir_parser *p, int rank)
{
	twir_enter(p);
	const struct twir_tok at = p->tok;
	const bool strides = twir_take(p, "strides");
	if (!strides)
		twir_expect(p, "row", "layout row(..) * row(..), the last may be strides(..)");
	twir_expect(p, "(", NULL);
	const struct twir_expr *extent[TWIR_MAX_RANK];
	const int n = parse_sizes(p, extent, ")", strides ? "a stride" : "a size");
	if (n != rank)
		twir_fail(p, &at, NULL, "the factor has %d dimensions, the tensor %d", n, rank);
	twir_expect(p, ")", NULL);
	const struct twir_tok times = p->tok;
	const struct twir_layout *inner = NULL;
	if (twir_take(p, "*")) {
		if (strides)
			twir_fail(p, &times, NULL, "strides are the last factor of a layout");
		inner = parse_layout(p, rank);
	}
	twir_leave(p);
	return twir_layout_make(p->m, strides ? TWIR_LAYOUT_STRIDES : TWIR_LAYOUT_ROW, rank, extent, inner);
}

/* NAME: type[shape] mirrors MAP layout L. The name is not bound yet; *at is where it stands. */
struct twir_tensor *twir_parse_tensor(struct twir_parser *p, enum twir_scope scope, struct twir_tok *at)
{
	*at = p->tok;
	const char *name = twir_take_name(p, "the name of a tensor");
	twir_expect(p, ":", "NAME: f32[M, N]");
	const struct twir_tok type_at = p->tok;
	const struct twir_type type = twir_parse_type(p);
	if (type.lanes > 1 && scope != TWIR_REGISTER)
		twir_fail(p, &type_at, NULL, "only register tensors hold vectors");
	const struct twir_expr *shape[TWIR_MAX_RANK];
	twir_expect(p, "[", "NAME: f32[M, N]");
	const int rank = parse_sizes(p, shape, "]", "a size");
	twir_expect(p, "]", NULL);
	const bool global = scope == TWIR_IN || scope == TWIR_OUT || scope == TWIR_TENSOR;
	const char *unique = twir_unique(p->m, name); /* parameters keep their names, others must not take them */
	struct twir_tensor *t =
		twir_tensor_exact(p->m, global ? name : unique, (enum twir_scalar)type.scalar, rank, shape, scope);
	t->base = name;
	t->lanes = type.lanes;
	const struct twir_tok map_at = p->tok;
	if (twir_take(p, "mirrors")) {
		if (scope != TWIR_REGISTER)
			twir_fail(p, &map_at, NULL, "only register tensors mirror a mapping");
		t->mirrors = twir_parse_map(p);
		if (t->mirrors->rank != rank)
			twir_fail(p, &map_at, NULL, "the mapping has rank %d, the tensor %d", t->mirrors->rank, rank);
	}
	const struct twir_tok layout_at = p->tok;
	if (twir_take(p, "layout")) {
		if (rank == 0 || t->mirrors)
			twir_fail(p, &layout_at, NULL,
				  t->mirrors ? "a tensor that mirrors a mapping has no other layout"
					     : "a tensor of rank 0 has no layout");
		t->layout = parse_layout(p, rank);
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
			twir_fail(p, &at, NULL, "a dimension is 0 to %d", TWIR_MAX_RANK - 1);
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
		twir_fail(p, &at, NULL, "the ranks are a permutation of 0 to %d", rank - 1);
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
			twir_fail(p, &p->tok, NULL, "one of plain, unroll, vector for each dimension");
		n++;
	} while (twir_take(p, ","));
	twir_expect(p, "]", NULL);
	if (n != rank)
		twir_fail(p, &at, NULL, "one of plain, unroll, vector for each dimension");
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
				twir_fail(p, &at, NULL, "a mapping has at most %d extents, before its attributes",
					  TWIR_MAX_RANK);
			extent[rank++] = twir_parse_size(p, "an extent");
		}
		if (attributed && kind == TWTM_SPATIAL)
			twir_fail(p, &at, NULL, "attributes belong to repeat");
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
		twir_fail(p, at, NULL, "%s", why);
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
	if (!b || b->kind != BOUND_MAP)
		twir_fail(p, &at, "repeat(..), spatial(..), project(.., [0]), or a name declared with map",
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
			twir_fail(p, &at, NULL, "%s", why);
		f = twir_compose(p->m, f, g);
	}
	p->depth = factors_before;
	twir_leave(p);
	return f;
}
