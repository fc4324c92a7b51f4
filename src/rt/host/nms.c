/* NonMaxSuppression: of overlapping boxes the best. Inputs: boxes (f32, batches x n x 4), scores (f32, batches x classes
 * x n), then optionally one number each: the most boxes of a class (i64), the overlap from which on a box is suppressed
 * (f32), the score a box must exceed (f32). Output: triples (batch, class, box), i64, batches first, then classes, then
 * falling score; equal scores: the lower box first. Attribute center_point_box: boxes are corners in any order (0), or
 * centre and size (1). */
#include "rt/rt.h"

#include <stdlib.h>

struct box {
	float x0, y0, x1, y1;
};

struct candidate {
	float score;
	int64_t index;
};

static struct box box_at(const float *at, bool center)
{
	if (center)
		return (struct box){at[0] - at[2] / 2, at[1] - at[3] / 2, at[0] + at[2] / 2, at[1] + at[3] / 2};
	/* y, x, y, x: which is which does not matter here */
	return (struct box){at[0] < at[2] ? at[0] : at[2], at[1] < at[3] ? at[1] : at[3], at[0] < at[2] ? at[2] : at[0],
			    at[1] < at[3] ? at[3] : at[1]};
}

static float least(float a, float b)
{
	return a < b ? a : b;
}

static float most(float a, float b)
{
	return a > b ? a : b;
}

static bool overlap(struct box a, struct box b, float threshold)
{
	const float width = least(a.x1, b.x1) - most(a.x0, b.x0), height = least(a.y1, b.y1) - most(a.y0, b.y0);
	if (!(width > 0) || !(height > 0))
		return false;
	const float common = width * height;
	const float a_area = (a.x1 - a.x0) * (a.y1 - a.y0), b_area = (b.x1 - b.x0) * (b.y1 - b.y0);
	if (!(a_area > 0) || !(b_area > 0))
		return false;
	return common / (a_area + b_area - common) > threshold;
}

static int better_first(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;
	if (x->score != y->score)
		return x->score < y->score ? 1 : -1;
	return x->index < y->index ? -1 : x->index > y->index;
}

struct limits {
	int64_t most_boxes;
	float overlap, score;
	bool has_score, center;
};

/* One class of one batch: indices of the boxes kept, best first. */
static int64_t suppress(const float *boxes, const float *scores, int64_t n, const struct limits *l,
			struct candidate *work, int64_t *kept)
{
	int64_t candidates = 0, nkept = 0;
	for (int64_t i = 0; i < n; i++)
		if (!l->has_score || scores[i] > l->score)
			work[candidates++] = (struct candidate){scores[i], i};
	qsort(work, (size_t)candidates, sizeof(*work), better_first);
	for (int64_t i = 0; i < candidates && nkept < l->most_boxes; i++) {
		const struct box box = box_at(boxes + 4 * work[i].index, l->center);
		bool keep = true;
		for (int64_t k = 0; k < nkept && keep; k++)
			keep = !overlap(box, box_at(boxes + 4 * kept[k], l->center), l->overlap);
		if (keep)
			kept[nkept++] = work[i].index;
	}
	return nkept;
}

static bool number(const struct twrt_host_tensor *in, int nin, int i)
{
	if (i >= nin || !in[i].present)
		return false;
	int64_t n = 1;
	for (int d = 0; d < in[i].rank; d++)
		n *= in[i].dims[d];
	return n > 0;
}

static enum tw_code run(const struct twrt_host_tensor *in, int nin, struct twrt_host_tensor *out, int nout,
			const void *attrs, int64_t attrs_bytes, struct tw_error *e)
{
	if (nin < 2 || nout != 1 || in[0].rank != 3 || in[1].rank != 3 || in[0].type != TWRT_F32 ||
	    in[1].type != TWRT_F32 || out->rank != 2 || out->type != TWRT_I64) {
		tw_error_set(e, TW_ERR_INTERNAL, "NonMaxSuppression: wrong operands");
		return TW_ERR_INTERNAL;
	}
	const int64_t batches = in[0].dims[0], n = in[0].dims[1], classes = in[1].dims[1];
	if (in[0].dims[2] != 4 || in[1].dims[0] != batches || in[1].dims[2] != n) {
		tw_error_set(e, TW_ERR_INPUT, "NonMaxSuppression: boxes and scores do not fit together");
		return TW_ERR_INPUT;
	}
	struct limits l = {.center = twrt_host_int(attrs, attrs_bytes, "center_point_box", 0) != 0};
	l.most_boxes = number(in, nin, 2) ? *(const int64_t *)in[2].data : 0;
	l.overlap = number(in, nin, 3) ? *(const float *)in[3].data : 0;
	l.has_score = number(in, nin, 4);
	l.score = l.has_score ? *(const float *)in[4].data : 0;
	if (!(l.overlap >= 0 && l.overlap <= 1)) {
		tw_error_set(e, TW_ERR_INPUT, "NonMaxSuppression: an overlap threshold of %g; it must be from 0 to 1",
			     (double)l.overlap);
		return TW_ERR_INPUT;
	}
	struct candidate *work = calloc((size_t)n + 1, sizeof(*work));
	int64_t *kept = calloc((size_t)n + 1, sizeof(*kept)), *to = out->data, found = 0;
	enum tw_code code = TW_ERR_OK;
	if (work == NULL || kept == NULL)
		tw_error_set(e, code = TW_ERR_MEMORY, "no memory for NonMaxSuppression");
	for (int64_t i = 0; code == TW_ERR_OK && i < batches * classes; i++) {
		const float *boxes = (const float *)in[0].data + i / classes * n * 4;
		const int64_t k = suppress(boxes, (const float *)in[1].data + i * n, n, &l, work, kept);
		if (found + k > out->dims[0]) {
			tw_error_set(e, code = TW_ERR_INTERNAL, "NonMaxSuppression: more boxes than planned");
			break;
		}
		for (int64_t j = 0; j < k; j++, found++) {
			to[3 * found] = i / classes;
			to[3 * found + 1] = i % classes;
			to[3 * found + 2] = kept[j];
		}
	}
	free(work);
	free(kept);
	out->dims[0] = found;
	return code;
}

const struct twrt_host twrt_host_nms[] = {{"NonMaxSuppression", run}, {0}};
