/* parse_int: the lexer and the parts of the recursive-descent parser of .tw texts.
 *
 *   module    { symbol NAME [in LO..[HI]] [multiple N], ..;  |  const NAME = E;  |  func NAME(x: TYPE, ..): TYPE { {let x = E;} return E; }
 *             | tensor TENSOR;  |  define TENSOR = (i, ..) => E [from "ORIGIN"];
 *             | program NAME([out] TENSOR [alias INPUT], ..) [launch LEVEL(E), ..] BLOCK
 *             | launch NAME([out] TENSOR, ..) BLOCK }
 *   The grammar in full, with what everything means: docs/LANGUAGE.md. In short:
 *   TENSOR    NAME: TYPE[E, ..] [mirrors MAP] [layout row(E, ..) [swizzle(DIM, BY [, SHIFT])] * .. [* strides(E, ..)]]
 *   TYPE      i1 i8 .. u64 f16 bf16 f32 f64 f8e4m3fn .. u4 index, or in registers a vector: f32x16
 *   LEVEL     core lane block warp thread
 *   MAP       FACTOR * FACTOR ..;  FACTOR is repeat(E, ..), spatial(E, ..), project(MAP, [DIM, ..]), (MAP) or a name from
 *             map; extents may be followed by ranks = [..] and by unroll, vector or attrs = [plain, unroll, ..]
 *   BLOCK     { STATEMENT .. }
 *   STATEMENT let x = E;  |  shared TENSOR;  |  register TENSOR;  |  map NAME = MAP;
 *             | T[E, .. [+: LANES] [where MASK]] = E;  |  T = E;  |  for i in repeat(E [, unroll]) BLOCK
 *             | for (i, ..) in MAP [on LEVEL | on (LEVEL, ..)] [within (E, ..)] BLOCK
 *             | if E BLOCK [else BLOCK | else if ..]  |  specialise E BLOCK  |  barrier LEVEL;
 *   E         C ? A : B, then or, xor, and, comparisons (which do not chain), << >>, + -, * / %, prefix - and not, then
 *             numbers (3 is index, 1.5 is f32, else a suffix: 3i32, 1.5f64; inf nan true false; a literal without a suffix
 *             takes the type of what stands beside it), names, levels, T[E, .. [+: LANES [where MASK else E]]], T,
 *             operations f(E, ..) of nodes.def, casts f32(E), bitcast_i32(E), calls of funcs (exp is exp_f32 or exp_f64),
 *             sum prod fold_min fold_max .. (k < E, .., E), reduce(add, E), splat(E, LANES), iota_i32(LANES),
 *             gather(T, E [where MASK else E])
 * Comments run from # to the end of the line. A scalar beside a vector is splat. */
#ifndef TW_PARSE_INT_H
#define TW_PARSE_INT_H

#include "ir/ir_int.h"

enum twir_token { TK_END, TK_NAME, TK_NUMBER, TK_STRING, TK_PUNCT };

struct twir_tok {
	enum twir_token kind;
	const char *at; /* in the text */
	int n;
	int line, column; /* from 1 */
};

enum twir_bound { BOUND_VAR, BOUND_TENSOR, BOUND_MAP };

struct twir_entry {
	const char *name;
	enum twir_bound kind;
	void *what;
	struct twir_entry *shadowed;
	int serial;
};

struct twir_parser {
	struct twir_module *m;
	struct tw_arena *scratch; /* freed when parsing ends, however it ends */
	const char *name, *text, *at;
	int line;
	const char *line_start;
	struct twir_tok tok; /* the next token */
	int depth;
	struct tw_strmap names;	  /* name -> struct twir_entry */
	struct tw_strmap symbols; /* of the module, by the names they have in texts */
	struct tw_strmap consts;  /* of the text: name -> expr, a Const */
	VEC(struct twir_entry *) scope;
	int floor;	 /* bindings below it are invisible: programs and funcs see only their own */
	bool no_symbols; /* in funcs */
	VEC(const struct twir_expr *) folds; /* of the definition being parsed */
	bool in_launch;			     /* a launch function: buffers and calls, no work of its own */
	bool in_const;			     /* the value of a constant */
	bool no_guard;			     /* "where" belongs to what stands around the load */
};

/* An operand; a literal without a suffix takes the type of what it meets. */
struct twir_operand {
	const struct twir_expr *e;
	bool flexible;
	const struct twir_expr *wide; /* the same of f64 constants: what a flexible float is before it is rounded */
};

/* lex.c */
void twir_lex_start(struct twir_parser *p, const char *name, const char *text);
void twir_next(struct twir_parser *p);
_Noreturn void twir_fail(struct twir_parser *p, const struct twir_tok *at, const char *hint, const char *fmt, ...)
	TW_PRINTF(4, 5);
bool twir_is(const struct twir_parser *p, const char *text); /* is the next token this word or sign? */
bool twir_take(struct twir_parser *p, const char *text);     /* ... then pass it */
const char *twir_habit(const struct twir_parser *p); /* a hint where the next token is what other languages write */
void twir_expect(struct twir_parser *p, const char *text, const char *hint);
const char *twir_take_name(struct twir_parser *p,
			   const char *what); /* any word that is not reserved; in the module's arena */
int64_t twir_take_int(struct twir_parser *p, const char *what); /* a plain, possibly negative integer */
const char *twir_take_string(struct twir_parser *p);
void twir_enter(struct twir_parser *p); /* a level of nesting; fails when there are too many */
void twir_leave(struct twir_parser *p);

/* scope */
void twir_bind(struct twir_parser *p, const struct twir_tok *at, const char *name, enum twir_bound kind, void *what);
struct twir_entry *twir_lookup(const struct twir_parser *p, const char *name);
void twir_unbind(struct twir_parser *p, int mark); /* everything bound since scope.n was mark */
struct twir_var *twir_declare_var(struct twir_parser *p, const struct twir_tok *at, enum twir_var_kind kind,
				  struct twir_type type, const char *name);

/* parse_suggest.c: "did you mean 'x'?", or NULL. what: bits 1 << enum twir_bound for names in scope, and these. */
enum {
	TWIR_SUGGEST_CALLS = 1 << 8, /* operations, funcs, casts */
	TWIR_SUGGEST_TYPES = 1 << 9,
	TWIR_SUGGEST_LEVELS = 1 << 10,
	TWIR_SUGGEST_WORDS = 1 << 11, /* of the language */
	TWIR_SUGGEST_PROGRAMS = 1 << 12,
	TWIR_SUGGEST_VALUES = 1 << BOUND_VAR | 1 << BOUND_TENSOR
};
const char *twir_suggest(struct twir_parser *p, const char *word, unsigned what);
/* For the next token. */
const char *twir_suggest_token(struct twir_parser *p, unsigned what, const char *otherwise);

/* parse_expr.c */
struct twir_operand twir_parse_operand(struct twir_parser *p);
const struct twir_expr *twir_parse_expr(struct twir_parser *p);
const struct twir_expr *twir_parse_typed(struct twir_parser *p, struct twir_type type, const char *what);
const struct twir_expr *twir_parse_size(struct twir_parser *p, const char *what);
/* Fails where a whole number without a suffix is too large for the integers it meets. */
void twir_must_fit(struct twir_parser *p, const struct twir_tok *at, struct twir_operand o, enum twir_scalar to);
const struct twir_expr *twir_retype(struct twir_parser *p, struct twir_operand o, enum twir_scalar to);
const char *twir_type_text(struct twir_parser *p, struct twir_type t);
const struct twir_expr *twir_wide_choice(struct twir_parser *p, enum twir_kind k, const struct twir_expr *c,
					 struct twir_operand a, struct twir_operand b);
struct twir_operand twir_parse_binary(struct twir_parser *p, int least);
enum { TWIR_SHIFT_LEVEL = 5 }; /* the level of << >>: everything that binds tighter than comparisons */

/* parse_primary.c */
struct twir_operand twir_parse_primary(struct twir_parser *p);
struct twir_tensor *twir_tensor_named(struct twir_parser *p, const char *what);
int twir_parse_index(struct twir_parser *p, const struct twir_tensor *t, const struct twir_expr **index, int *wide);
bool twir_at_number(struct twir_parser *p); /* a number, inf or nan comes next */
struct twir_operand twir_literal(struct twir_parser *p, bool minus);

/* parse_decl.c */
struct twir_type twir_parse_type(struct twir_parser *p);
struct twir_tensor *twir_parse_tensor(struct twir_parser *p, enum twir_scope scope, struct twir_tok *at);
const struct twir_map *twir_parse_map(struct twir_parser *p);
bool twir_parse_level(struct twir_parser *p, enum twir_level *level);

/* parse_launch.c */
struct twir_stmt *twir_parse_invoke(struct twir_parser *p, const struct twir_tok *at);
void twir_parse_launch(struct twir_parser *p);

/* parse.c */
struct twir_tensor *twir_parse_param(struct twir_parser *p);

/* parse_stmt.c */
struct twir_stmt *twir_parse_block(struct twir_parser *p);

#endif
