/* Public interface: building programs by calls. Input: calls; output: a text of the language. Values are pieces of text;
 * variables and tensors get names of their own, so that callers need not keep theirs apart. */
#include "api_int.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_VALUES = 1 << 20, MOST_TEXT = 1 << 20, MOST_DEPTH = 200 };

struct text { /* grows; at == NULL: empty */
	char *at;
	size_t n, room;
};

struct tilewright_builder {
	char **values; /* texts; value v is values[v - 1] */
	int nvalues, room;
	int names;	       /* given so far */
	int depth;	       /* open blocks */
	struct text text;      /* finished, and the program at hand */
	struct text params;    /* of the program to come */
	struct tw_error error; /* of the first wrong call */
};

/* --- text --- */

static void fail(tilewright_builder *b, enum tw_code code, const char *fmt, ...) TW_PRINTF(3, 4);

static void fail(tilewright_builder *b, enum tw_code code, const char *fmt, ...)
{
	char text[256];
	va_list args;
	if (!b || b->error.code != TW_ERR_OK)
		return;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	tw_error_set(&b->error, code, "building a program: %s", text);
}

static bool good(const tilewright_builder *b)
{
	return b && b->error.code == TW_ERR_OK;
}

static void add(tilewright_builder *b, struct text *t, const char *fmt, ...) TW_PRINTF(3, 4);

static void add(tilewright_builder *b, struct text *t, const char *fmt, ...)
{
	va_list args, again;
	va_start(args, fmt);
	va_copy(again, args);
	const int n = vsnprintf(NULL, 0, fmt, args);
	va_end(args);
	if (good(b) && n >= 0 && t->n + (size_t)n + 1 > t->room) {
		const size_t room = 2 * (t->n + (size_t)n + 64);
		char *more = room <= 64 * MOST_TEXT ? realloc(t->at, room) : NULL;
		if (more) {
			t->at = more;
			t->room = room;
		} else {
			fail(b, TW_ERR_MEMORY, "no memory");
		}
	}
	if (good(b) && n >= 0)
		t->n += (size_t)vsnprintf(t->at + t->n, t->room - t->n, fmt, again);
	va_end(again);
}

/* Takes the text over. */
static tilewright_value value(tilewright_builder *b, struct text *t)
{
	if (good(b) && t->n > MOST_TEXT)
		fail(b, TW_ERR_USAGE, "an expression grows beyond %d bytes: name parts of it with let", MOST_TEXT);
	if (good(b) && b->nvalues == b->room) {
		const int room = b->room ? 2 * b->room : 64;
		char **more = room <= MOST_VALUES ? realloc(b->values, (size_t)room * sizeof(*more)) : NULL;
		if (more) {
			b->values = more;
			b->room = room;
		} else {
			fail(b, TW_ERR_MEMORY, "no memory for so many values");
		}
	}
	if (!good(b) || !t->at) {
		free(t->at);
		return 0;
	}
	b->values[b->nvalues++] = t->at;
	return b->nvalues;
}

static const char *text_of(tilewright_builder *b, tilewright_value v)
{
	if (good(b) && v >= 1 && v <= b->nvalues)
		return b->values[v - 1];
	fail(b, TW_ERR_USAGE, "value %d is none", v);
	return "";
}

static void list(tilewright_builder *b, struct text *t, int n, const tilewright_value *values)
{
	if (n < 0 || (n > 0 && values == NULL))
		fail(b, TW_ERR_USAGE, "a list of %d values", n);
	for (int i = 0; good(b) && i < n; i++)
		add(b, t, "%s%s", i ? ", " : "", text_of(b, values[i]));
}

/* An identifier of its own: the name asked for, and a number. */
static tilewright_value named(tilewright_builder *b, const char *name, bool plain)
{
	struct text t = {0};
	bool fits = name && *name && strlen(name) < 64 && !(*name >= '0' && *name <= '9');
	for (const char *c = name; fits && *c; c++)
		fits = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') || *c == '_';
	if (!fits)
		fail(b, TW_ERR_USAGE, "'%.80s' is no name: letters, digits and _", name ? name : "");
	if (plain)
		add(b, &t, "%s", name);
	else if (good(b))
		add(b, &t, "%s_v%d", name, ++b->names);
	return value(b, &t);
}

static void line(tilewright_builder *b)
{
	for (int i = 0; good(b) && i < b->depth; i++)
		add(b, &b->text, "  ");
}

/* --- expressions --- */

tilewright_builder *tilewright_create_builder(void)
{
	tilewright_builder *b = calloc(1, sizeof(*b));
	if (b == NULL)
		tw_error_set(tilewright_error_slot(), TW_ERR_MEMORY, "no memory for a builder");
	return b;
}

void tilewright_free_builder(tilewright_builder *b)
{
	if (b == NULL)
		return;
	for (int i = 0; i < b->nvalues; i++)
		free(b->values[i]);
	free(b->values);
	free(b->text.at);
	free(b->params.at);
	free(b);
}

const char *tilewright_build_text(tilewright_builder *b)
{
	if (good(b) && b->depth > 0)
		fail(b, TW_ERR_USAGE, "%d blocks have no end", b->depth);
	if (good(b) && b->params.n)
		fail(b, TW_ERR_USAGE, "there are parameters, but no program");
	if (good(b) && !b->text.at)
		add(b, &b->text, "%s", "");
	if (good(b))
		return b->text.at;
	if (b)
		*tilewright_error_slot() = b->error;
	else
		(void)API_FAIL(TW_ERR_USAGE, "the builder is NULL");
	return NULL;
}

tilewright_value tilewright_build_symbol(tilewright_builder *b, const char *name)
{
	const tilewright_value v = named(b, name, true);
	if (v && b->depth)
		fail(b, TW_ERR_USAGE, "symbols are declared before programs");
	if (v)
		add(b, &b->text, "symbol %s;\n", name);
	return v;
}

tilewright_value tilewright_build_integer(tilewright_builder *b, int64_t x)
{
	struct text t = {0};
	add(b, &t, x < 0 ? "(%lld)" : "%lld", (long long)x);
	return value(b, &t);
}

tilewright_value tilewright_build_number(tilewright_builder *b, tilewright_type type, double x)
{
	struct text t = {0};
	const char *name = type == TILEWRIGHT_BOOL ? "i1" : tilewright_type_name(type);
	char digits[40];
	if (type == TILEWRIGHT_BOOL) {
		add(b, &t, "%s", x != 0 ? "true" : "false");
	} else if (isnan(x) || isinf(x)) {
		add(b, &t, "%s(%s)", name, isnan(x) ? "nan" : x < 0 ? "-inf" : "inf");
	} else {
		const bool whole = name[0] != 'f' && name[0] != 'b';
		snprintf(digits, sizeof(digits), whole ? "%.0f" : type == TILEWRIGHT_F64 ? "%.17g" : "%.9g", x);
		if (!whole && !strpbrk(digits, ".e"))
			strcat(digits, ".0");
		add(b, &t, "%s(%s)", name, digits);
	}
	return value(b, &t);
}

tilewright_value tilewright_build_op(tilewright_builder *b, const char *op, int n, const tilewright_value *x)
{
	static const char infix[] = " + - * / % < <= == != and or xor << >> ";
	char spaced[80];
	struct text t = {0};
	if (op == NULL || strlen(op) > 64 || strchr(op, ' ') || n < 1 || n > 16 || x == NULL) {
		fail(b, TW_ERR_USAGE, "an operation needs a name and 1 to 16 arguments");
		return 0;
	}
	snprintf(spaced, sizeof(spaced), " %s ", op);
	if (strstr(infix, spaced) && n == 2)
		add(b, &t, "(%s %s %s)", text_of(b, x[0]), op, text_of(b, x[1]));
	else if (strcmp(op, "not") == 0 && n == 1)
		add(b, &t, "(not %s)", text_of(b, x[0]));
	else if ((strcmp(op, "neg") == 0 || strcmp(op, "-") == 0) && n == 1)
		add(b, &t, "(-%s)", text_of(b, x[0]));
	else if (strcmp(op, "?") == 0 && n == 3)
		add(b, &t, "(%s ? %s : %s)", text_of(b, x[0]), text_of(b, x[1]), text_of(b, x[2]));
	else if (strspn(op, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == strlen(op)) {
		add(b, &t, "%s(", op);
		list(b, &t, n, x);
		add(b, &t, ")");
	} else {
		fail(b, TW_ERR_USAGE, "there is no operation '%s' of %d arguments", op, n);
	}
	return value(b, &t);
}

tilewright_value tilewright_build_load(tilewright_builder *b, tilewright_value tensor, int n,
				       const tilewright_value *index)
{
	struct text t = {0};
	add(b, &t, n ? "%s[" : "%s", text_of(b, tensor));
	list(b, &t, n, index);
	add(b, &t, n ? "]" : "");
	return value(b, &t);
}

tilewright_value tilewright_build_axis(tilewright_builder *b, const char *name)
{
	return named(b, name, false);
}

tilewright_value tilewright_build_fold(tilewright_builder *b, const char *op, int n, const tilewright_value *axes,
				       const tilewright_value *extents, tilewright_value body)
{
	struct text t = {0};
	if (op == NULL || n < 1 || axes == NULL || extents == NULL)
		fail(b, TW_ERR_USAGE, "a fold needs an operation and axes with extents");
	add(b, &t, "%s(", op ? op : "");
	for (int i = 0; good(b) && i < n; i++)
		add(b, &t, "%s < %s, ", text_of(b, axes[i]), text_of(b, extents[i]));
	add(b, &t, "%s)", text_of(b, body));
	return value(b, &t);
}

/* --- tensors and definitions --- */

/* NAME: type[shape] */
static void declare(tilewright_builder *b, struct text *t, tilewright_value name, tilewright_type type, int rank,
		    const tilewright_value *shape)
{
	if (tilewright_type_bytes(type) == 0 || rank < 0 || rank > TILEWRIGHT_MAX_RANK)
		fail(b, TW_ERR_USAGE, "a tensor of type %d and rank %d", (int)type, rank);
	add(b, t, "%s: %s[", text_of(b, name), type == TILEWRIGHT_BOOL ? "i1" : tilewright_type_name(type));
	list(b, t, rank, shape);
	add(b, t, "]");
}

static void outside(tilewright_builder *b, const char *what)
{
	if (good(b) && b->depth)
		fail(b, TW_ERR_USAGE, "%s inside a program", what);
}

static void inside(tilewright_builder *b, const char *what)
{
	if (good(b) && !b->depth)
		fail(b, TW_ERR_USAGE, "%s outside of programs", what);
}

tilewright_value tilewright_build_tensor(tilewright_builder *b, const char *name, tilewright_type type, int rank,
					 const tilewright_value *shape)
{
	const tilewright_value v = named(b, name, true);
	outside(b, "a tensor");
	if (!v || !good(b))
		return 0;
	add(b, &b->text, "tensor ");
	declare(b, &b->text, v, type, rank, shape);
	add(b, &b->text, ";\n");
	return v;
}

tilewright_value tilewright_build_define(tilewright_builder *b, const char *name, tilewright_type type, int rank,
					 const tilewright_value *shape, const tilewright_value *axes,
					 tilewright_value x)
{
	const tilewright_value v = named(b, name, true);
	outside(b, "a definition");
	if (!v || !good(b))
		return 0;
	add(b, &b->text, "define ");
	declare(b, &b->text, v, type, rank, shape);
	add(b, &b->text, " = (");
	list(b, &b->text, rank, axes);
	add(b, &b->text, ") => %s;\n", text_of(b, x));
	return v;
}

/* --- mappings --- */

static tilewright_value factor(tilewright_builder *b, const char *kind, int rank, const tilewright_value *extents)
{
	struct text t = {0};
	if (rank < 1 || rank > TILEWRIGHT_MAX_RANK)
		fail(b, TW_ERR_USAGE, "a mapping of rank %d", rank);
	add(b, &t, "%s(", kind);
	list(b, &t, rank, extents);
	add(b, &t, ")");
	return value(b, &t);
}

tilewright_value tilewright_build_repeat(tilewright_builder *b, int rank, const tilewright_value *extents)
{
	return factor(b, "repeat", rank, extents);
}

tilewright_value tilewright_build_spatial(tilewright_builder *b, int rank, const tilewright_value *extents)
{
	return factor(b, "spatial", rank, extents);
}

tilewright_value tilewright_build_compose(tilewright_builder *b, tilewright_value outer, tilewright_value inner)
{
	struct text t = {0};
	add(b, &t, "%s * %s", text_of(b, outer), text_of(b, inner));
	return value(b, &t);
}

/* --- programs --- */

tilewright_value tilewright_build_parameter(tilewright_builder *b, int is_output, const char *name,
					    tilewright_type type, int rank, const tilewright_value *shape)
{
	const tilewright_value v = named(b, name, true);
	outside(b, "a parameter");
	if (!v || !good(b))
		return 0;
	add(b, &b->params, "%s%s", b->params.n ? ", " : "", is_output ? "out " : "");
	declare(b, &b->params, v, type, rank, shape);
	return v;
}

static void words(tilewright_builder *b, int n, const char *const *names, const tilewright_value *workers)
{
	if (n < 0 || n > 3 || (n > 0 && names == NULL))
		fail(b, TW_ERR_USAGE, "%d levels of workers", n);
	for (int i = 0; good(b) && i < n; i++) {
		add(b, &b->text, "%s%.40s", i ? ", " : "", names[i] ? names[i] : "");
		if (workers)
			add(b, &b->text, "(%s)", text_of(b, workers[i]));
	}
}

void tilewright_begin_program(tilewright_builder *b, const char *name, int levels, const char *const *level,
			      const tilewright_value *workers)
{
	const tilewright_value v = named(b, name, true);
	outside(b, "a program");
	if (!v || !good(b))
		return;
	add(b, &b->text, "program %s(%s)", name, b->params.n ? b->params.at : "");
	b->params.n = 0;
	add(b, &b->text, levels ? "\n  launch " : "");
	words(b, levels, level, workers);
	add(b, &b->text, "\n{\n");
	b->depth = 1;
}

tilewright_value tilewright_build_local(tilewright_builder *b, const char *scope, const char *name,
					tilewright_type type, int rank, const tilewright_value *shape,
					tilewright_value mirrors)
{
	const tilewright_value v = named(b, name, false);
	inside(b, "a local tensor");
	if (!scope || (strcmp(scope, "shared") != 0 && strcmp(scope, "register") != 0))
		fail(b, TW_ERR_USAGE, "a scope is shared or register");
	if (!v || !good(b))
		return 0;
	line(b);
	add(b, &b->text, "%s ", scope);
	declare(b, &b->text, v, type, rank, shape);
	if (mirrors)
		add(b, &b->text, " mirrors %s", text_of(b, mirrors));
	add(b, &b->text, ";\n");
	return v;
}

tilewright_value tilewright_build_let(tilewright_builder *b, const char *name, tilewright_value x)
{
	const tilewright_value v = named(b, name, false);
	inside(b, "let");
	line(b);
	add(b, &b->text, "let %s = %s;\n", text_of(b, v), text_of(b, x));
	return v;
}

void tilewright_build_store(tilewright_builder *b, tilewright_value tensor, int n, const tilewright_value *index,
			    tilewright_value x)
{
	inside(b, "a store");
	line(b);
	add(b, &b->text, n ? "%s[" : "%s", text_of(b, tensor));
	list(b, &b->text, n, index);
	add(b, &b->text, "%s = %s;\n", n ? "]" : "", text_of(b, x));
}

void tilewright_build_barrier(tilewright_builder *b, const char *level)
{
	inside(b, "a barrier");
	line(b);
	add(b, &b->text, "barrier %.40s;\n", level ? level : "");
}

static void open(tilewright_builder *b)
{
	add(b, &b->text, " {\n");
	if (good(b) && ++b->depth > MOST_DEPTH)
		fail(b, TW_ERR_USAGE, "blocks are nested too deeply");
}

tilewright_value tilewright_begin_for(tilewright_builder *b, const char *name, tilewright_value extent)
{
	const tilewright_value v = named(b, name, false);
	inside(b, "a loop");
	line(b);
	add(b, &b->text, "for %s in repeat(%s)", text_of(b, v), text_of(b, extent));
	open(b);
	return v;
}

void tilewright_begin_map(tilewright_builder *b, int rank, const char *const *names, tilewright_value map, int levels,
			  const char *const *level, const tilewright_value *within, tilewright_value *variables)
{
	inside(b, "a loop");
	if (rank < 1 || rank > TILEWRIGHT_MAX_RANK || names == NULL || variables == NULL) {
		fail(b, TW_ERR_USAGE, "a loop over a mapping needs 1 to %d variables", TILEWRIGHT_MAX_RANK);
		return;
	}
	for (int i = 0; i < rank; i++)
		variables[i] = named(b, names[i], false);
	line(b);
	add(b, &b->text, "for (");
	list(b, &b->text, rank, variables);
	add(b, &b->text, ") in %s", text_of(b, map));
	if (levels) {
		add(b, &b->text, levels > 1 ? " on (" : " on ");
		words(b, levels, level, NULL);
		add(b, &b->text, levels > 1 ? ")" : "");
	}
	if (within) {
		add(b, &b->text, " within (");
		list(b, &b->text, rank, within);
		add(b, &b->text, ")");
	}
	open(b);
}

void tilewright_begin_if(tilewright_builder *b, tilewright_value condition)
{
	inside(b, "a branch");
	line(b);
	add(b, &b->text, "if %s", text_of(b, condition));
	open(b);
}

void tilewright_build_else(tilewright_builder *b)
{
	if (good(b) && b->depth < 2)
		fail(b, TW_ERR_USAGE, "else outside of a branch");
	if (!good(b))
		return;
	b->depth--;
	line(b);
	add(b, &b->text, "} else");
	open(b);
}

void tilewright_end(tilewright_builder *b)
{
	if (good(b) && !b->depth)
		fail(b, TW_ERR_USAGE, "an end without a beginning");
	if (!good(b))
		return;
	b->depth--;
	line(b);
	add(b, &b->text, "}\n");
}
