/* A loaded image. Input: an image's bytes or path; output: a model that any number of threads may share: nothing in it
 * changes until it is closed. */
#include "rt_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static void drop(void *image, int64_t bytes, enum twrt_own own)
{
	if (own == TWRT_FREE)
		free(image);
	else if (own == TWRT_UNMAP)
		munmap(image, (size_t)bytes);
}

static const struct twrt_code *choose(const struct twrt_image_view *v)
{
	const struct twrt_code *best = NULL;
	for (int i = 0; i < v->ncodes; i++)
		if (twrt_isa_runs_here(v->codes[i].isa) && (best == NULL || v->codes[i].isa > best->isa))
			best = &v->codes[i];
	return best;
}

static enum tw_code load(struct twrt_model *m, const struct twrt_loading *l, struct tw_error *e)
{
	struct twrt_image_view v;
	TWRT_TRY(twrt_image_view(l, &v, e));
	m->pile = twrt_pile_new();
	if (m->pile == NULL)
		return TWRT_FAIL(e, TW_ERR_MEMORY, "no memory to load the model");
	TWRT_TRY(twrt_plan_read(&v, m->pile, &m->plan, e));
	TWRT_TRY(twrt_plan_validate(&m->plan, false, e));
	if (m->plan.nkernels == 0)
		return TW_ERR_OK;
	const struct twrt_code *code = choose(&v);
	if (code == NULL)
		return TWRT_FAIL(e, TW_ERR_UNSUPPORTED, "the bundle holds code for %s, which this machine does not run",
				 v.ncodes ? twrt_isa_text(v.codes[0].isa) : "no machine at all");
	m->isa = code->isa;
	return twrt_code_load(code, m->plan.nkernels, m->plan.kernels, &m->code, e);
}

enum tw_code twrt_model_take(const struct twrt_loading *from, struct twrt_model **out, struct tw_error *e)
{
	*out = NULL;
	struct twrt_loading l = *from;
	struct twrt_model *m = l.bytes < 0 ? NULL : calloc(1, sizeof(*m));
	if (m && (uintptr_t)l.image % TWRT_ALIGN) { /* constants must be aligned: work on a copy */
		void *copy = twrt_alloc(l.bytes);
		if (copy)
			memcpy(copy, l.image, (size_t)l.bytes);
		drop(l.image, l.bytes, l.own);
		l.image = copy;
		l.own = TWRT_FREE;
	}
	if (m == NULL || l.image == NULL) {
		drop(l.image, l.bytes, l.own);
		free(m);
		return TWRT_FAIL(e, TW_ERR_MEMORY, "no memory to load the model");
	}
	*m = (struct twrt_model){.image = l.image, .bytes = l.bytes, .own = l.own, .code = {.fd = -1}};
	const enum tw_code code = load(m, &l, e);
	if (code != TW_ERR_OK) {
		twrt_model_close(m);
		return code;
	}
	*out = m;
	return TW_ERR_OK;
}

enum tw_code twrt_model_open(const void *image, int64_t bytes, enum twrt_own own, struct twrt_model **out,
			     struct tw_error *e)
{
	const struct twrt_loading l = {(void *)(uintptr_t)image, bytes, own, ""};
	return twrt_model_take(&l, out, e);
}

enum tw_code twrt_model_open_file(const char *path, struct twrt_model **out, struct tw_error *e)
{
	*out = NULL;
	const int fd =
		open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not block: it is refused just below */
	struct stat st;
	if (fd < 0 || fstat(fd, &st) != 0) {
		const int reason = errno;
		if (fd >= 0)
			close(fd);
		return TWRT_FAIL(e, TW_ERR_IO, "cannot read %s: %s", path, strerror(reason));
	}
	if (!S_ISREG(st.st_mode) || st.st_size == 0) {
		close(fd);
		return TWRT_FAIL(e, TW_ERR_MODEL, "%s is %s", path,
				 S_ISREG(st.st_mode) ? "empty" : "not a regular file");
	}
	struct twrt_loading l;
	const bool good = twrt_image_load(fd, st.st_size, &l);
	const int reason = errno;
	close(fd);
	if (!good)
		return TWRT_FAIL(e, TW_ERR_IO, "cannot map %s: %s", path, strerror(reason));
	return twrt_model_take(&l, out, e);
}

void twrt_model_close(struct twrt_model *m)
{
	if (m == NULL)
		return;
	twrt_code_unload(&m->code);
	twrt_pile_free(m->pile);
	drop(m->image, m->bytes, m->own);
	free(m);
}

const struct twrt_plan *twrt_model_plan(const struct twrt_model *m)
{
	return &m->plan;
}

const void *twrt_model_image(const struct twrt_model *m, int64_t *bytes, int *isa)
{
	*bytes = m->bytes;
	*isa = m->isa;
	return m->image;
}
