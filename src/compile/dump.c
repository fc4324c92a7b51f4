/* Dumps: one text file for each program and pass, numbered in order: DIR/0007.conv_relu.03.expand_mapping.tw */
#include "compile/compile_int.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

static int pass_number(const char *pass)
{
	for (int i = 0; tw_cpu_passes[i].name; i++)
		if (strcmp(tw_cpu_passes[i].name, pass) == 0)
			return i + 1;
	return 0;
}

void twc_dump(void *arg, struct twc *c, int number, const char *pass, const struct twir_program *p)
{
	(void)arg;
	const char *dir = c->o->dump_dir;
	if (mkdir(dir, 0777) != 0 && errno != EEXIST)
		tw_raise(TW_ERR_IO, "cannot make the folder %s: %s", dir, strerror(errno));
	struct arena_mark mark = arena_mark(c->arena);
	const char *path =
		arena_printf(c->arena, "%s/%04d.%s.%02d.%s.tw", dir, number, p->name, pass_number(pass), pass);
	FILE *f = fopen(path, "w");
	const char *text = twir_print_program(c->arena, c->m, p);
	const bool good = f && fputs(text, f) >= 0 && fflush(f) == 0;
	const int why = errno;
	if (f)
		fclose(f);
	if (!good)
		tw_raise(TW_ERR_IO, "cannot write %s: %s", path, strerror(why));
	arena_release(c->arena, mark);
}
