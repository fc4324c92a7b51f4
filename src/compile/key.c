/* The key of a cache entry: everything that the image depends on. Equal keys mean equal images. */
#include "compile/compile_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static const char build_id[] =
#include "build_id.inc"
	; /* a hash of the sources: another build of the same version may make other images */

struct key_job {
	struct twc *c;
	const void *model;
	int64_t bytes;
	const char *folder;
	char *key;
};

static void make_key(void *arg)
{
	struct key_job *j = arg;
	struct twc *c = j->c;
	struct tw_error e;
	struct tw_buf b;
	char model[33];
	tw_target_host(&c->target);
	if (tw_toolchain_find(&c->toolchain, &e) != TW_ERR_OK)
		tw_raise_error(&e);
	twc_graph(c, j->model, j->bytes, j->folder);
	tw_hash128_hex(j->model, (size_t)j->bytes, model);
	buf_init(&b, c->arena);
	buf_printf(&b, "tilewright %s %s\nmodel %s\ncompiler %s %s\nisa %s\ncpu %d %d %d %d\n", TW_VERSION, build_id,
		   model, c->toolchain.command, c->toolchain.version,
		   c->o->isa ? c->o->isa : tw_isa_name(c->target.isa), c->target.lanes, c->target.vector_bytes,
		   c->target.vector_registers, c->target.has_fma);
	buf_printf(&b, "plain %d keep %d exact %d\n", c->o->plain, c->o->keep, c->o->exact);
	for (int i = 0; i < c->o->noperators; i++) {
		const struct tw_operator_text *t = &c->o->operators[i];
		char hash[33];
		tw_hash128_hex(t->text, strlen(t->text), hash);
		buf_printf(&b, "operator %s::%s %s\n", t->domain ? t->domain : "*", t->name, hash);
	}
	for (int i = 0; i < c->o->nfixed; i++)
		buf_printf(&b, "fixed %s %lld\n", c->o->fixed_names[i], (long long)c->o->fixed_values[i]);
	for (int i = 0; i < c->files.list.n; i++) {
		const struct tw_onnx_file *f = &c->files.list.at[i];
		struct stat st = {0};
		stat(arena_printf(c->arena, "%s/%s", j->folder, f->name), &st);
		buf_printf(&b, "data %s %lld %lld.%09ld\n", f->name, (long long)f->bytes, (long long)st.st_mtim.tv_sec,
			   st.st_mtim.tv_nsec);
	}
	tw_hash128_hex(b.at, b.n, j->key);
}

enum tw_code tw_compile_key(const void *model, int64_t bytes, const char *folder, const struct tw_compile_options *o,
			    char key[33], struct tw_error *e)
{
	const struct tw_compile_options none = {0};
	struct twc c = {.o = o ? o : &none};
	struct key_job j = {&c, model, bytes, folder, key};
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
