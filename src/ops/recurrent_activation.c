/* recurrent_activation.c: the activations that recurrent cells name in their attributes.
 *
 * Input: `activations`, `activation_alpha` and `activation_beta`; the lists of numbers are used up in order by the
 * functions that take them. Output: expressions. Names are matched without regard to case. */
#include "ops/elementwise.h"
#include "ops/recurrent.h"

#include <strings.h>

typedef const struct twir_expr *E;

enum { SIGMOID, TANH, RELU, AFFINE, LEAKY_RELU, THRESHOLDED_RELU, SCALED_TANH, HARD_SIGMOID, ELU, SOFTSIGN, SOFTPLUS };

static const struct {
	const char *name;
	int numbers; /* 1: alpha, 2: alpha and beta */
	float alpha, beta;
} functions[] = {
	[SIGMOID] = {"Sigmoid", 0, 0, 0},
	[TANH] = {"Tanh", 0, 0, 0},
	[RELU] = {"Relu", 0, 0, 0},
	[AFFINE] = {"Affine", 2, 1, 0},
	[LEAKY_RELU] = {"LeakyRelu", 1, 0.01f, 0},
	[THRESHOLDED_RELU] = {"ThresholdedRelu", 1, 1, 0},
	[SCALED_TANH] = {"ScaledTanh", 2, 1, 1},
	[HARD_SIGMOID] = {"HardSigmoid", 2, 0.2f, 0.5f},
	[ELU] = {"Elu", 1, 1, 0},
	[SOFTSIGN] = {"Softsign", 0, 0, 0},
	[SOFTPLUS] = {"Softplus", 0, 0, 0},
};

static int find(struct tw_opctx *x, const char *name)
{
	for (int i = 0; i < TW_COUNT(functions); i++)
		if (strcasecmp(functions[i].name, name) == 0)
			return i;
	tw_op_fail(x, TW_ERR_UNSUPPORTED, "activation '%s' is not supported", name);
}

void tw_cell_activations(struct tw_opctx *x, struct tw_cell *c)
{
	static const int defaults[][3] = {
		[TW_CELL_RNN] = {TANH}, [TW_CELL_GRU] = {SIGMOID, TANH}, [TW_CELL_LSTM] = {SIGMOID, TANH, TANH}};
	const struct tw_attr *names = tw_attr_find(x->node, "activations");
	const float *alpha = NULL, *beta = NULL;
	const int nalpha = tw_attr_floats(x->node, "activation_alpha", &alpha);
	const int nbeta = tw_attr_floats(x->node, "activation_beta", &beta);
	int a = 0, b = 0;
	if (names && names->n != c->functions * c->directions)
		tw_op_fail(x, TW_ERR_MODEL, "%d activations; %d are needed", names->n, c->functions * c->directions);
	for (int d = 0; d < c->directions; d++)
		for (int i = 0; i < c->functions; i++) {
			const int f = names ? find(x, names->strings[d * c->functions + i]) : defaults[c->kind][i];
			struct tw_cell_activation *to = &c->activation[d][i];
			*to = (struct tw_cell_activation){f, functions[f].alpha, functions[f].beta};
			if (functions[f].numbers > 0 && a < nalpha)
				to->alpha = alpha[a++];
			if (functions[f].numbers > 1 && b < nbeta)
				to->beta = beta[b++];
		}
}

static E number(struct tw_opctx *x, E like, float value)
{
	return tw_like(x, like, (double)value);
}

static E apply(struct tw_opctx *x, const struct tw_cell_activation *f, E a)
{
	struct twir_module *m = x->m;
	const E alpha = number(x, a, f->alpha), beta = number(x, a, f->beta), zero = number(x, a, 0),
		one = number(x, a, 1);
	switch (f->function) {
	case SIGMOID:
		return tw_call(x, "sigmoid", a);
	case TANH:
		return tw_call(x, "tanh", a);
	case RELU:
		return twir_max(m, a, zero);
	case AFFINE:
		return twir_add(m, twir_mul(m, alpha, a), beta);
	case LEAKY_RELU:
		return twir_select(m, twir_lt(m, a, zero), twir_mul(m, alpha, a), a);
	case THRESHOLDED_RELU:
		return twir_select(m, twir_lt(m, a, alpha), zero, a);
	case SCALED_TANH:
		return twir_mul(m, alpha, tw_call(x, "tanh", twir_mul(m, beta, a)));
	case HARD_SIGMOID:
		return twir_min(m, twir_max(m, twir_add(m, twir_mul(m, alpha, a), beta), zero), one);
	case ELU:
		return twir_select(m, twir_lt(m, a, zero), twir_mul(m, alpha, tw_call(x, "expm1", a)), a);
	case SOFTSIGN:
		return twir_div(m, a, twir_add(m, one, twir_unary(m, TWIR_Abs, a)));
	default:
		return tw_call(x, "softplus", a);
	}
}

E tw_cell_activate(struct tw_opctx *x, const struct tw_cell *c, int which, E d, E a)
{
	if (c->clip > 0)
		a = twir_max(x->m, twir_min(x->m, a, number(x, a, c->clip)), number(x, a, -c->clip));
	const struct tw_cell_activation *first = &c->activation[0][which], *second = &c->activation[1][which];
	const E v = apply(x, first, a);
	if (c->directions == 1 ||
	    (first->function == second->function && first->alpha == second->alpha && first->beta == second->beta))
		return v;
	return twir_select(x->m, twir_eq(x->m, d, twir_index(x->m, 0)), v, apply(x, second, a));
}
