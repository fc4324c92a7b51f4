/* onnx: reads ONNX models and tensor files. Input: bytes, trusted in nothing. Output: a graph whose large constants
 * point into those bytes.
 *
 * Every length is checked against the bytes at hand and memory stays within a small multiple of the file's size, so
 * a damaged or hostile file ends in TW_ERR_MODEL (malformed) or TW_ERR_UNSUPPORTED. Of a file that can be read, all that
 * is wrong is told at once, a line for each thing. */
#ifndef TW_ONNX_H
#define TW_ONNX_H

#include "graph/graph.h"

#include <sys/stat.h>

struct tw_custom;

enum { TW_ONNX_MIN_OPSET = 1, TW_ONNX_MAX_OPSET = 28, TW_ONNX_MIN_IR = 3, TW_ONNX_MAX_IR = 14 };

/* Files mapped for external data. Zeroed by the caller, closed by the caller after the graph's last use (and before
   the arena is freed). */
struct tw_onnx_file {
	const char *name;
	void *at;
	int64_t bytes;
	struct stat st; /* when it was mapped */
};
struct tw_onnx_files {
	VEC(struct tw_onnx_file) list;
};
void tw_onnx_close(struct tw_onnx_files *files);

/* A TensorProto. Strings and complex numbers are refused by name. */
struct tw_onnx_tensor {
	const char *name;
	enum twir_scalar type;
	int rank;
	int64_t dims[TWIR_MAX_RANK];
	/* row-major little-endian; aligned to its element only when copied (see tw_onnx_import); never NULL */
	const void *data;
	int64_t bytes;
	enum twir_scalar
		narrow; /* U4, I4, U2, I2, F4E2M1: the file's elements are of it; each has a byte here. Else VOID */
};
/* Reads a TensorProto file (.pb) held in memory; data is aligned to 16 bytes, in the arena. Raises. */
void tw_onnx_tensor_read(struct tw_arena *a, const char *file_name, const void *bytes, size_t size,
			 struct tw_onnx_tensor *out);

struct tw_onnx_source {
	const void *bytes;
	size_t size;
	const char *name;	     /* of the model, for messages */
	const char *folder;	     /* of the model, for external data; NULL: external data is refused */
	struct tw_onnx_files *files; /* required with folder */
	int nfixed;		     /* symbols given a value: by their name in the file, or as the module spells it */
	const char *const *fixed_names;
	const int64_t *fixed_values;
	int ncustom; /* operators that the caller has given, which come first (ops/custom.h) */
	const struct tw_custom *custom;
	struct tw_graph **graph; /* set to the graph before anything is raised of what is in it; NULL: nobody asks */
	int nconstants;		 /* graph inputs turned into constants (name says which); data must outlive the graph */
	const struct tw_onnx_tensor *constants;
};

/* Constants of up to 64 KB are copied and aligned; larger ones point into source->bytes or a mapped file and may be
   unaligned: read them by memcpy. The source's bytes must outlive the graph. A symbol is named after its dim_param,
   with characters other than letters, digits and '_' made '_'; an input's unnamed size d is the symbol INPUT_d. The
   graph holds no types of intermediate tensors: run tw_infer next. */
struct tw_graph *tw_onnx_import(struct tw_arena *a, struct twir_module *m, const struct tw_onnx_source *src);

#endif
