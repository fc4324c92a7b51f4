/* einsum.c: Einsum: each output element is a sum, over the letters that the output lacks, of the product of the
 * operands' elements.
 *
 * One contracted letter between two operands is the form that matmul schedules recognise. A letter twice in one
 * operand reads its diagonal; an ellipsis stands for leading axes that broadcast. */
#include "ops/elementwise.h"

#include <ctype.h>

typedef const struct twir_expr *E;

enum { MAX_OPERANDS = 16, MAX_LETTERS = 52, ELLIPSIS = 0 };

struct term { /* of one operand, or of the output: letters, ELLIPSIS for the whole of it */
	int n;
	char letter[TWIR_MAX_RANK + 1];
	bool dots;
};

struct equation {
	int noperands;
	struct term in[MAX_OPERANDS], out;
	int ndots;	       /* axes that the ellipsis stands for */
	E dots[TWIR_MAX_RANK]; /* their sizes */
	E size[128];	       /* of a letter; NULL: not used */
	int count[128];	       /* of a letter in the operands */
};

static const char *read_term(struct tw_opctx *x, const char *s, struct term *t)
{
	for (; *s && *s != ',' && strncmp(s, "->", 2); s++) {
		if (*s == ' ')
			continue;
		if (t->n > TWIR_MAX_RANK)
			tw_op_fail(x, TW_ERR_UNSUPPORTED, "a term of more than %d letters", TWIR_MAX_RANK);
		if (!strncmp(s, "...", 3) && !t->dots) {
			t->dots = true;
			t->letter[t->n++] = ELLIPSIS;
			s += 2;
		} else if (isalpha((unsigned char)*s)) {
			t->letter[t->n++] = *s;
		} else {
			tw_op_fail(x, TW_ERR_MODEL, "equation is malformed at '%s'", s);
		}
	}
	return s;
}

/* Without "->": the letters that occur once, in alphabetical order, behind the ellipsis. */
static void implicit_output(struct tw_opctx *x, struct equation *q)
{
	for (int i = 0; i < q->noperands; i++)
		if (q->in[i].dots && !q->out.dots) {
			q->out.dots = true;
			q->out.letter[q->out.n++] = ELLIPSIS;
		}
	for (int c = 'A'; c <= 'z'; c++)
		if (isalpha(c) && q->count[c] == 1) {
			if (q->out.n > TWIR_MAX_RANK)
				tw_op_fail(x, TW_ERR_UNSUPPORTED, "output of more than %d axes", TWIR_MAX_RANK);
			q->out.letter[q->out.n++] = (char)c;
		}
}

static E merged(struct tw_opctx *x, E a, E b)
{
	const E one = twir_index(x->m, 1);
	return !a || a == one ? b : b == one ? a : tw_same_size(x, a, b, "sizes of one letter");
}

static void read_sizes(struct tw_opctx *x, struct equation *q, int i)
{
	const struct term *t = &q->in[i];
	const int rank = tw_in_rank(x, i), extra = rank - (t->n - t->dots);
	if (extra < 0 || (extra > 0 && !t->dots))
		tw_op_fail(x, TW_ERR_MODEL, "operand %d has rank %d, the equation gives it %d letters", i, rank,
			   t->n - t->dots);
	for (int k = 0, d = 0; k < t->n; k++) {
		if (t->letter[k] != ELLIPSIS) {
			q->size[(int)t->letter[k]] = merged(x, q->size[(int)t->letter[k]], tw_in_dim(x, i, d++));
			continue;
		}
		for (int e = 0; e < extra; e++, d++) {
			const int at = TWIR_MAX_RANK - extra + e; /* aligned at the end */
			q->dots[at] = merged(x, q->dots[at], tw_in_dim(x, i, d));
		}
		q->ndots = extra > q->ndots ? extra : q->ndots;
	}
}

static void read_equation(struct tw_opctx *x, struct equation *q)
{
	*q = (struct equation){.noperands = 0};
	const char *s = tw_attr_string(x->node, "equation", "");
	for (;;) {
		if (q->noperands == MAX_OPERANDS)
			tw_op_fail(x, TW_ERR_UNSUPPORTED, "more than %d operands", MAX_OPERANDS);
		s = read_term(x, s, &q->in[q->noperands++]);
		if (*s != ',')
			break;
		s++;
	}
	if (q->noperands != x->node->nin)
		tw_op_fail(x, TW_ERR_MODEL, "equation of %d operands for %d inputs", q->noperands, x->node->nin);
	for (int i = 0; i < q->noperands; i++) {
		read_sizes(x, q, i);
		for (int k = 0; k < q->in[i].n; k++)
			q->count[(int)q->in[i].letter[k]]++;
	}
	if (!*s) {
		implicit_output(x, q);
		return;
	}
	s = read_term(x, s + 2, &q->out);
	if (*s)
		tw_op_fail(x, TW_ERR_MODEL, "equation is malformed at '%s'", s);
	for (int k = 0; k < q->out.n; k++) {
		const char c = q->out.letter[k];
		if (c != ELLIPSIS && (!q->size[(int)c] || memchr(q->out.letter, c, (size_t)k)))
			tw_op_fail(x, TW_ERR_MODEL, "letter '%c' of the output is given twice or is in no operand", c);
	}
}

static int output_shape(struct tw_opctx *x, const struct equation *q, E *shape)
{
	int n = 0;
	if (q->out.n - q->out.dots + (q->out.dots ? q->ndots : 0) > TWIR_MAX_RANK)
		tw_op_fail(x, TW_ERR_UNSUPPORTED, "output of more than %d axes", TWIR_MAX_RANK);
	for (int k = 0; k < q->out.n; k++) {
		if (q->out.letter[k] != ELLIPSIS)
			shape[n++] = q->size[(int)q->out.letter[k]];
		for (int e = 0; q->out.letter[k] == ELLIPSIS && e < q->ndots; e++)
			shape[n++] = q->dots[TWIR_MAX_RANK - q->ndots + e];
	}
	return n;
}

static void infer(struct tw_opctx *x)
{
	struct equation q;
	E shape[TWIR_MAX_RANK];
	tw_need_type(x, 0, "numeric");
	tw_need_same_type(x, 0, x->node->nin - 1);
	read_equation(x, &q);
	tw_set_out(x, 0, tw_in_type(x, 0), output_shape(x, &q, shape), shape);
}

static E load_operand(struct tw_opctx *x, const struct equation *q, int i, E const *letter, E const *dots)
{
	struct twir_tensor *t = tw_x(x, i);
	E at[TWIR_MAX_RANK];
	const int extra = t->rank - (q->in[i].n - q->in[i].dots);
	int d = 0;
	for (int k = 0; k < q->in[i].n; k++) {
		if (q->in[i].letter[k] != ELLIPSIS)
			at[d++] = letter[(int)q->in[i].letter[k]];
		for (int e = 0; q->in[i].letter[k] == ELLIPSIS && e < extra; e++)
			at[d++] = dots[TWIR_MAX_RANK - extra + e];
	}
	for (d = 0; d < t->rank; d++)
		if (t->shape[d] == twir_index(x->m, 1))
			at[d] = twir_index(x->m, 0);
	return tw_load(x, t, t->rank, at);
}

static void compute(struct tw_opctx *x)
{
	struct equation q;
	E *i, letter[128] = {NULL}, dots[TWIR_MAX_RANK] = {NULL}, extent[MAX_LETTERS + TWIR_MAX_RANK];
	struct twir_var *fold[MAX_LETTERS + TWIR_MAX_RANK];
	read_equation(x, &q);
	struct twir_tensor *y = tw_y(x, 0);
	struct twir_var **axes = tw_axes(x, y, &i);
	int n = 0, d = 0;
	for (int k = 0; k < q.out.n; k++) {
		if (q.out.letter[k] != ELLIPSIS)
			letter[(int)q.out.letter[k]] = i[d++];
		for (int e = 0; q.out.letter[k] == ELLIPSIS && e < q.ndots; e++)
			dots[TWIR_MAX_RANK - q.ndots + e] = i[d++];
	}
	for (int c = 'A'; c <= 'z'; c++) {
		if (!q.size[c] || letter[c])
			continue;
		extent[n] = q.size[c];
		fold[n] = tw_fold_axis(x, "k", extent[n]);
		letter[c] = twir_var(x->m, fold[n++]);
	}
	for (int e = TWIR_MAX_RANK - q.ndots; e < TWIR_MAX_RANK && !q.out.dots; e++) {
		extent[n] = q.dots[e];
		fold[n] = tw_fold_axis(x, "k", extent[n]);
		dots[e] = twir_var(x->m, fold[n++]);
	}
	E v = load_operand(x, &q, 0, letter, dots);
	for (int k = 1; k < q.noperands; k++)
		v = twir_mul(x->m, v, load_operand(x, &q, k, letter, dots));
	tw_define(x, y, axes, n ? twir_fold(x->m, TWIR_Add, n, fold, extent, v) : v);
}

static const struct tw_attr_spec attrs[] = {{"equation", TW_ATTR_STRING, true}, {NULL}};

const struct tw_op tw_ops_einsum[] = {
	{.name = "Einsum",
	 .since = 12,
	 .in = {1, -1},
	 .out = {1, 1},
	 .attrs = attrs,
	 .infer = infer,
	 .compute = compute},
	{0},
};
