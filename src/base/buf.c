/* buf.c: a growing text or byte buffer in an arena.
 *
 * Input: pieces of text or bytes. Output: their concatenation in b->at, b->n bytes and a NUL after them.
 * Invariant: b->n < b->cap, and b->at[b->n] is NUL. */
#include "base/base.h"

#include <stdio.h>

void buf_init(struct tw_buf *b, struct tw_arena *a)
{
	b->arena = a;
	b->n = 0;
	b->cap = 64;
	b->at = arena_alloc(a, b->cap);
}

static void reserve(struct tw_buf *b, size_t more)
{
	if (more > SIZE_MAX / 4 - b->n)
		tw_raise(TW_ERR_MEMORY, "out of memory (%zu bytes)", more);
	const size_t need = b->n + more + 1;
	if (need <= b->cap)
		return;
	size_t cap = b->cap * 2;
	if (cap < need)
		cap = need;
	char *at = arena_alloc(b->arena, cap);
	memcpy(at, b->at, b->n + 1);
	b->at = at;
	b->cap = cap;
}

void buf_bytes(struct tw_buf *b, const void *from, size_t n)
{
	reserve(b, n);
	if (n)
		memcpy(b->at + b->n, from, n);
	b->n += n;
	b->at[b->n] = 0;
}

void buf_puts(struct tw_buf *b, const char *s)
{
	buf_bytes(b, s, strlen(s));
}

void buf_putc(struct tw_buf *b, char c)
{
	buf_bytes(b, &c, 1);
}

void buf_printf(struct tw_buf *b, const char *fmt, ...)
{
	va_list args, again;
	va_start(args, fmt);
	va_copy(again, args);
	const int n = vsnprintf(b->at + b->n, b->cap - b->n, fmt, args);
	va_end(args);
	if (n < 0) {
		va_end(again);
		tw_raise(TW_ERR_INTERNAL, "a text could not be formatted: %s", fmt);
	}
	if ((size_t)n >= b->cap - b->n) {
		b->at[b->n] = 0; /* the cut first try does not count */
		reserve(b, (size_t)n);
		vsnprintf(b->at + b->n, b->cap - b->n, fmt, again);
	}
	va_end(again);
	b->n += (size_t)n;
}
