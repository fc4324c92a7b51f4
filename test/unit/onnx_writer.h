/* onnx_writer.h: writes ONNX models for tests, field by field, so that malformed ones can be written too. */
#ifndef ONNX_WRITER_H
#define ONNX_WRITER_H

#include "base/base.h"

void put_varint(struct tw_buf *b, uint64_t v);
void put_int(struct tw_buf *b, int field, int64_t v);
void put_float(struct tw_buf *b, int field, float v);
void put_bytes(struct tw_buf *b, int field, const void *at, size_t n);
void put_text(struct tw_buf *b, int field, const char *s);
void put_message(struct tw_buf *b, int field, const struct tw_buf *m);

/* ValueInfoProto of field: float tensor; sizes "3", "N" or "" (unknown), separated by ','. NULL: no shape. */
void put_value(struct tw_buf *graph, int field, const char *name, int elem, const char *sizes);
/* NodeProto of field 1 (7 in a function): inputs and outputs separated by ','. attrs: AttributeProto messages
   already written, or NULL. */
void put_node(struct tw_buf *graph, int field, const char *op, const char *domain, const char *in, const char *out,
	      const struct tw_buf *attrs);
void put_attr_int(struct tw_buf *attrs, const char *name, int64_t v);
void put_attr_float(struct tw_buf *attrs, const char *name, float v);
void put_attr_ref(struct tw_buf *attrs, const char *name, const char *outer, int type);
/* TensorProto of field 5: float initialiser, or i64 when ints is given. */
void put_initializer(struct tw_buf *graph, const char *name, int rank, const int64_t *dims, const float *floats,
		     const int64_t *ints, int n);
/* ModelProto around a graph: IR version 8, one opset import of "", and functions (may be NULL). */
void put_model(struct tw_buf *model, const struct tw_buf *graph, int opset, const struct tw_buf *functions);

#endif
