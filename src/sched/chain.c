/* Chains: matmul, window, matmul over one image, row by row, with what lies between the stages in scratch that stays in cache.
 *
 *   for (image, strip of rows, group of panels of channels) on core
 *     for turns of some panels, for steps of some rows of the window's result:
 *       make the rows of its image that are new into a ring of rows; fold the windows
 *     project the strip's rows
 *
 * Each stage is written by its own template as if it stored to a tensor (matmul_build.c, window.c); then stores and loads of the tensors between become those of
 * the scratch. Without a projection items share out channels too. Input: a task with a chain. Output: a program over compute tensors; the order of all sums is
 * that of the unfused programs with K in one block. Items depend on sizes alone. */
#include "sched/chain_int.h"

typedef const struct twir_expr *E;

static const enum twir_level CORE[] = {TWIR_CORE};

struct item {
	struct chain *c;
	struct twir_module *m;
	struct tw_window w;
	struct twir_tensor *image, *ring;   /* what the expansion makes, and where it lies instead */
	struct twir_tensor *result, *lines; /* likewise of the window, where there is a projection */
	E number;			    /* of the image */
	E first, here;			    /* rows of the item */
	E first_panel, panels;		    /* of the turn's channels */
	E channel;			    /* first of them */
	E o0, rows;			    /* rows of the step */
};

/* --- the scratch instead of the tensors --- */

static bool moved(const struct item *x, struct twir_tensor *t, const E *from, E *to, struct twir_tensor **scratch)
{
	struct twir_module *m = x->m;
	if (t != x->image && t != x->result)
		return false;
	const bool ring = t == x->image;
	*scratch = ring ? x->ring : x->lines;
	to[0] = ring ? twir_mod(m, from[CHAIN_ROW], x->ring->shape[0]) : twir_sub(m, from[CHAIN_ROW], x->first);
	to[1] = from[CHAIN_COLUMN];
	to[2] = ring ? twir_sub(m, from[CHAIN_CHANNEL], x->channel) : from[CHAIN_CHANNEL];
	return true;
}

static E move_load(struct twir_rewriter *r, E e)
{
	struct twir_tensor *scratch;
	E at[3];
	return e->kind == TWIR_Load && moved(r->user, e->u.tensor, e->arg, at, &scratch)
		       ? twir_load(r->m, scratch, 3, at)
		       : e;
}

static struct twir_stmt *move_store(struct twir_rewriter *r, const struct twir_stmt *s)
{
	struct twir_tensor *scratch;
	E at[3];
	if (s->kind != TWIR_STORE || !moved(r->user, s->u.store.tensor, s->u.store.index, at, &scratch))
		return NULL;
	for (int d = 0; d < 3; d++)
		at[d] = twir_rewrite_expr(r, at[d]);
	return twir_store(r->m, scratch, 3, at, twir_rewrite_expr(r, s->u.store.value), NULL);
}

static struct twir_stmt *in_scratch(struct item *x, struct twir_stmt *body)
{
	struct twir_rewriter r;
	twir_rewriter_init(&r, x->m);
	r.user = x;
	r.expr = move_load;
	r.stmt = move_store;
	return twir_rewrite_block(&r, body);
}

/* --- stages --- */

/* for panel, for row: all columns of that row */
static struct twir_stmt *matmul_rows(struct item *x, int which, E first_row, E rows, E first_panel, E panels)
{
	struct twir_module *m = x->m;
	const struct chain_part *part = &x->c->part[which];
	struct twir_var *tp = tw_loop_var(m, "tp"), *r = tw_loop_var(m, "r");
	struct twir_subst s;
	twir_subst_init(&s, m);
	twir_subst_set(&s, part->task.anchor->axes[CHAIN_IMAGE], x->number);
	twir_subst_set(&s, part->task.anchor->axes[CHAIN_ROW], twir_add(m, first_row, twir_var(m, r)));
	struct twir_stmt *body = mm_panel(&part->p, &part->q, part->part, twir_add(m, first_panel, twir_var(m, tp)));
	return tw_for(m, tp, panels, tw_for(m, r, rows, twir_subst_block(&s, body)));
}

/* The rows of the image that the step needs and no step before it has made. */
static struct twir_stmt *expand(struct item *x, E step)
{
	struct twir_module *m = x->m;
	const struct chain *c = x->c;
	const E zero = twir_index(m, 0), one = twir_index(m, 1), by = twir_index(m, c->step),
		far = twir_index(m, (c->taps - 1) * c->dilation), height = x->image->shape[CHAIN_ROW];
	const E begin = twir_add(m, twir_mul(m, x->o0, by), c->base);
	const E end =
		twir_add(m, twir_add(m, begin, twir_mul(m, twir_sub(m, x->rows, one), by)), twir_add(m, far, one));
	const int64_t overlap = (c->taps - 1) * c->dilation + 1 - c->step;
	const E again = overlap > 0 ? twir_add(m, begin, twir_index(m, overlap)) : begin;
	E lo, n;
	struct twir_stmt *body = NULL;
	twir_append(&body,
		    tw_let_new(m, "lo", twir_max(m, zero, twir_cond(m, twir_lt(m, zero, step), again, begin)), &lo));
	twir_append(&body, tw_let_new(m, "n", twir_max(m, zero, twir_sub(m, twir_min(m, height, end), lo)), &n));
	twir_append(&body, matmul_rows(x, CHAIN_EXPAND, lo, n, x->first_panel, x->panels));
	return body;
}

static struct twir_stmt *windows(struct item *x)
{
	struct twir_module *m = x->m;
	struct tw_window *w = &x->w;
	const struct tw_nest *n = &w->nest;
	const E lanes = twir_index(m, x->c->t->lanes);
	struct twir_var *r = tw_loop_var(m, "r"), *tw = tw_loop_var(m, "tw"), *tc = tw_loop_var(m, "tc");
	struct twir_subst s;
	twir_subst_init(&s, m);
	if (n->place[CHAIN_IMAGE]->kind == TWIR_Var)
		twir_subst_set(&s, n->place[CHAIN_IMAGE]->u.var, x->number);
	twir_subst_set(&s, n->place[CHAIN_ROW]->u.var, twir_add(m, x->o0, twir_var(m, r)));
	const E width = n->extent[w->channel];
	E channels = twir_ceildiv(m, width, lanes), first = twir_index(m, 0);
	if (x->ring) {
		const E left = twir_sub(m, width, x->channel), own = x->ring->shape[2];
		channels = twir_ceildiv(m, twir_min(m, own, left), lanes);
		first = twir_div(m, x->channel, lanes);
	}
	struct twir_stmt *body = tw_window_tile(w, twir_var(m, tw), twir_add(m, first, twir_var(m, tc)));
	body = tw_for(m, tc, channels, twir_subst_block(&s, body));
	body = tw_for(m, tw, twir_ceildiv(m, n->extent[w->pixel], twir_index(m, w->pixels)), body);
	return tw_for(m, r, x->rows, body);
}

static struct twir_stmt *project(struct item *x)
{
	const struct chain_part *part = &x->c->part[CHAIN_PROJECT];
	const E panels = twir_ceildiv(x->m, part->p.N, twir_index(x->m, part->q.nr));
	return matmul_rows(x, CHAIN_PROJECT, x->first, x->here, twir_index(x->m, 0), panels);
}

/* --- the item --- */

static struct twir_tensor *scratch(struct item *x, const char *name, E rows, E columns, int64_t channels,
				   struct twir_stmt **declared)
{
	struct twir_module *m = x->m;
	const E shape[] = {rows, columns, twir_index(m, channels)};
	struct twir_tensor *t = twir_tensor_new(m, name, TWIR_F32, 3, shape, TWIR_SHARED);
	twir_append(declared, tw_declare(m, t));
	return t;
}

static void declare_all(struct item *x, struct tw_launch *out, struct twir_stmt **declared)
{
	struct chain *c = x->c;
	struct twir_compute *image = c->part[CHAIN_EXPAND].task.anchor, *result = c->part[CHAIN_WINDOW].task.anchor;
	for (int i = 0; i < CHAIN_PARTS; i++) {
		struct chain_part *part = &c->part[i];
		if (i == CHAIN_WINDOW || !part->given)
			continue;
		mm_tensors(&part->p, &part->q, out, declared);
		part->part = mm_part(&part->p, &part->q);
		twir_append(declared, tw_declare(x->m, part->part));
	}
	if (image) {
		x->image = image->out;
		x->ring = scratch(x, "ring", twir_index(x->m, c->ring), image->out->shape[CHAIN_COLUMN],
				  c->turn * c->part[CHAIN_EXPAND].q.nr, declared);
	}
	if (c->part[CHAIN_PROJECT].given) {
		x->result = result->out;
		x->lines = scratch(x, "lines", c->strip, result->out->shape[CHAIN_COLUMN],
				   tw_size_or(result->out->shape[CHAIN_CHANNEL], 0), declared);
	}
}

static struct twir_stmt *steps(struct item *x)
{
	struct twir_module *m = x->m;
	struct twir_var *number = tw_loop_var(m, "step");
	const E block = twir_index(m, x->c->block), done = twir_mul(m, twir_var(m, number), block);
	struct twir_stmt *body = NULL;
	twir_append(&body, tw_let_new(m, "o0", twir_add(m, x->first, done), &x->o0));
	twir_append(&body, tw_let_new(m, "rows", twir_min(m, block, twir_sub(m, x->here, done)), &x->rows));
	if (x->ring)
		twir_append(&body, expand(x, twir_var(m, number)));
	twir_append(&body, windows(x));
	return tw_for(m, number, twir_ceildiv(m, x->here, block), body);
}

/* for turns { steps }, with the panels that are the item's: `group` of `all` */
static struct twir_stmt *turns(struct item *x, E all, E number)
{
	struct twir_module *m = x->m;
	const struct chain *c = x->c;
	const E group = twir_index(m, c->group), turn = twir_index(m, c->turn), own = twir_mul(m, number, group);
	struct twir_var *v = tw_loop_var(m, "turn");
	const E here = twir_min(m, group, twir_sub(m, all, own)), done = twir_mul(m, twir_var(m, v), turn);
	struct twir_stmt *body = NULL;
	twir_append(&body, tw_let_new(m, "panel", twir_add(m, own, done), &x->first_panel));
	x->panels = twir_min(m, turn, twir_sub(m, here, done));
	x->channel = twir_mul(m, x->first_panel, twir_index(m, c->part[CHAIN_EXPAND].q.nr));
	twir_append(&body, steps(x));
	return tw_for(m, v, twir_ceildiv(m, here, turn), body);
}

static struct twir_program *schedule(struct chain *c, struct tw_launch *out)
{
	struct twir_module *m = c->m;
	struct item x = {.c = c, .m = m};
	const struct twir_tensor *result = c->part[CHAIN_WINDOW].task.anchor->out;
	struct twir_stmt *body = NULL, *rest;
	tw_window_begin(&x.w, &c->part[CHAIN_WINDOW].task, c->t, 0, out);
	declare_all(&x, out, &body);
	struct twir_var *var[] = {tw_loop_var(m, "image"), tw_loop_var(m, "strip"), tw_loop_var(m, "group")};
	const E height = result->shape[CHAIN_ROW];
	const struct chain_part *expands = &c->part[CHAIN_EXPAND];
	E all = twir_index(m, 1);
	if (x.ring)
		all = twir_ceildiv(m, expands->p.N, twir_index(m, expands->q.nr));
	const E extent[] = {result->shape[CHAIN_IMAGE], twir_ceildiv(m, height, c->strip),
			    twir_ceildiv(m, all, twir_index(m, c->group))};
	x.number = twir_var(m, var[0]);
	E strip;
	twir_append(&body, tw_let_new(m, "own", c->strip, &strip));
	twir_append(&body, tw_let_new(m, "first", twir_mul(m, twir_var(m, var[1]), strip), &x.first));
	twir_append(&body, tw_let_new(m, "here", twir_min(m, strip, twir_sub(m, height, x.first)), &x.here));
	rest = x.ring ? turns(&x, all, twir_var(m, var[2])) : steps(&x);
	if (x.lines)
		twir_append(&rest, project(&x));
	twir_append(&body, in_scratch(&x, rest));
	const E cores = twir_mul(m, twir_mul(m, extent[0], extent[1]), extent[2]);
	return tw_program_new(m, c->task->name, cores, c->t->lanes,
			      tw_formap(m, 3, var, twir_spatial(m, 3, extent), 1, CORE, NULL, body));
}

double tw_chain_saves(const struct tw_chain *stages, const struct tw_target *t)
{
	struct chain c;
	return chain_match(stages, t, &c) && chain_plan(&c) ? chain_saves(&c) : 0;
}

void tw_chain_schedule(const struct tw_task *task, const struct tw_target *t, struct tw_launch *out)
{
	struct chain c;
	TW_CHECK(chain_match(task->chain, t, &c) && chain_plan(&c), "a chain that is none was scheduled");
	c.task = task;
	struct tw_kernel k = {.program = schedule(&c, out)};
	k.schedule =
		arena_printf(task->m->arena, "chain%s window%s strip=%s rows=%d group=%d turn=%d",
			     c.part[CHAIN_EXPAND].given ? " expand" : "", c.part[CHAIN_PROJECT].given ? " project" : "",
			     c.strip->kind == TWIR_Const ? twir_print_expr(task->m->arena, c.strip) : "open",
			     (int)c.block, (int)c.group, (int)c.turn);
	vec_push(task->m->arena, &out->kernels, k);
}
