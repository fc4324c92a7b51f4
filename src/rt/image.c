/* The bundle image: one block of bytes that is mapped, checked and run in place.
 *
 *     header | code objects | constants | plan | table of code objects        each part 64-byte aligned
 *
 * Input: a plan and code objects, or bytes of unknown origin; output: an image, or a view into one whose offsets are
 * all in bounds and whose checksum is right. */
#include "rt_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define MAGIC "TWBUNDLE"
enum { PIECE = 4 << 20 }; /* of a constant: copied, then its source may go */
enum { VERSION = 5, ORDER = 0x01020304 };

struct header {
	char magic[8];
	uint32_t version, order;
	int64_t bytes;
	uint64_t checksum; /* of everything, this field as 0 */
	int64_t plan, plan_words;
	int64_t codes, ncodes;
};
struct code_entry {
	int64_t at, bytes, isa, unused;
};
_Static_assert(sizeof(struct header) == TWRT_HEADER, "the header is part of the format");

/* digest: of what follows the header; "": not made yet */
static uint64_t checksum(const struct header *h, const void *image, const char *digest)
{
	char made[33];
	struct header copy = *h;
	copy.checksum = 0;
	if (!*digest)
		twrt_digest((const char *)image + sizeof(copy), h->bytes - (int64_t)sizeof(copy), false, made);
	return tw_hash64(*digest ? digest : made, sizeof(made), tw_hash64(&copy, sizeof(copy), 0));
}

static int64_t place(int64_t *end, int64_t bytes, bool *bad)
{
	const int64_t at = tw_add64(*end, TWRT_ALIGN - 1, bad) / TWRT_ALIGN * TWRT_ALIGN;
	*end = tw_add64(at, bytes, bad);
	return at;
}

static enum tw_code assemble(const struct twrt_plan *p, int ncodes, const struct twrt_code *codes,
			     twrt_release *release, void *arg, int64_t *const_at, void **image, int64_t *bytes,
			     struct tw_error *e)
{
	bool bad = false;
	int64_t end = sizeof(struct header);
	int64_t code_at[8];
	for (int i = 0; i < ncodes; i++)
		code_at[i] = place(&end, codes[i].bytes, &bad);
	for (int i = 0; i < p->nbuffers; i++)
		if (p->buffers[i].kind == TWRT_CONST)
			const_at[i] = place(&end, p->buffers[i].const_bytes, &bad);
	int64_t *words = NULL, nwords = 0;
	TWRT_TRY(twrt_plan_write(p, const_at, &words, &nwords, e));
	struct header h = {.magic = MAGIC, .version = VERSION, .order = ORDER, .plan_words = nwords, .ncodes = ncodes};
	h.plan = place(&end, 8 * nwords, &bad);
	h.codes = place(&end, ncodes * (int64_t)sizeof(struct code_entry), &bad);
	place(&end, 0, &bad);
	h.bytes = end / TWRT_ALIGN * TWRT_ALIGN + (end % TWRT_ALIGN ? TWRT_ALIGN : 0);
	char *at = bad ? NULL : twrt_alloc(h.bytes);
	if (at == NULL) {
		free(words);
		return TWRT_FAIL(e, TW_ERR_MEMORY, "no memory for a bundle of %lld bytes", (long long)h.bytes);
	}
	int64_t filled = sizeof(h); /* gaps become zeros, so that equal input gives equal images */
#define PUT(offset, from, size)                                                                                        \
	do {                                                                                                           \
		memset(at + filled, 0, (size_t)((offset)-filled));                                                     \
		if ((size) > 0)                                                                                        \
			memcpy(at + (offset), (from), (size_t)(size));                                                 \
		filled = (offset) + (size);                                                                            \
	} while (0)
	for (int i = 0; i < ncodes; i++)
		PUT(code_at[i], codes[i].object, codes[i].bytes);
	for (int i = 0; i < p->nbuffers; i++)
		for (int64_t from = 0; p->buffers[i].kind == TWRT_CONST && from < p->buffers[i].const_bytes;
		     from += PIECE) {
			const char *data = (const char *)p->buffers[i].data + from;
			const int64_t left = p->buffers[i].const_bytes - from, n = left < PIECE ? left : PIECE;
			PUT(const_at[i] + from, data, n);
			if (release)
				release(arg, data, n);
		}
	PUT(h.plan, words, 8 * nwords);
	for (int i = 0; i < ncodes; i++) {
		const struct code_entry entry = {code_at[i], codes[i].bytes, codes[i].isa, 0};
		PUT(h.codes + i * (int64_t)sizeof(entry), &entry, (int64_t)sizeof(entry));
	}
	PUT(h.bytes, "", 0);
#undef PUT
	free(words);
	h.checksum = checksum(&h, at, "");
	memcpy(at, &h, sizeof(h));
	*image = at;
	*bytes = h.bytes;
	return TW_ERR_OK;
}

enum tw_code twrt_image_write(const struct twrt_plan *p, int ncodes, const struct twrt_code *codes,
			      twrt_release *release, void *arg, void **image, int64_t *bytes, struct tw_error *e)
{
	TWRT_TRY(twrt_plan_validate(p, false, e));
	if (ncodes < 0 || ncodes > 8)
		return TWRT_FAIL(e, TW_ERR_INTERNAL, "%d code objects in a bundle", ncodes);
	int64_t *const_at = calloc((size_t)p->nbuffers + 1, sizeof(*const_at));
	if (const_at == NULL)
		return TWRT_FAIL(e, TW_ERR_MEMORY, "no memory to write the bundle");
	const enum tw_code code = assemble(p, ncodes, codes, release, arg, const_at, image, bytes, e);
	free(const_at);
	return code;
}

bool twrt_image_is(const void *image, int64_t bytes)
{
	return bytes >= (int64_t)strlen(MAGIC) && memcmp(image, MAGIC, strlen(MAGIC)) == 0;
}

static enum tw_code write_all(int fd, const char *at, int64_t bytes)
{
	while (bytes > 0) {
		const ssize_t n = write(fd, at, bytes > 1 << 30 ? 1 << 30 : (size_t)bytes);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return TW_ERR_IO;
		at += n;
		bytes -= n;
	}
	return TW_ERR_OK;
}

enum tw_code twrt_image_save(const char *path, const void *image, int64_t bytes, struct tw_error *e)
{
	char temporary[4096];
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	if (snprintf(temporary, sizeof(temporary), "%s.tmp%ld.%ld", path, (long)getpid(), now.tv_nsec) >=
	    (int)sizeof(temporary))
		return TWRT_FAIL(e, TW_ERR_IO, "%.200s..: the path is too long", path);
	const int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
	if (fd < 0)
		return TWRT_FAIL(e, TW_ERR_IO, "cannot write %s: %s", path, strerror(errno));
	bool good = write_all(fd, image, bytes) == TW_ERR_OK && fsync(fd) == 0;
	int reason = errno;
	if (close(fd) != 0 && good) {
		good = false;
		reason = errno;
	}
	if (good && rename(temporary, path) != 0) {
		good = false;
		reason = errno;
	}
	if (good)
		return TW_ERR_OK;
	unlink(temporary);
	return TWRT_FAIL(e, TW_ERR_IO, "cannot write %s: %s", path, strerror(reason));
}

static bool inside(int64_t at, int64_t count, int64_t size, int64_t bytes)
{
	return at >= (int64_t)sizeof(struct header) && at <= bytes && at % 8 == 0 && count >= 0 &&
	       count <= (bytes - at) / size;
}

enum tw_code twrt_image_view(const struct twrt_loading *l, struct twrt_image_view *v, struct tw_error *e)
{
	const void *image = l->image;
	const int64_t bytes = l->bytes;
	struct header h;
	if (bytes < (int64_t)sizeof(h))
		return TWRT_FAIL(e, TW_ERR_MODEL, "not a bundle: only %lld bytes", (long long)bytes);
	memcpy(&h, image, sizeof(h));
	if (memcmp(h.magic, MAGIC, sizeof(h.magic)) != 0)
		return TWRT_FAIL(e, TW_ERR_MODEL, "not a bundle: it does not begin with \"%s\"", MAGIC);
	if (h.order != ORDER)
		return TWRT_FAIL(e, TW_ERR_MODEL, "the bundle is for a machine of the other byte order");
	if (h.version != VERSION)
		return TWRT_FAIL(e, TW_ERR_MODEL, "the bundle has format version %u; this program reads %d", h.version,
				 VERSION);
	if (h.bytes != bytes)
		return TWRT_FAIL(e, TW_ERR_MODEL, "the bundle is damaged: %lld bytes instead of %lld", (long long)bytes,
				 (long long)h.bytes);
	if (h.checksum != checksum(&h, image, l->digest))
		return TWRT_FAIL(e, TW_ERR_MODEL, "the bundle is damaged: its checksum is wrong");
	if (!inside(h.plan, h.plan_words, 8, bytes) || !inside(h.codes, h.ncodes, sizeof(struct code_entry), bytes) ||
	    h.ncodes > 8)
		return TWRT_FAIL(e, TW_ERR_MODEL, "the bundle is damaged: its parts do not fit into it");
	*v = (struct twrt_image_view){image,	    bytes,	   (const int64_t *)((const char *)image + h.plan),
				      h.plan_words, (int)h.ncodes, {{0}}};
	for (int i = 0; i < v->ncodes; i++) {
		struct code_entry entry;
		memcpy(&entry, (const char *)image + h.codes + i * (int64_t)sizeof(entry), sizeof(entry));
		if (!inside(entry.at, entry.bytes, 1, bytes) || entry.isa < 0 || entry.isa > 1000)
			return TWRT_FAIL(e, TW_ERR_MODEL, "the bundle is damaged: code object %d does not fit into it",
					 i);
		v->codes[i] = (struct twrt_code){(const char *)image + entry.at, entry.bytes, (int)entry.isa};
	}
	return TW_ERR_OK;
}
