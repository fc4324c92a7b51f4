/* CheckIndices: hands indices on (i32 or i64) when all are in range, and refuses them otherwise. Inputs: indices,
 * data (for its sizes only). Output: the indices. Attributes: axis of the data that they count along; columns = 1:
 * the last axis of the indices holds coordinates, for the data's axes from `axis` on. Indices may count from the
 * end. */
#include "rt/rt.h"

#include <string.h>

static int64_t element(const struct twrt_host_tensor *t, int64_t i)
{
	return t->type == TWRT_I32 ? ((const int32_t *)t->data)[i] : ((const int64_t *)t->data)[i];
}

static enum tw_code run(const struct twrt_host_tensor *in, int nin, struct twrt_host_tensor *out, int nout,
			const void *attrs, int64_t attrs_bytes, struct tw_error *e)
{
	const int64_t axis = twrt_host_int(attrs, attrs_bytes, "axis", 0);
	const bool columns = twrt_host_int(attrs, attrs_bytes, "columns", 0) != 0;
	const int64_t last = nin > 0 && in->rank ? in->dims[in->rank - 1] : 1;
	if (nin != 2 || nout != 1 || (in->type != TWRT_I32 && in->type != TWRT_I64) || out->type != in->type ||
	    axis < 0 || axis + (columns ? last : 1) > in[1].rank) {
		tw_error_set(e, TW_ERR_INTERNAL, "CheckIndices: wrong operands");
		return TW_ERR_INTERNAL;
	}
	int64_t n = 1;
	for (int d = 0; d < in->rank; d++)
		n *= in->dims[d];
	for (int64_t i = 0; i < n; i++) {
		const int64_t limit = in[1].dims[axis + (columns ? i % last : 0)], index = element(in, i);
		if (index < -limit || index >= limit) {
			tw_error_set(e, TW_ERR_INPUT, "index %lld is out of range for size %lld", (long long)index,
				     (long long)limit);
			return TW_ERR_INPUT;
		}
	}
	memcpy(out->data, in->data, (size_t)(n * twrt_type_bytes(in->type)));
	return TW_ERR_OK;
}

const struct twrt_host twrt_host_check_indices[] = {{"CheckIndices", run}, {0}};
