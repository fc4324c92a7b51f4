/* cpu_int: shared by the files of backend/cpu/. */
#ifndef TW_CPU_INT_H
#define TW_CPU_INT_H

#include "backend/backend.h"

#include <sys/types.h>

enum { PROCESS_OUTPUT = 3000, PROCESS_ARGS = 64 };

/* A compiler process. Its standard output and error come through one pipe; only the first PROCESS_OUTPUT bytes are
 * kept. */
struct process {
	pid_t pid;  /* 0: not running */
	int fd;	    /* read end of the pipe */
	int status; /* as from waitpid, when it has ended; -1: unknown */
	size_t n;
	char output[PROCESS_OUTPUT + 1];
};

/* process.c. Arguments are given as a vector; no shell is involved. dir: working directory and TMPDIR of the process
 * (NULL: as ours). */
int process_start(struct process *p, char *const *argv, const char *dir); /* 0 or an errno */
bool process_read(struct process *p); /* what the pipe holds; false: the process has ended and been waited for */
void process_kill(struct process *p); /* with all it started; waits for it */
bool process_ok(const struct process *p);
enum tw_code process_run(struct process *p, char *const *argv, const char *dir, int seconds,
			 int *error); /* start, read to the end; *error: errno */

/* command.c: command lines as vectors of words; nothing is quoted because nothing is split twice */
struct command {
	char *argv[PROCESS_ARGS];
	int n;
	char text[4096];
	size_t used;
};
void command_init(struct command *c);
void command_add(struct command *c, const char *words); /* splits at spaces */
void command_word(struct command *c, const char *word);
bool command_fits(const struct command *c);

/* tempdir.c */
struct tempdir {
	char path[512];
	int lock; /* a locked file inside: a folder whose lock is free was left by a process that was killed */
};
enum tw_code tempdir_make(struct tempdir *t, struct tw_error *e);
void tempdir_remove(struct tempdir *t); /* with the files in it */
enum tw_code tempdir_write(const struct tempdir *t, const char *name, const void *at, size_t n, struct tw_error *e);
enum tw_code tempdir_read(const struct tempdir *t, const char *name, struct tw_arena *a, void **at, size_t *n,
			  struct tw_error *e);

/* flags.c */
void cpu_compile_flags(struct command *c, const struct tw_target *t, const struct tw_toolchain *tc);
void cpu_link_flags(struct command *c, const struct tw_toolchain *tc);

/* plan.c: programs to kernels, kernels to files */
struct cpu_kernel {
	const char *name, *text; /* text: behind the name */
	size_t bytes;
	struct cgen_uses *uses;
	int file; /* -1: none yet */
};
struct cpu_kernels {
	struct tw_arena *arena;
	const struct tw_target *target;
	struct tw_strmap seen;		/* hash of the text -> name */
	VEC(struct cpu_kernel) kernels; /* different texts, in the order of the input */
	VEC(const char *) names;	/* of each program of the input */
	size_t waiting;			/* bytes of the kernels without a file */
	VEC(const char *) sources;	/* of each file */
	struct cpu_work *work;		/* compile_cpu.c; NULL: not begun */
};
enum { CPU_MOST_FILES = 512 };
void cpu_last_files(struct cpu_kernels *k); /* for all kernels that have none; raises */

#endif
