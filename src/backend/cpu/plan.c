/* plan: programs to files of C. Equal programs share a kernel, named after the hash of its text; files are balanced by
 * the length of their text. The plan depends on the programs alone, never on the number of jobs, so that the same
 * input gives the same object. Raises. */
#include "backend/cpu/cpu_int.h"
#include "cgen/cgen.h"

enum { FILE_BYTES = 12000, MAX_FILES = 64 }; /* a compiler's start costs about what 2 KB of text do */

struct cpu_kernels *cpu_kernels_new(struct tw_arena *a, const struct tw_target *t)
{
	struct cpu_kernels *k = ARENA_NEW(a, struct cpu_kernels);
	k->arena = a;
	k->target = t;
	strmap_init(&k->seen, a);
	return k;
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
		struct cpu_kernel made = {.name = name, .bytes = b.n, .uses = cgen_uses_new(k->arena, d)};
		made.text = arena_strdup(k->arena, b.at + strlen(head));
		cgen_uses_join(made.uses, uses);
		vec_push(k->arena, &k->kernels, made);
	}
	vec_push(k->arena, &k->names, name);
}

/* The longest kernel first, each to the file with the least text. */
static int assign_files(struct cpu_kernels *k)
{
	struct cpu_kernel *kernels = k->kernels.at;
	const int n = k->kernels.n;
	size_t total = 0;
	for (int i = 0; i < n; i++)
		total += kernels[i].bytes;
	size_t files = (total + FILE_BYTES - 1) / FILE_BYTES;
	files = files > MAX_FILES ? MAX_FILES : files;
	files = (int)files > n ? (size_t)n : files;
	size_t *load = ARENA_ARRAY(k->arena, size_t, (int64_t)files);
	bool *done = ARENA_ARRAY(k->arena, bool, n);
	for (int turn = 0; turn < n; turn++) {
		int longest = -1, least = 0;
		for (int i = 0; i < n; i++)
			if (!done[i] && (longest < 0 || kernels[i].bytes > kernels[longest].bytes))
				longest = i;
		for (int f = 1; f < (int)files; f++)
			if (load[f] < load[least])
				least = f;
		done[longest] = true;
		kernels[longest].file = least;
		load[least] += kernels[longest].bytes;
	}
	return (int)files;
}

static const char *source(const struct cpu_kernels *k, int file)
{
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
	return b.at;
}

void cpu_make_plan(struct cpu_plan *plan, struct cpu_kernels *k)
{
	plan->files = assign_files(k);
	plan->sources = ARENA_ARRAY(k->arena, const char *, plan->files);
	for (int f = 0; f < plan->files; f++)
		plan->sources[f] = source(k, f);
}
