/* arena.c: memory by lifetime, and the growable arrays that live in it.
 *
 * Input: sizes. Output: zeroed memory that stays until the arena is freed or a mark before it is released.
 * Invariants: blocks form a list, newest first; within a block everything at or above `dirty` is still zero as calloc gave it;
 * a failed or overflowing request raises TW_ERR_MEMORY and leaves the arena as it was. */
#include "base/base.h"

#include <stdio.h>
#include <stdlib.h>

/* Under the address sanitizer what is not given out is out of bounds, with a gap behind each allocation. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) && !defined(__SANITIZE_ADDRESS__)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#define FORBID(at, n) __asan_poison_memory_region((at), (n))
#define ALLOW(at, n)  __asan_unpoison_memory_region((at), (n))
#define GAP	      16
#else
#define FORBID(at, n) ((void)(at), (void)(n))
#define ALLOW(at, n)  ((void)(at), (void)(n))
#define GAP	      0
#endif

#define FIRST_BLOCK ((size_t)16 << 10)
#define LAST_BLOCK  ((size_t)1 << 20)
#define MAX_REQUEST (SIZE_MAX / 4)
#define WIDE_ALIGN  64

struct block {
	struct block *older;
	size_t size;  /* bytes of payload */
	size_t used;  /* given out */
	size_t dirty; /* highest `used` ever: above it all is zero */
	char *at;     /* payload, aligned to WIDE_ALIGN */
};

struct tw_arena {
	struct block *newest;
	size_t next_size;
	size_t total;
	struct tw_arena *parent, *children, *next; /* next: of the parent's children */
};

struct tw_arena *arena_new(void)
{
	struct tw_arena *a = calloc(1, sizeof(*a));
	if (!a)
		tw_raise(TW_ERR_MEMORY, "out of memory");
	a->next_size = FIRST_BLOCK;
	return a;
}

struct tw_arena *arena_child(struct tw_arena *parent)
{
	struct tw_arena *a = arena_new();
	a->parent = parent;
	a->next = parent->children;
	parent->children = a;
	return a;
}

static void leave_parent(struct tw_arena *a)
{
	struct tw_arena **at = &a->parent->children;
	while (*at != a)
		at = &(*at)->next;
	*at = a->next;
}

static void drop_newest(struct tw_arena *a)
{
	struct block *b = a->newest;
	a->newest = b->older;
	a->total -= b->size;
	ALLOW(b->at, b->size);
	free(b);
}

void arena_free(struct tw_arena *a)
{
	if (!a)
		return;
	if (a->parent)
		leave_parent(a);
	while (a->children)
		arena_free(a->children);
	while (a->newest)
		drop_newest(a);
	free(a);
}

static void add_block(struct tw_arena *a, size_t bytes)
{
	size_t size = a->next_size;
	if (bytes > size)
		size = bytes;
	struct block *b = calloc(1, sizeof(*b) + size + WIDE_ALIGN);
	if (!b)
		tw_raise(TW_ERR_MEMORY, "out of memory (%zu bytes)", bytes);
	const uintptr_t start = (uintptr_t)(b + 1);
	b->at = (char *)(b + 1) + (-start & (WIDE_ALIGN - 1));
	b->size = size;
	b->older = a->newest;
	a->newest = b;
	a->total += size;
	FORBID(b->at, size);
	if (a->next_size < LAST_BLOCK)
		a->next_size *= 2;
}

void *arena_alloc(struct tw_arena *a, size_t bytes)
{
	if (bytes > MAX_REQUEST)
		tw_raise(TW_ERR_MEMORY, "out of memory (%zu bytes)", bytes);
	const size_t align = bytes >= WIDE_ALIGN ? WIDE_ALIGN : 16;
	struct block *b = a->newest;
	size_t start = b ? (b->used + align - 1) & ~(align - 1) : 0;
	/* A request of nothing still gets an address of its own. */
	const size_t need = (bytes ? bytes : 1) + GAP;
	if (!b || start > b->size || need > b->size - start) {
		add_block(a, need);
		b = a->newest;
		start = 0;
	}
	char *p = b->at + start;
	b->used = start + need;
	ALLOW(p, need - GAP);
	if (start < b->dirty)
		memset(p, 0, need - GAP < b->dirty - start ? need - GAP : b->dirty - start);
	if (b->dirty < b->used)
		b->dirty = b->used;
	return p;
}

void *arena_alloc_array(struct tw_arena *a, size_t size, int64_t n)
{
	size_t bytes;
	if (n < 0 || __builtin_mul_overflow(size, (size_t)n, &bytes))
		tw_raise(TW_ERR_MEMORY, "out of memory (%lld elements of %zu bytes)", (long long)n, size);
	return arena_alloc(a, bytes);
}

void *arena_copy(struct tw_arena *a, const void *from, size_t bytes)
{
	void *p = arena_alloc(a, bytes);
	if (bytes)
		memcpy(p, from, bytes);
	return p;
}

char *arena_strndup(struct tw_arena *a, const char *s, size_t n)
{
	n = strnlen(s, n);
	char *p = arena_alloc(a, n + 1);
	memcpy(p, s, n);
	return p;
}

char *arena_strdup(struct tw_arena *a, const char *s)
{
	return arena_copy(a, s, strlen(s) + 1);
}

char *arena_printf(struct tw_arena *a, const char *fmt, ...)
{
	va_list args, again;
	va_start(args, fmt);
	va_copy(again, args);
	const int n = vsnprintf(NULL, 0, fmt, args);
	va_end(args);
	if (n < 0) {
		va_end(again);
		tw_raise(TW_ERR_INTERNAL, "a text could not be formatted: %s", fmt);
	}
	char *p = arena_alloc(a, (size_t)n + 1);
	vsnprintf(p, (size_t)n + 1, fmt, again);
	va_end(again);
	return p;
}

struct arena_mark arena_mark(struct tw_arena *a)
{
	return (struct arena_mark){a->newest, a->newest ? a->newest->used : 0};
}

void arena_release(struct tw_arena *a, struct arena_mark m)
{
	while (a->newest && a->newest != m.block)
		drop_newest(a);
	if (!a->newest)
		return;
	a->newest->used = m.used;
	FORBID(a->newest->at + m.used, a->newest->size - m.used);
}

size_t arena_bytes(const struct tw_arena *a)
{
	return a->total;
}

void vec_grow(struct tw_arena *a, void **at, int *cap, int n, size_t size)
{
	if (n < *cap)
		return;
	if (n >= INT32_MAX / 2)
		tw_raise(TW_ERR_MEMORY, "out of memory (%d elements of %zu bytes)", n, size);
	const int bigger = *cap < 4 ? 8 : *cap * 2;
	void *p = arena_alloc_array(a, size, bigger);
	if (n)
		memcpy(p, *at, (size_t)n * size);
	*at = p;
	*cap = bigger;
}
