/* Tokens of .tw texts, errors that show where, and the names in scope.
 * Input: text that ends with NUL; any bytes. Comments run from # to the end of the line. */
#include "ir/parse_int.h"

#include <stdio.h>
#include <stdlib.h>

#define DEEPEST 1200

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_hex(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

void twir_lex_start(struct twir_parser *p, const char *name, const char *text)
{
	p->name = name;
	p->text = p->at = p->line_start = text;
	p->line = 1;
	twir_next(p);
}

_Noreturn void twir_fail(struct twir_parser *p, const struct twir_tok *at, const char *hint, const char *fmt, ...)
{
	char reason[512];
	va_list args;
	va_start(args, fmt);
	vsnprintf(reason, sizeof(reason), fmt, args);
	va_end(args);
	const struct twir_diagnostic x = {.line = at->line, .column = at->column, .text = reason, .hint = hint};
	struct tw_buf b;
	buf_init(&b, p->m->arena);
	twir_put_diagnostic(&b, p->name, p->text, NULL, &x);
	b.at[--b.n] = 0; /* an error's text has no end of line */
	tw_raise(TW_ERR_MODEL, "%s", b.at);
}

static void skip_space(struct twir_parser *p)
{
	for (;;) {
		const char c = *p->at;
		if (c == '#') {
			while (*p->at && *p->at != '\n')
				p->at++;
		} else if (c == '\n') {
			p->line++;
			p->line_start = ++p->at;
		} else if (c == ' ' || c == '\t' || c == '\r') {
			p->at++;
		} else {
			return;
		}
	}
}

static const char *number_end(const char *s)
{
	const bool hex = s[0] == '0' && (s[1] == 'x' || s[1] == 'X');
	if (hex)
		s += 2;
	while (hex ? is_hex(*s) : is_digit(*s))
		s++;
	if (*s == '.' && s[1] != '.') {
		s++;
		while (hex ? is_hex(*s) : is_digit(*s))
			s++;
	}
	const bool exponent = hex ? *s == 'p' || *s == 'P' : *s == 'e' || *s == 'E';
	if (exponent && (is_digit(s[1]) || ((s[1] == '+' || s[1] == '-') && is_digit(s[2])))) {
		s += 2;
		while (is_digit(*s))
			s++;
	}
	while (is_letter(*s) || is_digit(*s)) /* the suffix */
		s++;
	return s;
}

void twir_next(struct twir_parser *p)
{
	skip_space(p);
	const char *s = p->at;
	struct twir_tok *t = &p->tok;
	t->at = s;
	t->line = p->line;
	t->column = (int)(s - p->line_start) + 1;
	if (*s == 0) {
		t->kind = TK_END;
	} else if (is_letter(*s)) {
		t->kind = TK_NAME;
		while (is_letter(*s) || is_digit(*s))
			s++;
	} else if (is_digit(*s)) {
		t->kind = TK_NUMBER;
		s = number_end(s);
	} else if (*s == '"') {
		t->kind = TK_STRING;
		for (s++; *s && *s != '"' && *s != '\n'; s++)
			if (*s == '\\' && s[1] && s[1] != '\n')
				s++;
		if (*s != '"')
			twir_fail(p, t, "close it with \"", "a string ends on its line");
		s++;
	} else {
		static const char *const signs[] = {"<<", ">>", "<=", ">=", "==", "!=", "=>", "+:", ".."};
		t->kind = TK_PUNCT;
		s++;
		for (int i = 0; i < TW_COUNT(signs); i++)
			if (t->at[0] == signs[i][0] && t->at[1] == signs[i][1])
				s = t->at + 2;
	}
	if (s - t->at > 65536)
		twir_fail(p, t, "at most 65536 characters", "a word or number is too long");
	t->n = (int)(s - t->at);
	p->at = s;
}

bool twir_is(const struct twir_parser *p, const char *text)
{
	const size_t n = strlen(text);
	return p->tok.kind != TK_END && p->tok.kind != TK_STRING && (size_t)p->tok.n == n &&
	       memcmp(p->tok.at, text, n) == 0;
}

bool twir_take(struct twir_parser *p, const char *text)
{
	if (!twir_is(p, text))
		return false;
	twir_next(p);
	return true;
}

static const char *shown(const struct twir_parser *p)
{
	if (p->tok.kind == TK_END)
		return "the end of the text";
	const unsigned char c = (unsigned char)p->tok.at[0];
	if (c < 32 || c > 126)
		return arena_printf(p->scratch, "byte 0x%02x", c);
	return arena_printf(p->scratch, "'%.*s'", p->tok.n > 40 ? 40 : p->tok.n, p->tok.at);
}

/* What other languages write. Signs that the text goes on with count too, and those that begin one place before. */
const char *twir_habit(const struct twir_parser *p)
{
	static const char operators[] = "the operators are and, or, xor, not, << and >>";
	static const char values[] =
		"a value is named with let x = e; what changes is a register tensor: register s: f32[];";
	static const char program[] = "symbol N; program p(X: f32[N], out Y: f32[N]) { .. }";
	static const char turns[] = "all turns of a loop are run: put what follows under an if";
	static const char update[] = "T[i, j] = T[i, j] + value;";
	static const struct {
		const char *text, *hint;
		int back; /* the sign begins so many places before */
	} habits[] = {
		{"//", "/ of numbers of type index rounds down; a comment begins with #", 1},
		{"**", "a power is x * x, or pow(x, y)", 1},
		{"++", update, 0},
		{"--", update, 0},
		{"+=", update, 0},
		{"-=", update, 0},
		{"*=", update, 0},
		{"/=", update, 0},
		{"//", "a comment begins with #", 0},
		{"/*", "a comment begins with #", 0},
		{"&", operators, 0},
		{"|", operators, 0},
		{"^", operators, 0},
		{"!", operators, 0},
		{"[", "the indices of an element stand in one pair of brackets: T[i, j]", 0},
		{"while", "loops are for i in repeat(n) { .. }", 0},
		{"return", "only funcs return; programs store to out tensors", 0},
		{"else", "else stands behind the } of an if", 0},
		{"elif", "else if c { .. }", 0},
		{"break", turns, 0},
		{"continue", turns, 0},
		{"var", values, 0},
		{"int", values, 0},
		{"float", values, 0},
		{"def", program, 0},
		{"void", program, 0},
		{"__syncthreads", "barrier block;", 0},
	};
	const bool sign = p->tok.kind == TK_PUNCT;
	for (int i = 0; i < TW_COUNT(habits); i++) {
		const char *text = habits[i].text;
		const int back = habits[i].back;
		if (sign ? p->tok.at - p->text >= back && strncmp(p->tok.at - back, text, strlen(text)) == 0
			 : twir_is(p, text))
			return habits[i].hint;
	}
	return NULL;
}

static const char *closing(const char *text)
{
	static const struct {
		const char *text, *hint;
	} signs[] = {
		{";", "statements and declarations end with ;"},
		{")", "parentheses come in pairs"},
		{"]", "brackets come in pairs"},
		{"}", "braces come in pairs"},
		{"{", "a body stands in braces: { .. }"},
		{"(", "parentheses come in pairs"},
		{"[", "a list stands in brackets: [0, 1]"},
		{",", "the parts of a list are separated by commas"},
	};
	for (int i = 0; i < TW_COUNT(signs); i++)
		if (strcmp(text, signs[i].text) == 0)
			return signs[i].hint;
	return NULL;
}

void twir_expect(struct twir_parser *p, const char *text, const char *hint)
{
	if (twir_take(p, text))
		return;
	const char *known = twir_habit(p);
	twir_fail(p, &p->tok, known ? known : hint ? hint : closing(text), "expected '%s', found %s", text, shown(p));
}

const char *twir_take_name(struct twir_parser *p, const char *what)
{
	if (p->tok.kind != TK_NAME)
		twir_fail(p, &p->tok,
			  twir_habit(p) ? twir_habit(p)
					: "names are letters, digits and _, and do not begin with a digit",
			  "expected %s, found %s", what, shown(p));
	const char *name = arena_strndup(p->m->arena, p->tok.at, (size_t)p->tok.n);
	if (twir_reserved(name))
		twir_fail(p, &p->tok, "choose another name", "expected %s, found '%.40s', a word of the language", what,
			  name);
	if (p->tok.n > 80)
		twir_fail(p, &p->tok, "take a shorter one", "a name has at most 80 characters");
	twir_next(p);
	return name;
}

int64_t twir_take_int(struct twir_parser *p, const char *what)
{
	const struct twir_tok start = p->tok;
	const bool minus = twir_take(p, "-");
	const struct twir_expr *constant =
		p->tok.kind == TK_NAME ? strmap_get(&p->consts, arena_strndup(p->scratch, p->tok.at, (size_t)p->tok.n))
				       : NULL;
	int64_t known;
	if (constant && !minus && twir_const_int(constant, &known)) {
		twir_next(p);
		return known;
	}
	if (p->tok.kind != TK_NUMBER)
		twir_fail(p, &p->tok,
			  "a plain decimal number: sizes that are known at launch only stand in expressions",
			  "expected %s, a whole number, found %s", what, shown(p));
	uint64_t v = 0;
	for (int i = 0; i < p->tok.n; i++) {
		if (!is_digit(p->tok.at[i]))
			twir_fail(p, &p->tok,
				  "a plain decimal number: sizes that are known at launch only stand in expressions",
				  "expected %s, a whole number, found %s", what, shown(p));
		const unsigned d = (unsigned)(p->tok.at[i] - '0');
		if (v > (UINT64_MAX - d) / 10)
			twir_fail(p, &start, "numbers here have 64 bits", "the number is too large");
		v = v * 10 + d;
	}
	if (v > (uint64_t)INT64_MAX + (minus ? 1 : 0))
		twir_fail(p, &start, "numbers here have 64 bits", "the number is too large");
	twir_next(p);
	return (int64_t)(minus ? 0 - v : v);
}

const char *twir_take_string(struct twir_parser *p)
{
	if (p->tok.kind != TK_STRING)
		twir_fail(p, &p->tok, "from \"node\"", "expected a string, found %s", shown(p));
	char *out = arena_alloc(p->m->arena, (size_t)p->tok.n);
	int n = 0;
	for (int i = 1; i + 1 < p->tok.n; i++) {
		char c = p->tok.at[i];
		if (c == '\\') {
			c = p->tok.at[++i];
			if (c == 'x') {
				if (i + 3 >= p->tok.n || !is_hex(p->tok.at[i + 1]) || !is_hex(p->tok.at[i + 2]))
					twir_fail(p, &p->tok, "for example \\x0a",
						  "\\x is followed by two hexadecimal digits");
				const char digits[3] = {p->tok.at[i + 1], p->tok.at[i + 2], 0};
				c = (char)strtol(digits, NULL, 16);
				i += 2;
				if (c == 0)
					twir_fail(p, &p->tok, "leave it out", "a string cannot hold \\x00");
			}
		}
		out[n++] = c;
	}
	out[n] = 0;
	twir_next(p);
	return out;
}

void twir_enter(struct twir_parser *p)
{
	if (++p->depth > DEEPEST)
		twir_fail(p, &p->tok, "name parts with let", "nested more than %d levels deep", DEEPEST);
}

void twir_leave(struct twir_parser *p)
{
	p->depth--;
}

/* scope */

struct twir_entry *twir_lookup(const struct twir_parser *p, const char *name)
{
	struct twir_entry *b = strmap_get(&p->names, name);
	return b && b->serial >= p->floor ? b : NULL;
}

void twir_bind(struct twir_parser *p, const struct twir_tok *at, const char *name, enum twir_bound kind, void *what)
{
	if (twir_lookup(p, name) || (!p->no_symbols && strmap_get(&p->symbols, name)))
		twir_fail(p, at, "names may be used again only where the first is out of scope",
			  "'%s' is already declared here", name);
	struct twir_entry *b = ARENA_NEW(p->scratch, struct twir_entry);
	*b = (struct twir_entry){.name = name,
				 .kind = kind,
				 .what = what,
				 .shadowed = strmap_get(&p->names, name),
				 .serial = p->scope.n};
	strmap_set(&p->names, name, b);
	vec_push(p->scratch, &p->scope, b);
}

void twir_unbind(struct twir_parser *p, int mark)
{
	while (p->scope.n > mark) {
		const struct twir_entry *b = p->scope.at[--p->scope.n];
		strmap_set(&p->names, b->name, b->shadowed);
	}
}

struct twir_var *twir_declare_var(struct twir_parser *p, const struct twir_tok *at, enum twir_var_kind kind,
				  struct twir_type type, const char *name)
{
	struct twir_var *v = twir_var_exact(p->m, kind, type, twir_unique(p->m, name));
	v->base = name;
	twir_bind(p, at, name, BOUND_VAR, v);
	return v;
}
