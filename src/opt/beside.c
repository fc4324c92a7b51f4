/* Convolutions of one element (1 x 1, stride 1, one group) that read one tensor and have few channels out become one,
 * with their weights one after the other, and a Split. Each of them fills its last vector of columns in part, and one of
 * a single vector waits for loads: there is nothing but the one row of weights to multiply a broadcast element with. One
 * wider convolution does both less often. The same activation behind all of them is computed before the Split, in the
 * convolution's store; others, and whatever else reads the results, read parts of the whole's channels.
 *
 * Not merged: wide ones, for whole vectors are as fast apart (and each result lies where its consumer wants it); those
 * whose result is laid into a Concat, where their stores go straight; those of two sides of a branch. */
#include "opt/opt.h"

enum {
	MAX_BESIDE = 16,
	ACTIVATION = 2,	 /* nodes: x * sigmoid(x) is two */
	FEWEST_ROWS = 32 /* fewer: reading the weights is what takes time */
};

struct branch {
	tw_id conv, result; /* result: behind the activation */
	int nact;
	tw_id act[ACTIVATION];
	int64_t channels;
};

struct users {	       /* of a tensor */
	tw_id node[2]; /* the first and the last */
	bool laid;     /* into a Concat */
};

struct beside {
	struct tw_graph *g;
	int lanes, *uses;
	int *region; /* of each node: loops and branches begin and end between two */
	struct users *users;
	VEC(struct tw_node) * before; /* of each node: those that now come before it */
};

static bool is_op(const struct tw_node *n, const char *name)
{
	return !n->dead && strcmp(n->op->name, name) == 0 && (!n->op->domain || !n->op->domain[0]) &&
	       !(n->op->flags & (TW_OP_CUSTOM | TW_OP_PROGRAM));
}

static bool is_f32(const struct tw_graph *g, tw_id t, int64_t elements)
{
	const struct tw_tensor *x = &g->tensors.at[t];
	return x->data && x->type == TWIR_F32 && x->bytes == elements * (int64_t)sizeof(float);
}

static bool all_are(const struct tw_node *n, const char *attribute, int64_t wanted)
{
	const int64_t *v;
	const int count = tw_attr_ints(n, attribute, &v);
	for (int i = 0; i < count; i++)
		if (v[i] != wanted)
			return false;
	return true;
}

/* A convolution without neighbours: each result is a sum over one element's channels. */
static bool as_branch(const struct tw_graph *g, tw_id at, struct branch *b)
{
	const struct tw_node *n = &g->nodes.at[at];
	int64_t wd[TWIR_MAX_RANK];
	if (!is_op(n, "Conv") || n->nin < 2 || !tw_graph_static(g, n->in[1], wd) || wd[0] < 1 || wd[1] < 1 ||
	    tw_attr_int(n, "group", 1) != 1 || !all_are(n, "strides", 1) || !all_are(n, "pads", 0))
		return false;
	for (int d = 2; d < g->tensors.at[n->in[1]].rank; d++)
		if (wd[d] != 1)
			return false;
	const bool has_bias = n->nin > 2 && n->in[2] != TW_NONE;
	*b = (struct branch){.conv = at, .result = n->out[0], .channels = wd[0]};
	return is_f32(g, n->in[1], wd[0] * wd[1]) && (!has_bias || is_f32(g, n->in[2], wd[0]));
}

static void see_users(struct beside *s)
{
	const struct tw_graph *g = s->g;
	for (int t = 0; t < g->tensors.n; t++)
		s->users[t] = (struct users){{TW_NONE, TW_NONE}, false};
	for (int i = 0; i < g->nodes.n; i++)
		for (int k = 0; k < g->nodes.at[i].nin && !g->nodes.at[i].dead; k++) {
			const tw_id t = g->nodes.at[i].in[k];
			if (t == TW_NONE)
				continue;
			struct users *u = &s->users[t];
			u->node[u->node[0] != TW_NONE] = (tw_id)i;
			u->laid |= is_op(&g->nodes.at[i], "Concat");
		}
}

/* A function of its first operand alone: the others, if any, are constants of one element. */
static bool is_activation(const struct tw_graph *g, const struct tw_node *n, tw_id of)
{
	static const char *const names[] = {"Relu",	   "LeakyRelu", "Sigmoid", "Tanh", "Clip",
					    "HardSigmoid", "HardSwish", "Elu",	   "Selu", "Softplus",
					    "Softsign",	   "Mish",	"Swish",   "Gelu"};
	bool known = false;
	for (int i = 0; i < TW_COUNT(names); i++)
		known |= is_op(n, names[i]);
	for (int k = 1; k < n->nin; k++)
		known &= n->in[k] == TW_NONE || (g->tensors.at[n->in[k]].data && g->tensors.at[n->in[k]].rank == 0);
	return known && n->nout == 1 && n->in[0] == of;
}

static void find_activation(const struct beside *s, struct branch *b)
{
	const struct tw_graph *g = s->g;
	const tw_id x = b->result, *user = s->users[x].node;
	for (int k = 0; k < 2; k++)
		if (user[k] != TW_NONE && s->region[user[k]] != s->region[b->conv])
			return;
	if (s->uses[x] == 1) {
		if (user[0] != TW_NONE && is_activation(g, &g->nodes.at[user[0]], x))
			b->act[b->nact++] = user[0];
	} else if (s->uses[x] == 2 && user[1] != TW_NONE) { /* x * sigmoid(x) */
		const bool swap = is_op(&g->nodes.at[user[1]], "Sigmoid");
		const struct tw_node *gate = &g->nodes.at[user[swap]], *product = &g->nodes.at[user[!swap]];
		if (is_op(gate, "Sigmoid") && is_op(product, "Mul") && s->uses[gate->out[0]] == 1 &&
		    ((product->in[0] == x && product->in[1] == gate->out[0]) ||
		     (product->in[1] == x && product->in[0] == gate->out[0]))) {
			b->act[b->nact++] = user[swap];
			b->act[b->nact++] = user[!swap];
		}
	}
	if (b->nact)
		b->result = g->nodes.at[b->act[b->nact - 1]].out[0];
}

static bool same_attributes(const struct tw_node *a, const struct tw_node *b)
{
	if (a->nattrs != b->nattrs)
		return false;
	for (int i = 0; i < a->nattrs; i++) {
		const struct tw_attr *x = &a->attrs[i], *y = tw_attr_find(b, x->name);
		if (!y || x->kind != y->kind || x->i != y->i || memcmp(&x->f, &y->f, sizeof(x->f)) != 0 ||
		    (x->kind != TW_ATTR_INT && x->kind != TW_ATTR_FLOAT))
			return false;
	}
	return true;
}

static bool same_constant(const struct tw_graph *g, tw_id a, tw_id b)
{
	if (a == b)
		return true;
	if (a == TW_NONE || b == TW_NONE)
		return false;
	const struct tw_tensor *x = &g->tensors.at[a], *y = &g->tensors.at[b];
	return x->type == y->type && x->bytes == y->bytes && memcmp(x->data, y->data, (size_t)x->bytes) == 0;
}

static bool same_activation(const struct tw_graph *g, const struct branch *a, const struct branch *b)
{
	if (a->nact != b->nact)
		return false;
	for (int i = 0; i < a->nact; i++) {
		const struct tw_node *x = &g->nodes.at[a->act[i]], *y = &g->nodes.at[b->act[i]];
		if (x->op != y->op || x->nin != y->nin || !same_attributes(x, y))
			return false;
		for (int k = 1; k < x->nin && a->nact == 1; k++)
			if (!same_constant(g, x->in[k], y->in[k]))
				return false;
	}
	return true;
}

/* Half cycles a row takes for each channel in: a multiply-add of a vector is one, but a single vector's waits for its
 * loads (measured: 1.4 to 1.8); one channel alone is a sum whose lanes run along the channels in. */
static double width_cost(const struct beside *s, int64_t channels)
{
	const int64_t vectors = tw_ceil_div(channels, s->lanes);
	return channels == 1 ? 2.0 / s->lanes + 0.15 : vectors == 1 ? 1.6 : (double)vectors;
}

/* Are they faster as one, by a good part? Their parts are read beside each other, or copied. */
static bool pays(const struct beside *s, int n, const struct branch *b, int64_t depth)
{
	enum { PART = 6 /* half cycles a row for each vector of a part */ };
	double apart = 0, parts = 0;
	int64_t all = 0;
	for (int i = 0; i < n; i++) {
		apart += width_cost(s, b[i].channels) * (double)depth;
		parts += PART * (double)tw_ceil_div(b[i].channels, s->lanes);
		all += b[i].channels;
	}
	return width_cost(s, all) * (double)depth + parts < 0.85 * apart;
}

static bool many_rows(const struct tw_graph *g, tw_id x)
{
	const struct tw_tensor *t = &g->tensors.at[x];
	int64_t rows = 1, size;
	for (int d = 0; d < t->rank; d++) {
		if (d == 1)
			continue;
		if (!twir_const_int(t->shape[d], &size))
			return true;
		if (__builtin_mul_overflow(rows, size, &rows))
			return false;
	}
	return rows >= FEWEST_ROWS;
}

static tw_id like(struct tw_graph *g, tw_id t, int64_t channels)
{
	const struct tw_tensor *x = &g->tensors.at[t];
	const struct twir_expr *shape[TWIR_MAX_RANK];
	for (int d = 0; d < x->rank; d++)
		shape[d] = d == 1 ? twir_index(g->m, channels) : x->shape[d];
	return tw_graph_tensor(g, "", TWIR_F32, x->rank, shape);
}

static tw_id whole_weights(struct tw_graph *g, int n, const struct branch *b, int64_t all, int64_t depth)
{
	const tw_id first = g->nodes.at[b[0].conv].in[1];
	int64_t dims[TWIR_MAX_RANK] = {all, depth}, at = 0;
	float *w = ARENA_ARRAY(g->arena, float, all *depth);
	for (int d = 2; d < g->tensors.at[first].rank; d++)
		dims[d] = 1;
	for (int i = 0; i < n; i++) {
		memcpy(w + at * depth, g->tensors.at[g->nodes.at[b[i].conv].in[1]].data,
		       (size_t)(b[i].channels * depth) * sizeof(float));
		at += b[i].channels;
	}
	return tw_graph_constant(g, "beside_weight", TWIR_F32, g->tensors.at[first].rank, dims, w);
}

static tw_id whole_bias(struct tw_graph *g, int n, const struct branch *b, int64_t all)
{
	float *bias = ARENA_ARRAY(g->arena, float, all);
	memset(bias, 0, (size_t)all * sizeof(*bias));
	int64_t at = 0;
	for (int i = 0; i < n; i++) {
		const struct tw_node *conv = &g->nodes.at[b[i].conv];
		if (conv->nin > 2 && conv->in[2] != TW_NONE)
			memcpy(bias + at, g->tensors.at[conv->in[2]].data, (size_t)b[i].channels * sizeof(*bias));
		at += b[i].channels;
	}
	return tw_graph_constant(g, "beside_bias", TWIR_F32, 1, &all, bias);
}

/* Puts a copy of the node, with other operands and results, before the first branch's convolution. */
static void put(struct beside *s, tw_id place, struct tw_node node, int nin, const tw_id *in, int nout,
		const tw_id *out)
{
	node.in = arena_copy(s->g->arena, in, sizeof(*in) * (size_t)nin);
	node.out = arena_copy(s->g->arena, out, sizeof(*out) * (size_t)nout);
	node.nin = nin;
	node.nout = nout;
	node.dead = false;
	vec_push(s->g->arena, &s->before[place], node);
}

static void put_split(struct beside *s, int n, const struct branch *b, tw_id whole, const char *name)
{
	struct tw_graph *g = s->g;
	static const struct tw_attr axis = {.name = "axis", .kind = TW_ATTR_INT, .i = 1};
	const int opset = 13;
	int64_t *sizes = ARENA_ARRAY(g->arena, int64_t, n), count = n;
	tw_id out[MAX_BESIDE];
	for (int i = 0; i < n; i++) {
		sizes[i] = b[i].channels;
		out[i] = b[i].result;
	}
	const tw_id in[] = {whole, tw_graph_constant(g, "beside_sizes", TWIR_I64, 1, &count, sizes)};
	const struct tw_node split = {.op = tw_op_find("", "Split", opset),
				      .name = name,
				      .op_type = "Split",
				      .domain = "",
				      .opset = opset,
				      .nattrs = 1,
				      .attrs = &axis};
	put(s, b[0].conv, split, 2, in, n, out);
}

static void merge(struct beside *s, int n, struct branch *b, int64_t depth)
{
	struct tw_graph *g = s->g;
	bool same = true;
	int64_t all = 0;
	const char *name = NULL;
	for (int i = 0; i < n; i++) {
		const char *own = g->nodes.at[b[i].conv].name;
		same &= same_activation(g, &b[0], &b[i]);
		all += b[i].channels;
		name = name ? arena_printf(g->arena, "%s+%s", name, own) : own;
	}
	const int nact = same ? b[0].nact : 0;
	struct tw_node first = g->nodes.at[b[0].conv];
	const tw_id conv = like(g, first.out[0], all);
	const tw_id in[] = {first.in[0], whole_weights(g, n, b, all, depth), whole_bias(g, n, b, all)};
	tw_id whole = conv;
	first.name = name;
	put(s, b[0].conv, first, 3, in, 1, &conv);
	for (int k = 0; k < nact; k++) {
		const struct tw_node act = g->nodes.at[b[0].act[k]];
		const tw_id y = like(g, act.out[0], all), before[] = {whole, conv};
		tw_id *operands = arena_copy(g->arena, act.in, sizeof(*act.in) * (size_t)act.nin);
		for (int i = 0; i <= k; i++)
			operands[i] = before[i];
		put(s, b[0].conv, act, act.nin, operands, 1, &y);
		whole = y;
	}
	for (int i = 0; i < n; i++) {
		g->nodes.at[b[i].conv].dead = true;
		for (int k = 0; k < nact; k++)
			g->nodes.at[b[i].act[k]].dead = true;
		if (!nact)
			b[i].result = g->nodes.at[b[i].conv].out[0];
	}
	put_split(s, n, b, whole, name);
}

/* Those that read what convolution `at` reads, from it on: those that pay together, without the widest if need be. */
static void merge_siblings(struct beside *s, tw_id at)
{
	const struct tw_graph *g = s->g;
	struct branch b[MAX_BESIDE];
	const tw_id x = g->nodes.at[at].in[0];
	int n = 0;
	for (int i = (int)at; i < g->nodes.n && n < MAX_BESIDE && s->region[i] == s->region[at]; i++)
		if (g->nodes.at[i].nin > 0 && g->nodes.at[i].in[0] == x && as_branch(g, (tw_id)i, &b[n]))
			n++;
	if (n < 2 || !many_rows(g, x))
		return;
	int64_t wd[TWIR_MAX_RANK];
	tw_graph_static(g, g->nodes.at[at].in[1], wd);
	int kept = 0;
	for (int i = 0; i < n; i++) {
		find_activation(s, &b[i]);
		if (!s->users[b[i].result].laid)
			b[kept++] = b[i];
	}
	for (n = kept; n >= 2 && !pays(s, n, b, wd[1]);) {
		int widest = 0;
		for (int i = 1; i < n; i++)
			if (b[i].channels > b[widest].channels)
				widest = i;
		for (int i = widest; i + 1 < n; i++)
			b[i] = b[i + 1];
		n--;
	}
	if (n >= 2)
		merge(s, n, b, wd[1]);
}

void opt_merge_beside(struct tw_graph *g, int lanes)
{
	const int n = g->nodes.n;
	struct beside s = {.g = g, .lanes = lanes, .uses = ARENA_ARRAY(g->arena, int, g->tensors.n)};
	s.before = arena_alloc(g->arena, sizeof(*s.before) * (size_t)(n > 0 ? n : 1));
	memset(s.before, 0, sizeof(*s.before) * (size_t)n);
	s.users = ARENA_ARRAY(g->arena, struct users, g->tensors.n);
	tw_graph_uses(g, s.uses);
	see_users(&s);
	s.region = ARENA_ARRAY(g->arena, int, n);
	for (int i = 0, region = 0; i < n; i++) {
		region += !g->nodes.at[i].dead && (g->nodes.at[i].op->flags & TW_OP_FLOW);
		s.region[i] = region;
	}
	struct branch b;
	for (int i = 0; i < n; i++)
		if (as_branch(g, (tw_id)i, &b))
			merge_siblings(&s, (tw_id)i);
	const struct tw_node *old = g->nodes.at;
	VEC(struct tw_node) list = {0};
	for (int i = 0; i < n; i++) {
		for (int k = 0; k < s.before[i].n; k++)
			vec_push(g->arena, &list, s.before[i].at[k]);
		vec_push(g->arena, &list, old[i]);
	}
	g->nodes.at = list.at;
	g->nodes.n = list.n;
	g->nodes.cap = list.cap;
	for (int i = 0; i < list.n; i++)
		for (int k = 0; k < list.at[i].nout && !list.at[i].dead; k++)
			if (list.at[i].out[k] != TW_NONE)
				g->tensors.at[list.at[i].out[k]].producer = (tw_id)i;
}
