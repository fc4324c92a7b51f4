/* The verifier: scopes, binders, worker levels, mappings, stores. Runs after every pass of a debug build and on every
 * program from text. It refuses only what is certainly wrong; what depends on values (bounds, initialisation, most
 * races) is the interpreter's to find. */
#include "ir/verify_int.h"

#include <inttypes.h>
#include <stdio.h>

_Noreturn void twir_verify_fail(struct twir_verifier *v, const char *fmt, ...)
{
	char reason[1024], place[64] = "";
	va_list args;
	va_start(args, fmt);
	vsnprintf(reason, sizeof(reason), fmt, args);
	va_end(args);
	char *hint = strstr(reason, "\nhint: ");
	if (hint) {
		*hint = 0;
		hint += strlen("\nhint: ");
	}
	struct tw_error e;
	const struct twir_stmt *s = v->stmt;
	if (v->report)
		*v->report =
			(struct twir_diagnostic){.severity = TWIR_ERROR,
						 .line = s ? s->line : 0,
						 .column = s ? s->column : 0,
						 .text = arena_strdup(v->report_arena, reason),
						 .hint = hint ? arena_strdup(v->report_arena, hint) : NULL,
						 .statement = s ? twir_print_head(v->report_arena, s) : NULL,
						 .within = arena_printf(v->report_arena, "%s '%s'", v->what, v->name)};
	if (s && s->line)
		snprintf(place, sizeof(place), ", line %d:%d", s->line, s->column);
	tw_error_set(&e, v->blame, "%s '%s'%s: %s%s%.400s%s%s", v->what, v->name, place, reason, s ? "\n  in: " : "",
		     s ? twir_print_head(v->arena, s) : "", hint ? "\nhint: " : "", hint ? hint : "");
	arena_free(v->arena);
	tw_raise_error(&e);
}

void twir_verify_bind(struct twir_verifier *v, const void *object, const char *name)
{
	if (map_get_ptr(&v->state, object))
		twir_verify_fail(v, "'%s' is bound twice", name);
	map_set_ptr(&v->state, object, (void *)(intptr_t)SEEN_VISIBLE);
	vec_push(v->arena, &v->scope, object);
}

void twir_verify_unbind(struct twir_verifier *v, int mark)
{
	while (v->scope.n > mark)
		map_set_ptr(&v->state, v->scope.at[--v->scope.n], (void *)(intptr_t)SEEN_GONE);
}

bool twir_verify_visible(const struct twir_verifier *v, const void *object)
{
	return (intptr_t)map_get_ptr(&v->state, object) == SEEN_VISIBLE;
}

/* mappings */

static void check_map(struct twir_verifier *v, const struct twir_map *f, int rank, bool constant, const char *what)
{
	if (f->rank != rank)
		twir_verify_fail(v, "%s has rank %d where %d is needed", what, f->rank, rank);
	switch (f->kind) {
	case TWTM_REPEAT:
	case TWTM_SPATIAL:
		twir_verify_sizes(v, rank, f->extent, constant, what);
		for (int i = 0; i < rank; i++) {
			int64_t n;
			if (f->attr[i] != TWTM_PLAIN && !twir_const_int(f->extent[i], &n))
				twir_verify_fail(v,
						 "an unrolled or vector dimension of %s must be a constant\nhint: for "
						 "i in repeat(n, unroll 4) unrolls by steps of four",
						 what);
		}
		break;
	case TWTM_COMPOSE:
		check_map(v, f->a, rank, constant, what);
		check_map(v, f->b, rank, constant, what);
		break;
	case TWTM_PROJECT:
		if (twir_bad_project(f->a, f->projected))
			twir_verify_fail(v, "%s: %s", what, twir_bad_project(f->a, f->projected));
		check_map(v, f->a, rank, constant, what);
		break;
	}
}

/* Product of constant extents; 0: not constant (or empty). Overflow counts as not constant. */
static int64_t workers_of(const struct twir_map *f)
{
	bool bad = false;
	int64_t n = 1, x;
	switch (f->kind) {
	case TWTM_REPEAT:
		return 1;
	case TWTM_SPATIAL:
		for (int i = 0; i < f->rank; i++) {
			if (!twir_const_int(f->extent[i], &x))
				return 0;
			n = tw_mul64(n, x, &bad);
		}
		return bad ? 0 : n;
	case TWTM_COMPOSE:
		n = tw_mul64(workers_of(f->a), workers_of(f->b), &bad);
		return bad ? 0 : n;
	default:
		return workers_of(f->a);
	}
}

static int64_t extent_of(const struct twir_map *f, int dim)
{
	bool bad = false;
	int64_t n;
	switch (f->kind) {
	case TWTM_REPEAT:
	case TWTM_SPATIAL:
		return twir_const_int(f->extent[dim], &n) ? n : -1;
	case TWTM_COMPOSE:
		n = tw_mul64(extent_of(f->a, dim), extent_of(f->b, dim), &bad);
		return bad ? -1 : n;
	default:
		return f->projected & 1u << dim ? 1 : extent_of(f->a, dim);
	}
}

/* The factors at the end of a mapping that hold the lanes: marks the dimensions they spread over. False: the tail does
 * not hold them exactly. */
struct tail {
	int64_t workers;
	unsigned spread;
	bool closed; /* a repeat was met: nothing before it belongs to the tail */
};

static void find_tail(const struct twir_map *f, int64_t lanes, struct tail *t)
{
	if (t->closed || t->workers >= lanes)
		return;
	if (f->kind == TWTM_COMPOSE) {
		find_tail(f->b, lanes, t);
		find_tail(f->a, lanes, t);
	} else if (f->kind == TWTM_REPEAT) {
		t->closed = true;
	} else {
		const int64_t n = workers_of(f);
		t->closed = n == 0 || n > lanes;
		t->workers = t->closed ? t->workers : t->workers * n;
		for (int i = 0; i < f->rank; i++)
			if (!t->closed && twir_verify_spread(f, i))
				t->spread |= 1u << i;
	}
}

static int launch_position(const struct twir_program *p, enum twir_level l)
{
	for (int i = 0; i < p->nlevels; i++)
		if (p->levels[i] == l)
			return i;
	return -1;
}

static const char launch_hint[] =
	"\nhint: launch says which workers there are: launch block(n), thread(256), or launch core(n), lane(16)";

/* Number of launched workers of the levels of a for-mapping; 0: not constant. */
static int64_t launched(struct twir_verifier *v, const struct twir_stmt *s)
{
	bool bad = false;
	int64_t n = 1, x;
	int last = -1;
	for (int i = 0; i < s->u.formap.nlevels; i++) {
		const enum twir_level l = s->u.formap.levels[i];
		int at = launch_position(v->prog, l);
		const int warp = launch_position(v->prog, TWIR_WARP), lane = launch_position(v->prog, TWIR_LANE);
		if (at < 0 && l == TWIR_THREAD && warp >= 0 && lane >= 0) {
			if (!twir_const_int(v->prog->extents[warp], &x))
				return 0;
			n = tw_mul64(n, x, &bad);
			at = lane;
		}
		if (at < 0)
			twir_verify_fail(v, "the program is not launched on %s%s", twir_level_name(l), launch_hint);
		if (at <= last)
			twir_verify_fail(
				v,
				"levels go from outside in, as in launch\nhint: on (block, thread), on (core, lane)");
		last = at;
		n = twir_const_int(v->prog->extents[at], &x) ? tw_mul64(n, x, &bad) : 0;
		if (n == 0)
			bad = true; /* keep checking the levels */
	}
	return bad ? 0 : n;
}

static void check_levels(struct twir_verifier *v, const struct twir_stmt *s, struct tail *tail)
{
	const struct twir_map *f = s->u.formap.map;
	const int64_t have = launched(v, s), need = workers_of(f);
	if (s->u.formap.nlevels == 0) {
		if (need != 1)
			twir_verify_fail(v, "a mapping with spatial factors needs workers: on core, on lane ..");
		return;
	}
	const enum twir_level last = s->u.formap.levels[s->u.formap.nlevels - 1];
	for (int i = 0; i < s->u.formap.nlevels; i++) {
		const enum twir_level l = s->u.formap.levels[i];
		if (v->taken & 1u << l)
			twir_verify_fail(v, "a loop on %s inside a loop on %s", twir_level_name(l), twir_level_name(l));
		if (v->region)
			twir_verify_fail(v, "a loop on %s inside a loop on lane", twir_level_name(l));
	}
	if (v->cpu && last == TWIR_LANE) {
		find_tail(f, v->lanes, tail);
		if (tail->workers != v->lanes)
			twir_verify_fail(v,
					 "the last factor of the mapping must hold the %" PRId64
					 " lanes of the launch exactly\nhint: let it end in "
					 "spatial(%" PRId64 "), or spatial(1, %" PRId64 ")",
					 v->lanes, v->lanes, v->lanes);
		if (s->u.formap.nlevels == 1 && need != v->lanes)
			twir_verify_fail(v, "the mapping has more workers than the %" PRId64 " lanes", v->lanes);
		return;
	}
	if (have > 0 && need > have)
		twir_verify_fail(v,
				 "the mapping needs %" PRId64 " workers, the launch has %" PRId64
				 "\nhint: what one worker does in turn is a repeat: repeat(2) * spatial(64)",
				 need, have);
}

/* statements */

static void check_block(struct twir_verifier *v, const struct twir_stmt *list);

/* Strides by which two elements have one place: certainly wrong for what is written. */
static void check_overlap(struct twir_verifier *v, const struct twir_tensor *t)
{
	int64_t extent[TWIR_MAX_RANK], stride[TWIR_MAX_RANK], n;
	const struct twir_layout *last = t->layout;
	for (int i = 0; i < t->rank; i++)
		if (!twir_const_int(t->shape[i], &extent[i]))
			return;
	for (; last && last->inner; last = last->inner)
		for (int i = 0; i < t->rank; i++) {
			if (!twir_const_int(last->extent[i], &n) || n < 1)
				return;
			extent[i] = extent[i] / n + (extent[i] % n != 0);
		}
	if (!last || last->kind != TWIR_LAYOUT_STRIDES || t->scope == TWIR_IN)
		return;
	for (int i = 0; i < t->rank; i++)
		if (!twir_const_int(last->extent[i], &stride[i]))
			return;
	if (twir_strides_overlap(t->rank, extent, stride))
		twir_verify_fail(v,
				 "the strides of '%s' give two elements one place\nhint: each stride is at least the "
				 "extent of the dimensions with smaller strides: f32[8, 8] layout strides(8, 1)",
				 t->base);
}

void twir_verify_tensor(struct twir_verifier *v, const struct twir_tensor *t, bool constant, const char *what)
{
	if (t->rank < 0 || t->rank > TWIR_MAX_RANK || t->lanes < 1)
		twir_verify_fail(v, "tensor '%s' has a bad rank or lane count", t->base);
	twir_verify_sizes(v, t->rank, t->shape, constant, what);
	for (const struct twir_layout *l = t->layout; l; l = l->inner) {
		if (l->rank != t->rank)
			twir_verify_fail(v, "the layout of '%s' has rank %d, the tensor %d", t->base, l->rank, t->rank);
		if (l->kind == TWIR_LAYOUT_STRIDES && l->inner)
			twir_verify_fail(v, "strides are the last factor of a layout ('%s')", t->base);
		if (l->kind == TWIR_LAYOUT_LOCAL && (t->scope != TWIR_REGISTER || !v->gpu))
			twir_verify_fail(v, "a local factor is for registers of GPU threads ('%s')", t->base);
		const char *why = l->swizzle.on ? twir_bad_swizzle(l->kind, l->rank, l->extent, &l->swizzle) : NULL;
		if (why)
			twir_verify_fail(v, "the layout of '%s': %s", t->base, why);
		twir_verify_sizes(v, l->rank, l->extent, constant, "a layout's size");
	}
	check_overlap(v, t);
	/* constant layouts must have room for the shape */
	bool known = t->layout != NULL;
	int64_t room[TWIR_MAX_RANK], n;
	for (int i = 0; i < t->rank && known; i++) {
		room[i] = 1;
		bool bad = false;
		for (const struct twir_layout *l = t->layout; l && known; l = l->inner) {
			known = l->kind != TWIR_LAYOUT_STRIDES && twir_const_int(l->extent[i], &n);
			room[i] = known ? tw_mul64(room[i], n, &bad) : 0;
		}
		if (known && !bad && twir_const_int(t->shape[i], &n) && room[i] < n)
			twir_verify_fail(v,
					 "the layout of '%s' has %" PRId64 " places for %" PRId64
					 " elements of dimension %d\nhint: what the factors have in a dimension "
					 "multiplies to its size",
					 t->base, room[i], n, i);
	}
}

static void check_mirrors(struct twir_verifier *v, const struct twir_tensor *t)
{
	check_map(v, t->mirrors, t->rank, true, "the mapping of a register tensor");
	for (int i = 0; i < t->rank; i++) {
		int64_t n;
		if (twir_const_int(t->shape[i], &n) && extent_of(t->mirrors, i) != n)
			twir_verify_fail(v,
					 "dimension %d of '%s' has %" PRId64 " elements, its mapping %" PRId64
					 " tasks\nhint: a tensor has an element for each task",
					 i, t->base, n, extent_of(t->mirrors, i));
	}
	const int64_t workers = workers_of(t->mirrors);
	if (v->cpu && workers != 1 && workers != v->lanes)
		twir_verify_fail(v, "the mapping of '%s' has %" PRId64 " workers, not the %" PRId64 " lanes", t->base,
				 workers, v->lanes);
}

static void check_declare(struct twir_verifier *v, const struct twir_stmt *s)
{
	const struct twir_tensor *t = s->u.declare.tensor;
	if (t->scope != TWIR_SHARED && t->scope != TWIR_REGISTER)
		twir_verify_fail(v, "'%s' is declared, but neither shared nor register", t->base);
	twir_verify_tensor(v, t, t->scope == TWIR_REGISTER,
			   t->scope == TWIR_REGISTER ? "a register dimension" : "a size");
	if (t->mirrors)
		check_mirrors(v, t);
	if (t->mirrors && t->scope != TWIR_REGISTER)
		twir_verify_fail(v, "only register tensors mirror a mapping ('%s')", t->base);
	if (v->region && t->scope == TWIR_SHARED)
		twir_verify_fail(v, "shared tensor '%s' belongs to the core: declare it outside the loop on lane",
				 t->base);
	if (t->lanes > 1 && t->scope != TWIR_REGISTER)
		twir_verify_fail(v, "only register tensors hold vectors ('%s')", t->base);
	twir_verify_bind(v, t, t->base);
}

/* In a region of lanes: would all lanes write one place, or a register that the core owns? */
static void check_lane_store(struct twir_verifier *v, const struct twir_stmt *s)
{
	const struct twir_tensor *t = s->u.store.tensor;
	if (v->lanes == 1)
		return;
	bool own = false; /* declared in the region: each lane has its own */
	for (int i = v->region_scope; i < v->scope.n; i++)
		own |= v->scope.at[i] == t;
	if (own)
		return;
	if (t->scope == TWIR_REGISTER && (!t->mirrors || workers_of(t->mirrors) == 1))
		twir_verify_fail(v,
				 "lanes store to '%s', which belongs to the core\nhint: each lane has its own in "
				 "register r: f32[%" PRId64 "] mirrors spatial(%" PRId64 "); reduce combines them",
				 t->base, v->lanes, v->lanes);
	bool differs = v->lane_guard;
	for (int i = 0; i < s->u.store.n; i++)
		differs |= twir_verify_lanewise(v, s->u.store.index[i]);
	if (!differs)
		twir_verify_fail(v,
				 "all lanes store to the same element of '%s'\nhint: an index depends on the lane, or "
				 "an if chooses one: if lane == 0 { .. }",
				 t->base);
}

static void check_store(struct twir_verifier *v, const struct twir_stmt *s)
{
	const struct twir_tensor *t = s->u.store.tensor;
	if (!twir_verify_visible(v, t))
		twir_verify_fail(v,
				 map_get_ptr(&v->state, t) ? "tensor '%s' is used where it is not in scope"
							   : "tensor '%s' is neither a parameter nor declared",
				 t->base);
	if (t->scope == TWIR_IN)
		twir_verify_fail(v, "store to input '%s'\nhint: outputs are declared out: (X: f32[N], out Y: f32[N])",
				 t->base);
	for (int i = 0; i < s->u.store.n; i++)
		twir_verify_expr(v, s->u.store.index[i]);
	if (s->u.store.mask)
		twir_verify_expr(v, s->u.store.mask);
	twir_verify_expr(v, s->u.store.value);
	const char *why = twir_bad_store(t, s->u.store.n, s->u.store.index, s->u.store.value, s->u.store.mask);
	if (why)
		twir_verify_fail(v, "%s", why);
	if (s->u.store.async && !v->gpu)
		twir_verify_fail(v, "asynchronous copies belong to programs launched on block");
	why = s->u.store.async ? twir_bad_copy(t, s->u.store.value) : NULL;
	if (why)
		twir_verify_fail(v, "%s", why);
	twir_verify_register(v, t, s->u.store.n, s->u.store.index, true);
	if (v->region)
		check_lane_store(v, s);
}

static void check_formap(struct twir_verifier *v, const struct twir_stmt *s)
{
	struct tail tail = {.workers = 1};
	if (s->u.formap.n < 1 || s->u.formap.n > TWIR_MAX_RANK || s->u.formap.nlevels > 3)
		twir_verify_fail(v, "a loop over a mapping has 1 to %d variables and at most 3 levels", TWIR_MAX_RANK);
	check_map(v, s->u.formap.map, s->u.formap.n, false, "the mapping");
	check_levels(v, s, &tail);
	for (int i = 0; s->u.formap.bounds && i < s->u.formap.n; i++) {
		if (!twir_type_eq(s->u.formap.bounds[i]->type, twir_scalar_type(TWIR_INDEX)))
			twir_verify_fail(v, "a bound must be a scalar of type index");
		twir_verify_expr(v, s->u.formap.bounds[i]);
	}
	const int mark = v->scope.n;
	const unsigned taken = v->taken;
	const bool region = v->region;
	for (int i = 0; i < s->u.formap.nlevels; i++)
		v->taken |= 1u << s->u.formap.levels[i];
	if (v->cpu && s->u.formap.nlevels && s->u.formap.levels[s->u.formap.nlevels - 1] == TWIR_LANE) {
		v->region = true;
		v->region_scope = mark;
		v->lane_guard = false;
		map_init(&v->lanewise, v->arena);
	}
	for (int i = 0; i < s->u.formap.n; i++) {
		struct twir_var *x = s->u.formap.vars[i];
		if (x->kind != TWIR_LOOP || !twir_type_eq(x->type, twir_scalar_type(TWIR_INDEX)))
			twir_verify_fail(v, "'%s' is no loop variable of type index", x->name);
		twir_verify_bind(v, x, x->name);
		if (tail.spread & 1u << i)
			map_set_ptr(&v->lanewise, x, x);
		int64_t bound;
		if (s->u.formap.bounds && twir_const_int(s->u.formap.bounds[i], &bound) && bound <= 1)
			v->lane_guard |= tail.spread & 1u << i; /* one lane at most has a task */
	}
	check_block(v, s->u.formap.body);
	twir_verify_unbind(v, mark);
	v->taken = taken;
	v->region = region;
}

static void check_branch(struct twir_verifier *v, const struct twir_stmt *s)
{
	const struct twir_expr *c = s->u.branch.cond;
	if (!twir_type_eq(c->type, twir_scalar_type(TWIR_I1)))
		twir_verify_fail(v, "the condition must be a scalar i1");
	twir_verify_expr(v, c);
	if (s->kind == TWIR_SPECIALISE && s->u.branch.other)
		twir_verify_fail(v, "specialise has no else");
	const bool guard = v->lane_guard;
	v->lane_guard |= v->region && twir_verify_lanewise(v, c);
	check_block(v, s->u.branch.body);
	check_block(v, s->u.branch.other);
	v->lane_guard = guard;
}

static void check_mma(struct twir_verifier *v, const struct twir_stmt *s)
{
	if (!v->gpu)
		twir_verify_fail(v, "matrix instructions belong to programs launched on block");
	if (v->taken & (1u << TWIR_LANE | 1u << TWIR_THREAD))
		twir_verify_fail(v, "a matrix instruction inside a loop on lanes: all lanes of a warp run it together");
	for (int k = 0; k < 3; k++) {
		const struct twir_fragment *f = &s->u.mma.part[k];
		if (!twir_verify_visible(v, f->tensor))
			twir_verify_fail(v, "register tensor '%s' is not in scope", f->tensor->base);
		for (int i = 0; i < f->n; i++)
			twir_verify_expr(v, f->index[i]);
		const char *why = twir_bad_fragment(s->u.mma.shape, (enum twir_operand_of)k, f);
		if (why)
			twir_verify_fail(v, "operand '%s': %s", f->tensor->base, why);
	}
}

static void check_stmt(struct twir_verifier *v, const struct twir_stmt *s)
{
	v->stmt = s;
	switch (s->kind) {
	case TWIR_LET: {
		struct twir_var *x = s->u.let.var;
		if (x->kind != TWIR_BOUND || !twir_type_eq(x->type, s->u.let.value->type))
			twir_verify_fail(v, "let '%s' and its value have different types", x->name);
		twir_verify_expr(v, s->u.let.value);
		twir_verify_bind(v, x, x->name);
		if (twir_verify_loaded(v, s->u.let.value))
			map_set_ptr(&v->loaded, x, x);
		if (v->region && twir_verify_lanewise(v, s->u.let.value))
			map_set_ptr(&v->lanewise, x, x);
		break;
	}
	case TWIR_DECLARE:
		check_declare(v, s);
		break;
	case TWIR_STORE:
		check_store(v, s);
		break;
	case TWIR_FOR: {
		int64_t n;
		struct twir_var *x = s->u.loop.var;
		const char *why = twir_bad_extents(1, &s->u.loop.extent);
		if (why)
			twir_verify_fail(v, "%s", why);
		twir_verify_expr(v, s->u.loop.extent);
		if (s->u.loop.unroll && !twir_const_int(s->u.loop.extent, &n))
			twir_verify_fail(v, "an unrolled loop needs a constant number of steps");
		if (x->kind != TWIR_LOOP || !twir_type_eq(x->type, twir_scalar_type(TWIR_INDEX)))
			twir_verify_fail(v, "'%s' is no loop variable of type index", x->name);
		const int mark = v->scope.n;
		twir_verify_bind(v, x, x->name);
		check_block(v, s->u.loop.body);
		twir_verify_unbind(v, mark);
		break;
	}
	case TWIR_FORMAP:
		check_formap(v, s);
		break;
	case TWIR_IF:
	case TWIR_SPECIALISE:
		check_branch(v, s);
		break;
	case TWIR_BARRIER:
		if (launch_position(v->prog, s->u.barrier.level) < 0)
			twir_verify_fail(v, "the program is not launched on %s%s", twir_level_name(s->u.barrier.level),
					 v->cpu ? "\nhint: barriers are for threads of a GPU: the end of a loop on "
						  "lane is one, and "
						  "core items never meet"
						: launch_hint);
		if (v->cpu)
			twir_verify_fail(
				v,
				"a CPU has no barriers: the end of a loop on lane is one, and core items never meet");
		if (v->taken & (1u << TWIR_WARP | 1u << TWIR_LANE | 1u << TWIR_THREAD))
			twir_verify_fail(v, "a barrier inside a loop on threads: some would not reach it");
		break;
	case TWIR_COMMIT:
	case TWIR_WAIT:
		if (!v->gpu)
			twir_verify_fail(v, "asynchronous copies belong to programs launched on block");
		if (s->kind == TWIR_WAIT && s->u.wait.pending < 0)
			twir_verify_fail(v, "a wait leaves no fewer than no groups");
		break;
	case TWIR_MMA:
		check_mma(v, s);
		break;
	case TWIR_INVOKE:
		twir_verify_fail(v, "a program calls no program: launch functions do");
	case TWIR_PREFETCH: {
		const struct twir_tensor *t = s->u.prefetch.tensor;
		if (!twir_verify_visible(v, t))
			twir_verify_fail(v, "tensor '%s' is prefetched where it is not in scope", t->base);
		for (int i = 0; i < s->u.prefetch.n; i++)
			twir_verify_expr(v, s->u.prefetch.index[i]);
		const char *why = twir_bad_prefetch(t, s->u.prefetch.n, s->u.prefetch.index);
		if (why)
			twir_verify_fail(v, "%s", why);
		break;
	}
	default:
		twir_verify_fail(v, "statement of unknown kind %d", (int)s->kind);
	}
}

void twir_verify_block(struct twir_verifier *v, const struct twir_stmt *list,
		       void (*check)(struct twir_verifier *v, const struct twir_stmt *s))
{
	const int mark = v->scope.n;
	const struct twir_stmt *outer = v->stmt;
	if (++v->depth > 1000)
		twir_verify_fail(v, "blocks are nested too deeply");
	for (const struct twir_stmt *s = list; s; s = s->next)
		check(v, s);
	v->depth--;
	v->stmt = outer;
	twir_verify_unbind(v, mark);
}

static void check_block(struct twir_verifier *v, const struct twir_stmt *list)
{
	twir_verify_block(v, list, check_stmt);
}

/* heads */

void twir_verify_start(struct twir_verifier *v, const struct twir_module *m, enum tw_code blame, const char *what,
		       const char *name)
{
	*v = (struct twir_verifier){.arena = arena_new(), .blame = blame, .what = what, .name = name};
	v->report = m->fault;
	v->report_arena = m->arena;
	map_init(&v->state, v->arena);
	map_init(&v->done, v->arena);
	map_init(&v->lanewise, v->arena);
	map_init(&v->loaded, v->arena);
}

static void check_launch(struct twir_verifier *v)
{
	const struct twir_program *p = v->prog;
	static const enum twir_level orders[][3] = {{TWIR_CORE, TWIR_LANE, TWIR_LEVELS},
						    {TWIR_BLOCK, TWIR_WARP, TWIR_LANE},
						    {TWIR_BLOCK, TWIR_THREAD, TWIR_LEVELS}};
	bool fits = p->nlevels == 0;
	for (int o = 0; o < TW_COUNT(orders) && p->nlevels <= 3; o++) {
		bool same = true;
		for (int i = 0; i < p->nlevels; i++)
			same &= p->levels[i] == orders[o][i];
		fits |= same;
	}
	if (!fits)
		twir_verify_fail(v, "a program is launched on core, lane or block, warp, lane or block, thread\nhint: "
				    "launch core(n), lane(16), or launch block(n), thread(256)");
	v->gpu = p->nlevels > 0 && p->levels[0] == TWIR_BLOCK;
	v->cpu = !v->gpu;
	for (int i = 0; i < p->nlevels; i++) {
		twir_verify_sizes(v, 1, &p->extents[i], i > 0,
				  i > 0 ? "the number of lanes, warps or threads" : "the launch");
		int64_t n;
		if (i > 0 && twir_const_int(p->extents[i], &n) && (n < 1 || n > 65536))
			twir_verify_fail(v, "the number of %ss must be 1 to 65536", twir_level_name(p->levels[i]));
		if (p->levels[i] == TWIR_LANE && v->cpu)
			(void)twir_const_int(p->extents[i], &v->lanes);
	}
}

static void find_local(void *arg, const struct twir_expr *e)
{
	bool *local = arg;
	*local |= e->kind == TWIR_Var && e->u.var->kind != TWIR_SYMBOL;
}

void twir_verify_program(struct twir_module *m, const struct twir_program *p, enum tw_code blame)
{
	struct twir_verifier v;
	twir_verify_start(&v, m, blame, "program", p->name);
	v.prog = p;
	check_launch(&v);
	for (int i = 0; i < p->nparams; i++) {
		const struct twir_tensor *t = p->params[i];
		if (t->scope != TWIR_IN && t->scope != TWIR_OUT)
			twir_verify_fail(&v, "parameter '%s' is neither in nor out", t->base);
		bool local = false;
		for (int k = 0; k < t->rank; k++)
			twir_visit_expr(t->shape[k], find_local, &local);
		if (local)
			twir_verify_fail(&v, "the shape of parameter '%s' may depend on symbols only", t->base);
		if (t->lanes != 1 || t->mirrors)
			twir_verify_fail(&v, "parameter '%s' must be an ordinary tensor of scalars", t->base);
		if (t->alias &&
		    (t->scope != TWIR_OUT || t->alias->scope != TWIR_IN || !twir_verify_visible(&v, t->alias)))
			twir_verify_fail(&v, "output '%s' is an alias of something that is no input before it",
					 t->base);
		twir_verify_tensor(&v, t, false, "a size");
		twir_verify_bind(&v, t, t->base);
	}
	check_block(&v, p->body);
	arena_free(v.arena);
}

void twir_verify_compute(struct twir_module *m, const struct twir_compute *c, enum tw_code blame)
{
	struct twir_verifier v;
	twir_verify_start(&v, m, blame, "definition", c->out->base);
	v.compute = c;
	twir_verify_tensor(&v, c->out, false, "a size");
	for (int i = 0; i < c->out->rank; i++) {
		if (c->axes[i]->kind != TWIR_AXIS || !twir_type_eq(c->axes[i]->type, twir_scalar_type(TWIR_INDEX)))
			twir_verify_fail(&v, "'%s' is no axis of type index", c->axes[i]->name);
		twir_verify_bind(&v, c->axes[i], c->axes[i]->name);
	}
	if (!twir_type_eq(c->value->type, twir_scalar_type(c->out->type)))
		twir_verify_fail(&v, "the value is %sx%d, the tensor %s",
				 twir_scalar_name((enum twir_scalar)c->value->type.scalar), c->value->type.lanes,
				 twir_scalar_name(c->out->type));
	twir_verify_expr(&v, c->value);
	arena_free(v.arena);
}

struct callees {
	struct twir_verifier *v;
	struct twir_module *m;
	int own; /* position of the func in the module */
};

static void check_callee(void *arg, const struct twir_expr *e)
{
	struct callees *c = arg;
	if (e->kind != TWIR_Call)
		return;
	for (int i = 0; i < c->own; i++)
		if (c->m->funcs.at[i] == e->u.func)
			return;
	twir_verify_fail(c->v, "calls '%s', which is not declared before it", e->u.func->name);
}

void twir_verify_func(struct twir_module *m, const struct twir_func *f, enum tw_code blame)
{
	struct twir_verifier v;
	twir_verify_start(&v, m, blame, "func", f->name);
	v.func = f;
	struct callees c = {.v = &v, .m = m, .own = m->funcs.n};
	for (int i = 0; i < m->funcs.n; i++)
		if (m->funcs.at[i] == f)
			c.own = i;
	for (int i = 0; i < f->n; i++)
		twir_verify_bind(&v, f->args[i], f->args[i]->name);
	for (int i = 0; i < f->nlets; i++) {
		twir_verify_expr(&v, f->values[i]);
		twir_visit_expr(f->values[i], check_callee, &c);
		if (!twir_type_eq(f->lets[i]->type, f->values[i]->type))
			twir_verify_fail(&v, "let '%s' and its value have different types", f->lets[i]->name);
		twir_verify_bind(&v, f->lets[i], f->lets[i]->name);
	}
	twir_verify_expr(&v, f->body);
	twir_visit_expr(f->body, check_callee, &c);
	if (!twir_type_eq(f->body->type, f->result))
		twir_verify_fail(&v, "the value has another type than the result");
	arena_free(v.arena);
}
