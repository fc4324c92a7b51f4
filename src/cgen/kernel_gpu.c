/* kernel_gpu: kernels for GPUs in the words of a dialect. Input: a program launched on blocks, lowered; output: one
 * function that each thread runs. Parameters come in the program's order, then a 64-bit integer for each symbol.
 * Shared tensors have constant sizes; they are arrays, or parts of one pool where the dialect has such a thing and the
 * arrays would be too large. */
#include "cgen/cgen_int.h"

enum { MAX_EXPRESSIONS = 4000000, MOST_THREADS = 1024 };

struct shared {
	struct cgen *g;
	VEC(const struct twir_tensor *) list;
};

static void find_shared(void *arg, const struct twir_stmt *s)
{
	struct shared *x = arg;
	if (s->kind == TWIR_DECLARE && s->u.declare.tensor->scope == TWIR_SHARED)
		vec_push(x->g->m->arena, &x->list, s->u.declare.tensor);
}

static int64_t constant(const struct cgen *g, const struct twir_expr *e, const char *what)
{
	int64_t n;
	if (!twir_const_int(e, &n) || n < 0)
		tw_raise(TW_ERR_UNSUPPORTED, "program %s: %s must be a constant on a GPU, not %s\nhint: --fix SYMBOL=N",
			 g->p->name, what, twir_print_expr(g->m->arena, e));
	return n;
}

int64_t cgen_threads(const struct twir_program *p)
{
	const struct cgen g = {.p = p};
	int64_t n = 1;
	for (int i = 1; i < p->nlevels; i++)
		n *= constant(&g, p->extents[i], "the number of threads");
	if (n < 1 || n > MOST_THREADS)
		tw_raise(TW_ERR_UNSUPPORTED, "program %s: %lld threads in a block: a GPU runs 1 to %d", p->name,
			 (long long)n, MOST_THREADS);
	return n;
}

static int64_t array_bytes(struct cgen *g, const struct twir_tensor *t)
{
	const int64_t n =
		constant(g, twir_tensor_elements(g->m, t), arena_printf(g->m->arena, "the size of %s", t->name));
	bool bad = false;
	const int64_t bytes = tw_add64(tw_mul64(n > 0 ? n : 1, twir_scalar_bytes(t->type), &bad), 63, &bad) / 64 * 64;
	if (bad)
		tw_raise(TW_ERR_UNSUPPORTED, "program %s: shared tensor %s is too large", g->p->name, t->name);
	return bytes;
}

/* Arrays in front of the body; in one pool when the words have one and together they are large. */
static void arrays(struct cgen *g, const struct shared *x, struct tw_buf *out)
{
	const struct cgen_words *w = g->uses->d->words;
	int64_t all = 0, at = 0;
	for (int i = 0; i < x->list.n; i++)
		all += array_bytes(g, x->list.at[i]);
	const bool pool = w->pool && all > CGEN_STATIC_SHARED;
	if (pool)
		buf_printf(out, "\t%s;\n", w->pool);
	for (int i = 0; i < x->list.n; i++) {
		const struct twir_tensor *t = x->list.at[i];
		const char *c = cgen_scalar_name(cgen_storage(t->type));
		const int64_t bytes = array_bytes(g, t);
		if (!cgen_is_live(g, t))
			continue;
		if (pool)
			buf_printf(out, "\t%s *%s = (%s *)(pool + %lld);\n", c, cgen_tensor_name(g, t), c,
				   (long long)at);
		else
			buf_printf(out, "\t%s%s %s[%lld];\n", w->shared, c, cgen_tensor_name(g, t),
				   (long long)(bytes / twir_scalar_bytes(t->type)));
		at += bytes;
	}
}

int64_t cgen_pool_bytes(struct twir_module *m, const struct twir_program *p)
{
	struct cgen g = {.m = m, .p = p};
	struct shared x = {.g = &g};
	int64_t all = 0;
	twir_visit_block(p->body, find_shared, NULL, &x);
	for (int i = 0; i < x.list.n; i++)
		all += array_bytes(&g, x.list.at[i]);
	return all;
}

static bool may_overlap(const struct twir_program *p, const struct twir_tensor *t)
{
	for (int i = 0; i < p->nparams; i++)
		if (p->params[i]->alias && (p->params[i] == t || p->params[i]->alias == t))
			return true;
	return false;
}

static void parameters(struct cgen *g, struct tw_buf *out)
{
	const struct cgen_words *w = g->uses->d->words;
	const char *comma = "";
	for (int i = 0; i < g->p->nparams; i++) {
		const struct twir_tensor *t = g->p->params[i];
		buf_printf(out, "%s%s%s%s *%s%s", comma, w->global, t->scope == TWIR_OUT ? "" : "const ",
			   cgen_scalar_name(cgen_storage(t->type)), may_overlap(g->p, t) ? "" : w->restricts,
			   cgen_tensor_name(g, t));
		comma = ", ";
	}
	for (int i = 0; i < g->p->nsymbols; i++) {
		buf_printf(out, "%sconst i64 %s", comma, (const char *)map_get_ptr(&g->vars, g->p->symbols[i]));
		comma = ", ";
	}
}

static void name_all(struct cgen *g, const struct shared *x)
{
	int n = 0;
	for (int i = 0; i < g->p->nparams; i++)
		cgen_bind(g, &g->tensors, g->p->params[i], g->p->params[i]->name, 'p', &n);
	for (int i = 0; i < g->p->nsymbols; i++)
		cgen_bind(g, &g->vars, g->p->symbols[i], g->p->symbols[i]->name, 'n', &n);
	for (int i = 0; i < x->list.n; i++)
		cgen_bind(g, &g->tensors, x->list.at[i], x->list.at[i]->name, 's', &n);
}

static const struct twir_expr *level(struct cgen *g, enum twir_level l)
{
	return twir_worker(g->m, l);
}

static void worker(struct cgen *g, struct tw_buf *out, enum twir_level l, const char *text)
{
	const struct twir_var *v = level(g, l)->u.var;
	map_set_ptr(&g->vars, v, (void *)(uintptr_t)twir_level_name(l));
	buf_printf(out, "\tconst i64 %s = %s;\n", twir_level_name(l), text);
}

/* The numbers of workers that are launched and used. */
static void workers(struct cgen *g, struct tw_buf *out)
{
	const struct cgen_words *w = g->uses->d->words;
	for (int i = 0; i < g->p->nlevels; i++) {
		const enum twir_level l = g->p->levels[i];
		if (!cgen_is_live(g, level(g, l)->u.var))
			continue;
		const char *text = l == TWIR_BLOCK ? w->block : w->thread;
		if (l == TWIR_WARP || l == TWIR_LANE) {
			const struct twir_expr *lanes = g->p->nlevels == 3 ? g->p->extents[2] : twir_index(g->m, 1);
			const int64_t n = constant(g, lanes, "the number of lanes");
			if (n & (n - 1))
				text = arena_printf(g->m->arena, "%s %c %lld", w->thread, l == TWIR_WARP ? '/' : '%',
						    (long long)n);
			else if (l == TWIR_WARP)
				text = arena_printf(g->m->arena, "%s >> %d", w->thread,
						    __builtin_ctzll((unsigned long long)n));
			else
				text = arena_printf(g->m->arena, "%s & %lld", w->thread, (long long)n - 1);
		}
		worker(g, out, l, text);
	}
}

static void find_mma(void *arg, const struct twir_stmt *s)
{
	*(bool *)arg |= s->kind == TWIR_MMA;
}

/* Words of 64 bits for what threads hand on: one a thread, or the tiles of each warp's matrix instruction. */
static int64_t pool_words(const struct twir_program *p)
{
	enum { TILES = (16 * 32 + 32 * 8) / 2 }; /* of the largest instruction */
	const int64_t threads = cgen_threads(p), tiles = (threads + 31) / 32 * TILES;
	bool mma = false;
	twir_visit_block(p->body, find_mma, NULL, &mma);
	return mma && tiles > threads ? tiles : threads;
}

void cgen_gpu_kernel(struct cgen_uses *u, struct tw_buf *out, struct twir_module *m, const struct twir_program *p,
		     const char *name)
{
	struct cgen g = {.m = m, .p = p, .uses = u, .budget = MAX_EXPRESSIONS, .readable = true};
	struct shared x = {.g = &g};
	twir_visit_block(p->body, find_shared, NULL, &x);
	cgen_start(&g);
	name_all(&g, &x);
	buf_printf(out, u->d->words->kernel, (long long)cgen_threads(p));
	buf_printf(out, " %s(", name);
	parameters(&g, out);
	buf_puts(out, ")\n{\n");
	arrays(&g, &x, out);
	workers(&g, out);
	cgen_block(&g, p->body);
	if (g.pooled) {
		buf_putc(out, '\t');
		buf_printf(out, u->d->words->pool_words, (long long)pool_words(p));
		buf_puts(out, ";\n");
	}
	buf_bytes(out, g.out.at, g.out.n);
	buf_puts(out, "}\n");
}
