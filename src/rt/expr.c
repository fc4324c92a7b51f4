/* Size expressions: postfix code over symbols. Input: code checked once by twrt_expr_valid; output: a value, or "does
 * not fit in 64 bits". */
#include "rt_int.h"

#include <stdio.h>

static int operands(int64_t op) /* how many an operator takes; -1: no such operator */
{
	switch (op) {
	case TWRT_PUSH:
	case TWRT_SYM:
		return 0;
	case TWRT_NOT:
	case TWRT_NEG:
		return 1;
	case TWRT_SELECT:
		return 3;
	default:
		return op > TWRT_SYM && op < TWRT_NOT ? 2 : -1;
	}
}

bool twrt_expr_valid(const struct twrt_expr *x, int nsymbols)
{
	if (x->n == 0)
		return true;
	if (x->n < 0 || x->n > TWRT_EXPR_WORDS || x->code == NULL)
		return false;
	int depth = 0;
	for (int i = 0; i < x->n; i++) {
		const int64_t op = x->code[i];
		const int need = operands(op);
		if (need < 0 || depth < need)
			return false;
		if (need == 0) {
			if (++i >= x->n || (op == TWRT_SYM && (x->code[i] < 0 || x->code[i] >= nsymbols)))
				return false;
		}
		depth += 1 - need;
		if (depth > TWRT_EXPR_DEPTH)
			return false;
	}
	return depth == 1;
}

static int64_t sub64(int64_t a, int64_t b, bool *bad)
{
	int64_t r;
	if (__builtin_sub_overflow(a, b, &r))
		*bad = true;
	return r;
}

static int64_t trunc_div(int64_t a, int64_t b, bool *bad)
{
	if (b == 0)
		return 0;
	return b == -1 ? sub64(0, a, bad) : a / b;
}

static int64_t floor_div(int64_t a, int64_t b, bool *bad)
{
	if (b == -1)
		return sub64(0, a, bad);
	return tw_floordiv(a, b);
}

static int64_t ceil_div(int64_t a, int64_t b, bool *bad)
{
	if (b == 0)
		return 0;
	if (b == -1)
		return sub64(0, a, bad);
	return a / b + (a % b != 0 && (a % b < 0) == (b < 0));
}

static int64_t binary(int64_t op, int64_t a, int64_t b, bool *bad)
{
	switch (op) {
	case TWRT_ADD:
		return tw_add64(a, b, bad);
	case TWRT_SUB:
		return sub64(a, b, bad);
	case TWRT_MUL:
		return tw_mul64(a, b, bad);
	case TWRT_FLOORDIV:
		return floor_div(a, b, bad);
	case TWRT_FLOORMOD:
		return tw_floormod(a, b);
	case TWRT_TRUNCDIV:
		return trunc_div(a, b, bad);
	case TWRT_TRUNCMOD:
		return b == 0 || b == -1 ? 0 : a % b;
	case TWRT_CEILDIV:
		return ceil_div(a, b, bad);
	case TWRT_ROUNDUP:
		return tw_mul64(ceil_div(a, b, bad), b, bad);
	case TWRT_MIN:
		return a < b ? a : b;
	case TWRT_MAX:
		return a > b ? a : b;
	case TWRT_LT:
		return a < b;
	case TWRT_LE:
		return a <= b;
	case TWRT_EQ:
		return a == b;
	case TWRT_NE:
		return a != b;
	case TWRT_AND:
		return a && b;
	default: /* TWRT_OR: twrt_expr_valid let nothing else through */
		return a || b;
	}
}

int64_t twrt_expr_eval(const struct twrt_expr *x, const int64_t *symbols, bool *bad)
{
	int64_t stack[TWRT_EXPR_DEPTH + 1];
	int n = 0;
	if (x->n == 0)
		return 0;
	for (int i = 0; i < x->n; i++) {
		const int64_t op = x->code[i];
		switch (op) {
		case TWRT_PUSH:
			stack[n++] = x->code[++i];
			break;
		case TWRT_SYM:
			stack[n++] = symbols[x->code[++i]];
			break;
		case TWRT_NOT:
			stack[n - 1] = !stack[n - 1];
			break;
		case TWRT_NEG:
			stack[n - 1] = sub64(0, stack[n - 1], bad);
			break;
		case TWRT_SELECT:
			n -= 2;
			stack[n - 1] = stack[n - 1] ? stack[n] : stack[n + 1];
			break;
		default:
			n--;
			stack[n - 1] = binary(op, stack[n - 1], stack[n], bad);
		}
	}
	return stack[0];
}

bool twrt_expr_const(const struct twrt_expr *x, int64_t *value)
{
	bool bad = false;
	for (int i = 0; i < x->n; i++) {
		if (x->code[i] == TWRT_SYM)
			return false;
		i += x->code[i] == TWRT_PUSH;
	}
	const int64_t v = twrt_expr_eval(x, NULL, &bad);
	if (!bad)
		*value = v;
	return !bad;
}

/* Infix text. Each stack entry is a range of one growing buffer's pieces, kept simple: strings of bounded length,
   "..." beyond. */
void twrt_expr_text(const struct twrt_expr *x, const char *const *symbols, char *text, size_t size)
{
	static const char *const names[] = {[TWRT_ADD] = "+",
					    [TWRT_SUB] = "-",
					    [TWRT_MUL] = "*",
					    [TWRT_FLOORDIV] = "//",
					    [TWRT_FLOORMOD] = "%",
					    [TWRT_TRUNCDIV] = "/",
					    [TWRT_TRUNCMOD] = "rem",
					    [TWRT_CEILDIV] = "ceildiv",
					    [TWRT_ROUNDUP] = "roundup",
					    [TWRT_MIN] = "min",
					    [TWRT_MAX] = "max",
					    [TWRT_LT] = "<",
					    [TWRT_LE] = "<=",
					    [TWRT_EQ] = "==",
					    [TWRT_NE] = "!=",
					    [TWRT_AND] = "and",
					    [TWRT_OR] = "or"};
	enum { PIECE = 160, SHALLOW = 8 };
	char stack[SHALLOW][PIECE];
	int n = 0;
	for (int i = 0; i < x->n; i++) {
		const int64_t op = x->code[i];
		char out[3 * PIECE + 32];
		const int need = operands(op);
		if (n - need + 1 > SHALLOW) {
			snprintf(text, size, "...");
			return;
		}
		if (op == TWRT_PUSH)
			snprintf(out, sizeof(out), "%lld", (long long)x->code[++i]);
		else if (op == TWRT_SYM)
			snprintf(out, sizeof(out), "%s", symbols[x->code[++i]]);
		else if (need == 1)
			snprintf(out, sizeof(out), "%s%s", op == TWRT_NOT ? "not " : "-", stack[n - 1]);
		else if (op == TWRT_SELECT)
			snprintf(out, sizeof(out), "select(%s, %s, %s)", stack[n - 3], stack[n - 2], stack[n - 1]);
		else if (op >= TWRT_CEILDIV && op <= TWRT_MAX)
			snprintf(out, sizeof(out), "%s(%s, %s)", names[op], stack[n - 2], stack[n - 1]);
		else if (n == 2 && i + 1 == x->n)
			snprintf(out, sizeof(out), "%s %s %s", stack[n - 2], names[op], stack[n - 1]);
		else
			snprintf(out, sizeof(out), "(%s %s %s)", stack[n - 2], names[op], stack[n - 1]);
		n -= need;
		if (strlen(out) >= PIECE)
			snprintf(out, sizeof(out), "...");
		memcpy(stack[n++], out, strlen(out) + 1);
	}
	snprintf(text, size, "%s", n ? stack[0] : "0");
}
