/* ir_int: what the files of ir/ share and other rooms must not use. */
#ifndef TW_IR_INT_H
#define TW_IR_INT_H

#include "ir/ir.h"

/* names.c */
bool twir_reserved(const char *name); /* a word of the language */
const char *twir_word(int i);	      /* the words that no table of types, levels or operations holds; NULL ends */
bool twir_special_number(const char *name);				/* inf, nan, inf_f64 .. */
const char *twir_unique(struct twir_module *m, const char *identifier); /* takes identifier, or identifier_1 .. */
/* In a map of the module, or else in those of the modules under it. */
void *twir_look(const struct twir_module *m, size_t map, const char *key);
#define TWIR_LOOK(m, map, key) twir_look((m), offsetof(struct twir_module, map), (key))
struct twir_var *twir_var_exact(struct twir_module *m, enum twir_var_kind kind, struct twir_type type,
				const char *name);
struct twir_tensor *twir_tensor_exact(struct twir_module *m, const char *name, enum twir_scalar type, int rank,
				      const struct twir_expr *const *shape, enum twir_scope scope);

/* check.c: why a node cannot be built of these arguments; NULL: it can. The constructors call them our fault, the
 * parser the text's. */
const char *twir_bad_unary(enum twir_kind k, const struct twir_expr *a);
const char *twir_bad_binary(enum twir_kind k, const struct twir_expr *a, const struct twir_expr *b);
const char *twir_bad_fma(const struct twir_expr *a, const struct twir_expr *b, const struct twir_expr *c);
const char *twir_bad_dot4(const struct twir_expr *a, const struct twir_expr *b, const struct twir_expr *c);
const char *twir_bad_choice(enum twir_kind k, const struct twir_expr *c, const struct twir_expr *a,
			    const struct twir_expr *b);
const char *twir_bad_cast(enum twir_scalar to, const struct twir_expr *a);
const char *twir_bad_bitcast(enum twir_scalar to, const struct twir_expr *a);
const char *twir_bad_call(const struct twir_func *f, int n, const struct twir_expr *const *args);
const char *twir_bad_load(const struct twir_tensor *t, int n, const struct twir_expr *const *index, int lanes,
			  const struct twir_expr *mask, const struct twir_expr *other);
const char *twir_bad_gather(const struct twir_tensor *t, const struct twir_expr *index, const struct twir_expr *mask,
			    const struct twir_expr *other);
const char *twir_bad_fold(enum twir_kind op, int n, struct twir_var *const *axes,
			  const struct twir_expr *const *extents, const struct twir_expr *body);
const char *twir_bad_reduce(enum twir_kind op, const struct twir_expr *v);
const char *twir_bad_prefetch(const struct twir_tensor *t, int n, const struct twir_expr *const *index);
const char *twir_bad_store(const struct twir_tensor *t, int n, const struct twir_expr *const *index,
			   const struct twir_expr *value, const struct twir_expr *mask);
const char *twir_bad_fragment(const struct twir_mma *shape, enum twir_operand_of which, const struct twir_fragment *f);
const char *twir_bad_argument(const struct twir_tensor *param, const struct twir_argument *a);
const char *twir_bad_copy(const struct twir_tensor *t, const struct twir_expr *value);
const char *twir_bad_extents(int n, const struct twir_expr *const *extent); /* sizes: scalars of type index */
bool twir_is_combiner(enum twir_kind op);				    /* of folds and reductions */
bool twir_combines_type(enum twir_kind op, struct twir_type t);
bool twir_whole_register(
	const struct twir_expr
		*e); /* a load of element 0 .. 0 of a register tensor: what a reduce over lanes is given */

/* build.c */
struct twir_key { /* an expression about to be interned */
	enum twir_kind kind;
	struct twir_type type;
	int n;
	const struct twir_expr *const *args;
	int op, nidx;
	int64_t i;
	double f;
	void *ptr; /* var, tensor, func */
	struct twir_var *const *axes;
};
void twir_own_tables(struct twir_module *m, struct tw_arena *a); /* empty ones, for what m makes from here on, in a */
const struct twir_expr *twir_intern(struct twir_module *m, const struct twir_key *k);
int64_t twir_wrap(enum twir_scalar s, int64_t v); /* to the width of an integer type */
const struct twir_expr *twir_splat_to(struct twir_module *m, const struct twir_expr *a,
				      int lanes); /* a itself when it has the lanes */

/* maps.c */
const struct twir_map *twir_map_basic(struct twir_module *m, enum twtm_kind kind, int rank,
				      const struct twir_expr *const *extent, const int *ranks,
				      const enum twtm_attr *attrs);
const char *twir_bad_compose(const struct twir_map *a, const struct twir_map *b);
const char *twir_bad_project(const struct twir_map *a, unsigned dims);
void twir_visit_map(const struct twir_map *f, void (*visit)(void *arg, const struct twir_expr *e), void *arg);
void twir_visit_layout(const struct twir_layout *l, void (*visit)(void *arg, const struct twir_expr *e), void *arg);
void twir_visit_tensor(const struct twir_tensor *t, void (*visit)(void *arg, const struct twir_expr *e), void *arg);
void twir_visit_program(const struct twir_program *p, void (*visit)(void *arg, const struct twir_expr *e), void *arg);
const char *twir_bad_swizzle(enum twir_layout_kind kind, int rank, const struct twir_expr *const *extent,
			     const struct twir_swizzle *s);
const struct twir_layout *twir_layout_make(struct twir_module *m, enum twir_layout_kind kind, int rank,
					   const struct twir_expr *const *extent, const struct twir_layout *inner);

/* number.c: constants as text, exact. Decimals where few digits do, else hexadecimal floats; the type is a suffix
 * unless it is index, or f32 and no suffix is asked for. */
void twir_print_const(struct tw_buf *b, const struct twir_expr *e, bool suffix);
/* The value of a float literal (no sign, no suffix); false: malformed or more digits than a double holds. */
bool twir_float_literal(const char *s, size_t n, double *value);

/* print_expr.c */
struct twir_printer {
	struct tw_buf b;
	struct tw_strmap used;	 /* names in scope -> the object */
	struct tw_map given;	 /* object -> its name */
	VEC(const void *) scope; /* objects that have a name now, innermost last */
	bool suffixes;		 /* f32 constants have theirs: without, they would take the type around them */
};
void twir_printer_init(struct twir_printer *p, struct tw_arena *a);
void twir_print_leave(struct twir_printer *p, int mark); /* names given since scope.n was mark are free again */
const char *twir_print_name(struct twir_printer *p, const void *object, const char *base);
const char *twir_print_var(struct twir_printer *p, const struct twir_var *v);
const char *twir_print_tensor(struct twir_printer *p, const struct twir_tensor *t);
void twir_print_symbols(void *printer, const struct twir_expr *e); /* reserves the names of the symbols in e */
void twir_print_list(struct twir_printer *p, int n, const struct twir_expr *const *list);
void twir_put_expr(struct twir_printer *p, const struct twir_expr *e);
void twir_put_map(struct twir_printer *p, const struct twir_map *f);
const char *twir_fold_name(enum twir_kind op);	   /* "sum", "fold_max" .. */
const char *twir_combiner_name(enum twir_kind op); /* "add", "max" .. */

const char *twir_layout_word(enum twir_layout_kind kind); /* print.c: "row" */
const char *twir_print_head(struct tw_arena *a,
			    const struct twir_stmt *s); /* print.c: the first line of a statement, for messages */

/* alpha.c: equality up to the names of binders */
struct twir_pairs { /* binders that correspond: left[i] with right[i] */
	int n;
	struct twir_var *left[64], *right[64];
};
bool twir_same_expr(struct twir_pairs *p, const struct twir_expr *a, const struct twir_expr *b);
bool twir_same_func(const struct twir_func *f, const struct twir_func *g);

/* walk.c: a set of pointers that needs no arena while it is small */
#define TWIR_SEEN_SLOTS 256
struct twir_seen {
	struct tw_arena *arena;
	struct tw_map big;
	int n;
	const void *small[TWIR_SEEN_SLOTS]; /* open addressing */
};
void twir_seen_init(struct twir_seen *s);
bool twir_seen_add(struct twir_seen *s, const void *p); /* false: it was there */
void twir_seen_free(struct twir_seen *s);

#endif
