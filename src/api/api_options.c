/* Public interface: options of a compilation. */
#include "api_int.h"

#include "target/target.h"

#include <stdlib.h>

tilewright_options *tilewright_create_options(void)
{
	tilewright_options *o = calloc(1, sizeof(*o));
	if (o)
		o->use_cache = true;
	else
		tw_error_set(tilewright_error_slot(), TW_ERR_MEMORY, "no memory for options");
	return o;
}

void tilewright_free_options(tilewright_options *o)
{
	if (o == NULL)
		return;
	for (int i = 0; i < o->nfixed; i++)
		free(o->fixed_names[i]);
	for (int i = 0; i < o->noperators; i++) {
		free((char *)(uintptr_t)o->operators[i].domain);
		free((char *)(uintptr_t)o->operators[i].name);
		free((char *)(uintptr_t)o->operators[i].file);
		free((char *)(uintptr_t)o->operators[i].text);
	}
	free(o->operators);
	free(o->fixed_names);
	free(o->fixed_values);
	free(o->dump);
	free(o);
}

#define NEED_OPTIONS(o)                                                                                                \
	do {                                                                                                           \
		if ((o) == NULL)                                                                                       \
			return API_FAIL(TW_ERR_USAGE, "options are NULL");                                             \
	} while (0)

tilewright_status tilewright_set_jobs(tilewright_options *o, int jobs)
{
	NEED_OPTIONS(o);
	if (jobs < 0)
		return API_FAIL(TW_ERR_USAGE, "%d jobs", jobs);
	o->jobs = jobs;
	return TILEWRIGHT_OK;
}

tilewright_status tilewright_set_isa(tilewright_options *o, const char *isa)
{
	NEED_OPTIONS(o);
	enum tw_isa parsed;
	if (isa && !tw_isa_parse(isa, &parsed))
		return API_FAIL(TW_ERR_USAGE, "\"%.40s\" is no instruction set: scalar, generic, neon, avx2, avx512",
				isa);
	if (isa && !tw_isa_runs_here(parsed))
		return API_FAIL(TW_ERR_USAGE, "this machine does not run %s", isa);
	o->isa[0] = '\0';
	if (isa && strlen(isa) < sizeof(o->isa))
		memcpy(o->isa, isa, strlen(isa) + 1);
	return TILEWRIGHT_OK;
}

static bool grow(void **at, int n, size_t size)
{
	void *more = realloc(*at, ((size_t)n + 1) * size);
	if (more)
		*at = more;
	return more != NULL;
}

tilewright_status tilewright_fix_symbol(tilewright_options *o, const char *symbol, int64_t value)
{
	NEED_OPTIONS(o);
	if (symbol == NULL || symbol[0] == '\0' || value < 0)
		return API_FAIL(TW_ERR_USAGE, "a symbol to fix needs a name and a size of 0 or more");
	for (int i = 0; i < o->nfixed; i++)
		if (strcmp(o->fixed_names[i], symbol) == 0) {
			o->fixed_values[i] = value;
			return TILEWRIGHT_OK;
		}
	char *copy = strdup(symbol);
	if (copy == NULL || !grow((void **)&o->fixed_names, o->nfixed, sizeof(*o->fixed_names)) ||
	    !grow((void **)&o->fixed_values, o->nfixed, sizeof(*o->fixed_values))) {
		free(copy);
		return API_FAIL(TW_ERR_MEMORY, "no memory for options");
	}
	o->fixed_names[o->nfixed] = copy;
	o->fixed_values[o->nfixed++] = value;
	return TILEWRIGHT_OK;
}

tilewright_status tilewright_add_operator(tilewright_options *o, const char *domain, const char *name, const char *file,
					  const char *text)
{
	NEED_OPTIONS(o);
	if (name == NULL || name[0] == '\0' || text == NULL)
		return API_FAIL(TW_ERR_USAGE, "an operator needs a name and a text");
	struct tw_operator_text t = {domain ? strdup(domain) : NULL, strdup(name), strdup(file ? file : name),
				     strdup(text)};
	if ((domain && t.domain == NULL) || t.name == NULL || t.file == NULL || t.text == NULL ||
	    !grow((void **)&o->operators, o->noperators, sizeof(*o->operators))) {
		free((char *)(uintptr_t)t.domain);
		free((char *)(uintptr_t)t.name);
		free((char *)(uintptr_t)t.file);
		free((char *)(uintptr_t)t.text);
		return API_FAIL(TW_ERR_MEMORY, "no memory for options");
	}
	o->operators[o->noperators++] = t;
	return TILEWRIGHT_OK;
}

tilewright_status tilewright_add_operator_file(tilewright_options *o, const char *domain, const char *name,
					       const char *path)
{
	NEED_OPTIONS(o);
	tilewright_status s;
	if (path == NULL)
		return API_FAIL(TW_ERR_USAGE, "path is NULL");
	char *text = tilewright_read_text(path, &s);
	if (text)
		s = tilewright_add_operator(o, domain, name, path, text);
	free(text);
	return s;
}

tilewright_status tilewright_use_cache(tilewright_options *o, int use)
{
	NEED_OPTIONS(o);
	o->use_cache = use != 0;
	return TILEWRIGHT_OK;
}

tilewright_status tilewright_set_optimise(tilewright_options *o, int optimise)
{
	NEED_OPTIONS(o);
	o->plain = !optimise;
	return TILEWRIGHT_OK;
}

tilewright_status tilewright_set_exact(tilewright_options *o, int exact)
{
	NEED_OPTIONS(o);
	o->exact = exact != 0;
	return TILEWRIGHT_OK;
}

tilewright_status tilewright_keep_tensors(tilewright_options *o, int keep)
{
	NEED_OPTIONS(o);
	o->keep = keep != 0;
	return TILEWRIGHT_OK;
}

tilewright_status tilewright_set_dump(tilewright_options *o, const char *folder)
{
	NEED_OPTIONS(o);
	char *copy = folder ? strdup(folder) : NULL;
	if (folder && copy == NULL)
		return API_FAIL(TW_ERR_MEMORY, "no memory for options");
	free(o->dump);
	o->dump = copy;
	return TILEWRIGHT_OK;
}

tilewright_status tilewright_set_log(tilewright_options *o,
				     void (*log)(void *arg, tilewright_log_level level, const char *text), void *arg)
{
	NEED_OPTIONS(o);
	o->log = log;
	o->log_arg = arg;
	return TILEWRIGHT_OK;
}

tilewright_status tilewright_set_cancel(tilewright_options *o, int (*cancel)(void *arg), void *arg)
{
	NEED_OPTIONS(o);
	o->cancel = cancel;
	o->cancel_arg = arg;
	return TILEWRIGHT_OK;
}

tilewright_status tilewright_set_progress(tilewright_options *o,
					  int (*progress)(void *arg, const char *stage, int done, int all), void *arg)
{
	NEED_OPTIONS(o);
	o->progress = progress;
	o->progress_arg = arg;
	return TILEWRIGHT_OK;
}

static void forward_log(void *arg, int level, const char *text)
{
	tilewright_log(arg, (tilewright_log_level)level, text);
}

static bool forward_cancel(void *arg)
{
	const tilewright_options *o = arg;
	return o->cancel(o->cancel_arg) != 0;
}

static bool forward_progress(void *arg, const char *stage, int done, int all)
{
	const tilewright_options *o = arg;
	return o->progress(o->progress_arg, stage, done, all) != 0;
}

void tilewright_log(const tilewright_options *o, tilewright_log_level level, const char *text)
{
	if (o && o->log)
		o->log(o->log_arg, level, text);
}

struct tw_compile_options tilewright_compile_options(const tilewright_options *o)
{
	if (o == NULL)
		return (struct tw_compile_options){.use_cache = true};
	void *self = (void *)(uintptr_t)o;
	return (struct tw_compile_options){.jobs = o->jobs,
					   .isa = o->isa[0] ? o->isa : NULL,
					   .nfixed = o->nfixed,
					   .fixed_names = (const char *const *)o->fixed_names,
					   .fixed_values = o->fixed_values,
					   .noperators = o->noperators,
					   .operators = o->operators,
					   .use_cache = o->use_cache,
					   .plain = o->plain,
					   .keep = o->keep,
					   .exact = o->exact,
					   .dump_dir = o->dump,
					   .log = o->log ? forward_log : NULL,
					   .log_arg = self,
					   .cancel = o->cancel ? forward_cancel : NULL,
					   .cancel_arg = self,
					   .progress = o->progress ? forward_progress : NULL,
					   .progress_arg = self};
}
