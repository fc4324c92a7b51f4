/* From the detection model's map to lines of text.
 *
 * The map says at each pixel how probable it is that text is there; the model makes its patches a little smaller than
 * the text, so that neighbouring lines stay apart. Each patch above a threshold becomes the rectangle of least area
 * around it, which may be slanted, is judged by the mean probability inside, and grown to what the text covers. */
#include "ocr.h"

#include <math.h>
#include <stdlib.h>

static const float TEXT_FROM = 0.3f;	/* a pixel belongs to text */
static const double MEAN_FROM = 0.5;	/* a rectangle is a line of text */
static const double GROWTH = 1.6;	/* how far its sides move outwards, in units of area / perimeter */
static const double THINNEST = 3;	/* the shorter side, in pixels of the map, before growing */
static const double THINNEST_GROWN = 5; /* after growing */
static const double SAME_LINE = 10;	/* lines that begin so close in height, in pixels, are read from the left */

/* The rectangle of points centre + s * u + t * v for |s| <= a and |t| <= b, v being u turned by a quarter. */
struct rectangle {
	struct point centre, u;
	double a, b;
};

struct map {
	int height, width;
	const float *at;
};

/* ---- patches ---- */

/* A patch of connected pixels, as far as its convex hull needs it: the first and last pixel in each of its rows. */
struct patch {
	int top, bottom;
	int *first, *last; /* [map height]; rows top..bottom count */
};

static void add_pixel(struct patch *patch, int x, int y)
{
	for (; patch->bottom < y; patch->bottom++)
		patch->first[patch->bottom + 1] = patch->last[patch->bottom + 1] = -1;
	for (; patch->top > y; patch->top--)
		patch->first[patch->top - 1] = patch->last[patch->top - 1] = -1;
	if (patch->first[y] < 0 || x < patch->first[y])
		patch->first[y] = x;
	if (x > patch->last[y])
		patch->last[y] = x;
}

/* Gathers the pixels connected with one, diagonals included. seen marks what was gathered; stack has room for all pixels. */
static void gather(const struct map *map, int from, bool *seen, int *stack, struct patch *patch)
{
	int depth = 0;
	patch->top = patch->bottom = from / map->width;
	patch->first[patch->top] = patch->last[patch->top] = -1;
	stack[depth++] = from;
	seen[from] = true;
	while (depth > 0) {
		const int at = stack[--depth], x = at % map->width, y = at / map->width;
		add_pixel(patch, x, y);
		for (int ny = y - (y > 0); ny <= y + (y + 1 < map->height); ny++)
			for (int nx = x - (x > 0); nx <= x + (x + 1 < map->width); nx++) {
				const int next = ny * map->width + nx;
				if (map->at[next] > TEXT_FROM && !seen[next]) {
					seen[next] = true;
					stack[depth++] = next;
				}
			}
	}
}

/* ---- geometry ---- */

static double turn(struct point a, struct point b, struct point c)
{
	return (b.x - a.x) * (c.y - a.y) - (b.y - a.y) * (c.x - a.x);
}

/* Adds a point to a chain that begins at `start` and turns one way only. Returns how many points there are now. */
static int extend(struct point *chain, int start, int n, struct point p)
{
	while (n - start > 1 && turn(chain[n - 2], chain[n - 1], p) <= 0)
		n--;
	chain[n] = p;
	return n + 1;
}

/* Corners of the convex hull, the first one again at the end, by Andrew's monotone chain over the rows' ends. */
static int convex_hull(const struct patch *patch, struct point *hull)
{
	int n = 0;
	for (int y = patch->top; y <= patch->bottom; y++) {
		n = extend(hull, 0, n, (struct point){patch->first[y], y});
		n = extend(hull, 0, n, (struct point){patch->last[y], y});
	}
	const int turning = n - 1;
	for (int y = patch->bottom; y >= patch->top; y--) {
		n = extend(hull, turning, n, (struct point){patch->last[y], y});
		n = extend(hull, turning, n, (struct point){patch->first[y], y});
	}
	return n;
}

/* The rectangle of least area has a side on an edge of the hull. */
static struct rectangle smallest_rectangle(const struct point *hull, int n)
{
	struct rectangle best = {0};
	double least = INFINITY;
	for (int i = 0; i + 1 < n; i++) {
		const double dx = hull[i + 1].x - hull[i].x, dy = hull[i + 1].y - hull[i].y, length = hypot(dx, dy);
		const struct point u = length > 0 ? (struct point){dx / length, dy / length} : (struct point){1, 0};
		double s0 = INFINITY, s1 = -INFINITY, t0 = INFINITY, t1 = -INFINITY;
		for (int k = 0; k < n; k++) {
			const double s = hull[k].x * u.x + hull[k].y * u.y, t = hull[k].y * u.x - hull[k].x * u.y;
			s0 = fmin(s0, s);
			s1 = fmax(s1, s);
			t0 = fmin(t0, t);
			t1 = fmax(t1, t);
		}
		if ((s1 - s0) * (t1 - t0) < least) {
			const double s = (s0 + s1) / 2, t = (t0 + t1) / 2;
			least = (s1 - s0) * (t1 - t0);
			best = (struct rectangle){
				{s * u.x - t * u.y, s * u.y + t * u.x}, u, (s1 - s0) / 2, (t1 - t0) / 2};
		}
	}
	return best;
}

static int bounded(double v, int below)
{
	return v < 0 ? 0 : v > below - 1 ? below - 1 : (int)v;
}

/* Mean of the map over the pixels whose centres lie inside. */
static double mean_inside(const struct map *map, const struct rectangle *r)
{
	const double reach_x = r->a * fabs(r->u.x) + r->b * fabs(r->u.y);
	const double reach_y = r->a * fabs(r->u.y) + r->b * fabs(r->u.x);
	const int x0 = bounded(r->centre.x - reach_x, map->width), x1 = bounded(r->centre.x + reach_x + 1, map->width);
	const int y0 = bounded(r->centre.y - reach_y, map->height),
		  y1 = bounded(r->centre.y + reach_y + 1, map->height);
	double sum = 0;
	long count = 0;
	for (int i = y0; i <= y1; i++)
		for (int j = x0; j <= x1; j++) {
			const double x = j - r->centre.x, y = i - r->centre.y;
			if (fabs(x * r->u.x + y * r->u.y) <= r->a && fabs(y * r->u.x - x * r->u.y) <= r->b) {
				sum += map->at[i * map->width + j];
				count++;
			}
		}
	return count > 0 ? sum / (double)count : 0;
}

static int by_x(const void *p, const void *q)
{
	const struct point *a = p, *b = q;
	return (a->x > b->x) - (a->x < b->x);
}

/* A corner in the pixels of the picture, inside it. */
static struct point placed(struct point p, const struct map *map, const struct image *picture)
{
	const double x = rint(p.x * picture->width / map->width), y = rint(p.y * picture->height / map->height);
	return (struct point){bounded(x, picture->width), bounded(y, picture->height)};
}

static struct box box_of(const struct rectangle *r, const struct map *map, const struct image *picture)
{
	struct point corner[4];
	for (int i = 0; i < 4; i++) {
		const double s = i & 1 ? r->a : -r->a, t = i & 2 ? r->b : -r->b;
		corner[i] =
			(struct point){r->centre.x + s * r->u.x - t * r->u.y, r->centre.y + s * r->u.y + t * r->u.x};
	}
	qsort(corner, 4, sizeof(corner[0]), by_x);
	const int left = corner[0].y > corner[1].y, right = corner[2].y > corner[3].y;
	return (struct box){placed(corner[left], map, picture), placed(corner[2 + right], map, picture),
			    placed(corner[3 - right], map, picture), placed(corner[1 - left], map, picture)};
}

/* ---- lines ---- */

/* Whether a patch's rectangle is a line of text; it is grown if so. */
static bool is_line(const struct map *map, struct rectangle *r)
{
	if (2 * fmin(r->a, r->b) < THINNEST || mean_inside(map, r) < MEAN_FROM)
		return false;
	const double grow = r->a * r->b * GROWTH / (r->a + r->b);
	r->a += grow;
	r->b += grow;
	return 2 * fmin(r->a, r->b) >= THINNEST_GROWN;
}

static int by_place(const void *p, const void *q)
{
	const struct point a = ((const struct box *)p)->top_left, b = ((const struct box *)q)->top_left;
	return a.y != b.y ? (a.y > b.y) - (a.y < b.y) : (a.x > b.x) - (a.x < b.x);
}

/* From top to bottom; what begins at nearly the same height, from left to right. */
static void sort_for_reading(struct box *boxes, int n)
{
	qsort(boxes, (size_t)n, sizeof(boxes[0]), by_place);
	for (int i = 1; i < n; i++)
		for (int j = i; j > 0; j--) {
			const struct box before = boxes[j - 1], here = boxes[j];
			if (fabs(here.top_left.y - before.top_left.y) >= SAME_LINE ||
			    here.top_left.x >= before.top_left.x)
				break;
			boxes[j - 1] = here;
			boxes[j] = before;
		}
}

static void keep(struct box **boxes, int n, struct box box)
{
	if ((n & (n + 1)) == 0) { /* full: there was room for 1, 3, 7, ... */
		struct box *more = need(2 * (size_t)n + 1, sizeof(box));
		for (int i = 0; i < n; i++)
			more[i] = (*boxes)[i];
		free(*boxes);
		*boxes = more;
	}
	(*boxes)[n] = box;
}

int boxes_find(const float *map_values, int height, int width, const struct image *picture, struct box **boxes)
{
	const struct map map = {height, width, map_values};
	const int pixels = height * width;
	bool *seen = need((size_t)pixels, sizeof(bool));
	int *stack = need((size_t)pixels, sizeof(int));
	struct patch patch = {0, 0, need((size_t)height, sizeof(int)), need((size_t)height, sizeof(int))};
	struct point *hull = need(4 * (size_t)height, sizeof(struct point));
	int n = 0;
	*boxes = NULL;
	for (int i = 0; i < pixels; i++)
		if (map.at[i] > TEXT_FROM && !seen[i]) {
			gather(&map, i, seen, stack, &patch);
			struct rectangle r = smallest_rectangle(hull, convex_hull(&patch, hull));
			if (is_line(&map, &r))
				keep(boxes, n++, box_of(&r, &map, picture));
		}
	free(seen);
	free(stack);
	free(patch.first);
	free(patch.last);
	free(hull);
	if (n > 1)
		sort_for_reading(*boxes, n);
	return n;
}
