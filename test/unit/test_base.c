/* rooms: base */
/* test_base.c: arenas, vectors, buffers, maps, hashes, errors, checked arithmetic, conversions of storage types. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/base.h"

#define UNUSED __attribute__((unused))

static void arena_zeroed_and_aligned(void **state UNUSED)
{
	struct tw_arena *a = arena_new();
	const struct arena_mark empty = arena_mark(a);
	for (int round = 0; round < 3; round++) {
		for (size_t n = 0; n < 3000; n += 7) {
			unsigned char *p = arena_alloc(a, n);
			assert_int_equal((uintptr_t)p % (n >= 64 ? 64 : 16), 0);
			for (size_t i = 0; i < n; i++)
				assert_int_equal(p[i], 0);
			memset(p, 0xff, n);
		}
		assert_true(arena_bytes(a) > 0);
		arena_release(a, empty);
		assert_int_equal(arena_bytes(a), 0);
	}
	char *kept = arena_strdup(a, "kept");
	const struct arena_mark m = arena_mark(a);
	memset(arena_alloc(a, 100), 0xff, 100);
	memset(arena_alloc(a, 5000000), 0xff, 5000000);
	arena_release(a, m);
	const char *again = arena_alloc(a, 100);
	for (int i = 0; i < 100; i++)
		assert_int_equal(again[i], 0);
	assert_string_equal(kept, "kept");
	assert_ptr_not_equal(arena_alloc(a, 0), arena_alloc(a, 0));
	assert_string_equal(arena_printf(a, "%s-%d", "x", 7), "x-7");
	assert_string_equal(arena_strndup(a, "abcdef", 3), "abc");
	assert_string_equal(arena_strndup(a, "ab", 30), "ab");
	arena_free(a);
	arena_free(NULL);
}

static void huge_array(void *arg)
{
	arena_alloc_array(arg, 1 << 20, INT64_MAX / 4);
}

static void huge_bytes(void *arg)
{
	arena_alloc(arg, SIZE_MAX - 5);
}

static void negative_array(void *arg)
{
	arena_alloc_array(arg, 4, -1);
}

static void arena_refuses_overflow(void **state UNUSED)
{
	struct tw_arena *a = arena_new();
	struct tw_error e;
	assert_false(tw_try(&e, huge_array, a));
	assert_int_equal(e.code, TW_ERR_MEMORY);
	assert_false(tw_try(&e, huge_bytes, a));
	assert_int_equal(e.code, TW_ERR_MEMORY);
	assert_false(tw_try(&e, negative_array, a));
	assert_int_equal(e.code, TW_ERR_MEMORY);
	assert_non_null(arena_alloc(a, 10));
	arena_free(a);
}

static void vectors_and_buffers(void **state UNUSED)
{
	struct tw_arena *a = arena_new();
	VEC(int) v = {0};
	for (int i = 0; i < 10000; i++)
		vec_push(a, &v, i * 3);
	assert_int_equal(v.n, 10000);
	for (int i = 0; i < v.n; i++)
		assert_int_equal(v.at[i], i * 3);
	struct tw_buf b;
	buf_init(&b, a);
	assert_string_equal(b.at, "");
	for (int i = 0; i < 1000; i++)
		buf_printf(&b, "%d,", i);
	buf_putc(&b, '!');
	buf_puts(&b, "end");
	size_t at = 0;
	for (int i = 0; i < 1000; i++) {
		char want[16];
		const int n = snprintf(want, sizeof(want), "%d,", i);
		assert_memory_equal(b.at + at, want, n);
		at += (size_t)n;
	}
	assert_string_equal(b.at + at, "!end");
	assert_int_equal(b.n, at + 4);
	buf_bytes(&b, "a\0b", 3);
	assert_int_equal(b.n, at + 7);
	assert_memory_equal(b.at + at + 4, "a\0b", 4);
	arena_free(a);
}

/* A map against an array: set, replace, remove, in a random order with many collisions of small keys. */
static void maps(void **state UNUSED)
{
	enum { N = 700 };
	struct tw_arena *a = arena_new();
	struct tw_map m;
	struct tw_strmap s;
	map_init(&m, a);
	strmap_init(&s, a);
	assert_null(map_get(&m, 0));
	assert_null(strmap_get(&s, ""));
	static int want[N];
	static int cell[100];
	unsigned random = 12345;
	for (int step = 0; step < 60000; step++) {
		random = random * 1664525u + 1013904223u;
		const int k = (int)(random >> 12) % N;
		const int v = (int)(random >> 4) % 100;
		char key[32];
		snprintf(key, sizeof(key), "key%d", k);
		want[k] = v;
		map_set(&m, (uint64_t)k * 16, v ? &cell[v] : NULL);
		strmap_set(&s, key, v ? &cell[v] : NULL);
	}
	int live = 0;
	for (int k = 0; k < N; k++) {
		char key[32];
		snprintf(key, sizeof(key), "key%d", k);
		void *const expect = want[k] ? &cell[want[k]] : NULL;
		assert_ptr_equal(map_get(&m, (uint64_t)k * 16), expect);
		assert_ptr_equal(strmap_get(&s, key), expect);
		live += want[k] != 0;
	}
	assert_int_equal(m.n, live);
	assert_int_equal(s.n, live);
	map_set_ptr(&m, &m, &s);
	assert_ptr_equal(map_get_ptr(&m, &m), &s);
	arena_free(a);
}

static void hashes(void **state UNUSED)
{
	/* Published test values of XXH3: the empty input. */
	char hex[33];
	assert_int_equal(tw_hash64(NULL, 0, 0), 0x2d06800538d394c2u);
	tw_hash128_hex(NULL, 0, hex);
	assert_string_equal(hex, "99aa06d3014798d86001c324468d497f");
	char other[33];
	tw_hash128_hex("a", 1, hex);
	tw_hash128_hex("b", 1, other);
	assert_string_not_equal(hex, other);
	assert_int_equal(strlen(hex), 32);
	assert_int_not_equal(tw_hash64("a", 1, 0), tw_hash64("a", 1, 1));
}

static void raise_model(void *arg)
{
	tw_raise(TW_ERR_MODEL, "bad %s", (const char *)arg);
}

static void nest(void *arg)
{
	struct tw_error inner;
	assert_false(tw_try(&inner, raise_model, arg));
	assert_string_equal(inner.text, "bad thing");
	tw_raise(TW_ERR_INPUT, "outer: %s", inner.text);
}

static void again(void *arg)
{
	tw_raise_error(arg);
}

static void nothing(void *arg)
{
	*(int *)arg = 1;
}

static void check(void *arg)
{
	TW_CHECK(*(int *)arg == 2, "got %d", *(int *)arg);
}

static void very_long(void *arg UNUSED)
{
	char text[10000];
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	tw_raise(TW_ERR_IO, "%s", text);
}

static void errors(void **state UNUSED)
{
	struct tw_error e;
	int ran = 0;
	assert_true(tw_try(&e, nothing, &ran));
	assert_int_equal(ran, 1);
	assert_false(tw_try(&e, nest, "thing"));
	assert_int_equal(e.code, TW_ERR_INPUT);
	assert_string_equal(e.text, "outer: bad thing");
	assert_false(tw_try(NULL, nest, "thing"));
	struct tw_error copy;
	assert_false(tw_try(&copy, again, &e));
	assert_int_equal(copy.code, TW_ERR_INPUT);
	assert_string_equal(copy.text, e.text);
	assert_false(tw_try(&e, check, &ran));
	assert_int_equal(e.code, TW_ERR_INTERNAL);
	assert_non_null(strstr(e.text, "got 1"));
	assert_false(tw_try(&e, very_long, NULL));
	assert_int_equal(strlen(e.text), sizeof(e.text) - 1);
	tw_error_set(&e, TW_ERR_USAGE, "about %s", "it");
	tw_error_set(&e, TW_ERR_USAGE, "[%s]", e.text);
	assert_string_equal(e.text, "[about it]");
	tw_error_set(NULL, TW_ERR_USAGE, "nobody listens");
	assert_int_equal(tw_code_exit(TW_ERR_USAGE), 2);
	assert_int_equal(tw_code_exit(TW_ERR_MODEL), 1);
	assert_int_equal(tw_code_exit((enum tw_code)999), 3);
	assert_string_equal(tw_code_text(TW_ERR_OK), "ok");
}

static void checked(void **state UNUSED)
{
	bool bad = false;
	assert_int_equal(tw_mul64(1 << 20, 1 << 20, &bad), (int64_t)1 << 40);
	assert_int_equal(tw_add64(INT64_MAX, -1, &bad), INT64_MAX - 1);
	assert_false(bad);
	tw_mul64(INT64_MAX, 2, &bad);
	assert_true(bad);
	tw_add64(1, 1, &bad);
	assert_true(bad);
	bad = false;
	tw_add64(INT64_MIN, -1, &bad);
	assert_true(bad);
	for (int64_t a = -20; a <= 20; a++) {
		for (int64_t b = -6; b <= 6; b++) {
			if (b == 0) {
				assert_int_equal(tw_floordiv(a, 0), 0);
				assert_int_equal(tw_floormod(a, 0), 0);
				continue;
			}
			assert_int_equal(tw_floordiv(a, b), (int64_t)floor((double)a / (double)b));
			assert_int_equal(tw_floormod(a, b), a - b * (int64_t)floor((double)a / (double)b));
		}
	}
	assert_int_equal(tw_floordiv(INT64_MIN, -1), INT64_MIN);
	assert_int_equal(tw_floormod(INT64_MIN, -1), 0);
}

static uint32_t bits(float f)
{
	uint32_t u;
	memcpy(&u, &f, 4);
	return u;
}

/* The value of a float16 by its definition. */
static double half_value(uint16_t h)
{
	const int exponent = h >> 10 & 31;
	const double fraction = h & 0x3ff;
	const double magnitude = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
	return h & 0x8000 ? -magnitude : magnitude;
}

static void float16(void **state UNUSED)
{
	for (uint32_t h = 0; h < 0x10000; h++) {
		const float f = tw_f16_to_f32((uint16_t)h);
		if ((h & 0x7c00) == 0x7c00) {
			assert_true((h & 0x3ff) ? isnan(f) : isinf(f));
			assert_int_equal(signbit(f) != 0, h >> 15);
			assert_int_equal((tw_f32_to_f16(f) & 0x7c00), 0x7c00);
			continue;
		}
		assert_true((double)f == half_value((uint16_t)h));
		assert_int_equal(tw_f32_to_f16(f), h);
		/* Between h and its neighbour: nearest, ties to even. 0x7bff's neighbour would be 65536: infinity. */
		const double low = half_value((uint16_t)h);
		const double next =
			(h & 0x7fff) == 0x7bff ? (low < 0 ? -65536.0 : 65536.0) : half_value((uint16_t)(h + 1));
		const double middle = (low + next) / 2;
		const uint16_t even = (uint16_t)(h & 1 ? h + 1 : h);
		assert_int_equal(tw_f64_to_f16(middle), even);
		assert_int_equal(tw_f64_to_f16(nextafter(middle, low)), h);
		assert_int_equal(tw_f64_to_f16(nextafter(middle, next)), h + 1);
		assert_int_equal(tw_f32_to_f16((float)middle), even);
	}
	assert_int_equal(tw_f64_to_f16(1e300), 0x7c00);
	assert_int_equal(tw_f64_to_f16(-INFINITY), 0xfc00);
	assert_int_equal(tw_f64_to_f16(1e-300), 0);
	assert_int_equal(tw_f64_to_f16(-0.0), 0x8000);
	assert_true(isnan(tw_f16_to_f32(tw_f32_to_f16(NAN))));
}

static void bfloat16(void **state UNUSED)
{
	for (uint32_t h = 0; h < 0x10000; h++) {
		const float f = tw_bf16_to_f32((uint16_t)h);
		if (isnan(f)) {
			assert_true(isnan(tw_bf16_to_f32(tw_f32_to_bf16(f))));
			continue;
		}
		assert_int_equal(tw_f32_to_bf16(f), h);
		if (isinf(f))
			continue;
		float tie;
		uint32_t u = bits(f) | 0x8000;
		memcpy(&tie, &u, 4);
		assert_int_equal(tw_f32_to_bf16(tie), h & 1 ? h + 1 : h);
		u--;
		memcpy(&tie, &u, 4);
		assert_int_equal(tw_f32_to_bf16(tie), h);
		u += 2;
		memcpy(&tie, &u, 4);
		assert_int_equal(tw_f32_to_bf16(tie), h + 1);
	}
	assert_int_equal(tw_f32_to_bf16(1.0f), 0x3f80);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(arena_zeroed_and_aligned),
		cmocka_unit_test(arena_refuses_overflow),
		cmocka_unit_test(vectors_and_buffers),
		cmocka_unit_test(maps),
		cmocka_unit_test(hashes),
		cmocka_unit_test(errors),
		cmocka_unit_test(checked),
		cmocka_unit_test(float16),
		cmocka_unit_test(bfloat16),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
