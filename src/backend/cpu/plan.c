/* plan: programs to files of C. Equal programs share a kernel, named after the hash of its text; files are balanced by
 * the length of their text. The plan depends on the programs alone, never on the number of jobs, so that the same
 * input gives the same object. Raises. */
#include "backend/cpu/cpu_int.h"
#include "cgen/cgen.h"

enum { FILE_BYTES = 12000, MAX_FILES = 64 }; /* a compiler's start costs about what 2 KB of text do */

static void find_kernels(struct cpu_plan *plan, struct tw_arena *a, struct twir_module *m, int n,
			 struct twir_program *const *lowered, const struct tw_dialect *d)
{
	static const char head[] = "void k";
	struct tw_strmap seen;
	strmap_init(&seen, a);
	for (int i = 0; i < n; i++) {
		struct tw_buf b;
		char hash[33];
		buf_init(&b, a);
		cgen_kernel(&b, d, m, lowered[i], "k");
		tw_hash128_hex(b.at, b.n, hash);
		const char *name = strmap_get(&seen, hash);
		if (!name) {
			name = arena_printf(a, "k_%.16s", hash);
			strmap_set(&seen, hash, (void *)(uintptr_t)name);
			TW_CHECK(strncmp(b.at, head, strlen(head)) == 0, "a kernel's text starts otherwise");
			struct cpu_kernel k = {.name = name, .bytes = b.n, .program = i};
			k.text = arena_printf(a, "void %s%s", name, b.at + strlen(head));
			vec_push(a, &plan->kernels, k);
		}
		plan->names[i] = name;
	}
}

/* The longest kernel first, each to the file with the least text. */
static void assign_files(struct cpu_plan *plan, struct tw_arena *a)
{
	const int n = plan->kernels.n;
	size_t total = 0;
	for (int i = 0; i < n; i++)
		total += plan->kernels.at[i].bytes;
	size_t files = (total + FILE_BYTES - 1) / FILE_BYTES;
	files = files > MAX_FILES ? MAX_FILES : files;
	plan->files = (int)files > n ? n : (int)files;
	size_t *load = ARENA_ARRAY(a, size_t, plan->files);
	bool *done = ARENA_ARRAY(a, bool, n);
	for (int k = 0; k < n; k++) {
		int longest = -1, least = 0;
		for (int i = 0; i < n; i++)
			if (!done[i] && (longest < 0 || plan->kernels.at[i].bytes > plan->kernels.at[longest].bytes))
				longest = i;
		for (int f = 1; f < plan->files; f++)
			if (load[f] < load[least])
				least = f;
		done[longest] = true;
		plan->kernels.at[longest].file = least;
		load[least] += plan->kernels.at[longest].bytes;
	}
}

void cpu_make_plan(struct cpu_plan *plan, struct tw_arena *a, struct twir_module *m, int n,
		   struct twir_program *const *lowered, const struct tw_target *t)
{
	const struct tw_dialect *d = tw_dialect_for(t->isa);
	memset(plan, 0, sizeof *plan);
	plan->names = ARENA_ARRAY(a, const char *, n);
	find_kernels(plan, a, m, n, lowered, d);
	assign_files(plan, a);
	plan->sources = ARENA_ARRAY(a, const char *, plan->files);
	struct twir_program **group = ARENA_ARRAY(a, struct twir_program *, plan->kernels.n);
	struct tw_buf all;
	buf_init(&all, a);
	for (int f = 0; f < plan->files; f++) {
		struct tw_buf b;
		int members = 0;
		buf_init(&b, a);
		for (int i = 0; i < plan->kernels.n; i++)
			if (plan->kernels.at[i].file == f)
				group[members++] = lowered[plan->kernels.at[i].program];
		cgen_prelude(&b, d, m, members, group);
		for (int i = 0; i < plan->kernels.n; i++)
			if (plan->kernels.at[i].file == f)
				buf_printf(&b, "\n%s", plan->kernels.at[i].text);
		plan->sources[f] = b.at;
		buf_printf(&all, "%s/* file %d */\n", f ? "\n" : "", f);
		buf_puts(&all, b.at);
	}
	plan->all = all.at ? all.at : "";
}
