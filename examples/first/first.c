/* The smallest client: runs a model once and prints its first output. usage: first MODEL.onnx */
#include <stdio.h>
#include <stdlib.h>
#include <tilewright.h>

static void check(tilewright_status status)
{
	if (status != TILEWRIGHT_OK) {
		fprintf(stderr, "%s\n", tilewright_last_error());
		exit(tilewright_status_exit(status));
	}
}

int main(int argc, char **argv)
{
	static float pixels[3 * 224 * 224]; /* your picture; here a black one */
	const int64_t dims[] = {1, 3, 224, 224};
	tilewright_model *model;
	tilewright_context *context;
	tilewright_tensor out;
	if (argc != 2)
		return fprintf(stderr, "usage: first MODEL.onnx\n"), 2;
	check(tilewright_compile_file(argv[1], NULL, &model)); /* compiled once; from the cache the next time */
	check(tilewright_create_context(model, 0, &context));  /* a run and its memory; 0: all cores */
	check(tilewright_set_input(context, 0, TILEWRIGHT_F32, 4, dims, pixels));
	check(tilewright_run(context));
	check(tilewright_get_output(context, 0, &out));
	for (size_t i = 0; i < out.bytes / sizeof(float); i++)
		printf("%g\n", ((const float *)out.data)[i]);
	tilewright_free_context(context);
	tilewright_free_model(model);
}
