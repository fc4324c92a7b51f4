/* graph: ONNX-level graph of operators on tensors. Made by onnx/, read and changed by ops/ and opt/, turned into
 * compute definitions by opt/lower. Tensors and nodes are ids; no pointer into the vectors is held across growth.
 * Sizes are IR expressions over symbols. */
#ifndef TW_GRAPH_H
#define TW_GRAPH_H

#include "ir/ir.h"

typedef uint32_t tw_id;
#define TW_NONE UINT32_MAX /* an absent optional input or output */

struct tw_attr { /* one attribute of a node, as parsed */
	const char *name;
	enum tw_attr_kind {
		TW_ATTR_INT,
		TW_ATTR_FLOAT,
		TW_ATTR_STRING,
		TW_ATTR_TENSOR,
		TW_ATTR_GRAPH,
		TW_ATTR_INTS,
		TW_ATTR_FLOATS,
		TW_ATTR_STRINGS,
		TW_ATTR_OTHER
	} kind;
	int64_t i;
	float f;
	const char *s; /* NUL-terminated copy; s_n its length (strings may hold NULs) */
	int64_t s_n;
	int n; /* ints, floats, strings */
	const int64_t *ints;
	const float *floats;
	const char **strings;
	tw_id tensor;		/* a constant tensor of the graph */
	struct tw_graph *graph; /* If, Loop, Scan */
};

struct tw_tensor {
	const char *name;		/* "" for unnamed */
	enum twir_scalar type;		/* TWIR_VOID: not known yet */
	int rank;			/* -1: not known yet */
	const struct twir_expr **shape; /* rank sizes of type index */
	/* constant: row-major little-endian elements (in the mapped model file or the arena); NULL: not constant */
	const void *data;
	int64_t bytes; /* of data */
	/* U4, I4, U2, I2, F4E2M1: the tensor's type in the model, whose elements are kept in a byte each: type is u8 or i8.
	   VOID: it is its own type */
	enum twir_scalar narrow;
	int nvalues; /* small integer tensors (shapes, axes): element values over symbols; -1: not known */
	const struct twir_expr **values;
	tw_id producer;		/* node, or TW_NONE: input or constant */
	struct twir_tensor *ir; /* made on demand by tw_graph_ir: the tensor of compute definitions */
};

struct tw_node {
	const struct tw_op *op; /* ops/op.h */
	const char *name;	/* node name, or "OpType_17" */
	const char *op_type, *domain;
	int opset; /* of its domain in the model */
	int nin, nout;
	tw_id *in, *out;
	int nattrs;
	const struct tw_attr *attrs;
	bool dead;
};

struct tw_require { /* a run whose symbols give a != b is refused: the shapes were inferred as if they were equal */
	const struct twir_expr *a, *b;
	const char *why; /* "node 'add_3' (Add): sizes of axis 2" */
};

struct tw_assumed {		      /* while inference is inside a branch: what is true there */
	const struct twir_expr *cond; /* i1 over symbols; NULL: only data knows */
	bool holds;
};

struct tw_decided { /* a size that only data decides: known once the host operator that makes the tensor has run */
	struct twir_var *symbol;
	const struct twir_expr *most; /* it is at most this, over the symbols of inputs and those before it */
};

struct tw_complaint {	   /* of a node or of the model: why there is nothing to compile */
	enum tw_code code; /* TW_ERR_MODEL or TW_ERR_UNSUPPORTED */
	const char *text;
};

struct tw_graph {
	struct tw_arena *arena;
	struct twir_module *m; /* owns all size expressions and compute definitions; subgraphs share it */
	VEC(struct tw_tensor) tensors;
	VEC(struct tw_node) nodes; /* in topological order; dead ones are skipped */
	VEC(tw_id) inputs, outputs;
	const char *name;
	struct tw_graph *outer; /* of a subgraph */
	const char *producer;	/* "pytorch 2.1", for messages */
	int nmeta;		/* metadata_props of the model */
	const char **meta_keys, **meta_values;
	VEC(struct tw_require) requires; /* sizes that could not be proved equal: checked at launch */
	VEC(struct tw_decided) decided;	 /* in the order of the nodes that decide them */
	/* A requirement inside a branch that only data decides is refused, for want of values; else it counts always. */
	bool wants_values;
	VEC(struct tw_assumed) assumed;	     /* innermost last; a requirement counts only where they hold */
	bool reference;			     /* definitions are to be evaluated: programs do not stand for them */
	VEC(struct tw_complaint) complaints; /* all that was found wrong; the error raised has the first of them */
	VEC(struct tw_flow *) flows;	     /* loops and branches (ops/flow.h); nodes refer to them by number */
};

struct tw_graph *tw_graph_new(struct tw_arena *a, struct twir_module *m);
tw_id tw_graph_tensor(struct tw_graph *g, const char *name, enum twir_scalar type, int rank,
		      const struct twir_expr *const *shape); /* rank -1: unknown */
tw_id tw_graph_constant(struct tw_graph *g, const char *name, enum twir_scalar type, int rank, const int64_t *dims,
			const void *data); /* data is kept, not copied */
tw_id tw_graph_node(struct tw_graph *g, const struct tw_op *op, const char *name, int opset, int nin, const tw_id *in,
		    int nout, const tw_id *out, int nattrs, const struct tw_attr *attrs);
/* The compute tensor of a graph tensor (type and rank must be known). */
struct twir_tensor *tw_graph_ir(struct tw_graph *g, tw_id t);
bool tw_graph_static(const struct tw_graph *g, tw_id t, int64_t *dims); /* all sizes constants? */
void tw_graph_replace(struct tw_graph *g, tw_id from,
		      tw_id to); /* every use, graph outputs too, of `from` becomes `to` */
void tw_graph_uses(const struct tw_graph *g,
		   int *count); /* count[tensor]: uses by live nodes (subgraphs included) and outputs */
void tw_graph_require(struct tw_graph *g, const struct twir_expr *a, const struct twir_expr *b, const char *why);
const char *tw_graph_print(struct tw_arena *a, const struct tw_graph *g); /* text form for --dump and golden tests */
const char *tw_graph_shape_text(struct tw_arena *a, const struct tw_graph *g, tw_id t); /* "f32[1, 3, N, 224]" */

/* attrs.c: the only way operators read attributes. Raise TW_ERR_MODEL naming node and attribute when the kind is
   wrong. */
const struct tw_attr *tw_attr_find(const struct tw_node *n, const char *name); /* NULL: absent */
int64_t tw_attr_int(const struct tw_node *n, const char *name, int64_t otherwise);
float tw_attr_float(const struct tw_node *n, const char *name, float otherwise);
const char *tw_attr_string(const struct tw_node *n, const char *name, const char *otherwise);
int tw_attr_ints(const struct tw_node *n, const char *name, const int64_t **values); /* -1: absent */
int tw_attr_floats(const struct tw_node *n, const char *name, const float **values);

#endif
