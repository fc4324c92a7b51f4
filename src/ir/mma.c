/* mma: the matrix instructions of a warp, and which lane holds what. Input: a name, or a lane and the number of an
 * element in its fragment; output: the row of the table, or a place in the tile. Fragments are the same for all of
 * them: registers of 32 bits (f64: 64) hold elements beside each other in k; lane / 4 counts rows of a and d and
 * columns of b; lane % 4 counts registers. */
#include "ir/ir.h"

static const struct twir_mma shapes[] = {
	{"m16n8k8_f16", 16, 8, 8, TWIR_F16, TWIR_F32, {4, 4, 2}},
	{"m16n8k16_f16", 16, 8, 16, TWIR_F16, TWIR_F32, {4, 8, 4}},
	{"m16n8k16_bf16", 16, 8, 16, TWIR_BF16, TWIR_F32, {4, 8, 4}},
	{"m16n8k4_tf32", 16, 8, 4, TWIR_F32, TWIR_F32, {4, 2, 1}}, /* the low 13 bits of a and b are ignored */
	{"m16n8k8_tf32", 16, 8, 8, TWIR_F32, TWIR_F32, {4, 4, 2}},
	{"m16n8k32_i8", 16, 8, 32, TWIR_I8, TWIR_I32, {4, 16, 8}},
	{"m8n8k4_f64", 8, 8, 4, TWIR_F64, TWIR_F64, {2, 1, 1}},
};

const struct twir_mma *twir_mma_at(int i)
{
	return i >= 0 && i < TW_COUNT(shapes) ? &shapes[i] : NULL;
}

const struct twir_mma *twir_mma_find(const char *name)
{
	for (int i = 0; i < TW_COUNT(shapes); i++)
		if (strcmp(shapes[i].name, name) == 0)
			return &shapes[i];
	return NULL;
}

void twir_mma_place(const struct twir_mma *s, enum twir_operand_of which, int lane, int e, int *row, int *column)
{
	const int bits = twir_scalar_bits(s->type), wide = bits >= 32 ? 1 : 32 / bits;
	const int group = lane / 4, within = lane % 4, r = e / wide, c = e % wide;
	switch (which) {
	case TWIR_MMA_A: /* registers: rows lane / 4 and 8 below, then the next columns */
		*row = group + (s->m > 8 ? r % 2 * 8 : 0);
		*column = within * wide + c + 4 * wide * (s->m > 8 ? r / 2 : r);
		break;
	case TWIR_MMA_B:
		*row = within * wide + c + 4 * wide * r;
		*column = group;
		break;
	case TWIR_MMA_D:
		*row = group + e / 2 * 8;
		*column = within * 2 + e % 2;
		break;
	}
}
