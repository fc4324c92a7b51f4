/* NonZero and Compress: positions and elements that data chooses. The output's size along one axis is found here.
 * NonZero: data -> indices (i64, rank x n), in row-major order of the elements. A scalar counts as one element: rank 0
 * gives 0 x n. Compress: data, condition (bool) -> the slices along `axis`, or of the flattened data without it, whose
 * condition is true; a condition shorter than the axis leaves the rest out. */
#include "rt/rt.h"

static int64_t count(const struct twrt_host_tensor *t)
{
	int64_t n = 1;
	for (int d = 0; d < t->rank; d++)
		n *= t->dims[d];
	return n;
}

/* Is it unlike zero? Negative zero is zero, NaN is not. */
static bool nonzero(const struct twrt_host_tensor *t, int64_t i)
{
	switch (t->type) {
	case TWRT_F32:
		return ((const float *)t->data)[i] != 0;
	case TWRT_F64:
		return ((const double *)t->data)[i] != 0;
	case TWRT_F16:
	case TWRT_BF16:
		return (((const uint16_t *)t->data)[i] & 0x7fff) != 0;
	default: {
		const int size = twrt_type_bytes(t->type);
		const unsigned char *at = (const unsigned char *)t->data + i * size;
		unsigned char any = 0;
		for (int k = 0; k < size; k++)
			any |= at[k];
		return any != 0;
	}
	}
}

static enum tw_code wrong(struct tw_error *e, const char *what)
{
	tw_error_set(e, TW_ERR_INTERNAL, "%s: wrong operands", what);
	return TW_ERR_INTERNAL;
}

static enum tw_code nonzero_run(const struct twrt_host_tensor *in, int nin, struct twrt_host_tensor *out, int nout,
				const void *attrs, int64_t attrs_bytes, struct tw_error *e)
{
	(void)attrs, (void)attrs_bytes;
	if (nin != 1 || nout != 1 || !in->present || !out->present || out->type != TWRT_I64 || out->rank != 2 ||
	    out->dims[0] != in->rank)
		return wrong(e, "NonZero");
	const int64_t n = count(in);
	int64_t found = 0;
	for (int64_t i = 0; i < n; i++)
		found += nonzero(in, i);
	if (found > out->dims[1])
		return wrong(e, "NonZero");
	int64_t *to = out->data;
	int64_t index[TWRT_MAX_RANK] = {0};
	for (int64_t i = 0, k = 0; i < n; i++) {
		if (nonzero(in, i)) {
			for (int d = 0; d < in->rank; d++)
				to[d * found + k] = index[d];
			k++;
		}
		for (int d = in->rank; d-- > 0;) {
			if (++index[d] < in->dims[d])
				break;
			index[d] = 0;
		}
	}
	out->dims[1] = found;
	return TW_ERR_OK;
}

static enum tw_code compress_run(const struct twrt_host_tensor *in, int nin, struct twrt_host_tensor *out, int nout,
				 const void *attrs, int64_t attrs_bytes, struct tw_error *e)
{
	char text[32];
	const bool has_axis = twrt_host_text(attrs, attrs_bytes, "axis", text, sizeof(text));
	if (nin != 2 || nout != 1 || !in[0].present || !in[1].present || in[1].type != TWRT_BOOL || in[1].rank != 1 ||
	    in[0].type != out->type || out->rank != (has_axis ? in[0].rank : 1))
		return wrong(e, "Compress");
	int64_t axis = twrt_host_int(attrs, attrs_bytes, "axis", 0);
	axis += axis < 0 ? in[0].rank : 0;
	if (axis < 0 || axis >= out->rank)
		return wrong(e, "Compress");
	int64_t outer = 1, inner = twrt_type_bytes(in[0].type), along = count(&in[0]);
	for (int d = 0; has_axis && d < in[0].rank; d++) {
		if (d < axis)
			outer *= in[0].dims[d];
		if (d > axis)
			inner *= in[0].dims[d];
	}
	if (has_axis)
		along = in[0].dims[axis];
	const int64_t n = in[1].dims[0] < along ? in[1].dims[0] : along;
	const uint8_t *condition = in[1].data;
	int64_t found = 0;
	for (int64_t i = 0; i < n; i++)
		found += condition[i] != 0;
	if (found > out->dims[axis])
		return wrong(e, "Compress");
	char *to = out->data;
	for (int64_t o = 0; o < outer; o++)
		for (int64_t i = 0; i < n; i++)
			if (condition[i]) {
				memcpy(to, (const char *)in[0].data + (o * along + i) * inner, (size_t)inner);
				to += inner;
			}
	out->dims[axis] = found;
	return TW_ERR_OK;
}

const struct twrt_host twrt_host_nonzero[] = {{"NonZero", nonzero_run}, {"Compress", compress_run}, {0}};
