/* Groups definitions into tasks.
 *
 * 1. In order, an injective definition vanishes into its consumers when that costs nothing: pure movement into any number of them, arithmetic into the only
 *    one that reads each element about once. Into injective consumers it is inlined at once; an anchor (a definition with a fold) keeps it as a producer, so that
 *    it is fused after scheduling.
 * 2. From the last anchor to the first, the only consumer of an anchor's result joins it when the index map between them is invertible.
 * Both stay within the loop or branch they are in; only plain movement goes into a loop or branch from outside.
 * What is left becomes a task of its own. A task stands where its last definition stood; its inputs come from earlier ones by construction. */
#include "opt/group_int.h"

int group_producer_of(const struct grouping *x, const struct twir_tensor *t)
{
	return (int)(uintptr_t)map_get_ptr(&x->by_tensor, t) - 1;
}

static void add_int(struct tw_arena *a, struct group_def *d, int user)
{
	for (int i = 0; i < d->users.n; i++)
		if (d->users.at[i] == user)
			return;
	vec_push(a, &d->users, user);
}

static void add_origin(struct tw_arena *a, struct group_def *d, const char *name)
{
	for (int i = 0; i < d->origins.n; i++)
		if (strcmp(d->origins.at[i], name) == 0)
			return;
	vec_push(a, &d->origins, name);
}

void group_link_loads(struct grouping *x, int i)
{
	struct twir_tensor **t;
	int n;
	tw_loaded_tensors(x->a, group_whole_value(x, i), &t, &n);
	for (int k = 0; k < n; k++) {
		const int p = group_producer_of(x, t[k]);
		if (p >= 0)
			add_int(x->a, &x->def[p], i);
	}
}

static bool tensor_constant(const struct grouping *x, const struct twir_tensor *t)
{
	const int p = group_producer_of(x, t);
	if (p >= 0)
		return x->def[p].constant;
	const uintptr_t id = (uintptr_t)map_get_ptr(&x->d->tensor, t);
	return id && x->g->tensors.at[id - 1].data;
}

/* All tensors that depend on constants only: templates may prepare what they load of them. */
static void list_constants(const struct grouping *x, struct tw_map *constants)
{
	map_init(constants, x->a);
	for (int i = 0; i < x->g->tensors.n; i++)
		if (x->g->tensors.at[i].data && x->g->tensors.at[i].ir)
			map_set_ptr(constants, x->g->tensors.at[i].ir, constants);
	for (int i = 0; i < x->n; i++)
		if (x->def[i].c && x->def[i].constant)
			map_set_ptr(constants, x->def[i].c->out, constants);
}

static void see_symbol(void *arg, const struct twir_expr *e)
{
	if (e->kind == TWIR_Var && e->u.var->kind == TWIR_SYMBOL)
		*(bool *)arg = true;
}

/* Constant: loads constants only, and no symbol decides anything. */
static bool depends_on_constants(const struct grouping *x, const struct twir_compute *c)
{
	struct twir_tensor **t;
	int n;
	bool symbols = false;
	if (map_get_ptr(&x->pinned, c->out))
		return false;
	tw_loaded_tensors(x->a, c->value, &t, &n);
	for (int k = 0; k < n; k++)
		if (!tensor_constant(x, t[k]))
			return false;
	twir_visit_expr(c->value, see_symbol, &symbols);
	for (int i = 0; i < c->out->rank; i++)
		twir_visit_expr(c->out->shape[i], see_symbol, &symbols);
	return !symbols;
}

struct counts {
	int loads, conds;
};

static void count(void *arg, const struct twir_expr *e)
{
	struct counts *c = arg;
	c->loads += e->kind == TWIR_Load;
	c->conds += e->kind == TWIR_Cond || e->kind == TWIR_Select;
}

/* Arithmetic operations of an element, guards not counted. */
static void count_arithmetic(void *arg, const struct twir_expr *e)
{
	int *n = arg;
	if (e->type.scalar == TWIR_INDEX || e->type.scalar == TWIR_I1 || e->n == 0 || e->kind == TWIR_Load ||
	    e->kind == TWIR_Cond)
		return;
	*n += e->kind == TWIR_Call ? 20 : 1;
}

static int arithmetic(const struct twir_expr *e)
{
	int n = 0;
	twir_visit_expr(e, count_arithmetic, &n);
	return n;
}

static void see_axis(void *arg, const struct twir_expr *e)
{
	if (e->kind == TWIR_Var && (e->u.var->kind == TWIR_AXIS))
		map_set_ptr((struct tw_map *)arg, e->u.var, arg);
}

static bool is_one(const struct twir_expr *e)
{
	int64_t v;
	return twir_const_int(e, &v) && v == 1;
}

/* Axes of all folds in a definition, with their extents. */
struct fold_axes {
	struct tw_arena *a;
	VEC(struct twir_var *) axis;
	VEC(const struct twir_expr *) extent;
};

static void list_fold(void *arg, const struct twir_expr *e)
{
	struct fold_axes *f = arg;
	for (int i = 0; e->kind == TWIR_Fold && i + 1 < e->n; i++) {
		vec_push(f->a, &f->axis, e->u.axes[i]);
		vec_push(f->a, &f->extent, e->arg[i + 1]);
	}
}

static struct fold_axes fold_axes(struct grouping *x, const struct twir_compute *c)
{
	struct fold_axes f = {.a = x->a};
	twir_visit_expr(c->value, list_fold, &f);
	return f;
}

/* Does the load's index mention every axis (of the consumer and its folds) that is longer than one, so that no element is read over and over? */
static bool reads_once(struct grouping *x, const struct twir_compute *c, const struct twir_expr *load)
{
	struct tw_map axes;
	map_init(&axes, x->a);
	twir_visit_expr(load, see_axis, &axes);
	for (int i = 0; i < c->out->rank; i++)
		if (!is_one(c->out->shape[i]) && !map_get_ptr(&axes, c->axes[i]))
			return false;
	const struct fold_axes folds = fold_axes(x, c);
	for (int i = 0; i < folds.axis.n; i++)
		if (!is_one(folds.extent.at[i]) && !map_get_ptr(&axes, folds.axis.at[i]))
			return false;
	return true;
}

/* Could d be fused into the store of the definition that makes t? */
bool group_invertible(struct grouping *x, const struct twir_compute *d, const struct twir_tensor *t)
{
	const struct twir_expr *load, *coords[TWIR_MAX_RANK], *axis[TWIR_MAX_RANK];
	if (tw_has_fold(d->value) || tw_loads_of(d->value, t, &load) != 1 || load->nidx != load->n)
		return false;
	for (int i = 0; i < t->rank; i++)
		coords[i] = twir_var(x->m, tw_loop_var(x->m, "c"));
	return tw_invert(x->m, d->out->rank, d->axes, d->out->shape, t->rank, load->arg, t->shape, coords, axis);
}

/* Is the definition one that some anchor could take as its epilogue? */
bool group_serves_an_anchor(struct grouping *x, int i, int n, const int *except)
{
	struct twir_tensor **t;
	int nt;
	tw_loaded_tensors(x->a, x->def[i].c->value, &t, &nt);
	for (int k = 0; k < nt; k++) {
		const int p = group_producer_of(x, t[k]);
		bool excepted = false;
		for (int e = 0; e < n; e++)
			excepted |= except[e] == p;
		if (p >= 0 && !excepted && x->def[p].anchor && !x->def[p].rows && !x->def[p].output &&
		    x->def[p].users.n == 1 && group_invertible(x, x->def[i].c, t[k]))
			return true;
	}
	return false;
}

/* The operand of a matmul that its template reads in the inner loop, again for each panel: only plain movement may hide there. */
static bool is_left_operand(const struct twir_compute *c, const struct twir_tensor *t)
{
	const struct twir_expr *v = c->value;
	const int rank = c->out->rank;
	const struct twir_expr *load;
	return v->kind == TWIR_Fold && v->n == 2 && rank >= 2 && v->arg[0]->kind == TWIR_Mul &&
	       tw_loads_of(v, t, &load) > 0 && !twir_uses_var(load, c->axes[rank - 1]) &&
	       twir_uses_var(load, c->axes[rank - 2]);
}

/* How many times more elements the user computes than the producer has; symbols count as 64. Above one, elements are read over and over. */
static double expansion(struct grouping *x, const struct group_def *p, const struct group_def *u)
{
	const int n = x->m->symbols.n;
	int64_t *values = ARENA_ARRAY(x->a, int64_t, n);
	for (int i = 0; i < n; i++)
		values[i] = 64;
	const struct twir_binding b = {n, x->m->symbols.at, values};
	double mine = 1, theirs = 1;
	for (int i = 0; i < p->c->out->rank; i++)
		mine *= (double)twir_eval_index(p->c->out->shape[i], &b);
	for (int i = 0; i < u->c->out->rank; i++)
		theirs *= (double)twir_eval_index(u->c->out->shape[i], &b);
	return mine > 0 ? theirs / mine : 1;
}

static void see_index_work(void *arg, const struct twir_expr *e)
{
	*(bool *)arg |= e->kind == TWIR_Cast || e->kind == TWIR_Floor || e->kind == TWIR_Ceil || e->kind == TWIR_Round;
}

/* Is an element of p more than a load at a simple place: guards, arithmetic, an index that is computed in floats (Resize)? */
static bool laborious(const struct twir_expr *e, int arithmetic_cost, int conds)
{
	bool work = false;
	twir_visit_expr(e, see_index_work, &work);
	return work || conds > 0 || arithmetic_cost > 1;
}

static bool encloses(const struct grouping *x, int outer, int region)
{
	while (region >= 0 && region != outer)
		region = x->outer.at[region];
	return region == outer;
}

/* Numbers of 8 bits made of wider ones, that are made wide again for folds to read: what lies between is a quarter as large. */
static bool keeps_bytes(const struct grouping *x, const struct group_def *p, const struct group_def *u)
{
	bool folded = false;
	if (u->anchor || twir_scalar_bytes(p->c->out->type) != 1 || twir_scalar_bytes(u->c->out->type) < 4 ||
	    p->c->value->kind != TWIR_Cast || !twir_is_float(p->c->value->arg[0]->type.scalar))
		return false;
	for (int k = 0; k < u->users.n; k++)
		folded |= x->def[u->users.at[k]].anchor;
	return folded;
}

/* The definition of bytes behind t, which may be dequantised on the way; -1: there is none. */
static int bytes_behind(struct grouping *x, const struct twir_tensor *t)
{
	struct twir_tensor **loaded;
	int n, p = group_producer_of(x, t);
	if (p < 0 || !x->def[p].c || x->def[p].anchor || twir_scalar_bytes(t->type) == 1)
		return p;
	tw_loaded_tensors(x->a, x->def[p].c->value, &loaded, &n);
	return n == 1 && twir_scalar_bytes(loaded[0]->type) == 1 ? group_producer_of(x, loaded[0]) : -1;
}

/* Of two results that are quantised before they meet (branches of a residual network), only the later one's sum can take what is made of both behind it. The
 * earlier one stays as bytes: the sum that it is made of is four times as large. */
static bool meets_another(struct grouping *x, int i, int user)
{
	const struct group_def *u = &x->def[user];
	struct twir_tensor **loaded;
	int n;
	if (twir_scalar_bytes(x->def[i].c->out->type) != 1 || !group_serves_an_anchor(x, i, 0, NULL))
		return false;
	if (!u->anchor && twir_scalar_bytes(u->c->out->type) > 1 && u->users.n == 1)
		u = &x->def[u->users.at[0]]; /* where it is used dequantised */
	if (u->anchor || !u->c)
		return false;
	tw_loaded_tensors(x->a, u->c->value, &loaded, &n);
	for (int k = 0; k < n; k++) {
		const int other = bytes_behind(x, loaded[k]), sum = group_producer_of(x, loaded[k]);
		if (sum > i && x->def[sum].anchor && x->def[sum].users.n == 1 &&
		    group_invertible(x, u->c, loaded[k])) /* the other one's, which has vanished */
			return true;
		if (other > i && x->def[other].c && !x->def[other].anchor &&
		    twir_scalar_bytes(x->def[other].c->out->type) == 1 && group_serves_an_anchor(x, other, 0, NULL))
			return true;
	}
	return false;
}

/* Does data say where? */
static bool is_lookup(const struct twir_expr *load)
{
	for (int i = 0; i < load->nidx; i++)
		if (load->arg[i]->loads)
			return true;
	return false;
}

static bool may_vanish_into(struct grouping *x, int i, int user)
{
	const struct group_def *p = &x->def[i], *u = &x->def[user];
	const struct twir_expr *load;
	const int loads = tw_loads_of(u->c->value, p->c->out, &load), cost = arithmetic(p->c->value);
	struct counts own = {0}, theirs = {0};
	twir_visit_expr(p->c->value, count, &own);
	twir_visit_expr(u->c->value, count, &theirs);
	if (!encloses(x, p->region, u->region) || u->whole)
		return false;
	if (u->pieces && group_serves_an_anchor(x, i, 0, NULL))
		return false; /* it may become a part */
	if (p->constant && !u->constant && own.loads > 0 && !(cost == 0 && own.conds == 0))
		return false; /* computed once, at compile time */
	if (p->constant && own.loads == 0 && cost > 2 && loads > 0 && is_lookup(load))
		return false; /* a table */
	if (loads == 0 || (theirs.loads + own.loads > 64))
		return false;
	if (own.loads == 0 && cost <= 2)
		return true; /* a constant or an iota */
	if (p->region != u->region && (cost > 0 || own.conds > 0))
		return false;
	if (keeps_bytes(x, p, u) || meets_another(x, i, user))
		return false;
	/* An anchor's own reading is judged by its window; a template packs its operand. */
	if (!u->anchor && laborious(p->c->value, cost, own.conds) && expansion(x, p, u) > 1.5)
		return false;
	const bool plain = own.conds == 0, left = is_left_operand(u->c, p->c->out);
	if (left && group_serves_an_anchor(x, i, 0, NULL))
		return false; /* moved once, by the one who makes it, rather than in the inner loop of the one who reads it */
	if (cost == 0 && plain)
		return true;
	if (left || p->users.n > 1 || own.loads > 8)
		return false;
	if (cost == 0)
		return loads == 1 || own.conds <= 1;
	if (group_serves_an_anchor(x, i, 0, NULL) && !(group_invertible(x, u->c, p->c->out)))
		return false;
	if (loads > 1 && cost > 3)
		return false;
	return reads_once(x, u->c, load) ? cost + arithmetic(u->c->value) < 400 : cost <= 2;
}

/* Windows (a convolution's or a pool's) read elements many times although every axis shows in the index. */
static bool windowed(struct grouping *x, const struct group_def *u, const struct twir_tensor *t)
{
	const struct twir_expr *load;
	if (!u->anchor || tw_loads_of(u->c->value, t, &load) == 0)
		return false;
	const struct fold_axes all = fold_axes(x, u->c);
	for (int d = 0; d < load->nidx; d++) {
		int axes = 0, folds = 0;
		for (int i = 0; i < u->c->out->rank; i++)
			axes += twir_uses_var(load->arg[d], u->c->axes[i]);
		for (int i = 0; i < all.axis.n; i++)
			folds += twir_uses_var(load->arg[d], all.axis.at[i]);
		if (axes > 0 && folds > 0)
			return true;
	}
	return false;
}

/* Producers stay in order of definition: they are inlined from the last to the first. */
static void add_producer(struct grouping *x, struct group_def *u, int i)
{
	int at = u->producers.n;
	vec_push(x->a, &u->producers, i);
	for (; at > 0 && u->producers.at[at - 1] > i; at--)
		u->producers.at[at] = u->producers.at[at - 1];
	u->producers.at[at] = i;
}

void group_vanish(struct grouping *x, int i)
{
	struct group_def *p = &x->def[i];
	for (int k = 0; k < p->users.n; k++) {
		struct group_def *u = &x->def[p->users.at[k]];
		if (u->anchor) {
			add_producer(x, u, i);
		} else {
			struct twir_facts f;
			twir_facts_init(&f, x->m);
			u->c->value = twir_simplify(&f, tw_inline(x->m, u->c->value, p->c));
			group_link_loads(x, p->users.at[k]);
		}
		for (int o = 0; o < p->origins.n; o++)
			add_origin(x->a, u, p->origins.at[o]);
	}
	/* What it loaded is now loaded by its users; anchors count as users of it through the producer. */
	struct twir_tensor **t;
	int n;
	tw_loaded_tensors(x->a, p->c->value, &t, &n);
	for (int k = 0; k < n; k++) {
		const int q = group_producer_of(x, t[k]);
		if (q < 0)
			continue;
		for (int s = 0; s < x->def[q].users.n; s++)
			if (x->def[q].users.at[s] == i)
				x->def[q].users.at[s] = x->def[q].users.at[--x->def[q].users.n];
		for (int s = 0; s < p->users.n; s++)
			add_int(x->a, &x->def[q], p->users.at[s]);
	}
	p->gone = true;
}

/* The result of a convolution in its own shape, from the sums behind it: stored as such, since its readers could only guess at the shape of the sums. */
static bool is_feature_map(struct grouping *x, int i)
{
	const struct group_def *p = &x->def[i];
	const bool alone = p->users.n == 1 && !x->def[p->users.at[0]].anchor;
	return !alone && (x->g->nodes.at[p->node].op->flags & TW_OP_IMAGE) && map_get_ptr(&x->d->tensor, p->c->out) &&
	       group_serves_an_anchor(x, i, 0, NULL);
}

bool group_would_vanish(struct grouping *x, int i)
{
	const struct group_def *p = &x->def[i];
	struct counts own = {0};
	twir_visit_expr(p->c->value, count, &own);
	const bool work = laborious(p->c->value, arithmetic(p->c->value) - 1, own.conds);
	bool all = p->users.n > 0 && !p->output && !is_feature_map(x, i);
	for (int k = 0; k < p->users.n && all; k++)
		all = may_vanish_into(x, i, p->users.at[k]) &&
		      !(work && windowed(x, &x->def[p->users.at[k]], p->c->out));
	return all;
}

static int vanish_all(struct grouping *x)
{
	int vanished = 0;
	for (int i = 0; i < x->n; i++) {
		const struct group_def *p = &x->def[i];
		if (!p->c || p->anchor || p->gone || p->whole || p->pieces || !group_would_vanish(x, i))
			continue;
		group_vanish(x, i);
		vanished++;
	}
	return vanished;
}

static void vanish_what_can(struct grouping *x)
{
	while (vanish_all(x) > 0) /* x * sigmoid(x): once sigmoid is gone, x has one user */
		continue;
}

static void join_epilogues(struct grouping *x)
{
	for (int i = x->n - 1; i >= 0; i--) {
		struct group_def *r = &x->def[i];
		if (!r->c || !r->anchor || r->gone || (r->rows && r->rows->product != i) || r->output ||
		    r->users.n != 1)
			continue;
		const int u = r->users.at[0];
		struct group_def *d = &x->def[u];
		if (d->anchor || d->gone || d->whole || d->rows || d->epilogue_of >= 0 || d->constant != r->constant ||
		    d->region != r->region || !group_invertible(x, d->c, r->c->out))
			continue;
		d->epilogue_of = i;
		r->consumer = u;
		for (int o = 0; o < d->origins.n; o++)
			add_origin(x->a, r, d->origins.at[o]);
	}
}

/* Definitions that reach no output. */
static void mark_unused(struct grouping *x)
{
	for (int i = x->n - 1; i >= 0; i--) {
		struct group_def *p = &x->def[i];
		bool used = p->output || !p->c;
		for (int k = 0; k < p->users.n; k++)
			used |= !x->def[p->users.at[k]].gone;
		p->gone = !used;
	}
	for (int i = 0; i < x->n; i++) {
		struct group_def *p = &x->def[i];
		int kept = 0;
		for (int k = 0; k < p->users.n; k++)
			if (!x->def[p->users.at[k]].gone)
				p->users.at[kept++] = p->users.at[k];
		p->users.n = kept;
	}
}

static void mark_outputs(struct grouping *x)
{
	for (int i = 0; i < x->g->outputs.n; i++) {
		const struct twir_tensor *t = x->g->tensors.at[x->g->outputs.at[i]].ir;
		const int p = t ? group_producer_of(x, t) : -1;
		if (p >= 0)
			x->def[p].output = true;
	}
	for (int i = 0; i < x->n; i++) {
		if (x->def[i].c) {
			const struct twir_tensor *t = x->def[i].c->out;
			x->def[i].output |= map_get_ptr(&x->pinned, t) || map_get_ptr(&x->asked, t);
			continue;
		}
		if (x->def[i].mark)
			continue;
		const struct tw_node *n = &x->g->nodes.at[x->def[i].node];
		for (int k = 0; k < n->nin; k++) {
			const int p = n->in[k] == TW_NONE ? -1 : group_producer_of(x, x->g->tensors.at[n->in[k]].ir);
			if (p >= 0)
				x->def[p].output = true;
		}
	}
}

static void note(struct tw_map *map, const struct twir_tensor *t)
{
	if (t)
		map_set_ptr(map, t, map);
}

static void note_flow(struct grouping *x, const struct tw_flow *f)
{
	note(&x->asked, f->count);
	note(&x->asked, f->condition);
	note(&x->pinned, f->go_on);
	for (int i = 0; i < f->carried.n; i++) {
		note(&x->asked, f->carried.at[i].init);
		note(&x->pinned, f->carried.at[i].out);
	}
	for (int i = 0; i < f->slices.n; i++)
		note(&x->pinned, f->slices.at[i].slice);
	for (int i = 0; i < f->merged.n; i++) {
		note(&x->asked, f->merged.at[i].yes);
		note(&x->asked, f->merged.at[i].no);
	}
}

/* Regions of all definitions, and what flow needs of them. */
static void find_regions(struct grouping *x)
{
	int region = -1;
	for (int i = 0; i < x->n; i++) {
		const struct tw_mark *mark = x->d->list.at[i].mark;
		if (mark && mark->kind != TW_MARK_LOOP && mark->kind != TW_MARK_IF)
			region = x->outer.at[region];
		if (mark && mark->kind != TW_MARK_NEXT && mark->kind != TW_MARK_END) {
			vec_push(x->a, &x->outer, region);
			region = x->outer.n - 1;
		}
		if (mark)
			note_flow(x, mark->flow);
		x->def[i].region = region;
	}
	TW_CHECK(region == -1, "a loop or branch without an end");
}

static const char *joined(struct tw_arena *a, const struct group_def *d)
{
	struct tw_buf b;
	buf_init(&b, a);
	for (int i = 0; i < d->origins.n && b.n < 200; i++)
		buf_printf(&b, "%s%s", i ? "+" : "", d->origins.at[i]);
	return b.at;
}

/* "conv_relu": operator names of the group, an identifier */
static const char *program_name(struct grouping *x, const struct group_def *first, const struct group_def *last)
{
	const char *a = x->g->nodes.at[first->node].op_type, *b = last ? x->g->nodes.at[last->node].op_type : NULL;
	char *name = arena_printf(x->a, b && strcmp(a, b) ? "%s_%s" : "%s", a, b);
	for (char *p = name; *p; p++)
		*p = *p >= 'A' && *p <= 'Z' ? (char)(*p + 'a' - 'A') : *p;
	return twir_identifier(x->a, name); /* abs, where, max are words of the language */
}

const struct twir_expr *group_whole_value(struct grouping *x, int i)
{
	const struct group_def *d = &x->def[i];
	const struct twir_expr *value = d->c->value;
	for (int k = d->producers.n - 1; k >= 0; k--)
		value = tw_inline(x->m, value, x->def[d->producers.at[k]].c);
	return value;
}

static void read_definitions(struct grouping *x)
{
	for (int i = 0; i < x->n; i++) {
		struct group_def *p = &x->def[i];
		p->c = x->d->list.at[i].compute;
		p->node = x->d->list.at[i].node;
		p->mark = x->d->list.at[i].mark;
		p->epilogue_of = p->consumer = -1;
		add_origin(x->a, p, x->g->nodes.at[p->node].name);
		if (!p->c)
			continue;
		p->anchor = p->c->nprograms || tw_has_fold(p->c->value);
		map_set_ptr(&x->by_tensor, p->c->out, (void *)(uintptr_t)(i + 1));
		group_link_loads(x, i);
		p->constant = depends_on_constants(x, p->c);
	}
}

/* Is it the definition at whose place its task stands? */
static bool stands_for_its_task(const struct grouping *x, int i)
{
	const struct group_def *p = &x->def[i];
	if (p->gone || (p->c && p->anchor && p->consumer >= 0))
		return false;
	return !p->rows || p->rows->members.at[p->rows->members.n - 1] == i;
}

/* The definitions of the task that computes definition i, in order. */
static int task_of(const struct grouping *x, int i, int *members)
{
	int n = 0, last = i;
	if (x->def[i].rows)
		last = x->def[i].rows->members.at[x->def[i].rows->members.n - 1];
	if (x->def[last].consumer >= 0)
		last = x->def[last].consumer;
	const int anchor = x->def[last].epilogue_of >= 0 ? x->def[last].epilogue_of : last;
	const struct group_rows *rows = x->def[anchor].rows;
	for (; rows && n < rows->members.n; n++)
		members[n] = rows->members.at[n];
	if (!rows)
		members[n++] = anchor;
	if (last != anchor)
		members[n++] = last;
	return n;
}

static const char *task_label(struct grouping *x, int n, const int *members)
{
	struct group_def all = {0};
	for (int k = n - 1; k >= 0; k--)
		for (int o = 0; o < x->def[members[k]].origins.n; o++)
			add_origin(x->a, &all, x->def[members[k]].origins.at[o]);
	return joined(x->a, &all);
}

static struct tw_group *task_group(struct grouping *x, int n, const int *members, struct tw_groups *out)
{
	struct group_def *first = &x->def[members[0]], *last = &x->def[members[n - 1]];
	struct tw_group *group = ARENA_NEW(x->a, struct tw_group);
	group->node = last->node;
	group->mark = last->mark;
	if (!last->c) {
		group->label = joined(x->a, last);
		return group;
	}
	struct group_def *anchor = last->epilogue_of >= 0 ? &x->def[last->epilogue_of] : last;
	const struct group_rows *rows = anchor->rows;
	const bool constant = anchor->constant;
	group->label = rows ? task_label(x, n, members) : joined(x->a, anchor);
	group->setup = constant;
	group->task = (struct tw_task){.m = x->m,
				       .name = program_name(x, first, first == last ? NULL : last),
				       .anchor = anchor->c,
				       .consumer = anchor == last ? NULL : last->c,
				       .rows = rows && !rows->attention ? rows->rows : NULL,
				       .attention = rows ? rows->attention : NULL,
				       .nproducers = rows ? 0 : anchor->producers.n,
				       .constants = out->apart || constant ? NULL : &out->constants,
				       .exact = out->exact};
	group->task.producers = ARENA_ARRAY(x->a, struct twir_compute *, group->task.nproducers);
	for (int k = 0; k < group->task.nproducers; k++)
		group->task.producers[k] = x->def[anchor->producers.at[k]].c;
	return group;
}

/* Lists the task of definition i after those it depends on since `from`: a row program may take in definitions from further down. */
static void list_task(struct grouping *x, int i, int from, bool *listed, struct tw_groups *out)
{
	int *members = ARENA_ARRAY(x->a, int, x->n);
	const int n = task_of(x, i, members);
	if (listed[members[n - 1]])
		return;
	listed[members[n - 1]] = true;
	for (int k = 0; k < n && x->def[members[k]].c; k++) {
		struct twir_tensor **t;
		int nt;
		tw_loaded_tensors(x->a, group_whole_value(x, members[k]), &t, &nt);
		for (int l = 0; l < nt; l++) {
			const int p = group_producer_of(x, t[l]);
			if (p >= from && x->def[p].c && !x->def[p].gone)
				list_task(x, p, from, listed, out);
		}
	}
	if (!x->def[i].whole)
		vec_push(x->a, &out->list, task_group(x, n, members, out));
}

void opt_group(const struct tw_definitions *d, struct tw_groups *out)
{
	struct grouping x = {.d = d, .g = d->g, .m = d->g->m, .a = d->g->arena, .n = d->list.n};
	map_init(&x.by_tensor, x.a);
	map_init(&x.pinned, x.a);
	map_init(&x.asked, x.a);
	x.def = ARENA_ARRAY(x.a, struct group_def, x.n);
	find_regions(&x);
	read_definitions(&x);
	mark_outputs(&x);
	mark_unused(&x);
	map_init(&out->parts, x.a);
	map_init(&out->images, x.a);
	if (!out->apart) {
		group_find_pieces(&x);
		vanish_what_can(&x);
		group_make_parts(&x, out);
		vanish_what_can(&x);
		group_cheaper_arithmetic(&x, out->exact);
		group_find_rows(&x);
		join_epilogues(&x);
		if (out->fma && !out->exact)
			group_multiply_add(&x);
	}
	list_constants(&x, &out->constants);
	map_init(&out->row_major, x.a);
	for (int i = 0; i < x.n; i++)
		if (x.def[i].c && x.def[i].output)
			map_set_ptr(&out->row_major, x.def[i].c->out, out);
	bool *listed = ARENA_ARRAY(x.a, bool, x.n);
	for (int i = 0, from = 0; i < x.n; i++) {
		if (!x.def[i].c) /* what comes after a mark or a host operator stays behind it */
			from = i + 1;
		if (stands_for_its_task(&x, i))
			list_task(&x, i, x.def[i].c ? from : i, listed, out);
	}
}
