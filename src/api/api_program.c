/* Public interface: programs in the language of task mappings. */
#include "api_int.h"

#include "compile/program.h"

#include <stdlib.h>

struct tilewright_program {
	struct tw_program *p;
	tilewright_port *ports; /* of the parameters */
};

static void describe(tilewright_program *p)
{
	const struct tw_param *params;
	const int n = tw_program_params(p->p, &params);
	for (int i = 0; i < n; i++) {
		tilewright_port *port = &p->ports[i];
		*port = (tilewright_port){
			.name = params[i].name, .type = (tilewright_type)params[i].type, .rank = params[i].rank};
		for (int d = 0; d < params[i].rank; d++) {
			port->dims[d] = params[i].dims[d];
			port->dim_text[d] = params[i].dim_text[d];
		}
	}
}

tilewright_status tilewright_open_program(const char *name, const char *text, const char *which,
					  tilewright_program **program)
{
	if (text == NULL || program == NULL)
		return API_FAIL(TW_ERR_USAGE, "text or program is NULL");
	*program = NULL;
	tilewright_program *p = calloc(1, sizeof(*p));
	if (p == NULL)
		return API_FAIL(TW_ERR_MEMORY, "no memory for a program");
	const enum tw_code code = tw_program_open(name ? name : "program", text, which, &p->p, tilewright_error_slot());
	if (code != TW_ERR_OK) {
		free(p);
		return (tilewright_status)code;
	}
	p->ports = calloc((size_t)tilewright_count_parameters(p) + 1, sizeof(*p->ports));
	if (p->ports == NULL) {
		tilewright_free_program(p);
		return API_FAIL(TW_ERR_MEMORY, "no memory for a program");
	}
	describe(p);
	*program = p;
	return TILEWRIGHT_OK;
}

tilewright_status tilewright_open_program_file(const char *path, const char *which, tilewright_program **program)
{
	if (path == NULL || program == NULL)
		return API_FAIL(TW_ERR_USAGE, "path or program is NULL");
	*program = NULL;
	tilewright_status s;
	char *text = tilewright_read_text(path, &s);
	if (text)
		s = tilewright_open_program(path, text, which, program);
	free(text);
	return s;
}

void tilewright_free_program(tilewright_program *p)
{
	if (p == NULL)
		return;
	tw_program_close(p->p);
	free(p->ports);
	free(p);
}

const char *tilewright_get_program_name(const tilewright_program *p)
{
	return p ? tw_program_name(p->p) : NULL;
}

int tilewright_count_parameters(const tilewright_program *p)
{
	const struct tw_param *params;
	return p ? tw_program_params(p->p, &params) : 0;
}

const tilewright_port *tilewright_get_parameter(const tilewright_program *p, int i, int *is_output)
{
	const struct tw_param *params;
	if (p == NULL || i < 0 || i >= tw_program_params(p->p, &params))
		return NULL;
	if (is_output)
		*is_output = params[i].is_out;
	return &p->ports[i];
}

int tilewright_count_sizes(const tilewright_program *p)
{
	return p ? tw_program_symbols(p->p) : 0;
}

const char *tilewright_get_size(const tilewright_program *p, int i, int64_t *value)
{
	int64_t own;
	return i >= 0 && i < tilewright_count_sizes(p) ? tw_program_symbol(p->p, i, value ? value : &own) : NULL;
}

#define NEED_PROGRAM(p)                                                                                                \
	do {                                                                                                           \
		if ((p) == NULL)                                                                                       \
			return API_FAIL(TW_ERR_USAGE, "the program is NULL");                                          \
	} while (0)

tilewright_status tilewright_set_size(tilewright_program *p, const char *symbol, int64_t value)
{
	NEED_PROGRAM(p);
	if (symbol == NULL || value < 0)
		return API_FAIL(TW_ERR_USAGE, "a size needs a name and a value of 0 or more");
	const enum tw_code code = tw_program_size(p->p, symbol, value, tilewright_error_slot());
	describe(p);
	return (tilewright_status)code;
}

tilewright_status tilewright_check_program(const tilewright_program *p, int unproved, char **text)
{
	NEED_PROGRAM(p);
	if (text == NULL)
		return API_FAIL(TW_ERR_USAGE, "text is NULL");
	return (tilewright_status)tw_program_check(p->p, unproved != 0, text, tilewright_error_slot());
}

tilewright_status tilewright_show_program(const tilewright_program *p, const char *pass, const char *target,
					  const tilewright_options *options, char **text)
{
	NEED_PROGRAM(p);
	if (pass == NULL || text == NULL)
		return API_FAIL(TW_ERR_USAGE, "pass or text is NULL");
	const struct tw_compile_options o = tilewright_compile_options(options);
	return (tilewright_status)tw_program_stage(p->p, pass, target, &o, text, tilewright_error_slot());
}

tilewright_status tilewright_emit_program(const tilewright_program *p, const char *target,
					  const tilewright_options *options, char **text)
{
	NEED_PROGRAM(p);
	if (text == NULL)
		return API_FAIL(TW_ERR_USAGE, "text is NULL");
	const struct tw_compile_options o = tilewright_compile_options(options);
	return (tilewright_status)tw_program_emit(p->p, target, &o, text, tilewright_error_slot());
}

tilewright_status tilewright_compile_program(const tilewright_program *p, const tilewright_options *options,
					     tilewright_model **model)
{
	NEED_PROGRAM(p);
	if (model == NULL)
		return API_FAIL(TW_ERR_USAGE, "model is NULL");
	*model = NULL;
	struct tw_error *e = tilewright_error_slot();
	const struct tw_compile_options o = tilewright_compile_options(options);
	void *image = NULL;
	int64_t bytes = 0;
	struct twrt_model *rt;
	const double start = tilewright_now_ms();
	enum tw_code code = tw_program_compile(p->p, &o, &image, &bytes, e);
	if (code != TW_ERR_OK)
		return (tilewright_status)code;
	const double compiled = tilewright_now_ms();
	code = twrt_model_open(image, bytes, TWRT_FREE, &rt, e);
	if (code != TW_ERR_OK)
		return (tilewright_status)code;
	return (tilewright_status)tilewright_wrap_model(rt, compiled - start, tilewright_now_ms() - compiled, false,
							model, e);
}

tilewright_status tilewright_run_program(const tilewright_program *p, tilewright_engine engine, int count,
					 void *const *data, int runs, double *ms)
{
	NEED_PROGRAM(p);
	struct tw_error *e = tilewright_error_slot();
	if (count != tilewright_count_parameters(p) || (count > 0 && data == NULL) || runs < 1)
		return API_FAIL(TW_ERR_USAGE, "%d tensors for %d parameters, %d runs", count,
				tilewright_count_parameters(p), runs);
	for (int i = 0; i < count; i++)
		if (data[i] == NULL)
			return API_FAIL(TW_ERR_INPUT, "parameter %s has no data", p->ports[i].name);
	if (engine == TILEWRIGHT_OPENCL)
		return (tilewright_status)tw_program_opencl(p->p, data, runs, ms, e);
	if (engine != TILEWRIGHT_INTERPRETER)
		return API_FAIL(TW_ERR_USAGE, "there is no engine %d", (int)engine);
	for (int i = 0; i < runs; i++) {
		const double start = tilewright_now_ms();
		const enum tw_code code = tw_program_interpret(p->p, data, e);
		if (code != TW_ERR_OK)
			return (tilewright_status)code;
		if (ms)
			ms[i] = tilewright_now_ms() - start;
	}
	return TILEWRIGHT_OK;
}

tilewright_status tilewright_count_work(const tilewright_program *p, double *operations, double *bytes)
{
	NEED_PROGRAM(p);
	if (operations == NULL || bytes == NULL)
		return API_FAIL(TW_ERR_USAGE, "operations or bytes is NULL");
	return (tilewright_status)tw_program_work(p->p, operations, bytes, tilewright_error_slot());
}
