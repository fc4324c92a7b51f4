/* map.c: hash maps in an arena, keyed by numbers or by strings.
 *
 * Input: keys and pointer values. Output: the value last set for a key, NULL when none.
 * Invariants: open addressing with linear probing; cap is 0 or a power of two; at most 3/4 of the slots are taken; a slot is taken
 * exactly when its value is not NULL, so setting NULL removes the entry and closes the gap. */
#include "base/base.h"

#define FIRST_CAP 16

static uint64_t hash_number(uint64_t key)
{
	return tw_hash_mix(0, key);
}

static uint64_t hash_string(const char *key)
{
	return tw_hash64(key, strlen(key), 0);
}

/* Whether the entry in slot `at`, whose home is `home`, may move back to the free slot `gap`: home must not lie in (gap, at]. */
static bool may_move(uint64_t home, uint64_t gap, uint64_t at, uint64_t mask)
{
	return ((at - home) & mask) >= ((at - gap) & mask);
}

void map_init(struct tw_map *m, struct tw_arena *a)
{
	*m = (struct tw_map){.arena = a};
}

/* The slot that holds the key, or the free slot where it would go. */
static int64_t map_slot(const struct tw_map *m, uint64_t key)
{
	const uint64_t mask = (uint64_t)m->cap - 1;
	uint64_t i = hash_number(key) & mask;
	while (m->values[i] && m->keys[i] != key)
		i = (i + 1) & mask;
	return (int64_t)i;
}

void *map_get(const struct tw_map *m, uint64_t key)
{
	return m->cap ? m->values[map_slot(m, key)] : NULL;
}

static void map_grow(struct tw_map *m)
{
	struct tw_map bigger = {.arena = m->arena, .n = m->n, .cap = m->cap ? m->cap * 2 : FIRST_CAP};
	bigger.keys = ARENA_ARRAY(m->arena, uint64_t, bigger.cap);
	bigger.values = ARENA_ARRAY(m->arena, void *, bigger.cap);
	for (int64_t i = 0; i < m->cap; i++) {
		if (!m->values[i])
			continue;
		const int64_t to = map_slot(&bigger, m->keys[i]);
		bigger.keys[to] = m->keys[i];
		bigger.values[to] = m->values[i];
	}
	*m = bigger;
}

static void map_remove(struct tw_map *m, uint64_t key)
{
	if (!m->cap)
		return;
	const uint64_t mask = (uint64_t)m->cap - 1;
	uint64_t gap = (uint64_t)map_slot(m, key);
	if (!m->values[gap])
		return;
	m->n--;
	for (uint64_t i = (gap + 1) & mask; m->values[i]; i = (i + 1) & mask) {
		if (!may_move(hash_number(m->keys[i]) & mask, gap, i, mask))
			continue;
		m->keys[gap] = m->keys[i];
		m->values[gap] = m->values[i];
		gap = i;
	}
	m->values[gap] = NULL;
}

void map_set(struct tw_map *m, uint64_t key, void *value)
{
	if (!value) {
		map_remove(m, key);
		return;
	}
	if ((m->n + 1) * 4 > m->cap * 3)
		map_grow(m);
	const int64_t i = map_slot(m, key);
	m->n += !m->values[i];
	m->keys[i] = key;
	m->values[i] = value;
}

void strmap_init(struct tw_strmap *m, struct tw_arena *a)
{
	*m = (struct tw_strmap){.arena = a};
}

static int64_t strmap_slot(const struct tw_strmap *m, const char *key)
{
	const uint64_t mask = (uint64_t)m->cap - 1;
	uint64_t i = hash_string(key) & mask;
	while (m->values[i] && strcmp(m->keys[i], key) != 0)
		i = (i + 1) & mask;
	return (int64_t)i;
}

void *strmap_get(const struct tw_strmap *m, const char *key)
{
	return m->cap ? m->values[strmap_slot(m, key)] : NULL;
}

static void strmap_grow(struct tw_strmap *m)
{
	struct tw_strmap bigger = {.arena = m->arena, .n = m->n, .cap = m->cap ? m->cap * 2 : FIRST_CAP};
	bigger.keys = ARENA_ARRAY(m->arena, const char *, bigger.cap);
	bigger.values = ARENA_ARRAY(m->arena, void *, bigger.cap);
	for (int64_t i = 0; i < m->cap; i++) {
		if (!m->values[i])
			continue;
		const int64_t to = strmap_slot(&bigger, m->keys[i]);
		bigger.keys[to] = m->keys[i];
		bigger.values[to] = m->values[i];
	}
	*m = bigger;
}

static void strmap_remove(struct tw_strmap *m, const char *key)
{
	if (!m->cap)
		return;
	const uint64_t mask = (uint64_t)m->cap - 1;
	uint64_t gap = (uint64_t)strmap_slot(m, key);
	if (!m->values[gap])
		return;
	m->n--;
	for (uint64_t i = (gap + 1) & mask; m->values[i]; i = (i + 1) & mask) {
		if (!may_move(hash_string(m->keys[i]) & mask, gap, i, mask))
			continue;
		m->keys[gap] = m->keys[i];
		m->values[gap] = m->values[i];
		gap = i;
	}
	m->values[gap] = NULL;
	m->keys[gap] = NULL;
}

void strmap_set(struct tw_strmap *m, const char *key, void *value)
{
	if (!value) {
		strmap_remove(m, key);
		return;
	}
	if ((m->n + 1) * 4 > m->cap * 3)
		strmap_grow(m);
	const int64_t i = strmap_slot(m, key);
	if (!m->values[i]) {
		m->keys[i] = arena_strdup(m->arena, key);
		m->n++;
	}
	m->values[i] = value;
}
