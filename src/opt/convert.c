/* Convolutions that a caller's tensors surround: images that come from outside or go there are row-major, while
 * windows over them are walked best with channels last. Where a convolution multiplies enough for each element that
 * it reads and writes, a task before it lays its input out channels last, one behind it its output row-major again.
 *
 * In: grouped tasks, before opt_layout. Out: the same with copies as tasks of their own; groups->images tells
 * opt_layout what those copies are. Only convolutions that are one sum over all channels, or over a window of two
 * axes or more in each channel: what groups are narrow, or windows long, is as fast on rows. */
#include "opt/opt.h"

typedef const struct twir_expr *E;

enum { FEWEST_CHANNELS = 16, FEWEST_PRODUCTS = 20 /* for each element of the output */ };

struct converter {
	struct tw_groups *groups;
	struct twir_module *m;
	struct tw_map written; /* tensors that tasks store */
	struct tw_map copies;  /* tensor -> its copy */
	VEC(struct tw_group *) list;
};

struct search {
	E fold, load;
	int folds, loads;
	const struct tw_map *constants;
};

static void see(void *arg, E e)
{
	struct search *s = arg;
	if (e->kind == TWIR_Fold) {
		s->fold = e;
		s->folds++;
	}
	if (e->kind == TWIR_Load && !map_get_ptr(s->constants, e->u.tensor) && s->load != e) {
		s->load = e;
		s->loads++;
	}
}

static bool uses_any(E e, int n, struct twir_var *const *axes)
{
	for (int i = 0; i < n; i++)
		if (twir_uses_var(e, axes[i]))
			return true;
	return false;
}

static struct twir_compute *last_of(const struct tw_task *t)
{
	return t->consumer ? t->consumer : t->anchor;
}

/* [n, many channels, some spatial axes], apart from others? */
static bool is_image(const struct converter *x, const struct twir_tensor *t)
{
	return t->rank >= 3 && t->rank <= 5 && t->type == TWIR_F32 && tw_size_or(t->shape[1], 0) >= FEWEST_CHANNELS &&
	       !map_get_ptr(&x->groups->parts, t);
}

/* The load of the image whose windows the task's anchor multiplies with constants and sums up; NULL: it is no such
 * convolution, or a small one. */
static E windows_of(const struct converter *x, const struct tw_task *t)
{
	const struct twir_compute *c = t->anchor;
	struct search s = {.constants = &x->groups->constants};
	if (!c || c->nprograms || t->rows || t->attention)
		return NULL;
	twir_visit_expr(c->value, see, &s);
	if (s.folds != 1 || s.loads != 1 || s.fold->op != TWIR_Add || s.fold->arg[0]->kind != TWIR_Mul ||
	    s.load->nidx != s.load->n || !is_image(x, s.load->u.tensor))
		return NULL;
	const int nfold = s.fold->n - 1;
	int64_t products = 1;
	for (int i = 0; i < nfold; i++)
		products *= tw_size_or(s.fold->arg[i + 1], 0);
	int windowed = 0;
	for (int d = 2; d < s.load->n; d++)
		windowed += uses_any(s.load->arg[d], nfold, s.fold->u.axes) &&
			    uses_any(s.load->arg[d], c->out->rank, c->axes);
	const bool channels = uses_any(s.load->arg[1], nfold, s.fold->u.axes);
	const bool all = channels && s.load->arg[1]->kind == TWIR_Var;
	return products >= FEWEST_PRODUCTS && (channels ? all && windowed : windowed >= 2) ? s.load : NULL;
}

static struct twir_tensor *tensor_like(struct converter *x, const struct twir_tensor *t, const char *name)
{
	struct twir_tensor *made = twir_tensor_new(x->m, name, t->type, t->rank, t->shape, TWIR_TENSOR);
	map_set_ptr(&x->groups->images, made, made);
	return made;
}

/* A task that makes `to` the same as `from`. */
static void copy(struct converter *x, const struct tw_group *of, struct twir_tensor *to, struct twir_tensor *from)
{
	struct twir_module *m = x->m;
	struct tw_group *g = ARENA_NEW(m->arena, struct tw_group);
	struct twir_compute *c = ARENA_NEW(m->arena, struct twir_compute);
	E at[TWIR_MAX_RANK];
	c->out = to;
	c->axes = ARENA_ARRAY(m->arena, struct twir_var *, to->rank);
	c->origin = last_of(&of->task)->origin;
	for (int d = 0; d < to->rank; d++) {
		c->axes[d] = twir_var_new(m, TWIR_AXIS, twir_scalar_type(TWIR_INDEX), "i");
		c->axes[d]->lo = 0;
		c->axes[d]->hi = tw_most(1, tw_size_or(to->shape[d], INT64_MAX)) - 1;
		at[d] = twir_var(m, c->axes[d]);
	}
	c->value = twir_load(m, from, to->rank, at);
	g->node = of->node;
	g->label = of->label;
	g->task = (struct tw_task){.m = m,
				   .name = arena_printf(m->arena, "%s_layout", of->task.name),
				   .anchor = c,
				   .constants = of->task.constants,
				   .exact = of->task.exact};
	vec_push(m->arena, &x->list, g);
}

struct swap {
	const struct twir_tensor *from;
	struct twir_tensor *to;
};

static E swap_load(struct twir_rewriter *r, E e)
{
	const struct swap *s = r->user;
	return e->kind == TWIR_Load && e->u.tensor == s->from ? twir_load(r->m, s->to, e->n, e->arg) : e;
}

static void read_copy(struct converter *x, const struct tw_group *g, struct twir_tensor *from)
{
	struct twir_compute *c = g->task.anchor;
	struct swap s = {from, map_get_ptr(&x->copies, from)};
	struct twir_rewriter r;
	if (!s.to) {
		s.to = tensor_like(x, from, "image");
		map_set_ptr(&x->copies, from, s.to);
		copy(x, g, s.to, from);
	}
	twir_rewriter_init(&r, x->m);
	r.user = &s;
	r.expr = swap_load;
	c->value = twir_rewrite_expr(&r, c->value);
}

static void convert(struct converter *x, struct tw_group *g)
{
	const E load = g->setup ? NULL : windows_of(x, &g->task);
	struct twir_compute *last = load ? last_of(&g->task) : NULL;
	if (!load || !is_image(x, last->out)) {
		vec_push(x->m->arena, &x->list, g);
		return;
	}
	struct twir_tensor *from = load->u.tensor, *to = last->out;
	const bool outer = !map_get_ptr(&x->written, from), inner = !map_get_ptr(&x->groups->row_major, from);
	const bool leaves = map_get_ptr(&x->groups->row_major, to) != NULL;
	if (outer)
		read_copy(x, g, from);
	vec_push(x->m->arena, &x->list, g);
	if (leaves && (outer || inner)) {
		last->out = tensor_like(x, to, "image");
		copy(x, g, to, last->out);
	}
}

void opt_convert(struct tw_groups *groups, struct twir_module *m)
{
	struct converter x = {.groups = groups, .m = m};
	map_init(&x.written, m->arena);
	map_init(&x.copies, m->arena);
	for (int i = 0; i < groups->list.n; i++) {
		const struct tw_task *t = &groups->list.at[i]->task;
		if (!t->anchor) /* outputs of loops, branches and host operators are others' */
			return;
		map_set_ptr(&x.written, last_of(t)->out, &x);
		for (int k = 0; k < t->nproducers; k++) /* lies nowhere: there is nothing to copy */
			map_set_ptr(&x.written, t->producers[k]->out, &x);
		for (int k = 0; t->rows && k < t->rows->stages.n; k++)
			map_set_ptr(&x.written, t->rows->stages.at[k].definition->out, &x);
	}
	for (int i = 0; i < groups->part_list.n; i++)
		map_set_ptr(&x.written, groups->part_list.at[i]->whole, &x);
	for (int i = 0; i < groups->list.n; i++)
		convert(&x, groups->list.at[i]);
	groups->list.at = x.list.at;
	groups->list.n = x.list.n;
	groups->list.cap = x.list.cap;
}
