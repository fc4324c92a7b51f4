/* The verifier on expressions: the typing rules again (a pass may have built nodes past the constructors), names in
 * scope, what may stand where, and who may touch which register element. */
#include "ir/verify_int.h"

static const char *bad_operands(const struct twir_expr *e)
{
	const struct twir_expr *const *a = e->arg;
	const enum twir_kind k = (enum twir_kind)e->kind;
	const bool masked = e->n == e->nidx + 2;
	const int arity = twir_kind_arity(k);
	if (arity >= 0 && e->n != arity)
		return "wrong number of operands";
	for (int i = 0; i < e->n; i++)
		if (a[i]->type.lanes > 1 && a[i]->type.lanes != e->type.lanes && k != TWIR_Reduce && k != TWIR_Extract)
			return "operands with different numbers of lanes";
	switch (k) {
	case TWIR_Const:
		if (e->type.lanes != 1)
			return "a constant is a scalar";
		return !twir_is_float((enum twir_scalar)e->type.scalar) &&
				       twir_wrap((enum twir_scalar)e->type.scalar, e->u.i) != e->u.i
			       ? "an integer constant beyond its type"
			       : NULL;
	case TWIR_Var:
		return twir_type_eq(e->type, e->u.var->type) ? NULL : "a variable of another type";
	case TWIR_Fma:
		return twir_bad_fma(a[0], a[1], a[2]);
	case TWIR_Dot4:
		return twir_bad_dot4(a[0], a[1], a[2]);
	case TWIR_Select:
	case TWIR_Cond:
		return twir_bad_choice(k, a[0], a[1], a[2]);
	case TWIR_Cast:
		return twir_bad_cast((enum twir_scalar)e->type.scalar, a[0]);
	case TWIR_Bitcast:
		return twir_bad_bitcast((enum twir_scalar)e->type.scalar, a[0]);
	case TWIR_Call:
		return twir_bad_call(e->u.func, e->n, a);
	case TWIR_Load:
		if (e->u.tensor->type != e->type.scalar || (e->n != e->nidx && !masked))
			return "a load of another type than its tensor's";
		return twir_bad_load(e->u.tensor, e->nidx, a, e->type.lanes, masked ? a[e->nidx] : NULL,
				     masked ? a[e->nidx + 1] : NULL);
	case TWIR_Gather:
		if (e->u.tensor->type != e->type.scalar || (e->n != 1 && e->n != 3))
			return "a gather of another type than its tensor's";
		return twir_bad_gather(e->u.tensor, a[0], masked ? a[1] : NULL, masked ? a[2] : NULL);
	case TWIR_Fold:
		return twir_bad_fold((enum twir_kind)e->op, e->n - 1, e->u.axes, a + 1, a[0]);
	case TWIR_Reduce:
		return twir_bad_reduce((enum twir_kind)e->op, a[0]);
	case TWIR_Splat:
		return a[0]->type.lanes == 1 && e->type.lanes > 1 && a[0]->type.scalar == e->type.scalar
			       ? NULL
			       : "splat takes a scalar";
	case TWIR_Iota:
		return e->type.lanes > 1 && twir_is_int((enum twir_scalar)e->type.scalar)
			       ? NULL
			       : "iota is a vector of integers";
	default:
		return arity == 1 ? twir_bad_unary(k, a[0]) : twir_bad_binary(k, a[0], a[1]);
	}
}

bool twir_verify_spread(const struct twir_map *f, int dim)
{
	int64_t n;
	switch (f->kind) {
	case TWTM_REPEAT:
		return false;
	case TWTM_SPATIAL:
		return !twir_const_int(f->extent[dim], &n) || n > 1;
	case TWTM_COMPOSE:
		return twir_verify_spread(f->a, dim) || twir_verify_spread(f->b, dim);
	default:
		return !(f->projected & 1u << dim) && twir_verify_spread(f->a, dim);
	}
}

void twir_verify_register(struct twir_verifier *v, const struct twir_tensor *t, int n,
			  const struct twir_expr *const *index, bool store)
{
	if (!v->cpu || !t->mirrors || n != t->rank)
		return;
	bool spread = false;
	for (int i = 0; i < n; i++)
		spread |= twir_verify_spread(t->mirrors, i);
	if (!spread)
		return;
	if (!v->region) {
		if (!v->in_reduce)
			twir_verify_fail(v,
					 "register tensor '%s' belongs to the lanes: outside a loop on lane only "
					 "reduce may read it",
					 t->base);
		return;
	}
	if (v->in_reduce)
		twir_verify_fail(v, "reduce of '%s' inside a loop on lane passes values between lanes", t->base);
	for (int i = 0; i < n; i++)
		if (twir_verify_spread(t->mirrors, i) && !twir_verify_lanewise(v, index[i]))
			twir_verify_fail(v,
					 "%s element of register tensor '%s' that does not depend on the lane (index "
					 "%d): it belongs to one lane",
					 store ? "store to an" : "load of an", t->base, i);
}

static void check_var(struct twir_verifier *v, const struct twir_var *x)
{
	if (x->kind == TWIR_SYMBOL) {
		if (v->func)
			twir_verify_fail(v, "a func cannot see symbol '%s'", x->name);
		return;
	}
	if (x->kind != TWIR_WORKER) {
		if (!twir_verify_visible(v, x))
			twir_verify_fail(v,
					 map_get_ptr(&v->state, x) ? "variable '%s' is used where it is not in scope"
								   : "variable '%s' is not bound",
					 x->name);
		return;
	}
	if (!v->prog)
		twir_verify_fail(v, "'%s' is known in programs only", x->name);
	bool launched = false, warp = false, lane = false;
	for (int i = 0; i < v->prog->nlevels; i++) {
		launched |= v->prog->levels[i] == x->level;
		warp |= v->prog->levels[i] == TWIR_WARP;
		lane |= v->prog->levels[i] == TWIR_LANE;
	}
	if (!launched && !(x->level == TWIR_THREAD && warp && lane))
		twir_verify_fail(v,
				 "the program is not launched on %s\nhint: launch says which workers there are: launch "
				 "block(n), "
				 "thread(256), or launch core(n), lane(16)",
				 x->name);
	if (x->level == TWIR_LANE && v->cpu && !v->region)
		twir_verify_fail(v, "'lane' is known inside loops on lane only");
}

static void check_tensor(struct twir_verifier *v, const struct twir_tensor *t)
{
	if (v->func)
		twir_verify_fail(v, "a func cannot load ('%s')", t->base);
	if (v->launch)
		twir_verify_fail(v, "a launch function does not read data ('%s')", t->base);
	if (v->compute) {
		if (t == v->compute->out)
			twir_verify_fail(v, "the definition of '%s' reads '%s'", t->base, t->base);
		if (t->scope != TWIR_TENSOR && t->scope != TWIR_IN)
			twir_verify_fail(v, "a definition cannot read '%s', which is local to a program", t->base);
		return;
	}
	if (!twir_verify_visible(v, t))
		twir_verify_fail(v,
				 map_get_ptr(&v->state, t) ? "tensor '%s' is used where it is not in scope"
							   : "tensor '%s' is neither a parameter nor declared",
				 t->base);
	if (t->scope == TWIR_OUT)
		twir_verify_fail(v, "output '%s' is read\nhint: partial results belong in shared or register tensors",
				 t->base);
}

static void check(struct twir_verifier *v, const struct twir_expr *e);

static void check_fold(struct twir_verifier *v, const struct twir_expr *e)
{
	if (!v->compute)
		twir_verify_fail(v, "folds belong to definitions\nhint: in a program a sum is a loop that adds to a "
				    "register tensor");
	for (int i = 1; i < e->n; i++)
		check(v, e->arg[i]);
	/* The body sees the axes; nothing checked there may be taken as checked outside. */
	const int mark = v->scope.n;
	for (int i = 0; i + 1 < e->n; i++) {
		if (twir_verify_visible(v, e->u.axes[i]))
			twir_verify_fail(v, "axis '%s' is bound inside its own fold", e->u.axes[i]->name);
		map_set_ptr(&v->state, e->u.axes[i], NULL); /* folds beside each other may share axes */
		twir_verify_bind(v, e->u.axes[i], e->u.axes[i]->name);
	}
	v->round++;
	check(v, e->arg[0]);
	v->round++;
	twir_verify_unbind(v, mark);
}

static void check(struct twir_verifier *v, const struct twir_expr *e)
{
	if ((int64_t)(intptr_t)map_get_ptr(&v->done, e) == v->round)
		return;
	const enum twir_kind k = (enum twir_kind)e->kind;
	const char *why = bad_operands(e);
	if (why)
		twir_verify_fail(v, "%s of type %sx%d: %s", twir_kind_name(k),
				 twir_scalar_name((enum twir_scalar)e->type.scalar), e->type.lanes, why);
	if (k == TWIR_Fold) {
		check_fold(v, e);
		map_set_ptr(&v->done, e, (void *)(intptr_t)v->round);
		return;
	}
	if (k >= TWIR_ShflUp && k <= TWIR_ShflIdx && !v->gpu)
		twir_verify_fail(
			v,
			"%s belongs to programs launched on block\nhint: on a CPU, reduce combines what the lanes have",
			twir_kind_text(k));
	if (k == TWIR_Reduce && !v->prog)
		twir_verify_fail(v, "reduce belongs to programs");
	if (k == TWIR_Var)
		check_var(v, e->u.var);
	if (k == TWIR_Load || k == TWIR_Gather) {
		check_tensor(v, e->u.tensor);
		if (v->compute && (k == TWIR_Gather || e->nidx != e->u.tensor->rank))
			twir_verify_fail(v, "load of '%s' at offsets into its storage: definitions know no storage",
					 e->u.tensor->base);
		if (k == TWIR_Load)
			twir_verify_register(v, e->u.tensor, e->nidx, e->arg, false);
		else if (e->u.tensor->mirrors)
			twir_verify_fail(v, "gather from register tensor '%s'", e->u.tensor->base);
	}
	const bool outer = v->in_reduce;
	v->in_reduce = k == TWIR_Reduce && e->arg[0]->type.lanes == 1;
	const bool inner = v->in_reduce;
	for (int i = 0; i < e->n; i++)
		check(v, e->arg[i]);
	v->in_reduce = outer;
	/* The load under a reduce is fine there only: look at it again elsewhere. */
	if (inner)
		map_set_ptr(&v->done, e->arg[0], NULL);
	map_set_ptr(&v->done, e, (void *)(intptr_t)v->round);
}

void twir_verify_expr(struct twir_verifier *v, const struct twir_expr *e)
{
	v->round++;
	check(v, e);
}

struct data_size {
	struct twir_verifier *v;
	bool bad;
};

static void find_bad_size(void *arg, const struct twir_expr *e)
{
	struct data_size *s = arg;
	s->bad |= e->kind == TWIR_Load || e->kind == TWIR_Gather ||
		  (e->kind == TWIR_Var && map_get_ptr(&s->v->loaded, e->u.var));
}

bool twir_verify_loaded(struct twir_verifier *v, const struct twir_expr *e)
{
	struct data_size s = {v, false};
	twir_visit_expr(e, find_bad_size, &s);
	return s.bad;
}

void twir_verify_sizes(struct twir_verifier *v, int n, const struct twir_expr *const *e, bool constant,
		       const char *what)
{
	const char *why = twir_bad_extents(n, e);
	if (why)
		twir_verify_fail(v, "%s: %s", what, why);
	for (int i = 0; i < n; i++) {
		twir_verify_expr(v, e[i]);
		int64_t size;
		if (twir_verify_loaded(v, e[i]))
			twir_verify_fail(v,
					 "%s must not depend on data\nhint: sizes and symbols decide which tasks there "
					 "are; data may choose with an if inside",
					 what);
		if (constant && !twir_const_int(e[i], &size))
			twir_verify_fail(v, "%s must be a constant", what);
	}
}

struct lanewise {
	struct twir_verifier *v;
	bool found;
};

static void look(void *arg, const struct twir_expr *e)
{
	struct lanewise *l = arg;
	if (e->kind == TWIR_Var)
		l->found |= map_get_ptr(&l->v->lanewise, e->u.var) != NULL ||
			    (e->u.var->kind == TWIR_WORKER && e->u.var->level == TWIR_LANE);
	/* a register of the lane holds what the lane has put there */
	if (e->kind == TWIR_Load && e->u.tensor->scope == TWIR_REGISTER)
		l->found = true;
}

bool twir_verify_lanewise(struct twir_verifier *v, const struct twir_expr *e)
{
	struct lanewise l = {.v = v};
	twir_visit_expr(e, look, &l);
	return l.found;
}
