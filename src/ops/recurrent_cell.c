/* recurrent_cell.c: one step of RNN, GRU and LSTM as definitions.
 *
 * Input: states before the step, the projected inputs of all steps, the loop's number. Output: states after the step.
 * The product with the recurrent weights is a matmul of its own; the gates are elementwise behind it. */
#include "ops/elementwise.h"
#include "ops/recurrent.h"

typedef const struct twir_expr *E;

E tw_cell_length(struct tw_opctx *x, E b)
{
	return twir_cast(x->m, TWIR_INDEX, tw_load(x, tw_x(x, 4), 1, &b));
}

E tw_cell_time(struct tw_opctx *x, const struct tw_cell *c, E step, E d, E b)
{
	struct twir_module *m = x->m;
	if (!c->reverse && c->directions == 1)
		return step;
	const E one = twir_index(m, 1);
	E back;
	if (c->lengths) {
		const E length = tw_cell_length(x, b);
		const E in_time = twir_sub(m, twir_sub(m, length, one), step);
		back = twir_select(m, twir_lt(m, step, length), in_time, step);
		back = twir_max(m, twir_index(m, 0), twir_min(m, back, twir_sub(m, c->time, one)));
	} else {
		back = twir_sub(m, twir_sub(m, c->time, one), step);
	}
	return c->directions == 1 ? back : twir_select(m, twir_eq(m, d, one), back, step);
}

struct step {
	struct tw_opctx *x;
	const struct tw_cell *c;
	struct twir_tensor *product; /* h R: (direction, batch, ..) */
	E const *at;		     /* direction, batch, hidden */
};

static E gate_column(const struct step *s, int gate)
{
	struct twir_module *m = s->x->m;
	return twir_add(m, twir_mul(m, s->c->hidden, twir_index(m, gate)), s->at[2]);
}

static E projected(const struct step *s, int gate)
{
	struct twir_module *m = s->x->m;
	const E time = tw_cell_time(s->x, s->c, twir_var(m, s->c->loop->number), s->at[0], s->at[1]);
	const E row = twir_add(m, twir_mul(m, time, s->c->batch), s->at[1]);
	const E at[] = {s->at[0], tw_simplify(s->x, row), gate_column(s, gate)};
	return tw_load(s->x, s->c->projected, 3, at);
}

static E recurrent(const struct step *s, int gate)
{
	const E at[] = {s->at[0], s->at[1], gate_column(s, gate)};
	return tw_load(s->x, s->product, 3, at);
}

static E sum(const struct step *s, int gate)
{
	return twir_add(s->x->m, projected(s, gate), recurrent(s, gate));
}

static E load_state(const struct step *s, struct twir_tensor *t)
{
	return tw_load(s->x, t, 3, s->at);
}

static struct twir_tensor *state_tensor(struct tw_opctx *x, const struct tw_cell *c, const char *name)
{
	const E shape[] = {twir_index(x->m, c->directions), c->batch, c->hidden};
	return tw_temp(x, name, c->type, 3, shape);
}

/* (direction, batch, columns) = h (direction, batch, hidden) times the columns of R from `first` on */
static struct twir_tensor *product(struct tw_opctx *x, const struct tw_cell *c, struct twir_tensor *h, int first,
				   int gates)
{
	const E columns = twir_mul(x->m, c->hidden, twir_index(x->m, gates));
	const E shape[] = {twir_index(x->m, c->directions), c->batch, columns};
	struct twir_tensor *y = tw_temp(x, "recurrent", c->type, 3, shape);
	E *i;
	struct twir_var **axes = tw_axes(x, y, &i);
	struct twir_var *k = tw_fold_axis(x, "k", c->hidden);
	const E ke = twir_var(x->m, k),
		column = twir_add(x->m, twir_mul(x->m, c->hidden, twir_index(x->m, first)), i[2]);
	const E ha[] = {i[0], i[1], ke}, ra[] = {i[0], ke, tw_simplify(x, column)};
	const E v = twir_mul(x->m, tw_load(x, h, 3, ha), tw_load(x, c->weights, 3, ra));
	tw_define(x, y, axes, twir_fold(x->m, TWIR_Add, 1, &k, &c->hidden, v));
	return y;
}

static void rnn(struct tw_opctx *x, struct tw_cell *c, struct twir_tensor *h, struct twir_tensor **new_h)
{
	struct step s = {.x = x, .c = c, .product = product(x, c, h, 0, 1)};
	struct twir_tensor *y = *new_h = state_tensor(x, c, "h");
	E *at;
	struct twir_var **axes = tw_axes(x, y, &at);
	s.at = at;
	tw_define(x, y, axes, tw_cell_activate(x, c, 0, at[0], sum(&s, 0)));
}

/* Element of P (direction, 3 * hidden) for a gate times the state */
static E peep(const struct step *s, int block, E state, E v)
{
	if (!tw_has_in(s->x, 7))
		return v;
	const E at[] = {s->at[0], gate_column(s, block)};
	return twir_add(s->x->m, v, twir_mul(s->x->m, tw_load(s->x, tw_x(s->x, 7), 2, at), state));
}

static void lstm(struct tw_opctx *x, struct tw_cell *c, struct twir_tensor *h, struct twir_tensor *state,
		 struct twir_tensor **new_h, struct twir_tensor **new_state)
{
	struct twir_module *m = x->m;
	struct step s = {.x = x, .c = c};
	s.product = c->quantized ? tw_cell_product(x, h, 2, "recurrent") : product(x, c, h, 0, 4);
	struct twir_tensor *cy = *new_state = state_tensor(x, c, "c"), *y;
	E *at;
	struct twir_var **axes = tw_axes(x, cy, &at);
	s.at = at;
	const E old = load_state(&s, state);
	const E input = tw_cell_activate(x, c, 0, at[0], peep(&s, 0, old, sum(&s, 0)));
	const E forget = c->input_forget ? twir_sub(m, tw_like(x, input, 1), input)
					 : tw_cell_activate(x, c, 0, at[0], peep(&s, 2, old, sum(&s, 2)));
	const E fresh = tw_cell_activate(x, c, 1, at[0], sum(&s, 3));
	tw_define(x, cy, axes, twir_add(m, twir_mul(m, forget, old), twir_mul(m, input, fresh)));
	y = *new_h = state_tensor(x, c, "h");
	axes = tw_axes(x, y, &at);
	s.at = at;
	const E now = load_state(&s, cy);
	const E output = tw_cell_activate(x, c, 0, at[0], peep(&s, 1, now, sum(&s, 1)));
	struct tw_cell plain = *c;
	plain.clip = 0; /* it bounds the gates, not the state */
	tw_define(x, y, axes, twir_mul(m, output, tw_cell_activate(x, &plain, 2, at[0], now)));
}

static void gru(struct tw_opctx *x, struct tw_cell *c, struct twir_tensor *h, struct twir_tensor **new_h)
{
	struct twir_module *m = x->m;
	struct step s = {.x = x, .c = c, .product = product(x, c, h, 0, c->linear_before_reset ? 3 : 2)};
	struct twir_tensor *hidden = NULL, *y;
	struct twir_var **axes;
	E *at;
	if (!c->linear_before_reset) {
		struct twir_tensor *kept = state_tensor(x, c, "kept");
		axes = tw_axes(x, kept, &at);
		s.at = at;
		tw_define(x, kept, axes, twir_mul(m, tw_cell_activate(x, c, 0, at[0], sum(&s, 1)), load_state(&s, h)));
		hidden = product(x, c, kept, 2, 1);
	}
	y = *new_h = state_tensor(x, c, "h");
	axes = tw_axes(x, y, &at);
	s.at = at;
	const E update = tw_cell_activate(x, c, 0, at[0], sum(&s, 0));
	E fresh;
	if (hidden) {
		fresh = twir_add(m, projected(&s, 2), tw_load(x, hidden, 3, at));
	} else {
		E linear = recurrent(&s, 2);
		if (tw_has_in(x, 3)) {
			const E bias[] = {at[0], gate_column(&s, 5)};
			linear = twir_add(m, linear, tw_load(x, tw_x(x, 3), 2, bias));
		}
		const E reset = tw_cell_activate(x, c, 0, at[0], sum(&s, 1));
		fresh = twir_add(m, projected(&s, 2), twir_mul(m, reset, linear));
	}
	fresh = tw_cell_activate(x, c, 1, at[0], fresh);
	const E other = twir_sub(m, tw_like(x, update, 1), update);
	tw_define(x, y, axes, twir_add(m, twir_mul(m, other, fresh), twir_mul(m, update, load_state(&s, h))));
}

void tw_cell_step(struct tw_opctx *x, struct tw_cell *c, struct twir_tensor *h, struct twir_tensor *state,
		  struct twir_tensor **new_h, struct twir_tensor **new_state)
{
	if (c->kind == TW_CELL_RNN)
		rnn(x, c, h, new_h);
	else if (c->kind == TW_CELL_GRU)
		gru(x, c, h, new_h);
	else
		lstm(x, c, h, state, new_h, new_state);
}
