/* Compares a tensor with what is expected. */
#include "cli.h"

#include <math.h>
#include <string.h>

static bool same_integer(tilewright_type type, const void *a, const void *b, int64_t i)
{
	const size_t size = (size_t)tilewright_type_bytes(type);
	return memcmp((const char *)a + (size_t)i * size, (const char *)b + (size_t)i * size, size) == 0;
}

static bool close_enough(double got, double want, double rtol, double atol)
{
	if (isnan(got) || isnan(want))
		return isnan(got) && isnan(want);
	if (isinf(got) || isinf(want))
		return got == want;
	return fabs(got - want) <= atol + rtol * fabs(want);
}

static size_t put_shape(char *at, size_t n, int rank, const int64_t *dims)
{
	size_t used = (size_t)snprintf(at, n, "[");
	for (int d = 0; d < rank && used < n; d++)
		used += (size_t)snprintf(at + used, n - used, "%s%lld", d ? ", " : "", (long long)dims[d]);
	if (used < n)
		used += (size_t)snprintf(at + used, n - used, "]");
	return used;
}

static void put_index(char *at, size_t n, const struct tensor *t, int64_t i)
{
	int64_t index[TILEWRIGHT_MAX_RANK];
	for (int d = t->rank; d-- > 0;) {
		index[d] = i % t->dims[d];
		i /= t->dims[d];
	}
	put_shape(at, n, t->rank, index);
}

void cli_compare(const tilewright_tensor *got, const struct tensor *want, double rtol, double atol, char *reason,
		 size_t n)
{
	char a[256], b[256];
	reason[0] = '\0';
	if (got->type != want->type) {
		snprintf(reason, n, "type %s, expected %s", tilewright_type_name(got->type),
			 tilewright_type_name(want->type));
		return;
	}
	if (got->rank != want->rank || memcmp(got->dims, want->dims, (size_t)got->rank * sizeof(got->dims[0])) != 0) {
		put_shape(a, sizeof(a), got->rank, got->dims);
		put_shape(b, sizeof(b), want->rank, want->dims);
		snprintf(reason, n, "shape %s, expected %s", a, b);
		return;
	}
	const int64_t elements = cli_tensor_elements(want->rank, want->dims);
	const bool is_float = cli_type_is_float(want->type);
	int64_t wrong = 0, first = -1;
	double largest = 0;
	for (int64_t i = 0; i < elements; i++) {
		const double x = cli_tensor_value(got->type, got->data, i),
			     y = cli_tensor_value(want->type, want->data, i);
		if (is_float ? close_enough(x, y, rtol, atol) : same_integer(want->type, got->data, want->data, i))
			continue;
		if (wrong++ == 0)
			first = i;
		if (fabs(x - y) > largest)
			largest = fabs(x - y);
	}
	if (wrong == 0)
		return;
	put_index(a, sizeof(a), want, first);
	snprintf(reason, n, "element %s is %.9g, expected %.9g; %lld of %lld differ, by up to %.3g", a,
		 cli_tensor_value(got->type, got->data, first), cli_tensor_value(want->type, want->data, first),
		 (long long)wrong, (long long)elements, largest);
}

/* One rounding of a type as a part of the value. */
static double rounding(tilewright_type type)
{
	return type == TILEWRIGHT_F16 ? 0x1p-10 : type == TILEWRIGHT_BF16 ? 0x1p-7 : 0;
}

void cli_differ(const struct tensor *got, const struct tensor *want, struct difference *d)
{
	const tilewright_tensor x = cli_tensor_view(got);
	*d = (struct difference){.largest = -1, .magnitude = -1};
	const int64_t n = cli_tensor_elements(want->rank, want->dims);
	double magnitude = 0, largest = 0;
	for (int64_t i = 0; i < n; i++) {
		const double y = fabs(cli_tensor_value(want->type, want->data, i));
		if (isfinite(y) && y > magnitude)
			magnitude = y;
	}
	const double part = rounding(want->type) > 1e-4 ? rounding(want->type) : 1e-4;
	cli_compare(&x, want, 0, part * magnitude, d->reason, sizeof(d->reason));
	if (got->type != want->type || got->bytes != want->bytes)
		return;
	for (int64_t i = 0; i < n; i++) {
		const double off =
			fabs(cli_tensor_value(got->type, got->data, i) - cli_tensor_value(want->type, want->data, i));
		if (off > largest)
			largest = off;
	}
	d->largest = largest;
	d->magnitude = magnitude;
}
