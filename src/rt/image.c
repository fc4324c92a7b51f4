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

enum tw_code twrt_image_reserve(const struct twrt_plan *p, int ncodes, const struct twrt_code *codes,
				struct twrt_draft *d, struct tw_error *e)
{
	*d = (struct twrt_draft){.ncodes = ncodes, .codes = codes};
	if (ncodes < 0 || ncodes > TWRT_MOST_CODES)
		return TWRT_FAIL(e, TW_ERR_INTERNAL, "%d code objects in a bundle", ncodes);
	d->const_at = calloc((size_t)p->nbuffers + 1, sizeof(*d->const_at));
	if (d->const_at == NULL)
		return TWRT_FAIL(e, TW_ERR_MEMORY, "no memory to write the bundle");
	bool bad = false;
	int64_t end = sizeof(struct header);
	for (int i = 0; i < ncodes; i++)
		d->code_at[i] = place(&end, codes[i].bytes, &bad);
	for (int i = 0; i < p->nbuffers; i++)
		if (p->buffers[i].kind == TWRT_CONST)
			d->const_at[i] = place(&end, p->buffers[i].const_bytes, &bad);
	TWRT_TRY(twrt_plan_write(p, d->const_at, &d->words, &d->nwords, e));
	d->plan_at = place(&end, 8 * d->nwords, &bad);
	d->codes_at = place(&end, ncodes * (int64_t)sizeof(struct code_entry), &bad);
	d->bytes = place(&end, 0, &bad);
	d->image = bad ? NULL : twrt_alloc(d->bytes);
	if (d->image == NULL)
		return TWRT_FAIL(e, TW_ERR_MEMORY, "no memory for a bundle of %lld bytes", (long long)d->bytes);
	return TW_ERR_OK;
}

void twrt_image_drop(struct twrt_draft *d)
{
	free(d->const_at);
	free(d->words);
	free(d->image);
	*d = (struct twrt_draft){0};
}

/* The bytes of an image in rising order: gaps become zeros, so that equal input gives equal images. */
struct filling {
	char *at;
	int64_t filled;
};

static void put(struct filling *f, int64_t offset, const void *from, int64_t bytes)
{
	memset(f->at + f->filled, 0, (size_t)(offset - f->filled));
	if (bytes > 0 && from != f->at + offset)
		memcpy(f->at + offset, from, (size_t)bytes);
	f->filled = offset + bytes;
}

static void put_constant(struct filling *f, int64_t offset, const struct twrt_buffer *b, twrt_release *release,
			 void *arg)
{
	if (b->data == f->at + offset) { /* made where it lies */
		put(f, offset, b->data, b->const_bytes);
		return;
	}
	for (int64_t from = 0; from < b->const_bytes; from += PIECE) {
		const char *data = (const char *)b->data + from;
		const int64_t left = b->const_bytes - from, n = left < PIECE ? left : PIECE;
		put(f, offset + from, data, n);
		if (release)
			release(arg, data, n);
	}
}

void twrt_image_finish(struct twrt_draft *d, const struct twrt_plan *p, twrt_release *release, void *arg, void **image,
		       int64_t *bytes)
{
	struct header h = {.magic = MAGIC,
			   .version = VERSION,
			   .order = ORDER,
			   .bytes = d->bytes,
			   .plan = d->plan_at,
			   .plan_words = d->nwords,
			   .codes = d->codes_at,
			   .ncodes = d->ncodes};
	struct filling f = {d->image, sizeof(h)};
	for (int i = 0; i < d->ncodes; i++)
		put(&f, d->code_at[i], d->codes[i].object, d->codes[i].bytes);
	for (int i = 0; i < p->nbuffers; i++)
		if (p->buffers[i].kind == TWRT_CONST)
			put_constant(&f, d->const_at[i], &p->buffers[i], release, arg);
	put(&f, d->plan_at, d->words, 8 * d->nwords);
	for (int i = 0; i < d->ncodes; i++) {
		const struct code_entry entry = {d->code_at[i], d->codes[i].bytes, d->codes[i].isa, 0};
		put(&f, d->codes_at + i * (int64_t)sizeof(entry), &entry, (int64_t)sizeof(entry));
	}
	put(&f, d->bytes, "", 0);
	h.checksum = checksum(&h, d->image, "");
	memcpy(d->image, &h, sizeof(h));
	*image = d->image;
	*bytes = d->bytes;
	d->image = NULL;
}

enum tw_code twrt_image_write(const struct twrt_plan *p, int ncodes, const struct twrt_code *codes,
			      twrt_release *release, void *arg, void **image, int64_t *bytes, struct tw_error *e)
{
	struct twrt_draft d;
	TWRT_TRY(twrt_plan_validate(p, false, e));
	const enum tw_code code = twrt_image_reserve(p, ncodes, codes, &d, e);
	if (code == TW_ERR_OK)
		twrt_image_finish(&d, p, release, arg, image, bytes);
	twrt_image_drop(&d);
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
	    h.ncodes > TWRT_MOST_CODES)
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
