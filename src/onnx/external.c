/* external.c: weights in files beside the model.
 *
 * Input: a location as the model gives it, offset and length. Output: the mapped bytes. Invariant: only regular
 * files inside the model's folder are opened: no absolute path, no "..", no symbolic link that leads outside; each
 * is mapped once. */
#include "onnx/onnx_int.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

void tw_onnx_close(struct tw_onnx_files *files)
{
	for (int i = 0; i < files->list.n; i++)
		if (files->list.at[i].at)
			munmap(files->list.at[i].at, (size_t)files->list.at[i].bytes);
	files->list.n = 0;
}

static bool plain_relative(const char *path)
{
	if (!*path || *path == '/')
		return false;
	for (const char *part = path; part;) {
		const char *slash = strchr(part, '/');
		const size_t n = slash ? (size_t)(slash - part) : strlen(part);
		if (n == 2 && part[0] == '.' && part[1] == '.')
			return false;
		part = slash ? slash + 1 : NULL;
	}
	return true;
}

static struct tw_onnx_file *open_inside(struct tw_arena *a, const struct onnx_tensor_options *o, const char *tensor,
					const char *location)
{
	for (int i = 0; i < o->files->list.n; i++)
		if (!strcmp(o->files->list.at[i].name, location))
			return &o->files->list.at[i];
	if (!plain_relative(location))
		tw_raise(TW_ERR_MODEL, "tensor '%s': external data '%s' is not a path inside the model's folder",
			 tensor, location);
	char folder[PATH_MAX], path[PATH_MAX];
	if (!realpath(*o->folder ? o->folder : ".", folder))
		tw_raise(TW_ERR_IO, "folder '%s' of the model cannot be read", o->folder);
	const char *joined = arena_printf(a, "%s/%s", folder, location);
	if (strlen(joined) >= PATH_MAX || !realpath(joined, path))
		tw_raise(TW_ERR_IO, "tensor '%s': external data file '%s' does not exist", tensor, location);
	const size_t n = strlen(folder);
	const bool root = n == 1;
	if (strncmp(path, folder, n) || (!root && path[n] != '/'))
		tw_raise(TW_ERR_MODEL, "tensor '%s': external data '%s' leads outside the model's folder", tensor,
			 location);
	const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode)) {
		if (fd >= 0)
			close(fd);
		tw_raise(TW_ERR_IO, "tensor '%s': external data file '%s' cannot be read", tensor, location);
	}
	void *at = st.st_size ? mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
	close(fd);
	if (at == MAP_FAILED)
		tw_raise(TW_ERR_IO, "tensor '%s': external data file '%s' cannot be mapped", tensor, location);
	/* Room in the list was made by the caller, so that nothing can fail between the mapping and its record. */
	o->files->list.at[o->files->list.n] =
		(struct tw_onnx_file){.name = location, .at = at, .bytes = st.st_size, .st = st};
	return &o->files->list.at[o->files->list.n++];
}

const void *onnx_external(struct tw_arena *a, const struct onnx_tensor_options *o, const char *tensor,
			  const char *location, int64_t offset, int64_t length, int64_t *bytes)
{
	if (!o->folder || !o->files)
		tw_raise(TW_ERR_MODEL, "tensor '%s': external data needs a model read from a file", tensor);
	vec_grow(a, (void **)&o->files->list.at, &o->files->list.cap, o->files->list.n, sizeof *o->files->list.at);
	const struct tw_onnx_file *f = open_inside(a, o, tensor, location);
	if (length < 0)
		length = f->bytes - offset;
	if (offset < 0 || length < 0 || offset > f->bytes || length > f->bytes - offset)
		tw_raise(TW_ERR_MODEL,
			 "tensor '%s': external data at %lld + %lld is beyond the end of '%s' (%lld bytes)", tensor,
			 (long long)offset, (long long)length, location, (long long)f->bytes);
	*bytes = length;
	return length ? (const uint8_t *)f->at + offset : NULL;
}
