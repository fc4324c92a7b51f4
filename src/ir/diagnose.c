/* diagnose: what a person should know of a program, as a list: what the verifier refuses first (everything else builds
 * on a sound program), then what can be said about accesses. Errors are certain, unproved ones may be fine. */
#include "ir/verify_int.h"

const char *twir_severity_name(enum twir_severity s)
{
	static const char *const names[] = {"error", "warning", "unproved"};
	_Static_assert(TW_COUNT(names) == TWIR_SEVERITIES, "a name for each");
	return names[s];
}

struct job {
	const struct twir_program *p;
	struct tw_arena *arena;
	struct twir_diagnostic fault;
};

static void verify(void *arg)
{
	struct job *j = arg;
	twir_verify_reporting(j->p, TW_ERR_MODEL, &j->fault, j->arena);
}

struct twir_diagnostics twir_diagnose_program(struct twir_module *m, const struct twir_program *p, struct tw_arena *a)
{
	(void)m;
	struct job j = {.p = p, .arena = a};
	struct twir_diagnostics d = {0};
	struct tw_error e;
	if (tw_try(&e, verify, &j))
		return d;
	if (!j.fault.text) /* no fault of the program's: memory, or ours */
		tw_raise_error(&e);
	d.at = arena_copy(a, &j.fault, sizeof(j.fault));
	d.n = d.count[TWIR_ERROR] = 1;
	return d;
}
