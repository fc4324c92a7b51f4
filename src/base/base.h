/* base: arenas, vectors, text buffers, hash maps, errors. The room everything else may use; depends on libc and xxHash. */
#ifndef TW_BASE_H
#define TW_BASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define TW_PRINTF(f, a) __attribute__((format(printf, f, a)))
#define TW_COUNT(a)	((int)(sizeof(a) / sizeof((a)[0])))

/* error.c: errors are raised in the compiler core, caught by tw_try, and passed on as struct tw_error elsewhere. */

enum tw_code {
#define ERROR(name, exit, text) TW_ERR_##name,
#include "errors.def"
#undef ERROR
	TW_ERR_COUNT
};
#define TW_ERR_NONE TW_ERR_OK

struct tw_error {
	enum tw_code code;
	char text[4096]; /* one or more lines, no final newline; truncated, never overrun */
};

const char *tw_code_text(enum tw_code code);
int tw_code_exit(enum tw_code code);
void tw_error_set(struct tw_error *e, enum tw_code code, const char *fmt, ...) TW_PRINTF(3, 4);

/* Runs fn(arg); returns true when it returned, false when it raised, then *e tells. Calls nest; each thread has its own chain.
   What fn allocated must be in arenas that the caller frees. */
bool tw_try(struct tw_error *e, void (*fn)(void *arg), void *arg);
/* Never returns. Outside any tw_try it prints the text and aborts. */
_Noreturn void tw_raise(enum tw_code code, const char *fmt, ...) TW_PRINTF(2, 3);
_Noreturn void tw_raise_error(const struct tw_error *e);
/* For what only a fault of ours can break: raises TW_ERR_INTERNAL with file, line and condition. */
#define TW_CHECK(cond, ...) ((cond) ? (void)0 : tw_check_failed(__FILE__, __LINE__, #cond, "" __VA_ARGS__))
_Noreturn void tw_check_failed(const char *file, int line, const char *cond, const char *fmt, ...) TW_PRINTF(4, 5);

/* arena.c: memory by lifetime. Allocations are zeroed and 16-byte aligned (64 for sizes of 64 and more). Failure raises TW_ERR_MEMORY. */

struct tw_arena;
struct tw_arena *arena_new(void);
struct tw_arena *arena_child(struct tw_arena *parent); /* freed with its parent, if not before */
void arena_free(struct tw_arena *a);		       /* NULL is allowed */
void *arena_alloc(struct tw_arena *a, size_t bytes);
void *arena_copy(struct tw_arena *a, const void *from, size_t bytes);
char *arena_strdup(struct tw_arena *a, const char *s);
char *arena_strndup(struct tw_arena *a, const char *s, size_t n);
char *arena_printf(struct tw_arena *a, const char *fmt, ...) TW_PRINTF(2, 3);
#define ARENA_NEW(a, T)	     ((T *)arena_alloc((a), sizeof(T)))
#define ARENA_ARRAY(a, T, n) ((T *)arena_alloc_array((a), sizeof(T), (n)))
void *arena_alloc_array(struct tw_arena *a, size_t size, int64_t n); /* overflow-checked; n = 0 gives a valid pointer */
/* Everything allocated after a mark is given back by release. */
struct arena_mark {
	void *block;
	size_t used;
};
struct arena_mark arena_mark(struct tw_arena *a);
void arena_release(struct tw_arena *a, struct arena_mark m);
size_t arena_bytes(const struct tw_arena *a);

/* vec: growable arrays in an arena.  VEC(int) v = {0}; vec_push(arena, &v, 3); v.at[0]; v.n */
#define VEC(T)                                                                                                         \
	struct {                                                                                                       \
		T *at;                                                                                                 \
		int n, cap;                                                                                            \
	}
#define vec_push(arena, v, x)                                                                                          \
	(vec_grow((arena), (void **)&(v)->at, &(v)->cap, (v)->n, sizeof(*(v)->at)), (v)->at[(v)->n++] = (x))
void vec_grow(struct tw_arena *a, void **at, int *cap, int n, size_t size);

/* buf.c: a growing text or byte buffer in an arena; always NUL-terminated. */
struct tw_buf {
	struct tw_arena *arena;
	char *at;
	size_t n, cap;
};
void buf_init(struct tw_buf *b, struct tw_arena *a);
void buf_printf(struct tw_buf *b, const char *fmt, ...) TW_PRINTF(2, 3);
void buf_puts(struct tw_buf *b, const char *s);
void buf_putc(struct tw_buf *b, char c);
void buf_bytes(struct tw_buf *b, const void *from, size_t n);

/* map.c: hash maps in an arena. Values are pointers; NULL is "absent". */
struct tw_map { /* key: any 64-bit number, pointers included */
	struct tw_arena *arena;
	uint64_t *keys;
	void **values;
	int64_t n, cap;
};
void map_init(struct tw_map *m, struct tw_arena *a);
void *map_get(const struct tw_map *m, uint64_t key);
void map_set(struct tw_map *m, uint64_t key, void *value);
#define map_get_ptr(m, p)    map_get((m), (uint64_t)(uintptr_t)(p))
#define map_set_ptr(m, p, v) map_set((m), (uint64_t)(uintptr_t)(p), (v))
struct tw_strmap { /* key: a string, copied into the arena */
	struct tw_arena *arena;
	const char **keys;
	void **values;
	int64_t n, cap;
};
void strmap_init(struct tw_strmap *m, struct tw_arena *a);
void *strmap_get(const struct tw_strmap *m, const char *key);
void strmap_set(struct tw_strmap *m, const char *key, void *value);

/* hash.c: xxHash's 64- and 128-bit hashes */
uint64_t tw_hash64(const void *at, size_t n, uint64_t seed);
static inline uint64_t tw_hash_mix(uint64_t h, uint64_t x)
{
	h ^= x + 0x9e3779b97f4a7c15u + (h << 6) + (h >> 2);
	h ^= h >> 32;
	h *= 0xd6e8feb86659fd93u;
	return h ^ (h >> 29);
}
/* 32 lower-case hexadecimal digits and a NUL */
void tw_hash128_hex(const void *at, size_t n, char out[33]);

/* pages.c: gives back the whole pages within a part of a private, unwritten file mapping (read
   again when next looked at), or of memory whose content is not needed any more. */
void tw_drop_pages(const void *at, int64_t bytes);
void tw_trim(void); /* freed memory goes back to the system, where the allocator can */

/* cgroup.c: what the control groups of this process grant: whole processors, rounded up; bytes. 0: no limit. root: "", or for tests a
   folder with proc and sys below it. */
int tw_cgroup_cpus(const char *root);
int64_t tw_cgroup_memory(const char *root);

/* checked.c: overflow-checked arithmetic on sizes; *bad becomes true (and stays) when a result does not fit. */
int64_t tw_mul64(int64_t a, int64_t b, bool *bad);
int64_t tw_add64(int64_t a, int64_t b, bool *bad);
static inline int64_t tw_floordiv(int64_t a, int64_t b) /* b = 0 gives 0 */
{
	if (b == 0)
		return 0;
	if (b == -1)
		return (int64_t)(0 - (uint64_t)a);
	return a / b - (a % b != 0 && (a % b < 0) != (b < 0));
}
static inline int64_t tw_floormod(int64_t a, int64_t b) /* sign of b; b = 0 gives 0 */
{
	if (b == 0 || b == -1)
		return 0;
	const int64_t r = a % b;
	return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

/* scalar.c: conversions of storage types, all rounding half to even; the interpreter and the importer share them. */
float tw_f16_to_f32(uint16_t h);
uint16_t tw_f32_to_f16(float f);
uint16_t tw_f64_to_f16(double f);
float tw_bf16_to_f32(uint16_t h);
uint16_t tw_f32_to_bf16(float f);

#endif
