/* The whole pipeline on one screen: twc_lowered and pipeline name the steps in the order in which data flows. It always ends in a bundle image. */
#include "compile/compile_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void twc_progress(struct twc *c, const char *stage, int done, int all)
{
	const struct tw_compile_options *o = c->o;
	if ((o->progress && o->progress(o->progress_arg, stage, done, all)) || (o->cancel && o->cancel(o->cancel_arg)))
		tw_raise(TW_ERR_CANCELLED, "cancelled while %s", stage);
}

void twc_log(struct twc *c, enum tw_log_level level, const char *fmt, ...)
{
	char text[1024];
	va_list ap;
	if (!c->o->log)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	c->o->log(c->o->log_arg, level, text);
}

static void optimise(struct twc *c)
{
	if (!c->o->plain) {
		opt_fold_constants(c->g);
		opt_fold_affine(c->g);
	}
	if (!c->o->plain && !c->o->exact)
		opt_flush_weights(c->g);
	if (!c->o->plain)
		opt_merge_beside(c->g, c->target.lanes);
	opt_remove_dead(c->g);
}

/* The weights were looked at; until they are packed, others need the memory more. */
static void forget_weights(const struct twc *c, const void *model, int64_t bytes)
{
	if (c->o->file)
		tw_drop_pages(model, bytes);
	for (int i = 0; i < c->files.list.n; i++)
		tw_drop_pages(c->files.list.at[i].at, c->files.list.at[i].bytes);
}

void twc_lowered(struct twc *c, const void *model, int64_t bytes, const char *folder)
{
	twc_progress(c, "reading the model", 0, 1);
	twc_graph(c, model, bytes, folder); /* ONNX bytes -> graph */
	optimise(c);			    /* graph -> graph */
	forget_weights(c, model, bytes);
	opt_lower(c->g, &c->definitions); /* graph -> compute definitions */
	if (!c->o->plain) {
		opt_drop_checks(&c->definitions);
		opt_add_integers(&c->definitions);
		opt_tabulate(&c->definitions);
		opt_merge_products(&c->definitions);
	}
	c->groups.apart = c->o->plain;
	c->groups.exact = c->o->exact;
	c->groups.fma = c->target.has_fma;
	opt_group(&c->definitions, &c->groups); /* definitions -> tasks */
	if (!c->o->plain) {
		opt_convert(&c->groups, c->m); /* a caller's tensors around convolutions: copied into other layouts */
		opt_layout(&c->definitions, &c->groups);	/* feature maps between tasks: channels last */
		opt_widen_groups(&c->groups, c->m, &c->target); /* narrow groups of convolutions: as wide as a vector */
		opt_chain(&c->groups, c->m, &c->target);	/* large maps between tasks: never whole in memory */
		opt_loop(&c->groups, c->m, &c->target);		/* loops of short steps: one program */
	}
	if (c->o->keep)
		twc_keep_row_major(c);
	twc_kernels(c); /* tasks -> programs -> lowered programs -> C */
}

static bool compiler_progress(void *arg, int done, int all)
{
	const struct twc *c = arg;
	const struct tw_compile_options *o = c->o;
	return (o->progress && o->progress(o->progress_arg, "compiling kernels", done, all)) ||
	       (o->cancel && o->cancel(o->cancel_arg));
}

int twc_jobs(const struct twc *c)
{
	return c->o->jobs > 0 ? c->o->jobs : c->target.cores > 0 ? c->target.cores : 1;
}

static void generate_code(struct twc *c)
{
	struct tw_error e;
	if (cpu_kernels_finish(c->texts, compiler_progress, c, &c->code, &e) != TW_ERR_OK)
		tw_raise_error(&e);
}

struct job {
	struct twc *c;
	const void *model;
	int64_t bytes;
	const char *folder;
	void **image;
	int64_t *image_bytes;
};

/* Data that has been read for the last time, for now: its pages are given back. */
static void release(void *arg, const void *data, int64_t bytes)
{
	const struct job *j = arg;
	const char *at = data, *model = j->model;
	if (j->c->o->file && at >= model && at < model + j->bytes)
		tw_drop_pages(data, bytes);
	const struct tw_onnx_files *files = &j->c->files;
	for (int i = 0; i < files->list.n; i++) {
		const char *file = files->list.at[i].at;
		if (file && at >= file && at < file + files->list.at[i].bytes)
			tw_drop_pages(data, bytes);
	}
}

static void finish(struct job *j)
{
	struct twc *c = j->c;
	struct tw_error e;
	const struct twrt_code code = {c->code.object, (int64_t)c->code.object_bytes, (int)c->target.isa};
	twc_progress(c, "computing constants", 0, 1);
	if (twrt_bake(&c->plan, &code, twc_jobs(c), release, j, j->image, j->image_bytes, &e) != TW_ERR_OK)
		tw_raise_error(&e);
}

static void pipeline(void *arg)
{
	struct job *j = arg;
	struct twc *c = j->c;
	tw_target_host(&c->target);
	if (c->o->isa) {
		enum tw_isa isa;
		if (!tw_isa_parse(c->o->isa, &isa))
			tw_raise(TW_ERR_USAGE,
				 "there is no instruction set '%s': choose scalar, generic, neon, avx2, avx512 or "
				 "avx512vnni",
				 c->o->isa);
		tw_target_with_isa(&c->target, isa);
	}
	c->compiles = true;
	twc_lowered(c, j->model, j->bytes, j->folder); /* ONNX bytes -> lowered programs -> C: see above */
	tw_trim();				       /* the C compilers need it more */
	generate_code(c);			       /* C -> shared object: what of it is not yet done */
	if (c->o->keep)
		twc_keep(c); /* tensors between steps -> outputs */
	twc_plan(c);	     /* launches -> plan */
	finish(j);	     /* constants computed; plan + code + weights -> image */
}

enum tw_code tw_compile(const void *model, int64_t bytes, const char *folder, const struct tw_compile_options *o,
			void **image, int64_t *image_bytes, struct tw_error *e)
{
	const struct tw_compile_options none = {0};
	struct twc c = {.o = o ? o : &none, .started = now()};
	struct job j = {
		.c = &c, .model = model, .bytes = bytes, .folder = folder, .image = image, .image_bytes = image_bytes};
	*image = NULL;
	*image_bytes = 0;
	c.after = c.o->dump_dir ? twc_dump : NULL;
	c.arena = arena_new();
	if (!c.arena) {
		tw_error_set(e, TW_ERR_MEMORY, "out of memory");
		return TW_ERR_MEMORY;
	}
	const bool good = tw_try(e, pipeline, &j);
	if (good)
		twc_log(&c, TW_LOG_INFO, "compiled %d kernels in %.2f s", c.kernels.n, now() - c.started);
	cpu_kernels_drop(c.texts);
	tw_onnx_close(&c.files);
	arena_free(c.arena);
	return good ? TW_ERR_OK : e->code;
}
