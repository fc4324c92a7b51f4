/* attrs.c: the only way operators read attributes of a node.
 *
 * Input: a node and a name. Output: the value, or what the caller gives for an absent attribute. Raises TW_ERR_MODEL
 * naming node and attribute when the attribute has another kind than asked for. */
#include "graph/graph.h"

const struct tw_attr *tw_attr_find(const struct tw_node *n, const char *name)
{
	for (int i = 0; i < n->nattrs; i++)
		if (!strcmp(n->attrs[i].name, name))
			return &n->attrs[i];
	return NULL;
}

static const struct tw_attr *of_kind(const struct tw_node *n, const char *name, enum tw_attr_kind kind,
				     const char *what)
{
	const struct tw_attr *a = tw_attr_find(n, name);
	if (a && a->kind != kind)
		tw_raise(TW_ERR_MODEL, "node '%s' (%s, opset %d): attribute '%s' must be %s", n->name, n->op_type,
			 n->opset, name, what);
	return a;
}

int64_t tw_attr_int(const struct tw_node *n, const char *name, int64_t otherwise)
{
	const struct tw_attr *a = of_kind(n, name, TW_ATTR_INT, "an integer");
	return a ? a->i : otherwise;
}

float tw_attr_float(const struct tw_node *n, const char *name, float otherwise)
{
	const struct tw_attr *a = of_kind(n, name, TW_ATTR_FLOAT, "a float");
	return a ? a->f : otherwise;
}

const char *tw_attr_string(const struct tw_node *n, const char *name, const char *otherwise)
{
	const struct tw_attr *a = of_kind(n, name, TW_ATTR_STRING, "a string");
	return a ? a->s : otherwise;
}

int tw_attr_ints(const struct tw_node *n, const char *name, const int64_t **values)
{
	const struct tw_attr *a = of_kind(n, name, TW_ATTR_INTS, "a list of integers");
	*values = a ? a->ints : NULL;
	return a ? a->n : -1;
}

int tw_attr_floats(const struct tw_node *n, const char *name, const float **values)
{
	const struct tw_attr *a = of_kind(n, name, TW_ATTR_FLOATS, "a list of floats");
	*values = a ? a->floats : NULL;
	return a ? a->n : -1;
}
