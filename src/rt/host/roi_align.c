/* RoiAlign: x (n, c, h, w), rois (r, 4: x1 y1 x2 y2), batch indices (i64, r) -> (r, c, output_height, output_width):
 * the mean, or the largest, of samples inside each bin of each region. How many samples there are depends on the regions
 * where sampling_ratio is 0, so no expression says it. */
#include "rt/rt.h"

#include <math.h>
#include <stdlib.h>

/* A sample along one axis: two neighbours with weights; outside of the image weights of 0 */
struct tap {
	int64_t low, high;
	double low_weight, high_weight;
};

struct region {
	double start[2], bin[2]; /* y, x */
	int64_t samples[2];
};

struct roi_align {
	int64_t size[2], bins[2], ratio;
	double scale;
	bool half_pixel, largest;
};

static double element(const struct twrt_host_tensor *t, int64_t i)
{
	return t->type == TWRT_F64 ? ((const double *)t->data)[i] : (double)((const float *)t->data)[i];
}

static bool find_region(const struct roi_align *a, const struct twrt_host_tensor *rois, int64_t r, struct region *out)
{
	for (int d = 0; d < 2; d++) {
		const double offset = a->half_pixel ? 0.5 : 0;
		const double from = element(rois, 4 * r + 1 - d) * a->scale - offset,
			     to = element(rois, 4 * r + 3 - d) * a->scale - offset;
		const double extent = a->half_pixel ? to - from : fmax(to - from, 1);
		const double count = a->ratio > 0 ? (double)a->ratio : ceil(extent / (double)a->bins[d]);
		if (!(fabs(from) < 1e9) || !(count < 1e5))
			return false;
		out->start[d] = from;
		out->bin[d] = extent / (double)a->bins[d];
		out->samples[d] = count > 0 ? (int64_t)count : 0;
	}
	return true;
}

static struct tap find_tap(double at, int64_t size)
{
	if (at < -1 || at > (double)size)
		return (struct tap){0};
	at = fmax(at, 0);
	const int64_t low = (int64_t)at;
	if (low >= size - 1)
		return (struct tap){size - 1, size - 1, 1, 0};
	return (struct tap){low, low + 1, 1 - (at - (double)low), at - (double)low};
}

/* Taps of all bins of axis d, those of a bin side by side */
static void find_taps(const struct roi_align *a, const struct region *g, int d, struct tap *taps)
{
	for (int64_t b = 0; b < a->bins[d]; b++)
		for (int64_t s = 0; s < g->samples[d]; s++) {
			const double at = g->start[d] + (double)b * g->bin[d] +
					  ((double)s + 0.5) * g->bin[d] / (double)g->samples[d];
			taps[b * g->samples[d] + s] = find_tap(at, a->size[d]);
		}
}

static double pool_bin(const struct roi_align *a, const struct region *g, const struct twrt_host_tensor *x,
		       int64_t plane, const struct tap *rows, const struct tap *columns)
{
	double sum = 0, most = -INFINITY;
	for (int64_t i = 0; i < g->samples[0]; i++)
		for (int64_t j = 0; j < g->samples[1]; j++) {
			const struct tap r = rows[i], c = columns[j];
			const int64_t low = plane + r.low * a->size[1], high = plane + r.high * a->size[1];
			const double v[4] = {r.low_weight * c.low_weight * element(x, low + c.low),
					     r.low_weight * c.high_weight * element(x, low + c.high),
					     r.high_weight * c.low_weight * element(x, high + c.low),
					     r.high_weight * c.high_weight * element(x, high + c.high)};
			sum += v[0] + v[1] + v[2] + v[3];
			most = fmax(most, fmax(fmax(v[0], v[1]), fmax(v[2], v[3])));
		}
	const int64_t n = g->samples[0] * g->samples[1];
	return n == 0 ? 0 : a->largest ? most : sum / (double)n;
}

static void store(struct twrt_host_tensor *t, int64_t i, double v)
{
	if (t->type == TWRT_F64)
		((double *)t->data)[i] = v;
	else
		((float *)t->data)[i] = (float)v;
}

static bool fits(const struct twrt_host_tensor *in, int nin, const struct twrt_host_tensor *out, int nout)
{
	if (nin != 3 || nout != 1 || (out->type != TWRT_F32 && out->type != TWRT_F64) || in[0].rank != 4 ||
	    in[1].rank != 2 || in[1].dims[1] != 4 || in[2].rank != 1 || in[2].type != TWRT_I64 || out->rank != 4)
		return false;
	return in[0].type == out->type && in[1].type == out->type && out->dims[0] == in[1].dims[0] &&
	       in[2].dims[0] == in[1].dims[0] && out->dims[1] == in[0].dims[1];
}

static enum tw_code fail(struct tw_error *e, enum tw_code code, const char *what)
{
	tw_error_set(e, code, "RoiAlign: %s", what);
	return code;
}

static enum tw_code run(const struct twrt_host_tensor *in, int nin, struct twrt_host_tensor *out, int nout,
			const void *attrs, int64_t attrs_bytes, struct tw_error *e)
{
	char text[32];
	if (!fits(in, nin, out, nout))
		return fail(e, TW_ERR_INTERNAL, "wrong operands");
	struct roi_align a = {.size = {in[0].dims[2], in[0].dims[3]},
			      .bins = {out->dims[2], out->dims[3]},
			      .ratio = twrt_host_int(attrs, attrs_bytes, "sampling_ratio", 0),
			      .scale = twrt_host_float(attrs, attrs_bytes, "spatial_scale", 1)};
	if (twrt_host_text(attrs, attrs_bytes, "coordinate_transformation_mode", text, sizeof(text)))
		a.half_pixel = !strcmp(text, "half_pixel");
	else
		a.half_pixel = twrt_host_int(attrs, attrs_bytes, "opset", 16) >= 16;
	a.largest = twrt_host_text(attrs, attrs_bytes, "mode", text, sizeof(text)) && !strcmp(text, "max");
	const int64_t regions = out->dims[0], channels = out->dims[1], plane = a.size[0] * a.size[1];
	const int64_t *batch = in[2].data;
	if (plane == 0)
		memset(out->data, 0, (size_t)(regions * channels * a.bins[0] * a.bins[1] * twrt_type_bytes(out->type)));
	for (int64_t r = 0; r < regions && plane > 0; r++) {
		struct region g;
		if (batch[r] < 0 || batch[r] >= in[0].dims[0])
			return fail(e, TW_ERR_INPUT, "a batch index is out of range");
		if (!find_region(&a, &in[1], r, &g))
			return fail(e, TW_ERR_INPUT, "a region is no number or too large");
		struct tap *taps =
			malloc((size_t)(a.bins[0] * g.samples[0] + a.bins[1] * g.samples[1] + 1) * sizeof(*taps));
		if (!taps)
			return fail(e, TW_ERR_MEMORY, "no memory");
		struct tap *columns = taps + a.bins[0] * g.samples[0];
		find_taps(&a, &g, 0, taps);
		find_taps(&a, &g, 1, columns);
		for (int64_t c = 0, to = r * channels * a.bins[0] * a.bins[1]; c < channels; c++)
			for (int64_t i = 0; i < a.bins[0]; i++)
				for (int64_t j = 0; j < a.bins[1]; j++, to++)
					store(out, to,
					      pool_bin(&a, &g, &in[0], (batch[r] * channels + c) * plane,
						       taps + i * g.samples[0], columns + j * g.samples[1]));
		free(taps);
	}
	return TW_ERR_OK;
}

const struct twrt_host twrt_host_roi_align[] = {{"RoiAlign", run}, {0}};
