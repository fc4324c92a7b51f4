/* The matrices of minimal filtering for one axis, by Toom and Cook: interpolation at n - 1 finite points and at infinity. The points are powers of two and their
 * negatives, so that every entry of the data's and the result's matrix is exact in binary; their order was chosen by measured error (1/2 with -2 rather than
 * 2 with -2 makes F(4, 3) 2.5 times more accurate). */
#include "sched/winograd_int.h"

static const double points[TW_WINOGRAD_MOST - 1] = {0, 1, -1, 0.5, -2, -0.5, 2, -0.25, 4};

/* Coefficients of the product of (x - points[l]) over l < n, l != without. */
static void polynomial(int n, int without, double *c)
{
	int degree = 0;
	c[0] = 1;
	for (int l = 0; l < n; l++) {
		if (l == without)
			continue;
		c[degree + 1] = 0;
		for (int k = degree + 1; k > 0; k--)
			c[k] = c[k - 1] - points[l] * c[k];
		c[0] *= -points[l];
		degree++;
	}
}

static double power(double x, int k)
{
	double p = 1;
	while (k-- > 0)
		p *= x;
	return p;
}

void tw_winograd_axis(int m, int r, struct tw_winograd_axis *out)
{
	const int n = m + r - 1;
	TW_CHECK(n >= 1 && n <= TW_WINOGRAD_MOST, "no Winograd tile of %d inputs", n);
	*out = (struct tw_winograd_axis){.m = m, .r = r, .n = n};
	if (r == 1) {
		for (int i = 0; i < n; i++)
			out->output[i][i] = out->filter[i][0] = out->input[i][i] = 1;
		return;
	}
	for (int j = 0; j < n - 1; j++) {
		double scale = 1;
		for (int l = 0; l < n - 1; l++)
			scale *= l == j ? 1 : points[j] - points[l];
		for (int i = 0; i < m; i++)
			out->output[i][j] = power(points[j], i);
		for (int k = 0; k < r; k++)
			out->filter[j][k] = power(points[j], k) / scale;
		polynomial(n - 1, j, out->input[j]);
	}
	out->output[m - 1][n - 1] = out->filter[n - 1][r - 1] = 1;
	polynomial(n - 1, -1, out->input[n - 1]);
}
