/* mapping_program.c: see mapping_program.h. */
#include "mapping_program.h"

#include <stdio.h>

#define FOLD  INT64_C(1000003)
#define DIGIT INT64_C(128) /* more than any coordinate of a sample */

typedef const struct twir_expr *expr;

void machinery_fresh(struct machinery *x)
{
	arena_free(x->arena);
	x->arena = arena_new();
	x->m = twir_module_new(x->arena);
	x->programs = 0;
}

static expr extent(struct machinery *x, struct built *b, int factor, int dim, int64_t value, bool symbol)
{
	if (!symbol)
		return twir_index(x->m, value);
	char name[16];
	snprintf(name, sizeof(name), "e%d%d", factor, dim);
	struct twir_var *v = twir_symbol(x->m, name);
	b->symbols[b->nsymbols] = v;
	b->values[b->nsymbols++] = value;
	return twir_var(x->m, v);
}

static struct twir_map *build_map(struct machinery *x, const struct sample *s, const struct setting *how,
				  struct built *b)
{
	struct twir_map *map = NULL;
	for (int k = 0; k < s->n; k++) {
		const struct sample_factor *f = &s->factor[k];
		struct twir_map *one = ARENA_NEW(x->arena, struct twir_map);
		one->kind = f->spatial ? TWTM_SPATIAL : TWTM_REPEAT;
		one->rank = s->rank;
		const bool on_lane = how->where == ON_CORE_LANE && k == s->n - 1;
		for (int d = 0; d < s->rank; d++) {
			one->extent[d] = extent(x, b, k, d, f->extent[d], how->symbols && !on_lane);
			one->order[d] = f->order[d];
		}
		if (f->projected) {
			struct twir_map *p = ARENA_NEW(x->arena, struct twir_map);
			*p = (struct twir_map){
				.kind = TWTM_PROJECT, .rank = s->rank, .projected = f->projected, .a = one};
			one = p;
		}
		if (map) {
			struct twir_map *both = ARENA_NEW(x->arena, struct twir_map);
			*both = (struct twir_map){.kind = TWTM_COMPOSE, .rank = s->rank, .a = map, .b = one};
			one = both;
		}
		map = one;
	}
	return map;
}

static struct twir_stmt *lane_region(struct machinery *x, int64_t lanes, struct twir_stmt *body)
{
	const expr n = twir_index(x->m, lanes);
	struct twir_stmt *s = twir_stmt_new(x->m, TWIR_FORMAP);
	s->u.formap.n = 1;
	s->u.formap.vars = ARENA_ARRAY(x->arena, struct twir_var *, 1);
	s->u.formap.vars[0] = twir_var_new(x->m, TWIR_LOOP, twir_scalar_type(TWIR_INDEX), "l");
	s->u.formap.map = twir_spatial(x->m, 1, &n);
	s->u.formap.nlevels = 1;
	s->u.formap.levels[0] = TWIR_LANE;
	s->u.formap.body = body;
	return s;
}

/* The loop over the mapping; its body folds the task into acc[place]. */
static struct twir_stmt *fold_tasks(struct machinery *x, const struct sample *s, const struct setting *how,
				    struct built *b, struct twir_tensor *acc, expr place)
{
	struct twir_module *m = x->m;
	struct twir_stmt *loop = twir_stmt_new(m, TWIR_FORMAP);
	loop->u.formap.n = s->rank;
	loop->u.formap.vars = ARENA_ARRAY(x->arena, struct twir_var *, s->rank);
	loop->u.formap.map = b->map;
	loop->u.formap.nlevels = b->program->nlevels;
	memcpy(loop->u.formap.levels, b->program->levels, sizeof(loop->u.formap.levels));
	if (how->within)
		loop->u.formap.bounds = ARENA_ARRAY(x->arena, expr, s->rank);
	expr code = twir_index(m, 0);
	for (int d = 0; d < s->rank; d++) {
		loop->u.formap.vars[d] = twir_var_new(m, TWIR_LOOP, twir_scalar_type(TWIR_INDEX), "i");
		if (how->within)
			loop->u.formap.bounds[d] = twir_index(m, how->bound[d]);
		code = twir_add(m, twir_mul(m, code, twir_index(m, DIGIT)), twir_var(m, loop->u.formap.vars[d]));
	}
	code = twir_cast(m, how->type, twir_add(m, code, twir_index(m, 1)));
	const expr old = twir_load(m, acc, 1, &place);
	const expr folded = twir_add(m, twir_mul(m, old, twir_int(m, how->type, FOLD)), code);
	loop->u.formap.body = twir_store(m, acc, 1, &place, folded, NULL);
	return loop;
}

/* The levels of the launch; returns the number of a worker among all. */
static expr launch(struct machinery *x, const struct sample *s, const struct setting *how, struct built *b,
		   int64_t *inner)
{
	struct twir_module *m = x->m;
	struct twir_program *p = b->program;
	expr workers = twir_index(m, 1);
	int64_t count = 1;
	*inner = 1;
	for (int k = 0; k < s->n; k++) {
		const struct sample_factor *f = &s->factor[k];
		const bool on_lane = how->where == ON_CORE_LANE && k == s->n - 1;
		for (int d = 0; d < s->rank && f->spatial; d++) {
			if (on_lane) {
				*inner *= f->extent[d];
				continue;
			}
			count *= f->extent[d];
			expr e = twir_index(m, f->extent[d]);
			for (int i = 0; how->symbols && i < b->nsymbols; i++) {
				char name[16];
				snprintf(name, sizeof(name), "e%d%d", k, d);
				if (strcmp(b->symbols[i]->name, name) == 0)
					e = twir_var(m, b->symbols[i]);
			}
			workers = twir_mul(m, workers, e);
		}
	}
	if (how->where == ON_BLOCK_THREAD) {
		*inner = how->surplus;
		p->nlevels = 2;
		p->levels[0] = TWIR_BLOCK;
		p->levels[1] = TWIR_THREAD;
		p->extents[0] = twir_ceildiv(m, workers, twir_index(m, *inner));
		count = (count + *inner - 1) / *inner;
	} else {
		p->levels[0] = TWIR_CORE;
		p->levels[1] = TWIR_LANE;
		p->nlevels = how->where == ON_CORE_LANE ? 2 : 1;
		p->extents[0] = twir_add(m, workers, twir_index(m, how->surplus));
		count += how->surplus;
	}
	p->extents[1] = twir_index(m, *inner);
	b->slots = count * *inner;
	const expr outer = twir_worker(m, p->levels[0]);
	if (p->nlevels == 1)
		return outer;
	return twir_add(m, twir_mul(m, outer, twir_index(m, *inner)), twir_worker(m, p->levels[1]));
}

struct built mapping_program(struct machinery *x, const struct sample *s, const struct setting *how)
{
	struct twir_module *m = x->m;
	struct built b = {.nsymbols = 0};
	struct twir_program *p = b.program = ARENA_NEW(x->arena, struct twir_program);
	p->name = arena_printf(x->arena, "tasks%d", x->programs++);
	b.map = build_map(x, s, how, &b);
	int64_t inner;
	const expr worker = launch(x, s, how, &b, &inner);
	const expr slots = twir_mul(m, p->extents[0], twir_index(m, inner));
	const expr places = twir_index(m, inner);
	struct twir_tensor *out = twir_tensor_new(m, "T", how->type, 1, &slots, TWIR_OUT);
	struct twir_tensor *acc = twir_tensor_new(m, "acc", how->type, 1, &places, TWIR_SHARED);
	b.out = out;
	p->nparams = 1;
	p->params = ARENA_ARRAY(x->arena, struct twir_tensor *, 1);
	p->params[0] = out;
	const expr place = p->nlevels == 1 ? twir_index(m, 0) : twir_worker(m, p->levels[1]);
	struct twir_stmt *declare = twir_stmt_new(m, TWIR_DECLARE);
	declare->u.declare.tensor = acc;
	struct twir_stmt *clear = twir_store(m, acc, 1, &place, twir_int(m, how->type, 0), NULL);
	struct twir_stmt *give = twir_store(m, out, 1, &worker, twir_load(m, acc, 1, &place), NULL);
	if (how->where == ON_CORE_LANE) {
		clear = lane_region(x, inner, clear);
		give = lane_region(x, inner, give);
	}
	twir_append(&p->body, declare);
	twir_append(&p->body, clear);
	twir_append(&p->body, fold_tasks(x, s, how, &b, acc, place));
	twir_append(&p->body, give);
	twir_program_symbols(m, p);
	return b;
}

/* What the algebra says each launched worker does. */
void mapping_by_algebra(const struct twtm_map *f, const struct setting *how, int64_t slots, int64_t *result)
{
	const int64_t workers = twtm_workers(f), tasks = twtm_tasks_per_worker(f);
	int64_t task[TWTM_MAX_RANK];
	for (int64_t w = 0; w < slots; w++) {
		result[w] = 0;
		for (int64_t k = 0; w < workers && k < tasks; k++) {
			twtm_task(f, w, k, task);
			int64_t code = 0;
			bool skip = false;
			for (int d = 0; d < f->rank; d++) {
				code = code * DIGIT + task[d];
				skip |= how->within && task[d] >= how->bound[d];
			}
			if (!skip)
				result[w] = (int64_t)((uint64_t)result[w] * (uint64_t)FOLD + (uint64_t)(code + 1));
		}
		if (how->type == TWIR_I32)
			result[w] = (int32_t)result[w];
	}
}

const struct twtm_map *mapping_bound(struct machinery *x, const struct built *b)
{
	const struct twir_binding binding = {b->nsymbols, b->symbols, b->values};
	return twir_map_bind(x->arena, b->map, &binding);
}

int64_t mapping_pick(uint64_t *seed, int64_t n)
{
	return (int64_t)((samples_next(seed) >> 20) % (uint64_t)n);
}

struct setting mapping_random_setting(uint64_t *seed, const struct sample *s)
{
	struct setting how = {.where = ON_CORE, .type = TWIR_I64};
	const int64_t kind = mapping_pick(seed, 4);
	int64_t lanes = 1; /* a launch has at least one */
	for (int d = 0; d < s->rank; d++)
		lanes *= s->factor[s->n - 1].extent[d];
	if (kind == 1)
		how.where = ON_BLOCK_THREAD;
	else if (kind && s->factor[s->n - 1].spatial && lanes > 0)
		how.where = ON_CORE_LANE;
	how.surplus = how.where == ON_BLOCK_THREAD ? 1 + mapping_pick(seed, 8)
						   : mapping_pick(seed, 3) / 2 * mapping_pick(seed, 4);
	how.symbols = mapping_pick(seed, 2);
	how.within = mapping_pick(seed, 3) == 0;
	for (int d = 0; d < s->rank; d++) {
		int64_t shape = 1;
		for (int k = 0; k < s->n; k++)
			shape *= s->factor[k].projected >> d & 1 ? 1 : s->factor[k].extent[d];
		how.bound[d] = mapping_pick(seed, shape + 2);
	}
	return how;
}
