/* recurrent.h: what the recurrent operators RNN, GRU and LSTM share. */
#ifndef TW_RECURRENT_H
#define TW_RECURRENT_H

#include "ops/flow.h"

enum tw_cell_kind { TW_CELL_RNN, TW_CELL_GRU, TW_CELL_LSTM };

struct tw_cell_activation {
	int function; /* of recurrent_activation.c */
	float alpha, beta;
};

struct tw_cell {
	enum tw_cell_kind kind;
	int gates, functions; /* blocks of rows in W; activations for each direction */
	int directions;
	bool reverse;	  /* the first direction runs backwards */
	bool batch_first; /* layout 1 */
	bool lengths;	  /* sequence_lens is given */
	bool input_forget, linear_before_reset;
	bool quantized; /* DynamicQuantizeLSTM: weights are (direction, input or hidden, gates * hidden) already */
	float clip;	/* 0: none */
	enum twir_scalar type; /* of all arithmetic */
	const struct twir_expr *time, *batch, *input, *hidden;
	struct tw_cell_activation activation[2][3];
	/* compute: */
	struct twir_tensor *projected; /* (direction, time * batch, gates * hidden): X W + biases */
	struct twir_tensor *weights;   /* R as (direction, hidden, gates * hidden); NULL when quantised */
	struct tw_flow *loop;
};

/* recurrent_activation.c: reads the lists of the node; the value of activation `which` for direction d */
void tw_cell_activations(struct tw_opctx *x, struct tw_cell *c);
const struct twir_expr *tw_cell_activate(struct tw_opctx *x, const struct tw_cell *c, int which,
					 const struct twir_expr *d, const struct twir_expr *a);

/* recurrent_cell.c: the definitions of one step. h, c: the states before it, (direction, batch, hidden). Defines the
   states after it as if no sequence had ended. */
void tw_cell_step(struct tw_opctx *x, struct tw_cell *c, struct twir_tensor *h, struct twir_tensor *state,
		  struct twir_tensor **new_h, struct twir_tensor **new_state);
/* Which time step number `step` of direction d in batch b is: an involution. */
const struct twir_expr *tw_cell_time(struct tw_opctx *x, const struct tw_cell *c, const struct twir_expr *step,
				     const struct twir_expr *d, const struct twir_expr *b);
const struct twir_expr *tw_cell_length(struct tw_opctx *x, const struct twir_expr *b);

/* recurrent_quantized.c. Types and shapes of what DynamicQuantizeLSTM adds */
void tw_cell_check_quantized(struct tw_opctx *x, const struct tw_cell *c, const struct twir_expr *columns);
/* (direction, rows, columns): t, (rows, inner) or (direction, rows, inner), rounded to one of 256 equal steps from its least to its greatest value, 0 among
   them, times the weights of input 1 or 2 */
struct twir_tensor *tw_cell_product(struct tw_opctx *x, struct twir_tensor *t, int weights, const char *name);

#endif
