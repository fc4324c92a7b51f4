/* Unique: the different slices along an axis, or elements of the flattened data without one. Outputs: the slices; the
 * first position of each; for each position which slice it is; how often each occurs (all but the first i64, and
 * optional). Attribute sorted: rising order (1), or order of first appearance (0). NaN is unlike itself and comes last,
 * as numpy's order has it. */
#include "rt/rt.h"

#include <math.h>
#include <stdlib.h>

struct slices {
	const struct twrt_host_tensor *data;
	int64_t n, outer, inner; /* elements: slice i is data[o][i][j] */
	bool sorted;
};

static double float_value(const struct twrt_host_tensor *t, int64_t i)
{
	switch (t->type) {
	case TWRT_F32:
		return ((const float *)t->data)[i];
	case TWRT_F16:
		return tw_f16_to_f32(((const uint16_t *)t->data)[i]);
	case TWRT_BF16:
		return tw_bf16_to_f32(((const uint16_t *)t->data)[i]);
	default:
		return ((const double *)t->data)[i];
	}
}

static int64_t integer_value(const struct twrt_host_tensor *t, int64_t i)
{
	switch (t->type) {
	case TWRT_I8:
		return ((const int8_t *)t->data)[i];
	case TWRT_U8:
	case TWRT_BOOL:
		return ((const uint8_t *)t->data)[i];
	case TWRT_I16:
		return ((const int16_t *)t->data)[i];
	case TWRT_U16:
		return ((const uint16_t *)t->data)[i];
	case TWRT_I32:
		return ((const int32_t *)t->data)[i];
	case TWRT_U32:
		return ((const uint32_t *)t->data)[i];
	case TWRT_U64: /* the same order, shifted */
		return (int64_t)(((const uint64_t *)t->data)[i] ^ (uint64_t)1 << 63);
	default:
		return ((const int64_t *)t->data)[i];
	}
}

static int compare_at(const struct twrt_host_tensor *t, int64_t a, int64_t b)
{
	if (t->type == TWRT_F32 || t->type == TWRT_F64 || t->type == TWRT_F16 || t->type == TWRT_BF16) {
		const double x = float_value(t, a), y = float_value(t, b);
		if (isnan(x) || isnan(y))
			return isnan(x) - isnan(y);
		return (x > y) - (x < y);
	}
	const int64_t x = integer_value(t, a), y = integer_value(t, b);
	return (x > y) - (x < y);
}

static int compare(const struct slices *s, int64_t a, int64_t b)
{
	for (int64_t o = 0; o < s->outer; o++)
		for (int64_t j = 0; j < s->inner; j++) {
			const int64_t base = o * s->n * s->inner + j;
			const int c = compare_at(s->data, base + a * s->inner, base + b * s->inner);
			if (c)
				return c;
		}
	return 0;
}

static bool has_nan(const struct slices *s, int64_t a)
{
	const enum twrt_type type = s->data->type;
	if (type != TWRT_F32 && type != TWRT_F64 && type != TWRT_F16 && type != TWRT_BF16)
		return false;
	for (int64_t o = 0; o < s->outer; o++)
		for (int64_t j = 0; j < s->inner; j++)
			if (isnan(float_value(s->data, (o * s->n + a) * s->inner + j)))
				return true;
	return false;
}

/* Stable merge sort of positions, so that the first of equals leads. */
static void sort(const struct slices *s, int64_t *at, int64_t *work, int64_t n)
{
	if (n < 2)
		return;
	const int64_t half = n / 2;
	sort(s, at, work, half);
	sort(s, at + half, work, n - half);
	memcpy(work, at, (size_t)n * sizeof(*at));
	for (int64_t i = 0, a = 0, b = half; i < n; i++)
		at[i] = b >= n || (a < half && compare(s, work[a], work[b]) <= 0) ? work[a++] : work[b++];
}

static int by_position(const void *a, const void *b)
{
	const int64_t x = ((const int64_t *)a)[0], y = ((const int64_t *)b)[0];
	return (x > y) - (x < y);
}

/* unique[2 k]: the first position of the k-th different slice, unique[2 k + 1]: its number by rising order; which[i]:
   the number of slice i. Returns how many. */
static int64_t find(const struct slices *s, int64_t *order, int64_t *work, int64_t *unique, int64_t *which)
{
	int64_t n = 0;
	for (int64_t i = 0; i < s->n; i++)
		order[i] = i;
	sort(s, order, work, s->n);
	for (int64_t i = 0; i < s->n; i++) {
		if (i == 0 || compare(s, order[i - 1], order[i]) != 0 || has_nan(s, order[i])) {
			unique[2 * n] = order[i];
			unique[2 * n + 1] = n;
			n++;
		}
		which[order[i]] = n - 1;
	}
	if (s->sorted)
		return n;
	qsort(unique, (size_t)n, 2 * sizeof(*unique), by_position);
	for (int64_t k = 0; k < n; k++)
		work[unique[2 * k + 1]] = k; /* new number by old */
	for (int64_t i = 0; i < s->n; i++)
		which[i] = work[which[i]];
	return n;
}

static void write(const struct slices *s, int64_t n, const int64_t *unique, const int64_t *which,
		  struct twrt_host_tensor *out, int nout, int axis)
{
	const int64_t bytes = s->inner * twrt_type_bytes(s->data->type);
	if (out[0].present) {
		for (int64_t o = 0; o < s->outer; o++)
			for (int64_t k = 0; k < n; k++)
				memcpy((char *)out[0].data + (o * n + k) * bytes,
				       (const char *)s->data->data + (o * s->n + unique[2 * k]) * bytes, (size_t)bytes);
		out[0].dims[axis] = n;
	}
	for (int i = 1; i < nout; i++) {
		if (!out[i].present)
			continue;
		int64_t *to = out[i].data;
		if (i != 2)
			out[i].dims[0] = n;
		for (int64_t k = 0; i == 1 && k < n; k++)
			to[k] = unique[2 * k];
		for (int64_t k = 0; i == 3 && k < n; k++)
			to[k] = 0;
		for (int64_t k = 0; i > 1 && k < s->n; k++) {
			if (i == 2)
				to[k] = which[k];
			else
				to[which[k]]++;
		}
	}
}

static enum tw_code run(const struct twrt_host_tensor *in, int nin, struct twrt_host_tensor *out, int nout,
			const void *attrs, int64_t attrs_bytes, struct tw_error *e)
{
	char text[32];
	const bool has_axis = twrt_host_text(attrs, attrs_bytes, "axis", text, sizeof(text));
	int64_t axis = twrt_host_int(attrs, attrs_bytes, "axis", 0);
	bool good = nin == 1 && nout >= 1 && nout <= 4 && in->present;
	axis += good && axis < 0 ? in->rank : 0;
	good = good && axis >= 0 && (!has_axis || axis < in->rank);
	for (int i = 0; good && i < nout; i++)
		good = !out[i].present || (i == 0 ? out[i].type == in->type && out[i].rank == (has_axis ? in->rank : 1)
						  : out[i].type == TWRT_I64 && out[i].rank == 1);
	if (!good) {
		tw_error_set(e, TW_ERR_INTERNAL, "Unique: wrong operands");
		return TW_ERR_INTERNAL;
	}
	struct slices s = {in, 1, 1, 1, twrt_host_int(attrs, attrs_bytes, "sorted", 1) != 0};
	for (int d = 0; d < in->rank; d++) {
		if (!has_axis || d == axis)
			s.n *= in->dims[d];
		else if (d < axis)
			s.outer *= in->dims[d];
		else
			s.inner *= in->dims[d];
	}
	int64_t *work = s.n < INT64_MAX / 64 ? calloc((size_t)s.n + 1, 5 * sizeof(*work)) : NULL;
	if (work == NULL) {
		tw_error_set(e, TW_ERR_MEMORY, "no memory for Unique");
		return TW_ERR_MEMORY;
	}
	int64_t *unique = work + 3 * s.n, *which = work + 2 * s.n;
	const int64_t n = find(&s, work, work + s.n, unique, which);
	enum tw_code code = TW_ERR_OK;
	for (int i = 0; i < nout; i++)
		if (out[i].present && n > out[i].dims[i == 0 ? axis : 0] && i != 2)
			tw_error_set(e, code = TW_ERR_INTERNAL, "Unique: more slices than planned");
	if (code == TW_ERR_OK)
		write(&s, n, unique, which, out, nout, (int)axis);
	free(work);
	return code;
}

const struct twrt_host twrt_host_unique[] = {{"Unique", run}, {0}};
