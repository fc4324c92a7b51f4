/* Bundle images from hostile hands: cut short, with flipped bits, with lies in the plan under a right checksum.
 * Whatever comes, an error or a model, never a crash. */
/* rooms: base rt rt/host */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rt/rt_int.h"
#include "rt_build.h"

enum { M = 37 };
static struct tw_error error;

static char *make_image(int64_t *bytes)
{
	static float bias[M] = {1, 2, 3};
	struct twrt_plan p;
	rt_example(&p, bias, M);
	const struct twrt_code code = rt_kernels();
	void *image;
	assert_int_equal(twrt_image_write(&p, 1, &code, NULL, NULL, &image, bytes, &error), TW_ERR_OK);
	return image;
}

static void put_checksum(char *image, int64_t bytes) /* as image.c has it */
{
	uint64_t sum = 0;
	memcpy(image + 24, &sum, 8);
	char rest[33];
	twrt_digest(image + 64, bytes - 64, false, rest);
	sum = tw_hash64(rest, sizeof(rest), tw_hash64(image, 64, 0));
	memcpy(image + 24, &sum, 8);
}

static enum tw_code open_copy(const char *image, int64_t bytes, struct twrt_model **m)
{
	/* exactly as large as it says, so that a sanitizer sees every step outside */
	char *copy = NULL;
	assert_int_equal(posix_memalign((void **)&copy, 64, bytes ? (size_t)bytes : 1), 0);
	memcpy(copy, image, (size_t)bytes);
	error.text[0] = '\0';
	return twrt_model_open(copy, bytes, TWRT_FREE, m, &error);
}

static void round_trip(void **state)
{
	(void)state;
	int64_t bytes, again_bytes;
	char *image = make_image(&bytes), *again = make_image(&again_bytes);
	assert_int_equal(bytes, again_bytes);
	assert_memory_equal(image, again, (size_t)bytes); /* equal plans, equal images */
	struct twrt_model *m;
	assert_int_equal(open_copy(image, bytes, &m), TW_ERR_OK);
	const struct twrt_plan *p = twrt_model_plan(m);
	assert_int_equal(p->nsteps, 3);
	assert_string_equal(p->symbols[1], "m");
	assert_string_equal(p->inputs[1].name, "b");
	assert_string_equal(p->kernels[K_BIAS], "k_bias");
	assert_string_equal(p->checks[0].text, "input a: dimension 1 does not fit the bias");
	assert_int_equal(p->buffers[4].kind, TWRT_ALIAS);
	assert_int_equal((uintptr_t)p->buffers[5].data % 64, 0);
	assert_true(((const float *)p->buffers[5].data)[2] == 3);
	assert_int_equal(p->steps[1].inplace[0], 0);
	/* what the model holds writes the same image */
	void *third;
	int64_t third_bytes;
	const struct twrt_code code = rt_kernels();
	assert_int_equal(twrt_image_write(p, 1, &code, NULL, NULL, &third, &third_bytes, &error), TW_ERR_OK);
	assert_int_equal(third_bytes, bytes);
	assert_memory_equal(third, image, (size_t)bytes);
	twrt_model_close(m);
	/* from an address that is not aligned */
	char *odd = malloc((size_t)bytes + 1);
	memcpy(odd + 1, image, (size_t)bytes);
	assert_int_equal(twrt_model_open(odd + 1, bytes, TWRT_BORROW, &m, &error), TW_ERR_OK);
	twrt_model_close(m);
	free(odd);
	free(third);
	free(image);
	free(again);
}

static void files(void **state)
{
	(void)state;
	int64_t bytes;
	char *image = make_image(&bytes), path[64], folder[] = "/tmp/tilewright-test-XXXXXX";
	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/a.twb", folder);
	struct twrt_model *m;
	assert_int_equal(twrt_model_open_file(path, &m, &error), TW_ERR_IO);
	assert_int_equal(twrt_image_save(path, image, bytes, &error), TW_ERR_OK);
	assert_int_equal(twrt_image_save(path, image, bytes, &error), TW_ERR_OK); /* over the old one */
	assert_int_equal(twrt_model_open_file(path, &m, &error), TW_ERR_OK);
	twrt_model_close(m);
	assert_int_equal(truncate(path, bytes / 2), 0);
	assert_int_equal(twrt_model_open_file(path, &m, &error), TW_ERR_MODEL);
	assert_int_equal(truncate(path, 0), 0);
	assert_int_equal(twrt_model_open_file(path, &m, &error), TW_ERR_MODEL);
	assert_int_equal(twrt_model_open_file(folder, &m, &error), TW_ERR_MODEL); /* a folder */
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(twrt_model_open_file(path, &m, &error), TW_ERR_MODEL); /* does not wait for a writer */
	unlink(path);
	snprintf(path, sizeof(path), "%s/no/such/folder", folder);
	assert_int_equal(twrt_image_save(path, image, bytes, &error), TW_ERR_IO);
	assert_int_equal(twrt_image_save("/dev/full/x", image, bytes, &error), TW_ERR_IO);
	assert_int_equal(rmdir(folder), 0); /* nothing was left behind */
	free(image);
}

/* Large files are read into memory rather than mapped: the same bytes either way, and cut short the same refusal. */
static void large_files(void **state)
{
	(void)state;
	enum { LARGE = (9 << 20) + 12 }; /* bytes: no whole number of chunks or pages */
	char folder[] = "/tmp/tw-image-XXXXXX", path[64];
	float *weights = calloc(LARGE / 4, 4);
	assert_non_null(mkdtemp(folder));
	for (int i = 0; i < LARGE / 4; i++)
		weights[i] = (float)i;
	struct twrt_plan p;
	rt_example(&p, weights, LARGE / 4);
	const struct twrt_code code = rt_kernels();
	void *image;
	int64_t bytes, got;
	assert_int_equal(twrt_image_write(&p, 1, &code, NULL, NULL, &image, &bytes, &error), TW_ERR_OK);
	snprintf(path, sizeof(path), "%s/large", folder);
	for (int mapped = 0; mapped < 2; mapped++) {
		struct twrt_model *m;
		int isa;
		assert_int_equal(setenv("TILEWRIGHT_HUGE_PAGES", mapped ? "0" : "1", 1), 0);
		assert_int_equal(twrt_image_save(path, image, bytes, &error), TW_ERR_OK);
		assert_int_equal(twrt_model_open_file(path, &m, &error), TW_ERR_OK);
		const void *at = twrt_model_image(m, &got, &isa);
		assert_int_equal(got, bytes);
		assert_memory_equal(at, image, (size_t)bytes);
		twrt_model_close(m);
		assert_int_equal(truncate(path, bytes - 5), 0);
		assert_int_equal(twrt_model_open_file(path, &m, &error), TW_ERR_MODEL);
		remove(path);
	}
	unsetenv("TILEWRIGHT_HUGE_PAGES");
	rmdir(folder);
	free(image);
	free(weights);
}

static void damaged(void **state)
{
	(void)state;
	int64_t bytes;
	char *image = make_image(&bytes);
	struct twrt_model *m;
	for (int64_t n = 0; n < bytes; n += n < 256 ? 1 : 509) {
		assert_int_equal(open_copy(image, n, &m), TW_ERR_MODEL);
		assert_true(error.text[0] != '\0');
		assert_null(m);
	}
	for (int64_t bit = 0; bit < 8 * bytes; bit += bit < 512 ? 1 : 1013) {
		image[bit / 8] ^= (char)(1 << bit % 8);
		assert_int_equal(open_copy(image, bytes, &m), TW_ERR_MODEL);
		image[bit / 8] ^= (char)(1 << bit % 8);
	}
	assert_int_equal(open_copy(image, bytes, &m), TW_ERR_OK);
	twrt_model_close(m);
	free(image);
}

static uint64_t next(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return *state >> 33;
}

/* Uses a model as far as may be without running kernels whose arguments nobody vouches for. */
static void use(struct twrt_model *m)
{
	struct twrt_context *c;
	if (twrt_context_new(m, 1, &c, &error) != TW_ERR_OK)
		return;
	const struct twrt_plan *p = twrt_model_plan(m);
	static float data[16 * M];
	for (int i = 0; i < p->ninputs; i++) {
		int64_t dims[TWRT_MAX_RANK];
		for (int d = 0; d < TWRT_MAX_RANK; d++)
			dims[d] = d == 1 ? M : 3;
		(void)twrt_set_input(c, i, p->inputs[i].type, p->inputs[i].rank, dims, data, &error);
	}
	(void)twrt_prepare(c, &error);
	char text[100];
	for (int i = 0; i < p->noutputs; i++)
		for (int d = 0; d < p->outputs[i].rank; d++)
			twrt_expr_text(&p->outputs[i].dims[d], p->symbols, text, sizeof(text));
	twrt_context_free(c);
}

static void lies(void **state)
{
	(void)state;
	int64_t bytes;
	char *image = make_image(&bytes);
	struct twrt_image_view v;
	const struct twrt_loading l = {image, bytes, TWRT_BORROW, ""};
	assert_int_equal(twrt_image_view(&l, &v, &error), TW_ERR_OK);
	const int64_t plan = (const char *)v.plan - image, end = plan + 8 * v.plan_words;
	static const int64_t values[] = {0,
					 1,
					 -1,
					 2,
					 7,
					 63,
					 64,
					 255,
					 1 << 20,
					 INT32_MAX,
					 INT64_MAX,
					 INT64_MIN,
					 (int64_t)1 << 32,
					 (int64_t)1 << 40};
	uint64_t seed = 1;
	int opened = 0;
	for (int round = 0; round < 12000; round++) {
		char saved[64];
		memcpy(saved, image, 64);
		/* Words of the plan, or of the header behind the checksum; sometimes two. */
		int64_t at[2];
		int64_t old[2];
		const int n = 1 + (int)(next(&seed) % 2);
		for (int i = 0; i < n; i++) {
			at[i] = next(&seed) % 50 == 0 ? 32 + 8 * (int64_t)(next(&seed) % 4)
						      : plan + 8 * (int64_t)(next(&seed) % (uint64_t)v.plan_words);
			memcpy(&old[i], image + at[i], 8);
			int64_t x = next(&seed) % 2 ? values[next(&seed) % TW_COUNT(values)]
						    : old[i] + (int64_t)(next(&seed) % 5) - 2;
			if (next(&seed) % 4 == 0)
				x = (int64_t)((uint64_t)old[i] ^ (uint64_t)1 << next(&seed) % 64);
			memcpy(image + at[i], &x, 8);
		}
		put_checksum(image, bytes);
		struct twrt_model *m;
		const enum tw_code code = open_copy(image, bytes, &m);
		if (code == TW_ERR_OK) {
			opened++;
			use(m);
			twrt_model_close(m);
		} else {
			assert_true(code == TW_ERR_MODEL || code == TW_ERR_UNSUPPORTED || code == TW_ERR_MEMORY);
			assert_true(error.text[0] != '\0');
		}
		for (int i = n; i-- > 0;)
			memcpy(image + at[i], &old[i], 8);
		memcpy(image, saved, 64);
	}
	assert_true(opened > 100); /* harmless changes are most; then the planner saw them */
	(void)end;
	free(image);
}

static void bad_plans(void **state)
{
	(void)state;
	static float bias[M];
	const struct twrt_code code = rt_kernels();
	void *image;
	int64_t bytes;
	struct twrt_plan p;
#define BAD(change, part)                                                                                              \
	do {                                                                                                           \
		rt_example(&p, bias, M);                                                                               \
		struct twrt_buffer *b = (struct twrt_buffer *)(uintptr_t)p.buffers;                                    \
		struct twrt_step *s = (struct twrt_step *)(uintptr_t)p.steps;                                          \
		(void)b, (void)s;                                                                                      \
		change;                                                                                                \
		assert_int_not_equal(twrt_image_write(&p, 1, &code, NULL, NULL, &image, &bytes, &error), TW_ERR_OK);   \
		if (strstr(error.text, part) == NULL)                                                                  \
			fail_msg("%s", error.text);                                                                    \
	} while (0)
	BAD(b[4].of = 4, "alias of nothing");
	BAD(b[4].of = 99, "alias of nothing");
	BAD(b[2].kind = TWRT_FOLDED, "set-up step");
	BAD(b[5].data = NULL, "constant without data");
	BAD(b[2].kind = TWRT_OUTPUT, "belongs to no input or output");
	BAD(s[0].kernel = K_COUNT, "no kernel");
	BAD(s[0].buffers = ((int[]){0, 1, 8}), "no buffer 8");
	BAD(s[0].buffers = ((int[]){0, 3, 2}), "reads buffer 3 before");
	BAD(s[0].buffers = ((int[]){0, 1, 5}), "read-only");
	BAD(s[1].inplace = ((int[]){1}), "takes over");
	BAD(s[2].kind = TWRT_HOST, "without name");
	BAD((s[2].kind = TWRT_HOST, s[2].host = "NoSuch", s[2].host_io = (struct twrt_io[3]){{0}}),
	    "no host operator \"NoSuch\"");
	BAD(p.nsteps = 2, "output y is never written");
	BAD(p.nsetup = 1, "set-up");
	BAD(p.sources = ((struct twrt_source[]){{0, 0}, {0, 2}}), "comes from nowhere");
#undef BAD
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(round_trip),  cmocka_unit_test(files),
					   cmocka_unit_test(large_files), cmocka_unit_test(damaged),
					   cmocka_unit_test(lies),	  cmocka_unit_test(bad_plans)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
