/* helper: the helper functions and vector types of one file. Input: requests (operation, types) made while kernels are
 * written; output: their text. Helpers are printed in the order of first use, each after those it needs; the rows of
 * the dialect come before the common ones. */
#include "cgen/cgen_int.h"

static const char *const scalar_c[TWIR_SCALARS] = {
	[TWIR_I1] = "i32",    [TWIR_I8] = "i8",		[TWIR_I16] = "i16",	[TWIR_I32] = "i32",
	[TWIR_I64] = "i64",   [TWIR_U8] = "u8",		[TWIR_U16] = "u16",	[TWIR_U32] = "u32",
	[TWIR_U64] = "u64",   [TWIR_F16] = "u16",	[TWIR_BF16] = "u16",	[TWIR_F32] = "f32",
	[TWIR_F64] = "f64",   [TWIR_INDEX] = "i64",	[TWIR_F8E4M3FN] = "u8", [TWIR_F8E4M3FNUZ] = "u8",
	[TWIR_F8E5M2] = "u8", [TWIR_F8E5M2FNUZ] = "u8", [TWIR_F8E8M0] = "u8",	[TWIR_F4E2M1] = "u8",
	[TWIR_I4] = "i8",     [TWIR_U4] = "u8",		[TWIR_I2] = "i8",	[TWIR_U2] = "u8",
};

static const char *const typedefs[TWIR_SCALARS] = {
	[TWIR_I8] = "__INT8_TYPE__",	[TWIR_I16] = "__INT16_TYPE__",	[TWIR_I32] = "__INT32_TYPE__",
	[TWIR_I64] = "__INT64_TYPE__",	[TWIR_U8] = "__UINT8_TYPE__",	[TWIR_U16] = "__UINT16_TYPE__",
	[TWIR_U32] = "__UINT32_TYPE__", [TWIR_U64] = "__UINT64_TYPE__", [TWIR_F32] = "float",
	[TWIR_F64] = "double",
};

const char *cgen_scalar_name(enum twir_scalar s)
{
	TW_CHECK(s < TWIR_SCALARS && scalar_c[s], "type %d has no form in C", (int)s);
	return scalar_c[s];
}

enum twir_scalar cgen_storage(enum twir_scalar s)
{
	switch (s) {
	case TWIR_I1:
	case TWIR_F8E4M3FN:
	case TWIR_F8E4M3FNUZ:
	case TWIR_F8E5M2:
	case TWIR_F8E5M2FNUZ:
	case TWIR_F8E8M0:
	case TWIR_F4E2M1: /* packed types: a value has a byte of its own, memory of parameters has not */
	case TWIR_U4:
	case TWIR_U2:
		return TWIR_U8;
	case TWIR_I4:
	case TWIR_I2:
		return TWIR_I8;
	case TWIR_F16:
	case TWIR_BF16:
		return TWIR_U16;
	case TWIR_INDEX:
		return TWIR_I64;
	default:
		return s;
	}
}

/* The type of a value: i1 is an i32 (0 or 1; 0 or -1 in the lanes of a vector). */
static enum twir_scalar value_scalar(enum twir_scalar s)
{
	return s == TWIR_I1 ? TWIR_I32 : cgen_storage(s);
}

static int log2_lanes(int lanes)
{
	int k = 0;
	while ((1 << k) < lanes)
		k++;
	TW_CHECK(lanes >= 2 && (1 << k) == lanes && k < MAX_LOG2, "vectors of %d lanes", lanes);
	return k;
}

const char *cgen_type(struct cgen_uses *u, struct twir_type t)
{
	const enum twir_scalar s = value_scalar(t.scalar);
	if (t.lanes == 1)
		return cgen_scalar_name(s);
	u->vectors[s][log2_lanes(t.lanes)] = true;
	return arena_printf(u->arena, "%sx%d", cgen_scalar_name(s), t.lanes);
}

void cgen_uses_init(struct cgen_uses *u, struct tw_arena *a, const struct tw_dialect *d)
{
	memset(u, 0, sizeof *u);
	u->arena = a;
	u->d = d;
	strmap_init(&u->helpers, a);
}

struct cgen_uses *cgen_uses_new(struct tw_arena *a, const struct tw_dialect *d)
{
	struct cgen_uses *u = ARENA_NEW(a, struct cgen_uses);
	cgen_uses_init(u, a, d);
	return u;
}

static struct cgen_helper *use(struct cgen_uses *u, const char *op, struct twir_type a, struct twir_type b)
{
	a.scalar = (uint8_t)value_scalar(a.scalar);
	const char *ta = cgen_type(u, a);
	const char *name;
	if (b.scalar == TWIR_VOID) {
		name = arena_printf(u->arena, "%s_%s", op, ta);
	} else {
		b.scalar = (uint8_t)value_scalar(b.scalar);
		name = arena_printf(u->arena, "%s_%s_%s", op, ta, cgen_type(u, b));
	}
	struct cgen_helper *h = strmap_get(&u->helpers, name);
	if (!h) {
		h = ARENA_NEW(u->arena, struct cgen_helper);
		*h = (struct cgen_helper){name, arena_strdup(u->arena, op), a, b, false};
		strmap_set(&u->helpers, name, h);
		vec_push(u->arena, &u->list, h);
	}
	if (u->tracing)
		vec_push(u->arena, &u->called, h);
	return h;
}

void cgen_uses_join(struct cgen_uses *to, const struct cgen_uses *from)
{
	for (int i = 0; i < from->list.n; i++)
		use(to, from->list.at[i]->op, from->list.at[i]->a, from->list.at[i]->b);
	for (int s = 0; s < TWIR_SCALARS; s++)
		for (int k = 0; k < MAX_LOG2; k++) {
			to->vectors[s][k] |= from->vectors[s][k];
			to->unaligned[s][k] |= from->unaligned[s][k];
		}
}

const char *cgen_use(struct cgen_uses *u, const char *op, struct twir_type a, struct twir_type b)
{
	return use(u, op, a, b)->name;
}

static const struct cgen_row *find_in(const struct cgen_row *rows, const struct cgen_helper *h)
{
	for (const struct cgen_row *r = rows; r && r->op; r++) {
		if (strcmp(r->op, h->op) != 0 || !(r->types & (1u << h->a.scalar)) ||
		    (r->btypes && !(r->btypes & (1u << h->b.scalar))))
			continue;
		if (r->lanes == h->a.lanes || (r->lanes == ROW_VECTOR && h->a.lanes > 1))
			return r;
	}
	return NULL;
}

bool cgen_has_row(const struct cgen_uses *u, const char *op, struct twir_type a)
{
	return find_in(u->d->rows, &(struct cgen_helper){.op = op, .a = a}) != NULL;
}

static enum twir_scalar int_as_wide(enum twir_scalar s, bool is_signed)
{
	switch (twir_scalar_bytes(s)) {
	case 1:
		return is_signed ? TWIR_I8 : TWIR_U8;
	case 2:
		return is_signed ? TWIR_I16 : TWIR_U16;
	case 4:
		return is_signed ? TWIR_I32 : TWIR_U32;
	default:
		return is_signed ? TWIR_I64 : TWIR_U64;
	}
}

static struct twir_type with(struct twir_type t, enum twir_scalar s)
{
	t.scalar = (uint8_t)s;
	return t;
}

static struct twir_type lanes(struct twir_type t, int n)
{
	t.lanes = (uint16_t)n;
	return t;
}

static void lane_list(struct tw_buf *out, int n, bool numbers)
{
	for (int l = 0; l < n; l++) {
		if (l)
			buf_puts(out, ", ");
		if (numbers)
			buf_printf(out, "%d", l);
		else
			buf_putc(out, 'x');
	}
}

static void type_text(struct cgen_uses *u, struct tw_buf *out, struct twir_type t, const char *after)
{
	buf_puts(out, cgen_type(u, t));
	if (strncmp(after, "_u", 2) == 0 && t.lanes > 1) /* $V_u: the unaligned form */
		u->unaligned[t.scalar][log2_lanes(t.lanes)] = true;
}

/* What a float must be below (upper) or not below (lower) to have a value of integer type `to`; both are exact powers
 * of two, or 0. */
static void bound_text(struct tw_buf *out, enum twir_scalar from, enum twir_scalar to, bool upper)
{
	const int bits = 8 * twir_scalar_bytes(to) - twir_is_signed(to);
	const char *f = from == TWIR_F32 ? "f" : "";
	if (upper)
		buf_printf(out, "0x1p%d%s", bits, f);
	else if (twir_is_signed(to))
		buf_printf(out, "-0x1p%d%s", bits, f);
	else
		buf_printf(out, "0.0%s", f);
}

static void limit_text(struct tw_buf *out, enum twir_scalar s, bool upper)
{
	const int bits = 8 * twir_scalar_bytes(s) - twir_is_signed(s);
	const char *suffix = twir_is_signed(s) ? "L" : "uL";
	const uint64_t top = bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
	if (upper)
		buf_printf(out, "(%s)%llu%s", cgen_scalar_name(s), (unsigned long long)top, suffix);
	else if (twir_is_signed(s))
		buf_printf(out, "(%s)(-%lluL - 1)", cgen_scalar_name(s), (unsigned long long)top);
	else
		buf_printf(out, "(%s)0", cgen_scalar_name(s));
}

static void expand(struct cgen_uses *u, const struct cgen_helper *h, const char *text, struct tw_buf *out)
{
	const struct twir_type a = h->a, b = h->b;
	for (const char *s = text; *s; s++) {
		if (*s != '$') {
			buf_putc(out, *s);
			continue;
		}
		s++;
		switch (*s) {
		case 'F':
			buf_puts(out, h->name);
			break;
		case 'V':
			type_text(u, out, a, s + 1);
			break;
		case 'a':
			type_text(u, out, a, "");
			break;
		case 'S':
		case 'L':
			type_text(u, out, lanes(a, 1), "");
			break;
		case 'N':
			buf_printf(out, "%d", a.lanes);
			break;
		case 'M':
			type_text(u, out, with(a, TWIR_I32), "");
			break;
		case 'I':
			type_text(u, out, with(a, int_as_wide(a.scalar, true)), "");
			break;
		case 'R':
			type_text(u, out, b, s + 1);
			break;
		case 'b':
			type_text(u, out, b, "");
			break;
		case 'H':
			type_text(u, out, lanes(a, a.lanes / 2), "");
			break;
		case 'X':
			lane_list(out, a.lanes, false);
			break;
		case 'J':
			lane_list(out, a.lanes, true);
			break;
		case 'T': /* vectors that builtins of integers want: of int or long long */
			if (!twir_is_float(a.scalar))
				buf_printf(out, "%s __attribute__((vector_size(%d)))",
					   twir_scalar_bytes(a.scalar) == 8 ? "long long" : "int",
					   a.lanes * twir_scalar_bytes(a.scalar));
			else
				type_text(u, out, a, "");
			break;
		case 'W':
			type_text(u, out, twir_scalar_bytes(b.scalar) < 4 ? with(b, TWIR_I32) : b, "");
			break;
		case 'K':
			bound_text(out, a.scalar, b.scalar, true);
			break;
		case 'k':
			bound_text(out, a.scalar, b.scalar, false);
			break;
		case 'm':
			limit_text(out, b.scalar, true);
			break;
		case 'n':
			limit_text(out, b.scalar, false);
			break;
		case 'w':
			buf_printf(out, "%d", 8 * twir_scalar_bytes(a.scalar) - 1);
			break;
		case 'f':
			if (a.scalar == TWIR_F32)
				buf_putc(out, 'f');
			break;
		default:
			TW_CHECK(false, "unknown escape $%c in a row for %s", *s, h->op);
		}
	}
}

static void print_helper(struct cgen_uses *u, struct cgen_helper *h, struct tw_buf *out);

/* needs: words, see dialect.h */
static void print_needs(struct cgen_uses *u, const struct cgen_helper *h, const char *needs, struct tw_buf *out)
{
	const struct twir_type none = {TWIR_VOID, 0};
	for (const char *s = needs; *s;) {
		const size_t n = strcspn(s, " ");
		const char *word = arena_strndup(u->arena, s, n);
		s += n + (s[n] == ' ');
		char *dot = strchr(word, '.');
		const char *form = dot ? dot + 1 : "";
		if (dot)
			*dot = 0;
		struct twir_type a = h->a;
		if (strcmp(form, "s") == 0) {
			a = lanes(a, 1);
		} else if (strcmp(form, "h") == 0) {
			a = lanes(a, a.lanes / 2);
		} else if (strcmp(form, "b") == 0) {
			a = h->b;
		} else {
			TW_CHECK(*form == 0, "unknown form of a need: %s", form);
		}
		print_helper(u, use(u, word, a, none), out);
	}
}

static void print_helper(struct cgen_uses *u, struct cgen_helper *h, struct tw_buf *out)
{
	if (h->printed)
		return;
	h->printed = true;
	struct tw_buf wide; /* what it calls is known when it is written, and printed first */
	buf_init(&wide, u->arena);
	u->called.n = 0;
	u->tracing = true;
	const bool is_wide = cgen_wide_helper(u, &wide, h);
	u->tracing = false;
	if (is_wide) {
		const int n = u->called.n;
		struct cgen_helper **called = arena_copy(u->arena, u->called.at, sizeof(*called) * (size_t)n);
		for (int i = 0; i < n; i++)
			print_helper(u, called[i], out);
		buf_bytes(out, wide.at, wide.n);
		return;
	}
	const struct cgen_row *r = find_in(u->d->more, h);
	if (!r)
		r = find_in(u->d->rows, h);
	if (!r)
		r = find_in(cgen_rows_common, h);
	if (!r)
		r = find_in(cgen_rows_shuffle, h);
	if (!r) /* elements that share bytes, in the memory of parameters */
		r = find_in(u->d->words && *u->d->words->global ? cgen_rows_bits_global : cgen_rows_bits, h);
	TW_CHECK(r, "dialect %s has no row for %s", u->d->name, h->name);
	print_needs(u, h, r->needs, out);
	if (r->clang) {
		buf_puts(out, "#ifdef __clang__\n");
		expand(u, h, r->clang, out);
		buf_puts(out, "\n#else\n");
		expand(u, h, r->text, out);
		buf_puts(out, "\n#endif\n");
	} else {
		expand(u, h, r->text, out);
		buf_putc(out, '\n');
	}
}

/* Wide types hold halves, so those come first. */
static void print_vector_types(struct cgen_uses *u, struct tw_buf *out)
{
	for (int s = 0; s < TWIR_SCALARS; s++)
		for (int k = MAX_LOG2 - 1; k > 1; k--)
			if (u->vectors[s][k] && cgen_is_wide(u, (struct twir_type){(uint8_t)s, (uint16_t)(1 << k)}))
				u->vectors[s][k - 1] = true;
	for (int s = 0; s < TWIR_SCALARS; s++)
		for (int k = 1; k < MAX_LOG2; k++) {
			const int n = 1 << k;
			if (!typedefs[s] || !(u->vectors[s][k] || u->unaligned[s][k]))
				continue;
			const int size = twir_scalar_bytes((enum twir_scalar)s);
			const char *c = cgen_scalar_name((enum twir_scalar)s);
			if (cgen_is_wide(u, (struct twir_type){(uint8_t)s, (uint16_t)n})) {
				buf_printf(out, "typedef struct { %sx%d h[2]; } %sx%d;\n", c, n / 2, c, n);
				continue;
			}
			buf_printf(out, "typedef %s %sx%d __attribute__((vector_size(%d)));\n", c, c, n, n * size);
			if (u->unaligned[s][k])
				buf_printf(out,
					   "typedef %s %sx%d_u __attribute__((vector_size(%d), aligned(%d), "
					   "may_alias));\n",
					   c, c, n, n * size, size);
		}
}

void cgen_prelude(struct tw_buf *out, struct cgen_uses *u)
{
	struct tw_buf body;
	buf_init(&body, u->arena);
	for (int i = 0; i < u->list.n; i++) /* the list grows while needs are found */
		print_helper(u, u->list.at[i], &body);
	const struct cgen_words *words = u->d->words;
	if (words)
		buf_puts(out, words->prelude);
	for (int s = 0; s < TWIR_SCALARS; s++)
		if (typedefs[s])
			buf_printf(out, "typedef %s %s;\n", words ? words->types[s] : typedefs[s],
				   cgen_scalar_name((enum twir_scalar)s));
	print_vector_types(u, out);
	buf_printf(out, "#define INL %s\n", words ? words->inl : "static inline __attribute__((always_inline))");
	buf_bytes(out, body.at, body.n);
}
