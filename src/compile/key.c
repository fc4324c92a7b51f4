/* The key of a cache entry: everything that the image depends on. Equal keys mean equal images. Input: a model and options; output: the key.
 *
 * Content counts by its hash. Of a model in a file the cache remembers its hash and the names of its external data, of such data the hash: what
 * is remembered is not read, and a model whose data is all remembered is not even imported. */
#include "compile/compile_int.h"

#include <stdio.h>
#include <stdlib.h>

static const char build_id[] =
#include "build_id.inc"
	; /* a hash of the sources: another build of the same version may make other images */

enum { REMEMBERED = 64 << 10, IDENTITY = 512 };

struct key_job {
	struct twc *c;
	const void *model;
	int64_t bytes;
	const char *folder;
	char *key;
	struct tw_buf content; /* lines: "model HASH", "data HASH NAME" */
};

/* Appends a line of data for each "data NAME" of the text; false: not all is remembered. */
static bool remembered_data(struct key_job *j, char *text)
{
	char hash[40];
	for (char *line = text, *end; *line; line = end + 1) {
		end = strchr(line, '\n');
		if (!end || strncmp(line, "data ", 5) != 0)
			return false;
		*end = '\0';
		struct stat st;
		const char *path = arena_printf(j->c->arena, "%s/%s", j->folder, line + 5);
		if (stat(path, &st) != 0 || !twrt_known_get(&st, hash, sizeof(hash)))
			return false;
		buf_printf(&j->content, "data %s %s\n", hash, line + 5);
	}
	return true;
}

static bool remembered(struct key_job *j)
{
	enum { HASH = 32 };
	char *text = arena_alloc(j->c->arena, REMEMBERED);
	if (!j->c->o->file || !twrt_known_get(&j->c->o->file->st, text, REMEMBERED))
		return false;
	if (strlen(text) <= HASH || text[HASH] != '\n')
		return false;
	buf_printf(&j->content, "model %.*s\n", HASH, text);
	return remembered_data(j, text + HASH + 1);
}

static void hash_data(struct key_job *j, struct tw_buf *names, const struct timespec *looked)
{
	struct twc *c = j->c;
	char hash[33];
	for (int i = 0; i < c->files.list.n; i++) {
		const struct tw_onnx_file *f = &c->files.list.at[i];
		const char *path = arena_printf(c->arena, "%s/%s", j->folder, f->name);
		const struct twrt_file file = {path, f->st, *looked};
		twrt_digest(f->at, f->bytes, true, hash);
		twrt_known_put(&file, hash);
		buf_printf(&j->content, "data %s %s\n", hash, f->name);
		buf_printf(names, "data %s\n", f->name);
	}
}

static void hash_all(struct key_job *j)
{
	struct twc *c = j->c;
	char hash[33];
	struct timespec looked;
	struct tw_buf text;
	buf_init(&j->content, c->arena);
	buf_init(&text, c->arena);
	clock_gettime(CLOCK_REALTIME, &looked);
	twc_graph(c, j->model, j->bytes, j->folder); /* maps external data */
	twrt_digest(j->model, j->bytes, c->o->file != NULL, hash);
	buf_printf(&text, "%s\n", hash);
	buf_printf(&j->content, "model %s\n", hash);
	hash_data(j, &text, &looked);
	if (c->o->file)
		twrt_known_put(c->o->file, text.at);
}

static void make_key(void *arg)
{
	struct key_job *j = arg;
	struct twc *c = j->c;
	struct tw_error e;
	struct tw_buf b;
	char identity[IDENTITY];
	tw_target_identify(&c->target, identity, sizeof(identity));
	if (tw_toolchain_find(&c->toolchain, &e) != TW_ERR_OK)
		tw_raise_error(&e);
	buf_init(&j->content, c->arena);
	if (!remembered(j))
		hash_all(j);
	buf_init(&b, c->arena);
	buf_printf(&b, "tilewright %s %s\n%scompiler %s %s\nisa %s\ncpu %d %d %d %d %s\n", TW_VERSION, build_id,
		   j->content.at, c->toolchain.command, c->toolchain.version,
		   c->o->isa ? c->o->isa : tw_isa_name(c->target.isa), c->target.lanes, c->target.vector_bytes,
		   c->target.vector_registers, c->target.has_fma, identity);
	buf_printf(&b, "plain %d keep %d exact %d\n", c->o->plain, c->o->keep, c->o->exact);
	for (int i = 0; i < c->o->noperators; i++) {
		const struct tw_operator_text *t = &c->o->operators[i];
		char hash[33];
		tw_hash128_hex(t->text, strlen(t->text), hash);
		buf_printf(&b, "operator %s::%s %s\n", t->domain ? t->domain : "*", t->name, hash);
	}
	for (int i = 0; i < c->o->nfixed; i++)
		buf_printf(&b, "fixed %s %lld\n", c->o->fixed_names[i], (long long)c->o->fixed_values[i]);
	tw_hash128_hex(b.at, b.n, j->key);
}

enum tw_code tw_compile_key(const void *model, int64_t bytes, const char *folder, const struct tw_compile_options *o,
			    char key[33], struct tw_error *e)
{
	const struct tw_compile_options none = {0};
	struct twc c = {.o = o ? o : &none};
	struct key_job j = {.c = &c, .model = model, .bytes = bytes, .folder = folder, .key = key};
	c.arena = arena_new();
	if (!c.arena) {
		tw_error_set(e, TW_ERR_MEMORY, "out of memory");
		return TW_ERR_MEMORY;
	}
	const bool good = tw_try(e, make_key, &j);
	tw_onnx_close(&c.files);
	arena_free(c.arena);
	return good ? TW_ERR_OK : e->code;
}
