/* pass_support: what the tests of src/pass share: files, targets, data, and running a program before and during
 * lowering. */
#ifndef PASS_SUPPORT_H
#define PASS_SUPPORT_H

#include "pass/pass.h"

char *support_read(struct tw_arena *a, const char *path); /* NULL: there is none */
/* text with every occurrence of `from` replaced */
char *support_replace(struct tw_arena *a, const char *text, const char *from, const char *to);
/* The value after "# KEY:" at the start of a line, without blanks around it; NULL: none. */
char *support_directive(struct tw_arena *a, const char *text, const char *key);
struct tw_target support_target(enum tw_isa isa, int lanes);
/* Names of the files in a folder that end in .tw, sorted. */
int support_list(struct tw_arena *a, const char *folder, char ***names);

struct support_case {
	const char *name, *text;
	int nsizes;
	const char *const *symbols;
	int nsets;	      /* how many sets of sizes it runs with; the program is lowered once for all */
	const int64_t *sizes; /* nsets times nsizes */
	struct tw_target target;
	bool dump;	 /* print each stage */
	int64_t program; /* its number in the text */
};
/* Interprets the program as it stands and after every pass on the same data, chosen by seed; false when some bit
 * differs, an access is illegal or a stage does not verify: then error tells. Values of integer inputs are 0 .. limit
 * - 1 with "# limit: NAME 10". */
bool support_differential(const struct support_case *c, uint64_t seed, struct tw_error *error);

#endif
