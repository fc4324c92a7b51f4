/* Weights and biases of convolutions and matrix products: elements that are subnormal become zero. Training with weight decay leaves thousands of them in filters
 * that died, and a multiply-add with one, or of sums that are, takes a hundred times as long. Needs: constant f32 operands.
 * Changes an element of the result by less than 2^-126 times the sum of the other factors' magnitudes. */
#include "opt/opt.h"

enum { BLOCK = 64 };

static bool is_subnormal(uint32_t bits)
{
	return (bits & 0x7f800000) == 0 && (bits & 0x7fffffff) != 0;
}

static bool holds_subnormals(const char *data, int64_t n)
{
	for (int64_t i = 0; i < n; i += BLOCK) {
		uint32_t bits[BLOCK] = {0}, found = 0;
		memcpy(bits, data + i * 4, (size_t)(n - i < BLOCK ? n - i : BLOCK) * 4);
		for (int k = 0; k < BLOCK; k++)
			found |= is_subnormal(bits[k]);
		if (found)
			return true;
	}
	return false;
}

/* The constant itself, or a copy of it. */
static tw_id flushed(struct tw_graph *g, struct tw_map *done, tw_id t)
{
	const struct tw_tensor *x = &g->tensors.at[t];
	int64_t dims[TWIR_MAX_RANK];
	const uintptr_t before = (uintptr_t)map_get(done, t);
	const int64_t n = x->bytes / 4;
	if (before)
		return (tw_id)(before - 1);
	if (!tw_graph_static(g, t, dims) || !holds_subnormals(x->data, n))
		return t;
	uint32_t *data = arena_copy(g->arena, x->data, (size_t)x->bytes);
	for (int64_t i = 0; i < n; i++)
		data[i] = is_subnormal(data[i]) ? 0 : data[i];
	const tw_id made =
		tw_graph_constant(g, arena_printf(g->arena, "%s_flushed", x->name), TWIR_F32, x->rank, dims, data);
	map_set(done, t, (void *)(uintptr_t)(made + 1));
	return made;
}

static bool multiplies(const struct tw_node *n)
{
	static const char *const names[] = {"Conv", "ConvTranspose", "Gemm", "MatMul"};
	for (int i = 0; i < TW_COUNT(names); i++)
		if (!n->dead && strcmp(n->op->name, names[i]) == 0 && (!n->op->domain || !n->op->domain[0]))
			return true;
	return false;
}

void opt_flush_weights(struct tw_graph *g)
{
	struct tw_map done; /* constant -> id + 1 of what replaces it */
	map_init(&done, g->arena);
	for (int i = 0; i < g->nodes.n; i++)
		for (int k = 0; k < g->nodes.at[i].nin && multiplies(&g->nodes.at[i]); k++) {
			const tw_id t = g->nodes.at[i].in[k];
			if (t == TW_NONE || !g->tensors.at[t].data || g->tensors.at[t].type != TWIR_F32)
				continue;
			const tw_id made = flushed(g, &done, t);
			g->nodes.at[i].in[k] = made;
		}
}
