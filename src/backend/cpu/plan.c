/* plan: programs to files of C. Equal programs share a kernel, named after the hash of its text. While programs come, a
 * file is filled whenever the kernels that wait make several, from the longest, so that the short ones are left for the
 * end, when files are balanced. The plan depends on the programs alone, never on the number of jobs or on time, so that
 * the same input gives the same object. Raises. */
#include "backend/cpu/cpu_int.h"
#include "cgen/cgen.h"

enum { FILE_BYTES = 12000, WAITING_FILES = 4 }; /* a compiler's start costs about what 2 KB of text do */

struct cpu_kernels *cpu_kernels_new(struct tw_arena *a, const struct tw_target *t)
{
	struct cpu_kernels *k = ARENA_NEW(a, struct cpu_kernels);
	k->arena = a;
	k->target = t;
	strmap_init(&k->seen, a);
	return k;
}

/* More where there are many. */
static size_t file_bytes(const struct cpu_kernels *k)
{
	return FILE_BYTES * (size_t)(1 + k->sources.n / 32);
}

/* The longest kernel of at most so many bytes that waits; NULL: none. */
static struct cpu_kernel *longest(const struct cpu_kernels *k, size_t most)
{
	struct cpu_kernel *found = NULL;
	for (int i = 0; i < k->kernels.n; i++) {
		struct cpu_kernel *x = &k->kernels.at[i];
		if (x->file < 0 && x->bytes <= most && (!found || x->bytes > found->bytes))
			found = x;
	}
	return found;
}

static void put_in(struct cpu_kernels *k, struct cpu_kernel *kernel, int file)
{
	kernel->file = file;
	k->waiting -= kernel->bytes;
}

static void write_file(struct cpu_kernels *k)
{
	const int file = k->sources.n;
	struct cgen_uses *uses = cgen_uses_new(k->arena, tw_dialect_for(k->target->isa));
	struct tw_buf b;
	buf_init(&b, k->arena);
	for (int i = 0; i < k->kernels.n; i++)
		if (k->kernels.at[i].file == file)
			cgen_uses_join(uses, k->kernels.at[i].uses);
	cgen_prelude(&b, uses);
	for (int i = 0; i < k->kernels.n; i++)
		if (k->kernels.at[i].file == file)
			buf_printf(&b, "\nvoid %s%s", k->kernels.at[i].name, k->kernels.at[i].text);
	vec_push(k->arena, &k->sources, b.at);
}

static void fill_files(struct cpu_kernels *k)
{
	while (k->waiting >= WAITING_FILES * file_bytes(k) && k->sources.n < CPU_MOST_FILES / 2) {
		const size_t most = file_bytes(k);
		size_t filled = 0;
		for (struct cpu_kernel *x = longest(k, SIZE_MAX); x;
		     x = filled < most ? longest(k, most - filled) : NULL) {
			put_in(k, x, k->sources.n);
			filled += x->bytes;
		}
		write_file(k);
	}
}

/* The longest kernel first, each to the file with the least text. */
void cpu_last_files(struct cpu_kernels *k)
{
	int left = 0;
	for (int i = 0; i < k->kernels.n; i++)
		left += k->kernels.at[i].file < 0;
	const int first = k->sources.n, room = CPU_MOST_FILES - first;
	const size_t wanted = (k->waiting + file_bytes(k) - 1) / file_bytes(k);
	int files = wanted > (size_t)room ? room : (int)wanted;
	files = files > left ? left : files;
	size_t *load = ARENA_ARRAY(k->arena, size_t, files);
	for (struct cpu_kernel *x = longest(k, SIZE_MAX); x; x = longest(k, SIZE_MAX)) {
		int least = 0;
		for (int f = 1; f < files; f++)
			if (load[f] < load[least])
				least = f;
		load[least] += x->bytes;
		put_in(k, x, first + least);
	}
	for (int f = 0; f < files; f++)
		write_file(k);
}

void cpu_kernels_add(struct cpu_kernels *k, struct twir_module *m, const struct twir_program *lowered)
{
	static const char head[] = "void k";
	const struct tw_dialect *d = tw_dialect_for(k->target->isa);
	struct cgen_uses *uses = cgen_uses_new(m->arena, d);
	struct tw_buf b;
	char hash[33];
	buf_init(&b, m->arena);
	cgen_kernel(&b, uses, m, lowered, "k");
	tw_hash128_hex(b.at, b.n, hash);
	const char *name = strmap_get(&k->seen, hash);
	if (!name) {
		name = arena_printf(k->arena, "k_%.16s", hash);
		strmap_set(&k->seen, hash, (void *)(uintptr_t)name);
		TW_CHECK(strncmp(b.at, head, strlen(head)) == 0, "a kernel's text starts otherwise");
		struct cpu_kernel made = {.name = name, .bytes = b.n, .file = -1, .uses = cgen_uses_new(k->arena, d)};
		made.text = arena_strdup(k->arena, b.at + strlen(head));
		cgen_uses_join(made.uses, uses);
		vec_push(k->arena, &k->kernels, made);
		k->waiting += made.bytes;
		fill_files(k);
	}
	vec_push(k->arena, &k->names, name);
}
