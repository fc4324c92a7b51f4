/* space: the points of a schedule template on this machine, for people and for tools that tune. Input: a template's name; output: text, one point a line.
 * The points come from the target alone; no model is looked at. */
#include "compile/compile_int.h"

#include "sched/sched.h"

struct space_job {
	struct tw_arena *arena;
	const char *schedule;
	struct tw_buf text;
};

static void list_points(void *arg)
{
	struct space_job *j = arg;
	struct tw_target t;
	struct tw_buf names;
	tw_target_host(&t);
	buf_init(&names, j->arena);
	buf_init(&j->text, j->arena);
	for (int i = 0; tw_templates[i]; i++) {
		buf_printf(&names, "%s%s", i ? ", " : "", tw_templates[i]->name);
		if (strcmp(tw_templates[i]->name, j->schedule) != 0)
			continue;
		struct tw_space s = {0};
		tw_templates[i]->space(j->arena, &t, &s);
		for (int p = 0; p < s.points.n; p++)
			for (int k = 0; k < s.nparams; k++)
				buf_printf(&j->text, "%s=%d%c", s.names[k], s.points.at[p].value[k],
					   k + 1 < s.nparams ? ' ' : '\n');
		return;
	}
	tw_raise(TW_ERR_USAGE, "no schedule template is called '%.40s'; there are %s", j->schedule, names.at);
}

enum tw_code tw_describe_space(const char *schedule, char **text, struct tw_error *e)
{
	struct space_job j = {.arena = arena_new(), .schedule = schedule};
	*text = NULL;
	if (!j.arena) {
		tw_error_set(e, TW_ERR_MEMORY, "out of memory");
		return TW_ERR_MEMORY;
	}
	enum tw_code code = tw_try(e, list_points, &j) ? TW_ERR_OK : e->code;
	if (code == TW_ERR_OK && !(*text = strdup(j.text.at))) {
		tw_error_set(e, TW_ERR_MEMORY, "out of memory");
		code = TW_ERR_MEMORY;
	}
	arena_free(j.arena);
	return code;
}
