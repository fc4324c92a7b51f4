/* interpret_code: translates statements to code. A scope is a piece of code that is finished when it ends: loop
 * bodies and branches are put into the enclosing scope with their jumps around them, after whatever moved out of
 * them. */
#include "ir/interpret_int.h"

static void block(struct twiri_gen *g, const struct twir_stmt *list);

void twiri_gen_init(struct twiri_gen *g, struct twiri_machine *x)
{
	memset(g, 0, sizeof(*g));
	g->x = x;
	g->arena = x->arena;
	g->pin = -1;
	g->register_worker = -1;
	map_init(&g->memo, g->arena);
	map_init(&g->vars, g->arena);
	map_init(&g->tensors, g->arena);
	for (int l = 0; l < TWIR_LEVELS; l++)
		x->worker_slot[l] = twiri_slots(g, 1);
	twiri_push(g);
}

int twiri_depth(const struct twiri_gen *g)
{
	return g->scopes.n - 1;
}

void twiri_emit(struct twiri_gen *g, int depth, struct twiri_ins in)
{
	twiri_code *code = &g->scopes.at[depth].code;
	TW_CHECK(code->n < 1 << 28, "program too large");
	vec_push(g->arena, code, in);
}

void twiri_push(struct twiri_gen *g)
{
	vec_push(g->arena, &g->scopes, (struct twiri_scope){0});
}

void twiri_forget_loads(struct twiri_gen *g)
{
	struct twiri_scope *s = &g->scopes.at[twiri_depth(g)];
	for (int k = 0; k < s->loads.n; k++)
		map_set_ptr(&g->memo, s->loads.at[k], NULL);
	s->loads.n = 0;
}

twiri_code twiri_pop(struct twiri_gen *g)
{
	twiri_forget_loads(g);
	struct twiri_scope *s = &g->scopes.at[twiri_depth(g)];
	for (int k = 0; k < s->pure.n; k++)
		map_set_ptr(&g->memo, s->pure.at[k], NULL);
	g->scopes.n--;
	return s->code;
}

void twiri_splice(struct twiri_gen *g, const twiri_code *code)
{
	for (int k = 0; k < code->n; k++)
		twiri_emit(g, twiri_depth(g), code->at[k]);
}

int twiri_tensor_number(struct twiri_gen *g, struct twir_tensor *t)
{
	const uintptr_t known = (uintptr_t)map_get_ptr(&g->tensors, t);
	if (known)
		return (int)known - 1;
	if (t->scope == TWIR_SHARED || t->scope == TWIR_REGISTER)
		tw_raise(TW_ERR_INTERNAL, "%s %s: the tensor %s is used where it is not declared", g->x->what,
			 g->x->name, t->name);
	vec_push(g->arena, &g->x->tensor_of, t);
	map_set_ptr(&g->tensors, t, (void *)(uintptr_t)g->x->tensor_of.n);
	return g->x->tensor_of.n - 1;
}

/* Appends the factors of a map, outermost first. */
static void add_leaves(struct twiri_gen *g, struct twiri_site *site, const struct twir_map *f, unsigned projected)
{
	if (f->kind == TWTM_COMPOSE) {
		add_leaves(g, site, f->a, projected);
		add_leaves(g, site, f->b, projected);
		return;
	}
	if (f->kind == TWTM_PROJECT) {
		add_leaves(g, site, f->a, projected | f->projected);
		return;
	}
	struct twiri_leaf *l = &site->leaves[site->nleaves++];
	l->spatial = f->kind == TWTM_SPATIAL;
	l->projected = projected;
	for (int d = 0; d < f->rank; d++) {
		l->extent[d] = twiri_expr(g, f->extent[d]).slot;
		TW_CHECK(f->order[d] >= 0 && f->order[d] < f->rank, "order of a map");
		l->order[f->order[d]] = d;
	}
}

static int count_leaves(const struct twir_map *f)
{
	return f->kind == TWTM_COMPOSE	 ? count_leaves(f->a) + count_leaves(f->b)
	       : f->kind == TWTM_PROJECT ? count_leaves(f->a)
					 : 1;
}

static struct twiri_site site_of_map(struct twiri_gen *g, const struct twir_map *map)
{
	struct twiri_site site = {.stmt = g->stmt, .rank = map->rank};
	const int leaves = count_leaves(map);
	site.leaves = ARENA_ARRAY(g->arena, struct twiri_leaf, leaves);
	site.dim = ARENA_ARRAY(g->arena, int, leaves * map->rank);
	add_leaves(g, &site, map, 0);
	for (int l = 0; l < leaves; l++)
		for (int k = 0; k < map->rank && !site.leaves[l].spatial; k++)
			site.dim[site.ndigits++] = site.leaves[l].order[k];
	site.var = twiri_slots(g, map->rank);
	site.state = twiri_slots(g, 3 * site.ndigits);
	for (int d = 0; d < TWIR_MAX_RANK; d++)
		site.bound[d] = -1;
	return site;
}

static void declare(struct twiri_gen *g, const struct twir_stmt *s)
{
	struct twir_tensor *t = s->u.declare.tensor;
	vec_push(g->arena, &g->x->tensor_of, t);
	map_set_ptr(&g->tensors, t, (void *)(uintptr_t)g->x->tensor_of.n);
	struct twiri_declare d = {.stmt = s, .tensor = g->x->tensor_of.n - 1, .site = -1};
	for (int k = 0; k < t->rank; k++)
		d.shape[k] = twiri_expr(g, t->shape[k]).slot;
	for (const struct twir_layout *l = t->layout; l; l = l->inner)
		d.nfactors++;
	TW_CHECK(d.nfactors <= 8, "layout of %s", t->name);
	d.factors = ARENA_ARRAY(g->arena, struct twiri_factor, d.nfactors);
	int n = 0;
	for (const struct twir_layout *l = t->layout; l; l = l->inner, n++) {
		d.factors[n].kind = l->kind;
		d.factors[n].rank = l->rank;
		d.factors[n].swizzle = l->swizzle;
		for (int k = 0; k < l->rank; k++)
			d.factors[n].extent[k] = twiri_expr(g, l->extent[k]).slot;
	}
	if (t->mirrors) {
		if (t->mirrors->rank != t->rank || t->scope != TWIR_REGISTER)
			twiri_fail(g->x, s, NULL, "the mapping that %s mirrors does not fit it", t->name);
		const struct twiri_site site = site_of_map(g, t->mirrors);
		vec_push(g->arena, &g->x->sites, site);
		d.site = g->x->sites.n - 1;
	}
	vec_push(g->arena, &g->x->declares, d);
	twiri_emit(g, twiri_depth(g), (struct twiri_ins){.op = OP_DECLARE, .a = g->x->declares.n - 1});
}

static void store(struct twiri_gen *g, const struct twir_stmt *s)
{
	struct twir_tensor *t = s->u.store.tensor;
	const struct twir_expr *v = s->u.store.value;
	if (t->scope == TWIR_IN || (t->scope == TWIR_TENSOR && !g->x->compute))
		twiri_fail(g->x, s, NULL, "the in tensor %s is written", t->name);
	const int access = twiri_access_new(g, t, NULL, s->u.store.n, s->u.store.index, v->type);
	const int value = twiri_expr(g, v).slot;
	const int mask = s->u.store.mask ? twiri_expr(g, s->u.store.mask).slot : -1;
	struct twiri_access *a = &g->x->accesses.at[access];
	if (v->type.lanes != 1 && v->type.lanes != a->lanes)
		twiri_fail(g->x, s, NULL, "%d lanes are stored where %d are", v->type.lanes, a->lanes);
	a->mask = mask;
	a->other_step = v->type.lanes > 1;
	a->async = s->u.store.async;
	if (a->async && !g->x->gpu)
		twiri_fail(g->x, s, NULL, "asynchronous copies belong to programs on blocks");
	if (mask >= 0) {
		a->mask_step = s->u.store.mask->type.lanes > 1;
		if (a->mask_step && s->u.store.mask->type.lanes != a->lanes) {
			if (a->lanes != 1)
				twiri_fail(g->x, s, NULL, "a mask of %d lanes for a store of %d",
					   s->u.store.mask->type.lanes, a->lanes);
			a->lanes = s->u.store.mask->type.lanes; /* one value for all lanes of a wide store */
		}
	}
	twiri_emit(g, twiri_depth(g),
		   (struct twiri_ins){.op = OP_STORE, .lanes = (uint16_t)a->lanes, .a = value, .c = access});
}

static void loop(struct twiri_gen *g, const struct twir_var *v, int extent, const struct twir_stmt *body)
{
	const int var = twiri_slots(g, 1);
	twiri_push(g);
	twiri_bind(g, v, var, twiri_depth(g));
	block(g, body);
	const twiri_code code = twiri_pop(g);
	const int depth = twiri_depth(g);
	twiri_emit(g, depth, (struct twiri_ins){.op = OP_LOOP_BEGIN, .d = var, .a = extent, .c = code.n + 2});
	twiri_splice(g, &code);
	twiri_emit(g, depth, (struct twiri_ins){.op = OP_LOOP_NEXT, .d = var, .a = extent, .c = -code.n});
}

/* On a GPU: the number that mirrored registers are owned by, where the levels speak of threads. */
static int register_worker(const struct twiri_gen *g, const struct twiri_site *site)
{
	enum twir_level level = TWIR_LEVELS;
	for (int k = 0; k < site->nlevels; k++)
		if (site->levels[k] != TWIR_BLOCK)
			level = level == TWIR_LEVELS ? site->levels[k] : TWIR_THREAD;
	return level == TWIR_LEVELS ? g->register_worker : g->x->worker_slot[level];
}

static void formap(struct twiri_gen *g, const struct twir_stmt *s)
{
	struct twiri_site site = site_of_map(g, s->u.formap.map);
	bool region = false;
	site.nlevels = s->u.formap.nlevels;
	for (int k = 0; k < site.nlevels; k++) {
		site.levels[k] = s->u.formap.levels[k];
		region |= site.levels[k] == TWIR_LANE && !g->x->gpu;
		if (g->x->extent[site.levels[k]] < 0)
			twiri_fail(g->x, s, NULL, "the program does not launch the level %s",
				   twir_level_name(site.levels[k]));
	}
	if (s->u.formap.n != site.rank)
		twiri_fail(g->x, s, NULL, "%d variables for %d dimensions", s->u.formap.n, site.rank);
	if (region && g->in_region)
		twiri_fail(g->x, s, NULL, "a lane region inside another");
	for (int d = 0; d < site.rank && s->u.formap.bounds; d++)
		if (s->u.formap.bounds[d])
			site.bound[d] = twiri_expr(g, s->u.formap.bounds[d]).slot;
	vec_push(g->arena, &g->x->sites, site);
	const int number = g->x->sites.n - 1, outer_worker = g->register_worker;
	twiri_forget_loads(g);
	g->register_worker = region	 ? g->x->worker_slot[TWIR_LANE]
			     : g->x->gpu ? register_worker(g, &site)
					 : outer_worker;
	if (region) {
		g->in_region = true;
		twiri_push(g);
		g->region_depth = twiri_depth(g);
	}
	twiri_push(g);
	for (int d = 0; d < site.rank; d++)
		twiri_bind(g, s->u.formap.vars[d], site.var + d, twiri_depth(g));
	block(g, s->u.formap.body);
	const twiri_code body = twiri_pop(g);
	twiri_emit(g, twiri_depth(g), (struct twiri_ins){.op = OP_MAP_BEGIN, .a = number, .c = body.n + 2});
	twiri_splice(g, &body);
	twiri_emit(g, twiri_depth(g), (struct twiri_ins){.op = OP_MAP_NEXT, .a = number, .c = -body.n});
	g->register_worker = outer_worker;
	if (!region)
		return;
	const twiri_code lanes = twiri_pop(g);
	const int depth = twiri_depth(g);
	g->in_region = false;
	twiri_emit(g, depth, (struct twiri_ins){.op = OP_REGION});
	twiri_emit(g, depth, (struct twiri_ins){.op = OP_LANE_NEXT, .c = lanes.n + 2});
	twiri_splice(g, &lanes);
	twiri_emit(g, depth, (struct twiri_ins){.op = OP_JUMP, .c = -lanes.n - 1});
}

static void branch(struct twiri_gen *g, const struct twir_stmt *s)
{
	const int cond = twiri_expr(g, s->u.branch.cond).slot;
	twiri_forget_loads(g);
	twiri_push(g);
	block(g, s->u.branch.body);
	const twiri_code yes = twiri_pop(g);
	twiri_push(g);
	block(g, s->u.branch.other);
	const twiri_code no = twiri_pop(g);
	const int depth = twiri_depth(g);
	twiri_emit(g, depth, (struct twiri_ins){.op = OP_JUMP_IF_NOT, .a = cond, .c = yes.n + 2});
	twiri_splice(g, &yes);
	twiri_emit(g, depth, (struct twiri_ins){.op = OP_JUMP, .c = no.n + 1});
	twiri_splice(g, &no);
}

/* The fragments' elements are addressed one by one when the warp meets: their indices are slots of their own. */
static void matrix(struct twiri_gen *g, const struct twir_stmt *s)
{
	struct twiri_matrix m = {.shape = s->u.mma.shape};
	if (!g->x->gpu)
		twiri_fail(g->x, s, NULL, "matrix instructions belong to programs on blocks");
	for (int k = 0; k < 3; k++) {
		const struct twir_fragment *f = &s->u.mma.part[k];
		struct twiri_access a = {.stmt = s,
					 .tensor = twiri_tensor_number(g, f->tensor),
					 .n = f->tensor->rank,
					 .lanes = 1,
					 .mask = -1,
					 .other = -1};
		m.behind[k] = f->tensor->rank - f->n;
		TW_CHECK(m.behind[k] == 1 || m.behind[k] == 2, "fragment of %s", f->tensor->name);
		for (int i = 0; i < f->n; i++)
			a.index[i] = twiri_expr(g, f->index[i]).slot;
		for (int i = 0; i < m.behind[k]; i++)
			a.index[f->n + i] = m.slot[k][i] = twiri_slots(g, 1);
		/* owned by lanes where a warp's lanes hold it all, else by the block's threads */
		int64_t workers = 0;
		const struct twir_expr *n = f->tensor->mirrors ? twir_map_workers(g->x->m, f->tensor->mirrors) : NULL;
		if (n && !twir_const_int(n, &workers))
			twiri_fail(g->x, s, NULL, "the mapping of %s has no constant number of workers",
				   f->tensor->name);
		a.worker = g->x->worker_slot[workers <= g->x->extent[TWIR_LANE] ? TWIR_LANE : TWIR_THREAD];
		vec_push(g->arena, &g->x->accesses, a);
		m.access[k] = g->x->accesses.n - 1;
	}
	vec_push(g->arena, &g->x->matrices, m);
	twiri_emit(g, twiri_depth(g), (struct twiri_ins){.op = OP_MMA, .a = g->x->matrices.n - 1});
}

static void statement(struct twiri_gen *g, const struct twir_stmt *s)
{
	switch (s->kind) {
	case TWIR_LET: {
		struct twiri_place p = twiri_expr(g, s->u.let.value);
		twiri_bind(g, s->u.let.var, p.slot, p.depth);
		break;
	}
	case TWIR_DECLARE:
		declare(g, s);
		break;
	case TWIR_STORE:
		store(g, s);
		break;
	case TWIR_FOR: {
		const int extent = twiri_expr(g, s->u.loop.extent).slot;
		twiri_forget_loads(g);
		loop(g, s->u.loop.var, extent, s->u.loop.body);
		break;
	}
	case TWIR_FORMAP:
		formap(g, s);
		break;
	case TWIR_IF:
		branch(g, s);
		break;
	case TWIR_SPECIALISE:
		block(g, s->u.branch.body);
		break;
	case TWIR_BARRIER:
		if (!g->x->gpu || (s->u.barrier.level != TWIR_BLOCK && s->u.barrier.level != TWIR_WARP))
			twiri_fail(g->x, s, NULL, "there is no such barrier here");
		vec_push(g->arena, &g->x->meetings, s);
		twiri_emit(g, twiri_depth(g),
			   (struct twiri_ins){.op = OP_BARRIER, .a = s->u.barrier.level, .b = g->x->meetings.n - 1});
		break;
	case TWIR_PREFETCH: /* changes nothing */
		break;
	case TWIR_COMMIT:
		twiri_emit(g, twiri_depth(g), (struct twiri_ins){.op = OP_COMMIT});
		break;
	case TWIR_WAIT:
		twiri_emit(g, twiri_depth(g), (struct twiri_ins){.op = OP_WAIT, .a = s->u.wait.pending});
		break;
	case TWIR_MMA:
		matrix(g, s);
		break;
	case TWIR_INVOKE:
		twiri_fail(g->x, s, NULL, "a program calls no program");
	}
}

static void block(struct twiri_gen *g, const struct twir_stmt *list)
{
	for (const struct twir_stmt *s = list; s; s = s->next) {
		g->stmt = s;
		statement(g, s);
		twiri_forget_loads(g);
	}
}

static void finish(struct twiri_gen *g)
{
	twiri_emit(g, 0, (struct twiri_ins){.op = OP_END});
	g->x->code = twiri_pop(g);
	g->x->first = g->first.at;
	g->x->nslots = g->first.n;
}

void twiri_gen_program(struct twiri_gen *g, const struct twir_program *p)
{
	for (int k = 0; k < p->nparams; k++)
		twiri_tensor_number(g, p->params[k]);
	if (g->x->gpu)
		g->register_worker = g->x->worker_slot[TWIR_THREAD];
	block(g, p->body);
	finish(g);
}

/* A loop for each axis around one store. */
void twiri_gen_compute(struct twiri_gen *g, const struct twir_compute *c, const int64_t *shape)
{
	struct twir_stmt *s = twir_stmt_new(g->x->m, TWIR_STORE);
	const int rank = c->out->rank;
	s->u.store.tensor = c->out;
	s->u.store.n = rank;
	s->u.store.index = ARENA_ARRAY(g->x->m->arena, const struct twir_expr *, rank);
	s->u.store.value = c->value;
	for (int k = 0; k < rank; k++)
		s->u.store.index[k] = twir_var(g->x->m, c->axes[k]);
	for (int k = rank - 1; k >= 0; k--) {
		struct twir_stmt *f = twir_stmt_new(g->x->m, TWIR_FOR);
		f->u.loop.var = c->axes[k];
		f->u.loop.extent = twir_index(g->x->m, shape[k]);
		f->u.loop.body = s;
		s = f;
	}
	twiri_tensor_number(g, c->out);
	block(g, s);
	finish(g);
}
