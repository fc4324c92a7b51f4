/* backend: programs to machine code. One folder a backend; the list is the folders' names. */
#ifndef TW_BACKEND_H
#define TW_BACKEND_H

#include "ir/ir.h"
#include "target/target.h"

struct tw_object { /* position-independent shared object in memory */
	void *object;
	size_t object_bytes;
	int nkernels;
	const char *const *names; /* kernel i of the input has this symbol; equal programs share one */
	int files;
	double seconds;
};

struct tw_toolchain {
	char command[1024]; /* "gcc", "clang", "python3 -m ziglang cc" or TILEWRIGHT_CC */
	char version[256];  /* first line of --version: part of cache keys */
	bool is_clang;
};

/* Finds the C compiler: TILEWRIGHT_CC, then cc, gcc, clang, python3 -m ziglang. Returns TW_ERR_TOOLCHAIN with what was tried and how to install one. */
enum tw_code tw_toolchain_find(struct tw_toolchain *tc, struct tw_error *e);
/* Programs as C. Each is written down when it is added and not looked at again; m may be another module each time, or another frame of one. */
struct cpu_kernels;
struct cpu_kernels *cpu_kernels_new(struct tw_arena *a, const struct tw_target *t);
void cpu_kernels_add(struct cpu_kernels *k, struct twir_module *m, const struct twir_program *lowered); /* raises */
/* Compiles them (batched into few files, `jobs` compilers at once, progress(arg, done, all) after each file; returning true cancels) to one shared
   object, bytes returned in the arena. Temporary files live in a private folder and are removed. Same input, same object, bit for bit. */
enum tw_code cpu_kernels_compile(struct cpu_kernels *k, const struct tw_toolchain *tc, int jobs,
				 bool (*progress)(void *arg, int done, int all), void *arg, struct tw_object *out,
				 struct tw_error *e);
/* All of that at once. */
enum tw_code cpu_compile(struct tw_arena *a, struct twir_module *m, int n, struct twir_program *const *lowered,
			 const struct tw_target *t, const struct tw_toolchain *tc, int jobs,
			 bool (*progress)(void *arg, int done, int all), void *arg, struct tw_object *out,
			 struct tw_error *e);

#endif
