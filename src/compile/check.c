/* What is and is not supported, in one table, or all that is wrong, in one list, without compiling; and the machine in words. */
#define _GNU_SOURCE /* asprintf */
#include "compile/compile_int.h"

#include <stdio.h>
#include <stdlib.h>

struct check_job {
	struct twc *c;
	const void *model;
	int64_t bytes;
	const char *folder;
	struct tw_buf table;
};

static void list_operators(struct twc *c, struct tw_buf *b)
{
	VEC(int) seen = {0};
	buf_printf(b, "%-28s %7s %6s  %s\n", "operator", "opset", "nodes", "runs as");
	for (int i = 0; i < c->g->nodes.n; i++) {
		const struct tw_node *n = &c->g->nodes.at[i];
		bool again = false;
		int count = 0;
		for (int k = 0; k < seen.n; k++)
			again |= c->g->nodes.at[seen.at[k]].op == n->op;
		if (again || ((n->op->flags & TW_OP_FLOW) && strstr(n->op->name, "Begin")) ||
		    strstr(n->op->name, "Else"))
			continue; /* a loop or branch is listed by its end */
		vec_push(c->arena, &seen, i);
		for (int k = i; k < c->g->nodes.n; k++)
			count += c->g->nodes.at[k].op == n->op;
		buf_printf(b, "%-28s %7d %6d  %s\n", n->op_type, n->opset, count,
			   n->op->flags & TW_OP_HOST ? "host operator" : "kernels");
	}
}

static void check(void *arg)
{
	struct check_job *j = arg;
	if (j->c->o->noperators)
		tw_target_host(&j->c->target); /* texts ask for its lanes */
	twc_graph(j->c, j->model, j->bytes, j->folder);
	list_operators(j->c, &j->table);
	buf_printf(&j->table, "\nsupported: all %d nodes\n", j->c->g->nodes.n);
}

/* Everything that is wrong, a line each; NULL: the file cannot be read so far as to tell. */
static char *list_problems(const struct twc *c)
{
	struct tw_buf b;
	if (!c->g || !c->g->complaints.n)
		return NULL;
	const int n = c->g->complaints.n;
	buf_init(&b, c->arena);
	buf_printf(&b, "model: %d problem%s\n", n, n == 1 ? "" : "s");
	for (int i = 0; i < n; i++)
		buf_printf(&b, "  %s: %s\n", c->g->complaints.at[i].code == TW_ERR_MODEL ? "wrong" : "not supported",
			   c->g->complaints.at[i].text);
	return strdup(b.at);
}

enum tw_code tw_check(const void *model, int64_t bytes, const char *folder, const struct tw_compile_options *o,
		      char **table, struct tw_error *e)
{
	const struct tw_compile_options only = {.noperators = o->noperators, .operators = o->operators};
	struct twc c = {.o = &only};
	struct check_job j = {.c = &c, .model = model, .bytes = bytes, .folder = folder};
	*table = NULL;
	c.arena = arena_new();
	if (!c.arena) {
		tw_error_set(e, TW_ERR_MEMORY, "out of memory");
		return TW_ERR_MEMORY;
	}
	buf_init(&j.table, c.arena);
	enum tw_code code = tw_try(e, check, &j) ? TW_ERR_OK : e->code;
	if (code == TW_ERR_OK)
		*table = strdup(j.table.at);
	else if (code == TW_ERR_MODEL || code == TW_ERR_UNSUPPORTED)
		*table = list_problems(&c);
	if (code == TW_ERR_UNSUPPORTED && !*table && asprintf(table, "not supported: %s\n", e->text) < 0)
		*table = NULL;
	if (!*table && (code == TW_ERR_OK || code == TW_ERR_UNSUPPORTED)) {
		tw_error_set(e, TW_ERR_MEMORY, "out of memory");
		code = TW_ERR_MEMORY;
	}
	tw_onnx_close(&c.files);
	arena_free(c.arena);
	return code;
}

static void detect(void *arg)
{
	tw_target_host(arg);
}

enum tw_code tw_describe_machine(char **text, struct tw_error *e)
{
	struct tw_target t;
	struct tw_toolchain tc;
	struct tw_error compiler;
	*text = NULL;
	if (!tw_try(e, detect, &t))
		return e->code;
	const bool found = tw_toolchain_find(&tc, &compiler) == TW_ERR_OK;
	if (asprintf(text,
		     "cpu: %s\ncores: %d\ninstruction set: %s (%d lanes of 32 bits, %d vector registers)\n"
		     "caches: L1 %lld KiB, L2 %lld KiB, L3 %lld KiB\ncompiler: %s\n",
		     t.cpu, t.cores, tw_isa_name(t.isa), t.lanes, t.vector_registers, (long long)t.l1_bytes >> 10,
		     (long long)t.l2_bytes >> 10, (long long)t.l3_bytes >> 10,
		     found ? tc.version : compiler.text) < 0) {
		*text = NULL;
		tw_error_set(e, TW_ERR_MEMORY, "out of memory");
		return TW_ERR_MEMORY;
	}
	return TW_ERR_OK;
}
