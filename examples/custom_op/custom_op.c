/* Operators of one's own: a model with nodes that ONNX does not know, MyMatMul and Snake of domain "my", whose meaning
 * and whose program are texts. Both become one kernel with the Relu before and the Add behind them; the result is held
 * against loops in C. usage: custom_op FOLDER, which has model.onnx, MyMatMul.tw and Snake.tw */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <tilewright.h>

enum { M = 5, K = 8, N = 16 };

static void check(tilewright_status status)
{
	if (status != TILEWRIGHT_OK) {
		fprintf(stderr, "%s\n", tilewright_last_error());
		exit(tilewright_status_exit(status));
	}
}

static const char *in(const char *folder, const char *name)
{
	static char path[4096];
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

/* Snake(Relu(x) * w) + 1 */
static float expected(const float *x, const float *w, int i, int j)
{
	float m = 0;
	for (int k = 0; k < K; k++)
		m += (x[i * K + k] > 0 ? x[i * K + k] : 0) * w[k * N + j];
	return m + sinf(0.5f * m) * sinf(0.5f * m) / 0.5f + 1;
}

int main(int argc, char **argv)
{
	float x[M * K], w[K * N], worst = 0;
	const int64_t x_dims[] = {M, K}, w_dims[] = {K, N};
	tilewright_model *model;
	tilewright_context *context;
	tilewright_tensor y;
	if (argc != 2)
		return fprintf(stderr, "usage: custom_op FOLDER\n"), 2;
	for (int i = 0; i < M * K; i++)
		x[i] = (float)(i % 7) - 3;
	for (int i = 0; i < K * N; i++)
		w[i] = (float)(i % 5) / 4 - 0.5f;

	tilewright_options *options = tilewright_create_options();
	check(tilewright_add_operator_file(options, "my", "MyMatMul", in(argv[1], "MyMatMul.tw")));
	check(tilewright_add_operator_file(options, "my", "Snake", in(argv[1], "Snake.tw")));
	check(tilewright_compile_file(in(argv[1], "model.onnx"), options, &model));
	check(tilewright_create_context(model, 1, &context));
	check(tilewright_set_input(context, 0, TILEWRIGHT_F32, 2, x_dims, x));
	check(tilewright_set_input(context, 1, TILEWRIGHT_F32, 2, w_dims, w));
	check(tilewright_run(context));
	check(tilewright_get_output(context, 0, &y));

	for (int i = 0; i < M; i++)
		for (int j = 0; j < N; j++) {
			const float d = fabsf(((const float *)y.data)[i * N + j] - expected(x, w, i, j));
			worst = d > worst ? d : worst;
		}
	printf("%d x %d results by %s kernel, at most %g off\n", M, N, tilewright_get_fact(model, "kernels"), worst);
	tilewright_free_context(context);
	tilewright_free_model(model);
	tilewright_free_options(options);
	return worst < 1e-5f ? 0 : 1;
}
