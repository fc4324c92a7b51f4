/* Reads the text off a picture with the three PP-OCR models, compiled by Tilewright.
 *
 * usage: see USAGE. Output: a table of the lines of text found, and one of what each model took.
 *
 *     picture -> detection -> boxes -> for each: cut out -> direction -> turned upright -> recognition -> text
 *
 * Each model is compiled once for all sizes: the recognition model sees a new width with nearly every line. */
#include "ocr.h"

#include <tilewright.h>

#include <ctype.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char USAGE[] =
	"usage: ocr [--tsv] [--threads N] [--no-cache] PICTURE DETECTION.onnx DIRECTION.onnx RECOGNITION.onnx\n"
	"  --tsv        a line for each text: text, confidence, corners, with tabs between\n"
	"  --threads N  threads that work on a model; without it as many as there are cores\n"
	"  --no-cache   compile the models, also those that were compiled before\n";

enum {
	LARGEST_SIDE = 960, /* of what the detection model is shown */
	DETECTION_STEP = 32,
	LINE_HEIGHT = 48, /* of what the others are shown */
	DIRECTION_WIDTH = 192,
	RECOGNITION_WIDTH = 320,    /* at least */
	RECOGNITION_WIDEST = 12800, /* longer lines are squeezed */
};
static const double TURNED_FROM = 0.9, SHOWN_FROM = 0.5;

struct options {
	bool tsv, no_cache;
	int threads;
	const char *files[4];
};

/* ---- models ---- */

struct network {
	const char *name;
	tilewright_model *model;
	tilewright_context *context;
	double compile_ms, run_ms;
	int runs;
};

static double now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void give_up(int code, const char *what, const char *why)
{
	fprintf(stderr, "ocr: %s: %s\n", what, why);
	exit(code);
}

static void check(tilewright_status status, const char *what)
{
	if (status != TILEWRIGHT_OK)
		give_up(tilewright_status_exit(status), what, tilewright_last_error());
}

void *need(size_t count, size_t size)
{
	void *p = calloc(count ? count : 1, size);
	if (p == NULL)
		give_up(3, "memory", "there is not enough");
	return p;
}

static int show_progress(void *arg, const char *stage, int done, int all)
{
	const struct network *n = arg;
	fprintf(stderr, "\r\033[K%s: %s", n->name, stage);
	if (all > 0)
		fprintf(stderr, " %d/%d", done, all);
	fflush(stderr);
	return 0;
}

static struct network network_open(const char *name, const char *path, const struct options *options)
{
	struct network n = {.name = name};
	tilewright_options *how = tilewright_create_options();
	if (how == NULL)
		give_up(3, name, tilewright_last_error());
	const bool terminal = isatty(STDERR_FILENO);
	if (terminal)
		check(tilewright_set_progress(how, show_progress, &n), name);
	check(tilewright_use_cache(how, !options->no_cache), name);
	const double start = now_ms();
	const tilewright_status status = tilewright_compile_file(path, how, &n.model);
	n.compile_ms = now_ms() - start;
	if (terminal)
		fprintf(stderr, "\r\033[K");
	check(status, path);
	tilewright_free_options(how);
	if (tilewright_count_inputs(n.model) != 1 || tilewright_count_outputs(n.model) != 1)
		give_up(1, path, "not a model with one input and one output");
	check(tilewright_create_context(n.model, options->threads, &n.context), path);
	return n;
}

static void network_close(struct network *n)
{
	tilewright_free_context(n->context);
	tilewright_free_model(n->model);
}

/* Runs on planes[3][height][width]; the result lives until the next run. It has `rank` dimensions, the last of `classes`
   numbers unless that is 0. */
static tilewright_tensor network_run(struct network *n, int height, int width, const float *planes, int rank,
				     int64_t classes)
{
	const int64_t dims[] = {1, 3, height, width};
	tilewright_tensor out;
	check(tilewright_set_input(n->context, 0, TILEWRIGHT_F32, 4, dims, planes), n->name);
	const double start = now_ms();
	check(tilewright_run(n->context), n->name);
	n->run_ms += now_ms() - start;
	n->runs++;
	check(tilewright_get_output(n->context, 0, &out), n->name);
	if (out.type != TILEWRIGHT_F32 || out.rank != rank || out.dims[0] != 1 ||
	    (classes && out.dims[rank - 1] != classes))
		give_up(1, n->name, "the output is not of the form that this program knows");
	return out;
}

/* ---- characters ---- */

/* What the classes of the recognition model mean: class 0 separates, class n is characters[n - 1], the last is a space. */
struct alphabet {
	char *text;
	const char **characters;
	int count;
};

static struct alphabet alphabet_of(const struct network *recognition)
{
	const char *listed = tilewright_get_metadata(recognition->model, "character");
	if (listed == NULL)
		give_up(1, recognition->name, "the model does not list its characters");
	struct alphabet a = {need(strlen(listed) + 1, 1), NULL, 0};
	size_t lines = 1;
	for (size_t i = 0; listed[i]; i++) {
		const bool printable = !iscntrl((unsigned char)listed[i]) || listed[i] == '\n';
		a.text[i] = printable ? listed[i] : '?'; /* what a model brings goes to a terminal */
		lines += listed[i] == '\n';
	}
	a.characters = need(lines + 1, sizeof(a.characters[0]));
	for (char *at = a.text; at;)
		a.characters[a.count++] = strsep(&at, "\n");
	a.characters[a.count++] = " ";
	return a;
}

static void alphabet_free(struct alphabet *a)
{
	free(a->text);
	free(a->characters);
}

/* ---- the steps ---- */

struct line {
	struct box box;
	bool turned;
	double confidence;
	char *text;
};

static int scaled(int side, double scale)
{
	const int steps = (int)rint(side * scale / DETECTION_STEP);
	return (steps > 0 ? steps : 1) * DETECTION_STEP;
}

static int find_boxes(struct network *detection, const struct image *picture, struct box **boxes)
{
	const double scale = fmin(1, LARGEST_SIDE / fmax(picture->height, picture->width));
	const int height = scaled(picture->height, scale), width = scaled(picture->width, scale);
	struct image shown = image_resize(picture, height, width);
	float *planes = image_planes(&shown, width);
	const tilewright_tensor map = network_run(detection, height, width, planes, 4, width);
	if (map.dims[1] != 1 || map.dims[2] != height)
		give_up(1, detection->name, "the output is not a map of the picture");
	const int n = boxes_find(map.data, height, width, picture, boxes);
	free(planes);
	image_free(&shown);
	return n;
}

static bool stands_on_head(struct network *direction, const struct image *line)
{
	float *planes = image_fit(line, LINE_HEIGHT, DIRECTION_WIDTH);
	const tilewright_tensor scores = network_run(direction, LINE_HEIGHT, DIRECTION_WIDTH, planes, 2, 2);
	const float upside_down = ((const float *)scores.data)[1];
	free(planes);
	return upside_down > TURNED_FROM;
}

static int64_t best_of(const float *scores, int64_t n)
{
	int64_t best = 0;
	for (int64_t i = 1; i < n; i++)
		if (scores[i] > scores[best])
			best = i;
	return best;
}

/* The model says for each column which character is there. The same one again in the next column is the same character;
   class 0 is none, and stands between two that are alike. */
static void read_columns(const tilewright_tensor *scores, const struct alphabet *alphabet, struct line *line)
{
	const int64_t columns = scores->dims[1], classes = scores->dims[2];
	size_t bytes = 1;
	for (int i = 0; i < alphabet->count; i++)
		if (strlen(alphabet->characters[i]) > bytes)
			bytes = strlen(alphabet->characters[i]);
	line->text = need((size_t)columns + 1, bytes);
	char *end = line->text;
	double sum = 0;
	int count = 0;
	int64_t before = 0;
	for (int64_t i = 0; i < columns; i++) {
		const float *column = (const float *)scores->data + i * classes;
		const int64_t best = best_of(column, classes);
		if (best != 0 && best != before) {
			end = stpcpy(end, alphabet->characters[best - 1]);
			sum += column[best];
			count++;
		}
		before = best;
	}
	line->confidence = count > 0 ? sum / count : 0;
}

static void recognise(struct network *recognition, const struct alphabet *alphabet, const struct image *image,
		      struct line *line)
{
	const double natural = LINE_HEIGHT * (double)image->width / image->height;
	const int width = (int)fmin(fmax(natural, RECOGNITION_WIDTH), RECOGNITION_WIDEST);
	float *planes = image_fit(image, LINE_HEIGHT, width);
	const tilewright_tensor scores = network_run(recognition, LINE_HEIGHT, width, planes, 3, alphabet->count + 1);
	read_columns(&scores, alphabet, line);
	free(planes);
}

enum { DETECTION, DIRECTION, RECOGNITION, NETWORKS };

/* Lines of text, in reading order. */
static int read_text(struct network *networks, const struct image *picture, struct line **lines)
{
	struct alphabet alphabet = alphabet_of(&networks[RECOGNITION]);
	struct box *boxes;
	const int found = find_boxes(&networks[DETECTION], picture, &boxes);
	int n = 0;
	*lines = need((size_t)found, sizeof(**lines));
	for (int i = 0; i < found; i++) {
		struct line line = {.box = boxes[i]};
		struct image image = image_cut(picture, &line.box);
		line.turned = stands_on_head(&networks[DIRECTION], &image);
		if (line.turned)
			image_turn_half(&image);
		recognise(&networks[RECOGNITION], &alphabet, &image, &line);
		image_free(&image);
		if (line.confidence >= SHOWN_FROM)
			(*lines)[n++] = line;
		else
			free(line.text);
	}
	free(boxes);
	alphabet_free(&alphabet);
	return n;
}

/* ---- showing ---- */

static void print_tsv(const struct line *lines, int n)
{
	for (int i = 0; i < n; i++) {
		const struct box *b = &lines[i].box;
		printf("%s\t%.3f\t%.0f,%.0f %.0f,%.0f %.0f,%.0f %.0f,%.0f\n", lines[i].text, lines[i].confidence,
		       b->top_left.x, b->top_left.y, b->top_right.x, b->top_right.y, b->bottom_right.x,
		       b->bottom_right.y, b->bottom_left.x, b->bottom_left.y);
	}
}

static const char *corner(struct point p, char *text, size_t bytes)
{
	snprintf(text, bytes, "%.0f,%.0f", p.x, p.y);
	return text;
}

static void print_lines(const struct line *lines, int n)
{
	if (n == 0) {
		printf("No text found.\n");
		return;
	}
	printf("    top left  top right   bottom right  bottom left   confidence  text\n");
	for (int i = 0; i < n; i++) {
		const struct box *b = &lines[i].box;
		char tl[24], tr[24], br[24], bl[24];
		printf("%2d  %-8s  %-9s   %-12s  %-11s   %-10.3f  %s%s\n", i + 1, corner(b->top_left, tl, sizeof(tl)),
		       corner(b->top_right, tr, sizeof(tr)), corner(b->bottom_right, br, sizeof(br)),
		       corner(b->bottom_left, bl, sizeof(bl)), lines[i].confidence, lines[i].text,
		       lines[i].turned ? "  (upside down)" : "");
	}
}

static void print_times(const struct network *networks)
{
	printf("\n    model        compile        kernels   runs   ms each\n");
	for (int i = 0; i < NETWORKS; i++) {
		const struct network *n = &networks[i];
		const char *cached = tilewright_get_fact(n->model, "cached"),
			   *kernels = tilewright_get_fact(n->model, "kernels");
		char compile[40];
		if (cached && strcmp(cached, "1") == 0)
			snprintf(compile, sizeof(compile), "cached %.0f ms", n->compile_ms);
		else
			snprintf(compile, sizeof(compile), "%.2f s", n->compile_ms / 1e3);
		printf("    %-11s  %-13s  %7s   %4d   ", n->name, compile, kernels ? kernels : "?", n->runs);
		if (n->runs > 0)
			printf("%7.1f\n", n->run_ms / n->runs);
		else
			printf("      -\n");
	}
}

/* ---- the program ---- */

static bool parse(int argc, char **argv, struct options *options)
{
	int files = 0;
	*options = (struct options){0};
	for (int i = 1; i < argc; i++) {
		char *end;
		if (strcmp(argv[i], "--tsv") == 0) {
			options->tsv = true;
		} else if (strcmp(argv[i], "--no-cache") == 0) {
			options->no_cache = true;
		} else if (strcmp(argv[i], "--threads") == 0 && i + 1 < argc) {
			const long threads = strtol(argv[++i], &end, 10);
			if (*end || end == argv[i] || threads < 1 || threads > 1024)
				return false;
			options->threads = (int)threads;
		} else if (argv[i][0] == '-' || files == 4) {
			return false;
		} else {
			options->files[files++] = argv[i];
		}
	}
	return files == 4;
}

int main(int argc, char **argv)
{
	struct options options;
	struct image picture;
	if (!parse(argc, argv, &options)) {
		fputs(USAGE, stderr);
		return 2;
	}
	const char *problem = image_read(options.files[0], &picture);
	if (problem)
		give_up(1, options.files[0], problem);
	static const char *const names[NETWORKS] = {"detection", "direction", "recognition"};
	struct network networks[NETWORKS];
	for (int i = 0; i < NETWORKS; i++)
		networks[i] = network_open(names[i], options.files[1 + i], &options);

	struct line *lines;
	const int n = read_text(networks, &picture, &lines);
	if (options.tsv) {
		print_tsv(lines, n);
	} else {
		printf("%s, %d x %d, read with %d thread%s by Tilewright %s\n\n", options.files[0], picture.width,
		       picture.height, tilewright_count_threads(networks[0].context),
		       tilewright_count_threads(networks[0].context) == 1 ? "" : "s", tilewright_version());
		print_lines(lines, n);
		print_times(networks);
	}

	for (int i = 0; i < n; i++)
		free(lines[i].text);
	free(lines);
	for (int i = 0; i < NETWORKS; i++)
		network_close(&networks[i]);
	image_free(&picture);
	return fflush(stdout) == 0 && !ferror(stdout) ? 0 : 3;
}
