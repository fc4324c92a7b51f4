/* Chooses how tensors between tasks lie in memory. Feature maps ([batch, channels, spatial..], what convolutions and pools read and write, and what lies
 * between them) lie channels last, so that lanes run over channels and windows are walked in contiguous pieces. All else stays row-major, above all
 * what others than tasks read (opt_group lists it).
 *
 * In: grouped tasks. Out: tensor->layout of what tasks store, NULL or strides. Shapes never change: accesses go through layouts when programs are lowered, so a
 * conversion is a load like any other and no step of its own. */
#include "opt/opt.h"

enum { FEWEST_CHANNELS = 8 }; /* below, lanes over channels stay empty */

struct chooser {
	const struct tw_definitions *d;
	const struct tw_groups *groups;
	struct twir_module *m;
	struct tw_map node; /* definition -> node + 1 */
	/* Keys are tensors; for parts of others, the whole. */
	struct tw_map image;   /* an operator of images reads or writes it as such */
	struct tw_map refused; /* somebody reads it as a row-major sequence */
	struct tw_map chosen;
};

static const struct tw_part *part_of(const struct chooser *x, const struct twir_tensor *t)
{
	return map_get_ptr(&x->groups->parts, t);
}

/* What t is a part of in the end, itself if it is none: they lie in memory alike. */
static const struct twir_tensor *whole_of(const struct chooser *x, const struct twir_tensor *t)
{
	for (const struct tw_part *p = part_of(x, t); p; p = part_of(x, t))
		t = p->whole;
	return t;
}

static bool is_chosen(const struct chooser *x, const struct twir_tensor *t)
{
	return map_get_ptr(&x->chosen, whole_of(x, t)) != NULL;
}

/* What the group stores. */
static const struct twir_compute *last_of(const struct tw_group *g)
{
	return g->task.consumer ? g->task.consumer : g->task.anchor;
}

static bool is_one(const struct twir_expr *e)
{
	int64_t v;
	return twir_const_int(e, &v) && v == 1;
}

static void note(struct chooser *x, struct tw_map *map, tw_id t)
{
	if (t != TW_NONE && x->d->g->tensors.at[t].ir)
		map_set_ptr(map, whole_of(x, x->d->g->tensors.at[t].ir), x);
}

static void list_images(struct chooser *x)
{
	const struct tw_graph *g = x->d->g;
	for (int i = 0; i < g->nodes.n; i++) {
		const struct tw_node *n = &g->nodes.at[i];
		if (n->dead || !n->op || !(n->op->flags & TW_OP_IMAGE))
			continue;
		note(x, &x->image, n->in[0]);
		note(x, &x->image, n->out[0]);
	}
	for (int i = 0; i < x->d->list.n; i++)
		if (x->d->list.at[i].compute)
			map_set_ptr(&x->node, x->d->list.at[i].compute, (void *)(uintptr_t)(x->d->list.at[i].node + 1));
}

static bool of_image_operator(const struct chooser *x, const struct twir_compute *c)
{
	const uintptr_t node = (uintptr_t)map_get_ptr(&x->node, c);
	return node && (x->d->g->nodes.at[node - 1].op->flags & TW_OP_IMAGE);
}

/* --- readers --- */

static void see_division(void *arg, const struct twir_expr *e)
{
	*(bool *)arg |= e->kind == TWIR_Div || e->kind == TWIR_Mod;
}

static void see_reading(void *arg, const struct twir_expr *e)
{
	struct chooser *x = arg;
	bool divides = false;
	if (e->kind != TWIR_Load || e->nidx < 3)
		return;
	twir_visit_expr(e->arg[1], see_division, &divides);
	if (divides) /* a flattened image: channels come from a longer index */
		map_set_ptr(&x->refused, whole_of(x, e->u.tensor), x);
}

static void see_definition(struct chooser *x, const struct twir_compute *c)
{
	if (c && !of_image_operator(x, c))
		twir_visit_expr(c->value, see_reading, x);
}

static void list_readings(struct chooser *x)
{
	for (int i = 0; i < x->groups->list.n; i++) {
		const struct tw_task *t = &x->groups->list.at[i]->task;
		see_definition(x, t->anchor);
		see_definition(x, t->consumer);
		for (int k = 0; k < t->nproducers; k++)
			see_definition(x, t->producers[k]);
		for (int k = 0; t->rows && k < t->rows->stages.n; k++)
			twir_visit_expr(t->rows->stages.at[k].value, see_reading, x);
	}
}

/* --- choice --- */

/* Does c hand an image on: a load of a chosen tensor whose channels are c's and nothing else's? */
struct handing {
	const struct chooser *x;
	const struct twir_compute *c;
	bool yes;
};

static void see_handing(void *arg, const struct twir_expr *e)
{
	struct handing *h = arg;
	if (e->kind != TWIR_Load || e->nidx != h->c->out->rank || !is_chosen(h->x, e->u.tensor))
		return;
	bool same = twir_uses_var(e->arg[1], h->c->axes[1]);
	for (int d = 0; d < e->nidx && same; d++)
		same = d == 1 || !twir_uses_var(e->arg[d], h->c->axes[1]);
	h->yes |= same;
}

static bool may_be_image(const struct chooser *x, const struct tw_group *g)
{
	const struct twir_compute *c = last_of(g);
	int64_t channels;
	bool pixels = false;
	if (!c || g->setup || g->task.anchor->nprograms || c->out->rank < 3 || c->out->rank > 5 ||
	    map_get_ptr(&x->groups->row_major, whole_of(x, c->out)) || map_get_ptr(&x->refused, whole_of(x, c->out)))
		return false;
	for (int d = 2; d < c->out->rank; d++)
		pixels |= !is_one(c->out->shape[d]);
	return pixels && twir_const_int(c->out->shape[1], &channels) && channels >= FEWEST_CHANNELS;
}

/* An image operator's result with other operators fused behind it (Conv, Relu), channel by channel? */
static bool ends_image(const struct chooser *x, const struct tw_group *g)
{
	const struct twir_compute *c = g->task.consumer;
	const struct twir_expr *load;
	if (!c || !of_image_operator(x, g->task.anchor) || tw_loads_of(c->value, g->task.anchor->out, &load) != 1 ||
	    load->nidx < 3)
		return false;
	bool channel = false;
	for (int d = 0; d + 1 < load->nidx; d++)
		channel |= twir_uses_var(load->arg[d], c->axes[1]);
	return channel && !twir_uses_var(load->arg[load->nidx - 1], c->axes[1]);
}

static bool choose(struct chooser *x, const struct tw_group *g)
{
	if (!may_be_image(x, g) || is_chosen(x, last_of(g)->out))
		return false;
	struct handing h = {.x = x, .c = last_of(g)};
	h.yes = map_get_ptr(&x->image, whole_of(x, h.c->out)) || map_get_ptr(&x->groups->images, h.c->out) ||
		ends_image(x, g);
	if (!h.yes)
		twir_visit_expr(h.c->value, see_handing, &h);
	if (!h.yes)
		return false;
	map_set_ptr(&x->chosen, whole_of(x, h.c->out), x);
	return true;
}

/* Strides with the marked dimensions innermost, each kind in the order of the shape. */
static const struct twir_layout *with_last(struct twir_module *m, const struct twir_tensor *t, const bool *last)
{
	const struct twir_expr *stride[TWIR_MAX_RANK], *inner = twir_index(m, 1);
	for (int pass = 0; pass < 2; pass++)
		for (int d = t->rank - 1; d >= 0; d--)
			if (last[d] == (pass == 0)) {
				stride[d] = inner;
				inner = twir_mul(m, inner, t->shape[d]);
			}
	struct twir_facts f;
	twir_facts_init(&f, m);
	for (int d = 0; d < t->rank; d++)
		stride[d] = twir_simplify(&f, stride[d]);
	return twir_layout_strides(m, t->rank, stride);
}

/* The dimension of t along which c's elements lie side by side; -1: none or several. */
static int innermost(const struct twir_compute *c, const struct twir_expr *load)
{
	const struct twir_layout *l = c->out->layout;
	int last = -1, found = -1;
	for (int d = 0; d < c->out->rank; d++)
		if (!is_one(c->out->shape[d]) && (!l || is_one(l->extent[d])))
			last = d;
	for (int d = 0; d < load->nidx && last >= 0; d++)
		if (twir_uses_var(load->arg[d], c->axes[last])) {
			if (found >= 0)
				return -1;
			found = d;
		}
	return found;
}

/* The anchor's own tensor is never stored where a consumer is; its layout tells the schedule in which order the consumer stores. */
static void lay_anchor(struct chooser *x, const struct tw_group *g)
{
	const struct twir_compute *c = g->task.consumer;
	const struct twir_expr *load;
	if (!c || !of_image_operator(x, g->task.anchor))
		return;
	struct twir_tensor *t = g->task.anchor->out;
	if (tw_loads_of(c->value, t, &load) != 1 || load->nidx != t->rank)
		return;
	bool last[TWIR_MAX_RANK] = {false};
	const int inner = innermost(c, load);
	for (int d = 0; d < t->rank; d++)
		last[d] = is_chosen(x, c->out) ? twir_uses_var(load->arg[d], c->axes[1]) : d == inner;
	if ((inner >= 0 && inner < t->rank - 1) || is_chosen(x, c->out))
		t->layout = with_last(x->m, t, last);
}

static void lay(struct chooser *x, struct twir_tensor *t)
{
	bool channels[TWIR_MAX_RANK] = {false};
	channels[1] = true;
	if (map_get_ptr(&x->chosen, t))
		t->layout = with_last(x->m, t, channels);
}

/* A part has the strides of the whole; none are needed where it is in order without. */
static void lay_part(struct chooser *x, struct twir_tensor *t)
{
	const struct twir_tensor *whole = whole_of(x, t);
	const bool none[TWIR_MAX_RANK] = {false};
	const struct twir_layout *strides = whole->layout ? whole->layout : with_last(x->m, whole, none),
				 *own = with_last(x->m, t, none);
	bool in_order = true;
	for (int d = 0; d < t->rank; d++)
		in_order &= is_one(t->shape[d]) || strides->extent[d] == own->extent[d];
	t->layout = in_order ? NULL : strides;
}

void opt_layout(const struct tw_definitions *d, const struct tw_groups *groups)
{
	struct chooser x = {.d = d, .groups = groups, .m = d->g->m};
	map_init(&x.node, x.m->arena);
	map_init(&x.image, x.m->arena);
	map_init(&x.refused, x.m->arena);
	map_init(&x.chosen, x.m->arena);
	list_images(&x);
	list_readings(&x);
	bool more = true;
	while (more) {
		more = false;
		for (int i = 0; i < groups->list.n; i++)
			more |= choose(&x, groups->list.at[i]);
	}
	for (int i = 0; i < groups->list.n; i++)
		if (last_of(groups->list.at[i]))
			lay(&x, last_of(groups->list.at[i])->out);
	for (int i = 0; i < groups->part_list.n; i++)
		lay(&x, groups->part_list.at[i]->whole);
	for (int i = 0; i < groups->part_list.n; i++)
		lay_part(&x, groups->part_list.at[i]->tensor);
	for (int i = 0; i < groups->list.n; i++)
		lay_anchor(&x, groups->list.at[i]);
}
