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
};

struct tw_toolchain {
	char command[1024]; /* "gcc", "clang", "python3 -m ziglang cc" or TILEWRIGHT_CC */
	char version[256];  /* first line of --version: part of cache keys */
	bool is_clang;
};

/* Finds the C compiler: TILEWRIGHT_CC, then cc, gcc, clang, python3 -m ziglang. Returns TW_ERR_TOOLCHAIN with what was tried and how to install one. */
enum tw_code tw_toolchain_find(struct tw_toolchain *tc, struct tw_error *e);
/* Programs to one shared object, as they come. Each is written down as C when it is added and not looked at again; m may be another module each time, or
   another frame of one. Between begin and finish C compilers run beside the caller: turn, called now and then, starts one for a file that is full where there
   is room for it (one less than `jobs`: the caller needs a core itself) and takes note of those that have ended; it never waits. finish compiles the rest with
   `jobs` of them and links; progress(arg, done, all) is called after each file and ten times a second; returning true cancels. Temporary files live in a
   private folder. drop ends what still runs and removes the folder: after finish, or instead of it, always. The object's bytes are in the arena. Same
   programs in the same order, same object, bit for bit: which kernels share a file depends on their texts alone. */
struct cpu_kernels;
struct cpu_kernels *cpu_kernels_new(struct tw_arena *a, const struct tw_target *t);			/* raises */
void cpu_kernels_add(struct cpu_kernels *k, struct twir_module *m, const struct twir_program *lowered); /* raises */
enum tw_code cpu_kernels_begin(struct cpu_kernels *k, const struct tw_toolchain *tc, int jobs, struct tw_error *e);
enum tw_code cpu_kernels_turn(struct cpu_kernels *k, struct tw_error *e);
enum tw_code cpu_kernels_finish(struct cpu_kernels *k, bool (*progress)(void *arg, int done, int all), void *arg,
				struct tw_object *out, struct tw_error *e);
void cpu_kernels_drop(struct cpu_kernels *k); /* NULL is allowed */
/* All of that at once. */
enum tw_code cpu_compile(struct tw_arena *a, struct twir_module *m, int n, struct twir_program *const *lowered,
			 const struct tw_target *t, const struct tw_toolchain *tc, int jobs,
			 bool (*progress)(void *arg, int done, int all), void *arg, struct tw_object *out,
			 struct tw_error *e);

#endif
