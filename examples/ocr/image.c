/* Pictures: reading, resizing, cutting out, and what a model takes.
 *
 * All sampling is bilinear with pixel centres at whole numbers; outside the picture its edge pixels continue. */
#include "ocr.h"

#include <math.h>
#include <stdlib.h>

enum { LARGEST_SIDE = 1 << 15, LARGEST_PIXELS = 1 << 25 };

#define STB_IMAGE_IMPLEMENTATION
#define STBI_NO_HDR
#define STBI_NO_LINEAR
#define STBI_MAX_DIMENSIONS LARGEST_SIDE
#include <stb/stb_image.h>

static struct image image_new(int height, int width)
{
	return (struct image){height, width, need((size_t)height * (size_t)width, 3 * sizeof(float))};
}

void image_free(struct image *image)
{
	free(image->bgr);
	image->bgr = NULL;
}

static float *pixel(const struct image *image, int y, int x)
{
	return image->bgr + ((size_t)y * (size_t)image->width + (size_t)x) * 3;
}

const char *image_read(const char *path, struct image *image)
{
	int width, height, channels;
	if (!stbi_info(path, &width, &height, &channels))
		return stbi_failure_reason();
	if ((long long)width * height > LARGEST_PIXELS)
		return "it has more than 32 million pixels";
	unsigned char *rgb = stbi_load(path, &width, &height, &channels, 3);
	if (rgb == NULL)
		return stbi_failure_reason();
	*image = image_new(height, width);
	const size_t pixels = (size_t)height * (size_t)width;
	for (size_t i = 0; i < pixels; i++)
		for (int c = 0; c < 3; c++)
			image->bgr[3 * i + (size_t)c] = rgb[3 * i + 2 - (size_t)c];
	stbi_image_free(rgb);
	return NULL;
}

static double clamp(double v, double low, double high)
{
	return v < low ? low : v > high ? high : v;
}

static void sample(const struct image *image, double x, double y, float *out)
{
	x = clamp(x, 0, image->width - 1);
	y = clamp(y, 0, image->height - 1);
	const int x0 = (int)x, y0 = (int)y;
	const int x1 = x0 + (x0 + 1 < image->width), y1 = y0 + (y0 + 1 < image->height);
	const double fx = x - x0, fy = y - y0;
	const float *a = pixel(image, y0, x0), *b = pixel(image, y0, x1);
	const float *c = pixel(image, y1, x0), *d = pixel(image, y1, x1);
	for (int i = 0; i < 3; i++) {
		const double top = a[i] * (1 - fx) + b[i] * fx, bottom = c[i] * (1 - fx) + d[i] * fx;
		out[i] = (float)(top * (1 - fy) + bottom * fy);
	}
}

struct image image_resize(const struct image *image, int height, int width)
{
	struct image out = image_new(height, width);
	for (int i = 0; i < height; i++)
		for (int j = 0; j < width; j++)
			sample(image, (j + 0.5) * image->width / width - 0.5, (i + 0.5) * image->height / height - 0.5,
			       pixel(&out, i, j));
	return out;
}

static struct image turn_quarter(const struct image *image)
{
	struct image out = image_new(image->width, image->height);
	for (int i = 0; i < out.height; i++)
		for (int j = 0; j < out.width; j++)
			memcpy(pixel(&out, i, j), pixel(image, j, image->width - 1 - i), 3 * sizeof(float));
	return out;
}

void image_turn_half(struct image *image)
{
	float *low = image->bgr, *high = pixel(image, image->height - 1, image->width - 1);
	for (; low < high; low += 3, high -= 3)
		for (int c = 0; c < 3; c++) {
			const float v = low[c];
			low[c] = high[c];
			high[c] = v;
		}
}

static double distance(struct point a, struct point b)
{
	return hypot(a.x - b.x, a.y - b.y);
}

static double between(double a, double b, double at)
{
	return a * (1 - at) + b * at;
}

struct image image_cut(const struct image *image, const struct box *box)
{
	const double across =
		fmax(distance(box->top_left, box->top_right), distance(box->bottom_left, box->bottom_right));
	const double down =
		fmax(distance(box->top_left, box->bottom_left), distance(box->top_right, box->bottom_right));
	struct image out = image_new((int)fmax(down, 1), (int)fmax(across, 1));
	for (int i = 0; i < out.height; i++)
		for (int j = 0; j < out.width; j++) {
			const double s = (double)j / out.width, t = (double)i / out.height;
			sample(image,
			       between(between(box->top_left.x, box->top_right.x, s),
				       between(box->bottom_left.x, box->bottom_right.x, s), t),
			       between(between(box->top_left.y, box->top_right.y, s),
				       between(box->bottom_left.y, box->bottom_right.y, s), t),
			       pixel(&out, i, j));
		}
	if (out.height < 1.5 * out.width)
		return out;
	struct image turned = turn_quarter(&out);
	image_free(&out);
	return turned;
}

float *image_planes(const struct image *image, int columns)
{
	const size_t plane = (size_t)image->height * (size_t)columns;
	float *out = need(3 * plane, sizeof(float));
	for (int c = 0; c < 3; c++)
		for (int i = 0; i < image->height; i++)
			for (int j = 0; j < image->width; j++)
				out[(size_t)c * plane + (size_t)i * (size_t)columns + (size_t)j] =
					(pixel(image, i, j)[c] / 255 - 0.5f) / 0.5f;
	return out;
}

float *image_fit(const struct image *image, int height, int columns)
{
	const double natural = ceil((double)height * image->width / image->height);
	struct image fitted = image_resize(image, height, (int)fmin(columns, natural));
	float *planes = image_planes(&fitted, columns);
	image_free(&fitted);
	return planes;
}
