/* Names of variables and tensors: any text becomes an identifier of the program language that is unique in the module.
 * ONNX names such as "onnx::Conv_123/a.b" come out as onnx_Conv_123_a_b. */
#include "ir/ir_int.h"

#include <stdio.h>

/* Words that no name may be. */
static const char *const reserved[] = {
	"symbol", "in",	      "func",	 "let",	   "return", "tensor", "define", "program",  "out",	   "launch",
	"map",	  "register", "shared",	 "for",	   "on",     "within", "if",	 "else",     "specialise", "barrier",
	"repeat", "spatial",  "project", "unroll", "vector", "plain",  "ranks",	 "attrs",    "where",	   "true",
	"false",  "inf",      "nan",	 "reduce", "splat",  "gather", "void",	 "prefetch",
};

/* Words that only stand where no name can: names may be called so. */
static const char *const free_words[] = {
	"multiple", "from",  "alias",	"layout", "mirrors", "row",   "column", "strides",
	"blocked",  "local", "swizzle", "with",	  "buffer",  "call",  "copy",	"async",
	"commit",   "wait",  "mma",	"near",	  "const",   "lanes",
};

const char *twir_word(int i)
{
	if (i < TW_COUNT(reserved))
		return reserved[i];
	i -= TW_COUNT(reserved);
	return i < TW_COUNT(free_words) ? free_words[i] : NULL;
}

bool twir_special_number(const char *name)
{
	if (strncmp(name, "inf", 3) != 0 && strncmp(name, "nan", 3) != 0)
		return false;
	return name[3] == 0 || (name[3] == '_' && twir_is_float(twir_scalar_parse(name + 4)));
}

bool twir_reserved(const char *name)
{
	for (int i = 0; i < TW_COUNT(reserved); i++)
		if (strcmp(reserved[i], name) == 0)
			return true;
	for (int k = 0; k < TWIR_KINDS; k++)
		if (!(twir_kind_flags((enum twir_kind)k) & TWIR_F_OTHER) &&
		    strcmp(twir_kind_text((enum twir_kind)k), name) == 0)
			return true;
	for (int l = 0; l < TWIR_LEVELS; l++)
		if (strcmp(twir_level_name((enum twir_level)l), name) == 0)
			return true;
	if (twir_scalar_parse(name) != TWIR_VOID)
		return true;
	static const char *const prefixes[] = {"bitcast_", "iota_", "inf_", "nan_"};
	for (int i = 0; i < TW_COUNT(prefixes); i++)
		if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0 &&
		    twir_scalar_parse(name + strlen(prefixes[i])) != TWIR_VOID)
			return true;
	for (int k = 0; k < TWIR_KINDS; k++)
		if (twir_is_combiner((enum twir_kind)k) && strcmp(name, twir_fold_name((enum twir_kind)k)) == 0)
			return true;
	return twir_type_named(name).scalar != TWIR_VOID;
}

static bool letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

const char *twir_identifier(struct tw_arena *a, const char *name)
{
	char out[72];
	size_t n = 0;
	if (name[0] >= '0' && name[0] <= '9')
		out[n++] = '_';
	bool gap = false;
	for (const char *c = name; *c && n < 64; c++) {
		if (letter(*c) || (*c >= '0' && *c <= '9')) {
			if (gap && n > 0 && out[n - 1] != '_')
				out[n++] = '_';
			out[n++] = *c;
			gap = false;
		} else {
			gap = true;
		}
	}
	if (n == 0)
		out[n++] = 'v';
	out[n] = 0;
	if (twir_reserved(out)) {
		/* behind a prefix like iota_ a suffix would not help */
		memmove(out + 1, out, n + 1);
		out[0] = '_';
		n++;
	}
	return arena_strndup(a, out, n);
}

void *twir_look(const struct twir_module *m, size_t map, const char *key)
{
	void *found = NULL;
	for (; m && !found; m = m->under)
		found = strmap_get((const struct tw_strmap *)((const char *)m + map), key);
	return found;
}

const char *twir_unique(struct twir_module *m, const char *identifier)
{
	intptr_t next = (intptr_t)TWIR_LOOK(m, names, identifier);
	if (next == 0) {
		strmap_set(&m->names, identifier, (void *)(intptr_t)1);
		return arena_strdup(m->arena, identifier);
	}
	char name[96];
	for (;; next++) {
		snprintf(name, sizeof(name), "%s_%lld", identifier, (long long)next);
		if (!TWIR_LOOK(m, names, name) && !twir_reserved(name))
			break;
	}
	strmap_set(&m->names, identifier, (void *)(next + 1));
	strmap_set(&m->names, name, (void *)(intptr_t)1);
	return arena_strdup(m->arena, name);
}
