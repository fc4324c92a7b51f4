/* Loops whose steps are few and short, as those of recurrent cells, in one program:
 *
 *   for (direction, chunk of rows) on core
 *     states = initial; for number: { stages; whole[number] = slice; states = new states }; last = states
 *
 * Two axes in front, direction and row, are the same in all tensors that the loop makes, and nothing in it reads another direction or row than it makes: items
 * need not wait for each other, and each goes through all steps with its states, sums and gates in scratch. A product is written by the matmul template, what is
 * left goes lane by lane over the last axis. A chunk has so many rows that the weights, which every step reads, pay for their way from the second-level cache;
 * where the number of rows is a symbol, rows that fill no chunk are items of their own. Input: a task with a loop. Output: a program over compute tensors; sums
 * have the order that the matmul template gives them. Items depend on sizes alone. */
#include "sched/loop_int.h"
#include "sched/matmul.h"

typedef const struct twir_expr *E;

static const enum twir_level CORE[] = {TWIR_CORE}, LANE[] = {TWIR_LANE};

enum { CHUNK = 4, WHOLE = 7 /* rows that are one chunk where their number is known */ };

/* The loop for chunks of so many rows. */
struct form {
	struct loop *x;
	int64_t rows;
	E first;				 /* row of the chunk */
	struct twir_tensor *made[LOOP_INNER];	 /* instead of inner: of the chunk's rows */
	struct twir_tensor *scratch[LOOP_INNER]; /* where they lie, without the direction */
	struct twir_stmt *declared;
};

/* --- definitions of a chunk --- */

struct turn {
	const struct form *f;
	const struct twir_compute *from, *to;
};

static E row_of(const struct turn *t)
{
	struct twir_module *m = t->f->x->m;
	return twir_add(m, t->f->first, twir_var(m, t->to->axes[LOOP_ROW]));
}

static E turn_expr(struct twir_rewriter *r, E e)
{
	const struct turn *t = r->user;
	if (e->kind == TWIR_Load) {
		const int i = loop_inner(t->f->x, e->u.tensor);
		if (i < 0)
			return e;
		const E at[] = {twir_var(r->m, t->to->axes[LOOP_DIRECTION]), twir_var(r->m, t->to->axes[LOOP_ROW]),
				e->arg[LOOP_ELEMENT]};
		return twir_load(r->m, t->f->made[i], LOOP_RANK, at);
	}
	for (int d = 0; e->kind == TWIR_Var && d < LOOP_RANK; d++)
		if (e->u.var == t->from->axes[d])
			return d == LOOP_ROW ? row_of(t) : twir_var(r->m, t->to->axes[d]);
	return e;
}

static struct twir_compute *of_chunk(const struct form *f, const struct twir_compute *c)
{
	struct twir_module *m = f->x->m;
	const int i = loop_inner(f->x, c->out);
	if (i < 0) /* from outside: the same for all rows, or read at the chunk's */
		return (struct twir_compute *)c;
	struct twir_compute *made = ARENA_NEW(m->arena, struct twir_compute);
	*made = *c;
	made->out = f->made[i];
	made->axes = ARENA_ARRAY(m->arena, struct twir_var *, LOOP_RANK);
	for (int d = 0; d < LOOP_RANK; d++)
		made->axes[d] = twir_var_new(m, TWIR_AXIS, twir_scalar_type(TWIR_INDEX), "i");
	struct turn t = {f, c, made};
	struct twir_rewriter r;
	twir_rewriter_init(&r, m);
	r.user = &t;
	r.expr = turn_expr;
	made->value = twir_rewrite_expr(&r, c->value);
	return made;
}

static struct tw_task task_of_chunk(const struct form *f, const struct tw_task *t)
{
	struct tw_task made = *t;
	made.anchor = of_chunk(f, t->anchor);
	made.consumer = t->consumer ? of_chunk(f, t->consumer) : NULL;
	made.producers = ARENA_ARRAY(f->x->m->arena, struct twir_compute *, t->nproducers);
	for (int i = 0; i < t->nproducers; i++)
		made.producers[i] = of_chunk(f, t->producers[i]);
	return made;
}

/* --- stages --- */

static E move_load(struct twir_rewriter *r, E e)
{
	const struct form *f = r->user;
	for (int i = 0; e->kind == TWIR_Load && i < f->x->ninner; i++)
		if (e->u.tensor == f->made[i])
			return twir_load(r->m, f->scratch[i], LOOP_RANK - 1, e->arg + LOOP_ROW);
	return e;
}

static struct twir_stmt *move_store(struct twir_rewriter *r, const struct twir_stmt *s)
{
	const struct form *f = r->user;
	for (int i = 0; s->kind == TWIR_STORE && i < f->x->ninner; i++) {
		if (s->u.store.tensor != f->made[i])
			continue;
		const E at[] = {twir_rewrite_expr(r, s->u.store.index[LOOP_ROW]),
				twir_rewrite_expr(r, s->u.store.index[LOOP_ELEMENT])};
		return twir_store(r->m, f->scratch[i], LOOP_RANK - 1, at, twir_rewrite_expr(r, s->u.store.value), NULL);
	}
	return NULL;
}

/* for row: for element on lane { t[..] = value }, which the caller makes for variables of the loops */
struct nest {
	struct twir_var *row, *element;
	E at[2];
};

static struct nest nest_new(struct twir_module *m)
{
	struct nest n = {.row = tw_loop_var(m, "r"), .element = tw_loop_var(m, "j")};
	n.at[0] = twir_var(m, n.row);
	n.at[1] = twir_var(m, n.element);
	return n;
}

static struct twir_stmt *over(const struct form *f, const struct nest *n, E elements, struct twir_stmt *body)
{
	struct twir_module *m = f->x->m;
	const E lanes = twir_index(m, f->x->t->lanes), vectors = twir_ceildiv(m, elements, lanes);
	const struct twir_map *map = twir_compose(m, twir_repeat(m, 1, &vectors, NULL), twir_spatial(m, 1, &lanes));
	body = tw_formap(m, 1, &n->element, map, 1, LANE, &elements, body);
	return tw_for(m, n->row, twir_index(m, f->rows), body);
}

/* What is no product: its definition, element by element */
static struct twir_stmt *elements(const struct form *f, const struct tw_task *t)
{
	struct twir_module *m = f->x->m;
	const struct twir_compute *c = t->consumer ? t->consumer : t->anchor;
	E value = t->anchor->value;
	for (int i = t->nproducers - 1; i >= 0; i--)
		value = tw_inline(m, value, t->producers[i]);
	const struct nest n = nest_new(m);
	struct twir_subst s;
	twir_subst_init(&s, m);
	const E at[] = {f->x->direction, n.at[0], n.at[1]};
	for (int d = 0; d < LOOP_RANK; d++)
		twir_subst_set(&s, c->axes[d], at[d]);
	return over(f, &n, c->out->shape[LOOP_ELEMENT],
		    twir_store(m, c->out, LOOP_RANK, at, twir_subst_expr(&s, value), NULL));
}

/* The point for a product of all forms that there are. */
static struct tw_point choose(const struct loop *x, const struct tw_task *const *tasks, int n)
{
	struct tw_space s = {0};
	mm_space(x->m->arena, x->t, &s);
	double *cost = ARENA_ARRAY(x->m->arena, double, s.points.n);
	int best = 0;
	for (int k = 0; k < n; k++) {
		struct mm_problem p;
		double least = 0;
		TW_CHECK(mm_match(tasks[k], x->t, &p), "a product is none for a chunk");
		for (int i = 0; i < s.points.n; i++) {
			const double one = mm_cost(&p, &s.points.at[i]);
			least = i == 0 || one < least ? one : least;
		}
		for (int i = 0; i < s.points.n; i++)
			cost[i] += mm_cost(&p, &s.points.at[i]) / least;
	}
	for (int i = 0; i < s.points.n; i++)
		best = cost[i] < cost[best] ? i : best;
	return s.points.at[best];
}

/* The matmul template's program as a statement: its core items one after another, but for the direction, which is the item's own. */
static struct twir_stmt *product(struct form *f, const struct tw_task *t, const struct tw_point *point,
				 struct tw_launch *out)
{
	struct twir_module *m = f->x->m;
	struct tw_launch own = {0};
	struct mm_problem p;
	TW_CHECK(mm_match(t, f->x->t, &p), "a product is none for a chunk");
	mm_build_whole(t, f->x->t, point, &own);
	TW_CHECK(own.kernels.n == 1, "a product of a loop takes several kernels");
	struct twir_program *program = own.kernels.at[0].program;
	tw_fuse(t, program);
	struct twir_stmt *nest = program->body, *body = nest->u.formap.body, *rest = NULL;
	TW_CHECK(nest->kind == TWIR_FORMAP && !nest->next && nest->u.formap.nlevels == 1, "a matmul of another form");
	for (struct twir_stmt *s = body, *next; s; s = next) { /* scratch belongs to the item */
		next = s->next;
		s->next = NULL;
		twir_append(s->kind == TWIR_DECLARE && s->u.declare.tensor->scope == TWIR_SHARED ? &f->declared : &rest,
			    s);
	}
	struct twir_subst s;
	twir_subst_init(&s, m);
	for (int i = nest->u.formap.n - 1; i >= 0; i--) {
		struct twir_var *v = nest->u.formap.vars[i];
		if (i < p.nbatch && p.batch[i] == LOOP_DIRECTION)
			twir_subst_set(&s, v, f->x->direction);
		else
			rest = tw_for(m, v, nest->u.formap.map->extent[i], rest);
	}
	for (int i = 0; i < own.prepared.n; i++)
		vec_push(m->arena, &out->prepared, own.prepared.at[i]);
	return twir_subst_block(&s, rest);
}

/* --- states --- */

static struct twir_stmt *copy(const struct form *f, struct twir_tensor *to, struct twir_tensor *from)
{
	struct twir_module *m = f->x->m;
	const struct nest n = nest_new(m);
	E into[LOOP_RANK + 1], source[LOOP_RANK + 1];
	const struct twir_tensor *const side[] = {to, from};
	E *const at[] = {into, source};
	for (int k = 0; k < 2; k++) {
		int d = 0;
		if (side[k]->rank == LOOP_RANK + 1) /* the whole of slices */
			at[k][d++] = twir_var(m, f->x->l->number);
		if (side[k]->rank >= LOOP_RANK)
			at[k][d++] = f->x->direction;
		at[k][d++] = side[k]->rank >= LOOP_RANK ? twir_add(m, f->first, n.at[0]) : n.at[0];
		at[k][d++] = n.at[1];
	}
	struct twir_stmt *body = twir_store(m, to, to->rank, into, twir_load(m, from, from->rank, source), NULL);
	return over(f, &n, from->shape[from->rank - 1], body);
}

static bool reads_elsewhere(const struct twir_compute *c, const struct twir_tensor *t)
{
	E load;
	const int n = tw_loads_of(c->value, t, &load);
	return n > 1 ||
	       (n == 1 && !loop_is_axis(load->arg[LOOP_ELEMENT], c->axes[LOOP_ELEMENT], c->out->shape[LOOP_ELEMENT]));
}

/* May the new state lie where the old one does? It may where nobody reads the old one later, nor at another element while the new one is made. */
static bool takes_over(const struct loop *x, const struct tw_loop_value *v)
{
	bool made = false;
	for (int k = 0; k < x->l->ntasks; k++) {
		const struct tw_task *t = x->l->tasks[k];
		const bool fold = tw_has_fold(t->anchor->value), makes = t->anchor->out == v->out;
		if (!makes && !made)
			continue;
		if (makes && (fold || t->consumer))
			return false;
		for (int i = 0; i < t->nproducers; i++)
			if (tw_loads_of(t->producers[i]->value, v->in, NULL) > 0)
				return false;
		if (made ? tw_loads_of(t->anchor->value, v->in, NULL) > 0 ||
				    (t->consumer && tw_loads_of(t->consumer->value, v->in, NULL) > 0)
			 : reads_elsewhere(t->anchor, v->in))
			return false;
		made = true;
	}
	for (int i = 0; i < x->l->ncarried; i++)
		if (&x->l->carried[i] != v && x->l->carried[i].out == v->out)
			return false;
	return made;
}

static struct twir_tensor *declare(struct form *f, const struct twir_tensor *t)
{
	const E shape[] = {twir_index(f->x->m, f->rows), t->shape[LOOP_ELEMENT]};
	struct twir_tensor *s = twir_tensor_new(f->x->m, t->base, t->type, LOOP_RANK - 1, shape, TWIR_SHARED);
	twir_append(&f->declared, tw_declare(f->x->m, s));
	return s;
}

static void begin(struct form *f)
{
	struct loop *x = f->x;
	for (int i = 0; i < x->ninner; i++) {
		const E shape[] = {x->directions, twir_index(x->m, f->rows), x->inner[i]->shape[LOOP_ELEMENT]};
		f->made[i] = twir_tensor_new(x->m, x->inner[i]->base, x->inner[i]->type, LOOP_RANK, shape, TWIR_TENSOR);
	}
	for (int i = 0; i < x->l->ncarried; i++) {
		const struct tw_loop_value *v = &x->l->carried[i];
		struct twir_tensor **in = &f->scratch[loop_inner(x, v->in)];
		*in = declare(f, v->in);
		if (takes_over(x, v))
			f->scratch[loop_inner(x, v->out)] = *in;
	}
	for (int i = 0; i < x->ninner; i++)
		if (!f->scratch[i])
			f->scratch[i] = declare(f, x->inner[i]);
}

static struct twir_tensor *place(const struct form *f, const struct twir_tensor *t)
{
	return f->scratch[loop_inner(f->x, t)];
}

/* All steps for the chunk. stage: of products, points */
static struct twir_stmt *steps(struct form *f, const struct tw_task *tasks, const struct tw_point *points,
			       struct tw_launch *out)
{
	struct loop *x = f->x;
	const struct tw_loop *l = x->l;
	struct twir_stmt *all = NULL, *step = NULL, *stages = NULL;
	for (int k = 0; k < l->ntasks; k++)
		twir_append(&stages, tw_has_fold(tasks[k].anchor->value) ? product(f, &tasks[k], &points[k], out)
									 : elements(f, &tasks[k]));
	struct twir_rewriter r;
	twir_rewriter_init(&r, x->m);
	r.user = f;
	r.expr = move_load;
	r.stmt = move_store;
	twir_append(&step, twir_rewrite_block(&r, stages));
	for (int i = 0; i < l->nslices; i++)
		twir_append(&step, copy(f, l->slices[i].whole, place(f, l->slices[i].slice)));
	for (int i = 0; i < l->ncarried; i++) {
		struct twir_tensor *in = place(f, l->carried[i].in), *made = place(f, l->carried[i].out);
		twir_append(&all, copy(f, in, l->carried[i].init));
		if (in != made)
			twir_append(&step, copy(f, in, made));
	}
	struct twir_var *number = tw_loop_var(x->m, "step");
	struct twir_subst s;
	twir_subst_init(&s, x->m);
	twir_subst_set(&s, l->number, twir_var(x->m, number));
	twir_append(&all, tw_for(x->m, number, l->trips, twir_subst_block(&s, step)));
	for (int i = 0; i < l->ncarried; i++)
		if (l->carried[i].last)
			twir_append(&all, copy(f, l->carried[i].last, place(f, l->carried[i].in)));
	return all;
}

/* The forms read the same weights: what the second prepared is what the first did. */
struct same {
	struct twir_tensor *const *from, *const *to;
	int n;
};

static E same_load(struct twir_rewriter *r, E e)
{
	const struct same *s = r->user;
	for (int i = 0; e->kind == TWIR_Load && i < s->n; i++)
		if (e->u.tensor == s->from[i])
			return twir_load(r->m, s->to[i], e->n, e->arg);
	return e;
}

static struct twir_stmt *same_weights(struct loop *x, struct tw_launch *out, int first, struct twir_stmt *body)
{
	const int n = out->prepared.n - first;
	struct twir_tensor **from = ARENA_ARRAY(x->m->arena, struct twir_tensor *, n),
			   **to = ARENA_ARRAY(x->m->arena, struct twir_tensor *, n);
	if (n != first)
		return body;
	for (int i = 0; i < n; i++) {
		to[i] = out->prepared.at[i]->out;
		from[i] = out->prepared.at[first + i]->out;
		if (to[i]->rank != from[i]->rank || to[i]->type != from[i]->type)
			return body;
		for (int d = 0; d < to[i]->rank; d++)
			if (to[i]->shape[d] != from[i]->shape[d])
				return body;
	}
	struct same s = {from, to, n};
	struct twir_rewriter r;
	twir_rewriter_init(&r, x->m);
	r.user = &s;
	r.expr = same_load;
	out->prepared.n = first;
	return twir_rewrite_block(&r, body);
}

static struct twir_program *schedule(struct loop *x, struct tw_launch *out)
{
	struct twir_module *m = x->m;
	struct twir_var *var[] = {tw_loop_var(m, "direction"), tw_loop_var(m, "chunk")};
	const E chunk = twir_var(m, var[1]), zero = twir_index(m, 0);
	struct form forms[2] = {{.x = x, .rows = CHUNK, .first = twir_mul(m, chunk, twir_index(m, CHUNK))}};
	int64_t batch = 0;
	int nforms = 1;
	const bool known = twir_const_int(x->batch, &batch);
	E full = known ? twir_index(m, 1) : twir_div(m, x->batch, twir_index(m, CHUNK)), chunks = full;
	if (known && batch <= WHOLE) {
		forms[0].rows = batch;
		forms[0].first = zero;
	} else if (known && batch % CHUNK == 0) {
		chunks = twir_index(m, batch / CHUNK);
	} else { /* the rest row by row */
		full = twir_div(m, x->batch, twir_index(m, CHUNK));
		const E done = twir_mul(m, full, twir_index(m, CHUNK));
		chunks = twir_add(m, full, twir_sub(m, x->batch, done));
		forms[nforms++] =
			(struct form){.x = x, .rows = 1, .first = twir_add(m, done, twir_sub(m, chunk, full))};
	}
	x->direction = twir_var(m, var[0]);
	struct tw_task *tasks[2];
	for (int i = 0; i < nforms; i++) {
		begin(&forms[i]);
		tasks[i] = ARENA_ARRAY(m->arena, struct tw_task, x->l->ntasks);
		for (int k = 0; k < x->l->ntasks; k++)
			tasks[i][k] = task_of_chunk(&forms[i], x->l->tasks[k]);
	}
	struct tw_point *points = ARENA_ARRAY(m->arena, struct tw_point, x->l->ntasks);
	for (int k = 0; k < x->l->ntasks; k++) {
		const struct tw_task *same[] = {&tasks[0][k], nforms > 1 ? &tasks[1][k] : NULL};
		if (tw_has_fold(tasks[0][k].anchor->value))
			points[k] = choose(x, same, nforms);
	}
	struct twir_stmt *body = NULL, *first = steps(&forms[0], tasks[0], points, out);
	const int prepared = out->prepared.n;
	if (nforms > 1) {
		struct twir_stmt *second = steps(&forms[1], tasks[1], points, out);
		second = same_weights(x, out, prepared, second);
		first = twir_if(m, twir_lt(m, chunk, full), first, second);
	}
	for (int i = 0; i < nforms; i++)
		twir_append(&body, forms[i].declared);
	twir_append(&body, first);
	const E extent[] = {x->directions, chunks};
	return tw_program_new(m, x->task->name, twir_mul(m, extent[0], extent[1]), x->t->lanes,
			      tw_formap(m, 2, var, twir_spatial(m, 2, extent), 1, CORE, NULL, body));
}

void tw_loop_schedule(const struct tw_task *task, const struct tw_target *t, struct tw_launch *out)
{
	struct loop x;
	TW_CHECK(loop_match(task->loop, t, task->m, &x), "a loop that is none was scheduled");
	x.task = task;
	struct tw_kernel k = {.program = schedule(&x, out), .schedule = "loop"};
	vec_push(task->m->arena, &out->kernels, k);
}
