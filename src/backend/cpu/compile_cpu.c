/* compile_cpu: lowered programs to one shared object. Steps: plan the files (may raise, inside tw_try), write them to
 * a private folder, compile them with `jobs` compilers at once, link without any library, read the object back, remove
 * the folder whatever happened. */
#define _GNU_SOURCE
#include "backend/cpu/cpu_int.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>

enum { MAX_JOBS = 64 };

struct work {
	struct tw_arena *arena;
	struct cpu_kernels *kernels;
	const struct tw_toolchain *tc;
	bool (*progress)(void *arg, int done, int all);
	void *arg;
	int jobs;
	struct cpu_plan plan;
	struct tempdir dir;
	struct process slots[MAX_JOBS];
	int file_of[MAX_JOBS];
	void *object;
	size_t bytes;
	struct tw_error *e;
};

static void make_plan(void *arg)
{
	struct work *w = arg;
	cpu_make_plan(&w->plan, w->kernels);
}

/* The first lines that a compiler printed, and what to make of them. */
static enum tw_code compiler_failed(struct work *w, const struct process *p, const char *doing)
{
	int lines = 0;
	size_t n = 0;
	while (n < p->n && lines < 12)
		lines += p->output[n++] == '\n';
	char how[128];
	const char *hint = "this is a fault of Tilewright or of the compiler; try another one with TILEWRIGHT_CC=clang "
			   "or TILEWRIGHT_CC=gcc";
	if (WIFSIGNALED(p->status)) {
		snprintf(how, sizeof how, "was killed by signal %d (%s)", WTERMSIG(p->status),
			 strsignal(WTERMSIG(p->status)));
		if (WTERMSIG(p->status) == SIGKILL)
			hint = "memory may have run out; use fewer jobs";
	} else {
		snprintf(how, sizeof how, "failed with exit code %d", WEXITSTATUS(p->status));
	}
	if (strstr(p->output, "No space left"))
		hint = "the disk is full; free some space or set TMPDIR to a folder with room";
	else if (strstr(p->output, "Killed signal") || strstr(p->output, "out of memory") ||
		 strstr(p->output, "virtual memory exhausted"))
		hint = "memory has run out; use fewer jobs";
	else if (strstr(p->output, "unrecognized") || strstr(p->output, "unknown argument"))
		hint = "the compiler is too old or of another kind; gcc 9 and clang 10 or newer work";
	tw_error_set(w->e, TW_ERR_TOOLCHAIN, "%s: the compiler (%s) %s\n%.*s%shint: %s", doing, w->tc->command, how,
		     (int)n, p->output, n && p->output[n - 1] != '\n' ? "\n" : "", hint);
	return TW_ERR_TOOLCHAIN;
}

static enum tw_code cannot_start(struct work *w, int error)
{
	tw_error_set(w->e, TW_ERR_TOOLCHAIN,
		     "compiling kernels: cannot start %s: %s\nhint: TILEWRIGHT_CC chooses the compiler", w->tc->command,
		     strerror(error));
	return TW_ERR_TOOLCHAIN;
}

static enum tw_code start_file(struct work *w, int slot, int file)
{
	struct command c;
	char from[32], to[32];
	snprintf(from, sizeof from, "k%d.c", file);
	snprintf(to, sizeof to, "k%d.o", file);
	const char *source = w->plan.sources[file];
	const enum tw_code code = tempdir_write(&w->dir, from, source, strlen(source), w->e);
	if (code != TW_ERR_OK)
		return code;
	command_init(&c);
	cpu_compile_flags(&c, w->kernels->target, w->tc);
	command_add(&c, "-c -o");
	command_word(&c, to);
	command_word(&c, from);
	if (!command_fits(&c))
		return cannot_start(w, E2BIG);
	w->file_of[slot] = file;
	const int error = process_start(&w->slots[slot], c.argv, w->dir.path);
	return error ? cannot_start(w, error) : TW_ERR_OK;
}

static enum tw_code cancelled(struct work *w)
{
	tw_error_set(w->e, TW_ERR_CANCELLED, "compiling kernels: cancelled");
	return TW_ERR_CANCELLED;
}

/* Waits until a compiler says something or ends; *done counts those that ended well. Asks progress ten times a second,
 * so that a cancel is quick. */
static enum tw_code wait_some(struct work *w, int *done)
{
	struct pollfd wait[MAX_JOBS];
	int slot_of[MAX_JOBS], n = 0;
	for (int i = 0; i < w->jobs; i++)
		if (w->slots[i].pid) {
			wait[n] = (struct pollfd){.fd = w->slots[i].fd, .events = POLLIN};
			slot_of[n++] = i;
		}
	const int ready = poll(wait, (nfds_t)n, 100);
	if (ready <= 0)
		return w->progress && w->progress(w->arg, *done, w->plan.files) ? cancelled(w) : TW_ERR_OK;
	for (int i = 0; i < n; i++) {
		struct process *p = &w->slots[slot_of[i]];
		if (!wait[i].revents || process_read(p))
			continue;
		if (!process_ok(p))
			return compiler_failed(w, p, "compiling kernels");
		++*done;
		if (w->progress && w->progress(w->arg, *done, w->plan.files))
			return cancelled(w);
	}
	return TW_ERR_OK;
}

static enum tw_code compile_files(struct work *w)
{
	int next = 0, done = 0;
	enum tw_code code = TW_ERR_OK;
	while (code == TW_ERR_OK && done < w->plan.files) {
		for (int i = 0; i < w->jobs && next < w->plan.files && code == TW_ERR_OK; i++)
			if (!w->slots[i].pid)
				code = start_file(w, i, next++);
		if (code == TW_ERR_OK)
			code = wait_some(w, &done);
	}
	for (int i = 0; i < w->jobs; i++)
		process_kill(&w->slots[i]);
	return code;
}

static enum tw_code link_files(struct work *w)
{
	struct command c;
	command_init(&c);
	cpu_link_flags(&c, w->tc);
	command_add(&c, "-o kernels.so @objects"); /* the names in a response file: any number of them */
	char list[MAX_JOBS * 16] = "";
	size_t n = 0;
	for (int f = 0; f < w->plan.files; f++)
		n += (size_t)snprintf(list + n, sizeof list - n, "k%d.o\n", f);
	const enum tw_code code = tempdir_write(&w->dir, "objects", list, n, w->e);
	if (code != TW_ERR_OK)
		return code;
	if (!command_fits(&c))
		return cannot_start(w, E2BIG);
	int error = 0;
	struct process *p = &w->slots[0];
	if (process_run(p, c.argv, w->dir.path, 600, &error) != TW_ERR_OK)
		return error ? cannot_start(w, error) : compiler_failed(w, p, "linking kernels");
	return TW_ERR_OK;
}

static void read_object(void *arg)
{
	struct work *w = arg;
	if (tempdir_read(&w->dir, "kernels.so", w->arena, &w->object, &w->bytes, w->e) != TW_ERR_OK)
		tw_raise_error(w->e);
}

static enum tw_code build(struct work *w)
{
	enum tw_code code = tempdir_make(&w->dir, w->e);
	if (code == TW_ERR_OK)
		code = compile_files(w);
	if (code == TW_ERR_OK)
		code = link_files(w);
	if (code == TW_ERR_OK && !tw_try(w->e, read_object, w)) /* the arena may be out of memory */
		code = w->e->code;
	tempdir_remove(&w->dir);
	return code;
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

struct making {
	struct tw_arena *arena;
	struct work *work;
};

static void make_work(void *arg)
{
	struct making *m = arg;
	m->work = ARENA_NEW(m->arena, struct work);
}

enum tw_code cpu_kernels_compile(struct cpu_kernels *k, const struct tw_toolchain *tc, int jobs,
				 bool (*progress)(void *arg, int done, int all), void *arg, struct tw_object *out,
				 struct tw_error *e)
{
	const double start = now();
	memset(out, 0, sizeof *out);
	struct making making = {.arena = k->arena}; /* too large for the stack */
	if (!tw_try(e, make_work, &making))
		return e->code;
	struct work *w = making.work;
	w->arena = k->arena;
	w->kernels = k;
	w->tc = tc;
	w->progress = progress;
	w->arg = arg;
	w->jobs = jobs < 1 ? 1 : jobs > MAX_JOBS ? MAX_JOBS : jobs;
	w->e = e;
	if (!tw_try(e, make_plan, w))
		return e->code;
	if (w->plan.files > 0) {
		const enum tw_code code = build(w);
		if (code != TW_ERR_OK)
			return code;
	}
	out->object = w->object;
	out->object_bytes = w->bytes;
	out->nkernels = k->names.n;
	out->names = k->names.at;
	out->files = w->plan.files;
	out->seconds = now() - start;
	return TW_ERR_OK;
}

struct adding {
	struct tw_arena *arena;
	struct twir_module *m;
	int n;
	struct twir_program *const *lowered;
	const struct tw_target *target;
	struct cpu_kernels *kernels;
};

static void add_all(void *arg)
{
	struct adding *a = arg;
	a->kernels = cpu_kernels_new(a->arena, a->target);
	for (int i = 0; i < a->n; i++)
		cpu_kernels_add(a->kernels, a->m, a->lowered[i]);
}

enum tw_code cpu_compile(struct tw_arena *a, struct twir_module *m, int n, struct twir_program *const *lowered,
			 const struct tw_target *t, const struct tw_toolchain *tc, int jobs,
			 bool (*progress)(void *arg, int done, int all), void *arg, struct tw_object *out,
			 struct tw_error *e)
{
	struct adding adding = {.arena = a, .m = m, .n = n, .lowered = lowered, .target = t};
	memset(out, 0, sizeof *out);
	if (!tw_try(e, add_all, &adding))
		return e->code;
	return cpu_kernels_compile(adding.kernels, tc, jobs, progress, arg, out, e);
}
