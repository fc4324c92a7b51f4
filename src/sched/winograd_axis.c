/* The matrices of minimal filtering for one axis, by Toom and Cook: interpolation at n - 1 finite points and at infinity. Points have few bits, so that entries of
 * the data's and the result's matrix are exact in binary. They are 0 and pairs of opposite numbers, as far as their number is odd: such pairs are evaluated
 * together, their even and odd powers apart. How large they are was chosen by measured error, on layers of ResNet-50, Inception v3 and detectors of text:
 * F(4, 3) has two thirds of the error that 0, 1, -1, 1/2, -2 have, F(4, 7) 0.6 of that of quarters to fours; what grows with the points are the sums that the
 * result's transform cancels. */
#include "sched/winograd_int.h"

/* by their number, less one */
static const double points[TW_WINOGRAD_MOST - 1][TW_WINOGRAD_MOST - 1] = {
	{0},
	{0, 1},
	{0, 1, -1},
	{0, 1, -1, 0.5},
	{0, 0.75, -0.75, 1.375, -1.375},
	{0, 1, -1, 0.5, -2, -0.5},
	{0, 1, -1, 0.5, -0.5, 2, -2},
	{0, 1, -1, 0.5, -2, -0.5, 2, -0.25},
	{0, 0.4375, -0.4375, 0.75, -0.75, 1.25, -1.25, 2.25, -2.25},
};

/* Coefficients of the product of (x - at[l]) over l < n, l != without. */
static void polynomial(const double *at, int n, int without, double *c)
{
	int degree = 0;
	c[0] = 1;
	for (int l = 0; l < n; l++) {
		if (l == without)
			continue;
		c[degree + 1] = 0;
		for (int k = degree + 1; k > 0; k--)
			c[k] = c[k - 1] - at[l] * c[k];
		c[0] *= -at[l];
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
	const double *at = n > 1 ? points[n - 2] : points[0];
	for (int j = 0; j < n - 1; j++) {
		double scale = 1;
		for (int l = 0; l < n - 1; l++)
			scale *= l == j ? 1 : at[j] - at[l];
		for (int i = 0; i < m; i++)
			out->output[i][j] = power(at[j], i);
		for (int k = 0; k < r; k++)
			out->filter[j][k] = power(at[j], k) / scale;
		polynomial(at, n - 1, j, out->input[j]);
	}
	out->output[m - 1][n - 1] = out->filter[n - 1][r - 1] = 1;
	polynomial(at, n - 1, -1, out->input[n - 1]);
}
