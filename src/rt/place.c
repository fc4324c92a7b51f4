/* Offsets in the arena. Input: blocks of bytes with the steps they live through; output: for each an offset, 64-byte
 * aligned, so that no two that live at the same time overlap. Biggest first, each into the tightest gap that holds it:
 * within a few percent of the lower bound on networks. */
#include "rt_int.h"

#include <stdlib.h>

struct order {
	int64_t bytes;
	int index;
};

static int bigger_first(const void *a, const void *b)
{
	const struct order *x = a, *y = b;
	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? 1 : -1;
	return x->index - y->index;
}

/* placed: indices of the placed blocks by rising offset. Returns the tightest gap's offset, or the end of what is in
   the way. */
static int64_t find(const struct twrt_interval *at, const struct twrt_interval *x, int64_t bytes, const int *placed,
		    int nplaced)
{
	int64_t best = -1, best_gap = INT64_MAX, end = 0;
	for (int k = 0; k < nplaced; k++) {
		const struct twrt_interval *y = &at[placed[k]];
		if (y->last < x->first || x->last < y->first)
			continue;
		const int64_t gap = y->offset - end;
		if (gap >= bytes && gap < best_gap) {
			best = end;
			best_gap = gap;
		}
		const int64_t y_end = y->offset + (y->bytes + TWRT_ALIGN - 1) / TWRT_ALIGN * TWRT_ALIGN;
		if (y_end > end)
			end = y_end;
	}
	return best >= 0 ? best : end;
}

enum tw_code twrt_place(int n, struct twrt_interval *at, int64_t *arena_bytes, struct tw_error *e)
{
	struct order *order = calloc((size_t)n + 1, sizeof(*order));
	int *placed = calloc((size_t)n + 1, sizeof(*placed));
	int nplaced = 0;
	*arena_bytes = 0;
	bool bad = false;
	for (int i = 0; order && i < n; i++)
		order[i] = (struct order){at[i].bytes, i};
	if (order)
		qsort(order, (size_t)n, sizeof(*order), bigger_first);
	for (int i = 0; order && placed && !bad && i < n; i++) {
		struct twrt_interval *x = &at[order[i].index];
		const int64_t bytes = tw_add64(x->bytes, TWRT_ALIGN - 1, &bad) / TWRT_ALIGN * TWRT_ALIGN;
		x->offset = bytes ? find(at, x, bytes, placed, nplaced) : 0;
		const int64_t end = tw_add64(x->offset, bytes, &bad);
		if (end > *arena_bytes)
			*arena_bytes = end;
		if (bytes == 0)
			continue;
		int k = nplaced++;
		for (; k > 0 && at[placed[k - 1]].offset > x->offset; k--)
			placed[k] = placed[k - 1];
		placed[k] = order[i].index;
	}
	const bool full = order == NULL || placed == NULL;
	free(order);
	free(placed);
	if (full)
		return TWRT_FAIL(e, TW_ERR_MEMORY, "no memory to plan the memory of a run");
	if (bad)
		return TWRT_FAIL(e, TW_ERR_INPUT, "the sizes of these inputs need more memory than 64 bits can count");
	return TW_ERR_OK;
}
