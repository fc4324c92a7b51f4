/* registry.c: the operators of all files, found by domain, name and opset.
 *
 * The list of files is made by the build (ops_list.inc). There is no other list of operators. */
#include "ops/op.h"

#define OPS(file) extern const struct tw_op tw_ops_##file[];
#include "ops_list.inc"
#undef OPS

static const struct tw_op *const families[] = {
#define OPS(file) tw_ops_##file,
#include "ops_list.inc"
#undef OPS
	NULL,
};

static bool matches(const struct tw_op *op, const char *domain, const char *name)
{
	return !strcmp(op->name, name) && !strcmp(op->domain ? op->domain : "", domain);
}

const struct tw_op *tw_op_find(const char *domain, const char *name, int opset)
{
	const struct tw_op *best = NULL;
	for (int f = 0; families[f]; f++)
		for (const struct tw_op *op = families[f]; op->name; op++)
			if (op->since <= opset && (!op->until || opset <= op->until) && matches(op, domain, name) &&
			    (!best || op->since > best->since))
				best = op;
	return best;
}

const struct tw_op *tw_op_any(const char *domain, const char *name)
{
	const struct tw_op *first = NULL;
	for (int f = 0; families[f]; f++)
		for (const struct tw_op *op = families[f]; op->name; op++)
			if (matches(op, domain, name) && (!first || op->since < first->since))
				first = op;
	return first;
}

int tw_op_count(void)
{
	int n = 0;
	for (int f = 0; families[f]; f++)
		for (const struct tw_op *op = families[f]; op->name; op++)
			n++;
	return n;
}

const struct tw_op *tw_op_at(int i)
{
	for (int f = 0; families[f]; f++)
		for (const struct tw_op *op = families[f]; op->name; op++)
			if (i-- == 0)
				return op;
	return NULL;
}

tw_id tw_op_node(struct tw_graph *g, const struct tw_op *op, const char *name, int opset, int nin, const tw_id *in,
		 int nout, const tw_id *out, int nattrs, const struct tw_attr *attrs)
{
	const tw_id id = tw_graph_node(g, op, name, opset, nin, in, nout, out, nattrs, attrs);
	g->nodes.at[id].op_type = op->name;
	g->nodes.at[id].domain = op->domain ? op->domain : "";
	return id;
}
