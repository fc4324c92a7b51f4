/* The three transforms of a Winograd convolution as parts of programs: the data's (B^T d B) and the result's (A^T m A), straight-line code with lanes over channels,
 * and the weights' (G g G^T), a definition that is computed at compile time. */
#include "sched/winograd_int.h"

#include <math.h>

static const enum twir_level LANE[] = {TWIR_LANE};

enum {
	CHUNK = 4
}; /* vectors of output channels that are transformed back at once: their results stay in the L1 cache */

void tw_winograd_tiles(struct tw_winograd_tiles *x, const struct tw_winograd *w, const struct tw_target *t, int mh,
		       int mw)
{
	struct twir_module *m = w->task->m;
	*x = (struct tw_winograd_tiles){.m = m, .w = w, .t = t};
	tw_winograd_axis(mh, w->taps[0], &x->axis[0]);
	tw_winograd_axis(mw, w->taps[1], &x->axis[1]);
	x->elements = x->axis[0].n * x->axis[1].n;
	x->rows = twir_ceildiv(m, w->out[0], twir_index(m, mh));
	x->columns = twir_ceildiv(m, w->out[1], twir_index(m, mw));
	x->all = twir_mul(m, twir_mul(m, w->images, x->rows), x->columns);
}

/* The sum of c[i] * e[i], named. Terms with a factor of 1 or -1 come first, for they need no multiplication. */
static const struct twir_expr *combine(const struct tw_winograd_tiles *x, int n, const double *c,
				       const struct twir_expr *const *e, struct twir_stmt **body)
{
	struct twir_module *m = x->m;
	const struct twir_expr *sum = NULL, *named;
	for (int unit = 1; unit >= 0; unit--)
		for (int i = 0; i < n; i++) {
			if (c[i] == 0 || unit != (c[i] == 1 || c[i] == -1))
				continue;
			const struct twir_expr *factor = twir_float(m, TWIR_F32, c[i]);
			if (!sum)
				sum = c[i] == 1	   ? e[i]
				      : c[i] == -1 ? twir_unary(m, TWIR_Neg, e[i])
						   : twir_mul(m, factor, e[i]);
			else if (c[i] == 1)
				sum = twir_add(m, sum, e[i]);
			else if (c[i] == -1)
				sum = twir_sub(m, sum, e[i]);
			else
				sum = twir_fma(m, factor, e[i], sum);
		}
	if (!sum)
		return twir_float(m, TWIR_F32, 0);
	if (sum->kind == TWIR_Var)
		return sum;
	twir_append(body, tw_let_new(m, "t", sum, &named));
	return named;
}

/* Are two terms, c times a and d times a, alike in magnitude, and of one sign here and of two there? */
struct likeness {
	bool differ, same, opposite;
};

static void compare(struct likeness *l, double c, double d)
{
	l->differ |= fabs(c) != fabs(d);
	l->same |= c * d > 0;
	l->opposite |= c * d < 0;
}

static bool are_pair(struct likeness l)
{
	return !l.differ && l.same && l.opposite;
}

/* Two terms that every row takes with coefficients of one magnitude, some with one sign and some with two, become their sum and their difference. */
static void pair_terms(const struct tw_winograd_tiles *x, int rows, int n, double c[][TW_WINOGRAD_MOST],
		       const struct twir_expr **e, struct twir_stmt **body)
{
	struct twir_module *m = x->m;
	for (int j = 0; j < n; j++)
		for (int k = j + 1; k < n; k++) {
			struct likeness l = {0};
			for (int i = 0; i < rows; i++)
				compare(&l, c[i][j], c[i][k]);
			if (!are_pair(l))
				continue;
			const struct twir_expr *sum, *difference;
			twir_append(body, tw_let_new(m, "t", twir_add(m, e[j], e[k]), &sum));
			twir_append(body, tw_let_new(m, "t", twir_sub(m, e[j], e[k]), &difference));
			e[j] = sum;
			e[k] = difference;
			for (int i = 0; i < rows; i++) {
				const bool apart = c[i][j] * c[i][k] < 0;
				c[i][k] = apart ? c[i][j] : 0;
				c[i][j] = apart ? 0 : c[i][j];
			}
		}
}

/* Rows i and k differ in the signs of some terms: what they share plus and minus the rest, whose last coefficient comes last. */
static bool pair_rows(const struct tw_winograd_tiles *x, int n, const double *c, const double *d,
		      const struct twir_expr *const *e, const struct twir_expr **plus, const struct twir_expr **minus,
		      struct twir_stmt **body)
{
	struct twir_module *m = x->m;
	struct likeness l = {0};
	double even[TW_WINOGRAD_MOST], odd[TW_WINOGRAD_MOST], last = 1;
	for (int i = 0; i < n; i++) {
		compare(&l, c[i], d[i]);
		even[i] = c[i] * d[i] > 0 ? c[i] : 0;
		odd[i] = c[i] * d[i] < 0 ? c[i] : 0;
		last = odd[i] != 0 ? odd[i] : last;
	}
	if (!are_pair(l))
		return false;
	for (int i = 0; i < n; i++)
		odd[i] /= last;
	const struct twir_expr *shared = combine(x, n, even, e, body), *rest = combine(x, n, odd, e, body);
	const struct twir_expr *by = twir_float(m, TWIR_F32, last), *less = twir_float(m, TWIR_F32, -last);
	const bool unit = last == 1 || last == -1;
	const struct twir_expr *up = unit ? twir_add(m, shared, rest) : twir_fma(m, by, rest, shared);
	const struct twir_expr *down = unit ? twir_sub(m, shared, rest) : twir_fma(m, less, rest, shared);
	twir_append(body, tw_let_new(m, "t", last == -1 ? down : up, plus));
	twir_append(body, tw_let_new(m, "t", last == -1 ? up : down, minus));
	return true;
}

/* out = matrix * in for one line of n elements. */
static void transform(const struct tw_winograd_tiles *x, int rows, int n,
		      const double matrix[TW_WINOGRAD_MOST][TW_WINOGRAD_MOST], const struct twir_expr *const *in,
		      const struct twir_expr **out, struct twir_stmt **body)
{
	double c[TW_WINOGRAD_MOST][TW_WINOGRAD_MOST];
	const struct twir_expr *e[TW_WINOGRAD_MOST];
	memcpy(c, matrix, sizeof(c));
	for (int k = 0; k < n; k++)
		e[k] = in[k];
	pair_terms(x, rows, n, c, e, body);
	for (int i = 0; i < rows; i++)
		out[i] = NULL;
	for (int i = 0; i < rows; i++) {
		for (int k = i + 1; k < rows && !out[i]; k++)
			if (!out[k])
				pair_rows(x, n, c[i], c[k], e, &out[i], &out[k], body);
		if (!out[i])
			out[i] = combine(x, n, c[i], e, body);
	}
}

/* out = left * in * right^T for a matrix `in` of rows x columns: both axes in turn. */
static void both_axes(const struct tw_winograd_tiles *x, int rows, int columns, const struct twir_expr *const *in,
		      int out_rows, const double left[TW_WINOGRAD_MOST][TW_WINOGRAD_MOST], int out_columns,
		      const double right[TW_WINOGRAD_MOST][TW_WINOGRAD_MOST], const struct twir_expr **out,
		      struct twir_stmt **body)
{
	const struct twir_expr *half[TW_WINOGRAD_MOST][TW_WINOGRAD_MOST]; /* by column, then row */
	const struct twir_expr *line[TW_WINOGRAD_MOST], *made[TW_WINOGRAD_MOST];
	for (int j = 0; j < columns; j++) {
		for (int i = 0; i < rows; i++)
			line[i] = in[i * columns + j];
		transform(x, out_rows, rows, left, line, half[j], body);
	}
	for (int i = 0; i < out_rows; i++) {
		for (int j = 0; j < columns; j++)
			line[j] = half[j][i];
		transform(x, out_columns, columns, right, line, made, body);
		for (int j = 0; j < out_columns; j++)
			out[i * out_columns + j] = made[j];
	}
}

/* Image, first row and first column of a tile. */
struct origin {
	const struct twir_expr *image, *row, *column;
};

static struct origin origin(const struct tw_winograd_tiles *x, const struct twir_expr *tile, struct twir_stmt **body)
{
	struct twir_module *m = x->m;
	struct origin o;
	const struct twir_expr *line = twir_div(m, tile, x->columns);
	twir_append(body, tw_let_new(m, "image", twir_div(m, line, x->rows), &o.image));
	twir_append(body,
		    tw_let_new(m, "row", twir_mul(m, twir_mod(m, line, x->rows), twir_index(m, x->axis[0].m)), &o.row));
	twir_append(body,
		    tw_let_new(m, "column", twir_mul(m, twir_mod(m, tile, x->columns), twir_index(m, x->axis[1].m)),
			       &o.column));
	return o;
}

static const struct twir_expr *replaced(struct twir_module *m, const struct twir_expr *e, int n,
					struct twir_var *const *vars, const struct twir_expr *const *by)
{
	struct twir_subst s;
	twir_subst_init(&s, m);
	for (int i = 0; i < n; i++)
		if (vars[i])
			twir_subst_set(&s, vars[i], by[i]);
	return twir_subst_expr(&s, e);
}

/* for channel in lanes { body } */
static struct twir_stmt *over_channels(const struct tw_winograd_tiles *x, struct twir_var *v,
				       const struct twir_expr *size, struct twir_stmt *body)
{
	struct twir_module *m = x->m;
	const struct twir_expr *lanes[] = {twir_index(m, x->t->lanes)}, *vectors[] = {twir_ceildiv(m, size, lanes[0])};
	const struct twir_map *map = twir_compose(m, twir_repeat(m, 1, vectors, NULL), twir_spatial(m, 1, lanes));
	return tw_formap(m, 1, &v, map, 1, LANE, &size, body);
}

static const struct twir_expr *within(struct twir_module *m, const struct twir_expr *e, const struct twir_expr *size)
{
	return twir_and(m, twir_le(m, twir_index(m, 0), e), twir_lt(m, e, size));
}

struct twir_stmt *tw_winograd_input(const struct tw_winograd_tiles *x, const struct twir_expr *tile,
				    struct twir_tensor *data, const struct twir_expr *place)
{
	struct twir_module *m = x->m;
	const struct tw_winograd *w = x->w;
	const int rows = x->axis[0].n, columns = x->axis[1].n;
	struct twir_stmt *block = NULL, *body = NULL;
	const struct origin o = origin(x, tile, &block);
	struct twir_var *c = tw_loop_var(m, "c");
	struct twir_var *const vars[] = {w->image, w->ci, w->tap[0], w->tap[1], w->row, w->column};
	const struct twir_expr *in[TW_WINOGRAD_MOST * TW_WINOGRAD_MOST], *out[TW_WINOGRAD_MOST * TW_WINOGRAD_MOST];
	const struct twir_expr *whole = twir_bool(m, true);
	for (int i = 0; i < rows; i++)
		for (int j = 0; j < columns; j++) {
			const struct twir_expr *tap[] = {w->tap[0] ? twir_index(m, i) : NULL,
							 w->tap[1] ? twir_index(m, j) : NULL};
			const struct twir_expr *by[] = {o.image, twir_var(m, c), tap[0], tap[1], o.row, o.column};
			const struct twir_expr *inside =
				twir_and(m, within(m, replaced(m, w->at[0], 6, vars, by), w->in[0]),
					 within(m, replaced(m, w->at[1], 6, vars, by), w->in[1]));
			if ((i == 0 || i == rows - 1) && (j == 0 || j == columns - 1))
				whole = twir_and(m, whole, inside);
			const struct twir_expr *value =
				twir_cond(m, inside, replaced(m, w->x, 6, vars, by), twir_float(m, TWIR_F32, 0));
			twir_append(&body, tw_let_new(m, "d", value, &in[i * columns + j]));
		}
	both_axes(x, rows, columns, in, rows, x->axis[0].input, columns, x->axis[1].input, out, &body);
	for (int e = 0; e < x->elements; e++) {
		const struct twir_expr *at[] = {twir_index(m, e), place, twir_var(m, c)};
		twir_append(&body, twir_store(m, data, 3, at, out[e], NULL));
	}
	struct twir_stmt *full = twir_stmt_new(m, TWIR_SPECIALISE);
	full->u.branch.cond = whole;
	full->u.branch.body = over_channels(x, c, w->channels, body);
	twir_append(&block, full);
	return block;
}

struct twir_tensor *tw_winograd_part(const struct tw_winograd_tiles *x)
{
	struct twir_module *m = x->m;
	const struct twir_expr *shape[] = {twir_index(m, x->axis[0].m), twir_index(m, x->axis[1].m),
					   twir_index(m, CHUNK * x->t->lanes)};
	return twir_tensor_new(m, "part", TWIR_F32, 3, shape, TWIR_SHARED);
}

struct twir_stmt *tw_winograd_output(const struct tw_winograd_tiles *x, const struct twir_expr *tile,
				     struct twir_tensor *sums, const struct twir_expr *place, struct twir_tensor *part)
{
	struct twir_module *m = x->m;
	const struct tw_winograd *w = x->w;
	const int mh = x->axis[0].m, mw = x->axis[1].m;
	struct twir_stmt *block = NULL, *body = NULL, *chunk = NULL;
	const struct origin o = origin(x, tile, &block);
	const struct twir_expr *in[TW_WINOGRAD_MOST * TW_WINOGRAD_MOST], *out[TW_WINOGRAD_MOST * TW_WINOGRAD_MOST];
	const struct twir_expr *step = twir_index(m, CHUNK * x->t->lanes);
	struct twir_var *chunks = tw_loop_var(m, "chunk"), *c = tw_loop_var(m, "c");
	const struct twir_expr *first, *here;
	twir_append(&chunk, tw_let_new(m, "first", twir_mul(m, twir_var(m, chunks), step), &first));
	here = twir_min(m, step, twir_sub(m, w->filters, first));
	for (int e = 0; e < x->elements; e++) {
		const struct twir_expr *at[] = {twir_index(m, e), place, twir_add(m, first, twir_var(m, c))};
		twir_append(&body, tw_let_new(m, "s", twir_load(m, sums, 3, at), &in[e]));
	}
	both_axes(x, x->axis[0].n, x->axis[1].n, in, mh, x->axis[0].output, mw, x->axis[1].output, out, &body);
	for (int i = 0; i < mh; i++)
		for (int j = 0; j < mw; j++) {
			const struct twir_expr *at[] = {twir_index(m, i), twir_index(m, j), twir_var(m, c)};
			twir_append(&body, twir_store(m, part, 3, at, out[i * mw + j], NULL));
		}
	twir_append(&chunk, over_channels(x, c, here, body));
	/* The one store, in rolled loops: whatever is fused into it is compiled once. */
	struct twir_var *iv = tw_loop_var(m, "i"), *jv = tw_loop_var(m, "j");
	const struct twir_expr *i = twir_var(m, iv), *j = twir_var(m, jv);
	c = tw_loop_var(m, "c");
	const struct twir_expr *from[] = {i, j, twir_var(m, c)};
	const struct twir_expr *pixel =
		twir_add(m, twir_mul(m, twir_add(m, o.row, i), w->out[1]), twir_add(m, o.column, j));
	const struct twir_expr *to[] = {o.image, twir_add(m, first, twir_var(m, c)), pixel};
	struct twir_stmt *store = over_channels(
		x, c, here, twir_store(m, w->task->anchor->out, 3, to, twir_load(m, part, 3, from), NULL));
	struct twir_var *iterate[] = {iv, jv};
	const struct twir_expr *size[] = {twir_min(m, twir_index(m, mh), twir_sub(m, w->out[0], o.row)),
					  twir_min(m, twir_index(m, mw), twir_sub(m, w->out[1], o.column))};
	for (int d = 1; d >= 0; d--)
		store = tw_for(m, iterate[d], size[d], store);
	twir_append(&chunk, store);
	twir_append(&block, tw_for(m, chunks, twir_ceildiv(m, w->filters, step), chunk));
	return block;
}

/* matrix[row][column] for a row that is an expression. */
static const struct twir_expr *entry(struct twir_module *m, const struct tw_winograd_axis *a,
				     const struct twir_expr *row, int column)
{
	const struct twir_expr *e = twir_float(m, TWIR_F64, a->filter[a->n - 1][column]);
	for (int i = a->n - 2; i >= 0; i--)
		e = twir_select(m, twir_eq(m, row, twir_index(m, i)), twir_float(m, TWIR_F64, a->filter[i][column]), e);
	return e;
}

struct twir_tensor *tw_winograd_weights(const struct tw_winograd_tiles *x, struct tw_launch *out)
{
	struct twir_module *m = x->m;
	const struct tw_winograd *w = x->w;
	struct twir_var *axes[3];
	const struct twir_expr *shape[] = {twir_index(m, x->elements), w->channels, w->filters}, *at[3];
	static const char *const names[] = {"e", "ci", "co"};
	for (int d = 0; d < 3; d++) {
		axes[d] = twir_var_new(m, TWIR_AXIS, twir_scalar_type(TWIR_INDEX), names[d]);
		at[d] = twir_var(m, axes[d]);
	}
	const struct twir_expr *columns = twir_index(m, x->axis[1].n), *sum = NULL;
	const struct twir_expr *row = twir_div(m, at[0], columns), *column = twir_mod(m, at[0], columns);
	struct twir_var *const vars[] = {w->channel, w->ci, w->tap[0], w->tap[1]};
	for (int i = 0; i < w->taps[0]; i++)
		for (int j = 0; j < w->taps[1]; j++) {
			const struct twir_expr *by[] = {at[2], at[1], twir_index(m, i), twir_index(m, j)};
			const struct twir_expr *tap = twir_cast(m, TWIR_F64, replaced(m, w->w, 4, vars, by));
			const struct twir_expr *factor =
				twir_mul(m, entry(m, &x->axis[0], row, i), entry(m, &x->axis[1], column, j));
			sum = sum ? twir_fma(m, factor, tap, sum) : twir_mul(m, factor, tap);
		}
	return tw_prepare(w->task, out, "winograd_weights", TWIR_F32, 3, shape, axes, twir_cast(m, TWIR_F32, sum));
}
