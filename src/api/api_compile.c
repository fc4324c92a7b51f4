/* Public interface: from ONNX bytes to a model: the cache, else the compiler. */
#include "api_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct file {
	void *at; /* NULL: empty */
	int64_t bytes;
	struct twrt_file on_disk; /* path NULL: in memory alone */
};

static enum tw_code map_file(const char *path, struct file *f, struct tw_error *e)
{
	*f = (struct file){0};
	clock_gettime(CLOCK_REALTIME, &f->on_disk.looked);
	const int fd =
		open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not block: it is refused just below */
	struct stat st;
	enum tw_code code = TW_ERR_OK;
	if (fd < 0 || fstat(fd, &st) != 0) {
		tw_error_set(e, code = TW_ERR_IO, "cannot read %s: %s", path, strerror(errno));
	} else if (!S_ISREG(st.st_mode)) {
		tw_error_set(e, code = TW_ERR_IO, "cannot read %s: it is not a regular file", path);
	} else if (st.st_size > 0) {
		f->bytes = st.st_size;
		f->on_disk.path = path;
		f->on_disk.st = st;
		f->at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
		if (f->at == MAP_FAILED)
			tw_error_set(e, code = TW_ERR_IO, "cannot map %s: %s", path, strerror(errno));
	}
	if (fd >= 0)
		close(fd);
	return code;
}

static void unmap_file(struct file *f)
{
	if (f->at)
		munmap(f->at, (size_t)f->bytes);
}

static enum tw_code folder_of(const char *path, char *folder, size_t n, struct tw_error *e)
{
	const char *slash = strrchr(path, '/');
	const size_t length = slash == path ? 1 : slash ? (size_t)(slash - path) : 1;
	if (length >= n) {
		tw_error_set(e, TW_ERR_IO, "%.200s..: the path is too long", path);
		return TW_ERR_IO;
	}
	memcpy(folder, slash ? path : ".", length);
	folder[length] = '\0';
	return TW_ERR_OK;
}

static enum tw_code compile(const struct file *f, const char *folder, const tilewright_options *o,
			    tilewright_model **out, struct tw_error *e)
{
	struct tw_compile_options options = tilewright_compile_options(o);
	options.file = f->on_disk.path ? &f->on_disk : NULL;
	const bool use_cache = options.use_cache && options.dump_dir == NULL;
	const void *data = f->at ? f->at : "";
	char key[33];
	struct twrt_model *rt = NULL;
	const double start = tilewright_now_ms();
	if (use_cache) {
		const enum tw_code code = tw_compile_key(data, f->bytes, folder, &options, key, e);
		if (code != TW_ERR_OK)
			return code;
		if (twrt_cache_get(key, &rt))
			return tilewright_wrap_model(rt, 0, tilewright_now_ms() - start, true, out, e);
	}
	void *image = NULL;
	int64_t bytes = 0;
	enum tw_code code = tw_compile(data, f->bytes, folder, &options, &image, &bytes, e);
	if (code != TW_ERR_OK)
		return code;
	struct tw_error cache_error;
	if (use_cache && twrt_cache_put(key, image, bytes, &cache_error) != TW_ERR_OK)
		tilewright_log(o, TILEWRIGHT_LOG_WARNING, cache_error.text); /* slower next time, not wrong */
	const double compiled = tilewright_now_ms();
	code = twrt_model_open(image, bytes, TWRT_FREE, &rt, e);
	if (code != TW_ERR_OK)
		return code;
	return tilewright_wrap_model(rt, compiled - start, tilewright_now_ms() - compiled, false, out, e);
}

tilewright_status tilewright_compile_file(const char *path, const tilewright_options *options, tilewright_model **model)
{
	struct tw_error *e = tilewright_error_slot();
	if (path == NULL || model == NULL)
		return API_FAIL(TW_ERR_USAGE, "path or model is NULL");
	*model = NULL;
	struct file f;
	char folder[4096];
	enum tw_code code = map_file(path, &f, e);
	if (code != TW_ERR_OK)
		return (tilewright_status)code;
	if (twrt_image_is(f.at, f.bytes)) {
		unmap_file(&f);
		if (options && (options->plain || options->keep))
			return API_FAIL(TW_ERR_USAGE, "%.500s is compiled already: this needs the ONNX file", path);
		return tilewright_load_file(path, model);
	}
	code = folder_of(path, folder, sizeof(folder), e);
	if (code == TW_ERR_OK)
		code = compile(&f, folder, options, model, e);
	unmap_file(&f);
	return (tilewright_status)code;
}

tilewright_status tilewright_compile_memory(const void *data, size_t bytes, const char *folder,
					    const tilewright_options *options, tilewright_model **model)
{
	if (model == NULL || (data == NULL && bytes > 0) || bytes > INT64_MAX)
		return API_FAIL(TW_ERR_USAGE, "data or model is NULL");
	*model = NULL;
	const struct file f = {bytes ? (void *)(uintptr_t)data : NULL, (int64_t)bytes, {NULL}};
	return (tilewright_status)compile(&f, folder, options, model, tilewright_error_slot());
}

tilewright_status tilewright_load_file(const char *path, tilewright_model **model)
{
	struct tw_error *e = tilewright_error_slot();
	if (path == NULL || model == NULL)
		return API_FAIL(TW_ERR_USAGE, "path or model is NULL");
	*model = NULL;
	struct twrt_model *rt;
	const double start = tilewright_now_ms();
	const enum tw_code code = twrt_model_open_file(path, &rt, e);
	if (code != TW_ERR_OK)
		return (tilewright_status)code;
	return (tilewright_status)tilewright_wrap_model(rt, 0, tilewright_now_ms() - start, false, model, e);
}

tilewright_status tilewright_load_memory(const void *data, size_t bytes, tilewright_model **model)
{
	struct tw_error *e = tilewright_error_slot();
	if (data == NULL || model == NULL || bytes > INT64_MAX)
		return API_FAIL(TW_ERR_USAGE, "data or model is NULL");
	*model = NULL;
	struct twrt_model *rt;
	const double start = tilewright_now_ms();
	const enum tw_code code = twrt_model_open(data, (int64_t)bytes, TWRT_BORROW, &rt, e);
	if (code != TW_ERR_OK)
		return (tilewright_status)code;
	return (tilewright_status)tilewright_wrap_model(rt, 0, tilewright_now_ms() - start, false, model, e);
}

tilewright_status tilewright_save_model(const tilewright_model *model, const char *path)
{
	if (model == NULL || path == NULL)
		return API_FAIL(TW_ERR_USAGE, "path or model is NULL");
	int64_t bytes;
	int isa;
	const void *image = twrt_model_image(model->rt, &bytes, &isa);
	return (tilewright_status)twrt_image_save(path, image, bytes, tilewright_error_slot());
}

tilewright_status tilewright_check_file(const char *path, const tilewright_options *options, char **table)
{
	struct tw_error *e = tilewright_error_slot();
	if (path == NULL || table == NULL)
		return API_FAIL(TW_ERR_USAGE, "path or table is NULL");
	*table = NULL;
	const struct tw_compile_options o = tilewright_compile_options(options);
	struct file f;
	char folder[4096];
	enum tw_code code = map_file(path, &f, e);
	if (code != TW_ERR_OK)
		return (tilewright_status)code;
	code = folder_of(path, folder, sizeof(folder), e);
	if (code == TW_ERR_OK)
		code = tw_check(f.at ? f.at : "", f.bytes, folder, &o, table, e);
	unmap_file(&f);
	return (tilewright_status)code;
}

struct taker {
	tilewright_take take;
	void *arg;
};

static int64_t bytes_of(const tilewright_tensor *t, bool *bad)
{
	int64_t n = tilewright_type_bytes(t->type);
	for (int d = 0; d < t->rank; d++) {
		*bad = *bad || t->dims[d] < 0;
		n = tw_mul64(n, t->dims[d], bad);
	}
	return n;
}

static void take(void *arg, const char *name, const struct tw_dense *t)
{
	const struct taker *to = arg;
	bool bad = false;
	tilewright_tensor x = {.type = (tilewright_type)t->type, .rank = t->rank, .data = t->data};
	memcpy(x.dims, t->dims, sizeof(x.dims));
	x.bytes = (size_t)bytes_of(&x, &bad);
	to->take(to->arg, name, &x);
}

tilewright_status tilewright_interpret_file(const char *path, const tilewright_options *options, int count,
					    const tilewright_tensor *inputs, double most, tilewright_take taken,
					    void *arg)
{
	struct tw_error *e = tilewright_error_slot();
	if (path == NULL || count < 0 || (count > 0 && inputs == NULL) || taken == NULL)
		return API_FAIL(TW_ERR_USAGE, "path, inputs or the function to call are NULL");
	struct file f;
	char folder[4096];
	enum tw_code code = map_file(path, &f, e);
	if (code != TW_ERR_OK)
		return (tilewright_status)code;
	struct tw_dense *in = calloc((size_t)count + 1, sizeof(*in));
	if (in == NULL)
		tw_error_set(e, code = TW_ERR_MEMORY, "no memory for inputs");
	for (int i = 0; code == TW_ERR_OK && i < count; i++) {
		const tilewright_tensor *t = &inputs[i];
		bool bad = t->rank < 0 || t->rank > TILEWRIGHT_MAX_RANK || tilewright_type_bytes(t->type) == 0;
		const int64_t bytes = bad ? 0 : bytes_of(t, &bad);
		if (bad || (size_t)bytes != t->bytes || (bytes > 0 && t->data == NULL)) {
			tw_error_set(e, code = TW_ERR_INPUT, "input %d: type, sizes and bytes do not fit", i);
			break;
		}
		in[i] = (struct tw_dense){.type = (int)t->type, .rank = t->rank, .data = t->data};
		memcpy(in[i].dims, t->dims, sizeof(in[i].dims));
	}
	struct taker to = {taken, arg};
	const struct tw_compile_options o = tilewright_compile_options(options);
	if (code == TW_ERR_OK)
		code = folder_of(path, folder, sizeof(folder), e);
	if (code == TW_ERR_OK)
		code = tw_interpret(f.at ? f.at : "", f.bytes, folder, &o, count, in, most, take, &to, e);
	free(in);
	unmap_file(&f);
	return (tilewright_status)code;
}
