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

struct tw_dialect {
	const char *name;
	int vector_bytes;	     /* wider vectors are halved */
	const struct cgen_row *rows; /* end with op == NULL; NULL: none of its own */
};

extern const struct cgen_row cgen_rows_common[], cgen_rows_avx512[], cgen_rows_avx2[], cgen_rows_neon[],
	cgen_rows_plain[], cgen_rows_shuffle[];

#endif
