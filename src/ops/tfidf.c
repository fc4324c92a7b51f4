/* tfidf.c: TfIdfVectorizer on integers: how often each n-gram of a pool occurs in a row.
 *
 * Column j counts the places p and distances d at which x[p], x[p + d], .. are the n-gram of that column: one sum over
 * both, of products that are 0 or 1. n-grams of one element are counted at the first distance alone. Tables give each
 * column its n-gram, filled up with zeros, and its length (0: the column has none). */
#include "ops/elementwise.h"

#include <inttypes.h>

typedef const struct twir_expr *E;

enum { MOST_LENGTH = 16, MOST_COLUMNS = 1 << 22, MOST_SKIPS = 1 << 20 };

struct pool {
	int64_t columns, longest, distances;
	int64_t *grams;	  /* [columns, longest] */
	int64_t *lengths; /* [columns] */
};

static void need_range(struct tw_opctx *x, const char *name, int64_t value, int64_t least, int64_t most)
{
	if (value < least || value > most)
		tw_op_fail(x, TW_ERR_MODEL, "%s = %" PRId64 "; %" PRId64 " to %" PRId64 " are possible", name, value,
			   least, most);
}

/* Which n-grams the pool has, and in which columns they are counted. */
static struct pool read_pool(struct tw_opctx *x)
{
	const int64_t *counts, *indexes, *pool;
	const int ncounts = tw_attr_ints(x->node, "ngram_counts", &counts),
		  nindexes = tw_attr_ints(x->node, "ngram_indexes", &indexes),
		  npool = tw_attr_ints(x->node, "pool_int64s", &pool);
	const int64_t least = tw_attr_int(x->node, "min_gram_length", 1),
		      most = tw_attr_int(x->node, "max_gram_length", 1);
	struct pool p = {.distances = tw_attr_int(x->node, "max_skip_count", 0) + 1};
	if (npool < 0 || tw_attr_find(x->node, "pool_strings"))
		tw_op_fail(x, TW_ERR_UNSUPPORTED, "a pool of strings");
	need_range(x, "max_gram_length", most, 1, MOST_LENGTH);
	need_range(x, "min_gram_length", least, 1, most);
	need_range(x, "max_skip_count", p.distances - 1, 0, MOST_SKIPS);
	p.longest = most;
	for (int i = 0; i < nindexes; i++) {
		need_range(x, "ngram_indexes", indexes[i], 0, MOST_COLUMNS - 1);
		p.columns = indexes[i] >= p.columns ? indexes[i] + 1 : p.columns;
	}
	p.grams = ARENA_ARRAY(x->arena, int64_t, p.columns * p.longest);
	p.lengths = ARENA_ARRAY(x->arena, int64_t, p.columns);
	memset(p.grams, 0, (size_t)(p.columns * p.longest) * sizeof(*p.grams));
	memset(p.lengths, 0, (size_t)p.columns * sizeof(*p.lengths));
	int gram = 0;
	for (int k = 0; k < ncounts; k++) {
		const int64_t length = k + 1, end = k + 1 < ncounts ? counts[k + 1] : npool;
		if (counts[k] < 0 || end > npool || end < counts[k] || (end - counts[k]) % length)
			tw_op_fail(x, TW_ERR_MODEL,
				   "ngram_counts: no whole n-grams of %" PRId64 " in the pool's %d numbers", length,
				   npool);
		for (int64_t at = counts[k]; at < end; at += length, gram++) {
			if (gram >= nindexes)
				tw_op_fail(x, TW_ERR_MODEL, "ngram_indexes holds %d numbers; the pool has more n-grams",
					   nindexes);
			if (length < least || length > most)
				continue;
			const int64_t column = indexes[gram];
			if (p.lengths[column])
				tw_op_fail(x, TW_ERR_UNSUPPORTED, "two n-grams counted in column %" PRId64, column);
			p.lengths[column] = length;
			memcpy(p.grams + column * p.longest, pool + at, (size_t)length * sizeof(*pool));
		}
	}
	return p;
}

/* By column; NULL: all are 1 */
static const float *read_weights(struct tw_opctx *x, int64_t columns)
{
	const float *weights;
	const int64_t *indexes;
	const int n = tw_attr_floats(x->node, "weights", &weights),
		  ngrams = tw_attr_ints(x->node, "ngram_indexes", &indexes);
	const char *mode = tw_attr_string(x->node, "mode", "");
	if (strcmp(mode, "TF") && strcmp(mode, "IDF") && strcmp(mode, "TFIDF"))
		tw_op_fail(x, TW_ERR_MODEL, "mode = '%s' is not known", mode);
	if (!strcmp(mode, "TF") || n < 0)
		return NULL;
	if (n != ngrams)
		tw_op_fail(x, TW_ERR_MODEL, "%d weights for %d n-grams", n, ngrams);
	float *by_column = ARENA_ARRAY(x->arena, float, columns);
	memset(by_column, 0, (size_t)columns * sizeof(*by_column));
	for (int i = 0; i < n; i++)
		by_column[indexes[i]] = weights[i];
	return by_column;
}

static void infer_tfidf(struct tw_opctx *x)
{
	const int rank = tw_in_rank(x, 0);
	tw_need_type(x, 0, "index");
	if (rank != 1 && rank != 2)
		tw_op_fail(x, TW_ERR_MODEL, "input of rank %d; it must be 1 or 2", rank);
	const struct pool p = read_pool(x);
	read_weights(x, p.columns);
	const E shape[] = {rank == 2 ? tw_in_dim(x, 0, 0) : twir_index(x->m, p.columns), twir_index(x->m, p.columns)};
	tw_set_out(x, 0, TWIR_F32, rank, shape);
}

static void compute_tfidf(struct tw_opctx *x)
{
	struct twir_module *m = x->m;
	const struct pool p = read_pool(x);
	const float *weights = read_weights(x, p.columns);
	struct twir_tensor *y = tw_y(x, 0), *t = tw_x(x, 0),
			   *grams = tw_table(x, "grams", TWIR_I64, 2, (int64_t[]){p.columns, p.longest}, p.grams),
			   *lengths = tw_table(x, "lengths", TWIR_I64, 1, &p.columns, p.lengths);
	const E zero = twir_float(m, TWIR_F32, 0), one = twir_float(m, TWIR_F32, 1), whole = t->shape[t->rank - 1],
		extent[] = {twir_index(m, p.distances), whole};
	E *i, at[2];
	struct twir_var **axes = tw_axes(x, y, &i);
	struct twir_var *fold[] = {tw_fold_axis(x, "d", extent[0]), tw_fold_axis(x, "p", extent[1])};
	const E column = i[y->rank - 1], length = tw_load(x, lengths, 1, &column), d = twir_var(m, fold[0]);
	const E once = twir_or(m, twir_lt(m, twir_int(m, TWIR_I64, 1), length), twir_eq(m, d, twir_index(m, 0)));
	E hit = twir_select(m, twir_and(m, once, twir_lt(m, twir_int(m, TWIR_I64, 0), length)), one, zero);
	for (int64_t k = 0; k < p.longest; k++) {
		const E step = twir_mul(m, twir_index(m, k), twir_add(m, d, twir_index(m, 1))),
			place = twir_add(m, twir_var(m, fold[1]), step), gram[] = {column, twir_index(m, k)};
		at[0] = i[0];
		at[t->rank - 1] = place;
		const E number = twir_cast(m, TWIR_I64, tw_load(x, t, t->rank, at)),
			same = twir_select(m, twir_eq(m, number, tw_load(x, grams, 2, gram)), one, zero);
		hit = twir_mul(m, hit,
			       twir_cond(m, twir_lt(m, twir_int(m, TWIR_I64, k), length),
					 twir_cond(m, twir_lt(m, place, whole), same, zero), one));
	}
	if (!weights && strcmp(tw_attr_string(x->node, "mode", ""), "IDF")) {
		tw_define(x, y, axes, twir_fold(m, TWIR_Add, 2, fold, extent, hit));
		return;
	}
	struct twir_tensor *count = tw_temp(x, "count", TWIR_F32, y->rank, y->shape);
	tw_define(x, count, axes, twir_fold(m, TWIR_Add, 2, fold, extent, hit));
	axes = tw_axes(x, y, &i);
	E value = tw_load(x, count, y->rank, i);
	if (!strcmp(tw_attr_string(x->node, "mode", ""), "IDF"))
		value = twir_min(m, value, one);
	if (weights)
		value = twir_mul(
			m, value,
			tw_load(x, tw_table(x, "weights", TWIR_F32, 1, &p.columns, weights), 1, &i[y->rank - 1]));
	tw_define(x, y, axes, value);
}

static const struct tw_attr_spec attrs[] = {
	{"max_gram_length", TW_ATTR_INT, true}, {"max_skip_count", TW_ATTR_INT, true},
	{"min_gram_length", TW_ATTR_INT, true}, {"mode", TW_ATTR_STRING, true},
	{"ngram_counts", TW_ATTR_INTS, true},	{"ngram_indexes", TW_ATTR_INTS, true},
	{"pool_int64s", TW_ATTR_INTS, false},	{"pool_strings", TW_ATTR_STRINGS, false},
	{"weights", TW_ATTR_FLOATS, false},	{NULL}};

const struct tw_op tw_ops_tfidf[] = {
	{.name = "TfIdfVectorizer",
	 .since = 9,
	 .in = {1, 1},
	 .out = {1, 1},
	 .attrs = attrs,
	 .infer = infer_tfidf,
	 .compute = compute_tfidf},
	{0},
};
