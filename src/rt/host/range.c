/* Range whose length only data decides: start, limit, delta (one element each) -> start, start + delta, .. up to limit.
 * Nothing bounds the length beforehand: where it is beyond what the output has room for, only the length is given, and
 * the run begins again with room for it (twrt_host.grows). */
#include "rt/rt.h"

#include <math.h>
#include <string.h>

#define MOST 1e12 /* elements; more fit no memory */

static bool number(const struct twrt_host_tensor *t, int64_t *whole, double *real)
{
	switch (t->type) {
	case TWRT_I16:
		*whole = *(const int16_t *)t->data;
		return true;
	case TWRT_I32:
		*whole = *(const int32_t *)t->data;
		return true;
	case TWRT_I64:
		*whole = *(const int64_t *)t->data;
		return true;
	case TWRT_F32:
		*real = (double)*(const float *)t->data;
		return true;
	case TWRT_F64:
		*real = *(const double *)t->data;
		return true;
	default:
		return false;
	}
}

static void put(const struct twrt_host_tensor *out, int64_t i, int64_t whole, double real)
{
	switch (out->type) {
	case TWRT_I16:
		((int16_t *)out->data)[i] = (int16_t)whole;
		break;
	case TWRT_I32:
		((int32_t *)out->data)[i] = (int32_t)whole;
		break;
	case TWRT_I64:
		((int64_t *)out->data)[i] = whole;
		break;
	case TWRT_F32:
		((float *)out->data)[i] = (float)real;
		break;
	default:
		((double *)out->data)[i] = real;
		break;
	}
}

static enum tw_code run(const struct twrt_host_tensor *in, int nin, struct twrt_host_tensor *out, int nout,
			const void *attrs, int64_t attrs_bytes, struct tw_error *e)
{
	(void)attrs, (void)attrs_bytes;
	int64_t whole[3] = {0};
	double real[3] = {0};
	bool good = nin == 3 && nout == 1 && out->rank == 1;
	for (int i = 0; good && i < 3; i++)
		good = in[i].present && in[i].type == out->type && number(&in[i], &whole[i], &real[i]);
	if (!good) {
		tw_error_set(e, TW_ERR_INTERNAL, "Range: wrong operands");
		return TW_ERR_INTERNAL;
	}
	const bool floating = out->type == TWRT_F32 || out->type == TWRT_F64;
	const double start = floating ? real[0] : (double)whole[0], limit = floating ? real[1] : (double)whole[1],
		     delta = floating ? real[2] : (double)whole[2];
	const double length = ceil((limit - start) / delta);
	if (delta == 0 || !(length < MOST)) {
		tw_error_set(e, TW_ERR_INPUT, "Range from %g to %g by %g", start, limit, delta);
		return TW_ERR_INPUT;
	}
	const int64_t n = length > 0 ? (int64_t)length : 0, room = out->dims[0];
	out->dims[0] = n;
	if (n > room)
		return TW_ERR_OK;
	for (int64_t i = 0; i < n; i++)
		put(out, i, (int64_t)((uint64_t)whole[0] + (uint64_t)i * (uint64_t)whole[2]),
		    out->type == TWRT_F32 ? (double)((float)start + (float)i * (float)delta)
					  : start + (double)i * delta);
	return TW_ERR_OK;
}

const struct twrt_host twrt_host_range[] = {{"Range", run, true}, {0}};
