/* ops: one operator family a file. An operator is a row: versions, inputs, attributes, shape inference, compute
 * definition. There is no operator enum and no switch over operators anywhere: a node points to its row, other
 * rooms ask its flags. HOWTO-OPERATOR.md leads through a new one.
 *
 *     const struct tw_op tw_ops_softmax[] = {
 *         {.name = "Softmax", .since = 13, .in = {1, 1}, .out = {1, 1}, .attrs = attrs_axis, .infer = infer,
 *          .compute = compute13},
 *         {0}};
 *
 * A build step collects every `tw_ops_FILE` (one array for each ops/FILE.c) into ops_list.inc. */
#ifndef TW_OP_H
#define TW_OP_H

#include "graph/graph.h"

struct tw_opctx;

struct tw_attr_spec {
	const char *name;
	enum tw_attr_kind kind;
	bool required;
};

enum tw_op_flags {
	TW_OP_SHAPE_ONLY = 1, /* needs only the shapes of its inputs (Shape, Size) */
	TW_OP_HOST = 2,	      /* no compute definition: runs as a host operator of rt/host by name */
	TW_OP_RESHAPE = 4,    /* output has the input 0's elements in the same order */
	TW_OP_RANDOM = 8,     /* not folded */
	TW_OP_CHOICE = 16,  /* BranchEnd (branch.c): where the condition is known, the other side need not make sense */
	TW_OP_INDEXES = 32, /* input 1 holds indices along `axis` of input 0 */
	TW_OP_FLOW = 128,   /* its definitions lie in or begin or end a loop or branch: not evaluated beforehand */
	TW_OP_INDEXES_ND = 64,	/* input 1 holds coordinates in input 0, behind `batch_dims` axes */
	TW_OP_IMAGE = 256,	/* input 0 and output 0 are feature maps [batch, channels, spatial..] */
	TW_OP_CUSTOM = 512,	/* made of a text, which judges its attributes itself (custom.h) */
	TW_OP_PROGRAM = 1024,	/* .. of a program: its value cannot be evaluated beforehand */
	TW_OP_NARROW = 2048,	/* takes elements of 4 and 2 bits, which have a byte each (tw_tensor.narrow) */
	TW_OP_NARROW_ON = 4096, /* ... and hands those of input 0 on; operators with TW_OP_RESHAPE do too */
	TW_OP_KEEPS = 8192 /* matrices of 8-bit constants are not evaluated ahead: they may be multiplied as they are */
};

struct tw_op {
	const char *name;   /* "Softmax" */
	const char *domain; /* NULL: "" = ai.onnx */
	int since, until;   /* versions of the opset it serves, inclusive; until 0: the newest known */
	struct {
		int min, max;
	} in, out;			  /* counts; max -1: any */
	const struct tw_attr_spec *attrs; /* ends with name NULL; any other attribute is refused by name */
	unsigned flags;
	void (*infer)(struct tw_opctx *x);   /* sets type and shape of every output; checks inputs and attributes */
	void (*compute)(struct tw_opctx *x); /* defines every output (and temporaries) with tw_define */
	const struct tw_custom *custom;	     /* custom.h; NULL: an operator of ours */
};

/* Control flow between definitions: a mark stands in front of definition `at`. */
struct tw_mark {
	int at;
	enum tw_mark_kind {
		TW_MARK_LOOP, /* the definitions up to NEXT run once for each iteration, in order */
		TW_MARK_NEXT,
		TW_MARK_IF, /* those up to ELSE run when the condition holds, those from there to END when not */
		TW_MARK_ELSE,
		TW_MARK_END
	} kind;
	struct tw_flow *flow; /* ops/flow.h */
};

/* What infer and compute work with. */
struct tw_opctx {
	struct tw_graph *g;
	struct twir_module *m;
	const struct tw_node *node;
	struct tw_arena *arena;
	/* compute only: definitions in order */
	VEC(struct twir_compute *) computes;
	VEC(struct tw_mark) marks;
};

const struct tw_op *tw_op_find(const char *domain, const char *name, int opset); /* NULL: not supported at that opset */
const struct tw_op *tw_op_any(const char *domain,
			      const char *name); /* its first version, to say "supported from opset 13 on" */
int tw_op_count(void);
const struct tw_op *tw_op_at(int i);
/* A node of a known operator, its type and domain filled in (graph/ itself does not know operators). For passes
   that make nodes. */
tw_id tw_op_node(struct tw_graph *g, const struct tw_op *op, const char *name, int opset, int nin, const tw_id *in,
		 int nout, const tw_id *out, int nattrs, const struct tw_attr *attrs);

/* context.c: helpers for infer. Every complaint goes through tw_op_fail: "node 'conv1' (Conv, opset 13): ...". */
_Noreturn void tw_op_fail(struct tw_opctx *x, enum tw_code code, const char *fmt, ...) TW_PRINTF(3, 4);
bool tw_has_in(struct tw_opctx *x, int i); /* present? */
bool tw_has_out(struct tw_opctx *x, int i);
struct tw_tensor *tw_in(struct tw_opctx *x, int i); /* valid until the graph grows */
struct tw_tensor *tw_out(struct tw_opctx *x, int i);
enum twir_scalar tw_in_type(struct tw_opctx *x, int i);
int tw_in_rank(struct tw_opctx *x, int i);
const struct twir_expr *tw_in_dim(struct tw_opctx *x, int i, int d); /* d < 0 counts from the end */
void tw_set_out(struct tw_opctx *x, int i, enum twir_scalar type, int rank, const struct twir_expr *const *shape);
void tw_need_type(struct tw_opctx *x, int i, const char *allowed); /* "f32 f64 i32", "float", "int", "numeric", "any" */
void tw_need_same_type(struct tw_opctx *x, int first, int last);   /* absent inputs do not count */
const char *tw_narrow_name(enum twir_scalar narrow);		   /* "int4" */
/* Elements of 4 and 2 bits: the number that a byte stands for (f4e2m1: as f32; the others are what they are), and the
   byte for a number: integers, and floats without their fraction, give their lower bits; f4e2m1 saturates, and NaN is its -0. */
const struct twir_expr *tw_from_narrow(struct tw_opctx *x, enum twir_scalar narrow, const struct twir_expr *byte);
const struct twir_expr *tw_to_narrow(struct tw_opctx *x, enum twir_scalar narrow, const struct twir_expr *number);
int tw_axis(struct tw_opctx *x, int64_t axis, int rank); /* normalises -rank..rank-1, fails beyond */
/* Integer values of a small input: constants or expressions over symbols; -1 when not known at compile time. Fails
   when absent-but-required. */
int tw_in_values(struct tw_opctx *x, int i, const struct twir_expr *const **values);
int tw_in_consts(struct tw_opctx *x, int i, const int64_t **values); /* plain integers only; -1: not known */
bool tw_in_scalar(struct tw_opctx *x, int i,
		  double *value); /* constant scalar or one-element tensor of any numeric type */
/* Constant indices are judged at once: values first, first + step .. of input i, which may count from the end,
   against a size. */
void tw_check_indices(struct tw_opctx *x, int i, const struct twir_expr *size, int first, int step);
int tw_in_floats(struct tw_opctx *x, int i,
		 const double **values); /* elements of a constant of any numeric type; -1: not constant */
/* ints of an attribute or, from some opset on, an input (axes, pads, steps): input i when given, else the
   attribute; -1: neither */
int tw_ints(struct tw_opctx *x, const char *attr, int input, const int64_t **values);
/* Multidirectional broadcast of the shapes of inputs first..last; fails when sizes cannot match. Equal symbols
   match; 1 stretches. A constant beside a symbol gives the constant unless it is 1 (then the symbol). */
int tw_broadcast(struct tw_opctx *x, int first, int last, const struct twir_expr **shape);
const struct twir_expr *tw_simplify(struct tw_opctx *x, const struct twir_expr *e);
/* The sizes must be equal: proved, refused, or left to a check at launch (tw_graph_require). Returns the simpler of
   the two. */
const struct twir_expr *tw_same_size(struct tw_opctx *x, const struct twir_expr *a, const struct twir_expr *b,
				     const char *what);
/* A value of an input that decides shapes may be anything at launch (-1, 0, 5); a size cannot be negative. */
bool tw_may_be_negative(struct tw_opctx *x, const struct twir_expr *e);
/* Axes given as an attribute or input: for each of `rank` axes the condition that it is among them (constants where
   they are known); the number of axes, -1: neither is given. */
int tw_axes_conditions(struct tw_opctx *x, const char *attr, int input, int rank, const struct twir_expr **is_axis);
/* A size of output i that only data decides, at most `most`: a new symbol. For host operators. */
const struct twir_expr *tw_decided_size(struct tw_opctx *x, int i, const struct twir_expr *most);
const struct twir_expr *tw_product(struct tw_opctx *x, int n, const struct twir_expr *const *sizes);

/* Helpers for compute. */
struct twir_tensor *tw_x(struct tw_opctx *x, int i); /* the compute tensor of input i */
struct twir_tensor *tw_y(struct tw_opctx *x, int i); /* ... of output i */
struct twir_tensor *tw_temp(struct tw_opctx *x, const char *name, enum twir_scalar type, int rank,
			    const struct twir_expr *const *shape);
/* Fresh axes i0, i1 .. with ranges 0..shape-1, and their variables as expressions */
struct twir_var **tw_axes(struct tw_opctx *x, const struct twir_tensor *t, const struct twir_expr ***as_exprs);
struct twir_var *tw_fold_axis(struct tw_opctx *x, const char *name, const struct twir_expr *extent);
void tw_define(struct tw_opctx *x, struct twir_tensor *out, struct twir_var *const *axes,
	       const struct twir_expr *value);
/* t at the trailing axes, with sizes of 1 read at 0: numpy broadcasting. f16 and bf16 come back as f32 (tw_define
   casts back on the way out). */
const struct twir_expr *tw_load_broadcast(struct tw_opctx *x, struct twir_tensor *t, int n,
					  const struct twir_expr *const *axes);
const struct twir_expr *tw_load(struct tw_opctx *x, struct twir_tensor *t, int n,
				const struct twir_expr *const *index); /* same casts */
/* index -> coordinates of a row-major shape, and back */
void tw_unflatten(struct tw_opctx *x, const struct twir_expr *flat, int n, const struct twir_expr *const *shape,
		  const struct twir_expr **coords);
const struct twir_expr *tw_flatten(struct tw_opctx *x, int n, const struct twir_expr *const *shape,
				   const struct twir_expr *const *coords);
/* Coordinates in `from` of the element that has coordinates `to_at` in `to`, a shape of the same elements in the
   same order. Axes that the shapes share stay apart, so that the map is short even when sizes are symbols. */
void tw_reindex(struct tw_opctx *x, int nto, const struct twir_expr *const *to, const struct twir_expr *const *to_at,
		int nfrom, const struct twir_expr *const *from, const struct twir_expr **from_at);
/* A constant tensor made by the operator itself (a table, a window); becomes a graph constant. */
struct twir_tensor *tw_table(struct tw_opctx *x, const char *name, enum twir_scalar type, int rank, const int64_t *dims,
			     const void *data);

/* values.c: constants as numbers, and small tensors as expressions. */
int64_t tw_data_int(enum twir_scalar type, const void *data, int64_t i); /* element i; floats are truncated */
double tw_data_float(enum twir_scalar type, const void *data, int64_t i);
/* Element values of a small integer or i1 tensor (index and i1 expressions): from its data, or as inference found
   them; -1: not known. */
int tw_tensor_values(struct tw_graph *g, tw_id t, const struct twir_expr *const **values);
/* See TW_OP_KEEPS. */
bool tw_keeps_constants(const struct tw_graph *g, const struct tw_node *n);
void tw_evaluate_outputs(
	struct tw_opctx *x); /* fills values (or constant data) of the node's small outputs; x->computes may be empty */

/* infer.c: runs infer over the graph in order: fills types, shapes and, for small integer tensors, symbolic values
   (by evaluating the compute definition on the inputs' values, so shape arithmetic needs no code of its own).
   Checks counts, attributes and types against the row first. All unsupported nodes were reported by the importer
   already. After it every live tensor has type and rank. */
void tw_infer(struct tw_graph *g);
void tw_infer_node(struct tw_graph *g, tw_id node);
/* guard.c: indices that only data knows get a check before the nodes that use them: a host operator (tilewright,
   CheckIndices) that refuses what is out of range and hands the rest on. After inference. */
void tw_guard_indices(struct tw_graph *g);
/* Compute definitions of one node, appended in order. Not for host operators. */
void tw_compute_node(struct tw_graph *g, tw_id node, struct tw_arena *a, int *n, struct twir_compute ***computes);
/* The same with the marks between them. */
void tw_compute_flow(struct tw_graph *g, tw_id node, struct tw_arena *a, int *n, struct twir_compute ***computes,
		     int *nmarks, const struct tw_mark **marks);

#endif
