/* emit: statements and kernels to C. Input: a lowered program; output: one C function. Names are numbered in the order
 * of appearance (p parameters, n symbols, v lets, i loops, r registers, s shared tensors), so equal programs give
 * equal text. */
#include "cgen/cgen_int.h"

enum { MAX_EXPRESSIONS = 4000000 };

/* ---- what is used: lets that nobody reads and registers that are only written are left out ---- */

static void mark_use(void *arg, const struct twir_expr *e)
{
	struct cgen *g = arg;
	if (e->kind == TWIR_Var)
		map_set_ptr(&g->live, e->u.var, e->u.var);
	else if (e->kind == TWIR_Load || e->kind == TWIR_Gather)
		map_set_ptr(&g->live, e->u.tensor, e->u.tensor);
}

static void mark(struct cgen *g, const struct twir_expr *e)
{
	if (e)
		twir_visit_expr(e, mark_use, g);
}

static void mark_register(void *arg, const struct twir_expr *e)
{
	struct cgen *g = arg;
	if (e->kind == TWIR_Load && e->u.tensor->scope == TWIR_REGISTER)
		map_set_ptr(&g->live, e->u.tensor, e->u.tensor);
}

static void mark_fragments(void *arg, const struct twir_stmt *s)
{
	struct cgen *g = arg;
	for (int k = 0; k < 3 && s->kind == TWIR_MMA; k++)
		map_set_ptr(&g->live, s->u.mma.part[k].tensor, s->u.mma.part[k].tensor);
}

static void mark_registers(void *arg, const struct twir_expr *e)
{
	twir_visit_expr(e, mark_register, arg);
}

bool cgen_is_live(const struct cgen *g, const void *x)
{
	return map_get_ptr(&g->live, x) != NULL;
}

static bool is_dead_store(const struct cgen *g, const struct twir_stmt *s)
{
	return s->kind == TWIR_STORE && s->u.store.tensor->scope == TWIR_REGISTER &&
	       !cgen_is_live(g, s->u.store.tensor);
}

/* Backwards, so that a let that only serves dead lets is dead too. */
static void mark_block(struct cgen *g, const struct twir_stmt *list)
{
	int n = 0;
	for (const struct twir_stmt *s = list; s; s = s->next)
		n++;
	const struct twir_stmt **all = ARENA_ARRAY(g->m->arena, const struct twir_stmt *, n);
	n = 0;
	for (const struct twir_stmt *s = list; s; s = s->next)
		all[n++] = s;
	while (n-- > 0) {
		const struct twir_stmt *s = all[n];
		switch (s->kind) {
		case TWIR_LET:
			if (cgen_is_live(g, s->u.let.var))
				mark(g, s->u.let.value);
			break;
		case TWIR_STORE:
			if (is_dead_store(g, s))
				break;
			for (int i = 0; i < s->u.store.n; i++)
				mark(g, s->u.store.index[i]);
			mark(g, s->u.store.value);
			mark(g, s->u.store.mask);
			if (s->u.store.tensor->scope != TWIR_REGISTER)
				map_set_ptr(&g->live, s->u.store.tensor, s->u.store.tensor);
			break;
		case TWIR_FOR:
			mark_block(g, s->u.loop.body);
			mark(g, s->u.loop.extent);
			break;
		case TWIR_MMA:
			for (int k = 0; k < 3; k++)
				for (int i = 0; i < s->u.mma.part[k].n; i++)
					mark(g, s->u.mma.part[k].index[i]);
			break;
		case TWIR_IF:
		case TWIR_SPECIALISE:
			mark_block(g, s->u.branch.body);
			mark_block(g, s->u.branch.other);
			mark(g, s->u.branch.cond);
			break;
		case TWIR_PREFETCH:
			for (int i = 0; i < s->u.prefetch.n; i++)
				mark(g, s->u.prefetch.index[i]);
			map_set_ptr(&g->live, s->u.prefetch.tensor, s->u.prefetch.tensor);
			break;
		default:
			break;
		}
	}
}

/* ---- statements ---- */

static void tabs(struct cgen *g)
{
	for (int i = 0; i < g->indent; i++)
		buf_putc(&g->out, '\t');
}

const char *cgen_bind(struct cgen *g, struct tw_map *map, const void *what, const char *real, char letter, int *count)
{
	const char *name = g->readable ? arena_printf(g->m->arena, "%c_%s", letter, real)
				       : arena_printf(g->m->arena, "%c%d", letter, *count);
	++*count;
	if (letter == 'i') /* i8, i16, i32 and i64 are types */
		name = cgen_function_name(g->m->arena, name);
	map_set_ptr(map, what, (void *)(uintptr_t)name);
	return name;
}

/* A core item has one thread: nothing to wait for. */
static void barrier(struct cgen *g, enum twir_level level)
{
	const struct cgen_words *words = g->uses->d->words;
	if (!words)
		return;
	TW_CHECK(words->barrier[level], "dialect %s has no barrier of level %s", g->uses->d->name,
		 twir_level_name(level));
	cgen_together(g, level, "a barrier");
	tabs(g);
	buf_printf(&g->out, "%s;\n", words->barrier[level]);
}

static void let(struct cgen *g, const struct twir_stmt *s)
{
	struct twir_var *v = s->u.let.var;
	const struct twir_expr *value = s->u.let.value;
	if (!cgen_is_live(g, v))
		return;
	if (cgen_varies(g, value))
		map_set_ptr(&g->varying, v, v);
	if (v->type.scalar == TWIR_INDEX && v->type.lanes == 1 && cgen_nonneg(g, value))
		map_set_ptr(&g->nonneg, v, v);
	tabs(g);
	buf_printf(&g->out, "const %s %s = ", cgen_type(g->uses, v->type),
		   cgen_bind(g, &g->vars, v, v->name, 'v', &g->nvars));
	cgen_expr(g, value);
	buf_puts(&g->out, ";\n");
}

static void declare(struct cgen *g, const struct twir_stmt *s)
{
	const struct twir_tensor *t = s->u.declare.tensor;
	if (t->scope == TWIR_SHARED || !cgen_is_live(g, t)) /* shared tensors are carved at the top of the kernel */
		return;
	TW_CHECK(t->scope == TWIR_REGISTER, "program %s: %s is declared in the wrong scope", g->p->name, t->name);
	const struct twir_type type = {(uint8_t)t->type, (uint16_t)t->lanes};
	tabs(g);
	buf_printf(&g->out, "%s %s", cgen_type(g->uses, type), cgen_bind(g, &g->tensors, t, t->name, 'r', &g->nregs));
	if (t->rank > 0) {
		int64_t n = 1;
		bool bad = false;
		for (int i = 0; i < t->rank; i++) {
			int64_t d;
			TW_CHECK(twir_const_int(t->shape[i], &d), "program %s: register %s has no constant shape",
				 g->p->name, t->name);
			n = tw_mul64(n, d, &bad);
		}
		TW_CHECK(!bad && n <= 1 << 20, "program %s: register %s is too large", g->p->name, t->name);
		buf_printf(&g->out, "[%lld]", (long long)(n > 0 ? n : 1));
	}
	buf_puts(&g->out, ";\n");
}

static struct twir_type in_memory(struct twir_type t)
{
	t.scalar = (uint8_t)cgen_storage(t.scalar);
	return t;
}

/* The value to be stored in the form memory has. */
static void stored_value(struct cgen *g, const struct twir_expr *v)
{
	if (v->type.scalar == TWIR_I1 && v->type.lanes > 1) {
		buf_printf(&g->out, "%s(", cgen_helper_for(g, "frommask", in_memory(v->type)));
		cgen_expr(g, v);
		buf_putc(&g->out, ')');
	} else if (v->type.scalar == TWIR_I1) {
		buf_puts(&g->out, "(u8)");
		cgen_expr(g, v);
	} else {
		cgen_expr(g, v);
	}
}

static void store(struct cgen *g, const struct twir_stmt *s)
{
	const struct twir_tensor *t = s->u.store.tensor;
	const struct twir_expr *v = s->u.store.value, *mask = s->u.store.mask;
	const struct twir_expr *const *index = s->u.store.index;
	const int n = s->u.store.n;
	if (is_dead_store(g, s))
		return;
	tabs(g);
	if (s->u.store.async) {
		cgen_copy_async(g, s);
		return;
	}
	if (cgen_in_bits(t)) {
		cgen_bits_store(g, s);
	} else if (t->scope == TWIR_REGISTER && t->lanes == v->type.lanes) {
		TW_CHECK(!mask, "program %s: a masked store to register %s", g->p->name, t->name);
		cgen_element(g, t, n, index);
		buf_puts(&g->out, " = ");
		cgen_expr(g, v);
	} else if (v->type.lanes == 1) {
		TW_CHECK(!mask, "program %s: a masked scalar store to %s", g->p->name, t->name);
		cgen_element(g, t, n, index);
		buf_puts(&g->out, " = ");
		stored_value(g, v);
	} else {
		const struct twir_type mem = in_memory(v->type);
		const bool scatter = n == 1 && index[0]->type.lanes > 1;
		if (scatter) {
			buf_printf(&g->out, "%s(",
				   cgen_use(g->uses, mask ? "scatterm" : "scatter", mem, cgen_index_type(index[0])));
			cgen_expr(g, cgen_indexed(g, t, index[0]));
		} else {
			buf_printf(&g->out, "%s(", cgen_helper_for(g, mask ? "stm" : "st", mem));
			cgen_pointer(g, t, n, index);
		}
		buf_puts(&g->out, ", ");
		if (mask) {
			cgen_expr(g, mask);
			buf_puts(&g->out, ", ");
		}
		stored_value(g, v);
		buf_putc(&g->out, ')');
	}
	buf_puts(&g->out, ";\n");
}

/* For reading, into the second-level cache: what comes from farther would hold the few places of the first level
 * that lines on their way take. What is near by its name comes from the second. */
static void prefetch(struct cgen *g, const struct twir_stmt *s)
{
	if (g->uses->d->words) /* a hint, which GPUs do not need */
		return;
	tabs(g);
	buf_puts(&g->out, "__builtin_prefetch(");
	if (cgen_in_bits(s->u.prefetch.tensor))
		cgen_bits_pointer(g, s->u.prefetch.tensor, s->u.prefetch.n, s->u.prefetch.index);
	else
		cgen_pointer(g, s->u.prefetch.tensor, s->u.prefetch.n, s->u.prefetch.index);
	buf_puts(&g->out, s->u.prefetch.near ? ", 0, 3);\n" : ", 0, 2);\n");
}

static void loop(struct cgen *g, const struct twir_stmt *s)
{
	int64_t n;
	const bool constant = twir_const_int(s->u.loop.extent, &n);
	const int by = s->u.loop.unroll && constant && n > 0 && n <= 128 ? (int)n : s->u.loop.unroll_by;
	if (by > 0) {
		const struct cgen_words *words = g->uses->d->words;
		tabs(g);
		buf_printf(&g->out, "%s %d\n", words ? words->unroll : "#pragma GCC unroll", by);
	}
	tabs(g);
	const char *i = cgen_bind(g, &g->vars, s->u.loop.var, s->u.loop.var->name, 'i', &g->nloops);
	if (constant) {
		buf_printf(&g->out, "for (i64 %s = 0; %s < %lld; %s++) {\n", i, i, (long long)n, i);
	} else {
		buf_printf(&g->out, "for (i64 %s = 0, e%s = ", i, i + 1);
		cgen_expr(g, s->u.loop.extent);
		buf_printf(&g->out, "; %s < e%s; %s++) {\n", i, i + 1, i);
	}
	const bool varies = cgen_varies(g, s->u.loop.extent);
	g->divergent += varies;
	cgen_block(g, s->u.loop.body);
	g->divergent -= varies;
	tabs(g);
	buf_puts(&g->out, "}\n");
}

static void branch(struct cgen *g, const struct twir_stmt *s)
{
	tabs(g);
	buf_puts(&g->out, "if (");
	cgen_expr(g, s->u.branch.cond);
	buf_puts(&g->out, ") {\n");
	const bool varies = cgen_varies(g, s->u.branch.cond);
	g->divergent += varies;
	cgen_block(g, s->u.branch.body);
	tabs(g);
	if (s->u.branch.other) {
		buf_puts(&g->out, "} else {\n");
		cgen_block(g, s->u.branch.other);
		tabs(g);
	}
	g->divergent -= varies;
	buf_puts(&g->out, "}\n");
}

void cgen_block(struct cgen *g, const struct twir_stmt *list)
{
	g->indent++;
	for (const struct twir_stmt *s = list; s; s = s->next)
		switch (s->kind) {
		case TWIR_LET:
			let(g, s);
			break;
		case TWIR_DECLARE:
			declare(g, s);
			break;
		case TWIR_STORE:
			store(g, s);
			break;
		case TWIR_FOR:
			loop(g, s);
			break;
		case TWIR_IF:
			branch(g, s);
			break;
		case TWIR_SPECIALISE: /* means its body; the scope of its lets is the body's */
			tabs(g);
			buf_puts(&g->out, "{\n");
			cgen_block(g, s->u.branch.body);
			tabs(g);
			buf_puts(&g->out, "}\n");
			break;
		case TWIR_BARRIER:
			barrier(g, s->u.barrier.level);
			break;
		case TWIR_PREFETCH:
			prefetch(g, s);
			break;
		case TWIR_COMMIT:
		case TWIR_WAIT:
		case TWIR_MMA:
			cgen_warp_stmt(g, s);
			break;
		case TWIR_INVOKE:
		case TWIR_FORMAP:
			TW_CHECK(false, "program %s: a mapping or a call is left in lowered code", g->p->name);
		}
	g->indent--;
}

/* ---- kernels ---- */

struct shared_list {
	struct tw_arena *arena;
	VEC(struct twir_tensor *) list;
};

static void find_shared(void *arg, const struct twir_stmt *s)
{
	struct shared_list *l = arg;
	if (s->kind == TWIR_DECLARE && s->u.declare.tensor->scope == TWIR_SHARED)
		vec_push(l->arena, &l->list, s->u.declare.tensor);
}

static const struct twir_expr *shared_bytes(struct twir_module *m, const struct twir_tensor *t)
{
	const struct twir_expr *bytes =
		twir_mul(m, twir_tensor_elements(m, t), twir_index(m, twir_scalar_bytes(t->type) * t->lanes));
	return twir_roundup(m, bytes, twir_index(m, 64));
}

const struct twir_expr *cgen_scratch(struct twir_module *m, const struct twir_program *p)
{
	struct shared_list l = {.arena = m->arena};
	twir_visit_block(p->body, find_shared, NULL, &l);
	const struct twir_expr *sum = twir_index(m, 0);
	for (int i = 0; i < l.list.n; i++)
		sum = twir_add(m, sum, shared_bytes(m, l.list.at[i]));
	return sum;
}

static bool may_overlap(const struct twir_program *p, const struct twir_tensor *t)
{
	for (int i = 0; i < p->nparams; i++)
		if (p->params[i]->alias && (p->params[i] == t || p->params[i]->alias == t))
			return true;
	return false;
}

static void parameters(struct cgen *g, struct tw_buf *head)
{
	for (int i = 0; i < g->p->nparams; i++) {
		const struct twir_tensor *t = g->p->params[i];
		if (cgen_is_live(g, t))
			buf_printf(head, "\t%s%s *%s%s = buf[%d];\n", t->scope == TWIR_OUT ? "" : "const ",
				   cgen_scalar_name(cgen_storage(t->type)), may_overlap(g->p, t) ? "" : "restrict ",
				   cgen_tensor_name(g, t), i);
	}
	for (int i = 0; i < g->p->nsymbols; i++)
		if (cgen_is_live(g, g->p->symbols[i]))
			buf_printf(head, "\tconst i64 %s = sym[%d];\n",
				   (const char *)map_get_ptr(&g->vars, g->p->symbols[i]), i);
}

static void carve(struct cgen *g, const struct shared_list *l)
{
	const struct twir_expr *at = twir_index(g->m, 0);
	for (int i = 0; i < l->list.n; i++) {
		const struct twir_tensor *t = l->list.at[i];
		if (cgen_is_live(g, t)) {
			const char *c = cgen_scalar_name(cgen_storage(t->type));
			buf_printf(&g->out, "\t%s *restrict %s = (%s *)((char *)scratch + ", c, cgen_tensor_name(g, t),
				   c);
			cgen_expr(g, at);
			buf_puts(&g->out, ");\n");
		}
		at = twir_add(g->m, at, shared_bytes(g->m, t));
	}
}

static bool any_live(const struct cgen *g, const struct shared_list *l)
{
	for (int i = 0; i < l->list.n; i++)
		if (cgen_is_live(g, l->list.at[i]))
			return true;
	return false;
}

static void name_all(struct cgen *g, const struct shared_list *l)
{
	int n = 0;
	for (int i = 0; i < g->p->nparams; i++)
		cgen_bind(g, &g->tensors, g->p->params[i], g->p->params[i]->name, 'p', &n);
	n = 0;
	for (int i = 0; i < g->p->nsymbols; i++)
		cgen_bind(g, &g->vars, g->p->symbols[i], g->p->symbols[i]->name, 'n', &n);
	n = 0;
	for (int i = 0; i < l->list.n; i++)
		cgen_bind(g, &g->tensors, l->list.at[i], l->list.at[i]->name, 's', &n);
}

void cgen_start(struct cgen *g)
{
	buf_init(&g->out, g->m->arena);
	map_init(&g->vars, g->m->arena);
	map_init(&g->tensors, g->m->arena);
	map_init(&g->live, g->m->arena);
	map_init(&g->nonneg, g->m->arena);
	map_init(&g->varying, g->m->arena);
	twir_visit_block(g->p->body, mark_fragments, mark_registers, g);
	mark_block(g, g->p->body);
}

static void cpu_kernel(struct cgen_uses *u, struct tw_buf *out, struct twir_module *m, const struct twir_program *p,
		       const char *name, bool readable)
{
	struct cgen g = {.m = m, .p = p, .uses = u, .budget = MAX_EXPRESSIONS, .readable = readable};
	struct shared_list l = {.arena = m->arena};
	twir_visit_block(p->body, find_shared, NULL, &l);
	cgen_start(&g);
	name_all(&g, &l);
	for (int i = 0; i < l.list.n; i++)
		mark(&g, shared_bytes(m, l.list.at[i]));
	carve(&g, &l);
	cgen_block(&g, p->body);

	bool symbols = false, params = false;
	for (int i = 0; i < p->nsymbols; i++)
		symbols |= cgen_is_live(&g, p->symbols[i]);
	for (int i = 0; i < p->nparams; i++)
		params |= cgen_is_live(&g, p->params[i]);
	buf_printf(out, "void %s(i64 core, void *const *buf, const i64 *sym, void *scratch)\n{\n", name);
	parameters(&g, out);
	if (!g.core_used)
		buf_puts(out, "\t(void)core;\n");
	if (!params)
		buf_puts(out, "\t(void)buf;\n");
	if (!symbols)
		buf_puts(out, "\t(void)sym;\n");
	if (!any_live(&g, &l))
		buf_puts(out, "\t(void)scratch;\n");
	buf_bytes(out, g.out.at, g.out.n);
	buf_puts(out, "}\n");
}

void cgen_kernel_into(struct cgen_uses *u, struct tw_buf *out, struct twir_module *m, const struct twir_program *p,
		      const char *name, bool readable)
{
	if (u->d->words)
		cgen_gpu_kernel(u, out, m, p, name);
	else
		cpu_kernel(u, out, m, p, name, readable);
}

void cgen_kernel(struct tw_buf *out, struct cgen_uses *u, struct twir_module *m, const struct twir_program *p,
		 const char *name)
{
	cgen_kernel_into(u, out, m, p, name, false);
}
