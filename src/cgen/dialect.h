/* dialect: what differs between targets of the C emitter, as tables of strings. Input: (operation, types); output: the
 * text of one helper function.
 *
 * A row is chosen by operation, element type and lane count; the dialect's own rows come first, then the common ones.
 * Text may hold, for types a and b:
 *   $F        the helper's name
 *   $V $S $N  vector type, element type, lanes of a (lanes 1: $V is the scalar type); $H: the halved vector
 *   $M        the mask vector (i32 lanes)
 *   $I        integers as wide as a's elements: what a comparison of a's gives
 *   $T        as $V, but integers are of int or long long, as builtins want them
 *   $R $W     vector of b; the same with elements of 32 bits at least
 *   $a $b $L  names of a, b and a's element type: helpers are called op_$a, op_$a_$b; `needs` lists them to come first
 *   $X $J     "x, x, .." and "0, 1, .." for each lane
 *   $K $k     the float bounds of b: below $K, not below $k; $m $n: the largest and smallest value of b
 *   $w        bits of a's elements, less one
 *   $f        suffix of builtins: f for f32 */
#ifndef TW_DIALECT_H
#define TW_DIALECT_H

#include "ir/ir.h"

enum { ROW_SCALAR = 1, ROW_VECTOR = 0 }; /* lanes of a row: 1, any number above 1, or exactly n */

#define T_(s)	   (1u << TWIR_##s)
#define T_F32	   T_(F32)
#define T_F64	   T_(F64)
#define T_FLOATS   (T_F32 | T_F64)
#define T_SIGNED   (T_(I8) | T_(I16) | T_(I32) | T_(I64))
#define T_UNSIGNED (T_(U8) | T_(U16) | T_(U32) | T_(U64))
#define T_INTS	   (T_SIGNED | T_UNSIGNED)
#define T_ALL	   (T_FLOATS | T_INTS)

struct cgen_row {
	const char *op;
	unsigned types; /* set of element types of a */
	int lanes;
	/* words: "op" same type as this row's a; "op.s" its element type; "op.h" its halved vector; "op.b" type b */
	const char *needs;
	const char *text;
	const char *clang; /* NULL: the same text; else text is for other compilers */
	unsigned btypes;   /* set of element types of b; 0: any */
};

/* What a language for GPUs calls what C has no word for. Formats take what is named behind them. */
struct cgen_words {
	const char *prelude;
	const char *types[TWIR_SCALARS]; /* what i8, f32 .. are typedefs of */
	const char *inl;		 /* before a helper function */
	const char *kernel;		 /* %lld threads: before the kernel's name */
	const char *global, *restricts;	 /* qualifiers of parameters */
	const char *shared;		 /* before the declaration of a shared array */
	const char *pool; /* the same for one array of bytes whose size the launch tells; NULL: there is no such */
	const char *block, *thread; /* numbers of workers */
	const char *barrier[TWIR_LEVELS];
	const char *unroll;		  /* before a loop */
	const char *nan[2], *infinity[2]; /* f32, f64 */
	bool emulates; /* threads of a warp meet at a barrier of the block and pass values through its memory */
	const char *pool_words;	   /* %lld words of 64 bits: the declaration of that memory */
	const char *commit, *wait; /* of asynchronous copies; %d groups may be under way; NULL: copies are plain */
	bool contracts;		   /* the compiler fuses products into sums: they are written as calls */
};

struct tw_dialect {
	const char *name;
	int vector_bytes;		/* wider vectors are halved */
	const struct cgen_row *rows;	/* end with op == NULL; NULL: none of its own */
	const struct cgen_row *more;	/* of an instruction set that includes another; asked first */
	const struct cgen_words *words; /* NULL: C for a CPU */
};

extern const struct cgen_row cgen_rows_common[], cgen_rows_avx512[], cgen_rows_vnni[], cgen_rows_avx2[],
	cgen_rows_neon[], cgen_rows_plain[], cgen_rows_shuffle[], cgen_rows_bits[], cgen_rows_bits_global[],
	cgen_rows_cuda[], cgen_rows_opencl[];
extern const struct cgen_words cgen_words_cuda, cgen_words_opencl;

#endif
