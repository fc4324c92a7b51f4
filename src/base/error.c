/* error.c: raising and catching errors of the compiler core.
 *
 * Input: a code and a text. Output: control returns to the nearest tw_try of the same thread, which fills its struct tw_error.
 * Invariants: setjmp lives in this file only; the chain of tries is per thread; a text is cut, never overrun. */
#include "base/base.h"

#include <stdio.h>
#include <stdlib.h>

struct try_frame {
	jmp_buf env;
	struct try_frame *up;
	struct tw_error *error;
};
static _Thread_local struct try_frame *try_top;

static const struct {
	const char *text;
	int exit;
} codes[] = {
#define ERROR(name, exit, text) {text, exit},
#include "base/errors.def"
#undef ERROR
};
_Static_assert(sizeof(codes) / sizeof(codes[0]) == TW_ERR_COUNT, "one row for each code");

const char *tw_code_text(enum tw_code code)
{
	return (unsigned)code < TW_ERR_COUNT ? codes[code].text : "unknown status";
}

int tw_code_exit(enum tw_code code)
{
	return (unsigned)code < TW_ERR_COUNT ? codes[code].exit : codes[TW_ERR_INTERNAL].exit;
}

/* The arguments may point into e->text, so the text is made aside. */
static void set_text(struct tw_error *e, enum tw_code code, const char *fmt, va_list args)
{
	char text[sizeof(e->text)];
	if (vsnprintf(text, sizeof(text), fmt, args) < 0)
		snprintf(text, sizeof(text), "%s", tw_code_text(code));
	e->code = code;
	memcpy(e->text, text, strlen(text) + 1);
}

void tw_error_set(struct tw_error *e, enum tw_code code, const char *fmt, ...)
{
	if (!e)
		return;
	va_list args;
	va_start(args, fmt);
	set_text(e, code, fmt, args);
	va_end(args);
}

bool tw_try(struct tw_error *e, void (*fn)(void *arg), void *arg)
{
	struct try_frame frame;
	frame.up = try_top;
	frame.error = e;
	if (setjmp(frame.env)) {
		try_top = frame.up;
		return false;
	}
	try_top = &frame;
	fn(arg);
	try_top = frame.up;
	return true;
}

static _Noreturn void jump(void)
{
	longjmp(try_top->env, 1);
}

static _Noreturn void uncaught(const struct tw_error *e)
{
	fprintf(stderr, "tilewright: %s: %s\n", tw_code_text(e->code), e->text);
	abort();
}

_Noreturn void tw_raise_error(const struct tw_error *e)
{
	if (!try_top)
		uncaught(e);
	if (try_top->error && try_top->error != e)
		*try_top->error = *e;
	jump();
}

static _Noreturn void raise_args(enum tw_code code, const char *fmt, va_list args)
{
	struct tw_error e;
	set_text(&e, code, fmt, args);
	tw_raise_error(&e);
}

_Noreturn void tw_raise(enum tw_code code, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	raise_args(code, fmt, args);
}

_Noreturn void tw_check_failed(const char *file, int line, const char *cond, const char *fmt, ...)
{
	char detail[1024];
	va_list args;
	va_start(args, fmt);
	vsnprintf(detail, sizeof(detail), fmt, args);
	va_end(args);
	/* Only the part below src/ is told: where the tree was built is nobody's business. */
	const char *src = strstr(file, "src/");
	tw_raise(TW_ERR_INTERNAL, "%s:%d: %s does not hold%s%s", src ? src : file, line, cond, detail[0] ? ": " : "",
		 detail);
}
