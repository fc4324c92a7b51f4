/* problems.c: what is wrong with a model, gathered while it is imported and raised once.
 *
 * Input: complaints as they are found; things that are not supported are told once, with the first nodes that need them. Output: the
 * graph's list of complaints, and one error with as many of them as its text holds: TW_ERR_MODEL where any is a fault of the model,
 * else TW_ERR_UNSUPPORTED. What can be inferred in spite of them is, so that nodes elsewhere are judged too. */
#include "onnx/onnx_int.h"
#include "ops/op.h"

#include <stdio.h>

void onnx_unsupported(struct onnx_problems *x, const char *node, const char *what)
{
	const uintptr_t at = (uintptr_t)strmap_get(&x->index, what);
	if (!at) {
		const struct onnx_problem p = {
			.what = what, .count = 1, .names = node ? arena_printf(x->arena, ": '%s'", node) : ""};
		vec_push(x->arena, &x->list, p);
		strmap_set(&x->index, what, (void *)(uintptr_t)x->list.n);
		return;
	}
	struct onnx_problem *p = &x->list.at[at - 1];
	if (p->count < 3)
		p->names = arena_printf(x->arena, "%s, '%s'", p->names, node);
	p->count++;
}

void onnx_malformed(struct onnx_problems *x, const char *fmt, ...)
{
	char text[1024];
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	if (strmap_get(&x->index, text))
		return;
	const struct onnx_problem p = {.what = arena_strdup(x->arena, text)};
	vec_push(x->arena, &x->list, p);
	strmap_set(&x->index, text, (void *)(uintptr_t)x->list.n);
	x->malformed = true;
}

static void infer(void *g)
{
	tw_infer(g);
}

/* The lines of all complaints, as many as fit; the rest is counted. */
static const char *text_of(struct tw_arena *a, const struct tw_graph *g, const char *title)
{
	enum { MOST = 3800 };
	struct tw_buf b;
	buf_init(&b, a);
	buf_puts(&b, title);
	for (int i = 0; i < g->complaints.n; i++) {
		if (b.n > MOST) {
			buf_printf(&b, "\n  and %d more", g->complaints.n - i);
			break;
		}
		buf_printf(&b, "\n  %.600s", g->complaints.at[i].text);
	}
	return b.at;
}

void onnx_raise_problems(struct onnx_problems *x, struct tw_graph *g, const char *model)
{
	struct tw_error e;
	if (!x->list.n)
		return;
	for (int i = 0; i < x->list.n; i++) {
		const struct onnx_problem *p = &x->list.at[i];
		const char *more = p->count > 3 ? arena_printf(x->arena, " and %d more", p->count - 3) : "";
		const struct tw_complaint c = {
			.code = p->count ? TW_ERR_UNSUPPORTED : TW_ERR_MODEL,
			.text = p->count ? arena_printf(x->arena, "%.300s%.200s%s", p->what, p->names, more) : p->what};
		vec_push(x->arena, &g->complaints, c);
	}
	if (!x->tangled && !tw_try(&e, infer, g) && e.code != TW_ERR_MODEL && e.code != TW_ERR_UNSUPPORTED)
		tw_raise_error(&e);
	for (int i = 0; i < g->complaints.n; i++)
		x->malformed |= g->complaints.at[i].code == TW_ERR_MODEL;
	const int n = g->complaints.n;
	const char *title = x->malformed ? arena_printf(x->arena, "%s has %d problems:", model, n)
					 : arena_printf(x->arena, "%s needs %d thing%s that %s not supported:", model,
							n, n == 1 ? "" : "s", n == 1 ? "is" : "are");
	const bool alone = x->malformed && n == 1;
	tw_raise(x->malformed ? TW_ERR_MODEL : TW_ERR_UNSUPPORTED, "%s",
		 alone ? g->complaints.at[0].text : text_of(x->arena, g, title));
}
