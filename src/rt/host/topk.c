/* TopK: the k largest or smallest along an axis, with their indices. Attributes: axis, largest; the result is sorted
 * whatever `sorted` says. Inputs: data (and k, which the outputs' size along the axis tells already); outputs: values
 * and indices (i64). Equal values: the lower index first. NaN counts as larger than every number, as ONNX Runtime's
 * comparison and numpy's sort have it. */
#include "rt/rt.h"

#include <math.h>
#include <stdlib.h>

struct row {
	const char *data;
	int64_t stride; /* elements */
	enum twrt_type type;
	bool largest;
};

/* Order as numbers; every type's order fits in one of these two comparisons. */
static int compare_float(double a, double b)
{
	if (isnan(a) || isnan(b))
		return isnan(a) - isnan(b);
	return (a > b) - (a < b);
}

static int64_t integer_at(const struct row *r, int64_t i)
{
	const char *at = r->data;
	i *= r->stride;
	switch (r->type) {
	case TWRT_I8:
		return ((const int8_t *)at)[i];
	case TWRT_U8:
	case TWRT_BOOL:
		return ((const uint8_t *)at)[i];
	case TWRT_I16:
		return ((const int16_t *)at)[i];
	case TWRT_U16:
		return ((const uint16_t *)at)[i];
	case TWRT_I32:
		return ((const int32_t *)at)[i];
	case TWRT_U32:
		return ((const uint32_t *)at)[i];
	case TWRT_U64: /* the same order, shifted */
		return (int64_t)(((const uint64_t *)at)[i] ^ (uint64_t)1 << 63);
	default:
		return ((const int64_t *)at)[i];
	}
}

static bool is_float(enum twrt_type t)
{
	return t == TWRT_F32 || t == TWRT_F64 || t == TWRT_F16 || t == TWRT_BF16;
}

static double float_at(const struct row *r, int64_t i)
{
	const char *at = r->data;
	i *= r->stride;
	switch (r->type) {
	case TWRT_F32:
		return ((const float *)at)[i];
	case TWRT_F16:
		return tw_f16_to_f32(((const uint16_t *)at)[i]);
	case TWRT_BF16:
		return tw_bf16_to_f32(((const uint16_t *)at)[i]);
	default:
		return ((const double *)at)[i];
	}
}

static bool before(const struct row *r, int64_t a, int64_t b) /* a total order */
{
	int c;
	if (is_float(r->type)) {
		c = compare_float(float_at(r, a), float_at(r, b));
	} else {
		const int64_t x = integer_at(r, a), y = integer_at(r, b);
		c = (x > y) - (x < y);
	}
	if (r->largest)
		c = -c;
	return c != 0 ? c < 0 : a < b;
}

/* heap[0] is the one of its n that comes last in order */
static void sift(const struct row *r, int64_t *heap, int64_t n, int64_t i)
{
	for (;;) {
		int64_t top = i;
		for (int64_t child = 2 * i + 1; child <= 2 * i + 2 && child < n; child++)
			if (before(r, heap[top], heap[child]))
				top = child;
		if (top == i)
			return;
		const int64_t swap = heap[i];
		heap[i] = heap[top];
		heap[top] = swap;
		i = top;
	}
}

static void select_row(const struct row *r, int64_t n, int64_t k, int64_t *heap)
{
	for (int64_t i = 0; i < k; i++)
		heap[i] = i;
	for (int64_t i = k / 2; i-- > 0;)
		sift(r, heap, k, i);
	for (int64_t i = k; i < n; i++)
		if (before(r, i, heap[0])) {
			heap[0] = i;
			sift(r, heap, k, 0);
		}
	for (int64_t left = k; left-- > 1;) {
		const int64_t swap = heap[0];
		heap[0] = heap[left];
		heap[left] = swap;
		sift(r, heap, left, 0);
	}
}

static enum tw_code topk(const struct twrt_host_tensor *in, int nin, struct twrt_host_tensor *out, int nout,
			 const void *attrs, int64_t attrs_bytes, struct tw_error *e)
{
	if (nin < 1 || nout != 2 || !in[0].present || in[0].rank < 1) {
		tw_error_set(e, TW_ERR_INTERNAL, "TopK: wrong operands");
		return TW_ERR_INTERNAL;
	}
	const int64_t given = twrt_host_int(attrs, attrs_bytes, "axis", -1);
	const bool largest = twrt_host_int(attrs, attrs_bytes, "largest", 1) != 0;
	const int axis = (int)(given < 0 ? given + in[0].rank : given);
	const struct twrt_host_tensor *shape = out[0].present ? &out[0] : &out[1];
	if (axis < 0 || axis >= in[0].rank || shape->rank != in[0].rank ||
	    (out[1].present && out[1].type != TWRT_I64)) {
		tw_error_set(e, TW_ERR_INTERNAL, "TopK: wrong attributes");
		return TW_ERR_INTERNAL;
	}
	const int64_t n = in[0].dims[axis], k = shape->dims[axis];
	if (k < 0 || k > n) {
		tw_error_set(e, TW_ERR_INPUT, "TopK: k is %lld, but the axis has %lld elements", (long long)k,
			     (long long)n);
		return TW_ERR_INPUT;
	}
	int64_t outer = 1, inner = 1;
	for (int d = 0; d < axis; d++)
		outer *= in[0].dims[d];
	for (int d = axis + 1; d < in[0].rank; d++)
		inner *= in[0].dims[d];
	int64_t *heap = calloc((size_t)k + 1, sizeof(*heap));
	if (heap == NULL) {
		tw_error_set(e, TW_ERR_MEMORY, "no memory for TopK");
		return TW_ERR_MEMORY;
	}
	const int size = twrt_type_bytes(in[0].type);
	for (int64_t o = 0; k > 0 && o < outer; o++)
		for (int64_t i = 0; i < inner; i++) {
			const struct row r = {(const char *)in[0].data + (o * n * inner + i) * size, inner, in[0].type,
					      largest};
			select_row(&r, n, k, heap);
			for (int64_t j = 0; j < k; j++) {
				const int64_t to = (o * k + j) * inner + i;
				if (out[0].present)
					memcpy((char *)out[0].data + to * size, r.data + heap[j] * inner * size,
					       (size_t)size);
				if (out[1].present)
					((int64_t *)out[1].data)[to] = heap[j];
			}
		}
	free(heap);
	return TW_ERR_OK;
}

const struct twrt_host twrt_host_topk[] = {{"TopK", topk}, {0}};
