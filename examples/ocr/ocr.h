/* The demo that reads text off a picture: what its files share.
 *
 * image.c knows pictures, boxes.c finds lines of text in the detection model's map, ocr.c runs the three models on
 * Tilewright. Out of memory ends the program: see need(). */
#ifndef OCR_H
#define OCR_H

#include <stdbool.h>
#include <stddef.h>

struct point {
	double x, y; /* pixel centres are whole numbers */
};

/* A line of text as it lies in the picture. */
struct box {
	struct point top_left, top_right, bottom_right, bottom_left;
};

/* Pixels [height][width][blue, green, red], 0..255: the models learnt from pictures in this order. */
struct image {
	int height, width;
	float *bgr;
};

/* ---- ocr.c ---- */

/* Zeroed memory for `count` things of `size` bytes; there being none ends the program. */
void *need(size_t count, size_t size);

/* ---- image.c ---- */

/* NULL, or why the file is no picture this program can read. */
const char *image_read(const char *path, struct image *image);
void image_free(struct image *image);
struct image image_resize(const struct image *image, int height, int width);
/* What a box holds, lying: text that runs down the picture is turned by a quarter counterclockwise. */
struct image image_cut(const struct image *image, const struct box *box);
void image_turn_half(struct image *image);
/* What a model takes: planes[3][height][columns] of -1..1, zero right of the image; columns >= the image's width. */
float *image_planes(const struct image *image, int columns);
/* The same, after the image was resized to a height; one that would be wider than `columns` is squeezed. */
float *image_fit(const struct image *image, int height, int columns);

/* ---- boxes.c ---- */

/* Lines of text in map[height][width], the probability of text at each pixel, in reading order. The map shows a picture
   of another size; boxes are in the picture's pixels, inside it. Returns how many; *boxes is freed by the caller. */
int boxes_find(const float *map, int height, int width, const struct image *picture, struct box **boxes);

#endif
