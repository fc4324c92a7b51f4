/* compile_cpu: files of C to one shared object. They are written to a private folder, while programs are still added or
 * at the end, compiled by several compilers at once, linked without any library; the object is read back. Whatever
 * happens, drop ends the compilers and removes the folder. */
#define _GNU_SOURCE
#include "backend/cpu/cpu_int.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

enum { MAX_JOBS = 64 };

struct cpu_work {
	struct cpu_kernels *kernels;
	const struct tw_toolchain *tc;
	bool (*progress)(void *arg, int done, int all);
	void *arg;
	int jobs;
	struct tempdir dir;
	int next, done; /* files */
	struct process slots[MAX_JOBS];
	void *object;
	size_t bytes;
	struct tw_error *e;
};

/* The first lines that a compiler printed, and what to make of them. */
static enum tw_code compiler_failed(struct cpu_work *w, const struct process *p, const char *doing)
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

static enum tw_code cannot_start(struct cpu_work *w, int error)
{
	tw_error_set(w->e, TW_ERR_TOOLCHAIN,
		     "compiling kernels: cannot start %s: %s\nhint: TILEWRIGHT_CC chooses the compiler", w->tc->command,
		     strerror(error));
	return TW_ERR_TOOLCHAIN;
}

static enum tw_code start_file(struct cpu_work *w, int slot, int file)
{
	struct command c;
	char from[32], to[32];
	snprintf(from, sizeof from, "k%d.c", file);
	snprintf(to, sizeof to, "k%d.o", file);
	const char *source = w->kernels->sources.at[file];
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
	const int error = process_start(&w->slots[slot], c.argv, w->dir.path);
	return error ? cannot_start(w, error) : TW_ERR_OK;
}

static enum tw_code cancelled(struct cpu_work *w)
{
	tw_error_set(w->e, TW_ERR_CANCELLED, "compiling kernels: cancelled");
	return TW_ERR_CANCELLED;
}

static bool stop_wanted(const struct cpu_work *w)
{
	return w->progress && w->progress(w->arg, w->done, w->kernels->sources.n);
}

/* Takes what compilers say, after at most so many ms; w->done counts those that ended well. */
static enum tw_code listen(struct cpu_work *w, int ms)
{
	struct pollfd wait[MAX_JOBS];
	int slot_of[MAX_JOBS], n = 0;
	for (int i = 0; i < w->jobs; i++)
		if (w->slots[i].pid) {
			wait[n] = (struct pollfd){.fd = w->slots[i].fd, .events = POLLIN};
			slot_of[n++] = i;
		}
	if (n == 0)
		return TW_ERR_OK;
	const int ready = poll(wait, (nfds_t)n, ms);
	if (ready <= 0)
		return stop_wanted(w) ? cancelled(w) : TW_ERR_OK;
	for (int i = 0; i < n; i++) {
		struct process *p = &w->slots[slot_of[i]];
		if (!wait[i].revents || process_read(p))
			continue;
		if (!process_ok(p))
			return compiler_failed(w, p, "compiling kernels");
		w->done++;
		if (stop_wanted(w))
			return cancelled(w);
	}
	return TW_ERR_OK;
}

static enum tw_code start_files(struct cpu_work *w, int jobs)
{
	enum tw_code code = TW_ERR_OK;
	for (int i = 0; i < jobs && w->next < w->kernels->sources.n && code == TW_ERR_OK; i++)
		if (!w->slots[i].pid)
			code = start_file(w, i, w->next++);
	return code;
}

/* Asks progress ten times a second, so that a cancel is quick. */
static enum tw_code compile_files(struct cpu_work *w)
{
	enum tw_code code = TW_ERR_OK;
	while (code == TW_ERR_OK && w->done < w->kernels->sources.n) {
		code = start_files(w, w->jobs);
		if (code == TW_ERR_OK)
			code = listen(w, 100);
	}
	return code;
}

static enum tw_code link_files(struct cpu_work *w)
{
	struct command c;
	command_init(&c);
	cpu_link_flags(&c, w->tc);
	command_add(&c, "-o kernels.so @objects"); /* the names in a response file: any number of them */
	char list[CPU_MOST_FILES * 16] = "";
	size_t n = 0;
	for (int f = 0; f < w->kernels->sources.n; f++)
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
	struct cpu_work *w = arg;
	if (tempdir_read(&w->dir, "kernels.so", w->kernels->arena, &w->object, &w->bytes, w->e) != TW_ERR_OK)
		tw_raise_error(w->e);
}

struct making {
	struct tw_arena *arena;
	struct cpu_work *work;
};

static void make_work(void *arg)
{
	struct making *m = arg;
	m->work = ARENA_NEW(m->arena, struct cpu_work);
}

enum tw_code cpu_kernels_begin(struct cpu_kernels *k, const struct tw_toolchain *tc, int jobs, struct tw_error *e)
{
	struct making making = {.arena = k->arena}; /* too large for the stack */
	if (!tw_try(e, make_work, &making))
		return e->code;
	struct cpu_work *w = making.work;
	w->kernels = k;
	w->tc = tc;
	w->jobs = jobs < 1 ? 1 : jobs > MAX_JOBS ? MAX_JOBS : jobs;
	w->dir.lock = -1;
	k->work = w;
	return TW_ERR_OK;
}

/* The folder is made for the first file: where there is none, none is needed. */
static enum tw_code prepare(struct cpu_work *w)
{
	return w->dir.path[0] || w->kernels->sources.n == 0 ? TW_ERR_OK : tempdir_make(&w->dir, w->e);
}

enum tw_code cpu_kernels_turn(struct cpu_kernels *k, struct tw_error *e)
{
	struct cpu_work *w = k->work;
	w->e = e;
	enum tw_code code = listen(w, 0);
	if (code == TW_ERR_OK)
		code = prepare(w);
	return code == TW_ERR_OK ? start_files(w, w->jobs - 1) : code;
}

static void last_files(void *arg)
{
	cpu_last_files(arg);
}

enum tw_code cpu_kernels_finish(struct cpu_kernels *k, bool (*progress)(void *arg, int done, int all), void *arg,
				struct tw_object *out, struct tw_error *e)
{
	struct cpu_work *w = k->work;
	memset(out, 0, sizeof *out);
	w->progress = progress;
	w->arg = arg;
	w->e = e;
	if (!tw_try(e, last_files, k))
		return e->code;
	enum tw_code code = prepare(w);
	if (code == TW_ERR_OK)
		code = compile_files(w);
	if (code == TW_ERR_OK && k->sources.n > 0)
		code = link_files(w);
	if (code == TW_ERR_OK && k->sources.n > 0 && !tw_try(e, read_object, w)) /* the arena may be out of memory */
		code = e->code;
	if (code != TW_ERR_OK)
		return code;
	out->object = w->object;
	out->object_bytes = w->bytes;
	out->nkernels = k->names.n;
	out->names = k->names.at;
	out->files = k->sources.n;
	return TW_ERR_OK;
}

void cpu_kernels_drop(struct cpu_kernels *k)
{
	if (!k || !k->work)
		return;
	for (int i = 0; i < k->work->jobs; i++)
		process_kill(&k->work->slots[i]);
	tempdir_remove(&k->work->dir);
	k->work = NULL;
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
	enum tw_code code = cpu_kernels_begin(adding.kernels, tc, jobs, e);
	if (code == TW_ERR_OK)
		code = cpu_kernels_finish(adding.kernels, progress, arg, out, e);
	cpu_kernels_drop(adding.kernels);
	return code;
}
