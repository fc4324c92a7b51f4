/* "did you mean": the known word nearest to one that is not known. Input: the word, what may stand there; output: a hint
 * or NULL. Nearest: the fewest letters inserted, dropped, changed or swapped with their neighbour; at most a third. */
#include "ir/parse_int.h"

#include <strings.h>

enum { LONGEST = 40 };

static int least(int a, int b)
{
	return a < b ? a : b;
}

/* Optimal string alignment; LONGEST when either word is too long to care. */
static int distance(const char *a, const char *b)
{
	const int n = (int)strlen(a), m = (int)strlen(b);
	int row[3][LONGEST + 1];
	if (n > LONGEST || m > LONGEST || n - m > 2 || m - n > 2)
		return LONGEST;
	int *before = row[0], *above = row[1], *now = row[2];
	for (int j = 0; j <= m; j++)
		above[j] = j;
	for (int i = 1; i <= n; i++) {
		now[0] = i;
		for (int j = 1; j <= m; j++) {
			now[j] = least(least(above[j] + 1, now[j - 1] + 1), above[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				now[j] = least(now[j], before[j - 2] + 1);
		}
		int *free_row = before;
		before = above;
		above = now;
		now = free_row;
	}
	return above[m];
}

struct search {
	const char *word, *best;
	int distance;
};

static void consider(struct search *s, const char *candidate)
{
	const int d = strcasecmp(s->word, candidate) == 0 ? 0 : distance(s->word, candidate);
	if (d < s->distance) {
		s->distance = d;
		s->best = candidate;
	}
}

static void consider_names(struct twir_parser *p, struct search *s, unsigned what)
{
	for (int i = p->scope.n - 1; i >= p->floor; i--)
		if (what & 1u << p->scope.at[i]->kind)
			consider(s, p->scope.at[i]->name);
	for (int i = 0; (what & 1u << BOUND_VAR) && !p->no_symbols && i < p->m->symbols.n; i++)
		consider(s, p->m->symbols.at[i]->name);
}

static void consider_calls(struct twir_parser *p, struct search *s)
{
	for (int k = 0; k < TWIR_KINDS; k++) {
		if (twir_kind_flags((enum twir_kind)k) & TWIR_F_FUNC)
			consider(s, twir_kind_text((enum twir_kind)k));
		if (twir_is_combiner((enum twir_kind)k))
			consider(s, twir_fold_name((enum twir_kind)k));
	}
	for (int i = 0; i < p->m->funcs.n; i++) {
		const char *name = p->m->funcs.at[i]->name, *end = strrchr(name, '_');
		consider(s, name);
		if (end && (strcmp(end, "_f32") == 0 || strcmp(end, "_f64") == 0))
			consider(s, arena_strndup(p->scratch, name, (size_t)(end - name)));
	}
	for (int t = TWIR_I1; t < TWIR_SCALARS; t++)
		consider(s, twir_scalar_name((enum twir_scalar)t));
}

const char *twir_suggest(struct twir_parser *p, const char *word, unsigned what)
{
	struct search s = {.word = word, .distance = (int)strlen(word) / 3 + 1};
	s.distance = s.distance > 3 ? 3 : s.distance; /* fewer than that */
	s.distance = s.distance < 2 && strlen(word) > 1 ? 2 : s.distance;
	consider_names(p, &s, what);
	if (what & TWIR_SUGGEST_CALLS)
		consider_calls(p, &s);
	for (int t = TWIR_I1; (what & TWIR_SUGGEST_TYPES) && t < TWIR_SCALARS; t++)
		consider(&s, twir_scalar_name((enum twir_scalar)t));
	for (int l = 0; (what & TWIR_SUGGEST_LEVELS) && l < TWIR_LEVELS; l++)
		consider(&s, twir_level_name((enum twir_level)l));
	for (int i = 0; (what & TWIR_SUGGEST_WORDS) && twir_word(i); i++)
		consider(&s, twir_word(i));
	for (int i = 0; (what & TWIR_SUGGEST_PROGRAMS) && i < p->m->programs.n; i++)
		consider(&s, p->m->programs.at[i]->name);
	return s.best ? arena_printf(p->scratch, "did you mean '%s'?", s.best) : NULL;
}

const char *twir_suggest_token(struct twir_parser *p, unsigned what, const char *otherwise)
{
	if (p->tok.kind != TK_NAME)
		return otherwise;
	const char *hint = twir_suggest(p, arena_strndup(p->scratch, p->tok.at, (size_t)p->tok.n), what);
	return hint ? hint : otherwise;
}
