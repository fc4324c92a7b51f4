/* A compiled model with symbolic sizes, as long-running programs use it: a thousand different sizes in a row take no more
 * and more memory; several contexts in several threads share one pool and give what a single run gives, bit for bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "onnx_writer.h"
#include "tilewright.h"

enum { IN = 16, OUT = 24, MOST_ROWS = 40, MOST_COLUMNS = 30, MOST = MOST_ROWS * MOST_COLUMNS };

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
static const bool memory_is_plain = false; /* sanitizers keep books of their own */
#else
static const bool memory_is_plain = true;
#endif

static float weight[IN * OUT], bias[OUT], data[MOST * IN];
static tilewright_model *model;

static void good(tilewright_status s)
{
	if (s != TILEWRIGHT_OK)
		fail_msg("%s", tilewright_last_error());
}

static float some(uint32_t *state) /* in [-1, 1) */
{
	*state = *state * 1664525u + 1013904223u;
	return (float)(*state >> 8) / (float)(1 << 23) - 1.0f;
}

/* y[n, m, 24] = softmax(relu(x[n, m, 16] w + b)), z[n, m] = the sum of relu's results */
static int start(void **state)
{
	(void)state;
	uint32_t seed = 7;
	for (int i = 0; i < IN * OUT; i++)
		weight[i] = some(&seed);
	for (int i = 0; i < OUT; i++)
		bias[i] = some(&seed);
	for (int i = 0; i < MOST * IN; i++)
		data[i] = some(&seed);
	struct tw_arena *a = arena_new();
	struct tw_buf graph, file, softmax, sum;
	buf_init(&graph, a);
	buf_init(&file, a);
	buf_init(&softmax, a);
	buf_init(&sum, a);
	put_attr_int(&softmax, "axis", -1);
	put_attr_int(&sum, "keepdims", 0);
	put_node(&graph, 1, "MatMul", "", "x,w", "p", NULL);
	put_node(&graph, 1, "Add", "", "p,b", "q", NULL);
	put_node(&graph, 1, "Relu", "", "q", "r", NULL);
	put_node(&graph, 1, "Softmax", "", "r", "y", &softmax);
	put_node(&graph, 1, "ReduceSum", "", "r,axes", "z", &sum);
	put_initializer(&graph, "w", 2, (const int64_t[]){IN, OUT}, weight, NULL, IN * OUT);
	put_initializer(&graph, "b", 1, (const int64_t[]){OUT}, bias, NULL, OUT);
	put_initializer(&graph, "axes", 1, (const int64_t[]){1}, NULL, (const int64_t[]){2}, 1);
	put_value(&graph, 11, "x", 1, "n,m,16");
	put_value(&graph, 12, "y", 1, "n,m,24");
	put_value(&graph, 12, "z", 1, "n,m");
	put_model(&file, &graph, 17, NULL);
	tilewright_options *o = tilewright_create_options();
	tilewright_use_cache(o, 0);
	const tilewright_status s = tilewright_compile_memory(file.at, file.n, NULL, o, &model);
	if (s != TILEWRIGHT_OK)
		fprintf(stderr, "%s\n", tilewright_last_error());
	tilewright_free_options(o);
	arena_free(a);
	return s != TILEWRIGHT_OK;
}

static int end(void **state)
{
	(void)state;
	tilewright_free_model(model);
	return 0;
}

static void run(tilewright_context *c, int64_t n, int64_t m, tilewright_tensor *y, tilewright_tensor *z)
{
	const int64_t dims[] = {n, m, IN};
	good(tilewright_set_input(c, 0, TILEWRIGHT_F32, 3, dims, data));
	good(tilewright_run(c));
	good(tilewright_get_output(c, 0, y));
	good(tilewright_get_output(c, 1, z));
}

static void check(int64_t n, int64_t m, const tilewright_tensor *y, const tilewright_tensor *z)
{
	assert_int_equal(y->rank, 3);
	assert_int_equal(y->dims[0], n);
	assert_int_equal(y->dims[1], m);
	assert_int_equal(z->rank, 2);
	const int64_t rows[] = {0, n * m / 2, n * m - 1};
	for (int k = 0; k < TW_COUNT(rows); k++) {
		double r[OUT], sum = 0, exps = 0, most = 0;
		for (int j = 0; j < OUT; j++) {
			r[j] = bias[j];
			for (int i = 0; i < IN; i++)
				r[j] += (double)data[rows[k] * IN + i] * weight[i * OUT + j];
			r[j] = r[j] > 0 ? r[j] : 0;
			most = r[j] > most ? r[j] : most;
			sum += r[j];
		}
		for (int j = 0; j < OUT; j++)
			exps += exp(r[j] - most);
		assert_true(fabs(((const float *)z->data)[rows[k]] - sum) <= 1e-4 * (1 + sum));
		for (int j = 0; j < OUT; j++)
			assert_true(fabs(((const float *)y->data)[rows[k] * OUT + j] - exp(r[j] - most) / exps) <=
				    1e-5);
	}
}

static int64_t resident_bytes(void)
{
	long long pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%*s %lld", &pages), 1);
	fclose(f);
	return (int64_t)pages * sysconf(_SC_PAGESIZE);
}

static void test_thousand_shapes(void **state)
{
	(void)state;
	enum { SHAPES = 1000, SLACK = 512 << 10 }; /* a thread that got no work before may touch its memory late */
	tilewright_context *c;
	tilewright_tensor y, z;
	good(tilewright_create_context(model, 2, &c));
	for (int i = 0; i < 100; i++) /* the largest sizes of all, and more sets of sizes than plans are kept for */
		run(c, MOST_ROWS - i % 10, MOST_COLUMNS - i / 10, &y, &z);
	const int64_t before = resident_bytes(), arena = tilewright_get_arena_bytes(c);
	for (int i = 0; i < SHAPES; i++) { /* 37 and 1000 have no common factor: each pair once, large after small */
		const int k = i * 37 % SHAPES, n = 1 + k / 25, m = 1 + k % 25;
		run(c, n, m, &y, &z);
		check(n, m, &y, &z);
	}
	const int64_t after = resident_bytes();
	assert_true(tilewright_get_arena_bytes(c) <= arena);
	if (memory_is_plain && after - before > SLACK)
		fail_msg("%lld KB more are resident after %d sizes", (long long)(after - before) >> 10, SHAPES);
	tilewright_free_context(c);
}

/* ---- threads ---- */

enum { WORKERS = 4, ROUNDS = 30, SIZES = 5 };
static const int64_t sizes[SIZES][2] = {{1, 1}, {3, 7}, {40, 30}, {17, 2}, {9, 29}};

struct worker {
	pthread_t thread;
	tilewright_context *context;
	int number;
	float *const *y, *const *z; /* of a single run, by size */
	int wrong;		    /* first round that was, or -1 */
	char why[200];
};

static void *work(void *arg)
{
	struct worker *w = arg;
	for (int i = 0; i < ROUNDS && w->wrong < 0; i++) {
		const int k = (i + w->number) % SIZES; /* at once, each at another size */
		const int64_t dims[] = {sizes[k][0], sizes[k][1], IN};
		tilewright_tensor y, z;
		if (tilewright_set_input(w->context, 0, TILEWRIGHT_F32, 3, dims, data) || tilewright_run(w->context) ||
		    tilewright_get_output(w->context, 0, &y) || tilewright_get_output(w->context, 1, &z)) {
			w->wrong = i;
			snprintf(w->why, sizeof(w->why), "%s", tilewright_last_error());
		} else if (memcmp(y.data, w->y[k], y.bytes) || memcmp(z.data, w->z[k], z.bytes)) {
			w->wrong = i;
			snprintf(w->why, sizeof(w->why), "another result at %lld x %lld", (long long)dims[0],
				 (long long)dims[1]);
		}
	}
	return NULL;
}

static int count_threads(void)
{
	char line[200];
	int n = 0;
	FILE *f = fopen("/proc/self/status", "r");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "Threads: %d", &n) == 1)
			break;
	fclose(f);
	return n;
}

static void *copy(const tilewright_tensor *t)
{
	void *to = malloc(t->bytes);
	assert_non_null(to);
	return memcpy(to, t->data, t->bytes);
}

static void test_four_contexts(void **state)
{
	(void)state;
	float *y[SIZES], *z[SIZES];
	tilewright_context *single;
	good(tilewright_create_context(model, 1, &single));
	for (int k = 0; k < SIZES; k++) {
		tilewright_tensor ty, tz;
		run(single, sizes[k][0], sizes[k][1], &ty, &tz);
		check(sizes[k][0], sizes[k][1], &ty, &tz);
		y[k] = copy(&ty);
		z[k] = copy(&tz);
	}
	tilewright_free_context(single);
	struct worker w[WORKERS];
	int threads = 0;
	for (int i = 0; i < WORKERS; i++) {
		tilewright_tensor ty, tz;
		w[i] = (struct worker){.number = i, .y = y, .z = z, .wrong = -1};
		good(tilewright_create_context(model, 2, &w[i].context));
		run(w[i].context, MOST_ROWS, MOST_COLUMNS, &ty, &tz);
		if (i == 0)
			threads = count_threads();
	}
	assert_int_equal(count_threads(), threads); /* one pool for all of them */
	for (int i = 0; i < WORKERS; i++)
		assert_int_equal(pthread_create(&w[i].thread, NULL, work, &w[i]), 0);
	for (int i = 0; i < WORKERS; i++)
		pthread_join(w[i].thread, NULL);
	for (int i = 0; i < WORKERS; i++) {
		tilewright_free_context(w[i].context);
		if (w[i].wrong >= 0)
			fail_msg("context %d, round %d: %s", i, w[i].wrong, w[i].why);
	}
	for (int k = 0; k < SIZES; k++) {
		free(y[k]);
		free(z[k]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_thousand_shapes),
		cmocka_unit_test(test_four_contexts),
	};
	return cmocka_run_group_tests(tests, start, end);
}
