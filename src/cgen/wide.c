/* wide: vectors wider than the machine's (16 lanes of f64 where registers hold 8). A wide vector is a struct of two
 * halves; an operation on it is the operation on each half, so that compilers see only types that fit: left to them,
 * comparisons and selects become scalar code (measured: ten times the text, gcc needs 0.4 to 1.1 s a kernel instead of
 * 0.05). Input: an operation and its types; output: the text of its helper. */
#include "cgen/cgen_int.h"

/* result:arguments. V: type a, R: type b, M: mask, S: element of a, P: pointer to elements that advances by half, p:
 * pointer that stays, v: nothing, o: number of an element that advances by half, b: one that stays */
static const struct {
	const char *op, *signature;
} signatures[] = {
	{"ld", "V:P"},
	{"st", "v:PV"},
	{"ldm", "V:PMV"},
	{"stm", "v:PMV"},
	{"gather", "V:pR"},
	{"gatherm", "V:pRMV"},
	{"scatter", "v:pRV"},
	{"scatterm", "v:pRMV"},
	{"splat", "V:S"},
	{"sel", "V:MVV"},
	{"tomask", "M:V"},
	{"frommask", "V:M"},
	{"lt", "M:VV"},
	{"le", "M:VV"},
	{"eq", "M:VV"},
	{"ne", "M:VV"},
	{"add", "V:VV"},
	{"sub", "V:VV"},
	{"mul", "V:VV"},
	{"quot", "V:VV"},
	{"and", "V:VV"},
	{"or", "V:VV"},
	{"xor", "V:VV"},
	{"shl", "V:VV"},
	{"shr", "V:VV"},
	{"neg", "V:V"},
	{"not", "V:V"},
	{"min", "V:VV"},
	{"max", "V:VV"},
	{"minnum", "V:VV"},
	{"maxnum", "V:VV"},
	{"minc", "V:VV"},
	{"maxc", "V:VV"},
	{"sqrt", "V:V"},
	{"floor", "V:V"},
	{"ceil", "V:V"},
	{"round", "V:V"},
	{"trunc", "V:V"},
	{"abs", "V:V"},
	{"fma", "V:VVV"},
	{"dot4", "V:VVV"},
	{"div", "V:VV"},
	{"mod", "V:VV"},
	{"fdiv", "V:VV"},
	{"fmod", "V:VV"},
	{"fdivp", "V:VV"},
	{"fmodp", "V:VV"},
	{"toint", "R:V"},
	{"cvt", "R:V"},
	{"cast", "R:V"},
#define BITS(n)                                                                                                        \
	{"bld" n, "V:po"}, {"bldm" n, "V:poMV"}, {"bst" n, "v:poV"}, {"bstm" n, "v:poMV"}, {"bgather" n, "V:pbR"},     \
		{"bgatherm" n, "V:pbRMV"}, {"bscatter" n, "v:pbRV"},                                                   \
	{                                                                                                              \
		"bscatterm" n, "v:pbRMV"                                                                               \
	}
	BITS("4"),
	BITS("2"),
#undef BITS
};

static const struct twir_type no_type = {TWIR_VOID, 0};

bool cgen_is_wide(const struct cgen_uses *u, struct twir_type t)
{
	return t.lanes > 1 &&
	       t.lanes * twir_scalar_bytes(t.scalar == TWIR_I1 ? TWIR_I32 : t.scalar) > u->d->vector_bytes;
}

static struct twir_type half_of(struct twir_type t)
{
	t.lanes /= 2;
	return t;
}

static struct twir_type kind_type(const struct cgen_helper *h, char kind)
{
	switch (kind) {
	case 'R':
		return h->b;
	case 'M':
		return (struct twir_type){TWIR_I32, h->a.lanes};
	case 'V':
		return h->a;
	case 'o':
	case 'b':
		return (struct twir_type){TWIR_I64, 1};
	default:
		return (struct twir_type){h->a.scalar, 1};
	}
}

static void argument(struct cgen_uses *u, struct tw_buf *out, const struct cgen_helper *h, char kind, int number,
		     int half)
{
	if ((kind == 'P' || kind == 'o') && half)
		buf_printf(out, "x%d + %d", number, h->a.lanes / 2);
	else if (kind == 'P' || kind == 'p' || kind == 'S' || kind == 'o' || kind == 'b')
		buf_printf(out, "x%d", number);
	else if (cgen_is_wide(u, kind_type(h, kind)))
		buf_printf(out, "x%d.h[%d]", number, half);
	else
		buf_printf(out, "%s(x%d)", cgen_use(u, half ? "hi" : "lo", kind_type(h, kind), no_type), number);
}

static void half_call(struct cgen_uses *u, struct tw_buf *out, const struct cgen_helper *h, const char *args, int half)
{
	const struct twir_type b = h->b.scalar == TWIR_VOID ? h->b : half_of(h->b);
	buf_printf(out, "%s(", cgen_use(u, h->op, half_of(h->a), b));
	for (int i = 0; args[i]; i++) {
		buf_puts(out, i ? ", " : "");
		argument(u, out, h, args[i], i, half);
	}
	buf_putc(out, ')');
}

static void parameters(struct cgen_uses *u, struct tw_buf *out, const struct cgen_helper *h, const char *args,
		       bool reads)
{
	for (int i = 0; args[i]; i++) {
		const bool pointer = args[i] == 'P' || args[i] == 'p';
		buf_printf(out, "%s%s%s %sx%d", i ? ", " : "", pointer && reads ? "const " : "",
			   cgen_type(u, kind_type(h, args[i])), pointer ? "*" : "", i);
	}
}

static void by_halves(struct cgen_uses *u, struct tw_buf *out, const struct cgen_helper *h, const char *signature)
{
	const char result = signature[0], *args = signature + 2;
	buf_printf(out, "INL %s %s(", result == 'v' ? "void" : cgen_type(u, kind_type(h, result)), h->name);
	parameters(u, out, h, args, result != 'v');
	buf_puts(out, ") { ");
	if (result == 'v') {
		half_call(u, out, h, args, 0);
		buf_puts(out, "; ");
		half_call(u, out, h, args, 1);
		buf_puts(out, "; }\n");
		return;
	}
	const struct twir_type t = kind_type(h, result);
	const bool wide = cgen_is_wide(u, t);
	if (wide)
		buf_printf(out, "return (%s){{", cgen_type(u, t));
	else
		buf_printf(out, "return %s(", cgen_use(u, "join", t, no_type));
	half_call(u, out, h, args, 0);
	buf_puts(out, ", ");
	half_call(u, out, h, args, 1);
	buf_puts(out, wide ? "}}; }\n" : "); }\n");
}

static void iota(struct cgen_uses *u, struct tw_buf *out, const struct cgen_helper *h)
{
	const char *half = cgen_use(u, "iota", half_of(h->a), no_type);
	buf_printf(out, "INL %s %s(void) { return (%s){{%s(), %s(%s(), %s(%d))}}; }\n", cgen_type(u, h->a), h->name,
		   cgen_type(u, h->a), half, cgen_use(u, "add", half_of(h->a), no_type), half,
		   cgen_use(u, "splat", half_of(h->a), no_type), h->a.lanes / 2);
}

static void reduce(struct cgen_uses *u, struct tw_buf *out, const struct cgen_helper *h)
{
	const char *op = strchr(h->op, '_') + 1;
	buf_printf(out, "INL %s %s(%s x) { return %s(%s(x.h[0], x.h[1])); }\n", cgen_scalar_name(h->a.scalar), h->name,
		   cgen_type(u, h->a), cgen_use(u, h->op, half_of(h->a), no_type),
		   cgen_use(u, op, half_of(h->a), no_type));
}

bool cgen_wide_helper(struct cgen_uses *u, struct tw_buf *out, const struct cgen_helper *h)
{
	const bool has_b = h->b.scalar != TWIR_VOID;
	if (!cgen_is_wide(u, h->a) && !(has_b && cgen_is_wide(u, h->b)))
		return false;
	if (strcmp(h->op, "iota") == 0) {
		iota(u, out, h);
		return true;
	}
	if (strncmp(h->op, "reduce_", 7) == 0) {
		reduce(u, out, h);
		return true;
	}
	for (int i = 0; i < TW_COUNT(signatures); i++)
		if (strcmp(signatures[i].op, h->op) == 0) {
			by_halves(u, out, h, signatures[i].signature);
			return true;
		}
	TW_CHECK(false, "no wide form of %s", h->name);
	return false;
}
