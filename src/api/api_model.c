/* Public interface: what a model says about itself. */
#include "api_int.h"

#include <stdio.h>
#include <stdlib.h>

enum { DIM_TEXT = 128 };

static void describe(const struct twrt_plan *p, const struct twrt_io *io, tilewright_port *port, char **text)
{
	*port = (tilewright_port){.name = io->name, .type = (tilewright_type)io->type, .rank = io->rank};
	for (int d = 0; d < io->rank; d++) {
		twrt_expr_text(&io->dims[d], p->symbols, *text, DIM_TEXT);
		port->dim_text[d] = *text;
		*text += DIM_TEXT;
		port->dims[d] = -1;
		if (twrt_expr_const(&io->dims[d], &port->dims[d]))
			snprintf(*text - DIM_TEXT, DIM_TEXT, "%lld", (long long)port->dims[d]);
	}
}

static int64_t constant_bytes(const struct twrt_plan *p)
{
	int64_t n = 0;
	for (int i = 0; i < p->nbuffers; i++)
		if (p->buffers[i].kind == TWRT_CONST)
			n += p->buffers[i].const_bytes;
	return n;
}

enum tw_code tilewright_wrap_model(struct twrt_model *rt, double compile_ms, double load_ms, bool cached,
				   tilewright_model **out, struct tw_error *e)
{
	const struct twrt_plan *p = twrt_model_plan(rt);
	tilewright_model *m = calloc(1, sizeof(*m));
	int ndims = 0;
	for (int i = 0; i < p->ninputs; i++)
		ndims += p->inputs[i].rank;
	for (int i = 0; i < p->noutputs; i++)
		ndims += p->outputs[i].rank;
	if (m) {
		m->rt = rt;
		m->inputs = calloc((size_t)p->ninputs + 1, sizeof(*m->inputs));
		m->outputs = calloc((size_t)p->noutputs + 1, sizeof(*m->outputs));
		m->texts = calloc((size_t)ndims + 1, DIM_TEXT);
	}
	if (m == NULL || m->inputs == NULL || m->outputs == NULL || m->texts == NULL) {
		if (m)
			tilewright_free_model(m);
		else
			twrt_model_close(rt);
		tw_error_set(e, TW_ERR_MEMORY, "no memory for the model");
		return TW_ERR_MEMORY;
	}
	char *text = m->texts;
	for (int i = 0; i < p->ninputs; i++)
		describe(p, &p->inputs[i], &m->inputs[i], &text);
	for (int i = 0; i < p->noutputs; i++)
		describe(p, &p->outputs[i], &m->outputs[i], &text);
	int64_t bytes;
	int isa;
	twrt_model_image(rt, &bytes, &isa);
	static const char *const keys[] = {"compile_ms", "load_ms",	 "cached",
					   "kernels",	 "bundle bytes", "constant bytes"};
	const double values[] = {compile_ms, load_ms, cached, p->nkernels, (double)bytes, (double)constant_bytes(p)};
	_Static_assert(TW_COUNT(keys) == TW_COUNT(m->facts) && TW_COUNT(keys) == TW_COUNT(values), "one value each");
	for (int i = 0; i < TW_COUNT(keys); i++) {
		m->facts[i].key = keys[i];
		snprintf(m->facts[i].value, sizeof(m->facts[i].value), i < 2 ? "%.3f" : "%.0f", values[i]);
	}
	*out = m;
	return TW_ERR_OK;
}

void tilewright_free_model(tilewright_model *m)
{
	if (m == NULL)
		return;
	twrt_model_close(m->rt);
	free(m->inputs);
	free(m->outputs);
	free(m->texts);
	free(m);
}

int tilewright_count_inputs(const tilewright_model *m)
{
	return m ? twrt_model_plan(m->rt)->ninputs : 0;
}

int tilewright_count_outputs(const tilewright_model *m)
{
	return m ? twrt_model_plan(m->rt)->noutputs : 0;
}

const tilewright_port *tilewright_get_input_port(const tilewright_model *m, int input)
{
	return input >= 0 && input < tilewright_count_inputs(m) ? &m->inputs[input] : NULL;
}

const tilewright_port *tilewright_get_output_port(const tilewright_model *m, int output)
{
	return output >= 0 && output < tilewright_count_outputs(m) ? &m->outputs[output] : NULL;
}

static int find(const tilewright_port *ports, int n, const char *name)
{
	for (int i = 0; name && i < n; i++)
		if (strcmp(ports[i].name, name) == 0)
			return i;
	return -1;
}

int tilewright_find_input(const tilewright_model *m, const char *name)
{
	return m ? find(m->inputs, tilewright_count_inputs(m), name) : -1;
}

int tilewright_find_output(const tilewright_model *m, const char *name)
{
	return m ? find(m->outputs, tilewright_count_outputs(m), name) : -1;
}

int tilewright_count_symbols(const tilewright_model *m)
{
	return m ? twrt_model_plan(m->rt)->nsymbols : 0;
}

const char *tilewright_get_symbol(const tilewright_model *m, int symbol)
{
	return symbol >= 0 && symbol < tilewright_count_symbols(m) ? twrt_model_plan(m->rt)->symbols[symbol] : NULL;
}

const char *tilewright_get_metadata(const tilewright_model *m, const char *key)
{
	static const char prefix[] = "meta:";
	const struct twrt_plan *p = m && key ? twrt_model_plan(m->rt) : NULL;
	for (int i = 0; p && i < p->nmeta; i++)
		if (strncmp(p->meta_keys[i], prefix, strlen(prefix)) == 0 &&
		    strcmp(p->meta_keys[i] + strlen(prefix), key) == 0)
			return p->meta_values[i];
	return NULL;
}

const char *tilewright_get_fact(const tilewright_model *m, const char *key)
{
	const struct twrt_plan *p = m && key ? twrt_model_plan(m->rt) : NULL;
	for (int i = 0; p && i < TW_COUNT(m->facts); i++)
		if (strcmp(m->facts[i].key, key) == 0)
			return m->facts[i].value;
	for (int i = 0; p && i < p->nmeta; i++)
		if (strcmp(p->meta_keys[i], key) == 0)
			return p->meta_values[i];
	return NULL;
}

int tilewright_count_kept(const tilewright_model *m)
{
	const char *text = tilewright_get_fact(m, "kept tensors");
	const int n = text ? atoi(text) : 0;
	return n > 0 && n <= tilewright_count_outputs(m) ? n : 0;
}

int tilewright_count_steps(const tilewright_model *m)
{
	return m ? twrt_model_plan(m->rt)->nsteps : 0;
}

tilewright_status tilewright_get_step(const tilewright_model *m, int step, tilewright_step *out)
{
	if (out == NULL || step < 0 || step >= tilewright_count_steps(m))
		return API_FAIL(TW_ERR_USAGE, "there is no step %d", step);
	static const char *const kinds[] = {
		[TWRT_KERNEL] = "kernel", [TWRT_HOST] = "host", [TWRT_COPY] = "copy", [TWRT_LOOP] = "flow",
		[TWRT_NEXT] = "flow",	  [TWRT_SKIP] = "flow", [TWRT_SET] = "flow"};
	const struct twrt_step *s = &twrt_model_plan(m->rt)->steps[step];
	const char *program = s->kind == TWRT_HOST ? s->host : s->kind == TWRT_COPY ? "copy" : s->program;
	*out = (tilewright_step){s->label ? s->label : "", program ? program : "", kinds[s->kind],
				 s->schedule ? s->schedule : ""};
	return TILEWRIGHT_OK;
}
