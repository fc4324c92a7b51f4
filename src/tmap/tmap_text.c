/* tmap_text.c: mappings as text.
 *
 * Input: "repeat(4, 1) * spatial(16, 8)". Output: the mapping, and back.
 *     mapping = factor { "*" factor }                    from the left; parentheses group otherwise
 *     factor  = ("repeat" | "spatial") "(" number {"," number} ["," "ranks" "=" "[" numbers "]"] ["," "attrs" "=" "[" names "]"] ")"
 *             | "project" "(" mapping "," "[" [numbers] "]" ")"  |  "(" mapping ")"
 * Invariant: twtm_print gives the one text from which twtm_parse makes an equal mapping; attributes are of repeats only. */
#include "tmap/tmap.h"

#include <ctype.h>

#define MAX_DEPTH 100

static const char *const attr_names[] = {[TWTM_PLAIN] = "plain", [TWTM_UNROLL] = "unroll", [TWTM_VECTOR] = "vector"};

struct parser {
	struct tw_arena *arena;
	const char *text, *at;
	int depth;
};

static _Noreturn void complain(const struct parser *p, const char *what)
{
	tw_raise(TW_ERR_USAGE, "task mapping, column %d: %s in \"%.200s\"", (int)(p->at - p->text) + 1, what, p->text);
}

static void skip_blanks(struct parser *p)
{
	while (isspace((unsigned char)*p->at))
		p->at++;
}

static bool accept(struct parser *p, char c)
{
	skip_blanks(p);
	if (*p->at != c)
		return false;
	p->at++;
	return true;
}

static void expect(struct parser *p, char c)
{
	if (!accept(p, c))
		complain(p, (char[]){'\'', c, '\'', ' ', 'e', 'x', 'p', 'e', 'c', 't', 'e', 'd', 0});
}

/* Takes the word when it is the next one. */
static bool accept_word(struct parser *p, const char *word)
{
	skip_blanks(p);
	const size_t n = strlen(word);
	if (strncmp(p->at, word, n) != 0 || isalnum((unsigned char)p->at[n]) || p->at[n] == '_')
		return false;
	p->at += n;
	return true;
}

static int64_t number(struct parser *p)
{
	skip_blanks(p);
	if (!isdigit((unsigned char)*p->at))
		complain(p, "a number expected");
	bool bad = false;
	int64_t n = 0;
	for (; isdigit((unsigned char)*p->at); p->at++)
		n = tw_add64(tw_mul64(n, 10, &bad), *p->at - '0', &bad);
	if (bad)
		complain(p, "the number does not fit in 64 bits");
	return n;
}

/* The rest of a list of numbers below `limit`; returns how many. */
static int numbers(struct parser *p, int64_t limit, int max, int *out)
{
	int n = 0;
	if (accept(p, ']'))
		return 0;
	do {
		if (n == max)
			complain(p, "too many numbers");
		const int64_t x = number(p);
		if (x >= limit)
			complain(p, "the number is too large");
		out[n++] = (int)x;
	} while (accept(p, ','));
	expect(p, ']');
	return n;
}

static void attributes(struct parser *p, int rank, enum twtm_attr *attrs)
{
	for (int i = 0; i < rank; i++) {
		if (i)
			expect(p, ',');
		int a = 0;
		while (a < TW_COUNT(attr_names) && !accept_word(p, attr_names[a]))
			a++;
		if (a == TW_COUNT(attr_names))
			complain(p, "plain, unroll or vector expected");
		attrs[i] = (enum twtm_attr)a;
	}
	expect(p, ']');
}

static const struct twtm_map *leaf(struct parser *p, enum twtm_kind kind)
{
	int64_t extent[TWTM_MAX_RANK];
	int ranks[TWTM_MAX_RANK];
	enum twtm_attr attrs[TWTM_MAX_RANK];
	bool have_ranks = false, have_attrs = false;
	int rank = 0;
	expect(p, '(');
	do {
		if (rank && accept_word(p, "ranks")) {
			expect(p, '=');
			expect(p, '[');
			if (have_ranks || numbers(p, rank, rank, ranks) != rank)
				complain(p, "one rank for each dimension expected");
			have_ranks = true;
		} else if (rank && kind == TWTM_REPEAT && accept_word(p, "attrs")) {
			expect(p, '=');
			expect(p, '[');
			if (have_attrs)
				complain(p, "attributes are given twice");
			attributes(p, rank, attrs);
			have_attrs = true;
		} else {
			if (have_ranks || have_attrs)
				complain(p, "extents come first");
			if (rank == TWTM_MAX_RANK)
				complain(p, "too many dimensions");
			extent[rank++] = number(p);
		}
	} while (accept(p, ','));
	expect(p, ')');
	if (kind == TWTM_SPATIAL)
		return twtm_spatial(p->arena, rank, extent, have_ranks ? ranks : NULL);
	return twtm_repeat(p->arena, rank, extent, have_ranks ? ranks : NULL, have_attrs ? attrs : NULL);
}

static const struct twtm_map *mapping(struct parser *p);

static const struct twtm_map *projection(struct parser *p)
{
	expect(p, '(');
	const struct twtm_map *f = mapping(p);
	expect(p, ',');
	expect(p, '[');
	int dims[TWTM_MAX_RANK];
	const int n = numbers(p, f->rank, f->rank, dims);
	expect(p, ')');
	unsigned bits = 0;
	for (int i = 0; i < n; i++)
		bits |= 1u << dims[i];
	return twtm_project(p->arena, f, bits);
}

static const struct twtm_map *factor(struct parser *p)
{
	if (accept_word(p, "repeat"))
		return leaf(p, TWTM_REPEAT);
	if (accept_word(p, "spatial"))
		return leaf(p, TWTM_SPATIAL);
	if (accept_word(p, "project"))
		return projection(p);
	if (!accept(p, '('))
		complain(p, "repeat, spatial, project or '(' expected");
	const struct twtm_map *f = mapping(p);
	expect(p, ')');
	return f;
}

static const struct twtm_map *mapping(struct parser *p)
{
	if (++p->depth > MAX_DEPTH)
		complain(p, "nested too deeply");
	const struct twtm_map *f = factor(p);
	while (accept(p, '*'))
		f = twtm_compose(p->arena, f, factor(p));
	p->depth--;
	return f;
}

const struct twtm_map *twtm_parse(struct tw_arena *a, const char *text)
{
	struct parser p = {.arena = a, .text = text, .at = text};
	const struct twtm_map *f = mapping(&p);
	skip_blanks(&p);
	if (*p.at)
		complain(&p, "'*' or the end expected");
	return f;
}

static void print_leaf(struct tw_buf *b, const struct twtm_map *f)
{
	bool row = true, plain = true;
	buf_puts(b, f->kind == TWTM_REPEAT ? "repeat(" : "spatial(");
	for (int i = 0; i < f->rank; i++) {
		buf_printf(b, "%s%lld", i ? ", " : "", (long long)f->extent[i]);
		row &= f->order[i] == i;
		plain &= f->attr[i] == TWTM_PLAIN;
	}
	if (!row) {
		for (int i = 0; i < f->rank; i++)
			buf_printf(b, "%s%d", i ? ", " : ", ranks = [", f->order[i]);
		buf_putc(b, ']');
	}
	if (!plain) {
		for (int i = 0; i < f->rank; i++)
			buf_printf(b, "%s%s", i ? ", " : ", attrs = [", attr_names[f->attr[i]]);
		buf_putc(b, ']');
	}
	buf_putc(b, ')');
}

static void print_map(struct tw_buf *b, const struct twtm_map *f)
{
	if (f->kind == TWTM_COMPOSE) {
		print_map(b, f->a);
		buf_puts(b, f->b->kind == TWTM_COMPOSE ? " * (" : " * ");
		print_map(b, f->b);
		if (f->b->kind == TWTM_COMPOSE)
			buf_putc(b, ')');
		return;
	}
	if (f->kind != TWTM_PROJECT) {
		print_leaf(b, f);
		return;
	}
	buf_puts(b, "project(");
	print_map(b, f->a);
	buf_puts(b, ", [");
	const char *comma = "";
	for (int i = 0; i < f->rank; i++) {
		if (!(f->projected >> i & 1))
			continue;
		buf_printf(b, "%s%d", comma, i);
		comma = ", ";
	}
	buf_puts(b, "])");
}

const char *twtm_print(struct tw_arena *a, const struct twtm_map *f)
{
	struct tw_buf b;
	buf_init(&b, a);
	print_map(&b, f);
	return b.at;
}
