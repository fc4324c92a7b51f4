/* tables.c: what is a function of one byte becomes a table of 256 values.
 *
 * Input: definitions in order. Where an element is made of one element of a tensor of 8-bit numbers and of constants alone, however many definitions are between
 * (dequantised, an activation, quantised again), and costs more than looking it up. Output: the same with a definition of the table, which depends
 * on nothing and is computed at compile time, and the element as that of the table: the same bits. */
#include "opt/opt.h"
#include "sched/nest.h"

typedef const struct twir_expr *E;

enum {
	VALUES = 256,
	MOST_ROUNDS = 16,
	MOST_COST = 400, /* of an element as one expression */
	WORTH = 24 /* operations: gathering sixteen words takes as long as some 15, and it needs the number as an index */
};

struct tables {
	struct twir_module *m;
	int region;	       /* marks passed: how loops and branches divide the list */
	struct tw_map made_by; /* tensor -> struct made, of definitions without a fold */
};

struct made {
	const struct twir_compute *c;
	int region;
};

struct search {
	struct tables *x;
	E byte; /* the load of a tensor of bytes */
	const struct twir_compute *next;
	bool other; /* something else, or a second one */
};

static void see_load(void *arg, E e)
{
	struct search *s = arg;
	if (e->kind != TWIR_Load)
		return;
	const enum twir_scalar type = e->u.tensor->type;
	if (type == TWIR_U8 || type == TWIR_I8) {
		s->other |= s->byte && s->byte != e;
		s->byte = e;
		return;
	}
	const struct made *by = map_get_ptr(&s->x->made_by, e->u.tensor);
	if (by && by->region == s->x->region)
		s->next = by->c;
	else
		s->other = true;
}

static void see_variable(void *arg, E e)
{
	*(bool *)arg |= e->kind == TWIR_Var || e->kind == TWIR_Load;
}

/* The element with what makes it put in, down to a byte; NULL: it is made of something else. */
static E of_a_byte(struct tables *x, E e, E *byte)
{
	for (int round = 0; round < MOST_ROUNDS && tw_cost(e) <= MOST_COST; round++) {
		struct search s = {.x = x};
		twir_visit_expr(e, see_load, &s);
		if (s.other || (s.byte && s.next))
			return NULL;
		if (!s.next) {
			*byte = s.byte;
			return s.byte ? e : NULL;
		}
		e = tw_inline(x->m, e, s.next);
	}
	return NULL;
}

/* The definition of the table, in which c then looks; NULL: c stays as it is. */
static struct twir_compute *tabulate(struct tables *x, struct twir_compute *c)
{
	struct twir_module *m = x->m;
	E byte;
	const E value = of_a_byte(x, c->value, &byte);
	if (!value || tw_cost(value) < WORTH)
		return NULL;
	struct twir_compute *table = ARENA_NEW(m->arena, struct twir_compute);
	struct twir_var *v = twir_var_new(m, TWIR_AXIS, twir_scalar_type(TWIR_INDEX), "v");
	const enum twir_scalar type = c->out->type, of = byte->u.tensor->type;
	const bool narrow = twir_is_int(type) && twir_scalar_bytes(type) < 4; /* lookups give words */
	const E size = twir_index(m, VALUES), first = twir_index(m, of == TWIR_I8 ? -VALUES / 2 : 0);
	const E number = twir_cast(m, of, twir_add(m, twir_var(m, v), first));
	E entry = tw_swapped(m, value, byte, number);
	bool varies = false;
	twir_visit_expr(tw_swapped(m, value, byte, twir_const_of(m, byte->type, 0)), see_variable, &varies);
	if (varies)
		return NULL;
	entry = narrow ? twir_cast(m, TWIR_I32, entry) : entry;
	v->lo = 0;
	v->hi = VALUES - 1;
	table->out = twir_tensor_new(m, "table", (enum twir_scalar)entry->type.scalar, 1, &size, TWIR_TENSOR);
	table->axes = ARENA_NEW(m->arena, struct twir_var *);
	table->axes[0] = v;
	table->value = entry;
	table->origin = c->origin;
	const E at = twir_sub(m, twir_cast(m, TWIR_INDEX, twir_cast(m, TWIR_I32, byte)), first);
	c->value = twir_cast(m, (enum twir_scalar)c->value->type.scalar, twir_load(m, table->out, 1, &at));
	return table;
}

void opt_tabulate(struct tw_definitions *d)
{
	struct tw_arena *a = d->g->arena;
	struct tables x = {.m = d->g->m};
	struct tw_definitions out = *d;
	memset(&out.list, 0, sizeof(out.list));
	map_init(&x.made_by, a);
	for (int i = 0; i < d->list.n; i++) {
		const struct tw_definition def = d->list.at[i];
		struct twir_compute *c = def.compute;
		x.region += !c;
		if (c && !c->nprograms && !tw_has_fold(c->value)) {
			struct twir_compute *table = tabulate(&x, c);
			if (table)
				vec_push(a, &out.list, ((struct tw_definition){.compute = table, .node = def.node}));
			struct made *made = ARENA_NEW(a, struct made);
			*made = (struct made){c, x.region};
			map_set_ptr(&x.made_by, c->out, made);
		}
		vec_push(a, &out.list, def);
	}
	d->list = out.list;
}
