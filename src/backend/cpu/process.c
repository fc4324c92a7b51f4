/* process: runs compilers. Input: argument vectors; output: exit status and the first lines they printed. No shell;
 * each process leads a group of its own, so that a driver and its passes are killed together; only processes started
 * here are waited for. */
#define _GNU_SOURCE
#include "backend/cpu/cpu_int.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

/* Our environment with TMPDIR = dir and messages in English. Pointers into environ and `extra`; freed by the caller. */
static char **environment(const char *dir, char extra[2][600])
{
	int n = 0;
	while (environ && environ[n])
		n++;
	char **env = calloc((size_t)n + 3, sizeof *env);
	if (!env)
		return NULL;
	int k = 0;
	for (int i = 0; i < n; i++)
		if (strncmp(environ[i], "LC_ALL=", 7) != 0 && !(dir && strncmp(environ[i], "TMPDIR=", 7) == 0))
			env[k++] = environ[i];
	snprintf(extra[0], 600, "LC_ALL=C");
	env[k++] = extra[0];
	if (dir) {
		snprintf(extra[1], 600, "TMPDIR=%s", dir);
		env[k++] = extra[1];
	}
	return env;
}

static int prepare(posix_spawn_file_actions_t *actions, posix_spawnattr_t *attr, int out, const char *dir)
{
	sigset_t none, defaults;
	sigemptyset(&none);
	sigemptyset(&defaults);
	sigaddset(&defaults, SIGPIPE);
	sigaddset(&defaults, SIGINT);
	sigaddset(&defaults, SIGTERM);
	int err = posix_spawn_file_actions_addopen(actions, 0, "/dev/null", O_RDONLY, 0);
	err = err ? err : posix_spawn_file_actions_adddup2(actions, out, 1);
	err = err ? err : posix_spawn_file_actions_adddup2(actions, out, 2);
	if (dir)
		err = err ? err : posix_spawn_file_actions_addchdir_np(actions, dir);
	err = err ? err : posix_spawnattr_setpgroup(attr, 0);
	err = err ? err : posix_spawnattr_setsigmask(attr, &none);
	err = err ? err : posix_spawnattr_setsigdefault(attr, &defaults);
	return err ? err
		   : posix_spawnattr_setflags(attr,
					      POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
}

int process_start(struct process *p, char *const *argv, const char *dir)
{
	memset(p, 0, sizeof *p);
	p->fd = -1;
	p->status = -1;
	int fds[2];
	if (pipe2(fds, O_CLOEXEC) != 0)
		return errno;
	char extra[2][600];
	char **env = environment(dir, extra);
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	int err = env ? 0 : ENOMEM;
	if (!err && (err = posix_spawn_file_actions_init(&actions)) == 0) {
		if ((err = posix_spawnattr_init(&attr)) == 0) {
			err = prepare(&actions, &attr, fds[1], dir);
			if (!err)
				err = posix_spawnp(&p->pid, argv[0], &actions, &attr, argv, env);
			posix_spawnattr_destroy(&attr);
		}
		posix_spawn_file_actions_destroy(&actions);
	}
	free(env);
	close(fds[1]);
	if (err) {
		close(fds[0]);
		p->pid = 0;
		return err;
	}
	p->fd = fds[0];
	return 0;
}

static void finish(struct process *p)
{
	close(p->fd);
	p->fd = -1;
	int status;
	pid_t got;
	do
		got = waitpid(p->pid, &status, 0);
	while (got < 0 && errno == EINTR);
	p->status = got == p->pid ? status : -1; /* someone else waited: the object file tells whether it went well */
	p->pid = 0;
}

bool process_read(struct process *p)
{
	char chunk[4096];
	const ssize_t got = read(p->fd, chunk, sizeof chunk);
	if (got < 0 && (errno == EINTR || errno == EAGAIN))
		return true;
	if (got <= 0) {
		finish(p);
		return false;
	}
	size_t room = PROCESS_OUTPUT - p->n;
	if (room > (size_t)got)
		room = (size_t)got;
	memcpy(p->output + p->n, chunk, room);
	p->n += room;
	return true;
}

void process_kill(struct process *p)
{
	if (!p->pid)
		return;
	kill(-p->pid, SIGKILL);
	kill(p->pid, SIGKILL);
	finish(p);
}

bool process_ok(const struct process *p)
{
	return p->status == -1 || (WIFEXITED(p->status) && WEXITSTATUS(p->status) == 0);
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

enum tw_code process_run(struct process *p, char *const *argv, const char *dir, int seconds, int *error)
{
	*error = process_start(p, argv, dir);
	if (*error)
		return TW_ERR_TOOLCHAIN;
	const double end = now() + seconds;
	while (p->pid) {
		struct pollfd wait = {.fd = p->fd, .events = POLLIN};
		const double left = end - now();
		if (left <= 0) {
			process_kill(p);
			*error = ETIMEDOUT;
			return TW_ERR_TOOLCHAIN;
		}
		if (poll(&wait, 1, (int)(left * 1000) + 1) > 0)
			process_read(p);
	}
	return process_ok(p) ? TW_ERR_OK : TW_ERR_TOOLCHAIN;
}
