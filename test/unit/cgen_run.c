/* cgen_run: see cgen_run.h. Objects are loaded from memory (memfd), so no file is left behind. */
#define _GNU_SOURCE
#include "cgen_run.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cgen/cgen.h"

#include <cmocka.h>

struct parsing {
	struct tw_arena *arena;
	const char *text;
	struct twir_module *m;
};

static void parse(void *arg)
{
	struct parsing *p = arg;
	p->m = twir_module_new(p->arena);
	twir_parse(p->m, "test", p->text);
	for (int i = 0; i < p->m->programs.n; i++)
		twir_program_symbols(p->m, p->m->programs.at[i]);
}

struct twir_module *cgen_parse(struct tw_arena *a, const char *text)
{
	struct parsing p = {.arena = a, .text = text};
	struct tw_error e;
	if (!tw_try(&e, parse, &p))
		fail_msg("%s", e.text);
	return p.m;
}

void cgen_target(struct tw_target *t, enum tw_isa isa)
{
	static const int bytes[TW_ISA_COUNT] = {[TW_ISA_GENERIC] = 16,
						[TW_ISA_NEON] = 16,
						[TW_ISA_AVX2] = 32,
						[TW_ISA_AVX512] = 64,
						[TW_ISA_AVX512_VNNI] = 64};
	*t = (struct tw_target){.isa = isa, .cores = 1};
	t->vector_bytes = bytes[isa];
	t->lanes = isa == TW_ISA_SCALAR ? 16 : bytes[isa] / 4;
	t->vector_registers = bytes[isa] == 64 ? 32 : 16;
	t->has_fma = bytes[isa] > 16 || isa == TW_ISA_NEON;
	t->has_dot4 = isa == TW_ISA_AVX512_VNNI;
}

bool cgen_runs_here(enum tw_isa isa)
{
	if (isa == TW_ISA_SCALAR || isa == TW_ISA_GENERIC)
		return true;
#if defined(__x86_64__)
	if (isa == TW_ISA_AVX2)
		return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
	if (isa == TW_ISA_AVX512_VNNI && !__builtin_cpu_supports("avx512vnni"))
		return false;
	if (isa == TW_ISA_AVX512 || isa == TW_ISA_AVX512_VNNI)
		return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
		       __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
	return false;
#elif defined(__aarch64__)
	return isa == TW_ISA_NEON;
#else
	return false;
#endif
}

bool cgen_compiler(struct tw_toolchain *tc, const char *command)
{
	struct tw_error e;
	const char *before = getenv("TILEWRIGHT_CC");
	char *keep = before ? strdup(before) : NULL;
	setenv("TILEWRIGHT_CC", command, 1);
	const enum tw_code code = tw_toolchain_find(tc, &e);
	if (keep)
		setenv("TILEWRIGHT_CC", keep, 1);
	else
		unsetenv("TILEWRIGHT_CC");
	free(keep);
	return code == TW_ERR_OK;
}

void cgen_compile(struct compiled *c, struct tw_arena *a, struct twir_module *m, int n,
		  struct twir_program *const *programs, const struct tw_target *t, const struct tw_toolchain *tc)
{
	struct tw_error e;
	memset(c, 0, sizeof *c);
	if (cpu_compile(a, m, n, programs, t, tc, 2, NULL, NULL, &c->object, &e) != TW_ERR_OK)
		fail_msg("%s", e.text);
	const int fd = memfd_create("kernels", MFD_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, c->object.object, c->object.object_bytes), c->object.object_bytes);
	char path[64];
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	c->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!c->handle)
		fail_msg("%s", dlerror());
	c->fd = fd; /* open for as long: the loader knows objects by their path */
	c->fns = ARENA_ARRAY(a, kernel_fn *, n);
	for (int i = 0; i < n; i++) {
		*(void **)&c->fns[i] = dlsym(c->handle, c->object.names[i]);
		if (!c->fns[i])
			fail_msg("no symbol %s", c->object.names[i]);
	}
}

void cgen_close(struct compiled *c)
{
	if (c->handle)
		dlclose(c->handle);
	if (c->handle)
		close(c->fd);
	c->handle = NULL;
}

void cgen_call(const struct compiled *c, int kernel, struct twir_module *m, const struct twir_program *p,
	       void *const *buf, const int64_t *sym)
{
	const struct twir_binding b = {p->nsymbols, p->symbols, sym};
	const int64_t scratch = twir_eval_index(cgen_scratch(m, p), &b);
	const int64_t cores = twir_eval_index(p->extents[0], &b);
	void *at = aligned_alloc(64, (size_t)scratch + 64);
	assert_non_null(at);
	memset(at, 0xa5, (size_t)scratch);
	for (int64_t core = 0; core < cores; core++)
		c->fns[kernel](core, buf, sym, at);
	free(at);
}
