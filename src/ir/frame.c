/* frame: a module is worked on and then is what it was before. Input: a module. Output: the module, and what was adopted of the work. Invariants: the module's
 * tables are read, never written, while the frame is open; ids of what is made in it begin where the module's own end, so that an id tells whose an object is. */
#include "ir/ir_int.h"

void twir_frame_begin(struct twir_module *m, struct twir_frame *f)
{
	TW_CHECK(!m->under, "a frame in a frame");
	if (!m->math_loaded)
		twir_func_find(m, ""); /* once, for all frames */
	for (int l = 0; l < TWIR_LEVELS;
	     l++) /* before all that a frame makes: sums are in the order of ids, outermost first */
		twir_worker(m, (enum twir_level)l);
	f->before = *m;
	f->arena = arena_child(m->arena);
	map_init(&f->adopted, f->arena);
	m->under = &f->before;
	twir_own_tables(m, f->arena);
	/* what is pushed makes a copy first */
	m->symbols.cap = m->symbols.n;
	m->funcs.cap = m->funcs.n;
	m->tensors.cap = m->tensors.n;
	m->computes.cap = m->computes.n;
	m->programs.cap = m->programs.n;
	m->launches.cap = m->launches.n;
}

void twir_frame_end(struct twir_module *m, struct twir_frame *f)
{
	TW_CHECK(m->under == &f->before, "the frame is not open");
	TW_CHECK(m->symbols.n == f->before.symbols.n, "a symbol was made in a frame");
	*m = f->before;
}

void twir_frame_free(struct twir_frame *f)
{
	arena_free(f->arena);
	f->arena = NULL;
}

static bool is_own(const struct twir_frame *f, uint32_t id)
{
	return id < f->before.next_id;
}

const struct twir_expr *twir_adopt_expr(struct twir_module *m, struct twir_frame *f, const struct twir_expr *e)
{
	if (is_own(f, e->id))
		return e;
	const struct twir_expr *made = map_get_ptr(&f->adopted, e), **args;
	if (made)
		return made;
	struct twir_key k = {.kind = (enum twir_kind)e->kind, .type = e->type, .n = e->n, .op = e->op, .nidx = e->nidx};
	switch (k.kind) {
	case TWIR_Const:
		if (twir_is_float(e->type.scalar))
			k.f = e->u.f;
		else
			k.i = e->u.i;
		break;
	case TWIR_Var:
		TW_CHECK(is_own(f, e->u.var->id), "%s was made in the frame", e->u.var->name);
		k.ptr = e->u.var;
		break;
	case TWIR_Load:
	case TWIR_Gather:
	case TWIR_Call:
	case TWIR_Fold:
		tw_raise(TW_ERR_INTERNAL, "%s in a size", twir_kind_name(k.kind));
	default:
		break;
	}
	args = ARENA_ARRAY(f->arena, const struct twir_expr *, e->n);
	for (int i = 0; i < e->n; i++)
		args[i] = twir_adopt_expr(m, f, e->arg[i]);
	k.args = args;
	made = twir_intern(m, &k);
	map_set_ptr(&f->adopted, e, (void *)(uintptr_t)made);
	return made;
}

static const struct twir_layout *adopt_layout(struct twir_module *m, struct twir_frame *f, const struct twir_layout *l)
{
	if (!l)
		return NULL;
	struct twir_layout *made = arena_copy(m->arena, l, sizeof(*l));
	for (int d = 0; d < l->rank; d++)
		made->extent[d] = twir_adopt_expr(m, f, l->extent[d]);
	made->inner = adopt_layout(m, f, l->inner);
	return made;
}

struct twir_tensor *twir_adopt_tensor(struct twir_module *m, struct twir_frame *f, struct twir_tensor *t)
{
	const struct twir_expr *shape[TWIR_MAX_RANK];
	if (is_own(f, t->id))
		return t;
	struct twir_tensor *made = map_get_ptr(&f->adopted, t);
	if (made)
		return made;
	for (int d = 0; d < t->rank; d++)
		shape[d] = twir_adopt_expr(m, f, t->shape[d]);
	made = twir_tensor_new(m, t->base, t->type, t->rank, shape, t->scope);
	made->layout = adopt_layout(m, f, t->layout);
	map_set_ptr(&f->adopted, t, made);
	return made;
}
