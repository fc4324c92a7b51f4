/* interpret_warp: what the lanes of a warp do together: shuffles and matrix instructions. Input: the frames of the
 * lanes, all at the same instruction; output: their slots and registers. */
#include <math.h>

#include "ir/interpret_int.h"

enum { LANES = 32, MOST_LANES = 4096, LARGEST_TILE = 16 * 32 };

static void shuffle(const struct twiri_ins *in, struct twiri_frame *f, int n)
{
	union twiri_slot before[MOST_LANES];
	TW_CHECK(n <= MOST_LANES);
	for (int l = 0; l < n; l++)
		before[l] = f[l].s[in->a];
	for (int l = 0; l < n; l++) {
		const int64_t d = f[l].s[in->b].i;
		int64_t from = in->type == TWIR_ShflIdx	   ? tw_floormod(d, n)
			       : d < 0 || d >= n	   ? l
			       : in->type == TWIR_ShflUp   ? l - d
			       : in->type == TWIR_ShflDown ? l + d
							   : (l ^ d);
		if (from < 0 || from >= n)
			from = l;
		f[l].s[in->d] = before[from];
	}
}

/* The lane's element e of a fragment, through the tensor's own checks. */
static const struct twiri_access *point(struct twiri_machine *x, const struct twiri_matrix *m, int k, int lane, int e,
					struct twiri_frame *f, int *row, int *column)
{
	twir_mma_place(m->shape, (enum twir_operand_of)k, lane, e, row, column);
	f->s[m->slot[k][0]].i = m->behind[k] == 2 ? *row : e;
	if (m->behind[k] == 2)
		f->s[m->slot[k][1]].i = *column;
	return &x->accesses.at[m->access[k]];
}

static void gather(struct twiri_machine *x, const struct twiri_matrix *m, int k, struct twiri_frame *f, int columns,
		   union twiri_slot *tile)
{
	for (int lane = 0; lane < LANES; lane++)
		for (int e = 0; e < m->shape->elements[k]; e++) {
			int row, column;
			const struct twiri_access *a = point(x, m, k, lane, e, &f[lane], &row, &column);
			twiri_load(x, &f[lane], a, &tile[row * columns + column]);
		}
}

/* a and b as the sums see them */
static void widen(const struct twir_mma *s, union twiri_slot *v, int n)
{
	for (int i = 0; i < n; i++) {
		if (s->type == TWIR_F32) { /* tf32: the low bits are ignored */
			uint32_t bits;
			memcpy(&bits, &v[i].s, sizeof(bits));
			bits &= ~UINT32_C(0x1fff);
			memcpy(&v[i].s, &bits, sizeof(bits));
		} else if (s->sum == TWIR_F32) {
			v[i] = twiri_cast(TWIR_F32, s->type, v[i]);
		}
	}
}

static void multiply(const struct twir_mma *s, const union twiri_slot *a, const union twiri_slot *b,
		     union twiri_slot *d)
{
	for (int i = 0; i < s->m; i++)
		for (int j = 0; j < s->n; j++) {
			union twiri_slot *at = &d[i * s->n + j];
			for (int k = 0; k < s->k; k++) {
				const union twiri_slot *p = &a[i * s->k + k], *q = &b[k * s->n + j];
				if (s->sum == TWIR_F32)
					at->s = fmaf(p->s, q->s, at->s);
				else if (s->sum == TWIR_F64)
					at->d = fma(p->d, q->d, at->d);
				else
					at->i = twir_wrap(s->sum, at->i + p->i * q->i);
			}
		}
}

static void matrix(struct twiri_machine *x, const struct twiri_matrix *m, struct twiri_frame *f, int n)
{
	const struct twir_mma *s = m->shape;
	union twiri_slot a[LARGEST_TILE], b[LARGEST_TILE], d[LARGEST_TILE];
	if (n != LANES)
		twiri_fail(x, x->accesses.at[m->access[0]].stmt, NULL,
			   "a matrix instruction needs a warp of %d lanes, not %d", LANES, n);
	TW_CHECK(s->m * s->k <= LARGEST_TILE && s->k * s->n <= LARGEST_TILE && s->m * s->n <= LARGEST_TILE);
	gather(x, m, TWIR_MMA_D, f, s->n, d);
	gather(x, m, TWIR_MMA_A, f, s->k, a);
	gather(x, m, TWIR_MMA_B, f, s->n, b);
	widen(s, a, s->m * s->k);
	widen(s, b, s->k * s->n);
	multiply(s, a, b, d);
	for (int lane = 0; lane < LANES; lane++)
		for (int e = 0; e < s->elements[TWIR_MMA_D]; e++) {
			int row, column;
			const struct twiri_access *at = point(x, m, TWIR_MMA_D, lane, e, &f[lane], &row, &column);
			twiri_store(x, &f[lane], at, &d[row * s->n + column]);
		}
}

void twiri_warp(struct twiri_machine *x, struct twiri_frame *lanes, int n)
{
	const struct twiri_ins *in = &x->code.at[lanes[0].pc];
	if (in->op == OP_SHUFFLE)
		shuffle(in, lanes, n);
	else
		matrix(x, &x->matrices.at[in->a], lanes, n);
}
