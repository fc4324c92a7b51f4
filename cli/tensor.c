/* Tensors in memory and in files. */
#define _GNU_SOURCE
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void cli_tensor_free(struct tensor *t)
{
	free(t->name);
	free(t->file);
	free(t->data);
	*t = (struct tensor){0};
}

int64_t cli_tensor_elements(int rank, const int64_t *dims)
{
	int64_t n = 1;
	for (int d = 0; d < rank; d++)
		n *= dims[d];
	return n;
}

int cli_tensor_measure(struct tensor *t, struct problem *p)
{
	size_t bytes = (size_t)tilewright_type_bytes(t->type);
	if (bytes == 0)
		return problem_set(p, EXIT_INPUT, "element type %d is not supported", (int)t->type);
	if (t->rank < 0 || t->rank > TILEWRIGHT_MAX_RANK)
		return problem_set(p, EXIT_INPUT, "%d dimensions; at most %d are supported", t->rank,
				   TILEWRIGHT_MAX_RANK);
	bool zero = false;
	for (int d = 0; d < t->rank; d++) {
		if (t->dims[d] < 0)
			return problem_set(p, EXIT_INPUT, "a dimension is %lld", (long long)t->dims[d]);
		zero |= t->dims[d] == 0;
		if (__builtin_mul_overflow(bytes, t->dims[d] ? (size_t)t->dims[d] : 1, &bytes) ||
		    bytes > PTRDIFF_MAX / 2)
			return problem_set(p, EXIT_INPUT, "the tensor is too large");
	}
	t->bytes = zero ? 0 : bytes;
	return EXIT_DONE;
}

int cli_tensor_alloc(struct tensor *t, struct problem *p)
{
	const int code = cli_tensor_measure(t, p);
	if (code != EXIT_DONE)
		return code;
	/* The system promises more memory than there is, and kills who uses it. */
	const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
	if (pages > 0 && page > 0 && t->bytes / (size_t)page > (size_t)pages / 2)
		return problem_set(p, EXIT_FAULT, "no memory for a tensor of %zu bytes", t->bytes);
	if (posix_memalign(&t->data, 64, t->bytes ? t->bytes : 64) != 0) {
		t->data = NULL;
		return problem_set(p, EXIT_FAULT, "no memory for a tensor of %zu bytes", t->bytes);
	}
	return EXIT_DONE;
}

bool cli_type_is_float(tilewright_type type)
{
	return type == TILEWRIGHT_F32 || type == TILEWRIGHT_F64 || type == TILEWRIGHT_F16 || type == TILEWRIGHT_BF16 ||
	       (type >= TILEWRIGHT_F8E4M3FN && type <= TILEWRIGHT_F8E5M2FNUZ) || type == TILEWRIGHT_F8E8M0;
}

/* Floats of 8 bits: bits of the significand, exponent bias; whether infinities exist, or one zero and one NaN. */
static double eighth(tilewright_type type, uint8_t bits)
{
	if (type == TILEWRIGHT_F8E8M0)
		return bits == 255 ? NAN : ldexp(1, bits - 127);
	const bool three = type == TILEWRIGHT_F8E4M3FN || type == TILEWRIGHT_F8E4M3FNUZ;
	const bool alone = type == TILEWRIGHT_F8E4M3FNUZ || type == TILEWRIGHT_F8E5M2FNUZ;
	const int digits = three ? 3 : 2, bias = (three ? 7 : 15) + alone, one = 1 << digits;
	const int exponent = (bits & 127) >> digits, fraction = bits & (one - 1);
	const double sign = bits >> 7 ? -1 : 1;
	if (alone && bits == 128)
		return NAN;
	if (type == TILEWRIGHT_F8E4M3FN && (bits & 127) == 127)
		return NAN;
	if (type == TILEWRIGHT_F8E5M2 && exponent == 31)
		return fraction ? NAN : sign * INFINITY;
	return sign * ldexp(exponent ? one + fraction : fraction, (exponent ? exponent : 1) - bias - digits);
}

static double half(uint16_t h)
{
	const int exponent = h >> 10 & 31, mantissa = h & 1023;
	const double sign = h >> 15 ? -1 : 1;
	if (exponent == 31)
		return mantissa ? NAN : sign * INFINITY;
	return sign * (exponent ? ldexp(1024 + mantissa, exponent - 25) : ldexp(mantissa, -24));
}

double cli_tensor_value(tilewright_type type, const void *data, int64_t i)
{
	switch (type) {
	case TILEWRIGHT_F32:
		return (double)((const float *)data)[i];
	case TILEWRIGHT_F64:
		return ((const double *)data)[i];
	case TILEWRIGHT_F16:
		return half(((const uint16_t *)data)[i]);
	case TILEWRIGHT_BF16: {
		const uint32_t bits = (uint32_t)((const uint16_t *)data)[i] << 16;
		float f;
		memcpy(&f, &bits, sizeof(f));
		return (double)f;
	}
	case TILEWRIGHT_F8E4M3FN:
	case TILEWRIGHT_F8E4M3FNUZ:
	case TILEWRIGHT_F8E5M2:
	case TILEWRIGHT_F8E5M2FNUZ:
	case TILEWRIGHT_F8E8M0:
		return eighth(type, ((const uint8_t *)data)[i]);
	case TILEWRIGHT_U8:
	case TILEWRIGHT_BOOL:
		return ((const uint8_t *)data)[i];
	case TILEWRIGHT_I8:
		return ((const int8_t *)data)[i];
	case TILEWRIGHT_U16:
		return ((const uint16_t *)data)[i];
	case TILEWRIGHT_I16:
		return ((const int16_t *)data)[i];
	case TILEWRIGHT_U32:
		return ((const uint32_t *)data)[i];
	case TILEWRIGHT_I32:
		return ((const int32_t *)data)[i];
	case TILEWRIGHT_U64:
		return (double)((const uint64_t *)data)[i];
	case TILEWRIGHT_I64:
		return (double)((const int64_t *)data)[i];
	}
	return NAN;
}

void cli_print_shape(FILE *to, int rank, const int64_t *dims)
{
	fputc('[', to);
	for (int d = 0; d < rank; d++)
		fprintf(to, "%s%lld", d ? ", " : "", (long long)dims[d]);
	fputc(']', to);
}

int cli_read_file(const char *path, struct bytes *b, struct problem *p)
{
	*b = (struct bytes){0};
	const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
		problem_set(p, EXIT_INPUT, "cannot read %s: %s", path,
			    fd < 0 ? strerror(errno) : "it is not a regular file");
		if (fd >= 0)
			close(fd);
		return p->exit;
	}
	unsigned char *at = malloc((size_t)st.st_size + 1);
	size_t n = 0;
	ssize_t got = at ? 1 : 0;
	while (at && n < (size_t)st.st_size && (got = read(fd, at + n, (size_t)st.st_size - n)) > 0)
		n += (size_t)got;
	const int reason = errno;
	close(fd);
	if (at == NULL)
		return problem_set(p, EXIT_FAULT, "no memory to read %s", path);
	if (got < 0) {
		free(at);
		return problem_set(p, EXIT_INPUT, "cannot read %s: %s", path, strerror(reason));
	}
	*b = (struct bytes){at, n};
	return EXIT_DONE;
}

static bool write_all(int fd, const char *at, size_t n)
{
	while (n > 0) {
		const ssize_t done = write(fd, at, n > 1 << 30 ? 1 << 30 : n);
		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return false;
		at += done;
		n -= (size_t)done;
	}
	return true;
}

int cli_write_file(const char *path, const void *head, size_t nhead, const void *body, size_t nbody, struct problem *p)
{
	char temporary[4200];
	snprintf(temporary, sizeof(temporary), "%s.tmp%ld", path, (long)getpid());
	const int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
	bool good = fd >= 0 && write_all(fd, head, nhead) && write_all(fd, body, nbody);
	int reason = errno;
	if (fd >= 0 && close(fd) != 0 && good) {
		good = false;
		reason = errno;
	}
	if (good && rename(temporary, path) != 0) {
		good = false;
		reason = errno;
	}
	if (good)
		return EXIT_DONE;
	if (fd >= 0)
		unlink(temporary);
	return problem_set(p, EXIT_INPUT, "cannot write %s: %s", path, strerror(reason));
}

static bool ends_with(const char *text, const char *end)
{
	const size_t n = strlen(text), m = strlen(end);
	return n >= m && strcmp(text + n - m, end) == 0;
}

int cli_tensor_load(const char *path, struct tensor *t, struct problem *p)
{
	*t = (struct tensor){0};
	const bool npy = ends_with(path, ".npy");
	if (!npy && !ends_with(path, ".pb"))
		return problem_set(p, EXIT_INPUT, "%s: neither .npy nor .pb", path);
	struct bytes b;
	int code = cli_read_file(path, &b, p);
	if (code != EXIT_DONE)
		return code;
	struct problem inner = {0};
	code = npy ? npy_read(&b, t, &inner) : pb_read(&b, t, &inner);
	free(b.at);
	if (code == EXIT_DONE)
		return code;
	cli_tensor_free(t);
	return problem_set(p, code, "%.1000s: %.2000s", path, inner.text);
}
