/* api's own declarations. */
#ifndef TW_API_INT_H
#define TW_API_INT_H

#include "compile/compile.h"
#include "rt/rt.h"
#include "tilewright.h"

/* The calling thread's last error. */
struct tw_error *tilewright_error_slot(void);
#define API_FAIL(code, ...) tilewright_fail((code), __VA_ARGS__)
tilewright_status tilewright_fail(enum tw_code code, const char *fmt, ...) TW_PRINTF(2, 3);

struct tilewright_options {
	int jobs;
	char isa[16]; /* "": the host's */
	int noperators;
	struct tw_operator_text *operators;
	bool use_cache, plain, keep, exact;
	char *dump;
	int nfixed;
	char **fixed_names;
	int64_t *fixed_values;
	void (*log)(void *arg, tilewright_log_level level, const char *text);
	void *log_arg;
	int (*cancel)(void *arg);
	void *cancel_arg;
	int (*progress)(void *arg, const char *stage, int done, int all);
	void *progress_arg;
};
/* o may be NULL. The result points into o. */
struct tw_compile_options tilewright_compile_options(const tilewright_options *o);
void tilewright_log(const tilewright_options *o, tilewright_log_level level, const char *text);

struct fact {
	const char *key;
	char value[32];
};
struct tilewright_model {
	struct twrt_model *rt;
	tilewright_port *inputs, *outputs;
	char *texts; /* what the ports' dim_text point to */
	struct fact facts[6];
};
/* Takes rt over, also when it fails. */
enum tw_code tilewright_wrap_model(struct twrt_model *rt, double compile_ms, double load_ms, bool cached,
				   tilewright_model **out, struct tw_error *e);
double tilewright_now_ms(void);
/* api_text.c: a file as text (malloc); NULL: *status tells why. */
char *tilewright_read_text(const char *path, tilewright_status *status);

#endif
