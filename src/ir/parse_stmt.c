/* Statements. A name is visible from its declaration to the end of the block; the variables of a loop in its body. */
#include "ir/parse_int.h"

static struct twir_stmt *stmt_at(struct twir_parser *p, const struct twir_tok *at, enum twir_stmt_kind kind)
{
	struct twir_stmt *s = twir_stmt_new(p->m, kind);
	s->line = at->line;
	s->column = at->column;
	return s;
}

static struct twir_stmt *parse_let(struct twir_parser *p, const struct twir_tok *at)
{
	const struct twir_tok name_at = p->tok;
	const char *name = twir_take_name(p, "a name");
	twir_expect(p, "=", "let x = value;");
	const struct twir_expr *value = twir_parse_expr(p);
	twir_expect(p, ";", NULL);
	struct twir_stmt *s = stmt_at(p, at, TWIR_LET);
	s->u.let.value = value;
	s->u.let.var = twir_declare_var(p, &name_at, TWIR_BOUND, value->type, name);
	return s;
}

static struct twir_stmt *parse_declare(struct twir_parser *p, const struct twir_tok *at, enum twir_scope scope)
{
	struct twir_tok name_at;
	struct twir_stmt *s = stmt_at(p, at, TWIR_DECLARE);
	s->u.declare.tensor = twir_parse_tensor(p, scope, &name_at);
	twir_expect(p, ";", NULL);
	twir_bind(p, &name_at, s->u.declare.tensor->base, BOUND_TENSOR, s->u.declare.tensor);
	return s;
}

static void parse_map_name(struct twir_parser *p)
{
	const struct twir_tok at = p->tok;
	const char *name = twir_take_name(p, "the name of a mapping");
	twir_expect(p, "=", "map tile = repeat(12, 2) * spatial(1, 16);");
	const struct twir_map *f = twir_parse_map(p);
	twir_expect(p, ";", NULL);
	twir_bind(p, &at, name, BOUND_MAP, (void *)f);
}

/* copy async T[i +: 4] = X[j +: 4] [where c else 0.0]; */
static struct twir_stmt *parse_store(struct twir_parser *p, const struct twir_tok *at, bool async);

static struct twir_stmt *parse_copy(struct twir_parser *p, const struct twir_tok *at)
{
	twir_expect(p, "async", "copy async T[i, j +: 4] = X[k, j +: 4];");
	const struct twir_tok to = p->tok;
	struct twir_stmt *s = parse_store(p, &to, true);
	s->line = at->line;
	s->column = at->column;
	return s;
}

static struct twir_stmt *parse_wait(struct twir_parser *p, const struct twir_tok *at)
{
	struct twir_stmt *s = stmt_at(p, at, TWIR_WAIT);
	const struct twir_tok number = p->tok;
	const int64_t n = twir_take_int(p, "the number of groups that may still be under way");
	if (n < 0 || n > 63)
		twir_fail(p, &number, "wait 0; waits for all", "the number of groups is 0 to 63");
	s->u.wait.pending = (int)n;
	twir_expect(p, ";", NULL);
	return s;
}

static struct twir_fragment parse_fragment(struct twir_parser *p, const struct twir_mma *shape,
					   enum twir_operand_of which)
{
	static const char *const names[] = {"d", "a", "b"};
	const struct twir_tok at = p->tok;
	struct twir_fragment f = {.tensor = twir_tensor_named(p, "a register tensor")};
	const struct twir_expr *index[TWIR_MAX_RANK];
	int wide = 0;
	if (twir_take(p, "[")) {
		f.n = twir_parse_index(p, f.tensor, index, &wide);
		twir_expect(p, "]", NULL);
	}
	f.index = arena_copy(p->m->arena, index, sizeof(index[0]) * (size_t)f.n);
	const char *why = wide ? "a fragment has no '+:'" : twir_bad_fragment(shape, which, &f);
	if (why)
		twir_fail(p, &at,
			  arena_printf(p->scratch, "%s takes d: %s[%d], a: %s[%d], b: %s[%d] of each lane", shape->name,
				       twir_scalar_name(shape->sum), shape->elements[0], twir_scalar_name(shape->type),
				       shape->elements[1], twir_scalar_name(shape->type), shape->elements[2]),
			  "operand %s of %s: %s", names[which], shape->name, why);
	return f;
}

static struct twir_stmt *parse_mma(struct twir_parser *p, const struct twir_tok *at)
{
	struct twir_stmt *s = stmt_at(p, at, TWIR_MMA);
	const struct twir_tok name_at = p->tok;
	const char *name = twir_take_name(p, "the name of a matrix instruction");
	s->u.mma.shape = twir_mma_find(name);
	if (!s->u.mma.shape) {
		const char *all = "";
		for (int i = 0; twir_mma_at(i); i++)
			all = arena_printf(p->scratch, "%s%s%s", all, i ? ", " : "", twir_mma_at(i)->name);
		twir_fail(p, &name_at, all, "there is no matrix instruction '%s'", name);
	}
	for (int k = 0; k < 3; k++) {
		if (k)
			twir_expect(p, ",", "mma m16n8k16_f16 d[i, j], a[i], b[j];");
		s->u.mma.part[k] = parse_fragment(p, s->u.mma.shape, (enum twir_operand_of)k);
	}
	twir_expect(p, ";", NULL);
	return s;
}

/* A word that begins a statement unless it is the name of a tensor that is stored to. */
static bool take_word(struct twir_parser *p, const char *word)
{
	const char *after = p->at + strspn(p->at, " \t\r\n");
	return *after != '[' && *after != '=' && twir_take(p, word);
}

static void only_in_programs(struct twir_parser *p, const struct twir_tok *at)
{
	if (p->in_launch)
		twir_fail(p, at, "work belongs to programs, which launch functions call",
			  "a launch function holds let, buffer, for, if and call");
}

static struct twir_stmt *parse_store(struct twir_parser *p, const struct twir_tok *at, bool async)
{
	const char *known = twir_habit(p);
	const char *name = twir_take_name(p, "a statement");
	const struct twir_entry *b = twir_lookup(p, name);
	if (!b || b->kind != BOUND_TENSOR)
		twir_fail(p, at,
			  b	  ? "let makes a new value; only tensors are stored to"
			  : known ? known
				  : twir_suggest(p, name, 1 << BOUND_TENSOR | TWIR_SUGGEST_WORDS),
			  "there is no tensor '%s' here", name);
	struct twir_tensor *t = b->what;
	const struct twir_expr *index[TWIR_MAX_RANK], *mask = NULL;
	int n = 0, wide = 0;
	if (twir_take(p, "[")) {
		n = twir_parse_index(p, t, index, &wide);
		if (twir_take(p, "where"))
			mask = twir_parse_expr(p);
		twir_expect(p, "]", NULL);
	}
	twir_expect(p, "=", "T[i, j] = value;");
	const struct twir_tok value_at = p->tok;
	const struct twir_operand given = twir_parse_operand(p);
	twir_must_fit(p, &value_at, given, t->type);
	const struct twir_expr *value = twir_retype(p, given, t->type);
	twir_expect(p, ";", NULL);
	if (n == 1 && index[0]->type.lanes > 1)
		wide = wide ? -1 : index[0]->type.lanes;
	const int lanes = wide ? wide : t->lanes;
	if (value->type.lanes != 1 && value->type.lanes != lanes)
		twir_fail(p, &value_at, wide ? NULL : "store vectors with T[i +: 16]",
			  "a value of type %s is stored where %d element%s %s", twir_type_text(p, value->type), lanes,
			  lanes == 1 ? "" : "s", lanes == 1 ? "is meant" : "are meant");
	if (lanes > 1)
		value = twir_splat_to(p->m, value, lanes);
	const char *why = twir_bad_store(t, n, index, value, mask);
	if (!why && async)
		why = mask ? "the condition of an asynchronous copy stands behind its load: = X[..] where c else 0.0"
			   : twir_bad_copy(t, value);
	if (why)
		twir_fail(p, at, "the value must be of the type of the tensor: convert it",
			  "store to '%s' (%s, rank %d) of %s: %s", name, twir_scalar_name(t->type), t->rank,
			  twir_type_text(p, value->type), why);
	struct twir_stmt *s = twir_store(p->m, t, n, index, value, mask);
	s->u.store.async = async;
	s->line = at->line;
	s->column = at->column;
	return s;
}

static struct twir_stmt *parse_loop(struct twir_parser *p, const struct twir_tok *at)
{
	const struct twir_tok name_at = p->tok;
	const char *name = twir_take_name(p, "a variable");
	twir_expect(p, "in", "for i in repeat(n) { .. }");
	twir_expect(p, "repeat", "for i in repeat(n) { .. }; mappings take for (i, j) in ..");
	twir_expect(p, "(", NULL);
	struct twir_stmt *s = stmt_at(p, at, TWIR_FOR);
	s->u.loop.extent = twir_parse_size(p, "the number of steps");
	if (twir_take(p, ",")) {
		twir_expect(p, "unroll", "for i in repeat(8, unroll) { .. } or for i in repeat(n, unroll 4) { .. }");
		const struct twir_tok by_at = p->tok;
		const int64_t by = p->tok.kind == TK_NUMBER ? twir_take_int(p, "a number of steps") : 0;
		if (by_at.kind == TK_NUMBER && (by < 2 || by > 128))
			twir_fail(p, &by_at, "repeat(n, unroll 4)", "2 to 128 steps are unrolled at a time");
		s->u.loop.unroll = by == 0;
		s->u.loop.unroll_by = (int)by;
	}
	twir_expect(p, ")", NULL);
	const int mark = p->scope.n;
	struct twir_var *v = twir_declare_var(p, &name_at, TWIR_LOOP, twir_scalar_type(TWIR_INDEX), name);
	v->lo = 0;
	int64_t n;
	if (twir_const_int(s->u.loop.extent, &n))
		v->hi = n > 0 ? n - 1 : 0;
	s->u.loop.var = v;
	s->u.loop.body = twir_parse_block(p);
	twir_unbind(p, mark);
	return s;
}

static void parse_levels(struct twir_parser *p, struct twir_stmt *s)
{
	const bool several = twir_take(p, "(");
	do {
		if (s->u.formap.nlevels == 3 || !twir_parse_level(p, &s->u.formap.levels[s->u.formap.nlevels]))
			twir_fail(p, &p->tok,
				  twir_suggest_token(p, TWIR_SUGGEST_LEVELS, "core, lane, block, warp, thread"),
				  "expected a level of workers");
		s->u.formap.nlevels++;
	} while (several && twir_take(p, ","));
	if (several)
		twir_expect(p, ")", NULL);
}

static struct twir_stmt *parse_formap(struct twir_parser *p, const struct twir_tok *at)
{
	struct twir_tok name_at[TWIR_MAX_RANK];
	const char *names[TWIR_MAX_RANK];
	int n = 0;
	do {
		if (n == TWIR_MAX_RANK)
			twir_fail(p, &p->tok, "join dimensions that are used together", "more than %d variables",
				  TWIR_MAX_RANK);
		name_at[n] = p->tok;
		names[n++] = twir_take_name(p, "a variable");
	} while (twir_take(p, ","));
	twir_expect(p, ")", "for (i, j) in MAPPING on (core, lane) { .. }, or for i in repeat(n) { .. }");
	twir_expect(p, "in", "for (i, j) in MAPPING on (core, lane) { .. }");
	struct twir_stmt *s = stmt_at(p, at, TWIR_FORMAP);
	const struct twir_tok map_at = p->tok;
	s->u.formap.n = n;
	s->u.formap.map = twir_parse_map(p);
	if (s->u.formap.map->rank != n)
		twir_fail(p, &map_at, "one variable for each dimension: for (i, j) in repeat(4, 8) { .. }",
			  "the mapping has rank %d, but there %s %d variable%s", s->u.formap.map->rank,
			  n == 1 ? "is" : "are", n, n == 1 ? "" : "s");
	if (twir_take(p, "on"))
		parse_levels(p, s);
	const struct twir_tok within_at = p->tok;
	if (twir_take(p, "within")) {
		twir_expect(p, "(", "within (M, N)");
		s->u.formap.bounds = ARENA_ARRAY(p->m->arena, const struct twir_expr *, n);
		int k = 0;
		do {
			const struct twir_expr *bound = twir_parse_typed(p, twir_scalar_type(TWIR_INDEX), "a bound");
			if (k < n)
				s->u.formap.bounds[k] = bound;
			k++;
		} while (twir_take(p, ","));
		twir_expect(p, ")", NULL);
		if (k != n)
			twir_fail(p, &within_at, "one bound for each variable: within (M, N)",
				  "%d bounds for %d variables", k, n);
	}
	const int mark = p->scope.n;
	s->u.formap.vars = ARENA_ARRAY(p->m->arena, struct twir_var *, n);
	for (int i = 0; i < n; i++) {
		struct twir_var *v =
			twir_declare_var(p, &name_at[i], TWIR_LOOP, twir_scalar_type(TWIR_INDEX), names[i]);
		v->lo = 0;
		int64_t extent;
		if (twir_const_int(twir_map_extent(p->m, s->u.formap.map, i), &extent))
			v->hi = extent > 0 ? extent - 1 : 0;
		s->u.formap.vars[i] = v;
	}
	s->u.formap.body = twir_parse_block(p);
	twir_unbind(p, mark);
	return s;
}

static struct twir_stmt *parse_branch(struct twir_parser *p, const struct twir_tok *at, enum twir_stmt_kind kind)
{
	struct twir_stmt *s = stmt_at(p, at, kind);
	s->u.branch.cond = twir_parse_typed(p, twir_scalar_type(TWIR_I1), "the condition");
	s->u.branch.body = twir_parse_block(p);
	const struct twir_tok else_at = p->tok;
	if (twir_take(p, "else")) {
		if (kind == TWIR_SPECIALISE)
			twir_fail(p, &else_at, "specialise means just its body", "specialise has no else");
		if (twir_is(p, "if")) { /* else if is else { if } */
			const struct twir_tok if_at = p->tok;
			twir_next(p);
			twir_enter(p);
			s->u.branch.other = parse_branch(p, &if_at, TWIR_IF);
			twir_leave(p);
		} else {
			s->u.branch.other = twir_parse_block(p);
		}
	}
	return s;
}

static struct twir_stmt *parse_barrier(struct twir_parser *p, const struct twir_tok *at)
{
	struct twir_stmt *s = stmt_at(p, at, TWIR_BARRIER);
	if (!twir_parse_level(p, &s->u.barrier.level))
		twir_fail(p, &p->tok, twir_suggest_token(p, TWIR_SUGGEST_LEVELS, "barrier block;"),
			  "expected a level of workers");
	twir_expect(p, ";", NULL);
	return s;
}

static struct twir_stmt *parse_prefetch(struct twir_parser *p, const struct twir_tok *at)
{
	const struct twir_tok name_at = p->tok;
	const char *name = twir_take_name(p, "a tensor");
	const struct twir_entry *b = twir_lookup(p, name);
	if (!b || b->kind != BOUND_TENSOR)
		twir_fail(p, &name_at, "prefetch X[i, j];", "there is no tensor '%s' here", name);
	struct twir_tensor *t = b->what;
	const struct twir_expr *index[TWIR_MAX_RANK];
	int n = 0, wide = 0;
	if (twir_take(p, "[")) {
		n = twir_parse_index(p, t, index, &wide);
		twir_expect(p, "]", NULL);
	}
	const bool near = twir_take(p, "near");
	twir_expect(p, ";", NULL);
	const char *why = wide ? "one element is named, not several" : twir_bad_prefetch(t, n, index);
	if (why)
		twir_fail(p, at, "prefetch X[i, j];", "prefetch of '%s' (rank %d): %s", name, t->rank, why);
	struct twir_stmt *s = twir_prefetch(p->m, t, n, index, near);
	s->line = at->line;
	s->column = at->column;
	return s;
}

/* NULL: it was the declaration of a mapping's name, which is no statement. */
static struct twir_stmt *parse_stmt(struct twir_parser *p)
{
	const struct twir_tok at = p->tok;
	if (twir_take(p, "let"))
		return parse_let(p, &at);
	if (twir_take(p, "if"))
		return parse_branch(p, &at, TWIR_IF);
	const bool loop = twir_take(p, "for");
	if (loop && !twir_is(p, "("))
		return parse_loop(p, &at);
	if (p->in_launch && take_word(p, "buffer"))
		return parse_declare(p, &at, TWIR_BUFFER);
	if (p->in_launch && take_word(p, "call"))
		return twir_parse_invoke(p, &at);
	if (take_word(p, "buffer") || take_word(p, "call"))
		twir_fail(p, &at, "launch NAME(..) { buffer T: f32[N]; call P(A, T); }",
			  "buffers and calls belong to launch functions");
	only_in_programs(p, &at);
	if (loop) {
		twir_next(p); /* the parenthesis */
		return parse_formap(p, &at);
	}
	if (twir_take(p, "shared"))
		return parse_declare(p, &at, TWIR_SHARED);
	if (twir_take(p, "register"))
		return parse_declare(p, &at, TWIR_REGISTER);
	if (twir_take(p, "specialise"))
		return parse_branch(p, &at, TWIR_SPECIALISE);
	if (twir_take(p, "barrier"))
		return parse_barrier(p, &at);
	if (twir_take(p, "prefetch"))
		return parse_prefetch(p, &at);
	if (take_word(p, "copy"))
		return parse_copy(p, &at);
	if (take_word(p, "commit")) {
		twir_expect(p, ";", NULL);
		return stmt_at(p, &at, TWIR_COMMIT);
	}
	if (take_word(p, "wait"))
		return parse_wait(p, &at);
	if (take_word(p, "mma"))
		return parse_mma(p, &at);
	if (twir_take(p, "map")) {
		parse_map_name(p);
		return NULL;
	}
	return parse_store(p, &at, false);
}

struct twir_stmt *twir_parse_block(struct twir_parser *p)
{
	twir_enter(p);
	const struct twir_tok open = p->tok;
	twir_expect(p, "{", NULL);
	const int mark = p->scope.n;
	struct twir_stmt *list = NULL, **end = &list;
	while (!twir_is(p, "}")) {
		if (p->tok.kind == TK_END)
			twir_fail(p, &open, "every { has its }", "this { is not closed");
		struct twir_stmt *s = parse_stmt(p);
		if (s) {
			*end = s;
			end = &s->next;
		}
	}
	twir_next(p);
	twir_unbind(p, mark);
	twir_leave(p);
	return list;
}
