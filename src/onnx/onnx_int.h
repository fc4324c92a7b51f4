/* onnx_int.h: what the files of onnx/ share: the decoded model, before it becomes a graph. Strings are in the
   arena, tensors stay slices of the file. */
#ifndef TW_ONNX_INT_H
#define TW_ONNX_INT_H

#include "onnx/onnx.h"
#include "onnx/wire.h"

struct onnx_attr {
	const char *name, *ref; /* ref: of the calling function's attribute, or NULL */
	int type;		/* AttributeProto.AttributeType, or 0 when not said */
	bool has_f, has_i, has_s, has_t;
	struct tw_wire message; /* all of it */
};

struct onnx_node {
	const char *name, *op_type, *domain, *overload;
	const char *shown; /* what messages call its operator; NULL: op_type */
	int nin, nout, nattrs;
	const char **in, **out; /* "" absent */
	const struct onnx_attr *attrs;
	int opset; /* of its domain where it stands; 0: the domain is not imported */
};

struct onnx_opset {
	const char *domain;
	int64_t version;
};

struct onnx_value { /* input or output */
	const char *name;
	const char *kind; /* NULL: a tensor; else "sequence" .. */
	int elem;
	int rank;			   /* -1: not said */
	int64_t dims[TWIR_MAX_RANK];	   /* -1: not a plain number */
	const char *params[TWIR_MAX_RANK]; /* dim_param or "" */
};

struct onnx_function {
	const char *name, *domain, *overload;
	VEC(struct onnx_opset) opsets;
	VEC(const char *) inputs, outputs, attrs; /* attrs: names */
	VEC(struct onnx_attr) defaults;
	VEC(struct onnx_node) nodes;
};

struct onnx_initializer {
	struct tw_wire message;
	const char *name; /* its name in the flat model when it comes from a subgraph; NULL: its own */
};

struct onnx_graph { /* the main graph or a branch of If */
	VEC(struct onnx_node) nodes;
	VEC(struct onnx_value) inputs, outputs;
	VEC(struct onnx_initializer) initializers;
	const char *name;
	int nsparse;
};

struct onnx_model {
	const char *file;
	struct tw_arena *arena;
	int64_t ir_version;
	const char *producer;
	VEC(struct onnx_opset) opsets;
	VEC(struct onnx_function) functions;
	struct onnx_graph graph;
	bool has_graph;
	VEC(const char *) meta_keys, meta_values;
};

/* model.c */
void onnx_decode(struct tw_arena *a, const char *file, const void *bytes, size_t size, struct onnx_model *out);
void onnx_decode_graph(struct tw_arena *a, struct tw_wire w, struct onnx_graph *g);
int onnx_opset_of(const struct onnx_opset *list, int n, const char *domain); /* 0: none */
const char *onnx_domain(const char *domain);				     /* "ai.onnx" is "" */

/* foreign.c: what the file is when it is no model ("a web page .."); NULL: it may be one */
const char *onnx_foreign(const uint8_t *at, size_t size);

/* flatten.c: the main graph's nodes with calls of model-local functions and branches of If replaced by their
   bodies, attributes resolved, opsets filled in. Initialisers of branches join those of the main graph. */
void onnx_expand(struct onnx_model *m, int *n, struct onnx_node **nodes);

/* tensor_proto.c */
const char *onnx_elem_name(int elem);	     /* "float8e4m3fn" */
enum twir_scalar onnx_elem_type(int elem);   /* what an element is kept in; TWIR_VOID: not supported */
enum twir_scalar onnx_elem_narrow(int elem); /* of 4 and 2 bits: its own type, else TWIR_VOID */
struct onnx_tensor_options {
	const char *folder; /* external data; NULL: refused */
	struct tw_onnx_files *files;
	int64_t copy_up_to; /* data of up to this many bytes is copied (aligned); larger may stay in the file */
};
/* elem_out: the TensorProto type; out->type is TWIR_VOID (and no data) when it is not supported. */
void onnx_tensor_decode(struct tw_arena *a, struct tw_wire message, const struct onnx_tensor_options *o,
			struct tw_onnx_tensor *out, int *elem_out);

/* external.c: `length` bytes (-1: the rest) at `offset` of a file inside the model's folder */
const void *onnx_external(struct tw_arena *a, const struct onnx_tensor_options *o, const char *tensor,
			  const char *location, int64_t offset, int64_t length, int64_t *bytes);

/* problems.c */
struct onnx_problem {
	const char *what;
	int count;	   /* of the nodes that need what is not supported; 0: a fault of the model */
	const char *names; /* of the first of them */
};
struct onnx_problems {
	struct tw_arena *arena;
	struct tw_strmap index; /* what is in the list: its number + 1 */
	VEC(struct onnx_problem) list;
	bool malformed;
	bool tangled; /* nodes are not in order, or two make one tensor: nothing can be inferred */
};
/* node: that needs it, or a tensor; NULL: the model does */
void onnx_unsupported(struct onnx_problems *x, const char *node, const char *what);
void onnx_malformed(struct onnx_problems *x, const char *fmt, ...) TW_PRINTF(2, 3);
/* Returns when there are none. g: the graph as far as it could be made; gets them all, and those of inference. */
void onnx_raise_problems(struct onnx_problems *x, struct tw_graph *g, const char *model);

/* attributes.c: attribute to graph form. Returns false (and the reason) when its type is not supported. */
bool onnx_attribute(struct tw_graph *g, const struct onnx_attr *in, struct tw_attr *out, const char **reason);

#endif
