/* Modules, variables, tensors, statements, and the interning table: structurally equal expressions are one object.
 * Constants of floats are told apart by their bits, so 0.0 and -0.0 differ; every NaN is the same quiet NaN. */
#include "ir/ir_int.h"

#include <math.h>

void twir_own_tables(struct twir_module *m, struct tw_arena *a)
{
	m->arena = m->scratch = a;
	m->table_n = 0;
	m->table_cap = 1024;
	m->table = ARENA_ARRAY(a, struct twir_expr *, m->table_cap);
	strmap_init(&m->names, a);
	strmap_init(&m->symbol_of, a);
	strmap_init(&m->func_of, a);
}

struct twir_module *twir_module_new(struct tw_arena *a)
{
	struct twir_module *m = ARENA_NEW(a, struct twir_module);
	twir_own_tables(m, a);
	return m;
}

static uint64_t bits_of(double f)
{
	uint64_t u;
	memcpy(&u, &f, sizeof(u));
	return u;
}

/* What the union of an expression holds, as a number that is the same from run to run. */
static uint64_t payload(enum twir_kind kind, struct twir_type type, int64_t i, double f, const void *ptr,
			struct twir_var *const *axes, int n)
{
	switch (kind) {
	case TWIR_Const:
		return twir_is_float(type.scalar) ? bits_of(f) : (uint64_t)i;
	case TWIR_Var:
		return ((const struct twir_var *)ptr)->id;
	case TWIR_Load:
	case TWIR_Gather:
		return ((const struct twir_tensor *)ptr)->id;
	case TWIR_Call:
		return tw_hash64(((const struct twir_func *)ptr)->name, strlen(((const struct twir_func *)ptr)->name),
				 0);
	case TWIR_Fold: {
		uint64_t h = 0;
		for (int k = 0; k + 1 < n; k++)
			h = tw_hash_mix(h, axes[k]->id);
		return h;
	}
	default:
		return 0;
	}
}

static bool same_payload(const struct twir_expr *e, const struct twir_key *k)
{
	switch (k->kind) {
	case TWIR_Const:
		return twir_is_float(k->type.scalar) ? bits_of(e->u.f) == bits_of(k->f) : e->u.i == k->i;
	case TWIR_Var:
		return e->u.var == k->ptr;
	case TWIR_Load:
	case TWIR_Gather:
		return e->u.tensor == k->ptr;
	case TWIR_Call:
		return e->u.func == k->ptr;
	case TWIR_Fold:
		for (int i = 0; i + 1 < k->n; i++)
			if (e->u.axes[i] != k->axes[i])
				return false;
		return true;
	default:
		return true;
	}
}

static bool same(const struct twir_expr *e, const struct twir_key *k)
{
	if (e->kind != k->kind || !twir_type_eq(e->type, k->type) || e->n != k->n || e->op != k->op ||
	    e->nidx != k->nidx)
		return false;
	for (int i = 0; i < k->n; i++)
		if (e->arg[i] != k->args[i])
			return false;
	return same_payload(e, k);
}

static void grow_table(struct twir_module *m)
{
	const int64_t cap = m->table_cap * 2;
	struct twir_expr **table = ARENA_ARRAY(m->arena, struct twir_expr *, cap);
	for (int64_t i = 0; i < m->table_cap; i++) {
		struct twir_expr *e = m->table[i];
		if (!e)
			continue;
		uint64_t at = e->hash & (uint64_t)(cap - 1);
		while (table[at])
			at = (at + 1) & (uint64_t)(cap - 1);
		table[at] = e;
	}
	m->table = table;
	m->table_cap = cap;
}

static struct twir_expr *make(struct twir_module *m, const struct twir_key *k, uint64_t hash)
{
	struct twir_expr *e = arena_alloc(m->arena, sizeof(*e) + (size_t)k->n * sizeof(e->arg[0]));
	e->kind = (uint8_t)k->kind;
	e->type = k->type;
	e->n = (uint16_t)k->n;
	e->op = (uint8_t)k->op;
	e->nidx = (uint8_t)k->nidx;
	e->hash = hash;
	e->loads = k->kind == TWIR_Load || k->kind == TWIR_Gather || k->kind == TWIR_ShflUp ||
		   k->kind == TWIR_ShflDown || k->kind == TWIR_ShflXor || k->kind == TWIR_ShflIdx;
	int depth = 0;
	for (int i = 0; i < k->n; i++) {
		e->arg[i] = k->args[i];
		e->loads |= k->args[i]->loads;
		if (k->args[i]->depth > depth)
			depth = k->args[i]->depth;
	}
	if (depth >= TWIR_MAX_DEPTH)
		tw_raise(TW_ERR_UNSUPPORTED, "an expression is nested more than %d levels deep", TWIR_MAX_DEPTH);
	e->depth = (uint16_t)(depth + 1);
	switch (k->kind) {
	case TWIR_Const:
		if (twir_is_float(k->type.scalar))
			e->u.f = k->f;
		else
			e->u.i = k->i;
		break;
	case TWIR_Var:
		e->u.var = k->ptr;
		break;
	case TWIR_Load:
	case TWIR_Gather:
		e->u.tensor = k->ptr;
		break;
	case TWIR_Call:
		e->u.func = k->ptr;
		break;
	case TWIR_Fold:
		e->u.axes = arena_copy(m->arena, k->axes, (size_t)(k->n - 1) * sizeof(k->axes[0]));
		break;
	default:
		break;
	}
	e->id = m->next_id++;
	return e;
}

/* at: its slot, or the one where it would go */
static struct twir_expr *find(const struct twir_module *m, const struct twir_key *k, uint64_t hash, uint64_t *at)
{
	const uint64_t mask = (uint64_t)(m->table_cap - 1);
	for (*at = hash & mask; m->table[*at]; *at = (*at + 1) & mask)
		if (m->table[*at]->hash == hash && same(m->table[*at], k))
			return m->table[*at];
	return NULL;
}

const struct twir_expr *twir_intern(struct twir_module *m, const struct twir_key *k)
{
	TW_CHECK(k->n >= 0 && k->n <= UINT16_MAX && k->op < 256 && k->nidx < 256);
	uint64_t h = tw_hash_mix((uint64_t)k->kind, (uint64_t)k->type.scalar << 16 | k->type.lanes);
	h = tw_hash_mix(h, (uint64_t)k->op << 32 | (uint64_t)k->nidx << 16 | (uint64_t)k->n);
	h = tw_hash_mix(h, payload(k->kind, k->type, k->i, k->f, k->ptr, k->axes, k->n));
	for (int i = 0; i < k->n; i++)
		h = tw_hash_mix(h, k->args[i]->hash);
	uint64_t at;
	struct twir_expr *e = find(m, k, h, &at);
	for (const struct twir_module *under = m->under; under && !e; under = under->under)
		e = find(under, k, h, &(uint64_t){0});
	if (e)
		return e;
	e = make(m, k, h);
	m->table[at] = e;
	if (++m->table_n * 2 > m->table_cap)
		grow_table(m);
	return e;
}

/* variables and tensors */

struct twir_var *twir_var_exact(struct twir_module *m, enum twir_var_kind kind, struct twir_type type, const char *name)
{
	struct twir_var *v = ARENA_NEW(m->arena, struct twir_var);
	v->name = v->base = name;
	v->kind = kind;
	v->type = type;
	v->id = m->next_id++;
	v->lo = kind == TWIR_SYMBOL || kind == TWIR_WORKER ? 0 : INT64_MIN;
	v->hi = INT64_MAX;
	v->multiple = 1;
	return v;
}

struct twir_var *twir_var_new(struct twir_module *m, enum twir_var_kind kind, struct twir_type type, const char *name)
{
	if (kind == TWIR_SYMBOL)
		return twir_symbol(m, name);
	const char *base = twir_identifier(m->arena, name);
	struct twir_var *v = twir_var_exact(m, kind, type, twir_unique(m, base));
	v->base = base;
	return v;
}

struct twir_var *twir_symbol(struct twir_module *m, const char *name)
{
	struct twir_var *v = TWIR_LOOK(m, symbol_of, name);
	if (v)
		return v;
	const char *base = twir_identifier(m->arena, name);
	v = twir_var_exact(m, TWIR_SYMBOL, twir_scalar_type(TWIR_INDEX), twir_unique(m, base));
	v->base = v->name; /* symbols keep one name in all programs */
	strmap_set(&m->symbol_of, name, v);
	vec_push(m->arena, &m->symbols, v);
	return v;
}

struct twir_tensor *twir_tensor_exact(struct twir_module *m, const char *name, enum twir_scalar type, int rank,
				      const struct twir_expr *const *shape, enum twir_scope scope)
{
	TW_CHECK(rank >= 0 && rank <= TWIR_MAX_RANK, "rank %d", rank);
	TW_CHECK(type > TWIR_VOID && type < TWIR_SCALARS);
	const char *why = twir_bad_extents(rank, shape);
	TW_CHECK(!why, "tensor %s: %s", name, why);
	struct twir_tensor *t = ARENA_NEW(m->arena, struct twir_tensor);
	t->name = t->base = name;
	t->type = type;
	t->lanes = 1;
	t->rank = rank;
	t->shape = ARENA_ARRAY(m->arena, const struct twir_expr *, rank);
	for (int i = 0; i < rank; i++)
		t->shape[i] = shape[i];
	t->scope = scope;
	t->id = m->next_id++;
	return t;
}

struct twir_tensor *twir_tensor_new(struct twir_module *m, const char *name, enum twir_scalar type, int rank,
				    const struct twir_expr *const *shape, enum twir_scope scope)
{
	const char *base = twir_identifier(m->arena, name);
	struct twir_tensor *t = twir_tensor_exact(m, twir_unique(m, base), type, rank, shape, scope);
	t->base = base;
	return t;
}

struct twir_launch *twir_launch_find(struct twir_module *m, const char *name)
{
	for (int i = 0; i < m->launches.n; i++)
		if (strcmp(m->launches.at[i]->name, name) == 0)
			return m->launches.at[i];
	return NULL;
}

/* statements */

struct twir_stmt *twir_stmt_new(struct twir_module *m, enum twir_stmt_kind kind)
{
	struct twir_stmt *s = ARENA_NEW(m->arena, struct twir_stmt);
	s->kind = kind;
	return s;
}

struct twir_stmt *twir_if(struct twir_module *m, const struct twir_expr *cond, struct twir_stmt *body,
			  struct twir_stmt *other)
{
	struct twir_stmt *s = twir_stmt_new(m, TWIR_IF);
	s->u.branch.cond = cond;
	s->u.branch.body = body;
	s->u.branch.other = other;
	return s;
}

struct twir_stmt *twir_let(struct twir_module *m, struct twir_var *v, const struct twir_expr *value)
{
	TW_CHECK(v->kind == TWIR_BOUND && twir_type_eq(v->type, value->type), "let %s", v->name);
	struct twir_stmt *s = twir_stmt_new(m, TWIR_LET);
	s->u.let.var = v;
	s->u.let.value = value;
	return s;
}

struct twir_stmt *twir_store(struct twir_module *m, struct twir_tensor *t, int n, const struct twir_expr *const *index,
			     const struct twir_expr *value, const struct twir_expr *mask)
{
	const char *why = twir_bad_store(t, n, index, value, mask);
	TW_CHECK(!why, "store to %s: %s", t->name, why);
	if (n == 1)
		value = twir_splat_to(
			m, value, value->type.lanes > index[0]->type.lanes ? value->type.lanes : index[0]->type.lanes);
	value = twir_splat_to(m, value, value->type.lanes > t->lanes ? value->type.lanes : t->lanes);
	struct twir_stmt *s = twir_stmt_new(m, TWIR_STORE);
	s->u.store.tensor = t;
	s->u.store.n = n;
	s->u.store.index = ARENA_ARRAY(m->arena, const struct twir_expr *, n);
	for (int i = 0; i < n; i++)
		s->u.store.index[i] = index[i];
	s->u.store.value = value;
	s->u.store.mask = mask;
	return s;
}

struct twir_stmt *twir_prefetch(struct twir_module *m, struct twir_tensor *t, int n,
				const struct twir_expr *const *index, bool near)
{
	const char *why = twir_bad_prefetch(t, n, index);
	TW_CHECK(!why, "prefetch of %s: %s", t->name, why);
	struct twir_stmt *s = twir_stmt_new(m, TWIR_PREFETCH);
	s->u.prefetch.tensor = t;
	s->u.prefetch.n = n;
	s->u.prefetch.near = near;
	s->u.prefetch.index = ARENA_ARRAY(m->arena, const struct twir_expr *, n);
	for (int i = 0; i < n; i++)
		s->u.prefetch.index[i] = index[i];
	return s;
}

struct twir_stmt *twir_copy_async(struct twir_module *m, struct twir_tensor *t, int n,
				  const struct twir_expr *const *index, const struct twir_expr *value)
{
	const char *why = twir_bad_copy(t, value);
	TW_CHECK(!why, "copy to %s: %s", t->name, why);
	struct twir_stmt *s = twir_store(m, t, n, index, value, NULL);
	s->u.store.async = true;
	return s;
}

void twir_append(struct twir_stmt **list, struct twir_stmt *tail)
{
	while (*list)
		list = &(*list)->next;
	*list = tail;
}
