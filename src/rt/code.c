/* Makes a code object callable. Input: a shared object in memory; output: its kernels' addresses. The system's loader
 * only takes paths, so the bytes go through a memory file, or through a private temporary file where memory files are
 * not executable. */
#define _GNU_SOURCE
#include "rt_int.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* The numbers of enum tw_isa; api/ asserts that they agree. */
static const char *const isa_names[] = {"scalar", "generic", "neon", "avx2", "avx512", "avx512vnni"};

const char *twrt_isa_text(int isa)
{
	return isa >= 0 && isa < TW_COUNT(isa_names) ? isa_names[isa] : "unknown";
}

#if defined(__x86_64__)
bool twrt_isa_runs_here(int isa)
{
	__builtin_cpu_init();
	switch (isa) {
	case 0:
	case 1:
		return true;
	case 3:
		return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
	case 4:
	case 5:
		if (isa == 5 && !__builtin_cpu_supports("avx512vnni"))
			return false;
		return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
		       __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
	default:
		return false;
	}
}
#elif defined(__aarch64__)
bool twrt_isa_runs_here(int isa)
{
	return isa >= 0 && isa <= 2;
}
#else
bool twrt_isa_runs_here(int isa)
{
	return isa == 0 || isa == 1;
}
#endif

static bool write_all(int fd, const char *at, int64_t bytes)
{
	while (bytes > 0) {
		const ssize_t n = write(fd, at, (size_t)bytes);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		at += n;
		bytes -= n;
	}
	return true;
}

static void *open_memory_file(const struct twrt_code *code, int *fd, char *why, size_t size)
{
	*fd = memfd_create("tilewright", MFD_CLOEXEC);
	if (*fd < 0 || !write_all(*fd, code->object, code->bytes)) {
		snprintf(why, size, "memory file: %s", strerror(errno));
	} else {
		char path[64];
		snprintf(path, sizeof(path), "/proc/self/fd/%d", *fd);
		void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		if (handle)
			return handle;
		snprintf(why, size, "%s", dlerror());
	}
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
	return NULL;
}

static void *open_temporary_file(const struct twrt_code *code, char *why, size_t size)
{
	const char *folder = getenv("TMPDIR");
	if (folder == NULL || folder[0] != '/')
		folder = "/tmp";
	char path[1024];
	if (snprintf(path, sizeof(path), "%s/tilewright-XXXXXX", folder) >= (int)sizeof(path)) {
		snprintf(why, size, "TMPDIR is too long");
		return NULL;
	}
	const int fd = mkostemp(path, O_CLOEXEC); /* mode 0600 */
	if (fd < 0) {
		snprintf(why, size, "%s: %s", folder, strerror(errno));
		return NULL;
	}
	void *handle = NULL;
	if (!write_all(fd, code->object, code->bytes))
		snprintf(why, size, "%s: %s", folder, strerror(errno));
	else if ((handle = dlopen(path, RTLD_NOW | RTLD_LOCAL)) == NULL)
		snprintf(why, size, "%s", dlerror());
	close(fd);
	unlink(path);
	return handle;
}

enum tw_code twrt_code_load(const struct twrt_code *code, int nkernels, const char *const *names,
			    struct twrt_loaded *out, struct tw_error *e)
{
	*out = (struct twrt_loaded){.fd = -1};
	if (nkernels == 0)
		return TW_ERR_OK;
	char why[2][400];
	out->handle = open_memory_file(code, &out->fd, why[0], sizeof(why[0]));
	if (out->handle == NULL)
		out->handle = open_temporary_file(code, why[1], sizeof(why[1]));
	if (out->handle == NULL)
		return TWRT_FAIL(e, TW_ERR_IO,
				 "the system refused to load generated code:\n  %s\n  %s\nSet TMPDIR to a folder that "
				 "allows execution (not mounted noexec).",
				 why[0], why[1]);
	out->kernels = calloc((size_t)nkernels, sizeof(*out->kernels));
	if (out->kernels == NULL) {
		twrt_code_unload(out);
		return TWRT_FAIL(e, TW_ERR_MEMORY, "no memory for %d kernels", nkernels);
	}
	for (int i = 0; i < nkernels; i++) {
		void *at = dlsym(out->handle, names[i]);
		if (at == NULL) {
			twrt_code_unload(out);
			return TWRT_FAIL(e, TW_ERR_MODEL, "the code object has no kernel \"%s\"", names[i]);
		}
		memcpy(&out->kernels[i], &at, sizeof(at));
	}
	return TW_ERR_OK;
}

void twrt_code_unload(struct twrt_loaded *l)
{
	if (l->handle)
		dlclose(l->handle);
	if (l->fd >= 0)
		close(l->fd);
	free(l->kernels);
	*l = (struct twrt_loaded){.fd = -1};
}
